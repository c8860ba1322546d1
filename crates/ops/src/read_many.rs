//! ReadMany: reads several files, each as Read shows it.
//!
//! An unreadable file gets its error in place; a path outside the roots or a denied one fails the call.

use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Facts, FileSettings, Kind, Operation, Targets, ToolError,
};

use crate::read;

/// The most files of one call.
const MAX_FILES: usize = 1_000;

/// Reads several files.
#[derive(Debug)]
pub struct ReadMany;

/// Arguments of ReadMany.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadManyArgs {
    /// The files.
    pub paths: Vec<String>,
}

/// The outcome of one file.
#[derive(Debug)]
pub struct One {
    /// The path as it was written.
    pub path: String,
    /// The content, or the error.
    pub found: Result<read::ReadOut, ToolError>,
}

impl Operation for ReadMany {
    const NAME: &'static str = "ReadMany";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = ReadManyArgs;
    type Out = Vec<One>;

    fn check(args: &ReadManyArgs) -> Result<(), ToolError> {
        let n = args.paths.len();
        if MAX_FILES < n {
            let problem = format!("holds {n} paths, more than {MAX_FILES}");
            return Err(ToolError::argument("paths", problem));
        }
        Ok(())
    }

    fn claims(args: &ReadManyArgs, _settings: &FileSettings) -> Vec<Claim> {
        let claim = |path: &String| Claim::new("paths", Some(path.clone()), Access::Read);
        args.paths.iter().map(claim).collect()
    }

    fn cost(_args: &ReadManyArgs, _targets: &Targets) -> Cost {
        Cost::Long
    }

    async fn run(args: &ReadManyArgs, cx: &Context) -> Result<Vec<One>, ToolError> {
        let mut all = Vec::with_capacity(args.paths.len());
        let mut left = cx.settings.read_reply_bytes;
        for (at, path) in args.paths.iter().enumerate() {
            cx.still_wanted()?;
            let found = match left {
                0 => Err(ToolError::new(
                    Kind::LimitReached,
                    "the files before it filled the reply; read it by itself",
                )),
                _ => read::whole(path, cx, at),
            };
            if let Ok(read::ReadOut::Text(text)) = &found {
                left = left.saturating_sub(usize::try_from(text.bytes).unwrap_or(usize::MAX));
            }
            all.push(One { path: path.clone(), found });
        }
        Ok(all)
    }
}

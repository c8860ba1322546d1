//! Info: returns the metadata of a file or directory.

use std::path::PathBuf;

use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Facts, FileSettings, Operation, Targets, ToolError,
};

/// Returns the metadata of a path.
#[derive(Debug)]
pub struct Info;

/// Arguments of Info.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InfoArgs {
    /// The file or directory.
    pub path: String,
}

/// Outcome of Info.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfoOut {
    /// The real path.
    pub path: PathBuf,
    /// The metadata.
    pub info: sinew_tool::Info,
}

impl Operation for Info {
    const NAME: &'static str = "Info";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = InfoArgs;
    type Out = InfoOut;

    fn claims(args: &InfoArgs, _settings: &FileSettings) -> Vec<Claim> {
        vec![Claim::new("path", Some(args.path.clone()), Access::Search)]
    }

    fn cost(_args: &InfoArgs, _targets: &Targets) -> Cost {
        Cost::Cheap
    }

    async fn run(_args: &InfoArgs, cx: &Context) -> Result<InfoOut, ToolError> {
        let target = cx.target(0)?;
        let info = cx.world.files.info(target.slot).map_err(|error| cx.about(target, error))?;
        Ok(InfoOut { path: target.path.clone(), info })
    }
}

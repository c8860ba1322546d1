//! Info: what is known of a file or directory without reading it.

use std::path::PathBuf;

use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Facts, FileSettings, Operation, Targets, ToolError,
};

/// Tells what is known of a path.
#[derive(Debug)]
pub struct Info;

/// What Info is asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InfoArgs {
    /// The file or directory.
    pub path: String,
}

/// What Info found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfoOut {
    /// The real path.
    pub path: PathBuf,
    /// What is there.
    pub info: sinew_tool::Info,
}

impl Operation for Info {
    const NAME: &'static str = "Info";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = InfoArgs;
    type Out = InfoOut;

    fn claims(args: &InfoArgs, _settings: &FileSettings) -> Vec<Claim> {
        vec![Claim { argument: "path", path: Some(args.path.clone()), access: Access::Search }]
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

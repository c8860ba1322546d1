//! Roots: lists the directories that the call may touch.

use std::path::PathBuf;

use serde::Deserialize;
use sinew_tool::{Context, Cost, Facts, Operation, Targets, ToolError};

/// Lists the roots.
#[derive(Debug)]
pub struct Roots;

/// Arguments of Roots: none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootsArgs {}

impl Operation for Roots {
    const NAME: &'static str = "Roots";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = RootsArgs;
    type Out = Vec<PathBuf>;

    fn cost(_args: &RootsArgs, _targets: &Targets) -> Cost {
        Cost::Cheap
    }

    async fn run(_args: &RootsArgs, cx: &Context) -> Result<Vec<PathBuf>, ToolError> {
        Ok(cx.world.files.roots())
    }
}

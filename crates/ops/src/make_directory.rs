//! MakeDirectory: creates a directory and its missing parents.
//!
//! An existing directory is no error. It has no native row, since Write creates parent directories.

use std::path::PathBuf;

use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Facts, FileSettings, FileState, Operation, Preview, Targets,
    ToolError,
};

/// Makes a directory.
#[derive(Debug)]
pub struct MakeDirectory;

/// Arguments of MakeDirectory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MakeDirectoryArgs {
    /// The directory.
    pub path: String,
}

/// Outcome of MakeDirectory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MakeDirectoryOut {
    /// The real path.
    pub path: PathBuf,
    /// Whether it was not there before.
    pub made: bool,
}

impl Operation for MakeDirectory {
    const NAME: &'static str = "MakeDirectory";
    const FACTS: Facts = Facts { idempotent: true, destructive: false, ..Facts::CHANGES };
    type Args = MakeDirectoryArgs;
    type Out = MakeDirectoryOut;

    fn claims(args: &MakeDirectoryArgs, _settings: &FileSettings) -> Vec<Claim> {
        let path = without_slash(&args.path).to_owned();
        vec![Claim::new("path", Some(path), Access::Make)]
    }

    fn cost(_args: &MakeDirectoryArgs, _targets: &Targets) -> Cost {
        Cost::Cheap
    }

    fn preview(_args: &MakeDirectoryArgs, cx: &Context) -> Preview {
        let Ok(target) = cx.target(0) else { return Preview::Nothing };
        match target.state {
            FileState::Found(_) => Preview::Nothing,
            FileState::Missing => {
                Preview::Diff(format!("new directory: {}\n", cx.shown(&target.path)))
            }
        }
    }

    async fn run(_args: &MakeDirectoryArgs, cx: &Context) -> Result<MakeDirectoryOut, ToolError> {
        let target = cx.target(0)?;
        let made = cx.world.files.make_directory(target.slot);
        let made = made.map_err(|error| cx.about(target, error))?;
        Ok(MakeDirectoryOut { path: target.path.clone(), made })
    }
}

/// Returns a path without trailing slashes, which mean a directory even before it exists.
pub(crate) fn without_slash(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" if !path.is_empty() => "/",
        path => path,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sinew_testkit::{MemoryWorld, call};
    use sinew_tool::{Kind, Param, ParamKind, Reply, Row};

    use super::*;

    const ROW: Row<MakeDirectory> = Row {
        name: "mkdir",
        description: "",
        params: &[Param::required("path", "path", ParamKind::String, "")],

        ..Row::<MakeDirectory>::shaped(|_, out, shaping| {
            Reply::text(format!("{} {}", shaping.shown(&out.path), out.made))
        })
    };

    #[track_caller]
    fn check(path: &str, expected: Result<&str, Kind>) {
        let world = MemoryWorld::new();
        world.file("there/file", "").link("dangling", "nowhere");
        let reply = call(&world, &ROW.tool(), json!({ "path": path }));
        match (&reply.error, expected) {
            (Some(error), expected) => assert_eq!(Err(error.kind), expected, "{path}"),
            (None, expected) => assert_eq!(Ok(reply), expected.map(Reply::text), "{path}"),
        }
    }

    #[test]
    fn a_directory_is_made_where_none_is() {
        check("new", Ok("new true"));
        check("new/", Ok("new true"));
        check("a/b/c", Ok("a/b/c true"));
        check("there", Ok("there false"));
        check("there/", Ok("there false"));
        check("there/file", Err(Kind::ExecutionFailed));
        check("there/file/x", Err(Kind::NotRegularFile));
        check("dangling", Err(Kind::FileNotFound));
        check("../x", Err(Kind::PathDenied));
    }
}

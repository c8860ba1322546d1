//! Move: renames a file, a directory or a symbolic link itself.
//!
//! It never replaces or copies: a move that one rename cannot do, as between two file systems, is rejected.
//! The guard judges the content that a directory takes along.

use std::path::PathBuf;

use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Facts, FileSettings, FileState, Kind, Links, Operation, Preview,
    Targets, ToolError,
};

use crate::make_directory::without_slash;

/// Moves a file, a directory or a symbolic link.
#[derive(Debug)]
pub struct Move;

/// Arguments of Move.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovePathArgs {
    /// The file, directory or symbolic link to move.
    pub source: String,
    /// Its new name.
    pub destination: String,
}

/// Outcome of Move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovePathOut {
    /// The real path of the source.
    pub from: PathBuf,
    /// The real path of the destination.
    pub to: PathBuf,
    /// How it ended.
    pub end: End,
}

/// How a move ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was moved.
    Moved,
    /// There is nothing to move.
    NotFound,
    /// The new name exists already.
    Exists,
    /// The directory of the new name does not exist.
    NoParent,
}

impl Operation for Move {
    const NAME: &'static str = "Move";
    const FACTS: Facts = Facts::CHANGES;
    type Args = MovePathArgs;
    type Out = MovePathOut;

    fn claims(args: &MovePathArgs, _settings: &FileSettings) -> Vec<Claim> {
        let write = Access::Write { parents: false, links: Links::Itself };
        let claim = |argument, path: &str, access| {
            Claim::new(argument, Some(without_slash(path).to_owned()), access)
        };
        vec![
            claim("source", &args.source, Access::Move),
            claim("destination", &args.destination, write),
        ]
    }

    fn cost(_args: &MovePathArgs, _targets: &Targets) -> Cost {
        // The guard walks a moved directory, and a file is read for its hash.
        Cost::Long
    }

    fn preview(_args: &MovePathArgs, cx: &Context) -> Preview {
        let (Ok(from), Ok(to)) = (cx.target(0), cx.target(1)) else { return Preview::Nothing };
        match (&from.state, &to.state) {
            (FileState::Found(meta), FileState::Missing) => Preview::Diff(format!(
                "rename {} from {} to {}\n",
                meta.kind.as_str(),
                cx.shown(&from.path),
                cx.shown(&to.path)
            )),
            _ => Preview::Nothing,
        }
    }

    async fn run(_args: &MovePathArgs, cx: &Context) -> Result<MovePathOut, ToolError> {
        let (from, to) = (cx.target(0)?, cx.target(1)?);
        let end = match (&from.state, &to.state) {
            (FileState::Missing, _) => End::NotFound,
            (_, FileState::Found(_)) => End::Exists,
            (_, FileState::Missing) => match cx.rename(from).await {
                Ok(()) => End::Moved,
                Err(error) if error.kind == Kind::FileNotFound => End::NoParent,
                Err(error) => return Err(error),
            },
        };
        Ok(MovePathOut { from: from.path.clone(), to: to.path.clone(), end })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sinew_testkit::{MemoryWorld, call};
    use sinew_tool::{FileError, Param, ParamKind, Reply, Row};

    use super::*;

    const ROW: Row<Move> = Row {
        name: "mv",
        description: "",
        params: &[
            Param::required("from", "source", ParamKind::String, ""),
            Param::required("to", "destination", ParamKind::String, ""),
        ],

        ..Row::<Move>::shaped(|_, out, shaping| {
            let error = match out.end {
                End::Moved => return Reply::text(""),
                End::NotFound => shaping.about(0, FileError::Missing),
                End::Exists => shaping.about(1, FileError::Exists),
                End::NoParent => shaping.about(1, FileError::NoParent),
            };
            Reply::failure(&error)
        })
    };

    /// Moves something and compares the reply, and that it is at its new name alone.
    #[track_caller]
    fn check(from: &str, to: &str, expected: Result<(), &str>) {
        let world = MemoryWorld::new();
        world.file("file", "x").file("d/inner", "y").link("link", "file");
        let reply = call(&world, &ROW.tool(), json!({ "from": from, "to": to }));
        match expected {
            Ok(()) => {
                assert!(reply.ok, "{from} {to}: {reply:?}");
                assert!(world.meta(from).is_none() && world.meta(to).is_some(), "{from} {to}");
            }
            Err(words) => {
                let error = reply.error.expect("a refusal");
                assert_eq!(error.message, words, "{from} {to}");
                assert!(world.meta("file").is_some() && world.meta("d/inner").is_some());
            }
        }
    }

    #[test]
    fn what_is_moved_replaces_nothing() {
        check("file", "d/file", Ok(()));
        check("d", "e", Ok(()));
        check("link", "other", Ok(()));
        check("file", "d/inner", Err("argument `to`: something is there already: d/inner"));
        check("file", "link", Err("argument `to`: something is there already: link"));
        check("file", "no/x", Err("argument `to`: the parent directory does not exist: no/x"));
        check("no", "x", Err("argument `from`: no such file: no"));
        check("no/x", "x", Err("argument `from`: no such file: no/x"));
        check("d", "d/e", Err("argument `from`: the path cannot be moved into itself: d"));
    }

    #[test]
    fn a_question_shows_both_names() {
        let world = MemoryWorld::new();
        world.file("file", "x");
        let shown = |from: &str, to: &str| {
            world.preview(&ROW.tool(), &json!({ "from": from, "to": to })).expect("a preview")
        };
        let diff = Preview::Diff(String::from("rename file from file to d\n"));
        assert_eq!(shown("file", "d"), diff);
        assert_eq!(shown("none", "d"), Preview::Nothing);
    }
}

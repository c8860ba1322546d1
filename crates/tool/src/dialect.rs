//! A dialect: one tool vocabulary.

use std::sync::Arc;

use serde_json::Value;

use crate::{FileSettings, Reply, Tool, ToolError};

/// A stateless table of names, parameters, units, defaults, limits and reply shapes of operations.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// The name on the command line.
    pub name: &'static str,
    /// Makes the tools, in the order of the catalog.
    pub tools: fn() -> Vec<Arc<dyn Tool>>,
    /// Returns the settings before configuration.
    pub settings: fn() -> FileSettings,
    /// The default time limit of an approval, in milliseconds.
    pub approval_timeout_ms: u64,
    /// What holds for all its replies.
    pub conventions: Conventions,
}

/// What holds for all replies of a dialect, beside the shapes of its rows.
#[derive(Debug, Clone, Copy)]
pub struct Conventions {
    /// Shapes an error of a call before its tool is known.
    pub fail: fn(&ToolError) -> Reply,
    /// Whether notes of sinew go to `meta.notes`, because the text of a reply is the result alone.
    pub notes_apart: bool,
    /// Whether relative and absent paths in arguments are joined with the working directory before hooks see them.
    pub joined_paths: bool,
    /// Where full outputs of cut replies are kept, if not in the store of sinew.
    pub outputs: Option<Outputs>,
    /// Makes the structured result of a reply that has none, after hooks and limits. It gets the first path of the
    /// call as its arguments name it.
    pub envelope: Option<fn(&Reply, Option<&str>) -> Value>,
    /// How it names the tools of other servers.
    pub foreign_names: ForeignNames,
    /// Whether a call runs alone in its session, unless its tool only observes and is
    /// [`parallel`](crate::Facts::parallel).
    pub takes_turns: bool,
}

/// How a dialect names the tools of other servers: `{prefix}{server}{separator}{tool}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignNames {
    /// The text before the name of the server.
    pub prefix: &'static str,
    /// The text between the names of the server and the tool.
    pub separator: &'static str,
    /// Whether a tool keeps its own name where no other tool has it.
    pub bare: bool,
    /// Whether descriptions begin with the name of the server in brackets.
    pub labelled: bool,
    /// Whether schemas that do not say whether there are other arguments say that there are none.
    pub closed_schemas: bool,
}

impl ForeignNames {
    /// `{server}__{tool}`.
    pub const DEFAULT: Self =
        Self { prefix: "", separator: "__", bare: false, labelled: false, closed_schemas: false };
}

/// A dialect's own place and words for the full output of a reply that was cut.
#[derive(Debug, Clone, Copy)]
pub struct Outputs {
    /// The directory of the first root, by one name, with the outputs in its `tool-output/`. It takes at most
    /// 1,000 outputs, and none once they hold 1 GiB.
    pub directory: &'static str,
    /// The lines at the head of a text that are its title: the line after them is cut inside where it alone is too
    /// long, as a first line is.
    pub title_lines: usize,
    /// Returns the lines behind a cut text.
    pub words: fn(&CutText<'_>) -> String,
}

/// What became of a text that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutText<'a> {
    /// How many lines were left out.
    pub n_left_out: usize,
    /// The path of the full text, relative to the first root, or why it is not kept.
    pub stored: Result<&'a str, &'a str>,
}

impl Conventions {
    /// Plain errors, notes behind the text, paths as written, the store of sinew, no envelope, and calls
    /// side by side.
    pub const DEFAULT: Self = Self {
        fail: Reply::failure,
        notes_apart: false,
        joined_paths: false,
        outputs: None,
        envelope: None,
        foreign_names: ForeignNames::DEFAULT,
        takes_turns: false,
    };
}

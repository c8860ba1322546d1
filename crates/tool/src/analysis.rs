//! The static analysis of a command before it runs.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use serde::Serialize;

/// One command of a shell text, or a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// The command as written, with redirections.
    pub text: String,
    /// Its words without quotes and escapes; words unknown before the run stay as written.
    pub words: Vec<String>,
}

/// The result of the analysis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// All its commands in order, including those in substitutions.
    pub segments: Vec<Segment>,
    /// The equivalent plain command if it only reads beneath the roots, else why that is unknown.
    pub plain: Result<Plain, Unclear>,
    /// The commands that are not plain, if all are known programs and the shell sets and writes nothing.
    pub rest: Option<Vec<Vec<String>>>,
    /// The file operation that does exactly the same.
    pub repeats: Option<&'static str>,
    /// The commands for rules that deny or ask, the command policy and questions.
    pub commands: LazyCommandList,
}

/// A [`CommandList`] that is made when it is first looked at: no rule or question needs that of most commands.
#[derive(Clone)]
pub struct LazyCommandList(Arc<LazyLock<CommandList, MakeList>>);

type MakeList = Box<dyn FnOnce() -> CommandList + Send>;

impl LazyCommandList {
    /// Returns a list that a function makes when it is needed.
    pub fn new(make: impl FnOnce() -> CommandList + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl Deref for LazyCommandList {
    type Target = CommandList;

    fn deref(&self) -> &CommandList {
        &self.0
    }
}

impl PartialEq for LazyCommandList {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl Eq for LazyCommandList {}

impl fmt::Debug for LazyCommandList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Every command of a line, including substitutions and wrappers such as `env`, `xargs` and `sh -c`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandList {
    /// Each command by its words.
    pub all: Vec<Vec<Piece>>,
    /// The files that redirections of the shell write.
    pub writes: Vec<Piece>,
    /// Why the list may be incomplete, if it may.
    pub unclear: Option<&'static str>,
}

/// A word of a command, as known before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The exact argument.
    Known(String),
    /// Known only at run time: one word or several.
    Open {
        /// The word as written.
        raw: String,
        /// Whether it is exactly one word.
        is_one: bool,
    },
}

impl Piece {
    /// Returns a completely unknown word.
    pub fn unknown() -> Self {
        Self::Open { raw: String::new(), is_one: false }
    }

    /// Returns the word if known.
    pub fn known(&self) -> Option<&str> {
        match self {
            Self::Known(word) => Some(word),
            Self::Open { .. } => None,
        }
    }
}

/// The replacement of a read-only command, with nothing left to the shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Plain {
    /// A shell text.
    Script(String),
    /// A program, by absolute path, and its arguments.
    Argv(Vec<String>),
}

/// Why a command may do more than read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclear {
    /// The name of the rule.
    pub rule: &'static str,
    /// The reason, in words.
    pub why: String,
}

impl Unclear {
    /// Returns a reason with its rule.
    pub fn new(rule: &'static str, why: impl Into<String>) -> Self {
        Self { rule, why: why.into() }
    }
}

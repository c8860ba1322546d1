//! What a command was found to be, before it runs.

use serde::Serialize;

/// One command of a text for the shell, or a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// The command as it is written, with its redirections.
    pub text: String,
    /// Its words, quotes and escapes taken away; one that is only known when it runs stands as it is
    /// written.
    pub words: Vec<String>,
}

/// What is known of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// All commands that stand in it, in their order, also those inside substitutions.
    pub segments: Vec<Segment>,
    /// What runs in its place where it only reads beneath the roots, and else why that is not known.
    pub plain: Result<Plain, Unclear>,
    /// Where it is not plain: the commands that are not plain as they are written, by their words, if all
    /// of it is known before it runs, nothing is set or written by the shell, and they are programs.
    pub rest: Option<Vec<Vec<String>>>,
    /// The name of the operation on files that does the same, where the command is nothing else.
    pub repeats: Option<&'static str>,
    /// What rules that deny or ask are matched against.
    pub commands: CommandList,
}

/// Every command that a line runs, also inside substitutions and behind programs such as `env`, `xargs` and `sh -c`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandList {
    /// Each command by its words.
    pub all: Vec<Vec<Piece>>,
    /// Why there may be others, if there may.
    pub unclear: Option<&'static str>,
}

/// A word of a command, as far as it is known before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// What the program gets.
    Known(String),
    /// What is only known when it runs, as it is written: one word or any number of words.
    Open {
        /// How it is written.
        raw: String,
        /// Whether it is one word of any content.
        is_one: bool,
    },
}

impl Piece {
    /// Returns a word of which nothing is known.
    pub fn unknown() -> Self {
        Self::Open { raw: String::new(), is_one: false }
    }

    /// Returns the word where it is known.
    pub fn known(&self) -> Option<&str> {
        match self {
            Self::Known(word) => Some(word),
            Self::Open { .. } => None,
        }
    }
}

/// What runs in the place of a command that only reads: the same, with nothing left to the shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Plain {
    /// A text for the shell.
    Script(String),
    /// A program, by absolute path, and its arguments.
    Argv(Vec<String>),
}

/// Why a command is not known to only read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclear {
    /// The name of the rule.
    pub rule: &'static str,
    /// The reason, in words.
    pub why: String,
}

impl Unclear {
    /// Returns a reason under the name of its rule.
    pub fn new(rule: &'static str, why: impl Into<String>) -> Self {
        Self { rule, why: why.into() }
    }
}

//! What a text for the shell would do, as far as that can be told before it runs.
//!
//! A text is [parsed](tree), and then two things are made of it. Its segments are all the commands that
//! stand anywhere in it, also inside substitutions: rules that deny look at them. And where all of it is
//! understood and only reads beneath the roots, it is *plain*, and a script is written anew that does the
//! same: each word stands in quotes, patterns are expanded, programs are named by their absolute path
//! outside the roots. Nobody need be asked about such a command, and it is that script which runs, so
//! that what was looked at and what happens cannot differ.
//!
//! Whatever is not known to be plain is not plain: another syntax, program, option or byte, a file
//! elsewhere, more than the bounds. That decides about a question alone. What a command can do at all is
//! bounded by its sandbox.

#![forbid(unsafe_code)]

pub mod arity;
mod built_in;
pub mod command_pattern;
mod commands;
mod expand;
pub mod file_system;
mod files;
mod find;
mod git;
mod known;
mod loads;
mod options;
mod plain;
mod programs;
mod repeats;
mod scripts;
mod segments;
mod tree;
mod word;
mod wrappers;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub use loads::loads_unnamed;

use file_system::FileSystem;
use sinew_tool::{Analysis, Plain, Segment};

/// The longest text that is looked at, in bytes.
pub(crate) const MAX_BYTES: usize = 64 * 1024;

/// Where a command would run.
pub struct Scene<'p> {
    /// The real path of the directory it starts in.
    pub cwd: &'p Path,
    /// The real paths of the roots.
    pub roots: &'p [PathBuf],
    /// Returns where the program of a name lies, outside the roots.
    pub program: &'p dyn Fn(&str) -> Option<PathBuf>,
    pub files: &'p dyn FileSystem,
    /// Returns whether a real path beneath the roots may be read.
    pub may_read: &'p dyn Fn(&Path) -> bool,
    /// Returns whether everything beneath a directory, by its real path, may be read as far as rules say.
    pub may_walk: &'p dyn Fn(&Path) -> bool,
    /// Whether rules for paths let only some files beneath the roots be read.
    pub is_narrowed: bool,
    pub seen: Seen,
}

/// What was looked at already for a text.
#[derive(Debug, Default)]
pub struct Seen {
    /// How many entries of directories.
    n_entries: Cell<usize>,
    /// Places of repositories that are as they should be.
    places: RefCell<HashSet<PathBuf>>,
}

/// Looks at a text for the shell.
pub fn analyse(text: &str, scene: &Scene<'_>) -> Analysis {
    let parsed = match tree::parse(text) {
        Ok(parsed) => parsed,
        Err(unclear) => {
            return Analysis {
                segments: Vec::new(),
                plain: Err(unclear),
                rest: None,
                repeats: None,
                commands: commands::of_unparsed(),
            };
        }
    };
    let segments = segments::of(&parsed, text);
    let understood = word::check_characters(text).and_then(|()| tree::understood(&parsed, text));
    let (plain, rest) = match understood {
        Err(unclear) => (Err(unclear), None),
        Ok(list) => match plain::script(&list, scene) {
            Ok(script) => (Ok(Plain::Script(script)), None),
            Err(unclear) => (Err(unclear), plain::rest(&list, scene)),
        },
    };
    let repeats = repeats::of(&parsed, text);
    let commands = commands::of_text(&parsed, text);
    Analysis { segments, plain, rest, repeats, commands }
}

/// Looks at a program with its arguments, which run without a shell.
pub fn analyse_argv(argv: &[String], scene: &Scene<'_>) -> Analysis {
    let segments = vec![Segment { text: argv.join(" "), words: argv.to_vec() }];
    let plain = argv
        .iter()
        .try_for_each(|arg| word::check_characters(arg))
        .and_then(|()| plain::argv(argv, scene))
        .map(Plain::Argv);
    let is_shown = argv.iter().all(|arg| word::check_characters(arg).is_ok());
    let rest = (plain.is_err() && is_shown).then(|| vec![argv.to_vec()]);
    Analysis { segments, plain, rest, repeats: None, commands: commands::of_argv(argv) }
}

#[cfg(test)]
mod tests;

//! Analyses a text for the shell before it runs, so that reads run unasked and rules see every command.
//!
//! The text is [parsed](tree). Its segments are all commands in it, also inside substitutions, for rules that
//! deny. A text is *plain* if all of it is understood and it only reads beneath the roots. It is rewritten to
//! an equivalent script with quoted words, expanded patterns, and absolute program paths outside the roots.
//! A plain command runs unasked. The script is what runs, so check and run cannot differ (TOCTOU).
//!
//! Anything else is not plain: another syntax, program, option or byte, a file elsewhere, an exceeded limit.
//! That decides only about a question; the sandbox bounds what a command can do.

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
mod sole_program;
mod tree;
mod word;
mod wrappers;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

pub use loads::loads_unnamed;
pub use sole_program::sole_program;
pub use word::quoted;

use file_system::FileSystem;
use sinew_tool::{Analysis, CommandList, LazyCommandList, Plain, Segment};

/// The longest text that is analysed, in bytes.
pub(crate) const MAX_BYTES: usize = 64 * 1024;

/// Where a command would run.
pub struct Scene<'p> {
    /// The real path of the working directory.
    pub cwd: &'p Path,
    /// The real paths of the roots.
    pub roots: &'p [PathBuf],
    /// Returns the path of a program, outside the roots.
    pub find_program: &'p dyn Fn(&str) -> Option<PathBuf>,
    pub files: &'p dyn FileSystem,
    /// Returns whether a real path beneath the roots may be read.
    pub may_read: &'p dyn Fn(&Path) -> bool,
    /// Returns whether rules permit reading everything beneath a real directory.
    pub may_walk: &'p dyn Fn(&Path) -> bool,
    /// Whether path rules permit reading only some files beneath the roots.
    pub is_narrowed: bool,
    pub seen: Seen,
}

/// Reads and checks already made for a text.
#[derive(Debug, Default)]
pub struct Seen {
    /// The number of directory entries.
    n_entries: Cell<usize>,
    /// Repositories and working trees that passed the checks.
    places: RefCell<HashSet<PathBuf>>,
    /// Programs that were looked for, by name.
    programs: RefCell<HashMap<String, Option<PathBuf>>>,
}

impl Scene<'_> {
    /// Returns the path of a program; each name is looked for once.
    fn program(&self, name: &str) -> Option<PathBuf> {
        if let Some(found) = self.seen.programs.borrow().get(name) {
            return found.clone();
        }
        let found = (self.find_program)(name);
        self.seen.programs.borrow_mut().insert(name.to_owned(), found.clone());
        found
    }
}

/// Analyses a text for the shell.
pub fn analyse(text: &str, scene: &Scene<'_>) -> Analysis {
    let parsed = match tree::parse(text) {
        Ok(parsed) => parsed,
        Err(unclear) => {
            return Analysis {
                segments: Vec::new(),
                plain: Err(unclear),
                rest: None,
                repeats: None,
                commands: LazyCommandList::new(commands::of_unparsed),
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
    let text = text.to_owned();
    let commands = LazyCommandList::new(move || commands::of_text(&parsed, &text));
    Analysis { segments, plain, rest, repeats, commands }
}

/// Lists the commands of a text that another program hands to a shell, such as a script of `package.json`.
pub fn list(text: &str) -> CommandList {
    match tree::parse(text) {
        Ok(parsed) => commands::of_text(&parsed, text),
        Err(_) => commands::of_unparsed(),
    }
}

/// Analyses a program with its arguments, which runs without a shell.
pub fn analyse_argv(argv: &[String], scene: &Scene<'_>) -> Analysis {
    let segments = vec![Segment { text: argv.join(" "), words: argv.to_vec() }];
    let plain = argv
        .iter()
        .try_for_each(|arg| word::check_characters(arg))
        .and_then(|()| plain::argv(argv, scene))
        .map(Plain::Argv);
    let is_shown = argv.iter().all(|arg| word::check_characters(arg).is_ok());
    let rest = (plain.is_err() && is_shown).then(|| vec![argv.to_vec()]);
    let argv = argv.to_vec();
    let commands = LazyCommandList::new(move || commands::of_argv(&argv));
    Analysis { segments, plain, rest, repeats: None, commands }
}

#[cfg(test)]
mod tests;

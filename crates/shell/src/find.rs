//! `find`: tests, actions that only write to its output, and commands that it runs for each name.

use sinew_tool::Unclear;

use super::plain::{Writer, unknown};
use super::programs::{Check, Program};
use super::{files, programs};

/// Tests and actions without a value.
const ALONE: &[&str] = &[
    "-not",
    "-a",
    "-and",
    "-o",
    "-or",
    "-print",
    "-print0",
    "-prune",
    "-ls",
    "-quit",
    "-true",
    "-false",
    "-empty",
    "-depth",
    "-d",
    "-xdev",
    "-mount",
    "-readable",
    "-writable",
    "-executable",
    "-nouser",
    "-nogroup",
    "-daystart",
    "-noleaf",
    "-ignore_readdir_race",
    "-noignore_readdir_race",
    "-nowarn",
    "-warn",
    "(",
    ")",
    "!",
    ",",
];

/// Tests and actions with a text.
const WITH_TEXT: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-regextype",
    "-type",
    "-maxdepth",
    "-mindepth",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-links",
    "-inum",
    "-lname",
    "-ilname",
    "-fstype",
    "-used",
    "-printf",
];

/// Tests with a reference file.
const WITH_FILE: &[&str] = &["-newer", "-anewer", "-cnewer", "-samefile"];

/// Returns whether a test or an action takes a value.
pub(super) fn takes_value(word: &str) -> bool {
    WITH_TEXT.contains(&word) || WITH_FILE.contains(&word)
}

fn refused(word: &str) -> Unclear {
    Unclear::new("shell.option", format!("`{word}` of find is not known to only read"))
}

/// A `find` as it is written to the script.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) words: Vec<String>,
    pub(super) last: Last,
    /// Whether it has another action, or acts on some names only.
    has_more: bool,
    /// Whether awk may take a starting point for a variable.
    is_variable: bool,
}

/// The end of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// A test, or nothing.
    Test,
    Print,
    Print0,
    /// An operator that needs an operand.
    Open,
    /// The same, and it negates the operand.
    Negation,
}

impl Found {
    /// Returns how many words come before the point where tests apply to all names that it writes, if there
    /// is one. `is_null` says whether it should end names with NUL by itself.
    pub(super) fn n_before_last(&self, is_null: bool) -> Option<usize> {
        let n = self.words.len();
        match self.last {
            _ if self.has_more => None,
            Last::Test if !is_null => Some(n),
            Last::Print if !is_null => n.checked_sub(1),
            Last::Print0 if is_null => n.checked_sub(1),
            Last::Test | Last::Print | Last::Print0 | Last::Open | Last::Negation => None,
        }
    }

    /// Returns whether awk takes its names for file names.
    pub(super) fn is_fit(&self, known: &Program) -> bool {
        known.check != Check::Awk || !self.is_variable
    }

    /// Notes a word of the expression without a value.
    fn operator(&mut self, word: &str) {
        let was_open = matches!(self.last, Last::Open | Last::Negation);
        // A word follows the last print action.
        self.has_more |= matches!(self.last, Last::Print | Last::Print0);
        self.last = match word {
            "!" | "-not" => Last::Negation,
            "-a" | "-and" | "(" => Last::Open,
            "-o" | "-or" | "," | "-ls" | "-quit" => {
                self.has_more = true;
                Last::Open
            }
            "-print" => Last::Print,
            "-print0" => Last::Print0,
            _ => Last::Test,
        };
        // The action is negated, or follows a parenthesis.
        self.has_more |= was_open && matches!(self.last, Last::Print | Last::Print0);
    }

    /// Notes a test with a value, or an action that cannot be the last.
    fn test(&mut self, is_action: bool) {
        self.has_more |= is_action || matches!(self.last, Last::Print | Last::Print0);
        self.last = Last::Test;
    }
}

/// Returns tests that leave out symlinks, which may lead anywhere, special files, and files with secrets.
pub(super) fn without_secrets() -> Vec<String> {
    let kinds = ["l", "p", "s", "c", "b"].into_iter().flat_map(|kind| ["!", "-type", kind]);
    let names = files::SECRETS.iter().flat_map(|name| ["!", "-iname", name]);
    kinds.chain(names).map(String::from).collect()
}

impl Writer<'_> {
    /// Returns the `find` to run for some arguments.
    pub(super) fn find_files(&self, args: &[String]) -> Result<Found, Unclear> {
        let mut found =
            Found { words: Vec::new(), last: Last::Test, has_more: false, is_variable: false };
        let mut left = args.iter();
        let (mut is_expression, mut n_places) = (false, 0);
        while let Some(word) = left.next() {
            let mut value = || left.next().cloned().ok_or_else(|| refused(word));
            match word.as_str() {
                "-P" if !is_expression => found.words.push(word.clone()),
                _ if !word.starts_with(['-', '@', '(', '!', ',', ')']) && !is_expression => {
                    files::check_operand(self.scene, &self.cwd, word)?;
                    files::check_walk(self.scene, &self.cwd, word)?;
                    n_places += 1;
                    found.is_variable |= word.contains('=');
                    found.words.push(word.clone());
                    continue;
                }
                name if ALONE.contains(&name) => {
                    found.operator(name);
                    found.words.push(word.clone());
                }
                name if WITH_TEXT.contains(&name) => {
                    found.test(name == "-printf");
                    found.words.extend([word.clone(), value()?]);
                }
                name if WITH_FILE.contains(&name) => {
                    let file = value()?;
                    files::check_operand(self.scene, &self.cwd, &file)?;
                    found.test(false);
                    found.words.extend([word.clone(), file]);
                }
                // A negation would also apply to the inserted tests.
                "-exec" if found.last != Last::Negation => {
                    let mut inner: Vec<String> = Vec::new();
                    let end = loop {
                        let word = value()?;
                        let is_last = inner.last().is_some_and(|last| last == "{}");
                        if word == ";" || (word == "+" && is_last) {
                            break word;
                        }
                        inner.push(word);
                    };
                    let words = self.each(&inner, &found)?;
                    found.test(true);
                    found.words.extend(without_secrets());
                    found.words.push(word.clone());
                    found.words.extend(words);
                    found.words.push(end);
                }
                _ => return Err(refused(word)),
            }
            is_expression |= word != "-P";
        }
        if n_places == 0 {
            files::check_walk(self.scene, &self.cwd, ".")?;
        }
        Ok(found)
    }

    /// Returns what `find` runs for each name: a known program, with the names as its files.
    fn each(&self, inner: &[String], found: &Found) -> Result<Vec<String>, Unclear> {
        let unclear = || Unclear::new("shell.operand", "what find runs takes its names elsewhere");
        let (name, args) = inner.split_first().ok_or_else(unclear)?;
        let Some((last, args)) = args.split_last() else { return Err(unclear()) };
        if last != "{}" || args.iter().any(|arg| arg.contains("{}")) {
            return Err(unclear());
        }
        let (path, name) = self.find(name)?;
        let known = programs::find(&name).ok_or_else(|| unknown(&name))?;
        if !found.is_fit(known) {
            return Err(unclear());
        }
        let words = self.known(known, &name, args, true)?;
        let last = std::iter::once(last.clone());
        Ok(std::iter::once(path).chain(words).chain(last).collect())
    }
}

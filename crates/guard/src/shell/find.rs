//! `find`: tests that only look, actions that only write to its output, and what it runs for each name.

use sinew_tool::Unclear;

use super::plain::{Writer, unknown};
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

/// Those with a text.
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

/// Those with a file to compare with.
const WITH_FILE: &[&str] = &["-newer", "-anewer", "-cnewer", "-samefile"];

fn refused(word: &str) -> Unclear {
    Unclear::new("shell.option", format!("`{word}` of find is not known to only read"))
}

/// Returns the tests with which `find` leaves out links, which may lead anywhere, and files that are asked
/// about where they are named.
pub(super) fn without_secrets() -> Vec<String> {
    let names = files::SECRETS.iter().flat_map(|name| ["!", "-iname", name]);
    ["!", "-type", "l"].into_iter().chain(names).map(String::from).collect()
}

impl Writer<'_> {
    /// Returns the words of `find` that run for some words.
    pub(super) fn find_files(&self, args: &[String]) -> Result<Vec<String>, Unclear> {
        let mut run: Vec<String> = Vec::new();
        let mut left = args.iter();
        let mut is_expression = false;
        while let Some(word) = left.next() {
            let is_negated = run.last().is_some_and(|word| word == "!" || word == "-not");
            let mut value = || left.next().cloned().ok_or_else(|| refused(word));
            match word.as_str() {
                "-P" if !is_expression => run.push(word.clone()),
                _ if !word.starts_with(['-', '@', '(', '!', ',', ')']) && !is_expression => {
                    files::check_operand(self.scene, &self.cwd, word)?;
                    run.push(word.clone());
                    continue;
                }
                name if ALONE.contains(&name) => run.push(word.clone()),
                name if WITH_TEXT.contains(&name) => run.extend([word.clone(), value()?]),
                name if WITH_FILE.contains(&name) => {
                    let file = value()?;
                    files::check_operand(self.scene, &self.cwd, &file)?;
                    run.extend([word.clone(), file]);
                }
                // The tests that are put before it would be turned round.
                "-exec" if !is_negated => {
                    let mut inner: Vec<String> = Vec::new();
                    let end = loop {
                        let word = value()?;
                        let is_last = inner.last().is_some_and(|last| last == "{}");
                        if word == ";" || (word == "+" && is_last) {
                            break word;
                        }
                        inner.push(word);
                    };
                    run.extend(without_secrets());
                    run.push(word.clone());
                    run.extend(self.each(&inner)?);
                    run.push(end);
                }
                _ => return Err(refused(word)),
            }
            is_expression |= word != "-P";
        }
        Ok(run)
    }

    /// Returns what `find` runs for each name: a known program, with the names in the place of files.
    fn each(&self, inner: &[String]) -> Result<Vec<String>, Unclear> {
        let unclear = || Unclear::new("shell.operand", "what find runs takes its names elsewhere");
        let (name, args) = inner.split_first().ok_or_else(unclear)?;
        let Some((last, args)) = args.split_last() else { return Err(unclear()) };
        if last != "{}" || args.iter().any(|arg| arg.contains("{}")) {
            return Err(unclear());
        }
        let (path, name) = self.find(name)?;
        let known = programs::find(&name).ok_or_else(|| unknown(&name))?;
        let words = self.known(known, &name, args, true)?;
        let last = std::iter::once(last.clone());
        Ok(std::iter::once(path).chain(words).chain(last).collect())
    }
}

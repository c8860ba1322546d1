//! Decides whether a text only reads, and writes the script that then runs instead.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use sinew_tool::Unclear;

use super::file_system::FileSystem;
use super::find::{self, Found};
use super::options::Options;
use super::programs;
use super::tree::{Item, List, Redirect, Simple, Stage, When};
use super::word::quoted;
use super::{Scene, expand, files, git};

/// The most words of a script.
const MAX_WORDS: usize = 10_000;
/// How many wrappers may be nested.
const MAX_WRAPPERS: usize = 4;

/// Returns a script equivalent to some commands, if they are plain.
pub(super) fn script(list: &List, scene: &Scene<'_>) -> Result<String, Unclear> {
    let (cwd, out) = (scene.cwd.to_owned(), String::new());
    let mut writer =
        Writer { scene, cwd, out, n_words: 0, has_text: false, rest: None, names: None };
    writer.list(list, true)?;
    Ok(writer.out)
}

/// Returns the commands that are not plain as written, if all have known words and nothing else hinders.
pub(super) fn rest(list: &List, scene: &Scene<'_>) -> Option<Vec<Vec<String>>> {
    let (cwd, out) = (scene.cwd.to_owned(), String::new());
    let rest = Some(Vec::new());
    let mut writer = Writer { scene, cwd, out, n_words: 0, has_text: false, rest, names: None };
    writer.list(list, true).ok()?;
    writer.rest
}

/// Returns what runs for a program and its arguments, if that is plain.
pub(super) fn argv(argv: &[String], scene: &Scene<'_>) -> Result<Vec<String>, Unclear> {
    let (cwd, out) = (scene.cwd.to_owned(), String::new());
    let mut writer =
        Writer { scene, cwd, out, n_words: 0, has_text: false, rest: None, names: None };
    // Without a shell there are no builtins.
    writer.program(argv, Part::Among, true, 1)
}

/// The position of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It can change the directory of later commands.
    Alone,
    /// What it changes of the shell ends with it.
    Among,
}

pub(super) struct Writer<'p> {
    pub(super) scene: &'p Scene<'p>,
    pub(super) cwd: PathBuf,
    out: String,
    n_words: usize,
    /// Whether a here-document was written last, so that its line is over.
    has_text: bool,
    /// The words of commands that are not plain, if only those are asked for.
    rest: Option<Vec<Vec<String>>>,
    /// The `find` that was written last.
    names: Option<Names>,
}

/// A written `find` whose output goes only to the next command.
struct Names {
    found: Found,
    /// Offset of its arguments in the script.
    begins: usize,
    ends: usize,
}

/// Builtins that change the meaning or the directory of other commands.
pub(super) const CHANGES_SHELL: &[&str] = &[
    ".",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "cd",
    "command",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "fg",
    "function",
    "getopts",
    "hash",
    "history",
    "let",
    "local",
    "logout",
    "mapfile",
    "noglob",
    "popd",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "setopt",
    "shift",
    "shopt",
    "source",
    "suspend",
    "trap",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "unsetopt",
    "autoload",
    "emulate",
    "zmodload",
    "compgen",
    "caller",
    "fc",
    "sched",
    "vared",
    "chdir",
    "times",
];

/// Returns whether a variable only shapes output.
fn is_plain_variable(name: &str, value: &str) -> bool {
    let is_locale = name == "LANG" || name == "LC_ALL" || name.starts_with("LC_");
    let is_known = is_locale || matches!(name, "TZ" | "NO_COLOR" | "COLUMNS" | "LINES");
    // In other encodings, a byte of a character may be an operator of sed, awk or jq.
    let is_text =
        matches!(value, "" | "C" | "POSIX") || value.to_ascii_lowercase().ends_with("utf-8");
    let is_known = is_known && (!is_locale || is_text || value.ends_with(".utf8"));
    // A time zone with a leading `/` may be a file.
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '+');
    is_known && value.chars().all(is_word)
}

impl Writer<'_> {
    fn list(&mut self, list: &List, is_sure: bool) -> Result<(), Unclear> {
        for (at, item) in list.iter().enumerate() {
            if at != 0 {
                self.goes_on(item.when != When::Then)?;
                self.out.push_str(match item.when {
                    When::Then => "\n",
                    When::And => " && ",
                    When::Or => " || ",
                });
            }
            if item.negated {
                self.out.push_str("! ");
            }
            // Whether it runs, whatever the earlier results.
            let runs = is_sure && item.when == When::Then && !item.negated;
            self.item(item, runs)?;
        }
        Ok(())
    }

    fn item(&mut self, item: &Item, runs: bool) -> Result<(), Unclear> {
        let part = if runs && item.stages.len() == 1 { Part::Alone } else { Part::Among };
        for (at, stage) in item.stages.iter().enumerate() {
            if at != 0 {
                self.goes_on(true)?;
                self.out.push_str(" | ");
            }
            self.stage(stage, part)?;
        }
        Ok(())
    }

    /// Writes a part of a pipeline.
    fn stage(&mut self, stage: &Stage, part: Part) -> Result<(), Unclear> {
        match stage {
            Stage::Simple(simple) => self.simple(simple, part)?,
            Stage::Group { list, is_subshell, redirects } => {
                let cwd = self.cwd.clone();
                self.out.push_str(if *is_subshell { "( " } else { "{ " });
                self.list(list, *is_subshell || part == Part::Alone)?;
                self.out.push_str(if *is_subshell { "\n)" } else { "\n}" });
                // They are opened before the commands inside run.
                let inside = std::mem::replace(&mut self.cwd, cwd);
                self.redirects(redirects)?;
                if !*is_subshell {
                    self.cwd = inside;
                }
            }
            Stage::If { branches, otherwise, redirects } => {
                let mut word = "if ";
                for (asked, then) in branches {
                    self.out.push_str(word);
                    self.list(asked, false)?;
                    self.out.push_str("\nthen\n");
                    self.list(then, false)?;
                    word = "\nelif ";
                }
                if let Some(list) = otherwise {
                    self.out.push_str("\nelse\n");
                    self.list(list, false)?;
                }
                self.out.push_str("\nfi");
                self.redirects(redirects)?;
            }
        }
        Ok(())
    }

    /// Rejects more words on a line that is over.
    fn goes_on(&mut self, on_line: bool) -> Result<(), Unclear> {
        if std::mem::take(&mut self.has_text) && on_line {
            return Err(Unclear::new("shell.syntax", "words follow a here-document on its line"));
        }
        Ok(())
    }

    fn redirects(&mut self, redirects: &[Redirect]) -> Result<(), Unclear> {
        let mut texts = redirects.iter().filter(|one| matches!(one, Redirect::Text(_)));
        if texts.next().is_some() && redirects.len() != 1 {
            return Err(Unclear::new("shell.syntax", "its input comes from several places"));
        }
        for redirect in redirects {
            match redirect {
                Redirect::Read(word) => {
                    if word.is_pattern() {
                        return Err(Unclear::new("shell.pattern", "its input is a pattern"));
                    }
                    if word.text != "/dev/null" {
                        files::check(self.scene, &self.cwd, &word.text)?;
                    }
                    self.out.push_str(&format!(" <{}", quoted(&word.text)));
                }
                Redirect::Text(_) if self.rest.is_some() => {
                    return Err(Unclear::new("shell.syntax", "a here-document is not read here"));
                }
                Redirect::Text(text) => self.text(text)?,
                Redirect::Null(fd) => self.out.push_str(&format!(" {fd}>/dev/null")),
                Redirect::BothNull => self.out.push_str(" >/dev/null 2>&1"),
                Redirect::Same(from, to) => self.out.push_str(&format!(" {from}>&{to}")),
            }
        }
        Ok(())
    }

    /// Writes a here-document, which ends its line.
    fn text(&mut self, text: &str) -> Result<(), Unclear> {
        let lines: HashSet<&str> = text.lines().filter(|line| line.starts_with("END")).collect();
        let end = (0..).map(|n| format!("END{n}")).find(|end| !lines.contains(end.as_str()));
        let end = end.unwrap_or_default();
        let line = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        self.out.push_str(&format!(" <<'{end}'\n{text}{line}{end}"));
        self.has_text = true;
        Ok(())
    }

    fn simple(&mut self, simple: &Simple, part: Part) -> Result<(), Unclear> {
        if self.rest.is_none() {
            return self.plain(simple, part).map(drop);
        }
        let n_written = self.out.len();
        let words: Vec<String> = simple.words.iter().map(|word| word.text.clone()).collect();
        match self.plain(simple, part) {
            // It runs as written, so it must be plain as written.
            Ok((found, run)) if found == words && (found == run || is_cd(&words)) => Ok(()),
            Ok(_) | Err(_) => {
                self.out.truncate(n_written);
                self.remains(simple, words)
            }
        }
    }

    /// Notes a command that is not plain, if its words are known and it only runs a program.
    fn remains(&mut self, simple: &Simple, words: Vec<String>) -> Result<(), Unclear> {
        let is_known = !simple.words.iter().any(super::word::Word::is_pattern);
        let name = words.first().map_or("", String::as_str);
        let changes_shell = CHANGES_SHELL.contains(&name)
            || name.is_empty()
            || name.contains('=')
            || (name == "printf" && words.iter().any(|word| word.starts_with("-v")));
        if !is_known || changes_shell || !simple.variables.is_empty() {
            return Err(unknown(name));
        }
        self.redirects(&simple.redirects)?;
        self.rest.iter_mut().for_each(|rest| rest.push(words.clone()));
        Ok(())
    }

    /// Writes a plain command; returns its words as given and as run, but for the path of the program.
    fn plain(
        &mut self,
        simple: &Simple,
        part: Part,
    ) -> Result<(Vec<String>, Vec<String>), Unclear> {
        for (name, value) in &simple.variables {
            if value.is_pattern() || !is_plain_variable(name, &value.text) {
                let why = format!("the variable `{name}` may change what the program does");
                return Err(Unclear::new("shell.environment", why));
            }
            self.out.push_str(&format!("{name}={} ", quoted(&value.text)));
        }
        let mut words = Vec::new();
        for (at, word) in simple.words.iter().enumerate() {
            if at == 0 && word.is_pattern() && word.text != "[" {
                return Err(Unclear::new("shell.pattern", "its program is a pattern"));
            }
            match word.text.as_str() {
                // The name of the test, and its end.
                "[" => words.push(word.text.clone()),
                _ => words.extend(expand::words(word.clone(), self.scene, &self.cwd)?),
            }
            if MAX_WORDS < self.n_words + words.len() {
                return Err(Unclear::new("shell.size", "it has too many words"));
            }
        }
        self.n_words += words.len();
        let has_variables = !simple.variables.is_empty();
        if is_cd(&words) && !simple.redirects.is_empty() {
            return Err(Unclear::new(
                "shell.directory",
                "whether `cd` runs is only known when it does",
            ));
        }
        let run = self.program(&words, part, has_variables, 0)?;
        let begins = self.out.len() + run.first().map_or(0, |name| quoted(name).len());
        let written: Vec<String> = run.iter().map(|word| quoted(word)).collect();
        self.out.push_str(&written.join(" "));
        let is_piped_on = simple.redirects.is_empty();
        let ends = self.out.len();
        let names = self.names.take().filter(|_| is_piped_on);
        self.names = names.map(|names| Names { begins, ends, ..names });
        if is_cd(&words) {
            // Later commands were checked from there.
            self.out.push_str(" || exit 1");
        }
        self.redirects(&simple.redirects)?;
        let named = words.iter().take(1).chain(run.iter().skip(1)).cloned().collect();
        Ok((words, named))
    }

    /// Returns the words that run for some words.
    pub(super) fn program(
        &mut self,
        words: &[String],
        part: Part,
        has_variables: bool,
        depth: usize,
    ) -> Result<Vec<String>, Unclear> {
        // Names pass only from one command to the next.
        let names = self.names.take();
        let Some((name, args)) = words.split_first() else {
            return Err(Unclear::new("shell.syntax", "it names no program"));
        };
        if MAX_WRAPPERS < depth {
            return Err(Unclear::new(
                "shell.program",
                "too many programs in a row start another one",
            ));
        }
        if depth == 0
            && let Some(run) = self.built_in(name, args, part, has_variables)?
        {
            return Ok(run);
        }
        let (path, name) = self.find(name)?;
        let mut run = vec![path];
        match name.as_str() {
            "env" | "nice" | "timeout" => {
                let n_own = self.wrapper(&name, args)?;
                let (own, inner) = args.split_at_checked(n_own).unwrap_or_default();
                run.extend(own.iter().cloned());
                run.extend(self.program(inner, Part::Among, true, depth + 1)?);
            }
            "xargs" => run.extend(self.xargs(args, names)?),
            "find" => {
                let found = self.find_files(args)?;
                run.extend(found.words.iter().cloned());
                if depth == 0 {
                    self.names = Some(Names { found, begins: 0, ends: 0 });
                }
            }
            "git" if !is_version(&name, args) => {
                run.extend(git::words(args, self.scene, &self.cwd)?)
            }
            _ if is_version(&name, args) => run.extend(args.iter().cloned()),
            _ => {
                let known = programs::find(&name).ok_or_else(|| unknown(&name))?;
                run.extend(self.known(known, &name, args, false)?);
            }
        }
        Ok(run)
    }

    /// Returns the path of a program and its name.
    pub(super) fn find(&self, word: &str) -> Result<(String, String), Unclear> {
        let name = word.rsplit('/').next().unwrap_or_default();
        let path = self.scene.program(name).ok_or_else(|| {
            Unclear::new("shell.missing", format!("there is no program `{name}` in PATH"))
        })?;
        if word.contains('/')
            && (!word.starts_with('/') || !is_same(self.scene.files, Path::new(word), &path))
        {
            let why = format!("`{word}` is not the program of that name in PATH");
            return Err(Unclear::new("shell.program", why));
        }
        if !is_outside(self.scene.files, &path, self.scene.roots) {
            let why = format!("`{name}` in PATH leads into a root");
            return Err(Unclear::new("shell.program", why));
        }
        let path = path.to_str().ok_or_else(|| unknown(word))?;
        Ok((path.to_owned(), name.to_owned()))
    }

    /// Returns how many arguments of a wrapper are its own.
    fn wrapper(&self, name: &str, args: &[String]) -> Result<usize, Unclear> {
        let table = match name {
            "nice" => "-n= --adjustment= -9",
            "timeout" => {
                "-k= -s= -v --kill-after= --signal= --verbose --preserve-status --foreground"
            }
            _ => "!--split-string !--chdir !--unset !--ignore-environment",
        };
        let parsed = Options { table, is_posix: true }.parse(name, args)?;
        let mut n_own = parsed.n_before;
        if name == "timeout" {
            n_own += 1;
        }
        while name == "env"
            && let Some((variable, value)) = args.get(n_own).and_then(|word| word.split_once('='))
        {
            if !is_plain_variable(variable, value) {
                let why = format!("the variable `{variable}` may change what the program does");
                return Err(Unclear::new("shell.environment", why));
            }
            n_own += 1;
        }
        if args.len() <= n_own {
            return Err(Unclear::new("shell.program", format!("{name} runs no program here")));
        }
        Ok(n_own)
    }

    /// Returns the words of `xargs`, whose input must be NUL-terminated names of a `find`.
    fn xargs(&mut self, args: &[String], names: Option<Names>) -> Result<Vec<String>, Unclear> {
        let table = "-0rt -n= -P= -s= --null --no-run-if-empty --max-args= --max-procs= --verbose";
        let parsed = Options { table, is_posix: true }.parse("xargs", args)?;
        let unclear = |why: &str| Unclear::new("shell.operand", why);
        // As written, its input differs from the checked names.
        let names = names.filter(|_| self.rest.is_none());
        let Some(names) = names else {
            return Err(unclear("what xargs hands on is only known when it runs"));
        };
        let is_null = parsed.has("-0") || parsed.has("--null");
        self.end_names_with_nul(&names, is_null)
            .ok_or_else(|| unclear("what find writes for xargs may be taken for other words"))?;
        let inner = args.get(parsed.n_before..).unwrap_or_default();
        let (name, rest) = match inner.split_first() {
            Some((name, rest)) => (name, rest),
            None => return Err(Unclear::new("shell.program", "xargs runs no program here")),
        };
        let (path, name) = self.find(name)?;
        let known = programs::find(&name)
            .filter(|known| names.found.is_fit(known))
            .ok_or_else(|| unknown(&name))?;
        let mut run: Vec<String> = args.get(..parsed.n_before).unwrap_or_default().to_vec();
        if !is_null {
            run.insert(0, String::from("-0"));
        }
        run.push(path);
        run.extend(self.known(known, &name, rest, true)?);
        Ok(run)
    }

    /// Makes the last `find` end its names with NUL and leave out symlinks, which may lead anywhere. `None`
    /// if it does more than pass names to the next command; `is_null`: whether it should end them so itself.
    fn end_names_with_nul(&mut self, names: &Names, is_null: bool) -> Option<()> {
        let n_before = names.found.n_before_last(is_null)?;
        if self.out.get(names.ends..) != Some(" | ") {
            return None;
        }
        self.out.truncate(names.begins);
        for word in names.found.words.iter().take(n_before).chain(&find::without_secrets()) {
            self.out.push_str(&format!(" {}", quoted(word)));
        }
        self.out.push_str(" '-print0' | ");
        Some(())
    }
}

fn is_cd(words: &[String]) -> bool {
    words.first().is_some_and(|name| name == "cd")
}

fn is_version(name: &str, args: &[String]) -> bool {
    let [only] = args else { return false };
    let known = programs::VERSIONS.iter().find(|(known, _)| *known == name);
    known.is_some_and(|(_, asked)| asked.contains(&only.as_str()))
}

pub(super) fn unknown(name: &str) -> Unclear {
    Unclear::new("shell.program", format!("`{name}` is not known to be read-only"))
}

/// Returns whether a program is outside the roots, after symlinks.
fn is_outside(files: &dyn FileSystem, path: &Path, roots: &[PathBuf]) -> bool {
    files.canonicalize(path).is_ok_and(|real| !roots.iter().any(|root| real.starts_with(root)))
}

fn is_same(files: &dyn FileSystem, one: &Path, other: &Path) -> bool {
    match (files.canonicalize(one), files.canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

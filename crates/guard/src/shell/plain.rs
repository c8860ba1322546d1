//! Whether all of a text only reads, and the script that runs then.

use std::path::{Path, PathBuf};

use sinew_tool::Unclear;

use super::options::{Operands, Options, Parsed};
use super::programs::{self, Check, Program};
use super::tree::{Item, List, Redirect, Simple, Stage, When};
use super::word::quoted;
use super::{Scene, expand, files, find, git, scripts};

/// The most words of a script.
const MAX_WORDS: usize = 10_000;
/// How many programs may stand before another one.
const MAX_WRAPPERS: usize = 4;

/// Returns the script that does the same as some commands, where they are plain.
pub(super) fn script(list: &List, scene: &Scene<'_>) -> Result<String, Unclear> {
    let (cwd, out) = (scene.cwd.to_owned(), String::new());
    let mut writer = Writer { scene, cwd, out, n_words: 0, has_text: false };
    writer.list(list, true)?;
    Ok(writer.out)
}

/// Returns what runs for a program and its arguments, where that is plain.
pub(super) fn argv(argv: &[String], scene: &Scene<'_>) -> Result<Vec<String>, Unclear> {
    let (cwd, out) = (scene.cwd.to_owned(), String::new());
    let mut writer = Writer { scene, cwd, out, n_words: 0, has_text: false };
    // Without a shell there are none of its own commands.
    writer.program(argv, Part::Among, true, None, 1)
}

/// Where a command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It can change the directory of what follows.
    Alone,
    /// What it changes of the shell ends with it.
    Among,
}

pub(super) struct Writer<'p> {
    pub(super) scene: &'p Scene<'p>,
    pub(super) cwd: PathBuf,
    out: String,
    n_words: usize,
    /// Whether a text for standard input was written last, so that its line is over.
    has_text: bool,
}

/// Variables that only shape an output.
fn is_plain_variable(name: &str, value: &str) -> bool {
    let is_locale = name == "LANG" || name == "LC_ALL" || name.starts_with("LC_");
    let is_known = is_locale || matches!(name, "TZ" | "NO_COLOR" | "COLUMNS" | "LINES");
    // In other encodings a byte of a character may be a sign of a small language.
    let is_text =
        matches!(value, "" | "C" | "POSIX") || value.to_ascii_lowercase().ends_with("utf-8");
    let is_known = is_known && (!is_locale || is_text || value.ends_with(".utf8"));
    // A zone that has a `/` in front may be a file.
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
            // Whether it runs, whatever became of those before.
            let runs = is_sure && item.when == When::Then && !item.negated;
            self.item(item, runs)?;
        }
        Ok(())
    }

    fn item(&mut self, item: &Item, runs: bool) -> Result<(), Unclear> {
        let part = if runs && item.stages.len() == 1 { Part::Alone } else { Part::Among };
        let mut before: Option<Vec<String>> = None;
        for (at, stage) in item.stages.iter().enumerate() {
            if at != 0 {
                self.goes_on(true)?;
                self.out.push_str(" | ");
            }
            before = self.stage(stage, part, before.take())?;
        }
        Ok(())
    }

    /// Writes a part of a pipeline; returns the words of a program.
    fn stage(
        &mut self,
        stage: &Stage,
        part: Part,
        before: Option<Vec<String>>,
    ) -> Result<Option<Vec<String>>, Unclear> {
        match stage {
            Stage::Simple(simple) => return self.simple(simple, part, before).map(Some),
            Stage::Group { list, is_subshell, redirects } => {
                let cwd = self.cwd.clone();
                self.out.push_str(if *is_subshell { "( " } else { "{ " });
                self.list(list, *is_subshell || part == Part::Alone)?;
                self.out.push_str(if *is_subshell { "\n)" } else { "\n}" });
                // They are opened before anything inside runs.
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
        Ok(None)
    }

    /// Refuses to write more on a line that is over.
    fn goes_on(&mut self, on_line: bool) -> Result<(), Unclear> {
        if std::mem::take(&mut self.has_text) && on_line {
            return Err(Unclear::new("shell.syntax", "a text for its input stands among others"));
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
                Redirect::Text(text) => self.text(text)?,
                Redirect::Null(fd) => self.out.push_str(&format!(" {fd}>/dev/null")),
                Redirect::BothNull => self.out.push_str(" >/dev/null 2>&1"),
                Redirect::Same(from, to) => self.out.push_str(&format!(" {from}>&{to}")),
            }
        }
        Ok(())
    }

    /// Writes a text for standard input, which ends its line.
    fn text(&mut self, text: &str) -> Result<(), Unclear> {
        let has_line = |end: &str| text.lines().any(|line| line == end);
        let end = (0..).map(|n| format!("END{n}")).find(|end| !has_line(end));
        let end = end.unwrap_or_default();
        let line = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        self.out.push_str(&format!(" <<'{end}'\n{text}{line}{end}"));
        self.has_text = true;
        Ok(())
    }

    fn simple(
        &mut self,
        simple: &Simple,
        part: Part,
        before: Option<Vec<String>>,
    ) -> Result<Vec<String>, Unclear> {
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
                // The name of the test, and what ends it.
                "[" => words.push(word.text.clone()),
                _ => words.extend(expand::words(word.clone(), self.scene, &self.cwd)?),
            }
            if MAX_WORDS < self.n_words + words.len() {
                return Err(Unclear::new("shell.size", "it has too many words"));
            }
        }
        self.n_words += words.len();
        let has_variables = !simple.variables.is_empty();
        if words.first().is_some_and(|name| name == "cd") && !simple.redirects.is_empty() {
            return Err(Unclear::new(
                "shell.directory",
                "whether `cd` runs is only known when it does",
            ));
        }
        let run = self.program(&words, part, has_variables, before.as_deref(), 0)?;
        let run: Vec<String> = run.iter().map(|word| quoted(word)).collect();
        self.out.push_str(&run.join(" "));
        if words.first().is_some_and(|name| name == "cd") {
            // What follows was looked at from there.
            self.out.push_str(" || exit 1");
        }
        self.redirects(&simple.redirects)?;
        Ok(words)
    }

    /// Returns what runs for some words.
    fn program(
        &mut self,
        words: &[String],
        part: Part,
        has_variables: bool,
        before: Option<&[String]>,
        depth: usize,
    ) -> Result<Vec<String>, Unclear> {
        let Some((name, args)) = words.split_first() else {
            return Err(Unclear::new("shell.syntax", "it names no program"));
        };
        if MAX_WRAPPERS < depth {
            return Err(Unclear::new(
                "shell.program",
                "too many programs stand before another one",
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
                run.extend(self.program(inner, Part::Among, true, None, depth + 1)?);
            }
            "xargs" => run.extend(self.xargs(args, before)?),
            "find" => run.extend(self.find_files(args)?),
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
        let path = (self.scene.program)(name).ok_or_else(|| {
            Unclear::new("shell.missing", format!("there is no program `{name}` in PATH"))
        })?;
        if word.contains('/') && (!word.starts_with('/') || !is_same(Path::new(word), &path)) {
            let why = format!("`{word}` is not the program of that name in PATH");
            return Err(Unclear::new("shell.program", why));
        }
        if !is_outside(&path, self.scene.roots) {
            let why = format!("`{name}` in PATH leads into a root");
            return Err(Unclear::new("shell.program", why));
        }
        let path = path.to_str().ok_or_else(|| unknown(word))?;
        Ok((path.to_owned(), name.to_owned()))
    }

    /// Returns what runs where a word is a command of the shell itself.
    fn built_in(
        &mut self,
        name: &str,
        args: &[String],
        part: Part,
        has_variables: bool,
    ) -> Result<Option<Vec<String>>, Unclear> {
        let own = || std::iter::once(name.to_owned()).chain(args.iter().cloned()).collect();
        let option = |word: &str| {
            Err(Unclear::new(
                "shell.option",
                format!("`{word}` of {name} is not known to only read"),
            ))
        };
        match name {
            ":" | "true" | "false" | "echo" => Ok(Some(own())),
            "pwd" => match args.iter().find(|arg| !matches!(arg.as_str(), "-L" | "-P")) {
                Some(word) => option(word),
                None => Ok(Some(own())),
            },
            "printf" => match args.first() {
                Some(word) if word.starts_with('-') && word != "--" => option(word),
                _ => Ok(Some(own())),
            },
            "type" | "which" => {
                match args.iter().find(|arg| arg.starts_with('-') && *arg != "-a") {
                    Some(word) => option(word),
                    None if name == "type" => Ok(Some(own())),
                    None => {
                        let (path, _) = self.find(name)?;
                        Ok(Some(std::iter::once(path).chain(args.iter().cloned()).collect()))
                    }
                }
            }
            "command" => match args.first().map(String::as_str) {
                Some("-v" | "-V") => Ok(Some(own())),
                Some(word) if word.starts_with('-') => option(word),
                _ => {
                    let run = self.program(args, part, has_variables, None, 1)?;
                    Ok(Some(run))
                }
            },
            "test" | "[" => {
                self.test(name, args)?;
                Ok(Some(own()))
            }
            "cd" => self.change_directory(args, part, has_variables).map(Some),
            _ => Ok(None),
        }
    }

    fn change_directory(
        &mut self,
        args: &[String],
        part: Part,
        has_variables: bool,
    ) -> Result<Vec<String>, Unclear> {
        let unclear = |why: &str| Unclear::new("shell.directory", why);
        let args = args.strip_prefix(&[String::from("--")]).unwrap_or(args);
        let [dir] = args else { return Err(unclear("`cd` names no directory")) };
        if dir.starts_with('-') || has_variables {
            return Err(unclear("where `cd` leads is only known when it runs"));
        }
        if part != Part::Alone {
            return Err(unclear("whether `cd` runs is only known when it does"));
        }
        let real = files::check(self.scene, &self.cwd, dir)?;
        if !files::is_directory(&real) {
            return Err(unclear("`cd` names no directory"));
        }
        let text = real.to_str().ok_or_else(|| unclear("`cd` names no text"))?.to_owned();
        self.cwd = real;
        Ok(vec![String::from("cd"), String::from("--"), text])
    }

    fn test(&self, name: &str, args: &[String]) -> Result<(), Unclear> {
        let args = match (name, args.split_last()) {
            ("[", Some((last, args))) if last == "]" => args,
            ("[", _) => return Err(Unclear::new("shell.syntax", "`[` has no end")),
            _ => args,
        };
        let unclear = |word: &str| {
            Err(Unclear::new(
                "shell.option",
                format!("`{word}` of {name} is not known to only read"),
            ))
        };
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let args = args.strip_prefix(&["!"]).unwrap_or(&args);
        let is_number = |text: &str| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            !digits.is_empty()
                && digits.len() < 19
                && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        match args {
            [] | [_] => Ok(()),
            ["-n" | "-z", _] => Ok(()),
            [
                "-e" | "-f" | "-d" | "-r" | "-w" | "-x" | "-s" | "-L" | "-h" | "-b" | "-c" | "-p"
                | "-S" | "-u" | "-g" | "-k" | "-O" | "-G" | "-N" | "-a",
                file,
            ] => files::check_operand(self.scene, &self.cwd, file),
            [_, "=" | "==" | "!=", _] => Ok(()),
            [one, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge", other]
                if is_number(one) && is_number(other) =>
            {
                Ok(())
            }
            [one, "-nt" | "-ot" | "-ef", other] => {
                files::check_operand(self.scene, &self.cwd, one)?;
                files::check_operand(self.scene, &self.cwd, other)
            }
            [word, ..] => unclear(word),
        }
    }

    /// Returns how many words of a program that runs another one are its own.
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

    /// Returns the words of `xargs`, whose input must be names that `find` ends with NUL.
    fn xargs(
        &mut self,
        args: &[String],
        before: Option<&[String]>,
    ) -> Result<Vec<String>, Unclear> {
        let table = "-0rt -n= -P= -s= --null --no-run-if-empty --max-args= --max-procs= --verbose";
        let parsed = Options { table, is_posix: true }.parse("xargs", args)?;
        let of_find = before.is_some_and(|words| {
            words.first().is_some_and(|name| name == "find" || name.ends_with("/find"))
        });
        let unclear = |why: &str| Unclear::new("shell.operand", why);
        if !of_find {
            return Err(unclear("what xargs hands on is only known when it runs"));
        }
        let is_null = parsed.has("-0") || parsed.has("--null");
        if !self.end_names_with_nul(before.unwrap_or_default(), is_null) {
            return Err(unclear("what find writes for xargs may be taken for other words"));
        }
        let inner = args.get(parsed.n_before..).unwrap_or_default();
        let (name, rest) = match inner.split_first() {
            Some((name, rest)) => (name, rest),
            None => return Err(Unclear::new("shell.program", "xargs runs no program here")),
        };
        let (path, name) = self.find(name)?;
        let known = programs::find(&name).ok_or_else(|| unknown(&name))?;
        let mut run: Vec<String> = args.get(..parsed.n_before).unwrap_or_default().to_vec();
        if !is_null {
            run.insert(0, String::from("-0"));
        }
        run.push(path);
        run.extend(self.known(known, &name, rest, true)?);
        Ok(run)
    }

    /// Lets the `find` that was written last end its names with NUL, and leave out links, which may lead
    /// anywhere. Nothing is done where it writes in more than one place; `is_null` says whether it should
    /// end them so by itself.
    fn end_names_with_nul(&mut self, find: &[String], is_null: bool) -> bool {
        const ACTS: &[&str] =
            &["-print", "-exec", "-printf", "-ls", "-quit", "-o", "-or", ",", "-print0"];
        const OPEN: &[&str] = &["!", "-not", "-a", "-and", "("];
        let expression = match find.split_last() {
            Some((last, before)) if last == "-print0" && is_null => before,
            Some((last, before)) if last == "-print" && !is_null => before,
            _ if !is_null => find,
            _ => return false,
        };
        let is_open = expression.last().is_some_and(|word| OPEN.contains(&word.as_str()));
        if is_open || expression.iter().any(|word| ACTS.contains(&word.as_str())) {
            return false;
        }
        let Some(head) = self.out.strip_suffix(" | ") else { return false };
        let last = find.last().map(|word| quoted(word)).unwrap_or_default();
        let Some(before) = head.strip_suffix(last.as_str()) else { return false };
        let n = if expression.len() == find.len() { head.len() } else { before.len() };
        self.out.truncate(n);
        for word in find::without_secrets() {
            self.out.push_str(&format!(" {}", quoted(&word)));
        }
        self.out.push_str(" '-print0' | ");
        true
    }

    /// Returns the words behind the name of a known program. Where `more` is set, files follow that are
    /// only known later.
    pub(super) fn known(
        &self,
        known: &Program,
        name: &str,
        args: &[String],
        more: bool,
    ) -> Result<Vec<String>, Unclear> {
        let parsed = known.options.parse(name, args)?;
        check_odd(name, args)?;
        self.check_files(known, name, &parsed, more)?;
        let is_walk =
            |value: Option<&str>| matches!(value, None | Some("read" | "skip" | "recurse"));
        if !["-d", "--directories"]
            .iter()
            .all(|option| known.check != Check::Grep || is_walk(parsed.value(option)))
        {
            return Err(Unclear::new(
                "shell.option",
                "what grep does with directories is shortened",
            ));
        }
        let (options, rest) =
            args.split_at_checked(parsed.end.unwrap_or(args.len())).unwrap_or_default();
        let mut run: Vec<String> = known.added.iter().map(|word| (*word).to_owned()).collect();
        run.extend(options.iter().cloned());
        // The last word on a file is the one that holds.
        run.extend(without_secrets(known, &parsed));
        run.extend(rest.iter().cloned());
        Ok(run)
    }

    fn check_files(
        &self,
        known: &Program,
        name: &str,
        parsed: &Parsed,
        more: bool,
    ) -> Result<(), Unclear> {
        let mut operands = parsed.operands.as_slice();
        if more && !matches!(known.operands, Operands::Files | Operands::TextThenFiles(_)) {
            return Err(Unclear::new("shell.operand", format!("{name} takes no files")));
        }
        match known.operands {
            Operands::Texts => operands = &[],
            Operands::None => {
                if let Some(word) = operands.first() {
                    let why = format!("`{word}` is more than {name} takes to only read");
                    return Err(Unclear::new("shell.operand", why));
                }
            }
            Operands::UpTo(n) => {
                if n < operands.len() {
                    let why =
                        format!("{name} writes to the file that it is given behind the first");
                    return Err(Unclear::new("shell.write", why));
                }
            }
            Operands::Files => {}
            Operands::TextThenFiles(given) => {
                if !given.iter().any(|option| parsed.has(option)) {
                    let Some((text, rest)) = operands.split_first() else {
                        return Err(Unclear::new(
                            "shell.operand",
                            format!("{name} is given nothing"),
                        ));
                    };
                    match known.check {
                        Check::Awk => scripts::check_awk(text)?,
                        Check::Sed => scripts::check_sed(text)?,
                        Check::Jq => scripts::check_jq(text)?,
                        _ => {}
                    }
                    operands = rest;
                }
            }
        }
        if known.check == Check::Sed {
            let scripts = parsed
                .options
                .iter()
                .filter(|(option, _)| option == "-e" || option == "--expression");
            for (_, script) in scripts {
                scripts::check_sed(script.as_deref().unwrap_or_default())?;
            }
        }
        if known.check == Check::Date
            && let Some(word) = parsed.operands.iter().find(|word| !word.starts_with('+'))
        {
            let why = format!("`{word}` may set the clock");
            return Err(Unclear::new("shell.operand", why));
        }
        let values = parsed.options.iter().filter_map(|(_, value)| value.as_ref());
        if known.check == Check::NoAt
            && let Some(word) = operands.iter().chain(values).find(|word| word.starts_with('@'))
        {
            let why = format!("`{word}` names a file with more words");
            return Err(Unclear::new("shell.operand", why));
        }
        // A word such as `name=value` is a variable for awk, and no file.
        let is_variable = |word: &str| known.check == Check::Awk && is_assignment(word);
        let operands = operands.iter().filter(|word| !is_variable(word));
        for file in operands.chain(&parsed.files) {
            files::check_operand(self.scene, &self.cwd, file)?;
        }
        if known.check == Check::Diff {
            let is_directory = |name: &String| files::is_directory(&self.cwd.join(name));
            let n_directories = parsed.operands.iter().filter(|name| is_directory(name)).count();
            let is_walk = parsed.has("-r") || parsed.has("--recursive");
            if n_directories != 0 && !(n_directories == parsed.operands.len() && is_walk) {
                let why = "diff looks for the other file in the directory";
                return Err(Unclear::new("shell.operand", why));
            }
        }
        Ok(())
    }
}

/// Returns words with which a program that walks through directories leaves out what is asked about where
/// it is named, and links, which may lead anywhere.
fn without_secrets(known: &Program, parsed: &Parsed) -> Vec<String> {
    let is_recursive = ["-r", "--recursive"].iter().any(|option| parsed.has(option))
        || ["-d", "--directories"].iter().any(|option| parsed.value(option) == Some("recurse"));
    let each = |word: fn(&str) -> String| files::SECRETS.iter().map(|name| word(name)).collect();
    match known.check {
        Check::Grep if is_recursive => each(|name| format!("--exclude={}", in_any_case(name))),
        Check::Rg => each(|name| format!("--iglob=!{name}")),
        Check::Diff if is_recursive => {
            let mut words: Vec<String> = each(|name| format!("--exclude={}", in_any_case(name)));
            words.push(String::from("--no-dereference"));
            words
        }
        _ => Vec::new(),
    }
}

/// Refuses words that a program reads otherwise than the options of others are read.
fn check_odd(name: &str, args: &[String]) -> Result<(), Unclear> {
    let is_odd = |(at, word): &(usize, &String)| match name {
        // The old form of `-n`, with `f` to follow, and that of `-k`.
        "tail" | "head" => *at == 0 && word.starts_with('+'),
        "sort" => word.starts_with('+'),
        // Letters whose value is always the next word.
        "tree" => {
            let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            letters.is_some_and(|letters| 1 < letters.len() && letters.contains(['P', 'I', 'L']))
        }
        _ => false,
    };
    match args.iter().enumerate().find(is_odd).map(|(_, word)| word) {
        None => Ok(()),
        Some(word) => {
            let why = format!("`{word}` of {name} is not known to only read");
            Err(Unclear::new("shell.option", why))
        }
    }
}

/// Returns whether awk takes a word for a variable and its value.
fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Returns a pattern that fits whatever the case of its letters.
fn in_any_case(pattern: &str) -> String {
    let both = |c: char| match c.is_ascii_lowercase() {
        true => format!("[{c}{}]", c.to_ascii_uppercase()),
        false => c.to_string(),
    };
    pattern.chars().map(both).collect()
}

fn is_version(name: &str, args: &[String]) -> bool {
    let [only] = args else { return false };
    let known = programs::VERSIONS.iter().find(|(known, _)| *known == name);
    known.is_some_and(|(_, asked)| asked.contains(&only.as_str()))
}

pub(super) fn unknown(name: &str) -> Unclear {
    Unclear::new("shell.program", format!("`{name}` is no program that is known to only read"))
}

/// Returns whether a program lies outside the roots, links followed.
#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn is_outside(path: &Path, roots: &[PathBuf]) -> bool {
    std::fs::canonicalize(path).is_ok_and(|real| !roots.iter().any(|root| real.starts_with(root)))
}

#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn is_same(one: &Path, other: &Path) -> bool {
    match (std::fs::canonicalize(one), std::fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

//! Hooks in folders of their own: `HOOK.md` with front matter and the program beside it, or `hook.toml`.
//!
//! Front matter is TOML between lines of `+++`, or between lines of `---` the part of YAML that keys,
//! texts, numbers, lists and one level of tables need; any other YAML is refused by its line, since a
//! hook that is read otherwise than it was meant is worse than none. What cannot be read is an error
//! that names file, line, column and reason.
#![expect(
    clippy::disallowed_methods,
    reason = "configuration files are read here and nowhere else"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sinew_guard::Layer;

use super::layers::Layers;
use super::options::{HookCommandOptions, HookOptions};
use super::trust::Content;
use super::{ConfigError, Origin, hooks, layers};

/// The files that a folder of a hook may have, the first of which counts.
const FILES: [&str; 2] = ["HOOK.md", "hook.toml"];

impl Layers {
    /// Adds the hooks that lie in folders of a directory, if there is one.
    pub fn add_hook_folders(&mut self, dir: &Path) -> Result<(), ConfigError> {
        for (path, folder) in files(dir)? {
            let text = layers::read(&path).map_err(|error| fault(&path, "", &error))?;
            self.add_hook_file(&path, text, folder, Layer::User)?;
        }
        Ok(())
    }

    /// Adds the hooks that lie in folders of a project, `.sinew/hooks/NAME`, where it is trusted; says
    /// that they are left out where it is not. No link is followed to them.
    pub fn add_project_hooks(&mut self, project: &Path) -> Result<(), ConfigError> {
        let dir = project.join(".sinew/hooks");
        let is_own = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
        if !is_own(&project.join(".sinew")) || !is_own(&dir) {
            return Ok(());
        }
        let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
        let files = match files(&dir) {
            Ok(files) => files,
            // A repository does not keep sinew from starting.
            Err(error) if self.trusted_project.is_none() => {
                self.warnings.push(error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for (path, folder) in files {
            if self.trusted_project.is_none() {
                let left_out = format!("{}: it is left out, {}", path.display(), hooks::UNTRUSTED);
                self.warnings.push(left_out);
            } else if is_own(&folder) && is_file(&path) {
                let text = layers::read(&path).map_err(|error| fault(&path, "", &error))?;
                self.add_hook_file(&path, text, folder, Layer::Project)?;
            } else {
                let why = "a project's hook may not be reached by a link";
                return Err(fault(&path, "", &why));
            }
        }
        Ok(())
    }

    /// Adds the hooks in folders of a project as they are in the content that a person trusts.
    pub(crate) fn add_trusted_hooks(
        &mut self,
        project: &Path,
        content: &Content,
    ) -> Result<(), ConfigError> {
        for file in trusted_files(content) {
            let path = project.join(&file);
            let text = content.text(project, &file).map_err(|error| fault(&path, "", &error))?;
            let folder = path.parent().map(Path::to_owned).unwrap_or_default();
            self.add_hook_file(&path, text, folder, Layer::Project)?;
        }
        Ok(())
    }

    fn add_hook_file(
        &mut self,
        path: &Path,
        text: String,
        folder: PathBuf,
        layer: Layer,
    ) -> Result<(), ConfigError> {
        let hook = hook_of(path, text, folder)?;
        let origin = Origin::File(path.to_owned(), None, layer);
        self.hooks.add_one(hooks::as_written(&hook), origin);
        Ok(())
    }
}

/// Returns the error of a file.
fn fault(path: &Path, at: &str, why: &dyn std::fmt::Display) -> ConfigError {
    ConfigError(format!("{}{at}: {why}", path.display()))
}

/// Reads the hook of a file that lies in a folder.
fn hook_of(path: &Path, text: String, folder: PathBuf) -> Result<HookOptions, ConfigError> {
    let fail = |Fault { line, column, why }| fault(path, &format!(":{line}:{column}"), &why);
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    let toml = if is_toml { Ok(text) } else { front_matter(&text) }.map_err(fail)?;
    let mut hook = read(&toml).map_err(fail)?;
    let folder = fs::canonicalize(&folder).unwrap_or(folder);
    if hook.name.is_none() {
        hook.name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    }
    let folder = hook.cwd.get_or_insert(folder).clone();
    if let HookCommandOptions::Words(words) = &mut hook.command
        && let Some(program) = words.first_mut()
        && program.contains('/')
        && let Some(real) = folder.join(&*program).to_str()
    {
        real.clone_into(program);
    }
    let meant = hooks::read_one("", &hook);
    meant.map_err(|error| fail(placed(&toml, error.to_string())))?;
    Ok(hook)
}

/// Returns an error about a key with the place of the key; where it is missing, that of the file.
fn placed(toml: &str, why: String) -> Fault {
    let key = why.split('`').nth(1).unwrap_or_default();
    let is_of_key = |line: &str| {
        let rest = line.trim_start().strip_prefix(key)?;
        rest.trim_start().starts_with('=').then(|| line.len() - line.trim_start().len())
    };
    let mut lines = toml.lines().enumerate();
    match lines.find_map(|(at, line)| Some((at, is_of_key(line)?))) {
        Some((at, indent)) => Fault::at(at + 1, indent + 1, why),
        None => Fault::at(1, 1, why),
    }
}

/// Returns the files of a trusted content that have hooks, the first of each folder.
fn trusted_files(content: &Content) -> Vec<PathBuf> {
    let files = content.hooks();
    let folders: BTreeSet<&Path> = files.iter().filter_map(|(path, _)| path.parent()).collect();
    let is_hook = |folder: &&&Path| folder.components().count() == 3;
    let of = |folder: &&Path| {
        let mut names = FILES.iter().map(|name| folder.join(name));
        names.find(|path| files.iter().any(|(known, _)| known == path))
    };
    folders.iter().filter(is_hook).filter_map(of).collect()
}

/// Returns the file of each folder of a directory that has one, by name, and the folder. Only what is not
/// there is no hook: what cannot be looked at may be one that stops calls.
fn files(dir: &Path) -> Result<Vec<(PathBuf, PathBuf)>, ConfigError> {
    if !is_there(dir)? {
        return Ok(Vec::new());
    }
    let fail = |error| fault(dir, "", &error);
    let entries = fs::read_dir(dir).map_err(fail)?;
    let mut folders = Vec::new();
    for entry in entries {
        folders.push(entry.map_err(fail)?.path());
    }
    folders.sort();
    let mut found = Vec::new();
    for folder in folders {
        // A link that leads nowhere is a hook that somebody lost.
        fs::metadata(&folder).map_err(|error| fault(&folder, "", &error))?;
        for name in FILES {
            let path = folder.join(name);
            if is_there(&path)? {
                found.push((path, folder));
                break;
            }
        }
    }
    Ok(found)
}

/// Returns whether something is there, be it a link that leads nowhere.
fn is_there(path: &Path) -> Result<bool, ConfigError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if layers::is_absent(&error) => Ok(false),
        Err(error) => Err(fault(path, "", &error)),
    }
}

/// Where a file cannot be read, and why.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    line: usize,
    column: usize,
    why: String,
}

impl Fault {
    fn at(line: usize, column: usize, why: impl Into<String>) -> Self {
        Self { line, column, why: why.into() }
    }
}

/// Reads a hook of TOML.
fn read(toml: &str) -> Result<HookOptions, Fault> {
    toml_edit::de::from_str(toml).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = toml.get(..start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Fault::at(line, column, error.message().trim_end())
    })
}

/// Returns the front matter of a file as TOML, whose lines have the numbers that they have there.
fn front_matter(text: &str) -> Result<String, Fault> {
    let mut lines = text.lines().enumerate();
    let fence = lines.next().map(|(_, line)| line.trim_end()).unwrap_or_default();
    let fence = fence.strip_prefix('\u{feff}').unwrap_or(fence);
    if fence != "+++" && fence != "---" {
        let why =
            "begin the file with front matter between two lines of `+++` (TOML) or `---` (YAML)";
        return Err(Fault::at(1, 1, why));
    }
    let mut front = Vec::new();
    for (at, line) in lines {
        if line.trim_end() == fence {
            return match fence {
                "+++" => Ok(format!("\n{}\n", front.join("\n"))),
                _ => yaml(&front),
            };
        }
        if front.len() == MAX_LINES {
            return Err(Fault::at(
                at + 1,
                1,
                format!("front matter has at most {MAX_LINES} lines"),
            ));
        }
        front.push(line);
    }
    Err(Fault::at(1, 1, format!("the front matter has no end; write a line of `{fence}` after it")))
}

/// No hook needs more lines.
const MAX_LINES: usize = 1_000;

/// Turns the part of YAML that is read into TOML: each key stays on its line.
fn yaml(lines: &[&str]) -> Result<String, Fault> {
    // The first line of the file is the fence.
    let mut toml = String::from("\n");
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let number = at + 2;
        at += 1;
        if is_blank(line) {
            toml.push('\n');
            continue;
        }
        if line.starts_with([' ', '\t', '-']) {
            return Err(Fault::at(
                number,
                1,
                "a key is expected here, at the beginning of the line",
            ));
        }
        let (key, value) = keyed(line, number, 0)?;
        if !value.is_empty() {
            let _ = writeln!(
                toml,
                "{key} = {}",
                scalar_or_flow(value, number, column_of(line, value))?
            );
            continue;
        }
        let block: Vec<&str> = lines
            .get(at..)
            .unwrap_or_default()
            .iter()
            .take_while(|line| is_blank(line) || line.starts_with([' ', '\t', '-']))
            .copied()
            .collect();
        let _ = writeln!(toml, "{key} = {}", nested(&block, number)?);
        toml.push_str(&"\n".repeat(block.len()));
        at += block.len();
    }
    Ok(toml)
}

fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// Returns the column of a part of a line.
fn column_of(line: &str, part: &str) -> usize {
    let start = line.len() - line.trim_end().len().min(line.len());
    let before = line.len() - start - part.len().min(line.len() - start);
    line.get(..before).unwrap_or_default().chars().count() + 1
}

/// Splits a line with a key, whose value may be empty.
fn keyed(line: &str, number: usize, indent: usize) -> Result<(String, &str), Fault> {
    let no_key = || Fault::at(number, indent + 1, "a key and a colon are expected here");
    let (key, value) =
        line.get(indent..).and_then(|line| line.split_once(':')).ok_or_else(no_key)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if key.is_empty() || !key.chars().all(fits) {
        return Err(no_key());
    }
    if !value.is_empty() && !value.starts_with([' ', '\t']) {
        return Err(Fault::at(
            number,
            indent + key.len() + 2,
            "a space is expected after the colon",
        ));
    }
    Ok((key.to_owned(), without_comment(value).trim()))
}

/// Takes away a comment at the end of a line, but not what only looks like one in quotes.
fn without_comment(value: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in value.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return value.get(..at).unwrap_or_default(),
            // A quote that is doubled goes on.
            (None, '"' | '\'') if " \t[,:".contains(before) || before == c => quote = Some(c),
            (Some(open), _) if c == open && before != '\\' => quote = None,
            _ => {}
        }
        before = c;
    }
    value
}

/// Reads the lines beneath a key: a list, or a table of texts.
fn nested(block: &[&str], above: usize) -> Result<String, Fault> {
    let mut items = Vec::new();
    let mut is_list = None;
    let mut first_indent = None;
    for (at, line) in block.iter().enumerate().filter(|(_, line)| !is_blank(line)) {
        let number = above + 1 + at;
        let indent = line.len() - line.trim_start().len();
        if line.contains('\t') {
            return Err(Fault::at(number, 1, "write spaces instead of tabs"));
        }
        if *first_indent.get_or_insert(indent) != indent {
            return Err(Fault::at(number, indent + 1, "only one level beneath a key is read here"));
        }
        let item = line.trim_start().strip_prefix("- ");
        if *is_list.get_or_insert(item.is_some()) != item.is_some() {
            return Err(Fault::at(number, indent + 1, "a list and a table are mixed here"));
        }
        items.push(match item {
            Some(item) => {
                let item = without_comment(item).trim();
                scalar_or_flow(item, number, indent + 3)?
            }
            None => {
                let (key, value) = keyed(line, number, indent)?;
                format!("{key} = {}", scalar_or_flow(value, number, column_of(line, value))?)
            }
        });
    }
    match is_list {
        None => Err(Fault::at(above, 1, "the key has no value")),
        Some(true) => Ok(format!("[{}]", items.join(", "))),
        Some(false) => Ok(format!("{{ {} }}", items.join(", "))),
    }
}

/// Reads one value: a text, a number, true or false, or a list of them in brackets.
fn scalar_or_flow(value: &str, line: usize, column: usize) -> Result<String, Fault> {
    let Some(list) = value.strip_prefix('[') else { return scalar(value, line, column) };
    let Some(list) = list.strip_suffix(']') else {
        return Err(Fault::at(
            line,
            column,
            "a list in brackets ends on the line that it begins on",
        ));
    };
    let mut items = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        let end = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let closed = rest.char_indices().skip(1).find(|(at, c)| {
                    *c == quote && !rest.get(..*at).unwrap_or_default().ends_with('\\')
                });
                let (closed, _) =
                    closed.ok_or_else(|| Fault::at(line, column, "a quote is not closed"))?;
                closed
                    + rest
                        .get(closed..)
                        .and_then(|rest| rest.find(','))
                        .unwrap_or(rest.len() - closed)
            }
            _ => rest.find(',').unwrap_or(rest.len()),
        };
        items.push(scalar(rest.get(..end).unwrap_or_default().trim(), line, column)?);
        rest = rest.get(end + 1..).unwrap_or_default().trim();
    }
    Ok(format!("[{}]", items.join(", ")))
}

fn scalar(value: &str, line: usize, column: usize) -> Result<String, Fault> {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let unread = || {
        Fault::at(
            line,
            column,
            "this form of YAML is not read here; put the value in quotes, or write TOML between lines of `+++`",
        )
    };
    let quoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    match value.chars().next() {
        None => Err(Fault::at(line, column, "a value is expected here")),
        Some('\'') => match quoted('\'') {
            Some(inner) if !inner.replace("''", "").contains('\'') => {
                Ok(text(&inner.replace("''", "'")))
            }
            _ => Err(unread()),
        },
        Some('"') => {
            let read = serde_json::from_str::<String>(value);
            read.map(|inner| text(&inner)).map_err(|_| unread())
        }
        Some('|' | '>' | '&' | '*' | '!' | '%' | '@' | '`' | '{' | '[' | '?' | ',') => {
            Err(unread())
        }
        Some(_) if value.contains(": ") => Err(unread()),
        Some(_) if value == "true" || value == "false" => Ok(value.to_owned()),
        Some(_) if value.parse::<i64>().is_ok() => {
            Ok(value.parse::<i64>().unwrap_or(0).to_string())
        }
        Some(_) => Ok(text(value)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Result<HookOptions, Fault> {
        front_matter(text).and_then(|toml| read(&toml))
    }

    #[test]
    fn toml_and_yaml_say_the_same() {
        let toml = "+++\nname = \"audit\"\nevents = [\"BeforeToolCall\", \"AfterToolCall\"]\n\
                    command = \"./handler.sh\"\ntimeout = 5\npriority = -3\nin_root = true\n\
                    \n[requires]\nbins = [\"jq\"]\n\n[env]\nA = \"it's #1\"\n+++\n\n# Audit\n";
        let expected = of(toml).expect("TOML");
        assert_eq!(expected.timeout, Some(5));
        for yaml in [
            "---\nname: audit\nevents: [BeforeToolCall, \"AfterToolCall\"]\ncommand: ./handler.sh\n\
             timeout: 5 # seconds\npriority: -3\nin_root: true\nrequires:\n  bins: [jq]\nenv:\n  \
             A: 'it''s #1'\n---\nbody\n",
            "---\n# a hook\nname: 'audit'\nevents:\n  - BeforeToolCall\n  - 'AfterToolCall'\n\
             command: \"./handler.sh\"\n\ntimeout: 5\npriority: -3\nin_root: true\nrequires:\n\n    \
             bins: ['jq']\nenv:\n    A: \"it's #1\"\n---",
        ] {
            assert_eq!(of(yaml).expect(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_by_line_and_column() {
        for (text, line, column, words) in [
            ("", 1, 1, "begin the file with front matter"),
            ("# A hook\n", 1, 1, "begin the file with front matter"),
            ("+++\nname = \"x\"\n", 1, 1, "has no end"),
            ("+++\nevent = \"persist\"\ncommand = [\"x\"\n+++\n", 3, 15, "array"),
            ("+++\nevent = \"persist\"\nsurprise = 1\n+++\n", 3, 1, "unknown field `surprise`"),
            ("+++\ncommand = 7\n+++\n", 2, 11, "a list of words, or a text"),
            ("---\nevent persist\n---\n", 2, 1, "a key and a colon"),
            ("---\nevent:persist\n---\n", 2, 7, "a space is expected"),
            ("---\n  event: persist\n---\n", 2, 1, "a key is expected"),
            ("---\ncommand: |\n  x\n---\n", 2, 10, "this form of YAML"),
            ("---\ncommand: [a\n---\n", 2, 10, "a list in brackets"),
            ("---\ncommand: ['a]\n---\n", 2, 10, "a quote is not closed"),
            ("---\nenv:\n\tA: b\n---\n", 3, 1, "tabs"),
            ("---\nenv:\n  A:\n    b: c\n---\n", 3, 5, "a value is expected"),
            ("---\nenv:\n  A: b\n    C: d\n---\n", 4, 5, "only one level"),
            ("---\nenv:\n  A: b\n  - c\n---\n", 4, 3, "mixed"),
            ("---\nenv:\n---\n", 2, 1, "the key has no value"),
            ("---\nname: a: b\n---\n", 2, 7, "this form of YAML"),
            ("---\nname: x\nsurprise: 1\n---\n", 3, 1, "unknown field `surprise`"),
        ] {
            let fault = of(text).expect_err(text);
            assert!(fault.why.contains(words), "{text:?}: {fault:?}");
            assert_eq!((fault.line, fault.column), (line, column), "{text:?}: {fault:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_hook_or_a_fault_in_one_of_its_lines(text in "(---|\\+\\+\\+)?\n?([ -~]{0,20}\n){0,8}(---|\\+\\+\\+)?\n?") {
            if let Err(fault) = of(&text) {
                prop_assert!(1 <= fault.line && fault.line <= text.lines().count() + 2, "{fault:?}");
            }
        }

        #[test]
        fn texts_in_quotes_come_through(written in "[ -~]{1,30}") {
            let text = format!("---\nname: {}\ncommand: [x]\n---\n", serde_json::Value::from(written.as_str()));
            prop_assert_eq!(of(&text).map(|hook| hook.name), Ok(Some(written.clone())));
            let single = written.replace('\'', "''");
            let text = format!("---\nname: '{single}'\ncommand: [x]\n---\n");
            if !written.ends_with('\\') {
                prop_assert_eq!(of(&text).map(|hook| hook.name), Ok(Some(written)));
            }
        }
    }
}

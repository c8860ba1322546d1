//! Loads hooks from folders: `HOOK.md` with front matter and the program beside it, or `hook.toml`.
//!
//! Front matter is TOML between lines of `+++`, or YAML between lines of `---`. A misread hook is worse
//! than none, so a parse error names file, line, column and reason.
#![expect(
    clippy::disallowed_methods,
    reason = "configuration files are read here and nowhere else"
)]

mod yaml;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sinew_guard::Layer;

use super::files::{HOOKS_DIR, PROJECT_DIR};
use super::layers::{Layers, LeftOut};
use super::options::{HookCommandOptions, HookOptions};
use super::trust::Content;
use super::{ConfigError, Origin, files, hooks};

/// The file names of a hook folder; the first that exists counts.
const FILES: [&str; 2] = ["HOOK.md", "hook.toml"];

impl Layers {
    /// Adds the hooks in the folders of a directory, if it exists.
    pub fn add_hook_folders(&mut self, dir: &Path) -> Result<(), ConfigError> {
        for (path, folder) in hook_files(dir)? {
            let text = files::read(&path).map_err(|error| fault(&path, "", &error))?;
            self.add_hook_file(&path, text, folder, Layer::User)?;
        }
        Ok(())
    }

    /// Leaves out the hooks in the folders of a directory: they would run outside the sandbox.
    pub(super) fn leave_out_hook_folders(&mut self, dir: &Path) -> Result<(), ConfigError> {
        for (path, folder) in hook_files(dir)? {
            let text = files::read(&path).map_err(|error| fault(&path, "", &error))?;
            let value = hooks::as_written(&hook_of(&path, text, folder)?);
            let origin = Origin::File(path, None, Layer::Session);
            self.left_out.push(LeftOut { key: hooks::KEY.to_owned(), value, origin });
        }
        Ok(())
    }

    /// Adds the hooks of a trusted project, `.sinew/hooks/NAME`, without following symlinks.
    /// For an untrusted project it warns that they are left out.
    pub fn add_project_hooks(&mut self, project: &Path) -> Result<(), ConfigError> {
        let dir = project.join(PROJECT_DIR).join(HOOKS_DIR);
        let is_own = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
        if !is_own(&project.join(PROJECT_DIR)) || !is_own(&dir) {
            return Ok(());
        }
        let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
        let files = match hook_files(&dir) {
            Ok(files) => files,
            // An untrusted repository cannot stop sinew from starting.
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
                let text = files::read(&path).map_err(|error| fault(&path, "", &error))?;
                self.add_hook_file(&path, text, folder, Layer::Project)?;
            } else {
                let why = "a project's hook may not be reached by a link";
                return Err(fault(&path, "", &why));
            }
        }
        Ok(())
    }

    /// Adds the hooks of a project from the content that the user trusts.
    pub fn add_trusted_hooks(
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

fn fault(path: &Path, at: &str, why: &dyn std::fmt::Display) -> ConfigError {
    ConfigError(format!("{}{at}: {why}", path.display()))
}

fn hook_of(path: &Path, text: String, folder: PathBuf) -> Result<HookOptions, ConfigError> {
    let fail = |Fault { line, column, why }| fault(path, &format!(":{line}:{column}"), &why);
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    let front = if is_toml { Ok((HookFileFormat::Toml, text)) } else { front_matter(&text) };
    let (form, text) = front.map_err(fail)?;
    let mut hook = read(form, &text).map_err(fail)?;
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
    meant.map_err(|error| fail(placed(form, &text, error.to_string())))?;
    Ok(hook)
}

/// Returns an error with the line and column of its key, or of the file if the key is missing.
fn placed(form: HookFileFormat, text: &str, why: String) -> Fault {
    let key = why.split('`').nth(1).unwrap_or_default();
    let other = ALIASES.iter().find(|(name, _)| *name == key).map_or(key, |(_, alias)| alias);
    let keys = [key, other];
    let place = match form {
        HookFileFormat::Toml => place_of(text, &keys),
        HookFileFormat::Yaml => yaml::place_of(text, &keys),
    };
    let (line, column) = place.unwrap_or((1, 1));
    Fault::at(line, column, why)
}

/// Returns the line and column of the first of these TOML keys.
fn place_of(text: &str, keys: &[&str]) -> Option<(usize, usize)> {
    let document = toml_edit::Document::parse(text).ok()?;
    let mut found = keys.iter().filter_map(|key| document.as_table().key(key)?.span());
    let before = text.get(..found.next()?.start)?;
    let line = before.rsplit('\n').next().unwrap_or_default();
    Some((before.matches('\n').count() + 1, line.chars().count() + 1))
}

/// Aliases of hook keys.
const ALIASES: [(&str, &str); 2] = [("tools", "tool_match"), ("paths", "file_match")];

/// Returns the hook files in a trusted content, one for each folder.
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

/// Returns each hook file of a directory and its folder, sorted by name.
/// A failed stat other than "not found" is an error, because that hook may block calls.
fn hook_files(dir: &Path) -> Result<Vec<(PathBuf, PathBuf)>, ConfigError> {
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
        // A dangling symlink is a lost hook, so it is an error.
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

/// Returns whether a path exists, a dangling symlink included.
fn is_there(path: &Path) -> Result<bool, ConfigError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if files::is_absent(&error) => Ok(false),
        Err(error) => Err(fault(path, "", &error)),
    }
}

/// A parse error with its place.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HookFileFormat {
    Toml,
    Yaml,
}

fn read(form: HookFileFormat, text: &str) -> Result<HookOptions, Fault> {
    match form {
        HookFileFormat::Toml => toml_edit::de::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.get(..start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            Fault::at(line, column, error.message().trim_end())
        }),
        HookFileFormat::Yaml => yaml::read(text),
    }
}

/// Returns the front matter of a file, with its line numbers kept.
fn front_matter(text: &str) -> Result<(HookFileFormat, String), Fault> {
    let mut lines = text.lines().enumerate();
    let fence = lines.next().map(|(_, line)| line.trim_end()).unwrap_or_default();
    let fence = fence.strip_prefix('\u{feff}').unwrap_or(fence);
    let form = match fence {
        "+++" => HookFileFormat::Toml,
        "---" => HookFileFormat::Yaml,
        _ => {
            let why = "begin the file with front matter between two lines of `+++` (TOML) or `---` \
                       (YAML)";
            return Err(Fault::at(1, 1, why));
        }
    };
    let mut front = Vec::new();
    for (at, line) in lines {
        if line.trim_end() == fence {
            return Ok((form, format!("\n{}\n", front.join("\n"))));
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

/// The limit of front matter, in lines.
const MAX_LINES: usize = 1_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Result<HookOptions, Fault> {
        front_matter(text).and_then(|(form, text)| read(form, &text))
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
            ("---\nevent persist\n---\n", 2, 1, "expected mapping start"),
            ("---\nevent:persist\n---\n", 2, 1, "expected mapping start"),
            ("---\ncommand: [a\n---\n", 2, 10, "unclosed bracket"),
            ("---\ncommand: ['a]\n---\n", 2, 11, "unclosed quote"),
            ("---\ncommand: 7\n---\n", 2, 1, "a list of words, or a text"),
            ("---\nenv:\n\tA: b\n---\n", 3, 2, "tabs"),
            ("---\nenv:\n  A:\n    b: c\n---\n", 4, 5, "expected string"),
            ("---\nenv:\n  A: b\n    C: d\n---\n", 4, 6, "mapping values"),
            ("---\nenv:\n  A: b\n  - c\n---\n", 4, 5, "did not find expected key"),
            ("---\nenv:\n---\n", 2, 4, "a value is expected"),
            ("---\nname: a: b\n---\n", 2, 8, "mapping values"),
            ("---\nname: 7\n---\n", 2, 7, "requires quoting"),
            ("---\nname: !x y\n---\n", 2, 10, "tags are not read"),
            ("---\nname: !!str 7\n---\n", 2, 13, "tags are not read"),
            ("---\ncommand: [x, !!binary aGk=]\n---\n", 2, 23, "tags are not read"),
            ("---\ncommand: !!seq [x]\n---\n", 2, 16, "tags are not read"),
            ("---\nname: &a x\n---\n", 2, 10, "anchors and aliases"),
            ("---\non_error:\n---\n", 2, 9, "a value is expected"),
            ("---\non_error: ~\n---\n", 2, 11, "a value is expected"),
            ("---\nevent: persist\non_error: null\n---\n", 3, 11, "a value is expected"),
            ("---\nenv:\n  A: NULL\n---\n", 3, 6, "a value is expected"),
            ("---\n# a note\ron_error: continue\n---\n", 2, 9, "a carriage return"),
            ("+++\n# a note\ron_error = \"continue\"\n+++\n", 2, 10, "carriage return"),
            ("---\ncommand: [x, 7]\n---\n", 2, 14, "requires quoting"),
            ("+++\ncommand = [\"x\", 7]\n+++\n", 2, 17, "expected a string"),
            ("---\nname: x\nname: y\n---\n", 3, 1, "duplicate mapping key `name`"),
            ("---\nname: x\nsurprise: 1\n---\n", 3, 1, "unknown field `surprise`"),
            ("---\nenv:\n  A: b\n<<: {A: c}\n---\n", 4, 1, "merge key"),
            ("---\nin_root: yes\n---\n", 2, 10, "true or false expected"),
            ("---\nname: x\n---\n", 2, 1, "missing field `command`"),
            ("---\n---\n", 3, 1, "unexpected end"),
        ] {
            let fault = of(text).expect_err(text);
            assert!(fault.why.contains(words), "{text:?}: {fault:?}");
            assert_eq!((fault.line, fault.column), (line, column), "{text:?}: {fault:?}");
        }
    }

    #[test]
    fn what_is_meant_wrongly_is_told_where_its_key_stands() {
        for (text, line, column) in [
            ("---\nenv:\n  event: x\nevent: never\ncommand: [x]\n---\n", 4, 1),
            ("---\ndescription: |\n  event: x\nevent: never\ncommand: [x]\n---\n", 4, 1),
            ("---\n'event': never\ncommand: [x]\n---\n", 2, 1),
            ("---\n{command: [x], event: never}\n---\n", 2, 16),
            ("---\nevent: persist\nfile_match: [\"[\"]\ncommand: [x]\n---\n", 3, 1),
            ("+++\ncommand = [\"x\"]\nevent = \"never\"\n[env]\nevent = \"x\"\n+++\n", 3, 1),
            ("+++\ncommand = [\"x\"]\n+++\n", 1, 1),
        ] {
            let (form, text) = front_matter(text).expect(text);
            let hook = read(form, &text).expect(&text);
            let why = hooks::read_one("", &hook).expect_err(&text).to_string();
            let fault = placed(form, &text, why);
            assert_eq!((fault.line, fault.column), (line, column), "{text}: {fault:?}");
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

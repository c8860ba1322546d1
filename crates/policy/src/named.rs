//! Finds the protected names that the text of a command says it changes.
//!
//! They become part of the question about the command, and an answer that allows it allows these changes.
//! Scripts of `package.json` that a package manager runs belong to the text. What it does not show, such as
//! what a program writes by itself, is refused in the middle of the command.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use sinew_shell::file_system::FileSystem;
use sinew_tool::{CommandList, Piece};

use serde_json::{Map, Value};

use crate::git_config;
use crate::guarded::{self, Guarded};
use crate::protected::{self, Names};

/// Programs that change no file that their words name.
const READERS: &[&str] = &[
    "[",
    "basename",
    "bat",
    "cat",
    "cd",
    "cmp",
    "cut",
    "diff",
    "dirname",
    "echo",
    "file",
    "grep",
    "head",
    "jq",
    "less",
    "ls",
    "md5sum",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rg",
    "sha256sum",
    "stat",
    "tail",
    "test",
    "tree",
    "wc",
];

/// Programs that set up hooks of git: their words until then, and the protected names that they change.
const SET_UPS: &[(&[&str], &[&str])] = &[
    (&["husky"], &[".husky/", ".git/config"]),
    (&["husky", "init"], &[".husky/", ".git/config"]),
    (&["husky", "install"], &[".husky/", ".git/config"]),
    (&["pre-commit", "install"], &[".git/hooks/"]),
    (&["lefthook", "install"], &[".git/hooks/"]),
    (&["git", "lfs", "install"], &[".git/hooks/", ".git/config"]),
];

/// Programs that run another one by its name.
const RUNNERS: &[&[&str]] = &[
    &["npx"],
    &["bunx"],
    &["pnpm", "exec"],
    &["pnpm", "dlx"],
    &["yarn", "exec"],
    &["npm", "exec"],
];

/// Options whose value is left out of what a program does.
const LEFT_OUT: &[&str] = &[
    "--exclude",
    "--exclude-dir",
    "--exclude-from",
    "--ignore",
    "--ignore-path",
    "-path",
    "-ipath",
    "-wholename",
    "-name",
    "-iname",
];

/// Package managers that run scripts of `package.json`.
const PACKAGE_MANAGERS: &[&str] = &["npm", "pnpm", "yarn", "bun"];
/// The scripts that they run when they install packages.
const OF_INSTALL: &[&str] =
    &["preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare"];
/// The largest `package.json` that is looked at, in bytes.
const MAX_PACKAGE: u64 = 256 * 1024;
/// The most commands of all scripts together.
const MAX_COMMANDS: usize = 2_000;

/// Where a command would run.
pub struct Scene<'a> {
    /// The real path of its working directory.
    pub cwd: &'a Path,
    /// The real paths of the roots.
    pub roots: &'a [&'a Path],
    /// Protected names that commands may change anyway.
    pub granted: &'a [String],
    pub files: &'a dyn FileSystem,
}

/// Words of a repository's own directory, and those that a command of git names.
const WORDS_OF_GIT: &[&str] = &[
    "branches",
    "commondir",
    "config",
    "gitdir",
    "hooks",
    "lfs",
    "modules",
    "objects",
    "rebase",
    "remotes",
    "sequencer",
    "set-url",
    "worktrees",
];

/// Returns whether the text of a command may name a protected name. Most texts hold no word that does, and
/// listing their commands takes longer than this.
pub fn may_name(text: &str) -> bool {
    static WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        let first =
            |name: &'static str| name.trim_start_matches('*').split('/').next().unwrap_or_default();
        let names = protected::all().map(|row| first(row.name));
        let set_ups = SET_UPS.iter().filter_map(|(words, _)| words.first().copied());
        let words = names.chain(set_ups.filter(|word| *word != "git"));
        let words =
            words.chain(PACKAGE_MANAGERS.iter().copied()).chain(WORDS_OF_GIT.iter().copied());
        AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()
    });
    WORDS.as_ref().is_none_or(|words| words.is_match(text))
}

/// Returns the protected names that commands say they change, each once.
pub fn named(list: &CommandList, scene: &Scene<'_>) -> Vec<&'static str> {
    let mut found = Vec::new();
    scene.list(list, &mut found);
    let mut scripts = Scripts::default();
    scripts.add_run_by(list, scene);
    // A model may have written `package.json`: each script is read once, and all together have a limit.
    let (mut at, mut n_commands) = (0, 0);
    while let Some(script) = scripts.texts.get(at) {
        let list = sinew_shell::list(script);
        n_commands += list.all.len();
        if MAX_COMMANDS < n_commands {
            break;
        }
        scene.list(&list, &mut found);
        scripts.add_run_by(&list, scene);
        at += 1;
    }
    let is_granted = |name: &&str| protected::is_granted(name, scene.granted);
    found.retain(|name| !is_granted(name));
    found.sort_unstable();
    found.dedup();
    found
}

/// The scripts of `package.json` that a command runs, each once.
#[derive(Default)]
struct Scripts {
    /// All scripts of the file, once it was read.
    all: Option<Map<String, Value>>,
    names: HashSet<String>,
    texts: Vec<String>,
}

impl Scripts {
    /// Adds the scripts that commands run.
    fn add_run_by(&mut self, list: &CommandList, scene: &Scene<'_>) {
        for name in list.all.iter().flat_map(|words| run_by(words)) {
            let all = self.all.get_or_insert_with(|| {
                let text = scene.files.read(&scene.cwd.join("package.json"), MAX_PACKAGE);
                let package: Option<Value> = serde_json::from_slice(&text.unwrap_or_default()).ok();
                let scripts = package.as_ref().and_then(|package| package.get("scripts"));
                scripts.and_then(Value::as_object).cloned().unwrap_or_default()
            });
            if let Some(script) = all.get(&name).and_then(Value::as_str)
                && self.names.insert(name)
            {
                self.texts.push(script.to_owned());
            }
        }
    }
}

/// Returns the names of the scripts that a command runs.
fn run_by(words: &[Piece]) -> Vec<String> {
    let words = words.iter().map(|word| word.known().unwrap_or_default());
    let mut plain = words.filter(|word| !word.starts_with('-'));
    let program = plain.next().and_then(|program| program.rsplit('/').next());
    if !program.is_some_and(|program| PACKAGE_MANAGERS.contains(&program)) {
        return Vec::new();
    }
    match plain.next() {
        None | Some("install" | "i" | "ci" | "add" | "link" | "update" | "rebuild") => {
            OF_INSTALL.iter().copied().map(str::to_owned).collect()
        }
        Some("run" | "run-script") => plain.next().map(around).unwrap_or_default(),
        Some(name) => around(name),
    }
}

impl Scene<'_> {
    fn list(&self, list: &CommandList, found: &mut Vec<&'static str>) {
        for words in &list.all {
            let words: Vec<&str> =
                words.iter().map(|word| word.known().unwrap_or_default()).collect();
            self.command(&words, found);
        }
        found
            .extend(list.writes.iter().filter_map(Piece::known).filter_map(|word| self.path(word)));
    }

    fn command(&self, words: &[&str], found: &mut Vec<&'static str>) {
        let Some((first, rest)) = words.split_first() else { return };
        let program = first.rsplit('/').next().unwrap_or_default();
        if READERS.contains(&program) {
            return;
        }
        let plain: Vec<&str> = std::iter::once(program)
            .chain(rest.iter().copied())
            .filter(|word| !word.starts_with('-'))
            .collect();
        let runner = RUNNERS.iter().find(|runner| plain.starts_with(runner));
        let plain = plain.get(runner.map_or(0, |runner| runner.len())..).unwrap_or_default();
        for (words, names) in SET_UPS {
            // The first one is a program without words.
            if plain.starts_with(words) && (1 < words.len() || plain.len() == 1) {
                found.extend(*names);
            }
        }
        match program {
            // Git itself writes tracked names only with the content of a commit, which is judged as such.
            "git" => found.extend(of_git(rest)),
            _ => {
                // What a search leaves out is not changed.
                let before = std::iter::once(first).chain(rest);
                let counts = before.zip(rest).filter(|(before, word)| {
                    !LEFT_OUT.contains(before) && !LEFT_OUT.iter().any(|out| is_value_of(out, word))
                });
                found.extend(counts.filter_map(|(_, word)| self.path(word)));
            }
        }
    }

    /// Returns the protected name that a word means as a path, or behind the `=` of an option.
    fn path(&self, word: &str) -> Option<&'static str> {
        let word = match word.split_once('=') {
            Some((option, value)) if option.starts_with('-') => value,
            _ => word,
        };
        let real = guarded::plainly(&self.cwd.join(word));
        let roots = self.roots.iter().filter(|root| real.starts_with(root) && real != **root);
        let root = roots.max_by_key(|root| root.as_os_str().len())?;
        let named = real.strip_prefix(root.parent()?).ok()?;
        let exists = |path: &Path| self.files.lstat(path).is_ok_and(|found| found.is_some());
        match guarded::find(&Names::new(&real, named), &real, self.granted, &exists)? {
            Guarded::Elsewhere(_) | Guarded::Closed(_) | Guarded::Hook { is_sample: true } => None,
            // Directories of a repository are made and removed freely; only that of hooks has a name of its own.
            Guarded::Directory(name) if name != guarded::HOOKS => None,
            found => Some(found.name()),
        }
    }
}

/// Returns whether a word is an option with its value behind `=`.
fn is_value_of(option: &str, word: &str) -> bool {
    word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
}

/// Returns a script of `package.json` with those that run before and after it.
fn around(name: &str) -> Vec<String> {
    vec![format!("pre{name}"), name.to_owned(), format!("post{name}")]
}

/// Returns the subcommand of git, and the words after it.
pub(crate) fn git_command<'a>(words: &[&'a str]) -> Option<(&'a str, Vec<&'a str>)> {
    let mut words = words.iter().copied();
    let command = loop {
        match words.next()? {
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" => drop(words.next()),
            option if option.starts_with('-') => {}
            command => break command,
        }
    };
    Some((command, words.collect()))
}

/// Returns the protected name for which a command of git sets a refused value.
fn of_git(words: &[&str]) -> Option<&'static str> {
    let (command, words) = git_command(words)?;
    let is_refused = match command {
        "config" => sets_refused(&words),
        "remote" | "submodule" => words.contains(&"set-url"),
        _ => false,
    };
    is_refused.then_some(".git/config")
}

/// Returns whether `git config` with these words sets a key of the repository that is refused.
fn sets_refused(words: &[&str]) -> bool {
    let elsewhere = ["--global", "--system", "-f", "--list", "-l"];
    let is_elsewhere = |word: &&str| {
        elsewhere.contains(word)
            || ["--file", "--blob", "--get"].iter().any(|start| word.starts_with(start))
    };
    if words.iter().any(is_elsewhere) {
        return false;
    }
    let before = std::iter::once(&"").chain(words);
    let plain = before.zip(words).filter(|(before, word)| {
        !word.starts_with('-') && !["--type", "--default", "--comment"].contains(before)
    });
    let mut plain = plain.map(|(_, word)| *word).peekable();
    if plain.next_if(|word| matches!(*word, "set" | "unset")).is_none()
        && plain.peek().is_none_or(|word| !word.contains('.'))
    {
        return false;
    }
    let Some(key) = plain.next() else { return false };
    let removes = words.iter().any(|word| word.starts_with("--unset") || *word == "unset");
    match plain.next() {
        Some(value) => git_config::judge_value(key, value).is_err(),
        None => removes && git_config::judge_removal(key).is_err(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use serde_json::json;
    use sinew_shell::file_system::Entries;
    use sinew_tool::FileKind;

    use super::*;

    /// Checks which names the text of a command gives in `/p`.
    fn check(text: &str, expected: &[&str]) {
        struct OnePackage;
        impl FileSystem for OnePackage {
            fn lstat(&self, _: &Path) -> io::Result<Option<FileKind>> {
                Ok(None)
            }
            fn stat(&self, _: &Path) -> io::Result<Option<FileKind>> {
                Ok(None)
            }
            fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
                Ok(path.to_owned())
            }
            fn read_dir(&self, _: &Path) -> io::Result<Entries<'_>> {
                Ok(Box::new(std::iter::empty()))
            }
            fn read(&self, path: &Path, _: u64) -> io::Result<Vec<u8>> {
                assert_eq!(path, Path::new("/p/src/package.json"));
                let scripts = json!({"prepare": "husky", "x": "npm run y", "test": "jest",
                    "posty": "echo 1 > .envrc", "endless": "npm run endless",
                    "wide": "npm run wide;".repeat(3_000)});
                Ok(json!({"scripts": scripts}).to_string().into_bytes())
            }
        }
        let list = sinew_shell::list(text);
        let scene = Scene {
            cwd: Path::new("/p/src"),
            roots: &[Path::new("/p")],
            granted: &[String::from(".idea")],
            files: &OnePackage,
        };
        assert_eq!(named(&list, &scene), expected, "{text}");
        assert!(expected.is_empty() || may_name(text), "{text}");
    }

    #[test]
    fn protected_names_are_found_in_the_text_of_a_command() {
        let all: &[(&str, &[&str])] = &[
            ("echo x > ../.envrc", &[".envrc"]),
            ("echo x >> '../.envrc'", &[".envrc"]),
            ("make &> ../.vscode/settings.json", &[".vscode/"]),
            ("(make; ls) 2> ../CLAUDE.md", &["CLAUDE.md"]),
            ("tee ../.claude/settings.json < x", &[".claude/"]),
            ("cp x ../.husky/pre-commit && chmod +x ../.husky/pre-commit", &[".husky/"]),
            ("prettier --write ../.vscode/settings.json ../AGENTS.md", &[".vscode/", "AGENTS.md"]),
            ("prettier --config=../.npmrc x", &[".npmrc"]),
            ("env A=b sh -c 'sed -i s/a/b/ /p/.mcp.json'", &[".mcp.json"]),
            ("cp hook ../.git/hooks/pre-commit", &[".git/hooks/"]),
            ("rm -rf ../.git", &[".git"]),
            ("npx husky init", &[".git/config", ".husky/"]),
            ("npx --yes husky", &[".git/config", ".husky/"]),
            ("pre-commit install -t pre-push", &[".git/hooks/"]),
            ("git lfs install --local", &[".git/config", ".git/hooks/"]),
            ("git config core.hooksPath .husky", &[".git/config"]),
            ("git -C sub config set --local alias.x '!x'", &[".git/config"]),
            ("git config --unset core.hooksPath", &[".git/config"]),
            ("git config --bool core.fsmonitor true", &[".git/config"]),
            ("git remote set-url origin https://elsewhere.example/x", &[".git/config"]),
            ("npm install --save-dev jest", &[".git/config", ".husky/"]),
            ("yarn", &[".git/config", ".husky/"]),
            ("npm run prepare", &[".git/config", ".husky/"]),
            ("pnpm x", &[".envrc"]),
            ("/usr/bin/npm run prepare", &[".git/config", ".husky/"]),
            ("git config --type bool core.fsmonitor true", &[".git/config"]),
            // Nothing that asks by its name.
            ("npm run wide", &[]),
            ("find .. -path ../.git -prune -o -type f -exec touch {} +", &[]),
            ("tar --exclude=../.git --exclude ../.vscode -czf x.tgz ..", &[]),
            ("mkdir -p ../.git/remotes ../.git/objects", &[]),
            ("git config --file=/tmp/x core.pager y", &[]),
            ("npm test", &[]),
            ("npm run endless", &[]),
            ("npm init -y", &[]),
            ("git config user.name Ada", &[]),
            ("git config core.hooksPath", &[]),
            ("git config --get core.hooksPath x", &[]),
            ("git config --list", &[]),
            ("git config --global core.pager x", &[]),
            ("git remote add origin https://elsewhere.example/x", &[]),
            ("git add ../.envrc ../.vscode && git commit -m .envrc", &[]),
            ("git checkout main -- ../.envrc", &[]),
            ("cat ../.envrc && make", &[]),
            ("make < ../.envrc", &[]),
            ("echo .envrc", &[]),
            ("../.husky/pre-commit", &[]),
            ("vim ../.github/workflows/ci.yml", &[]),
            ("cp x ../.idea/y", &[]),
            ("cp x ../.sinew/config.toml", &[]),
            ("cp x /q/.envrc", &[]),
            ("pip install --target ../.venv/.envrc x", &[]),
            ("husky uninstall", &[]),
            ("pre-commit run", &[]),
        ];
        for (text, expected) in all {
            check(text, expected);
        }
        for text in ["make test", "cargo build --release && ls -l target", "git commit -am 'x y'"] {
            assert!(!may_name(text), "{text}");
        }
    }
}

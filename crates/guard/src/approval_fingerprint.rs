//! Fingerprint of what an approval covers: program, working directory, scripts, environment, sandbox.
//! It is rechecked before the run, because these can change while the question is open (TOCTOU).
//!
//! Arguments cannot change meanwhile, and each file change compares its own file. The fingerprint covers the
//! program, its start directory and the files in the roots that its words name. It also covers files that it
//! loads by default, the activated environment and the sandbox. A difference rejects the call.
//!
//! Another process can still change a file between recheck and start; only the sandbox bounds that effect.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sinew_tool::{CommandLine, CommandTarget, Kind, Links, ToolError};

use crate::clear::Contained;
use crate::guard::Guard;
use crate::spellings::spellings;
use sinew_fs::resolve::{self, Spot};
use sinew_fs::roots::{FILE_READ, open_name};

/// Name of the sandbox in the fingerprint.
pub(crate) const CONTAINMENT: &str = "how commands are contained";
/// The most files that a command may name; a command that may name more is rejected.
const MAX_NAMED: usize = 131_072;
/// The most directories in which words and default files are looked up.
const MAX_DIRS: usize = 64;
/// Files up to this size are hashed, in bytes; larger ones are compared by size and ctime.
const MAX_HASHED: u64 = 16 * 1024 * 1024;

/// Files that programs load by default, by program name.
const READ_BY: &[(&str, &[&str])] = &[
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("gmake", &["GNUmakefile", "makefile", "Makefile"]),
    ("just", &["justfile", ".justfile", "Justfile"]),
    ("task", &["Taskfile.yml", "Taskfile.yaml"]),
    ("rake", &["Rakefile", "rakefile"]),
    ("npm", &["package.json"]),
    ("npx", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("yarn", &["package.json", ".yarnrc.yml"]),
    ("bun", &["package.json", "bunfig.toml"]),
    ("deno", &["deno.json", "deno.jsonc"]),
    ("cargo", &["Cargo.toml", "build.rs", ".cargo/config.toml"]),
    ("pytest", &["conftest.py", "pyproject.toml", "pytest.ini", "setup.cfg"]),
    ("tox", &["tox.ini", "pyproject.toml"]),
    ("cmake", &["CMakeLists.txt"]),
    ("meson", &["meson.build"]),
    ("ninja", &["build.ninja"]),
    ("mvn", &["pom.xml"]),
    ("gradle", &["build.gradle", "build.gradle.kts"]),
    ("composer", &["composer.json"]),
    ("go", &["go.mod"]),
];

/// State of what a command would execute when the approval was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalFingerprint(BTreeMap<String, String>);

impl ApprovalFingerprint {
    /// Takes the fingerprint of a call. Rejects a command that may name more than `MAX_NAMED` files.
    pub(crate) fn of(contained: &Contained) -> Result<Self, ToolError> {
        let mut parts = BTreeMap::new();
        if let Some(command) = &contained.targets().command {
            let guard = contained.guard();
            parts.insert(String::from("the program"), state_at(&command.program));
            let cwd = format!("the directory {}", command.cwd.display());
            parts.insert(cwd, state_at(&command.cwd));
            let named = named(guard, command).ok_or_else(|| {
                ToolError::new(
                    Kind::TooLarge,
                    format!(
                        "this command may name more than {MAX_NAMED} files, so an answer could not hold for \
                         all of them"
                    ),
                )
                .hint("split it into several commands, or put its words into a file that it reads")
            })?;
            // A file that is created later adds a part, which `check` detects.
            for path in named {
                if let Some(state) = state(guard, &path) {
                    parts.insert(format!("the file {}", path.display()), state);
                }
            }
            for segment in &command.analysis.segments {
                let bare = segment.words.first().filter(|name| !name.contains('/'));
                let means =
                    |name: &String| Some((name.clone(), guard.program(name, &command.cwd)?));
                if let Some((name, path)) = bare.and_then(means) {
                    let state = format!("{}:{}", path.display(), state_at(&path));
                    parts.insert(format!("the program {name}"), state);
                }
            }
            for extra in &command.extra.paths {
                let state = state_at(&extra.path);
                parts.insert(format!("the path {}", extra.path.display()), state);
            }
            for (what, value) in guard.surroundings(&command.cwd, contained.address()) {
                parts.insert(what, value);
            }
        }
        Ok(Self(parts))
    }

    /// Returns each part and its state.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(what, state)| (what.as_str(), state.as_str()))
    }

    /// Returns the sandbox of the command in words.
    pub fn containment(&self) -> Option<&str> {
        self.0.get(CONTAINMENT).map(String::as_str)
    }

    /// Rejects the call if a part was changed, added or removed.
    pub(crate) fn check(&self, now: &Self) -> Result<(), ToolError> {
        let changed = self.0.iter().find(|(what, then)| now.0.get(*what) != Some(*then));
        let added = || now.0.keys().find(|what| !self.0.contains_key(*what));
        match changed.map(|(what, _)| what).or_else(added) {
            None => Ok(()),
            Some(what) => Err(ToolError::new(
                Kind::Stale,
                format!("{what} changed after the call was approved, so it did not run"),
            )
            .hint("look at it again and repeat the call; it needs a new approval")),
        }
    }
}

/// Returns the state of a program or a directory, or the kind of error.
#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
pub(crate) fn state_at(path: &Path) -> String {
    match File::open(path).and_then(|file| Ok((file.metadata()?, file))) {
        Ok((meta, file)) => state_of(&meta, file),
        Err(error) => error.kind().to_string(),
    }
}

/// Returns device, inode and mode; of a file also its hash or, if it is too large, its size and ctime.
fn state_of(meta: &std::fs::Metadata, file: File) -> String {
    use std::os::unix::fs::MetadataExt;

    let identity = format!("{}:{}:{}", meta.dev(), meta.ino(), meta.mode());
    if !meta.is_file() {
        return identity;
    }
    let mut hasher = blake3::Hasher::new();
    let hashed =
        meta.len() <= MAX_HASHED && hasher.update_reader(file.take(MAX_HASHED + 1)).is_ok();
    match hashed {
        true => format!("{identity}:{}", hasher.finalize()),
        false => format!("{identity}:{}:{}.{}", meta.len(), meta.ctime(), meta.ctime_nsec()),
    }
}

/// Returns the state of a file beneath the roots, if there is one.
fn state(guard: &Guard, path: &Path) -> Option<String> {
    let open = || {
        let place = resolve::resolve(&guard.shared.roots, path, Links::Follow).ok()?;
        let (Spot::Found(_), Some(name)) = (&place.spot, &place.name) else { return None };
        let parent = place.parent().ok()?;
        let file = File::from(open_name(std::os::fd::AsFd::as_fd(&*parent), name, FILE_READ).ok()?);
        let meta = file.metadata().ok()?;
        Some(format!("{}:{}", place.real.display(), state_of(&meta, file)))
    };
    open().or_else(|| state_of_link(path))
}

/// Returns the state of any other path, such as a symlink that leads out of the roots.
#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn state_of_link(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;

    let meta = std::fs::symlink_metadata(path).ok()?;
    let identity = format!("{}:{}:{}", meta.dev(), meta.ino(), meta.mode());
    Some(match std::fs::read_link(path) {
        Ok(to) => format!("{identity}:{}:{}", to.display(), state_at(path)),
        Err(_) => identity,
    })
}

/// Collects files that a command may name, and the directories where its words may start.
struct NamedFiles<'a> {
    guard: &'a Guard,
    dirs: Vec<PathBuf>,
    paths: BTreeSet<PathBuf>,
}

/// Returns the files beneath the roots that a command may name; `None` if there are more than `MAX_NAMED`.
/// They come from its words, parts of them (`sh -c` texts, option values, redirections) and `READ_BY`.
fn named(guard: &Guard, command: &CommandTarget) -> Option<BTreeSet<PathBuf>> {
    let lines: Vec<Vec<String>> = match &command.command.line {
        CommandLine::Shell(_, text) => {
            let segments = command.analysis.segments.iter();
            // The whole text also holds redirections, assignments and nested texts, which are no words.
            segments.map(|segment| segment.words.clone()).chain([vec![text.clone()]]).collect()
        }
        CommandLine::Argv(argv) => vec![argv.clone()],
    };
    let words: BTreeSet<String> = lines.iter().flatten().flat_map(|word| spellings(word)).collect();
    let mut named =
        NamedFiles { guard, dirs: directories(&command.cwd, &lines), paths: BTreeSet::new() };
    if MAX_NAMED < words.len().saturating_mul(named.dirs.len()) {
        return None;
    }
    for word in &words {
        named.add(word);
    }
    // An option may name another directory: `make -C sub`.
    let more = named.paths.iter().filter(|path| is_directory(guard, path)).cloned();
    let more: Vec<PathBuf> = more.filter(|path| !named.dirs.contains(path)).collect();
    named.dirs.extend(more.into_iter().take(MAX_DIRS));
    let programs = words.iter().filter_map(|word| word.rsplit('/').next());
    for (program, files) in READ_BY {
        if programs.clone().any(|name| name == *program) {
            files.iter().for_each(|file| named.add(file));
        }
    }
    (named.paths.len() <= MAX_NAMED).then_some(named.paths)
}

impl NamedFiles<'_> {
    fn add(&mut self, word: &str) {
        for dir in &self.dirs {
            let path: PathBuf = resolve::joined(dir, Path::new(word)).components().collect();
            if self.guard.shared.roots.locate(&path).is_some() {
                self.paths.insert(path);
            }
        }
    }
}

/// Returns where words may start: `cwd`, the target of each `cd` from there, and of all `cd` in sequence.
fn directories(cwd: &Path, lines: &[Vec<String>]) -> Vec<PathBuf> {
    let mut dirs = vec![cwd.to_owned()];
    let mut at = cwd.to_owned();
    for words in lines {
        let goes = words.first().is_some_and(|word| matches!(word.as_str(), "cd" | "pushd"));
        let to = words.iter().skip(1).find(|word| goes && !word.starts_with('-'));
        let Some(to) = to else { continue };
        let one: PathBuf = resolve::joined(cwd, Path::new(to)).components().collect();
        at = resolve::joined(&at, Path::new(to)).components().collect();
        for dir in [one, at.clone()] {
            if !dirs.contains(&dir) {
                dirs.push(dir);
            }
        }
    }
    dirs
}

#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn is_directory(guard: &Guard, path: &Path) -> bool {
    guard.shared.roots.locate(path).is_some()
        && std::fs::metadata(path).is_ok_and(|meta| meta.is_dir())
}

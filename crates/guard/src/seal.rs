//! What an answer was given for, beside what the call itself holds.
//!
//! The arguments of a call cannot change while somebody thinks, and its files are compared with what they were
//! when they are changed. What is left is what a command would run: the program, the directory it starts in,
//! the files beneath the roots that its words name, those that the program reads by itself because of its
//! name, the environment that is entered, and how it is contained. It is looked at when the question is put
//! and again before the call runs; what differs refuses the call.
//!
//! Between the last look and the start of the command another process can still change a file; the sandbox
//! holds then as ever.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sinew_tool::{CommandLine, CommandTarget, Kind, Links, ToolError};

use crate::clear::Contained;
use crate::guard::Guard;
use crate::resolve::{self, Spot};
use crate::roots::{FILE_READ, open_name};

/// What is said of how a command is contained.
pub(crate) const CONTAINMENT: &str = "how commands are contained";
/// The most words that are looked at as names of files.
const MAX_NAMED: usize = 256;
/// So much of a file is hashed; a larger one is known by its state.
const MAX_HASHED: u64 = 16 * 1024 * 1024;

/// Files that programs read by themselves, by the name of the program.
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

/// What an answer was given for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seal(BTreeMap<String, String>);

impl Seal {
    /// Looks at what a call would run.
    pub(crate) fn of(contained: &Contained) -> Self {
        let mut parts = BTreeMap::new();
        if let Some(command) = &contained.targets().command {
            let guard = contained.guard();
            parts.insert(String::from("the program"), state_at(&command.program));
            let cwd = format!("the directory {}", command.cwd.display());
            parts.insert(cwd, state_at(&command.cwd));
            for path in named(guard, command) {
                let state = state(guard, &path);
                parts.insert(format!("the file {}", path.display()), state);
            }
            for (what, value) in guard.surroundings(&command.cwd, contained.session()) {
                parts.insert(what.to_owned(), value);
            }
        }
        Self(parts)
    }

    /// Returns in words how a command would be contained.
    pub fn containment(&self) -> Option<&str> {
        self.0.get(CONTAINMENT).map(String::as_str)
    }

    /// Refuses a call of which something is not as it was.
    pub(crate) fn check(&self, now: &Self) -> Result<(), ToolError> {
        let changed = self.0.iter().find(|(what, then)| now.0.get(*what) != Some(*then));
        let added = || now.0.keys().find(|what| !self.0.contains_key(*what));
        match changed.map(|(what, _)| what).or_else(added) {
            None => Ok(()),
            Some(what) => Err(ToolError::new(
                Kind::Stale,
                format!("{what} changed after the call was approved, so it did not run"),
            )
            .hint("look at it again and repeat the call; it is asked about anew")),
        }
    }
}

/// Returns what tells one state of a program or a directory from another.
#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn state_at(path: &Path) -> String {
    match File::open(path).and_then(|file| Ok((file.metadata()?, file))) {
        Ok((meta, file)) => state_of(&meta, file),
        Err(error) => error.kind().to_string(),
    }
}

/// Returns the state of a file: its content where it is not too large.
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

/// Returns the state of a file beneath the roots.
fn state(guard: &Guard, path: &Path) -> String {
    let open = || {
        let place = resolve::resolve(&guard.roots, path, Links::Follow).ok()?;
        let (Spot::Found(_), Some(name)) = (&place.spot, &place.name) else { return None };
        let parent = place.parent().ok()?;
        let file = File::from(open_name(std::os::fd::AsFd::as_fd(&*parent), name, FILE_READ).ok()?);
        let meta = file.metadata().ok()?;
        Some(format!("{}:{}", place.real.display(), state_of(&meta, file)))
    };
    open().unwrap_or_else(|| String::from("nothing"))
}

/// Returns the files that the words of a command may name, and those that its programs read by themselves,
/// in the directory where it starts and in those that it goes to.
fn named(guard: &Guard, command: &CommandTarget) -> Vec<PathBuf> {
    let lines: Vec<Vec<String>> = match &command.command.line {
        CommandLine::Shell(..) => {
            command.analysis.segments.iter().map(|segment| segment.words.clone()).collect()
        }
        CommandLine::Argv(argv) => vec![argv.clone()],
    };
    let mut dirs = vec![command.cwd.clone()];
    for words in &lines {
        if let [cd, dir, ..] = words.as_slice()
            && matches!(cd.as_str(), "cd" | "pushd")
        {
            let to: Vec<PathBuf> = dirs.iter().map(|from| from.join(dir)).collect();
            dirs.extend(to);
        }
    }
    dirs.truncate(8);
    let mut paths = Vec::new();
    for words in &lines {
        let by_name = words.iter().filter_map(|word| {
            let name = word.rsplit('/').next()?;
            READ_BY.iter().find(|(program, _)| *program == name).map(|(_, files)| *files)
        });
        let implied = by_name.flatten().map(ToString::to_string);
        // An option may carry a name behind a sign: `--file=x`.
        let spelled = words.iter().flat_map(|word| {
            let behind = word.split_once('=').map(|(_, value)| value.to_owned());
            std::iter::once(word.clone()).chain(behind)
        });
        for word in spelled.chain(implied) {
            let named = |dir: &PathBuf| -> PathBuf {
                resolve::joined(dir, Path::new(&word)).components().collect()
            };
            paths.extend(dirs.iter().map(named));
        }
    }
    paths.sort();
    paths.dedup();
    paths.retain(|path| guard.roots.locate(path).is_some());
    paths.truncate(MAX_NAMED);
    paths
}

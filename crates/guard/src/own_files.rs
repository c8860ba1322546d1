//! Whether a command without a sandbox may run what other calls can change unasked: then no answer covers it for more than
//! one call. Programs that read files of their own accord are known by a list, which cannot be complete.

use std::path::{Component, Path, PathBuf};

use sinew_fs::resolve;
use sinew_fs::roots::Roots;
use sinew_tool::{CommandLine, CommandTarget, Piece};

use crate::spellings::spellings;

/// Programs that execute their arguments or files that these name.
const INTERPRETERS: &[&str] = &[
    ".",
    "bash",
    "bun",
    "dash",
    "deno",
    "entr",
    "eval",
    "find",
    "fish",
    "java",
    "ksh",
    "lua",
    "node",
    "parallel",
    "perl",
    "php",
    "python",
    "python2",
    "python3",
    "Rscript",
    "ruby",
    "run-parts",
    "sh",
    "source",
    "tsx",
    "watch",
    "xargs",
    "zsh",
];

/// Programs that obey files of their directory, whether or not these are there yet.
const OBEY_THEIR_DIRECTORY: &[&str] = &[
    "ansible",
    "ansible-playbook",
    "bazel",
    "bundle",
    "cabal",
    "cargo",
    "cdk",
    "cmake",
    "composer",
    "direnv",
    "docker-compose",
    "dotnet",
    "fly",
    "gmake",
    "go",
    "gradle",
    "gradlew",
    "hatch",
    "helm",
    "just",
    "kustomize",
    "make",
    "meson",
    "mix",
    "mvn",
    "ninja",
    "nox",
    "npm",
    "npx",
    "pdm",
    "pip",
    "pnpm",
    "podman-compose",
    "poetry",
    "pre-commit",
    "pulumi",
    "pytest",
    "rake",
    "sbt",
    "serverless",
    "skaffold",
    "sls",
    "stack",
    "swift",
    "task",
    "terraform",
    "tilt",
    "tofu",
    "tox",
    "uv",
    "vagrant",
    "vercel",
    "vite",
    "webpack",
    "wrangler",
    "yarn",
];

/// The same with one of these words.
const OBEY_WITH: &[(&str, &[&str])] =
    &[("docker", &["build", "compose", "buildx"]), ("podman", &["build", "compose"])];

/// Returns whether a command may run what other calls can change. `program` finds the path of a bare name.
pub(crate) fn may_run_own_files(
    command: &CommandTarget,
    roots: &Roots,
    program: impl Fn(&str) -> Option<PathBuf>,
) -> bool {
    let commands = &command.analysis.commands;
    let known = |pieces: &Vec<Piece>| -> Option<Vec<String>> {
        pieces.iter().map(|piece| piece.known().map(str::to_owned)).collect()
    };
    let all: Option<Vec<Vec<String>>> = commands.all.iter().map(known).collect();
    let Some(all) = all.filter(|_| commands.unclear.is_none()) else { return true };
    let looks = Looks { roots, cwd: &command.cwd };
    let segments = command.analysis.segments.iter().map(|segment| &segment.words);
    // Redirections are no words.
    let text = match &command.command.line {
        CommandLine::Shell(_, text) => text.as_str(),
        CommandLine::Argv(_) => "",
    };
    let mut parts = text.split(|c: char| c.is_whitespace() || "<>&|;()".contains(c));
    if parts.any(|part| looks.names_own(part)) {
        return true;
    }
    let mut lines = all.iter().chain(segments);
    lines.any(|words| {
        let found = words.first().and_then(|name| program(name));
        looks.is_own_program(words)
            || found.is_some_and(|path| looks.is_own(&path))
            || words.iter().any(|word| looks.names_own(word))
    })
}

/// Looks for files of the roots, from a directory.
struct Looks<'a> {
    roots: &'a Roots,
    cwd: &'a Path,
}

impl Looks<'_> {
    fn is_own_program(&self, words: &[String]) -> bool {
        let Some((program, rest)) = words.split_first() else { return false };
        let name = program.rsplit('/').next().unwrap_or_default();
        let obeys = |(of, with): &(&str, &[&str])| {
            *of == name && rest.iter().any(|word| with.contains(&word.as_str()))
        };
        let obeys = OBEY_THEIR_DIRECTORY.contains(&name) || OBEY_WITH.iter().any(obeys);
        INTERPRETERS.contains(&name) || obeys && self.is_in_root(self.cwd)
    }

    fn names_own(&self, word: &str) -> bool {
        spellings(word).iter().any(|part| {
            let path = resolve::joined(self.cwd, Path::new(part));
            let path = without_dots(&path);
            // What is missing may be there next time.
            path != self.cwd && (self.is_own(&path) || part.contains('/') && self.is_in_root(&path))
        })
    }

    /// Returns whether something is there that is in a root, leads into one, or is reached through one.
    #[expect(clippy::disallowed_methods, reason = "the guard may look at the system")]
    fn is_own(&self, path: &Path) -> bool {
        if std::fs::symlink_metadata(path).is_err() {
            return false;
        }
        let parent = path.parent().and_then(|dir| std::fs::canonicalize(dir).ok());
        let beside = parent.zip(path.file_name()).map(|(dir, name)| dir.join(name));
        let real = std::fs::canonicalize(path).ok().filter(|real| real != self.cwd);
        [Some(path.to_owned()), beside, real].into_iter().flatten().any(|one| self.is_in_root(&one))
    }

    fn is_in_root(&self, path: &Path) -> bool {
        self.roots.locate(path).is_some()
    }
}

/// Resolves `.` and `..` of an absolute path by its names alone.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            _ => {}
        }
    }
    plain
}

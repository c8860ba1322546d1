//! Read-only subcommands of `git`, in a repository that runs nothing of its own.
//!
//! Added words switch off programs that a repository may configure: fsmonitor, hooks, pagers, external diffs
//! and text converters. Filters cannot be switched off. A repository is not plain if it sets more than a list
//! of harmless keys, takes settings from elsewhere, or has files with filters, possibly the user's.

mod index;
mod repository;
mod subcommands;
mod worktree;

use std::path::{Component, Path};

use sinew_tool::Unclear;

use super::options::{Options, Parsed};
use super::{Scene, files};
use repository::odd;
use subcommands::{LOG, SUBCOMMANDS, Subcommand, TrailingArguments};

/// Words inserted after `git`.
const ALWAYS: &[&str] = &[
    "--no-pager",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "safe.bareRepository=explicit",
    "-c",
    "log.showSignature=false",
    "-c",
    "diff.autoRefreshIndex=false",
    "-c",
    "gpg.program=false",
    "-c",
    "gpg.x509.program=false",
    "-c",
    "gpg.ssh.program=false",
];

fn refused(word: &str) -> Unclear {
    Unclear::new("shell.option", format!("`{word}` of git is not known to only read"))
}

/// Returns the arguments of `git` to run for some arguments.
pub(super) fn words(
    args: &[String],
    scene: &Scene<'_>,
    cwd: &Path,
) -> Result<Vec<String>, Unclear> {
    let mut run: Vec<String> = ALWAYS.iter().map(|word| (*word).to_owned()).collect();
    let mut dir = cwd.to_owned();
    let mut left = args;
    let (name, args) = loop {
        let Some((word, rest)) = left.split_first() else { return Err(refused("nothing")) };
        left = rest;
        match word.as_str() {
            "-C" => {
                let Some((to, rest)) = left.split_first() else { return Err(refused("-C")) };
                dir = files::check(scene, &dir, to)?;
                run.extend([word.clone(), to.clone()]);
                left = rest;
            }
            "--no-pager" | "-P" | "--no-optional-locks" => {}
            word if word.starts_with('-') => return Err(refused(word)),
            word => break (word, left),
        }
    };
    let known = SUBCOMMANDS.iter().find(|known| known.name == name).ok_or_else(|| refused(name))?;
    if scene.is_narrowed && PRINTS.contains(&known.name) {
        return Err(Unclear::new(
            "shell.repository",
            "what git prints may be a file that is denied",
        ));
    }
    let top = repository::check(scene, &dir)?;
    // The repository that was checked, and no other.
    run.push(format!(
        "--git-dir={}/.git",
        top.to_str().ok_or_else(|| odd("its path is not UTF-8"))?
    ));
    run.push(format!("--work-tree={}", top.display()));
    run.push(name.to_owned());
    let mut has_word = false;
    let args = match known.takes {
        TrailingArguments::Word(words) => match args.split_first() {
            Some((word, rest)) if words.contains(&word.as_str()) => {
                run.push(word.clone());
                has_word = true;
                rest
            }
            // Without a word it lists, whatever its options say.
            Some((word, _)) if !word.starts_with('-') => return Err(refused(word)),
            Some(_) | None if name == "stash" || name == "worktree" => return Err(refused(name)),
            Some(_) | None => args,
        },
        TrailingArguments::Anything | TrailingArguments::Listed(_) => args,
    };
    let table = known.tables.join(" ");
    let parsed = Options { table: &table, is_posix: false }.parse("git", args)?;
    let is_listed = match known.takes {
        TrailingArguments::Anything => true,
        TrailingArguments::Listed(options) => options.iter().any(|option| parsed.has(option)),
        TrailingArguments::Word(_) => has_word,
    };
    if !is_listed && let Some(word) = parsed.operands.first() {
        return Err(refused(word));
    }
    let formats = parsed
        .options
        .iter()
        .filter(|(option, _)| matches!(option.as_str(), "--pretty" | "--format" | "--sort"));
    if formats.filter_map(|(_, value)| value.as_ref()).any(|format| asks_signature(format)) {
        return Err(refused("a format with signatures"));
    }
    for word in parsed.operands.iter().chain(traced(known, &parsed)) {
        check_operand(word, scene, &dir, &top)?;
    }
    check_words(known, args, &parsed)?;
    if let Some(opens) = looks_at_files(known, &parsed) {
        worktree::check(scene, &top, opens)?;
    }
    run.extend(known.added.iter().map(|word| (*word).to_owned()));
    run.extend(args.iter().cloned());
    if known.name == "diff" || known.name == "grep" {
        let names = files::SECRETS.iter();
        run.extend(names.map(|name| format!(":(top,exclude,icase,glob)**/{name}")));
    }
    Ok(run)
}

/// Subcommands that print current or former file contents.
const PRINTS: &[&str] = &["show", "log", "diff", "grep", "cat-file", "blame", "stash", "reflog"];

/// Returns the values of `-L` in `log`, each a range of lines and a file.
fn traced<'p>(known: &Subcommand, parsed: &'p Parsed) -> impl Iterator<Item = &'p String> {
    let is_log = known.tables.contains(&LOG);
    let options = parsed.options.iter().filter(move |(option, _)| is_log && option == "-L");
    options.filter_map(|(_, value)| value.as_ref())
}

/// Rejects words that appended pathspecs would reinterpret.
fn check_words(known: &Subcommand, args: &[String], parsed: &Parsed) -> Result<(), Unclear> {
    let n_behind = parsed.end.map_or(0, |end| args.len().saturating_sub(end + 1));
    let mut revisions = parsed.operands.iter().rev().skip(n_behind);
    match known.name {
        // A file of a revision is compared alone.
        "diff" => match revisions.find(|word| word.contains(':')) {
            Some(word) => Err(refused(word)),
            None => Ok(()),
        },
        "grep" if parsed.operands.is_empty() && !parsed.has("-e") => Err(refused("nothing")),
        _ => Ok(()),
    }
}

/// Returns whether a subcommand opens files that the index names; `None` if it reads no working tree.
fn looks_at_files(known: &Subcommand, parsed: &Parsed) -> Option<bool> {
    const OF_FILES: &[&str] = &[
        "-m",
        "--modified",
        "-d",
        "--deleted",
        "-o",
        "--others",
        "-k",
        "--killed",
        "--eol",
        "--format",
    ];
    match known.name {
        "status" | "blame" => Some(false),
        "diff" => Some(true),
        "grep" => (!parsed.has("--cached")).then_some(true),
        "ls-files" => OF_FILES.iter().any(|option| parsed.has(option)).then_some(false),
        _ => None,
    }
}

/// Returns whether a format shows signatures, for which git runs a program.
fn asks_signature(format: &str) -> bool {
    let of_log = |sign: &str| format.contains(&format!("%{sign}G"));
    ["", "+", "-", " "].into_iter().any(of_log) || format.contains("signature")
}

/// Rejects a word that names a file outside: git compares any two files.
fn check_operand(word: &str, scene: &Scene<'_>, dir: &Path, top: &Path) -> Result<(), Unclear> {
    // A pathspec, or the path in a revision, is in the repository.
    let path = Path::new(word);
    let climbs = path.components().any(|part| part == Component::ParentDir);
    let is_there = matches!(scene.files.lstat(&dir.join(word)), Ok(Some(_)));
    if path.is_absolute() || climbs || is_there {
        let real = files::check(scene, dir, word)?;
        if !real.starts_with(top) {
            return Err(odd(format!("`{word}` is in no part of the repository")));
        }
    }
    // The path in a revision, or in a pathspec with its magic.
    let behind = word.rsplit([':', ')']).next().unwrap_or_default();
    if files::is_secret(Path::new(behind)) {
        return Err(Unclear::new("shell.secret", format!("`{word}` holds secrets by its name")));
    }
    Ok(())
}

//! The subcommands of `git` that only read, in a repository that runs nothing of its own.
//!
//! What a repository may configure to be run is switched off by words that are added: its monitor, its
//! hooks, pagers, external diffs and text converters. Filters cannot be switched off, and so a repository
//! whose configuration has more than a list of harmless sections is not plain. The same holds for one that
//! takes its configuration from elsewhere, and for one of which some files have filters, which may be
//! those of the person.

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

/// What is put behind `git`.
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

/// Returns the words behind `git` that run for some words.
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
    // The repository that was looked at, and no other.
    run.push(format!("--git-dir={}/.git", top.to_str().ok_or_else(|| odd("its path is no text"))?));
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
            // What is listed without a word is so whatever its options say.
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

/// Subcommands that print what files hold, or held.
const PRINTS: &[&str] = &["show", "log", "diff", "grep", "cat-file", "blame", "stash", "reflog"];

/// Returns the files whose lines are followed, each behind a range of lines.
fn traced<'p>(known: &Subcommand, parsed: &'p Parsed) -> impl Iterator<Item = &'p String> {
    let is_log = known.tables.contains(&LOG);
    let options = parsed.options.iter().filter(move |(option, _)| is_log && option == "-L");
    options.filter_map(|(_, value)| value.as_ref())
}

/// Refuses words that pathspecs behind them would give another meaning.
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

/// Returns nothing for a subcommand that looks at no file of the working tree, otherwise whether it opens
/// those that the index names.
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

/// Returns whether a format tells of signatures, for which a program is run.
fn asks_signature(format: &str) -> bool {
    let of_log = |sign: &str| format.contains(&format!("%{sign}G"));
    ["", "+", "-", " "].into_iter().any(of_log) || format.contains("signature")
}

/// Refuses what names a file outside: git compares two files that lie anywhere.
fn check_operand(word: &str, scene: &Scene<'_>, dir: &Path, top: &Path) -> Result<(), Unclear> {
    // A pathspec or the path behind a revision lies in the repository.
    let path = Path::new(word);
    let climbs = path.components().any(|part| part == Component::ParentDir);
    let is_there = matches!(scene.files.lstat(&dir.join(word)), Ok(Some(_)));
    if path.is_absolute() || climbs || is_there {
        let real = files::check(scene, dir, word)?;
        if !real.starts_with(top) {
            return Err(odd(format!("`{word}` lies in no part of the repository")));
        }
    }
    // The path behind a revision, and that of a pathspec with its signs.
    let behind = word.rsplit([':', ')']).next().unwrap_or_default();
    if files::is_secret(Path::new(behind)) {
        return Err(Unclear::new("shell.secret", format!("`{word}` holds secrets by its name")));
    }
    Ok(())
}

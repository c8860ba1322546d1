//! The subcommands of `git` that only read, in a repository that runs nothing of its own.
//!
//! What a repository may configure to be run is switched off by words that are added: its monitor, its
//! hooks, pagers, external diffs and text converters. Filters cannot be switched off, and so a repository
//! whose configuration has more than a list of harmless sections is not plain. The same holds for one that
//! takes its configuration from elsewhere, and for one of which some files have filters, which may be
//! those of the person.

mod index;
mod worktree;

use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;
use sinew_tool::Unclear;

use super::options::{Options, Parsed};
use super::{Scene, files};

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

const DIFF: &str = "-psz -u -a -b -w -R -W -c -m -U? -S= -G= -M? -C? -B? -l= --patch --no-patch \
    --unified? --raw --minimal --patience --histogram --diff-algorithm= --stat? --compact-summary \
    --numstat --shortstat --dirstat? --summary --name-only --name-status --color? --no-color \
    --color-moved? --word-diff? --word-diff-regex= --color-words? --check --full-index --abbrev? \
    --find-renames? --find-copies? --diff-filter= --pickaxe-all --pickaxe-regex --text \
    --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines \
    --function-context --exit-code --quiet --cached --staged --merge-base --no-renames --no-prefix \
    --src-prefix= --dst-prefix= --relative? --cc --combined-all-paths --inter-hunk-context= \
    --ws-error-highlight= --no-ext-diff --no-textconv !--output !--output-indicator-new \
    !--output-indicator-old !--output-indicator-context !--ext-diff !--textconv !--no-index \
    !--submodule !--ignore-submodules";

const LOG: &str = "-n= -9 -i -E -F -P -g -L= -q --max-count= --skip= --since= --after= --until= \
    --before= --author= --committer= --grep= --all-match --invert-grep --regexp-ignore-case \
    --basic-regexp --extended-regexp --fixed-strings --perl-regexp --merges --no-merges --min-parents= \
    --max-parents= --first-parent --all --branches? --tags? --remotes? --glob= --exclude= --reflog \
    --walk-reflogs --boundary --simplify-by-decoration --full-history --oneline --graph --decorate? \
    --no-decorate --pretty? --format= --abbrev-commit --no-abbrev-commit --date= --relative-date \
    --reverse --topo-order --date-order --author-date-order --follow --left-right --cherry-pick \
    --cherry-mark --cherry --left-only --right-only --parents --children --notes? --no-notes --source \
    --log-size --encoding= --no-walk? --count --not --objects !--show-signature !--stdin \
    !--show-linear-break !--show-pulls";

/// A subcommand.
struct Subcommand {
    name: &'static str,
    tables: &'static [&'static str],
    takes: Takes,
    /// Words that are put behind it.
    added: &'static [&'static str],
}

/// What stands behind its options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// Revisions and paths.
    Anything,
    /// Nothing, unless one of these options says that it lists.
    Listed(&'static [&'static str]),
    /// One of these words, and then what it takes.
    Word(&'static [&'static str]),
}

const NO_PROGRAMS: &[&str] = &["--no-ext-diff", "--no-textconv"];

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "status",
        tables: &[
            "-sbz -u? -M? --short --branch --show-stash --porcelain? --long --untracked-files? \
                   --ignored? --column? --no-column --ahead-behind --no-ahead-behind --renames \
                   --no-renames --find-renames? --null !--verbose !--ignore-submodules",
        ],
        takes: Takes::Anything,
        added: &["--ignore-submodules=all"],
    },
    Subcommand {
        name: "diff",
        tables: &[DIFF],
        takes: Takes::Anything,
        added: &["--no-ext-diff", "--no-textconv", "--ignore-submodules=all"],
    },
    Subcommand { name: "log", tables: &[DIFF, LOG], takes: Takes::Anything, added: NO_PROGRAMS },
    Subcommand { name: "show", tables: &[DIFF, LOG], takes: Takes::Anything, added: NO_PROGRAMS },
    Subcommand {
        name: "reflog",
        tables: &[DIFF, LOG],
        takes: Takes::Word(&["show"]),
        added: NO_PROGRAMS,
    },
    Subcommand { name: "rev-list", tables: &[LOG], takes: Takes::Anything, added: &[] },
    Subcommand {
        name: "branch",
        tables: &[
            "-arvqli --all --remotes --verbose --list --show-current --contains= --no-contains= \
                   --merged? --no-merged? --points-at= --sort= --format= --column? --no-column --color? \
                   --no-color --abbrev? --no-abbrev --ignore-case --quiet !--edit-description \
                   !--set-upstream-to !--unset-upstream !--track !--delete !--move !--copy !--force \
                   !--create-reflog !--recurse-submodules",
        ],
        takes: Takes::Listed(&["-l", "--list"]),
        added: &[],
    },
    Subcommand {
        name: "tag",
        tables: &["-li -n? --list --contains= --no-contains= --merged? --no-merged? --points-at= \
                   --sort= --format= --column? --no-column --color? --ignore-case !--annotate !--sign \
                   !--local-user !--delete !--verify !--message !--file !--edit !--cleanup \
                   !--create-reflog !--force"],
        takes: Takes::Listed(&["-l", "--list"]),
        added: &[],
    },
    Subcommand {
        name: "remote",
        tables: &["-v --verbose"],
        takes: Takes::Word(&["get-url"]),
        added: &[],
    },
    Subcommand {
        name: "rev-parse",
        tables: &["-q --short? --abbrev-ref? --verify --quiet --symbolic --symbolic-full-name \
                   --show-toplevel --git-dir --absolute-git-dir --git-common-dir --show-prefix \
                   --show-cdup --is-inside-work-tree --is-inside-git-dir --is-bare-repository \
                   --is-shallow-repository --show-object-format? --all --branches? --tags? --remotes?"],
        takes: Takes::Anything,
        added: &[],
    },
    Subcommand {
        name: "ls-files",
        tables: &["-cdmoisuktvzf -x= --cached --deleted --modified --others --ignored --stage \
                   --directory --no-empty-directory --unmerged --killed --exclude= --exclude-standard \
                   --error-unmatch --full-name --abbrev? --eol --deduplicate --format= !--exclude-from \
                   !--exclude-per-directory !--recurse-submodules"],
        takes: Takes::Anything,
        added: &[],
    },
    Subcommand {
        name: "ls-tree",
        tables: &[
            "-drtlz --name-only --name-status --full-name --full-tree --abbrev? --long --format= \
                   --object-only",
        ],
        takes: Takes::Anything,
        added: &[],
    },
    Subcommand {
        name: "blame",
        tables: &[
            "-lsefnpcbtw -L= -M? -C? --root --show-stats --porcelain --line-porcelain --date= \
                   --abbrev? --since= --show-name --show-number --show-email --color-lines \
                   --color-by-age --first-parent --ignore-rev= --minimal --reverse !--contents \
                   !--ignore-revs-file !--textconv",
        ],
        takes: Takes::Anything,
        added: &["--no-textconv"],
    },
    Subcommand {
        name: "grep",
        tables: &[
            "-nilLcvwEGFPqhHIaozWpr0 -e= -A= -B= -C= -m= -9 --cached !--untracked --line-number \
                   --column --name-only --files-with-matches --files-without-match --count --all-match \
                   --max-depth= --max-count= --recursive --no-recursive --heading --break --ignore-case \
                   --word-regexp --invert-match --extended-regexp --basic-regexp --fixed-strings \
                   --perl-regexp --only-matching --null --quiet --text --show-function \
                   --function-context --threads= --and --or --not --color? --no-color --full-name \
                   --after-context= --before-context= --context= !--open-files-in-pager !--textconv \
                   !--no-index !--ext-grep !--recurse-submodules",
        ],
        takes: Takes::Anything,
        added: &["--no-textconv"],
    },
    Subcommand {
        name: "stash",
        tables: &[DIFF, LOG],
        takes: Takes::Word(&["list"]),
        added: NO_PROGRAMS,
    },
    Subcommand {
        name: "describe",
        tables: &["--tags --always --long --all --abbrev? !--dirty !--broken --match= --exclude= \
                   --exact-match --contains --first-parent --candidates= --debug"],
        takes: Takes::Anything,
        added: &[],
    },
    Subcommand { name: "cat-file", tables: &["-ptse"], takes: Takes::Anything, added: &[] },
    Subcommand {
        name: "shortlog",
        tables: &[
            "-sec -n -9 --summary --numbered --email !--group --committer --since= --after= \
                   --until= --before= --author= --no-merges --merges --all --branches? --tags? \
                   --remotes? !--format !--output",
        ],
        takes: Takes::Anything,
        added: &[],
    },
    Subcommand {
        name: "merge-base",
        tables: &["-a --all --is-ancestor --fork-point --octopus --independent"],
        takes: Takes::Anything,
        added: &[],
    },
    Subcommand {
        name: "show-ref",
        tables: &["-qsd --head --heads --branches --tags --verify --quiet --hash? --abbrev? \
                   --dereference !--exclude-existing"],
        takes: Takes::Anything,
        added: &[],
    },
    Subcommand {
        name: "for-each-ref",
        tables: &["--format= --sort= --count= --points-at= --merged? --no-merged? --contains= \
                   --no-contains= --ignore-case --color? !--stdin !--shell !--perl !--python !--tcl"],
        takes: Takes::Anything,
        added: &[],
    },
    Subcommand {
        name: "count-objects",
        tables: &["-vH --verbose --human-readable"],
        takes: Takes::Listed(&[]),
        added: &[],
    },
    Subcommand {
        name: "worktree",
        tables: &["-vz --porcelain --verbose"],
        takes: Takes::Word(&["list"]),
        added: &[],
    },
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
    let top = check_repository(scene, &dir)?;
    // The repository that was looked at, and no other.
    run.push(format!("--git-dir={}/.git", top.to_str().ok_or_else(|| odd("its path is no text"))?));
    run.push(format!("--work-tree={}", top.display()));
    run.push(name.to_owned());
    let mut has_word = false;
    let args = match known.takes {
        Takes::Word(words) => match args.split_first() {
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
        Takes::Anything | Takes::Listed(_) => args,
    };
    let table = known.tables.join(" ");
    let parsed = Options { table: &table, is_posix: false }.parse("git", args)?;
    let is_listed = match known.takes {
        Takes::Anything => true,
        Takes::Listed(options) => options.iter().any(|option| parsed.has(option)),
        Takes::Word(_) => has_word,
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
    #[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
    let is_there = std::fs::symlink_metadata(dir.join(word)).is_ok();
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

fn odd(why: impl Into<String>) -> Unclear {
    Unclear::new("shell.repository", why)
}

/// Refuses a repository that may run something when it is looked at; returns its directory.
fn check_repository(scene: &Scene<'_>, dir: &Path) -> Result<PathBuf, Unclear> {
    if dir.components().any(|part| part.as_os_str() == ".git") {
        return Err(odd("a directory of a repository's own is no place to look at it from"));
    }
    let mut top = None;
    for above in dir.ancestors() {
        if is_there(&above.join("HEAD"))? || is_there(&above.join("commondir"))? {
            return Err(odd("git may take a directory of another making for a repository"));
        }
        let git = above.join(".git");
        if !is_there(&git)? {
            continue;
        }
        let has = |name: &str| is_own_directory(&git.join(name));
        let is_whole =
            is_own_directory(&git) && has("objects") && has("refs") && is_there(&git.join("HEAD"))?;
        if !is_whole || is_there(&git.join("commondir"))? {
            return Err(odd("the repository lies elsewhere, or is none"));
        }
        let n_seen = scene.seen.places.borrow().len();
        if !scene.seen.places.borrow().contains(&git) {
            if MAX_PLACES <= n_seen {
                return Err(odd("there are too many repositories to look at"));
            }
            check_config(&git)?;
            check_links(&git)?;
            scene.seen.places.borrow_mut().insert(git);
        }
        top.get_or_insert_with(|| above.to_owned());
    }
    let top = top.ok_or_else(|| odd("there is no repository here"))?;
    match scene.roots.iter().any(|root| top.starts_with(root)) {
        true => Ok(top),
        false => Err(odd("the repository holds more than what lies beneath the roots")),
    }
}

/// The most places of repositories that are looked at for a text.
const MAX_PLACES: usize = 16;

/// Returns whether a path is that of a directory itself, and not of a link to one.
fn is_own_directory(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
}

/// Returns whether something has a name, a link to nowhere too.
fn is_there(path: &Path) -> Result<bool, Unclear> {
    match rustix::fs::lstat(path) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(_) => Err(odd("the repository cannot be looked at")),
    }
}

/// The most entries of a repository that are looked at.
const MAX_ENTRIES: usize = 5_000;

/// Refuses a repository with links in it, or with objects elsewhere: what they lead to would be shown.
#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn check_links(git: &Path) -> Result<(), Unclear> {
    let unseen = || odd("the repository cannot be looked at");
    if is_there(&git.join("objects/info/alternates"))? {
        return Err(odd("the repository has objects elsewhere"));
    }
    let objects = git.join("objects");
    let mut left = vec![git.to_owned()];
    let mut n_entries = 0;
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).map_err(|_| unseen())? {
            let entry = entry.map_err(|_| unseen())?;
            let kind = entry.file_type().map_err(|_| unseen())?;
            n_entries += 1;
            if !(kind.is_file() || kind.is_dir()) || MAX_ENTRIES < n_entries {
                return Err(odd("the repository holds links, or too much to look at"));
            }
            let name = entry.file_name();
            let is_looked_at = match &dir {
                // Those of `git lfs` are named by what they hold.
                dir if dir == git => name != "lfs",
                // Loose objects are so too, and there are many of them.
                dir if *dir == objects => name == "pack" || name == "info",
                _ => true,
            };
            if kind.is_dir() && is_looked_at {
                left.push(entry.path());
            }
        }
    }
    Ok(())
}

/// The keys, by section, with which nothing is run and nothing led elsewhere, or which are set otherwise
/// for a plain command.
const KEYS: &[(&str, &[&str])] = &[
    ("branch", &["remote", "merge", "rebase", "description", "pushremote"]),
    ("color", &["ui", "status", "branch", "diff"]),
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "commentchar",
            "compression",
            "editor",
            "eol",
            "filemode",
            "fsmonitor",
            "hookspath",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "pager",
            "precomposeunicode",
            "preloadindex",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "symlinks",
            "untrackedcache",
            "whitespace",
        ],
    ),
    ("fetch", &["prune", "parallel", "recursesubmodules"]),
    ("gc", &["auto", "autodetach"]),
    ("init", &["defaultbranch"]),
    ("pull", &["rebase", "ff"]),
    ("push", &["default", "autosetupremote", "followtags"]),
    ("rebase", &["autostash", "autosquash"]),
    ("remote", &["url", "fetch", "pushurl", "tagopt", "prune"]),
    ("submodule", &["url", "active"]),
    ("user", &["name", "email", "signingkey"]),
];

/// The longest configuration that is looked at, in bytes.
const MAX_CONFIG: u64 = 256 * 1024;

#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn check_config(git: &Path) -> Result<(), Unclear> {
    if is_there(&git.join("config.worktree"))? {
        return Err(odd("the repository has settings for one of its places"));
    }
    let path = git.join("config");
    let is_small = std::fs::symlink_metadata(&path)
        .is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_CONFIG);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) if is_small => text,
        _ => return Err(odd("the settings of the repository cannot be looked at")),
    };
    check_settings(&text)
}

/// Refuses settings with more than a list of harmless keys, and lines that are not of a plain form.
fn check_settings(text: &str) -> Result<(), Unclear> {
    let mut known: &[&str] = &[];
    for line in text.lines() {
        let mut line = line.trim();
        if line.ends_with('\\') || line.contains(|c: char| c.is_control() && c != '\t') {
            return Err(odd("its settings have a line that goes on"));
        }
        if let Some(rest) = line.strip_prefix('[') {
            let (head, rest) =
                rest.split_once(']').ok_or_else(|| odd("its settings are cut off"))?;
            let section = head.split([' ', '\t', '.', '"']).next().unwrap_or_default();
            let section = section.to_ascii_lowercase();
            let found = KEYS.iter().find(|(name, _)| *name == section);
            let Some((_, keys)) = found.filter(|_| !rest.contains('[')) else {
                return Err(odd(format!("the repository has settings of `{section}`")));
            };
            known = keys;
            line = rest.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(line.len());
        let (key, rest) = line.split_at_checked(end).unwrap_or_default();
        let key = key.to_ascii_lowercase();
        let is_whole = rest.trim_start().is_empty() || rest.trim_start().starts_with('=');
        if !is_whole || !known.contains(&key.as_str()) {
            return Err(odd(format!("the repository has the setting `{key}`")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_may_run_something_are_found() {
        let check = |text: &str, is_plain: bool| {
            assert_eq!(check_settings(text).is_ok(), is_plain, "{text}");
        };
        check("", true);
        check("[core]\n\tbare = false\n\tfsmonitor = touch x\n[remote \"o\"]\n\turl = x\n", true);
        check("[user] name = A\n# [filter]\n", true);
        check("[core]\n\tworktree = /\n", false);
        check("[core]\n\tsshCommand\n", false);
        check("[CORE]\n\tGitProxy = x\n", false);
        check("[core] worktree = /\n", false);
        check("[filter \"x\"]\n\tclean = x\n", false);
        check("[Filter \"x\"]\n", false);
        check("[filter.x]\n", false);
        check("[core][filter \"x\"] clean = x\n", false);
        check("[include]\n\tpath = x\n", false);
        check("[includeIf \"gitdir:/\"]\n", false);
        check("[diff]\n\texternal = x\n", false);
        check("[log]\n\tshowSignature = true\n", false);
        check("\u{feff}[filter \"x\"]\n", false);
        check("[branch \"x]\"]\n", false);
        check("[remote \"o\"]\n\tpromisor = true\n", false);
        check("[remote \"o\"]\n\tuploadpack = touch x\n", false);
        check("[core]\n\tpager = x \\\n[user]\n\tworktree = /\n", false);
        check("[core]\n\tpager x\n", false);
    }
}

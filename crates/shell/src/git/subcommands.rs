//! Read-only subcommands of `git`, with options that only shape their output.

/// Options of subcommands that show changes.
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

/// Options of subcommands that list revisions.
pub(super) const LOG: &str = "-n= -9 -i -E -F -P -g -L= -q --max-count= --skip= --since= --after= --until= \
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
pub(super) struct Subcommand {
    pub(super) name: &'static str,
    pub(super) tables: &'static [&'static str],
    pub(super) takes: TrailingArguments,
    /// Words inserted after it.
    pub(super) added: &'static [&'static str],
}

/// Arguments after the options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TrailingArguments {
    /// Revisions and paths.
    Anything,
    /// Nothing, unless one of these options makes it list.
    Listed(&'static [&'static str]),
    /// One of these words, and its arguments.
    Word(&'static [&'static str]),
}

const NO_PROGRAMS: &[&str] = &["--no-ext-diff", "--no-textconv"];

/// The subcommands.
pub(super) const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "status",
        tables: &[
            "-sbz -u? -M? --short --branch --show-stash --porcelain? --long --untracked-files? \
                   --ignored? --column? --no-column --ahead-behind --no-ahead-behind --renames \
                   --no-renames --find-renames? --null !--verbose !--ignore-submodules",
        ],
        takes: TrailingArguments::Anything,
        added: &["--ignore-submodules=all"],
    },
    Subcommand {
        name: "diff",
        tables: &[DIFF],
        takes: TrailingArguments::Anything,
        added: &["--no-ext-diff", "--no-textconv", "--ignore-submodules=all"],
    },
    Subcommand {
        name: "log",
        tables: &[DIFF, LOG],
        takes: TrailingArguments::Anything,
        added: NO_PROGRAMS,
    },
    Subcommand {
        name: "show",
        tables: &[DIFF, LOG],
        takes: TrailingArguments::Anything,
        added: NO_PROGRAMS,
    },
    Subcommand {
        name: "reflog",
        tables: &[DIFF, LOG],
        takes: TrailingArguments::Word(&["show"]),
        added: NO_PROGRAMS,
    },
    Subcommand { name: "rev-list", tables: &[LOG], takes: TrailingArguments::Anything, added: &[] },
    Subcommand {
        name: "branch",
        tables: &[
            "-arvqli --all --remotes --verbose --list --show-current --contains= --no-contains= \
                   --merged? --no-merged? --points-at= --sort= --format= --column? --no-column --color? \
                   --no-color --abbrev? --no-abbrev --ignore-case --quiet !--edit-description \
                   !--set-upstream-to !--unset-upstream !--track !--delete !--move !--copy !--force \
                   !--create-reflog !--recurse-submodules",
        ],
        takes: TrailingArguments::Listed(&["-l", "--list"]),
        added: &[],
    },
    Subcommand {
        name: "tag",
        tables: &["-li -n? --list --contains= --no-contains= --merged? --no-merged? --points-at= \
                   --sort= --format= --column? --no-column --color? --ignore-case !--annotate !--sign \
                   !--local-user !--delete !--verify !--message !--file !--edit !--cleanup \
                   !--create-reflog !--force"],
        takes: TrailingArguments::Listed(&["-l", "--list"]),
        added: &[],
    },
    Subcommand {
        name: "remote",
        tables: &["-v --verbose"],
        takes: TrailingArguments::Word(&["get-url"]),
        added: &[],
    },
    Subcommand {
        name: "rev-parse",
        tables: &["-q --short? --abbrev-ref? --verify --quiet --symbolic --symbolic-full-name \
                   --show-toplevel --git-dir --absolute-git-dir --git-common-dir --show-prefix \
                   --show-cdup --is-inside-work-tree --is-inside-git-dir --is-bare-repository \
                   --is-shallow-repository --show-object-format? --all --branches? --tags? --remotes?"],
        takes: TrailingArguments::Anything,
        added: &[],
    },
    Subcommand {
        name: "ls-files",
        tables: &["-cdmoisuktvzf -x= --cached --deleted --modified --others --ignored --stage \
                   --directory --no-empty-directory --unmerged --killed --exclude= --exclude-standard \
                   --error-unmatch --full-name --abbrev? --eol --deduplicate --format= !--exclude-from \
                   !--exclude-per-directory !--recurse-submodules"],
        takes: TrailingArguments::Anything,
        added: &[],
    },
    Subcommand {
        name: "ls-tree",
        tables: &[
            "-drtlz --name-only --name-status --full-name --full-tree --abbrev? --long --format= \
                   --object-only",
        ],
        takes: TrailingArguments::Anything,
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
        takes: TrailingArguments::Anything,
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
        takes: TrailingArguments::Anything,
        added: &["--no-textconv"],
    },
    Subcommand {
        name: "stash",
        tables: &[DIFF, LOG],
        takes: TrailingArguments::Word(&["list"]),
        added: NO_PROGRAMS,
    },
    Subcommand {
        name: "describe",
        tables: &["--tags --always --long --all --abbrev? !--dirty !--broken --match= --exclude= \
                   --exact-match --contains --first-parent --candidates= --debug"],
        takes: TrailingArguments::Anything,
        added: &[],
    },
    Subcommand {
        name: "cat-file",
        tables: &["-ptse"],
        takes: TrailingArguments::Anything,
        added: &[],
    },
    Subcommand {
        name: "shortlog",
        tables: &[
            "-sec -n -9 --summary --numbered --email !--group --committer --since= --after= \
                   --until= --before= --author= --no-merges --merges --all --branches? --tags? \
                   --remotes? !--format !--output",
        ],
        takes: TrailingArguments::Anything,
        added: &[],
    },
    Subcommand {
        name: "merge-base",
        tables: &["-a --all --is-ancestor --fork-point --octopus --independent"],
        takes: TrailingArguments::Anything,
        added: &[],
    },
    Subcommand {
        name: "show-ref",
        tables: &["-qsd --head --heads --branches --tags --verify --quiet --hash? --abbrev? \
                   --dereference !--exclude-existing"],
        takes: TrailingArguments::Anything,
        added: &[],
    },
    Subcommand {
        name: "for-each-ref",
        tables: &["--format= --sort= --count= --points-at= --merged? --no-merged? --contains= \
                   --no-contains= --ignore-case --color? !--stdin !--shell !--perl !--python !--tcl"],
        takes: TrailingArguments::Anything,
        added: &[],
    },
    Subcommand {
        name: "count-objects",
        tables: &["-vH --verbose --human-readable"],
        takes: TrailingArguments::Listed(&[]),
        added: &[],
    },
    Subcommand {
        name: "worktree",
        tables: &["-vz --porcelain --verbose"],
        takes: TrailingArguments::Word(&["list"]),
        added: &[],
    },
];

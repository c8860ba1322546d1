//! Ignore files by the rules of ripgrep: a table of what counts, and random trees against the
//! walker of ripgrep itself.

use std::fs;

use proptest::prelude::*;
use sinew_guard::{Guard, GuardSettings};
use sinew_tool::WalkOptions;

use crate::tree::{OPTIONS, RESOLVERS, Tree, walk};

/// Returns what ripgrep's own walker sees.
fn reference(tree: &Tree, start: &str) -> Vec<String> {
    let start = tree.root.join(start);
    let mut names: Vec<String> = ignore::WalkBuilder::new(&start)
        .hidden(false)
        .git_global(false)
        .add_custom_ignore_filename(".rgignore")
        .filter_entry(|entry| {
            let directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            !(directory && entry.file_name() == ".git" && 0 < entry.depth())
        })
        .build()
        .filter_map(Result::ok)
        .filter(|entry| !entry.file_type().is_some_and(|kind| kind.is_dir()))
        .map(|entry| entry.path().strip_prefix(&start).unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn check(tree: &Tree, start: &str, expected: &str, ignored: u64) {
    for resolver in RESOLVERS {
        let (names, report) = walk(&tree.guard(resolver), start, &OPTIONS);
        let shown: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| !name.ends_with("ignore") && !name.ends_with("exclude"))
            .collect();
        assert_eq!(shown.join(" "), expected, "from {start}");
        assert_eq!(report.skipped.ignored, ignored, "from {start}");
        assert_eq!(names, reference(tree, start), "ripgrep differs from {start}");
    }
}

/// A repository unless the files say otherwise.
fn repository(files: &[(&str, &str)]) -> Tree {
    let tree = Tree::new().with(files);
    fs::create_dir_all(tree.root.join(".git/info")).unwrap();
    tree
}

#[test]
fn the_kinds_beat_one_another_in_order() {
    let files = &[("a.log", ""), ("b.log", ""), ("c.log", ""), ("d.log", "")];
    let with = |more: &[(&str, &str)]| repository(&[files, more].concat());
    check(&with(&[(".gitignore", "*.log\n")]), ".", "", 4);
    check(&with(&[(".gitignore", "*.log\n"), (".ignore", "!a.log\n")]), ".", "a.log", 3);
    check(&with(&[(".ignore", "*.log\n"), (".gitignore", "!a.log\n")]), ".", "", 4);
    check(&with(&[(".ignore", "*.log\n"), (".rgignore", "!b.log\n")]), ".", "b.log", 3);
    check(&with(&[(".rgignore", "*.log\n"), (".ignore", "!b.log\n")]), ".", "", 4);
    check(&with(&[(".gitignore", "*.log\n!c.log\n")]), ".", "c.log", 3);
    let tree = with(&[(".git/info/exclude", "*.log\n"), (".gitignore", "!d.log\n")]);
    check(&tree, ".", "d.log", 3);
}

#[test]
fn deeper_files_beat_shallower_ones_of_their_kind() {
    let tree = repository(&[
        (".gitignore", "*.log\n/only_top\nbuild/\n"),
        ("sub/.gitignore", "!keep.log\n"),
        ("sub/keep.log", ""),
        ("sub/drop.log", ""),
        ("sub/only_top", ""),
        ("only_top", ""),
        ("sub/build/x", ""),
        ("build", ""),
        ("sub/deep/.gitignore", "keep.log\n"),
        ("sub/deep/keep.log", ""),
    ]);
    check(&tree, ".", "build sub/keep.log sub/only_top", 4);
    check(&tree, "sub", "keep.log only_top", 3);
    // What the path names is walked, and its parents' rules still count.
    check(&tree, "sub/build", "x", 0);
    check(&tree, "sub/deep", "", 1);
}

#[test]
fn git_rules_count_only_inside_a_repository() {
    let tree = Tree::new().with(&[(".gitignore", "a\n"), ("a", ""), (".ignore", "b\n"), ("b", "")]);
    check(&tree, ".", "a", 1);
    fs::write(tree.root.join(".git"), "gitdir: elsewhere\n").unwrap();
    check(&tree, ".", ".git", 2);
    fs::remove_file(tree.root.join(".git")).unwrap();
    fs::create_dir(tree.root.join(".jj")).unwrap();
    check(&tree, ".", "", 2);
}

#[test]
fn a_nested_repository_cuts_off_the_rules_around_it() {
    let tree = repository(&[
        (".gitignore", "*.log\n"),
        (".ignore", "*.tmp\n"),
        ("a.log", ""),
        ("nested/.git/HEAD", ""),
        ("nested/a.log", ""),
        ("nested/a.tmp", ""),
        ("nested/deep/b.log", ""),
        ("plain/a.log", ""),
    ]);
    check(&tree, ".", "nested/a.log nested/deep/b.log", 3);
    check(&tree, "nested/deep", "b.log", 0);
}

#[test]
fn rules_above_the_root_count() {
    let tree = Tree::new().with(&[("a.log", ""), ("a.txt", ""), ("ws.txt", "")]);
    fs::create_dir(tree.top.join(".git")).unwrap();
    fs::write(tree.top.join(".gitignore"), "*.log\n/ws/ws.txt\n").unwrap();
    check(&tree, ".", "a.txt", 2);
}

#[test]
fn the_rules_can_be_left_aside() {
    let tree = repository(&[(".gitignore", "*\n"), ("a", "")]);
    for resolver in RESOLVERS {
        let options = WalkOptions { heed_ignore: false, ..OPTIONS };
        let (names, report) = walk(&tree.guard(resolver), ".", &options);
        assert_eq!((names.join(" ").as_str(), report.skipped.ignored), (".gitignore a", 0));
    }
}

#[test]
fn odd_ignore_files_are_read_as_ripgrep_reads_them() {
    for text in [
        "\u{feff}a\n",
        "a\r\nb\r\n",
        "a",
        "# a\n\\#b\n",
        "a \nb\\ \n",
        "[\na\n",
        "a/\n",
        "/a\n",
        "**/a\nb/**\n",
        "*\n!*/\n!b\n",
        "!a\n*\n",
        "\\!a\n",
        "c/b\n",
        "{a,b}\n",
    ] {
        let tree = repository(&[
            (".gitignore", text),
            ("a", ""),
            ("b", ""),
            ("!a", ""),
            ("#b", ""),
            ("c/a", ""),
            ("c/b", ""),
            ("d/c/b", ""),
        ]);
        let (names, _) = walk(&tree.guard(RESOLVERS[0]), ".", &OPTIONS);
        assert_eq!(names, reference(&tree, "."), "{text:?}");
    }
    let tree = repository(&[("a", ""), ("b", "")]);
    fs::write(tree.root.join(".gitignore"), b"a\n\xff\nb\n").unwrap();
    let (names, _) = walk(&tree.guard(RESOLVERS[0]), ".", &OPTIONS);
    assert_eq!(names, reference(&tree, "."));
}

#[test]
fn ignore_files_too_large_to_be_meant_are_passed_over() {
    let tree = repository(&[("a", "")]);
    fs::write(tree.root.join(".gitignore"), "a\n".repeat(600_000)).unwrap();
    let (names, _) = walk(&tree.guard(RESOLVERS[0]), ".", &OPTIONS);
    assert_eq!(names, [".gitignore", "a"]);
}

#[test]
fn a_changed_ignore_file_counts_at_once() {
    let tree = repository(&[("a", ""), ("b", "")]);
    let guard = tree.guard(RESOLVERS[0]);
    for (rules, expected) in [("a\n", "b"), ("b\n", "a"), ("c\n", "a b"), ("a\nb\n", "")] {
        tree.write(".ignore", rules);
        let (names, _) = walk(&guard, ".", &OPTIONS);
        assert_eq!(names.join(" ").replace(".ignore", "").trim(), expected, "{rules:?}");
    }
}

#[test]
fn the_persons_own_file_counts_last_and_only_in_repositories() {
    let tree = Tree::new().with(&[("a", ""), ("b", ""), (".gitignore", "!a\n")]);
    fs::write(tree.top.join("dotfiles"), "a\nb\n").unwrap();
    std::os::unix::fs::symlink("dotfiles", tree.top.join("global")).unwrap();
    let seen = || {
        let settings = GuardSettings {
            global_ignore: sinew_guard::GlobalIgnore::At(tree.top.join("global")),
            ..GuardSettings::new(vec![tree.root.clone()])
        };
        walk(&Guard::open(settings).unwrap(), ".", &OPTIONS).0.join(" ")
    };
    assert_eq!(seen(), ".gitignore a b");
    fs::create_dir(tree.root.join(".git")).unwrap();
    assert_eq!(seen(), ".gitignore a");
}

/// Lays out a worktree at `ws` of a repository beside it, as git does.
fn worktree(tree: &Tree) -> std::path::PathBuf {
    let shared = tree.top.join("main/.git");
    let own = shared.join("worktrees/ws");
    fs::create_dir_all(shared.join("info")).unwrap();
    fs::create_dir_all(&own).unwrap();
    fs::write(shared.join("info/exclude"), "*.log\n/b/only\n").unwrap();
    fs::write(own.join("commondir"), "../..\n").unwrap();
    fs::write(own.join("gitdir"), format!("{}/.git\n", tree.root.display())).unwrap();
    tree.write(".git", &format!("gitdir: {}\n", own.display()));
    own
}

const IN_WORKTREE: &[(&str, &str)] = &[("a", ""), ("a.log", ""), ("b/only", ""), ("b/c.log", "")];

#[test]
fn a_linked_worktree_has_the_exclude_file_of_its_repository() {
    let tree = Tree::new().with(IN_WORKTREE);
    let own = worktree(&tree);
    check(&tree, ".", ".git a", 3);
    check(&tree, "b", "", 2);
    fs::write(own.join("commondir"), tree.top.join("main/.git").to_str().unwrap()).unwrap();
    check(&tree, ".", ".git a", 3);
    tree.write(".gitignore", "!b/c.log\n");
    check(&tree, ".", ".git a b/c.log", 2);
}

/// What git itself makes is read like what the tests make.
#[test]
fn a_worktree_made_by_git_has_the_exclude_file_of_its_repository() {
    let tree = Tree::new();
    let main = tree.top.join("main");
    let git = |args: &[&str]| {
        let status = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false", "-C"])
            .arg(&main)
            .args(args)
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .status()
            .unwrap();
        assert!(status.success(), "{args:?}");
    };
    fs::create_dir(&main).unwrap();
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&["worktree", "add", "-q", tree.root.to_str().unwrap(), "-b", "other"]);
    fs::write(main.join(".git/info/exclude"), "*.log\n").unwrap();
    let tree = tree.with(IN_WORKTREE);
    check(&tree, ".", ".git a b/only", 2);
}

/// A pointer that starts at the worktree is git's way where paths are relative. ripgrep starts it
/// at its own working directory.
#[test]
fn a_relative_pointer_starts_at_the_worktree() {
    let tree = Tree::new().with(IN_WORKTREE);
    let own = worktree(&tree);
    tree.write(".git", "gitdir: ../main/.git/worktrees/ws\r\n");
    fs::write(own.join("gitdir"), "../../../../ws/.git\n").unwrap();
    let (names, report) = walk(&tree.guard(RESOLVERS[0]), ".", &OPTIONS);
    assert_eq!((names.join(" ").as_str(), report.skipped.ignored), (".git a", 3));
}

/// A writer of the worktree could otherwise make any repository's rules show by what they
/// leave out, or let a walk wait.
#[test]
fn a_repository_that_does_not_name_the_worktree_lends_it_nothing() {
    type Spoil = fn(&Tree, &std::path::Path);
    let cases: &[(&str, Spoil)] = &[
        ("names another worktree", |tree, own| {
            let other = format!("{}/.git\n", tree.outside.display());
            fs::write(own.join("gitdir"), other).unwrap();
        }),
        ("names none", |_, own| fs::remove_file(own.join("gitdir")).unwrap()),
        ("has no shared directory", |_, own| fs::remove_file(own.join("commondir")).unwrap()),
        ("shares another directory", |tree, own| {
            let far = tree.outside.join(".git");
            fs::create_dir_all(far.join("info")).unwrap();
            fs::write(far.join("info/exclude"), "*.log\n").unwrap();
            fs::write(own.join("commondir"), far.to_str().unwrap()).unwrap();
        }),
        ("shares through a FIFO", |_, own| {
            fs::remove_file(own.join("commondir")).unwrap();
            fifo(&own.join("commondir"));
        }),
        ("shares through a link", |_, own| {
            fs::rename(own.join("commondir"), own.join("real")).unwrap();
            std::os::unix::fs::symlink("real", own.join("commondir")).unwrap();
        }),
        ("excludes through a FIFO", |tree, _| {
            let exclude = tree.top.join("main/.git/info/exclude");
            fs::remove_file(&exclude).unwrap();
            fifo(&exclude);
        }),
        ("excludes through a link", |tree, _| {
            let exclude = tree.top.join("main/.git/info/exclude");
            fs::rename(&exclude, tree.top.join("secret")).unwrap();
            std::os::unix::fs::symlink("../../../secret", &exclude).unwrap();
        }),
        ("is named by too long a line", |tree, own| {
            let dots = "/.".repeat(3_000);
            tree.write(".git", &format!("gitdir: {}{dots}\n", own.display()));
        }),
        ("is named by nothing", |tree, _| tree.write(".git", "")),
        ("is named by another word", |tree, own| {
            tree.write(".git", &format!("dir: {}\n", own.display()));
        }),
    ];
    for (case, spoil) in cases {
        let tree = Tree::new().with(IN_WORKTREE);
        spoil(&tree, &worktree(&tree));
        for resolver in RESOLVERS {
            let (names, _) = walk(&tree.guard(resolver), ".", &OPTIONS);
            assert_eq!(names.join(" "), ".git a a.log b/c.log b/only", "{case}");
        }
    }
}

fn fifo(path: &std::path::Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

const PLACES: &[&str] = &["", "a/", "b/", "a/b/", "a/c/", "b/a/d/", "a/b/c/"];
const NAMES: &[&str] = &["a", "b", "x.log", "y.txt", ".hidden", "c", "d.log"];
const RULE_FILES: &[&str] = &[".gitignore", ".ignore", ".rgignore"];
const LINES: &[&str] = &[
    "a", "b/", "/a", "*.log", "!*.log", "!x.log", "a/b", "**/c", "/a/**", "!a", "!b/", "*", "!*/",
    "b/*", ".*", "[xy].*", "c/", "/b/a", "!/a/b", "*.txt",
];

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_trees_look_as_ripgrep_sees_them(
        files in prop::collection::vec(
            (prop::sample::select(PLACES), prop::sample::select(NAMES)), 1..20),
        rules in prop::collection::vec(
            (
                prop::sample::select(PLACES),
                prop::sample::select(RULE_FILES),
                prop::collection::vec(prop::sample::select(LINES), 1..4),
            ),
            0..6),
        repositories in prop::collection::vec(prop::sample::select(PLACES), 0..3),
        start in prop::sample::select(PLACES),
    ) {
        let tree = Tree::new();
        for (place, name) in files {
            // A name that is a file in one row and a directory in another stays what it was.
            let path = tree.root.join(place);
            if fs::create_dir_all(&path).is_ok() && !path.join(name).is_dir() {
                fs::write(path.join(name), "").unwrap();
            }
        }
        for (place, name, lines) in rules {
            if tree.root.join(place).is_dir() {
                fs::write(tree.root.join(place).join(name), lines.join("\n")).unwrap();
            }
        }
        for place in repositories {
            if tree.root.join(place).is_dir() {
                fs::create_dir_all(tree.root.join(place).join(".git")).unwrap();
            }
        }
        if tree.root.join(start).is_dir() {
            let start = if start.is_empty() { "." } else { start };
            for resolver in RESOLVERS {
                let (names, _) = walk(&tree.guard(resolver), start, &OPTIONS);
                prop_assert_eq!(names, reference(&tree, start));
            }
        }
    }
}

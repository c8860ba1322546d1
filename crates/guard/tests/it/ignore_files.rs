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

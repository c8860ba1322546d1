use std::time::Duration;

use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, ROOT, call};
use sinew_tool::{Block, Kind, Reply};

use super::*;

fn world() -> MemoryWorld {
    let world = MemoryWorld::new();
    for (path, seconds) in [
        ("main.rs", 5),
        ("src/lib.rs", 9),
        ("src/a/deep.rs", 7),
        ("src/a/deep.md", 8),
        ("src/b.txt", 1),
        (".hidden.rs", 3),
        ("target/out.rs", 10),
        (".git/config.rs", 11),
        ("same/y.rs", 2),
        ("same/x.rs", 2),
    ] {
        world.file(path, "x").modified(path, seconds);
    }
    world.file(".gitignore", "target/\n").modified(".gitignore", 0);
    world.link("link.rs", "main.rs").modified("link.rs", 4);
    world
}

fn text(reply: &Reply) -> &str {
    match reply.content.first() {
        Some(Block::Text { text }) => text,
        other => panic!("no text but {other:?}"),
    }
}

#[track_caller]
fn check(args: Value, expected: &[&str]) {
    let reply = call(&world(), &NATIVE.tool(), args);
    assert_eq!(text(&reply).lines().collect::<Vec<_>>(), expected);
}

const SKIPPED: &str = "[skipped: 1 ignored, 1 hidden]";

#[test]
fn matches_are_newest_first_and_ties_by_path() {
    check(
        json!({"pattern": "**/*.rs"}),
        &[
            "src/lib.rs",
            "src/a/deep.rs",
            "main.rs",
            "link.rs",
            ".hidden.rs",
            "same/x.rs",
            "same/y.rs",
            SKIPPED,
        ],
    );
    check(json!({"pattern": "*.rs"}), &["main.rs", "link.rs", ".hidden.rs", SKIPPED]);
    check(json!({"pattern": "./main.rs"}), &["main.rs", SKIPPED]);
    check(json!({"pattern": "src/**/*.{md,txt}"}), &["src/a/deep.md", "src/b.txt", SKIPPED]);
    check(json!({"pattern": "src/*/deep.*"}), &["src/a/deep.md", "src/a/deep.rs", SKIPPED]);
    check(json!({"pattern": "{main,src/lib}.rs"}), &["src/lib.rs", "main.rs", SKIPPED]);
    check(json!({"pattern": "*.rs", "path": "src"}), &["src/lib.rs"]);
    check(json!({"pattern": "src"}), &["no files match", SKIPPED]);
}

#[test]
fn absolute_patterns_name_their_own_directory() {
    check(json!({"pattern": format!("{ROOT}/src/*.rs")}), &["src/lib.rs"]);
    check(json!({"pattern": format!("{ROOT}/src/*.rs"), "path": "."}), &["src/lib.rs", SKIPPED]);
    check(
        json!({"pattern": "/etc/*.conf"}),
        &["path denied: /etc", "", "it lies outside the roots: /root-of-test"],
    );
    check(
        json!({"pattern": "/etc/*.conf", "path": "src"}),
        &[
            "argument `pattern` is absolute and not beneath `path`",
            "",
            "make the pattern relative to path",
        ],
    );
}

#[test]
fn state_directories_are_entered_when_they_are_named() {
    check(json!({"pattern": ".git/*.rs"}), &[".git/config.rs", "[skipped: 1 ignored]"]);
    check(json!({"pattern": "*.rs", "path": ".git"}), &[".git/config.rs"]);
}

#[test]
fn the_newest_of_all_are_kept() {
    let world = MemoryWorld::new();
    for n in 0..500_i64 {
        let path = format!("d{}/f{n}", n % 7);
        world.file(&path, "x").modified(&path, (n * 7_919) % 1_009);
    }
    let mut all: Vec<(Reverse<i64>, String)> =
        (0..500).map(|n| (Reverse((n * 7_919) % 1_009), format!("d{}/f{n}", n % 7))).collect();
    all.sort();
    let reply = call(&world, &NATIVE.tool(), json!({"pattern": "**"}));
    let shown: Vec<&str> = text(&reply).lines().take(100).collect();
    let expected: Vec<&str> = all.iter().take(100).map(|(_, path)| path.as_str()).collect();
    assert_eq!(shown, expected);
    let note = "[100 of 500 files, newest first; narrow the pattern]";
    assert_eq!(text(&reply).lines().nth(100), Some(note));
    assert!(reply.meta.truncated);
}

#[test]
fn invalid_globs_say_where() {
    for (pattern, message) in [
        ("", "argument `pattern` is empty; `**` names every file"),
        (
            "src/[a",
            "argument `pattern` is not a valid glob at character 5: unclosed character class; missing ']'",
        ),
        (
            "é{a",
            "argument `pattern` is not a valid glob at character 2: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)",
        ),
        (
            "[z-a]",
            "argument `pattern` is not a valid glob at character 2: invalid range; 'z' > 'a'",
        ),
    ] {
        let reply = call(&world(), &NATIVE.tool(), json!({"pattern": pattern}));
        let error = reply.error.expect("an error");
        assert_eq!((error.kind, error.message.as_str()), (Kind::InvalidArgs, message));
    }
}

#[test]
fn a_glob_ends_in_time_and_when_nobody_waits() {
    let mut world = world();
    for n in 0..1_000 {
        world.file(&format!("many/{n}"), "x");
    }
    world.tick(Duration::from_secs(2));
    let reply = call(&world, &NATIVE.tool(), json!({"pattern": "many/*"}));
    assert!(reply.ok && reply.meta.truncated);
    assert!(text(&reply).contains("[the time ran out: this is a part of the result]"));
    world.deadline = Some(world.now());
    assert!(call(&world, &NATIVE.tool(), json!({"pattern": "many/*"})).meta.truncated);
    world.cancel.cancel();
    let reply = call(&world, &NATIVE.tool(), json!({"pattern": "many/*"}));
    assert_eq!(reply.error.expect("an error").kind, Kind::Cancelled);
}

proptest::proptest! {
    #[test]
    fn any_pattern_is_compiled_or_refused_by_name(pattern in "(?s).{0,40}") {
        for tool in [NATIVE.tool(), crate::grep::NATIVE.tool()] {
            let args = json!({"pattern": pattern, "glob": pattern});
            let args = if tool.name() == "Glob" { json!({"pattern": pattern}) } else { args };
            let reply = call(&world(), &tool, args);
            let kind = reply.error.as_ref().map(|error| error.kind);
            let known = [Kind::InvalidArgs, Kind::PathDenied, Kind::FileNotFound, Kind::InvalidPath];
            proptest::prop_assert!(kind.is_none_or(|kind| known.contains(&kind)), "{kind:?}");
        }
    }

    /// Directories that are never entered for a pattern hold none of its matches.
    #[test]
    fn what_a_pattern_matches_lies_where_it_is_looked_for(
        pattern in "([ab*?]|/|\\*\\*/|\\{a,b/a\\}|\\[ab\\]|\\\\a){1,6}",
        path in "[ab](/?[ab]){0,6}",
        star_crosses in proptest::prelude::any::<bool>(),
    ) {
        let Ok(glob) = pattern::glob(&pattern, star_crosses) else { return Ok(()) };
        if glob.is_match(&path) {
            let prefix = literal_prefix(&pattern);
            proptest::prop_assert!(Path::new(&path).starts_with(prefix.iter().collect::<PathBuf>()));
            let crosses = star_crosses || pattern.contains("**");
            let depth = pattern.matches('/').count();
            proptest::prop_assert!(crosses || path.matches('/').count() <= depth);
        }
    }
}

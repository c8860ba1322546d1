use std::cmp::Reverse;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, call};
use sinew_tool::{Block, Kind, Reply};

use super::*;

fn world() -> MemoryWorld {
    let world = MemoryWorld::new();
    for (path, content, seconds) in [
        ("old.rs", "fn one() {}\nfn two() {}\n", 1),
        ("new.rs", "// head\nfn three() {\n    body\n}\n// tail\n", 9),
        ("doc/notes.md", "fn in notes\r\nplain\r\n", 5),
        ("doc/x.py", "def fn():\n    pass\n", 5),
        ("target/gen.rs", "fn generated() {}\n", 20),
        (".git/hook.rs", "fn hook() {}\n", 21),
        ("wide.txt", "\u{FEFF}fn with mark\n", 3),
    ] {
        world.file(path, content).modified(path, seconds);
    }
    world.file("utf16.txt", b"\xFF\xFEf\0n\0 \0x\0\n\0").modified("utf16.txt", 2);
    world.file("nul.bin", b"zero\0fn binary\n").modified("nul.bin", 4);
    // ripgrep looks for a NUL in what it reads at once.
    let late = format!("fn first\n{}\0fn second\n", "x\n".repeat(50_000));
    world.file("late.bin", late).modified("late.bin", 4);
    world.file(".gitignore", "target/\n").modified(".gitignore", 0);
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

#[test]
fn names_are_newest_first() {
    check(
        json!({"pattern": "fn "}),
        &[
            "new.rs",
            "doc/notes.md",
            "late.bin",
            "wide.txt",
            "utf16.txt",
            "old.rs",
            "[skipped: 1 ignored, 1 hidden, 1 binary]",
        ],
    );
    check(
        json!({"pattern": "absent"}),
        &["no matches", "[skipped: 1 ignored, 1 hidden, 2 binary]"],
    );
}

#[test]
fn files_are_chosen_by_glob_and_type() {
    check(
        json!({"pattern": "fn", "glob": "*.rs"}),
        &["new.rs", "old.rs", "[skipped: 1 ignored, 1 hidden]"],
    );
    check(
        json!({"pattern": "fn", "glob": "doc/*"}),
        &["doc/notes.md", "doc/x.py", "[skipped: 1 ignored, 1 hidden]"],
    );
    check(
        json!({"pattern": "fn ", "glob": "!*.{rs,bin,txt}"}),
        &["doc/notes.md", "[skipped: 1 ignored, 1 hidden]"],
    );
    check(
        json!({"pattern": "fn ", "glob": "!doc", "type": "md"}),
        &["no matches", "[skipped: 1 ignored, 1 hidden]"],
    );
    check(json!({"pattern": "fn", "type": "py"}), &["doc/x.py", "[skipped: 1 ignored, 1 hidden]"]);
    // As in ripgrep, a file that is named itself is searched whatever it is called.
    check(json!({"pattern": "fn", "type": "py", "path": "old.rs"}), &["old.rs"]);
}

#[test]
fn content_is_shown_as_ripgrep_shows_it() {
    check(
        json!({"pattern": "fn ", "glob": "*.rs", "output_mode": "content"}),
        &[
            "new.rs:2:fn three() {",
            "old.rs:1:fn one() {}",
            "old.rs:2:fn two() {}",
            "[skipped: 1 ignored, 1 hidden]",
        ],
    );
    check(
        json!({"pattern": "three|tail", "path": "new.rs", "output_mode": "content", "-C": 1}),
        &[
            "new.rs-1-// head",
            "new.rs:2:fn three() {",
            "new.rs-3-    body",
            "new.rs-4-}",
            "new.rs:5:// tail",
        ],
    );
    check(
        json!({
            "pattern": "head|tail|two", "glob": "*.rs", "output_mode": "content", "-A": 1,
            "-n": false,
        }),
        &[
            "new.rs:// head",
            "new.rs-fn three() {",
            "--",
            "new.rs:// tail",
            "--",
            "old.rs:fn two() {}",
            "[skipped: 1 ignored, 1 hidden]",
        ],
    );
    check(
        json!({"pattern": "NOTES", "-i": true, "path": "doc", "output_mode": "content"}),
        &["doc/notes.md:1:fn in notes"],
    );
    check(
        json!({"pattern": "fn", "path": "late.bin", "output_mode": "content"}),
        &["late.bin:1:fn first", "late.bin: [binary from here on: not searched]"],
    );
}

#[test]
fn counts_are_of_lines() {
    check(
        json!({"pattern": "fn ", "output_mode": "count"}),
        &[
            "new.rs:1",
            "doc/notes.md:1",
            "wide.txt:1",
            "utf16.txt:1",
            "old.rs:2",
            "[skipped: 1 ignored, 1 hidden, 2 binary]",
        ],
    );
    check(json!({"pattern": "n", "path": "old.rs", "output_mode": "count"}), &["old.rs:2"]);
}

#[test]
fn matches_may_span_lines() {
    check(
        json!({
            "pattern": "three.*body", "path": "new.rs", "multiline": true,
            "output_mode": "content",
        }),
        &["new.rs:2:fn three() {", "new.rs:3:    body"],
    );
    check(
        json!({"pattern": "^fn (one|two)", "path": "old.rs", "multiline": true, "output_mode": "count"}),
        &["old.rs:2"],
    );
    let reply = call(&world(), &NATIVE.tool(), json!({"pattern": "a\\nb"}));
    let expected = "argument `pattern` contains a line feed, which one line never does\n\n\
                    set multiline to true to match across lines";
    assert_eq!(text(&reply), expected);
}

#[test]
fn limits_say_how_to_go_on() {
    check(
        json!({"pattern": "fn ", "head_limit": 2}),
        &[
            "new.rs",
            "doc/notes.md",
            "[stopped after 2 rows; go on with offset 2 or narrow the search]",
            "[skipped: 1 ignored, 1 hidden]",
        ],
    );
}

#[test]
fn pages_follow_one_another() {
    let world = MemoryWorld::new();
    world.file("a", "m 1\nx\nm 2\nx\nm 3\n").modified("a", 2);
    world.file("b", "m 4\nx\nm 5\n").modified("b", 1);
    let page = |offset: u64, context: u64| {
        let args = json!({
            "pattern": "m", "output_mode": "content", "head_limit": 2, "offset": offset,
            "-C": context,
        });
        let reply = call(&world, &NATIVE.tool(), args);
        text(&reply).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let more =
        |n: u64| format!("[stopped after 2 rows; go on with offset {n} or narrow the search]");
    assert_eq!(page(0, 0), ["a:1:m 1", "a:3:m 2", &more(2)]);
    assert_eq!(page(2, 0), ["a:5:m 3", "b:1:m 4", &more(4)]);
    assert_eq!(page(4, 0), ["b:3:m 5"]);
    assert_eq!(page(5, 0), ["no more matches"]);
    assert_eq!(page(0, 1), ["a:1:m 1", "a-2-x", "a:3:m 2", "a-4-x", &more(2)]);
    assert_eq!(page(2, 1), ["a-4-x", "a:5:m 3", "--", "b:1:m 4", "b-2-x", &more(4)]);
}

#[test]
fn long_lines_show_the_match() {
    let world = MemoryWorld::new();
    world.file("min.js", format!("{}needle{}\n", "a".repeat(100_000), "b".repeat(100_000)));
    let args = json!({"pattern": "needle", "output_mode": "content"});
    let reply = call(&world, &NATIVE.tool(), args);
    let (head, tail) = ("a".repeat(100), "b".repeat(394));
    let expected = format!("min.js:1:…{head}needle{tail}… [199506 more characters]");
    assert_eq!(text(&reply), expected);
}

#[test]
fn invalid_arguments_say_what_to_change() {
    for (args, message, hint) in [
        (
            json!({"pattern": "a(b"}),
            "argument `pattern` is not a valid regular expression at character 2: unclosed group",
            "escape ( ) [ ] { } . * + ? | ^ $ \\ with a backslash to match them literally",
        ),
        (
            json!({"pattern": "(?=a)b"}),
            "argument `pattern` is not a valid regular expression at character 1: look-around, \
             including look-ahead and look-behind, is not supported",
            "this is Rust regex syntax, without look-around and backreferences",
        ),
        (
            json!({"pattern": "(a)\\1"}),
            "argument `pattern` is not a valid regular expression at character 4: backreferences \
             are not supported",
            "this is Rust regex syntax, without look-around and backreferences",
        ),
        (
            json!({"pattern": "x", "type": "rusty"}),
            "argument `type` is unknown: `rusty`",
            "nearest types: rust, rst, ruby; or use glob",
        ),
    ] {
        let error = call(&world(), &NATIVE.tool(), args).error.expect("an error");
        assert_eq!(error.kind, Kind::InvalidArgs);
        assert_eq!(error.message, message);
        assert_eq!(error.hint.expect("a hint"), hint);
    }
    let glob = call(&world(), &NATIVE.tool(), json!({"pattern": "x", "glob": "{a"}));
    assert_eq!(glob.error.expect("an error").kind, Kind::InvalidArgs);
}

#[test]
fn a_search_ends_in_time_and_when_nobody_waits() {
    let mut world = world();
    for n in 0..200 {
        world.file(&format!("many/{n}"), "fn x\n");
    }
    world.tick(Duration::from_secs(1));
    let reply = call(&world, &NATIVE.tool(), json!({"pattern": "fn"}));
    assert!(reply.ok && reply.meta.truncated);
    assert!(text(&reply).contains("[the time ran out: this is a part of the result]"));
    world.deadline = Some(world.now());
    assert!(call(&world, &NATIVE.tool(), json!({"pattern": "fn"})).meta.truncated);
    world.cancel.cancel();
    let reply = call(&world, &NATIVE.tool(), json!({"pattern": "fn"}));
    assert_eq!(reply.error.expect("an error").kind, Kind::Cancelled);
}

#[test]
fn files_too_large_for_matches_across_lines_are_counted() {
    let world = MemoryWorld::new();
    world.file("large", "a\n".repeat(9 << 20)).file("small", "a\nb\n");
    let args = json!({"pattern": "a\\nb", "multiline": true});
    let reply = call(&world, &NATIVE.tool(), args);
    assert_eq!(text(&reply), "small\n[skipped: 1 too large]");
}

#[test]
fn a_large_file_named_itself_is_searched_like_any() {
    let world = MemoryWorld::new();
    let line = "x".repeat(3 << 20);
    world.file("wide", format!("one\n{line} needle\nneedle\n"));
    world.file("utf16", {
        let text = format!("{}needle\n", "y\n".repeat(1 << 20));
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        [b"\xFF\xFE".to_vec(), units].concat()
    });
    for (path, expected) in [("wide", "wide:2"), ("utf16", "utf16:1")] {
        let args = json!({"pattern": "needle", "path": path, "output_mode": "count"});
        assert_eq!(text(&call(&world, &NATIVE.tool(), args)), expected);
    }
    let args = json!({"pattern": "^needle", "path": "wide", "output_mode": "content"});
    assert_eq!(text(&call(&world, &NATIVE.tool(), args)), "wide:3:needle");
}

proptest! {
    /// Stopping early gives the rows of searching everything, sorting and cutting.
    #[test]
    fn an_early_stop_changes_no_row(
        files in proptest::collection::vec((0..6_i64, 0..5_usize), 1..60),
        limit in 1..12_u64,
        offset in 0..12_u64,
        by_path: bool,
        content: bool,
    ) {
        let world = MemoryWorld::new();
        let mut rows: Vec<(Reverse<i64>, PathBuf, usize)> = Vec::new();
        for (at, (seconds, n_matches)) in files.iter().enumerate() {
            let path = format!("d{}/f{at}", at % 3);
            world.file(&path, "match\n".repeat(*n_matches)).modified(&path, *seconds);
            let n_rows = if content { *n_matches } else { (*n_matches).min(1) };
            let time = if by_path { 0 } else { *seconds };
            rows.extend((0..n_rows).map(|row| (Reverse(time), PathBuf::from(&path), row + 1)));
        }
        rows.sort();
        let expected: Vec<String> = rows
            .iter()
            .skip(offset as usize)
            .take(limit as usize)
            .map(|(_, path, row)| match content {
                true => format!("{}:{row}:match", path.display()),
                false => path.display().to_string(),
            })
            .collect();
        let row = Row { presets: &[("order", Preset::Str("path"))], ..NATIVE };
        let tool = if by_path { row.tool() } else { NATIVE.tool() };
        let mode = if content { "content" } else { "files_with_matches" };
        let args = json!({
            "pattern": "match", "output_mode": mode, "head_limit": limit, "offset": offset,
        });
        let reply = call(&world, &tool, args);
        let shown: Vec<&str> =
            text(&reply).lines().filter(|line| line.starts_with('d')).collect();
        prop_assert_eq!(shown, expected);
        let follows = offset + limit < rows.len() as u64;
        prop_assert_eq!(reply.meta.truncated, follows);
    }
}

#[test]
fn what_is_wrong_with_a_pattern_is_told_with_its_place() {
    for (args, words) in [
        (json!({"pattern": "x", "glob": "src/{a"}), "`glob` is not a valid glob at character 5: "),
        (json!({"pattern": "x", "glob": "!é[b"}), "`glob` is not a valid glob at character 3: "),
        (
            json!({"pattern": format!("{}a{}", "(".repeat(300), ")".repeat(300))}),
            "`pattern` is nested more than 250 deep at character 250\n\ntake groups out",
        ),
        (
            json!({"pattern": r"\w{1000}"}),
            "`pattern` needs more than 16777216 bytes compiled\n\nuse fewer or smaller repetitions",
        ),
        (
            json!({"pattern": "a{8000}b{200}"}),
            "`pattern` is for up to 8200 characters in a row; at most 8192 are searched for\n\nsearch for a",
        ),
    ] {
        let reply = call(&world(), &NATIVE.tool(), args);
        assert!(text(&reply).contains(words), "{words}: {}", text(&reply));
    }
    let error = pattern::regex_error("x", "error parsing pattern 0").to_string();
    assert_eq!(error, "argument `pattern` is nested more than 250 deep");
}

/// A name with a line feed looked like two files.
#[test]
fn names_cannot_make_rows() {
    let world = MemoryWorld::new();
    world.file("plain", "fn\n").file("one\ntwo", "fn\n");
    let note = "[names in double quotes have escapes: \\n is a line feed, \\351 a byte]";
    for (tool, args, rows) in [
        (
            NATIVE.tool(),
            json!({"pattern": "fn", "output_mode": "content"}),
            ["\"one\\ntwo\":1:fn", "plain:1:fn", note],
        ),
        (
            NATIVE.tool(),
            json!({"pattern": "fn", "output_mode": "count"}),
            ["\"one\\ntwo\":1", "plain:1", note],
        ),
        (crate::glob::NATIVE.tool(), json!({"pattern": "*"}), ["\"one\\ntwo\"", "plain", note]),
        (crate::list::NATIVE.tool(), json!({}), ["\"one\\ntwo\"", " plain", note]),
    ] {
        let reply = call(&world, &tool, args);
        let lines: Vec<&str> = text(&reply).lines().collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines.iter().zip(rows).all(|(line, row)| line.ends_with(row)), "{lines:?}");
    }
}

use proptest::prelude::*;
use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, call};
use sinew_tool::{Block, Reply};

use super::*;
use crate::{multi_edit, write};

fn text(reply: &Reply) -> &str {
    match reply.content.first() {
        Some(Block::Text { text }) => text,
        other => panic!("no text but {other:?}"),
    }
}

fn edit(world: &MemoryWorld, old: &str, new: &str, all: bool) -> Reply {
    let args = json!({"file_path": "a", "old_string": old, "new_string": new, "replace_all": all});
    call(world, &NATIVE.tool(), args)
}

/// Edits a content once and compares all of the new content and the head of the reply.
#[track_caller]
fn check(content: impl AsRef<[u8]>, old: &str, new: &str, expected: impl AsRef<[u8]>, head: &str) {
    check_with(content, old, new, false, expected, head);
}

#[track_caller]
fn check_with(
    content: impl AsRef<[u8]>,
    old: &str,
    new: &str,
    all: bool,
    expected: impl AsRef<[u8]>,
    head: &str,
) {
    let world = MemoryWorld::new();
    world.file("a", &content);
    let reply = edit(&world, old, new, all);
    let content = world.content("a").expect("the file");
    assert_eq!(
        String::from_utf8_lossy(&content),
        String::from_utf8_lossy(expected.as_ref()),
        "{}",
        text(&reply)
    );
    assert_eq!(content, expected.as_ref());
    assert_eq!(text(&reply).lines().next(), Some(head));
}

/// Edits a content in vain: the file stays, and the error is this.
#[track_caller]
fn check_error(content: impl AsRef<[u8]>, old: &str, new: &str, kind: Kind, expected: &str) {
    let world = MemoryWorld::new();
    world.file("a", &content);
    let reply = edit(&world, old, new, false);
    assert_eq!(world.content("a").expect("the file"), content.as_ref());
    let error = reply.error.as_ref().expect("an error");
    assert_eq!((error.kind, text(&reply)), (kind, expected));
}

const ONE: &str = "edited a: 1 replacement (exact)";
const ENDINGS: &str = "edited a: 1 replacement (line endings differ)";

#[test]
fn only_the_named_bytes_change() {
    check("one two three", "two", "2", "one 2 three", ONE);
    check("no end", "end", "END", "no END", ONE);
    check("a\r\nb\r\nc\n", "b", "B", "a\r\nB\r\nc\n", ONE);
    check("a \t\nb  \n", "b  ", "b", "a \t\nb\n", ONE);
    check(b"caf\xE9 one\n", "one", "two", b"caf\xE9 two\n", ONE);
    check("x", "x", "", "", ONE);
    check("price: 1", "1", "$& \\1 $$ $` {0}", "price: $& \\1 $$ $` {0}", ONE);
    check("\u{FEFF}one\n", "one", "two", "\u{FEFF}two\n", ONE);
    check("\u{FEFF}one\n", "\u{FEFF}one", "two", "two\n", ONE);
    check("a\nb\nc\n", "a\nb\n", "", "c\n", ONE);
}

#[test]
fn every_place_is_replaced_where_that_is_asked_for() {
    check_with("a b a b a", "a", "aa", true, "aa b aa b aa", "edited a: 3 replacements (exact)");
    check_with("aaaa", "aa", "b", true, "bb", "edited a: 2 replacements (exact)");
    check_with("one", "one", "1", true, "1", ONE);
    check_with("x\r\ny\nx\ny\r\n", "x\ny", "p\nq", true, "x\r\ny\np\nq\r\n", ONE);
    check_with(
        "x\r\ny\nx\r\ny\r\n",
        "x\ny\n",
        "p\nq\n",
        true,
        "p\r\nq\r\np\r\nq\r\n",
        "edited a: 2 replacements (line endings differ)",
    );
}

#[test]
fn line_endings_may_differ_and_stay() {
    check("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n", ENDINGS);
    check("a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n", ENDINGS);
    check("a\r\nb\r\n", "b\n", "", "a\r\n", ENDINGS);
    check("a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n", "edited a: 1 replacement (exact)");
    check("1\r\n2\n3\r\n", "1\n2\n3", "x\ny\nz", "x\r\ny\r\nz\r\n", ENDINGS);
    check("1\n2\r\n3\n", "1\n2\n3", "x\ny\nz", "x\ny\nz\n", ENDINGS);
    check("a\r\n\r\n\r\nb\r\n", "a\n\n\nb", "a\nb", "a\r\nb\r\n", ENDINGS);
    check("\u{FEFF}a\r\nb\r\n", "a\nb", "c\nd", "\u{FEFF}c\r\nd\r\n", ENDINGS);
}

/// Lines that text and replacement share got the ending of the first line that was matched.
#[test]
fn lines_that_stay_keep_their_endings() {
    let mixed = "head\r\nalpha\r\nbeta\ngamma\ndelta\r\ntail\n";
    for (old, new, expected) in [
        (
            "alpha\nbeta\ngamma\ndelta",
            "ALPHA\nbeta\ngamma\ndelta",
            "head\r\nALPHA\r\nbeta\ngamma\ndelta\r\ntail\n",
        ),
        (
            "alpha\nbeta\ngamma\ndelta\n",
            "alpha\nBETA\nmore\ngamma\ndelta\n",
            "head\r\nalpha\r\nBETA\nmore\ngamma\ndelta\r\ntail\n",
        ),
        ("alpha\nbeta\ngamma", "beta\ngamma", "head\r\nbeta\ngamma\ndelta\r\ntail\n"),
        (
            "head\nalpha\nbeta",
            "head\nalpha\nnew\nbeta",
            "head\r\nalpha\r\nnew\r\nbeta\ngamma\ndelta\r\ntail\n",
        ),
        ("alpha\nbeta\ngamma\n", "", "head\r\ndelta\r\ntail\n"),
        (
            "beta\ngamma\ndelta\ntail",
            "beta\ngamma\ndelta\nTAIL",
            "head\r\nalpha\r\nbeta\ngamma\ndelta\r\nTAIL\n",
        ),
        (
            "beta\ngamma\ndelta\ntail",
            "beta\ngamma\ndelta\nTAIL\nmore",
            "head\r\nalpha\r\nbeta\ngamma\ndelta\r\nTAIL\r\nmore\n",
        ),
    ] {
        check(mixed, old, new, expected, ENDINGS);
    }
}

/// It was said that nothing like it was there.
#[test]
fn short_lines_and_other_case_are_found() {
    let code = "def f():\n    if a:\n        x = 1\n    y()\n";
    for (content, old, found) in [
        (code, "if a:\n    x = 1\ny()", "lines 2-4 differ only in spaces, tabs or indentation"),
        (code, "\tx = 1", "line 3 differs only in spaces, tabs or indentation"),
        (code, "DEF F():", "line 1 differs only in upper and lower case"),
        ("one\ntwo\n", "One\nTwo", "lines 1-2 differ only in upper and lower case"),
        ("say \u{201C}hi\u{201D}\n", "say \"hi\"", "line 1 differs only in quotes"),
    ] {
        let world = MemoryWorld::new();
        world.file("a", content);
        let reply = edit(&world, old, "new", false);
        assert!(text(&reply).contains(found), "{old:?}: {}", text(&reply));
    }
}

#[test]
fn a_foreign_ending_is_told() {
    let world = MemoryWorld::new();
    world.file("a", "one\r\ntwo\r\n");
    let reply = edit(&world, "one", "1\n1", false);
    assert_eq!(world.content("a").expect("the file"), b"1\n1\r\ntwo\r\n");
    assert!(text(&reply).contains("[new_string has LF line endings, the lines around it CRLF]"));
}

#[test]
fn what_is_not_unique_is_refused_with_its_lines() {
    check_error(
        "a\nb\na\n",
        "a",
        "c",
        Kind::NotUnique,
        "old_string occurs 2 times in a: lines 1, 3\n\n\
         add surrounding lines until it is unique, or set replace_all",
    );
    check_error(
        "x\n".repeat(12),
        "x\n",
        "y\n",
        Kind::NotUnique,
        "old_string occurs 12 times in a: lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 …\n\n\
         add surrounding lines until it is unique, or set replace_all",
    );
    check_error(
        "a\r\nb\r\na\r\nb\r\n",
        "a\nb",
        "c",
        Kind::NotUnique,
        "old_string occurs 2 times in a: lines 1, 3\n\n\
         add surrounding lines until it is unique, or set replace_all",
    );
}

#[test]
fn what_is_not_found_is_answered_with_what_is_like_it() {
    check_error(
        "fn main() {\n\tlet total = 1;\n}\n",
        "fn main() {\n    let total = 1;\n}",
        "x",
        Kind::NoMatch,
        "old_string was not found in a\n\nwith `loose` it is found at line 1: indentation \
         differs\n\nlines 1-3 differ only in spaces, tabs or indentation; its text is:\nfn main() {\n\tlet total = 1;\n}",
    );
    check_error(
        "say(“hello world”)\n",
        "say(\"hello world\")",
        "x",
        Kind::NoMatch,
        "old_string was not found in a\n\nwith `loose` it is found at line 1: quotes, dashes or \
         blanks differ\n\nline 1 differs only in quotes, dashes or blanks; its text is:\nsay(“hello world”)",
    );
    check_error(
        "one\nlet Total_Count = 5;\r\nthree\n",
        "let total_count = 5;",
        "x",
        Kind::NoMatch,
        "old_string was not found in a\n\nline 2 differs only in upper and lower case; its text \
         is:\nlet Total_Count = 5;",
    );
    check_error(
        "fn one() {}\nfn second(first: usize) {}\n",
        "fn second(first: u64) {}\n",
        "x",
        Kind::NoMatch,
        "old_string was not found in a\n\nline 2 differs in some words; its text is:\n\
         fn second(first: usize) {}\n",
    );
    check_error(
        "alpha\nbeta\n",
        "gamma_delta",
        "x",
        Kind::NoMatch,
        "old_string was not found in a\n\nno line like it was found; read the file again",
    );
    check_error(
        "let done = finish_it(1);\n",
        "another_line_of_text",
        "let done = finish_it(1);",
        Kind::NoMatch,
        "old_string was not found in a\n\nnew_string is already in the file",
    );
}

/// A text that was named as the next one to send was there twice.
#[test]
fn what_is_like_it_is_ready_to_send() {
    for (content, old, expected) in [
        ("fn one() {\n    call(a);\n}\nfn two() {\n    call(a);\n}\n", "call(b);", None),
        ("\u{201C}first\u{201D} line\nsecond\n", "\"first\" line\nsecond", Some("lines 1-2")),
        ("fn f() {\n\tcall(a);\n}\n", "    call(a);\n    }", Some("lines 2-3")),
    ] {
        let regions = crate::nearest::regions(content.as_bytes(), old);
        let first = regions.first().expect("a region");
        let found = Needle::new(&first.text, "", false).find(content.as_bytes(), false);
        assert!(found.is_ok(), "{}", first.text);
        if let Some(expected) = expected {
            assert!(first.words().starts_with(expected), "{}", first.words());
        }
    }
}

#[test]
fn another_form_is_found_where_that_is_allowed() {
    let content = "fn f() {\n\tone();\n}\n";
    let edit = json!({"old_string": "    one();", "new_string": "    two();"});
    let call_with = |tool: &std::sync::Arc<dyn sinew_tool::Tool>, mut args: Value, loose: bool| {
        let world = MemoryWorld::new();
        world.file("a", content);
        args["file_path"] = json!("a");
        args["loose"] = json!(loose);
        let reply = call(&world, tool, args);
        (world.content("a").expect("the file"), text(&reply).lines().next().map(str::to_owned))
    };
    let several = json!({"edits": [edit, {"old_string": "two", "new_string": "three"}]});
    for (tool, args, expected, head) in [
        (
            NATIVE.tool(),
            edit.clone(),
            "fn f() {\n\ttwo();\n}\n",
            "edited a: 1 replacement (indentation differs)",
        ),
        (
            multi_edit::NATIVE.tool(),
            several,
            "fn f() {\n\tthree();\n}\n",
            "edited a: 2 edits, 2 replacements (indentation differs)",
        ),
    ] {
        let (after, said) = call_with(&tool, args.clone(), true);
        assert_eq!(String::from_utf8_lossy(&after), expected);
        assert_eq!(said.as_deref(), Some(head));
        let (after, _) = call_with(&tool, args, false);
        assert_eq!(String::from_utf8_lossy(&after), content);
    }
}

#[test]
fn texts_that_cannot_work_are_refused() {
    let world = MemoryWorld::new();
    world.file("a", "x");
    for (old, new, message) in [
        ("", "y", "argument `old_string` is empty\n\nto create a file, write the whole of it"),
        ("x", "x", "argument `new_string` is the same as old_string: nothing would change"),
    ] {
        let reply = edit(&world, old, new, false);
        assert_eq!(text(&reply), message);
        assert_eq!(reply.error.expect("an error").kind, Kind::InvalidArgs);
    }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn utf32(text: &str) -> Vec<u8> {
    text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect()
}

#[test]
fn other_encodings_are_edited_as_they_are() {
    let wide = |text: fn(&str) -> Vec<u8>, before: &str, (old, new): (&str, &str), after: &str| {
        check(text(before), old, new, text(after), ONE);
    };
    wide(
        utf16,
        "\u{feff}a\r\n\u{1f600}b\r\n",
        ("b", "\u{e9}\u{1f601}"),
        "\u{feff}a\r\n\u{1f600}\u{e9}\u{1f601}\r\n",
    );
    wide(utf32, "\u{feff}a\u{e9}\n", ("\u{e9}", "\u{1f600}"), "\u{feff}a\u{1f600}\n");
    wide(utf16, "one line\r\ntwo\r\n", ("two", "2"), "one line\r\n2\r\n");
    check(utf16("\u{feff}a\r\nb\r\n"), "a\nb", "c\nd", utf16("\u{feff}c\r\nd\r\n"), ENDINGS);
    let latin = b"Un caf\xE9 cr\xE8me, s'il vous pla\xEEt.\n";
    check(latin, "caf\u{e9} cr\u{e8}me", "th\u{e9}", b"Un th\xE9, s'il vous pla\xEEt.\n", ONE);
    // The second byte of this character is an ASCII letter's.
    let japanese = |text: &str| encoding_rs::SHIFT_JIS.encode(text).0.into_owned();
    let before = "これは日本語の文章です。ア\nA\n";
    check(japanese(before), "A", "表示", japanese("これは日本語の文章です。ア\n表示\n"), ONE);
    let reply = {
        let world = MemoryWorld::new();
        world.file("a", utf16("\u{feff}a\n"));
        edit(&world, "a", "b", false)
    };
    assert!(text(&reply).contains("\n[the file is in UTF-16LE]\n@@"), "{}", text(&reply));
}

#[test]
fn what_an_encoding_does_not_have_is_refused() {
    check_error(
        b"Un caf\xE9 cr\xE8me, s'il vous pla\xEEt.\n",
        "Un",
        "\u{3b1}\u{1f600}",
        Kind::InvalidArgs,
        "new_string has a character that windows-1252 does not have, the encoding of a: U+03B1 `α`\
         \n\nwrite it with the characters of that encoding, or have the file converted first",
    );
    // The character before the blank has two forms in its encoding, and is written in the other.
    let strange = |end: &[u8]| -> Vec<u8> {
        let text = encoding_rs::SHIFT_JIS.encode("これは日本語の文章です。").0;
        [&text, &b"\xED\x40 "[..], end].concat()
    };
    check(strange(b"one\n"), "one", "two", strange(b"two\n"), ONE);
    let refusal = "no encoding gives back the bytes of the file, so only whole ASCII text in it can be \
                   replaced by ASCII: a";
    check_error(strange(b"one\n"), "one", "\u{e9}", Kind::Binary, refusal);
    check_error(strange(b"one\n"), "@ one", "x", Kind::Binary, refusal);
}

#[test]
fn broken_text_and_binaries_are_refused() {
    check_error(
        b"\xFF\xFEa\0b",
        "a",
        "b",
        Kind::Binary,
        "the mark says UTF-16LE, but the bytes are not text in it and cannot be edited: a",
    );
    check_error(
        b"a\0b",
        "a",
        "b",
        Kind::Binary,
        "binary content cannot be edited: a\n\nwrite the whole file, or edit it with a program that knows \
             the format",
    );
}

#[test]
fn places_that_are_no_files_are_refused() {
    let world = MemoryWorld::new();
    world.directory("dir").link("link", "dir/file").file("dir/file", "x").file("fixed", "x");
    world.mode("fixed", 0o444);
    for (path, kind) in [
        ("dir", Kind::NotRegularFile),
        ("none", Kind::FileNotFound),
        ("/etc/passwd", Kind::PathDenied),
        ("fixed", Kind::PermissionDenied),
    ] {
        let args = json!({"file_path": path, "old_string": "x", "new_string": "y"});
        let reply = call(&world, &NATIVE.tool(), args);
        assert_eq!(reply.error.expect("an error").kind, kind, "{path}");
    }
    let args = json!({"file_path": "link", "old_string": "x", "new_string": "y"});
    let reply = call(&world, &NATIVE.tool(), args);
    assert_eq!(text(&reply).lines().next(), Some("edited dir/file: 1 replacement (exact)"));
    assert_eq!(world.content("dir/file").expect("the file"), b"y");
}

#[test]
fn replies_show_the_change() {
    let world = MemoryWorld::new();
    world.file("a", "1\n2\n3\n4\n5\n6\n7\n8\n");
    let reply = edit(&world, "4\n5", "four", false);
    let expected =
        "edited a: 1 replacement (exact)\n@@ -2,6 +2,5 @@\n 2\n 3\n-4\n-5\n+four\n 6\n 7\n";
    assert_eq!(text(&reply), expected);
    world.file("a", "x\n1\n2\n3\n4\n5\n6\n7\nx\n");
    let reply = edit(&world, "x", "y", true);
    let expected = "edited a: 2 replacements (exact)\n\
                    @@ -1,3 +1,3 @@\n-x\n+y\n 1\n 2\n@@ -7,3 +7,3 @@\n 6\n 7\n-x\n+y\n";
    assert_eq!(text(&reply), expected);
    world.file("a", "only");
    let expected = "edited a: 1 replacement (exact)\n@@ -1 +1 @@\n-only\n\
                    \\ No newline at end of file\n+changed\n\\ No newline at end of file\n";
    assert_eq!(text(&edit(&world, "only", "changed", false)), expected);
}

#[test]
fn long_diffs_are_bounded() {
    let world = MemoryWorld::new();
    world.file("a", "x\n1\n2\n3\n4\n5\n6\n".repeat(100));
    let reply = edit(&world, "x", "y", true);
    assert!(text(&reply).lines().count() < 30, "{}", text(&reply));
    assert!(text(&reply).contains("more changes]"));
}

#[test]
fn a_dry_run_and_a_preview_show_and_change_nothing() {
    let world = MemoryWorld::new();
    world.file("a", "one\ntwo\n");
    let tool = NATIVE.tool();
    let args = json!({"file_path": "a", "old_string": "two", "new_string": "2", "dry_run": true});
    let reply = call(&world, &tool, args);
    let expected = "would edit a: 1 replacement (exact)\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    assert_eq!(text(&reply), expected);
    let args = json!({"file_path": "a", "old_string": "two", "new_string": "2"});
    let diff = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    assert_eq!(world.preview(&tool, &args).expect("a preview"), Preview::Diff(diff.to_owned()));
    let args = json!({"file_path": "a", "old_string": "three", "new_string": "2"});
    assert_eq!(world.preview(&tool, &args).expect("a preview"), Preview::Nothing);
    assert_eq!(world.content("a").expect("the file"), b"one\ntwo\n");
}

#[test]
fn approved_edit_loads_file_once() {
    let args = json!({"file_path": "a", "old_string": "two", "new_string": "2"});
    let world = MemoryWorld::new();
    world.file("a", "one\ntwo\n");
    let reply = world.approved(&NATIVE.tool(), &args, |_| {}).expect("a reply");
    assert!(reply.ok && world.n_opened() == 1, "{reply:?}, {} opened", world.n_opened());
    assert_eq!(world.content("a").expect("the file"), b"one\n2\n");
    // The file that was previewed is the one that is changed.
    let world = MemoryWorld::new();
    world.file("a", "one\ntwo\n");
    let change = |world: &MemoryWorld| {
        world.file("a", "two\nmore\n");
    };
    let error = world.approved(&NATIVE.tool(), &args, change).expect_err("another file");
    assert_eq!(error.kind, Kind::Stale, "{error}");
    assert_eq!(world.content("a").expect("the file"), b"two\nmore\n");
}

fn multi_edit(world: &MemoryWorld, edits: &Value) -> Reply {
    call(world, &multi_edit::NATIVE.tool(), json!({"file_path": "a", "edits": edits}))
}

#[test]
fn several_edits_work_on_one_another() {
    let world = MemoryWorld::new();
    world.file("a", "alpha\r\nbeta\r\n");
    let edits = json!([
        {"old_string": "alpha", "new_string": "gamma"},
        {"old_string": "gamma\nbeta", "new_string": "one\ntwo"},
    ]);
    let reply = multi_edit(&world, &edits);
    assert_eq!(world.content("a").expect("the file"), b"one\r\ntwo\r\n");
    assert_eq!(
        text(&reply).lines().next(),
        Some("edited a: 2 edits, 2 replacements (line endings differ)")
    );
}

#[test]
fn several_edits_are_all_or_none() {
    let world = MemoryWorld::new();
    world.file("a", "alpha\nbeta\nbeta\n");
    for (second, kind, message) in [
        (
            json!({"old_string": "beta", "new_string": "x"}),
            Kind::NotUnique,
            "edit #2: edits[1].old_string occurs 2 times in a: lines 2, 3",
        ),
        (
            json!({"old_string": "alpha", "new_string": "x"}),
            Kind::NoMatch,
            "edit #2: edits[1].old_string was not found in a",
        ),
        (
            json!({"old_string": "", "new_string": "x"}),
            Kind::InvalidArgs,
            "argument `edits[1].old_string` is empty",
        ),
    ] {
        let edits = json!([{"old_string": "alpha", "new_string": "gone"}, second]);
        let error = multi_edit(&world, &edits).error.expect("an error");
        assert_eq!((error.kind, error.message.as_str()), (kind, message));
        assert_eq!(world.content("a").expect("the file"), b"alpha\nbeta\nbeta\n");
    }
}

#[test]
fn a_write_replaces_creates_and_shows() {
    let world = MemoryWorld::new();
    let tool = write::NATIVE.tool();
    let write = |path: &str, content: &str| {
        let reply = call(&world, &tool, json!({"file_path": path, "content": content}));
        text(&reply).to_owned()
    };
    assert_eq!(write("new/deep/file", "x\n"), "created new/deep/file: 2 bytes");
    assert_eq!(write("new/deep/file", ""), "wrote new/deep/file: 0 bytes");
    assert_eq!(world.content("new/deep/file").expect("the file"), b"");
    assert!(
        write("new/deep", "x")
            .starts_with("argument `file_path`: not a regular file but a directory: new/deep")
    );
    assert!(write("../x", "x").starts_with("path denied: ../x"));
    world.file("old", "1\n2\n").file("binary", b"\0").link("gone", "no/where");
    assert!(write("gone", "x").starts_with("argument `file_path`: no such file: gone"));
    let preview = |path: &str, content: &str| {
        let args = json!({"file_path": path, "content": content});
        world.preview(&tool, &args).expect("a preview")
    };
    let diff = |text: &str| Preview::Diff(text.to_owned());
    assert_eq!(preview("old", "1\n3\n"), diff("--- old\n+++ old\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n"));
    assert_eq!(preview("fresh", "a\n"), diff("--- /dev/null\n+++ fresh\n@@ -0,0 +1 @@\n+a\n"));
    assert_eq!(
        preview("binary", "a"),
        diff(
            "--- binary\n+++ binary\n[1 bytes of binary content go]\n@@ -0,0 +1 @@\n+a\n\\ No newline at end \
             of file\n"
        )
    );
}

/// The approver sees every line and every character of the new content.
#[test]
fn nothing_is_left_out_of_a_question() {
    let long = format!("x = 1{};evil()\n", " ".repeat(5_000));
    let many = "same\n".repeat(30_000) + "evil()\n";
    let large = "line of a large file\n".repeat(80_000) + "evil()\n";
    let world = MemoryWorld::new();
    world.file("small", "1\n").file("binary", b"\0\x01").file("large", large.as_bytes());
    let shown = |path: &str, content: &str| {
        let tool = write::NATIVE.tool();
        let args = json!({"file_path": path, "content": content});
        match world.preview(&tool, &args).expect("a preview") {
            Preview::Diff(diff) => diff,
            other => panic!("{other:?}"),
        }
    };
    for path in ["fresh", "small", "binary", "large"] {
        for content in [&long, &many, &large] {
            let diff = shown(path, content);
            // The diff adds every line of the new content, unless the content is unchanged.
            let n_shown = diff.lines().filter(|line| line.starts_with('+')).count() - 1;
            let n_lines = content.lines().count();
            let is_same = path == "large" && *content == large;
            assert!(is_same || n_shown == n_lines, "{path}: {n_shown} of {n_lines}");
            assert!(is_same || diff.contains("evil()"), "{path}");
        }
    }
}

/// Applies an edit plainly: the reference for the fast ways.
fn plain(text: &[u8], old: &str, new: &str, all: bool) -> Option<Vec<u8>> {
    let text = String::from_utf8(text.to_vec()).expect("text");
    match (text.matches(old).count(), all) {
        (0, _) => None,
        (1, _) | (_, true) => Some(text.replace(old, new).into_bytes()),
        _ => None,
    }
}

proptest! {
    /// In whatever encoding the bytes may be, ASCII between blanks becomes other ASCII.
    #[test]
    fn bytes_of_any_encoding_are_unchanged(
        before in proptest::collection::vec(1_u8..=255, 0..200),
        after in proptest::collection::vec(1_u8..=255, 0..200),
        new in "[a-z\r\n]{0,20}",
    ) {
        prop_assume!(!before.starts_with(b"\xFF\xFE") && !before.starts_with(b"\xFE\xFF"));
        let world = MemoryWorld::new();
        world.file("a", [&before[..], b" (needle) ", &after].concat());
        let reply = edit(&world, " (needle) ", &new, false);
        prop_assert!(reply.ok, "{}", text(&reply));
        let expected = [&before, new.as_bytes(), &after].concat();
        prop_assert_eq!(world.content("a").expect("the file"), expected);
    }

    /// Bytes that are not UTF-8 among more characters that are.
    #[test]
    fn bytes_outside_the_place_are_unchanged(
        before in proptest::collection::vec(1_u8..=255, 0..200),
        after in proptest::collection::vec(1_u8..=255, 0..200),
        new in "[a-z\r\n\u{e9}]{0,20}",
    ) {
        let mark = "\u{1F980}needle\u{1F980}";
        let before = [mark.replace("needle", "text").repeat(200).as_bytes(), &before].concat();
        let world = MemoryWorld::new();
        world.file("a", [&before[..], mark.as_bytes(), &after].concat());
        prop_assert!(edit(&world, mark, &new, false).ok);
        let expected = [&before[..], new.as_bytes(), &after].concat();
        prop_assert_eq!(world.content("a").expect("the file"), expected);
    }

    #[test]
    fn edits_at_once_are_edits_one_after_another(
        lines in proptest::collection::vec("[ab]{0,6}", 1..60),
        edits in proptest::collection::vec(("[ab\n]{1,5}", "[abc\n]{0,4}", any::<bool>()), 1..12),
    ) {
        // Large enough for the common pass, with a unique text per line to hold on to.
        let mut content = "#".repeat(70_000);
        for (at, line) in lines.iter().enumerate() {
            content.push_str(&format!("\n<{at}>{line}"));
        }
        let mut edits: Vec<(String, String, bool)> = edits;
        for (at, edit) in edits.iter_mut().enumerate() {
            if at % 3 != 0 {
                edit.0 = format!("<{}>{}", at % lines.len(), edit.0);
                edit.1 = format!("<{}>{}", (at + 1) % lines.len(), edit.1);
            }
        }
        let edits: Vec<_> = edits.into_iter().filter(|(old, new, _)| old != new).collect();
        let mut expected = Some(content.clone().into_bytes());
        let mut kept = Vec::new();
        for (old, new, all) in edits {
            let text = expected.clone().unwrap_or_default();
            if let Some(next) = plain(&text, &old, &new, all) {
                expected = Some(next);
                kept.push(json!({"old_string": old, "new_string": new, "replace_all": all}));
            }
        }
        if kept.is_empty() {
            return Ok(());
        }
        let world = MemoryWorld::new();
        world.file("a", &content);
        let reply = multi_edit(&world, &Value::Array(kept));
        prop_assert!(reply.ok, "{}", text(&reply));
        prop_assert_eq!(world.content("a"), expected);
    }

    #[test]
    fn what_is_shown_is_what_is_made(
        lines in prop::collection::vec("(a|b|@@ -1|--- x|\\\\ No|\r|\u{e9}| |\\[1){0,3}", 1..30),
        edits in prop::collection::vec(("[ab\u{e9}]{1,3}", "[ab\n\r@+-]{0,5}"), 1..6),
        ended in any::<bool>(),
    ) {
        let mut content = lines.join("\n");
        content.push_str(if ended { "\n" } else { "" });
        let edits: Vec<Value> = edits
            .iter()
            .filter(|(old, new)| old != new)
            .map(|(old, new)| json!({"old_string": old, "new_string": new, "replace_all": true}))
            .collect();
        if edits.is_empty() {
            return Ok(());
        }
        let mut at_once = vec![json!({"file_path": "a", "edits": edits})];
        at_once.extend(edits.first().map(|edit| {
            let mut edit = edit.clone();
            edit["file_path"] = json!("a");
            edit
        }));
        for (mut args, tool) in at_once.into_iter().zip([multi_edit::NATIVE.tool(), NATIVE.tool()]) {
            let world = MemoryWorld::new();
            world.file("a", &content);
            args["dry_run"] = json!(true);
            let shown = call(&world, &tool, args.clone());
            prop_assert_eq!(world.content("a"), Some(content.clone().into_bytes()));
            args["dry_run"] = json!(false);
            let made = call(&world, &tool, args);
            prop_assert_eq!(shown.ok, made.ok, "{} / {}", text(&shown), text(&made));
            let made = String::from_utf8(world.content("a").expect("the file")).expect("text");
            if shown.ok && made != content {
                prop_assert_eq!(patched(&content, text(&shown)), made, "{}", text(&shown));
            } else {
                prop_assert_eq!(&made, &content);
            }
        }
    }
}

/// Takes the line feed off the last line, unless the line without one was the old text's.
fn unended(new: &mut [String], mark: char) {
    if mark != '-' {
        new.last_mut().expect("a line").pop();
    }
}

/// Applies the hunks of a reply to a text, by their numbers and nothing else.
fn patched(old: &str, reply: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let mut new: Vec<String> = Vec::new();
    let mut at = 0;
    let mut left = (0, 0);
    let mut mark = ' ';
    for line in reply.split('\n') {
        if left == (0, 0) {
            if line.starts_with("\\ No newline") {
                unended(&mut new, mark);
            }
            let Some(head) = line.strip_prefix("@@ -") else { continue };
            let (before, after) =
                head.trim_end_matches(" @@").split_once(" +").expect("two ranges");
            let range = |text: &str| {
                let (line, n) = text.split_once(',').unwrap_or((text, "1"));
                (line.parse::<usize>().expect("a line"), n.parse::<usize>().expect("a number"))
            };
            let (first, n_old) = range(before);
            let start = if n_old == 0 { first } else { first - 1 };
            new.extend(old[at..start].iter().map(ToString::to_string));
            at = start;
            left = (n_old, range(after).1);
            continue;
        }
        if line.starts_with('\\') {
            unended(&mut new, mark);
            continue;
        }
        mark = line.chars().next().expect("a mark");
        match line.split_at(1) {
            (" ", same) => {
                new.push(format!("{same}\n"));
                at += 1;
                left = (left.0 - 1, left.1 - 1);
            }
            ("-", _) => {
                at += 1;
                left.0 -= 1;
            }
            ("+", added) => {
                new.push(format!("{added}\n"));
                left.1 -= 1;
            }
            other => panic!("no part of a hunk: {other:?}"),
        }
    }
    new.extend(old[at..].iter().map(ToString::to_string));
    new.concat()
}

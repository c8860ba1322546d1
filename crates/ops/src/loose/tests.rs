use proptest::prelude::*;

use super::*;
use crate::replace::{Needle, pieces};

/// Replaces a text once, in any form; returns how it was found and the new content.
fn replaced(content: &str, old: &str, new: &str) -> Result<(Stage, String), Miss> {
    let needle = Needle::new(old, new, true);
    let found = needle.find(content.as_bytes(), false)?;
    let range = found.ranges.first().cloned().expect("a place");
    let changes = needle.changes(content.as_bytes(), range, found.stage);
    let new = pieces(content.as_bytes(), &changes).concat();
    Ok((found.stage, String::from_utf8(new).expect("text")))
}

#[track_caller]
fn check(stage: Stage, content: &str, old: &str, new: &str, expected: &str) {
    let result = replaced(content, old, new);
    assert_eq!(result, Ok((stage, expected.to_owned())));
    // Without leave it is not found at all, and with all places asked for neither.
    for (loose, all) in [(false, false), (true, true)] {
        let strict = Needle::new(old, new, loose).find(content.as_bytes(), all);
        assert_eq!(strict, Err(Miss::Nowhere), "{loose} {all}");
    }
}

#[track_caller]
fn check_miss(content: &str, old: &str, new: &str, expected: Miss) {
    assert_eq!(replaced(content, old, new), Err(expected));
}

/// A text that almost fits everywhere was compared everywhere, for hours in a large file.
#[test]
fn content_that_repeats_itself_is_given_up() {
    let n = 1 << 14;
    let lines = "x\n".repeat(n * 8);
    let blanks = "x \n".repeat(n * 8);
    let signs = "\u{201c}xx".repeat(n * 8);
    let crlf = "x\r\n".repeat(n * 8);
    let after = format!("y\n{}", "x\n".repeat(n));
    for (content, old, loose) in [
        (&lines, after.clone(), true),
        (&blanks, after.clone(), true),
        (&signs, format!("{}\"y", "\"xx".repeat(n)), true),
        (&crlf, after, false),
    ] {
        let found = Needle::new(&old, "new", loose).find(content.as_bytes(), false);
        assert_eq!(found, Err(Miss::Costly));
        // Without leave nothing is said of it either, and in less time.
        let needle = Needle::new(&old, "new", false);
        assert_eq!(needle.hint_loose(content.as_bytes()), None);
    }
}

#[test]
fn blanks_at_line_ends_may_differ_and_stay() {
    let check = |content, old, new, expected| {
        check(Stage::TrailingBlanks, content, old, new, expected);
    };
    check("a  \nb\t\nc\n", "a\nb\n", "x\ny\n", "x\ny\nc\n");
    check("a  \nb\t\nc\n", "a\nb\n", "x\nb\n", "x\nb\t\nc\n");
    check("a  \nb\t\nc\n", "a\nb", "a\ny", "a  \ny\t\nc\n");
    check("a\nb\nc\n", "a  \nb", "a  \ny", "a\ny\nc\n");
    check("one\nend", "one\nend ", "one\nlast", "one\nlast");
    check("f(x) {  \n  y\n}\n", "(x) {\n  y", "(z) {\n  y", "f(z) {\n  y\n}\n");
    check("a \r\nb\r\nc\r\n", "a\nb\n", "a\nb\nmore\n", "a \r\nb\r\nmore\r\nc\r\n");
    check("a \n \nb\n", "a\n\nb", "a\n\nB", "a \n \nB\n");
    check("a\nb\n", "a  \nb", "a", "a\n");
}

#[test]
fn indentation_may_differ_and_is_kept() {
    let check = |content, old, new, expected| {
        check(Stage::Indentation, content, old, new, expected);
    };
    let code = "mod m {\n    fn f() {\n        one();\n    }\n}\n";
    check(
        code,
        "fn f() {\n    one();\n}",
        "fn f() {\n    if a {\n        two();\n    }\n}",
        "mod m {\n    fn f() {\n        if a {\n            two();\n        }\n    }\n}\n",
    );
    check(
        "fn f() {\n  one();\n}\n",
        "    fn f() {\n      one();\n    }\n",
        "    fn f() {\n      one();\n\n      two();\n    }\n",
        "fn f() {\n  one();\n\n  two();\n}\n",
    );
    // Tabs for blanks, and the other way.
    check(
        "fn f() {\n\tone();\n}\n",
        "fn f() {\n    one();\n}",
        "fn f() {\n    if a {\n        one();\n    }\n}",
        "fn f() {\n\tif a {\n\t\tone();\n\t}\n}\n",
    );
    check(
        "  if a:\n    b()\n",
        "\tif a:\n\t\tb()\n",
        "\tif a:\n\t\tfor c in d:\n\t\t\tb()\n",
        "  if a:\n    for c in d:\n      b()\n",
    );
    check("\tone();\n", "    one();", "    two();", "\ttwo();\n");
    check("\t  one();\n", "    one();", "    two();", "\t  two();\n");
    // Lines that stay keep the blanks at their ends, and every line its ending.
    check("  a  \r\n  b\r\n", "a\nb", "a\nc\nd", "  a  \r\n  c\r\n  d\r\n");
}

#[test]
fn indentation_that_cannot_be_said_is_refused() {
    // Not the same for all lines.
    check_miss("a\n  b\n    c\n", "a\n b\n   c", "x", Miss::Nowhere);
    check_miss("  a\n      b\n", "a\nb", "x\ny", Miss::Nowhere);
    // One line alone does not say how many blanks a tab is.
    check_miss("\ta();\n", "    a();", "    if b {\n        a();\n    }", Miss::Nowhere);
    // Tabs where the text has blanks.
    check_miss("  a();\n", "    a();", "    a();\n\tb();", Miss::Nowhere);
    check_miss("\ta\n    b\n", "    a\n\tb", "\tc", Miss::Nowhere);
    // Less than nothing.
    check_miss("a\n  b\n", "  a\n    b", "  a\n    c\nd", Miss::Nowhere);
}

#[test]
fn signs_may_differ_and_stay() {
    let check = |content, old, new, expected| {
        check(Stage::Punctuation, content, old, new, expected);
    };
    check("say(“hello”)\n", "say(\"hello\")", "say(\"bye\")", "say(“bye”)\n");
    check("it’s 1–2\n", "it's 1-2", "it's 1-3", "it’s 1–3\n");
    check("a\u{a0}b c\n", "a b c", "a b d", "a\u{a0}b d\n");
    check("“a” and “b”\n", "\"a\" and \"b\"", "\"a\" or \"b\" - 'c'", "“a” or “b” - 'c'\n");
    check("plain \"x\"\n", "plain “x”", "plain “y”", "plain \"y\"\n");
    check("“a”\r\n“b”\r\n", "\"a\"\n\"b\"\n", "\"a\"\n\"c\"\n\"d\"\n", "“a”\r\n“c”\r\n\"d\"\r\n");
    check("x “quoted” y\n", "\"quoted\"", "plain", "x plain y\n");
}

#[test]
fn several_places_are_too_many() {
    check_miss("a \nb\na\t\nb\n", "a\nb", "x", Miss::Often(2, vec![0, 5]));
    check_miss("  a\n  b\n    a\n    b\n", "a\nb", "x", Miss::Often(2, vec![0, 8]));
    check_miss("“a”\n‟a”\n", "\"a\"", "x", Miss::Often(2, vec![0, 8]));
    // An earlier stage decides.
    check(Stage::TrailingBlanks, "a \nb\n  a\n  b\n", "a\nb\n", "c\n", "c\n  a\n  b\n");
}

#[test]
fn blanks_and_signs_alone_are_nowhere() {
    for old in [" \n \n", "\t", "\"-\"", "  "] {
        check_miss("“–”\n\n \u{a0}\n", old, "x", Miss::Nowhere);
    }
    check_miss("barbell\n", "bar ", "x", Miss::Nowhere);
    check_miss("a \nbarbell\n", "a\nbar  ", "x", Miss::Nowhere);
}

#[test]
fn bytes_that_are_no_text_are_passed_over() {
    let content = b"\xFF\xE2\x80x \n\xE2 y\n";
    for old in ["x\n y", "\"x\"", "‘x", "x\u{a0}\n"] {
        let _ = find(content, old, "new", &Budget::of(content));
    }
    let content = b"\xE9 x  \ny \xFF\n";
    let needle = Needle::new("x\ny", "x\nz", true);
    let found = needle.find(content, false).expect("a place");
    let changes = needle.changes(content, found.ranges[0].clone(), found.stage);
    assert_eq!(pieces(content, &changes).concat(), b"\xE9 x  \nz \xFF\n");
}

proptest! {
    /// Whatever is found, the bytes before and after the place stay, and a text that becomes itself
    /// changes nothing.
    #[test]
    fn nothing_else_changes(
        content in "[ab“\" \t\r\n–-]{0,40}",
        old in "[ab\" \t\n-]{1,8}",
        new in "[ab\" \t\n-]{0,8}",
    ) {
        if let Ok(found) = find(content.as_bytes(), &old, &new, &Budget::of(content.as_bytes())) {
            let range = found.ranges[0].clone();
            let changes = changes(content.as_bytes(), range.clone(), found.stage, &old, &new);
            let mut at = range.start;
            for change in changes.expect("what was found can be said") {
                prop_assert!(at <= change.range.start && change.range.end <= range.end);
                at = change.range.end;
            }
            let same = super::changes(content.as_bytes(), range, found.stage, &old, &old);
            prop_assert_eq!(same, Some(Vec::new()));
        }
    }
}

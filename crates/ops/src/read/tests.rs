use std::time::Duration;

use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, ROOT, call};
use sinew_tool::{BinaryPolicy, Block, FileSettings, Kind, Reply};

use super::*;

fn text(reply: &Reply) -> &str {
    match reply.content.first() {
        Some(Block::Text { text }) => text,
        other => panic!("no text but {other:?}"),
    }
}

fn read(world: &MemoryWorld, args: Value) -> Reply {
    call(world, &NATIVE.tool(), args)
}

/// Reads a file with this content and compares the whole text.
#[track_caller]
fn check(content: impl AsRef<[u8]>, args: Value, expected: &str) {
    let world = MemoryWorld::new();
    world.file("a.txt", content);
    let mut wire = json!({"file_path": "a.txt"});
    for (name, value) in args.as_object().expect("an object") {
        wire[name] = value.clone();
    }
    assert_eq!(text(&read(&world, wire)), expected);
}

#[track_caller]
fn check_error(world: &MemoryWorld, path: &str, kind: Kind, message: &str) {
    let reply = read(world, json!({"file_path": path}));
    assert!(!reply.ok);
    let error = reply.error.expect("an error");
    assert_eq!((error.kind, error.message.as_str()), (kind, message));
}

#[test]
fn lines_are_numbered_and_endings_hidden() {
    check("one\ntwo\n", json!({}), "     1→one\n     2→two\n");
    check("one\ntwo", json!({}), "     1→one\n     2→two\n");
    check("one\r\ntwo\r\n", json!({}), "     1→one\n     2→two\n");
    check("a\n\n\nb\n", json!({}), "     1→a\n     2→\n     3→\n     4→b\n");
    check("\u{FEFF}one\n", json!({}), "     1→one\n");
    check(b"caf\xE9\n", json!({}), "     1→caf\u{E9}\n");
    check(b"\xC3\xA9 \xE9\n", json!({}), "     1→\u{E9} \u{FFFD}\n");
    check("a\rb\n", json!({}), "     1→a\rb\n");
    check("  x \t\n", json!({}), "     1→  x \t\n");
}

#[test]
fn windows_name_the_next_offset() {
    check(
        "a\nb\nc\nd\n",
        json!({"offset": 2, "limit": 2}),
        "     2→b\n     3→c\n[lines 2-3 of 4; go on with offset 4]",
    );
    check("a\nb\nc\n", json!({"offset": 3}), "     3→c\n");
    check("a\nb\n", json!({"limit": 2}), "     1→a\n     2→b\n");
    check("", json!({}), "[the file is empty]");
    check("a\nb\n", json!({"offset": 3}), "[the file has 2 lines; offset 3 is past its end]");
    check("a\nb", json!({"offset": 9}), "[the file has 2 lines; offset 9 is past its end]");
    check("\n", json!({}), "     1→\n");
}

#[test]
fn meta_tells_where_to_go_on() {
    let world = MemoryWorld::new();
    world.file("a.txt", "a\nb\nc\n");
    let reply = read(&world, json!({"file_path": "a.txt", "limit": 1}));
    assert!(reply.meta.truncated && reply.bounded);
    assert_eq!(json!(reply.meta.more), json!({"next_offset": 2, "total_lines": 3}));
    let reply = read(&world, json!({"file_path": format!("{ROOT}/a.txt")}));
    assert!(!reply.meta.truncated);
    assert_eq!(json!(reply.meta.more), json!({"total_lines": 3}));
}

#[test]
fn long_lines_are_cut_and_counted() {
    let long = "é".repeat(2_500);
    let shown = "é".repeat(2_000);
    check(
        format!("{long}\nb\n"),
        json!({}),
        &format!("     1→{shown}… [500 more characters]\n     2→b\n"),
    );
    check(format!("{shown}\r\n"), json!({}), &format!("     1→{shown}\n"));
    let huge = "x".repeat(3 << 20);
    let shown = "x".repeat(2_000);
    check(
        format!("{huge}\r\nb\n"),
        json!({}),
        &format!("     1→{shown}… [{} more characters]\n     2→b\n", huge.len() - 2_000),
    );
}

#[test]
fn replies_are_bounded_by_whole_lines() {
    let line = "y".repeat(999);
    let world = MemoryWorld::with_settings(FileSettings {
        read_reply_bytes: 5_000,
        ..FileSettings::default()
    });
    world.file("a.txt", format!("{line}\n").repeat(10));
    let reply = read(&world, json!({"file_path": "a.txt"}));
    assert_eq!(reply.meta.more.get("next_offset"), Some(&json!(5)));
    assert_eq!(text(&reply).lines().count(), 5);
}

#[test]
fn what_is_no_text_is_refused_by_content() {
    let world = MemoryWorld::new();
    world
        .file("nul.rs", b"fn main\0() {}")
        .file("late.txt", [b"a\n".repeat(10_000), b"\0".to_vec()].concat())
        .file("utf16.txt", b"\xFF\xFEa")
        .file("utf32.txt", b"\xFF\xFE\0\0a\0\0")
        .file("text.exe", "text")
        .directory("dir")
        .special("fifo")
        .link("dangling", "nowhere")
        .link("linked", "text.exe")
        .link("out", "/etc/passwd")
        .file("secret", "x")
        .mode("secret", 0o000);
    check_error(&world, "nul.rs", Kind::Binary, "binary content of 13 bytes: nul.rs");
    check_error(
        &world,
        "utf16.txt",
        Kind::Binary,
        "3 bytes marked as UTF-16LE that cannot be shown as text: utf16.txt",
    );
    check_error(
        &world,
        "utf32.txt",
        Kind::Binary,
        "7 bytes marked as UTF-32LE that cannot be shown as text: utf32.txt",
    );
    check_error(
        &world,
        "dir",
        Kind::NotRegularFile,
        "argument `file_path`: not a regular file but a directory: dir",
    );
    check_error(
        &world,
        "fifo",
        Kind::NotRegularFile,
        "argument `file_path`: not a regular file but a FIFO, socket or device: fifo",
    );
    check_error(&world, "none", Kind::FileNotFound, "argument `file_path`: no such file: none");
    check_error(&world, "no/ne", Kind::FileNotFound, "argument `file_path`: no such file: no/ne");
    check_error(
        &world,
        "dangling",
        Kind::FileNotFound,
        "argument `file_path`: no such file: dangling",
    );
    check_error(
        &world,
        "secret",
        Kind::PermissionDenied,
        "argument `file_path`: the system denies access: secret",
    );
    check_error(&world, "out", Kind::PathDenied, "path denied: out");
    check_error(&world, "../x", Kind::PathDenied, "path denied: ../x");
    assert_eq!(text(&read(&world, json!({"file_path": "linked"}))), "     1→text\n");
    // A NUL beyond the first 8 KiB counts only where it would be shown.
    assert!(read(&world, json!({"file_path": "late.txt"})).ok);
    let reply = read(&world, json!({"file_path": "late.txt", "offset": 10_000}));
    assert_eq!(reply.error.expect("an error").kind, Kind::Binary);
}

#[test]
fn other_encodings_are_shown_as_text() {
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_be_bytes).collect() };
    for (content, offset, expected) in [
        (utf16("\u{feff}one\r\ntw\u{f6}\r\n"), 1, "     1→one\n     2→tw\u{f6}\n"),
        (utf16("\u{feff}one\r\ntw\u{f6}\r\n"), 2, "     2→tw\u{f6}\n"),
        (utf16("\u{feff}one\r\n"), 9, "[the file has 1 line; offset 9 is past its end]"),
        (utf16("\u{feff}"), 1, "[the file is empty]"),
        (utf16("[Version]\n"), 1, "     1→[Version]\n"),
        (b"one\nUn caf\xE9 cr\xE8me\n".to_vec(), 2, "     2→Un caf\u{e9} cr\u{e8}me\n"),
        // UTF-8 but for a byte.
        (
            "caf\u{e9}\n".bytes().chain(*b"\xE9\n").collect(),
            1,
            "     1→caf\u{e9}\n     2→\u{fffd}\n",
        ),
    ] {
        let world = MemoryWorld::new();
        world.file("a", content);
        let reply = read(&world, json!({"file_path": "a", "offset": offset}));
        assert_eq!(text(&reply), expected);
    }
}

#[test]
fn base64_is_given_where_settings_ask() {
    let world = MemoryWorld::with_settings(FileSettings {
        binary_policy: BinaryPolicy::Base64,
        ..FileSettings::default()
    });
    world.file("a", b"\0\x01\x02\xFF").file("b", b"\0ab");
    assert_eq!(text(&read(&world, json!({"file_path": "a"}))), "AAEC/w==");
    assert_eq!(text(&read(&world, json!({"file_path": "b"}))), "AGFi");
}

#[test]
fn a_maximum_refuses_larger_files_and_counts_smaller_ones() {
    let world = MemoryWorld::with_settings(FileSettings {
        max_read_bytes: Some(3 << 20),
        ..FileSettings::default()
    });
    world.file("large", vec![b'a'; (3 << 20) + 1]).file("small", "ab\n".repeat(1 << 20));
    check_error(
        &world,
        "large",
        Kind::TooLarge,
        "the file has 3145729 bytes, more than 3145728: large",
    );
    let reply = read(&world, json!({"file_path": "small", "offset": 1_000_000, "limit": 3}));
    assert_eq!(
        text(&reply),
        "1000000→ab\n1000001→ab\n1000002→ab\n\
         [lines 1000000-1000002 of 1048576; go on with offset 1000003]"
    );
    let reply = read(&world, json!({"file_path": "small", "limit": 1}));
    assert_eq!(reply.meta.more.get("total_lines"), Some(&json!(1_048_576)));
}

#[test]
fn arguments_are_checked() {
    let world = MemoryWorld::new();
    world.file("a", "x");
    for (args, kind, message) in [
        (json!({}), Kind::InvalidArgs, "argument `file_path` is missing"),
        (
            json!({"file_path": "a", "offset": 0}),
            Kind::InvalidArgs,
            "argument `offset` must be at least 1, not 0",
        ),
        (json!({"file_path": ""}), Kind::InvalidArgs, "argument `file_path` is empty; name a path"),
    ] {
        let error = read(&world, args).error.expect("an error");
        assert_eq!((error.kind, error.message.as_str()), (kind, message));
    }
}

/// Pages had been refused for every file.
#[test]
fn pages_count_for_a_pdf_only() {
    let world = MemoryWorld::new();
    world.file("a", "x\n").file("a.pdf", "y\n").file("b", "%PDF-1.7\n");
    for path in ["a", "a.pdf"] {
        let with = read(&world, json!({"file_path": path, "pages": "1-5"}));
        assert_eq!(with, read(&world, json!({"file_path": path})), "{path}");
        assert!(with.ok, "{path}");
    }
    let error = read(&world, json!({"file_path": "b", "pages": "1-5"})).error.expect("an error");
    let message = "a PDF document cannot be shown: this build has no support for it";
    assert_eq!((error.kind, error.message.as_str()), (Kind::Unavailable, message));
}

/// Every window of a file that is larger than one read is the same as a naive slice.
#[test]
fn far_windows_agree_with_a_naive_slice() {
    let mut content = String::new();
    for n in 0..400_000_u32 {
        content.push_str(&format!("line {n} {}", "x".repeat((n % 37) as usize)));
        content.push_str(if n % 5 == 0 { "\r\n" } else { "\n" });
    }
    let lines: Vec<&str> = content.lines().collect();
    let world = MemoryWorld::new();
    world.file("log", &content);
    let n_lines = lines.len();
    for offset in [1, 2, 1_999, 50_000, 399_999, 400_000, 123_456, 7, 399_998, 250_000] {
        let limit = 3;
        let args = json!({"file_path": "log", "offset": offset, "limit": limit});
        let reply = read(&world, args);
        let shown: Vec<String> = lines[offset - 1..(offset - 1 + limit).min(n_lines)]
            .iter()
            .zip(offset..)
            .map(|(line, number)| format!("{number:>6}→{line}\n"))
            .collect();
        assert!(text(&reply).starts_with(&shown.concat()), "offset {offset}: {}", text(&reply));
    }
    for offset in [400_001, 900_000, 400_001] {
        let reply = read(&world, json!({"file_path": "log", "offset": offset}));
        let expected = format!("[the file has 400000 lines; offset {offset} is past its end]");
        assert_eq!(text(&reply), expected);
    }
}

#[test]
fn marks_of_a_changed_file_are_not_used() {
    let world = MemoryWorld::new();
    world.file("log", "a\n".repeat(2 << 20));
    let far = json!({"file_path": "log", "offset": 2_000_000, "limit": 1});
    assert!(text(&read(&world, far.clone())).starts_with("2000000→a\n"));
    world.file("log", "bcd\n".repeat(2 << 20));
    assert!(text(&read(&world, far)).starts_with("2000000→bcd\n"));
}

#[test]
fn a_read_ends_when_nobody_waits() {
    let mut world = MemoryWorld::new();
    world.file("log", "a\n".repeat(4 << 20));
    let far = json!({"file_path": "log", "offset": 4_000_000});
    world.deadline = Some(world.now() + Duration::from_millis(3));
    world.tick(Duration::from_millis(1));
    assert_eq!(read(&world, far.clone()).error.expect("an error").kind, Kind::Timeout);
    world.cancel.cancel();
    assert_eq!(read(&world, far).error.expect("an error").kind, Kind::Cancelled);
}

/// A row with arguments that no native one has.
const OTHER: Row<Read> = Row {
    params: &[
        Param::required("path", "path", ParamKind::String, ""),
        Param::optional("head", "head", ParamKind::Integer { min: 0, cap: None }, ""),
        Param::optional("tail", "tail", ParamKind::Integer { min: 0, cap: None }, ""),
        Param::optional("from", "offset", ParamKind::Integer { min: 1, cap: None }, ""),
        Param::optional("to", "last", ParamKind::Integer { min: 1, cap: None }, ""),
    ],
    presets: &[("limit", Preset::Int(i64::MAX)), ("counts_lines", Preset::Bool(true))],
    shape: |_, out, _| match out {
        ReadOut::Text(text) => {
            let mut reply = Reply::text(text.plain());
            reply.meta.more.insert("ends_line", text.ends_line);
            reply
        }
        other => Reply::text(format!("{other:?}")),
    },
    ..NATIVE
};

/// Returns what a row without numbers shows of a file.
fn plain(content: &str, mut args: Value) -> Reply {
    let world = MemoryWorld::new();
    world.file("a.txt", content);
    args["path"] = json!("a.txt");
    call(&world, &OTHER.tool(), args)
}

#[test]
fn the_last_lines_are_those_of_a_naive_split() {
    let long = "0123456789\n".repeat(10_000);
    let one = "x".repeat(200_000);
    for content in ["", "\n", "a", "a\nb", "a\nb\n", "a\r\nb\r\n", "\n\n\n", &long, &one] {
        for n in [1, 2, 3, 7, 9_000, 30_000] {
            let lines: Vec<&str> = content.split('\n').collect();
            let expected = lines[lines.len().saturating_sub(n)..].join("\n");
            let shown = plain(content, json!({ "tail": n }));
            assert_eq!(text(&shown), expected, "{n} of {} bytes", content.len());
        }
        assert_eq!(text(&plain(content, json!({ "tail": 0, "head": 0 }))), content);
    }
}

#[test]
fn a_range_ends_at_its_last_line() {
    for (args, expected) in [
        (json!({}), "a\nb\nc\n"),
        (json!({ "head": 2 }), "a\nb\n"),
        (json!({ "from": 2, "to": 2 }), "b\n"),
        (json!({ "from": 2, "to": 9 }), "b\nc\n"),
        (json!({ "from": 3, "to": 2 }), ""),
        (json!({ "from": 9 }), ""),
    ] {
        let reply = plain("a\nb\nc\n", args.clone());
        assert_eq!(text(&reply), expected, "{args}");
        assert_eq!(reply.meta.more.get("ends_line"), Some(&json!(true)), "{args}");
    }
    let open = plain("a\nb", json!({ "to": 1 }));
    assert_eq!(open.meta.more.get("ends_line"), Some(&json!(false)));
    let both = plain("a\nb", json!({ "head": 1, "tail": 1 }));
    assert_eq!(both.error.map(|error| error.kind), Some(Kind::InvalidArgs));
}

#[test]
fn media_come_undecoded_where_they_are_asked_for() {
    let world = MemoryWorld::new();
    world.file("a.png", "x").file("b.svg", "<svg/>").file("c.txt", "text");
    let base64 = |content: &str| BASE64_STANDARD.encode(content);
    for (media, path, expected) in [
        ("known", "a.png", format!("image/png {}", base64("x"))),
        ("known", "b.svg", format!("image/svg+xml {}", base64("<svg/>"))),
        ("known", "c.txt", String::from("text")),
        ("plain", "b.svg", String::from("<svg/>")),
        ("every", "c.txt", format!("- {}", base64("text"))),
    ] {
        let presets: &'static [(&'static str, Preset)] = match media {
            "known" => &[("media", Preset::Str("known"))],
            "plain" => &[("media", Preset::Str("plain"))],
            _ => &[("media", Preset::Str("every"))],
        };
        let row = Row {
            presets,
            shape: |_, out, _| match out {
                ReadOut::Media { mime, base64, .. } => {
                    Reply::text(format!("{} {base64}", mime.unwrap_or("-")))
                }
                ReadOut::Text(text) => Reply::text(text.plain()),
                other => Reply::text(format!("{other:?}")),
            },
            ..OTHER
        };
        let reply = call(&world, &row.tool(), json!({ "path": path }));
        assert_eq!(text(&reply), expected, "{media} {path}");
    }
}

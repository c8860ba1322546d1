use std::io::Write;

use proptest::prelude::*;
use sinew_testkit::MemoryWorld;
use sinew_tool::Context;

use super::*;
use crate::pattern::{RegexKey, regex};
use crate::search::{Engine, WHOLE};

fn plan(cx: &Context, mode: OutputMode, pattern: &str, max_rows: u64) -> SearchPlan {
    let key = RegexKey { pattern: pattern.to_owned(), ignore_case: false, multiline: false };
    let matcher = regex(cx, key).expect("a pattern");
    SearchPlan { matcher, mode, multiline: false, before: 0, after: 0, max_rows, named: true }
}

fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(content).expect("a file with content");
    file
}

/// Searches a content in chunks of a size, which is more than that of a byte order mark.
fn searched(cx: &Context, plan: &SearchPlan, content: &[u8], n_chunk_bytes: usize) -> Searched {
    let (file, watch) = (file(content), Watch::new(cx));
    let search =
        ChunkSearch { n_chunk_bytes, n_threads: 3, ..ChunkSearch::new(plan, &file, &watch) };
    search.run()
}

/// Searches it as any other file. There a NUL ends the search before the bytes that were read with it, so lines are
/// searched up to that of the NUL here.
fn searched_at_once(cx: &Context, plan: &SearchPlan, content: &[u8]) -> Searched {
    let shows_lines = plan.mode == OutputMode::Content;
    let nul = memchr(0, content).filter(|_| shows_lines);
    let head = nul.map_or(content, |at| &content[..at]);
    let head = nul.map_or(head, |_| &head[..memrchr(b'\n', head).map_or(0, |end| end + 1)]);
    let file = file(head);
    std::io::Seek::rewind(&mut &file).expect("a file");
    let watch = Watch::new(cx);
    match Engine::new(plan.clone(), &watch).search(file) {
        Searched::Done(found) if nul.is_some() && found.count == 0 => Searched::Binary,
        Searched::Done(found) => {
            let binary = nul.is_some() && found.count < plan.max_rows;
            Searched::Done(Matches { binary, ..found })
        }
        other => other,
    }
}

const MODES: [OutputMode; 3] =
    [OutputMode::Content, OutputMode::Count, OutputMode::FilesWithMatches];

#[track_caller]
fn check(content: &[u8], pattern: &str, max_rows: u64, n_chunk_bytes: usize) {
    let cx = MemoryWorld::new().context(Vec::new(), false).expect("a context");
    for mode in MODES {
        let plan = plan(&cx, mode, pattern, max_rows);
        let whole = searched_at_once(&cx, &plan, content);
        let parts = searched(&cx, &plan, content, n_chunk_bytes);
        assert_eq!(parts, whole, "{mode:?} {pattern} {:?}", String::from_utf8_lossy(content));
    }
}

#[test]
fn chunks_are_searched_like_the_whole_file() {
    let numbered: String = (0..500).map(|n| format!("line {n}\n")).collect();
    for n_chunk_bytes in [4, 5, 7, 64, 1_000, 100_000] {
        for (content, pattern) in [
            ("", "a"),
            ("\n", "^$"),
            ("a", "a"),
            ("a\n", "a$"),
            ("b\na", "a"),
            ("\u{FEFF}a\nb\n", "^a"),
            ("a\n\u{FEFF}a\n", "^a"),
            ("x\r\na\r\n", "a$"),
            ("a\nb\0a\nc a\n", "a"),
            ("b\n\0", "a"),
            ("a\n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a\0\0\0\0\0\0\0\0\0\0a\n", "a"),
            (numbered.as_str(), "[13]7$"),
        ] {
            check(content.as_bytes(), pattern, 5, n_chunk_bytes);
            check(content.as_bytes(), pattern, 10_000, n_chunk_bytes);
        }
    }
}

#[test]
fn lines_longer_than_chunks_are_searched_once() {
    let long = format!("{0}needle{0}\nnext\n{0}", "y".repeat(200_000));
    for pattern in ["needle", "^next$", "y$", "absent"] {
        check(long.as_bytes(), pattern, 10, 4_096);
        check(long.as_bytes(), pattern, 10, 200_006);
    }
}

#[test]
fn lines_before_a_too_long_one_are_found() {
    let cx = MemoryWorld::new().context(Vec::new(), false).expect("a context");
    let long = "y".repeat(MAX_LINE + (1 << 20));
    let search = |mode, max_rows, content: &str| {
        searched(&cx, &plan(&cx, mode, "needle", max_rows), content.as_bytes(), CHUNK)
    };
    let found = |searched| match searched {
        Searched::Done(Matches { count, binary, .. }) => (count, binary),
        other => panic!("not searched: {other:?}"),
    };
    let after = format!("needle\n{long}\nneedle\n");
    assert_eq!(found(search(OutputMode::FilesWithMatches, 10, &after)), (1, false));
    assert_eq!(found(search(OutputMode::Content, 1, &after)), (1, false));
    // All lines are needed for these.
    assert_eq!(search(OutputMode::Content, 10, &after), Searched::TooLarge);
    assert_eq!(search(OutputMode::Count, 10, &after), Searched::TooLarge);
    // A NUL ends the search before the line is read to its end.
    assert_eq!(found(search(OutputMode::Content, 10, &format!("needle\n\0{long}\n"))), (1, true));
    assert_eq!(found(search(OutputMode::Content, 10, &format!("needle\ny\0{long}\n"))), (1, true));
}

#[test]
fn large_files_with_context_or_utf16_are_searched_whole() {
    let cx = MemoryWorld::new().context(Vec::new(), false).expect("a context");
    let lines = "some line of a log\n".repeat((WHOLE.end() / 19) as usize + 1);
    let plain = format!("{lines}above\nneedle\nbelow\n");
    let utf16: Vec<u8> = "\u{FEFF}above\nneedle\n"
        .encode_utf16()
        .chain(" ".repeat(40 << 20).encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    for (content, context, n_hits) in
        [(plain.as_bytes(), 0, 1), (plain.as_bytes(), 1, 3), (&utf16, 0, 1)]
    {
        let plan = plan(&cx, OutputMode::Content, "needle", 10);
        let plan = SearchPlan { before: context, after: context, ..plan };
        let file = file(content);
        std::io::Seek::rewind(&mut &file).expect("a file");
        let watch = Watch::new(&cx);
        let found = Engine::new(plan, &watch).search_named(file, content.len() as u64);
        let Searched::Done(found) = found else { panic!("not searched: {found:?}") };
        assert_eq!((found.count, found.hits.len()), (1, n_hits));
        assert!(found.hits.iter().any(|hit| hit.text == "needle"), "{:?}", found.hits);
    }
}

#[test]
fn content_ends_at_its_most_bytes() {
    let line = format!("needle {}\n", "z".repeat(400));
    let lines = line.repeat(MAX_BYTES / 400 + 2_000);
    check(lines.as_bytes(), "needle", 1_000_000, 100_000);
}

#[test]
fn what_is_cancelled_stops() {
    let cx = MemoryWorld::new().context(Vec::new(), false).expect("a context");
    let plan = plan(&cx, OutputMode::Content, "needle", 10);
    cx.cancel.cancel();
    assert_eq!(searched(&cx, &plan, b"needle\n", 4), Searched::Stopped);
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => Just("needle"), 6 => Just("\n"), 4 => Just("x\n"), 2 => Just("need"), 2 => Just("le\r\n"),
        1 => Just("yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"), 1 => Just("\u{FEFF}"), 1 => Just("\0"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_chunks_are_searched_like_the_whole_file(
        content in content(),
        pattern in prop_oneof![Just("needle"), Just("^le$"), Just("e$"), Just("^"), Just("x|\\r")],
        max_rows in 1..12_u64,
        n_chunk_bytes in 4..80_usize,
    ) {
        check(&content, pattern, max_rows, n_chunk_bytes);
    }
}

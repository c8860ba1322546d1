//! The command at the edges of what a machine gives: few descriptors, deep and wide trees, files
//! without end, patterns that explode, ignore files that are none.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::{Value, json};
use sinew::dialects::NATIVE;
use sinew::{CallOptions, Kind, Request, Runtime};

use crate::differential::tree::Tree;
use crate::served::{Place, Served};

/// How many descriptors the command may have.
const MAX_FILES: u64 = 256;

/// How long a call may take, on a machine that does other things too: a search gives up after 20 s.
const SOON: Duration = Duration::from_secs(30);

/// The most memory for any file of any size, in MiB.
const MAX_MIB: u64 = 128;

impl Place {
    fn serve(&self) -> Served {
        Served::start(&self.home, &[&self.root], &[], MAX_FILES)
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// How a call has to end: done, with this text, or refused as one of these kinds.
enum End<'a> {
    Shows(&'a str),
    Refused(&'a [&'a str]),
    /// Done or refused as one of these kinds.
    Either(&'a [&'a str]),
}

/// Makes a call and checks how it ends, and when.
#[track_caller]
fn check(served: &mut Served, tool: &str, arguments: &Value, end: &End<'_>) -> Value {
    let began = Instant::now();
    let result = served.call(tool, arguments);
    let told: String = format!("{tool} {arguments}").chars().take(160).collect();
    let shown: String = result.to_string().chars().take(600).collect();
    assert!(began.elapsed() < SOON, "{told}: {:?}", began.elapsed());
    let kind = result["error"]["kind"].as_str();
    let right = match end {
        End::Shows(part) => result["ok"] == true && text(&result).contains(part),
        End::Refused(kinds) => kind.is_some_and(|kind| kinds.contains(&kind)),
        End::Either(kinds) => kind.is_none_or(|kind| kinds.contains(&kind)),
    };
    assert!(right, "{told}: {shown}");
    result
}

#[test]
fn every_tool_works_on_a_large_tree_with_few_descriptors() {
    let tree = Tree::open();
    let place = Place::new();
    place.write("a.txt", b"one\ntwo\n");
    let mut served = Served::start(&place.home, &[&place.root, &tree.root], &[], MAX_FILES);
    let path = tree.root.to_str().unwrap();
    for (tool, arguments, shows) in [
        ("Glob", json!({ "pattern": "**/*.rs", "path": path }), "[100 of "),
        ("Grep", json!({ "pattern": "fn", "path": path }), ".rs"),
        ("Grep", json!({ "pattern": "needle", "path": path, "output_mode": "count" }), "many.txt"),
        ("Grep", json!({ "pattern": "nowhere at all [0-9]{9}", "path": path }), "no matches"),
        ("List", json!({ "path": path, "recursive": true }), "plain/"),
        ("List", json!({ "path": path }), "plain/"),
        ("Read", json!({ "path": "a.txt" }), "two"),
        ("Write", json!({ "path": "new/b.txt", "content": "x" }), "new/b.txt"),
        ("Edit", json!({ "path": "a.txt", "old_string": "two", "new_string": "2" }), "+2"),
        (
            "MultiEdit",
            json!({ "path": "a.txt", "edits": [{ "old_string": "one", "new_string": "1" }] }),
            "+1",
        ),
    ] {
        let result = check(&mut served, tool, &arguments, &End::Shows(shows));
        let skipped = &result["meta"]["skipped"];
        assert_eq!(skipped["unreadable"], Value::Null, "{tool}: {skipped}");
        assert_eq!(skipped["out_of_time"], Value::Null, "{tool}: {skipped}");
    }
    println!("at most {} MiB", served.peak_mib());
}

#[test]
fn ignore_files_that_are_pipes_stop_nothing() {
    let place = Place::new();
    for dir in [".", "sub", "sub/repo"] {
        place.write(&format!("{dir}/a.rs"), b"needle\n");
        for name in [".gitignore", ".ignore", ".rgignore"] {
            let pipe = place.root.join(dir).join(name);
            mknodat(CWD, pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        }
    }
    fs::create_dir_all(place.root.join("sub/repo/.git/info")).unwrap();
    let exclude = place.root.join("sub/repo/.git/info/exclude");
    mknodat(CWD, exclude, FileType::Fifo, Mode::RWXU, 0).unwrap();
    mknodat(CWD, place.root.join("b.rs"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let mut served = place.serve();
    for (tool, arguments, lines) in [
        ("Glob", json!({ "pattern": "**" }), 3),
        ("Grep", json!({ "pattern": "needle" }), 3),
        ("Grep", json!({ "pattern": "needle", "path": "sub/repo" }), 1),
        ("List", json!({ "recursive": true }), 15),
    ] {
        let result = check(&mut served, tool, &arguments, &End::Shows(""));
        let shown = text(&result).lines().filter(|line| !line.starts_with('[')).count();
        assert_eq!(shown, lines, "{tool} {arguments}: {}", text(&result));
    }
    for (tool, arguments) in [
        ("Read", json!({ "path": ".gitignore" })),
        ("Grep", json!({ "pattern": "x", "path": "b.rs" })),
        ("Edit", json!({ "path": "b.rs", "old_string": "a", "new_string": "b" })),
        ("Write", json!({ "path": "b.rs", "content": "a" })),
        ("List", json!({ "path": "b.rs" })),
    ] {
        check(&mut served, tool, &arguments, &End::Refused(&["not_regular_file"]));
    }
}

/// How deep the deep tree is, and where in it files lie.
const DEPTH: usize = 3_000;
const FILE_EVERY: usize = 500;

/// Makes directories within directories, from the inside out: no path is long on the way.
fn dig(root: &Path) {
    let (inner, outer) = (root.join("d"), root.join("e"));
    fs::create_dir(&inner).unwrap();
    for depth in (1..DEPTH).rev() {
        if depth % FILE_EVERY == 0 {
            fs::write(inner.join(format!("at-{depth}.txt")), "needle\n").unwrap();
        }
        fs::create_dir(&outer).unwrap();
        fs::rename(&inner, outer.join("d")).unwrap();
        fs::rename(&outer, &inner).unwrap();
    }
}

/// Takes them away again, from the outside in.
fn fill(root: &Path) {
    let (outer, inner) = (root.join("d"), root.join("e"));
    while fs::rename(outer.join("d"), &inner).is_ok() {
        fs::remove_dir_all(&outer).unwrap();
        fs::rename(&inner, &outer).unwrap();
    }
}

#[test]
fn a_deep_tree_is_walked_as_far_as_paths_reach() {
    let place = Place::new();
    dig(&place.root);
    let mut served = place.serve();
    for (tool, arguments) in [
        ("Glob", json!({ "pattern": "**/*.txt" })),
        ("Grep", json!({ "pattern": "needle" })),
        ("List", json!({ "recursive": true, "limit": 10_000 })),
    ] {
        let result = check(&mut served, tool, &arguments, &End::Shows(""));
        let unreadable = result["meta"]["skipped"]["unreadable"].as_u64();
        assert_eq!(unreadable, Some(1), "{tool}: {}", result["meta"]);
        let kept = result["meta"]["output_path"].as_str();
        let shown = match kept {
            Some(kept) => fs::read_to_string(place.root.join(kept)).unwrap(),
            None => text(&result).to_owned(),
        };
        for depth in (FILE_EVERY..2_040).step_by(FILE_EVERY) {
            assert!(shown.contains(&format!("at-{depth}.txt")), "{tool}: {depth}");
        }
    }
    let path = |depth: usize, name: &str| format!("{}{name}", "d/".repeat(depth + 1));
    check(
        &mut served,
        "Read",
        &json!({ "path": path(1_500, "at-1500.txt") }),
        &End::Shows("needle"),
    );
    let edit = json!({
        "path": path(1_500, "at-1500.txt"),
        "old_string": "needle",
        "new_string": "thread",
    });
    check(&mut served, "Edit", &edit, &End::Shows("+thread"));
    let far = json!({ "path": path(2_500, "at-2500.txt") });
    check(&mut served, "Read", &far, &End::Refused(&["invalid_path"]));
    println!("at most {} MiB", served.peak_mib());
    drop(served);
    fill(&place.root);
}

#[test]
fn names_that_are_not_text_are_all_found() {
    let place = Place::new();
    for n in 0..1_000_u16 {
        let [high, low] = n.to_be_bytes();
        // No byte is a slash, a NUL or part of valid UTF-8.
        let name = [b"n-\xff".as_slice(), &[0xf8 + high, 0x80 | (low >> 4), 0x80 | (low & 15)]];
        let name = PathBuf::from(std::ffi::OsString::from_vec(name.concat()));
        fs::create_dir_all(place.root.join("wide")).unwrap();
        fs::write(place.root.join("wide").join(name), "needle\n").unwrap();
    }
    let mut served = place.serve();
    for (tool, arguments, shows) in [
        ("Glob", json!({ "pattern": "**" }), "[100 of 1000 files"),
        ("Glob", json!({ "pattern": "wide/n-*" }), "[100 of 1000 files"),
        ("List", json!({ "path": "wide", "limit": 1 }), "[1 of 1000 entries"),
        ("List", json!({ "recursive": true, "limit": 1 }), "[1 of 1001 entries"),
        ("Grep", json!({ "pattern": "needle" }), "[stopped after 250 rows"),
    ] {
        check(&mut served, tool, &arguments, &End::Shows(shows));
    }
    let all = json!({ "pattern": "needle", "head_limit": 0, "output_mode": "count" });
    let result = check(&mut served, "Grep", &all, &End::Shows(":1"));
    let rows = text(&result).lines().filter(|line| line.starts_with("\"wide/n-\\377"));
    assert_eq!(rows.count(), 1_000);
}

#[test]
fn patterns_that_explode_are_answered_in_time() {
    const ANSWERED: End<'_> = End::Either(&["invalid_args", "limit_reached"]);
    const REFUSED: End<'_> = End::Refused(&["invalid_args"]);
    let place = Place::new();
    place.write("a.txt", &[&b"a".repeat(1 << 20)[..], b"b\n"].concat());
    place.write("lines.txt", &b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\n".repeat(20_000));
    let mut served = place.serve();
    let wide: String = (0..60_000).map(|n| format!("w{n}x{n}|")).collect();
    for (pattern, end) in [
        ("(a+)+$".to_owned(), End::Shows("")),
        ("(a*)*c".to_owned(), End::Shows("no matches")),
        ("(a|a)*$".to_owned(), End::Shows("")),
        ("(a|aa)+$".to_owned(), End::Shows("")),
        ("(.*)*=(.*)*".to_owned(), End::Shows("no matches")),
        ("(?:a?){40}a{40}b".to_owned(), End::Shows("")),
        ("a{1,1000}{1,1000}".to_owned(), REFUSED),
        ("(a{1,1000}){1,1000}".to_owned(), REFUSED),
        ("((a{1,100}){1,100}){1,100}".to_owned(), REFUSED),
        (r"\w{1000}\w{1000}".to_owned(), ANSWERED),
        (r"(?i)\pL{500}".to_owned(), ANSWERED),
        ("a".repeat(8 << 10), ANSWERED),
        ("a".repeat(32 << 10), REFUSED),
        ("a{8000}[cd]".to_owned(), ANSWERED),
        ("a{16000}[cd]".to_owned(), REFUSED),
        ("x|a{16000}[cd]".to_owned(), REFUSED),
        ("(a{16000}[cd])?b".to_owned(), REFUSED),
        ("a{8000}(a{8000})?[cd]".to_owned(), REFUSED),
        ("a".repeat(1 << 20), REFUSED),
        ("x?".repeat(1 << 13), ANSWERED),
        ("x?".repeat(1 << 19), REFUSED),
        (wide.trim_end_matches('|').to_owned(), REFUSED),
        ("(".repeat(1 << 20), REFUSED),
        (format!("{}a{}", "(".repeat(10_000), ")".repeat(10_000)), ANSWERED),
        ("[".repeat(1 << 16), REFUSED),
        ("a{4294967296}".to_owned(), REFUSED),
        (r"(?<=a)b".to_owned(), REFUSED),
        (r"(a)\1".to_owned(), REFUSED),
    ] {
        for multiline in [false, true] {
            let arguments = json!({ "pattern": pattern, "multiline": multiline });
            check(&mut served, "Grep", &arguments, &end);
        }
    }
    for (pattern, end) in [
        ("**/".repeat(1_000) + "x", ANSWERED),
        ("*a".repeat(2_000), ANSWERED),
        ("{a,b}".repeat(800), ANSWERED),
        (format!("{}a{}", "{".repeat(2_000), "}".repeat(2_000)), ANSWERED),
        ("?".repeat(1 << 12), ANSWERED),
        ("?".repeat(1 << 20), REFUSED),
        ("a".repeat(1 << 20), REFUSED),
        ("[".repeat(1 << 16), REFUSED),
        ("[a-\u{10ffff}]".repeat(200), ANSWERED),
    ] {
        check(&mut served, "Glob", &json!({ "pattern": pattern }), &end);
        let arguments = json!({ "pattern": "a", "glob": pattern });
        check(&mut served, "Grep", &arguments, &ANSWERED);
    }
    println!("at most {} MiB", served.peak_mib());
}

#[test]
fn files_without_end_are_refused() {
    let place = Place::new();
    symlink("/dev/zero", place.root.join("zero")).unwrap();
    symlink("/proc/self/mem", place.root.join("memory")).unwrap();
    symlink("/dev", place.root.join("dev")).unwrap();
    let zero = place.root.join("device");
    let device = mknodat(CWD, zero, FileType::CharacterDevice, Mode::RWXU, makedev(1, 5)).is_ok();
    let mut paths = vec![("zero", "path_denied"), ("memory", "path_denied")];
    paths.push(("dev/zero", "path_denied"));
    if device {
        paths.push(("device", "not_regular_file"));
    } else {
        println!("skipped: no device can be made here");
    }
    let mut served = place.serve();
    for (path, kind) in paths {
        for (tool, arguments) in [
            ("Read", json!({ "path": path })),
            ("Grep", json!({ "path": path, "pattern": "a" })),
            ("Edit", json!({ "path": path, "old_string": "a", "new_string": "b" })),
            ("Write", json!({ "path": path, "content": "a" })),
            ("List", json!({ "path": path })),
        ] {
            check(&mut served, tool, &arguments, &End::Refused(&[kind]));
        }
    }
    let grep = json!({ "pattern": "." });
    check(&mut served, "Grep", &grep, &End::Shows("no matches"));
    assert!(served.peak_mib() < MAX_MIB, "{} MiB", served.peak_mib());
}

#[test]
fn a_sparse_file_of_a_tebibyte_costs_little() {
    let place = Place::new();
    place.write("text.txt", &b"a line of text\n".repeat(10_000));
    place.write("hole.bin", b"");
    for name in ["text.txt", "hole.bin"] {
        let file = fs::OpenOptions::new().write(true).open(place.root.join(name)).unwrap();
        if let Err(error) = file.set_len(1 << 40) {
            println!("skipped: no file of a tebibyte here: {error}");
            return;
        }
    }
    let more = ["--set", "files.search_timeout_ms=2000"];
    let mut served = Served::start(&place.home, &[&place.root], &more, MAX_FILES);
    for (tool, arguments, end) in [
        ("Read", json!({ "path": "hole.bin" }), End::Refused(&["binary"])),
        ("Read", json!({ "path": "text.txt", "limit": 3 }), End::Shows("a line of text")),
        ("Read", json!({ "path": "text.txt", "offset": 990, "limit": 5 }), End::Shows("990→")),
        ("Grep", json!({ "pattern": "line of" }), End::Shows("text.txt")),
        (
            "Grep",
            json!({ "pattern": "line of", "output_mode": "content", "head_limit": 5 }),
            End::Shows("text.txt:1:a line"),
        ),
        ("Grep", json!({ "pattern": "nowhere" }), End::Shows("no matches")),
        ("Grep", json!({ "pattern": "line.of", "multiline": true }), End::Shows("")),
        (
            "Grep",
            json!({ "pattern": "line of", "path": "text.txt", "output_mode": "count" }),
            End::Shows("the time ran out"),
        ),
        ("Grep", json!({ "pattern": "x", "path": "hole.bin" }), End::Shows("the time ran out")),
        (
            "Edit",
            json!({ "path": "text.txt", "old_string": "a", "new_string": "b" }),
            End::Refused(&["too_large"]),
        ),
        ("Glob", json!({ "pattern": "*" }), End::Shows("hole.bin")),
        ("List", json!({}), End::Shows("1099511627776")),
    ] {
        check(&mut served, tool, &arguments, &end);
        assert!(served.peak_mib() < MAX_MIB, "{tool} {arguments}: {} MiB", served.peak_mib());
    }
    println!("at most {} MiB", served.peak_mib());
}

#[test]
fn a_caller_who_stops_waiting_ends_a_read_without_end() {
    let place = Place::new();
    place.write("text.txt", &b"a line of text\n".repeat(10_000));
    let file = fs::OpenOptions::new().write(true).open(place.root.join("text.txt")).unwrap();
    if let Err(error) = file.set_len(1 << 40) {
        println!("skipped: no file of a tebibyte here: {error}");
        return;
    }
    let runtime = Runtime::builder(NATIVE).root(&place.root).without_store().build().unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let began = Instant::now();
    let arguments = json!({ "path": "text.txt", "offset": 20_000 });
    let mut request = Request::new("call", "Read", arguments.as_object().unwrap().clone());
    request.deadline = Some(began + Duration::from_secs(1));
    let reply = tokio.block_on(runtime.call(request, CallOptions::default()));
    assert_eq!(reply.error.map(|error| error.kind), Some(Kind::Timeout));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

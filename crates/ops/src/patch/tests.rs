use proptest::prelude::*;
use similar::TextDiff;

use super::hunk::LineKind;
use super::*;
use crate::replace;

/// Returns a patch in short: a line per file, and one per hunk with its lines in bars. `~` stands for
/// counts that are not those of the lines, `$` for the end of the file, `\` for no line feed.
fn short(patch: &Patch<'_>) -> String {
    let mut out = String::new();
    for file in &patch.files {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| String::from("-"));
        out += &format!("{:?} {} {}", file.deed, name(&file.old), name(&file.new));
        if file.old_mode.is_some() || file.new_mode.is_some() {
            let mode = |mode| format!("{mode:?}").replace("Some(", "").replace(')', "");
            out += &format!(" {}>{}", mode(file.old_mode), mode(file.new_mode));
        }
        out += &format!(" :{}\n", file.line);
        for hunk in &file.hunks {
            let start = hunk.old_start.map_or_else(|| String::from("?"), |start| start.to_string());
            let counts = if hunk.counted { "" } else { "~" };
            let end = if hunk.at_end { "$" } else { "" };
            out += &format!("  :{} @{start}{counts}{end}", hunk.line);
            for context in hunk.contexts() {
                out += &format!(" <{}>", String::from_utf8_lossy(context));
            }
            for line in hunk.lines() {
                let mark = match line.mark {
                    LineKind::Keep => ' ',
                    LineKind::Remove => '-',
                    LineKind::Add => '+',
                };
                let ended = if line.ended { "" } else { "\\" };
                out += &format!(" |{mark}{}{ended}|", line.text.escape_ascii());
            }
            out += "\n";
        }
    }
    out
}

#[track_caller]
fn check_parse(patch: &str, expected: &str) {
    check_strip(patch, None, expected);
}

#[track_caller]
fn check_strip(patch: &str, strip: Option<u32>, expected: &str) {
    match parse(patch.as_bytes(), strip) {
        Ok(read) => assert_eq!(short(&read), expected, "{patch}"),
        Err(error) => panic!("{error:?}: {patch}"),
    }
}

#[track_caller]
fn check_refused(patch: &str, expected: PatchError) {
    assert_eq!(parse(patch.as_bytes(), None), Err(expected), "{patch}");
}

const NAMES: &str = "--- a/x\n+++ b/x\n";

#[test]
fn diffs_are_read() {
    check_parse(
        "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ fn f\n a\n-b\n+c\n@@ -9 +9 @@\n-d\n\\ No newline at end of file\n+e\n",
        "Change x x :1\n  :3 @1 | a| |-b| |+c|\n  :7 @9 |-d\\| |+e|\n",
    );
    check_parse(
        "Index: f.c\n====\n--- f.c\t(revision 1)\n+++ f.c\t(working copy)\n@@ -1 +1 @@\n-a\n+b\n",
        "Change f.c f.c :3\n  :5 @1 |-a| |+b|\n",
    );
    check_parse(
        "--- a/x y\n+++ b/x y\n@@ -1 +1 @@\n-a\n+b\n--- a/z 2020-01-02 03:04:05\n+++ b/z\n@@ -1 +1 @@\n-a\n+b",
        "Change x y x y :1\n  :3 @1 |-a| |+b|\nChange z z :6\n  :8 @1 |-a| |+b|\n",
    );
    check_parse("@@ -1 +1 @@\n-a\n+b\n", "Change - - :1\n  :1 @1 |-a| |+b|\n");
    check_parse(
        "--- a/x\r\n+++ b/x\r\n@@ -1,2 +1 @@\r\n-a\r\n \r\n",
        "Change x x :1\n  :3 @1 |-a\\r| | \\r|\n",
    );
    check_parse("\u{FEFF}@@ -1 +1 @@\n-a\n+b\n", "Change - - :1\n  :1 @1 |-a| |+b|\n");
}

#[test]
fn text_around_diffs_is_passed_over() {
    check_parse(
        "From 1 Mon\nSubject: x\n\n- a point\n+ another\n---\n x | 2 +-\n\ndiff --git a/x b/x\n\
         index 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n-- \n2.47.3\n\n\
         From 2 Mon\n- more\n\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n--\n2.47\n",
        "Change x x Plain>Plain :9\n  :13 @1 | a| |-b| |+c|\nChange y y :23\n  :26 @1 |-a| |+b|\n",
    );
    check_parse(
        "diff --git a/x b/x\ndeleted file mode 100644\nindex e69..000\n-- \n2.47.3\n",
        "Delete x - Plain>None :1\n",
    );
    check_parse(
        "Here it is:\n```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n```\nDone - really\n",
        "Change x x :3\n  :5 @1 |-a| |+b|\n",
    );
    check_parse(
        "diff -ru a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\nOnly in b: y\ndiff -ru a/z b/z\n--- a/z\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n",
        "Change x x :2\n  :4 @1 |-a| |+b|\nChange z z :9\n  :11 @1 |-a| |+b|\n",
    );
}

#[test]
fn git_headers_say_what_is_done() {
    for (header, hunk, expected) in [
        (
            "new file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/x\n",
            "@@ -0,0 +1 @@\n+a\n",
            "Create - x None>Executable :1\n  :6 @0 |+a|\n",
        ),
        ("new file mode 100644\nindex 0..e69\n", "", "Create - x None>Plain :1\n"),
        (
            "new file mode 120000\n--- /dev/null\n+++ b/x\n",
            "@@ -0,0 +1 @@\n+to\n\\ No newline at end of file\n",
            "Create - x None>Link :1\n  :5 @0 |+to\\|\n",
        ),
        (
            "deleted file mode 100644\n--- a/x\n+++ /dev/null\n",
            "@@ -1 +0,0 @@\n-a\n",
            "Delete x - Plain>None :1\n  :5 @1 |-a|\n",
        ),
        ("deleted file mode 100644\n", "", "Delete x - Plain>None :1\n"),
        ("old mode 100644\nnew mode 100755\n", "", "Change x x Plain>Executable :1\n"),
        (
            "old mode 100755\nnew mode 100644\n--- a/x\n+++ b/x\n",
            "@@ -1 +1 @@\n-a\n+b\n",
            "Change x x Executable>Plain :1\n  :6 @1 |-a| |+b|\n",
        ),
        ("similarity index 100%\nrename from x\nrename to d/y z\n", "", "Rename x d/y z :1\n"),
        (
            "similarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n",
            "@@ -1 +1 @@\n-a\n+b\n",
            "Rename x y :1\n  :7 @1 |-a| |+b|\n",
        ),
        ("similarity index 100%\ncopy from x\ncopy to \"\\303\\251\"\n", "", "Copy x \u{e9} :1\n"),
    ] {
        check_parse(&format!("diff --git a/x b/x\n{header}{hunk}"), expected);
    }
    check_parse(
        "diff --git a/x y b/x y\nold mode 100644\nnew mode 100755\n",
        "Change x y x y Plain>Executable :1\n",
    );
    check_parse(
        "diff --git x y x y\nold mode 100644\nnew mode 100755\n",
        "Change x y x y Plain>Executable :1\n",
    );
    check_parse(
        "diff --git a/x b/x\ndiff --git \"a/\\303\\251 \\\"\\t\" \"b/\\303\\251 \\\"\\t\"\ndeleted file mode 100644\n",
        "Delete \u{e9} \"\t - Plain>None :2\n",
    );
}

#[test]
fn plain_diffs_may_make_and_remove_files() {
    let epoch = "1970-01-01 01:00:00.000000000 +0100";
    check_parse("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "Create - x :1\n  :3 @0 |+a|\n");
    check_parse("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "Delete x - :1\n  :3 @1 |-a|\n");
    check_parse(
        &format!("--- a/x\t{epoch}\n+++ b/x\t2020-01-01 00:00:00 +0000\n@@ -0,0 +1 @@\n+a\n"),
        "Create - x :1\n  :3 @0 |+a|\n",
    );
    check_parse(
        &format!("--- a/x\t2020-01-01 00:00:00 +0000\n+++ b/x\t{epoch}\n@@ -1 +0,0 @@\n-a\n"),
        "Delete x - :1\n  :3 @1 |-a|\n",
    );
    let unsure = parse(b"--- x.orig\n+++ x\n@@ -0,0 +1 @@\n+a\n", None).expect("a patch");
    assert_eq!((unsure.files[0].path(), unsure.files[0].may_create()), (Some("x"), true));
}

#[test]
fn leading_parts_are_stripped() {
    let hunk = "@@ -1 +1 @@\n-a\n+b\n";
    for (old, new, is_git, strip, expected) in [
        ("a/d/x", "b/d/x", false, None, "d/x d/x"),
        ("old/x", "new/x", false, None, "old/x new/x"),
        ("i/x", "w/x", false, None, "i/x w/x"),
        ("i/x", "w/x", true, None, "x x"),
        ("d/x", "d/x", true, None, "d/x d/x"),
        ("a/x", "a/x", true, None, "a/x a/x"),
        ("a/x", "b/x", true, Some(0), "a/x b/x"),
        ("a//d/x", "b/d/x", true, Some(1), "d/x d/x"),
        ("a/d/x", "b/d/x", true, Some(2), "x x"),
    ] {
        let first = if is_git { format!("diff --git {old} {new}\n") } else { String::new() };
        let patch = format!("{first}--- {old}\n+++ {new}\n{hunk}");
        match parse(patch.as_bytes(), strip) {
            Ok(read) => {
                let file = &read.files[0];
                let names = [file.old.clone(), file.new.clone()].map(Option::unwrap_or_default);
                assert_eq!(names.join(" "), expected, "{patch}");
            }
            Err(error) => assert!(matches!(error, PatchError::Name { .. }) && strip == Some(0)),
        }
    }
    check_strip(
        "diff --git p/a/x p/b/y\nsimilarity index 100%\nrename from a/x\nrename to b/y\n",
        Some(2),
        "Rename x y :1\n",
    );
    let problem = "has too few parts to strip";
    let patch = format!("{NAMES}{hunk}");
    assert_eq!(parse(patch.as_bytes(), Some(2)), Err(PatchError::Name { line: 1, problem }));
}

#[test]
fn counts_that_are_right_are_honoured() {
    check_parse(
        &format!("{NAMES}@@ -1,4 +1,3 @@\n a\n--- x\n-++ b\n+++ y\n \n@@ -9 +9 @@\n-a\n+b\n"),
        "Change x x :1\n  :3 @1 | a| |--- x| |-++ b| |+++ y| | |\n  :9 @9 |-a| |+b|\n",
    );
    check_parse(
        &format!("{NAMES}@@ -1,3 +1,2 @@\n-- a/z\n--- a/z\n+++ b/z\n c\n"),
        "Change x x :1\n  :3 @1 |-- a/z| |--- a/z| |+++ b/z| | c|\n",
    );
    check_parse(
        &format!("{NAMES}@@ -1,2 +1,3 @@\n a\n+b\n\n"),
        "Change x x :1\n  :3 @1 | a| |+b| | |\n",
    );
}

#[test]
fn lines_decide_where_counts_are_wrong() {
    let expected = "Change x x :1\n  :3 @5~ | a| |-b| |+c| | d|\n";
    for counts in
        ["-5,9 +5,9", "-5 +5", "-5,1 +5,4", "-5,0 +5,0", "-5,3 +5,99999999999999999999999"]
    {
        check_parse(&format!("{NAMES}@@ {counts} @@\n a\n-b\n+c\n d\n"), expected);
        check_parse(&format!("{NAMES}@@ {counts} @@\n a\n-b\n+c\n d\n\n\n"), expected);
        check_parse(
            &format!(
                "{NAMES}@@ {counts} @@\n a\n-b\n+c\n d\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"
            ),
            &format!("{expected}Change y y :8\n  :10 @1 |-a| |+b|\n"),
        );
    }
    // The names of the next file are not content, though the counts would have it so.
    check_parse(
        &format!("{NAMES}@@ -5,3 +5,3 @@\n a\n-b\n+c\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"),
        "Change x x :1\n  :3 @5~ | a| |-b| |+c|\nChange y y :7\n  :9 @1 |-a| |+b|\n",
    );
    check_parse(
        &format!("{NAMES}@@ -1,2 +1,2 @@\n a\n-b\n+c\n\n+d\n"),
        "Change x x :1\n  :3 @1~ | a| |-b| |+c| | | |+d|\n",
    );
}

#[test]
fn headers_may_lack_numbers() {
    check_parse(
        &format!("{NAMES}@@\n-a\n+b\n@@ fn f() @@\n-a\n+b\n@@ ... @@\n\ta\n-c\n@@ -7 @@\n-d\n"),
        "Change x x :1\n  :3 @?~ |-a| |+b|\n  :6 @?~ <fn f()> |-a| |+b|\n  :9 @?~ | \\ta| |-c|\n  :12 @7~ |-d|\n",
    );
    check_parse(&format!("{NAMES}-a\n+b\n"), "Change x x :1\n  :3 @?~ |-a| |+b|\n");
    check_parse(
        &format!("{NAMES}@@ -99999999999999999999999,1 +1 @@\n-a\n+b\n"),
        "Change x x :1\n  :3 @18446744073709551615 |-a| |+b|\n",
    );
}

#[test]
fn envelopes_are_read() {
    let inside = "*** Begin Patch\n*** Add File: d/n.txt\n+one\n\n+two\n*** Delete File: old\n\
                  *** Update File: x\n*** Move to: y z\n@@ class A\n@@ def f\n a\n-b\n+c\n\n@@\n-d\n\
                  *** End of File\n*** Update File: w\n+first\n e\n*** Add File: empty\n*** End Patch\n";
    let expected = |shift: u64| {
        let at = |line: u64| line + shift;
        format!(
            "Create - d/n.txt :{}\n  :{} @0 |+one| |+| |+two|\nDrop old - :{}\nRename x y z :{}\n\
             \x20 :{} @?~ <class A> <def f> | a| |-b| |+c|\n  :{} @?~$ |-d|\nChange w w :{}\n\
             \x20 :{} @?~ |+first| | e|\nCreate - empty :{}\n",
            at(2),
            at(3),
            at(6),
            at(7),
            at(9),
            at(15),
            at(18),
            at(19),
            at(21)
        )
    };
    check_parse(inside, &expected(0));
    check_parse(&format!("apply_patch <<'EOF'\n{inside}EOF\n"), &expected(1));
    check_parse(&format!("\n```\n  {inside}```\n"), &expected(2));
    check_parse(
        "*** Begin Patch\n*** Update File: x\n@@ -7,2 +7,2 @@\n-a\n+b\n*** End Patch",
        "Change x x :2\n  :3 @7~ |-a| |+b|\n",
    );
    check_parse(
        "*** Begin Patch\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n*** End Patch",
        "Change x x :2\n  :4 @1 |-a| |+b|\n",
    );
}

/// Markers with blanks around them had been refused, or taken for lines of the hunk before them.
#[test]
fn blanks_around_markers_are_ignored() {
    let one = "Change x x :2\n  :3 @?~ |-a| |+b|\n";
    for patch in [
        " *** Begin Patch\n*** Update File: x\n@@\n-a\n+b\n*** End Patch \n",
        "*** Begin Patch \n*** Update File: x\n@@\n-a\n+b\n *** End Patch\n",
        "*** Begin Patch\n  *** Update File: x \n@@\n-a\n+b\n*** End Patch\n",
        "\t*** Begin Patch\n\t*** Update File:  x\t\n\t@@  \n-a\n+b\n\t*** End Patch",
        "*** Begin Patch\n*** Update File: x\n @@\n-a\n+b\n  *** End Patch\nEOF\n",
    ] {
        check_parse(patch, one);
    }
    check_parse(
        " *** Begin Patch\n *** Add File: n\n+one\n *** Delete File: old\n  \n *** Update File: x\n\
         \x20*** Move to: y \n @@ class A \n  @@ def f\n a\n-b\n+c\n @@\n-d\n *** End of File\n\
         \x20*** Update File: w\n+first\n e\n *** Delete File: v\n *** End Patch\n",
        "Create - n :2\n  :3 @0 |+one|\nDrop old - :4\nRename x y :6\n\
         \x20 :8 @?~ <class A> <def f> | a| |-b| |+c|\n  :13 @?~$ |-d|\nChange w w :16\n\
         \x20 :17 @?~ |+first| | e|\nDrop v - :19\n",
    );
    check_parse(
        "*** Begin Patch\n*** Update File: x\n@@\n-a\n+b\n  *** Update File: y\n@@ f\n-c\n+d\n\
         \x20*** End of File\n*** End Patch\n",
        "Change x x :2\n  :3 @?~ |-a| |+b|\nChange y y :6\n  :7 @?~$ <f> |-c| |+d|\n",
    );
    check_parse(
        "*** Begin Patch\n*** Delete File: x\n *** End Patch\n*** Begin Patch\n*** Delete File: y\n*** End Patch\n",
        "Drop x - :2\nDrop y - :5\n",
    );
}

/// A line of a file that reads like a marker is an unchanged line, unless the markers have blanks.
#[test]
fn unchanged_lines_that_look_like_markers_stay_lines() {
    check_parse(
        "*** Begin Patch\n*** Update File: x\n@@\n *** Begin Patch\n *** Delete File: y\n *** Add File: z\n\
         -a\n+b\n *** Update File: y\n @@\n *** End of File\n *** End Patch\n c\n*** End Patch\n",
        "Change x x :2\n  :3 @?~ | *** Begin Patch| | *** Delete File: y| | *** Add File: z| |-a| |+b| \
         | *** Update File: y| | @@| | *** End of File| | *** End Patch| | c|\n",
    );
}

#[test]
fn what_is_no_patch_is_refused() {
    let names = |rest: &str| format!("{NAMES}{rest}");
    for text in ["", "\n\n", "hello\n- a\n+ b\n", "5 apples\n.\n"] {
        check_refused(text, PatchError::Empty);
    }
    check_refused(
        "diff --git a/x b/x\nGIT binary patch\nliteral 1\n",
        PatchError::Binary { line: 2 },
    );
    check_refused("Binary files a/x and b/x differ\n", PatchError::Binary { line: 1 });
    check_refused(
        "diff --cc x\n--- a/x\n+++ b/x\n@@@ -1 -1 +1 @@@\n",
        PatchError::Combined { line: 1 },
    );
    check_refused("@@@ -1 -1 +1 @@@\n--a\n", PatchError::Combined { line: 1 });
    check_refused(
        "*** a\n--- b\n***************\n*** 1 ****\n! a\n",
        PatchError::Format { line: 3, found: "context diff" },
    );
    check_refused("3c3\n< a\n---\n> b\n", PatchError::Format { line: 1, found: "normal diff" });
    check_refused("3,4c\na\n.\n", PatchError::Format { line: 1, found: "ed script" });
    check_refused("3d\n", PatchError::Format { line: 1, found: "ed script" });
    check_refused(&names(""), PatchError::NoHunk { line: 1 });
    check_refused(&names("@@ -1 +1 @@\n a\n"), PatchError::Hunk { line: 3 });
    check_refused(&names("@@\n"), PatchError::Hunk { line: 3 });
    check_refused("diff --git a/x b/x\nnew file mode 160000\n", PatchError::Mode { line: 2 });
    for (name, problem) in [
        ("\"a/\\377\"", "is not UTF-8"),
        ("\"a/\\q\"", "has an escape that C does not know"),
        ("\"a", "has a quote without its end"),
        ("\"a\\000\"", "holds a NUL"),
    ] {
        check_refused(
            &format!("--- {name}\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"),
            PatchError::Name { line: 1, problem },
        );
    }
    check_refused(
        "diff --git a/x b/y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
        PatchError::Name {
            line: 1,
            problem: "differs from the other one: add `rename from` and `rename to`",
        },
    );
    let envelope = |line, problem| PatchError::Envelope { line, problem };
    check_refused(
        "*** Begin Patch\n*** Update File: x\n-a\n",
        envelope(1, "has no `*** End Patch`, so it may have been cut off"),
    );
    check_refused("*** Begin Patch\n*** End Patch\n", envelope(1, "names no file"));
    check_refused(
        "*** Begin Patch\n*** Touch File: x\n*** End Patch\n",
        envelope(
            2,
            "has a line that is none of `*** Add File:`, `*** Delete File:`, `*** Update File:`",
        ),
    );
    check_refused(
        "*** Begin Patch\n*** Update File: x\n-a\n+b\nc\n*** End Patch\n",
        envelope(5, "has a line that begins with none of ` `, `+`, `-`, `@@`"),
    );
    check_refused(
        "*** Begin Patch\n*** Update File: x\n*** End Patch\n",
        PatchError::NoHunk { line: 2 },
    );
    check_refused(
        "*** Begin Patch\n*** Delete File:\n*** End Patch\n",
        PatchError::Name { line: 2, problem: "is empty" },
    );
}

fn made(old: &[u8], applied: &AppliedPatch) -> Vec<u8> {
    replace::pieces(old, &applied.changes()).concat()
}

/// Applies the first file of a patch and compares the content, and how each hunk was found.
#[track_caller]
fn check_apply(patch: &str, old: &str, expected: &str, how: &[&str]) {
    let read = parse(patch.as_bytes(), None).expect("a patch");
    match apply(&read.files[0], old.as_bytes(), || true) {
        Ok(applied) => {
            assert_eq!(String::from_utf8_lossy(&made(old.as_bytes(), &applied)), expected);
            let words = applied.hunks.iter().map(|hunk| {
                let words = hunk.words().map_or_else(String::new, |words| format!(": {words}"));
                format!("{}{words}", hunk.line)
            });
            assert_eq!(words.collect::<Vec<_>>(), how);
        }
        Err(rejected) => panic!("{:?}", rejected.to_error("x")),
    }
}

/// Applies the first file of a patch in vain and compares why each hunk failed.
#[track_caller]
fn check_rejected(patch: &str, old: &str, expected: &[Why]) {
    let read = parse(patch.as_bytes(), None).expect("a patch");
    let whys = match apply(&read.files[0], old.as_bytes(), || true) {
        Err(Rejected::Hunks { failures, .. }) => {
            failures.into_iter().map(|failure| failure.why).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(whys, expected);
}

const CHANGE: &str = "@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n";

#[test]
fn hunks_are_found_at_their_line_and_near_it() {
    check_apply(CHANGE, "a\nb\nc\nd\n", "a\nb\nC\nd\n", &["2"]);
    check_apply(CHANGE, "b\nc\nd\n", "b\nC\nd\n", &["1: offset -1 line"]);
    check_apply(
        CHANGE,
        "1\n2\n3\n4\nb\nc\nd",
        "1\n2\n3\n4\nb\nC\nd",
        &["5: offset 3 lines, line endings differ"],
    );
    // The nearest place, counted from where the hunk before was.
    let two = format!("{CHANGE}@@ -9 +9 @@\n-x\n+y\n");
    check_apply(
        &two,
        "1\n2\n3\n4\nb\nc\nd\n8\nx\n10\n11\nx\n",
        "1\n2\n3\n4\nb\nC\nd\n8\nx\n10\n11\ny\n",
        &["5: offset 3 lines", "12: offset 3 lines"],
    );
    check_apply(
        "@@ -18446744073709551615 +1 @@\n-a\n+b\n",
        "a\n",
        "b\n",
        &["1: offset -281474976710656 lines"],
    );
    check_rejected("@@ -2 +2 @@\n-a\n+b\n", "a\nx\na\n", &[Why::Ambiguous(vec![1, 3])]);
    check_rejected("@@ -9,2 +9,2 @@\n-p\n+q\n r\n", "a\n", &[Why::PastEnd(1)]);
    check_rejected("@@ -9,0 +9 @@\n+q\n", "", &[Why::PastEnd(0)]);
    // Lines to add behind the end are added at the end, as with `git apply --unidiff-zero`.
    check_apply("@@ -9,0 +9 @@\n+q\n", "a\n", "a\nq\n", &["2: offset -8 lines"]);
    check_rejected(
        "@@ -9 +9 @@\n-p\n+q\n@@ -1 +1 @@\n-x\n+y\n",
        "a\n",
        &[Why::PastEnd(1), Why::NotFound],
    );
}

#[test]
fn hunks_belong_to_the_beginning_and_the_end() {
    check_apply("@@ -1,2 +1,3 @@\n+new\n a\n b\n", "a\nb\na\nb\n", "new\na\nb\na\nb\n", &["1"]);
    check_rejected("@@ -1,3 +1,4 @@\n+new\n a\n b\n c\n", "x\na\nb\nc\n", &[Why::NotFound]);
    check_apply(
        "@@ -1,2 +1,3 @@\n a\n b\n+new\n",
        "a\nb\na\nb\n",
        "a\nb\na\nb\nnew\n",
        &["3: offset 2 lines"],
    );
    check_apply("@@ -1,3 +1,4 @@\n a\n b\n c\n+new\n", "a\nb\nc\nd\n", "a\nb\nc\nnew\nd\n", &["1"]);
    check_apply("@@ -0,0 +1,2 @@\n+a\n+b\n", "", "a\nb\n", &["1"]);
    check_apply("@@ -0,0 +1 @@\n+a\n", "b", "a\nb", &["1"]);
    check_apply("@@ -1,0 +2 @@\n+a\n", "b", "b\na\n", &["2"]);
}

#[test]
fn hunks_without_numbers_fit_in_one_place_alone() {
    check_apply("@@\n-b\n+B\n", "a\nb\nc\n", "a\nB\nc\n", &["2"]);
    check_rejected("@@\n-b\n+B\n", "b\na\nb\n", &[Why::Ambiguous(vec![1, 3])]);
}

#[test]
fn hunks_after_one_another_keep_their_order() {
    check_rejected("@@\n-c\n+C\n@@\n-a\n+A\n", "a\nb\nc\n", &[Why::Before(1)]);
    check_rejected("@@ -2 +2 @@\n-b\n+B\n@@ -2 +2 @@\n-b\n+BB\n", "a\nb\nc\n", &[Why::Before(2)]);
    // Context may be shared.
    check_apply(
        "@@\n a\n-b\n+B\n c\n@@\n c\n-d\n+D\n",
        "a\nb\nc\nd\n",
        "a\nB\nc\nD\n",
        &["1", "3"],
    );
}

#[test]
fn the_text_of_a_header_tells_places_apart() {
    let code = "fn f() {\n    a\n}\nfn g() {\n    a\n}\n";
    check_apply(
        "@@ fn g() { @@\n-    a\n+    b\n",
        code,
        "fn f() {\n    a\n}\nfn g() {\n    b\n}\n",
        &["5"],
    );
    check_rejected("@@ fn h() { @@\n-    a\n+    b\n", code, &[Why::Ambiguous(vec![2, 5])]);
}

fn update(hunks: &str) -> String {
    format!("*** Begin Patch\n*** Update File: x\n{hunks}*** End Patch\n")
}

#[test]
fn envelopes_are_applied() {
    let code = "class A\n  def f\n    x\n  def g\n    x\nclass B\n  def f\n    x\n";
    let made = |at: usize| {
        let lines = code.lines().enumerate();
        lines
            .map(|(nth, line)| format!("{}\n", if nth == at { "    y" } else { line }))
            .collect::<String>()
    };
    check_apply(&update("@@ class B\n@@ def f\n-    x\n+    y\n"), code, &made(7), &["8"]);
    check_apply(&update("@@ class A\n@@ def g\n-    x\n+    y\n"), code, &made(4), &["5"]);
    check_apply(&update("@@   def g\n   def g\n-    x\n+    y\n"), code, &made(4), &["4"]);
    check_apply(&update("@@\n-    x\n+    y\n*** End of File\n"), code, &made(7), &["8"]);
    // A header may name again what a hunk before has passed.
    check_apply(
        &update("@@ class A\n   def f\n-    x\n+    y\n@@ class A\n   def g\n-    x\n+    y\n"),
        code,
        &code.replacen("    x\n", "    y\n", 2),
        &["2", "4"],
    );
}

#[test]
fn envelopes_are_refused_where_they_are_not_clear() {
    let code = "class A\n  def f\n    x\nclass B\n  def f\n    x\n";
    check_rejected(&update("@@ def f\n-    x\n+    y\n"), code, &[Why::Ambiguous(vec![3, 6])]);
    check_rejected(&update("-    x\n+    y\n"), code, &[Why::Ambiguous(vec![3, 6])]);
    check_rejected(
        &update("@@ class C\n-    x\n+    y\n"),
        code,
        &[Why::NoContext(String::from("class C"))],
    );
    check_rejected(&update("@@\n-class A\n+class Z\n*** End of File\n"), code, &[Why::NotFound]);
    check_apply(
        &update("@@ class A\n+  new\n"),
        code,
        &code.replacen("A\n", "A\n  new\n", 1),
        &["2"],
    );
    check_apply(&update("@@\n+end\n"), code, &format!("{code}end\n"), &["7"]);
    check_rejected("@@\n+end\n", code, &[Why::Unplaced]);
}

#[test]
fn line_endings_may_differ_and_stay() {
    const ENDINGS: &[&str] = &["2: line endings differ"];
    check_apply(CHANGE, "a\r\nb\r\nc\r\nd\r\n", "a\r\nb\r\nC\r\nd\r\n", ENDINGS);
    check_apply(&CHANGE.replace('\n', "\r\n"), "a\nb\nc\nd\n", "a\nb\nC\nd\n", ENDINGS);
    check_apply(
        &CHANGE.replace('\n', "\r\n"),
        "a\r\nb\r\nc\r\nd\r\n",
        "a\r\nb\r\nC\r\nd\r\n",
        &["2"],
    );
    check_apply(CHANGE, "a\nb\r\nc\nd\n", "a\nb\r\nC\nd\n", ENDINGS);
    check_apply(
        "@@ -1,2 +1,3 @@\n a\n b\n+c\n",
        "a\r\nb",
        "a\r\nb\r\nc",
        &["1: line endings differ"],
    );
    check_apply(
        "@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n",
        "a\nb",
        "a\nc\nd",
        &["1: line endings differ"],
    );
    check_apply(
        "@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+c\n",
        "b\n",
        "c\n",
        &["1: line endings differ"],
    );
    // What changes line endings is held to them.
    check_apply("@@ -1 +1 @@\n-a\r\n+a\n", "a\r\n", "a\n", &["1"]);
    check_rejected("@@ -1,2 +1,2 @@\n-a\r\n+a\n b\n", "a\nb\n", &[Why::Applied(1)]);
}

#[test]
fn the_end_of_the_file_is_as_the_patch_says() {
    let open = "\\ No newline at end of file\n";
    check_apply(&format!("@@ -1 +1 @@\n-a\n{open}+b\n"), "a", "b\n", &["1"]);
    check_apply(&format!("@@ -1 +1 @@\n-a\n+b\n{open}"), "a\n", "b", &["1"]);
    check_apply(&format!("@@ -1 +1 @@\n-a\n{open}+b\n{open}"), "a", "b", &["1"]);
    check_apply("@@ -1 +1 @@\n-a\n+b", "a\n", "b\n", &["1"]);
    check_apply(&format!("@@ -1,2 +1,2 @@\n-a\n+b\n c\n{open}"), "a\nc", "b\nc", &["1"]);
    // The place at the end is meant, and where the file goes on there is none.
    let last = format!("@@ -1 +1 @@\n-a\n+b\n{open}");
    check_apply(&last, "a\nc\na\n", "a\nc\nb", &["3: offset 2 lines"]);
    check_rejected(&last, "a\nc\n", &[Why::NotEnd(1)]);
    check_rejected(&format!("@@ -1,0 +2 @@\n+b\n{open}"), "a\nc\n", &[Why::NotEnd(1)]);
    let inside = format!("@@ -1 +1,2 @@\n-a\n+b\n{open}+c\n");
    check_rejected(&inside, "a\n", &[Why::NotEnd(1)]);
}

/// The beginning of a patch was applied as if it were the whole.
#[test]
fn a_text_that_was_cut_off_is_refused() {
    for hunk in [
        "@@ -1,3 +1,4 @@\n a\n+ne",
        "@@ -1,3 +1,4 @@\n a\n+new\n b",
        "@@ -1,6 +1,6 @@\n a\n-b\n+c\n-d",
    ] {
        check_refused(&format!("{NAMES}{hunk}"), PatchError::CutOff { line: 3 });
    }
    let wrong = "its line counts are wrong";
    check_apply("@@ -1,9 +1,9 @@\n a\n-b\n+c\n", "a\nb\n", "a\nc\n", &[&format!("1: {wrong}")]);
    check_apply("@@ -1 +1 @@\n a\n-b\n+c", "a\nb\n", "a\nc\n", &[&format!("1: {wrong}")]);
    check_apply("@@ -1,2 +1,2 @@\n a\n-b\n+c", "a\nb\n", "a\nc\n", &["1"]);
}

/// What stood behind the first format was dropped, and success was told.
#[test]
fn a_second_format_is_refused() {
    let diff = format!("{NAMES}@@ -1 +1 @@\n-a\n+b\n");
    let update = "*** Update File: x\n@@\n-a\n+b\n";
    let envelope = format!("*** Begin Patch\n{update}*** End Patch\n");
    for (text, line) in [
        (format!("{diff}{envelope}"), 6),
        (format!("{diff}{update}"), 6),
        (format!("{envelope}{diff}"), 7),
        (format!("{envelope}words\ndiff --git a/x b/x\ndeleted file mode 100644\n"), 8),
        (format!("{envelope}@@ -1 +1 @@\n-a\n+b\n"), 7),
        (format!("{envelope}{update}*** End Patch\n"), 7),
        (format!("*** Begin Patch\n{diff}{update}*** End Patch\n"), 7),
    ] {
        check_refused(&text, PatchError::Outside { line });
    }
    let problem = "has no `*** Begin Patch` before it";
    check_refused(&format!("{update}{envelope}"), PatchError::Envelope { line: 1, problem });
    let two = format!("{envelope}and\n{envelope}");
    assert_eq!(parse(two.as_bytes(), None).expect("two envelopes").files.len(), 2);
}

/// The names of the one line were believed, and those of the other were not looked at.
#[test]
fn headers_that_contradict_each_other_are_refused() {
    let hunk = "@@ -1 +1 @@\n-a\n+b\n";
    let files = "names different files";
    for (header, problem) in [
        ("diff --git a/x b/y\nrename from x\nrename to y\n--- a/z\n+++ b/y\n", files),
        ("diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ b/z\n", files),
        ("diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ /dev/null\n", files),
        ("diff --git a/x b/y\ncopy from x\ncopy to y\n--- a/z\n+++ b/y\n", files),
        ("diff --git a/x b/x\ndeleted file mode 100644\n--- a/z\n+++ b/z\n", files),
        ("diff --git a/x b/x\ndeleted file mode 100644\n--- a/z\n+++ /dev/null\n", files),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n--- a/z\n+++ b/z\n", files),
        ("diff --git a/x b/x\n--- a/z\n+++ b/z\n", files),
        (
            "diff --git a/x b/y\ndeleted file mode 100644\nrename from x\nrename to y\n",
            "asks for two things",
        ),
    ] {
        let text = format!("{header}{hunk}");
        check_refused(&text, PatchError::Contradiction { line: 1, problem });
    }
    for header in [
        "diff --git x y\nrename from x\nrename to y\n--- x\n+++ y\n",
        "diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ b/y\n",
        "diff --git i/x w/x\n--- i/x\n+++ w/x\n",
        "diff --git a/x b/x\n--- x\n+++ x\n",
        "diff --git a/x y b/x y\n--- a/x y\t\n+++ b/x y\t\n",
    ] {
        let text = format!("{header}{hunk}");
        assert!(parse(text.as_bytes(), None).is_ok(), "{text}");
    }
}

/// Each look at a line went through the long ones before it.
#[test]
fn long_lines_cost_what_they_are_long() {
    const N_HUNKS: usize = 100_000;
    let long = "x".repeat(2 << 20);
    let old = format!("{}end\n", format!("{long}\n").repeat(8));
    let began = std::time::Instant::now();
    // At one place among long lines, and at the beginning of a content that is one line.
    for (old, hunk) in [(&old, "@@ -8,0 +9 @@\n+new\n"), (&long, "@@ -0,0 +1 @@\n+new\n")] {
        let patch = hunk.repeat(N_HUNKS);
        let read = parse(patch.as_bytes(), None).expect("a patch");
        let applied = apply(&read.files[0], old.as_bytes(), || true).expect("changes");
        assert_eq!(applied.hunks.len(), N_HUNKS);
    }
    // Fuzz leaves the long line out, and each hunk passes it.
    let patch = "@@ -8,3 +8,4 @@\n short\n+new\n end\n no\n".repeat(N_HUNKS);
    let read = parse(patch.as_bytes(), None).expect("a patch");
    assert!(apply(&read.files[0], old.as_bytes(), || true).is_err());
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn nobody_waits_for_hunks_that_nobody_wants() {
    let patch = "@@ -1,0 +2 @@\n+new\n".repeat(1000);
    let read = parse(patch.as_bytes(), None).expect("a patch");
    let n_asked = std::cell::Cell::new(0);
    let is_wanted = || {
        n_asked.set(n_asked.get() + 1);
        n_asked.get() < 2
    };
    assert_eq!(apply(&read.files[0], b"a\n", is_wanted), Err(Rejected::Unwanted));
    assert_eq!(n_asked.get(), 2);
}

#[test]
fn blanks_at_line_ends_may_differ_in_one_place() {
    const BLANKS: &[&str] = &["2: blanks at line ends differ"];
    check_apply(CHANGE, "a\nb  \nc\t\nd\n", "a\nb  \nC\nd\n", BLANKS);
    check_apply(CHANGE, "a\nb  \r\nc\r\nd\r\n", "a\nb  \r\nC\r\nd\r\n", BLANKS);
    check_rejected(CHANGE, "a\nb \nc\nd\nb \nc\nd\n", &[Why::Ambiguous(vec![2, 5])]);
    check_apply(
        "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n",
        "a\n   \nb\n",
        "a\n   \nc\n",
        &["1: blanks at line ends differ"],
    );
}

#[test]
fn context_may_be_left_out() {
    let hunk = "@@ -1,7 +1,7 @@\n 1\n 2\n 3\n-4\n+four\n 5\n 6\n 7\n";
    check_apply(hunk, "X\n2\n3\n4\n5\n6\n7\n", "X\n2\n3\nfour\n5\n6\n7\n", &["1: fuzz 1"]);
    check_apply(hunk, "X\nX\n3\n4\n5\n6\nX\n", "X\nX\n3\nfour\n5\n6\nX\n", &["1: fuzz 2"]);
    check_rejected(hunk, "X\nX\nX\n4\n5\n6\n7\n", &[Why::NotFound]);
    check_apply(
        hunk,
        "0\nX\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n",
        "0\nX\r\n2\r\n3\r\nfour\r\n5\r\n6\r\n7\r\n",
        &["2: offset 1 line, fuzz 1, line endings differ"],
    );
    // Nothing would be left that says where it belongs.
    check_rejected("@@ -1,2 +1,3 @@\n a\n+new\n b\n", "x\ny\n", &[Why::NotFound]);
    check_rejected("@@ -1,2 +1,3 @@\n a\n \n+new\n b\n", "x\n\ny\n", &[Why::NotFound]);
}

#[test]
fn what_is_applied_already_is_told() {
    check_rejected(CHANGE, "a\nb\nC\nd\n", &[Why::Applied(2)]);
    check_rejected("@@\n a\n+b\n c\n", "a\nb\nc\n", &[Why::Applied(1)]);
}

#[test]
fn whole_files_are_made_and_removed() {
    let delete = "--- a/x\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n";
    check_apply(delete, "a\nb\n", "", &["1"]);
    check_apply(delete, "a\r\nb\r\n", "", &["1: line endings differ"]);
    check_apply("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "", "a\n", &["1"]);
    check_apply("*** Begin Patch\n*** Delete File: x\n*** End Patch\n", "any\nthing", "", &[]);
    check_apply("*** Begin Patch\n*** Add File: x\n+a\n+b\n*** End Patch\n", "", "a\nb\n", &["1"]);
    let rejected = |patch: &str, old: &str| {
        let read = parse(patch.as_bytes(), None).expect("a patch");
        apply(&read.files[0], old.as_bytes(), || true).expect_err("a refusal")
    };
    assert_eq!(rejected(delete, "a\nb\nc\n"), Rejected::Leaves { line: 3 });
    assert_eq!(
        rejected("diff --git a/x b/x\ndeleted file mode 100644\n", "a\n"),
        Rejected::Leaves { line: 1 }
    );
    assert_eq!(rejected("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "b"), Rejected::Exists);
}

/// The words of a refusal, whole.
#[test]
fn refusals_say_what_to_do() {
    let code = "fn a() {\n    one(first);\n}\nfn b() {\n    two();\n}\n";
    let patch = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n fn a() {\n-    once(first);\n+    more();\n }\n\
                 @@\n-}\n+};\n@@\n-    one(first);\n+    1();\n";
    let read = parse(patch.as_bytes(), None).expect("a patch");
    let error =
        apply(&read.files[0], code.as_bytes(), || true).expect_err("a refusal").to_error("x");
    assert_eq!(
        error.message,
        "2 of 3 hunks do not fit x: hunk #1 (line 3 of the patch) was not found; \
         hunk #2 (line 8 of the patch) fits in more than one place: lines 3, 6"
    );
    assert_eq!(
        error.hint.as_deref(),
        Some(
            "hunk #1: lines 1-3 differ in some words; its text is:\nfn a() {\n    one(first);\n}\n\n\
             add unchanged lines around the change until the place is unique\n\n\
             read the file again and send the hunk anew"
        )
    );
    let error = PatchError::NoHunk { line: 3 }.to_error();
    assert_eq!(error.message, "line 3 of the patch names a file, and no hunk follows");
}

/// Every hunk was looked for in the whole file, and every line of the patch was held in memory.
#[test]
fn many_hunks_are_applied_in_little_time() {
    const N_HUNKS: usize = 100_000;
    let line = |at: usize| format!("line {at}\n");
    let old: String = (0..N_HUNKS * 4).map(line).collect();
    let shifted = format!("first\nsecond\n{old}");
    let hunk = |at: usize, header: &str| {
        let [above, here, below] = [at * 4, at * 4 + 1, at * 4 + 2].map(line);
        format!("@@{header}\n {above}-{here}+changed {here} {below}")
    };
    let numbered: String =
        (0..N_HUNKS).map(|at| hunk(at, &format!(" -{0},3 +{0},3 @@", at * 4 + 1))).collect();
    let bare: String = (0..N_HUNKS).map(|at| hunk(at, "")).collect();
    for (name, patch, old) in
        [("exact", &numbered, &old), ("shifted", &numbered, &shifted), ("bare", &bare, &old)]
    {
        let began = std::time::Instant::now();
        let read = parse(patch.as_bytes(), None).expect("a patch");
        let parsed = began.elapsed();
        let applied = apply(&read.files[0], old.as_bytes(), || true).expect("changes");
        println!(
            "{name}: {N_HUNKS} hunks, read in {parsed:?}, applied in {:?}",
            began.elapsed() - parsed
        );
        assert_eq!(applied.hunks.len(), N_HUNKS);
        assert_eq!(made(old.as_bytes(), &applied).len(), old.len() + N_HUNKS * "changed ".len());
    }
    // Hunks that are like each other and like the file, at places that are never right.
    let same = "a\nb\n".repeat(N_HUNKS);
    let hostile = "@@ -1,3 +1,3 @@\n a\n-a\n+c\n b\n".repeat(N_HUNKS);
    let began = std::time::Instant::now();
    let read = parse(hostile.as_bytes(), None).expect("a patch");
    let rejected = apply(&read.files[0], same.as_bytes(), || true).expect_err("a refusal");
    println!("hostile: refused after {:?}", began.elapsed());
    let Rejected::Hunks { n_hunks, failures } = rejected else { panic!("{rejected:?}") };
    assert!(n_hunks == N_HUNKS && failures.len() < N_HUNKS);
}

/// Checks what holds of every result, whatever the patch.
fn check_any(patch: &[u8], old: &[u8]) {
    let Ok(read) = parse(patch, None) else { return };
    for file in &read.files {
        match apply(file, old, || true) {
            Ok(applied) => {
                let mut end = 0;
                for change in applied.changes() {
                    assert!(end <= change.range.start && change.range.start <= change.range.end);
                    end = change.range.end;
                }
                assert!(end <= old.len());
            }
            Err(rejected) => drop(rejected.to_error("x")),
        }
    }
}

const LINE: &str =
    "(a|b|c|}|--- a/x|\\+\\+\\+ b/x|@@ -1 \\+1 @@|diff --git a/x b/x|\\\\ No|-- |\u{e9}| |\t|)";

fn joined(lines: &[String], ending: &str, is_ended: bool) -> String {
    let end = if is_ended && !lines.is_empty() { ending } else { "" };
    lines.join(ending) + end
}

proptest! {
    #[test]
    fn a_diff_makes_one_text_of_the_other(
        old in prop::collection::vec(LINE, 0..40),
        edits in prop::collection::vec((any::<prop::sample::Index>(), LINE, 0..3_u8), 0..8),
        context in 0..4_usize,
        is_crlf in any::<bool>(),
        ended in any::<(bool, bool)>(),
    ) {
        let mut new = old.clone();
        for (at, line, deed) in edits {
            let at = at.index(new.len() + 1);
            match deed {
                0 => new.insert(at, line),
                _ if at == new.len() => new.push(line),
                1 => drop(new.remove(at)),
                _ => new[at] = line,
            }
        }
        let ending = if is_crlf { "\r\n" } else { "\n" };
        let (old, new) = (joined(&old, ending, ended.0), joined(&new, ending, ended.1));
        let diff = TextDiff::from_lines(&old, &new);
        let patch = diff.unified_diff().context_radius(context).header("a/x", "b/x").to_string();
        if old != new {
            let read = parse(patch.as_bytes(), None);
            prop_assert!(read.is_ok(), "{:?}\n{}", read, patch);
            let read = read.expect("a patch");
            prop_assert_eq!(read.files.len(), 1, "{}", patch);
            let applied = apply(&read.files[0], old.as_bytes(), || true);
            prop_assert!(applied.is_ok(), "{:?}\n{}", applied, patch);
            let made = made(old.as_bytes(), &applied.expect("changes"));
            prop_assert_eq!(String::from_utf8_lossy(&made), new, "{}", patch);
        }
    }

    #[test]
    fn no_text_makes_the_reader_fail(
        lines in prop::collection::vec(
            "([-+ ]?(a|b|\\{|)|@@ -[0-9]{1,3}(,[0-9]{1,22})? \\+[0-9](,[0-9])? @@|@@( a| @@)?|--- (a/)?x|\\+\\+\\+ (b/)?x\
             |diff --git a/x b/[xy]|rename (from|to) x|(new|deleted) file mode 10[06]755|\\\\ No\
             |\\*\\*\\* (Begin Patch|End Patch|(Add|Update|Delete) File: x|End of File|Move to: y)|-- |\"a|[0-9]c)\r?",
            0..30,
        ),
        old in prop::collection::vec("(a|b|\\{|)\r?", 0..12),
        is_envelope in any::<bool>(),
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let patch = lines.join("\n");
        let patch = if is_envelope { format!("*** Begin Patch\n{patch}\n*** End Patch\n") } else { patch };
        let mut patch = patch.into_bytes();
        for (at, byte) in noise {
            if !patch.is_empty() {
                let at = at.index(patch.len());
                patch[at] = byte;
            }
        }
        check_any(&patch, old.join("\n").as_bytes());
    }
}

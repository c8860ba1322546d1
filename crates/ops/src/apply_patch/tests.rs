use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use sinew_testkit::{MemoryWorld, ROOT, call};
use sinew_tool::{Block, Claim};

use super::*;

/// Files before and after: a link is `-> target`, a file that can be executed begins with `#!`.
type Files<'a> = &'a [(&'a str, &'a str)];

fn world(files: Files<'_>) -> MemoryWorld {
    let world = MemoryWorld::new();
    for (path, content) in files {
        match content.strip_prefix("-> ") {
            Some(target) => world.link(path, target),
            None => world.file(path, content),
        };
        if content.starts_with("#!") {
            world.mode(path, 0o755);
        }
    }
    world
}

/// Returns the content of paths: none of a missing one.
fn found(world: &MemoryWorld, paths: &[&str]) -> Vec<(String, String)> {
    let content = |path: &&str| {
        let meta = world.meta(path)?;
        let text = match meta.kind {
            sinew_tool::FileKind::Symlink => {
                let claim =
                    Claim::new("patch", Some((*path).to_owned()), sinew_tool::Access::Inspect);
                let cx = world.context(vec![claim], false).expect("a context");
                let target = cx.world.files.link(sinew_tool::Slot(0)).expect("a link");
                format!("-> {}", String::from_utf8_lossy(&target))
            }
            _ => String::from_utf8_lossy(&world.content(path)?).into_owned(),
        };
        let is_marked = text.starts_with("#!");
        assert_eq!(meta.mode & 0o111 != 0 && !text.starts_with("-> "), is_marked, "mode of {path}");
        Some(((*path).to_owned(), text))
    };
    paths.iter().filter_map(content).collect()
}

/// Applies a patch by the native row; returns the text of the reply, or the error with its hint.
fn apply(world: &MemoryWorld, args: Value) -> Result<String, (Kind, String)> {
    apply_by(NATIVE, world, args)
}

fn apply_by(
    row: Row<ApplyPatch>,
    world: &MemoryWorld,
    args: Value,
) -> Result<String, (Kind, String)> {
    let reply = call(world, &row.tool(), args);
    match reply.error {
        None => match reply.content.into_iter().next() {
            Some(Block::Text { text }) => Ok(text),
            other => panic!("{other:?}"),
        },
        Some(error) => {
            let hint = error.hint.map_or(String::new(), |hint| format!("\n{hint}"));
            Err((error.kind, format!("{}{hint}", error.message)))
        }
    }
}

/// Applies a patch to a tree and compares the lines of the reply and the tree.
#[track_caller]
fn check(before: Files<'_>, patch: &str, lines: &[&str], after: Files<'_>) {
    check_args(before, json!({ "patch": patch }), lines, after);
}

#[track_caller]
fn check_args(before: Files<'_>, args: Value, lines: &[&str], after: Files<'_>) {
    let world = world(before);
    let text = apply(&world, args).expect("the patch applies");
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), lines);
    let paths: Vec<&str> = before.iter().chain(after).map(|(path, _)| *path).collect();
    let mut paths = paths;
    paths.sort_unstable();
    paths.dedup();
    let after: Vec<(String, String)> =
        after.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    assert_eq!(found(&world, &paths), after);
}

/// Applies a patch that is refused, and sees that nothing changed.
#[track_caller]
fn refuses(before: Files<'_>, patch: &str, kind: Kind, words: &str) {
    refuses_args(before, json!({ "patch": patch }), kind, words);
}

#[track_caller]
fn refuses_args(before: Files<'_>, args: Value, kind: Kind, words: &str) {
    let world = world(before);
    let paths: Vec<&str> = before.iter().map(|(path, _)| *path).collect();
    let there = found(&world, &paths);
    let metas: Vec<_> = paths.iter().map(|path| world.meta(path)).collect();
    let (found_kind, message) = apply(&world, args.clone()).expect_err(&args.to_string());
    assert!(message.contains(words), "{message}");
    assert_eq!(found_kind, kind, "{message}");
    assert_eq!(found(&world, &paths), there);
    assert_eq!(paths.iter().map(|path| world.meta(path)).collect::<Vec<_>>(), metas);
}

const AB: Files<'_> = &[("a", "1\n2\n3\n"), ("b/c", "x\ny\n")];

#[test]
fn each_deed_of_a_git_diff_is_done() {
    check(
        &[("a", "1\n2\n3\n"), ("d", "gone\n"), ("r", "same\n"), ("s", "#!x\n1\n"), ("z", "run\n")],
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n\
         diff --git a/d b/d\ndeleted file mode 100644\n--- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n\
         diff --git a/n/new b/n/new\nnew file mode 100644\n--- /dev/null\n+++ b/n/new\n@@ -0,0 +1 @@\n+new\n\
         diff --git a/r b/t/r2\nsimilarity index 100%\nrename from r\nrename to t/r2\n\
         diff --git a/s b/s2\nrename from s\nrename to s2\n--- a/s\n+++ b/s2\n@@ -1,2 +1,2 @@\n #!x\n-1\n+2\n\
         diff --git a/a b/a2\ncopy from a\ncopy to a2\n--- a/a\n+++ b/a2\n@@ -3 +3 @@\n-3\n+drei\n\
         diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+t/r2\n\\ No newline at end of file\n\
         diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+#!sh\n",
        &["M a", "D d", "A n/new", "R r -> t/r2", "R s -> s2", "C a -> a2", "A l", "A x"],
        &[
            ("a", "1\ntwo\n3\n"),
            ("a2", "1\n2\ndrei\n"),
            ("l", "-> t/r2"),
            ("n/new", "new\n"),
            ("s2", "#!x\n2\n"),
            ("t/r2", "same\n"),
            ("x", "#!sh\n"),
            ("z", "run\n"),
        ],
    );
}

#[test]
fn modes_change_as_they_are_told() {
    check(
        &[("a", "#!a\n"), ("b", "#!b\n")],
        "diff --git a/b b/b\nindex 1..2 100644\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-#!b\n+#!c\n",
        &["M b"],
        &[("a", "#!a\n"), ("b", "#!c\n")],
    );
    check(
        &[("a", "a\n")],
        "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+#!\n",
        &["M a"],
        &[("a", "#!\n")],
    );
    let world = world(&[("a", "#!a\n")]);
    let off = "diff --git a/a b/a\nold mode 100755\nnew mode 100644\n";
    assert_eq!(apply(&world, json!({ "patch": off })).expect("done"), "patched 1 file\nM a\n");
    assert_eq!(world.meta("a").expect("there").mode & 0o777, 0o644);
}

#[test]
fn each_deed_of_an_envelope_is_done() {
    check(
        &[("a", "1\n2\n3\n"), ("d", "anything"), ("m", "one\ntwo\n")],
        "*** Begin Patch\n*** Update File: a\n@@\n 1\n-2\n+two\n*** Delete File: d\n\
         *** Add File: n\n+new\n*** Update File: m\n*** Move to: to/m\n@@\n-two\n+zwei\n*** End Patch\n",
        &["M a", "D d", "A n", "R m -> to/m"],
        &[("a", "1\ntwo\n3\n"), ("n", "new\n"), ("to/m", "one\nzwei\n")],
    );
}

#[test]
fn later_entries_see_what_earlier_ones_left() {
    let envelope = |body: &str| format!("*** Begin Patch\n{body}*** End Patch\n");
    check(
        AB,
        &envelope(
            "*** Update File: a\n@@\n-1\n+one\n*** Update File: ./a\n@@\n-one\n+uno\n\
             *** Add File: n\n+x\n*** Update File: n\n@@\n-x\n+y\n",
        ),
        &["M a", "M a", "A n", "M n"],
        &[("a", "uno\n2\n3\n"), ("b/c", "x\ny\n"), ("n", "y\n")],
    );
    check(
        AB,
        &envelope(
            "*** Delete File: a\n*** Add File: a\n+new\n*** Add File: n\n+x\n*** Delete File: n\n",
        ),
        &["D a", "A a", "A n", "D n"],
        &[("a", "new\n"), ("b/c", "x\ny\n")],
    );
    check(
        AB,
        &envelope(
            "*** Update File: a\n*** Move to: c\n@@\n-1\n+one\n*** Update File: c\n@@\n-2\n+two\n",
        ),
        &["R a -> c", "M c"],
        &[("b/c", "x\ny\n"), ("c", "one\ntwo\n3\n")],
    );
    refuses(
        AB,
        &envelope("*** Delete File: a\n*** Update File: a\n@@\n-1\n+one\n"),
        Kind::FileNotFound,
        "nothing was changed: argument `patch`: no such file: a",
    );
    refuses(
        AB,
        &envelope("*** Add File: n\n+x\n*** Add File: n\n+x\n"),
        Kind::NoMatch,
        "creates a file that is there already: n",
    );
}

/// Files that change places: each of the two is removed by the other entry.
#[test]
fn renames_of_a_git_diff_do_not_depend_on_their_order() {
    check(
        &[("a", "#!a\n"), ("b", "b\n")],
        "diff --git a/b b/a\nrename from b\nrename to a\ndiff --git a/a b/b\nrename from a\nrename to b\n\
         --- a/a\n+++ b/b\n@@ -1 +1 @@\n-#!a\n+#!A\n",
        &["R b -> a", "R a -> b"],
        &[("a", "b\n"), ("b", "#!A\n")],
    );
    check(
        &[("a", "a\n"), ("b", "b\n"), ("c", "c\n")],
        "diff --git a/a b/b\nrename from a\nrename to b\ndiff --git a/b b/c\nrename from b\nrename to c\n\
         diff --git a/c b/a\nrename from c\nrename to a\n",
        &["R a -> b", "R b -> c", "R c -> a"],
        &[("a", "c\n"), ("b", "a\n"), ("c", "b\n")],
    );
    check(
        &[("a", "1\n2\n")],
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n\
         diff --git a/a b/c\ncopy from a\ncopy to c\n--- a/a\n+++ b/c\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n",
        &["M a", "C a -> c"],
        &[("a", "one\n2\n"), ("c", "1\ntwo\n")],
    );
}

/// A second name moved onto one that was pushed aside took the place of what waited there.
#[test]
fn only_one_content_is_pushed_aside() {
    let before: Files<'_> = &[("a", "AAA\n"), ("b", "BBB\n"), ("c", "CCC\n")];
    let renamed = |from: &str, to: &str| {
        format!("diff --git a/{from} b/{to}\nrename from {from}\nrename to {to}\n")
    };
    let copied = |from: &str, to: &str| renamed(from, to).replace("rename", "copy");
    let change = "--- a/b\n+++ b/b\n@@ -1 +1 @@\n-BBB\n+bbb\n";
    for first in [renamed("a", "b"), copied("a", "b"), change.to_owned()] {
        for second in [renamed("c", "b"), copied("c", "b")] {
            let patch = format!("{first}{second}{}", renamed("b", "d"));
            refuses(before, &patch, Kind::NoMatch, "creates a file that is there already: b");
        }
    }
}

#[test]
fn what_a_diff_cannot_do_is_told() {
    let renamed = |from: &str, to: &str| {
        format!("diff --git a/{from} b/{to}\nrename from {from}\nrename to {to}\n")
    };
    let words = "no such file: b\nrenames and copies of a diff start from the files before it";
    refuses(&[("a", "1\n")], &(renamed("a", "b") + &renamed("b", "c")), Kind::FileNotFound, words);
    let words = "the patch names a as a file and, in a/x, as a directory";
    for body in [
        "*** Delete File: a\n*** Add File: a/x\n+1\n",
        "*** Add File: a/x\n+1\n*** Delete File: ./a\n",
    ] {
        let patch = format!("*** Begin Patch\n{body}*** End Patch\n");
        refuses(AB, &patch, Kind::InvalidArgs, words);
    }
}

proptest! {
    /// Whatever a patch does that deletes nothing: the content of each file is still somewhere.
    #[test]
    fn no_content_vanishes_without_a_delete(
        deeds in prop::collection::vec((0..4_u8, 0..5_usize, 0..5_usize), 1..6),
        n_there in 1..5_usize,
    ) {
        let names = ["a", "b", "c", "d", "e"];
        let world = MemoryWorld::new();
        for name in names.iter().take(n_there) {
            world.file(name, format!("first of {name}\nlast\n"));
        }
        let mut patch = String::new();
        for (deed, old, new) in deeds {
            let (old, new) = (names[old], names[new]);
            let header = format!("diff --git a/{old} b/{new}\n");
            patch.push_str(&match deed {
                0 if old != new => format!("{header}rename from {old}\nrename to {new}\n"),
                1 if old != new => format!("{header}copy from {old}\ncopy to {new}\n"),
                2 => format!("--- a/{old}\n+++ b/{old}\n@@ -2 +2 @@\n-last\n+changed\n"),
                _ => format!("--- /dev/null\n+++ b/{new}\n@@ -0,0 +1 @@\n+made\n"),
            });
        }
        let _ = apply(&world, json!({ "patch": patch }));
        let all: String = found(&world, &names).into_iter().map(|(_, text)| text).collect();
        for name in names.iter().take(n_there) {
            prop_assert!(all.contains(&format!("first of {name}\n")), "{name} is gone:\n{patch}");
        }
    }
}

#[test]
fn how_hunks_were_found_is_told() {
    check(
        &[("a", "0\n0\n1\n2\n3\n"), ("b", "1\r\n2\r\n"), ("c", "1  \n2\n")],
        "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n\
         --- a/b\n+++ b/b\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n\
         --- a/c\n+++ b/c\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n",
        &[
            "M a (hunk #1: offset 2 lines)",
            "M b (hunk #1: line endings differ)",
            "M c (hunk #1: blanks at line ends differ)",
        ],
        &[("a", "0\n0\n1\ntwo\n3\n"), ("b", "1\r\ntwo\r\n"), ("c", "1  \ntwo\n")],
    );
}

#[test]
fn a_path_names_the_one_file() {
    let hunk = "@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n";
    let after: Files<'_> = &[("a", "1\ntwo\n3\n"), ("b/c", "x\ny\n")];
    for patch in [hunk.to_owned(), format!("--- some/where\n+++ else/where\n{hunk}")] {
        check_args(AB, json!({ "patch": patch, "path": "a" }), &["M a"], after);
    }
    refuses(AB, hunk, Kind::InvalidArgs, "name no file; pass it as path");
    let two = format!("--- a/a\n+++ b/a\n{hunk}--- a/b/c\n+++ b/b/c\n@@ -1 +1 @@\n-x\n+z\n");
    let words = "line 8 of the patch is about a second file";
    refuses_args(AB, json!({ "patch": two, "path": "a" }), Kind::InvalidArgs, words);
    let moved = "diff --git a/a b/n\nrename from a\nrename to n\n";
    let words = "line 1 of the patch gives the file another name";
    refuses_args(AB, json!({ "patch": moved, "path": "a" }), Kind::InvalidArgs, words);
    let strip = json!({ "patch": format!("--- x/y/a\n+++ x/y/a\n{hunk}"), "strip": 2 });
    check_args(AB, strip, &["M a"], after);
}

/// A patch whose second header was `/dev/null` had removed the file where headers are not heeded.
#[test]
fn no_header_removes_or_marks_a_file_where_only_the_content_counts() {
    const ONLY: &[(&str, Preset)] = &[("content_only", Preset::Bool(true))];
    let gone = "@@ -1,3 +0,0 @@\n-1\n-2\n-3\n";
    let one = "@@ -2 +2 @@\n-2\n+two\n";
    for (patch, after) in [
        (format!("--- a/a\n+++ /dev/null\n{gone}"), Ok("")),
        (
            format!("diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n{gone}"),
            Ok(""),
        ),
        (format!("--- a/a\n+++ /dev/null\n{one}"), Ok("1\ntwo\n3\n")),
        (
            format!(
                "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n--- a/a\n+++ b/a\n{one}"
            ),
            Ok("1\ntwo\n3\n"),
        ),
        (
            String::from("diff --git a/a b/a\nold mode 100644\nnew mode 100755\n"),
            Err((Kind::InvalidArgs, "the entry at line 1 of the patch has no hunks")),
        ),
        (
            String::from("*** Begin Patch\n*** Delete File: a\n*** End Patch\n"),
            Err((Kind::InvalidArgs, "the entry at line 2 of the patch has no hunks")),
        ),
    ] {
        let world = world(AB);
        let row = Row { presets: ONLY, ..NATIVE };
        let done = apply_by(row, &world, json!({ "patch": patch, "path": "a" }));
        match (&done, after) {
            (Ok(_), Ok(after)) => assert_eq!(found(&world, &["a"]), [("a".into(), after.into())]),
            (Err((kind, message)), Err((wanted, words))) => {
                assert_eq!(*kind, wanted);
                assert!(message.contains(words), "{message}");
                assert_eq!(found(&world, &["a"]), [("a".into(), "1\n2\n3\n".into())]);
            }
            _ => panic!("{done:?} of {patch}"),
        }
    }
}

#[test]
fn what_does_not_fit_is_told_with_what_is_nearest() {
    refuses(
        AB,
        "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-zwei\n+two\n 3\n--- a/b/c\n+++ b/b/c\n@@ -1 +1 @@\n-x\n+z\n",
        Kind::NoMatch,
        "nothing was changed: hunk #1 (line 3 of the patch) was not found: a",
    );
    let long = "fn first() {\n    let value = compute(1);\n}\n";
    refuses(
        &[("a", long), ("b", long)],
        "--- a/a\n+++ b/a\n@@ -2 +2 @@\n-    let value = compute(2);\n+x\n\
         --- a/b\n+++ b/b\n@@ -2 +2 @@\n-    let value = compute(3);\n+x\n",
        Kind::NoMatch,
        "; hunk #1 (line 8 of the patch) was not found: b",
    );
    let world = world(&[("a", long), ("b", long)]);
    let patch = "--- a/a\n+++ b/a\n@@ -2 +2 @@\n-    let value = compute(2);\n+x\n\
                 --- a/b\n+++ b/b\n@@ -2 +2 @@\n-    let value = compute(3);\n+x\n";
    let (_, message) = apply(&world, json!({ "patch": patch })).expect_err("it is refused");
    for words in ["\na: ", "\nb: ", "    let value = compute(1);"] {
        assert!(message.contains(words), "{words}: {message}");
    }
}

#[test]
fn what_git_refuses_is_refused() {
    for (before, patch, kind, words) in [
        (
            AB,
            "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+new\n",
            Kind::NoMatch,
            "creates a file that is there already: a",
        ),
        (
            AB,
            "--- a/a\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-2\n",
            Kind::NoMatch,
            "deletes a, and line 3 would be left of it",
        ),
        (AB, "--- a/no\n+++ b/no\n@@ -1 +1 @@\n-1\n+2\n", Kind::FileNotFound, "no such file: no"),
        (
            AB,
            "diff --git a/a b/b/c\nrename from a\nrename to b/c\n",
            Kind::NoMatch,
            "creates a file that is there already: b/c",
        ),
        (
            AB,
            "diff --git a/no b/n\ncopy from no\ncopy to n\n",
            Kind::FileNotFound,
            "no such file: no",
        ),
        (
            AB,
            "diff --git a/b b/b\ndeleted file mode 100644\n",
            Kind::NotRegularFile,
            "not a regular file but a directory: b",
        ),
        (
            AB,
            "--- /dev/null\n+++ b/a/x\n@@ -0,0 +1 @@\n+new\n",
            Kind::NotRegularFile,
            "not a directory: a/x",
        ),
        (
            &[("l", "-> a"), ("a", "1\n")],
            "--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+new\n",
            Kind::NoMatch,
            "there already: l",
        ),
        (
            &[("l", "-> a"), ("a", "1\n")],
            "--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n",
            Kind::NotRegularFile,
            "a symbolic link, which this tool does not follow: l",
        ),
        (
            AB,
            "diff --git a/a b/a\ndeleted file mode 120000\n--- a/a\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-1\n-2\n-3\n",
            Kind::NoMatch,
            "is about a symbolic link, but this is a file: a",
        ),
        (
            AB,
            "diff --git a/l b/l\nnew file mode 120000\n",
            Kind::InvalidArgs,
            "gives a symbolic link a target that no link can have: l",
        ),
    ] {
        refuses(before, patch, kind, words);
    }
}

#[test]
fn links_are_followed_where_content_changes_and_meant_elsewhere() {
    let before: Files<'_> = &[("a", "1\n"), ("l", "-> a")];
    check(
        before,
        "--- a/l\n+++ b/l\n@@ -1 +1 @@\n-1\n+2\n",
        &["M a"],
        &[("a", "2\n"), ("l", "-> a")],
    );
    check(
        before,
        "diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-a\n\
         \\ No newline at end of file\n+b\n\\ No newline at end of file\n",
        &["M l"],
        &[("a", "1\n"), ("l", "-> b")],
    );
    check(
        before,
        "diff --git a/l b/m\nrename from l\nrename to m\ndiff --git a/l b/n\ncopy from l\ncopy to n\n",
        &["R l -> m", "C l -> n"],
        &[("a", "1\n"), ("m", "-> a"), ("n", "-> a")],
    );
    check(
        before,
        "*** Begin Patch\n*** Delete File: l\n*** End Patch\n",
        &["D l"],
        &[("a", "1\n")],
    );
    check(
        before,
        "diff --git a/l b/l\ndeleted file mode 120000\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\
         \\ No newline at end of file\ndiff --git a/l b/l\nnew file mode 100644\n--- /dev/null\n\
         +++ b/l\n@@ -0,0 +1 @@\n+a file\n",
        &["D l", "A l"],
        &[("a", "1\n"), ("l", "a file\n")],
    );
    // The same file by two names is never changed twice.
    refuses(
        before,
        "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-1\n+3\n",
        Kind::InvalidArgs,
        "the patch names one file in two ways: a and l",
    );
}

/// Names that lead elsewhere are refused before anything is read.
#[test]
fn every_name_is_contained() {
    let hunk = "@@ -0,0 +1 @@\n+x\n";
    let before: Files<'_> = &[("a", "1\n"), ("out", "-> ../outside"), ("dir", "-> ..")];
    for name in ["../x", "/etc/passwd", "./../x", "out", "out/x", "dir/x"] {
        for patch in [
            format!("--- /dev/null\n+++ {name}\n{hunk}"),
            format!("diff --git a/a b/c\ncopy from {name}\ncopy to c\n"),
            format!("diff --git a/a b/c\nrename from a\nrename to {name}\n"),
            format!("*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch\n"),
            format!("*** Begin Patch\n*** Update File: {name}\n@@\n-x\n+y\n*** End Patch\n"),
            format!(
                "*** Begin Patch\n*** Update File: a\n*** Move to: {name}\n@@\n-1\n+2\n*** End Patch\n"
            ),
        ] {
            // A copy of a link is a link, whatever its target is; that is tried below.
            if name == "out" && patch.contains("copy from out") {
                continue;
            }
            let world = world(before);
            let (kind, message) =
                apply(&world, json!({ "patch": patch, "strip": 0 })).expect_err(&patch);
            // The link itself lies inside, so its name is taken.
            let is_taken = name == "out" && kind == Kind::NoMatch;
            assert!(is_taken || kind == Kind::PathDenied, "{patch}: {message}");
            assert_eq!(world.content("a"), Some(b"1\n".to_vec()));
        }
    }
    // A link that leads out is copied as the text that it is.
    check(
        before,
        "diff --git a/out b/c\ncopy from out\ncopy to c\n",
        &["C out -> c"],
        &[("a", "1\n"), ("c", "-> ../outside"), ("dir", "-> .."), ("out", "-> ../outside")],
    );
}

/// A patch for `f` and a name outside the roots had been applied to `f`.
#[test]
fn names_that_are_not_used_are_contained() {
    let before: Files<'_> =
        &[("f", "1\n"), ("d/e", ""), ("out", "-> ../outside"), ("dir", "-> ..")];
    let change = "@@ -1 +1 @@\n-1\n+2\n";
    let remove = "@@ -1 +0,0 @@\n-1\n";
    let epoch = "\t1970-01-01 00:00:00 +0000";
    for other in ["../outside/x", "/etc/x", "d/../../y", "out", "out/x", "dir/x"] {
        for patch in [
            format!("--- a/f\n+++ b/{other}\n{change}"),
            format!("--- a/{other}\n+++ b/f\n{change}"),
            format!("--- \"a/f\"\n+++ \"b/{other}\"\n{change}"),
            format!("--- f\n+++ {other}{epoch}\n{remove}"),
            format!("--- {other}{epoch}\n+++ n\n@@ -0,0 +1 @@\n+1\n"),
            format!("*** Begin Patch\n--- a/f\n+++ b/{other}\n{change}*** End Patch\n"),
        ] {
            // An absolute name after a prefix is a relative one.
            let patch = patch.replace("a//", "/").replace("b//", "/");
            refuses(before, &patch, Kind::PathDenied, "path denied");
        }
    }
    // A name inside is looked at and nothing else, whether anything is there.
    let after: Files<'_> = &[("f", "2\n")];
    for other in ["f.orig", "no/where/f", "\"f\\t\"", "f/x"] {
        let before: Files<'_> = &[("f", "1\n")];
        check(before, &format!("--- {other}\n+++ f\n{change}"), &["M f"], after);
    }
    // With `path`, no name of the patch counts.
    let args = json!({ "patch": format!("--- ../x\n+++ ../y\n{change}"), "path": "f" });
    check_args(&[("f", "1\n")], args, &["M f"], after);
}

/// A name is claimed for no more than what the patch makes of it.
#[test]
fn claims_are_as_narrow_as_the_patch() {
    let patch = "diff --git a/m b/m\n--- a/m\n+++ b/m\n@@ -1 +1 @@\n-1\n+2\n\
                 diff --git a/d b/d\ndeleted file mode 100644\n--- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n\
                 diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+1\n\
                 diff --git a/r b/s\nrename from r\nrename to s\n\
                 diff --git a/c b/e\ncopy from c\ncopy to e\n";
    let claims = |dry_run| {
        let args = json!({ "patch": patch, "dry_run": dry_run, "follow_links": true });
        let args = serde_json::from_value(args).expect("arguments");
        let claims = ApplyPatch::claims(&args, &FileSettings::default());
        let words = claims.into_iter().map(|claim| {
            let access = format!("{:?}", claim.access);
            format!(
                "{} {}",
                claim.path.unwrap_or_default(),
                access.replace(" { ", "(").replace(" }", ")")
            )
        });
        words.collect::<Vec<_>>()
    };
    let made = "Write(parents: true, links: Itself)";
    assert_eq!(
        claims(false),
        [
            "m Edit(links: Follow)",
            "d Remove",
            &format!("n {made}"),
            "r Remove",
            &format!("s {made}"),
            "c Inspect",
            &format!("e {made}"),
        ]
    );
    let looks =
        ["m Read", "d Inspect", "n Inspect", "r Inspect", "s Inspect", "c Inspect", "e Inspect"];
    assert_eq!(claims(true), looks);
}

#[test]
fn a_dry_run_shows_and_changes_nothing() {
    let world = world(&[("a", "1\n2\n3\n"), ("d", "gone\n"), ("r", "same\n"), ("bin", "\0\n")]);
    let patch = "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n\
                 diff --git a/d b/d\ndeleted file mode 100644\n--- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n\
                 diff --git a/r b/t/r\nrename from r\nrename to t/r\n\
                 diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+#!sh\n\
                 *** not a line of it\n";
    let args = json!({ "patch": patch, "dry_run": true });
    let diff = "--- a\n+++ a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n--- d\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n\
                --- r\n+++ t/r\n[renamed]\n--- /dev/null\n+++ x\n[executable]\n@@ -0,0 +1 @@\n+#!sh\n";
    let text = apply(&world, args.clone()).expect("it would apply");
    assert_eq!(text, format!("would patch 4 files\nM a\nD d\nR r -> t/r\nA x\n{diff}"));
    assert_eq!(found(&world, &["a", "d", "r", "t/r", "x"]).len(), 3);
    let tool = NATIVE.tool();
    let args = json!({ "patch": patch });
    assert_eq!(world.preview(&tool, &args).expect("a preview"), Preview::Diff(diff.to_owned()));
    let fails = json!({ "patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-no\n+x\n" });
    assert_eq!(world.preview(&tool, &fails).expect("a preview"), Preview::Nothing);
    // A dry run says what would be refused.
    let mut fails = fails;
    fails["dry_run"] = json!(true);
    assert_eq!(apply(&world, fails).expect_err("it does not fit").0, Kind::NoMatch);
}

/// Checks a change of a file that is not in UTF-8: the new content, or a refusal with these words.
#[track_caller]
fn check_bytes(old: &[u8], hunk: &str, expected: Result<&[u8], (Kind, &str)>) {
    let world = MemoryWorld::new();
    world.file("a", old);
    let result = apply(&world, json!({ "patch": format!("--- a/a\n+++ b/a\n{hunk}") }));
    let after = world.content("a").expect("it is there");
    match expected {
        Ok(new) => {
            result.expect("it applies");
            assert_eq!(after, new);
        }
        Err((kind, words)) => {
            let (found_kind, message) = result.expect_err("it is refused");
            assert!(message.contains(words), "{message}");
            assert_eq!((found_kind, after.as_slice()), (kind, old));
        }
    }
}

/// Lines were added as UTF-8 between halves of characters, because contents were taken as bytes.
#[test]
fn other_encodings_are_kept_or_the_patch_is_refused() {
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let utf32 =
        |text: &str| -> Vec<u8> { text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect() };
    for encode in [&utf16 as &dyn Fn(&str) -> Vec<u8>, &utf32] {
        let old = encode("\u{feff}one\r\ntwo\r\n");
        for (hunk, new) in [
            ("@@ -0,0 +1 @@\n+\u{1f600}\n", "\u{feff}\u{1f600}\none\r\ntwo\r\n"),
            ("@@ -1,0 +2 @@\n+new\n", "\u{feff}one\r\nnew\ntwo\r\n"),
            ("@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n", "\u{feff}one\r\nTWO\r\n"),
        ] {
            check_bytes(&old, hunk, Ok(&encode(new)));
        }
    }
    let latin = b"caf\xe9 au lait, tr\xe8s bon\nabc\n";
    let na = b"caf\xe9 au lait, tr\xe8s bon\nna\xefve\n";
    check_bytes(latin, "@@ -2 +2 @@\n-abc\n+na\u{ef}ve\n", Ok(na));
    let words = "the patch has a character that windows-1252 does not have";
    let refused = Err((Kind::InvalidArgs, words));
    check_bytes(latin, "@@ -2 +2 @@\n-abc\n+\u{1f600}\n", refused);
    let binary = b"\x7fELF\0\x01\nold\n";
    let words = "binary content cannot be edited: a";
    for hunk in ["@@ -2 +2 @@\n-old\n+new\n", "@@ -0,0 +1 @@\n+new\n"] {
        check_bytes(binary, hunk, Err((Kind::Binary, words)));
    }
    // Nothing but the first line has a mark, and lines are added behind it.
    let marked = "\u{feff}one\n".as_bytes();
    check_bytes(marked, "@@ -0,0 +1 @@\n+zero\n", Ok("\u{feff}zero\none\n".as_bytes()));
}

/// Read does not show a byte order mark, so patches of a first line never had one.
#[test]
fn a_byte_order_mark_need_not_be_in_the_patch() {
    let before: Files<'_> = &[("a", "\u{feff}1\n2\n"), ("d", "\u{feff}1\n")];
    check(
        before,
        "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n--- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n",
        &["M a", "D d"],
        &[("a", "\u{feff}one\n2\n")],
    );
    check(
        before,
        "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-\u{feff}1\n+one\n 2\n",
        &["M a"],
        &[("a", "one\n2\n"), ("d", "\u{feff}1\n")],
    );
}

#[test]
fn nothing_is_written_where_nothing_changes() {
    let world = world(AB);
    let before = world.meta("a");
    let patch = "*** Begin Patch\n*** Update File: a\n@@\n-1\n+one\n*** Update File: a\n@@\n-one\n+1\n*** End Patch\n";
    apply(&world, json!({ "patch": patch })).expect("it applies");
    assert_eq!(world.meta("a"), before);
}

#[test]
fn errors_of_the_patch_name_its_line() {
    for (patch, words) in [
        ("", "no patch was found in the text"),
        ("--- a/a\n+++ b/a\n", "line 1 of the patch names a file, and no hunk follows"),
        ("*** Begin Patch\n*** Update File: a\n@@\n-1\n", "has no `*** End Patch`"),
        (
            "diff --git a/a b/a\nBinary files a/a and b/a differ\n",
            "line 2 of the patch changes a binary file",
        ),
        ("--- a/a/\n+++ b/a/\n@@ -1 +1 @@\n-1\n+2\n", "not the name of a file: a/"),
    ] {
        let world = world(AB);
        let (kind, message) = apply(&world, json!({ "patch": patch })).expect_err(patch);
        assert!(message.contains(words), "{message}");
        assert!(matches!(kind, Kind::InvalidArgs | Kind::InvalidPath), "{kind:?}");
    }
}

#[test]
fn limits_are_named() {
    let many: String =
        (0..10_001).map(|n| format!("--- /dev/null\n+++ b/{n}\n@@ -0,0 +1 @@\n+x\n")).collect();
    refuses(AB, &many, Kind::LimitReached, "names 10001 files, and at most 10000 are changed");
    let large = "x".repeat(MAX_PATCH_BYTES + 1);
    refuses(AB, &large, Kind::TooLarge, "at most 67108864 are read");
}

#[test]
fn a_hundred_thousand_hunks_take_little_time() {
    let n = 100_000;
    let world = MemoryWorld::new();
    let lines =
        |word: &str| -> String { (0..n).map(|n| format!("{word} {n}\nkept {n}\n")).collect() };
    world.file("a", lines("old"));
    let hunks: String =
        (0..n).map(|n| format!("@@ -{0} +{0} @@\n-old {n}\n+new {n}\n", 2 * n + 1)).collect();
    let began = Instant::now();
    apply(&world, json!({ "patch": format!("--- a/a\n+++ b/a\n{hunks}") })).expect("it applies");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(world.content("a"), Some(lines("new").into_bytes()));
}

#[test]
fn small_patches_of_few_files_are_cheap() {
    let world = MemoryWorld::new();
    world.file("large", vec![b'x'; SMALL]);
    let added = |n: usize| -> String {
        (0..n).map(|n| format!("--- /dev/null\n+++ b/{n}\n@@ -0,0 +1 @@\n+x\n")).collect()
    };
    for (patch, expected) in [
        (added(FEW), Cost::Cheap),
        (added(FEW + 1), Cost::Long),
        (String::from("--- a/large\n+++ b/large\n@@ -1 +1 @@\n-1\n+2\n"), Cost::Long),
        (format!("{}{}", "text\n".repeat(SMALL / 4), added(1)), Cost::Long),
    ] {
        let args = serde_json::from_value(json!({ "patch": patch })).expect("arguments");
        let claims = ApplyPatch::claims(&args, &FileSettings::default());
        let targets = world.contain(claims).expect("contained");
        assert_eq!(ApplyPatch::cost(&args, &targets), expected);
    }
}

#[test]
fn absolute_names_inside_are_taken() {
    check_args(
        AB,
        json!({ "patch": format!("*** Begin Patch\n*** Update File: {ROOT}/a\n@@\n-1\n+one\n*** End Patch\n") }),
        &["M a"],
        &[("a", "one\n2\n3\n"), ("b/c", "x\ny\n")],
    );
}

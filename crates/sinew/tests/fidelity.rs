//! What a change leaves as it was: every kind of file that tools are known to damage, through the
//! runtime, in two dialects, beside a program that reads a text, replaces and writes it.
//!
//! A directory is recorded whole before and after each call: names, contents, modes, owners, links,
//! extended attributes. After a refusal nothing may differ; after a change, nothing but the requested part. Everything
//! else is damage. The table goes to `docs/fidelity.md`.

mod case;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use sinew::approval::{Approvals, Asking};
use sinew::checkpoint::{CheckpointSettings, Checkpoints};
use sinew::dialects::{MOLTIS, NATIVE};
use sinew::tool::Dialect;
use sinew::{Builder, Reply, Runtime, StateDir};

use crate::caller::Caller;
use crate::snapshot::Snapshot;
use case::{Case, CaseOp, RENAMED};

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused(String),
    Damaged(String),
    /// This system cannot lay the file out.
    Skipped,
    /// The call would never come back.
    NotRun,
    /// The vocabulary has no such tool.
    NoTool,
}

impl Outcome {
    fn words(&self) -> String {
        match self {
            Self::Done => String::from("ok"),
            Self::Refused(kind) if kind.is_empty() => String::from("refused"),
            Self::Refused(kind) => format!("refused: `{kind}`"),
            Self::Damaged(what) => format!("DAMAGE: {what}"),
            Self::Skipped => String::from("skipped"),
            Self::NotRun => String::from("not run: it would wait for ever"),
            Self::NoTool => String::from("no such tool"),
        }
    }
}

/// Who makes the change.
#[derive(Debug, Clone, Copy)]
enum Maker {
    Dialect(Dialect),
    Naive,
}

const MAKERS: [Maker; 3] = [Maker::Dialect(NATIVE), Maker::Dialect(MOLTIS), Maker::Naive];

#[test]
fn a_change_damages_nothing() {
    let mut rows = Vec::new();
    for case in case::cases() {
        for deed in case.deeds {
            let outcomes = MAKERS.map(|maker| check(&case, *deed, maker));
            rows.push((case.name, *deed, outcomes));
        }
    }
    let damaged = |column: usize| -> Vec<String> {
        rows.iter()
            .filter(|(.., outcomes)| matches!(outcomes[column], Outcome::Damaged(_)))
            .map(|(name, deed, outcomes)| format!("{name}, {deed:?}: {}", outcomes[column].words()))
            .collect()
    };
    assert_eq!(damaged(0), Vec::<String>::new(), "in the native dialect");
    assert_eq!(damaged(1), Vec::<String>::new(), "in the dialect moltis");
    assert!(4 <= damaged(2).len(), "the harness does not see damage: {:#?}", damaged(2));
    let skipped = rows.iter().filter(|(.., outcomes)| outcomes[0] == Outcome::Skipped);
    let skipped: Vec<String> = skipped.map(|(name, deed, _)| format!("{name}, {deed:?}")).collect();
    println!("{} rows, {} skipped here: {skipped:#?}", rows.len(), skipped.len());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fidelity.md");
    sinew_testkit::golden(&file, &page(&rows, &file));
}

/// Lays a case out, makes its change, and says what became of it.
fn check(case: &Case, deed: CaseOp, maker: Maker) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let top = std::fs::canonicalize(dir.path()).unwrap();
    let root = top.join("ws");
    if !case.lay_out(&top) {
        return Outcome::Skipped;
    }
    let before = Snapshot::of(&top);
    if case.blocks && matches!(maker, Maker::Naive) {
        return Outcome::NotRun;
    }
    if deed == CaseOp::Restore {
        return match maker {
            Maker::Dialect(dialect) => restored(case, dialect, &top, before),
            Maker::Naive => Outcome::NoTool,
        };
    }
    let is_patch = matches!(deed, CaseOp::ApplyPatch | CaseOp::Insert | CaseOp::Rename);
    if is_patch && matches!(maker, Maker::Dialect(dialect) if dialect.name != NATIVE.name) {
        return Outcome::NoTool;
    }
    let refusal = match maker {
        Maker::Dialect(dialect) => by_runtime(case, deed, dialect, &root),
        Maker::Naive => by_text(case, deed, &root).err(),
    };
    let after = Snapshot::of(&top);
    if let Some(kind) = refusal {
        return match before.differs(&after) {
            None => Outcome::Refused(kind),
            Some(what) => Outcome::Damaged(format!("refused, yet {what}")),
        };
    }
    let Some(content) = case.expected(deed) else {
        return match before.differs(&after) {
            None => Outcome::Damaged(String::from("said to be done, and is not")),
            Some(what) => Outcome::Damaged(what),
        };
    };
    let mut expected = before;
    (case.effect)(&mut expected, &content);
    if deed == CaseOp::Rename {
        let node = expected.0.remove(&format!("ws/{}", case.path)).unwrap();
        expected.0.insert(format!("ws/{RENAMED}"), node);
    }
    // Whether a plain write drops set-id bits depends on who writes.
    let forgiving = matches!(maker, Maker::Naive);
    match expected.differs(&if forgiving { after.without_set_id() } else { after }) {
        None => Outcome::Done,
        Some(what) => Outcome::Damaged(what),
    }
}

/// Makes an edit, restores the files before it, and returns the outcome.
fn restored(case: &Case, dialect: Dialect, top: &Path, before: Snapshot) -> Outcome {
    let state = tempfile::tempdir().unwrap();
    let state = StateDir::open(&state.path().join("state")).unwrap();
    let checkpoints = Arc::new(Checkpoints::new(&state, CheckpointSettings::default()));
    let runtime = builder(case, dialect, &top.join("ws"))
        .settings(|settings| settings.checkpoint_before_mutation = true)
        .checkpoints(checkpoints)
        .build()
        .unwrap();
    let caller = Caller::new(&runtime);
    let edit = json!({
        "file_path": top.join("ws").join(case.path),
        "old_string": case.old,
        "new_string": case.new,
        "replace_all": case.all,
    });
    let edited = caller.call("Edit", edit);
    let between = Snapshot::of(top);
    if let Some(kind) = refusal(&edited) {
        return match before.differs(&between) {
            None => Outcome::Refused(kind),
            Some(what) => Outcome::Damaged(format!("refused, yet {what}")),
        };
    }
    let Some(id) = edited.meta.checkpoint_id else {
        return Outcome::Damaged(String::from("changed without a checkpoint"));
    };
    let tool = if dialect.name == NATIVE.name { "CheckpointRestore" } else { "checkpoint_restore" };
    let reply = caller.call(tool, json!({ "id": id }));
    let after = Snapshot::of(top);
    if let Some(kind) = refusal(&reply) {
        return match between.differs(&after) {
            None => Outcome::Refused(kind),
            Some(what) => Outcome::Damaged(format!("refused, yet {what}")),
        };
    }
    let mut expected = before;
    let content = case.expected(CaseOp::Restore).unwrap_or_default();
    (case.effect)(&mut expected, &content);
    match expected.differs(&after) {
        None => Outcome::Done,
        Some(what) => Outcome::Damaged(what),
    }
}

/// Returns the builder of a runtime over the directory of a case.
fn builder(case: &Case, dialect: Dialect, root: &Path) -> Builder {
    let hard_links = case.hard_links;
    Runtime::builder(dialect)
        .root(root)
        .settings(move |settings| settings.hard_links = hard_links)
        .asking(Asking { approvals: Approvals::Allow, ..Asking::default() })
        .without_store()
}

/// Makes the change by a call; returns why it was refused, if it was.
fn by_runtime(case: &Case, deed: CaseOp, dialect: Dialect, root: &Path) -> Option<String> {
    let runtime = builder(case, dialect, root).build().unwrap();
    let path = root.join(case.path);
    let edit = json!({
        "old_string": case.old,
        "new_string": case.new,
        "replace_all": case.all,
    });
    let (tool, mut arguments) = match deed {
        CaseOp::Edit | CaseOp::Restore => ("Edit", edit),
        CaseOp::MultiEdit => {
            let mut edits = vec![edit];
            edits.extend(
                case.more.iter().map(|(old, new)| json!({ "old_string": old, "new_string": new })),
            );
            ("MultiEdit", json!({ "edits": edits }))
        }
        CaseOp::ApplyPatch => ("ApplyPatch", json!({ "patch": case.diff() })),
        CaseOp::Insert => ("ApplyPatch", json!({ "patch": case.insertion() })),
        CaseOp::Rename => {
            let (from, to) = (case.path, RENAMED);
            let names = format!("diff --git a/{from} b/{to}\nrename from {from}\nrename to {to}\n");
            ("ApplyPatch", json!({ "patch": names }))
        }
        CaseOp::Write => ("Write", json!({ "content": case.written })),
    };
    if tool != "ApplyPatch" {
        arguments["file_path"] = json!(path);
    }
    refusal(&Caller::new(&runtime).call(tool, arguments))
}

/// Returns the kind of error that a reply tells, also where it is shaped as a result.
fn refusal(reply: &Reply) -> Option<String> {
    let kind = reply.error.as_ref().map(|error| error.kind).or(reply.outcome)?;
    Some(kind.as_str().to_owned())
}

/// The usual way: read a text, replace in it, write it back.
fn by_text(case: &Case, deed: CaseOp, root: &Path) -> Result<(), String> {
    let failed = |_| String::new();
    let path = root.join(case.path);
    if deed == CaseOp::Write {
        return std::fs::write(path, case.written).map_err(failed);
    }
    let bytes = std::fs::read(&path).map_err(failed)?;
    if deed == CaseOp::Rename {
        std::fs::write(root.join(RENAMED), bytes).map_err(failed)?;
        return std::fs::remove_file(path).map_err(failed);
    }
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if deed == CaseOp::Insert {
        let at = text.find('\n').map_or(text.len(), |at| at + 1);
        text.insert_str(at, &format!("{}\n", case.new));
        return std::fs::write(path, text).map_err(failed);
    }
    let mut edits = vec![(case.old, case.new)];
    if deed == CaseOp::MultiEdit {
        edits.extend(case.more);
    }
    for (old, new) in edits {
        if !text.contains(old) {
            return Err(String::new());
        }
        text = if case.all { text.replace(old, new) } else { text.replacen(old, new, 1) };
    }
    std::fs::write(path, text).map_err(failed)
}

type Row = (&'static str, CaseOp, [Outcome; 3]);

/// Returns the page. Rows that this system cannot run are kept as they are.
fn page(rows: &[Row], kept: &Path) -> String {
    let kept = std::fs::read_to_string(kept).unwrap_or_default();
    let mut page = String::from(HEAD);
    // Deeds that come out alike share a line.
    let mut lines: Vec<(&str, Vec<String>, Vec<String>, bool)> = Vec::new();
    for (name, deed, outcomes) in rows {
        let cells: Vec<String> = outcomes.iter().map(Outcome::words).collect();
        let skipped = outcomes.contains(&Outcome::Skipped);
        match lines.last_mut() {
            Some((last, deeds, others, _)) if last == name && *others == cells => {
                deeds.push(format!("{deed:?}"));
            }
            _ => lines.push((name, vec![format!("{deed:?}")], cells, skipped)),
        }
    }
    let mut copied: BTreeMap<&str, bool> = BTreeMap::new();
    for (name, deeds, cells, skipped) in lines {
        let begin = format!("| {name} |");
        if skipped && copied.insert(name, true).is_none() {
            for line in kept.lines().filter(|line| line.starts_with(&begin)) {
                page.push_str(&format!("{line}\n"));
            }
        } else if !skipped {
            page.push_str(&format!("{begin} {} | {} |\n", deeds.join(", "), cells.join(" | ")));
        }
    }
    let n = |column: usize, damaged: bool| {
        rows.iter()
            .filter(|(.., outcomes)| matches!(outcomes[column], Outcome::Damaged(_)) == damaged)
            .count()
    };
    if rows.iter().all(|(.., outcomes)| outcomes[0] != Outcome::Skipped) {
        page.push_str(&format!(
            "\n{} rows counted singly: damage in {} of them here, in {} by the naive program.\n",
            rows.len(),
            n(0, true) + n(1, true),
            n(2, true),
        ));
    } else if let Some(line) = kept.lines().last() {
        page.push_str(&format!("\n{line}\n"));
    }
    page
}

const HEAD: &str = "\
# What a change leaves as it was

This page is written by the test `fidelity` of `crates/sinew`; `UPDATE_GOLDEN=1` writes it anew.

Each row is one real file in a directory of its own, changed by one call through the whole runtime:
in the dialect `native`, in the dialect `moltis`, and, as a control, by a naive program that reads
the file as text (what is not UTF-8 replaced), replaces the first place and writes the result. The
directory, and one outside the root, are recorded before and after: names, contents, modes, owners,
links, extended attributes and access lists. *ok*: the named text changed, and nothing else.
*refused*: nothing changed at all. *DAMAGE*: anything else. Set-id bits and capabilities are dropped
by a change, as the kernel does when a file is written. Times are not compared. ApplyPatch gets a diff of
the lines that change, as text in UTF-8, in the rows *Insert* one without context that adds a line,
and in the rows *Rename* one that gives the file another name. In the rows *Restore* an Edit is made and
then undone by its checkpoint: the file is as it was before.

| file | call | native | moltis | naive |
|---|---|---|---|---|
";

#[test]
fn the_harness_sees_every_kind_of_damage() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 6] = [
        ("content", |file| std::fs::write(file, "other").unwrap()),
        ("mode", |file| {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o640)).unwrap();
        }),
        ("name", |file| std::fs::rename(file, file.with_extension("moved")).unwrap()),
        ("a new file", |file| std::fs::write(file.with_extension("more"), "").unwrap()),
        ("kind", |file| {
            std::fs::remove_file(file).unwrap();
            std::os::unix::fs::symlink("elsewhere", file).unwrap();
        }),
        ("links", |file| std::fs::hard_link(file, file.with_extension("link")).unwrap()),
    ];
    for (what, harm) in harms {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file.txt");
        std::fs::write(&file, "content").unwrap();
        let before = Snapshot::of(dir.path());
        assert_eq!(before.differs(&Snapshot::of(dir.path())), None);
        harm(&file);
        assert!(before.differs(&Snapshot::of(dir.path())).is_some(), "{what}");
    }
}

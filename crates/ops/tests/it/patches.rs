//! Patches against `git apply` and GNU `patch`, over diffs that `git diff` and `diff` make of random
//! trees.
//!
//! Where both programs accept a patch and agree on what it makes, the same must come out here, byte
//! for byte and with the same modes. A hunk that is refused here although both accept it must be one that
//! fits in two places that are equally near: both programs take the later one, and here it is refused.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use sinew_ops::patch::{self, FilePatch, PatchMode, PatchOp, Rejected, Why};

/// How many random trees are compared.
const N_CASES: u64 = 600;

/// Contents by name, with whether they can be executed.
type Tree = BTreeMap<String, (Vec<u8>, bool)>;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.roll(all.len() as u64) as usize]
    }
}

/// Lines that a diff may trip over, and lines of code that come again and again.
const LINES: &[&str] = &[
    "",
    "",
    "}",
    "    }",
    "{",
    "-- x",
    "--- a/x",
    "+++ b/x",
    "@@ -1,2 +1,2 @@",
    "+",
    "-",
    " ",
    "\t",
    "\\ No newline at end of file",
    "diff --git a/x b/x",
    "*** Begin Patch",
    "    return 0;",
    "if a:",
    "x = 1  ",
    "caf\u{e9}",
    "    x += 1;\r",
    "-- ",
    "let y = 2;",
    "fn f() {",
    "// note",
];

fn text(dice: &mut Dice, n_lines: u64, variety: u64) -> Vec<String> {
    (0..n_lines).map(|_| line(dice, variety)).collect()
}

fn line(dice: &mut Dice, variety: u64) -> String {
    if dice.chance(variety) {
        format!("line {}", dice.roll(1_000_000))
    } else {
        (*dice.pick(LINES)).to_owned()
    }
}

fn edit(dice: &mut Dice, lines: &mut Vec<String>, n_edits: u64, variety: u64) {
    for _ in 0..n_edits {
        let at = dice.roll(lines.len() as u64 + 1) as usize;
        match dice.roll(3) {
            0 => lines.insert(at, line(dice, variety)),
            1 if at < lines.len() => drop(lines.remove(at)),
            _ if at < lines.len() => lines[at] = line(dice, variety),
            _ => lines.push(line(dice, variety)),
        }
    }
}

fn bytes(lines: &[String], ending: &str, is_ended: bool) -> Vec<u8> {
    let mut text = lines.join(ending);
    if is_ended && !lines.is_empty() {
        text.push_str(ending);
    }
    text.into_bytes()
}

/// A tree before and after, and the tree that the difference is applied to.
struct Case {
    before: Tree,
    after: Tree,
    target: Tree,
    is_git: bool,
    n_context: u64,
    /// Whether git may leave out context, as GNU `patch` does anyway.
    is_lax: bool,
    /// Whether the patch comes as a mail.
    is_mail: bool,
}

const NAMES: &[&str] = &[
    "x.rs",
    "src/a b.txt",
    "src/deep/c.h",
    "caf\u{e9}.txt",
    "quote\"d.txt",
    "b/b.txt",
    "tab\tname",
];

fn case(dice: &mut Dice) -> Case {
    let is_git = dice.chance(60);
    let n_context = *dice.pick(&[0, 1, 2, 3, 3, 3, 3, 5]);
    let mut case = Case {
        before: Tree::new(),
        after: Tree::new(),
        target: Tree::new(),
        is_git,
        n_context,
        is_lax: dice.chance(30),
        is_mail: dice.chance(20),
    };
    let n_files = if dice.chance(70) { 1 } else { 3 };
    let is_shifted = dice.chance(60);
    for _ in 0..n_files {
        let name = (*dice.pick(NAMES)).to_owned();
        // The other programs read a name with a tab or a quote in one way only from git.
        let name = if is_git { name } else { name.replace(['"', '\t'], "_") };
        if case.before.contains_key(&name) || case.after.contains_key(&name) {
            continue;
        }
        let ending = if dice.chance(20) { "\r\n" } else { "\n" };
        let variety = *dice.pick(&[20, 60, 95]);
        let n_lines = dice.roll(60);
        let old = text(dice, n_lines, variety);
        let mut new = old.clone();
        let n_edits = 1 + dice.roll(6);
        edit(dice, &mut new, n_edits, variety);
        let mut there = old.clone();
        if is_shifted {
            let n_edits = dice.roll(3);
            edit(dice, &mut there, n_edits, variety);
            let n_more = dice.roll(12);
            let more = text(dice, n_more, 90);
            let at = dice.roll(there.len() as u64 + 1) as usize;
            there.splice(at..at, more);
        }
        let (old_ended, new_ended) = (dice.chance(85), dice.chance(85));
        let is_script = is_git && dice.chance(15);
        let old = (bytes(&old, ending, old_ended), is_script);
        let becomes_script = if is_git && dice.chance(15) { !is_script } else { is_script };
        let new = (bytes(&new, ending, new_ended), becomes_script);
        let there = (bytes(&there, ending, old_ended), is_script);
        match dice.roll(10) {
            0 => drop(case.after.insert(name, new)),
            1 => {
                case.before.insert(name.clone(), old);
                case.target.insert(name, there);
            }
            2 if is_git => {
                case.before.insert(name.clone(), old);
                case.target.insert(name.clone(), there);
                case.after.insert(format!("moved/{name}.new"), new);
            }
            _ => {
                case.before.insert(name.clone(), old);
                case.target.insert(name.clone(), there);
                case.after.insert(name, new);
            }
        }
    }
    case
}

fn lay(root: &Path, tree: &Tree) {
    fs::create_dir_all(root).unwrap();
    for (name, (content, is_script)) in tree {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let mode = if *is_script { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn gather(root: &Path, under: &str, tree: &mut Tree) {
    for entry in fs::read_dir(root.join(under)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let name = if under.is_empty() { name } else { format!("{under}/{name}") };
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            gather(root, &name, tree);
        } else {
            let is_script = metadata.permissions().mode() & 0o100 != 0;
            tree.insert(name, (fs::read(entry.path()).unwrap(), is_script));
        }
    }
}

/// Runs a program in a directory; returns what it prints, and whether it succeeded.
fn run(at: &Path, program: &str, args: &[&str]) -> Option<(Vec<u8>, bool)> {
    let out = Command::new(program)
        .args(args)
        .current_dir(at)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("HOME", at)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CEILING_DIRECTORIES", at)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    Some((out.stdout, out.status.success()))
}

/// Applies a patch to a tree with a program; nothing where it refuses.
fn theirs(root: &Path, tree: &Tree, program: &str, args: &[&str]) -> Option<Tree> {
    lay(root, tree);
    let (_, is_done) = run(root, program, args).unwrap();
    let mut made = Tree::new();
    gather(root, "", &mut made);
    fs::remove_dir_all(root).unwrap();
    is_done.then_some(made)
}

/// Applies a patch to a tree here.
fn ours(text: &[u8], tree: &Tree) -> Result<Tree, String> {
    let patch = patch::parse(text, Some(1)).map_err(|error| format!("{error:?}"))?;
    let automatic = patch::parse(text, None).map_err(|error| format!("{error:?}"))?;
    assert_eq!(patch, automatic, "{}", String::from_utf8_lossy(text));
    let mut made = tree.clone();
    for file in &patch.files {
        one(file, tree, &mut made)?;
    }
    Ok(made)
}

fn one(file: &FilePatch<'_>, tree: &Tree, made: &mut Tree) -> Result<(), String> {
    let name = file.path().unwrap().to_owned();
    let (old, is_script) = match tree.get(&name) {
        Some(_) if file.deed == PatchOp::Create => return Err(format!("{name} is there")),
        Some(found) => found.clone(),
        None if file.may_create() => (Vec::new(), false),
        None => return Err(format!("{name} is not there")),
    };
    let applied = patch::apply(file, &old, || true).map_err(|rejected| match &rejected {
        Rejected::Hunks { failures, .. }
            if failures.iter().all(
                |failure| matches!(&failure.why, Why::Ambiguous(lines) if lines.len() == 2),
            ) =>
        {
            String::from(AMBIGUOUS)
        }
        other => format!("{other:?}"),
    })?;
    let mut content = Vec::new();
    let mut at = 0;
    for change in applied.changes() {
        content.extend_from_slice(&old[at..change.range.start]);
        content.extend_from_slice(&change.new);
        at = change.range.end;
    }
    content.extend_from_slice(&old[at..]);
    let is_script = file.new_mode.map_or(is_script, |mode| mode == PatchMode::Executable);
    if matches!(file.deed, PatchOp::Delete | PatchOp::Drop | PatchOp::Rename) {
        made.remove(&name);
    }
    if let Some(new) = file.new.as_ref().filter(|_| file.deed != PatchOp::Change) {
        made.insert(new.clone(), (content, is_script));
    } else if file.deed == PatchOp::Change {
        made.insert(name, (content, is_script));
    }
    Ok(())
}

const MAIL_HEAD: &[u8] =
    b"From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] words\n\n- a point\n\
+ another\n--\n---\n x.rs | 2 +-\n 1 file changed\n\n";

const MAIL_FOOT: &[u8] = b"-- \n2.47.3\n\n";

const AMBIGUOUS: &str = "two places are equally near";

#[derive(Debug, Default)]
struct Tally {
    n_compared: u64,
    n_both: u64,
    n_agreed: u64,
    n_moved: u64,
    n_ambiguous: u64,
    n_alone: u64,
    n_refused_by_all: u64,
    problems: Vec<String>,
}

#[test]
fn patches_make_what_git_and_patch_make() {
    for program in ["git", "diff", "patch"] {
        if !run(Path::new("/"), program, &["--version"]).is_some_and(|(_, is_done)| is_done) {
            println!("SKIPPED: there is no {program} here");
            assert!(std::env::var_os("SINEW_TEST_ALL").is_none(), "{program} is needed");
            return;
        }
    }
    let mut dice = Dice(7);
    let mut tally = Tally::default();
    for number in 0..N_CASES {
        let case = case(&mut dice);
        compare(number, &case, &mut tally);
    }
    println!(
        "{} patches, {} accepted by both, {} of them alike, {} of those not at their first place; \
         refused here alone: {} (ambiguous); accepted here alone: {}; refused by all: {}",
        tally.n_compared,
        tally.n_both,
        tally.n_agreed,
        tally.n_moved,
        tally.n_ambiguous,
        tally.n_alone,
        tally.n_refused_by_all,
    );
    assert!(tally.problems.is_empty(), "{}: {}", tally.problems.len(), tally.problems.join("\n\n"));
    assert!(300 <= tally.n_agreed, "too few to say anything: {}", tally.n_agreed);
    assert!(tally.n_ambiguous * 20 <= tally.n_agreed, "too much is ambiguous");
}

/// Returns what git says of two trees.
fn of_git(root: &Path, context: &str) -> Vec<u8> {
    let git = |at: &str, args: &[&str]| {
        let args = [&["--git-dir=../git", "--work-tree=."], args].concat();
        let (out, is_done) = run(&root.join(at), "git", &args).unwrap();
        assert!(is_done, "{args:?}");
        out
    };
    git("a", &["init", "-q"]);
    let tree = |at: &str| {
        git(at, &["add", "-A"]);
        String::from_utf8(git(at, &["write-tree"])).unwrap()
    };
    let (before, after) = (tree("a"), tree("b"));
    let args = ["diff", "--no-color", "-M30", "--text", context, before.trim(), after.trim()];
    git("b", &args)
}

fn compare(number: u64, case: &Case, tally: &mut Tally) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    lay(&root.join("a"), &case.before);
    lay(&root.join("b"), &case.after);
    let context = format!("-U{}", case.n_context);
    let text = if case.is_git {
        of_git(root, &context)
    } else {
        run(root, "diff", &["-raN", "-u", &context, "a", "b"]).unwrap().0
    };
    if text.is_empty() {
        return;
    }
    let text = if case.is_mail { [MAIL_HEAD, &text, MAIL_FOOT].concat() } else { text };
    fs::write(root.join("patch"), &text).unwrap();
    let there = root.join("there");
    let mut git_args = vec!["apply", "-p1", "../patch"];
    if case.n_context == 0 {
        git_args.insert(1, "--unidiff-zero");
    } else if case.is_lax {
        git_args.insert(1, "-C1");
    }
    let git = theirs(&there, &case.target, "git", &git_args);
    let gnu_args =
        ["-p1", "-s", "-f", "--no-backup-if-mismatch", "--binary", "-r", "-", "-i", "../patch"];
    let gnu = theirs(&there, &case.target, "patch", &gnu_args);
    let ours = ours(&text, &case.target);
    tally.n_compared += 1;
    tally.n_both += u64::from(git.is_some() && gnu.is_some());
    let shown = |tree: &Tree| {
        let files = tree.iter().map(|(name, (content, is_script))| {
            format!("{name} {is_script}\n{}", String::from_utf8_lossy(content))
        });
        files.collect::<Vec<_>>().join("\n~~~~\n")
    };
    match (&git, &gnu, &ours) {
        (Some(git), Some(gnu), _) if git != gnu => {}
        (Some(git), Some(_), Ok(ours)) => {
            tally.n_agreed += 1;
            tally.n_moved += u64::from(case.target != case.before);
            if git != ours {
                tally.problems.push(format!(
                    "case {number} differs:\n{}\n=== of:\n{}\n=== here:\n{}\n=== there:\n{}",
                    String::from_utf8_lossy(&text),
                    shown(&case.target),
                    shown(ours),
                    shown(git)
                ));
            }
        }
        (Some(_), Some(_), Err(problem)) if problem == AMBIGUOUS => tally.n_ambiguous += 1,
        (Some(_), Some(_), Err(problem)) => tally.problems.push(format!(
            "case {number} is refused here alone: {problem}\n{}\n=== of:\n{}",
            String::from_utf8_lossy(&text),
            shown(&case.target)
        )),
        (None, None, Ok(_)) => tally.n_alone += 1,
        (None, None, Err(_)) => tally.n_refused_by_all += 1,
        _ => {}
    }
}

//! Glob and Grep against ripgrep: every pattern of `differential/patterns.txt` on one tree, of 3,000 files by day and
//! 22,000 at night.
//!
//! Both sides answer every pattern in every mode, and the answers are compared whole: names, counts,
//! line numbers, text as far as it is shown. Replies for models cut and order what they show, so the
//! outcomes are taken by a dialect of this test that shows everything.
//!
//! Where the two differ on purpose, the difference is named here and nowhere else:
//!
//! - In ripgrep `--glob` beats ignore files, here it does not: what ripgrep finds with a glob is cut
//!   to the files that it lists without one.
//! - Glob answers links, which ripgrep passes over: they are taken out and compared with a list.
//! - A Glob pattern begins at the directory searched, a `--glob` of ripgrep does so only with a
//!   slash before it. Where the star crosses slashes, patterns without a slash are the same.
//! - Content stops at 4 MiB of text. Such an answer is asked for again crate by crate.

mod exact;
mod pattern;
mod ripgrep;
pub(crate) mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use sinew::Runtime;
use sinew::file::GlobalIgnore;

use crate::caller::Caller;
use exact::{Answer, Mode};
use pattern::{Case, PatternOp};
use ripgrep::Ripgrep;
use tree::Tree;

/// How many patterns run at once.
const N_THREADS: usize = 2;

/// What one thread works with.
struct Bench<'a> {
    tree: &'a Tree,
    ripgrep: &'a Ripgrep,
    /// The files that ignore files leave, as ripgrep lists them.
    heeded: &'a BTreeSet<Vec<u8>>,
    caller: Caller,
}

#[test]
fn glob_and_grep_answer_as_ripgrep_does() {
    let began = Instant::now();
    let tree = Tree::open();
    let ripgrep = Ripgrep::find(&tree.root, &tree.home);
    let cases = pattern::cases();
    let runtime = Runtime::builder(exact::EXACT)
        .root(&tree.root)
        .global_ignore(GlobalIgnore::At(tree.home.join("git/ignore")))
        .without_store()
        .build()
        .unwrap();
    let heeded = ripgrep.files(&[], None);
    println!(
        "{} files, {} of them heeded, ready after {:?}",
        tree.n_files,
        heeded.len(),
        began.elapsed()
    );
    assert!(tree.min_heeded <= heeded.len(), "the tree is too small: {}", heeded.len());

    let next = AtomicUsize::new(0);
    let done = Mutex::new(Done::default());
    std::thread::scope(|scope| {
        for _ in 0..N_THREADS {
            scope.spawn(|| {
                let caller = Caller::new(&runtime);
                let bench = Bench { tree: &tree, ripgrep: &ripgrep, heeded: &heeded, caller };
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let checked = check(&bench, case);
                    done.lock().unwrap().add(case, checked);
                }
            });
        }
    });
    done.into_inner().unwrap().tell(&cases, began);
}

/// What one case came to.
#[derive(Default)]
struct Checked {
    problems: Vec<String>,
    n_rows: usize,
    n_split: usize,
    ours: Duration,
    theirs: Duration,
}

#[derive(Default)]
struct Done {
    problems: Vec<String>,
    empty: Vec<String>,
    n_rows: usize,
    n_split: usize,
    ours: Duration,
    theirs: Duration,
    slowest: Vec<(Duration, String)>,
}

impl Done {
    fn add(&mut self, case: &Case, checked: Checked) {
        self.problems.extend(checked.problems.iter().map(|p| format!("{}: {p}", case.line)));
        if checked.n_rows == 0 {
            self.empty.push(case.line.clone());
        }
        self.n_rows += checked.n_rows;
        self.n_split += checked.n_split;
        self.ours += checked.ours;
        self.theirs += checked.theirs;
        self.slowest.push((checked.ours, case.line.clone()));
    }

    fn tell(mut self, cases: &[Case], began: Instant) {
        self.slowest.sort();
        println!(
            "{} patterns, {} rows compared, {} answers asked for crate by crate, {:?} in all: \
             {:?} here, {:?} in ripgrep, on {N_THREADS} threads",
            cases.len(),
            self.n_rows,
            self.n_split,
            began.elapsed(),
            self.ours,
            self.theirs,
        );
        for (time, line) in self.slowest.iter().rev().take(5) {
            println!("slow: {time:?} {line}");
        }
        println!("{} patterns match nothing: {:#?}", self.empty.len(), self.empty);
        assert!(self.empty.len() <= cases.len() / 10, "too many patterns match nothing");
        assert!(
            self.problems.is_empty(),
            "{} differences:\n{}",
            self.problems.len(),
            self.problems.join("\n")
        );
    }
}

/// Compares the answers to one pattern, in every mode that it has.
fn check(bench: &Bench<'_>, case: &Case) -> Checked {
    let mut checked = Checked::default();
    match &case.deed {
        PatternOp::Glob { crosses } => check_glob(bench, case, *crosses, &mut checked),
        PatternOp::Grep => {
            for mode in Mode::ALL {
                check_grep(bench, case, mode, &mut checked);
            }
        }
    }
    checked
}

fn check_glob(bench: &Bench<'_>, case: &Case, crosses: bool, checked: &mut Checked) {
    let began = Instant::now();
    let tool = if crosses { "GlobCrossing" } else { "Glob" };
    let mut arguments = json!({ "pattern": case.pattern });
    if let Some(path) = &case.path {
        arguments["path"] = json!(path);
    }
    let reply = bench.caller.call(tool, arguments);
    checked.ours += began.elapsed();
    let answer = match exact::paths(&reply, &bench.tree.root) {
        Ok(answer) => answer,
        Err(problem) => return checked.problems.push(problem),
    };
    let began = Instant::now();
    let glob = if crosses { case.pattern.clone() } else { format!("/{}", case.pattern) };
    let theirs = bench.ripgrep.files(&["-g", &glob], case.path.as_deref());
    checked.theirs += began.elapsed();
    let theirs: BTreeSet<Vec<u8>> = theirs.intersection(bench.heeded).cloned().collect();
    let is_link = |path: &Vec<u8>| bench.tree.links.contains_key(path);
    for link in answer.iter().filter(|path| is_link(path)) {
        if !bench.tree.links[link] {
            checked.problems.push(format!("answers an ignored link: {}", shown(link)));
        }
    }
    let ours: BTreeSet<Vec<u8>> = answer.into_iter().filter(|path| !is_link(path)).collect();
    checked.n_rows += ours.len();
    differ("glob", &ours, &theirs, &mut checked.problems);
}

fn check_grep(bench: &Bench<'_>, case: &Case, mode: Mode, checked: &mut Checked) {
    let began = Instant::now();
    let theirs = match bench.ripgrep.grep(case, mode) {
        Ok(theirs) => theirs,
        Err(problem) => return checked.problems.push(problem),
    };
    let only = |path: &Vec<u8>| case.glob.is_none() || bench.heeded.contains(path);
    let mut theirs: Answer = theirs.into_iter().filter(|(path, _)| only(path)).collect();
    checked.theirs += began.elapsed();
    let began = Instant::now();
    let ask = |path: Option<&str>| {
        let reply = bench.caller.call("Grep", case.arguments(mode, path));
        exact::files(&reply, &bench.tree.root, mode)
    };
    let found = match ask(case.path.as_deref()) {
        Err(problem) => Err(problem),
        Ok(found) if !found.full => Ok(found.answer),
        Ok(_) => {
            checked.n_split += 1;
            theirs.retain(|path, _| bench.tree.crate_of(path).is_some());
            let crates = bench.tree.crates.iter().cloned();
            in_parts(crates.collect(), bench, |path| ask(Some(path)))
        }
    };
    checked.ours += began.elapsed();
    match found {
        Ok(ours) => {
            checked.n_rows += ours.values().map(exact::FileAnswer::rows).sum::<usize>();
            compare(mode, &ours, &theirs, &mut checked.problems);
        }
        Err(problem) => checked.problems.push(format!("{mode:?}: {problem}")),
    }
}

/// Asks path by path, and for what lies in a directory whose answer is too much.
fn in_parts(
    mut left: Vec<String>,
    bench: &Bench<'_>,
    ask: impl Fn(&str) -> Result<exact::Found, String>,
) -> Result<Answer, String> {
    let mut all = Answer::new();
    while let Some(path) = left.pop() {
        let part = ask(&path)?;
        if !part.full {
            all.extend(part.answer);
            continue;
        }
        let entries = fs::read_dir(bench.tree.root.join(&path))
            .map_err(|error| format!("{path} alone is too much: {error}"))?;
        for name in entries.map(|entry| entry.unwrap().file_name()) {
            // A path that a call names is searched even where ignore files leave it out.
            let beneath = [path.as_bytes(), b"/", name.as_bytes()].concat();
            let first = bench.heeded.range(beneath.clone()..).next();
            if first.is_some_and(|first| first.starts_with(&beneath)) {
                left.push(String::from_utf8(beneath).map_err(|error| error.to_string())?);
            }
        }
    }
    Ok(all)
}

/// Compares two answers of Grep whole.
fn compare(mode: Mode, ours: &Answer, theirs: &Answer, problems: &mut Vec<String>) {
    let names = |answer: &Answer| answer.keys().cloned().collect::<BTreeSet<_>>();
    differ(&format!("{mode:?}"), &names(ours), &names(theirs), problems);
    let mut n_told = 0;
    for (path, mine) in ours {
        if let Some(problem) = theirs.get(path).and_then(|other| mine.differs(other)) {
            n_told += 1;
            if n_told <= 3 {
                problems.push(format!("{mode:?}: {}: {problem}", shown(path)));
            }
        }
    }
    if 3 < n_told {
        problems.push(format!("{mode:?}: {n_told} files differ in all"));
    }
}

fn differ(
    what: &str,
    ours: &BTreeSet<Vec<u8>>,
    theirs: &BTreeSet<Vec<u8>>,
    problems: &mut Vec<String>,
) {
    let mut tell = |side: &str, names: Vec<&Vec<u8>>| {
        if !names.is_empty() {
            let first: Vec<String> = names.iter().take(5).map(|path| shown(path)).collect();
            problems.push(format!("{what}: {} {side}: {}", names.len(), first.join(", ")));
        }
    };
    tell("only here", ours.difference(theirs).collect());
    tell("only in ripgrep", theirs.difference(ours).collect());
}

fn shown(path: &[u8]) -> String {
    path.escape_ascii().to_string()
}

/// Links are answers of Glob: those that ignore files leave, and no others.
#[test]
fn links_are_answers_unless_they_are_ignored() {
    let tree = Tree::open();
    let runtime = Runtime::builder(exact::EXACT).root(&tree.root).without_store().build().unwrap();
    let reply = Caller::new(&runtime).call("Glob", json!({ "pattern": "**" }));
    let answer = exact::paths(&reply, &tree.root).unwrap();
    let found: BTreeMap<Vec<u8>, bool> =
        tree.links.keys().map(|link| (link.clone(), answer.contains(link))).collect();
    assert_eq!(found, tree.links);
}

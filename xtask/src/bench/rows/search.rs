//! Rows about searching: sinew in one warm server against a fresh ripgrep a search, as a person or
//! a script would run it, both with the page cache warm.
//!
//! Ripgrep is asked for what sinew searches, hidden files in and `.git` out. The answer is held
//! against ripgrep's, and every later answer against the first.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::super::Bench;
use super::super::client::{Client, Request};
use super::super::peers::{Run, Server, memory};
use super::super::report::{Sheet, Unit};
use super::super::stats::{Measured, Side, in_turns};
use super::super::tree;
use super::{RESIDENT_MB, X_100K, X_RG, X_RG_SORTED, answer};

const OURS: &str = "sinew";
const RG: &str = "rg";
const RG_SORTED: &str = "rg sorted by time";

/// As many as possible, which is more than any of these rows finds.
const ALL: u64 = 0;

/// Found in thousands of files of any tree of Rust.
const COMMON: &str = "unwrap";

/// Words of which one is found in a few files of the tree.
const RARE: [&str; 4] = ["TcpKeepalive", "pthread_setname_np", "getifaddrs", "SIGWINCH"];

const SORTED: [&str; 2] = ["--sortr", "modified"];

/// What a search costs on both sides.
struct Search<'a> {
    root: &'a Path,
    tool: &'static str,
    arguments: Value,
    rg: &'a [&'a str],
    sorted_too: bool,
    n_rounds: usize,
}

impl Search<'_> {
    fn run(&self, bench: &Bench, more: &[&str]) -> Run {
        bench.peers.rg(self.root, self.rg).args(more)
    }

    /// Returns what ripgrep finds.
    fn expected(&self, bench: &Bench) -> Result<String> {
        Ok(self.run(bench, &[]).output()?.1)
    }

    /// Measures all sides; `check` sees the first answer of ours. Returns the peak of the memory of
    /// ours as well.
    fn measure(
        &self,
        bench: &Bench,
        sheet: &mut Sheet,
        check: impl FnOnce(&str) -> Result<()>,
    ) -> Result<(Measured, Option<f64>)> {
        let mut client = None;
        let mut sides = Vec::new();
        let mut pid = None;
        if let Some(launch) = bench.peers.launch(Server::Ours, self.root) {
            let client = client.insert(launch.start()?);
            pid = Some(client.pid());
            let request = Request::call(self.tool, &self.arguments);
            let first = client.text(&request)?;
            check(&answer::whole(self.root, &first)?)?;
            sides.push(ours(client, request, first));
        }
        sides.push(Side::new(RG, |series| {
            series.push(self.run(bench, &[]).seconds()?);
            Ok(())
        }));
        if self.sorted_too {
            sides.push(Side::new(RG_SORTED, |series| {
                series.push(self.run(bench, &SORTED).seconds()?);
                Ok(())
            }));
        }
        let measured = in_turns(bench.rounds(self.n_rounds), sides)?;
        sheet.times(&measured);
        sheet.value(X_RG, measured.ratio(OURS, RG));
        let peak = pid.map(|pid| memory(pid, "VmHWM")).transpose()?;
        Ok((measured, peak))
    }
}

fn ours(client: &mut Client, request: Request, first: String) -> Side<'_> {
    Side::new(OURS, move |series| {
        let (seconds, text) = client.time_text(&request)?;
        if answer::lines(&text) != answer::lines(&first) {
            bail!("the answer is not the same again");
        }
        series.push(seconds);
        Ok(())
    })
}

fn resident(sheet: &mut Sheet, peak: Option<f64>) {
    if let Some(bytes) = peak {
        sheet.figure("sinew, peak memory", Unit::Bytes, bytes);
        sheet.value(RESIDENT_MB, Some(bytes / 1e6));
    }
}

/// Returns the newest hundred Rust files of what ripgrep finds with its ignore rules. A glob on its
/// command line would overrule them.
fn newest_100<'a>(root: &Path, files: &'a str) -> Result<Vec<&'a str>> {
    let rust = answer::expected(files).into_iter().filter(|path| path.ends_with(".rs"));
    let mut newest = answer::newest_first(root, rust)?;
    newest.truncate(100);
    Ok(newest)
}

pub(in super::super) fn glob_newest(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let files = bench.peers.rg(&bench.tree, &["--files"]).output()?.1;
    let newest = newest_100(&bench.tree, &files)?;
    let search = Search {
        root: &bench.tree,
        tool: "Glob",
        arguments: json!({"pattern": "**/*.rs"}),
        rg: &["--files", "--glob", "*.rs"],
        sorted_too: true,
        n_rounds: 20,
    };
    let (measured, _) = search.measure(bench, sheet, |text| answer::same_order(text, &newest))?;
    sheet.value(X_RG_SORTED, measured.ratio(OURS, RG_SORTED));
    Ok(())
}

/// Measures a search for files, whose answer is newest first.
fn files(bench: &Bench, sheet: &mut Sheet, search: &Search<'_>) -> Result<(Measured, Option<f64>)> {
    let expected = search.expected(bench)?;
    let newest = answer::newest_first(search.root, answer::expected(&expected))?;
    sheet.note(format!("{} files", newest.len()));
    search.measure(bench, sheet, |text| answer::same_order(text, &newest))
}

pub(in super::super) fn grep_files(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let search = Search {
        root: &bench.tree,
        tool: "Grep",
        arguments: json!({
            "pattern": COMMON, "output_mode": "files_with_matches", "head_limit": ALL,
        }),
        rg: &["-l", COMMON],
        sorted_too: true,
        n_rounds: 12,
    };
    let (measured, _) = files(bench, sheet, &search)?;
    sheet.value(X_RG_SORTED, measured.ratio(OURS, RG_SORTED));
    Ok(())
}

/// What an agent gets that sets no limit: the first 250 files of the same answer.
pub(in super::super) fn grep_files_default(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let search = Search {
        root: &bench.tree,
        tool: "Grep",
        arguments: json!({"pattern": COMMON, "output_mode": "files_with_matches"}),
        rg: &["-l", COMMON],
        sorted_too: true,
        n_rounds: 12,
    };
    let expected = search.expected(bench)?;
    let mut newest = answer::newest_first(search.root, answer::expected(&expected))?;
    newest.truncate(250);
    let (measured, _) = search.measure(bench, sheet, |text| answer::same_order(text, &newest))?;
    sheet.value(X_RG_SORTED, measured.ratio(OURS, RG_SORTED));
    Ok(())
}

pub(in super::super) fn grep_rare(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let n_files = |word: &&str| {
        let found = bench.peers.rg(&bench.tree, &["-l", word]).output();
        found.map(|(_, text)| text.lines().count()).unwrap_or_default()
    };
    let word = RARE.iter().copied().find(|word| (1..=20).contains(&n_files(word)));
    let word = word.context("no word is rare in the tree")?;
    let search = Search {
        root: &bench.tree,
        tool: "Grep",
        arguments: json!({
            "pattern": word, "output_mode": "files_with_matches", "head_limit": ALL,
        }),
        rg: &["-l", word],
        sorted_too: false,
        n_rounds: 15,
    };
    files(bench, sheet, &search)?;
    Ok(())
}

pub(in super::super) fn grep_icase(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let search = Search {
        root: &bench.tree,
        tool: "Grep",
        arguments: json!({
            "pattern": "keepalive", "-i": true, "output_mode": "files_with_matches",
            "head_limit": ALL,
        }),
        rg: &["-l", "-i", "keepalive"],
        sorted_too: false,
        n_rounds: 15,
    };
    files(bench, sheet, &search)?;
    Ok(())
}

pub(in super::super) fn grep_multiline(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    const PATTERN: &str = r"return NULL;\n\}";
    let search = Search {
        root: &bench.tree,
        tool: "Grep",
        arguments: json!({
            "pattern": PATTERN, "multiline": true, "output_mode": "files_with_matches",
            "head_limit": ALL,
        }),
        rg: &["-U", "-l", PATTERN],
        sorted_too: false,
        n_rounds: 12,
    };
    let (_, peak) = files(bench, sheet, &search)?;
    resident(sheet, peak);
    Ok(())
}

/// Measures a search whose answer is lines in any order.
fn lines(bench: &Bench, sheet: &mut Sheet, search: &Search<'_>) -> Result<Option<f64>> {
    let expected = search.expected(bench)?;
    let expected = answer::expected(&expected);
    sheet.note(format!("{} lines", expected.len()));
    Ok(search.measure(bench, sheet, |text| answer::same(text, &expected))?.1)
}

pub(in super::super) fn grep_regex(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    const PATTERN: &str = "[A-Z]+_OVERFLOW";
    let search = Search {
        root: &bench.tree,
        tool: "Grep",
        arguments: json!({
            "pattern": PATTERN, "output_mode": "content", "-n": true, "head_limit": ALL,
        }),
        rg: &["-n", PATTERN],
        sorted_too: false,
        n_rounds: 15,
    };
    lines(bench, sheet, &search)?;
    Ok(())
}

pub(in super::super) fn grep_count(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let search = Search {
        root: &bench.tree,
        tool: "Grep",
        arguments: json!({"pattern": "unsafe", "output_mode": "count", "head_limit": ALL}),
        rg: &["-c", "unsafe"],
        sorted_too: false,
        n_rounds: 12,
    };
    lines(bench, sheet, &search)?;
    Ok(())
}

/// Ours must give lines that ripgrep finds too, as many as were asked for, and the same ones again.
pub(in super::super) fn grep_first(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    const N: usize = 250;
    let whole = bench.peers.rg(&bench.tree, &["-n", COMMON]).output()?.1;
    let whole = answer::expected(&whole);
    let mut client = None;
    let mut sides = Vec::new();
    if let Some(launch) = bench.peers.launch(Server::Ours, &bench.tree) {
        let client = client.insert(launch.start()?);
        let request = Request::call(
            "Grep",
            &json!({"pattern": COMMON, "output_mode": "content", "-n": true, "head_limit": N}),
        );
        let first = client.text(&request)?;
        check_first(&first, &whole, N)?;
        sides.push(ours(client, request, first));
    }
    sides.push(Side::new("rg | head", |series| {
        let (seconds, text) = bench.peers.rg(&bench.tree, &["-n", COMMON]).head(N).output()?;
        check_first(&text, &whole, N)?;
        series.push(seconds);
        Ok(())
    }));
    let measured = in_turns(bench.rounds(20), sides)?;
    sheet.times(&measured);
    sheet.value(X_RG, measured.ratio(OURS, "rg | head"));
    Ok(())
}

fn check_first(text: &str, whole: &BTreeSet<&str>, n: usize) -> Result<()> {
    let lines = answer::lines(text);
    if let Some(wrong) = lines.iter().find(|line| !whole.contains(*line)) {
        bail!("the answer is wrong: {wrong}");
    }
    if lines.len() != n {
        bail!("the answer is wrong: {} lines, expected {n}", lines.len());
    }
    Ok(())
}

pub(in super::super) fn grep_long_line(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    const PATTERN: &str = "[0-9]{4}";
    let path = tree::long_line(&bench.work, 50_000_000)?;
    let path = path.to_string_lossy();
    let search = Search {
        root: &bench.work,
        tool: "Grep",
        arguments: json!({"pattern": PATTERN, "path": path, "output_mode": "content"}),
        rg: &["-n", PATTERN, &path],
        sorted_too: false,
        n_rounds: 10,
    };
    let (_, peak) = search.measure(bench, sheet, |text| match answer::lines(text).as_slice() {
        [] => Ok(()),
        [line] if line.starts_with("No ") || line.starts_with("no ") => Ok(()),
        _ => bail!("the answer is wrong: something was found"),
    })?;
    resident(sheet, peak);
    Ok(())
}

pub(in super::super) fn grep_1g(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let path = tree::lines(&bench.work, 1 << 30)?;
    let needle = tree::line(12_345_678);
    let path = path.to_string_lossy();
    let search = Search {
        root: &bench.work,
        tool: "Grep",
        arguments: json!({"pattern": needle, "path": path, "output_mode": "content", "-n": true}),
        rg: &["-n", &needle, &path],
        sorted_too: false,
        n_rounds: 10,
    };
    let (_, peak) = search.measure(bench, sheet, |text| match answer::lines(text).as_slice() {
        [line] if line.ends_with(&needle) && line.contains("12345678:") => Ok(()),
        found => bail!("the answer is wrong: {:?}", found.first()),
    })?;
    resident(sheet, peak);
    Ok(())
}

pub(in super::super) fn glob_1m_files(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let mut of_100k = None;
    for n in [100_000, 1_000_000] {
        let root = tree::small_files(&bench.folder, n)?;
        let files = bench.peers.rg(&root, &["--files"]).output()?.1;
        let newest = newest_100(&root, &files)?;
        let search = Search {
            root: &root,
            tool: "Glob",
            arguments: json!({"pattern": "**/*.rs"}),
            rg: &["--files", "--glob", "*.rs"],
            sorted_too: true,
            n_rounds: 6,
        };
        let mut found = Sheet::default();
        let (measured, peak) =
            search.measure(bench, &mut found, |text| answer::same_order(text, &newest))?;
        let median = measured.median(OURS);
        if n == 100_000 {
            of_100k = median;
            continue;
        }
        sheet.times(&measured);
        sheet.value(X_RG_SORTED, measured.ratio(OURS, RG_SORTED));
        sheet.value(X_100K, median.zip(of_100k).map(|(million, fewer)| million / fewer));
        resident(sheet, peak);
    }
    Ok(())
}

pub(in super::super) fn grep_1m_files(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let root = tree::small_files(&bench.folder, 1_000_000)?;
    let search = Search {
        root: &root,
        tool: "Grep",
        arguments: json!({
            "pattern": "needle", "output_mode": "files_with_matches", "head_limit": ALL,
        }),
        rg: &["-l", "needle"],
        sorted_too: true,
        n_rounds: 4,
    };
    let (measured, peak) = files(bench, sheet, &search)?;
    sheet.value(X_RG_SORTED, measured.ratio(OURS, RG_SORTED));
    resident(sheet, peak);
    Ok(())
}

//! Measures sinew beside what people would use in its place: `cargo xtask bench`.
//!
//! All sides of a row are measured in one run, in turns, with their answers checked, because times
//! of different days on a shared machine say nothing about each other. Everything that the bench
//! installs, makes and keeps is in `.bench/`, which is not under version control, but for the state of servers,
//! which is in the directory for temporary files. Deliberately
//! absent: profiles, and histories of runs. `docs/benchmarks.md` tells how each row is measured.

mod client;
mod home;
mod null;
mod peers;
mod processor;
mod report;
mod rows;
mod stats;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};
use serde_json::json;

use peers::Peers;
use report::{Judged, Report, Row, Status};

const USAGE: &str = "\
usage: cargo xtask bench [OPTIONS]

  --rows GLOB    measure the rows of these names; `*` stands for anything; repeatable
  --quick        a quarter of the rounds
  --nightly      the rows too that take minutes and gigabytes
  --json FILE    write the report there as well as to `.bench/last.json`
  --bin PATH     measure this sinew instead of building one
  --peers-only   measure the peers without sinew
  --list         show the rows
";

/// What a row may use.
struct Bench {
    peers: Peers,
    /// Where everything is kept.
    folder: PathBuf,
    /// The root of servers that work on single files and folders.
    work: PathBuf,
    /// The root of servers that search.
    tree: PathBuf,
    quick: bool,
}

impl Bench {
    /// Returns how many rounds to measure where `n` are usual.
    fn rounds(&self, n: usize) -> usize {
        if self.quick { (n / 4).max(3).min(n) } else { n }
    }

    /// Returns when sinew wrote last into what it keeps beside the files. Sizes say nothing: the
    /// write-ahead log is used again from its start.
    fn state_written_at(&self) -> Result<SystemTime> {
        let folder = state_home("state").join("sinew");
        let mut last = SystemTime::UNIX_EPOCH;
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            last = last.max(entry?.metadata()?.modified()?);
        }
        Ok(last)
    }

    fn one_line(&self) -> PathBuf {
        self.work.join("one-line.txt")
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    rows: Vec<String>,
    quick: bool,
    nightly: bool,
    json: Option<PathBuf>,
    bin: Option<PathBuf>,
    peers_only: bool,
    list: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("give a value: `{arg}`"));
            match arg.as_str() {
                "--rows" => options.rows.push(value()?.clone()),
                "--quick" => options.quick = true,
                "--nightly" => options.nightly = true,
                "--json" => options.json = Some(value()?.into()),
                "--bin" => options.bin = Some(value()?.into()),
                "--peers-only" => options.peers_only = true,
                "--list" => options.list = true,
                _ => bail!("no such option: `{arg}`\n\n{USAGE}"),
            }
        }
        Ok(options)
    }

    /// Returns the rows that are asked for. A row that is named in full needs no other flag.
    fn rows(&self) -> Vec<&'static Row> {
        let is_asked_for = |row: &&Row| {
            let by_name = self.rows.iter().any(|glob| matches(glob, row.name));
            let in_full = self.rows.iter().any(|glob| glob == row.name);
            (self.rows.is_empty() || by_name)
                && (in_full || self.nightly || !row.run_in.is_nightly())
        };
        rows::ROWS.iter().filter(is_asked_for).collect()
    }
}

/// Tells whether a name is matched by a glob in which `*` stands for anything.
fn matches(glob: &str, name: &str) -> bool {
    match glob.split_once('*') {
        None => glob == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|name| {
            (0..=name.len()).any(|at| name.get(at..).is_some_and(|name| matches(rest, name)))
        }),
    }
}

/// Answers constant bytes over MCP; see [`null`].
pub(crate) fn serve_null(args: &[String]) -> Result<()> {
    null::serve(args)
}

/// Installs ripgrep into the ignored folder unless it is there: the tests of the searches compare
/// with it.
pub(crate) fn ripgrep(root: &Path) -> Result<()> {
    peers::ripgrep_for_tests(root, &root.join(".bench/tests")).map(drop)
}

/// Returns `cargo-deny`, which is installed unless it is there.
pub(crate) fn cargo_deny(root: &Path) -> Result<PathBuf> {
    peers::installed(root, &root.join(".bench"), "cargo-deny", "cargo-deny@0.20.2", &[])
}

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let options = Options::parse(args)?;
    let rows = options.rows();
    if rows.is_empty() {
        bail!("no such row; `--list` shows them");
    }
    if options.list {
        for row in rows {
            println!("{:<22} {}", row.name, row.about);
        }
        return Ok(());
    }
    // The client and the null server are the floor of each measurement.
    if cfg!(debug_assertions) {
        let mut optimized = crate::cargo_command();
        optimized.args(["run", "--quiet", "--release", "--package", "xtask", "--", "bench"]);
        let status = optimized.args(args).current_dir(root).status()?;
        return if status.success() { Ok(()) } else { bail!("the bench ended with {status}") };
    }
    if !home::is_bound(&state_home("home"), args)? {
        return Ok(());
    }
    let begun = Instant::now();
    let (bench, n_files) = set_up(root, &options)?;
    let mut report = Report::default();
    for row in rows {
        let judged = Judged::measure(&bench, row);
        println!("{judged}");
        report.push(judged);
    }
    let versions: serde_json::Map<_, _> =
        bench.peers.versions().into_iter().map(|(name, it)| (name.to_owned(), it.into())).collect();
    let conditions = json!({
        "versions": versions,
        "processors": std::thread::available_parallelism()?.get(),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "load": load(),
        "files_in_tree": n_files,
        "quick": options.quick,
        "seconds": begun.elapsed().as_secs(),
    });
    let text = format!("{:#}\n", report.to_json(&conditions));
    fs::write(bench.folder.join("last.json"), &text)?;
    if let Some(path) = &options.json {
        fs::write(path, &text).with_context(|| path.display().to_string())?;
    }
    println!("{} ({} s)", report.total(), begun.elapsed().as_secs());
    match report.n(Status::Fail) {
        0 => Ok(()),
        n => bail!("{n} rows miss a gate"),
    }
}

/// Returns where sinew keeps its state. A server refuses a place in the project around it.
fn state_home(name: &str) -> PathBuf {
    std::env::temp_dir().join("sinew-bench").join(name)
}

/// Returns where its configuration is.
fn config_home() -> PathBuf {
    state_home("home").join(".config")
}

/// Makes ready everything that rows use; returns the number of files of the tree as well.
fn set_up(root: &Path, options: &Options) -> Result<(Bench, usize)> {
    let folder = root.join(".bench");
    let work = folder.join("work");
    fs::create_dir_all(work.join("empty"))?;
    let ours = match &options.bin {
        _ if options.peers_only => None,
        None => Some(peers::build_ours(root)?),
        Some(path) => {
            let path = path.canonicalize().with_context(|| path.display().to_string())?;
            Some(peers::ours_at(path))
        }
    };
    let peers = Peers::obtain(root, &folder, ours)?;
    let (tree, n_files) = tree::obtain(&folder)?;
    // What sinew has kept of earlier runs.
    for kept in [
        state_home("state"),
        state_home("state-contained"),
        work.join(".sinew"),
        tree.join(".sinew"),
    ] {
        if kept.exists() {
            fs::remove_dir_all(&kept)?;
        }
    }
    let config = config_home().join("sinew");
    fs::create_dir_all(&config)?;
    // What a server is started with counts without a question.
    fs::write(config.join("config.toml"), "[mcp]\ntrust_arguments = true\n")?;
    let bench = Bench { peers, folder, work, tree, quick: options.quick };
    fs::write(bench.one_line(), "the only line\n")?;
    println!("{n_files} files in the tree, load {}", load());
    Ok((bench, n_files))
}

/// Returns the load of the machine over the last minute.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        let check = |glob: &str, name: &str, expected: bool| {
            assert_eq!(matches(glob, name), expected, "{glob} {name}");
        };
        check("read-1k", "read-1k", true);
        check("read", "read-1k", false);
        check("read*", "read-1k", true);
        check("*-1?", "read-1k", false);
        check("*e*1*", "read-1k", true);
        check("*-1m", "read-1k", false);
    }

    #[test]
    fn options_say_what_is_wrong() {
        let parse = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            Options::parse(&args).map_err(|error| error.to_string())
        };
        assert_eq!(parse(""), Ok(Options::default()));
        let expected =
            Options { rows: vec![String::from("a*")], quick: true, ..Options::default() };
        assert_eq!(parse("--rows a* --quick"), Ok(expected));
        assert_eq!(parse("--rows"), Err(String::from("give a value: `--rows`")));
        assert!(parse("--fast").is_err_and(|error| error.starts_with("no such option: `--fast`")));
    }

    #[test]
    fn nightly_rows_are_asked_for() {
        let n = |rows: &[&str], nightly| {
            let rows = rows.iter().map(|&row| String::from(row)).collect();
            Options { rows, nightly, ..Options::default() }.rows().len()
        };
        assert!(n(&[], false) < n(&[], true));
        assert_eq!(n(&["grep-1g"], false), 1);
        assert_eq!(n(&["grep-1*"], false), 0);
        assert_eq!(n(&["grep-1*"], true), 2);
    }
}

//! Rows about commands: what it costs to run one, contained and not, and to take what it writes.
//!
//! sinew is served as always, with the ledger on, and runs the shell that the bench runs itself. All
//! sides of a row take turns. Each sandboxed side is held against the unsandboxed command of the
//! plain server, also where the server is heavy.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::super::Bench;
use super::super::client::{Client, Request};
use super::super::peers::{Launch, SHELL, Server, memory};
use super::super::report::{Sheet, Unit};
use super::super::stats::{Measured, Series, Side, in_turns};
use super::super::tree;
use super::{GROWTH_MB, LEAST_MS, OVER_NONE_MS, X_NONE, X_PIPE, X_SH};

const OURS: &str = "sinew";
const PLAIN: &str = "without sandbox";
const CONTAINED: &str = "contained";
const SH: &str = "sh -c true";
const PIPE: &str = "pipe to file";

/// How many commands are run in a turn.
const N_CALLS: usize = 5;

/// How much of an output is read at once.
const BLOCK: usize = 256 * 1024;

pub(in super::super) fn plain(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let mut sides = Vec::new();
    if let Some(client) = served(ours(bench), "none")? {
        sides.push(side(OURS, client));
    }
    sides.push(Side::new(SH, |series| repeated(series, direct)));
    let measured = in_turns(bench.rounds(40), sides)?;
    sheet.times(&measured);
    sheet.value(X_SH, measured.ratio(OURS, SH));
    sheet.value(LEAST_MS, measured.of(OURS).map(|series| series.min() * 1e3));
    Ok(())
}

pub(in super::super) fn landlock(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let measured = contained(sheet, bench, ours(bench), "landlock")?;
    sheet.value(X_NONE, measured.ratio(CONTAINED, PLAIN));
    Ok(())
}

pub(in super::super) fn landlock_512m(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let measured = contained(sheet, bench, heavy(bench), "landlock")?;
    sheet.value(X_NONE, measured.ratio(CONTAINED, PLAIN));
    Ok(())
}

pub(in super::super) fn namespaces(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let measured = contained(sheet, bench, ours(bench), "namespaces")?;
    sheet.value(OVER_NONE_MS, over_plain_ms(&measured));
    Ok(())
}

pub(in super::super) fn namespaces_512m(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let measured = contained(sheet, bench, heavy(bench), "namespaces")?;
    sheet.value(OVER_NONE_MS, over_plain_ms(&measured));
    Ok(())
}

fn over_plain_ms(measured: &Measured) -> Option<f64> {
    Some((measured.median(CONTAINED)? - measured.median(PLAIN)?) * 1e3)
}

/// Measures commands of a server on a sandbox level beside those of the plain server without a sandbox.
fn contained(
    sheet: &mut Sheet,
    bench: &Bench,
    launch: Option<Launch>,
    level: &str,
) -> Result<Measured> {
    let mut sides = Vec::new();
    if let Some(client) = served(ours(bench), "none")? {
        sides.push(side(PLAIN, client));
    }
    if let Some(client) = served(launch.map(|launch| launch.state("state-contained")), level)? {
        sides.push(side(CONTAINED, client));
    }
    let measured = in_turns(bench.rounds(40), sides)?;
    sheet.times(&measured);
    Ok(measured)
}

fn ours(bench: &Bench) -> Option<Launch> {
    bench.peers.launch(Server::Ours, &bench.work)
}

fn heavy(bench: &Bench) -> Option<Launch> {
    bench.peers.launch_heavy(&bench.work)
}

/// Starts a server whose commands run on a sandbox level; `None` where it or the sandbox level is not there.
fn served(launch: Option<Launch>, level: &str) -> Result<Option<Client>> {
    let Some(launch) = launch else { return Ok(None) };
    let sandbox = format!("run.sandbox={level}");
    let mut client = launch.options(&["--set", &sandbox]).start()?;
    client.exchange(&command("true"))?;
    let result = match client.result() {
        Err(error) if error.to_string().contains("no sandbox that is strong enough") => {
            return Ok(None);
        }
        other => other?,
    };
    // A server that took another sandbox level would be measured for what it is not.
    let level = format!("\"level\":\"{level}\"");
    if !result.to_string().contains(&level) {
        bail!("the command ran on another sandbox level: {result}");
    }
    Ok(Some(client))
}

fn side(name: &'static str, mut client: Client) -> Side<'static> {
    let request = command("true");
    Side::new(name, move |series| repeated(series, || client.time(&request)))
}

fn repeated(series: &mut Series, mut time: impl FnMut() -> Result<f64>) -> Result<()> {
    for _ in 0..N_CALLS {
        series.push(time()?);
    }
    Ok(())
}

fn command(text: &str) -> Request {
    Request::call("Bash", &json!({"command": text}))
}

/// Returns how long this process takes to start a shell and to see it end.
fn direct() -> Result<f64> {
    let mut shell = Command::new(SHELL);
    shell.args(["-c", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = shell.status().context("the shell does not start")?;
    let seconds = begun.elapsed().as_secs_f64();
    if status.success() { Ok(seconds) } else { bail!("the shell ends with {status}") }
}

pub(in super::super) fn output_100m(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let source = tree::lines(&bench.work, 100_000_000)?;
    let (text, copy) = (format!("cat {}", source.display()), bench.work.join("output.copy"));
    let mut client = None;
    let mut before = None;
    let mut sides = Vec::new();
    if let Some(launch) = ours(bench) {
        let client = client.insert(launch.start()?);
        client.text(&command("true"))?;
        before = Some((client.pid(), memory(client.pid(), "VmRSS")?));
        let request = command(&text);
        let (work, source) = (&bench.work, &source);
        sides.push(Side::new(OURS, move |series| {
            let (seconds, answer) = client.time_text(&request)?;
            series.push(seconds);
            take(&work.join(stored(&answer)?), source)
        }));
    }
    sides.push(Side::new(PIPE, |series| {
        series.push(through_pipe(&text, &copy)?);
        take(&copy, &source)
    }));
    let measured = in_turns(bench.rounds(16), sides)?;
    sheet.times(&measured);
    sheet.value(X_PIPE, measured.ratio(OURS, PIPE));
    if let Some((pid, before)) = before {
        let grown = memory(pid, "VmHWM")? - before;
        sheet.figure("sinew, growth", Unit::Bytes, grown);
        sheet.value(GROWTH_MB, Some(grown / 1e6));
    }
    Ok(())
}

/// Returns the path of a stored output, as an answer names it that shows its beginning and its end.
fn stored(answer: &str) -> Result<&str> {
    let lines: Vec<&str> = answer.lines().collect();
    let [first, .., last, note] = lines.as_slice() else { bail!("the answer is short: {answer}") };
    let is_shown = *first == tree::line(1) && last.contains(" INFO worker-");
    let path =
        note.split_once("the whole output is in ").and_then(|(_, rest)| rest.split_once(']'));
    match path {
        Some((path, _)) if is_shown => Ok(path),
        _ => bail!("the answer is wrong: {first} | {last} | {note}"),
    }
}

/// Holds a copy against its source, and removes it.
fn take(copy: &Path, source: &Path) -> Result<()> {
    let mut files = [copy, source].map(File::open);
    let [Ok(copied), Ok(original)] = &mut files else { bail!("no file: {}", copy.display()) };
    let mut blocks = [vec![0; BLOCK], vec![0; BLOCK]];
    let [ours, theirs] = &mut blocks;
    loop {
        let n = filled(copied, ours)?;
        if n != filled(original, theirs)? || ours.get(..n) != theirs.get(..n) {
            bail!("{} is not what was written", copy.display());
        }
        if n == 0 {
            return Ok(fs::remove_file(copy)?);
        }
    }
}

/// Reads until a block is full or the file ends; returns how much was read.
fn filled(file: &mut File, block: &mut [u8]) -> Result<usize> {
    let mut n = 0;
    while let Some(rest) = block.get_mut(n..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            more => n += more,
        }
    }
    Ok(n)
}

/// Returns how long this process takes to run a command and to write what it writes to a file.
fn through_pipe(text: &str, to: &Path) -> Result<f64> {
    let mut shell = Command::new(SHELL);
    shell.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut block = vec![0; BLOCK];
    let begun = Instant::now();
    let mut child = shell.spawn().context("the shell does not start")?;
    let mut output = child.stdout.take().context("no output")?;
    let mut file = File::create(to)?;
    loop {
        let n = output.read(&mut block)?;
        if n == 0 {
            break;
        }
        file.write_all(block.get(..n).unwrap_or_default())?;
    }
    let status = child.wait()?;
    let seconds = begun.elapsed().as_secs_f64();
    if status.success() { Ok(seconds) } else { bail!("the shell ends with {status}") }
}

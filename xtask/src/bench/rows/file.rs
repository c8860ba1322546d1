//! Rows about one file: reading, writing and editing it.
//!
//! Every side changes a file of its own, from the same content, in the same folder, to and fro
//! between two contents; after every change the file is held against what it should be.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::super::Bench;
use super::super::client::Request;
use super::super::peers::{Launch, Run, Server, memory};
use super::super::report::{Sheet, Unit};
use super::super::stats::{Series, Side, in_turns};
use super::super::tree;
use super::server::read;
use super::{OVER_FILE_MB, SECOND_MS, X_CODEX, X_LOOP, X_PATCH, X_RUST_FS, X_SED, X_SMALL, X_TAIL};

const OURS: &str = "sinew";
const SED: &str = "sed -i";
const N_LINES: u64 = 2_000;
const SERVERS: [Server; 3] = [Server::Ours, Server::RustFs, Server::NodeFs];
const WITH_UNDO: &str = "sinew, with undo";

/// Returns the servers that change files, by name. No peer can undo, so sinew keeps nothing where it
/// is held against one; with undo it is shown beside them.
fn changing(bench: &Bench) -> impl Iterator<Item = (&'static str, Server, Launch)> {
    let launch = |server| bench.peers.launch(server, &bench.work);
    let with_undo = launch(Server::Ours).map(|launch| launch.state("state-undo"));
    let others = [Server::RustFs, Server::NodeFs]
        .map(|server| launch(server).map(|launch| (server.name(), server, launch)));
    let ours = launch(Server::Ours).map(without_undo);
    [ours.map(|launch| (OURS, Server::Ours, launch))]
        .into_iter()
        .chain([with_undo.map(|launch| (WITH_UNDO, Server::Ours, launch))])
        .chain(others)
        .flatten()
}

fn without_undo(launch: Launch) -> Launch {
    launch.options(&["--set", "tools.fs.checkpoint_before_mutation=false"])
}

pub(in super::super) fn read_1k(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let path = tree::lines(&bench.work, 1_000)?;
    let n_lines = fs::read_to_string(&path)?.lines().count() as u64;
    let mut sides = Vec::new();
    for server in [Server::Null, Server::Ours, Server::RustFs, Server::NodeFs] {
        let Some(launch) = bench.peers.launch(server, &bench.work) else { continue };
        let (mut client, request) = (launch.start()?, read(server, &path));
        let text = client.text(&request)?;
        if server != Server::Null {
            check_lines(&text, 1, n_lines).with_context(|| server.name())?;
        }
        sides.push(Side::new(server.name(), move |series| {
            for _ in 0..100 {
                series.push(client.time(&request)?);
            }
            Ok(())
        }));
    }
    let measured = in_turns(bench.rounds(20), sides)?;
    sheet.times(&measured);
    sheet.value(X_RUST_FS, measured.ratio(OURS, "rust-fs"));
    Ok(())
}

/// Sees that a text has the lines from `first` on, as many as `n`, and neither neighbour of them.
fn check_lines(text: &str, first: u64, n: u64) -> Result<()> {
    let lines: Vec<&str> = text.lines().collect();
    let place = |n: u64| {
        let line = tree::line(n);
        lines.iter().position(|found| found.ends_with(&line))
    };
    let (start, end) = (place(first), place(first + n - 1));
    let spans = start.zip(end).is_some_and(|(start, end)| start as u64 + n == end as u64 + 1);
    let outside = place(first.saturating_sub(1)).or_else(|| place(first + n));
    if !spans || outside.is_some() {
        bail!(
            "the answer is wrong: {} lines, expected lines {first} to {}, got {:?} to {:?}",
            lines.len(),
            first + n - 1,
            lines.first(),
            lines.last()
        );
    }
    Ok(())
}

/// Returns a request for lines from `first` on, counted from 1.
fn read_lines(server: Server, path: &Path, first: u64) -> Request {
    match server {
        Server::Ours | Server::Null => {
            let arguments = json!({"file_path": path, "offset": first, "limit": N_LINES});
            Request::call("Read", &arguments)
        }
        Server::RustFs => {
            let arguments = json!({"path": path, "offset": first - 1, "limit": N_LINES});
            Request::call("read_file_lines", &arguments)
        }
        Server::NodeFs => Request::call("read_text_file", &json!({"path": path, "head": N_LINES})),
    }
}

fn first_lines<'a>(
    bench: &Bench,
    name: &'static str,
    server: Server,
    path: &Path,
) -> Result<Option<Side<'a>>> {
    let Some(launch) = bench.peers.launch(server, &bench.work) else { return Ok(None) };
    let (mut client, request) = (launch.start()?, read_lines(server, path, 1));
    check_lines(&client.text(&request)?, 1, N_LINES).context(name)?;
    Ok(Some(Side::new(name, move |series| {
        for _ in 0..5 {
            series.push(client.time(&request)?);
        }
        Ok(())
    })))
}

pub(in super::super) fn read_lines_1m(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let path = tree::lines(&bench.work, 1_000_000)?;
    let mut sides = Vec::new();
    for server in SERVERS {
        sides.extend(first_lines(bench, server.name(), server, &path)?);
    }
    let measured = in_turns(bench.rounds(20), sides)?;
    sheet.times(&measured);
    sheet.value(X_RUST_FS, measured.ratio(OURS, "rust-fs"));
    Ok(())
}

pub(in super::super) fn read_lines_200m(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    const SMALL: &str = "sinew, 1 MB";
    let small = tree::lines(&bench.work, 1_000_000)?;
    let large = tree::lines(&bench.work, 200_000_000)?;
    let mut sides = Vec::new();
    sides.extend(first_lines(bench, SMALL, Server::Ours, &small)?);
    for server in SERVERS {
        sides.extend(first_lines(bench, server.name(), server, &large)?);
    }
    let measured = in_turns(bench.rounds(20), sides)?;
    sheet.times(&measured);
    sheet.value(X_RUST_FS, measured.ratio(OURS, "rust-fs"));
    sheet.value(X_SMALL, measured.ratio(OURS, SMALL));
    Ok(())
}

/// Every first read is that of a server that has not seen the file before.
pub(in super::super) fn read_middle_1g(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    const TAIL: &str = "tail | head";
    let path = tree::lines(&bench.work, 1 << 30)?;
    let line_bytes = tree::line(1).len() as u64 + 1;
    let first = fs::metadata(&path)?.len() / line_bytes / 2;
    let from = format!("+{first}");
    let mut second = Series::default();
    let mut sides = Vec::new();
    if let Some(launch) = bench.peers.launch(Server::Ours, &bench.work) {
        let (path, second) = (&path, &mut second);
        sides.push(Side::new(OURS, move |series| {
            let mut client = launch.start()?;
            let (seconds, text) = client.time_text(&read_lines(Server::Ours, path, first))?;
            series.push(seconds);
            check_lines(&text, first, N_LINES)?;
            let next = first + N_LINES;
            let (seconds, text) = client.time_text(&read_lines(Server::Ours, path, next))?;
            second.push(seconds);
            check_lines(&text, next, N_LINES)
        }));
    }
    sides.push(Side::new(TAIL, |series| {
        let tail = Run::new("tail", &bench.work).args(&["-n", &from]).arg(&path);
        let (seconds, text) = tail.head(N_LINES as usize).output()?;
        series.push(seconds);
        check_lines(&text, first, N_LINES)
    }));
    let measured = in_turns(bench.rounds(8), sides)?;
    sheet.times(&measured);
    sheet.value(X_TAIL, measured.ratio(OURS, TAIL));
    if let Some(launch) = bench.peers.launch(Server::RustFs, &bench.work) {
        let request = read_lines(Server::RustFs, &path, first);
        let (seconds, text) = launch.start()?.time_text(&request)?;
        check_lines(&text, first, N_LINES)?;
        sheet.figure("rust-fs, once", Unit::Seconds, seconds);
        sheet.value(X_RUST_FS, measured.median(OURS).map(|ours| ours / seconds));
    }
    if 0 < second.n() {
        sheet.figure("sinew, second read", Unit::Seconds, second.median());
        sheet.value(SECOND_MS, Some(second.median() * 1e3));
    }
    Ok(())
}

pub(in super::super) fn write_1k(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    write(bench, sheet, 1_000, 20)
}

pub(in super::super) fn write_1m(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    write(bench, sheet, 1_000_000, 3)
}

fn write(bench: &Bench, sheet: &mut Sheet, n_bytes: u64, n_calls: usize) -> Result<()> {
    let content = fs::read_to_string(tree::lines(&bench.work, n_bytes)?)?;
    let contents = [content.clone(), content.replace("INFO", "WARN")];
    let mut sides = Vec::new();
    for (name, server, launch) in changing(bench) {
        let path = bench.work.join(format!("write-{n_bytes}-{name}.txt"));
        let (tool, key) = match server {
            Server::Ours | Server::Null => ("Write", "file_path"),
            Server::RustFs | Server::NodeFs => ("write_file", "path"),
        };
        let requests: Vec<(Request, &String)> = contents
            .iter()
            .map(|content| (Request::call(tool, &json!({key: path, "content": content})), content))
            .collect();
        let mut client = launch.start()?;
        sides.push(Side::new(name, move |series| {
            for (request, content) in requests.iter().cycle().take(2 * n_calls) {
                series.push(client.time(request)?);
                check_file(&path, content)?;
            }
            Ok(())
        }));
    }
    let measured = in_turns(bench.rounds(15), sides)?;
    sheet.times(&measured);
    sheet.value(X_RUST_FS, measured.ratio(OURS, "rust-fs"));
    Ok(())
}

/// The other side does what a durable change needs and nothing else.
pub(in super::super) fn write_durable(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    const LOOP: &str = "temp, fdatasync, rename";
    let content = fs::read_to_string(tree::lines(&bench.work, 1_000)?)?;
    let contents = [content.clone(), content.replace("INFO", "WARN")];
    let mut sides = Vec::new();
    if let Some(launch) = bench.peers.launch(Server::Ours, &bench.work) {
        let path = bench.work.join("durable-sinew.txt");
        let requests = contents.each_ref().map(|content| {
            (Request::call("Write", &json!({"file_path": path, "content": content})), content)
        });
        let mut client = without_undo(launch).options(&["--set", "files.sync=data"]).start()?;
        sides.push(Side::new(OURS, move |series| {
            for (request, content) in requests.iter().cycle().take(10) {
                series.push(client.time(request)?);
                check_file(&path, content)?;
            }
            Ok(())
        }));
    }
    let [path, temporary] = ["durable-loop.txt", "durable-loop.tmp"].map(|n| bench.work.join(n));
    let written = &contents;
    sides.push(Side::new(LOOP, move |series| {
        for content in written.iter().cycle().take(10) {
            let begun = Instant::now();
            let mut file = fs::File::create(&temporary)?;
            file.write_all(content.as_bytes())?;
            file.sync_data()?;
            fs::rename(&temporary, &path)?;
            series.push(begun.elapsed().as_secs_f64());
            check_file(&path, content)?;
        }
        Ok(())
    }));
    let measured = in_turns(bench.rounds(15), sides)?;
    sheet.times(&measured);
    sheet.value(X_LOOP, measured.ratio(OURS, LOOP));
    Ok(())
}

fn check_file(path: &Path, content: &str) -> Result<()> {
    if fs::read(path)? != content.as_bytes() {
        bail!("the file is not what it should be: {}", path.display());
    }
    Ok(())
}

/// Two contents of a file that differ in a few lines, and those lines.
struct Edits {
    contents: [String; 2],
    lines: [Vec<String>; 2],
}

impl Edits {
    fn of(path: &Path, n_edits: u64) -> Result<Self> {
        let before = fs::read_to_string(path)?;
        let n_lines = before.len() as u64 / (tree::line(1).len() as u64 + 1);
        let old: Vec<String> =
            (0..n_edits).map(|n| tree::line((2 * n + 1) * n_lines / (2 * n_edits))).collect();
        let new: Vec<String> =
            old.iter().map(|line| line.replace("at once", "in the end, and well")).collect();
        let mut after = String::with_capacity(before.len() + 100);
        let mut rest = before.as_str();
        for (old, new) in old.iter().zip(&new) {
            let (head, tail) = rest.split_once(old.as_str()).context("a line is not there")?;
            after.push_str(head);
            after.push_str(new);
            rest = tail;
        }
        after.push_str(rest);
        Ok(Self { contents: [before, after], lines: [old, new] })
    }

    /// Returns both ways to edit: the lines to find, those to put, and the content after it.
    fn ways(&self) -> [(&[String], &[String], &str); 2] {
        let [before, after] = &self.contents;
        let [old, new] = &self.lines;
        [(old, new, after), (new, old, before)]
    }
}

fn edit_request(server: Server, path: &Path, old: &[String], new: &[String]) -> Request {
    let pairs = old.iter().zip(new);
    match server {
        Server::Ours | Server::Null => {
            let mut edits: Vec<Value> =
                pairs.map(|(old, new)| json!({"old_string": old, "new_string": new})).collect();
            if let ([edit], 1) = (edits.as_mut_slice(), old.len()) {
                edit["file_path"] = json!(path);
                return Request::call("Edit", edit);
            }
            Request::call("MultiEdit", &json!({"file_path": path, "edits": edits}))
        }
        Server::RustFs | Server::NodeFs => {
            let edits: Vec<Value> =
                pairs.map(|(old, new)| json!({"oldText": old, "newText": new})).collect();
            Request::call("edit_file", &json!({"path": path, "edits": edits}))
        }
    }
}

fn edited_by<'a>(
    (name, server, launch): (&'static str, Server, Launch),
    path: PathBuf,
    edits: &'a Edits,
    memory_at_most: Option<&'a mut Series>,
) -> Result<Side<'a>> {
    fs::write(&path, &edits.contents[0])?;
    let ways = edits.ways().map(|(old, new, after)| (edit_request(server, &path, old, new), after));
    let mut memory_at_most = memory_at_most;
    let mut client = launch.start()?;
    Ok(Side::new(name, move |series| {
        for (request, after) in &ways {
            series.push(client.time(request)?);
            check_file(&path, after)?;
        }
        if let Some(memories) = &mut memory_at_most {
            memories.push(memory(client.pid(), "VmHWM")?);
        }
        Ok(())
    }))
}

fn edited_by_sed<'a>(bench: &'a Bench, path: PathBuf, edits: &'a Edits) -> Result<Side<'a>> {
    fs::write(&path, &edits.contents[0])?;
    Ok(Side::new(SED, move |series| {
        for (old, new, after) in edits.ways() {
            let mut sed = Run::new("sed", &bench.work).arg("-i");
            for (old, new) in old.iter().zip(new) {
                sed = sed.arg("-e").arg(format!("s/{old}/{new}/"));
            }
            series.push(sed.arg(&path).seconds()?);
            check_file(&path, after)?;
        }
        Ok(())
    }))
}

/// Measures edits of a file of `n_bytes` by every side; the memory of ours goes to `memories`.
fn edit(
    bench: &Bench,
    sheet: &mut Sheet,
    (n_bytes, n_edits, n_rounds): (u64, u64, usize),
    memories: &mut Series,
) -> Result<()> {
    let edits = Edits::of(&tree::lines(&bench.work, n_bytes)?, n_edits)?;
    let path = |name: &str| bench.work.join(format!("edit-{n_bytes}-{n_edits}-{name}.txt"));
    let mut memories = Some(memories);
    let mut sides = Vec::new();
    for side in changing(bench) {
        let (path, memories) = (path(side.0), if side.0 == OURS { memories.take() } else { None });
        sides.push(edited_by(side, path, &edits, memories)?);
    }
    sides.push(edited_by_sed(bench, path("sed"), &edits)?);
    let begun = Instant::now();
    let measured = in_turns(bench.rounds(n_rounds), sides)?;
    sheet.times(&measured);
    sheet.value(X_RUST_FS, measured.ratio(OURS, "rust-fs"));
    if 1 < n_edits || 1_000_000 < n_bytes {
        sheet.value(X_SED, measured.ratio(OURS, SED));
    }
    sheet.note(format!("took {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(())
}

pub(in super::super) fn edit_1m(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    edit(bench, sheet, (1_000_000, 1, 12), &mut Series::default())
}

pub(in super::super) fn edits_100(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    edit(bench, sheet, (1_000_000, 100, 8), &mut Series::default())
}

pub(in super::super) fn edit_50m(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let mut memories = Series::default();
    edit(bench, sheet, (50_000_000, 1, 3), &mut memories)?;
    if 0 < memories.n() {
        sheet.figure("sinew, peak memory", Unit::Bytes, memories.max());
        sheet.value(OVER_FILE_MB, Some((memories.max() - 50e6) / 1e6));
    }
    Ok(())
}

/// How many lines a hunk shows before and after a change.
const N_CONTEXT: usize = 3;

/// Two patches of one change: hunks with line numbers, and an envelope.
struct Patches {
    unified: String,
    envelope: String,
}

impl Patches {
    /// Returns the patches that make one content of another with as many lines, for a file of this
    /// name. The changed lines lie further apart than their context.
    fn of(before: &str, after: &str, name: &str) -> Self {
        let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
        let mut unified = format!("--- {name}\n+++ {name}\n");
        let mut envelope = format!("*** Begin Patch\n*** Update File: {name}\n");
        for at in (0..old.len()).filter(|&at| old.get(at) != new.get(at)) {
            let first = at.saturating_sub(N_CONTEXT);
            let last = (at + N_CONTEXT + 1).min(old.len());
            unified += &format!("@@ -{0},{1} +{0},{1} @@\n", first + 1, last - first);
            envelope += "@@\n";
            let lines = |range: std::ops::Range<usize>| old.get(range).unwrap_or_default();
            let mut hunk = String::new();
            lines(first..at).iter().for_each(|line| hunk += &format!(" {line}\n"));
            let changed = |from: &[&str]| from.get(at).copied().unwrap_or_default().to_owned();
            hunk += &format!("-{}\n+{}\n", changed(&old), changed(&new));
            lines(at + 1..last).iter().for_each(|line| hunk += &format!(" {line}\n"));
            unified += &hunk;
            envelope += &hunk;
        }
        envelope += "*** End Patch\n";
        Self { unified, envelope }
    }
}

pub(in super::super) fn patch_10k(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    const PATCH: &str = "patch";
    const CODEX: &str = "codex apply_patch";
    let edits = Edits::of(&tree::lines(&bench.work, 1_500_000)?, 1_249)?;
    let [before, after] = &edits.contents;
    let ways = [(before, after), (after, before)];
    let mut sides = Vec::new();
    for (name, _, launch) in changing(bench).filter(|(_, server, _)| *server == Server::Ours) {
        let file = format!("patch-{}.txt", name.replace([' ', ','], "-"));
        let path = bench.work.join(&file);
        fs::write(&path, before)?;
        let requests = ways.map(|(old, new)| {
            let patch = Patches::of(old, new, &file).unified;
            (Request::call("ApplyPatch", &json!({"patch": patch})), new)
        });
        let mut client = launch.start()?;
        sides.push(Side::new(name, move |series| {
            for (request, after) in &requests {
                series.push(client.time(request)?);
                check_file(&path, after)?;
            }
            Ok(())
        }));
    }
    sides.push(patched_by(bench, PATCH, ways, |file, patch| {
        Some(Run::new("patch", &bench.work).arg("-s").arg("-i").arg(patch).arg(file))
    })?);
    if bench.peers.apply_patch(&bench.work).is_some() {
        sides.push(patched_by(bench, CODEX, ways, |_, patch| {
            bench.peers.apply_patch(&bench.work)?.input(patch).ok()
        })?);
    }
    let measured = in_turns(bench.rounds(10), sides)?;
    sheet.times(&measured);
    sheet.value(X_PATCH, measured.ratio(OURS, PATCH));
    sheet.value(X_CODEX, measured.ratio(OURS, CODEX));
    Ok(())
}

/// A program that is run for each patch of a file of its own.
fn patched_by<'a>(
    bench: &Bench,
    name: &'static str,
    ways: [(&'a String, &'a String); 2],
    run: impl Fn(&Path, &Path) -> Option<Run> + 'a,
) -> Result<Side<'a>> {
    let file = bench.work.join(format!("patch-{}.txt", name.replace(' ', "-")));
    let shown = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    fs::write(&file, ways[0].0)?;
    let mut patches = Vec::new();
    for (at, (old, new)) in ways.into_iter().enumerate() {
        let Patches { unified, envelope } = Patches::of(old, new, &shown);
        let patch = file.with_extension(format!("{at}.patch"));
        fs::write(&patch, if name == "patch" { unified } else { envelope })?;
        patches.push((patch, new));
    }
    Ok(Side::new(name, move |series| {
        for (patch, after) in &patches {
            series.push(run(&file, patch).context("it does not start")?.seconds()?);
            check_file(&file, after)?;
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_checked_with_their_neighbours() {
        let text = |from: u64, to: u64| -> String {
            (from..=to).map(|n| format!("{n:>6}\t{}\n", tree::line(n))).collect()
        };
        assert!(check_lines(&text(5, 9), 5, 5).is_ok());
        assert!(check_lines(&format!("{}[more]\n", text(5, 9)), 5, 5).is_ok());
        assert!(check_lines(&text(4, 9), 5, 5).is_err());
        assert!(check_lines(&text(5, 10), 5, 5).is_err());
        assert!(check_lines(&text(6, 9), 5, 5).is_err());
    }
}

//! Rows about folders, and about all operations under a low limit on open files.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::super::Bench;
use super::super::client::Request;
use super::super::peers::{Run, Server};
use super::super::report::{Sheet, Unit};
use super::super::stats::{Side, in_turns};
use super::super::tree;
use super::{FAILED, X_LS, answer};

const OURS: &str = "sinew";
const LS: &str = "ls -a";

/// How many entries an answer shows unless more are asked for: the first by name, with size and
/// time; the rest are counted.
const LISTED: usize = 1_000;

pub(in super::super) fn list_10k(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    list(bench, sheet, 10_000, 20)
}

pub(in super::super) fn list_100k(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    list(bench, sheet, 100_000, 10)
}

fn list(bench: &Bench, sheet: &mut Sheet, n: usize, n_rounds: usize) -> Result<()> {
    let folder = tree::folder_of(&bench.work, n)?;
    let mut sides = Vec::new();
    if let Some(launch) = bench.peers.launch(Server::Ours, &bench.work) {
        let mut client = launch.start()?;
        let n_shown = n.min(LISTED);
        let request = Request::call("List", &json!({"path": folder}));
        let text = answer::whole(&bench.work, &client.text(&request)?)?;
        check_list(&text, &folder, n, n_shown)?;
        sides.push(Side::new(OURS, move |series| {
            series.push(client.time(&request)?);
            Ok(())
        }));
    }
    sides.push(Side::new(LS, |series| {
        series.push(Run::new("ls", &folder).args(&["-a"]).seconds()?);
        Ok(())
    }));
    let measured = in_turns(bench.rounds(n_rounds), sides)?;
    sheet.times(&measured);
    sheet.value(X_LS, measured.ratio(OURS, LS));
    Ok(())
}

/// Sees that the first entries by name are listed, whatever stands beside a name, and that the other entries are
/// counted.
fn check_list(text: &str, folder: &Path, n: usize, n_shown: usize) -> Result<()> {
    let is_name = |word: &&str| word.starts_with("entry-") && word.ends_with(".txt");
    let names: Vec<&str> = answer::lines(text)
        .iter()
        .filter_map(|line| line.split([' ', '/', '\t']).find(is_name))
        .collect();
    let expected = (0..n_shown).map(tree::entry);
    if !expected.eq(names.iter().copied()) {
        let (n, folder) = (names.len(), folder.display());
        bail!("the answer is wrong: {n} entries, expected the first {n_shown} of {folder}");
    }
    let rest = (n - n_shown).to_string();
    let is_counted = |line: &str| line.contains(&rest) || line.contains(&n.to_string());
    if n_shown < n && !text.lines().any(|line| line.starts_with('[') && is_counted(line)) {
        bail!("the answer does not count the {rest} entries that it leaves out");
    }
    Ok(())
}

/// Calls every tool on the tree, some many times at once, with at most 256 descriptors.
pub(in super::super) fn descriptors(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let Some(launch) = bench.peers.launch(Server::Ours, &bench.tree) else { return Ok(()) };
    let mut client = launch.max_descriptors(256).start()?;
    let path = bench.tree.join("descriptors.tmp");
    let calls = [
        ("Write", json!({"file_path": path, "content": "one\ntwo\n"})),
        ("Read", json!({"file_path": path})),
        ("Edit", json!({"file_path": path, "old_string": "one", "new_string": "1"})),
        (
            "MultiEdit",
            json!({"file_path": path, "edits": [{"old_string": "two", "new_string": "2"}]}),
        ),
        ("Glob", json!({"pattern": "**/*.rs"})),
        ("Grep", json!({"pattern": "unwrap", "output_mode": "files_with_matches"})),
        ("Grep", json!({"pattern": "unwrap", "output_mode": "count", "head_limit": 100_000})),
        ("Grep", json!({"pattern": "fn main", "output_mode": "content", "-n": true})),
        ("Grep", json!({"pattern": "\\{\\n\\n", "multiline": true})),
        ("List", json!({"path": bench.tree})),
        ("List", json!({"path": bench.tree, "recursive": true, "depth": 20, "limit": 1_000})),
    ];
    let mut failed = Vec::new();
    for (tool, arguments) in &calls {
        match client.text(&Request::call(tool, arguments)) {
            Ok(text) if !answer::lines(&text).is_empty() => {}
            Ok(_) => failed.push(format!("{tool} {arguments}: nothing is found")),
            Err(error) => failed.push(format!("{tool} {arguments}: {error:#}")),
        }
    }
    if fs::read_to_string(&path).unwrap_or_default() != "1\n2\n" {
        failed.push(String::from("the edits did not reach the file"));
    }
    fs::remove_file(&path)?;
    let many = |tool, arguments: Value| vec![Request::call(tool, &arguments); 16];
    let mut at_once = many("Grep", json!({"pattern": "TcpStream"}));
    at_once.extend(many("Glob", json!({"pattern": "**/lib.rs"})));
    match client.all_at_once(&at_once) {
        Ok(texts) => {
            let unlike =
                texts.chunks(16).filter(|same| same.iter().any(|t| Some(t) != same.first()));
            failed.extend(unlike.map(|_| String::from("searches at once differ in their answers")));
        }
        Err(error) => failed.push(format!("32 searches at once: {error:#}")),
    }
    sheet.figure("operations", Unit::Count, (calls.len() + at_once.len()) as f64);
    sheet.value(FAILED, Some(failed.len() as f64));
    for failure in failed {
        sheet.note(failure);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_checked_in_order_and_to_the_end() {
        let folder = Path::new("folder");
        let shown = "entry-0000000.txt\nentry-0000001.txt  0 bytes\n";
        assert!(check_list(shown, folder, 2, 2).is_ok());
        assert!(check_list(&format!("{shown}[7 more]\n"), folder, 9, 2).is_ok());
        assert!(check_list(shown, folder, 9, 2).is_err());
        assert!(check_list("entry-0000001.txt\nentry-0000000.txt\n", folder, 2, 2).is_err());
    }
}

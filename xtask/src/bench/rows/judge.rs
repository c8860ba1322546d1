//! The row about judging: how long it takes to say what a command is, before anything runs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::super::Bench;
use super::super::report::Sheet;
use super::super::stats::{Side, in_turns};
use super::JUDGED_US;

const JUDGED: &str = "typical commands";
const EMPTY: &str = "a line without one";

/// Commands as agents send them, and what they are.
const COMMANDS: &[(&str, &str)] = &[
    ("ls -la", "allow"),
    ("cat judged/a.txt", "allow"),
    ("grep -rn alpha judged | head -20", "allow"),
    ("cargo test --workspace 2>&1 | tail -40", "ask"),
    ("cd judged && sed -n '1,20p' a.txt", "allow"),
    ("mkdir -p judged/b && cp judged/a.txt judged/b/", "ask"),
    ("python3 -m pytest -q judged", "ask"),
];

/// How often each is asked in a turn.
const N_ASKED: usize = 40;

pub(in super::super) fn commands(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let Some(ours) = bench.peers.ours() else { return Ok(()) };
    fs::create_dir_all(bench.work.join("judged"))?;
    fs::write(bench.work.join("judged/a.txt"), "alpha\n")?;
    let ask = |lines: Vec<(String, Option<&'static str>)>| -> Result<_> {
        let mut child = Command::new(ours)
            .arg("--root")
            .arg(&bench.work)
            .args(["policy", "check"])
            .current_dir(&bench.work)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("sinew does not start")?;
        let mut input = child.stdin.take().context("it has no input")?;
        let mut output = BufReader::new(child.stdout.take().context("it has no output")?);
        Ok(move |series: &mut super::super::stats::Series| -> Result<()> {
            for (line, ruling) in &lines {
                // Many at once: what one side waits for the other to wake up is no judging.
                let begun = Instant::now();
                input.write_all(line.repeat(N_ASKED).as_bytes())?;
                let mut answers = vec![String::new(); N_ASKED];
                for answer in &mut answers {
                    output.read_line(answer)?;
                }
                series.push(begun.elapsed().as_secs_f64() / N_ASKED as f64);
                for answer in answers {
                    let answer: Value = serde_json::from_str(&answer)?;
                    if answer.get("ruling").and_then(Value::as_str) != *ruling {
                        bail!("{line} is answered by {answer}");
                    }
                }
            }
            Ok(())
        })
    };
    let lines = |(command, ruling): &(&str, &'static str)| {
        (format!("{}\n", json!({ "command": command })), Some(*ruling))
    };
    let judged = ask(COMMANDS.iter().map(lines).collect())?;
    let empty = ask(vec![(String::from("{}\n"), None)])?;
    let sides = vec![Side::new(JUDGED, judged), Side::new(EMPTY, empty)];
    let measured = in_turns(bench.rounds(20), sides)?;
    sheet.times(&measured);
    let over = measured.median(JUDGED).zip(measured.median(EMPTY));
    sheet.value(JUDGED_US, over.map(|(judged, empty)| (judged - empty) * 1e6));
    Ok(())
}

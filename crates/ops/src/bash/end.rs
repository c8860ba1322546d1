//! The end of a command, in pieces that the rows of every dialect combine.
//!
//! Streams in fields of their own stay as written, since programs read them; text for models is shown as on
//! a screen. Both are cut at whole characters, and the store then holds the whole.

use serde_json::json;
use sinew_tool::{
    Block, CommandChanges, ErrorBody, Exit, Finished, Kind, MAX_STORED_OUTPUT, Output, Refused,
    Reply, SandboxFindings,
};

use super::BashArgs;
use crate::screen;

/// How much of both streams a result has room for.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Bytes of standard output.
    pub stdout: usize,
    /// Bytes of standard error.
    pub stderr: usize,
    /// Bytes of both together, as they stand in JSON.
    pub json: usize,
}

/// One stream, as far as there was room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Its beginning.
    pub text: String,
    /// A note about the omitted part.
    pub left_out: Option<String>,
}

/// Returns the beginnings of stdout and stderr, which share their room. stderr ends with what a model must
/// know: sandbox refusals, and processes that were ended or may run on. The rest are notes: [`apart`].
pub fn streams(finished: &Finished, room: Room) -> (Stream, Stream) {
    let mut lines = refused(&finished.findings);
    lines.extend(fate(finished).iter().map(|words| format!("[{words}]")));
    streams_before(finished, room, &lines)
}

/// Returns the beginnings of stdout and stderr, which share their room; the given lines end stderr.
pub fn streams_before(finished: &Finished, room: Room, lines: &[String]) -> (Stream, Stream) {
    let refusals = lines.join("\n");
    let room = Room {
        stderr: room.stderr.saturating_sub(refusals.len()),
        json: room.json.saturating_sub(json_bytes(&refusals)),
        ..room
    };
    let (stdout, stderr) = (screen::written(&finished.stdout), screen::written(&finished.stderr));
    let stdout_within = screen::first_bytes(&stdout, room.stdout);
    let stderr_within = screen::first_bytes(&stderr, room.stderr);
    let kept = json_bytes(stderr_within).min(room.json / 2);
    let shown = within_json(stdout_within, room.json - kept);
    let rest = within_json(stderr_within, room.json.saturating_sub(json_bytes(shown)));
    let stream = |name: &str, shown: &str, kept: &str, output: &Output| {
        let is_cut = 0 < output.n_left_out() || shown.len() < kept.len();
        let words = || format!("{name} was cut after {} of {} bytes", shown.len(), output.total);
        Stream { text: shown.to_owned(), left_out: is_cut.then(words) }
    };
    let mut err = stream("stderr", rest, &stderr, &finished.stderr);
    if !refusals.is_empty() {
        if !err.text.is_empty() && !err.text.ends_with('\n') {
            err.text.push('\n');
        }
        err.text.push_str(&refusals);
        err.text.push('\n');
    }
    (stream("stdout", shown, &stdout, &finished.stdout), err)
}

/// Returns how many bytes a text takes in JSON, without its quotes.
fn json_bytes(text: &str) -> usize {
    text.chars().map(json_bytes_of).sum()
}

fn json_bytes_of(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        c => c.len_utf8(),
    }
}

/// Returns the beginning of a text that takes no more than so many bytes in JSON.
pub fn within_json(text: &str, max_bytes: usize) -> &str {
    let mut left = max_bytes;
    let end = text.char_indices().find_map(|(at, c)| match left.checked_sub(json_bytes_of(c)) {
        Some(rest) => {
            left = rest;
            None
        }
        None => Some(at),
    });
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// The first lines of everything a command wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstLines {
    /// The lines; where some were left out, without the end of the last.
    pub text: String,
    /// How many lines were left out, where something was.
    pub left_out: Option<u64>,
}

/// Returns the first lines of all output, as on a screen; cuts inside a first line that is too long.
pub fn first_lines(finished: &Finished, max_bytes: usize, max_lines: usize) -> FirstLines {
    let output = &finished.merged;
    let text = screen::shown(output);
    if output.n_left_out() == 0 && text.len() <= max_bytes && text.lines().count() <= max_lines {
        return FirstLines { text, left_out: None };
    }
    let (mut n_bytes, mut n_lines) = (0, 0);
    for line in text.split_inclusive('\n').take(max_lines) {
        if max_bytes < n_bytes + line.len() {
            break;
        }
        n_bytes += line.len();
        n_lines += 1;
    }
    let cut = match n_lines {
        0 => screen::first_bytes(&text, max_bytes),
        _ => text.get(..n_bytes).unwrap_or_default(),
    };
    let last = output.tail.last().or(output.head.last());
    let n_all = finished.n_lines + u64::from(last.is_some_and(|byte| *byte != b'\n'));
    let text = cut.strip_suffix('\n').unwrap_or(cut).to_owned();
    FirstLines { text, left_out: Some(n_all.saturating_sub(n_lines.max(1))) }
}

/// Returns both streams as on a screen; they lose their middle where both exceed the limit.
pub fn both_ends(finished: &Finished, max_bytes: usize) -> (Stream, Stream) {
    let half = max_bytes / 2;
    let beside = |other: &Output| {
        let n_other = usize::try_from(other.total).unwrap_or(usize::MAX);
        max_bytes - n_other.min(half)
    };
    let shown = |name: &str, output: &Output, most: usize| {
        let shown = screen::show(output, false, (most, usize::MAX));
        let left_out = shown.left_out.map(|words| format!("{name}: {words}"));
        Stream { text: shown.text, left_out }
    };
    (
        shown("stdout", &finished.stdout, beside(&finished.stderr)),
        shown("stderr", &finished.stderr, beside(&finished.stdout)),
    )
}

/// Returns where the output is stored, and how much of it where that is not all.
pub fn stored(finished: &Finished) -> Option<String> {
    let path = finished.stored.as_ref()?;
    Some(match MAX_STORED_OUTPUT < finished.merged.total {
        true => format!("its first {MAX_STORED_OUTPUT} bytes are in {path}"),
        false => format!("the whole output is in {path}"),
    })
}

/// Returns the reply of a finished command: sandbox refusals, the dialect's text, then the omitted output and the
/// killed processes. The ledger records how the command ended, even where the dialect shows that as a result.
pub fn told(
    mut reply: Reply,
    args: &BashArgs,
    finished: &Finished,
    left_out: Vec<String>,
) -> Reply {
    let refusals = refusals(&finished.findings);
    if !refusals.is_empty() {
        reply.content.insert(0, Block::Text { text: refusals.join("\n") });
    }
    ended(reply, args, finished, left_out)
}

/// Returns the reply of a finished command whose stderr is that of [`streams`]: notes name the omitted output and the
/// files that the command changed.
pub fn apart(
    mut reply: Reply,
    args: &BashArgs,
    finished: &Finished,
    left_out: Vec<String>,
) -> Reply {
    consequences(&finished.findings).into_iter().for_each(|line| reply.note(line));
    closed(reply, args, finished, left_out, Vec::new())
}

/// Returns the reply of a finished command like [`told`], where its text or stderr has the refusals.
pub fn ended(reply: Reply, args: &BashArgs, finished: &Finished, left_out: Vec<String>) -> Reply {
    closed(reply, args, finished, left_out, fate(finished))
}

/// Returns the words on processes that were ended with a command or may run on.
fn fate(finished: &Finished) -> Vec<String> {
    left_running(finished).into_iter().chain(running_on(finished)).collect()
}

fn closed(
    mut reply: Reply,
    args: &BashArgs,
    finished: &Finished,
    left_out: Vec<String>,
    fate: Vec<String>,
) -> Reply {
    reply.meta.truncated |= !left_out.is_empty();
    let whole = stored(finished).filter(|_| !left_out.is_empty());
    let notes: Vec<String> = left_out.into_iter().chain(whole).chain(fate).collect();
    if !notes.is_empty() {
        let text: Vec<String> = notes.iter().map(|note| format!("[{note}]")).collect();
        reply.note(text.join("\n"));
    }
    if reply.error.is_none() {
        reply.outcome = failure(args, finished).map(|(kind, _)| kind);
    }
    if let Some((kind @ Kind::PolicyDenied, words)) = failure(args, finished).filter(|_| reply.ok) {
        reply = failed(reply, kind, words);
    }
    describe(&mut reply, finished);
    if !reply.meta.truncated {
        reply.meta.output_path = None;
    }
    reply
}

/// Marks a reply as failed.
#[must_use]
pub fn failed(mut reply: Reply, kind: Kind, message: impl Into<String>) -> Reply {
    reply.ok = false;
    reply.error = Some(ErrorBody { kind, message: message.into(), hint: None });
    reply
}

/// Returns the reply of a command that neither returned a code nor was ended by a signal or the time.
pub fn not_run(args: &BashArgs, finished: &Finished) -> Reply {
    let (kind, message) = failure(args, finished)
        .unwrap_or_else(|| (Kind::ExecutionFailed, String::from("the command did not run")));
    told(failed(Reply::text(message.clone()), kind, message), args, finished, Vec::new())
}

/// Adds the metadata of a command to its reply.
pub(super) fn describe(reply: &mut Reply, finished: &Finished) {
    reply.bounded = true;
    reply.meta.output_path.clone_from(&finished.stored);
    match &finished.exit {
        Exit::Code(code) => reply.meta.more.insert("exit_code", *code),
        Exit::Signal(signal) => reply.meta.more.insert("signal", *signal),
        Exit::TimedOut | Exit::Cancelled | Exit::NotStarted { .. } | Exit::Lost => {}
    }
    let contained = &finished.contained;
    reply.meta.more.insert(
        "sandbox",
        json!({"level": contained.level, "missing": contained.missing, "network": contained.network}),
    );
    if let Some(changes) = &finished.findings.changes
        && *changes != CommandChanges::default()
    {
        let CommandChanges { n_made, n_removed, n_changed, n_git, n_not_kept, is_partial, .. } =
            changes;
        reply.meta.more.insert(
            "changes",
            json!({
                "made": n_made, "removed": n_removed, "changed": n_changed, "git": n_git, "not_kept": n_not_kept,
                "is_partial": is_partial,
            }),
        );
    }
}

/// The most bytes of sandbox refusals in a reply.
const MAX_REFUSALS: usize = 4 * 1024;

/// Returns a bracketed line per sandbox refusal, with the grant that allows it; the last counts the others.
pub(crate) fn refusals(findings: &SandboxFindings) -> Vec<String> {
    refused(findings).into_iter().chain(consequences(findings)).collect()
}

/// Returns a bracketed line per sandbox refusal, without what the command changed.
pub fn refused(findings: &SandboxFindings) -> Vec<String> {
    let words = |Refused { deed, what, why, grant, need, times, .. }: &Refused| {
        let times = if *times == 1 { String::new() } else { format!(", {times} times") };
        let grant = match (need, grant.as_str()) {
            (Some(need), grant) => {
                format!(
                    "; to allow it: repeat the call with needs=[\"{need}\"] and why, or {grant}"
                )
            }
            (None, "") => String::new(),
            (None, grant) => format!("; to allow it: {grant}"),
        };
        format!("[the sandbox refused to {deed} {what}{times}: {why}{grant}]")
    };
    let mut left = MAX_REFUSALS;
    let exhausted = findings.exhausted.iter().map(|words| format!("[{words}]"));
    let mut lines: Vec<String> = exhausted.collect();
    let n_before = lines.len();
    for refused in &findings.listed {
        let line = words(refused);
        match left.checked_sub(line.len()) {
            Some(rest) => left = rest,
            None => break,
        }
        lines.push(line);
    }
    let n_listed = lines.len() - n_before;
    let n_unlisted = findings.listed.len() - n_listed;
    let unlisted = findings.listed.iter().skip(n_listed).map(|refused| refused.times);
    let n_more = unlisted.fold(findings.n_more, u32::saturating_add);
    if 0 < n_more {
        let others = if n_listed == 0 && n_unlisted != 0 { "" } else { " more" };
        let calls = if n_more == 1 { "call" } else { "calls" };
        lines.push(format!("[the sandbox refused {n_more}{others} {calls} of the command]"));
    }
    lines
}

/// Returns the bracketed lines about what a command changed that acts later.
pub fn consequences(findings: &SandboxFindings) -> Vec<String> {
    findings.consequences().into_iter().map(|line| format!("[{line}]")).collect()
}

pub(crate) fn refusal_lines(findings: &SandboxFindings) -> String {
    refusals(findings).into_iter().flat_map(|line| [line, String::from("\n")]).collect()
}

/// Returns a note on the processes killed with the command that started them.
pub(super) fn left_running(finished: &Finished) -> Option<String> {
    let (processes, were) = match finished.n_left {
        0 => return None,
        1 => ("process", "was"),
        _ => ("processes", "were"),
    };
    let n_left = finished.n_left;
    Some(format!("{n_left} {processes} that the command left running {were} ended"))
}

/// Returns a note that processes of a command may still run.
pub(super) fn running_on(finished: &Finished) -> Option<String> {
    finished.may_run_on.then(|| {
        String::from(
            "some processes of the command could not be ended and may still run; end them by hand, and \
             see `sinew doctor` for what would let sinew end them",
        )
    })
}

/// Returns the reason for which a command failed, if it did.
pub fn failure(args: &BashArgs, finished: &Finished) -> Option<(Kind, String)> {
    match &finished.exit {
        Exit::Code(0) => {
            let fails = finished.findings.listed.iter().any(|refused| refused.fails);
            let words = "the sandbox refused a change, which the command left undone";
            fails.then(|| (Kind::PolicyDenied, String::from(words)))
        }
        Exit::Code(code) => Some((Kind::ExecutionFailed, format!("exit code {code}"))),
        Exit::Signal(signal) => Some((Kind::ExecutionFailed, Exit::Signal(*signal).to_string())),
        Exit::TimedOut if finished.may_run_on => {
            Some((Kind::Timeout, format!("timed out after {} ms", args.timeout_ms)))
        }
        Exit::TimedOut => Some((
            Kind::Timeout,
            format!("timed out after {} ms, and everything it started was ended", args.timeout_ms),
        )),
        Exit::Cancelled => Some((Kind::Cancelled, String::from("the call was cancelled"))),
        Exit::NotStarted { why, .. } => {
            let what = if args.has_shell() { "shell" } else { "program" };
            Some((Kind::ExecutionFailed, format!("the {what} could not be started: {why}")))
        }
        Exit::Lost => {
            let words =
                "the supervisor of the command ended or did not answer, so its exit is unknown";
            Some((Kind::ExecutionFailed, String::from(words)))
        }
    }
}

//! `sinew audit`: lists, shows, verifies and exports the ledger's records.
//!
//! It reads the ledger without changing it, while other processes write. Terminal output escapes invisible
//! characters; JSON output is pure ASCII.

pub(super) mod form;
mod tree;

use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use sinew_guard::{
    Audit, AuditError, ChainLink, Finding, Record, SystemClock, Verified, Walk, Wanted, key_of,
    timestamp,
};
use sinew_tool::{Clock, Kind, shown, shown_line};

use crate::cli::AuditCommand;
use crate::config::LedgerMode;
use crate::json_form::{self, CommandError};
use crate::screen;
use crate::wiring::{self, Loaded};

/// The limit of a call's subject in a list.
const MAX_LISTED: usize = 120;
/// The limit of an export line, in bytes: a record of thousands of changes is shorter.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// The exit code of a refused call.
pub(super) const REFUSED: u8 = 3;

/// Runs the subcommand.
pub(crate) fn run(loaded: &Loaded, command: &AuditCommand) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    super::warn_of_other_ledger(loaded);
    let state = wiring::state_dir(loaded)?;
    if let AuditCommand::Verify { head, file: Some(file), json } = command {
        let key = key_of(&state)?;
        let verified = verify_file(&key, file, kept(head.as_deref())?)?;
        return told(&verified, *json);
    }
    let audit = match Audit::open(&state) {
        Ok(audit) => audit,
        Err(error) => return unopened(loaded, error, command),
    };
    match command {
        AuditCommand::List { json, tree, .. } => {
            list(&audit, &wanted(loaded, command)?, (*json, *tree))
        }
        AuditCommand::Show { id, json } => show(&audit, id, *json),
        AuditCommand::Head => {
            writeln!(io::stdout(), "{}", form::link(&audit.head()?))?;
            Ok(ExitCode::SUCCESS)
        }
        AuditCommand::Verify { head, json, .. } => {
            let is_watched = io::stderr().is_terminal();
            let progress = |n_records: u64| {
                if is_watched {
                    let _ = write!(io::stderr(), "\r{n_records} records");
                }
            };
            let verified = audit.verify(kept(head.as_deref())?, progress)?;
            if is_watched {
                let _ = write!(io::stderr(), "\r\u{1b}[K");
            }
            told(&verified, *json)
        }
        AuditCommand::Export { since } => export(&audit, *since),
    }
}

/// Reports why the ledger cannot be read.
fn unopened(
    loaded: &Loaded,
    error: AuditError,
    command: &AuditCommand,
) -> anyhow::Result<ExitCode> {
    let (is_whole, why) = match (error, command) {
        (AuditError::Empty, AuditCommand::Verify { head: Some(_), .. }) => {
            let why = "nothing is recorded here, and the head that was kept knows of records";
            (false, String::from(why))
        }
        (error @ AuditError::Empty, AuditCommand::Verify { .. }) => {
            (true, traced(loaded).unwrap_or_else(|| error.to_string()))
        }
        (error @ AuditError::Empty, _) => (true, error.to_string()),
        (AuditError::Gone(why), AuditCommand::Verify { .. }) => (false, why),
        (error @ AuditError::Damaged(_), AuditCommand::Verify { .. }) => (false, error.to_string()),
        (error, _) => return Err(error.into()),
    };
    if !is_whole {
        return Err(CommandError::with(1, "damaged", why));
    }
    match command {
        AuditCommand::Verify { json: true, .. } => {
            json_form::write(
                &json!({ "ok": true, "n_records": 0, "findings": [], "notes": [{ "text": why }] }),
            )?;
        }
        _ => screen::say(&why),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a note if a root has outputs of recorded calls but the ledger has no records.
/// It proves no loss: the project may be a copy or another user's.
#[expect(clippy::disallowed_methods, reason = "sinew's own directory in a root is looked at")]
pub(super) fn traced(loaded: &Loaded) -> Option<String> {
    if matches!(loaded.settings.ledger, LedgerMode::Off) {
        return None;
    }
    let outputs = loaded.roots.iter().map(|root| root.join(".sinew/tool-output"));
    let has_some =
        |dir: &PathBuf| std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    let dir = outputs.into_iter().find(has_some)?;
    Some(format!(
        "nothing is recorded yet, but {} holds outputs of calls: another user or machine recorded them, or the \
         state directory was lost",
        dir.display()
    ))
}

/// Returns the filter of a list.
fn wanted(loaded: &Loaded, command: &AuditCommand) -> anyhow::Result<Wanted> {
    let AuditCommand::List { tool, path, outcome, since, limit, .. } = command else {
        return Ok(Wanted::default());
    };
    let path = path.as_ref().map(|path| match loaded.roots.first() {
        Some(root) => plain(&root.join(path)),
        None => plain(path),
    });
    let now = SystemClock.wall_ms() as i64;
    Ok(Wanted {
        session: loaded.settings.session.clone(),
        tool: tool.clone(),
        path,
        outcomes: outcome.as_deref().map(outcomes).transpose()?.unwrap_or_default(),
        since_ms: since.as_deref().map(|since| since_ms(since, now)).transpose()?,
        without_ended_intents: true,
        newest_first: true,
        limit: Some(*limit),
        ..Wanted::default()
    })
}

/// Returns a path as records have it: without `.`, `..` and a final slash. It is purely lexical, since the
/// path may no longer exist.
fn plain(path: &Path) -> String {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain.to_string_lossy().into_owned()
}

/// Returns the outcomes that a word means.
fn outcomes(word: &str) -> anyhow::Result<Vec<String>> {
    let kinds = Kind::ALL.iter().copied();
    let meant: Vec<String> = match word {
        "ok" => vec![String::from(word)],
        "denied" => {
            kinds.filter(|kind| kind.exit_code() == REFUSED).map(|kind| kind.to_string()).collect()
        }
        _ => kinds.map(|kind| kind.to_string()).filter(|kind| kind == word).collect(),
    };
    if meant.is_empty() {
        let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        bail!("`--outcome` must be ok, denied, {}, not `{}`", known.join(", "), shown_line(word));
    }
    Ok(meant)
}

/// Parses a date, a date with time, or an age, and returns the time.
fn since_ms(text: &str, now: i64) -> anyhow::Result<i64> {
    let units = [('m', 60_000), ('h', 3_600_000), ('d', 86_400_000)];
    let ago = units.iter().find_map(|(unit, ms)| {
        let n: i64 = text.strip_suffix(*unit)?.parse().ok().filter(|n| 0 <= *n)?;
        Some(now.saturating_sub(n.saturating_mul(*ms)))
    });
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    // It compares formatted dates, so parsing agrees with printing.
    let dated = || {
        let year: i64 = whole.get(..4)?.parse().ok()?;
        let mut low = (year - 1970).checked_mul(365 * 86_400)?;
        let mut high = low.checked_add(600 * 86_400)?;
        if low < 0 {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if timestamp((middle * 1_000).unsigned_abs()).as_str() < whole.as_str() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (timestamp((low * 1_000).unsigned_abs()) == whole).then_some(low * 1_000)
    };
    ago.or_else(dated).with_context(|| {
        format!(
            "`--since` must be a time such as 2026-01-31, 2026-01-31T12:00:00Z, 90m, 24h or 7d, not \
             `{text}`"
        )
    })
}

/// Parses a saved chain head.
fn kept(written: Option<&str>) -> anyhow::Result<Option<ChainLink>> {
    written
        .map(|text| {
            form::link_of(text).with_context(|| {
                format!("`--head` must be what `sinew audit head` printed, SEQ:HASH, not `{text}`")
            })
        })
        .transpose()
}

fn list(
    audit: &Audit,
    wanted: &Wanted,
    (as_json, is_tree): (bool, bool),
) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    if as_json {
        let write = |record: Record| {
            let mut object = form::object(&record, None);
            object.extend(state(&record).map(|state| (String::from("outcome"), json!(state))));
            form::write_line(&mut out, &object)
        };
        audit.records(wanted, write)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    if is_tree {
        let mut records = Vec::new();
        audit.records(wanted, |record: Record| {
            records.push(record);
            Ok::<_, anyhow::Error>(())
        })?;
        tree::print(&mut out, records)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{:>7}  {:<20}  {:<16}  {:<16}  {:>9}  WHAT",
        "SEQ", "TIME", "TOOL", "OUTCOME", "MS"
    )?;
    audit.records(wanted, |record: Record| {
        let Shown { time, tool, outcome, ms, what } = Shown::of(&record);
        let seq = record.link.seq;
        let outcome = screen::mark(&outcome, 16);
        writeln!(out, "{seq:>7}  {time:<20}  {tool:<16}  {outcome}  {ms:>9}  {what}")?;
        Ok::<_, anyhow::Error>(())
    })?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A record as a list shows it.
struct Shown {
    time: String,
    tool: String,
    outcome: String,
    ms: String,
    what: String,
}

impl Shown {
    fn of(record: &Record) -> Self {
        let text = |name| record.text(name).unwrap_or_default();
        let (tool, outcome) = match record.text("event") {
            Some(event) => ("-", event),
            None => (text("tool"), state(record).unwrap_or(text("outcome"))),
        };
        let what = [text("command"), text("file_path")].into_iter().find(|what| !what.is_empty());
        // What a call changed that acts later comes before its command, which may be long.
        let what = match (text("text"), what) {
            ("", what) => what.unwrap_or_default().to_owned(),
            (text, None) => text.to_owned(),
            (text, Some(what)) => format!("[{}] {what}", short(text, MAX_LISTED / 2)),
        };
        let ms = record.number("duration_us").map(|us| format!("{:.1}", us as f64 / 1e3));
        Self {
            time: timestamp(record.number("at_ms").unwrap_or(0).unsigned_abs()),
            tool: shown_line(tool),
            outcome: shown_line(outcome),
            ms: ms.unwrap_or_default(),
            what: short(&shown_line(&what), MAX_LISTED),
        }
    }
}

/// Returns the state of a call that has an intent and no end.
pub(super) fn state(record: &Record) -> Option<&'static str> {
    let is_intent = record.text("phase") == Some("intent");
    is_intent.then(|| match record.is_of_dead_process() {
        Some(false) => "running",
        Some(true) => "never ended",
        // The call ran on another machine or in another container.
        None => "not ended",
    })
}

/// Returns the first characters of a text.
pub(super) fn short(text: &str, n_chars: usize) -> String {
    match text.char_indices().nth(n_chars) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Shows a call: the named record and the others of that call.
fn show(audit: &Audit, id: &str, as_json: bool) -> anyhow::Result<ExitCode> {
    let all = |wanted: Wanted| {
        let mut found = Vec::new();
        audit.records(&wanted, |record| {
            found.push(record);
            Ok::<_, AuditError>(())
        })?;
        Ok::<_, anyhow::Error>(found)
    };
    let of_call = |call_id: &str, session: Option<&str>| {
        all(Wanted {
            call_id: Some(call_id.to_owned()),
            session: session.map(ToOwned::to_owned),
            ..Wanted::default()
        })
    };
    let mut found = Vec::new();
    if let Ok(seq) = id.parse() {
        let one = Wanted { since_seq: Some(seq), limit: Some(1), ..Wanted::default() };
        found = all(one)?;
        found.retain(|record| record.link.seq == seq);
        if let Some(call_id) = found.first().and_then(|record| record.text("call_id")) {
            let session = found.first().and_then(|record| record.text("session"));
            let (call_id, session) = (call_id.to_owned(), session.map(ToOwned::to_owned));
            found = of_call(&call_id, session.as_deref())?;
        }
    }
    if found.is_empty() {
        found = of_call(id, None)?;
    }
    if found.is_empty() {
        bail!(
            "there is no record or call `{}`; `sinew audit list` shows those there are",
            shown_line(id)
        );
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for (n, record) in found.iter().enumerate() {
        let object = form::object(record, None);
        if as_json {
            form::write_line(&mut out, &object)?;
            continue;
        }
        if 0 < n {
            writeln!(out)?;
        }
        for (name, value) in &object {
            let value = match value {
                Value::String(text) => shown(text).replace('\n', "\n    "),
                value => value.to_string(),
            };
            writeln!(out, "{name:<14} {value}")?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn export(audit: &Audit, since: Option<i64>) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut previous: Option<ChainLink> = None;
    let wanted = Wanted { since_seq: since, ..Wanted::default() };
    audit.records(&wanted, |record: Record| {
        let seq = record.link.seq;
        let before = match previous {
            Some(link) if link.seq.checked_add(1) == Some(seq) => Some(link),
            _ => audit.before(seq)?,
        };
        previous = Some(record.link);
        form::write_line(&mut out, &form::object(&record, before))
    })?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Verifies the chain of an export.
#[expect(clippy::disallowed_methods, reason = "the person names the file to be read")]
fn verify_file(
    key: &sinew_guard::Key,
    path: &Path,
    kept: Option<ChainLink>,
) -> anyhow::Result<Verified> {
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    let mut walk = None;
    let mut found = None;
    let mut old_name = None;
    let mut file = BufReader::new(file);
    for n in 1.. {
        let mut line = String::new();
        let place = || format!("{}:{n}: not a record that was exported", path.display());
        let n_bytes = file.by_ref().take(MAX_LINE).read_line(&mut line).with_context(place)?;
        if n_bytes == 0 {
            break;
        }
        let object = serde_json::from_str(&line).with_context(place)?;
        let old = form::old_name(&object);
        let (record, before) = form::record(object).with_context(place)?;
        old_name = old_name.or(old.map(|names| (record.link.seq, names)));
        if kept.is_some_and(|kept| kept.seq == record.link.seq) {
            found = Some(record.link);
        }
        let walk = walk.get_or_insert_with(|| Walk::after(key, before));
        if let Some(before) = before {
            walk.names_other(record.link.seq, before);
        }
        walk.record(record);
    }
    let Some(walk) = walk else { bail!("{}: there is no record in it", path.display()) };
    let mut verified = walk.end();
    if let Some((seq, (old, new))) = old_name {
        let text = format!("`{old}` is an old name of an older sinew; exports say `{new}` now");
        verified.notes.push(Finding { seq, what: "other", text });
    }
    if let Some(kept) = kept.filter(|kept| found != Some(*kept)) {
        let text = format!("record {} is not the one that was kept, or not there", kept.seq);
        verified.findings.push(Finding { seq: kept.seq, what: "other", text });
    }
    Ok(verified)
}

/// Prints the result of a verification.
fn told(verified: &Verified, as_json: bool) -> anyhow::Result<ExitCode> {
    let code = if verified.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let mut out = io::stdout().lock();
    let Verified { findings, n_more, n_records, first, last, n_beyond_head, unfinished, notes } =
        verified;
    if as_json {
        let all = |findings: &[Finding]| -> Vec<Value> {
            let one = |f: &Finding| json!({ "seq": f.seq, "kind": f.what, "text": f.text });
            findings.iter().map(one).collect()
        };
        let open: Vec<Value> = unfinished
            .iter()
            .map(|open| {
                json!({
                    "seq": open.seq, "call_id": open.call_id, "tool": open.tool, "dead": open.is_dead,
                })
            })
            .collect();
        let object = json!({
            "ok": verified.is_whole(), "n_records": n_records, "first": first,
            "head": form::link(last), "findings": all(findings), "n_more_findings": n_more,
            "n_beyond_head": n_beyond_head, "unfinished": open, "notes": all(notes),
        });
        let Value::Object(object) = object else { return Ok(code) };
        form::write_line(&mut out, &object)?;
        return Ok(code);
    }
    let range = format!("{}–{}", first.unwrap_or(0), last.seq);
    if verified.is_whole() {
        writeln!(
            out,
            "{} {n_records} records verified ({range}); head {}",
            screen::mark("OK:", 0),
            form::link(last)
        )?;
    } else {
        writeln!(out, "{} {n_records} records read ({range})", screen::mark("BROKEN:", 0))?;
    }
    for finding in findings {
        writeln!(out, "  {:<10} {}", finding.what, shown_line(&finding.text))?;
    }
    if 0 < *n_more {
        writeln!(out, "  and {n_more} further findings")?;
    }
    if 0 < *n_beyond_head {
        writeln!(
            out,
            "{n_beyond_head} of them are beyond the head: they are being written, or their process died"
        )?;
    }
    for open in unfinished {
        let why = match open.is_dead {
            Some(true) => "never ended: its process died",
            Some(false) => "is in progress",
            None => "has not ended, and nothing is known of its process",
        };
        let (tool, id) = (shown_line(&open.tool), shown_line(&open.call_id));
        writeln!(out, "the call {id} of {tool} (record {}) {why}", open.seq)?;
    }
    for note in notes {
        writeln!(out, "record {}: {}", note.seq, shown_line(&note.text))?;
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_what_was_refused_stands_for_every_kind_of_it() {
        let refused = [
            "path_denied",
            "policy_denied",
            "approval_denied",
            "approval_timeout",
            "blocked_by_hook",
        ];
        for (word, expected) in [
            ("denied", Some(&refused[..])),
            ("ok", Some(&["ok"])),
            ("policy_denied", Some(&["policy_denied"])),
            ("not_found", Some(&["not_found"])),
            ("Ok", None),
            ("nosuch", None),
            ("", None),
        ] {
            match (outcomes(word), expected) {
                (Ok(meant), Some(expected)) => assert_eq!(meant, expected, "{word}"),
                (Err(error), None) => {
                    let said = error.to_string();
                    let all = Kind::ALL.iter().map(|kind| kind.as_str()).chain(["ok", "denied"]);
                    all.for_each(|known| assert!(said.contains(known), "no {known} in {said}"));
                }
                (meant, _) => panic!("{word}: {meant:?}"),
            }
        }
    }

    #[test]
    fn paths_are_asked_for_as_records_have_them() {
        for (path, expected) in [
            ("/w/.", "/w"),
            ("/w/./docs/", "/w/docs"),
            ("/w//docs/../src/a", "/w/src/a"),
            ("/w/../..", "/"),
            ("/", "/"),
        ] {
            assert_eq!(plain(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn points_in_time_are_read_as_they_are_printed() {
        const NOW: i64 = 1_767_225_600_000;
        for (text, expected) in [
            ("2026-01-01", Some(NOW)),
            ("2026-01-01T00:00:00Z", Some(NOW)),
            ("2024-12-31T23:59:59Z", Some(1_735_689_599_000)),
            ("1970-01-01", Some(0)),
            ("90m", Some(NOW - 5_400_000)),
            ("24h", Some(NOW - 86_400_000)),
            ("7d", Some(NOW - 604_800_000)),
            ("-1d", None),
            ("2026-02-30", None),
            ("2026-13-01", None),
            ("yesterday", None),
            ("1969-12-31", None),
            ("9999999999999999999d", None),
            ("", None),
        ] {
            assert_eq!(since_ms(text, NOW).ok(), expected, "{text}");
        }
    }
}

//! `sinew sessions`: lists, shows, copies and exports the sessions of agents.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;
use sinew_agent::{Entry, Part, TurnStop};
use sinew_guard::{Sessions, StoredSession, timestamp};
use sinew_tool::shown_line;

use crate::agent::{call_line, transcript};
use crate::cli::SessionsCommand;
use crate::screen;
use crate::wiring::{self, Loaded};

/// Runs the command.
pub(crate) fn run(loaded: &Loaded, command: &SessionsCommand) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    let sessions = transcript::sessions(loaded)?;
    let root = loaded.roots.first().context("there is no root")?.to_string_lossy().into_owned();
    let find = |word: &str| transcript::find(&sessions, word, &root);
    match command {
        SessionsCommand::List { all, limit, json } => {
            let of_root = (!all).then_some(root.as_str());
            list(&sessions.list(of_root, *limit)?, *json)?;
        }
        SessionsCommand::Show { session } => show(&sessions, &find(session)?)?,
        SessionsCommand::Fork { session } => {
            let new = wiring::new_session()?;
            sessions.fork(&find(session)?.id, &new)?;
            writeln!(std::io::stdout(), "{new}")?;
        }
        SessionsCommand::Export { session } => {
            let mut out = std::io::stdout().lock();
            for (at_ms, entry) in sessions.entries(&find(session)?.id)? {
                writeln!(out, "{}", json!({"at": timestamp(at_ms), "entry": entry}))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn list(sessions: &[StoredSession], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let mut out = std::io::stdout().lock();
        for session in sessions {
            let line = json!({
                "session": session.id, "parent": session.parent, "title": session.title,
                "root": session.root, "dialect": session.dialect, "model": session.model,
                "created_at": timestamp(session.created_ms), "updated_at": timestamp(session.updated_ms),
                "n_entries": session.n_entries,
            });
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    let mut out = screen::output();
    for session in sessions {
        let time = timestamp(session.updated_ms);
        writeln!(
            out,
            "{}  {time}  {}  {}",
            session.id,
            shown_line(&session.model),
            shown_line(&session.title)
        )?;
    }
    Ok(())
}

/// Shows the messages, and each call in one line.
fn show(sessions: &Sessions, session: &StoredSession) -> anyhow::Result<()> {
    let mut out = screen::output();
    writeln!(out, "session {} in {}, model {}", session.id, session.root, session.model)?;
    for (at_ms, entry) in transcript::entries(sessions, &session.id)? {
        match entry {
            Entry::TurnBegins { turn, prompt, .. } => {
                writeln!(
                    out,
                    "\n[turn {turn}, {}]\n> {}",
                    timestamp(at_ms),
                    prompt.replace('\n', "\n> ")
                )?;
            }
            Entry::Model { parts, .. } => {
                for part in parts {
                    match part {
                        Part::Text { text } => writeln!(out, "{}", text.trim_end())?,
                        Part::Call(call) => writeln!(out, "* {}", call_line::about(&call))?,
                        Part::Thinking { .. } => {}
                    }
                }
            }
            Entry::CallEnds { result } if result.is_error => {
                let first = result.text.lines().next().unwrap_or_default();
                writeln!(out, "  failed: {}", shown_line(first))?;
            }
            Entry::Notice { text } => writeln!(out, "{text}")?,
            Entry::Compaction(_) => writeln!(out, "[the conversation was shortened]")?,
            Entry::TurnEnds { stop } if stop != TurnStop::Done => writeln!(out, "[ended: {stop}]")?,
            Entry::TurnWithdrawn => writeln!(out, "[refused before the model got it]")?,
            Entry::CallBegins { .. } | Entry::CallEnds { .. } | Entry::TurnEnds { .. } => {}
        }
    }
    Ok(())
}

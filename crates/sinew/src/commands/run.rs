//! `sinew run`: lets an agent work on one task.

use std::io::{self, Read};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, bail};
use serde_json::json;
use sinew_agent::{AgentError, ModelErrorKind, TurnEnd, TurnEvent, TurnStop};
use sinew_tool::{Approver, Cancel};

use crate::agent::changes::Changes;
use crate::agent::report::{
    RunOutput, change_lines, changed, newest, resumed, say_stop, undo_line,
};
use crate::agent::text_output;
use crate::agent::{AgentParts, AgentWishes, choose_model, set_up};
use crate::cli::RunArgs;
use crate::live_output;
use crate::screen::say;
use crate::signals;
use crate::terminal::{self, Terminal};
use crate::wiring::Loaded;

/// Exit codes beside those of every command.
const FAILED: u8 = 1;
pub(super) const INTERRUPTED: u8 = 130;

/// Runs the task.
pub(crate) fn run(loaded: Loaded, args: &RunArgs) -> anyhow::Result<ExitCode> {
    super::warn(&loaded);
    let mut loaded = super::call::without_client(loaded)?;
    let task = task(args)?;
    let wanted = AgentWishes::of(&args.agent);
    let stored = resumed(&loaded, args.agent.resume.as_deref())?;
    if task.is_none() && stored.is_none() {
        bail!(
            "say what to do: sinew run \"fix the failing test\", or `-` to read it from standard input"
        );
    }
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let reads_input = args.task.iter().any(|word| word == "-");
    let progress = text_output::progress();
    let terminal = Terminal { progress: Some(progress.clone()), ..Terminal::default() };
    let approver = (terminal::is_attended() && !reads_input && !args.json)
        .then(|| Arc::new(terminal) as Arc<dyn Approver>);
    let output = RunOutput::new(args.json, progress.clone());
    let mut parts = tokio.block_on(async {
        let chosen = choose_model(&loaded, &wanted, stored.as_ref()).await?;
        set_up(&mut loaded, &wanted, chosen, "run", approver, stored).await
    })?;
    parts.agent.set_progress(live_output::tail(progress));
    let code = tokio.block_on(worked(&loaded, &mut parts, task, output));
    tokio.shutdown_background();
    super::close(&parts.wired);
    code
}

/// Returns the task, with standard input in the place of `-`.
fn task(args: &RunArgs) -> anyhow::Result<Option<String>> {
    let mut words = Vec::with_capacity(args.task.len());
    for word in &args.task {
        if word != "-" {
            words.push(word.clone());
            continue;
        }
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).context("standard input cannot be read")?;
        words.push(match words.is_empty() {
            true => text,
            false => format!("\n\n{text}"),
        });
    }
    let task = words.join(" ").trim().to_owned();
    match (task.is_empty(), args.task.is_empty()) {
        (true, false) => bail!("the task is empty"),
        (is_empty, _) => Ok((!is_empty).then_some(task)),
    }
}

/// Runs the turn and reports it.
async fn worked(
    loaded: &Loaded,
    parts: &mut AgentParts,
    task: Option<String>,
    mut output: RunOutput,
) -> anyhow::Result<ExitCode> {
    if let RunOutput::Json(json) = &mut output {
        json.write(&json!({
            "type": "session", "session": parts.wired.session, "model": parts.chosen.name,
            "provider": parts.chosen.provider, "context": parts.chosen.context,
        }));
    }
    let before = newest(parts);
    let cancel = Cancel::default();
    let turns = Arc::new(Mutex::new(cancel.clone()));
    signals::end_turns(turns, &parts.wired.runtime)?;
    let closed = cancel.clone();
    let mut listener = |event: TurnEvent<'_>| {
        output.event(&event);
        // The reader of a closed pipe cannot end the run otherwise.
        if let RunOutput::Json(json) = &output
            && json.is_closed()
        {
            closed.cancel();
        }
    };
    let ended = parts.agent.turn(task, &cancel, &mut listener).await;
    parts.agent.ended().await;
    let changes = changed(loaded, parts, before);
    match output {
        RunOutput::Json(mut json) => {
            json.write(&ended_line(loaded, parts, &ended, &changes));
            Ok(ExitCode::from(exit_code(&ended)))
        }
        RunOutput::Text(mut text) => {
            let written = text.ends(&ended);
            summary(loaded, parts, &ended, &changes);
            match written {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
                _ => Ok(ExitCode::from(exit_code(&ended))),
            }
        }
    }
}

/// Returns the last line of `--json`.
fn ended_line(
    loaded: &Loaded,
    parts: &AgentParts,
    ended: &Result<TurnEnd, AgentError>,
    changes: &Changes,
) -> serde_json::Value {
    let spent = parts.agent.spent_with_sub_agents();
    let cost = parts.chosen.prices.map(|prices| prices.cost(&spent));
    let (stop, text, error) = match ended {
        Ok(end) => (end.stop.as_str(), Some(&end.text), None),
        Err(error) => (
            "error",
            None,
            Some(json!({
                "kind": error_kind(error), "message": error.to_string(),
            })),
        ),
    };
    json!({
        "type": "end", "session": parts.wired.session, "stop": stop, "text": text, "error": error,
        "usage": spent, "cost": cost, "changes": changes.files, "undo": undo_line(loaded, changes),
    })
}

fn error_kind(error: &AgentError) -> &'static str {
    match error {
        AgentError::Model(error) => error.kind.as_str(),
        AgentError::Transcript(_) => "transcript",
        AgentError::Blocked(_) => "blocked_by_hook",
        AgentError::TooSmall { .. } => "context_too_small",
        AgentError::NothingToDo => "nothing_to_do",
    }
}

/// Says on standard error how the run ended, what it changed and how to undo it.
fn summary(
    loaded: &Loaded,
    parts: &AgentParts,
    ended: &Result<TurnEnd, AgentError>,
    changes: &Changes,
) {
    say_stop(ended);
    change_lines(loaded, changes);
    let session = &parts.wired.session;
    let used = parts.chosen.usage_words(&parts.agent.spent_with_sub_agents());
    say(&format!("session {session}: {used}; go on with: sinew run --resume {session}"));
}

fn exit_code(ended: &Result<TurnEnd, AgentError>) -> u8 {
    match ended {
        Ok(end) => match end.stop {
            TurnStop::Done => 0,
            TurnStop::Interrupted => INTERRUPTED,
            _ => FAILED,
        },
        Err(AgentError::Blocked(error)) => error.kind.exit_code(),
        Err(AgentError::Model(error)) if error.kind == ModelErrorKind::Auth => 2,
        Err(AgentError::NothingToDo | AgentError::TooSmall { .. }) => 2,
        Err(_) => FAILED,
    }
}

//! `sinew replay`: runs a recorded session again, without a model.
//!
//! The loop is the real one. The results of calls are the recorded ones, or those of the tools themselves; differences are
//! shown, so that a recording is a test of the loop and a report of a problem.

use std::collections::VecDeque;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use sinew_agent::{
    Agent, AgentSettings, CallResult, Entry, Offer, OutputCompaction, RecordedModel, Recording,
    Session, ToolCall, Transcript, TurnEnd, TurnEvent,
};
use sinew_guard::Helper;
use sinew_ops::unified_diff;
use sinew_runtime::Runtime;
use sinew_tool::sync::lock;
use sinew_tool::{
    Approver, Arguments, Block, Bound, BoxFuture, Cancel, Context, Facts, Reply, Tool, ToolError,
};

use crate::agent::changes;
use crate::agent::report::{RunOutput, change_lines};
use crate::agent::text_output;
use crate::cli::{Global, ReplayArgs};
use crate::config;
use crate::output;
use crate::screen::say;
use crate::signals;
use crate::terminal::{self, Terminal};
use crate::wiring::{self, CliInput, Loaded, Project, Wired};

/// The recording that comes with sinew.
const DEMO: &str = include_str!("../../demo/session.jsonl");
/// Its name.
const DEMO_NAME: &str = "demo";
/// How long the model of the demo waits before each word, at a terminal.
const DEMO_PAUSE: Duration = Duration::from_millis(25);
/// A window that nothing fills: a recording has no message for a summary.
const CONTEXT: u32 = u32::MAX / 4;

/// Replays a recording.
pub(crate) fn run(global: &Global, helper: Helper, args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let is_demo = args.recording == Path::new(DEMO_NAME);
    let text = match is_demo {
        true => DEMO.to_owned(),
        false => config::read_text(&args.recording)
            .with_context(|| format!("the recording {}", args.recording.display()))?,
    };
    let recording = Recording::parse(&text)
        .map_err(|why| anyhow::anyhow!("{}: {why}", args.recording.display()))?;
    let mut global = global.clone();
    global.dialect = Some(recording.header.dialect.clone());
    if is_demo {
        let root = output::temporary_dir(&format!("sinew-demo-{}", wiring::new_session()?))?;
        for (name, text) in &recording.header.files {
            output::lay_out(&root, name, text)?;
        }
        say(&format!("the project of the demo is {}", root.display()));
        global.root = vec![root];
    }
    let loaded = wiring::load(CliInput::by_person(&global)?, helper, Project::Needed)?;
    super::warn(&loaded);
    let loaded = super::call::without_client(loaded)?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let wired = match is_demo || args.real {
        true => {
            let approver =
                terminal::is_attended().then(|| Arc::new(Terminal::default()) as Arc<dyn Approver>);
            Some(wiring::wire(&loaded, "replay", &["all"], approver)?)
        }
        false => None,
    };
    let pause = match is_demo && terminal::is_attended() {
        true => DEMO_PAUSE,
        false => Duration::ZERO,
    };
    let code = tokio.block_on(replayed(&loaded, wired.as_ref(), &recording, pause, args.json));
    tokio.shutdown_background();
    wired.iter().for_each(super::close);
    code
}

async fn replayed(
    loaded: &Loaded,
    wired: Option<&Wired>,
    recording: &Recording,
    pause: Duration,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let runtime = match wired {
        Some(wired) => Arc::clone(&wired.runtime),
        None => recorded_runtime(loaded, recording)?,
    };
    let model = Arc::new(RecordedModel::new(recording, pause));
    let kept = Arc::new(Kept::default());
    let settings = AgentSettings {
        spending: Arc::default(),
        sub_agent: None,
        session: wired.map_or_else(|| String::from("replay"), |wired| wired.session.clone()),
        provider: String::from("recording"),
        system: String::new(),
        offer: Offer::default(),
        context: CONTEXT,
        max_output_tokens: CONTEXT / 4,
        temperature: None,
        max_tool_iterations: recording.header.max_tool_iterations,
        budget: None,
        prices: None,
        output_compaction: OutputCompaction::Safe,
    };
    let transcript = Arc::clone(&kept) as Arc<dyn Transcript>;
    let mut agent =
        Agent::new(Arc::clone(&runtime), model.clone(), settings, transcript, Session::default());
    let cancel = Cancel::default();
    signals::end_turns(Arc::new(Mutex::new(cancel.clone())), &runtime)?;
    let mut output = RunOutput::new(as_json, text_output::progress());
    let mut ended = None;
    for prompt in recording.prompts() {
        if !as_json {
            say(&format!("the user says: {prompt}"));
        }
        let mut listener = |event: TurnEvent<'_>| output.event(&event);
        let end = agent.turn(Some(prompt.to_owned()), &cancel, &mut listener).await;
        if let RunOutput::Text(text) = &mut output {
            text.ends(&end)?;
        }
        ended = Some(end?);
        if cancel.is_cancelled() {
            return Ok(ExitCode::from(super::run::INTERRUPTED));
        }
    }
    let Some(end) = ended else { bail!("the recording has no message of a user") };
    // Recorded results name the recorded root.
    let root = loaded.roots.first().filter(|_| wired.is_some()).map(|root| root.to_string_lossy());
    let found = Differences::of(recording, &kept, root.as_deref());
    report(loaded, wired, &end, &found, model.n_left(), output)
}

/// Prints the differences, and the changed files.
fn report(
    loaded: &Loaded,
    wired: Option<&Wired>,
    end: &TurnEnd,
    found: &Differences,
    n_left: usize,
    output: RunOutput,
) -> anyhow::Result<ExitCode> {
    let checkpoints = wired.and_then(|wired| Some((wired, wired.checkpoints.as_ref()?)));
    let changes = match (checkpoints, loaded.roots.first()) {
        (Some((wired, checkpoints)), Some(root)) => {
            changes::since(checkpoints, &wired.session, None, root)?
        }
        _ => changes::Changes::default(),
    };
    let is_same = found.differing.is_empty() && n_left == 0;
    match output {
        RunOutput::Json(mut json) => {
            let differing: Vec<Value> = found
                .differing
                .iter()
                .map(|(call, recorded, now)| {
                    json!({
                        "id": call.id, "tool": call.full_name(), "recorded": recorded, "now": now,
                    })
                })
                .collect();
            json.write(&json!({
                "type": "replayed", "stop": end.stop.as_str(), "n_calls": found.n_calls,
                "differences": differing, "n_messages_left": n_left, "changes": changes.files,
            }));
        }
        RunOutput::Text(_) => {
            for (call, recorded, now) in &found.differing {
                let shown = unified_diff(recorded, now.as_deref().unwrap_or_default());
                say(&format!(
                    "the result of {} differs:\n--- recorded\n+++ now\n{shown}",
                    call.full_name()
                ));
            }
            if 0 < n_left {
                say(&format!("{n_left} messages of the model were not asked for"));
            }
            change_lines(loaded, &changes);
            say(&match is_same {
                true => format!("replayed: {} calls, all results as recorded", found.n_calls),
                false => format!(
                    "replayed: the results of {} of {} calls differ",
                    found.differing.len(),
                    found.n_calls
                ),
            });
        }
    }
    Ok(ExitCode::from(u8::from(!is_same)))
}

/// The results that differ from the recorded ones.
struct Differences {
    n_calls: usize,
    /// Each call, its recorded result, and that of now.
    differing: Vec<(ToolCall, String, Option<String>)>,
}

impl Differences {
    /// Compares results, with the path of this root in the place of the recorded one.
    fn of(recording: &Recording, kept: &Kept, root: Option<&str>) -> Self {
        let replayed =
            Recording { header: recording.header.clone(), entries: lock(&kept.0).clone() };
        let now = replayed.results();
        let recorded = recording.results();
        let n_calls = recorded.len();
        let differing = recorded.into_iter().filter_map(|(call, result)| {
            let recorded = match root {
                Some(root) => result.text.replace(&recording.header.root, root),
                None => result.text,
            };
            let now = now.iter().find(|(other, _)| other.id == call.id);
            let now = now.map(|(_, result)| result.text.clone());
            (now.as_ref() != Some(&recorded)).then_some((call, recorded, now))
        });
        Self { n_calls, differing: differing.collect() }
    }
}

/// Keeps the entries of the replayed session.
#[derive(Default)]
struct Kept(Mutex<Vec<Entry>>);

impl Transcript for Kept {
    fn append(&self, entry: &Entry) -> Result<(), String> {
        lock(&self.0).push(entry.clone());
        Ok(())
    }
}

/// Returns a runtime whose tools return the recorded results, and touch nothing.
fn recorded_runtime(loaded: &Loaded, recording: &Recording) -> anyhow::Result<Arc<Runtime>> {
    let mut builder = Runtime::builder(loaded.settings.dialect).only(|_| false);
    for root in &loaded.roots {
        builder = builder.root(root);
    }
    let runtime = builder.build()?;
    let mut results: Vec<(String, VecDeque<(Arguments, CallResult)>)> = Vec::new();
    for (call, result) in recording.results() {
        let Ok(arguments) = call.parsed_arguments() else { continue };
        let name = call.full_name().into_owned();
        match results.iter_mut().find(|(known, _)| *known == name) {
            Some((_, of_tool)) => of_tool.push_back((arguments, result)),
            None => results.push((name, VecDeque::from([(arguments, result)]))),
        }
    }
    for (name, results) in results {
        let tool: Arc<dyn Tool> = Arc::new(RecordedTool { name, results: Mutex::new(results) });
        runtime.add_tool(&tool)?;
    }
    Ok(runtime)
}

/// A tool that returns recorded results.
struct RecordedTool {
    name: String,
    results: Mutex<VecDeque<(Arguments, CallResult)>>,
}

impl Tool for RecordedTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &'static str {
        "Answers what was recorded."
    }

    fn parameters(&self) -> Value {
        json!({"type": "object"})
    }

    fn facts(&self) -> Facts {
        Facts::OBSERVES
    }

    fn checked_by_schema(&self) -> bool {
        false
    }

    fn bound(&self) -> Bound {
        Bound::HARD
    }

    fn execute<'a>(
        &'a self,
        args: Arguments,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        let mut results = lock(&self.results);
        let at = results.iter().position(|(arguments, _)| *arguments == args);
        let result = at.and_then(|at| results.remove(at)).map(|(_, result)| result);
        drop(results);
        Box::pin(async move {
            let Some(result) = result else {
                let words = "the recording has no further call with these arguments";
                return Err(ToolError::new(sinew_tool::Kind::Unavailable, words));
            };
            let mut reply = Reply::text(result.text);
            let image = |image: sinew_agent::message::Image| Block::Image {
                data: image.data,
                mime_type: image.mime_type,
            };
            reply.content.extend(result.images.into_iter().map(image));
            reply.ok = !result.is_error;
            reply.bounded = true;
            Ok(reply)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_can_be_read() {
        let demo = Recording::parse(DEMO).expect("the demo");
        assert!(!demo.header.files.is_empty() && demo.prompts().next().is_some());
    }
}

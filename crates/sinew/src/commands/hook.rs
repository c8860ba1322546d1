//! `sinew hook`: lists hooks, runs them on a test event, and prints example payloads.

use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};
use sinew_dialects::HOOK_FORMS;
use sinew_guard::OwnEnd;
use sinew_runtime::{CommandHook, HookCommand, HookTrial};
use sinew_tool::hook::{example, schema, schemas};
use sinew_tool::{Arguments, Hook as _, HookAnswer, HookEvent, Request, shown_line};

use crate::cli::HookCommand as Asked;
use crate::wiring::{self, Loaded, Wired};
use crate::{hooks, json_form};

/// Lists hooks, runs them on a test event, or prints example payloads.
pub(crate) fn run(loaded: Loaded, command: &Asked) -> anyhow::Result<ExitCode> {
    match command {
        Asked::List { json } => list(&loaded, *json),
        Asked::Test { event, tool, arguments, hook } => {
            let wanted = Wanted { event: event_of(event)?, tool, arguments, hook: hook.as_deref() };
            test(loaded, &wanted)
        }
        Asked::Schema { event } => {
            let schema = match event {
                Some(event) => schema(event_of(event)?),
                None => schemas(),
            };
            print(&format!("{}\n", serde_json::to_string_pretty(&schema)?))
        }
    }
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Parses an event name of any runtime.
fn event_of(name: &str) -> anyhow::Result<HookEvent> {
    let found = HOOK_FORMS.iter().find_map(|form| form.event(name));
    let known = || HookEvent::ALL.map(HookEvent::as_str).join(", ");
    match found {
        Some(Some(event)) => Ok(event),
        Some(None) => bail!("there is no `{name}` here; known: {}", known()),
        None => bail!("no event has the name `{name}`; known: {}", known()),
    }
}

fn in_order(loaded: &Loaded) -> anyhow::Result<Vec<Arc<CommandHook>>> {
    let mut all = hooks::of(loaded)?;
    all.sort_by_key(|hook| std::cmp::Reverse(hook.priority()));
    Ok(all)
}

fn of<'v>(value: &'v Value, key: &str) -> &'v Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// Formats the value of a key for the terminal.
fn words(value: &Value, key: &str) -> String {
    match of(value, key) {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

fn put(payload: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(keys) = payload.as_object_mut() {
        keys.insert(key.to_owned(), value.into());
    }
}

fn list(loaded: &Loaded, as_json: bool) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    let rows: Vec<Value> = in_order(loaded)?.iter().map(|hook| row(hook)).collect();
    if as_json {
        json_form::write_all(&mut rows.into_iter())?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        return print("no hooks are configured\n");
    }
    let words = |value: &Value, key: &str| shown_line(&words(value, key));
    let mut text = String::new();
    for row in &rows {
        let _ = writeln!(text, "{}", words(row, "hook"));
        if of(row, "description").is_string() {
            let _ = writeln!(text, "  {}", words(row, "description"));
        }
        for event in of(row, "events").as_array().into_iter().flatten() {
            let of_agent = match of(event, "of_agent") {
                Value::Bool(true) => " (an event of agents, such as that of `sinew run`)",
                _ => "",
            };
            let (at, on_error) = (words(event, "event"), words(event, "on_error"));
            let _ = writeln!(text, "  at {at}{of_agent}, a failure means {on_error}");
        }
        let _ = writeln!(text, "  runs {}", words(row, "command"));
        for (key, what) in [("tools", "for tools"), ("paths", "for paths")] {
            if of(row, key).as_array().is_some_and(|list| !list.is_empty()) {
                let _ = writeln!(text, "  {what} {}", words(row, key));
            }
        }
        let [priority, ms, payload, origin] =
            ["priority", "timeout_ms", "payload", "origin"].map(|key| words(row, key));
        let _ = writeln!(text, "  priority {priority}, {ms} ms, payload {payload}, from {origin}");
        if let Value::String(problem) = of(row, "problem") {
            let _ = writeln!(text, "  it will fail: {}", shown_line(problem));
        }
    }
    print(&text)
}

fn row(hook: &CommandHook) -> Value {
    let settings = hook.settings();
    let event = |(event, name): &(HookEvent, &'static str)| {
        let on_error = if hook.blocks_on_error(*event) { "block" } else { "continue" };
        json!({
            "event": event.as_str(), "name": name, "of_agent": event.is_of_agent(), "on_error": on_error,
        })
    };
    let command = match &settings.command {
        HookCommand::Argv(argv) => json!(argv),
        HookCommand::Shell(text) => json!(text),
    };
    json!({
        "hook": settings.name,
        "description": (!settings.about.is_empty()).then_some(&settings.about),
        "events": settings.events.iter().map(event).collect::<Vec<_>>(),
        "command": command,
        "cwd": settings.folder.to_string_lossy(),
        "tools": settings.tools,
        "paths": settings.paths,
        "priority": settings.priority,
        "timeout_ms": u64::try_from(settings.timeout.as_millis()).unwrap_or(u64::MAX),
        "payload": settings.form.name,
        "origin": settings.origin,
        "problem": hook.problem().map(|problem| problem.to_string()),
    })
}

/// The parameters of a test run.
struct Wanted<'a> {
    event: HookEvent,
    tool: &'a Option<String>,
    arguments: &'a Option<String>,
    hook: Option<&'a str>,
}

fn test(mut loaded: Loaded, wanted: &Wanted<'_>) -> anyhow::Result<ExitCode> {
    super::warn(&loaded);
    let event = wanted.event;
    let all = in_order(&loaded)?;
    if let Some(name) = wanted.hook.filter(|name| !all.iter().any(|hook| hook.name() == *name)) {
        let known: Vec<&str> = all.iter().map(|hook| hook.name()).collect();
        bail!("there is no hook `{name}`; known: {}", known.join(", "));
    }
    // Validating the arguments must run no hooks.
    loaded.settings.hooks.clear();
    let (mut payload, looking) = payload(&loaded, wanted)?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut report = String::new();
    let mut has_failed = false;
    let mut outcome = String::from("it goes on");
    // Each hook is matched after the hooks before it changed the payload.
    for hook in &all {
        if !is_meant(hook, wanted, &payload) {
            continue;
        }
        let trial = tokio.block_on(hook.trial(event, &payload));
        has_failed |= trial.answer.is_err();
        report_on(&mut report, hook, event, &trial);
        match trial.answer {
            Ok(HookAnswer::Block(reason)) => {
                outcome = format!("`{}` blocks it: {reason}", hook.name());
                break;
            }
            Err(_) if hook.blocks_on_error(event) => {
                outcome = format!("the failure of `{}` blocks it", hook.name());
                break;
            }
            Ok(HookAnswer::Change(changes)) => merge(&mut payload, changes, false),
            Ok(HookAnswer::Replace(changes)) => merge(&mut payload, changes, true),
            Ok(HookAnswer::Ask(reason)) => {
                outcome = format!("it asks, since `{}` does: {reason}", hook.name());
            }
            Ok(HookAnswer::Add(_) | HookAnswer::Continue) | Err(_) => {}
        }
        if let Some((wired, request)) = &looking
            && event == HookEvent::BeforeToolExecute
        {
            let mut request = request.clone();
            request.arguments = of(&payload, "arguments").as_object().cloned().unwrap_or_default();
            let (_, paths) = wired.runtime.named(&request);
            put(&mut payload, "paths", json!(paths));
        }
    }
    if report.is_empty() {
        return print(&format!("no hook runs at {event} for this\n"));
    }
    let _ = writeln!(report, "outcome: {}", shown_line(&outcome));
    for key in event.changes() {
        let _ = writeln!(report, "{key}: {}", shown_line(&of(&payload, key).to_string()));
    }
    print(&report)?;
    Ok(ExitCode::from(u8::from(has_failed)))
}

fn is_meant(hook: &CommandHook, wanted: &Wanted<'_>, payload: &Value) -> bool {
    let text = |key: &str| of(payload, key).as_str().unwrap_or_default().to_owned();
    let paths = || serde_json::from_value::<Option<Vec<String>>>(of(payload, "paths").clone()).ok();
    match wanted.hook {
        Some(name) => hook.name() == name,
        None if !hook.wants(wanted.event) => false,
        None if payload.get("tool").is_none() => true,
        None => {
            let finds_paths = of(payload, "finds_paths") == &Value::Bool(true);
            let paths = || paths().flatten().filter(|_| !finds_paths);
            hook.is_for(&text("tool"), &text("operation"), paths)
        }
    }
}

/// Returns the payload: an example with the given values merged in.
fn payload(
    loaded: &Loaded,
    wanted: &Wanted<'_>,
) -> anyhow::Result<(Value, Option<(Wired, Request)>)> {
    let mut payload = example(wanted.event);
    if payload.get("tool").is_none() {
        if wanted.tool.is_some() || wanted.arguments.is_some() {
            bail!("{} is about no tool; leave `--tool` and `--arguments` out", wanted.event);
        }
        return Ok((payload, None));
    }
    if payload.get("arguments").is_none() {
        if let Some(tool) = wanted.tool {
            put(&mut payload, "tool", tool.as_str());
            let operations = sinew_dialects::operations(std::slice::from_ref(tool));
            put(&mut payload, "operation", operations.first().unwrap_or(tool).as_str());
        }
        return Ok((payload, None));
    }
    let tool = wanted.tool.clone().unwrap_or_else(|| String::from("Write"));
    let arguments = match (wanted.arguments, wanted.tool) {
        (Some(text), _) => serde_json::from_str::<Arguments>(text)
            .context("`--arguments` must be one JSON object, such as {\"path\":\".\"}")?,
        (None, Some(_)) => Arguments::new(),
        (None, None) => of(&payload, "arguments").as_object().cloned().unwrap_or_default(),
    };
    let wired = wiring::wire(loaded, "hook", &["all"], None)?;
    let mut request = Request::new("hook-test", tool.as_str(), arguments.clone());
    request.session.clone_from(&wired.session);
    let (operation, paths) = wired.runtime.named(&request);
    let dialect = loaded.settings.dialect.name;
    if operation.is_none() && wanted.tool.is_some() {
        bail!("no tool of this name in {dialect}: {tool}; `sinew tools` lists them");
    }
    put(&mut payload, "session", wired.session.as_str());
    put(&mut payload, "call_id", "hook-test");
    put(&mut payload, "dialect", dialect);
    put(&mut payload, "operation", operation.unwrap_or_else(|| tool.clone()));
    put(&mut payload, "tool", tool);
    put(&mut payload, "cwd", json!(loaded.roots.first().map(|root| root.to_string_lossy())));
    put(&mut payload, "paths", json!(paths));
    put(&mut payload, "arguments", arguments);
    Ok((payload, Some((wired, request))))
}

fn report_on(report: &mut String, hook: &CommandHook, event: HookEvent, trial: &HookTrial) {
    let decision = match &trial.answer {
        Ok(HookAnswer::Continue) => String::from("continue"),
        Ok(HookAnswer::Block(reason)) => format!("block: {reason}"),
        Ok(HookAnswer::Ask(reason)) => format!("ask: {reason}"),
        Ok(HookAnswer::Add(text)) => format!("add to the reply: {text}"),
        Ok(HookAnswer::Change(changes) | HookAnswer::Replace(changes)) => {
            format!("change {}", Value::Object(changes.clone()))
        }
        Err(why) if hook.blocks_on_error(event) => format!("failed, which blocks: {why}"),
        Err(why) => format!("failed, and it goes on: {why}"),
    };
    let Some(ran) = &trial.ran else {
        let _ = writeln!(
            report,
            "{}: {}\n  not started",
            shown_line(hook.name()),
            shown_line(&decision)
        );
        return;
    };
    let ended = match &ran.end {
        OwnEnd::Code(code) => format!("exit code {code}"),
        OwnEnd::Signal(signal) => format!("signal {signal}"),
        OwnEnd::TimedOut => String::from("out of time"),
        OwnEnd::TooMuch => String::from("too much output"),
        OwnEnd::NotStarted(_) | OwnEnd::InRoot(_) => String::from("not started"),
        OwnEnd::Lost => String::from("lost"),
    };
    let ms = ran.duration.as_millis();
    let (name, decision) = (shown_line(hook.name()), shown_line(&decision));
    let _ = writeln!(report, "{name}: {decision}\n  {ended}, {ms} ms");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    for line in stderr.lines().take(MAX_LINES) {
        let _ = writeln!(report, "  stderr: {}", shown_line(line));
    }
}

/// The limit of error lines shown.
const MAX_LINES: usize = 50;

/// Applies a hook's changes to a payload as the runtime would.
fn merge(payload: &mut Value, changes: Map<String, Value>, is_whole: bool) {
    for (key, value) in changes {
        match (payload.get_mut(&key), value) {
            (Some(Value::Object(reply)), Value::Object(new)) if key == "reply" => {
                merge_reply(reply, new, is_whole);
            }
            (Some(Value::Object(old)), Value::Object(new)) if !is_whole => old.extend(new),
            (_, value) => put(payload, &key, value),
        }
    }
}

/// Applies changes to a reply; its content becomes blocks and also the error text.
fn merge_reply(reply: &mut Map<String, Value>, mut new: Map<String, Value>, is_whole: bool) {
    if let Some(content) = new.shift_remove("content") {
        let texts: Vec<String> = match &content {
            Value::String(text) => vec![text.clone()],
            blocks => {
                let blocks = blocks.as_array().into_iter().flatten();
                blocks.map(|block| words(block, "text")).collect()
            }
        };
        if let Some(Value::Object(error)) = reply.get_mut("error") {
            error.insert(String::from("message"), Value::from(texts.join("\n")));
            error.insert(String::from("hint"), Value::Null);
        }
        let blocks: Vec<Value> =
            texts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
        reply.insert(String::from("content"), Value::from(blocks));
    }
    if let Some(structured) = new.shift_remove("structured").or(is_whole.then_some(Value::Null)) {
        reply.insert(String::from("structured"), structured);
    }
}

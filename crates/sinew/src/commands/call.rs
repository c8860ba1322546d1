//! `sinew call`: makes one call, or a batch from standard input.

mod words;

use std::future::poll_fn;
use std::io::{self, IsTerminal, Read, Write};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::Poll;

use anyhow::Context as _;
use serde_json::{Value, json};
use sinew_dialects::NATIVE;
use sinew_mcp::{Calls, Line, Lines, Object};
use sinew_runtime::{Approvals, CallOptions};
use sinew_tool::{Approver, Arguments, Block, ErrorBody, Kind, Progress, Reply, Request, call_id};

use crate::agent::spawner::Spawner;
use crate::cli::CallArgs;
use crate::config::{ConfigError, Origin};
use crate::live_output::LiveOutput;
use crate::signals::{self, Signals};
use crate::terminal::Terminal;
use crate::wiring::{self, Loaded, Wired};
use crate::{json_form, screen};

/// Runs one call or the batch.
pub(crate) fn run(loaded: Loaded, args: &CallArgs) -> anyhow::Result<ExitCode> {
    super::warn(&loaded);
    let loaded = without_client(loaded)?;
    let wired = wiring::wire(&loaded, "call", &["all"], approver(args))?;
    Spawner::add(&loaded, &wired);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let max_line_bytes = loaded.settings.max_line_bytes;
    let code = runtime.block_on(async {
        if args.batch { batch(&wired, max_line_bytes).await } else { single(&wired, args).await }
    });
    // A question that timed out leaves a thread that waits for the terminal.
    runtime.shutdown_background();
    super::end_sessions(&wired.runtime, super::ENDS);
    super::flush(&wired.runtime);
    code
}

/// Disables `trust-client`, since no client answers here. A file's setting is meant for MCP and is replaced;
/// a flag or variable is an error.
pub(super) fn without_client(mut loaded: Loaded) -> Result<Loaded, ConfigError> {
    if loaded.settings.approvals != Approvals::TrustClient {
        return Ok(loaded);
    }
    if let Some((_, Origin::File(..))) = loaded.layered.origins.get("approvals") {
        loaded.settings.approvals = Approvals::Auto;
        return Ok(loaded);
    }
    Err(loaded.layered.located(ConfigError(String::from(
        "`approvals` cannot be trust-client here, because no client asks before `sinew call`; use \
         `--approvals allow` to run changes unasked, or `--approvals ask` at a terminal",
    ))))
}

/// Asks at the terminal unless the call reads standard input.
fn approver(args: &CallArgs) -> Option<Arc<dyn Approver>> {
    let takes_input = args.batch || words::is_from_input(&args.arguments);
    let terminal = !takes_input && io::stdin().is_terminal() && io::stderr().is_terminal();
    terminal.then(|| Arc::new(Terminal::default()) as Arc<dyn Approver>)
}

/// Makes one call and prints its result.
pub(super) fn one(
    wired: &Wired,
    tool: &str,
    arguments: Arguments,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let out = || -> Box<dyn Write> {
        match as_json {
            true => Box::new(io::stdout().lock()),
            false => Box::new(screen::output()),
        }
    };
    let code = runtime.block_on(told(wired, tool, arguments, as_json, &out, None));
    runtime.shutdown_background();
    super::end_sessions(&wired.runtime, super::ENDS);
    super::flush(&wired.runtime);
    code
}

async fn single(wired: &Wired, args: &CallArgs) -> anyhow::Result<ExitCode> {
    let tool = args.tool.as_deref().unwrap_or_default();
    let out = || -> Box<dyn Write> {
        match args.json {
            true => Box::new(io::stdout().lock()),
            false => screen::output_of_tools(),
        }
    };
    match words::arguments(&args.arguments) {
        Ok(arguments) => {
            // In the other dialects the output is a part of the reply's own form.
            let is_live = !args.json
                && wired
                    .runtime
                    .catalogs()
                    .first()
                    .is_some_and(|first| first.name() == NATIVE.name)
                && io::stdout().is_terminal();
            let live = is_live.then(LiveOutput::new);
            told(wired, tool, arguments, args.json, &out, live).await
        }
        Err(problem) => {
            let reply = refused(Kind::InvalidArgs, problem);
            let id = format!("{}-1", wired.session);
            print(&mut out(), args.json, &id, tool, &reply)
        }
    }
}

async fn told(
    wired: &Wired,
    tool: &str,
    arguments: Arguments,
    as_json: bool,
    out: &dyn Fn() -> Box<dyn Write>,
    live: Option<Arc<LiveOutput>>,
) -> anyhow::Result<ExitCode> {
    let id = format!("{}-1", wired.session);
    wired.settle_tools(Some(tool)).await;
    let mut signals = Signals::catch()?;
    let calls = Calls::default();
    let progress = live.as_ref().map(LiveOutput::progress).unwrap_or_default();
    let request = Request::new(id.as_str(), tool, arguments);
    let mut call = pin!(call(wired, &calls, request, progress));
    let first = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
    let mut reply = match first {
        Poll::Ready(reply) => match signals.code() {
            Some(code) => return Ok(code),
            None => reply,
        },
        // The call takes longer, or waits for an answer.
        Poll::Pending => {
            signals.watch(calls.clone(), Arc::downgrade(&wired.runtime))?;
            call.await
        }
    };
    if live.is_some_and(|live| live.end()) {
        take_shown(&mut reply);
    }
    // No lock is held on standard output while the command writes.
    print(&mut out(), as_json, &id, tool, &reply)
}

/// Takes the output of a command that the terminal has shown out of the reply.
fn take_shown(reply: &mut Reply) {
    if let (Some(Block::Text { text }), Some(range)) =
        (reply.content.first_mut(), reply.meta.output_range.take())
    {
        // The reply may have been cut.
        let end = text.floor_char_boundary(range.end);
        if text.get(range.start..end).is_some() {
            text.replace_range(range.start..end, "");
        }
    }
    reply.content.retain(|block| block.as_text() != Some(""));
}

fn print(
    out: &mut impl Write,
    as_json: bool,
    id: &str,
    tool: &str,
    reply: &Reply,
) -> anyhow::Result<ExitCode> {
    if as_json {
        writeln!(out, "{}", result("call_id", Value::from(id), tool, reply))?;
    } else if reply.ok {
        for block in &reply.content {
            if let Block::Text { text } = block {
                writeln!(out, "{}", text.trim_end_matches('\n'))?;
            } else if let Some((data, mime_type)) = block.media() {
                writeln!(out, "[{mime_type}, {} bytes of base64]", data.len())?;
            }
        }
    } else {
        out.flush()?;
        for block in &reply.content {
            if let Block::Text { text } = block {
                // The text contains file names, file contents and hook output.
                let _ = write!(io::stderr(), "{} ", screen::error_mark("sinew:"));
                let _ = writeln!(screen::errors(), "{}", text.trim_end_matches('\n'));
            }
        }
    }
    if !as_json {
        for note in &reply.meta.notes {
            let _ = writeln!(screen::errors(), "{note}");
        }
    }
    Ok(ExitCode::from(exit_code(reply)))
}

/// Answers each line of standard input in order, as soon as it arrives, until one is no call.
async fn batch(wired: &Wired, max_line_bytes: usize) -> anyhow::Result<ExitCode> {
    let mut input = io::stdin().lock();
    let mut out = io::stdout().lock();
    let calls = signals::watched(&wired.runtime);
    let mut lines = Lines::new(max_line_bytes);
    let mut buffer = vec![0; 64 * 1024];
    let mut n_lines = 0;
    loop {
        let n = match input.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.context("standard input cannot be read")?,
        };
        let mut written = Vec::new();
        let take = |line: Line<'_>| written.push(Written::of(line, max_line_bytes));
        match buffer.get(..n) {
            Some(bytes) if n != 0 => lines.feed(bytes, take),
            _ => lines.finish(take),
        }
        for line in written {
            n_lines += 1;
            if let Some(line) = line {
                let is_bad = line.call.is_err();
                writeln!(out, "{}", answer(wired, &calls, n_lines, line).await)?;
                // What follows may count on the call that was meant.
                if is_bad {
                    out.flush()?;
                    return Ok(ExitCode::from(json_form::INVALID));
                }
                wired.runtime.rest();
            }
        }
        if n == 0 {
            break;
        }
    }
    out.flush()?;
    // Each line has its own result, so a failed call does not fail the batch.
    Ok(ExitCode::SUCCESS)
}

/// Makes the call of one batch line and returns the result.
async fn answer(wired: &Wired, calls: &Calls, n: usize, line: Written) -> Value {
    let ours = format!("{}-{n}", wired.session);
    let (tool, reply, used) = match line.call {
        Ok((tool, arguments)) => {
            let given = match &line.id {
                Some(Value::String(id)) => call_id(id).map(str::to_owned),
                Some(Value::Number(id)) => call_id(&id.to_string()).map(str::to_owned),
                _ => None,
            };
            let used = given.unwrap_or(ours);
            wired.settle_tools(Some(&tool)).await;
            let mut request = Request::new(used.as_str(), tool.as_str(), arguments);
            request.turn = line.turn;
            let reply = call(wired, calls, request, Progress::default()).await;
            (tool, reply, used)
        }
        Err(CallProblem { kind, message }) => {
            (String::new(), refused(kind, format!("line {n}: {message}")), ours)
        }
    };
    let id = line.id.unwrap_or_else(|| Value::from(used.as_str()));
    let mut object = result("id", id, &tool, &reply);
    if let Some(keys) = object.as_object_mut() {
        keys.shift_insert(1, String::from("call_id"), Value::String(used));
    }
    object
}

pub(super) fn refused(kind: Kind, problem: String) -> Reply {
    Reply::failure(&sinew_tool::ToolError::new(kind, problem))
}

async fn call(wired: &Wired, calls: &Calls, mut request: Request, progress: Progress) -> Reply {
    request.session.clone_from(&wired.session);
    let options = CallOptions { progress, ..CallOptions::default() };
    calls.run(options.cancel.clone(), wired.runtime.call(request, options)).await
}

/// One batch line: the ID, which the result repeats unchanged, and the call.
struct Written {
    id: Option<Value>,
    turn: Option<String>,
    call: Result<(String, Arguments), CallProblem>,
}

struct CallProblem {
    kind: Kind,
    message: String,
}

impl CallProblem {
    fn invalid(message: impl Into<String>) -> Self {
        Self { kind: Kind::InvalidArgs, message: message.into() }
    }
}

impl Written {
    /// Parses a line; a blank one is `None`.
    fn of(line: Line<'_>, max_bytes: usize) -> Option<Self> {
        let bytes = match line {
            Line::Whole(bytes) => bytes.trim_ascii(),
            Line::TooLong(id) => {
                let message = format!("longer than {max_bytes} bytes; send less in one call");
                return Some(Self {
                    id: id.and_then(|id| serde_json::from_str(&id).ok()),
                    turn: None,
                    call: Err(CallProblem { kind: Kind::TooLarge, message }),
                });
            }
        };
        if bytes.is_empty() {
            return None;
        }
        let mut object = match serde_json::from_slice(bytes) {
            Ok(Object(object)) => object,
            Err(error) if !error.is_data() => {
                return Some(Self::without_id(format!("not JSON: {error}")));
            }
            Err(error) if bytes.starts_with(b"{") => {
                return Some(Self::without_id(error.to_string()));
            }
            Err(_) => return Some(Self::without_id("not a JSON object")),
        };
        let id = object.shift_remove("id");
        if matches!(id, Some(Value::Bool(_) | Value::Array(_) | Value::Object(_))) {
            return Some(Self::without_id("`id` must be a string or a number"));
        }
        let turn = match object.shift_remove("turn") {
            None | Some(Value::Null) => None,
            Some(Value::String(turn)) => Some(turn),
            Some(_) => {
                let call = Err(CallProblem::invalid("`turn` must be a string"));
                return Some(Self { id, turn: None, call });
            }
        };
        Some(Self { id, turn, call: named(object).map_err(CallProblem::invalid) })
    }

    fn without_id(problem: impl Into<String>) -> Self {
        Self { id: None, turn: None, call: Err(CallProblem::invalid(problem)) }
    }
}

/// Takes the name and arguments of a call; any other key is an error.
fn named(mut object: Arguments) -> Result<(String, Arguments), String> {
    let Some(Value::String(name)) = object.shift_remove("name") else {
        return Err(String::from("`name` must be a string"));
    };
    let arguments = match object.shift_remove("arguments") {
        None | Some(Value::Null) => Arguments::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(String::from("`arguments` must be an object")),
    };
    match object.keys().next() {
        None => Ok((name, arguments)),
        Some(unknown) => Err(format!("`{unknown}` is unknown; known: id, turn, name, arguments")),
    }
}

fn exit_code(reply: &Reply) -> u8 {
    match &reply.error {
        Some(ErrorBody { kind, .. }) if !reply.ok => kind.exit_code(),
        _ if reply.ok => 0,
        _ => 1,
    }
}

/// Returns the `--json` result of a call, whose ID has this key.
pub(super) fn result(key: &str, id: Value, tool: &str, reply: &Reply) -> Value {
    json!({
        key: id,
        "tool": tool,
        "ok": reply.ok,
        "content": reply.content,
        "structured": reply.structured,
        "error": reply.error,
        "meta": reply.meta,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_line_of_a_batch_is_a_call_or_a_problem(
            line in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let written = Written::of(Line::Whole(&line), 100);
            prop_assert_eq!(written.is_none(), line.trim_ascii().is_empty());
        }

        #[test]
        fn a_call_and_its_id_come_through_as_written(
            id in prop_oneof![
                Just(Value::Null),
                any::<i64>().prop_map(Value::from),
                any::<u64>().prop_map(Value::from),
                any::<f64>().prop_filter("JSON", |n| n.is_finite()).prop_map(Value::from),
                any::<String>().prop_map(Value::from),
            ],
            name in any::<String>(),
            arguments in prop::collection::btree_map(any::<String>(), any::<String>(), 0..4),
        ) {
            let line = json!({ "id": id, "name": name, "arguments": arguments }).to_string();
            let written = Written::of(Line::Whole(line.as_bytes()), line.len());
            let Some(Written { id: Some(kept), call: Ok((tool, kept_arguments)), .. }) = written else {
                return Err(TestCaseError::fail(line));
            };
            prop_assert_eq!(kept.to_string(), id.to_string());
            prop_assert_eq!((tool, json!(kept_arguments)), (name, json!(arguments)));
        }
    }
}

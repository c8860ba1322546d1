//! `sinew call`: one call, or a batch of them.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};
use sinew_runtime::{Approvals, CallOptions, Runtime};
use sinew_tool::{Approver, Arguments, Block, ErrorBody, Kind, Reply, Request, call_id};

use crate::cli::CallArgs;
use crate::config::{ConfigError, Origin};
use crate::terminal::Terminal;
use crate::wiring::{self, Loaded, Wired};

/// Calls a tool, or each tool of a batch.
pub(crate) fn run(loaded: Loaded, args: &CallArgs) -> anyhow::Result<ExitCode> {
    super::warn(&loaded);
    let loaded = without_client(loaded)?;
    let wired = wiring::wire(&loaded, "call", &["all"], approver(args))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let code = runtime.block_on(async {
        if args.batch { batch(&wired).await } else { single(&wired, args).await }
    });
    // A question that nobody answered in time leaves a thread that waits for the terminal.
    runtime.shutdown_background();
    wired.runtime.flush().map_err(|error| anyhow::anyhow!("{error}"))?;
    code
}

/// Sees to it that nothing counts as the answer of a client, since there is none here. What a file
/// says is meant for MCP and gives way; what was said for this call is a mistake.
fn without_client(mut loaded: Loaded) -> Result<Loaded, ConfigError> {
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

/// A person can be asked where the call does not take the terminal's input for itself.
fn approver(args: &CallArgs) -> Option<Arc<dyn Approver>> {
    let takes_input = args.batch || args.arguments.as_deref() == Some("-");
    let terminal = !takes_input && io::stdin().is_terminal() && io::stderr().is_terminal();
    terminal.then(|| Arc::new(Terminal) as Arc<dyn Approver>)
}

async fn single(wired: &Wired, args: &CallArgs) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let arguments = match arguments(args.arguments.as_deref()) {
        Ok(arguments) => arguments,
        Err(problem) => {
            let reply = refused(Kind::InvalidArgs, problem);
            let id = format!("{}-1", wired.session);
            return print(&mut out, args, &id, args.tool.as_deref().unwrap_or_default(), &reply);
        }
    };
    let tool = args.tool.clone().unwrap_or_default();
    let id = format!("{}-1", wired.session);
    let reply = call(&wired.runtime, &wired.session, &id, &tool, arguments).await;
    print(&mut out, args, &id, &tool, &reply)
}

fn print(
    out: &mut impl Write,
    args: &CallArgs,
    id: &str,
    tool: &str,
    reply: &Reply,
) -> anyhow::Result<ExitCode> {
    if args.json {
        writeln!(out, "{}", result(id, tool, reply))?;
    } else if reply.ok {
        for block in &reply.content {
            match block {
                Block::Text { text } => writeln!(out, "{}", text.trim_end_matches('\n'))?,
                Block::Image { mime_type, data } => {
                    writeln!(out, "[{mime_type}, {} bytes of base64]", data.len())?;
                }
            }
        }
    } else {
        out.flush()?;
        for block in &reply.content {
            if let Block::Text { text } = block {
                eprintln!("sinew: {text}");
            }
        }
    }
    Ok(ExitCode::from(exit_code(reply)))
}

async fn batch(wired: &Wired) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let mut worst = 0;
    for (n, line) in io::stdin().lock().split(b'\n').enumerate() {
        let line = line.context("standard input cannot be read")?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let (id, tool, reply) = match written(&line) {
            Ok((id, name, arguments)) => {
                let given = id.as_deref().and_then(call_id).map(str::to_owned);
                let used = given.unwrap_or_else(|| format!("{}-{}", wired.session, n + 1));
                let session = &wired.session;
                let reply = call(&wired.runtime, session, &used, &name, arguments).await;
                (id.unwrap_or(used), name, reply)
            }
            Err(problem) => {
                let problem = format!("line {}: {problem}", n + 1);
                (format!("{}-{}", wired.session, n + 1), String::new(), refused_line(problem))
            }
        };
        worst = worst.max(exit_code(&reply));
        writeln!(out, "{}", result(&id, &tool, &reply))?;
    }
    out.flush()?;
    // Every line of a batch has its own result, so one that failed does not fail the batch.
    let _ = worst;
    Ok(ExitCode::SUCCESS)
}

fn refused_line(problem: String) -> Reply {
    refused(Kind::InvalidArgs, problem)
}

fn refused(kind: Kind, problem: String) -> Reply {
    Reply::failure(&sinew_tool::ToolError::new(kind, problem))
}

async fn call(
    runtime: &Arc<Runtime>,
    session: &str,
    id: &str,
    tool: &str,
    arguments: Arguments,
) -> Reply {
    let mut request = Request::new(id, tool, arguments);
    request.session = session.to_owned();
    runtime.call(request, CallOptions::default()).await
}

/// Reads the arguments of a single call.
fn arguments(written: Option<&str>) -> Result<Arguments, String> {
    let text = match written {
        None => return Ok(Arguments::new()),
        Some("-") => {
            let mut text = String::new();
            io::stdin()
                .lock()
                .read_to_string(&mut text)
                .map_err(|error| format!("standard input cannot be read: {error}"))?;
            text
        }
        Some(text) => text.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => {
            Err(String::from("the arguments must be one JSON object, such as {\"path\":\".\"}"))
        }
        Err(error) => Err(format!("the arguments are not JSON: {error}")),
    }
}

/// Reads one line of a batch.
fn written(line: &[u8]) -> Result<(Option<String>, String, Arguments), String> {
    let value: Value =
        serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
    let Value::Object(mut object) = value else {
        return Err(String::from("not a JSON object"));
    };
    let id = match object.shift_remove("id") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id),
        Some(Value::Number(id)) => Some(id.to_string()),
        Some(_) => return Err(String::from("`id` must be a string or a number")),
    };
    let Some(Value::String(name)) = object.shift_remove("name") else {
        return Err(String::from("`name` must be a string"));
    };
    let arguments = match object.shift_remove("arguments") {
        None | Some(Value::Null) => Arguments::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(String::from("`arguments` must be an object")),
    };
    match object.keys().next() {
        None => Ok((id, name, arguments)),
        Some(unknown) => Err(format!("`{unknown}` is unknown; known: id, name, arguments")),
    }
}

fn exit_code(reply: &Reply) -> u8 {
    match &reply.error {
        Some(ErrorBody { kind, .. }) if !reply.ok => kind.exit_code(),
        _ if reply.ok => 0,
        _ => 1,
    }
}

/// Returns the `--json` result of a call.
fn result(id: &str, tool: &str, reply: &Reply) -> Value {
    json!({
        "id": id,
        "tool": tool,
        "ok": reply.ok,
        "content": reply.content,
        "structured": reply.structured,
        "error": reply.error,
        "meta": reply.meta,
    })
}

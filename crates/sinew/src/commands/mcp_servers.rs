//! `sinew mcp-servers`: lists, tries and approves the MCP servers of others.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::{Value, json};
use similar::group_diff_ops;
use sinew_mcp_client::{ServerStatus, Servers, SignIn, Waiting};
use sinew_ops::line_ops;
use sinew_runtime::{Owner, ToolInfo};
use sinew_tool::{ErrorBody, Event, Ledger as _, ToolError, shown_line};

use crate::cli::McpServersCommand;
use crate::config::env_vars;
use crate::json_form::{self, CommandError};
use crate::wiring::{self, Loaded, Wired};
use crate::{screen, terminal};

/// The unchanged lines around those of a definition that changed.
const AROUND: usize = 3;
/// After this time, the lines that changed need not be the fewest.
const MAX_COMPARES: Duration = Duration::from_secs(1);

/// Lists, tries or approves servers.
pub(crate) fn run(loaded: &Loaded, command: &McpServersCommand) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    let wired = wiring::wire(loaded, "mcp-servers", &["all"], None)?;
    let Some(servers) = wired.servers.clone() else {
        bail!(
            "no MCP server is configured; a table `[tools.mcp_servers.NAME]` of the configuration adds one"
        );
    };
    let code = match command {
        McpServersCommand::List { json } => list(&wired, &servers, *json),
        McpServersCommand::Test { name, json } => test(&wired, &servers, name, *json),
        McpServersCommand::Login { name, scopes, no_browser } => {
            login(&wired, &servers, name, scopes, !no_browser)
        }
        McpServersCommand::Logout { name } => logout(&servers, name),
        McpServersCommand::Approve { name, yes, json } => {
            approve(&wired, &servers, name, *yes, *json)
        }
    };
    servers.close();
    super::flush(&wired.runtime);
    code
}

/// Returns the tools of a server as the first catalog names them.
fn tools_of(wired: &Wired, server: &str) -> Vec<ToolInfo> {
    let catalogs = wired.runtime.catalogs();
    let tools = catalogs.first().into_iter().flat_map(|catalog| catalog.all_tools());
    let is_own = |tool: &ToolInfo| matches!(&tool.owner, Owner::Foreign(name) if **name == *server);
    tools.filter(is_own).collect()
}

fn row(wired: &Wired, status: &ServerStatus) -> Value {
    let tools = tools_of(wired, &status.name).into_iter().map(|tool| {
        json!({
            "tool": tool.name, "description": tool.description, "visibility": tool.visibility.as_str(),
        })
    });
    let waiting = status.waiting.iter().map(|one| {
        json!({
            "tool": one.now.name,
            "new": one.pinned.is_none(),
            "hash": one.hash().to_string(),
            "diff": difference(one),
        })
    });
    json!({
        "server": status.name,
        "origin": status.origin,
        "internal_only": status.internal_only,
        "deferred": status.deferred,
        "pinned": status.pinned.is_some(),
        "tools": tools.collect::<Vec<_>>(),
        "waiting": waiting.collect::<Vec<_>>(),
        "missing": status.missing,
        "problems": status.problems,
    })
}

fn list(wired: &Wired, servers: &Servers, as_json: bool) -> anyhow::Result<ExitCode> {
    let all = servers.status();
    if as_json {
        json_form::write_all(&mut all.iter().map(|status| row(wired, status)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for status in &all {
        let name = shown_line(&status.name);
        let state = match &status.pinned {
            None => String::from("not used yet, so nothing is pinned"),
            Some(tools) => format!("{} tools pinned", tools.len()),
        };
        let _ = writeln!(text, "{name}  {state}{}, from {}", words(status), status.origin);
        for problem in &status.problems {
            let _ = writeln!(text, "  {}", shown_line(problem));
        }
        for tool in tools_of(wired, &status.name) {
            let _ = writeln!(text, "  {:<9} {}", tool.visibility.as_str(), tool.name);
        }
    }
    screen::output().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn words(status: &ServerStatus) -> &'static str {
    match (status.internal_only, status.deferred) {
        (true, _) => ", hidden (`internal_only`) unless `tools.surface` names them",
        (false, true) => ", deferred",
        (false, false) => "",
    }
}

/// Connects to a server, on a Tokio runtime of this thread. A failure ends the command with the exit code `failed`.
fn connect(
    wired: &Wired,
    servers: &Servers,
    name: &str,
    failed: u8,
) -> anyhow::Result<ServerStatus> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tested = tokio.block_on(servers.test(name, &wired.session));
    tested.map_err(|error| {
        let ToolError { kind, message, hint, .. } = error;
        let (message, hint) = (message.into_owned(), hint.map(Cow::into_owned));
        CommandError::of(failed, &ErrorBody { kind, message, hint })
    })
}

fn in_words(error: ToolError) -> anyhow::Error {
    match &error.hint {
        Some(hint) => anyhow::anyhow!("{error}; {hint}"),
        None => anyhow::anyhow!("{error}"),
    }
}

fn test(wired: &Wired, servers: &Servers, name: &str, as_json: bool) -> anyhow::Result<ExitCode> {
    let since = Instant::now();
    let status = connect(wired, servers, name, 1)?;
    let ms = since.elapsed().as_millis();
    if as_json {
        json_form::write(&row(wired, &status))?;
        return Ok(code(&status));
    }
    let tools = tools_of(wired, name);
    let mut text = format!("{} answers, after {ms} ms, with {} tools\n", status.name, tools.len());
    for tool in &tools {
        let first = tool.description.split_inclusive(". ").next().unwrap_or_default();
        let first = shown_line(first.trim_end());
        let _ = writeln!(text, "  {:<9} {}  {first}", tool.visibility.as_str(), tool.name);
    }
    for problem in &status.problems {
        let _ = writeln!(text, "  problem: {}", shown_line(problem));
    }
    if !status.waiting.is_empty() {
        let n = status.waiting.len();
        let _ = writeln!(text, "  {n} wait for you: `sinew mcp-servers approve {name}`");
    }
    screen::output().write_all(text.as_bytes())?;
    Ok(code(&status))
}

/// A server with a problem or with tools that wait does not answer as it should.
fn code(status: &ServerStatus) -> ExitCode {
    ExitCode::from(u8::from(!status.problems.is_empty() || !status.waiting.is_empty()))
}

fn login(
    wired: &Wired,
    servers: &Servers,
    name: &str,
    scopes: &[String],
    opens_browser: bool,
) -> anyhow::Result<ExitCode> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signed_in = tokio.block_on(async {
        let sign_in = servers.sign_in(name, scopes).await?;
        let (page, endpoint) = (shown_line(sign_in.page()), shown_line(sign_in.token_endpoint()));
        let mut words = format!("Sign in here:\n  {page}\nThe tokens come from {endpoint}\n");
        let pastes = terminal::is_attended();
        let opens = opens_browser && pastes && env_vars::has_display();
        if opens && open::that_detached(sign_in.page()).is_ok() {
            words.push_str("The page opens in your browser.\n");
        }
        if pastes {
            words.push_str(
                "If your browser is on another machine, paste the address to which it was led back:\n",
            );
        }
        let _ = screen::errors().write_all(words.as_bytes());
        let answer = tokio::select! {
            answer = sign_in.callback() => answer?,
            answer = pasted(&sign_in), if pastes => answer,
        };
        sign_in.finish(&answer).await
    });
    // A thread that waits for a line ends with the process.
    tokio.shutdown_background();
    if let Err(error) = signed_in {
        screen::say(&format!("{:#}", in_words(error)));
        return Ok(ExitCode::from(1));
    }
    if let Some(ledger) = &wired.ledger {
        ledger.event(Event {
            kind: "mcp-login",
            text: format!("a person signed in at the server `{name}`"),
            session: Some(wired.session.clone()),
        });
    }
    screen::errors().write_all(format!("signed in at {name}\n").as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the address that a person pastes; waits for ever at the end of the input.
async fn pasted(sign_in: &SignIn) -> String {
    let read = || {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).ok().filter(|n| *n != 0).map(|_| line)
    };
    loop {
        match tokio::task::spawn_blocking(read).await {
            Ok(Some(line)) if sign_in.answers(&line) => return line,
            Ok(Some(_)) => {
                screen::say(
                    "this is not the address of this sign-in; it has `code` and `state` in its query",
                );
            }
            _ => std::future::pending().await,
        }
    }
}

fn logout(servers: &Servers, name: &str) -> anyhow::Result<ExitCode> {
    let words = match servers.sign_out(name).map_err(in_words)? {
        true => format!("signed out at {name}; the tokens are removed from this machine\n"),
        false => format!("nothing is stored for {name}\n"),
    };
    screen::errors().write_all(words.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn approve(
    wired: &Wired,
    servers: &Servers,
    name: &str,
    yes: bool,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let status = connect(wired, servers, name, json_form::INVALID)?;
    let is_same = status.waiting.is_empty() && status.missing.is_empty();
    let print = |is_approved: bool| {
        let mut object = row(wired, &status);
        if let Some(keys) = object.as_object_mut() {
            keys.insert(String::from("approved"), Value::Bool(is_approved));
        }
        json_form::write(&object)
    };
    if !as_json {
        screen::output().write_all(shown(&status).as_bytes())?;
    } else if is_same || !yes {
        print(is_same)?;
        return Ok(ExitCode::from(if is_same { 0 } else { json_form::INVALID }));
    }
    if is_same {
        return Ok(ExitCode::SUCCESS);
    }
    if !yes && !terminal::is_attended() {
        bail!(
            "sinew asks at a terminal, and there is none here; read what is shown, and say `--yes` if you agree"
        );
    }
    if !yes && !terminal::confirms("Offer these tools to models as they are now? [y/N] ")? {
        screen::errors().write_all(b"nothing is approved\n")?;
        return Ok(ExitCode::from(1));
    }
    let hashes: Vec<_> = status.waiting.iter().map(Waiting::hash).collect();
    servers.approve(name, &hashes).map_err(|error| anyhow::anyhow!("{error}"))?;
    if let Some(ledger) = &wired.ledger {
        let tools: Vec<String> = status
            .waiting
            .iter()
            .map(|one| format!("{} ({})", shown_line(&one.now.name), one.hash()))
            .collect();
        ledger.event(Event {
            kind: "mcp-approve",
            text: format!("tools of the server `{name}` were approved: {}", tools.join(", ")),
            session: Some(wired.session.clone()),
        });
    }
    if as_json {
        print(true)?;
        return Ok(ExitCode::SUCCESS);
    }
    let n = hashes.len();
    let mut words = format!("{n} tools of {name} are approved");
    if !status.missing.is_empty() {
        let _ = write!(words, ", {} are no longer pinned", status.missing.len());
    }
    screen::errors().write_all(format!("{words}\n").as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns what waits of a server, with every definition in full.
fn shown(status: &ServerStatus) -> String {
    let name = shown_line(&status.name);
    if status.waiting.is_empty() && status.missing.is_empty() {
        let n = status.pinned.as_ref().map_or(0, Vec::len);
        return format!("all {n} tools of {name} are as they were approved\n");
    }
    let mut text = String::new();
    for one in &status.waiting {
        let what = if one.pinned.is_some() { "changed" } else { "is new" };
        let _ = writeln!(text, "{name}: the tool {} {what}", shown_line(&one.now.name));
        for line in difference(one).lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    for gone in &status.missing {
        let _ = writeln!(text, "{name}: the tool {} is gone", shown_line(gone));
    }
    text
}

/// Returns what differs from the pinned definition, line by line.
fn difference(waiting: &Waiting) -> String {
    let (old, new) = (waiting.pinned.as_ref().map(|pinned| pinned.pretty()), waiting.now.pretty());
    let old: Vec<&str> = old.as_deref().unwrap_or_default().lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let ops = line_ops(&old, &new, Some(Instant::now() + MAX_COMPARES));
    let mut shown = String::new();
    for (at, group) in group_diff_ops(ops, AROUND).iter().enumerate() {
        shown.push_str(if at == 0 { "" } else { " …\n" });
        for change in group.iter().flat_map(|op| op.iter_changes(&old, &new)) {
            shown.extend([change.tag().to_string().as_str(), change.value(), "\n"]);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use sinew_mcp_client::Definition;

    use super::*;

    fn pays(from: &str, to: &str) -> Definition {
        let of = |words: &str| json!({"description": words, "type": "string"});
        Definition {
            name: String::from("pay"),
            title: None,
            description: String::from("Pays."),
            parameters: json!({"type": "object", "properties": {"from": of(from), "to": of(to)}}),
            output_schema: None,
            annotations: None,
        }
    }

    #[test]
    fn what_moves_is_a_difference() {
        let (old, now) = (pays("debited", "credited"), pays("credited", "debited"));
        let shown = difference(&Waiting { now: now.clone(), pinned: Some(old) });
        for line in [
            "-        \"description\": \"debited\",\n",
            "+        \"description\": \"credited\",\n",
            "-        \"description\": \"credited\",\n",
            "       \"from\": {\n",
        ] {
            assert!(shown.contains(line), "{line} in {shown}");
        }
        assert!(difference(&Waiting { now: now.clone(), pinned: Some(now.clone()) }).is_empty());
        let new = difference(&Waiting { now, pinned: None });
        assert!(new.lines().all(|line| line.starts_with('+')), "{new}");
    }
}

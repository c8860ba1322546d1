//! Rows about the server itself: its start, its catalog, and what one call costs whatever it does.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::super::Bench;
use super::super::client::{Client, Link, Request};
use super::super::peers::{Launch, Server, cpu_seconds, memory};
use super::super::processor::OneProcessor;
use super::super::report::{Sheet, Unit};
use super::super::stats::{Measured, Series, Side, in_turns};
use super::{
    OF_ALLOWANCE, OVER_NULL_US, RESIDENT_MB, TOKENS, TOKENS_OF_SIX, X_NO_SERVERS, X_NODE_FS,
    X_ONE_SERVER, X_RUST_FS,
};

const ALL: [Server; 4] = [Server::Null, Server::Ours, Server::RustFs, Server::NodeFs];

/// The estimate of tokens: what a token holds of JSON with English in it, near enough to compare.
const BYTES_A_TOKEN: f64 = 4.0;

/// How long a server has waited that counts as idle.
const IDLE: Duration = Duration::from_millis(200);

/// The file tools of the dialect that has six.
const SIX: [&str; 6] = ["Read", "Write", "Edit", "MultiEdit", "Glob", "Grep"];

const OURS: &str = "sinew";

pub(in super::super) fn start(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let mut sides = Vec::new();
    for server in ALL {
        let Some(launch) = bench.peers.launch(server, &bench.work) else { continue };
        sides.push(Side::new(server.name(), move |series| {
            series.push(launch.start()?.started());
            Ok(())
        }));
    }
    let measured = in_turns(bench.rounds(25), sides)?;
    sheet.times(&measured);
    let over_null = |name| Some(measured.median(name)? - measured.median("null")?);
    let ratio = || Some(over_null(OURS)? / over_null("rust-fs")?);
    sheet.value(X_RUST_FS, ratio());
    Ok(())
}

/// How many MCP servers of others are configured at once.
const N_SERVERS: usize = 20;
/// How many milliseconds each of them takes to start, about as long as one in Python or JavaScript.
const STARTS_IN_MS: u64 = 300;

/// Starts with servers that are disabled, pinned or never used, and waits for the tools of 20 and of one.
pub(in super::super) fn start_servers(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let Some(launch) = bench.peers.launch(Server::Ours, &bench.work) else { return Ok(()) };
    let config = |name: &str, n: usize, more: &str| -> Result<String> {
        let program = bench.peers.null().display();
        let entry = |at: usize| {
            format!(
                "[tools.mcp_servers.s{at}]\ncommand = \"{program}\"\nargs = [\"null-mcp\", \"{STARTS_IN_MS}\"]\n\
                 internal_only = false\n{more}"
            )
        };
        let path = bench.folder.join(format!("{name}.toml"));
        fs::write(&path, (0..n).map(entry).collect::<String>())?;
        Ok(path.display().to_string())
    };
    let (all, one) = (config("servers", N_SERVERS, "")?, config("server", 1, "")?);
    let none = config("no-servers", N_SERVERS, "enabled = false\n")?;
    let with = |path: &str, state| launch.clone().state(state).options(&["--config", path]);
    // Pinned by a first start.
    listed(&with(&all, "state-pinned"), N_SERVERS)?;
    let (disabled, pinned) = (with(&none, "state-pinned"), with(&all, "state-pinned"));
    let (of_all, of_one) = (with(&all, "state-new"), with(&one, "state-new"));
    let started = |launch: Launch| {
        move |series: &mut Series| {
            series.push(launch.start()?.started());
            Ok(())
        }
    };
    // All are pinned at its end, so nothing is written when the pins are forgotten.
    let new = |launch: Launch| {
        move |series: &mut Series| {
            forget("state-new")?;
            let (started, _) = listed(&launch, N_SERVERS)?;
            series.push(started);
            Ok(())
        }
    };
    let measured = in_turns(
        bench.rounds(25),
        vec![
            Side::new("disabled", started(disabled)),
            Side::new("pinned", started(pinned)),
            Side::new("never used", new(of_all.clone())),
        ],
    )?;
    sheet.times(&measured);
    let slower = ["pinned", "never used"].map(|side| measured.ratio(side, "disabled"));
    sheet.value(X_NO_SERVERS, slower.into_iter().flatten().reduce(f64::max));
    let waits = |launch: Launch, n: usize| {
        move |series: &mut Series| {
            forget("state-new")?;
            series.push(listed(&launch, n)?.1);
            Ok(())
        }
    };
    let measured = in_turns(
        bench.rounds(10),
        vec![
            Side::new("tools of one", waits(of_one, 1)),
            Side::new("tools of 20", waits(of_all, N_SERVERS)),
        ],
    )?;
    sheet.times(&measured);
    // One after another would take 20 times as long.
    sheet.value(X_ONE_SERVER, measured.ratio("tools of 20", "tools of one"));
    Ok(())
}

/// Forgets the pins that sinew keeps in a folder.
fn forget(state: &str) -> Result<()> {
    let folder = super::super::state_home(state).join("sinew/mcp-servers");
    match folder.exists() {
        true => Ok(fs::remove_dir_all(folder)?),
        false => Ok(()),
    }
}

/// Returns how long a start takes, and how long it takes with the list of the tools of `n` servers.
fn listed(launch: &Launch, n: usize) -> Result<(f64, f64)> {
    let mut client = launch.start()?;
    let started = client.started();
    let seconds = started + client.time(&list())?;
    let result = client.result()?;
    let tools = result.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    let foreign = tools.iter().filter_map(|tool| tool.get("name")?.as_str());
    let found = foreign.filter(|name| name.ends_with("__Null")).count();
    match found == n {
        true => Ok((started, seconds)),
        false => bail!("{found} of {n} servers are listed"),
    }
}

fn list() -> Request {
    Request::method("tools/list", &json!({}))
}

fn tools(client: &mut Client) -> Result<Vec<Value>> {
    client.time(&list())?;
    let mut result = client.result()?;
    if result.get("nextCursor").is_some_and(|cursor| !cursor.is_null()) {
        bail!("the catalog comes in pages, which is not measured yet");
    }
    match result.get_mut("tools").map(Value::take) {
        Some(Value::Array(tools)) if !tools.is_empty() => Ok(tools),
        _ => bail!("the catalog is empty"),
    }
}

pub(in super::super) fn tools_list(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let measured = call_in_turns(bench, Link::Pipes, 10, 50, |_, client| {
        tools(client)?;
        Ok(list())
    })?;
    sheet.times(&measured);
    sheet.value(X_RUST_FS, measured.ratio(OURS, "rust-fs"));
    Ok(())
}

/// Times a call of each server in turns. `choose` gives the request and sees that it is answered.
fn call_in_turns(
    bench: &Bench,
    link: Link,
    n_rounds: usize,
    n_calls: usize,
    choose: impl Fn(Server, &mut Client) -> Result<Request>,
) -> Result<Measured> {
    let mut sides = Vec::new();
    for server in ALL {
        let Some(launch) = bench.peers.launch(server, &bench.work) else { continue };
        let mut client = launch.link(link).start()?;
        let request = choose(server, &mut client).with_context(|| server.name())?;
        sides.push(Side::new(server.name(), move |series| {
            for _ in 0..n_calls {
                series.push(client.time(&request)?);
            }
            Ok(())
        }));
    }
    in_turns(bench.rounds(n_rounds), sides)
}

fn n_tokens(tools: &[Value]) -> f64 {
    let n_bytes: usize = tools
        .iter()
        .map(|tool| {
            let part = |name| tool.get(name).cloned().unwrap_or_default();
            let [name, description, schema] = ["name", "description", "inputSchema"].map(part);
            let shown = json!({"name": name, "description": description, "inputSchema": schema});
            shown.to_string().len()
        })
        .sum();
    n_bytes as f64 / BYTES_A_TOKEN
}

pub(in super::super) fn catalog(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    for server in [Server::Ours, Server::RustFs, Server::NodeFs] {
        let Some(launch) = bench.peers.launch(server, &bench.work) else { continue };
        let tools = tools(&mut launch.start()?)?;
        let average = n_tokens(&tools) / tools.len() as f64;
        sheet.figure(server.name(), Unit::Count, average);
        sheet.note(format!(
            "{}: {} tools, {:.0} tokens",
            server.name(),
            tools.len(),
            n_tokens(&tools)
        ));
        if server == Server::Ours {
            sheet.value(TOKENS, Some(average));
        }
    }
    Ok(())
}

pub(in super::super) fn catalog_six(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let Some(launch) = bench.peers.launch(Server::Ours, &bench.work) else { return Ok(()) };
    let mut tools = tools(&mut launch.dialect("moltis").start()?)?;
    tools.retain(|tool| tool.get("name").is_some_and(|name| SIX.iter().any(|six| name == six)));
    if tools.len() != SIX.len() {
        bail!("{} of six tools are there", tools.len());
    }
    sheet.figure(OURS, Unit::Count, n_tokens(&tools));
    sheet.value(TOKENS_OF_SIX, Some(n_tokens(&tools)));
    Ok(())
}

pub(in super::super) fn idle_memory(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let mut sides = Vec::new();
    for server in ALL {
        let Some(launch) = bench.peers.launch(server, &bench.work) else { continue };
        let read = read(server, &bench.one_line());
        sides.push(Side::new(server.name(), move |series| {
            let mut client = launch.start()?;
            tools(&mut client)?;
            client.time(&read)?;
            // Idle: what the first call begins beside its reply is over.
            std::thread::sleep(IDLE);
            series.push(memory(client.pid(), "VmRSS")?);
            Ok(())
        }));
    }
    let measured = in_turns(5, sides)?;
    sheet.figures(Unit::Bytes, &measured);
    sheet.value(RESIDENT_MB, measured.median(OURS).map(|bytes| bytes / 1e6));
    Ok(())
}

/// Returns a request to read a file whole.
pub(super) fn read(server: Server, path: &Path) -> Request {
    match server {
        Server::Ours | Server::Null => Request::call("Read", &json!({"file_path": path})),
        Server::RustFs | Server::NodeFs => Request::call("read_text_file", &json!({"path": path})),
    }
}

/// Returns the cheapest call of a server. Ours has no tool that answers from memory, so it is the
/// quicker of reading one line and listing an empty folder.
fn cheapest(bench: &Bench, server: Server, client: &mut Client) -> Result<Request> {
    if server != Server::Ours {
        let request = Request::call("list_allowed_directories", &json!({}));
        client.text(&request)?;
        return Ok(request);
    }
    let one_line = read(server, &bench.one_line());
    let text = client.text(&one_line)?;
    if !text.contains("the only line") {
        bail!("the answer is wrong: {text}");
    }
    let empty = Request::call("List", &json!({"path": bench.work.join("empty")}));
    client.text(&empty)?;
    let mut median = |request| -> Result<f64> {
        let mut series = Series::default();
        for _ in 0..500 {
            series.push(client.time(request)?);
        }
        Ok(series.median())
    };
    Ok(if median(&empty)? < median(&one_line)? { empty } else { one_line })
}

pub(in super::super) fn call_pipes(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    call(bench, sheet, Link::Pipes)
}

pub(in super::super) fn call_sockets(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    call(bench, sheet, Link::Sockets)
}

fn call(bench: &Bench, sheet: &mut Sheet, link: Link) -> Result<()> {
    let measured =
        call_in_turns(bench, link, 20, 200, |server, client| cheapest(bench, server, client))?;
    sheet.times(&measured);
    sheet.value(X_RUST_FS, measured.ratio(OURS, "rust-fs"));
    let over = || Some((measured.median(OURS)? - measured.median("null")?) * 1e6);
    sheet.value(OVER_NULL_US, over());
    Ok(())
}

pub(in super::super) fn call_cpu(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    const N_CALLS: usize = 1_000;
    let mut sides = Vec::new();
    for server in ALL {
        let Some(launch) = bench.peers.launch(server, &bench.work) else { continue };
        let mut client = launch.start()?;
        let request = cheapest(bench, server, &mut client)?;
        sides.push(Side::new(server.name(), move |series| {
            let before = cpu_seconds(client.pid())?;
            for _ in 0..N_CALLS {
                client.time(&request)?;
            }
            series.push((cpu_seconds(client.pid())? - before) / N_CALLS as f64);
            Ok(())
        }));
    }
    let measured = in_turns(bench.rounds(7), sides)?;
    sheet.times(&measured);
    sheet.value(X_RUST_FS, measured.ratio(OURS, "rust-fs"));
    Ok(())
}

pub(in super::super) fn rate_pipes(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    rate(bench, sheet, Link::Pipes)
}

pub(in super::super) fn rate_sockets(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    rate(bench, sheet, Link::Sockets)
}

fn rate(bench: &Bench, sheet: &mut Sheet, link: Link) -> Result<()> {
    let mut sides = Vec::new();
    for server in ALL {
        let Some(launch) = bench.peers.launch(server, &bench.work) else { continue };
        let mut client = launch.link(link).start()?;
        let request = cheapest(bench, server, &mut client)?;
        sides.push(Side::new(server.name(), move |series| {
            series.push(client.flood(&request, 64, Duration::from_millis(400))?);
            Ok(())
        }));
    }
    let measured = in_turns(bench.rounds(7), sides)?;
    sheet.figures(Unit::PerSecond, &measured);
    sheet.value(X_RUST_FS, measured.ratio(OURS, "rust-fs"));
    sheet.value(X_NODE_FS, measured.ratio(OURS, "node-fs"));
    Ok(())
}

/// The side with rules, a hook and the ledger.
const GOVERNED: &str = "rules, hooks, ledger";
/// The side with none of them.
const FREE: &str = "none of them";

/// Rules and a hook that a call is looked at by and that do not mean it, beside the ledger.
fn governed() -> Vec<String> {
    let rule = |n: usize| match n % 3 {
        0 => format!(r#"{{verdict="deny",tools=["Write"],paths=["secret/{n}/**"]}}"#),
        1 => format!(r#"{{verdict="ask",command="program-{n} *"}}"#),
        _ => format!(r#"{{verdict="deny",tools=["Read","Grep"],paths=["**/none-{n}.key"]}}"#),
    };
    let rules: Vec<String> = (0..30).map(rule).collect();
    let hook = r#"{event="before_tool_execute",tools=["Write"],command=["/bin/true"]}"#;
    vec![
        String::from("--set"),
        format!("rules=[{}]", rules.join(",")),
        String::from("--set"),
        format!("hooks=[{hook}]"),
    ]
}

pub(in super::super) fn governed_call(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let _here = OneProcessor::hold()?;
    let mut sides = Vec::new();
    let off = vec![String::from("--set"), String::from("ledger.mode=off")];
    for (name, options) in [(GOVERNED, governed()), (FREE, off)] {
        let Some(launch) = bench.peers.launch(Server::Ours, &bench.work) else { continue };
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut client = launch.options(&options).start()?;
        let request = read(Server::Ours, &bench.one_line());
        sides.push(Side::new(name, move |series| {
            for _ in 0..200 {
                series.push(client.time(&request)?);
            }
            Ok(())
        }));
    }
    if sides.is_empty() {
        return Ok(());
    }
    let before = bench.state_written_at()?;
    let measured = in_turns(bench.rounds(30), sides)?;
    if bench.state_written_at()? <= before {
        bail!("nothing was written to the ledger, so it was not on");
    }
    sheet.times(&measured);
    let share = || {
        let (on, off) = (measured.median(GOVERNED)?, measured.median(FREE)?);
        Some((on - off) / f64::max(15e-6, 0.05 * off))
    };
    sheet.value(OF_ALLOWANCE, share());
    Ok(())
}

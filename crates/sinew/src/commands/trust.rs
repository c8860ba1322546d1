//! `sinew trust`: shows what a project would loosen, asks the user, and stores the answer.
#![expect(
    clippy::disallowed_methods,
    reason = "the files of MCP clients in a project are read here"
)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use sinew_guard::{
    Layer, LedgerSync, OnFailure, Recorded, Redactor, Retention, SqliteLedger, StateDir, timestamp,
};
use sinew_tool::{Event, Ledger as _, shown_line, shown_path};

use crate::cli::{Cli, Global, TrustArgs, TrustCommand};
use crate::client_start;
use crate::config::clients;
use crate::config::trust::{Arguments, Content, Known, Project, Trusted};
use crate::config::{
    Layered, LedgerMode, LedgerSettings, LeftOut, SYSTEM_FILE, Settings, env_vars, real,
};
use crate::screen::{self, say};
use crate::terminal;
use crate::wiring::{self, CliInput, Places};

/// The untrusted parts of a project.
struct Found {
    root: PathBuf,
    /// The content of the project's files, if part of it is not trusted yet.
    content: Option<Content>,
    loosens: Vec<LeftOut>,
    servers: Vec<Started>,
    /// The server variables that act before sinew runs.
    loader: Vec<LoaderVariable>,
    /// The servers that may start sinew in a way that is not analysed.
    unclear: Vec<String>,
    /// Whether its configuration cannot be read, so that its effect is unknown.
    is_broken: bool,
}

/// A server in a client file of the project.
struct Started {
    /// The place in the client file.
    place: String,
    current: PathBuf,
    loosens: Vec<LeftOut>,
}

/// A server variable that acts before sinew runs, so that sinew can only show it.
struct LoaderVariable {
    /// The place in the client file.
    place: String,
    name: String,
    value: String,
}

/// Shows the findings, asks, and stores the answer.
pub(crate) fn run(global: &Global, args: &TrustArgs) -> anyhow::Result<ExitCode> {
    // The state directory of `sinew mcp`, which no variable changes.
    let state = Places::of_process()
        .state()
        .context("there is no state directory; set XDG_STATE_HOME to an absolute directory")?;
    match &args.command {
        Some(TrustCommand::List { json }) => return list(&Trusted::read(&state)?, *json),
        Some(TrustCommand::Revoke { dir }) => return revoke(global, &state, dir.as_deref()),
        None => {}
    }
    let root = directory(args.dir.as_deref())?;
    let trusted = Trusted::read(&state)?;
    let found = match args.arguments {
        true => arguments(&args.line, root, &trusted)?,
        false => project(global, root, &trusted)?,
    };
    let is_nothing = found.content.is_none() && found.servers.is_empty();
    if args.json && !args.yes {
        writeln!(io::stdout(), "{}", found.to_json(false))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.json {
        screen::errors().write_all(found.words().as_bytes())?;
    }
    if is_nothing {
        if args.json {
            writeln!(io::stdout(), "{}", found.to_json(false))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !terminal::is_attended() {
        bail!("no terminal to ask at; look at it, and say `--yes` if you trust it");
    }
    if !args.yes && !terminal::confirms("Trust this as it is now? [y/N] ")? {
        screen::errors().write_all(b"nothing is trusted\n")?;
        return Ok(ExitCode::from(1));
    }
    record(global, &state, "trust", found.short())?;
    Trusted::change(&state, |trusted| {
        if let Some(content) = &found.content {
            trusted.trust_project(&found.root, content);
        }
        for server in &found.servers {
            let loosens = server.loosens.iter().map(LeftOut::to_string).collect();
            trusted.trust_arguments(&server.current, loosens);
        }
    })?;
    match args.json {
        true => writeln!(io::stdout(), "{}", found.to_json(true))?,
        false => writeln!(io::stdout(), "trusted: {}", shown_path(&found.root))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the canonical path of a project.
fn directory(dir: Option<&Path>) -> anyhow::Result<PathBuf> {
    let dir = dir.unwrap_or(Path::new("."));
    let real = std::fs::canonicalize(dir).with_context(|| dir.display().to_string())?;
    match real.is_dir() {
        true => Ok(real),
        false => bail!("{} is not a directory; name the project", dir.display()),
    }
}

fn project(global: &Global, root: PathBuf, trusted: &Trusted) -> anyhow::Result<Found> {
    // Ignore this process's own options: inspect the project as a server would.
    let own = CliInput {
        global: Global { log: global.log.clone(), ..Global::default() },
        arguments: Vec::new(),
        current: root.clone(),
        is_held: true,
        by_client: true,
        config_text: None,
        places: Places::of_database(),
    };
    let looked = wiring::look(&own, &root);
    let is_broken = looked.is_err();
    let layered = or_without_project(looked, &own)?;
    tell(&layered);
    refuse_where_held(layered.keeps_from_trusting)?;
    let loosens: Vec<LeftOut> =
        layered.left_out.into_iter().filter(|left| left.origin.layer() == Layer::Project).collect();
    let content = Content::of(&root).with_context(|| root.display().to_string())?;
    let is_known = matches!(trusted.of_project(&root), Known::Now(_));
    let counts = !loosens.is_empty() || content.files.len() > usize::from(content.config.is_some());
    let mut found = Found {
        content: (counts && !is_known && !is_broken).then_some(content),
        loosens,
        servers: Vec::new(),
        loader: Vec::new(),
        unclear: Vec::new(),
        root: root.clone(),
        is_broken,
    };
    for file in clients::FILES {
        let path = root.join(file);
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => continue,
            Err(error) => {
                say(&format!("{}: {error}; it is left out", shown_path(&path)));
                continue;
            }
        };
        match clients::servers(Path::new(file), &text) {
            Ok(servers) => {
                for server in servers {
                    let place = format!("{file}: {}", server.name);
                    let set = clients::loader_variables(&server).into_iter();
                    found.loader.extend(set.map(|(name, value)| LoaderVariable {
                        place: place.clone(),
                        name,
                        value,
                    }));
                    if server.is_unclear() {
                        found.unclear.push(place.clone());
                    }
                    let Some(said) = client_start::said(&server, &root) else { continue };
                    found.servers.extend(started(place, said, trusted)?);
                }
            }
            Err(error) => {
                let (path, error) = (shown_path(&path), error.trim_end());
                say(&format!("{path}: {error}; it is left out"));
            }
        }
    }
    Ok(found)
}

fn arguments(line: &[String], root: PathBuf, trusted: &Trusted) -> anyhow::Result<Found> {
    let cli = Cli::of_words(line);
    let said = CliInput {
        global: cli.global,
        arguments: line.iter().map(Into::into).collect(),
        current: root.clone(),
        is_held: true,
        by_client: true,
        config_text: None,
        places: Places::of_process(),
    };
    tell(&or_without_project(wiring::settle(&said, trusted), &said)?);
    let found = started(String::from("these arguments and variables"), said, trusted)?;
    let servers = found.into_iter().collect();
    Ok(Found {
        root,
        content: None,
        loosens: Vec::new(),
        servers,
        loader: Vec::new(),
        unclear: Vec::new(),
        is_broken: false,
    })
}

/// Returns a server that would loosen unconfirmed values.
fn started(place: String, said: CliInput, trusted: &Trusted) -> anyhow::Result<Option<Started>> {
    let settled = wiring::settle(&said, &Trusted::default());
    // An error in the project's own file was reported already and does not affect this server's values.
    let layered = match settled.or_else(|error| wiring::without_project(&said).map_err(|_| error)) {
        Ok(layered) => layered,
        Err(error) => {
            say(&format!("{}: {error:#}; it is left out", shown_line(&place)));
            return Ok(None);
        }
    };
    refuse_where_held(layered.keeps_from_trusting)?;
    let loosens: Vec<LeftOut> = layered.unconfirmed().cloned().collect();
    if loosens.is_empty() || trusted.confirms(&said.current, loosens.iter()) {
        return Ok(None);
    }
    Ok(Some(Started { place, current: real(&said.current), loosens }))
}

/// Returns the merged layers; if the project's own file is invalid, reports the error and leaves it out.
fn or_without_project(looked: anyhow::Result<Layered>, said: &CliInput) -> anyhow::Result<Layered> {
    looked.or_else(|error| {
        let without = wiring::without_project(said).map_err(|_| anyhow::anyhow!("{error:#}"))?;
        say(&format!("{error:#}; it is left out"));
        Ok(without)
    })
}

/// Prints configuration warnings, except those that `trust` shows itself.
fn tell(layered: &Layered) {
    let left_out = layered.left_out.iter();
    let told: Vec<String> =
        left_out.map(|left| format!("{}: `{}` is left", left.origin, left.key)).collect();
    let is_shown = |warning: &&String| told.iter().any(|told| warning.starts_with(told));
    let others: Vec<String> =
        layered.warnings.iter().filter(|warning| !is_shown(warning)).cloned().collect();
    super::few(&others, "`sinew doctor --json` has them all").iter().for_each(|one| say(one));
}

fn refuse_where_held(keeps_from_trusting: bool) -> anyhow::Result<()> {
    if keeps_from_trusting {
        bail!("`managed.trust` in {SYSTEM_FILE} forbids trust on this machine");
    }
    Ok(())
}

impl Found {
    fn words(&self) -> String {
        let mut text = self.loosening();
        for LoaderVariable { place, name, value } in &self.loader {
            let set = shown_line(&format!("{name}={value}"));
            text.push_str(&format!(
                "{} sets {set}: it acts before sinew runs, so sinew cannot defend against it\n",
                shown_line(place)
            ));
        }
        for place in &self.unclear {
            text.push_str(&format!(
                "{} may start sinew in a way that sinew does not analyse. Read that entry: it can start anything\n",
                shown_line(place)
            ));
        }
        text
    }

    /// Formats the values that the project and its servers would loosen.
    fn loosening(&self) -> String {
        let name = shown_path(&self.root);
        if self.is_broken && self.servers.is_empty() {
            return format!(
                "{name}: nothing says what its configuration would loosen before it can be read, so \
                 nothing of it can be trusted\n"
            );
        }
        if self.content.is_none() && self.servers.is_empty() {
            return format!("{name}: nothing here would loosen what is not trusted already\n");
        }
        let mut text = format!("{name}\n");
        if let Some(content) = &self.content {
            text.push_str("\nThe project would count like your own configuration:\n");
            self.loosens.iter().for_each(|left| text.push_str(&line(left)));
            for (path, said) in &content.hooks {
                text.push_str(&format!("The hook of {} says:\n", shown_path(path)));
                let lines = said.lines().filter(|line| !line.trim().is_empty());
                lines.for_each(|line| text.push_str(&format!("    {}\n", shown_line(line))));
            }
            text.push_str("Files that count, as they are now:\n");
            for (path, _) in &content.files {
                text.push_str(&format!("  {}\n", shown_path(path)));
            }
        }
        for server in &self.servers {
            text.push_str(&format!(
                "\n{} would loosen in {}:\n",
                shown_line(&server.place),
                shown_path(&server.current)
            ));
            server.loosens.iter().for_each(|left| text.push_str(&line(left)));
        }
        text.push('\n');
        text
    }

    /// Returns a one-line summary for the ledger.
    fn short(&self) -> String {
        let mut parts = Vec::new();
        if let Some(content) = &self.content {
            parts.push(format!("{}: {} files", self.root.display(), content.files.len()));
        }
        for server in &self.servers {
            let loosens: Vec<String> = server.loosens.iter().map(LeftOut::to_string).collect();
            parts.push(format!("arguments in {}: {}", server.current.display(), loosens.join(" ")));
        }
        parts.join("; ")
    }

    fn to_json(&self, is_trusted: bool) -> Value {
        let files = self.content.iter().flat_map(|content| &content.files);
        let files: Vec<_> = files.map(|(path, _)| path.to_string_lossy()).collect();
        let hooks = self.content.iter().flat_map(|content| &content.hooks);
        let hooks: Vec<_> = hooks
            .map(|(path, said)| json!({ "path": path.to_string_lossy(), "text": said }))
            .collect();
        let servers = self.servers.iter().map(|server| {
            json!({
                "place": server.place, "cwd": server.current.to_string_lossy(),
                "loosens": values(&server.loosens),
            })
        });
        let loader = self.loader.iter().map(|LoaderVariable { place, name, value }| {
            json!({ "place": place, "key": name, "value": value })
        });
        json!({
            "root": self.root.to_string_lossy(),
            "loosens": values(if self.content.is_some() { &self.loosens } else { &[] }),
            "files": files,
            "hooks": hooks,
            "servers": servers.collect::<Vec<_>>(),
            "loader": loader.collect::<Vec<_>>(),
            "unclear": self.unclear,
            "trusted": is_trusted,
        })
    }
}

fn line(left: &LeftOut) -> String {
    format!("  {}  ({})\n", shown_line(&left.to_string()), shown_line(&left.origin.to_string()))
}

fn values(left_out: &[LeftOut]) -> Vec<Value> {
    let one = |left: &LeftOut| json!({ "key": left.key, "value": left.value, "origin": left.origin.to_string() });
    left_out.iter().map(one).collect()
}

fn list(trusted: &Trusted, as_json: bool) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    if as_json {
        let at = |at_s: u64| timestamp(at_s.saturating_mul(1_000));
        for Project { root, hash, at_s } in &trusted.project {
            let line = json!({ "root": root.to_string_lossy(), "hash": hash, "at": at(*at_s) });
            writeln!(out, "{line}")?;
        }
        for Arguments { root, loosens, at_s } in &trusted.arguments {
            let root = root.to_string_lossy();
            let line = json!({ "root": root, "arguments": loosens, "at": at(*at_s) });
            writeln!(out, "{line}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    for project in &trusted.project {
        writeln!(out, "project    {}", shown_path(&project.root))?;
    }
    for arguments in &trusted.arguments {
        let loosens: Vec<String> = arguments.loosens.iter().map(|one| shown_line(one)).collect();
        let root = shown_path(&arguments.root);
        writeln!(out, "arguments  {root}  {}", loosens.join("  "))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Records a change of trust in the ledger before it takes effect.
fn record(global: &Global, state: &Path, kind: &'static str, text: String) -> anyhow::Result<()> {
    // The ledger settings of the files here count; if they are invalid, the defaults.
    let own = CliInput::by_person(global)?;
    let layered = wiring::settle(&own, &Trusted::default());
    let settings = layered.ok().and_then(|layered| Settings::resolve(&layered.options).ok());
    let LedgerSettings { sync, on_failure, retention } = match settings.map(|all| all.ledger) {
        Some(LedgerMode::Off) => return Ok(()),
        Some(LedgerMode::Sqlite(settings)) => settings,
        None => LedgerSettings {
            sync: LedgerSync::Normal,
            on_failure: OnFailure::Refuse,
            retention: Retention::default(),
        },
    };
    let state = StateDir::open(state)
        .with_context(|| format!("the state directory {}", state.display()))?;
    let redactor = Redactor::knowing(env_vars::all());
    let recorded = Recorded { surface: "trust", sync, on_failure, retention, redactor };
    let ledger = SqliteLedger::new(&state, recorded);
    ledger.event(Event { kind, text, session: None });
    match ledger.flush() {
        Err(error) if on_failure == OnFailure::Refuse => {
            bail!("what is trusted cannot be recorded, so nothing changes: {error}")
        }
        _ => Ok(()),
    }
}

fn revoke(global: &Global, state: &Path, dir: Option<&Path>) -> anyhow::Result<ExitCode> {
    // A deleted directory can be revoked too.
    let root = wiring::current_dir()?.join(dir.unwrap_or(Path::new("")));
    record(global, state, "withdrawn trust", root.to_string_lossy().into_owned())?;
    let n = Trusted::change(state, |trusted| trusted.revoke(&root))?;
    let name = shown_path(&root);
    match n {
        0 => writeln!(io::stdout(), "{name}: nothing was trusted")?,
        _ => writeln!(io::stdout(), "{name}: not trusted any more")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The size limit of a client's file.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a client's file, which must be regular and within the size limit.
fn read(path: &Path) -> io::Result<String> {
    let meta = std::fs::metadata(path)?;
    if !meta.is_file() || MAX_BYTES < meta.len() {
        return Err(io::Error::other("not a regular file of at most 1 MiB"));
    }
    std::fs::read_to_string(path)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

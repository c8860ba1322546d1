//! `sinew doctor`: checks the sandbox, state, configuration, clients and model of this machine.

mod model;
mod server;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use serde::Serialize;
use sinew_guard::checkpoints::Usage;
use sinew_guard::{Audit, AuditError, Profile, SandboxLevel, Shortfall};
use sinew_mcp_client::{ServerStatus, Servers};
use sinew_runtime::Approvals;
use sinew_tool::shown_line;

use crate::screen;
use crate::wiring::{self, DatabaseHome, Loaded, NamedDir, Wired};

/// The result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    #[serde(rename = "check")]
    name: &'static str,
    ok: bool,
    needed: bool,
    #[serde(rename = "text")]
    detail: String,
    /// A shorter text for the terminal.
    #[serde(skip)]
    short: Option<String>,
}

impl Finding {
    /// Adds notes that are no failure, unless the check already failed.
    fn add_note(&mut self, notes: &[String]) {
        let notes = notes.join("; ");
        match (self.ok, self.needed) {
            (true, _) => *self = Self { needed: false, ..found(self.name, false, notes) },
            (false, true) => {}
            (false, false) => {
                if let Some(short) = &mut self.short {
                    *short = format!("{notes}; {short}");
                }
                self.detail = format!("{notes}; {}", self.detail);
            }
        }
    }
}

/// Runs all checks and prints the findings; exit 1 if a required part is missing.
pub(crate) fn run(loaded: &Loaded, as_json: bool) -> anyhow::Result<ExitCode> {
    super::warn(loaded);
    let wired = wiring::wire(loaded, "doctor", &["all"], None);
    let state = state(loaded);
    let has_state = state.ok;
    // Without a state directory these checks would repeat its failure.
    let skipped = |name, check: &dyn Fn() -> Finding| match has_state {
        true => check(),
        false => {
            let detail = String::from("not checked: it needs the state directory");
            Finding { needed: false, ..found(name, false, detail) }
        }
    };
    let mut findings = [
        config(loaded),
        roots(loaded, wired.as_ref().err().filter(|_| has_state)),
        home(loaded),
        state,
        skipped("ledger", &|| ledger(loaded, &wired)),
        skipped("undo", &|| checkpoints(loaded, &wired)),
        openat2(),
        skipped("sandbox", &|| sandbox(&wired)),
        approvals(loaded),
        mcp_servers(&wired),
        model::check(loaded),
    ];
    // A missing part already stops a server.
    let own = (!is_missing(&findings)).then(|| server::own(loaded)).flatten();
    let server::Servers { stopped, notes } = match has_state {
        true => server::of_clients(loaded),
        false => server::Servers::default(),
    };
    let stopped: Vec<String> = own.into_iter().chain(stopped).collect();
    if let [config, ..] = &mut findings[..] {
        if !stopped.is_empty() {
            *config = Finding { needed: true, ..found("config", false, stopped.join("; ")) };
        } else if !notes.is_empty() {
            config.add_note(&notes);
        }
    }
    print(&findings, as_json)
}

/// Prints that no check can run: the user's or system's configuration stops every command.
pub(crate) fn stopped(error: &anyhow::Error, as_json: bool) -> anyhow::Result<ExitCode> {
    print(&[found("config", false, format!("{error:#}"))], as_json)
}

fn is_missing(findings: &[Finding]) -> bool {
    findings.iter().any(|one| one.needed && !one.ok)
}

fn print(findings: &[Finding], as_json: bool) -> anyhow::Result<ExitCode> {
    let missing = is_missing(findings);
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{}", serde_json::json!({ "ok": !missing, "findings": findings }))?;
    } else {
        for finding in findings {
            let mark = match (finding.ok, finding.needed) {
                (true, _) => "ok",
                (false, true) => "MISSING",
                (false, false) => "note",
            };
            // Directory names and file text in it must not start a line.
            let detail = shown_line(finding.short.as_ref().unwrap_or(&finding.detail).trim_end());
            writeln!(out, "{} {:<10} {detail}", screen::mark(mark, 8), finding.name)?;
        }
    }
    Ok(ExitCode::from(u8::from(missing)))
}

fn config(loaded: &Loaded) -> Finding {
    let warnings = &loaded.layered.warnings;
    if let Some(stopped) = &loaded.stopped {
        return found("config", false, stopped.clone());
    }
    if warnings.is_empty() {
        let detail = String::from("every value is understood");
        return Finding { needed: false, ..found("config", true, detail) };
    }
    let short = Some(super::few(warnings, "`--json` has them all").join("; "));
    Finding { needed: false, short, ..found("config", false, warnings.join("; ")) }
}

fn roots(loaded: &Loaded, problem: Option<&anyhow::Error>) -> Finding {
    let shown: Vec<String> = loaded.roots.iter().map(|root| root.display().to_string()).collect();
    match problem {
        None => found("roots", true, shown.join(", ")),
        Some(error) => found("roots", false, format!("{error:#}")),
    }
}

/// Reports whose configuration and state count, and those that variables add.
fn home(loaded: &Loaded) -> Finding {
    let places = &loaded.said.places;
    let note = |detail: String| Finding { needed: false, ..found("home", false, detail) };
    let home = match &places.database {
        DatabaseHome::Known(home) => home,
        DatabaseHome::None(why) => {
            return note(format!(
                "{why}, so HOME, XDG_CONFIG_HOME and XDG_STATE_HOME count as they are, also those that a \
                 client sets for `sinew mcp`"
            ));
        }
        DatabaseHome::Unreadable(problem) => {
            let detail = format!("{problem}; `sinew mcp` does not start without it");
            return found("home", false, detail);
        }
    };
    let others = [places.other_config(), places.other_state()];
    let others = others.into_iter().flatten().map(|dir| {
        let NamedDir { path, variable } = dir;
        format!(
            "; {variable} names {}, of which `sinew mcp` takes only what you confirm",
            path.display()
        )
    });
    let others: String = others.collect();
    let detail = format!("{} in the user database{others}", home.display());
    Finding { needed: false, ..found("home", others.is_empty(), detail) }
}

fn state(loaded: &Loaded) -> Finding {
    let read_only = |path: &Path| {
        let path = path.display();
        let detail = format!(
            "the state directory is read-only: {path}; make it writable, or a link to a directory that you may write"
        );
        found("state", false, detail)
    };
    let is_read_only = |path: &Path| {
        accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)
            .is_err_and(|errno| errno == Errno::ROFS || errno == Errno::ACCESS)
    };
    match (wiring::state_dir(loaded), &loaded.state) {
        (Ok(state), _) if is_read_only(state.path()) => read_only(state.path()),
        (Ok(state), _) => {
            let other = wiring::other_ledger(loaded).map(|other| format!("; {other}"));
            let detail = format!("{}{}", state.path().display(), other.unwrap_or_default());
            found("state", true, detail)
        }
        (Err(error), Some(path)) if is_caused_by(&error, io::ErrorKind::ReadOnlyFilesystem) => {
            read_only(path)
        }
        (Err(error), _) => found("state", false, format!("{error:#}")),
    }
}

fn ledger(loaded: &Loaded, wired: &anyhow::Result<Wired>) -> Finding {
    let wired = match wired {
        Ok(wired) => wired,
        Err(error) => return found("ledger", false, format!("{error:#}")),
    };
    let Some(ledger) = &wired.ledger else {
        return Finding { needed: false, ..found("ledger", false, "off by configuration".into()) };
    };
    let is_empty = || {
        let state = wiring::state_dir(loaded).ok()?;
        matches!(Audit::open(&state), Err(AuditError::Empty)).then_some(())
    };
    let trace = is_empty().and_then(|()| super::audit::traced(loaded));
    let mut problems = ledger.examine();
    let kept = ledger.kept_aside();
    if !kept.is_empty() {
        problems.push(format!(
            "a database that could not be used any more is kept in the state directory: {}; look why, then \
             move it away",
            kept.join(", ")
        ));
    }
    match trace {
        _ if !problems.is_empty() => {
            found("ledger", false, format!("{}; see `sinew audit verify`", problems.join("; ")))
        }
        Some(trace) => Finding { needed: false, ..found("ledger", false, trace) },
        None => found("ledger", true, "SQLite, chained, intents before changes".into()),
    }
}

fn checkpoints(loaded: &Loaded, wired: &anyhow::Result<Wired>) -> Finding {
    let note = |detail: &str| Finding { needed: false, ..found("undo", false, detail.into()) };
    let wired = match wired {
        Ok(wired) => wired,
        Err(error) => return note(&format!("{error:#}")),
    };
    let Some(checkpoints) = &wired.checkpoints else {
        return note("there is no state directory, so there are no checkpoints and no undo");
    };
    let usage = match checkpoints.usage() {
        Ok(usage) => usage,
        Err(error) => return found("undo", false, error.to_string()),
    };
    let Usage { n_checkpoints, n_bytes } = usage;
    let max = loaded.settings.checkpoints.max_bytes;
    let stored = format!("{n_checkpoints} checkpoints, {n_bytes} of {max} bytes");
    match loaded.settings.files.checkpoint_before_mutation {
        _ if loaded.settings.rules.profile == Profile::ReadOnly => {
            note(&format!("nothing changes here; {stored}"))
        }
        true => found("undo", true, format!("a checkpoint precedes each change: {stored}")),
        false => note(&format!("off by configuration or dialect, so changes stay; {stored}")),
    }
}

fn openat2() -> Finding {
    let works = sinew_guard::has_openat2();
    let detail = if works {
        "paths are resolved by the kernel"
    } else {
        "this kernel or container has no openat2; paths are resolved component by component, slower \
         and as strict"
    };
    Finding { needed: false, ..found("openat2", works, detail.into()) }
}

fn sandbox(wired: &anyhow::Result<Wired>) -> Finding {
    let wired = match wired {
        Ok(wired) => wired,
        Err(error) => {
            return Finding { needed: false, ..found("sandbox", false, format!("{error:#}")) };
        }
    };
    let words = |missing: &[Shortfall]| -> String {
        let each = missing
            .iter()
            .map(|one| format!("; no {} here ({}): {}", one.what, one.why, one.remedy()));
        each.collect()
    };
    match wired.runtime.probe_commands(&wired.session) {
        Some(Ok((level, missing))) => {
            let what = match level {
                SandboxLevel::Namespaces => "commands run in namespaces of their own",
                SandboxLevel::Bubblewrap => {
                    "commands run in namespaces that bubblewrap makes for a session"
                }
                SandboxLevel::Landlock => {
                    "commands run behind rules of the kernel, in the machine's own view"
                }
                SandboxLevel::None => "commands run without a sandbox, as sinew does",
            };
            let detail = format!("{level}: {what}{}", words(&missing));
            Finding { needed: false, ..found("sandbox", level != SandboxLevel::None, detail) }
        }
        Some(Err(error)) => {
            let hint = error.hint.as_deref().unwrap_or_default();
            found("sandbox", false, format!("{}; {hint}", error.message))
        }
        None => {
            Finding { needed: false, ..found("sandbox", false, "no directory for sessions".into()) }
        }
    }
}

fn approvals(loaded: &Loaded) -> Finding {
    let settings = &loaded.settings;
    let webhook = match &settings.webhook {
        Some(webhook) => format!(", and the webhook at {}", webhook.address.server()),
        None => String::new(),
    };
    let who = "a person at a terminal, at an MCP client that declares elicitation, behind `sinew pipe`, or at `sinew approve`";
    let mode = settings.approvals.as_str();
    let detail = match settings.approvals {
        Approvals::Auto | Approvals::Ask => format!("{mode}: asked is {who}{webhook}"),
        Approvals::Allow | Approvals::TrustClient | Approvals::Deny => {
            format!("{mode}: no approver is asked")
        }
    };
    let detail = match settings.rules.profile {
        Profile::Sandboxed => format!(
            "{detail}; the profile sandboxed runs changes of files and contained commands unasked, also where \
             they cannot be undone"
        ),
        Profile::ReadOnly | Profile::Workspace | Profile::Full => detail,
    };
    found("approvals", true, detail)
}

/// Counts the MCP servers and their tools; none is started.
fn mcp_servers(wired: &anyhow::Result<Wired>) -> Finding {
    let servers = wired.as_ref().ok().and_then(|wired| wired.servers.as_ref());
    let all = servers.map(Servers::status).unwrap_or_default();
    if all.is_empty() {
        return found("mcp", true, String::from("no external servers"));
    }
    let n = |is: &dyn Fn(&ServerStatus) -> bool| all.iter().filter(|status| is(status)).count();
    let hidden = n(&|status| status.internal_only);
    let deferred = n(&|status| status.deferred && !status.internal_only);
    let tools: usize = all.iter().filter_map(|status| Some(status.pinned.as_ref()?.len())).sum();
    let mut detail = format!(
        "{} external servers ({hidden} hidden, {deferred} deferred) with {tools} pinned tools",
        all.len()
    );
    let problems = all.iter().flat_map(|status| {
        status.problems.iter().map(move |problem| format!("{}: {problem}", status.name))
    });
    let problems: Vec<String> = problems.collect();
    if !problems.is_empty() {
        detail = format!("{detail}; {}", problems.join("; "));
    }
    Finding { needed: false, ..found("mcp", problems.is_empty(), detail) }
}

fn is_caused_by(error: &anyhow::Error, kind: io::ErrorKind) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == kind)
}

fn found(name: &'static str, ok: bool, detail: String) -> Finding {
    Finding { name, ok, needed: true, detail, short: None }
}

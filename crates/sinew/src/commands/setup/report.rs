//! The output of `sinew setup`: text for a reader, or one JSON object.

use std::io::{self, Write as _};
use std::path::Path;

use serde_json::{Value, json};

use super::clients::{ClientRow, NAME};
use super::error::SetupError;
use super::host::Host;
use super::item::Role;
use super::masked_diff::masked_diff;
use super::plan::{FileChange, Plan};
use super::registration::Status;
use super::rehearsal::{End, Step};
use super::{verb, words};
use crate::{json_form, screen};

/// A client in the list.
#[derive(Debug)]
pub(super) struct Row {
    client: &'static ClientRow,
    is_installed: bool,
    configured: String,
    would: Vec<String>,
}

impl Row {
    pub(super) fn of(
        host: &Host,
        client: &'static ClientRow,
        status: Result<Status, SetupError>,
        planned: Result<Plan, SetupError>,
    ) -> Self {
        let is_installed = host.has(client);
        let configured = match &status {
            Ok(status) => words(*status).to_owned(),
            Err(_) => String::from("unknown"),
        };
        let would = match planned {
            _ if !is_installed => Vec::new(),
            Ok(plan) if plan.is_empty() => vec![String::from("change nothing")],
            Ok(plan) => {
                let commands =
                    plan.commands.iter().map(|words| format!("run {}", verb::shown(words)));
                let files = plan
                    .files
                    .iter()
                    .map(|file| format!("{} {}", change_of(file), host.shown(&file.path)));
                commands.chain(files).collect()
            }
            Err(error) => vec![format!("fail: {error}")],
        };
        Self { client, is_installed, configured, would }
    }
}

/// Prints the list.
pub(super) fn list(rows: &[Row], as_json: bool) -> io::Result<()> {
    if as_json {
        let mut rows = rows.iter().map(|row| {
            json!({
                "client": row.client.name, "title": row.client.title, "installed": row.is_installed,
                "configured": row.configured, "would": row.would,
            })
        });
        return json_form::write_all(&mut rows);
    }
    let mut out = screen::output();
    writeln!(
        out,
        "{:<9} {:<10} {:<14} `sinew setup NAME` would",
        "client", "installed", "registered"
    )?;
    for row in rows {
        let installed = if row.is_installed { "yes" } else { "no" };
        let would = match (row.is_installed, row.would.as_slice()) {
            (false, _) => "",
            (true, would) => would.first().map_or("", String::as_str),
        };
        writeln!(out, "{:<9} {installed:<10} {:<14} {would}", row.client.name, row.configured)?;
        for more in row.would.iter().skip(1) {
            writeln!(out, "{:<35} {more}", "")?;
        }
    }
    Ok(())
}

/// The output of one run.
#[derive(Debug)]
pub(super) struct Report {
    client: &'static ClientRow,
    as_json: bool,
    action: &'static str,
    headline: String,
    commands: Vec<String>,
    files: Vec<FileReport>,
    notes: Vec<String>,
    /// Whether something changes.
    changes: bool,
    is_dry: bool,
    /// Whether an undo leaves a part of the setup.
    is_partial: bool,
}

#[derive(Debug)]
struct FileReport {
    path: String,
    verb: &'static str,
    diff: String,
}

impl Report {
    pub(super) fn new(client: &'static ClientRow, as_json: bool) -> Self {
        Self {
            client,
            as_json,
            action: "undo",
            headline: String::new(),
            commands: Vec::new(),
            files: Vec::new(),
            notes: Vec::new(),
            changes: false,
            is_dry: false,
            is_partial: false,
        }
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Says what a setup does.
    pub(super) fn setup(&mut self, host: &Host, plan: &Plan, beside: bool, is_dry: bool) {
        let ClientRow { title, name, keeps, questions, instead, .. } = self.client;
        self.action = "setup";
        self.take(host, plan);
        self.headline = match (self.changes, beside || instead.is_empty()) {
            // A file that stays, though the setup does not want it.
            (false, true) if !plan.kept_files.is_empty() => format!("{title}: nothing changes"),
            (false, _) => format!("{title}: already configured"),
            (true, true) => format!("{title}: {NAME} is registered beside its own tools"),
            (true, false) => format!("{title}: {NAME} is registered in place of its own tools"),
        };
        for (path, item) in &plan.kept {
            let (path, key) = (host.shown(path), item.shown());
            self.notes.push(match item.role {
                Role::Server => format!("{path}: `{key}` changed since the setup, so it stays"),
                Role::Setting | Role::Element => format!(
                    "{path} has another value of `{key}`, which stays, so {title} keeps what that would switch off"
                ),
            });
        }
        for path in &plan.kept_files {
            self.notes.push(format!("{} exists with another text, which stays", host.shown(path)));
        }
        if !self.changes || is_dry {
            return;
        }
        self.notes.push(match beside {
            true => format!("{title} keeps all of its own tools; what they change, sinew neither sees nor undoes"),
            false => (*keeps).to_owned(),
        });
        self.notes.push((*questions).to_owned());
        if self.client.is_of_project() {
            self.notes.push(format!(
                "for every project, open this link instead: {}",
                link(self.client, host)
            ));
        }
        self.notes.push(format!("restart {title}; `sinew setup {name} --undo` takes this back"));
    }

    /// Says what an undo does.
    pub(super) fn undo(&mut self, host: &Host, plan: &Plan) {
        let title = self.client.title;
        self.take(host, plan);
        let stays = [plan.kept.is_empty(), plan.kept_files.is_empty(), plan.failures.is_empty()];
        let stays = stays.contains(&false);
        self.headline = match (self.changes, stays) {
            (true, false) => format!("{title}: what `sinew setup` wrote is gone"),
            (true, true) => format!("{title}: `sinew setup` is undone, except for what follows"),
            (false, false) => format!("{title}: nothing of the setup is left"),
            (false, true) => format!("{title}: nothing changes"),
        };
        self.is_partial = !plan.failures.is_empty();
        self.notes.extend(plan.failures.iter().map(|error| format!("stays: {error}")));
        for (path, item) in &plan.kept {
            self.notes.push(format!(
                "{}: `{}` changed since the setup, so it stays",
                host.shown(path),
                item.shown()
            ));
        }
        for path in &plan.kept_files {
            self.notes.push(format!("{} changed since the setup, so it stays", host.shown(path)));
        }
    }

    fn take(&mut self, host: &Host, plan: &Plan) {
        self.changes = !plan.is_empty();
        self.commands = plan.commands.iter().map(|words| verb::shown(words)).collect();
        let file = |change: &FileChange| FileReport {
            path: host.shown(&change.path),
            verb: change_of(change),
            diff: diff(&change.path, change),
        };
        self.files = plan.files.iter().map(file).collect();
    }

    /// Marks the changes as done, or as only shown.
    pub(super) fn end(&mut self, is_dry: bool) {
        self.is_dry = is_dry;
        if is_dry && self.changes {
            self.headline = format!("{}: dry run, nothing was changed", self.client.title);
        }
    }

    /// Prints all that is known.
    pub(super) fn print(&self) -> io::Result<()> {
        match self.as_json {
            true => json_form::write(&self.to_json(&[])),
            false => self.print_text(),
        }
    }

    /// Prints the changes, before the rehearsal.
    pub(super) fn begin_rehearsal(&self) -> io::Result<()> {
        if self.as_json {
            return Ok(());
        }
        self.print_text()?;
        writeln!(screen::output(), "rehearsal in a scratch directory:")
    }

    /// Prints the object with the rehearsal in it, or what a failed rehearsal means.
    pub(super) fn print_rehearsal(&self, steps: &[Step]) -> io::Result<()> {
        if self.as_json {
            return json_form::write(&self.to_json(steps));
        }
        if steps.iter().any(|step| step.end == End::Failed) {
            screen::say(&format!(
                "{NAME} is registered, but the rehearsal failed; `sinew doctor` says what does not work here, and \
                 `sinew setup {} --undo` takes the setup back",
                self.client.name
            ));
        }
        Ok(())
    }

    fn print_text(&self) -> io::Result<()> {
        let mut out = screen::output();
        if !self.headline.is_empty() {
            writeln!(out, "{}", self.headline)?;
        }
        let run = if self.is_dry { "would run" } else { "ran" };
        for command in &self.commands {
            writeln!(out, "  {run} {command}")?;
        }
        for file in &self.files {
            match self.is_dry {
                true => write!(out, "{}", file.diff)?,
                false => writeln!(out, "  {}d {}", file.verb, file.path)?,
            }
        }
        for note in &self.notes {
            writeln!(out, "  {note}")?;
        }
        Ok(())
    }

    fn to_json(&self, steps: &[Step]) -> Value {
        let changes = self.files.iter().map(|file| {
            let change = match file.verb {
                "create" => "new",
                "remove" => "deleted",
                _ => "changed",
            };
            match self.is_dry {
                true => json!({ "path": file.path, "change": change, "diff": file.diff }),
                false => json!({ "path": file.path, "change": change }),
            }
        });
        let is_ok = !self.is_partial && steps.iter().all(|step| step.end != End::Failed);
        json!({
            "ok": is_ok, "client": self.client.name, "action": self.action, "dry_run": self.is_dry,
            "changed": self.changes && !self.is_dry, "commands": self.commands,
            "changes": changes.collect::<Vec<_>>(), "notes": self.notes,
            "rehearsal": steps.iter().map(Step::to_json).collect::<Vec<_>>(),
        })
    }
}

/// Prints one step of the rehearsal.
pub(super) fn tell(step: &Step, as_json: bool) {
    if as_json {
        return;
    }
    let text = match step.end {
        End::Done => step.text.clone(),
        End::Skipped => format!("SKIPPED {}", step.text),
        End::Failed => format!("FAILED {}: {}", step.name, step.text),
    };
    // A closed output ends nothing here.
    let _ = writeln!(screen::output(), "  {text}");
}

fn change_of(change: &FileChange) -> &'static str {
    match (&change.current.text, &change.new) {
        (None, _) => "create",
        (_, None) => "remove",
        _ => "change",
    }
}

fn diff(path: &Path, change: &FileChange) -> String {
    let old = change.current.text.as_deref();
    let name = |prefix: &str, text: Option<&str>| match text {
        Some(_) => format!("{prefix}{}", sinew_tool::shown_path(path)),
        None => String::from("/dev/null"),
    };
    let new = change.new.as_deref().unwrap_or_default();
    let body = masked_diff(change.format, old.unwrap_or_default(), new);
    let (from, to) = (name("", old), name("", change.new.as_deref()));
    format!("--- {from}\n+++ {to}\n{}\n", body.trim_end_matches('\n'))
}

/// Returns the link that registers the server for every project of VS Code.
fn link(client: &ClientRow, host: &Host) -> String {
    let mut value = json!({ "name": NAME });
    if let (Some(object), Value::Object(server)) =
        (value.as_object_mut(), client.server(&host.program, true).value)
    {
        object.extend(server);
    }
    let encoded = value.to_string().bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte))
            }
            other => text.push_str(&format!("%{other:02X}")),
        }
        text
    });
    format!("vscode:mcp/install?{encoded}")
}

//! `sinew setup`: registers sinew as an MCP server of a client, and takes that back.
//!
//! The clients are rows of one table. A file is edited as text, so that every other byte stays, and a record in the state
//! directory lists the values: `--undo` removes those that are unchanged.

mod base;
mod carry_out;
mod clients;
mod config_file;
mod edit;
mod error;
mod host;
mod item;
mod json_layout;
mod json_text;
mod masked_diff;
mod plan;
mod record;
mod registration;
mod rehearsal;
mod report;
mod taken_back;
mod toml_text;
mod verb;
mod wanted;

use std::process::ExitCode;

use self::base::{At, Base};
use self::clients::{CLIENTS, ClientRow};
use self::error::SetupError;
use self::host::Host;
use self::plan::Plan;
use self::record::RecordLock;
use self::registration::Status;
use self::rehearsal::End;
use self::report::Report;
use crate::cli::SetupArgs;
use crate::json_form;
use crate::screen::say;

/// Lists the clients, or sets one up.
pub(crate) fn run(args: &SetupArgs) -> anyhow::Result<ExitCode> {
    let done = match args.client {
        None => list(args.json),
        Some(client) => one(client.name(), args),
    };
    match done {
        Ok(code) => Ok(code),
        Err(error) => match error.downcast::<SetupError>() {
            Ok(error) if args.json => {
                json_form::write_error(error.kind(), &error.to_string())?;
                Ok(ExitCode::FAILURE)
            }
            Ok(error) => {
                say(&error.to_string());
                Ok(ExitCode::FAILURE)
            }
            Err(error) => Err(error),
        },
    }
}

fn list(as_json: bool) -> anyhow::Result<ExitCode> {
    let host = Host::of_process()?;
    let mut rows = Vec::new();
    for client in CLIENTS {
        let client = if host.has(client) { registration::client(&host, client.name) } else { None }
            .unwrap_or(client);
        let status = registration::status(&host, client);
        let planned = Plan::setup(&host, client, false, false);
        rows.push(report::Row::of(&host, client, status, planned));
    }
    report::list(&rows, as_json)?;
    Ok(ExitCode::SUCCESS)
}

fn one(name: &str, args: &SetupArgs) -> anyhow::Result<ExitCode> {
    let host = Host::of_process()?;
    let Some(client) = registration::client(&host, name) else {
        anyhow::bail!("no such client: {name}")
    };
    let mut report = Report::new(client, args.json);
    if args.undo {
        let lock = if args.dry_run { None } else { RecordLock::take(&host, true)? };
        let Some(plan) = Plan::undo(&host, client, args.dry_run)? else {
            report.note(format!("nothing to undo: no setup of {} is recorded here", client.title));
            report.print()?;
            return Ok(ExitCode::SUCCESS);
        };
        let is_partial = !plan.failures.is_empty();
        report.undo(&host, &plan);
        plan.no_program.iter().for_each(|error| report.note(error.to_string()));
        if !args.dry_run {
            plan.carry_out(&host)?;
        }
        drop(lock);
        report.end(args.dry_run);
        report.print()?;
        return Ok(ExitCode::from(u8::from(is_partial)));
    }
    let not_installed = match check_installed(&host, client) {
        Err(error) if args.dry_run => Some(error),
        installed => installed.map(|()| None)?,
    };
    let lock = if args.dry_run { None } else { RecordLock::take(&host, false)? };
    let plan = Plan::setup(&host, client, args.beside, args.dry_run)?;
    let changes = !plan.is_empty();
    report.setup(&host, &plan, args.beside, args.dry_run);
    if let Some(error) = not_installed.as_ref().or(plan.no_program.as_ref()) {
        report.note(error.to_string());
    }
    if let (true, Some(doubt)) = (changes, host.doubt()) {
        let program = &host.program;
        let doubt = format!(
            "{doubt}: {program}; install sinew elsewhere, then run `sinew setup {name}` again"
        );
        match args.json {
            true => report.note(doubt),
            false => say(&doubt),
        }
    }
    if changes && !args.dry_run {
        plan.carry_out(&host)?;
    }
    drop(lock);
    report.end(args.dry_run);
    if !changes || args.dry_run {
        report.print()?;
        return Ok(ExitCode::SUCCESS);
    }
    report.begin_rehearsal()?;
    let home = host.path(At(Base::Home, ""));
    let steps = rehearsal::run(&host, &home, &mut |step| report::tell(step, args.json));
    let is_failed = steps.iter().any(|step| step.end == End::Failed);
    report.print_rehearsal(&steps)?;
    Ok(ExitCode::from(u8::from(is_failed)))
}

fn check_installed(host: &Host, client: &ClientRow) -> Result<(), SetupError> {
    if host.has(client) {
        return Ok(());
    }
    Err(SetupError::NotInstalled {
        title: client.title,
        program: client.programs.first().copied().unwrap_or_default(),
        dir: client.dirs.first().map(|dir| host.shown(&host.path(*dir))).unwrap_or_default(),
    })
}

/// Returns whether sinew is registered in words.
fn words(status: Status) -> &'static str {
    match status {
        Status::Absent => "no",
        Status::Present => "yes",
        Status::Other => "another value",
    }
}

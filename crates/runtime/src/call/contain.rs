//! contain: resolves paths beneath a root on open file descriptors, and a command to its program.

use std::borrow::Cow;

use sinew_guard::{Contained, Rules};
use sinew_tool::{Caller, Effects, Kind, Request, ToolError, Verdict};

use super::decode::Decoded;
use super::open::Open;
use crate::hooks;

/// A call with open targets.
pub(super) struct Held {
    pub(super) decoded: Decoded,
    pub(super) effects: Effects,
    pub(super) contained: Contained,
}

impl Held {
    /// Returns the real paths that the call names; `None` where it finds paths itself.
    pub(super) fn paths(&self) -> Option<Vec<String>> {
        hooks::paths_of(self.contained.targets())
    }
}

pub(super) fn contain(decoded: Decoded, open: &mut Open) -> Result<Held, ToolError> {
    let effects = decoded.prepared.effects();
    open.entry.effects(effects);
    if let Some(command) = decoded.prepared.command() {
        open.entry.runs(&command.line);
    }
    let dialect = open.entry.dialect();
    let rules = &decoded.rules;
    let contained = contained(&decoded, rules, &open.request, dialect).inspect_err(|error| {
        if error.kind == Kind::PathDenied {
            open.entry.refused();
        }
    })?;
    open.entry.resolved(contained.targets().files.first().map(|target| target.path.clone()));
    Ok(Held { decoded, effects, contained })
}

/// Returns the denied call for a path whose parent is no directory: the error would reveal what exists there.
/// Other calls get the error.
fn denied_behind(
    decoded: &Decoded,
    rules: &Rules,
    request: &Request,
    error: ToolError,
) -> Result<Contained, ToolError> {
    if error.kind != Kind::NotRegularFile {
        return Err(error);
    }
    let (cwd, roots) = (request.cwd.as_deref(), request.roots.as_deref());
    let behind = decoded.guard.contain_behind(&decoded.claims, cwd, roots)?;
    let case = decoded.case(decoded.prepared.effects(), request.agent.as_deref());
    let ruling = sinew_guard::judge(&case, behind.targets(), rules);
    if ruling.verdict == Verdict::Deny { Ok(behind) } else { Err(error) }
}

fn with_hosts(contained: Contained, decoded: &Decoded) -> Result<Contained, ToolError> {
    let prepared = &decoded.prepared;
    let contained = contained.with_hosts(prepared.urls(), prepared.search(), prepared.hosts())?;
    contained.with_message(prepared.message())
}

pub(super) fn contained(
    decoded: &Decoded,
    rules: &Rules,
    request: &Request,
    dialect: Cow<'static, str>,
) -> Result<Contained, ToolError> {
    let roots = request.roots.as_deref();
    let caller = Caller {
        session: request.session.clone(),
        agent: request.agent.clone(),
        turn: request.turn.clone(),
        call_id: request.call_id.clone(),
        tool: request.name.clone(),
        dialect,
    };
    if let Some(restore) = decoded.prepared.restores() {
        let cwd = request.cwd.as_deref();
        return Ok(decoded
            .guard
            .contain_restore(&restore, &caller.session, cwd, roots)?
            .by(caller, decoded.store.clone()));
    }
    let Some(command) = decoded.prepared.command() else {
        let cwd = request.cwd.as_deref();
        let contained = decoded.guard.contain_call(&decoded.claims, cwd, roots);
        let contained = contained.or_else(|error| denied_behind(decoded, rules, request, error))?;
        let contained = contained.by(caller, decoded.store.clone());
        return with_hosts(contained, decoded);
    };
    let last = command.keeps_cwd.then(|| decoded.guard.cwd_of(request.address())).flatten();
    let cwd = last.as_deref().or(request.cwd.as_deref());
    let contained = decoded.guard.contain_command(&decoded.claims, cwd, roots)?;
    let contained = contained.by(caller, decoded.store.clone());
    let contained = with_hosts(contained, decoded)?;
    let agent = request.agent.as_deref();
    let by_command = decoded.case(decoded.prepared.effects(), agent);
    let looks = decoded.lookers.iter().map(|looker| looker.case(agent));
    let lookers: Vec<_> = std::iter::once(by_command).chain(looks).collect();
    contained.with_command(command, rules, &lookers)
}

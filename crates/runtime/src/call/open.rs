//! open: creates the ledger entry of a call before anything else happens.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sinew_guard::{ApprovalFingerprint, Judged};
use sinew_tool::{
    Answer, Arguments, Change, Clock, Closing, CommandLine, Effects, Hook, Kind, Ledger, Opening,
    Recorder, Request, Ruling, Scope, Targets, Ticket, Tool, ToolError, Used, Verdict,
};

use crate::broker::Digest;
use crate::runtime::Runtime;
use crate::span::Span;

/// A call with its ledger entry.
pub(super) struct Open {
    pub(super) request: Request,
    pub(super) entry: Entry,
    /// The checkpoint with the state before the call's changes.
    pub(super) checkpoint: Option<String>,
    /// The ruling of the first hook that asks whether the call may run.
    pub(super) asked: Option<Ruling>,
    /// What it changed that the user's own commands execute later, in words.
    pub(super) runs_later: Option<String>,
}

/// Hashes what a question shows: the same words may match other files and another diff.
pub(super) fn digest_of_question(
    said: &Digest,
    call: &Judged,
    fingerprint: &ApprovalFingerprint,
    diff: Option<&str>,
    call_id: Option<&str>,
) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(said);
    for (what, state) in fingerprint.parts() {
        hash_text(&mut hasher, b's', what);
        hash_text(&mut hasher, b'=', state);
    }
    for file in &call.contained().targets().files {
        hash_text(&mut hasher, b'f', &format!("{:?}", file.state));
    }
    for text in diff.into_iter().chain(call_id) {
        hash_text(&mut hasher, b't', text);
    }
    hasher.finalize().into()
}

/// Returns the call whose client is asked.
pub(super) fn asked_for(runtime: &Runtime, request: &Request) -> String {
    runtime.sub_agents.asked_for(request.agent.as_deref(), &request.call_id)
}

impl Open {
    /// Hashes what a call says; equal digests mean equal calls of a session.
    pub(super) fn digest(&self, call: &Judged) -> Digest {
        let mut hasher = blake3::Hasher::new();
        let Request { session, agent, name, .. } = &self.request;
        for text in [session.as_str(), agent.as_deref().unwrap_or_default(), name] {
            hash_text(&mut hasher, b'r', text);
        }
        if let Some(closing) = &self.entry.closing {
            hash_text(&mut hasher, b'd', &closing.opening.dialect);
            hasher.update(&closing.opening.arguments);
        }
        let targets = call.contained().targets();
        let cwd = targets.command.as_ref().map(|command| command.cwd.as_path());
        let paths = targets.files.iter().map(|file| file.path.as_path()).chain(cwd);
        paths.for_each(|path| hash_text(&mut hasher, b'p', &path.to_string_lossy()));
        // A hook may have asked one of two equal calls for a reason of its own.
        hash_text(&mut hasher, b'w', &call.ruling().why);
        hasher.finalize().into()
    }
}

/// The ledger entry of a call. Dropping it unfinished records the call as cancelled.
pub(super) struct Entry {
    ledger: Arc<dyn Ledger>,
    recorder: Option<Arc<dyn Recorder>>,
    span: Span,
    clock: Arc<dyn Clock>,
    since: Instant,
    intent: Option<Ticket>,
    closing: Option<Closing>,
}

pub(super) fn open(runtime: &Runtime, request: Request) -> Open {
    let dialect: Cow<'static, str> = super::find::catalog(&runtime.catalogs(), &request)
        .map_or_else(|| request.dialect.clone().unwrap_or_default().into(), |c| c.name.into());
    let Request { call_id, session, name, .. } = &request;
    let opening = Opening {
        agent: request.agent.clone(),
        parent: request.parent.clone(),
        arguments: hash(&request.arguments),
        ..Opening::new(call_id, session, dialect, name)
    };
    let closing = Closing::new(opening, runtime.clock.wall_ms());
    runtime.recorder.iter().for_each(|recorder| recorder.begins());
    let entry = Entry {
        ledger: Arc::clone(&runtime.ledger),
        recorder: runtime.recorder.clone(),
        span: Span::open(&runtime.redactor, &closing),
        clock: Arc::clone(&runtime.clock),
        since: runtime.clock.now(),
        intent: None,
        closing: Some(closing),
    };
    Open { request, entry, checkpoint: None, asked: None, runs_later: None }
}

fn hash(arguments: &Arguments) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    arguments.iter().for_each(|(name, value)| hash_named(&mut hasher, name, value));
    hasher.finalize().into()
}

/// Hashes each text with its length as prefix, which avoids escaping and copying large texts.
fn hash_value(hasher: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::String(text) => hash_text(hasher, b's', text),
        Value::Array(values) => {
            hasher.update(b"[");
            values.iter().for_each(|value| hash_value(hasher, value));
            hasher.update(b"]");
        }
        Value::Object(members) => {
            hasher.update(b"{");
            members.iter().for_each(|(name, value)| hash_named(hasher, name, value));
            hasher.update(b"}");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            hash_text(hasher, b'v', &value.to_string());
        }
    }
}

fn hash_named(hasher: &mut blake3::Hasher, name: &str, value: &Value) {
    hash_text(hasher, b'k', name);
    hash_value(hasher, value);
}

fn hash_text(hasher: &mut blake3::Hasher, tag: u8, text: &str) {
    let length = (text.len() as u64).to_le_bytes();
    hasher.update(&[tag]).update(&length).update(text.as_bytes());
}

impl Entry {
    /// Rejects a call when the ledger cannot record it.
    pub(super) fn admit(&self) -> Result<(), ToolError> {
        match self.ledger.full() {
            false => Ok(()),
            true => Err(ToolError::new(
                Kind::Unavailable,
                "the audit log has not been writable for so long that this call cannot be recorded, \
                 so it does not run",
            )
            .hint("run `sinew doctor`; `ledger.mode = \"off\"` runs without records")),
        }
    }

    fn note(&mut self, note: impl FnOnce(&mut Closing)) {
        if let Some(closing) = &mut self.closing {
            note(closing);
        }
    }

    pub(super) fn span(&self) -> tracing::Span {
        self.span.of_work()
    }

    /// Notes the call to which this one was forwarded.
    pub(super) fn forwards(&mut self, request: &Request) {
        self.note(|closing| {
            closing.opening.tool.clone_from(&request.name);
            closing.opening.arguments = hash(&request.arguments);
        });
    }

    /// Notes that the tool exists, and where it comes from.
    pub(super) fn found(&mut self, tool: &dyn Tool) {
        self.note(|closing| {
            closing.found = true;
            closing.tool_origin = tool.origin();
        });
    }

    /// Notes the arguments after the hooks: these are judged, asked about and run.
    pub(super) fn changed_arguments(&mut self, arguments: &Arguments) {
        self.note(|closing| closing.opening.arguments = hash(arguments));
    }

    pub(super) fn dialect(&self) -> Cow<'static, str> {
        self.closing.as_ref().map(|closing| closing.opening.dialect.clone()).unwrap_or_default()
    }

    pub(super) fn effects(&mut self, effects: Effects) {
        self.note(|closing| closing.effects = Some(effects));
    }

    pub(super) fn resolved(&mut self, path: Option<PathBuf>) {
        self.note(|closing| closing.path = path);
    }

    /// Notes a path as the call wrote it.
    pub(super) fn named(&mut self, path: &str) {
        self.note(|closing| closing.path = Some(PathBuf::from(path)));
    }

    pub(super) fn refused(&mut self) {
        self.note(|closing| {
            closing.verdict = Some(Verdict::Deny.as_str());
            closing.rule = Some("containment");
        });
    }

    pub(super) fn blocked(&mut self, hook: &dyn Hook) {
        let name = hook.name();
        let origin = match hook.origin() {
            Some(origin) => format!("{name} ({origin})"),
            None => name.to_owned(),
        };
        self.note(|closing| {
            closing.verdict = Some(Verdict::Deny.as_str());
            closing.rule = Some("hook");
            closing.origin = Some(origin.into());
        });
    }

    pub(super) fn ruled(&mut self, ruling: &Ruling) {
        self.note(|closing| {
            closing.verdict = Some(ruling.verdict.as_str());
            closing.rule = Some(ruling.rule);
            closing.origin.clone_from(&ruling.origin);
        });
    }

    /// Notes the approvers that are asked, or the fixed answer mode.
    pub(super) fn asked(&mut self, approver: impl Into<Cow<'static, str>>) {
        self.note(|closing| closing.approver = Some(approver.into()));
    }

    pub(super) fn approver(&self) -> Option<&str> {
        self.closing.as_ref()?.approver.as_deref()
    }

    /// Notes how long the call waited for an answer that did not come.
    pub(super) fn waited(&mut self, waited: Duration) {
        self.note(|closing| closing.waited_ms = Some(waited.as_secs_f64() * 1e3));
    }

    pub(super) fn answered(&mut self, answer: &Answer, waited: Duration) {
        self.note(|closing| {
            closing.waited_ms = Some(waited.as_secs_f64() * 1e3);
            closing.answer = Some(match answer {
                Answer::Yes(Scope::Call) => "yes",
                Answer::Yes(scope) => scope.as_str(),
                Answer::No(_) => "no",
                Answer::TimedOut => "timeout",
                Answer::Gone => "gone",
            });
        });
    }

    pub(super) fn runs(&mut self, line: &CommandLine) {
        let text = match line {
            CommandLine::Shell(_, text) => text.clone(),
            CommandLine::Argv(argv) => argv.join(" "),
        };
        self.note(|closing| closing.command = Some(text));
    }

    pub(super) fn used(&mut self, used: Used) {
        self.note(|closing| {
            (closing.sandbox_level, closing.background) = (used.sandbox_level, used.background);
            closing.consequences = used.consequences;
        });
    }

    /// Returns what the call changed and the user's own commands execute later, by path as written.
    pub(super) fn runs_later(&self, targets: &Targets) -> Vec<String> {
        let changes = self.closing.as_ref().map_or(&[][..], |closing| &closing.changes);
        let mut names = Vec::new();
        for target in &targets.files {
            let Some(written) = target.claim.path.as_deref() else { continue };
            let mut of_target = changes.iter().filter(|change| change.path == target.path);
            let Some(change) = of_target.next() else { continue };
            let is_there = change.after.is_some() || of_target.any(|other| other.after.is_some());
            if target.runs_later && is_there {
                names.push(written.to_owned());
            }
            names.extend(target.later_beneath.iter().map(
                |rest| match rest.as_os_str().is_empty() {
                    true => written.to_owned(),
                    false => Path::new(written).join(rest).display().to_string(),
                },
            ));
        }
        names
    }

    pub(super) fn consequences(&mut self, text: String) {
        self.note(|closing| closing.consequences = Some(text));
    }

    pub(super) fn changed(&mut self, changes: Vec<Change>) {
        self.note(|closing| closing.changes = changes);
    }

    pub(super) fn failed(&mut self, kind: Kind) {
        self.note(|closing| closing.error = Some(kind));
    }

    pub(super) async fn intend(
        &mut self,
        paths: &[PathBuf],
        temporaries: &[PathBuf],
    ) -> Result<(), ToolError> {
        if let Some(closing) = &self.closing {
            let intent = self.ledger.intend(closing, paths, temporaries).await?;
            self.intent = Some(intent);
        }
        Ok(())
    }

    pub(super) fn elapsed_ms(&self) -> f64 {
        self.clock.now().saturating_duration_since(self.since).as_secs_f64() * 1e3
    }

    pub(super) fn close(mut self, error: Option<Kind>, reply_bytes: usize) {
        self.note(|closing| {
            closing.error = error;
            closing.reply_bytes = reply_bytes as u64;
        });
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let duration_ms = self.elapsed_ms();
        let Some(mut closing) = self.closing.take() else { return };
        closing.duration_ms = duration_ms;
        if let Some(recorder) = &self.recorder {
            recorder.call(&closing);
        }
        self.span.close(&closing);
        self.ledger.close(self.intent, closing);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_arguments_have_another_hash() {
        let all = [
            json!({}),
            json!({ "a": "b" }),
            json!({ "ab": "" }),
            json!({ "a": "b", "c": "d" }),
            json!({ "c": "d", "a": "b" }),
            json!({ "a": "bc", "d": "" }),
            json!({ "a": { "b": "c" } }),
            json!({ "a": {}, "b": "c" }),
            json!({ "a": ["b", "c"] }),
            json!({ "a": ["bc"] }),
            json!({ "a": [["b"], "c"] }),
            json!({ "a": ["b", ["c"]] }),
            json!({ "a": [] }),
            json!({ "a": null }),
            json!({ "a": "null" }),
            json!({ "a": 1 }),
            json!({ "a": 1.0 }),
            json!({ "a": "1" }),
            json!({ "a": true }),
        ];
        let hash = |value: &Value| value.as_object().map(hash);
        for (at, one) in all.iter().enumerate() {
            assert_eq!(hash(one), hash(&one.clone()));
            for other in all.iter().skip(at + 1) {
                assert_ne!(hash(one), hash(other), "{one} and {other}");
            }
        }
    }
}

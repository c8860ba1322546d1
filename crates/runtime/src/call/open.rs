//! open: a call gets its entry in the ledger before anything happens.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use sinew_tool::{
    Arguments, Change, Clock, Closing, Effects, Kind, Ledger, Opening, Recorder, Request, Ruling,
    Ticket, ToolError, Verdict,
};

use crate::runtime::Runtime;

/// A call with its entry.
pub(super) struct Open {
    pub(super) request: Request,
    pub(super) entry: Entry,
    /// The checkpoint that keeps what was there before the call's changes.
    pub(super) checkpoint: Option<String>,
}

/// The entry of a call in the ledger. Dropping it closes it: a call that nobody finished is
/// recorded as cancelled.
pub(super) struct Entry {
    ledger: Arc<dyn Ledger>,
    recorder: Option<Arc<dyn Recorder>>,
    clock: Arc<dyn Clock>,
    since: Instant,
    intent: Option<Ticket>,
    closing: Option<Closing>,
}

/// Opens the entry of a call.
pub(super) fn open(runtime: &Runtime, request: Request) -> Open {
    let dialect = super::find::catalog(&runtime.catalogs(), &request)
        .map_or_else(|| request.dialect.clone().unwrap_or_default().into(), |c| c.name.into());
    let opening = Opening {
        call_id: request.call_id.clone(),
        session: request.session.clone(),
        agent: request.agent.clone(),
        parent: request.parent.clone(),
        dialect,
        tool: request.name.clone(),
        arguments: hash(&request.arguments),
    };
    let closing = Closing {
        opening,
        opened_at_ms: runtime.clock.wall_ms(),
        duration_ms: 0.0,
        effects: None,
        path: None,
        verdict: None,
        rule: None,
        approver: None,
        error: Some(Kind::Cancelled),
        changes: Vec::new(),
        reply_bytes: 0,
    };
    let entry = Entry {
        ledger: Arc::clone(&runtime.ledger),
        recorder: runtime.recorder.clone(),
        clock: Arc::clone(&runtime.clock),
        since: runtime.clock.now(),
        intent: None,
        closing: Some(closing),
    };
    Open { request, entry, checkpoint: None }
}

/// Returns what tells these arguments from others.
fn hash(arguments: &Arguments) -> [u8; 32] {
    // A value of JSON can always be written.
    let text = serde_json::to_vec(arguments).unwrap_or_default();
    blake3::hash(&text).into()
}

impl Entry {
    /// Refuses a call of which no record could be kept.
    pub(super) fn admit(&self) -> Result<(), ToolError> {
        match self.ledger.full() {
            false => Ok(()),
            true => Err(ToolError::new(
                Kind::Unavailable,
                "the ledger has not been writable for so long that this call cannot be recorded, \
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

    /// Returns the dialect whose name was used.
    pub(super) fn dialect(&self) -> Cow<'static, str> {
        self.closing.as_ref().map(|closing| closing.opening.dialect.clone()).unwrap_or_default()
    }

    pub(super) fn effects(&mut self, effects: Effects) {
        self.note(|closing| closing.effects = Some(effects));
    }

    pub(super) fn resolved(&mut self, path: Option<PathBuf>) {
        self.note(|closing| closing.path = path);
    }

    /// Notes the path that a call names, as it was written.
    pub(super) fn named(&mut self, path: &str) {
        self.note(|closing| closing.path = Some(PathBuf::from(path)));
    }

    /// Notes that containment refused the call.
    pub(super) fn refused(&mut self) {
        self.note(|closing| {
            closing.verdict = Some(Verdict::Deny.as_str());
            closing.rule = Some("containment");
        });
    }

    pub(super) fn ruled(&mut self, ruling: &Ruling) {
        self.note(|closing| {
            closing.verdict = Some(ruling.verdict.as_str());
            closing.rule = Some(ruling.rule);
        });
    }

    pub(super) fn answered(&mut self, approver: &'static str) {
        self.note(|closing| closing.approver = Some(approver));
    }

    pub(super) fn changed(&mut self, changes: Vec<Change>) {
        self.note(|closing| closing.changes = changes);
    }

    pub(super) fn failed(&mut self, kind: Kind) {
        self.note(|closing| closing.error = Some(kind));
    }

    /// Commits the intent of a change.
    pub(super) async fn intend(
        &mut self,
        effects: Effects,
        paths: &[PathBuf],
        temporaries: &[PathBuf],
    ) -> Result<(), ToolError> {
        if let Some(closing) = &self.closing {
            let intent = self.ledger.intend(&closing.opening, effects, paths, temporaries).await?;
            self.intent = Some(intent);
        }
        Ok(())
    }

    pub(super) fn elapsed_ms(&self) -> f64 {
        self.clock.now().saturating_duration_since(self.since).as_secs_f64() * 1e3
    }

    /// Closes the entry with how the call ended.
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
        self.ledger.close(self.intent, closing);
    }
}

//! The `tracing` span of a call, with the field names of the ledger.
//!
//! Fields known at opening are visible to all events inside; the rest is recorded at closing.
//! Without a subscriber a call costs one level check. Arguments appear as a hash, replies never.

use std::borrow::Cow;
use std::sync::Arc;

use sinew_guard::Redactor;
use sinew_tool::{Closing, Effects, Opening};
use tracing::field::Empty;

/// The longest field, and the longest prefix searched for secrets, in bytes: caller texts can be large.
const MAX_TEXT: usize = 4_096;
const MAX_LOOKED: usize = 64 * 1_024;

/// The span of one call.
pub(crate) struct Span {
    span: tracing::Span,
    /// `None` without a subscriber.
    redactor: Option<Arc<Redactor>>,
}

impl Span {
    pub(crate) fn open(redactor: &Arc<Redactor>, closing: &Closing) -> Self {
        let span = tracing::info_span!(
            target: "sinew::call",
            "call",
            at_ms = Empty,
            call_id = Empty,
            session = Empty,
            agent = Empty,
            parent = Empty,
            dialect = Empty,
            tool = Empty,
            arguments = Empty,
            effects = Empty,
            file_path = Empty,
            verdict = Empty,
            rule = Empty,
            origin = Empty,
            approver = Empty,
            answer = Empty,
            waited_ms = Empty,
            command = Empty,
            sandbox_level = Empty,
            background = Empty,
            outcome = Empty,
            duration_ms = Empty,
            n_changes = Empty,
            bytes = Empty,
            before_hash = Empty,
            after_hash = Empty,
            reply_bytes = Empty,
        );
        let redactor = (!span.is_disabled()).then(|| Arc::clone(redactor));
        let opened = Self { span, redactor };
        if opened.redactor.is_some() {
            opened.span.record("at_ms", closing.opened_at_ms);
            opened.opening(&closing.opening);
        }
        opened
    }

    /// Returns the span for the work of the call.
    pub(crate) fn of_work(&self) -> tracing::Span {
        self.span.clone()
    }

    pub(crate) fn close(&self, closing: &Closing) {
        let span = &self.span;
        if self.redactor.is_none() {
            return;
        }
        let change = closing.changes.first();
        let path = change.map(|change| &change.path).or(closing.path.as_ref());
        // Hooks may have changed the arguments since the call opened.
        let arguments = blake3::Hash::from_bytes(closing.opening.arguments);
        span.record("arguments", arguments.to_hex().as_str());
        self.text("effects", closing.effects.map(Effects::names).map(|names| names.join("+")));
        self.text("file_path", path.map(|path| path.to_string_lossy()));
        self.text("verdict", closing.verdict);
        self.text("rule", closing.rule);
        self.text("origin", closing.origin.as_deref());
        self.text("approver", closing.approver.as_deref());
        self.text("answer", closing.answer);
        span.record("waited_ms", closing.waited_ms);
        self.text("command", closing.command.as_deref());
        self.text("sandbox_level", closing.sandbox_level);
        self.text("background", closing.background.as_deref());
        self.text("outcome", Some(closing.error.map_or("ok", |kind| kind.as_str())));
        span.record("duration_ms", closing.duration_ms);
        if let Some(change) = change {
            span.record("before_hash", change.before.map(|hash| hash.to_string()));
            span.record("after_hash", change.after.map(|hash| hash.to_string()));
            span.record("n_changes", closing.changes.len());
            span.record("bytes", closing.changes.iter().map(|change| change.bytes).sum::<u64>());
        }
        span.record("reply_bytes", closing.reply_bytes);
    }

    fn opening(&self, opening: &Opening) {
        self.text("call_id", Some(&*opening.call_id));
        self.text("session", Some(&*opening.session));
        self.text("agent", opening.agent.as_deref());
        self.text("parent", opening.parent.as_deref());
        self.text("dialect", Some(&*opening.dialect));
        self.text("tool", Some(&*opening.tool));
    }

    /// Records a redacted text. Truncation follows redaction: half a secret would not match.
    fn text<'a>(&self, field: &'static str, text: Option<impl Into<Cow<'a, str>>>) {
        let (Some(text), Some(redactor)) = (text, &self.redactor) else { return };
        let text: Cow<'_, str> = text.into();
        let looked = text.get(..text.floor_char_boundary(MAX_LOOKED)).unwrap_or_default();
        let clean = redactor.redact(looked);
        let cut = clean.floor_char_boundary(MAX_TEXT);
        self.span.record(field, clean.get(..cut).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_that_nobody_wants_holds_nothing() {
        let redactor = Arc::new(Redactor::default());
        let closing = Closing::new(Opening::new("c", "s", "test", "put"), 1);
        let span = Span::open(&redactor, &closing);
        assert!(span.of_work().is_none());
        assert_eq!(Arc::strong_count(&redactor), 1);
        span.close(&closing);
    }
}

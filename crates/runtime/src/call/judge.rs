//! judge: computes the ruling from facts, targets, rules and session grants only.

use sinew_guard::{Contained, Rules};
use sinew_tool::{Effects, Request, Verdict};

use super::contain::Held;
use super::decode::Decoded;
use super::open::Open;
use crate::broker::Digest;
use crate::runtime::Runtime;

pub(super) struct Judged {
    pub(super) decoded: Decoded,
    pub(super) call: sinew_guard::Judged,
    /// Identifies the call where a rule asked.
    pub(super) digest: Option<Digest>,
}

pub(super) fn judge(runtime: &Runtime, held: Held, open: &mut Open) -> Judged {
    let Held { decoded, effects, contained } = held;
    // Each step of a restore is judged as the operation that would do it.
    let restores = decoded.prepared.restores().is_some();
    let rules = if restores { &decoded.rules } else { &decoded.own_rules };
    let by = (rules.as_ref(), decoded.is_denied);
    let mut call = ruled(&decoded, effects, contained, by, &open.request);
    if let Some(asked) = open.asked.take() {
        call = call.stricter(asked);
    }
    let asks = call.ruling().verdict == Verdict::Ask;
    let digest = asks.then(|| open.digest(&call));
    call = runtime.grants.applied(&open.request.session, call, digest.as_ref());
    call = runtime.undone_unasked(call);
    open.entry.ruled(call.ruling());
    Judged { decoded, call, digest }
}

/// Returns the ruling of a call; `by` holds the rules and whether they deny every call of its tool.
pub(super) fn ruled(
    decoded: &Decoded,
    effects: Effects,
    contained: Contained,
    (rules, is_denied): (&Rules, bool),
    request: &Request,
) -> sinew_guard::Judged {
    // A tool that is not served, since rules deny all its calls, is judged by all its effects.
    let effects = if is_denied { effects | decoded.facts.effects } else { effects };
    contained.judge(&decoded.case(effects, request.agent.as_deref()), rules)
}

//! judge: facts, targets and rules give a ruling; nothing else is looked at.

use sinew_guard::Case;

use super::contain::Held;
use super::decode::Decoded;
use super::open::Open;

/// A call with its ruling.
pub(super) struct Judged {
    pub(super) decoded: Decoded,
    pub(super) call: sinew_guard::Judged,
}

/// Judges a call.
pub(super) fn judge(held: Held, open: &mut Open) -> Judged {
    let Held { decoded, effects, contained } = held;
    let case = Case {
        tool: decoded.tool.name(),
        operation: decoded.tool.operation(),
        facts: &decoded.facts,
        effects,
    };
    let call = contained.judge(&case, &decoded.rules);
    open.entry.ruled(call.ruling());
    Judged { decoded, call }
}

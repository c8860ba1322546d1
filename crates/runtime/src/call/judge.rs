//! judge: facts, targets and rules give a ruling, and what the session was granted; nothing else is looked at.

use sinew_guard::Case;
use sinew_tool::Verdict;

use super::contain::Held;
use super::decode::Decoded;
use super::open::Open;
use crate::runtime::Runtime;

/// A call with its ruling.
pub(super) struct Judged {
    pub(super) decoded: Decoded,
    pub(super) call: sinew_guard::Judged,
}

/// Judges a call.
pub(super) fn judge(runtime: &Runtime, held: Held, open: &mut Open) -> Judged {
    let Held { decoded, effects, contained } = held;
    let case = Case {
        tool: decoded.tool.name(),
        operation: decoded.tool.operation(),
        facts: &decoded.facts,
        effects,
    };
    let mut call = contained.judge(&case, &decoded.rules);
    if call.ruling().verdict == Verdict::Ask {
        call = runtime.grants.applied(&open.request.session, call);
    }
    open.entry.ruled(call.ruling());
    Judged { decoded, call }
}

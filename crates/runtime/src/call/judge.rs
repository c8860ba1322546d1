//! judge: facts, targets and rules give a ruling; nothing else is looked at.

use sinew_guard::Case;
use sinew_tool::Ruling;

use super::contain::Held;
use super::open::Open;

/// A call with its ruling.
pub(super) struct Judged {
    pub(super) held: Held,
    pub(super) ruling: Ruling,
}

/// Judges a call.
pub(super) fn judge(held: Held, open: &mut Open) -> Judged {
    let decoded = &held.decoded;
    let case = Case {
        tool: decoded.tool.name(),
        operation: decoded.tool.operation(),
        facts: &decoded.facts,
        effects: held.effects,
        targets: held.contained.targets(),
    };
    let ruling = sinew_guard::judge(&case, &decoded.rules);
    open.entry.ruled(&ruling);
    Judged { held, ruling }
}

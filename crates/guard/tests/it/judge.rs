//! Rulings as a table.

use std::sync::Arc;

use sinew_guard::{Case, Layer, Profile, Rule, RuleOrigin, Rules, judge};
use sinew_tool::{
    Access, Answer, Claim, Effects, Facts, FileState, FileTarget, Links, Position, Scope, Slot,
    Targets, Verdict,
};

use crate::tree::{EDIT, RESOLVERS, Tree, WRITE, contain, judged};

fn targets(protected: Option<&'static str>) -> Targets {
    let access = Access::Edit { links: Links::Follow };
    let claim = Claim::new("path", Some("x".into()), access);
    Targets {
        files: vec![FileTarget {
            slot: Slot(0),
            claim,
            path: "/ws/x".into(),
            root: "/ws".into(),
            position: Position::Inside,
            state: FileState::Missing,
            protected,
            runs_later: false,
            later_beneath: Vec::new(),
        }],
        ..Targets::default()
    }
}

fn check(rules: &Rules, effects: Effects, protected: bool, expected: (Verdict, &str)) {
    let facts = if effects == Facts::UNKNOWN.effects { Facts::UNKNOWN } else { Facts::CHANGES };
    let targets = targets(protected.then_some(".git/hooks/"));
    let case = Case { tool: "write_file", operation: "Write", facts: &facts, effects, agent: None };
    let ruling = judge(&case, &targets, rules);
    assert_eq!((ruling.verdict, ruling.rule), expected, "{rules:?} {effects:?} {protected}");
}

#[test]
fn deny_beats_ask_beats_allow() {
    use Verdict::{Allow, Ask, Deny};
    let profile = |profile| Rules { profile, ..Rules::default() };
    let origin = || RuleOrigin { layer: Layer::Program, place: String::from("a test") };
    let with = |rule| Rules { rules: vec![Arc::new(rule)], ..profile(Profile::Full) };
    let deny = |name: &str| with(Rule::denying(vec![name.into()], origin()));
    let only = |name: &str| with(Rule::only(vec![name.into()], origin()));
    let approval = Rules { require_approval: true, ..profile(Profile::Full) };
    let each_time = || Rules { require_approval: true, ..profile(Profile::Workspace) };
    let (observe, change) = (Effects::OBSERVE, Effects::CHANGE);
    let unknown = Facts::UNKNOWN.effects;
    for (rules, effects, protected, expected) in [
        (profile(Profile::Workspace), observe, false, (Allow, "observe")),
        (profile(Profile::Workspace), change, false, (Ask, "change")),
        (profile(Profile::Workspace), Effects::EXECUTE | change, false, (Ask, "execute")),
        (profile(Profile::Workspace), Effects::NETWORK, false, (Ask, "network")),
        (profile(Profile::Workspace), Effects::DELEGATE, false, (Ask, "delegate")),
        (profile(Profile::Workspace), unknown, false, (Ask, "unknown")),
        (profile(Profile::Workspace), change, true, (Ask, "protected")),
        (profile(Profile::Full), change, false, (Allow, "profile.full")),
        (profile(Profile::Full), change, true, (Ask, "protected")),
        (profile(Profile::ReadOnly), observe, false, (Allow, "observe")),
        (profile(Profile::ReadOnly), change, false, (Deny, "profile.read-only")),
        (profile(Profile::ReadOnly), change, true, (Deny, "profile.read-only")),
        (approval.clone(), change, false, (Ask, "require_approval")),
        (each_time(), change, false, (Ask, "require_approval")),
        (each_time(), change, true, (Ask, "protected")),
        (each_time(), Effects::NETWORK, false, (Ask, "network")),
        (approval, observe, false, (Allow, "observe")),
        (deny("Write"), change, false, (Deny, "tools.deny")),
        (deny("write_file"), change, true, (Deny, "tools.deny")),
        (deny("wr*_f*le"), change, false, (Deny, "tools.deny")),
        (deny("*"), observe, false, (Deny, "tools.deny")),
        (deny("Edit"), change, false, (Allow, "profile.full")),
        (deny("Wri"), change, false, (Allow, "profile.full")),
        (deny("*x"), change, false, (Allow, "profile.full")),
        (only("Read"), observe, false, (Deny, "tools.allow")),
        (only("W*"), change, false, (Allow, "profile.full")),
    ] {
        // A protected name asks for every change, whatever else it does.
        check(&rules, effects, protected, expected);
    }
}

#[test]
fn only_the_right_ruling_and_answer_clear() {
    use Verdict::{Allow, Ask, Deny};
    let tree = Tree::new().with(&[("a.txt", "a")]);
    let guard = tree.guard(RESOLVERS[0]);
    for (profile, verdict) in
        [(Profile::Full, Allow), (Profile::Workspace, Ask), (Profile::ReadOnly, Deny)]
    {
        let judged = || {
            let judged = judged(contain(&guard, "a.txt", EDIT).unwrap(), profile);
            assert_eq!(judged.ruling().verdict, verdict);
            judged
        };
        assert_eq!(judged().by_ruling().is_some(), verdict == Allow, "{profile:?}");
        assert_eq!(judged().by_standing_answer().is_some(), verdict == Ask, "{profile:?}");
        let by = |answer: &Answer| {
            let judged = judged();
            let fingerprint = judged.fingerprint().unwrap();
            judged.by_answer(answer, &fingerprint).unwrap().is_some()
        };
        assert_eq!(by(&Answer::Yes(Scope::Call)), verdict == Ask, "{profile:?}");
        for answer in [Answer::No(None), Answer::TimedOut] {
            assert!(!by(&answer), "{profile:?} {answer:?}");
        }
        // A call that is denied may not even look.
        assert_eq!(judged().looking().is_some(), verdict != Deny, "{profile:?}");
    }
}

/// A call that says of itself that it only looks, and claims a path to change, would otherwise be
/// allowed to change it.
#[test]
fn a_claim_to_change_counts_as_a_change() {
    let tree = Tree::new().with(&[("a.txt", "a")]);
    let guard = tree.guard(RESOLVERS[0]);
    let facts = Facts::OBSERVES;
    let case =
        Case { tool: "x", operation: "X", facts: &facts, effects: facts.effects, agent: None };
    for (access, expected) in [
        (EDIT, (Verdict::Ask, "change")),
        (WRITE, (Verdict::Ask, "change")),
        (Access::Read, (Verdict::Allow, "observe")),
    ] {
        let judged = contain(&guard, "a.txt", access).unwrap().judge(&case, &Rules::default());
        assert_eq!((judged.ruling().verdict, judged.ruling().rule), expected);
        assert_eq!(judged.effects().contains(Effects::CHANGE), access.changes());
    }
}

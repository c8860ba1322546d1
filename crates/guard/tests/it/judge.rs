//! Rulings as a table.

use sinew_guard::{Case, Clearance, Profile, Rules, judge};
use sinew_tool::{
    Access, Answer, Claim, Effects, Facts, FileState, FileTarget, Links, Slot, Targets, Verdict,
};

fn targets(protected: Option<&'static str>) -> Targets {
    let access = Access::Edit { links: Links::Follow };
    let claim = Claim { argument: "path", path: Some("x".into()), access };
    Targets {
        files: vec![FileTarget {
            slot: Slot(0),
            claim,
            path: "/ws/x".into(),
            root: "/ws".into(),
            state: FileState::Missing,
            protected,
        }],
    }
}

fn check(rules: &Rules, effects: Effects, protected: bool, expected: (Verdict, &str)) {
    let facts = if effects == Facts::UNKNOWN.effects { Facts::UNKNOWN } else { Facts::CHANGES };
    let targets = targets(protected.then_some(".git/hooks/"));
    let case =
        Case { tool: "write_file", operation: "Write", facts: &facts, effects, targets: &targets };
    let ruling = judge(&case, rules);
    assert_eq!((ruling.verdict, ruling.rule), expected, "{rules:?} {effects:?} {protected}");
}

#[test]
fn deny_beats_ask_beats_allow() {
    use Verdict::{Allow, Ask, Deny};
    let profile = |profile| Rules { profile, ..Rules::default() };
    let deny = |name: &str| Rules { deny_tools: vec![name.into()], ..profile(Profile::Full) };
    let only = |name: &str| Rules { allow_tools: vec![name.into()], ..profile(Profile::Full) };
    let approval = Rules { require_approval: true, ..profile(Profile::Full) };
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
fn only_the_right_answer_to_a_question_clears() {
    let ruling = |verdict| sinew_tool::Ruling { verdict, rule: "test", why: "test".into() };
    assert!(Clearance::from_ruling(&ruling(Verdict::Allow)).is_some());
    for verdict in [Verdict::Ask, Verdict::Deny] {
        assert!(Clearance::from_ruling(&ruling(verdict)).is_none());
    }
    for (verdict, answer, cleared) in [
        (Verdict::Ask, Answer::Yes, true),
        (Verdict::Ask, Answer::No(None), false),
        (Verdict::Ask, Answer::TimedOut, false),
        (Verdict::Deny, Answer::Yes, false),
    ] {
        let clearance = Clearance::from_answer(&ruling(verdict), &answer);
        assert_eq!(clearance.is_some(), cleared, "{verdict:?} {answer:?}");
    }
}

//! Every form of a rule, whatever order rules stand in, and what lies beneath a searched directory.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use sinew_guard::{
    Case, CommandPattern, Condition, Contained, Guard, GuardSettings, HostPattern, Layer, Object,
    Paths, Profile, Rule, RuleOrigin, Rules,
};
use sinew_tool::{Access, Claim, Effects, Facts, Host, Links, Ruling, Slot, Verdict, WalkOptions};
use tempfile::TempDir;

use crate::tree::walked;

/// Reads a rule: `deny tools=A|B effects=change agents=a paths=x|y hosts=h [command=WORDS] unless …`.
fn rule(written: &str) -> Rule {
    let mut parts = written.split(" unless ");
    let (verdict, when) = parts.next().unwrap().split_once(' ').unwrap_or((written, ""));
    let verdict = [Verdict::Allow, Verdict::Ask, Verdict::Deny]
        .into_iter()
        .find(|known| known.as_str() == verdict)
        .unwrap();
    let origin = RuleOrigin { layer: Layer::User, place: format!("<{written}>") };
    let mut rule = Rule::new(verdict, condition(when), origin);
    rule.unless = parts.map(condition).collect();
    rule
}

fn condition(written: &str) -> Condition {
    let mut condition = Condition::default();
    if let Some((before, command)) = written.split_once("command=") {
        condition = self::condition(before.trim());
        condition.object = Object::Command(CommandPattern::parse(command).unwrap());
        return condition;
    }
    for part in written.split_whitespace() {
        let (key, list) = part.split_once('=').unwrap();
        let list: Vec<String> = list.split('|').map(str::to_owned).collect();
        match key {
            "tools" => condition.tools = list,
            "agents" => condition.agents = list,
            "paths" => condition.object = Object::Paths(Paths::parse(list).unwrap()),
            "hosts" => {
                condition.object = Object::Hosts(
                    list.iter().map(|host| HostPattern::parse(host).unwrap()).collect(),
                )
            }
            "effects" => {
                let effects = list.iter().map(|name| Effects::of_name(name).unwrap());
                condition.effects = effects.reduce(Effects::or);
            }
            other => assert_eq!(other, "", "no such key"),
        }
    }
    condition
}

struct Place {
    _dir: TempDir,
    guard: Arc<Guard>,
    root: std::path::PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap().join("work [1]");
    for file in
        ["a.txt", "docs/b.md", "docs/deep/c.md", "secret/d.key", "secret/open/e.txt", ".env"]
    {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), "x\n").unwrap();
    }
    std::os::unix::fs::symlink("../.env", root.join("docs/link.md")).unwrap();
    let guard = Guard::open(GuardSettings::new(vec![root.clone()])).unwrap();
    Place { _dir: dir, guard, root }
}

/// One call, in words: tool, agent, what it does, to which paths or hosts.
#[derive(Debug, Clone, Copy)]
struct Call {
    tool: &'static str,
    agent: Option<&'static str>,
    access: Option<Access>,
    paths: &'static [&'static str],
    hosts: &'static [&'static str],
}

const WRITE: Access = Access::Write { parents: true, links: Links::Follow };
const READ: Call =
    Call { tool: "Read", agent: None, access: Some(Access::Read), paths: &["a.txt"], hosts: &[] };
const EDIT: Call = Call { tool: "Write", access: Some(WRITE), ..READ };
const FETCH: Call =
    Call { tool: "Fetch", access: None, paths: &[], hosts: &["API.example.com"], ..READ };
const ODD: Call = Call { tool: "odd", access: None, paths: &[], ..READ };

fn ruled(place: &Place, call: Call, profile: Profile, written: &[&str]) -> Ruling {
    let rules = written.iter().map(|written| Arc::new(rule(written))).collect();
    let rules = place.guard.anchored(Rules { profile, rules, ..Rules::default() }).unwrap();
    let claims: Vec<Claim> = call
        .paths
        .iter()
        .map(|path| Claim::new("path", Some((*path).to_owned()), call.access.unwrap()))
        .collect();
    let contained = || {
        let contained = place.guard.contain(&claims, None, None).unwrap();
        let hosts = call.hosts.iter().map(|host| Host::new(host, None)).collect();
        contained.with_hosts(Vec::new(), None, hosts).unwrap()
    };
    let effects = match (call.tool, call.access) {
        ("odd", _) => Facts::UNKNOWN.effects,
        ("Fetch", _) => Effects::NETWORK,
        (_, Some(access)) if access.changes() => Effects::CHANGE,
        _ => Effects::OBSERVE,
    };
    let facts = Facts { effects, ..Facts::OBSERVES };
    let (tool, agent) = (call.tool, call.agent);
    let case = Case { tool, operation: tool, facts: &facts, effects, agent };
    let ruling = contained().judge(&case, &rules).ruling().clone();
    let of_tool = Arc::new(rules).of_tool(tool, tool);
    let by_fewer = contained().judge(&case, &of_tool).ruling().clone();
    assert_eq!(
        by_fewer, ruling,
        "rules that cannot mean the tool say something: {call:?} {written:?}"
    );
    ruling
}

#[track_caller]
fn check(call: Call, written: &[&str], expected: Verdict) {
    let place = place();
    let found = ruled(&place, call, Profile::Workspace, written);
    assert_eq!(found.verdict, expected, "{call:?} {written:?}: {found:?}");
}

#[test]
fn a_tool_has_the_rules_that_can_mean_it() {
    let all = ["deny tools=Read", "ask tools=R*d|Write", "allow tools=odd", "deny paths=x", "ask"];
    let rules = all.iter().map(|written| Arc::new(rule(written))).collect();
    let rules = Arc::new(Rules { rules, ..Rules::default() });
    for (tool, operation, expected) in [
        ("Read", "Read", &["deny tools=Read", "ask tools=R*d|Write", "deny paths=x", "ask"][..]),
        ("read_file", "Read", &["deny tools=Read", "ask tools=R*d|Write", "deny paths=x", "ask"]),
        ("Write", "Write", &["ask tools=R*d|Write", "deny paths=x", "ask"]),
        ("odd", "odd", &["allow tools=odd", "deny paths=x", "ask"]),
        (
            "Read",
            "odd",
            &["deny tools=Read", "ask tools=R*d|Write", "allow tools=odd", "deny paths=x", "ask"],
        ),
        ("Glob", "Glob", &["deny paths=x", "ask"]),
    ] {
        let found = rules.of_tool(tool, operation);
        let found: Vec<_> = found.rules.iter().map(|rule| rule.origin.place.clone()).collect();
        let expected: Vec<_> = expected.iter().map(|written| format!("<{written}>")).collect();
        assert_eq!(found, expected, "{tool} {operation}");
    }
}

#[test]
fn each_form_means_the_calls_that_it_names_and_no_others() {
    use Verdict::{Allow, Ask, Deny};
    let at = |call: Call, path: &'static [&'static str]| Call { paths: path, ..call };
    let of = |agent: &'static str, call: Call| Call { agent: Some(agent), ..call };
    for (call, written, expected) in [
        (EDIT, &[][..], Ask),
        (READ, &[], Allow),
        (READ, &["deny tools=Read"], Deny),
        (READ, &["deny tools=R*d"], Deny),
        (READ, &["deny tools=Write"], Allow),
        (READ, &["ask effects=observe"], Ask),
        (READ, &["deny effects=change"], Allow),
        (EDIT, &["deny effects=change|execute"], Deny),
        (EDIT, &["allow effects=change"], Allow),
        (ODD, &["allow effects=change"], Ask),
        (ODD, &["allow effects=change|execute|network"], Allow),
        (ODD, &["allow tools=odd"], Allow),
        (ODD, &["allow paths=**"], Ask),
        (of("a1", EDIT), &["deny agents=a*"], Deny),
        (of("b", EDIT), &["deny agents=a*"], Ask),
        (EDIT, &["deny agents=*"], Ask),
        (of("a1", EDIT), &["allow tools=Write agents=a1"], Allow),
        (EDIT, &["allow paths=*.txt"], Allow),
        (at(EDIT, &["docs/b.md"]), &["allow paths=*.txt"], Ask),
        (at(EDIT, &["docs/b.md"]), &["allow paths=docs/**"], Allow),
        (at(EDIT, &["docs/deep/c.md"]), &["allow paths=docs/*"], Allow),
        (at(EDIT, &["docs/deep/new.md"]), &["allow paths=docs/*.md"], Ask),
        (at(EDIT, &["a.txt", "docs/b.md"]), &["allow paths=a.txt"], Ask),
        (at(EDIT, &["a.txt", "docs/b.md"]), &["allow paths=a.txt", "allow paths=docs/**"], Allow),
        (at(EDIT, &["a.txt", "docs/b.md"]), &["deny paths=docs/**", "allow tools=*"], Deny),
        (at(EDIT, &["docs/b.md"]), &["allow paths=docs/**", "ask paths=**/*.md"], Ask),
        (at(READ, &[".env"]), &["deny tools=Read paths=**/.env"], Deny),
        (at(READ, &["docs/link.md"]), &["deny tools=Read paths=**/.env"], Deny),
        (at(EDIT, &[".env"]), &["deny tools=Read paths=**/.env"], Ask),
        (at(EDIT, &["docs/../a.txt"]), &["deny paths=a.txt"], Deny),
        (READ, &["deny paths=./a.txt"], Deny),
        (at(READ, &["docs/b.md"]), &["deny paths=docs/.//b.md"], Deny),
        (at(READ, &[".env"]), &["deny paths=docs/link.md"], Deny),
        (at(EDIT, &[".env"]), &["allow paths=docs/link.md"], Ask),
        (at(READ, &[".env"]), &["deny paths=**/.env unless paths=docs/link.md"], Deny),
        (at(READ, &["secret/d.key"]), &["deny paths=secret unless paths=secret/open"], Deny),
        (at(READ, &["secret/open/e.txt"]), &["deny paths=secret unless paths=secret/open"], Allow),
        (READ, &["deny tools=* unless tools=Read"], Allow),
        (EDIT, &["deny tools=* unless tools=Read"], Deny),
        (at(EDIT, &["docs/b.md"]), &["allow paths=docs/** unless paths=**/b.md"], Ask),
        (EDIT, &["allow effects=change unless agents=a"], Allow),
        (of("a", EDIT), &["allow effects=change unless agents=a"], Ask),
        (FETCH, &["allow hosts=api.example.com"], Allow),
        (FETCH, &["allow hosts=*.example.com"], Allow),
        (FETCH, &["allow hosts=*"], Allow),
        (FETCH, &["allow hosts=example.com"], Ask),
        (FETCH, &["allow hosts=*.ample.com"], Ask),
        (FETCH, &["deny hosts=*.example.com"], Deny),
        (FETCH, &["deny hosts=*.example.com unless hosts=api.example.com"], Ask),
        (Call { hosts: &["a.org", "b.org"], ..FETCH }, &["allow hosts=a.org"], Ask),
        (Call { hosts: &["a.org", "b.org"], ..FETCH }, &["allow hosts=a.org|b.org"], Allow),
        (at(EDIT, &[".git/config"]), &["allow tools=*", "allow paths=**"], Ask),
        (EDIT, &["deny command=*"], Ask),
    ] {
        check(call, written, expected);
    }
    let place = place();
    let absolute =
        format!("deny paths={}/a.txt", place.root.display().to_string().replace(" [1]", "*"));
    assert_eq!(ruled(&place, READ, Profile::Full, &[&absolute]).verdict, Deny);
    assert_eq!(ruled(&place, EDIT, Profile::Full, &["ask paths=a.txt"]).verdict, Ask);
    let read_only = ruled(&place, EDIT, Profile::ReadOnly, &["allow tools=*"]);
    assert_eq!((read_only.verdict, read_only.rule), (Deny, "profile.read-only"));
}

/// A call that is narrowed to fewer roots is judged as if it were not.
#[test]
fn a_narrowed_call_is_meant_where_it_was_before() {
    let place = place();
    let rules = Rules { rules: vec![Arc::new(rule("deny paths=secret/**"))], ..Rules::default() };
    let rules = place.guard.anchored(rules).unwrap();
    let claim = Claim::new("path", Some("d.key".into()), Access::Read);
    let narrowed = [place.root.join("secret")];
    let contained = place.guard.contain(&[claim], None, Some(&narrowed)).unwrap();
    let facts = Facts::OBSERVES;
    let case = Case {
        tool: "Read",
        operation: "Read",
        facts: &facts,
        effects: facts.effects,
        agent: None,
    };
    assert_eq!(contained.judge(&case, &rules).ruling().verdict, Verdict::Deny);
}

#[test]
fn a_moved_directory_may_hold_what_is_meant() {
    use Verdict::{Allow, Ask, Deny};
    let moved = |path| Call { tool: "Move", access: Some(Access::Move), paths: path, ..READ };
    for (path, written, expected) in [
        (&["secret", "docs/x"][..], "deny paths=secret/open/**", Deny),
        (&["secret", "docs/x"], "ask paths=secret/open/**", Ask),
        (&["secret", "docs/x"], "deny paths=secret/*/e.txt", Deny),
        (&["secret", "docs/x"], "deny paths=docs/*/d.key", Deny),
        (&["secret", "docs/x"], "deny paths=docs/x/open/**", Deny),
        (&["secret", "docs/x"], "deny paths=docs/x/open/** unless paths=docs/x/open/**", Allow),
        (&["secret", "docs/x"], "deny paths=secret/none/**", Allow),
        (&["secret", "docs/x"], "deny tools=Read paths=secret/open/**", Allow),
        (&["secret", "docs/x"], "deny paths=secret", Deny),
        (&["docs", "papers"], "deny paths=secret/**", Allow),
    ] {
        let call = moved(path);
        let found = ruled(&place(), call, Profile::Full, &[written]);
        assert_eq!(found.verdict, expected, "{path:?} {written}: {found:?}");
    }
}

/// The case of a call that moves.
const MOVES: Case<'static> = Case {
    tool: "Move",
    operation: "Move",
    facts: &Facts { effects: Effects::CHANGE, ..Facts::OBSERVES },
    effects: Effects::CHANGE,
    agent: None,
};

/// Returns the contained move of `docs` to `papers`.
fn moves_docs(place: &Place) -> Contained {
    let write = Access::Write { parents: false, links: Links::Itself };
    let claims = [("source", "docs", Access::Move), ("destination", "papers", write)];
    let claims =
        claims.map(|(argument, path, access)| Claim::new(argument, Some(path.into()), access));
    place.guard.contain(&claims, None, None).unwrap()
}

/// A directory whose content is not known was once judged as if no rule for its destination could mean it.
#[test]
fn unread_directory_that_moves_asks() {
    let place = place();
    let contained = moves_docs(&place);
    for (written, expected) in [
        ("deny paths=docs/deep/**", Verdict::Ask),
        ("deny paths=papers/deep/**", Verdict::Ask),
        ("deny paths=papers", Verdict::Deny),
        ("deny paths=secret/**", Verdict::Allow),
    ] {
        let rules = vec![Arc::new(rule(written))];
        let rules = Rules { profile: Profile::Full, rules, ..Rules::default() };
        let rules = place.guard.anchored(rules).unwrap();
        // Judged by its targets alone: nothing says what the directory holds.
        let found = sinew_guard::judge(&MOVES, contained.targets(), &rules);
        assert_eq!(found.verdict, expected, "{written}: {found:?}");
    }
}

/// A file that was put there after the ruling was never judged.
#[test]
fn rules_hold_for_what_appears_in_a_directory_that_moves() {
    for (written, said) in [
        ("deny paths=**/late.txt", "path denied"),
        ("ask paths=papers/late.txt", "changed meanwhile"),
    ] {
        let place = place();
        let rules = Rules {
            profile: Profile::Full,
            rules: vec![Arc::new(rule(written))],
            ..Rules::default()
        };
        let rules = place.guard.anchored(rules).unwrap();
        let judged = moves_docs(&place).judge(&MOVES, &rules);
        let cleared = Guard::clear(judged.by_ruling().unwrap()).unwrap();
        fs::write(place.root.join("docs/late.txt"), "x").unwrap();
        let error = cleared.world.files.rename(Slot(0)).unwrap_err().about("it");
        assert!(error.message.contains(said), "{written}: {error}");
        assert!(place.root.join("docs/late.txt").exists(), "{written}");
    }
}

#[test]
fn what_is_held_back_is_not_found_beneath_a_directory() {
    for (tool, written, expected) in [
        (
            "Grep",
            &[][..],
            ".env a.txt docs/b.md docs/deep/c.md docs/link.md secret/d.key secret/open/e.txt",
        ),
        (
            "Grep",
            &["deny tools=Grep paths=**/.env|secret/**"],
            "a.txt docs/b.md docs/deep/c.md docs/link.md",
        ),
        (
            "Glob",
            &["deny tools=Grep paths=**/.env"],
            ".env a.txt docs/b.md docs/deep/c.md docs/link.md secret/d.key secret/open/e.txt",
        ),
        ("Grep", &["ask paths=secret"], ".env a.txt docs/b.md docs/deep/c.md docs/link.md"),
        (
            "Grep",
            &["deny paths=secret/** unless paths=secret/open/**"],
            ".env a.txt docs/b.md docs/deep/c.md docs/link.md secret/open/e.txt",
        ),
        (
            "Grep",
            &["allow paths=docs/**"],
            ".env a.txt docs/b.md docs/deep/c.md docs/link.md secret/d.key secret/open/e.txt",
        ),
    ] {
        let place = place();
        let rules = written.iter().map(|written| Arc::new(rule(written))).collect();
        let rules = place.guard.anchored(Rules { rules, ..Rules::default() }).unwrap();
        let claim = Claim::new("path", None, Access::Search);
        let contained = place.guard.contain(&[claim], None, None).unwrap();
        let facts = Facts::OBSERVES;
        let case =
            Case { tool, operation: tool, facts: &facts, effects: facts.effects, agent: None };
        let judged = contained.judge(&case, &rules);
        let cleared = Guard::clear(judged.by_ruling().unwrap()).unwrap();
        let options = WalkOptions {
            heed_ignore: false,
            enter_state: true,
            max_depth: None,
            directories: false,
        };
        let (found, report) = walked(&cleared.world, &options);
        assert_eq!(found.join(" "), expected, "{tool} {written:?}");
        let hides = found.len() < 7;
        assert_eq!(0 < report.skipped.denied, hides, "{tool} {written:?}: {report:?}");
        let listed = cleared.world.files.list(Slot(0), 100).unwrap();
        let names: Vec<_> = listed.rows.iter().map(|row| row.path.clone()).collect();
        let sees = |name: &str| names.iter().any(|path| path.as_os_str() == name);
        assert_eq!(sees(".env"), expected.contains(".env"), "{tool} {written:?}: {names:?}");
        assert_eq!(sees("secret"), expected.contains("secret"), "{tool} {written:?}: {names:?}");
    }
}

#[test]
fn a_ruling_says_who_wrote_its_rule() {
    let place = place();
    let found = ruled(&place, READ, Profile::Workspace, &["deny tools=Read unless agents=a"]);
    assert_eq!(found.origin.as_deref(), Some("user, <deny tools=Read unless agents=a>"));
    assert!(found.why.contains("the rule `Read unless agent a` of <deny"), "{}", found.why);
    assert_eq!(ruled(&place, READ, Profile::Workspace, &[]).origin, None);
}

#[test]
fn a_glob_that_cannot_be_meant_is_told_with_its_place() {
    for (glob, why) in [
        ("a[", "unclosed"),
        ("/a[", "unclosed"),
        (".", "means no path"),
        ("docs/../secret/**", "`..` means nothing"),
        ("../work/**", "`..` means nothing"),
        ("~/x/**", "`~` is not expanded"),
    ] {
        let (at, problem) = Paths::parse(vec![String::from("**/ok"), glob.into()]).unwrap_err();
        assert!(at == 1 && problem.contains(why), "{glob}: {at}: {problem}");
    }
}

/// A rule by path was void beneath a root with a backslash in its name, and without a word beneath one whose
/// name is no text.
#[test]
fn rules_by_path_hold_beneath_a_root_with_any_name() {
    use std::os::unix::ffi::OsStrExt;

    let dir = tempfile::tempdir().unwrap();
    let top = fs::canonicalize(dir.path()).unwrap();
    for (name, is_meant) in
        [(&b"a\\b"[..], true), (b"[x]{y}*?!", true), (b"\xff", false), (b"a b", true)]
    {
        let root = top.join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir_all(root.join("secret")).unwrap();
        fs::write(root.join("secret/k"), "x").unwrap();
        let link = top.join(format!("link{}", name.len()));
        std::os::unix::fs::symlink(&root, &link).unwrap();
        for (root, globs) in [
            (&root, vec![String::from("secret/**")]),
            (&link, vec![format!("{}/secret/**", link.display())]),
        ] {
            let guard = Guard::open(GuardSettings::new(vec![root.clone()])).unwrap();
            let written = rule(&format!("deny paths={}", globs.join("|").replace(' ', "?")));
            let rules = Rules { rules: vec![Arc::new(written)], ..Rules::default() };
            let rules = match guard.anchored(rules) {
                Ok(rules) if is_meant => rules,
                Err(error) if !is_meant => {
                    assert!(error.to_string().contains("is not UTF-8"), "{error}");
                    continue;
                }
                other => panic!("{root:?}: {other:?}"),
            };
            let claim = Claim::new("path", Some("secret/k".into()), Access::Read);
            let contained = guard.contain(&[claim], None, None).unwrap();
            let case = Case {
                tool: "Read",
                operation: "Read",
                facts: &Facts::OBSERVES,
                effects: Effects::OBSERVE,
                agent: None,
            };
            let found = contained.judge(&case, &rules).ruling().verdict;
            assert_eq!(found, Verdict::Deny, "{root:?}");
        }
        fs::remove_file(link).unwrap();
    }
}

const WRITTEN: &[&str] = &[
    "deny tools=Write",
    "ask tools=Read",
    "allow tools=*",
    "deny paths=docs/**",
    "allow paths=**",
    "ask paths=*.txt unless agents=a",
    "deny effects=network",
    "allow hosts=*",
    "deny hosts=*.example.com unless tools=Fetch",
    "allow effects=change unless agents=a tools=Write",
    "ask command=git push *",
    "deny tools=* unless tools=Read|Write",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The order of rules says nothing.
    #[test]
    fn any_order_gives_the_same_verdict(
        (chosen, other) in prop::collection::vec(prop::sample::select(WRITTEN), 0..6)
            .prop_flat_map(|chosen| (Just(chosen.clone()), Just(chosen).prop_shuffle())),
        at in 0_usize..8,
    ) {
        let calls = [
            READ,
            EDIT,
            Call { paths: &["docs/b.md"], ..EDIT },
            Call { agent: Some("a"), ..EDIT },
            FETCH,
            ODD,
            Call { tool: "Move", access: Some(Access::Move), paths: &["docs", "papers"], ..READ },
            Call { tool: "Grep", access: Some(Access::Search), paths: &["docs"], ..READ },
        ];
        let place = place();
        let one = ruled(&place, calls[at], Profile::Workspace, &chosen);
        let two = ruled(&place, calls[at], Profile::Workspace, &other);
        prop_assert_eq!(one.verdict, two.verdict, "{:?} {:?} {:?}", calls[at], chosen, other);
        prop_assert_eq!(one.origin.is_some(), two.origin.is_some());
    }
}

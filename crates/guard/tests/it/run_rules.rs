//! Rules for commands: what they find, what they let pass, and in which order they stand.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use sinew_guard::{
    Case, CommandPattern, Condition, Judged, Layer, Object, Profile, Rule, RuleOrigin, Rules, judge,
};
use sinew_tool::{
    Access, Analysis, Claim, Command, CommandLine, CommandTarget, Need, Needs, Shell, Targets,
    Unclear, Verdict, name_matches,
};
use tempfile::TempDir;

use crate::corpora::{analysed, guarded};
use crate::tree::rounds;

fn rule(written: &str) -> Rule {
    let (verdict, command) = written.split_once(": ").unwrap();
    let verdict = [Verdict::Allow, Verdict::Ask, Verdict::Deny]
        .into_iter()
        .find(|known| known.as_str() == verdict)
        .unwrap();
    let object = Object::Command(CommandPattern::parse(command).unwrap());
    let origin = RuleOrigin { layer: Layer::Program, place: String::from("a test") };
    Rule::new(verdict, Condition { object, ..Condition::default() }, origin)
}

fn rules(written: &[&str], profile: Profile) -> Rules {
    Rules {
        profile,
        rules: written.iter().map(|written| Arc::new(rule(written))).collect(),
        ..Rules::default()
    }
}

/// A place with a few files, in which commands are looked at.
fn place() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("work/sub")).unwrap();
    fs::write(dir.path().join("work/a.txt"), "one\n").unwrap();
    dir
}

fn targets(line: CommandLine, analysis: Analysis) -> Targets {
    let command = Command {
        argument: "command",
        line,
        keeps_cwd: false,
        has_terminal: false,
        programs: Vec::new(),
        needs: None,
    };
    let program = "/bin/sh".into();
    let target = CommandTarget {
        command,
        program,
        argv: Vec::new(),
        cwd: "/".into(),
        analysis,
        named: Vec::new(),
        extra: sinew_tool::ExtraAccess::default(),
        may_run_own_files: false,
    };
    Targets { command: Some(target), ..Targets::default() }
}

/// Returns the verdict, the rule and the reason.
fn ruled(
    line: &CommandLine,
    analysis: &Analysis,
    rules: &Rules,
) -> (Verdict, &'static str, String) {
    let ruling = judge(&Case::COMMAND, &targets(line.clone(), analysis.clone()), rules);
    (ruling.verdict, ruling.rule, ruling.why.into_owned())
}

fn shell(text: &str) -> CommandLine {
    CommandLine::Shell(Shell::User, text.to_owned())
}

fn judged(place: &TempDir, text: &str, rules: &Rules) -> (Verdict, &'static str, String) {
    ruled(&shell(text), &analysed(place.path(), text), rules)
}

#[track_caller]
fn check(written: &[&str], rows: &[(&str, Verdict, &str)]) {
    let place = place();
    for (text, verdict, rule) in rows {
        let found = judged(&place, text, &rules(written, Profile::Workspace));
        let is_rule = name_matches(rule, found.1);
        assert!(found.0 == *verdict && is_rule, "{written:?}: {text}: {found:?}");
    }
}

const RULE: &str = Rule::NAME;

#[test]
fn words_fit_or_do_not() {
    for (pattern, words, expected) in [
        ("git push *", "git push", true),
        ("git push *", "git push origin main", true),
        ("git push *", "git pushx", false),
        ("git push", "git push origin", false),
        ("git push", "git push", true),
        ("git commit *", "git commit-tree x", false),
        ("git p*", "git push", true),
        ("git p* *", "git pull x", true),
        ("git push|pull *", "git pull", true),
        ("git push|pull *", "git fetch", false),
        ("npm run *:dev", "npm run web:dev", true),
        ("npm run *:dev", "npm run web:prod", false),
        ("*", "anything at all", true),
        ("git * --force", "git push --force", true),
        ("git * --force", "git push", false),
        ("git", "/usr/bin/git", false),
        ("/usr/bin/git *", "/usr/bin/git x", true),
    ] {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let found = CommandPattern::parse(pattern).unwrap().covers(&words);
        assert_eq!(found, expected, "{pattern}: {words:?}");
    }
    for bad in ["", "  ", "git |", "| *", "git\u{1b} x"] {
        assert!(CommandPattern::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn what_is_denied_is_found_word_by_word() {
    use Verdict::{Allow, Ask, Deny};
    check(
        &["deny: git push *", "ask: cat *.txt", "deny: dd"],
        &[
            ("git push", Deny, RULE),
            ("/usr/bin/git push origin", Deny, RULE),
            ("git -C sub push", Deny, RULE),
            ("git -c a=b --no-pager push", Deny, RULE),
            ("git --git-dir=x push", Deny, RULE),
            ("git log --grep push", Ask, "shell.*"),
            ("git pushx", Ask, "shell.*"),
            ("git commit -m push", Ask, "shell.*"),
            ("git $X", Ask, RULE),
            ("git commit -m \"$X\"", Ask, "shell.*"),
            ("$X push", Ask, RULE),
            ("\"$X\" push", Ask, RULE),
            ("gi? push", Ask, RULE),
            ("{git,push}", Ask, RULE),
            ("echo git push", Allow, "plain"),
            ("echo 'git push'", Allow, "plain"),
            ("cat a.txt", Ask, RULE),
            ("cat sub", Allow, "plain"),
            ("dd", Deny, RULE),
            ("dd if=x", Ask, "shell.*"),
            ("echo \"a", Ask, RULE),
        ],
    );
    check(
        &["deny: git push *", "deny: rm *"],
        &[
            ("faketime now git push", Deny, RULE),
            ("dtach -n x git push", Deny, RULE),
            ("dotenv -- git push", Deny, RULE),
            ("npm exec -- git push", Deny, RULE),
            ("npm x -- rm a", Deny, RULE),
            ("pnpm exec rm a", Deny, RULE),
            ("yarn exec rm a", Deny, RULE),
            ("npm install rm", Ask, "shell.*"),
            ("ip netns exec n git push", Deny, RULE),
            ("ip addr", Ask, "shell.*"),
            ("mise exec -- rm a", Deny, RULE),
            ("socat - EXEC:'rm a',pty", Deny, RULE),
            ("socat - TCP:x:1", Ask, "shell.*"),
            ("pwsh -c 'rm a'", Deny, RULE),
            ("nu -c 'rm a'", Deny, RULE),
            ("nu -c ls", Ask, RULE),
            ("/lib64/ld-linux-x86-64.so.2 /bin/rm a", Deny, RULE),
        ],
    );
    // What empties a file runs no command at all.
    check(&["deny: *"], &[("> f.txt", Deny, RULE), ("x=1", Deny, RULE), ("git push", Deny, RULE)]);
}

#[test]
fn what_is_allowed_runs_unasked_and_nothing_else_with_it() {
    use Verdict::{Allow, Ask, Deny};
    check(
        &[
            "allow: git commit *",
            "allow: cargo test *",
            "allow: touch x",
            "allow: sudo true",
            "ask: cargo test --release *",
            "deny: git commit --amend *",
        ],
        &[
            ("git commit -m 'a b'", Allow, RULE),
            ("git commit", Allow, RULE),
            ("git commit -m a && cargo test -p x", Allow, RULE),
            ("cargo test 2>&1 | tail -5", Allow, RULE),
            ("cd sub && cargo test", Allow, RULE),
            ("cargo test >/dev/null 2>&1", Allow, RULE),
            ("(cargo test; touch x)", Allow, RULE),
            ("if cargo test; then touch x; fi", Allow, RULE),
            ("sudo true", Allow, RULE),
            ("cat a.txt; touch x", Allow, RULE),
            ("git commit -m a < a.txt", Allow, RULE),
            ("git commit --amend", Deny, RULE),
            ("git commit -m a --amend", Deny, RULE),
            ("git commit -m a; git commit --amend", Deny, RULE),
            ("cargo test --release", Ask, RULE),
            ("touch y", Ask, "shell.*"),
            ("touch x y", Ask, "shell.*"),
            ("git commit -m a; touch y", Ask, "shell.*"),
            ("git commit -m a & touch x", Ask, "shell.*"),
            ("git commit -m $(touch x)", Ask, RULE),
            ("git commit -m \"$X\"", Ask, RULE),
            ("git commit -m a > f", Ask, "shell.*"),
            ("git commit -m a >> sub/f", Ask, "shell.*"),
            ("git commit -F - <<'E'\nx\nE", Ask, "shell.*"),
            ("X=1 cargo test", Ask, "shell.*"),
            ("LANG=C cargo test", Ask, "shell.*"),
            ("X=1; cargo test", Ask, "shell.*"),
            ("export X=1; cargo test", Ask, "shell.*"),
            ("PATH=. ; cargo test", Ask, "shell.*"),
            ("/usr/bin/git commit", Ask, "shell.*"),
            ("./git commit", Ask, "shell.*"),
            ("sudo git commit", Ask, "shell.*"),
            ("env cargo test", Ask, "shell.*"),
            ("nice cargo test", Ask, "shell.*"),
            ("command git commit -m a", Ask, "shell.*"),
            ("cargo() { touch x; }; cargo test", Ask, "shell.*"),
            ("alias cargo='touch x'; cargo test", Ask, "*"),
            ("for i in 1 2; do cargo test; done", Ask, "shell.*"),
            ("cargo test *", Ask, RULE),
            ("cargo test {a,b}", Ask, RULE),
            ("cargo test ~/x", Ask, RULE),
            ("cargo test \u{200b}", Ask, "shell.*"),
            ("cargo test; cat ../x", Ask, "shell.*"),
            ("cargo test; cat .env", Ask, "shell.*"),
            ("cargo test; grep -r x .", Ask, "shell.*"),
            ("cargo test; git status", Ask, "shell.*"),
            ("cat a.txt", Allow, "plain"),
        ],
    );
    check(
        &["allow: *"],
        &[
            ("make all", Allow, RULE),
            ("make $X", Ask, "shell.*"),
            ("eval x", Ask, "shell.*"),
            ("source a.txt", Ask, "shell.*"),
            ("cd .. ", Ask, "shell.*"),
            ("set -e; make", Ask, "shell.*"),
        ],
    );
}

#[test]
fn a_rule_that_allows_is_weaker_than_what_must_hold() {
    let (place, text) = (place(), "make all");
    let line = shell(text);
    let analysis = analysed(place.path(), text);
    let all = |profile| rules(&["allow: *"], profile);
    assert_eq!(ruled(&line, &analysis, &all(Profile::Workspace)).0, Verdict::Allow);
    let read_only = ruled(&line, &analysis, &all(Profile::ReadOnly));
    assert_eq!((read_only.0, read_only.1), (Verdict::Deny, "profile.read-only"));
    let plain = Err(Unclear::new("shell.sandbox_level", "nothing contains commands"));
    let open = ruled(&line, &Analysis { plain, ..analysis }, &all(Profile::Workspace));
    assert_eq!((open.0, open.1), (Verdict::Ask, "shell.sandbox_level"));
}

#[test]
fn the_reason_names_the_rule() {
    let place = place();
    let mut rules = rules(&["deny: git push *"], Profile::Full);
    Arc::make_mut(&mut rules.rules[0]).why = String::from("people push");
    for (text, why) in [
        ("git push", "the rule `git push *` of a test denies it: people push"),
        (
            "git $X",
            "a word of it is only known when it runs, and the rule `git push *` of a test may match \
             it: people push",
        ),
        (
            "ls \"a",
            "it cannot be parsed, and the rule `git push *` of a test may match it: people push",
        ),
    ] {
        assert_eq!(judged(&place, text, &rules).2, why);
    }
}

/// Ways to run `{}`, which stands for a program and its words.
const SPELLINGS: &[&str] = &[
    "true; {}",
    "true && {}",
    "false || {}",
    "echo a | {}",
    "{} | cat",
    "{} &",
    "true\n{}",
    "({})",
    "{ {}; }",
    "! {}",
    "if {}; then true; fi",
    "if true; then {}; fi",
    "if false; then true; else {}; fi",
    "while {}; do true; done",
    "for i in 1; do {}; done",
    "case a in a) {};; esac",
    "f() { {}; }; f",
    "echo $({})",
    "echo `{}`",
    "echo \"$({})\"",
    "echo \"`{}`\"",
    "cat <({})",
    "cat > >({})",
    "cat <<E\n$({})\nE",
    "echo ${X:-$({})}",
    "[[ -n $({}) ]]",
    "echo $(( $({}) ))",
    "X=$({})",
    "X=1 Y=2 {}",
    ">f {}",
    "2>/dev/null {}",
    "{} >f",
    "env {}",
    "env -i X=1 {}",
    "env -u X -- {}",
    "env -C sub X=1 {}",
    "env -S '{}'",
    "env -iS 'X=1 {}'",
    "/usr/bin/env {}",
    "sudo {}",
    "sudo -n -u root {}",
    "sudo -uroot X=1 {}",
    "sudo --user=root -- {}",
    "doas -u root {}",
    "time {}",
    "time -p {}",
    "nice {}",
    "nice -n 5 {}",
    "nice -n5 {}",
    "nice --adjustment 5 {}",
    "nice -5 {}",
    "ionice -c 3 {}",
    "nohup {}",
    "setsid -f {}",
    "timeout 5 {}",
    "timeout -k 5 --signal KILL 10s {}",
    "timeout --si KILL 10s {}",
    "stdbuf -oL -e 0 {}",
    "command {}",
    "command -p {}",
    "builtin {}",
    "exec {}",
    "exec -a x {}",
    "xargs {}",
    "xargs -0 -n 1 {}",
    "xargs -I % {}",
    "find . -exec {} \\;",
    "find . -name x -execdir {} +",
    "find . -ok {} \\; -print",
    "find . -print -okdir {} ';' -exec true \\;",
    "sh -c '{}'",
    "bash -c \"{}\"",
    "bash -lc '{}'",
    "bash -ec '{}' x y",
    "bash --norc -o pipefail -c '{}'",
    "bash -eo pipefail -c '{}'",
    "dash -c '{}'",
    "zsh -fc '{}'",
    "ksh -c '{}'",
    "/bin/sh -c 'sh -c \"{}\"'",
    "bash -c \"$X; {}\"",
    "bash <<< '{}'",
    "bash <<'E'\n{}\nE",
    "sh -s x <<E\n{}\nE",
    "eval {}",
    "eval '{}'",
    "eval \"eval '{}'\"",
    "trap '{}' EXIT",
    "alias x='{}'",
    "busybox {}",
    "toybox {}",
    "busybox sh -c '{}'",
    "env nice sudo timeout 5 {}",
    "sudo sh -c 'env X=1 {}'",
    "coproc {}",
    "chroot x {}",
    "flock f {}",
    "flock f -c '{}'",
    "watch '{}'",
    "strace -f {}",
    "sudo --strange-option x {}",
    "true && >f {}",
    "true && 2>&1 {}",
    "! ! {}",
    "eval -- {}",
    "env a.b=1 {}",
    "env A+=1 {}",
    "env =1 {}",
    "sudo -s {}",
    "sudo -s '{}'",
    "find . -exec env -u + {} ';'",
    "bash +c '{}'",
    "bash /dev/stdin <<< '{}'",
    "fish --command '{}'",
    "tcsh -c '{}'",
    "script -c'{}' f",
    "script --command='{}' f",
    "su -c'{}'",
    "repeat 1 {}",
    "={}",
    "tini -- {}",
    "uv run {}",
    "xargs --max-lines=1 {}",
];

/// Texts in which `git push` may hide, or `make`, and for which rules that deny them at least ask.
const UNCLEAR: &[&str] = &[
    "git pu\\\nsh",
    "gi\\\nt push",
    "bash -c 'git pu\\\nsh'",
    "cat <<E\n`git push`\nE",
    "echo \"${x:-`git push`}\"",
    "x=a; echo ${x#$(git push)}",
    "cat <<E'F'\nEF\ngit push\nE'F'\n",
    "cat <<E\"F\"\nEF\ngit push\nE\"F\"\n",
    "true && git >f push",
    "true | git >f push",
    "! git >f push",
    "env --split='git push'",
    "env -S 'git\\_push'",
    "echo push | xargs -iX git X",
    "echo push | xargs --replace git {}",
    "echo push | xargs --show-limits git",
    "X=-exec; find . \"$X\" git push ';'",
    "X='5 git'; timeout $X push",
    "export C=push; bash <<E\ngit \\$C\nE",
    ". /dev/stdin <<< 'git push'",
    "source <(echo git push)",
    "shopt -s expand_aliases\nalias g=git\ng push",
    "sh -c 'alias g=git\ng push'",
    "hash -p /usr/bin/git foo; foo push",
    "mapfile -C 'git push' -c 1 <<< a",
    "x='$(git push)'; echo ${x@P}",
    "bash <<E\necho \\\\$'a\\' ; git push #'\nE",
    "env A=\\ \\\nb git push",
];

/// Ways to write the name of a program.
const NAMES: &[&str] = &["{}", "/usr/bin/{}", "\\{}", "\"{}\"", "'{}'", "''{}", "{}\"\"", "$'{}'"];

/// What looks at the first word of each part of a text alone.
fn naive(text: &str, program: &str) -> bool {
    let parts = text.split(['\n', ';', '|', '&']);
    parts.into_iter().any(|part| part.split_whitespace().next() == Some(program))
}

#[test]
fn no_spelling_hides_a_program() {
    let mut n_missed = 0;
    let mut n_tried = 0;
    let mut wrong = Vec::new();
    let place = place();
    let unknown = |text: &str| Analysis {
        segments: Vec::new(),
        plain: Err(Unclear::new("shell.program", "no plain read")),
        rest: None,
        repeats: None,
        commands: analysed(place.path(), text).commands,
    };
    for (program, words) in [("curl", "-s x"), ("rm", "-rf y"), ("git", "push z")] {
        let pattern =
            if program == "git" { "deny: git push *" } else { &format!("deny: {program} *") };
        let rules = rules(&[pattern], Profile::Full);
        for name in NAMES {
            for spelling in SPELLINGS {
                let name = name.replace("{}", program);
                let quotes = name.contains(['"', '\'', '\\']);
                // The grammar cannot parse these, and so they ask.
                let is_odd = name.starts_with('$') && spelling.contains("<<");
                if is_odd || (quotes && spelling.contains(['"', '\'', '`'])) {
                    continue;
                }
                let text = spelling.replace("{}", &format!("{name} {words}"));
                n_tried += 1;
                n_missed += usize::from(!naive(&text, program));
                if ruled(&shell(&text), &unknown(&text), &rules).0 != Verdict::Deny {
                    wrong.push(text);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} are not found: {wrong:#?}", wrong.len());
    assert!(60 <= SPELLINGS.len() && n_tried / 2 < n_missed, "{n_missed} of {n_tried}");
}

#[test]
fn what_may_hide_a_program_asks() {
    let place = place();
    let rules = rules(&["deny: git push *"], Profile::Full);
    for text in UNCLEAR {
        let found = judged(&place, text, &rules);
        assert!(found.0 != Verdict::Allow && found.1 == RULE, "{text}: {found:?}");
    }
}

/// Each took seconds, and a call waited for it.
#[test]
fn nesting_costs_no_time() {
    let place = place();
    let rules = rules(&["deny: git push *"], Profile::Full);
    for (start, text, n) in [
        ("", "strace ", 60),
        ("find . ", "-exec sudo xargs env nice ", 600),
        ("", "find . -exec strace ", 30),
        ("", "nice --x ", 60),
        ("", "a && ", 10_000),
        ("", "strace env nice sudo ", 500),
    ] {
        let text = format!("{start}{}{}", text.repeat(n), "a ".repeat(3_000));
        let since = std::time::Instant::now();
        let found = judged(&place, &text, &rules);
        let took = since.elapsed();
        // Without optimizations and beside others.
        assert!(took < std::time::Duration::from_secs(5), "{took:?}: {:.60}", text);
        assert_eq!(found.0, Verdict::Ask, "{:.60}", text);
    }
}

/// An allow rule covers words, and not what the shell makes of two lines.
#[test]
fn joined_lines_are_covered_by_nothing() {
    let place = place();
    let rules = rules(&["allow: git push *", "allow: make *"], Profile::Workspace);
    for text in [
        "git push\\\n-x y",
        "make\\\ninfo x",
        "make -v; sort a.txt -\\\no made.txt",
        "make; cat sub/../.\\\n./.\\\n./etc/hostname",
    ] {
        assert_eq!(judged(&place, text, &rules).0, Verdict::Ask, "{text}");
    }
    for text in ["make \\\n  all", "git push \\\n--all"] {
        assert_eq!(judged(&place, text, &rules).0, Verdict::Allow, "{text}");
    }
}

#[test]
fn what_only_reads_like_a_program_is_none() {
    let rules = rules(&["deny: rm *"], Profile::Workspace);
    let place = place();
    for text in [
        "echo rm x",
        "grep rm a.txt",
        "cat a.txt # rm x",
        "cat <<'E'\nrm x\n$(rm y)\nE",
        "echo '$(rm x)'",
        "command -v rm",
        "type rm",
        "which rm",
        "ls rm",
        "git log --grep=rm",
    ] {
        let found = judged(&place, text, &rules);
        assert_ne!(found.1, RULE, "{text}: {}", found.2);
    }
}

/// Returns a call that runs a command, judged.
fn call(place: &TempDir, text: &str, rules: &Rules) -> Judged {
    called(place, text, false, rules)
}

fn called(place: &TempDir, text: &str, has_terminal: bool, rules: &Rules) -> Judged {
    let (guard, _) = guarded(place.path());
    let claim = Claim::new("cwd", None, Access::Search);
    let command = Command {
        argument: "command",
        line: shell(text),
        keeps_cwd: false,
        has_terminal,
        programs: Vec::new(),
        needs: None,
    };
    guard
        .contain(&[claim], None, None)
        .unwrap()
        .with_command(command, rules, &[Case::COMMAND])
        .unwrap()
        .judge(&Case::COMMAND, rules)
}

/// The words do not hold text that is typed later.
#[test]
fn a_terminal_asks_whatever_covers_its_words() {
    let place = place();
    let granted = call(&place, "git commit -m x", &Rules::default()).always().unwrap();
    for (text, written, verdict, rule) in [
        ("git commit", "allow: git commit *", Verdict::Ask, "shell.terminal"),
        ("cat a.txt", "allow: cat *", Verdict::Ask, "shell.terminal"),
        ("git commit", "deny: git commit *", Verdict::Deny, RULE),
    ] {
        let rules = rules(&[written], Profile::Workspace);
        let judged = called(&place, text, true, &rules);
        assert_eq!(judged.always(), None, "{text} {written}");
        let ruling = judged.granted(&granted).ruling().clone();
        assert_eq!((ruling.verdict, ruling.rule), (verdict, rule), "{text} {written}");
    }
}

/// Checks what a command is granted as, what that covers, and what it does not.
fn check_grant((asked, always): (&str, Option<&str>), covered: &[&str], others: &[&str]) {
    let place = place();
    let none = Rules::default();
    let patterns = call(&place, asked, &none).always();
    let shown = patterns
        .as_ref()
        .map(|patterns| patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    assert_eq!(shown.as_deref(), always, "{asked}");
    let patterns = patterns.unwrap_or_default();
    for (text, expected) in covered
        .iter()
        .map(|text| (text, (Verdict::Allow, "grant")))
        .chain(others.iter().map(|text| (text, (Verdict::Ask, "shell.*"))))
    {
        let judged = call(&place, text, &none).granted(&patterns);
        let (verdict, rule) = (judged.ruling().verdict, judged.ruling().rule);
        assert!(verdict == expected.0 && name_matches(expected.1, rule), "{asked}: {text}: {rule}");
        assert_eq!(judged.by_ruling().is_some(), verdict == Verdict::Allow);
    }
    // The author of a rule is asked all the same.
    for (verdict, expected) in [("ask: *", Verdict::Ask), ("deny: *", Verdict::Deny)] {
        let strict = rules(&[verdict], Profile::Workspace);
        for text in covered {
            let judged = call(&place, text, &strict);
            assert!(judged.always().is_none(), "{text}");
            assert_eq!(judged.granted(&patterns).ruling().verdict, expected, "{text}");
        }
    }
    let read_only = rules(&[], Profile::ReadOnly);
    for text in covered {
        let judged = call(&place, text, &read_only).granted(&patterns);
        assert_eq!(judged.ruling().verdict, Verdict::Deny, "{text}");
    }
}

/// A call that was asked about once is granted for the session, and covers no more than was shown.
#[test]
fn grants_cover_what_was_shown() {
    for (asked, always, covered, others) in [
        (
            "git commit -m x",
            Some("git commit *"),
            &["git commit", "git commit -a -m 'a b'", "git commit && cat a.txt"][..],
            &[
                "git commit-tree x",
                "git commit x; rm y",
                "git commit $(x)",
                "git commit \"$X\"",
                "git commit > f",
                "sudo git commit",
                "FOO=1 git commit",
                "git -C . commit",
                "/usr/bin/git commit",
                "git commit &",
                "git commit <<E\nx\nE",
                "git() { rm y; }; git commit",
                "git commit *",
            ][..],
        ),
        (
            "npm run build; cargo test | tail -3; cargo test -q",
            Some("npm run build, cargo test, cargo test *"),
            &["npm run build", "cargo test -p x"],
            &["npm run other", "npm run build -x", "cargo build"],
        ),
        ("./x a", Some("./x a"), &["./x a"], &["./x b", "./x", "./x a b"]),
        ("git commit -m $X", None, &[], &["git commit -m a"]),
        ("git commit > f", None, &[], &["git commit"]),
        ("sudo git commit", None, &[], &["sudo git commit"]),
        ("X=1 git commit", None, &[], &["git commit"]),
        ("git commit; python -c x", None, &[], &["git commit"]),
        ("echo \"a", None, &[], &[]),
        ("cat a.txt", None, &[], &["touch x"]),
    ] {
        check_grant((asked, always), covered, others);
    }
}

/// With other words they do something else for good.
#[test]
fn what_publishes_is_granted_by_its_words() {
    for (asked, always, covered, others) in [
        (
            "git push origin main",
            Some("git push origin main"),
            &["git push origin main", "git push origin main && cat a.txt"][..],
            &[
                "git push origin main --force",
                "git push --force origin main",
                "git push origin other",
                "git push origin",
                "git push",
                "/usr/bin/git push origin main",
            ][..],
        ),
        ("git push", Some("git push"), &["git push"], &["git push -f", "git push origin"]),
        ("git push --dry-run", Some("git push --dry-run"), &[], &["git push", "git push -f"]),
        (
            "npm test; npm publish --tag x",
            Some("npm test, npm publish --tag x"),
            &["npm publish --tag x"],
            &["npm publish", "npm publish --tag y", "npm publish --tag x --access public"],
        ),
        ("git push 'a b'", None, &[], &[]),
        // The same words lead to one that publishes.
        ("yarn npm audit -A", Some("yarn npm *"), &["yarn npm audit"], &["yarn npm publish"]),
    ] {
        check_grant((asked, always), covered, others);
    }
}

/// A command that names what it needs, in a directory of the root.
#[derive(Clone, Copy)]
struct Needing {
    text: &'static str,
    needs: &'static [&'static str],
    cwd: &'static str,
    agent: Option<&'static str>,
}

fn needing(place: &TempDir, call: Needing, rules: &Rules) -> Judged {
    let (guard, _) = guarded(place.path());
    let list: Vec<Need> = call.needs.iter().map(|need| Need::parse(need).unwrap()).collect();
    let lent = list.iter().filter_map(|need| {
        let (path, is_writable) = need.path()?;
        let path = Some(path.display().to_string());
        Some(Claim::new("needs", path, Access::Lend { is_writable }))
    });
    let cwd = Claim::new("cwd", Some(call.cwd.to_owned()), Access::Search);
    let claims: Vec<Claim> = std::iter::once(cwd).chain(lent).collect();
    let command = Command {
        argument: "command",
        line: shell(call.text),
        keeps_cwd: false,
        has_terminal: false,
        programs: Vec::new(),
        needs: Some(Needs { list, why: String::from("to try it") }),
    };
    let case = Case { agent: call.agent, ..Case::COMMAND };
    let contained = guard.contain_command(&claims, None, None).unwrap();
    contained.with_command(command, rules, &[case]).unwrap().judge(&case, rules)
}

/// An answer lets one text out of the sandbox, in one directory and with the same needs.
#[test]
fn only_the_same_text_leaves_the_sandbox() {
    const OUT: &[&str] = &["unsandboxed"];
    let place = place();
    fs::write(place.path().join("work/sub/own.sh"), "true\n").unwrap();
    let none = Rules::default();
    let asked = Needing { text: "deploy a", needs: OUT, cwd: "sub", agent: None };
    let granted = needing(&place, asked, &none).always().unwrap();
    let shown: Vec<_> = granted.iter().map(ToString::to_string).collect();
    let dir = fs::canonicalize(place.path().join("work/sub")).unwrap();
    let expected = format!("\"deploy a\" in {} with needs unsandboxed", dir.display());
    assert_eq!(shown, [expected]);
    // A rule of the same words, which no file can hold.
    let mut words = rule("allow: deploy *");
    words.when.needs = vec![Need::Unsandboxed];
    for (call, expected) in [
        (asked, true),
        (Needing { agent: Some("helper"), ..asked }, true),
        (Needing { text: "deploy a b", ..asked }, false),
        (Needing { text: "deploy  a", ..asked }, false),
        (Needing { text: "deploy", ..asked }, false),
        (Needing { text: "deploy a; deploy a", ..asked }, false),
        (Needing { cwd: ".", ..asked }, false),
        (Needing { needs: &["unsandboxed", "network"], ..asked }, false),
        (Needing { needs: &["unsandboxed", "write:/var/log"], ..asked }, false),
        (Needing { needs: &["network"], ..asked }, false),
    ] {
        let found = |granted: &[Rule]| {
            let judged = needing(&place, call, &none).granted(granted);
            judged.ruling().verdict == Verdict::Allow
        };
        assert_eq!(found(&granted), expected, "{} in {} {:?}", call.text, call.cwd, call.needs);
        assert!(!found(std::slice::from_ref(&words)), "{}", call.text);
        // The same answer for always.
        let stored =
            Rules { rules: granted.iter().cloned().map(Arc::new).collect(), ..none.clone() };
        let ruling = needing(&place, call, &stored).ruling().clone();
        assert_eq!(ruling.verdict == Verdict::Allow, expected, "{}: {}", call.text, ruling.why);
    }
    for (written, verdict) in [
        ("ask: deploy *", Verdict::Ask),
        ("deny: deploy *", Verdict::Deny),
        ("ask: *", Verdict::Ask),
    ] {
        let mut strict = rules(&[written], Profile::Full);
        assert!(needing(&place, asked, &strict).always().is_none(), "{written}");
        let judged = needing(&place, asked, &strict).granted(&granted);
        assert_eq!(judged.ruling().verdict, verdict, "{written}");
        strict.rules.extend(granted.iter().cloned().map(Arc::new));
        assert_eq!(needing(&place, asked, &strict).ruling().verdict, verdict, "{written}");
    }
    let of_agent = Needing { agent: Some("one"), ..asked };
    let granted = needing(&place, of_agent, &none).always().unwrap();
    for (agent, expected) in [(Some("one"), true), (Some("other"), false), (None, false)] {
        let judged = needing(&place, Needing { agent, ..asked }, &none).granted(&granted);
        assert_eq!(judged.ruling().verdict == Verdict::Allow, expected, "{agent:?}");
    }
    for (text, expected) in [
        ("sudo systemctl restart x", true),
        ("git -C . fetch", true),
        ("git -C . push", false),
        ("docker compose up -d", false),
        ("docker ps", true),
        ("env -C bin ./tool", false),
        ("sh missing.sh", false),
        ("ls ./missing", false),
        ("deploy | tail -1", true),
        ("cat missing.txt", true),
        // Other calls may change it.
        ("./own.sh a", false),
        ("sh own.sh", false),
        ("deploy $X", false),
        ("deploy > f", false),
        ("deploy \"a", false),
        ("deploy a\ndeploy b", false),
        ("deploy a\u{202e}b", false),
        ("touch .envrc", false),
    ] {
        let always = needing(&place, Needing { text, ..asked }, &none).always();
        assert_eq!(always.is_some(), expected, "{text:?}");
    }
}

/// Rules, of which some are taken in some order.
const SOME: &[&str] = &[
    "deny: git push *",
    "ask: git push *",
    "allow: git push *",
    "allow: *",
    "ask: git *",
    "deny: git|svn * --force",
    "allow: git commit *",
    "deny: rm *",
    "ask: make",
    "allow: make *",
];

/// Commands that they are tried on.
const LINES: &[&str] = &[
    "git push",
    "git push origin --force",
    "git commit -m a",
    "git $X",
    "make",
    "make all && git commit",
    "sudo rm -rf x",
    "cat a.txt",
    "ls \"a",
];

/// What the pairs of rules and commands are found to be, worked out once.
fn analyses() -> Vec<(CommandLine, Analysis)> {
    let place = place();
    LINES.iter().map(|text| (shell(text), analysed(place.path(), text))).collect()
}

#[test]
fn the_order_of_rules_changes_no_verdict() {
    let analyses = analyses();
    let chosen = prop::sample::subsequence(SOME, 0..=SOME.len());
    let orders = chosen.prop_flat_map(|some| (Just(some.clone()), Just(some).prop_shuffle()));
    let config = ProptestConfig::with_cases(u32::try_from(rounds(200)).unwrap());
    proptest!(config, |((one, other) in orders, line in 0..LINES.len())| {
        let (line, analysis) = &analyses[line];
        let [one, other] = [one, other].map(|some| ruled(line, analysis, &rules(&some, Profile::Workspace)));
        prop_assert_eq!((one.0, one.1), (other.0, other.1));
    });
}

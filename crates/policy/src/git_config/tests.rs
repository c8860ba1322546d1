//! The list of keys and the parser against git itself.
#![expect(clippy::disallowed_methods, reason = "git is asked")]

use std::process::Command;

use super::*;

const BEFORE: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\thooksPath = .husky\n\
                      [alias]\n\tst = status\n[remote \"origin\"]\n\turl = https://example.org/a.git\n\
                      \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\
                      \tmerge = refs/heads/main\n";

#[track_caller]
fn check(before: &str, after: &str, of: ConfigOf, expected: Result<(), &str>) {
    match (judge(before.as_bytes(), after.as_bytes(), of), expected) {
        (Ok(()), Ok(())) => {}
        (Err(why), Err(words)) => assert!(why.contains(words), "{after}: {why}"),
        (judged, expected) => panic!("{after}: {judged:?}, not {expected:?}"),
    }
}

#[track_caller]
fn check_added(added: &str, expected: Result<(), &str>) {
    check(BEFORE, &format!("{BEFORE}{added}\n"), ConfigOf::Repository, expected);
}

#[test]
fn harmless_keys_are_set() {
    for added in [
        "[user]\n\tname = A B\n\temail = a@b.c",
        "[remote \"up\"]\n\turl = git@example.org:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/up/*",
        "[remote \"near\"]\n\turl = ../bare.git",
        "[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n\trebase = true",
        "[branch \"x\"]\n\tremote = .\n\tmerge = refs/heads/main",
        "[core]\n\tfilemode = false\n\tfsmonitor = false\n\tautocrlf = input",
        "[color \"diff\"]\n\told = red",
        "[pager]\n\tlog = false",
        "[submodule \"sub\"]\n\turl = ../sub.git\n\tactive = true",
        "[extensions]\n\tworktreeConfig = true",
        "[diff]\n\talgorithm = histogram",
        "[gc]\n\tauto = 0\n\tpruneExpire = 2.weeks.ago",
    ] {
        check_added(added, Ok(()));
    }
    check(BEFORE, BEFORE, ConfigOf::Repository, Ok(()));
}

#[test]
fn executing_keys_are_refused() {
    for (added, why) in [
        ("[core]\n\tfsmonitor = ./x", "`core.fsmonitor = ./x` has a value"),
        ("[core]\n\tsshCommand = ./x", "`core.sshcommand` makes git execute"),
        ("[CORE]\n\tSSHCOMMAND = ./x", "`core.sshcommand` makes git execute"),
        ("[core]\n\thooksPath = x", "`core.hookspath` makes git execute"),
        ("[alias]\n\tst = !x", "`alias.st` makes git execute"),
        ("[alias \"a\"]\n\tcommand = !x", "`alias.a.command` makes git execute"),
        ("[filter \"a\"]\n\tclean = x", "`filter.a.clean` makes git execute"),
        ("[diff \"a\"]\n\ttextconv = x", "`diff.a.textconv` makes git execute"),
        ("[diff \"a\"]\n\tunheardof = x", "`diff.a.unheardof` is not a key"),
        ("[diff.a]\n\tcommand = x", "`diff.a.command` makes git execute"),
        ("[pager]\n\tlog = ./x", "`pager.log = ./x` has a value"),
        ("[include]\n\tpath = x", "`include.path` makes git execute"),
        ("[includeIf \"gitdir:x\"]\n\tpath = x", "makes git execute"),
        ("[remote \"x\"]\n\turl = ext::sh -c x", "has an address"),
        ("[remote \"x\"]\n\turl = -u", "has an address"),
        ("[remote \"x\"]\n\turl = ssh://-oProxyCommand=x/a", "has an address"),
        ("[remote \"x\"]\n\turl = -oProxyCommand=x:a", "has an address"),
        ("[remote \"x\"]\n\turl = /tmp/planted", "has an address"),
        ("[remote \"x\"]\n\turl = node_modules/planted", "has an address"),
        ("[remote \"origin\"]\n\turl = https://evil.org/a", "has a value already"),
        ("[remote \"origin\"]\n\tuploadpack = x", "makes git execute"),
        ("[branch \"main\"]\n\tremote = origin\n", "has a value already"),
        ("[branch \"y\"]\n\tremote = https://evil.org", "names a remote that is not there"),
        ("[branch \"y\"]\n\tmergeOptions = -X x", "may name programs"),
        ("[submodule \"a\"]\n\tupdate = !x", "is not on the list"),
        ("[core]\n\tworktree = ../..", "leads to another working tree"),
        ("[unheard]\n\tof = x", "`unheard.of` is not a key"),
        ("[user]\n\tname = a\\nb", "is not on the list"),
        ("[user]\n\tname = \"a", "line 14 cannot be read for sure"),
        ("[user\n\tname = a", "cannot be read for sure"),
        ("[user] name = a\n[core] sshCommand = x", "`core.sshcommand` makes git execute"),
        ("[core]\n\tfilemode = true \\\n\t[core] sshCommand = x", "`core.filemode"),
        ("[core] sshCommand", "`core.sshcommand` makes git execute"),
        ("[diff \"external\0\"]\n\txfuncname = x", "control characters"),
        ("[remote \"origin\"]\n\tmirror = true", "makes a push delete"),
    ] {
        check_added(added, Err(why));
    }
}

#[test]
fn what_is_taken_out_must_be_harmless_too() {
    let without = |line: &str| BEFORE.replace(line, "");
    check(BEFORE, &without("\thooksPath = .husky\n"), ConfigOf::Repository, Err("core.hookspath"));
    check(BEFORE, "", ConfigOf::Repository, Err("makes git execute"));
    check(BEFORE, &without("\turl = https://example.org/a.git\n"), ConfigOf::Repository, Ok(()));
    let plain = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = a\n";
    check(plain, "", ConfigOf::Repository, Ok(()));
    // The last of several values counts, so their order does.
    let two = "[core]\n\tsshCommand = a\n\tsshCommand = b\n";
    let turned = "[core]\n\tsshCommand = b\n\tsshCommand = a\n";
    check(two, turned, ConfigOf::Repository, Err("core.sshcommand"));
}

#[test]
fn submodules_have_their_working_tree_inside() {
    let with = |path: &str| format!("[core]\n\tworktree = {path}\n");
    for (n_levels, path, is_ok) in [
        (3, "../../../sub", true),
        (3, "../../../libs/sub", true),
        (3, "../../../../sub", false),
        (3, "../../../.git/hooks", false),
        (3, "../../../a/../../b", false),
        (3, "/tmp", false),
        (3, "../../..", false),
        (5, "../../../../../a/b", true),
    ] {
        let expected = if is_ok { Ok(()) } else { Err("leads to another working tree") };
        check("", &with(path), ConfigOf::Submodule { n_levels }, expected);
    }
    check("", &with("../x"), ConfigOf::Gitmodules, Err("leads to another working tree"));
}

/// Every key that git names has a row, and no row is for keys that another one takes before it.
#[test]
fn every_key_of_git_has_a_fate() {
    let Ok(output) = Command::new("git").args(["help", "--config-for-completion"]).output() else {
        panic!("git does not start")
    };
    let listed = String::from_utf8(output.stdout).expect("text");
    let mut missing = Vec::new();
    let mut n = 0;
    for key in listed.split_whitespace() {
        // A section whose keys have names of the user's own.
        let key = if key.ends_with('.') { format!("{key}any.cmd") } else { key.to_owned() };
        let of_section = key.strip_suffix(".any.cmd").map(str::to_owned);
        let known = fate_of(&key).is_some()
            || of_section.is_some_and(|section| {
                let section = section.to_ascii_lowercase();
                KEYS.iter().any(|(pattern, _)| pattern.split('.').next() == Some(&*section))
            });
        n += 1;
        if !known {
            missing.push(key);
        }
    }
    assert!(800 < n, "git names only {n} keys");
    assert!(missing.is_empty(), "{missing:?}");
    for (at, (pattern, _)) in KEYS.iter().enumerate() {
        let plain = pattern.replace("**", "any").replace('*', "any");
        let first = KEYS.iter().position(|(pattern, _)| {
            let (section, rest) = plain.split_once('.').expect("a key");
            let (subsection, name) = match rest.rsplit_once('.') {
                Some((subsection, name)) => (Some(subsection.to_owned()), name),
                None => (None, rest),
            };
            let name = name.to_owned();
            is_meant(pattern, &Key { section: section.to_owned(), subsection, name })
        });
        assert_eq!(first, Some(at), "{pattern}");
    }
}

/// What git reads from a configuration, this parser reads too, or it refuses the whole.
#[test]
fn git_reads_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    for text in [
        BEFORE,
        "[a]b=c",
        "[a \"B c\\\"d\"]\n x-y = 1 # comment\n z = \"a # b\" c ; d\n",
        "[a.B]\nk = v\n",
        "[A]\n\tKey =   spaced   out  \n\tother\n",
        "[a]\n\tb = one \\\n   two\n",
        "[a]\n\tb = \"x\\ty\\\\z\\n\"\n",
        "\u{feff}[a]\nb = c\n",
        "[a]\r\nb = c\r\n",
        "[a]\nb = \"open\n",
        "[a]\nb = \\q\n",
        "[a\nb = c\n",
        "[a]\n1b = c\n",
        "[a \"x\"y]\nb = c\n",
        "# only\n; comments\n",
        "[a] b = c ; d\n[e]\n",
        "[a]\nb = \"\"\n",
        "[a]\nb =\n",
        "[a]\nb = c\\\n",
        "[a \"\"]\nb = c\n",
    ] {
        std::fs::write(&file, text).expect("a file");
        let output = Command::new("git")
            .args(["config", "--list", "--null", "--file"])
            .arg(&file)
            .env("LC_ALL", "C")
            .output()
            .expect("git starts");
        let theirs = output.status.success().then(|| {
            let listed = String::from_utf8_lossy(&output.stdout).into_owned();
            let entries = listed.split_terminator('\0').map(|entry| match entry.split_once('\n') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (entry.to_owned(), None),
            });
            entries.collect::<Vec<_>>()
        });
        let ours = parse(text.as_bytes()).ok().map(|entries| {
            entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect::<Vec<_>>()
        });
        if ours.is_some() {
            assert_eq!(ours, theirs, "{text:?}");
        }
        if theirs.is_some() && ours.is_none() {
            assert!(text.contains("\\\n") || text.contains('"'), "{text:?} is refused");
        }
    }
}

/// Makes each key that executes a program do so.
const CONTROLS: &[(&str, &str)] = &[
    (
        "core.alternaterefscommand",
        "git init -q o; echo $PWD/o/.git/objects >.git/objects/info/alternates; \
         git config core.alternateRefsCommand \"touch $PWNED;true\"; git fetch -q ../src",
    ),
    (
        "core.askpass",
        "git config core.askPass $PROGRAM; echo url=https://x.invalid | git credential fill",
    ),
    ("core.editor", "git config core.editor $PROGRAM; git commit --allow-empty"),
    ("core.gitproxy", "git config core.gitProxy $PROGRAM; git fetch git://127.0.0.1/x"),
    (
        "core.hookspath",
        "mkdir h; cp $PROGRAM h/pre-commit; git config core.hooksPath h; git commit --allow-empty -m x",
    ),
    ("core.pager", "git config core.pager $PROGRAM; script -qec 'git log' /dev/null"),
    ("core.sshcommand", "git config core.sshCommand $PROGRAM; git fetch ssh://x/y"),
    (
        "remote.*.uploadpack",
        "git config remote.o.url $PWD/../src; git config remote.o.uploadpack $PROGRAM; git fetch o",
    ),
    (
        "remote.*.receivepack",
        "git config remote.o.url $PWD/../src; git config remote.o.receivepack $PROGRAM; git push o HEAD:x",
    ),
    (
        "remote.*.vcs",
        "git config remote.o.vcs ext; git config remote.o.url \"touch $PWNED\"; \
         git -c protocol.ext.allow=always fetch o",
    ),
    (
        "gc.recentobjectshook",
        "git config gc.recentObjectsHook $PROGRAM; o=$(echo old | git hash-object -w --stdin); \
         touch -d '2 days ago' .git/objects/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-); \
         git repack -q -d --cruft --cruft-expiration=1.day.ago",
    ),
    (
        "merge.*.driver",
        "echo '* merge=x' >.gitattributes; git config merge.x.driver $PROGRAM; git merge other",
    ),
    (
        "mergetool.*.cmd",
        "git config mergetool.x.cmd $PROGRAM; git merge other; git mergetool -y --tool=x",
    ),
    (
        "mergetool.*.path",
        "git config mergetool.meld.path $PROGRAM; git merge other; git mergetool -y --tool=meld",
    ),
    ("diff.external", "git config diff.external $PROGRAM; git diff HEAD~1"),
    (
        "diff.*.command",
        "echo '* diff=x' >.gitattributes; git config diff.x.command $PROGRAM; git diff HEAD~1",
    ),
    (
        "diff.*.textconv",
        "echo '* diff=x' >.gitattributes; git config diff.x.textconv $PROGRAM; git diff HEAD~1",
    ),
    ("difftool.*.cmd", "git config difftool.x.cmd $PROGRAM; git difftool -y -t x HEAD~1"),
    ("difftool.*.path", "git config difftool.meld.path $PROGRAM; git difftool -y -t meld HEAD~1"),
    ("tar.*.command", "git config tar.x.command $PROGRAM; git archive --format=x HEAD"),
    (
        "trailer.*.command",
        "git config trailer.x.key X; git config trailer.x.command $PROGRAM; echo m | git interpret-trailers --trailer x=1",
    ),
    (
        "trailer.*.cmd",
        "git config trailer.x.key X; git config trailer.x.cmd $PROGRAM; echo m | git interpret-trailers --trailer x=1",
    ),
    ("alias.**", "git config alias.up \"!$PROGRAM\"; git up"),
    ("browser.*.cmd", "git config browser.x.cmd $PROGRAM; git web--browse -b x http://x.invalid"),
    (
        "credential.**",
        "git config credential.helper $PROGRAM; echo url=https://x.invalid | git credential fill",
    ),
    (
        "filter.**",
        "echo '* filter=x' >.gitattributes; git config filter.x.clean $PROGRAM; git add .",
    ),
    ("gpg.program", "git config gpg.program $PROGRAM; git commit -S --allow-empty -m x"),
    (
        "gpg.*.program",
        "git config gpg.format ssh; git config gpg.ssh.program $PROGRAM; git config user.signingKey k; \
         git commit -S --allow-empty -m x",
    ),
    (
        "gpg.ssh.defaultkeycommand",
        "git config gpg.format ssh; git config gpg.ssh.defaultKeyCommand $PROGRAM; git commit -S --allow-empty -m x",
    ),
    (
        "include.**",
        "git config -f i core.fsmonitor $PROGRAM; git config include.path ../i; git status",
    ),
    (
        "includeif.**",
        "git config -f i core.fsmonitor $PROGRAM; git config includeIf.onbranch:main.path ../i; git status",
    ),
    (
        "interactive.difffilter",
        "git config interactive.diffFilter $PROGRAM; echo x >>a; echo n | git -c color.ui=always add -p",
    ),
    ("sequence.editor", "git config sequence.editor $PROGRAM; git rebase -i HEAD~1"),
    (
        "url.**",
        "git config \"url.ext::touch $PWNED .insteadOf\" x:; git -c protocol.ext.allow=always fetch x:y",
    ),
];

/// A repository with two commits, and a branch that conflicts.
const GROUND: &str = "git init -q src; git -C src commit -q --allow-empty -m s; git init -q r; cd r; echo 1 >a; \
    git add .; git commit -qm 1; git switch -qc other; echo 2 >a; git commit -qam 2; git switch -q main; \
    echo 3 >a; git commit -qam 3; export PWNED=$PWD/../PWNED PROGRAM=$PWD/../program; \
    printf '#!/bin/sh\\ntouch \"%s\"\\n' \"$PWNED\" >$PROGRAM; chmod +x $PROGRAM; ";

#[test]
fn keys_that_execute_do_so() {
    let executing = KEYS.iter().filter(|(_, fate)| *fate == Fate::Executes);
    let without = executing.filter(|(key, _)| !CONTROLS.iter().any(|(of, _)| of == key));
    let without: Vec<_> = without.map(|(key, _)| key).collect();
    assert!(without.is_empty(), "no control for {without:?}");
    let mut idle = Vec::new();
    for (key, control) in CONTROLS {
        let dir = tempfile::tempdir().expect("a directory");
        let output = Command::new("/bin/sh")
            .args(["-c", &format!("{GROUND}{control}")])
            .current_dir(dir.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(
                [
                    "GIT_AUTHOR_NAME",
                    "GIT_AUTHOR_EMAIL",
                    "GIT_COMMITTER_NAME",
                    "GIT_COMMITTER_EMAIL",
                ]
                .map(|name| (name, "a")),
            )
            .envs([
                ("GIT_CONFIG_COUNT", "1"),
                ("GIT_CONFIG_KEY_0", "init.defaultBranch"),
                ("GIT_CONFIG_VALUE_0", "main"),
            ])
            .stdin(std::process::Stdio::null())
            .output()
            .expect("a shell");
        if !dir.path().join("PWNED").exists() {
            idle.push(format!("{key}: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    assert!(idle.is_empty(), "these execute nothing: {idle:#?}");
}

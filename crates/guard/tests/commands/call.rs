//! Commands as calls name them: refusals, kept output, and how a call is taken back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use sinew_guard::{Helper, SandboxLevel, UsageLimits};
use sinew_tool::{
    Cancel, Command, CommandLine, Exit, Finished, Kind, Moved, RunOptions, Shell, World,
};

use crate::hazards::{number, sleepers};
use crate::probes::make_private;
use crate::world::{CACHE, Place, alone, beside_others, block_on, options, tokio_runtime, works};

type Case = fn(&Place) -> Result<(), Failed>;
type OnLevel = fn(&Helper, SandboxLevel) -> Result<(), Failed>;

const CASES: &[(&str, Case)] = &[
    ("what cannot be run is refused", refused),
    ("a program gets its arguments as they are", argv),
    ("input is given and ends", input),
    ("a program that the system does not start is told", not_started),
    ("sockets of its own are reached", sockets),
    ("a virtual environment comes first", venv),
    ("a command starts where the last one ended", keeps_its_place),
    ("what watches a command ends with it alone", lost),
    ("commands one after another leave nothing to the next", one_after_another),
    ("a long output is stored whole", stored),
    ("a call that is taken back ends its command", cancelled),
    ("a call that nobody waits for ends its command", dropped),
    ("a directory that was exchanged is not entered", exchanged),
    ("what is written to a cache stays with the session", cached),
    ("of a private directory only what is shown is there", private),
    ("of a list of programs no other runs", listed),
    ("a file gets the umask that its process has by then", umasks),
    ("a command gets no more variables than its row names", variables),
    ("no more commands run at once than the row allows", at_once),
];

pub(crate) fn trials(helper: &Helper) -> Vec<Trial> {
    let of = |name: &'static str, case: Case| {
        SandboxLevel::ALL.map(|level| {
            let helper = helper.clone();
            Trial::test(format!("call: {name} on {level}"), move || {
                let _turn = beside_others();
                if works(&helper, level) { case(&Place::new(&helper, level)) } else { Ok(()) }
            })
        })
    };
    let mut trials: Vec<_> = CASES.iter().flat_map(|&(name, case)| of(name, case)).collect();
    trials.extend(SandboxLevel::ALL.map(|level| {
        let helper = helper.clone();
        Trial::test(format!("call: processes without end are bounded on {level}"), move || {
            // Without a namespace the bound is on all processes of the user.
            let _turn = alone();
            if works(&helper, level) { bomb(&Place::new(&helper, level)) } else { Ok(()) }
        })
    }));
    trials.extend(SandboxLevel::ALL.map(|level| {
        let helper = helper.clone();
        Trial::test(format!("call: a full disk is told on {level}"), move || {
            let _turn = beside_others();
            if works(&helper, level) { full_disk(&helper, level) } else { Ok(()) }
        })
    }));
    trials.extend(SandboxLevel::ALL.map(|level| {
        let helper = helper.clone();
        Trial::test(
            format!("call: changes are kept where checkpoints are on, on {level}"),
            move || {
                let _turn = beside_others();
                if works(&helper, level) { kept(&helper, level) } else { Ok(()) }
            },
        )
    }));
    let usage: [(_, OnLevel); 2] =
        [("memory of all processes is bounded", memory), ("a disk keeps a floor", floor)];
    for (name, case) in usage {
        trials.extend(SandboxLevel::ALL.map(|level| {
            let helper = helper.clone();
            Trial::test(format!("call: {name} on {level}"), move || {
                let _turn = beside_others();
                if works(&helper, level) { case(&helper, level) } else { Ok(()) }
            })
        }));
    }
    let helper = helper.clone();
    trials.push(Trial::test("call: no command runs that path globs do not hold for", move || {
        not_judged(&helper)
    }));
    trials
}

fn kept(helper: &Helper, level: SandboxLevel) -> Result<(), Failed> {
    for keeps in [true, false] {
        let place = match keeps {
            true => Place::new(helper, level),
            false => Place::keeping_nothing(helper, level),
        };
        fs::write(place.root.join("old"), "old")?;
        let done = place.run("rm old; echo > new", Duration::from_secs(20))?;
        let changes = done.findings.changes.map(|changes| (changes.n_made, changes.n_removed));
        // Without a sandbox no supervisor performs the calls of a command.
        let expected = (keeps && level != SandboxLevel::None).then_some((1, 1));
        that(changes == expected, || format!("{changes:?} for {expected:?}, keeping: {keeps}"))?;
    }
    Ok(())
}

/// Returns an error unless something holds.
fn that(holds: bool, words: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(words().into()) }
}

fn shell(text: &str) -> CommandLine {
    CommandLine::Shell(Shell::Posix, text.to_owned())
}

fn program(argv: &[&str]) -> CommandLine {
    CommandLine::Argv(argv.iter().map(|&arg| arg.to_owned()).collect())
}

fn sockets(place: &Place) -> Result<(), Failed> {
    const TALK: &str = r#"perl -MSocket -e '
        for $at ("own", "/tmp/own$$", "\0own$$") {
            $to = $at =~ /^\0/ ? pack("S a*", AF_UNIX, $at) : sockaddr_un($at);
            socket(L, PF_UNIX, SOCK_STREAM, 0) and bind(L, $to) and listen(L, 9) or die "listen $!";
            socket(C, PF_UNIX, SOCK_STREAM, 0) and connect(C, $to) or die "connect $!";
            accept(S, L); syswrite S, "heard\n"; print scalar <C>; unlink $at;
        }
        socket(C, PF_UNIX, SOCK_STREAM, 0); connect(C, sockaddr_un("none")) or print 0 + $!, "\n";
        connect(STDIN, sockaddr_un("none")) or print 0 + $!, "\n"'"#;
    let done = place.sh(TALK);
    let no_sockets = done.contained.level == "landlock";
    let output = String::from_utf8_lossy(&done.merged.head).into_owned();
    let expected = format!("{}2\n88\n", "heard\n".repeat(3));
    that(no_sockets || output == expected, || output.clone())
}

fn umasks(place: &Place) -> Result<(), Failed> {
    const MAKE: &str = r#"
        for round in 1 2 3 4 5 6 7 8; do
            umask 077; : > a; umask 022; : > b; (umask 007; : > c; mkdir g); : > d
            umask 027; sh -c ': > e; umask 0; : > f'; : > h
            stat -c %a a b c d e f g h | tr '\n' ' '
            rm a b c d e f h; rmdir g
        done
        python3 -c '
import os, threading
def make():
    for n in "xyz": open(n, "w")
    os.umask(0o22)
os.umask(0o77)
maker = threading.Thread(target=make)
maker.start()
maker.join()
open("u", "w")
print(*(oct(os.stat(name).st_mode & 0o777) for name in "xyzu"))'"#;
    let done = place.sh(MAKE);
    let output = String::from_utf8_lossy(&done.stdout.head).into_owned();
    let round = "600 644 660 644 640 666 770 640 ";
    let expected = round.repeat(8) + "0o600 0o600 0o600 0o644\n";
    that(output == expected, || output.clone())
}

fn venv(place: &Place) -> Result<(), Failed> {
    let bin = place.root.join("sub/.venv/bin");
    fs::create_dir_all(&bin)?;
    fs::write(bin.join("../pyvenv.cfg"), "")?;
    fs::write(bin.join("own-tool"), "#!/bin/sh\necho own $VIRTUAL_ENV\n")?;
    fs::set_permissions(bin.join("own-tool"), fs::Permissions::from_mode(0o755))?;
    let deep = place.root.join("sub/deep");
    fs::create_dir(&deep)?;
    let expected = format!("own {}\n", place.root.join("sub/.venv").display());
    for line in [shell("own-tool"), program(&["own-tool"])] {
        let world = place.world(line, &deep)?;
        let done = block_on(world.processes.run(options(Duration::from_secs(10))))?;
        that(done.stdout.head == expected.as_bytes(), || format!("{done:?}"))?;
    }
    let beside = place.world(program(&["own-tool"]), &place.root);
    that(beside.is_err(), || String::from("it holds beneath its directory alone"))
}

fn refused(place: &Place) -> Result<(), Failed> {
    fs::write(place.root.join("file"), "")?;
    fs::write(place.root.join("plain"), "text")?;
    let planted = place.root.join("bin");
    fs::create_dir(&planted)?;
    fs::write(planted.join("planted"), "#!/bin/sh\n")?;
    fs::set_permissions(planted.join("planted"), fs::Permissions::from_mode(0o755))?;
    let root = place.root.as_path();
    let long = "x".repeat(1 << 20);
    let cases: &[(CommandLine, PathBuf, Kind)] = &[
        (shell(""), root.into(), Kind::InvalidArgs),
        (shell(" \n\t"), root.into(), Kind::InvalidArgs),
        (shell("echo \0"), root.into(), Kind::InvalidArgs),
        (shell(&long), root.into(), Kind::InvalidArgs),
        (program(&[]), root.into(), Kind::InvalidArgs),
        (program(&[""]), root.into(), Kind::InvalidArgs),
        (program(&["echo", "a\0b"]), root.into(), Kind::InvalidArgs),
        (program(&["no-such-program"]), root.into(), Kind::FileNotFound),
        (program(&["./plain"]), root.into(), Kind::PermissionDenied),
        (program(&["./bin"]), root.into(), Kind::PermissionDenied),
        (program(&["planted"]), root.into(), Kind::FileNotFound),
        (shell("true"), root.join("gone"), Kind::FileNotFound),
        (shell("true"), root.join("file"), Kind::NotRegularFile),
        (shell("true"), place.outside.clone(), Kind::PathDenied),
    ];
    for (line, cwd, kind) in cases {
        let result = place.world(line.clone(), cwd);
        let found = result.as_ref().err().map(|error| error.kind);
        that(found == Some(*kind), || format!("{line:.60?} in {cwd:?}: {found:?}, not {kind:?}"))?;
    }
    Ok(())
}

fn argv(place: &Place) -> Result<(), Failed> {
    let line = program(&["printf", "%s|", "a b", "$HOME", "*", "-n", "é"]);
    let world = place.world(line, &place.root)?;
    let done = block_on(world.processes.run(options(Duration::from_secs(5))))?;
    that(done.stdout.head == "a b|$HOME|*|-n|é|".as_bytes(), || format!("{done:?}"))
}

/// The bare name had been compared alone, so a file of an allowed name ran from anywhere.
fn private(place: &Place) -> Result<(), Failed> {
    make_private(&place.outside)?;
    let text = |done: &Finished| String::from_utf8_lossy(&done.merged.head).into_owned();
    let private = place.outside.join("private");
    let at = |name: &str| private.join(name).display().to_string();
    let seen = format!("cat {} {} {}", at("tools/tool"), at("conf"), at("link"));
    let seen = text(&place.sh(&seen));
    if seen != "toolconfbeyond" {
        return Err(format!("what is shown: {seen}").into());
    }
    let done = place.sh(&format!("cat {}; cat {}/missing", at("papers/canary"), at("papers")));
    let (output, is_open) = (text(&done), done.contained.level == "none");
    let told: Vec<_> = done.findings.listed.iter().map(|one| one.grant.clone()).collect();
    let grants = match is_open {
        true => Vec::new(),
        false => ["papers/canary", "papers/missing"]
            .map(|name| format!("run.show = [\"{}\"]", at(name)))
            .to_vec(),
    };
    match output.contains("canarycat") == is_open && told == grants {
        true => Ok(()),
        false => Err(format!("{output}: {told:?}").into()),
    }
}

fn listed(place: &Place) -> Result<(), Failed> {
    fs::write(place.root.join("cat"), "#!/bin/sh\necho planted\n")?;
    fs::set_permissions(place.root.join("cat"), fs::Permissions::from_mode(0o755))?;
    for (name, expected) in [
        ("cat", Ok(&b"given"[..])),
        ("/bin/cat", Ok(b"given")),
        ("./cat", Err(Kind::PolicyDenied)),
        ("sh", Err(Kind::PolicyDenied)),
        ("/bin/sh", Err(Kind::PolicyDenied)),
        ("/none/cat", Err(Kind::FileNotFound)),
        ("no-such-program", Err(Kind::FileNotFound)),
        ("bin/..", Err(Kind::PolicyDenied)),
    ] {
        let command = Command {
            argument: "argv",
            line: program(&[name]),
            keeps_cwd: false,
            has_terminal: false,
            programs: ["cat", "no-such-program"].map(String::from).to_vec(),
            needs: None,
        };
        let run = |world: World| {
            let options =
                RunOptions { stdin: Some(b"given".to_vec()), ..options(Duration::from_secs(5)) };
            block_on(world.processes.run(options))
        };
        let done = place.world_of(command, &place.root).and_then(run);
        let found = done.as_ref().map(|done| &done.stdout.head[..]).map_err(|error| error.kind);
        that(found == expected, || format!("{name}: {found:?}, not {expected:?}"))?;
    }
    Ok(())
}

fn variables(place: &Place) -> Result<(), Failed> {
    let run = |names: &[&str]| {
        let variables = names.iter().map(|&name| String::from(name)).collect();
        let options = RunOptions { variables, ..options(Duration::from_secs(5)) };
        let world = place.world(program(&["env"]), &place.root)?;
        let done = block_on(world.processes.run(options))?;
        let text = String::from_utf8_lossy(&done.stdout.head).into_owned();
        let mut names: Vec<String> =
            text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect();
        names.retain(|name| name != "TMPDIR");
        names.sort();
        Ok::<_, Failed>(names)
    };
    let all = run(&[])?;
    that(all.iter().any(|name| name == "PAGER"), || format!("{all:?}"))?;
    let some = run(&["PATH", "NODE_ENV"])?;
    that(some == ["PATH"], || format!("{some:?}"))
}

fn at_once(place: &Place) -> Result<(), Failed> {
    let number = number();
    let begin = |text: &str| {
        let world = place.world(shell(text), &place.root)?;
        let options = RunOptions { max_at_once: Some(2), ..options(Duration::from_secs(60)) };
        Ok::<_, Failed>(world.processes.run(options))
    };
    let long = format!("sleep 9{number}");
    let (first, second) = (begin(&long)?, begin(&long)?);
    let third = block_on(begin("true")?);
    let kind = third.as_ref().err().map(|error| error.kind);
    that(kind == Some(Kind::LimitReached), || format!("{third:?}"))?;
    // A user without a limit is not counted and not refused.
    that(place.sh("true").exit == Exit::Code(0), || String::from("a command without a limit"))?;
    drop((first, second));
    let since = Instant::now();
    while block_on(begin("true")?).is_err() {
        that(since.elapsed() < Duration::from_secs(5), || String::from("no seat became free"))?;
        thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..20 {
        block_on(begin("true")?)?;
    }
    Ok(())
}

fn input(place: &Place) -> Result<(), Failed> {
    let world = place.world(shell("wc -c; cat"), &place.root)?;
    let given = vec![b'x'; 3 << 20];
    let options = RunOptions { stdin: Some(given), ..options(Duration::from_secs(10)) };
    let done = block_on(world.processes.run(options))?;
    that(done.stdout.head == b"3145728\n", || format!("{:.200?}", done.stdout))
}

fn not_started(place: &Place) -> Result<(), Failed> {
    for (content, missing) in [("#!/no/such/interpreter\n", true), ("\x7fELF or not", false)] {
        fs::write(place.root.join("odd"), content)?;
        fs::set_permissions(place.root.join("odd"), fs::Permissions::from_mode(0o755))?;
        let world = place.world(program(&["./odd"]), &place.root)?;
        let done = block_on(world.processes.run(options(Duration::from_secs(5))))?;
        let Exit::NotStarted { is_missing, why } = &done.exit else {
            return Err(format!("{content:?}: {:?}", done.exit).into());
        };
        that(*is_missing == missing, || format!("{content:?}: {why}"))?;
    }
    Ok(())
}

fn keeps_its_place(place: &Place) -> Result<(), Failed> {
    fs::create_dir_all(place.root.join("sub/deep"))?;
    let at = |text: &str, expected: Option<&str>| {
        let done = place.sh(text);
        let expected = expected.map(|at| Moved::To(place.root.join(at)));
        that(done.moved == expected, || format!("{text}: {:?}, not {expected:?}", done.moved))
    };
    at("true", None)?;
    at("cd sub", Some("sub"))?;
    at("cd sub; cd deep && exit 3", Some("sub/deep"))?;
    // A command with a directory of its own leaves the shell where it was.
    at("env --chdir=sub true", Some(""))?;
    at("(cd sub)", None)?;
    at("cd sub; sh -c 'cd deep'", Some("sub"))?;
    let done = place.sh("cd /; true");
    let stays = place.root.join("sub");
    let expected = Moved::Not { outside: PathBuf::from("/"), stays };
    that(done.moved.as_ref() == Some(&expected), || format!("{:?}", done.moved))?;
    at("true", Some(""))
}

/// What had been written by then was lost, and where nothing else ended the processes they went on.
fn lost(place: &Place) -> Result<(), Failed> {
    let number = number();
    let text = format!("echo so far; setsid sleep 9{number} & kill -9 $PPID; sleep 9{number}");
    let begun = Instant::now();
    let done = place.run(&text, Duration::from_secs(1))?;
    let output = String::from_utf8_lossy(&done.merged.head).into_owned();
    let expected = match place.sh("true").contained.level {
        "none" => Exit::Lost,
        _ => Exit::TimedOut,
    };
    that(done.exit == expected && output.starts_with("so far\n"), || format!("{done:?}"))?;
    while !sleepers(&number).is_empty() && begun.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(5));
    }
    that(sleepers(&number).is_empty(), || String::from("something is left"))
}

/// A supervisor that had left the group of its commands once served on, and what they left then lived on.
fn one_after_another(place: &Place) -> Result<(), Failed> {
    for at in 0..60 {
        place.sh(&format!("sleep 0.0{:02} & exit 0", at % 20));
    }
    for _ in 0..4 {
        let number = number();
        let begun = Instant::now();
        let text =
            format!("setsid sleep 9{number} & trap '' TERM; sleep 9{number}; sleep 9{number}");
        let done = place.run(&text, Duration::from_millis(300))?;
        that(done.exit == Exit::TimedOut, || format!("{done:?}"))?;
        that(begun.elapsed() < Duration::from_secs(3), || format!("{:?}", begun.elapsed()))?;
        that(sleepers(&number).is_empty(), || String::from("something is left"))?;
    }
    let of_the_command = "umask; ulimit -n; nice; pwd; cat /proc/self/cgroup | grep -c helper";
    let before = place.sh(of_the_command);
    place.sh("umask 0; ulimit -n 40; renice -n 5 -p $$ $PPID; cd /");
    let after = place.sh(of_the_command);
    let text = |done: &Finished| String::from_utf8_lossy(&done.merged.head).into_owned();
    that(text(&before) == text(&after), || format!("{} and then {}", text(&before), text(&after)))
}

/// The disk is full of a command's files, or of its stored output.
fn full_disk(helper: &Helper, level: SandboxLevel) -> Result<(), Failed> {
    let Some(place) = Place::small(helper, level, "2m", 0) else {
        println!("SKIPPED: mounting is not permitted here, so no disk is full");
        return Ok(());
    };
    let done = place.sh("head -c 8M /dev/zero >big; echo $?; rm big; yes | head -c 8M; echo end");
    let output = String::from_utf8_lossy(&done.merged.head).into_owned();
    that(output.contains("No space left") && output.contains("\n1\ny\n"), || output.clone())?;
    that(done.merged.tail.ends_with(b"y\nend\n"), || String::from("the end of the output"))?;
    that(done.stored.is_none(), || format!("{:?} is not whole", done.stored))?;
    let left = fs::read_dir(place.root.join(".sinew/tool-output")).map_or(0, Iterator::count);
    that(left == 0, || format!("{left} stored outputs are not whole"))?;
    that(place.sh("echo on >file; cat file").exit == Exit::Code(0), || String::from("the next"))
}

/// Ends a command whose processes hold too much together, though none holds that alone and some hide it, and leaves others.
/// In a text, `WAIT` is the time that it holds the memory.
fn memory(helper: &Helper, level: SandboxLevel) -> Result<(), Failed> {
    const HOLD: &str = r#"for n in 1 2 3 4; do perl -e '$x = "x" x (32 << 20); sleep WAIT' & done; wait; echo all"#;
    // The name of a process is any bytes.
    const NAMED: &str = r#"perl -e '$0 = "\xff\xfe"; $x = "x" x (80 << 20); sleep WAIT'; echo all"#;
    // Fork shares the pages.
    const FORKED: &str =
        r#"perl -e '$x = "x" x (30 << 20); fork; fork; sleep 1'; sleep 1; echo all"#;
    // No process is left to look.
    const CROWDED: &str = r#"perl -e 'for (1..600) { $p = fork; last unless defined $p; if (!$p) { sleep 30; exit } }
        $x = "x" x (80 << 20); sleep WAIT'; echo all"#;
    const HIDDEN: &str = "python3 -c 'import ctypes, time; ctypes.CDLL(None).prctl(4, 0); \
        x = b\"x\" * (160 << 20); time.sleep(WAIT)'; echo all";
    const HEADLESS: &str = "python3 -c 'import ctypes, threading, time\ndef hold():\n \
        x = b\"x\" * (160 << 20); time.sleep(WAIT)\n\
        threading.Thread(target=hold).start(); ctypes.CDLL(None).pthread_exit(None)'; echo all";
    // While a process starts another, both have its pages.
    const SPAWNING: &str = "python3 -c 'import subprocess\nx = b\"x\" * (60 << 20)\n\
        for n in range(500): subprocess.run([\"true\"])'; echo all";
    let mut cases =
        vec![(HOLD, 100, true), (HOLD, 400, false), (NAMED, 100, true), (FORKED, 100, false)];
    if level == SandboxLevel::Namespaces {
        // Elsewhere the user's other processes would have none either.
        cases.push((CROWDED, 100, true));
    }
    match Path::new("/usr/bin/python3").exists() {
        true => cases.extend([
            (HIDDEN, 100, true),
            (HEADLESS, 100, true),
            (HIDDEN, 400, false),
            (SPAWNING, 100, false),
        ]),
        false => println!("SKIPPED: no python3, so no process hides its memory or spawns"),
    }
    for (text, mib, is_ended) in cases {
        let usage = UsageLimits { memory_bytes: Some(mib << 20), ..UsageLimits::default() };
        let text = text.replace("WAIT", if is_ended { "30" } else { "1" });
        let done = Place::limited(helper, level, usage).run(&text, Duration::from_secs(60))?;
        let output = String::from_utf8_lossy(&done.merged.head).into_owned();
        let told = format!("{text} {:?} {:?} {output}", done.exit, done.findings.exhausted);
        that(output.contains("all") != is_ended, || told.clone())?;
        that((done.exit == Exit::Signal(9)) == is_ended, || told.clone())?;
        let words = done.findings.exhausted.unwrap_or_default();
        that(words.contains("100 MiB is the most for a command") == is_ended, || told)?;
    }
    Ok(())
}

/// Ends a command before it fills a disk.
fn floor(helper: &Helper, level: SandboxLevel) -> Result<(), Failed> {
    const FILL: &str =
        "head -c 24M /dev/zero >big; sleep 1; echo on; head -c 24M /dev/zero >more; echo $?";
    for (floor, is_ended) in [(16 << 20, true), (0, false)] {
        let Some(place) = Place::small(helper, level, "32m", floor) else {
            println!("SKIPPED: mounting is not permitted here, so no disk has a floor");
            return Ok(());
        };
        let done = place.sh(FILL);
        let output = String::from_utf8_lossy(&done.merged.head).into_owned();
        let told = format!("{:?} {:?} {output}", done.exit, done.findings.exhausted);
        that(output.contains("No space left") != is_ended, || told.clone())?;
        let words = done.findings.exhausted.unwrap_or_default();
        that(words.contains("the command was ended: ") == is_ended, || told.clone())?;
        that(words.contains("on the disk of ") == is_ended, || told)?;
        // The reply of a quick one says so, and one that takes nothing is not ended where another filled the disk.
        place.sh("rm -f big more");
        let quick = place.sh("head -c 24M /dev/zero >big");
        let words = quick.findings.exhausted.unwrap_or_default();
        that(quick.exit == Exit::Code(0) && words.contains("are free") == is_ended, || words)?;
        let later = place.sh("sleep 0.7; echo on");
        that(later.exit == Exit::Code(0) && later.findings.exhausted.is_none(), || {
            format!("{:?}", later.findings.exhausted)
        })?;
        that(place.sh("rm -f big more; echo on >file").exit == Exit::Code(0), || {
            String::from("the next")
        })?;
    }
    Ok(())
}

/// They would have opened what the globs deny.
fn not_judged(helper: &Helper) -> Result<(), Failed> {
    let none = Place::unjudged(helper);
    let error = none.run("true", Duration::from_secs(20)).expect_err("nobody judges it");
    that(error.kind == Kind::Unavailable, || format!("{error:?}"))?;
    that(error.message.contains("tools.fs.deny_paths"), || error.message.to_string())
}

fn stored(place: &Place) -> Result<(), Failed> {
    let done = place.sh("seq 1 400000; echo end >&2");
    let path = done.stored.clone().ok_or("it was stored")?;
    let whole = fs::read_to_string(place.root.join(&path))?;
    let expected: String = (1..=400_000).map(|n| format!("{n}\n")).collect();
    that(whole.replace("end\n", "") == expected, || format!("{} bytes", whole.len()))?;
    that(whole.contains("end\n"), || String::from("the other stream is missing"))?;
    that(done.merged.total == whole.len() as u64, || format!("{}", done.merged.total))?;
    that(done.merged.head == whole.as_bytes()[..done.merged.head.len()], || String::from("head"))?;
    for (text, expected) in
        [("echo short", false), ("seq 1 2000", false), ("seq 1 2000; printf begun", true)]
    {
        let is_stored = place.sh(text).stored.is_some();
        that(is_stored == expected, || format!("{text}: stored: {is_stored}"))?;
    }
    Ok(())
}

/// Waits until both sleepers of a case run.
fn until_two_sleep(number: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    while sleepers(number).len() < 2 && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
}

fn cancelled(place: &Place) -> Result<(), Failed> {
    let number = number();
    let text = format!(
        "echo on; trap 'echo bye; exit 0' TERM; setsid sleep 9{number} & sleep 9{number} & wait"
    );
    let world = place.world(shell(&text), &place.root)?;
    let cancel = Cancel::default();
    let run = RunOptions { cancel: cancel.clone(), ..options(Duration::from_secs(60)) };
    let waiting = thread::spawn({
        let number = number.clone();
        move || {
            until_two_sleep(&number);
            cancel.cancel();
            Instant::now()
        }
    });
    let done = block_on(world.processes.run(run))?;
    let since = waiting.join().map_err(|_| "the other thread")?.elapsed();
    that(done.exit == Exit::Cancelled, || format!("{:?}", done.exit))?;
    that(done.stdout.head.starts_with(b"on\n"), || format!("{done:?}"))?;
    that(since < Duration::from_secs(2), || format!("{since:?}"))?;
    that(sleepers(&number).is_empty(), || String::from("something is left"))
}

fn dropped(place: &Place) -> Result<(), Failed> {
    let number = number();
    let world =
        place.world(shell(&format!("setsid sleep 9{number} & sleep 9{number}")), &place.root)?;
    let running = world.processes.run(options(Duration::from_secs(60)));
    let waiting = thread::spawn({
        let number = number.clone();
        move || {
            until_two_sleep(&number);
        }
    });
    // The future is asked once, as its caller polls it, and then let go.
    let mut running = running;
    let tokio = tokio_runtime();
    let _entered = tokio.enter();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let _ = running.as_mut().poll(&mut context);
    waiting.join().map_err(|_| "the other thread")?;
    drop(running);
    let since = Instant::now();
    while !sleepers(&number).is_empty() && since.elapsed() < Duration::from_secs(3) {
        thread::sleep(Duration::from_millis(5));
    }
    that(sleepers(&number).is_empty(), || String::from("something is left"))
}

fn exchanged(place: &Place) -> Result<(), Failed> {
    let (dir, other) = (place.root.join("dir"), place.root.join("other"));
    fs::create_dir(&dir)?;
    fs::create_dir(&other)?;
    let swap = |from: &Path, to: &Path| fs::rename(from, to);
    let world = place.world(shell("pwd"), &dir)?;
    swap(&dir, &place.root.join("gone"))?;
    swap(&other, &dir)?;
    let error = block_on(world.processes.run(options(Duration::from_secs(5))));
    let kind = error.as_ref().err().map(|error| error.kind);
    that(kind == Some(Kind::Stale), || format!("{error:?}"))
}

/// Caches could once not be written at all: the changes lay on a mount that was read-only by then.
fn cached(place: &Place) -> Result<(), Failed> {
    let cache = place.top().join(CACHE);
    fs::write(cache.join("file"), "before\n")?;
    let level = place.sh("true").contained.level;
    if level == "namespaces" && !has_overlays(&cache) {
        println!("SKIPPED: nothing can be laid over a cache here");
        return Ok(());
    }
    let cache = cache.display();
    place.sh(&format!("cd {cache}; echo after > file; mkdir new"));
    let seen = place.sh(&format!("cd {cache}; cat file; ls -d new 2>&- || echo none"));
    let outside = fs::read_to_string(place.top().join(CACHE).join("file"))?;
    let expected = match level {
        "namespaces" => ("after\nnew\n", "before\n"),
        "landlock" | "bubblewrap" => ("before\nnone\n", "before\n"),
        _ => ("after\nnew\n", "after\n"),
    };
    let seen = String::from_utf8_lossy(&seen.merged.head).into_owned();
    that((seen.as_str(), outside.as_str()) == expected, || format!("{seen:?} {outside:?}"))
}

/// Returns whether the kernel has overlays, and can keep changes in this directory.
fn has_overlays(dir: &Path) -> bool {
    const OVERLAY: u64 = 0x794c_7630;
    let kinds = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let own = rustix::fs::statfs(dir).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(OVERLAY));
    kinds.contains("\toverlay\n") && !own
}

/// `max_processes` bounds a bomb on every level, unless the level says that nothing does.
fn bomb(place: &Place) -> Result<(), Failed> {
    let contained = place.sh("true").contained;
    if contained.missing.iter().any(|missing| missing == "bound of processes") {
        println!(
            "SKIPPED: nothing bounds the processes of root on the sandbox level {}",
            contained.level
        );
        return Ok(());
    }
    let number = number();
    let text =
        format!("i=0; while [ $i -lt 3000 ]; do sleep 9{number} & i=$((i + 1)); done; echo all");
    let done = place.run(&text, Duration::from_secs(30))?;
    let output = String::from_utf8_lossy(&done.merged.head).into_owned();
    that(!output.contains("all"), || String::from("nothing bounded it"))?;
    that(output.contains("fork"), || format!("{output:.300}"))?;
    that(done.n_left < 1_500, || format!("{} processes", done.n_left))?;
    that(sleepers(&number).is_empty(), || String::from("something is left"))
}

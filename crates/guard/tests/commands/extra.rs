//! Extra access: what a command gets that its call needs, and that no other command gets it.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use sinew_guard::{Helper, SandboxLevel};
use sinew_tool::{Command, CommandLine, Finished, Kind, Need, Needs, Shell, ToolError};

use crate::probes::make_private;
use crate::world::{AGENT, CACHE, Place, beside_others, block_on, options, works};

type Case = fn(&Place, SandboxLevel) -> Result<(), Failed>;

const CASES: &[(&str, Case)] = &[
    ("a path to read is read, and no other", reads),
    ("a path to change is changed, and no other", writes),
    ("a file can be needed by itself", file),
    ("no other command gets what one needs", alone),
    ("the network is open to that command", network),
    ("the SSH agent is lent to that command", agent),
    ("caches and temporary files are shared", shared),
    ("without a sandbox all is as the user has it", unsandboxed),
    ("a path that was replaced is not given", replaced),
    ("a path that another command replaces again and again is not given", raced),
    ("a path of temporary files is given, whatever is planted there", temporary),
    ("path globs hold in what is given", globs),
    ("of paths in one another the wider right counts", nested),
    ("what no answer gives is refused", never),
    ("changes in the roots are kept", kept),
];

pub(crate) fn trials(helper: &Helper) -> Vec<Trial> {
    let of = |name: &'static str, case: Case| {
        SandboxLevel::ALL.map(|level| {
            let helper = helper.clone();
            Trial::test(format!("extra: {name} on {level}"), move || {
                let _turn = beside_others();
                if works(&helper, level) { case(&place(&helper, level)?, level) } else { Ok(()) }
            })
        })
    };
    CASES.iter().flat_map(|&(name, case)| of(name, case)).collect()
}

fn place(helper: &Helper, level: SandboxLevel) -> Result<Place, Failed> {
    let place = Place::new(helper, level);
    make_private(&place.outside)?;
    fs::create_dir(place.outside.join("hidden"))?;
    fs::write(place.outside.join("hidden/key"), "key")?;
    fs::create_dir(place.outside.join("private/other"))?;
    fs::write(place.outside.join("private/other/canary"), "other")?;
    Ok(place)
}

fn command(text: &str, needs: Vec<Need>) -> Command {
    Command {
        argument: "command",
        line: CommandLine::Shell(Shell::Posix, text.to_owned()),
        keeps_cwd: true,
        has_terminal: false,
        programs: Vec::new(),
        needs: Some(Needs { list: needs, why: String::from("a test") }),
    }
}

/// Runs a text with needs.
fn run(place: &Place, text: &str, needs: Vec<Need>) -> Result<Finished, ToolError> {
    let world = place.world_of(command(text, needs), &place.root)?;
    block_on(world.processes.run(options(Duration::from_secs(20))))
}

fn text(done: &Finished) -> String {
    String::from_utf8_lossy(&done.merged.head).into_owned()
}

/// Fails unless a text prints something.
fn prints(done: &Finished, expected: &str) -> Result<(), Failed> {
    that(text(done) == expected, || format!("{}, not {expected}", text(done)))
}

fn that(holds: bool, words: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(words().into()) }
}

fn at(path: &Path) -> String {
    path.display().to_string()
}

fn reads(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let private = place.outside.join("private");
    let [papers, other] = ["papers", "other"].map(|name| private.join(name));
    let is_open = level == SandboxLevel::None;
    let look = format!(
        "cat {}/canary; (cat {}/canary || echo -n none; echo x >{0}/made && echo -n WROTE) 2>&-",
        at(&papers),
        at(&other)
    );
    let done = run(place, &look, vec![Need::Read(papers.clone())])?;
    prints(&done, if is_open { "canaryotherWROTE" } else { "canarynone" })?;
    that(papers.join("made").exists() == is_open, || String::from("it wrote"))?;
    // What every command sees is still seen.
    let done = run(place, &format!("cat {}/tools/tool", at(&private)), vec![Need::Read(papers)])?;
    prints(&done, "tool")
}

fn writes(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let private = place.outside.join("private");
    let papers = private.join("papers");
    let change = format!(
        "cd {}; echo one >made; rm canary; mkdir d; mv made d/; (echo x >../tools/made) 2>&- && echo -n WROTE",
        at(&papers)
    );
    let done = run(place, &change, vec![Need::Write(papers.clone())])?;
    let is_open = level == SandboxLevel::None;
    prints(&done, if is_open { "WROTE" } else { "" })?;
    that(fs::read_to_string(papers.join("d/made"))? == "one\n", || String::from("not changed"))?;
    that(!papers.join("canary").exists(), || String::from("not removed"))?;
    that(private.join("tools/made").exists() == is_open, || String::from("it wrote beside"))?;
    // Protected names count there too.
    let done =
        run(place, &format!("echo x >{}/.envrc", at(&papers)), vec![Need::Write(papers.clone())])?;
    let is_refused = done.findings.listed.iter().any(|refused| refused.what.ends_with(".envrc"));
    that(is_refused != is_open && papers.join(".envrc").exists() == is_open, || text(&done))
}

fn file(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let papers = place.outside.join("private/papers");
    fs::write(papers.join("beside"), "beside")?;
    let canary = papers.join("canary");
    let look = format!("cat {}; (cat {}/beside || echo -n none) 2>&-", at(&canary), at(&papers));
    let done = run(place, &look, vec![Need::Read(canary.clone())])?;
    prints(&done, if level == SandboxLevel::None { "canarybeside" } else { "canarynone" })?;
    let done =
        run(place, &format!("echo -n new >{}", at(&canary)), vec![Need::Write(canary.clone())])?;
    that(fs::read_to_string(&canary)? == "new", || format!("{done:?}"))
}

fn alone(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let papers = place.outside.join("private/papers");
    let look =
        format!("(cat {0}/canary || echo none; echo x >{0}/made && echo WROTE) 2>&-", at(&papers));
    let others = if level == SandboxLevel::None { "canaryWROTE\n" } else { "none\n" };
    // One runs while another has the path.
    let long = format!("echo >{0}/begun; while ! [ -e done ]; do sleep 0.01; done", at(&papers));
    let world = place.world_of(command(&long, vec![Need::Write(papers.clone())]), &place.root)?;
    let beside = std::thread::scope(|scope| {
        let running =
            scope.spawn(|| block_on(world.processes.run(options(Duration::from_secs(20)))));
        while !papers.join("begun").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let beside = run(place, &look, Vec::new());
        let written = fs::write(place.root.join("done"), "");
        let ended = running.join().expect("it runs");
        written.map_err(|error| error.to_string()).and_then(|()| {
            ended.map_err(|error| error.message.into_owned())?;
            beside.map_err(|error| error.message.into_owned())
        })
    });
    prints(&beside?, others)?;
    prints(&run(place, &look, Vec::new())?, others)
}

/// Connects to a port of the machine, and says whether that worked.
const CONNECT: &str = r#"perl -MIO::Socket::INET -e '
    print IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $ARGV[0], Timeout => 5) ? "in" : "out"' "#;

fn network(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let connect = format!("{CONNECT} {}", listener.local_addr()?.port());
    let done = run(place, &connect, Vec::new())?;
    prints(&done, if level == SandboxLevel::None { "in" } else { "out" })?;
    let done = run(place, &connect, vec![Need::Network])?;
    prints(&done, "in")?;
    that(done.contained.network, || String::from("it is not said to have the network"))?;
    // What it needs is no more than the network.
    let look = format!("cat {}/private/papers/canary 2>&-", at(&place.outside));
    let done = run(place, &look, vec![Need::Network])?;
    prints(&done, if level == SandboxLevel::None { "canary" } else { "" })
}

fn agent(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let listener = UnixListener::bind(place.top().join(AGENT))?;
    listener.set_nonblocking(true)?;
    let connect = r#"perl -MSocket -e '
        socket(C, PF_UNIX, SOCK_STREAM, 0) and connect(C, sockaddr_un($ARGV[0])) or exit print "out";
        sysread(C, $key, 9); print $key' "#;
    let named = format!("{connect} {}", at(&place.top().join(AGENT)));
    let given = format!("{connect} $SSH_AUTH_SOCK");
    // Landlock has no rule for sockets, so all of them are closed unless the network is open.
    let needs = match level {
        SandboxLevel::Landlock => vec![Need::SshAgent, Need::Network],
        _ => vec![Need::SshAgent],
    };
    let answering = std::thread::spawn(move || {
        for _ in 0..2_000 {
            match listener.accept() {
                Ok((mut client, _)) => drop(client.write_all(b"key")),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let without = run(place, &named, Vec::new())?;
    let with = run(place, if level == SandboxLevel::None { &named } else { &given }, needs)?;
    prints(&without, if level == SandboxLevel::None { "key" } else { "out" })?;
    prints(&with, "key")?;
    drop(answering);
    Ok(())
}

fn shared(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let cache = at(&place.top().join(CACHE));
    let make = format!("(echo one >{cache}/made) 2>&-; echo two >$TMPDIR/made");
    let look = format!("cat {cache}/made $TMPDIR/made 2>&-; true");
    if level == SandboxLevel::None {
        return Ok(());
    }
    run(place, &make, vec![Need::Network])?;
    let expected = match level {
        SandboxLevel::Namespaces => "one\ntwo\n",
        SandboxLevel::Landlock => "two\n",
        _ => "",
    };
    prints(&run(place, &look, Vec::new())?, expected)?;
    prints(&run(place, &look, vec![Need::Network])?, expected)?;
    that(!place.top().join(CACHE).join("made").exists(), || String::from("it left the session"))
}

fn unsandboxed(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let text =
        format!("cd {}; cat papers/canary; echo >papers/made", at(&place.outside.join("private")));
    let done = run(place, &text, vec![Need::Unsandboxed]);
    let is_given = level == SandboxLevel::None;
    // No other level of this place is one without a sandbox.
    let found = done.as_ref().map(|done| done.contained.level).map_err(|error| error.kind);
    let expected = if is_given { Ok("none") } else { Err(Kind::PolicyDenied) };
    that(found == expected, || format!("{done:?}"))?;
    that(place.outside.join("private/papers/made").exists() == is_given, || format!("{done:?}"))
}

fn replaced(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let private = place.outside.join("private");
    let papers = private.join("papers");
    let look = format!("cat {0}/canary; echo x >{0}/made", at(&papers));
    for (is_link, need) in [
        (true, Need::Write(papers.clone())),
        (false, Need::Write(papers.clone())),
        (true, Need::Read(papers.clone())),
        (false, Need::Read(papers.clone())),
    ] {
        let world = place.world_of(command(&look, vec![need]), &place.root)?;
        fs::rename(&papers, private.join("away"))?;
        match is_link {
            true => symlink(private.join("other"), &papers)?,
            false => fs::rename(private.join("other"), &papers)?,
        }
        let done = block_on(world.processes.run(options(Duration::from_secs(20))));
        let shown = format!("{done:?}");
        let found = done.map(|done| text(&done)).map_err(|error| error.kind);
        let expected = match level {
            SandboxLevel::None => Ok(String::from("other")),
            _ => Err(Kind::Stale),
        };
        that(found == expected, || format!("link: {is_link}: {shown}"))?;
        let wrote = papers.join("made").exists() || private.join("away/made").exists();
        that(wrote == (level == SandboxLevel::None), || String::from("it wrote"))?;
        match is_link {
            true => fs::remove_file(&papers)?,
            false => fs::rename(&papers, private.join("other"))?,
        }
        fs::rename(private.join("away"), &papers)?;
        let _ = fs::remove_file(private.join("other/made"));
    }
    Ok(())
}

/// One command has `other` and swaps what is in it while others get that.
fn raced(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let private = place.outside.join("private");
    let (other, given) = (private.join("other"), private.join("other/given"));
    fs::create_dir(&given)?;
    fs::write(given.join("canary"), "given")?;
    // No answer gives that path.
    let victim = place.outside.join("hidden/canary");
    fs::write(&victim, "victim")?;
    symlink("../../hidden", other.join("link"))?;
    // renameat2 with RENAME_EXCHANGE, by its number on the two processors of the tests.
    let swap = format!(
        r#"cd {}; touch begun; exec perl -e 'my $n = `uname -m` =~ /aarch64/ ? 276 : 316; until (-e "done")
            {{ my ($one, $two) = ("given", "link"); syscall($n, -100, $one, -100, $two, 2) for 1..50 }}'"#,
        at(&other)
    );
    let world = place.world_of(command(&swap, vec![Need::Write(other.clone())]), &place.root)?;
    std::thread::scope(|scope| {
        let running =
            scope.spawn(|| block_on(world.processes.run(options(Duration::from_secs(60)))));
        while !other.join("begun").exists() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut kinds = HashSet::new();
        let until = Instant::now() + Duration::from_secs(10);
        while kinds.len() < 2 && Instant::now() < until {
            kinds.extend(fs::symlink_metadata(&given).map(|meta| meta.is_symlink()));
        }
        let swaps = that(kinds.len() == 2, || format!("nothing swaps: {kinds:?}"));
        let look = format!("cat {0}/canary; echo -n x >>{0}/canary", at(&given));
        let mut n_leaks = 0;
        let is_open = level == SandboxLevel::None;
        for n in 0..if is_open { 2_000 } else { 60 } {
            let is_writable = n % 3 == 0;
            let need = if is_writable { Need::Write } else { Need::Read }(given.clone());
            let done = run(place, &look, vec![need]);
            n_leaks += i32::from(done.is_ok_and(|done| text(&done).contains("victim")));
            if is_open && 0 < n_leaks {
                break;
            }
        }
        let ended = fs::write(other.join("done"), "");
        drop(running.join());
        ended?;
        swaps?;
        // Without a sandbox, the control, the path leads to the victim soon.
        that((0 < n_leaks) == is_open, || format!("{n_leaks} leaks"))
    })?;
    let victim = fs::read_to_string(victim)?;
    that(level == SandboxLevel::None || victim == "victim", || victim.clone())
}

fn temporary(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let dir = tempfile::tempdir_in("/tmp")?;
    let given = dir.path().join("deep/given");
    fs::create_dir_all(&given)?;
    fs::write(given.join("canary"), "canary")?;
    fs::create_dir(dir.path().join("flat"))?;
    fs::write(dir.path().join("flat/canary"), "flat")?;
    fs::create_dir(place.root.join("sub"))?;
    let top = at(dir.path());
    // Every command may write in the temporary files of its session.
    let plant =
        format!("mkdir -p {top} 2>&-; ln -s {} {top}/deep 2>&-; true", at(&place.root.join("sub")));
    if level != SandboxLevel::None {
        place.sh(&plant);
    }
    let look = format!("cat {top}/deep/given/canary; echo -n x >{top}/deep/given/made");
    let done = run(place, &look, vec![Need::Write(given.clone())]);
    let is_shared = level == SandboxLevel::Landlock;
    if is_shared && done.is_err() {
        // There the link is in the directory itself.
        return that(fs::read_dir(place.root.join("sub"))?.next().is_none(), || {
            format!("{done:?}")
        });
    }
    prints(&done?, "canary")?;
    that(given.join("made").exists(), || String::from("not made"))?;
    that(fs::read_dir(place.root.join("sub"))?.next().is_none(), || {
        String::from("a mount point in a root")
    })?;
    // It cannot move what is above, where rules by path would miss it.
    if matches!(level, SandboxLevel::Namespaces | SandboxLevel::Bubblewrap) {
        let away = format!(
            "mv {top} {top}.away; mv {top}/deep {top}/away; echo x >{top}/deep/given/.envrc"
        );
        let done = run(place, &away, vec![Need::Write(given.clone())])?;
        that(!given.join(".envrc").exists(), || text(&done))?;
        let done = run(
            place,
            &format!("cat {top}/flat/canary"),
            vec![Need::Read(dir.path().join("flat"))],
        )?;
        prints(&done, "flat")?;
    }
    Ok(())
}

fn globs(_: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let place = Place::denying_names(&Helper::program("/proc/self/exe"), level);
    make_private(&place.outside)?;
    let papers = place.outside.join("private/papers");
    fs::write(papers.join("key.denied"), "denied")?;
    let look = format!("cat {0}/canary; cat {0}/key.denied 2>&-; true", at(&papers));
    for need in [Need::Read(papers.clone()), Need::Write(papers.clone())] {
        let done = run(&place, &look, vec![need])?;
        prints(&done, if level == SandboxLevel::None { "canarydenied" } else { "canary" })?;
    }
    let named = run(&place, &look, vec![Need::Read(papers.join("key.denied"))]);
    let kind = named.map(|_| ()).map_err(|error| error.kind);
    that(kind == Err(Kind::PathDenied), || format!("{kind:?}"))
}

fn nested(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    let papers = place.outside.join("private/papers");
    fs::create_dir(papers.join("deep"))?;
    let change = format!("echo -n x >{0}/made; echo -n x >{0}/deep/made", at(&papers));
    for (needs, expected) in [
        (vec![Need::Write(papers.clone()), Need::Read(papers.clone())], (true, true)),
        (vec![Need::Write(papers.clone()), Need::Read(papers.join("deep"))], (true, true)),
        (vec![Need::Read(papers.clone()), Need::Write(papers.join("deep"))], (false, true)),
        (vec![Need::Read(papers.join("deep")), Need::Read(papers.clone())], (false, false)),
    ] {
        let done = run(place, &format!("({change}) 2>&-; true"), needs.clone())?;
        let made = |name: &str| fs::remove_file(papers.join(name)).is_ok();
        let found = (made("made"), made("deep/made"));
        let expected = if level == SandboxLevel::None { (true, true) } else { expected };
        that(found == expected, || format!("{needs:?}: {found:?}: {}", text(&done)))?;
    }
    Ok(())
}

fn never(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    if level == SandboxLevel::None {
        return Ok(());
    }
    let outside = &place.outside;
    fs::write(place.top().join(CACHE).join("x"), "x")?;
    for (need, expected) in [
        (Need::Read(outside.join("hidden/key")), Kind::PathDenied),
        (Need::Read(outside.clone()), Kind::PathDenied),
        (Need::Write(outside.join("private")), Kind::PathDenied),
        (Need::Write(place.top().join("state")), Kind::PathDenied),
        (Need::Write(place.top().to_owned()), Kind::PathDenied),
        (Need::Read("/proc/1".into()), Kind::PathDenied),
        (Need::Write("/".into()), Kind::PathDenied),
        (Need::Write("/tmp".into()), Kind::PathDenied),
        (Need::Read("/tmp/".into()), Kind::PathDenied),
        (Need::Write(place.top().join(CACHE).join("x")), Kind::PathDenied),
        (Need::Read(outside.join("private/missing")), Kind::FileNotFound),
    ] {
        let done = run(place, "echo ran >ran", vec![need.clone()]);
        let found = done.as_ref().map(|_| ()).map_err(|error| error.kind);
        that(found == Err(expected), || format!("{need}: {done:?}"))?;
        that(!place.root.join("ran").exists(), || format!("{need}: it ran"))?;
    }
    Ok(())
}

fn kept(place: &Place, level: SandboxLevel) -> Result<(), Failed> {
    fs::write(place.root.join("old"), "old")?;
    let papers = place.outside.join("private/papers");
    let needs = vec![Need::Network, Need::Write(papers.clone())];
    let text = format!("rm old; echo >new; echo >{}/made", at(&papers));
    let done = run(place, &text, needs)?;
    let changes = done.findings.changes.map(|changes| (changes.n_made, changes.n_removed));
    let expected = (level != SandboxLevel::None).then_some((2, 1));
    that(changes == expected, || format!("{changes:?} for {expected:?}"))
}

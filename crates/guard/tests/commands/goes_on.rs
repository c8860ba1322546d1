//! Commands that go on after the call that began them, and their terminals.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use sinew_guard::{Helper, SandboxLevel};
use sinew_tool::{
    Background, Cancel, Command, CommandLine, Exit, Key, Kind, Screen, Shell, Size, Typed, Wait,
    Waited, World,
};

use crate::hazards::{number, sleepers};
use crate::world::{Place, beside_others, block_on, options, tokio_runtime, works};

type Case = fn(&Place) -> Result<(), Failed>;

const CASES: &[(&str, Case)] = &[
    ("what is written is looked at once", looked_at_once),
    ("a wait ends with what it waits for", waits),
    ("whole lines wait for their end", whole_lines),
    ("what nobody looked at in time is counted", counted),
    ("all that a command started ends with it", ended),
    ("a command that ignores the end is killed", stubborn),
    ("what is taken back takes nothing with it", taken_back_at_the_end),
    ("two may wait for one", two_wait),
    ("no more go on than may", capped),
    ("the end is told once", told_once),
    ("all of them end with the session", with_the_session),
    ("a program has a terminal", has_terminal),
    ("keys interrupt and end what reads", keys),
    ("what is not shown is not typed", secrets),
    ("a screen that is filled is waited for", filled),
    ("what nobody reads is not typed for ever", unread),
    ("lines are typed in the order of the calls", in_order),
    ("what is given up is not typed", given_up),
    ("a terminal within a terminal is another one", nested),
    ("whoever keeps its screen busy keeps nobody else waiting", flooding),
    ("a server of the session is reached by its socket", served),
];

pub(crate) fn trials(helper: &Helper) -> Vec<Trial> {
    let of = |name: &'static str, case: Case| {
        SandboxLevel::ALL.map(|level| {
            let helper = helper.clone();
            Trial::test(format!("goes on: {name} on {level}"), move || {
                let _turn = beside_others();
                if works(&helper, level) { case(&Place::new(&helper, level)) } else { Ok(()) }
            })
        })
    };
    CASES.iter().flat_map(|&(name, case)| of(name, case)).collect()
}

fn that(holds: bool, words: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(words().into()) }
}

/// How long something may take that should happen at once.
const SOON: Duration = Duration::from_secs(20);

fn wait(at_most: Duration) -> Wait {
    Wait { until: None, idle: None, at_most, cancel: Cancel::default() }
}

fn until(text: &'static str) -> Wait {
    let matches = move |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(text);
    Wait { until: Some(Arc::new(matches)), ..wait(SOON) }
}

fn world(place: &Place, text: &str, has_terminal: bool) -> Result<World, Failed> {
    let command = Command {
        argument: "command",
        line: CommandLine::Shell(Shell::Posix, text.to_owned()),
        keeps_cwd: false,
        has_terminal,
        programs: Vec::new(),
        needs: None,
    };
    Ok(place.world_of(command, &place.root)?)
}

/// Begins a command; returns its World and its name.
fn begin(place: &Place, text: &str) -> Result<(World, String), Failed> {
    let world = world(place, text, false)?;
    let id = block_on(world.processes.begin(options(SOON), None))?;
    Ok((world, id))
}

fn begin_terminal(place: &Place, text: &str) -> Result<(World, String), Failed> {
    let world = world(place, text, true)?;
    let size = Size { rows: 10, cols: 40 };
    let id = block_on(world.processes.begin(options(SOON), Some(size)))?;
    Ok((world, id))
}

/// Returns the new output, as text, and how the wait ended.
fn look(world: &World, id: &str, wait: Wait) -> Result<(String, Waited), Failed> {
    let news = block_on(world.processes.news(id, wait, false))?;
    Ok((String::from_utf8_lossy(&news.bytes).into_owned(), news.waited))
}

fn screen(world: &World, id: &str, wait: Wait) -> Result<Screen, Failed> {
    Ok(block_on(world.processes.screen(id, wait))?)
}

fn enter(world: &World, id: &str, text: &str) -> Result<(), Failed> {
    Ok(block_on(world.processes.enter(id, vec![Typed::Text(text.to_owned())]))?)
}

fn one(world: &World, id: &str) -> Result<Background, Failed> {
    let all = world.processes.background();
    all.into_iter().find(|one| one.id == id).ok_or_else(|| format!("no {id}").into())
}

/// A server that one command starts in the background answers another, at a path that it knows itself.
fn served(place: &Place) -> Result<(), Failed> {
    const SERVER: &str = r#"mkdir -p s; cd s; exec perl -MSocket -e '$| = 1; socket(S, PF_UNIX, SOCK_STREAM, 0) or print("none") && exit;
        umask 0077; bind(S, sockaddr_un("./own")) or die "bind: $!"; listen(S, 5) or die; chmod 0711, "own";
        print "at ", unpack_sockaddr_un(getsockname(S)), "\n";
        while (accept(C, S)) { print C "hello\n"; close C }'"#;
    let (world, id) = begin(place, SERVER)?;
    let (said, _) = look(&world, &id, until("\n"))?;
    if said == "none" {
        // There are no sockets on this level.
        return Ok(());
    }
    that(said == "at ./own\n", || said.clone())?;
    let client = r#"stat -c %a s/own; perl -MSocket -e 'for $path ("s/own", "s/moved") {
        socket(S, PF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un($path)) or print "$path: $!\n"; print <S>;
        rename "s/own", "s/moved" }
        socket(T, PF_UNIX, SOCK_STREAM, 0); bind(T, sockaddr_un("s/moved")) or print "$!\n";
        open(F, ">", "file"); connect(T, sockaddr_un("file")) or print "$!\n"'"#;
    let done = place.sh(client);
    let told = String::from_utf8_lossy(&done.merged.head).into_owned();
    that(told == "711\nhello\nhello\nAddress already in use\nConnection refused\n", || told.clone())
}

fn looked_at_once(place: &Place) -> Result<(), Failed> {
    let (world, id) = begin(place, "printf one; read line; printf two")?;
    let (text, _) = look(&world, &id, wait(SOON))?;
    that(text == "onetwo", || text.clone())?;
    that(look(&world, &id, wait(SOON))? == (String::new(), Waited::Ended), || text)?;
    let one = one(&world, &id)?;
    that(one.exit == Some(Exit::Code(0)) && one.n_written == 6, || format!("{one:?}"))?;
    let stored = one.stored.as_ref().map(|path| std::fs::read(place.root.join(path)));
    that(matches!(&stored, Some(Ok(text)) if text == b"onetwo"), || format!("{stored:?}"))
}

fn waits(place: &Place) -> Result<(), Failed> {
    let text = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second; sleep 99";
    let (world, id) = begin(place, text)?;
    that(look(&world, &id, until("fir"))?.1 == Waited::Matched, || String::from("first"))?;
    let quiet = Wait { idle: Some(Duration::from_millis(100)), ..wait(SOON) };
    let quiet = look(&world, &id, quiet)?;
    that(quiet == (String::new(), Waited::Idle), || format!("{quiet:?}"))?;
    let short = look(&world, &id, Wait { at_most: Duration::from_millis(50), ..until("second") })?;
    that(short == (String::new(), Waited::OutOfTime), || format!("{short:?}"))?;
    taken_back(&world, &id)?;
    std::fs::write(place.root.join("go"), "")?;
    let second = look(&world, &id, until("second\n"))?;
    that(second == (String::from("second\n"), Waited::Matched), || format!("{second:?}"))?;
    // What comes in pieces is found as one text, also far behind.
    let text =
        "head -c 400000 /dev/zero | tr '\\0' x; echo; echo one; sleep 0.2; echo two; sleep 99";
    let (world, id) = begin(place, text)?;
    let both = look(&world, &id, until("x\none\ntwo\n"))?;
    that(both.1 == Waited::Matched && both.0.len() == 400_009, || format!("{}", both.0.len()))
}

/// A wait that is taken back takes nothing with it.
fn taken_back(world: &World, id: &str) -> Result<(), Failed> {
    let cancel = Cancel::default();
    cancel.cancel();
    let since = Instant::now();
    let news = block_on(world.processes.news(id, Wait { cancel, ..until("second") }, false));
    let kind = news.as_ref().err().map(|error| error.kind);
    that(kind == Some(Kind::Cancelled), || format!("{news:?}"))?;
    that(since.elapsed() < SOON / 2, || String::from("a wait that was taken back went on"))
}

/// Nothing is lost with the call, and the end is still to be told.
fn taken_back_at_the_end(place: &Place) -> Result<(), Failed> {
    let (world, id) = begin(place, "echo kept; exit 3")?;
    let since = Instant::now();
    while world.processes.running().iter().any(|one| one.id == id) && since.elapsed() < SOON {
        thread::sleep(Duration::from_millis(5));
    }
    taken_back(&world, &id)?;
    let told = place.guard.endings("test");
    that(told.len() == 1, || format!("{told:?}"))?;
    let kept = look(&world, &id, wait(SOON))?;
    that(kept.0 == "kept\n", || format!("{kept:?}"))
}

/// Two calls may wait for one command; one of them gets the new output.
fn two_wait(place: &Place) -> Result<(), Failed> {
    let (world, id) = begin(place, "sleep 0.2; echo one")?;
    let look = || world.processes.news(&id, wait(SOON), false);
    let (first, second) = (look(), look());
    let both = tokio_runtime().block_on(async { (first.await, second.await) });
    let texts = [both.0?.bytes, both.1?.bytes].concat();
    that(texts == b"one\n", || format!("{texts:?}"))
}

fn whole_lines(place: &Place) -> Result<(), Failed> {
    let text = "printf 'one\\ntw'; while [ ! -e go ]; do sleep 0.01; done; printf 'o\\nthree'";
    let (world, id) = begin(place, text)?;
    let lines = |wait| {
        let news = block_on(world.processes.news(&id, wait, true))?;
        Ok::<_, Failed>(String::from_utf8_lossy(&news.bytes).into_owned())
    };
    that(lines(until("tw"))? == "one\n", || String::from("the first line"))?;
    std::fs::write(place.root.join("go"), "")?;
    let rest = lines(wait(SOON))?;
    that(rest == "two\nthree", || rest.clone())
}

fn counted(place: &Place) -> Result<(), Failed> {
    let (world, id) = begin(place, "head -c 3000000 /dev/zero | tr '\\0' x; echo end")?;
    let news = block_on(world.processes.news(&id, wait(SOON), false))?;
    let kept = news.bytes.len() as u64;
    that(news.n_lost + kept == 3_000_004, || format!("{} + {kept}", news.n_lost))?;
    that(kept == 1 << 20 && news.bytes.ends_with(b"xend\n"), || format!("{kept}"))
}

fn ended(place: &Place) -> Result<(), Failed> {
    let number = number();
    let text = format!("setsid sleep 9{number} & echo begun; sleep 9{number}");
    let (world, id) = begin(place, &text)?;
    look(&world, &id, until("begun"))?;
    let since = Instant::now();
    let one = block_on(world.processes.end(&id))?;
    that(matches!(one.exit, Some(Exit::Signal(_))), || format!("{one:?}"))?;
    that(sleepers(&number).is_empty(), || format!("{:?}", sleepers(&number)))?;
    that(since.elapsed() < Duration::from_secs(4), || format!("{:?}", since.elapsed()))?;
    let again = block_on(world.processes.end(&id))?;
    that(again.exit == one.exit, || format!("{again:?}"))?;
    let unknown = block_on(world.processes.end("b99"));
    let kind = unknown.as_ref().err().map(|error| error.kind);
    that(kind == Some(Kind::InvalidArgs), || format!("{unknown:?}"))
}

fn stubborn(place: &Place) -> Result<(), Failed> {
    let (world, id) = begin(place, "trap '' TERM HUP; echo begun; while :; do sleep 1; done")?;
    look(&world, &id, until("begun"))?;
    let one = block_on(world.processes.end(&id))?;
    that(one.exit == Some(Exit::Signal(9)), || format!("{one:?}"))
}

fn capped(place: &Place) -> Result<(), Failed> {
    let begun = (0..4).map(|_| begin(place, "sleep 99")).collect::<Result<Vec<_>, _>>()?;
    let fifth = world(place, "sleep 99", false)?;
    let refused = block_on(fifth.processes.begin(options(SOON), None));
    let kind = refused.as_ref().err().map(|error| error.kind);
    that(kind == Some(Kind::LimitReached), || format!("{refused:?}"))?;
    let (first, id) = begun.first().ok_or("none")?;
    block_on(first.processes.end(id))?;
    block_on(fifth.processes.begin(options(SOON), None))?;
    Ok(())
}

fn told_once(place: &Place) -> Result<(), Failed> {
    let (world, id) = begin(place, "exit 3")?;
    let since = Instant::now();
    let told = loop {
        let told = place.guard.endings("test");
        if !told.is_empty() || SOON < since.elapsed() {
            break told;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let is_it = matches!(told.as_slice(), [one] if one.id == id && one.exit == Some(Exit::Code(3)));
    that(is_it, || format!("{told:?}"))?;
    that(place.guard.endings("test").is_empty(), || String::from("it was told twice"))?;
    let (_world, id) = begin(place, "exit 4")?;
    look(&world, &id, wait(SOON))?;
    that(place.guard.endings("test").is_empty(), || String::from("who looked was told again"))
}

fn with_the_session(place: &Place) -> Result<(), Failed> {
    let number = number();
    let text = format!("setsid sleep 9{number} & echo begun; sleep 9{number}");
    let (world, id) = begin(place, &text)?;
    look(&world, &id, until("begun"))?;
    let (terminal, shell) = begin_terminal(place, &text)?;
    screen(&terminal, &shell, until("begun"))?;
    that(!sleepers(&number).is_empty(), || String::from("nothing runs"))?;
    place.guard.close_commands();
    let since = Instant::now();
    while !sleepers(&number).is_empty() && since.elapsed() < SOON {
        thread::sleep(Duration::from_millis(5));
    }
    that(sleepers(&number).is_empty(), || format!("{:?}", sleepers(&number)))
}

fn has_terminal(place: &Place) -> Result<(), Failed> {
    let text = "stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; echo $TERM; \
                echo asked >/dev/tty; read answer </dev/tty; echo got $answer; stty size";
    let (world, id) = begin_terminal(place, text)?;
    let seen = screen(&world, &id, until("asked"))?;
    that(seen.rows[..4] == ["10 40", "all", "xterm-256color", "asked"], || format!("{seen:?}"))?;
    that(seen.waited == Waited::Matched && !seen.hides_input, || format!("{seen:?}"))?;
    world.processes.resize(&id, Some(12), None)?;
    enter(&world, &id, "yes\n")?;
    let seen = screen(&world, &id, wait(SOON))?;
    that(seen.rows.len() == 12 && seen.rows[6] == "12 40", || format!("{seen:?}"))?;
    that(seen.rows[4..6] == ["yes", "got yes"], || format!("{seen:?}"))?;
    that(seen.changed[..6] == [false, false, false, false, true, true], || format!("{seen:?}"))?;
    that(seen.background.exit == Some(Exit::Code(0)), || format!("{seen:?}"))?;
    let late = block_on(world.processes.enter(&id, vec![Typed::Key(Key::Enter)]));
    that(late.is_err(), || String::from("what has ended was typed into"))?;
    let plain = place.sh("[ -t 0 ] || echo none; (: </dev/tty) 2>/dev/null || echo nothing");
    that(plain.merged.head == b"none\nnothing\n", || format!("{plain:?}"))
}

fn keys(place: &Place) -> Result<(), Failed> {
    let (world, id) = begin_terminal(place, "trap 'echo caught' INT; echo on; cat; echo out")?;
    screen(&world, &id, until("on"))?;
    let press = |key| block_on(world.processes.enter(&id, vec![Typed::Key(key)]));
    enter(&world, &id, "line\n")?;
    screen(&world, &id, until("line\r\nline"))?;
    press(Key::Control('c'))?;
    let seen = screen(&world, &id, until("out"))?;
    that(seen.rows.iter().any(|row| row.contains("caught")), || format!("{seen:?}"))?;
    let (world, id) = begin_terminal(place, "echo on; cat; echo out")?;
    screen(&world, &id, until("on"))?;
    block_on(world.processes.enter(&id, vec![Typed::Key(Key::Control('d'))]))?;
    let seen = screen(&world, &id, wait(SOON))?;
    that(seen.background.exit == Some(Exit::Code(0)), || format!("{seen:?}"))
}

/// A terminal refuses input to a prompt that hides it.
fn secrets(place: &Place) -> Result<(), Failed> {
    let text = "stty -echo; printf 'Password: '; read secret; stty echo; echo; echo is $secret";
    let (world, id) = begin_terminal(place, text)?;
    let seen = screen(&world, &id, until("Password: "))?;
    that(seen.hides_input, || format!("{seen:?}"))?;
    for typed in [Typed::Text(String::from("s3cret")), Typed::Key(Key::Enter)] {
        let refused = block_on(world.processes.enter(&id, vec![typed]));
        let kind = refused.as_ref().err().map(|error| error.kind);
        that(kind == Some(Kind::PolicyDenied), || format!("{refused:?}"))?;
    }
    for key in [Key::Control('m'), Key::Control('j'), Key::Alt('\r'), Key::Tab] {
        let refused = block_on(world.processes.enter(&id, vec![Typed::Key(key)]));
        that(refused.is_err(), || format!("{key:?} was typed"))?;
    }
    block_on(world.processes.enter(&id, vec![Typed::Key(Key::Control('d'))]))?;
    let seen = screen(&world, &id, wait(SOON))?;
    that(seen.rows.iter().any(|row| row == "is"), || format!("{seen:?}"))?;
    that(!seen.hides_input, || format!("{seen:?}"))?;
    // A prompt that comes after the first typed line.
    let text = "printf 'User: '; read user; stty -echo; printf 'Password: '; read secret; stty echo; \
                echo; echo is $secret";
    let (world, id) = begin_terminal(place, text)?;
    screen(&world, &id, until("User: "))?;
    let typed = vec![Typed::Text(String::from("ada\ns3cret\n"))];
    let refused = block_on(world.processes.enter(&id, typed));
    let told = refused.as_ref().err().map(|error| error.message.to_string()).unwrap_or_default();
    that(told.ends_with("one line or key was typed before"), || format!("{refused:?}"))?;
    block_on(world.processes.enter(&id, vec![Typed::Key(Key::Control('d'))]))?;
    let seen = screen(&world, &id, wait(SOON))?;
    that(seen.rows.iter().any(|row| row == "is"), || format!("{seen:?}"))?;
    // A program that edits its lines itself.
    let (world, id) = begin_terminal(place, "stty -icanon -echo; printf 'Token: '; sleep 99")?;
    let seen = screen(&world, &id, until("Token: "))?;
    that(seen.hides_input, || format!("{seen:?}"))?;
    let (world, id) = begin_terminal(place, "printf 'Name: '; read name; echo is $name")?;
    screen(&world, &id, until("Name: "))?;
    enter(&world, &id, "shown\n")?;
    let seen = screen(&world, &id, wait(SOON))?;
    that(seen.rows[1] == "is shown", || format!("{seen:?}"))
}

fn filled(place: &Place) -> Result<(), Failed> {
    let text = "printf '\\033[?1049h\\033[2J\\033[3;5Hin the middle\\033[1;1Htop'; sleep 99";
    let (world, id) = begin_terminal(place, text)?;
    let seen = screen(&world, &id, until("top"))?;
    that(seen.rows[0] == "top" && seen.rows[2] == "    in the middle", || format!("{seen:?}"))?;
    that(seen.cursor == (0, 3), || format!("{seen:?}"))?;
    // It is there, although no program wrote it again.
    let again = screen(&world, &id, until("middle"))?;
    that(again.waited == Waited::Matched && !again.changed.contains(&true), || format!("{again:?}"))
}

fn unread(place: &Place) -> Result<(), Failed> {
    let (world, id) = begin_terminal(place, "stty raw -echo; echo on; sleep 99")?;
    screen(&world, &id, until("on"))?;
    let since = Instant::now();
    let much = vec![Typed::Text("x".repeat(1 << 20))];
    let refused = block_on(world.processes.enter(&id, much));
    let kind = refused.as_ref().err().map(|error| error.kind);
    that(kind == Some(Kind::Timeout), || format!("{refused:?}"))?;
    that(since.elapsed() < SOON / 2, || format!("{:?}", since.elapsed()))?;
    block_on(world.processes.end(&id))?;
    Ok(())
}

fn in_order(place: &Place) -> Result<(), Failed> {
    let (world, id) =
        begin_terminal(place, "stty -echo -icanon; echo on; head -c 8; echo; echo off")?;
    screen(&world, &id, until("on"))?;
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let typed = |text: &str| world.processes.enter(&id, vec![Typed::Text(text.to_owned())]);
    let calls: Vec<_> = letters.into_iter().map(typed).collect();
    tokio_runtime().block_on(async {
        // The first caller need not wait first.
        for call in calls.into_iter().rev() {
            call.await?;
        }
        Ok::<_, Failed>(())
    })?;
    let seen = screen(&world, &id, until("off"))?;
    that(seen.rows.iter().any(|row| row == "abcdefgh"), || format!("{seen:?}"))?;
    let (world, id) = begin_terminal(place, "cat")?;
    let long = block_on(world.processes.enter(&id, vec![Typed::Text("x".repeat(5_000))]));
    let kind = long.as_ref().err().map(|error| error.kind);
    that(kind == Some(Kind::InvalidArgs), || format!("{long:?}"))
}

/// Input without a waiting call is not typed, and input that gives up was typed to a program that does not read.
fn given_up(place: &Place) -> Result<(), Failed> {
    let text = "while read -r line; do echo $line >>got; sleep 0.3; done";
    let (world, id) = begin_terminal(place, text)?;
    let typed = vec![Typed::Text("line\n".repeat(30))];
    let call = world.processes.enter(&id, typed);
    tokio_runtime().block_on(async {
        let _ = tokio::time::timeout(Duration::from_millis(700), call).await;
    });
    thread::sleep(Duration::from_secs(2));
    let got = std::fs::read_to_string(place.root.join("got")).unwrap_or_default();
    that(got.lines().count() < 8, || got.clone())?;
    let (world, id) = begin_terminal(place, "echo on; sleep 99")?;
    screen(&world, &id, until("on"))?;
    let typed = vec![Typed::Text(String::from("a\n")), Typed::Key(Key::Control('c'))];
    block_on(world.processes.enter(&id, typed))?;
    let seen = screen(&world, &id, wait(SOON))?;
    that(seen.background.exit == Some(Exit::Signal(2)), || format!("{seen:?}"))
}

fn nested(place: &Place) -> Result<(), Failed> {
    if place.sh("true").contained.level == "landlock" {
        // No process can make terminals there.
        return Ok(());
    }
    let text =
        "script -qec 'echo inner >/dev/tty' typed.txt; cat typed.txt | tr -d '\\r' >seen.txt";
    let (world, id) = begin_terminal(place, text)?;
    screen(&world, &id, wait(SOON))?;
    let typed = std::fs::read_to_string(place.root.join("seen.txt"))?;
    that(typed.lines().any(|line| line == "inner"), || typed.clone())
}

fn flooding(place: &Place) -> Result<(), Failed> {
    let world = world(place, "echo on; yes \"$(printf 'x\\033[65535b\\033c')\"", true)?;
    let size = Size { rows: 100, cols: 250 };
    let id = block_on(world.processes.begin(options(SOON), Some(size)))?;
    screen(&world, &id, until("on"))?;
    let since = Instant::now();
    for _ in 0..20 {
        world.processes.running();
        place.guard.endings("test");
    }
    that(since.elapsed() < Duration::from_secs(2), || format!("told in {:?}", since.elapsed()))?;
    let since = Instant::now();
    block_on(world.processes.end(&id))?;
    that(since.elapsed() < Duration::from_secs(10), || format!("ended in {:?}", since.elapsed()))
}

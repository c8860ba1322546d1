//! What commands do to the process and the user that run them: each case on each sandbox level, and afterwards no process of it is
//! left.
//!
//! Every case gets a number of its own, which it gives to `sleep` where it leaves something running:
//! a process that still sleeps for that many seconds was left behind. The same cases through a plain spawn
//! show that the harness would see it.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use sinew_guard::{Helper, SandboxLevel};
use sinew_tool::{Exit, Finished};

use crate::world::{Place, beside_others, works};

/// One thing that a command does.
struct Hazard {
    name: &'static str,
    /// The text for the shell, in which `@` stands for the number of the case.
    text: &'static str,
    /// How long it may take, in milliseconds.
    timeout_ms: u64,
    /// How it ends: a code, or a signal below zero; `None` is out of time.
    exit: Option<i32>,
    /// The whole output, or its beginning where it ends in `…`.
    output: &'static str,
    /// How many processes it leaves to be ended; `None` where that may vary.
    n_left: Option<u32>,
    /// Whether a plain spawn that waits for the shell alone leaves processes behind.
    escapes: bool,
}

const fn ends(name: &'static str, text: &'static str, code: i32, output: &'static str) -> Hazard {
    Hazard {
        name,
        text,
        timeout_ms: 20_000,
        exit: Some(code),
        output,
        n_left: Some(0),
        escapes: false,
    }
}

const fn leaves(name: &'static str, text: &'static str, n: u32, output: &'static str) -> Hazard {
    Hazard { n_left: Some(n), escapes: true, ..ends(name, text, 0, output) }
}

const fn lasts(name: &'static str, text: &'static str, output: &'static str) -> Hazard {
    Hazard { timeout_ms: 400, exit: None, n_left: None, ..ends(name, text, 0, output) }
}

const HAZARDS: &[Hazard] = &[
    Hazard {
        exit: Some(-25),
        ..ends("a file that grows for ever", "exec cat /dev/zero >big", 0, "")
    },
    ends(
        "a file that reached its bound",
        "head -c 99m /dev/zero >big 2>/dev/null; head -c 1 /dev/zero >>big 2>/dev/null; stat -c %s big",
        0,
        "67108864\n",
    ),
    ends(
        "a mask of a child",
        "(umask 077; touch a); umask; touch b; stat -c %a a b",
        0,
        "0022\n600\n644\n",
    ),
    ends(
        "a pipe whose writer gave up",
        "mkfifo p; timeout 0.3 sh -c 'echo x >p'; timeout 0.3 cat p; echo $?",
        0,
        "124\n",
    ),
    lasts(
        "one that waits for a lease",
        r#"echo >l; exec perl -e '$| = 1; $SIG{IO} = "IGNORE"; open(F, "<", "l"); fcntl(F, 1024, 0) or die; print "on\n"; fork or open(G, ">", "l"); system("sleep 9@")'"#,
        "on\n",
    ),
    ends("a code", "exit 3", 3, ""),
    ends(
        "both streams in order",
        "for n in 1 2 3 4; do echo $n; echo $n >&2; done",
        0,
        "1\n1\n2\n2\n3\n3\n4\n4\n",
    ),
    ends("no output", "true", 0, ""),
    ends("bytes that are no text", r"printf '\000\377\200'", 0, "\u{0}??"),
    ends("half a character", r"printf 'a\303'", 0, "a?"),
    ends("waiting for input", "cat; echo done", 0, "done\n"),
    ends("reading a line", "read x || echo nothing", 0, "nothing\n"),
    ends("reading the terminal", "(cat </dev/tty) 2>/dev/null || echo none", 0, "none\n"),
    ends("no terminal", "tty || true", 0, "not a tty\n"),
    ends(
        "a session of its own",
        "cut -d ' ' -f 6 /proc/$$/stat | grep -qx $$ && echo own",
        0,
        "own\n",
    ),
    ends("closing its streams", "exec >&- 2>&-; sleep 0.1; exit 7", 7, ""),
    ends("a pipe that closes", "yes | head -n 1", 0, "y\n"),
    ends("descriptors of ours", "ls /proc/self/fd | tr '\\n' ' '", 0, "0 1 2 3 "),
    ends("no core file", "ulimit -c", 0, "0\n"),
    ends("secrets of ours", "env | grep -c -i canary || true", 0, "0\n"),
    ends("a syntax error", "if", 2, "…"),
    ends("an unknown program", "no-such-program-@", 127, "…"),
    ends("a program that is none", "touch x; ./x", 126, "…"),
    ends("the wrong signal", "kill -s USR1 $$; echo no", -10, ""),
    ends("an ignored signal is not ours", "kill -s PIPE $$; echo no", -13, ""),
    ends("killing itself", "kill -9 $$", -9, ""),
    ends("many lines", "seq 1 100000 | tail -n 1", 0, "100000\n"),
    leaves("a child that holds the pipe", "sleep 9@ & echo on", 1, "on\n"),
    leaves(
        "a child with streams of its own",
        "sleep 9@ >/dev/null 2>&1 </dev/null & echo on",
        1,
        "on\n",
    ),
    leaves("nohup", "nohup sleep 9@ >/dev/null 2>&1 & echo on", 1, "on\n"),
    leaves("setsid", "setsid sleep 9@ & sleep 0.1; echo on", 1, "on\n"),
    leaves("a double fork", "(setsid sh -c 'sleep 9@ & exit' &) ; sleep 0.1; echo on", 1, "on\n"),
    leaves(
        "a daemon",
        "perl -e 'use POSIX; fork and exit; POSIX::setsid(); fork and exit; open STDIN, \"</dev/null\"; \
         open STDOUT, \">/dev/null\"; open STDERR, \">/dev/null\"; exec \"sleep\", \"9@\"'; sleep 0.2; echo on",
        1,
        "on\n",
    ),
    Hazard {
        n_left: None,
        ..leaves(
            "a chain",
            "sh -c 'sh -c \"sleep 9@ & sleep 9@\" & sleep 9@' & sleep 0.2; echo on",
            0,
            "on\n",
        )
    },
    leaves("many children", "for n in $(seq 1 60); do sleep 9@ & done; echo on", 60, "on\n"),
    leaves("a stopped child", "sleep 9@ & kill -STOP $!; echo on", 1, "on\n"),
    // Of two that are ended at once the one may still wait for the other, which then counts as gone.
    Hazard {
        n_left: None,
        ..leaves(
            "one that ignores the end",
            "sh -c 'trap \"\" TERM HUP INT; sleep 9@; sleep 9@' & \
             until cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -qx '[9]@'; do sleep 0.05; done; \
             echo on",
            2,
            "on\n",
        )
    },
    Hazard { escapes: true, ..lasts("sleeping", "echo on; sleep 9@", "on\n") },
    Hazard {
        escapes: true,
        ..lasts("ignoring the request to end", "trap '' TERM; echo on; sleep 9@; sleep 9@", "on\n")
    },
    Hazard {
        escapes: true,
        ..lasts("last words", "trap 'echo bye; exit 0' TERM; echo on; sleep 9@ & wait", "on\nbye\n")
    },
    Hazard {
        escapes: true,
        ..lasts("stopping itself", "echo on; sleep 9@ & kill -STOP $$", "on\n")
    },
    lasts("writing without end", "yes", "y\ny\n…"),
    lasts("errors without end", "yes >&2", "y\ny\n…"),
    lasts("half a character without end", r"while :; do printf '\303'; done", "…"),
    lasts("a line without end", "tr '\\0' x </dev/zero", "xxxx…"),
    Hazard {
        escapes: true,
        ..lasts(
            "a pipe to a daemon",
            "setsid sh -c 'while :; do echo on; sleep 9@; done' | cat",
            "on\n",
        )
    },
];

/// Numbers of cases: no two sleep for equally long.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Returns a trial for each case on each sandbox level, and one for each control.
pub(crate) fn trials(helper: &Helper) -> Vec<Trial> {
    let mut trials = Vec::new();
    for hazard in HAZARDS {
        for level in SandboxLevel::ALL {
            let helper = helper.clone();
            let name = format!("hazard: {} on {level}", hazard.name);
            trials.push(Trial::test(name, move || contained(hazard, &helper, level)));
        }
        if hazard.escapes {
            let name = format!("control: {} escapes a plain spawn", hazard.name);
            trials.push(Trial::test(name, move || plain(hazard)));
        }
    }
    trials
}

/// Returns the seconds that no other process sleeps.
pub(crate) fn number() -> String {
    format!("{}{:05}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn contained(hazard: &Hazard, helper: &Helper, level: SandboxLevel) -> Result<(), Failed> {
    let _turn = beside_others();
    if !works(helper, level) {
        return Ok(());
    }
    let number = number();
    let place = Place::new(helper, level);
    let began = Instant::now();
    let timeout = Duration::from_millis(hazard.timeout_ms);
    let done = place.run(&hazard.text.replace('@', &number), timeout);
    let done = done.map_err(|error| format!("{error:?}"))?;
    let took = began.elapsed();
    let left = sleepers(&number);
    let expected = match hazard.exit {
        None => Exit::TimedOut,
        Some(signal) if signal < 0 => Exit::Signal(-signal),
        Some(code) => Exit::Code(code),
    };
    let problems = [
        (!left.is_empty(), format!("left behind: {left:?}")),
        (done.exit != expected, format!("it ended as {:?}, not {expected:?}", done.exit)),
        (!shows(hazard.output, &text(&done)), format!("it wrote {:.200?}", text(&done))),
        (
            hazard.n_left.is_some_and(|n| n != done.n_left),
            format!("{} were ended after it", done.n_left),
        ),
        (timeout + Duration::from_secs(4) < took, format!("it took {took:?}")),
        (done.contained.level != level.as_str(), format!("it ran on {}", done.contained.level)),
    ];
    let words: Vec<String> =
        problems.into_iter().filter(|(is_one, _)| *is_one).map(|(_, words)| words).collect();
    if words.is_empty() { Ok(()) } else { Err(words.join("; ").into()) }
}

/// Runs a case as a simple program would: it waits for the shell, kills it after a while, and thinks
/// that this was all.
fn plain(hazard: &Hazard) -> Result<(), Failed> {
    let number = number();
    let mut shell = Command::new("/bin/sh")
        .arg("-c")
        .arg(hazard.text.replace('@', &number))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let until = Instant::now() + Duration::from_millis(hazard.timeout_ms.min(1_500));
    while shell.try_wait()?.is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = shell.kill();
    shell.wait()?;
    // A process that executes a program right now has no words to be found by.
    let until = Instant::now() + Duration::from_secs(2);
    let mut left = sleepers(&number);
    while left.is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
        left = sleepers(&number);
    }
    for pid in &left {
        let pid = rustix::process::Pid::from_raw(*pid).ok_or("a number")?;
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    if left.is_empty() { Err("nothing was left: the harness sees nothing".into()) } else { Ok(()) }
}

/// Returns the processes that sleep for so long.
pub(crate) fn sleepers(number: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let needle = format!("9{number}");
            line.windows(needle.len()).any(|part| part == needle.as_bytes())
        })
        .collect()
}

/// Returns everything that was kept, with `?` for invalid UTF-8.
fn text(done: &Finished) -> String {
    let bytes = [done.merged.head.as_slice(), &done.merged.tail].concat();
    String::from_utf8_lossy(&bytes).replace('\u{fffd}', "?")
}

fn shows(expected: &str, text: &str) -> bool {
    match expected.strip_suffix('…') {
        Some(start) => text.starts_with(start),
        None => text == expected,
    }
}

//! The output of a command as a terminal shows it while the command runs.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::served::{Place, command};

/// Prints a line, waits for the test, and ends with another line.
const COMMAND: &str = r"command=printf '1%%\r\033[31mfirst\033[0m\n'; touch begun; while ! test -e go; do sleep 0.02; done; printf last; exit $(cat code)";

/// What reads the output of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reader {
    Terminal,
    Pipe,
}

/// Returns both ends of a new terminal; the second is that of a program.
pub(crate) fn terminal() -> (File, File) {
    let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&own).unwrap();
    unlockpt(&own).unwrap();
    let name = ptsname(&own, Vec::new()).unwrap();
    let end = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (File::from(own), end)
}

/// Starts the command; returns its output, which is read without waiting.
fn start(
    place: &Place,
    reader: Reader,
    variables: &[(&str, &str)],
    words: &[&str],
) -> (File, Child) {
    let mut call = command(&place.home);
    call.current_dir(&place.root).args(["--approvals", "allow"]).args(words);
    call.env("TERM", "xterm").envs(variables.iter().copied()).stdin(Stdio::null());
    let output = match reader {
        Reader::Terminal => {
            let (own, end) = terminal();
            call.stdout(end.try_clone().unwrap()).stderr(end);
            own
        }
        Reader::Pipe => {
            let (own, end) = rustix::pipe::pipe().unwrap();
            call.stdout(end.try_clone().unwrap()).stderr(end);
            File::from(own)
        }
    };
    rustix::io::ioctl_fionbio(&output, true).unwrap();
    let child = call.spawn().unwrap();
    (output, child)
}

/// Reads what is there now.
pub(crate) fn read(output: &mut File, shown: &mut String) {
    let mut buffer = [0; 4_096];
    loop {
        match output.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => shown.push_str(&String::from_utf8_lossy(&buffer[..n])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            // The other end of a terminal is closed.
            Err(error) if error.raw_os_error() == Some(5) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn wait_until(what: &str, is_done: &mut dyn FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_done() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a process, and reads what it writes.
pub(crate) fn read_to_end(child: &mut Child, output: &mut File, shown: &mut String) {
    wait_until("the command ends", &mut || {
        read(output, shown);
        child.try_wait().unwrap().is_some()
    });
    read(output, shown);
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns what was shown before the command ended, and in the end.
fn shown(
    place: &Place,
    reader: Reader,
    (code, expects_first): (&str, bool),
    variables: &[(&str, &str)],
    words: &[&str],
) -> (String, String) {
    for name in ["begun", "go"] {
        let _ = fs::remove_file(place.root.join(name));
    }
    fs::write(place.root.join("code"), code).unwrap();
    let (mut output, mut child) = start(place, reader, variables, words);
    let mut all = String::new();
    wait_until("the command begins", &mut || is_there(&place.root.join("begun")));
    if expects_first {
        wait_until("a line is visible while the command runs", &mut || {
            read(&mut output, &mut all);
            all.contains("first")
        });
    } else {
        // As long as a terminal may take to show it.
        thread::sleep(Duration::from_millis(300));
        read(&mut output, &mut all);
    }
    let early = all.clone();
    fs::write(place.root.join("go"), "").unwrap();
    read_to_end(&mut child, &mut output, &mut all);
    // The file that the command made can be undone.
    let all = all.replace("\r\n", "\n");
    let lines = all.split_inclusive('\n').filter(|line| !line.starts_with("[c"));
    (early, lines.collect())
}

const CALL: &[&str] = &["call", "Bash", COMMAND];
const JSON: &[&str] = &["call", "Bash", COMMAND, "--json"];
const MOLTIS: &[&str] = &["--dialect", "moltis", "call", "exec", COMMAND];
const HOOK: &str =
    "[[hooks.hooks]]\nname = \"h\"\nevents = [\"after_tool_execute\"]\ncommand = [\"true\"]\n";

#[test]
fn terminal_shows_the_output_of_a_running_command() {
    let place = Place::new();
    for variables in [&[][..], &[("NO_COLOR", "1")], &[("TERM", "dumb")]] {
        let (early, all) = shown(&place, Reader::Terminal, ("0", true), variables, CALL);
        assert_eq!((early.as_str(), all.as_str()), ("first\r\n", "first\nlast\n"), "{variables:?}");
        let (_, all) = shown(&place, Reader::Terminal, ("3", true), variables, CALL);
        assert!(all.starts_with("first\nlast\n"), "{all:?}");
        assert_eq!(all.matches("first").count(), 1, "it is shown once: {all:?}");
        assert!(all.contains("[exit code 3]"), "{all:?}");
        let is_plain = !variables.is_empty();
        assert!(!is_plain || !all.contains('\u{1b}'), "{variables:?}: {all:?}");
    }
}

#[test]
fn programs_get_the_reply_alone() {
    let place = Place::new();
    let (early, all) = shown(&place, Reader::Pipe, ("0", false), &[], CALL);
    assert_eq!((early.as_str(), all.as_str()), ("", "first\nlast\n"));
    let (early, all) = shown(&place, Reader::Pipe, ("3", false), &[], CALL);
    assert_eq!((early.as_str(), all.as_str()), ("", "sinew: first\nlast\n[exit code 3]\n"));
    // A terminal that gets an object gets that alone, and so do other forms of a reply.
    for words in [JSON, MOLTIS] {
        let (early, all) = shown(&place, Reader::Terminal, ("0", false), &[], words);
        assert!(early.is_empty() && all.contains("last"), "{words:?}: {early:?} {all:?}");
    }
    // A hook may withhold the reply.
    let config = place.home.join("config/sinew/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(config, HOOK).unwrap();
    let (early, all) = shown(&place, Reader::Terminal, ("0", false), &[], CALL);
    assert_eq!((early.as_str(), all.as_str()), ("", "first\nlast\n"));
}

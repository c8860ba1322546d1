//! Colors of errors, rulings and findings: at a terminal alone.

use std::fs::File;
use std::process::Stdio;

use crate::live::{read_to_end, terminal};
use crate::served::{Place, command};

const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const ERROR: &str = "\u{1b}[1;31m";

/// A command, and what it prints in a color.
const ROWS: &[(&[&str], &str, &str)] = &[
    (&["call", "Read", "file_path=none"], ERROR, "sinew:"),
    (&["nope"], ERROR, "error:"),
    (&["help", "nothing"], ERROR, "sinew:"),
    (&["--set", "serve=[\"Read\"]", "--tools", "Raed,Read", "tools"], ERROR, "sinew:"),
    (&["audit", "list"], RED, "file_not_found  "),
    (&["audit", "list"], GREEN, "ok              "),
    (&["audit", "list", "--tree"], RED, "file_not_found  "),
    (&["audit", "verify"], GREEN, "OK:"),
    (&["log", "--all"], RED, "failed: file_not_found"),
    (&["undo", "--yes"], "", "restored c1"),
    (&["log"], YELLOW, "undone"),
    (&["undo"], ERROR, "sinew:"),
    (&["doctor"], GREEN, "ok      "),
    (&["policy", "explain", "ls"], GREEN, "allow"),
    (&["--approvals", "ask", "policy", "explain", "touch x"], YELLOW, "ask"),
    (&["--read-only", "policy", "explain", "touch x"], RED, "deny"),
    (&["policy", "test"], GREEN, "0 failures"),
    (&["log", "--session", "none"], YELLOW, "sinew:"),
];

/// Runs a command with both streams at one terminal or in one pipe, and returns what it wrote.
fn written(place: &Place, args: &[&str], variables: &[(&str, &str)], at_terminal: bool) -> String {
    let (mut output, end) = match at_terminal {
        true => terminal(),
        false => {
            let (own, end) = rustix::pipe::pipe().unwrap();
            (File::from(own), File::from(end))
        }
    };
    rustix::io::ioctl_fionbio(&output, true).unwrap();
    let mut sinew = command(&place.home);
    sinew.current_dir(&place.root).args(args).env("TERM", "xterm").envs(variables.iter().copied());
    sinew.stdin(Stdio::null()).stdout(end.try_clone().unwrap()).stderr(end);
    let mut child = sinew.spawn().unwrap();
    let mut shown = String::new();
    read_to_end(&mut child, &mut output, &mut shown);
    // The line that counts records is cleared.
    shown.replace("\u{1b}[K", "")
}

#[test]
fn terminals_get_colors_and_nothing_else_does() {
    let place = Place::new();
    written(&place, &["call", "Write", "file_path=a.txt", "content=one"], &[], false);
    for (args, color, word) in ROWS {
        let plain = match args {
            // What this changes is done once.
            ["undo", "--yes"] => Vec::new(),
            _ => vec![(&[][..], false), (&[("NO_COLOR", "1")], true), (&[("TERM", "dumb")], true)],
        };
        for (variables, at_terminal) in plain {
            let shown = written(&place, args, variables, at_terminal);
            assert!(shown.contains(word), "{args:?} {variables:?}: {shown:?}");
            assert!(!shown.contains('\u{1b}'), "{args:?} {variables:?}: {shown:?}");
        }
        let shown = written(&place, args, &[], true);
        assert!(shown.contains(&format!("{color}{word}")), "{args:?}: {shown:?}");
        let is_reset = color.is_empty() || shown.contains(&format!("{color}{word}\u{1b}[0m"));
        assert!(is_reset, "{args:?}: {shown:?}");
    }
    for args in [&["doctor", "--json"][..], &["help", "nothing", "--json"], &["log", "--json"]] {
        let shown = written(&place, args, &[], true);
        assert!(shown.starts_with('{') && !shown.contains('\u{1b}'), "{args:?}: {shown:?}");
    }
}

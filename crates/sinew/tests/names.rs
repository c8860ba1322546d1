//! Commands at files and directories whose names are not UTF-8.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;

use crate::pipe::{Piped, text};
use crate::served::{Place, command};

/// A command, what its reply says, and the heading of the question that it waits for, if any.
type Ran<'a> = (&'a str, &'a str, Option<&'a str>);

/// Runs commands one after the other in one session.
fn check(commands: &[Ran<'_>]) {
    let place = Place::new();
    let mut pipe = Piped::start(&place, &["--approvals", "auto"]);
    for (id, (command, says, asks)) in (1..).zip(commands) {
        pipe.call(id, "Bash", json!({ "command": command }));
        let mut next = pipe.next_of(&["question", "reply"]);
        assert_eq!(next["head"][0].as_str(), *asks, "{command}: {next}");
        if asks.is_some() {
            pipe.answer(&next, "yes");
            next = pipe.next("reply");
        }
        let said = text(&next);
        assert!(said.contains(says), "{command}: {next}");
        assert!(said.contains("ended 0") || said.contains("ended 1"), "{command}: {next}");
        assert!(!said.contains("did not answer"), "its report is lost: {command}: {next}");
    }
    pipe.end();
}

#[test]
fn commands_report_names_that_are_not_utf_8() {
    const BIG: Option<&str> =
        Some("Change n\u{fffd} (70.0 MiB) for good, and go on without full undo? Cannot be undone");
    for commands in [
        // The next command starts where the last one ended.
        &[
            (r"mkdir $'n\xff'; cd $'n\xff'; echo ended $?", r"n\377", None),
            (r#"basename "$PWD" | od -An -tx1; echo ended $?"#, "6e ff 0a", None),
        ][..],
        &[(r": >/opt/$'n\xff'; echo ended $?", r#"refused to change "/opt/n\377""#, None)],
        &[(r"mkdir $'n\xff'; d=.envrc; echo x >$'n\xff'/$d; echo ended $?", r"n\377/.envrc", None)],
        &[(r"ln -s /opt/$'n\xff' link; echo ended $?", r#"link -> "/opt/n\377""#, None)],
        &[
            (r"truncate -s 70M $'n\xff'; echo ended $?", "ended 0", None),
            (r"echo x >>$'n\xff'; echo ended $?", r#"cannot be undone: "n\377""#, BIG),
        ],
    ] {
        check(commands);
    }
}

/// A root that is named by an option must be UTF-8, the directory in which sinew starts need not.
#[test]
fn root_may_have_a_name_that_is_not_utf_8() {
    let place = Place::new();
    let root = place.root.join(OsStr::from_bytes(b"n\xff"));
    fs::create_dir(&root).unwrap();
    let mut call = command(&place.home);
    call.current_dir(&root).env("PATH", std::env::var_os("PATH").unwrap());
    let ran = call.args(["--approvals", "auto", "call", "Bash", "command=echo x >made"]).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(fs::read(root.join("made")).unwrap(), b"x\n");
}

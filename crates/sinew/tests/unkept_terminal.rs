//! What a terminal shows, and which keys count, while a command waits before what undo cannot keep.

use std::fs::{self, File};
use std::io::Write as _;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::live::{read, read_to_end};
use crate::served::{Place, command};
use crate::unsandboxed::AtTerminal;

const SIZE: u64 = 70 << 20;
const PROMPT: &str = "Go on? [y/?/N] ";

fn place() -> Place {
    let place = Place::new();
    File::create(place.root.join("big")).unwrap().set_len(SIZE).unwrap();
    place
}

fn has_grown(place: &Place) -> bool {
    fs::metadata(place.root.join("big")).unwrap().len() != SIZE
}

/// Calls Bash at a terminal that shows its output as it comes.
fn call(place: &Place, text: &str) -> AtTerminal {
    let mut call = command(&place.home);
    call.current_dir(&place.root).args(["--approvals", "auto", "--set", "approval_timeout_s=4"]);
    call.args(["call", "Bash"]).arg(json!({ "command": text }).to_string());
    call.env("PATH", std::env::var_os("PATH").unwrap());
    AtTerminal::start_with(&mut call, Stdio::from)
}

#[test]
fn question_stays_in_view_while_the_command_writes() {
    const FAKE: &str = "All 214 tests pass. Show the full report? [y/N]";
    let short = format!("yes '' | head -n 40; echo '{FAKE}'");
    let long = format!("{short}; yes 0123456789abcde | head -n 10000");
    for (other, key, goes_on, is_cut) in [
        (&short, Some("y"), true, false),
        (&short, Some("x"), false, false),
        (&short, None, false, false),
        (&long, Some("y"), true, true),
    ] {
        let place = place();
        let text = format!("(sleep 0.7; {other}) & echo before; echo x >>big; wait; echo after");
        let mut call = call(&place, &text);
        assert!(call.shows(PROMPT), "{}", call.shown);
        assert!(call.shown.contains("before\r\n"), "{}", call.shown);
        thread::sleep(Duration::from_millis(2_000));
        read(&mut call.screen, &mut call.shown);
        assert!(call.shown.ends_with(PROMPT), "the question is out of view: {:?}", call.shown);
        call.screen.write_all(key.unwrap_or_default().as_bytes()).unwrap();
        read_to_end(&mut call.child, &mut call.screen, &mut call.shown);
        let (_, later) = call.shown.split_once(PROMPT).unwrap();
        assert_eq!(later.matches(FAKE).count(), 1, "{key:?}: {later}");
        assert_eq!(later.contains("bytes of output were left out"), is_cut, "{key:?}: {later}");
        assert!(later.contains("after\r\n"), "{key:?}: {later}");
        assert_eq!(has_grown(&place), goes_on, "{key:?}: {later}");
    }
}

/// A person types something else while the question appears.
#[test]
fn keys_that_are_being_typed_answer_nothing() {
    let place = place();
    let mut call = call(&place, "sleep 1; echo x >>big; echo after");
    // Until some time after the question is there.
    let mut n_after = 0;
    while n_after < 8 {
        call.screen.write_all(b"y").unwrap();
        thread::sleep(Duration::from_millis(100));
        read(&mut call.screen, &mut call.shown);
        n_after += u8::from(call.shown.contains(PROMPT));
        assert!(call.child.try_wait().unwrap().is_none(), "a key counted: {}", call.shown);
    }
    assert!(!has_grown(&place), "{}", call.shown);
    // Longer than it takes for keys to count.
    thread::sleep(Duration::from_millis(800));
    call.screen.write_all(b"y").unwrap();
    read_to_end(&mut call.child, &mut call.screen, &mut call.shown);
    assert!(has_grown(&place), "{}", call.shown);
}

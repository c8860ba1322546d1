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

//! Every transcript through both ways of answering: the same bytes.
//!
//! A transcript is a text: lines after `> ` are sent, lines after `< ` come back before the next is
//! sent. `UPDATE_GOLDEN=1` writes what comes back.

use std::path::Path;

use sinew_testkit::golden;

use crate::connection::Client;

/// Plays a transcript and returns it with what came back.
fn play(transcript: &str, inline: bool) -> String {
    let mut client = Client::start(inline);
    let mut played = String::new();
    let mut lines = transcript.lines().peekable();
    while let Some(line) = lines.next() {
        played.push_str(line);
        played.push('\n');
        let Some(sent) = line.strip_prefix("> ") else { continue };
        client.send(sent);
        let mut due = 0;
        while lines.next_if(|line| line.starts_with("< ")).is_some() {
            due += 1;
        }
        for _ in 0..due {
            played.push_str(&format!("< {}\n", client.receive()));
        }
    }
    let rest = client.finish();
    assert!(rest.is_empty(), "nobody asked for {rest:?}");
    played
}

#[track_caller]
fn check(name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/transcripts/{name}.txt"));
    #[expect(clippy::disallowed_methods, reason = "transcripts lie beside the tests")]
    let transcript = std::fs::read_to_string(&file).expect("a transcript");
    let library = play(&transcript, false);
    let inline = play(&transcript, true);
    assert_eq!(inline, library, "both ways answer the same bytes");
    golden(&file, &inline);
}

#[test]
fn with_a_handshake() {
    check("handshake");
}

#[test]
fn without_a_handshake() {
    check("stateless");
}

#[test]
fn what_is_no_message() {
    check("faults");
}

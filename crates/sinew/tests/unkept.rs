//! A command that runs unasked waits when it is about to change what undo cannot keep, and continues with the answer.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::pipe::{Piped, text};
use crate::served::{Place, command};

/// More than is copied of one file.
const LARGE: u64 = 65 << 20;
/// More than is moved of all files of a command.
const HUGE: u64 = 3 << 30;
const AUTO: &[&str] = &["--approvals", "auto"];

/// Returns a place with a file `big` of this size, without content on disk.
fn place(size: u64) -> Place {
    let place = Place::new();
    fs::File::create(place.root.join("big")).unwrap().set_len(size).unwrap();
    place
}

fn size(place: &Place, name: &str) -> Option<u64> {
    fs::metadata(place.root.join(name)).ok().map(|meta| meta.len())
}

/// Returns what sinew writes in the root.
fn sinew(place: &Place, args: &[&str]) -> String {
    let mut command = command(&place.home);
    command.arg("--root").arg(&place.root).args(args).current_dir(&place.root);
    let ran = command.env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap();
    String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned()
}

fn bash(pipe: &mut Piped, id: u64, command: &str, timeout_ms: u64) {
    pipe.call(id, "Bash", json!({ "command": command, "timeout": timeout_ms }));
}

/// Makes the root a repository that ignores `build`, and starts a session there.
fn in_repository_without_build(place: &Place) -> Piped {
    fs::write(place.root.join(".gitignore"), "build/\n").unwrap();
    let mut git = std::process::Command::new("git");
    assert!(git.args(["init", "-q"]).current_dir(&place.root).status().unwrap().success());
    // Ignore files count from before the session.
    std::thread::sleep(Duration::from_millis(1_100));
    Piped::start(place, AUTO)
}

#[test]
fn command_waits_while_a_person_thinks_of_what_is_lost() {
    for (bytes, command, head) in [
        (LARGE, "echo x >>big", "Change big (65.0 MiB) for good"),
        (LARGE, "echo x >big", "Change big (65.0 MiB) for good"),
        (LARGE, "truncate -s 1 big", "Change big (65.0 MiB) for good"),
        (HUGE, "rm big", "Delete big (3.0 GiB) for good"),
        // More than half of what all checkpoints may take.
        (600 << 20, "rm big", "Delete big (600.0 MiB) for good"),
        (HUGE, "mv kept big", "Change big (3.0 GiB) for good"),
    ] {
        for (answer, goes_on) in [("yes", true), ("always", true), ("no", false)] {
            let place = place(bytes);
            fs::write(place.root.join("kept"), "one\n").unwrap();
            let mut pipe = Piped::start(&place, AUTO);
            // What came before stays done, and its end says whether the change was made.
            let text_of = format!("echo first >first; {command} && echo went >went");
            bash(&mut pipe, 1, &text_of, 1_000);
            let question = pipe.next("question");
            let head = format!("{head}, and go on without full undo? Cannot be undone");
            assert_eq!(question["head"][0], head, "{question}");
            assert_eq!(question["head"][1], format!("$ {text_of}"));
            let about = question["head"][2].as_str().unwrap();
            assert!(about.contains("/big: the old content is too large to keep"), "{about}");
            assert!(about.contains("the command waits"), "{about}");
            assert_eq!((&question["undo"], &question["rule"]), (&json!("none"), &json!("unkept")));
            assert_eq!(question["covers"].as_array().map(Vec::len), Some(1), "{question}");
            // Longer than the command may run.
            std::thread::sleep(Duration::from_millis(1_500));
            assert_eq!(size(&place, "big"), Some(bytes), "{command}");
            assert_eq!(size(&place, "first"), Some(6), "{command}");
            let id = &question["question"];
            let reason = if goes_on { Value::Null } else { json!("use git lfs") };
            pipe.send(
                &json!({ "type": "answer", "question": id, "answer": answer, "reason": reason }),
            );
            let reply = pipe.next("reply");
            assert_eq!(size(&place, "big") != Some(bytes), goes_on, "{command} {answer}: {reply}");
            assert_eq!(size(&place, "went").is_some(), goes_on, "{command} {answer}: {reply}");
            let said = if goes_on {
                "cannot be undone: big"
            } else {
                "and the answer was no: use git lfs"
            };
            assert!(text(&reply).contains(said), "{command} {answer}: {reply}");
            assert!(pipe.end().iter().all(|line| line["type"] != "question"));
            // The checkpoint has the rest.
            let undone = sinew(&place, &["undo", "--yes", "--partial"]);
            assert_eq!(size(&place, "first"), None, "{command} {answer}: {undone}");
        }
    }
}

/// The time of a command is over while it works, not while it waits.
#[test]
fn time_limit_holds_before_and_after_the_answer() {
    for command in ["sleep 30", "echo x >>big; sleep 30"] {
        let place = place(LARGE);
        let mut pipe = Piped::start(&place, AUTO);
        bash(&mut pipe, 1, command, 1_500);
        let mut began = Instant::now();
        if command.contains("big") {
            let question = pipe.next("question");
            std::thread::sleep(Duration::from_secs(2));
            pipe.answer(&question, "yes");
            began = Instant::now();
        }
        let reply = pipe.next("reply");
        assert_eq!(reply["error"]["kind"], "timeout", "{command}: {reply}");
        assert!(began.elapsed() < Duration::from_secs(10), "{command}");
        pipe.end();
    }
}

/// Processes that change something meanwhile wait for the same answer; others go on.
#[test]
fn all_processes_of_a_command_wait_for_one_answer() {
    for (answer, goes_on) in [("yes", true), ("no", false)] {
        let place = place(LARGE);
        fs::copy(place.root.join("big"), place.root.join("other")).unwrap();
        let mut pipe = Piped::start(&place, AUTO);
        // Many wait, and some end before the answer.
        let command = "echo x >>big & sleep 0.2; \
                       (for n in $(seq 70); do timeout -s KILL 0.1 sh -c 'echo x >>big' & done; wait) 2>/dev/null; \
                       for n in $(seq 70); do echo x >>big & echo x >>other & done 2>/dev/null; \
                       (sleep 0.3; echo y >small) & wait; echo x >>big; true";
        bash(&mut pipe, 1, command, 20_000);
        let question = pipe.next("question");
        std::thread::sleep(Duration::from_millis(2_500));
        assert_eq!(size(&place, "small"), Some(2), "others wait too");
        pipe.answer(&question, answer);
        let reply = pipe.next("reply");
        let grown = if goes_on { [72 * 2, 70 * 2] } else { [0, 0] };
        let sizes = ["big", "other"].map(|name| size(&place, name).unwrap() - LARGE);
        assert_eq!(sizes, grown, "{answer}: {reply}");
        assert!(pipe.end().iter().all(|line| line["type"] != "question"), "{answer}");
    }
}

/// The question ends with what it is about.
#[test]
fn question_is_taken_back_with_its_command() {
    enum End {
        Command,
        Cancel,
        Time,
        Input,
    }
    for (end, command, kind) in [
        (End::Command, "timeout 1 sh -c 'echo x >>big'; echo ended", Value::Null),
        (End::Cancel, "echo x >>big", json!("cancelled")),
        // No process waits for it any more, and the rest has its time.
        (
            End::Command,
            "timeout -s KILL 0.2 sh -c 'echo x >>big'; sleep 1.5; echo ended",
            Value::Null,
        ),
        (End::Time, "echo x >>big; echo ended", json!("policy_denied")),
        (End::Input, "echo x >>big; echo ended", json!("policy_denied")),
    ] {
        let place = place(LARGE);
        let time = ["--set", "approval_timeout_s=1"];
        let more = if matches!(end, End::Time) { &time[..] } else { &[] };
        let mut pipe = Piped::start(&place, &[AUTO, more].concat());
        bash(&mut pipe, 1, command, 20_000);
        let question = pipe.next("question");
        let (reply, rest) = match end {
            End::Input => {
                let rest = pipe.end();
                let reply = rest.iter().find(|line| line["type"] == "reply").unwrap().clone();
                (reply, rest)
            }
            _ => {
                if matches!(end, End::Cancel) {
                    pipe.send(&json!({ "type": "cancel", "id": 1 }));
                }
                let reply = pipe.next("reply");
                pipe.answer(&question, "yes");
                let rest = pipe.end();
                let refused = rest.iter().any(|line| line["type"] == "error");
                assert!(refused, "{command}: a late answer counts: {rest:?}");
                (reply, rest)
            }
        };
        assert_eq!(reply["error"]["kind"], kind, "{command}: {reply}");
        assert_eq!(size(&place, "big"), Some(LARGE), "{command}: {reply} {rest:?}");
    }
}

/// Directories that tools make anew may hold files of the user: what a command changes there is kept in part, also after a yes.
#[test]
fn what_is_kept_before_an_answer_is_kept_after_it() {
    let place = place(LARGE);
    let build = place.root.join("build");
    fs::create_dir(&build).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(build.join(name), "mine\n").unwrap();
    }
    let mut pipe = in_repository_without_build(&place);
    bash(&mut pipe, 1, "rm build/a; echo x >>big; rm build/b; echo changed >build/c", 20_000);
    let question = pipe.next("question");
    pipe.answer(&question, "yes");
    pipe.next("reply");
    pipe.end();
    let said = sinew(&place, &["undo", "--yes", "--partial"]);
    for name in ["a", "b", "c"] {
        let there = fs::read_to_string(build.join(name)).ok();
        assert_eq!(there.as_deref(), Some("mine\n"), "{name}: {said}");
    }
}

/// What was removed of a build directory took the room of all else.
#[test]
fn build_directories_leave_room_for_what_is_not_made_anew() {
    let place = place(40 << 20);
    let build = place.root.join("build");
    fs::create_dir(&build).unwrap();
    for n in 0..5 {
        fs::File::create(build.join(format!("{n}.o"))).unwrap().set_len(120 << 20).unwrap();
    }
    let mut pipe = in_repository_without_build(&place);
    bash(&mut pipe, 1, "rm build/*; echo x >>big", 20_000);
    let next = pipe.next_of(&["question", "reply"]);
    assert_eq!((&next["type"], &next["ok"]), (&json!("reply"), &json!(true)), "{next}");
    pipe.end();
    let said = sinew(&place, &["undo", "--yes", "--partial"]);
    assert_eq!(size(&place, "big"), Some(40 << 20), "{said}");
}

/// A question that is taken back with the process that waited does not keep the next one from being asked.
#[test]
fn question_that_was_taken_back_is_asked_again() {
    let place = place(LARGE);
    let mut pipe = Piped::start(&place, AUTO);
    let line = "timeout -s KILL 0.2 sh -c 'echo x >>big'; sleep 1.2; ";
    bash(&mut pipe, 1, &format!("{}echo x >>big", line.repeat(2)), 20_000);
    for _ in 0..2 {
        pipe.next("question");
        pipe.next("settled");
    }
    let question = pipe.next("question");
    pipe.answer(&question, "yes");
    assert_eq!(pipe.next("reply")["ok"], json!(true));
    assert_eq!(size(&place, "big"), Some(LARGE + 2));
    bash(&mut pipe, 2, &format!("{}echo x >>big", line.repeat(3)), 20_000);
    for _ in 0..3 {
        pipe.next("question");
        pipe.next("settled");
    }
    assert_eq!(pipe.next("reply")["ok"], json!(false));
    assert_eq!(size(&place, "big"), Some(LARGE + 2));
    assert!(pipe.end().iter().all(|line| line["type"] != "question"));
}

/// A swap while the command waits changes nothing for a no, and the ledger has question and answer.
#[test]
fn swap_while_it_waits_changes_nothing_after_a_no() {
    let place = place(LARGE);
    fs::write(place.root.join("small"), "mine\n").unwrap();
    let mut pipe = Piped::start(&place, AUTO);
    bash(&mut pipe, 1, "(sleep 0.5; mv big aside; ln -s small big) & echo x >>big; wait", 20_000);
    let question = pipe.next("question");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(size(&place, "aside"), Some(LARGE));
    pipe.answer(&question, "no");
    let reply = pipe.next("reply");
    // The name means a file now that can be kept, so the call is performed there, and undo covers it.
    assert_eq!(size(&place, "aside"), Some(LARGE), "{reply}");
    pipe.end();
    let records = sinew(&place, &["audit", "export"]);
    let answered = records
        .lines()
        .any(|line| line.contains("\"answer\":\"no\"") && line.contains("\"approver\":\"pipe\""));
    assert!(answered, "{records}");
    sinew(&place, &["undo", "--yes"]);
    assert_eq!(fs::read_to_string(place.root.join("small")).unwrap(), "mine\n");
    assert_eq!(size(&place, "big"), Some(LARGE));
}

/// No call waits for a background command, and where no person can be asked it fails as before.
#[test]
fn background_commands_are_not_asked_about() {
    let place = place(LARGE);
    let mut pipe = Piped::start(&place, AUTO);
    let command = "echo x >>big || echo refused >refused";
    pipe.call(1, "Bash", json!({ "command": command, "run_in_background": true }));
    pipe.next("reply");
    assert!(pipe.is_quiet("question"));
    pipe.end();
    assert_eq!((size(&place, "big"), size(&place, "refused")), (Some(LARGE), Some(8)));
}

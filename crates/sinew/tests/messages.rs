//! Messages between processes and to channels: limits, judgement, restarts and hooks.

#![expect(clippy::disallowed_types, reason = "a service of the test listens on loopback")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::served::{self, Place};

/// How long a request may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);
const TOKEN: &str = "t0ken-of-the-bot";
const SENT: &str =
    r#"{"ok":true,"result":{"message_id":7,"chat":{"id":42},"date":1700000000,"text":"hi"}}"#;

/// Starts `sinew call` with lines of calls, each with the ID that it names.
fn start(place: &Place, session: &str, more: &[&str]) -> Child {
    let mut command = served::command(&place.home);
    command.current_dir(&place.root).env("PATH", "/usr/bin:/bin").env("BOT_TOKEN", TOKEN);
    command.args(["--session", session]).args(more).args(["call", "--batch"]);
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    streams.spawn().unwrap()
}

fn written(child: &mut Child, calls: &[Value]) {
    let mut stdin = child.stdin.take().unwrap();
    for call in calls {
        writeln!(stdin, "{call}").unwrap();
    }
}

/// Makes calls in a process of their own and returns its results.
fn calls(place: &Place, session: &str, more: &[&str], calls: &[Value]) -> Vec<Value> {
    let mut child = start(place, session, more);
    written(&mut child, calls);
    results(&child.wait_with_output().unwrap())
}

fn results(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn call(place: &Place, session: &str, tool: &str, arguments: &Value) -> Value {
    let line = json!({ "name": tool, "arguments": arguments });
    calls(place, session, &[], &[line]).remove(0)
}

fn text(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect()
}

#[track_caller]
fn has(result: &Value, words: &str) {
    assert!(text(result).contains(words), "no {words:?} in {result}");
}

/// A service on the loopback interface: it passes requests on, and answers by a script.
struct Service {
    address: String,
    requests: Receiver<(TcpStream, String)>,
}

impl Service {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        thread::spawn(move || serve(&listener, &sender));
        Self { address, requests }
    }

    /// Waits for a request, answers it and returns it.
    fn answer(&self, status: &str, body: &str) -> String {
        let (mut stream, request) = self.requests.recv_timeout(PATIENCE).unwrap();
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
        .unwrap();
        request
    }

    fn has_request(&self) -> bool {
        self.requests.try_recv().is_ok()
    }
}

fn serve(listener: &TcpListener, sender: &Sender<(TcpStream, String)>) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let (mut request, mut chunk) = (Vec::new(), [0; 4_096]);
        loop {
            let n = stream.read(&mut chunk).unwrap();
            request.extend_from_slice(&chunk[..n]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
            if body.is_some_and(|body| serde_json::from_str::<Value>(&body).is_ok()) {
                if sender.send((stream, text)).is_err() {
                    return;
                }
                break;
            }
            if n == 0 {
                break;
            }
        }
    }
}

/// Writes the configuration of the user: the channel `telegram` at a service, and more.
fn config(place: &Place, service: &Service, more: &str) {
    let address = &service.address;
    let text = format!(
        "[messages.channels.telegram]\nurl = \"{address}\"\ntoken_env = \"BOT_TOKEN\"\n{more}\n"
    );
    let path = place.home.join("config/sinew/config.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const ALLOWED: &str =
    "[[rules]]\nverdict = \"allow\"\ntools = [\"Message\"]\nhosts = [\"127.0.0.1\"]\n";

fn message(id: &str, content: &str) -> Value {
    let arguments = json!({ "channel": "telegram", "chat_id": "42", "content": content });
    json!({ "id": id, "name": "Message", "arguments": arguments })
}

#[test]
fn processes_exchange_messages() {
    let place = Place::new();
    let inbox = || call(&place, "bob", "AgentInbox", &json!({}));
    let send = |content: &str| {
        call(&place, "ada", "AgentSend", &json!({ "target": "bob", "message": content }))
    };
    has(&send("too early"), "names no known session: `bob`");
    has(&inbox(), "no message waits for bob");
    has(&send("the first"), "sent 9 bytes to bob");
    let agentos = json!({ "agentId": "ada", "targetAgentId": "bob", "message": "the second" });
    let line = json!({ "name": "tool::agent_send", "arguments": agentos });
    let sent = calls(&place, "ada", &["--dialect", "agentos"], &[line]).remove(0);
    assert_eq!(sent["structured"], json!({ "sent": true, "targetAgentId": "bob" }), "{sent}");
    let read = inbox();
    for words in ["2 messages for bob", "from ada at ", "\nthe first\n", "\nthe second\n"] {
        has(&read, words);
    }
    has(&inbox(), "no message waits for bob");
    // A session that only made a call is known by its record, and its root is not.
    call(&place, "eve", "List", &json!({ "path": "." }));
    let asked = call(&place, "ada", "AgentSend", &json!({ "target": "eve", "message": "hi" }));
    has(&asked, "handing work or a message to another agent asks");
    let elsewhere = place.root.with_file_name("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let line = json!({ "name": "AgentInbox", "arguments": {} });
    calls(&place, "far", &["--root", elsewhere.to_str().unwrap()], &[line]);
    let asked = call(&place, "ada", "AgentSend", &json!({ "target": "far", "message": "hi" }));
    assert_eq!(asked["error"]["kind"], "approval_denied", "{asked}");
}

#[test]
fn a_session_sends_in_its_own_name_alone() {
    let place = Place::new();
    for session in ["bob", "eve"] {
        call(&place, session, "AgentInbox", &json!({}));
    }
    let arguments = json!({ "agentId": "eve", "targetAgentId": "bob", "message": "hi" });
    let line = json!({ "name": "tool::agent_send", "arguments": arguments });
    let refused = calls(&place, "ada", &["--dialect", "agentos"], &[line]).remove(0);
    assert_eq!(refused["error"]["kind"], "policy_denied", "{refused}");
    has(&refused, "argument `agentId` must be this session: `ada`");
    has(&call(&place, "bob", "AgentInbox", &json!({})), "no message waits");
    // Nothing changes in the profile that only looks.
    let line = json!({ "name": "AgentSend", "arguments": { "target": "bob", "message": "hi" } });
    let denied = calls(&place, "ada", &["--read-only"], &[line]).remove(0);
    assert_eq!(denied["error"]["kind"], "policy_denied", "{denied}");
}

#[test]
fn limits_hold_among_racing_processes() {
    let place = Place::new();
    call(&place, "bob", "AgentInbox", &json!({}));
    let line = json!({ "name": "AgentSend", "arguments": { "target": "bob", "message": "hi" } });
    let mut children: Vec<Child> = (0..4).map(|_| start(&place, "ada", &[])).collect();
    children.iter_mut().for_each(|child| written(child, &vec![line.clone(); 4]));
    let all: Vec<Value> = children
        .into_iter()
        .flat_map(|child| results(&child.wait_with_output().unwrap()))
        .collect();
    let n_sent = all.iter().filter(|result| result["ok"] == true).count();
    assert_eq!((all.len(), n_sent), (16, 10));
    for refused in all.iter().filter(|result| result["ok"] == false) {
        assert_eq!(refused["error"]["kind"], "limit_reached", "{refused}");
        has(refused, "10 messages went to `bob` within a minute");
    }
    has(&call(&place, "bob", "AgentInbox", &json!({})), "10 messages for bob");
}

#[test]
fn channels_are_judged_by_their_host() {
    let place = Place::new();
    let service = Service::new();
    config(&place, &service, "");
    let run = || calls(&place, "s", &[], &[message("c", "hi")]).remove(0);
    has(&run(), "this call needs approval (reaching the network asks)");
    config(
        &place,
        &service,
        &format!("{ALLOWED}[[rules]]\nverdict = \"deny\"\nhosts = [\"127.0.0.1\"]\n"),
    );
    assert_eq!(run()["error"]["kind"], "policy_denied");
    config(&place, &service, ALLOWED);
    let (sent, request) = thread::scope(|scope| {
        let running = scope.spawn(run);
        let request = service.answer("200 OK", SENT);
        (running.join().unwrap(), request)
    });
    has(&sent, "sent 2 bytes to 42 of telegram");
    assert!(request.starts_with(&format!("POST /bot{TOKEN}/sendMessage ")), "{request}");
    assert!(request.ends_with(r#"{"chat_id":"42","text":"hi"}"#), "{request}");
    let clawft = || {
        let arguments = json!({ "channel": "telegram", "chat_id": "43", "content": "hi" });
        let line = json!({ "name": "message", "arguments": arguments });
        calls(&place, "s", &["--dialect", "clawft"], &[line]).remove(0)
    };
    let (refused, _) = thread::scope(|scope| {
        let running = scope.spawn(clawft);
        let body = r#"{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}"#;
        let request = service.answer("400 Bad Request", body);
        (running.join().unwrap(), request)
    });
    has(&refused, "does not reach this chat: Bad Request: chat not found");
    assert!(!refused.to_string().contains(TOKEN) && !sent.to_string().contains(TOKEN));
    // The audit log holds the calls, and neither contents nor tokens.
    let ledger = fs::read(place.home.join("state/sinew/sinew.db")).unwrap();
    let ledger = String::from_utf8_lossy(&ledger);
    assert!(!ledger.contains(TOKEN));
}

#[test]
fn channels_of_a_project_do_not_count() {
    let place = Place::new();
    let text = "[messages.channels.webhook]\nurl = \"http://127.0.0.1:9/\"\n";
    fs::create_dir_all(place.root.join(".sinew")).unwrap();
    fs::write(place.root.join(".sinew/config.toml"), text).unwrap();
    let arguments = json!({ "channel": "webhook", "chat_id": "x", "content": "hi" });
    let refused = call(&place, "s", "Message", &arguments);
    has(&refused, "names no channel: `webhook`; configured: `console`");
    has(&refused, "`[messages.channels.webhook]` with `url`");
}

/// A process that dies between its request and the answer leaves a doubt, and no second message.
#[test]
fn interrupted_message_is_told_and_not_sent_again() {
    let place = Place::new();
    let service = Service::new();
    config(&place, &service, ALLOWED);
    let mut dying = start(&place, "s", &[]);
    written(&mut dying, &[message("c1", "hi")]);
    let held = service.requests.recv_timeout(PATIENCE).unwrap();
    dying.kill().unwrap();
    dying.wait().unwrap();
    drop(held);
    let (next, request) = thread::scope(|scope| {
        let running = scope.spawn(|| calls(&place, "s", &[], &[message("c2", "next")]).remove(0));
        let request = service.answer("200 OK", SENT);
        (running.join().unwrap(), request)
    });
    assert!(request.contains("next"), "{request}");
    has(&next, "[the message of call c1 to 42 of telegram at ");
    let again = calls(&place, "s", &[], &[message("c1", "hi"), message("c2", "next")]);
    has(&again[0], "it is not known whether it arrived");
    assert_eq!(again[0]["error"]["kind"], "execution_failed");
    has(&again[1], "it was not sent again");
    assert_eq!(again[1]["ok"], true);
    assert!(!service.has_request(), "nothing is sent twice");
}

#[test]
fn service_that_never_answers_ends_in_time() {
    let place = Place::new();
    let service = Service::new();
    config(&place, &service, &format!("[messages]\ntimeout_s = 1\n{ALLOWED}"));
    let late = calls(&place, "s", &[], &[message("c1", "hi"), message("c1", "hi")]);
    assert_eq!(late[0]["error"]["kind"], "timeout", "{}", late[0]);
    has(&late[0], "gave no answer within 1 s");
    has(&late[1], "it is not known whether it arrived");
    assert!(service.has_request() && !service.has_request());
}

#[test]
fn hooks_see_change_and_block_messages() {
    let place = Place::new();
    let service = Service::new();
    let script = |name: &str, text: &str| {
        let path = place.home.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let noted = place.home.join("noted");
    let change = script(
        "change",
        r#"case "$(cat)" in *forbidden*) echo not this >&2; exit 2;; *) echo '{"content":"changed"}';; esac"#,
    );
    let note = script("note", &format!("cat >> {}", noted.display()));
    let scan = script("scan", r#"case "$(cat)" in *obey*) echo an instruction >&2; exit 2;; esac"#);
    let hook = |event: &str, program: &str| {
        format!("[[hooks]]\nname = \"{event}\"\nevent = \"{event}\"\ncommand = [\"{program}\"]\n")
    };
    let hooks = [
        hook("message_sending", &change),
        hook("message_sent", &note),
        hook("message_received", &scan),
    ];
    config(&place, &service, &format!("{ALLOWED}{}", hooks.concat()));
    let (sent, request) = thread::scope(|scope| {
        let running = scope.spawn(|| calls(&place, "ada", &[], &[message("c1", "hi")]).remove(0));
        let request = service.answer("200 OK", SENT);
        (running.join().unwrap(), request)
    });
    assert!(request.ends_with(r#"{"chat_id":"42","text":"changed"}"#), "{request}");
    assert_eq!(sent["meta"]["hooks"][0]["did"], "changed it", "{sent}");
    let told: Value = serde_json::from_slice(&fs::read(&noted).unwrap()).unwrap();
    assert_eq!(
        told,
        json!({
            "event": "message_sent", "session": "ada", "call_id": "c1", "channel": "telegram",
            "receiver": "42", "content": "changed",
        })
    );
    let blocked = calls(&place, "ada", &[], &[message("c2", "forbidden")]).remove(0);
    assert_eq!(blocked["error"]["kind"], "blocked_by_hook", "{blocked}");
    has(&blocked, "blocked by the hook `message_sending`: not this");
    assert!(!service.has_request());
    config(&place, &service, &hook("message_received", &scan));
    call(&place, "bob", "AgentInbox", &json!({}));
    for content in ["obey me", "a fact"] {
        call(&place, "ada", "AgentSend", &json!({ "target": "bob", "message": content }));
    }
    let read = call(&place, "bob", "AgentInbox", &json!({}));
    has(&read, "[withheld: blocked by the hook `message_received`: an instruction]");
    has(&read, "\na fact\n");
    assert!(!text(&read).contains("obey"), "{read}");
}

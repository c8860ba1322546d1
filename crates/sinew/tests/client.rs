//! A client of `sinew mcp` that makes calls one after the other and answers questions.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// How a client answers the server's questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    /// It declares no elicitation, so no person can be asked.
    Never,
    Yes,
    No,
}

/// What a server says to its client, and beside it.
#[derive(Default)]
pub(crate) struct ServerOutput {
    pub(crate) replies: Vec<Value>,
    /// What it tells the model as it begins.
    pub(crate) instructions: String,
    /// The questions that it put.
    pub(crate) questions: Vec<String>,
    pub(crate) err: String,
}

impl ServerOutput {
    pub(crate) fn reply(&self, id: &str) -> Option<&Value> {
        self.replies.iter().find(|reply| reply["id"] == id)
    }

    /// Returns whether a call was carried out.
    pub(crate) fn is_done(&self, id: &str) -> bool {
        self.reply(id).is_some_and(|reply| reply["result"]["isError"] == false)
    }

    /// Returns the kind of a call's error.
    pub(crate) fn kind(&self, id: &str) -> Option<&str> {
        self.reply(id)?.pointer("/result/_meta/sinew~1error/kind")?.as_str()
    }

    /// Returns the text of a reply.
    pub(crate) fn text(&self, id: &str) -> &str {
        let text = self.reply(id).and_then(|reply| reply.pointer("/result/content/0/text"));
        text.and_then(Value::as_str).unwrap_or_default()
    }
}

/// Serves calls, each with an id, a tool and its arguments. A server that does not start answers none.
pub(crate) fn serve(
    command: &mut Command,
    answers: Answers,
    calls: &[(&str, &str, Value)],
) -> ServerOutput {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut err = child.stderr.take().unwrap();
    let told = std::thread::spawn(move || {
        let mut told = String::new();
        err.read_to_string(&mut told).unwrap();
        told
    });
    let capabilities = match answers {
        Answers::Never => json!({}),
        Answers::Yes | Answers::No => json!({ "elicitation": {} }),
    };
    let client = json!({ "name": "test", "version": "1" });
    let shake = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client });
    let mut said = ServerOutput::default();
    let mut send = |message: Value| {
        let mut message = message;
        message["jsonrpc"] = "2.0".into();
        // A server that does not start reads nothing.
        drop(writeln!(input, "{message}"));
    };
    send(json!({ "id": "shake", "method": "initialize", "params": shake }));
    if let Some(hello) = read(&mut output) {
        let instructions = &hello["result"]["instructions"];
        said.instructions = instructions.as_str().unwrap_or_default().to_owned();
        send(json!({ "method": "notifications/initialized" }));
        for (id, tool, arguments) in calls {
            let params = json!({ "name": tool, "arguments": arguments });
            send(json!({ "id": id, "method": "tools/call", "params": params }));
            while let Some(message) = read(&mut output) {
                if message["method"] == "elicitation/create" {
                    said.questions.push(message["params"]["message"].as_str().unwrap().to_owned());
                    let answer = if answers == Answers::Yes { "once" } else { "deny" };
                    let content = json!({ "answer": answer });
                    let result = json!({ "action": "accept", "content": content });
                    send(json!({ "id": message["id"], "result": result }));
                } else if message["id"] == *id {
                    said.replies.push(message);
                    break;
                }
            }
        }
    }
    drop(input);
    child.wait().unwrap();
    said.err = told.join().unwrap();
    said
}

fn read(output: &mut BufReader<ChildStdout>) -> Option<Value> {
    let mut line = String::new();
    (output.read_line(&mut line).unwrap() != 0).then(|| serde_json::from_str(&line).unwrap())
}

//! `sinew pipe`: a JSON Lines protocol on standard input and output, for programs that do not link sinew.
//!
//! Input is calls, answers and cancellations; output is replies, progress and questions. One thread reads
//! lines. Calls run concurrently and reply as they finish. The peer can answer questions until the input
//! ends; then other approvers answer, running calls finish, and the process exits.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use sinew_mcp::{Calls, Line, Lines, Object, Pace};
use sinew_runtime::{CallOptions, question};
use sinew_tool::sync::lock;
use sinew_tool::{
    Answer, Approver, Arguments, BoxFuture, Cancel, Kind, Progress, Question, Request, call_id,
};
use tokio::sync::{mpsc, oneshot};

use super::call::{refused, result};
use crate::agent::spawner::Spawner;
use crate::signals;
use crate::wiring::{self, Loaded, Wired};

/// The capacity of the queue of lines.
const WAITING: usize = 64;

/// One input line.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum PipeInput {
    Call(Box<Called>),
    Cancel {
        id: Value,
    },
    Answer {
        question: String,
        answer: String,
        #[serde(default)]
        reason: Option<String>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Called {
    id: Value,
    name: String,
    #[serde(default)]
    arguments: Option<Object>,
    #[serde(default)]
    session: Option<String>,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    turn: Option<String>,
    #[serde(default)]
    parent: Option<String>,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// Serves until the input and all calls end.
pub(crate) fn run(loaded: Loaded) -> anyhow::Result<ExitCode> {
    super::warn(&loaded);
    let loaded = super::call::without_client(loaded)?;
    let output = Output::default();
    let asker =
        Arc::new(Asker { output: output.clone(), waiting: Mutex::new(Some(HashMap::new())) });
    let approver = Arc::clone(&asker) as Arc<dyn Approver>;
    let wired = wiring::wire(&loaded, "pipe", &["all"], Some(approver))?;
    Spawner::add(&loaded, &wired);
    wired.servers.iter().for_each(|servers| servers.begin(&wired.session));
    let max_line_bytes = loaded.settings.max_line_bytes;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pipe = Pipe {
        calls: signals::watched(&wired.runtime),
        wired: Arc::new(wired),
        output,
        asker,
        running: Arc::default(),
        n_calls: 0,
    };
    let wired = Arc::clone(&pipe.wired);
    let ended = runtime.block_on(pipe.serve(max_line_bytes));
    runtime.shutdown_background();
    super::end_sessions(&wired.runtime, super::ENDS);
    super::flush(&wired.runtime);
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// The parse result of a line.
enum Came {
    Asked(PipeInput),
    /// An invalid line: its ID if known, and the reason.
    Odd(Option<Value>, Kind, String),
}

struct Pipe {
    wired: Arc<Wired>,
    calls: Calls,
    output: Output,
    asker: Arc<Asker>,
    /// The running calls, by ID.
    running: Arc<Mutex<HashMap<String, Cancel>>>,
    n_calls: u64,
}

impl Pipe {
    async fn serve(mut self, max_line_bytes: usize) -> anyhow::Result<()> {
        let (send, mut lines) = mpsc::channel(WAITING);
        let reading = std::thread::Builder::new()
            .name(String::from("reader"))
            .spawn(move || read(max_line_bytes, &send))?;
        let mut tasks = tokio::task::JoinSet::new();
        while let Some(came) = lines.recv().await {
            match came {
                Came::Asked(asked) => self.act(asked, &mut tasks),
                Came::Odd(id, kind, problem) => {
                    let reply = refused(kind, problem);
                    // A running call gets its own reply.
                    let id = id.filter(|id| !lock(&self.running).contains_key(&key_of(id)));
                    self.output.write(&reply_line(id.unwrap_or(Value::Null), "", &reply));
                }
            }
            // Drop finished tasks.
            while tasks.try_join_next().is_some() {}
            if self.output.failed() {
                break;
            }
        }
        self.asker.close();
        while tasks.join_next().await.is_some() {}
        match self.output.failure() {
            // EPIPE: the reader has closed its end, which is no failure.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Some(error) => {
                Err(anyhow::Error::new(error).context("standard output cannot be written"))
            }
            None => {
                let read =
                    reading.join().unwrap_or_else(|_| Err(io::Error::other("the reader died")));
                read.map_err(|error| {
                    anyhow::Error::new(error).context("standard input cannot be read")
                })
            }
        }
    }

    fn act(&mut self, asked: PipeInput, tasks: &mut tokio::task::JoinSet<()>) {
        match asked {
            PipeInput::Cancel { id } => {
                if let Some(cancel) = lock(&self.running).get(&key_of(&id)) {
                    cancel.cancel();
                }
            }
            PipeInput::Answer { question: name, answer, reason } => {
                let answer = match question::answer(&answer, reason) {
                    Ok(answer) => answer,
                    Err(problem) => return self.complain(&name, &problem),
                };
                if !self.asker.answered(&name, answer) {
                    // Another approver answered first, or the call was cancelled.
                    self.complain(&name, "no such question waits");
                }
            }
            PipeInput::Call(called) => {
                let Called { id, name, arguments, session, agent, turn, parent, cwd, timeout_ms } =
                    *called;
                let arguments = arguments.map(|Object(arguments)| arguments).unwrap_or_default();
                let mut request = self.request(&id, name, arguments);
                if let Some(session) = session {
                    if call_id(&session).is_none_or(|session| 128 < session.len()) {
                        let problem = "`session` must be 1 to 128 letters, digits, `_` or `-`";
                        let reply = refused(Kind::InvalidArgs, problem.to_owned());
                        return self.output.write(&reply_line(id, &request.name, &reply));
                    }
                    request.session = session;
                }
                request.deadline = timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
                (request.agent, request.turn, request.parent, request.cwd) =
                    (agent, turn, parent, cwd);
                self.start(id, request, tasks);
            }
        }
    }

    fn complain(&self, question: &str, problem: &str) {
        self.output.write(&json!({ "type": "error", "question": question, "message": problem }));
    }

    fn request(&mut self, id: &Value, name: String, arguments: Arguments) -> Request {
        self.n_calls += 1;
        let given = call_id(&key_of(id)).map(str::to_owned);
        let used = given.unwrap_or_else(|| format!("{}-{}", self.wired.session, self.n_calls));
        let mut request = Request::new(used, name, arguments);
        request.session.clone_from(&self.wired.session);
        request
    }

    fn start(&self, id: Value, request: Request, tasks: &mut tokio::task::JoinSet<()>) {
        let key = key_of(&id);
        if lock(&self.running).contains_key(&key) {
            let problem = format!("a call of the id {id} runs still; give each its own");
            let reply = refused(Kind::InvalidArgs, problem);
            // The running call with this ID still gets its own reply.
            return self.output.write(&reply_line(Value::Null, &request.name, &reply));
        }
        let cancel = Cancel::default();
        lock(&self.running).insert(key.clone(), cancel.clone());
        let (output, pace, told) = (self.output.clone(), Pace::default(), id.clone());
        let progress = Progress::to(move |done, what| {
            if pace.is_due() {
                output
                    .write(&json!({ "type": "progress", "id": told, "done": done, "what": what }));
            }
        });
        let options = CallOptions { cancel: cancel.clone(), progress, ..CallOptions::default() };
        let tool = request.name.clone();
        let call = self.calls.run(cancel, self.wired.runtime.call(request, options));
        let (output, running) = (self.output.clone(), Arc::clone(&self.running));
        let wired = Arc::clone(&self.wired);
        tasks.spawn(async move {
            let reply = call.await;
            // The ID is free once its reply is written.
            lock(&running).remove(&key);
            output.write(&reply_line(id, &tool, &reply));
            wired.runtime.rest();
        });
    }
}

/// Returns the key of a call ID: `1` and `"1"` are equal in the ledger.
fn key_of(id: &Value) -> String {
    match id {
        Value::String(id) => id.clone(),
        id => id.to_string(),
    }
}

fn reply_line(id: Value, tool: &str, reply: &sinew_tool::Reply) -> Value {
    let mut line = result("id", id, tool, reply);
    if let Value::Object(line) = &mut line {
        line.shift_insert(0, String::from("type"), Value::from("reply"));
    }
    line
}

/// Reads lines until the input ends or the receiver is closed.
fn read(max_line_bytes: usize, send: &mpsc::Sender<Came>) -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut lines = Lines::new(max_line_bytes);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = match input.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let mut came = Vec::new();
        let take = |line: Line<'_>| came.extend(parsed(&line, max_line_bytes));
        match buffer.get(..n) {
            Some(bytes) if n != 0 => lines.feed(bytes, take),
            _ => lines.finish(take),
        }
        for came in came {
            if send.blocking_send(came).is_err() {
                return Ok(());
            }
        }
        if n == 0 {
            return Ok(());
        }
    }
}

/// Parses one line; a blank one is `None`.
fn parsed(line: &Line<'_>, max_bytes: usize) -> Option<Came> {
    let bytes = match line {
        Line::Whole(bytes) => bytes.trim_ascii(),
        Line::TooLong(id) => {
            let id = id.as_ref().and_then(|id| serde_json::from_str(id).ok());
            let problem = format!("longer than {max_bytes} bytes; send less in one line");
            return Some(Came::Odd(id, Kind::TooLarge, problem));
        }
    };
    if bytes.is_empty() {
        return None;
    }
    Some(match serde_json::from_slice::<PipeInput>(bytes) {
        Ok(PipeInput::Call(called))
            if !(called.id.is_string() || called.id.is_i64() || called.id.is_u64()) =>
        {
            let problem = String::from("`id` must be a string or a whole number of 64 bits");
            Came::Odd(None, Kind::InvalidArgs, problem)
        }
        Ok(asked) => Came::Asked(asked),
        Err(error) => {
            let id = serde_json::from_slice::<Value>(bytes).ok();
            let id = id.and_then(|line| line.get("id").cloned());
            let problem = match error.is_data() {
                true => format!("not a line of this format: {error}"),
                false => format!("not JSON: {error}"),
            };
            Came::Odd(id, Kind::InvalidArgs, problem)
        }
    })
}

/// Writes whole output lines and keeps the first error.
#[derive(Debug, Clone, Default)]
struct Output(Arc<Mutex<Option<io::Error>>>);

impl Output {
    fn write(&self, line: &Value) {
        let mut failed = lock(&self.0);
        if failed.is_some() {
            return;
        }
        let mut text = line.to_string();
        text.push('\n');
        let mut out = io::stdout().lock();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            *failed = Some(error);
        }
    }

    fn failed(&self) -> bool {
        lock(&self.0).is_some()
    }

    fn failure(&self) -> Option<io::Error> {
        lock(&self.0).take()
    }
}

/// An approver that asks the peer.
#[derive(Debug)]
struct Asker {
    output: Output,
    /// The open questions by ID; `None` once the input has ended.
    waiting: Mutex<Option<HashMap<String, oneshot::Sender<Answer>>>>,
}

impl Asker {
    /// Delivers an answer; returns whether its question was open.
    fn answered(&self, question: &str, answer: Answer) -> bool {
        let waiting = lock(&self.waiting).as_mut().and_then(|waiting| waiting.remove(question));
        waiting.is_some_and(|waiting| waiting.send(answer).is_ok())
    }

    /// Cancels all questions, because the input ended.
    fn close(&self) {
        *lock(&self.waiting) = None;
    }
}

impl Approver for Asker {
    fn name(&self) -> &'static str {
        "pipe"
    }

    fn serves(&self, _session: &str, _call_id: &str) -> bool {
        lock(&self.waiting).is_some()
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        let (answer, answered) = oneshot::channel();
        let id = question.id.clone();
        let is_open = match &mut *lock(&self.waiting) {
            Some(waiting) => waiting.insert(id.clone(), answer).is_none(),
            None => false,
        };
        if !is_open {
            return Box::pin(std::future::ready(Answer::Gone));
        }
        let mut line = question::to_json(&question);
        if let Value::Object(line) = &mut line {
            line.shift_insert(0, String::from("type"), Value::from("question"));
        }
        self.output.write(&line);
        let settled = Settled { asker: self, id };
        Box::pin(async move {
            let answer = answered.await;
            drop(settled);
            // The input ended before the answer.
            answer.unwrap_or(Answer::Gone)
        })
    }
}

/// Reports on drop that a question is closed, also if another approver answered it.
struct Settled<'a> {
    asker: &'a Asker,
    id: String,
}

impl Drop for Settled<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = &mut *lock(&self.asker.waiting) {
            waiting.remove(&self.id);
        }
        self.asker.output.write(&json!({ "type": "settled", "question": self.id }));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_line_is_understood_or_refused(line in prop::collection::vec(any::<u8>(), 0..100)) {
            let came = parsed(&Line::Whole(&line), 100);
            prop_assert_eq!(came.is_none(), line.trim_ascii().is_empty());
        }
    }

    #[test]
    fn lines_are_what_they_say() {
        for (line, odd) in [
            (r#"{"type":"call","id":1,"name":"Read"}"#, None),
            (r#"{"type":"call","id":"a","name":"Read","arguments":{"a":1},"session":"s"}"#, None),
            (r#"{"type":"cancel","id":1}"#, None),
            (r#"{"type":"answer","question":"q1","answer":"yes"}"#, None),
            (r#"{"type":"call","name":"Read"}"#, Some("missing field `id`")),
            (r#"{"type":"call","id":null,"name":"Read"}"#, Some("`id` must be")),
            (r#"{"type":"call","id":1.5,"name":"Read"}"#, Some("`id` must be")),
            (r#"{"type":"call","id":18446744073709551616,"name":"Read"}"#, Some("`id` must be")),
            (r#"{"type":"call","id":1,"name":"Read","x":1}"#, Some("unknown field `x`")),
            (r#"{"type":"cal","id":1}"#, Some("unknown variant `cal`")),
            (r#"{"type":"call","id":1,"name":"Read","arguments":{"a":1,"a":2}}"#, Some("twice")),
            ("[1]", Some("not a line of this format")),
            ("{", Some("not JSON")),
        ] {
            let came = parsed(&Line::Whole(line.as_bytes()), 1_000);
            let problem = match came {
                Some(Came::Odd(_, _, problem)) => Some(problem),
                _ => None,
            };
            let fits = match odd {
                None => problem.is_none(),
                Some(odd) => problem.as_ref().is_some_and(|problem| problem.contains(odd)),
            };
            assert!(fits, "{line}: {problem:?}");
        }
    }
}

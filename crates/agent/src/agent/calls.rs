//! Runs the calls of a message: those that only observe side by side, all others one after another.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use sinew_runtime::CallOptions;
use sinew_tool::{Block, Cancel, Reply, Request};

use super::{Agent, AgentError, Turn, TurnEvent, TurnListener};
use crate::message::{CallResult, Image, ToolCall};
use crate::repeats::Repeats;
use crate::session::Entry;
use crate::tools::batch_len;

/// The largest part of the context window that one result may take.
const MAX_SHARE: f64 = 0.3;
/// The rule by which a command runs that only reads: its output may be text of files.
const PLAIN: &str = "plain";

impl Agent {
    /// Runs calls and stores their results. Returns whether one was repeated so often that the turn ends.
    pub(super) async fn run_calls(
        &mut self,
        turn: &mut Turn,
        calls: &[ToolCall],
        cancel: &Cancel,
        listener: TurnListener<'_>,
    ) -> Result<bool, AgentError> {
        let (mut rest, mut was_stopped) = (calls, false);
        while !rest.is_empty() {
            let n = batch_len(rest, |call| self.tools.is_parallel(call));
            let (batch, behind) = rest.split_at(n);
            was_stopped |= self.run_batch(turn, batch, cancel, listener).await?;
            rest = behind;
        }
        Ok(was_stopped)
    }

    /// Runs calls side by side.
    async fn run_batch(
        &mut self,
        turn: &mut Turn,
        batch: &[ToolCall],
        cancel: &Cancel,
        listener: TurnListener<'_>,
    ) -> Result<bool, AgentError> {
        let mut was_stopped = false;
        let mut running = FuturesUnordered::new();
        for call in batch {
            let arguments = match call.parsed_arguments() {
                _ if cancel.is_cancelled() => Err(String::from("not run: the user ended the turn")),
                _ if turn.repeats.is_stopped(call) => {
                    was_stopped = true;
                    Err(Repeats::stopped(call))
                }
                Ok(arguments) => Ok(arguments),
                Err(why) => {
                    let text = format!("not run: {why}; make the call again with valid arguments");
                    Err(noted(turn, call, text, false))
                }
            };
            let arguments = match arguments {
                Ok(arguments) => arguments,
                Err(text) => {
                    let (id, name) = (call.id.clone(), call.name.clone());
                    let result =
                        CallResult { id, name, text, is_error: true, ..CallResult::default() };
                    self.end_call(call, result, None, Duration::ZERO, listener)?;
                    continue;
                }
            };
            let call_id = self.next_call_id();
            let (id, ledger_id) = (call.id.clone(), call_id.clone());
            self.store(Entry::CallBegins { id, call_id: ledger_id })?;
            turn.repeats.begin(call);
            turn.n_calls += 1;
            listener(TurnEvent::CallBegins { call, call_id: &call_id });
            let mut request = Request::new(call_id, call.full_name(), arguments);
            request.session.clone_from(&self.settings.session);
            request.turn = Some(turn.name.clone());
            if let Some(place) = &self.settings.sub_agent {
                request.agent = Some(place.name.clone());
                request.parent = Some(place.spawned_by.clone());
                request.turn.clone_from(&place.turn);
                request.roots.clone_from(&place.roots);
                request.dialect = Some(place.dialect.to_owned());
            }
            let (cancel, progress) = (cancel.clone(), self.progress.clone());
            let options = CallOptions { cancel, progress, ..CallOptions::default() };
            let called = self.runtime.call(request, options);
            running.push(async move {
                let begun = Instant::now();
                (call, called.await, begun.elapsed())
            });
        }
        while let Some((call, reply, duration)) = running.next().await {
            let mut result = self.result(call, &reply);
            let changes = reply.ok && reply.meta.checkpoint_id.is_some();
            result.text = noted(turn, call, result.text, changes);
            self.end_call(call, result, Some(&reply), duration, listener)?;
        }
        Ok(was_stopped)
    }

    /// Returns the id of the next call in the ledger.
    fn next_call_id(&self) -> String {
        let (session, n) = (&self.settings.session, self.session.n_calls() + 1);
        match &self.settings.sub_agent {
            Some(place) => format!("{session}-a{}-{n}", place.number),
            None => format!("{session}-{n}"),
        }
    }

    fn end_call(
        &mut self,
        call: &ToolCall,
        result: CallResult,
        reply: Option<&Reply>,
        duration: Duration,
        listener: TurnListener<'_>,
    ) -> Result<(), AgentError> {
        listener(TurnEvent::CallEnds { call, result: &result, reply, duration });
        self.store(Entry::CallEnds { result })
    }

    /// Returns the result for the model.
    fn result(&self, call: &ToolCall, reply: &Reply) -> CallResult {
        let (mut text, images) = content(&reply.content);
        let is_plain = reply.meta.ruling.as_ref().is_some_and(|ruled| ruled.rule == PLAIN);
        if self.tools.executes(call) && !is_plain {
            text = self.settings.output_compaction.apply(&text);
        }
        self.cut(&mut text, reply.meta.output_path.as_deref());
        CallResult {
            id: call.id.clone(),
            name: call.name.clone(),
            text,
            images,
            is_error: !reply.ok,
            output: reply.meta.output_path.clone(),
        }
    }

    /// Cuts a result that would fill much of the context window.
    fn cut(&self, text: &mut String, output: Option<&str>) {
        let most = (f64::from(self.settings.context) * self.bytes_of_token * MAX_SHARE) as usize;
        if text.len() <= most {
            return;
        }
        let n_bytes = text.len();
        let end = text.floor_char_boundary(most);
        text.truncate(end);
        let rest = match output {
            Some(path) => format!("all of it is in {path}"),
            None => String::from("ask for less of it"),
        };
        text.push_str(&format!(
            "\n[the first {end} of {n_bytes} bytes, since more would fill the context window; {rest}]"
        ));
    }
}

/// Counts a call, and adds a note to its result where it is repeated.
fn noted(turn: &mut Turn, call: &ToolCall, text: String, changes: bool) -> String {
    match turn.repeats.count(call, &text, changes) {
        Some(note) => format!("{text}\n\n{note}"),
        None => text,
    }
}

/// Returns the text and the pictures of a reply.
fn content(blocks: &[Block]) -> (String, Vec<Image>) {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Text { text } => texts.push(text.clone()),
            Block::Image { data, mime_type } => {
                images.push(Image { data: data.clone(), mime_type: mime_type.clone() });
            }
            Block::Audio { data, mime_type } => texts.push(unshown(mime_type, data.len())),
            Block::Resource { resource } => {
                texts.push(unshown(&resource.mime_type, resource.blob.len()));
            }
            Block::Mcp(block) => match of_server(block) {
                Ok(image) => images.push(image),
                Err(text) => texts.push(text),
            },
        }
    }
    (texts.join("\n"), images)
}

/// Returns the picture or the text of a block as an MCP server sent it.
fn of_server(block: &Value) -> Result<Image, String> {
    let text = |pointer: &str| block.pointer(pointer).and_then(Value::as_str);
    match (text("/type"), text("/text"), text("/data"), text("/mimeType")) {
        (Some("text"), Some(text), ..) => Err(text.to_owned()),
        (Some("image"), _, Some(data), Some(mime_type)) => {
            Ok(Image { data: data.to_owned(), mime_type: mime_type.to_owned() })
        }
        (Some("audio"), _, Some(data), mime_type) => {
            Err(unshown(mime_type.unwrap_or("audio"), data.len()))
        }
        _ => match text("/resource/text") {
            Some(text) => Err(text.to_owned()),
            None => Err(block.to_string()),
        },
    }
}

fn unshown(mime_type: &str, n_bytes: usize) -> String {
    format!("[{mime_type}, {n_bytes} bytes of base64, which you cannot see]")
}

//! A model behind an HTTP API: sends a request, decodes the stream, and retries.
//!
//! The connection is a [`ModelClient`] that the program hands in, so this crate opens no socket.

use std::io::{self, Cursor};
use std::pin::pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use serde_json::Value;
use sinew_tool::{ApiKey, BoxFuture};
use sse_stream::SseStream;
use tokio::time::{sleep, timeout};

use crate::apis;
use crate::assembly::{Listener, MAX_MESSAGE, cut, malformed, too_large};
use crate::decoder::Decoder;
use crate::model::{Completion, CompletionRequest, Model, ModelError, ModelErrorKind, StreamEvent};
use crate::provider_error::provider_error;
use crate::retry::pause_after;
use crate::wire::{Framing, Wire};

/// How long a provider may take until its answer begins: a small machine reads a long prompt for minutes.
const FIRST_BYTE: Duration = Duration::from_secs(600);
/// How long a stream may pause.
const MAX_SILENCE: Duration = Duration::from_secs(120);
/// The most bytes of a stream: events hold more than the message that they make.
const MAX_STREAM: usize = 4 * MAX_MESSAGE;
/// The most bytes of an error that are read.
const MAX_ERROR: usize = 64 << 10;

/// Sends requests to the address of one model.
pub trait ModelClient: Send + Sync {
    /// Sends a body of JSON. The error says in words why nothing was answered.
    fn post<'a>(
        &'a self,
        headers: &'a [(&'static str, String)],
        body: Vec<u8>,
    ) -> BoxFuture<'a, Result<Box<dyn ModelStream>, String>>;
}

/// An answer whose body streams.
pub trait ModelStream: Send {
    /// Returns the HTTP status.
    fn status(&self) -> u16;

    /// Returns a header.
    fn header(&self, name: &str) -> Option<String>;

    /// Returns the next bytes, `None` at the end. The error says in words why the connection broke.
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, String>>;
}

/// Which model is asked, and in which way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiModelSettings {
    /// Its API.
    pub wire: Wire,
    /// Its name at the provider.
    pub name: String,
    /// The key, if the provider wants one.
    pub key: Option<ApiKey>,
    /// The tokens of its context window.
    pub context: u32,
}

/// A model behind an HTTP API.
pub struct ApiModel {
    settings: ApiModelSettings,
    client: Box<dyn ModelClient>,
}

impl ApiModel {
    /// Creates a model; `client` sends to the address of its API, [`Wire::path`] below the base address.
    pub fn new(settings: ApiModelSettings, client: Box<dyn ModelClient>) -> Self {
        Self { settings, client }
    }

    async fn attempt(&self, body: &[u8], listener: Listener<'_>) -> Result<Completion, ModelError> {
        let wire = self.settings.wire;
        let headers = wire.headers(self.settings.key.as_ref().map(ApiKey::reveal));
        let answer = match timeout(FIRST_BYTE, self.client.post(&headers, body.to_vec())).await {
            Ok(sent) => sent.map_err(|why| unreachable(&why))?,
            Err(_) => return Err(unreachable(&format!("no answer in {} s", FIRST_BYTE.as_secs()))),
        };
        if !(200..300).contains(&answer.status()) {
            return Err(refused(answer).await);
        }
        let mut decoder = Decoder::new(wire);
        let chunks = pin!(chunks(answer));
        match wire.framing() {
            Framing::Events => decode_events(chunks, &mut decoder, listener).await?,
            Framing::Lines => decode_lines(chunks, &mut decoder, listener).await?,
        }
        decoder.finish()
    }
}

impl Model for ApiModel {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn complete<'a>(
        &'a self,
        request: &'a CompletionRequest<'a>,
        listener: &'a mut (dyn FnMut(StreamEvent) + Send),
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(async move {
            let ApiModelSettings { wire, name, context, .. } = &self.settings;
            let body = apis::body(*wire, name, *context, request).to_string().into_bytes();
            let mut attempt = 1;
            loop {
                let error = match self.attempt(&body, listener).await {
                    Ok(completion) => return Ok(completion),
                    Err(error) => error,
                };
                let Some(after) = pause_after(attempt, &error) else { return Err(error) };
                listener(StreamEvent::Retry { error: error.message, after });
                sleep(after).await;
                attempt += 1;
            }
        })
    }
}

/// Returns the error of a response without a message.
async fn refused(mut answer: Box<dyn ModelStream>) -> ModelError {
    let asked = {
        let number = |name: &str| answer.header(name)?.trim().parse::<f64>().ok();
        let milliseconds = number("retry-after-ms").map(|milliseconds| milliseconds / 1e3);
        milliseconds.or_else(|| number("retry-after"))
    };
    let mut body = Vec::new();
    while let Ok(Ok(Some(chunk))) = timeout(MAX_SILENCE, answer.chunk()).await {
        body.extend_from_slice(&chunk);
        if MAX_ERROR <= body.len() {
            break;
        }
    }
    let body = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
    let retry_after = asked.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    ModelError { retry_after, ..provider_error(answer.status(), &body) }
}

/// Returns the chunks of a body until its end, or until it has too many bytes.
fn chunks(
    answer: Box<dyn ModelStream>,
) -> impl Stream<Item = Result<Cursor<Vec<u8>>, io::Error>> + Send {
    stream::unfold((answer, 0_usize), |(mut answer, n_bytes)| async move {
        let chunk = match timeout(MAX_SILENCE, answer.chunk()).await {
            Err(_) => {
                let words = format!("it paused for {} s", MAX_SILENCE.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, words))
            }
            Ok(Err(why)) => Err(io::Error::other(why)),
            Ok(Ok(None)) => return None,
            Ok(Ok(Some(chunk))) => Ok(chunk),
        };
        let n_bytes = n_bytes + chunk.as_ref().map_or(0, Vec::len);
        let chunk = match chunk {
            Ok(_) if MAX_STREAM < n_bytes => Err(io::ErrorKind::FileTooLarge.into()),
            chunk => chunk.map(Cursor::new),
        };
        Some((chunk, (answer, n_bytes)))
    })
}

/// Decodes server-sent events until the message is complete.
async fn decode_events(
    chunks: impl Stream<Item = Result<Cursor<Vec<u8>>, io::Error>> + Send,
    decoder: &mut Decoder,
    listener: Listener<'_>,
) -> Result<(), ModelError> {
    let mut events = pin!(SseStream::from_bytes_stream(chunks));
    while !decoder.is_done {
        match events.next().await {
            Some(Ok(event)) => {
                apis::take(decoder, event.data.as_deref().unwrap_or_default(), listener)?;
            }
            Some(Err(sse_stream::Error::Body(error))) => return Err(broken(error.downcast_ref())),
            Some(Err(error)) => return Err(malformed(error)),
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Decodes lines of JSON until the message is complete.
async fn decode_lines(
    mut chunks: impl Stream<Item = Result<Cursor<Vec<u8>>, io::Error>> + Send + Unpin,
    decoder: &mut Decoder,
    listener: Listener<'_>,
) -> Result<(), ModelError> {
    let mut rest = Vec::new();
    while !decoder.is_done {
        let Some(chunk) = chunks.next().await else {
            return apis::take(decoder, &utf8(rest)?, listener);
        };
        rest.extend(chunk.map_err(|error| broken(Some(&error)))?.into_inner());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = rest.drain(..=end).collect();
            apis::take(decoder, &utf8(line)?, listener)?;
        }
    }
    Ok(())
}

fn utf8(line: Vec<u8>) -> Result<String, ModelError> {
    String::from_utf8(line).map_err(|_| malformed("a line is not UTF-8"))
}

fn broken(error: Option<&io::Error>) -> ModelError {
    match error {
        Some(error) if error.kind() == io::ErrorKind::FileTooLarge => too_large(),
        Some(error) => cut(&format!(": {error}")),
        None => cut(""),
    }
}

fn unreachable(why: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::Unreachable,
        format!("the model's server cannot be reached: {why}"),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use sinew_tool::sync::lock;

    use super::*;
    use crate::message::{Message, Part};

    /// An answer that is replayed in chunks of these many bytes; a chunk size of 0 breaks the connection at the end.
    #[derive(Clone)]
    struct Recorded {
        status: u16,
        headers: &'static [(&'static str, &'static str)],
        body: Vec<u8>,
        chunk: usize,
        breaks: bool,
    }

    fn recorded(status: u16, body: &str) -> Recorded {
        Recorded { status, headers: &[], body: body.as_bytes().to_vec(), chunk: 7, breaks: false }
    }

    fn streamed(events: &[&str]) -> Recorded {
        let events: String = events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect();
        recorded(200, &events)
    }

    impl ModelStream for Recorded {
        fn status(&self) -> u16 {
            self.status
        }

        fn header(&self, name: &str) -> Option<String> {
            let found = self.headers.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }

        fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, String>> {
            Box::pin(async move {
                if self.body.is_empty() && self.breaks {
                    return Err(String::from("connection reset"));
                }
                let chunk: Vec<u8> = self.body.drain(..self.chunk.min(self.body.len())).collect();
                Ok((!chunk.is_empty()).then_some(chunk))
            })
        }
    }

    type Requests = Arc<Mutex<Vec<(Vec<(&'static str, String)>, Vec<u8>)>>>;

    struct Replay(Mutex<VecDeque<Recorded>>, Requests);

    impl ModelClient for Replay {
        fn post<'a>(
            &'a self,
            headers: &'a [(&'static str, String)],
            body: Vec<u8>,
        ) -> BoxFuture<'a, Result<Box<dyn ModelStream>, String>> {
            lock(&self.1).push((headers.to_vec(), body));
            let next = lock(&self.0).pop_front();
            Box::pin(async move {
                match next {
                    Some(answer) => Ok(Box::new(answer) as Box<dyn ModelStream>),
                    None => Err(String::from("connection refused")),
                }
            })
        }
    }

    const HELLO: &str = r#"{"choices":[{"delta":{"content":"Héllo"}}]}"#;
    const END: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;

    struct Asked {
        text: Result<String, (ModelErrorKind, String)>,
        retries: Vec<String>,
        requests: Requests,
    }

    async fn ask(wire: Wire, answers: Vec<Recorded>) -> Asked {
        let requests = Requests::default();
        let client = Replay(Mutex::new(answers.into()), Arc::clone(&requests));
        let settings = ApiModelSettings {
            wire,
            name: String::from("m"),
            key: Some(ApiKey::new(String::from("secret-key"))),
            context: 8_192,
        };
        let model = ApiModel::new(settings, Box::new(client));
        let messages = [Message::User { text: String::from("Hi") }];
        let request = CompletionRequest {
            system: "",
            tools: &[],
            may_call: false,
            messages: &messages,
            max_output_tokens: 10,
            temperature: None,
        };
        let mut retries = Vec::new();
        let mut listener = |event: StreamEvent| {
            if let StreamEvent::Retry { error, .. } = event {
                retries.push(error);
            }
        };
        let completed = model.complete(&request, &mut listener).await;
        let text =
            completed.map_err(|error| (error.kind, error.message)).map(
                |completion| match completion.parts.as_slice() {
                    [Part::Text { text }] => text.clone(),
                    parts => format!("{parts:?}"),
                },
            );
        Asked { text, retries, requests }
    }

    #[tokio::test]
    async fn message_arrives_with_one_request() {
        let lines = concat!(
            r#"{"message":{"content":"Héllo"},"done":false}"#,
            "\n",
            r#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#,
        );
        for (wire, answer, header) in [
            (Wire::Chat, streamed(&[HELLO, END, "[DONE]"]), ("authorization", "Bearer secret-key")),
            (Wire::Chat, streamed(&[HELLO, END]), ("authorization", "Bearer secret-key")),
            (Wire::Ollama, recorded(200, lines), ("authorization", "Bearer secret-key")),
        ] {
            let Asked { text, retries, requests } = ask(wire, vec![answer]).await;
            assert_eq!((text, retries), (Ok(String::from("Héllo")), vec![]), "{wire}");
            let requests = lock(&requests);
            let [(headers, _)] = requests.as_slice() else { panic!("{} requests", requests.len()) };
            let has = |(name, value): &(&str, String)| (*name, value.as_str()) == header;
            assert!(headers.iter().any(has), "{headers:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn transient_failures_are_retried() {
        let busy = r#"{"error":{"message":"slow down"}}"#;
        let mut broken = streamed(&[HELLO]);
        broken.breaks = true;
        let mut not_text = streamed(&[HELLO, END]);
        not_text.body.extend_from_slice(b"data: ");
        not_text.body.insert(9, 0xff);
        let Asked { text, retries, requests } = ask(
            Wire::Chat,
            vec![
                recorded(429, busy),
                broken,
                streamed(&[HELLO, "{\"choices\": ["]),
                not_text,
                streamed(&[HELLO, END]),
            ],
        )
        .await;
        assert_eq!(text, Ok(String::from("Héllo")));
        let [limited, cut, malformed, not_text] = retries.as_slice() else { panic!("{retries:?}") };
        assert!(limited.contains("slow down") && limited.contains("HTTP 429"), "{limited}");
        assert!(cut.contains("ended before its message did: connection reset"), "{cut}");
        assert!(
            malformed.contains("malformed") && not_text.contains("utf8"),
            "{malformed} {not_text}"
        );
        let requests = lock(&requests);
        assert!(requests.iter().all(|request| Some(request) == requests.first()), "the same bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn lasting_failures_are_returned_at_once() {
        let mut much = recorded(429, "{}");
        much.headers = &[("retry-after", "3600")];
        let key = r#"{"error":{"message":"bad key"}}"#;
        let event =
            format!(r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#, "x".repeat(1 << 20));
        let mut endless = streamed(&vec![event.as_str(); 20]);
        endless.chunk = 1 << 20;
        let mut no_line = recorded(200, &"x".repeat(MAX_STREAM + 1));
        no_line.chunk = 1 << 20;
        for (answer, kind, words) in [
            (recorded(401, key), ModelErrorKind::Auth, "check the key"),
            (recorded(404, "no such page"), ModelErrorKind::NotFound, "no such page"),
            (recorded(307, ""), ModelErrorKind::Invalid, "HTTP 307"),
            (much, ModelErrorKind::RateLimited, "HTTP 429"),
            (endless, ModelErrorKind::TooLarge, "16 MiB"),
            (no_line, ModelErrorKind::TooLarge, "16 MiB"),
        ] {
            let Asked { text, retries, .. } = ask(Wire::Chat, vec![answer]).await;
            let (found, message) = text.expect_err(words);
            assert!(found == kind && message.contains(words), "{found} {message}");
            assert!(retries.is_empty() && !message.contains("secret-key"), "{retries:?} {message}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unreachable_server_is_tried_five_times() {
        let Asked { text, retries, requests } = ask(Wire::Chat, vec![]).await;
        let (kind, message) = text.expect_err("no server");
        assert!(kind == ModelErrorKind::Unreachable && message.contains("refused"), "{message}");
        assert_eq!((retries.len(), lock(&requests).len()), (4, 5));
    }
}

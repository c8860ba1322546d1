//! Asks a webhook server of the user for approvals, answered in the reply or by polling.
//!
//! With a secret, requests and answers carry a Standard Webhooks signature: HMAC-SHA256 over message ID,
//! timestamp and body. So a third party that reaches the address cannot answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::Sha256;
use sinew_guard::{HttpAddress, HttpClient, HttpError, HttpReply, SystemClock};
use sinew_runtime::question;
use sinew_tool::{Answer, Approver, BoxFuture, Clock as _, Question};

use crate::config::WebhookSettings;
use crate::output;

/// The size limit of an answer, in bytes.
const MAX_ANSWER: usize = 64 * 1024;
/// The delays between retries.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];
/// The default poll interval.
const POLL: Duration = Duration::from_secs(2);
/// The maximum poll interval that the server may set.
const MAX_POLL: Duration = Duration::from_secs(60);
/// The time-out of the request that reports a closed question.
const SETTLED_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum clock skew of an answer, in seconds.
const MAX_SKEW_S: u64 = 5 * 60;
const PREFIX: &str = "whsec_";
/// The secret length in bytes, by Standard Webhooks.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

const ID: &str = "webhook-id";
const TIMESTAMP: &str = "webhook-timestamp";
const SIGNATURE: &str = "webhook-signature";

/// An approver that asks a webhook server.
pub(crate) struct Webhook(Arc<Server>);

struct Server {
    client: HttpClient,
    address: HttpAddress,
    secret: Option<Secret>,
}

/// The HMAC key.
struct Secret(Vec<u8>);

impl Webhook {
    /// Reads the secret, which must be outside the tools' reach. Sends nothing.
    pub(crate) fn new(settings: &WebhookSettings, roots: &[PathBuf]) -> anyhow::Result<Self> {
        let secret = settings.secret_file.as_deref().map(|path| {
            let path = output::place("webhook.secret_file", path, roots)?;
            Secret::read(&path).with_context(|| format!("`webhook.secret_file` {}", path.display()))
        });
        Ok(Self(Arc::new(Server {
            client: HttpClient::default(),
            address: settings.address.clone(),
            secret: secret.transpose()?,
        })))
    }
}

impl Secret {
    #[expect(clippy::disallowed_methods, reason = "the person names the file of the secret")]
    fn read(path: &Path) -> anyhow::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;

        let text = std::fs::read_to_string(path).context("it cannot be read")?;
        if std::fs::metadata(path).context("it cannot be read")?.mode() & 0o077 != 0 {
            bail!("other users may read it; change that with `chmod 600`");
        }
        Self::parse(&text)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let form = "it must hold `whsec_` and 24 to 64 bytes in base64, such as of \
                    `echo whsec_$(head -c 32 /dev/urandom | base64)`";
        let coded = text.trim().strip_prefix(PREFIX).context(form)?;
        let bytes = BASE64.decode(coded).ok().filter(|bytes| SECRET_BYTES.contains(&bytes.len()));
        Ok(Self(bytes.context(form)?))
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        Some(mac)
    }

    fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
        let mac = self.mac(id, timestamp, body)?;
        Some(format!("v1,{}", BASE64.encode(mac.finalize().into_bytes())))
    }

    /// Returns whether one of the signatures is valid for this key.
    fn fits(&self, signatures: &str, id: &str, timestamp: &str, body: &[u8]) -> bool {
        signatures.split_ascii_whitespace().any(|signature| {
            let coded = signature.strip_prefix("v1,");
            let bytes = coded.and_then(|coded| BASE64.decode(coded).ok()).unwrap_or_default();
            let mac = self.mac(id, timestamp, body);
            mac.is_some_and(|mac| mac.verify_slice(&bytes).is_ok())
        })
    }
}

impl Approver for Webhook {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let answered = match Sent::new(Arc::clone(&self.0), &question) {
                Ok(mut sent) => sent.answered().await,
                Err(problem) => Err(problem),
            };
            answered.unwrap_or_else(|problem| {
                let server = self.0.address.server();
                crate::screen::say(&format!("the webhook at {server} gave no answer: {problem}"));
                Answer::Gone
            })
        })
    }
}

struct Sent {
    server: Arc<Server>,
    /// The message ID, unique for each question.
    id: String,
    question: String,
    body: Vec<u8>,
    /// Whether the server has the question and has not answered it.
    is_open: bool,
}

enum Replied {
    Answer(Answer),
    /// Poll this address after this delay.
    Later(HttpAddress, Duration),
    /// A retry may succeed.
    Again(String),
}

/// The JSON form of an answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answered {
    answer: String,
    #[serde(default)]
    reason: Option<String>,
}

impl Sent {
    fn new(server: Arc<Server>, question: &Question) -> Result<Self, String> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| format!("there are no random numbers: {error}"))?;
        let id = format!("msg_{:032x}", u128::from_le_bytes(random));
        let mut line = question::to_json(question);
        if let Value::Object(line) = &mut line {
            line.shift_insert(0, String::from("type"), Value::from("question"));
        }
        let body = line.to_string().into_bytes();
        Ok(Self { server, id, question: question.id.clone(), body, is_open: false })
    }

    /// Asks until an answer arrives. The error is the reason why none will.
    async fn answered(&mut self) -> Result<Answer, String> {
        let mut at: Option<HttpAddress> = None;
        let mut pauses = PAUSES.into_iter();
        loop {
            let body = at.is_none().then(|| self.body.clone());
            let address = at.as_ref().unwrap_or(&self.server.address);
            let reply = self.server.send(address, &self.id, body).await;
            let replied = match reply {
                Ok(reply) => self.replied(&reply)?,
                Err(error @ (HttpError::NotConnected(_) | HttpError::Unreachable(_))) => {
                    Replied::Again(error.to_string())
                }
                Err(error) => return Err(error.to_string()),
            };
            match replied {
                Replied::Answer(answer) => {
                    self.is_open = false;
                    return Ok(answer);
                }
                Replied::Later(address, pause) => {
                    (self.is_open, at, pauses) = (true, Some(address), PAUSES.into_iter());
                    tokio::time::sleep(pause).await;
                }
                Replied::Again(why) => match pauses.next() {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(why),
                },
            }
        }
    }

    fn replied(&self, reply: &HttpReply) -> Result<Replied, String> {
        match reply.status {
            200 => self.answer(reply).map(Replied::Answer),
            202 => {
                let address = reply.location.clone().ok_or(
                    "it replied 202 without a `Location` on the same server to ask for the answer at",
                )?;
                let pause = reply.retry_after.unwrap_or(POLL);
                Ok(Replied::Later(address, pause.clamp(PAUSES[0], MAX_POLL)))
            }
            204 => Err(String::from("it does not answer this question")),
            status @ (429 | 502..=504) => Ok(Replied::Again(format!("it replied {status}"))),
            status => Err(format!("it replied {status}")),
        }
    }

    fn answer(&self, reply: &HttpReply) -> Result<Answer, String> {
        if let Some(secret) = &self.server.secret {
            let header = |name| reply.header(name).unwrap_or_default();
            let (id, timestamp) = (header(ID), header(TIMESTAMP));
            let is_now =
                timestamp.parse::<u64>().is_ok_and(|at| at.abs_diff(now_s()) <= MAX_SKEW_S);
            if id != self.id {
                return Err(format!("its answer has not the `{ID}` of the question"));
            }
            if !is_now {
                return Err(format!("the `{TIMESTAMP}` of its answer is not of these minutes"));
            }
            if !secret.fits(header(SIGNATURE), id, timestamp, &reply.body) {
                return Err(format!("the `{SIGNATURE}` of its answer does not fit the secret"));
            }
        }
        let Answered { answer, reason } = serde_json::from_slice(&reply.body)
            .map_err(|error| format!("its answer is not of the form: {error}"))?;
        question::answer(&answer, reason)
    }
}

impl Drop for Sent {
    /// Reports to the server that the question is closed.
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let (server, id) = (Arc::clone(&self.server), self.id.clone());
        let line = json!({ "type": "settled", "question": self.question });
        let tell = async move {
            let sent = server.send(&server.address, &id, Some(line.to_string().into_bytes()));
            let _ = tokio::time::timeout(SETTLED_TIMEOUT, sent).await;
        };
        // Outside a Tokio runtime the process is ending, so the report is skipped.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(tell));
        }
    }
}

impl Server {
    async fn send(
        &self,
        address: &HttpAddress,
        id: &str,
        body: Option<Vec<u8>>,
    ) -> Result<HttpReply, HttpError> {
        let timestamp = now_s().to_string();
        let mut headers = vec![(ID, id.to_owned()), (TIMESTAMP, timestamp.clone())];
        if let Some(secret) = &self.secret {
            let signed = secret.sign(id, &timestamp, body.as_deref().unwrap_or_default());
            headers.extend(signed.map(|signature| (SIGNATURE, signature)));
        }
        if body.is_some() {
            headers.push(("content-type", String::from("application/json")));
        }
        self.client.send(address, &headers, body, MAX_ANSWER).await
    }
}

fn now_s() -> u64 {
    SystemClock.wall_ms() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").expect("a secret");
        let (id, at, body) =
            ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(secret.sign(id, at, body).as_deref(), Some(signature));
        for (signatures, id, fits) in [
            (signature, id, true),
            (&*format!("v1a,x v1,AAAA {signature}"), id, true),
            (signature, "msg_other", false),
            ("", id, false),
            ("v1,", id, false),
            ("v1,AAAA", id, false),
            (signature.trim_start_matches("v1,"), id, false),
        ] {
            assert_eq!(secret.fits(signatures, id, at, body), fits, "{signatures} {id}");
        }
        assert!(!secret.fits(signature, id, "1614265331", body), "another time");
        assert!(!secret.fits(signature, id, at, b"{}"), "another body");
    }

    #[test]
    fn secrets_have_one_form() {
        for (text, is_one) in [
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false),
            ("whsec_", false),
            ("whsec_AAAA", false),
            ("whsec_not base64 at all, whatever its length is", false),
        ] {
            assert_eq!(Secret::parse(text).is_ok(), is_one, "{text}");
        }
    }
}

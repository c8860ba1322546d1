//! The transport to a server that has an address: streamable HTTP, with headers of its own.
//!
//! The client reaches this one server only. An address can hold a secret, so no error shows it.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use reqwest::Client;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sinew_guard::{HttpAddress, server_client};
use sinew_tool::shown_line;
use sse_stream::Sse;
use tokio::sync::watch;

use crate::pipe::MAX_MESSAGE;
use crate::sign_in::Tokens;

/// How often a broken stream of events is opened again, one after the other.
const MAX_RECONNECTS: usize = 5;
/// The most calls that wait for a server at once.
const MAX_CALLS: usize = 64;

type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<reqwest::Error>;

/// Sends the requests of one connection.
#[derive(Clone)]
pub(crate) struct Backend {
    client: Client,
    /// What a sign-in brought, unless the entry has a header of its own for it.
    tokens: Option<Arc<Tokens>>,
    /// Closed with the connection: what still waits for the server then ends.
    open: watch::Receiver<()>,
}

/// Returns the transport to a server, or why there is none. Nothing is sent yet.
pub(crate) fn transport(
    address: &HttpAddress,
    headers: &[(String, String)],
    tokens: Option<Tokens>,
    open: watch::Receiver<()>,
) -> Result<StreamableHttpClientTransport<Backend>, String> {
    let client = server_client(address)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(address.as_str())
        .custom_headers(parsed(headers)?)
        .max_concurrent_requests(MAX_CALLS)
        .max_sse_event_size(MAX_MESSAGE);
    let mut retries = ExponentialBackoff::default();
    retries.max_times = Some(MAX_RECONNECTS);
    config.retry_config = Arc::new(retries);
    let backend = Backend { client, tokens: tokens.map(Arc::new), open };
    Ok(StreamableHttpClientTransport::with_client(backend, config))
}

/// Returns headers as they are sent.
fn parsed(headers: &[(String, String)]) -> Result<Headers, String> {
    let one = |(name, value): &(String, String)| {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok();
        let (name, mut value) = parsed
            .zip(HeaderValue::from_str(value).ok())
            .ok_or_else(|| format!("the header `{}` cannot be sent", name.escape_debug()))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    headers.iter().map(one).collect()
}

/// Some servers refuse a token without the header that says so.
fn without_challenge(error: Failure) -> Failure {
    match error {
        StreamableHttpError::UnexpectedServerResponse(words) if words.starts_with("HTTP 401") => {
            StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new()))
        }
        error => error,
    }
}

/// Returns what a person must do about a sign-in, where an error says that the server wants one.
pub(crate) fn sign_in_wanted(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let error = inner.map_or(error, |inner| inner as &(dyn Error + 'static));
        match error.downcast_ref::<Failure>() {
            Some(StreamableHttpError::AuthRequired(_)) => {
                let words = "it wants a sign-in; `sinew mcp-servers login` begins one";
                return Some(words.to_owned());
            }
            Some(StreamableHttpError::InsufficientScope(error)) => {
                let scope = error.required_scope.as_deref().map(shown_line).unwrap_or_default();
                return Some(format!(
                    "it wants a sign-in with the scope `{scope}`; `sinew mcp-servers login` asks for it with `--scope`"
                ));
            }
            Some(_) => return None,
            None => next = error.source(),
        }
    }
    None
}

impl Backend {
    /// Waits until the connection is closed.
    fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut open = self.open.clone();
        async move { while open.changed().await.is_ok() {} }
    }

    /// Sends a request unless the connection is closed first.
    async fn send<T, Sent>(&self, send: impl Fn(Option<String>) -> Sent) -> Result<T, Failure>
    where
        Sent: Future<Output = Result<T, Failure>>,
    {
        tokio::select! {
            sent = self.send_signed_in(send) => sent,
            () = self.closed() => Err(StreamableHttpError::TransportChannelClosed),
        }
    }

    /// Sends a request with the token of a sign-in, if there is one, and once more where the server refuses it and it can
    /// be refreshed.
    async fn send_signed_in<T, Sent>(
        &self,
        send: impl Fn(Option<String>) -> Sent,
    ) -> Result<T, Failure>
    where
        Sent: Future<Output = Result<T, Failure>>,
    {
        let token = match &self.tokens {
            Some(tokens) => tokens.token().await?,
            None => None,
        };
        let sent = send(token.clone()).await;
        let sent = sent.map_err(without_challenge);
        let is_refused = matches!(sent, Err(StreamableHttpError::AuthRequired(_)));
        let again = match (&self.tokens, token) {
            (Some(tokens), Some(refused)) if is_refused => tokens.after(&refused).await?,
            _ => None,
        };
        let sent = match again {
            Some(token) => send(Some(token)).await.map_err(without_challenge),
            None => sent,
        };
        sent.map_err(|error| match error {
            StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
            error => error,
        })
    }
}

impl StreamableHttpClient for Backend {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let posted = self.send(|token| {
            self.client.post_message_with_max_sse_event_size(
                Arc::clone(&uri),
                message.clone(),
                session_id.clone(),
                token,
                headers.clone(),
                MAX_MESSAGE,
            )
        });
        Ok(match posted.await? {
            StreamableHttpPostResponse::Sse(events, id) => {
                StreamableHttpPostResponse::Sse(events.take_until(self.closed()).boxed(), id)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.send(|token| {
            let (uri, session_id) = (Arc::clone(&uri), Arc::clone(&session_id));
            self.client.delete_session(uri, session_id, token, headers.clone())
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let opened = self.send(|token| {
            self.client.get_stream_with_max_sse_event_size(
                Arc::clone(&uri),
                session_id.clone(),
                last_event_id.clone(),
                token,
                headers.clone(),
                MAX_MESSAGE,
            )
        });
        Ok(opened.await?.take_until(self.closed()).boxed())
    }
}

//! HTTP client for addresses that the user named.
//!
//! It follows no redirects, uses no proxy and keeps only the connection between requests. Certificates are
//! checked against the roots of the host. The client is created at the first request.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, ClientBuilder, Method, Url};
use sinew_tool::Host;

use crate::address::JudgedResolver;
use crate::resolver::DnsResolver;

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of TCP keep-alive probes.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Address of requests: `https`, or `http` to loopback or where the user wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAddress(Url);

impl HttpAddress {
    /// Parses an address. The error says why it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let address = Self::parse_plain(text)?;
        match address.is_encrypted() || address.is_loopback() {
            true => Ok(address),
            false => Err(String::from("`http` is for this machine alone; use `https`")),
        }
    }

    /// Parses an address that may be `http` of any machine: others can read and change a request on the way.
    pub fn parse_plain(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        match url.scheme() {
            "https" | "http" => {}
            other => return Err(format!("it must begin with `https://`, not `{other}:`")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(String::from("it must hold no user name and no password"));
        }
        Ok(Self(url))
    }

    /// Returns whether TLS encrypts requests and authenticates the server.
    pub fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Returns the host and the port.
    pub fn host(&self) -> Host {
        Host::new(self.0.host_str().unwrap_or_default(), self.0.port_or_known_default())
    }

    /// Returns the whole address, with the path, which may be a secret.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns whether it is of this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// Resolves a location, unless it is on another server.
    fn beside(&self, location: &str) -> Option<Self> {
        let url = self.0.join(location).ok()?;
        (url.origin() == self.0.origin()).then_some(Self(url))
    }

    /// Returns the address of a path below this one.
    #[must_use]
    pub fn below(&self, path: &str) -> Self {
        let mut below = self.0.clone();
        below.set_path(&format!("{}/{path}", self.0.path().trim_end_matches('/')));
        Self(below)
    }

    /// Returns the server without the path, which may be a secret.
    pub fn server(&self) -> String {
        self.0.origin().ascii_serialization()
    }
}

fn is_loopback(url: &Url) -> bool {
    // IPv6 addresses are in brackets.
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// An HTTP response.
#[derive(Debug, Clone)]
pub struct HttpReply {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    /// Where the response says that more is, on the same server.
    pub location: Option<HttpAddress>,
    /// `Retry-After` in seconds: how long to wait before the next request.
    pub retry_after: Option<Duration>,
    headers: HeaderMap,
}

impl HttpReply {
    /// Returns the value of a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why there is no response.
#[derive(Debug)]
pub enum HttpError {
    /// There is no connection to the server, so nothing was sent; a retry may succeed.
    NotConnected(String),
    /// The server disconnected before its response was there; a retry may succeed.
    Unreachable(String),
    /// The response is longer than the limit.
    TooLong(usize),
    /// No request can be sent at all.
    Unusable(String),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected(why) | Self::Unreachable(why) => {
                write!(f, "it cannot be reached: {why}")
            }
            Self::TooLong(max) => write!(f, "it answered with more than {max} bytes"),
            Self::Unusable(why) => write!(f, "HTTP cannot be used here: {why}"),
        }
    }
}

/// Sends requests.
#[derive(Debug, Default)]
pub struct HttpClient {
    encrypted: OnceLock<Result<Client, String>>,
    plain: OnceLock<Result<Client, String>>,
}

impl HttpClient {
    /// Sends a POST with the body, or a GET without one. Only connecting has a timeout; dropping the future
    /// cancels the request. A response of more than `max_bytes` is rejected.
    pub async fn send(
        &self,
        address: &HttpAddress,
        headers: &[(&'static str, String)],
        body: Option<Vec<u8>>,
        max_bytes: usize,
    ) -> Result<HttpReply, HttpError> {
        let client = match address.is_encrypted() {
            true => self.encrypted.get_or_init(|| client(true)),
            false => self.plain.get_or_init(|| client(false)),
        };
        let client = client.as_ref().map_err(|why| HttpError::Unusable(why.clone()))?;
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = client.request(method, address.0.clone());
        for (name, value) in headers {
            let value = HeaderValue::from_str(value)
                .map_err(|error| HttpError::Unusable(format!("the header `{name}`: {error}")))?;
            request = request.header(HeaderName::from_static(name), value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let mut response = request.send().await.map_err(unreachable)?;
        let headers = response.headers().clone();
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let mut reply = HttpReply {
            status: response.status().as_u16(),
            body: Vec::new(),
            location: text(LOCATION).and_then(|location| address.beside(location)),
            retry_after: text(RETRY_AFTER).and_then(|s| s.parse().ok()).map(Duration::from_secs),
            headers: HeaderMap::new(),
        };
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if max_bytes.saturating_sub(reply.body.len()) < chunk.len() {
                return Err(HttpError::TooLong(max_bytes));
            }
            reply.body.extend_from_slice(&chunk);
        }
        reply.headers = headers;
        Ok(reply)
    }
}

fn client(encrypted: bool) -> Result<Client, String> {
    let resolver =
        JudgedResolver { resolver: Arc::new(DnsResolver::searching()), public_only: false };
    let builder = builder().dns_resolver(Arc::new(resolver));
    let builder = match encrypted {
        true => builder.https_only(true),
        // Loopback needs no certificates, and the host may have none.
        false => builder.tls_certs_only([]),
    };
    builder.build().map_err(|error| words(&error))
}

/// Returns the settings of every client: no redirects, no proxy, no request that is sent again.
pub(crate) fn builder() -> ClientBuilder {
    // A provider that the program installed earlier stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("sinew/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(KEEP_ALIVE)
        .tcp_keepalive_interval(KEEP_ALIVE)
        .referer(false)
}

fn unreachable(error: reqwest::Error) -> HttpError {
    let is_connected = !error.is_connect();
    // The path of an address may be a secret.
    let why = words(&error.without_url());
    if is_connected { HttpError::Unreachable(why) } else { HttpError::NotConnected(why) }
}

/// Returns an error in words, with its causes.
pub fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_a_server_that_proves_its_name_or_of_this_machine() {
        for (text, problem) in [
            ("https://example.com/x", None),
            ("http://127.0.0.1:8080/", None),
            ("http://127.9.9.9/", None),
            ("http://localhost:1/", None),
            ("http://[::1]:1/", None),
            ("http://example.com/", Some("use `https`")),
            ("http://127.0.0.1.example.com/", Some("use `https`")),
            ("http://10.0.0.1/", Some("use `https`")),
            ("http://[fe80::1]/", Some("use `https`")),
            ("https://ada@example.com/", Some("no user name")),
            ("https://:pw@example.com/", Some("no user name")),
            ("ftp://example.com/", Some("`https://`")),
            ("file:///etc/passwd", Some("`https://`")),
            ("example.com", Some("relative URL")),
            ("", Some("relative URL")),
        ] {
            match (HttpAddress::parse(text), problem) {
                (Ok(_), None) => {}
                (Err(told), Some(problem)) => assert!(told.contains(problem), "{text}: {told}"),
                (parsed, _) => panic!("{text}: {parsed:?}"),
            }
        }
    }

    #[test]
    fn path_below_keeps_the_rest() {
        for (base, expected) in [
            ("https://e.com", "https://e.com/v1/x"),
            ("https://e.com/api/", "https://e.com/api/v1/x"),
            ("https://e.com/api?k=1", "https://e.com/api/v1/x?k=1"),
        ] {
            let below = HttpAddress::parse(base).map(|base| base.below("v1/x"));
            assert_eq!(below.map(|below| below.as_str().to_owned()), Ok(expected.to_owned()));
        }
    }

    #[test]
    fn a_reply_leads_to_no_other_server() {
        let address = HttpAddress::parse("https://example.com/a/b?c").expect("an address");
        for (location, expected) in [
            ("d", Some("https://example.com/a/d")),
            ("/d", Some("https://example.com/d")),
            ("https://example.com:443/d", Some("https://example.com/d")),
            ("https://example.com:444/d", None),
            ("http://example.com/d", None),
            ("//other.com/d", None),
            ("https://other.com/d", None),
        ] {
            let beside = address.beside(location).map(|beside| beside.0.to_string());
            assert_eq!(beside.as_deref(), expected, "{location}");
        }
        assert_eq!(address.server(), "https://example.com");
    }
}

//! The network of a call: requests to the addresses that it names, and to the hosts where they redirect.

use std::borrow::Cow;
use std::fmt;

use crate::slot::Slot;
use crate::{BoxFuture, Host, Kind, SearchAnswer, SearchQuery, ToolError};

/// The longest address in a message, in bytes.
const MAX_SHOWN_URL: usize = 500;

/// Returns an address as a message shows it: the start of a long one.
pub fn shown_url(url: &str) -> Cow<'_, str> {
    match url.get(..url.floor_char_boundary(MAX_SHOWN_URL)) {
        Some(start) if start.len() < url.len() => Cow::Owned(format!("{start}…")),
        _ => Cow::Borrowed(url),
    }
}

/// An address (URL) of a call before containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlClaim {
    /// The wire name of the argument, for messages.
    pub argument: &'static str,
    /// The address as written.
    pub url: String,
    /// The method, headers and body that a plain request to read lacks, a line each: for the question.
    pub sent: Vec<String>,
}

/// An address after containment: parsed once, and fetched as it was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlTarget {
    /// Its claim.
    pub claim: UrlClaim,
    /// The address as it is sent.
    pub url: String,
    /// Its host with its port.
    pub host: Host,
}

/// A request over HTTP to an address of the call.
#[derive(Clone, PartialEq, Eq)]
pub struct WebRequest {
    /// The method.
    pub method: String,
    /// Its headers; those with credentials go to no other origin.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Option<Vec<u8>>,
    /// How many bytes of the answer are taken, decompressed; the rest is left out.
    pub max_bytes: usize,
}

impl fmt::Debug for WebRequest {
    /// Shows no values of headers, which can be keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("WebRequest")
            .field("method", &self.method)
            .field("headers", &headers)
            .field("body", &self.body.as_ref().map(Vec::len))
            .field("max_bytes", &self.max_bytes)
            .finish()
    }
}

/// An answer over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebResponse {
    /// The address that answered, after redirects.
    pub url: String,
    /// The status code.
    pub status: u16,
    /// The headers, names in lower case; values that are no text are left out.
    pub headers: Vec<(String, String)>,
    /// The body, decompressed.
    pub body: Vec<u8>,
    /// Whether more of the body was left out.
    pub is_cut: bool,
    /// The addresses before the last one.
    pub redirects: Vec<String>,
    /// How old the answer is, in seconds, if an earlier request got it.
    pub age_s: Option<u64>,
    /// A random word to mark where the text of the page begins and ends.
    pub boundary: String,
}

crate::word_enum! {
    /// What of a page in HTML is shown.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum PageForm {
        /// The whole page as Markdown.
        Markdown = "markdown",
        /// Its main text as Markdown, without menus and the like.
        Article = "article",
        /// The whole page as text.
        Text = "text",
    }
}

/// A page in HTML as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPage {
    /// Its title; may be empty.
    pub title: String,
    /// Its text in the form that was asked for.
    pub text: String,
    /// Whether it is text without form, because the conversion failed.
    pub is_plain: bool,
}

impl WebResponse {
    /// Returns the value of a header by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The network of a World: it reaches the addresses of the call, and the hosts where they redirect.
pub trait Net: Send + std::marker::Sync {
    /// Sends a request to an address of the call, by its index, and follows redirects. Dropping the future cancels it.
    fn send(
        &self,
        url: Slot,
        request: WebRequest,
    ) -> BoxFuture<'static, Result<WebResponse, ToolError>>;

    /// Asks the provider of the call's search.
    fn search(&self, query: SearchQuery) -> BoxFuture<'static, Result<SearchAnswer, ToolError>>;

    /// Shows a page in HTML that was at an address.
    fn read_html(
        &self,
        html: String,
        address: String,
        form: PageForm,
    ) -> BoxFuture<'static, Result<ReadPage, ToolError>>;

    /// Stores what cannot be shown, and returns its path relative to the working directory, if outputs are stored. The
    /// extension is that of its name, such as `zip`.
    fn keep(&self, body: &[u8], extension: &str) -> Result<Option<String>, ToolError>;
}

/// The network of a World without one.
#[derive(Debug)]
pub struct NoNet;

impl Net for NoNet {
    fn send(
        &self,
        _url: Slot,
        _request: WebRequest,
    ) -> BoxFuture<'static, Result<WebResponse, ToolError>> {
        Box::pin(async { Err(no_net()) })
    }

    fn search(&self, _query: SearchQuery) -> BoxFuture<'static, Result<SearchAnswer, ToolError>> {
        Box::pin(async { Err(no_net()) })
    }

    fn read_html(
        &self,
        _html: String,
        _address: String,
        _form: PageForm,
    ) -> BoxFuture<'static, Result<ReadPage, ToolError>> {
        Box::pin(async { Err(no_net()) })
    }

    fn keep(&self, _body: &[u8], _extension: &str) -> Result<Option<String>, ToolError> {
        Err(no_net())
    }
}

fn no_net() -> ToolError {
    ToolError::new(Kind::Unavailable, "this call has no network")
}

//! Fetches pages: redirects are steps of their own, and every host is judged before a connection to it.
//!
//! Only `http` and `https`. Credentials and bodies go to no other origin. The read body is bounded in bytes after
//! decompression, in redirects, in time without an answer and in all.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, ClientBuilder, Proxy, Response};
use sinew_policy::hosts::HostPattern;
use sinew_policy::proxies::{self, Proxies, ProxyAddress};
use sinew_tool::visible::is_shown;
use sinew_tool::{Host, Kind, PageForm, ReadPage, ToolError, WebRequest, WebResponse, shown_url};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::Url;

use crate::address::{self, JudgedResolver, NotPublic, OnlyNames};
use crate::cache::Cache;
use crate::http;
use crate::resolver::{DnsResolver, Resolve, ResolveError};
use crate::worker;

/// The longest address that is fetched, in bytes.
const MAX_URL: usize = 8 * 1024;
/// The headers that go to another origin too.
const HARMLESS: [&str; 4] = ["accept", "accept-language", "user-agent", "cache-control"];

/// Headers that a caller may not set: they say which host is meant, where a message ends, or what a method really is.
const REFUSED_HEADERS: [&str; 14] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "proxy-authorization",
    "proxy-connection",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];
/// Methods that ask for something else than a page.
const REFUSED_METHODS: [Method; 2] = [Method::CONNECT, Method::TRACE];
/// How many pages are converted at once.
const MAX_WORKERS: usize = 2;

/// Judges an address, and the method that is sent there, before its host gets a request.
pub type Judge<'a> = dyn Fn(&WebAddress, &Method) -> Result<(), ToolError> + Send + Sync + 'a;

/// Which hosts are reached, and how.
#[derive(Debug, Clone)]
pub struct FetchSettings {
    /// Hosts that need not be public, each with its port.
    pub allowed: Vec<HostPattern>,
    /// The proxies through which public hosts are reached.
    pub proxies: Proxies,
    /// What resolves names.
    pub resolver: Arc<dyn Resolve>,
    /// The most redirects that are followed.
    pub max_redirects: usize,
    /// How long a page may take in all.
    pub timeout: Duration,
    /// How long a server may send nothing.
    pub idle_timeout: Duration,
    /// How long an answer is reused; zero reuses none.
    pub cache: Duration,
    /// The executable that calls [`worker_main`](crate::worker::worker_main) first, to convert pages.
    pub helper: Option<PathBuf>,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            proxies: Proxies::default(),
            resolver: Arc::new(DnsResolver::default()),
            max_redirects: 10,
            timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(10),
            cache: Duration::from_secs(300),
            helper: None,
        }
    }
}

/// Fetches pages. Its clients are made at the first request.
#[derive(Debug)]
pub struct Fetcher {
    settings: FetchSettings,
    public: OnceLock<Result<Client, String>>,
    allowed: OnceLock<Result<Client, String>>,
    proxied: OnceLock<Result<Client, String>>,
    /// Whole answers by address.
    answers: Cache<String, Arc<WebResponse>>,
    /// Pages as they are shown.
    shown: Cache<Convertible, ReadPage>,
    workers: Semaphore,
}

/// A page that is converted.
#[derive(Debug, PartialEq)]
struct Convertible {
    html: String,
    address: String,
    form: PageForm,
}

/// An address that can be fetched, and its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAddress {
    url: Url,
    host: Host,
}

impl WebAddress {
    /// Parses an address as browsers do, once. What they would silently repair is refused.
    pub fn parse(text: &str) -> Result<Self, String> {
        if MAX_URL < text.len() {
            return Err(format!("it has {} bytes; {MAX_URL} at most", text.len()));
        }
        if let Some(odd) = text.chars().find(|c| !is_shown(*c) || c.is_whitespace() || *c == '\\') {
            return Err(format!("it must not hold `{}`", odd.escape_debug()));
        }
        Self::of(Url::parse(text).map_err(|error| error.to_string())?)
    }

    fn of(url: Url) -> Result<Self, String> {
        if MAX_URL < url.as_str().len() {
            return Err(format!("it has {} bytes; {MAX_URL} at most", url.as_str().len()));
        }
        if !matches!(url.scheme(), "http" | "https") {
            let scheme = url.scheme().get(..20).unwrap_or(url.scheme());
            return Err(format!("only `http` and `https` are fetched, not `{scheme}`"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(String::from("it must hold no user name and no password"));
        }
        let name = url.host_str().filter(|name| !name.is_empty()).ok_or("it names no host")?;
        let host = Host::new(name, url.port_or_known_default());
        if host.name().split('.').any(str::is_empty) {
            return Err(String::from("its host has an empty label"));
        }
        Ok(Self { url, host })
    }

    /// Returns the host with its port.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the address as it is sent.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the address with these names and values at the end of its query.
    #[must_use]
    pub fn asking(mut self, pairs: &[(&str, &str)]) -> Self {
        self.url.query_pairs_mut().extend_pairs(pairs);
        // `+` means a space in forms alone.
        let query = self.url.query().map(|query| query.replace('+', "%20"));
        self.url.set_query(query.as_deref());
        self
    }
}

impl Fetcher {
    /// Returns a fetcher; nothing is opened yet.
    pub fn new(settings: FetchSettings) -> Self {
        let (answers, shown) = (Cache::new(settings.cache), Cache::new(settings.cache));
        let workers = Semaphore::new(MAX_WORKERS);
        Self {
            settings,
            public: OnceLock::new(),
            allowed: OnceLock::new(),
            proxied: OnceLock::new(),
            answers,
            shown,
            workers,
        }
    }

    /// Sends a request and follows its redirects. `judge` is asked about every other host where it redirects.
    pub async fn fetch(
        &self,
        address: WebAddress,
        request: WebRequest,
        judge: &Judge<'_>,
    ) -> Result<WebResponse, ToolError> {
        if let Some(answer) = self.reused(&address, &request, judge)? {
            return Ok(answer);
        }
        let is_reusable = is_reusable(&request);
        let only_reads = ["GET", "HEAD"].contains(&request.method.as_str());
        let key = address.as_str().to_owned();
        let fetched = self.fetch_anew(address, request, judge).await?;
        if !is_reusable && !only_reads {
            // A request that sends data may change the content of pages.
            self.answers.clear();
        }
        let no_store = fetched.headers.iter().any(|(name, value)| {
            name == "cache-control" && value.to_ascii_lowercase().contains("no-store")
        });
        if is_reusable && fetched.status == 200 && !fetched.is_cut && !no_store {
            let headers = fetched.headers.iter().map(|(name, value)| name.len() + value.len());
            let n_urls = fetched.redirects.len() + 2;
            let n_bytes = fetched.body.len() + headers.sum::<usize>() + n_urls * MAX_URL;
            self.answers.put(key, Arc::new(fetched.clone()), n_bytes);
        }
        Ok(fetched)
    }

    /// Returns an answer that is young enough. The hosts where it redirected are judged again, for this caller.
    fn reused(
        &self,
        address: &WebAddress,
        request: &WebRequest,
        judge: &Judge<'_>,
    ) -> Result<Option<WebResponse>, ToolError> {
        if !is_reusable(request) {
            return Ok(None);
        }
        let Some((answer, age)) = self.answers.get(|known| known == address.as_str()) else {
            return Ok(None);
        };
        if request.max_bytes < answer.body.len() {
            return Ok(None);
        }
        let passed = answer.redirects.iter().chain([&answer.url]);
        let passed: Result<Vec<_>, _> = passed.map(|url| WebAddress::parse(url)).collect();
        let Ok(mut passed) = passed else { return Ok(None) };
        passed.dedup_by(|one, before| one.host == before.host);
        passed.iter().skip(1).try_for_each(|address| judge(address, &Method::GET))?;
        let age_s = Some(age.as_secs());
        Ok(Some(WebResponse { age_s, boundary: boundary()?, ..(*answer).clone() }))
    }

    async fn fetch_anew(
        &self,
        address: WebAddress,
        request: WebRequest,
        judge: &Judge<'_>,
    ) -> Result<WebResponse, ToolError> {
        let most = self.settings.timeout;
        match timeout(most, self.follow(address, &request, judge)).await {
            Ok(fetched) => fetched,
            Err(_) => {
                let message = format!("the page was not there within {} s", most.as_secs_f32());
                Err(ToolError::new(Kind::Timeout, message))
            }
        }
    }

    async fn follow(
        &self,
        address: WebAddress,
        request: &WebRequest,
        judge: &Judge<'_>,
    ) -> Result<WebResponse, ToolError> {
        let mut step = Step::first(address, request)?;
        let mut redirects: Vec<String> = Vec::new();
        loop {
            let response = self.send(&step).await?;
            let Some(next) = step.after(&response)? else {
                return self.read(response, &step, request.max_bytes, redirects).await;
            };
            let most = self.settings.max_redirects;
            if most <= redirects.len() {
                let message = format!("the address redirects more than {most} times");
                return Err(ToolError::new(Kind::LimitReached, message));
            }
            redirects.push(step.address.as_str().to_owned());
            if redirects.iter().any(|known| known == next.address.as_str()) {
                let message = "the address redirects to itself";
                return Err(ToolError::new(Kind::ExecutionFailed, message));
            }
            if next.address.host != step.address.host {
                judge(&next.address, &next.method)?;
            }
            step = next;
        }
    }

    /// Sends one request to a judged address.
    async fn send(&self, step: &Step) -> Result<Response, ToolError> {
        let host = &step.address.host;
        let is_allowed = self.settings.allowed.iter().any(|pattern| pattern.means(host, false));
        let proxy = self.settings.proxies.of(step.address.url.scheme(), host);
        let proxy = proxy.filter(|_| !is_allowed);
        if !is_allowed && self.settings.proxies.unconfirmed {
            return Err(ToolError::new(
                Kind::Unavailable,
                "the proxies that variables name are not confirmed",
            )
            .hint("the user confirms them with `sinew trust --arguments`"));
        }
        // A literal address never reaches the resolver.
        if !is_allowed && let Ok(literal) = host.name().parse() {
            address::judge(&[literal]).map_err(|error| not_public(host, error))?;
        } else if proxy.is_some() {
            self.judge_name(host).await?;
        }
        let client = match (is_allowed, proxy) {
            (true, _) => self.allowed.get_or_init(|| self.client(false)),
            (false, None) => self.public.get_or_init(|| self.client(true)),
            (false, Some(_)) => self.proxied.get_or_init(|| self.proxied_client()),
        };
        let client = client.as_ref().map_err(|why| {
            ToolError::new(Kind::Unavailable, format!("HTTP cannot be used here: {why}"))
        })?;
        let mut sent = client
            .request(step.method.clone(), step.address.url.clone())
            .headers(step.headers.clone());
        if let Some(body) = &step.body {
            sent = sent.body(body.clone());
        }
        let idle = self.settings.idle_timeout;
        match timeout(idle, sent.send()).await {
            Ok(Ok(response)) => {
                // The connected address must be the judged one.
                let is_judged = !is_allowed && proxy.is_none();
                if let Some(peer) = response.remote_addr().filter(|_| is_judged) {
                    address::judge(&[peer.ip()]).map_err(|error| not_public(host, error))?;
                }
                Ok(response)
            }
            Ok(Err(error)) => Err(failed(host, proxy, error)),
            Err(_) => Err(silent(host, idle)),
        }
    }

    /// Judges what a name means before a proxy is asked for it.
    async fn judge_name(&self, host: &Host) -> Result<(), ToolError> {
        if self.settings.proxies.resolve {
            if proxies::is_local(host.name()) {
                return Err(local(host));
            }
            let listed = self.settings.resolver.listed(host.name());
            return address::judge(&listed).map_err(|error| not_public(host, error));
        }
        let resolved = self.settings.resolver.resolve(host.name()).await;
        let addresses = resolved.map_err(|error| unresolved(host, error))?;
        address::judge(&addresses).map_err(|error| not_public(host, error))
    }

    /// Reads the body of the last response.
    async fn read(
        &self,
        mut response: Response,
        step: &Step,
        max_bytes: usize,
        redirects: Vec<String>,
    ) -> Result<WebResponse, ToolError> {
        let host = &step.address.host;
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let headers: Vec<_> = response.headers().iter().filter_map(text).collect();
        // A decompressed answer has lost this header.
        let encoded = headers.iter().find(|(name, _)| name == "content-encoding");
        if let Some((_, encoding)) = encoded.filter(|(_, encoding)| encoding != "identity") {
            // The server chooses the word.
            let is_short =
                encoding.len() <= 20 && encoding.bytes().all(|c| c.is_ascii_alphanumeric());
            let encoding = if is_short { encoding.as_str() } else { "its own" };
            let message =
                format!("{host} compresses its answer as `{encoding}`, which is not read");
            return Err(ToolError::new(Kind::ExecutionFailed, message));
        }
        let mut body = Vec::new();
        let mut is_cut = false;
        let idle = self.settings.idle_timeout;
        loop {
            let chunk = match timeout(idle, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return Err(failed(host, None, error)),
                Err(_) => return Err(silent(host, idle)),
            };
            let left = max_bytes - body.len();
            body.extend_from_slice(chunk.get(..left).unwrap_or(&chunk));
            if left < chunk.len() {
                is_cut = true;
                break;
            }
        }
        let url = step.address.as_str().to_owned();
        let status = response.status().as_u16();
        let boundary = boundary()?;
        Ok(WebResponse { url, status, headers, body, is_cut, redirects, age_s: None, boundary })
    }

    /// Converts a page in a process of its own.
    pub async fn read_html(
        &self,
        html: String,
        address: String,
        form: PageForm,
    ) -> Result<ReadPage, ToolError> {
        let helper = self.settings.helper.clone().ok_or_else(|| {
            ToolError::new(Kind::Unavailable, "no program can convert pages")
                .hint("fetch it with `format` `raw`")
        })?;
        let page = Convertible { html, address, form };
        if let Some((shown, _)) = self.shown.get(|known| *known == page) {
            return Ok(shown);
        }
        // Dropping the call gives its turn back.
        let _turn = self.workers.acquire().await.ok();
        let convert = move || {
            let shown = worker::convert(&helper, &page.html, &page.address, page.form);
            (page, shown)
        };
        let failed = || ToolError::new(Kind::ExecutionFailed, "the page could not be converted");
        // One worker after the other, and the time to start them.
        let converted = timeout(worker::MAX_LIFE * 3, tokio::task::spawn_blocking(convert)).await;
        let (page, shown) = match converted {
            Ok(converted) => converted.map_err(|error| failed().source(error))?,
            Err(_) => return Err(failed().hint("fetch it with `format` `raw`")),
        };
        let shown = shown?;
        let n_bytes = page.html.len() + shown.text.len();
        self.shown.put(page, shown.clone(), n_bytes);
        Ok(shown)
    }

    /// Returns the client of requests through a proxy. It resolves the names of proxies alone, which are the user's.
    fn proxied_client(&self) -> Result<Client, String> {
        let resolver = Arc::clone(&self.settings.resolver);
        let Proxies { http, https, .. } = &self.settings.proxies;
        let names = http.iter().chain(https).map(|proxy| proxy.host().name().to_owned());
        let resolver = Arc::new(OnlyNames { resolver, names: names.collect() });
        let resolver = Arc::new(JudgedResolver { resolver, public_only: false });
        let Proxies { http, https, .. } = &self.settings.proxies;
        let http = http.iter().map(|proxy| Proxy::http(proxy.url().clone()));
        let https = https.iter().map(|proxy| Proxy::https(proxy.url().clone()));
        let with = |client: ClientBuilder, proxy| Ok(client.proxy(proxy?));
        let client = http.chain(https).try_fold(http::builder(), with);
        let client = client.and_then(|client| client.dns_resolver(resolver).build());
        client.map_err(|error| http::words(&error))
    }

    fn client(&self, public_only: bool) -> Result<Client, String> {
        let resolver = Arc::clone(&self.settings.resolver);
        let resolver = Arc::new(JudgedResolver { resolver, public_only });
        let client = http::builder().dns_resolver(resolver).build();
        client.map_err(|error| http::words(&error))
    }
}

/// One request of a fetch.
#[derive(Debug, Clone)]
struct Step {
    address: WebAddress,
    method: Method,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

impl Step {
    fn first(address: WebAddress, request: &WebRequest) -> Result<Self, ToolError> {
        let method = Method::from_bytes(request.method.as_bytes()).ok();
        let method =
            method.filter(|method| !REFUSED_METHODS.contains(method)).ok_or_else(|| {
                let method = request.method.escape_debug();
                ToolError::new(
                    Kind::InvalidArgs,
                    format!("`{method}` is not a method that can be sent"),
                )
            })?;
        let mut headers = HeaderMap::new();
        for (name, value) in &request.headers {
            let parsed = HeaderName::from_bytes(name.as_bytes()).ok();
            let parsed = parsed.zip(HeaderValue::from_str(value).ok());
            let is_sent = |name: &HeaderName| !REFUSED_HEADERS.contains(&name.as_str());
            let (name, mut value) = parsed.filter(|(name, _)| is_sent(name)).ok_or_else(|| {
                let name = name.escape_debug();
                ToolError::new(Kind::InvalidArgs, format!("the header `{name}` cannot be sent"))
            })?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(Self { address, method, headers, body: request.body.clone() })
    }

    /// Returns the request that a response redirects to, if it does.
    fn after(&self, response: &Response) -> Result<Option<Self>, ToolError> {
        let status = response.status().as_u16();
        if !matches!(status, 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
        let next = std::str::from_utf8(location.as_bytes())
            .map_err(|error| error.to_string())
            .and_then(|location| self.address.url.join(location).map_err(|error| error.to_string()))
            .and_then(WebAddress::of);
        let address = next.map_err(|why| {
            let message = format!("the address redirects to what cannot be fetched: {why}");
            ToolError::new(Kind::ExecutionFailed, message)
        })?;
        let mut step = Self { address, ..self.clone() };
        // As browsers do: RFC 9110, 15.4.
        let becomes_get = status == 303 || (status < 303 && self.method == Method::POST);
        if becomes_get && self.method != Method::HEAD {
            step.method = Method::GET;
            step.body = None;
            for name in ["content-type", "content-length", "content-encoding"] {
                step.headers.remove(name);
            }
        }
        if step.address.url.origin() != self.address.url.origin() {
            if step.body.is_some() || !step.method.is_safe() {
                let message = format!(
                    "the request is redirected to {}, which would get its body",
                    step.address.host
                );
                let hint = format!(
                    "call again with {} if that is meant",
                    shown_url(step.address.as_str())
                );
                return Err(ToolError::new(Kind::ExecutionFailed, message).hint(hint));
            }
            let others = step.headers.keys().filter(|name| !HARMLESS.contains(&name.as_str()));
            for name in others.cloned().collect::<Vec<_>>() {
                step.headers.remove(name);
            }
        }
        Ok(Some(step))
    }
}

/// Returns whether an answer to this request may serve the next one.
fn is_reusable(request: &WebRequest) -> bool {
    request.method == "GET" && request.headers.is_empty() && request.body.is_none()
}

/// Returns a random word.
pub(crate) fn boundary() -> Result<String, ToolError> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes).map_err(|error| {
        ToolError::new(Kind::Unavailable, "the system gives no random numbers").source(error)
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn silent(host: &Host, idle: Duration) -> ToolError {
    let message = format!("{host} sent nothing for {} s", idle.as_secs_f32());
    ToolError::new(Kind::Timeout, message)
}

fn not_public(host: &Host, error: NotPublic) -> ToolError {
    ToolError::new(
        Kind::PolicyDenied,
        format!("{host} is not public: it leads to {}, which fetches must not reach", error.what),
    )
    .hint(format!("the user can allow `{host}` in `tools.web_fetch.allow_hosts`"))
    .source(error)
}

fn local(host: &Host) -> ToolError {
    let message = format!("{host} is not public: it is a name of a local network");
    ToolError::new(Kind::PolicyDenied, message)
        .hint(format!("the user can allow `{host}` in `tools.web_fetch.allow_hosts`"))
}

fn unresolved(host: &Host, error: ResolveError) -> ToolError {
    let message = format!("{} cannot be resolved: {error}", host.name());
    ToolError::new(Kind::ExecutionFailed, message).source(error)
}

/// Returns the error of a request that failed. Addresses are not part of its message.
fn failed(host: &Host, proxy: Option<&ProxyAddress>, error: reqwest::Error) -> ToolError {
    if let Some(error) = cause::<NotPublic>(&error) {
        return not_public(host, error.clone());
    }
    let error = error.without_url();
    let resolving = cause::<ResolveError>(&error);
    let message = match (resolving, proxy) {
        (Some(resolving), Some(proxy)) => {
            format!("the proxy {proxy} cannot be resolved: {resolving}")
        }
        (Some(resolving), None) => format!("{} cannot be resolved: {resolving}", host.name()),
        (None, Some(proxy)) if error.is_connect() => {
            format!("{host} cannot be reached through the proxy {proxy}: {}", http::words(&error))
        }
        (None, None) if error.is_connect() => {
            format!("{host} cannot be reached: {}", http::words(&error))
        }
        (None, _) => format!("the answer of {host} cannot be read: {}", http::words(&error)),
    };
    ToolError::new(Kind::ExecutionFailed, message).source(error)
}

/// Returns the cause of an error with a type.
fn cause<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut error = Some(error);
    while let Some(one) = error {
        if let Some(found) = one.downcast_ref() {
            return Some(found);
        }
        error = one.source();
    }
    None
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;

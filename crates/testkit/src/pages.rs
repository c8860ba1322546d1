//! Pages of a World in memory: answers by address, and answers to searches by query.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sinew_tool::sync::lock;
use sinew_tool::{
    BoxFuture, Host, Kind, Net, PageForm, ProviderChoice, ReadPage, SearchAnswer, SearchClaim,
    SearchProvider, SearchQuery, SearchResult, SearchTarget, Slot, Targets, ToolError, WebRequest,
    WebResponse,
};

/// The answers to requests, and the requests.
#[derive(Debug, Clone, Default)]
pub struct Pages {
    answers: Arc<BTreeMap<String, WebResponse>>,
    found: Arc<BTreeMap<String, Found>>,
    has_endpoint: bool,
    requests: Arc<Mutex<Vec<WebRequest>>>,
}

/// The results of a query.
#[derive(Debug, Clone)]
struct Found {
    results: Vec<SearchResult>,
    body: Vec<u8>,
}

impl Pages {
    /// Returns an answer with status 200 that is marked by `b0b0`.
    pub fn answer(content_type: &str, body: &[u8]) -> WebResponse {
        WebResponse {
            url: String::new(),
            status: 200,
            headers: vec![(String::from("content-type"), content_type.to_owned())],
            body: body.to_vec(),
            is_cut: false,
            redirects: Vec::new(),
            age_s: None,
            boundary: String::from("b0b0"),
        }
    }

    /// Adds the answer of an address.
    #[must_use]
    pub fn with(mut self, url: &str, answer: WebResponse) -> Self {
        let answer = WebResponse { url: url.to_owned(), ..answer };
        Arc::make_mut(&mut self.answers).insert(url.to_owned(), answer);
        self
    }

    /// Adds the results of a query, with the body of the answer.
    #[must_use]
    pub fn finding(mut self, query: &str, results: Vec<SearchResult>, body: &[u8]) -> Self {
        let found = Found { results, body: body.to_vec() };
        Arc::make_mut(&mut self.found).insert(query.to_owned(), found);
        self
    }

    /// Adds an endpoint of searches.
    #[must_use]
    pub fn with_endpoint(self) -> Self {
        Self { has_endpoint: true, ..self }
    }

    /// Returns who answers a search: the provider that it names, else DuckDuckGo.
    pub(crate) fn target(&self, claim: &SearchClaim) -> SearchTarget {
        let named = claim.provider.as_deref().and_then(SearchProvider::from_word);
        let provider = match claim.choice {
            ProviderChoice::Endpoint if !self.has_endpoint => return SearchTarget::NoEndpoint,
            ProviderChoice::Endpoint => SearchProvider::Endpoint,
            _ => named.unwrap_or(SearchProvider::DuckDuckGo),
        };
        SearchTarget::Provider(provider, Host::new("search.test", Some(443)))
    }

    /// Takes the requests so far.
    pub fn requests(&self) -> Vec<WebRequest> {
        std::mem::take(&mut lock(&self.requests))
    }
}

/// The pages of one call.
#[derive(Debug)]
pub(crate) struct PagesOfCall {
    pub(crate) pages: Pages,
    pub(crate) targets: Arc<Targets>,
}

impl Net for PagesOfCall {
    fn send(
        &self,
        url: Slot,
        request: WebRequest,
    ) -> BoxFuture<'static, Result<WebResponse, ToolError>> {
        let answer = self.targets.urls.get(url.0).and_then(|url| self.pages.answers.get(&url.url));
        let nothing = || ToolError::new(Kind::ExecutionFailed, "the host cannot be reached");
        let answered = answer.cloned().ok_or_else(nothing).map(|mut answer| {
            answer.is_cut |= request.max_bytes < answer.body.len();
            answer.body.truncate(request.max_bytes);
            answer
        });
        lock(&self.pages.requests).push(request);
        Box::pin(std::future::ready(answered))
    }

    fn search(&self, query: SearchQuery) -> BoxFuture<'static, Result<SearchAnswer, ToolError>> {
        let found = self.pages.found.get(&query.text).cloned();
        let provider = match self.targets.search {
            Some(SearchTarget::Provider(provider, _)) => Some(provider),
            _ => None,
        };
        let nothing = || {
            ToolError::new(
                Kind::LimitReached,
                "the provider takes no more searches now: status 429",
            )
        };
        let answer = found.zip(provider).ok_or_else(nothing);
        let answer = answer.map(|(Found { mut results, body }, provider)| {
            results.truncate(query.max_results);
            SearchAnswer { provider, results, body, boundary: String::from("b0b0") }
        });
        Box::pin(std::future::ready(answer))
    }

    /// Says what would be shown. A page that holds `deep` cannot be converted.
    fn read_html(
        &self,
        html: String,
        address: String,
        form: PageForm,
    ) -> BoxFuture<'static, Result<ReadPage, ToolError>> {
        let title = html.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
        let title = title.map(|(title, _)| title.to_owned()).unwrap_or_default();
        let is_plain = html.contains("deep");
        let text = format!("{form} of {html} at {address}");
        Box::pin(std::future::ready(Ok(ReadPage { title, text, is_plain })))
    }

    fn keep(&self, _body: &[u8], _extension: &str) -> Result<Option<String>, ToolError> {
        Ok(Some(String::from(".sinew/tool-output/call.bin")))
    }
}

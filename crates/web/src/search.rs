//! Searches the web: who answers, what it is asked, and one shape of what it answers.
//!
//! A provider gets the words of a query and its own key, and its answer is bounded like a page. Servers of the user
//! (SearXNG, an endpoint) need not be public. What providers answer is the text of strangers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sinew_policy::hosts::HostPattern;
use sinew_policy::proxies::Proxies;
use sinew_tool::visible::visible_only;
use sinew_tool::{
    ApiKey, Kind, ProviderChoice, SearchAnswer, SearchClaim, SearchProvider, SearchQuery,
    SearchResult, SearchSettings, SearchTarget, ToolError, WebRequest, WebResponse,
};
use tokio::time::{sleep, timeout};

use crate::fetch::{FetchSettings, Fetcher, WebAddress, boundary};
use crate::html;
use crate::resolver::Resolve;

/// The search of Tavily: <https://docs.tavily.com/documentation/api-reference/endpoint/search>.
const TAVILY: &str = "https://api.tavily.com/search";
/// The web search of Brave: <https://api-dashboard.search.brave.com/api-reference/web/search/get>.
const BRAVE: &str = "https://api.search.brave.com/res/v1/web/search";
/// The instant answers of DuckDuckGo: <https://duckduckgo.com/api>.
const DUCKDUCKGO: &str = "https://api.duckduckgo.com/";
/// The most bytes of an answer: 2 MiB.
const MAX_ANSWER: usize = 2 << 20;
/// The longest title and text of a result, in bytes, and its longest address.
const MAX_TITLE: usize = 300;
const MAX_CONTENT: usize = 2_000;
const MAX_URL: usize = 2_048;
/// How many characters of a text without a title become one.
const TITLE_OF_TEXT: usize = 100;
/// How often a provider is asked again that had too many requests, and the longest wait for it.
const MAX_AGAIN: u32 = 2;
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Asks the providers of searches. Nothing is opened before the first search.
#[derive(Debug)]
pub struct Searcher {
    settings: SearchSettings,
    fetcher: Fetcher,
}

impl Searcher {
    /// Returns a searcher whose connections resolve names by `resolver`, and reach providers through `proxies`.
    pub fn new(settings: SearchSettings, resolver: Arc<dyn Resolve>, proxies: Proxies) -> Self {
        let own = [&settings.searxng, &settings.endpoint].into_iter().flatten();
        let allowed = own.filter_map(|url| WebAddress::parse(url).ok());
        let fetcher = Fetcher::new(FetchSettings {
            allowed: allowed.map(|address| HostPattern::of(address.host())).collect(),
            resolver,
            proxies,
            // A search has one time limit, for all that it asks.
            timeout: settings.timeout.saturating_mul(2),
            idle_timeout: settings.timeout.saturating_mul(2),
            // A bad answer would come again.
            cache: Duration::ZERO,
            ..FetchSettings::default()
        });
        Self { settings, fetcher }
    }

    /// Returns who answers a search.
    pub fn target(&self, claim: &SearchClaim) -> Result<SearchTarget, ToolError> {
        match self.provider(claim)? {
            Some(provider) => {
                Ok(SearchTarget::Provider(provider, self.address(provider)?.host().clone()))
            }
            None => Ok(SearchTarget::NoEndpoint),
        }
    }

    fn provider(&self, claim: &SearchClaim) -> Result<Option<SearchProvider>, ToolError> {
        let lacks = |provider| self.lacks(provider);
        if claim.choice == ProviderChoice::Endpoint {
            return Ok(Some(SearchProvider::Endpoint).filter(|endpoint| lacks(*endpoint).is_none()));
        }
        let is_fallback = claim.choice == ProviderChoice::Fallback;
        let named = match &claim.provider {
            Some(name) => match (SearchProvider::from_word(name), is_fallback) {
                (None, false) => {
                    let known = SearchProvider::ALL.map(SearchProvider::as_str).join("`, `");
                    return Err(ToolError::argument(
                        claim.argument,
                        format!("must be one of `{known}`"),
                    ));
                }
                (None, true) => Some(SearchProvider::DuckDuckGo),
                (known, _) => known,
            },
            None => self.settings.provider,
        };
        match named.map(|provider| (provider, lacks(provider))) {
            Some((provider, None)) => Ok(Some(provider)),
            Some((_, Some(_))) if is_fallback => Ok(Some(SearchProvider::DuckDuckGo)),
            Some((provider, Some(what))) => Err(ToolError::new(
                Kind::Unavailable,
                format!("{provider} cannot be asked: {what} is not set"),
            )
            .hint(match claim.provider {
                Some(_) => "search without `provider`, or let the user set it",
                None => "the user can set it, or another `tools.web_search.provider`",
            })),
            None => Ok(SearchProvider::ALL.into_iter().find(|provider| lacks(*provider).is_none())),
        }
    }

    /// Returns what a provider needs and does not have.
    fn lacks(&self, provider: SearchProvider) -> Option<&'static str> {
        let SearchSettings { tavily_key, brave_key, searxng, endpoint, .. } = &self.settings;
        let (is_there, what) = match provider {
            SearchProvider::Tavily => (tavily_key.is_some(), "`TAVILY_API_KEY`"),
            SearchProvider::Brave => (brave_key.is_some(), "`BRAVE_API_KEY`"),
            SearchProvider::SearXng => (searxng.is_some(), "`tools.web_search.searxng`"),
            SearchProvider::Endpoint => (endpoint.is_some(), "`tools.web_search.endpoint`"),
            SearchProvider::DuckDuckGo => return None,
        };
        (!is_there).then_some(what)
    }

    fn address(&self, provider: SearchProvider) -> Result<WebAddress, ToolError> {
        let own = |url: &Option<String>| url.clone().unwrap_or_default();
        let written = match provider {
            SearchProvider::Tavily => String::from(TAVILY),
            SearchProvider::Brave => String::from(BRAVE),
            SearchProvider::DuckDuckGo => String::from(DUCKDUCKGO),
            SearchProvider::SearXng => {
                let base = own(&self.settings.searxng);
                let base = base.trim_end_matches('/');
                format!("{}/search", base.strip_suffix("/search").unwrap_or(base))
            }
            SearchProvider::Endpoint => own(&self.settings.endpoint),
        };
        WebAddress::parse(&written).map_err(|why| {
            ToolError::new(Kind::Unavailable, format!("{provider} cannot be asked: {why}"))
        })
    }

    /// Asks a provider. One that had too many requests is asked again after the time that it names, within the
    /// time limit.
    pub async fn search(
        &self,
        provider: SearchProvider,
        query: &SearchQuery,
    ) -> Result<SearchAnswer, ToolError> {
        let most = self.settings.timeout;
        timeout(most, self.ask(provider, query)).await.unwrap_or_else(|_| {
            let message = format!("{provider} did not answer within {} s", most.as_secs_f32());
            Err(ToolError::new(Kind::Timeout, message)
                .hint("search again, or name another provider"))
        })
    }

    async fn ask(
        &self,
        provider: SearchProvider,
        query: &SearchQuery,
    ) -> Result<SearchAnswer, ToolError> {
        let (address, request) = self.request(provider, query)?;
        let until = Instant::now() + self.settings.timeout;
        let mut n_asked = 0;
        let response = loop {
            let elsewhere = |to: &WebAddress, _: &Method| {
                let message = format!("{provider} redirects to {}, which is not asked", to.host());
                Err(ToolError::new(Kind::ExecutionFailed, message))
            };
            let asked = self.fetcher.fetch(address.clone(), request.clone(), &elsewhere);
            let response = asked.await?;
            if response.status != StatusCode::TOO_MANY_REQUESTS.as_u16() || n_asked == MAX_AGAIN {
                break response;
            }
            let wait = match response.header("retry-after") {
                // A date, or an invalid value, is too long to wait for.
                Some(after) => after.trim().parse().map_or(Duration::MAX, Duration::from_secs),
                None => Duration::from_secs(1 << n_asked),
            };
            if MAX_WAIT < wait || until.saturating_duration_since(Instant::now()) <= wait {
                break response;
            }
            n_asked += 1;
            sleep(wait).await;
        };
        let results = results(provider, &response, query)?;
        Ok(SearchAnswer { provider, results, body: response.body, boundary: boundary()? })
    }

    fn request(
        &self,
        provider: SearchProvider,
        query: &SearchQuery,
    ) -> Result<(WebAddress, WebRequest), ToolError> {
        let address = self.address(provider)?;
        let get = WebRequest {
            method: String::from("GET"),
            headers: Vec::new(),
            body: None,
            max_bytes: MAX_ANSWER,
        };
        let (text, count) = (query.text.as_str(), query.max_results.to_string());
        let header = |name: &str, value: String| (name.to_owned(), value);
        let key = |key: &Option<ApiKey>, variable: &str| {
            let key = key.as_ref().map_or("", ApiKey::reveal).trim();
            match key.bytes().all(|byte| byte.is_ascii_graphic()) {
                true => Ok(key.to_owned()),
                false => {
                    let message = format!("`{variable}` holds what no key has");
                    Err(ToolError::new(Kind::Unavailable, message).hint("the user can correct it"))
                }
            }
        };
        Ok(match provider {
            SearchProvider::Tavily => {
                let body = json!({ "query": text, "max_results": query.max_results });
                let key = key(&self.settings.tavily_key, "TAVILY_API_KEY")?;
                let headers = vec![
                    header("authorization", format!("Bearer {key}")),
                    header("content-type", String::from("application/json")),
                ];
                let method = String::from("POST");
                let body = Some(body.to_string().into_bytes());
                (address, WebRequest { method, headers, body, ..get })
            }
            SearchProvider::Brave => {
                let headers = vec![
                    header("x-subscription-token", key(&self.settings.brave_key, "BRAVE_API_KEY")?),
                    header("accept", String::from("application/json")),
                ];
                (address.asking(&[("q", text), ("count", &count)]), WebRequest { headers, ..get })
            }
            SearchProvider::SearXng => (address.asking(&[("q", text), ("format", "json")]), get),
            SearchProvider::Endpoint => (address.asking(&[("q", text), ("count", &count)]), get),
            SearchProvider::DuckDuckGo => {
                let plain = [("format", "json"), ("no_html", "1"), ("no_redirect", "1")];
                let asked: Vec<_> = [("q", text)].into_iter().chain(plain).collect();
                (address.asking(&asked), get)
            }
        })
    }
}

/// Returns the results of an answer, or its error.
fn results(
    provider: SearchProvider,
    response: &WebResponse,
    query: &SearchQuery,
) -> Result<Vec<SearchResult>, ToolError> {
    let status = response.status;
    match status {
        200..=299 => {}
        401 | 403 => {
            let hint = match provider {
                SearchProvider::Tavily => "the user can correct `TAVILY_API_KEY`",
                SearchProvider::Brave => "the user can correct `BRAVE_API_KEY`",
                SearchProvider::SearXng => {
                    "its settings must list `json` in `search.formats`, and its limiter must let sinew pass"
                }
                SearchProvider::Endpoint => "`tools.web_search.endpoint` is asked without a key",
                SearchProvider::DuckDuckGo => "name another provider",
            };
            let message = format!("{provider} refuses the search with status {status}");
            return Err(ToolError::new(Kind::Unavailable, message).hint(hint));
        }
        // 432 and 433: the plan of a key at Tavily is used up.
        402 | 429 | 432 | 433 => {
            let message = format!("{provider} takes no more searches now: status {status}");
            let hint = "search again later, or name another provider";
            return Err(ToolError::new(Kind::LimitReached, message).hint(hint));
        }
        _ => {
            let message = format!("{provider} answers with status {status}");
            return Err(ToolError::new(Kind::ExecutionFailed, message)
                .hint("search again, or name another provider"));
        }
    }
    let wrong = |what: String| {
        ToolError::new(Kind::ExecutionFailed, format!("the answer of {provider} {what}"))
            .hint("search again, or name another provider")
    };
    if response.is_cut {
        return Err(wrong(format!("is larger than {MAX_ANSWER} bytes")));
    }
    if response.body.is_empty() {
        return Err(wrong(String::from("is empty")));
    }
    let answer: Value = serde_json::from_slice(&response.body)
        .map_err(|error| wrong(format!("is not JSON: {error}")))?;
    let found = match provider {
        SearchProvider::Tavily | SearchProvider::SearXng => rows(&answer, "/results"),
        SearchProvider::Brave => match answer.is_object() {
            // Without a result it has no list.
            true => Some(rows(&answer, "/web/results").unwrap_or_default()),
            false => None,
        },
        SearchProvider::DuckDuckGo => instant(&answer),
        SearchProvider::Endpoint => {
            let places = ["", "/results", "/web/results", "/items", "/data", "/organic"];
            places.into_iter().find_map(|place| rows(&answer, place))
        }
    };
    let found = match found {
        None if query.wants_list => return Err(wrong(String::from("has no list of results"))),
        found => found.unwrap_or_default(),
    };
    let shown = found.into_iter().filter_map(|row| shown(row, provider == SearchProvider::Brave));
    Ok(shown.take(query.max_results).collect())
}

/// Returns the results of a list of objects.
fn rows(answer: &Value, place: &str) -> Option<Vec<SearchResult>> {
    let row = |row: &Value| {
        let text = |names: &[&str]| {
            let found = names.iter().find_map(|name| row.get(name).and_then(Value::as_str));
            found.unwrap_or_default().to_owned()
        };
        SearchResult {
            title: text(&["title", "name"]),
            url: text(&["url", "link", "href"]),
            content: text(&["content", "description", "snippet", "text", "body"]),
        }
    };
    Some(answer.pointer(place)?.as_array()?.iter().map(row).collect())
}

/// Returns the results of an instant answer: what it says itself, and the topics that it names, also those in groups.
fn instant(answer: &Value) -> Option<Vec<SearchResult>> {
    let text = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let list = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    answer.get("RelatedTopics")?.as_array()?;
    let abstract_of = SearchResult {
        title: text(answer, "Heading"),
        url: text(answer, "AbstractURL"),
        content: text(answer, "AbstractText"),
    };
    let topics = list(answer, "RelatedTopics").into_iter().flat_map(|topic| {
        let inner = list(&topic, "Topics");
        if inner.is_empty() { vec![topic] } else { inner }
    });
    let topics = list(answer, "Results").into_iter().chain(topics).map(|topic| {
        let content = text(&topic, "Text");
        let title = content.chars().take(TITLE_OF_TEXT).collect();
        SearchResult { title, url: text(&topic, "FirstURL"), content }
    });
    Some(std::iter::once(abstract_of).chain(topics).collect())
}

/// Returns a result as it is shown, if its address can be fetched.
fn shown(result: SearchResult, is_html: bool) -> Option<SearchResult> {
    let SearchResult { title, url, content } = result;
    if MAX_URL < url.len() {
        return None;
    }
    let url = WebAddress::parse(&url).ok()?.as_str().to_owned();
    let text = |text: String, most: usize| {
        // Nothing that is left out in the end is worked on: hostile HTML takes long.
        let text = text.get(..text.floor_char_boundary(4 * most)).unwrap_or_default();
        let text = if is_html { html::plain(text).text } else { visible_only(text) };
        let text = text.trim();
        text.get(..text.floor_char_boundary(most)).unwrap_or_default().to_owned()
    };
    let title = text(title, MAX_TITLE).replace('\n', " ");
    Some(SearchResult { title, url, content: text(content, MAX_CONTENT) })
}

#[cfg(test)]
mod tests;

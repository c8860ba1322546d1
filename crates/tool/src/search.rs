//! Searches of the web: what a call asks for, and what a provider answers.

use std::fmt;
use std::time::Duration;

use crate::Host;

crate::word_enum! {
    /// Who answers a search. What the configuration names comes before a key of the environment, which a repository's
    /// entry of a client may set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum SearchProvider {
        /// A SearXNG of the user.
        SearXng = "searxng",
        /// An address of the user that answers JSON.
        Endpoint = "endpoint",
        /// Tavily, with a key.
        Tavily = "tavily",
        /// Brave Search, with a key.
        Brave = "brave",
        /// The instant answers of DuckDuckGo, without a key.
        DuckDuckGo = "duckduckgo",
    }
}

crate::word_enum! {
    /// How a search uses the name of a provider.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum ProviderChoice {
        /// It answers, or the call fails.
        Named = "named",
        /// It answers if it can, else DuckDuckGo.
        Fallback = "fallback",
        /// The endpoint of the user answers; without one there is no answer, and no error.
        Endpoint = "endpoint",
    }
}

/// A search of a call before containment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchClaim {
    /// The wire name of the argument with the provider, for messages.
    pub argument: &'static str,
    /// The provider as written, if one is.
    pub provider: Option<String>,
    /// How the search uses that name.
    pub choice: ProviderChoice,
}

/// A search after containment: who answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchTarget {
    /// A provider, and its host with its port.
    Provider(SearchProvider, Host),
    /// Nothing, because only an endpoint may and there is none.
    NoEndpoint,
}

impl SearchTarget {
    /// Returns the host that is reached.
    pub fn host(&self) -> Option<&Host> {
        match self {
            Self::Provider(_, host) => Some(host),
            Self::NoEndpoint => None,
        }
    }
}

/// The words of a search, and the form of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    /// The words.
    pub text: String,
    /// The most results.
    pub max_results: usize,
    /// Whether an answer without a list of results is an error; without it, the body counts.
    pub wants_list: bool,
}

/// What a provider answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchAnswer {
    /// The provider.
    pub provider: SearchProvider,
    /// The results in its order.
    pub results: Vec<SearchResult>,
    /// Its answer as it came.
    pub body: Vec<u8>,
    /// A random word to mark where the results begin and end.
    pub boundary: String,
}

/// One result of a search. Its texts are those of a stranger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchResult {
    /// The title; may be empty.
    pub title: String,
    /// The address (URL).
    pub url: String,
    /// What the page says, or a part of it.
    pub content: String,
}

/// Who is asked, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchSettings {
    /// Who answers a search that names no provider; without one, the first that can: [`SearchProvider::ALL`].
    pub provider: Option<SearchProvider>,
    /// The key of Tavily.
    pub tavily_key: Option<ApiKey>,
    /// The key of Brave.
    pub brave_key: Option<ApiKey>,
    /// The address of a SearXNG, which need not be public.
    pub searxng: Option<String>,
    /// An address that takes `q` and `count`, which need not be public.
    pub endpoint: Option<String>,
    /// How long a search may take in all.
    pub timeout: Duration,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self {
            provider: None,
            tavily_key: None,
            brave_key: None,
            searxng: None,
            endpoint: None,
            timeout: Duration::from_secs(15),
        }
    }
}

/// A key of a provider, which no message shows.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Returns a key.
    pub fn new(key: String) -> Self {
        Self(key)
    }

    /// Returns the key, for a request to its provider.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

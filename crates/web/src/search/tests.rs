use std::net::IpAddr;
use std::sync::Mutex;

use sinew_tool::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::resolver::ResolveError;

/// Answers of the providers in the shapes that their pages and recordings have.
const TAVILY_ANSWER: &str = r#"{"query": "x", "follow_up_questions": null, "answer": null, "images": [],
  "results": [{"title": "One", "url": "https://one.test/a?b=1", "content": "first\u200b line", "score": 0.99,
    "raw_content": null}, {"title": "Two", "url": "https://two.test", "content": "", "score": 0.5}],
  "response_time": 1.67, "request_id": "123"}"#;
const BRAVE_ANSWER: &str = r#"{"type": "search", "query": {"original": "x", "more_results_available": true},
  "mixed": {"type": "mixed", "main": [{"type": "web", "index": 0, "all": false}]},
  "web": {"type": "search", "family_friendly": true, "results": [
    {"title": "One &amp; all", "url": "https://one.test/", "description": "the <strong>x</strong> &#x27;of&#x27; it",
     "page_age": "2026-01-01T00:00:00", "profile": {"name": "One"}, "extra_snippets": ["more"]}]}}"#;
const DUCKDUCKGO_ANSWER: &str = r##"{"Abstract": "", "AbstractText": "What it is.", "AbstractURL": "https://en.test/x",
  "Heading": "X", "Answer": "", "Type": "A", "Results": [{"FirstURL": "https://x.test/", "Result": "<a>",
  "Text": "Official site"}], "RelatedTopics": [{"FirstURL": "https://ddg.test/a", "Text": "A thing",
  "Icon": {"URL": ""}}, {"Name": "Groups", "Topics": [{"FirstURL": "https://ddg.test/b", "Text": "LONG"}]}]}"##;
const SEARXNG_ANSWER: &str = r#"{"query": "x", "number_of_results": 0, "results": [{"url": "https://one.test/",
  "title": "One", "content": "text", "engine": "wikipedia", "parsed_url": ["https", "one.test", "/", "", "", ""],
  "score": 1.0, "category": "general"}, {"url": "magnet:?xt=1", "title": "No page"}, {"title": "No address"}],
  "answers": [], "corrections": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": [["a", "timeout"]]}"#;

fn response(status: u16, body: &str) -> WebResponse {
    WebResponse {
        url: String::new(),
        status,
        headers: Vec::new(),
        body: body.as_bytes().to_vec(),
        is_cut: false,
        redirects: Vec::new(),
        age_s: None,
        boundary: String::new(),
    }
}

fn asked() -> SearchQuery {
    SearchQuery { text: String::from("x"), max_results: 5, wants_list: true }
}

/// Reads an answer, and shows its results or its error in a line each.
fn read(provider: SearchProvider, status: u16, body: &str) -> Vec<String> {
    match results(provider, &response(status, body), &asked()) {
        Ok(results) => results
            .into_iter()
            .map(|result| format!("{} | {} | {}", result.title, result.url, result.content))
            .collect(),
        Err(error) => vec![format!("{}: {}", error.kind, error.message)],
    }
}

#[test]
fn answers_have_one_shape() {
    use SearchProvider::*;
    let long = DUCKDUCKGO_ANSWER.replace("LONG", &"word ".repeat(40));
    let b = format!(
        "{} | https://ddg.test/b | {}",
        "word ".repeat(20).trim(),
        "word ".repeat(40).trim()
    );
    let others: [(SearchProvider, &str, &[&str]); 13] = [
        (
            Tavily,
            TAVILY_ANSWER,
            &["One | https://one.test/a?b=1 | first line", "Two | https://two.test/ | "],
        ),
        (Tavily, r#"{"results": []}"#, &[]),
        (Brave, BRAVE_ANSWER, &["One & all | https://one.test/ | the x 'of' it"]),
        // Without a result it has no list.
        (Brave, r#"{"type": "search", "query": {"original": "x"}}"#, &[]),
        (
            DuckDuckGo,
            &long,
            &[
                "X | https://en.test/x | What it is.",
                "Official site | https://x.test/ | Official site",
                "A thing | https://ddg.test/a | A thing",
                &b,
            ],
        ),
        (DuckDuckGo, r#"{"Heading": "", "AbstractURL": "", "RelatedTopics": []}"#, &[]),
        (SearXng, SEARXNG_ANSWER, &["One | https://one.test/ | text"]),
        (
            Endpoint,
            r#"[{"name": "A", "link": "http://a.test", "snippet": "s"}]"#,
            &["A | http://a.test/ | s"],
        ),
        (Endpoint, r#"{"items": [{"link": "http://a.test"}]}"#, &[" | http://a.test/ | "]),
        (
            Endpoint,
            r#"{"data": [{"href": "http://a.test", "text": "t"}]}"#,
            &[" | http://a.test/ | t"],
        ),
        (
            Endpoint,
            BRAVE_ANSWER,
            &["One &amp; all | https://one.test/ | the <strong>x</strong> &#x27;of&#x27; it"],
        ),
        (
            Endpoint,
            r#"{"results": [{"url": "file:///etc/passwd"}, {"url": "http://a.test/\u0000"}, 7]}"#,
            &[],
        ),
        (Endpoint, r#"{"results": [{"title": "a\nb", "url": "http://u:p@a.test/"}]}"#, &[]),
    ];
    for (provider, body, expected) in others {
        assert_eq!(read(provider, 200, body), expected, "{provider}: {body}");
    }
}

#[test]
fn failures_say_what_to_do() {
    for provider in SearchProvider::ALL {
        let name = provider.as_str();
        for (status, body, kind, words) in [
            (401, "{}", "unavailable", "refuses the search with status 401"),
            (403, "<html>", "unavailable", "refuses the search with status 403"),
            (429, "{}", "limit_reached", "takes no more searches now: status 429"),
            (432, "{}", "limit_reached", "takes no more searches now: status 432"),
            (500, "", "execution_failed", "answers with status 500"),
            (301, "", "execution_failed", "answers with status 301"),
            (200, "", "execution_failed", "is empty"),
            (200, "<!doctype html><p>captcha", "execution_failed", "is not JSON"),
            (200, "{\"results\": [", "execution_failed", "is not JSON"),
            (200, "7", "execution_failed", "has no list of results"),
            (200, "\"text\"", "execution_failed", "has no list of results"),
        ] {
            let told = read(provider, status, body);
            let [told] = told.as_slice() else { panic!("{name} {status} {body}: {told:?}") };
            assert!(told.starts_with(&format!("{kind}: ")), "{name} {status} {body}: {told}");
            assert!(told.contains(name) && told.contains(words), "{name} {status} {body}: {told}");
        }
        let failed = results(provider, &response(401, ""), &asked()).expect_err("an error");
        assert!(failed.hint.is_some(), "{name}");
    }
    let any = SearchQuery { wants_list: false, ..asked() };
    let odd = response(200, r#"{"hits": [1]}"#);
    assert_eq!(results(SearchProvider::Endpoint, &odd, &any).expect("no list"), []);
    let deep = "[".repeat(100_000);
    assert!(read(SearchProvider::Endpoint, 200, &deep)[0].contains("is not JSON"));
    let cut = WebResponse { is_cut: true, ..response(200, "[]") };
    let told = results(SearchProvider::Endpoint, &cut, &asked()).expect_err("an error").message;
    assert!(told.contains("larger than 2097152 bytes"), "{told}");
}

#[test]
fn results_are_bounded() {
    let row =
        |url: &str| json!({ "title": "é".repeat(400), "url": url, "content": "é".repeat(4_000) });
    let long = format!("http://a.test/{}", "x".repeat(3_000));
    let answer = json!([row("http://a.test/"), row(&long)]).to_string();
    let found =
        results(SearchProvider::Endpoint, &response(200, &answer), &asked()).expect("results");
    let [one] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.title.len(), one.content.len()), (MAX_TITLE, MAX_CONTENT));
}

fn claim(provider: Option<&str>, choice: ProviderChoice) -> SearchClaim {
    SearchClaim { argument: "provider", provider: provider.map(str::to_owned), choice }
}

#[test]
fn a_provider_is_found_by_name_then_by_key() {
    use ProviderChoice::*;
    let own = |at: &str| Some(format!("http://127.0.0.1:8888/{at}"));
    let key = || Some(ApiKey::new(String::from("secret")));
    let nothing = SearchSettings::default;
    let brave = || SearchSettings { brave_key: key(), ..nothing() };
    let both = || SearchSettings { tavily_key: key(), ..brave() };
    let searxng = || SearchSettings { searxng: own("s/"), ..nothing() };
    let endpoint = || SearchSettings { endpoint: own("api"), ..nothing() };
    let prefers = SearchSettings { provider: Some(SearchProvider::Brave), ..both() };
    let lacks = SearchSettings { provider: Some(SearchProvider::Brave), ..nothing() };
    for (settings, provider, choice, expected) in [
        (nothing(), None, Named, "duckduckgo at api.duckduckgo.com:443"),
        (brave(), None, Named, "brave at api.search.brave.com:443"),
        (both(), None, Named, "tavily at api.tavily.com:443"),
        (both(), Some("brave"), Named, "brave at api.search.brave.com:443"),
        (both(), Some("duckduckgo"), Named, "duckduckgo at api.duckduckgo.com:443"),
        (prefers.clone(), None, Named, "brave at api.search.brave.com:443"),
        (prefers, Some("tavily"), Named, "tavily at api.tavily.com:443"),
        (searxng(), None, Named, "searxng at 127.0.0.1:8888"),
        (SearchSettings { searxng: own("s"), ..both() }, None, Named, "searxng at"),
        (endpoint(), None, Named, "endpoint at 127.0.0.1:8888"),
        (nothing(), Some("tavily"), Named, "`TAVILY_API_KEY` is not set"),
        (nothing(), Some("brave"), Named, "`BRAVE_API_KEY` is not set"),
        (nothing(), Some("searxng"), Named, "`tools.web_search.searxng` is not set"),
        (nothing(), Some("endpoint"), Named, "`tools.web_search.endpoint` is not set"),
        (nothing(), Some("google"), Named, "must be one of `searxng`, `endpoint`"),
        (lacks.clone(), None, Named, "`BRAVE_API_KEY` is not set"),
        (lacks, None, Fallback, "duckduckgo at api.duckduckgo.com:443"),
        (nothing(), Some("tavily"), Fallback, "duckduckgo at api.duckduckgo.com:443"),
        (brave(), Some("tavily"), Fallback, "duckduckgo at api.duckduckgo.com:443"),
        (brave(), Some("google"), Fallback, "duckduckgo at api.duckduckgo.com:443"),
        (brave(), None, Fallback, "brave at api.search.brave.com:443"),
        (endpoint(), None, Endpoint, "endpoint at 127.0.0.1:8888"),
        (both(), None, Endpoint, "nothing"),
    ] {
        let searcher = Searcher::new(settings, Arc::new(NoNames), Proxies::default());
        let told = match searcher.target(&claim(provider, choice)) {
            Ok(SearchTarget::Provider(provider, host)) => format!("{provider} at {host}"),
            Ok(SearchTarget::NoEndpoint) => String::from("nothing"),
            Err(error) => error.message.into_owned(),
        };
        assert!(told.contains(expected), "{provider:?} {choice}: {told}, not {expected}");
    }
}

#[test]
fn requests_have_what_their_provider_wants() {
    let settings = SearchSettings {
        tavily_key: Some(ApiKey::new(String::from("tvly-1"))),
        brave_key: Some(ApiKey::new(String::from("brave-1"))),
        searxng: Some(String::from("https://s.test/searx/")),
        endpoint: Some(String::from("https://e.test/api?x=1")),
        ..SearchSettings::default()
    };
    assert!(!format!("{settings:?}").contains("-1"), "{settings:?}");
    let broken = ApiKey::new(String::from("a\nb"));
    let broken = SearchSettings { brave_key: Some(broken), ..SearchSettings::default() };
    let told = Searcher::new(broken, Arc::new(NoNames), Proxies::default())
        .request(SearchProvider::Brave, &asked());
    assert!(told.expect_err("an error").message.contains("`BRAVE_API_KEY`"));
    let searcher = Searcher::new(settings, Arc::new(NoNames), Proxies::default());
    let query = SearchQuery { text: String::from("a+b &c é"), max_results: 7, ..asked() };
    for (provider, url, header) in [
        (SearchProvider::Tavily, "https://api.tavily.com/search", Some("Bearer tvly-1")),
        (
            SearchProvider::Brave,
            "https://api.search.brave.com/res/v1/web/search?q=a%2Bb%20%26c%20%C3%A9&count=7",
            Some("brave-1"),
        ),
        (
            SearchProvider::SearXng,
            "https://s.test/searx/search?q=a%2Bb%20%26c%20%C3%A9&format=json",
            None,
        ),
        (SearchProvider::Endpoint, "https://e.test/api?x=1&q=a%2Bb%20%26c%20%C3%A9&count=7", None),
        (
            SearchProvider::DuckDuckGo,
            "https://api.duckduckgo.com/?q=a%2Bb%20%26c%20%C3%A9&format=json&no_html=1&no_redirect=1",
            None,
        ),
    ] {
        let (address, request) = searcher.request(provider, &query).expect("a request");
        assert!(!format!("{request:?}").contains("-1"), "{request:?}");
        assert_eq!(address.as_str(), url);
        assert_eq!(request.headers.first().map(|(_, value)| value.as_str()), header, "{provider}");
        let body = request.body.map(|body| String::from_utf8(body).expect("text"));
        let sent = (provider == SearchProvider::Tavily)
            .then_some(r#"{"query":"a+b &c é","max_results":7}"#);
        assert_eq!(body.as_deref(), sent, "{provider}");
    }
}

/// Knows no name.
#[derive(Debug)]
struct NoNames;

impl Resolve for NoNames {
    fn resolve(&self, _name: &str) -> BoxFuture<'static, Result<Vec<IpAddr>, ResolveError>> {
        Box::pin(async { Err(ResolveError::NoAddress) })
    }
}

/// A server that gives its answers in turn, the last one again and again; returns its address and what it was asked.
async fn server(answers: &'static [&'static str]) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4_096];
            let n = stream.read(&mut head).await.expect("a request");
            let line = String::from_utf8_lossy(&head[..n]).lines().next().unwrap_or("").to_owned();
            let at = {
                let mut kept = kept.lock().expect("a lock");
                kept.push(line);
                (kept.len() - 1).min(answers.len() - 1)
            };
            match answers[at] {
                "silence" => sleep(Duration::from_secs(60)).await,
                answer => stream.write_all(answer.as_bytes()).await.expect("an answer"),
            }
        }
    });
    (address, asked)
}

const FOUND: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n[{\"url\":\"http://a.test/\"},{\"url\":\"http://b.test/\"}]";
const BUSY: &str = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const BUSY_LONG: &str = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3600\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const BUSY_UNTIMED: &str =
    "HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const BUSY_DATED: &str = "HTTP/1.1 429 Too Many Requests\r\nretry-after: Fri, 31 Dec 2027 23:59:59 GMT\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const ELSEWHERE: &str = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.2:9/\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn one_that_is_busy_is_asked_again() {
    for (answers, n_asked, expected) in [
        (&[FOUND][..], 1, Ok(1)),
        (&[BUSY, BUSY, FOUND], 3, Ok(1)),
        (&[BUSY], 3, Err(Kind::LimitReached)),
        (&[BUSY_LONG], 1, Err(Kind::LimitReached)),
        // Longer than the rest of the time, and no number of seconds.
        (&[BUSY_UNTIMED], 1, Err(Kind::LimitReached)),
        (&[BUSY_DATED], 1, Err(Kind::LimitReached)),
        (&[ELSEWHERE], 1, Err(Kind::ExecutionFailed)),
        (&["HTTP/1.1 200 OK\r\n\r\n<html>"], 1, Err(Kind::ExecutionFailed)),
        (&["nothing of HTTP"], 1, Err(Kind::ExecutionFailed)),
        (&["silence"], 1, Err(Kind::Timeout)),
    ] {
        let (address, requests) = server(answers).await;
        let settings = SearchSettings {
            endpoint: Some(address),
            timeout: Duration::from_millis(800),
            ..SearchSettings::default()
        };
        let searcher = Searcher::new(settings, Arc::new(NoNames), Proxies::default());
        let query = SearchQuery { max_results: 1, ..asked() };
        let answer = searcher.search(SearchProvider::Endpoint, &query).await;
        let found = answer.map(|answer| answer.results.len()).map_err(|error| error.kind);
        assert_eq!(found, expected, "{answers:?}");
        assert_eq!(requests.lock().expect("a lock").len(), n_asked, "{answers:?}");
    }
}

#[tokio::test]
async fn only_addresses_of_the_user_are_inside() {
    let settings = SearchSettings {
        endpoint: Some(String::from("http://127.0.0.1:9/")),
        searxng: Some(String::from("http://search.test/")),
        ..SearchSettings::default()
    };
    let searcher = Searcher::new(settings, Arc::new(NoNames), Proxies::default());
    let query = SearchQuery { max_results: 1, ..asked() };
    for (provider, words) in [
        (SearchProvider::Endpoint, "127.0.0.1:9 cannot be reached"),
        (SearchProvider::SearXng, "search.test cannot be resolved"),
        (SearchProvider::Brave, "api.search.brave.com cannot be resolved"),
    ] {
        let told = searcher.search(provider, &query).await.expect_err("an error").message;
        assert!(told.contains(words), "{provider}: {told}");
    }
}

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use sinew_tool::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Resolves names by a list. A name with several lists changes its answer each time.
#[derive(Debug, Default)]
struct Listed {
    names: HashMap<&'static str, Vec<Vec<IpAddr>>>,
    n_asked: AtomicUsize,
}

impl Resolve for Listed {
    fn resolve(&self, name: &str) -> BoxFuture<'static, Result<Vec<IpAddr>, ResolveError>> {
        let asked = self.n_asked.fetch_add(1, Ordering::Relaxed);
        let lists = self.names.get(name.trim_end_matches('.'));
        let found = lists.and_then(|lists| lists.get(asked % lists.len()).cloned());
        Box::pin(async move { found.ok_or(ResolveError::NoAddress) })
    }
}

/// A server on loopback that answers each path in its own way, and keeps what it was asked.
struct Server {
    port: u16,
    asked: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answers: &'static [(&'static str, Sent)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, port, answers, Arc::clone(&kept)));
            }
        });
        Self { port, asked }
    }

    fn n_asked(&self) -> usize {
        self.asked.lock().expect("a lock").len()
    }
}

/// What a server sends for a path.
#[derive(Debug, Clone, Copy)]
enum Sent {
    /// A head and a body; `PORT` becomes the port of the server.
    Page(&'static str, &'static [u8]),
    /// A body of so many zeros, compressed: its length says nothing of that.
    Zeros(usize),
    /// A body without an end, as fast as it is taken.
    Flood,
    /// A header of so many bytes.
    Header(usize),
    /// One byte of the body each 50 ms.
    Drip,
    /// A head, and nothing more.
    Stall,
    /// Nothing at all.
    Silence,
    /// No HTTP.
    Noise,
}

async fn answer(
    mut stream: TcpStream,
    port: u16,
    answers: &[(&str, Sent)],
    asked: Arc<std::sync::Mutex<Vec<String>>>,
) {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => head.extend_from_slice(&buffer[..n]),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).expect("a path").to_owned();
    asked.lock().expect("a lock").push(head);
    let sent = answers.iter().find(|(known, _)| *known == path);
    let sent = sent.map_or(Sent::Page("404 Not Found", b"no"), |(_, sent)| *sent);
    let _ = send(&mut stream, port, sent).await;
}

async fn send(stream: &mut TcpStream, port: u16, sent: Sent) -> std::io::Result<()> {
    match sent {
        Sent::Page(head, body) => {
            let head = head.replace("PORT", &port.to_string());
            let head = format!(
                "HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(&[head.as_bytes(), body].concat()).await
        }
        Sent::Zeros(n) => {
            stream
                .write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n",
                )
                .await?;
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, &vec![0; n])?;
            stream.write_all(&encoder.finish()?).await
        }
        Sent::Flood => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await?;
            loop {
                stream.write_all(&[b'x'; 65_536]).await?;
            }
        }
        Sent::Header(n) => {
            let head =
                format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "x".repeat(n));
            stream.write_all(head.as_bytes()).await
        }
        Sent::Drip => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Sent::Stall | Sent::Silence => {
            if matches!(sent, Sent::Stall) {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await?;
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(())
        }
        Sent::Noise => stream.write_all(b"SSH-2.0-x\r\n\r\n").await,
    }
}

fn request() -> WebRequest {
    let method = String::from("GET");
    WebRequest { method, headers: Vec::new(), body: None, max_bytes: 1_000_000 }
}

fn settings(allowed: &[String]) -> FetchSettings {
    let names = HashMap::from([
        ("localhost", vec![vec!["127.0.0.1".parse().unwrap()]]),
        ("a.localhost", vec![vec!["127.0.0.1".parse().unwrap()]]),
        ("inside.test", vec![vec!["127.0.0.1".parse().unwrap()]]),
        ("both.test", vec![vec!["93.184.216.34".parse().unwrap(), "127.0.0.1".parse().unwrap()]]),
        ("metadata.test", vec![vec!["169.254.169.254".parse().unwrap()]]),
        ("mapped.test", vec![vec!["::ffff:127.0.0.1".parse().unwrap()]]),
    ]);
    FetchSettings {
        allowed: allowed.iter().map(|host| HostPattern::parse(host).expect(host)).collect(),
        resolver: Arc::new(Listed { names, n_asked: AtomicUsize::new(0) }),
        cache: Duration::ZERO,
        timeout: Duration::from_secs(2),
        idle_timeout: Duration::from_millis(400),
        ..FetchSettings::default()
    }
}

async fn fetch(
    fetcher: &Fetcher,
    url: &str,
    request: WebRequest,
) -> Result<WebResponse, ToolError> {
    let address = WebAddress::parse(url)
        .map_err(|why| ToolError::new(Kind::InvalidArgs, format!("cannot be fetched: {why}")))?;
    fetcher.fetch(address, request, &|_, _| Ok(())).await
}

const PAGES: &[(&str, Sent)] = &[
    ("/plain", Sent::Page("200 OK\r\ncontent-type: text/plain", b"hello")),
    ("/secret", Sent::Page("200 OK\r\ncache-control: private, no-store", b"s")),
    ("/moved", Sent::Page("301 Moved\r\nlocation: /plain", b"")),
    ("/away", Sent::Page("302 Found\r\nlocation: http://inside.test:PORT/plain", b"")),
    ("/metadata", Sent::Page("302 Found\r\nlocation: http://metadata.test/latest", b"")),
    ("/literal", Sent::Page("302 Found\r\nlocation: http://127.1:1/", b"")),
    ("/file", Sent::Page("302 Found\r\nlocation: file:///etc/passwd", b"")),
    ("/user", Sent::Page("302 Found\r\nlocation: http://a:b@127.0.0.1:PORT/plain", b"")),
    ("/itself", Sent::Page("302 Found\r\nlocation: /itself", b"")),
    ("/a", Sent::Page("302 Found\r\nlocation: /b", b"")),
    ("/b", Sent::Page("302 Found\r\nlocation: /a", b"")),
    ("/nowhere", Sent::Page("302 Found", b"here")),
    ("/keep", Sent::Page("307 Keep\r\nlocation: http://localhost:PORT/plain", b"")),
    ("/see", Sent::Page("303 See\r\nlocation: http://localhost:PORT/plain", b"")),
    ("/zeros", Sent::Zeros(8_000_000)),
    ("/flood", Sent::Flood),
    ("/header", Sent::Header(5_000_000)),
    ("/drip", Sent::Drip),
    ("/stall", Sent::Stall),
    ("/silence", Sent::Silence),
    ("/noise", Sent::Noise),
    ("/broken", Sent::Page("200 OK\r\ncontent-encoding: gzip", b"no gzip")),
];

#[tokio::test]
async fn answers_are_bounded() {
    let server = Server::start(PAGES).await;
    let fetcher = Fetcher::new(settings(&[format!("127.0.0.1:{}", server.port)]));
    for (path, expected) in [
        ("/plain", Ok((200, 5, false))),
        ("/missing", Ok((404, 2, false))),
        ("/moved", Ok((200, 5, false))),
        ("/nowhere", Ok((302, 4, false))),
        ("/zeros", Ok((200, 1_000_000, true))),
        ("/flood", Ok((200, 1_000_000, true))),
        ("/header", Err((Kind::ExecutionFailed, "cannot be read"))),
        ("/drip", Err((Kind::Timeout, "within 2 s"))),
        ("/stall", Err((Kind::Timeout, "sent nothing for 0.4 s"))),
        ("/silence", Err((Kind::Timeout, "sent nothing for 0.4 s"))),
        ("/noise", Err((Kind::ExecutionFailed, "cannot be read"))),
        ("/broken", Err((Kind::ExecutionFailed, "cannot be read"))),
        ("/itself", Err((Kind::ExecutionFailed, "redirects to itself"))),
        ("/a", Err((Kind::ExecutionFailed, "redirects to itself"))),
        ("/away", Err((Kind::PolicyDenied, "it leads to this host"))),
        ("/metadata", Err((Kind::PolicyDenied, "a cloud provider's metadata service"))),
        ("/literal", Err((Kind::PolicyDenied, "127.0.0.1:1 is not public"))),
        ("/file", Err((Kind::ExecutionFailed, "only `http` and `https`"))),
        ("/user", Err((Kind::ExecutionFailed, "no user name"))),
    ] {
        let begun = Instant::now();
        let url = format!("http://127.0.0.1:{}{path}", server.port);
        let fetched = fetch(&fetcher, &url, request()).await;
        assert!(begun.elapsed() < Duration::from_secs(5), "{path}");
        match (&fetched, expected) {
            (Ok(page), Ok(expected)) => {
                assert_eq!((page.status, page.body.len(), page.is_cut), expected, "{path}");
            }
            (Err(error), Err((kind, words))) => {
                assert_eq!(error.kind, kind, "{path}: {error}");
                assert!(error.message.contains(words), "{path}: {error}");
            }
            _ => panic!("{path}: {fetched:?}"),
        }
    }
}

/// A client that follows redirects as usual is the control: it reaches the canary.
#[tokio::test]
async fn no_way_leads_to_a_canary() {
    let canary = Server::start(&[("/plain", Sent::Page("200 OK", b"canary"))]).await;
    let moved: &'static str =
        format!("302 Found\r\nlocation: http://127.0.0.1:{}/plain", canary.port).leak();
    let pages: &'static [(&'static str, Sent)] = vec![("/moved", Sent::Page(moved, b""))].leak();
    let server = Server::start(pages).await;
    let control = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = format!("http://127.0.0.1:{}/moved", server.port);
    let reached = control.get(&url).send().await.expect("an answer").text().await.expect("a text");
    assert_eq!((reached.as_str(), canary.n_asked()), ("canary", 1));

    let fetcher = Fetcher::new(settings(&[format!("127.0.0.1:{}", server.port)]));
    let port = canary.port;
    for url in [
        url,
        format!("http://127.0.0.1:{port}/plain"),
        format!("http://127.1:{port}/plain"),
        format!("http://2130706433:{port}/plain"),
        format!("http://0x7f.0.0.1:{port}/plain"),
        format!("http://0177.0.0.1:{port}/plain"),
        format!("http://[::ffff:127.0.0.1]:{port}/plain"),
        format!("http://[::1]:{port}/plain"),
        format!("http://0.0.0.0:{port}/plain"),
        format!("http://localhost:{port}/plain"),
        format!("http://LOCALHOST.:{port}/plain"),
        format!("http://a.localhost:{port}/plain"),
        format!("http://１２７.0.0.1:{port}/plain"),
        format!("http://inside.test:{port}/plain"),
        format!("http://both.test:{port}/plain"),
        format!("http://mapped.test:{port}/plain"),
        format!("http://127.0.0.1:{port}\\@example.com/plain"),
        format!("http://example.com@127.0.0.1:{port}/plain"),
        format!("http://127.0.0.1\u{0}:{port}/plain"),
        format!("http://127.0.0.1\r\n:{port}/plain"),
        format!("http://[::1%25lo]:{port}/plain"),
    ] {
        let fetched = fetch(&fetcher, &url, request()).await;
        let kind = fetched.expect_err("refused").kind;
        assert!(matches!(kind, Kind::PolicyDenied | Kind::InvalidArgs), "{url:?}: {kind}");
        assert_eq!(canary.n_asked(), 1, "{url:?}");
    }
}

#[tokio::test]
async fn other_origins_get_no_credentials() {
    let server = Server::start(PAGES).await;
    let port = server.port;
    let allowed = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let names = HashMap::from([("localhost", vec![vec!["127.0.0.1".parse().unwrap()]])]);
    let resolver = Arc::new(Listed { names, n_asked: AtomicUsize::new(0) });
    let fetcher = Fetcher::new(FetchSettings { resolver, ..settings(&allowed) });
    let headers =
        [("Authorization", "Bearer x"), ("Cookie", "a=b"), ("X-Key", "k"), ("Accept", "text/x")];
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let post = |path: &str, method: &str, body: Option<&[u8]>| {
        let request = WebRequest {
            method: method.to_owned(),
            headers: headers.clone(),
            body: body.map(<[u8]>::to_vec),
            ..request()
        };
        (format!("http://127.0.0.1:{port}{path}"), request)
    };
    for (path, method, body, expected) in [
        ("/moved", "GET", None, Ok(("GET /plain", true))),
        ("/see", "GET", None, Ok(("GET /plain", false))),
        ("/keep", "GET", None, Ok(("GET /plain", false))),
        ("/moved", "POST", Some(&b"body"[..]), Ok(("GET /plain", true))),
        ("/see", "POST", Some(b"body"), Ok(("GET /plain", false))),
        ("/keep", "POST", Some(b"body"), Err("would get its body")),
        ("/keep", "DELETE", None, Err("would get its body")),
        ("/moved", "HEAD", None, Ok(("HEAD /plain", true))),
    ] {
        server.asked.lock().expect("a lock").clear();
        let (url, request) = post(path, method, body);
        let fetched = fetch(&fetcher, &url, request).await;
        let asked = server.asked.lock().expect("a lock").clone();
        assert!(
            asked[0].to_ascii_lowercase().contains("authorization: bearer x"),
            "{path}: {asked:?}"
        );
        match (fetched, expected) {
            (Ok(_), Ok((begins, has_credentials))) => {
                let last = asked.last().expect("a request").to_ascii_lowercase();
                assert!(last.starts_with(&begins.to_ascii_lowercase()), "{path}: {last}");
                for secret in ["authorization", "cookie", "x-key"] {
                    assert_eq!(last.contains(secret), has_credentials, "{path}: {last}");
                }
                assert!(last.contains("accept: text/x"), "{path}: {last}");
            }
            (Err(error), Err(words)) => assert!(error.message.contains(words), "{path}: {error}"),
            (fetched, _) => panic!("{path} {method}: {fetched:?}"),
        }
    }
}

#[tokio::test]
async fn headers_and_methods_that_mislead_are_refused() {
    let server = Server::start(PAGES).await;
    let fetcher = Fetcher::new(settings(&[format!("127.0.0.1:{}", server.port)]));
    let url = format!("http://127.0.0.1:{}/plain", server.port);
    for (method, name, value, problem) in [
        ("GET", "Host", "other.test", "the header `Host` cannot be sent"),
        ("GET", "content-length", "5", "`content-length` cannot be sent"),
        ("GET", "Transfer-Encoding", "chunked", "cannot be sent"),
        ("GET", "X-HTTP-Method-Override", "DELETE", "cannot be sent"),
        ("GET", "Proxy-Authorization", "x", "cannot be sent"),
        ("GET", "a b", "x", "the header `a b` cannot be sent"),
        ("GET", "a", "x\r\nb: y", "the header `a` cannot be sent"),
        ("CONNECT", "a", "x", "`CONNECT` is not a method"),
        ("TRACE", "a", "x", "`TRACE` is not a method"),
        ("G T", "a", "x", "`G T` is not a method"),
    ] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let request = WebRequest { method: method.to_owned(), headers, ..request() };
        let error = fetch(&fetcher, &url, request).await.expect_err(name);
        assert!(error.message.contains(problem), "{method} {name}: {error}");
    }
    assert_eq!(server.n_asked(), 0);
}

#[tokio::test]
async fn each_other_host_is_judged() {
    let server = Server::start(PAGES).await;
    let port = server.port;
    let allowed = [format!("127.0.0.1:{port}"), format!("inside.test:{port}")];
    let fetcher = Fetcher::new(settings(&allowed));
    for (path, refused, expected) in [
        ("/moved", true, Vec::new()),
        ("/away", false, vec!["inside.test"]),
        ("/away", true, vec!["inside.test"]),
    ] {
        let address =
            WebAddress::parse(&format!("http://127.0.0.1:{port}{path}")).expect("an address");
        let judged = Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = Arc::clone(&judged);
        let judge = move |address: &WebAddress, _: &Method| {
            kept.lock().expect("a lock").push(address.host().name().to_owned());
            if refused { Err(ToolError::new(Kind::PolicyDenied, "no")) } else { Ok(()) }
        };
        let before = server.n_asked();
        let fetched = fetcher.fetch(address, request(), &judge).await;
        assert_eq!(*judged.lock().expect("a lock"), expected, "{path}");
        let is_refused = refused && !expected.is_empty();
        assert_eq!(fetched.is_err(), is_refused, "{path}: {fetched:?}");
        assert_eq!(server.n_asked() - before, if is_refused { 1 } else { 2 }, "{path}");
    }
}

#[tokio::test]
async fn young_answers_are_reused() {
    let server = Server::start(PAGES).await;
    let port = server.port;
    let allowed = [format!("127.0.0.1:{port}"), format!("inside.test:{port}")];
    let cache = Duration::from_secs(60);
    let fetcher = Fetcher::new(FetchSettings { cache, ..settings(&allowed) });
    for (path, more, expected) in [
        ("/plain", request(), [1, 1]),
        ("/plain", WebRequest { max_bytes: 3, ..request() }, [1, 2]),
        (
            "/plain",
            WebRequest { headers: vec![("Accept".into(), "x".into())], ..request() },
            [1, 2],
        ),
        ("/plain", WebRequest { method: "HEAD".into(), ..request() }, [1, 2]),
        ("/moved", request(), [2, 2]),
        ("/missing", request(), [1, 2]),
        ("/secret", request(), [1, 2]),
    ] {
        let before = server.n_asked();
        let url = format!("http://127.0.0.1:{port}{path}");
        let mut boundaries = Vec::new();
        for n in expected {
            let fetched = fetch(&fetcher, &url, more.clone()).await.expect("a page");
            boundaries.push(fetched.boundary);
            assert_eq!(server.n_asked() - before, n, "{path} {more:?}");
        }
        assert_ne!(boundaries[0], boundaries[1]);
    }
    // Rules of another caller are asked about where it led.
    let url = format!("http://127.0.0.1:{port}/away");
    assert!(fetch(&fetcher, &url, request()).await.is_ok());
    let address = WebAddress::parse(&url).expect("an address");
    let refuse = |_: &WebAddress, _: &Method| Err(ToolError::new(Kind::PolicyDenied, "no"));
    assert!(fetcher.fetch(address, request(), &refuse).await.is_err());
}

#[test]
fn addresses_are_parsed_once() {
    for (text, expected) in [
        ("https://Example.com/a?b#c", Ok("example.com:443")),
        ("http://example.com.:8080", Ok("example.com:8080")),
        ("http://bücher.de", Ok("xn--bcher-kva.de:80")),
        ("http://[2001:db8::1]/", Ok("[2001:db8::1]:80")),
        ("http://0x7f.1/", Ok("127.0.0.1:80")),
        ("ftp://example.com", Err("not `ftp`")),
        ("javascript:alert(1)", Err("not `javascript`")),
        ("file:///etc/passwd", Err("not `file`")),
        ("data:text/plain,x", Err("not `data`")),
        ("//example.com", Err("relative URL")),
        ("", Err("relative URL")),
        ("http://", Err("empty host")),
        ("http://user@example.com", Err("no user name")),
        ("http://:pass@example.com", Err("no user name")),
        ("http://example.com:99999", Err("invalid port")),
        ("http://a b/", Err("must not hold ` `")),
        ("http://example.com/\r\nX: y", Err("must not hold `\\r`")),
        ("http://example.com\\@inside/", Err("must not hold `\\\\`")),
        ("http://[fe80::1%25eth0]/", Err("invalid IPv6")),
        ("http://exa\u{0}mple.com", Err("must not hold `\\0`")),
        ("http://999.1.1.1/", Err("invalid IPv4")),
        ("http://example.com../", Err("an empty label")),
        ("http://.example.com/", Err("an empty label")),
        ("http://a..example.com/", Err("an empty label")),
    ] {
        match (WebAddress::parse(text), expected) {
            (Ok(address), Ok(host)) => assert_eq!(address.host().to_string(), host, "{text}"),
            (Err(why), Err(words)) => assert!(why.contains(words), "{text}: {why}"),
            (parsed, _) => panic!("{text}: {parsed:?}"),
        }
    }
    let long = format!("http://example.com/{}", "x".repeat(MAX_URL));
    assert!(WebAddress::parse(&long).is_err());
}

//! The one request that a browser of the user sends to this machine at the end of a sign-in (RFC 8252, 7.3).

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// How long a connection may take to send its request.
const SENDS: Duration = Duration::from_secs(5);
/// The path that is answered.
const PATH: &str = "/callback";

/// Waits on loopback for the address to which a browser is led.
#[derive(Debug)]
pub struct CallbackListener {
    listener: TcpListener,
    address: String,
}

impl CallbackListener {
    /// Listens on this port of 127.0.0.1, or on a free one.
    pub async fn bind(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let address = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Self { listener, address })
    }

    /// Returns the address to which the browser must be led.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the first address of a request that has a query. Other requests are answered and passed over.
    pub async fn wait(&self) -> io::Result<String> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if let Ok(Some(query)) = timeout(SENDS, answered(stream)).await {
                return Ok(format!("{}?{query}", self.address));
            }
        }
    }
}

/// Reads a request and answers it; returns the query of one that a sign-in leads to.
async fn answered(mut stream: TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let n = stream.read(&mut part).await.ok().filter(|n| *n != 0)?;
        head.extend_from_slice(part.get(..n)?);
        if MAX_HEAD < head.len() {
            return None;
        }
    }
    let query = query_of(&head);
    let (status, text) = match query {
        Some(_) => (
            "200 OK",
            "sinew has the answer. You can close this page; the terminal says how it ended.\n",
        ),
        None => ("404 Not Found", "Nothing is here.\n"),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    query
}

fn query_of(head: &[u8]) -> Option<String> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let target = words.next().filter(|method| *method == "GET").and(words.next())?;
    let (path, query) = target.split_once('?')?;
    (path == PATH && !query.is_empty()).then(|| query.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_get_of_the_path_with_a_query_counts() {
        for (head, expected) in [
            ("GET /callback?code=a&state=b HTTP/1.1\r\nHost: x\r\n\r\n", Some("code=a&state=b")),
            ("GET /callback HTTP/1.1\r\n\r\n", None),
            ("GET /callback? HTTP/1.1\r\n\r\n", None),
            ("GET /favicon.ico?x HTTP/1.1\r\n\r\n", None),
            ("POST /callback?code=a HTTP/1.1\r\n\r\n", None),
            ("", None),
        ] {
            assert_eq!(query_of(head.as_bytes()).as_deref(), expected, "{head}");
        }
    }
}

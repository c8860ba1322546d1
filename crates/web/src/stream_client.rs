//! HTTP client of one API whose answers stream, such as that of a model.

use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Response};

use crate::http::{HttpAddress, words};
use crate::server_client::server_client;

/// Sends requests to one address.
#[derive(Debug, Clone)]
pub struct StreamClient {
    address: HttpAddress,
    client: Client,
}

impl StreamClient {
    /// Creates a client that reaches the server of this address alone, as [`server_client`] does; sends nothing yet.
    pub fn new(address: HttpAddress) -> Result<Self, String> {
        let client = server_client(&address)?;
        Ok(Self { address, client })
    }

    /// Sends a body of JSON. Returns once the head of the answer is there, of any status; the error says in words why
    /// there is none, and shows neither address nor headers.
    pub async fn post(
        &self,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<StreamAnswer, String> {
        let mut request = self.client.post(self.address.as_str()).body(body);
        request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            let mut value = HeaderValue::from_str(value).map_err(|_| {
                format!("the header `{name}` cannot be sent: its value has control characters")
            })?;
            value.set_sensitive(true);
            request = request.header(HeaderName::from_static(name), value);
        }
        request.send().await.map(StreamAnswer).map_err(|error| words(&error.without_url()))
    }
}

/// An answer whose body streams. Dropping it closes the connection.
#[derive(Debug)]
pub struct StreamAnswer(Response);

impl StreamAnswer {
    /// Returns the HTTP status.
    pub fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    /// Returns a header that is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.headers().get(name)?.to_str().ok()
    }

    /// Returns the next bytes as they arrive, `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, String> {
        let chunk = self.0.chunk().await.map_err(|error| words(&error.without_url()))?;
        Ok(chunk.map(Vec::from))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nretry-after: 7\r\n\r\none";

    async fn listen() -> (TcpListener, StreamClient) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1/x?key=in-the-url", listener.local_addr().expect("one"));
        let client = StreamClient::new(HttpAddress::parse(&url).expect("an address"));
        (listener, client.expect("a client"))
    }

    /// Reads a request whose body is `{}`.
    async fn requested(listener: &TcpListener) -> (TcpStream, String) {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut request = Vec::new();
        while !request.ends_with(b"{}") {
            let n = stream.read_buf(&mut request).await.expect("a request");
            assert_ne!(n, 0, "{request:?}");
        }
        (stream, String::from_utf8(request).expect("text"))
    }

    #[tokio::test]
    async fn answer_streams_while_it_is_sent() {
        let (listener, client) = listen().await;
        let headers = [("authorization", String::from("Bearer k"))];
        let (answer, (mut stream, request)) =
            tokio::join!(client.post(&headers, b"{}".to_vec()), async {
                let (mut stream, request) = requested(&listener).await;
                stream.write_all(HEAD).await.expect("a head");
                (stream, request)
            });
        for part in [
            "POST /v1/x?key=in-the-url ",
            "authorization: Bearer k",
            "content-type: application/json",
        ] {
            assert!(request.contains(part), "{part} in {request}");
        }
        let mut answer = answer.expect("an answer");
        assert_eq!((answer.status(), answer.header("retry-after")), (200, Some("7")));
        assert_eq!(answer.chunk().await, Ok(Some(b"one".to_vec())));
        stream.write_all(b"two").await.expect("the rest");
        assert_eq!(answer.chunk().await, Ok(Some(b"two".to_vec())));
        assert_eq!(answer.chunk().await, Ok(None));
    }

    #[tokio::test]
    async fn redirect_leads_nowhere_else() {
        let (listener, client) = listen().await;
        let (other, _) = listen().await;
        let place = other.local_addr().expect("one");
        let head =
            format!("HTTP/1.1 307 Moved\r\nlocation: http://{place}/\r\ncontent-length: 0\r\n\r\n");
        let (answer, _stream) = tokio::join!(client.post(&[], b"{}".to_vec()), async {
            let (mut stream, _) = requested(&listener).await;
            stream.write_all(head.as_bytes()).await.expect("a head");
            stream
        });
        assert_eq!(answer.map(|answer| answer.status()), Ok(307));
    }

    #[tokio::test]
    async fn errors_show_no_address_and_no_header() {
        let (listener, client) = listen().await;
        let headers = [("authorization", String::from("Bearer\nk"))];
        let refused = client.post(&headers, b"{}".to_vec()).await.expect_err("a control character");
        assert_eq!(
            refused,
            "the header `authorization` cannot be sent: its value has control characters"
        );
        let (broken, ()) = tokio::join!(client.post(&[], b"{}".to_vec()), async {
            drop(requested(&listener).await);
        });
        drop(listener);
        let gone = client.post(&[], b"{}".to_vec()).await.map(|answer| answer.status());
        for error in [broken.map(|answer| answer.status()), gone] {
            let error = error.expect_err("no server");
            assert!(!error.contains("in-the-url") && !error.is_empty(), "{error}");
        }
    }
}

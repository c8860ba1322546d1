use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Answers in the shapes that the pages of the services show.
const TELEGRAM_SENT: &str = r#"{"ok":true,"result":{"message_id":7,"from":{"id":1,"is_bot":true,"first_name":"b"},
  "chat":{"id":42,"type":"private"},"date":1700000000,"text":"hi"}}"#;
const SLACK_SENT: &str = r#"{"ok":true,"channel":"C123456","ts":"1503435956.000247",
  "message":{"text":"hi","username":"b","bot_id":"B1","type":"message","subtype":"bot_message"}}"#;
const DISCORD_SENT: &str = r#"{"id":"334385199974967042","type":0,"content":"hi","channel_id":"290926798999357250",
  "author":{"id":"1","username":"b"},"mentions":[],"timestamp":"2017-07-11T17:27:07.299000+00:00"}"#;

fn channel(kind: ChannelKind, address: &str) -> Channel {
    Channel {
        kind,
        address: HttpAddress::parse(address).expect("an address"),
        token: Some(ApiKey::new(String::from("t0ken"))),
        timeout: Duration::from_secs(20),
    }
}

fn outbound(chat: &str) -> ChannelMessage<'_> {
    ChannelMessage { session: "s", call_id: "s-1", channel: "ops", chat, content: "hi" }
}

/// Reads one request: its head, and its body as JSON.
async fn requested(stream: &mut TcpStream) -> (String, Value) {
    let mut request = Vec::new();
    loop {
        let n = stream.read_buf(&mut request).await.expect("a request");
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return (head.to_owned(), body);
        }
        assert_ne!(n, 0, "{text}");
    }
}

/// Sends a message to a server that answers so. Returns the result, and the request.
async fn sent(
    kind: ChannelKind,
    chat: &str,
    status: &str,
    headers: &str,
    body: &str,
) -> (Result<(), ChannelError>, String, Value) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}/base", listener.local_addr().expect("one"));
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    let client = HttpClient::default();
    let (channel, outbound) = (channel(kind, &address), outbound(chat));
    let (result, (head, body)) = tokio::join!(send(&client, &channel, &outbound), async {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let request = requested(&mut stream).await;
        stream.write_all(answer.as_bytes()).await.expect("an answer");
        request
    });
    (result, head, body)
}

#[tokio::test]
async fn requests_are_those_of_each_api() {
    let mentions = json!({ "parse": [] });
    for (kind, chat, answer, line, header, expected) in [
        (
            ChannelKind::Telegram,
            "42",
            TELEGRAM_SENT,
            "POST /base/bott0ken/sendMessage HTTP/1.1",
            None,
            json!({ "chat_id": "42", "text": "hi" }),
        ),
        (
            ChannelKind::Slack,
            "C123456",
            SLACK_SENT,
            "POST /base/chat.postMessage HTTP/1.1",
            Some("authorization: Bearer t0ken"),
            json!({ "channel": "C123456", "text": "hi" }),
        ),
        (
            ChannelKind::Discord,
            "290926798999357250",
            DISCORD_SENT,
            "POST /base/channels/290926798999357250/messages HTTP/1.1",
            Some("authorization: Bot t0ken"),
            json!({ "content": "hi", "allowed_mentions": mentions }),
        ),
        (
            ChannelKind::Webhook,
            "anyone",
            "",
            "POST /base HTTP/1.1",
            Some("idempotency-key: s/s-1"),
            json!({
                "type": "message", "session": "s", "call_id": "s-1", "channel": "ops",
                "chat_id": "anyone", "content": "hi",
            }),
        ),
    ] {
        let (result, head, body) = sent(kind, chat, "200 OK", "", answer).await;
        assert_eq!(result, Ok(()), "{kind}");
        assert!(head.starts_with(line), "{head}");
        assert!(header.is_none_or(|header| head.contains(header)), "{head}");
        assert_eq!(body, expected, "{kind}");
    }
}

/// Sends messages to a service that answers so, and compares the errors.
async fn check(kind: ChannelKind, answers: &[(&str, &str, &str, ChannelError)]) {
    for (status, headers, body, expected) in answers {
        let (result, ..) = sent(kind, "1", status, headers, body).await;
        assert_eq!(result.as_ref(), Err(expected), "{kind} {status} {body}");
    }
}

fn limited(s: u64) -> ChannelError {
    ChannelError::RateLimited(Some(Duration::from_secs(s)))
}

fn token(words: &str) -> ChannelError {
    ChannelError::WrongToken(words.to_owned())
}

fn chat(words: &str) -> ChannelError {
    ChannelError::UnknownChat(words.to_owned())
}

fn long(words: &str) -> ChannelError {
    ChannelError::TooLong(words.to_owned())
}

fn refused(words: &str) -> ChannelError {
    ChannelError::Refused(words.to_owned())
}

fn unanswered(words: &str) -> ChannelError {
    ChannelError::Unanswered(words.to_owned())
}

#[tokio::test]
async fn telegram_errors_are_typed() {
    let said = |words: &str| format!(r#"{{"ok":false,"error_code":400,"description":"{words}"}}"#);
    let flood = r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 5",
      "parameters":{"retry_after":5}}"#;
    let (no_chat, too_long) = ("Bad Request: chat not found", "Bad Request: message is too long");
    let blocked = "Forbidden: bot was blocked by the user";
    let bad = "400 Bad Request";
    check(
        ChannelKind::Telegram,
        &[
            ("429 Too Many Requests", "", flood, limited(5)),
            ("401 Unauthorized", "", &said("Unauthorized"), token("Unauthorized")),
            ("404 Not Found", "", &said("Not Found"), token("Not Found")),
            (bad, "", &said(no_chat), chat(no_chat)),
            ("403 Forbidden", "", &said(blocked), chat(blocked)),
            (bad, "", &said(too_long), long(too_long)),
            (bad, "", &said("Bad Request: x"), refused("Bad Request: x")),
            ("200 OK", "", "<html>", unanswered("the answer is not in the form of Telegram")),
        ],
    )
    .await;
}

#[tokio::test]
async fn slack_errors_are_typed() {
    let said = |words: &str| format!(r#"{{"ok":false,"error":"{words}"}}"#);
    let (flood, ok) = (said("ratelimited"), "200 OK");
    check(
        ChannelKind::Slack,
        &[
            ("429 Too Many Requests", "retry-after: 30\r\n", &flood, limited(30)),
            (ok, "", &flood, ChannelError::RateLimited(None)),
            (ok, "", &said("invalid_auth"), token("invalid_auth")),
            (ok, "", &said("channel_not_found"), chat("channel_not_found")),
            (ok, "", &said("not_in_channel"), chat("not_in_channel")),
            (ok, "", &said("msg_too_long"), long("msg_too_long")),
            (ok, "", &said("no_text"), refused("no_text")),
            ("503 Service Unavailable", "", "", unanswered("status 503")),
        ],
    )
    .await;
}

#[tokio::test]
async fn discord_errors_are_typed() {
    let said = |code: u32, words: &str| format!(r#"{{"message":"{words}","code":{code}}}"#);
    let flood = r#"{"message":"You are being rate limited.","retry_after":2.0,"global":false}"#;
    let too_long = r#"{"message":"Invalid Form Body","code":50035,"errors":{"content":{"_errors":[
      {"code":"BASE_TYPE_MAX_LENGTH","message":"Must be 2000 or fewer in length."}]}}}"#;
    let (unauthorized, empty) = ("401: Unauthorized", "Cannot send an empty message");
    let (unknown, access) = ("Unknown Channel", "Missing Access");
    check(
        ChannelKind::Discord,
        &[
            ("429 Too Many Requests", "retry-after: 65\r\n", flood, limited(2)),
            ("401 Unauthorized", "", &said(0, unauthorized), token(unauthorized)),
            ("404 Not Found", "", &said(10_003, unknown), chat(unknown)),
            ("403 Forbidden", "", &said(50_001, access), chat(access)),
            ("400 Bad Request", "", too_long, long("Invalid Form Body")),
            ("400 Bad Request", "", &said(50_006, empty), refused(empty)),
        ],
    )
    .await;
}

#[tokio::test]
async fn webhook_errors_are_typed() {
    let odd = r#"{"error":"a\u0007b\nc"}"#;
    check(
        ChannelKind::Webhook,
        &[
            ("429 Too Many Requests", "retry-after: 7\r\n", "", limited(7)),
            ("401 Unauthorized", "", "", token("status 401")),
            ("410 Gone", "", "", chat("status 410")),
            ("413 Content Too Large", "", "", long("status 413")),
            ("400 Bad Request", "", odd, refused("a\\u{7}b\\nc")),
            ("307 Temporary Redirect", "location: /other\r\n", "", refused("status 307")),
            ("500 Internal Server Error", "", "", unanswered("status 500")),
        ],
    )
    .await;
}

#[tokio::test]
async fn server_that_never_answers_leaves_a_doubt() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}/t0ken", listener.local_addr().expect("one"));
    let slow =
        Channel { timeout: Duration::from_millis(200), ..channel(ChannelKind::Webhook, &address) };
    let client = HttpClient::default();
    let error = send(&client, &slow, &outbound("x")).await.expect_err("no answer");
    assert_eq!(error, ChannelError::TimedOut(Duration::from_millis(200)));
    assert!(error.is_uncertain(), "{error}");
    let (mut first, _) = listener.accept().await.expect("the slow one");
    requested(&mut first).await;
    // The server hangs up after the request: the message may have arrived, and it is not sent again.
    let (broken, ()) = tokio::join!(
        async {
            let channel = channel(ChannelKind::Webhook, &address);
            send(&client, &channel, &outbound("x")).await
        },
        async {
            let (mut stream, _) = listener.accept().await.expect("a client");
            requested(&mut stream).await;
        }
    );
    let error = broken.expect_err("no answer");
    assert!(error.is_uncertain() && !error.to_string().contains("t0ken"), "{error}");
    drop(listener);
    let error = send(&client, &channel(ChannelKind::Webhook, &address), &outbound("x")).await;
    let error = error.expect_err("no server");
    assert!(matches!(error, ChannelError::Unreachable(_)), "{error}");
    assert!(!error.to_string().contains("t0ken"), "{error}");
}

//! A server of MCP that does nothing: `cargo xtask null-mcp`, which no usage text shows.
//!
//! It answers constant bytes on the thread that read the request, many at a time if many came, and
//! so shows what the client and the machine take of every figure.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const INITIALIZE: &str = concat!(
    r#","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"#,
    r#""serverInfo":{"name":"null","version":"1"}}}"#
);
const LIST: &str = concat!(
    r#","result":{"tools":[{"name":"Null","description":"Does nothing","#,
    r#""inputSchema":{"type":"object"}}]}}"#
);
/// What clients that try the newer version first are answered.
const UNKNOWN: &str = r#","error":{"code":-32601,"message":"method not found"}}"#;
const CALL: &str = r#","result":{"content":[{"type":"text","text":"nothing was done"}]}}"#;

/// Where the id stands in the lines of the client, which is the only one to talk to this server.
const BEFORE_ID: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";

pub(super) fn serve(args: &[String]) -> Result<()> {
    match args {
        [] => {}
        [ms] => std::thread::sleep(Duration::from_millis(ms.parse().context("milliseconds")?)),
        _ => bail!("takes one argument at most: how many milliseconds it takes to start"),
    }
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let mut chunk = vec![0; 64 * 1024];
    let mut pending = Vec::new();
    let mut replies = Vec::new();
    loop {
        let n = input.read(&mut chunk)?;
        if n == 0 {
            return Ok(());
        }
        pending.extend_from_slice(chunk.get(..n).unwrap_or_default());
        let complete = pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = pending.get(..complete).unwrap_or_default();
        for line in lines.split(|byte| *byte == b'\n') {
            answer(line, &mut replies);
        }
        pending.drain(..complete);
        output.write_all(&replies)?;
        replies.clear();
    }
}

fn answer(line: &[u8], replies: &mut Vec<u8>) {
    let Some(rest) = line.strip_prefix(BEFORE_ID) else { return };
    let n = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let Some((id, after)) = rest.split_at_checked(n) else { return };
    let result = if after.starts_with(b",\"method\":\"tools/call\"") {
        CALL
    } else if after.starts_with(b",\"method\":\"tools/list\"") {
        LIST
    } else if after.starts_with(b",\"method\":\"initialize\"") {
        INITIALIZE
    } else {
        UNKNOWN
    };
    replies.extend_from_slice(BEFORE_ID);
    replies.extend_from_slice(id);
    replies.extend_from_slice(result.as_bytes());
    replies.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_carry_the_id_and_notifications_have_none() {
        let mut replies = Vec::new();
        answer(br#"{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{}}"#, &mut replies);
        answer(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, &mut replies);
        answer(b"", &mut replies);
        answer(br#"{"jsonrpc":"2.0","id":42,"method":"server/discover"}"#, &mut replies);
        let id = "{\"jsonrpc\":\"2.0\",\"id\":4";
        assert_eq!(String::from_utf8_lossy(&replies), format!("{id}1{CALL}\n{id}2{UNKNOWN}\n"));
    }
}

//! Lines out of a stream of bytes, with a limit.
//!
//! A line over the limit is dropped as it arrives, in constant memory. Its request id is still
//! found, wherever in the line it stands, so that the client learns which request failed.

use std::mem;

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line within the limit, without its end.
    Whole(&'a [u8]),
    /// A line over the limit, with the request id where one was found, as JSON.
    TooLong(Option<String>),
}

/// Cuts a stream into lines.
#[derive(Debug)]
pub struct Lines {
    max_bytes: usize,
    partial: Vec<u8>,
    dropped: Option<IdScan>,
}

impl Lines {
    /// Returns a cutter of lines with a limit, their ends not counted.
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, partial: Vec::new(), dropped: None }
    }

    /// Takes the next bytes of the stream and hands out every line that they end.
    pub fn feed(&mut self, mut bytes: &[u8], mut line: impl FnMut(Line<'_>)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (head, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            if self.partial.is_empty() && self.dropped.is_none() && head.len() <= self.max_bytes {
                line(Line::Whole(head));
                continue;
            }
            self.keep(head);
            match self.dropped.take() {
                Some(scan) => line(Line::TooLong(scan.id)),
                None => {
                    let whole = mem::take(&mut self.partial);
                    line(Line::Whole(&whole));
                }
            }
        }
        self.keep(bytes);
    }

    /// Hands out what stands after the last line end, when the stream is over.
    pub fn finish(&mut self, mut line: impl FnMut(Line<'_>)) {
        if let Some(scan) = self.dropped.take() {
            line(Line::TooLong(scan.id));
        } else if !self.partial.is_empty() {
            line(Line::Whole(&mem::take(&mut self.partial)));
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.dropped.is_none() && self.max_bytes < self.partial.len() + bytes.len() {
            let mut scan = IdScan::default();
            scan.feed(&mem::take(&mut self.partial));
            self.dropped = Some(scan);
        }
        match &mut self.dropped {
            Some(scan) => scan.feed(bytes),
            None => self.partial.extend_from_slice(bytes),
        }
    }
}

/// Finds the value of the key `id` of the outermost object while its bytes go by.
#[derive(Debug, Default)]
struct IdScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    token: Vec<u8>,
    after_key: bool,
    id: Option<String>,
}

/// A key or id longer than this is none of ours.
const MAX_TOKEN: usize = 256;

impl IdScan {
    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.id.is_none() {
                self.step(*byte);
            }
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.push(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.push(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.token.clear();
            }
            b'}' | b']' => {
                self.value_ends();
                self.depth = self.depth.saturating_sub(1);
                self.after_key = false;
            }
            b':' if self.depth == 1 => {
                self.after_key = self.token == b"\"id\"";
                self.token.clear();
            }
            b',' => {
                self.value_ends();
                self.after_key = false;
            }
            b' ' | b'\t' | b'\r' => {}
            _ => self.push(byte),
        }
    }

    fn push(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() <= MAX_TOKEN {
            self.token.push(byte);
        }
    }

    fn value_ends(&mut self) {
        let token = mem::take(&mut self.token);
        if self.depth == 1 && self.after_key && token.len() <= MAX_TOKEN {
            self.id = String::from_utf8(token).ok().filter(|id| {
                serde_json::from_str::<serde_json::Value>(id)
                    .is_ok_and(|id| id.is_string() || id.is_number())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a stream in pieces of every size and checks the lines.
    #[track_caller]
    fn check(stream: &str, max_bytes: usize, expected: &[Result<&str, Option<&str>>]) {
        for size in 1..=stream.len().max(1) {
            let mut lines = Lines::new(max_bytes);
            let mut seen = Vec::new();
            let mut take = |line: Line<'_>| {
                seen.push(match line {
                    Line::Whole(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
                    Line::TooLong(id) => Err(id),
                });
            };
            for piece in stream.as_bytes().chunks(size) {
                lines.feed(piece, &mut take);
            }
            lines.finish(&mut take);
            let seen: Vec<Result<&str, Option<&str>>> = seen
                .iter()
                .map(|line| line.as_ref().map(String::as_str).map_err(|id| id.as_deref()))
                .collect();
            assert_eq!(seen, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn lines_come_out_whole_however_they_arrive() {
        check("", 9, &[]);
        check("a\nbb\n", 9, &[Ok("a"), Ok("bb")]);
        check("a\n\nb", 9, &[Ok("a"), Ok(""), Ok("b")]);
        check("123456789\n", 9, &[Ok("123456789")]);
    }

    #[test]
    fn a_long_line_is_dropped_but_its_id_is_found() {
        check("1234567890\nok\n", 9, &[Err(None), Ok("ok")]);
        check(r#"{"id":7,"x":"aaaaaaaaaaaa"}"#, 9, &[Err(Some("7"))]);
        check(
            "{\"params\":{\"id\":1,\"t\":\"\\\"id\\\":2,\"},\"id\" : \"z\"}\nok\n",
            9,
            &[Err(Some("\"z\"")), Ok("ok")],
        );
        check(r#"{"params":[1,{"id":5}],"x":"id"}"#, 9, &[Err(None)]);
        check(r#"{"id":{"a":1},"y":"zzzzzzzzz"}"#, 9, &[Err(None)]);
    }
}

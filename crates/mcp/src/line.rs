//! Splits a byte stream into lines with a length limit.
//!
//! A longer line is dropped as it arrives, in constant memory. Its request id is still extracted, so that the
//! client learns which request failed.

use std::mem;

#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line within the limit, without its line feed.
    Whole(&'a [u8]),
    /// A line over the limit, with its request id as JSON if found.
    TooLong(Option<String>),
}

/// The buffer kept for the next partial line, in bytes.
const KEPT_BYTES: usize = 2 * 1024 * 1024;

/// Splits a stream into lines.
#[derive(Debug)]
pub struct Lines {
    max_bytes: usize,
    partial: Vec<u8>,
    dropped: Option<IdScan>,
}

impl Lines {
    /// Returns a splitter; the limit excludes the line feed.
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, partial: Vec::new(), dropped: None }
    }

    /// Consumes the next bytes and passes each completed line on.
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
                    let mut whole = mem::take(&mut self.partial);
                    line(Line::Whole(&whole));
                    whole.clear();
                    whole.shrink_to(KEPT_BYTES);
                    self.partial = whole;
                }
            }
        }
        self.keep(bytes);
    }

    /// Passes on the rest after the last line feed at the end of the stream.
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

/// Finds the top-level key `id` in a stream of bytes.
#[derive(Debug, Default)]
struct IdScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    token: Vec<u8>,
    after_key: bool,
    id: Option<String>,
}

/// Longer keys and ids are skipped, in bytes.
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
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Feeds a stream in chunks of every size and checks the lines.
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

    /// Splits a stream at its line feeds: the reference result.
    fn plain(stream: &[u8], max_bytes: usize) -> Vec<Option<Vec<u8>>> {
        let stream = stream.strip_suffix(b"\n").unwrap_or(stream);
        let lines = stream.split(|byte| *byte == b'\n');
        lines.map(|line| (line.len() <= max_bytes).then(|| line.to_vec())).collect()
    }

    /// Bytes with frequent line feeds, quotes and braces.
    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => prop::sample::select(b"\n{}[]\":,\\ \rid1".to_vec()),
            1 => any::<u8>(),
        ];
        prop::collection::vec(byte, 0..200)
    }

    proptest! {
        #[test]
        fn any_stream_in_any_pieces_gives_its_lines(
            stream in hostile(),
            sizes in prop::collection::vec(1_usize..40, 1..8),
            max_bytes in 0_usize..60,
        ) {
            let mut lines = Lines::new(max_bytes);
            let mut seen = Vec::new();
            let mut rest = stream.as_slice();
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, left) = rest.split_at((*size).min(rest.len()));
                rest = left;
                lines.feed(piece, |line| seen.push(match line {
                    Line::Whole(bytes) => Some(bytes.to_vec()),
                    Line::TooLong(_) => None,
                }));
                prop_assert!(lines.partial.len() <= max_bytes, "what is held has a limit");
            }
            lines.finish(|line| seen.push(match line {
                Line::Whole(bytes) => Some(bytes.to_vec()),
                Line::TooLong(_) => None,
            }));
            let mut expected = plain(&stream, max_bytes);
            if stream.is_empty() {
                expected.clear();
            }
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn the_id_of_a_long_line_is_that_of_its_object(
            before in prop::collection::vec(("[a-z\"\\\\{}]{0,6}", "[a-z\"\\\\{},:]{0,9}"), 0..4),
            id in prop_oneof![
                any::<i64>().prop_map(Value::from),
                "[a-z\"\\\\\u{e9}{}]{0,9}".prop_map(Value::from),
            ],
            after in "[a-z\"\\\\{},:]{0,30}",
        ) {
            let mut object = serde_json::Map::new();
            for (key, value) in before {
                let inner = serde_json::json!([{ "id": value, key.clone(): [value] }, key]);
                object.insert(key, inner);
            }
            object.shift_remove("id");
            object.insert(String::from("id"), id.clone());
            object.insert(String::from("after"), Value::from(after));
            let mut scan = IdScan::default();
            scan.feed(Value::Object(object).to_string().as_bytes());
            let found = scan.id.and_then(|id| serde_json::from_str::<Value>(&id).ok());
            prop_assert_eq!(found, Some(id));
        }
    }
}

//! Serializes ledger records to JSON and parses them.
//!
//! Keys are column names, durations are in milliseconds, hashes in hexadecimal. Non-ASCII characters are
//! escaped, so that no line separator or bidirectional control takes effect.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};
use serde_json::{Map, Value, json};
use sinew_guard::{ChainLink, Field, Fields, Record, timestamp};

/// Columns whose exported name differs from the database; older exports have the database name.
const RENAMED: [(&str, &str); 2] = [("rung", "sandbox_level"), ("file_path", "path")];
/// Keys that are derived from other keys.
const DERIVED: [&str; 4] = ["seq", "hash", "previous", "at"];

/// Formats a chain link for keeping outside the ledger.
pub(super) fn link(link: &ChainLink) -> String {
    format!("{}:{}", link.seq, hex(&link.hash))
}

/// Parses a chain link.
pub(super) fn link_of(text: &str) -> Option<ChainLink> {
    let (seq, hash) = text.trim().split_once(':')?;
    Some(ChainLink { seq: seq.parse().ok().filter(|seq| 0 <= *seq)?, hash: bytes_of(hash)? })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of<const N: usize>(text: &str) -> Option<[u8; N]> {
    from_hex(text)?.try_into().ok()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit) && digits.len().is_multiple_of(2);
    let pairs = digits.as_chunks::<2>().0;
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    is_hex.then(|| pairs.iter().map(byte).collect())?
}

/// Returns a record as an object, with the previous record's hash if known.
pub(super) fn object(record: &Record, before: Option<ChainLink>) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert(String::from("seq"), json!(record.link.seq));
    if let Some(before) = before {
        object.insert(String::from("previous"), json!(hex(&before.hash)));
    }
    object.insert(String::from("hash"), json!(hex(&record.link.hash)));
    let at_ms = record.number("at_ms").unwrap_or(0);
    object.insert(String::from("at"), json!(timestamp(at_ms.unsigned_abs())));
    object.extend(values(&record.fields));
    if !record.changes.is_empty() {
        let changes = record.changes.iter().map(|change| Value::Object(values(change).collect()));
        object.insert(String::from("changes"), changes.collect());
    }
    object
}

fn values(fields: &Fields<'_>) -> impl Iterator<Item = (String, Value)> {
    fields.iter().map(|(name, field)| match (name.strip_suffix("_us"), field) {
        (Some(name), Field::Integer(us)) => (format!("{name}_ms"), json!(*us as f64 / 1e3)),
        (_, Field::Integer(number)) => (shown(name), json!(number)),
        (_, Field::Text(text)) => (shown(name), json!(text)),
        (_, Field::Bytes(bytes)) => (shown(name), json!(hex(bytes))),
    })
}

fn shown(column: &str) -> String {
    let renamed = RENAMED.iter().find(|(stored, _)| *stored == column);
    renamed.map_or(column, |(_, shown)| shown).to_owned()
}

/// Returns an older export's key and its replacement.
pub(super) fn old_name(object: &Map<String, Value>) -> Option<(&'static str, &'static str)> {
    RENAMED.into_iter().find(|(old, _)| object.contains_key(*old))
}

/// Parses an exported record and the previous link.
pub(super) fn record(object: Map<String, Value>) -> Option<(Record, Option<ChainLink>)> {
    let seq = object.get("seq")?.as_i64()?;
    let hash = |name: &str| object.get(name).and_then(Value::as_str).and_then(bytes_of);
    let link = ChainLink { seq, hash: hash("hash")? };
    let before = hash("previous").map(|hash| ChainLink { seq: seq.saturating_sub(1), hash });
    // The date only repeats the number for readers.
    let at_ms = object.get("at_ms").and_then(Value::as_i64).unwrap_or(0);
    let at = object.get("at").and_then(Value::as_str);
    if at.is_some_and(|at| at != timestamp(at_ms.unsigned_abs())) {
        return None;
    }
    let mut changes = Vec::new();
    let mut named = Vec::new();
    for (name, value) in object {
        match (name.as_str(), value) {
            (name, _) if DERIVED.contains(&name) => {}
            ("changes", Value::Array(all)) => {
                for change in all {
                    let Value::Object(change) = change else { return None };
                    let fields = change.into_iter().map(|(name, value)| field(name, &value));
                    changes.push(fields.collect::<Option<Vec<_>>>()?);
                }
            }
            (_, value) => named.push(field(name, &value)?),
        }
    }
    Some((Record::from_parts(link, named, changes)?, before))
}

fn field(name: String, value: &Value) -> Option<(String, Field<'static>)> {
    let field = match (name.as_str(), value) {
        ("duration_ms" | "waited_ms", Value::Number(ms)) => {
            let us = (ms.as_f64()? * 1e3).round() as i64;
            let name = name.strip_suffix("_ms").unwrap_or(&name);
            return Some((format!("{name}_us"), Field::Integer(us)));
        }
        ("arguments", Value::String(hex)) => Field::Bytes(from_hex(hex)?.into()),
        (_, Value::Number(number)) => Field::Integer(number.as_i64()?),
        (_, Value::String(text)) => Field::from(text.clone()),
        _ => return None,
    };
    let renamed = RENAMED.iter().find(|(_, shown)| *shown == name);
    Some((renamed.map_or(name, |(stored, _)| (*stored).to_owned()), field))
}

/// Writes an object as one line of ASCII.
pub(crate) fn write_line(out: &mut impl Write, object: &Map<String, Value>) -> anyhow::Result<()> {
    object.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, Ascii))?;
    out.write_all(b"\n")?;
    Ok(())
}

/// A compact JSON formatter that escapes every non-ASCII character.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut units = [0; 2];
        for c in fragment.chars() {
            if matches!(c, ' '..='~') {
                writer.write_all(c.encode_utf8(&mut [0; 4]).as_bytes())?;
            } else {
                for unit in c.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> Record {
        let fields = vec![
            ("phase", Field::from("outcome")),
            ("at_ms", Field::Integer(1_767_225_600_000)),
            ("arguments", Field::Bytes(vec![7; 32].into())),
            ("command", Field::from("a\n{\"tool\": \"x\"}\u{1b}[2J\u{202e}\u{7f}\u{1f600}\"\\")),
            ("duration_us", Field::Integer(1_234_567)),
            ("surface", Field::from("call")),
        ];
        let change = vec![("file_path", Field::from("/b")), ("bytes", Field::Integer(3))];
        let changes = vec![change];
        Record { link: ChainLink { seq: 7, hash: [3; 32] }, fields, changes }
    }

    #[test]
    fn a_record_is_one_line_of_ascii_and_comes_back_as_it_was() {
        let before = ChainLink { seq: 6, hash: [2; 32] };
        let mut line = Vec::new();
        write_line(&mut line, &object(&example(), Some(before))).expect("it is written");
        let text = String::from_utf8(line).expect("text");
        assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')), "{text}");
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("\\u202e") && text.contains("\"duration_ms\":1234.567"), "{text}");
        let back = record(serde_json::from_str(&text).expect("JSON")).expect("a record");
        assert_eq!(back, (example(), Some(before)));
    }

    proptest! {
        /// An export is untrusted input.
        #[test]
        fn any_object_is_a_record_or_none(
            seq in any::<i64>(),
            name in "[a-z_]{1,12}|duration_ms|arguments|changes|hash|previous",
            text in ".{0,70}",
            number in any::<f64>(),
        ) {
            let hash = "ab".repeat(32);
            for value in [json!(text), json!(number), json!([text]), json!([{ &name: text }]), Value::Null] {
                let object = json!({ "seq": seq, "hash": hash, &name: value });
                let Value::Object(object) = object else { continue };
                if let Some((read, _)) = record(object) {
                    let mut line = Vec::new();
                    write_line(&mut line, &super::object(&read, None)).expect("it is written");
                    let back = record(serde_json::from_slice(&line).expect("JSON"));
                    prop_assert_eq!(back.map(|(record, _)| record), Some(read));
                }
            }
        }
    }

    #[test]
    fn every_length_of_time_comes_back() {
        for us in (0..2_000_000_i64).step_by(997).chain([i64::from(u32::MAX), 1 << 50]) {
            let value = serde_json::to_string(&json!(us as f64 / 1e3)).expect("JSON");
            let value = serde_json::from_str(&value).expect("a number");
            let back = field(String::from("duration_ms"), &value);
            assert_eq!(back, Some((String::from("duration_us"), Field::Integer(us))));
        }
    }

    #[test]
    fn links_are_read_as_they_are_printed() {
        let one = ChainLink { seq: 12, hash: [0xab; 32] };
        assert_eq!(link_of(&link(&one)), Some(one));
        for text in ["", "12", "12:", "12:abc", ":ab", "-1:00", "x:00"] {
            assert_eq!(link_of(text), None, "{text}");
        }
    }
}

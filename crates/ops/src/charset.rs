//! The text of a page: by its byte order mark, the charset that the server or the page names, or what it looks like.

use encoding_rs::{Encoding, UTF_8};

/// How far into a page its own charset is looked for, by the HTML standard.
const PRESCAN: usize = 1024;
/// How much of a page that names no charset is looked at to guess it, in bytes.
const GUESSED: usize = 64 * 1024;

/// Decodes the body of an answer. What cannot be decoded becomes U+FFFD.
pub(crate) fn decode(body: &[u8], content_type: Option<&str>) -> String {
    let by_mark = Encoding::for_bom(body).map(|(encoding, _)| encoding);
    let named = || named_in(content_type.unwrap_or_default());
    let prescanned = || {
        let head = body.get(..PRESCAN).unwrap_or(body);
        let head: String = head.iter().map(|byte| char::from(*byte)).collect();
        let at = head.to_ascii_lowercase().find("<meta")?;
        named_in(head.get(at..)?)
    };
    let guessed = || match std::str::from_utf8(body) {
        Ok(_) => UTF_8,
        // The end may be cut.
        Err(error) if error.error_len().is_none() => UTF_8,
        Err(_) => {
            let mut detector =
                chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Deny);
            // Plain ASCII does not tell the encoding.
            let telling = body.get(Encoding::ascii_valid_up_to(body)..).unwrap_or_default();
            let looked_at = telling.get(..GUESSED).unwrap_or(telling);
            detector.feed(looked_at, looked_at.len() == telling.len());
            detector.guess(None, chardetng::Utf8Detection::Deny)
        }
    };
    let encoding = by_mark.or_else(named).or_else(prescanned).unwrap_or_else(guessed);
    encoding.decode(body).0.into_owned()
}

/// Returns the encoding behind the first `charset=` of a text.
fn named_in(text: &str) -> Option<&'static Encoding> {
    let lower = text.to_ascii_lowercase();
    let (_, label) = lower.split_once("charset")?;
    let label = label.trim_start().strip_prefix('=')?.trim_start();
    let label = label.trim_start_matches(['"', '\'']);
    let end = label.find(|c: char| matches!(c, '"' | '\'' | ';' | '>' | '/') || c.is_whitespace());
    Encoding::for_label(label.get(..end.unwrap_or(label.len()))?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_decoded() {
        for (body, content_type, expected) in [
            (&b"caf\xc3\xa9"[..], None, "café"),
            (b"caf\xe9", Some("text/html; charset=ISO-8859-1"), "café"),
            (b"caf\xe9", Some("text/html; Charset=\"windows-1252\""), "café"),
            (b"<meta charset=latin1>caf\xe9", Some("text/html"), "<meta charset=latin1>café"),
            (
                b"<META http-equiv=x content='text/html; charset=koi8-r'>\xc1",
                None,
                "<META http-equiv=x content='text/html; charset=koi8-r'>а",
            ),
            (b"\xef\xbb\xbfcaf\xc3\xa9", Some("text/html; charset=latin1"), "café"),
            (b"\xff\xfea\0b\0", None, "ab"),
            (b"caf\xc3\xa9", Some("text/html; charset=nonsense"), "café"),
            (b"cut \xc3", None, "cut \u{fffd}"),
            (b"wrong \xff", Some("text/html; charset=utf-8"), "wrong \u{fffd}"),
        ] {
            assert_eq!(decode(body, content_type), expected, "{content_type:?}");
        }
    }

    #[test]
    fn long_pages_are_guessed_by_their_text() {
        // A character of two bytes is cut where the guess ends looking.
        let word = "文字コードの推定";
        let (sjis, _, _) = encoding_rs::SHIFT_JIS.encode(word);
        let text = [&b"x".repeat(100_001)[..], &sjis.repeat(10_000)].concat();
        assert!(decode(&text, None).ends_with(word), "not Shift_JIS");
    }
}

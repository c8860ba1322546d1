//! Detects and converts encodings other than UTF-8.
//!
//! A byte order mark announces UTF-16 or UTF-32. Unmarked UTF-16 counts only where nothing else fits, and
//! an 8-bit or East Asian encoding is guessed from the whole content. A guess counts only where the text
//! encodes to the same bytes again.
//!
//! UTF-8 is not decoded here: its bytes are the text. UTF-8 with a few invalid bytes stays as well, because
//! any other encoding would show all its other characters wrong.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};

/// The largest content that is decoded.
pub(crate) const MAX_DECODED: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf16Le,
    Utf16Be,
    Utf32Le,
    Utf32Be,
    /// An ASCII-compatible encoding of the Encoding Standard.
    Legacy(&'static encoding_rs::Encoding),
}

impl Encoding {
    /// Returns the encoding that a byte order mark announces.
    pub(crate) fn by_mark(head: &[u8]) -> Option<Self> {
        let marks: [(&[u8], Self); 4] = [
            (b"\xFF\xFE\0\0", Self::Utf32Le),
            (b"\0\0\xFE\xFF", Self::Utf32Be),
            (b"\xFF\xFE", Self::Utf16Le),
            (b"\xFE\xFF", Self::Utf16Be),
        ];
        marks.iter().find(|(mark, _)| head.starts_with(mark)).map(|(_, encoding)| *encoding)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
            Self::Utf32Le => "UTF-32LE",
            Self::Utf32Be => "UTF-32BE",
            Self::Legacy(encoding) => encoding.name(),
        }
    }

    /// Returns the text, its byte order mark included, where encoding it gives these bytes again.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<String> {
        let text = match self {
            Self::Utf16Le => utf16(bytes, u16::from_le_bytes)?,
            Self::Utf16Be => utf16(bytes, u16::from_be_bytes)?,
            Self::Utf32Le => utf32(bytes, u32::from_le_bytes)?,
            Self::Utf32Be => utf32(bytes, u32::from_be_bytes)?,
            Self::Legacy(encoding) => {
                encoding.decode_without_bom_handling_and_without_replacement(bytes)?.into_owned()
            }
        };
        (self.encode(&text).as_deref() == Ok(bytes)).then_some(text)
    }

    /// Returns the bytes of a text, or the first character that the encoding does not have.
    pub(crate) fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        let units = || text.encode_utf16();
        match self {
            Self::Utf16Le => Ok(units().flat_map(u16::to_le_bytes).collect()),
            Self::Utf16Be => Ok(units().flat_map(u16::to_be_bytes).collect()),
            Self::Utf32Le => Ok(text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect()),
            Self::Utf32Be => Ok(text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect()),
            Self::Legacy(encoding) => {
                let (bytes, _, lacks) = encoding.encode(text);
                if !lacks {
                    return Ok(bytes.into_owned());
                }
                let mut buffer = [0; 4];
                let mut is_lacking = |c: &char| encoding.encode(c.encode_utf8(&mut buffer)).2;
                let strange = text.chars().filter(|c| !c.is_ascii()).find(|c| is_lacking(c));
                Err(strange.unwrap_or(char::REPLACEMENT_CHARACTER))
            }
        }
    }
}

/// Returns unmarked UTF-16 as text where certain: mostly ASCII lines, no control or partial characters.
pub(crate) fn unmarked(bytes: &[u8]) -> Option<(Encoding, String)> {
    if MAX_DECODED < bytes.len() {
        return None;
    }
    let odd = bytes.iter().skip(1).step_by(2).filter(|byte| **byte == 0).count();
    let even = bytes.iter().step_by(2).filter(|byte| **byte == 0).count();
    let encoding = if even < odd { Encoding::Utf16Le } else { Encoding::Utf16Be };
    if odd.max(even) * 2 * 4 < bytes.len() * 3 {
        return None;
    }
    let text = encoding.decode(bytes)?;
    let is_text = |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r' | '\u{c}');
    (text.contains('\n') && text.chars().all(is_text)).then_some((encoding, text))
}

/// Returns the encoding and text of content other than Unicode, where the round trip is exact.
pub(crate) fn legacy(bytes: &[u8]) -> Option<(Encoding, String)> {
    if MAX_DECODED < bytes.len() {
        return None;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let encoding = Encoding::Legacy(detector.guess(None, Utf8Detection::Deny));
    encoding.decode(bytes).map(|text| (encoding, text))
}

/// Returns whether content has at least as many characters in UTF-8 as bytes that are not.
pub(crate) fn is_broken_utf8(bytes: &[u8]) -> bool {
    let (mut n_good, mut n_bad) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        n_good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        n_bad += chunk.invalid().len();
    }
    0 < n_good && n_bad <= n_good
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (units, rest) = bytes.as_chunks();
    let decoded = char::decode_utf16(units.iter().map(|bytes| unit(*bytes)));
    if rest.is_empty() { decoded.collect::<Result<_, _>>().ok() } else { None }
}

fn utf32(bytes: &[u8], unit: fn([u8; 4]) -> u32) -> Option<String> {
    let (units, rest) = bytes.as_chunks();
    let decoded = units.iter().map(|bytes| char::from_u32(unit(*bytes)));
    if rest.is_empty() { decoded.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(encoding: &str, text: &str) -> Vec<u8> {
        match encoding {
            "UTF-16LE" => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            "UTF-16BE" => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            _ => {
                let encoding = encoding_rs::Encoding::for_label(encoding.as_bytes());
                encoding.expect("an encoding").encode(text).0.into_owned()
            }
        }
    }

    /// Compares the detected encoding and text of a content with the original.
    #[track_caller]
    fn check(find: fn(&[u8]) -> Option<(Encoding, String)>, encoding: &str, text: &str) {
        let found = find(&bytes(encoding, text));
        let found = found.map(|(encoding, text)| (encoding.name(), text));
        assert_eq!(found, Some((encoding, text.to_owned())));
    }

    #[track_caller]
    fn check_none(find: fn(&[u8]) -> Option<(Encoding, String)>, bytes: &[u8]) {
        assert_eq!(find(bytes), None);
    }

    #[test]
    fn text_is_found_in_its_encoding() {
        check(legacy, "windows-1252", "Un caf\u{e9} cr\u{e8}me, s\u{2019}il vous pla\u{ee}t.\n");
        check(legacy, "windows-1251", "Съешь же ещё этих мягких французских булок\n");
        check(legacy, "Shift_JIS", "これは日本語の文章です。表示\n");
        check(legacy, "GBK", "这是一个用中文写的句子，没有别的意思。\n");
        check(legacy, "Big5", "這是一個用中文寫的句子，沒有別的意思。\n");
        check(legacy, "EUC-KR", "이것은 한국어로 쓰여진 문장입니다.\n");
        check(unmarked, "UTF-16LE", "[Version]\r\nSignature=\"$Windows$\"\r\n");
        check(unmarked, "UTF-16BE", "caf\u{e9} and \u{1f600}, quite long\n");
    }

    #[test]
    fn what_is_not_certain_is_not_found() {
        assert!(is_broken_utf8(b"caf\xC3\xA9 \xE9\n"));
        assert!(!is_broken_utf8(b"caf\xE9 \xE9\n"));
        assert!(!is_broken_utf8(b"caf\xE9 \xC3\xA9 \xE9\n"));
        // A character with two forms, of which the other would be written.
        let text = encoding_rs::SHIFT_JIS.encode("これは日本語の文章です。").0;
        check_none(legacy, &[&text, &b"\xED\x40"[..]].concat());
        check_none(unmarked, b"a\0b\nold text\n");
        check_none(unmarked, b"a\0b\0");
        check_none(unmarked, b"a\0\n\0\x01\0\x02\0");
        check_none(unmarked, b"a\0\0\0\n\0\0\0");
        check_none(unmarked, b"a\0b\0c\0\n\0d");
        check_none(unmarked, b"\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn marks_are_kept_and_broken_units_refused() {
        for (bytes, expected) in [
            (&b"\xFF\xFEa\0"[..], Some("\u{feff}a")),
            (b"\xFE\xFF\0a", Some("\u{feff}a")),
            (b"\xFF\xFE\0\0a\0\0\0", Some("\u{feff}a")),
            (b"\0\0\xFE\xFF\0\0\0a", Some("\u{feff}a")),
            (b"\xFF\xFEa", None),
            (b"\xFF\xFE\0\xD8a\0", None),
            (b"\0\0\xFE\xFF\0\0\xD8\0", None),
            (b"\0\0\xFE\xFF\0\0\0", None),
        ] {
            let encoding = Encoding::by_mark(bytes).expect("a mark");
            assert_eq!(encoding.decode(bytes).as_deref(), expected);
        }
    }

    #[test]
    fn the_first_character_that_is_missing_is_named() {
        let encoding = Encoding::Legacy(encoding_rs::WINDOWS_1252);
        assert_eq!(encoding.encode("\u{e9}\u{20ac}"), Ok(vec![0xE9, 0x80]));
        assert_eq!(encoding.encode("\u{e9}\u{1f600}\u{3b1}"), Err('\u{1f600}'));
    }

    proptest! {
        /// Whatever is found gives the same bytes again.
        #[test]
        fn what_is_found_is_exact(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            for find in [legacy, unmarked] {
                if let Some((encoding, text)) = find(&bytes) {
                    prop_assert_eq!(encoding.encode(&text), Ok(bytes.clone()));
                }
            }
        }
    }
}

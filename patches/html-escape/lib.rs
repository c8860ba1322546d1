//! Decodes entities of HTML, as dom_smoothie does with the published crate `html-escape`, by the table that html5ever
//! has too. The published crate has one of its own, with a pointer for each name and each text.

use std::borrow::Cow;

/// The longest reference with its `&` and `;`, in bytes.
const MAX_REFERENCE: usize = 40;

/// Returns a text with the characters that its references mean; invalid references stay unchanged.
pub fn decode_html_entities<S: AsRef<str> + ?Sized>(text: &S) -> Cow<'_, str> {
    let text = text.as_ref();
    let mut decoded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        let (before, reference) = rest.split_at(at);
        decoded.push_str(before);
        match decode_one(reference) {
            Some((characters, n_bytes)) => {
                decoded.extend(characters.into_iter().flatten());
                rest = &reference[n_bytes..];
            }
            None => {
                decoded.push('&');
                rest = &reference[1..];
            }
        }
    }
    if rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

/// Returns the characters of the reference at the beginning of a text, and its length.
fn decode_one(text: &str) -> Option<([Option<char>; 2], usize)> {
    let end = text.bytes().take(MAX_REFERENCE).position(|byte| byte == b';')?;
    let name = text.get(1..end)?;
    let codes = match name.strip_prefix('#') {
        Some(number) => {
            let hexadecimal = number.strip_prefix(['x', 'X']);
            let (digits, radix) = hexadecimal.map_or((number, 10), |digits| (digits, 16));
            let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            (u32::from_str_radix(digits, radix).ok().filter(|_| is_plain)?, 0)
        }
        None => *web_atoms::NAMED_ENTITIES.get(text.get(1..=end)?)?,
    };
    // A name that ends with `;` is no beginning of another one.
    let is_text = |c: &char| ' ' <= *c || "\t\n\x0c\r".contains(*c);
    let first = char::from_u32(codes.0).filter(is_text)?;
    Some(([Some(first), char::from_u32(codes.1).filter(is_text)], end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_decoded() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("a &amp; b &lt;c&gt;", "a & b <c>"),
            ("&acE;&NotEqualTilde;", "\u{223e}\u{333}\u{2242}\u{338}"),
            ("&#65;&#x42;&#X43;&#x1f600;", "ABC\u{1f600}"),
            ("&amp;amp;", "&amp;"),
            ("&amp", "&amp"),
            (
                "&nothing; &; &#; &#x; &#xd800; &#0; &#+65;",
                "&nothing; &; &#; &#x; &#xd800; &#0; &#+65;",
            ),
            ("&&lt;", "&<"),
            ("&#10;&#27;&#8;", "\n&#27;&#8;"),
            ("é&eacute;é", "ééé"),
            ("&ééééééééééééééééééééééééé;", "&ééééééééééééééééééééééééé;"),
        ] {
            assert_eq!(decode_html_entities(text), expected, "{text}");
        }
    }
}

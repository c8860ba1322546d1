//! Escapes control, bidirectional and invisible characters in text for people.
//!
//! Names and texts of a repository are hostile: such characters can forge terminal output, for example above
//! a prompt. Programs get them unchanged, as JSON.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Escapes every character that a reader would not see, such as `\u{202e}`; blanks and line feeds stay.
pub fn shown(text: &str) -> String {
    // Most texts.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| show(&mut out, c));
    out
}

/// The same with `\n` for a line feed, for names and values within a line.
pub fn shown_line(text: &str) -> String {
    shown(text).replace('\n', "\\n")
}

/// Escapes a path for one line, with `\xe9` for bytes that are not UTF-8, so that two names never look equal.
pub fn shown_path(path: &Path) -> String {
    let mut out = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        out.push_str(&shown_line(chunk.valid()));
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out
}

fn show(out: &mut String, c: char) {
    match c {
        '\t' => out.push_str("\\t"),
        c if is_shown(c) => out.push(c),
        c => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
    }
}

/// Leaves out what a reader does not see and a model does: controls, characters that turn the direction of text,
/// zero-width ones, and tags (U+E0000), which spell hidden words. Line feeds and tabs stay.
pub fn visible_only(text: &str) -> String {
    let is_kept = |c: &char| match c {
        '\n' | '\t' | ' '..='~' => true,
        c => !c.is_control() && !is_ignorable(*c) && !is_unseen(*c),
    };
    text.chars().filter(is_kept).collect()
}

/// Returns whether a character is visible as itself.
pub fn is_shown(c: char) -> bool {
    match c {
        '\n' | '\t' | ' '..='~' => true,
        c if c.is_control() || c.is_whitespace() => false,
        c => !is_ignorable(c) && !is_private(c) && !is_unseen(c),
    }
}

/// Returns whether a character has no glyph: annotation marks, joiners, fillers and noncharacters.
fn is_unseen(c: char) -> bool {
    let is_none = matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe;
    is_none || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{13430}'..='\u{1345f}' | '\u{16fe4}')
}

fn is_private(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' | '\u{2800}')
}

/// Returns whether a character is ignorable by default in Unicode.
pub fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_on_their_line_and_differ() {
        for (name, shown) in [
            (&b"plain \xc3\xa9"[..], "plain \u{e9}"),
            (b"a\nb\tc", r"a\nb\tc"),
            (b"\x1b[2J\x9b", r"\u{1b}[2J\x9b"),
            (
                "\u{9b}2J\u{202e}\u{2066}\u{200e}\u{61c}\u{200b}".as_bytes(),
                r"\u{9b}2J\u{202e}\u{2066}\u{200e}\u{61c}\u{200b}",
            ),
            (b"caf\xe9", r"caf\xe9"),
        ] {
            assert_eq!(shown_path(Path::new(std::ffi::OsStr::from_bytes(name))), shown);
        }
    }

    #[test]
    fn invisible_characters_are_left_out() {
        let tags = "hidden".chars().filter_map(|c| char::from_u32(0xe0000 + u32::from(c)));
        let tags: String = tags.collect();
        let text = format!(
            "a\u{200b}b\u{202e}c\u{2066}d\u{feff}e\u{ad}f\u{1b}[31mg\u{7}h{tags}i\u{180e}j\r\n"
        );
        assert_eq!(visible_only(&text), "abcdef[31mghij\n");
        let seen = "tab\tline\nπ 漢字\u{a0}é 👍";
        assert_eq!(visible_only(seen), seen);
    }

    #[test]
    fn what_nobody_sees_is_not_shown() {
        for c in [
            '\u{fff9}',
            '\u{fffb}',
            '\u{13430}',
            '\u{1345f}',
            '\u{16fe4}',
            '\u{fdd0}',
            '\u{ffff}',
            '\u{1fffe}',
            '\u{10ffff}',
        ] {
            assert!(!is_shown(c), "{c:?}");
        }
        for c in ['a', '\u{e9}', '\u{fffd}', '\u{fffc}', '\u{1f600}', '\u{13429}'] {
            assert!(is_shown(c), "{c:?}");
        }
    }
}

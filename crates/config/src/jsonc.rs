//! Parses JSONC: JSON with comments and trailing commas.

use serde_json::Value;

/// Parses a text. The error has the line and column in it.
pub fn read(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&plain(text.strip_prefix('\u{feff}').unwrap_or(text)))
}

/// Replaces comments and trailing commas with blanks, which keeps lines and columns.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // The position of a comma after a value, while only blanks follow it.
    let mut comma = None;
    let mut follows_value = false;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('"', _) => {
                (comma, follows_value) = (None, true);
                out.push(c);
                while let Some(c) = rest.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => {
                out.push(' ');
                while let Some(c) = rest.next_if(|c| *c != '\n') {
                    out.push(blank(c));
                }
            }
            ('/', Some('*')) => {
                out.push(' ');
                out.extend(rest.next().map(blank));
                let mut before = ' ';
                for c in rest.by_ref() {
                    out.push(blank(c));
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            (']' | '}', _) => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..at + 1, " ");
                }
                follows_value = true;
                out.push(c);
            }
            (c, _) => {
                match c {
                    ',' => {
                        comma = follows_value.then_some(out.len());
                        follows_value = false;
                    }
                    c if c.is_whitespace() => {}
                    c => (comma, follows_value) = (None, !"[{:".contains(c)),
                }
                out.push(c);
            }
        }
    }
    out
}

fn blank(c: char) -> char {
    if c == '\n' { '\n' } else { ' ' }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_last_commas_are_passed_over() {
        for (text, value) in [
            ("{}", json!({})),
            ("\u{feff}[1]", json!([1])),
            ("// a\n{\"a\": 1, // b\n}", json!({"a": 1})),
            ("[1, /* , ] */ 2 , \n /* x */ ]", json!([1, 2])),
            ("{\"a//b\": \"/* \\\" */,]\",}", json!({"a//b": "/* \" */,]"})),
            ("[[1,],]", json!([[1]])),
            ("1 // é", json!(1)),
        ] {
            assert_eq!(read(text).expect(text), value, "{text}");
        }
    }

    #[test]
    fn an_error_is_told_with_its_place() {
        for (text, place) in [
            ("/* a\n b */ {\n  \"a\" 1}", "line 3 column 7"),
            ("[,]", "line 1 column 2"),
            ("/* no end", "EOF while parsing"),
            ("{\"a\": 1 /", "line 1 column 9"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(place), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn plain_json_stays_what_it_is(words in prop::collection::vec(".*", 0..5)) {
            let text = serde_json::to_string(&words).expect("JSON");
            prop_assert_eq!(plain(&text), text);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[\\[\\]{},:\"/*\\\\a1 \n]{0,40}") {
            prop_assert_eq!(plain(&text).lines().count(), text.lines().count());
            drop(read(&text));
        }
    }
}

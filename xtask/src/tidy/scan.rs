//! Rust source without its comments and literals.
//!
//! Rules about words in code must not fire on the same words in a sentence or a test string. This is
//! no lexer: it knows just enough to tell where comments, strings and characters begin and end.

/// Returns the source with every comment and literal blanked, line by line as it was.
pub(super) fn code(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let (skipped, kept) = match blank(rest, before) {
            Some(len) => rest.split_at(len.min(rest.len())),
            None => ("", rest),
        };
        out.extend(skipped.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = kept;
        before = ' ';
        if skipped.is_empty() {
            out.push(first);
            before = first;
            rest = kept.strip_prefix(first).unwrap_or_default();
        }
    }
    out
}

/// Returns the words of a line of code, each with what follows it.
pub(super) fn words(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c| !is_word(c));
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        (!word.is_empty()).then_some((word, after))
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the length of the comment or literal that the text begins with.
fn blank(text: &str, before: char) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    if let Some(body) = text.strip_prefix('"') {
        return Some(1 + quoted(body, '"'));
    }
    if let Some(body) = text.strip_prefix('\'') {
        let mut chars = body.chars();
        return match (chars.next(), chars.next()) {
            (Some('\\'), _) | (_, Some('\'')) => Some(1 + quoted(body, '\'')),
            _ => None,
        };
    }
    if is_word(before) { None } else { raw_string(text) }
}

/// Returns the length up to and with the closing quote.
fn quoted(body: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    body.len()
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let body = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let body = body.get(hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let len = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        let squeezed: Vec<String> = code(source)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(squeezed.join("\n"), expected);
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        check("a // b\nc", "a\nc");
        check("a /* b /* c\n */ d */ e", "a\ne");
        check(r#"a "b \" c" d"#, "a d");
        check("a r#\"b \" c\"# d", "a d");
        check("a br\"b\\\" d", "a d");
        check("a '\"' b", "a b");
        check(r"a '\'' b '\\' c", "a b c");
        check("fn a<'b>(c: &'b str)", "fn a<'b>(c: &'b str)");
        check("r#type barr", "r#type barr");
        check("\"é\" a /* é */ b", "a b");
        check("a \"never closed", "a");
        check("a /* never closed", "a");
    }

    #[test]
    fn words_come_with_what_follows() {
        let found: Vec<_> = words("a.b_1!(c)").collect();
        assert_eq!(found, [("a", ".b_1!(c)"), ("b_1", "!(c)"), ("c", ")")]);
    }
}

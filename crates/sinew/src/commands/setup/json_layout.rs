//! Lays new JSON out like the text around it: its indentation, line ends, trailing commas and comments.

use std::ops::Range;

use serde_json::Value;

use super::item::Insertion;

/// The widest array on one line.
const MAX_WIDTH: usize = 80;

/// The offsets of an object or array.
#[derive(Debug)]
pub(super) struct Place {
    /// Of its opening bracket.
    pub(super) open: usize,
    /// Of its closing bracket.
    pub(super) close: usize,
    /// Of its properties or elements.
    pub(super) children: Vec<Range<usize>>,
}

/// The layout of a text.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    body: &'a str,
    newline: &'static str,
    unit: &'a str,
}

impl<'a> Layout<'a> {
    pub(super) fn of(body: &'a str) -> Self {
        let newline = if body.contains("\r\n") { "\r\n" } else { "\n" };
        let indents = body.lines().filter_map(|line| {
            let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
            (!indent.is_empty() && rest.starts_with('"')).then_some(indent)
        });
        Self { body, newline, unit: indents.min_by_key(|indent| indent.len()).unwrap_or("  ") }
    }

    /// Returns the insertion of a whole value into a text that has none.
    pub(super) fn whole(&self, value: &Value) -> Insertion {
        let newline = self.newline;
        let before = if self.body.is_empty() || self.body.ends_with('\n') { "" } else { newline };
        let text = format!("{before}{}{newline}", self.pretty(value, ""));
        Insertion { at: self.body.len(), text }
    }

    /// Returns the insertions that add the properties or elements of a value.
    pub(super) fn added(&self, place: &Place, new: &Value) -> Vec<Insertion> {
        match place.children.last() {
            Some(last) => self.after(place, last, new),
            None => vec![self.within(place, new)],
        }
    }

    /// Adds to an object or array without children.
    fn within(&self, place: &Place, new: &Value) -> Insertion {
        let tail = self.end_of_comments(place.open + 1, place.close);
        let outer = self.indent_of_line(place.open);
        let inner = format!("{outer}{}", self.unit);
        let children = self.children(new, &inner);
        let newline = self.newline;
        let children = children.join(&format!(",{newline}{inner}"));
        let rest = self.body.get(tail..place.close).unwrap_or_default();
        let end = if rest.contains('\n') { String::new() } else { format!("{newline}{outer}") };
        Insertion { at: tail, text: format!("{newline}{inner}{children}{end}") }
    }

    /// Adds behind the last child.
    fn after(&self, place: &Place, last: &Range<usize>, new: &Value) -> Vec<Insertion> {
        let comma = self.comma(last.end, place.close);
        let from = comma.map_or(last.end, |comma| comma + 1);
        let start = self.body.get(..last.start).unwrap_or_default();
        let indent = start.get(start.rfind('\n').map_or(0, |at| at + 1)..).unwrap_or_default();
        if !indent.chars().all(char::is_whitespace) || !start.contains('\n') {
            let children: Vec<String> = self.inline_children(new);
            let text = match comma {
                Some(_) => children.iter().map(|child| format!(" {child},")).collect(),
                None => children.iter().map(|child| format!(", {child}")).collect(),
            };
            return vec![Insertion { at: from, text }];
        }
        let separator = format!("{}{indent}", self.newline);
        let children = self.children(new, indent);
        let joined = children.join(&format!(",{separator}"));
        // A comment behind the last child stays beside it.
        let at = self.end_of_line_comments(from, place.close);
        match comma {
            Some(_) => vec![Insertion { at, text: format!("{separator}{joined},") }],
            None if at == last.end => {
                vec![Insertion { at, text: format!(",{separator}{joined}") }]
            }
            None => vec![
                Insertion { at: last.end, text: String::from(",") },
                Insertion { at, text: format!("{separator}{joined}") },
            ],
        }
    }

    /// Returns the text without a child, its comma and the white space before it.
    pub(super) fn removed(&self, place: &Place, index: usize) -> String {
        let Some(child) = place.children.get(index) else { return self.body.to_owned() };
        let before = self.body.get(..child.start).unwrap_or_default();
        let trimmed = before.trim_end().len();
        let mut text = self.body.to_owned();
        let comma = self.comma(child.end, place.close);
        let end = comma.map_or(child.end, |comma| comma + 1);
        let previous = index.checked_sub(1).and_then(|at| place.children.get(at));
        let gap = previous.map_or(place.open + 1, |previous| previous.end);
        let ends_line =
            self.body.get(end..).unwrap_or_default().trim_start_matches([' ', '\t', '\r']);
        // Behind a line comment, the text that follows needs a line of its own.
        let start = match self.ends_in_line_comment(gap, trimmed) && !ends_line.starts_with('\n') {
            true => child.start,
            false => trimmed,
        };
        text.replace_range(start..end, "");
        if comma.is_none()
            && let Some(previous) = previous
            && let Some(comma) = self.comma(previous.end, child.start)
        {
            text.replace_range(comma..=comma, "");
        }
        text
    }

    fn children(&self, new: &Value, indent: &str) -> Vec<String> {
        match new {
            Value::Object(object) => {
                let property = |(key, value): (&String, &Value)| {
                    format!("{}: {}", Value::from(key.as_str()), self.pretty(value, indent))
                };
                object.iter().map(property).collect()
            }
            Value::Array(elements) => {
                elements.iter().map(|element| self.pretty(element, indent)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn inline_children(&self, new: &Value) -> Vec<String> {
        match new {
            Value::Object(object) => object
                .iter()
                .map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), inline(value)))
                .collect(),
            Value::Array(elements) => elements.iter().map(inline).collect(),
            _ => Vec::new(),
        }
    }

    fn pretty(&self, value: &Value, indent: &str) -> String {
        let (open, close) = match value {
            Value::Object(object) if !object.is_empty() => ('{', '}'),
            Value::Array(_) if MAX_WIDTH < inline(value).len() => ('[', ']'),
            _ => return inline(value),
        };
        let (newline, inner) = (self.newline, format!("{indent}{}", self.unit));
        let children = self.children(value, &inner).join(&format!(",{newline}{inner}"));
        format!("{open}{newline}{inner}{children}{newline}{indent}{close}")
    }

    fn indent_of_line(&self, at: usize) -> &'a str {
        let before = self.body.get(..at).unwrap_or_default();
        let line = before.get(before.rfind('\n').map_or(0, |at| at + 1)..).unwrap_or_default();
        line.get(..line.len() - line.trim_start().len()).unwrap_or_default()
    }

    /// Returns the offset of the first comma outside of comments.
    fn comma(&self, from: usize, to: usize) -> Option<usize> {
        let rest = self.body.get(from..to)?;
        pieces(rest).find(|(_, piece)| *piece == Piece::Comma).map(|(range, _)| from + range.start)
    }

    /// Returns whether the text between two values ends in a comment up to the end of a line.
    fn ends_in_line_comment(&self, from: usize, to: usize) -> bool {
        let rest = self.body.get(from..to).unwrap_or_default();
        let last = pieces(rest).last();
        last.is_some_and(|(range, piece)| {
            piece == Piece::Comment && rest.get(range).is_some_and(|text| text.starts_with("//"))
        })
    }

    /// Returns the end of the last comment.
    fn end_of_comments(&self, from: usize, to: usize) -> usize {
        let rest = self.body.get(from..to).unwrap_or_default();
        let comments = pieces(rest).filter(|(_, piece)| *piece == Piece::Comment);
        comments.last().map_or(from, |(range, _)| from + range.end)
    }

    /// Returns the end of the last comment on the same line.
    fn end_of_line_comments(&self, from: usize, to: usize) -> usize {
        let rest = self.body.get(from..to).unwrap_or_default();
        let on_line = pieces(rest).take_while(|(_, piece)| *piece != Piece::Newline);
        let comments = on_line.filter(|(_, piece)| *piece == Piece::Comment);
        comments.last().map_or(from, |(range, _)| from + range.end)
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let property = |(key, value): (&String, &Value)| {
                format!("{}: {}", Value::from(key.as_str()), inline(value))
            };
            format!("{{{}}}", object.iter().map(property).collect::<Vec<_>>().join(", "))
        }
        Value::Array(elements) => {
            format!("[{}]", elements.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// A token between two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Comment,
    Comma,
    Newline,
    Other,
}

/// Splits the text between two values.
fn pieces(text: &str) -> impl Iterator<Item = (Range<usize>, Piece)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let first = rest.chars().next()?;
        let (len, piece) = match (end_of_comment(rest), first) {
            (Some(len), _) => (len, Piece::Comment),
            (None, ',') => (1, Piece::Comma),
            (None, '\n') => (1, Piece::Newline),
            (None, other) => (other.len_utf8(), Piece::Other),
        };
        let range = at..at + len;
        at += len;
        Some((range, piece))
    })
}

/// Returns the length of the comment with which a text begins.
pub(super) fn end_of_comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        let line = text.split('\n').next().unwrap_or_default();
        return Some(line.strip_suffix('\r').unwrap_or(line).len());
    }
    text.starts_with("/*").then(|| text.find("*/").map_or(text.len(), |end| end + 2))
}

/// Returns the length of the string with which a text begins.
pub(super) fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

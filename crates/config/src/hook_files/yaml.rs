//! Parses a hook's YAML front matter as strictly as TOML.
//!
//! The user trusts a hook by its text, and YAML can hide meaning from a reader. So the parser rejects tags,
//! anchors, aliases, merge keys, keys without a value, and line breaks that an editor does not show.

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};
use serde_saphyr::{MergeKeyPolicy, MessageFormatter as _, UserMessageFormatter};

use super::Fault;
use crate::options::HookOptions;

/// Parses a hook.
pub(super) fn read(text: &str) -> Result<HookOptions, Fault> {
    check_breaks(text)?;
    check_nodes(text)?;
    let options = serde_saphyr::options! {
        merge_keys: MergeKeyPolicy::Error,
        no_schema: true,
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let at = error.location();
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let line = at.as_ref().map_or(1, |at| number(at.line()));
        let column = at.as_ref().map_or(1, |at| number(at.column()));
        Fault::at(line, column, UserMessageFormatter.format_message(&error))
    })
}

/// Returns the line and column of the first of these top-level keys.
pub(super) fn place_of(text: &str, keys: &[&str]) -> Option<(usize, usize)> {
    let (mut depth, mut is_key) = (0_usize, true);
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
            Event::MappingEnd | Event::SequenceEnd => {
                depth = depth.saturating_sub(1);
                is_key = true;
            }
            Event::Scalar(name, ..) if depth == 1 => {
                if is_key && keys.contains(&&*name) {
                    return Some(place(&span));
                }
                is_key = !is_key;
            }
            _ => {}
        }
    }
    None
}

fn place(span: &Span) -> (usize, usize) {
    (span.start.line(), span.start.col() + 1)
}

/// Rejects a lone carriage return: YAML would start a new line after it.
fn check_breaks(text: &str) -> Result<(), Fault> {
    for (at, line) in text.lines().enumerate() {
        if let Some(before) = line.find('\r').and_then(|found| line.get(..found)) {
            let why = "a carriage return here does not end a line; remove it";
            return Err(Fault::at(at + 1, before.chars().count() + 1, why));
        }
    }
    Ok(())
}

/// Rejects nodes that hide meaning. Syntax errors are left to the deserializer.
fn check_nodes(text: &str) -> Result<(), Fault> {
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => (*anchor, tag.is_some()),
            Event::Alias(anchor) => (*anchor, false),
            _ => (0, false),
        };
        let is_nothing = match &event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => {
                matches!(&**text, "" | "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        };
        let why = match (tag, anchor != 0, is_nothing) {
            (true, ..) => "tags are not read in a hook; write the value without one",
            (_, true, _) => "anchors and aliases are not read in a hook; write the value again",
            (_, _, true) => "a value is expected here; put a text that reads as none in quotes",
            (false, false, false) => continue,
        };
        let (line, column) = place(&span);
        return Err(Fault::at(line, column, why));
    }
    Ok(())
}

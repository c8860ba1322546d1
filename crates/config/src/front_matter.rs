//! Reads the front matter of a Markdown file.

use serde_json::{Map, Value};
use serde_saphyr::{MergeKeyPolicy, MessageFormatter as _, UserMessageFormatter};

/// The most entries of a list.
const MAX_ENTRIES: usize = 200;
/// The most parts of front matter that its aliases repeat.
const MAX_ALIASED: usize = 10_000;

/// Keys with their values.
pub(crate) type Members = Map<String, Value>;

/// Returns the keys of the front matter, if there is one, and the text behind it.
pub(crate) fn read(text: &str) -> Result<(Option<Members>, &str), String> {
    let Some((front, body)) = parted(text) else {
        if text.trim_start_matches('\u{feff}').starts_with("---") {
            return Err(String::from("the front matter does not end: a line `---` is missing"));
        }
        return Ok((None, text));
    };
    let options = serde_saphyr::options! {
        merge_keys: MergeKeyPolicy::Error,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_ALIASED },
    };
    let read: Value = serde_saphyr::from_str_with_options(front, options).map_err(|error| {
        let line = error.location().map_or(1, |at| at.line());
        format!("line {}: {}", line + 1, UserMessageFormatter.format_message(&error))
    })?;
    match read {
        Value::Object(members) => Ok((Some(members), body)),
        Value::Null => Ok((Some(Map::new()), body)),
        _ => Err(String::from("the front matter must have keys with values")),
    }
}

/// Returns a text.
pub(crate) fn text(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.trim().to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(format!("`{key}` must be a text")),
    }
}

/// Returns the tools of a list, and a warning for each entry that limits arguments: it allows nothing.
pub(crate) fn tools(key: &str, value: &Value) -> Result<(Vec<String>, Vec<String>), String> {
    let (tools, limited): (Vec<_>, Vec<_>) =
        names(key, value)?.into_iter().partition(|name| !name.contains('('));
    let warning = |name: String| {
        format!(
            "`{key}`: `{name}` limits arguments, which is not supported, so it allows nothing; name the tool alone"
        )
    };
    Ok((tools, limited.into_iter().map(warning).collect()))
}

/// Returns the text between the first line, `---`, and the next such line, and the text behind it.
pub(crate) fn parted(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_fence = |line: &str| line.trim_end() == "---";
    let first = text.split_inclusive('\n').next().filter(|line| is_fence(line))?;
    let rest = text.get(first.len()..)?;
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        let behind = end + line.len();
        if is_fence(line) {
            return Some((rest.get(..end)?, rest.get(behind..)?));
        }
        end = behind;
    }
    None
}

/// Returns a list, which may be written as one text with commas or blanks. Those in parentheses part nothing.
pub(crate) fn names(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let names: Vec<String> = match value {
        Value::Null => Vec::new(),
        Value::String(text) => split(text),
        Value::Array(all) => {
            let name = |value: &Value| value.as_str().map(|name| name.trim().to_owned());
            let names: Option<Vec<String>> = all.iter().map(name).collect();
            names.ok_or_else(|| format!("`{key}` must be a list of texts"))?
        }
        _ => return Err(format!("`{key}` must be a list")),
    };
    if MAX_ENTRIES < names.len() {
        return Err(format!("`{key}` may have {MAX_ENTRIES} entries, not {}", names.len()));
    }
    Ok(names.into_iter().filter(|name| !name.is_empty()).collect())
}

fn split(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let mut names = vec![String::new()];
    for char in text.chars() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match names.last_mut() {
            Some(name) if 0 < depth || !(char == ',' || char.is_whitespace()) => name.push(char),
            _ => names.push(String::new()),
        }
    }
    names
}

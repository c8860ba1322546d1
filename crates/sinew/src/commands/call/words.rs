//! Reads the arguments of a call from the words of a command line.
//!
//! `name=text` gives a text and `name:=JSON` any value, as HTTPie has it; or one word is the whole JSON object. Tools of
//! sinew read numbers and booleans from texts too.

use std::io::{self, Read};

use serde_json::Value;
use sinew_mcp::Object;
use sinew_tool::{Arguments, shown_line};

/// The forms, for a message.
const FORMS: &str = "write NAME=TEXT or NAME:=JSON, or all arguments as one JSON object";

/// Returns whether the arguments come from standard input.
pub(crate) fn is_from_input(words: &[String]) -> bool {
    words.iter().any(|word| word == "-")
}

/// Returns the arguments, or the problem in words.
pub(crate) fn arguments(words: &[String]) -> Result<Arguments, String> {
    match words {
        [] => Ok(Arguments::new()),
        [word] if word == "-" => {
            let mut text = String::new();
            io::stdin()
                .lock()
                .read_to_string(&mut text)
                .map_err(|error| format!("standard input cannot be read: {error}"))?;
            object(&text)
        }
        [word] if is_json(word) => object(word),
        words => {
            let mut arguments = Arguments::new();
            for word in words {
                let (name, value) = pair(word)?;
                if arguments.insert(name.to_owned(), value).is_some() {
                    let name = shown_line(name);
                    return Err(format!(
                        "argument `{name}` is given twice; a list is one value, such as {name}:='[\"a\", \"b\"]'"
                    ));
                }
            }
            Ok(arguments)
        }
    }
}

/// Returns whether a word is meant as JSON: a name begins with no bracket, no quote and no digit.
fn is_json(word: &str) -> bool {
    let first = word.trim_start().chars().next();
    first.is_none_or(|first| matches!(first, '{' | '[' | '"' | '-' | '0'..='9'))
        || matches!(word.trim(), "null" | "true" | "false")
}

fn object(text: &str) -> Result<Arguments, String> {
    match serde_json::from_str(text) {
        Ok(Object(arguments)) => Ok(arguments),
        Err(error) if !error.is_data() => Err(format!("the arguments are not JSON: {error}")),
        Err(error) if text.trim_start().starts_with('{') => Err(format!("the arguments: {error}")),
        Err(_) => {
            Err(String::from("the arguments must be one JSON object, such as {\"path\":\".\"}"))
        }
    }
}

/// Splits a word at its first `=` into a name and a value.
fn pair(word: &str) -> Result<(&str, Value), String> {
    let shown = shown_line(word);
    if is_json(word) || word == "-" {
        return Err(format!("`{shown}` must be the only argument; {FORMS}"));
    }
    let Some((name, text)) = word.split_once('=') else {
        return Err(format!("`{shown}` has no `=`; {FORMS}"));
    };
    let (name, is_json) = name.strip_suffix(':').map_or((name, false), |name| (name, true));
    if name.is_empty() {
        return Err(format!("`{shown}` has no name; {FORMS}"));
    }
    if !is_json {
        return Ok((name, Value::from(text)));
    }
    match serde_json::from_str(text) {
        Ok(value) => Ok((name, value)),
        Err(error) => {
            let name = shown_line(name);
            Err(format!("argument `{name}` is not JSON: {error}; a text is written {name}=TEXT"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(words: &[&str], expected: Result<Value, &str>) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match (arguments(&words), expected) {
            (Ok(got), Ok(expected)) => assert_eq!(Value::Object(got), expected, "{words:?}"),
            (Err(got), Err(expected)) => assert!(got.contains(expected), "{words:?}: {got}"),
            (got, expected) => panic!("{words:?}: {got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn words_are_pairs_or_one_object() {
        check(&[], Ok(json!({})));
        check(&["{\"path\": \".\"}"], Ok(json!({ "path": "." })));
        check(&["  {}"], Ok(json!({})));
        check(&["a=b"], Ok(json!({ "a": "b" })));
        check(&["a="], Ok(json!({ "a": "" })));
        check(&["a=b=c", "d:=3"], Ok(json!({ "a": "b=c", "d": 3 })));
        check(
            &["a:=[1, \"x\"]", "b:=null", "c:=true"],
            Ok(json!({ "a": [1, "x"], "b": null, "c": true })),
        );
        check(&["a=: =", "b= x "], Ok(json!({ "a": ": =", "b": " x " })));
        check(&["url=http://a:=b"], Ok(json!({ "url": "http://a:=b" })));
        check(&["a={\"x\":1}"], Ok(json!({ "a": "{\"x\":1}" })));
    }

    #[test]
    fn half_typed_words_are_refused() {
        check(&[""], Err("not JSON"));
        check(&["3"], Err("must be one JSON object"));
        check(&["{"], Err("not JSON"));
        check(&["{\"a\": 1, \"a\": 2}"], Err("the arguments"));
        check(&["a"], Err("`a` has no `=`"));
        check(&["=a"], Err("has no name"));
        check(&[":=1"], Err("has no name"));
        check(&["a:="], Err("argument `a` is not JSON"));
        check(&["a:=b"], Err("a text is written a=TEXT"));
        check(&["a=1", "a=2"], Err("is given twice"));
        check(&["a=1", "{}"], Err("must be the only argument"));
        check(&["{}", "a=1"], Err("must be the only argument"));
        check(&["a=1", "-"], Err("must be the only argument"));
    }
}

//! ToolSearch: finds tools that are not listed, and lists them.

use serde::Deserialize;
use serde_json::{Value, json};
use sinew_tool::{
    Bound, Context, Cost, Facts, FoundTools, Operation, Param, ParamKind, Reply, Row, Shaping,
    Targets, ToolError, ToolSearcher,
};

/// How many tools are returned by default.
pub const LIMIT: i64 = 5;
/// The most tools that are returned.
pub const MAX_LIMIT: i64 = 50;
/// The beginning of a query for tools by their names.
const SELECT: &str = "select:";

/// Finds tools that are not listed, and lists them.
#[derive(Debug)]
pub struct ToolSearch;

/// Arguments of ToolSearch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSearchArgs {
    /// `select:A,B`, or words; `+word` must occur.
    pub query: String,
    /// The most tools.
    #[serde(default)]
    pub max_results: Option<i64>,
}

/// The native row.
pub const NATIVE: Row<ToolSearch> = Row {
    name: "ToolSearch",
    description: "Finds tools that are not listed, with their schemas, so that they can be called.",
    params: &[
        Param::required(
            "query",
            "query",
            ParamKind::String,
            "`select:A,B` by name, or words, best matches first; `+word` must occur",
        ),
        Param::optional(
            "max_results",
            "max_results",
            ParamKind::Integer { min: 1, cap: Some(MAX_LIMIT) },
            "default 5",
        ),
    ],
    bound: Bound::HARD,
    for_deferred: true,
    ..Row::shaped(shape)
};

impl Operation for ToolSearch {
    const NAME: &'static str = "ToolSearch";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = ToolSearchArgs;
    type Out = FoundTools;

    fn check(args: &ToolSearchArgs) -> Result<(), ToolError> {
        match Query::of(&args.query) {
            Query::Select(names) if names.is_empty() => {
                Err(ToolError::argument("query", "names no tool; write select:Name,OtherName"))
            }
            Query::Words { words, must } if words.is_empty() && must.is_empty() => {
                Err(ToolError::argument("query", "is empty; give words such as `send message`"))
            }
            _ => Ok(()),
        }
    }

    fn cost(_args: &ToolSearchArgs, _targets: &Targets) -> Cost {
        Cost::Cheap
    }

    async fn run(args: &ToolSearchArgs, cx: &Context) -> Result<FoundTools, ToolError> {
        let searcher = ToolSearcher { session: cx.address(), dialect: cx.dialect };
        let limit = args.max_results.unwrap_or(LIMIT).min(MAX_LIMIT);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(match Query::of(&args.query) {
            Query::Select(names) => cx.tools.select(searcher, &names),
            Query::Words { words, must } => cx.tools.search(searcher, &words, &must, limit),
        })
    }
}

/// A query as it was written.
#[derive(Debug, PartialEq, Eq)]
enum Query {
    Select(Vec<String>),
    Words { words: Vec<String>, must: Vec<String> },
}

impl Query {
    fn of(query: &str) -> Self {
        let trimmed = |word: &str| word.trim().to_owned();
        if let Some(names) = query.trim().strip_prefix(SELECT) {
            let names = names.split([',', ' ']).map(trimmed).filter(|name| !name.is_empty());
            return Self::Select(names.collect());
        }
        let (must, words): (Vec<&str>, Vec<&str>) =
            query.split_whitespace().partition(|word| word.starts_with('+'));
        let must = must.into_iter().map(|word| trimmed(word.trim_start_matches('+')));
        Self::Words {
            words: words.into_iter().map(trimmed).collect(),
            must: must.filter(|word| !word.is_empty()).collect(),
        }
    }
}

/// Returns the found tools as a JSON array of name, description and parameters.
pub fn as_json(found: &FoundTools) -> Value {
    let tools = found.found.iter().map(|tool| {
        json!({
            "name": tool.name, "description": tool.description, "parameters": tool.parameters,
        })
    });
    Value::from_iter(tools)
}

/// Returns why nothing was found, in words.
pub fn nothing(found: &FoundTools) -> String {
    match (found.n_deferred, found.unknown.as_slice()) {
        (0, []) => String::from(
            "No tool is deferred: everything is already loaded. Call the tools of your list directly.",
        ),
        (_, []) => String::from(
            "No tool matches. Try other words, fewer of them, or none with a `+` before it.",
        ),
        (_, names) => {
            format!("No tool has this name: {}. Search for it by words.", names.join(", "))
        }
    }
}

fn shape(_args: &ToolSearchArgs, found: FoundTools, _shaping: &Shaping<'_>) -> Reply {
    if found.found.is_empty() {
        return Reply::text(nothing(&found));
    }
    let tools = as_json(&found);
    let lines = tools.as_array().into_iter().flatten().map(Value::to_string);
    let mut text = lines.collect::<Vec<_>>().join("\n");
    text.push_str(
        "\n\nThese are loaded: call them by their names. Where you cannot, call ToolCall with `name` and `arguments`.",
    );
    if !found.unknown.is_empty() {
        text.push_str(&format!("\nNo tool has this name: {}.", found.unknown.join(", ")));
    }
    Reply::text(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_name_or_describe() {
        let list = |words: &str| words.split_terminator(' ').map(str::to_owned).collect::<Vec<_>>();
        for (query, expected) in [
            ("select:A,B", Query::Select(list("A B"))),
            (" select: A , b__c ", Query::Select(list("A b__c"))),
            ("select:", Query::Select(list(""))),
            (
                "send +slack message",
                Query::Words { words: list("send message"), must: list("slack") },
            ),
            ("+", Query::Words { words: list(""), must: list("") }),
        ] {
            assert_eq!(Query::of(query), expected, "{query}");
        }
    }
}

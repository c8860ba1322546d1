//! MemoryRead: returns what earlier sessions noted in `MEMORY.md`, all of it or the paragraphs about something.
//!
//! A paragraph ends at a blank line. A search compares without case: paragraphs with the whole query come first, then
//! those with more of its words, equal ones in the order of the file.

use std::collections::BTreeSet;

use serde::Deserialize;
use sinew_tool::{
    Access, Claim, Context, Cost, Facts, FileSettings, MemoryScope, Operation, Param, ParamKind,
    Reply, Row, Shaping, Targets, ToolError,
};

use crate::edit;
use crate::memory::{self, Memory};

/// The most paragraphs that a search returns.
pub const MAX_MATCHES: usize = 20;
/// The most words that a search looks for.
pub const MAX_WORDS: usize = 32;

/// Reads the memory.
#[derive(Debug)]
pub struct MemoryRead;

/// Arguments of MemoryRead.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryReadArgs {
    /// The words to search for; without any, the whole memory is meant.
    #[serde(default)]
    pub query: Option<String>,
    /// Whose memory.
    #[serde(default, deserialize_with = "memory::scope")]
    pub scope: MemoryScope,
}

impl MemoryReadArgs {
    /// Returns the query, if it has a word.
    pub fn words(&self) -> Option<&str> {
        self.query.as_deref().filter(|query| !query.trim().is_empty())
    }
}

/// Outcome of MemoryRead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryReadOut {
    /// There is no memory yet.
    Missing,
    /// The whole memory.
    Whole(String),
    /// The paragraphs that a search found.
    Found(FoundParagraphs),
}

/// The paragraphs that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundParagraphs {
    /// The best ones, best first.
    pub shown: Vec<String>,
    /// How many there are.
    pub n_all: usize,
}

/// The native row.
pub const NATIVE: Row<MemoryRead> = Row {
    name: "MemoryRead",
    description: "Reads MEMORY.md, the notes of earlier sessions: all, or the paragraphs with words of query.",
    params: &[Param::optional("query", "query", ParamKind::String, ""), memory::SCOPE],
    ..Row::shaped(shape)
};

impl Operation for MemoryRead {
    const NAME: &'static str = "MemoryRead";
    const FACTS: Facts = Facts::OBSERVES;
    type Args = MemoryReadArgs;
    type Out = MemoryReadOut;

    fn check(args: &MemoryReadArgs) -> Result<(), ToolError> {
        let n_words = args.words().map_or(0, |query| query.split_whitespace().count());
        if n_words <= MAX_WORDS {
            return Ok(());
        }
        let problem = format!("may have {MAX_WORDS} words, not {n_words}");
        Err(ToolError::argument("query", problem).hint("name the few words that matter"))
    }

    fn claims(args: &MemoryReadArgs, _settings: &FileSettings) -> Vec<Claim> {
        vec![Claim::on_memory(args.scope, Access::Read)]
    }

    fn cost(_args: &MemoryReadArgs, targets: &Targets) -> Cost {
        edit::cost(targets)
    }

    async fn run(args: &MemoryReadArgs, cx: &Context) -> Result<MemoryReadOut, ToolError> {
        let whole = match Memory::load(cx, args.scope)? {
            Memory::Missing => return Ok(MemoryReadOut::Missing),
            Memory::TooLarge { n_bytes, .. } => {
                return Err(memory::too_large(n_bytes, cx.settings.max_memory_bytes, args.scope));
            }
            Memory::Whole(whole) => whole,
        };
        Ok(match args.words() {
            Some(query) => {
                MemoryReadOut::Found(search(&String::from_utf8_lossy(&whole.bytes), query))
            }
            None => {
                memory::note(cx, &whole)?;
                MemoryReadOut::Whole(String::from_utf8_lossy(&whole.bytes).into_owned())
            }
        })
    }
}

/// Returns the paragraphs that have a word of a query, the best first.
fn search(text: &str, query: &str) -> FoundParagraphs {
    let phrase = folded(query);
    let words: BTreeSet<&str> = phrase.split(' ').collect();
    let mut found: Vec<(bool, usize, &str)> = paragraphs(text)
        .filter_map(|paragraph| {
            let folded = folded(paragraph);
            let n_words = words.iter().filter(|word| folded.contains(**word)).count();
            (0 < n_words).then(|| (folded.contains(&phrase), n_words, paragraph))
        })
        .collect();
    let n_all = found.len();
    found.sort_by_key(|(has_phrase, n_words, _)| std::cmp::Reverse((*has_phrase, *n_words)));
    found.truncate(MAX_MATCHES);
    let shown = found.into_iter().map(|(_, _, paragraph)| paragraph.to_owned());
    FoundParagraphs { shown: shown.collect(), n_all }
}

/// Returns a text in lower case, with one space between words.
fn folded(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// Splits a text at its blank lines.
fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (mut start, mut end) = (None, 0);
        for line in rest.split_inclusive('\n') {
            match (line.trim().is_empty(), start) {
                (true, Some(_)) => break,
                (false, None) => start = Some(end),
                _ => {}
            }
            end += line.len();
        }
        let found = rest.get(start?..end)?;
        rest = rest.get(end..).unwrap_or_default();
        Some(found.trim_end_matches(['\r', '\n']))
    })
}

/// Returns what a search says where it shows fewer paragraphs than it found.
pub fn left_out(found: &FoundParagraphs) -> Option<String> {
    let n_shown = found.shown.len();
    (n_shown < found.n_all).then(|| {
        format!(
            "{n_shown} of {} matching paragraphs are shown, the best first; use other words to see more",
            found.n_all
        )
    })
}

fn shape(args: &MemoryReadArgs, out: MemoryReadOut, _shaping: &Shaping<'_>) -> Reply {
    let file = args.scope.shown();
    let found = match out {
        MemoryReadOut::Missing => return Reply::text(format!("nothing is noted yet in {file}")),
        MemoryReadOut::Whole(text) if text.trim().is_empty() => {
            return Reply::text(format!("empty: {file}"));
        }
        MemoryReadOut::Whole(text) => return Reply::text(text),
        MemoryReadOut::Found(found) => found,
    };
    if found.shown.is_empty() {
        return Reply::text(format!(
            "no paragraph of {file} has a word of the query; try other words, or none to read all"
        ));
    }
    let mut text = found.shown.join("\n\n");
    let left_out = left_out(&found);
    if let Some(left_out) = &left_out {
        text.push_str(&format!("\n\n[{left_out}]"));
    }
    let mut reply = Reply::text(text);
    reply.meta.truncated = left_out.is_some();
    reply
}

#[cfg(test)]
mod tests;

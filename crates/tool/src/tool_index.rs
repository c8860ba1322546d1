//! The search of tools that are not listed.

use serde_json::Value;

/// Who searches for tools: a session, in one dialect.
#[derive(Debug, Clone, Copy)]
pub struct ToolSearcher<'a> {
    /// The session, which lists the found tools from then on.
    pub session: &'a str,
    /// The dialect, which names the tools.
    pub dialect: &'a str,
}

/// A tool that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundTool {
    /// The name for calls.
    pub name: String,
    /// The description.
    pub description: String,
    /// The JSON schema of the arguments.
    pub parameters: Value,
}

/// The result of a search for tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoundTools {
    /// The tools, best first.
    pub found: Vec<FoundTool>,
    /// Names that no tool has.
    pub unknown: Vec<String>,
    /// How many tools are not listed in the session.
    pub n_deferred: usize,
}

/// Finds the tools of a catalog that are not listed.
pub trait ToolIndex: std::fmt::Debug + Send + Sync {
    /// Returns the tools with these names, listed or not.
    fn select(&self, searcher: ToolSearcher<'_>, names: &[String]) -> FoundTools;

    /// Returns at most so many of the tools that are not listed, ranked by words. Each of `must` occurs in all of them.
    fn search(
        &self,
        searcher: ToolSearcher<'_>,
        words: &[String],
        must: &[String],
        limit: usize,
    ) -> FoundTools;
}

/// An index without tools.
#[derive(Debug, Clone, Copy)]
pub struct NoTools;

impl ToolIndex for NoTools {
    fn select(&self, _searcher: ToolSearcher<'_>, names: &[String]) -> FoundTools {
        FoundTools { unknown: names.to_vec(), ..FoundTools::default() }
    }

    fn search(
        &self,
        _searcher: ToolSearcher<'_>,
        _words: &[String],
        _must: &[String],
        _limit: usize,
    ) -> FoundTools {
        FoundTools::default()
    }
}

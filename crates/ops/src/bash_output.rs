//! BashOutput: returns what a background command wrote since the last look, or lists all of them.
//!
//! A look consumes the new output. It can wait for a text, for silence, or for the end of the command.

use std::fmt::Write;

use grep_matcher::Matcher;
use serde::Deserialize;
use sinew_tool::{
    Background, Bound, Context, Cost, Effects, Facts, News, Operation, Output, Param, ParamKind,
    Reply, Row, Shaping, Targets, ToolError,
};

use crate::bash::end;
use crate::screen;
use crate::waits::{self, MAX_WAIT_MS, Until};

/// The limits of shown output, in bytes and lines.
const SHOWN: (usize, usize) = (50 * 1024, 2_000);

/// Reads the output of background commands.
#[derive(Debug)]
pub struct BashOutput;

/// Arguments of BashOutput.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BashOutputArgs {
    /// The ID of the command; without it all of them are listed.
    #[serde(default)]
    pub id: Option<String>,
    /// A regular expression: only matching lines are shown; the others are consumed too.
    #[serde(default)]
    pub filter: Option<String>,
    /// A regular expression: the wait ends when it matches something new.
    #[serde(default)]
    pub until: Option<String>,
    /// The wait ends after this long without output, in milliseconds.
    #[serde(default)]
    pub idle_ms: Option<u64>,
    /// The longest wait, in milliseconds; alone, it waits for the end of the command.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

impl BashOutputArgs {
    fn until(&self) -> Until<'_> {
        let Self { until, idle_ms, timeout_ms, .. } = self;
        Until { until: until.as_deref(), idle_ms: *idle_ms, timeout_ms: *timeout_ms }
    }
}

/// Outcome of BashOutput.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BashOutputOut {
    /// Every command of the session in the background.
    List(Vec<Background>),
    /// What one wrote, and where lines were filtered how many there were.
    News(Box<News>, Option<(usize, usize)>),
}

/// The native row.
pub const NATIVE: Row<BashOutput> = Row {
    name: "BashOutput",
    description: "Returns new output of a background command, or lists them. Waits for `until`, `idle` or exit if asked.",
    params: &[
        Param::optional("bash_id", "id", ParamKind::String, ""),
        Param::optional("filter", "filter", ParamKind::String, "Regex: lines to show"),
        Param::optional("until", "until", ParamKind::String, "Regex to wait for"),
        Param::optional(
            "idle",
            "idle_ms",
            ParamKind::Integer { min: 1, cap: Some(MAX_WAIT_MS) },
            "Wait for silence, ms",
        ),
        Param::optional(
            "timeout",
            "timeout_ms",
            ParamKind::Integer { min: 0, cap: Some(MAX_WAIT_MS) },
            "Max wait, ms; default 30000; alone, waits for exit",
        ),
    ],
    bound: Bound::HARD,
    ..Row::shaped(shape)
};

impl Operation for BashOutput {
    const NAME: &'static str = "BashOutput";
    const FACTS: Facts =
        Facts { effects: Effects::SESSION, idempotent: false, destructive: false, parallel: true };
    type Args = BashOutputArgs;
    type Out = BashOutputOut;

    fn check(args: &BashOutputArgs) -> Result<(), ToolError> {
        let needs_one = args.filter.is_some() || args.until.is_some() || args.idle_ms.is_some();
        if args.id.is_none() && (needs_one || args.timeout_ms.is_some()) {
            return Err(ToolError::argument("bash_id", "is missing")
                .hint("without anything else it lists the commands in the background"));
        }
        Ok(())
    }

    fn cost(_args: &BashOutputArgs, _targets: &Targets) -> Cost {
        Cost::Waits
    }

    async fn run(args: &BashOutputArgs, cx: &Context) -> Result<BashOutputOut, ToolError> {
        let processes = &cx.world.processes;
        let Some(id) = &args.id else { return Ok(BashOutputOut::List(processes.background())) };
        let filter = args.filter.as_deref();
        let filter = filter.map(|pattern| waits::line_regex(cx, "filter", pattern)).transpose()?;
        let wait = args.until().wait(cx)?;
        let mut news = processes.news(id, wait, filter.is_some()).await?;
        let Some(filter) = filter else { return Ok(BashOutputOut::News(Box::new(news), None)) };
        let text = screen::cleaned(&news.bytes);
        let fits = |line: &&str| filter.is_match(line.trim_end().as_bytes()).unwrap_or(false);
        let shown: Vec<&str> = text.split_inclusive('\n').filter(fits).collect();
        let counted = (shown.len(), text.lines().count());
        news.bytes = shown.concat().into_bytes();
        Ok(BashOutputOut::News(Box::new(news), Some(counted)))
    }
}

fn shape(args: &BashOutputArgs, out: BashOutputOut, _shaping: &Shaping<'_>) -> Reply {
    match out {
        BashOutputOut::List(all) if all.is_empty() => {
            Reply::text("[no command runs in the background]")
        }
        BashOutputOut::List(all) => {
            let lines: Vec<String> = all.iter().map(waits::line).collect();
            Reply::text(lines.join("\n"))
        }
        BashOutputOut::News(news, filtered) => news_reply(args, *news, filtered),
    }
}

fn news_reply(args: &BashOutputArgs, news: News, filtered: Option<(usize, usize)>) -> Reply {
    let News { background, bytes, n_lost, waited } = news;
    let total = bytes.len() as u64;
    let output = Output { head: bytes, tail: Vec::new(), total };
    let shown = screen::show(&output, false, SHOWN);
    let mut text = end::refusal_lines(&background.findings);
    text.push_str(&shown.text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let mut note = |words: String| {
        let _ = writeln!(text, "[{words}]");
    };
    let whole = background.stored_words().map(|words| format!("; {words}")).unwrap_or_default();
    if 0 < n_lost {
        note(format!("{n_lost} bytes before that were written too long ago{whole}"));
    }
    if let Some(left_out) = &shown.left_out {
        note(format!("{left_out}{whole}"));
    }
    if let Some((n_shown, n_lines)) = filtered {
        note(format!("{n_shown} of {n_lines} new lines fit the filter"));
    }
    note(format!("{}: {}", background.id, background.state()));
    args.until().words(waited).into_iter().for_each(note);
    text.pop();
    let mut reply = Reply::text(text);
    reply.meta.truncated = shown.is_cut || 0 < n_lost;
    reply.meta.output_path = background.stored;
    reply.meta.more.insert("background_id", background.id);
    reply
}

#[cfg(test)]
mod tests;

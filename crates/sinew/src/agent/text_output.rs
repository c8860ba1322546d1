//! Shows a turn to a person: the model's text on standard output, progress on standard error.
//!
//! At a terminal text streams as it comes. In a pipe standard output gets the last answer alone, so that a script can use
//! it, and no progress moves.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use console::Style;
use indicatif::{ProgressBar, ProgressStyle};
use sinew_agent::{AgentError, StreamEvent, TurnEnd, TurnEvent};

use super::call_line;
use super::markdown::MarkdownStream;
use crate::screen;

/// The most lines of a difference that are shown.
const MAX_DIFF_LINES: usize = 30;

/// Writes text whose control sequences are styles alone.
fn write_styled(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// How often the progress line is drawn again.
const TICK: Duration = Duration::from_millis(200);

/// Returns a progress line, which shows nothing where standard error is no terminal.
pub(crate) fn progress() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    match ProgressStyle::with_template("{spinner} {msg} {elapsed}{prefix:.dim}") {
        Ok(style) => spinner.with_style(style),
        Err(_) => spinner,
    }
}

/// Shows a turn as text.
pub(crate) struct TextOutput {
    spinner: ProgressBar,
    streams: bool,
    /// Whether the cursor is behind text of the model.
    is_in_text: bool,
    is_thinking: bool,
    /// The text of the message under way, where it does not stream.
    text: String,
    /// Styles Markdown, in a conversation.
    markdown: Option<MarkdownStream>,
}

impl TextOutput {
    /// Returns the output of a conversation: with styles, and with what edits changed.
    pub(crate) fn for_chat(spinner: ProgressBar) -> Self {
        Self { markdown: Some(MarkdownStream::default()), ..Self::new(spinner) }
    }

    pub(crate) fn new(spinner: ProgressBar) -> Self {
        Self {
            spinner,
            streams: io::stdout().is_terminal(),
            is_in_text: false,
            is_thinking: false,
            text: String::new(),
            markdown: None,
        }
    }

    pub(crate) fn event(&mut self, event: &TurnEvent<'_>) {
        match event {
            TurnEvent::Asks { tokens } => {
                self.waits(format!("the model reads about {tokens} tokens"));
            }
            TurnEvent::Stream(event) => self.stream(event),
            TurnEvent::Answered { .. } => self.end_text(),
            TurnEvent::CallBegins { call, .. } => {
                // Text before a call is no answer.
                self.flush_to_errors();
                self.waits(call_line::about(call));
            }
            TurnEvent::CallEnds { call, result, duration, .. } => {
                let mark = if result.is_error { "x" } else { "*" };
                let (about, ended) = (call_line::about(call), call_line::ended(result, *duration));
                self.say(&format!("{mark} {about}  {ended}"));
                if call_line::is_list(call) && !result.is_error {
                    for item in result.text.lines().take(MAX_DIFF_LINES) {
                        self.say(&format!("  {}", sinew_tool::shown_line(item)));
                    }
                } else if self.markdown.is_some() && !result.is_error {
                    self.diff(&result.text);
                }
            }
            TurnEvent::Compacted { before, after } => {
                self.say(&format!(
                    "the conversation was shortened from about {before} to {after} tokens"
                ));
            }
            TurnEvent::Notice(text) => self.say(text),
        }
    }

    /// Ends the output of a turn. In a pipe it writes the last answer to standard output; where the turn failed, what the
    /// model said is written to standard error.
    pub(crate) fn ends(&mut self, ended: &Result<TurnEnd, AgentError>) -> io::Result<()> {
        self.spinner.finish_and_clear();
        self.end_text();
        let Ok(TurnEnd { text, .. }) = ended else {
            self.flush_to_errors();
            return Ok(());
        };
        self.text.clear();
        if self.streams || text.trim().is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        writeln!(out, "{}", text.trim_end())?;
        out.flush()
    }

    fn stream(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Text(text) => {
                self.is_thinking = false;
                if !self.streams {
                    self.text.push_str(text);
                    return;
                }
                // A terminal that is gone ends the run at the next write that counts.
                if let Some(markdown) = &mut self.markdown {
                    let styled = markdown.push(text);
                    if !styled.is_empty() {
                        self.spinner.finish_and_clear();
                        write_styled(&styled);
                    }
                    self.is_in_text = true;
                    return;
                }
                self.spinner.finish_and_clear();
                let mut out = screen::output();
                let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
                self.is_in_text = !text.ends_with('\n');
            }
            StreamEvent::Thinking(_) if !self.is_thinking => {
                self.is_thinking = true;
                self.waits(String::from("the model thinks"));
            }
            StreamEvent::Thinking(_) => {}
            StreamEvent::CallBegins(name) => {
                self.end_text();
                self.waits(format!("the model calls {}", sinew_tool::shown_line(name)));
            }
            StreamEvent::Arguments(_) => {}
            StreamEvent::Retry { error, after } => {
                self.text.clear();
                self.end_text();
                self.say(&format!("{error}; next attempt in {:.0} s", after.as_secs_f64()));
                self.waits(String::from("waiting"));
            }
        }
    }

    /// Shows at a terminal which event the run waits for.
    fn waits(&mut self, what: String) {
        self.end_text();
        self.spinner.reset();
        self.spinner.set_prefix("");
        self.spinner.set_message(what);
        self.spinner.enable_steady_tick(TICK);
    }

    /// Writes a line to standard error.
    fn say(&mut self, line: &str) {
        self.spinner.finish_and_clear();
        self.end_text();
        let _ = writeln!(screen::errors(), "{line}");
    }

    /// Shows the difference in the result of an edit.
    fn diff(&mut self, text: &str) {
        let lines = text.lines().skip_while(|line| !line.starts_with("@@"));
        let mut shown = String::new();
        for (n, line) in lines.enumerate() {
            if n == MAX_DIFF_LINES {
                shown.push_str("  ...\n");
                break;
            }
            let style = match line.bytes().next() {
                Some(b'+') => Style::new().green(),
                Some(b'-') => Style::new().red(),
                _ => Style::new().dim(),
            };
            let line = sinew_tool::shown_line(line);
            shown.push_str(&format!("  {}\n", style.for_stderr().apply_to(line)));
        }
        let _ = io::stderr().write_all(shown.as_bytes());
    }

    fn end_text(&mut self) {
        if let Some(markdown) = &mut self.markdown {
            let styled = markdown.finish();
            if !styled.is_empty() {
                self.spinner.finish_and_clear();
                write_styled(&styled);
            }
            self.is_in_text = false;
            return;
        }
        if self.is_in_text {
            let _ = writeln!(io::stdout());
            self.is_in_text = false;
        }
    }

    fn flush_to_errors(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            self.say(text.trim_end());
        }
    }
}

//! Asks the user at the terminal for approvals and confirmations.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::QueueSelector;
use sinew_runtime::question;
use sinew_tool::{Answer, Approver, BoxFuture, Question, Scope};

use crate::screen;

/// Returns whether this process has an interactive terminal.
pub(crate) fn is_attended() -> bool {
    // The standard library would allocate a buffer for what is read.
    rustix::stdio::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a yes/no question. Only an explicit yes counts.
pub(crate) fn confirms(question: &str) -> io::Result<bool> {
    let mut out = screen::errors();
    out.write_all(question.as_bytes())?;
    out.flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(["y", "yes"].contains(&line.trim()))
}

/// Asks on standard error and reads the answer from standard input.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    /// The progress line, which a question takes away.
    pub(crate) progress: Option<ProgressBar>,
    /// Whether an empty line is a yes, where a person has just asked for the call.
    pub(crate) takes_enter: bool,
}

impl Approver for Terminal {
    fn name(&self) -> &'static str {
        "terminal"
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        if let Some(progress) = &self.progress {
            progress.finish_and_clear();
        }
        Box::pin(async move {
            // A separate thread, so that the time-out runs; stderr stays unlocked for other threads.
            let left = Left::default();
            let is_left = Arc::clone(&left.0);
            let takes_enter = self.takes_enter;
            let ask = move || {
                // Discard input that was typed before the question.
                let _ = rustix::termios::tcflush(io::stdin(), QueueSelector::IFlush);
                let mut out = screen::errors();
                let shown = out
                    .write_all(text(&question, takes_enter).as_bytes())
                    .and_then(|()| out.flush());
                match shown.is_ok() && has_line(&is_left) {
                    true => read(&question, takes_enter, &mut io::stdin().lock()),
                    false => Answer::No(None),
                }
            };
            tokio::task::spawn_blocking(ask).await.unwrap_or(Answer::No(None))
        })
    }
}

/// Says, when it is dropped, that no answer is waited for any more.
#[derive(Default)]
struct Left(Arc<AtomicBool>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits for a line on standard input. Returns false once the question is left, so that the next reader gets the line.
fn has_line(is_left: &AtomicBool) -> bool {
    const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !is_left.load(Ordering::SeqCst) {
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&STEP)) {
            Ok(0) | Err(Errno::INTR) => {}
            // Also its end, which reading finds.
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
    false
}

/// The key for each scope.
const LETTERS: [(&str, Scope); 4] =
    [("y", Scope::Call), ("e", Scope::Exact), ("s", Scope::Session), ("f", Scope::Forever)];

fn read(question: &Question, takes_enter: bool, input: &mut impl BufRead) -> Answer {
    let mut line = String::new();
    match input.read_line(&mut line) {
        Ok(n) if takes_enter && n != 0 && line.trim().is_empty() => Answer::Yes(Scope::Call),
        Ok(_) => answer(question, line.trim()),
        Err(_) => Answer::No(None),
    }
}

/// Parses the input. Only an explicit yes counts; words after `n` are sent to the model.
fn answer(question: &Question, typed: &str) -> Answer {
    let offered = |scope: &Scope| question::covers(question, *scope).is_some();
    let typed_scope = LETTERS.into_iter().find_map(|(letter, scope)| {
        let is_meant = typed.eq_ignore_ascii_case(letter) || (letter == "y" && typed == "yes");
        is_meant.then_some(scope)
    });
    if let Some(scope) = typed_scope.filter(offered) {
        return Answer::Yes(scope);
    }
    let said = typed.strip_prefix("n ").or_else(|| typed.strip_prefix("no "));
    let said = said.map(str::trim).filter(|words| !words.is_empty());
    Answer::No(said.map(str::to_owned))
}

/// Returns the question with its keys.
fn text(question: &Question, takes_enter: bool) -> String {
    let mut text = question::words(question);
    if takes_enter {
        text.push_str("Enter runs it, anything else leaves it: ");
        return text;
    }
    let mut letters = String::from("y");
    for (letter, scope) in LETTERS.into_iter().skip(1) {
        if let Some(what) = question::covers(question, scope) {
            if letters == "y" {
                text.push_str("  y  this call\n");
            }
            text.push_str(&format!("  {letter}  {what}\n"));
            letters.push('/');
            letters.push_str(letter);
        }
    }
    text.push_str(&format!("Run it? [{letters}/N] "));
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sinew_tool::{Cover, Targets};

    use super::*;

    fn question(covers: &[(Scope, &str)]) -> Question {
        let cover =
            |(scope, what): &(Scope, &str)| Cover { scope: *scope, what: vec![(*what).into()] };
        Question {
            id: String::from("q1"),
            call_id: String::from("c"),
            session: String::from("s"),
            agent: None,
            asked_for: String::from("c"),
            tool: String::from("Bash"),
            tool_origin: None,
            effects: vec!["execute"],
            targets: Targets::default(),
            arguments: sinew_tool::Arguments::new(),
            is_open: false,
            diff: None,
            sandbox: None,
            rule: "execute",
            origin: None,
            why: String::from("running a program asks"),
            covers: covers.iter().map(cover).collect(),
            n_asked: 1,
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let no = |words: &str| Answer::No((!words.is_empty()).then(|| words.to_owned()));
        let both = &[(Scope::Session, "git commit *"), (Scope::Forever, "git commit *")][..];
        for (covers, typed, expected) in [
            (&[][..], "y\n", Answer::Yes(Scope::Call)),
            (&[], "yes\n", Answer::Yes(Scope::Call)),
            (&[], "Y\n", Answer::Yes(Scope::Call)),
            (&[], "\n", no("")),
            (&[], "yep\n", no("")),
            (&[], "", no("")),
            (&[], "s\n", no("")),
            (&[], "n use git instead\n", no("use git instead")),
            (&[], "no \n", no("")),
            (both, "s\n", Answer::Yes(Scope::Session)),
            (both, "f\n", Answer::Yes(Scope::Forever)),
            (both, "e\n", no("")),
            (both, "\n", no("")),
        ] {
            let question = question(covers);
            assert_eq!(read(&question, false, &mut typed.as_bytes()), expected, "{typed:?}");
            let prompt = if covers.is_empty() { "Run it? [y/N] " } else { "Run it? [y/s/f/N] " };
            assert!(text(&question, false).ends_with(prompt));
        }
    }

    #[test]
    fn enter_is_a_yes_where_the_person_asked_for_the_call() {
        let question = question(&[]);
        let answer = |typed: &str| read(&question, true, &mut typed.as_bytes());
        assert_eq!(answer("\n"), Answer::Yes(Scope::Call));
        assert_eq!(answer("y\n"), Answer::Yes(Scope::Call));
        for no in ["", "n\n", "what\n"] {
            assert_eq!(answer(no), Answer::No(None), "{no:?}");
        }
        assert!(text(&question, true).ends_with("Enter runs it, anything else leaves it: "));
    }

    #[test]
    fn what_an_answer_covers_is_shown() {
        let shown = text(
            &question(&[(Scope::Session, "git commit *"), (Scope::Forever, "git commit *")]),
            false,
        );
        assert!(
            shown.ends_with(
                "  y  this call\n  s  for this session: git commit *\n  \
                 f  always in this project: git commit *\nRun it? [y/s/f/N] "
            ),
            "{shown}"
        );
    }
}

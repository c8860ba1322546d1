//! Asks the user at the terminal for approvals and confirmations.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use sinew_tool::sync::lock;
use sinew_tool::{Answer, Approver, BoxFuture, Question, Scope};

use crate::live_output::Hold;
use crate::screen;
use crate::shown_question::{OnEnter, ShownQuestion};

/// Returns whether this process has an interactive terminal.
pub(crate) fn is_attended() -> bool {
    // The standard library would allocate a read buffer.
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
    /// What Enter answers.
    pub(crate) on_enter: OnEnter,
}

impl Approver for Terminal {
    fn name(&self) -> &'static str {
        "terminal"
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Answer> {
        if let Some(progress) = &self.progress {
            progress.finish_and_clear();
        }
        Box::pin(ask(ShownQuestion::of(&question), self.on_enter))
    }

    fn is_at_terminal(&self) -> bool {
        is_attended()
    }
}

/// Shows a question and waits for its answer. Dropping the future takes the question away.
pub(crate) async fn ask(question: ShownQuestion, on_enter: OnEnter) -> Answer {
    // One question at a time has the terminal and its keys.
    let mut last = LAST_ANSWER.lock().await;
    // A separate thread, so that the time-out runs; stderr stays unlocked for other threads.
    let left = Left::default();
    let is_left = Arc::clone(&left.0);
    let ask = move || {
        let _hold = Hold::begin();
        let quiet = quiet(last.as_ref(), on_enter, question.is_running);
        if on_enter == OnEnter::AsByDefault {
            // A bell, since the person may look at another window.
            let _ = io::stderr().write_all(b"\x07\n");
        }
        let mode = OneKey::set();
        let mut keys = TerminalKeys { is_left: Arc::clone(&is_left), mode, quiet };
        let window = tcgetwinsize(io::stderr()).ok();
        let window = window.map(|size| (size.ws_col.into(), size.ws_row.into()));
        let answer = decide(&question, (on_enter, window), &mut keys, &mut screen::errors());
        let was_left = is_left.load(Ordering::SeqCst);
        *last = Some(LastAnswer { at: Instant::now(), was_left });
        answer.unwrap_or_else(|_| unanswered(on_enter))
    };
    tokio::task::spawn_blocking(ask).await.unwrap_or_else(|_| unanswered(on_enter))
}

/// Returns how long no key may be typed before keys count.
fn quiet(last: Option<&LastAnswer>, on_enter: OnEnter, is_running: bool) -> Duration {
    match last {
        // The person may still answer the one before.
        Some(LastAnswer { was_left: true, at }) if at.elapsed() < LEFT => LEFT,
        _ if on_enter == OnEnter::AsByDefault || is_running => UNREAD,
        Some(LastAnswer { at, .. }) if at.elapsed() < 2 * UNREAD => UNREAD,
        _ => Duration::ZERO,
    }
}

/// Returns the answer where no person gave one. Others may still answer what a client asks.
fn unanswered(on_enter: OnEnter) -> Answer {
    match on_enter {
        OnEnter::AsByDefault => Answer::Gone,
        OnEnter::Denies | OnEnter::Runs => Answer::No(None),
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

/// How the last question ended. It is locked while one is shown.
static LAST_ANSWER: tokio::sync::Mutex<Option<LastAnswer>> = tokio::sync::Mutex::const_new(None);
/// How long keys are ignored where a question follows the answer to another one, or may appear while a person types.
const UNREAD: Duration = Duration::from_millis(300);
/// The same where it follows one that was left while the person may have been typing.
const LEFT: Duration = Duration::from_secs(1);

/// How a question ended.
struct LastAnswer {
    at: Instant,
    /// Whether it was answered elsewhere, or too late.
    was_left: bool,
}

/// Where the keys of an answer come from.
trait Keys {
    /// Discards the keys that were typed before the question was shown and read.
    fn shown(&mut self);

    /// Waits for the next key; `None` at the end of the input, or once the question is left.
    fn next(&mut self) -> Option<u8>;

    /// Reads the rest of a line, shown as it is typed; `None` once the question is left.
    fn line(&mut self) -> Option<String>;
}

/// Said where a question is answered elsewhere, or its time is over.
const NOT_HERE: &str = "not answered here";

/// The keys that are typed at the terminal.
struct TerminalKeys {
    is_left: Arc<AtomicBool>,
    mode: Option<OneKey>,
    /// No key counts before none was typed for so long.
    quiet: Duration,
}

impl Keys for TerminalKeys {
    fn shown(&mut self) {
        loop {
            let _ = rustix::termios::tcflush(io::stdin(), QueueSelector::IFlush);
            let quiet = Timespec::try_from(self.quiet).ok();
            let stdin = io::stdin();
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            let was_typed = self.quiet != Duration::ZERO
                && poll(&mut fds, quiet.as_ref()).is_ok_and(|ready| 0 < ready)
                && fds.iter().all(|fd| fd.revents() == PollFlags::IN);
            if !was_typed || self.is_left.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    fn next(&mut self) -> Option<u8> {
        let mut key = [0];
        match has_input(&self.is_left) {
            true => match rustix::io::retry_on_intr(|| rustix::io::read(io::stdin(), &mut key)) {
                Ok(1) => Some(key[0]),
                _ => None,
            },
            false => None,
        }
    }

    fn line(&mut self) -> Option<String> {
        self.mode = None;
        // Keys from before the change of mode are read without an end of line.
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut some = [0; 256];
            if !has_input(&self.is_left) {
                return None;
            }
            match rustix::io::retry_on_intr(|| rustix::io::read(io::stdin(), &mut some)) {
                Ok(n @ 1..) => line.extend(some.iter().take(n)),
                _ => break,
            }
        }
        Some(String::from_utf8_lossy(&line).into_owned())
    }
}

/// The mode of the terminal before a question changed it.
static MODE_BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// A terminal that hands over each key at once, without showing it; dropping it restores the mode.
struct OneKey(());

impl OneKey {
    fn set() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut mode = before.clone();
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        *lock(&MODE_BEFORE) = Some(before);
        tcsetattr(io::stdin(), OptionalActions::Now, &mode).ok()?;
        Some(Self(()))
    }
}

impl Drop for OneKey {
    fn drop(&mut self) {
        restore_mode();
    }
}

/// Restores the mode that the terminal had before a question, also where the process ends during one.
pub(crate) fn restore_mode() {
    if let Some(before) = lock(&MODE_BEFORE).take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}

/// Waits for input. Returns false once the question is left, so that the next reader gets the input.
fn has_input(is_left: &AtomicBool) -> bool {
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

/// Shows a question and reads keys until one of them answers it. Only an explicit yes counts.
fn decide(
    question: &ShownQuestion,
    (on_enter, window): (OnEnter, Option<(usize, usize)>),
    keys: &mut impl Keys,
    out: &mut impl Write,
) -> io::Result<Answer> {
    let prompt = question.prompt(on_enter, window);
    // After everything else nothing may be left of the first lines.
    let again = question.prompt(on_enter, window.map(|(columns, _)| (columns, 0)));
    write!(out, "{}{prompt}", question.first(on_enter))?;
    out.flush()?;
    keys.shown();
    loop {
        let Some(key) = keys.next() else {
            writeln!(out, "{NOT_HERE}")?;
            return Ok(unanswered(on_enter));
        };
        if let Some((shown, scope)) = question.scope_of(key) {
            writeln!(out, "{shown}")?;
            return Ok(Answer::Yes(scope));
        }
        match key {
            b'\r' | b'\n' if question.runs_on_enter(on_enter) => {
                writeln!(out, "yes")?;
                return Ok(Answer::Yes(Scope::Call));
            }
            b'n' | b'N' if on_enter != OnEnter::Runs => {
                write!(out, "no\nWhy not, for the model (Enter for no reason): ")?;
                out.flush()?;
                let Some(reason) = keys.line() else {
                    writeln!(out, "{NOT_HERE}")?;
                    return Ok(Answer::No(None));
                };
                let reason = reason.trim();
                return Ok(Answer::No((!reason.is_empty()).then(|| reason.to_owned())));
            }
            b'd' | b'D' if let Some(diff) = question.diff() => {
                write!(out, "\n{diff}{again}")?;
                out.flush()?;
            }
            b'?' => {
                write!(out, "\n{}{again}", question.words())?;
                out.flush()?;
            }
            _ => {
                writeln!(out, "no")?;
                return Ok(Answer::No(None));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sinew_tool::{Cover, Targets};

    use super::*;

    fn question(covers: &[(Scope, &str)]) -> Question {
        let cover = |(scope, what): &(Scope, &str)| Cover {
            scope: *scope,
            what: vec![(*what).into()],
            only_at_terminal: false,
        };
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
            undo: sinew_tool::UndoCover::None,
            unkept: None,
            is_running: false,
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

    /// Keys of a text.
    struct Typed<'a>(std::str::Bytes<'a>);

    impl Keys for Typed<'_> {
        fn shown(&mut self) {}

        fn next(&mut self) -> Option<u8> {
            self.0.next()
        }

        fn line(&mut self) -> Option<String> {
            let bytes: Vec<u8> = self.0.by_ref().take_while(|byte| *byte != b'\n').collect();
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
    }

    fn answered(question: &Question, on_enter: OnEnter, typed: &str) -> (Answer, String) {
        let mut out = Vec::new();
        let question = ShownQuestion::of(question);
        let answer = decide(&question, (on_enter, None), &mut Typed(typed.bytes()), &mut out);
        (answer.expect("it is written"), String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let no = |words: &str| Answer::No((!words.is_empty()).then(|| words.to_owned()));
        let both = &[(Scope::Session, "git commit *"), (Scope::Forever, "git commit *")][..];
        for (covers, typed, expected) in [
            (&[][..], "y", Answer::Yes(Scope::Call)),
            (&[], "yes\n", Answer::Yes(Scope::Call)),
            (&[], "Y", Answer::Yes(Scope::Call)),
            (&[], "\n", no("")),
            (&[], "", no("")),
            (&[], "x", no("")),
            (&[], "s", no("")),
            (&[], "\u{1b}", no("")),
            (&[], "nuse git instead\n", no("use git instead")),
            (&[], "n use git\n", no("use git")),
            (&[], "n \n", no("")),
            (&[], "n", no("")),
            (&[], "?y", Answer::Yes(Scope::Call)),
            (&[], "dy", no("")),
            (both, "s", Answer::Yes(Scope::Session)),
            (both, "f", Answer::Yes(Scope::Forever)),
            (both, "a", Answer::Yes(Scope::Forever)),
            (both, "e", no("")),
            (both, "\n", no("")),
        ] {
            let question = question(covers);
            let (answer, shown) = answered(&question, OnEnter::Denies, typed);
            assert_eq!(answer, expected, "{typed:?}");
            let prompt = if covers.is_empty() { "[y/?/N] " } else { "[y/s/a/?/N] " };
            assert!(shown.contains(prompt), "{shown}");
        }
    }

    #[test]
    fn question_of_a_running_command_asks_whether_it_goes_on() {
        let change = sinew_tool::UnkeptChange {
            path: "/w/big".into(),
            size: None,
            removes: true,
            why: "why",
        };
        let question = Question { unkept: Some(change), is_running: true, ..question(&[]) };
        let keys = "  y  yes\n  n  no, with a reason\n  ?  show everything\nGo on? [y/?/N] ";
        for (on_enter, unanswered) in
            [(OnEnter::Denies, Answer::No(None)), (OnEnter::AsByDefault, Answer::Gone)]
        {
            for (typed, expected) in [
                ("y", &Answer::Yes(Scope::Call)),
                ("\n", &Answer::No(None)),
                ("s", &Answer::No(None)),
                ("nnot now\n", &Answer::No(Some(String::from("not now")))),
                ("", &unanswered),
            ] {
                let (answer, shown) = answered(&question, on_enter, typed);
                assert_eq!(&answer, expected, "{on_enter:?} {typed:?}");
                assert!(shown.contains(keys), "{shown}");
            }
        }
        // Another process may show it.
        for (question, is_told) in [(question, true), (self::question(&[]), false)] {
            let sent = serde_json::to_string(&ShownQuestion::of(&question)).expect("JSON");
            assert_eq!(sent.contains("is_running"), is_told, "{sent}");
            let read: ShownQuestion = serde_json::from_str(&sent).expect("it is read");
            assert_eq!(read.prompt(OnEnter::Denies, None).contains("Go on?"), is_told, "{sent}");
        }
    }

    #[test]
    fn keys_count_once_none_is_typed() {
        let ago = |millis, was_left| {
            let at = Instant::now().checked_sub(Duration::from_millis(millis)).expect("a time");
            Some(LastAnswer { at, was_left })
        };
        for (last, on_enter, is_running, expected) in [
            (None, OnEnter::Denies, false, Duration::ZERO),
            (None, OnEnter::Denies, true, UNREAD),
            (None, OnEnter::AsByDefault, false, UNREAD),
            (ago(100, false), OnEnter::Denies, false, UNREAD),
            (ago(100, false), OnEnter::Runs, true, UNREAD),
            (ago(5_000, false), OnEnter::Denies, false, Duration::ZERO),
            (ago(5_000, false), OnEnter::Denies, true, UNREAD),
            (ago(100, true), OnEnter::Denies, true, LEFT),
            (ago(5_000, true), OnEnter::Denies, true, UNREAD),
        ] {
            let found = quiet(last.as_ref(), on_enter, is_running);
            let elapsed = last.map(|last| last.at.elapsed());
            assert_eq!(found, expected, "{elapsed:?} {on_enter:?} {is_running}");
        }
    }

    #[test]
    fn enter_is_a_yes_where_the_person_asked_for_the_call() {
        let question = question(&[]);
        let answer = |typed: &str| answered(&question, OnEnter::Runs, typed).0;
        assert_eq!(answer("\n"), Answer::Yes(Scope::Call));
        assert_eq!(answer("y"), Answer::Yes(Scope::Call));
        for no in ["", "n", "what\n"] {
            assert_eq!(answer(no), Answer::No(None), "{no:?}");
        }
        let (_, shown) = answered(&question, OnEnter::Runs, "");
        assert!(shown.contains("\nEnter runs it, any other key denies it: "), "{shown}");
    }

    #[test]
    fn enter_answers_as_by_default_beside_a_client() {
        for (undo, prompt, on_enter) in [
            (sinew_tool::UndoCover::All, "[Y/s/?/n] ", Answer::Yes(Scope::Call)),
            (sinew_tool::UndoCover::None, "[y/s/?/N] ", Answer::No(None)),
        ] {
            let question = Question { undo, ..question(&[(Scope::Session, "git commit *")]) };
            for (typed, expected) in [
                ("\n", &on_enter),
                ("y", &Answer::Yes(Scope::Call)),
                ("s", &Answer::Yes(Scope::Session)),
                ("x", &Answer::No(None)),
                ("", &Answer::Gone),
            ] {
                let (answer, shown) = answered(&question, OnEnter::AsByDefault, typed);
                assert_eq!(&answer, expected, "{undo:?} {typed:?}");
                assert!(shown.contains(prompt), "{shown}");
            }
        }
    }

    #[test]
    fn a_small_terminal_shows_the_first_lines_again() {
        let question = ShownQuestion::of(&question(&[(Scope::Session, "git commit *")]));
        for (window, n) in
            [(None, 0), (Some((120, 40)), 0), (Some((20, 24)), 0), (Some((20, 6)), 1)]
        {
            let prompt = question.prompt(OnEnter::Denies, window);
            assert_eq!(prompt.matches("Run Bash?").count(), n, "{window:?}: {prompt}");
            assert!(prompt.ends_with("Run it? [y/s/?/N] "), "{prompt}");
        }
    }

    #[test]
    fn what_an_answer_covers_is_shown() {
        let covers = [(Scope::Session, "git commit *"), (Scope::Forever, "git commit *")];
        let question = Question { diff: Some(String::from("+a\n")), ..question(&covers) };
        let (_, shown) = answered(&question, OnEnter::Denies, "d");
        let keys = "  y  once\n  s  for this session: git commit *\n  \
                    a  always in this project: git commit *\n  n  no, with a reason\n  \
                    d  show the difference\n  ?  show everything\nRun it? [y/s/a/d/?/N] ";
        let nothing_more = "not answered here\n";
        assert!(shown.ends_with(&format!("{keys}\n+a\n{keys}{nothing_more}")), "{shown}");
        assert!(!shown.starts_with("+a"), "the difference waits for its key: {shown}");
    }
}

//! One command that goes on after the call that began it: what it wrote lately, its screen where it has a
//! terminal, and how it ended.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sinew_tool::{Background, Exit, News, Screen, Size, Typed, Wait, Waited};
use tokio::sync::watch;
use tokio::time::sleep_until;

use super::capture::Spool;
use super::spool::ToStore;
use super::terminal::{Emulator, hides_input, set_size};
use super::wire::{self, Command};

/// What is kept in memory of an output that nobody has looked at, in bytes.
const MAX_UNREAD: usize = 1 << 20;
/// How long a text may be that is waited for, in bytes.
const MAX_MATCH: usize = 16 << 10;
/// How long a program may take to read what is typed.
const TYPED: Duration = Duration::from_secs(2);

/// A command that goes on.
pub(super) struct Ongoing {
    pub(super) id: String,
    command: String,
    since: Instant,
    stored: Option<String>,
    /// The line to its keeper.
    line: OwnedFd,
    /// Our end of its terminal.
    terminal: Option<OwnedFd>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

impl fmt::Debug for Ongoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ongoing").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What changes while it goes on.
struct State {
    recent: Recent,
    written_at: Instant,
    /// How much of its output somebody has looked at.
    seen: u64,
    emulator: Option<Emulator>,
    /// How it ended and how long it ran, once it did.
    ended: Option<(Exit, Duration)>,
    /// Whether somebody was told that it ended.
    is_told: bool,
}

/// The end of an output.
#[derive(Default)]
struct Recent {
    bytes: VecDeque<u8>,
    total: u64,
}

impl Recent {
    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let newest = bytes.get(bytes.len().saturating_sub(MAX_UNREAD)..).unwrap_or_default();
        let excess = (self.bytes.len() + newest.len()).saturating_sub(MAX_UNREAD);
        self.bytes.drain(..excess.min(self.bytes.len()));
        self.bytes.extend(newest);
    }

    /// Returns what was written from a place on, as far as it is kept, and how much of it is not.
    fn from(&self, place: u64) -> (Vec<u8>, u64) {
        let first = self.total - self.bytes.len() as u64;
        let skipped = usize::try_from(place.saturating_sub(first)).unwrap_or(usize::MAX);
        let bytes = self.bytes.iter().skip(skipped).copied().collect();
        (bytes, first.saturating_sub(place))
    }
}

/// What a command that goes on is named by.
pub(super) struct Named {
    pub(super) id: String,
    pub(super) command: String,
    pub(super) stored: Option<String>,
}

impl Ongoing {
    pub(super) fn new(named: Named, line: OwnedFd, terminal: Option<(OwnedFd, Size)>) -> Self {
        let Named { id, command, stored } = named;
        let since = Instant::now();
        let (terminal, size) = terminal.unzip();
        let state = State {
            recent: Recent::default(),
            written_at: since,
            seen: 0,
            emulator: size.map(Emulator::new),
            ended: None,
            is_told: false,
        };
        let (state, changed) = (Mutex::new(state), watch::Sender::new(()));
        Self { id, command, since, stored, line, terminal, state, changed }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the command wrote.
    fn wrote(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.recent.push(bytes);
        state.written_at = Instant::now();
        let answers = state.emulator.as_mut().map(|emulator| emulator.take(bytes));
        drop(state);
        self.changed.send_replace(());
        if let (Some(terminal), Some(answers)) = (&self.terminal, answers) {
            // A program that does not read its answers does not get them.
            let _ = rustix::io::write(terminal, &answers);
        }
    }

    /// Remembers how it ended.
    pub(super) fn end(&self, exit: Exit) {
        self.state().ended = Some((exit, self.since.elapsed()));
        self.changed.send_replace(());
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// Returns it where it has ended and nobody was told, and counts as told from then on.
    pub(super) fn ended_untold(&self) -> Option<Background> {
        let mut state = self.state();
        let is_news = state.ended.is_some() && !state.is_told;
        state.is_told |= is_news;
        is_news.then(|| self.told(&state))
    }

    /// Returns what is known of it.
    pub(super) fn show(&self) -> Background {
        self.told(&self.state())
    }

    fn told(&self, state: &State) -> Background {
        Background {
            id: self.id.clone(),
            command: self.command.clone(),
            is_terminal: self.terminal.is_some(),
            duration: state.ended.as_ref().map_or(self.since.elapsed(), |(_, lasted)| *lasted),
            stored: self.stored.clone(),
            n_written: state.recent.total,
            n_unread: state.recent.total - state.seen,
            exit: state.ended.as_ref().map(|(exit, _)| exit.clone()),
        }
    }

    /// Waits for what is asked, or the end of the command.
    pub(super) async fn wait(&self, wait: &Wait) -> Waited {
        let mut changes = self.changed.subscribe();
        let began = Instant::now();
        let until = began + wait.at_most;
        // Where the look begins: what was looked at is looked at again as far as one text may reach.
        let mut from = self.state().seen;
        loop {
            changes.borrow_and_update();
            let (has_ended, written_at, matched) = {
                let state = self.state();
                let matched = wait.until.as_ref().is_some_and(|matches| {
                    let filled = state.emulator.as_ref().and_then(Emulator::filled);
                    filled.map_or_else(
                        || {
                            let (bytes, n_lost) = state.recent.from(from);
                            let again = bytes.len().saturating_sub(MAX_MATCH);
                            let before = bytes.get(..again).unwrap_or_default();
                            let line = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
                            from += n_lost + line as u64;
                            matches(&bytes)
                        },
                        |screen| matches(screen.as_bytes()),
                    )
                });
                (state.ended.is_some(), state.written_at, matched)
            };
            let now = Instant::now();
            let quiet_at = wait.idle.map(|idle| written_at.max(began) + idle);
            if matched {
                return Waited::Matched;
            }
            if has_ended {
                return Waited::Ended;
            }
            if quiet_at.is_some_and(|at| at <= now) {
                return Waited::Idle;
            }
            if until <= now || wait.cancel.is_cancelled() {
                return Waited::OutOfTime;
            }
            let next = quiet_at.map_or(until, |at| at.min(until));
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(next.into()) => {}
                () = wait.cancel.cancelled() => {}
            }
        }
    }

    /// Waits, and returns what was written since the last look.
    pub(super) async fn news(&self, wait: &Wait, whole_lines: bool) -> News {
        let waited = self.wait(wait).await;
        let mut state = self.state();
        let (mut bytes, n_lost) = state.recent.from(state.seen);
        if state.ended.is_none() {
            let end = match whole_lines {
                true => memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1),
                false => whole_characters(&bytes),
            };
            bytes.truncate(end);
        }
        state.seen += n_lost + bytes.len() as u64;
        state.is_told |= state.ended.is_some();
        News { background: self.told(&state), bytes, n_lost, waited }
    }

    /// Waits, and returns what stands on the screen, where there is one.
    pub(super) async fn screen(&self, wait: &Wait) -> Option<Screen> {
        let hides_input = self.terminal.as_ref().map(hides_input)?;
        let waited = self.wait(wait).await;
        let mut state = self.state();
        state.seen = state.recent.total;
        state.is_told |= state.ended.is_some();
        let background = self.told(&state);
        let emulator = state.emulator.as_mut()?;
        let (size, looked) = (emulator.size(), emulator.look());
        let hides_input = background.exit.is_none()
            && (hides_input || self.terminal.as_ref().is_some_and(self::hides_input));
        let super::terminal::Looked { rows, changed, cursor } = looked;
        Some(Screen { background, size, rows, changed, cursor, hides_input, waited })
    }

    /// Asks it to end.
    pub(super) fn stop(&self) {
        let _ = wire::send(&self.line, &Command::Stop, &[]);
    }

    /// Ends it at once.
    pub(super) fn kill(&self) {
        let _ = wire::send(&self.line, &Command::Kill, &[]);
    }

    /// Gives its terminal another size, of which the kernel tells the program.
    pub(super) fn resize(&self, rows: Option<u16>, cols: Option<u16>) -> Result<(), NotTyped> {
        let terminal = self.terminal.as_ref().ok_or(NotTyped::NoTerminal)?;
        let mut state = self.state();
        let emulator = state.emulator.as_mut().ok_or(NotTyped::NoTerminal)?;
        let Size { rows: now_rows, cols: now_cols } = emulator.size();
        let size = Size { rows: rows.unwrap_or(now_rows), cols: cols.unwrap_or(now_cols) };
        set_size(terminal, size).map_err(NotTyped::Broken)?;
        emulator.resize(size);
        // What the program draws anew is waited for.
        state.written_at = Instant::now();
        Ok(())
    }

    /// Types into its terminal.
    pub(super) fn enter(&self, typed: &[Typed]) -> Result<(), NotTyped> {
        let terminal = self.terminal.as_ref().ok_or(NotTyped::NoTerminal)?;
        let is_line = |one: &Typed| match one {
            Typed::Text(_) => true,
            Typed::Key(key) => *key == sinew_tool::Key::Enter,
        };
        if hides_input(terminal) && typed.iter().any(is_line) {
            return Err(NotTyped::Secret);
        }
        let bytes = {
            let mut state = self.state();
            if state.ended.is_some() {
                return Err(NotTyped::Ended);
            }
            // What is waited for next comes after this.
            state.seen = state.recent.total;
            state.emulator.as_ref().map(|emulator| emulator.bytes_of(typed)).unwrap_or_default()
        };
        write_all(terminal, &bytes)
    }
}

/// Why nothing, or not everything, was typed.
#[derive(Debug)]
pub(super) enum NotTyped {
    NoTerminal,
    /// The command ended before.
    Ended,
    /// The program shows nothing of what is typed.
    Secret,
    /// The program does not read; so many bytes of so many were typed.
    Full(usize, usize),
    Broken(io::Error),
}

fn write_all(terminal: &OwnedFd, bytes: &[u8]) -> Result<(), NotTyped> {
    let until = Instant::now() + TYPED;
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::write(terminal, bytes.get(done..).unwrap_or_default()) {
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = until.saturating_duration_since(Instant::now());
                let mut watched = [PollFd::new(terminal, PollFlags::OUT)];
                let n = poll(&mut watched, Timespec::try_from(left).ok().as_ref());
                if left.is_zero() || n == Ok(0) {
                    return Err(NotTyped::Full(done, bytes.len()));
                }
            }
            Err(errno) => return Err(NotTyped::Broken(errno.into())),
        }
    }
    Ok(())
}

/// Returns how many bytes there are without a character that has only begun.
fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3);
    let begun = bytes.iter().skip(last).rposition(|byte| 0xc0 <= *byte).map(|at| last + at);
    match begun {
        Some(at) if is_cut(bytes.get(at..).unwrap_or_default()) => at,
        _ => bytes.len(),
    }
}

fn is_cut(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// What follows a command that goes on: the store and everybody who waits.
pub(super) struct Tee<'o> {
    pub(super) store: ToStore,
    pub(super) ongoing: &'o Ongoing,
}

impl Spool for Tee<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.store.write(bytes);
        self.ongoing.wrote(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_has_only_begun_waits() {
        for (bytes, whole) in [
            (&b"abc"[..], 3),
            (b"", 0),
            ("é".as_bytes(), 2),
            (b"a\xc3", 1),
            (b"a\xe6\xbc", 1),
            (b"\xf0\x9f\x8e", 0),
            ("🎉".as_bytes(), 4),
            (b"a\xff", 2),
            (b"a\x80\x80\x80", 4),
        ] {
            assert_eq!(whole_characters(bytes), whole, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_not_kept_is_counted() {
        let mut recent = Recent::default();
        recent.push(b"abc");
        assert_eq!(recent.from(1), (b"bc".to_vec(), 0));
        recent.push(&vec![b'x'; MAX_UNREAD]);
        let (bytes, n_lost) = recent.from(1);
        assert_eq!((bytes.len(), n_lost), (MAX_UNREAD, 2));
        assert_eq!(recent.from(recent.total), (Vec::new(), 0));
    }
}

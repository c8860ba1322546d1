//! Background command, which outlives the call that began it: recent output, terminal screen and exit. Every
//! reply of the session asks for its state, so that lock is held only briefly. The screen has a lock of its
//! own, because a program can keep the thread that draws it busy.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use sinew_tool::sync::lock;
use sinew_tool::{
    Background, Exit, MAX_STORED_OUTPUT, Matcher, News, SandboxFindings, Screen, Size, Wait, Waited,
};
use tokio::sync::watch;
use tokio::time::sleep_until;

use super::capture::Spool;
use super::input_queue::{InputQueue, NotTyped};
use super::spool::ToStore;
use super::terminal::{Emulator, Looked, Tty};
use super::wire::{self, Command};

/// The most unread output kept in memory, in bytes.
const MAX_UNREAD: usize = 1 << 20;
/// The longest text that can be waited for, in bytes: so much is searched again with the next output.
const MAX_MATCH: usize = 16 << 10;
/// How many seen lines are searched too: a text may be written before the client waits for it.
const SEEN_LINES: usize = 20;
/// Output up to this size is searched without a thread, in bytes.
const LITTLE: usize = 16 << 10;
/// The pause between two searches of growing output.
const PAUSE: Duration = Duration::from_millis(20);
/// How much output is drawn at once, in bytes.
const PIECE: usize = 128;
/// How long the drawing of one read may take.
const DRAWN: Duration = Duration::from_millis(200);

/// A background command.
pub(super) struct Ongoing {
    pub(super) id: String,
    pub(super) command: String,
    since: Instant,
    state: Mutex<State>,
    /// Its screen, if it has a terminal.
    emulator: Option<Mutex<Emulator>>,
    /// The fds that it needs while it runs.
    handles: Mutex<Option<Handles>>,
    input_queue: InputQueue,
    changed: watch::Sender<()>,
}

impl fmt::Debug for Ongoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ongoing").field("id", &self.id).finish_non_exhaustive()
    }
}

struct Handles {
    /// The socket to its supervisor.
    line: OwnedFd,
    tty: Option<Arc<Tty>>,
}

/// The state that changes while it runs.
struct State {
    recent: Recent,
    written_at: Instant,
    /// How many bytes of its output the client has seen.
    seen: u64,
    stored: Option<String>,
    /// How it ended and how long it ran, once it did.
    ended: Option<(Exit, Duration)>,
    /// What the sandbox refused; known at its end.
    findings: SandboxFindings,
    /// Whether a reply has reported its end.
    is_told: bool,
}

impl State {
    /// Returns the last lines that the client has seen, if kept, and the offset of the unfinished one.
    fn seen_lines(&self) -> (Vec<u8>, u64) {
        let kept_from = self.recent.total - self.recent.bytes.len() as u64;
        let from = self.seen.saturating_sub(MAX_MATCH as u64).max(kept_from);
        let n_seen = usize::try_from(self.seen.saturating_sub(from)).unwrap_or(0);
        let (mut bytes, _) = self.recent.from(from);
        bytes.truncate(n_seen);
        let last_line = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
        let first_line = memchr::memrchr_iter(b'\n', &bytes).nth(SEEN_LINES).map_or(0, |at| at + 1);
        let line_from = self.seen - (bytes.len() - last_line) as u64;
        bytes.drain(..first_line);
        (bytes, line_from)
    }
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

    /// Returns the output from an offset on, as far as it is kept, and how many bytes are lost.
    fn from(&self, place: u64) -> (Vec<u8>, u64) {
        let first = self.total - self.bytes.len() as u64;
        let skipped = usize::try_from(place.saturating_sub(first)).unwrap_or(usize::MAX);
        let bytes = self.bytes.iter().skip(skipped).copied().collect();
        (bytes, first.saturating_sub(place))
    }
}

/// The names of a background command.
pub(super) struct Named {
    pub(super) id: String,
    pub(super) command: String,
    pub(super) stored: Option<String>,
}

impl Ongoing {
    pub(super) fn new(named: Named, line: OwnedFd, terminal: Option<(Tty, Size)>) -> Self {
        let Named { id, command, stored } = named;
        let since = Instant::now();
        let (tty, size) = terminal.unzip();
        let state = State {
            recent: Recent::default(),
            written_at: since,
            seen: 0,
            stored,
            ended: None,
            findings: SandboxFindings::default(),
            is_told: false,
        };
        Self {
            id,
            command,
            since,
            state: Mutex::new(state),
            emulator: size.map(|size| Mutex::new(Emulator::new(size))),
            handles: Mutex::new(Some(Handles { line, tty: tty.map(Arc::new) })),
            input_queue: InputQueue::default(),
            changed: watch::Sender::new(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns its screen, locked.
    pub(super) fn emulator(&self) -> Option<MutexGuard<'_, Emulator>> {
        let emulator = self.emulator.as_ref()?;
        Some(lock(emulator))
    }

    fn handles(&self) -> MutexGuard<'_, Option<Handles>> {
        lock(&self.handles)
    }

    /// Returns its terminal while it runs.
    pub(super) fn tty(&self) -> Result<Arc<Tty>, NotTyped> {
        if self.emulator.is_none() {
            return Err(NotTyped::NoTerminal);
        }
        let tty = self.handles().as_ref().and_then(|handles| handles.tty.clone());
        tty.ok_or(NotTyped::Ended)
    }

    pub(super) fn input_queue(&self) -> &InputQueue {
        &self.input_queue
    }

    /// Takes output of the command, and whether the store lost it.
    fn wrote(&self, bytes: &[u8], is_lost: bool) {
        if self.emulator.is_some() {
            self.draw(bytes);
        }
        let mut state = self.state();
        state.recent.push(bytes);
        state.written_at = Instant::now();
        if is_lost {
            state.stored = None;
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Draws output for at most [`DRAWN`], since a few bytes can take long, and skips the rest.
    fn draw(&self, bytes: &[u8]) {
        let until = Instant::now() + DRAWN;
        for piece in bytes.chunks(PIECE) {
            let is_late = until <= Instant::now();
            let answers = self.emulator().map(|mut emulator| match is_late {
                true => emulator.skip(piece),
                false => emulator.take(piece),
            });
            if let (Ok(tty), Some(answers)) = (self.tty(), answers) {
                tty.answer(&answers);
            }
        }
    }

    /// Records its end.
    pub(super) fn end(&self, exit: Exit, findings: SandboxFindings) {
        *self.handles() = None;
        self.input_queue.rest();
        let mut state = self.state();
        state.ended = Some((exit, self.since.elapsed()));
        state.findings = findings;
        drop(state);
        self.changed.send_replace(());
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// Returns it if it has ended and no reply has reported that, and marks its end as reported.
    pub(super) fn ended_untold(&self) -> Option<Background> {
        let mut state = self.state();
        let is_news = state.ended.is_some() && !state.is_told;
        state.is_told |= is_news;
        is_news.then(|| self.told(&state))
    }

    /// Returns its state for a reply, and marks its end as reported.
    pub(super) fn show(&self) -> Background {
        let mut state = self.state();
        state.is_told |= state.ended.is_some();
        self.told(&state)
    }

    fn told(&self, state: &State) -> Background {
        Background {
            id: self.id.clone(),
            command: self.command.clone(),
            is_terminal: self.emulator.is_some(),
            duration: state.ended.as_ref().map_or(self.since.elapsed(), |(_, lasted)| *lasted),
            stored: state.stored.clone(),
            n_stored: state.recent.total.min(MAX_STORED_OUTPUT),
            n_written: state.recent.total,
            n_unread: state.recent.total - state.seen,
            exit: state.ended.as_ref().map(|(exit, _)| exit.clone()),
            findings: state.findings.clone(),
        }
    }

    /// Waits for the condition or the end of the command; returns `None` if the wait is cancelled.
    pub(super) async fn wait(&self, wait: &Wait) -> Option<Waited> {
        let from = self.state().seen;
        self.wait_from(wait, from).await
    }

    /// Waits as [`Self::wait`] does, and searches for a text from an offset on.
    async fn wait_from(&self, wait: &Wait, from: u64) -> Option<Waited> {
        let mut changes = self.changed.subscribe();
        let began = Instant::now();
        let until = began + wait.at_most;
        let mut search = wait.until.as_ref().map(|matches| Search::new(matches, from));
        loop {
            changes.borrow_and_update();
            if wait.cancel.is_cancelled() {
                return None;
            }
            let has_ended = self.has_ended();
            if let Some(search) = &mut search
                && search.look(self, has_ended).await
            {
                return Some(Waited::Matched);
            }
            let written_at = {
                let state = self.state();
                // A program in a terminal without any output yet is not idle.
                let has_begun = state.recent.total != 0 || self.emulator.is_none();
                has_begun.then_some(state.written_at)
            };
            let now = Instant::now();
            let quiet_at = wait.idle.zip(written_at).map(|(idle, at)| at.max(began) + idle);
            let over = match quiet_at {
                _ if has_ended => Some(Waited::Ended),
                Some(at) if at <= now => Some(Waited::Idle),
                _ if until <= now => Some(Waited::OutOfTime),
                _ => None,
            };
            if let Some(over) = over {
                // Output during the pause is searched too.
                let found = match &mut search {
                    Some(search) => search.look(self, true).await,
                    None => false,
                };
                return Some(if found { Waited::Matched } else { over });
            }
            let again_at = search.as_ref().and_then(|search| search.again_at);
            let next = [Some(until), quiet_at, again_at].into_iter().flatten().min();
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(next.unwrap_or(until).into()) => {}
                () = wait.cancel.cancelled() => {}
            }
        }
    }

    /// Waits, and returns the output since the last look; `None` if the wait is cancelled.
    pub(super) async fn news(&self, wait: &Wait, whole_lines: bool) -> Option<News> {
        let waited = match &wait.until {
            None => self.wait(wait).await?,
            Some(matches) => {
                let (before, from) = self.state().seen_lines();
                let is_before = is_found(matches, before).await;
                // New output takes precedence.
                let at_once = Wait { at_most: Duration::ZERO, ..wait.clone() };
                match self.wait_from(if is_before { &at_once } else { wait }, from).await? {
                    Waited::Matched => Waited::Matched,
                    _ if is_before => Waited::MatchedBefore,
                    other => other,
                }
            }
        };
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
        Some(News { background: self.told(&state), bytes, n_lost, waited })
    }

    /// Waits, and returns the screen; `None` if the wait is cancelled.
    pub(super) async fn screen(&self, wait: &Wait) -> Option<Result<Screen, NotTyped>> {
        if self.emulator.is_none() {
            return Some(Err(NotTyped::NoTerminal));
        }
        let waited = self.wait(wait).await?;
        let (size, looked, asks) = {
            let mut emulator = self.emulator()?;
            (emulator.size(), emulator.look(), emulator.asks_secret())
        };
        let hides_input = self.tty().is_ok_and(|tty| tty.hides_input(asks));
        let mut state = self.state();
        state.seen = state.recent.total;
        state.is_told |= state.ended.is_some();
        let Looked { rows, changed, cursor, n_skipped } = looked;
        let background = self.told(&state);
        Some(Ok(Screen { background, size, rows, changed, cursor, n_skipped, hides_input, waited }))
    }

    /// Marks all output so far as seen.
    pub(super) fn look_from_here(&self) {
        let mut state = self.state();
        state.seen = state.recent.total;
    }

    pub(super) fn stop(&self) {
        self.tell(Command::Stop);
    }

    pub(super) fn kill(&self) {
        self.tell(Command::Kill);
    }

    fn tell(&self, what: Command) {
        if let Some(handles) = &*self.handles() {
            let _ = wire::send(&handles.line, &what, &[]);
        }
    }

    /// Resizes its terminal; the kernel notifies the program.
    pub(super) fn resize(&self, rows: Option<u16>, cols: Option<u16>) -> Result<(), NotTyped> {
        let tty = self.tty()?;
        let mut emulator = self.emulator().ok_or(NotTyped::NoTerminal)?;
        let now = emulator.size();
        let size = Size { rows: rows.unwrap_or(now.rows), cols: cols.unwrap_or(now.cols) };
        tty.resize(size).map_err(NotTyped::Broken)?;
        emulator.resize(size);
        // The program redraws, so the idle time starts again.
        self.state().written_at = Instant::now();
        Ok(())
    }
}

/// Searches for a text. A long search runs on a thread of its own, so that other calls go on.
async fn is_found(matches: &Matcher, text: Vec<u8>) -> bool {
    match text.len() <= LITTLE {
        true => matches(&text),
        false => {
            let matches = Arc::clone(matches);
            tokio::task::spawn_blocking(move || matches(&text)).await.unwrap_or(false)
        }
    }
}

/// The search for a text in growing output.
struct Search {
    matches: Matcher,
    from: u64,
    /// How much output there was at the last search.
    seen: Option<u64>,
    /// When to search again, if output came since.
    again_at: Option<Instant>,
    rests_until: Instant,
}

impl Search {
    fn new(matches: &Matcher, from: u64) -> Self {
        let rests_until = Instant::now();
        Self { matches: Arc::clone(matches), from, seen: None, again_at: None, rests_until }
    }

    /// Searches for the text, unless the last search was a moment ago; at the end of the command always.
    async fn look(&mut self, ongoing: &Ongoing, has_ended: bool) -> bool {
        let now = Instant::now();
        let total = ongoing.state().recent.total;
        if self.seen == Some(total) && !has_ended {
            self.again_at = None;
            return false;
        }
        if now < self.rests_until && !has_ended {
            self.again_at = Some(self.rests_until);
            return false;
        }
        self.again_at = None;
        self.seen = Some(total);
        let filled = ongoing.emulator().and_then(|emulator| emulator.filled());
        let text = match filled {
            Some(screen) => screen.into_bytes(),
            None => {
                let (bytes, n_lost) = ongoing.state().recent.from(self.from);
                let again = bytes.len().saturating_sub(MAX_MATCH);
                let before = bytes.get(..again).unwrap_or_default();
                let line = memchr::memrchr(b'\n', before).map_or(again, |at| at + 1);
                self.from += n_lost + line as u64;
                bytes
            }
        };
        let found = is_found(&self.matches, text).await;
        self.rests_until = Instant::now() + PAUSE;
        found
    }
}

/// Returns the length without an incomplete UTF-8 character at the end.
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

/// Writes the output of a background command to the store and to its waiting calls.
pub(super) struct Tee<'o> {
    pub(super) store: ToStore,
    pub(super) ongoing: &'o Ongoing,
}

impl Spool for Tee<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.store.write(bytes);
        self.ongoing.wrote(bytes, self.store.path().is_none());
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

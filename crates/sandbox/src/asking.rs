//! Asks about a running command. Its notify handler holds a call that changes what undo cannot keep, or opens a file outside
//! the roots for writing. Sinew asks an approver while the clock of the command is stopped, and the handler performs the call
//! or refuses it. Sinew opens the file itself and sends it: the sandbox of a running process cannot be widened.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use sinew_fs::undo_log::UnkeptReason;
use sinew_tool::sync::lock;
use sinew_tool::{AsksMidway, MidwayAnswer, OutsideAnswer, OutsideFile, OutsideOpen, UnkeptChange};

use super::undo::AddsDirs;
use super::wire::{self, Asked, Command, MidwayQuestion, NotOpened, Report};

/// Stops a clock while an approver thinks.
#[derive(Debug, Default)]
pub(super) struct Pause(Mutex<Paused>);

#[derive(Debug, Default)]
struct Paused {
    so_far: Duration,
    since: Option<Instant>,
}

impl Pause {
    pub(super) fn begin(&self) {
        lock(&self.0).since.get_or_insert_with(Instant::now);
    }

    fn end(&self) {
        let mut paused = lock(&self.0);
        let last = paused.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        paused.so_far += last;
    }

    /// Returns when a time is over that does not pass in pauses; `None` within a pause.
    pub(super) fn over_at(&self, at: Instant) -> Option<Instant> {
        let paused = lock(&self.0);
        match paused.since {
            Some(_) => None,
            None => at.checked_add(paused.so_far),
        }
    }
}

/// What sinew answered to the question of a supervisor.
pub(super) enum Answered {
    /// To [`MidwayQuestion::Unkept`].
    Unkept(MidwayAnswer),
    /// To [`MidwayQuestion::Outside`].
    Outside(Result<OutsideFile, NotOpened>),
}

impl Answered {
    /// Returns the answer to [`MidwayQuestion::Outside`] with the fds of its message.
    pub(super) fn opened(opened: Result<(), NotOpened>, handles: Vec<OwnedFd>) -> Self {
        Self::Outside(opened.and_then(|()| {
            let mut handles = handles.into_iter();
            let missing = NotOpened::Refused(MidwayAnswer::Unanswered);
            let file = handles.next().ok_or(missing)?;
            Ok(OutsideFile { file, before: handles.next() })
        }))
    }
}

/// The question of a supervisor: its notify handler asks, and its watch gets the answer.
pub(super) struct PendingQuestion {
    /// The socket to sinew.
    line: OwnedFd,
    pub(super) pause: Pause,
    answer: Mutex<Option<Answered>>,
    /// Becomes readable with the answer.
    answered: OwnedFd,
}

impl PendingQuestion {
    pub(super) fn new(line: &OwnedFd) -> io::Result<Self> {
        Ok(Self {
            line: line.try_clone()?,
            pause: Pause::default(),
            answer: Mutex::default(),
            answered: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Sends the question to sinew. The clock stops once an approver is asked.
    pub(super) fn ask(&self, question: MidwayQuestion) -> io::Result<()> {
        if let MidwayQuestion::Unkept(_) = question {
            self.pause.begin();
        }
        let report = Report::Asks(question);
        wire::send(&self.line, &report, &[]).inspect_err(|_| self.pause.end())
    }

    /// Takes the question back; an answer comes all the same.
    pub(super) fn take_back(&self) {
        let _ = wire::send(&self.line, &Report::TakesBack, &[]);
    }

    /// Takes the answer of sinew.
    pub(super) fn answer(&self, answered: Answered) {
        *self.slot() = Some(answered);
        self.pause.end();
        let _ = rustix::io::write(&self.answered, &1_u64.to_ne_bytes());
    }

    /// Returns the answer, once it is there.
    pub(super) fn take(&self) -> Option<Answered> {
        let _ = rustix::io::read(&self.answered, &mut [0; 8]);
        self.slot().take()
    }

    fn slot(&self) -> MutexGuard<'_, Option<Answered>> {
        lock(&self.answer)
    }
}

impl AsFd for PendingQuestion {
    /// Returns the fd that becomes readable with the answer.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.answered.as_fd()
    }
}

/// Who answers the questions of a running command.
#[derive(Debug, Clone)]
pub(super) struct Answerer {
    pub(super) asks: Arc<dyn AsksMidway>,
    /// Takes note of directories that the command may change, if its changes are kept.
    pub(super) dirs: Option<Arc<dyn AddsDirs>>,
}

/// A question that approvers are asked. Dropping it takes it back.
pub(super) struct AskedQuestion {
    _asked: Box<dyn Send>,
    to: Arc<AnswerTo>,
}

impl AskedQuestion {
    /// Asks the question of a supervisor, whose socket gets the answer.
    pub(super) fn of(
        question: MidwayQuestion,
        answerer: Option<&Answerer>,
        pause: &Arc<Pause>,
        line: BorrowedFd<'_>,
    ) -> Option<Self> {
        let unanswered = match &question {
            MidwayQuestion::Unkept(_) => Command::Answer(MidwayAnswer::Unanswered),
            MidwayQuestion::Outside(_) => refused(MidwayAnswer::Unanswered),
        };
        let own = answerer.and_then(|answerer| Some((answerer, line.try_clone_to_owned().ok()?)));
        let Some((answerer, own)) = own else {
            let _ = wire::send(line, &unanswered, &[]);
            return None;
        };
        let line = Mutex::new(Some(own));
        let to = Arc::new(AnswerTo { line, pause: Arc::clone(pause), unanswered });
        let answered = AnswerOnDrop(Arc::clone(&to));
        let asked = match question {
            MidwayQuestion::Unkept(Asked { path, size, removes, reason }) => {
                to.pause.begin();
                let change = UnkeptChange { path, size, removes, why: why(reason) };
                let answered = move |answer| answered.0.send(&Command::Answer(answer), &[]);
                answerer.asks.ask_unkept(change, Box::new(answered))
            }
            MidwayQuestion::Outside(wire::OutsideOpen { path, flags, mode }) => {
                let (dirs, wanted) = (answerer.dirs.clone(), OutsideOpen { path, flags, mode });
                let to = Arc::clone(&to);
                let asking = move || to.stop_clock();
                let answered = move |answer| answered.0.open(answer, dirs.as_deref());
                answerer.asks.ask_outside(wanted, Box::new(asking), Box::new(answered))
            }
        };
        Some(Self { _asked: asked, to })
    }
}

impl Drop for AskedQuestion {
    fn drop(&mut self) {
        // The task of the question may end later, and the supervisor must see that the socket is closed.
        self.to.send_unanswered();
    }
}

/// Where the answer is due: the first one counts.
struct AnswerTo {
    line: Mutex<Option<OwnedFd>>,
    pause: Arc<Pause>,
    /// The answer where there is none.
    unanswered: Command,
}

impl AnswerTo {
    fn send(&self, answer: &Command, handles: &[BorrowedFd<'_>]) {
        if let Some(line) = lock(&self.line).take() {
            self.send_to(&line, answer, handles);
        }
    }

    fn send_to(&self, line: &OwnedFd, answer: &Command, handles: &[BorrowedFd<'_>]) {
        self.pause.end();
        if wire::send(line, answer, handles).is_err() {
            // The command has ended, or the words of an approver were too long for a message.
            let _ = wire::send(line, &self.unanswered, &[]);
        }
    }

    /// Stops the clocks of the command: an approver is asked.
    fn stop_clock(&self) {
        if let Some(line) = &*lock(&self.line) {
            self.pause.begin();
            let _ = wire::send(line, &Command::Asking, &[]);
        }
    }

    fn send_unanswered(&self) {
        self.send(&self.unanswered, &[]);
    }

    /// Opens a file outside the roots, if the answer allows it, and sends it.
    fn open(&self, answer: OutsideAnswer, dirs: Option<&dyn AddsDirs>) {
        // No file is made for a question that was taken back.
        let Some(line) = lock(&self.line).take() else { return };
        let opened = match (answer, dirs) {
            (OutsideAnswer::Refused(answer), _) => {
                return self.send_to(&line, &refused(answer), &[]);
            }
            (OutsideAnswer::Failed(error), _) => Err(error),
            (OutsideAnswer::Granted(_), None) => Err(io::Error::from(io::ErrorKind::Unsupported)),
            // The checkpoint must know the directory before the file changes.
            (OutsideAnswer::Granted(right), Some(dirs)) => {
                dirs.add(right.dir()).and_then(|()| right.open())
            }
        };
        match opened {
            Ok(OutsideFile { file, before }) => {
                let handles: Vec<_> = [&file].into_iter().chain(&before).map(AsFd::as_fd).collect();
                self.send_to(&line, &Command::Opened(Ok(())), &handles);
            }
            Err(error) => {
                let number = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
                self.send_to(&line, &Command::Opened(Err(NotOpened::Failed(number))), &[]);
            }
        }
    }
}

fn refused(answer: MidwayAnswer) -> Command {
    Command::Opened(Err(NotOpened::Refused(answer)))
}

/// Says that there is no answer when it is dropped before one.
struct AnswerOnDrop(Arc<AnswerTo>);

impl Drop for AnswerOnDrop {
    fn drop(&mut self) {
        self.0.send_unanswered();
    }
}

/// Returns why undo cannot keep a change, in words.
pub(super) fn why(reason: UnkeptReason) -> &'static str {
    match reason {
        UnkeptReason::Large => "the old content is too large to keep for undo",
        UnkeptReason::Budget => "it changes more than is kept for undo",
        UnkeptReason::Failed => "the old content could not be kept for undo",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_passes_in_a_pause() {
        let pause = Pause::default();
        let at = Instant::now();
        assert_eq!(pause.over_at(at), Some(at));
        pause.begin();
        pause.begin();
        assert_eq!(pause.over_at(at), None);
        std::thread::sleep(Duration::from_millis(20));
        pause.end();
        let over = pause.over_at(at).expect("a time");
        assert!(at + Duration::from_millis(20) <= over, "{:?}", over - at);
        pause.end();
        assert_eq!(pause.over_at(at), Some(over));
    }
}

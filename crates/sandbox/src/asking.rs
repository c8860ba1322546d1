//! Asks about a running command. Its notify handler holds the call that changes what undo cannot keep, sinew asks an approver
//! while the clock of the command is stopped, and the handler performs the call or refuses it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use sinew_fs::undo_log::UnkeptReason;
use sinew_tool::sync::lock;
use sinew_tool::{AsksUnkept, UnkeptAnswer, UnkeptChange};

use super::wire::{self, Asked, Command, Report};

/// Stops a clock while an approver thinks.
#[derive(Debug, Default)]
pub(super) struct Pause(Mutex<Paused>);

#[derive(Debug, Default)]
struct Paused {
    so_far: Duration,
    since: Option<Instant>,
}

impl Pause {
    fn begin(&self) {
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

/// The question of a supervisor: its notify handler asks, and its watch gets the answer.
#[derive(Debug)]
pub(super) struct PendingQuestion {
    /// The socket to sinew.
    line: OwnedFd,
    pub(super) pause: Pause,
    answer: Mutex<Option<UnkeptAnswer>>,
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

    /// Sends the question to sinew, and stops the clock.
    pub(super) fn ask(&self, asked: Asked) -> io::Result<()> {
        self.pause.begin();
        wire::send(&self.line, &Report::Asks(asked), &[]).inspect_err(|_| self.pause.end())
    }

    /// Takes the question back; an answer comes all the same.
    pub(super) fn take_back(&self) {
        let _ = wire::send(&self.line, &Report::TakesBack, &[]);
    }

    /// Takes the answer of sinew.
    pub(super) fn answer(&self, answer: UnkeptAnswer) {
        *self.slot() = Some(answer);
        self.pause.end();
        let _ = rustix::io::write(&self.answered, &1_u64.to_ne_bytes());
    }

    /// Returns the answer, once it is there.
    pub(super) fn take(&self) -> Option<UnkeptAnswer> {
        let _ = rustix::io::read(&self.answered, &mut [0; 8]);
        self.slot().take()
    }

    fn slot(&self) -> MutexGuard<'_, Option<UnkeptAnswer>> {
        lock(&self.answer)
    }
}

impl AsFd for PendingQuestion {
    /// Returns the fd that becomes readable with the answer.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.answered.as_fd()
    }
}

/// A question that approvers are asked. Dropping it takes it back.
pub(super) struct AskedQuestion {
    _asked: Box<dyn Send>,
    to: Arc<AnswerTo>,
}

impl AskedQuestion {
    /// Asks approvers the question of a supervisor, whose answer its socket gets.
    pub(super) fn ask(
        asks: Option<&Arc<dyn AsksUnkept>>,
        pause: &Arc<Pause>,
        line: BorrowedFd<'_>,
        asked: Asked,
    ) -> Option<Self> {
        let own = asks.and_then(|asks| Some((asks, line.try_clone_to_owned().ok()?)));
        let Some((asks, own)) = own else {
            let _ = wire::send(line, &Command::Answer(UnkeptAnswer::Unanswered), &[]);
            return None;
        };
        pause.begin();
        let to = Arc::new(AnswerTo { line: Mutex::new(Some(own)), pause: Arc::clone(pause) });
        let Asked { path, size, removes, reason } = asked;
        let change = UnkeptChange { path, size, removes, why: why(reason) };
        let answered = AnswerOnDrop { to: Arc::clone(&to), answer: UnkeptAnswer::Unanswered };
        let asked = asks.ask(change, Box::new(|answer| answered.give(answer)));
        Some(Self { _asked: asked, to })
    }
}

impl Drop for AskedQuestion {
    fn drop(&mut self) {
        // The task of the question may end later, and the supervisor must see that the socket is closed.
        self.to.answer(&UnkeptAnswer::Unanswered);
    }
}

/// Where the answer is due: the first one counts.
struct AnswerTo {
    line: Mutex<Option<OwnedFd>>,
    pause: Arc<Pause>,
}

impl AnswerTo {
    fn answer(&self, answer: &UnkeptAnswer) {
        if let Some(line) = lock(&self.line).take() {
            self.pause.end();
            // The command may have ended.
            if wire::send(&line, &Command::Answer(answer.clone()), &[]).is_err() {
                // Its words were too long for a message without a file.
                let _ = wire::send(&line, &Command::Answer(UnkeptAnswer::Unanswered), &[]);
            }
        }
    }
}

/// Gives an answer when it is dropped.
struct AnswerOnDrop {
    to: Arc<AnswerTo>,
    answer: UnkeptAnswer,
}

impl AnswerOnDrop {
    fn give(mut self, answer: UnkeptAnswer) {
        self.answer = answer;
    }
}

impl Drop for AnswerOnDrop {
    fn drop(&mut self) {
        self.to.answer(&self.answer);
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

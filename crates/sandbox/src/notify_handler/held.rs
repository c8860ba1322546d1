//! Calls that wait while an approver is asked about a change that undo cannot keep.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::CallHandler;
use crate::asking::PendingQuestion;
use crate::spawn::Call;
use sinew_tool::UnkeptAnswer;

/// The most calls that wait for one answer. More stay with the kernel meanwhile, and so do those that would not wait.
const MAX_HELD: usize = 1_024;
/// How often held calls are checked for callers that are gone.
const CHECKED_EACH: Duration = Duration::from_millis(500);

/// The held calls of a command.
#[derive(Debug, Default)]
pub(super) struct HeldCalls {
    /// Asks, if an approver is asked about such changes of the command.
    question: Option<Arc<PendingQuestion>>,
    stage: Cell<Stage>,
    n_asked: Cell<u32>,
    /// When the held calls were checked last.
    checked_at: Cell<Option<Instant>>,
    calls: RefCell<Vec<Call>>,
}

/// The most questions about one command, of which all but the last were taken back.
const MAX_ASKED: u32 = 3;

/// How far the question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    Settled,
    Waits,
    /// It waits for the answer to a question that is taken back.
    TakenBack,
}

impl HeldCalls {
    pub(super) fn new(question: Option<Arc<PendingQuestion>>) -> Self {
        Self { question, ..Self::default() }
    }
}

impl CallHandler {
    /// Waits for the next call, and while calls are held for their answer too. Returns whether there is a call.
    pub(super) fn wait(&self) -> Result<bool, Errno> {
        let pending =
            self.held.question.as_ref().filter(|_| self.held.stage.get() != Stage::Settled);
        let is_full = MAX_HELD <= self.held.calls.borrow().len();
        let wanted = if is_full { PollFlags::empty() } else { PollFlags::IN };
        let calls = PollFd::new(&self.calls, wanted);
        let found = match pending {
            None => {
                let mut watched = [calls];
                poll(&mut watched, None)?;
                let [calls] = watched;
                calls.revents()
            }
            Some(question) => {
                let mut watched = [calls, PollFd::new(question, PollFlags::IN)];
                poll(&mut watched, Timespec::try_from(CHECKED_EACH).ok().as_ref())?;
                let [calls, answered] = watched;
                let is_due =
                    self.held.checked_at.get().is_none_or(|at| CHECKED_EACH <= at.elapsed());
                match answered.revents().is_empty() {
                    false => self.answer_held(question),
                    true if is_due => self.check_held(question),
                    true => {}
                }
                calls.revents()
            }
        };
        match found.contains(PollFlags::IN) {
            true => Ok(true),
            false if found.is_empty() => Ok(false),
            // No process is left.
            false => Err(Errno::SRCH),
        }
    }

    /// Holds a call that would change what cannot be kept, while an approver is asked. Returns whether it is held.
    pub(super) fn holds(&self, call: Call) -> bool {
        let Some((images, question)) = self.images.as_ref().zip(self.held.question.as_ref()) else {
            return false;
        };
        let Some(asked) = images.take_asked(removes(&call)) else { return false };
        if self.held.stage.get() == Stage::Settled && question.ask(asked.clone()).is_err() {
            images.settle(UnkeptAnswer::Unanswered);
            images.put_asked(asked);
            images.note_refused();
            return false;
        }
        if self.held.stage.get() == Stage::Settled {
            self.held.stage.set(Stage::Waits);
            self.held.n_asked.set(self.held.n_asked.get() + 1);
            self.held.checked_at.set(Some(Instant::now()));
        }
        self.held.calls.borrow_mut().push(call);
        true
    }

    /// Drops held calls whose callers are gone, and takes the question back with the last one.
    fn check_held(&self, question: &PendingQuestion) {
        self.held.checked_at.set(Some(Instant::now()));
        let mut held = self.held.calls.borrow_mut();
        held.retain(|call| self.calls.waits(call));
        if held.is_empty() && self.held.stage.get() == Stage::Waits {
            self.held.stage.set(Stage::TakenBack);
            question.take_back();
        }
    }

    /// Performs the held calls once more, with the answer.
    fn answer_held(&self, question: &PendingQuestion) {
        let (Some(images), Some(answer)) = (&self.images, question.take()) else { return };
        let was_taken_back = self.held.stage.replace(Stage::Settled) == Stage::TakenBack;
        let asks_again = was_taken_back && self.held.n_asked.get() < MAX_ASKED;
        if !(asks_again && answer == UnkeptAnswer::Unanswered) {
            images.settle(answer);
        }
        for call in self.held.calls.take() {
            // The number of a thread that is gone may be that of another.
            if self.calls.waits(&call) {
                self.answer(call);
            }
        }
    }
}

/// Returns whether a call removes a name.
fn removes(call: &Call) -> bool {
    #[cfg(target_arch = "x86_64")]
    let is_named = [libc::SYS_unlink, libc::SYS_rmdir].contains(&call.number);
    #[cfg(not(target_arch = "x86_64"))]
    let is_named = false;
    is_named || call.number == libc::SYS_unlinkat
}

//! Calls that wait while an approver is asked: about a change that undo cannot keep, or about a file outside the roots that
//! is opened for writing.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, ftruncate};
use rustix::io::Errno;
use sinew_tool::{MidwayAnswer, OutsideFile};

use super::CallHandler;
use super::before_images::UndoHandles;
use crate::asking::{Answered, PendingQuestion};
use crate::spawn::{Call, SyscallAnswer};
use crate::wire::{MidwayQuestion, NotOpened, OutsideOpen, Refused};

/// The most calls that wait for one answer. More stay with the kernel meanwhile, and so do those that would not wait.
const MAX_HELD: usize = 1_024;
/// How often held calls are checked for callers that are gone.
const CHECKED_EACH: Duration = Duration::from_millis(500);

/// The held calls of a command.
#[derive(Default)]
pub(super) struct HeldCalls {
    /// Asks, if an approver is asked about the command.
    question: Option<Arc<PendingQuestion>>,
    /// Whether files outside the roots are asked about.
    asks_outside: bool,
    stage: Cell<Stage>,
    n_asked: Cell<u32>,
    /// When the held calls were checked last.
    checked_at: Cell<Option<Instant>>,
    calls: RefCell<Vec<Call>>,
    /// The file outside the roots that the current call opens, with the error that it gets otherwise.
    wanted: RefCell<Option<(OutsideOpen, Errno)>>,
    /// The call that asked for such a file.
    opening: RefCell<Option<OpeningCall>>,
}

/// A call that waits for a file outside the roots.
struct OpeningCall {
    call: Call,
    wanted: OutsideOpen,
    /// Its error where the file is not opened.
    otherwise: Errno,
}

/// The most questions about what undo cannot keep of one command, of which all but the last were taken back.
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
    pub(super) fn new(undo: &UndoHandles) -> Self {
        let UndoHandles { question, asks_outside, .. } = undo;
        Self { question: question.clone(), asks_outside: *asks_outside, ..Self::default() }
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
        if self.held.stage.get() == Stage::Settled {
            if question.ask(MidwayQuestion::Unkept(asked.clone())).is_err() {
                images.settle(MidwayAnswer::Unanswered);
                images.put_asked(asked);
                images.note_refused();
                return false;
            }
            self.held.n_asked.set(self.held.n_asked.get() + 1);
            self.begin_to_wait();
        }
        self.held.calls.borrow_mut().push(call);
        true
    }

    /// Remembers the file outside the roots that a call would open, with the error that it gets otherwise.
    pub(super) fn want_outside(
        &self,
        path: &Path,
        (flags, mode): (OFlags, Mode),
        otherwise: Errno,
    ) -> Errno {
        let (flags, mode) = (flags.bits(), mode.as_raw_mode());
        let wanted = OutsideOpen { path: path.to_owned(), flags, mode };
        *self.held.wanted.borrow_mut() = Some((wanted, otherwise));
        otherwise
    }

    /// Holds a call that would open a file outside the roots, while sinew is asked for it. Returns whether it is held.
    pub(super) fn holds_outside(&self, call: Call) -> bool {
        let Some((wanted, otherwise)) = self.held.wanted.take() else { return false };
        let question = self.held.question.as_ref().filter(|_| self.held.asks_outside);
        let Some((question, _)) = question.zip(self.images.as_ref()) else {
            self.refuse_outside(&wanted, otherwise, None);
            return false;
        };
        if self.held.stage.get() != Stage::Settled {
            self.held.calls.borrow_mut().push(call);
            return true;
        }
        if question.ask(MidwayQuestion::Outside(wanted.clone())).is_err() {
            self.refuse_outside(&wanted, otherwise, None);
            return false;
        }
        *self.held.opening.borrow_mut() = Some(OpeningCall { call, wanted, otherwise });
        self.begin_to_wait();
        true
    }

    /// Refuses the file outside the roots that the current call would open: it is no call that opens files.
    pub(super) fn refuse_wanted(&self) {
        if let Some((wanted, otherwise)) = self.held.wanted.take() {
            self.refuse_outside(&wanted, otherwise, None);
        }
    }

    fn begin_to_wait(&self) {
        self.held.stage.set(Stage::Waits);
        self.held.checked_at.set(Some(Instant::now()));
    }

    /// Notes a file outside the roots that is not opened. One that the command does not see is missing for it.
    fn refuse_outside(&self, wanted: &OutsideOpen, otherwise: Errno, answer: Option<MidwayAnswer>) {
        if otherwise != Errno::NOENT || answer.is_some() {
            self.found.refuse(Refused::Outside { path: wanted.path.clone(), answer });
        }
    }

    /// Drops held calls whose callers are gone, and takes the question back with the last one, or with the call that opens what
    /// the question is about.
    fn check_held(&self, question: &PendingQuestion) {
        self.held.checked_at.set(Some(Instant::now()));
        let mut held = self.held.calls.borrow_mut();
        held.retain(|call| self.calls.waits(call));
        let opening = self.held.opening.borrow();
        let is_gone = match &*opening {
            Some(opening) => !self.calls.waits(&opening.call),
            None => held.is_empty(),
        };
        if is_gone && self.held.stage.get() == Stage::Waits {
            self.held.stage.set(Stage::TakenBack);
            question.take_back();
        }
    }

    /// Performs the held calls once more, with the answer.
    fn answer_held(&self, question: &PendingQuestion) {
        let Some(answered) = question.take() else { return };
        let was_taken_back = self.held.stage.replace(Stage::Settled) == Stage::TakenBack;
        let opening = self.held.opening.take();
        match answered {
            Answered::Unkept(answer) => {
                let asks_again = was_taken_back && self.held.n_asked.get() < MAX_ASKED;
                if !(asks_again && answer == MidwayAnswer::Unanswered)
                    && let Some(images) = &self.images
                {
                    images.settle(answer);
                }
            }
            Answered::Outside(opened) => {
                if let Some(opening) = opening {
                    self.open_outside(opening, opened);
                }
            }
        }
        for call in self.held.calls.take() {
            if self.calls.waits(&call) {
                self.answer(call);
            }
        }
    }

    /// Answers the call that asked for a file outside the roots.
    fn open_outside(&self, opening: OpeningCall, opened: Result<OutsideFile, NotOpened>) {
        let OpeningCall { call, wanted, otherwise } = opening;
        let waits = self.calls.waits(&call);
        let answer = match opened {
            // Of a caller that is gone, a file that was made for it remains.
            Ok(file) if !waits && file.before.is_some() => return,
            Err(_) if !waits => return,
            Ok(file) => self.lock_calls(&call).and_then(|_turn| self.keep_outside(&wanted, file)),
            Err(NotOpened::Failed(number)) => {
                let errno = Errno::from_raw_os_error(number);
                if errno == Errno::STALE {
                    self.found.refuse(Refused::Changed { path: wanted.path });
                }
                Err(errno)
            }
            Err(NotOpened::Refused(answer)) => {
                let answer = Some(answer).filter(|answer| *answer != MidwayAnswer::Unanswered);
                self.refuse_outside(&wanted, otherwise, answer);
                Err(otherwise)
            }
        };
        if waits {
            self.give(call, answer.map(Some));
        }
    }

    /// Keeps the old state of a file outside the roots, truncates it if that is wanted, and returns it.
    fn keep_outside(
        &self,
        wanted: &OutsideOpen,
        OutsideFile { file, before }: OutsideFile,
    ) -> Result<SyscallAnswer, Errno> {
        let OutsideOpen { path, flags, .. } = wanted;
        let images = self.images.as_ref().ok_or(Errno::ACCESS)?;
        images.hand_out(path);
        let flags = OFlags::from_bits_retain(*flags);
        let truncates = flags.contains(OFlags::TRUNC) && before.is_some();
        let open = || {
            if truncates {
                ftruncate(&file, 0)?;
            }
            Ok(())
        };
        match &before {
            None => self.making(path, open)?,
            Some(before) => self.writing(path, before, open)?,
        }
        Ok(SyscallAnswer::Handle(file, flags.contains(OFlags::CLOEXEC)))
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

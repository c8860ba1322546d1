//! One deed of the engine.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::{
    BoxFuture, Cancel, Claim, Command, CommitError, Cost, Effects, Expect, Facts, FileError,
    FileOp, FileSettings, FileTarget, Kind, Memo, Progress, Restore, Slot, Targets, ToolError,
    World, Written, line_name,
};

/// What a call would change, worked out before anybody is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preview {
    /// It cannot be told.
    Unknown,
    /// This change, as a unified diff.
    Diff(String),
    /// Nothing: the call would fail or change nothing, so nobody need be asked.
    Nothing,
}

/// How long a change waits for others to end theirs.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// The first pause of such a wait; each further one is twice as long, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(16);

/// What one call runs with: the World narrowed to its targets, and how long it may take.
#[derive(Clone, Debug)]
pub struct Context {
    /// The only way out.
    pub world: World,
    /// What the call names, contained.
    pub targets: Arc<Targets>,
    /// The working directory of the call: paths beneath it are shown relative to it.
    pub cwd: Arc<Path>,
    /// Settings of the file tools.
    pub settings: Arc<FileSettings>,
    /// What operations may remember between calls.
    pub memo: Arc<Memo>,
    /// Raised when the caller takes the call back.
    pub cancel: Cancel,
    /// Where long work says how far it is.
    pub progress: Progress,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// Waits without occupying a thread.
    pub sleep: fn(Duration) -> BoxFuture<'static, ()>,
}

impl Context {
    /// Returns the target of the claim at a place.
    pub fn target(&self, at: usize) -> Result<&FileTarget, ToolError> {
        self.targets.files.get(at).ok_or_else(|| {
            ToolError::new(Kind::ExecutionFailed, "the call names fewer paths than it uses")
        })
    }

    /// Refuses to go on where the call was taken back or its time ran out.
    pub fn still_wanted(&self) -> Result<(), ToolError> {
        if self.cancel.is_cancelled() {
            return Err(ToolError::new(Kind::Cancelled, "the call was cancelled"));
        }
        match self.deadline {
            Some(deadline) if deadline <= self.world.clock.now() => {
                Err(ToolError::new(Kind::Timeout, "the time ran out"))
            }
            _ => Ok(()),
        }
    }

    /// Replaces or creates the file of a target as [`Files::replace`](crate::Files::replace) does.
    /// Where others are changing the same directory it waits for them without occupying a thread,
    /// for two seconds, and not longer than somebody waits for the call.
    pub async fn replace(
        &self,
        target: &FileTarget,
        pieces: &[&[u8]],
        expect: Expect<'_>,
    ) -> Result<Written, ToolError> {
        let change = || {
            let done = self.world.files.replace(target.slot, pieces, expect);
            done.map_err(|error| CommitError { slot: target.slot, error })
        };
        self.patiently(change).await
    }

    /// Makes several changes together as [`Files::commit`](crate::Files::commit) does, and waits for
    /// others as [`Context::replace`] does.
    pub async fn commit(&self, deeds: &[FileOp<'_>]) -> Result<Vec<Written>, ToolError> {
        self.patiently(|| self.world.files.commit(deeds)).await
    }

    /// Gives what is at a target the name of the next one as [`Files::rename`](crate::Files::rename)
    /// does, and waits for others as [`Context::replace`] does.
    pub async fn rename(&self, target: &FileTarget) -> Result<(), ToolError> {
        let change = || {
            let done = self.world.files.rename(target.slot);
            // What is in the way at the new name is told of that name.
            let next = Slot(target.slot.0 + 1);
            done.map_err(|error| match error {
                FileError::Exists | FileError::NoParent | FileError::OtherFileSystem => {
                    CommitError { slot: next, error }
                }
                error => CommitError { slot: target.slot, error },
            })
        };
        self.patiently(change).await
    }

    /// Asks for a change again where others keep it away.
    async fn patiently<T>(
        &self,
        change: impl Fn() -> Result<T, CommitError>,
    ) -> Result<T, ToolError> {
        let mut until = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let (slot, error) = match change() {
                Ok(done) => return Ok(done),
                Err(CommitError { slot, error }) if error.may_pass() => (slot, error),
                Err(CommitError { slot, error }) => return Err(self.about_slot(slot, error)),
            };
            self.still_wanted()?;
            let now = self.world.clock.now();
            if *until.get_or_insert(now + MAX_WAIT) <= now {
                return Err(self.about_slot(slot, error));
            }
            (self.sleep)(pause).await;
            self.still_wanted()?;
            pause = LAST_PAUSE.min(pause * 2);
        }
    }

    fn about_slot(&self, slot: Slot, error: FileError) -> ToolError {
        match self.targets.files.get(slot.0) {
            Some(target) => self.about(target, error),
            None => error.about(""),
        }
    }

    /// Returns a real path as people and models see it: relative where it lies beneath the working
    /// directory, else absolute. The working directory itself is `.`, and what cannot stand in a line
    /// is in quotes as [`line_name`](crate::line_name) has it.
    pub fn shown(&self, path: &Path) -> String {
        shown(&self.cwd, path)
    }

    /// Returns an error of a target in the words for the model, naming the argument and the path as
    /// it was written.
    pub fn about(&self, target: &FileTarget, error: FileError) -> ToolError {
        about(&self.cwd, target, error)
    }
}

/// Returns an error of a target with its argument and the path as it was written.
pub(crate) fn about(cwd: &Path, target: &FileTarget, error: FileError) -> ToolError {
    let error = match &target.claim.path {
        Some(written) => error.about(written),
        None => error.about(&shown(cwd, &target.path)),
    };
    let message = format!("argument `{}`: {}", target.claim.argument, error.message);
    ToolError { message: message.into(), ..error }
}

/// Returns a path relative to a directory where it lies beneath it, else as it is, for a line of text.
pub(crate) fn shown(cwd: &Path, path: &Path) -> String {
    let path = match path.strip_prefix(cwd) {
        Ok(relative) if relative.as_os_str().is_empty() => Path::new("."),
        Ok(relative) => relative,
        Err(_) => path,
    };
    line_name(path).into_owned()
}

/// One deed of the engine, with typed arguments and a typed outcome, and without authority of its
/// own.
///
/// An operation lives in one file of `ops` with its arguments, its outcome, its native row and its
/// tests.
pub trait Operation: Send + Sync + 'static {
    /// The name that rules know it by.
    const NAME: &'static str;
    /// What may be known of every call.
    const FACTS: Facts;
    /// Canonical arguments; unknown fields are refused.
    type Args: DeserializeOwned + Send + Sync + 'static;
    /// What happened.
    type Out: Send + 'static;

    /// Refuses arguments that can never work, such as a pattern that does not compile.
    fn check(args: &Self::Args) -> Result<(), ToolError> {
        let _ = args;
        Ok(())
    }

    /// Returns what this call can do to the outside, where it is less than the facts say.
    fn effects(args: &Self::Args) -> Effects {
        let _ = args;
        Self::FACTS.effects
    }

    /// Returns the paths the call names, each with the canonical field it came from.
    fn claims(_args: &Self::Args, _settings: &FileSettings) -> Vec<Claim> {
        Vec::new()
    }

    /// Returns the command the call names, which starts in the first of its paths; its argument is the
    /// canonical field.
    fn command(args: &Self::Args) -> Option<Command> {
        let _ = args;
        None
    }

    /// Returns what the call wants to have as it was. The guard makes claims of its paths, in the place
    /// of [`Operation::claims`]; the argument is the canonical field.
    fn restores(args: &Self::Args) -> Option<Restore> {
        let _ = args;
        None
    }

    /// Returns how long the call may occupy a thread.
    fn cost(args: &Self::Args, targets: &Targets) -> Cost;

    /// Works out what the call would change, on a World that can only look.
    fn preview(args: &Self::Args, cx: &Context) -> Preview {
        let _ = (args, cx);
        Preview::Unknown
    }

    /// Does the deed.
    fn run(
        args: &Self::Args,
        cx: &Context,
    ) -> impl Future<Output = Result<Self::Out, ToolError>> + Send;
}

//! Operations: the typed actions of the engine, and their context.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::{
    AgentSpawner, AsksMidway, BoxFuture, Cancel, Claim, Command, CommitError, Cost, Effects,
    Expect, Facts, FileError, FileOp, FileSettings, FileTarget, Kind, Memo, MessageClaim, Progress,
    Restore, SearchClaim, SkillIndex, Slot, Targets, ToolError, ToolIndex, UrlClaim, World,
    Written, agents, line_name,
};

/// The expected change of a call, computed before an approval question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preview {
    /// Unknown.
    Unknown,
    /// A unified diff.
    Diff(String),
    /// No change, or a failure: no approval is needed.
    Nothing,
}

/// The longest wait for concurrent changes.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// The first pause of that wait; pauses double up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(16);

/// The context of one call: the World of its targets, settings and time limits.
#[derive(Clone, Debug)]
pub struct Context {
    /// The session of the caller.
    pub session: String,
    /// The agent of the caller, if there are several.
    pub agent: Option<String>,
    /// The turn of the caller, if it counts turns.
    pub turn: Option<String>,
    /// The roots to which the call is narrowed.
    pub roots: Option<Vec<PathBuf>>,
    /// The id of the call.
    pub call_id: String,
    /// The dialect of the call.
    pub dialect: &'static str,
    /// The search of tools that are not listed.
    pub tools: Arc<dyn ToolIndex>,
    /// The skills.
    pub skills: Arc<dyn SkillIndex>,
    /// Spawns sub-agents.
    pub agents: Arc<dyn AgentSpawner>,
    /// The World of the call's targets.
    pub world: World,
    /// The contained targets.
    pub targets: Arc<Targets>,
    /// The working directory; paths beneath it are displayed relative to it.
    pub cwd: Arc<Path>,
    /// Settings of the file tools.
    pub settings: Arc<FileSettings>,
    /// The cache between calls.
    pub memo: Arc<Memo>,
    /// The cancel flag.
    pub cancel: Cancel,
    /// Receives the progress of long work.
    pub progress: Progress,
    /// Asks about its command while that runs.
    pub midway: Option<Arc<dyn AsksMidway>>,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// Waits without occupying a thread.
    pub sleep: fn(Duration) -> BoxFuture<'static, ()>,
}

impl Context {
    /// Returns the inbox of the caller; see [`agents::address`].
    pub fn address(&self) -> &str {
        agents::address(&self.session, self.agent.as_deref())
    }

    /// Returns the target of a claim by index.
    pub fn target(&self, at: usize) -> Result<&FileTarget, ToolError> {
        self.targets.files.get(at).ok_or_else(|| {
            ToolError::new(Kind::ExecutionFailed, "the call names fewer paths than it uses")
        })
    }

    /// Fails if the call was cancelled or its deadline passed.
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

    /// Like [`Files::replace`](crate::Files::replace), with retries of a busy directory for up to two seconds
    /// or until the deadline; the waits occupy no thread.
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

    /// Like [`Files::commit`](crate::Files::commit), with the retries of [`Context::replace`].
    pub async fn commit(&self, deeds: &[FileOp<'_>]) -> Result<Vec<Written>, ToolError> {
        self.patiently(|| self.world.files.commit(deeds)).await
    }

    /// Like [`Files::rename`](crate::Files::rename), with the retries of [`Context::replace`].
    pub async fn rename(&self, target: &FileTarget) -> Result<(), ToolError> {
        let change = || {
            let done = self.world.files.rename(target.slot);
            // An error about the new name belongs to the next slot.
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

    /// Retries a change while others block it.
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

    /// Returns the display form of a real path: relative beneath the working directory (itself `.`), else
    /// absolute. [`line_name`](crate::line_name) quotes it where needed.
    pub fn shown(&self, path: &Path) -> String {
        shown(&self.cwd, path)
    }

    /// Returns an error of a target for the model, with its argument and the path as written.
    pub fn about(&self, target: &FileTarget, error: FileError) -> ToolError {
        about(&self.cwd, target, error)
    }
}

pub(crate) fn about(cwd: &Path, target: &FileTarget, error: FileError) -> ToolError {
    let error = match &target.claim.path {
        Some(written) => error.about(written),
        None => error.about(&shown(cwd, &target.path)),
    };
    target.claim.about(error)
}

/// Returns the display form of a path, relative to a directory that contains it.
pub(crate) fn shown(cwd: &Path, path: &Path) -> String {
    let path = match path.strip_prefix(cwd) {
        Ok(relative) if relative.as_os_str().is_empty() => Path::new("."),
        Ok(relative) => relative,
        Err(_) => path,
    };
    line_name(path).into_owned()
}

/// One typed operation of the engine, without its own authority; each has its own file in `ops`.
pub trait Operation: Send + Sync + 'static {
    /// The name in rules.
    const NAME: &'static str;
    /// The facts of every call.
    const FACTS: Facts;
    /// Canonical arguments; unknown fields are rejected.
    type Args: DeserializeOwned + Send + Sync + 'static;
    /// The outcome.
    type Out: Send + 'static;

    /// Rejects arguments that can never work, such as an invalid pattern.
    fn check(args: &Self::Args) -> Result<(), ToolError> {
        let _ = args;
        Ok(())
    }

    /// Returns the effects of this call, if fewer than its facts.
    fn effects(args: &Self::Args) -> Effects {
        let _ = args;
        Self::FACTS.effects
    }

    /// Returns the paths of the call with their canonical fields.
    fn claims(_args: &Self::Args, _settings: &FileSettings) -> Vec<Claim> {
        Vec::new()
    }

    /// Returns the command of the call with its canonical field; it starts in the first path.
    fn command(args: &Self::Args) -> Option<Command> {
        let _ = args;
        None
    }

    /// Returns the addresses (URLs) of the call with their canonical fields.
    fn urls(args: &Self::Args) -> Vec<UrlClaim> {
        let _ = args;
        Vec::new()
    }

    /// Returns the search of the call with its canonical field for the provider.
    fn search(args: &Self::Args) -> Option<SearchClaim> {
        let _ = args;
        None
    }

    /// Returns the message that the call sends, with its canonical fields.
    fn message(args: &Self::Args) -> Option<MessageClaim> {
        let _ = args;
        None
    }

    /// Returns the restore of the call with its canonical field; the guard makes its claims.
    fn restores(args: &Self::Args) -> Option<Restore> {
        let _ = args;
        None
    }

    /// Returns the thread use of the call.
    fn cost(args: &Self::Args, targets: &Targets) -> Cost;

    /// Computes the change on a read-only World.
    fn preview(args: &Self::Args, cx: &Context) -> Preview {
        let _ = (args, cx);
        Preview::Unknown
    }

    /// Runs the operation.
    fn run(
        args: &Self::Args,
        cx: &Context,
    ) -> impl Future<Output = Result<Self::Out, ToolError>> + Send;
}

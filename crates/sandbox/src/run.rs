//! Runs the command of one call, from its arguments to its result.

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures_channel::oneshot;
use rustix::io::Errno;
use sinew_tool::sync::lock;
use sinew_tool::{
    Background, BoxFuture, Caller, Cancel, CommandLine, CommandTarget, Contained, Effects, Exit,
    FileState, Finished, Kind, News, NoProcesses, Output, Processes, RunOptions, Screen, Size,
    Targets, ToolError, Typed, Used, Wait, line_name,
};

use super::asking::Answerer;
use super::capture::{Became, Captured, Following, Keep, RequestedCommand, Spool};
use super::kept::Kept;
use super::spool::ToStore;
use super::wire::{self, End, Refusal, Unkept};
use super::{
    AtOnce, CommandUndo, Commands, Job, NeedHints, Running, SandboxLevel, activate, broken,
    end_undo, environment, own,
};
use sinew_fs::store::Store;
use sinew_policy::rules::PathGlobs;

/// How much output is kept in memory. Dialects show up to 200 KiB of the start of a stream.
pub(super) const KEEP: Keep = Keep { merged: (64 << 10, 64 << 10), stream: (400 << 10, 64 << 10) };

/// Returns the processes of a cleared call, whose caller may store whole outputs.
pub fn processes(
    commands: Option<(&Arc<Commands>, &Arc<PathGlobs>)>,
    targets: &Arc<Targets>,
    call: Option<(&Caller, Option<&Store>)>,
    effects: Effects,
    must_undo: bool,
) -> Result<Arc<dyn Processes>, ToolError> {
    let (Some((commands, globs)), Some((caller, store))) = (commands, call) else {
        return Ok(Arc::new(NoProcesses));
    };
    if targets.command.is_none() && !effects.contains(Effects::SESSION) {
        return Ok(Arc::new(NoProcesses));
    }
    let command = targets.command.clone().map(|target| {
        let state = targets.files.first().map(|target| &target.state);
        let Some(FileState::Found(meta)) = state else {
            let what = "the command names no directory to start in";
            return Err(ToolError::new(Kind::ExecutionFailed, what));
        };
        let identity = meta.identity.of_file();
        Ok(Cleared { target, identity, globs: Arc::clone(globs), must_undo })
    });
    let commands = Arc::clone(commands);
    Ok(Arc::new(CallProcesses {
        commands,
        caller: caller.clone(),
        store: store.cloned(),
        command: command.transpose()?,
        used: Arc::default(),
    }))
}

/// What a call can reach: its own command, and the background commands of its session.
#[derive(Debug)]
struct CallProcesses {
    commands: Arc<Commands>,
    caller: Caller,
    store: Option<Store>,
    command: Option<Cleared>,
    used: Arc<Mutex<Used>>,
}

impl CallProcesses {
    fn reaches(&self, id: &str) {
        lock(&self.used).background = Some(id.to_owned());
    }
}

/// The command of a cleared call.
#[derive(Debug)]
struct Cleared {
    target: CommandTarget,
    identity: (u64, u64),
    globs: Arc<PathGlobs>,
    must_undo: bool,
}

impl Cleared {
    fn job(&self, commands: &Commands, caller: &Caller, options: &RunOptions) -> Job {
        let passes = |name: &OsString| {
            options.variables.is_empty()
                || options.variables.iter().any(|wanted| name == wanted.as_str())
                || !environment::is_given(name)
        };
        let mut env = commands.settings.env.clone();
        env.retain(|(name, _)| passes(name));
        // Without a sandbox, programs of the model would come first in `PATH`.
        let venv = commands.venv(&self.target.cwd).filter(|_| !self.target.extra.unsandboxed);
        if let Some(venv) = venv {
            activate::enter(&venv, &mut env);
        }
        if self.target.extra.unsandboxed {
            let paths = env.iter_mut().filter(|(name, _)| name == "PATH");
            paths.for_each(|(_, dirs)| *dirs = own::outside(dirs, &commands.writable));
        }
        let added = options.env.iter().filter(|(name, _)| !environment::never(name.as_ref()));
        env.extend(added.map(|(name, value)| (name.into(), value.into())));
        Job {
            program: self.target.program.clone(),
            argv: self.target.argv.iter().map(OsString::from).collect(),
            env,
            cwd: self.target.cwd.clone(),
            cwd_identity: self.identity,
            stdin: options.stdin.clone(),
            timeout: Some(options.timeout),
            merged: options.merged,
            keeps_cwd: self.target.command.keeps_cwd,
            terminal: None,
            unkept: match options.midway {
                _ if !self.must_undo => Unkept::Made,
                Some(_) => Unkept::Asks,
                None => Unkept::Fails,
            },
            asks_outside: options.midway.is_some() && !self.target.extra.unsandboxed,
            granted: self.target.named.iter().map(|name| String::from(*name)).collect(),
            globs: Arc::clone(&self.globs),
            caller: caller.clone(),
            extra: self.target.extra.clone(),
            may_need: self.target.command.needs.is_some(),
        }
    }
}

impl Processes for CallProcesses {
    fn run(&self, options: RunOptions) -> BoxFuture<'static, Result<Finished, ToolError>> {
        let Some(command) = &self.command else { return NoProcesses.run(options) };
        let job = command.job(&self.commands, &self.caller, &options);
        let (commands, caller) = (Arc::clone(&self.commands), self.caller.clone());
        let store = self.store.clone();
        let keeps_cwd = command.target.command.keeps_cwd;
        let cwd = command.target.cwd.clone();
        let used = Arc::clone(&self.used);
        let seat = match options.max_at_once.map(|most| commands.counted.enter(most)).transpose() {
            Ok(seat) => seat,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        // An open session needs no wait, so the command runs before another task wakes up.
        let at_once = commands.order_at_once(caller.address(), job);
        Box::pin(async move {
            let mut running = match at_once {
                AtOnce::Ordered(ordered) => ordered?,
                AtOnce::Not(job) => {
                    let (commands, session) = (Arc::clone(&commands), caller.address().to_owned());
                    on_thread(move || commands.order(&session, *job))?.await??
                }
            };
            let contained = commands.containment(&running.session);
            lock(&used).sandbox_level = Some(contained.level);
            let (undo, hints) = (running.undo.take(), running.hints);
            let answerer = options.midway.clone().map(|asks| {
                let keeps = undo.as_ref().and_then(|undo| undo.as_deref().ok());
                Answerer { asks, dirs: keeps.map(CommandUndo::adds_dirs) }
            });
            let followed = follow(running, answerer, (&caller, store), &options);
            let (captured, whole) = followed.await?;
            let has_all = captured.findings.has_all_changes;
            let is_quick = |undo: &io::Result<Box<dyn CommandUndo>>| {
                undo.as_ref().map_or(true, |undo| undo.is_unchanged())
            };
            let changes = match undo {
                Some(undo) if is_quick(&undo) => Some(end_undo(undo, has_all)),
                Some(undo) => Some(on_thread(move || end_undo(undo, has_all))?.await?),
                None => None,
            };
            // A caller that learns of the end may begin the next one.
            drop(seat);
            let mut finished = finished(
                &commands,
                &caller,
                captured,
                (contained, hints),
                (keeps_cwd, &cwd),
                whole,
            )?;
            lock(&used).checkpoint =
                changes.as_ref().and_then(|changes| changes.checkpoint.clone());
            finished.findings.changes = changes;
            let consequences = finished.findings.consequences();
            if !consequences.is_empty() {
                lock(&used).consequences = Some(consequences.join("; "));
            }
            if options.cancel.is_cancelled() {
                finished.exit = Exit::Cancelled;
            }
            Ok(finished)
        })
    }

    fn begin(
        &self,
        options: RunOptions,
        terminal: Option<Size>,
    ) -> BoxFuture<'static, Result<String, ToolError>> {
        let Some(command) = &self.command else { return NoProcesses.begin(options, terminal) };
        // No call waits for it.
        let options = RunOptions { midway: None, ..options };
        let mut job =
            Job { timeout: None, terminal, ..command.job(&self.commands, &self.caller, &options) };
        if terminal.is_some() {
            environment::in_terminal(&mut job.env);
        }
        let text = match &command.target.command.line {
            CommandLine::Shell(_, text) => text.clone(),
            CommandLine::Argv(argv) => argv.join(" "),
        };
        let (commands, session) = (Arc::clone(&self.commands), self.caller.address().to_owned());
        let (globs, used) = (Arc::clone(&job.globs), Arc::clone(&self.used));
        let is_unsandboxed = job.extra.unsandboxed;
        let begun = self.commands.begin((&self.caller, self.store.clone()), job, text);
        Box::pin(async move {
            let id = begun.await?;
            let sandbox_level = match is_unsandboxed {
                true => Some(SandboxLevel::None.as_str()),
                false => commands.level(&session, &globs),
            };
            *lock(&used) = Used { sandbox_level, background: Some(id.clone()), ..Used::default() };
            Ok(id)
        })
    }

    fn used(&self) -> Used {
        lock(&self.used).clone()
    }

    fn running(&self) -> Vec<Background> {
        self.commands.running(self.caller.address())
    }

    fn background(&self) -> Vec<Background> {
        self.commands.background(self.caller.address())
    }

    fn news(
        &self,
        id: &str,
        wait: Wait,
        whole_lines: bool,
    ) -> BoxFuture<'static, Result<News, ToolError>> {
        self.reaches(id);
        self.commands.news(self.caller.address(), id, wait, whole_lines)
    }

    fn end(&self, id: &str) -> BoxFuture<'static, Result<Background, ToolError>> {
        self.reaches(id);
        self.commands.end_one(self.caller.address(), id)
    }

    fn enter(&self, id: &str, typed: Vec<Typed>) -> BoxFuture<'static, Result<(), ToolError>> {
        self.reaches(id);
        self.commands.enter(self.caller.address(), id, typed)
    }

    fn resize(&self, id: &str, rows: Option<u16>, cols: Option<u16>) -> Result<(), ToolError> {
        self.reaches(id);
        self.commands.resize(self.caller.address(), id, (rows, cols))
    }

    fn screen(&self, id: &str, wait: Wait) -> BoxFuture<'static, Result<Screen, ToolError>> {
        self.reaches(id);
        self.commands.screen(self.caller.address(), id, wait)
    }
}

/// Runs blocking work on a new thread, at once; returns its result.
pub(super) fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<impl Future<Output = Result<T, ToolError>>, ToolError> {
    let (done, result) = oneshot::channel();
    // The caller may have stopped waiting.
    let work = move || drop(done.send(work()));
    thread::Builder::new().name(String::from("command")).spawn(work).map_err(|error| {
        ToolError::new(Kind::LimitReached, "no thread is left to follow the command").source(error)
    })?;
    Ok(async { result.await.map_err(|_| lost()) })
}

pub(super) fn lost() -> ToolError {
    ToolError::new(Kind::ExecutionFailed, "the command was lost")
}

/// Follows a command to its end. Dropping the future kills it.
async fn follow(
    running: Running,
    answerer: Option<Answerer>,
    (caller, store): (&Caller, Option<Store>),
    options: &RunOptions,
) -> Result<(Captured, Whole), ToolError> {
    let Running { session, ordered, timeout, tty: _, hints: _, undo: _ } = running;
    let mut spool = ToStore::above(store, &caller.call_id, options.store_above);
    spool.progress = options.progress.clone();
    let progress = options.progress.clone();
    let tell = move |n| progress.report(n, "bytes of output");
    let limits = (KEEP, timeout);
    let followed = follow_to_end(ordered, limits, spool, tell, answerer, &options.cancel).await?;
    let (captured, ordered, spool) = followed;
    // The supervisor waits for this before it prepares the next process, which may take the processor from
    // the task that answers.
    tokio::spawn(async move {
        drop(ordered);
        session.prepare();
    });
    let whole = Whole { stored: spool.path(), n_lines: spool.n_lines };
    Ok((captured, whole))
}

/// Follows a command to its end: on this task while it is short, then on a thread. Stops it if the call is
/// cancelled; dropping the future kills it.
pub(super) async fn follow_to_end<S: Spool + 'static>(
    ordered: RequestedCommand,
    (keep, timeout): (Keep, Option<Duration>),
    mut spool: S,
    tell: impl Fn(u64) + Send + Sync + 'static,
    answerer: Option<Answerer>,
    cancel: &Cancel,
) -> Result<(Captured, RequestedCommand, S), ToolError> {
    let following = Following::begin(ordered, keep, timeout, answerer).map_err(broken)?;
    let followed = following.follow_a_little(&mut spool, &tell, cancel.cancelled()).await;
    let (mut following, became) = followed.map_err(broken)?;
    let became = match became {
        Some(became) => became,
        None => {
            let line = following.line().try_clone().map_err(broken)?;
            let kill = KillOnDrop(&line);
            let followed = on_thread(move || {
                let became = following.follow(&mut spool, &tell);
                (following, spool, became)
            })?;
            let became;
            (following, spool, became) = stopping(&line, cancel, followed).await?;
            std::mem::forget(kill);
            became.map_err(broken)?
        }
    };
    let (captured, ordered) = following.end(became, &mut spool).map_err(broken)?;
    Ok((captured, ordered, spool))
}

/// Waits for a command that another thread follows, and stops it if the call is cancelled.
async fn stopping<T>(line: &OwnedFd, cancel: &Cancel, followed: impl Future<Output = T>) -> T {
    let mut followed = pin!(followed);
    tokio::select! {
        biased;
        followed = &mut followed => return followed,
        () = cancel.cancelled() => {}
    }
    let _ = wire::send(line, &wire::Command::Stop, &[]);
    followed.await
}

/// Kills a command that another thread follows, when the waiting future is dropped.
pub(super) struct KillOnDrop<'a>(pub(super) &'a OwnedFd);

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        let _ = wire::send(self.0, &wire::Command::Kill, &[]);
    }
}

/// The stored copy of a whole output, and its number of lines.
struct Whole {
    stored: Option<String>,
    n_lines: u64,
}

fn finished(
    commands: &Commands,
    caller: &Caller,
    mut captured: Captured,
    (contained, hints): (Contained, NeedHints),
    (keeps_cwd, cwd_before): (bool, &Path),
    whole: Whole,
) -> Result<Finished, ToolError> {
    let findings = commands.findings(&mut captured, contained.level, hints);
    let may_run_on = matches!(captured.became, Became::Lost | Became::Ended { is_left: true, .. });
    let (exit, n_left, cwd) = match captured.became {
        Became::Ended { out_of_time: true, n_left, cwd, .. } => (Exit::TimedOut, n_left, cwd),
        Became::Ended { end: End::Code(code), n_left, cwd, .. } => (Exit::Code(code), n_left, cwd),
        Became::Ended { end: End::Signal(signal), n_left, cwd, .. } => {
            (Exit::Signal(signal), n_left, cwd)
        }
        Became::NotStarted(Refusal::Program, number) => (not_started(number), 0, None),
        Became::NotStarted(Refusal::Directory, _) => {
            return Err(not_entered(commands, caller, cwd_before));
        }
        Became::NotStarted(Refusal::Containment, number) => {
            return Err(ToolError::new(
                Kind::Unavailable,
                format!("the command could not be contained, so it did not run: {}", words(number)),
            )
            .hint("`sinew doctor` says what works here"));
        }
        Became::Lost => (Exit::Lost, 0, None),
    };
    let moved = cwd
        .filter(|_| keeps_cwd)
        .and_then(|cwd| commands.session_cwds.ended_in(caller.address(), cwd, &commands.writable));
    Ok(Finished {
        exit,
        duration: captured.duration,
        merged: output(captured.merged),
        stdout: output(captured.stdout),
        stderr: output(captured.stderr),
        n_lines: whole.n_lines,
        stored: whole.stored,
        n_left,
        may_run_on,
        moved,
        went_back: commands.session_cwds.take_went_back(caller.address()).filter(|_| keeps_cwd),
        contained,
        findings,
    })
}

/// Returns why a command could not start in its working directory, which its session then leaves.
fn not_entered(commands: &Commands, caller: &Caller, cwd: &Path) -> ToolError {
    let shown = line_name(cwd);
    let error = ToolError::new(
        Kind::Stale,
        format!("the working directory was replaced or cannot be entered: {shown}"),
    );
    match commands.session_cwds.leave(caller.address(), cwd, &commands.writable) {
        Some(to) => {
            error.hint(format!("repeat the call: commands start in {} now", line_name(&to)))
        }
        None => error.hint("repeat the call"),
    }
}

pub(super) fn not_started(number: i32) -> Exit {
    let is_missing = number == Errno::NOENT.raw_os_error();
    Exit::NotStarted { is_missing, why: words(number) }
}

pub(super) fn words(number: i32) -> String {
    let text = std::io::Error::from_raw_os_error(number).to_string().to_lowercase();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn output(kept: Kept) -> Output {
    let (head, tail, total) = kept.into_parts();
    Output { head, tail, total }
}

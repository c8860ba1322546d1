//! Background commands of a session.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use sinew_tool::{
    Background, BoxFuture, Caller, Cancel, Event, Exit, Kind, Ledger, News, SandboxFindings,
    Screen, Size, ToolError, Typed, Wait, line_name,
};

use super::capture::{Became, Following};
use super::input_queue::NotTyped;
use super::ongoing::{Named, Ongoing, Tee};
use super::run::{KEEP, lost, not_started, on_thread};
use super::spool::ToStore;
use super::terminal::Tty;
use super::wire::End;
use super::{Commands, Counted, Job, Running, Seat, broken, end_undo, lock};
use sinew_fs::store::Store;

/// How many commands that ended are remembered.
const MAX_ENDED: usize = 16;
/// How long a command may take to end after a stop, and again after a kill.
const ENDS: Duration = Duration::from_secs(5);

/// The running background commands of a session, and the last that ended.
#[derive(Debug, Default)]
pub(super) struct InBackground {
    commands: Vec<Arc<Ongoing>>,
    /// How many were begun: no name is given twice.
    n_begun: u32,
    running: Counted,
}

impl Commands {
    /// Begins a background command; returns its name.
    pub(super) fn begin(
        self: &Arc<Self>,
        (caller, store): (&Caller, Option<Store>),
        job: Job,
        command: String,
    ) -> BoxFuture<'static, Result<String, ToolError>> {
        let most = self.settings.max_background;
        // Those of sub-agents count among those of their session.
        let seat =
            lock(&self.background).entry(caller.session.clone()).or_default().running.enter(most);
        let seat = seat.map_err(|error| {
            error
                .hint("end one of them first; `run.max_background` says how many may go on at once")
        });
        let (begun, has_begun) = oneshot::channel();
        let (commands, caller) = (Arc::clone(self), caller.clone());
        let started = seat.and_then(|seat| {
            on_thread(move || go_on(&commands, (&caller, store), job, command, seat, begun))
        });
        Box::pin(async move {
            drop(started?);
            has_begun.await.unwrap_or_else(|_| Err(lost()))
        })
    }

    /// Records a background command.
    fn goes_on(
        &self,
        session: &str,
        (command, stored): (String, Option<String>),
        line: OwnedFd,
        terminal: Option<(Tty, Size)>,
    ) -> Arc<Ongoing> {
        let mut all = lock(&self.background);
        let of = all.entry(session.to_owned()).or_default();
        of.n_begun += 1;
        let kind = if terminal.is_some() { 't' } else { 'b' };
        let named = Named { id: format!("{kind}{}", of.n_begun), command, stored };
        let ongoing = Arc::new(Ongoing::new(named, line, terminal));
        of.commands.push(Arc::clone(&ongoing));
        let mut n_ended = of.commands.iter().filter(|ongoing| ongoing.has_ended()).count();
        of.commands.retain(|ongoing| {
            let forgotten = MAX_ENDED < n_ended && ongoing.has_ended();
            n_ended -= usize::from(forgotten);
            !forgotten
        });
        ongoing
    }

    fn all(&self, session: &str) -> Vec<Arc<Ongoing>> {
        let all = lock(&self.background);
        all.get(session).map(|of| of.commands.clone()).unwrap_or_default()
    }

    /// Returns the running background commands of a session.
    pub(super) fn running(&self, session: &str) -> Vec<Background> {
        let mut all = self.all(session);
        all.retain(|ongoing| !ongoing.has_ended());
        all.iter().map(|ongoing| ongoing.show()).collect()
    }

    /// Returns the background commands of a session, and the last that ended.
    pub(super) fn background(&self, session: &str) -> Vec<Background> {
        self.all(session).iter().map(|ongoing| ongoing.show()).collect()
    }

    /// Returns the commands of a session whose end no reply has reported, and marks it as reported.
    pub fn endings(&self, session: &str) -> Vec<Background> {
        self.all(session).iter().filter_map(|ongoing| ongoing.ended_untold()).collect()
    }

    fn ongoing(&self, session: &str, id: &str) -> Result<Arc<Ongoing>, ToolError> {
        let commands = self.all(session);
        if let Some(ongoing) = commands.iter().find(|ongoing| ongoing.id == id) {
            return Ok(Arc::clone(ongoing));
        }
        let known: Vec<_> = commands.iter().map(|ongoing| format!("`{}`", ongoing.id)).collect();
        let hint = match known.as_slice() {
            [] => String::from("none was started in this session"),
            known => format!("there are {}", known.join(", ")),
        };
        let what = format!("unknown background command: {}", line_name(Path::new(id)));
        Err(ToolError::new(Kind::InvalidArgs, what).hint(hint))
    }

    pub(super) fn news(
        &self,
        session: &str,
        id: &str,
        wait: Wait,
        whole_lines: bool,
    ) -> BoxFuture<'static, Result<News, ToolError>> {
        let ongoing = self.ongoing(session, id);
        Box::pin(async move { ongoing?.news(&wait, whole_lines).await.ok_or_else(taken_back) })
    }

    pub(super) fn screen(
        &self,
        session: &str,
        id: &str,
        wait: Wait,
    ) -> BoxFuture<'static, Result<Screen, ToolError>> {
        let ongoing = self.ongoing(session, id);
        Box::pin(async move {
            let ongoing = ongoing?;
            let screen = ongoing.screen(&wait).await.ok_or_else(taken_back)?;
            screen.map_err(|problem| not_typed(&ongoing.id, problem))
        })
    }

    pub(super) fn resize(
        &self,
        session: &str,
        id: &str,
        (rows, cols): (Option<u16>, Option<u16>),
    ) -> Result<(), ToolError> {
        let ongoing = self.ongoing(session, id)?;
        ongoing.resize(rows, cols).map_err(|problem| not_typed(id, problem))
    }

    pub(super) fn enter(
        &self,
        session: &str,
        id: &str,
        typed: Vec<Typed>,
    ) -> BoxFuture<'static, Result<(), ToolError>> {
        // In the order of the calls, whichever future is polled first.
        let entered = self.ongoing(session, id).and_then(|ongoing| {
            ongoing.tty().map_err(|problem| not_typed(&ongoing.id, problem))?;
            let entered = ongoing.input_queue().enter(&ongoing, typed).map_err(broken)?;
            Ok((ongoing, entered))
        });
        Box::pin(async move {
            let (ongoing, entered) = entered?;
            let entered = entered.await.unwrap_or(Err(NotTyped::Ended));
            entered.map_err(|problem| not_typed(&ongoing.id, problem))
        })
    }

    /// Kills every background command and waits until its end is recorded, for at most `within`.
    pub fn end_background(&self, within: Duration) {
        let until = Instant::now() + within;
        let mut running: Vec<Arc<Ongoing>> =
            lock(&self.background).values().flat_map(|of| of.commands.clone()).collect();
        running.retain(|ongoing| !ongoing.has_ended());
        running.iter().for_each(|ongoing| ongoing.kill());
        while running.iter().any(|ongoing| !ongoing.has_ended()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills the commands of one agent, by its address, and forgets it. Waits for nothing.
    pub fn kill_commands_of(&self, address: &str) {
        lock(&self.ended).insert(address.to_owned());
        let of = lock(&self.background).remove(address);
        let commands = of.map(|of| of.commands.clone()).unwrap_or_default();
        commands.iter().filter(|ongoing| !ongoing.has_ended()).for_each(|ongoing| ongoing.kill());
        lock(&self.sessions).retain(|(name, _), opened| {
            let stays = name != address;
            if !stays {
                opened.end();
            }
            stays
        });
        self.end_extended(Some(address));
        self.session_cwds.forget(address);
    }

    /// Ends a background command.
    pub(super) fn end_one(
        &self,
        session: &str,
        id: &str,
    ) -> BoxFuture<'static, Result<Background, ToolError>> {
        let ongoing = self.ongoing(session, id);
        Box::pin(async move {
            let ongoing = ongoing?;
            let wait = Wait { until: None, idle: None, at_most: ENDS, cancel: Cancel::default() };
            for tell in [Ongoing::stop, Ongoing::kill] {
                if !ongoing.has_ended() {
                    tell(&ongoing);
                    ongoing.wait(&wait).await;
                }
            }
            if !ongoing.has_ended() {
                return Err(ToolError::new(
                    Kind::ExecutionFailed,
                    format!("`{}` was told to end and has not ended yet", ongoing.id),
                )
                .hint("it ends with the session"));
            }
            let _ = ongoing.ended_untold();
            Ok(ongoing.show())
        })
    }
}

fn taken_back() -> ToolError {
    ToolError::new(Kind::Cancelled, "the call was cancelled")
}

fn not_typed(id: &str, problem: NotTyped) -> ToolError {
    let before = |n: usize| match n {
        0 => String::from("nothing was typed"),
        1 => String::from("one line or key was typed before"),
        n => format!("{n} lines or keys were typed before"),
    };
    match problem {
        NotTyped::NoTerminal => {
            ToolError::new(Kind::InvalidArgs, format!("`{id}` has no terminal"))
                .hint("what it writes can be read as that of any command in the background")
        }
        NotTyped::Ended => {
            ToolError::new(Kind::InvalidArgs, format!("`{id}` has ended")).hint("start it again")
        }
        NotTyped::Secret(n) => ToolError::new(
            Kind::PolicyDenied,
            format!(
                "`{id}` asks for something that it does not show, such as a password; {}",
                before(n)
            ),
        )
        .hint(
            "only a person types secrets: ask for that step to be done in a terminal of their own, or give \
             the question up with the keys C-c or C-d",
        ),
        NotTyped::TooLong(n) => ToolError::new(
            Kind::InvalidArgs,
            format!("a line has {n} bytes, and `{id}` would read 4,095 of them; nothing was typed"),
        )
        .hint("put long texts into a file and name that"),
        NotTyped::Unread(n, all) => ToolError::new(
            Kind::Timeout,
            format!("`{id}` does not read; of {all} lines or keys {}", before(n)),
        )
        .hint("look at its screen before you type more"),
        NotTyped::Broken(error) => {
            ToolError::new(Kind::ExecutionFailed, format!("nothing can be typed into `{id}`"))
                .source(error)
        }
    }
}

/// Begins a background command, and follows it to its end.
fn go_on(
    commands: &Commands,
    (caller, store): (&Caller, Option<Store>),
    job: Job,
    command: String,
    seat: Seat,
    begun: oneshot::Sender<Result<String, ToolError>>,
) {
    // No call waits for its output, so all of it is stored.
    let mut store = ToStore::above(store, &caller.call_id, (0, 0));
    store.begin();
    let stored = store.path();
    let size = job.terminal;
    let began = commands.order(caller.address(), job).and_then(|mut running| {
        let line = running.ordered.line.try_clone().map_err(broken)?;
        let terminal = running.tty.take().zip(size);
        Ok((commands.goes_on(caller.address(), (command, stored), line, terminal), running))
    });
    let (ongoing, running) = match began {
        Ok(began) => began,
        Err(error) => {
            let _ = begun.send(Err(error));
            return;
        }
    };
    if begun.send(Ok(ongoing.id.clone())).is_err() {
        // No caller knows its name.
        ongoing.kill();
    }
    let Running { session, ordered, timeout, tty: _, hints, undo } = running;
    let mut spool = Tee { store, ongoing: &ongoing };
    let followed = Following::begin(ordered, KEEP, timeout, None).and_then(|mut following| {
        let became = following.follow(&mut spool, &|_| {})?;
        Ok(following.end(became, &mut spool)?.0)
    });
    if followed.is_err() {
        ongoing.kill();
    }
    let (exit, findings) = match followed {
        Ok(mut captured) => {
            let has_all = captured.findings.has_all_changes;
            let mut findings = commands.findings(&mut captured, session.level.as_str(), hints);
            findings.changes = undo.map(|undo| end_undo(undo, has_all));
            let exit = match captured.became {
                Became::Ended { is_left: true, .. } | Became::Lost => Exit::Lost,
                Became::Ended { end: End::Code(code), .. } => Exit::Code(code),
                Became::Ended { end: End::Signal(signal), .. } => Exit::Signal(signal),
                Became::NotStarted(_, number) => not_started(number),
            };
            (exit, findings)
        }
        Err(_) => (Exit::Lost, SandboxFindings::default()),
    };
    commands.end_ledger.record(caller, &ongoing, &findings);
    // A caller that learns of the end may begin the next one.
    drop(seat);
    ongoing.end(exit, findings);
}

/// The ledger for what background commands changed, if there is one. The threads that follow commands do not keep it.
#[derive(Default)]
pub(super) struct EndLedger(pub(super) OnceLock<Weak<dyn Ledger>>);

impl fmt::Debug for EndLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndLedger")
    }
}

impl EndLedger {
    /// Records what a command changed that acts later. No call waits for its end, so no call can record it.
    fn record(&self, caller: &Caller, ongoing: &Ongoing, findings: &SandboxFindings) {
        let consequences = findings.consequences().join("; ");
        let ledger = self.0.get().and_then(Weak::upgrade);
        if let Some(ledger) = ledger.filter(|_| !consequences.is_empty()) {
            let (id, call, command) = (&ongoing.id, &caller.call_id, &ongoing.command);
            ledger.event(Event {
                kind: "background_end",
                text: format!("{id} of the call {call}: {consequences}; {command}"),
                session: Some(caller.session.clone()),
            });
        }
    }
}

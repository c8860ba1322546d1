//! Handles termination signals: cancels calls, flushes records, exits with 128 plus the signal number.
//!
//! Many clients end their servers by a signal, which would lose recent records, a change's outcome included.
//! A second signal ends the process at once. A signal ignored at start, as by `nohup`, stays ignored.
//!
//! To keep start-up cheap, the signal thread starts with the first call, or when a single call is slow.

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use sinew_mcp::Calls;
use sinew_runtime::Runtime;
use sinew_tool::Cancel;
use sinew_tool::sync::lock;

/// The grace period of cancelled calls.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How long a first call may take before the code that only start-up and it used is unmapped. A signal that comes
/// meanwhile is handled after it.
const FIRST_CALL: Duration = Duration::from_millis(100);

/// The caught signals.
pub(crate) struct Signals {
    caught: signal_hook::iterator::Signals,
    /// Whether the next signal ends the process at once.
    ending: Arc<AtomicBool>,
}

impl Signals {
    /// Catches the signals, which then only wait to be read.
    pub(crate) fn catch() -> io::Result<Self> {
        let ignored = ignored();
        let ending = Arc::new(AtomicBool::new(false));
        let mut caught = Vec::with_capacity(3);
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            if ignored & (1 << (signal - 1)) == 0 {
                flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&ending))?;
                caught.push(signal);
            }
        }
        Ok(Self { caught: signal_hook::iterator::Signals::new(caught)?, ending })
    }

    /// Starts a thread that ends the process at the first signal.
    pub(crate) fn watch(mut self, calls: Calls, runtime: Weak<Runtime>) -> io::Result<()> {
        let wait = move || {
            // This thread starts with the first call, which uses much of the code once more, and makes none wait.
            thread::sleep(FIRST_CALL);
            sinew_guard::unmap_start_up_code();
            for signal in self.caught.forever() {
                self.ending.store(true, Ordering::SeqCst);
                crate::terminal::restore_mode();
                // Without a runtime the process is ending already.
                let Some(runtime) = runtime.upgrade() else { continue };
                calls.close(LAST_WORDS);
                end_process(&runtime, signal);
            }
        };
        thread::Builder::new().name(String::from("signals")).spawn(wait).map(drop)
    }

    /// Starts a thread that ends the turn at SIGINT, and the process at a second one or at any other signal.
    fn watch_turns(self, turns: TurnCancel, runtime: Weak<Runtime>) -> io::Result<()> {
        let Self { mut caught, ending } = self;
        let wait = move || {
            for signal in caught.forever() {
                let cancel = lock(&turns).clone();
                if signal == SIGINT && !cancel.is_cancelled() {
                    // First, so that no prompt comes before it.
                    crate::screen::say("the turn ends; Ctrl-C again ends sinew");
                    cancel.cancel();
                    continue;
                }
                ending.store(true, Ordering::SeqCst);
                crate::terminal::restore_mode();
                cancel.cancel();
                let Some(runtime) = runtime.upgrade() else { continue };
                end_process(&runtime, signal);
            }
        };
        thread::Builder::new().name(String::from("signals")).spawn(wait).map(drop)
    }

    /// Returns the exit code of a pending signal.
    pub(crate) fn code(&mut self) -> Option<ExitCode> {
        let signal = self.caught.pending().next()?;
        u8::try_from(128 + signal).ok().map(ExitCode::from)
    }
}

/// Ends the sessions and what they left running, writes the records, and exits.
fn end_process(runtime: &Runtime, signal: i32) -> ! {
    crate::commands::end_sessions(runtime, LAST_WORDS);
    runtime.end_background();
    if let Err(error) = runtime.flush() {
        crate::screen::say(&error.to_string());
    }
    crate::terminal::restore_mode();
    std::process::exit(128 + signal)
}

/// The cancel flag of the turn under way.
pub(crate) type TurnCancel = Arc<Mutex<Cancel>>;

/// Lets SIGINT end the turn, and a second one the process.
pub(crate) fn end_turns(turns: TurnCancel, runtime: &Arc<Runtime>) -> io::Result<()> {
    Signals::catch()?.watch_turns(turns, Arc::downgrade(runtime))
}

/// Runs `ends` and exits at the first signal.
pub(crate) fn exit_after(ends: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::catch()?;
    let wait = move || {
        if let Some(signal) = signals.caught.forever().next() {
            crate::terminal::restore_mode();
            ends();
            std::process::exit(128 + signal);
        }
    };
    thread::Builder::new().name(String::from("signals")).spawn(wait).map(drop)
}

/// Returns calls that watch signals from the first call on.
pub(crate) fn watched(runtime: &Arc<Runtime>) -> Calls {
    let runtime = Arc::downgrade(runtime);
    Calls::with_first(move |calls| {
        // Start-up and the handshake are over, which reached much deeper than calls do.
        sinew_guard::discard_used_stack();
        // If this fails, signals keep their default action.
        let _ = Signals::catch().and_then(|signals| signals.watch(calls, runtime));
    })
}

/// Returns the bit mask of ignored signals.
fn ignored() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "nothing else tells without `unsafe`")]
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

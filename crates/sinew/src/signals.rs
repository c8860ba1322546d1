//! Signals that end the process: what runs is taken back, its records are written, and the exit
//! code says which signal it was.
//!
//! Without this a signal loses the records of the last moment, the outcome of a change among them,
//! and many clients end their servers by one. A second signal ends the process at once. A signal
//! that was ignored when the process began, as by `nohup`, stays ignored.
//!
//! The thread that waits for signals starts with the first call, or when a single call turns out to
//! take longer than a moment: starting a process must not cost more than it has to.

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use sinew_mcp::Calls;
use sinew_runtime::Runtime;

/// How long calls that are taken back get to end by themselves.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The signals, caught from now on.
pub(crate) struct Signals {
    caught: signal_hook::iterator::Signals,
    /// Whether the next signal ends the process at once.
    ending: Arc<AtomicBool>,
}

impl Signals {
    /// Catches the signals. They do nothing until somebody looks.
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

    /// Lets a thread wait for the signals, which ends the process with the first of them.
    pub(crate) fn watch(mut self, calls: Calls, runtime: Weak<Runtime>) -> io::Result<()> {
        let wait = move || {
            for signal in self.caught.forever() {
                self.ending.store(true, Ordering::SeqCst);
                // Without a runtime the process is at its end anyway.
                let Some(runtime) = runtime.upgrade() else { continue };
                calls.close(LAST_WORDS);
                crate::commands::end_sessions(&runtime, LAST_WORDS);
                if let Err(error) = runtime.flush() {
                    crate::screen::say(&error.to_string());
                }
                std::process::exit(128 + signal);
            }
        };
        thread::Builder::new().name(String::from("signals")).spawn(wait).map(drop)
    }

    /// Returns the exit code of a signal that came meanwhile.
    pub(crate) fn code(&mut self) -> Option<ExitCode> {
        let signal = self.caught.pending().next()?;
        u8::try_from(128 + signal).ok().map(ExitCode::from)
    }
}

/// Returns calls that have the signals watched from the first of them on.
pub(crate) fn watched(runtime: &Arc<Runtime>) -> Calls {
    let runtime = Arc::downgrade(runtime);
    Calls::with_first(move |calls| {
        // Where this fails a signal ends the process as it ends any other.
        let _ = Signals::catch().and_then(|signals| signals.watch(calls, runtime));
    })
}

/// Returns the signals that this process ignores, as the bits of their numbers.
fn ignored() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "nothing else tells without `unsafe`")]
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

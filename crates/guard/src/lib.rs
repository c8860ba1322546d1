//! Authority: the only code that touches the system.
//!
//! A call is contained ([`Guard::contain`]), judged ([`Contained::judge`]) and cleared
//! ([`Guard::clear`]), in this order; only the last gives out a World that can change something. This is a crate of its own so that the compiler
//! keeps everything else away from files, processes and the network.

mod attributes;
mod change;
pub mod checkpoints;
mod clear;
mod clock;
mod command;
mod command_pattern;
mod command_policy;
mod command_rules;
mod commit;
mod database;
mod files;
mod globs;
mod guard;
#[cfg(feature = "http")]
mod http;
mod ignore_rules;
mod journal_files;
mod judge;
mod kernel;
mod knowledge;
mod late;
mod ledger;
mod list;
mod literal;
mod mark;
mod memory;
mod moving;
mod process;
mod redact;
mod replace;
mod resolve;
mod restore;
mod roots;
mod rule;
mod rules;
mod seal;
mod shell;
mod spawn;
mod stat;
mod state;
mod store;
mod streams;
mod temporary;
mod turn;
mod user_database;
mod walk;
mod worktree;

pub use checkpoints::{CheckpointError, CheckpointId, CheckpointSettings, Checkpoints};
pub use clear::{Clearance, Cleared, Contained, Judged};
pub use clock::{SystemClock, timestamp};
pub use command_pattern::CommandPattern;
pub use command_policy::CommandPolicy;
pub use commit::JournalSettings;
pub use globs::{RuleError, lies_outside};
pub use guard::{Guard, GuardError, GuardSettings};
#[cfg(feature = "http")]
pub use http::{HttpAddress, HttpClient, HttpError, HttpReply};
pub use ignore_rules::GlobalIgnore;
pub use judge::{Case, Profile, Rules, judge};
pub use knowledge::KnowledgeBase;
pub use ledger::{
    Audit, AuditError, ChainLink, Field, Fields, Finding, Key, LedgerSync, OnFailure, Record,
    Recorded, Retention, SqliteLedger, Unfinished, Verified, Walk, Wanted, key_of,
};
pub use mark::os_user;
pub use memory::keep_freed_memory;
pub use process::{
    Activate, CommandSettings, Commands, Helper, MAX_OWN_OUTPUT, OwnEnd, OwnProgram,
    OwnProgramSettings, OwnPrograms, OwnRan, ProcessLimits, Rung, Shortfall, TrustedPrograms,
    Unrunnable, close_process, environment, helper_main,
};
pub use redact::Redactor;
pub use resolve::Resolver;
pub use roots::{RootError, Roots};
pub use rule::{Condition, Layer, Object, Paths, Rule, RuleOrigin};
pub use rules::can_be_granted;
pub use seal::Seal;
pub use spawn::bear_limits;
pub use state::StateDir;
pub use store::Store;
pub use streams::{BlockingFile, Streams, standard_streams};
pub use turn::Turns;
pub use user_database::UserEntry;

/// Returns whether the kernel resolves paths beneath a handle by itself.
pub fn has_openat2() -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, c"/", flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).is_ok()
}

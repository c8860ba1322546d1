//! The only access to changing files, running commands and the network, so that each passes a ruling.
//!
//! A call is contained ([`Guard::contain`]), judged ([`Contained::judge`]) and cleared ([`Guard::clear`]).
//! Only clearing returns a World that can change something; types that change files are private here. No
//! other crate may depend on the crates below, so the compiler keeps other code away from the system.

#![forbid(unsafe_code)]

mod approval_fingerprint;
mod change;
mod clear;
mod command;
mod command_undo;
mod commit;
mod contain;
mod files;
mod guard;
mod host_files;
mod list;
mod memory;
mod messages;
mod moving;
#[cfg(feature = "web")]
mod net;
mod outside;
mod outside_open;
mod own_files;
mod replace;
mod restore;
mod spellings;
mod walk;
#[cfg(feature = "web")]
mod web_sessions;

pub use approval_fingerprint::ApprovalFingerprint;
pub use clear::{Clearance, Cleared, Contained, Judged};
pub use commit::JournalSettings;
pub use guard::{Guard, GuardError, GuardSettings, WebSettings};
pub use messages::MessageSettings;
pub use outside_open::{OutsideGrant, stale};
pub use sinew_fs::attributes::copy as copy_attributes;
pub use sinew_fs::clock::{SystemClock, timestamp};
pub use sinew_fs::content_hash::content_hash;
pub use sinew_fs::dir_lock::DirLocking;
pub use sinew_fs::ignore_rules::GlobalIgnore;
pub use sinew_fs::kernel::has_openat2;
pub use sinew_fs::process_identity::os_user;
pub use sinew_fs::real_path::real;
pub use sinew_fs::resolve::Resolver;
pub use sinew_fs::roots::{RootError, Roots};
pub use sinew_fs::state::StateDir;
pub use sinew_fs::store::Store;
pub use sinew_fs::user_database::UserEntry;
pub use sinew_policy::command_policy::CommandPolicy;
pub use sinew_policy::globs::{RuleError, lies_outside};
pub use sinew_policy::hosts::HostPattern;
pub use sinew_policy::judge::{Case, Profile, Rules, judge};
pub use sinew_policy::protected::{can_be_granted, what_happens};
pub use sinew_policy::proxies::{Proxies, ProxyAddress};
pub use sinew_policy::publishing::publishes;
pub use sinew_policy::rule::{
    Condition, Layer, Object, Paths, Rule, RuleOrigin, UnsandboxedCommand,
};
pub use sinew_records::checkpoints::{
    self, CheckpointError, CheckpointId, CheckpointSettings, Checkpoints,
};
pub use sinew_records::knowledge::KnowledgeBase;
pub use sinew_records::ledger::{
    Audit, AuditError, ChainLink, Field, Fields, Finding, Key, LedgerSync, OnFailure, Record,
    Recorded, Retention, SessionsAndCalls, SqliteLedger, Unfinished, Verified, Walk, Wanted,
    key_of,
};
pub use sinew_records::messages::{
    ChildLimits, MessageError, MessageLimits, MessageStore, NewChildren,
};
pub use sinew_records::redact::Redactor;
pub use sinew_records::session_claim::SessionClaim;
pub use sinew_records::sessions::{NewSession, SessionError, Sessions, StoredSession};
pub use sinew_sandbox::bear_limits;
pub use sinew_sandbox::memory::{discard_used_stack, keep_freed_memory, unmap_start_up_code};
pub use sinew_sandbox::streams::{BlockingFile, Streams, standard_streams};
pub use sinew_sandbox::{
    Activate, AskCommands, CommandSettings, Commands, Helper, MAX_OWN_OUTPUT, OwnEnd, OwnProgram,
    OwnProgramSettings, OwnPrograms, OwnRan, ProcessLimits, RunningServer, SandboxLevel,
    ServerProcess, ServerProgram, Shortfall, TrustedPrograms, Unrunnable, UsageLimits, UserContext,
    close_process, environment,
};
pub use sinew_shell::command_pattern::CommandPattern;
pub use sinew_shell::quoted as shell_quoted;
#[cfg(feature = "web")]
pub use sinew_web::address::{NotPublic, judge as judge_addresses};
#[cfg(feature = "web")]
pub use sinew_web::callback::CallbackListener;
#[cfg(feature = "web")]
pub use sinew_web::channels::Channel;
#[cfg(feature = "web")]
pub use sinew_web::fetch::WebAddress;
#[cfg(feature = "web")]
pub use sinew_web::http::{HttpAddress, HttpClient, HttpError, HttpReply, words as error_words};
#[cfg(feature = "web")]
pub use sinew_web::server_client::{SignInClient, server_client};
#[cfg(feature = "web")]
pub use sinew_web::stream_client::{StreamAnswer, StreamClient};

/// Becomes the helper or one of its workers and exits, if this process was started as one. Otherwise returns this
/// executable as a helper. Called first in `main`, before any thread starts.
pub fn helper_main() -> Helper {
    #[cfg(feature = "web")]
    sinew_web::worker::worker_main();
    sinew_sandbox::helper_main()
}

//! Authority: the only code that touches the system.
//!
//! A call is contained ([`Guard::contain`]), judged ([`judge`]) and cleared ([`Guard::clear`]), in
//! this order; only the last gives out a World. This is a crate of its own so that the compiler
//! keeps everything else away from files, processes and the network.

mod attributes;
mod clear;
mod clock;
mod files;
mod guard;
mod ignore_rules;
mod judge;
mod ledger;
mod list;
mod recover;
mod replace;
mod resolve;
mod roots;
mod rules;
mod stat;
mod state;
mod store;
mod walk;

pub use clear::{Cleared, Contained};
pub use clock::SystemClock;
pub use guard::{Guard, GuardError, GuardSettings};
pub use judge::{Case, Clearance, Profile, Rules, judge};
pub use ledger::{LedgerSync, Recorded, SqliteLedger};
pub use resolve::Resolver;
pub use roots::{RootError, Roots};
pub use rules::RuleError;
pub use state::StateDir;
pub use store::Store;

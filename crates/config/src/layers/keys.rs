//! Lists for every key how a layer that can only tighten may change it, and which floor raises it.
//!
//! A test compares the list with the keys of [`Options`](crate::Options), so a new key needs a row here. What
//! depends on several keys is code: what a floor means for other keys in `floor`, what a client's arguments
//! may set besides in `arguments`. The defaults are in `default.json`.

use self::Floor::{AtLeast, Fixes, OfSystem, StaysFalse};
use self::Tightens::{
    Added, AtMost, FirstList, Serves, To, ToFalse, ToTrue, ToTrueUnlessOff, Unordered, Word,
};
use super::TRUST_ARGUMENTS;

/// A key of the configuration.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) tightens: Tightens,
    pub(super) floor: Option<Floor>,
}

/// The values that a layer that can only tighten may set.
#[derive(Clone, Copy)]
pub(super) enum Tightens {
    /// The value of the layers before, because the values have no order.
    Unordered,
    /// `false`.
    ToFalse,
    /// `true`.
    ToTrue,
    /// `true`, unless the layers before say `false`.
    ToTrueUnlessOff,
    /// One word, the strictest.
    To(&'static str),
    /// A word at least as strict: all words, the loosest first, and the word that counts without a value.
    Word(&'static [&'static str], &'static str),
    /// A number that is not larger. Without one before, the smallest default of all dialects counts.
    AtMost,
    /// An allow list, if the layers before have none.
    FirstList,
    /// A list that serves no further tool.
    Serves,
    /// What each layer adds to the layers before, by code of its own.
    Added,
}

/// The floor of the system's file that holds a key.
#[derive(Clone, Copy)]
pub(super) enum Floor {
    /// At least as strict as the word of this floor.
    AtLeast(&'static str),
    /// `false` where this floor is `false`.
    StaysFalse(&'static str),
    /// A word, the strictest, where this floor is `true`.
    Fixes(&'static str, &'static str),
    /// At least the value of the system's file, where this floor is `true`. The words, the loosest first; of
    /// numbers none, where 0 means no limit.
    OfSystem(&'static str, &'static [&'static str]),
}

/// The approval modes, the loosest first.
pub(super) const MODES: &[&str] = &["allow", "trust-client", "auto", "ask", "deny"];
/// The profiles, the loosest first.
pub(super) const PROFILES: &[&str] = &["full", "sandboxed", "workspace", "read-only"];
/// The sandbox levels, the loosest first.
pub(super) const LEVELS: &[&str] = &["none", "landlock", "bubblewrap", "namespaces"];
/// The modes of `ledger.on_failure`, the loosest first.
const FAILURES: &[&str] = &["continue", "refuse"];
/// The modes of `ledger.sync`, the loosest first.
const LEDGER_SYNCS: &[&str] = &["normal", "full"];
/// The modes of `files.sync`, the loosest first.
const FILE_SYNCS: &[&str] = &["off", "data", "full"];

/// Every key, in the order of the reference.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("roots", Unordered),
    key("dialect", Unordered),
    key("serve", Serves),
    key("absent", Unordered),
    key("read_only", ToTrue),
    key("profile", Word(PROFILES, "workspace")).held(AtLeast("profile")),
    key("rules", Added),
    key("approvals", Word(MODES, "auto")).held(AtLeast("approvals")),
    key("approval_timeout_s", Unordered),
    key("session", Unordered),
    key("log", Unordered),
    key("hooks", Added),
    key("webhook.url", Unordered),
    key("webhook.secret_file", Unordered),
    key("files.sync", Word(FILE_SYNCS, "off")),
    key("files.hard_links", To("refuse")),
    key("files.outside", To("deny")).held(Fixes("only_roots", "deny")),
    key("files.resolver", Unordered),
    key("files.glob_limit", AtMost),
    key("files.grep_limit", AtMost),
    key("files.list_limit", AtMost),
    key("files.search_timeout_ms", AtMost),
    key("run.sandbox", Unordered),
    key("run.require_sandbox", Word(LEVELS, "none")).held(AtLeast("require_sandbox")),
    key("run.ask", To("always")).held(Fixes("commands_ask", "always")),
    key("run.network", ToFalse).held(StaysFalse("network")),
    key("run.unsandboxed", To("deny")).held(Fixes("only_sandboxed", "deny")),
    // What lasts is verified by lockfiles, which commands may write.
    key("run.caches", To("session")),
    key("run.env", Unordered),
    key("run.activate", Unordered),
    key("run.hide", Unordered),
    key("run.show", Unordered),
    key("run.unprotected", Unordered),
    key("run.max_background", Unordered),
    key("run.max_processes", Unordered),
    key("run.max_cpu_s", Unordered),
    key("run.max_memory_mib", Unordered),
    key("run.max_command_memory_mib", Unordered),
    key("run.min_free_disk_mib", Unordered),
    key("run.max_file_mib", Unordered),
    key("run.max_open_files", Unordered),
    key("tools.fs.workspace_root", Unordered),
    key("tools.fs.allow_paths", FirstList),
    key("tools.fs.deny_paths", Added),
    key("tools.fs.track_reads", ToTrue),
    key("tools.fs.must_read_before_write", ToTrue),
    key("tools.fs.require_approval", ToTrue),
    key("tools.fs.max_read_bytes", AtMost),
    // Only `reject` shows nothing of a binary file.
    key("tools.fs.binary_policy", To("reject")),
    key("tools.fs.respect_gitignore", Unordered),
    // If the user turned this off, a change that can be undone would run unasked.
    key("tools.fs.checkpoint_before_mutation", ToTrueUnlessOff),
    key("tools.fs.context_window_tokens", AtMost),
    key("tools.memory.max_bytes", AtMost),
    key("tools.policy.allow", FirstList),
    key("tools.policy.deny", Added),
    key("tools.commandPolicy.mode", Unordered),
    key("tools.commandPolicy.allowlist", Unordered),
    key("tools.commandPolicy.denylist", Unordered),
    // The original can loosen by these; here they only warn.
    key("tools.urlPolicy.enabled", ToTrue),
    key("tools.urlPolicy.allowPrivate", ToFalse),
    key("tools.urlPolicy.allowedDomains", Unordered),
    key("tools.urlPolicy.blockedDomains", Added),
    key("tools.exec.timeout", AtMost),
    // Exceptions loosen.
    key("tools.web_fetch.allow_hosts", Unordered),
    // Who gets the addresses and connects is chosen by the user.
    key("tools.web_fetch.proxy", Unordered),
    key("tools.web_fetch.proxy_resolves", ToFalse),
    key("tools.web_fetch.timeout_s", AtMost),
    key("tools.web_fetch.idle_timeout_s", AtMost),
    key("tools.web_fetch.max_redirects", AtMost),
    key("tools.web_fetch.cache_s", Unordered),
    key("tools.web_search.provider", Unordered),
    key("tools.web_search.searxng", Unordered),
    key("tools.web_search.endpoint", Unordered),
    key("tools.web_search.timeout_s", AtMost),
    key("tools.mcp_servers", Added),
    key("tools.surface", Unordered),
    key("tools.deferred", Unordered),
    key("checkpoints.max_bytes", Unordered),
    key("checkpoints.max_age_days", Unordered),
    key("checkpoints.max_count", Unordered),
    key("checkpoints.max_file_bytes", Unordered),
    key("checkpoints.larger", Unordered),
    key("checkpoints.sync", Unordered),
    key("checkpoints.commands", ToTrueUnlessOff),
    key("ledger.mode", To("sqlite")).held(Fixes("ledger", "sqlite")),
    key("ledger.sync", Unordered).held(OfSystem("ledger", LEDGER_SYNCS)),
    key("ledger.on_failure", To("refuse")).held(OfSystem("ledger", FAILURES)),
    key("ledger.max_age_days", Unordered).held(OfSystem("ledger", &[])),
    key("ledger.max_records", Unordered).held(OfSystem("ledger", &[])),
    key("mcp.max_line_bytes", AtMost),
    // Only the user and the system's file can set it.
    key(TRUST_ARGUMENTS, Unordered).held(StaysFalse("trust")),
    // Who gets the conversation, and what it may cost, is chosen by the user.
    key("agent.model", Unordered),
    key("agent.max_tool_iterations", AtMost),
    key("agent.budget", Unordered),
    key("agent.output_compaction", Unordered),
    key("agent.instructions", ToFalse),
    key("agent.max_age_days", Unordered),
    key("agent.max_sessions", Unordered),
    key("models", Added),
    key("sub_agents.max_depth", AtMost),
    key("sub_agents.max_children", AtMost),
    key("sub_agents.max_running", AtMost),
    key("sub_agents.max_total", AtMost),
    key("sub_agents.timeout_s", AtMost),
    key("sub_agents.max_tokens", AtMost),
    key("sub_agents.max_iterations", AtMost),
    key("messages.max_bytes", AtMost),
    key("messages.max_queued", AtMost),
    key("messages.max_per_minute", AtMost),
    key("messages.max_age_days", Unordered),
    key("messages.timeout_s", AtMost),
    // Who gets a message is chosen by the user.
    key("messages.channels", Added),
    key("metrics.file", Unordered),
    key("metrics.interval_s", Unordered),
    key("trace.file", Unordered),
    // Only the system's file can hold a floor.
    key("managed.approvals", Unordered),
    key("managed.profile", Unordered),
    key("managed.require_sandbox", Unordered),
    key("managed.commands_ask", Unordered),
    key("managed.only_sandboxed", Unordered),
    key("managed.network", Unordered),
    key("managed.roots", Unordered),
    key("managed.only_roots", Unordered),
    key("managed.hosts", Unordered),
    key("managed.ledger", Unordered),
    key("managed.trust", Unordered),
];

const fn key(name: &'static str, tightens: Tightens) -> Key {
    Key { name, tightens, floor: None }
}

impl Key {
    const fn held(self, floor: Floor) -> Self {
        Self { floor: Some(floor), ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Floor, KEYS, Tightens};

    #[test]
    fn every_key_has_one_row() {
        let mut rows: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        let of_reference = crate::keys();
        let known: BTreeSet<&str> = of_reference.iter().map(String::as_str).collect();
        rows.sort_unstable();
        assert_eq!(rows, known.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn every_floor_raises_a_key() {
        let mut floors = BTreeSet::from(["roots", "hosts"]);
        for key in KEYS {
            floors.extend(key.floor.map(|floor| match floor {
                Floor::AtLeast(name) => {
                    assert!(matches!(key.tightens, Tightens::Word(..)), "{}", key.name);
                    name
                }
                Floor::StaysFalse(name) | Floor::Fixes(name, _) | Floor::OfSystem(name, _) => name,
            }));
        }
        let known: BTreeSet<&str> =
            KEYS.iter().filter_map(|key| key.name.strip_prefix("managed.")).collect();
        assert_eq!(floors, known);
    }
}

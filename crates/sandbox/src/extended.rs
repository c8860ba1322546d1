//! Sessions of commands with extra access, such as the network or a path outside the roots. Each command gets a helper process
//! of its own, which ends with it, so that no other command has that access.
//!
//! On namespaces the helper joins the mounts of the agent's session: caches and temporary files are those of every command.
//! On Landlock only temporary files are, and on bubblewrap nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use sinew_fs::stat::identity_of;
use sinew_policy::protected::protected_at;
use sinew_policy::rules::{PathGlobs, own_at};
use sinew_tool::sync::lock;
use sinew_tool::{ExtraAccess, Kind, Need, ToolError};

use super::private::PrivateView;
use super::sandbox_level::{REPLACED, SandboxLevel};
use super::session::{NoSession, Session};
use super::wire::{Extra, Policy};
use super::{COVERED, Commands, no_helper, no_session, rebuilt_dirs};

/// The directory of a home with what `ssh` needs.
const OF_SSH: &str = ".ssh";
/// Files there that `ssh` and signatures need beside the agent, with all public keys. They hold no secrets.
const SSH_FILES: &[&str] = &["known_hosts", "config", "allowed_signers"];
const PUBLIC_KEY: &str = "pub";

/// The variable that names the socket of the SSH agent.
pub(super) const SSH_AGENT: &str = "SSH_AUTH_SOCK";

impl Commands {
    /// Returns why no answer gives a command this, if that is so.
    pub fn never_given(&self, need: &Need, globs: &PathGlobs) -> Option<&'static str> {
        let settings = &self.settings;
        match need {
            Need::Network if settings.forbids_network => {
                Some("the system's configuration closes the network (`managed.network`)")
            }
            Need::SshAgent if settings.ssh_agent.is_none() => {
                Some("no SSH agent is known here (`SSH_AUTH_SOCK` of sinew)")
            }
            Need::Unsandboxed if settings.forbids_unsandboxed => {
                Some("`run.unsandboxed` is `deny`")
            }
            Need::Unsandboxed if !settings.levels.contains(&SandboxLevel::None) => {
                Some("`run.require_sandbox` lets no command run without a sandbox")
            }
            Need::Unsandboxed if !globs.is_empty() => Some(
                "only the sandbox holds commands to `tools.fs.deny_paths` and `tools.fs.allow_paths`",
            ),
            _ => None,
        }
    }

    /// Returns whether a refusal may say that a call can need this.
    pub(super) fn may_be_needed(&self, need: &Need) -> bool {
        match need.path() {
            None => self.never_given(need, &PathGlobs::default()).is_none(),
            Some((path, _)) => {
                let real = super::real_or_same(path);
                self.hidden_at(&real).is_none() && self.never_given_at(&real).is_none()
            }
        }
    }

    /// Returns whether every command has this already.
    pub fn is_given(&self, need: &Need) -> bool {
        match need {
            Need::Network => self.reach_network(),
            Need::Unsandboxed => self.wants_no_containment(),
            Need::SshAgent | Need::Read(_) | Need::Write(_) => self.wants_no_containment(),
        }
    }

    /// Returns whether every command can read a real path, hidden ones apart.
    pub fn shows(&self, real: &Path) -> bool {
        let is_covered = COVERED.iter().any(|dir| real.starts_with(dir));
        self.is_given(&Need::Read(real.to_owned()))
            || !(is_covered || self.private().conceals(real, &self.writable))
    }

    /// Returns why no answer gives a command a real path that is no secret, if that is so.
    pub fn never_given_at(&self, real: &Path) -> Option<&'static str> {
        let is_within = |dirs: &[PathBuf]| dirs.iter().any(|dir| real.starts_with(dir));
        let holds = |dir: &Path| dir.starts_with(real);
        if self.private().dirs.iter().any(|dir| holds(dir)) {
            return Some("it is or contains a private directory; name a directory in it");
        }
        if COVERED.iter().any(|dir| holds(Path::new(dir))) {
            return Some("each session has that directory of its own; name a directory in it");
        }
        // A command could move the directories above it, so that rules by path would miss it.
        is_within(&self.private().caches)
            .then_some("it is in a cache of tools, which every command may change for its session")
    }

    /// Opens a session for one command with extra access.
    pub(super) fn extended(
        &self,
        name: &str,
        globs: &PathGlobs,
        extra: &ExtraAccess,
    ) -> Result<Arc<Session>, ToolError> {
        let helper = self.settings.helper.as_ref().ok_or_else(no_helper)?;
        let sessions = &self.settings.sessions;
        let session = if extra.unsandboxed {
            let view = PrivateView::default();
            let policy = |level, scratch: &Path| self.policy((level, scratch), globs, true, &view);
            Session::open(helper, &[SandboxLevel::None], (sessions, None, None), None, policy)
        } else {
            let base = self.session(name, globs)?;
            if base.level == SandboxLevel::None {
                return Ok(base);
            }
            let extras = self.extras(extra);
            let network = extra.network || base.network;
            let keeper = self.keeper.as_ref().map(AsRef::as_ref);
            let bubblewrap = self.find("bwrap");
            let opened = |level, scratch: &Path| {
                let policy = self.policy((level, scratch), globs, network, self.private());
                let agent = self.settings.ssh_agent.as_ref().filter(|_| extra.ssh_agent);
                self.extended_policy(policy, &extras, agent)
            };
            Session::open_beside(&base, helper, (sessions, keeper), bubblewrap.as_deref(), opened)
        };
        let session = Arc::new(session.map_err(not_extended)?);
        let mut extended = lock(&self.extended);
        extended.retain(|(_, session)| session.strong_count() != 0);
        extended.push((name.to_owned(), Arc::downgrade(&session)));
        // Beneath the lock, so that one that ends now is ended with the others.
        match lock(&self.ended).contains(name) {
            true => Err(ToolError::new(Kind::Unavailable, "the agent of this command ended")),
            false => Ok(session),
        }
    }

    /// Ends the sessions with extra access of one agent, or of all.
    pub(super) fn end_extended(&self, name: Option<&str>) {
        let extended = lock(&self.extended);
        let of = extended.iter().filter(|(of, _)| name.is_none_or(|name| name == of));
        of.filter_map(|(_, session)| session.upgrade()).for_each(|session| session.end());
    }

    /// Returns the extra paths as the helper gets them.
    fn extras(&self, extra: &ExtraAccess) -> Vec<Extra> {
        let named = extra.paths.iter().map(|extra| Extra {
            path: extra.path.clone(),
            is_writable: extra.is_writable,
            identity: extra.identity,
        });
        let mut extras: Vec<Extra> = named.collect();
        if extra.ssh_agent {
            extras.extend(self.of_ssh_agent());
        }
        // Of two, the outer one is mounted first.
        extras.sort_by(|one, other| one.path.cmp(&other.path));
        extras.dedup_by(|one, other| one.path == other.path);
        extras
    }

    /// Returns the socket of the SSH agent, and the files that `ssh` needs in private home directories.
    fn of_ssh_agent(&self) -> impl Iterator<Item = Extra> {
        let homes = self.settings.homes.iter().map(|home| super::real_or_same(home));
        let private = homes.filter(|home| self.private().dirs.contains(home));
        let files = private.flat_map(|home| of_ssh(&home.join(OF_SSH)));
        let all: Vec<PathBuf> = self.settings.ssh_agent.iter().cloned().chain(files).collect();
        all.into_iter().filter_map(|path| {
            let path = super::real_or_same(&path);
            let stat = rustix::fs::lstat(&path).ok()?;
            Some(Extra { path, is_writable: false, identity: identity_of(&stat).of_file() })
        })
    }

    /// Adds extra paths and the SSH agent to the policy of every command.
    fn extended_policy(
        &self,
        mut policy: Policy,
        extras: &[Extra],
        agent: Option<&PathBuf>,
    ) -> Policy {
        policy.rules.read = extras.iter().map(|extra| extra.path.clone()).collect();
        for path in extras.iter().filter(|extra| extra.is_writable).map(|extra| &extra.path) {
            policy.rules.roots.push(path.clone());
            policy.kept_at.push(kept_at(path));
            policy.fixed.extend(own_at(path));
            policy.fixed_unless_judged.extend(protected_at(path, &self.settings.unprotected));
            if self.keeper.is_some() {
                policy.tracked.extend(rebuilt_dirs::tracked(path));
            }
        }
        policy.socket = agent.map(|agent| super::real_or_same(agent));
        policy.extra = extras.to_vec();
        policy
    }
}

/// Returns the files of a directory that `ssh` and signatures need, as far as they are there. Links are left out: what they
/// lead to may be a private key, or change.
#[expect(clippy::disallowed_methods, reason = "the guard may look at the system")]
fn of_ssh(dir: &Path) -> Vec<PathBuf> {
    if !std::fs::symlink_metadata(dir).is_ok_and(|dir| dir.is_dir()) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let is_file = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let paths = entries.filter(is_file).map(|entry| entry.path());
    let is_needed = |path: &PathBuf| {
        let is_named =
            SSH_FILES.iter().any(|name| path.file_name().is_some_and(|own| own == *name));
        is_named || path.extension().is_some_and(|ending| ending == PUBLIC_KEY)
    };
    paths.filter(is_needed).collect()
}

/// Returns the directory in which changes of an extra path are kept: the path, or that of a file.
#[expect(clippy::disallowed_methods, reason = "the guard may look at the system")]
pub(super) fn kept_at(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !path.is_dir() => parent.to_owned(),
        _ => path.to_owned(),
    }
}

/// The sessions with extra access that run, by agent.
pub(super) type Extended = Vec<(String, Weak<Session>)>;

fn not_extended(problem: NoSession) -> ToolError {
    match problem {
        NoSession::Weak(missing) if missing.iter().any(|one| one.what == REPLACED) => {
            let paths: Vec<&str> = missing.iter().map(|one| one.why.as_str()).collect();
            ToolError::new(
                Kind::Stale,
                format!(
                    "{} changed after the call was judged, so it did not run",
                    paths.join(", ")
                ),
            )
            .hint("look at it again and repeat the call; it needs a new approval")
        }
        NoSession::Weak(missing) => {
            let why: Vec<&str> = missing.iter().map(|one| one.why.as_str()).collect();
            let message = format!("the command cannot get what it needs here: {}", why.join("; "));
            ToolError::new(Kind::Unavailable, message)
                .hint("repeat the call without `needs`, or ask the user to run the command")
        }
        problem @ NoSession::Helper(_) => no_session(problem),
    }
}

//! Makes the namespaces of a session by bubblewrap, where the system allows them to that program only. It
//! mounts the same view as [`super::sandbox`], executes the helper and kills everything when it exits. The
//! helper applies the rest of the containment itself.
#![expect(
    clippy::disallowed_methods,
    reason = "the guard may start processes and look at the system"
)]

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::COVERED;
use super::sandbox::{KEPT_OF_SERVICES, SERVICES, skeletons, sockets};
use super::wire::{Extra, Policy};
use crate::spawn;

/// Where the helper program is mounted, since its own path may be hidden.
const HELPER_AT: &str = "/run/sinew-helper";

/// Returns the command that becomes a helper in the view that a policy asks for.
pub(super) fn command(bubblewrap: &Path, helper: &Path, policy: &Policy) -> io::Result<Command> {
    let helper = match helper.starts_with("/proc") {
        true => std::env::current_exe()?,
        false => helper.to_owned(),
    };
    let mut view = View::default();
    // It must not die with its parent: the kernel means the thread that started it. `CAP_SYS_ADMIN` lets the
    // helper make a PID namespace for each command, which gets no capability.
    view.words(&["--unshare-all", "--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN"]);
    if policy.network {
        view.words(&["--share-net"]);
    }
    view.words(&["--ro-bind", "/", "/"]);
    view.words(&["--dev", "/dev"]);
    view.words(&["--proc", "/proc"]);
    for place in SERVICES.iter().filter(|place| is_real_dir(Path::new(place))) {
        view.words(&["--tmpfs", place]);
    }
    for place in KEPT_OF_SERVICES {
        view.words(&["--ro-bind-try", place, place]);
    }
    policy.private.iter().for_each(|dir| view.place("--tmpfs", dir));
    for path in &policy.shown {
        // It may be gone by now.
        view.bind("--ro-bind-try", path, path);
    }
    policy.shown_links.iter().for_each(|(link, target)| view.bind("--symlink", target, link));
    let temporary = policy.scratch.join("tmp");
    for place in ["/tmp", "/var/tmp"].iter().map(Path::new).filter(|place| is_real_dir(place)) {
        view.bind("--bind", &temporary, place);
    }
    let skeletons = skeletons(policy);
    skeletons.iter().for_each(|dir| view.place("--tmpfs", dir));
    policy.writable.iter().for_each(|root| view.bind("--bind", root, root));
    for Extra { path, is_writable, .. } in &policy.extra {
        view.bind(if *is_writable { "--bind" } else { "--ro-bind" }, path, path);
    }
    skeletons.iter().for_each(|dir| view.place("--remount-ro", dir));
    view.bind("--ro-bind", &helper, Path::new(HELPER_AT));
    let extras = policy.extra.iter().map(|extra| &extra.path);
    let given: Vec<_> = policy.writable.iter().chain(extras).collect();
    let outside = |socket: &PathBuf| !given.iter().any(|given| socket.starts_with(given));
    for path in sockets().into_iter().filter(outside).chain(policy.hidden.iter().cloned()) {
        view.hide(&path, policy);
    }
    let rest = policy.fixed_unless_judged.iter().filter(|_| !spawn::can_hand_over_calls());
    policy.fixed.iter().chain(rest).for_each(|path| view.bind("--ro-bind", path, path));
    policy.private.iter().for_each(|dir| view.place("--remount-ro", dir));
    let mut command = Command::new(bubblewrap);
    command.args(view.0).args(["--chdir", "/", "--", HELPER_AT]);
    Ok(command)
}

/// The arguments that lay out the view.
#[derive(Default)]
struct View(Vec<OsString>);

impl View {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn bind(&mut self, how: &str, from: &Path, at: &Path) {
        self.0.extend([OsStr::new(how), from.as_os_str(), at.as_os_str()].map(OsString::from));
    }

    fn place(&mut self, how: &str, at: &Path) {
        self.0.extend([OsStr::new(how), at.as_os_str()].map(OsString::from));
    }

    /// Covers a file or directory with an empty one.
    fn hide(&mut self, path: &Path, policy: &Policy) {
        let Ok(real) = std::fs::canonicalize(path) else { return };
        let is_covered = COVERED.iter().any(|place| real.starts_with(place));
        let is_private = policy.private.iter().any(|dir| real.starts_with(dir));
        let mut seen = policy.shown.iter().chain(&policy.writable);
        let is_seen = seen.any(|seen| real.starts_with(seen) || seen.starts_with(&real));
        // In a private directory there is nothing else to cover.
        if is_covered || (is_private && !is_seen) {
            return;
        }
        let empty = if real.is_dir() { "empty" } else { "empty.file" };
        self.bind("--ro-bind", &policy.scratch.join(empty), &real);
    }
}

fn is_real_dir(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}

//! Control groups, by which a command ends with all that it started in one stroke, where it has no
//! namespace of processes.
//!
//! A session has a group beneath the one that sinew is in, where this user may make one, and every
//! command one beneath that. What is in a group can leave it only by writing to the file system of the
//! groups, which commands cannot where anything contains them.
#![expect(clippy::disallowed_methods, reason = "the guard may touch the system")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::rung::Shortfall;

/// The beginning of the names of sessions' groups.
const NAME: &str = "sinew-";

/// The group of a session. It holds the helper process, so that nobody takes it for a dead one.
#[derive(Debug)]
pub(super) struct Group(PathBuf);

impl Group {
    /// Makes a group and moves this process into it.
    pub(super) fn of_session() -> Result<Self, Shortfall> {
        let missing = |error: io::Error| Shortfall::new("control group", error);
        let own = own().map_err(missing)?;
        remove_dead(&own);
        let group = Self(own.join(format!("{NAME}{}", std::process::id())));
        group.take_in_this_process().inspect_err(|_| group.remove()).map_err(missing)?;
        Ok(group)
    }

    fn take_in_this_process(&self) -> io::Result<()> {
        let helper = self.0.join("helper");
        fs::create_dir(&self.0)?;
        fs::create_dir(&helper)?;
        // Older kernels have groups and cannot end one.
        fs::symlink_metadata(helper.join("cgroup.kill"))?;
        fs::write(helper.join("cgroup.procs"), "0")
    }

    /// Makes the group of a command, whose keeper this process is, and enters it: what it starts is in
    /// it from its first moment. To move between groups takes long, and nobody waits for a keeper then.
    pub(super) fn of_command(&self) -> io::Result<CommandGroup> {
        let dir = self.command(std::process::id());
        fs::create_dir(&dir)?;
        let open = |path: PathBuf| OpenOptions::new().write(true).open(path);
        let out = open(self.0.join("helper/cgroup.procs"))?;
        let kill = open(dir.join("cgroup.kill"))?;
        fs::write(dir.join("cgroup.procs"), "0")?;
        Ok(CommandGroup { out, kill })
    }

    /// Removes the group of a command whose keeper ended.
    pub(super) fn remove_command(&self, keeper: u32) {
        let _ = fs::remove_dir(self.command(keeper));
    }

    /// Removes the group of the session, which this process leaves for the group above it.
    pub(super) fn remove(&self) {
        if let Some(above) = self.0.parent() {
            let _ = fs::write(above.join("cgroup.procs"), "0");
        }
        remove(&self.0);
    }

    fn command(&self, keeper: u32) -> PathBuf {
        self.0.join(keeper.to_string())
    }
}

/// The group of one command and its keeper.
#[derive(Debug)]
pub(super) struct CommandGroup {
    /// The members of the group that the keeper goes to before this one ends.
    out: File,
    kill: File,
}

impl CommandGroup {
    /// Takes this process out of the group and ends every other.
    pub(super) fn kill(&self) -> io::Result<()> {
        (&self.out).write_all(b"0")?;
        (&self.kill).write_all(b"1")
    }
}

/// Returns the directory of the group that this process is in, of the second hierarchy.
fn own() -> io::Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mount = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let place = place.split(' ').nth(4)?;
        kind.starts_with("cgroup2 ").then_some(place)
    });
    let none = || io::Error::other("no control groups of the second version");
    Ok(Path::new(mount.ok_or_else(none)?).join(own.ok_or_else(none)?))
}

/// Removes the groups of sessions whose helper process is gone.
fn remove_dead(own: &Path) {
    for entry in fs::read_dir(own).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        let helper = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let is_dead = |helper: &str| fs::symlink_metadata(Path::new("/proc").join(helper)).is_err();
        if helper.is_some_and(is_dead) {
            remove(&entry.path());
        }
    }
}

/// Removes a group and those beneath it, as far as they hold no process.
fn remove(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

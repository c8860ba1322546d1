//! Runs the bench in a mount namespace in which the user database names a home of the bench: servers read the
//! user's configuration from there, whatever variables say, and nothing of the user who measures takes part.
//!
//! The whole bench moves there at once, so that no row pays for it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

const USER_DATABASE: &str = "/etc/passwd";
/// Binds `$1` over the user database and becomes the rest of its arguments.
const BIND: &str = "mount --bind \"$1\" /etc/passwd && shift && exec \"$@\"";

/// Returns whether the user database names this home; where it does not, runs the bench where it does.
pub(super) fn is_bound(home: &Path, args: &[String]) -> Result<bool> {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let known = fs::read_to_string(USER_DATABASE).context(USER_DATABASE)?;
    let own = known.lines().find(|line| line.split(':').nth(2) == Some(&uid.to_string()));
    if own.and_then(|line| line.split(':').nth(5)).map(Path::new) == Some(home) {
        return Ok(true);
    }
    fs::create_dir_all(home)?;
    let database = home.with_extension("passwd");
    let entry = format!("bench:x:{uid}:{gid}::{}:/bin/sh\n{known}", home.display());
    fs::write(&database, entry)?;
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !uid.is_root() {
        command.arg("--map-root-user");
    }
    command.args(["sh", "-c", BIND, "sh"]).arg(&database);
    if !uid.is_root() {
        command.args(["unshare", "--user", &format!("--map-user={uid}")]);
        command.arg(format!("--map-group={gid}"));
    }
    let program = std::env::current_exe()?;
    let status = command.arg(program).arg("bench").args(args).status().context("unshare")?;
    if !status.success() {
        bail!("the bench in a mount namespace of its own ended with {status}");
    }
    Ok(false)
}

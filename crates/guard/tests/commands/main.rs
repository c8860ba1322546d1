//! Commands on every sandbox level that this machine has, as the user that runs the tests and, where that is
//! root, as nobody too.
//!
//! The program is its own helper, so it has no test harness of the compiler's.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests lay out real trees"
)]
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails loudly")]

mod call;
mod extra;
mod git;
mod goes_on;
mod hazards;
mod probes;
mod servers;
mod twin;
mod victim;
mod world;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

/// The user who may do nothing.
const NOBODY: u32 = 65_534;

fn main() -> ExitCode {
    let helper = sinew_guard::helper_main();
    if let Some(code) = victim::play(&helper).or_else(twin::play) {
        return code;
    }
    let mut args = Arguments::from_args();
    // Most of them wait most of the time.
    let n_cores = std::thread::available_parallelism().map_or(2, usize::from);
    args.test_threads.get_or_insert(n_cores.max(4));
    let mut trials = Vec::new();
    if rustix::process::geteuid().is_root() && args.filter.is_none() {
        // It is the longest, so it comes first.
        trials.push(Trial::test("everything as nobody", as_nobody));
    }
    trials.extend(hazards::trials(&helper));
    trials.extend(call::trials(&helper));
    trials.extend(extra::trials(&helper));
    trials.extend(git::trials(&helper));
    trials.extend(goes_on::trials(&helper));
    trials.extend(probes::trials(&helper));
    trials.extend(servers::trials(&helper));
    trials.extend(twin::trials(&helper));
    trials.extend(victim::trials(&helper));
    let done = libtest_mimic::run(&args, trials);
    world::remove_places();
    done.exit_code()
}

/// Runs every trial as a user without rights, from a copy of this program that he can read.
fn as_nobody() -> Result<(), Failed> {
    let dir = tempfile::tempdir_in("/var/lib")?;
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
    let home = dir.path().join("home");
    fs::create_dir(&home)?;
    chown(&home, Some(NOBODY), Some(NOBODY))?;
    let copy = dir.path().join("commands");
    // A process of its own writes the copy: children of other trials, between fork and exec, would hold a descriptor of
    // this process, and a program that is open for writing does not start (ETXTBSY).
    let copied = Command::new("cp").arg(std::env::current_exe()?).arg(&copy).status()?;
    if !copied.success() {
        return Err(format!("cp: {copied}").into());
    }
    fs::set_permissions(&copy, Permissions::from_mode(0o755))?;
    let done = Command::new(&copy)
        .env(world::WHEREABOUTS, &home)
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .output()?;
    let text = String::from_utf8_lossy(&done.stdout);
    let result = text.lines().find(|line| line.starts_with("test result")).unwrap_or_default();
    println!("as nobody: {result}");
    if done.status.success() { Ok(()) } else { Err(text.into_owned().into()) }
}

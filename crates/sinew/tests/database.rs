//! A user database of the test's own, in a mount namespace, so that the home that sinew reads from it is one of
//! the test: nothing of the user who runs the tests binds, and nothing is written there.
//!
//! Root makes the namespace directly. Other users make it in a user namespace, and get their own UID back in
//! another one below. Where neither works, tests that start a server say that they were skipped.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The program that the tests drive.
pub(crate) const SINEW: &str = env!("CARGO_BIN_EXE_sinew");

/// Returns a script that binds `$1` over the user database and becomes the rest of its arguments, with no
/// variable of a shell. A test may name any `PATH`.
fn bind() -> String {
    let (mount, env) = (system_program("mount"), system_program("env"));
    format!(
        "{mount} --bind \"$1\" /etc/passwd && shift && exec {env} -u PWD -u OLDPWD -u SHLVL -u _ \"$@\""
    )
}

fn system_program(name: &str) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|dir| dir.join(name));
    let found = found.find(|program| program.is_file());
    found.map_or_else(|| name.to_owned(), |program| program.display().to_string())
}

/// How a mount namespace can be made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Directly,
    ByUserNamespace,
    None,
}

fn way() -> Way {
    static WAY: OnceLock<Way> = OnceLock::new();
    *WAY.get_or_init(|| {
        let works = |way: Way| {
            let mut command = wrapped(way, Path::new("/etc/passwd"), OsStr::new("true"));
            let command = command.stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let mut ways = [Way::Directly, Way::ByUserNamespace].into_iter();
        ways.find(|way| works(*way)).unwrap_or(Way::None)
    })
}

fn wrapped(way: Way, database: &Path, program: &OsStr) -> Command {
    let mut command = Command::new(system_program("unshare"));
    let (sh, bind) = (system_program("sh"), bind());
    match way {
        Way::None => return Command::new(program),
        Way::Directly => command.args(["--mount", &sh, "-c", &bind, "sh"]).arg(database),
        Way::ByUserNamespace => {
            let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
            command.args(["--mount", "--map-root-user", &sh, "-c", &bind, "sh"]).arg(database);
            command.args([&system_program("unshare"), "--user", &format!("--map-user={uid}")]);
            command.arg(format!("--map-group={gid}"))
        }
    };
    command.arg(program);
    command
}

/// Returns a program that finds a home in the user database, where a namespace can be made.
pub(crate) fn at_home(home: &Path, program: impl AsRef<OsStr>) -> Command {
    let database = home.join(".passwd");
    if way() != Way::None && home.is_dir() {
        // Threads of a test share a home, and none finds a file that is half written.
        let mut file = tempfile::NamedTempFile::new_in(home).unwrap();
        file.write_all(naming(home).as_bytes()).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
        file.persist(&database).unwrap();
    }
    wrapped(way(), &database, program.as_ref())
}

/// Returns a program that finds this text as the user database.
pub(crate) fn with_database(text: &str, dir: &Path, program: impl AsRef<OsStr>) -> Command {
    let database = dir.join("user-database");
    fs::write(&database, text).unwrap();
    wrapped(way(), &database, program.as_ref())
}

/// Returns the user database with another home for this user.
pub(crate) fn naming(home: &Path) -> String {
    let uid = rustix::process::getuid().to_string();
    let known = fs::read_to_string("/etc/passwd").unwrap();
    let own = known.lines().find(|line| line.split(':').nth(2) == Some(&uid));
    let name = own.and_then(|line| line.split(':').next()).unwrap_or("tester");
    format!("{name}:x:{uid}:{uid}::{}:/bin/sh\n{known}", home.display())
}

/// Lays out a home whose usual directories of configuration and state are `config` and `state` in it.
pub(crate) fn lay_out(home: &Path) {
    for (usual, to, dir) in [(".config", "config", "config"), (".local/state", "../state", "state")]
    {
        let usual = home.join(usual);
        if fs::symlink_metadata(&usual).is_err() {
            fs::create_dir_all(usual.parent().unwrap()).unwrap();
            fs::create_dir_all(home.join(dir)).unwrap();
            // Another thread of the test may do the same.
            let made = symlink(to, &usual);
            assert!(made.is_ok() || usual.is_dir(), "{made:?}");
        }
    }
}

/// Returns whether a user database of the test's own can be bound; says that a test is skipped if not.
pub(crate) fn can_bind(test: &str) -> bool {
    let can = way() != Way::None;
    if !can {
        assert!(std::env::var_os("SINEW_TEST_ALL").is_none(), "mount namespaces must work here");
        let line =
            format!("SKIPPED {test}: no user database of the test's own can be bound here\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    can
}

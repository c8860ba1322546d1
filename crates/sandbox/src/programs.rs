//! Resolves the names of programs and shells for a command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sinew_tool::{Kind, Shell, ToolError};

use super::{Activate, Commands, activate};
use sinew_fs::stat::identity_of;

impl Commands {
    /// Returns the path of a shell.
    pub fn shell(&self, shell: Shell) -> PathBuf {
        let there = |path: &Path| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
        let posix = PathBuf::from("/bin/sh");
        match shell {
            Shell::Posix => posix,
            Shell::User => {
                let own = self.settings.shell.clone().filter(|own| {
                    // These shells have other languages.
                    let name = own.file_name().unwrap_or_default();
                    name != "fish" && name != "nu" && own.is_absolute() && there(own)
                });
                let bash = || self.find("bash").filter(|bash| there(bash));
                own.or_else(bash).unwrap_or(posix)
            }
        }
    }

    /// Finds a program by its name in `PATH`, without directories below a root: a repository must not choose
    /// it.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.named(name).find(|path| is_program(path))
    }

    /// Returns the paths where a program of a name may be.
    fn named(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.program_dirs.iter().map(move |dir| dir.join(name))
    }

    /// Finds the program that a name means for a command that starts in a directory.
    pub fn program(&self, name: &str, cwd: &Path, argument: &str) -> Result<PathBuf, ToolError> {
        let places = if name.contains('/') {
            vec![cwd.join(name)]
        } else {
            let own = self.venv(cwd).map(|venv| venv.join("bin").join(name));
            own.into_iter().chain(self.named(name)).collect()
        };
        self.program_of(places, name, argument)
    }

    /// Returns the first of these places that is a program.
    fn program_of(
        &self,
        places: Vec<PathBuf>,
        name: &str,
        argument: &str,
    ) -> Result<PathBuf, ToolError> {
        if let Some(found) = places.iter().find(|path| is_program(path)) {
            return Ok(found.clone());
        }
        Err(match places.iter().any(|path| identity(path).is_some()) {
            true => not_this(Kind::PermissionDenied, argument, "cannot be executed", name)
                .hint("its mode does not allow execution, or it is not a file"),
            false => not_this(Kind::FileNotFound, argument, "no such program", name),
        })
    }

    /// Finds a program that must be on a list. One given by path must be the one that its bare name means: a
    /// file of the same name elsewhere is another program.
    pub fn listed(
        &self,
        name: &str,
        cwd: &Path,
        argument: &str,
        programs: &[String],
    ) -> Result<PathBuf, ToolError> {
        let bare = name.rsplit('/').next().unwrap_or_default();
        if !programs.iter().any(|program| program == bare) {
            let problem = "this program may not be run here";
            let hint = format!("these may: {}", programs.join(", "));
            return Err(not_this(Kind::PolicyDenied, argument, problem, name).hint(hint));
        }
        if name.contains('/') {
            let Some(named) = identity(&cwd.join(name)) else {
                return Err(not_this(Kind::FileNotFound, argument, "no such program", name));
            };
            if self.find(bare).and_then(|path| identity(&path)) != Some(named) {
                let problem = "this is another program than the one of that name in PATH";
                let hint = format!("name it without a directory: `{bare}`");
                return Err(not_this(Kind::PolicyDenied, argument, problem, name).hint(hint));
            }
        }
        // The project must not choose what the list means.
        self.program_of(self.named(bare).collect(), bare, argument)
    }

    /// Returns the program that a bare name means for a command that starts in a directory.
    pub fn means(&self, name: &str, cwd: &Path) -> Option<PathBuf> {
        let own = self.venv(cwd).map(|venv| venv.join("bin").join(name));
        own.into_iter().chain(self.named(name)).find(|path| is_program(path))
    }

    /// Returns the error for a program that a shell would not find by its bare name, in a command that starts in a directory.
    pub fn missing(&self, name: &str, cwd: &Path, argument: &str) -> Option<ToolError> {
        let path = self.settings.env.iter().find(|(known, _)| known == "PATH");
        let path = path.map(|(_, path)| path.as_os_str()).unwrap_or_default();
        let mut dirs = std::env::split_paths(path);
        let is_found = self.means(name, cwd).is_some()
            || dirs.any(|dir| is_program(&cwd.join(dir).join(name)));
        (!is_found).then(|| not_this(Kind::FileNotFound, argument, "no such program", name))
    }

    /// Returns the files that make the environment of a directory.
    pub fn environment_files(&self, cwd: &Path) -> impl Iterator<Item = PathBuf> {
        let by_direnv = self.settings.activate.contains(&Activate::Direnv);
        let files = activate::files(cwd, &self.writable);
        by_direnv.then_some(files).into_iter().flatten()
    }

    /// Returns the virtual environment of a directory.
    pub fn venv(&self, cwd: &Path) -> Option<PathBuf> {
        let wanted = self.settings.activate.contains(&Activate::Venv);
        wanted.then(|| activate::venv(cwd, &self.writable)).flatten()
    }

    /// Returns direnv, if it has work in a directory.
    pub fn direnv(&self, cwd: &Path) -> Result<Option<PathBuf>, ToolError> {
        let wanted = self.settings.activate.contains(&Activate::Direnv);
        if !wanted || !activate::has_envrc(cwd, &self.writable) {
            return Ok(None);
        }
        self.find("direnv").map(Some).ok_or_else(|| {
            ToolError::new(Kind::Unavailable, "there is no `direnv` in PATH for the `.envrc` here")
                .hint("install it, or take `direnv` out of `run.activate`")
        })
    }
}

/// Returns the directories where programs are looked for, without those beneath a root.
pub(super) fn dirs(env: &[(OsString, OsString)], roots: &[PathBuf]) -> Vec<PathBuf> {
    let path = env.iter().find(|(name, _)| name == "PATH");
    let path = path.map(|(_, path)| path.as_os_str()).unwrap_or_default();
    let mut dirs = Vec::new();
    for dir in std::env::split_paths(path) {
        let is_writable = roots.iter().any(|root| dir.starts_with(root));
        if dir.is_absolute() && !is_writable && !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    dirs
}

/// Returns the device and inode of a file, if it exists.
fn identity(path: &Path) -> Option<(u64, u64)> {
    rustix::fs::stat(path).ok().map(|stat| identity_of(&stat).of_file())
}

fn not_this(kind: Kind, argument: &str, problem: &str, name: &str) -> ToolError {
    ToolError::new(kind, format!("argument `{argument}`: {problem}: {name}"))
        .hint("check the name; programs are looked for in PATH, outside the roots")
}

fn is_program(path: &Path) -> bool {
    use rustix::fs::{Access, FileType, access, stat};
    let is_file = |path| stat(path).is_ok_and(|s| FileType::from_raw_mode(s.st_mode).is_file());
    access(path, Access::EXEC_OK).is_ok() && is_file(path)
}

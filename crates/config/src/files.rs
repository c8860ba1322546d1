//! Reads configuration files.
#![expect(
    clippy::disallowed_methods,
    reason = "configuration files are read here and nowhere else"
)]

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// The size limit of a configuration file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The directory for sinew's files in a project.
pub(crate) const PROJECT_DIR: &str = ".sinew";
/// The name of a project's configuration in it.
pub(crate) const PROJECT_FILE: &str = "config.toml";
/// The file in a project that names MCP servers.
pub(crate) const MCP_FILE: &str = ".mcp.json";
/// The name of the directory of hooks, there and in the user's configuration directory.
pub(crate) const HOOKS_DIR: &str = "hooks";

/// Returns whether an error means a missing file: ENOENT or ENOTDIR.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns whether a file or its parent is a dangling symlink: lost rules must not count as no rules.
pub(crate) fn is_lost(path: &Path) -> bool {
    let leads_nowhere = |path: &Path| {
        let is_link = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
        is_link && fs::metadata(path).is_err()
    };
    leads_nowhere(path) || path.parent().is_some_and(leads_nowhere)
}

/// Reads a configuration file, which must be regular and within the size limit.
pub fn read(path: &Path) -> io::Result<String> {
    read_up_to(path, MAX_FILE_BYTES)
}

/// Reads a file of at most so many bytes.
pub(crate) fn read_up_to(path: &Path, most: u64) -> io::Result<String> {
    let mut options = fs::OpenOptions::new();
    let nonblocking = OFlags::NONBLOCK.bits();
    text_of(options.read(true).custom_flags(nonblocking.cast_signed()).open(path)?, most)
}

/// Reads a project's configuration without following symlinks: a parse error would reveal the target's text.
pub(crate) fn read_beneath(project: &Path) -> io::Result<String> {
    let by_name = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let project = rustix::fs::open(project, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let dir = rustix::fs::openat(&project, PROJECT_DIR, by_name, Mode::empty())?;
    let linked = || io::Error::other("a project's configuration may not be reached by a link");
    if FileType::from_raw_mode(rustix::fs::fstat(&dir)?.st_mode).is_symlink() {
        return Err(linked());
    }
    let to_read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(&dir, PROJECT_FILE, to_read, Mode::empty()) {
        Ok(file) => text_of(fs::File::from(file), MAX_FILE_BYTES),
        Err(Errno::LOOP) => Err(linked()),
        Err(error) => Err(error.into()),
    }
}

/// Reads a regular file directly in a project, without following a symlink; `None` for anything else there.
pub(crate) fn read_in(project: &Path, name: &str) -> Option<String> {
    let project = rustix::fs::open(project, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let to_read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&project, name, to_read, Mode::empty()).ok()?;
    text_of(fs::File::from(file), MAX_FILE_BYTES).ok()
}

/// Returns whether a project may have a configuration, hooks or servers for the layers. Most projects have none.
pub fn may_have_settings(project: &Path) -> bool {
    let is_missing = |looked: io::Result<fs::Metadata>| {
        looked.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    if !is_missing(fs::symlink_metadata(project.join(MCP_FILE))) {
        return true;
    }
    let dir = project.join(PROJECT_DIR);
    match fs::symlink_metadata(&dir) {
        Ok(meta) if meta.is_dir() => [PROJECT_FILE, HOOKS_DIR]
            .iter()
            .any(|name| !is_missing(fs::symlink_metadata(dir.join(name)))),
        looked => !is_missing(looked),
    }
}

/// Replaces a file of the state directory, which the user alone reads, in one step.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let temporary = path.with_extension(format!("{:016x}", u64::from_le_bytes(random)));
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
    let done = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
    let done = done.and_then(|()| fs::rename(&temporary, path));
    done.inspect_err(|_| drop(fs::remove_file(&temporary)))
}

fn text_of(file: fs::File, most: u64) -> io::Result<String> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if most < meta.len() {
        return Err(io::Error::other(format!("larger than {} KiB", most >> 10)));
    }
    let mut text = String::new();
    file.take(most).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// What the layers would refuse counts too, so that they are asked.
    #[test]
    fn projects_without_settings_are_known() {
        let top = tempfile::tempdir().expect("a directory");
        let project = |name: &str, dirs: &str| {
            let project = top.path().join(name);
            fs::create_dir_all(project.join(dirs)).expect("a directory");
            project
        };
        let file = project("file", ".sinew");
        fs::write(file.join(".sinew/config.toml"), "").expect("a file");
        let dangling = project("dangling", ".sinew");
        symlink("nowhere", dangling.join(".sinew/config.toml")).expect("a link");
        let linked = project("linked", "");
        symlink("nowhere", linked.join(".sinew")).expect("a link");
        let other = project("other", "");
        fs::write(other.join(".sinew"), "").expect("a file");
        for (project, expected) in [
            (top.path().join("missing"), false),
            (project("plain", ""), false),
            (project("outputs", ".sinew/tool-output"), false),
            (project("hooks", ".sinew/hooks"), true),
            (file, true),
            (dangling, true),
            (linked, true),
            (other, true),
        ] {
            assert_eq!(may_have_settings(&project), expected, "{}", project.display());
        }
    }
}

//! Stores the user's trust in projects, by content hash, and in arguments, by what they loosen.
//!
//! The state directory's `trust.toml` has a table for each. Any changed byte revokes a project's trust.
//! Arguments stay trusted while they loosen nothing more in the same directory.
#![expect(clippy::disallowed_methods, reason = "this is the one place that keeps what is trusted")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat};
use serde::{Deserialize, Serialize};
use sinew_guard::StateDir;

use super::files::{self, HOOKS_DIR, MCP_FILE, PROJECT_DIR, PROJECT_FILE};
use super::layers::LeftOut;
use super::server_entries::ServerEntries;
use super::{ConfigError, real};

const FILE: &str = "trust.toml";
/// The directories beneath `.sinew` whose files are hashed.
const COUNTED: [&str; 2] = [HOOKS_DIR, "skills"];
/// Directories of the project whose files are hashed too: skills and agents. One that a link leads to does not count, nor
/// one with links or too many files, and its files are not loaded.
const COUNTED_BESIDE: [(&str, &str); 3] =
    [(".agents", "skills"), (".agents", "agents"), (".claude", "skills")];
/// The total size limit of a project's hashed files.
const MAX_BYTES: u64 = 16 << 20;
const MAX_FILES: usize = 4_096;
const MAX_DEPTH: usize = 16;

/// The hashed files of a project, which trust covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// The text of its configuration, if any.
    pub config: Option<String>,
    /// Every file's path beneath the project, and its content hash.
    pub files: Vec<(PathBuf, blake3::Hash)>,
    /// The hook declarations, by file path.
    pub hooks: Vec<(PathBuf, String)>,
    /// The text of the file that names MCP servers, if it names any but sinew.
    pub servers: Option<String>,
    /// Why directories of skills and agents do not count, if some do not.
    pub left_out: Vec<String>,
}

impl Content {
    /// Reads the files of a project. A symlink is an error: its target can change unseen.
    pub fn of(project: &Path) -> io::Result<Self> {
        let mut content = Self::default();
        let text = match files::read_beneath(project) {
            Ok(text) => Some(text),
            Err(error) if files::is_absent(&error) => None,
            Err(error) => return Err(error),
        };
        if let Some(text) = text {
            let path = Path::new(PROJECT_DIR).join(PROJECT_FILE);
            content.files.push((path, blake3::hash(text.as_bytes())));
            content.config = Some(text);
        }
        let text = files::read_in(project, MCP_FILE);
        let names_servers = |text: &String| {
            ServerEntries::read(Path::new(MCP_FILE), text)
                .map_or(true, |servers| !servers.entries.is_empty())
        };
        if let Some(text) = text.filter(names_servers) {
            content.files.push((PathBuf::from(MCP_FILE), blake3::hash(text.as_bytes())));
            content.servers = Some(text);
        }
        let mut left = MAX_BYTES;
        if let Some(own) = directory(&project.join(PROJECT_DIR))? {
            for name in COUNTED {
                let path = Path::new(PROJECT_DIR).join(name);
                content.add(&own, name.as_ref(), &path, 0, &mut left)?;
            }
        }
        for (above, name) in COUNTED_BESIDE {
            let path = Path::new(above).join(name);
            let is_link = |path: &Path| {
                fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_symlink())
            };
            if is_link(&project.join(above)) || is_link(&project.join(&path)) {
                continue;
            }
            let before = (content.files.len(), left);
            let added = directory(&project.join(above)).and_then(|own| match own {
                Some(own) => content.add(&own, name.as_ref(), &path, 0, &mut left),
                None => Ok(()),
            });
            // Other programs fill these directories too, so that what cannot be trusted takes no trust from the rest.
            if let Err(error) = added {
                content.files.truncate(before.0);
                left = before.1;
                content.left_out.push(error.to_string());
            }
        }
        content.files.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(content)
    }

    /// Adds a file or a directory tree.
    fn add(
        &mut self,
        above: &std::os::fd::OwnedFd,
        name: &std::ffi::OsStr,
        path: &Path,
        depth: usize,
        left: &mut u64,
    ) -> io::Result<()> {
        let fail = |why: &str| io::Error::other(format!("{}: {why}", path.display()));
        if MAX_DEPTH < depth || MAX_FILES <= self.files.len() {
            return Err(fail("there are too many files or directories to trust them"));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(above, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(rustix::io::Errno::NOENT) if depth == 0 => return Ok(()),
            Err(rustix::io::Errno::LOOP) => {
                return Err(fail("a link cannot be trusted; put the file itself there"));
            }
            Err(error) => return Err(fail(&error.to_string())),
        };
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::Directory => {
                for entry in Dir::read_from(&file)? {
                    let entry = entry?;
                    let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
                    if name != "." && name != ".." {
                        self.add(&file, name, &path.join(name), depth + 1, left)?;
                    }
                }
                Ok(())
            }
            FileType::RegularFile => {
                let mut bytes = Vec::new();
                File::from(file).take(*left + 1).read_to_end(&mut bytes)?;
                let n = bytes.len() as u64;
                *left = left.checked_sub(n).ok_or_else(|| fail("more than 16 MiB altogether"))?;
                self.files.push((path.to_owned(), blake3::hash(&bytes)));
                if let Some(said) = said_of_hook(path, &bytes) {
                    self.hooks.push((path.to_owned(), said));
                }
                Ok(())
            }
            _ => Err(fail("this is neither a file nor a directory, so it cannot be trusted")),
        }
    }

    /// Returns the text of a file if it still has the recorded hash.
    pub fn text(&self, project: &Path, file: &Path) -> io::Result<String> {
        let text = files::read(&project.join(file))?;
        let hash = blake3::hash(text.as_bytes());
        match self.files.iter().any(|(path, known)| path == file && *known == hash) {
            true => Ok(text),
            false => Err(io::Error::other("it changed while it was read")),
        }
    }

    /// Returns the hook files and their hashes.
    pub fn hooks(&self) -> Vec<(PathBuf, blake3::Hash)> {
        let dir = Path::new(PROJECT_DIR).join(HOOKS_DIR);
        self.files.iter().filter(|(path, _)| path.starts_with(&dir)).cloned().collect()
    }

    /// Reads only the hook files of a project.
    pub fn read_hooks(project: &Path) -> io::Result<Vec<(PathBuf, blake3::Hash)>> {
        let mut content = Self::default();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let own = rustix::fs::open(project.join(PROJECT_DIR), flags, Mode::empty())?;
        let path = Path::new(PROJECT_DIR).join(HOOKS_DIR);
        let mut left = MAX_BYTES;
        content.add(&own, HOOKS_DIR.as_ref(), &path, 0, &mut left)?;
        content.files.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(content.files)
    }

    /// Returns the hash of all names and contents.
    fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (path, hash) in &self.files {
            let name = path.as_os_str().as_bytes();
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name).update(hash.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Opens a directory, unless nothing or something else is there.
fn directory(path: &Path) -> io::Result<Option<std::os::fd::OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(own) => Ok(Some(own)),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the declaration in a hook file: the whole `hook.toml`, or the front matter of `HOOK.md`.
fn said_of_hook(path: &Path, bytes: &[u8]) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    match name {
        "hook.toml" => {}
        "HOOK.md" => {
            let fence = lines.next().unwrap_or_default().trim();
            let front: Vec<&str> = lines.take_while(|line| line.trim() != fence).collect();
            return Some(front.join("\n"));
        }
        _ => return None,
    }
    Some(text.into_owned())
}

/// The trust state of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// It was never trusted.
    Never,
    /// It was trusted with another content, or the content cannot be read for this reason.
    Before(Option<String>),
    /// It is trusted with this content.
    Now(Content),
}

/// The content of `trust.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trusted {
    /// Projects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub project: Vec<Project>,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Arguments>,
}

/// A trusted project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Project {
    /// Its canonical directory.
    pub root: PathBuf,
    /// The hash of its content.
    pub hash: String,
    /// When it was trusted, in seconds since 1970.
    pub at_s: u64,
}

/// Trusted arguments and variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The canonical directory to which they apply.
    pub root: PathBuf,
    /// The values that they loosen, as `key=value`.
    pub loosens: Vec<String>,
    /// When they were trusted, in seconds since 1970.
    pub at_s: u64,
}

impl Trusted {
    /// Reads the file; a missing one trusts nothing.
    pub fn read(state: &Path) -> Result<Self, ConfigError> {
        let path = state.join(FILE);
        let fail = |error: &dyn std::fmt::Display| {
            ConfigError(format!(
                "{}: {}; it keeps what you trust, and may be removed",
                path.display(),
                error.to_string().trim_end()
            ))
        };
        if fs::metadata(&path).is_ok_and(|meta| meta.mode() & 0o022 != 0) {
            return Err(fail(&"others may write it; change that with `chmod go-w`"));
        }
        match files::read(&path) {
            Ok(text) => toml_edit::de::from_str(&text).map_err(|error| fail(&error)),
            Err(error) if files::is_absent(&error) => Ok(Self::default()),
            Err(error) => Err(fail(&error)),
        }
    }

    /// Returns whether the user has trusted a project with some content.
    pub fn knows(&self, project: &Path) -> bool {
        self.entry(project).is_some()
    }

    fn entry(&self, project: &Path) -> Option<&Project> {
        let root = (!self.project.is_empty()).then(|| real(project))?;
        self.project.iter().find(|entry| entry.root == root)
    }

    /// Returns the trust state of a project. Its files are read only if it was trusted.
    pub fn of_project(&self, project: &Path) -> Known {
        let Some(trusted) = self.entry(project) else { return Known::Never };
        match Content::of(&trusted.root) {
            Ok(content) if content.hash() == trusted.hash => Known::Now(content),
            Ok(_) => Known::Before(None),
            Err(error) => Known::Before(Some(error.to_string())),
        }
    }

    /// Returns whether one entry of a directory covers everything that arguments loosen there.
    pub fn confirms<'l>(
        &self,
        current: &Path,
        left_out: impl Iterator<Item = &'l LeftOut>,
    ) -> bool {
        let loosens: Vec<String> = left_out.map(LeftOut::to_string).collect();
        let root = real(current);
        let mut entries = self.arguments.iter().filter(|entry| entry.root == root);
        entries.any(|entry| loosens.iter().all(|one| entry.loosens.contains(one)))
    }

    /// Trusts a project with this content.
    pub fn trust_project(&mut self, project: &Path, content: &Content) {
        let root = real(project);
        self.project.retain(|entry| entry.root != root);
        self.project.push(Project { root, hash: content.hash(), at_s: now_s() });
    }

    /// Trusts the loosened values of arguments in a directory.
    pub fn trust_arguments(&mut self, current: &Path, loosens: Vec<String>) {
        let root = real(current);
        self.arguments.retain(|entry| entry.root != root || entry.loosens != loosens);
        self.arguments.push(Arguments { root, loosens, at_s: now_s() });
    }

    /// Removes all entries of a directory, and returns their number.
    pub fn revoke(&mut self, dir: &Path) -> usize {
        let root = real(dir);
        let before = self.project.len() + self.arguments.len();
        self.project.retain(|entry| entry.root != root);
        self.arguments.retain(|entry| entry.root != root);
        before - self.project.len() - self.arguments.len()
    }

    /// Applies every change of trust: locks and re-reads the file, since other processes may write it too.
    pub fn change<T>(state: &Path, change: impl FnOnce(&mut Self) -> T) -> Result<T, ConfigError> {
        let path = state.join(FILE);
        let fail = |error: io::Error| ConfigError(format!("{}: {error}", path.display()));
        StateDir::open(state).map_err(fail)?;
        let lock = File::open(state).map_err(fail)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| fail(error.into()))?;
        let mut trusted = Self::read(state)?;
        let done = change(&mut trusted);
        trusted.write(&path).map_err(fail)?;
        Ok(done)
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let body = toml_edit::ser::to_string_pretty(self).map_err(io::Error::other)?;
        let text = format!("# What you trust; `sinew trust revoke DIR` takes it back.\n\n{body}");
        files::write_private(path, &text)
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Origin;

    struct Place {
        _dir: tempfile::TempDir,
        project: PathBuf,
        state: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let top = fs::canonicalize(dir.path()).expect("a path");
            let (project, state) = (top.join("project"), top.join("state"));
            for name in [".sinew/hooks/deep", ".sinew/skills", ".sinew/other", ".agents/skills/x"] {
                fs::create_dir_all(project.join(name)).expect("a directory");
            }
            let place = Self { _dir: dir, project, state };
            place.write(".sinew/config.toml", "profile = \"full\"\n");
            place.write(".sinew/hooks/deep/a", "one");
            place
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.project.join(name), text).expect("a file");
        }

        fn trust(&self) {
            let content = Content::of(&self.project).expect("it reads");
            let change = |trusted: &mut Trusted| trusted.trust_project(&self.project, &content);
            Trusted::change(&self.state, change).expect("it is kept");
        }

        fn known(&self) -> Known {
            Trusted::read(&self.state).expect("it reads").of_project(&self.project)
        }
    }

    #[test]
    fn a_project_is_trusted_as_long_as_no_byte_changes() {
        let place = Place::new();
        assert_eq!(place.known(), Known::Never);
        place.trust();
        assert!(matches!(place.known(), Known::Now(_)));
        let mode = fs::metadata(place.state.join(FILE)).expect("a file").permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
        place.write(".sinew/other/b", "what does not count");
        assert!(matches!(place.known(), Known::Now(_)));
        for (name, text) in [
            (".sinew/config.toml", "profile = \"full\"\n\n"),
            (".sinew/hooks/deep/a", "two"),
            (".sinew/hooks/b", ""),
            (".sinew/skills/c", "x"),
        ] {
            place.write(name, text);
            assert_eq!(place.known(), Known::Before(None), "{name}");
            place.trust();
            assert!(matches!(place.known(), Known::Now(_)), "{name}");
        }
        fs::rename(place.project.join(".sinew/hooks/b"), place.project.join(".sinew/hooks/d"))
            .expect("it moves");
        assert_eq!(place.known(), Known::Before(None), "a name is content too");
        let revoke = |trusted: &mut Trusted| trusted.revoke(&place.project);
        assert_eq!(Trusted::change(&place.state, revoke).expect("it is kept"), 1);
        assert_eq!(place.known(), Known::Never);
    }

    #[test]
    fn what_can_change_unseen_is_not_trusted() {
        let place = Place::new();
        place.trust();
        std::os::unix::fs::symlink("/etc/hostname", place.project.join(".sinew/hooks/link"))
            .expect("a link");
        let error = Content::of(&place.project).expect_err("a link").to_string();
        assert!(error.contains(".sinew/hooks/link: a link cannot be trusted"), "{error}");
        assert_eq!(place.known(), Known::Before(Some(error)));
        fs::remove_file(place.project.join(".sinew/hooks/link")).expect("it goes");
        assert!(matches!(place.known(), Known::Now(_)));
        let large = File::create(place.project.join(".sinew/skills/large")).expect("a file");
        large.set_len(MAX_BYTES + 1).expect("its size");
        let error = Content::of(&place.project).expect_err("a large file").to_string();
        assert!(error.contains("more than 16 MiB"), "{error}");
    }

    #[test]
    fn arguments_are_trusted_for_what_they_loosen_and_where() {
        let place = Place::new();
        let left = |key: &str, value| LeftOut {
            key: key.to_owned(),
            value,
            origin: Origin::Flag("--set"),
        };
        let (mode, network) = (left("approvals", json!("allow")), left("run.network", json!(true)));
        let both = [mode.clone(), network.clone()];
        let loosens = both.iter().map(LeftOut::to_string).collect();
        let change = |trusted: &mut Trusted| trusted.trust_arguments(&place.project, loosens);
        Trusted::change(&place.state, change).expect("it is kept");
        let trusted = Trusted::read(&place.state).expect("it reads");
        let other = left("approvals", json!("trust-client"));
        for (what, dir, is_confirmed) in [
            (vec![&mode, &network], &place.project, true),
            (vec![&mode], &place.project, true),
            (vec![&mode, &other], &place.project, false),
            (vec![&mode], &place.state, false),
        ] {
            let confirmed = trusted.confirms(dir, what.iter().copied());
            assert_eq!(confirmed, is_confirmed, "{what:?} in {}", dir.display());
        }
    }

    #[test]
    fn what_others_may_write_is_not_believed() {
        use std::os::unix::fs::PermissionsExt;

        let place = Place::new();
        place.trust();
        let path = place.state.join(FILE);
        for (mode, is_read) in [(0o600, true), (0o644, true), (0o666, false), (0o660, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            assert_eq!(Trusted::read(&place.state).is_ok(), is_read, "{mode:o}");
        }
    }

    #[test]
    fn a_broken_file_is_told_and_kept() {
        let place = Place::new();
        place.trust();
        fs::write(place.state.join(FILE), "[[project]\n").expect("a file");
        let error = Trusted::read(&place.state).expect_err("no TOML").to_string();
        assert!(error.contains("trust.toml: TOML parse error at line 1"), "{error}");
        assert!(error.contains("may be removed"), "{error}");
        assert!(Trusted::change(&place.state, |_| ()).is_err());
        assert_eq!(fs::read_to_string(place.state.join(FILE)).expect("a file"), "[[project]\n");
    }
}

//! Trees that vanish with their test, and short ways to make a call on them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use sinew_guard::{
    Case, Cleared, Contained, Guard, GuardSettings, Judged, Profile, Resolver, Rules,
};
use sinew_tool::{
    Access, Answer, Claim, Entry, Expect, Facts, FileSettings, Flow, Links, Scope, Slot, ToolError,
    Verdict, Visitor, Visitors, WalkOptions, WalkReport, World, Written,
};

/// Both ways to resolve paths.
pub(crate) const RESOLVERS: [Resolver; 2] = [Resolver::Auto, Resolver::Walk];

pub(crate) const WRITE: Access = Access::Write { parents: true, links: Links::Follow };
pub(crate) const EDIT: Access = Access::Edit { links: Links::Follow };

/// What a walk looks at unless a test says otherwise.
pub(crate) const OPTIONS: WalkOptions =
    WalkOptions { heed_ignore: true, enter_state: false, max_depth: None, directories: false };

/// A directory `ws` for tools and a directory `outside` that no tool may reach.
pub(crate) struct Tree {
    _dir: tempfile::TempDir,
    pub(crate) top: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) outside: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let (root, outside) = (top.join("ws"), top.join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret.txt"), "SECRET").unwrap();
        Self { _dir: dir, top, root, outside }
    }

    /// Writes files beneath the root: `("dir/name", "content")`.
    pub(crate) fn with(self, files: &[(&str, &str)]) -> Self {
        for (path, content) in files {
            self.write(path, content);
        }
        self
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.root.join(name)).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// Opens a guard on the root.
    pub(crate) fn guard(&self, resolver: Resolver) -> Arc<Guard> {
        self.guard_with(resolver, FileSettings::default())
    }

    pub(crate) fn guard_with(&self, resolver: Resolver, files: FileSettings) -> Arc<Guard> {
        Guard::open(GuardSettings {
            resolver,
            files: Arc::new(files),
            ..GuardSettings::new(vec![self.root.clone()])
        })
        .unwrap()
    }

    /// Gives the whole tree to a user who is not root.
    fn give_away(&self) {
        for path in self.everything().into_iter().map(|(path, _)| path).chain([self.top.clone()]) {
            lchown(path, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
        }
    }

    /// Does something without the rights of root, on a tree of the user who does it.
    pub(crate) fn without_root(&self, deed: impl FnOnce() + Send) {
        if !rustix::process::geteuid().is_root() {
            return deed();
        }
        self.give_away();
        as_other_user(&[], deed);
    }

    /// Does something as a user who owns the tree and is in these groups, once `prepare` has laid
    /// out as root what belongs to others.
    pub(crate) fn beside_others(
        &self,
        groups: &[u32],
        prepare: impl FnOnce(),
        deed: impl FnOnce() + Send,
    ) {
        if !rustix::process::geteuid().is_root() {
            return skipped("only root can lay out files of several users");
        }
        self.give_away();
        prepare();
        as_other_user(groups, deed);
    }

    /// Returns every path beneath the top, to show that a refusal changed nothing.
    pub(crate) fn everything(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all = Vec::new();
        let mut left = vec![self.top.clone()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let kind = fs::symlink_metadata(&path).unwrap().file_type();
                if kind.is_dir() {
                    left.push(path.clone());
                }
                let content = if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                all.push((path, content));
            }
        }
        all.sort();
        all
    }
}

/// A user, and the group of this user alone.
pub(crate) const OTHER_USER: u32 = 7_007;

/// Does something on a thread with the rights of another user.
fn as_other_user(groups: &[u32], deed: impl FnOnce() + Send) {
    use rustix::thread::{Gid, Uid};
    use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

    let groups: Vec<_> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            set_thread_groups(&groups).unwrap();
            set_thread_gid(Gid::from_raw(OTHER_USER)).unwrap();
            set_thread_uid(Uid::from_raw(OTHER_USER)).unwrap();
            deed();
        });
        done.join().unwrap();
    });
}

/// Says what this machine cannot try, past the capture of the harness. Where `SINEW_TEST_ALL` is
/// set the test fails instead.
pub(crate) fn skipped(reason: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    std::io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes()).unwrap();
    assert!(std::env::var_os("SINEW_TEST_ALL").is_none(), "{reason}");
}

/// Contains one path.
pub(crate) fn contain(
    guard: &Arc<Guard>,
    path: &str,
    access: Access,
) -> Result<Contained, ToolError> {
    let claim = Claim::new("path", Some(path.to_owned()), access);
    guard.contain(&[claim], None, None)
}

/// Judges a call under a profile.
pub(crate) fn judged(contained: Contained, profile: Profile) -> Judged {
    let (facts, rules) = (&Facts::CHANGES, Rules { profile, ..Rules::default() });
    let case = Case { tool: "test", operation: "Test", facts, effects: facts.effects, agent: None };
    contained.judge(&case, &rules)
}

/// Clears a call that no person looked at.
pub(crate) fn allow(contained: Contained) -> Cleared {
    let judged = judged(contained, Profile::Full);
    let clearance = match judged.ruling().verdict {
        Verdict::Allow => judged.by_ruling(),
        Verdict::Ask | Verdict::Deny => judged.by_standing_answer(),
    };
    Guard::clear(clearance.unwrap()).unwrap()
}

/// Clears a call as a person's yes does.
pub(crate) fn approve(contained: Contained) -> Cleared {
    let judged = judged(contained, Profile::Workspace);
    let fingerprint = judged.fingerprint().unwrap();
    let clearance = judged.by_answer(&Answer::Yes(Scope::Call), &fingerprint).unwrap();
    Guard::clear(clearance.unwrap()).unwrap()
}

/// Contains one path and clears the call.
pub(crate) fn world(guard: &Arc<Guard>, path: &str, access: Access) -> Result<World, ToolError> {
    contain(guard, path, access).map(|contained| allow(contained).world)
}

/// Reads one file through the guard.
pub(crate) fn read(guard: &Arc<Guard>, path: &str) -> Result<String, ToolError> {
    let world = world(guard, path, Access::Read)?;
    let opened = world.files.open(Slot(0)).map_err(|error| error.about(path))?;
    Ok(std::io::read_to_string(opened.file).unwrap())
}

/// Replaces one file through the guard.
pub(crate) fn replace(
    guard: &Arc<Guard>,
    path: &str,
    access: Access,
    content: &str,
) -> Result<Written, ToolError> {
    let world = world(guard, path, access)?;
    world
        .files
        .replace(Slot(0), &[content.as_bytes()], Expect::Any)
        .map_err(|error| error.about(path))
}

/// Walks a directory and returns the paths by name.
pub(crate) fn walk(
    guard: &Arc<Guard>,
    path: &str,
    options: &WalkOptions,
) -> (Vec<String>, WalkReport) {
    walked(&world(guard, path, Access::Search).unwrap(), options)
}

/// Walks the first target of a World and returns the paths by name.
pub(crate) fn walked(world: &World, options: &WalkOptions) -> (Vec<String>, WalkReport) {
    let names = Names(Mutex::default());
    let report = world.files.walk(Slot(0), options, &names, &AtomicBool::new(false)).unwrap();
    let mut names = names.0.into_inner().unwrap();
    names.sort();
    (names, report)
}

/// Notes every path.
pub(crate) struct Names(pub(crate) Mutex<Vec<String>>);

impl Visitors for Names {
    fn visitor(&self) -> Box<dyn Visitor + '_> {
        Box::new(Naming(&self.0))
    }
}

struct Naming<'n>(&'n Mutex<Vec<String>>);

impl Visitor for Naming<'_> {
    fn visit(&mut self, entry: &dyn Entry) -> Flow {
        assert_eq!(entry.path().file_name(), Some(entry.name()));
        self.0.lock().unwrap().push(entry.path().to_string_lossy().into_owned());
        Flow::Continue
    }
}

/// Returns how often a test that repeats itself goes on: `n` times, or as many times more as
/// `SINEW_TEST_ROUNDS` says.
pub(crate) fn rounds(n: usize) -> usize {
    let more = std::env::var("SINEW_TEST_ROUNDS").ok().and_then(|text| text.parse::<usize>().ok());
    n * more.unwrap_or(1)
}

//! A World in memory.
//!
//! It answers as the World of the guard does for a user who owns every file and is not root:
//!
//! - Paths are resolved beneath one root, [`ROOT`], which is also the working directory. Links are
//!   followed, `..` included, but never out of the root. A missing file is a target without a state;
//!   whatever lies behind a dangling link can be neither read nor created.
//! - Opening hands out a real file descriptor with a copy of the content. Directories and special
//!   files are refused; a file that its owner may not read is denied.
//! - A replacement gives the file a new inode, keeps its mode and takes its time from the clock.
//!   `Write` creates missing parents only where its claim says so, `Edit` creates nothing, and a
//!   World for previews changes nothing. Changes that are made together are all made or none is.
//! - A walk visits in no useful order, with two visitors in turn on one thread. Links are shown and
//!   not followed. `.git`, `.sinew` and `.molf` count as hidden unless they are asked for; ignore
//!   files count by the rules of ripgrep. A directory that is left out counts once.
//! - A listing shows every name, state directories included, sorted by bytes.
//!
//! Absent: path rules of the configuration, protected names, hard links, owners, other file systems.

mod files;
mod walk;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use serde_json::Value;
use sinew_tool::sync::lock;
use sinew_tool::{
    AgentSpawner, Arguments, Cancel, Claim, Clock, Context, FileError, FileMeta, FileSettings,
    FileState, FileTarget, Host, Kind, Links, Memo, MemoryScope, MessageClaim, NoAgents,
    NoCheckpoints, NoProcesses, NoSkills, NoTools, Position, Prepared, Preview, Processes,
    Progress, Reply, SearchClaim, Shaping, SkillIndex, Slot, Stamp, Targets, Tool, ToolError,
    UrlClaim, UrlTarget, World,
};

use crate::knowledge::{CallKnowledge, MemoryKnowledge};
use crate::mailbox::{Mailbox, MailboxOfCall};
use crate::pages::{Pages, PagesOfCall};
use crate::tree::{Node, Place, Tree, What, check_spelling};
use files::MemoryFiles;

/// The root and working directory of every memory world.
pub const ROOT: &str = "/root-of-test";

/// The user's memory file. Everything is beneath the root here, so this is too.
pub const USER_MEMORY: &str = ".user/MEMORY.md";

/// The seconds since 1970 at which files are made; each is one second younger than the one before.
const BORN: i64 = 1_700_000_000;

/// Directories that are not entered unless that is asked for.
const STATE: [&str; 3] = [".git", ".sinew", ".molf"];

/// A tree of files in memory, with what calls on it share.
#[derive(Clone)]
pub struct MemoryWorld {
    tree: Arc<Mutex<Tree>>,
    clock: Arc<MemoryClock>,
    memo: Arc<Memo>,
    knowledge: MemoryKnowledge,
    n_made: Arc<AtomicU64>,
    n_opened: Arc<AtomicU64>,
    /// Settings of the file tools.
    pub settings: Arc<FileSettings>,
    /// What runs the command of every call.
    pub processes: Arc<dyn Processes>,
    /// The pages that calls fetch.
    pub pages: Pages,
    /// The skills that calls load.
    pub skills: Arc<dyn SkillIndex>,
    /// What spawns sub-agents.
    pub agents: Arc<dyn AgentSpawner>,
    /// The messages of every call.
    pub mailbox: Mailbox,
    /// The cancellation of every call.
    pub cancel: Cancel,
    /// The deadline of every call.
    pub deadline: Option<Instant>,
}

impl Default for MemoryWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryWorld {
    /// Returns a world with an empty root.
    pub fn new() -> Self {
        Self::with_settings(FileSettings::default())
    }

    /// Returns a world with an empty root and settings of its own.
    pub fn with_settings(settings: FileSettings) -> Self {
        Self {
            tree: Arc::new(Mutex::new(Tree::new(Path::new(ROOT)))),
            clock: Arc::new(MemoryClock::new()),
            memo: Arc::default(),
            knowledge: MemoryKnowledge::default(),
            n_made: Arc::default(),
            n_opened: Arc::default(),
            settings: Arc::new(settings),
            processes: Arc::new(NoProcesses),
            pages: Pages::default(),
            skills: Arc::new(NoSkills),
            agents: Arc::new(NoAgents),
            mailbox: Mailbox::default(),
            cancel: Cancel::default(),
            deadline: None,
        }
    }

    /// Makes a file with its parents. Paths of this and the other makers are relative to the root.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        self.make(path, What::File(Arc::from(content.as_ref())), 0o644)
    }

    /// Makes a directory with its parents.
    pub fn directory(&self, path: &str) -> &Self {
        self.make(path, What::Directory, 0o755)
    }

    /// Makes a symbolic link.
    pub fn link(&self, path: &str, target: &str) -> &Self {
        self.make(path, What::Link(PathBuf::from(target)), 0o777)
    }

    /// Makes something that is neither file nor directory nor link.
    pub fn special(&self, path: &str) -> &Self {
        self.make(path, What::Special, 0o644)
    }

    /// Sets when the content of a file changed last, in seconds since 1970.
    pub fn modified(&self, path: &str, seconds: i64) -> &Self {
        if let Some(node) = self.tree().get_mut(&absolute(path)) {
            node.modified = Stamp { seconds, nanos: 0 };
        }
        self
    }

    /// Sets the permission bits of a file.
    pub fn mode(&self, path: &str, mode: u32) -> &Self {
        if let Some(node) = self.tree().get_mut(&absolute(path)) {
            node.mode = mode;
        }
        self
    }

    /// Removes a file, or a directory with all that is beneath it.
    pub fn remove(&self, path: &str) -> &Self {
        self.tree().remove(&absolute(path));
        self
    }

    /// Returns the content of a file.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        match &self.tree().get(&absolute(path))?.what {
            What::File(content) => Some(content.to_vec()),
            _ => None,
        }
    }

    /// Returns the metadata of a path, without following links.
    pub fn meta(&self, path: &str) -> Option<FileMeta> {
        self.tree().get(&absolute(path)).map(Node::meta)
    }

    /// Lets the clock go on by so much at each look at it.
    pub fn tick(&self, step: Duration) -> &Self {
        let step = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        self.clock.step_ns.store(step, Ordering::Relaxed);
        self
    }

    /// Returns the time of the clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Contains claims as the guard does.
    pub fn contain(&self, claims: Vec<Claim>) -> Result<Targets, ToolError> {
        let files: Result<Vec<FileTarget>, ToolError> = claims
            .into_iter()
            .enumerate()
            .map(|(at, claim)| {
                let written = claim.path.clone();
                self.target(Slot(at), claim).map_err(|error| match written {
                    Some(written) => error.about(&written),
                    None => error.about("."),
                })
            })
            .collect();
        files.map(|files| Targets { files, ..Targets::default() })
    }

    fn target(&self, slot: Slot, claim: Claim) -> Result<FileTarget, FileError> {
        let tree = self.tree();
        let place = self.place(&tree, &claim)?;
        let state = match tree.get(&place.real) {
            Some(node) => FileState::Found(node.meta()),
            None => FileState::Missing,
        };
        let root = PathBuf::from(ROOT);
        Ok(FileTarget {
            slot,
            claim,
            path: place.real,
            root,
            position: Position::Inside,
            state,
            protected: None,
            runs_later: false,
            later_beneath: Vec::new(),
        })
    }

    fn place(&self, tree: &Tree, claim: &Claim) -> Result<Place, FileError> {
        let links = claim.access.links();
        if let Some(scope) = claim.memory {
            return memory_place(tree, scope, links);
        }
        let written = claim.path.as_deref().unwrap_or(".");
        check_spelling(Path::new(written))?;
        tree.resolve(&Path::new(ROOT).join(written), links)
    }

    /// Returns the context of a call with these claims. One that may not change anything is for
    /// previews.
    pub fn context(&self, claims: Vec<Claim>, may_change: bool) -> Result<Context, ToolError> {
        self.context_with(claims, Vec::new(), None, None, may_change)
    }

    /// Returns the context of a call that fetches these addresses, searches, or sends a message, too.
    fn context_with(
        &self,
        claims: Vec<Claim>,
        urls: Vec<UrlClaim>,
        search: Option<SearchClaim>,
        message: Option<MessageClaim>,
        may_change: bool,
    ) -> Result<Context, ToolError> {
        let urls = urls.into_iter().map(|claim| {
            let url = claim.url.clone();
            UrlTarget { claim, url, host: Host::new("x.test", Some(80)) }
        });
        let search = search.map(|claim| self.pages.target(&claim));
        let message = message.map(Mailbox::target).transpose()?;
        let targets = Targets { urls: urls.collect(), search, message, ..self.contain(claims)? };
        let targets = Arc::new(targets);
        let files = MemoryFiles {
            world: self.clone(),
            targets: Arc::clone(&targets),
            may_change,
            changes: Mutex::new(Vec::new()),
        };
        let knowledge = CallKnowledge {
            knowledge: self.knowledge.clone(),
            settings: Arc::clone(&self.settings),
            targets: Arc::clone(&targets),
        };
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as Arc<dyn Clock>;
        Ok(Context {
            session: String::from("test"),
            agent: None,
            turn: None,
            roots: None,
            call_id: String::from("call"),
            dialect: "test",
            tools: Arc::new(NoTools),
            skills: Arc::clone(&self.skills),
            agents: Arc::clone(&self.agents),
            world: World {
                files: Arc::new(files),
                processes: Arc::clone(&self.processes),
                net: Arc::new(PagesOfCall {
                    pages: self.pages.clone(),
                    targets: Arc::clone(&targets),
                }),
                messages: Arc::new(MailboxOfCall {
                    mailbox: self.mailbox.clone(),
                    target: targets.message.clone(),
                }),
                knowledge: Arc::new(knowledge),
                checkpoints: Arc::new(NoCheckpoints),
                clock,
            },
            targets,
            cwd: Arc::from(Path::new(ROOT)),
            settings: Arc::clone(&self.settings),
            memo: Arc::clone(&self.memo),
            cancel: self.cancel.clone(),
            progress: Progress::default(),
            midway: None,
            deadline: self.deadline,
            sleep: |_| Box::pin(std::future::ready(())),
        })
    }

    /// Returns what a call would change.
    pub fn preview(&self, tool: &Arc<dyn Tool>, args: &Value) -> Result<Preview, ToolError> {
        let mut prepared = self.prepare(tool, args)?;
        let cx = self.context(prepared.claims(), false)?;
        Ok(prepared.preview(&cx))
    }

    /// Previews a call, lets `between` change the world, and runs the same call, as one that a person approves.
    pub fn approved(
        &self,
        tool: &Arc<dyn Tool>,
        args: &Value,
        between: impl FnOnce(&Self),
    ) -> Result<Reply, ToolError> {
        let mut prepared = self.prepare(tool, args)?;
        let claims = prepared.claims();
        prepared.preview(&self.context(claims.clone(), false)?);
        between(self);
        run(self, claims, prepared)
    }

    /// Returns how often calls opened a file.
    pub fn n_opened(&self) -> u64 {
        self.n_opened.load(Ordering::Relaxed)
    }

    fn prepare(&self, tool: &Arc<dyn Tool>, args: &Value) -> Result<Box<dyn Prepared>, ToolError> {
        let args: Arguments = args.as_object().cloned().unwrap_or_default();
        Arc::clone(tool).prepare(args, &self.settings)
    }

    fn make(&self, path: &str, what: What, mode: u32) -> &Self {
        let n_made = self.n_made.fetch_add(1, Ordering::Relaxed);
        let time = Stamp { seconds: BORN + n_made.cast_signed(), nanos: 0 };
        self.tree().put(&absolute(path), what, mode, time);
        self
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        lock(&self.tree)
    }
}

/// Resolves a memory file; no link is followed on the way.
fn memory_place(tree: &Tree, scope: MemoryScope, links: Links) -> Result<Place, FileError> {
    let path = absolute(match scope {
        MemoryScope::Project => ".sinew/MEMORY.md",
        MemoryScope::User => USER_MEMORY,
    });
    let links = if links == Links::Follow { Links::Refuse } else { links };
    let denied = || FileError::Denied(String::from("a symbolic link is on the way"));
    match tree.resolve(&path, links) {
        Err(FileError::Link) => Err(denied()),
        Ok(place) if place.real != path => Err(denied()),
        other => other,
    }
}

fn absolute(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}

/// Runs one call of a tool as the runtime does, without rules, hooks and ledger.
pub fn call(world: &MemoryWorld, tool: &Arc<dyn Tool>, args: Value) -> Reply {
    let path = args.as_object().and_then(|args| {
        ["file_path", "path"].iter().find_map(|name| args.get(*name)?.as_str().map(str::to_owned))
    });
    let reply =
        world.prepare(tool, &args).and_then(|mut prepared| run(world, prepared.claims(), prepared));
    reply.unwrap_or_else(|error| tool.fail(&error, path.as_deref()))
}

fn run(
    world: &MemoryWorld,
    claims: Vec<Claim>,
    prepared: Box<dyn Prepared>,
) -> Result<Reply, ToolError> {
    let cx =
        world.context_with(claims, prepared.urls(), prepared.search(), prepared.message(), true)?;
    let targets = Arc::clone(&cx.targets);
    let cwd = Arc::clone(&cx.cwd);
    let mut future = pin!(prepared.run(cx));
    let mut waker = std::task::Context::from_waker(Waker::noop());
    match future.as_mut().poll(&mut waker) {
        Poll::Ready(ran) => {
            let settings = &world.settings;
            Ok(ran?.shape(&Shaping { targets: &targets, cwd: &cwd, settings, checkpoint: None }))
        }
        Poll::Pending => {
            Err(ToolError::new(Kind::ExecutionFailed, "the call waits, which nothing here wakes"))
        }
    }
}

/// A clock that goes on only when it is looked at.
struct MemoryClock {
    start: Instant,
    passed_ns: AtomicU64,
    step_ns: AtomicU64,
}

impl MemoryClock {
    fn new() -> Self {
        let (passed_ns, step_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { start: Instant::now(), passed_ns, step_ns }
    }
}

impl Clock for MemoryClock {
    fn now(&self) -> Instant {
        let step = self.step_ns.load(Ordering::Relaxed);
        let passed = self.passed_ns.fetch_add(step, Ordering::Relaxed);
        self.start + Duration::from_nanos(passed)
    }

    fn wall_ms(&self) -> u64 {
        1_800_000_000_000 + self.passed_ns.load(Ordering::Relaxed) / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use sinew_tool::{Access, Expect};

    use super::*;

    fn world() -> MemoryWorld {
        let world = MemoryWorld::new();
        world
            .file("dir/file", "x")
            .link("to-dir", "dir")
            .link("absolute", &format!("{ROOT}/dir/file"))
            .link("dangling", "dir/none")
            .link("loop", "loop")
            .link("out", "../etc");
        world
    }

    fn claim(path: &str, access: Access) -> Vec<Claim> {
        vec![Claim::new("path", Some(path.to_owned()), access)]
    }

    /// Contains a path for reading and compares the real path, or the kind of the error.
    #[track_caller]
    fn check(path: &str, expected: Result<(&str, bool), Kind>) {
        let found = world().contain(claim(path, Access::Read)).map(|targets| {
            let target = &targets.files[0];
            let real = target.path.strip_prefix(ROOT).expect("beneath the root").to_owned();
            (real, target.state != FileState::Missing)
        });
        let expected = expected.map(|(path, there)| (PathBuf::from(path), there));
        assert_eq!(found.map_err(|error| error.kind), expected);
    }

    #[test]
    fn paths_are_followed_and_stay_inside() {
        check("dir/file", Ok(("dir/file", true)));
        check("to-dir/file", Ok(("dir/file", true)));
        check("absolute", Ok(("dir/file", true)));
        check("to-dir/../dir/./file", Ok(("dir/file", true)));
        check(&format!("{ROOT}/dir"), Ok(("dir", true)));
        check("none/at/all", Ok(("none/at/all", false)));
        check("dangling", Ok(("dir/none", false)));
        check("loop", Err(Kind::InvalidPath));
        check("a\0b", Err(Kind::InvalidPath));
        check("dir/file/x", Err(Kind::NotRegularFile));
        check("dir/file/", Err(Kind::NotRegularFile));
        check("out", Err(Kind::PathDenied));
        check("../x", Err(Kind::PathDenied));
        check("/etc/passwd", Err(Kind::PathDenied));
    }

    /// Replaces a path and compares the error.
    #[track_caller]
    fn check_replace(path: &str, access: Access, expected: Option<&str>) {
        let cx = world().context(claim(path, access), true).expect("a context");
        let done = cx.world.files.replace(Slot(0), &[b"new"], Expect::Any);
        let error = done.err().map(|error| error.about(path).message.into_owned());
        assert_eq!(error.as_deref(), expected);
    }

    #[test]
    fn replacements_need_what_their_claim_says() {
        let write = |parents| Access::Write { parents, links: Links::Follow };
        let edit = Access::Edit { links: Links::Follow };
        check_replace("new", write(false), None);
        check_replace("to-dir/new", write(false), None);
        check_replace("a/b", write(true), None);
        check_replace("a/b", write(false), Some("the parent directory does not exist: a/b"));
        check_replace("new", edit, Some("no such file: new"));
        check_replace("dangling", write(true), Some("no such file: dangling"));
        check_replace("dir", edit, Some("not a regular file but a directory: dir"));
        check_replace("dir/file", Access::Read, Some("path denied: dir/file"));
    }
}

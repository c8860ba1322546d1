//! Messages between sinew, the helper process and its supervisors, over `SOCK_SEQPACKET` sockets. A message
//! that may be large, such as the arguments of a command, is sent as a memfd. A process that exits closes its
//! socket, so the other side notices. Paths are sent as bytes: not every name is UTF-8.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::sandbox_level::{SandboxLevel, Shortfall};
use super::usage::{Exhausted, UsageLimits};
use sinew_fs::undo_log::UnkeptReason;
use sinew_policy::command_rules::CommandRules;
use sinew_policy::path_bytes;
use sinew_tool::MidwayAnswer;

/// The most fds in one message.
pub(super) const MAX_HANDLES: usize = 6;
/// The longest message in bytes; a longer one is sent as a memfd.
const MAX_MESSAGE: usize = 4_096;

/// The containment of a session: the first message to the helper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Policy {
    pub(super) level: SandboxLevel,
    /// Directories that commands may write, by real path.
    #[serde(with = "path_bytes")]
    pub(super) writable: Vec<PathBuf>,
    /// Directories and files that commands do not see.
    #[serde(with = "path_bytes")]
    pub(super) hidden: Vec<PathBuf>,
    /// Directories of which commands see only what is shown, by real path. None is in another.
    #[serde(with = "path_bytes")]
    pub(super) private: Vec<PathBuf>,
    /// Directories and files in private ones that commands may read, by real path. None is in another.
    #[serde(with = "path_bytes")]
    pub(super) shown: Vec<PathBuf>,
    /// Symlinks in private directories, each with its target.
    #[serde(with = "path_bytes")]
    pub(super) shown_links: Vec<(PathBuf, PathBuf)>,
    /// Paths that commands may read but not change, although they are in a writable directory.
    #[serde(with = "path_bytes")]
    pub(super) fixed: Vec<PathBuf>,
    /// The same where no supervisor can judge what commands put there.
    #[serde(with = "path_bytes")]
    pub(super) fixed_unless_judged: Vec<PathBuf>,
    /// Paths that commands may not change or open by name.
    pub(super) rules: CommandRules,
    /// Directories that commands may change for themselves: the changes last for the session.
    #[serde(with = "path_bytes")]
    pub(super) caches: Vec<PathBuf>,
    /// The directory of those changes and of temporary files.
    #[serde(with = "path_bytes")]
    pub(super) scratch: PathBuf,
    /// The session's own `/dev/shm`, where commands see the machine's.
    #[serde(with = "path_bytes")]
    pub(super) shared_memory: Option<PathBuf>,
    pub(super) network: bool,
    /// Limits of each process, as `RLIMIT_` numbers with values.
    pub(super) limits: Vec<(u32, u64)>,
    /// The most processes of one command, where a limit is possible.
    pub(super) max_processes: u64,
    /// What all processes of a command may use together, where that is looked at.
    pub(super) usage: Option<UsageLimits>,
    /// Whether commands are trusted not to multiply: the user's own programs get no cgroup.
    pub(super) trusted: bool,
    /// Whether the changes of commands are kept. Then [`Outside`] follows.
    pub(super) keeps_changes: bool,
    /// The directories in which they are kept: the roots, then those of extra paths that commands may change.
    #[serde(with = "path_bytes")]
    pub(super) kept_at: Vec<PathBuf>,
    /// Directories with the name of one that tools make anew, in which git tracks files.
    #[serde(with = "path_bytes")]
    pub(super) tracked: Vec<PathBuf>,
    /// The socket of a program outside the sandbox that commands may reach.
    #[serde(with = "path_bytes")]
    pub(super) socket: Option<PathBuf>,
    /// The sockets outside that the commands of a session that joins this one may reach.
    #[serde(with = "path_bytes")]
    pub(super) lendable: Vec<PathBuf>,
    /// How the namespaces of the session relate to those of others.
    pub(super) join: Join,
    /// Paths outside the roots that its commands get too, by real path. None is in another with the same rights.
    pub(super) extra: Vec<Extra>,
}

/// How the namespaces of a session relate to those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Join {
    /// No other session joins them.
    Alone,
    /// Others may join them: [`JoinHandles`] follow its [`Ready`].
    Open,
    /// It joins those of another session, whose [`JoinHandles`] follow the policy.
    Other,
}

/// A path outside the roots that a command gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Extra {
    #[serde(with = "path_bytes")]
    pub(super) path: PathBuf,
    pub(super) is_writable: bool,
    /// The device and inode that it must have.
    pub(super) identity: (u64, u64),
}

/// Fds by which a session can join the namespaces of another.
#[derive(Debug)]
pub(super) struct JoinHandles {
    pub(super) user: OwnedFd,
    pub(super) mounts: OwnedFd,
    pub(super) network: OwnedFd,
    /// Directories of the machine that other mounts cover there, such as private ones, with their paths.
    pub(super) covered: Vec<(PathBuf, OwnedFd)>,
}

impl JoinHandles {
    pub(super) fn send(&self, line: impl AsFd) -> io::Result<()> {
        let paths: Vec<_> = self.covered.iter().map(|(path, _)| path.as_os_str()).collect();
        let covered = self.covered.iter().map(|(_, handle)| handle);
        let spaces = [&self.user, &self.mounts, &self.network];
        send(&line, &paths, &[])?;
        let all: Vec<_> = spaces.into_iter().chain(covered).map(AsFd::as_fd).collect();
        all.chunks(MAX_HANDLES).try_for_each(|handles| send(&line, &(), handles))
    }

    pub(super) fn receive(line: impl AsFd) -> io::Result<Self> {
        let missing = || io::Error::other("the namespaces of the session are missing");
        let (paths, _) = receive::<Vec<OsString>>(&line)?.ok_or_else(missing)?;
        let mut all = receive_handles(&line, 3 + paths.len())?.into_iter();
        let (Some(user), Some(mounts), Some(network)) = (all.next(), all.next(), all.next()) else {
            return Err(missing());
        };
        Ok(Self {
            user,
            mounts,
            network,
            covered: paths.into_iter().map(PathBuf::from).zip(all).collect(),
        })
    }
}

/// Receives fds that were sent in messages of their own.
fn receive_handles(line: impl AsFd, n: usize) -> io::Result<Vec<OwnedFd>> {
    let mut all = Vec::new();
    while all.len() < n {
        match receive::<()>(&line)? {
            Some((_, handles)) if !handles.is_empty() => all.extend(handles),
            _ => return Err(io::Error::other("the directories of the session are missing")),
        }
    }
    Ok(all)
}

/// What sinew opened before any sandbox, in messages of their own: the directory where the changes of commands are kept,
/// then each of `Policy::kept_at`.
pub(super) struct Outside {
    pub(super) kept: OwnedFd,
    pub(super) roots: Vec<OwnedFd>,
}

impl Outside {
    pub(super) fn send(&self, line: impl AsFd) -> io::Result<()> {
        let all: Vec<_> = [&self.kept].into_iter().chain(&self.roots).map(AsFd::as_fd).collect();
        all.chunks(MAX_HANDLES).try_for_each(|handles| send(&line, &(), handles))
    }

    pub(super) fn receive(line: impl AsFd, n_roots: usize) -> io::Result<Self> {
        let mut all = receive_handles(line, 1 + n_roots)?;
        let kept = all.remove(0);
        Ok(Self { kept, roots: all })
    }
}

/// The answer of the helper: the features that are missing although its level works, and whether [`JoinHandles`] follow; or
/// why the level fails.
pub(super) type Ready = Result<(Vec<Shortfall>, bool), Shortfall>;

/// One command to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SpawnRequest {
    /// The program, by absolute path.
    #[serde(with = "path_bytes")]
    pub(super) program: PathBuf,
    /// Its arguments, starting with its name.
    pub(super) argv: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    /// Its working directory, by real path.
    #[serde(with = "path_bytes")]
    pub(super) cwd: PathBuf,
    /// The device and inode that this directory must have.
    pub(super) cwd_identity: (u64, u64),
    /// Whether the report must name the working directory at its end.
    pub(super) keeps_cwd: bool,
    /// Whether its streams are a terminal, which becomes its controlling terminal.
    pub(super) has_terminal: bool,
    /// How long it may run. The supervisor keeps the time: it needs less of a busy processor than sinew.
    pub(super) timeout_ms: Option<u64>,
    /// The time between SIGTERM and SIGKILL.
    pub(super) grace_ms: u64,
    /// Protected names that it may change besides those of the session.
    pub(super) granted: Vec<String>,
    /// What becomes of changes that cannot be kept for undo.
    pub(super) unkept: Unkept,
    /// Whether files outside the roots are asked about that it opens for writing.
    pub(super) asks_outside: bool,
    /// How many bytes of old contents can be kept.
    pub(super) room: u64,
}

/// What becomes of a change that cannot be kept for undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Unkept {
    /// It is made.
    Made,
    /// It fails.
    Fails,
    /// It waits for an answer.
    Asks,
}

/// A change that cannot be kept for undo, which an approver is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// The real path.
    #[serde(with = "path_bytes")]
    pub(super) path: PathBuf,
    /// The size of the old content in bytes, if it is known.
    pub(super) size: Option<u64>,
    /// Whether the path is removed.
    pub(super) removes: bool,
    pub(super) reason: UnkeptReason,
}

/// A file outside the roots that a command opens for writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OutsideOpen {
    /// The real path, as the command sees it.
    #[serde(with = "path_bytes")]
    pub(super) path: PathBuf,
    /// The flags of `open`.
    pub(super) flags: u32,
    /// The mode of a new file, without the bits of the umask.
    pub(super) mode: u32,
}

/// Why a file outside the roots is not opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NotOpened {
    /// It was refused, with this answer.
    Refused(MidwayAnswer),
    /// The system refused it with this `errno`.
    Failed(i32),
}

/// A question of a running command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MidwayQuestion {
    /// It waits for a [`Command::Answer`].
    Unkept(Asked),
    /// It waits for a [`Command::Opened`].
    Outside(OutsideOpen),
}

/// The result of a command, or its question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// It waits for the answer.
    Asks(MidwayQuestion),
    /// Its question is taken back, since no process waits for it any more.
    TakesBack,
    /// It could not be started.
    Failed(Refusal, i32),
    Ended {
        end: End,
        out_of_time: bool,
        /// How many other processes still ran and were killed.
        n_left: u32,
        /// Whether processes may still run that could not be killed.
        is_left: bool,
        /// The working directory at its end.
        #[serde(with = "path_bytes")]
        cwd: Option<PathBuf>,
        findings: Findings,
    },
}

/// The findings about a command: its first refusals with their counts and the number of others, and its changes that
/// act later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Findings {
    pub(super) listed: Vec<(Refused, u32)>,
    pub(super) n_more: u32,
    /// Protected names that were changed, since that was harmless here.
    #[serde(with = "path_bytes")]
    pub(super) changed: Vec<PathBuf>,
    pub(super) n_more_changed: u32,
    /// What the user's own commands execute later, relative to its root; a directory with the number of changed
    /// files.
    #[serde(with = "path_bytes")]
    pub(super) later: Vec<(PathBuf, Option<u32>)>,
    pub(super) n_more_later: u32,
    /// New symlinks that lead out of the roots, with their targets.
    #[serde(with = "path_bytes")]
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    pub(super) n_more_links: u32,
    /// New symlinks that were too many to look at.
    pub(super) n_unseen_links: u32,
    /// Whether the undo log has all that it changed.
    pub(super) has_all_changes: bool,
    /// What it used too much of, if it did.
    pub(super) exhausted: Option<Box<Exhausted>>,
}

/// An access that was refused to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Refused {
    /// To change a protected name.
    Protected {
        #[serde(with = "path_bytes")]
        path: PathBuf,
        name: String,
    },
    /// To give a protected name this content; says why.
    Content {
        #[serde(with = "path_bytes")]
        path: PathBuf,
        name: String,
        why: String,
    },
    /// To open a path that a path glob denies; says which.
    Denied {
        #[serde(with = "path_bytes")]
        path: PathBuf,
        why: String,
    },
    /// To change a file outside the roots; says what an approver answered who was asked.
    Outside {
        #[serde(with = "path_bytes")]
        path: PathBuf,
        answer: Option<MidwayAnswer>,
    },
    /// To open a file outside the roots that changed while an approver was asked.
    Changed {
        #[serde(with = "path_bytes")]
        path: PathBuf,
    },
    /// To reach a program of the machine by its socket.
    Socket {
        #[serde(with = "path_bytes")]
        path: PathBuf,
    },
    /// To make a Unix datagram socket.
    Datagrams,
    /// To reach another machine.
    Network { address: String },
    /// To change what cannot be kept for undo; says what an approver answered who was asked.
    NotKept {
        #[serde(with = "path_bytes")]
        path: PathBuf,
        reason: UnkeptReason,
        answer: Option<MidwayAnswer>,
    },
}

impl Refused {
    /// Returns the path that was refused, if it is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Protected { path, .. }
            | Self::Content { path, .. }
            | Self::Denied { path, .. }
            | Self::Outside { path, .. }
            | Self::Changed { path }
            | Self::Socket { path }
            | Self::NotKept { path, .. } => Some(path),
            Self::Datagrams | Self::Network { .. } => None,
        }
    }
}

/// Why a command could not be started; sent with an `errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Refusal {
    /// Its program cannot be executed.
    Program,
    /// Its working directory is missing, or is another one.
    Directory,
    /// A part of the containment failed.
    Containment,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum End {
    Code(i32),
    Signal(i32),
}

/// What an exec child tells its supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Notice {
    /// It is confined. The fd of its intercepted calls is attached.
    Confined,
    /// It has its spawn request. The socket to sinew, any terminal, and where its changes are kept are attached.
    Ordered {
        timeout_ms: Option<u64>,
        grace_ms: u64,
        granted: Vec<String>,
        unkept: Unkept,
        asks_outside: bool,
        room: u64,
        has_terminal: bool,
        /// The free space of each disk of the sandbox, in bytes.
        free: Vec<u64>,
    },
    /// It could not become the command.
    Failed(Refusal, i32),
}

/// What sinew tells the supervisor of a running command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Command {
    /// Send SIGTERM to every process, and SIGKILL after the grace period.
    Stop,
    /// Kill every process now.
    Kill,
    /// The answer to [`MidwayQuestion::Unkept`].
    Answer(MidwayAnswer),
    /// An approver is asked about [`MidwayQuestion::Outside`], so the clock of the command stops.
    Asking,
    /// The answer to [`MidwayQuestion::Outside`]. The opened file follows and, if it is not new, the same one for reading.
    Opened(Result<(), NotOpened>),
}

/// Returns the two ends of a socket.
pub(super) fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message and fds.
pub(super) fn send(
    line: impl AsFd,
    message: &impl Serialize,
    handles: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_HANDLES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let mut memory = None;
    let mut bytes = encoded(message)?;
    if MAX_MESSAGE < bytes.len() {
        memory = Some(in_memory(&bytes)?);
        bytes.clear();
    }
    let all: Vec<_> = memory.iter().map(AsFd::as_fd).chain(handles.iter().copied()).collect();
    if !all.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&all)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    // Tells the receiver whether the message is in a memfd.
    let place = [u8::from(memory.is_some())];
    let parts = [IoSlice::new(&place), IoSlice::new(&bytes)];
    rustix::io::retry_on_intr(|| sendmsg(&line, &parts, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives a message and its fds; `None` if the other side closed the socket.
pub(super) fn receive<T: DeserializeOwned>(
    line: impl AsFd,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_HANDLES + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = vec![0; 1 + MAX_MESSAGE];
    let mut was_reset = false;
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut buffer)];
        match recvmsg(&line, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            // The other side left a message unread. Its last one may wait behind that error.
            Err(rustix::io::Errno::CONNRESET) if !was_reset => was_reset = true,
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            other => break other?,
        }
    };
    let mut handles: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            handles.extend(rights);
        }
    }
    if received.bytes == 0 && handles.is_empty() {
        return Ok(None);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::other("a message was cut"));
    }
    buffer.truncate(received.bytes);
    let bytes = match buffer.split_first() {
        Some((0, bytes)) => bytes.to_vec(),
        Some((_, _)) if !handles.is_empty() => {
            let mut bytes = Vec::new();
            File::from(handles.remove(0)).read_to_end(&mut bytes)?;
            bytes
        }
        _ => return Err(io::Error::other("a message without content")),
    };
    Ok(Some((decoded(&bytes)?, handles)))
}

fn encoded(message: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(message).map_err(io::Error::other)
}

fn decoded<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(io::Error::other)
}

/// Returns a memfd that holds these bytes.
pub(super) fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"order", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

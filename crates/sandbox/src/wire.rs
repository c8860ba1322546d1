//! What sinew and its helper process say to each other.
//!
//! They speak over sockets that keep messages apart. What may be large, such as the arguments of a
//! command, lies in a file in memory, and the message holds its descriptor. A side that ends closes
//! its socket, so neither outlives the other unnoticed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::sandbox_level::{SandboxLevel, Shortfall};
use sinew_policy::command_rules::CommandRules;

/// The most descriptors that one message carries.
pub(super) const MAX_HANDLES: usize = 5;
/// The longest message: what is longer lies in a file in memory.
const MAX_MESSAGE: usize = 4_096;

/// What the helper is to become, said once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Policy {
    /// The sandbox level to take.
    pub(super) level: SandboxLevel,
    /// Directories that commands may write, by real path.
    pub(super) writable: Vec<PathBuf>,
    /// Directories and files that commands do not see.
    pub(super) hidden: Vec<PathBuf>,
    /// What commands may read and not change, although it lies in a writable directory.
    pub(super) fixed: Vec<PathBuf>,
    /// What commands may not change or open by its name.
    pub(super) rules: CommandRules,
    /// Directories that commands may change for themselves: the changes last for the session.
    pub(super) caches: Vec<PathBuf>,
    /// Where those changes, and temporary files, are kept.
    pub(super) scratch: PathBuf,
    /// The session's own memory that is shared by name, where commands see the machine's.
    pub(super) shared_memory: Option<PathBuf>,
    /// Whether commands may reach the network.
    pub(super) network: bool,
    /// Limits of each process, as `RLIMIT_` numbers with values.
    pub(super) limits: Vec<(u32, u64)>,
    /// The most processes of one command, where that can be held.
    pub(super) max_processes: u64,
    /// Whether commands are trusted not to multiply: programs of the user's own get no cgroup.
    pub(super) trusted: bool,
}

/// What the helper answers: what is missing although its sandbox level works, or why it does not.
pub(super) type Ready = Result<Vec<Shortfall>, Shortfall>;

/// One command to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SpawnRequest {
    /// The program, by absolute path.
    pub(super) program: PathBuf,
    /// Its arguments, the first of which is its name.
    pub(super) argv: Vec<OsString>,
    /// Its environment.
    pub(super) env: Vec<(OsString, OsString)>,
    /// Its working directory, by real path.
    pub(super) cwd: PathBuf,
    /// The device and inode that this directory must have.
    pub(super) cwd_identity: (u64, u64),
    /// Whether it is to be told where the command was at its end.
    pub(super) keeps_cwd: bool,
    /// Whether its streams are a terminal, which becomes that of its session of processes.
    pub(super) has_terminal: bool,
    /// How long it may run. Its supervisor keeps the time: it needs less of a busy processor than sinew.
    pub(super) timeout_ms: Option<u64>,
    /// How long processes have between the request to end and their end.
    pub(super) grace_ms: u64,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// It could not be started.
    Failed(Refusal, i32),
    /// It ended.
    Ended {
        end: End,
        /// Whether its time ran out.
        out_of_time: bool,
        /// How many other processes still ran and were ended.
        n_left: u32,
        /// Whether processes may still run that could not be ended.
        is_left: bool,
        /// Where it was at its end.
        cwd: Option<PathBuf>,
        /// What it was refused.
        refused: Refusals,
    },
}

/// What a command was refused: the first of them with how often, and how many others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusals {
    pub(super) listed: Vec<(Refused, u32)>,
    pub(super) n_more: u32,
}

/// Something that a command tried and may not do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Refused {
    /// To change a protected name.
    Protected { path: PathBuf, name: String },
    /// To open what a path glob denies; says which.
    Denied { path: PathBuf, why: String },
    /// To change something outside the roots.
    Outside { path: PathBuf },
    /// To reach a program of the machine by its socket.
    Socket { path: PathBuf },
    /// To make a Unix datagram socket.
    Datagrams,
    /// To reach another machine.
    Network { address: String },
}

/// Why a command could not be started, with the number of the system's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Refusal {
    /// Its program cannot be executed.
    Program,
    /// Its working directory is not there, or is another.
    Directory,
    /// Something of the containment failed.
    Containment,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum End {
    /// It returned a code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

/// What the process that becomes the next command says to its supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Notice {
    /// It is bound to what commands are bound to. The calls that it hands over come with this.
    Confined,
    /// It has its order. The line to sinew comes with this, and its terminal where it has one.
    Ordered {
        /// How long it may run.
        timeout_ms: Option<u64>,
        /// How long processes have between the request to end and their end.
        grace_ms: u64,
    },
    /// It could not become the command.
    Failed(Refusal, i32),
}

/// What sinew tells a running command's supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Command {
    /// Ask every process to end, and end them a moment later.
    Stop,
    /// End every process now.
    Kill,
}

/// Returns the two ends of a line.
pub(super) fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message and descriptors.
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
    // What says where the message is.
    let place = [u8::from(memory.is_some())];
    let parts = [IoSlice::new(&place), IoSlice::new(&bytes)];
    rustix::io::retry_on_intr(|| sendmsg(&line, &parts, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives a message and its descriptors; `None` where the other side closed the line.
pub(super) fn receive<T: DeserializeOwned>(
    line: impl AsFd,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_HANDLES + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = vec![0; 1 + MAX_MESSAGE];
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut buffer)];
        match recvmsg(&line, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
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

/// Returns a file in memory that holds these bytes.
pub(super) fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"order", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

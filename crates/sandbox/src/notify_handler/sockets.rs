//! Binds and connects Unix sockets for commands. A program outside the sandbox, such as a database or an
//! editor, may listen at a path in a root and do what a command asks.
//!
//! So commands reach only sockets that a process of the session bound. The handler binds them itself and
//! records their identity. Calls that change a name wait for the same lock, so no name changes meanwhile.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, MemfdFlags, Mode, OFlags, StatxFlags, memfd_create, openat, statx,
};
use rustix::io::Errno;
use rustix::net::sockopt::socket_domain;
use rustix::net::{AddressFamily, SocketAddrUnix, bind, connect};
use rustix::process::{chdir, fchdir, umask};

use super::caller::{Caller, Peer};
use super::path::{self, Place, kind_of, look, real_path};
use super::{CallHandler, here};
use crate::spawn::{self, SyscallAnswer};
use crate::wire::Refused;

/// The most sockets of a session that are recorded; a new one replaces the oldest.
const MAX_BOUND: u64 = 4_096;
/// The size of the identity of a socket.
const IDENTITY_BYTES: usize = 40;

/// The identities of the sockets that a session bound to paths. All supervisors share the memfd, and add to
/// it under the lock of the session.
#[derive(Debug)]
pub(crate) struct BoundSockets(File);

/// The identity of a file, which differs from that of a later file with the same inode number.
type Identity = [u8; IDENTITY_BYTES];

impl BoundSockets {
    /// Returns the identities of no socket, or of one outside the sandbox that commands may reach.
    pub(crate) fn with(lent: Option<&Path>) -> io::Result<Self> {
        let sockets = Self(memfd_create(c"sockets", MemfdFlags::CLOEXEC)?.into());
        if let Some(lent) = lent {
            let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            sockets.add(&identity(&openat(CWD, lent, flags, Mode::empty())?)?)?;
        }
        Ok(sockets)
    }

    fn add(&self, identity: &Identity) -> io::Result<()> {
        let n = self.n_added()?;
        self.0.write_all_at(identity, 8 + (n % MAX_BOUND) * IDENTITY_BYTES as u64)?;
        self.0.write_all_at(&(n + 1).to_ne_bytes(), 0)
    }

    fn contains(&self, identity: &Identity) -> io::Result<bool> {
        let n = self.n_added()?.min(MAX_BOUND);
        let mut known = vec![0; usize::try_from(n).unwrap_or(0) * IDENTITY_BYTES];
        self.0.read_exact_at(&mut known, 8)?;
        Ok(known.chunks_exact(IDENTITY_BYTES).any(|known| known == identity))
    }

    fn n_added(&self) -> io::Result<u64> {
        let mut n = [0; 8];
        match self.0.read_at(&mut n, 0)? {
            8 => Ok(u64::from_ne_bytes(n)),
            _ => Ok(0),
        }
    }
}

/// Returns the identity of an open file: its file system, inode number, birth time and type.
fn identity(handle: &OwnedFd) -> Result<Identity, Errno> {
    let stat = statx(handle, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
    // The birth time is zero where the file system keeps none.
    let numbers = [
        (u64::from(stat.stx_dev_major) << 32) | u64::from(stat.stx_dev_minor),
        stat.stx_ino,
        stat.stx_btime.tv_sec.cast_unsigned(),
        u64::from(stat.stx_btime.tv_nsec),
        u64::from(stat.stx_mode) & u64::from(libc::S_IFMT),
    ];
    let mut identity = [0; IDENTITY_BYTES];
    for (bytes, number) in identity.chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_ne_bytes());
    }
    Ok(identity)
}

impl CallHandler {
    /// Binds a socket for its process: a Unix socket at a name that commands may make. The process never
    /// continues the call itself, since it could replace the fd meanwhile.
    pub(super) fn bind(
        &self,
        caller: &Caller<'_>,
        socket: u64,
        at: u64,
        length: u64,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let socket = caller.socket(socket)?;
        let address = caller.address(at, length)?;
        match Peer::of(&address) {
            Peer::Path(path) if is_unix(&socket)? => self.bind_at(caller, &socket, &path)?,
            _ => {
                self.check_waits(caller)?;
                spawn::bind(&socket, &address)?;
            }
        }
        Ok(Some(SyscallAnswer::Value(0)))
    }

    /// Binds a socket to a path. The kernel gets the path as the process wrote it, from the directory of the
    /// process, so that `getsockname` returns that path.
    fn bind_at(&self, caller: &Caller<'_>, socket: &OwnedFd, path: &Path) -> Result<(), Errno> {
        let place = Place::find(caller, caller.start(here(), path)?, path)?;
        let real = place.real()?;
        self.may_change(&real)?;
        self.may_be_named(&real, false)?;
        if look(place.dir.as_fd(), &place.name).is_ok() {
            return Err(Errno::ADDRINUSE);
        }
        self.check_waits(caller)?;
        let is_of_process = path.starts_with("/proc");
        let (start, name) = if is_of_process {
            // In this process the path would mean another file.
            (None, Path::new(&place.name))
        } else {
            (Some(caller.handle(here())?), path)
        };
        umask(caller.umask()?);
        fchdir(start.as_ref().unwrap_or(&place.dir))?;
        let bound = self
            .making(&real, || SocketAddrUnix::new(name).and_then(|address| bind(socket, &address)));
        let _ = chdir("/");
        bound.map_err(|errno| self.refused_by_the_system(&real, errno))?;
        let made = look(place.dir.as_fd(), &place.name)?;
        self.means.sockets.add(&identity(&made)?).map_err(|_| Errno::NOMEM)
    }

    /// Connects a socket for its process. Refuses other machines if the network is closed, and Unix sockets
    /// that no process of the session bound.
    pub(super) fn connect(
        &self,
        caller: &Caller<'_>,
        socket: u64,
        at: u64,
        length: u64,
    ) -> Result<Option<SyscallAnswer>, Errno> {
        let socket = caller.socket(socket)?;
        let address = caller.address(at, length)?;
        let peer = Peer::of(&address);
        if let Peer::Path(path) = &peer
            && is_unix(&socket)?
        {
            let start = caller.start(here(), path)?;
            let target = path::handle_of(caller, start, path, true)?;
            self.may_connect(&target)?;
            let address = SocketAddrUnix::new(path::by_number(&target))?;
            self.check_waits(caller)?;
            return self.later(caller, move |_| {
                let connected = connect(&socket, &address);
                drop((socket, target));
                connected.map(|()| SyscallAnswer::Value(0))
            });
        }
        if let Some(machine) = peer.machine().filter(|_| !self.judge.may_reach_machines()) {
            self.found.refuse(Refused::Network { address: machine.to_string() });
            return Err(Errno::NETUNREACH);
        }
        self.check_waits(caller)?;
        self.later(caller, move |_| {
            let connected = spawn::connect(&socket, &address);
            drop(socket);
            connected.map(|()| SyscallAnswer::Value(0))
        })
    }

    /// Judges a connection to a socket path. The refusal is the error of a socket without a listener.
    fn may_connect(&self, target: &OwnedFd) -> Result<(), Errno> {
        if self.means.sockets.contains(&identity(target)?).map_err(|_| Errno::IO)? {
            return Ok(());
        }
        if kind_of(target)? == FileType::Socket {
            self.found.refuse(Refused::Socket { path: real_path(target.as_fd())? });
        }
        Err(Errno::CONNREFUSED)
    }

    /// Refuses a Unix datagram socket, which could send to the socket of any program without a check.
    pub(super) fn refuse_datagrams(&self) -> Errno {
        self.found.refuse(Refused::Datagrams);
        Errno::ACCESS
    }
}

fn is_unix(socket: &OwnedFd) -> Result<bool, Errno> {
    Ok(socket_domain(socket)? == AddressFamily::UNIX)
}

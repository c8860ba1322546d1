//! Reads memory, fds and attributes of the thread that makes an intercepted call.

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::StandIn;
use super::known_threads::KnownThreads;
use crate::spawn::{self, Call};

/// The longest path of the kernel, with its terminator.
const MAX_PATH: usize = 4_096;
/// The page size: a text is read only to the end of a page, which may be the last.
const PAGE: u64 = 4_096;

/// The thread that makes a call.
pub(super) struct Caller<'a> {
    pub(super) call: Call,
    pub(super) stand_in: Option<&'a StandIn>,
    threads: &'a KnownThreads,
}

impl<'a> Caller<'a> {
    pub(super) fn of(
        call: &Call,
        stand_in: Option<&'a StandIn>,
        threads: &'a KnownThreads,
    ) -> Self {
        Self { call: *call, stand_in, threads }
    }

    /// Reads a path.
    pub(super) fn text(&self, address: u64) -> Result<PathBuf, Errno> {
        let text = self.text_or_empty(address)?;
        if text.as_os_str().is_empty() { Err(Errno::NOENT) } else { Ok(text) }
    }

    pub(super) fn text_or_empty(&self, address: u64) -> Result<PathBuf, Errno> {
        let mut text = Vec::new();
        let mut at = address;
        while text.len() < MAX_PATH {
            let mut part = [0; PAGE as usize];
            let n = usize::try_from(PAGE - at % PAGE).unwrap_or(part.len());
            let part = part.get_mut(..n).unwrap_or_default();
            self.read(part, at)?;
            if let Some(end) = memchr::memchr(0, part) {
                text.extend_from_slice(part.get(..end).unwrap_or_default());
                if MAX_PATH <= text.len() {
                    break;
                }
                return Ok(PathBuf::from(OsString::from_vec(text)));
            }
            text.extend_from_slice(part);
            at += n as u64;
        }
        Err(Errno::NAMETOOLONG)
    }

    /// Reads memory of its process.
    fn read(&self, into: &mut [u8], at: u64) -> Result<(), Errno> {
        match spawn::read_memory(self.call.thread, at, into) {
            Ok(n) if n == into.len() => Ok(()),
            // Filters of containers refuse the call, and let the memory be read as a file.
            Err(Errno::PERM | Errno::NOSYS) => {
                let file = self.threads.open(self.call.thread, "mem", OFlags::RDONLY);
                let memory = File::from(file.map_err(|_| Errno::ACCESS)?);
                memory.read_exact_at(into, at).map_err(|_| Errno::FAULT)
            }
            Ok(_) | Err(_) => Err(Errno::FAULT),
        }
    }

    /// Returns the directory where a path starts; `None` for an absolute path.
    pub(super) fn start(&self, dir: u64, path: &Path) -> Result<Option<OwnedFd>, Errno> {
        if path.is_absolute() { Ok(None) } else { self.handle(dir).map(Some) }
    }

    /// Returns an fd of the thread by number, or its working directory.
    pub(super) fn handle(&self, number: u64) -> Result<OwnedFd, Errno> {
        #[expect(clippy::cast_possible_truncation, reason = "the kernel takes no more of it")]
        let number = number as u32;
        if number == libc::AT_FDCWD.cast_unsigned() {
            return self.threads.open(self.call.thread, "cwd", OFlags::PATH);
        }
        let name = format!("fd/{number}");
        self.threads.open(self.call.thread, &name, OFlags::PATH).map_err(|errno| match errno {
            Errno::NOENT => Errno::BADF,
            other => other,
        })
    }

    pub(super) fn umask(&self) -> Result<Mode, Errno> {
        let mask = self.threads.status(self.call.thread, "Umask:")?;
        u32::from_str_radix(&mask, 8).map(Mode::from_bits_retain).map_err(|_| Errno::SRCH)
    }

    /// Returns the PID of its process.
    pub(super) fn process(&self) -> Result<u32, Errno> {
        self.threads.status(self.call.thread, "Tgid:")?.parse().map_err(|_| Errno::SRCH)
    }

    pub(super) fn thread(&self) -> u32 {
        self.call.thread
    }

    /// Returns its session ID and the device number of its controlling terminal.
    pub(super) fn terminal(&self) -> Result<(u32, u64), Errno> {
        let stat = self.threads.read(self.call.thread, "stat")?;
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let number = fields.split(' ').nth(4).and_then(|number| number.parse::<i32>().ok());
        let session = fields.split(' ').nth(3).and_then(|number| number.parse().ok());
        let number = u64::from(number.unwrap_or(0).cast_unsigned());
        // The major numbers of pseudo terminals; a command has no others.
        match (rustix::fs::major(number), rustix::fs::minor(number)) {
            (136..=143, _) => Ok((session.ok_or(Errno::SRCH)?, number)),
            _ => Err(Errno::NXIO),
        }
    }

    /// Returns a socket from the fd table of this very thread: that of its process may differ.
    pub(super) fn socket(&self, number: u64) -> Result<OwnedFd, Errno> {
        let number = i32::try_from(number).map_err(|_| Errno::BADF)?;
        let process = match pidfd_open(pid(self.call.thread)?, PidfdFlags::from_bits_retain(THREAD))
        {
            // Kernels before 6.9 open only processes.
            Err(Errno::INVAL) => pidfd_open(pid(self.process()?)?, PidfdFlags::empty())?,
            opened => opened?,
        };
        pidfd_getfd(process, number, PidfdGetfdFlags::empty())
    }

    /// Reads a raw `sockaddr`.
    pub(super) fn address(&self, at: u64, length: u64) -> Result<Vec<u8>, Errno> {
        let n = usize::try_from(length).ok().filter(|n| *n <= MAX_ADDRESS).ok_or(Errno::INVAL)?;
        self.bytes(at, n)
    }

    pub(super) fn bytes(&self, at: u64, n: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; n];
        self.read(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Reads 64-bit numbers of its memory, in native byte order.
    pub(super) fn numbers<const N: usize>(&self, at: u64) -> Result<[i64; N], Errno> {
        let bytes = self.bytes(at, N * size_of::<i64>())?;
        let (words, _) = bytes.as_chunks();
        let mut numbers = [0; N];
        for (number, word) in numbers.iter_mut().zip(words) {
            *number = i64::from_ne_bytes(*word);
        }
        Ok(numbers)
    }
}

/// `PIDFD_THREAD` of pidfd_open(2).
const THREAD: u32 = libc::O_EXCL.cast_unsigned();

fn pid(number: u32) -> Result<Pid, Errno> {
    i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

/// The longest `sockaddr` of the kernel.
const MAX_ADDRESS: usize = 128;

/// The address that a socket is to be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peer {
    /// A port of a machine.
    Machine(SocketAddr),
    /// A socket of this machine, by path.
    Path(PathBuf),
    Other,
}

impl Peer {
    /// Parses a raw `sockaddr`.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let [f0, f1, rest @ ..] = bytes else { return Self::Other };
        match (i32::from(u16::from_ne_bytes([*f0, *f1])), rest) {
            (libc::AF_INET, [p0, p1, a, b, c, d, ..]) => {
                let ip = Ipv4Addr::new(*a, *b, *c, *d);
                Self::Machine(SocketAddr::from((ip, u16::from_be_bytes([*p0, *p1]))))
            }
            (libc::AF_INET6, [p0, p1, _, _, _, _, rest @ ..]) => {
                let ip = rest.get(..16).and_then(|ip| <[u8; 16]>::try_from(ip).ok());
                let port = u16::from_be_bytes([*p0, *p1]);
                ip.map_or(Self::Other, |ip| {
                    Self::Machine(SocketAddr::from((Ipv6Addr::from(ip), port)))
                })
            }
            // An abstract name, which Landlock and the network namespace judge.
            (libc::AF_UNIX, [0, ..]) => Self::Other,
            (libc::AF_UNIX, path) if !path.is_empty() => {
                let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
                Self::Path(PathBuf::from(OsString::from_vec(path.to_vec())))
            }
            _ => Self::Other,
        }
    }

    /// Returns the address if it is of another machine.
    pub(super) fn machine(&self) -> Option<SocketAddr> {
        match self {
            Self::Machine(address) => Some(*address)
                .filter(|at| !at.ip().to_canonical().is_loopback() && !at.ip().is_unspecified()),
            Self::Path(_) | Self::Other => None,
        }
    }
}

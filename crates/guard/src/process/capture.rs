//! Following one command from its start to its end: what it writes, how long it may take, what
//! became of it.
//!
//! One thread does it with blocking calls. The answer waits for the command and never for a pipe:
//! once the keeper says that everything ended, what is still in the pipes is taken and no more.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::kept::Kept;
use super::wire::{self, Command, End, Refusal, Refused, Report};

/// What is read at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// How often somebody is told how far the command is.
const TELL: Duration = Duration::from_secs(1);
/// How long after the order to end the keeper may take before it counts as lost.
const LOST: Duration = Duration::from_secs(5);

/// How much of an output is kept in memory: the beginning and the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep {
    pub(super) merged: (usize, usize),
    pub(super) stream: (usize, usize),
}

/// A command that was ordered.
pub(super) struct Ordered {
    /// The line to its keeper.
    pub(super) line: OwnedFd,
    pub(super) stdout: OwnedFd,
    /// None where it writes both to the same.
    pub(super) stderr: Option<OwnedFd>,
}

impl Ordered {
    fn streams(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.stdout).chain(&self.stderr)
    }
}

/// What became of a command.
#[derive(Debug)]
pub(super) struct Captured {
    pub(super) became: Became,
    pub(super) merged: Kept,
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
    pub(super) duration: Duration,
    pub(super) refused: Vec<Refused>,
}

/// How a command came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Became {
    Ended {
        end: End,
        n_left: u32,
        cwd: Option<PathBuf>,
        out_of_time: bool,
    },
    NotStarted(Refusal, i32),
    /// The process that knew is gone, and every process of the command with it as far as can be told.
    Lost,
}

/// Where the whole output goes.
pub(super) trait Spool {
    /// Takes what was written next.
    fn write(&mut self, bytes: &[u8]);
}

/// Follows a command to its end.
pub(super) fn follow(
    ordered: &Ordered,
    keep: Keep,
    timeout: Option<Duration>,
    spool: &mut dyn Spool,
    tell: &dyn Fn(u64),
) -> io::Result<Captured> {
    let began = Instant::now();
    let kept = |(head, tail)| Kept::new(head, tail);
    let mut capture = Capture {
        merged: kept(keep.merged),
        streams: [kept(keep.stream), kept(keep.stream)],
        open: [true, ordered.stderr.is_some()],
        buffer: vec![0; CHUNK_BYTES],
        total: 0,
        spool,
    };
    for stream in ordered.streams() {
        rustix::io::ioctl_fionbio(stream, true)?;
    }
    let mut stop_at = timeout.and_then(|timeout| began.checked_add(timeout));
    let mut lost_at = None;
    let mut tell_at = began + TELL;
    let mut refused_to_it = Vec::new();
    let became = loop {
        let now = Instant::now();
        if stop_at.is_some_and(|at| at <= now) {
            stop_at = None;
            lost_at = Some(now + LOST);
            let _ = wire::send(&ordered.line, &Command::Stop, &[]);
        }
        if lost_at.is_some_and(|at| at <= now) {
            break Became::Lost;
        }
        if tell_at <= now {
            tell(capture.total);
            tell_at = now + TELL;
        }
        let next = [stop_at, lost_at, Some(tell_at)].into_iter().flatten().min();
        let wait = next.map_or(TELL, |at| at.saturating_duration_since(now));
        if capture.wait(ordered, wait)? {
            match wire::receive::<Report>(&ordered.line) {
                Ok(Some((Report::Failed(refusal, number), _))) => {
                    break Became::NotStarted(refusal, number);
                }
                Ok(Some((Report::Ended { end, n_left, cwd, refused }, _))) => {
                    refused_to_it = refused;
                    let out_of_time = timeout.is_some() && stop_at.is_none();
                    break Became::Ended { end, n_left, cwd, out_of_time };
                }
                Ok(None) | Err(_) => break Became::Lost,
            }
        }
    };
    capture.take_what_is_left(ordered)?;
    let Capture { merged, streams: [stdout, stderr], .. } = capture;
    let (duration, refused) = (began.elapsed(), refused_to_it);
    Ok(Captured { became, merged, stdout, stderr, duration, refused })
}

/// What was captured so far.
struct Capture<'a> {
    merged: Kept,
    streams: [Kept; 2],
    open: [bool; 2],
    buffer: Vec<u8>,
    total: u64,
    spool: &'a mut dyn Spool,
}

impl Capture<'_> {
    /// Waits for something, takes what the command wrote, and returns whether the line has something
    /// to say.
    fn wait(&mut self, ordered: &Ordered, time: Duration) -> io::Result<bool> {
        // A closed pipe would be ready for ever.
        let open = |at: usize| self.open.get(at).copied().unwrap_or(false);
        let streams: Vec<_> = ordered.streams().enumerate().filter(|(at, _)| open(*at)).collect();
        let mut watched = vec![PollFd::new(&ordered.line, PollFlags::IN)];
        watched.extend(streams.iter().map(|(_, stream)| PollFd::new(*stream, PollFlags::IN)));
        match poll(&mut watched, Timespec::try_from(time).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = watched.iter().map(|fd| !fd.revents().is_empty());
        let told = ready.next().unwrap_or(false);
        for ((at, stream), _) in streams.into_iter().zip(ready).filter(|(_, ready)| *ready) {
            self.take(at, stream)?;
        }
        Ok(told)
    }

    /// Takes what one stream has now; returns whether there was something.
    fn take(&mut self, at: usize, stream: &OwnedFd) -> io::Result<bool> {
        let n = match rustix::io::read(stream.as_fd(), self.buffer.as_mut_slice()) {
            Ok(0) => {
                self.open.get_mut(at).into_iter().for_each(|open| *open = false);
                return Ok(false);
            }
            Ok(n) => n,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        let bytes = self.buffer.get(..n).unwrap_or_default();
        self.total += n as u64;
        self.merged.push(bytes);
        if let Some(kept) = self.streams.get_mut(at) {
            kept.push(bytes);
        }
        self.spool.write(bytes);
        Ok(true)
    }

    /// Takes what is in the pipes without waiting for more.
    fn take_what_is_left(&mut self, ordered: &Ordered) -> io::Result<()> {
        for (at, stream) in ordered.streams().enumerate() {
            while self.take(at, stream)? {}
        }
        Ok(())
    }
}

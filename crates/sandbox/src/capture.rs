//! Following one command from its start to its end: what it writes, how long it may take, what
//! became of it.
//!
//! One that writes little is followed by the task that waits for it: nobody else has to wake up. One that
//! writes much gets a thread, since storing may take long. The answer waits for the command and never
//! for a pipe: once the supervisor says that everything ended, what is still in the pipes is taken and no
//! more.
#![expect(clippy::disallowed_types, reason = "the guard may listen to its processes")]

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::task::yield_now;
use tokio::time::sleep_until;

use super::kept::Kept;
use super::wire::{self, Command, End, Refusal, Refusals, Report};

/// What is read at once on a thread.
const CHUNK_BYTES: usize = 256 * 1024;
/// What a command may write and still be followed without a thread.
const LITTLE_BYTES: u64 = 64 * 1024;
/// What is read at once without one.
const SMALL_CHUNK_BYTES: usize = 16 * 1024;
/// What a pipe of a command that writes much holds, where the system gives it.
const PIPE_BYTES: usize = 1024 * 1024;
/// How often somebody is told how far the command is.
const TELL: Duration = Duration::from_secs(1);
/// How long after the end of its time a command is told to stop, which its supervisor should have done.
const LATE: Duration = Duration::from_secs(1);
/// How long after the order to end the supervisor may take before it counts as lost.
const LOST: Duration = Duration::from_secs(5);

/// How much of an output is kept in memory: the beginning and the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep {
    pub(super) merged: (usize, usize),
    pub(super) stream: (usize, usize),
}

/// A command that was ordered.
pub(super) struct RequestedCommand {
    /// When it was ordered: its supervisor begins to keep the time after that.
    pub(super) at: Instant,
    /// The line to its supervisor.
    pub(super) line: OwnedFd,
    pub(super) stdout: OwnedFd,
    /// None where it writes both to the same.
    pub(super) stderr: Option<OwnedFd>,
}

impl RequestedCommand {
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
    pub(super) refused: Refusals,
}

/// How a command came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Became {
    Ended {
        end: End,
        n_left: u32,
        is_left: bool,
        cwd: Option<PathBuf>,
        out_of_time: bool,
    },
    NotStarted(Refusal, i32),
    /// The supervisor is gone or does not answer. Processes of the command may still run.
    Lost,
}

/// Where the whole output goes.
pub(super) trait Spool: Send {
    /// Takes what was written next.
    fn write(&mut self, bytes: &[u8]);
}

/// A command that is followed.
pub(super) struct Following {
    ordered: RequestedCommand,
    capture: Capture,
    clock: Clock,
    began: Instant,
    timeout: Option<Duration>,
    refused: Refusals,
}

/// What comes from the line to the supervisor.
type Told = io::Result<Option<(Report, Vec<OwnedFd>)>>;

/// When something is to be done next.
struct Clock {
    stop_at: Option<Instant>,
    lost_at: Option<Instant>,
    tell_at: Instant,
}

impl Following {
    /// Begins to follow a command.
    pub(super) fn begin(
        ordered: RequestedCommand,
        keep: Keep,
        timeout: Option<Duration>,
    ) -> io::Result<Self> {
        let began = ordered.at;
        for stream in ordered.streams() {
            rustix::io::ioctl_fionbio(stream, true)?;
        }
        let kept = |(head, tail)| Kept::new(head, tail);
        let capture = Capture {
            merged: kept(keep.merged),
            streams: [kept(keep.stream), kept(keep.stream)],
            open: [true, ordered.stderr.is_some()],
            buffer: Vec::new(),
            total: 0,
        };
        Ok(Self {
            ordered,
            capture,
            clock: Clock {
                stop_at: timeout.and_then(|timeout| began.checked_add(timeout + LATE)),
                lost_at: None,
                tell_at: began + TELL,
            },
            began,
            timeout,
            refused: Refusals::default(),
        })
    }

    /// Returns the line to the supervisor.
    pub(super) fn line(&self) -> &OwnedFd {
        &self.ordered.line
    }

    /// Follows it on this thread to its end.
    pub(super) fn follow(
        &mut self,
        spool: &mut dyn Spool,
        tell: &dyn Fn(u64),
    ) -> io::Result<Became> {
        self.capture.buffer.resize(CHUNK_BYTES, 0);
        for stream in self.ordered.streams() {
            // A command that writes much then waits less often.
            let _ = fcntl_setpipe_size(stream, PIPE_BYTES);
        }
        loop {
            let (line, total) = (&self.ordered.line, self.capture.total);
            let Some(next) = self.clock.keep_time(line, total, tell) else {
                return Ok(Became::Lost);
            };
            let wait = next.saturating_duration_since(Instant::now());
            if self.capture.wait(&self.ordered, wait, spool)? {
                return Ok(self.hear(wire::receive(&self.ordered.line)));
            }
        }
    }

    /// Follows it on this task to its end, or until it has written more than a little; returns it with how
    /// it ended, if it did. `taken_back` ends where the caller takes the call back. The command ends
    /// where this future is dropped.
    pub(super) async fn follow_a_little(
        self,
        spool: &mut dyn Spool,
        tell: &(dyn Fn(u64) + Sync),
        taken_back: impl Future<Output = ()>,
    ) -> io::Result<(Self, Option<Became>)> {
        let Self { ordered, mut capture, mut clock, began, timeout, refused } = self;
        // The command runs already. What this task waits with belongs to the thread that it goes on with:
        // made on another one, each piece would wake that thread.
        yield_now().await;
        let line = net::UnixStream::from(ordered.line);
        line.set_nonblocking(true)?;
        let line = UnixStream::from_std(line)?;
        let stdout = Receiver::from_owned_fd_unchecked(ordered.stdout)?;
        let stderr = ordered.stderr.map(Receiver::from_owned_fd_unchecked).transpose()?;
        let mut taken_back = pin!(taken_back);
        let mut is_taken_back = false;
        capture.buffer.resize(SMALL_CHUNK_BYTES, 0);
        let mut told = None;
        while told.is_none() && capture.total <= LITTLE_BYTES {
            let Some(next) = clock.keep_time(&line, capture.total, tell) else {
                told = Some(Ok(None));
                break;
            };
            let [open_out, open_err] = capture.open;
            tokio::select! {
                biased;
                () = &mut taken_back, if !is_taken_back => {
                    is_taken_back = true;
                    clock.lost_at.get_or_insert(Instant::now() + LOST);
                    let _ = wire::send(&line, &Command::Stop, &[]);
                }
                ready = stdout.readable(), if open_out => {
                    ready?;
                    capture.take(0, |buffer| stdout.try_read(buffer), spool)?;
                }
                ready = readable(stderr.as_ref()), if open_err => {
                    ready?;
                    if let Some(stderr) = &stderr {
                        capture.take(1, |buffer| stderr.try_read(buffer), spool)?;
                    }
                }
                ready = line.readable() => {
                    ready?;
                    told = match line.try_io(Interest::READABLE, || wire::receive(&line)) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                        told => Some(told),
                    };
                }
                () = sleep_until(next.into()) => {}
            }
        }
        let ordered = RequestedCommand {
            at: began,
            line: line.into_std()?.into(),
            stdout: stdout.into_nonblocking_fd()?,
            stderr: stderr.map(Receiver::into_nonblocking_fd).transpose()?,
        };
        let mut following = Self { ordered, capture, clock, began, timeout, refused };
        let became = told.map(|told| following.hear(told));
        Ok((following, became))
    }

    /// Takes what the supervisor says.
    fn hear(&mut self, told: Told) -> Became {
        match told {
            Ok(Some((Report::Failed(refusal, number), _))) => Became::NotStarted(refusal, number),
            Ok(Some((Report::Ended { end, out_of_time, n_left, is_left, cwd, refused }, _))) => {
                self.refused = refused;
                let was_late = self.timeout.is_some() && self.clock.stop_at.is_none();
                let out_of_time = out_of_time || was_late;
                Became::Ended { end, n_left, is_left, cwd, out_of_time }
            }
            Ok(None) | Err(_) => Became::Lost,
        }
    }

    /// Takes what is left; returns it with what was followed, for closing.
    pub(super) fn end(
        mut self,
        became: Became,
        spool: &mut dyn Spool,
    ) -> io::Result<(Captured, RequestedCommand)> {
        self.capture.take_what_is_left(&self.ordered, spool)?;
        let Capture { merged, streams: [stdout, stderr], .. } = self.capture;
        let (duration, refused) = (self.began.elapsed(), self.refused);
        let captured = Captured { became, merged, stdout, stderr, duration, refused };
        Ok((captured, self.ordered))
    }
}

impl Clock {
    /// Does what is due now; returns when something is due next, and nothing where the supervisor is lost.
    fn keep_time(&mut self, line: impl AsFd, total: u64, tell: &dyn Fn(u64)) -> Option<Instant> {
        let now = Instant::now();
        if self.stop_at.is_some_and(|at| at <= now) {
            self.stop_at = None;
            self.lost_at = Some(now + LOST);
            let _ = wire::send(line, &Command::Stop, &[]);
        }
        if self.lost_at.is_some_and(|at| at <= now) {
            return None;
        }
        if self.tell_at <= now {
            tell(total);
            self.tell_at = now + TELL;
        }
        [self.stop_at, self.lost_at, Some(self.tell_at)].into_iter().flatten().min()
    }
}

/// Waits for a stream, if there is one.
async fn readable(stream: Option<&Receiver>) -> io::Result<()> {
    match stream {
        Some(stream) => stream.readable().await,
        None => std::future::pending().await,
    }
}

/// What was captured so far.
struct Capture {
    merged: Kept,
    streams: [Kept; 2],
    open: [bool; 2],
    buffer: Vec<u8>,
    total: u64,
}

impl Capture {
    /// Waits for something, takes what the command wrote, and returns whether the line has something
    /// to say.
    fn wait(
        &mut self,
        ordered: &RequestedCommand,
        time: Duration,
        spool: &mut dyn Spool,
    ) -> io::Result<bool> {
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
            self.take(at, |buffer| read(stream, buffer), spool)?;
        }
        Ok(told)
    }

    /// Takes what one stream has now; returns whether there was something.
    fn take(
        &mut self,
        at: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
        spool: &mut dyn Spool,
    ) -> io::Result<bool> {
        let n = match read(&mut self.buffer) {
            Ok(0) => {
                self.open.get_mut(at).into_iter().for_each(|open| *open = false);
                return Ok(false);
            }
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        };
        let bytes = self.buffer.get(..n).unwrap_or_default();
        self.total += n as u64;
        self.merged.push(bytes);
        if let Some(kept) = self.streams.get_mut(at) {
            kept.push(bytes);
        }
        spool.write(bytes);
        Ok(true)
    }

    /// Takes what is in the pipes without waiting for more, nor for somebody who still writes.
    fn take_what_is_left(
        &mut self,
        ordered: &RequestedCommand,
        spool: &mut dyn Spool,
    ) -> io::Result<()> {
        for (at, stream) in ordered.streams().enumerate() {
            let most = self.total + PIPE_BYTES as u64;
            while self.total < most && self.take(at, |buffer| read(stream, buffer), spool)? {}
        }
        Ok(())
    }
}

fn read(stream: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    match rustix::io::read(stream, buffer) {
        // The other end of a terminal is closed.
        Err(Errno::IO) => Ok(0),
        read => Ok(read?),
    }
}

//! Follows one command from its request to its end: reads the output, keeps the time and returns the result.
//!
//! The task that waits for a command follows it while it writes little, so no other thread wakes up. A
//! command that writes much gets a thread, since storing may take long. The result never waits for a pipe:
//! after the report of the supervisor only what the pipes still hold is read.
#![expect(clippy::disallowed_types, reason = "the guard may listen to its processes")]

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::task::yield_now;
use tokio::time::sleep_until;

use super::asking::{Answerer, AskedQuestion, Pause};
use super::kept::Kept;
use super::wire::{self, Command, End, Findings, Refusal, Report};

/// How much is read at once on a thread, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;
/// The most output of a command that is followed without a thread, in bytes.
const LITTLE_BYTES: u64 = 64 * 1024;
/// How much is read at once without a thread, in bytes.
const SMALL_CHUNK_BYTES: usize = 16 * 1024;
/// The pipe size for a command that writes much, where the system allows it.
const PIPE_BYTES: usize = 1024 * 1024;
/// How often progress is reported.
const TELL: Duration = Duration::from_secs(1);
/// How long after its timeout sinew stops a command that its supervisor should have stopped.
const LATE: Duration = Duration::from_secs(1);
/// How long a supervisor may take to end a command before it counts as lost.
const LOST: Duration = Duration::from_secs(5);

/// How much of an output is kept in memory: the beginning and the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep {
    pub(super) merged: (usize, usize),
    pub(super) stream: (usize, usize),
}

/// A requested command.
pub(super) struct RequestedCommand {
    /// When it was requested; the timeout of the supervisor starts after that.
    pub(super) at: Instant,
    /// The socket to its supervisor.
    pub(super) line: OwnedFd,
    pub(super) stdout: OwnedFd,
    /// `None` if both streams are the same.
    pub(super) stderr: Option<OwnedFd>,
}

impl RequestedCommand {
    fn streams(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.stdout).chain(&self.stderr)
    }
}

/// The result of a command.
#[derive(Debug)]
pub(super) struct Captured {
    pub(super) became: Became,
    pub(super) merged: Kept,
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
    pub(super) duration: Duration,
    pub(super) findings: Findings,
}

/// How a command ended.
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
    /// The supervisor is gone or does not answer, and processes may still run.
    Lost,
}

/// A sink for the whole output.
pub(super) trait Spool: Send {
    fn write(&mut self, bytes: &[u8]);
}

pub(super) struct Following {
    ordered: RequestedCommand,
    capture: Capture,
    clock: Clock,
    began: Instant,
    timeout: Option<Duration>,
    answerer: Option<Answerer>,
    /// The question that waits.
    question: Option<AskedQuestion>,
    findings: Findings,
}

/// A message of the supervisor.
type Told = io::Result<Option<(Report, Vec<OwnedFd>)>>;

/// When the next actions are due.
struct Clock {
    /// Time in pauses does not count for it.
    stop_at: Option<Instant>,
    pause: Arc<Pause>,
    lost_at: Option<Instant>,
    tell_at: Instant,
}

impl Following {
    pub(super) fn begin(
        ordered: RequestedCommand,
        keep: Keep,
        timeout: Option<Duration>,
        answerer: Option<Answerer>,
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
                pause: Arc::default(),
                lost_at: None,
                tell_at: began + TELL,
            },
            began,
            timeout,
            answerer,
            question: None,
            findings: Findings::default(),
        })
    }

    /// Returns the socket to the supervisor.
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
            // A larger pipe makes the command wait less often.
            let _ = fcntl_setpipe_size(stream, PIPE_BYTES);
        }
        loop {
            let (line, total) = (&self.ordered.line, self.capture.total);
            let Some(next) = self.clock.keep_time(line, total, tell) else {
                return Ok(Became::Lost);
            };
            let wait = next.saturating_duration_since(Instant::now());
            if self.capture.wait(&self.ordered, wait, spool)? {
                match wire::receive(&self.ordered.line) {
                    Ok(Some((Report::Asks(asked), _))) => {
                        let (asks, line) = (self.answerer.as_ref(), self.ordered.line.as_fd());
                        self.question = AskedQuestion::of(asked, asks, &self.clock.pause, line);
                    }
                    Ok(Some((Report::TakesBack, _))) => self.question = None,
                    told => return Ok(self.hear(told)),
                }
            }
        }
    }

    /// Follows it on this task until its end or until it has written [`LITTLE_BYTES`]; returns it with its
    /// end, if any. `taken_back` completes when the call is cancelled. Dropping the future kills the command.
    pub(super) async fn follow_a_little(
        self,
        spool: &mut dyn Spool,
        tell: &(dyn Fn(u64) + Sync),
        taken_back: impl Future<Output = ()>,
    ) -> io::Result<(Self, Option<Became>)> {
        let Self { ordered, mut capture, mut clock, began, timeout, .. } = self;
        let Self { answerer, mut question, findings, .. } = self;
        // The command already runs. Register the fds on the thread that continues this task: on another, each
        // piece of output would wake that thread.
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
                        Ok(Some((Report::Asks(asked), _))) => {
                            let (asks, line) = (answerer.as_ref(), line.as_fd());
                            question = AskedQuestion::of(asked, asks, &clock.pause, line);
                            None
                        }
                        Ok(Some((Report::TakesBack, _))) => {
                            question = None;
                            None
                        }
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
        let mut following =
            Self { ordered, capture, clock, began, timeout, answerer, question, findings };
        let became = told.map(|told| following.hear(told));
        Ok((following, became))
    }

    /// Takes the message of the supervisor.
    fn hear(&mut self, told: Told) -> Became {
        match told {
            Ok(Some((Report::Failed(refusal, number), _))) => Became::NotStarted(refusal, number),
            Ok(Some((Report::Ended { end, out_of_time, n_left, is_left, cwd, findings }, _))) => {
                self.findings = findings;
                let was_late = self.timeout.is_some() && self.clock.stop_at.is_none();
                let out_of_time = out_of_time || was_late;
                Became::Ended { end, n_left, is_left, cwd, out_of_time }
            }
            Ok(Some((Report::Asks(_) | Report::TakesBack, _)) | None) | Err(_) => Became::Lost,
        }
    }

    /// Reads the remaining output; returns the result, and the request for closing.
    pub(super) fn end(
        mut self,
        became: Became,
        spool: &mut dyn Spool,
    ) -> io::Result<(Captured, RequestedCommand)> {
        self.capture.take_what_is_left(&self.ordered, spool)?;
        let Capture { merged, streams: [stdout, stderr], .. } = self.capture;
        let (duration, findings) = (self.began.elapsed(), self.findings);
        let captured = Captured { became, merged, stdout, stderr, duration, findings };
        Ok((captured, self.ordered))
    }
}

impl Clock {
    /// Acts on the times that have passed; returns the next one, or `None` if the supervisor is lost.
    fn keep_time(&mut self, line: impl AsFd, total: u64, tell: &dyn Fn(u64)) -> Option<Instant> {
        let now = Instant::now();
        let stop_at = self.stop_at.and_then(|at| self.pause.over_at(at));
        if stop_at.is_some_and(|at| at <= now) {
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
        let stop_at = self.stop_at.and_then(|at| self.pause.over_at(at));
        [stop_at, self.lost_at, Some(self.tell_at)].into_iter().flatten().min()
    }
}

/// Waits for a stream, if there is one.
async fn readable(stream: Option<&Receiver>) -> io::Result<()> {
    match stream {
        Some(stream) => stream.readable().await,
        None => std::future::pending().await,
    }
}

/// The output captured so far.
struct Capture {
    merged: Kept,
    streams: [Kept; 2],
    open: [bool; 2],
    buffer: Vec<u8>,
    total: u64,
}

impl Capture {
    /// Waits, reads what the command wrote, and returns whether the supervisor has a message.
    fn wait(
        &mut self,
        ordered: &RequestedCommand,
        time: Duration,
        spool: &mut dyn Spool,
    ) -> io::Result<bool> {
        // A closed pipe is always ready.
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

    /// Reads what one stream has now; returns whether it had anything.
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

    /// Reads what the pipes hold, without waiting for more or for a process that still writes.
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

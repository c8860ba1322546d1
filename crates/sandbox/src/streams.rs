//! The standard input and output of this process, as files of their own.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::fcntl_setpipe_size;

/// The two ends that a client holds.
pub struct Streams {
    /// Reads block until something comes.
    pub input: BlockingFile,
    /// Writes block until there is room.
    pub output: BlockingFile,
    /// Returns whether the client closed its end of the output, without writing to it.
    pub gone: Box<dyn Fn() -> bool + Send>,
}

/// A file whose reads and writes block, even if it was opened as non-blocking.
#[derive(Debug)]
pub struct BlockingFile(File);

/// The pipe size to the client, in bytes: the most that Linux gives unprivileged processes.
const OUTPUT_BYTES: usize = 1024 * 1024;
/// The pipe size from the client, in bytes. More is hardly faster, and pipes of one user share a limit.
const INPUT_BYTES: usize = 256 * 1024;

/// Returns the standard streams without buffers in between.
pub fn standard_streams() -> io::Result<Streams> {
    let input = rustix::stdio::stdin().try_clone_to_owned()?;
    let output = rustix::stdio::stdout().try_clone_to_owned()?;
    // A large message then fits the pipe without a read in between. Sockets and files have no such size, and
    // a lower system limit leaves it unchanged.
    let _ = fcntl_setpipe_size(&input, INPUT_BYTES);
    let _ = fcntl_setpipe_size(&output, OUTPUT_BYTES);
    let watched = File::from(output.try_clone()?);
    Ok(Streams {
        input: BlockingFile(File::from(input)),
        output: BlockingFile(File::from(output)),
        gone: Box::new(move || has_hung_up(watched.as_fd())),
    })
}

/// Returns whether the other end of a pipe or socket is closed.
fn has_hung_up(fd: BorrowedFd<'_>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok_and(|ready| 0 < ready)
        && watched.iter().any(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

fn wait(fd: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
    poll(&mut [PollFd::from_borrowed_fd(fd, flags)], None)?;
    Ok(())
}

impl Read for BlockingFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(self.0.as_fd(), PollFlags::IN)?;
                }
                read => return read,
            }
        }
    }
}

impl Write for BlockingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(self.0.as_fd(), PollFlags::OUT)?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[expect(clippy::disallowed_types, reason = "a socket as clients give")]
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_client_that_hangs_up_is_noticed() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        assert!(!has_hung_up(writer.as_fd()));
        drop(reader);
        assert!(has_hung_up(writer.as_fd()));

        #[expect(clippy::disallowed_types, reason = "a socket as clients give")]
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        assert!(!has_hung_up(ours.as_fd()));
        drop(theirs);
        assert!(has_hung_up(ours.as_fd()));
    }

    #[test]
    fn a_stream_that_does_not_block_is_waited_for() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        rustix::io::ioctl_fionbio(&file, true).expect("it stops blocking");
        let mut blocking = BlockingFile(file);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 8];
            let n = blocking.read(&mut buffer).expect("it reads");
            buffer[..n].to_vec()
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        writer.write_all(b"late").expect("it writes");
        assert_eq!(thread.join().expect("it ends"), b"late");
    }
}

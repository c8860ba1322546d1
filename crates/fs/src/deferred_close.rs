//! Deferred close of replaced files.
//!
//! The last close frees the blocks of a replaced file, and some file systems wait for the disk: as long as
//! the change itself. So the file stays open until the reply is out, or until the next call.

use std::fs::File;
use std::sync::Mutex;

use sinew_tool::sync::lock;

/// The most files that stay open; any further file is closed at once.
const MAX_LATE: usize = 32;

/// Replaced files that are closed later.
#[derive(Debug, Default)]
pub struct DeferredClose(Mutex<Vec<File>>);

impl DeferredClose {
    /// Keeps a file open until the next [`DeferredClose::close`].
    pub fn add(&self, file: File) {
        let mut late = lock(&self.0);
        if late.len() < MAX_LATE {
            late.push(file);
        }
    }

    /// Closes all kept files.
    pub fn close(&self) {
        let late = std::mem::take(&mut *lock(&self.0));
        drop(late);
    }
}

#[cfg(test)]
mod tests {
    use std::io::pipe;

    use super::*;

    #[test]
    fn files_stay_open_for_so_long_and_no_longer() {
        let late = DeferredClose::default();
        let add = || {
            let (reader, writer) = pipe().expect("a pipe");
            late.add(File::from(std::os::fd::OwnedFd::from(writer)));
            reader
        };
        let ended = |mut reader: std::io::PipeReader| {
            rustix::io::ioctl_fionbio(&reader, true).expect("it stops blocking");
            matches!(std::io::Read::read(&mut reader, &mut [0]), Ok(0))
        };
        assert!(!ended(add()));
        for _ in 1..MAX_LATE {
            drop(add());
        }
        assert!(ended(add()), "one too many");
        late.close();
        let reader = add();
        late.close();
        assert!(ended(reader));
    }
}

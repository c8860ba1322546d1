//! Writes the whole output of a command to the store, and passes it on as it comes.

use rustix::io::Errno;
use sinew_tool::{MAX_STORED_OUTPUT, Progress};

use super::capture::Spool;
use sinew_fs::store::{NotStored, Spooled, Store};

/// Writes an output to the store once it is longer than a reply shows.
pub(super) struct ToStore {
    /// Gets each piece of the output.
    pub(super) progress: Progress,
    store: Option<Store>,
    call_id: String,
    max_bytes: usize,
    max_lines: u64,
    pub(super) n_lines: u64,
    head: Vec<u8>,
    file: Spooling,
    stored: u64,
}

enum Spooling {
    NotYet,
    To(Spooled),
    Failed,
}

impl ToStore {
    /// Stores an output of more bytes or lines than these.
    pub(super) fn above(
        store: Option<Store>,
        call_id: &str,
        (max_bytes, max_lines): (u64, u64),
    ) -> Self {
        Self {
            progress: Progress::default(),
            store,
            call_id: call_id.to_owned(),
            max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
            max_lines,
            n_lines: 0,
            head: Vec::new(),
            file: Spooling::NotYet,
            stored: 0,
        }
    }

    /// Begins to store, with what came so far.
    pub(super) fn begin(&mut self) {
        let head = std::mem::take(&mut self.head);
        self.stored = head.len() as u64;
        let store = self.store.as_ref().ok_or(NotStored::System(Errno::NOENT));
        let begun = store.and_then(|store| {
            let mut file = store.begin(&self.call_id)?;
            file.write(&head)?;
            Ok(file)
        });
        self.file = begun.map_or(Spooling::Failed, Spooling::To);
    }

    /// Returns the path of the stored output, relative to the first root.
    pub(super) fn path(&self) -> Option<String> {
        match &self.file {
            Spooling::To(file) => Some(file.path()),
            Spooling::NotYet | Spooling::Failed => None,
        }
    }
}

impl Spool for ToStore {
    fn write(&mut self, bytes: &[u8]) {
        self.progress.output(bytes);
        self.n_lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        if let Spooling::NotYet = self.file {
            let n_lines = self.n_lines + u64::from(bytes.last() != Some(&b'\n'));
            if self.head.len() + bytes.len() <= self.max_bytes && n_lines <= self.max_lines {
                self.head.extend_from_slice(bytes);
                return;
            }
            self.begin();
        }
        if let Spooling::To(file) = &mut self.file
            && self.stored < MAX_STORED_OUTPUT
        {
            self.stored += bytes.len() as u64;
            if file.write(bytes).is_err() {
                self.file = Spooling::Failed;
            }
        }
    }
}

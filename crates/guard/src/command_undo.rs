//! Checkpoints of commands: what the sandbox asks for, made by the records.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sinew_records::checkpoints::{CallContext, Checkpoints, CommandCall, CommandDraft};
use sinew_sandbox::{AddsDirs, CommandUndo, KeepsChanges};
use sinew_tool::{Caller, CommandChanges};

/// Keeps the changes of commands as checkpoints.
#[derive(Debug)]
pub(crate) struct CommandCheckpoints(pub(crate) Arc<Checkpoints>);

impl KeepsChanges for CommandCheckpoints {
    fn directory(&self) -> io::Result<OwnedFd> {
        self.0.before_images().map_err(io::Error::other)
    }

    fn is_busy(&self) -> bool {
        self.0.has_commands_under_way()
    }

    fn begin(
        &self,
        caller: &Caller,
        roots: &[PathBuf],
        beside: Vec<PathBuf>,
    ) -> io::Result<Box<dyn CommandUndo>> {
        let mark = CallContext::of(caller, roots.to_vec(), None);
        let draft = self.0.begin_command(mark, beside).map_err(io::Error::other)?;
        Ok(Box::new(OneCommand(draft)))
    }
}

#[derive(Debug)]
struct OneCommand(CommandDraft);

impl CommandUndo for OneCommand {
    fn handles(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        (self.0.directory(), self.0.log())
    }

    fn room(&self) -> u64 {
        self.0.room()
    }

    fn adds_dirs(&self) -> Arc<dyn AddsDirs> {
        Arc::new(DirsOfCall(Arc::clone(self.0.call())))
    }

    fn is_unchanged(&self) -> bool {
        self.0.is_unchanged()
    }

    fn end(self: Box<Self>, has_all: bool) -> CommandChanges {
        // The directory stays for the next start, which tries again.
        let failed = CommandChanges { is_partial: true, ..CommandChanges::default() };
        self.0.end(has_all).unwrap_or(failed)
    }
}

#[derive(Debug)]
struct DirsOfCall(Arc<CommandCall>);

impl AddsDirs for DirsOfCall {
    fn add(&self, dir: &Path) -> io::Result<()> {
        self.0.may_change(dir)
    }
}

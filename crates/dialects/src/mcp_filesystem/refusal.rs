//! Refusals in the words of the filesystem server, which are those of its operating system.

use std::path::{Component, Path, PathBuf};

use sinew_ops::read;
use sinew_tool::{FileKind, Kind, Reply, ToolError};

use crate::words::{hint, said, text, without_argument};

/// The system call of a tool, as errors name it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RefusedOp {
    /// The name of the system call.
    call: &'static str,
    /// Whether it works on a directory.
    of_directory: bool,
}

pub(super) const OPEN: RefusedOp = RefusedOp { call: "open", of_directory: false };
pub(super) const EDIT: RefusedOp = RefusedOp { call: "open", of_directory: false };
pub(super) const LIST: RefusedOp = RefusedOp { call: "scandir", of_directory: true };
pub(super) const MKDIR: RefusedOp = RefusedOp { call: "mkdir", of_directory: true };
pub(super) const RENAME: RefusedOp = RefusedOp { call: "rename", of_directory: false };
pub(super) const STAT: RefusedOp = RefusedOp { call: "stat", of_directory: false };

impl RefusedOp {
    /// Shapes a refusal with the path as written.
    pub(super) fn fail(self, error: &ToolError, path: Option<&str>) -> Reply {
        let words = self.words(error, path.unwrap_or_default());
        // The most similar text goes to the error body, not to the message.
        let told = match error.kind {
            Kind::NoMatch | Kind::NotUnique => Reply::failure(error).error,
            _ => None,
        };
        let hint = match error.kind {
            Kind::PathDenied | Kind::NoMatch | Kind::ExecutionFailed | Kind::PermissionDenied => {
                None
            }
            Kind::NotUnique => Some(String::from("add surrounding lines until it is unique")),
            _ => hint(error),
        };
        let reply = said(error, words, hint);
        Reply { error: told.or(reply.error), ..reply }
    }

    /// Returns the words of a refusal.
    pub(super) fn words(self, error: &ToolError, path: &str) -> String {
        let call = self.call;
        let plain = || plain(path);
        match error.kind {
            Kind::PathDenied => denied(error, &plain()),
            Kind::FileNotFound => {
                format!("ENOENT: no such file or directory, {call} '{}'", plain())
            }
            Kind::PermissionDenied => format!("EACCES: permission denied, {call} '{}'", plain()),
            Kind::NotRegularFile if self.of_directory => {
                format!("ENOTDIR: not a directory, {call} '{}'", plain())
            }
            Kind::NotRegularFile if error.message.contains("but a directory") => {
                String::from("EISDIR: illegal operation on a directory, read")
            }
            Kind::ExecutionFailed if error.message.contains("something is there already") => {
                format!("EEXIST: file already exists, {call} '{}'", plain())
            }
            Kind::NoMatch => {
                let old = error.message.split_once('\n').map_or("", |(_, old)| old);
                format!("Could not find exact match for edit:\n{old}")
            }
            Kind::NotUnique => {
                let words = error.message.split_once('\n').map_or(&*error.message, |(w, _)| w);
                words.replace("old_string", "oldText")
            }
            Kind::InvalidArgs if error.message.contains("`tail` cannot both be given") => {
                String::from("Cannot specify both head and tail parameters simultaneously")
            }
            _ => {
                let words = without_argument(&error.message);
                words.replace("old_string", "oldText").replace("new_string", "newText")
            }
        }
    }
}

/// Returns the words for a path outside the roots or denied by a rule.
fn denied(error: &ToolError, path: &str) -> String {
    let hint = error.hint.as_deref().unwrap_or_default();
    // A call may name several paths; the error names the denied one.
    let told = error.message.split_once("path denied: ").map(|(_, path)| plain(path));
    let path = told.as_deref().unwrap_or(path);
    match hint.strip_prefix("it lies outside the roots: ") {
        Some(rest) => {
            let roots = rest.split_once(';').map_or(rest, |(roots, _)| roots);
            format!("Access denied - path outside allowed directories: {path} not in {roots}")
        }
        None => format!("Access denied - {path}: {hint}"),
    }
}

/// Normalises a path: no `.`, `..`, double or trailing slashes.
fn plain(path: &str) -> String {
    let mut plain = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    text(&plain)
}

/// Returns the error kind for a file that is not shown.
pub(super) fn kind(found: &read::ReadOut) -> Kind {
    match found {
        read::ReadOut::NotFound => Kind::FileNotFound,
        read::ReadOut::PermissionDenied => Kind::PermissionDenied,
        read::ReadOut::NotRegularFile { .. } => Kind::NotRegularFile,
        read::ReadOut::TooLarge { .. } => Kind::TooLarge,
        read::ReadOut::Text(_) | read::ReadOut::Media { .. } | read::ReadOut::Binary { .. } => {
            Kind::Binary
        }
    }
}

/// Returns why a file is not shown.
pub(super) fn of_read(found: &read::ReadOut, path: &str) -> String {
    match found {
        read::ReadOut::Text(_) => String::new(),
        read::ReadOut::NotFound => format!("ENOENT: no such file or directory, open '{path}'"),
        read::ReadOut::PermissionDenied => format!("EACCES: permission denied, open '{path}'"),
        read::ReadOut::NotRegularFile { kind: FileKind::Directory } => {
            String::from("EISDIR: illegal operation on a directory, read")
        }
        read::ReadOut::NotRegularFile { kind } => {
            format!("not a file but {}: {path}", kind.words())
        }
        read::ReadOut::TooLarge { bytes, max_bytes } => {
            format!("the file has {bytes} bytes, more than {max_bytes}: {path}")
        }
        read::ReadOut::Binary { bytes, .. } | read::ReadOut::Media { bytes, .. } => {
            format!("binary content of {bytes} bytes, which read_media_file hands over: {path}")
        }
    }
}

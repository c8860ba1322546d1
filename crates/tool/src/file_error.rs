//! Errors of file access, and their messages for callers.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use crate::{FileKind, Kind, ToolError, Writer};
use crate::{knowledge, line, line_name};

/// The reason why a file could not be read or changed.
#[derive(Debug)]
pub enum FileError {
    /// Absent.
    Missing,
    /// Denied by this rule.
    Denied(String),
    /// The operating system refused.
    Permission,
    /// The wrong file type.
    NotRegular(FileKind),
    /// A directory was needed.
    NotDirectory,
    /// A path that cannot be resolved: NUL, too long, a loop.
    Invalid(&'static str),
    /// The parent directory does not exist.
    NoParent,
    /// The name already exists.
    Exists,
    /// The names are on different file systems.
    OtherFileSystem,
    /// A symlink that is not followed.
    Link,
    /// A different owner or group, which a replacement would lose.
    Owner,
    /// A file with this many hard links.
    ManyLinks(u64),
    /// A file with this many hard links, in a joint change in place.
    LinksInPlace(u64),
    /// The file changed meanwhile.
    Changed,
    /// The caller knows other content; names its writer if known.
    Stale(Option<Writer>),
    /// The caller must read the content first.
    Unread,
    /// Concurrent changes of the same directory took too long.
    Busy,
    /// Git holds its lock of the file.
    GitAtWork,
    /// No space, a quota or a size limit.
    Full(io::Error),
    /// The process reached this limit of open file descriptors.
    OpenFiles(u64),
    /// The file system is read-only.
    ReadOnly,
    /// The journal (write-ahead log) of multi-file changes cannot be written.
    Journal(io::Error),
    /// The old state cannot be stored for an undo, so it stays.
    Unkept(Box<ToolError>),
    /// The call was cancelled.
    Cancelled,
    /// Any other I/O error.
    Io(io::Error),
}

impl FileError {
    /// Returns whether nothing happened and a retry may succeed soon.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Busy | Self::GitAtWork => true,
            Self::Unkept(error) => error.kind == Kind::Timeout,
            _ => false,
        }
    }

    /// Returns the error about a path, in words for the model.
    pub fn about(self, shown: &str) -> ToolError {
        let shown = &in_line(clipped(shown));
        let error = |kind, message: String| ToolError::new(kind, message);
        match self {
            Self::Missing => error(Kind::FileNotFound, format!("no such file: {shown}"))
                .hint("check the path by listing the directory above it; a dangling link counts as missing"),
            Self::Denied(rule) => {
                error(Kind::PathDenied, format!("path denied: {shown}")).hint(rule)
            }
            Self::Permission => {
                error(Kind::PermissionDenied, format!("the system denies access: {shown}"))
                    .hint("the user who runs sinew needs the right to it; `chmod` gives it")
            }
            Self::NotRegular(kind) => error(
                Kind::NotRegularFile,
                format!("not a regular file but {}: {shown}", kind.words()),
            )
            .hint(match kind {
                FileKind::Directory => "name a file in it, or list it",
                FileKind::Symlink => "pass the path that the link points to",
                FileKind::File | FileKind::Special => "pass a regular file; nothing else is read",
            }),
            Self::NotDirectory => error(Kind::NotRegularFile, format!("not a directory: {shown}"))
                .hint("each name before a `/`, and a path to list or search, must be a directory"),
            Self::Invalid(problem) => {
                error(Kind::InvalidPath, format!("the path {problem}: {shown}"))
            }
            Self::NoParent => no_parent(shown),
            Self::Exists => exists(shown),
            Self::OtherFileSystem => other_file_system(shown),
            Self::Link => error(
                Kind::NotRegularFile,
                format!("a symbolic link, which this tool does not follow: {shown}"),
            )
            .hint("pass the path that the link points to"),
            Self::Owner => error(
                Kind::PermissionDenied,
                format!("the owner or group of the file could not be kept, so it stays: {shown}"),
            )
            .hint("its owner must make the change, or give it with `chown` to the user who runs sinew"),
            Self::ManyLinks(n) => error(
                Kind::ExecutionFailed,
                format!("the file has {n} hard links and a replacement would separate them: {shown}"),
            )
            .hint("set `files.hard_links` to \"break\" (replace this name) or \"in_place\""),
            Self::LinksInPlace(n) => links_in_place(n, shown),
            Self::Changed => error(Kind::Stale, format!("the file changed meanwhile: {shown}"))
                .hint("read it again and repeat the call"),
            Self::Stale(writer) => knowledge::stale(writer.as_ref(), shown),
            Self::Unread => knowledge::unread(shown),
            Self::Busy => error(
                Kind::Timeout,
                format!("another process holds a lock on it, so nothing was changed: {shown}"),
            )
            .hint("repeat the call; if it fails again, something holds a lock on the directory"),
            Self::GitAtWork => git_at_work(shown),
            Self::Full(source) => {
                error(Kind::LimitReached, format!("no space left for: {shown}")).source(source)
            }
            Self::OpenFiles(n) => open_files(n, shown),
            Self::ReadOnly => {
                error(Kind::PermissionDenied, format!("the file system is read-only: {shown}"))
            }
            Self::Journal(source) => error(
                Kind::Unavailable,
                format!("the journal of the change cannot be written, so nothing was changed: {shown}"),
            )
            .hint("run `sinew doctor`; the state directory must have space and be writable")
            .source(source),
            Self::Unkept(error) => *error,
            Self::Cancelled => error(Kind::Cancelled, String::from("the call was cancelled")),
            Self::Io(source) => {
                error(Kind::ExecutionFailed, format!("{}: {shown}", plain(&source))).source(source)
            }
        }
    }
}

fn links_in_place(n: u64, shown: &str) -> ToolError {
    ToolError::new(
        Kind::ExecutionFailed,
        format!(
            "the file has {n} hard links, and what is written into it cannot be taken back with other changes: {shown}"
        ),
    )
    .hint("set `files.hard_links` to \"break\", or change this file in a call of its own")
}

fn git_at_work(shown: &str) -> ToolError {
    let message = format!("git is at work in this repository, so nothing was changed: {shown}");
    ToolError::new(Kind::Timeout, message)
        .hint("repeat the call; if git does not run, remove the file of this name with `.lock` at its end")
}

fn no_parent(shown: &str) -> ToolError {
    ToolError::new(Kind::FileNotFound, format!("the parent directory does not exist: {shown}"))
        .hint("create the directory first")
}

fn exists(shown: &str) -> ToolError {
    ToolError::new(Kind::ExecutionFailed, format!("something is there already: {shown}"))
        .hint("choose another name, or move the existing file away first")
}

fn open_files(n: u64, shown: &str) -> ToolError {
    ToolError::new(
        Kind::LimitReached,
        format!("sinew may hold no more than {n} files and directories open: {shown}"),
    )
    .hint("name files of fewer directories in one call, or raise the limit with `ulimit -n`")
}

fn other_file_system(shown: &str) -> ToolError {
    ToolError::new(Kind::ExecutionFailed, format!("a move cannot cross file systems: {shown}"))
        .hint("read the files and write them there")
}

/// Quotes a path that would break its line.
fn in_line(shown: Cow<'_, str>) -> Cow<'_, str> {
    match line::breaks_lines(&shown) {
        true => Cow::Owned(line_name(Path::new(&*shown)).into_owned()),
        false => shown,
    }
}

/// Replaces the middle of a too long path.
fn clipped(shown: &str) -> Cow<'_, str> {
    const MAX: usize = 1_024;
    if shown.len() <= MAX {
        return Cow::Borrowed(shown);
    }
    let head = shown.get(..shown.floor_char_boundary(MAX / 2)).unwrap_or_default();
    let tail = shown.get(shown.ceil_char_boundary(shown.len() - MAX / 2)..).unwrap_or_default();
    let n_left_out = shown.len() - head.len() - tail.len();
    Cow::Owned(format!("{head}[{n_left_out} more bytes]{tail}"))
}

fn plain(error: &io::Error) -> String {
    let text = error.to_string().to_lowercase();
    match text.find(" (os error") {
        Some(end) => text.get(..end).unwrap_or(&text).to_owned(),
        None => text,
    }
}

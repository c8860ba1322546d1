//! Undo log of a command: the state of each path before the command changed it.
//!
//! The supervisor of a command appends a group of records before each change, in one write. Old contents are
//! before-images, files beside the log that records name by number. The log is read once the command has
//! ended, or at a later start if all processes died. [`Origins`] tracks where the old contents are.
//!
//! A group begins with its length, so a partly written group is left out. The change of the last group may
//! not have happened: the reader looks at the disk.

mod origins;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use origins::{OldState, Origins};

/// The largest group in bytes; one has a few paths.
const MAX_GROUP: usize = 64 * 1024;

/// Device and inode numbers of a file.
pub type Inode = (u64, u64);

/// The state of a regular file without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileBefore {
    /// The size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Device and inode.
    pub inode: Inode,
    /// The names of the inode.
    pub n_links: u64,
}

/// Where the content of a file is that a command changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeforeImage {
    /// It has none: the file is empty.
    Empty,
    /// In a before-image that was moved there; it may be missing if the change did not happen.
    Moved(u64),
    /// In a before-image that was copied there before.
    Copied(u64),
    /// It is not kept.
    Lost(UnkeptReason),
}

/// Why a content is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum UnkeptReason {
    /// The file is too large to be copied.
    Large,
    /// The budget of the command is used up.
    Budget,
    /// It cannot be read or written, such as on a full disk.
    Failed,
}

/// What one change of a command does to a path. Paths are real, and as they are at the time of the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoRecord {
    /// Something is made where nothing is.
    Made(PathBuf),
    /// A regular file is changed, replaced or removed.
    File(PathBuf, FileBefore, BeforeImage),
    /// A symlink with this target is removed or replaced.
    Link(PathBuf, PathBuf),
    /// A directory with this mode is removed or replaced.
    Directory(PathBuf, u32),
    /// A FIFO, socket or device is removed or replaced.
    Special(PathBuf),
    /// The mode changes, which is this one so far; with the inode of a file that has several names, else zeros.
    Mode(PathBuf, u32, Inode),
    /// A name moves; says whether it is a directory, and its inode.
    Moved(PathBuf, PathBuf, bool, Inode),
    /// Two names change places; says of each whether it is a directory, and the inode of the first.
    Exchanged(PathBuf, PathBuf, (bool, bool), Inode),
    /// A file gets a second name.
    Linked(PathBuf, PathBuf, Inode),
    /// More is changed than the log holds.
    Full,
    /// Changes in a directory that tools make anew are not recorded.
    Rebuilt(PathBuf),
    /// A directory comes from such a one, with all that is in it.
    Came(PathBuf),
}

impl UndoRecord {
    /// Returns the paths that the change concerns, except directories whose changes are not recorded.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let (one, other) = match self {
            Self::Made(path)
            | Self::File(path, ..)
            | Self::Link(path, _)
            | Self::Directory(path, _)
            | Self::Special(path)
            | Self::Mode(path, ..)
            | Self::Rebuilt(path)
            | Self::Came(path) => (Some(path), None),
            Self::Moved(from, to, ..)
            | Self::Exchanged(from, to, ..)
            | Self::Linked(from, to, _) => (Some(from), Some(to)),
            Self::Full => (None, None),
        };
        one.into_iter().chain(other).map(PathBuf::as_path)
    }
}

/// The changes of a log, each with its records, in order.
pub type UndoGroups = Vec<Vec<UndoRecord>>;

/// Appends the records of one change to `bytes`, as one group.
pub fn append(records: &[UndoRecord], bytes: &mut Vec<u8>) {
    if records.is_empty() {
        return;
    }
    let start = bytes.len();
    bytes.extend([0; 4]);
    records.iter().for_each(|record| Writer(bytes).record(record));
    let length = u32::try_from(bytes.len() - start - 4).unwrap_or(u32::MAX);
    if let Some(place) = bytes.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

/// Appends that the change of the last group did not happen.
pub fn append_failed(bytes: &mut Vec<u8>) {
    bytes.extend([0; 4]);
}

/// Returns the changes that a log records: all that were written whole and did not fail.
pub fn read(mut bytes: &[u8]) -> UndoGroups {
    let mut groups = UndoGroups::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((group, rest)) = rest.split_at_checked(length).filter(|_| length <= MAX_GROUP)
        else {
            break;
        };
        bytes = rest;
        if length == 0 {
            groups.pop();
            continue;
        }
        let mut reader = Reader(group);
        let mut records = Vec::new();
        while !reader.0.is_empty() {
            let Some(record) = reader.record() else { return groups };
            records.push(record);
        }
        groups.push(records);
    }
    groups
}

struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn record(mut self, record: &UndoRecord) {
        match record {
            UndoRecord::Made(path) => self.kind(0).path(path),
            UndoRecord::File(path, before, image) => {
                self.kind(1).path(path);
                for number in [before.size, u64::from(before.mode), before.n_links] {
                    self.number(number);
                }
                self.inode(before.inode);
                let (kind, number) = match image {
                    BeforeImage::Empty => (0, 0),
                    BeforeImage::Moved(number) => (1, *number),
                    BeforeImage::Copied(number) => (2, *number),
                    BeforeImage::Lost(UnkeptReason::Large) => (3, 0),
                    BeforeImage::Lost(UnkeptReason::Budget) => (3, 1),
                    BeforeImage::Lost(UnkeptReason::Failed) => (3, 2),
                };
                self.kind(kind).number(number);
            }
            UndoRecord::Link(path, target) => {
                self.kind(2).path(path);
                self.path(target);
            }
            UndoRecord::Directory(path, mode) => {
                self.kind(3).path(path);
                self.number(u64::from(*mode));
            }
            UndoRecord::Special(path) => self.kind(4).path(path),
            UndoRecord::Mode(path, mode, inode) => {
                self.kind(5).path(path);
                self.number(u64::from(*mode));
                self.inode(*inode);
            }
            UndoRecord::Moved(from, to, is_dir, inode) => {
                self.kind(6).path(from);
                self.path(to);
                self.kind(u8::from(*is_dir)).inode(*inode);
            }
            UndoRecord::Exchanged(one, other, (is_dir, other_is_dir), inode) => {
                self.kind(7).path(one);
                self.path(other);
                self.kind(u8::from(*is_dir)).kind(u8::from(*other_is_dir)).inode(*inode);
            }
            UndoRecord::Linked(from, to, inode) => {
                self.kind(8).path(from);
                self.path(to);
                self.inode(*inode);
            }
            UndoRecord::Full => {
                self.kind(9);
            }
            UndoRecord::Rebuilt(path) => self.kind(10).path(path),
            UndoRecord::Came(path) => self.kind(11).path(path),
        }
    }

    fn kind(&mut self, kind: u8) -> &mut Self {
        self.0.push(kind);
        self
    }

    fn inode(&mut self, (device, inode): Inode) {
        self.number(device);
        self.number(inode);
    }

    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn path(&mut self, path: &Path) {
        let bytes = path.as_os_str().as_bytes();
        self.0.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.0.extend(bytes);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn record(&mut self) -> Option<UndoRecord> {
        Some(match self.kind()? {
            0 => UndoRecord::Made(self.path()?),
            1 => {
                let path = self.path()?;
                let before = FileBefore {
                    size: self.number()?,
                    mode: self.mode()?,
                    n_links: self.number()?,
                    inode: self.inode()?,
                };
                let image = match (self.kind()?, self.number()?) {
                    (0, _) => BeforeImage::Empty,
                    (1, number) => BeforeImage::Moved(number),
                    (2, number) => BeforeImage::Copied(number),
                    (3, 0) => BeforeImage::Lost(UnkeptReason::Large),
                    (3, 1) => BeforeImage::Lost(UnkeptReason::Budget),
                    (3, 2) => BeforeImage::Lost(UnkeptReason::Failed),
                    _ => return None,
                };
                UndoRecord::File(path, before, image)
            }
            2 => UndoRecord::Link(self.path()?, self.path()?),
            3 => UndoRecord::Directory(self.path()?, self.mode()?),
            4 => UndoRecord::Special(self.path()?),
            5 => UndoRecord::Mode(self.path()?, self.mode()?, self.inode()?),
            6 => UndoRecord::Moved(self.path()?, self.path()?, self.kind()? == 1, self.inode()?),
            7 => UndoRecord::Exchanged(
                self.path()?,
                self.path()?,
                (self.kind()? == 1, self.kind()? == 1),
                self.inode()?,
            ),
            8 => UndoRecord::Linked(self.path()?, self.path()?, self.inode()?),
            9 => UndoRecord::Full,
            10 => UndoRecord::Rebuilt(self.path()?),
            11 => UndoRecord::Came(self.path()?),
            _ => return None,
        })
    }

    fn kind(&mut self) -> Option<u8> {
        let (kind, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*kind)
    }

    fn inode(&mut self) -> Option<Inode> {
        Some((self.number()?, self.number()?))
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn mode(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn path(&mut self) -> Option<PathBuf> {
        let (length, rest) = self.0.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (path, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(PathBuf::from(OsString::from_vec(path.to_vec())))
    }
}

/// Returns the number of a before-image's file name.
pub fn image_name(number: u64) -> String {
    format!("{number}")
}

/// The name of the log in its directory.
pub const LOG: &str = "log";

/// Returns whether a path names git's store of objects, or is in it: changes add to it and say nothing.
pub fn is_git_object(path: &Path) -> bool {
    let mut names = path.iter();
    let Some(_) = names.find(|name| *name == OsStr::new(".git")) else { return false };
    let rest: Vec<&OsStr> = names.collect();
    match rest.as_slice() {
        [first, ..] if *first == "objects" => true,
        [first, rest @ ..] if *first == "modules" || *first == "worktrees" => {
            rest.iter().any(|name| *name == "objects")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Vec<UndoRecord>> {
        let before = FileBefore { size: 7, mode: 0o644, inode: (1, 11), n_links: 2 };
        let path = |name: &str| PathBuf::from(name);
        let odd = PathBuf::from(OsString::from_vec(vec![b'/', 0xff, b'\n']));
        let images = [
            BeforeImage::Empty,
            BeforeImage::Moved(1),
            BeforeImage::Copied(u64::MAX),
            BeforeImage::Lost(UnkeptReason::Large),
            BeforeImage::Lost(UnkeptReason::Budget),
            BeforeImage::Lost(UnkeptReason::Failed),
        ];
        let mut all: Vec<Vec<UndoRecord>> =
            images.map(|image| vec![UndoRecord::File(odd.clone(), before, image)]).into();
        all.push(vec![UndoRecord::Made(path("/a")), UndoRecord::Link(path("/b"), path("../c"))]);
        all.push(vec![UndoRecord::Directory(path("/d"), 0o700), UndoRecord::Special(path("/e"))]);
        all.push(vec![UndoRecord::Mode(path("/f"), 0o4755, (1, 9)), UndoRecord::Full]);
        all.push(vec![UndoRecord::Rebuilt(path("/m")), UndoRecord::Came(path("/n"))]);
        all.push(vec![UndoRecord::Moved(path("/g"), path("/h"), true, (1, 3))]);
        all.push(vec![UndoRecord::Exchanged(path("/i"), path("/j"), (false, true), (1, 5))]);
        all.push(vec![UndoRecord::Linked(path("/k"), path("/l"), (1, 4))]);
        all
    }

    fn written(groups: &[Vec<UndoRecord>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        groups.iter().for_each(|group| append(group, &mut bytes));
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&written(&all())), all());
    }

    #[test]
    fn a_change_that_failed_is_left_out() {
        let mut bytes = written(&all());
        append_failed(&mut bytes);
        let (_, rest) =
            all().split_last().map(|(last, rest)| (last.clone(), rest.to_vec())).expect("some");
        assert_eq!(read(&bytes), rest);
    }

    #[test]
    fn a_log_that_was_cut_anywhere_gives_whole_groups() {
        let bytes = written(&all());
        for end in 0..bytes.len() {
            let groups = read(&bytes[..end]);
            assert_eq!(groups, all()[..groups.len()], "cut at {end}");
        }
    }

    #[test]
    fn objects_of_git_are_told_apart() {
        let check = |path: &str, expected: bool| {
            assert_eq!(is_git_object(Path::new(path)), expected, "{path}");
        };
        check("/p/.git/objects", true);
        check("/p/.git/objects/ab/cd", true);
        check("/p/.git/modules/x/objects/ab", true);
        check("/p/.git/HEAD", false);
        check("/p/.git/refs/heads/objects", false);
        check("/p/objects/a", false);
    }
}

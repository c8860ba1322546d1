//! Whether `git` may look at the files of a working tree: none that the index names lies behind a link,
//! and none has a filter, which would be run.
//!
//! Which filters there are the settings of the person say, and those are not looked at. It counts that a
//! file with attributes speaks of them.

use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;
use sinew_tool::Unclear;

use super::index::{self, Index};
use super::repository::odd;
use crate::Scene;

/// The longest file with attributes that is looked at, in bytes, and the most of them.
const MAX_ATTRIBUTES: u64 = 64 * 1024;
const MAX_FILES: usize = 200;

/// Refuses a working tree with filters and, where `opens` is set since files are opened by the names that
/// the index has, with links among its directories.
pub(super) fn check(scene: &Scene<'_>, top: &Path, opens: bool) -> Result<(), Unclear> {
    let path = top.join(".git/index");
    let opened = path.join("opened");
    let seen = |place: &PathBuf| scene.seen.places.borrow().contains(place);
    if seen(&opened) || (seen(&path) && !opens) {
        return Ok(());
    }
    let index = index::read(&path)
        .ok_or_else(|| odd("the index of the repository is of a form that is not looked into"))?;
    if opens {
        check_directories(top, &index)?;
    }
    check_filters(top, &index)?;
    if opens {
        scene.seen.places.borrow_mut().insert(opened);
    }
    scene.seen.places.borrow_mut().insert(path);
    Ok(())
}

fn check_directories(top: &Path, index: &Index) -> Result<(), Unclear> {
    for dir in &index.directories {
        match kind(&top.join(dir))? {
            Some(kind) if kind.is_symlink() => {
                return Err(odd("the repository has files behind a link"));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

fn check_filters(top: &Path, index: &Index) -> Result<(), Unclear> {
    let top_file = top.join(".gitattributes");
    let dirs = index.directories.iter().map(|dir| top.join(dir).join(".gitattributes"));
    let files = [top.join(".git/info/attributes"), top_file].into_iter().chain(dirs);
    let mut n_files = 0;
    for file in files {
        if !check_attributes(&file)? {
            continue;
        }
        n_files += 1;
        if MAX_FILES < n_files {
            return Err(odd("the repository has too many files with attributes"));
        }
    }
    for file in &index.attributes {
        // What is not there is taken from the index.
        if kind(&top.join(file))?.is_none() {
            return Err(odd("the repository lacks a file with attributes"));
        }
    }
    Ok(())
}

/// Refuses attributes that speak of filters; returns whether there are any.
#[expect(clippy::disallowed_methods, reason = "the guard may touch the system")]
fn check_attributes(file: &Path) -> Result<bool, Unclear> {
    let unseen = || odd("the attributes of its files cannot be looked at");
    match kind(file)? {
        None => return Ok(false),
        Some(kind) if kind.is_file() => {}
        Some(_) => return Err(unseen()),
    }
    let is_small = std::fs::symlink_metadata(file).is_ok_and(|meta| meta.len() <= MAX_ATTRIBUTES);
    let bytes = is_small.then(|| std::fs::read(file).ok()).flatten().ok_or_else(unseen)?;
    match has_filter(&bytes) {
        true => Err(odd("files of the repository may have a filter, which is a program")),
        false => Ok(true),
    }
}

fn has_filter(attributes: &[u8]) -> bool {
    // A return belongs to a pattern unless it ends a line.
    let has_return = |line: &[u8]| memchr::memchr(b'\r', line.trim_ascii_end()).is_some();
    let lines = attributes.split(|byte| *byte == b'\n');
    if lines.clone().any(has_return) {
        return true;
    }
    let mut told = lines.filter(|line| !line.trim_ascii_start().starts_with(b"#"));
    told.any(|line| memchr::memmem::find(&line.to_ascii_lowercase(), b"filter").is_some())
}

/// Returns what lies at a place, no link followed at its end.
fn kind(path: &Path) -> Result<Option<FileType>, Unclear> {
    match rustix::fs::lstat(path) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(_) => Err(odd("the repository cannot be looked at")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_found_in_attributes() {
        for text in [
            "*.bin filter=lfs diff=lfs",
            "a b\n\t* -text FILTER=x\n",
            "[attr]x filter=y",
            "a\rb",
            "\"*[!\r#]\" filter=lfs",
        ] {
            assert!(has_filter(text.as_bytes()), "{text}");
        }
        for text in ["", "a\r\n", "*.txt text eol=lf\n", "# filter=x\n  # filter\n*.rs diff=rust\n"]
        {
            assert!(!has_filter(text.as_bytes()), "{text}");
        }
    }
}

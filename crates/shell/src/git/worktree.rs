//! Checks that `git` may read the files of a working tree: no indexed name leads through a symlink, and no
//! file has a filter, which would run.
//!
//! The user's settings define filters and are not read, so each attribute that mentions a filter counts.

use std::path::{Path, PathBuf};

use sinew_tool::{FileKind, Unclear};

use super::index::{self, Index};
use super::repository::odd;
use crate::Scene;
use crate::file_system::FileSystem;

/// The largest attributes file, in bytes, and the most of them.
const MAX_ATTRIBUTES: u64 = 64 * 1024;
const MAX_FILES: usize = 200;

/// Rejects filters and, if git opens files by indexed names (`opens`), symlinks among the directories.
pub(super) fn check(scene: &Scene<'_>, top: &Path, opens: bool) -> Result<(), Unclear> {
    let path = top.join(".git/index");
    let opened = path.join("opened");
    let seen = |place: &PathBuf| scene.seen.places.borrow().contains(place);
    if seen(&opened) || (seen(&path) && !opens) {
        return Ok(());
    }
    let index = index::read(scene.files, &path).ok_or_else(|| {
        odd("the index of the repository has a format that the policy cannot read")
    })?;
    if opens {
        check_directories(scene.files, top, &index)?;
    }
    check_filters(scene.files, top, &index)?;
    if opens {
        scene.seen.places.borrow_mut().insert(opened);
    }
    scene.seen.places.borrow_mut().insert(path);
    Ok(())
}

fn check_directories(files: &dyn FileSystem, top: &Path, index: &Index) -> Result<(), Unclear> {
    for dir in &index.directories {
        if kind(files, &top.join(dir))? == Some(FileKind::Symlink) {
            return Err(odd("the repository has files behind a link"));
        }
    }
    Ok(())
}

fn check_filters(files: &dyn FileSystem, top: &Path, index: &Index) -> Result<(), Unclear> {
    let top_file = top.join(".gitattributes");
    let dirs = index.directories.iter().map(|dir| top.join(dir).join(".gitattributes"));
    let listed = [top.join(".git/info/attributes"), top_file].into_iter().chain(dirs);
    let mut n_files = 0;
    for file in listed {
        if !check_attributes(files, &file)? {
            continue;
        }
        n_files += 1;
        if MAX_FILES < n_files {
            return Err(odd("the repository has too many files with attributes"));
        }
    }
    for file in &index.attributes {
        // git takes a missing file from the index.
        if kind(files, &top.join(file))?.is_none() {
            return Err(odd("the repository lacks a file with attributes"));
        }
    }
    Ok(())
}

/// Returns whether there are attributes; rejects those that mention filters.
fn check_attributes(files: &dyn FileSystem, file: &Path) -> Result<bool, Unclear> {
    let unseen = || odd("the attributes of its files cannot be looked at");
    match kind(files, file)? {
        None => return Ok(false),
        Some(FileKind::File) => {}
        Some(_) => return Err(unseen()),
    }
    let bytes = files.read(file, MAX_ATTRIBUTES).map_err(|_| unseen())?;
    match has_filter(&bytes) {
        true => Err(odd("files of the repository may have a filter, which is a program")),
        false => Ok(true),
    }
}

fn has_filter(attributes: &[u8]) -> bool {
    // A carriage return is part of a pattern unless it ends a line.
    let has_return = |line: &[u8]| memchr::memchr(b'\r', line.trim_ascii_end()).is_some();
    let lines = attributes.split(|byte| *byte == b'\n');
    if lines.clone().any(has_return) {
        return true;
    }
    let mut told = lines.filter(|line| !line.trim_ascii_start().starts_with(b"#"));
    told.any(|line| memchr::memmem::find(&line.to_ascii_lowercase(), b"filter").is_some())
}

/// Returns the kind at a path, without following a final symlink.
fn kind(files: &dyn FileSystem, path: &Path) -> Result<Option<FileKind>, Unclear> {
    files.lstat(path).map_err(|_| odd("the repository cannot be looked at"))
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

//! The text files of the tree, read once.
//!
//! The tree is walked rather than asked of git, so that tidy works in an unpacked archive and sees
//! files before they are added. What the `.gitignore` of the root excludes by an anchored name is
//! left out, and so is every `target`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Every text file below the root.
pub(super) struct Tree {
    files: Vec<File>,
}

/// One text file.
pub(super) struct File {
    /// The path from the root, with slashes.
    pub(super) path: String,
    /// All of it.
    pub(super) text: String,
}

impl Tree {
    /// Reads the tree.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let ignore = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
        let skipped: Vec<&str> = ignore.lines().filter_map(|line| line.strip_prefix('/')).collect();
        let mut files = Vec::new();
        walk(root, "", &skipped, &mut files)?;
        files.sort_by(|a: &File, b: &File| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// Returns a tree of these files.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self { files: files.iter().map(file).collect() }
    }

    /// Returns every file, sorted by path.
    pub(super) fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns the Rust files.
    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// Returns the text of a file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

fn walk(folder: &Path, prefix: &str, skipped: &[&str], files: &mut Vec<File>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let path = format!("{prefix}{name}");
        if matches!(name, ".git" | "target") || skipped.contains(&path.as_str()) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), &format!("{path}/"), skipped, files)?;
        } else if kind.is_file() {
            // A file may vanish between the listing and the reading, as those of editors do.
            let Ok(bytes) = fs::read(entry.path()) else { continue };
            if let Ok(text) = String::from_utf8(bytes)
                && !text.contains('\0')
            {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}

//! The files that rows work on.
//!
//! The tree is made of real sources: the crates that cargo has fetched, copied in the order of
//! their names until there are enough files. It carries ignore rules, a `.git` and times of change
//! that no two files share, so that "newest first" has one right answer. Large files and folders
//! are made on first use and kept. Nothing is ever linked.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

/// The fewest files of the tree.
const N_FILES: usize = 20_000;

/// Changes when the tree is made in another way, so that one made before is made anew.
const EDITION: &str = "1";

/// Rules that leave out folders and kinds of files which crates do carry.
const IGNORED: &str = "\
/target/
**/benches/
*.lock
*.png
*.orig
!**/important/
.cargo-ok
";

/// Returns the tree, which is made if it is not there, and the number of its files.
pub(super) fn obtain(root: &Path, folder: &Path) -> Result<(PathBuf, usize)> {
    let tree = folder.join("tree");
    let stamp = folder.join("tree.stamp");
    let made = fs::read_to_string(&stamp).unwrap_or_default();
    if let Some((edition, n)) = made.trim().split_once(' ')
        && edition == EDITION
        && tree.join(".git/HEAD").is_file()
    {
        return Ok((tree, n.parse()?));
    }
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    println!("making the tree");
    let n = make(root, &tree)?;
    fs::write(&stamp, format!("{EDITION} {n}\n"))?;
    Ok((tree, n))
}

fn make(root: &Path, tree: &Path) -> Result<usize> {
    let mut crates = fetched()?;
    if n_files_in(&crates) < N_FILES {
        let fetch = Command::new("cargo").args(["fetch", "--locked"]).current_dir(root).status();
        if !fetch.is_ok_and(|status| status.success()) {
            println!("`cargo fetch` failed; what is there is used");
        }
        crates = fetched()?;
    }
    fs::create_dir_all(tree.join(".git"))?;
    fs::write(tree.join(".git/HEAD"), "ref: refs/heads/main\n")?;
    fs::write(tree.join(".gitignore"), IGNORED)?;
    let mut n = 0;
    let mut copies = String::new();
    while n < N_FILES {
        for (name, files) in &crates {
            if n < N_FILES {
                n = copy(files, &tree.join(format!("{name}{copies}")), n)?;
            }
        }
        if n == 0 {
            bail!("cargo has fetched no crates to make a tree of");
        }
        if n < N_FILES {
            println!("{n} files of crates; folders are copied again under other names");
            copies.push_str("-again");
        }
    }
    Ok(n)
}

/// A crate: its name, and its files by their paths on disk and within it.
type Crate = (String, Vec<(PathBuf, PathBuf)>);

/// Returns the crates whose sources cargo holds, sorted by name.
fn fetched() -> Result<Vec<Crate>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let sources = home.context("neither CARGO_HOME nor HOME is set")?.join("registry/src");
    let mut crates = Vec::new();
    for registry in fs::read_dir(&sources).with_context(|| sources.display().to_string())? {
        for package in fs::read_dir(registry?.path())? {
            let package = package?;
            let name = package.file_name().to_string_lossy().into_owned();
            let mut files = Vec::new();
            collect(&package.path(), Path::new(""), &mut files)?;
            files.sort();
            crates.push((name, files));
        }
    }
    crates.sort();
    Ok(crates)
}

fn n_files_in(crates: &[Crate]) -> usize {
    crates.iter().map(|(_, files)| files.len()).sum()
}

fn collect(folder: &Path, within: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let within = within.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &within, files)?;
        } else if kind.is_file() {
            files.push((entry.path(), within));
        }
    }
    Ok(())
}

/// Copies the files; `n` is how many files the tree has before, and what is returned after.
fn copy(files: &[(PathBuf, PathBuf)], to: &Path, mut n: usize) -> Result<usize> {
    for (source, within) in files {
        let path = to.join(within);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, fs::read(source)?)?;
        File::options().write(true).open(&path)?.set_modified(changed_at(n))?;
        n += 1;
    }
    Ok(n)
}

/// Returns the time of change of the nth file: within one year, no two alike, in no order of paths.
fn changed_at(n: usize) -> SystemTime {
    const YEAR: u64 = 365 * 24 * 3600;
    let mut hasher = DefaultHasher::new();
    n.hash(&mut hasher);
    let seconds = hasher.finish() % YEAR;
    let nanoseconds = u32::try_from(n % 1_000_000_000).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000 + seconds, nanoseconds)
}

/// Returns a folder with this many empty files, which is made if it is not there.
pub(super) fn folder_of(parent: &Path, n: usize) -> Result<PathBuf> {
    let folder = parent.join(format!("folder-{n}"));
    kept(&folder, |folder| {
        fs::create_dir_all(folder)?;
        for i in 0..n {
            File::create(folder.join(entry((i * 7_919) % n)))?;
        }
        Ok(())
    })
}

/// Returns the name of the nth entry of the folders of [`folder_of`], counted from 0.
pub(super) fn entry(n: usize) -> String {
    format!("entry-{n:07}.txt")
}

/// Returns a tree of this many small files, a hundred in a folder, which is made if it is not there.
pub(super) fn small_files(parent: &Path, n: usize) -> Result<PathBuf> {
    let tree = parent.join(format!("small-{n}"));
    kept(&tree, |tree| {
        println!("making {n} small files");
        for i in 0..n {
            let folder = tree.join(format!("{:03}/{:03}", i / 100_000, i / 100 % 1_000));
            if i % 100 == 0 {
                fs::create_dir_all(&folder)?;
            }
            let kind = if i % 10 == 0 { "rs" } else { "txt" };
            let path = folder.join(format!("file-{:02}.{kind}", i % 100));
            let needle = if i % 997 == 0 { "a needle in the hay" } else { "hay" };
            let mut file = File::create(path)?;
            writeln!(file, "file {i}\nof the small ones\n{needle}\nand the end")?;
            file.set_modified(changed_at(i))?;
        }
        fs::create_dir_all(tree.join(".git"))?;
        fs::write(tree.join(".git/HEAD"), "ref: refs/heads/main\n")?;
        Ok(())
    })
}

/// Returns a text file of at least this many bytes whose lines are told apart by [`line`].
pub(super) fn lines(parent: &Path, n_bytes: u64) -> Result<PathBuf> {
    let path = parent.join(format!("lines-{n_bytes}.txt"));
    kept(&path, |path| {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        let (mut n, mut written) = (1, 0);
        while written < n_bytes {
            let text = line(n);
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            written += text.len() as u64 + 1;
            n += 1;
        }
        file.flush()?;
        Ok(())
    })
}

/// Returns the nth line of the files of [`lines`], counted from 1: about sixty bytes.
pub(super) fn line(n: u64) -> String {
    format!("{n:010} INFO worker-{:02} took job {:016x} at once", n % 32, n.wrapping_mul(0x9e37))
}

/// Returns a file of this many bytes that is one line.
pub(super) fn long_line(parent: &Path, n_bytes: usize) -> Result<PathBuf> {
    let path = parent.join(format!("one-line-{n_bytes}.txt"));
    kept(&path, |path| {
        let mut text = "all work and no play makes one line long ".repeat(n_bytes / 41 + 1);
        text.truncate(n_bytes);
        Ok(fs::write(path, text)?)
    })
}

/// Makes a path unless it is there: first under another name, so that what is there is whole.
fn kept(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    if !path.exists() {
        let unfinished = path.with_extension("unfinished");
        if unfinished.is_dir() {
            fs::remove_dir_all(&unfinished)?;
        }
        make(&unfinished).with_context(|| path.display().to_string())?;
        fs::rename(&unfinished, path)?;
    }
    Ok(path.to_owned())
}

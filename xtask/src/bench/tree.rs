//! The files that rows work on.
//!
//! The tree is made of real sources: crates in fixed versions, which cargo fetches. It carries
//! ignore rules, a `.git` and times of change that no two files share, so that "newest first" has
//! one right answer. Large files and folders are made on first use and kept. Nothing is ever linked.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

/// The fewest files of the tree.
const N_FILES: usize = 20_000;

/// The crates that the tree is made of, with their versions: together more than [`N_FILES`] files
/// of Rust, C, C++, build files and documents.
const CRATES: &[(&str, &str)] = &[
    ("aws-sdk-ec2", "1.100.0"),
    ("grpcio-sys", "0.13.0"),
    ("libgit2-sys", "0.18.2"),
    ("librocksdb-sys", "6.20.3"),
    ("openssl-src", "400.0.2"),
    ("web-sys", "0.3.107"),
];

/// Changes when the tree is made in another way, so that one made before is made anew.
const EDITION: &str = "2";

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
pub(super) fn obtain(folder: &Path) -> Result<(PathBuf, usize)> {
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
    let n = make(folder, &tree)?;
    fs::write(&stamp, format!("{EDITION} {n}\n"))?;
    Ok((tree, n))
}

fn make(folder: &Path, tree: &Path) -> Result<usize> {
    let sources = fetch(&folder.join("sources"))?;
    fs::create_dir_all(tree.join(".git"))?;
    fs::write(tree.join(".git/HEAD"), "ref: refs/heads/main\n")?;
    fs::write(tree.join(".gitignore"), IGNORED)?;
    let mut n = 0;
    for (name, _) in CRATES {
        let mut files = Vec::new();
        collect(&sources.join(name), Path::new(""), &mut files)?;
        files.sort();
        n = copy(&files, &tree.join(name), n)?;
    }
    if n < N_FILES {
        bail!("the crates of the tree have only {n} files");
    }
    fs::remove_dir_all(folder.join("sources"))?;
    Ok(n)
}

/// Lets cargo fetch the crates, and returns the folder that holds them by name.
fn fetch(package: &Path) -> Result<PathBuf> {
    let dependencies: String = CRATES
        .iter()
        .map(|(name, version)| {
            format!("{name} = {{ version = \"={version}\", default-features = false }}\n")
        })
        .collect();
    let manifest = format!(
        "[package]\nname = \"sources\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n\n\
         [workspace]\n\n[dependencies]\n{dependencies}"
    );
    fs::create_dir_all(package)?;
    fs::write(package.join("lib.rs"), "")?;
    fs::write(package.join("Cargo.toml"), manifest)?;
    let status = crate::cargo_command()
        .args(["vendor", "--quiet", "vendor"])
        .current_dir(package)
        .status()?;
    if !status.success() {
        bail!("`cargo vendor` in {} failed", package.display());
    }
    Ok(package.join("vendor"))
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

/// Copies the files; `n` is how many files the tree has before. Returns how many it has after.
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

/// Makes a path unless it is there: first under another name, so that an existing path is whole.
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

//! Which files a plain command may name: those beneath the roots that may be read.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use sinew_tool::{FileKind, Unclear, name_matches};

use super::Scene;
use super::file_system::FileSystem;

/// Names of files that hold secrets: whoever wants to see one is asked.
pub(super) const SECRETS: &[&str] = &[
    ".env",
    ".env.*",
    ".envrc",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".htpasswd",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.keystore",
    "*.jks",
    "*.kdbx",
];

pub(super) fn is_secret(real: &Path) -> bool {
    let name = real.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|pattern| name_matches(pattern, &name))
}

/// Returns the real path of what a name stands for, seen from a directory. What is not there has the real
/// path that it would have.
fn real(files: &dyn FileSystem, cwd: &Path, name: &str) -> Option<PathBuf> {
    let path = cwd.join(name);
    let mut ancestor = path.as_path();
    loop {
        match files.canonicalize(ancestor) {
            Ok(real) => {
                let rest = path.strip_prefix(ancestor).ok()?;
                return Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // A link to nowhere may lead elsewhere one day, and so may what stands behind `..`.
                let is_link = matches!(files.lstat(ancestor), Ok(Some(_)));
                let is_name =
                    matches!(ancestor.components().next_back(), Some(Component::Normal(_)));
                if is_link || !is_name || ancestor.ends_with("..") {
                    return None;
                }
                ancestor = ancestor.parent()?;
            }
            Err(_) => return None,
        }
    }
}

/// Returns whether a real path is that of a directory.
pub(super) fn is_directory(files: &dyn FileSystem, real: &Path) -> bool {
    matches!(files.stat(real), Ok(Some(FileKind::Directory)))
}

/// Returns whether a real path is that of a file or a directory, or of nothing.
fn is_file(files: &dyn FileSystem, real: &Path) -> bool {
    matches!(files.stat(real), Ok(None | Some(FileKind::File | FileKind::Directory)))
}

/// Refuses a name that does not lie beneath a root or may not be read; returns its real path.
pub(super) fn check(scene: &Scene<'_>, cwd: &Path, name: &str) -> Result<PathBuf, Unclear> {
    let real = real(scene.files, cwd, name).filter(|real| {
        scene.roots.iter().any(|root| real.starts_with(root)) && (scene.may_read)(real)
    });
    match real {
        Some(real) if is_secret(&real) => {
            Err(Unclear::new("shell.secret", format!("`{name}` holds secrets by its name")))
        }
        // What is read there may never end, or be taken from somebody else.
        Some(real) if !is_file(scene.files, &real) => Err(Unclear::new(
            "shell.operand",
            format!("`{name}` is neither a file nor a directory"),
        )),
        Some(real) => Ok(real),
        None => Err(Unclear::new(
            "shell.outside",
            format!("`{name}` does not lie where plain reads may look"),
        )),
    }
}

/// Refuses a directory that a program would walk through past something that rules keep out.
pub(super) fn check_walk(scene: &Scene<'_>, cwd: &Path, name: &str) -> Result<(), Unclear> {
    match real(scene.files, cwd, name) {
        Some(real) if is_directory(scene.files, &real) && !(scene.may_walk)(&real) => {
            Err(Unclear::new(
                "shell.outside",
                format!("`{name}` may hold what a rule keeps out of plain reads"),
            ))
        }
        _ => Ok(()),
    }
}

/// Refuses an operand that does not name a file that may be read.
pub(super) fn check_operand(scene: &Scene<'_>, cwd: &Path, name: &str) -> Result<(), Unclear> {
    match name {
        // Standard input, and what is always empty.
        "-" | "/dev/null" | "/dev/stdin" => Ok(()),
        "" => Err(Unclear::new("shell.outside", "an empty name is no file")),
        _ => check(scene, cwd, name).map(drop),
    }
}

//! Files that a plain command may name: those beneath the roots that may be read.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use sinew_tool::{FileKind, Unclear, name_matches};

use super::Scene;
use super::file_system::FileSystem;

/// Names of files that hold secrets: reading one asks.
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

/// Returns the real path of a name, seen from a directory; also of one that does not exist.
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
                // A dangling symlink may lead elsewhere later, and so may a path after `..`.
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

/// Returns whether a real path is a directory.
pub(super) fn is_directory(files: &dyn FileSystem, real: &Path) -> bool {
    matches!(files.stat(real), Ok(Some(FileKind::Directory)))
}

/// Returns whether a real path is a file, a directory or free.
fn is_file(files: &dyn FileSystem, real: &Path) -> bool {
    matches!(files.stat(real), Ok(None | Some(FileKind::File | FileKind::Directory)))
}

/// Returns the real path of a name; rejects one that is outside the roots or may not be read.
pub(super) fn check(scene: &Scene<'_>, cwd: &Path, name: &str) -> Result<PathBuf, Unclear> {
    let real = real(scene.files, cwd, name).filter(|real| {
        scene.roots.iter().any(|root| real.starts_with(root)) && (scene.may_read)(real)
    });
    match real {
        Some(real) if is_secret(&real) => {
            Err(Unclear::new("shell.secret", format!("`{name}` holds secrets by its name")))
        }
        // A read of a FIFO or device may never end, or take data from another reader.
        Some(real) if !is_file(scene.files, &real) => Err(Unclear::new(
            "shell.operand",
            format!("`{name}` is neither a file nor a directory"),
        )),
        Some(real) => Ok(real),
        None => Err(Unclear::new(
            "shell.outside",
            format!("`{name}` is not where plain reads may look"),
        )),
    }
}

/// Rejects a directory that a program would walk past paths that rules hide.
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

/// Rejects an operand that names no readable file.
pub(super) fn check_operand(scene: &Scene<'_>, cwd: &Path, name: &str) -> Result<(), Unclear> {
    match name {
        // Standard input, and the empty device.
        "-" | "/dev/null" | "/dev/stdin" => Ok(()),
        "" => Err(Unclear::new("shell.outside", "an empty name is no file")),
        _ => check(scene, cwd, name).map(drop),
    }
}

//! Finds which paths a command did not see, by what its output complains of. The supervisor does not intercept reads, so
//! the output is the only evidence.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memchr::memmem;
use sinew_tool::{Refused, line_name};

use super::kept::Kept;
use super::{Commands, quoted, real_or_same};

/// The most paths that are reported for one output.
const MAX_TOLD: usize = 3;
/// The most places of one output at which a path is looked for.
const MAX_LOOKED_AT: usize = 64;
/// Parts of the words for a read that failed, in programs that use the C library's, Rust's, Node's and Go's.
const COMPLAINTS: [&[u8]; 6] =
    [b"ermission denied", b"o such file", b"annot find", b"ot found", b"ENOENT", b"EACCES"];
/// Characters that end a path in a message, unless a file's name has them.
const DELIMITERS: &[u8] = b"'\"`:,;)]}>\t ";

/// Why a command sees no path of a private directory but those that are shown.
const PRIVATE: &str = "commands see only the roots and tools of private directories";
const SECRET: &str = "it holds secrets";

impl Commands {
    /// Returns the hidden and private paths that complaints in an output name.
    pub(super) fn unseen_in(&self, output: &Kept) -> Vec<Refused> {
        let (head, tail) = output.kept();
        let complains =
            |line: &&[u8]| COMPLAINTS.iter().any(|part| memmem::find(line, part).is_some());
        let lines = |text: &[u8]| -> Vec<Vec<u8>> {
            let lines = text.split(|byte| *byte == b'\n').filter(complains);
            lines.map(<[u8]>::to_vec).collect()
        };
        let mut complaints = lines(head);
        complaints.extend(lines(&tail));
        if complaints.is_empty() {
            return Vec::new();
        }
        let hidden = self.hidden_in(&complaints);
        let private = self.private_in(&complaints);
        hidden.into_iter().chain(private).take(MAX_TOLD).collect()
    }

    fn hidden_in(&self, complaints: &[Vec<u8>]) -> Vec<Refused> {
        let n_naming = |path: &PathBuf| {
            let path = path.as_os_str().as_bytes();
            complaints.iter().filter(|line| memmem::find(line, path).is_some()).count()
        };
        let own = &self.settings.sessions;
        let others = self.settings.hidden.iter().filter(|path| !own.starts_with(path));
        let named = others.map(|path| (path, n_naming(path))).filter(|(_, n)| 0 < *n);
        named.map(|(path, n)| refused(path, SECRET, n)).collect()
    }

    /// Returns the private paths that complaints name, if they are there.
    fn private_in(&self, complaints: &[Vec<u8>]) -> Vec<Refused> {
        let mut found = BTreeMap::<PathBuf, usize>::new();
        let mut n_left = MAX_LOOKED_AT;
        for dir in &self.private().dirs {
            let start = [dir.as_os_str().as_bytes(), b"/"].concat();
            for line in complaints {
                for at in memmem::find_iter(line, &start) {
                    if n_left == 0 {
                        break;
                    }
                    n_left -= 1;
                    let rest = line.get(at..).unwrap_or_default();
                    if let Some(path) = self.private_at(rest, start.len()) {
                        *found.entry(path).or_default() += 1;
                    }
                }
            }
        }
        found.into_iter().map(|(path, n)| refused(&path, PRIVATE, n)).collect()
    }

    /// Returns the longest private path that a text begins with and that exists. Its first bytes name a directory.
    fn private_at(&self, text: &[u8], n_dir: usize) -> Option<PathBuf> {
        let is_end = |at: &usize| text.get(*at).is_none_or(|byte| DELIMITERS.contains(byte));
        let ends = (n_dir + 1..=text.len()).rev().filter(is_end);
        ends.filter_map(|end| Some(Path::new(OsStr::from_bytes(text.get(..end)?))))
            .find(|path| self.conceals(path))
            .map(Path::to_owned)
    }

    /// Returns whether a path exists that commands do not see because it is private.
    pub(super) fn conceals(&self, path: &Path) -> bool {
        let real = real_path(path);
        let is_hidden = |real: &Path| {
            self.settings.hidden.iter().any(|hidden| real.starts_with(real_or_same(hidden)))
        };
        real.is_some_and(|real| self.private().conceals(&real, &self.writable) && !is_hidden(&real))
    }
}

#[expect(clippy::disallowed_methods, reason = "the guard may look at the system")]
fn real_path(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

fn refused(path: &Path, why: &str, n: usize) -> Refused {
    Refused {
        deed: "read",
        fails: false,
        what: line_name(path).into_owned(),
        why: why.to_owned(),
        grant: format!("run.show = [{}]", quoted(&path.to_string_lossy())),
        times: u32::try_from(n).unwrap_or(u32::MAX),
    }
}

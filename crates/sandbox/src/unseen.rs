//! Finds which paths a command did not see, by what its output complains of. The supervisor does not intercept reads, so
//! the output is the only evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memchr::memmem;
use sinew_fs::real_path::real;
use sinew_policy::rules::{self, OWN_STATE};
use sinew_tool::{Need, Refused, line_name};

use super::Commands;
use super::kept::Kept;

/// The most paths that are reported for one output.
const MAX_TOLD: usize = 3;
/// The most private paths that are counted for one output.
const MAX_FOUND: usize = 32;
/// The longest path that is read out of an output, in bytes.
const MAX_PATH: usize = 4_096;
/// Parts of the words for a read that failed, in programs that use the C library's, Rust's, Node's and Go's.
const COMPLAINTS: [&[u8]; 6] =
    [b"ermission denied", b"o such file", b"annot find", b"ot found", b"ENOENT", b"EACCES"];
/// Characters that end a path in a message.
const DELIMITERS: &[u8] = b"'\"`:,;()[]{}<>\t\r ";

/// Parts of the words of programs that reach no agent. OpenSSH, and git with GnuPG.
const WITHOUT_SSH_AGENT: [&[u8]; 4] = [
    b"load public key",
    b"get agent socket",
    b"connection to your authentication agent",
    b"Permission denied (publickey",
];
const WITHOUT_GPG_AGENT: [&[u8]; 2] = [b"gpg failed to sign", b"t connect to the gpg-agent"];

/// Why a command sees no path of a private directory but those that are shown.
const PRIVATE: &str = "of private directories commands see only roots and tools";
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
        let is_hidden = |path: &Path| self.settings.hidden.iter().any(|dir| path.starts_with(dir));
        let private = self.private_in(&complaints, &is_hidden);
        hidden.into_iter().chain(private).take(MAX_TOLD).collect()
    }

    /// Returns the agents that a failed command did not reach, by its output. `has_ssh_agent`: whether it was lent.
    pub(super) fn unreached_agents(output: &Kept, has_ssh_agent: bool) -> Vec<Refused> {
        let (head, tail) = output.kept();
        let names = |words: &[&[u8]]| {
            words
                .iter()
                .any(|part| [head, &*tail].iter().any(|text| memmem::find(text, part).is_some()))
        };
        let refused = |what: &str, need| Refused {
            deed: "reach",
            fails: false,
            what: what.to_owned(),
            why: String::from("it signs and logs in as the user"),
            grant: String::from("let the user run the command"),
            need,
            times: 1,
        };
        let mut agents = Vec::new();
        if !has_ssh_agent && names(&WITHOUT_SSH_AGENT) {
            agents.push(refused("the SSH agent", Some(Need::SshAgent)));
        }
        if names(&WITHOUT_GPG_AGENT) {
            agents.push(refused("the GPG agent", None));
        }
        agents
    }

    /// Returns the paths of the settings that hide a path, which must all be shown to open it.
    pub(super) fn hiding(&self, path: &Path) -> impl Iterator<Item = &PathBuf> {
        self.settings.hidden.iter().filter(move |hidden| is_within(path, hidden))
    }

    /// Returns the state directory, which no setting shows, if a path is in it.
    pub(super) fn own_state(&self, path: &Path) -> Option<&PathBuf> {
        let state = self.settings.sessions.parent();
        let mut hidden = self.settings.hidden.iter();
        hidden.find(|hidden| Some(hidden.as_path()) == state && is_within(path, hidden))
    }

    /// Returns why a hidden real path is refused, with the setting that shows it.
    pub fn why_hidden(&self, real: &Path) -> String {
        match self.own_state(real) {
            Some(_) => String::from(OWN_STATE),
            None => rules::holds_secrets(self.hiding(real)),
        }
    }

    fn hidden_in(&self, complaints: &[Vec<u8>]) -> Vec<Refused> {
        let sessions = self.settings.sessions.as_os_str().as_bytes();
        let names = |line: &[u8], path: &[u8]| {
            memmem::find_iter(line, path).any(|at| {
                let rest = line.get(at..).unwrap_or_default();
                let end = rest.get(path.len()).copied().unwrap_or(b' ');
                // The temporary files of commands are there.
                (end == b'/' || DELIMITERS.contains(&end)) && !rest.starts_with(sessions)
            })
        };
        let n_naming = |path: &PathBuf| {
            let path = path.as_os_str().as_bytes();
            complaints.iter().filter(|line| names(line, path)).count()
        };
        let hidden = self.settings.hidden.iter().map(|path| (path, n_naming(path)));
        let named: Vec<(&PathBuf, usize)> = hidden.filter(|(_, n)| 0 < *n).collect();
        // The hint for a path beneath it names it too.
        let is_told_below = |(path, n): &(&PathBuf, usize)| {
            named.iter().any(|(other, m)| m == n && other != path && other.starts_with(path))
        };
        let refused = |&(path, n): &(&PathBuf, usize)| match self.own_state(path) {
            Some(_) => Refused { grant: String::new(), ..refused(path, OWN_STATE, n) },
            None => {
                Refused { grant: rules::showing(self.hiding(path)), ..refused(path, SECRET, n) }
            }
        };
        named.iter().filter(|one| !is_told_below(one)).map(refused).collect()
    }

    /// Returns the private paths that complaints name. Whether they are there is not looked at: that is private too.
    fn private_in(
        &self,
        complaints: &[Vec<u8>],
        is_hidden: &dyn Fn(&Path) -> bool,
    ) -> Vec<Refused> {
        let mut found = BTreeMap::<PathBuf, usize>::new();
        let homes = self.settings.homes.iter();
        let dirs: BTreeSet<&PathBuf> = self.private().dirs.iter().chain(homes).collect();
        for dir in dirs {
            let start = [dir.as_os_str().as_bytes(), b"/"].concat();
            for line in complaints {
                let mut of_line = BTreeSet::new();
                for at in memmem::find_iter(line, &start) {
                    let before = at.checked_sub(1).and_then(|before| line.get(before));
                    if before.is_some_and(|byte| !DELIMITERS.contains(byte) && *byte != b'=') {
                        continue;
                    }
                    let rest = line.get(at..).unwrap_or_default();
                    let rest = rest.get(..MAX_PATH).unwrap_or(rest);
                    let is_end = |byte: &u8| DELIMITERS.contains(byte);
                    let path = rest.split(is_end).next().unwrap_or_default();
                    let path = Path::new(OsStr::from_bytes(path));
                    let is_known = found.contains_key(path) || found.len() < MAX_FOUND;
                    let is_new = is_known && !of_line.contains(path) && !is_hidden(path);
                    if is_new && self.conceals(path) {
                        of_line.insert(path.to_owned());
                        *found.entry(path.to_owned()).or_default() += 1;
                    }
                }
            }
        }
        found.into_iter().map(|(path, n)| refused(&path, PRIVATE, n)).collect()
    }

    /// Returns whether a path is one that commands do not see because it is private. The settings should not show it if it
    /// leads to a root.
    fn conceals(&self, path: &Path) -> bool {
        let leads_to_root = self.writable.iter().any(|root| root.starts_with(path));
        let is_home = self.settings.homes.iter().any(|home| home.starts_with(path));
        !leads_to_root && !is_home && self.private().conceals(path, &self.writable)
    }
}

/// Returns whether a path is or is beneath a hidden one, as the settings write that or by its real path.
fn is_within(path: &Path, hidden: &Path) -> bool {
    path.starts_with(hidden) || path.starts_with(real(hidden))
}

fn refused(path: &Path, why: &str, n: usize) -> Refused {
    Refused {
        deed: "read",
        fails: false,
        what: line_name(path).into_owned(),
        why: why.to_owned(),
        grant: rules::showing([&path.to_owned()]),
        need: Some(Need::Read(path.to_owned())),
        times: u32::try_from(n).unwrap_or(u32::MAX),
    }
}

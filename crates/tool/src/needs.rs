//! What a command needs beyond its sandbox: a call names it, and a person answers for that command alone.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that a command needs beyond its sandbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// The network, as a whole: `network`.
    Network,
    /// The SSH agent of the user: `ssh-agent`.
    SshAgent,
    /// A file or directory to read, by absolute path: `read:/PATH`.
    Read(PathBuf),
    /// A file or directory to change, by absolute path: `write:/PATH`.
    Write(PathBuf),
    /// No sandbox: `unsandboxed`.
    Unsandboxed,
}

impl Need {
    /// The forms of an entry, for messages.
    pub const FORMS: &'static str =
        "`network`, `ssh-agent`, `read:/PATH`, `write:/PATH` or `unsandboxed`";

    /// Parses an entry; the error says what is wrong with it.
    pub fn parse(entry: &str) -> Result<Self, String> {
        let path = |path: &str| match Path::new(path) {
            _ if path.contains('\0') => Err(format!("`{}` holds a NUL byte", entry.escape_debug())),
            path if path.is_absolute() => Ok(path.to_owned()),
            _ => Err(format!("`{entry}` must name an absolute path, such as `read:/srv/data`")),
        };
        match entry.split_once(':') {
            None if entry == "network" => Ok(Self::Network),
            None if entry == "ssh-agent" => Ok(Self::SshAgent),
            None if entry == "unsandboxed" => Ok(Self::Unsandboxed),
            Some(("read", rest)) => path(rest).map(Self::Read),
            Some(("write", rest)) => path(rest).map(Self::Write),
            Some(("host", _)) => {
                Err(format!("`{entry}`: hosts cannot be named yet; `network` asks for all of them"))
            }
            _ => Err(format!("`{entry}` is not {}", Self::FORMS)),
        }
    }

    /// Returns whether who has this may have another one too.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Read(has) | Self::Write(has), Self::Read(wanted))
            | (Self::Write(has), Self::Write(wanted)) => wanted.starts_with(has),
            // An answer covers the text of one command, no rule any.
            (Self::Unsandboxed, _) => false,
            _ => self == other,
        }
    }

    /// Returns its path, and whether it is to be changed.
    pub fn path(&self) -> Option<(&Path, bool)> {
        match self {
            Self::Read(path) => Some((path, false)),
            Self::Write(path) => Some((path, true)),
            Self::Network | Self::SshAgent | Self::Unsandboxed => None,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network => f.write_str("network"),
            Self::SshAgent => f.write_str("ssh-agent"),
            Self::Read(path) => write!(f, "read:{}", path.display()),
            Self::Write(path) => write!(f, "write:{}", path.display()),
            Self::Unsandboxed => f.write_str("unsandboxed"),
        }
    }
}

/// What a call says that its command needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// The entries, paths as written.
    pub list: Vec<Need>,
    /// What for, in the words of the model; not empty if there are entries.
    pub why: String,
}

/// A path outside the roots that a command gets to see or to change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExtraPath {
    /// The real path.
    pub path: PathBuf,
    /// Whether the command may change it, and all beneath it.
    pub is_writable: bool,
    /// The device and inode that it had when the call was judged.
    pub identity: (u64, u64),
}

/// What a command gets beyond its sandbox, once an answer or a rule allows it: what it needs without what every command has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct ExtraAccess {
    /// Whether it reaches the network.
    pub network: bool,
    /// Whether it reaches the SSH agent of the user.
    pub ssh_agent: bool,
    /// Whether it runs without a sandbox.
    pub unsandboxed: bool,
    /// Paths outside the roots.
    pub paths: Vec<ExtraPath>,
}

impl ExtraAccess {
    /// Returns whether the command gets nothing beyond its sandbox.
    pub fn is_empty(&self) -> bool {
        !self.network && !self.ssh_agent && !self.unsandboxed && self.paths.is_empty()
    }

    /// Returns its entries, with real paths.
    pub fn needs(&self) -> Vec<Need> {
        let path = |extra: &ExtraPath| match extra.is_writable {
            true => Need::Write(extra.path.clone()),
            false => Need::Read(extra.path.clone()),
        };
        let named = [
            (self.network, Need::Network),
            (self.ssh_agent, Need::SshAgent),
            (self.unsandboxed, Need::Unsandboxed),
        ];
        let named = named.into_iter().filter(|(has, _)| *has).map(|(_, need)| need);
        named.chain(self.paths.iter().map(path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_and_shown_alike() {
        for entry in ["network", "ssh-agent", "unsandboxed", "read:/srv/a:b", "write:/"] {
            assert_eq!(Need::parse(entry).map(|need| need.to_string()).as_deref(), Ok(entry));
        }
    }

    #[test]
    fn other_entries_say_what_is_wrong() {
        for (entry, part) in [
            ("", "is not `network`"),
            ("Network", "is not `network`"),
            ("network:x", "is not `network`"),
            ("read", "is not `network`"),
            ("read:", "absolute path"),
            ("read:src", "absolute path"),
            ("write:~/x", "absolute path"),
            ("read:/a\0b", "NUL byte"),
            ("host:example.com", "hosts cannot be named yet"),
            ("unsandboxed ", "is not `network`"),
        ] {
            let error = Need::parse(entry).expect_err(entry);
            assert!(error.contains(part), "{entry:?}: {error}");
        }
    }

    #[test]
    fn one_need_covers_another() {
        for (has, other, expected) in [
            ("network", "network", true),
            ("network", "ssh-agent", false),
            ("read:/a", "read:/a/b", true),
            ("read:/a", "read:/ab", false),
            ("read:/a", "write:/a", false),
            ("write:/a", "read:/a/b", true),
            ("write:/a/b", "write:/a", false),
            ("unsandboxed", "unsandboxed", false),
            ("unsandboxed", "network", false),
        ] {
            let [one, two] = [has, other].map(|entry| Need::parse(entry).expect(entry));
            assert_eq!(one.covers(&two), expected, "{has} {other}");
        }
    }
}

//! What the sandbox refused a command, in words for the reply, with what would have allowed it.

use std::path::{Path, PathBuf};

use sinew_policy::command_rules::HIDDEN;
use sinew_policy::rules::{OWN_STATE, showing};
use sinew_tool::{MidwayAnswer, Need, Refused, line_name};

use super::usage::Exhausted;
use super::{Commands, asking, quoted, wire};

/// What allows a change that an approver was asked about.
const AGAIN: &str = "another answer, when the call is repeated";
/// What allows one where none was asked.
const APPROVER: &str = "an approver, who is asked while a command waits that is no background command (`sinew approve` in a terminal)";

/// Returns a refusal in words.
pub(super) fn told(
    (refused, times): (wire::Refused, u32),
    home: Option<&Path>,
    commands: &Commands,
) -> Refused {
    let base = Refused {
        times,
        deed: "change",
        what: refused.path().map(|path| line_name(path).into_owned()).unwrap_or_default(),
        why: String::new(),
        grant: String::new(),
        need: need_of(&refused),
        fails: false,
    };
    if let Some(state) = own_state(&refused, commands) {
        let what = line_name(state).into_owned();
        return Refused { deed: "open", what, why: String::from(OWN_STATE), ..base };
    }
    match refused {
        wire::Refused::Protected { name, .. } => Refused {
            grant: format!("run.unprotected = [{}]", quoted(&name)),
            why: format!("`{name}` is a protected name"),
            fails: true,
            ..base
        },
        wire::Refused::Content { name, why, .. } => Refused {
            grant: format!("run.unprotected = [{}]", quoted(&name)),
            why,
            fails: true,
            ..base
        },
        wire::Refused::Denied { path, why } => Refused {
            deed: "open",
            grant: match &*why {
                HIDDEN => showing(commands.hiding(&path)),
                _ => String::from("tools.fs.deny_paths and tools.fs.allow_paths without it"),
            },
            why,
            ..base
        },
        wire::Refused::Outside { path, answer } => Refused {
            grant: root_for(&path, home),
            why: answered("it is outside the roots", answer.as_ref()),
            ..base
        },
        wire::Refused::Changed { .. } => Refused {
            why: String::from("it changed while the command waited for the answer"),
            grant: String::from(AGAIN),
            fails: true,
            ..base
        },
        wire::Refused::Socket { .. } => Refused {
            deed: "reach",
            why: String::from("a program outside the sandbox listens there"),
            grant: String::from(
                "start that program in this session, by a command in the background",
            ),
            ..base
        },
        wire::Refused::Datagrams => Refused {
            deed: "make",
            what: String::from("a Unix datagram socket"),
            why: String::from("it could send to programs outside the sandbox"),
            grant: String::from("a stream socket, or run.sandbox = \"none\""),
            ..base
        },
        wire::Refused::NotKept { reason, answer, .. } => {
            let why = asking::why(reason);
            let (why, grant) = match answer {
                Some(answer @ (MidwayAnswer::No(_) | MidwayAnswer::TimedOut)) => {
                    (answered(why, Some(&answer)), AGAIN)
                }
                _ => (format!("it ran unasked, and {why}"), APPROVER),
            };
            Refused { why, grant: String::from(grant), fails: true, ..base }
        }
        wire::Refused::Network { address } => Refused {
            deed: "reach",
            what: address,
            why: String::from("the network is closed"),
            grant: String::from("run.network = true"),
            ..base
        },
    }
}

/// Returns why a change was refused, with what an approver answered.
fn answered(why: &str, answer: Option<&MidwayAnswer>) -> String {
    match answer {
        Some(MidwayAnswer::No(Some(words))) => format!("{why}, and the answer was no: {words}"),
        Some(MidwayAnswer::No(None)) => format!("{why}, and the answer was no"),
        Some(MidwayAnswer::TimedOut) => format!("{why}, and no approver answered in time"),
        Some(MidwayAnswer::Yes | MidwayAnswer::Unanswered) | None => String::from(why),
    }
}

/// Returns the state directory, if that is why a path was refused.
fn own_state<'c>(refused: &wire::Refused, commands: &'c Commands) -> Option<&'c PathBuf> {
    match refused {
        wire::Refused::Denied { path, .. } | wire::Refused::Outside { path, .. } => {
            commands.own_state(path)
        }
        _ => None,
    }
}

/// Returns what a command used too much of, in words.
pub(super) fn exhausted(exhausted: &Exhausted) -> String {
    match exhausted {
        Exhausted::Memory(held, at_most) => format!(
            "the command was ended: its processes held {} of memory, and {} is the most for a command \
             (run.max_command_memory_mib)",
            size(*held),
            size(*at_most)
        ),
        Exhausted::Disk(dir, left, floor) => {
            format!("the command was ended: {}", full((dir, *left, *floor)))
        }
        Exhausted::DiskAfter(dir, left, floor) => full((dir, *left, *floor)),
    }
}

fn full((dir, left, floor): (&Path, u64, u64)) -> String {
    let (dir, left, floor) = (line_name(dir), size(left), size(floor));
    format!("{left} are free on the disk of {dir}, less than {floor} (run.min_free_disk_mib)")
}

/// Returns a number of bytes in MiB, or in GiB where it is large.
fn size(bytes: u64) -> String {
    let mib = bytes >> 20;
    if mib < 10 << 10 { format!("{mib} MiB") } else { format!("{} GiB", mib >> 10) }
}

/// Returns the root that would hold a path.
fn root_for(path: &Path, home: Option<&Path>) -> String {
    match path.parent() {
        Some(dir) if dir != "/" && Some(dir) != home => format!("--root {}", line_name(dir)),
        _ => String::from("a root with a directory of its own for it"),
    }
}

/// Returns what the call of a command can need, so that it would not be refused.
fn need_of(refused: &wire::Refused) -> Option<Need> {
    match refused {
        // A file may be missing; its directory may not.
        wire::Refused::Outside { path, .. } => path.parent().map(|dir| Need::Write(dir.to_owned())),
        wire::Refused::Socket { .. } | wire::Refused::Datagrams => Some(Need::Unsandboxed),
        wire::Refused::Network { .. } => Some(Need::Network),
        wire::Refused::Protected { .. }
        | wire::Refused::Content { .. }
        | wire::Refused::Denied { .. }
        | wire::Refused::Changed { .. }
        | wire::Refused::NotKept { .. } => None,
    }
}

//! Paths outside the roots: which a call may name, so that a ruling asks for them, and which never.

use std::path::Path;

use sinew_fs::resolve::{self, Place};
use sinew_fs::roots::Roots;
use sinew_policy::rules;
use sinew_tool::{Access, Claim, FileError, OutsidePaths, Position, Targets, ToolError};

use crate::contain::{InTheWay, MayLeave};
use crate::guard::Guard;

/// Directories whose files stand for the kernel, devices or running services.
const NO_FILES: &[&str] = &["/proc", "/sys", "/dev", "/run", "/var/run"];

const CONTAINS_SECRETS: &str = "it lies outside the roots and contains a path that holds secrets by its name; name a directory in it";

/// How a path outside the roots is opened where no approver is connected.
const OPENS: &str = "an MCP client that supports elicitation asks its user, `sinew approve` in a terminal asks for every client; a \
     rule of the user allows it that names it (`verdict = \"allow\"`, `paths = [\"/DIR/**\"]`), and `--root DIR` adds a root";
/// How it is opened where `--approvals` asks no person.
const OPENS_UNASKED: &str = "`--approvals` asks no person here; a rule of the user allows it that names it (`verdict = \"allow\"`, \
     `paths = [\"/DIR/**\"]`), and `--root DIR` adds a root";

/// Returns whether every user may read a path, if it is one of `/etc`: root may read what is kept from others there. As root,
/// a search of a directory asks, since it finds such files.
#[expect(clippy::disallowed_methods, reason = "the guard may look at the system")]
fn is_readable_by_all(real: &Path, access: Access) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    if !real.starts_with("/etc") || !rustix::process::geteuid().is_root() {
        return true;
    }
    let has = |path: &Path, bits: u32| {
        std::fs::symlink_metadata(path).is_ok_and(|meta| meta.mode() & bits == bits)
    };
    let dirs = real.ancestors().skip(1).take_while(|dir| dir.starts_with("/etc"));
    let is_reached = dirs.into_iter().all(|dir| has(dir, 0o001));
    match std::fs::symlink_metadata(real) {
        Ok(meta) if meta.is_dir() => access != Access::Search && is_reached && has(real, 0o005),
        Ok(_) => is_reached && has(real, 0o004),
        Err(_) => true,
    }
}

impl Guard {
    /// Returns which claims of a call may be outside the roots: none where the settings deny it, or where the call is
    /// limited to a part of the roots.
    pub(crate) fn may_leave(&self, wanted: MayLeave, is_narrowed: bool) -> MayLeave {
        let is_open = self.files.outside == OutsidePaths::Ask && !is_narrowed;
        // Their settings name what holds secrets.
        match is_open && self.shared.commands.is_some() {
            true => wanted,
            false => MayLeave::None,
        }
    }

    /// Resolves a claim outside the roots, which was refused as such. Another refusal says why no answer may allow it.
    pub(crate) fn outside(
        &self,
        cwd: &Path,
        claim: &Claim,
        in_the_way: InTheWay<'_>,
        refused: FileError,
    ) -> Result<(Place, Position), FileError> {
        let (Some(written), Ok(system)) = (&claim.path, Roots::system()) else {
            return Err(refused);
        };
        let path = resolve::joined(cwd, Path::new(written));
        let links = claim.access.links();
        let place = match in_the_way {
            InTheWay::Cleared(cleared) if resolve::is_past(&path, cleared) => {
                resolve::past(&system, &path, links, cleared)
            }
            _ => resolve::resolve(&system, &path, links),
        };
        // What is wrong with a path says something of what is there.
        let Ok(place) = place else { return Err(refused) };
        match self.position_outside(&place.real, claim.access) {
            Ok(position) => Ok((place, position)),
            Err(Some(why)) => Err(FileError::Denied(why)),
            Err(None) => Err(refused),
        }
    }

    /// Returns the position of a real path outside the roots; if no answer may allow it, perhaps why.
    pub(crate) fn position_outside(
        &self,
        real: &Path,
        access: Access,
    ) -> Result<Position, Option<String>> {
        let commands = self.shared.commands.as_ref().ok_or(None)?;
        let is_no_file = NO_FILES.iter().any(|dir| real.starts_with(dir));
        let is_inside = self.shared.roots.holding(real).is_some();
        // A change or a search of a directory reaches what it holds.
        let reaches_root = self.shared.roots.leads_to(real);
        if is_no_file || is_inside || reaches_root {
            return Err(None);
        }
        match commands.hidden_at(real) {
            Some(true) => return Err(Some(commands.why_hidden(real))),
            Some(false) => return Err(Some(String::from(CONTAINS_SECRETS))),
            None => {}
        }
        let is_read =
            !access.changes() && commands.is_free_to_read(real) && is_readable_by_all(real, access);
        Ok(if is_read { Position::Programs } else { Position::Outside })
    }

    /// Returns whether a restore may name a real path outside the roots.
    pub(crate) fn may_name_outside(&self, real: &Path, is_narrowed: bool) -> bool {
        self.may_leave(MayLeave::All, is_narrowed) == MayLeave::All
            && self.position_outside(real, Access::Inspect).is_ok()
            && rules::check_own(real, Access::Inspect).is_ok()
            && self.rules.check(real).is_ok()
    }

    /// Returns the error for the first path outside the roots that asks, where no approver can answer. `asks`: whether one
    /// could be asked.
    pub(crate) fn outside_denied(&self, targets: &Targets, asks: bool) -> Option<ToolError> {
        let outside = targets.files.iter().find(|file| file.position == Position::Outside)?;
        let shown = outside.claim.path.clone().unwrap_or_default();
        let denied =
            resolve::outside_with(&self.shared.roots, if asks { OPENS } else { OPENS_UNASKED });
        Some(outside.claim.about(FileError::about(denied, &shown)))
    }
}

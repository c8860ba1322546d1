//! From a contained call to a World: the only door.
//!
//! [`Contained`] knows what a call names and holds the handles, and lets nobody use them. With a
//! [`Clearance`] it becomes a [`World`] of exactly those targets. For a preview it becomes a World
//! that can only look.

use std::ffi::{CString, OsStr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use sinew_tool::{Access, FileState, FileTarget, Kind, Targets, ToolError, World};

use crate::clock::SystemClock;
use crate::files::{Armed, GuardedFiles};
use crate::guard::Guard;
use crate::judge::Clearance;
use crate::resolve::Place;

/// A call whose paths are resolved to open handles that nobody can use yet.
#[derive(Debug)]
pub struct Contained {
    guard: Arc<Guard>,
    cwd: Arc<Path>,
    targets: Arc<Targets>,
    places: Arc<[Place]>,
}

/// A call that may run.
#[derive(Debug)]
pub struct Cleared {
    /// The only way out, narrowed to the targets of the call.
    pub world: World,
    /// The temporary files that the call may leave behind if the process dies in it.
    pub temporaries: Vec<PathBuf>,
}

impl Contained {
    pub(crate) fn new(
        guard: Arc<Guard>,
        cwd: Arc<Path>,
        targets: Targets,
        places: Vec<Place>,
    ) -> Self {
        Self { guard, cwd, targets: Arc::new(targets), places: places.into() }
    }

    /// Returns what the call really names.
    pub fn targets(&self) -> &Arc<Targets> {
        &self.targets
    }

    /// Returns the real directory that relative paths start at.
    pub fn cwd(&self) -> &Arc<Path> {
        &self.cwd
    }
}

impl Guard {
    /// Returns a World on the targets of a call that can look and change nothing, for previews.
    pub fn looking(self: &Arc<Self>, contained: &Contained) -> World {
        self.world(contained, contained.places.iter().map(|_| None).collect())
    }

    /// Returns the World that a cleared call runs with.
    pub fn clear(
        self: &Arc<Self>,
        contained: Contained,
        clearance: Clearance,
    ) -> Result<Cleared, ToolError> {
        if !Arc::ptr_eq(self, &contained.guard) {
            return Err(ToolError::new(
                Kind::ExecutionFailed,
                "the call was contained by another guard",
            ));
        }
        let mut armed = Vec::with_capacity(contained.places.len());
        let mut temporaries = Vec::new();
        for target in &contained.targets.files {
            let arm = arm(target, &clearance)?;
            if let (Some(arm), Some(parent)) = (&arm, target.path.parent()) {
                temporaries.push(parent.join(file_name(&arm.temporary)));
            }
            armed.push(arm);
        }
        Ok(Cleared { world: self.world(&contained, armed), temporaries })
    }

    fn world(self: &Arc<Self>, contained: &Contained, armed: Vec<Option<Armed>>) -> World {
        let files = GuardedFiles::new(
            Arc::clone(self),
            Arc::clone(&contained.targets),
            Arc::clone(&contained.places),
            armed,
        );
        World { files: Arc::new(files), clock: Arc::new(SystemClock) }
    }
}

/// Returns what a target needs to be changed, where it may be.
fn arm(target: &FileTarget, clearance: &Clearance) -> Result<Option<Armed>, ToolError> {
    if !matches!(target.claim.access, Access::Write { .. } | Access::Edit { .. }) {
        return Ok(None);
    }
    let before = match &target.state {
        FileState::Missing => None,
        FileState::Found(meta) => Some(meta.identity),
    };
    let temporary = temporary_name().map_err(|errno| {
        ToolError::new(Kind::Unavailable, "the system gives no random numbers").source(errno)
    })?;
    Ok(Some(Armed::new(temporary, clearance.bound.then_some(before))))
}

fn file_name(name: &CString) -> &OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name.as_bytes())
}

/// Returns a name that nobody can guess, for a temporary file.
pub(crate) fn temporary_name() -> Result<CString, Errno> {
    let mut random = [0_u8; 12];
    getrandom::fill(&mut random).map_err(|_| Errno::IO)?;
    let mut name = String::from(TEMPORARY_PREFIX);
    for byte in random {
        name.push_str(&format!("{byte:02x}"));
    }
    name.push_str(TEMPORARY_SUFFIX);
    CString::new(name).map_err(|_| Errno::INVAL)
}

const TEMPORARY_PREFIX: &str = ".sinew-";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// Returns whether a name is one that [`temporary_name`] makes.
pub(crate) fn is_temporary(name: &[u8]) -> bool {
    name.strip_prefix(TEMPORARY_PREFIX.as_bytes())
        .and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX.as_bytes()))
        .is_some_and(|hex| {
            16 <= hex.len() && hex.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
}

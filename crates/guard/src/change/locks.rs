//! Locks names while they change in this process, also on file systems without locks.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, MutexGuard};

use rustix::fs::fstat;
use sinew_tool::FileError;
use sinew_tool::sync::lock;

use sinew_fs::dir_lock;
use sinew_fs::roots::Dir;
use sinew_fs::stat::{error_of, identity_of};

/// Directories and names that are being changed.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashSet<Changing>>);

/// The device and inode of a directory, and a name in it.
type Changing = (u64, u64, CString);

impl Locks {
    /// Locks a name; retries a few times without sleeping if it is taken.
    pub(crate) fn lock(&self, dir: &Dir, name: &CStr) -> Result<Held<'_>, FileError> {
        let identity = fstat(&**dir).map(|stat| identity_of(&stat)).map_err(error_of)?;
        let key = (identity.device, identity.inode, name.to_owned());
        dir_lock::ask_at_once(|| Ok(self.changing().insert(key.clone())))?;
        Ok(Held { locks: self, key })
    }

    fn changing(&self) -> MutexGuard<'_, HashSet<Changing>> {
        lock(&self.0)
    }
}

/// A name locked in this process until this is dropped.
pub(crate) struct Held<'a> {
    locks: &'a Locks,
    key: Changing,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.locks.changing().remove(&self.key);
    }
}

//! Copies extended attributes and POSIX ACLs from a replaced file to the new one.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use sinew_tool::FileError;

use crate::stat::error_of;

const ACCESS_LIST: &CStr = c"system.posix_acl_access";
/// The largest list of names or single value, as in the kernel.
const MAX_BYTES: usize = 64 * 1024;

/// Copies the attributes of the old file. Fails if one cannot be copied, unless the system assigns it.
pub fn copy(old: impl AsFd, new: impl AsFd) -> Result<(), FileError> {
    let names = match names(&old) {
        Ok(names) => names,
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(()),
        Err(errno) => return Err(error_of(errno)),
    };
    if !names.iter().any(|name| name.as_c_str() == ACCESS_LIST) {
        // The new file may have inherited an ACL from its directory.
        let _ = fremovexattr(&new, ACCESS_LIST);
    }
    let mut value = Vec::new();
    for name in names {
        let fate = fate(&name);
        if fate == Fate::Dropped {
            continue;
        }
        let copied = read(&old, &name, &mut value)
            .and_then(|()| fsetxattr(&new, &name, &value, XattrFlags::empty()));
        match copied {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(_) if fate == Fate::Assigned => {}
            Err(errno) => {
                return Err(FileError::Io(std::io::Error::other(format!(
                    "the extended attribute {} cannot be kept: {errno}",
                    name.to_string_lossy()
                ))));
            }
        }
    }
    Ok(())
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Fate {
    /// Copied, or the change is refused.
    Kept,
    /// Copied if the system permits: otherwise it assigns a value itself.
    Assigned,
    /// Not copied, because a write drops it.
    Dropped,
}

fn fate(name: &CStr) -> Fate {
    match name.to_bytes() {
        b"security.capability" => Fate::Dropped,
        bytes if bytes.starts_with(b"security.") => Fate::Assigned,
        _ => Fate::Kept,
    }
}

fn names(file: impl AsFd) -> Result<Vec<CString>, Errno> {
    let mut list = Vec::new();
    for capacity in [256, MAX_BYTES] {
        list.clear();
        list.reserve(capacity);
        match flistxattr(&file, rustix::buffer::spare_capacity(&mut list)) {
            Err(Errno::RANGE) if capacity < MAX_BYTES => {}
            other => {
                other?;
                break;
            }
        }
    }
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| CString::new(name).ok()).collect())
}

fn read(file: impl AsFd, name: &CStr, value: &mut Vec<u8>) -> Result<(), Errno> {
    for capacity in [256, MAX_BYTES] {
        value.clear();
        value.reserve(capacity);
        match fgetxattr(&file, name, rustix::buffer::spare_capacity(value)) {
            Err(Errno::RANGE) if capacity < MAX_BYTES => {}
            other => return other.map(|_| ()),
        }
    }
    Ok(())
}

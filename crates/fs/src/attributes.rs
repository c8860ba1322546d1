//! Extended attributes and access lists that a replaced file hands on.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use sinew_tool::FileError;

use crate::stat::error_of;

/// The access list of a file beyond its mode.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";
/// The most bytes that names or one value may take, as in the kernel.
const MAX_BYTES: usize = 64 * 1024;

/// Gives the new file the attributes of the old one. What cannot be kept is refused, except what
/// the system itself assigns.
pub fn copy(old: impl AsFd, new: impl AsFd) -> Result<(), FileError> {
    let names = match names(&old) {
        Ok(names) => names,
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(()),
        Err(errno) => return Err(error_of(errno)),
    };
    if !names.iter().any(|name| name.as_c_str() == ACCESS_LIST) {
        // The directory may have handed down an access list that the old file did not have.
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
    /// Copied where the system lets us: it gives new files a fitting value by itself.
    Assigned,
    /// Not copied, as a write drops it.
    Dropped,
}

fn fate(name: &CStr) -> Fate {
    match name.to_bytes() {
        b"security.capability" => Fate::Dropped,
        bytes if bytes.starts_with(b"security.") => Fate::Assigned,
        _ => Fate::Kept,
    }
}

/// Returns the names of the attributes of a file.
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

/// Reads the value of an attribute.
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

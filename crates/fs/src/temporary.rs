//! Random names of temporary files, which their prefix and suffix mark as sinew's.

use std::ffi::CString;

use rustix::io::Errno;

/// Returns an unpredictable name for a temporary file.
pub fn temporary_name() -> Result<CString, Errno> {
    let mut random = [0_u8; 12];
    getrandom::fill(&mut random).map_err(|_| Errno::IO)?;
    let mut name = String::from(TEMPORARY_PREFIX);
    for byte in random {
        name.push_str(&format!("{byte:02x}"));
    }
    name.push_str(TEMPORARY_SUFFIX);
    CString::new(name).map_err(|_| Errno::INVAL)
}

pub(crate) const TEMPORARY_PREFIX: &str = ".sinew-";
pub(crate) const TEMPORARY_SUFFIX: &str = ".tmp";

/// Returns whether a name has the form that [`temporary_name`] makes.
pub fn is_temporary(name: &[u8]) -> bool {
    name.strip_prefix(TEMPORARY_PREFIX.as_bytes())
        .and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX.as_bytes()))
        .is_some_and(|hex| {
            16 <= hex.len() && hex.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
}

//! What becomes of memory that was given back.
//!
//! Contents and requests of a megabyte or two come again and again. The C library asks the kernel for
//! each anew and gives it back, and the kernel clears each page of it: a fifth of the time of a patch in
//! such a file. Here a process keeps what it needed last, up to a bound.

#![expect(unsafe_code, reason = "the C library has no safe face for its settings")]

/// Blocks up to this size are taken from what the process keeps, in bytes.
#[cfg(target_env = "gnu")]
const KEPT_BLOCK: libc::c_int = 4 << 20;

/// How much of what is free at the end of its heap a process keeps, in bytes.
#[cfg(target_env = "gnu")]
const KEPT: libc::c_int = 16 << 20;

/// Lets this process keep up to 16 MiB of memory that it needs no more, for what comes next.
///
/// For programs that serve calls; a library does not do so by itself.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: `mallopt` may be called at any time, and these values are within its bounds. One that
        // it refuses leaves things as they are.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_BLOCK);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        }
    }
}

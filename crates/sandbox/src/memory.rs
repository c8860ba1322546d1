//! Keeps freed memory in the process for reuse. Contents and requests of a megabyte or two recur: the C
//! library would get each from the kernel anew, which clears its pages. That takes a fifth of the time of a
//! patch in such a file.

#![expect(unsafe_code, reason = "the C library has no safe face for its settings")]

/// Blocks up to this size are allocated from kept memory, in bytes.
#[cfg(target_env = "gnu")]
const KEPT_BLOCK: libc::c_int = 4 << 20;

/// The most free memory that a process keeps at the end of its heap, in bytes.
#[cfg(target_env = "gnu")]
const KEPT: libc::c_int = 16 << 20;

/// Lets this process keep up to 16 MiB of freed memory for reuse.
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

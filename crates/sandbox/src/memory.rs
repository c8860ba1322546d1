//! What a server keeps in memory: freed blocks for reuse, and no code that only its start used. The entry point of the
//! dist binary populates its writable pages.
//!
//! Contents and requests of a megabyte or two recur. The C library would get each from the kernel anew, which
//! clears its pages: a fifth of the time of a patch in such a file.

#![expect(
    unsafe_code,
    reason = "the C library has no safe functions for its settings and its mappings, and begins too late"
)]

// Entry point of the dist binary, before that of the C library: populates the pages of RELRO, `.data` and `.bss` in one
// `madvise(start, length, MADV_POPULATE_WRITE)`, so that the relocation takes no copy-on-write page fault for each.
// Nearly all of them are written at start anyway. Kernels before 5.14 refuse the call, which changes nothing. `rdx`
// holds what the C library runs at exit.
#[cfg(sinew_start)]
std::arch::global_asm!(
    ".pushsection .text.sinew_start,\"ax\",@progbits",
    ".globl sinew_start",
    ".hidden __init_array_start",
    ".hidden _end",
    "sinew_start:",
    "mov r8, rdx",
    "lea rdi, [rip + __init_array_start]",
    "lea rsi, [rip + _end + 4095]",
    "and rdi, -4096",
    "and rsi, -4096",
    "sub rsi, rdi",
    "mov edx, {populate}",
    "mov eax, {madvise}",
    "syscall",
    "mov rdx, r8",
    "jmp _start",
    ".popsection",
    populate = const libc::MADV_POPULATE_WRITE,
    madvise = const libc::SYS_madvise,
);

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

/// How much of the stack beneath a caller is discarded, in bytes. The kernel keeps a mebibyte free beneath the stack of
/// the main thread, so this is never more than that stack's own.
const DISCARDED_STACK: usize = 256 << 10;
/// How much of the stack beneath a caller is kept, for the frames of what discards the rest, in bytes.
const KEPT_STACK: usize = 16 << 10;

/// The deepest a caller may be on the main thread's stack, in bytes.
const MAX_DEPTH: usize = 1 << 20;

/// Gives back the pages of the main thread's stack that deeper calls used before; on other threads it does nothing.
///
/// For a server that has started: start-up reaches much deeper than calls do.
#[inline(never)]
pub fn discard_used_stack() {
    if rustix::thread::gettid() != rustix::process::getpid() {
        return;
    }
    let page = rustix::param::page_size();
    let marker = 0_u8;
    let here = std::ptr::from_ref(&marker).expose_provenance();
    // The kernel puts these bytes above the frames of the main thread. A stack that the program made itself is elsewhere.
    // SAFETY: the function reads what the kernel gave the process.
    let top = unsafe { libc::getauxval(libc::AT_RANDOM) };
    let depth = usize::try_from(top).unwrap_or_default().checked_sub(here);
    if depth.is_none_or(|depth| MAX_DEPTH < depth) {
        return;
    }
    let end = here.saturating_sub(KEPT_STACK) / page * page;
    // SAFETY: the pages beneath the frames of this thread hold nothing; the kernel gives empty pages once they are
    // used again. A part that is not mapped is passed over.
    unsafe {
        let first_page = std::ptr::with_exposed_provenance_mut(end - DISCARDED_STACK);
        libc::madvise(first_page, DISCARDED_STACK, libc::MADV_DONTNEED);
    }
}

/// Unmaps the pages of this program's own code and constants that were used so far. The kernel maps those that
/// are used again, from its cache of the file.
///
/// For a server that has started: start-up uses most of its code once, and those pages would count as its
/// memory for as long as it waits for calls. It costs some dozen page faults.
pub fn unmap_start_up_code() {
    unsafe extern "C" fn unmap(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        _data: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the C library gives the description of an object that is loaded, with its headers.
        let (base, headers) = unsafe {
            let info = &*info;
            let n = usize::from(info.dlpi_phnum);
            (info.dlpi_addr, std::slice::from_raw_parts(info.dlpi_phdr, n))
        };
        let page = rustix::param::page_size();
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            // What may be written holds changes that the file does not.
            if header.p_flags & libc::PF_W != 0 {
                continue;
            }
            let start = usize::try_from(base + header.p_vaddr).unwrap_or(usize::MAX);
            let end = start.saturating_add(usize::try_from(header.p_memsz).unwrap_or(0));
            let first = start.checked_next_multiple_of(page).unwrap_or(end);
            // SAFETY: these pages are mapped from a file and cannot be written, so the kernel finds the same
            // bytes again. A failure leaves things as they are.
            unsafe {
                let first_page = std::ptr::with_exposed_provenance_mut(first);
                libc::madvise(first_page, end.saturating_sub(first), libc::MADV_DONTNEED);
            }
        }
        // The first object is the program itself; others are shared with other programs.
        1
    }
    // SAFETY: the callback keeps no pointer and does not unwind.
    unsafe {
        libc::dl_iterate_phdr(Some(unmap), std::ptr::null_mut());
    }
}

//! The version and abilities of the running kernel.

use std::sync::OnceLock;

/// Returns whether the running kernel has at least this version.
pub fn is_since(version: (u32, u32)) -> bool {
    static RUNNING: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    let running = RUNNING.get_or_init(|| version_of(rustix::system::uname().release().to_bytes()));
    running.is_some_and(|running| version <= running)
}

/// Returns the first two numbers of a release such as `6.14.0-rc2`.
fn version_of(release: &[u8]) -> Option<(u32, u32)> {
    let mut numbers = release.split(|byte| !byte.is_ascii_digit());
    let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse().ok();
    number().zip(number())
}

/// Returns whether the kernel has `openat2`.
pub fn has_openat2() -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, c"/", flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_two_numbers() {
        let check = |release: &str, expected| {
            assert_eq!(version_of(release.as_bytes()), expected, "{release}");
        };
        check("6.14.0-rc2", Some((6, 14)));
        check("5.10-custom", Some((5, 10)));
        check("6", None);
        check("next-20260101", None);
        check("", None);
    }
}

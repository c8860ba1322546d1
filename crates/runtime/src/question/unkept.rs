//! Words of a question about a change that undo cannot keep.

use sinew_tool::UnkeptChange;

use super::{named, named_file};

/// Returns what the question asks for, without its question mark.
pub(super) fn headline(change: &UnkeptChange) -> String {
    let name = named_file(&change.path);
    let does = if change.removes { "Delete" } else { "Change" };
    match change.size {
        Some(size) => {
            format!("{does} {name} ({}) for good, and go on without full undo", in_units(size))
        }
        None => String::from("Let the command change more than undo keeps"),
    }
}

/// Returns why it is asked, and what a yes holds for.
pub(super) fn circumstances(change: &UnkeptChange) -> [String; 2] {
    let path = named(&change.path);
    [
        format!("{path}: {}", change.why),
        String::from("the command waits, and a yes holds for all else that it changes"),
    ]
}

/// Returns a number of bytes in the largest unit of which there is one.
fn in_units(bytes: u64) -> String {
    let unit = |shift: u32, name: &str| {
        let tenths = (u128::from(bytes) * 10) >> shift;
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    };
    match bytes {
        0..0x400 => format!("{bytes} bytes"),
        0x400..0x10_0000 => unit(10, "KiB"),
        0x10_0000..0x4000_0000 => unit(20, "MiB"),
        _ => unit(30, "GiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named_with_their_size() {
        const REST: &str = " for good, and go on without full undo";
        for (path, size, removes, expected) in [
            ("/w/data.bin", Some(1_288_490_189), true, "Delete data.bin (1.2 GiB)"),
            ("/w/log.txt", Some(83_886_080), false, "Change log.txt (80.0 MiB)"),
            ("/w/log.txt", Some(2_000), false, "Change log.txt (1.9 KiB)"),
            ("/w/my log", Some(7), false, "Change my log (7 bytes)"),
            ("/w/a (1 KiB)? Harmless", Some(7), true, "Delete \"a (1 KiB)? Harmless\" (7 bytes)"),
            ("/w/log.txt", None, false, "Let the command change more than undo keeps"),
        ] {
            let change = UnkeptChange { path: path.into(), size, removes, why: "why" };
            let rest = if size.is_some() { REST } else { "" };
            assert_eq!(headline(&change), format!("{expected}{rest}"));
        }
    }
}

//! Words of a question about a change that undo cannot keep.

use sinew_tool::UnkeptChange;

use super::named;

/// Returns what the question asks for, without its question mark.
pub(super) fn headline(change: &UnkeptChange) -> String {
    let name = change.path.file_name().unwrap_or(change.path.as_os_str()).to_string_lossy();
    let does = if change.removes { "Delete" } else { "Change" };
    match change.size {
        Some(size) => format!("{does} {name} ({}) for good", in_units(size)),
        None => format!("{does} {name} for good"),
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
        for (path, size, removes, expected) in [
            ("/w/data.bin", Some(1_288_490_189), true, "Delete data.bin (1.2 GiB) for good"),
            ("/w/log.txt", Some(83_886_080), false, "Change log.txt (80.0 MiB) for good"),
            ("/w/log.txt", Some(2_000), false, "Change log.txt (1.9 KiB) for good"),
            ("/w/log.txt", Some(7), false, "Change log.txt (7 bytes) for good"),
            ("/w/log.txt", None, false, "Change log.txt for good"),
            ("/", None, true, "Delete / for good"),
        ] {
            let change = UnkeptChange { path: path.into(), size, removes, why: "why" };
            assert_eq!(headline(&change), expected);
        }
    }
}

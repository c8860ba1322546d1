//! The index of a pack of git, version 2, gitformat-pack(5): which objects the pack has.

use std::cmp::Ordering;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The header, and the table of 256 counts behind it.
const HEADER: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
const N_COUNTS: u64 = 256;
/// Where the ids begin.
const NAMES_AT: u64 = HEADER.len() as u64 + 4 * N_COUNTS;

fn is_index(file: &File) -> Option<()> {
    let mut header = [0; HEADER.len()];
    file.read_exact_at(&mut header, 0).ok()?;
    (header == HEADER).then_some(())
}

fn count(file: &File, at: u64) -> Option<u64> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, HEADER.len() as u64 + 4 * at).ok()?;
    Some(u64::from(u32::from_be_bytes(bytes)))
}

/// Returns whether an index lists an object; `None` if it is not an index.
pub fn is_listed(index: &File, id: &[u8]) -> Option<bool> {
    is_index(index)?;
    let first = u64::from(*id.first()?);
    let mut low = if first == 0 { 0 } else { count(index, first - 1)? };
    let mut high = count(index, first)?;
    let mut found = vec![0; id.len()];
    while low < high {
        let middle = low + (high - low) / 2;
        index.read_exact_at(&mut found, NAMES_AT + middle * id.len() as u64).ok()?;
        match found.as_slice().cmp(id) {
            Ordering::Equal => return Some(true),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    Some(false)
}

/// Returns all ids of an index; `None` if it is not one, or if they have more than `max_bytes`.
pub fn listed(index: &File, max_bytes: u64) -> Option<Vec<Vec<u8>>> {
    is_index(index)?;
    let n = count(index, N_COUNTS - 1)?;
    // Behind the ids come a checksum, an offset each, and two ids.
    let size = index.metadata().ok()?.len();
    let length = [20_u64, 32].into_iter().find(|length| {
        let least = NAMES_AT + n * (length + 8) + 2 * length;
        least <= size && size < least + n * 8 + 1
    })?;
    if max_bytes < n * length {
        return None;
    }
    let mut names = vec![0; usize::try_from(n * length).ok()?];
    index.read_exact_at(&mut names, NAMES_AT).ok()?;
    let length = usize::try_from(length).ok()?;
    Some(names.chunks_exact(length).map(<[u8]>::to_vec).collect())
}

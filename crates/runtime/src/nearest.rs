//! Suggests known names for an unknown one by edit distance.

/// Returns up to three known names nearest to an unknown one, best first.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = plain(wanted);
    let mut scored: Vec<(usize, &str)> = known
        .into_iter()
        .map(|known| (distance(&wanted, &plain(known)), known))
        .filter(|(distance, known)| *distance <= known.len().max(4) / 2)
        .collect();
    scored.sort_unstable();
    scored.dedup();
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns the edit distance (Levenshtein) of two words; long words are cut.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, y) in b.chars().take(64).enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (x, above) in a.iter().zip(row.iter_mut().skip(1)) {
            let next = (left + 1).min(*above + 1).min(diagonal + usize::from(*x != y));
            diagonal = *above;
            *above = next;
            left = next;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (a, b, n) in [
            ("", "", 0),
            ("read", "read", 0),
            ("raed", "read", 2),
            ("", "ab", 2),
            ("grp", "grep", 1),
        ] {
            assert_eq!(distance(a, b), n, "{a} {b}");
        }
    }
}

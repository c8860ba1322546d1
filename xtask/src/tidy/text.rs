//! Words that no text file of the tree may hold: names of places that readers do not have.

use super::tree::Tree;
use super::{FOREIGN, Finding};

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files() {
        for (at, line) in file.text.lines().enumerate() {
            for foreign in FOREIGN.iter().filter(|foreign| names(line, foreign)) {
                let what = format!("name nothing outside the tree: `{foreign}`");
                findings.push(Finding::new(&file.path, at + 1, what));
            }
        }
    }
}

/// Tells whether a line names a place, and not a longer name that ends or begins like it.
fn names(line: &str, place: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || "_-.~".contains(c);
    line.match_indices(place).any(|(at, _)| {
        let before = line.get(..at).and_then(|part| part.chars().next_back());
        let after = line.get(at + place.len()..).and_then(|part| part.chars().next());
        let open = !place.ends_with('/') && after.is_some_and(|c| c.is_alphanumeric());
        !before.is_some_and(is_name) && !open
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_outside_the_tree_are_found() {
        let place = "/away/";
        assert!(names("see /away/notes", place));
        assert!(names("(/away/)", place));
        assert!(!names("/far/away/notes", place));
        assert!(!names("/awayness/", place));
        assert!(names("a/.hidden/b", ".hidden"));
        assert!(!names("not.hidden", ".hidden"));
        assert!(!names(".hiddenness", ".hidden"));
    }

    #[test]
    fn line_and_path_are_named() {
        let text = format!("a\nsee {}b\n", FOREIGN[0]);
        let mut findings = Vec::new();
        check(&Tree::of(&[("README.md", &text)]), &mut findings);
        let places: Vec<_> = findings.iter().map(|f| (f.path.as_str(), f.line)).collect();
        assert_eq!(places, [("README.md", 2)]);
    }
}

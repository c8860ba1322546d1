//! Compares texts line by line, by one instance of the algorithm of Myers.
//!
//! `similar` is generic over the lines, and each instance adds 100 KB to the program. So lines become numbers first, which are
//! equal where the lines are, and numbers alone are compared.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

use similar::DiffOp;
use similar::algorithms::{Capture, Compact, Replace, myers};

/// Returns the operations that make new lines of old ones. They need not be the fewest after `until`.
pub fn line_ops<T: Eq + Hash>(old: &[T], new: &[T], until: Option<Instant>) -> Vec<DiffOp> {
    let mut numbers = HashMap::with_capacity(old.len());
    let mut number = |line| {
        let next = numbers.len();
        *numbers.entry(line).or_insert(next)
    };
    let old: Vec<usize> = old.iter().map(&mut number).collect();
    let new: Vec<usize> = new.iter().map(number).collect();
    compare(&old, &new, until)
}

fn compare(old: &[usize], new: &[usize], until: Option<Instant>) -> Vec<DiffOp> {
    let mut found = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff_deadline(&mut found, old, 0..old.len(), new, 0..new.len(), until);
    found.into_inner().into_inner().into_ops()
}

#[cfg(test)]
mod tests {
    use similar::{Algorithm, capture_diff_slices};

    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str) {
        let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        assert_eq!(line_ops(&old, &new, None), capture_diff_slices(Algorithm::Myers, &old, &new));
    }

    #[test]
    fn operations_are_those_of_the_lines() {
        check("", "");
        check("", "a\nb");
        check("a\nb", "");
        check("a\nb\na\nc", "a\nc\nb\na");
        check("a\nx\nx\nb\nx", "x\nb\nx\na\nx\nx");
        let long: Vec<String> = (0..500).map(|n| (n * n % 37).to_string()).collect();
        let other: Vec<String> = (0..500).map(|n| (n * n % 41).to_string()).collect();
        check(&long.join("\n"), &other.join("\n"));
    }
}

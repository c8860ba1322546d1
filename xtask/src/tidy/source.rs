//! Rules for one Rust file: how it begins, how long it is, and words that it must not hold.

use super::tree::{File, Tree};
use super::{DATA, Finding, LONG, MAX_LINES, UNSAFE, scan};

/// Macros that mark unfinished work.
const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.rust().filter(|file| !is_data(&file.path)) {
        check_start(file, findings);
        let code = scan::code(&file.text);
        check_length(file, &code, findings);
        check_words(file, &code, findings);
    }
    for (path, _) in LONG {
        let long = tree.text(path).is_some_and(|text| n_lines(&scan::code(text)) > MAX_LINES);
        if !long {
            findings.push(Finding::new(path, 1, "is not long: take it out of `LONG` in tidy"));
        }
    }
}

/// Tells whether a file is data of a test rather than a part of the project.
pub(super) fn is_data(path: &str) -> bool {
    let folders = path.split('/').rev().skip(1);
    path.contains("tests/") && folders.into_iter().any(|folder| DATA.contains(&folder))
}

/// Tells whether a file holds nothing but tests.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.split('/').any(|part| part == "tests")
}

/// The tests of a file continue the module above them, which has the words.
fn check_start(file: &File, findings: &mut Vec<Finding>) {
    if !file.path.ends_with("/tests.rs") && !file.text.starts_with("//!") {
        let what = "begin with `//!`: what the module is, why it is so, what is absent";
        findings.push(Finding::new(&file.path, 1, what));
    }
}

fn check_length(file: &File, code: &str, findings: &mut Vec<Finding>) {
    let n = n_lines(code);
    if n <= MAX_LINES || is_test(&file.path) || LONG.iter().any(|(path, _)| *path == file.path) {
        return;
    }
    let what = format!("split by meaning: {n} lines without tests, at most {MAX_LINES}");
    findings.push(Finding::new(&file.path, MAX_LINES + 1, what));
}

/// Returns the number of lines above the tests at the foot.
fn n_lines(code: &str) -> usize {
    let lines: Vec<&str> = code.lines().collect();
    let is_foot = |at: usize| {
        let mut after = lines.iter().skip(at + 1).skip_while(|line| line.starts_with("#["));
        lines.get(at).is_some_and(|line| line.starts_with("#[cfg(test)]"))
            && after.next().is_some_and(|line| line.starts_with("mod "))
    };
    (0..lines.len()).find(|at| is_foot(*at)).unwrap_or(lines.len())
}

fn check_words(file: &File, code: &str, findings: &mut Vec<Finding>) {
    for (at, line) in code.lines().enumerate() {
        let mut find = |what: String| findings.push(Finding::new(&file.path, at + 1, what));
        for (word, after) in scan::words(line) {
            if word == "unsafe" && !UNSAFE.contains(&file.path.as_str()) {
                find(format!("do without `unsafe`, which lives in {} alone", UNSAFE.join(", ")));
            }
            if word == "allow" && after.starts_with('(') && line.contains("#") {
                find(String::from("write `expect` with a reason instead of `allow`"));
            }
            if UNFINISHED.contains(&word) && after.starts_with('!') && !after.starts_with("!=") {
                find(format!("finish the work instead of `{word}!`"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word of unfinished work, put together so that a search for one does not find it here.
    const UNFINISHED_CALL: &str = concat!("dbg", "!(c);\n");

    #[track_caller]
    fn check_file(path: &str, text: &str, expected: &[(usize, &str)]) {
        let mut findings = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut findings);
        let found: Vec<(usize, &str)> = findings
            .iter()
            .filter(|finding| !LONG.iter().any(|(long, _)| *long == finding.path))
            .map(|finding| (finding.line, finding.what.split([' ', ':']).next().unwrap_or("")))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn files_begin_with_an_essay() {
        check_file("crates/a/src/b.rs", "//! B.\n", &[]);
        check_file("crates/a/src/b.rs", "use c;\n", &[(1, "begin")]);
        check_file("crates/a/src/b/tests.rs", "use super::*;\n", &[]);
        check_file("crates/a/tests/data/b.rs", UNFINISHED_CALL, &[]);
        check_file("crates/a/src/data/b.rs", "b\n", &[(1, "begin")]);
    }

    #[test]
    fn long_files_are_found_and_tests_are_not_counted() {
        let long = |n: usize| format!("//! B.\n{}", "b\n".repeat(n - 1));
        let tests = "#[cfg(test)]\n#[expect(c)]\nmod tests {\n}\n";
        check_file("crates/a/src/b.rs", &long(800), &[]);
        check_file("crates/a/src/b.rs", &long(801), &[(801, "split")]);
        check_file("crates/a/src/b.rs", &format!("{}{tests}{}", long(800), long(90)), &[]);
        check_file("crates/a/tests/b.rs", &long(801), &[]);
    }

    #[test]
    fn words_are_found_in_code_alone() {
        let clean = format!(
            "//! `unsafe` and {UNFINISHED_CALL}const A: &str = \"{}\";\nif dbg != b {{}}\n",
            UNFINISHED_CALL.trim_end()
        );
        check_file("crates/a/src/b.rs", &clean, &[]);
        check_file("crates/a/src/b.rs", "//! B.\nunsafe {}\n", &[(2, "do")]);
        check_file("crates/a/src/b.rs", "//! B.\n#[expect(unsafe_code)]\n", &[]);
        check_file(
            "crates/a/src/b.rs",
            concat!("//! B.\n#!", "[allow(c)]\nx.allow(d)\n"),
            &[(2, "write")],
        );
        check_file("crates/a/src/b.rs", &format!("//! B.\n\n{UNFINISHED_CALL}"), &[(3, "finish")]);
    }
}

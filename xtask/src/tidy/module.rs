//! Files that cargo does not see: a Rust file that no module names compiles nothing and tests
//! nothing, without a word.
//!
//! Modules are found by their `mod` lines. Files placed by a `path` attribute are not understood,
//! and the project has none.

use super::crates::Member;
use super::tree::Tree;
use super::{Finding, OWN_BINARIES, scan, source};

pub(super) fn check(tree: &Tree, members: &[Member], findings: &mut Vec<Finding>) {
    for member in members {
        check_binaries(member, findings);
        let main = format!("{}/tests/main.rs", member.folder);
        let has_main = tree.text(&main).is_some();
        let entries: Vec<&str> = member
            .targets
            .iter()
            .filter(|(kind, path)| !(has_main && kind == "test") || *path == main)
            .map(|(_, path)| path.as_str())
            .collect();
        for folder in ["src", "tests", "benches", "examples"] {
            let prefix = format!("{}/{folder}/", member.folder);
            let inside = tree.rust().filter(|file| file.path.starts_with(&prefix));
            for file in inside.filter(|file| !source::is_data(&file.path)) {
                if !entries.contains(&file.path.as_str()) && !is_named(tree, &entries, &file.path) {
                    let what = "name the file by a `mod` line in the module above, or delete it";
                    findings.push(Finding::new(&file.path, 1, what));
                }
            }
        }
    }
}

/// Every integration binary is linked and started by itself, so a crate has one.
fn check_binaries(member: &Member, findings: &mut Vec<Finding>) {
    let is_own = |path: &str| {
        OWN_BINARIES.iter().any(|(name, _)| path.ends_with(&format!("tests/{name}/main.rs")))
    };
    let binaries = member.targets.iter().filter(|(kind, path)| kind == "test" && !is_own(path));
    let n_binaries = binaries.count();
    if 1 < n_binaries {
        let what = format!(
            "make one integration binary of {n_binaries}: `tests/NAME/main.rs` with its modules"
        );
        findings.push(Finding::new(&member.manifest(), 1, what));
    }
}

/// Tells whether the module above a file has a `mod` line for it.
fn is_named(tree: &Tree, entries: &[&str], path: &str) -> bool {
    let stem = path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
    let Some((folder, name)) = stem.rsplit_once('/') else { return false };
    let same = entries.iter().filter(|entry| entry.rsplit_once('/').is_some_and(|e| e.0 == folder));
    let mut parents: Vec<String> = same.map(|entry| (*entry).to_owned()).collect();
    parents.push(format!("{folder}/mod.rs"));
    parents.push(format!("{folder}.rs"));
    parents.iter().filter_map(|parent| tree.text(parent)).any(|text| has_module(text, name))
}

fn has_module(text: &str, name: &str) -> bool {
    let code = scan::code(text);
    let words: Vec<(&str, &str)> = code.lines().flat_map(scan::words).collect();
    words.windows(2).any(|pair| {
        matches!(pair, [("mod", _), (word, after)]
            if *word == name && after.trim_start().starts_with(';'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_files(targets: &[(&str, &str)], files: &[(&str, &str)], expected: &[&str]) {
        let member = Member::of("crates/a", targets);
        let mut findings = Vec::new();
        check(&Tree::of(files), &[member], &mut findings);
        let paths: Vec<&str> = findings.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(paths, expected);
    }

    #[test]
    fn forgotten_modules_are_found() {
        let lib = ("lib", "crates/a/src/lib.rs");
        check_files(
            &[lib],
            &[
                ("crates/a/src/lib.rs", "mod b;\npub(crate) mod c ;\n// mod d;\nmod e {}\n"),
                ("crates/a/src/b.rs", "#[cfg(test)]\nmod tests;\n"),
                ("crates/a/src/b/tests.rs", ""),
                ("crates/a/src/b/f.rs", ""),
                ("crates/a/src/c/mod.rs", ""),
                ("crates/a/src/d.rs", ""),
                ("crates/a/src/e.rs", ""),
            ],
            &["crates/a/src/b/f.rs", "crates/a/src/d.rs", "crates/a/src/e.rs"],
        );
    }

    #[test]
    fn integration_tests_beside_a_main_are_its_modules() {
        check_files(
            &[("test", "crates/a/tests/main.rs")],
            &[
                ("crates/a/tests/main.rs", "mod b;\n"),
                ("crates/a/tests/b.rs", ""),
                ("crates/a/tests/c.rs", ""),
                ("crates/a/tests/data/d.rs", ""),
            ],
            &["crates/a/tests/c.rs"],
        );
    }

    #[test]
    fn a_crate_has_one_integration_binary() {
        check_files(
            &[("test", "crates/a/tests/main.rs"), ("test", "crates/a/tests/b.rs")],
            &[("crates/a/tests/main.rs", ""), ("crates/a/tests/b.rs", "")],
            &["crates/a/Cargo.toml", "crates/a/tests/b.rs"],
        );
        check_files(&[("test", "crates/a/tests/b.rs")], &[("crates/a/tests/b.rs", "")], &[]);
    }
}

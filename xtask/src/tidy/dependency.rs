//! The outside crates: their licences, where they come from, and which are there twice.
//!
//! Licences and duplicates are those of this machine's platform; sources are checked for every
//! platform, because the lock file names them all.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::tree::Tree;
use super::{DUPLICATES, Finding, LICENCES, REGISTRY, crates};

const LOCK: &str = "Cargo.lock";

pub(super) fn check(tree: &Tree, metadata: &Value, findings: &mut Vec<Finding>) -> Result<()> {
    let lock = tree.text(LOCK).context("no lock file")?;
    check_sources(lock, findings);
    let mut lines: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in crates::list(metadata, "packages")? {
        if package["source"].is_null() {
            continue;
        }
        let name = package["name"].as_str().context("a name")?;
        let version = package["version"].as_str().context("a version")?;
        let licence = package["license"].as_str().unwrap_or_default();
        if !is_allowed(licence) {
            let what = format!("replace {name} {version}: its licence is `{licence}`");
            findings.push(Finding::new(LOCK, line_of(lock, name), what));
        }
        lines.entry(name.to_owned()).or_default().insert(line_of_versions(version).to_owned());
    }
    for (name, versions) in &lines {
        if 1 < versions.len() && !DUPLICATES.iter().any(|(known, _)| known == name) {
            let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
            let what = format!(
                "bring {name} to one version of {}, or give the reason in `DUPLICATES` of tidy",
                versions.join(", ")
            );
            findings.push(Finding::new(LOCK, line_of(lock, name), what));
        }
    }
    Ok(())
}

fn check_sources(lock: &str, findings: &mut Vec<Finding>) {
    for (at, line) in lock.lines().enumerate() {
        let Some(source) = line.strip_prefix("source = ") else { continue };
        let source = source.trim_matches('"');
        if source != REGISTRY {
            let what = format!("take the dependency from the registry, not from `{source}`");
            findings.push(Finding::new(LOCK, at + 1, what));
        }
    }
}

fn line_of(lock: &str, name: &str) -> usize {
    let wanted = format!("name = \"{name}\"");
    lock.lines().position(|line| line == wanted).map_or(1, |at| at + 1)
}

/// Returns the part of a version within which versions are compatible.
fn line_of_versions(version: &str) -> &str {
    let n_parts = if version.starts_with("0.0.") {
        3
    } else if version.starts_with("0.") {
        2
    } else {
        1
    };
    let end = version.match_indices(['.', '-', '+']).nth(n_parts - 1).map(|(at, _)| at);
    end.and_then(|end| version.get(..end)).unwrap_or(version)
}

/// Tells whether an SPDX expression can be met with the licences of the table.
///
/// `OR` binds weaker than `AND`, and `AND` weaker than `WITH`; a slash is the old spelling of `OR`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    any_of(&mut words) && words.is_empty()
}

fn any_of(words: &mut Vec<&str>) -> bool {
    let mut allowed = all_of(words);
    while words.pop_if(|word| *word == "OR").is_some() {
        allowed |= all_of(words);
    }
    allowed
}

fn all_of(words: &mut Vec<&str>) -> bool {
    let mut allowed = one(words);
    while words.pop_if(|word| *word == "AND").is_some() {
        allowed &= one(words);
    }
    allowed
}

fn one(words: &mut Vec<&str>) -> bool {
    match words.pop() {
        Some("(") => {
            let allowed = any_of(words);
            words.pop_if(|word| *word == ")").is_some() && allowed
        }
        Some(name) => match words.pop_if(|word| *word == "WITH").and_then(|_| words.pop()) {
            Some(exception) => LICENCES.contains(&format!("{name} WITH {exception}").as_str()),
            None => LICENCES.contains(&name),
        },
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_are_read_as_written() {
        for allowed in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR GPL-3.0",
            "GPL-3.0 OR MIT AND ISC",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for refused in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT AND (GPL-3.0 OR LGPL-2.1)",
            "MIT WITH LLVM-exception",
            "(MIT",
            "MIT MIT",
            "OR",
        ] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }

    #[test]
    fn compatible_versions_share_a_line() {
        assert_eq!(line_of_versions("1.2.3"), "1");
        assert_eq!(line_of_versions("0.4.21"), "0.4");
        assert_eq!(line_of_versions("0.0.7"), "0.0.7");
        assert_eq!(line_of_versions("2.0.0-rc.1"), "2");
    }

    #[track_caller]
    fn check_packages(packages: &[(&str, &str, &str)], expected: &[&str]) {
        let mut lock = String::new();
        let mut list = Vec::new();
        for (name, version, license) in packages {
            lock.push_str(&format!("name = \"{name}\"\nsource = \"{REGISTRY}\"\n"));
            list.push(json!({
                "name": name, "version": version, "license": license, "source": REGISTRY,
            }));
        }
        let mut findings = Vec::new();
        let metadata = json!({ "packages": list });
        check(&Tree::of(&[(LOCK, &lock)]), &metadata, &mut findings).expect("the check runs");
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn licences_and_duplicates_are_found() {
        check_packages(&[("a", "1.0.0", "MIT"), ("a", "1.1.0", "MIT")], &[]);
        check_packages(
            &[("a", "1.0.0", "MIT"), ("b", "1.0.0", "GPL-3.0")],
            &["Cargo.lock:3: replace b 1.0.0: its licence is `GPL-3.0`"],
        );
        check_packages(
            &[("a", "1.0.0", "MIT"), ("a", "0.2.0", "MIT")],
            &["Cargo.lock:1: bring a to one version of 0.2, 1, or give the reason in \
               `DUPLICATES` of tidy"],
        );
        let (known, _) = DUPLICATES[0];
        check_packages(&[(known, "1.0.0", "MIT"), (known, "2.0.0", "MIT")], &[]);
    }

    #[test]
    fn sources_are_the_registry() {
        let mut findings = Vec::new();
        check_sources("name = \"a\"\nsource = \"git+https://example.invalid/a\"\n", &mut findings);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
    }
}

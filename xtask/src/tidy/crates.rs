//! The crates of the workspace: who may use whom, and where versions stand.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::tree::Tree;
use super::{Finding, IN_TESTS, ONLY, PLACES, RESERVED};

/// One crate of the workspace, as cargo sees it.
pub(super) struct Member {
    /// The name of the package.
    pub(super) name: String,
    /// The folder, from the root.
    pub(super) folder: String,
    /// The files that cargo compiles by themselves, from the root, each after its kind.
    pub(super) targets: Vec<(String, String)>,
    uses: Vec<Use>,
}

/// One line of a manifest.
struct Use {
    name: String,
    in_tests: bool,
}

impl Member {
    /// Returns a member with these targets.
    #[cfg(test)]
    pub(super) fn of(folder: &str, targets: &[(&str, &str)]) -> Self {
        let owned = |(kind, path): &(&str, &str)| ((*kind).to_owned(), (*path).to_owned());
        let targets = targets.iter().map(owned).collect();
        Self { name: String::new(), folder: folder.to_owned(), targets, uses: Vec::new() }
    }

    /// Returns the path of the manifest.
    pub(super) fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

/// Returns the members of the workspace.
pub(super) fn members(root: &Path, metadata: &Value) -> Result<Vec<Member>> {
    let packages = list(metadata, "packages")?;
    packages.iter().filter(|package| package["source"].is_null()).map(|p| member(root, p)).collect()
}

fn member(root: &Path, package: &Value) -> Result<Member> {
    let inside = |value: &Value| -> Result<String> {
        let path = Path::new(value.as_str().context("a path")?);
        let path = path.strip_prefix(root).with_context(|| path.display().to_string())?;
        Ok(path.to_string_lossy().into_owned())
    };
    let manifest = inside(&package["manifest_path"])?;
    let mut targets = Vec::new();
    for target in list(package, "targets")? {
        let kind = target["kind"].get(0).and_then(Value::as_str).unwrap_or_default();
        targets.push((kind.to_owned(), inside(&target["src_path"])?));
    }
    let mut uses = Vec::new();
    for dependency in list(package, "dependencies")? {
        let name = dependency["name"].as_str().context("a name")?.to_owned();
        uses.push(Use { name, in_tests: dependency["kind"].as_str() == Some("dev") });
    }
    Ok(Member {
        name: package["name"].as_str().context("a name")?.to_owned(),
        folder: manifest.trim_end_matches("/Cargo.toml").to_owned(),
        targets,
        uses,
    })
}

/// Returns a list inside the metadata.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> Result<&'a [Value]> {
    value[name].as_array().map(Vec::as_slice).with_context(|| format!("no `{name}` in metadata"))
}

pub(super) fn check(tree: &Tree, members: &[Member], findings: &mut Vec<Finding>) {
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    for member in members {
        let manifest = member.manifest();
        let text = tree.text(&manifest).unwrap_or_default();
        let mut find = |word: &str, what| {
            findings.push(Finding::new(&manifest, line_of(text, word), what));
        };
        let Some(place) = PLACES.iter().find(|place| place.name == member.name) else {
            find("name", String::from("give the crate its layer in `PLACES` of tidy"));
            continue;
        };
        if !is_home(&member.name, &member.folder) {
            find("name", format!("call the folder of `{}` by its name", member.name));
        }
        for used in &member.uses {
            let name = used.name.as_str();
            let inside = names.contains(&name);
            let tested = used.in_tests && (IN_TESTS.contains(&name) || name == member.name);
            if inside && !tested && !place.may_use.contains(&name) {
                find(name, format!("`{}` may not use `{name}`: its layer forbids it", member.name));
            }
            if !inside && !used.in_tests && !may_use_outside(&member.name, name) {
                find(
                    name,
                    format!("`{}` may not use `{name}`: see `ONLY`, `RESERVED`", member.name),
                );
            }
        }
        for (line, name) in own_versions(text) {
            let what = format!("move the version of `{name}` to the manifest of the workspace");
            findings.push(Finding::new(&manifest, line, what));
        }
    }
}

fn is_home(name: &str, folder: &str) -> bool {
    let short = name.strip_prefix("sinew-").unwrap_or(name);
    // What takes the place of a published crate has its name.
    folder == short || folder == format!("crates/{short}") || folder == format!("patches/{name}")
}

fn may_use_outside(member: &str, name: &str) -> bool {
    let only = ONLY.iter().find(|(limited, _)| *limited == member);
    let reserved = RESERVED.iter().find(|(kept, _)| *kept == name);
    only.is_none_or(|(_, names)| names.contains(&name))
        && reserved.is_none_or(|(_, owners)| owners.contains(&member))
}

/// Returns the line of a manifest that begins with a word.
fn line_of(text: &str, word: &str) -> usize {
    text.lines().position(|line| line.starts_with(word)).map_or(1, |at| at + 1)
}

/// Returns the dependencies of a manifest that do not take their version from the workspace.
fn own_versions(text: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]");
        } else if inside && line.starts_with(char::is_alphanumeric) {
            let name = line.split([' ', '.', '=']).next().unwrap_or(line);
            if !line.contains("workspace = true") {
                found.push((at + 1, name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_uses(name: &str, uses: &[(&str, bool)], expected: &[&str]) {
        let used =
            |(name, in_tests): &(&str, bool)| Use { name: (*name).to_owned(), in_tests: *in_tests };
        let member = |name: &str, uses: Vec<Use>| Member {
            name: name.to_owned(),
            folder: format!("crates/{}", name.trim_start_matches("sinew-")),
            targets: Vec::new(),
            uses,
        };
        let mut members = vec![member(name, uses.iter().map(used).collect())];
        let others = PLACES.iter().filter(|place| place.name != name);
        members.extend(others.map(|place| member(place.name, Vec::new())));
        let mut findings = Vec::new();
        check(&Tree::of(&[]), &members, &mut findings);
        let found: Vec<&str> = findings.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn layers_hold() {
        check_uses("sinew-ops", &[("sinew-tool", false), ("memchr", false)], &[]);
        check_uses("sinew-ops", &[("sinew-testkit", true)], &[]);
        check_uses(
            "sinew-ops",
            &[("sinew-guard", true)],
            &["`sinew-ops` may not use `sinew-guard`: its layer forbids it"],
        );
        check_uses(
            "sinew-runtime",
            &[("sinew-ops", false)],
            &["`sinew-runtime` may not use `sinew-ops`: its layer forbids it"],
        );
        check_uses(
            "sinew-runtime",
            &[("sinew-testkit", false)],
            &["`sinew-runtime` may not use `sinew-testkit`: its layer forbids it"],
        );
    }

    #[test]
    fn outside_crates_are_limited_where_a_table_says_so() {
        check_uses("sinew-tool", &[("serde", false), ("proptest", true)], &[]);
        check_uses(
            "sinew-tool",
            &[("memchr", false)],
            &["`sinew-tool` may not use `memchr`: see `ONLY`, `RESERVED`"],
        );
        check_uses(
            "sinew-ops",
            &[("anyhow", false)],
            &["`sinew-ops` may not use `anyhow`: see `ONLY`, `RESERVED`"],
        );
    }

    #[test]
    fn unknown_crates_are_asked_for_their_layer() {
        check_uses("sinew-core", &[], &["give the crate its layer in `PLACES` of tidy"]);
    }

    #[test]
    fn versions_stand_in_the_workspace() {
        let text = "[package]\nversion = \"1\"\n[dependencies]\na.workspace = true\nb = \"1\"\n\
                    c = { workspace = true, features = [\"d\"] }\n[dev-dependencies]\ne = { version = \"2\" }\n";
        assert_eq!(own_versions(text), [(5, "b"), (8, "e")]);
    }
}

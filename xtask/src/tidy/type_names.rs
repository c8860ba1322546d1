//! Names of types: each is defined once in a crate, so a search finds one definition.
//!
//! Tests, and types of the same name that differ by the target they are built for, are left out.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};
use syn::{Attribute, Ident, ItemEnum, ItemMod, ItemStruct, ItemTrait, ItemType};

use super::Finding;
use super::crates::Member;
use super::tree::Tree;

pub(super) fn check(tree: &Tree, members: &[Member], findings: &mut Vec<Finding>) {
    for member in members {
        let prefix = format!("{}/src/", member.folder);
        let mut first: BTreeMap<String, String> = BTreeMap::new();
        for file in tree.rust() {
            let is_test = file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
            if !file.path.starts_with(&prefix) || is_test {
                continue;
            }
            let mut types = Types::default();
            // The compiler reports invalid Rust better.
            let Ok(parsed) = syn::parse_file(&file.text) else { continue };
            types.visit_file(&parsed);
            for name in types.0 {
                let line = line_of(&file.text, &name);
                if let Some(other) = first.get(&name) {
                    let what = format!("call `{name}` by its subject too: {other} has the name");
                    findings.push(Finding::new(&file.path, line, what));
                } else {
                    first.insert(name, format!("{}:{line}", file.path));
                }
            }
        }
    }
}

/// Returns the line that defines a type.
fn line_of(text: &str, name: &str) -> usize {
    let keywords = ["struct", "enum", "trait", "type"];
    let defines = |line: &str| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| keywords.contains(&word)) && words.next() == Some(name)
    };
    text.lines().position(defines).map_or(1, |at| at + 1)
}

/// The names of the types of a file.
#[derive(Default)]
struct Types(Vec<String>);

impl Types {
    fn add(&mut self, attributes: &[Attribute], name: &Ident) {
        if !attributes.iter().any(|attribute| attribute.path().is_ident("cfg")) {
            self.0.push(name.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.add(&item.attrs, &item.ident);
    }
    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.add(&item.attrs, &item.ident);
    }
    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.add(&item.attrs, &item.ident);
    }
    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.add(&item.attrs, &item.ident);
    }
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) {
            visit::visit_item_mod(self, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_stands_twice_is_found() {
        let tree = Tree::of(&[
            ("crates/a/src/b.rs", "pub struct One;\n#[cfg(test)]\nmod tests { enum Two {} }\n"),
            (
                "crates/a/src/c.rs",
                "enum Two {}\n\nmod d { trait One {} }\nimpl X for Y { type One = u8; }\n",
            ),
            ("crates/a/src/c/tests.rs", "struct One;\n"),
            ("crates/e/src/b.rs", "struct One;\n"),
        ]);
        let members = [Member::of("crates/a", &[]), Member::of("crates/e", &[])];
        let mut findings = Vec::new();
        check(&tree, &members, &mut findings);
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "crates/a/src/c.rs:3: call `One` by its subject too: crates/a/src/b.rs:1 has the name"
            ]
        );
    }
}

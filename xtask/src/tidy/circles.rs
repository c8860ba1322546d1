//! Circles of imports between the files of a crate.
//!
//! An arrow leads from a file to each file whose items it names, through `use` or by a path. What a module takes from
//! a module above it draws none: a module and those above it are one piece. Re-exports are followed to the file of the
//! item. Tests and the inside of macros are left out.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

use super::crates::Member;
use super::tree::Tree;
use super::{Finding, LARGER_CIRCLES, MAX_CIRCLE};

/// Names from the root of a crate.
type Names = Vec<String>;

pub(super) fn check(tree: &Tree, members: &[Member], findings: &mut Vec<Finding>) {
    for member in members {
        let larger = LARGER_CIRCLES.iter().find(|(name, ..)| *name == member.name);
        let most = larger.map_or(MAX_CIRCLE, |(_, most, _)| *most);
        for circle in of_crate(tree, member) {
            if most < circle.len() {
                let what = format!(
                    "part these {} files, which import one another ({most} may): {}",
                    circle.len(),
                    circle.join(", ")
                );
                let first = circle.first().map_or("", String::as_str);
                findings.push(Finding::new(first, 1, what));
            }
        }
    }
}

/// Returns a line for every circle, the largest first.
pub(super) fn lines(tree: &Tree, members: &[Member]) -> Vec<String> {
    let circles = members.iter().map(|member| (member, of_crate(tree, member)));
    let mut all: Vec<(usize, String)> = circles
        .flat_map(|(member, circles)| {
            let line = |circle: Names| {
                (circle.len(), format!("{} {}: {}", member.name, circle.len(), circle.join(", ")))
            };
            circles.into_iter().map(line).collect::<Vec<_>>()
        })
        .collect();
    all.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    all.into_iter().map(|(_, line)| line).collect()
}

/// Returns the circles of a crate's files, each sorted by path.
fn of_crate(tree: &Tree, member: &Member) -> Vec<Names> {
    let files = Files::read(tree, member);
    let arrows: BTreeMap<&Names, BTreeSet<Names>> =
        files.0.iter().map(|(module, file)| (module, files.targets(module, file))).collect();
    let reached: BTreeMap<&Names, BTreeSet<&Names>> =
        arrows.keys().map(|module| (*module, reached(module, &arrows))).collect();
    let circle = |module: &Names| {
        let others = reached.get(module).into_iter().flatten();
        let back = others.filter(|other| reached.get(**other).is_some_and(|r| r.contains(module)));
        let mut paths: Names =
            back.filter_map(|other| Some(files.0.get(*other)?.path.clone())).collect();
        paths.sort();
        paths
    };
    // Each of its files finds the same circle; a file that no arrow leads back to finds none.
    let circles: BTreeSet<Names> = files.0.keys().map(circle).filter(|c| 1 < c.len()).collect();
    circles.into_iter().collect()
}

/// Returns every module that arrows lead to from one, itself where they lead back.
fn reached<'a>(
    module: &Names,
    arrows: &'a BTreeMap<&Names, BTreeSet<Names>>,
) -> BTreeSet<&'a Names> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&Names> = arrows.get(module).into_iter().flatten().collect();
    while let Some(next) = left.pop() {
        if reached.insert(next) {
            left.extend(arrows.get(next).into_iter().flatten());
        }
    }
    reached
}

/// The modules of a crate that are files, by their names from the root.
struct Files(BTreeMap<Names, Module>);

/// A module that is a file.
struct Module {
    path: String,
    /// Names in scope that `use` brings in, with what they stand for from the root.
    imported: BTreeMap<String, Names>,
    /// Every path that the file names, as it is written.
    named: BTreeSet<Names>,
}

impl Files {
    fn read(tree: &Tree, member: &Member) -> Self {
        let prefix = format!("{}/src/", member.folder);
        let mut modules = BTreeMap::new();
        for file in tree.rust() {
            let Some(inside) = file.path.strip_prefix(&prefix) else { continue };
            let Ok(parsed) = syn::parse_file(&file.text) else { continue };
            let stem = inside.trim_end_matches(".rs");
            let names: Names = match stem {
                "lib" | "main" => Vec::new(),
                stem => stem.split('/').map(str::to_owned).collect(),
            };
            // The tests of a module stand in a file of their own where they are many.
            if names.last().is_some_and(|name| name == "tests")
                || (stem == "main" && modules.contains_key(&names))
            {
                continue;
            }
            let mut found =
                Found { module: &names, imported: BTreeMap::new(), named: BTreeSet::new() };
            found.visit_file(&parsed);
            let Found { imported, named, .. } = found;
            modules.insert(names, Module { path: file.path.clone(), imported, named });
        }
        Self(modules)
    }

    /// Returns the modules whose items a file names, but for those above it.
    fn targets(&self, module: &Names, file: &Module) -> BTreeSet<Names> {
        let uses = file.imported.values().cloned();
        let paths = file.named.iter().filter_map(|path| self.whole(module, file, path));
        let targets = uses.chain(paths).map(|path| self.home(&path, 0));
        targets.filter(|target| !module.starts_with(target)).collect()
    }

    /// Returns a path from the root, where it is one of this crate.
    fn whole(&self, module: &Names, file: &Module, path: &Names) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        let child = || {
            let mut child = module.clone();
            child.push(first.clone());
            self.0.contains_key(&child).then_some(child)
        };
        let mut start = match file.imported.get(first) {
            Some(imported) => imported.clone(),
            None => absolute(module, path).or_else(child)?,
        };
        if !matches!(first.as_str(), "crate" | "self" | "super") {
            start.extend(rest.iter().cloned());
        }
        Some(start)
    }

    /// Returns the module that holds what a path names, re-exports followed.
    fn home(&self, path: &Names, n_followed: usize) -> Names {
        let is_module = |n: &usize| path.get(..*n).is_some_and(|path| self.0.contains_key(path));
        let n_module = (0..=path.len()).rev().find(is_module).unwrap_or(0);
        let (module, rest) = path.split_at(n_module);
        let exported = rest.first().and_then(|name| self.0.get(module)?.imported.get(name));
        match exported {
            // A name that is defined where it is imported would lead here for ever.
            Some(exported) if n_followed < 8 => {
                let mut path = exported.clone();
                path.extend(rest.iter().skip(1).cloned());
                self.home(&path, n_followed + 1)
            }
            _ => module.to_vec(),
        }
    }
}

/// Returns a path that begins with `crate`, `self` or `super` from the root.
fn absolute(module: &Names, path: &Names) -> Option<Names> {
    let n_above = path.iter().take_while(|name| *name == "super").count();
    let (first, rest) = path.split_first()?;
    let mut start = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.clone(),
        "super" => module.get(..module.len().checked_sub(n_above)?)?.to_vec(),
        _ => return None,
    };
    let rest = rest.get(n_above.saturating_sub(1)..)?;
    start.extend(rest.iter().cloned());
    Some(start)
}

/// The imports and names of a file.
struct Found<'m> {
    module: &'m Names,
    imported: BTreeMap<String, Names>,
    named: BTreeSet<Names>,
}

impl Found<'_> {
    fn import(&mut self, tree: &UseTree, before: &Names) {
        let mut path = before.clone();
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.import(&step.tree, &path);
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.import(item, before)),
            UseTree::Name(name) if name.ident == "self" => self.add(path.last().cloned(), path),
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.add(Some(name.ident.to_string()), path);
            }
            UseTree::Rename(renamed) => {
                if renamed.ident != "self" {
                    path.push(renamed.ident.to_string());
                }
                self.add(Some(renamed.rename.to_string()), path);
            }
            UseTree::Glob(_) => self.add(None, path),
        }
    }

    fn add(&mut self, name: Option<String>, path: Names) {
        match (name, absolute(self.module, &path)) {
            (Some(name), Some(path)) => drop(self.imported.insert(name, path)),
            // A path without a keyword begins with a child, or with another crate.
            (Some(name), None) => {
                let child = [self.module.clone(), path].concat();
                self.imported.entry(name).or_insert(child);
            }
            (None, _) => drop(self.named.insert(path)),
        }
    }
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Mod(module) => &module.attrs,
            Item::Fn(function) => &function.attrs,
            Item::Impl(block) => &block.attrs,
            Item::Use(import) => &import.attrs,
            _ => &[],
        };
        let is_test = attributes.iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
        });
        if !is_test {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        self.import(&import.tree, &Vec::new());
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if module.content.is_some() {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if 1 < path.segments.len() {
            self.named.insert(path.segments.iter().map(|step| step.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&[&str]]) {
        let member = Member::of("c", &[("lib", "c/src/lib.rs")]);
        assert_eq!(of_crate(&Tree::of(files), &member), expected);
    }

    #[test]
    fn circles_follow_imports_paths_and_exports() {
        let lib = ("c/src/lib.rs", "mod a; mod b; pub use b::B;");
        check(&[lib, ("c/src/a.rs", "use crate::b::B;"), ("c/src/b.rs", "")], &[]);
        let both: &[&[&str]] = &[&["c/src/a.rs", "c/src/b.rs"]];
        for (a, b) in [
            ("use crate::b::B;", "use crate::a::A;"),
            ("use super::{b::{B, C as D}};", "fn f() { super::a::g() }"),
            ("use crate::B;", "use crate::a; fn f(x: a::A) {}"),
            ("use crate::b as other; const X: u8 = other::Y;", "impl crate::a::A for B {}"),
        ] {
            check(&[lib, ("c/src/a.rs", a), ("c/src/b.rs", b)], both);
        }
    }

    #[test]
    fn modules_above_and_tests_draw_nothing() {
        let lib = ("c/src/lib.rs", "mod a;");
        let a = ("c/src/a.rs", "mod x; use x::X; pub struct A;");
        check(&[lib, a, ("c/src/a/x.rs", "use super::A; fn f(a: crate::a::A) {}")], &[]);
        let tests = "#[cfg(test)]\nmod tests { use crate::a::x::X; }";
        let lib = format!("mod a; mod b; {tests}");
        let b = "#[cfg(test)]\nmod tests { use crate::a::A; }";
        let a = "use crate::b::B;";
        check(&[("c/src/lib.rs", &lib), ("c/src/a.rs", a), ("c/src/b.rs", b)], &[]);
    }
}

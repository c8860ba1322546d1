//! Memory files: a claim reaches them by their scope alone, beneath the roots of its call, and a change makes their
//! directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use sinew_guard::{Contained, Guard, GuardSettings};
use sinew_tool::{Access, Claim, Expect, FileSettings, Kind, Links, MemoryScope, Slot, ToolError};

use crate::tree::{RESOLVERS, Tree, WRITE, allow, contain};

const NEW: Access = Access::Write { parents: true, links: Links::Refuse };

fn guard(tree: &Tree, files: FileSettings) -> Arc<Guard> {
    Guard::open(GuardSettings {
        files: Arc::new(files),
        denied: vec![tree.top.join("state")],
        user_state: Some(tree.top.join("state")),
        ..GuardSettings::new(vec![tree.root.clone()])
    })
    .unwrap()
}

fn on_memory(
    guard: &Arc<Guard>,
    scope: MemoryScope,
    access: Access,
    narrowed: Option<&[PathBuf]>,
) -> Result<Contained, ToolError> {
    guard.contain(&[Claim::on_memory(scope, access)], None, narrowed)
}

#[test]
fn a_change_makes_the_directory() {
    for scope in MemoryScope::ALL {
        let tree = Tree::new();
        let guard = guard(&tree, FileSettings::default());
        let looked = on_memory(&guard, scope, Access::Read, None).unwrap();
        let before = tree.everything();
        let world = allow(on_memory(&guard, scope, NEW, None).unwrap()).world;
        assert_eq!(tree.everything(), before, "a claim makes nothing");
        assert!(world.files.replace(Slot(0), &[b"a"], Expect::Nothing).unwrap().created);
        let (file, dir, mode) = match scope {
            MemoryScope::Project => (tree.root.join(".sinew/MEMORY.md"), ".sinew", 0o755),
            MemoryScope::User => (tree.top.join("state/memory/MEMORY.md"), "memory", 0o700),
        };
        assert_eq!(looked.targets().files[0].path, file);
        assert_eq!(fs::read_to_string(&file).unwrap(), "a");
        let parent = file.parent().unwrap();
        assert!(parent.ends_with(dir));
        assert_eq!(fs::metadata(parent).unwrap().permissions().mode() & 0o777, mode);
    }
}

#[test]
fn narrowed_calls_reach_what_they_hold() {
    let tree = Tree::new().with(&[("sub/a", "a"), (".sinew/MEMORY.md", "a")]);
    let guard = guard(&tree, FileSettings::default());
    let (whole, part) = ([tree.root.clone()], [tree.root.join("sub")]);
    for (scope, narrowed, expected) in [
        (MemoryScope::Project, None, None),
        (MemoryScope::Project, Some(&whole), None),
        (MemoryScope::Project, Some(&part), Some(Kind::PathDenied)),
        (MemoryScope::User, None, None),
        (MemoryScope::User, Some(&part), Some(Kind::PathDenied)),
    ] {
        let narrowed = narrowed.map(<[PathBuf; 1]>::as_slice);
        for access in [Access::Read, NEW] {
            let error = on_memory(&guard, scope, access, narrowed).err();
            assert_eq!(error.map(|error| error.kind), expected, "{scope} {narrowed:?}");
        }
    }
}

/// A path of a call leads to no memory file that may change.
#[test]
fn paths_do_not_reach_them() {
    for resolver in RESOLVERS {
        let tree = Tree::new().with(&[(".sinew/MEMORY.md", "a")]);
        let guard = tree.guard(resolver);
        for path in [".sinew/MEMORY.md", ".SINEW/memory.md", "./.sinew/../.sinew/MEMORY.md"] {
            assert_eq!(contain(&guard, path, WRITE).unwrap_err().kind, Kind::PathDenied, "{path}");
        }
        assert!(contain(&guard, ".sinew/MEMORY.md", Access::Read).is_ok());
    }
    let tree = Tree::new();
    let deny_paths = vec![String::from("**/MEMORY.md")];
    let guard = guard(&tree, FileSettings { deny_paths, ..FileSettings::default() });
    for scope in MemoryScope::ALL {
        let error = on_memory(&guard, scope, Access::Read, None).unwrap_err();
        assert_eq!(error.kind, Kind::PathDenied, "{scope}");
        assert!(!error.message.contains("argument"), "{error:?}");
    }
}

//! Temporary files are named before they are made, so that a later process can find them.

use std::fs;

use sinew_tool::{Expect, Slot};

use crate::tree::{RESOLVERS, Tree, WRITE, allow, contain};

#[test]
fn the_temporary_file_is_named_before_the_change() {
    for resolver in RESOLVERS {
        let tree = Tree::new().with(&[("dir/a.txt", "old")]);
        let guard = tree.guard(resolver);
        let cleared = allow(contain(&guard, "dir/a.txt", WRITE).unwrap());
        let [temporary] = &cleared.temporaries[..] else { panic!("one file, one temporary") };
        assert_eq!(temporary.parent(), Some(tree.root.join("dir").as_path()));
        let name = temporary.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(".sinew-") && name.ends_with(".tmp"), "{name}");
        cleared.world.files.replace(Slot(0), &[b"new"], Expect::Any).unwrap();
        assert_eq!(fs::read_dir(tree.root.join("dir")).unwrap().count(), 1);
        let again = allow(contain(&guard, "dir/a.txt", WRITE).unwrap());
        assert_ne!(again.temporaries, cleared.temporaries);
    }
}

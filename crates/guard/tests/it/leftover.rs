//! Temporary files of a process that died are removed, and nothing else.

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
        // What a death between the first write and the rename leaves behind.
        fs::write(temporary, "half").unwrap();
        assert!(guard.remove_temporary(temporary).unwrap());
        assert!(!guard.remove_temporary(temporary).unwrap());
        cleared.world.files.replace(Slot(0), &[b"new"], Expect::Any).unwrap();
        assert_eq!(fs::read_dir(tree.root.join("dir")).unwrap().count(), 1);
        let again = allow(contain(&guard, "dir/a.txt", WRITE).unwrap());
        assert_ne!(again.temporaries, cleared.temporaries);
    }
}

#[test]
fn nothing_but_a_temporary_file_is_removed() {
    let name = ".sinew-0123456789abcdef01234567.tmp";
    for resolver in RESOLVERS {
        let tree = Tree::new().with(&[("a.txt", "kept"), ("real/x", "")]);
        let guard = tree.guard(resolver);
        tree.link("linked", "real");
        tree.write(&format!("real/{name}"), "kept");
        fs::create_dir(tree.root.join(name)).unwrap();
        fs::write(tree.outside.join(name), "kept").unwrap();
        tree.write("real/.sinew-0123.tmp", "kept");
        tree.write("real/.sinew-0123456789ABCDEF01234567.tmp", "kept");
        let before = tree.everything();
        for path in [
            tree.root.join("a.txt"),
            tree.root.join(name),
            tree.outside.join(name),
            tree.root.join("linked").join(name),
            tree.root.join("real/../real").join(name),
            tree.root.join("real/.sinew-0123.tmp"),
            tree.root.join("real/.sinew-0123456789ABCDEF01234567.tmp"),
        ] {
            assert!(guard.remove_temporary(&path).is_err(), "{}", path.display());
        }
        assert!(before == tree.everything());
        assert!(guard.remove_temporary(&tree.root.join("real").join(name)).unwrap());
    }
}

//! Stored outputs: kept beside the work, out of git's sight, never through a link.

use std::fs;

use sinew_tool::{Access, Kind};

use crate::tree::{RESOLVERS, Tree, WRITE, contain, read};

#[test]
fn a_stored_output_can_be_read_back_and_not_written() {
    for resolver in RESOLVERS {
        let tree = Tree::new();
        let guard = tree.guard(resolver);
        let store = guard.store();
        let path = store.put("toolu_01-x", "full output").unwrap();
        assert_eq!(path, ".sinew/tool-output/toolu_01-x.txt");
        assert_eq!(read(&guard, &path).unwrap(), "full output");
        assert_eq!(tree.read(".sinew/.gitignore"), "*\n");
        let denied = contain(&guard, &path, WRITE).unwrap_err();
        assert_eq!(denied.kind, Kind::PathDenied);
        let other = store.put("toolu_01-x", "again").unwrap();
        assert_eq!(other, ".sinew/tool-output/toolu_01-x-2.txt");
        assert_eq!(tree.read(&other), "again");
        assert_eq!(tree.read(&path), "full output", "the id of another call takes nothing away");
        assert!(contain(&guard, ".sinew/tool-output", Access::Search).is_ok());
    }
}

#[test]
fn ids_that_could_leave_the_store_are_refused() {
    let tree = Tree::new();
    let store = tree.guard(RESOLVERS[0]).store();
    for id in ["../x", "", "a/b", &"x".repeat(257)] {
        assert!(store.put(id, "x").is_err(), "{id}");
    }
    let paths = [200, 201, 256].map(|n| store.put(&"x".repeat(n), "x").unwrap());
    assert!(paths[0] != paths[1] && paths[1] != paths[2]);
    assert!(paths.iter().all(|path| tree.read(path) == "x"));
}

#[test]
fn links_and_hard_links_planted_in_the_store_are_not_followed() {
    let tree = Tree::new();
    let store = tree.guard(RESOLVERS[0]).store();
    tree.link(".sinew", &tree.outside);
    assert!(store.put("a", "x").is_err());
    fs::remove_file(tree.root.join(".sinew")).unwrap();
    let secret = tree.outside.join("secret.txt");
    fs::create_dir_all(tree.root.join(".sinew/tool-output")).unwrap();
    tree.link(".sinew/tool-output/a.txt", &secret);
    fs::hard_link(&secret, tree.root.join(".sinew/tool-output/b.txt")).unwrap();
    for id in ["a", "b"] {
        let path = store.put(id, "output").unwrap();
        assert_eq!(fs::read_to_string(&secret).unwrap(), "SECRET");
        assert_eq!(path, format!(".sinew/tool-output/{id}-2.txt"));
        assert_eq!(tree.read(&path), "output");
    }
}

//! Stored outputs: kept beside the work, out of git's sight, never through a link.

use std::fs;

use sinew_guard::Rules;
use sinew_tool::{Access, FileSettings, Kind};

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
fn extensions_are_short_and_plain() {
    let tree = Tree::new();
    let store = tree.guard(RESOLVERS[0]).store();
    for (id, extension, name) in [
        ("a", "zip", "a.zip"),
        ("b", "7Z", "b.7Z"),
        ("c", "", "c.bin"),
        ("d", "../x", "d.bin"),
        ("e", "tar gz", "e.bin"),
        ("f", "ninechars", "f.bin"),
        ("a", "zip", "a-2.zip"),
    ] {
        let path = store.put_as(id, "x", extension).unwrap();
        assert_eq!(path, format!(".sinew/tool-output/{name}"));
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

/// Other programs may keep output there too, so nothing is removed or replaced, and nothing more is kept.
#[test]
fn bounded_store_is_full_at_its_limits() {
    let tree = Tree::new();
    let store = tree.guard(RESOLVERS[0]).store_in(".molf", &[], &Rules::default()).unwrap();
    assert_eq!(store.put("a", "x").unwrap(), ".molf/tool-output/a.txt");
    assert_eq!(tree.read(".molf/tool-output/.gitignore"), "*\n");
    assert!(!tree.root.join(".molf/.gitignore").exists());
    assert_eq!(store.put("a", "y").unwrap(), ".molf/tool-output/a-2.txt");
    let large = fs::File::create(tree.root.join(".molf/tool-output/large")).unwrap();
    large.set_len(1 << 30).unwrap();
    let error = store.put("b", "x").unwrap_err();
    assert!(error.message.contains(".molf/tool-output/: at most 1000 entries"), "{error}");
    large.set_len(0).unwrap();
    // Three are there, without `.gitignore`.
    for n in 0..996 {
        tree.write(&format!(".molf/tool-output/{n}"), "");
    }
    assert!(store.put("last", "x").is_ok());
    assert!(store.put("more", "x").is_err());
    assert!(store.begin("more").is_err());
    store.remove(".molf/tool-output/last.txt");
    assert!(store.put("more", "x").is_ok());
    store.remove(".sinew/tool-output/a.txt");
    assert_eq!(tree.read(".molf/tool-output/a.txt"), "x");
}

#[test]
fn bounded_store_follows_no_link() {
    let tree = Tree::new();
    let store = tree.guard(RESOLVERS[0]).store_in(".molf", &[], &Rules::default()).unwrap();
    tree.write("inside/x", "");
    for target in [tree.outside.clone(), tree.root.join("inside")] {
        tree.link(".molf", &target);
        assert!(store.put("a", "x").is_err() && store.begin("a").is_err());
        fs::remove_file(tree.root.join(".molf")).unwrap();
        fs::create_dir(tree.root.join(".molf")).unwrap();
        tree.link(".molf/tool-output", &target);
        let error = store.put("a", "x").unwrap_err();
        assert!(error.message.ends_with("it is not a directory"), "{error}");
        fs::remove_dir_all(tree.root.join(".molf")).unwrap();
    }
    assert_eq!(fs::read_dir(&tree.outside).unwrap().count(), 1);
    assert_eq!(fs::read_dir(tree.root.join("inside")).unwrap().count(), 1);
}

#[test]
fn bounded_store_obeys_path_rules() {
    let tree = Tree::new();
    let deny_paths = vec![String::from("**/.molf/**")];
    let files = FileSettings { deny_paths, ..FileSettings::default() };
    let guard = tree.guard_with(RESOLVERS[0], files);
    assert!(guard.store_in(".molf", &[], &Rules::default()).is_none());
    assert!(guard.store_in(".other", &[], &Rules::default()).is_some());
}

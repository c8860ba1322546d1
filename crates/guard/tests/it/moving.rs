//! Directories that are made and things that get other names, on real trees.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use sinew_guard::Guard;
use sinew_tool::{Access, Claim, FileSettings, Links, Slot, ToolError, Verdict};

use crate::tree::{RESOLVERS, Tree, allow, approve, judged, skipped, world};

fn claims(from: &str, to: &str) -> Vec<Claim> {
    let write = Access::Write { parents: false, links: Links::Itself };
    let claim = |argument, path: &str, access| Claim::new(argument, Some(path.to_owned()), access);
    vec![claim("source", from, Access::Move), claim("destination", to, write)]
}

fn rename(guard: &Arc<Guard>, from: &str, to: &str) -> Result<(), ToolError> {
    let contained = guard.contain(&claims(from, to), None, None)?;
    allow(contained).world.files.rename(Slot(0)).map_err(|error| error.about("it"))
}

/// Moves a path and compares what became of it: the error, or the content at the new name.
#[track_caller]
fn check(tree: &Tree, from: &str, to: &str, expected: Result<&str, &str>) {
    for resolver in RESOLVERS {
        let before = tree.everything();
        let done = rename(&tree.guard(resolver), from, to);
        match (done, expected) {
            (Ok(()), Ok(content)) => {
                assert_eq!(tree.read(content), "x", "{from} {to}");
                assert!(fs::symlink_metadata(tree.root.join(from)).is_err(), "{from} is left");
                // Back, for the other way to resolve.
                fs::rename(tree.root.join(to), tree.root.join(from)).unwrap();
            }
            (Err(error), Err(words)) => {
                assert!(error.message.contains(words), "{from} {to}: {error} instead of {words}");
                assert_eq!(tree.everything(), before, "{from} {to}");
            }
            (done, expected) => {
                assert!(
                    done.is_ok() == expected.is_ok(),
                    "{from} {to}: {done:?}, not {expected:?}"
                );
            }
        }
    }
}

#[test]
fn things_are_moved_whole_and_over_nothing() {
    let tree = Tree::new().with(&[("a/file", "x"), ("b/there", "y"), ("plain", "x")]);
    tree.link("link", "plain");
    check(&tree, "plain", "b/moved", Ok("b/moved"));
    check(&tree, "a", "b/a", Ok("b/a/file"));
    check(&tree, "link", "other", Ok("other"));
    check(&tree, "plain", "b/there", Err("something is there already"));
    check(&tree, "plain", "link", Err("something is there already"));
    check(&tree, "plain", "plain", Err("something is there already"));
    check(&tree, "plain", "b", Err("something is there already"));
    check(&tree, "a", "b", Err("something is there already"));
    check(&tree, "a", "a/a", Err("moved into itself"));
    check(&tree, ".", "a/root", Err("moved into itself"));
    check(&tree, "none", "new", Err("no such file"));
    check(&tree, "none/x", "new", Err("no such file"));
    check(&tree, "plain", "none/new", Err("the parent directory does not exist"));
    check(&tree, "plain", "../outside/new", Err("path denied"));
    check(&tree, "../outside/secret.txt", "new", Err("path denied"));
}

#[test]
fn a_file_keeps_its_inode_mode_and_other_names() {
    use std::os::unix::fs::MetadataExt;

    let tree = Tree::new().with(&[("file", "x")]);
    let path = tree.root.join("file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    fs::hard_link(&path, tree.root.join("second")).unwrap();
    let before = fs::metadata(&path).unwrap();
    rename(&tree.guard(RESOLVERS[0]), "file", "new").unwrap();
    let after = fs::metadata(tree.root.join("new")).unwrap();
    assert_eq!((after.ino(), after.mode(), after.nlink()), (before.ino(), before.mode(), 2));
}

/// A directory would take along what its own name does not tell.
#[test]
fn what_lies_beneath_is_judged_where_it_is_and_where_it_goes() {
    let tree = Tree::new().with(&[
        ("secret/key", "x"),
        ("plain/workflows/a.yml", "x"),
        ("mine/CLAUDE.md", "x"),
        ("state/.sinew/config.toml", "x"),
    ]);
    let root = tree.root.display().to_string();
    for (deny, from, to) in [
        (format!("{root}/secret/key"), "secret", "open"),
        (format!("{root}/open/*"), "plain", "open"),
        (format!("{root}/open/workflows/*"), "plain", "open"),
    ] {
        let files = FileSettings { deny_paths: vec![deny], ..FileSettings::default() };
        let guard = tree.guard_with(RESOLVERS[0], files);
        let error = rename(&guard, from, to).unwrap_err();
        assert!(error.message.contains("path denied"), "{error}");
        assert!(tree.root.join(from).is_dir());
    }
    let guard = tree.guard(RESOLVERS[0]);
    assert!(rename(&guard, "state", "moved").unwrap_err().message.contains("path denied"));
    for (from, to, protected) in [
        ("plain", ".github", Some(".github/workflows/")),
        ("mine", "yours", Some("CLAUDE.md")),
        ("plain", ".git", Some(".git/")),
        ("plain", "other", None),
    ] {
        let contained = guard.contain(&claims(from, to), None, None).unwrap();
        let found: Vec<_> =
            contained.targets().files.iter().filter_map(|target| target.protected).collect();
        assert_eq!(found.first().copied(), protected, "{from} {to}");
        let verdict = judged(contained, sinew_guard::Profile::Full).ruling().verdict;
        let expected = if protected.is_some() { Verdict::Ask } else { Verdict::Allow };
        assert_eq!(verdict, expected, "{from} {to}");
    }
}

/// A file that was put there after the answer was never judged.
#[test]
fn what_appears_beneath_after_the_ruling_is_not_taken_along() {
    let tree = Tree::new().with(&[("plain/a", "x")]);
    let guard = tree.guard(RESOLVERS[0]);
    let contained = guard.contain(&claims("plain", "new"), None, None).unwrap();
    let world = allow(contained).world;
    tree.write("plain/CLAUDE.md", "x");
    let error = world.files.rename(Slot(0)).unwrap_err().about("it");
    assert!(error.message.contains("changed meanwhile"), "{error}");
    let contained = guard.contain(&claims("plain/a", "b"), None, None).unwrap();
    let world = approve(contained).world;
    tree.write("plain/a", "other");
    let error = world.files.rename(Slot(0)).unwrap_err().about("it");
    assert!(error.message.contains("changed meanwhile"), "{error}");
}

#[test]
fn two_file_systems_are_told() {
    let tree = Tree::new().with(&[("file", "x")]);
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
        return skipped("there is no second file system");
    };
    let device = |path: &Path| std::os::unix::fs::MetadataExt::dev(&fs::metadata(path).unwrap());
    if device(other.path()) == device(&tree.root) {
        return skipped("/dev/shm is the file system of the tests");
    }
    let roots = vec![tree.root.clone(), other.path().to_owned()];
    let guard = Guard::open(sinew_guard::GuardSettings::new(roots)).unwrap();
    let to = other.path().join("file").display().to_string();
    let error = rename(&guard, "file", &to).unwrap_err();
    assert!(error.message.contains("cannot cross file systems"), "{error}");
    assert_eq!(tree.read("file"), "x");
}

#[test]
fn directories_are_made_with_those_above() {
    let tree = Tree::new().with(&[("file", "x"), ("there/x", "")]);
    symlink("there", tree.root.join("to-there")).unwrap();
    symlink("nothing", tree.root.join("dangling")).unwrap();
    symlink(&tree.outside, tree.root.join("out")).unwrap();
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        for (path, expected) in [
            ("new", Ok(true)),
            ("a/b/c", Ok(true)),
            ("a/b", Ok(false)),
            ("there", Ok(false)),
            (".", Ok(false)),
            ("to-there", Ok(false)),
            ("to-there/deep/er", Ok(true)),
            ("file", Err("something is there already")),
            ("file/x", Err("not a directory")),
            ("dangling", Err("no such file")),
            ("dangling/x", Err("no such file")),
            ("out/x", Err("path denied")),
            (".sinew/x", Err("path denied")),
            ("../x", Err("path denied")),
        ] {
            let made = world(&guard, path, Access::Make)
                .and_then(|w| w.files.make_directory(Slot(0)).map_err(|e| e.about(path)));
            match (made, expected) {
                (Ok(made), Ok(expected)) => {
                    assert_eq!(made, expected, "{path}");
                    assert!(tree.root.join(path).is_dir(), "{path}");
                }
                (Err(error), Err(words)) => {
                    assert!(error.message.contains(words), "{path}: {error}");
                }
                (made, expected) => {
                    assert!(made.is_ok() == expected.is_ok(), "{path}: {made:?}, not {expected:?}");
                }
            }
        }
        for path in ["new", "a", "there/deep"] {
            fs::remove_dir_all(tree.root.join(path)).unwrap();
        }
    }
    assert!(!tree.outside.join("x").exists());
}

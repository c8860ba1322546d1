//! No path leads out of the roots, whatever its spelling.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use sinew_guard::{Guard, GuardSettings, Profile};
use sinew_tool::{Access, Claim, FileKind, FileState, Kind, Links};

use crate::tree::{EDIT, RESOLVERS, Tree, WRITE, contain, judged, read, replace};

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    To(&'static str),
    ToDirectory,
    Nowhere,
    Refused(Kind),
}
use Leads::{Nowhere, Refused, To, ToDirectory};

fn tree() -> Tree {
    let tree = Tree::new().with(&[
        ("inside.txt", "inside"),
        ("dir/beside.txt", "beside"),
        ("dir/deep/file.txt", "deep"),
        ("%2e%2e/odd.txt", "percent"),
        ("back\\slash.txt", "backslash"),
        ("~", "tilde"),
        ("$HOME", "dollar"),
        ("trailing .", "blank and dot"),
    ]);
    let (root, outside) = (&tree.root, &tree.outside);
    tree.link("up", "dir/deep");
    tree.link("up_up", "up/../..");
    tree.link("abs_in", root.join("dir"));
    tree.link("abs_file", root.join("inside.txt"));
    tree.link("back_in", "../ws/inside.txt");
    tree.link("out", outside);
    tree.link("out_file", outside.join("secret.txt"));
    tree.link("out_relative", "../outside/secret.txt");
    tree.link("dangling", "nowhere");
    tree.link("dangling_out", outside.join("new.txt"));
    tree.link("loop", "loop");
    tree.link("loop_a", "loop_b");
    tree.link("loop_b", "loop_a");
    tree.link("magic", "/proc/self/root");
    tree.link("magic_cwd", "/proc/self/cwd/inside.txt");
    fs::create_dir(tree.top.join("ws-evil")).unwrap();
    fs::write(tree.top.join("ws-evil/secret.txt"), "SECRET").unwrap();
    tree
}

fn check(tree: &Tree, path: &str, expected: Leads) {
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        let contained = contain(&guard, path, Access::Read);
        let found = match &contained {
            Err(error) => Refused(error.kind),
            Ok(contained) => match &contained.targets().files[0].state {
                FileState::Missing => Nowhere,
                FileState::Found(meta) if meta.kind == FileKind::Directory => ToDirectory,
                FileState::Found(_) => To(""),
            },
        };
        match (expected, found) {
            (To(content), To(_)) => {
                assert_eq!(read(&guard, path).unwrap(), content, "{path} {resolver:?}");
            }
            (expected, found) => assert_eq!(expected, found, "{path:.100} {resolver:?}"),
        }
    }
}

/// Relative and absolute paths, and where they lead in [`tree`].
const PATHS: &[(&str, Leads)] = &[
    ("inside.txt", To("inside")),
    ("./inside.txt", To("inside")),
    ("dir//deep/./file.txt", To("deep")),
    (".", ToDirectory),
    ("dir/", ToDirectory),
    ("dir/.", ToDirectory),
    ("dir/deep/..", ToDirectory),
    ("up/", ToDirectory),
    ("up_up", ToDirectory),
    ("dir/../inside.txt", To("inside")),
    // Lexically this is `beside.txt`; for the kernel it is `dir/beside.txt`.
    ("up/../beside.txt", To("beside")),
    ("up/../../inside.txt", To("inside")),
    ("up_up/inside.txt", To("inside")),
    ("up/../../../outside/secret.txt", Refused(Kind::PathDenied)),
    ("../ws/inside.txt", To("inside")),
    ("back_in", To("inside")),
    ("../outside/secret.txt", Refused(Kind::PathDenied)),
    ("..", Refused(Kind::PathDenied)),
    ("../../../../../../../../etc/passwd", Refused(Kind::PathDenied)),
    ("missing/../inside.txt", Nowhere),
    ("missing/../../ws/inside.txt", Nowhere),
    ("missing/../../outside/secret.txt", Refused(Kind::PathDenied)),
    ("missing/a/../../../nothing", Refused(Kind::PathDenied)),
    ("dangling/../../outside/secret.txt", Refused(Kind::PathDenied)),
    ("abs_in/deep/file.txt", To("deep")),
    ("abs_in/../inside.txt", To("inside")),
    ("abs_file", To("inside")),
    ("out", Refused(Kind::PathDenied)),
    ("out/secret.txt", Refused(Kind::PathDenied)),
    ("out/../ws/inside.txt", Refused(Kind::PathDenied)),
    ("out_file", Refused(Kind::PathDenied)),
    ("out_relative", Refused(Kind::PathDenied)),
    ("dangling", Nowhere),
    ("dangling/x", Nowhere),
    ("dangling_out", Refused(Kind::PathDenied)),
    ("nothing", Nowhere),
    ("nothing/at/all", Nowhere),
    ("nothing/", Nowhere),
    ("loop", Refused(Kind::InvalidPath)),
    ("loop_a/x", Refused(Kind::InvalidPath)),
    ("inside.txt/", Refused(Kind::NotRegularFile)),
    ("inside.txt/.", Refused(Kind::NotRegularFile)),
    ("inside.txt/x", Refused(Kind::NotRegularFile)),
    ("inside.txt/..", Refused(Kind::NotRegularFile)),
    ("magic", Refused(Kind::PathDenied)),
    ("magic/etc/passwd", Refused(Kind::PathDenied)),
    ("magic_cwd", Refused(Kind::PathDenied)),
    ("/proc/self/root/etc/passwd", Refused(Kind::PathDenied)),
    ("/proc/self/cwd/inside.txt", Refused(Kind::PathDenied)),
    ("/dev/stdin", Refused(Kind::PathDenied)),
    ("/dev/fd/0", Refused(Kind::PathDenied)),
    ("/etc/passwd", Refused(Kind::PathDenied)),
    ("/", Refused(Kind::PathDenied)),
    ("%2e%2e/odd.txt", To("percent")),
    ("%2e%2e/outside/secret.txt", Nowhere),
    ("..\\outside\\secret.txt", Nowhere),
    ("back\\slash.txt", To("backslash")),
    ("~", To("tilde")),
    ("~/secret.txt", Refused(Kind::NotRegularFile)),
    ("~root/secret.txt", Nowhere),
    ("$HOME", To("dollar")),
    ("file:///etc/passwd", Nowhere),
    ("trailing .", To("blank and dot")),
    ("inside.txt ", Nowhere),
    ("inside.txt.", Nowhere),
    ("INSIDE.TXT", Nowhere),
];

#[test]
fn paths_lead_where_the_kernel_says_or_nowhere() {
    let tree = tree();
    let long_name = "n".repeat(256);
    let long_path = "a/".repeat(2_500);
    for (path, expected) in PATHS {
        check(&tree, path, *expected);
    }
    let cases: &[(&str, Leads)] = &[
        ("", Refused(Kind::InvalidPath)),
        ("a\0b", Refused(Kind::InvalidPath)),
        ("inside.txt\0", Refused(Kind::InvalidPath)),
        (&long_name, Refused(Kind::InvalidPath)),
        (&long_path, Refused(Kind::InvalidPath)),
    ];
    for (path, expected) in cases {
        check(&tree, path, *expected);
    }
    let absolute = |path: &str| format!("{}{path}", tree.root.display());
    for (path, expected) in [
        ("", ToDirectory),
        ("/", ToDirectory),
        ("/inside.txt", To("inside")),
        ("//dir/../inside.txt", To("inside")),
        ("/../ws/inside.txt", To("inside")),
        ("/../outside/secret.txt", Refused(Kind::PathDenied)),
        ("-evil/secret.txt", Refused(Kind::PathDenied)),
        ("/../ws-evil/secret.txt", Refused(Kind::PathDenied)),
    ] {
        check(&tree, &absolute(path), expected);
    }
}

#[test]
fn twins_of_unicode_are_different_names() {
    let tree = Tree::new().with(&[("caf\u{e9}", "composed")]);
    check(&tree, "caf\u{e9}", To("composed"));
    check(&tree, "cafe\u{301}", Nowhere);
}

#[test]
fn names_that_are_not_text_are_reached_through_links() {
    let tree = Tree::new();
    let name = std::ffi::OsStr::from_bytes(b"odd-\xff");
    fs::write(tree.root.join(name), "odd").unwrap();
    tree.link("link", name);
    check(&tree, "link", To("odd"));
    for resolver in RESOLVERS {
        let contained = contain(&tree.guard(resolver), "link", Access::Read).unwrap();
        assert_eq!(contained.targets().files[0].path, tree.root.join(name));
    }
}

#[test]
fn a_root_is_known_by_both_of_its_spellings() {
    let tree = Tree::new().with(&[("inside.txt", "inside")]);
    let given = tree.top.join("given");
    std::os::unix::fs::symlink(&tree.root, &given).unwrap();
    for resolver in RESOLVERS {
        let settings = GuardSettings { resolver, ..GuardSettings::new(vec![given.clone()]) };
        let guard = Guard::open(settings).unwrap();
        assert_eq!(guard.roots().collect::<Vec<_>>(), [tree.root.as_path()]);
        for spelling in [&given, &tree.root] {
            let path = spelling.join("inside.txt").display().to_string();
            assert_eq!(read(&guard, &path).unwrap(), "inside");
        }
        assert_eq!(read(&guard, "../given/inside.txt").unwrap_err().kind, Kind::PathDenied);
    }
}

#[test]
fn roots_that_cannot_be_opened_are_errors_at_start() {
    let tree = Tree::new().with(&[("file", "")]);
    for (path, words) in [("missing", "does not exist"), ("file", "not a directory")] {
        let error = Guard::open(GuardSettings::new(vec![tree.root.join(path)])).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(Guard::open(GuardSettings::new(Vec::new())).is_err());
}

#[test]
fn several_roots_may_touch_and_nest() {
    let tree = Tree::new().with(&[("sub/inner.txt", "inner"), ("outer.txt", "outer")]);
    let other = tree.top.join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("o.txt"), "other").unwrap();
    tree.link("to_other", "../other/o.txt");
    for resolver in RESOLVERS {
        let roots = vec![tree.root.join("sub"), tree.root.clone(), other.clone()];
        let settings = GuardSettings { resolver, ..GuardSettings::new(roots) };
        let guard = Guard::open(settings).unwrap();
        for (path, content) in [
            ("inner.txt", "inner"),
            ("../outer.txt", "outer"),
            ("../sub/inner.txt", "inner"),
            ("../../other/o.txt", "other"),
            ("../to_other", "other"),
        ] {
            assert_eq!(read(&guard, path).unwrap(), content, "{path} {resolver:?}");
        }
        assert_eq!(read(&guard, "../../outside/secret.txt").unwrap_err().kind, Kind::PathDenied);
        let contained = contain(&guard, "inner.txt", Access::Read).unwrap();
        assert_eq!(contained.targets().files[0].root, tree.root.join("sub"));
    }
}

#[test]
fn a_request_can_narrow_the_roots_and_never_widen_them() {
    let tree = Tree::new().with(&[("sub/inner.txt", "inner"), ("outer.txt", "outer")]);
    tree.link("sub/up", "../outer.txt");
    let claim = |path: &str| Claim::new("path", Some(path.to_owned()), Access::Read);
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        let narrowed = [tree.root.join("sub")];
        let contain = |path| guard.contain(&[claim(path)], None, Some(&narrowed));
        assert_eq!(contain("inner.txt").unwrap().cwd().as_ref(), narrowed[0]);
        for path in ["../outer.txt", "up", &tree.root.join("outer.txt").display().to_string()] {
            assert_eq!(contain(path).unwrap_err().kind, Kind::PathDenied, "{path}");
        }
        let wide = [tree.top.clone()];
        let error = guard.contain(&[claim("x")], None, Some(&wide)).unwrap_err();
        assert_eq!(error.kind, Kind::PathDenied);
        assert!(guard.contain(&[], None, Some(&[])).is_err());
    }
}

#[test]
fn the_working_directory_of_a_call_lies_beneath_a_root() {
    let tree = Tree::new().with(&[("dir/deep/file.txt", "deep")]);
    tree.link("link", "dir/deep");
    tree.link("out", &tree.outside);
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        let claim = Claim::new("path", Some("file.txt".into()), Access::Read);
        let contain =
            |cwd: &str| guard.contain(std::slice::from_ref(&claim), Some(cwd.as_ref()), None);
        for cwd in ["dir/deep", "link", &tree.root.join("link").display().to_string()] {
            let contained = contain(cwd).unwrap();
            assert_eq!(contained.cwd().as_ref(), tree.root.join("dir/deep"));
            assert_eq!(contained.targets().files[0].path, tree.root.join("dir/deep/file.txt"));
        }
        for (cwd, kind) in [
            ("..", Kind::PathDenied),
            ("out", Kind::PathDenied),
            ("/etc", Kind::PathDenied),
            ("nothing", Kind::FileNotFound),
            ("dir/deep/file.txt", Kind::NotRegularFile),
        ] {
            assert_eq!(contain(cwd).unwrap_err().kind, kind, "{cwd}");
        }
    }
}

#[test]
fn errors_name_the_argument_and_the_way_out() {
    let tree = Tree::new();
    let error = contain(&tree.guard(RESOLVERS[0]), "../x", Access::Read).unwrap_err();
    assert_eq!(error.message, "argument `path`: path denied: ../x");
    let hint = error.hint.unwrap();
    assert!(hint.contains(&tree.root.display().to_string()) && hint.contains("--root"), "{hint}");
}

#[test]
fn changes_through_links_stay_inside_or_are_refused() {
    for resolver in RESOLVERS {
        let tree = tree();
        let guard = tree.guard(resolver);
        let before = tree.everything();
        let refuse = Access::Edit { links: Links::Refuse };
        let refuse_write = Access::Write { parents: true, links: Links::Refuse };
        for (path, access, kind) in [
            ("out_file", EDIT, Kind::PathDenied),
            ("out_file", WRITE, Kind::PathDenied),
            ("out/new.txt", WRITE, Kind::PathDenied),
            ("dangling_out", WRITE, Kind::PathDenied),
            ("dangling", WRITE, Kind::FileNotFound),
            ("dangling/new.txt", WRITE, Kind::FileNotFound),
            ("abs_file", refuse, Kind::NotRegularFile),
            ("abs_file", refuse_write, Kind::NotRegularFile),
            ("dangling", refuse_write, Kind::NotRegularFile),
            // It had counted as missing, though nothing at that path is inside.
            ("new/../../outside/x", WRITE, Kind::PathDenied),
            ("new/../x", WRITE, Kind::FileNotFound),
            ("new/", WRITE, Kind::FileNotFound),
            ("dir", WRITE, Kind::NotRegularFile),
            (".", WRITE, Kind::NotRegularFile),
            ("nothing.txt", EDIT, Kind::FileNotFound),
            (
                "nothing/x.txt",
                Access::Write { parents: false, links: Links::Follow },
                Kind::FileNotFound,
            ),
        ] {
            let error = replace(&guard, path, access, "CHANGED").unwrap_err();
            assert_eq!(error.kind, kind, "{path} {resolver:?}: {error}");
            assert!(before == tree.everything(), "{path} {resolver:?} changed something");
        }
        replace(&guard, "abs_file", EDIT, "changed").unwrap();
        assert_eq!(tree.read("inside.txt"), "changed");
        assert!(fs::symlink_metadata(tree.root.join("abs_file")).unwrap().is_symlink());
        let written = replace(&guard, "new/sub/dir/file.txt", WRITE, "made").unwrap();
        assert!(written.created);
        assert_eq!(tree.read("new/sub/dir/file.txt"), "made");
    }
}

#[test]
fn a_preview_and_a_call_that_looks_change_nothing() {
    let tree = Tree::new().with(&[("a.txt", "a")]);
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        let contained = contain(&guard, "a.txt", EDIT).unwrap();
        let world = judged(contained, Profile::Workspace).looking().unwrap();
        let error = world.files.replace(sinew_tool::Slot(0), &[b"x"], sinew_tool::Expect::Any);
        assert!(error.is_err());
        assert_eq!(
            std::io::read_to_string(world.files.open(sinew_tool::Slot(0)).unwrap().file).unwrap(),
            "a"
        );
        assert_eq!(replace(&guard, "a.txt", Access::Read, "x").unwrap_err().kind, Kind::PathDenied);
        assert_eq!(tree.read("a.txt"), "a");
    }
}

const PARTS: &[&str] = &["a", "b", "c", "l", "m", "..", "..", ".", "a/b", "l/m"];
const LINK_TARGETS: &[&str] = &[
    "a", "b/c", "..", "../b", ".", "l", "m", "../..", "ROOT/a", "ROOT/l", "ROOT", "a/../b",
    "../ws/a",
];
const PLACES: &[&str] = &["a", "b", "c", "a/b", "a/c", "b/c", "l", "m", "a/l", "b/m", "a/b/m"];

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 300,
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    })]

    /// The kernel's own answer, `realpath`, is the oracle: where it leads into the root, the guard
    /// finds the same file; where it leads out, the guard refuses.
    #[test]
    fn random_paths_lead_where_realpath_says(
        directories in proptest::collection::vec(proptest::sample::select(PLACES), 0..6),
        links in proptest::collection::vec(
            (proptest::sample::select(PLACES), proptest::sample::select(LINK_TARGETS)), 0..6),
        link_out in proptest::option::of(proptest::sample::select(PLACES)),
        paths in proptest::collection::vec(
            proptest::collection::vec(proptest::sample::select(PARTS), 1..7), 12),
    ) {
        let tree = Tree::new();
        for place in directories {
            let _ = fs::create_dir_all(tree.root.join(place));
        }
        let link = |place: &str, target: &str| {
            let target = target.replace("ROOT", &tree.root.display().to_string());
            let place = tree.root.join(place);
            // An earlier link may lead out of the root, and nothing is planted there.
            let parent = fs::canonicalize(place.parent().unwrap())?;
            if !parent.starts_with(&tree.root) {
                return Err(std::io::ErrorKind::PermissionDenied.into());
            }
            std::os::unix::fs::symlink(target, place)
        };
        for (place, target) in links {
            let _ = link(place, target);
        }
        let leaves = link_out.is_some_and(|place| link(place, "../outside").is_ok());
        for resolver in RESOLVERS {
            let guard = tree.guard(resolver);
            for parts in &paths {
                let path = parts.join("/");
                let ours = contain(&guard, &path, Access::Read);
                match (fs::canonicalize(tree.root.join(&path)), ours) {
                    (Ok(real), Ok(contained)) => {
                        let target = &contained.targets().files[0];
                        proptest::prop_assert!(real.starts_with(&tree.root), "{} leaks", path);
                        proptest::prop_assert_eq!(&target.path, &real);
                        proptest::prop_assert!(target.state != FileState::Missing);
                    }
                    // Only what passes through the outside on its way back in is refused.
                    (Ok(real), Err(error)) => {
                        proptest::prop_assert_eq!(error.kind, Kind::PathDenied);
                        proptest::prop_assert!(leaves || !real.starts_with(&tree.root), "{}", path);
                    }
                    (Err(_), Ok(contained)) => proptest::prop_assert_eq!(
                        &contained.targets().files[0].state,
                        &FileState::Missing
                    ),
                    (Err(_), Err(_)) => {}
                }
            }
        }
    }
}

//! Whatever a session did, everything comes back as it was before any of its calls.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use proptest::prelude::*;

use super::*;

/// Names that a tree may have, also such as no text shows.
const PATHS: &[&[u8]] = &[
    b"a",
    b"b",
    b"d",
    b"d/a",
    b"d/e/b",
    b"d/e/c",
    b"n/e/w",
    b"l",
    b"line\nbreak",
    b"d/\xff\xfe.txt",
    b" ",
    b"-rf",
    b"\xe2\x80\xae.txt",
];
const MODES: &[u32] = &[0o644, 0o755, 0o600, 0o444, 0o4755, 0o1640];
const TARGETS: &[&str] = &["a", "d", "nothing", "../outside/secret.txt", "/etc/passwd"];

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::sample::select(vec![&b""[..], b"one\n", b"two\r\n"]).prop_map(<[u8]>::to_vec),
        (any::<u8>(), 0..20_000_usize).prop_map(|(byte, n)| vec![byte; n]),
        prop::collection::vec(any::<u8>(), 4_000..6_000),
    ]
}

fn deed() -> impl Strategy<Value = TestedOp> {
    let path = || prop::sample::select(PATHS).prop_map(|path| OsStr::from_bytes(path).to_owned());
    let mode = || prop::sample::select(MODES);
    prop_oneof![
        4 => (path(), content(), mode()).prop_map(|(path, content, mode)| TestedOp::Put(path, content, mode)),
        1 => (path(), prop::sample::select(TARGETS)).prop_map(|(path, to)| TestedOp::Link(path, to)),
        2 => path().prop_map(TestedOp::Remove),
    ]
}

/// Returns the deeds of a call that can be done, each at a path of its own. A file in the way of a
/// directory is removed first.
fn possible(bench: &Bench, deeds: &[TestedOp]) -> Vec<TestedOp> {
    let mut paths: Vec<&OsStr> = Vec::new();
    let mut all = Vec::new();
    for deed in deeds {
        let path = bench.tree.root.join(deed.path());
        let meta = fs::symlink_metadata(&path);
        let beside = |other: &&OsStr| {
            Path::new(other).starts_with(deed.path()) || Path::new(deed.path()).starts_with(other)
        };
        let is_directory = meta.as_ref().is_ok_and(fs::Metadata::is_dir);
        let is_nothing = matches!(deed, TestedOp::Remove(_)) && meta.is_err();
        if is_directory || is_nothing || paths.iter().any(beside) {
            continue;
        }
        let above = Path::new(deed.path()).ancestors().skip(1);
        let in_the_way = above.filter(|above| !above.as_os_str().is_empty()).find(|above| {
            let meta = fs::symlink_metadata(bench.tree.root.join(above));
            meta.is_ok_and(|meta| !meta.is_dir())
        });
        if let Some(above) = in_the_way {
            if paths.iter().any(|path| Path::new(path).starts_with(above)) {
                continue;
            }
            all.push(TestedOp::Remove(above.as_os_str().to_owned()));
        }
        paths.push(deed.path());
        all.push(deed.clone());
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_checkpoint_comes_back(
        first in prop::collection::vec(deed(), 0..6),
        script in prop::collection::vec(prop::collection::vec(deed(), 1..4), 1..40),
    ) {
        let bench = Bench::new();
        for deed in possible(&bench, &first) {
            if !matches!(deed, TestedOp::Remove(_)) {
                do_it(&bench.tree.root, &deed);
            }
        }
        let mut before = Vec::new();
        for deeds in &script {
            let deeds = possible(&bench, deeds);
            if !deeds.is_empty() {
                let tree = bench.snapshot();
                before.push((bench.call("s", &deeds), tree));
            }
        }
        let last = bench.snapshot();
        for (id, tree) in before.iter().rev() {
            let restored = bench.restore(*id, Scope::Since, false);
            prop_assert_eq!(&without_set_ids(bench.snapshot()), &without_set_ids(tree.clone()), "{}", id);
            // A restore is a change like any other.
            if let Some(restored) = restored {
                bench.restore(restored, Scope::Only, false);
            }
            prop_assert_eq!(&without_set_ids(bench.snapshot()), &without_set_ids(last.clone()), "{}", id);
        }
    }
}

/// Set-id bits are not given back.
fn without_set_ids(
    mut tree: BTreeMap<PathBuf, (u32, Vec<u8>)>,
) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    tree.values_mut().for_each(|(mode, _)| *mode &= !0o6000);
    tree
}

//! Contents come back as they were, or not at all.

use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};

use sinew_guard::LedgerSync;
use sinew_tool::{Kind, ToolError};

use super::*;
use crate::disk::is_child_under;
use crate::tree::skipped;

/// Bytes that cannot be packed.
fn noise(n: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(n + 32);
    let mut hash = blake3::hash(b"noise");
    while bytes.len() < n {
        bytes.extend_from_slice(hash.as_bytes());
        hash = blake3::hash(hash.as_bytes());
    }
    bytes.truncate(n);
    bytes
}

/// Keeps a content that is at a path, without changing it.
fn kept(bench: &Bench, path: &Path) -> PathState {
    let mut draft = bench.begin("s");
    let state = keep_it(&mut draft, path, None).unwrap();
    draft.record(LONG).unwrap();
    state
}

#[test]
fn every_content_comes_back_and_is_stored_once() {
    for sync in [LedgerSync::Normal, LedgerSync::Full] {
        all_contents_come_back(sync);
    }
}

fn all_contents_come_back(sync: LedgerSync) {
    let bench = Bench::with(CheckpointSettings { sync, ..CheckpointSettings::default() });
    let path = bench.tree.root.join("a");
    let big = 128 * 1024;
    // The stored content takes at most so many bytes.
    for (content, at_most) in [
        (Vec::new(), 0),
        (b"x".to_vec(), 1),
        (vec![b'x'; 4_096], 4_096),
        (vec![b'x'; 4_097], 100),
        (noise(4_097), 4_097),
        (vec![b'x'; big], 1_000),
        (noise(big), big),
        (vec![b'x'; big + 1], 1_000),
        (noise(big + 1), big + 1),
        ([noise(big), vec![b'x'; 1 << 20]].concat(), big + (1 << 20)),
        ([vec![b'x'; 1 << 20], noise(big)].concat(), big + 1_000),
        (noise(3 << 20), 3 << 20),
    ] {
        fs::write(&path, &content).unwrap();
        let before: Vec<_> = stored(&bench).into_iter().map(|(name, _)| name).collect();
        let state = kept(&bench, &path);
        let mut new = stored(&bench);
        new.retain(|(name, _)| !before.contains(name));
        let [(name, meta)] = new.try_into().unwrap();
        assert_eq!(meta.permissions().mode() & 0o7777, 0o600);
        assert!(meta.len() <= at_most as u64, "{} of {}", meta.len(), content.len());
        let back = bench.checkpoints.content(&path, &state).unwrap();
        assert!(back.read_all().unwrap() == content, "{} bytes", content.len());

        assert_eq!(kept(&bench, &path), state);
        let again = fs::metadata(bench.store().join(&name)).unwrap();
        assert_eq!((again.ino(), again.mtime_nsec()), (meta.ino(), meta.mtime_nsec()));
        assert_eq!(stored(&bench).len(), before.len() + 1);
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&bench.store()), 0o700);
    assert_eq!(mode(&bench.tree.top.join("state/checkpoints.db")), 0o600);
}

fn stored(bench: &Bench) -> Vec<(OsString, fs::Metadata)> {
    let Ok(entries) = fs::read_dir(bench.store()) else { return Vec::new() };
    let entries = entries.map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name(), entry.metadata().unwrap())).collect()
}

/// The position of the handle belongs to the process that opened it.
#[test]
fn a_file_is_kept_from_its_start_and_its_handle_stays_where_it_is() {
    let bench = Bench::new();
    let path = bench.tree.root.join("a");
    for content in [b"0123456789".to_vec(), noise(1 << 20)] {
        fs::write(&path, &content).unwrap();
        let mut file = fs::File::open(&path).unwrap();
        file.read_exact(&mut [0; 4]).unwrap();
        let mut draft = bench.begin("s");
        let state = draft.keep(&path, Before::File(&file, &meta_of(&file)), None).unwrap();
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).unwrap();
        assert!(rest == content[4..]);
        let back = bench.checkpoints.content(&path, &state).unwrap();
        assert!(back.read_all().unwrap() == content);
    }
}

#[test]
fn a_file_that_is_written_meanwhile_is_not_kept() {
    let bench = Bench::new();
    let path = bench.tree.root.join("a");
    for (n, size) in [10, 200_000, 1 << 20].into_iter().enumerate() {
        for changed in [size - 1, size, size + 1] {
            fs::write(&path, vec![b'x'; size]).unwrap();
            let file = fs::File::open(&path).unwrap();
            let meta = meta_of(&file);
            fs::write(&path, vec![b'a' + n as u8; changed]).unwrap();
            let result = bench.begin("s").keep(&path, Before::File(&file, &meta), None);
            assert!(matches!(result, Err(CheckpointError::Changed(_))), "{result:?}");
            assert_eq!(ToolError::from(result.unwrap_err()).kind, Kind::Stale);
        }
    }
    assert!(bench.ids(None).is_empty());
}

#[test]
fn a_damaged_content_is_told_the_others_come_back_and_keeping_it_again_heals() {
    let bench = Bench::new();
    type Damage = fn(&Path);
    let damages: &[(&str, Damage)] = &[
        ("cut", |path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(10).unwrap()),
        ("empty", |path| fs::write(path, "").unwrap()),
        ("longer", |path| fs::write(path, [b"X", &*fs::read(path).unwrap()].concat()).unwrap()),
        ("other", |path| {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("gone", |path| fs::remove_file(path).unwrap()),
        ("replaced by a link", |path| {
            fs::remove_file(path).unwrap();
            symlink("/etc/passwd", path).unwrap();
        }),
    ];
    let contents = [
        b"a few bytes".to_vec(),
        vec![b'y'; 50_000],
        noise(50_000),
        vec![b'z'; 1 << 20],
        noise(1 << 20),
    ];
    for (damage, do_damage) in damages {
        for content in &contents {
            let (path, other) = (bench.tree.root.join("a"), bench.tree.root.join("b"));
            fs::write(&path, content).unwrap();
            fs::write(&other, "the other").unwrap();
            let (state, other_state) = (kept(&bench, &path), kept(&bench, &other));
            let PathState::File { content: hash, .. } = &state else { panic!("{state:?}") };
            let name = [hash.to_string(), format!("{hash}.zst")];
            let file = name.map(|name| bench.store().join(name));
            do_damage(file.iter().find(|file| file.exists()).unwrap());

            let error = match bench.checkpoints.content(&path, &state) {
                Ok(content) => content.read_all().unwrap_err(),
                Err(error) => error,
            };
            match &error {
                CheckpointError::Corrupt(at) | CheckpointError::Lost(at) => assert_eq!(*at, path),
                other => panic!("{damage}: {other:?}"),
            }
            assert_eq!(ToolError::from(error).kind, Kind::Unavailable);
            let back = bench.checkpoints.content(&other, &other_state).unwrap();
            assert_eq!(back.read_all().unwrap(), b"the other");
            assert_eq!(kept(&bench, &path), state, "{damage}");
            let back = bench.checkpoints.content(&path, &state).unwrap();
            assert!(back.read_all().unwrap() == *content, "{damage}");
        }
    }
}

/// A reader of pieces has not the whole before it is known to be right.
#[test]
fn the_last_byte_of_a_wrong_content_never_comes() {
    let bench = Bench::new();
    let path = bench.tree.root.join("a");
    fs::write(&path, "0123456789").unwrap();
    let state = kept(&bench, &path);
    let (name, _) = stored(&bench).remove(0);
    fs::write(bench.store().join(name), "0123456780").unwrap();
    let mut content = bench.checkpoints.content(&path, &state).unwrap();
    content.read_exact(&mut [0; 9]).unwrap();
    assert_eq!(
        content.read_exact(&mut [0; 1]).unwrap_err().kind(),
        std::io::ErrorKind::InvalidData
    );
}

#[test]
fn a_large_file_takes_little_memory() {
    if !is_child_under("", "checkpoints::contents::a_large_file_takes_little_memory") {
        return;
    }
    let settings = CheckpointSettings { max_file_bytes: 1 << 40, ..CheckpointSettings::default() };
    let bench = Bench::with(settings);
    let path = bench.tree.root.join("large");
    let file = fs::File::create(&path).unwrap();
    file.set_len(256 << 20).unwrap();
    file.write_all_at(&noise(1 << 20), 100 << 20).unwrap();
    let before = most_memory_kib();
    let state = kept(&bench, &path);
    bench.checkpoints.content(&path, &state).unwrap().write_to(&mut std::io::sink()).unwrap();
    let grown = most_memory_kib() - before;
    assert!(grown < 16 * 1024, "{grown} KiB more");
}

/// A clone takes no place and is not packed.
#[test]
fn a_large_content_is_a_clone_where_the_disk_can_share_it() {
    let tree = Tree::new();
    let (image, disk) = (tree.outside.join("image"), tree.top.join("disk"));
    fs::File::create(&image).unwrap().set_len(160 << 20).unwrap();
    fs::create_dir(&disk).unwrap();
    let done = |program: &str, args: &[&OsStr]| {
        let output = std::process::Command::new(program).args(args).output();
        output.is_ok_and(|output| output.status.success())
    };
    let is_there = done("mkfs.btrfs", &["-q".as_ref(), image.as_ref()])
        && done("mount", &["-o".as_ref(), "loop".as_ref(), image.as_ref(), disk.as_ref()]);
    if !is_there {
        return skipped("no disk can be made here that shares the blocks of files");
    }
    let result = std::panic::catch_unwind(|| {
        let state = StateDir::open(&disk.join("state")).unwrap();
        let checkpoints = Checkpoints::new(&state, CheckpointSettings::default());
        let path = disk.join("a");
        for content in [vec![b'x'; 1 << 20], noise(3 << 20)] {
            fs::write(&path, &content).unwrap();
            let mut draft = checkpoints.begin(mark("s"));
            let kept = keep_it(&mut draft, &path, None).unwrap();
            assert_eq!(keep_it(&mut draft, &path, None).unwrap(), kept);
            draft.record(LONG).unwrap();
            fs::write(&path, "changed in place").unwrap();
            let PathState::File { content: hash, .. } = &kept else { panic!("{kept:?}") };
            let stored = fs::metadata(disk.join("state/contents").join(hash.to_string())).unwrap();
            assert_eq!(stored.len(), content.len() as u64);
            let back = checkpoints.content(&path, &kept).unwrap();
            assert!(back.read_all().unwrap() == content);
        }
        assert_eq!(fs::read_dir(disk.join("state/contents")).unwrap().count(), 2);
    });
    assert!(done("umount", &[disk.as_ref()]));
    result.unwrap();
}

fn most_memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

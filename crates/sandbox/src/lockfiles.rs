//! Reads which downloads of package managers the lockfiles of roots name with a hash.
//!
//! Commands may write lockfiles, so they are hostile bytes: they are opened without symlinks and with a bound, and one that
//! does not parse names nothing, but for merge markers of git between the packages of a `Cargo.lock`. Only those directly in a root count: one in a directory that git ignores would pass unseen.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use memchr::memmem;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use serde::de::IgnoredAny;

/// The largest lockfile that is read, in bytes.
const MAX_LOCKFILE: u64 = 8 << 20;
/// The most downloads that lockfiles can name. Of more crates none counts, of more packages no further one.
const MAX_LOCKED: usize = 8_192;
/// What a lockfile calls the registry of cargo itself.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// The longest name with version of a crate.
const MAX_NAME: usize = 200;

/// A download that a lockfile names with its hash.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Locked {
    /// A package of npm, by its SHA-512 in hexadecimal digits.
    Npm(String),
    /// A crate of crates.io, by its SHA-256 in hexadecimal digits, with the name of its file.
    Crate(String, String),
}

impl Locked {
    /// Returns the hash.
    pub(super) fn hash(&self) -> &str {
        let (Self::Npm(hash) | Self::Crate(hash, _)) = self;
        hash
    }
}

/// Returns what the lockfiles of roots name. A download may occur several times.
pub(super) fn of_roots(roots: &[PathBuf]) -> Vec<Locked> {
    let (mut all, mut crates) = (Vec::new(), BTreeMap::new());
    for root in roots {
        if let Ok(text) = std::str::from_utf8(&read(&root.join("Cargo.lock"))) {
            add_crates(text, &mut crates);
        }
        for name in ["package-lock.json", "npm-shrinkwrap.json"] {
            add_packages(&read(&root.join(name)), &mut all);
        }
    }
    if crates.len() <= MAX_LOCKED {
        for (file, hash) in crates {
            all.extend(hash.map(|hash| Locked::Crate(hash, file)));
        }
    }
    all
}

/// Opens a regular file beneath a directory without following a symlink; a FIFO does not block.
pub(super) fn open(dir: impl AsFd, path: &Path, within: ResolveFlags) -> Option<(File, u64)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let strictly = within | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(dir, path, flags, Mode::empty(), strictly).ok()?;
    let stat = fstat(&file).ok()?;
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Some((file.into(), u64::try_from(stat.st_size).ok()?)).filter(|_| is_regular)
}

/// Returns the content of a lockfile; nothing if there is none or it is too large.
fn read(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some((file, n_bytes)) = open(CWD, path, ResolveFlags::empty())
        && n_bytes <= MAX_LOCKFILE
    {
        let _ = file.take(n_bytes).read_to_end(&mut bytes);
    }
    bytes
}

/// Adds the crates of a `Cargo.lock` as cargo writes it, by the names of their files. One that has two checksums, such as
/// those of two registries, has none: cargo does not compare a cached crate with its checksum.
fn add_crates(text: &str, crates: &mut BTreeMap<String, Option<String>>) {
    // In a string of several lines, which cargo never writes, anything could stand.
    let is_in = |quotes: &[u8]| memmem::find(text.as_bytes(), quotes).is_some();
    if is_in(b"\"\"\"") || is_in(b"'''") {
        return;
    }
    let (mut name, mut version, mut source, mut checksum) = (None, None, None, None);
    let mut is_package = false;
    for line in text.lines().chain(["[end]"]) {
        if line.starts_with('[') {
            let parts = (name.take(), version.take(), checksum.take());
            let is_of_crates_io = source.take() == Some(CRATES_IO);
            if let (Some(name), Some(version), Some(checksum)) = parts
                && is_package
                && let Some(file) = crate_file(name, version)
                && is_sha256(checksum)
            {
                let n = crates.len();
                // A file of a cache does not say its registry, so another one takes the name.
                let checksum = if is_of_crates_io { checksum } else { "" };
                match crates.get_mut(&file) {
                    Some(hash) => drop(hash.take_if(|hash| hash != checksum)),
                    None if n <= MAX_LOCKED => {
                        crates.insert(file, Some(checksum.to_owned()).filter(|_| is_of_crates_io));
                    }
                    None => return,
                }
            }
            is_package = line == "[[package]]";
            continue;
        }
        for (start, part) in [
            ("name = \"", &mut name),
            ("version = \"", &mut version),
            ("source = \"", &mut source),
            ("checksum = \"", &mut checksum),
        ] {
            let value = line.strip_prefix(start).and_then(|value| value.strip_suffix('"'));
            *part = value.or(*part);
        }
    }
}

/// Returns the name of the file that holds a crate.
fn crate_file(name: &str, version: &str) -> Option<String> {
    let is_plain = |text: &str, more: &str| {
        let is_allowed = |char: char| char.is_ascii_alphanumeric() || more.contains(char);
        text.starts_with(|char: char| char.is_ascii_alphanumeric() || char == '_')
            && text.chars().all(is_allowed)
    };
    let fits = name.len() + version.len() <= MAX_NAME;
    let is_plain = fits && is_plain(name, "_-") && is_plain(version, ".+-");
    is_plain.then(|| format!("{name}-{version}.crate"))
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Adds the packages of a lockfile of npm. In JSON that is valid, an unescaped `"integrity"` with a colon behind it is a key.
fn add_packages(bytes: &[u8], all: &mut Vec<Locked>) {
    if serde_json::from_slice::<IgnoredAny>(bytes).is_err() {
        return;
    }
    let key = b"\"integrity\"";
    for at in memmem::find_iter(bytes, key) {
        let (before, rest) = bytes.split_at_checked(at + key.len()).unwrap_or_default();
        let is_escaped = at.checked_sub(1).and_then(|at| before.get(at)) == Some(&b'\\');
        let value = rest.trim_ascii_start().strip_prefix(b":");
        let value = value.and_then(|rest| rest.trim_ascii_start().strip_prefix(b"\""));
        let Some(value) = value.filter(|_| !is_escaped) else { continue };
        let value = value.split(|byte| *byte == b'"').next().unwrap_or_default();
        // It may have hashes of several kinds, and options behind each.
        for hash in value.split(|byte| *byte == b' ') {
            if let Some(hash) = hash.strip_prefix(b"sha512-").and_then(sha512)
                && all.len() < MAX_LOCKED
            {
                all.push(Locked::Npm(hash));
            }
        }
    }
}

/// Decodes a SHA-512 in base64 to hexadecimal digits.
fn sha512(text: &[u8]) -> Option<String> {
    let (digits, options) = text.split_at_checked(86)?;
    if options.strip_prefix(b"==")?.first().is_some_and(|byte| *byte != b'?') {
        return None;
    }
    let (mut hex, mut rest, mut n_bits) = (String::with_capacity(128), 0_u32, 0);
    for &digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        rest = rest << 6 | u32::from(value);
        n_bits += 6;
        while 4 <= n_bits && hex.len() < 128 {
            n_bits -= 4;
            hex.push(char::from_digit(rest >> n_bits & 0xf, 16)?);
        }
        rest &= (1 << n_bits) - 1;
    }
    Some(hex)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out real trees")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222222222222222222222222222";

    fn package(name: &str, version: &str, checksum: &str) -> String {
        format!(
            "\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\
             source = \"{CRATES_IO}\"\nchecksum = \"{checksum}\"\ndependencies = [\n \"b\",\n]\n"
        )
    }

    #[test]
    fn crates_are_named_with_their_checksums() {
        let good = package("a", "1.0.0", ONE);
        for (lockfile, expected) in [
            (format!("# made\nversion = 4\n{good}"), &["a-1.0.0.crate"][..]),
            (good.replace('\n', "\r\n"), &["a-1.0.0.crate"]),
            (package("b_c-d", "0.1.0-rc.1+x", ONE), &["b_c-d-0.1.0-rc.1+x.crate"]),
            (format!("{good}{}", package("a", "2.0.0", TWO)), &["a-1.0.0.crate", "a-2.0.0.crate"]),
            (format!("{good}{good}"), &["a-1.0.0.crate"]),
            // Which registry has which is not in the name of the file.
            (format!("{good}{}", package("a", "1.0.0", TWO)), &[]),
            (format!("{good}{}{good}", package("a", "1.0.0", TWO)), &[]),
            // What is no crate of a registry.
            (package("../a", "1.0.0", ONE), &[]),
            (package("a", "1.0.0/../../../b", ONE), &[]),
            (package("a", "..", ONE), &[]),
            (package("", "1.0.0", ONE), &[]),
            (package(&"a".repeat(200), "1.0.0", ONE), &[]),
            (package("a", "1.0.0", &ONE[1..]), &[]),
            (package("a", "1.0.0", &ONE.replace('1', "A")), &[]),
            (package("a", "1.0.0", &ONE.replace('1', "g")), &[]),
            (good.replace("checksum", "hash"), &[]),
            (good.replace(CRATES_IO, "registry+https://example.org/index"), &[]),
            (format!("{good}{}", good.replace(CRATES_IO, "sparse+https://x/")), &[]),
            (good.replace("[[package]]", "[[patch.unused]]"), &[]),
            (good.replace("[[package]]", "[metadata]"), &[]),
            (format!("x = \"\"\"\n{good}\"\"\"\n"), &[]),
            (format!("x = '''\n{good}'''\n"), &[]),
            ("[[package]]\n".repeat(1_000), &[]),
            (String::new(), &[]),
        ] {
            let mut crates = BTreeMap::new();
            add_crates(&lockfile, &mut crates);
            let named: Vec<&str> =
                crates.iter().filter(|(_, hash)| hash.is_some()).map(|(file, _)| &**file).collect();
            assert_eq!(named, expected, "{lockfile}");
        }
    }

    #[test]
    fn packages_are_named_with_their_hashes() {
        let zeros = format!("sha512-{}==", "A".repeat(86));
        let lockfile = |packages: &str| format!("{{\"lockfileVersion\": 3, {packages}}}");
        let one = |integrity: &str| {
            lockfile(&format!(
                "\"packages\": {{\"\": {{}}, \"node_modules/a\": {{\"integrity\": \"{integrity}\", \"x\": [1]}}}}"
            ))
        };
        for (text, n) in [
            (one(&zeros), 1),
            (one(&format!("sha1-x {zeros}?y")), 1),
            (one(&format!("{zeros} sha512-{}==", "B".repeat(86))), 2),
            (one("sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA="), 0),
            (one(&zeros.replace("==", "=")), 0),
            (one(&zeros.replace('A', "-")), 0),
            (one(&zeros.replace("AA", "A")), 0),
            (one("sha512-../../x"), 0),
            // Of version 1.
            (lockfile(&format!("\"dependencies\": {{\"a\": {{\"integrity\":\n\"{zeros}\"}}}}")), 1),
            (lockfile("\"packages\": {\"a\": {\"integrity\": 1}}"), 0),
            (lockfile(&format!("\"integrity\": [\"{zeros}\"]")), 0),
            (lockfile(&format!("\"x\\\"integrity\": \"{zeros}\"")), 0),
            (lockfile(&format!("\"x\": \"\\\"integrity\\\": \\\"{zeros}\\\"\"")), 0),
            (lockfile(&format!("\"x\": [\"integrity\", \"{zeros}\"]")), 0),
            (format!("\"integrity\": \"{zeros}\""), 0),
            (one(&zeros) + "<<<<<<<", 0),
            (one(&zeros).replace("}}", "}"), 0),
            (format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), 0),
            (format!("{{\"a\": {}1", "[".repeat(100_000)), 0),
            (String::new(), 0),
        ] {
            let mut all = Vec::new();
            add_packages(text.as_bytes(), &mut all);
            assert_eq!(all.len(), n, "{}", text.get(..300).unwrap_or(&text));
        }
        // The hash of nothing, as `printf '' | openssl dgst -sha512 -binary | base64` says it.
        let hash = sha512(
            b"z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
        );
        let expected = "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce\
                        47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e";
        assert_eq!(hash.as_deref(), Some(expected));
    }

    #[test]
    fn lockfiles_are_regular_files_of_a_bounded_size() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(dir.path()).expect("a directory");
        let lockfile = root.join("Cargo.lock");
        let good = package("a", "1.0.0", ONE);
        let named = || of_roots(std::slice::from_ref(&root)).len();
        fs::write(&lockfile, &good).expect("a file");
        assert_eq!(named(), 1);
        // The same crate in another root, of another registry.
        let other = root.join("other");
        fs::create_dir(&other).expect("a directory");
        fs::write(other.join("Cargo.lock"), package("a", "1.0.0", TWO)).expect("a file");
        assert_eq!(named(), 1, "a lockfile below a root counts");
        assert_eq!(of_roots(&[root.clone(), other.clone()]).len(), 0);
        let large = format!("{good}{}", "#\n".repeat(usize::try_from(MAX_LOCKFILE / 2).unwrap()));
        fs::write(&lockfile, large).expect("a file");
        assert_eq!(named(), 0);
        for (n_crates, expected) in [(MAX_LOCKED, MAX_LOCKED), (MAX_LOCKED + 1, 0)] {
            let many: String = (0..n_crates).map(|n| package("a", &n.to_string(), ONE)).collect();
            fs::write(&lockfile, many).expect("a file");
            assert_eq!(named(), expected);
        }
        fs::remove_file(&lockfile).expect("removed");
        fs::write(root.join("real"), &good).expect("a file");
        symlink("real", &lockfile).expect("a link");
        assert_eq!(named(), 0);
        fs::remove_file(&lockfile).expect("removed");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, &lockfile, FileType::Fifo, mode, 0).expect("a FIFO");
        assert_eq!(named(), 0);
    }
}

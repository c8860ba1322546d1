//! References of git in a restore: they are not set to an object that their repository lost.
//!
//! A command moves a branch back, the user removes what nothing names with `git gc --prune=now`, and an undo of the command would
//! leave a repository that git cannot read. Git itself does not run here, since its configuration may be that of the command.
#![expect(clippy::disallowed_methods, reason = "the guard may touch the system")]

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sinew_fs::git_pack;
use sinew_tool::{RestoreAct, RestoreConflict, RestorePlan, RestoreStep};

/// The most packs that are looked into.
const MAX_PACKS: usize = 4_096;
/// The most references of one file.
const MAX_REFERENCES: usize = 100_000;

/// Marks references that name an object which is gone. `content` returns what a step restores.
pub(super) fn mark(plan: &mut RestorePlan, content: impl Fn(&RestoreStep) -> Option<Vec<u8>>) {
    let is_reference = |step: &&RestoreStep| {
        step.act == RestoreAct::Write && step.conflict.is_none() && is_reference(&step.path)
    };
    if !plan.steps.iter().any(|step| is_reference(&step)) {
        return;
    }
    let written = plan.steps.iter().filter(|step| step.act == RestoreAct::Write);
    let written: HashSet<PathBuf> = written.map(|step| step.path.clone()).collect();
    let mut known: HashMap<Option<PathBuf>, Objects<'_>> = HashMap::new();
    for step in &mut plan.steps {
        if !is_reference(&&*step) {
            continue;
        }
        let Some(text) = content(step) else { continue };
        let dir = objects_of(&step.path, &written);
        let objects = known.entry(dir.clone()).or_insert_with(|| Objects::open(dir, &written));
        if let Some(id) = ids(&text).take(MAX_REFERENCES).find(|id| !objects.have(id)) {
            let id = id.get(..12).unwrap_or(id);
            let why = format!("its repository does not have the object {id} any more");
            step.conflict = Some(RestoreConflict { why, can_be_forced: true });
        }
    }
}

/// Returns whether a path is that of references: `HEAD`, `packed-refs`, or a file beneath `refs`.
fn is_reference(path: &Path) -> bool {
    let mut names = path.iter().skip_while(|name| *name != ".git").skip(1).peekable();
    let is_file = |name: &str| path.file_name().is_some_and(|found| found == name);
    names.peek().is_some()
        && (is_file("packed-refs") || is_file("HEAD") || names.any(|name| name == "refs"))
        && !path.iter().any(|name| name == "logs")
}

/// Returns the object IDs that lines begin with.
fn ids(text: &[u8]) -> impl Iterator<Item = &str> {
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    lines.filter_map(|line| {
        let line = line.strip_prefix('^').unwrap_or(line);
        let id = line.split(' ').next()?;
        let is_hex = id.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_hex && matches!(id.len(), 40 | 64)).then_some(id)
    })
}

/// The objects of a repository, with those that the restore brings back.
struct Objects<'a> {
    dir: Option<PathBuf>,
    packs: Vec<File>,
    written: &'a HashSet<PathBuf>,
    /// Whether objects may be where nothing looks: in another repository, or in a pack that comes back.
    may_be_elsewhere: bool,
}

impl<'a> Objects<'a> {
    /// Opens the packs in a directory of objects.
    fn open(dir: Option<PathBuf>, written: &'a HashSet<PathBuf>) -> Self {
        let in_dir = |name: &str| dir.as_ref().map(|dir| dir.join(name));
        let listed = in_dir("pack").map_or(Ok(Vec::new()), |dir| packs_in(&dir));
        let is_unknown = listed.is_err();
        let packs = listed.unwrap_or_default();
        let comes_back = written.iter().any(|path| {
            is_pack_index(path) && dir.as_ref().is_some_and(|dir| path.starts_with(dir))
        });
        let has_alternates = in_dir("info/alternates").is_some_and(|path| path.exists());
        Self {
            packs,
            written,
            may_be_elsewhere: is_unknown || comes_back || has_alternates || dir.is_none(),
            dir,
        }
    }

    fn have(&self, id: &str) -> bool {
        let loose = || {
            let (dir, rest) = id.split_at_checked(2)?;
            let path = self.dir.as_ref()?.join(dir).join(rest);
            (self.written.contains(&path) || path.exists()).then_some(())
        };
        let byte = |at: usize| u8::from_str_radix(id.get(at..at + 2)?, 16).ok();
        let packed = || {
            let id: Vec<u8> = (0..id.len()).step_by(2).filter_map(byte).collect();
            self.packs.iter().any(|pack| git_pack::is_listed(pack, &id).unwrap_or(true))
        };
        // No object has this ID, which git writes where there is none.
        let is_zero = id.bytes().all(|byte| byte == b'0');
        self.may_be_elsewhere || is_zero || loose().is_some() || packed()
    }
}

/// Returns the directory of the objects of a reference's repository, on the disk or as the restore brings it back.
fn objects_of(path: &Path, written: &HashSet<PathBuf>) -> Option<PathBuf> {
    let in_git = |dir: &&Path| dir.iter().any(|name| name == ".git");
    let mut dirs = path.ancestors().skip(1).take_while(in_git).map(|dir| dir.join("objects"));
    dirs.find(|dir| dir.is_dir() || written.iter().any(|path| path.starts_with(dir)))
}

fn is_pack_index(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "idx")
}

/// Opens the indexes of the packs in a directory.
fn packs_in(dir: &Path) -> io::Result<Vec<File>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let packs: Vec<PathBuf> = paths.collect::<io::Result<_>>()?;
    let open = |path: PathBuf| {
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
    };
    packs.into_iter().filter(|path| is_pack_index(path)).take(MAX_PACKS).map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_their_ids_are_known() {
        let check = |path: &str, expected: bool| {
            assert_eq!(is_reference(Path::new(path)), expected, "{path}");
        };
        check("/p/.git/HEAD", true);
        check("/p/.git/refs/heads/main", true);
        check("/p/.git/packed-refs", true);
        check("/p/.git/worktrees/w/HEAD", true);
        check("/p/.git/logs/HEAD", false);
        check("/p/.git/logs/refs/heads/main", false);
        check("/p/.git/config", false);
        check("/p/refs/a", false);
        let (one, other) = ("1".repeat(40), "a".repeat(64));
        let text =
            format!("# pack-refs with: peeled\n{one} refs/heads/a\n^{other}\nref: refs/heads/b\n");
        assert_eq!(ids(text.as_bytes()).collect::<Vec<_>>(), [one, other]);
    }
}

//! Calls that the notify_handler carries out do what the kernel does: the same deeds in the sandbox and outside
//! leave the same answers and the same tree.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::getpid;
use sinew_guard::{Helper, SandboxLevel};

use crate::world::{Place, beside_others, works};

/// What makes this program the one that does the deeds.
const TWIN: &str = "SINEW_TEST_TWIN";

type FileOp = (&'static str, fn() -> Result<String, Errno>);

fn open(path: &str, flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(mode))
}

fn written(file: OwnedFd, text: &str) -> Result<String, Errno> {
    let file = fs::File::from(file);
    (&file).write_all(text.as_bytes()).map_err(|_| Errno::IO)?;
    let flags = rustix::io::fcntl_getfd(&file)?;
    Ok(format!("{} {flags:?}", file.metadata().map_or(0, |meta| meta.len())))
}

fn done(result: Result<(), Errno>) -> Result<String, Errno> {
    result.map(|()| String::new())
}

fn timestamps(accessed: i64, modified: i64) -> rustix::fs::Timestamps {
    let at = |tv_sec| rustix::fs::Timespec { tv_sec, tv_nsec: 0 };
    rustix::fs::Timestamps { last_access: at(accessed), last_modification: at(modified) }
}

fn times(path: &str, accessed: i64, modified: i64, flags: AtFlags) -> Result<(), Errno> {
    rustix::fs::utimensat(CWD, path, &timestamps(accessed, modified), flags)
}

/// Returns the extended attributes of a file that its user has named.
fn attributes(path: &str) -> Result<String, Errno> {
    let mut names = [0_u8; 1_024];
    let n = rustix::fs::listxattr(path, &mut names)?;
    let names = String::from_utf8_lossy(&names[..n]).into_owned();
    let mut names: Vec<_> = names.split('\0').filter(|name| name.starts_with("user.")).collect();
    names.sort_unstable();
    Ok(names.join(" "))
}

const NEW: OFlags = OFlags::CREATE.union(OFlags::WRONLY);

const DEEDS: &[FileOp] = &[
    ("create", || written(open("a", NEW, 0o666)?, "one")),
    ("create closed on exec", || written(open("a2", NEW | OFlags::CLOEXEC, 0o600)?, "one")),
    ("create only new", || written(open("b", NEW | OFlags::EXCL, 0o777)?, "b")),
    ("create only new, there", || written(open("b", NEW | OFlags::EXCL, 0o777)?, "c")),
    ("truncate by opening", || written(open("a", OFlags::WRONLY | OFlags::TRUNC, 0)?, "x")),
    ("append", || written(open("a", OFlags::WRONLY | OFlags::APPEND, 0)?, "yz")),
    ("write what is missing", || written(open("none", OFlags::WRONLY, 0)?, "x")),
    ("create in what is missing", || written(open("none/x", NEW, 0o666)?, "x")),
    ("create beneath a file", || written(open("a/x", NEW, 0o666)?, "x")),
    ("create with a slash", || written(open("slash/", NEW, 0o666)?, "x")),
    ("write a directory", || written(open(".", OFlags::WRONLY, 0)?, "x")),
    ("create nothing", || written(open("", NEW, 0o666)?, "x")),
    ("a mask", || {
        let before = rustix::process::umask(Mode::from_raw_mode(0o027));
        let made = open("masked", NEW, 0o777).and_then(|file| written(file, "m"));
        let dir = rustix::fs::mkdirat(CWD, "masked.d", Mode::from_raw_mode(0o777));
        rustix::process::umask(before);
        made.and_then(|_| done(dir))
    }),
    ("memory shared by name", || {
        let [first, second] = ["a", "b"].map(|end| format!("/dev/shm/twin-{}{end}", getpid()));
        let both = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        written(open(&first, both, 0o600)?, "one")?;
        rustix::fs::link(&first, &second)?;
        rustix::fs::unlink(&first)?;
        let again = open(&first, OFlags::RDWR, 0).err();
        let known = written(open(&second, OFlags::RDWR | OFlags::APPEND, 0)?, "two");
        rustix::fs::unlink(&second)?;
        Ok(format!("{again:?} {known:?}"))
    }),
    ("rename a directory to one that tools fill", || {
        done(rustix::fs::mkdirat(CWD, "made", Mode::from_raw_mode(0o755)))?;
        written(open("made/CACHEDIR.TAG", NEW, 0o644)?, "tag")?;
        done(rustix::fs::renameat(CWD, "made", CWD, "target"))
    }),
    ("make a directory", || done(rustix::fs::mkdirat(CWD, "d", Mode::from_raw_mode(0o755)))),
    ("make it again", || done(rustix::fs::mkdirat(CWD, "d", Mode::from_raw_mode(0o755)))),
    ("make with a slash", || done(rustix::fs::mkdirat(CWD, "e/", Mode::from_raw_mode(0o755)))),
    ("make here", || done(rustix::fs::mkdirat(CWD, ".", Mode::from_raw_mode(0o755)))),
    ("make above", || done(rustix::fs::mkdirat(CWD, "..", Mode::from_raw_mode(0o755)))),
    ("make the top", || done(rustix::fs::mkdirat(CWD, "/", Mode::from_raw_mode(0o755)))),
    ("beneath a handle", || {
        let dir = open("d", OFlags::PATH | OFlags::DIRECTORY, 0)?;
        let file = rustix::fs::openat(&dir, "in", NEW, Mode::from_raw_mode(0o644))?;
        written(file, "in")
    }),
    ("beneath what is no directory", || {
        let file = open("a", OFlags::RDONLY, 0)?;
        rustix::fs::openat(&file, "in", NEW, Mode::from_raw_mode(0o644)).map(|_| String::new())
    }),
    ("beneath no handle", || {
        rustix::fs::openat(rustix::fs::ABS, "in", NEW, Mode::from_raw_mode(0o644))
            .map(|_| String::new())
    }),
    ("above through a directory", || written(open("d/../up", NEW, 0o644)?, "up")),
    ("link", || done(rustix::fs::symlinkat("a", CWD, "l"))),
    ("link again", || done(rustix::fs::symlinkat("a", CWD, "l"))),
    ("through a link", || written(open("l", OFlags::WRONLY | OFlags::TRUNC, 0)?, "linked")),
    ("not through a link", || written(open("l", NEW | OFlags::NOFOLLOW, 0o644)?, "x")),
    ("only new at a link", || written(open("l", NEW | OFlags::EXCL, 0o644)?, "x")),
    ("a link to nothing yet", || {
        rustix::fs::symlinkat("made-by-link", CWD, "dangling")?;
        written(open("dangling", NEW, 0o640)?, "made")
    }),
    ("a link in a circle", || {
        rustix::fs::symlinkat("round", CWD, "round")?;
        written(open("round", NEW, 0o640)?, "x")
    }),
    ("through a linked directory", || {
        rustix::fs::symlinkat("d", CWD, "ld")?;
        written(open("ld/../ld/./in2", NEW, 0o644)?, "in2")
    }),
    ("hard link", || done(rustix::fs::linkat(CWD, "a", CWD, "h", AtFlags::empty()))),
    ("hard link again", || done(rustix::fs::linkat(CWD, "a", CWD, "h", AtFlags::empty()))),
    ("write a file with a slash", || written(open("a/", OFlags::WRONLY, 0)?, "x")),
    ("create with a slash at a link to nothing", || {
        rustix::fs::symlinkat("nothing", CWD, "void")?;
        written(open("void/", NEW, 0o644)?, "x")
    }),
    ("hard link with a slash", || done(rustix::fs::linkat(CWD, "a/", CWD, "h2", AtFlags::empty()))),
    ("set a mode", || done(rustix::fs::chmod("a", Mode::from_raw_mode(0o640)))),
    ("set a mode through a link", || done(rustix::fs::chmod("l", Mode::from_raw_mode(0o600)))),
    ("set a mode by number", || {
        let file = open("h", OFlags::RDONLY, 0)?;
        done(rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644)))
    }),
    ("set the mode of what is missing", || {
        done(rustix::fs::chmod("none", Mode::from_raw_mode(0o600)))
    }),
    ("set times", || done(times("a", 5, 6, AtFlags::empty()))),
    ("set times through a link", || done(times("l", 7, 8, AtFlags::empty()))),
    ("set the times of a link", || {
        times("l", 9, 10, AtFlags::SYMLINK_NOFOLLOW)?;
        let stat = rustix::fs::lstat("l")?;
        let target = rustix::fs::stat("l")?;
        Ok(format!("{} {} {}", stat.st_mtime, target.st_atime, target.st_mtime))
    }),
    ("set times by number", || {
        let file = open("a", OFlags::RDONLY, 0)?;
        rustix::fs::futimens(&file, &timestamps(11, 12))?;
        Ok(rustix::fs::fstat(&file)?.st_mtime.to_string())
    }),
    ("set times that cannot be", || {
        let mut none = timestamps(1, 1);
        none.last_access.tv_nsec = 1_000_000_000;
        done(rustix::fs::utimensat(CWD, "a", &none, AtFlags::empty()))
    }),
    ("set the times of what is missing", || done(times("none", 1, 1, AtFlags::empty()))),
    ("set times to now", || {
        let mut now = timestamps(1, 1);
        now.last_modification.tv_nsec = rustix::fs::UTIME_NOW;
        now.last_access.tv_nsec = rustix::fs::UTIME_OMIT;
        rustix::fs::utimensat(CWD, "a", &now, AtFlags::empty())?;
        Ok((1_000 < rustix::fs::stat("a")?.st_mtime).to_string())
    }),
    ("set an owner", || {
        let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
        done(rustix::fs::chown("a", Some(user), Some(group)))
    }),
    ("set the owner of a link", || {
        let user = Some(rustix::process::getuid());
        done(rustix::fs::chownat(CWD, "l", user, None, AtFlags::SYMLINK_NOFOLLOW))
    }),
    ("set an owner by number", || {
        let file = open("a", OFlags::RDONLY, 0)?;
        done(rustix::fs::fchown(&file, Some(rustix::process::getuid()), None))
    }),
    ("set no owner", || done(rustix::fs::chown("none", None, None))),
    ("set an attribute", || {
        let new = rustix::fs::XattrFlags::CREATE;
        done(rustix::fs::setxattr("a", "user.one", b"1", new))?;
        let again = rustix::fs::setxattr("a", "user.one", b"2", new).err();
        rustix::fs::setxattr("l", "user.two", b"", rustix::fs::XattrFlags::empty())?;
        let file = open("a", OFlags::RDONLY, 0)?;
        rustix::fs::fsetxattr(&file, "user.three", b"3", rustix::fs::XattrFlags::empty())?;
        rustix::fs::fremovexattr(&file, "user.three")?;
        let gone = rustix::fs::removexattr("a", "user.three").err();
        Ok(format!("{again:?} {gone:?} {}", attributes("a")?))
    }),
    ("set the attribute of a link", || {
        done(rustix::fs::lsetxattr("l", "user.one", b"1", rustix::fs::XattrFlags::empty()))
    }),
    ("set an attribute of another kind", || {
        done(rustix::fs::setxattr("a", "strange.one", b"1", rustix::fs::XattrFlags::empty()))
    }),
    ("set an attribute without a name", || {
        done(rustix::fs::setxattr("a", "", b"1", rustix::fs::XattrFlags::empty()))
    }),
    ("set the attribute of a pipe", || {
        let (reader, _writer) = rustix::pipe::pipe()?;
        done(rustix::fs::fchmod(&reader, Mode::from_raw_mode(0o600)))
    }),
    ("hard link of a link", || done(rustix::fs::linkat(CWD, "l", CWD, "hl", AtFlags::empty()))),
    ("hard link through a link", || {
        done(rustix::fs::linkat(CWD, "l", CWD, "hf", AtFlags::SYMLINK_FOLLOW))
    }),
    ("hard link of a directory", || {
        done(rustix::fs::linkat(CWD, "d", CWD, "hd", AtFlags::empty()))
    }),
    ("a file without a name", || {
        let file = open("d", OFlags::TMPFILE | OFlags::RDWR, 0o640)?;
        let number = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, number, CWD, "named", AtFlags::SYMLINK_FOLLOW)?;
        written(file, "named later")
    }),
    ("rename", || done(rustix::fs::renameat(CWD, "b", CWD, "b2"))),
    ("rename what is missing", || done(rustix::fs::renameat(CWD, "b", CWD, "b3"))),
    ("rename over", || done(rustix::fs::renameat(CWD, "up", CWD, "b2"))),
    ("rename a directory", || done(rustix::fs::renameat(CWD, "e", CWD, "e2"))),
    ("rename into itself", || done(rustix::fs::renameat(CWD, "d", CWD, "d/d"))),
    ("rename over a directory", || done(rustix::fs::renameat(CWD, "a2", CWD, "d"))),
    ("rename here", || done(rustix::fs::renameat(CWD, ".", CWD, "x"))),
    ("exchange", || done(rustix::fs::renameat_with(CWD, "a", CWD, "d", RenameFlags::EXCHANGE))),
    ("exchange back", || {
        done(rustix::fs::renameat_with(CWD, "a", CWD, "d", RenameFlags::EXCHANGE))
    }),
    ("rename not over", || {
        done(rustix::fs::renameat_with(CWD, "a", CWD, "b2", RenameFlags::NOREPLACE))
    }),
    ("remove", || done(rustix::fs::unlinkat(CWD, "b2", AtFlags::empty()))),
    ("remove again", || done(rustix::fs::unlinkat(CWD, "b2", AtFlags::empty()))),
    ("remove a directory as a file", || done(rustix::fs::unlinkat(CWD, "d", AtFlags::empty()))),
    ("remove a full directory", || done(rustix::fs::unlinkat(CWD, "d", AtFlags::REMOVEDIR))),
    ("remove a directory", || done(rustix::fs::unlinkat(CWD, "e2", AtFlags::REMOVEDIR))),
    ("remove a file as a directory", || done(rustix::fs::unlinkat(CWD, "a", AtFlags::REMOVEDIR))),
    ("remove here", || done(rustix::fs::unlinkat(CWD, ".", AtFlags::REMOVEDIR))),
    ("shorten", || {
        fs::write("long", "0123456789").map_err(|_| Errno::IO)?;
        let file = fs::OpenOptions::new().write(true).open("long").map_err(|_| Errno::IO)?;
        file.set_len(4).map_err(|_| Errno::IO)?;
        fs::read_to_string("long").map_err(|_| Errno::IO)
    }),
    ("write by number", || {
        let file = open("a", OFlags::RDONLY, 0)?;
        let number = format!("/proc/self/fd/{}", file.as_raw_fd());
        written(open(&number, OFlags::WRONLY | OFlags::TRUNC, 0)?, "by number")
    }),
    ("write by a number of this thread", || {
        let file = open("a", OFlags::RDONLY, 0)?;
        let number = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
        written(open(&number, OFlags::WRONLY | OFlags::APPEND, 0)?, "+")
    }),
    ("write through the working directory", || {
        written(open("/proc/self/cwd/d/cwd", NEW, 0o644)?, "cwd")
    }),
    ("write to nowhere", || written(open("/dev/null", OFlags::WRONLY, 0)?, "x")),
    ("write to the output", || written(open("/dev/stderr", OFlags::WRONLY, 0)?, "")),
    ("the terminal", || written(open("/dev/tty", OFlags::RDWR, 0)?, "")),
    ("a pipe with a name", || {
        rustix::fs::mknodat(CWD, "fifo", FileType::Fifo, Mode::from_raw_mode(0o644), 0)?;
        let reader = thread::spawn(|| {
            let mut text = String::new();
            fs::File::open("fifo").and_then(|mut file| file.read_to_string(&mut text)).map(|_| text)
        });
        thread::sleep(Duration::from_millis(20));
        written(open("fifo", OFlags::WRONLY, 0)?, "through")?;
        reader.join().map_err(|_| Errno::IO)?.map_err(|_| Errno::IO)
    }),
    ("a pipe that nobody reads", || {
        written(open("fifo", OFlags::WRONLY | OFlags::NONBLOCK, 0)?, "x")
    }),
    ("a file as a node", || {
        let mode = Mode::from_raw_mode(0o644);
        done(rustix::fs::mknodat(CWD, "node", FileType::RegularFile, mode, 0))
    }),
    ("a long name", || written(open(&"x".repeat(256), NEW, 0o644)?, "x")),
    ("a long path", || written(open(&"x/".repeat(2_100), NEW, 0o644)?, "x")),
    ("in many threads", || {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                thread::spawn(move || {
                    (0..50).all(|m| {
                        let path = format!("d/t{n}-{m}");
                        fs::write(&path, "t").is_ok() && fs::remove_file(path).is_ok()
                    })
                })
            })
            .collect();
        let all = threads.into_iter().all(|thread| thread.join().unwrap_or(false));
        Ok(all.to_string())
    }),
    ("where nothing is any more", || {
        rustix::fs::mkdirat(CWD, "gone", Mode::from_raw_mode(0o755))?;
        let dir = open("gone", OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
        rustix::fs::unlinkat(CWD, "gone", AtFlags::REMOVEDIR)?;
        rustix::fs::openat(&dir, "x", NEW, Mode::from_raw_mode(0o644)).map(|_| String::new())
    }),
];

/// Does the deeds where this process is the one that does them.
pub(crate) fn play() -> Option<ExitCode> {
    std::env::var_os(TWIN)?;
    let mut text = String::new();
    for (name, deed) in DEEDS {
        let _ = writeln!(text, "{name}: {:?}", deed());
    }
    let mut names: Vec<_> = fs::read_dir(".").ok()?.chain(fs::read_dir("d").ok()?).collect();
    names.sort_by_key(|entry| entry.as_ref().map(fs::DirEntry::path).unwrap_or_default());
    for entry in names.into_iter().filter_map(Result::ok) {
        let Ok(meta) = fs::symlink_metadata(entry.path()) else { continue };
        let content = match meta.is_file() {
            true => fs::read_to_string(entry.path()).unwrap_or_default(),
            false => String::new(),
        };
        let (mode, links) = (meta.mode(), meta.nlink());
        let attributes = attributes(&entry.path().to_string_lossy()).unwrap_or_default();
        let owner = meta.uid();
        let _ = writeln!(
            text,
            "{} {mode:o} {links} {owner} {content} {attributes}",
            entry.path().display()
        );
    }
    print!("{text}");
    Some(ExitCode::SUCCESS)
}

pub(crate) fn trials(helper: &Helper) -> Vec<Trial> {
    let of = |level: SandboxLevel| {
        let helper = helper.clone();
        Trial::test(format!("twin: the same on {level} as outside"), move || {
            let _turn = beside_others();
            if works(&helper, level) { check(&helper, level) } else { Ok(()) }
        })
    };
    [SandboxLevel::Namespaces, SandboxLevel::Bubblewrap, SandboxLevel::Landlock]
        .into_iter()
        .map(of)
        .collect()
}

fn check(helper: &Helper, level: SandboxLevel) -> Result<(), Failed> {
    let outside = transcript(&Place::new(helper, SandboxLevel::None))?;
    if outside.lines().count() <= DEEDS.len() {
        return Err("the transcript lists no tree".into());
    }
    for place in [Place::new(helper, level), Place::judging_reads(helper, level)] {
        let inside = transcript(&place)?;
        if outside != inside {
            let differ = outside.lines().zip(inside.lines()).filter(|(a, b)| a != b);
            let lines: Vec<_> = differ.map(|(a, b)| format!("outside {a}\n{level} {b}")).collect();
            return Err(lines.join("\n").into());
        }
    }
    Ok(())
}

fn transcript(place: &Place) -> Result<String, Failed> {
    let program = place.root.join("twin");
    fs::copy(std::env::current_exe()?, &program)?;
    fs::create_dir(place.root.join("work"))?;
    let done = place.sh(&format!("cd work && {TWIN}=1 ../twin"));
    let text = [done.stdout.head, done.stdout.tail].concat();
    let left_out = done.stdout.total > text.len() as u64;
    if left_out || !Path::new(&program).is_file() {
        return Err("the transcript is cut".into());
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    if text.is_empty() {
        let told = String::from_utf8_lossy(&done.merged.head).into_owned();
        return Err(format!("{:?}: {told}", done.exit).into());
    }
    Ok(text)
}

//! What an intercepted call of a command costs: the median of each call alone and on each sandbox level, in one run. Then
//! what it costs programs that make many of them.
//!
//! `cargo bench -p sinew-guard --bench intercepted`

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark works on real trees and prints"
)]
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a benchmark may fail loudly")]

#[path = "../tests/commands/world.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod world;

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};
use sinew_guard::{Helper, SandboxLevel};
use sinew_tool::Exit;
use world::Place;

/// How often each call is made.
const ROUNDS: usize = 3_000;
/// The pause after each command of many calls.
const SETTLES: Duration = Duration::from_secs(2);
/// The argument with which this program is the command.
const WORK: &str = "--work";

/// Where the calls are made: alone, or on a level with checkpoints of commands or without.
const SIDES: [Option<(SandboxLevel, bool)>; 4] = [
    None,
    Some((SandboxLevel::Namespaces, false)),
    Some((SandboxLevel::Namespaces, true)),
    Some((SandboxLevel::Landlock, true)),
];

/// Returns a place for a side, and its name.
fn place(helper: &Helper, side: Option<(SandboxLevel, bool)>) -> Option<(Place, String)> {
    let (level, keeps) = side.unwrap_or((SandboxLevel::Namespaces, false));
    if !world::works(helper, level) {
        return None;
    }
    Some(match (side, keeps) {
        (None, _) => (Place::keeping_nothing(helper, level), String::from("alone")),
        (_, true) => (Place::new(helper, level), format!("{level} with undo")),
        (_, false) => (Place::keeping_nothing(helper, level), level.to_string()),
    })
}

/// Commands of many calls, each after the ones before it.
const COMMANDS: &[(&str, &str)] = &[
    ("tar x, 20,000 files", "mkdir tree && tar xf tree.tar -C tree"),
    ("rm -rf, 20,000 files", "rm -rf tree"),
    ("cp -r, 2,000 files", "tar xf tree.tar ./d1 ./d2 && mkdir copied && cp -r d1 d2 copied"),
    (
        "git add and commit, 2,000 files",
        "git init -q && git add d1 d2 && git -c user.name=a -c user.email=a@b commit -qm one",
    ),
    ("git checkout, 2,000 files", "rm -rf d1 d2 && git checkout -q HEAD -- ."),
    ("git clone, 2,000 files", "git clone -q origin clone"),
];

fn main() {
    let helper = sinew_guard::helper_main();
    if std::env::args().nth(1).is_some_and(|arg| arg == WORK) {
        work();
        return;
    }
    calls(&helper);
    commands(&helper);
    world::remove_places();
}

/// Measures commands of many calls.
fn commands(helper: &Helper) {
    let mut rows: Vec<(String, Vec<f64>)> = Vec::new();
    for side in SIDES {
        let Some((place, name)) = place(helper, side) else { continue };
        let mut took = Vec::new();
        tree(&place.root);
        for (_, text) in COMMANDS {
            let began = Instant::now();
            match side {
                None => {
                    let mut command = process::Command::new("sh");
                    command.args(["-c", text]).current_dir(&place.root);
                    assert!(command.status().expect("it runs").success(), "{text}");
                }
                Some(_) => {
                    let done = place.run(text, Duration::from_secs(120)).expect("it runs");
                    assert_eq!(done.exit, Exit::Code(0), "{done:?}");
                }
            }
            took.push(began.elapsed().as_secs_f64());
            // A thread may still make the checkpoint, for which the next command waits.
            std::thread::sleep(SETTLES);
        }
        rows.push((name, took));
    }
    for (at, (name, _)) in COMMANDS.iter().enumerate() {
        let alone = rows[0].1[at];
        let shown = rows
            .iter()
            .map(|(side, took)| format!("{side} {:.2} s ({:.1}x)", took[at], took[at] / alone));
        println!("{name}: {}", shown.collect::<Vec<_>>().join(", "));
    }
}

/// Puts an archive of 20,000 files into a directory.
fn tree(root: &Path) {
    let source = root.join("source");
    for dir in 0..20 {
        let dir = source.join(format!("d{dir}"));
        fs::create_dir_all(&dir).expect("made");
        for file in 0..1_000 {
            let text = format!("{file} of {}\n", dir.display()).repeat(60);
            fs::write(dir.join(format!("f{file}")), text).expect("written");
        }
    }
    // Commands clone no repository that they made themselves.
    let origin = "git init -q origin && cp -r source/d1 source/d2 origin && cd origin && git add . && \
                  git -c user.name=a -c user.email=a@b commit -qm one";
    let made = process::Command::new("sh").args(["-c", origin]).current_dir(root).status();
    assert!(made.expect("it runs").success(), "git");
    let mut tar = process::Command::new("tar");
    tar.arg("cf").arg(root.join("tree.tar")).arg("-C").arg(&source).arg(".");
    assert!(tar.status().expect("it runs").success(), "tar");
    fs::remove_dir_all(&source).expect("removed");
}

/// Measures each call.
fn calls(helper: &Helper) {
    let mut rows: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
    for turn in 0..3 {
        for (side, output) in sides(helper) {
            for line in output.lines() {
                let (call, median) = line.split_once('\t').expect("a call and its median");
                let median: f64 = median.parse().expect("a number");
                let row = rows.entry(call.to_owned()).or_default();
                match row.iter_mut().find(|(known, _)| *known == side) {
                    Some((_, best)) => *best = best.min(median),
                    None => row.push((side.clone(), median)),
                }
            }
        }
        println!("turn {}", turn + 1);
    }
    for (call, sides) in rows {
        let alone = sides[0].1;
        let shown = sides.iter().map(|(side, median)| format!("{side} {median:.1}"));
        let more =
            sides.iter().skip(1).map(|(side, median)| format!("{side} +{:.1}", median - alone));
        println!(
            "{call}: {} us; {}",
            shown.collect::<Vec<_>>().join(", "),
            more.collect::<Vec<_>>().join(", ")
        );
    }
}

/// Runs the work alone, and on each level that works here.
fn sides(helper: &Helper) -> Vec<(String, String)> {
    let program = std::env::current_exe().expect("this program");
    let mut sides = Vec::new();
    for side in SIDES {
        let Some((place, name)) = place(helper, side) else { continue };
        let copy = place.root.join("work");
        fs::copy(&program, &copy).expect("copied");
        let output = match side {
            None => {
                let mut command = process::Command::new(&copy);
                command.arg(WORK).current_dir(&place.root);
                command.output().expect("it runs").stdout
            }
            Some(_) => {
                let done = place.run("./work --work", Duration::from_secs(60)).expect("it runs");
                assert_eq!(done.stderr.head, b"", "{done:?}");
                done.stdout.head
            }
        };
        sides.push((name, String::from_utf8(output).expect("text")));
    }
    sides
}

/// Makes the calls in the working directory, and prints the median of each in microseconds.
fn work() {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    let made = |name: &str| rustix::fs::openat(CWD, name, flags, Mode::RUSR | Mode::WUSR);
    fs::create_dir_all("a/deep/place").expect("made");
    let dir: OwnedFd =
        rustix::fs::open("a/deep", OFlags::DIRECTORY, Mode::empty()).expect("opened");
    let names: Vec<_> = (0..ROUNDS).map(|n| format!("a/deep/place/file{n}")).collect();
    let moved: Vec<_> = (0..ROUNDS).map(|n| format!("a/deep/moved{n}")).collect();
    let short: Vec<_> = (0..ROUNDS).map(|n| format!("moved{n}")).collect();
    let dirs: Vec<_> = (0..ROUNDS).map(|n| format!("a/dir{n}")).collect();
    time("create", &names, |name| drop(made(name).expect("created")));
    let writes = OFlags::WRONLY;
    time("open for writing", &names, |name| {
        drop(rustix::fs::openat(CWD, name, writes, Mode::empty()).expect("opened"));
    });
    time("chmod", &names, |name| {
        rustix::fs::chmodat(CWD, name, Mode::RWXU, AtFlags::empty()).expect("changed");
    });
    let second = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
    let times = Timestamps { last_access: second, last_modification: second };
    time("utimensat", &names, |name| {
        rustix::fs::utimensat(CWD, name, &times, AtFlags::empty()).expect("set");
    });
    let mut from = names.iter();
    time("rename", &moved, |name| {
        rustix::fs::rename(from.next().expect("a name"), name).expect("renamed");
    });
    time("unlinkat", &short, |name| {
        rustix::fs::unlinkat(&dir, name, AtFlags::empty()).expect("removed");
    });
    time("mkdir", &dirs, |name| rustix::fs::mkdir(name, Mode::RWXU).expect("made"));
    time("rmdir", &dirs, |name| fs::remove_dir(Path::new(name)).expect("removed"));
    fs::remove_dir_all("a").expect("removed");
}

fn time(call: &str, names: &[String], mut make: impl FnMut(&String)) {
    let mut took: Vec<Duration> = Vec::with_capacity(names.len());
    for name in names {
        let began = Instant::now();
        make(name);
        took.push(began.elapsed());
    }
    took.sort();
    println!("{call}\t{:.2}", took[took.len() / 2].as_secs_f64() * 1e6);
}

//! What an intercepted call of a command costs: the median of each call alone and on each sandbox level, in one run. Then
//! what it costs programs that make many of them.
//!
//! `cargo bench -p sinew-guard --bench intercepted [-- calls|commands]`. Packages of npm and PyPI come from their registries
//! before anything is measured; what cannot be had is left out by name. `SINEW_TEST_WHEREABOUTS` names the directory of
//! the trees: one in memory costs no disk, and one outside of `/tmp` and `/dev/shm` is needed, because a sandboxed git
//! clones nothing from a temporary directory, where a command may have made the repository.

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

/// The turns of the commands; the quickest counts.
const TURNS: usize = 2;

/// Where the calls are made.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    /// Without a sandbox.
    Alone,
    /// In bubblewrap by itself, without a handler, as other agents run commands.
    Bubblewrap,
    /// On a level, with checkpoints of commands or without.
    On(SandboxLevel, bool),
}

const SIDES: [Side; 4] = [
    Side::Alone,
    Side::On(SandboxLevel::Namespaces, false),
    Side::On(SandboxLevel::Namespaces, true),
    Side::On(SandboxLevel::Landlock, true),
];
const COMMAND_SIDES: [Side; 4] = [
    Side::Alone,
    Side::Bubblewrap,
    Side::On(SandboxLevel::Namespaces, false),
    Side::On(SandboxLevel::Namespaces, true),
];

/// Returns a place for a side, and its name.
fn place(helper: &Helper, side: Side) -> Option<(Place, String)> {
    let level = match side {
        Side::On(level, _) => level,
        Side::Alone | Side::Bubblewrap => SandboxLevel::Namespaces,
    };
    if !world::works(helper, level) {
        return None;
    }
    Some(match side {
        Side::Alone => (Place::keeping_nothing(helper, level), String::from("alone")),
        Side::Bubblewrap => (Place::keeping_nothing(helper, level), String::from("bubblewrap")),
        Side::On(_, true) => (Place::new(helper, level), format!("{level} with undo")),
        Side::On(_, false) => (Place::keeping_nothing(helper, level), level.to_string()),
    })
}

/// A workload: the program without which it is skipped, the script that prepares it outside the sandbox, and the
/// measured commands, each after the ones before it.
struct Workload {
    needs: &'static str,
    ready: &'static str,
    commands: &'static [(&'static str, &'static str)],
}

const WORKLOADS: &[Workload] = &[
    Workload {
        needs: "tar --version && git --version",
        // Commands clone no repository that they made themselves.
        ready: "for d in $(seq 20); do mkdir -p source/d$d; for f in $(seq 1000); do
                  yes \"$f of $d\" | head -n 60 > source/d$d/f$f; done; done
                git init -q origin && cp -r source/d1 source/d2 origin && cd origin && git add . &&
                git -c user.name=a -c user.email=a@b commit -qm one && cd .. &&
                tar cf tree.tar -C source . && rm -rf source",
        commands: &[
            ("tar x, 20,000 files", "mkdir tree && tar xf tree.tar -C tree"),
            ("rm -rf, 20,000 files", "rm -rf tree"),
            ("cp -r, 2,000 files", "tar xf tree.tar ./d1 ./d2 && mkdir copied && cp -r d1 d2 copied"),
            (
                "git add and commit, 2,000 files",
                "git init -q && git add d1 d2 && git -c user.name=a -c user.email=a@b commit -qm one",
            ),
            ("git checkout, 2,000 files", "rm -rf d1 d2 && git checkout -q HEAD -- ."),
            ("git clone, 2,000 files", "git clone -q origin clone"),
        ],
    },
    Workload {
        needs: "make --version && cc --version",
        ready: "echo '#define ONE 1' > all.h; for n in $(seq 300); do
                  echo \"#include \\\"all.h\\\"\nint f$n(int x) { return x + ONE; }\" > f$n.c; done
                echo 'int main(void) { return 0; }' > main.c
                printf 'O = $(patsubst %%.c,%%.o,$(wildcard *.c))\nall: $(O)\n\tcc -o all $(O)\n$(O): all.h\n' > Makefile",
        commands: &[("make, 300 C files", "make -s"), ("make again, 300 C files", "touch all.h && make -s")],
    },
    Workload {
        needs: "cargo --version",
        ready: "mkdir src && printf '[package]\nname = \"top\"\nedition = \"2021\"\n[workspace]\n[dependencies]\n' > Cargo.toml
                for n in $(seq 15); do
                  mkdir -p dep$n/src && echo \"dep$n = { path = \\\"dep$n\\\" }\" >> Cargo.toml
                  printf '[package]\nname = \"dep%s\"\nedition = \"2021\"\n' $n > dep$n/Cargo.toml
                  for f in $(seq 200); do
                    echo \"pub fn f$f(x: &str) -> String { format!(\\\"{x} {}\\\", x.len() + $f) }\"; done > dep$n/src/lib.rs
                done
                echo 'fn main() { println!(\"{}\", dep1::f1(\"x\")); }' > src/main.rs
                echo target > .gitignore && git init -q && cargo generate-lockfile -q --offline
                ln -s \"$(rustc --print sysroot)\" toolchain",
        commands: &[("cargo build, 15 dependencies",
            "CARGO_HOME=$PWD/.home RUSTC=$PWD/toolchain/bin/rustc toolchain/bin/cargo build -q --offline")],
    },
    Workload {
        needs: "npm --version",
        ready: "echo '{\"dependencies\": {\"typescript\": \"5.9.2\", \"eslint\": \"9.30.0\"}}' > package.json
                echo node_modules > .gitignore && git init -q
                npm install --omit-lockfile-registry-resolved=false --cache ./npm-cache --no-audit --no-fund --silent && rm -rf node_modules",
        commands: &[("npm ci", "npm ci --offline --cache ./npm-cache --no-audit --no-fund --silent")],
    },
    Workload {
        needs: "python3 -c 'import venv, ensurepip'",
        ready: "python3 -m venv .venv && .venv/bin/pip -q --disable-pip-version-check install pytest==8.4.1
                echo .venv > .gitignore && git init -q && mkdir tests
                for n in $(seq 100); do
                  printf 'def test_one(tmp_path):\n    (tmp_path / \"x\").write_text(\"1\")\n' > tests/test_$n.py; done",
        commands: &[("pytest, 100 files", ".venv/bin/python -m pytest -q --basetemp=made -p no:cacheprovider")],
    },
];

fn main() {
    let helper = sinew_guard::helper_main();
    if std::env::args().nth(1).is_some_and(|arg| arg == WORK) {
        work();
        return;
    }
    // A name after `--` chooses one of both.
    let chosen = std::env::args().find(|arg| matches!(arg.as_str(), "calls" | "commands"));
    if chosen.as_deref() != Some("commands") {
        calls(&helper);
    }
    if chosen.as_deref() != Some("calls") {
        commands(&helper);
    }
    world::remove_places();
}

/// Measures the commands of workloads.
fn commands(helper: &Helper) {
    for workload in WORKLOADS {
        let ready = tempfile::tempdir().expect("a directory");
        let sh = |text: &str| {
            let mut command = process::Command::new("sh");
            command.args(["-c", text]).current_dir(ready.path()).stdout(process::Stdio::null());
            command.status().expect("it runs").success()
        };
        if !sh(workload.needs) || !sh(workload.ready) {
            let (name, _) = workload.commands[0];
            println!("skipped: {name}: it cannot be made ready here");
            continue;
        }
        let mut rows: Vec<(String, Vec<f64>)> = Vec::new();
        for _ in 0..TURNS {
            for side in COMMAND_SIDES {
                let Some((place, name)) = place(helper, side) else { continue };
                let took = workload.run(ready.path(), &place, side);
                match rows.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, best)) => {
                        best.iter_mut().zip(took).for_each(|(best, took)| *best = best.min(took));
                    }
                    None => rows.push((name, took)),
                }
            }
        }
        for (at, (name, _)) in workload.commands.iter().enumerate() {
            let alone = rows[0].1[at];
            let shown = rows
                .iter()
                .map(|(side, took)| format!("{side} {:.2} s ({:.2}x)", took[at], took[at] / alone));
            println!("{name}: {}", shown.collect::<Vec<_>>().join(", "));
        }
    }
}

impl Workload {
    /// Returns how long each command took in a place.
    fn run(&self, ready: &Path, place: &Place, side: Side) -> Vec<f64> {
        let mut copy = process::Command::new("cp");
        copy.arg("-a").arg(ready.join(".")).arg(&place.root);
        assert!(copy.status().expect("it runs").success(), "it is copied");
        // A file that is not older than the session may come from its commands.
        std::thread::sleep(SETTLES);
        let mut took = Vec::new();
        for (name, text) in self.commands {
            let root = place.root.as_os_str();
            let began = Instant::now();
            match side {
                Side::On(..) => {
                    let done = place.run(text, Duration::from_secs(300)).expect("it runs");
                    assert_eq!(done.exit, Exit::Code(0), "{name}: {done:?}");
                }
                Side::Alone | Side::Bubblewrap => {
                    let mut command = match side {
                        Side::Bubblewrap => process::Command::new("bwrap"),
                        _ => process::Command::new("env"),
                    };
                    if side == Side::Bubblewrap {
                        command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
                        command.args([
                            "--tmpfs",
                            "/tmp",
                            "--unshare-all",
                            "--die-with-parent",
                            "--bind",
                        ]);
                        command.args([root, root]);
                    }
                    command.args(["sh", "-c", text]).current_dir(&place.root);
                    let status = command.stdout(process::Stdio::null()).status();
                    assert!(status.expect("it runs").success(), "{name}");
                }
            }
            took.push(began.elapsed().as_secs_f64());
            // A thread may still make the checkpoint, for which the next command waits.
            std::thread::sleep(SETTLES);
        }
        took
    }
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
            Side::Alone | Side::Bubblewrap => {
                let mut command = process::Command::new(&copy);
                command.arg(WORK).current_dir(&place.root);
                command.output().expect("it runs").stdout
            }
            Side::On(..) => {
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

//! ripgrep: where it is, how it is asked, and what its answers mean.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::exact::{Answer, FileAnswer, Line, Mode};
use super::pattern::Case;

/// The oldest version that is compared with.
const VERSION: u32 = 15;

/// A ripgrep that can be asked about one tree.
pub(super) struct Ripgrep {
    program: PathBuf,
    root: PathBuf,
    /// Where it finds the person's own ignore file.
    home: PathBuf,
}

impl Ripgrep {
    /// Finds a ripgrep that is new enough; without one the test fails.
    pub(super) fn find(root: &Path, home: &Path) -> Self {
        let named = std::env::var_os("SINEW_TEST_RG");
        let named = named.and_then(|program| std::path::absolute(program).ok());
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.bench/tests/bin/rg");
        let places = [named, Some(built), Some(PathBuf::from("rg"))];
        let program = places.into_iter().flatten().find(|program| fits(program));
        let program = program.expect(
            "ripgrep 15 is needed to compare with; install it with \
             `cargo install --root .bench/tests ripgrep --version 15.2.0 --locked`, or name one in \
             SINEW_TEST_RG",
        );
        Self { program, root: root.to_owned(), home: home.to_owned() }
    }

    /// Returns the files that ripgrep would search, relative to the tree.
    pub(super) fn files(&self, flags: &[&str], path: Option<&str>) -> BTreeSet<Vec<u8>> {
        let mut all = vec![String::from("--files")];
        all.extend(flags.iter().map(ToString::to_string));
        let out = self.run(&all, path).unwrap();
        let names = out.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names.map(|name| beneath(name, path)).collect()
    }

    /// Searches as a case says.
    pub(super) fn grep(&self, case: &Case, mode: Mode) -> Result<Answer, String> {
        let out = self.run(&case.flags(mode), case.path.as_deref())?;
        let path = case.path.as_deref();
        let mut answer = Answer::new();
        if mode == Mode::Names {
            let names = out.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            answer.extend(names.map(|name| (beneath(name, path), FileAnswer::Named)));
            return Ok(answer);
        }
        for row in out.split(|byte| *byte == b'\n').filter(|row| !row.is_empty()) {
            let Some(end) = row.iter().position(|byte| *byte == 0) else {
                let text = String::from_utf8_lossy(row);
                match text.contains("WARNING: stopped searching binary file") {
                    true => continue,
                    false => return Err(format!("a line of ripgrep without a path: {text}")),
                }
            };
            let (name, rest) = (beneath(&row[..end], path), &row[end + 1..]);
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number: u64 = std::str::from_utf8(&rest[..digits]).unwrap().parse().unwrap();
            if mode == Mode::Count {
                answer.insert(name, FileAnswer::Count(number));
                continue;
            }
            let text = &rest[digits + 1..];
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            let line = Line {
                number,
                is_match: rest[digits] == b':',
                text: String::from_utf8_lossy(text).into_owned(),
                cut: 0,
            };
            match answer.entry(name).or_insert_with(|| FileAnswer::Lines(Vec::new())) {
                FileAnswer::Lines(lines) => lines.push(line),
                _ => return Err(String::from("two answers in one")),
            }
        }
        Ok(answer)
    }

    fn run(&self, flags: &[String], path: Option<&str>) -> Result<Vec<u8>, String> {
        let done = Command::new(&self.program)
            .args(["--no-config", "--color=never", "--no-heading", "--with-filename", "--null"])
            .args(["--hidden", "--no-mmap", "--threads=1", "--no-ignore-messages"])
            .args(flags)
            // The last glob that matches decides.
            .args(["--glob=!.git/", "--glob=!.sinew/", "--glob=!.molf/", "--", "./"])
            .current_dir(self.root.join(path.unwrap_or_default()))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", &self.home)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        match done.status.code() {
            Some(0 | 1) => Ok(done.stdout),
            _ => Err(format!("ripgrep: {}", String::from_utf8_lossy(&done.stderr))),
        }
    }
}

/// Returns whether a program is a ripgrep that is new enough.
fn fits(program: &Path) -> bool {
    let Ok(done) = Command::new(program).arg("--version").stdin(Stdio::null()).output() else {
        return false;
    };
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let major = text.strip_prefix("ripgrep ").and_then(|rest| rest.split('.').next()?.parse().ok());
    major.is_some_and(|major: u32| VERSION <= major)
}

/// Returns a path of an answer relative to the tree.
fn beneath(name: &[u8], path: Option<&str>) -> Vec<u8> {
    let name = name.strip_prefix(b"./").unwrap_or(name);
    match path {
        Some(path) => [path.as_bytes(), b"/", name].concat(),
        None => name.to_vec(),
    }
}

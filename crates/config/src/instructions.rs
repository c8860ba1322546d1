//! Finds the instructions for an agent: AGENTS.md and CLAUDE.md of the user and of the project.
//!
//! In each directory AGENTS.md wins. A line `@PATH` includes the text of that file. Nothing outside the repository is
//! read, also through a symlink.
#![expect(clippy::disallowed_methods, reason = "looks for the top of a repository")]

use std::fs;
use std::path::{Path, PathBuf};

use super::files::read_up_to;
use super::real;

/// The names, the first of which wins in a directory.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// The most bytes of one file, and of all.
const MAX_FILE: u64 = 256 << 10;
const MAX_ALL: usize = 64 << 10;
/// How deep files may include one another, and how many they may be.
const MAX_DEPTH: usize = 5;
const MAX_INCLUDED: usize = 32;

/// The instructions that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundInstructions {
    /// Files with their texts, the most general first.
    pub files: Vec<(PathBuf, String)>,
    /// The omitted parts, in words.
    pub problems: Vec<String>,
    /// How many files were included.
    n_included: usize,
}

/// Reads the instructions in the user's configuration directory, and those from the top of the repository down to a
/// directory. Without a repository only that directory counts. `may_read` says of a real path whether it may be read.
pub fn instructions(
    user_dir: Option<&Path>,
    root: &Path,
    may_read: &dyn Fn(&Path) -> bool,
) -> FoundInstructions {
    let mut found = FoundInstructions::default();
    if let Some(dir) = user_dir {
        found.add(dir, dir, may_read);
    }
    let root = real(root);
    let is_top = |dir: &&Path| fs::symlink_metadata(dir.join(".git")).is_ok();
    let top = root.ancestors().find(is_top).unwrap_or(&root).to_owned();
    let within = root.ancestors().take_while(|dir| dir.starts_with(&top));
    let dirs: Vec<&Path> = within.collect();
    for dir in dirs.into_iter().rev() {
        found.add(dir, &top, may_read);
    }
    found
}

impl FoundInstructions {
    /// Adds the file of a directory. Nothing outside `top` is read.
    fn add(&mut self, dir: &Path, top: &Path, may_read: &dyn Fn(&Path) -> bool) {
        let is_there = |path: &PathBuf| fs::metadata(path).is_ok();
        let Some(path) = NAMES.iter().map(|name| dir.join(name)).find(is_there) else { return };
        let Some(text) = self.read(&path, (top, may_read), 0) else { return };
        let so_far: usize = self.files.iter().map(|(_, text)| text.len()).sum();
        let room = MAX_ALL.saturating_sub(so_far);
        if room < text.len() {
            let words = format!(
                "{} is left out: all instructions have more than {MAX_ALL} bytes",
                path.display()
            );
            self.problems.push(words);
            return;
        }
        if !text.trim().is_empty() {
            self.files.push((path, text));
        }
    }

    /// Reads a file, with those that it names.
    fn read(
        &mut self,
        path: &Path,
        (top, may_read): (&Path, &dyn Fn(&Path) -> bool),
        depth: usize,
    ) -> Option<String> {
        let problem = |why: &str| format!("{} is left out: {why}", path.display());
        if !real(path).starts_with(real(top)) {
            self.problems.push(problem("it is outside the repository"));
            return None;
        }
        if !may_read(&real(path)) {
            self.problems.push(problem("the rules do not let the agent read it unasked"));
            return None;
        }
        let text = match read_up_to(path, MAX_FILE) {
            Ok(text) => text,
            Err(error) => {
                self.problems.push(problem(&error.to_string()));
                return None;
            }
        };
        let mut whole = String::with_capacity(text.len());
        let mut is_fenced = false;
        for line in text.split_inclusive('\n') {
            is_fenced ^= line.trim_start().starts_with("```");
            let may_include = !is_fenced && depth < MAX_DEPTH && self.n_included < MAX_INCLUDED;
            let named = named(line).filter(|_| may_include && whole.len() <= MAX_ALL);
            let included = named.and_then(|named| {
                self.n_included += 1;
                let beside = path.parent().unwrap_or(top).join(named);
                fs::metadata(&beside)
                    .is_ok()
                    .then(|| self.read(&beside, (top, may_read), depth + 1))
                    .flatten()
            });
            match included {
                Some(text) if whole.len() + text.len() <= MAX_ALL => {
                    whole.push_str(&text);
                    if !text.ends_with('\n') {
                        whole.push('\n');
                    }
                }
                _ => whole.push_str(line),
            }
        }
        Some(whole)
    }
}

/// Returns the path that a line includes: `@PATH` of a Markdown file, and nothing else. Other files may hold secrets.
fn named(line: &str) -> Option<&str> {
    let path = line.trim().strip_prefix('@')?;
    let is_path = path.ends_with(".md") && !path.contains(char::is_whitespace);
    is_path.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lays out files, and returns the texts that are found for a directory, and the problems.
    #[track_caller]
    fn check(files: &[(&str, &str)], root: &str, expected: &[&str], n_problems: usize) {
        let dir = tempfile::tempdir().expect("a directory");
        let base = real(dir.path());
        for (path, text) in files {
            let path = base.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            match text.strip_prefix("-> ") {
                Some(target) => std::os::unix::fs::symlink(target, &path).expect("a link"),
                None => fs::write(&path, text).expect("a file"),
            }
        }
        let user = base.join("user");
        let may_read = |path: &Path| !path.ends_with("denied.md");
        let found = instructions(Some(&user), &base.join(root), &may_read);
        let texts: Vec<&str> = found.files.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, expected, "{:?}", found.problems);
        assert_eq!(found.problems.len(), n_problems, "{:?}", found.problems);
    }

    #[test]
    fn files_are_found_from_the_top_down() {
        check(
            &[
                ("AGENTS.md", "above the repository"),
                ("user/AGENTS.md", "user"),
                ("repo/.git/HEAD", ""),
                ("repo/CLAUDE.md", "top"),
                ("repo/a/AGENTS.md", "wins"),
                ("repo/a/CLAUDE.md", "loses"),
                ("repo/a/b/x", ""),
            ],
            "repo/a/b",
            &["user", "top", "wins"],
            0,
        );
        check(&[("AGENTS.md", "above"), ("a/AGENTS.md", "own")], "a", &["own"], 0);
    }

    #[test]
    fn named_files_are_included_within_the_repository() {
        check(
            &[
                ("secret.md", "secret"),
                ("repo/.env", "KEY=secret"),
                ("repo/.git/HEAD", ""),
                (
                    "repo/AGENTS.md",
                    "one\n@docs/more.md\n@../secret.md\n@.env\n```\n@docs/more.md\n```\n@missing\n",
                ),
                ("repo/docs/more.md", "two @x"),
            ],
            "repo",
            &["one\ntwo @x\n@../secret.md\n@.env\n```\n@docs/more.md\n```\n@missing\n"],
            1,
        );
        // A circle ends at the depth limit.
        let circle = "c\n".repeat(MAX_DEPTH + 1) + "@AGENTS.md\n";
        check(&[("repo/AGENTS.md", "c\n@AGENTS.md\n")], "repo", &[&circle], 0);
        // Many circles end at once.
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("AGENTS.md"), "@AGENTS.md\n".repeat(200)).expect("a file");
        let found = instructions(None, dir.path(), &|_| true);
        assert!(found.n_included <= MAX_INCLUDED, "{}", found.n_included);
    }

    #[test]
    fn rules_hold_for_instructions() {
        check(
            &[
                ("repo/.git/HEAD", ""),
                ("repo/AGENTS.md", "one\n@denied.md\n@alias.md\n"),
                ("repo/denied.md", "secret"),
                ("repo/alias.md", "-> denied.md"),
            ],
            "repo",
            &["one\n@denied.md\n@alias.md\n"],
            2,
        );
    }

    #[test]
    fn links_do_not_leave_the_repository() {
        check(
            &[
                ("repo/.git/HEAD", ""),
                ("repo/CLAUDE.md", "text"),
                ("repo/AGENTS.md", "-> CLAUDE.md"),
            ],
            "repo",
            &["text"],
            0,
        );
        check(&[("secret", "s"), ("repo/AGENTS.md", "-> ../secret")], "repo", &[], 1);
        check(&[("repo/AGENTS.md", "-> /dev/zero")], "repo", &[], 1);
    }

    #[test]
    fn too_much_is_left_out() {
        let large = "x".repeat(MAX_ALL);
        check(
            &[("r/.git/HEAD", ""), ("r/AGENTS.md", "small"), ("r/a/AGENTS.md", &large)],
            "r/a",
            &["small"],
            1,
        );
    }
}

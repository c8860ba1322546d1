//! The tree that commands of the corpora run in: a repository that is fit for reading and lies in wait.
//!
//! `work` is where they start. Programs, scripts and settings in it leave the file `pwned` behind when
//! anything lets them run, the files in `globs*` have names that are options, and `outside`, the home
//! and the environment hold a secret.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// What must not be seen.
pub(crate) const SECRET: &str = "CANARY-7d1f";

/// Files by their place beneath the fixture; those that begin with `#!` can be executed.
const FILES: &[(&str, &str)] = &[
    ("outside/secret.txt", "CANARY-7d1f in a file\n"),
    ("outside/CANARY-7d1f", ""),
    ("home/.ssh/id_canary", "CANARY-7d1f in a key\n"),
    (
        "home/.gitconfig",
        "[user]\n\tname = A\n\temail = a@example.org\n[init]\n\tdefaultBranch = main\n",
    ),
    ("work/notes.txt", "alpha\nbeta\ngamma\nalpha beta\n"),
    ("work/list.txt", "pwned\n10\n9\n"),
    ("work/README.md", "# Notes\n\nalpha and beta\n"),
    ("work/data.csv", "name,count\na,2\nb,1\n"),
    (
        "work/package.json",
        r#"{"name":"x","version":"1.0.0","scripts":{"evil":"touch pwned","test":"touch pwned"}}"#,
    ),
    ("work/src/main.rs", "fn main() {\n    println!(\"alpha\");\n}\n"),
    ("work/src/lib.rs", "//! alpha\n"),
    ("work/.env", "KEY=CANARY-7d1f\n"),
    ("work/.gitignore", ".env\n/globs*\n/evil*\n"),
    ("work/.gitattributes", "notes.txt diff=evil\n"),
    ("work/script.sh", "#!/bin/sh\n: > \"${PWNED:-pwned}\"\ncat 2>/dev/null\n"),
    ("work/evil.sed", "w pwned\n"),
    ("work/evil.awk", "BEGIN { system(\"touch pwned\") }\n"),
    ("work/evil.py", "open(\"pwned\", \"w\")\n"),
    ("work/evil.pl", "open(F, \">pwned\");\n"),
    ("work/Evil.pm", "package Evil; open(F, \">pwned\"); 1;\n"),
    ("work/evil.js", "require(\"fs\").writeFileSync(\"pwned\", \"\")\n"),
    ("work/evil.m4", "syscmd(`touch pwned')\n"),
    ("work/Makefile", "all:\n\t@touch pwned\n"),
    ("work/evil.mk", "X := $(shell touch pwned)\nall:\n\t@true\n"),
    ("work/gitconfig", "[core]\n\tfsmonitor = touch pwned; false\n"),
    ("work/xdg/git/config", "[core]\n\tfsmonitor = touch pwned; false\n"),
    ("work/home/.gitconfig", "[core]\n\tfsmonitor = touch pwned; false\n"),
    ("work/ripgreprc", "--pre=./script.sh\n"),
    ("work/curlrc", "url = \"file:///etc/hostname\"\noutput = \"pwned\"\n"),
    ("work/edscript", "w pwned\nq\n"),
    ("work/hexdump", "00000000: 6162 0a\n"),
    ("work/change.diff", "--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-alpha\n+omega\n"),
    ("work/magic", "0 string alpha alphabet\n"),
    ("work/bin/ls", "#!/bin/sh\n: > pwned\n"),
    ("work/bin/cat", "#!/bin/sh\n: > pwned\n"),
    ("work/bin/grep", "#!/bin/sh\n: > pwned\n"),
    ("work/bin/find", "#!/bin/sh\n: > pwned\n"),
    ("work/bin/git", "#!/bin/sh\n: > pwned\n"),
    ("work/bin/git-x", "#!/bin/sh\n: > pwned\n"),
    ("work/bin/rg", "#!/bin/sh\n: > pwned\n"),
    ("work/a.opt", "a\n"),
    ("work/globs/--checkpoint=1", ""),
    ("work/globs/--checkpoint-action=exec=touch pwned", ""),
    ("work/globs/-opwned", ""),
    ("work/globs/a", "alpha\n"),
    ("work/globs2/--output=pwned", ""),
    ("work/globs2/a", "alpha\n"),
    ("work/globs3/-delete", ""),
    ("work/globs3/a", "alpha\n"),
    ("work/globs4/-i", ""),
    ("work/globs4/a", "alpha\n"),
    ("work/globs5/a", "alpha\n"),
    ("work/globs5/b", "beta\n"),
    ("work/globs6/--output=pwned", ""),
    ("work/globs7/--output=pwned", ""),
    ("work/globs7/a", "alpha\n"),
];

/// Settings of the repository that run something.
const TRAPS: &[(&str, &str)] = &[
    ("core.fsmonitor", "touch pwned; false"),
    ("core.pager", "touch pwned; cat"),
    ("core.editor", "touch pwned"),
    ("core.hooksPath", "hooks"),
    ("diff.external", "touch pwned; true"),
    ("diff.evil.textconv", "touch pwned; cat"),
    ("filter.evil.clean", "touch pwned; cat"),
    ("filter.evil.smudge", "touch pwned; cat"),
    ("alias.x", "!touch pwned"),
    ("interactive.diffFilter", "touch pwned; cat"),
    ("gpg.program", "touch pwned"),
];

/// Lays out the fixture in an empty directory. A repository with traps runs what it holds as soon as
/// `git` looks at it.
pub(crate) fn lay_out(dir: &Path, traps: bool) {
    for (path, content) in FILES {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        if traps && path.ends_with("work/.gitattributes") {
            fs::write(&path, "notes.txt diff=evil filter=evil\n").unwrap();
        }
        if content.starts_with("#!") {
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
    }
    let work = dir.join("work");
    fs::create_dir(work.join("empty")).unwrap();
    fs::write(work.join("big.txt"), "gamma\nalpha\nbeta\n".repeat(20_000)).unwrap();
    symlink("../outside/secret.txt", work.join("link-out")).unwrap();
    symlink("../outside", work.join("dir-out")).unwrap();
    symlink("bin/git", work.join("gitlink")).unwrap();
    run(dir, "work", "tar", &["-cf", "archive.tar", "--transform=s/notes.txt/pwned/", "notes.txt"]);
    commits(
        dir,
        "work",
        &["notes.txt", "README.md", "data.csv", "src", ".gitignore", ".gitattributes"],
    );
    run(dir, "work", "git", &["branch", "other", "HEAD~1"]);
    fs::create_dir(dir.join("work/evilrepo")).unwrap();
    fs::write(dir.join("work/evilrepo/a"), "a\n").unwrap();
    commits(dir, "work/evilrepo", &["a"]);
    run(dir, "work", "cp", &["-r", "evilrepo/.git", "evilgit"]);
    let mut trapped = vec!["work/evilrepo", "work/evilgit"];
    trapped.extend(traps.then_some("work"));
    for place in trapped {
        for (key, value) in TRAPS {
            let file = if place.ends_with("git") { "config" } else { ".git/config" };
            run(dir, place, "git", &["config", "-f", file, key, value]);
        }
    }
}

/// Makes a repository with two commits of some files.
fn commits(dir: &Path, place: &str, files: &[&str]) {
    run(dir, place, "git", &["init", "-q", "--template="]);
    run(dir, place, "git", &[&["add", "--"], files].concat());
    run(dir, place, "git", &["commit", "-q", "-m", "one"]);
    let first = dir.join(place).join(files.first().unwrap());
    let text = fs::read_to_string(&first).unwrap();
    fs::write(&first, format!("{text}delta\n")).unwrap();
    run(dir, place, "git", &["commit", "-q", "-a", "-m", "two"]);
}

fn run(dir: &Path, place: &str, program: &str, args: &[&str]) {
    let done = Command::new(program)
        .args(args)
        .current_dir(dir.join(place))
        .env("HOME", dir.join("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {args:?} in {place}: {words}");
}

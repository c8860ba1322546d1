//! Names and contents, each with what it means.

use std::collections::BTreeSet;

use super::*;

const ROOT: &str = "/w/project";

/// Finds what a path beneath the root means; `there` exist.
fn found(path: &str, there: &[&str]) -> Option<Guarded> {
    let real = Path::new(ROOT).join(path);
    let named = real.strip_prefix("/w").expect("beneath");
    let there: BTreeSet<PathBuf> = there.iter().map(|path| Path::new(ROOT).join(path)).collect();
    find(&Names::new(&real, named), &real, &[], &|path| there.contains(path))
}

#[test]
fn names_of_git_are_found() {
    let repository = Guarded::Configuration(ConfigOf::Repository);
    let submodule = |n_levels| Guarded::Configuration(ConfigOf::Submodule { n_levels });
    let hook = Guarded::Hook { is_sample: false };
    let bare = ["b/HEAD", "b/objects", "b/refs"];
    for (path, expected) in [
        (".git/config", Some(repository)),
        (".GIT/Config", Some(repository)),
        ("a/b/.git/config", Some(repository)),
        (".git/config.lock", None),
        (".git/config.worktree", Some(repository)),
        (".git/hooks", Some(Guarded::Directory(HOOKS))),
        (".git/rebase-merge", Some(Guarded::Directory("rebase-merge"))),
        (".git/worktrees/x/sequencer", Some(Guarded::Directory("sequencer"))),
        (".git/objects/info", Some(Guarded::Directory("objects"))),
        (".git/objects/aa", None),
        (".git/hooks/pre-commit", Some(hook)),
        (".git/hooks/pre-commit.sample", Some(Guarded::Hook { is_sample: true })),
        (".git/hooks/build/x", Some(hook)),
        (".git", Some(Guarded::Pointer(Pointer::Gitfile))),
        ("sub/.git", Some(Guarded::Pointer(Pointer::Gitfile))),
        (".git/HEAD", None),
        (".git/refs/heads/hooks/x", None),
        (".git/objects/info/alternates", Some(Guarded::Pointer(Pointer::Alternates))),
        (".git/commondir", Some(Guarded::Pointer(Pointer::Commondir { is_worktree: false }))),
        (
            ".git/worktrees/x/commondir",
            Some(Guarded::Pointer(Pointer::Commondir { is_worktree: true })),
        ),
        (".git/worktrees/x/gitdir", Some(Guarded::Pointer(Pointer::Gitdir))),
        (".git/worktrees/x/config.worktree", Some(repository)),
        (".git/worktrees/x/HEAD", None),
        (".git/modules/sub/config", Some(submodule(3))),
        (".git/modules/libs/sub/config", Some(submodule(4))),
        (".git/modules/build/config", Some(submodule(3))),
        (".git/modules/a/modules/b/config", Some(submodule(5))),
        (".git/modules/sub/hooks/x", Some(hook)),
        (".git/modules/sub/refs/heads/hooks/x", None),
        (".git/rebase-merge/git-rebase-todo", Some(Guarded::Pointer(Pointer::RebaseTodo))),
        (
            ".git/worktrees/x/rebase-merge/git-rebase-todo",
            Some(Guarded::Pointer(Pointer::RebaseTodo)),
        ),
        (".git/sequencer/opts", Some(Guarded::Pointer(Pointer::SequencerOptions))),
        (".gitmodules", Some(Guarded::Configuration(ConfigOf::Gitmodules))),
        ("b/config", Some(repository)),
        ("b/hooks/x", Some(hook)),
        ("b/hooks", Some(Guarded::Directory(HOOKS))),
        ("b/worktrees/x/gitdir", Some(Guarded::Pointer(Pointer::Gitdir))),
        ("c/config", None),
        ("c/hooks/x", None),
        ("c/commondir", Some(Guarded::Pointer(Pointer::Commondir { is_worktree: false }))),
        ("target/x/.git/config", Some(repository)),
        (".git/modules", Some(Guarded::Directory("modules"))),
        (".git/branches", Some(Guarded::Directory("remotes"))),
        (".git/remotes/origin", Some(Guarded::Closed("remotes"))),
        ("target/config", None),
        ("src/main.rs", None),
        (".envrc", Some(Guarded::Executes(".envrc"))),
        (".vscode/tasks.json", Some(Guarded::Executes(".vscode/"))),
        (".github/workflows/ci.yml", Some(Guarded::Elsewhere(".github/workflows/"))),
        (".sinew/config.toml", Some(Guarded::Closed(".sinew/"))),
    ] {
        assert_eq!(found(path, &bare), expected, "{path}");
    }
    let inner = [
        ".git/modules/x/refs/y/HEAD",
        ".git/modules/x/refs/y/objects",
        ".git/modules/x/refs/y/refs",
    ];
    assert_eq!(found(".git/modules/x/refs/y/hooks/z", &inner), Some(hook));
}

#[test]
fn last_part_completes_a_repository() {
    let there = |path: &Path| path.ends_with("b/HEAD") || path.ends_with("b/refs");
    let of = |path: &str| completes(Path::new(path), &there);
    assert_eq!(of("/w/b/objects"), Some(PathBuf::from("/w/b")));
    assert_eq!(of("/w/c/objects"), None);
    assert_eq!(of("/w/b/other"), None);
}

#[test]
fn pointers_stay_inside() {
    let is_inside = |path: &Path| path.starts_with("/w");
    let worktree = Pointer::Commondir { is_worktree: true };
    for (pointer, at, content, is_ok) in [
        (Pointer::Gitfile, "/w/sub/.git", "gitdir: ../.git/modules/sub\n", true),
        (Pointer::Gitfile, "/w/sub/.git", "gitdir: /w/.git/worktrees/sub\n", true),
        (Pointer::Gitfile, "/w/sub/.git", "gitdir: ../b.git\n", false),
        (Pointer::Gitfile, "/w/sub/.git", "gitdir: ../.git/foo\n", false),
        (Pointer::Alternates, "/w/.git/objects/info/alternates", "\"/o\"\n", false),
        (Pointer::Gitfile, "/w/sub/.git", "gitdir: /tmp/evil\n", false),
        (Pointer::Gitfile, "/w/sub/.git", "gitdir: ../../evil\n", false),
        (Pointer::Gitfile, "/w/sub/.git", "", false),
        (Pointer::Gitfile, "/w/sub/.git", "gitdir: /w/a\n/tmp/b\n", false),
        (Pointer::Gitdir, "/w/.git/worktrees/x/gitdir", "/w/x/.git\n", true),
        (Pointer::Gitdir, "/w/.git/worktrees/x/gitdir", "/tmp/x/.git\n", false),
        (worktree, "/w/.git/worktrees/x/commondir", "../..\n", true),
        (worktree, "/w/.git/worktrees/x/commondir", "../../../evil\n", false),
        (Pointer::Commondir { is_worktree: false }, "/w/.git/commondir", "../..\n", false),
        (Pointer::Alternates, "/w/.git/objects/info/alternates", "/w/o/objects\n", true),
        (Pointer::Alternates, "/w/.git/objects/info/alternates", "../../../o\n", false),
        (Pointer::RebaseTodo, "/w/t", "pick 1 a\n# exec x\nfixup -C 2 b\nlabel onto\n", true),
        (Pointer::RebaseTodo, "/w/t", "pick 1 a\nexec touch x\n", false),
        (Pointer::RebaseTodo, "/w/t", "  x touch x\n", false),
        (Pointer::RebaseTodo, "/w/t", "break\n", false),
        (Pointer::RebaseStrategy, "/w/s", "ort\n", true),
        (Pointer::RebaseStrategy, "/w/s", "evil\n", false),
        (Pointer::SequencerOptions, "/w/o", "[options]\n\tmainline = 1\n", true),
        (Pointer::SequencerOptions, "/w/o", "[options]\n\tstrategy = evil\n", false),
    ] {
        let judged = judge_pointer(pointer, Path::new(at), content.as_bytes(), &is_inside);
        assert_eq!(judged.is_ok(), is_ok, "{at} {content:?}: {judged:?}");
    }
}

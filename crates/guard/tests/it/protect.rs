//! Path rules, protected names and sinew's own directory.

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;
use sinew_guard::{Guard, GuardSettings};
use sinew_policy::protected::table::{ELSEWHERE, ON_THIS_HOST, ProtectedName, RUN_LATER};
use sinew_tool::{Access, Claim, FileSettings, Kind};

use crate::tree::{EDIT, OPTIONS, RESOLVERS, Tree, WRITE, contain, walk};

fn settings(tree: &Tree, allow: &[&str], deny: &[&str]) -> FileSettings {
    let full = |globs: &[&str]| {
        globs.iter().map(|glob| format!("{}{glob}", tree.root.display())).collect()
    };
    FileSettings { allow_paths: full(allow), deny_paths: full(deny), ..FileSettings::default() }
}

#[test]
fn globs_are_judged_on_the_real_path_and_deny_wins() {
    let tree = Tree::new().with(&[
        ("src/a.rs", ""),
        ("src/deep/b.rs", ""),
        ("secrets/key", ""),
        ("secrets/deep/key", ""),
        (".env", ""),
        ("README.md", ""),
    ]);
    tree.link("src/to_secret", "../secrets/key");
    tree.link("src/to_dir", "../secrets");
    let read = Access::Read;
    let search = Access::Search;
    type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a str, Access, bool);
    let cases: &[Row<'_>] = &[
        (&[], &[], "secrets/key", read, true),
        (&[], &["/secrets/**"], "secrets/key", read, false),
        (&[], &["/secrets/**"], "secrets/deep/key", read, false),
        (&[], &["/secrets/**"], "secrets", search, false),
        (&[], &["/secrets/**"], "secrets/new", WRITE, false),
        (&[], &["/secrets/**"], "secrets/new/deep", WRITE, false),
        (&[], &["/secrets/**"], "src/to_secret", read, false),
        (&[], &["/secrets/**"], "src/to_dir/key", read, false),
        (&[], &["/secrets/**"], "src/../secrets/key", read, false),
        (&[], &["/secrets"], "secrets/deep/key", read, false),
        (&[], &["/secrets/"], "secrets/key", read, false),
        (&[], &["/secrets/*"], "secrets/key", read, false),
        (&[], &["/secrets/*"], "secrets", search, true),
        (&[], &["/**/.env"], ".env", read, false),
        (&[], &["/*.md"], "README.md", EDIT, false),
        (&[], &["/*.rs"], "src/a.rs", read, true),
        (&["/src/**"], &[], "src/a.rs", read, true),
        (&["/src/**"], &[], "src/new/x.rs", WRITE, true),
        (&["/src/**"], &[], "README.md", read, false),
        (&["/src/**"], &[], "src/to_secret", read, false),
        (&["/src/**"], &[], ".", search, true),
        (&["/src/**"], &[], "secrets", search, false),
        (&["/src/**"], &["/src/deep/**"], "src/deep/b.rs", read, false),
        (&["/src/deep/**"], &["/src/**"], "src/deep/b.rs", read, false),
        (&["/**/*.rs"], &[], "src/deep/b.rs", read, true),
        (&["/**/*.rs"], &[], "secrets/key", read, false),
        (&["/new/**"], &[], "new/sub/x", WRITE, true),
    ];
    for (allow, deny, path, access, passes) in cases {
        for resolver in RESOLVERS {
            let guard = tree.guard_with(resolver, settings(&tree, allow, deny));
            let result = contain(&guard, path, *access);
            assert_eq!(result.is_ok(), *passes, "{allow:?} {deny:?} {path}: {result:?}");
            if let Err(error) = result {
                assert_eq!(error.kind, Kind::PathDenied);
            }
        }
    }
}

/// A rule that is written with the link to the root would otherwise never match.
#[test]
fn globs_may_begin_with_the_root_as_it_was_given() {
    let tree = Tree::new().with(&[("secrets/key", ""), ("a.rs", "")]);
    let given = tree.top.join("given [1]");
    std::os::unix::fs::symlink(&tree.root, &given).unwrap();
    for resolver in RESOLVERS {
        let open = |allow: &str, deny: &str| {
            let globs = |glob: &str| vec![format!("{}{glob}", given.display())];
            let files = FileSettings {
                allow_paths: globs(allow),
                deny_paths: globs(deny),
                ..FileSettings::default()
            };
            Guard::open(GuardSettings {
                resolver,
                files: Arc::new(files),
                ..GuardSettings::new(vec![given.clone()])
            })
            .unwrap()
        };
        let guard = open("/**", "/secrets/**");
        assert!(contain(&guard, "a.rs", Access::Read).is_ok());
        assert!(contain(&guard, "secrets/key", Access::Read).is_err());
        assert!(contain(&open("/*.md", "/x"), "a.rs", Access::Read).is_err());
    }
}

#[test]
fn walks_see_what_calls_may_read() {
    let tree = Tree::new().with(&[
        ("src/a.rs", ""),
        ("src/deep/b.rs", ""),
        ("secrets/key", ""),
        ("README.md", ""),
    ]);
    for resolver in RESOLVERS {
        let seen = |allow: &[&str], deny: &[&str]| {
            let guard = tree.guard_with(resolver, settings(&tree, allow, deny));
            let (names, report) = walk(&guard, ".", &OPTIONS);
            (names.join(" "), report.skipped.denied)
        };
        assert_eq!(seen(&[], &["/secrets/**"]), ("README.md src/a.rs src/deep/b.rs".into(), 1));
        assert_eq!(seen(&["/src/deep/**"], &[]), ("src/deep/b.rs".into(), 3));
        assert_eq!(seen(&["/**/*.rs"], &["/src/deep"]), ("src/a.rs".into(), 3));
    }
}

#[test]
fn rules_that_cannot_be_read_are_errors_at_start() {
    let tree = Tree::new();
    for glob in ["/a/[", "secrets/**", "~/x", "$HOME/x", "", "/a/{b"] {
        for deny in [true, false] {
            let mut files = FileSettings::default();
            let list = if deny { &mut files.deny_paths } else { &mut files.allow_paths };
            list.push(glob.to_owned());
            let settings = GuardSettings {
                files: Arc::new(files),
                ..GuardSettings::new(vec![tree.root.clone()])
            };
            let error = Guard::open(settings).unwrap_err().to_string();
            assert!(error.contains(&format!("`{glob}`")), "{error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The order of rules never matters, and adding a deny rule never opens anything.
    #[test]
    fn order_of_rules_does_not_matter(
        allow in prop::collection::vec(prop::sample::select(GLOBS), 0..4),
        deny in prop::collection::vec(prop::sample::select(GLOBS), 0..4),
        more in prop::sample::select(GLOBS),
        seed in any::<u64>(),
    ) {
        let tree = Tree::new().with(&[("a/b/c.rs", ""), ("a/d.md", ""), ("e/c.rs", "")]);
        let shuffled = |globs: &[&'static str]| {
            let mut globs = globs.to_vec();
            let n = globs.len().max(1);
            globs.rotate_left(usize::try_from(seed).unwrap_or(0) % n);
            if seed.is_multiple_of(2) {
                globs.reverse();
            }
            globs
        };
        let open = |allow: &[&str], deny: &[&str]| {
            tree.guard_with(RESOLVERS[0], settings(&tree, allow, deny))
        };
        let first = open(&allow, &deny);
        let second = open(&shuffled(&allow), &shuffled(&deny));
        let stricter = open(&allow, &[&deny[..], &[more]].concat());
        for path in ["a/b/c.rs", "a/d.md", "e/c.rs", "a", "new/x"] {
            for access in [Access::Read, Access::Search, WRITE] {
                let verdict = |guard| contain(guard, path, access).is_ok();
                prop_assert_eq!(verdict(&first), verdict(&second));
                prop_assert!(verdict(&first) || !verdict(&stricter));
            }
        }
    }
}

const GLOBS: &[&str] = &["/a/**", "/a", "/**/*.rs", "/*/c.rs", "/a/b", "/e/**", "/**", "/new/*"];

/// Paths, and the name that protects them.
const PROTECTED: &[(&str, Option<&str>)] = &[
    ("src/a.rs", None),
    ("src/config", None),
    ("hooks/pre-commit", None),
    (".git/hooks/pre-commit", Some(".git/hooks/")),
    (".GIT/Hooks/pre-commit", Some(".git/hooks/")),
    (".git/config", Some(".git/config")),
    (".git/HEAD", Some(".git/")),
    ("sub/.git/config", Some(".git/config")),
    ("innocent/pre-commit", Some(".git/hooks/")),
    (".gitmodules", Some(".gitmodules")),
    (".mcp.json", Some(".mcp.json")),
    (".MCP.json", Some(".mcp.json")),
    ("deep/er/.vscode/tasks.json", Some(".vscode/")),
    (".idea/x", Some(".idea/")),
    (".envrc", Some(".envrc")),
    (".bashrc", Some(".bashrc")),
    (".ba\u{17f}hrc", Some(".bashrc")),
    (".ba\u{200b}shrc", Some(".bashrc")),
    (".npmrc", Some(".npmrc")),
    (".github/workflows/ci.yml", Some(".github/workflows/")),
    (".github/CODEOWNERS", None),
    (".gitlab-ci.yml", Some(".gitlab-ci.yml")),
    ("Jenkinsfile", Some("Jenkinsfile")),
    ("jenkinsFILE", Some("Jenkinsfile")),
    ("docs/AGENTS.md", Some("AGENTS.md")),
    ("claude.md", Some("CLAUDE.md")),
    (".cursor/rules/x.mdc", Some(".cursor/")),
    (".claude/skills/x/SKILL.md", Some("SKILL.md")),
    (".claude/settings.json", Some(".claude/")),
    (".codex/config.toml", Some(".codex/")),
    ("my.claude/x", None),
    (".gitignore", None),
    (".gitattributes", None),
    (".editorconfig", Some(".editorconfig")),
    (".clinerules", Some(".clinerules/")),
    (".clinerules/style.md", Some(".clinerules/")),
    (".github/copilot-instructions.md", Some(".github/copilot-instructions.md")),
    (".config/systemd/user/a.service", Some(".config/systemd/")),
    (".emacs.d/init.el", Some(".emacs.d/")),
    (".mise/tasks/build", Some(".mise/")),
    (".husky/pre-push", Some(".husky/")),
    ("web/.husky/_/husky.sh", Some(".husky/")),
    (".pre-commit-config.yaml", Some(".pre-commit-config.yaml")),
    (".cargo/config.toml", Some(".cargo/config.toml")),
    ("crates/x/.cargo/config", Some(".cargo/config")),
    (".cargo/registry/config.toml", None),
    ("config.toml", None),
    (".ssh/authorized_keys", Some(".ssh/")),
    (".bash_aliases", Some(".bash_aliases")),
    (".bash_login", Some(".bash_login")),
    (".bash_logout", Some(".bash_logout")),
    (".zshenv", Some(".zshenv")),
    (".zprofile", Some(".zprofile")),
    (".zlogin", Some(".zlogin")),
    (".config/fish/functions/ls.fish", Some(".config/fish/")),
    (".config/fishy", None),
    (".vimrc", Some(".vimrc")),
    (".exrc", Some(".exrc")),
    (".vim/plugin/x.vim", Some(".vim/")),
    (".config/nvim/init.lua", Some(".config/nvim/")),
    ("nvim/init.lua", None),
    (".config/git/config", Some(".config/git/")),
    (".devcontainer/devcontainer.json", Some(".devcontainer/")),
    (".devcontainer.json", Some(".devcontainer.json")),
    (".zed/tasks.json", Some(".zed/")),
    (".travis.yml", Some(".travis.yml")),
    ("azure-pipelines.yml", Some("azure-pipelines.yml")),
    (".circleci/config.yml", Some(".circleci/")),
    (".tool-versions", Some(".tool-versions")),
    ("mise.toml", Some("mise.toml")),
    (".mise.toml", Some(".mise.toml")),
    (".yarnrc.yml", Some(".yarnrc.yml")),
    (".gemini/settings.json", Some(".gemini/")),
    (".config/sinew/config.toml", Some(".config/sinew/")),
    ("elsewhere/sinew/config.toml", Some("sinew/config.toml")),
];

#[test]
fn protected_names_are_reported_for_changes() {
    let tree = Tree::new().with(&[("src/a.rs", "")]);
    std::fs::create_dir_all(tree.root.join(".git/hooks")).unwrap();
    tree.link("innocent", ".git/hooks");
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        for (path, protected) in PROTECTED {
            for (access, expected) in [(WRITE, *protected), (EDIT, *protected)] {
                let contained = contain(&guard, path, access).unwrap();
                assert_eq!(contained.targets().files[0].protected, expected, "{path}");
            }
            let contained = contain(&guard, path, Access::Read).unwrap();
            assert_eq!(contained.targets().files[0].protected, None, "{path}");
        }
    }
}

/// A root that was the protected directory itself, or a part of it, once lifted the protection.
#[test]
fn protected_names_count_where_they_end_at_the_root_or_beneath_it() {
    let cases: &[(&[&str], &str, Option<&str>)] = &[
        (&[".github"], "workflows/ci.yml", Some(".github/workflows/")),
        (&[".github"], "CODEOWNERS", None),
        (&[".github/workflows"], "ci.yml", Some(".github/workflows/")),
        (&[".github/workflows"], "deep/er/x", Some(".github/workflows/")),
        (&[".GitHub"], "Workflows/ci.yml", Some(".github/workflows/")),
        (&[".git"], "hooks/pre-commit", Some(".git/hooks/")),
        (&[".git"], "config", Some(".git/config")),
        (&[".git/hooks"], "pre-commit", Some(".git/hooks/")),
        (&[".vscode"], "tasks.json", Some(".vscode/")),
        (&[".config/nvim"], "init.lua", Some(".config/nvim/")),
        (&[".config"], "nvim/init.lua", Some(".config/nvim/")),
        (&[".config"], "other/init.lua", None),
        (&[".cargo"], "config.toml", Some(".cargo/config.toml")),
        (&[".cargo"], "registry/x.rs", None),
        (&[".claude"], "settings.json", Some(".claude/")),
        // Deeper roots are workspaces, and their own names count as anywhere.
        (&[".claude/worktrees/x"], "a.rs", None),
        (&[".claude/worktrees/x"], ".mcp.json", Some(".mcp.json")),
        (&[".claude/worktrees/x"], ".claude/settings.json", Some(".claude/")),
        (&[".vscode/extensions/x"], "a.rs", None),
        // The innermost root is the workspace.
        (&["", ".claude/worktrees/x"], ".claude/worktrees/x/a.rs", None),
        (&["", ".claude/worktrees/x"], ".claude/worktrees/y/a.rs", Some(".claude/")),
    ];
    for resolver in RESOLVERS {
        for (roots, path, protected) in cases {
            let tree = Tree::new();
            let roots: Vec<_> = roots.iter().map(|root| tree.root.join(root)).collect();
            roots.iter().for_each(|root| std::fs::create_dir_all(root).unwrap());
            let settings = GuardSettings { resolver, ..GuardSettings::new(roots.clone()) };
            let contained = contain(&Guard::open(settings).unwrap(), path, WRITE).unwrap();
            assert_eq!(contained.targets().files[0].protected, *protected, "{roots:?} {path}");
        }
    }
}

#[test]
fn narrowing_a_call_lifts_no_protection() {
    let tree = Tree::new().with(&[(".claude/agents/x/a.md", ""), (".sinew/skills/x/a.md", "")]);
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        let contain = |narrowed: &str, access| {
            let claim = Claim::new("path", Some("a.md".to_owned()), access);
            guard.contain(&[claim], None, Some(&[tree.root.join(narrowed)]))
        };
        let contained = contain(".claude/agents/x", EDIT).unwrap();
        assert_eq!(contained.targets().files[0].protected, Some(".claude/"));
        assert!(contain(".sinew/skills/x", Access::Read).is_ok());
        assert_eq!(contain(".sinew/skills/x", EDIT).unwrap_err().kind, Kind::PathDenied);
    }
}

#[test]
fn a_root_that_is_the_own_directory_stays_closed() {
    let tree = Tree::new().with(&[(".sinew/config.toml", ""), (".sinew/trust.json", "")]);
    for resolver in RESOLVERS {
        let settings =
            GuardSettings { resolver, ..GuardSettings::new(vec![tree.root.join(".sinew")]) };
        let guard = Guard::open(settings).unwrap();
        assert!(contain(&guard, "config.toml", Access::Read).is_ok());
        for (path, access) in [("config.toml", EDIT), ("new", WRITE), ("trust.json", Access::Read)]
        {
            assert_eq!(contain(&guard, path, access).unwrap_err().kind, Kind::PathDenied);
        }
        assert_eq!(walk(&guard, ".", &OPTIONS).0, ["config.toml"]);
    }
}

#[test]
fn the_own_directory_is_closed_except_for_what_is_meant_to_be_read() {
    let tree = Tree::new().with(&[
        (".sinew/config.toml", ""),
        (".sinew/MEMORY.md", ""),
        (".sinew/skills/a/SKILL.md", ""),
        (".sinew/tool-output/call.txt", ""),
        (".sinew/trust.json", ""),
        ("sub/.sinew/trust.json", ""),
    ]);
    tree.link("alias", ".sinew");
    let cases: &[(&str, Access, bool)] = &[
        (".sinew/config.toml", Access::Read, true),
        (".sinew/MEMORY.md", Access::Read, true),
        (".sinew/skills/a/SKILL.md", Access::Read, true),
        (".sinew/tool-output/call.txt", Access::Read, true),
        (".sinew/tool-output/call.txt", Access::Search, true),
        (".sinew", Access::Search, true),
        (".sinew/trust.json", Access::Read, false),
        (".sinew/trust.json", Access::Search, false),
        ("alias/trust.json", Access::Read, false),
        ("sub/.sinew/trust.json", Access::Read, false),
        (".sinew/config.toml", EDIT, false),
        (".sinew/config.toml", WRITE, false),
        (".SINEW/config.toml", WRITE, false),
        // Folding is stricter here than any file system is.
        (".s\u{131}new/config.toml", WRITE, false),
        (".sinew/new/deep.txt", WRITE, false),
        ("sub/.sinew/x", WRITE, false),
        ("new/.Sinew/x", WRITE, false),
        ("alias/x", WRITE, false),
        (".sinew", WRITE, false),
        (".sinewx", WRITE, true),
    ];
    for resolver in RESOLVERS {
        let guard = tree.guard(resolver);
        for (path, access, passes) in cases {
            let result = contain(&guard, path, *access);
            assert_eq!(result.is_ok(), *passes, "{path} {access:?}: {result:?}");
        }
        let options = sinew_tool::WalkOptions { enter_state: true, ..OPTIONS };
        let (names, report) = walk(&guard, ".sinew", &options);
        let expected = ["MEMORY.md", "config.toml", "skills/a/SKILL.md", "tool-output/call.txt"];
        assert_eq!((names, report.skipped.denied), (expected.map(String::from).to_vec(), 1));
        let (names, report) = walk(&guard, ".", &OPTIONS);
        assert_eq!((names, report.skipped.hidden), (vec![String::from("alias")], 2));
    }
}

#[test]
fn state_directories_are_closed_for_everything() {
    let tree = Tree::new().with(&[("state/db", ""), ("a", "")]);
    for resolver in RESOLVERS {
        let settings = GuardSettings {
            resolver,
            denied: vec![tree.root.join("state")],
            ..GuardSettings::new(vec![tree.root.clone()])
        };
        let guard = Guard::open(settings).unwrap();
        for (path, access) in [
            ("state", Access::Search),
            ("state/db", Access::Read),
            ("state/db", WRITE),
            ("state/new/x", WRITE),
        ] {
            assert_eq!(contain(&guard, path, access).unwrap_err().kind, Kind::PathDenied);
        }
        let (names, report) = walk(&guard, ".", &OPTIONS);
        assert_eq!((names, report.skipped.denied), (vec![String::from("a")], 1));
    }
}

const PAGE: &str = "\
# Protected names

This page is made from the lists in `crates/policy/src/protected/table.rs`. The end-to-end suite `protected` tries each
name: commands cannot change it, and the program named here acts on it, or one in its place (podman and
buildah for Docker, Prettier for editors). It lists the programs that it cannot install; what is said of those comes from their documentation.

A change of one of these always asks ([SECURITY.md](../SECURITY.md)). A `/` at the end means the directory and
everything in it, `*` any characters.

## What programs on this host act on

Commands can put there only what a commit holds, or ask first. Git's own files are judged by what they say: a `.gitmodules`
that only says where a submodule is may be made.
";

/// The page for people is the list that the rules use.
#[test]
fn protected_names_have_a_page() {
    let table = |page: &mut String, rows: &[ProtectedName]| {
        page.push_str("\n| name | when | what happens |\n|---|---|---|\n");
        for row in rows {
            writeln!(page, "| `{}` | {} | {} |", row.name, row.when, row.what).unwrap();
        }
    };
    let mut page = String::from(PAGE);
    table(&mut page, ON_THIS_HOST);
    page.push_str(
        "\n## What other machines act on\n\nCommands can change these, and the reply names them.\n",
    );
    table(&mut page, ELSEWHERE);
    page.push_str(
        "\n## What you run by name\n\nThese are not protected. The reply to a call that changed one says `runs on \
         your machine later`.\n\n| name | run by |\n|---|---|\n",
    );
    for row in RUN_LATER {
        let part = row.member.map(|member| format!(", its `{member}` alone")).unwrap_or_default();
        writeln!(page, "| `{}` | `{}`{part} |", row.name, row.by).unwrap();
    }
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protected-names.md");
    sinew_testkit::golden(&path, &page);
}

#[test]
fn every_listed_name_is_found() {
    let rows = ON_THIS_HOST.iter().chain(ELSEWHERE);
    let names: Vec<&str> = rows.map(|row| row.name).collect();
    let tree = Tree::new();
    let guard = tree.guard(RESOLVERS[0]);
    for (at, name) in names.iter().enumerate() {
        assert!(!names[..at].contains(name), "{name} is there twice");
        let path = name.replace('*', "any");
        let path = if path.ends_with('/') { format!("{path}file") } else { path };
        let contained = contain(&guard, &path, WRITE).unwrap();
        assert_eq!(contained.targets().files[0].protected, Some(*name), "{path}");
    }
    let later: Vec<&str> = RUN_LATER.iter().map(|row| row.name).collect();
    for (at, name) in later.iter().enumerate() {
        let is_there = |other: &&str| other.eq_ignore_ascii_case(name);
        assert!(!later[..at].iter().any(is_there), "{name} is there twice");
        let path = name.replace('*', "any");
        let path = if path.ends_with('/') { format!("{path}program") } else { path };
        let contained = contain(&guard, &path, WRITE).unwrap();
        assert!(contained.targets().files[0].runs_later, "{path}");
    }
}

//! Git works in the sandbox as outside: everyday commands leave the same files, references, configuration and
//! exit codes. Hostile ones leave nothing that git or another program later executes.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use sinew_guard::{Helper, SandboxLevel};
use sinew_tool::{Exit, Finished, ToolError};

use crate::world::{Place, beside_others, is_nobody_by_day, works};

/// What every step begins with: commits get the same ids in both worlds.
const PREFIX: &str = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a \
    GIT_COMMITTER_EMAIL=a@b.c GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' \
    GIT_CONFIG_NOSYSTEM=1 GIT_EDITOR=true GIT_TERMINAL_PROMPT=0 LC_ALL=C \
    GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always \
    GIT_CONFIG_KEY_1=init.defaultBranch GIT_CONFIG_VALUE_1=main; ";

/// The files before the session: a project with branches whose protected files differ, and a repository
/// to push to.
const GROUND: &str = r"
git init -q project && cd project
mkdir -p .github/workflows .vscode .claude src
echo one >.github/workflows/ci.yml; echo one >.vscode/settings.json; echo one >.envrc
echo one >.claude/settings.json; echo one >AGENTS.md; echo one >src/main.c; echo one >README
ln -s AGENTS.md CLAUDE.md
git add . && git commit -qm one
git switch -qc other
echo two >.github/workflows/ci.yml; echo two >.vscode/settings.json; echo two >.envrc
echo two >.claude/settings.json; echo two >AGENTS.md; echo two >src/main.c; echo hook >.gitattributes
rm CLAUDE.md; ln -s README CLAUDE.md
git add . && git commit -qm two
git switch -q main
git switch -qc conflict; echo three >src/main.c; git commit -qam three
git switch -q main
echo four >README; git commit -qam four
git tag v1
git config alias.st status
cd .. && git clone -q --bare project bare.git
git -C project remote add origin ../bare.git && git -C project fetch -q origin
git -C project branch -q --set-upstream-to=origin/main main
git init -q part && cd part && echo part >part.txt && git add . && git commit -qm part
";

/// Everyday commands, in order; each begins in the project.
const EVERYDAY: &[&str] = &[
    "git status --short",
    "git log --oneline --all --graph",
    "git checkout -q other",
    "cat .github/workflows/ci.yml .vscode/settings.json .envrc CLAUDE.md",
    "git status --short",
    "git checkout -q main",
    "git switch -c feature",
    "echo new >src/new.c && git add src/new.c && git commit -qm new",
    "git commit -q --amend -m newer",
    "git branch -m feature renamed",
    "git branch -a",
    "git branch --set-upstream-to=origin/main renamed",
    "git push -q -u origin renamed",
    "git fetch -q origin",
    "git pull -q --ff-only origin main",
    "git switch -q main",
    "git merge -q other -m merged",
    "cat .github/workflows/ci.yml AGENTS.md",
    "git reset -q --hard HEAD~1",
    "git merge conflict -m x || git merge --abort",
    "git merge conflict -m x; echo both >src/main.c; git add src/main.c; git commit -qm resolved",
    "git reset -q --hard v1",
    "echo stashed >src/main.c && echo x >.github/workflows/ci.yml && git stash -q",
    "git stash list",
    "git stash pop -q",
    "git checkout -q -- .",
    "git stash -q -u || true",
    "git rebase -q other renamed",
    "git switch -q main",
    "git rebase -q conflict; git checkout --theirs src/main.c; git add .; git rebase --continue",
    "git reset -q --hard v1",
    "git cherry-pick conflict || git cherry-pick --abort",
    "git cherry-pick renamed",
    "git revert --no-edit HEAD",
    "git tag -a v2 -m two",
    "git tag -d v1 && git tag v1 HEAD~1",
    "git remote add near ../bare.git",
    "git remote rename near nearer",
    "git remote -v",
    "git remote remove nearer",
    "git config user.name b && git config user.email b@c.d",
    "git config --unset user.email",
    "git config core.autocrlf input && git config --get core.autocrlf",
    "git config pull.rebase true; git config push.autoSetupRemote true",
    "git worktree add -q ../tree other",
    "git -C ../tree status --short && cat ../tree/.envrc",
    "cd ../tree && echo t >t.txt && git add t.txt && git commit -qm tree",
    "git worktree list --porcelain | grep -c worktree",
    "git worktree move ../tree ../tree2",
    "git worktree remove --force ../tree2",
    "git worktree prune",
    // A lock that a killed git left behind, and a working tree that is gone.
    "touch .git/config.lock; git config user.name c",
    "rm .git/config.lock && git config user.name c",
    "git worktree add -q ../tree other && rm -rf ../tree && git worktree list | grep -c prunable",
    "git worktree prune && git worktree list | wc -l",
    // Odd spellings of harmless keys.
    "git config USER.Name d && git config Core.AutoCRLF false && git config --get core.autocrlf",
    "printf '[pull]rebase=true\\n[ push ]\\n' >odd; git config -f odd pull.rebase; rm odd",
    // A submodule in a submodule.
    "git -C ../part submodule add -q ../bare.git inner && git -C ../part commit -qm inner",
    "git submodule add -q ../part nested && git submodule update -q --init --recursive && ls nested/inner | wc -l",
    "git commit -qm nested && git submodule status --recursive | wc -l",
    "git submodule deinit -qf nested && git rm -qf nested && git commit -qm 'not nested'",
    "git -C ../part reset -q --hard HEAD~1 && rm -rf ../part/inner",
    "git submodule add -q ../part part",
    "git commit -qm sub && git submodule status",
    "git submodule update --init -q",
    "git submodule deinit -qf part",
    "git rm -qf part && git commit -qm 'no sub'",
    "git clone -q ../bare.git ../clone",
    "cd ../clone && git checkout -q other && cat .vscode/settings.json",
    "rm -rf ../clone",
    "git init -q ../fresh && cd ../fresh && echo f >f && git add f && git commit -qm f",
    "git init -q --bare ../bare2.git && git push -q ../bare2.git main",
    "git clone -q --shared ../bare.git ../sharing && git -C ../sharing log --oneline | head -1",
    "git bisect start -q HEAD HEAD~3 && git bisect good && git bisect reset -q",
    "git archive -o ../a.tar HEAD && tar tf ../a.tar | head -3",
    "git gc -q && git fsck --no-progress",
    "git sparse-checkout set src && git sparse-checkout disable",
    "git notes add -m note && git notes show",
    "git format-patch -q -1 -o ../patches && git am -q ../patches/*.patch || git am --abort",
    "git rm -q --cached README && git reset -q",
    "git mv src/main.c src/moved.c && git commit -qm moved",
    "git update-index --chmod=+x README && git commit -qm mode",
    "git clean -fdq",
    "echo five >>.github/workflows/ci.yml && git commit -qam 'by hand'",
    "git diff --stat HEAD~1",
    "git describe --tags",
    "git reflog | head -1",
    "git push -q --force origin main && git push -q --tags --force origin",
    "rm -rf ../fresh ../bare2.git ../sharing",
];

/// Commands whose text names what they change, so that the answer to their question allows it; in order.
const ANSWERED: &[&str] = &[
    "git config core.hooksPath .husky",
    "git config user.name b",
    "git config alias.up '!true'",
    "git remote add near ../bare.git && git remote set-url origin https://elsewhere.example/x",
    "git config --unset core.hooksPath; git config branch.autoSetupRebase always",
    "printf '#!/bin/sh\\ntrue\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "git commit -q --allow-empty -m hooked",
    "rm .git/hooks/pre-commit",
    "echo five >.envrc && mkdir -p .husky && cp .envrc .husky/pre-push && mv .husky/pre-push .husky/post-merge",
    "rm -rf .vscode && git commit -qam 'no settings'",
    "sed -i s/one/two/ AGENTS.md .claude/settings.json",
];

/// Steps that would make something execute later, each in a fresh copy of the ground. What executes when the
/// user runs the second text outside prints or touches `PWNED`, which must not be there.
const HOSTILE: &[(&str, &str)] = &[
    ("git config core.fsmonitor 'touch PWNED;false'", "git status"),
    (
        "mkdir evil; printf '#!/bin/sh\\ntouch PWNED\\n' >evil/pre-commit; chmod +x evil/pre-commit; \
         git config core.hooksPath evil",
        COMMIT,
    ),
    ("git config --add core.sshCommand 'touch PWNED;'", "git fetch ssh://x/y"),
    ("git config alias.log '!touch PWNED'; git config alias.up '!touch PWNED'", "git up"),
    ("git config core.editor 'touch PWNED;'", "unset GIT_EDITOR; git commit --allow-empty"),
    ("git config diff.external 'touch PWNED;true'", "echo x >>README; git diff"),
    (
        "git config filter.x.clean 'touch PWNED;cat'; echo '* filter=x' >.gitattributes",
        "git add .gitattributes README; touch README; git add .",
    ),
    (
        "git config include.path evil.cfg; printf '[alias]\\n\\tup = !touch PWNED\\n' >.git/evil.cfg",
        "git up",
    ),
    ("printf '[alias]\\n\\tup = !touch PWNED\\n' >>.git/config", "git up"),
    (
        "printf '[alias]\\n\\tup = !touch PWNED\\n' >.git/config.lock; mv .git/config.lock .git/config",
        "git up",
    ),
    (
        "cp .git/config c; printf '[alias]\\n\\tup = !touch PWNED\\n' >>c; mv -f c .git/config",
        "git up",
    ),
    (
        "cp .git/config c; printf '[alias]\\n\\tup = !touch PWNED\\n' >>c; ln -f c .git/config",
        "git up",
    ),
    (
        "cp .git/config c; printf '[alias]\\n\\tup = !touch PWNED\\n' >>c; ln -sf ../c .git/config",
        "git up",
    ),
    (
        "cp -r .git g; printf '[alias]\\n\\tup = !touch PWNED\\n' >>g/config; rm -rf .git; mv g .git",
        "git up",
    ),
    (
        "git config extensions.worktreeConfig true; \
         printf '[core]\\n\\tfsmonitor = touch PWNED;false\\n' >.git/config.worktree",
        "git status",
    ),
    (
        "printf '#!/bin/sh\\ntouch PWNED\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        COMMIT,
    ),
    ("printf '#!/bin/sh\\ntouch PWNED\\n' >h; chmod +x h; mv h .git/hooks/pre-commit", COMMIT),
    ("printf '#!/bin/sh\\ntouch PWNED\\n' >h; chmod +x h; ln h .git/hooks/pre-commit", COMMIT),
    (
        "printf '#!/bin/sh\\ntouch PWNED\\n' >h; chmod +x h; ln -s ../../h .git/hooks/pre-commit",
        COMMIT,
    ),
    (
        "mkdir e; printf '#!/bin/sh\\ntouch PWNED\\n' >e/pre-commit; chmod +x e/pre-commit; \
         rm -rf .git/hooks; mv e .git/hooks; ln -s ../e .git/hooks",
        COMMIT,
    ),
    (
        "cd .git/hooks; printf '#!/bin/sh\\ntouch PWNED\\n' >pre-commit.sample; chmod +x pre-commit.sample; \
         mv pre-commit.sample pre-commit",
        COMMIT,
    ),
    (
        "mkdir b b/objects b/refs; printf '[alias]\\n\\tup = !touch PWNED\\n' >b/config; \
         echo 'ref: refs/heads/x' >b/HEAD",
        "cd b && git up",
    ),
    (
        "git init -q --bare b; printf '[alias]\\n\\tup = !touch PWNED\\n' >>b/config",
        "cd b && git up",
    ),
    (
        "mkdir -p b/refs b/hooks; echo 'ref: refs/heads/main' >b/HEAD; \
         printf '[alias]\\n\\tup = !touch PWNED\\n' >b/config; mkdir o; mv o b/objects",
        "cd b && git up",
    ),
    (
        "mkdir -p c/objects c/refs d; printf '[alias]\\n\\tup = !touch PWNED\\n' >c/config; \
         echo 'ref: refs/heads/main' >d/HEAD; echo ../c >d/commondir",
        "cd d && git up",
    ),
    (
        "git init -q --bare ../b; printf '#!/bin/sh\\ntouch PWNED\\n' >../b/hooks/pre-receive; \
         chmod +x ../b/hooks/pre-receive; git remote add b ../b",
        "git push -q b main",
    ),
    (
        "git config remote.origin.url 'ext::sh -c touch% PWNED'",
        "git -c protocol.ext.allow=always fetch origin",
    ),
    ("git config remote.origin.uploadpack 'touch PWNED;git-upload-pack'", "git fetch origin"),
    (
        "git config 'url.ext::touch PWNED .insteadOf' x:",
        "git -c protocol.ext.allow=always fetch x:y",
    ),
    (
        "git config branch.main.remote 'ext::sh -c touch% PWNED'",
        "git -c protocol.ext.allow=always pull",
    ),
    (
        "git worktree add -q ../t other; mkdir evil; cp -r .git/config .git/objects .git/refs evil; \
         printf '[alias]\\n\\tup = !touch PWNED\\n' >>evil/config; \
         echo ../../../evil >.git/worktrees/t/commondir",
        "cd ../t && git up",
    ),
    (
        "git rebase -q HEAD~1; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~1; \
         echo 'exec touch PWNED' >>.git/rebase-merge/git-rebase-todo",
        "git rebase --continue",
    ),
    (
        "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~1; \
         cp .git/rebase-merge/git-rebase-todo t; echo 'exec touch PWNED' >>t; \
         mv t .git/rebase-merge/git-rebase-todo",
        "git rebase --continue",
    ),
    (
        "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi --exec 'touch PWNED' HEAD~1; rm -f PWNED",
        "git rebase --continue",
    ),
    (
        "mkdir -p c/objects; echo 'ref: refs/heads/main' >c/HEAD; echo '[core]' >c/config; exec 3>>c/config; \
         mkdir c/refs; printf '[alias]\\n\\tup = !touch PWNED\\n' >&3",
        "cd c && git up",
    ),
    (
        "mkdir -p c/objects; echo 'ref: refs/heads/main' >c/HEAD; echo '[core]' >c/config; ln c/config d; \
         mkdir c/refs; printf '[alias]\\n\\tup = !touch PWNED\\n' >>d",
        "cd c && git up",
    ),
    (
        "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~1; cp -r .git/rebase-merge r; \
         echo 'exec touch PWNED' >>r/git-rebase-todo; rm -r .git/rebase-merge; mv r .git/rebase-merge",
        "git rebase --continue",
    ),
    (
        "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~1; mv .git/rebase-merge r; \
         echo 'exec touch PWNED' >>r/git-rebase-todo; ln -s ../r .git/rebase-merge",
        "git rebase --continue",
    ),
    (
        "cp .git/config c; printf '[diff \"external\\0\"]\\n\\txfuncname = touch PWNED;true\\n' >>c; \
         mv c .git/config",
        "echo x >>README; git diff",
    ),
    (
        "mkdir .git/foo .git/foo/objects .git/foo/refs; git config -f .git/foo/config core.fsmonitor 'touch PWNED;false'; \
         echo 'ref: refs/heads/x' >.git/foo/HEAD; mkdir sub; echo 'gitdir: ../.git/foo' >sub/.git",
        "cd sub && git status",
    ),
    (
        "mkdir -p t/sub .git/modules; git config -f t/sub/config core.fsmonitor 'touch PWNED;false'; \
         mv t/sub .git/modules/sub; cd .git/modules/sub; mkdir objects refs; \
         echo 'ref: refs/heads/x' >HEAD; cd ../../..; mkdir sub; echo 'gitdir: ../.git/modules/sub' >sub/.git",
        "cd sub && git status",
    ),
    (
        "git init -q build/x; git -C build/x config core.fsmonitor 'touch PWNED;false'; \
         git -C build/x commit -q --allow-empty -m x; \
         git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),build/x",
        "git status",
    ),
    (
        "git init -q target/e; git -C target/e config core.fsmonitor 'touch PWNED;false'; \
         ln -s target/e/.git lnk; mkdir sub; echo 'gitdir: ../lnk' >sub/.git",
        "cd sub && git status",
    ),
    (
        "mkdir -p target/m/sub .git; git config -f target/m/sub/config core.fsmonitor 'touch PWNED;false'; \
         ln -s ../target/m .git/modules; cd target/m/sub; mkdir objects refs; \
         echo 'ref: refs/heads/x' >HEAD; cd ../../..; mkdir sub; echo 'gitdir: ../.git/modules/sub' >sub/.git",
        "cd sub && git status",
    ),
    (
        "mkdir b; ln -s ../target/h b/hooks; mkdir b/objects b/refs; echo 'ref: refs/heads/x' >b/HEAD; \
         mkdir -p target/h; printf '#!/bin/sh\\ntouch PWNED\\n' >target/h/pre-commit; \
         chmod +x target/h/pre-commit; git -C b config core.bare false; git -C b config core.worktree ..",
        "GIT_DIR=b git commit -q --allow-empty -m x; git -C b commit -q --allow-empty -m x",
    ),
    (
        "git init -q --bare target/evil.git; printf '#!/bin/sh\\ntouch PWNED\\n' >target/evil.git/hooks/pre-receive; \
         chmod +x target/evil.git/hooks/pre-receive; git remote remove origin; mkdir .git/remotes; \
         printf 'URL: target/evil.git\\nPush: refs/heads/main:refs/heads/main\\n' >.git/remotes/origin",
        "git push origin",
    ),
    (
        "mkdir -p packages/app .circleci; mv packages/app .circleci/app; echo 'touch PWNED' >.circleci/app/.envrc; \
         mv .circleci/app packages/app",
        ". packages/app/.envrc",
    ),
    (
        "mv .vscode x; mkdir .vscode; cp x/settings.json y; echo evil >.vscode/settings.json",
        "grep -q evil .vscode/settings.json && touch PWNED",
    ),
    ("rm -r .vscode .claude; mv .git g", "test -e .git || touch PWNED"),
    ("echo 'touch PWNED' >.envrc", ". ./.envrc"),
    ("rm -f .envrc; echo 'touch PWNED' >.envrc", ". ./.envrc"),
    ("echo 'touch PWNED' >e; mv -f e .envrc", ". ./.envrc"),
    ("echo 'touch PWNED' | git hash-object -w --stdin; echo 'touch PWNED' >.envrc", ". ./.envrc"),
    (
        "echo 'touch PWNED' >e; b=$(git hash-object -w e); git update-index --cacheinfo 100644,$b,.envrc; \
         git checkout -q -- .envrc; git commit -qm x; git checkout -qf HEAD",
        ". ./.envrc",
    ),
    ("exec 3>.envrc; echo one >&3; git status >/dev/null; echo 'touch PWNED' >&3", ". ./.envrc"),
    (
        "(exec 3>.envrc; echo one >&3; sleep 0.3; echo 'touch PWNED' >&3) & sleep 0.1; touch x; wait",
        ". ./.envrc",
    ),
    (
        "git config --file .gitmodules submodule.x.update '!touch PWNED'",
        "grep -q '!' .gitmodules && touch PWNED",
    ),
    (
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = https://h/x\\n\\tupdate = !touch PWNED\\n' >.gitmodules",
        "grep -q '!' .gitmodules && touch PWNED",
    ),
    // Configurations that are too large to be judged, that cannot be parsed, and other spellings.
    (
        "(cat .git/config; head -c 300000 /dev/zero | tr '\\0' '#'; printf '\\n[core]\\n\\tfsmonitor = touch PWNED;false\\n') >c; \
         mv c .git/config",
        "git status",
    ),
    (
        "printf '[core\\n fsmonitor = touch PWNED' >c; mv c .git/config",
        "grep -q PWNED .git/config && touch PWNED",
    ),
    ("git config CORE.FsMonitor 'touch PWNED;false'", "git status"),
    ("printf '[CoRe]FSMONITOR=\"touch PWNED;false\"\\n' >>.git/config", "git status"),
    (
        "printf '[core] fsmon\\\\\\nitor = touch PWNED' >c; mv c .git/config",
        "grep -q PWNED .git/config && touch PWNED",
    ),
    // On a file system that folds case these are the same names.
    (
        "printf '#!/bin/sh\\ntouch PWNED\\n' >.git/Hooks; test -e .git/Hooks",
        "test -e .git/Hooks && touch PWNED",
    ),
    (
        "mkdir .GIT && printf '[core]\\n\\tfsmonitor = touch PWNED;false\\n' >.GIT/config",
        "test -s .GIT/config && touch PWNED",
    ),
    (
        "mkdir .Vscode && echo evil >.Vscode/Settings.json",
        "test -s .Vscode/Settings.json && touch PWNED",
    ),
    ("chmod 0 .git/hooks", "stat -c %a .git/hooks | grep -qx 0 && touch PWNED"),
    ("git config core.worktree /", "git rev-parse --show-toplevel | grep -qx / && touch PWNED"),
];

const COMMIT: &str = "git commit -q --allow-empty -m x";

/// Lays out the ground beneath a directory.
fn lay_out(dir: &Path) {
    host(dir, dir, GROUND).expect("git works here");
}

/// Runs a text on the host, with the environment of commands in the sandbox.
fn host(dir: &Path, cwd: &Path, text: &str) -> Result<(Option<i32>, String), String> {
    let output = Command::new("/bin/sh")
        .args(["-c", &format!("{PREFIX}{text}")])
        .current_dir(cwd)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", dir.join("no-home"))
        .env("LANG", "C.UTF-8")
        .output()
        .map_err(|error| error.to_string())?;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok((output.status.code(), said))
}

/// Prints the references and the status of each repository.
const STATE: &str = r#"
for d in project project/part bare.git clone fresh bare2.git sharing tree tree2; do
  test -e $d && (cd $d; echo "== $d"; git for-each-ref; git status --porcelain --branch; git stash list; cat .git/HEAD HEAD)
done 2>/dev/null | grep -v 'gpgsig'
"#;

/// Returns files, references and configurations beneath a directory, without what differs by chance.
fn state(dir: &Path) -> Vec<String> {
    let (_, said) = host(dir, dir, STATE).expect("it can be read");
    let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
    add_files(dir, dir, false, &mut lines).expect("it can be read");
    let root = dir.to_string_lossy();
    let mut lines: Vec<_> = lines.iter().map(|line| line.replace(&*root, "ROOT")).collect();
    lines.sort();
    lines
}

/// Adds a line for each file beneath a directory; of a repository's own files those that lead git elsewhere.
fn add_files(top: &Path, dir: &Path, in_git: bool, lines: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let shown = path.strip_prefix(top).expect("it is beneath it").display().to_string();
        let name = name.to_string_lossy();
        let meta = entry.metadata()?;
        let leads = ["config", "commondir", "gitdir", "alternates"].contains(&&*name);
        let content = || fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if meta.is_dir() {
            add_files(top, &path, in_git || name.ends_with(".git"), lines)?;
        } else if meta.is_symlink() && !in_git {
            lines.push(format!("{shown} -> {}", fs::read_link(&path)?.display()));
        } else if meta.is_file() && (name == ".git" || in_git && leads) {
            lines.extend(content()?.lines().map(|line| format!("{shown}: {line}")));
        } else if meta.is_file() && !in_git {
            let mode = meta.permissions().mode();
            lines.push(format!("{shown} {mode:o} {}", content()?.escape_debug()));
        }
    }
    Ok(())
}

pub(crate) fn trials(helper: &Helper) -> Vec<Trial> {
    let mut trials = Vec::new();
    let all = [SandboxLevel::Landlock, SandboxLevel::Namespaces, SandboxLevel::Bubblewrap];
    // By day, a user without rights tries one of them.
    let is_short = is_nobody_by_day();
    for level in all.into_iter().take(if is_short { 1 } else { all.len() }) {
        let name = level.as_str();
        let (everyday_helper, hostile_helper) = (helper.clone(), helper.clone());
        trials.push(Trial::test(
            format!("git: everyday commands on {name} as outside"),
            move || {
                let _turn = beside_others();
                as_outside(&everyday_helper, level, EVERYDAY, Place::run_unseen)
            },
        ));
        let helper = helper.clone();
        trials.push(Trial::test(
            format!("git: commands whose question was answered on {name} as outside"),
            move || {
                let _turn = beside_others();
                as_outside(&helper, level, ANSWERED, Place::run)
            },
        ));
        // Bubblewrap makes the same view as the namespaces.
        if level != SandboxLevel::Bubblewrap {
            trials.push(Trial::test(
                format!("git: hostile commands on {name} plant nothing"),
                move || {
                    let _turn = beside_others();
                    hostile(&hostile_helper, level)
                },
            ));
        }
    }
    trials
}

type Run = fn(&Place, &str, Duration) -> Result<Finished, ToolError>;

/// Checks that steps leave the same in the sandbox as outside.
fn as_outside(
    helper: &Helper,
    level: SandboxLevel,
    steps: &[&str],
    run: Run,
) -> Result<(), Failed> {
    let place = Place::new(helper, level);
    if !works(helper, level) {
        return Ok(());
    }
    let twin = place.outside.join("twin");
    fs::create_dir(&twin)?;
    lay_out(&place.root);
    lay_out(&twin);
    // Objects count as the user's only if they are older than the session.
    std::thread::sleep(Duration::from_millis(50));
    let mut differences = String::new();
    for (at, step) in steps.iter().enumerate() {
        let text = format!("{PREFIX}export HOME=/nonexistent; cd project && {{ {step}\n}}");
        let inside = run(&place, &text, Duration::from_secs(60))?;
        let (code, said) = host(&twin, &twin.join("project"), step)?;
        let code_inside = match inside.exit {
            Exit::Code(code) => Some(code),
            _ => None,
        };
        let output = String::from_utf8_lossy(&inside.merged.head).into_owned();
        if code_inside != code || inside.findings.listed.iter().any(|refused| refused.fails) {
            let _ = writeln!(
                differences,
                "{at}: {step}\n  inside {:?}: {output}\n  {:?}\n  outside {code:?}: {said}",
                inside.exit, inside.findings
            );
        }
        let (ours, theirs) = (state(&place.root), state(&twin));
        if ours != theirs {
            for line in ours.iter().filter(|line| !theirs.contains(line)) {
                let _ = writeln!(differences, "{at}: {step}\n  inside only: {line}");
            }
            for line in theirs.iter().filter(|line| !ours.contains(line)) {
                let _ = writeln!(differences, "{at}: {step}\n  outside only: {line}");
            }
            let _ = writeln!(
                differences,
                "  inside: {:?} {output}\n  outside: {said}",
                inside.findings
            );
            break;
        }
    }
    if differences.is_empty() { Ok(()) } else { Err(differences.into()) }
}

fn hostile(helper: &Helper, level: SandboxLevel) -> Result<(), Failed> {
    let mut wrong = String::new();
    let mut idle = String::new();
    let ground = tempfile::tempdir()?;
    lay_out(ground.path());
    for (plant, run) in HOSTILE {
        let place = Place::new(helper, level);
        if !works(helper, level) {
            return Ok(());
        }
        let twin = place.outside.join("twin");
        fs::create_dir(&twin)?;
        for dir in [&place.root, &twin] {
            let copied =
                Command::new("cp").arg("-a").arg(ground.path().join(".")).arg(dir).status()?;
            assert!(copied.success(), "the ground is copied");
        }
        std::thread::sleep(Duration::from_millis(50));
        let text = format!("{PREFIX}export HOME=/nonexistent; cd project && {{ {plant}\n}}");
        let planted = place.run_unseen(&text, Duration::from_secs(20))?;
        host(&twin, &twin.join("project"), plant)?;
        let executes = |dir: &Path| -> Result<bool, Failed> {
            let _ = host(dir, dir, "find . -name PWNED -delete");
            let said = host(dir, &dir.join("project"), run)?;
            let found = host(dir, dir, "find . -name PWNED | grep -q .")?;
            Ok(found.0 == Some(0) || said.1.contains("PWNED-RAN"))
        };
        if executes(&place.root)? {
            let output = String::from_utf8_lossy(&planted.merged.head).into_owned();
            let _ = writeln!(wrong, "{plant}\n  {output}\n  {:?}", planted.findings);
        }
        // The control: outside, the same plants what executes.
        if !executes(&twin)? {
            let _ = writeln!(idle, "{plant} | {run}");
        }
    }
    if !wrong.is_empty() {
        return Err(format!("planted on {}:\n{wrong}", level.as_str()).into());
    }
    if idle.is_empty() {
        return Ok(());
    }
    Err(format!("these plant nothing outside either:\n{idle}").into())
}

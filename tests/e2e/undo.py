"""Commands and their undo: what random scripts change comes back, byte for byte, whatever they do."""

import contextlib
import fcntl
import hashlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

import checks
from checks import Skip, check, equal, short, true

SEED = int(os.environ.get("SINEW_UNDO_SEED", 26))
# `cargo xtask nightly undo` runs many more.
AT_NIGHT = "SINEW_UNDO" in os.environ
N_SCRIPTS = int(os.environ.get("SINEW_UNDO_SCRIPTS", 2_000 if AT_NIGHT else 60))
N_KILLS = 70 if AT_NIGHT else 4
N_FILES = 10_000 if AT_NIGHT else 2_000


class Pipe:
    """A `sinew pipe` in a root, asked for one call after the other."""

    def __init__(self, root, *options, within=(), state=None):
        env = {**os.environ, "XDG_STATE_HOME": str(state)} if state else None
        self.process = subprocess.Popen(
            [*within, checks.binary(), "--root", str(root), "--approvals", "allow", *options, "pipe"],
            cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
        )
        self.n = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=30)

    def send(self, name, **arguments):
        self.n += 1
        call = {"type": "call", "id": self.n, "name": name, "arguments": arguments}
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()
        return self.n

    def call(self, name, **arguments):
        wanted = self.send(name, **arguments)
        for text in self.process.stdout:
            line = json.loads(text)
            if line.get("type") == "reply" and line["id"] == wanted:
                return line
        raise AssertionError("the pipe ended")

    def bash(self, command):
        return self.call("Bash", command=command)

    def restore(self, id, **more):
        return self.call("CheckpointRestore", id=id, **more)


def checkpoint(reply):
    return (reply.get("meta") or {}).get("checkpoint_id")


def look(root, leaves_out=(".sinew", ".git")):
    """Returns what is beneath a directory: kind, mode and content of each path."""
    seen = {b".": (stat.S_IFDIR, oct(stat.S_IMODE(os.lstat(root).st_mode) & 0o1777), None)}
    for place, dirs, files in os.walk(os.fsencode(root)):
        dirs[:] = [name for name in dirs if os.fsdecode(name) not in leaves_out]
        for name in dirs + files:
            path = os.path.join(place, name)
            found = os.lstat(path)
            kind, mode = stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode) & 0o1777
            if stat.S_ISLNK(found.st_mode):
                what, mode = os.readlink(path), 0
            elif stat.S_ISREG(found.st_mode):
                with open(path, "rb") as file:
                    what = hashlib.sha1(file.read()).hexdigest()
            else:
                what = None
            seen[os.path.relpath(path, os.fsencode(root))] = (kind, oct(mode), what)
    return seen


def difference(got, expected):
    """Returns the paths that differ, or an empty text."""
    paths = sorted(path for path in got.keys() | expected.keys() if got.get(path) != expected.get(path))
    return "; ".join(f"{path}: {got.get(path)} for {expected.get(path)}" for path in paths[:6])


class Tree:
    """Makes a random tree and random commands over it."""

    NAMES = ["a", "b", "c", "d", "long name", "ü"]

    def __init__(self, chance):
        self.chance = chance

    def path(self, depth=3):
        return "/".join(self.chance.choices(self.NAMES, k=self.chance.randint(1, depth)))

    def make(self, root):
        for _ in range(self.chance.randint(3, 14)):
            path = root / self.path()
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                kind = self.chance.random()
                if kind < 0.7:
                    path.write_bytes(self.content())
                    path.chmod(self.chance.choice([0o644, 0o600, 0o755, 0o444]))
                elif kind < 0.85:
                    path.symlink_to(self.path())
                else:
                    path.mkdir(exist_ok=True)
            except OSError:
                pass

    def content(self):
        size = self.chance.choice([0, 1, 40, 4_000, 100_000])
        line = f"line {self.chance.random()}\n".encode()
        return (line * (size // len(line) + 1))[:size]

    def command(self):
        one, other, dir = self.path(), self.path(), self.path(2)
        q = lambda path: "'" + path + "'"
        one, other, dir = q(one), q(other), q(dir)
        word = self.chance.randint(0, 10**9)
        mode = self.chance.choice(["600", "755", "a-w", "u+x"])
        if os.getuid() != 0 and mode == "600":
            # Without the rights of root, nothing beneath such a directory can be looked at, neither by the suite.
            mode = f"$([ -d {one} ] && echo a-w || echo 600)"
        return self.chance.choice([
            f"cp {one} {other}", f"cp -r {dir} {other}", f"cp -al {dir} {other}", f"cp -p {one} {other}",
            f"mv {one} {other}", f"mv {dir} {other}", f"mv -T {dir} {other}", f"mv -f {one} {other}",
            f"mv --exchange {one} {other}", f"rm -rf {one}", f"rm -f {one}", f"rm -rf {dir}",
            f"rmdir {dir}", f"mkdir -p {dir}", f"mkdir {one}", f"ln {one} {other}", f"ln -s {one} {other}",
            f"ln -sfn {one} {other}", f"echo {word} > {one}", f"echo {word} >> {one}", f"truncate -s 10 {one}",
            f"truncate -s 5000 {one}", f"printf %s {word} | dd of={one} conv=notrunc status=none",
            f"sed -i s/line/row{word}/ {one}", f"sed -i.old s/e/E/ {one}", f"chmod {mode} {one}",
            f"chmod -R go-rx {dir}", f"tar cf {other}.tar {dir} && rm -rf {dir} && tar xf {other}.tar",
            f"find {dir} -type f -delete", f"find . -path ./.git -prune -o -name a -exec rm -rf {{}} +", f"touch {one}",
            f"cat {one} > tmp.$$ && mv tmp.$$ {other}", f"install -m 700 {one} {other}", f"mkfifo {one}; rm -f {one}",
            f"ln {one} {other} && echo {word} >> {other}", f"exec 3>> {one}; mv {one} {other}; echo {word} >&3",
            f"mv {dir} moved && echo {word} > moved/new; mv moved {dir}", f"rm -f {one}; mkdir -p {one}; echo {word} > {one}/in",
            f"python3 - <<'END'\nimport mmap, os\nf = open({other!r}[1:-1] if 0 else {other}, 'r+b')\nm = mmap.mmap(f.fileno(), 0)\nm[0:1] = b'Z'\nm.close()\nEND",
            f"python3 - <<'END'\nimport sqlite3\nc = sqlite3.connect({one} + '.db')\nc.execute('create table if not exists t (x)')\nc.execute('insert into t values ({word})')\nc.commit()\nEND",
            f"python3 - <<'END'\nimport os\np = {one}\nopen(p + '~', 'w').write('saved {word}')\nos.replace(p + '~', p)\nEND",
            f"printf 'x\\ny\\n' > {one} && printf -- '--- p\\n+++ p\\n@@ -1,2 +1,2 @@\\n x\\n-y\\n+z {word}\\n' | patch -s {one}",
            f"split -b 1000 {one} {other}.", f"gzip -f {one}", f"rm -rf ./* && mkdir -p {dir}",
        ])


    def git_command(self):
        one, other, word = f"'{self.path()}'", f"'{self.path()}'", self.chance.randint(0, 10**9)
        return self.chance.choice([
            "git add -A", f"git add {one}", f"git commit -qam {word}", f"git commit -q --allow-empty -m {word}", "git commit -q --amend --no-edit",
            "git stash -qu", "git stash -q", "git stash pop -q", "git stash drop -q", "git checkout -q -- .", "git reset -q --hard HEAD~1",
            "git reset -q", "git reset -q --soft HEAD~1", "git clean -fdq", "git clean -fdxq", f"git mv {one} {other}", f"git rm -rqf {one}",
            f"git rm -rq --cached {one}", "git branch -f side", "git branch -D -q side", "git tag -f t", "git checkout -q -B topic", "git checkout -q main",
            "git checkout -q --detach", "git merge -q --no-edit topic", "git cherry-pick topic", "git rebase -q topic || git rebase --abort",
            "git revert --no-edit HEAD", "git gc -q", "git gc -q --prune=now", "git repack -qad", "git pack-refs --all",
            "git reflog expire --expire=now --all", "git update-index --refresh -q", f"echo {word} > {one}; git add {one}; git commit -qm {word}",
        ])


class Builds:
    """A project that cargo and npm build, and their commands, for a part of the random scripts."""

    MADE = {"target", "node_modules"}

    def __init__(self, directory):
        self.files, self.commands = {}, []
        if toolchain := rust_toolchain():
            self.files |= {"Cargo.toml": "[package]\nname = \"built\"\nedition = \"2021\"\n", "src/main.rs": "fn main() {}\n"}
            self.commands += [f"PATH={toolchain}:$PATH cargo build -q --offline", f"echo '// more' >> src/main.rs; PATH={toolchain}:$PATH cargo build -q --offline"]
        if shutil.which("npm"):
            root = npm_project(directory / "npm-for-scripts", directory)
            self.files |= {name: (root / name).read_bytes() for name in ["package.json", "package-lock.json", "dep-1.0.0.tgz"]}
            self.commands += [NPM_CI, f"rm -rf node_modules; {NPM_CI}"]

    def make(self, root):
        for name, content in self.files.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    @classmethod
    def without(cls, state):
        """Leaves out what is not kept in a repository that ignores it."""
        files, git = state
        files = {path: what for path, what in files.items() if not cls.MADE & set(os.fsdecode(path).split("/"))}
        # They are in `.sinew/undone` afterwards, which git ignores.
        left_out = cls.MADE | {".sinew"}
        lines = [line for line in git["status"].splitlines() if not left_out & set(line[3:].strip('"').split("/"))]
        return files, {**git, "status": lines}


def scripts(directory):
    """Runs random commands in random trees, and restores every checkpoint: the last first, or all at once."""
    n_restored = n_controls = n_repositories = n_building = n_built = 0
    # Another user may not reach the tools of this one.
    builds = Builds(directory) if os.getuid() == 0 else None
    for n in range(N_SCRIPTS):
        chance = random.Random(f"{SEED} {n}")
        tree, root = Tree(chance), directory / f"tree-{n}"
        root.mkdir()
        tree.make(root)
        is_repository = chance.random() < 0.25
        n_repositories += is_repository
        is_building = bool(builds and builds.commands) and chance.random() < 0.04
        n_building += is_building
        if is_building:
            builds.make(root)
        if is_repository:
            if is_building:
                checks.write(root / ".gitignore", "target\nnode_modules\n")
            for words in [("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "first")]:
                git(root, *words)
        if is_repository and is_building and chance.random() < 0.7:
            # An ignore file counts if it is older than the session.
            time.sleep(2.1)
        seen = lambda: (look(root), state_of_git(root) if is_repository else {})
        now_of = (lambda: Builds.without(seen())) if is_repository and is_building else seen
        with Pipe(root) as pipe:
            states, said = [now_of()], []
            made = []
            for _ in range(chance.randint(1, 6)):
                pick = lambda: (
                    chance.choice(builds.commands) if is_building and chance.random() < 0.4
                    else tree.git_command() if is_repository and chance.random() < 0.6 else tree.command()
                )
                command = "; ".join(pick() for _ in range(chance.randint(1, 4)))
                names = "".join(f"export {key}={value}; " for key, value in NAMES.items()) if is_repository else ""
                reply = pipe.bash(names + command)
                said.append(command)
                n_built += is_building and any((root / name).is_dir() for name in Builds.MADE)
                now = now_of()
                if now != states[-1]:
                    true(checkpoint(reply), f"script {n}: {command!r} has no checkpoint: {difference(now[0], states[-1][0])}")
                if checkpoint(reply):
                    made.append((checkpoint(reply), states[-1]))
                states.append(now)
            n_controls += bool(made) and states[-1] != states[0]
            at_once = chance.random() < 0.5
            for id, was in made[:1] if at_once else reversed(made):
                with editor(root) if is_repository else contextlib.nullcontext():
                    reply = pipe.restore(id)
                n_restored += 1
                files, repository = now_of()
                wrong = difference(files, was[0])
                true(reply["ok"] and not wrong, f"script {n}, {id}: {wrong} {reply['error']} after {short(said, 3_000)}")
                for key, now in repository.items():
                    true(now == was[1][key], f"script {n}, {id}: {key}: {short(now)} for {short(was[1][key])} after {short(said, 3_000)}")
        shutil.rmtree(root, onerror=checks.make_removable)
    print(f"     {N_SCRIPTS} scripts, {n_repositories} of them in repositories, {n_building} with cargo and npm, {n_restored} restores")
    true(n_built or not n_building, "no script built anything")
    true(N_SCRIPTS // 2 < n_controls, f"{n_controls} scripts changed something")


GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]


def git(root, *words, **more):
    made = subprocess.run([*GIT, *words], cwd=root, capture_output=True, text=True, **more)
    true(made.returncode == 0, f"git {' '.join(words)}: {made.stderr}")
    return made.stdout


def state_of_git(root):
    """Returns what a repository is to its user: HEAD, refs, index entries, stash, status, and a clean fsck."""
    ask = lambda *words: git(root, "--no-optional-locks", *words)
    fsck = subprocess.run(["git", "fsck", "--no-dangling", "--no-progress"], cwd=root, capture_output=True, text=True)
    return {
        "head": (root / ".git/HEAD").read_text(), "refs": ask("for-each-ref"), "index": ask("ls-files", "-s", "-t"),
        "stash": ask("stash", "list"), "status": ask("status", "--porcelain", "--ignored"), "fsck": (fsck.returncode, fsck.stderr),
        "log": ask("log", "--all", "--format=%H %s", "--date-order"), "config": (root / ".git/config").read_text(),
    }


GIT_CASES = {
    "commit": "echo new > new; git add -A; git commit -qm second",
    "reset --hard": "echo lost > tracked; git reset -q --hard HEAD~1",
    "stash": "echo stashed >> tracked; echo u > untracked; git stash -qu",
    "stash drop": "git stash drop -q",
    "branch and rebase": "git checkout -qb topic HEAD~1; echo t > topic; git add topic; git commit -qm topic; git rebase -q main",
    "clean and checkout": "echo x >> tracked; git checkout -q -- .; git clean -fdxq",
    "reset and gc": "git reset -q --hard HEAD~1; git gc -q",
    "reset, expire and gc": "git reset -q --hard HEAD~1; git reflog expire --expire=now --all; git gc -q --prune=now",
    "amend": "echo a >> tracked; git commit -qa --amend -m amended",
    "merge": "git checkout -qb other HEAD~1; echo o > o; git add o; git commit -qm o; git checkout -q main; git merge -q --no-edit other",
    "branch -D": "git branch -D -q side", "tag": "git tag v1; git tag -a v2 -m two", "rm and mv": "git rm -q tracked; git mv dir/deep moved",
    "rm -rf .git": "rm -rf .git", "cherry-pick and revert": "git cherry-pick -n side; git commit -qm picked; git revert --no-edit HEAD",
    "am": "git format-patch -q -1 side -o /tmp/p; git am -q /tmp/p/*.patch",
}


def repository(root):
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for n in range(3):
        checks.write(root / "tracked", f"version {n}\n")
        checks.write(root / "dir/deep" / f"file{n}", f"{n}\n" * 100)
        git(root, "add", "-A")
        git(root, "commit", "-qm", f"commit {n}")
    git(root, "checkout", "-qb", "side", "HEAD~1")
    checks.write(root / "side", "side\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "side")
    git(root, "checkout", "-q", "main")
    checks.write(root / "tracked", "stashed before\n")
    git(root, "stash", "-q")
    checks.write(root / ".gitignore", "*.log\n")
    checks.write(root / "build.log", "ignored\n")
    checks.write(root / "untracked", "mine\n")


@contextlib.contextmanager
def editor(root):
    """An editor that asks git for changes every 50 ms, whose git writes the index each time."""
    ended, looks = threading.Event(), []

    def look():
        while not ended.wait(0.05):
            if (root / ".git/index").exists():
                subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True)
                written = subprocess.run(["git", "update-index", "-q", "--refresh", "--force-write-index"], cwd=root, capture_output=True)
                looks.append(written.returncode)

    thread = threading.Thread(target=look)
    thread.start()
    time.sleep(0.1)
    try:
        yield lambda: len(looks)
    finally:
        ended.set()
        thread.join()


def in_repositories(directory):
    n_looks = n_polls = 0
    for n, (name, command) in enumerate(GIT_CASES.items()):
        with check(f"git: {name} is undone"):
            root = directory / f"repository-{n}"
            repository(root)
            was, files = state_of_git(root), look(root)
            with Pipe(root) as pipe:
                reply = pipe.bash(" ; ".join(f"export {key}={value}" for key, value in NAMES.items()) + "; " + command)
                # The control: without a restore it is another repository.
                changed = not (root / ".git").exists() or state_of_git(root) != was or look(root) != files
                true(changed, f"nothing changed: {reply}")
                n_looks += look_of_an_editor(root)
                # The editor goes on looking while the restore is planned and done.
                with editor(root) as looks:
                    restored = pipe.restore(checkpoint(reply))
                n_polls += looks()
            true(restored["ok"], f"{restored['error']}")
            now = state_of_git(root)
            for key in was:
                true(now[key] == was[key], f"{key}: {short(now[key])} for {short(was[key])}")
            true(not difference(look(root), files), difference(look(root), files))
            shutil.rmtree(root)
    with check("git wrote its index between commands and their undo"):
        true(len(GIT_CASES) // 2 < n_looks, f"{n_looks} times")
        true(len(GIT_CASES) // 2 < n_polls, f"{n_polls} times while they were undone")


def made(root, **files):
    root.mkdir()
    for name, text in files.items():
        checks.write(root / name, text)
    return root


# What a command does, from which files, and what a restore that knows names alone would lose.
HOLES = {
    "a hard link is written by its other name": ({"a": "first\n"}, "ln a x; echo more >> x; rm x"),
    "two old hard links, one is written": ({"a": "first\n"}, "echo more >> a", "ln a b"),
    "two old hard links, one is written, the other goes": ({"a": "first\n"}, "echo more >> a; rm b", "ln a b"),
    "two old hard links, one is written, the other moves": ({"a": "first\n"}, "echo more >> a; mv b c", "ln a b"),
    "two old hard links, one is written, both go": ({"a": "first\n"}, "echo more >> a; rm a; rm b", "ln a b"),
    "two old hard links, one is written, the other is replaced": ({"a": "first\n"}, "echo more >> a; rm a; echo n > n; mv n b", "ln a b"),
    "the mode of a hard link changes": ({"a": "first\n"}, "ln a x; chmod 700 x; rm x"),
    "a hard link takes the place of a directory": ({"a/x": "x\n", "d/b": "b\n"}, "rm -r a; ln d/b a; echo more >> a"),
    "two old hard links, the mode of one changes": ({"a": "first\n"}, "chmod 700 a", "ln a b"),
    "an open descriptor outlives the name": ({"a": "first\n"}, "exec 3>>a; rm a; echo x >&3; exec 3>&-"),
    "a descriptor writes after the file moved": ({"a": "first\n", "b": "b\n"}, "exec 3<>a; mv b a; echo x >&3"),
    "a descriptor is passed to another process": (
        {"a": "first\n"},
        "python3 - <<'END'\nimport array, os, socket\nhere, there = socket.socketpair()\nif os.fork():\n"
        " socket.send_fds(here, [b'x'], [os.open('a', os.O_RDWR)])\n os.wait()\nelse:\n"
        " fd = socket.recv_fds(there, 1, 1)[1][0]\n os.pwrite(fd, b'F', 0)\n os._exit(0)\nEND",
    ),
    "a shared mapping": ({"a": "first\n"}, "python3 -c 'import mmap; f = open(\"a\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); m[0:1] = b\"F\"'"),
    "ftruncate and fallocate": ({"a": "first\n"}, "python3 -c 'import os; f = os.open(\"a\", os.O_RDWR); os.ftruncate(f, 2); os.posix_fallocate(f, 0, 99)'"),
    "O_TRUNC without a write mode": ({"a": "first\n"}, "python3 -c 'import os; os.open(\"a\", os.O_RDONLY | os.O_TRUNC)'"),
    "a file without a name gets one": ({"a": "first\n"}, "python3 -c 'import os; f = os.open(\".\", os.O_TMPFILE | os.O_RDWR); os.unlink(\"a\"); os.link(f\"/proc/self/fd/{f}\", \"a\", follow_symlinks=True)'"),
    "two files change places": ({"a": "first\n", "b": "second\n"}, "mv --exchange a b; echo x >> a"),
    "a directory moves, is changed and moves on": (
        {"d/a": "a\n", "d/e/b": "b\n"}, "mv d f; echo x >> f/a; mkdir d; mv f/e d/a; mv f g; rm -r g",
    ),
    "a directory and a file change places": ({"d/a": "a\n", "f": "f\n"}, "mv d x; mv f d; mv x f"),
    "a symlink takes the place of a directory": ({"d/a": "a\n", "e/a": "other\n"}, "rm -r d; ln -s e d; echo x >> d/a"),
    "empty files go": ({"a": "", "d/b": ""}, "rm a d/b; rmdir d"),
    "a name that is no UTF-8 comes": ({"a": "a\n"}, "echo x > a"),
    "a file is replaced, then removed": ({"a": "first\n", "b": "b\n"}, "sed -i s/first/x/ a; rm a; echo n > t; mv t b; rm b"),
    "a removed file is emptied by its descriptor": ({"a": "first\n"}, "exec 3<a; rm a; : > /proc/self/fd/3; true"),
    "a file without a name is opened again": (
        {"a": "a\n"}, "python3 -c 'import os; f = os.open(\".\", os.O_TMPFILE | os.O_RDWR); os.open(f\"/proc/self/fd/{f}\", os.O_RDWR)'; echo x > a",
    ),
    "a directory is moved, another one takes its place": (
        {"a/x": "1\n", "b/x": "2\n"}, "mv a c; mv b a; echo 3 >> a/x; mv c b; echo 4 >> b/x; mv a d; rm -r d",
    ),
    "names with blanks and lines": ({"a b/c\nd": "1\n", "-rf": "2\n"}, "rm -- -rf; mv 'a b' 'c  d'; rm -r c*"),
    "modes": ({"a": "a\n", "d/b": "b\n"}, "chmod 4755 a; chmod 700 d; rm -r d"),
    f"{N_FILES} files": ({f"d/{n % 100}/{n}": f"{n}\n" for n in range(N_FILES)}, "rm -rf d; mkdir d; echo x > d/new"),
}


def holes(directory, level):
    for n, (name, (files, command, *before)) in enumerate(HOLES.items()):
        with check(f"{level}: {name}"):
            root = made(directory / f"{level}-{n}", **files)
            for words in before:
                subprocess.run(words, shell=True, cwd=root, check=True)
            was = look(root)
            with Pipe(root, "--set", f"run.sandbox={level}") as pipe:
                reply = pipe.bash(command)
                true(difference(look(root), was), f"the control: nothing changed: {reply}")
                restored = pipe.restore(checkpoint(reply))
                true(restored["ok"], f"{restored['error']}")
                true(not difference(look(root), was), difference(look(root), was))
                # Back again, which the same way undoes.
                again = pipe.restore(checkpoint(restored))
                true(again["ok"], f"{again['error']}")
            shutil.rmtree(root, onerror=checks.make_removable)


def kept_out_of_reach(directory, level):
    with check(f"{level}: a command reaches nothing that is kept, and leaves nothing in the project"):
        root = made(directory / f"reach-{level}", secret="secret\n", other="other\n")
        state = os.environ["XDG_STATE_HOME"] + "/sinew"
        look_around = (
            f"rm secret; ls -lR {state} /proc/*/fd/ 2>/dev/null | grep -c before-images; cat {state}/before-images/*/* 2>/dev/null;"
            f" for p in /proc/[0-9]*; do cat $p/cwd/1 $p/root/{state}/before-images/*/1 2>/dev/null; done;"
            f" echo x > {state}/before-images/x; mv other {state}/before-images/; rm -rf {state}/before-images; true"
        )
        with Pipe(root, "--set", f"run.sandbox={level}") as pipe:
            reply = pipe.bash(look_around)
            text = json.dumps(reply["content"])
            true("secret\\n" not in text and '"text": "secret' not in text, f"it was read: {text}")
            true((root / "other").exists(), "a file left the root")
            equal(sorted(os.listdir(root)), ["other"], "what is in the root")
            equal(os.listdir(f"{state}/before-images"), [], "what is left of the command")
            true(pipe.restore(checkpoint(reply))["ok"], "it is not restored")
        equal((root / "secret").read_text(), "secret\n", "the file")


def tools_of_the_user(directory):
    with check("after 50 commands the user's own tools see the project alone"):
        root = directory / "ordinary"
        repository(root)
        with Pipe(root) as pipe:
            for n in range(50):
                pipe.bash(f"echo {n} > made{n}; rm -f made{n - 3}; echo {n} >> tracked; mv dir dir2; mv dir2 dir")
        copy = directory / "ordinary-copy"
        subprocess.run(["cp", "-r", root, copy], check=True)
        true(not difference(look(copy), look(root)), "cp -r left something out")
        names = subprocess.run(["tar", "-cf", "-", "."], cwd=root, capture_output=True, check=True).stdout
        true(b"before-images" not in names, "the context of a build has what was kept")
        would = git(root, "clean", "-fdxn")
        true(".sinew" not in would and "before" not in would, would)
        subprocess.run(["rm", "-rf", root], check=True)
        true(not root.exists(), "rm -rf left something")


@contextlib.contextmanager
def locked(path, seconds=0.4):
    """Keeps a directory locked for a time, as another process that changes it."""
    handle = os.open(path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    unlock = lambda: fcntl.flock(handle, fcntl.LOCK_UN)
    timer = threading.Timer(seconds, unlock)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        os.close(handle)


def closed_after_a_kill(directory):
    with check("as another user than root: a read-only directory is closed again by the restore after a kill"):
        n_open = 0
        for n in range(12):
            root = made(directory / f"killed-{n}", **{f"d/f{at}": f"{at}\n" for at in range(300)})
            (root / "d").chmod(0o555)
            was = look(root)
            with Pipe(root) as pipe:
                first = checkpoint(pipe.bash("chmod 755 d; for f in d/*; do echo x > $f; done; chmod 555 d"))
                pipe.send("CheckpointRestore", id=first)
                until = time.monotonic() + 10
                while stat.S_IMODE(os.lstat(root / "d").st_mode) == 0o555 and time.monotonic() < until:
                    pass
                time.sleep(0.002 * n)
                pipe.process.kill()
            n_open += stat.S_IMODE(os.lstat(root / "d").st_mode) != 0o555
            with Pipe(root) as pipe:
                reply = pipe.restore(first)
                true(reply["ok"], f"{reply['error']}")
            true(not difference(look(root), was), difference(look(root), was))
        true(n_open, "the control: no kill left the directory open")


def without_rights(directory):
    """A user without the rights of root: modes keep files from their owner too."""
    with check("as another user than root: read-only files and directories are undone and redone"):
        root = made(directory / "modes", **{"d/a": "a\n", "b": "b\n", "e/f": "f\n"})
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "first")
        was, before = look(root), state_of_git(root)
        with Pipe(root) as pipe:
            names = "".join(f"export {key}={value}; " for key, value in NAMES.items())
            reply = pipe.bash(names + "chmod -R a-w d; echo x > b; chmod 400 b; rm -rf e; echo y > e; chmod 400 e; git add -A; git commit -qm two; git gc -q")
            there = look(root)
            true(difference(there, was), "nothing changed")
            undone = pipe.call("Undo")
            true(undone["ok"], f"{undone['error']}")
            true(not difference(look(root), was), difference(look(root), was))
            now = state_of_git(root)
            equal([now[key] for key in ["head", "refs", "index", "fsck"]], [before[key] for key in ["head", "refs", "index", "fsck"]], "the repository")
            redone = pipe.call("Undo", redo=True)
            true(redone["ok"], f"{redone['error']}")
            true(not difference(look(root), there), difference(look(root), there))
    for name, mode, script in [
        ("opened and closed again", 0o555, "chmod 755 d; rm d/a; echo n > d/n; mkdir d/e; chmod 555 d"),
        ("closed behind a file that became a directory", 0o755, "rm d/a; mkdir d/a; echo x > d/a/x; chmod 555 d"),
        ("closed behind a directory that became a file", 0o755, "rm -r d/s; echo x > d/s; rm -r d/t; chmod 555 d"),
        ("opened and removed", 0o555, "chmod 755 d; rm -r d"),
        ("opened, changed and closed beside another process that locks it", 0o555, "chmod 755 d; rm -r d/s; echo y > d/a; chmod 555 d"),
        ("in a root that is read-only", 0o755, "chmod 755 .; echo x > new; mv d/a a; chmod 555 ."),
        ("made and closed", 0o755, "mkdir -p d/n/m; echo x > d/n/m/x; chmod 555 d/n/m d/n d"),
    ]:
        with check(f"as another user than root: undo and redo of a directory that was {name}"):
            root = made(directory / name.replace(" ", "-"), **{"d/a": "a\n", "d/s/b": "b\n", "d/t/b": "b\n"})
            (root / "d").chmod(mode)
            root.chmod(0o555 if "root" in name else 0o755)
            was = look(root)
            with Pipe(root) as pipe:
                true(pipe.bash(f"set -e; {script}")["ok"], "the script")
                there = look(root)
                true(difference(there, was), "nothing changed")
                with locked(root / "d") if "lock" in name else contextlib.nullcontext():
                    undone = pipe.call("Undo")
                true(undone["ok"], f"{undone['error']}")
                true(not difference(look(root), was), difference(look(root), was))
                redone = pipe.call("Undo", redo=True)
                true(redone["ok"], f"{redone['error']}")
                true(not difference(look(root), there), difference(look(root), there))
    with check("as another user than root: a read-only directory that another process keeps locked is as before, and so is the next undo"):
        root = made(directory / "kept-locked", **{"d/a": "a\n", "d/e/x": "x\n"})
        (root / "d").chmod(0o555)
        was = look(root)
        with Pipe(root) as pipe:
            true(pipe.bash("chmod 755 d; rm -r d/e; echo y > d/a; chmod 555 d")["ok"], "the script")
            there = look(root)
            with locked(root / "d", 60):
                true(not pipe.call("Undo")["ok"], "the lock was passed over")
                true(not difference(look(root), there), difference(look(root), there))
            true(pipe.call("Undo")["ok"], "the next undo")
            true(not difference(look(root), was), difference(look(root), was))
            true(pipe.call("Undo", redo=True)["ok"], "its redo")
            true(not difference(look(root), there), difference(look(root), there))
    if os.getuid() != 0:
        closed_after_a_kill(directory)
    with check("as another user than root: what cannot be read is left by a partial restore"):
        root = made(directory / "unreadable", a="a\n", b="b\n")
        with Pipe(root) as pipe:
            reply = pipe.bash("echo x > a; echo x > b; chmod 000 b")
            if os.getuid() == 0:
                raise Skip("root reads everything")
            checks.contains(pipe.restore(checkpoint(reply))["error"]["message"], "at 1 of 2 paths: the system denies access: b")
            true(pipe.restore(checkpoint(reply), partial=True)["ok"] and (root / "a").read_text() == "a\n", "the other file")
            (root / "b").chmod(0o600)
            true(pipe.restore(checkpoint(reply), force=True)["ok"] and (root / "b").read_text() == "b\n", "once it can be read")


def on_other_file_systems(directory):
    with check("a root on another file system than the state directory"):
        if not os.path.ismount("/dev/shm"):
            raise Skip("/dev/shm is no file system of its own")
        root = made(type(directory)(f"/dev/shm/sinew-undo-{os.getpid()}"), **{"a": "a\n", "d/b": "b\n" * 10_000})
        try:
            was = look(root)
            with Pipe(root) as pipe:
                reply = pipe.bash("rm -rf d; echo x > a; echo new > n; mv n a")
                true(difference(look(root), was), "the control: nothing changed")
                true(pipe.restore(checkpoint(reply))["ok"], "no restore")
            true(not difference(look(root), was), difference(look(root), was))
        finally:
            shutil.rmtree(root)


def unasked_on_other_file_systems(directory):
    with check("what cannot be moved to the state directory and is too large to copy stays, in a command that runs unasked"):
        if not os.path.ismount("/dev/shm"):
            raise Skip("/dev/shm is no file system of its own")
        root = made(type(directory)(f"/dev/shm/sinew-unasked-{os.getpid()}"), a="a\n")
        try:
            for command in ("mv -f a big", "rm -f big", "ln -f a big", "cp a n; mv n big"):
                for approvals, is_kept in (("auto", True), ("allow", False)):
                    for name in ("a", "big"):
                        (root / name).unlink(missing_ok=True)
                    (root / "a").write_text("a\n")
                    with open(root / "big", "wb") as big:
                        big.truncate(65 << 20)
                    checks.call(root, "Bash", {"command": command}, approvals=approvals)
                    there = (root / "big").exists() and (root / "big").stat().st_size == 65 << 20
                    equal(there, is_kept, f"{approvals}: {command}")
        finally:
            shutil.rmtree(root)


@contextlib.contextmanager
def disk(directory, size):
    """Mounts a disk of its own."""
    directory.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(directory)], capture_output=True, text=True)
    if mounted.returncode:
        raise Skip(f"no disk of its own can be mounted here: {mounted.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def starved(directory):
    with check("a command removes files and fills the disk: once there is room, they come back"):
        with disk(directory / "full", "48M") as top:
            root = made(top / "root", **{"data/a": "a\n" * 2_000_000, "data/b": "b\n" * 2_000_000, "kept": "kept\n"})
            was = look(root)
            with Pipe(root, "--session", "starves", state=top / "state") as pipe:
                reply = pipe.bash("rm -rf data; dd if=/dev/zero of=x bs=1M 2>/dev/null; dd if=/dev/zero of=y bs=1 count=4096 2>/dev/null; ls -l")
                true(not (root / "data").exists() and (root / "x").exists(), f"the control: {reply}")
            # The user sees a full disk and removes what fills it.
            (root / "x").unlink()
            with contextlib.suppress(OSError):
                (root / "y").unlink()
            with Pipe(root, state=top / "state") as pipe:
                found = pipe.call("CheckpointList", session="starves")["structured"]["checkpoints"]
                true(found, f"no checkpoint; the reply was {reply}")
                restored = pipe.restore(found[0]["id"], force=True)
                true(restored["ok"], f"{restored['error']}")
            true(not difference(look(root), was), difference(look(root), was))
    with check("many commands of one session do not push out the undo of its first one"):
        # Each command fills half of the store.
        root = made(directory / "pushed", **{"data/a": "precious\n" * 1_000})
        was = look(root)
        size = 2_000_000
        with Pipe(root, "--set", f"checkpoints.max_bytes={2 * size}", state=directory / "pushed-state") as pipe:
            first = checkpoint(pipe.bash("rm -rf data"))
            said = []
            for n in range(8):
                said.append(json.dumps(pipe.bash(f"head -c {size - 50_000} /dev/urandom > big{n}")["content"]))
                said.append(json.dumps(pipe.bash(f"rm big{n}")["content"]))
            # What no longer has room is not kept, and the reply says so.
            true(any("cannot be undone: big" in text for text in said), f"{said}")
            restored = pipe.restore(first, partial=True)
            true(restored["ok"], f"{restored['error']}")
        true(not difference(look(root), was), difference(look(root), was))


def writers(directory):
    with check("a file that a program of the user has open for writing"):
        root = made(directory / "writers", **{"log/app": "first\n", "src": "source\n"})
        with open(root / "log/app", "a") as log, Pipe(root) as pipe:
            reply = pipe.bash("rm -rf log; rm src")
            log.write("later\n")
            log.flush()
            id = checkpoint(reply)
            true(pipe.restore(id)["ok"], "no restore")
            equal((root / "log/app").read_text(), "first\n", "the log as it was when it was removed")
            log.write("and later\n")
            log.flush()
            # What was kept is not what the program writes.
            shutil.rmtree(root / "log")
            true(pipe.restore(id, force=True)["ok"], "no second restore")
            equal((root / "log/app").read_text(), "first\n", "the log once more")
    with check("a copy that is removed while another command writes to it"):
        root = made(directory / "copies", **{"src/a": "source\n" * 1_000})
        was = look(root)
        with Pipe(root) as pipe:
            pipe.call("Bash", command="cp -r src copy; exec 3<>copy/a; while [ ! -e go ]; do sleep 0.1; done; echo XXXX >&3; touch done; sleep 30", run_in_background=True)
            for _ in range(100):
                if (root / "copy/a").exists():
                    break
                time.sleep(0.05)
            time.sleep(0.3)
            pipe.bash("rm -rf copy")
            reply = pipe.bash("rm -rf src")
            checks.write(root / "go", "")
            for _ in range(100):
                if (root / "done").exists():
                    break
                time.sleep(0.05)
            true(pipe.restore(checkpoint(reply), only=True)["ok"], "no restore")
            of_source = lambda state: {path: what for path, what in state.items() if path.startswith(b"src/")}
            equal(of_source(look(root)), of_source(was), "the source")


def rebuilt(directory):
    """What tools make anew is left out, and nothing else can be made to look like it."""
    cases = {
        "a build": ("mkdir -p target/debug; echo x > target/debug/x; rm -rf node_modules; echo x > a", "not kept: ", ["node_modules", "target"]),
        "a file moved in, changed and moved back": ("mkdir -p target; mv a target/a; sed -i s/a/b/ target/a; mv target/a a", "not kept", ["target"]),
        "a directory moved in": ("mkdir -p target; mv src target/src; echo x >> target/src/b; mv target/src .", "undoes this", ["target"]),
        "a link from in there": ("mkdir -p target; ln a target/x; echo more >> target/x", "undoes this", ["target"]),
        "ignored by this command": ("echo src >> .gitignore; echo build >> .gitignore; rm -rf build; rm -rf src", "undoes this", []),
        "tracked, and removed from the index": ("git rm -r -q --cached dist; rm -rf dist", "undoes this", []),
        "a file of such a name": ("rm dist.d/build; mv node_modules/package dist.d/x", "undoes this", ["node_modules"]),
        "moved to where rules say so": ("mkdir web; mv keep web/node_modules; rm -rf web/node_modules", "undoes this", []),
        "renamed": ("mv node_modules kept; echo x > kept/package/index.js; mv kept node_modules", "not kept", ["node_modules"]),
    }
    for n, (name, (command, words, left_out)) in enumerate(cases.items()):
        with check(f"rebuilt directories: {name}"):
            root = made(directory / f"rebuilt-{n}", **{
                "a": "a\n", "src/b": "b\n", "build/user": "mine\n", "dist/tracked": "t\n", "node_modules/package/index.js": "js\n",
                "keep/me": "kept\n", "dist.d/build": "a script\n", ".gitignore": "target/\n/node_modules\n/dist\nweb/node_modules\n**/build\n",
            })
            git(root, "init", "-q")
            git(root, "add", "-A")
            git(root, "add", "-f", "dist")
            git(root, "commit", "-qm", "first")
            # An ignore file counts if it is older than the session.
            time.sleep(2.1)
            was = look(root)
            with Pipe(root) as pipe:
                reply = pipe.bash(command)
                true(reply["ok"], f"{reply}")
                checks.contains(json.dumps(reply["content"]), words)
                if checkpoint(reply):
                    restored = pipe.restore(checkpoint(reply))
                    true(restored["ok"], f"{restored['error']}")
            away = lambda state: {path: what for path, what in state.items() if path.decode().split("/")[0] not in left_out}
            wrong = difference(away(look(root)), away(was))
            true(not wrong, wrong)


NPM_CI = "npm ci --offline --no-audit --no-fund --silent --cache /tmp/npm"


def rust_toolchain():
    """Returns the directory of cargo and rustc, or nothing."""
    # The tests have another home, in which rustup knows no toolchain.
    home = {**os.environ, "HOME": str(checks.USER_HOME), "RUSTUP_HOME": str(checks.USER_HOME / ".rustup")}
    if not shutil.which("rustc"):
        return None
    toolchain = subprocess.run(["rustc", "--print", "sysroot"], env=home, cwd="/", capture_output=True, text=True)
    true(toolchain.stdout, toolchain.stderr)
    return f"{toolchain.stdout.strip()}/bin"


def npm_project(root, directory):
    """Makes a package with a dependency in an archive beside it, and its lock file."""
    made(root, **{
        "package.json": '{"name": "app", "version": "1.0.0", "dependencies": {"dep": "file:dep-1.0.0.tgz"}}', "index.js": "require('dep')\n",
        ".gitignore": "node_modules\n", "dep/package.json": '{"name": "dep", "version": "1.0.0"}', "dep/index.js": "module.exports = 1\n",
    })
    for words, cwd in [(["pack", "--silent", "--pack-destination", ".."], root / "dep"), (["install", "--package-lock-only", "--offline", "--silent"], root)]:
        npm = subprocess.run(["npm", *words, "--cache", str(directory / "npm-cache")], cwd=cwd, capture_output=True, text=True)
        true(npm.returncode == 0, f"npm {words}: {npm.stderr}")
    return root


def builders(directory):
    """Tools that make directories anew: what they left goes out of the way, and comes back with the redo."""
    with check("cargo build: target goes out of the way, and the redo brings it back"):
        cargo = rust_toolchain()
        if not cargo:
            raise Skip("rustc is not installed")
        root = made(directory / "cargo", **{
            "Cargo.toml": "[package]\nname = \"built\"\nedition = \"2021\"\n", "src/main.rs": "fn main() {}\n", ".gitignore": "/target\n",
        })
        # Cargo moves a new `target` to its name, so what the first build makes is kept.
        env = {**os.environ, "PATH": f"{cargo}:{os.environ['PATH']}"}
        env.pop("CARGO_TARGET_DIR", None)
        subprocess.run(["cargo", "build", "-q", "--offline"], cwd=root, env=env, check=True)
        undone_and_redone(
            root, f"echo 'fn main() {{ println!(\"hello\"); }}' > src/main.rs; PATH={cargo}:$PATH cargo build -q --offline", "target", "target/debug/built",
            "`cargo build` makes it anew",
            # It is in a private directory that is not the home of these tests.
            "--set", f"run.show={json.dumps([os.path.dirname(cargo)])}",
        )
    with check("npm ci: node_modules goes out of the way, and the redo brings it back"):
        if not shutil.which("npm"):
            raise Skip("npm is not installed")
        root = npm_project(directory / "npm", directory)
        undone_and_redone(
            root, f"echo changed > index.js; {NPM_CI}", "node_modules", "node_modules/dep/index.js",
            "`npm ci` makes it anew",
        )


    anew(directory)


def anew(directory):
    """Directories that tools make anew, where something else was before, and where they cannot be moved."""
    def project(name, **files):
        root = made(directory / name, **{"a": "a\n", ".gitignore": "/node_modules\n/build\n/target\n**/nm/node_modules\n", **files})
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "first")
        return root

    with check("what was a symlink or a file before a tool made a directory of it comes back"):
        root = project("was-other", **{"build": "a script\n" * 100})
        (root / "node_modules").symlink_to("elsewhere")
        time.sleep(2.1)
        was = look(root)
        with Pipe(root) as pipe:
            for command in ["rm node_modules build; mkdir -p node_modules/x build; echo x > node_modules/x/y; echo x > build/z; echo x > a",
                            "mv build build.old; mkdir build; echo x > build/z; echo x > a"]:
                reply = pipe.bash(command)
                true(difference(look(root), was), "nothing changed")
                restored = pipe.restore(checkpoint(reply))
                true(restored["ok"], f"{restored['error']}")
                true(not difference(look(root), was), difference(look(root), was))
    with check("later changes of such a directory hide nothing that a command planted, and bring nothing back"):
        root = project("hidden", **{"node_modules/x": "x\n"})
        time.sleep(2.1)
        with Pipe(root) as pipe:
            reply = pipe.bash("echo planted > node_modules/y; mkdir node_modules/.git; echo x > a")
            true(pipe.bash("chmod 700 node_modules; echo y > a")["ok"], "the second command")
            true(pipe.restore(checkpoint(reply))["ok"], "the restore")
        true(not (root / "node_modules").exists() and (root / "a").read_text() == "a\n", "it stays in place")
        root = project("brought-back")
        time.sleep(2.1)
        with Pipe(root) as pipe:
            was = look(root)
            reply = pipe.bash("mkdir node_modules; echo planted > node_modules/y; echo x > a")
            pipe.bash("echo '# more' >> .gitignore")
            pipe.bash("rm -rf node_modules; echo y > a")
            true(pipe.restore(checkpoint(reply))["ok"], "the restore")
        true(not difference(look(root), was), difference(look(root), was))
        root = project("mode-first", **{"node_modules/x": "x\n"})
        (root / "node_modules/.git").mkdir()
        time.sleep(2.1)
        with Pipe(root) as pipe:
            was = look(root, ())
            first = checkpoint(pipe.bash("chmod 700 node_modules; echo x > a"))
            true(pipe.bash("rmdir node_modules/.git; echo y > a")["ok"], "the second command")
            true(pipe.bash("echo planted > node_modules/y; echo z > a")["ok"], "the third command")
            restored = pipe.restore(first)
            true(restored["ok"], f"{restored['error']}")
            true((root / "node_modules/.git").exists(), "what was kept is not back")
            equal((root / "a").read_text(), "a\n", "the file")
    with check("a directory that its owner may not write moves away all the same"):
        root = project("read-only", **{"node_modules/x": "x\n"})
        time.sleep(2.1)
        with Pipe(root) as pipe:
            reply = pipe.bash("echo planted > node_modules/y; chmod 555 node_modules; echo x > a")
            true(pipe.restore(checkpoint(reply))["ok"] and not (root / "node_modules").exists(), "it stays")
            [aside] = (root / ".sinew/undone").glob("*/node_modules")
            equal(oct(stat.S_IMODE(aside.stat().st_mode)), oct(0o555), "its mode")
    with check("edits beneath a directory that moves away block no undo"):
        root = project("beneath", **{"node_modules/x/y": "y\n"})
        time.sleep(2.1)
        was = look(root)
        with Pipe(root) as pipe:
            pipe.call("Read", file_path=str(root / "node_modules/x/y"))
            true(pipe.call("Write", file_path=str(root / "node_modules/x/y"), content="edited\n")["ok"], "the edit")
            edited = look(root)
            true(pipe.bash("echo z > node_modules/x/z; echo x > a")["ok"], "the command")
            there = look(root)
            true(pipe.call("Undo")["ok"], "the command")
            # It went with the directory, so nothing is left to undo.
            checks.contains(json.dumps(pipe.call("Undo")["content"]), "everything is as it was before")
            gone = {path: what for path, what in was.items() if not path.startswith(b"node_modules")}
            true(not difference(look(root), gone), difference(look(root), gone))
            true(pipe.call("Undo", redo=True)["ok"], "the redo")
            true(not difference(look(root), there), difference(look(root), there))
            true(edited != there, "the control: the command changed nothing")
    with check("only the last change is undone where a tool changed its own directory alone"):
        root = project("own-alone", **{"target/x": "x\n"})
        time.sleep(2.1)
        with Pipe(root) as pipe:
            pipe.bash("echo changed > a")
            reply = pipe.bash("echo more >> target/x")
            equal(checkpoint(reply), None, "the checkpoint")
            checks.contains(json.dumps(reply["content"]), "not kept: target/")
            true(pipe.call("Undo")["ok"], "the undo")
        equal([(root / "a").read_text(), (root / "target/x").read_text()], ["a\n", "x\nmore\n"], "the files")
    with check("a directory that cannot be moved away stays, and the reply says so"):
        root = project("stays", **{"node_modules/x": "x\n"})
        checks.write(directory / "elsewhere" / "kept", "kept\n")
        (root / ".sinew").mkdir()
        (root / ".sinew/undone").symlink_to(directory / "elsewhere")
        time.sleep(2.1)
        with Pipe(root) as pipe:
            reply = pipe.bash("echo planted > node_modules/y; echo x > a")
            restored = pipe.restore(checkpoint(reply))
            checks.contains(json.dumps(restored["content"]), "set aside  node_modules  (cannot be done: it could not be moved")
        equal([(root / "a").read_text(), (root / "node_modules/y").read_text()], ["a\n", "planted\n"], "the files")
        equal([path.name for path in (directory / "elsewhere").iterdir()], ["kept"], "outside of the root")
    with check("what a command planted in a directory does not come back by a move of the directory above"):
        root = project("planted", **{"pkg/nm/node_modules/x": "x\n", "pkg/nm/own": "own\n"})
        time.sleep(2.1)
        with Pipe(root) as pipe:
            reply = pipe.bash("echo planted > pkg/nm/node_modules/x; mv pkg/nm pkg/other")
            true(reply["ok"], f"{reply}")
            true(pipe.restore(checkpoint(reply), partial=True)["ok"], "the restore")
        equal((root / "pkg/nm/own").read_text(), "own\n", "the other file")
        true(not (root / "pkg/nm/node_modules/x").exists() or (root / "pkg/nm/node_modules/x").read_text() == "x\n", "it is back")


def undone_and_redone(root, command, rebuilt, file, words, *options):
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    time.sleep(2.1)
    away = lambda state: {path: what for path, what in state.items() if path.split(b"/")[0] != rebuilt.encode()}
    was, before = away(look(root)), state_of_git(root)
    before["status"] = before["status"].replace(f"!! {rebuilt}/\n", "!! .sinew/\n") if (root / rebuilt).exists() else before["status"] + "!! .sinew/\n"
    with Pipe(root, *options) as pipe:
        reply = pipe.bash(command)
        true(reply["ok"], f"{reply}")
        checks.contains(json.dumps(reply["content"]), f"not kept: {rebuilt}/", "undoes this (~1)")
        there, made_by_tool = look(root), (root / file).read_bytes()
        # The control: without the restore it is there.
        true(difference(there, was), "nothing changed")
        undone = pipe.call("Undo")
        true(undone["ok"], f"{undone['error']}")
        checks.contains(json.dumps(undone["content"]), f"set aside  {rebuilt}  (in .sinew/undone; ", words)
        true(not difference(look(root), was), difference(look(root), was))
        # Git does not see what is out of the way.
        equal(state_of_git(root), before, "the repository")
        [aside] = (root / ".sinew/undone").glob("*")
        equal((aside / file).read_bytes(), made_by_tool, "what is out of the way")
        redone = pipe.call("Undo", redo=True)
        checks.contains(json.dumps(redone["content"]), f"bring back  {rebuilt}")
        true(not difference(look(root), there), difference(look(root), there))
        true(not list((root / ".sinew/undone").glob("*")), "nothing stays out of the way")
        true(pipe.call("Undo")["ok"], "once more")
        # What the user made since is not replaced by the redo.
        checks.write(root / rebuilt / "by-the-user", "mine\n")
        true(pipe.call("Undo", redo=True)["ok"], "the second redo")
        equal(sorted(path.name for path in (root / rebuilt).iterdir()), ["by-the-user"], "the user's directory")


LONG = (
    "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do cp -r src copy$n; rm -rf copy$((n - 1)); sed -i s/line/row$n/ src/d1/*; mv src/d2 src/e$n; mv src/e$n src/d2;"
    " rm -f src/d3/f$n; echo $n >> src/d4/f1; git commit -qam $n; chmod 700 src/d5/f$n; ln -f src/d6/f1 src/d6/g; done; rm -rf src"
)


def killed(directory):
    """Kills sinew, its supervisor, or all of it in the middle of a command, and restores."""
    chance = random.Random(SEED)
    unshare = ["unshare", "--user", "--map-current-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
    for who in ["sinew", "supervisor", "everything", "namespace"]:
        with check(f"kill -9 of {who} at {N_KILLS} moments: all comes back"):
            is_namespace = who == "namespace"
            if is_namespace and subprocess.run([*unshare, "true"], capture_output=True).returncode:
                raise Skip("no PID namespace can be made here")
            n_changed = 0
            for n in range(N_KILLS):
                root = directory / f"killed-{who}-{n}"
                for d in range(1, 7):
                    for f in range(1, 13):
                        checks.write(root / f"src/d{d}/f{f}", f"line {d} {f}\n" * (20 * f))
                git(root, "init", "-q")
                git(root, "add", "-A")
                git(root, "commit", "-qm", "first")
                was, head = look(root), git(root, "rev-parse", "HEAD")
                pipe = Pipe(root, "--session", f"{who}-{n}", within=unshare if is_namespace else ())
                pipe.send("Bash", command="".join(f"export {key}={value}; " for key, value in NAMES.items()) + LONG)
                # A busy machine may take long to begin.
                begun = time.monotonic()
                while not (root / "copy1").exists() and time.monotonic() < begun + 10:
                    time.sleep(0.005)
                time.sleep(chance.uniform(0, 0.6))
                family = [pipe.process.pid, *(pid for pid, _ in checks.descendants(pipe.process.pid))]
                helpers = [pid for pid in family[1:] if b"sinew-helper" in command_line(pid)]
                # The first process of a namespace takes all others with it, at one moment.
                victims = {
                    "sinew": family[:1], "supervisor": helpers[1:2] or helpers, "everything": family, "namespace": family[1:2],
                }[who]
                for pid in victims:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                if who == "supervisor":
                    pipe.process.stdin.close()
                pipe.process.wait(timeout=30)
                pipe.process.stdout.close()
                checks.wait_for_no_sinew()
                changed = look(root) != was
                n_changed += changed
                with Pipe(root) as after:
                    listed = after.call("CheckpointList", session=f"{who}-{n}")["structured"]
                    found = listed["checkpoints"]
                    if changed:
                        true(found, f"moment {n}: no checkpoint")
                        restored = after.restore(found[-1]["id"], force=True)
                        true(restored["ok"], f"moment {n}: {restored['error']}")
                wrong = difference(look(root), was)
                true(not wrong, f"moment {n}: {wrong}")
                equal(git(root, "rev-parse", "HEAD"), head, f"moment {n}: HEAD")
                shutil.rmtree(root, onerror=checks.make_removable)
            print(f"     {n_changed} of {N_KILLS} kills came after a change")
            true(N_KILLS // 3 < n_changed, "the kills came too early")


def command_line(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""


def conflicts(directory):
    with check("what the user changed meanwhile is not overwritten unless forced"):
        root = made(directory / "meanwhile", a="a\n", b="b\n")
        with Pipe(root) as pipe:
            reply = pipe.bash("echo x > a; echo x > b")
            checks.write(root / "b", "the user's\n")
            refused = pipe.restore(checkpoint(reply))
            true(not refused["ok"] and (root / "a").read_text() == "x\n", f"{refused}")
            checks.contains(refused["error"]["hint"], "`partial` restores the other 1")
            partial = pipe.restore(checkpoint(reply), partial=True)
            checks.contains(json.dumps(partial["content"]), "1 changed, 1 left alone", "left  b  (a person")
            equal((root / "a").read_text(), "a\n", "the other file")
            equal((root / "b").read_text(), "the user's\n", "the user's file")
            true(pipe.restore(checkpoint(reply), force=True)["ok"], "by force")
        equal([(root / name).read_text() for name in "ab"], ["a\n", "b\n"], "the files")
    with check("of sixteen changed files the fourteen that another session left alone come back"):
        names = [f"f{n}" for n in range(16)]
        root = made(directory / "sixteen", **{name: f"{name}\n" for name in names})
        with Pipe(root, "--session", "one") as one, Pipe(root, "--session", "two") as two:
            reply = one.bash("for file in f*; do echo x > $file; done")
            true(two.bash("echo y > f3; echo y > f7")["ok"], "the other session")
            refused = one.call("Undo")
            checks.contains(refused["error"]["message"], "at 2 of 16 paths", "session two changed it after", "f3", "f7")
            checks.contains(refused["error"]["hint"], "`partial` restores the other 14")
            undone = one.call("Undo", partial=True)
            checks.contains(json.dumps(undone["content"]), "14 changed, 2 left alone", "left  f3", "left  f7")
            left = {"f3": "y\n", "f7": "y\n"}
            equal({name: (root / name).read_text() for name in names}, {name: f"{name}\n" for name in names} | left, "the files")
            true(one.call("Undo", redo=True)["ok"], "redo")
            equal({name: (root / name).read_text() for name in names}, dict.fromkeys(names, "x\n") | left, "the files")
    with check("a repository that others changed since stays as a whole"):
        root = directory / "partly"
        repository(root)
        with Pipe(root) as pipe:
            reply = pipe.bash("echo x > new; git add new; git -c user.name=T -c user.email=t@example.com commit -qm new; echo x > untracked")
            git(root, "commit", "-q", "--allow-empty", "-m", "the user's")
            was = state_of_git(root)
            true(not pipe.restore(checkpoint(reply))["ok"], "the whole")
            partial = pipe.restore(checkpoint(reply), partial=True)
            true(partial["ok"], f"{partial['error']}")
            checks.contains(json.dumps(partial["content"]), "left  .git  (")
        equal((root / "untracked").read_text(), "mine\n", "the file")
        now = state_of_git(root)
        equal([now[key] for key in ["head", "refs", "index", "fsck"]], [was[key] for key in ["head", "refs", "index", "fsck"]], "the repository")
    with check("names that are not UTF-8 are left by a partial restore, and named"):
        root = made(directory / "names", a="a\n")
        with open(os.fsencode(root) + b"/old\xff", "w") as file:
            file.write("old\n")
        with Pipe(root) as pipe:
            reply = pipe.bash(r"""echo x > a; rm old*; touch "$(printf 'new\377')" """)
            refused = pipe.restore(checkpoint(reply))
            checks.contains(refused["error"]["message"], "at 2 of 3 paths", "its name is not UTF-8")
            partial = pipe.restore(checkpoint(reply), partial=True)
            checks.contains(json.dumps(partial["content"]), "1 changed, 2 left alone")
        equal((root / "a").read_text(), "a\n", "the other file")
        equal(sorted(name for name in os.listdir(os.fsencode(root)) if name != b".sinew"), [b"a", b"new\xff"], "the names")
    with check("a restore is refused where a command in the background changes the same files, and only there"):
        root = made(directory / "under-way", a="a\n", b="b\n", c="c\n")
        with Pipe(root, "--session", "under-way") as pipe:
            first = checkpoint(pipe.bash("echo x > a; echo x > b"))
            pipe.call("Bash", command="echo y > b; sleep 60", run_in_background=True)
            for _ in range(200):
                if (root / "b").read_text() == "y\n":
                    break
                time.sleep(0.05)
            checks.contains(pipe.restore(first)["error"]["message"], "at 1 of 2 paths: a command that runs changes it: b")
            with Pipe(root) as other:
                checks.contains(other.restore(first)["error"]["message"], "a command that runs changes it: b")
            second = checkpoint(pipe.bash("echo x > c"))
            true(pipe.restore(second)["ok"] and (root / "c").read_text() == "c\n", "another file")
            true(pipe.call("KillShell", shell_id="b1")["ok"], "the end of the command")
            true(pipe.restore(first)["ok"], "once it ended")
        equal([(root / name).read_text() for name in "ab"], ["a\n", "b\n"], "the files")
    with check("a directory that a command in the background fills stays, and its mode does not count for what is in it"):
        root = made(directory / "under-way-too", **{"package.json": "{}\n", "d/a": "a\n", ".gitignore": "node_modules\n"})
        git(root, "init", "-q")
        time.sleep(2.1)
        with Pipe(root) as pipe:
            first = checkpoint(pipe.bash("echo x > d/a; mkdir node_modules; echo x > node_modules/a"))
            pipe.call("Bash", command="chmod 711 d; echo y > node_modules/b; echo y > ready; sleep 60", run_in_background=True)
            for _ in range(200):
                if (root / "ready").exists():
                    break
                time.sleep(0.05)
            checks.contains(pipe.restore(first)["error"]["message"], "at 1 of 2 paths: a command that runs changes it: node_modules")
            true(pipe.call("KillShell", shell_id="b1")["ok"], "the end of the command")
            true(pipe.restore(first)["ok"] and not (root / "node_modules").exists(), "once it ended")
    with check("a restore waits for a lock of git, and changes nothing where git keeps it"):
        root = directory / "locked"
        repository(root)
        with Pipe(root) as pipe:
            reply = pipe.bash("echo x > new; git add new; echo x > untracked")
            lock = root / ".git/index.lock"
            checks.write(lock, "")
            begun = time.monotonic()
            refused = pipe.restore(checkpoint(reply))
            took = time.monotonic() - begun
            checks.contains(refused["error"]["message"], "git is at work in this repository, so nothing was changed")
            true(1.5 < took < 10 and lock.exists() and (root / "untracked").read_text() == "x\n", f"{took} s")
            # The control: it goes on once git is done.
            threading.Timer(0.5, lock.unlink).start()
            true(pipe.restore(checkpoint(reply))["ok"], "no restore")
        true(not lock.exists() and (root / "untracked").read_text() == "mine\n", "the repository")
    with check("a branch is not set to a commit that the user removed meanwhile"):
        root = directory / "pruned"
        repository(root)
        with Pipe(root) as pipe:
            reply = pipe.bash("git stash drop -q; git reset -q --hard HEAD~1; git reflog expire --expire=now --all; echo x > untracked")
            git(root, "prune", "--expire=now")
            refused = pipe.restore(checkpoint(reply))
            checks.contains(refused["error"]["message"], "its repository does not have the object", "any more")
            partial = pipe.restore(checkpoint(reply), partial=True)
            checks.contains(json.dumps(partial["content"]), "left  .git  (")
            equal((root / "untracked").read_text(), "mine\n", "the file")
            fsck = lambda: subprocess.run(["git", "fsck", "--no-dangling", "--no-progress"], cwd=root, capture_output=True).returncode
            equal(fsck(), 0, "the repository")
            # The control: forced, it is one that git cannot read.
            true(pipe.restore(checkpoint(reply), force=True)["ok"], "by force")
            true(fsck() != 0, "the commit is there")
    with check("a command in the background has one checkpoint, when it has ended"):
        root = made(directory / "background", a="a\n")
        with Pipe(root) as pipe:
            begun = pipe.call("Bash", command="echo x > a; sleep 1; echo y >> a", run_in_background=True)
            time.sleep(1.6)
            said = json.dumps(pipe.bash("true")["content"])
            checks.contains(said, "b1: c", "undoes this (~1)")
            equal((root / "a").read_text(), "x\ny\n", "the file")
            id = said.split("b1: ")[1].split()[0]
            true(pipe.restore(id)["ok"], f"{begun}")
        equal((root / "a").read_text(), "a\n", "the file")
    with check("too much is said to be not kept"):
        root = made(directory / "large", a="a\n")
        subprocess.run(["truncate", "-s", "70M", root / "large"], check=True)
        with Pipe(root) as pipe:
            reply = pipe.bash("echo x >> large; echo x >> a")
            checks.contains(json.dumps(reply["content"]), "cannot be undone: large", "undoes this (~2)")
            refused = pipe.restore(checkpoint(reply))
            true(not refused["ok"], f"{refused}")
            forced = pipe.restore(checkpoint(reply), partial=True, force=True)
            checks.contains(json.dumps(forced["content"]), "1 changed, 1 left alone", "left  large  (its content is not kept")
        equal((root / "a").read_text(), "a\n", "the other file")
    if AT_NIGHT:
        with check("a command that changes 100,000 files says that its undo is not complete"):
            root = made(directory / "many", a="a\n")
            with Pipe(root) as pipe:
                reply = pipe.call("Bash", command="echo x > a; mkdir d; python3 -c 'for n in range(100000): open(f\"d/{n}\", \"w\").write(str(n))'", timeout=300_000)
                true(reply["ok"] and len(os.listdir(root / "d")) == 100_000, f"{reply}")
                checks.contains(json.dumps(reply["content"]), "it changed more than is kept")
                true(pipe.restore(checkpoint(reply), path="a")["ok"], "one file")
                equal((root / "a").read_text(), "a\n", "the file")
                equal(len(os.listdir(root / "d")), 100_000, "the others")
    with check("`checkpoints.commands = false` keeps nothing"):
        root = made(directory / "off", a="a\n")
        with Pipe(root, "--set", "checkpoints.commands=false") as pipe:
            reply = pipe.bash("echo x > a")
            equal(checkpoint(reply), None, "the checkpoint")


def look_of_an_editor(root):
    """Asks git what changed, as an editor does: git writes its index then, with other times of files."""
    if (root / ".git").exists():
        for path in root.glob("dir/deep/*"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
        before = (root / ".git/index").read_bytes()
        git(root, "status", "--porcelain")
        return (root / ".git/index").read_bytes() != before
    return False


def as_another_user(directory):
    """Runs a part of the suite as the user nobody, for whom modes count."""
    home = directory / "other-user"
    home.mkdir()
    binary = home / "sinew"
    shutil.copy(checks.binary(), binary)
    shutil.chown(home, "nobody")
    for parent in home.parents:
        if parent.stat().st_mode & 0o001 == 0 and directory in [parent, *parent.parents]:
            parent.chmod(parent.stat().st_mode | 0o011)
    env = {**os.environ, "SINEW_UNDO_USER": "1", "SINEW_BIN": str(binary), "TMPDIR": str(home), "HOME": str(home), "SINEW_UNDO_SCRIPTS": str(N_SCRIPTS // 6), "SINEW_UNDO_SEED": str(SEED + 1)}
    copy = home / "e2e"
    shutil.copytree(os.path.dirname(os.path.abspath(__file__)), copy, ignore=shutil.ignore_patterns("__pycache__"))
    # Another user may not reach the Python of this one.
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if not python:
        checks.line("skip", "as another user than root: no Python of the system is installed")
        return
    ran = subprocess.run([python, str(copy / "undo.py")], cwd=home, env=env, user="nobody", group="nogroup", extra_groups=[], capture_output=True, text=True)
    for text in ran.stdout.splitlines():
        print(text)
    with check("as another user than root: that part ran"):
        true(ran.returncode == 0 and "random scripts" in ran.stdout, f"{ran.returncode}: {ran.stderr[-600:]}")


NAMES = {"GIT_AUTHOR_NAME": "T", "GIT_AUTHOR_EMAIL": "t@example.com", "GIT_COMMITTER_NAME": "T", "GIT_COMMITTER_EMAIL": "t@example.com"}


def main(directory):
    if os.getuid() == 0:
        as_another_user(directory)
    else:
        without_rights(directory)
    in_repositories(directory)
    for level in ["namespaces", "bubblewrap", "landlock"]:
        if level == "bubblewrap" and not shutil.which("bwrap"):
            checks.line("skip", "bubblewrap is not installed")
            continue
        holes(directory, level)
        kept_out_of_reach(directory, level)
    tools_of_the_user(directory)
    on_other_file_systems(directory)
    unasked_on_other_file_systems(directory)
    starved(directory)
    conflicts(directory)
    writers(directory)
    rebuilt(directory)
    builders(directory)
    killed(directory)
    with check(f"{N_SCRIPTS} random scripts of commands are undone"):
        scripts(directory)


def of_another_user():
    """The part that another user runs, who cannot have a user database of the suite's own."""
    directory = type(checks.USER_HOME)(tempfile.mkdtemp(prefix="sinew-e2e-undo-")).resolve()
    checks.at_home(directory / "home")
    without_rights(directory)
    with check("as another user than root: random scripts of commands are undone"):
        scripts(directory)
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    if os.environ.get("SINEW_UNDO_USER"):
        of_another_user()
    checks.run(main)

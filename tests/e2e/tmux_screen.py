"""A terminal of tmux with a program in it."""

import os
import re
import subprocess
import time


class Screen:
    """A terminal of tmux with a program in it."""

    n_made = 0

    def __init__(self, root, command, columns=120):
        # Each has a server of its own: one that ends takes new ones with it.
        Screen.n_made += 1
        self.name = f"sinew-e2e-{os.getpid()}-{Screen.n_made}"
        self.tmux("new-session", "-d", "-s", self.name, "-x", str(columns), "-y", "40", "-c", str(root),
                  "env", *[f"{name}={value}" for name, value in os.environ.items()
                           if name in ("HOME", "PATH", "XDG_STATE_HOME", "XDG_CONFIG_HOME")],
                  "sh", "-c", f"{command}; echo \"[exit $?]\"; sleep 60")

    def tmux(self, *args):
        done = subprocess.run(["tmux", "-L", self.name, *args], capture_output=True, text=True)
        return done.stdout

    def until(self, pattern):
        for _ in range(1_200):
            shown = self.tmux("capture-pane", "-p", "-t", self.name)
            if re.search(pattern, shown):
                return shown
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} on the screen:\n{shown}")

    def type(self, text):
        self.tmux("send-keys", "-t", self.name, text, "Enter")

    def press(self, *keys):
        self.tmux("send-keys", "-t", self.name, *keys)

    def close(self):
        self.tmux("kill-server")

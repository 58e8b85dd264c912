"""An image that runs: in namespaces of its own, its root read-only, its volume writable."""

import subprocess
import sys
from pathlib import Path

from harness.lines import LineProcess

from packages.dockerfile import Image
from packages.machine import LOOPBACK_UP


class Container:
    def __init__(self, image: Image, directory: Path, *, user: str | None = None, secrets: dict[str, str] | None = None, environment: dict[str, str] | None = None):
        self.image = image
        self.environment = [*image.environment, *(f"{name}={value}" for name, value in (environment or {}).items())]
        self.user = user or image.user
        self.place = directory / "container"
        (volume,) = image.volumes
        (directory / "secrets").mkdir()
        for name, text in (secrets or {}).items():
            (directory / "secrets" / name).write_text(text)
            (directory / "secrets" / name).chmod(0o444)
        # A new volume begins with what the image has in its place, and its mode.
        script = f"""
            set -e
            mkdir '{self.place}' && mount -t tmpfs none '{self.place}'
            cp -a '{image.tree}' '{self.place}/tree' && cp -a '{self.place}/tree{volume}' '{self.place}/volume'
            cd '{self.place}/tree' && mkdir -p dev proc sys run/secrets
            mount --bind . . && cd '{self.place}/tree'
            mount --rbind /dev dev && mount -t proc none proc
            mount --bind '{directory}/secrets' run/secrets
            mount --bind '{self.place}/volume' '.{volume}'
            mount -o remount,bind,ro '{self.place}/tree'
            echo made && exec cat
        """
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", script],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.holder.stdout.readline() == "made\n", self.holder.stderr.read()
        (child,) = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().split()
        self.namespaces = [f"--{kind}=/proc/{child}/ns/{name}" for kind, name in [("mount", "mnt"), ("net", "net"), ("pid", "pid")]]
        self.outside([sys.executable, "-c", LOOPBACK_UP])

    def command(self, arguments: list[str]) -> list[str]:
        """What runs a command in it as its user, who has no rights beyond his own and can get none."""
        user, _, group = self.user.partition(":")
        environment = ["env", "-i", *self.environment]
        program = f"/usr/bin/{arguments[0]}" if "/" not in arguments[0] else arguments[0]
        chroot = [sys.executable, "-c", CHROOT, f"{self.place}/tree", self.image.working_directory, user, group or "0", program, *arguments[1:]]
        return ["nsenter", *self.namespaces, "--", *environment, *chroot]

    def start(self) -> LineProcess:
        process = LineProcess(self.command([*self.image.entry_point, *self.image.command]))
        process.wait_line(lambda line: " running on " in line, "the container's broker runs")
        return process

    def run(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(self.command(list(arguments)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30)
        assert done.returncode == code, f"{arguments} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def outside(self, arguments: list[str]) -> str:
        """A program of this machine's, on the container's network."""
        return subprocess.run(["nsenter", self.namespaces[1], "--", *arguments], check=True, stdout=subprocess.PIPE, text=True, timeout=30).stdout

    @property
    def root(self) -> Path:
        return Path(f"/proc/{self.holder.pid}/root{self.place}/tree")

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(timeout=10)


#: chroot, the working directory, the user and no way to more rights, then the program: the image has nothing that could do it.
CHROOT = """
import ctypes, os, sys
root, directory, user, group, *command = sys.argv[1:]
os.chroot(root)
os.chdir(directory)
os.setgroups([])
os.setgid(int(group))
os.setuid(int(user))
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
os.execv(command[0], command)
"""

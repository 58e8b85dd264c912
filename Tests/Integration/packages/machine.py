"""A clean Debian to install things in: a chroot over a file system that forgets, with a network of its own."""

import subprocess
import sys
from pathlib import Path

from harness.waiting import PATIENCE

#: Switches the loopback interface on, in the network of the process.
LOOPBACK_UP = """
import fcntl, socket, struct
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))
"""


class Machine:
    """Ends, with all that was changed in it, when its holder ends; what was started in it is ended by whoever started it."""

    def __init__(self, base: Path, directory: Path):
        #: The changes go to memory: a container's own file system may not be what an overlay can write to.
        self.place = directory / "machine"
        self.place.mkdir()
        script = f"""
            set -e
            mount -t tmpfs -o size=1g none '{self.place}'
            cd '{self.place}' && mkdir changes work root
            mount -t overlay -o lowerdir='{base}',upperdir=changes,workdir=work none root
            mount -t proc none root/proc
            mount -t tmpfs none root/run
            mount --rbind /dev root/dev
            echo made && exec cat
        """
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "sh", "-c", script],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.is_made = self.holder.stdout.readline() == "made\n"
        if self.is_made:
            subprocess.run([*self._inside(), sys.executable, "-c", LOOPBACK_UP], check=True)

    def refusal(self) -> str:
        return self.holder.stderr.read().strip()

    @property
    def root(self) -> Path:
        """Its root directory as it looks from outside."""
        return Path(f"/proc/{self.holder.pid}/root{self.place}/root")

    def _inside(self) -> list[str]:
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", f"--net=/proc/{self.holder.pid}/ns/net", "--"]

    def command(self, *arguments: str, user: str | None = None) -> list[str]:
        """What runs a command in it, with the environment of a root that has just logged in."""
        switch = ["--userspec", f"{user}:{user}"] if user else []
        environment = ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"]
        return [*self._inside(), "chroot", *switch, f"{self.place}/root", *environment, *arguments]

    def run(self, *arguments: str, code: int | None = 0, seconds: float = 120, user: str | None = None, text: str | None = None) -> str:
        """Runs a command to its end and returns what it said; it has to end with `code`, any if that is None."""
        done = subprocess.run(
            self.command(*arguments, user=user), input=text, stdin=None if text is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds,
        )  # fmt: skip
        assert code is None or done.returncode == code, f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def copy(self, path: Path, target: str) -> str:
        """Brings a file from outside; returns its path in there."""
        (self.root / target.lstrip("/")).write_bytes(path.read_bytes())
        return target

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(timeout=PATIENCE)

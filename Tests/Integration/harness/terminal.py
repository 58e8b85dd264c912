"""A terminal of the test's own, and a program on it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

from harness.commands import NOBODY
from harness.waiting import wait_until

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """A program on a terminal, and what it has drawn."""

    def __init__(self, *command, columns: int = 80, rows: int = 20):
        self.master, slave = pty.openpty()
        self.slave = slave
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.output = b""
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), env={**NOBODY, "TERM": "xterm", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip

    def resize(self, columns: int, rows: int):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds: float = 0.05):
        while select.select([self.master], [], [], seconds)[0]:
            try:
                self.output += os.read(self.master, 65536)
            except OSError:
                return

    def press(self, keys: bytes):
        os.write(self.master, keys)

    def screen(self) -> list[str]:
        """The latest picture that is whole, without colours."""
        self.read()
        pictures = self.output.split(b"\x1b[H")
        if len(pictures) < 4:
            return []
        # The last one may still be on its way.
        text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", pictures[-2])
        return [line.rstrip() for line in text.decode(errors="replace").split("\r\n")]

    def wait_screen(self, matches, what: str) -> list[str]:
        return wait_until(lambda: (lines := self.screen()) and matches("\n".join(lines)) and lines, what)

    def wait(self) -> int:
        def is_over():
            self.read()
            return self.process.poll() is not None

        wait_until(is_over, "it ends")
        self.read()
        return self.process.returncode

    def is_clean(self) -> bool:
        return self.output.count(ENTER) == self.output.count(LEAVE) and termios.tcgetattr(self.slave) == self.before

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

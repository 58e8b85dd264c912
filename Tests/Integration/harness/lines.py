"""A client program whose output is read line by line as it comes."""

import os
import subprocess
import threading
import time
from collections.abc import Callable

from harness.waiting import PATIENCE


class LineProcess:
    """A running program; its standard output and error, merged, are waited on, never polled."""

    def __init__(self, command: list[str], *, standard_input: bytes | None = None, keeps_input=False, pass_fds=()):
        """With `keeps_input` the program's input stays open: `tell` writes to it, `end_input` ends it."""
        self.command = command
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self.process = subprocess.Popen(
            ["stdbuf", "-oL", *command],
            pass_fds=pass_fds,
            stdin=subprocess.PIPE if standard_input is not None or keeps_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent"},
        )
        if standard_input is not None:
            self.process.stdin.write(standard_input)
        if standard_input is not None and not keeps_input:
            self.process.stdin.close()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_line(self, matches: Callable[[str], bool], what: str, *, after: int = 0, seconds: float = PATIENCE) -> int:
        """The index of the first line from `after` on that matches."""
        deadline = time.monotonic() + seconds
        index = after
        with self._changed:
            while True:
                while index < len(self.lines):
                    if matches(self.lines[index]):
                        return index
                    index += 1
                if self._ended or not self._changed.wait(deadline - time.monotonic()):
                    raise AssertionError(f"{what}: not said by {' '.join(self.command)}\n" + "\n".join(self.lines[-50:]))

    def tell(self, line: str):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def end_input(self):
        self.process.stdin.close()

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit code, when the program has ended by itself and all its output is read."""
        code = self.process.wait(timeout=seconds)
        self._reader.join(seconds)
        return code

    def terminate(self) -> int:
        """Ends the program the polite way: an MQTT client of mosquitto's sends DISCONNECT."""
        self.process.terminate()
        return self.wait()

    def kill(self):
        """Ends the program as a crash does: the connection is gone without a DISCONNECT."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE)

"""Attackers at work, and the priorities that keep them from being measured in place of the broker."""

import os
import re
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]
#: Seconds after which attackers end by themselves.
LIFETIME = 600


@dataclass(frozen=True)
class Attack:
    """What one of attackers.py does, how often in a second, and how often at least while it is measured."""

    name: str
    arguments: tuple = ()
    rate: float = 500
    least: int = 100

    def __str__(self) -> str:
        return " ".join([self.name, *map(str, self.arguments)])


class Crew:
    """One process of attackers."""

    def __init__(self, attack: Attack, directory: Path, niceness: int = 0):
        self._progress = directory / f"progress of {attack.name}"
        self._progress.write_bytes(bytes(8))
        command = [attack.name, self._progress, attack.rate, LIFETIME, *attack.arguments]
        self._errors = directory / f"errors of {attack.name}"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                ["nice", "-n", str(niceness), sys.executable, "-m", "abuse.strike", *map(str, command)],
                cwd=FOLDER, stdin=subprocess.DEVNULL, stderr=errors,
            )  # fmt: skip

    @property
    def strikes(self) -> int:
        """How often they have struck so far."""
        assert self._process.poll() is None, f"the attackers gave up: {self._errors.read_text()}"
        return struct.unpack("=Q", self._progress.read_bytes())[0]

    def close(self):
        self._process.terminate()
        self._process.wait()


def let_go_first(threads: list[int]) -> bool:
    """Lets threads run whenever they can, before all of ordinary priority; whether this user may do that."""
    try:
        for thread in threads:
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
        return True
    except PermissionError:
        return False


def loop_threads(process: int) -> list[int]:
    """The threads of a broker that serve clients: the event loops. Others, such as those that check passwords, wait for them."""
    folder = Path(f"/proc/{process}/task")
    return [int(task.name) for task in folder.iterdir() if re.fullmatch(r"martlet-\d+b?\n", (task / "comm").read_text())]


def resident_bytes(process: int) -> int:
    """The memory of its own: pages of the program's file come when they are used for the first time, whoever asks."""
    _, resident, shared, *_ = Path(f"/proc/{process}/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")

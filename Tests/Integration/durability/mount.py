"""A broker that sees a file system which nobody else sees: it is mounted in a namespace that a process holds."""

import subprocess
from typing import Protocol

from harness.broker import Broker


class Mount(Protocol):
    #: Lives in the namespace.
    holder: subprocess.Popen


def inside(process: subprocess.Popen, command: list[str]) -> list[str]:
    """The command, run in the mount namespace of a process; it begins in the root directory.

    It ends with the test's process, however this one ends: what it holds open would stay mounted.
    """
    return ["nsenter", f"--mount=/proc/{process.pid}/ns/mnt", "--", "setpriv", "--pdeathsig", "KILL", *command]


class BrokerOnMount(Broker):
    disk: Mount

    def command(self) -> list[str]:
        return inside(self.disk.holder, super().command())

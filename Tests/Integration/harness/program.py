"""A command that is run to its end."""

import subprocess

from harness.waiting import PATIENCE


def run(program, *arguments, environment=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [program.path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=PATIENCE, env=environment,
    )  # fmt: skip

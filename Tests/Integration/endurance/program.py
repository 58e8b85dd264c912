"""The program `endurance`: clients of the library that live long, have much or are many."""

import os
import subprocess

import pytest
from harness.broker import REPOSITORY

PROGRAM = os.environ.get("ENDURANCE", str(REPOSITORY / ".build/release/endurance"))

is_built = pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason="endurance is not built; `make integration` builds it")


def run(*arguments, seconds: float) -> dict[str, list[list[str]]]:
    """What it prints, by the first word of its lines; it has to end well."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=seconds)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    words: dict[str, list[list[str]]] = {}
    for line in done.stdout.splitlines():
        first, *rest = line.split()
        words.setdefault(first, []).append(rest)
    return words

"""Fixtures of this folder: a broker with a well-behaved pair beside its attackers."""

import fcntl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from abuse.siege import LISTENER, Siege


@pytest.fixture
def turn() -> Iterator[None]:
    """One test of this folder at a time, whichever process runs it: two sieges would measure each other."""
    with (Path(tempfile.gettempdir()) / "martlet-siege.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def besiege(turn, start_broker, tmp_path) -> Iterator[Callable[..., Siege]]:
    """Starts a broker, or takes one, and the pair beside it."""
    sieges: list[Siege] = []

    def begin(configuration: str = "", *, broker=None, login=None, **options) -> Siege:
        broker = broker or start_broker(configuration=f"{configuration}\n{LISTENER}", verbose=False, **options)
        sieges.append(Siege(broker, tmp_path, login))
        return sieges[-1]

    yield begin
    for siege in sieges:
        siege.close()

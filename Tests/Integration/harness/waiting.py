"""How long a test waits before it calls something missing. No test sleeps for something that it could wait for."""

import time
from collections.abc import Callable

#: Seconds that anything that must happen may take; generous, since it is spent only when a test fails.
PATIENCE = 10.0


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE):
    """Returns the condition's first true value; polls only where nothing can be waited on."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(0.01)

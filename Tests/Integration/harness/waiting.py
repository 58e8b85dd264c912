"""How long a test waits before it calls something missing. No test sleeps for something that it could wait for."""

import time
from collections.abc import Callable

#: Seconds that anything that must happen may take; generous, since it is spent only when a test fails.
PATIENCE = 10.0


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE):
    """Returns the condition's first true value; polls only where nothing can be waited on.

    It asks the less often the longer it takes, a tenth of the time at most too late: a question may be a request that a broker answers.
    """
    begun = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - begun
        if waited > seconds:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(min(0.1, max(0.01, waited / 10)))

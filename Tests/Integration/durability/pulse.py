"""How the tests of this folder wait: for a condition, looked at again whenever one of the peers has heard something."""

import asyncio
from collections.abc import Callable

#: Seconds that anything that must happen may take, on a machine that does much else; spent only when a test fails.
PATIENCE = 30.0


class Pulse:
    def __init__(self, *, store_may_fail: bool = False):
        self._waiting: list[tuple[Callable[[], object], asyncio.Future]] = []
        self._failure: BaseException | None = None
        #: Whether the broker's store may be full, or its disk gone, so that it refuses what it cannot keep.
        self.store_may_fail = store_may_fail

    def beat(self):
        """Something has changed."""
        for condition, future in self._waiting:
            if not future.done() and condition():
                future.set_result(None)

    def fail(self, failure: BaseException):
        """A peer has seen what must not be: whoever waits hears of it, and whoever will."""
        self._failure = self._failure or failure
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(self._failure)

    async def until(self, condition: Callable[[], object], what: str, seconds: float = PATIENCE):
        if self._failure:
            raise self._failure
        if condition():
            return
        entry = (condition, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        try:
            await asyncio.wait_for(entry[1], seconds)
        except TimeoutError:
            raise AssertionError(f"{what}: not within {seconds:g} s") from None
        finally:
            self._waiting.remove(entry)

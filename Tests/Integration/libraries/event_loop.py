"""An asyncio event loop in a thread of its own, for the libraries that want one while the scenarios block."""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine

from harness.waiting import PATIENCE


@functools.cache
def event_loop() -> asyncio.AbstractEventLoop:
    """One for all clients of this process; it ends with it."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def wait_for(coroutine: Coroutine, seconds: float = PATIENCE):
    """What the coroutine returns, when the loop has run it to its end."""
    return asyncio.run_coroutine_threadsafe(coroutine, event_loop()).result(seconds)


def call(function: Callable, *arguments, **named):
    """What the function returns, called in the loop."""

    async def called():
        return function(*arguments, **named)

    return wait_for(called())

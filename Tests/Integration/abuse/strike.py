"""Attackers as programs of their own: bounded in rate and in time.

    python -m abuse.strike NAME PROGRESS RATE SECONDS [ARGUMENT ...]

What NAME does is done RATE times a second, for at most SECONDS or until SIGTERM; the count so far is in the file PROGRESS, as eight bytes.
"""

import os
import signal
import struct
import sys
import time
from pathlib import Path

from abuse import attackers, life


def main(name: str, progress: str, rate: str, seconds: str, *arguments: str):
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    act = getattr(attackers, name, None) or getattr(life, name)
    end = time.monotonic() + float(seconds)
    period = 1 / float(rate)
    count, due = 0, time.monotonic()
    with Path(progress).open("r+b", buffering=0) as file:
        for _ in act(*arguments):
            count += 1
            os.pwrite(file.fileno(), struct.pack("=Q", count), 0)
            now = time.monotonic()
            if now > end:
                return
            # Who was kept waiting makes up for a little of it.
            due = max(due + period, now - 10 * period)
            if due > now:
                time.sleep(due - now)


if __name__ == "__main__":
    main(*sys.argv[1:])

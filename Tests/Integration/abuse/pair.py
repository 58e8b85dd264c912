"""The well-behaved pair, a program of its own: one client publishes at a steady rate, the other one receives, and each message is timed.

    python -m abuse.pair SOCKET RATE [USER PASSWORD]

For each line on standard input it prints what it measured since the one before, as JSON: count, and p50, p99 and the longest in ms.
A message's time begins when it was due, not when it left: while the broker stands still, all that should have been sent counts as late.
It comes over a Unix socket: the kernel hands TCP, also to this machine, to a thread of its own when there is much of it, and that one waits
in line with all other processes.

Ends with standard input. Fails as soon as a message does not arrive, or a connection ends.
"""

import gc
import json
import math
import select
import socket
import struct
import sys
import time

from harness.wire import PUBACK, PUBLISH, Wire, frame, text

TOPIC = text("well/behaved")


class LocalWire(Wire):
    """A connection to a Unix socket."""

    def __init__(self, path: str):
        self.level = 5
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self._received = b""


class Pair:
    def __init__(self, path: str, user: str | None, password: str | None):
        self.publisher, self.subscriber = LocalWire(path), LocalWire(path)
        for wire, name in ((self.publisher, "well-publisher"), (self.subscriber, "well-subscriber")):
            _, reason = wire.connect(name, user=user, password=password, keep_alive=600)
            assert reason == 0, f"{name} is refused with {reason:#x}"
        self.subscriber.subscribe("well/+", qos=0)
        self.number = 0

    def exchange(self):
        """One QoS 1 message, there and acknowledged."""
        self.number += 1
        payload = str(self.number).encode()
        self.publisher.send(frame(PUBLISH, 2, TOPIC + struct.pack(">H", self.number % 65535 + 1) + b"\0" + payload))
        packet = self.subscriber.receive(PUBLISH, 30)
        assert packet.body.endswith(b"\0" + payload), f"{payload} was sent, {packet} came"
        self.publisher.receive(PUBACK, 30)


def summary(latencies: list[int]) -> str:
    latencies.sort()
    count = len(latencies)

    def milliseconds(fraction: float) -> float:
        return latencies[max(0, math.ceil(fraction * count) - 1)] / 1e6 if count else 0.0

    return json.dumps({"count": count, "p50": milliseconds(0.5), "p99": milliseconds(0.99), "longest": milliseconds(1)})


def main(path: str, rate: str, user: str | None = None, password: str | None = None):
    pair = Pair(path, user, password)
    period = 1_000_000_000 // int(rate)
    latencies: list[int] = []
    gc.disable()
    due = time.monotonic_ns()
    while True:
        due += period
        early = due - time.monotonic_ns()
        if select.select([sys.stdin], [], [], max(0, early / 1e9))[0]:
            if not sys.stdin.readline():
                return
            print(summary(latencies), flush=True)
            latencies.clear()
        early = due - time.monotonic_ns()
        if early > 0:
            time.sleep(early / 1e9)
        pair.exchange()
        latencies.append(time.monotonic_ns() - due)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (AssertionError, OSError) as error:
        sys.exit(f"pair: {error!r}")

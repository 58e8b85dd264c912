"""A broker that is ended without warning, again and again, while peers are at work with it."""

import asyncio
import os
import random
from collections.abc import Callable, Iterable
from typing import Protocol

from durability.peer import Peer
from durability.pulse import Pulse

#: How often the broker is ended in each test; `make nightly` takes more.
ROUNDS = int(os.environ.get("MARTLET_CRASH_ROUNDS", "6"))
#: Chooses when; a failure prints it.
SEED = int(os.environ.get("MARTLET_CRASH_SEED", "1"))


class Machine(Protocol):
    """What the broker runs on."""

    port: int

    def start(self):
        """Returns when the broker accepts connections."""

    def crash(self):
        """Ends the broker without warning, and leaves what the disk would hold."""


class Storm:
    def __init__(self, machine: Machine, loops: int):
        self.machine = machine
        self.loops = loops
        self.rounds = ROUNDS
        self.pulse = Pulse()
        self.random = random.Random(SEED)
        print(f"MARTLET_CRASH_SEED={SEED}")

    def peer(self, name: str, version: str = "mqttv311", window: int = 50) -> Peer:
        return Peer(name, self.pulse, version, window)

    async def connect(self, peers: Iterable[Peer]):
        for peer in peers:
            await peer.connect(self.machine.port)

    async def rage(self, peers: list[Peer], progress: Callable[[], int], *, most: int, half_way: Callable[[], None] = lambda: None):
        """Lets the peers work until so much more is acknowledged as chance says, `most` at most, and ends the broker a little later.

        One time in four it does not wait: then the broker ends while the peers come back to their sessions.
        """
        enough = progress() + (self.random.randint(2, most) if self.random.random() < 0.75 else 0)
        half = (progress() + enough) // 2
        for peer in self.random.sample(peers, len(peers)):
            await (peer.connect if enough > half else peer.try_connect)(self.machine.port)
        await self.pulse.until(lambda: progress() >= half, "half of the round's acknowledgements")
        half_way()
        await self.pulse.until(lambda: progress() >= enough, "the round's acknowledgements")
        await asyncio.sleep(self.random.random() * 0.02)
        await self.crash(peers)

    async def crash(self, peers: list[Peer]):
        """The peers are at work until their connections end."""
        self.pulse.store_may_fail = getattr(self.machine, "loses_its_disk_first", False)
        await asyncio.to_thread(self.machine.crash)
        await self.pulse.until(lambda: not any(peer.is_connected for peer in peers), "the connections end")
        self.pulse.store_may_fail = False

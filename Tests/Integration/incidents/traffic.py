"""Clients that go on through an incident: they publish and receive numbers, come again when they are cut off, and count what they see."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.clients import LASTS, text_of
from harness.waiting import wait_until
from harness.wire import DISCONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet, Wire

#: Opens a connection to one node.
Door = Callable[[], Wire]

#: Seconds that a client waits for CONNACK: longer than a lease lasts.
CONNACK_SECONDS = 30
#: And for an acknowledgement: longer than nodes try to write what they have taken.
ANSWER_SECONDS = 75
#: Between two attempts to connect, as a rule.
PAUSE = 0.1


def doors_of(nodes) -> list[Door]:
    return [lambda node=node: Wire(node.port, "mqttv5") for node in nodes]


class CutOff(Exception):
    """The connection has ended."""


class Client:
    """One client with a session that lasts, on a thread of its own. It keeps to its node and goes to the next one while that does not let it in."""

    def __init__(self, name: str, doors: list[Door], first: int = 0):
        self.name = name
        #: Connections until CONNACK: how long the longest took, from the first attempt on.
        self.longest_connect = 0.0
        #: Reasons of CONNACK and DISCONNECT that it was told.
        self.reasons: Counter[int] = Counter()
        #: How often it was told that its session is not there.
        self.lost_sessions = 0
        self.troubles: list[str] = []
        self.wire: Wire | None = None
        #: Seconds until it comes again.
        self.pause = PAUSE
        self._doors, self._door = doors, first
        self._is_known = False
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()
        return self

    def end(self, seconds: float = 60):
        self._ends.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.troubles.append(f"{self.name} is not done {seconds:g} s after the incident")

    def connect(self):
        """Comes in, on whatever node lets it."""
        began = time.monotonic()
        while True:
            try:
                self.wire = self._doors[self._door]()
                packet = self._connack(self.wire)
                if packet[1] == 0:
                    break
                self.reasons[packet[1]] += 1
                self.wire.close()
            except (AssertionError, OSError):
                pass
            if self.is_late(began):
                raise CutOff
            self._door = (self._door + 1) % len(self._doors)
            time.sleep(self.pause)
        self.longest_connect = max(self.longest_connect, time.monotonic() - began)
        if self._is_known and not packet[0]:
            self.lost_sessions += 1
            self.forgets()
        self._is_known = True

    def is_late(self, began: float) -> bool:
        """Whether an attempt that began then is given up, because the test is over."""
        return self._ends.is_set() and time.monotonic() - began > CONNACK_SECONDS

    def _connack(self, wire: Wire) -> tuple[bool, int]:
        # `Wire.connect` waits for less.
        wire.receive = lambda kind=None, seconds=CONNACK_SECONDS: Wire.receive(wire, kind, seconds)
        try:
            return wire.connect(self.name, clean=False, properties=LASTS)
        finally:
            del wire.receive

    def packet(self, seconds: float) -> Packet | None:
        """The next packet; None if none has come in time."""
        try:
            packet = self.wire.receive(seconds=seconds)
        except TimeoutError:
            return None
        except OSError:
            raise CutOff from None
        if packet is None:
            raise CutOff
        if packet.kind == DISCONNECT:
            self.reasons[packet.reason] += 1
            raise CutOff
        return packet

    def forgets(self):
        """Its session is gone, and what it knows of it with that."""

    def _run(self):
        while not self._ends.is_set() or self.is_busy():
            try:
                self.connect()
                self.work()
            except (CutOff, OSError):
                with contextlib.suppress(OSError):
                    self.wire.close()
                if self._ends.is_set() and not self.is_busy():
                    return
                time.sleep(self.pause)
        with contextlib.suppress(OSError):
            self.wire.disconnect()

    def is_busy(self) -> bool:
        return False

    def work(self):
        raise NotImplementedError


class Publisher(Client):
    """Publishes its numbers, each when the one before was acknowledged or refused."""

    def __init__(self, name: str, doors: list[Door], topic: str, qos: int, *, first: int = 0, pace: float = 0.03, size: int = 0):
        super().__init__(name, doors, first)
        self.topic, self.qos = topic, qos
        self.acknowledged: set[int] = set()
        self.refused: set[int] = set()
        self.longest_answer = 0.0
        self.number = 0
        self._pace, self._size = pace, size
        #: When the number that is under way was sent first, and whether PUBREC has come.
        self._sent_at: float | None = None
        self._is_received = False

    def is_busy(self) -> bool:
        return self._sent_at is not None

    def forgets(self):
        self._is_received = False

    def work(self):
        if self._sent_at is not None:
            self._send(duplicate=True)
            self._wait()
        while not self._ends.is_set():
            self._sent_at = time.monotonic()
            self._send()
            self._wait()
            time.sleep(self._pace)

    @property
    def _identifier(self) -> int:
        return self.number % 60_000 + 1

    def _send(self, duplicate: bool = False):
        if self._is_received:
            self.wire.acknowledge(PUBREL, self._identifier)
        else:
            text = f"{self.number} ".ljust(self._size, ".")
            self.wire.publish(self.topic, text, qos=self.qos, identifier=self._identifier, duplicate=duplicate)

    def _wait(self):
        """For the answer to what is under way."""
        while self._sent_at is not None:
            packet = self.packet(ANSWER_SECONDS)
            if packet is None:
                self.troubles.append(f"{self.name}: {self.number} has no answer, and its connection stays")
                raise CutOff
            if packet.kind not in (PUBACK, PUBREC, PUBCOMP) or packet.identifier != self._identifier:
                continue
            reason = packet.body[2] if len(packet.body) > 2 else 0
            # Who sends PUBREL again may be told that the identifier is released already, which is no error.
            if reason >= 0x80 and packet.kind != PUBCOMP:
                self.reasons[reason] += 1
                self.refused.add(self.number)
            elif packet.kind == PUBREC:
                self._is_received = True
                self.wire.acknowledge(PUBREL, self._identifier)
                continue
            else:
                self.acknowledged.add(self.number)
            self.longest_answer = max(self.longest_answer, time.monotonic() - self._sent_at)
            self._sent_at, self._is_received = None, False
            self.number += 1


class Subscriber(Client):
    """Takes what comes, and acknowledges all of it."""

    def __init__(self, name: str, doors: list[Door], filter: str, *, first: int = 0, qos: int = 2):
        super().__init__(name, doors, first)
        self.came: dict[str, list[int]] = {}
        self.live = threading.Event()
        self._filter, self._qos = filter, qos
        #: Of QoS 2, by packet identifier, what has not been released.
        self._held: dict[int, int] = {}

    def forgets(self):
        self._held.clear()
        self.live.clear()

    def work(self):
        if not self.live.is_set():
            self.wire.send_subscribe(self._filter, self._qos)
        while not self._ends.is_set():
            if packet := self.packet(0.5):
                self._take(packet)

    def _take(self, packet: Packet):
        if packet.kind == PUBREL:
            self._held.pop(packet.identifier, None)
            self.wire.acknowledge(PUBCOMP, packet.identifier)
        elif packet.kind == PUBLISH:
            number = int(text_of(packet).split()[0])
            if packet.qos != 2 or self._held.get(packet.identifier) != number:
                self.came.setdefault(packet.topic, []).append(number)
            if packet.qos == 2:
                self._held[packet.identifier] = number
            if packet.qos:
                self.wire.acknowledge(PUBREC if packet.qos == 2 else PUBACK, packet.identifier)
        else:
            self.live.set()


@dataclass
class Seen:
    """What clients have seen of an incident."""

    acknowledged: int = 0
    refused: int = 0
    missing: int = 0
    #: Of QoS 1, which may, and of QoS 2, which may not.
    twice: int = 0
    twice_exactly_once: int = 0
    out_of_order: int = 0
    lost_sessions: int = 0
    longest_answer: float = 0
    longest_connect: float = 0
    reasons: Counter[int] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)

    def __str__(self):
        words = [f"missing {self.missing} of {self.acknowledged}", f"twice {self.twice} of QoS 1, {self.twice_exactly_once} of QoS 2"]
        words += [f"{count} {name}" for count, name in ((self.out_of_order, "out of order"), (self.refused, "refused"), (self.lost_sessions, "sessions lost")) if count]
        words += [f"longest wait {self.longest_answer:.1f} s for an answer, {self.longest_connect:.1f} s to come in"]
        words += [f"told {', '.join(f'{reason:#x} {count} times' for reason, count in sorted(self.reasons.items()))}"] if self.reasons else []
        return "; ".join(words)


class Traffic:
    """A receiver on one node, and publishers of QoS 1 and 2 on another; it flows when it is made."""

    def __init__(self, name: str, doors: list[Door], *, receives: int = 2, publishes: int = 0, **options):
        self.subscriber = Subscriber(f"{name}-receiver", doors, f"{name}/#", first=receives).start()
        wait_until(self.subscriber.live.is_set, "the receiver has subscribed", 3 * CONNACK_SECONDS)
        self.publishers = [Publisher(f"{name}-{qos}", doors, f"{name}/{qos}", qos, first=publishes, **options).start() for qos in (1, 2)]
        self.goes_on()

    @property
    def clients(self) -> list[Client]:
        return [self.subscriber, *self.publishers]

    def goes_on(self, more: int = 5, seconds: float = 60):
        """Waits until so many more of each kind have been acknowledged."""
        for publisher in self.publishers:
            wanted = len(publisher.acknowledged) + more
            wait_until(lambda publisher=publisher, wanted=wanted: len(publisher.acknowledged) >= wanted, f"{publisher.name} goes on", seconds)

    def end(self, seconds: float = 60) -> Seen:
        """Ends the publishers, gives what was acknowledged so long to arrive, and says what the clients saw."""
        for publisher in self.publishers:
            publisher.end(seconds)

        def missing() -> int:
            return sum(len(publisher.acknowledged - set(self.subscriber.came.get(publisher.topic, []))) for publisher in self.publishers)

        deadline = time.monotonic() + seconds
        while missing() and time.monotonic() < deadline:
            time.sleep(0.05)
        # What comes twice comes with what it came with.
        time.sleep(0.5)
        self.subscriber.end()
        seen = Seen(missing=missing())
        for publisher in self.publishers:
            came = self.subscriber.came.get(publisher.topic, [])
            seen.acknowledged += len(publisher.acknowledged)
            seen.refused += len(publisher.refused)
            first = list(dict.fromkeys(came))
            again = len(came) - len(first)
            if publisher.qos == 1:
                seen.twice += again
            else:
                seen.twice_exactly_once += again
            seen.out_of_order += sum(later < earlier for earlier, later in zip(first, first[1:]))
            seen.longest_answer = max(seen.longest_answer, publisher.longest_answer)
        for client in self.clients:
            seen.longest_connect = max(seen.longest_connect, client.longest_connect)
            seen.lost_sessions += client.lost_sessions
            seen.reasons += client.reasons
            seen.troubles += client.troubles
        return seen

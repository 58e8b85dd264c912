"""Clients of a cluster's nodes: how they come in, what they publish, and what they take.

MARTLET_CLUSTER_SEED says what chance decides.
"""

import collections
import contextlib
import itertools
import os
import random
import threading
import time

from harness.wire import DISCONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Wire, frame

SEED = int(os.environ.get("MARTLET_CLUSTER_SEED", "1"))
#: Session Expiry Interval of an hour.
LASTS = b"\x11\x00\x00\x0e\x10"
TAKEN_OVER = 0x8E
SHUTTING_DOWN = 0x8B
UNAVAILABLE = 0x88


class PatientWire(Wire):
    """Waits as long as a lease may take to end."""

    def receive(self, kind=None, seconds: float = 30):
        return super().receive(kind, seconds)

    def disconnect(self, reason: int = 0):
        """Returns when the broker has heard of it, unless it hangs: what comes behind that is for a client that is away. What of QoS 2 came
        before is its session's alone."""
        self.send(frame(DISCONNECT, 0, bytes([reason]) if reason else b""))
        with contextlib.suppress(TimeoutError):
            self.receive_end()
        self.close()


def connect(node, name: str = "", *, clean: bool = False, properties: bytes = LASTS, seconds: float = 60, **options) -> tuple[PatientWire, bool]:
    """A client of 5.0 that is let in, and whether its session was there: while servers elect, and the lease of a lost node lasts, it comes again."""
    deadline = time.monotonic() + seconds
    while True:
        wire = PatientWire(node.port, "mqttv5")
        try:
            present, reason = wire.connect(name, clean=clean, properties=properties, keep_alive=0, **options)
        except (AssertionError, OSError):
            reason = UNAVAILABLE
        if reason == 0:
            return wire, present
        wire.close()
        assert reason == UNAVAILABLE, f"{name} is refused with {reason:#x}"
        assert time.monotonic() < deadline, f"{name} is not let in"
        time.sleep(0.2)


def publish(wire: Wire, topic: str, text: str, qos: int = 1, identifier: int = 1, **options):
    """Publishes, with all handshakes, and is not refused."""
    wire.publish(topic, text, qos=qos, identifier=identifier, **options)
    if qos:
        answer = wire.receive(PUBACK if qos == 1 else PUBREC)
        assert len(answer.body) < 3 or answer.body[2] < 0x80, f"refused with {answer.body[2]:#x}"
    if qos == 2:
        wire.acknowledge(PUBREL, identifier)
        wire.receive(PUBCOMP)


def send(wire: Wire, topic: str, texts: list[str], qos: int = 1):
    for text in texts:
        publish(wire, topic, text, qos)


def numbers(first: int, count: int) -> list[str]:
    return [str(number) for number in range(first, first + count)]


def text_of(packet, level: int = 5) -> str:
    """The payload of a PUBLISH without properties that are longer than 127 bytes."""
    position = 2 + int.from_bytes(packet.body[:2], "big") + (2 if packet.qos else 0)
    if level == 5:
        position += 1 + packet.body[position]
    return packet.body[position:].decode()


def take(wire: Wire, count: int, seconds: float = 20) -> list[str]:
    """So many messages, acknowledged to the end."""
    texts: list[str] = []
    unreleased = 0
    while len(texts) < count or unreleased:
        packet = wire.receive(seconds=seconds)
        assert packet is not None, f"only {texts}"
        if packet.kind == PUBLISH:
            texts.append(text_of(packet, wire.level))
            if packet.qos == 1:
                wire.acknowledge(PUBACK, packet.identifier)
            elif packet.qos == 2:
                wire.acknowledge(PUBREC, packet.identifier)
                unreleased += 1
        elif packet.kind == PUBREL:
            wire.acknowledge(PUBCOMP, packet.identifier)
            unreleased -= 1
    return texts


class Publisher:
    """Publishes numbers on a thread of its own, and knows which ones were acknowledged: of QoS 2 the odd ones, or all of QoS 1."""

    def __init__(self, node, topic: str, *, prefix: str = "", qos: int = 2, pace: float):
        """pace: seconds between two; what waits has to fit into the queue of who is away."""
        self.wire, _ = connect(node, clean=True, properties=b"")
        self.acknowledged: list[str] = []
        self.trouble: Exception | None = None
        self._topic, self._prefix, self._qos, self._pace = topic, prefix, qos, pace
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        for number in itertools.count(1):
            if self._is_ending:
                return
            text = f"{self._prefix}{number}"
            try:
                publish(self.wire, self._topic, text, min(self._qos, 1 + number % 2), number % 60_000 + 1)
            except (AssertionError, OSError) as trouble:
                self.trouble = trouble
                return
            self.acknowledged.append(text)
            time.sleep(self._pace)

    def end(self):
        self._is_ending = True
        self._thread.join(70)


class Receiver:
    """What a client has got, and the packet identifiers of QoS 2 that it has not been made to release."""

    def __init__(self, name: str):
        self.name = name
        self.seen: list[str] = []
        self.held: dict[int, str] = {}
        self.wire: PatientWire | None = None

    def drain(self, wanted: set):
        """Takes and answers until nothing is missing."""
        while not wanted <= set(self.seen):
            try:
                packet = self.wire.receive(seconds=20)
            except TimeoutError:
                packet = None
            assert packet is not None, f"{self.name} lacks {sorted(wanted - set(self.seen), key=int)}"
            self.take(packet)

    def sip(self, chance: random.Random):
        """Takes what comes for a moment, and leaves some of it unanswered."""
        until = time.monotonic() + 0.3
        try:
            while time.monotonic() < until:
                self.take(self.wire.receive(seconds=0.3), chance.random() < 0.3)
        except TimeoutError:
            return

    def hold(self):
        """Takes until it has a message of QoS 2 that it has not released."""
        while not self.held:
            self.take(self.wire.receive(seconds=20), leaves=True)

    def take(self, packet, leaves: bool = False):
        if packet.kind == PUBLISH and packet.qos == 1:
            self.seen.append(text_of(packet))
            if not leaves:
                self.wire.acknowledge(PUBACK, packet.identifier)
        elif packet.kind == PUBLISH:
            text = text_of(packet)
            if packet.identifier in self.held:
                assert packet.is_duplicate and self.held[packet.identifier] == text, f"{text} came for {self.held[packet.identifier]}"
            else:
                assert text not in self.seen, f"{self.name}: {text} came twice"
                self.seen.append(text)
                self.held[packet.identifier] = text
            if not leaves:
                self.wire.acknowledge(PUBREC, packet.identifier)
        elif packet.kind == PUBREL and not leaves:
            self.held.pop(packet.identifier, None)
            self.wire.acknowledge(PUBCOMP, packet.identifier)


def hop(site, name: str, qos: int, count: int, chance: random.Random, is_killed: bool = False):
    """Takes so many messages with its subscription, going from node to node: all come, in order, and those of QoS 2 once."""
    got: list[str] = []
    released: list[str] = []
    pending: dict[int, str] = {}
    events = collections.deque(maxlen=100_000)
    deadline = time.monotonic() + 150 + count / 20
    while len(set(released)) < count:
        if time.monotonic() > deadline:
            missing = sorted(set(numbers(0, count)) - set(released), key=int)
            begun = {identifier: text for identifier, text in pending.items() if text in missing}
            told = [event for event in events if event[2] in begun or event[3] in missing]
            raise AssertionError(f"{missing} are missing, of which {begun} have begun: {told[-200:]}")
        try:
            index = chance.randrange(3)
            wire = PatientWire(site.nodes[index].port, "mqttv5")
        except ConnectionRefusedError:
            assert is_killed, "a node has gone"
            continue
        try:
            try:
                present, reason = wire.connect(name, clean=False, properties=LASTS)
            except (AssertionError, OSError):
                if not is_killed:
                    raise
                continue
            if is_killed and reason == UNAVAILABLE:
                continue
            assert reason == 0 and present, f"{reason:#x}, session present {present}"
            until = time.monotonic() + chance.uniform(0.05, 0.8)
            left = chance.randrange(1, 200)
            while time.monotonic() < until and left and len(set(released)) < count:
                try:
                    packet = wire.receive(seconds=max(0.01, until - time.monotonic()))
                except TimeoutError:
                    break
                if packet is None and is_killed:
                    break
                assert packet is not None, "the node has closed the connection"
                left -= 1
                text = text_of(packet) if packet.kind == PUBLISH else pending.get(packet.identifier)
                events.append((time.time(), index, packet.identifier, text, packet.kind, packet.is_duplicate))
                if packet.kind == PUBLISH and packet.qos == 1:
                    got.append(text_of(packet))
                    released.append(got[-1])
                    if chance.random() < 0.9:
                        wire.acknowledge(PUBACK, packet.identifier)
                elif packet.kind == PUBLISH:
                    if packet.identifier in pending:
                        assert packet.is_duplicate and pending[packet.identifier] == text_of(packet)
                    else:
                        got.append(text_of(packet))
                        pending[packet.identifier] = got[-1]
                    wire.acknowledge(PUBREC, packet.identifier)
                elif packet.kind == PUBREL:
                    if packet.identifier in pending:
                        released.append(pending.pop(packet.identifier))
                    wire.acknowledge(PUBCOMP, packet.identifier)
        except OSError:
            if not is_killed:
                raise
        finally:
            wire.close()
    assert list(dict.fromkeys(got)) == numbers(0, count)
    assert qos == 1 or len(got) == count, "a message of QoS 2 came twice"

"""What one client asks for at once is worked off over many turns: whatever it costs, the others are served between."""

import struct
from collections.abc import Callable

import pytest
from harness.waiting import wait_until
from harness.wire import SUBACK, SUBSCRIBE, UNSUBACK, UNSUBSCRIBE, Will, Wire, frame, text

from abuse.siege import ATTEMPTS, SECONDS, Siege
from abuse.test_exhaustion import processor_seconds

pytestmark = [pytest.mark.martlet("makes no such promise"), pytest.mark.timeout(240 + 12 * SECONDS)]

#: The part of the attack's work, in processor time of the broker, that a message of the pair may wait for at most: it was all of it, and
#: is so with and without optimisation. (Taking a packet apart is not in steps, and is half of it without.)
SHARE_MAX = 0.6
#: Milliseconds of waiting that are nobody's fault on a busy machine.
EXCUSED = 150


def deep(number: int, levels: int = 200) -> str:
    return f"{number}/" + "/".join(str((number + level) % 9) for level in range(levels - 1))


def subscribe_packet(filters: list[str]) -> bytes:
    return frame(SUBSCRIBE, 2, struct.pack(">H", 1) + b"\0" + b"".join(text(filter) + b"\0" for filter in filters))


def unsubscribe_packet(filters: list[str]) -> bytes:
    return frame(UNSUBSCRIBE, 2, struct.pack(">H", 2) + b"\0" + b"".join(text(filter) for filter in filters))


def bear(siege: Siege, attack: Callable[[], Callable[[], bool]], prepare: Callable[[], None] = lambda: None):
    """The pair does not wait until the attack, which says when it is over, is worked off. What is slow is measured again: others may
    be the reason."""
    figures = []
    for _ in range(ATTEMPTS):
        prepare()
        siege.measure()
        begun = processor_seconds(siege.broker.process.pid)
        is_over = attack()
        window = siege.measure(is_over)
        work = 1000 * (processor_seconds(siege.broker.process.pid) - begun)
        figures.append(f"{window.longest:.0f} of {work:.0f} ms")
        siege.serve()
        if window.longest <= max(EXCUSED, SHARE_MAX * work):
            return
    raise AssertionError(f"others waited for {figures}")


def answered(wire: Wire, kind: int) -> Callable[[], bool]:
    """Whether the answer has come, looked at without waiting for it."""
    state = {"is": False}

    def is_over() -> bool:
        if not state["is"]:
            try:
                packet = wire.receive(seconds=0.001)
            except TimeoutError:
                return False
            state["is"] = packet is not None and packet.kind == kind
        return state["is"]

    return is_over


def test_presence_freeze(besiege):
    siege = besiege("martlet_presence_events all")
    name, filters = "n" * 60_000, [f"f/{number}" for number in range(3000)]

    def attack() -> Callable[[], bool]:
        wire = Wire(siege.broker.port)
        wire.connect(name)
        wire.send(subscribe_packet(filters))
        return answered(wire, SUBACK)

    bear(siege, attack)
    # With somebody who reads it.
    reader = Wire(siege.broker.port)
    reader.connect("reader")
    reader.subscribe("$SYS/brokers/#")
    bear(siege, attack)
    reader.close()


@pytest.mark.parametrize("retained", [False, True], ids=["nothing retained", "something retained"])
def test_deep_subscribe_turn(besiege, retained):
    siege = besiege()
    wire = Wire(siege.broker.port)
    wire.connect("deep")
    if retained:
        wire.publish("retained", "x", retain=True)
    filters = [deep(number) for number in range(4800)]
    subscribing, unsubscribing = subscribe_packet(filters), unsubscribe_packet(filters)

    def subscribe() -> Callable[[], bool]:
        wire.send(subscribing)
        return answered(wire, SUBACK)

    def unsubscribe() -> Callable[[], bool]:
        wire.send(unsubscribing)
        return answered(wire, UNSUBACK)

    bear(siege, subscribe)
    bear(siege, unsubscribe)
    wire.close()


@pytest.mark.parametrize("end", ["goodbye", "loss", "takeover"])
def test_deep_leave_turn(besiege, end):
    siege = besiege()
    wires: list[Wire] = []

    def prepare():
        wire = Wire(siege.broker.port)
        wire.connect("deep")
        for begin in (0, 4500):
            wire.send(subscribe_packet([deep(number) for number in range(begin, begin + 4500)]))
            wait_until(answered(wire, SUBACK), "SUBACK", 60)
        wires.append(wire)

    def leave() -> bool:
        if not wires:
            return True
        wire = wires.pop()
        if end == "goodbye":
            wire.disconnect()
        elif end == "loss":
            wire.close()
        successor = Wire(siege.broker.port)
        assert successor.connect("deep") == (False, 0)
        successor.ping()
        wire.close()
        successor.close()
        return True

    bear(siege, lambda: leave, prepare)


def test_wills_of_a_crowd_that_vanishes(besiege):
    siege = besiege()
    heir = Wire(siege.broker.port)
    heir.connect("heir")
    heir.subscribe("will/#")
    count = 1000
    crowd: list[Wire] = []

    def prepare():
        crowd.extend(Wire(siege.broker.port) for _ in range(count))
        for number, wire in enumerate(crowd):
            wire.connect(f"mortal {number}", will=Will(f"will/{number}", "x" * 100))

    def vanish() -> bool:
        if crowd:
            for wire in crowd:
                wire.close()
            crowd.clear()
            assert len({heir.receive().topic for _ in range(count)}) == count
        return True

    bear(siege, lambda: vanish, prepare)
    heir.close()

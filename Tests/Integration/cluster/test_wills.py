"""Three nodes with stores on three NATS servers: wills and expiries of clients whose node is killed, and does not come back."""

import base64
import itertools
import json
import struct
import time

import pytest
from cluster.clients import PatientWire, connect, numbers, send, take, text_of
from cluster.site import restart
from harness.waiting import wait_until
from harness.wire import PUBLISH, Will

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(300)]

#: A lease, the time until its end is seen, and that until everything of the node was looked at.
LEASE_SECONDS = 25

names = (f"willed{number}" for number in itertools.count())


def expiry(seconds: int) -> bytes:
    return b"\x11" + struct.pack(">I", seconds)


def delayed(topic: str, text: str, seconds: int, **options) -> Will:
    return Will(topic, text, properties=b"\x18" + struct.pack(">I", seconds), **options)


@pytest.fixture
def open_to(kept):
    """A connected client of 5.0 on a node; while its node is away others refuse it for a while."""
    wires: list[PatientWire] = []

    def come(index: int, name: str = "", clean: bool = True, properties: bytes = b"", **options):
        wire, present = connect(kept.nodes[index], name, clean=clean, properties=properties, **options)
        wires.append(wire)
        return wire, present

    yield come
    for wire in wires:
        wire.close()


def nothing_more(wire, seconds: float):
    """Nothing comes for so long."""
    with pytest.raises(TimeoutError):
        packet = wire.receive(seconds=seconds)
        raise AssertionError(f"received {packet}")


def recorded(kept, names: list[str]) -> list[str]:
    """Of which of these clients the cluster has a record."""
    stream, found, sequence = "KV_martlet_tests_sessions", [], 1
    while True:
        question = {"seq": sequence, "next_by_subj": "$KV.martlet_tests_sessions.>"}
        answer = kept.servers[0].request(f"$JS.API.STREAM.MSG.GET.{stream}", json.dumps(question))
        if "message" not in answer:
            assert answer["error"]["code"] == 404, answer
            return found
        data = base64.b64decode(answer["message"].get("data", ""))
        found += [name for name in names if bytes([len(name)]) + name.encode() in data]
        sequence = answer["message"]["seq"] + 1


def test_the_wills_of_a_living_node_reach_all_nodes_once(kept, open_to):
    topic = next(names)
    receivers = [open_to(index)[0] for index in range(3)]
    lasting, _ = open_to(1, next(names), clean=False, properties=expiry(3600))
    for wire in (*receivers, lasting):
        wire.subscribe(f"{topic}/#", 1)
    for qos in (0, 1, 2):
        for clean in (True, False):
            client, _ = open_to(0, next(names), clean=clean, properties=expiry(0 if clean else 600), will=Will(f"{topic}/{qos}", f"{qos}{clean}", qos=qos))
            client.close()
            for wire in (*receivers, lasting):
                assert take(wire, 1) == [f"{qos}{clean}"]
    # DISCONNECT takes it back.
    client, _ = open_to(0, next(names), will=Will(topic, "never", qos=1))
    client.disconnect()
    # Another connection of the same session has a will of its own.
    name = next(names)
    for text in ("first", "second"):
        client, _ = open_to(2, name, clean=False, properties=expiry(600), will=Will(topic, text, qos=1))
        client.close()
        for wire in (*receivers, lasting):
            assert take(wire, 1) == [text]
    # Who comes to another node ends the older connection, whose will is due.
    older, _ = open_to(0, name, clean=False, properties=expiry(600), will=Will(topic, "older", qos=1))
    newer, present = open_to(1, name, clean=False, properties=expiry(600), will=delayed(topic, "newer", 60))
    assert present
    older.receive_end()
    for wire in (*receivers, lasting):
        assert take(wire, 1) == ["older"]
    # One with a delay is not, if its client is back in time.
    open_to(2, name, clean=False, properties=expiry(600))
    newer.receive_end()
    for wire in (*receivers, lasting):
        nothing_more(wire, 0.5)


def test_the_wills_of_a_node_that_is_killed_are_published_once_by_those_that_live(kept, open_to):
    topic = next(names)
    receivers = [open_to(index)[0] for index in (0, 1)]
    lasting, _ = open_to(1, next(names), clean=False, properties=expiry(3600))
    for wire in (*receivers, lasting):
        wire.subscribe(f"{topic}/#", 2)
    back, clean_one, ended_one, away_one = (next(names) for _ in range(4))
    for name, clean, will in (
        (clean_one, True, Will(f"{topic}/clean", "clean", qos=0)),
        (next(names), False, Will(f"{topic}/lasting", "lasting", qos=1)),
        (next(names), False, Will(f"{topic}/retained", "retained", qos=1, retain=True)),
        (next(names), False, delayed(f"{topic}/delayed", "delayed", 3, qos=2)),
        (back, False, delayed(f"{topic}/back", "back", 40, qos=1)),
        # Its session ends before the delay is over.
        (ended_one, False, delayed(f"{topic}/ended", "ended", 3600, qos=1)),
    ):
        open_to(2, name, clean=clean, properties=expiry(0 if clean else 5 if "ended" in will.payload else 600), will=will)
    gone, _ = open_to(2, next(names), will=Will(f"{topic}/gone", "gone", qos=1))
    gone.disconnect()
    away, _ = open_to(2, away_one, clean=False, properties=expiry(4))
    away.disconnect()
    kept.nodes[2].broker.kill()
    started = time.monotonic()
    texts = {"clean", "lasting", "retained", "delayed", "ended"}
    for wire in (*receivers, lasting):
        assert set(take(wire, 5, 2 * LEASE_SECONDS)) == texts
    assert time.monotonic() - started > 7, "before the lease has ended"
    # What is retained is so on every node.
    for index in (0, 1):
        wire, _ = open_to(index)
        wire.subscribe(f"{topic}/retained", 1)
        packet = wire.receive(PUBLISH)
        assert packet.flags & 1 and text_of(packet) == "retained"
    # Who comes back before the delay is over takes the will back.
    _, present = open_to(0, back, clean=False, properties=expiry(600))
    assert present
    assert time.monotonic() - started < 40, "too late for this test"
    # Sessions that are over have no record any more.
    over = [clean_one, ended_one, away_one]
    wait_until(lambda: not recorded(kept, over), "what has expired has no record", LEASE_SECONDS)
    assert recorded(kept, [back]) == [back]
    wait_until(lambda: sum(node.metric("martlet_cluster_adopted_wills_total") for node in kept.nodes[:2]) == 5, "five were published")
    # The node is back with its store: nothing is said twice.
    kept.nodes[2].broker.restart()
    kept.is_whole()
    for wire in (*receivers, lasting):
        nothing_more(wire, max(3, started + 45 - time.monotonic()))
    assert sum(node.metric("martlet_cluster_expired_sessions_total") for node in kept.nodes) >= 3


@pytest.mark.parametrize("index", [2, 1])
def test_a_session_whose_will_others_have_published_is_found_when_its_node_is_back(kept, open_to, index):
    topic, name = next(names), next(names)
    receiver, _ = open_to(0)
    receiver.subscribe(topic, 1)
    holder, _ = open_to(2, name, clean=False, properties=expiry(3600))
    holder.subscribe(f"{name}/#", 1)
    holder.disconnect()
    sender, _ = open_to(1)
    send(sender, f"{name}/x", numbers(0, 20))
    open_to(2, name, clean=False, properties=expiry(3600), will=Will(topic, "gone", qos=1))
    kept.nodes[2].broker.kill()
    assert take(receiver, 1, 2 * LEASE_SECONDS) == ["gone"]
    send(sender, f"{name}/x", numbers(20, 5))
    kept.nodes[2].broker.restart()
    kept.is_whole()
    # It asks whose the session is.
    nothing_more(receiver, 8)
    holder, present = open_to(index, name, clean=False, properties=expiry(3600))
    assert present
    assert take(holder, 25) == numbers(0, 25)
    nothing_more(receiver, 1)


def test_a_session_whose_client_does_not_come_ends_with_its_expiry(kept, open_to):
    name, longer = next(names), next(names)
    for each, seconds in ((name, 6), (longer, 3600)):
        wire, _ = open_to(2, each, clean=False, properties=expiry(seconds))
        wire.subscribe(each, 1)
    assert sorted(recorded(kept, [name, longer])) == [name, longer]
    kept.nodes[2].broker.kill()
    wait_until(lambda: recorded(kept, [name, longer]) == [longer], "its record goes", 2 * LEASE_SECONDS)
    _, present = open_to(0, name, clean=False, properties=expiry(6))
    assert not present
    _, present = open_to(0, longer, clean=False, properties=expiry(60))
    assert present
    # Nor does it come back with its node.
    kept.nodes[2].broker.restart()
    kept.is_whole()


def test_a_node_that_is_started_again_publishes_its_wills_itself(kept, open_to):
    topic, back = next(names), next(names)
    receiver, _ = open_to(0)
    receiver.subscribe(topic, 1)
    for name, clean, will in (
        (next(names), True, Will(topic, "clean", qos=1)),
        (next(names), False, Will(topic, "lasting", qos=1)),
        (next(names), False, delayed(topic, "delayed", 2, qos=1)),
        (back, False, delayed(topic, "back", 30, qos=1)),
    ):
        open_to(2, name, clean=clean, properties=expiry(0 if clean else 600), will=will)
    restart(kept.nodes[2:])
    kept.is_whole()
    assert set(take(receiver, 3, LEASE_SECONDS)) == {"clean", "lasting", "delayed"}
    _, present = open_to(1, back, clean=False, properties=expiry(600))
    assert present
    nothing_more(receiver, 12)

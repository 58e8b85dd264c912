"""Clients whose sessions end with their connections, when the broker is killed: what share groups had given them goes to members that last, and
their wills are published after the start."""

import signal
import struct

import pytest
from harness.waiting import wait_until
from harness.wire import DISCONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Will, Wire, frame

pytestmark = pytest.mark.martlet("loses both")

STORE = "persistence true\npersistence_location {directory}/store\n"
LASTS = b"\x11" + struct.pack(">I", 1000)
ONE_AT_A_TIME = b"\x21\0\1"
FENCE = "the last one"


@pytest.fixture(autouse=True)
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def opened(broker, name: str, version: str = "mqttv5", **options) -> Wire:
    wire = Wire(broker.port, version)
    assert wire.connect(name, **options)[1] == 0
    return wire


def published(wire: Wire, topic: str, payload: str, qos: int, identifier: int = 1, **options):
    """The broker has said that the message is its own."""
    wire.publish(topic, payload, qos=qos, identifier=identifier, **options)
    if qos == 1:
        assert wire.receive(PUBACK).identifier == identifier
    else:
        assert wire.receive(PUBREC).identifier == identifier
        wire.acknowledge(PUBREL, identifier)
        wire.receive(PUBCOMP)


def text_of(packet) -> str:
    """Of a PUBLISH to a client of 5.0, without properties."""
    return packet.body[2 + len(packet.topic) + (2 if packet.qos else 0) + 1 :].decode()


def take_until_fence(wire: Wire) -> list[str]:
    """All messages up to the fence, which was published last; each is acknowledged."""
    taken = []
    while True:
        packet = wire.receive()
        if packet.kind == PUBREL:
            wire.acknowledge(PUBCOMP, packet.identifier)
            continue
        assert packet.kind == PUBLISH, packet
        if packet.qos:
            wire.acknowledge(PUBACK if packet.qos == 1 else PUBREC, packet.identifier)
        if text_of(packet) == FENCE:
            return taken
        taken.append(text_of(packet))


def behind_restart(broker, names: list[str]) -> list[str]:
    """What lasting clients get when the broker is there again."""
    broker.restart()
    taken = []
    for name in names:
        wire = opened(broker, name, clean=False, properties=LASTS)
        published(opened(broker, "fencer"), f"fence/{name}", FENCE, 1)
        taken += take_until_fence(wire)
    return taken


@pytest.mark.parametrize("ends", ["killed", "stopped"])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("loops", [1, 3])
def test_lasting_members_get_what_was_dealt_to_passing_ones(start_broker, loops, qos, ends):
    broker = start_broker(configuration=f"{STORE}martlet_threads {loops}")
    passing = [opened(broker, f"passing {number}", properties=ONE_AT_A_TIME) for number in range(4)]
    for wire in passing:
        wire.subscribe("$share/g/x", qos)
    names = [f"lasting {number}" for number in range(2)]
    for name in names:
        wire = opened(broker, name, properties=LASTS)
        wire.subscribe("$share/g/x", qos)
        wire.subscribe(f"fence/{name}", 1)
        wire.disconnect()
    publisher = opened(broker, "publisher")
    wanted = {str(number) for number in range(100)}
    for number in range(100):
        published(publisher, "x", str(number), qos, 1 + number)
    # Each of them was sent one message, which it has not acknowledged.
    sent = {text_of(wire.receive(PUBLISH)) for wire in passing}
    broker.kill() if ends == "killed" else broker.stop()
    taken = behind_restart(broker, names)
    # What was sent with QoS 2 stays with a session that is over. [MQTT-4.8.2-5 v5]
    assert set(taken) == (wanted if qos == 1 else wanted - sent)
    assert len(taken) == len(set(taken))


def test_a_lasting_member_that_comes_later_gets_what_was_dealt_before(start_broker):
    broker = start_broker(configuration=STORE)
    passing = opened(broker, "passing", properties=ONE_AT_A_TIME)
    passing.subscribe("$share/g/x", 1)
    publisher = opened(broker, "publisher")
    for number in range(20):
        published(publisher, "x", str(number), 1, 1 + number)
    late = opened(broker, "late", properties=LASTS)
    late.subscribe("fence/late", 1)
    late.subscribe("$share/g/x", 1)
    broker.kill()
    assert set(behind_restart(broker, ["late"])) == {str(number) for number in range(20)}


def test_what_an_interval_has_written_is_kept(start_broker, store):
    broker = start_broker(configuration=f"{STORE}martlet_durability interval 3600")
    broker.wait_for_log("version .* running")
    late = opened(broker, "late", properties=LASTS)
    late.subscribe("fence/late", 1)
    late.subscribe("$share/g/x", 1)
    late.disconnect()
    passing = opened(broker, "passing", properties=ONE_AT_A_TIME)
    passing.subscribe("$share/g/x", 1)
    publisher = opened(broker, "publisher", will=Will("fence/will", "gone", qos=1))
    for number in range(20):
        published(publisher, "x", str(number), 1, 1 + number)
    mark = store / "martlet.db-mark"
    before = mark.read_bytes()
    broker.signal(signal.SIGUSR1)
    wait_until(lambda: mark.read_bytes() != before, "the changes are saved")
    broker.kill()
    assert set(behind_restart(broker, ["late"])) == {str(number) for number in range(20)}


@pytest.mark.parametrize("loops", [1, 3])
def test_wills_of_connected_clients_are_published_after_the_start(start_broker, loops):
    broker = start_broker(configuration=f"{STORE}martlet_threads {loops}")
    watcher = opened(broker, "watcher", properties=LASTS)
    watcher.subscribe("w/#", 1)
    watcher.disconnect()
    kinds = {
        "clean5": {"version": "mqttv5"},
        "clean4": {"version": "mqttv311"},
        "clean3": {"version": "mqttv31"},
        "lasting4": {"version": "mqttv311", "clean": False},
        "delayed5": {"version": "mqttv5"},
    }
    clients = {}
    for name, options in kinds.items():
        delay = b"\x18" + struct.pack(">I", 3600) if name == "delayed5" else b""
        clients[name] = opened(broker, name, will=Will(f"w/{name}", "offline", qos=1, retain=True, properties=delay), **options)
        # No CONNACK waits for the will's row; this answer waits for all that its loop had before.
        published(clients[name], f"w/{name}", "online", 1, retain=True)
    gone = opened(broker, "gone", will=Will("w/gone", "offline", qos=1, retain=True))
    published(gone, "w/gone", "online", 1, retain=True)
    # The next connection of its name could be there before its DISCONNECT, and would take it over.
    gone.send(frame(DISCONNECT, 0, b""))
    gone.receive_end()
    published(opened(broker, "gone"), "w/other", "x", 1, retain=True)
    broker.kill()
    broker.restart()

    def offline(wire):
        """The topics whose last word is that the client is gone."""
        last = {}
        while "fence" not in last:
            packet = wire.receive(PUBLISH)
            wire.acknowledge(PUBACK, packet.identifier)
            last[packet.topic.removeprefix("w/")] = text_of(packet)
        return {name for name, word in last.items() if word == "offline"}

    back = opened(broker, "watcher", clean=False, properties=LASTS)

    def retained():
        reader = Wire(broker.port)
        assert reader.connect("reader")[1] == 0
        reader.send_subscribe("w/+", 0)
        seen = set()
        while True:
            packet = reader.receive()
            if packet.kind == PUBLISH:
                seen.add((packet.topic.removeprefix("w/"), packet.body[2 + len(packet.topic) + 1 :].decode()))
            if len(seen) == len(kinds) + 2:
                reader.close()
                return {name for name, word in seen if word == "offline"}

    wait_until(lambda: retained() == set(kinds), "the retained topics say who is gone")
    published(opened(broker, "fencer"), "w/fence", "x", 1)
    assert offline(back) == set(kinds)
    # Once: not after another start.
    back.ping()
    broker.stop()
    broker.restart()
    back = opened(broker, "watcher", clean=False, properties=LASTS)
    published(opened(broker, "fencer"), "w/fence", "x", 1)
    assert offline(back) == set()


@pytest.mark.parametrize("version", ["mqttv5", "mqttv311"])
@pytest.mark.parametrize("says", ["", "martlet_wills_at_stop true\n", "martlet_wills_at_stop false\n"])
def test_wills_at_stop(start_broker, says, version):
    broker = start_broker(configuration=STORE + says)
    watcher = opened(broker, "watcher", properties=LASTS)
    watcher.subscribe("w/#", 1)
    watcher.disconnect()
    client = opened(broker, "client", version, will=Will("w/client", "offline", qos=1, retain=True))
    broker.stop()
    if version == "mqttv5":
        assert client.receive().reason == 0x8B
    broker.restart()
    back = opened(broker, "watcher", clean=False, properties=LASTS)
    published(opened(broker, "fencer"), "w/fence", FENCE, 1)
    is_left_out = "false" in says and version == "mqttv5"
    assert take_until_fence(back) == ([] if is_left_out else ["offline"])

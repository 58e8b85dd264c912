"""Time goes on while the broker is dead: wills, sessions and messages keep their deadlines through kill -9."""

import struct
import time

import pytest
from harness.waiting import wait_until
from harness.wire import PUBACK, PUBLISH, Packet, Will, Wire

pytestmark = pytest.mark.martlet("saves at intervals")

FOREVER = 0xFFFFFFFF
#: The wall clock has milliseconds in the store and microseconds here.
GRAIN = 0.01


def lasting(seconds: int) -> bytes:
    """The property Session Expiry Interval."""
    return b"\x11" + struct.pack(">I", seconds)


def after(seconds: int) -> bytes:
    """The property Will Delay Interval."""
    return b"\x18" + struct.pack(">I", seconds)


def expiring(seconds: int) -> bytes:
    """The property Message Expiry Interval."""
    return b"\x02" + struct.pack(">I", seconds)


def expiry_and_payload(packet: Packet) -> tuple[int | None, str]:
    """Of a QoS 1 PUBLISH with that property or none."""
    offset = 4 + len(packet.topic)
    length, properties = packet.body[offset], packet.body[offset + 1 :]
    assert length in (0, 5)
    return struct.unpack(">I", properties[1:5])[0] if length else None, properties[length:].decode()


@pytest.fixture
def broker(start_broker, tmp_path):
    return start_broker(configuration=f"persistence true\npersistence_location {tmp_path}\nmartlet_threads 1")


def leave(broker, name: str, *, will_delay: int | None, session: int) -> float:
    """A client comes and goes without a word; when it had not gone yet."""
    wire = Wire(broker.port)
    will = None if will_delay is None else Will(f"wills/{name}", name, qos=1, properties=after(will_delay))
    wire.connect(name, clean=False, will=will, properties=lasting(session))
    now = time.time()
    wire.close()
    broker.wait_for_log(rf"Client {name} \[.*\] disconnected: connection closed by client")
    return now


def keep(broker, name: str, topic: str) -> Wire:
    wire = Wire(broker.port)
    wire.connect(name, clean=False, properties=lasting(FOREVER))
    wire.subscribe(topic, 1)
    return wire


def kill_for(broker, seconds: float):
    """What has changed is on the disk, and the broker is dead for at least so long."""
    fence = Wire(broker.port)
    fence.connect("fence")
    fence.publish("kept/fence", "fence", qos=1)
    fence.receive(PUBACK)
    broker.kill()
    end = time.time() + seconds
    wait_until(lambda: time.time() > end, "time passes")


def test_wills_are_sent_at_their_time(broker):
    keep(broker, "observer", "wills/#").close()
    keep(broker, "keeper", "kept/#").close()
    leave(broker, "early", will_delay=1, session=FOREVER)
    # The end of the session sends it, for the delay is longer.
    leave(broker, "brief", will_delay=100, session=1)
    leave(broker, "never", will_delay=1000, session=FOREVER)
    late = leave(broker, "late", will_delay=4, session=FOREVER)
    online = Wire(broker.port)
    will = Will("wills/online", "online", qos=1, properties=after(1))
    online.connect("online", clean=False, will=will, properties=lasting(FOREVER))
    kill_for(broker, 2)

    started = time.time()
    broker.restart()
    observer = Wire(broker.port)
    assert observer.connect("observer", clean=False, properties=lasting(FOREVER))[0]
    arrivals: dict[str, float] = {}
    for _ in range(4):
        packet = observer.receive(PUBLISH)
        observer.acknowledge(PUBACK, packet.identifier)
        assert arrivals.setdefault(expiry_and_payload(packet)[1], now := time.time()) == now, "a will came twice"
    assert arrivals.keys() == {"early", "brief", "online", "late"}
    assert arrivals["online"] >= started + 1 - GRAIN, "its connection ended with the broker"
    assert arrivals["late"] >= late + 4 - GRAIN
    assert not Wire(broker.port).connect("brief", clean=False, properties=lasting(1))[0]
    assert Wire(broker.port).connect("early", clean=False, properties=lasting(1))[0]


def test_sessions_end_and_messages_expire_meanwhile(broker):
    keeper = keep(broker, "keeper", "kept/#")
    keeper.close()
    publisher = Wire(broker.port)
    publisher.connect("publisher")
    began = time.time()
    for identifier, (payload, seconds) in enumerate([("short", 2), ("long", 1000)], 1):
        for topic, retain in (("kept/queued", False), ("retained/" + payload, True)):
            publisher.publish(topic, payload, qos=1, identifier=identifier, retain=retain, properties=expiring(seconds))
            publisher.receive(PUBACK)
    leave(broker, "brief", will_delay=None, session=1)
    leave(broker, "patient", will_delay=None, session=1000)
    kill_for(broker, 2 + GRAIN)

    broker.restart()
    for name, is_there in (("brief", False), ("patient", True)):
        assert Wire(broker.port).connect(name, clean=False, properties=lasting(1000))[0] == is_there
    keeper = Wire(broker.port)
    assert keeper.connect("keeper", clean=False, properties=lasting(FOREVER))[0]
    queued = [expiry_and_payload(keeper.receive(PUBLISH)) for _ in range(2)]
    keeper.subscribe("retained/#", 1)
    retained = [expiry_and_payload(keeper.receive(PUBLISH))]
    keeper.ping()
    lived = time.time() - began
    assert [payload for _, payload in queued] == ["long", "fence"]
    assert [payload for _, payload in retained] == ["long"]
    for seconds, _ in (queued[0], retained[0]):
        assert 1000 - lived - 1 <= seconds <= 998, "what is left of it"

"""Clients that knew mosquitto find at Martlet what it had kept for them: taken over at the first start, or imported beforehand."""

import subprocess

import pytest
from harness import wire
from harness.wire import PUBACK, PUBCOMP, PUBREC, PUBREL, Packet, Wire

from service.left_by_mosquitto import FOREVER, HOUR, RICH, leave_something, old_file

pytestmark = pytest.mark.martlet("imports")


class Client:
    """Takes what a session has for it, and finishes every handshake."""

    def __init__(self, port: int, name: str, version: str = "mqttv5", **options):
        self.wire = Wire(port, version)
        self.has_session = self.wire.connect(name, clean=False, **options)[0]
        self.messages: list[Packet] = []
        #: The identifiers of messages that only had to be released.
        self.released: list[int] = []

    def take(self, *, messages: int, released: int = 0) -> list[str]:
        """The payloads of so many messages."""
        own = set()
        done = 0
        while len(self.messages) < messages or len(self.released) < released or done < len(own):
            packet = self.wire.receive()
            match packet.kind:
                case wire.PUBLISH:
                    self.messages.append(packet)
                    if packet.qos == 2:
                        own.add(packet.identifier)
                    if packet.qos:
                        self.wire.acknowledge(PUBACK if packet.qos == 1 else PUBREC, packet.identifier)
                case wire.PUBREL:
                    self.wire.acknowledge(PUBCOMP, packet.identifier)
                    if packet.identifier in own:
                        done += 1
                    else:
                        self.released.append(packet.identifier)
                case kind:
                    raise AssertionError(f"packet type {kind}")
        return [self.payload(packet) for packet in self.messages]

    def payloads(self, qos: int) -> list[str]:
        return [self.payload(packet) for packet in self.messages if packet.qos == qos]

    def payload(self, packet: Packet) -> str:
        offset = 2 + len(packet.topic.encode()) + (2 if packet.qos else 0)
        if self.wire.level == 5:
            assert packet.body[offset] < 0x80, "longer properties than these tests send"
            offset += 1 + packet.body[offset]
        return packet.body[offset:].decode()


@pytest.fixture(params=["taken over", "imported"])
def start(request, program, start_broker, tmp_path):
    """Starts Martlet on what a file of mosquitto's holds."""

    def start(file, *, told: str):
        directory = file.parent
        if request.param == "imported":
            directory = tmp_path / "imported"
            subprocess.run([program.path, "store", "import", file, directory], check=True, capture_output=True, timeout=30)
        before = file.read_bytes()
        broker = start_broker(configuration=f"persistence true\npersistence_location {directory}\nmartlet_threads 2")
        if request.param == "taken over":
            broker.wait_for_log(f"Imported {file} of mosquitto: {told}")
        assert file.read_bytes() == before, "mosquitto's file stays as it is"
        return broker

    return start


def test_what_mosquitto_left_is_served(reference, start, tmp_path):
    file = leave_something(reference, tmp_path)
    broker = start(file, told="4 sessions, 4 subscriptions, 20 queued and 2 retained messages")

    busy = Client(broker.port, "busy", properties=FOREVER)
    assert busy.has_session
    assert busy.take(messages=4, released=1) == ["one", "three", "four", "halfway"]
    assert busy.released == [2], "the second needs its PUBREL only"
    assert [packet.is_duplicate for packet in busy.messages[:2]] == [True, True]
    assert [packet.identifier for packet in busy.messages[:2]] == [1, 3]
    assert all(b"\x0b\x4d" in packet.body for packet in busy.messages), "Subscription Identifier 77"
    assert RICH[2:] in busy.messages[0].body

    away = Client(broker.port, "away", properties=HOUR)
    assert away.has_session
    assert away.take(messages=4) == ["one", "four", "zero", "halfway"]
    assert [packet.qos for packet in away.messages] == [1, 1, 0, 1]
    old = Client(broker.port, "old", "mqttv311", user="anna")
    assert old.has_session
    assert len(old.take(messages=11)) == 11
    # QoS 0 need not wait for the others, which need the disk.
    assert old.payloads(qos=0) == ["zero", ""]
    assert old.payloads(qos=1) == ["one", "four", "größer", "gone", "before"]
    assert old.payloads(qos=2) == ["two", "three", "halfway", "after"]

    newcomer = Client(broker.port, "newcomer", "mqttv311")
    newcomer.wire.subscribe("keep/#", 1)
    assert sorted(newcomer.take(messages=2)) == ["after", "größer"]
    assert all(packet.flags & 1 for packet in newcomer.messages)

    # What its publisher has not released went out with the import, and does not go out again.
    publisher = Client(broker.port, "publisher", properties=FOREVER, user="peter")
    assert publisher.has_session
    publisher.wire.acknowledge(PUBREL, 500)
    publisher.wire.receive(PUBCOMP)
    publisher.wire.publish("keep/c", "after", qos=2, identifier=501, retain=True, duplicate=True)
    publisher.wire.receive(PUBREC)
    publisher.wire.acknowledge(PUBREL, 501)
    publisher.wire.receive(PUBCOMP)
    publisher.wire.publish("q/1", "now", qos=1, identifier=1)
    publisher.wire.receive(PUBACK)
    assert busy.take(messages=5)[4:] == ["now"] and away.take(messages=5)[4:] == ["now"] and old.take(messages=12)[11:] == ["now"]

    for client in (busy, away, old, newcomer, publisher):
        client.wire.ping()  # its acknowledgements have arrived
        client.wire.disconnect()
    assert broker.stop() == 0
    broker.restart()
    assert broker.log.count("of mosquitto: ") <= 1, "once is enough"
    busy = Client(broker.port, "busy", properties=FOREVER)
    assert busy.has_session
    publisher = Client(broker.port, "publisher", properties=FOREVER)
    publisher.wire.publish("q/1", "fence", qos=1, identifier=2)
    assert busy.take(messages=1) == ["fence"], "what was taken came again"


@pytest.mark.parametrize("version", [3, 4])
def test_a_file_of_an_old_mosquitto_is_served(start, tmp_path, version):
    (tmp_path / "mosquitto").mkdir()
    file = tmp_path / "mosquitto/mosquitto.db"
    file.write_bytes(old_file(version))
    broker = start(file, told="1 session, 1 subscription, 2 queued and 1 retained message.")
    client = Client(broker.port, "client", "mqttv311")
    assert client.has_session
    assert client.take(messages=2) == ["first", "second"]
    assert [packet.is_duplicate for packet in client.messages] == [True, True]
    client.wire.subscribe("r", 1)
    assert client.take(messages=3)[2:] == ["größer"]
    publisher = Wire(broker.port)
    publisher.connect("publisher")
    publisher.publish("a/new", "now", qos=1)
    publisher.receive(PUBACK)
    assert client.take(messages=4)[3:] == ["now"]

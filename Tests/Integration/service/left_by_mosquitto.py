"""What mosquitto leaves behind: a file of its own making, and one as it made them long ago."""

import struct

from harness.wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, SUBSCRIBE, Wire, frame, text

FOREVER = b"\x11" + struct.pack(">I", 0xFFFFFFFF)
HOUR = b"\x11" + struct.pack(">I", 3600)
RICH = b"\x01\x01\x03" + text("text/plain") + b"\x08" + text("answer") + b"\x09" + text(b"\0\xff") + b"\x26" + text("k") + text("v")


class Publisher:
    """Publishes and waits until the QoS's handshake is done."""

    def __init__(self, port: int, client: str, **options):
        self.wire = Wire(port)
        self.wire.connect(client, **options)
        self.identifier = 0

    def publish(self, topic: str, payload: str, qos: int, **options):
        self.identifier += 1
        self.wire.publish(topic, payload, qos=qos, identifier=self.identifier, **options)
        if qos == 1:
            self.wire.receive(PUBACK)
        if qos == 2:
            self.wire.receive(PUBREC)
            self.wire.acknowledge(PUBREL, self.identifier)
            self.wire.receive(PUBCOMP)


def subscribe(wire: Wire, topic: str, options: int, identifier: int):
    """Subscribes with a Subscription Identifier below 128."""
    wire.send(frame(SUBSCRIBE, 2, b"\0\1\2\x0b" + bytes([identifier]) + text(topic) + bytes([options])))
    wire.receive(SUBACK)


def old_file(version: int) -> bytes:
    """A file as mosquitto before 1.6 wrote it: a client, two messages in flight to it, and a retained one."""
    source = text("source") + (text("anna") + struct.pack(">H", 1883) if version > 3 else b"")

    def message(number: int, topic: str, qos: int, retain: int, payload: str) -> tuple[int, bytes]:
        head = struct.pack("<Q", number) + source + bytes(4) + text(topic) + bytes([qos, retain])
        return 2, head + struct.pack(">I", len(payload.encode())) + payload.encode()

    def delivery(number: int, identifier: int, qos: int, state: int) -> tuple[int, bytes]:
        return 3, text("client") + struct.pack("<Q", number) + struct.pack(">H", identifier) + bytes([qos, 0, 1, state, 0])

    chunks = [
        (1, bytes([1, 8]) + struct.pack("<Q", 9)),
        message(9, "r", 1, 1, "größer"),
        message(8, "a/c", 2, 0, "second"),
        message(7, "a/b", 1, 0, "first"),
        (6, text("client") + struct.pack(">H", 2) + struct.pack("<Q", 1_700_000_000)),
        delivery(7, 1, 1, 3),
        delivery(8, 2, 2, 5),
        (4, struct.pack("<Q", 9)),
        (5, text("client") + text("a/#") + b"\2"),
    ]
    body = b"".join(struct.pack(">HI", kind, len(body)) + body for kind, body in chunks)
    return b"\0\xb5\0mosquitto db" + bytes(4) + struct.pack(">I", version) + body


def leave_something(reference, tmp_path):
    """Lets mosquitto run until clients of both versions have left it with something of everything; its file."""
    (tmp_path / "mosquitto").mkdir()
    broker = reference(
        "persistence true\npersistence_location {directory}/mosquitto/\nmax_inflight_messages 3\nqueue_qos0_messages true"
    )
    busy, away, old = Wire(broker.port), Wire(broker.port), Wire(broker.port, "mqttv311")
    busy.connect("busy", clean=False, properties=FOREVER)
    subscribe(busy, "q/+", 2 | 4 | 8, 77)
    away.connect("away", clean=False, properties=HOUR)
    away.subscribe("q/1", 1)
    away.subscribe("/lead/+/#", 0)
    away.disconnect()
    old.connect("old", clean=False, user="anna")
    old.subscribe("#", 2)
    old.disconnect()

    publisher = Publisher(broker.port, "publisher", clean=False, properties=FOREVER, user="peter")
    publisher.publish("q/1", "one", 1, properties=RICH)
    publisher.publish("q/2", "two", 2, properties=b"\x02" + struct.pack(">I", 1000))
    publisher.publish("q/2", "three", 2)
    publisher.publish("q/1", "four", 1)
    publisher.publish("q/1", "zero", 0)
    publisher.publish("keep/a", "größer", 1, retain=True, properties=RICH)
    publisher.publish("keep/b", "gone", 1, retain=True)
    publisher.publish("keep/b", "", 0, retain=True)
    publisher.publish("keep/c", "before", 1, retain=True)

    one, two, three, zero = (busy.receive(PUBLISH) for _ in range(4))
    assert [one.qos, two.qos, three.qos, zero.qos] == [1, 2, 2, 0], "the fourth waits"
    busy.acknowledge(PUBREC, two.identifier)
    busy.receive(PUBREL)
    # Halfway: PUBREC has been sent, PUBREL has not.
    publisher.wire.publish("q/1", "halfway", qos=2, identifier=500)
    publisher.wire.receive(PUBREC)
    publisher.wire.publish("keep/c", "after", qos=2, identifier=501, retain=True)
    publisher.wire.receive(PUBREC)
    publisher.wire.close()
    busy.close()
    broker.wait_for_log(r"Client busy (\S+ disconnected: connection closed by client|closed its connection)")
    broker.wait_for_log(r"Client publisher (\S+ disconnected: connection closed by client|closed its connection)")
    broker.stop()
    return tmp_path / "mosquitto/mosquitto.db"

"""What a broker does and does not take while its store is full."""

from harness.wire import PINGREQ, PINGRESP, PUBACK, PUBLISH, PUBREC, Wire, frame

QUOTA_EXCEEDED = 0x97


def refuse_and_go_on(port: int, live: Wire):
    """While the store is full. A session that lasts has subscribed to kept/#, and `live`, whose session ends with it, to live/#."""
    durable, older = Wire(port), Wire(port, "mqttv311")
    durable.connect("durable")
    durable.publish("kept/refused", "x", qos=1, identifier=1)
    assert durable.receive(PUBACK).body[2] == QUOTA_EXCEEDED
    durable.publish("kept/refused", "x", qos=2, identifier=2)
    assert durable.receive(PUBREC).body[2] == QUOTA_EXCEEDED
    durable.publish("retained", "x", qos=1, identifier=3, retain=True)
    assert durable.receive(PUBACK).body[2] == QUOTA_EXCEEDED
    older.connect("older")
    older.publish("kept/refused", "x", qos=1, identifier=1)
    older.send(frame(PINGREQ, 0, b""))
    assert older.receive().kind == PINGRESP, "version 3.1.1 has no way to say no"
    for qos in (0, 1):
        durable.publish("live/news", str(qos), qos=qos, identifier=4)
        arrived = live.receive(PUBLISH)
        assert arrived.qos == qos
        if qos:
            live.acknowledge(PUBACK, arrived.identifier)
            assert durable.receive(PUBACK).body[2:3] in (b"", b"\0")
    for wire in (durable, older, live):
        wire.close()


def is_taken(port: int) -> bool:
    publisher = Wire(port)
    publisher.connect("publisher")
    publisher.publish("kept/later", "x", qos=1)
    reason = publisher.receive(PUBACK).body[2:3]
    publisher.close()
    return reason in (b"", b"\0")

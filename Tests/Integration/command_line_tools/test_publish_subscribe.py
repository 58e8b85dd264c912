"""mosquitto_pub to mosquitto_sub: every version, every quality of service, on one loop and on several."""

import hashlib

import pytest
from harness.mosquitto import VERSIONS

LEVELS_OF_SERVICE = [0, 1, 2]

#: More at once than a client's receive maximum (mosquitto_sub's: 20) asks of the broker to hold back.
HELD_BACK = [
    pytest.param(version, qos, marks=pytest.mark.martlet("mosquitto 2.0 forgets QoS 2 messages between PUBREC and PUBCOMP"))
    if (version, qos) == ("mqttv5", 2)
    else (version, qos)
    for version in VERSIONS
    for qos in LEVELS_OF_SERVICE
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("published", LEVELS_OF_SERVICE)
def test_a_message_arrives_at_the_lower_of_both_qualities(loops_broker, tools, version, published):
    subscribers = {qos: tools.subscribe("plain/topic", qos=qos, version=version, wait=False) for qos in LEVELS_OF_SERVICE}
    for subscriber in subscribers.values():
        subscriber.wait_subscribed()
    tools.publish("plain/topic", "hello", qos=published, version=version)
    for qos, subscriber in subscribers.items():
        message = subscriber.take_one()
        assert (message.topic, message.payload, message.qos) == ("plain/topic", b"hello", min(published, qos))
        assert not message.retain


@pytest.mark.parametrize("publisher", VERSIONS)
@pytest.mark.parametrize("subscriber", VERSIONS)
def test_versions_talk_to_each_other(loops_broker, tools, publisher, subscriber):
    received = tools.subscribe("between/versions", qos=2, version=subscriber)
    tools.publish("between/versions", "hello", qos=2, version=publisher)
    assert received.take_one().payload == b"hello"


@pytest.mark.parametrize("version, qos", HELD_BACK)
def test_many_messages_arrive_once_and_in_order(loops_broker, tools, version, qos):
    received = tools.subscribe("in/order", qos=qos, version=version)
    lines = [f"message {number}" for number in range(500)]
    tools.publish(
        "in/order", qos=qos, version=version, arguments=["-l"], standard_input="\n".join(lines).encode() + b"\n"
    )
    assert [message.payload.decode() for message in received.take(500)] == lines
    assert received.take_rest() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_payload_is_a_message(broker, tools, version):
    received = tools.subscribe("empty", qos=1, version=version)
    tools.publish("empty", "", qos=1, version=version)
    assert received.take_one().payload == b""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", LEVELS_OF_SERVICE)
@pytest.mark.parametrize("source", ["file", "standard input"])
def test_a_megabyte_arrives_whole(broker, tools, tmp_path, version, qos, source):
    payload = hashlib.shake_256(version.encode()).digest(1_000_000)
    received = tools.subscribe("large", qos=qos, version=version)
    if source == "file":
        (tmp_path / "payload").write_bytes(payload)
        tools.publish("large", qos=qos, version=version, arguments=["-f", str(tmp_path / "payload")])
    else:
        tools.publish("large", qos=qos, version=version, arguments=["-s"], standard_input=payload)
    assert received.take_one().payload == payload


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_383, 16_384, 65_535, 65_536, 262_144])
def test_a_payload_of_any_length_arrives_whole(broker, tools, size):
    payload = hashlib.shake_256(b"size").digest(size)
    received = tools.subscribe("sized", qos=1)
    tools.publish("sized", qos=1, arguments=["-s"] if size else ["-n"], standard_input=payload)
    assert received.take_one().payload == payload


def test_two_hundred_clients_at_once(loops_broker, tools):
    subscribers = [tools.subscribe("crowd/#", qos=1, wait=False) for _ in range(200)]
    for subscriber in subscribers:
        subscriber.wait_subscribed()
    tools.publish("crowd/everybody", "hello", qos=1)
    for subscriber in subscribers:
        assert subscriber.take_one().payload == b"hello"


def test_unsubscribing_ends_the_messages(broker, tools, wire):
    subscriber = tools.subscribe("kept", "left", qos=1, arguments=["-U", "left"])
    subscriber.wait_line(lambda line: "UNSUBACK" in line, "UNSUBACK")
    tools.publish("left", "nobody", qos=1)
    tools.publish("kept", "somebody", qos=1)
    assert [message.topic for message in subscriber.take_rest()] == ["kept"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_may_hold_any_character(broker, tools, version):
    topic = "Überschrift/日本語/ spaced /🐦//"
    received = tools.subscribe(topic, qos=1, version=version)
    tools.publish(topic, "hello", qos=1, version=version)
    assert received.take_one().topic == topic

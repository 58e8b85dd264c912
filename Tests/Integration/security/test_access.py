"""Access files: the same file, the same clients and the same topics in Martlet and in mosquitto, and the same answers."""

import random
import signal

import pytest
from harness.broker import Broker
from harness.waiting import wait_until
from harness.wire import PINGREQ, PINGRESP, PUBACK, PUBLISH, Wire, frame

NOT_AUTHORIZED = 0x87
LEVELS = ["a", "b", "c1", "u1", "$x"]
CLIENTS = [("c1", "u1"), ("c1", None), ("c2", "u2"), ("a/b", "u1"), ("c+", "u1"), ("c3", "nobody")]

TOPICS = [
    *LEVELS,
    *(f"{first}/{second}" for first in LEVELS for second in LEVELS),
    *(f"{first}/{second}/{third}" for first in ["a", "u1", "$x"] for second in ["a", "c1", "u1"] for third in ["b", "c1"]),
    "a/a/b/c1",
]  # fmt: skip


def rules(seed: int) -> str:
    """A random access file that both brokers understand alike."""
    chance = random.Random(seed)

    def filter(levels: list[str]) -> str:
        parts = [chance.choice(levels) for _ in range(chance.randint(1, 3))]
        if chance.random() < 0.4:
            parts.append("#")
        return "/".join(parts)

    def access() -> str:
        return chance.choice(["read ", "write ", "readwrite ", "deny ", ""])

    lines = [f"topic {access()}{filter([*LEVELS, '+'])}" for _ in range(chance.randint(0, 2))]
    for user in ["u1", "u2"]:
        lines.append(f"user {user}")
        lines += [f"topic {access()}{filter([*LEVELS, '+'])}" for _ in range(chance.randint(0, 4))]
    lines += [f"pattern {access()}{filter(['a', 'b', '%c', '%u', '+'])}" for _ in range(chance.randint(0, 3))]
    # Who sees and says everything, so that the others can be watched.
    lines += ["user observer", "topic readwrite #", "topic readwrite $x/#"]
    return "\n".join(lines) + "\n"


def drain(wire: Wire) -> list[str]:
    """The topics of all messages that were on their way."""
    wire.send(frame(PINGREQ, 0, b""))
    topics = []
    while (packet := wire.receive()).kind != PINGRESP:
        assert packet.kind == PUBLISH, packet
        topics.append(packet.topic)
    return topics


def rights(broker: Broker) -> dict:
    """What each client can write and read there."""
    observer = Wire(broker.port)
    assert observer.connect("observer", user="observer", password="x")[1] == 0
    observer.subscribe("#")
    observer.subscribe("$x/#")
    found = {}
    for client, user in CLIENTS:
        wire = Wire(broker.port)
        assert wire.connect(client, user=user, password="x" if user else None)[1] == 0
        for topic in TOPICS:
            wire.publish(topic)
        drain(wire)
        written = drain(observer)
        wire.subscribe("#")
        wire.subscribe("$x/#")
        for topic in TOPICS:
            observer.publish(topic)
        drain(observer)
        found[client, user] = (sorted(written), sorted(drain(wire)))
        wire.close()
    observer.close()
    return found


@pytest.mark.martlet("is what it is compared with")
@pytest.mark.parametrize("seed", range(8))
def test_mosquitto_gives_the_same_answers(start_broker, reference, tmp_path, seed):
    (tmp_path / "rules").write_text(rules(seed))
    expected = rights(reference("acl_file {directory}/rules"))
    assert rights(start_broker(configuration="acl_file {directory}/rules")) == expected, rules(seed)


@pytest.mark.broker(configuration="acl_file {directory}/rules")
def test_a_publish_that_is_denied_is_acknowledged_and_goes_nowhere(start_broker, tmp_path):
    (tmp_path / "rules").write_text("topic read #\ntopic write open\n")
    broker = start_broker(configuration="acl_file {directory}/rules")
    wire = Wire(broker.port)
    wire.connect("client")
    wire.subscribe("#")
    wire.publish("closed", qos=1, identifier=7)
    assert wire.receive(PUBACK).body[2] == NOT_AUTHORIZED
    wire.publish("open", qos=1, identifier=8)
    assert {wire.receive().kind, wire.receive().kind} == {PUBACK, PUBLISH}
    wire.close()


@pytest.mark.martlet("has no such option")
@pytest.mark.parametrize("checks, reason", [("true", NOT_AUTHORIZED), ("false", 0)])
def test_a_subscription_of_no_use_is_refused_on_request(start_broker, tmp_path, checks, reason):
    (tmp_path / "rules").write_text("topic read a/#\npattern read devices/%c/#\n")
    broker = start_broker(configuration="acl_file {directory}/rules\nmartlet_acl_check_subscribe " + checks)
    wire = Wire(broker.port)
    wire.connect("c1")
    for filter in ["#", "a/b", "+/b", "devices/c1/x", "devices/+/x"]:
        assert wire.subscribe(filter) == 0, filter
    for filter in ["b", "devices/c2/x", "$SYS/#"]:
        assert wire.subscribe(filter) == reason, filter
    wire.close()


@pytest.mark.parametrize("checks, kept", [("true", ["b"]), ("false", ["a", "b"])])
def test_a_retained_message_is_withheld_when_its_publisher_may_not_write_there_any_more(start_broker, tmp_path, checks, kept):
    everybody = "pattern read #\nuser one\ntopic write b\n"
    (tmp_path / "rules").write_text(everybody + "topic write a\n")
    broker = start_broker(configuration="acl_file {directory}/rules\ncheck_retain_source " + checks)
    publisher = Wire(broker.port)
    publisher.connect("publisher", user="one", password="x")
    publisher.publish("a", "kept", retain=True)
    publisher.publish("b", "kept", retain=True)
    publisher.ping()
    publisher.disconnect()
    (tmp_path / "rules").write_text(everybody)
    broker.signal(signal.SIGHUP)
    # Mosquitto does not say when the new rules count.
    broker.wait_for_log("(?i)reload.*config|config reloaded")

    def seen():
        later = Wire(broker.port)
        later.connect("later")
        later.subscribe("#")
        topics = sorted(drain(later))
        later.close()
        return topics

    wait_until(lambda: seen() == kept, f"a subscriber gets {kept}")

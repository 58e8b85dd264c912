"""Retained messages: kept for those who come later, replaced, cleared."""

import pytest
from harness.mosquitto import VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_message_meets_a_later_subscriber(loops_broker, tools, version, qos):
    before = tools.subscribe("kept/#", qos=2, version=version)
    tools.publish("kept/one", "value", qos=qos, retain=True, version=version)
    live = before.take_one()
    assert (live.payload, live.qos, live.retain) == (b"value", qos, False)
    kept = tools.subscribe("kept/+", qos=2, version=version).take_one()
    assert (kept.topic, kept.payload, kept.qos, kept.retain) == ("kept/one", b"value", qos, True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_one_replaces_the_one_before(loops_broker, tools, version):
    for payload in ["first", "second", "last"]:
        tools.publish("kept", payload, qos=1, retain=True, version=version)
    assert [message.payload for message in tools.subscribe("kept", qos=1, version=version).take_rest()] == [b"last"]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_payload_clears(loops_broker, tools, version):
    tools.publish("cleared", "value", qos=1, retain=True, version=version)
    tools.publish("kept", "value", qos=1, retain=True, version=version)
    tools.publish("cleared", "", qos=1, retain=True, version=version)
    assert [message.topic for message in tools.subscribe("#", qos=1, version=version).take_rest()] == ["kept"]


def test_a_thousand_topics_are_kept(broker, wire):
    publisher, subscriber = wire(), wire()
    publisher.connect("publisher")
    for number in range(1000):
        publisher.publish(f"many/{number}", str(number), retain=True)
    publisher.ping()
    subscriber.connect("subscriber")
    subscriber.subscribe("many/#")
    assert {subscriber.receive().topic for _ in range(1000)} == {f"many/{number}" for number in range(1000)}


def test_retained_only_and_remove_retained(broker, tools):
    for number in range(5):
        tools.publish(f"rooms/{number}", "lit", qos=1, retain=True)
    observer = tools.subscribe("rooms/#", qos=1)
    assert [message.retain for message in observer.take(5)] == [True] * 5
    tools.start("mosquitto_sub", "-t", "rooms/#", "-q", "1", "--remove-retained", "--retained-only")
    assert [message.payload for message in observer.take(5)] == [b""] * 5
    assert tools.subscribe("rooms/#", qos=1).take_rest() == []


def test_retain_as_published_is_told_with_the_live_message(broker, wire):
    subscriber, publisher = wire(), wire()
    subscriber.connect("subscriber")
    subscriber.subscribe("told", 0, options=0x08)
    publisher.connect("publisher")
    publisher.publish("told", "value", retain=True)
    assert subscriber.receive().flags & 1


@pytest.mark.parametrize("handling, again", [(0, True), (1, False), (2, False)])
def test_retain_handling_says_whether_subscribing_again_repeats(broker, tools, wire, handling, again):
    tools.publish("handled", "value", qos=1, retain=True)
    subscriber = wire()
    subscriber.connect("subscriber")
    subscriber.subscribe("handled", 0, options=handling << 4)
    if handling != 2:
        assert subscriber.receive().topic == "handled"
    subscriber.subscribe("handled", 0, options=handling << 4)
    if again:
        assert subscriber.receive().topic == "handled"
    subscriber.ping()

"""Wildcards, and the topics that begin with $."""

import struct

import pytest
from harness.mosquitto import VERSIONS
from harness.wire import SUBACK, SUBSCRIBE, frame, text

TOPICS = ["a", "a/b", "a/b/c", "a/b/c/d", "/a", "/", "a/", "a//c", "b/b/c", "other"]

MATCHES = {
    "#": TOPICS,
    "+": ["a", "other"],
    "+/+": ["a/b", "/a", "/", "a/"],
    "/+": ["/a", "/"],
    "a/#": ["a", "a/b", "a/b/c", "a/b/c/d", "a/", "a//c"],
    "a/+": ["a/b", "a/"],
    "a/+/c": ["a/b/c", "a//c"],
    "+/b/#": ["a/b", "a/b/c", "a/b/c/d", "b/b/c"],
    "+/+/+/+": ["a/b/c/d"],
    "a/b/c/#": ["a/b/c", "a/b/c/d"],
    "/#": ["/a", "/"],
    "a": ["a"],
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_filter_receives_what_it_matches(loops_broker, tools, version):
    subscribers = {filter: tools.subscribe(filter, version=version, wait=False) for filter in MATCHES}
    for subscriber in subscribers.values():
        subscriber.wait_subscribed()
    for topic in TOPICS:
        tools.publish(topic, "x", qos=1, version=version)
    received = {}
    for filter, subscriber in subscribers.items():
        received[filter] = [message.topic for message in subscriber.take_rest() if not message.topic.startswith("fence/")]
    assert received == MATCHES


@pytest.mark.parametrize("version", VERSIONS)
def test_a_filter_receives_the_retained_messages_that_it_matches(loops_broker, tools, version):
    for topic in TOPICS:
        tools.publish(topic, "x", qos=1, retain=True, version=version)
    subscribers = {filter: tools.subscribe(filter, version=version, wait=False) for filter in MATCHES}
    for filter, subscriber in subscribers.items():
        subscriber.wait_subscribed()
        topics = sorted(m.topic for m in subscriber.take_rest() if not m.topic.startswith("fence/"))
        assert topics == sorted(MATCHES[filter]), filter


@pytest.mark.broker(configuration="sys_interval 1")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_leading_wildcard_does_not_match_a_topic_with_a_dollar(broker, tools, version):
    tools.subscribe("$SYS/broker/uptime", version=version).take_one()
    for filter in ["#", "+/broker/uptime", "+/#"]:
        topics = [message.topic for message in tools.subscribe(filter, version=version).take_rest()]
        assert not [topic for topic in topics if topic.startswith("$")], filter
    assert tools.subscribe("$SYS/#", version=version).take_one().topic.startswith("$SYS/")
    assert tools.subscribe("$SYS/+/uptime", version=version).take_one().topic == "$SYS/broker/uptime"


@pytest.mark.parametrize("version", VERSIONS)
def test_overlapping_filters_deliver_once(broker, tools, version):
    subscriber = tools.subscribe("a/#", "a/+", "a/b", qos=1, version=version)
    tools.publish("a/b", "once", qos=1, version=version)
    assert subscriber.take_one().payload == b"once"


LENIENT = pytest.mark.martlet("mosquitto 2.0 accepts it")
MALFORMED = ["a/#/b", "a#", "+a", "#/", "$share/a+/b", *(pytest.param(f, marks=LENIENT) for f in ["$share/group", "$share//a"])]


@pytest.mark.parametrize("filter", MALFORMED)
def test_a_malformed_filter_ends_the_connection_or_is_refused(broker, wire, filter):
    client = wire()
    client.connect("malformed")
    client.send(frame(SUBSCRIBE, 2, struct.pack(">H", 1) + b"\x00" + text(filter) + b"\x00"))
    answer = client.receive()
    assert answer is None or answer.kind != SUBACK or answer.body[-1] >= 0x80

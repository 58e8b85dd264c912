"""Wills: published for a client that is gone without a word, and for no other."""

import struct

import pytest
from harness.mosquitto import VERSIONS
from harness.wire import Will


def doomed(tools, version, qos=0, *more):
    """A client with a will, ready to be killed."""
    will = ["--will-topic", "wills/doomed", "--will-payload", "gone", "--will-qos", str(qos)]
    return tools.subscribe("nothing", version=version, arguments=[*will, *more])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_killed_client_leaves_its_will(loops_broker, tools, version, qos):
    observer = tools.subscribe("wills/#", qos=2, version=version)
    doomed(tools, version, qos).kill()
    will = observer.take_one()
    assert (will.topic, will.payload, will.qos, will.retain) == ("wills/doomed", b"gone", qos, False)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_retained_will_meets_a_later_subscriber(loops_broker, tools, version):
    observer = tools.subscribe("wills/#", version=version)
    doomed(tools, version, 1, "--will-retain").kill()
    assert not observer.take_one().retain
    assert tools.subscribe("wills/#", version=version).take_one().retain


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_says_goodbye_leaves_none(broker, tools, wire, version):
    observer = tools.subscribe("wills/#", version=version)
    client = wire(version)
    client.connect("polite", will=Will("wills/polite", "gone"))
    client.disconnect()
    broker.wait_for_log("polite.*disconnected")
    assert observer.take_rest() == []


def test_a_will_carries_its_properties(broker, tools):
    observer = tools.subscribe("wills/#")
    doomed(
        tools, "mqttv5", 0,
        "-D", "will", "content-type", "text/plain", "-D", "will", "user-property", "reason", "crash",
        "-D", "will", "response-topic", "answers",
    ).kill()  # fmt: skip
    will = observer.take_one()
    assert (will.content_type, will.response_topic, will.user_properties) == ("text/plain", "answers", "reason:crash")


def test_a_disconnect_with_reason_4_publishes_the_will(broker, tools, wire):
    observer = tools.subscribe("wills/#")
    client = wire()
    client.connect("doomed", will=Will("wills/doomed", "asked for"))
    client.disconnect(0x04)
    assert observer.take_one().payload == b"asked for"


def test_a_delayed_will_is_not_published_when_the_client_is_back_in_time(broker, tools, wire):
    observer = tools.subscribe("wills/#")
    expiry = b"\x11" + struct.pack(">I", 60)
    delay = b"\x18" + struct.pack(">I", 60)
    client = wire()
    client.connect("doomed", will=Will("wills/doomed", "gone", properties=delay), properties=expiry)
    client.close()
    again = wire()
    assert again.connect("doomed", clean=False, properties=expiry) == (True, 0)
    assert observer.take_rest() == []


def test_a_delayed_will_is_published_when_the_session_ends_first(broker, tools, wire):
    observer = tools.subscribe("wills/#")
    delay = b"\x18" + struct.pack(">I", 60)
    client = wire()
    client.connect("doomed", will=Will("wills/doomed", "gone", properties=delay), properties=b"\x11" + struct.pack(">I", 1))
    client.close()
    assert observer.take_one().payload == b"gone"


def test_a_delayed_will_is_published_when_its_delay_is_over(broker, tools, wire):
    observer = tools.subscribe("wills/#")
    delay = b"\x18" + struct.pack(">I", 1)
    client = wire()
    client.connect("doomed", will=Will("wills/doomed", "gone", properties=delay), properties=b"\x11" + struct.pack(">I", 60))
    client.close()
    assert observer.take_one().payload == b"gone"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_takeover_publishes_the_will_of_the_one_who_goes(broker, tools, wire, version):
    observer = tools.subscribe("wills/#")
    first, second = wire(version), wire(version)
    first.connect("doomed", will=Will("wills/doomed", "taken over"))
    second.connect("doomed")
    assert observer.take_one().payload == b"taken over"

"""Version 5's properties, from mosquitto_pub through the broker to mosquitto_sub."""

import json

import pytest


def test_every_property_of_a_message_is_passed_on(broker, tools):
    received = tools.subscribe("described", qos=1)
    tools.publish(
        "described", "hello", qos=1,
        arguments=[
            "-D", "publish", "content-type", "text/plain",
            "-D", "publish", "response-topic", "answers/here",
            "-D", "publish", "correlation-data", "abc",
            "-D", "publish", "payload-format-indicator", "1",
            "-D", "publish", "message-expiry-interval", "100",
            "-D", "publish", "user-property", "first", "1",
            "-D", "publish", "user-property", "second", "2",
            "-D", "publish", "user-property", "first", "3",
        ],
    )  # fmt: skip
    message = received.take_one()
    assert message.content_type == "text/plain"
    assert message.response_topic == "answers/here"
    assert message.correlation_data == "abc"
    assert message.payload_format == "1"
    assert 98 <= int(message.expiry_seconds) <= 100
    assert message.user_properties == "first:1 second:2 first:3"


def test_properties_are_retained_with_the_message(broker, tools):
    tools.publish("described", "hello", qos=1, retain=True, arguments=["-D", "publish", "content-type", "text/plain"])
    assert tools.subscribe("described", qos=1).take_one().content_type == "text/plain"


def test_an_older_client_receives_the_message_without_them(broker, tools):
    received = tools.subscribe("described", version="mqttv311")
    tools.publish("described", "hello", arguments=["-D", "publish", "content-type", "text/plain"])
    message = received.take_one()
    assert (message.payload, message.content_type) == (b"hello", "")


def test_a_subscription_identifier_comes_with_each_message(broker, tools):
    received = tools.subscribe("counted", qos=1, arguments=["-D", "subscribe", "subscription-identifier", "42"])
    tools.publish("counted", "hello", qos=1)
    assert received.take_one().subscription_identifiers == "42"


def test_an_expired_message_is_not_delivered(broker, tools):
    tools.publish("short", "gone", qos=1, retain=True, arguments=["-D", "publish", "message-expiry-interval", "1"])
    tools.publish("long", "here", qos=1, retain=True, arguments=["-D", "publish", "message-expiry-interval", "100"])
    clock = tools.subscribe("clock", arguments=["-W", "3"])
    clock.wait()
    assert [message.topic for message in tools.subscribe("short", "long", qos=1).take_rest()] == ["long"]


@pytest.mark.alone("a node does not know of all subscribers of the others")
def test_a_publisher_is_told_that_nobody_subscribes(broker, tools):
    said = tools.publish("nobody/here", "hello", qos=1)
    assert "PUBACK" in said
    assert "RC:16" in said
    tools.subscribe("somebody/here", qos=1)
    assert "RC:0" in tools.publish("somebody/here", "hello", qos=1)


def test_output_as_json(broker, tools):
    subscriber = tools.start("mosquitto_sub", "-V", "mqttv5", "-t", "as/json", "-q", "1", "-C", "1", "-F", "%J", "-d")
    subscriber.wait_line(lambda line: line.startswith("Subscribed"), "SUBACK")
    tools.publish("as/json", json.dumps({"on": True}), qos=1, arguments=["-D", "publish", "user-property", "k", "v"])
    assert subscriber.wait() == 0
    lines = [line for line in subscriber.lines if line.startswith("{")]
    if not lines:
        pytest.skip("this mosquitto_sub was built without JSON")
    message = json.loads(lines[0])
    assert message["topic"] == "as/json"
    assert message["payload"] == {"on": True}
    assert message["qos"] == 1


def test_a_connection_may_carry_every_property(broker, tools):
    said = tools.publish(
        "plain", "hello", qos=1,
        arguments=[
            "-D", "connect", "session-expiry-interval", "10",
            "-D", "connect", "receive-maximum", "5",
            "-D", "connect", "maximum-packet-size", "1000",
            "-D", "connect", "topic-alias-maximum", "3",
            "-D", "connect", "request-response-information", "1",
            "-D", "connect", "request-problem-information", "1",
            "-D", "connect", "user-property", "k", "v",
        ],
    )  # fmt: skip
    assert "PUBACK" in said

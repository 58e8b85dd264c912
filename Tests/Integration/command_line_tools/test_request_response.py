"""mosquitto_rr asks, a responder answers where it is told to."""

import threading

import pytest
from harness.wire import PUBLISH, Wire

CORRELATION_DATA, RESPONSE_TOPIC = 0x09, 0x08


def answer_one(port: int, ready: threading.Event, failures: list):
    """A responder of version 5: sends the payload back in capitals, with the correlation data that came."""
    try:
        responder = Wire(port)
        responder.connect("responder")
        responder.subscribe("requests", 0)
        ready.set()
        body = responder.receive(PUBLISH).body
        position = 2 + len("requests")
        properties, payload = body[position + 1 : position + 1 + body[position]], body[position + 1 + body[position] :]
        values = {}
        while properties:
            length = int.from_bytes(properties[1:3])
            values[properties[0]] = properties[: 3 + length]
            properties = properties[3 + length :]
        topic = values[RESPONSE_TOPIC][3:].decode()
        responder.publish(topic, payload.decode().upper(), properties=values.get(CORRELATION_DATA, b""))
        responder.disconnect()
    except Exception as failure:
        failures.append(failure)
        ready.set()


@pytest.mark.parametrize("correlation", [[], ["-D", "publish", "correlation-data", "17"]])
def test_a_request_is_answered(loops_broker, tools, correlation):
    ready, failures = threading.Event(), []
    responder = threading.Thread(target=answer_one, args=(loops_broker.port, ready, failures))
    responder.start()
    ready.wait()
    assert tools.request("requests", "answers/mine", "question", arguments=correlation) == b"QUESTION"
    responder.join()
    assert failures == []


def test_a_request_of_version_311_is_answered(broker, tools, wire):
    responder = wire("mqttv311")
    responder.connect("responder")
    responder.subscribe("requests")
    asking = tools.start("mosquitto_rr", "-V", "mqttv311", "-t", "requests", "-e", "answers", "-m", "question", "-W", "10")
    responder.receive(PUBLISH)
    responder.publish("answers", "ANSWER")
    assert asking.wait() == 0
    assert "ANSWER" in asking.lines

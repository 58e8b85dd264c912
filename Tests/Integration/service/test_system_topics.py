"""$SYS: the broker's own numbers, under mosquitto's names."""

import re

import pytest

NAMES = """
version uptime
clients/total clients/maximum clients/connected clients/disconnected clients/active clients/inactive clients/expired
messages/received messages/sent messages/stored store/messages/count store/messages/bytes
publish/messages/received publish/messages/sent publish/messages/dropped publish/bytes/received publish/bytes/sent
bytes/received bytes/sent subscriptions/count shared_subscriptions/count retained_messages/count
""".split()

RATES = """
load/messages/received load/messages/sent load/publish/received load/publish/sent
load/bytes/received load/bytes/sent load/sockets load/connections
""".split()

EXPECTED = {f"$SYS/broker/{name}".replace("retained_messages", "retained messages") for name in NAMES} | {
    f"$SYS/broker/{rate}/{span}" for rate in RATES for span in ("1min", "5min", "15min")
}

#: What mosquitto 2.1 has and 2.0 has not, what its manual has and it never publishes, and what is Martlet's own.
MORE = {
    f"$SYS/broker/{name}"
    for name in """
    connections/socket/count connections/refused/count packet/out/count packet/out/bytes heap/current heap/maximum
    mqtt/connect/received mqtt/connack/sent mqtt/publish/received mqtt/publish/sent mqtt/puback/received mqtt/puback/sent
    mqtt/subscribe/received mqtt/suback/sent mqtt/pingreq/received mqtt/pingresp/sent
    publish/messages/dropped/queue_full publish/messages/dropped/output_full publish/messages/dropped/not_authorised
    """.split()
} | {f"$SYS/broker/load/publish/dropped/{span}" for span in ("1min", "5min", "15min")}

#: mosquitto publishes these only where they ever changed.
ON_CHANGE = {"$SYS/broker/clients/expired", "$SYS/broker/publish/messages/dropped"}

pytestmark = pytest.mark.broker(configuration="sys_interval 1")


def collect(subscriber, wanted) -> dict[str, str]:
    values = {}
    while not wanted <= values.keys():
        message = subscriber.take_one()
        values[message.topic] = message.payload.decode()
    return values


def test_every_name_is_there(broker, tools, program):
    # Something for every number to count: most topics are published when their value changes.
    subscriber = tools.subscribe("$SYS/#", qos=1)
    tools.subscribe("$share/group/any", qos=1)
    tools.publish("any", "thing", qos=1, retain=True)
    tools.subscribe("kept", qos=1, client_id="away", arguments=["-c"]).terminate()
    tools.publish("kept", "thing", qos=1)
    values = collect(subscriber, EXPECTED | MORE if program.is_martlet else EXPECTED - ON_CHANGE)
    for topic, value in values.items():
        if "/load/" in topic:
            assert re.fullmatch(r"\d+\.\d\d", value), (topic, value)
        elif topic.endswith("/uptime"):
            assert re.fullmatch(r"\d+ seconds", value)
        elif not topic.endswith("/version"):
            assert re.fullmatch(r"\d+", value), (topic, value)


def test_the_numbers_count(broker, tools):
    counted = tools.subscribe("$SYS/broker/clients/connected", "$SYS/broker/retained messages/count", qos=1)
    before = {}
    while len(before) < 2:
        message = counted.take_one()
        before[message.topic] = int(message.payload)
    subscriber = tools.subscribe("any", qos=1)
    tools.publish("any/kept", "thing", qos=1, retain=True)
    after = dict(before)
    while after["$SYS/broker/clients/connected"] < 2 or not (
        after["$SYS/broker/retained messages/count"] > before["$SYS/broker/retained messages/count"]
    ):
        message = counted.take_one()
        after[message.topic] = int(message.payload)
    subscriber.terminate()
    while int(counted.take_one().payload) != 1:
        pass


def test_nobody_may_publish_there(broker, tools, wire):
    version = tools.subscribe("$SYS/broker/version").take_one().payload
    intruder = wire("mqttv311")
    intruder.connect("intruder")
    intruder.publish("$SYS/broker/version", "mine", retain=True)
    tools.subscribe("$SYS/broker/uptime").take(2)
    assert tools.subscribe("$SYS/broker/version").take_one().payload == version


@pytest.mark.broker(configuration="sys_interval 0")
def test_an_interval_of_0_turns_them_off(broker, tools):
    topics = [message.topic for message in tools.subscribe("$SYS/#").take_rest()]
    assert set(topics) <= {"$SYS/broker/version"}

"""What crosses a bridge, and under which names: to Martlet and to mosquitto, and from mosquitto."""

import pytest

from bridges.links import is_connected

LINES = """topic out/# out 2 l/ r/
topic in/# in 2 l/ r/
topic both/# both 1
topic "" out 1 one/here other/there
"""


@pytest.fixture(params=["martlet", "mosquitto"])
def other(request, start_broker):
    return start_broker() if request.param == "martlet" else request.getfixturevalue("reference")("")


@pytest.mark.parametrize("version", ["mqttv31", "mqttv311", "mqttv50"])
def test_messages_cross_under_their_names_there(bridge_to, other, tools_for, version):
    here = is_connected(bridge_to(other.port, f"{LINES}bridge_protocol_version {version}"))
    check_crossing(tools_for(here.port), tools_for(other.port))


def test_bridge_of_mosquitto_crosses_the_same(start_broker, reference, tools_for):
    other = start_broker()
    here = reference(f"connection b\naddress 127.0.0.1:{other.port}\nrestart_timeout 1\n{LINES}")
    there = tools_for(other.port)
    watcher = there.subscribe("$SYS/broker/connection/+/state", qos=1)
    while watcher.take_one().payload != b"1":
        pass
    check_crossing(tools_for(here.port), there)


def check_crossing(here, there):
    at_here, at_there = here.subscribe("#", qos=2), there.subscribe("#", qos=2)
    for qos in (0, 1, 2):
        here.publish(f"l/out/{qos}", "o", qos=qos)
        here.publish(f"both/{qos}", "h", qos=qos)
    here.publish("one/here", "1", qos=1)
    there.publish("end/there", "e", qos=2)
    for qos in (0, 1, 2):
        there.publish(f"r/in/{qos}", "i", qos=qos)
        there.publish(f"r/out/{qos}", "n", qos=qos)
        there.publish(f"both/{qos}", "t", qos=qos)
    there.publish("both/end", "e", qos=1)
    here.publish("both/last", "e", qos=1)
    wanted = {("l/in/0", b"i", 0), ("l/in/1", b"i", 1), ("l/in/2", b"i", 2), ("both/0", b"t", 0), ("both/1", b"t", 1), ("both/2", b"t", 1)}
    take_all(at_here, wanted | {("both/end", b"e", 1)})
    wanted = {("r/out/0", b"o", 0), ("r/out/1", b"o", 1), ("r/out/2", b"o", 2), ("both/0", b"h", 0), ("both/1", b"h", 1), ("both/2", b"h", 1)}
    take_all(at_there, wanted | {("other/there", b"1", 1), ("both/last", b"e", 1)})


def take_all(subscriber, wanted):
    """Takes messages until these have come, of which none may come twice; what is of QoS 2 is told when it is released."""
    found = set()
    while not wanted <= found:
        message = subscriber.take_one()
        assert (message.topic, message.payload, message.qos) not in found, "a message came twice"
        found.add((message.topic, message.payload, message.qos))


def test_messages_wait_while_the_other_broker_is_away(bridge_to, start_broker, tools_for, tmp_path):
    other = start_broker(configuration=f"persistence true\npersistence_location {tmp_path}/\npersistence_file other.db")
    tools_for(other.port).subscribe("t", qos=2, version="mqttv311", client_id="keeper", arguments=["-c"]).kill()
    here = is_connected(bridge_to(other.port, "topic t out 2"))
    other.kill()
    for number in range(20):
        tools_for(here.port).publish("t", str(number), qos=1 + number % 2)
    other.restart()
    keeper = tools_for(other.port).subscribe("t", qos=2, version="mqttv311", client_id="keeper", arguments=["-c"], wait=False)
    messages = keeper.take(20)
    for qos in (1, 2):
        assert [message.payload for message in messages if message.qos == qos] == [b"%d" % number for number in range(qos - 1, 20, 2)]

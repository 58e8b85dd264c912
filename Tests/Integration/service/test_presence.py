"""Who comes and goes, as messages below $SYS/brokers/; and clients that do not take what they are sent."""

import json

import pytest
from harness.wire import PUBLISH

pytestmark = pytest.mark.martlet("the events are not mosquitto's")

RULES = """
topic readwrite #
user observer
topic read fence/#
topic read $SYS/brokers/#
user reader
topic read $SYS/#
topic read #
"""
HERE = "$SYS/brokers/house/clients/"
EVENTS = "$SYS/brokers/+/clients/#"


@pytest.fixture
def watch(start_broker, tools_for, tmp_path):
    """Starts a broker that tells of clients, and somebody who listens."""

    def start(events: str, *, user: str = "observer", threads: int = 1, rules: str = RULES):
        configuration = f"martlet_presence_events {events}\nmartlet_node_name house\n"
        if rules:
            (tmp_path / "rules").write_text(rules)
            configuration += "acl_file {directory}/rules"
        broker = start_broker("--threads", str(threads), configuration=configuration)
        tools = tools_for(broker.port)
        return broker, tools.subscribe(EVENTS, qos=1, client_id="observer", arguments=["-u", user])

    return start


def told(messages):
    """The event's last two levels, and its object."""
    return [(message.topic.removeprefix(HERE), json.loads(message.payload)) for message in messages]


def own(events):
    """Without those of the observer and of the fence's publisher."""
    return [(topic, event) for topic, event in events if topic.startswith("cli")]


@pytest.mark.parametrize("threads", [1, 4])
def test_who_comes_and_goes_is_published(watch, wire_to, threads):
    broker, observer = watch("connections", threads=threads)
    client = wire_to(broker.port, "mqttv311")
    client.connect("cli/ent", keep_alive=60)
    client.publish("any", "thing")
    client.ping()
    client.disconnect()
    broker.wait_for_log(r"Client cli/ent \[.*\] disconnected")
    lost = wire_to(broker.port)
    lost.connect("client")
    lost.close()
    broker.wait_for_log(r"Client client \[.*\] disconnected: connection closed by client")
    messages = observer.take_rest()
    assert all(message.qos == 1 and not message.retain for message in messages)
    events = own(told(messages))
    (here, came), (gone, went) = [event for event in events if "%2F" in event[0]]
    assert (here, gone) == ("cli%2Fent/connected", "cli%2Fent/disconnected")
    broke = dict(events)["client/disconnected"]
    assert came["clientid"] == "cli/ent" and came["username"] is None and came["ipaddress"] == "127.0.0.1"
    assert came["sockport"] == broker.port and came["proto_ver"] == 4 and came["keepalive"] == 60 and came["clean_start"]
    assert came["connected_at"] == came["ts"] > 1_600_000_000_000
    assert went["session"] == came["session"] and went["reason_code"] == 0 and went["received_messages"] == 1
    assert went["disconnected_at"] >= went["connected_at"] == came["connected_at"]
    assert broke["reason_code"] is None and broke["reason"] == "the client closed its connection"


def test_subscriptions_and_refused_clients_are_published_too(watch, wire_to):
    broker, observer = watch("all")
    client = wire_to(broker.port)
    client.connect("client")
    client.subscribe("a/+", qos=1)
    client.disconnect()
    broker.wait_for_log(r"Client client \[.*\] disconnected\.")
    events = own(told(observer.take_rest()))
    assert [topic for topic, _ in events] == ["client/connected", "client/subscribed", "client/disconnected"]
    assert events[1][1]["topic"] == "a/+" and events[1][1]["subopts"]["qos"] == 1


@pytest.mark.parametrize("events, user, rules", [("none", "observer", RULES), ("all", "reader", RULES), ("all", "anybody", "")])
def test_nobody_else_reads_it(watch, wire_to, events, user, rules):
    broker, observer = watch(events, user=user, rules=rules)
    client = wire_to(broker.port)
    client.connect("client")
    client.disconnect()
    broker.wait_for_log(r"Client client \[.*\] disconnected\.")
    assert own(told(observer.take_rest())) == []


@pytest.mark.parametrize("policy", ["log", "disconnect"])
def test_a_client_that_acknowledges_nothing_is_told_of(start_broker, wire_to, policy):
    broker = start_broker(configuration=f"martlet_slow_client {policy} 1s\nmax_inflight_messages 1")
    slow, publisher = wire_to(broker.port), wire_to(broker.port)
    slow.connect("slow")
    slow.subscribe("any", qos=1)
    publisher.connect("publisher")
    for number in (1, 2):
        publisher.publish("any", str(number), qos=1, identifier=number)
    broker.wait_for_log("Client slow is slow: a message has waited for it for")
    if policy == "disconnect":
        broker.wait_for_log(r"Client slow \[.*\] disconnected: ")
    else:
        slow.receive(PUBLISH)
        slow.ping()

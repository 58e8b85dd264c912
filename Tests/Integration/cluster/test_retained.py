"""Retained messages of a cluster: set on one node, found on all, and deleted on all."""

import itertools

import pytest
from cluster import clients
from cluster.nats import NatsServer
from harness.program import run
from harness.waiting import PATIENCE, wait_until
from harness.wire import PUBACK, PUBLISH, SUBSCRIBE, Will, frame, text

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

#: Every test has topics of its own, so that it needs no broker of its own.
topics = (f"retained{number}" for number in itertools.count())


@pytest.fixture
def connect(wire_to):
    """A connected client of a node."""

    def connect(node, version: str = "mqttv311", name: str = "", **options):
        wire = wire_to(node.port, version)
        assert wire.connect(name, **options)[1] == 0
        return wire

    return connect


def publish(wire, topic: str, payload: str, qos: int = 1, **options):
    """A retained message."""
    clients.publish(wire, topic, payload, qos, retain=True, **options)


def found(connect, node, filter: str) -> dict[str, str]:
    """What a new subscriber of a node finds below a topic: topics and payloads."""
    wire = connect(node)
    # Behind all that is retained comes what the second filter asks for.
    filters = text(filter) + b"\x00" + text("$SYS/broker/subscribed/all") + b"\x00"
    wire.send(frame(SUBSCRIBE, 2, b"\x00\x01" + filters))
    texts: dict[str, str] = {}
    while (packet := wire.receive()).kind != PUBLISH or packet.topic != "$SYS/broker/subscribed/all":
        if packet.kind == PUBLISH:
            # Marked as retained, or live, if it was on its way.
            texts[packet.topic] = packet.body[2 + len(packet.topic.encode()) :].decode()
    wire.close()
    return {topic: value for topic, value in texts.items() if value}


def finds(connect, node, filter: str, texts: dict[str, str]):
    """Waits until a new subscriber of a node finds just this."""
    wait_until(lambda: found(connect, node, filter) == texts, f"{node.name} has {texts}")


@pytest.mark.parametrize("qos", range(3))
def test_what_is_set_on_one_node_is_found_on_all_and_deleted_on_all(nodes, connect, qos):
    topic = next(topics)
    for setter, node in enumerate(nodes):
        publish(connect(node), f"{topic}/{setter}", f"by {setter}", qos)
    expected = {f"{topic}/{setter}": f"by {setter}" for setter in range(3)}
    for node in nodes:
        finds(connect, node, f"{topic}/#", expected)
    for setter, node in enumerate(nodes):
        publish(connect(node), f"{topic}/{(setter + 1) % 3}", "", qos)
    for node in nodes:
        finds(connect, node, f"{topic}/#", {})


def test_whoever_publishes_finds_it_at_once(nodes, connect):
    """On each node's loops, without an acknowledgement."""
    for node in nodes:
        wire = connect(node)
        for number in range(50):
            topic = next(topics)
            wire.publish(topic, str(number), retain=True)
            wire.subscribe(topic)
            packet = wire.receive(PUBLISH)
            assert packet.topic == topic and packet.flags & 1


def test_two_nodes_at_once_end_with_one_value(nodes, connect):
    topic = next(topics)
    writers = [connect(node) for node in nodes]
    for number in range(30):
        for index, writer in enumerate(writers):
            writer.publish(f"{topic}/{number % 5}", f"{index} {number}", retain=True)
    # All are in the stream, and out of it again.
    for index, writer in enumerate(writers):
        publish(writer, f"{topic}/last{index}", "x")
    for node in nodes:
        wait_until(lambda node=node: len(found(connect, node, f"{topic}/#")) == 8, f"{node.name} has all topics")
        wait_until(lambda node=node: node.metric("martlet_cluster_retained_waiting") == 0, f"{node.name} has written all")
    wait_until(
        lambda: found(connect, nodes[0], f"{topic}/#") == found(connect, nodes[1], f"{topic}/#") == found(connect, nodes[2], f"{topic}/#"),
        "all have the same")  # fmt: skip
    values = found(connect, nodes[0], f"{topic}/#")
    assert all(values[f"{topic}/{number}"].split()[1] == str(25 + number) for number in range(5))


def test_a_topic_longer_than_a_subject(nodes, connect):
    topic = f"{next(topics)}/" + "l" * 4000
    publish(connect(nodes[0]), topic, "long")
    finds(connect, nodes[1], f"{topic.split('/')[0]}/#", {topic: "long"})
    publish(connect(nodes[2]), topic, "")
    finds(connect, nodes[1], f"{topic.split('/')[0]}/#", {})


def test_a_will_and_properties_cross_and_no_local_holds(nodes, connect, wire_to):
    topic = next(topics)
    properties = b"\x01\x01" + b"\x03\x00\x04text" + b"\x26\x00\x01a\x00\x01b"
    publish(connect(nodes[0], "mqttv5"), f"{topic}/p", "x", properties=properties)
    dying = wire_to(nodes[0].port)
    dying.connect("dying", will=Will(f"{topic}/w", "gone", retain=True))
    dying.socket.close()
    finds(connect, nodes[1], f"{topic}/#", {f"{topic}/p": "x", f"{topic}/w": "gone"})
    wire = connect(nodes[1], "mqttv5")
    wire.subscribe(f"{topic}/p")
    packet = wire.receive(PUBLISH)
    assert properties in packet.body
    # The client that has published it does not get it, wherever it subscribes.
    wire = connect(nodes[2], "mqttv5", "dying")
    wire.subscribe(f"{topic}/+", options=0x04)
    assert wire.receive(PUBLISH).topic == f"{topic}/p"
    wire.ping()


def test_it_expires_everywhere(site, nodes, connect):
    topic = next(topics)
    publish(connect(nodes[0], "mqttv5"), f"{topic}/short", "x", properties=b"\x02\x00\x00\x00\x01")
    publish(connect(nodes[0], "mqttv5"), f"{topic}/long", "y", properties=b"\x02\x00\x00\x03\xe8")
    for node in nodes:
        finds(connect, node, f"{topic}/#", {f"{topic}/long": "y"})
    wire = connect(nodes[2], "mqttv5")
    wire.subscribe(f"{topic}/long")
    body = wire.receive(PUBLISH).body
    assert any(b"\x02" + seconds.to_bytes(4, "big") in body for seconds in range(900, 1001))


def test_an_administrator_deletes_on_all(program, nodes, connect):
    topic = next(topics)
    writer = connect(nodes[0])
    for number in range(3):
        publish(writer, f"{topic}/{number}", "x")
    for node in nodes:
        finds(connect, node, f"{topic}/#", {f"{topic}/{number}": "x" for number in range(3)})
    done = run(program, "ctl", "retained", "--delete", "--socket", str(nodes[1].socket), f"{topic}/#")
    assert done.returncode == 0, done.stdout
    for node in nodes:
        finds(connect, node, f"{topic}/#", {})


def test_a_node_that_comes_later_has_all_and_one_that_was_killed_has_what_it_missed(tmp_path, start_nats, start_node, connect):
    server = start_nats()
    first = start_node(server.address, "persistence true", "first").is_ready()
    writer = connect(first)
    for number in range(300):
        writer.publish(f"a/{number}", f"old {number}", retain=True)
    publish(writer, "a/300", "old 300")
    second = start_node(server.address, "persistence true\nmartlet_threads 3", "second").is_ready()
    everything = {f"a/{number}": f"old {number}" for number in range(301)}
    # It lets nobody in before it has all.
    assert found(connect, second, "a/#") == everything
    second.broker.kill()
    for number in range(0, 300, 3):
        publish(writer, f"a/{number}", "")
    for number in range(1, 300, 3):
        publish(writer, f"a/{number}", "new")
    for number in range(0, 300, 3):
        del everything[f"a/{number}"]
        everything[f"a/{number + 1}"] = "new"
    second.broker.restart()
    second.is_ready()
    assert found(connect, second, "a/#") == everything
    assert found(connect, first, "a/#") == everything


def test_what_is_acknowledged_outlives_all_nodes(tmp_path, start_nats, start_node, connect):
    server = start_nats()
    names = ("first", "second")
    nodes = [start_node(server.address, "persistence true", name).is_ready() for name in names]
    for number, node in enumerate(nodes):
        wire = connect(node)
        for item in range(20):
            publish(wire, f"a/{number}/{item}", "kept", 1 + item % 2)
    for node in nodes:
        node.broker.kill()
    # Not from the nodes' disks: from the stream.
    fresh = start_node(server.address, "", "fresh").is_ready()
    assert found(connect, fresh, "a/#") == {f"a/{number}/{item}": "kept" for number in range(2) for item in range(20)}
    for node in nodes:
        node.broker.restart()


def test_a_brokers_own_messages_go_into_the_cluster_once(start_nats, start_node, connect):
    """What a single broker had is the cluster's when it joins; what was deleted meanwhile does not come back."""
    server = start_nats()
    alone = start_node("nats://127.0.0.1:1", "persistence true\nmartlet_cluster_detached local", "old")
    wire = connect(alone)
    for number in range(3):
        wire.publish(f"a/{number}", "old", retain=True)
    wire.ping()
    alone.broker.finish()
    # The changes that had not left are gone with the process; the store has the messages.
    alone.moves_to(server.address)
    other = start_node(server.address, "", "other").is_ready()
    publish(connect(other), "a/2", "newer")
    alone.broker.restart()
    alone.is_ready()
    everything = {"a/0": "old", "a/1": "old", "a/2": "newer"}
    for node in (alone, other):
        finds(connect, node, "a/#", everything)
    wait_until(lambda: alone.metric("martlet_cluster_retained_waiting") == 0, "it is a member")
    alone.broker.kill()
    publish(connect(other), "a/0", "")
    alone.broker.restart()
    alone.is_ready()
    for node in (alone, other):
        assert found(connect, node, "a/#") == {"a/1": "old", "a/2": "newer"}


def test_without_servers_no_acknowledgement_comes_and_with_them_it_does(start_nats, start_node, connect):
    server: NatsServer = start_nats()
    nodes = [start_node(server.address, "persistence true", name).is_ready() for name in ("first", "second")]
    wire = connect(nodes[0])
    server.kill()
    for node in nodes:
        wait_until(lambda node=node: node.get("/readyz")[0] == 503, f"{node.name} is away")
    wire.publish("a/0", "quick", retain=True)
    wire.publish("a/1", "sure", qos=1, retain=True)
    # Nothing but the answer to this.
    wire.ping()
    assert wire.take_received() == b""
    server.start()
    assert wire.receive(PUBACK, 2 * PATIENCE).identifier == 1
    nodes[1].is_ready()
    assert found(connect, nodes[1], "a/#") == {"a/0": "quick", "a/1": "sure"}

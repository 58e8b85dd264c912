"""Three nodes on three NATS servers: what is published on one reaches those who subscribe on any."""

import itertools

import pytest
from cluster.clients import numbers, publish, take, text_of
from harness.wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, Will
from harness.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

#: Every test has topics of its own, so that it needs no broker of its own.
topics = (f"bus{number}" for number in itertools.count())


@pytest.fixture
def clients(nodes, wire_to):
    """A connected client on each node."""

    def connect(version: str = "mqttv5"):
        wires = [wire_to(node.port, version) for node in nodes]
        for wire in wires:
            assert wire.connect()[1] == 0
        return wires

    return connect


def test_any_node_reaches_any_other(clients):
    topic = next(topics)
    receivers = clients("mqttv311")
    for wire in receivers:
        assert wire.subscribe(f"{topic}/#", 2) == 2
    for sender, wire in enumerate(clients("mqttv311")):
        for qos in range(3):
            publish(wire, f"{topic}/{sender}/{qos}", "x", qos)
            for receiver in receivers:
                packet = receiver.receive(PUBLISH)
                assert (packet.topic, packet.qos, text_of(packet, 4)) == (f"{topic}/{sender}/{qos}", qos, "x")
                if qos == 1:
                    receiver.acknowledge(PUBACK, packet.identifier)
                if qos == 2:
                    receiver.acknowledge(PUBREC, packet.identifier)
                    receiver.receive(PUBREL)
                    receiver.acknowledge(PUBCOMP, packet.identifier)


@pytest.mark.parametrize("filter, matching, other", [
    ("{}/+/c", "{}/b/c", "{}/b/d"), ("{}/#", "{}", "{}x"), ("{}/+", "{}/", "{}/a/b"), ("{}/ä b/*.>", "{}/ä b/*.>", "{}/ä b/x.y"),
    ("{}/%2F", "{}/%2F", "{}//"), ("{}//b", "{}//b", "{}/b"),
])  # fmt: skip
def test_filters_match_as_on_one_node(clients, filter, matching, other):
    topic = next(topics)
    here, there, _ = clients("mqttv311")
    here.subscribe(filter.format(topic), 1)
    here.subscribe(f"{topic}end", 1)
    for name in (other, matching):
        publish(there, name.format(topic), name, 1)
    publish(there, f"{topic}end", "", 1)
    came = []
    while not came or came[-1] != f"{topic}end":
        packet = here.receive(PUBLISH)
        here.acknowledge(PUBACK, packet.identifier)
        came.append(packet.topic)
    assert came == [matching.format(topic), f"{topic}end"]


def test_a_topic_longer_than_a_subject(clients):
    here, there, _ = clients("mqttv311")
    long = f"{next(topics)}/" + "l" * 4000
    here.subscribe(f"{long.split(chr(47))[0]}/+")
    there.publish(long, "x")
    assert here.receive(PUBLISH).topic == long


def test_filters_that_overlap_bring_one_copy(nodes, wire_to):
    topic = next(topics)
    receivers = []
    for filter in (f"{topic}/+/c", f"{topic}/b/+", f"{topic}/b/c", f"{topic}/#"):
        receivers.append(wire_to(nodes[0].port))
        receivers[-1].connect()
        receivers[-1].subscribe(filter)
    sender = wire_to(nodes[1].port)
    sender.connect()
    for number in range(20):
        sender.publish(f"{topic}/b/c", str(number))
    for receiver in receivers:
        assert [receiver.receive(PUBLISH).body[-len(str(number)):].decode() for number in range(20)] == [str(number) for number in range(20)]
        receiver.ping()


@pytest.mark.parametrize("qos", range(3))
def test_order_of_a_publisher_holds(clients, qos):
    topic = next(topics)
    receivers = clients("mqttv311")
    for receiver in receivers:
        receiver.subscribe(f"{topic}/+", 1)
    sender = clients("mqttv311")[2]
    for number in range(300):
        sender.publish(f"{topic}/x", str(number), qos=qos, identifier=number + 1)
    for receiver in receivers:
        assert take(receiver, 300) == numbers(0, 300)


def test_what_a_suback_causes_arrives(clients):
    """Two hundred times: a new subscription on one node, and a message from another as soon as that is confirmed."""
    wires, senders = clients(), clients()
    for number in range(200):
        topic = f"{next(topics)}/fence"
        receiver, sender = wires[number % 3], senders[(number + 1 + number // 3 % 2) % 3]
        receiver.subscribe(topic)
        sender.publish(topic, str(number))
        assert receiver.receive(PUBLISH).topic == topic


def test_properties_and_retain_cross(clients):
    topic = next(topics)
    here, there, _ = clients()
    here.subscribe(topic, options=0x08)  # Retain As Published
    properties = b"\x01\x01" + b"\x02\x00\x00\x00\x64" + b"\x03\x00\x04text" + b"\x26\x00\x01a\x00\x01b"
    there.publish(topic, "x", retain=True, properties=properties)
    packet = here.receive(PUBLISH)
    assert packet.flags & 1
    for part in (b"\x01\x01", b"\x03\x00\x04text", b"\x26\x00\x01a\x00\x01b"):
        assert part in packet.body
    assert any(b"\x02" + seconds.to_bytes(4, "big") in packet.body for seconds in range(40, 101))
    there.publish(topic, "", retain=True)
    here.receive(PUBLISH)


def test_no_local_holds_and_the_own_node_delivers_once(clients):
    topic = next(topics)
    here, there, _ = clients()
    here.subscribe(topic, options=0x04)  # No Local
    there.subscribe(topic)
    here.publish(topic, "own")
    assert there.receive(PUBLISH).body.endswith(b"own")
    there.publish(topic, "others")
    assert there.receive(PUBLISH).body.endswith(b"others")
    assert here.receive(PUBLISH).body.endswith(b"others")
    here.ping()
    there.ping()


def test_sys_is_each_nodes_own(nodes, wire_to):
    watcher = wire_to(nodes[0].port)
    watcher.connect()
    # The log speaks of the watcher's own connection, perhaps before the SUBACK.
    watcher.send_subscribe("$SYS/broker/log/N")
    while watcher.receive().kind != SUBACK:
        pass
    for node, name in ((nodes[1], "elsewhere"), (nodes[0], "here")):
        wire_to(node.port).connect(name)
    lines = [b""]
    while b" as here " not in lines[-1]:
        lines.append(watcher.receive(PUBLISH).body)
    assert not any(b"elsewhere" in line for line in lines)


def test_a_will_reaches_other_nodes(nodes, wire_to):
    topic = next(topics)
    watcher = wire_to(nodes[1].port)
    watcher.connect()
    watcher.subscribe(topic)
    dying = wire_to(nodes[0].port)
    dying.connect(will=Will(topic, "gone"))
    dying.socket.close()
    assert watcher.receive(PUBLISH).body.endswith(b"gone")


def test_a_megabyte_crosses_and_more_is_told(nodes, clients):
    topic = next(topics)
    here, there, _ = clients()
    here.subscribe(topic)
    there.publish(topic, "m" * ((1 << 20) - 200))
    assert len(here.receive(PUBLISH).body) > (1 << 20) - 200
    there.publish(topic, "m" * (1 << 20))
    there.publish(topic, "after")
    assert here.receive(PUBLISH).body.endswith(b"after")
    nodes[1].broker.wait_for_log(r"is larger than the servers' max_payload \(1048576\)")
    wait_until(lambda: nodes[1].metric("martlet_cluster_dropped_messages_total") >= 1, "it is counted")


def test_what_is_counted(nodes, clients):
    topic = next(topics)
    here, there, _ = clients()
    here.subscribe(topic)
    there.publish(topic, "x")
    here.receive(PUBLISH)
    wait_until(lambda: nodes[0].metric('martlet_cluster_messages_total{cluster="tests",direction="in"}') > 0, "it is counted", PATIENCE)
    wait_until(lambda: nodes[1].metric('martlet_cluster_messages_total{cluster="tests",direction="out"}') > 0, "it is counted there")
    assert nodes[0].metric("martlet_cluster_up") == 1
    assert "[+]cluster ok" in nodes[0].get("/readyz?verbose")[1]


def test_a_node_is_killed_and_comes_back(site, nodes, wire_to):
    nodes[2].broker.kill()
    here, there = wire_to(nodes[0].port), wire_to(nodes[1].port)
    for wire in (here, there):
        wire.connect()
        # What the first one has published may be on its way when the second one subscribes.
        topic = next(topics)
        # Waits until it is sure that the third one is gone.
        wire.subscribe(topic, identifier=2)
        wire.publish(topic, "x")
        assert wire.receive(PUBLISH)
    nodes[2].broker.restart()
    site.is_whole()
    third = wire_to(nodes[2].port)
    third.connect()
    third.subscribe(topic)
    here.publish(topic, "again")
    assert third.receive(PUBLISH).body.endswith(b"again")


def test_a_server_is_killed_and_its_node_goes_to_another(site, nodes, wire_to):
    topic = next(topics)
    receiver, sender = wire_to(nodes[0].port), wire_to(nodes[1].port)
    for wire in (receiver, sender):
        wire.connect()
    receiver.subscribe(topic)
    losses = nodes[0].metric("martlet_cluster_lost_connections_total")
    site.servers[0].kill()
    wait_until(lambda: nodes[0].metric("martlet_cluster_lost_connections_total") > losses, "the loss is counted")
    nodes[0].is_ready()
    # What was subscribed to before holds on the new connection, and what is subscribed to now does.
    for name in (topic, next(topics)):
        receiver.subscribe(name, identifier=3)
        sender.publish(name, "x")
        assert receiver.receive(PUBLISH).topic == name
    site.servers[0].start()
    site.is_whole()

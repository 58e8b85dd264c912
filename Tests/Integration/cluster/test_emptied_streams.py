"""Streams of the cluster that have become empty, or from which the last records have gone: nodes are started on them all the same."""

import pytest
from cluster.clients import publish
from cluster.site import Node, restart
from harness.waiting import PATIENCE, wait_until
from harness.wire import PUBACK, PUBLISH

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

RETAINED = "martlet_tests_retained"
LOG = "martlet_tests_log_0"
SESSIONS = "KV_martlet_tests_sessions"
STORE = "persistence true\nmartlet_cluster_partitions 1\nmartlet_cluster_session_wait 2"


def state(nats, stream: str) -> dict:
    return nats.request(f"$JS.API.STREAM.INFO.{stream}")["state"]


def are_stored(nats, count: int):
    """Nodes without a store acknowledge a retained message before the servers have it."""
    wait_until(lambda: state(nats, RETAINED)["last_seq"] == count, f"{count} are stored")


def is_emptied(nats, stream: str):
    def is_empty() -> bool:
        found = state(nats, stream)
        return found["messages"] == 0 and found["first_seq"] == found["last_seq"] + 1 > 1

    wait_until(is_empty, f"{stream} has become empty", 2 * PATIENCE)


def purge(nats, stream: str):
    assert nats.request(f"$JS.API.STREAM.PURGE.{stream}")["success"]


def expires(nats, wire):
    publish(wire, "a/1", "x", retain=True, properties=b"\x02\x00\x00\x00\x01")
    is_emptied(nats, RETAINED)


def is_purged(nats, wire):
    for number in range(3):
        publish(wire, f"a/{number}", "x", retain=True)
    are_stored(nats, 3)
    purge(nats, RETAINED)
    is_emptied(nats, RETAINED)


def loses_its_mark(nats, wire):
    """What a deletion leaves is there for a day; a purge stands for that."""
    publish(wire, "a/1", "x", retain=True)
    publish(wire, "a/1", "", retain=True)
    are_stored(nats, 2)
    purge(nats, RETAINED)
    is_emptied(nats, RETAINED)


def loses_its_last(nats, wire):
    publish(wire, "kept", "x", retain=True)
    publish(wire, "a/1", "x", retain=True, properties=b"\x02\x00\x00\x00\x01")
    are_stored(nats, 2)
    wait_until(lambda: state(nats, RETAINED)["messages"] == 1, "one has expired")


def lets_in_and_retains(nodes: list[Node], wire_to, text: str):
    """A client comes in on each, and finds what another one retains."""
    for node in nodes:
        node.is_ready()
    writer = wire_to(nodes[0].port)
    assert writer.connect()[1] == 0
    publish(writer, "after", text, retain=True)
    for node in nodes:
        reader = wire_to(node.port)
        assert reader.connect()[1] == 0
        reader.subscribe("after", 1)
        while not reader.receive(PUBLISH).body.endswith(text.encode()):
            pass
        reader.close()
    writer.close()


@pytest.mark.parametrize("becomes_empty", [expires, is_purged, loses_its_mark, loses_its_last])
@pytest.mark.parametrize("store", ["", "persistence true"])
def test_nodes_start_when_the_retained_stream_has_become_empty(start_nats, start_node, wire_to, becomes_empty, store):
    nats = start_nats()
    nodes = [start_node(nats.address, store, name=name).is_ready() for name in ("first", "second")]
    wire = wire_to(nodes[0].port)
    wire.connect()
    becomes_empty(nats, wire)
    wire.close()
    # One, with the other one there.
    restart(nodes[1:])
    nodes[1].is_ready()
    # All, and one that is new.
    restart(nodes)
    nodes.append(start_node(nats.address, store, name="third"))
    lets_in_and_retains(nodes, wire_to, "1")


@pytest.mark.parametrize("becomes_empty", [expires, is_purged])
def test_nodes_on_three_servers_start_when_the_retained_stream_has_become_empty(own, wire_to, becomes_empty):
    wire = wire_to(own.nodes[0].port)
    wire.connect()
    becomes_empty(own.servers[0], wire)
    wire.close()
    # One after the other, as for a new version; then all at once.
    for node in own.nodes:
        node.broker.stop()
        node.broker.restart()
        node.is_ready()
    restart(own.nodes)
    lets_in_and_retains(own.nodes, wire_to, "1")


def test_a_node_that_was_away_comes_back_when_what_it_missed_has_gone(start_nats, start_node, wire_to):
    """It was not started anew: it reads on where it was, and nothing is there any more."""
    nats = start_nats()
    nodes = [start_node(nats.address, name=name).is_ready() for name in ("first", "second")]
    wire = wire_to(nodes[0].port)
    wire.connect()
    publish(wire, "kept", "x", retain=True)
    nodes[1].broker.hang()
    wait_until(lambda: nodes[0].metric("martlet_cluster_other_nodes") == 0, "the other one has lost its lease", 3 * PATIENCE)
    publish(wire, "a/1", "x", retain=True, properties=b"\x02\x00\x00\x00\x01")
    are_stored(nats, 2)
    wait_until(lambda: state(nats, RETAINED)["messages"] == 1, "it has expired")
    nats.kill()
    nodes[1].broker.signal(18)
    nats.start()
    wire.close()
    lets_in_and_retains(nodes, wire_to, "1")


@pytest.mark.parametrize("stream", [LOG, SESSIONS])
def test_nodes_start_and_sessions_go_on_when_log_or_records_have_become_empty(start_nats, start_node, wire_to, stream):
    nats = start_nats()
    nodes = [start_node(nats.address, STORE, name=name).is_ready() for name in ("first", "second")]

    def receiver(node):
        wire = wire_to(node.port, "mqttv311")
        assert wire.connect("receiver", clean=False)[1] == 0
        return wire

    def arrives(node, text: str):
        sender, wire = wire_to(nodes[0].port), receiver(node)
        sender.connect()
        wire.subscribe("a", 1)
        publish(sender, "a", text)
        while not (packet := wire.receive(PUBLISH)).body.endswith(text.encode()):
            wire.acknowledge(PUBACK, packet.identifier)
        wire.acknowledge(PUBACK, packet.identifier)
        wire.ping()
        for one in (sender, wire):
            one.close()

    arrives(nodes[1], "0")
    purge(nats, stream)
    is_emptied(nats, stream)
    restart(nodes)
    for node in nodes:
        node.is_ready()
    arrives(nodes[1], "1")


def test_a_session_is_taken_up_when_what_it_lacks_of_the_log_has_gone(start_nats, start_node, wire_to):
    nats = start_nats()
    nodes = [start_node(nats.address, STORE, name=name).is_ready() for name in ("first", "second")]
    wire = wire_to(nodes[1].port, "mqttv311")
    wire.connect("receiver", clean=False)
    before = state(nats, SESSIONS)["last_seq"]
    wire.subscribe("a", 1)
    # The log has it; its record has it a moment later, and then the log may go.
    wait_until(lambda: state(nats, SESSIONS)["last_seq"] > before, "the session's record has its subscription")
    wire.disconnect()
    sender = wire_to(nodes[0].port)
    sender.connect()
    for number in range(5):
        publish(sender, "a", str(number))
    nodes[1].broker.kill()
    for number in range(5, 10):
        publish(sender, "a", str(number))
    purge(nats, LOG)
    is_emptied(nats, LOG)

    def is_let_in():
        again = wire_to(nodes[0].port, "mqttv311")
        try:
            return again if again.connect("receiver", clean=False)[1] == 0 else None
        except TimeoutError:
            # It waits for the lease of the node that is gone.
            return None

    again = wait_until(is_let_in, "its session is taken up", 4 * PATIENCE)
    publish(sender, "a", "after")
    while not (packet := again.receive(PUBLISH)).body.endswith(b"after"):
        again.acknowledge(PUBACK, packet.identifier)


def test_a_node_that_waits_says_for_what(start_nats, start_node):
    nats = start_nats()
    first = start_node(nats.address, name="first").is_ready()
    first.broker.hang()
    second = start_node(nats.address, name="second")
    # Until the lease of the first one is over.
    second.broker.wait_for_log("Cluster tests: not ready yet: 1 other node has not answered yet: ")
    assert "1 other node has not answered yet" in second.get("/readyz?verbose")[1]
    second.is_ready()
    first.broker.signal(18)

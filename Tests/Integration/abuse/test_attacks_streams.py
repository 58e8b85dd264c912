"""What one client can do to the streams of a cluster: leave one empty, and fill one. A well-behaved pair of the same node is beside it."""

import json
import threading
import time

import pytest
from cluster.nats import NatsServer
from cluster.site import Node
from harness.waiting import PATIENCE, wait_until
from harness.wire import DISCONNECT, PUBACK, Wire

from abuse.crew import resident_bytes
from abuse.siege import LISTENER

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

QUOTA_EXCEEDED = 0x97
#: Milliseconds that a message of the pair may take, on a machine that does other things as well.
LONGEST_MAX = 10_000


@pytest.fixture
def nats(tmp_path):
    server = NatsServer(tmp_path, "n1").start()
    yield server
    server.kill()


@pytest.fixture
def start_node(program, tmp_path, nats):
    nodes = []

    def start(lines: str) -> Node:
        nodes.append(Node(program, tmp_path, "single", nats.address, f"{lines}\n{LISTENER.format(directory=tmp_path)}"))
        nodes[-1].broker.start()
        return nodes[-1].is_ready()

    yield start
    for node in nodes:
        node.broker.finish()


def state(nats, stream: str) -> dict:
    return nats.request(f"$JS.API.STREAM.INFO.{stream}")["state"]


def attacker(node) -> Wire:
    wire = Wire(node.port)
    assert wire.connect()[1] == 0
    return wire


def test_one_retained_message_that_expires_keeps_no_node_from_starting(besiege, nats, start_node):
    node = start_node("persistence true")
    wire = attacker(node)
    wire.publish("a", "x", qos=1, retain=True, properties=b"\x02\x00\x00\x00\x01")
    wire.receive(PUBACK)
    wire.close()
    wait_until(lambda: state(nats, "martlet_tests_retained")["messages"] == 0, "it has expired", 2 * PATIENCE)
    node.broker.kill()
    node.broker.restart()
    node.is_ready()
    siege = besiege(broker=node.broker)
    assert siege.measure().longest <= LONGEST_MAX
    siege.serve()


def test_who_fills_a_part_of_the_log_hangs_nobody_else(besiege, nats, start_node):
    node = start_node("persistence true\nmartlet_cluster_partitions 2")
    logs = ["martlet_tests_log_0", "martlet_tests_log_1"]
    counts = {log: state(nats, log)["messages"] for log in logs}
    wire = attacker(node)
    # Each of these is a record of its own in the log that has the pair's topic; the node's own entries are few, and in both.
    for number in range(30):
        wire.publish("well/behaved", "x", qos=1, identifier=number + 1)
        wire.receive(PUBACK)
    small = min(logs, key=lambda log: state(nats, log)["messages"] - counts[log])
    configuration = nats.request(f"$JS.API.STREAM.INFO.{small}")["config"]
    bounded = {**configuration, "max_bytes": 500_000, "discard": "new"}
    assert "error" not in nats.request(f"$JS.API.STREAM.UPDATE.{small}", json.dumps(bounded))
    topic = ""
    for number in range(50):
        before = state(nats, small)["messages"]
        wire.publish(f"fill/{number}", "x", qos=1, identifier=number + 1)
        wire.receive(PUBACK)
        if state(nats, small)["messages"] > before:
            topic = f"fill/{number}"
            break
    assert topic
    siege = besiege(broker=node.broker)
    siege.measure()
    before = resident_bytes(node.broker.process.pid)
    ends = time.monotonic() + 3
    refused = [0]

    def fill():
        client = attacker(node)
        while time.monotonic() < ends:
            client.publish(topic, "x" * 8000, qos=1)
            packet = client.receive()
            assert packet and packet.kind in (PUBACK, DISCONNECT)
            refused[0] += QUOTA_EXCEEDED in packet.body[:3]
            if packet.kind == DISCONNECT:
                client = attacker(node)

    crew = [threading.Thread(target=fill) for _ in range(4)]
    for one in crew:
        one.start()
    window = siege.measure(lambda: time.monotonic() >= ends)
    for one in crew:
        one.join(PATIENCE)
    assert refused[0] > 10
    assert window.longest <= LONGEST_MAX, window
    assert resident_bytes(node.broker.process.pid) - before <= 48 << 20
    node.broker.wait_for_log(f"the servers have no room in the stream {small}")
    wire.publish(topic, "x" * 8000, qos=1, identifier=100)
    assert wire.receive(PUBACK).body[2] == QUOTA_EXCEEDED
    # What goes elsewhere is taken.
    assert siege.measure().longest <= LONGEST_MAX

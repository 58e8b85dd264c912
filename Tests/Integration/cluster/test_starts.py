"""Clients that come while a node starts wait until it has found its cluster."""

import threading
import time

import pytest
from harness.waiting import PATIENCE
from harness.wire import Wire

pytestmark = pytest.mark.martlet("mosquitto has no cluster")


def test_a_client_that_comes_before_the_servers_waits_for_them(start_nats, start_node):
    server = start_nats("late", begins=False)
    node = start_node(server.address)
    answers: list = []

    def come(version: str):
        wire = Wire(node.port, version)
        answers.append(wire.connect(f"early {version}")[1])
        wire.close()

    clients = [threading.Thread(target=come, args=(version,)) for version in ("mqttv5", "mqttv311")]
    for client in clients:
        client.start()
    # Health is told all the while.
    assert node.get("/readyz")[0] == 503 and node.get("/livez")[0] == 200
    server.start()
    for client in clients:
        client.join(2 * PATIENCE)
    assert answers == [0, 0]


def test_a_client_that_comes_as_soon_as_a_node_is_started_again_is_let_in(start_nats, start_node, wire_to):
    server = start_nats()
    node = start_node(server.address, "persistence true").is_ready()
    for _ in range(3):
        node.broker.stop()
        node.broker.restart()
        wire = wire_to(node.port)
        assert wire.connect("client", clean=False)[1] == 0
        wire.close()


def test_who_has_waited_is_refused_when_no_server_is_there(start_node, wire_to):
    node = start_node(f"nats://127.0.0.1:{4}", "martlet_connect_timeout 1")
    began = time.monotonic()
    assert wire_to(node.port).connect()[1] == 0x88
    assert time.monotonic() - began < PATIENCE

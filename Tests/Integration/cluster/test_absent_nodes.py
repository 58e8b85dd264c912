"""A node is gone, or does not answer: what others tell of it, and whom its clients have to wait for."""

import itertools
import re
import signal
import threading
import time

import pytest
from cluster.clients import LASTS, SHUTTING_DOWN, TAKEN_OVER, UNAVAILABLE, PatientWire, connect
from cluster.nats import start
from harness.waiting import PATIENCE, wait_until
from harness.wire import PUBACK, PUBLISH, Will

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

#: A lease lasts 13 s from its last renewal, a second ago at most. Who begins anew waits 1.5 s.
LEASE = 12
names = (f"absent{number}" for number in itertools.count())


def open_to(node, name: str, clean: bool = True, **options) -> tuple[PatientWire, int, float]:
    """A connection, what CONNACK says, and after how many seconds."""
    wire = PatientWire(node.port, "mqttv5")
    began = time.monotonic()
    _, reason = wire.connect(name, clean=clean, **options)
    return wire, reason, time.monotonic() - began


@pytest.fixture
def absent(kept):
    """Has the third node be killed or hang, and come back behind the test."""
    node = kept.nodes[2]
    is_killed = False

    def go(dies: bool):
        nonlocal is_killed
        is_killed = dies
        node.broker.kill() if dies else node.broker.hang()
        return time.monotonic()

    yield go
    if is_killed:
        node.broker.restart()
    else:
        node.broker.signal(signal.SIGCONT)
    kept.is_whole()


def test_who_begins_anew_does_not_wait_for_the_lease_of_a_node_that_is_gone(kept, absent):
    clean, lasting = next(names), next(names)
    first, reason, _ = open_to(kept.nodes[2], clean)
    assert reason == 0
    other, reason, _ = open_to(kept.nodes[2], lasting, clean=False, properties=LASTS)
    assert reason == 0
    gone_at = absent(dies=True)
    # One whose session ended with its connection, and one whose session lasts and is not wanted any more.
    wires = []
    for name in (clean, lasting):
        wire, reason, took = open_to(kept.nodes[0], name)
        assert reason == 0 and took < LEASE - 3, f"{name}: {took:.1f} s"
        wires.append(wire)
    assert time.monotonic() - gone_at < LEASE
    for wire, name in zip(wires, (clean, lasting)):
        wire.subscribe(name)
        wire.publish(name, "x")
        assert wire.receive(PUBLISH).body.endswith(b"x")
    # Whoever comes elsewhere takes it over as always.
    second, reason, _ = open_to(kept.nodes[1], clean)
    assert reason == 0 and wires[0].receive_end() == TAKEN_OVER
    second.ping()
    for wire in (first, other, second, *wires):
        wire.close()


def test_a_node_that_hangs_for_a_moment_ends_the_connection_whose_client_has_begun_anew_elsewhere(kept, absent):
    name = next(names)
    old, reason, _ = open_to(kept.nodes[2], name)
    assert reason == 0
    absent(dies=False)
    new, reason, took = open_to(kept.nodes[1], name)
    assert reason == 0 and took < LEASE - 3, f"{took:.1f} s"
    kept.nodes[2].broker.signal(signal.SIGCONT)
    # Its lease lasts: it is asked, and need not end.
    assert old.receive_end() == TAKEN_OVER
    new.ping()
    # It may come back there as well.
    again, reason, _ = open_to(kept.nodes[2], name)
    assert reason == 0 and new.receive_end() == TAKEN_OVER
    again.ping()
    for wire in (old, new, again):
        wire.close()


def test_a_client_that_had_a_will_waits_until_that_is_published(kept, absent):
    name = next(names)
    watcher, _, _ = open_to(kept.nodes[0], "")
    watcher.subscribe(f"{name}/will")
    old, reason, _ = open_to(kept.nodes[2], name, will=Will(f"{name}/will", "gone"))
    assert reason == 0
    absent(dies=True)
    wire, reason, took = open_to(kept.nodes[1], name)
    assert reason == 0 and took > LEASE - 8, f"{took:.1f} s"
    assert watcher.receive(PUBLISH, 2 * PATIENCE).body.endswith(b"gone")
    for each in (watcher, old, wire):
        each.close()


def test_the_logs_tell_that_a_node_is_gone_and_count_those_who_wait(kept, absent):
    group = [next(names) for _ in range(12)]
    for name in group:
        wire, reason, _ = open_to(kept.nodes[2], name, clean=False, properties=LASTS)
        assert reason == 0
        wire.close()
    logs = [len(node.broker.log) for node in kept.nodes]

    def log(index: int) -> str:
        return kept.nodes[index].broker.log[logs[index] :]

    absent(dies=True)
    refused: list[int] = []

    def come(name: str):
        while True:
            wire, reason, _ = open_to(kept.nodes[0], name, clean=False, properties=LASTS)
            wire.close()
            if reason == 0:
                return
            assert reason == UNAVAILABLE
            refused.append(reason)
            time.sleep(0.5)

    clients = [threading.Thread(target=come, args=(name,)) for name in group]
    for client in clients:
        client.start()
    for client in clients:
        client.join(60)
    assert len(refused) >= len(group)
    for index in (0, 1):
        lines = [line for line in log(index).splitlines() if "node node2" in line and "is gone, its lease has expired" in line]
        assert len(lines) == 1 and re.search(r"refused until \d{4}-\d\d-\d\dT[\d:.]+Z \(martlet_cluster_session_wait\)", lines[0]), lines
    assert len(re.findall(r"node node2 \(\w+\) is silent", log(0))) == 1
    # One line for the first, and one for all others.
    assert log(0).count("is refused: the node that has its session, node2") == 1
    pattern = r"(\d+) more clients were refused: the node that has their sessions, node2"
    said = wait_until(lambda: re.search(pattern, log(0)), "the others are counted", 3 * PATIENCE)
    assert int(said[1]) == len(refused) - 1
    assert len(re.findall(r"disconnected: server unavailable", log(0))) == 1
    status, closed = kept.nodes[0].ask("connections/closed?limit=100")
    assert status == 200 and sum(row["clientid"] in group for row in closed["data"]) >= len(group)


def test_without_a_majority_of_the_servers_all_clients_are_disconnected_and_come_back(kept):
    lasting, idle = next(names), next(names)
    # One on each node, of which one server lives on.
    wires = [open_to(kept.nodes[0], lasting, clean=False, properties=LASTS), open_to(kept.nodes[1], idle), open_to(kept.nodes[2], "")]
    assert [reason for _, reason, _ in wires] == [0, 0, 0]
    wires[0][0].subscribe(lasting, 1)
    logs = [len(node.broker.log) for node in kept.nodes]
    for server in kept.servers[1:]:
        server.kill()
    try:
        for wire, _, _ in wires:
            assert wire.receive_end(2 * PATIENCE) == SHUTTING_DOWN
        # Whoever comes then is to come again later.
        wire, reason, _ = open_to(kept.nodes[0], "")
        assert reason == UNAVAILABLE
        wire.close()
    finally:
        start(kept.servers)
        kept.is_whole()
    wire, present = connect(kept.nodes[1], lasting)
    assert present
    wire.publish(lasting, "x", qos=1)
    assert {wire.receive().kind, wire.receive().kind} == {PUBACK, PUBLISH}
    wire.close()
    # That the others' leases had ended too is no news of a node that is gone.
    for node, log in zip(kept.nodes, logs):
        assert "is gone, its lease has expired" not in node.broker.log[log:]

"""Three nodes with stores on three NATS servers: a session goes to the node that its client comes to, with all that it has.

MARTLET_CLUSTER_SEED says where clients go, and which nodes are killed when.
"""

import itertools
import random
import signal
import threading
import time

import pytest
from cluster.clients import LASTS, SEED, SHUTTING_DOWN, TAKEN_OVER, UNAVAILABLE, PatientWire, hop, numbers, publish, send, take, text_of
from harness.waiting import wait_until
from harness.wire import PUBCOMP, PUBLISH, PUBREC, PUBREL

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

names = (f"moving{number}" for number in itertools.count())


@pytest.fixture
def open_to(kept):
    """A connected client of 5.0 on a node, with what CONNACK says of its session; one with a name has a session that lasts."""
    wires: list[PatientWire] = []

    def connect(index: int, name: str = "", clean: bool = False):
        wire = PatientWire(kept.nodes[index].port, "mqttv5")
        wires.append(wire)
        present, reason = wire.connect(name, clean=clean or not name, properties=LASTS if name else b"")
        assert reason == 0, f"refused with {reason:#x}"
        return wire, present

    yield connect
    for wire in wires:
        wire.close()


def test_the_older_connection_ends_on_whatever_node_it_is(open_to):
    name = next(names)
    first, present = open_to(0, name)
    assert not present
    second, present = open_to(1, name)
    assert present
    assert first.receive_end() == TAKEN_OVER
    third, present = open_to(2, name)
    assert present
    assert second.receive_end() == TAKEN_OVER
    third.ping()


def test_clients_whose_sessions_end_with_their_connection_have_one_name_in_the_cluster_too(kept, wire_to):
    wires = []
    for node in kept.nodes:
        wires.append(wire_to(node.port, "mqttv311"))
        assert wires[-1].connect("passing", clean=True) == (False, 0)
    wires[-1].ping()
    for wire in wires[:-1]:
        assert wire.receive_end() is None


@pytest.mark.parametrize("qos", [1, 2])
def test_a_queue_that_waits_on_one_node_is_taken_on_another(open_to, qos):
    topic = name = next(names)
    receiver, _ = open_to(0, name)
    receiver.subscribe(f"{topic}/#", 2)
    receiver.disconnect()
    sender, _ = open_to(2)
    send(sender, f"{topic}/x", numbers(0, 500), qos)
    receiver, present = open_to(1, name)
    assert present
    assert take(receiver, 500) == numbers(0, 500)
    # What is published from now on comes to the new node.
    send(sender, f"{topic}/y", numbers(500, 20), qos)
    assert take(receiver, 20) == numbers(500, 20)
    receiver.disconnect()
    # And nothing of it is left where it was.
    receiver, present = open_to(0, name)
    assert present
    send(sender, topic, ["end"], qos)
    assert take(receiver, 1) == ["end"]


def test_a_clean_start_on_another_node_leaves_nothing(open_to):
    topic = name = next(names)
    receiver, _ = open_to(0, name)
    receiver.subscribe(topic, 1)
    receiver.disconnect()
    sender, _ = open_to(1)
    send(sender, topic, numbers(0, 5))
    receiver, present = open_to(2, name, clean=True)
    assert not present
    receiver.subscribe(f"{topic}/more", 1)
    send(sender, f"{topic}/more", ["1"])
    assert take(receiver, 1) == ["1"]
    receiver.disconnect()
    receiver, present = open_to(0, name)
    assert present
    send(sender, f"{topic}/more", ["2"])
    assert take(receiver, 1) == ["2"]


def test_what_was_sent_and_not_acknowledged_comes_again_on_the_other_node(open_to):
    topic = name = next(names)
    receiver, _ = open_to(0, name)
    receiver.subscribe(topic, 2)
    sender, _ = open_to(1)
    send(sender, topic, ["a", "b"], 2)
    first = receiver.receive(PUBLISH)
    second = receiver.receive(PUBLISH)
    receiver.acknowledge(PUBREC, first.identifier)
    receiver.receive(PUBREL)
    receiver, present = open_to(2, name)
    assert present
    # The first is released once more, the second sent once more, with the identifiers that they had.
    seen = {}
    while len(seen) < 2:
        packet = receiver.receive()
        seen[packet.kind] = packet
    assert seen[PUBREL].identifier == first.identifier
    assert seen[PUBLISH].identifier == second.identifier and seen[PUBLISH].is_duplicate and text_of(seen[PUBLISH]) == "b"
    receiver.acknowledge(PUBCOMP, first.identifier)
    receiver.acknowledge(PUBREC, second.identifier)
    receiver.receive(PUBREL)
    receiver.acknowledge(PUBCOMP, second.identifier)
    receiver.ping()


def test_a_qos_2_message_that_was_received_is_known_on_the_other_node(open_to):
    topic = name = next(names)
    receiver, _ = open_to(1)
    receiver.subscribe(topic, 2)
    sender, _ = open_to(0, name)
    sender.publish(topic, "once", qos=2, identifier=7)
    sender.receive(PUBREC)
    sender, present = open_to(2, name)
    assert present
    sender.publish(topic, "once", qos=2, identifier=7, duplicate=True)
    sender.receive(PUBREC)
    sender.acknowledge(PUBREL, 7)
    sender.receive(PUBCOMP)
    publish(sender, topic, "end", 2, 8)
    assert take(receiver, 2) == ["once", "end"]


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_who_hops_from_node_to_node_under_load_misses_nothing(kept, open_to, qos, is_killed):
    """Also while nodes are killed, and started again."""
    name = next(names)
    chance, killer = random.Random(SEED * 100 + 10 * is_killed + qos), random.Random(SEED * 100 + 20 + qos)
    receiver, _ = open_to(0, name)
    receiver.subscribe(name, qos)
    count, pause = (1000, 0.005) if is_killed else (1500, 0.002)
    sender, _ = open_to(1)

    def load():
        for number in range(count):
            publish(sender, name, str(number), qos, number + 1)
            time.sleep(pause)

    def kill():
        for _ in range(4):
            time.sleep(killer.uniform(0.3, 1.5))
            victim = kept.nodes[killer.choice((0, 2))].broker
            victim.kill()
            victim.restart()

    threads = [threading.Thread(target=work, daemon=True) for work in ((load, kill) if is_killed else (load,))]
    for thread in threads:
        thread.start()
    hop(kept, name, qos, count, chance, is_killed)
    for thread in threads:
        thread.join(60)
    kept.is_whole()


def test_two_nodes_claim_at_once_and_one_of_them_has_it(kept):
    name = next(names)
    wires = [PatientWire(node.port, "mqttv5") for node in kept.nodes]
    answers: list = [None] * 3

    def connect(index: int):
        try:
            answers[index] = wires[index].connect(name, clean=False, properties=LASTS)
        except (AssertionError, OSError) as error:
            answers[index] = error

    for _ in range(5):
        threads = [threading.Thread(target=connect, args=(index,)) for index in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(40)
        alive = 0
        for wire in wires:
            try:
                wire.ping()
                alive += 1
            except (AssertionError, OSError):
                pass
        assert alive == 1, answers
        for wire in wires:
            wire.close()
        wires = [PatientWire(node.port, "mqttv5") for node in kept.nodes]
    for wire in wires:
        wire.close()


def test_a_node_that_was_killed_and_started_again_gives_its_sessions(kept, open_to):
    topic = name = next(names)
    receiver, _ = open_to(1, name)
    receiver.subscribe(topic, 1)
    receiver.disconnect()
    sender, _ = open_to(0)
    send(sender, topic, numbers(0, 20))
    wait_until(lambda: kept.nodes[1].metric("martlet_cluster_log_records_total") > 0, "it has read")
    kept.nodes[1].broker.kill()
    send(sender, topic, numbers(20, 20))
    kept.nodes[1].broker.restart()
    kept.is_whole()
    receiver, present = open_to(2, name)
    assert present
    assert take(receiver, 40) == numbers(0, 40)


def test_clients_of_all_nodes_are_found_and_ended_where_they_are(kept, open_to):
    name = next(names)
    open_to(0, name)
    wire, present = open_to(2, name)
    assert present
    status, found = kept.nodes[0].ask(f"clients/{name}?cluster=true")
    assert status == 200 and found["connected"]
    assert kept.nodes[1].ask(f"clients/{name}/connection?cluster=true", "DELETE")[0] in (200, 202, 204)
    assert wire.receive_end() is not None


def is_waited_for(node, name: str):
    """A client is refused while the node that has its session is away, for the 5 s of `martlet_cluster_session_wait`."""

    wire = PatientWire(node.port, "mqttv5")
    assert wire.connect(name, clean=False, properties=LASTS) == (False, UNAVAILABLE)
    wire.close()
    node.broker.wait_for_log(f"client {name} is refused: the node that has its session")
    time.sleep(5)


def test_without_the_node_that_keeps_it_a_session_is_taken_up_from_what_the_cluster_has(kept, open_to):
    topic = name = next(names)
    receiver, _ = open_to(2, name)
    receiver.subscribe(topic, 1)
    kept.nodes[2].broker.kill()
    try:
        is_waited_for(kept.nodes[0], name)
        receiver, present = open_to(0, name)
        assert present
        kept.nodes[0].broker.wait_for_log(f"session of client {name} is restored by claim")
        receiver.subscribe(f"{topic}/new", 1)
    finally:
        kept.nodes[2].broker.restart()
        kept.is_whole()
    # What that node has of it is out of date.
    time.sleep(2)
    receiver, present = open_to(2, name)
    assert present
    sender, _ = open_to(1)
    send(sender, topic, ["old"])
    send(sender, f"{topic}/new", ["new"])
    assert take(receiver, 2) == ["old", "new"]


def test_a_node_that_hangs_longer_than_its_lease_ends_its_clients_when_it_goes_on(kept, open_to):
    name = next(names)
    hung, _ = open_to(1, name)
    kept.nodes[1].broker.hang()
    try:
        is_waited_for(kept.nodes[2], name)
        taken, _ = open_to(2, name)
        taken.subscribe(name, 1)
    finally:
        kept.nodes[1].broker.signal(signal.SIGCONT)
    assert hung.receive_end() in (SHUTTING_DOWN, TAKEN_OVER)
    taken.ping()
    kept.is_whole()
    back, present = open_to(1, name)
    assert present
    assert taken.receive_end() == TAKEN_OVER
    sender, _ = open_to(0)
    send(sender, name, ["x"])
    assert take(back, 1) == ["x"]


@pytest.mark.parametrize("conduct", ["refuse", "local"])
def test_without_servers_clients_go_when_the_lease_ends_unless_they_may_stay(start_nats, start_node, conduct):
    nats = start_nats()
    node = start_node(nats.address, f"persistence true\nmartlet_cluster_detached {conduct}").is_ready()
    wire = PatientWire(node.port, "mqttv5")
    assert wire.connect("client", clean=False, properties=LASTS) == (False, 0)
    nats.kill()
    killed = time.monotonic()
    if conduct == "refuse":
        assert wire.receive_end(seconds=20) == SHUTTING_DOWN
        # Servers that lose their leader choose another one in 9 s at most.
        assert time.monotonic() - killed > 10, "too early for servers that come back"
    else:
        time.sleep(14)
        wire.ping()
    wire.close()
    nats.start()
    node.is_ready()
    wire = PatientWire(node.port, "mqttv5")
    assert wire.connect("client", clean=False, properties=LASTS) == (True, 0)
    wire.close()


def test_records_that_were_deleted_are_made_anew(start_nats, start_node):
    nats = start_nats()
    node = start_node(nats.address, "persistence true").is_ready()
    assert nats.request("$JS.API.STREAM.DELETE.KV_martlet_tests_sessions")["success"]
    wire = PatientWire(node.port, "mqttv5")
    assert wire.connect("client", clean=False, properties=LASTS) == (False, 0)
    wire.close()


def test_a_node_that_was_stopped_and_started_again_keeps_its_sessions(kept, open_to):
    topic = name = next(names)
    receiver, _ = open_to(1, name)
    receiver.subscribe(topic, 1)
    receiver.disconnect()
    sender, _ = open_to(0)
    send(sender, topic, numbers(0, 20))
    kept.nodes[1].broker.stop()
    # The client comes before the node is back, and is let in with what that has.
    waiting = threading.Thread(target=kept.nodes[1].broker.restart)
    waiting.start()
    receiver, present = open_to(2, name)
    waiting.join()
    assert present
    assert take(receiver, 20) == numbers(0, 20)
    kept.is_whole()

"""Three nodes with stores on three NATS servers: what is acknowledged is in the log, and sessions that last get it from there."""

import itertools
import shutil

import pytest
from cluster.clients import numbers, publish, take
from cluster.nats import leader, start
from cluster.site import restart
from harness.waiting import wait_until
from harness.wire import PUBACK, PUBLISH

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

topics = (f"log{number}" for number in itertools.count())


@pytest.fixture
def open_to(kept, wire_to):
    """A connected client of 3.1.1 on a node; one with a name has a session that lasts."""

    def connect(index: int, name: str = ""):
        wire = wire_to(kept.nodes[index].port, "mqttv311")
        assert wire.connect(name, clean=not name)[1] == 0
        return wire

    return connect


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("there", [0, 1, 2])
def test_a_session_that_lasts_gets_all_in_order_also_what_came_while_it_was_away(open_to, qos, there):
    topic = next(topics)
    receiver = open_to(0, f"receiver-{topic}")
    receiver.subscribe(topic, 2)
    sender = open_to(there)
    for number in range(10):
        publish(sender, topic, str(number), qos, number + 1)
    assert take(receiver, 10) == numbers(0, 10)
    receiver.ping()
    receiver.disconnect()
    for number in range(10):
        publish(sender, topic, str(number), qos, number + 1)
    assert take(open_to(0, f"receiver-{topic}"), 10) == numbers(0, 10)


def test_both_kinds_of_sessions_get_each_message_once(kept, open_to):
    topic = next(topics)
    receivers = [open_to(index, name) for index in range(3) for name in ("", f"both-{topic}-{index}")]
    for receiver in receivers:
        receiver.subscribe(f"{topic}/+", 1)
    sender = open_to(2)
    for number in range(20):
        publish(sender, f"{topic}/x", str(number))
    for receiver in receivers:
        assert take(receiver, 20) == numbers(0, 20)
        receiver.ping()
    wait_until(lambda: kept.nodes[2].metric("martlet_cluster_logged_messages_total") >= 20, "they are counted")


def test_a_node_that_is_killed_misses_nothing_and_doubles_no_qos_2(kept, open_to):
    topic = next(topics)
    receiver = open_to(1, f"receiver-{topic}")
    receiver.subscribe(topic, 2)
    sender = open_to(0)
    for number in range(60):
        if number == 20:
            kept.nodes[1].broker.kill()
        publish(sender, topic, str(number), 2, number + 1)
    kept.nodes[1].broker.restart()
    kept.is_whole()
    assert take(open_to(1, f"receiver-{topic}"), 60) == numbers(0, 60)


def test_what_is_acknowledged_while_servers_change_their_leader_is_not_lost(kept, open_to):
    topic = next(topics)
    receiver = open_to(0, f"receiver-{topic}")
    receiver.subscribe(topic, 1)
    sender = open_to(1)
    victim = leader(kept.servers, "martlet_tests_log_0")
    count = 200
    for number in range(count):
        if number == count // 2:
            victim.kill()
        sender.publish(topic, str(number), qos=1, identifier=number + 1)
    acknowledged = 0
    while acknowledged < count:
        # The sender's own server may have been the one; its node goes to another.
        assert sender.receive(PUBACK, seconds=40)
        acknowledged += 1
    assert take(receiver, count, seconds=40) == numbers(0, count)
    victim.start()
    kept.is_whole()


def test_without_a_server_no_acknowledgement_comes_until_one_is_back(start_nats, start_node, wire_to):
    nats = start_nats()
    node = start_node(nats.address, "persistence true\nmartlet_cluster_partitions 2").is_ready()
    wire = wire_to(node.port, "mqttv311")
    wire.connect("client", clean=False)
    wire.subscribe("a", 1)
    nats.kill()
    wait_until(lambda: node.get("/readyz")[0] == 503, "the node knows that its server is gone")
    wire.publish("a", "x", qos=1, identifier=7)
    wire.ping()
    nats.start()
    kinds = [wire.receive(seconds=20) for _ in range(2)]
    assert sorted(packet.kind for packet in kinds) == [PUBLISH, PUBACK]


@pytest.mark.parametrize("at_once", [False, True])
def test_the_log_is_the_same_when_its_servers_have_been_started_again(kept, open_to, at_once):
    """Also though nodes have been started since it was made; messages of QoS 2 would come again otherwise."""
    topic, name = next(topics), next(topics)
    restart(kept.nodes[:1])
    kept.is_whole()
    receiver = open_to(1, name)
    receiver.subscribe(topic, 2)
    publish(open_to(2), topic, "0", 2)
    assert take(receiver, 1) == ["0"]
    for servers in [kept.servers] if at_once else [[server] for server in kept.servers]:
        for server in servers:
            server.kill()
        start(kept.servers)
        kept.is_whole()
    # While servers choose new leaders a lease may end, which closes connections.
    texts: list[str] = []
    for text in numbers(1, 3):
        try:
            receiver = open_to(1, name)
            publish(open_to(2), topic, text, 2)
            texts += take(receiver, 1)
            break
        except (AssertionError, OSError):
            kept.is_whole()
    assert texts and "0" not in texts, texts
    assert not any("not the one that this node has read" in node.broker.log for node in kept.nodes)


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_stored_after_servers_have_lost_the_newest_records_arrives(start_nats, start_node, wire_to, restarts):
    """As after a power cut of servers that do not sync always: a copy of their files from before stands for that."""
    nats = start_nats()
    node = start_node(nats.address, "persistence true").is_ready()

    def connect(name: str):
        wire = wire_to(node.port, "mqttv311")
        wire.connect(name, clean=False)
        return wire

    receiver = connect("receiver")
    receiver.subscribe("a", 1)
    sender = connect("sender")
    publish(sender, "a", "0")
    assert take(receiver, 1) == ["0"]
    nats.kill()
    store, copy = nats.directory / nats.name, nats.directory / "copy"
    shutil.copytree(store, copy)
    nats.start()
    node.is_ready()
    for number in range(1, 6):
        publish(sender, "a", str(number))
    assert take(receiver, 5) == numbers(1, 5)
    receiver.ping()
    if restarts:
        node.broker.stop()
    nats.kill()
    shutil.rmtree(store)
    shutil.move(copy, store)
    nats.start()
    if restarts:
        node.broker.restart()
    # How many records they are is a matter of time: what is delivered is told in records of its own.
    node.broker.wait_for_log(r"the servers have lost the newest records of the log's partition 0 \(\d+ to \d+\)")
    node.is_ready()
    if restarts:
        receiver, sender = connect("receiver"), connect("sender")
    for number in range(6, 9):
        publish(sender, "a", str(number))
    assert take(receiver, 3) == ["6", "7", "8"]


@pytest.mark.parametrize("request_, words, lost", [
    ("PURGE", r"\d+ records of the log's partition 0 were deleted before this node had read them", True),
    ("DELETE", r"the stream of the log's partition 0 is not the one that this node has read before", False),
])  # fmt: skip
def test_a_log_that_has_lost_what_a_node_has_not_read_is_told_of(start_nats, start_node, wire_to, request_, words, lost):
    nats = start_nats()
    nodes = [start_node(nats.address, "persistence true", name=name).is_ready() for name in ("away", "there")]
    sender = wire_to(nodes[1].port, "mqttv311")
    sender.connect()

    def receiver():
        wire = wire_to(nodes[0].port, "mqttv311")
        wire.connect("receiver", clean=False)
        return wire

    first = receiver()
    first.subscribe("a", 1)
    publish(sender, "a", "0")
    assert take(first, 1) == ["0"]
    first.ping()
    nodes[0].broker.kill()
    publish(sender, "a", "1")
    assert nats.request(f"$JS.API.STREAM.{request_}.martlet_tests_log_0")["success"]
    nodes[0].broker.restart()
    nodes[0].broker.wait_for_log(words)
    nodes[0].is_ready()
    if lost:
        wait_until(lambda: nodes[0].metric("martlet_cluster_lost_log_records_total") >= 1, "it is counted")
        publish(sender, "a", "2")
        texts = take(again := receiver(), 1)
        # Whether the acknowledgement of the first was on the disk when the node was killed, nobody was told.
        assert texts == ["2"] or texts + take(again, 1) == ["0", "2"]

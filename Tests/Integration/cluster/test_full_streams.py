"""Streams that have no room: by their own bound, by the account's, and because the servers' disks are full. It is told at once, and ends by itself."""

import json
import re

import pytest
from cluster.clients import take
from cluster.nats import NatsServer, start, trio
from harness.program import run
from harness.waiting import PATIENCE, wait_until
from harness.wire import DISCONNECT, PUBACK, PUBLISH

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

QUOTA_EXCEEDED = 0x97
LOG = "martlet_tests_log_0"
RETAINED = "martlet_tests_retained"
STORE = "persistence true\nmartlet_cluster_partitions 1\nmax_queued_messages 0"


def bound(nats, stream: str, bytes_max: int, discard: str = "new"):
    configuration = nats.request(f"$JS.API.STREAM.INFO.{stream}")["config"]
    answer = nats.request(f"$JS.API.STREAM.UPDATE.{stream}", json.dumps({**configuration, "max_bytes": bytes_max, "discard": discard}))
    assert "error" not in answer, answer


def reason(wire) -> tuple[int, int]:
    """What a publisher of QoS 1 is told: PUBACK or DISCONNECT, and why."""
    packet = wire.receive()
    assert packet and packet.kind in (PUBACK, DISCONNECT), packet
    place = 2 if packet.kind == PUBACK else 0
    return packet.kind, packet.body[place] if len(packet.body) > place else 0


def publish_until_refused(wire, topic: str, size: int, *, count: int = 400, retain: bool = False) -> int:
    """Publishes one after the other; returns how many were taken."""
    for number in range(count):
        wire.publish(topic, f"{number} ".ljust(size, "."), qos=1, identifier=number + 1, retain=retain)
        kind, code = reason(wire)
        if code:
            assert code == QUOTA_EXCEEDED
            return number
    raise AssertionError("nothing was refused")


def receive_numbers(wire, count: int) -> list[int]:
    return [int(text.split()[0]) for text in take(wire, count)]


def connect(wire_to, node, name: str = "", version: str = "mqttv5", **options):
    wire = wire_to(node.port, version)
    assert wire.connect(name, **options)[1] == 0
    return wire


def says(program, node, stream: str, words: str):
    """It is said where an operator looks: within a moment, not after a minute."""
    node.broker.wait_for_log(f"the servers have no room in the stream {stream}: {words}")
    node.says(f"[-]cluster failed: the servers have no room in the stream {stream}: {words}")
    assert node.get("/readyz")[0] == 503
    assert node.metric("martlet_cluster_refusing_streams") >= 1
    shown = run(program, "ctl", "cluster", "--socket", str(node.socket)).stdout
    assert f"the servers have no room in the stream {stream}: {words}" in shown, shown


@pytest.mark.parametrize("limit, words", [
    ("stream", r"maximum bytes exceeded (503, 10077)"),
    ("account", r"resource limits exceeded for account (400, 10002)"),
])  # fmt: skip
def test_a_log_without_room_refuses_publishers_and_says_so_at_once(program, start_nats, start_node, wire_to, limit, words):
    lines = "" if limit == "stream" else "accounts { A { users: [ { user: u, password: pw } ], jetstream { max_file: 300KB } } }"
    nats = start_nats(lines=lines)
    login = "" if limit == "stream" else "\nmartlet_cluster_user u\nmartlet_cluster_password pw"
    node = start_node(nats.address, STORE + login).is_ready()
    receiver = connect(wire_to, node, "receiver", "mqttv311", clean=False)
    receiver.subscribe("a", 1)
    if limit == "stream":
        bound(nats, LOG, 200_000)
    taken = publish_until_refused(connect(wire_to, node), "a", 8000)
    assert taken > 10
    assert receive_numbers(receiver, taken) == list(range(taken))
    node.broker.wait_for_log("the servers have no room")
    assert words in node.broker.log
    node.says(words)
    # The next ones are answered, or wait where they cannot be.
    again, early = connect(wire_to, node), connect(wire_to, node, "early", "mqttv311", clean=False)
    for number in range(3):
        again.publish("a", "x", qos=1, identifier=number + 1)
        assert reason(again) == (PUBACK, QUOTA_EXCEEDED)
    early.publish("a", f"{taken} ", qos=1, identifier=7)
    early.ping()
    # What needs no log goes on.
    again.publish("a", "quick")
    while not receiver.receive(PUBLISH).body.endswith(b"quick"):
        pass
    if limit == "stream":
        says(program, node, LOG, "maximum bytes exceeded")
        assert len(re.findall("the servers have no room", node.broker.log)) == 1
        bound(nats, LOG, -1)
        node.broker.wait_for_log(f"there is room in the stream {LOG} again")
        node.is_ready()
        assert node.metric("martlet_cluster_refusing_streams") == 0
        # Who had no answer sends it again.
        assert early.receive_end() is None
        early = connect(wire_to, node, "early", "mqttv311", clean=False)
        early.publish("a", f"{taken} ", qos=1, identifier=7, duplicate=True)
        early.receive(PUBACK)
        again.publish("a", f"{taken + 1} ", qos=1, identifier=9)
        assert reason(again) == (PUBACK, 0)
        assert receive_numbers(receiver, 2) == [taken, taken + 1]


def test_a_node_starts_on_a_log_that_is_bounded_and_full(start_nats, start_node, wire_to):
    nats = start_nats()
    node = start_node(nats.address, STORE).is_ready()
    bound(nats, LOG, 100_000)
    publish_until_refused(connect(wire_to, node), "a", 8000)
    node.broker.kill()
    node.broker.restart()
    # It lets clients in, whose messages are refused.
    wait_until(lambda: wire_to(node.port).connect()[1] == 0, "a client is let in", 2 * PATIENCE)
    publish_until_refused(connect(wire_to, node), "a", 8000)
    bound(nats, LOG, -1)
    node.broker.wait_for_log("there is room in the stream martlet_tests_log_0 again")
    node.is_ready()
    wire = connect(wire_to, node)
    wire.publish("a", "x", qos=1)
    assert reason(wire) == (PUBACK, 0)


def test_retained_messages_without_room_are_refused_and_none_is_lost(program, start_nats, start_node, wire_to):
    nats = start_nats()
    nodes = [start_node(nats.address, STORE, name=name).is_ready() for name in ("first", "second")]
    bound(nats, RETAINED, 100_000)
    wire = connect(wire_to, nodes[0])
    number = 0
    with pytest.raises(TimeoutError):
        for number in range(30):
            wire.publish(f"r/{number}", "x" * 8000, qos=1, identifier=number + 1, retain=True)
            wire.receive(PUBACK, 2)
    assert number > 5
    # What was on its way waits for room; what comes now is refused.
    says(program, nodes[0], RETAINED, "maximum bytes exceeded")
    other = connect(wire_to, nodes[0])
    other.publish("r/more", "x", qos=1, retain=True)
    assert reason(other) == (PUBACK, QUOTA_EXCEEDED)
    bound(nats, RETAINED, -1)
    assert reason(wire) == (PUBACK, 0)
    nodes[0].is_ready()
    reader = connect(wire_to, nodes[1])
    reader.subscribe("r/+")
    assert {reader.receive(PUBLISH).topic for _ in range(number + 1)} == {f"r/{taken}" for taken in range(number + 1)}


@pytest.fixture(params=[1, 3])
def small_servers(request, tmp_path):
    """Servers whose disks are soon full."""
    options = {"limits": "max_file_store: 3MB"}
    servers = trio(tmp_path, **options) if request.param == 3 else [NatsServer(tmp_path, **options).start()]
    yield servers
    for server in servers:
        server.kill()


def test_full_disks_of_the_servers_are_named(small_servers, start_node, wire_to):
    node = start_node(small_servers[0].address, STORE).is_ready()
    words = "their disks are full, or what they may use of them"
    publish_until_refused(connect(wire_to, node), "a", 16_000)
    node.broker.wait_for_log(f"the servers have no room in the stream .*: .*{words}")
    node.says(words)
    if len(small_servers) > 1:
        # The leases fail as well, for the same reason.
        wait_until(lambda: "this node's lease has expired" in node.broker.log, "its lease ends", 3 * PATIENCE)
    for _ in range(100):
        assert words in node.get("/readyz?verbose")[1]
    assert "there is room" not in node.broker.log
    for server in small_servers:
        server.kill()
        server.configuration.write_text(server.configuration.read_text().replace("3MB", "300MB"))
    start(small_servers)
    node.broker.wait_for_log(f"there is room in the stream {LOG} again")
    node.is_ready()
    wire = connect(wire_to, node)
    wire.publish("a", "x", qos=1)
    assert reason(wire) == (PUBACK, 0)


def test_what_a_bounded_log_has_discarded_is_told_once_and_counted_right(start_nats, start_node, wire_to):
    nats = start_nats()
    nodes = [start_node(nats.address, STORE, name=name).is_ready() for name in ("away", "there")]
    receiver = connect(wire_to, nodes[0], "receiver", "mqttv311", clean=False)
    receiver.subscribe("a", 1)
    receiver.disconnect()
    wire = connect(wire_to, nodes[1])
    wire.publish("a", "0 ", qos=1)
    wire.receive(PUBACK)
    wait_until(lambda: nodes[0].metric("martlet_cluster_log_records_total") >= 1, "the first one is read")
    nodes[0].broker.kill()
    bound(nats, LOG, 200_000, discard="old")
    for number in range(1, 60):
        wire.publish("a", f"{number} ".ljust(8000, "."), qos=1, identifier=number)
        wire.receive(PUBACK)
    state = nats.request(f"$JS.API.STREAM.INFO.{LOG}")["state"]
    assert state["first_seq"] > 30
    nodes[0].broker.restart()
    nodes[0].is_ready()
    receiver = connect(wire_to, nodes[0], "receiver", "mqttv311", clean=False)
    got = []
    while not got or got[-1] < 59:
        got += receive_numbers(receiver, 1)
    told = re.findall(r"(\d+) records .* were deleted before this node had read them \((\d+) to (\d+)\)", nodes[0].broker.log)
    assert len(told) == 1, told
    count, first, last = (int(number) for number in told[0])
    assert count == last - first + 1 and last >= state["first_seq"] - 1
    # What it does not have is what had gone; the first one it may have had before.
    assert [number for number in got if number] == list(range(60 - (state["last_seq"] - last), 60))
    assert nodes[0].metric("martlet_cluster_lost_log_records_total") == count

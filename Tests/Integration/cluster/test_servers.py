"""One node and its NATS server: logins, TLS, servers that are away, old, or wrong."""

import re
import signal
import socket
import threading

import pytest
from cluster.nats import account_lines
from cluster.site import Node
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import PATIENCE, wait_until
from harness.wire import PUBLISH

pytestmark = pytest.mark.martlet("mosquitto has no cluster")

SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def not_ready(node, words: str):
    """Waits until the node says why it is not ready."""
    node.says(words)
    assert node.get("/readyz")[0] == 503


@pytest.mark.parametrize("server, right, wrong", [
    ("user: u, password: pw", "martlet_cluster_user u\nmartlet_cluster_password pw", "martlet_cluster_user u\nmartlet_cluster_password no"),
    ("token: sesame", "martlet_cluster_token sesame", "martlet_cluster_token no"),
    (f"users: [ {{ nkey: {KEY} }} ]", "martlet_cluster_nkey_file {directory}/seed", ""),
])  # fmt: skip
def test_logins(start_nats, start_node, tmp_path, server, right, wrong):
    (tmp_path / "seed").write_text(f"{SEED}\n")
    nats = start_nats(lines=account_lines(server))
    start_node(nats.address, right).is_ready()
    not_ready(start_node(nats.address, wrong, name="wrong"), "Authorization Violation")


def test_tls_on_both_sides(start_nats, start_node, authority, tmp_path):
    authority.issue("node", "/CN=node")
    directory = authority.directory
    nats = start_nats(
        lines=f'tls {{ cert_file: "{directory}/server.crt", key_file: "{directory}/server.key", ca_file: "{authority.certificate}", '
        "verify: true }"
    )
    own = f"martlet_cluster_certfile {directory}/node.crt\nmartlet_cluster_keyfile {directory}/node.key"
    address = nats.address.replace("127.0.0.1", "localhost")
    start_node(address, f"martlet_cluster_cafile {authority.certificate}\n{own}").is_ready()
    # Nobody whom it trusts vouches for the server.
    not_ready(start_node(address, own, name="trustless"), "certificate verify failed")


def test_tls_that_a_server_does_not_offer(start_nats, start_node):
    node = start_node(start_nats().address, "martlet_cluster_tls true")
    not_ready(node, "TLS is required, and the server has none")


def test_without_a_server_new_clients_are_refused(start_node, wire_to):
    node = start_node(f"nats://127.0.0.1:{reserve_port()}")
    not_ready(node, "Connection refused")
    assert wire_to(node.port).connect()[1] == 0x88
    wire = wire_to(node.port, "mqttv311")
    assert wire.connect()[1] == 3


def test_without_a_server_a_node_may_go_on_alone(start_nats, start_node, wire_to, tmp_path):
    nats = start_nats()
    node = start_node(nats.address, "martlet_cluster_detached local\nmartlet_cluster_replicas 1").is_ready()
    nats.kill()
    not_ready(node, "nats://127.0.0.1")
    wire = wire_to(node.port)
    assert wire.connect()[1] == 0
    wire.subscribe("a")
    wire.publish("a", "x")
    assert wire.receive(PUBLISH)
    nats.start()
    node.is_ready()


def test_a_node_that_does_not_read_is_closed_and_comes_back(start_nats, start_node, wire_to):
    nats = start_nats(lines="max_pending: 2MB\nwrite_deadline: \"1s\"")
    nodes = [start_node(nats.address, name=name) for name in ("slow", "quick")]
    for node in nodes:
        node.is_ready()
    here, there = (wire_to(node.port) for node in nodes)
    for wire in (here, there):
        wire.connect()
    here.subscribe("a")
    nodes[0].broker.hang()
    while not nats.asks("/varz")["slow_consumers"]:
        there.publish("a", "m" * 1_000_000)
    nodes[0].broker.signal(signal.SIGCONT)
    wait_until(lambda: nodes[0].metric("martlet_cluster_lost_connections_total") >= 1, "the loss is counted")
    nodes[0].is_ready()
    there.publish("a", "end")
    while not here.receive(PUBLISH).body.endswith(b"end"):
        pass


def test_a_server_without_jetstream(start_nats, start_node):
    nats = start_nats("bare", begins=False)
    nats.configuration.write_text(f"listen: 127.0.0.1:{nats.port}\nhttp: 127.0.0.1:{nats.monitor}\n")
    nats.start()
    not_ready(start_node(nats.address), "is not switched on (nats-server --jetstream")


@pytest.mark.parametrize("greeting, words", [
    (b'INFO {"server_id":"A","version":"2.9.10","max_payload":1048576,"headers":true}\r\n', "it is nats-server 2.9.10; 2.11.0 or newer is needed"),
    (b"220 mail.example ESMTP\r\n", 'it is not a NATS server: it begins with "220 mail.example ESMTP"'),
    (b"", "it may be another service"),
])  # fmt: skip
def test_an_old_server_or_another_service_is_left(start_node, greeting, words):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if greeting:
            threading.Thread(target=lambda: listener.accept()[0].sendall(greeting), daemon=True).start()
        not_ready(start_node(f"nats://127.0.0.1:{listener.getsockname()[1]}"), words)


@pytest.mark.parametrize("denied", ["subscribe", "publish"])
def test_a_node_that_lacks_a_permission_is_not_ready(start_nats, start_node, wire_to, denied):
    user = f'users: [ {{ user: u, password: pw, permissions: {{ {denied}: {{ deny: ["martlet.tests.t.>"] }} }} }} ]'
    nats = start_nats(lines=account_lines(user))
    login = "martlet_cluster_user u\nmartlet_cluster_password pw"
    node, other = (start_node(nats.address, login, name=name).is_ready() for name in ("first", "second"))
    wire = wire_to(node.port)
    wire.connect()
    if denied == "subscribe":
        wire.send_subscribe("a")
    else:
        wire_to(other.port).connect()
        wire.publish("a", "x")
    not_ready(node, "the servers refuse a permission that this node needs: Permissions Violation for ")
    node.broker.wait_for_log("Permissions Violation for .* to \"martlet.tests.t")
    assert other.get("/readyz")[0] == 200


def test_replicas_that_no_servers_are_there_for(start_nats, start_node):
    not_ready(start_node(start_nats().address, "martlet_cluster_replicas 3"), "martlet_cluster_replicas asks for 3")


def test_streams_with_other_replicas_than_are_asked_for_are_told_of(start_nats, start_node):
    nats = start_nats()
    start_node(nats.address, "persistence true", name="first").is_ready()
    node = start_node(nats.address, "persistence true\nmartlet_cluster_replicas 3", name="second").is_ready()
    for stream in ("KV_martlet_tests_nodes", "martlet_tests_retained", "martlet_tests_log_0"):
        node.broker.wait_for_log(
            f"the stream {stream} has 1 replica, and martlet_cluster_replicas asks for 3.* nats stream edit {stream} --replicas 3 changes it")


def test_two_nodes_of_one_name_are_told_of(start_nats, start_node, program, tmp_path):
    nats = start_nats()
    (tmp_path / "other").mkdir()
    other = Node(program, tmp_path / "other", "twin", nats.address)
    other.broker.start()
    try:
        for node in (other, start_node(nats.address, name="twin")):
            wait_until(lambda node=node: re.search(r"2 nodes are called twin \([0-9A-F]{16}, [0-9A-F]{16}\)", node.broker.log),
                       "it is told", 3 * PATIENCE)  # fmt: skip
    finally:
        other.broker.finish()


def test_nodes_with_and_without_a_store_are_told_of(start_nats, start_node):
    nats = start_nats()
    nodes = start_node(nats.address, "persistence true", name="keeps"), start_node(nats.address, name="forgets")
    for node, (keeps, forgets) in zip(nodes, (("this node", "forgets"), ("keeps", "this node"))):
        words = f"{keeps} has a store, and {forgets} has none: what {forgets} acknowledges is lost with it"
        wait_until(lambda node=node, words=words: words in node.broker.log, "it is told", 2 * PATIENCE)


def test_more_event_loops_than_a_node_has(start_nats, start_node):
    node = start_node(start_nats().address, "martlet_threads 64").is_ready()
    assert "a node of a cluster has at most 62; 62 are run" in node.broker.log


def test_what_is_carried_is_told_at_the_start(start_nats, start_node):
    node = start_node(start_nats().address).is_ready()
    node.broker.wait_for_log("Cluster tests, node single: messages go to the subscribers of all nodes.* This node has its own sessions")


def test_a_node_with_another_number_of_partitions_stays_out(start_nats, start_node):
    """It would write messages where the others do not read."""
    nats = start_nats()
    start_node(nats.address, "persistence true\nmartlet_cluster_partitions 2", name="first").is_ready()
    other = start_node(nats.address, "persistence true\nmartlet_cluster_partitions 3", name="second")
    not_ready(other, "martlet_cluster_partitions is 2 there, and 3 here")


@pytest.mark.parametrize("lines, words", [
    ("martlet_cluster_servers http://a", "martlet_cluster_servers: http://a begins with neither nats:// nor tls://"),
    ("martlet_cluster_servers nats://127.0.0.1:99999", "port"),
    ("martlet_cluster_servers nats://u:p@a", "martlet_cluster_servers: an address must not contain a login"),
    ("martlet_cluster_servers a\nmartlet_cluster_nkey_file /nowhere", "martlet_cluster_nkey_file: /nowhere"),
    ("martlet_cluster_servers tls://a\nmartlet_cluster_cafile /nowhere", "martlet_cluster_cafile: "),
    ("martlet_cluster_servers a\nmartlet_cluster_nkey_file {directory}/bad", "a user's seed is 58 characters"),
])  # fmt: skip
def test_what_is_wrong_is_told_at_the_start_and_by_the_check(program, tmp_path, lines, words):
    (tmp_path / "bad").write_text("SUBSTANCE\n")
    path = tmp_path / "martlet.conf"
    path.write_text(f"listener 0 {tmp_path / 'socket'}\nmartlet_cluster_name c\n{lines.format(directory=tmp_path)}\n")
    checked, started = (run(program, "-c", str(path), *more) for more in (["--test-config"], []))
    assert checked.returncode == 3 and started.returncode == 1
    for done in (checked, started):
        assert words in done.stdout and re.search(rf"Error: {path}:[34]: martlet_cluster_", done.stdout), done.stdout

"""A node's login at the servers, and what TLS is made of, are changed while it runs: SIGHUP has it connect anew."""

import re
import signal

import pytest
from cluster.nats import account_lines
from harness.waiting import wait_until
from harness.wire import PUBACK, PUBLISH

pytestmark = pytest.mark.martlet("mosquitto has no cluster")

LASTS = b"\x11\x00\x00\x0e\x10"


def rewrite(path, old: str, new: str):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def reloads(node, old: str, new: str):
    """Has the node read its configuration again, with that in place of this."""
    before = len(node.broker.log)
    rewrite(node.broker.configuration_path, old, new)
    node.broker.signal(signal.SIGHUP)
    return lambda pattern: wait_until(lambda: re.search(pattern, node.broker.log[before:]), f"the log says {pattern!r}")


def test_a_password_that_the_servers_have_changed_is_taken_over(start_nats, start_node, wire_to):
    nats = start_nats(lines=account_lines("user: u, password: old"))
    node = start_node(nats.address, "persistence true\nmartlet_cluster_user u\nmartlet_cluster_password old").is_ready()
    receiver, sender = wire_to(node.port), wire_to(node.port)
    receiver.connect("receiver", clean=False, properties=LASTS)
    receiver.subscribe("a", 1)
    sender.connect("sender")
    rewrite(nats.configuration, "password: old", "password: new")
    nats.process.send_signal(signal.SIGHUP)
    node.says("Authorization Violation")
    said = reloads(node, "password old", "password new")
    said("Config reloaded")
    node.is_ready()
    assert "started again" not in node.broker.log
    # Whoever was connected has stayed, and what was published in between is there.
    sender.publish("a", "x", qos=1)
    assert receiver.receive(PUBLISH, seconds=20).body.endswith(b"x") and sender.receive(PUBACK, seconds=20)


def test_another_user_counts_at_once_and_clients_stay(start_nats, start_node, wire_to):
    nats = start_nats(lines=account_lines("users: [ { user: u, password: one }, { user: v, password: two } ]"))
    node = start_node(nats.address, "persistence true\nmartlet_cluster_user u\nmartlet_cluster_password one").is_ready()
    client = wire_to(node.port)
    client.connect("client", clean=False, properties=LASTS)
    client.subscribe("a", 1)
    said = reloads(node, "user u\nmartlet_cluster_password one", "user v\nmartlet_cluster_password two")
    said("connecting again, with the new configuration of login and TLS")
    users = lambda: {connection.get("authorized_user") for connection in nats.asks("/connz?auth=1")["connections"]}  # noqa: E731
    wait_until(lambda: users() == {"v"}, "the server knows the node by its other user")
    node.is_ready()
    client.publish("a", "x", qos=1)
    assert {client.receive(seconds=20).kind, client.receive(seconds=20).kind} == {PUBACK, PUBLISH}
    # What has not changed is no reason to connect.
    before = node.metric("martlet_cluster_lost_connections_total")
    reloads(node, "user v", "user v")("Config reloaded")
    assert node.metric("martlet_cluster_lost_connections_total") == before


def test_certificates_that_are_renewed_under_the_same_name_are_read(start_nats, start_node, authority):
    authority.issue("node", "/CN=node")
    directory = authority.directory
    nats = start_nats(
        lines=f'tls {{ cert_file: "{directory}/server.crt", key_file: "{directory}/server.key", ca_file: "{authority.certificate}", '
        "verify: true }"
    )
    own = f"martlet_cluster_certfile {directory}/node.crt\nmartlet_cluster_keyfile {directory}/node.key"
    address = nats.address.replace("127.0.0.1", "localhost")
    node = start_node(address, f"martlet_cluster_cafile {authority.certificate}\n{own}").is_ready()
    certificate = directory / "node.crt"
    good = certificate.read_text()
    # One that cannot be read leaves the login as it was, and is no reason to refuse the rest; under another name it is.
    certificate.write_text("nothing")
    said = reloads(node, "martlet_cluster_certfile", "martlet_cluster_certfile")
    said("what was read before stays in use")
    said("Config reloaded")
    (directory / "other.crt").write_text("nothing")
    reloads(node, "node.crt", "other.crt")("The config was not reloaded because of these errors; the broker goes on as before")
    rewrite(node.broker.configuration_path, "other.crt", "node.crt")
    assert node.get("/readyz")[0] == 200 and node.metric("martlet_cluster_lost_connections_total") == 0
    certificate.write_text(good)
    authority.issue("node", "/CN=node")
    assert certificate.read_text() != good
    reloads(node, "martlet_cluster_certfile", "martlet_cluster_certfile")("connecting again")
    node.is_ready()

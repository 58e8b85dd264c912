"""What an acknowledgement of the cluster says: what the servers tell of when they sync, and what a node does that wants it otherwise."""

import pytest
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import wait_until

ALWAYS = "jetstream { sync_interval: always }"
STORE = "persistence true\n"

pytestmark = [pytest.mark.martlet("mosquitto knows no cluster"), pytest.mark.timeout(180)]


def monitors(*servers) -> str:
    return "martlet_cluster_monitors " + ",".join(f"http://127.0.0.1:{server.monitor}" for server in servers)


def knows(node, mode: str | None, *syncs: str):
    def is_so() -> bool:
        answer = node.ask("cluster")[1]
        return answer["mode"] == mode and [server["sync"] for server in answer["servers"]] == list(syncs)

    wait_until(is_so, f"{node.name} knows of {mode}")


def test_a_server_that_syncs_every_record(start_nats, start_node, program):
    nats = start_nats("n1", lines=ALWAYS)
    node = start_node(nats.address, f"{STORE}martlet_cluster_mode synced\n{monitors(nats)}").is_ready()
    knows(node, "synced", "always")
    assert node.metric("martlet_cluster_server_synced") == 1
    assert "on the disks of a majority of the servers, as far as martlet_cluster_monitors names them (1)" in node.broker.log
    assert "as far as martlet_cluster_monitors names them (1)" in run(program, "ctl", "cluster", "--socket", str(node.socket)).stdout
    assert node.get("/readyz")[0] == 200


def test_a_server_that_syncs_now_and_then_where_that_is_enough(start_nats, start_node):
    nats = start_nats("n1")
    node = start_node(nats.address, f"{STORE}martlet_cluster_mode replicated\n{monitors(nats)}").is_ready()
    knows(node, "replicated", "120s")
    assert node.metric("martlet_cluster_server_synced") == 0
    assert "in the memory of a majority" in node.broker.log
    assert node.get("/readyz")[0] == 200


def test_a_server_that_syncs_now_and_then_where_that_is_not(start_nats, start_node, tools_for):
    nats = start_nats("n1")
    node = start_node(nats.address, f"{STORE}martlet_cluster_mode synced\n{monitors(nats)}")
    knows(node, "replicated", "120s")
    node.says("sync_interval: always")
    assert node.get("/readyz")[0] == 503
    refused = tools_for(node.port).start("mosquitto_pub", "-V", "5", "-t", "a", "-m", "x")
    assert refused.wait() != 0, "a client came in whom nothing can be promised"


def test_a_node_without_a_store_acknowledges_by_itself(start_nats, start_node, program):
    nats = start_nats("n1", lines=ALWAYS)
    node = start_node(nats.address, monitors(nats)).is_ready()
    knows(node, "node", "always")
    assert "on the disks of a majority" not in node.broker.log
    assert "by this node alone, which has no store" in run(program, "ctl", "cluster", "--socket", str(node.socket)).stdout


def test_monitors_are_asked_as_soon_as_a_server_is_there(start_nats, start_node):
    nats = start_nats("late", begins=False, lines=ALWAYS)
    node = start_node(nats.address, f"{STORE}martlet_cluster_mode synced\n{monitors(nats)}")
    knows(node, None, "unknown")
    nats.start()
    node.is_ready()
    knows(node, "synced", "always")


def test_nobody_knows(start_nats, start_node):
    nats = start_nats("n1")
    node = start_node(nats.address, f"{STORE}martlet_cluster_mode synced\nmartlet_cluster_monitors http://127.0.0.1:{reserve_port()}").is_ready()
    knows(node, None, "unknown")
    assert node.ask("cluster")[1]["servers"][0]["reason"]
    assert "it is not known when the server at 127.0.0.1" in node.broker.log
    # What is not known is no reason to stand still.
    assert node.get("/readyz")[0] == 200

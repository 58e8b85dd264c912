"""Leases that end while the servers are away: each node goes on as another one, and stands there once."""

import re

import pytest
from harness.program import run
from harness.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

LEASES = "KV_martlet_tests_nodes"


def test_after_leases_have_ended_each_node_stands_there_once(program, start_nats, start_node):
    nats = start_nats()
    names = {f"node{index}" for index in range(3)}
    nodes = [start_node(nats.address, "persistence true", name=name).is_ready() for name in sorted(names)]
    for node in nodes:
        wait_until(lambda node=node: node.sees() == dict.fromkeys(names, "up"), f"{node.name} sees all", 2 * PATIENCE)
    earlier = {row["id"] for row in nodes[0].ask("cluster")[1]["nodes"]}
    nats.kill()
    for node in nodes:
        wait_until(lambda node=node: "this node's lease has expired" in node.broker.log, f"{node.name} has lost its lease", 3 * PATIENCE)
    nats.start()
    for node in nodes:
        node.is_ready()

    def all_stand_once() -> bool:
        """No node is shown twice at any time, and all are there in the end."""
        are_there = True
        for node in nodes:
            cluster = node.ask("cluster")[1]
            shown = [row["name"] for row in cluster["nodes"] if row["name"]]
            assert len(shown) == len(set(shown)) and not cluster["shared_names"], cluster
            assert node.metric("martlet_cluster_other_nodes") <= 2
            states = {row["name"]: row["state"] for row in cluster["nodes"]}
            are_there = are_there and states == dict.fromkeys(names, "up") and not earlier & {row["id"] for row in cluster["nodes"]}
        return are_there

    wait_until(all_stand_once, "all stand there", 2 * PATIENCE)
    # Until the leases of the earlier runs are over, and names that several had would be told of.
    wait_until(lambda: all_stand_once() and nats.request(f"$JS.API.STREAM.INFO.{LEASES}")["state"]["num_subjects"] == 3,
               "the earlier leases are over", 3 * PATIENCE)  # fmt: skip
    for node in nodes:
        shown = run(program, "ctl", "cluster", "--socket", str(node.socket)).stdout
        assert "are called" not in shown and shown.count(" up ") == 3, shown
        assert "nodes are called" not in node.broker.log
        assert all(int(count) <= 2 for count in re.findall(r"ready, with (\d+) other", node.broker.log))

"""A node whose clock is wrong: all nodes say so, and go on."""

import re
from pathlib import Path

import pytest
from cluster.site import Node
from durability.unsynced_disk import compile_layer
from harness.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.martlet("mosquitto has no cluster")


def offset(node: Node, other: str) -> float | None:
    """How far the node sees the other's clock ahead, in seconds."""
    pattern = rf'^martlet_cluster_node_clock_offset_seconds{{.*node="{other}".*}} (\S+)$'
    match = re.search(pattern, node.get("/metrics")[1], re.MULTILINE)
    return float(match[1]) if match else None


def test_a_node_whose_clock_is_wrong_is_told_of(start_nats, start_node, tmp_path):
    layer = compile_layer(tmp_path, Path(__file__).with_name("wrong_clock.c"))
    server = start_nats()
    wrong = {"LD_PRELOAD": str(layer), "CLOCK_OFFSET_SECONDS": "90"}
    right, fast = (start_node(server.address, name=name, environment=environment) for name, environment in (("right", None), ("fast", wrong)))
    for node in (right, fast):
        node.is_ready()
    right.broker.wait_for_log(r"the clock of fast \(\w+\) is (89\.\d|90\.0) s ahead of that of this node")
    assert 85 < offset(right, "fast") <= 90.1
    # It is no reason to send its clients away.
    status, text = right.get("/readyz?verbose")
    assert status == 200 and re.search(r"^\[\+\]cluster ok: fast: its clock is \S+ s ahead of that of this node$", text, re.MULTILINE)

    def trouble(name: str) -> str | None:
        return next(row["trouble"] for row in right.ask("cluster")[1]["nodes"] if row["name"] == name)

    wait_until(lambda: "its clock is" in (trouble("fast") or ""), "the list of nodes says so")
    wait_until(lambda: trouble("right") is None, "a clock is another one's trouble")
    # That a clock is late is believed when nothing has come faster for a while.
    behind = r"the clock of right \(\w+\) is 90\.\d s behind that of this node"
    wait_until(lambda: re.search(behind, fast.broker.log), "the other one says so too", 4 * PATIENCE)
    assert -95 < offset(fast, "right") <= -89.9


def test_clocks_that_agree_are_not_told_of(start_nats, start_node):
    server = start_nats()
    one, other = (start_node(server.address, name=name).is_ready() for name in ("one", "other"))
    wait_until(lambda: offset(one, "other") is not None, "it is known how far the clocks are from each other", 4 * PATIENCE)
    assert abs(offset(one, "other")) < 1
    assert "the clock of" not in one.broker.log + other.broker.log
    assert one.get("/readyz?verbose")[1].count("[+]cluster ok\n") == 1

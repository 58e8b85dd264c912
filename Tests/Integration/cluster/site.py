"""Nodes of a cluster under test, and three of them with their servers."""

import hashlib
import http.client
import json
import random
import re
from pathlib import Path

from cluster.nats import trio
from durability.unsynced_disk import UnsyncedDisk
from harness.broker import Broker
from harness.ports import reserve_port
from harness.waiting import PATIENCE, wait_until


class Node:
    """A broker of a cluster, and what it says of itself over HTTP."""

    def __init__(
        self, program, directory: Path, name: str, servers: str, lines: str = "", host: str = "127.0.0.1", *, cluster: str = "tests", **options
    ):  # fmt: skip
        self.name = name
        self.http = reserve_port()
        tokens = directory / "tokens"
        tokens.write_text(f"admin:admin:{hashlib.sha256(b'mrt_admin').hexdigest()}\n")
        self.socket = directory / f"{name}.sock"
        self.store = directory / name
        self.store.mkdir(exist_ok=True)
        self.broker = Broker(
            program, directory, **{"verbose": False, **options},
            configuration=f"martlet_node_name {name}\nmartlet_cluster_name {cluster}\nmartlet_cluster_servers {servers}\n"
            f"martlet_node_address {name}.example:1883\n{lines}\nmartlet_http_token_file {tokens}\n"
            f"persistence_location {self.store}/\nlistener 0 {self.socket}\nprotocol http_api\n"
            f"listener {self.http} {host}\nprotocol http_api\nmartlet_metrics_anonymous true",
        )  # fmt: skip

    def moves_to(self, servers: str):
        """Names other servers, for its next start."""
        path = self.broker.configuration_path
        path.write_text(re.sub(r"(?<=martlet_cluster_servers ).*", servers, path.read_text()))

    @property
    def port(self) -> int:
        return self.broker.port

    def get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=PATIENCE)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def ask(self, path: str, method: str = "GET", body: dict | None = None) -> tuple[int, dict]:
        """What an administrator is answered."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=PATIENCE)
        fields = {"Authorization": "Bearer mrt_admin", "Content-Type": "application/json"}
        connection.request(method, f"/api/martlet/v1/{path}", None if body is None else json.dumps(body), fields)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text else {}

    def sees(self) -> dict[str, str]:
        """The nodes that it knows of, and how they are."""
        return {row["name"]: row["state"] for row in self.ask("cluster")[1]["nodes"]}

    def is_ready(self) -> "Node":
        wait_until(lambda: self.get("/readyz")[0] == 200, f"node {self.name} is ready", 2 * PATIENCE)
        return self

    def says(self, words: str):
        """Waits until /readyz says so."""
        wait_until(lambda: words in self.get("/readyz?verbose")[1], f"/readyz of {self.name} says {words!r}")

    def metric(self, name: str) -> float:
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name):
                return float(line.split()[-1])
        raise AssertionError(f"no metric {name}")


def restart(nodes: list[Node]):
    """Kills all of them at once, and starts them again."""
    for node in nodes:
        node.broker.kill()
    for node in nodes:
        node.broker.restart()


class Site:
    """Three NATS servers and a node at each, which knows no other server than its own.

    With the layer of `UnsyncedDisk`, each node has a disk whose power can be cut: one that `begins` with the node.
    """

    def __init__(self, program, directory: Path, keeps: bool = False, layer: Path | None = None, *, node_lines: str = "", **options):
        """node_lines: what the nodes' configurations have besides. The other options are the servers'."""
        self.servers = trio(directory, **options)
        self.disks = [UnsyncedDisk(directory / f"node{index}", layer) for index in range(3 if layer else 0)]
        environments = [disk.environment for disk in self.disks] or [None] * 3
        # What a client misses while its node comes back is more than the thousand messages that a queue takes otherwise.
        store = "persistence true\nmartlet_cluster_session_wait 5\nmax_queued_messages 0" if keeps else ""
        store += f"\n{node_lines}"
        # The third has several loops, of which one speaks to its server, and a dashboard that is reached from elsewhere.
        self.nodes = [Node(program, directory, f"node{index}", server.address, f"sys_interval 1\nlog_dest stderr\nlog_dest topic\nmartlet_threads {loops}\n{store}", host, environment=environment)
                       for index, (server, loops, host, environment) in enumerate(zip(self.servers, (1, 1, 3), ("127.0.0.1", "127.0.0.1", "0.0.0.0"), environments))]  # fmt: skip
        try:
            for disk in self.disks:
                disk.begin()
            for node in self.nodes:
                node.broker.start()
            self.is_whole()
        except BaseException:
            self.end(is_well=False)
            raise

    def cut_power(self, index: int, chance: random.Random):
        """A node and its disk lose their power, and get it back: the disk has what was synced, and perhaps a part of the rest."""
        self.nodes[index].broker.kill()
        self.disks[index].power_cut(chance, keeps_some=chance.random() < 0.5)
        self.disks[index].begin()
        self.nodes[index].broker.restart()

    def is_whole(self):
        """Waits until all nodes know each other, and perhaps one that was killed and whose lease lasts."""
        for node in self.nodes:
            node.is_ready()
        for node in self.nodes:
            wait_until(lambda node=node: node.metric("martlet_cluster_other_nodes") >= 2, f"{node.name} knows the others", 2 * PATIENCE)

    def end(self, is_well: bool = True):
        """is_well: whether nodes that are there have to end as they should."""
        try:
            for node in self.nodes:
                if is_well:
                    node.broker.finish()
                elif node.broker.process:
                    node.broker.kill()
        finally:
            for server in self.servers:
                server.kill()
            for node in self.nodes:
                print(f"--- log of {node.name}\n{node.broker.log[-10000:]}")

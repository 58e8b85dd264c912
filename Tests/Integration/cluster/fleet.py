"""Nodes of a cluster that look like one broker."""

import itertools
import random
import re
from pathlib import Path

from cluster.nats import NatsServer
from cluster.site import Node
from harness.crossroads import Crossroads
from harness.waiting import wait_until

_NODES = 3
_names = (f"fleet{number}" for number in itertools.count())


class Fleet:
    """Each connection to its port goes to one of the nodes by chance. It has what a test asks of a `Broker` that it leaves running."""

    def __init__(self, program, directory: Path, server: NatsServer, chance: random.Random, *, configuration: str = "", **options):
        self.program = program
        self._server = server
        self._name = next(_names)
        lines = configuration if "persistence " in configuration else f"persistence true\n{configuration}"
        self._nodes = [
            Node(program, directory, f"{self._name}-{index}", server.address, lines, cluster=self._name, verbose=True, **options)
            for index in range(_NODES)
        ]
        self._crossroads = Crossroads([node.port for node in self._nodes], chance)
        self.port = self._crossroads.port

    def start(self) -> "Fleet":
        for node in self._nodes:
            node.broker.start()
        # A node is ready when all that were there before it have answered it, so that each knows each other one. Their count of the others, which
        # is made once a second, comes behind that.
        for node in self._nodes:
            node.is_ready()
        return self

    @property
    def log(self) -> str:
        """What all nodes have said, one after the other."""
        return "".join(node.broker.log for node in self._nodes)

    def wait_for_log(self, pattern: str) -> re.Match:
        return wait_until(lambda: re.search(pattern, self.log, re.MULTILINE), f"a node's log says {pattern!r}")

    def finish(self):
        try:
            for node in self._nodes:
                node.broker.finish()
        finally:
            self._crossroads.close()
            # The server is other tests' as well.
            for stream in self._server.request("$JS.API.STREAM.NAMES")["streams"] or []:
                if f"_{self._name}_" in stream:
                    self._server.request(f"$JS.API.STREAM.DELETE.{stream}")
            for node in self._nodes:
                print(f"--- log of {node.name}\n{node.broker.log[-10000:]}")

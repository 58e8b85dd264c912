"""Fixtures: three nodes on three NATS servers, shared by the tests that leave them whole, and single ones."""

from collections.abc import Callable, Iterator

import pytest
from cluster.nats import NatsServer
from cluster.site import Node, Site


@pytest.fixture(scope="module")
def kept(program, tmp_path_factory) -> Iterator[Site]:
    """With stores, and so with a log."""
    made = Site(program, tmp_path_factory.mktemp("kept"), keeps=True)
    yield made
    made.end()


@pytest.fixture
def own(program, tmp_path) -> Iterator[Site]:
    """The same for one test, which need not leave it whole."""
    made = Site(program, tmp_path, keeps=True)
    yield made
    made.end()


@pytest.fixture(scope="module")
def site(program, tmp_path_factory) -> Iterator[Site]:
    made = Site(program, tmp_path_factory.mktemp("cluster"))
    yield made
    made.end()


@pytest.fixture
def nodes(site) -> list[Node]:
    return site.nodes


@pytest.fixture
def start_nats(tmp_path) -> Iterator[Callable[..., NatsServer]]:
    servers: list[NatsServer] = []

    def start(name: str = "n1", begins: bool = True, **options) -> NatsServer:
        servers.append(NatsServer(tmp_path, name, **options))
        return servers[-1].start() if begins else servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture
def start_node(program, tmp_path) -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def start(servers: str, lines: str = "", name: str = "single", **options) -> Node:
        nodes.append(Node(program, tmp_path, name, servers, lines, **options))
        nodes[-1].broker.start()
        return nodes[-1]

    yield start
    for node in nodes:
        try:
            node.broker.finish()
        finally:
            print(f"--- log of {node.name}\n{node.broker.log[-10000:]}")

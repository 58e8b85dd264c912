"""Fixtures: what these tests ask of a broker they ask of a cluster as well, with each connection to one of its nodes by chance."""

import random

import pytest
from cluster.fleet import Fleet
from cluster.nats import NatsServer


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A NATS server for all clusters of these tests, of which there is one at a time."""
    made = NatsServer(tmp_path_factory.mktemp("servers"))
    yield made.start()
    made.kill()


@pytest.fixture
def start_fleet(request, program, tmp_path):
    if not program.is_martlet:
        pytest.skip("has no cluster")
    if mark := request.node.get_closest_marker("alone"):
        pytest.skip(mark.args[0])
    fleets: list[Fleet] = []

    def start(*arguments, **options) -> Fleet:
        server = request.getfixturevalue("server")
        fleets.append(Fleet(program, tmp_path, server, random.Random(request.node.nodeid), arguments=arguments, **options))
        return fleets[-1].start()

    yield start
    for fleet in fleets:
        fleet.finish()


def _start(request):
    return request.getfixturevalue("start_fleet" if request.param == "three nodes" else "start_broker")


@pytest.fixture(params=["one broker", "three nodes"])
def broker(request):
    mark = request.node.get_closest_marker("broker")
    return _start(request)(*(mark.args if mark else ()), **(mark.kwargs if mark else {}))


@pytest.fixture(params=["one loop", "four loops", "three nodes"])
def loops_broker(request, program):
    if request.param != "four loops":
        return _start(request)()
    if not program.is_martlet:
        pytest.skip("has one loop only")
    return _start(request)("--threads", "4")

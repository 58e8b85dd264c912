"""Fixtures: a broker of one's own, mosquitto's tools, and bare connections to it."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from harness.broker import Broker, Program
from harness.certificates import Authority
from harness.debian import Debian
from harness.mosquitto import Tools
from harness.wire import Wire


def pytest_report_header() -> str:
    return f"broker: {Program.chosen().path}"


def spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """A cluster's tests wait for leases for most of their time: file by file among all others, they leave the processors to these."""
    files = [list(file) for _, file in itertools.groupby(items, key=lambda item: item.path)]
    ordered = []
    for part in ([file for file in files if is_cluster == ("cluster" in file[0].path.parts)] for is_cluster in (True, False)):
        count, before = sum(map(len, part)), 0
        for file in part:
            ordered.append((before / count, file))
            before += len(file)
    return [item for _, file in sorted(ordered, key=lambda entry: entry[0]) for item in file]


def pytest_collection_modifyitems(items):
    items[:] = spread(items)
    if not Program.chosen().is_martlet:
        for item in items:
            if mark := item.get_closest_marker("martlet"):
                item.add_marker(pytest.mark.skip(reason=mark.args[0] if mark.args else "a promise of Martlet's own"))


@pytest.fixture(scope="session")
def program() -> Program:
    return Program.chosen()


@pytest.fixture
def start_broker(program, tmp_path) -> Iterator[Callable[..., Broker]]:
    """Starts brokers that end with the test; each must end with exit code 0 when it is asked to."""
    brokers: list[Broker] = []

    def start(*arguments, configuration: str = "", **options) -> Broker:
        broker = Broker(program, tmp_path, arguments=arguments, configuration=configuration, **options)
        brokers.append(broker)
        return broker.start()

    yield start
    for broker in brokers:
        try:
            broker.finish()
        finally:
            print(f"--- log of {broker.program.name} on port {broker.port}\n{broker.log[-20000:]}")


@pytest.fixture
def broker(request, start_broker) -> Broker:
    """A broker started as the test's `broker` mark says, or with nothing but a listener."""
    mark = request.node.get_closest_marker("broker")
    return start_broker(*(mark.args if mark else ()), **(mark.kwargs if mark else {}))


@pytest.fixture(scope="session")
def debian() -> Debian:
    """mosquitto and what belongs to it."""
    found = Debian()
    if not found.is_complete:
        pytest.skip("mosquitto with its dynamic security is not installed here, and not fetched (.ci/mosquitto)")
    return found


@pytest.fixture
def reference(debian, tmp_path) -> Iterator[Callable[[str], Broker]]:
    """Starts mosquitto itself."""
    brokers: list[Broker] = []

    def start(configuration: str) -> Broker:
        brokers.append(Broker(debian.program, tmp_path, configuration=configuration, environment=debian.environment))
        return brokers[-1].start()

    yield start
    for broker in brokers:
        broker.finish()


@pytest.fixture
def authority(tmp_path) -> Authority:
    """An authority of the test's own, with a certificate for the broker: server.crt."""
    authority = Authority(tmp_path / "certificates")
    authority.issue("server")
    return authority


@pytest.fixture(params=[1, 4], ids=["one loop", "four loops"])
def loops_broker(request, program, start_broker) -> Broker:
    """The same on one loop and on several: what crosses loops must not be seen from outside."""
    if not program.is_martlet:
        if request.param > 1:
            pytest.skip("has one loop only")
        return start_broker()
    return start_broker("--threads", str(request.param))


@pytest.fixture
def tools(request) -> Iterator[Tools]:
    """mosquitto's programs, pointed at whichever broker the test asked for."""
    name = "loops_broker" if "loops_broker" in request.fixturenames else "broker"
    tools = Tools(request.getfixturevalue(name).port)
    yield tools
    tools.close()


@pytest.fixture
def tools_for() -> Iterator[Callable[[int], Tools]]:
    """mosquitto's programs, pointed at a port."""
    pointed: list[Tools] = []

    def point(port: int) -> Tools:
        pointed.append(Tools(port))
        return pointed[-1]

    yield point
    for tools in pointed:
        tools.close()


@pytest.fixture
def wire_to() -> Iterator[Callable[..., Wire]]:
    """Opens bare connections to a port."""
    wires: list[Wire] = []

    def open_wire(port: int, version: str = "mqttv5") -> Wire:
        wires.append(Wire(port, version))
        return wires[-1]

    yield open_wire
    for connection in wires:
        connection.close()


@pytest.fixture
def wire(broker, wire_to) -> Callable[..., Wire]:
    """Opens bare connections to the broker."""
    return lambda version="mqttv5": wire_to(broker.port, version)

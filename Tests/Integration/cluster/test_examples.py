"""The files for three hosts in config/examples/cluster: each is understood by what it is for, and together they are a cluster behind a balancer."""

import contextlib
import http.client
import os
import re
import shutil
import socket
import subprocess

import pytest
import yaml
from cluster.nats import NatsServer, binary
from harness.broker import REPOSITORY, Broker
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import PATIENCE, wait_until
from harness.wire import PUBACK, PUBLISH, Wire

EXAMPLES = REPOSITORY / "config/examples/cluster"
HALLS = ["hall-1", "hall-2", "hall-3"]

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]


@pytest.mark.parametrize("name", ["martlet.conf", "nats-server.conf"])
def test_hosts_differ_in_what_is_marked(name):
    def common(hall: str) -> str:
        text = (EXAMPLES / hall / name).read_text().partition("\n")[2]
        return re.sub(r"^(# this host.*)\n.*$", r"\1", text, flags=re.MULTILINE)

    assert common("hall-1") == common("hall-2") == common("hall-3")
    assert len({(EXAMPLES / hall / name).read_text() for hall in HALLS}) == 3


@pytest.mark.parametrize("hall", HALLS)
def test_the_servers_understand_their_files(hall):
    done = subprocess.run([binary(), "-t", "-c", EXAMPLES / hall / "nats-server.conf"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and "is valid" in done.stdout, done.stdout


def test_the_comments_about_encryption_are_settings(authority, program, tmp_path):
    """What is commented is taken in, with files that are there."""
    authority.issue("node", "/CN=node")
    server = re.sub(r"^(\s*)#(tls \{.*\})$", r"\1\2", (EXAMPLES / "hall-1/nats-server.conf").read_text(), flags=re.MULTILINE)
    assert server.count("\ntls {") == 1 and server.count("\n  tls {") == 1
    server = server.replace("/etc/nats/ca.crt", str(authority.certificate)).replace("/etc/nats", str(authority.directory))
    (tmp_path / "nats-server.conf").write_text(server)
    done = subprocess.run([binary(), "-t", "-c", tmp_path / "nats-server.conf"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    node = (EXAMPLES / "hall-1/martlet.conf").read_text().replace("nats://", "tls://").replace("#martlet_cluster", "martlet_cluster")
    assert node.count("\nmartlet_cluster_") == 10
    node = node.replace("/etc/martlet/certs/cluster-ca.crt", str(authority.certificate)).replace("/etc/martlet/certs", str(authority.directory))
    check(program, node, tmp_path)


def check(program, text: str, directory):
    run(program, "passwd", "-c", "-b", str(directory / "users"), "anna", "secret")
    text = text.replace("/etc/martlet", str(directory)).replace("/var/lib/martlet", str(directory)).replace("/run/martlet", str(directory))
    # Root would become another user, who may not come here.
    (directory / "martlet.conf").write_text(text + ("user root\n" if os.geteuid() == 0 else ""))
    done = run(program, "-c", str(directory / "martlet.conf"), "--test-config")
    assert done.returncode == 0, done.stdout
    assert not re.search("Warning: (?!.*The broker should not be run as root)", done.stdout), done.stdout


@pytest.mark.parametrize("hall", HALLS)
def test_the_nodes_understand_their_files(program, tmp_path, hall):
    text = (EXAMPLES / hall / "martlet.conf").read_text()
    for port in ("1883", "9883"):
        text = text.replace(f"listener {port}", f"listener {reserve_port()}")
    check(program, text, tmp_path)


def test_systemd_understands_the_units(program, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("there is no systemd-analyze here")
    (tmp_path / "nats-server.service").write_text(
        (EXAMPLES / "nats-server.service").read_text().replace("/usr/local/bin/nats-server", str(binary())).replace("=nats\n", "=root\n"))  # fmt: skip
    martlet = (REPOSITORY / "config/systemd/martlet.service").read_text()
    (tmp_path / "martlet.service").write_text(martlet.replace("/usr/bin/martlet", program.path))
    shutil.copytree(EXAMPLES / "martlet.service.d", tmp_path / "martlet.service.d")
    for unit in ("nats-server.service", "martlet.service"):
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", tmp_path / unit],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        assert done.returncode == 0 and done.stdout == "", done.stdout


def test_the_containers_are_those_of_the_configurations():
    """Without Docker: the file is read, what it mounts is there, and every name that the configurations use is somebody's."""
    composed = yaml.safe_load((EXAMPLES / "compose.yaml").read_text())
    names = set()
    for service in composed["services"].values():
        names |= {alias for network in service.get("networks", {}).values() for alias in network["aliases"]}
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            # The users are whoever tries it to choose.
            assert source in composed["volumes"] or source == "./users" or (EXAMPLES / source).is_file(), volume
    used = {name for hall in HALLS for file in ("martlet.conf", "nats-server.conf")
            for name in re.findall(r"hall-\d\.example", (EXAMPLES / hall / file).read_text())}  # fmt: skip
    assert used == names
    docker = REPOSITORY / "docker/Dockerfile"
    assert (EXAMPLES / composed["services"]["hall-1"]["build"]["context"]).resolve() == REPOSITORY and docker.exists()


class Hall:
    """One host's server and node, by its files, on ports of this machine."""

    def __init__(self, program, directory, number: int, ports: dict[str, list[int]]):
        self.directory = directory / HALLS[number]
        self.directory.mkdir()
        server = (EXAMPLES / HALLS[number] / "nats-server.conf").read_text()
        node = (EXAMPLES / HALLS[number] / "martlet.conf").read_text()
        for other in range(3):
            server = server.replace(f"hall-{other + 1}.example:6222", f"127.0.0.1:{ports['route'][other]}")
            node = node.replace(f"hall-{other + 1}.example:4222", f"127.0.0.1:{ports['nats'][other]}")
        self.nats = NatsServer(self.directory, HALLS[number])
        server = server.replace("0.0.0.0:4222", f"127.0.0.1:{ports['nats'][number]}").replace("0.0.0.0:6222", f"127.0.0.1:{ports['route'][number]}")
        self.nats.configuration.write_text(
            server.replace("127.0.0.1:8222", f"127.0.0.1:{self.nats.monitor}").replace("/var/lib/nats", str(self.directory / "nats")))
        self.http = ports["http"][number]
        node = node.replace("127.0.0.1:8222", f"127.0.0.1:{self.nats.monitor}")
        node = node.replace("listener 1883", "listener {port} 127.0.0.1").replace("listener 9883", f"listener {self.http} 127.0.0.1")
        node = node.replace("/run/martlet", "{directory}").replace("/var/lib/martlet", "{directory}").replace("/etc/martlet", "{directory}")
        run(program, "passwd", "-c", "-b", str(self.directory / "users"), "anna", "secret")
        self.broker = Broker(program, self.directory, configuration=node, listener=False, verbose=False)

    def is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=PATIENCE)
        connection.request("GET", "/readyz")
        with contextlib.closing(connection):
            return connection.getresponse().status == 200


@pytest.fixture(scope="module")
def halls(program, tmp_path_factory):
    ports = {kind: [reserve_port() for _ in range(3)] for kind in ("nats", "route", "http")}
    directory = tmp_path_factory.mktemp("halls")
    made = [Hall(program, directory, number, ports) for number in range(3)]
    with contextlib.ExitStack() as stack:
        for hall in made:
            stack.callback(hall.nats.kill)
            hall.nats.start(waits=False)
        for hall in made:
            hall.broker.start()
            stack.callback(lambda hall=hall: print(f"--- log of {hall.directory.name}\n{hall.broker.log[-5000:]}"))
            stack.callback(hall.broker.finish)
        for hall in made:
            wait_until(hall.is_ready, f"{hall.directory.name} is ready", 6 * PATIENCE)
        yield made


@pytest.fixture
def balancer(halls, tmp_path):
    """haproxy with the example, in front of the halls; its port."""
    if not shutil.which("haproxy"):
        pytest.skip("there is no haproxy here")
    port, figures = reserve_port(), tmp_path / "figures"
    text = (EXAMPLES / "haproxy.cfg").read_text().replace("bind :1883", f"bind 127.0.0.1:{port}")
    text = text.replace("maxconn 100000", f"maxconn 100\n  stats socket {figures}")
    for number, hall in enumerate(halls):
        text = text.replace(f"hall-{number + 1}.example:1883", f"127.0.0.1:{hall.broker.port} port {hall.http}")
    (tmp_path / "haproxy.cfg").write_text(text)
    checked = subprocess.run(["haproxy", "-c", "-f", tmp_path / "haproxy.cfg"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert checked.returncode == 0, checked.stdout
    assert "WARNING" not in checked.stdout.replace("no 'chroot'", ""), checked.stdout
    process = subprocess.Popen(["haproxy", "-db", "-f", tmp_path / "haproxy.cfg"], stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: b"" == figures_say(figures, "DOWN"), "all nodes are ready for the balancer", 6 * PATIENCE)
        yield port, figures
    finally:
        process.terminate()
        process.wait(PATIENCE)


def figures_say(path, word: str) -> bytes | None:
    """The lines of the balancer's figures that hold a word; None while it does not answer."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(b"show stat\n")
        text = b"".join(iter(lambda: connection.recv(65536), b""))
        lines = [line for line in text.splitlines() if line.startswith(b"nodes,hall-")]
        return b"\n".join(line for line in lines if word.encode() in line) if len(lines) == 3 else None
    return None


def client(port: int, name: str, *, clean: bool = True) -> tuple[Wire, bool]:
    wire = Wire(port, "mqttv311")
    is_present, code = wire.connect(name, clean=clean, user="anna", password="secret")
    assert code == 0
    return wire, is_present


def test_three_hosts_behind_a_balancer(halls, balancer):
    port, figures = balancer
    wires = [client(port, f"client-{number}")[0] for number in range(6)]
    for wire in wires:
        wire.subscribe("hall/#")
    # In the log, for which the nodes' user has the right; the balancer has put two clients on each node.
    wires[0].publish("hall/other", "on", qos=1)
    assert {wires[0].receive().kind, wires[0].receive().kind} == {PUBACK, PUBLISH}
    for wire in wires[1:]:
        assert wire.receive(PUBLISH).topic == "hall/other"
    wires[0].publish("hall/lamp", "on")
    for wire in wires:
        assert wire.receive(PUBLISH).topic == "hall/lamp"
        wire.close()

    # A client finds the session that it had.
    for number in range(6):
        first, was_there = client(port, f"lasting-{number}", clean=False)
        assert not was_there
        first.close()
    for number in range(6):
        again, was_there = client(port, f"lasting-{number}", clean=False)
        assert was_there
        again.close()

    # Also on another node, which the one that had it has to answer.
    first = client(halls[0].broker.port, "moving", clean=False)[0]
    first.subscribe("hall/#", 1)
    first.close()
    again, was_there = client(halls[1].broker.port, "moving", clean=False)
    assert was_there
    again.close()

    # A node that is down gets no clients.
    halls[0].broker.stop()
    wait_until(lambda: (figures_say(figures, "DOWN") or b"").startswith(b"nodes,hall-1,"), "the balancer has noticed", 3 * PATIENCE)
    for number in range(6):
        client(port, f"other-{number}")[0].close()
    halls[0].broker.restart()
    wait_until(lambda: figures_say(figures, "DOWN") == b"", "it has its clients again", 6 * PATIENCE)
    assert not any("Violation" in hall.broker.log for hall in halls)


def test_whom_the_servers_do_not_let_in(halls, program, tmp_path):
    """Only the cluster's user, and nothing outside its own subjects."""
    port = re.search(r"listen: 127.0.0.1:(\d+)", halls[1].nats.configuration.read_text())[1]
    address = f"nats://127.0.0.1:{port}"
    lines = f"martlet_node_name stranger\nmartlet_cluster_servers {address}\nmartlet_cluster_user martlet\n"
    for name, password, words in (("plant", "guessed", "Authorization Violation"), ("quarry", "change-me", "Permissions Violation")):
        broker = Broker(program, tmp_path, configuration=f"{lines}martlet_cluster_name {name}\nmartlet_cluster_password {password}").start()
        broker.wait_for_log(words)
        broker.stop()

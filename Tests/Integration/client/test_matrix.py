"""What MartletClient does with real servers, feature by feature, through the commands that are made of it: a matrix that is printed and held."""

import shutil
import subprocess
import time
from dataclasses import dataclass

import pytest
from harness.broker import REPOSITORY
from harness.certificates import Authority
from harness.ports import reserve_port
from harness.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.martlet("tries the commands that were built here")

PROGRAM = str(REPOSITORY / ".build/release/martlet")


@dataclass
class Server:
    """A server, and how the commands reach it."""

    name: str
    address: list[str]
    version: str = "mqttv5"

    def command(self, name: str, *arguments) -> list[str]:
        return [PROGRAM, name, *self.address, "-V", self.version, *map(str, arguments)]

    def run(self, name: str, *arguments, given: str | None = None) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(name, *arguments), input=given, capture_output=True, text=True, timeout=PATIENCE)

    def start(self, name: str, *arguments) -> subprocess.Popen:
        return subprocess.Popen(self.command(name, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def subscribed(self, *arguments) -> subprocess.Popen:
        """A `martlet sub` that is subscribed."""
        process = self.start("sub", "-d", *arguments)
        seen = ""
        while "SUBACK" not in seen and "Subscribed" not in seen:
            line = process.stdout.readline()
            assert line, f"{seen}{process.stderr.read()}"
            seen += line
        return process


def received(process: subprocess.Popen) -> list[str]:
    """What it printed that is a message: those of the tests begin with an asterisk."""
    output, errors = process.communicate(timeout=PATIENCE)
    return [line for line in output.splitlines() if line.startswith("*")] or [errors.strip()]


# The features: each returns nothing, or why it does not work.


def publishing(qos: int):
    def feature(server: Server):
        subscriber = server.subscribed("-t", f"m/{qos}", "-q", qos, "-C", 3, "-W", 5)
        done = server.run("pub", "-t", f"m/{qos}", "-q", qos, "-l", given="*1\n*2\n*3\n")
        if done.returncode:
            subscriber.kill()
            return done.stderr.strip()
        return None if received(subscriber) == ["*1", "*2", "*3"] else "not all came"

    return feature


def retained(server: Server):
    done = server.run("pub", "-t", "m/kept", "-m", "*kept", "-r", "-q", 1)
    if done.returncode:
        return done.stderr.strip()
    process = server.start("sub", "-t", "m/kept", "-C", 1, "-W", 5)
    found = received(process)
    server.run("pub", "-t", "m/kept", "-n", "-r", "-q", 1)
    return None if found == ["*kept"] else f"{found}"


def will(server: Server):
    subscriber = server.subscribed("-t", "m/will", "-C", 1, "-W", 10)
    # The broker ends nobody's connection here: the process is killed.
    victim = server.subscribed("-t", "m/nothing", "--will-topic", "m/will", "--will-payload", "*gone")
    victim.kill()
    victim.communicate()
    found = received(subscriber)
    return None if found == ["*gone"] else f"{found}"


def kept_session(server: Server):
    arguments = ["-i", "keeper", "-c", "-t", "m/session", "-q", 1, *(["-x", 60] if server.version == "mqttv5" else [])]
    first = server.subscribed(*arguments)
    first.terminate()
    first.communicate(timeout=PATIENCE)
    done = server.run("pub", "-t", "m/session", "-m", "*waited", "-q", 1)
    if done.returncode:
        return done.stderr.strip()
    found = received(server.start("sub", *arguments, "-C", 1, "-W", 5))
    return None if found == ["*waited"] else f"{found}"


def shared(server: Server):
    members = [server.subscribed("-t", "$share/group/m/shared", "-q", 1, "-W", 3) for _ in range(2)]
    done = server.run("pub", "-t", "m/shared", "-q", 1, "-l", given="*\n" * 20)
    if done.returncode:
        return done.stderr.strip()
    counts = [sum(line.startswith("*") for line in received(member)) for member in members]
    return None if sum(counts) == 20 else f"{sum(counts)} of 20 came"


def request(server: Server):
    responder = server.start("respond", "-t", "m/request", "-m", "*answer")
    try:
        for _ in range(20):
            done = server.run("request", "-t", "m/request", "-m", "?", "-W", 2)
            if done.returncode == 0 or "response topic" in done.stderr:
                break
            time.sleep(0.1)
        return None if done.stdout.strip() == "*answer" else done.stderr.strip()
    finally:
        responder.kill()
        responder.communicate()


FEATURES = {
    "QoS 0": publishing(0), "QoS 1": publishing(1), "QoS 2": publishing(2), "retained": retained, "will": will,
    "kept session": kept_session, "shared": shared, "requests": request,
}  # fmt: skip


def matrix(server: Server) -> dict[str, str | None]:
    found = {name: feature(server) for name, feature in FEATURES.items()}
    print(f"\n{server.name}")
    for name, failure in found.items():
        print(f"  {name:14} {'works' if failure is None else failure}")
    return found


def all_work(server: Server, **exceptions):
    """Everything works, but for the features that are named with a part of what is said about them."""
    found = matrix(server)
    for name, failure in found.items():
        expected = exceptions.get(name.replace(" ", "_"))
        if expected is None:
            assert failure is None, f"{server.name}, {name}: {failure}"
        else:
            assert failure is not None and expected in failure, f"{server.name}, {name}: {failure}"


# The servers


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "certificates")


@pytest.mark.parametrize("transport", ["TCP", "Unix socket", "WebSocket", "TLS", "WebSocket over TLS"])
def test_martlet(transport, start_broker, authority, tmp_path):
    port, unix = reserve_port(), tmp_path / "broker.sock"
    certificate = authority.issue("server")
    encrypted = f"certfile {certificate}\nkeyfile {certificate.with_suffix('.key')}\n"
    trusted = ["--cafile", str(authority.certificate)]
    tcp = ["-h", "localhost", "-p", str(port)]
    lines, address = {
        "TCP": (f"listener {port} 127.0.0.1\n", tcp),
        "Unix socket": (f"listener 0 {unix}\n", ["--unix", str(unix)]),
        "WebSocket": (f"listener {port} 127.0.0.1\nprotocol websockets\n", [*tcp, "--ws"]),
        "TLS": (f"listener {port} 127.0.0.1\n{encrypted}", [*tcp, *trusted]),
        "WebSocket over TLS": (f"listener {port} 127.0.0.1\nprotocol websockets\n{encrypted}", [*tcp, "--ws", *trusted]),
    }[transport]
    start_broker(configuration=lines)
    all_work(Server(f"Martlet, {transport}", address))


@pytest.mark.parametrize("version", ["mqttv5", "mqttv311"])
def test_mosquitto(version, reference):
    broker = reference("")
    exceptions = {} if version == "mqttv5" else {"requests": "response topic"}
    all_work(Server(f"mosquitto, {version}", ["-h", "127.0.0.1", "-p", str(broker.port)], version), **exceptions)


def test_martlet_of_version_3_1_1(broker):
    all_work(Server("Martlet, mqttv311", ["-h", "127.0.0.1", "-p", str(broker.port)], "mqttv311"), requests="response topic")


@pytest.fixture
def nats(tmp_path):
    found = next(iter((REPOSITORY / ".build/python").glob("**/nats-server")), None) or shutil.which("nats-server")
    if found is None:
        pytest.skip("nats-server is not installed here")
    port, own = reserve_port(), reserve_port()
    configuration = tmp_path / "nats.conf"
    configuration.write_text(
        f"server_name: one\nlisten: 127.0.0.1:{own}\nmqtt {{ listen: 127.0.0.1:{port} }}\njetstream {{ store_dir: '{tmp_path}/store' }}\n"
    )
    with (tmp_path / "nats.log").open("w") as log:
        process = subprocess.Popen([str(found), "-c", str(configuration)], stdout=log, stderr=log)
    try:
        probe = Server("nats-server", ["-h", "127.0.0.1", "-p", str(port)], "mqttv311")
        wait_until(lambda: probe.run("pub", "-t", "probe", "-m", "x").returncode == 0, "nats-server answers")
        yield probe
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_nats_server(nats):
    # No $share of MQTT 3.1.1's clients, and no MQTT 5.0: a request has to name the topic of its answer.
    all_work(nats, shared="", requests="response topic")


def test_nats_server_refuses_what_it_has_not_with_a_clear_error(nats):
    done = Server(nats.name, nats.address).run("pub", "-t", "a", "-m", "x")
    assert done.returncode != 0
    assert "version" in done.stderr.lower(), done.stderr

"""The README's network.conf with each example, with every pair of them and with all: each starts, as --test-config says, and lets nobody in
without a password on any listener."""

import http.client
import itertools
import re
import socket
import ssl
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness.broker import REPOSITORY, Broker
from harness.certificates import Authority, openssl
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import PATIENCE
from harness.wire import CONNACK, CONNECT, Wire, frame, text

pytestmark = pytest.mark.martlet

EXAMPLES = {path.stem: path for path in sorted((REPOSITORY / "config/examples").glob("*.conf"))}
COMBINATIONS = [(name,) for name in EXAMPLES] + list(itertools.combinations(EXAMPLES, 2)) + [tuple(EXAMPLES)]

#: What the README puts into conf.d.
NETWORK = re.search(r"conf\.d/network\.conf <<END\n(.*?)^END$", (REPOSITORY / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]

#: A CONNECT of MQTT 3.1.1 without a user name.
STRANGER = frame(CONNECT, 0, text("MQTT") + bytes([4, 2, 0, 60]) + text("stranger"))


@dataclass
class Listener:
    """A listener of a configuration, with the options of its section."""

    port: int
    place: str
    options: dict[str, str]

    @property
    def is_open_by_itself(self) -> bool:
        return self.options.get("listener_allow_anonymous") == "true"


def listeners(*texts: str) -> list[Listener]:
    found = []
    for content in texts:
        own: dict[str, str] = {}
        for line in content.splitlines():
            name, _, value = line.partition(" ")
            if name == "listener":
                port, _, place = value.partition(" ")
                own = {}
                found.append(Listener(int(port), place, own))
            elif not line.startswith("#") and name:
                own[name] = value
    return found


@pytest.fixture(scope="module")
def etc(program, tmp_path_factory) -> Path:
    """The files that the examples name: certificates, users, keys, and the rules that passwords.conf shows."""
    directory = tmp_path_factory.mktemp("etc")
    authority = Authority(directory / "certs")
    authority.issue("server")
    (directory / "certs/clients-ca.crt").write_bytes(authority.certificate.read_bytes())
    (directory / "psk").write_text("sensor-7:0123456789abcdef\n")
    openssl("pkey", "-in", "server.key", "-pubout", "-out", directory / "token-keys.pem", directory=directory / "certs")
    assert run(program, "passwd", "-c", "-H", "sha512-pbkdf2", "-b", str(directory / "users"), "anna", "secret").returncode == 0
    rules = EXAMPLES["passwords"].read_text().partition("in a file such as this:")[2].partition("acl_file")[0]
    (directory / "rules").write_text("\n".join(line.removeprefix("#   ") for line in rules.splitlines()))
    return directory


@pytest.fixture
def installed(program, etc, tmp_path):
    """A broker as the package installs it, with files of its own in conf.d, each text with ports that nobody else has."""
    brokers = []

    def install(**files: str) -> tuple[Broker, list[str]]:
        broker = Broker(program, tmp_path, listener=False)
        brokers.append(broker)
        ports = {"1883": broker.port}
        (tmp_path / "store").mkdir()
        (tmp_path / "conf.d").mkdir()

        def here(content: str) -> str:
            for path, place in {"/etc/martlet/conf.d": tmp_path / "conf.d", "/etc/martlet": etc, "/run/martlet": tmp_path,
                                "/var/lib/martlet": tmp_path / "store", "user martlet": "user root"}.items():  # fmt: skip
                content = content.replace(path, str(place))
            for port in re.findall(r"^listener ([1-9]\d*)", content, re.MULTILINE):
                ports.setdefault(port, reserve_port())
            return re.sub(r"^listener ([1-9]\d*)", lambda line: f"listener {ports[line[1]]}", content, flags=re.MULTILINE)

        texts = {name: here(content) for name, content in files.items()}
        for name, content in texts.items():
            (tmp_path / "conf.d" / f"{name}.conf").write_text(content)
        broker.configuration_path.write_text(here((REPOSITORY / "config/packaging/martlet.conf").read_text()))
        return broker, list(texts.values())

    yield install
    for broker in brokers:
        broker.finish()


def gets_in(listener: Listener) -> bool:
    """Whether somebody without a name, a password, a certificate and a key gets in."""
    try:
        with connected(listener) as connection:
            if listener.options.get("protocol") == "http_api":
                return answers_http(connection)
            if listener.options.get("protocol") == "websockets":
                open_websocket(connection)
                connection.sendall(b"\x82" + bytes([0x80 | len(STRANGER)]) + bytes(4) + STRANGER)
                received(connection, 2)
            else:
                connection.sendall(STRANGER)
            answer = received(connection, 4)
            assert answer[0] == CONNACK << 4, answer
            return answer[3] == 0
    except (OSError, EOFError):  # of which TLS's errors are
        return False


def connected(listener: Listener) -> socket.socket:
    if listener.port == 0:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        connection.connect(listener.place)
        return connection
    connection = socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE)
    match listener.options.get("enable_proxy_protocol"):
        case "1":
            connection.sendall(b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 1885\r\n")
        case "2":
            addresses = bytes([192, 0, 2, 1, 192, 0, 2, 2]) + struct.pack(">HH", 40000, 1884)
            connection.sendall(b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack(">H", len(addresses)) + addresses)
    if "certfile" in listener.options or "psk_hint" in listener.options:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context.wrap_socket(connection)
    return connection


def received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def open_websocket(connection: socket.socket):
    connection.sendall(
        b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += received(connection, 1)
    assert head.startswith(b"HTTP/1.1 101 "), head


def answers_http(connection: socket.socket) -> bool:
    connection.sendall(b"GET /api/v1/systree HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    response = http.client.HTTPResponse(connection)
    response.begin()
    assert response.status in (200, 401), response.status
    return response.status == 200


@pytest.mark.parametrize("names", COMBINATIONS, ids=lambda names: "all" if len(names) == len(EXAMPLES) else "+".join(names))
def test_nobody_gets_in_without_a_password(program, installed, names):
    broker, texts = installed(network=NETWORK, **{name: EXAMPLES[name].read_text() for name in names})
    check = run(program, "--test-config", "-c", str(broker.configuration_path))
    assert check.returncode == 0, check
    broker.start()
    broker.wait_for_log("version .* running on")
    assert not re.search("(Error|Warning): (?!The broker should not be run as root)", broker.log), broker.log
    anna = Wire(broker.port, "mqttv311")
    assert anna.connect("anna", user="anna", password="secret")[1] == 0
    anna.close()
    found = listeners(*texts)
    assert len(found) == 1 + sum(len(listeners(EXAMPLES[name].read_text())) for name in names)
    for listener in found:
        assert gets_in(listener) == listener.is_open_by_itself, listener
    # The rights of its file say who may come by a socket; no example lets strangers in at a port.
    assert all(listener.port == 0 for listener in found if listener.is_open_by_itself)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_explains_itself_and_starts_alone(program, installed, name):
    text = EXAMPLES[name].read_text()
    assert text.startswith("#"), "an example explains itself"
    assert not re.search("^listener 1883", text, re.MULTILINE) and not re.search("^allow_anonymous", text, re.MULTILINE)
    # A port of the test's own, which it waits for.
    broker, _ = installed(local="listener 1883 127.0.0.1\nlistener_allow_anonymous true\n", **{name: text})
    check = run(program, "--test-config", "-c", str(broker.configuration_path))
    assert check.returncode == 0, check
    broker.start()
    broker.wait_for_log("version .* running on")


def test_a_file_that_opens_what_another_one_closes_is_refused_by_check_and_start(program, installed):
    broker, _ = installed(network=NETWORK, socket="listener 0 /run/martlet/martlet.sock\nallow_anonymous true\n")
    check = run(program, "--test-config", "-c", str(broker.configuration_path))
    words = f"socket.conf:2: allow_anonymous: everybody could come in without a login on port {broker.port} ("
    assert check.returncode == 3 and words in check.stdout, check
    with pytest.raises(AssertionError, match="ended with 3 at its start"):
        broker.start()
    assert words in broker.log


@pytest.mark.parametrize("second", ["listener 1883 127.0.0.1", "listener 1883 localhost", "listener 1883 ::1", "listener 1883 0.0.0.0"])
def test_two_listeners_in_one_place_are_refused_by_check_and_start(program, installed, second):
    broker, _ = installed(network=NETWORK, second=second + "\n")
    check = run(program, "--test-config", "-c", str(broker.configuration_path))
    assert check.returncode == 3 and "second.conf:1: listener:" in check.stdout, check
    assert re.search(r"is in the place of listener \d+ \(.*network.conf:1\)", check.stdout), check
    with pytest.raises(AssertionError, match="at its start"):
        broker.start()

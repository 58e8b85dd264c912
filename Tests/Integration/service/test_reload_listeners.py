"""A reload opens, closes and changes listeners, and nobody is dropped who may still be there."""

import http.client
import json
import signal
import socket
import ssl
import struct
import threading

import pytest
from harness.certificates import Authority
from harness.commands import run
from harness.ports import reserve_port
from harness.waiting import PATIENCE, wait_until
from harness.wire import Wire

pytestmark = pytest.mark.martlet

ADMINISTRATIVE_ACTION = 0x98

#: Session Expiry Interval.
TEN_MINUTES = b"\x11" + struct.pack(">I", 600)


class Reloading:
    """A broker whose file the test changes, and what `martlet ctl` says of each reload."""

    def __init__(self, program, broker, socket_path):
        self.program, self.broker, self.socket = program, broker, socket_path
        self.head = broker.configuration_path.read_text()

    def ctl(self, *arguments, code: int = 0) -> str:
        done = run(self.program.path, "ctl", "--socket", str(self.socket), *arguments)
        assert done.code == code, f"{arguments} ended with {done.code}:\n{done.output}{done.complaints}"
        return done.output.decode() + done.complaints

    def __call__(self, lines: str = "", head: str | None = None, code: int = 0) -> str:
        """Reloads the file with these lines behind its first ones."""
        self.write((self.head if head is None else head) + lines)
        return self.ctl("reload", code=code)

    def write(self, content: str):
        """At once: a broker that reads meanwhile has the one file or the other."""
        fresh = self.broker.configuration_path.with_suffix(".new")
        fresh.write_text(content)
        fresh.replace(self.broker.configuration_path)

    @property
    def listeners(self) -> list[str]:
        return [row["name"] for row in json.loads(self.ctl("status", "--json"))["listeners"]["data"]]


@pytest.fixture(params=[1, 3], ids=["one loop", "three loops"])
def reloading(request, program, start_broker, tmp_path):
    path = tmp_path / "http.sock"
    threads = f"martlet_threads {request.param}\n"
    return Reloading(program, start_broker(configuration=f"{threads}listener 0 {path}\nprotocol http_api\n"), path)


class LocalWire(Wire):
    """The same over a Unix socket."""

    def __init__(self, path):
        self.level, self._received = 5, b""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))


IN_FORCE = "The configuration is in force.\n"


def is_open(port: int, host: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return False
    return True


def clients(port: int, prefix: str, count: int = 8) -> list[Wire]:
    """As many as reach each loop, most probably."""
    made = [Wire(port) for _ in range(count)]
    for number, client in enumerate(made):
        assert client.connect(f"{prefix}-{number}")[1] == 0
    return made


def test_a_new_listener_is_opened_and_one_that_has_gone_is_closed(reloading):
    old = clients(reloading.broker.port, "old")
    port = reserve_port()
    assert reloading(f"listener {port} 127.0.0.1\nmax_qos 1\n") == IN_FORCE
    new = clients(port, "new")
    new[0].subscribe("a/b", qos=1)
    old[0].publish("a/b", "hello")
    assert new[0].receive().body.endswith(b"hello")
    assert f"listener {port} 127.0.0.1" in reloading.listeners
    assert reloading() == IN_FORCE
    for client in new:
        assert client.receive_end() == ADMINISTRATIVE_ACTION
    assert not is_open(port) and f"listener {port} 127.0.0.1" not in reloading.listeners
    for client in old:
        client.ping()
    # It comes back as if it had never been away.
    assert reloading(f"listener {port} 127.0.0.1\n") == IN_FORCE
    for client in clients(port, "again"):
        client.ping()


def test_a_session_outlives_its_listener(reloading):
    port = reserve_port()
    reloading(f"listener {port} 127.0.0.1\n")
    client = Wire(port)
    client.connect("keeper", clean=False, properties=TEN_MINUTES)
    client.subscribe("for/keeper", qos=1)
    reloading()
    assert client.receive_end() == ADMINISTRATIVE_ACTION
    sender = Wire(reloading.broker.port)
    sender.connect("sender")
    sender.publish("for/keeper", "meanwhile", qos=1)
    back = Wire(reloading.broker.port)
    assert back.connect("keeper", clean=False, properties=TEN_MINUTES)[0]
    assert back.receive().body.endswith(b"meanwhile")


def test_a_port_that_is_taken_leaves_everything_as_it_was(reloading):
    old = clients(reloading.broker.port, "old")
    free = reserve_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = reloading(
            f"listener {free} 127.0.0.1\nlistener {port} 127.0.0.1\n",
            head=reloading.head.replace("allow_anonymous true", "allow_anonymous false"), code=1)
    assert f":{reloading.broker.configuration_path.read_text().count(chr(10))}: listener: 127.0.0.1:{port} is in use" in said, said
    assert "The configuration stays as it was." in said
    assert not is_open(free)
    for client in old:
        client.ping()
    for client in clients(reloading.broker.port, "anonymous"):
        client.ping()
    assert reloading() == IN_FORCE


def test_a_broken_certificate_of_a_new_listener_leaves_everything_as_it_was(reloading, tmp_path):
    port = reserve_port()
    (tmp_path / "bad.pem").write_text("nothing")
    said = reloading(f"listener {port} 127.0.0.1\ncertfile {tmp_path}/bad.pem\nkeyfile {tmp_path}/bad.pem\n", code=1)
    assert "certfile" in said and not is_open(port)
    assert reloading() == IN_FORCE


def test_all_addresses_and_one_of_them_take_each_others_place(reloading):
    """The README's first change: from this machine alone to the network."""
    port = reserve_port()
    reloading(f"listener {port} 127.0.0.1\n")
    near = clients(port, "near")
    assert reloading(f"listener {port}\n") == IN_FORCE
    for client in near:
        assert client.receive_end() == ADMINISTRATIVE_ACTION
    assert reloading.listeners.count(f"listener {port}") == 1
    far = clients(port, "far")
    assert reloading(f"listener {port} 127.0.0.1\n") == IN_FORCE
    for client in far:
        assert client.receive_end() == ADMINISTRATIVE_ACTION
    for client in clients(port, "near"):
        client.ping()


def test_tls_comes_and_goes(reloading, tmp_path):
    authority = Authority(tmp_path / "certs")
    authority.issue("server")
    port = reserve_port()
    plain = f"listener {port} 127.0.0.1\n"
    secured = plain + f"certfile {tmp_path}/certs/server.crt\nkeyfile {tmp_path}/certs/server.key\n"
    reloading(plain)
    before = clients(port, "plain")
    assert reloading(secured) == IN_FORCE
    for client in before:
        assert client.receive_end() == ADMINISTRATIVE_ACTION
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.check_hostname = False
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as bare, context.wrap_socket(bare) as encrypted:
        assert encrypted.version() == "TLSv1.3"
        assert reloading(plain) == IN_FORCE
        assert encrypted.recv(1) == b""
    for client in clients(port, "plain"):
        client.ping()


def test_a_listener_changes_its_protocol_and_nobody_is_refused_meanwhile(reloading):
    port = reserve_port()
    kinds = {kind: f"listener {port} 127.0.0.1\nprotocol {kind}\n" for kind in ["mqtt", "websockets", "http_api"]}
    reloading(kinds["mqtt"])
    refused, ends = [], threading.Event()

    def knock():
        while not ends.wait(0.005):  # more would take all places that HTTP has for one address
            if not is_open(port):
                refused.append(port)

    knocking = threading.Thread(target=knock)
    knocking.start()
    try:
        for kind in ["websockets", "http_api", "mqtt", "http_api", "websockets", "mqtt"]:
            assert reloading(kinds[kind]) == IN_FORCE
            if kind == "mqtt":
                clients(port, "mqtt")
            else:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
                connection.request("GET", "/livez")
                assert (connection.getresponse().status == 200) == (kind == "http_api")
                connection.close()
    finally:
        ends.set()
        knocking.join()
    assert refused == []


def test_a_unix_socket_comes_moves_and_goes(reloading, tmp_path):
    def connected(path, name) -> Wire:
        client = LocalWire(path)
        assert client.connect(name)[1] == 0
        return client

    first, second = tmp_path / "one.sock", tmp_path / "two.sock"
    reloading(f"listener 0 {first}\n")
    client = connected(first, "first")
    reloading(f"listener 0 {second}\n")
    assert client.receive_end() == ADMINISTRATIVE_ACTION
    assert not first.exists() and second.exists()
    client = connected(second, "second")
    reloading()
    assert client.receive_end() == ADMINISTRATIVE_ACTION
    assert not second.exists()


def test_http_comes_and_goes_and_whoever_asked_by_it_is_answered(reloading, program):
    port = reserve_port()
    lines = f"listener {port} 127.0.0.1\nprotocol http_api\n"
    reloading(lines)
    link = reloading.ctl("dashboard").splitlines()[0]
    assert link.startswith(f"http://127.0.0.1:{port}/dashboard/#token=")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", "/api/martlet/v1/session", json.dumps({"token": link.rpartition("=")[2]}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200 and json.load(answer)["role"] == "admin"
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    reloading.broker.configuration_path.write_text(reloading.head)
    connection.request("POST", "/api/martlet/v1/config/reload", headers={"Cookie": cookie})
    answer = connection.getresponse()
    assert answer.status == 200 and json.load(answer) == {"ok": True, "diagnostics": []}
    wait_until(lambda: not is_open(port), "the listener is closed")


def test_users_and_mount_points_and_limits_of_a_listener_change_under_its_clients(reloading, tmp_path, program):
    port = reserve_port()
    reloading(f"listener {port} 127.0.0.1\n")
    stranger = Wire(port)
    stranger.connect("stranger")
    assert run(program.path, "passwd", "-c", "-H", "sha512-pbkdf2", "-b", str(tmp_path / "users"), "anna", "secret").code == 0
    head = "per_listener_settings true\n" + reloading.head
    own = f"allow_anonymous false\npassword_file {tmp_path}/users\nmount_point house/\nmax_connections 1\n"
    assert reloading(f"listener {port} 127.0.0.1\n{own}", head=head).endswith(IN_FORCE)
    assert stranger.receive_end() == 0x87
    anna = wait_until(lambda: named(port), "the stranger's place")
    anna.subscribe("lamp")
    other = Wire(reloading.broker.port)
    other.connect("other")
    other.publish("house/lamp", "on")
    assert anna.receive().body.endswith(b"on")
    assert named(port) is None


def named(port: int) -> Wire | None:
    client = Wire(port)
    try:
        return client if client.connect("anna", user="anna", password="secret")[1] == 0 else None
    except (OSError, EOFError, AssertionError):
        return None


def test_what_waits_for_a_restart_is_named_in_the_answer_and_the_rest_is_in_force(reloading):
    port = reserve_port()
    said = reloading(f"listener {port} 127.0.0.1\n", head=reloading.head.replace("martlet_threads", "pid_file /nowhere/x\nmartlet_threads"))
    assert "Warning: pid_file has changed; that takes effect when the broker is started again.\n" in said
    assert said.endswith("The rest of the configuration is in force.\n") and is_open(port)


def test_reloads_one_after_the_other_and_at_once_end_as_the_last_file_says(reloading):
    ports = [reserve_port() for _ in range(3)]
    for number in range(12):
        lines = "".join(f"listener {port} 127.0.0.1\n" for index, port in enumerate(ports) if (number + index) % 2)
        reloading.write(reloading.head + lines)
        reloading.broker.signal(signal.SIGHUP)
    assert reloading(f"listener {ports[0]} 127.0.0.1\n") == IN_FORCE
    assert [is_open(port) for port in ports] == [True, False, False]
    for client in clients(ports[0], "last"):
        client.ping()


def test_a_new_listener_of_a_draining_broker_lets_nobody_in(reloading):
    reloading.ctl("drain")
    port = reserve_port()
    assert reloading(f"listener {port} 127.0.0.1\n") == IN_FORCE
    wait_until(lambda: not is_open(port), "the new listener is closed too")
    reloading.ctl("drain", "--undo")
    wait_until(lambda: is_open(port), "both let clients in")
    for client in clients(port, "after"):
        client.ping()

"""Home Assistant's mosquitto add-on: its configuration as its template renders it, and a server that answers as its nginx does.

The lines are those of the add-on's 7.x (mosquitto 2.1 with mosquitto-go-auth 3) and, where they differ, of 6.x. Only directories, ports and the host's
user are the test's.
"""

import base64
import hashlib
import json
import re
import socket
import ssl
import threading
import time

import pytest
from harness.login_service import Answer, LoginService
from harness.ports import reserve_port
from harness.waiting import wait_until
from harness.wire import CONNECT, PUBACK, PUBLISH, Wire, frame, text
from transports.conftest import SecureWire

pytestmark = pytest.mark.martlet("needs its plug-in")

NOT_AUTHORIZED, SERVER_UNAVAILABLE, NO_SUBSCRIBERS = 0x87, 0x88, 0x10
#: Users of Home Assistant, whom its Supervisor knows.
PEOPLE = {"ann": "secret", "gate/5": "g"}
#: The add-on's own users and those of its option `logins`, in its password file. The first two have 64 characters.
LOCAL = {"homeassistant": "h" * 64, "addons": "a" * 64, "carl": "c"}

HEAD = """log_dest stdout

log_type error
log_type warning
log_type notice
log_type information

log_timestamp_format %Y-%m-%d %H:%M:%S
persistence true
persistence_location ROOT/data/

# Limits
# max_queued_messages is effectively the upper limit of
# the number of entities on Home Assistant if startup
# is busy and cannot read messages fast enough
max_queued_messages 8192

# Authentication plugin
auth_plugin /usr/share/mosquitto/go-auth.so
# Restore pre-7.0 behaviour: allow '/' in client ids and usernames.
auth_plugin_deny_special_chars false
auth_opt_backends files,http
auth_opt_hasher pbkdf2
auth_opt_cache true
auth_opt_auth_cache_seconds 300
auth_opt_auth_jitter_seconds 30
auth_opt_acl_cache_seconds 300
auth_opt_acl_jitter_seconds 30
auth_opt_log_level error

"""
#: Of forks that have the rules of files bind everybody.
REGISTERED = """auth_opt_files_register user,acl
auth_opt_http_register user
"""
BACK_ENDS = """# HTTP backend for the authentication plugin
auth_opt_files_password_path ROOT/etc/mosquitto/pw
auth_opt_files_acl_path ROOT/etc/mosquitto/acl

# HTTP backend for the authentication plugin
auth_opt_http_host 127.0.0.1
auth_opt_http_port 80
auth_opt_http_getuser_uri /authentication
auth_opt_http_superuser_uri /superuser
auth_opt_http_aclcheck_uri /acl

"""
LISTENERS = """listener 1883
protocol mqtt

listener 1884
protocol websockets


"""
TLS = """
# Follow SSL listener if a certificate exists
listener 8883
protocol mqtt

cafile ROOT/ssl/ca.crt

certfile ROOT/ssl/server.crt
keyfile ROOT/ssl/server.key
require_certificate REQUIRED

listener 8884
protocol websockets

cafile ROOT/ssl/ca.crt

certfile ROOT/ssl/server.crt
keyfile ROOT/ssl/server.key
require_certificate REQUIRED


"""
CUSTOM = """# Custom configuration - loaded last so user settings take precedence

include_dir ROOT/share/mosquitto

"""


def hashed(password: str) -> str:
    """As the add-on's `pw` writes it, with fewer iterations."""
    salt = hashlib.sha256(password.encode()).digest()[:16]
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 1000, dklen=64)
    return f"PBKDF2$sha512$1000${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


class AddOn:
    """The add-on's directories, and its nginx in front of the Supervisor."""

    def __init__(self, root, *, acl_file: str | None = None):
        self.root, self.is_enforced, self.is_down = root, acl_file is not None, False
        for name in ("etc/mosquitto", "data", "share/mosquitto", "ssl"):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "etc/mosquitto/pw").write_text("".join(f"{user}:{hashed(password)}\n" for user, password in LOCAL.items()))
        (root / "etc/mosquitto/acl").write_text("".join(f"user {user}\n" for user in LOCAL) + (acl_file or ""))
        self.gate = threading.Event()
        self.gate.set()
        self.service = LoginService(self.respond)
        self.ports = {port: reserve_port() for port in ("1884", "8883", "8884")}

    def respond(self, question) -> Answer:
        """nginx looks into the body as text, and hands the rest to the Supervisor."""
        self.gate.wait()
        # The pattern of its configuration.
        is_internal = re.search(r'(^|[{,])"username":"(homeassistant|addons)"[,}]', question.body.decode()) is not None
        if self.is_down:
            return Answer(502, "<html>Bad Gateway</html>", {"Content-Type": "text/html"})
        if question.path == "/authentication":
            if self.is_enforced and is_internal:
                return Answer(403, "<html>Forbidden</html>", {"Content-Type": "text/html"})
            values = json.loads(question.body)
            is_known = PEOPLE.get(values["username"]) == values["password"]
            return Answer(200, {"result": "ok", "data": {}}) if is_known else Answer(401, "401: Unauthorized")
        if question.path == "/superuser":
            return Answer(200 if not self.is_enforced or is_internal else 403)
        return Answer(403 if self.is_enforced else 200)

    def rendered(self, *, registered=False, tls=False, required=False, custom: dict[str, str] | None = None, early=False) -> str:
        """The template's lines. `early`: with the folder's in front of the listeners, as before 7.1."""
        for name, lines in (custom or {}).items():
            (self.root / "share/mosquitto" / name).write_text(lines.replace("ROOT", str(self.root)))
        folder = CUSTOM if custom is not None else ""
        text = HEAD + (REGISTERED if registered else "") + BACK_ENDS
        text += (folder if early else "") + LISTENERS + (TLS if tls else "") + ("" if early else folder)
        text = text.replace("ROOT", str(self.root)).replace("REQUIRED", str(required).lower()).replace("_port 80\n", f"_port {self.service.port}\n")
        for port, free in self.ports.items():
            text = text.replace(f"listener {port}\n", f"listener {free} 127.0.0.1\n")
        return text.replace("listener 1883\n", "listener {port} 127.0.0.1\n")


@pytest.fixture
def add_on(tmp_path):
    made = []

    def make(**options) -> AddOn:
        made.append(AddOn(tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.gate.set()
        each.service.close()


def log_in(port: int, user: str | None, password: str | None, client_id: str = "c") -> int:
    wire = Wire(port)
    try:
        return wire.connect(client_id, user=user, password=password)[1]
    finally:
        wire.close()


def topics(port: int, user: str, password: str, names: list[str]) -> list[bool]:
    """Which of them a user may publish to."""
    wire = Wire(port)
    assert wire.connect(f"{user}/1", user=user, password=password)[1] == 0
    answers = []
    for name in names:
        wire.publish(name, "1", qos=1)
        answers.append(wire.receive(PUBACK).body[2] != NOT_AUTHORIZED)
    wire.close()
    return answers


def test_its_configuration_works_as_it_stands(start_broker, add_on):
    home = add_on()
    broker = start_broker(configuration=home.rendered(), listener=False)
    for user, password in {**PEOPLE, **LOCAL}.items():
        wire = Wire(broker.port)
        # With a slash in the Client Identifier, which the add-on's 7.0.0 refused.
        assert wire.connect(f"{user}/ae21", user=user, password=password)[1] == 0, user
        assert wire.subscribe(f"{user}/#") == 0
        wire.publish(f"{user}/x", "1", qos=1)
        assert {wire.receive().kind, wire.receive().kind} == {PUBACK, PUBLISH}
        wire.close()
    for user, password in [("ann", "wrong"), ("carl", "wrong"), ("homeassistant", "wrong"), ("eve", "x"), (None, None), ("ann", None)]:
        assert log_in(broker.port, user, password) == NOT_AUTHORIZED, user
    # Local users are the file's alone; all are asked for as superusers, once each.
    asked = [json.loads(question.body)["username"] for question in home.service.questions if question.path == "/authentication"]
    assert set(asked) == {"ann", "gate/5", "eve"}
    question = home.service.questions[0]
    assert question.method == "POST" and question.headers["content-type"] == "application/json" and question.headers["host"].startswith("127.0.0.1")
    assert question.body == b'{"clientid":"ann/ae21","password":"secret","username":"ann"}', "with its keys in order, which nginx's pattern wants"
    # Remembered for 300 s.
    count = len(home.service.questions)
    assert log_in(broker.port, "ann", "secret", "ann/ae21") == 0
    assert len(home.service.questions) == count
    # What is said of its lines, all of it: nothing that keeps anybody out.
    said = re.findall(r"(?:Warning|Error): \S+:\d+: (\w+): ", broker.log)
    assert sorted(set(said)) == ["auth_opt_backends", "auth_opt_hasher", "auth_opt_log_level", "auth_plugin", "auth_plugin_deny_special_chars"], broker.log
    socket.create_connection(("127.0.0.1", home.ports["1884"])).close()


def test_its_own_users_come_in_while_home_assistant_is_down(start_broker, add_on):
    home = add_on()
    home.is_down = True
    broker = start_broker(configuration=home.rendered(), listener=False)
    for user in ("homeassistant", "addons", "carl"):
        assert log_in(broker.port, user, LOCAL[user], user) == 0
    assert log_in(broker.port, "ann", "secret") == SERVER_UNAVAILABLE
    broker.wait_for_log("The login source go_auth answers 502")
    # Who came meanwhile is a superuser as soon as somebody can say so, and need not come again.
    early = Wire(broker.port)
    assert early.connect("ha", user="homeassistant", password=LOCAL["homeassistant"])[1] == 0
    home.is_down = False
    home.is_enforced = True

    def publishes() -> bool:
        early.publish("homeassistant/status", "online", qos=1)
        return early.receive(PUBACK).body[2:3] != bytes([NOT_AUTHORIZED])

    wait_until(publishes, "the topic is asked for again")
    assert log_in(broker.port, "ann", "secret") == 0


@pytest.mark.parametrize("early", [False, True], ids=["7.1", "6.5"])
def test_the_documented_access_list_in_the_customize_folder_binds(start_broker, add_on, early):
    """Home Assistant's issues 4571 and 4721: since 7.0 it has no effect there."""
    home = add_on()
    rules = "user addons\ntopic readwrite #\n\nuser homeassistant\ntopic readwrite #\n\nuser ann\ntopic readwrite ann/#\n"
    (home.root / "share/mosquitto/accesscontrollist").write_text(rules)
    custom = {"acl.conf": "acl_file ROOT/share/mosquitto/accesscontrollist\n", "notes.txt": "no configuration\n"}
    broker = start_broker(configuration=home.rendered(custom=custom, early=early), listener=False)
    assert topics(broker.port, "homeassistant", LOCAL["homeassistant"], ["x", "ann/x"]) == [True, True]
    assert topics(broker.port, "ann", "secret", ["x", "ann/x"]) == [False, True]
    assert topics(broker.port, "carl", "c", ["x"]) == [False], "nothing is allowed to whom the list does not name"
    broker.wait_for_log("plugin: acl_file .*/accesscontrollist binds everybody here: go-auth's own access file, superusers and access queries are not asked")


def test_its_option_for_an_access_list_binds_all_but_its_own_users(start_broker, add_on):
    home = add_on(acl_file="topic readwrite carl/#\nuser ann\ntopic readwrite ann/#\n")
    broker = start_broker(configuration=home.rendered(), listener=False)
    for user in ("homeassistant", "addons"):
        assert topics(broker.port, user, LOCAL[user], ["x", "ann/x"]) == [True, True]
    assert topics(broker.port, "ann", "secret", ["x", "ann/x"]) == [False, True]
    assert topics(broker.port, "carl", "c", ["x", "carl/x"]) == [False, True]
    assert log_in(broker.port, "homeassistant", "secret") == NOT_AUTHORIZED, "only with its own password"


def test_back_ends_that_are_registered_for_some_questions_are_asked_no_others(start_broker, add_on):
    home = add_on(acl_file="topic readwrite carl/#\nuser ann\ntopic readwrite ann/#\nuser homeassistant\ntopic readwrite #\n")
    home.is_enforced = False
    broker = start_broker(configuration=home.rendered(registered=True), listener=False)
    assert topics(broker.port, "homeassistant", LOCAL["homeassistant"], ["x"]) == [True]
    assert topics(broker.port, "ann", "secret", ["x", "ann/x"]) == [False, True]
    assert {question.path for question in home.service.questions} == {"/authentication"}


def test_with_certificates_a_client_needs_one_and_its_password(start_broker, add_on, authority):
    home = add_on()
    authority.issue("client", "/CN=sensor")
    for name in ("ca.crt", "server.crt", "server.key"):
        (home.root / "ssl" / name).write_bytes((authority.directory / name).read_bytes())
    broker = start_broker(configuration=home.rendered(tls=True, required=True), listener=False)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with pytest.raises(OSError):
        bare = SecureWire(home.ports["8883"], context)
        bare.connect("c", user="ann", password="secret")
    context.load_cert_chain(authority.directory / "client.crt", authority.directory / "client.key")
    for password, code in [("secret", 0), ("wrong", NOT_AUTHORIZED)]:
        wire = SecureWire(home.ports["8883"], context)
        assert wire.connect("c", user="ann", password=password)[1] == code
        wire.close()
    assert log_in(broker.port, "ann", "secret") == 0, "and without TLS where it says so"


def connect_packet(client_id: str, user: str, password: str) -> bytes:
    return frame(CONNECT, 0, text("MQTT") + bytes([5, 0xC2, 0, 60, 0]) + text(client_id) + text(user) + text(password))


def test_a_house_that_comes_back_at_once_is_asked_for_as_its_server_can_bear(start_broker, add_on):
    """Its nginx has 64 connections, of which a question takes up to four; the plug-in asks one after the other."""
    home = add_on()
    home.gate.clear()
    broker = start_broker(configuration=home.rendered(), listener=False)
    wires = []
    for number in range(60):
        wires.append(Wire(broker.port))
        wires[-1].send(connect_packet(f"d{number}", "ann", "secret"))
    wait_until(lambda: len(home.service.questions) == 8, "eight questions are under way")
    # The file's users are not behind them.
    began = time.monotonic()
    assert log_in(broker.port, "carl", "c", "local") == 0
    assert time.monotonic() - began < 1
    assert len(home.service.questions) == 8 and home.service.connections == 8
    home.gate.set()
    assert [wire.receive().body[1] for wire in wires] == [0] * 60
    for wire in wires:
        wire.close()

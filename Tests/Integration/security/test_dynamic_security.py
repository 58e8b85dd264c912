"""Dynamic security: Debian's mosquitto_ctrl drives Martlet, both brokers read each other's file, and answer alike."""

import base64
import hashlib
import json
import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.broker import Broker
from harness.debian import Debian
from harness.ports import reserve_port
from harness.program import run
from harness.wire import DISCONNECT, PUBACK, PUBLISH, Will, Wire

pytestmark = pytest.mark.martlet("compared with itself there is nothing to see")

ENDPOINT = "$CONTROL/dynamic-security/v1"
RESPONSE = ENDPOINT + "/response"
SUCCESS, NOT_AUTHORIZED, ADMINISTRATIVE_ACTION = 0, 0x87, 0x98
PLUGIN = "plugin /usr/lib/mosquitto_dynamic_security.so\nplugin_opt_config_file {file}"


@pytest.fixture
def file(tmp_path) -> Path:
    """A file with the one user admin, password adminpw, as mosquitto 2.0 writes it."""
    path = tmp_path / "kept" / "dynsec.json"
    path.parent.mkdir()
    acls = [
        {"acltype": kind, "topic": topic, "allow": True}
        for topic in ["$CONTROL/#", "#"]
        for kind in ["publishClientSend", "publishClientReceive", "subscribePattern", "unsubscribePattern"]
    ]
    admin = {
        "username": "admin", "textName": "Dynsec admin user", "roles": [{"rolename": "admin"}], "iterations": 101,
        "salt": base64.b64encode(b"salt-of-test").decode(),
        "password": base64.b64encode(hashlib.pbkdf2_hmac("sha512", b"adminpw", b"salt-of-test", 101)).decode(),
    }  # fmt: skip
    defaults = {"publishClientSend": False, "publishClientReceive": True, "subscribe": False, "unsubscribe": True}
    path.write_text(json.dumps({"defaultACLAccess": defaults, "clients": [admin], "roles": [{"rolename": "admin", "acls": acls}]}))
    return path


@pytest.fixture
def martlet(start_broker, file) -> Callable[..., Broker]:
    def start(configuration: str = "", **options) -> Broker:
        return start_broker(configuration=PLUGIN.format(file=file) + "\n" + configuration, **options)

    return start


@pytest.fixture
def mosquitto(debian, tmp_path) -> Iterator[Callable[[Path], Broker]]:
    """Starts Debian's mosquitto with a file of dynamic security."""
    brokers = []

    def start(path: Path) -> Broker:
        configuration = f"plugin {debian.plugin_path}\nplugin_opt_config_file {path}"
        brokers.append(Broker(debian.program, tmp_path, configuration=configuration, environment=debian.environment))
        return brokers[-1].start()

    yield start
    for broker in brokers:
        broker.finish()


@pytest.fixture
def login() -> Iterator[Callable[..., Wire]]:
    """Connections that are let in."""
    wires = []

    def connect(broker: Broker, user: str | None = "admin", password: str | None = "adminpw", client="", version="mqttv5", **rest):
        wire = Wire(broker.port, version)
        wires.append(wire)
        assert wire.connect(client or f"{user}", user=user, password=password, **rest)[1] == 0
        return wire

    yield connect
    for wire in wires:
        wire.close()


class Administrator:
    """A client that gives commands and reads the answers."""

    def __init__(self, wire: Wire):
        self.wire = wire
        assert wire.subscribe(RESPONSE) == 0

    def ask(self, *commands: dict | str) -> list[dict]:
        self.wire.publish(ENDPOINT, json.dumps({"commands": list(commands)}), qos=1)
        assert self.wire.receive(PUBACK).body[2:3] in (b"", b"\0")
        return self.answer()["responses"]

    def answer(self) -> dict:
        packet = self.wire.receive(PUBLISH)
        assert packet.topic == RESPONSE and not packet.qos
        return json.loads(packet.body[packet.body.index(RESPONSE.encode()) + len(RESPONSE) + 1 :])

    def do(self, **command) -> dict:
        return self.ask(command)[0]


def refusal(broker: Broker, user: str, password: str, client: str = "x", version: str = "mqttv5") -> int:
    wire = Wire(broker.port, version)
    code = wire.connect(client, user=user, password=password)[1]
    wire.close()
    return code


VERBS = """
createRole reader
createRole writer
createRole reader
addRoleACL reader subscribePattern a/# allow 5
addRoleACL reader subscribePattern a/b deny
addRoleACL reader subscribePattern a/b deny
addRoleACL reader publishClientReceive # allow
addRoleACL reader subscribeLiteral a/# allow
addRoleACL reader unsubscribeLiteral a/# deny 2
addRoleACL reader unsubscribePattern a/# allow
addRoleACL writer publishClientSend a/+ allow
addRoleACL writer nonsense a/+ allow
removeRoleACL reader subscribePattern a/b
removeRoleACL reader subscribePattern a/b
getRole reader
listRoles
listRoles 1 1
createGroup staff
createGroup guests
createGroup staff
addGroupRole staff reader 7
addGroupRole staff reader 7
getGroup staff
listGroups
setAnonymousGroup guests
getAnonymousGroup
createClient anna -p secret
createClient bert -p secret
createClient anna -p secret
addClientRole anna writer 3
addClientRole anna nothing
removeClientRole anna reader
addGroupClient staff anna
addGroupClient staff bert 9
addGroupClient staff nobody
getClient anna
getClient nobody
listClients
listClients 1
setClientPassword anna other
setClientPassword nobody other
setClientId anna anna-1
disableClient bert
getClient bert
enableClient bert
removeGroupClient staff bert
removeGroupRole staff reader
removeClientRole anna writer
setDefaultACLAccess publishClientSend allow
getDefaultACLAccess
deleteClient bert
deleteClient bert
deleteGroup staff
deleteRole writer
deleteRole writer
getRole writer
"""


def test_mosquitto_ctrl_hears_the_same_from_both(debian, martlet, mosquitto, file, tmp_path):
    other = tmp_path / "other.json"
    shutil.copy(file, other)
    ours, theirs = martlet("martlet_compat 2.0"), mosquitto(other)
    for verb in VERBS.strip().splitlines():
        answers = [debian.control(broker.port, *verb.split()) for broker in (ours, theirs)]
        # 2.1 tells more of a client, and the shell passes over it.
        assert answers[0] == answers[1], verb
    # Each reads the other's file: the users, the groups and the roles that it left.
    questions = ["listClients", "listRoles", "listGroups", "getClient anna", "getRole reader", "getDefaultACLAccess", "getAnonymousGroup"]
    before = [debian.control(ours.port, *question.split()) for question in questions]
    assert ours.stop() == 0 and theirs.stop() == 0
    successor = mosquitto(file)
    assert [debian.control(successor.port, *question.split()) for question in questions] == before
    assert refusal(successor, "anna", "other", "anna-1") == 0
    shutil.copy(other, file)
    ours.start()
    assert [debian.control(ours.port, *question.split()) for question in questions] == before
    assert refusal(ours, "anna", "other", "anna-1") == 0
    assert refusal(ours, "anna", "other", "anna-2") == NOT_AUTHORIZED


# What 2.0 answers in other words than 2.1, whose words are ours, is held to by the Swift tests.
COMMANDS = [
    {"command": "createRole", "rolename": "r", "textname": "R", "acls": [{"acltype": "subscribePattern", "topic": "t/#", "allow": True}]},
    {"command": "createRole", "rolename": "r", "correlationData": "x"},
    {"command": "createGroup", "groupname": "g", "roles": [{"rolename": "r", "priority": 4}]},
    {"command": "createClient", "username": "u", "password": "p", "clientid": "i", "groups": [{"groupname": "g"}]},
    {"command": "createClient", "username": "v", "roles": [{"rolename": "none"}]},
    {"command": "createClient"},
    {"command": "createClient", "username": 5},
    {"command": "modifyClient", "username": "u", "textname": "U", "roles": [{"rolename": "r"}]},
    {"command": "modifyClient", "username": "none"},
    {"command": "modifyGroup", "groupname": "g", "textdescription": "G"},
    {"command": "modifyRole", "rolename": "r", "textname": "RR"},
    {"command": "modifyRole", "rolename": "none"},
    {"command": "listClients", "count": 1, "offset": 1},
    {"command": "listGroups"},
    {"command": "listGroups", "verbose": True},
    {"command": "listRoles"},
    {"command": "getGroup", "groupname": "g"},
    {"command": "getDefaultACLAccess", "correlationData": "y"},
    {"command": "setDefaultACLAccess", "acls": [{"acltype": "subscribe", "allow": True}]},
    {"command": "setDefaultACLAccess"},
    {"command": "dance"},
    {"command": "addRoleACL", "rolename": "r", "acltype": "subscribePattern", "topic": "t/#", "allow": True},
    {"command": "addRoleACL", "rolename": "r", "acltype": "none", "topic": "t/#", "allow": True},
    {"command": "removeRoleACL", "rolename": "r", "acltype": "subscribePattern", "topic": "none"},
    {"command": "addGroupClient", "groupname": "g", "username": "u"},
    {"command": "removeGroupClient", "groupname": "g", "username": "none"},
    {"command": "setAnonymousGroup", "groupname": "none"},
    {"command": "deleteRole", "rolename": "none"},
]  # fmt: skip


def test_both_answer_a_command_alike(martlet, mosquitto, file, tmp_path, login):
    other = tmp_path / "other.json"
    shutil.copy(file, other)
    ours, theirs = (Administrator(login(broker)) for broker in (martlet(), mosquitto(other)))
    for command in COMMANDS:
        assert ours.ask(command) == theirs.ask(command), command


def test_a_change_ends_the_connections_of_those_whom_it_concerns_and_of_nobody_else(martlet, login):
    broker = martlet("martlet_threads 2")
    administrator = Administrator(login(broker))
    administrator.ask(
        {"command": "createRole", "rolename": "all", "acls": [
            {"acltype": kind, "topic": "#", "allow": True} for kind in ["publishClientSend", "subscribePattern"]]},
        *({"command": "createClient", "username": user, "password": "p", "roles": [{"rolename": "all"}]} for user in ["anna", "bert"]),
    )  # fmt: skip
    watcher = login(broker, "bert", "p")
    assert watcher.subscribe("will/#") == 0
    new, old = login(broker, "anna", "p", "a5", will=Will("will/5", "gone")), login(broker, "anna", "p", "a4", version="mqttv311")
    assert administrator.do(command="disableClient", username="anna") == {"command": "disableClient"}
    assert new.receive(DISCONNECT).reason == ADMINISTRATIVE_ACTION
    assert new.receive() is None and old.receive() is None
    assert refusal(broker, "anna", "p") == NOT_AUTHORIZED
    # No will came before the answer to this.
    watcher.ping()
    administrator.do(command="enableClient", username="anna")
    assert refusal(broker, "anna", "p") == 0
    # Who changes themselves has the answer first.
    assert administrator.do(command="modifyRole", rolename="admin", textname="A") == {"command": "modifyRole"}
    administrator.wire.ping()
    assert administrator.do(command="addClientRole", username="admin", rolename="all") == {"command": "addClientRole"}
    assert administrator.wire.receive(DISCONNECT).reason == ADMINISTRATIVE_ACTION
    watcher.ping()


def test_a_session_that_stays_loses_what_it_may_not_have_any_more(martlet, login):
    broker = martlet()
    administrator = Administrator(login(broker))
    acls = [{"acltype": "subscribePattern", "topic": topic, "allow": True} for topic in ["a/#", "b/#"]]
    administrator.ask(
        {"command": "createRole", "rolename": "r", "acls": acls},
        {"command": "createClient", "username": "anna", "password": "p", "roles": [{"rolename": "r"}]},
    )
    stays = {"clean": False, "properties": b"\x11\0\0\0\x64"}
    client = login(broker, "anna", "p", "c", **stays)
    assert client.subscribe("a/1", 1) == 1 and client.subscribe("b/1", 1) == 1 and client.subscribe("c/1") == NOT_AUTHORIZED
    administrator.do(command="removeRoleACL", rolename="r", acltype="subscribePattern", topic="b/#")
    assert client.receive(DISCONNECT).reason == ADMINISTRATIVE_ACTION
    for topic in ["b/1", "a/1"]:
        administrator.wire.publish(topic, "late", qos=1, identifier=7)
        administrator.wire.receive(PUBACK)
    back = login(broker, "anna", "p", "c", **stays)
    assert back.receive(PUBLISH).topic == "a/1"


def test_roles_say_what_a_client_may_do_and_files_what_dynamic_security_does_not(martlet, login, tmp_path, program):
    run(program, "passwd", "-b", "-H", "sha512", "-c", str(tmp_path / "users"), "filed", "p")
    (tmp_path / "acl").write_text("user filed\ntopic readwrite f/#\n")
    broker = martlet(f"password_file {tmp_path}/users\nacl_file {tmp_path}/acl")
    administrator = Administrator(login(broker))
    administrator.ask(
        {"command": "createRole", "rolename": "r", "allowwildcardsubs": False, "acls": [
            {"acltype": "publishClientSend", "topic": "own/%u/#", "allow": True},
            {"acltype": "subscribePattern", "topic": "own/#", "allow": True}]},
        {"command": "createClient", "username": "anna", "password": "p", "roles": [{"rolename": "r"}]},
    )  # fmt: skip
    anna, filed = login(broker, "anna", "p"), login(broker, "filed", "p")
    anna.publish("own/anna/x", "", qos=1)
    assert anna.receive(PUBACK).body[2:3] in (b"", b"\0", b"\x10")
    anna.publish("own/bert/x", "", qos=1)
    assert anna.receive(PUBACK).body[2] == NOT_AUTHORIZED
    assert anna.subscribe("own/+") == NOT_AUTHORIZED and anna.subscribe("own/x") == 0
    assert filed.subscribe("anything") == 0
    filed.publish("f/x", "", qos=1)
    assert filed.receive(PUBACK).body[2:3] != bytes([NOT_AUTHORIZED])
    filed.publish("own/filed/x", "", qos=1)
    assert filed.receive(PUBACK).body[2] == NOT_AUTHORIZED
    assert refusal(broker, "filed", "wrong") == refusal(broker, "anna", "wrong") == refusal(broker, "nobody", "p") == NOT_AUTHORIZED
    assert refusal(broker, "anna", "wrong", version="mqttv311") == 5


def test_what_cannot_be_saved_is_not_done(martlet, login, file):
    broker = martlet()
    administrator = Administrator(login(broker))
    file.parent.rename(file.parent.parent / "away")
    answers = administrator.ask({"command": "createRole", "rolename": "r"}, {"command": "listRoles"})
    assert "not saved" in answers[0]["error"] and str(file) in answers[0]["error"]
    assert administrator.do(command="getRole", rolename="r") == {"command": "getRole", "error": "Role not found"}
    broker.wait_for_log("Error: Dynamic security: The change is not saved")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("dynamic security cannot be changed, because no change can be saved: the directory")
    (file.parent.parent / "away").rename(file.parent)
    assert administrator.do(command="createRole", rolename="r") == {"command": "createRole"}
    assert "\"r\"" in file.read_text()
    file.write_text(file.read_text().replace("\"r\"", "\"s\""))
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("the file was changed by another program, and a running broker does not read it again")
    assert administrator.do(command="getRole", rolename="r")["data"]["role"]["rolename"] == "r"


def test_a_first_start_makes_the_file_and_says_where_the_passwords_are(start_broker, login, tmp_path):
    path = tmp_path / "new.json"
    broker = start_broker(configuration=PLUGIN.format(file=path))
    broker.wait_for_log(f"Generated passwords are at {path}.pw")
    passwords = dict(line.split(" ") for line in Path(f"{path}.pw").read_text().splitlines())
    assert path.stat().st_mode & 0o777 == Path(f"{path}.pw").stat().st_mode & 0o777 == 0o600
    administrator = Administrator(login(broker, "admin", passwords["admin"]))
    assert administrator.do(command="getAnonymousGroup")["data"] == {"group": {"groupname": "unauthenticated"}}
    assert len(administrator.do(command="listRoles")["data"]["roles"]) == 7
    assert login(broker, "democlient", passwords["democlient"]).subscribe("#") == 0
    broker.wait_for_log(r"dynsec: admin/admin \| listRoles \| verbose=false")


@pytest.mark.parametrize("source", ["file", "environment", "short"])
def test_the_first_password_may_be_given(start_broker, login, tmp_path, source, program):
    (tmp_path / "first").write_text("from-the-file  \nmore\n")
    configuration = PLUGIN.format(file=tmp_path / "new.json")
    environment = {"MOSQUITTO_DYNSEC_PASSWORD": {"file": "not-this-one", "environment": "from-the-shell", "short": "short"}[source]}
    if source == "file":
        configuration += f"\nplugin_opt_password_init_file {tmp_path}/first"
    if source == "short":
        broker = Broker(program, tmp_path, configuration=configuration, environment=environment)
        with pytest.raises(AssertionError, match="must be at least 12 characters"):
            broker.start()
        return
    broker = start_broker(configuration=configuration, environment=environment)
    login(broker, "admin", "from-the-file" if source == "file" else "from-the-shell")
    assert not Path(f"{tmp_path}/new.json.pw").exists()


def test_requests_go_to_the_broker_alone_and_unknown_ones_are_answered_to_who_asks(martlet, login):
    broker = martlet("martlet_threads 2\nenable_control_api true")
    asker, other = login(broker, client="one"), login(broker, client="two")
    for wire in (asker, other):
        assert wire.subscribe("$CONTROL/#") == 0
    asker.publish("$CONTROL/nothing/v1", "{}", qos=1, identifier=3)
    assert asker.receive(PUBACK).body[2:3] in (b"", b"\0")
    answer = asker.receive(PUBLISH)
    assert answer.topic == "$CONTROL/nothing/v1/response" and answer.body.endswith(b'{"error": "endpoint not available"}')
    asker.publish("$CONTROL/broker/v1", json.dumps({"commands": [{"command": "listListeners"}, {"command": "listPlugins"}, {"command": "x"}]}))
    for wire in (asker, other):
        packet = wire.receive(PUBLISH)
        assert packet.topic == "$CONTROL/broker/v1/response"
        listeners, plugins, unknown = json.loads(packet.body[packet.body.index(b"{") :])["responses"]
        assert listeners["data"]["listeners"][0] == {"port": broker.port, "protocol": "mqtt", "bind-address": "127.0.0.1", "tls": False}
        assert plugins["data"]["plugins"][0]["control-endpoints"] == [ENDPOINT]
        assert unknown == {"command": "x", "error": "Unknown command"}


def ctl(program, *arguments: str):
    done = run(program, "ctl", "dynsec", *arguments)
    return done.returncode, done.stdout


def test_martlet_ctl_says_what_mosquitto_ctrl_says(debian, start_broker, program, file, tmp_path):
    socket = tmp_path / "http.sock"
    plugin = PLUGIN.format(file=file)
    broker = start_broker(configuration=f"martlet_compat 2.0\n{plugin}\nlistener 0 {socket}\nprotocol http_api")
    seen = set()
    for verb in VERBS.strip().splitlines():
        words = verb.split()
        is_first = words[0] not in seen
        seen.add(words[0])
        if words[0].startswith(("get", "list")):
            theirs = debian.control(broker.port, *words)
            code, ours = ctl(program, "--socket", str(socket), *words)
            lines = [line.rstrip() for line in theirs.splitlines() if line and not line.startswith(("Warning:", "This means"))]
            if code:
                assert ours == f"Error: {lines[0].replace('Error: ', '')}.\n"
            else:
                assert [line.rstrip() for line in ours.splitlines() if not line.startswith("Connections:")] == lines, verb
        elif is_first:
            assert ctl(program, "--socket", str(socket), *words) == (0, ""), verb
        else:
            debian.control(broker.port, *words)
    assert ctl(program, "--socket", str(socket), "deleteClient", "nobody") == (4, "Error: deleteClient: Client not found.\n")
    # The audit names who has changed what; no secret is in it.
    broker.wait_for_log(r"Audit: .*performSecurityCommands.*createClient \| username=anna \| password=\*\*\*\*\*")
    assert "secret" not in broker.log


def test_a_file_is_made_and_changed_without_a_broker(program, tmp_path, start_broker, login):
    path = str(tmp_path / "made.json")
    assert ctl(program, "init", path, "root", "toor-toor")[0] == 0
    assert ctl(program, "init", path, "root", "toor-toor") == (1, f"Error: {path} is there already; init makes a new file.\n")
    assert ctl(program, "-f", path, "createClient", "anna", "-p", "first") == (0, "")
    assert ctl(program, "-f", path, "setClientPassword", "anna", "second") == (0, "")
    assert ctl(program, "-f", path, "listClients") == (0, "anna\nroot\n")
    assert ctl(program, "-f", path, "createGroup", "acme", "--mountpoint", "tenants/acme/") == (0, "")
    assert ctl(program, "-f", path, "getGroup", "acme")[1].splitlines()[:2] == ["Groupname: acme", "Mountpoint: tenants/acme/"]
    assert ctl(program, "-f", path, "setClientMountPoint", "anna", "own/%u/") == (0, "")
    assert "Mountpoint: own/%u/" in ctl(program, "-f", path, "getClient", "anna")[1]
    assert "Mountpoint" not in ctl(program, "-f", path, "getClient", "root")[1]
    assert "Invalid mountpoint: + and # do not belong there" in ctl(program, "-f", path, "setClientMountPoint", "anna", "a/#/")[1]
    assert ctl(program, "-f", path, "setClientMountPoint", "anna") == (0, "")
    assert "Mountpoint" not in ctl(program, "-f", path, "getClient", "anna")[1]
    assert ctl(program, "-f", path, "getClient", "anna", "--mountpoint", "a/")[0] == 64
    assert ctl(program, "-f", path, "getClient", "nobody")[0] == 4
    assert ctl(program, "-f", path, "dance")[0] == 64
    assert ctl(program, "-f", path + ".none", "listClients")[0] == 1
    broker = start_broker(configuration=PLUGIN.format(file=path))
    assert refusal(broker, "anna", "first") == NOT_AUTHORIZED and refusal(broker, "anna", "second") == 0
    assert Administrator(login(broker, "root", "toor-toor")).do(command="listRoles")["data"]["roles"] == ["admin"]


def test_roles_on_the_broker_s_own_topic_let_people_in_over_http(start_broker, file, login):
    http = reserve_port()
    broker = start_broker(configuration=f"{PLUGIN.format(file=file)}\nlistener {http} 127.0.0.1\nprotocol http_api\nallow_anonymous false")
    administrator = Administrator(login(broker))
    acl = {"acltype": "publishClientReceive", "topic": "$CONTROL/martlet/v1", "allow": True}
    administrator.ask(
        {"command": "createRole", "rolename": "viewer", "acls": [acl]},
        {"command": "createClient", "username": "vera", "password": "p", "roles": [{"rolename": "viewer"}]},
        {"command": "createClient", "username": "device", "password": "p"},
    )

    def ask(user: str, password: str) -> int:
        body = json.dumps({"commands": [{"command": "listClients"}]}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{http}/api/martlet/v1/security/commands", body)
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert json.load(answer)["responses"][0]["data"]["clients"] == ["admin", "device", "vera"]
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    assert [ask("admin", "adminpw"), ask("vera", "p"), ask("device", "p")] == [200, 403, 403]

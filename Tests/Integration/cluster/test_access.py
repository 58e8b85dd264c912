"""Three nodes on three NATS servers: dynamic security and bans are the cluster's."""

import base64
import hashlib
import json
import signal
import time
from pathlib import Path

import pytest
from cluster.nats import trio
from cluster.site import Node
from harness.waiting import PATIENCE, wait_until
from harness.wire import PUBACK, PUBLISH, Wire

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

ENDPOINT = "$CONTROL/dynamic-security/v1"
RESPONSE = ENDPOINT + "/response"
BANNED, NOT_AUTHORIZED, ADMINISTRATIVE_ACTION = 0x8A, 0x87, 0x98


def password(text: str) -> dict:
    digest = hashlib.pbkdf2_hmac("sha512", text.encode(), b"salt-of-test", 101)
    return {"iterations": 101, "salt": base64.b64encode(b"salt-of-test").decode(), "password": base64.b64encode(digest).decode()}


def write_users(path: Path, *more: str):
    """A file with the user admin, password adminpw, and more users without rights, with their names as passwords."""
    kinds = ["publishClientSend", "publishClientReceive", "subscribePattern", "unsubscribePattern"]
    acls = [{"acltype": kind, "topic": topic, "allow": True} for topic in ["$CONTROL/#", "#"] for kind in kinds]
    clients = [{"username": "admin", "roles": [{"rolename": "admin"}], **password("adminpw")}]
    known = password(more[0]) if more else {}
    clients += [{"username": name, **known} for name in more]
    defaults = {"publishClientSend": False, "publishClientReceive": True, "subscribe": False, "unsubscribe": True}
    path.write_text(json.dumps({"defaultACLAccess": defaults, "clients": clients, "roles": [{"rolename": "admin", "acls": acls}]}))


class Member:
    """A node with a file of dynamic security of its own."""

    def __init__(self, program, directory: Path, name: str, servers: str, *users: str):
        self.directory = directory / name
        self.directory.mkdir()
        self.file = self.directory / "users.json"
        write_users(self.file, *users)
        lines = f"plugin /usr/lib/mosquitto_dynamic_security.so\nplugin_opt_config_file {self.file}\nlog_dest stderr"
        self.node = Node(program, self.directory, name, servers, lines)

    def start(self) -> "Member":
        self.node.broker.start()
        self.node.is_ready()
        return self

    @property
    def log(self) -> str:
        return self.node.broker.log

    def code(self, user: str, secret: str, client: str = "x") -> int:
        """What a login is answered with."""
        wire = Wire(self.node.port)
        code = wire.connect(client, user=user, password=secret)[1]
        wire.close()
        return code

    def login(self, user: str, secret: str, client: str = "") -> Wire:
        wire = Wire(self.node.port)
        assert wire.connect(client or user, user=user, password=secret)[1] == 0
        return wire

    def bans(self) -> set[str]:
        return {ban["who"] for ban in self.node.ask("bans")[1]["data"]}


class Administrator:
    """A client that gives commands to a node, many at once if need be."""

    def __init__(self, member: Member, client: str = "boss"):
        self.wire = member.login("admin", "adminpw", client)
        assert self.wire.subscribe(RESPONSE) == 0

    def send(self, *commands: dict):
        self.wire.publish(ENDPOINT, json.dumps({"commands": list(commands)}))

    def answer(self) -> list[str | None]:
        packet = self.wire.receive(PUBLISH)
        text = packet.body[packet.body.index(RESPONSE.encode()) + len(RESPONSE) + 1 :]
        return [response.get("error") for response in json.loads(text)["responses"]]

    def do(self, **command) -> str | None:
        """The error that a command is answered with; None for none."""
        self.send(command)
        return self.answer()[0]


@pytest.fixture(scope="module")
def members(program, tmp_path_factory):
    """Three nodes, of which the first has brought its dynamic security; the second had another, the third the same."""
    directory = tmp_path_factory.mktemp("access")
    servers = trio(directory)
    made = [Member(program, directory, f"node{index}", server.address, *users)
            for index, (server, users) in enumerate(zip(servers, (("first",), ("second",), ("first",))))]  # fmt: skip
    try:
        for member in made:
            member.start()
            if member is made[0]:
                # While the servers choose their leaders, what it brings is offered again and again.
                wait_until(lambda: "from now on all nodes share the dynamic security" in made[0].log, "the first node has brought its own", 3 * PATIENCE)
            wait_until(lambda member=member: member.code("first", "first") == 0, f"{member.node.name} goes by what is shared", 3 * PATIENCE)
        yield made
    finally:
        for member in made:
            member.node.broker.finish()
            print(f"--- log of {member.node.name}\n{member.log[-10000:]}")
        for server in servers:
            server.kill()


def counts(condition, what: str):
    """Waits until a change counts, and prints how long that took."""
    start = time.monotonic()
    wait_until(condition, what)
    print(f"{what}: {(time.monotonic() - start) * 1000:.0f} ms")


def test_the_first_node_brings_its_own_and_others_keep_a_copy(members):
    first, second, third = members
    assert "from now on all nodes share the dynamic security" in first.log
    copy = Path(f"{second.file}.before-cluster")
    assert "theirs is used from now on" in second.log and str(copy) in second.log
    assert "second" in copy.read_text() and "second" not in second.file.read_text()
    assert second.code("second", "second") == NOT_AUTHORIZED
    # Written by another hand, the same is the same.
    assert not Path(f"{third.file}.before-cluster").exists() and "theirs is used" not in third.log


def test_a_change_counts_on_all_nodes(members):
    here, there, other = members
    boss = Administrator(here)
    boss.send({"command": "createRole", "rolename": "reader", "acls": [{"acltype": "subscribePattern", "topic": "plant/#", "allow": True}]},
              {"command": "createClient", "username": "anna", "password": "annapw", "roles": [{"rolename": "reader"}]})  # fmt: skip
    assert boss.answer() == [None, None]
    for member in (there, other):
        counts(lambda member=member: member.code("anna", "annapw") == 0, f"a new client on {member.node.name}")
    anna, bystander = there.login("anna", "annapw"), there.login("first", "first", "bystander")
    assert anna.subscribe("plant/a") == 0 and anna.subscribe("hall/a") == NOT_AUTHORIZED
    # A role that changes ends the connections of those who have it, as on one node, and nobody else's.
    assert boss.do(command="addRoleACL", rolename="reader", acltype="subscribePattern", topic="hall/#", allow=True) is None
    assert anna.receive_end() == ADMINISTRATIVE_ACTION
    anna = there.login("anna", "annapw")
    assert anna.subscribe("hall/a") == 0
    assert boss.do(command="disableClient", username="anna") is None
    assert anna.receive_end() == ADMINISTRATIVE_ACTION
    assert there.code("anna", "annapw") == NOT_AUTHORIZED
    # Enabled at another node.
    assert Administrator(other).do(command="enableClient", username="anna") is None
    for member in members:
        counts(lambda member=member: member.code("anna", "annapw") == 0, f"an enabled client on {member.node.name}")
    bystander.publish("x", qos=1)
    bystander.receive(PUBACK)
    for member in members:
        wait_until(lambda member=member: '"anna"' in member.file.read_text(), f"{member.node.name} has saved it")


def test_changes_of_two_nodes_at_once_all_count(members):
    bosses = [Administrator(member, "many") for member in members[:2]]
    names = [[f"c{place}-{number}" for number in range(15)] for place in range(2)]
    for pair in zip(*names):
        for boss, name in zip(bosses, pair):
            boss.send({"command": "createClient", "username": name})
    for boss in bosses:
        for _ in range(15):
            assert boss.answer() == [None]
    wanted = {name for some in names for name in some}
    for member in members:
        wait_until(lambda member=member: wanted <= {client["username"] for client in json.loads(member.file.read_text())["clients"]},
                   f"{member.node.name} has all")  # fmt: skip


def test_bans_are_for_all_nodes(members):
    here, there, other = members
    victim, bystander = there.login("first", "first", "victim"), there.login("first", "first", "bystander")
    status, text = here.node.ask("bans", "POST", {"as": "clientid", "who": "victim", "reason": "tests"})
    assert status == 201, text
    assert victim.receive_end() == ADMINISTRATIVE_ACTION
    for member in members:
        counts(lambda member=member: member.code("first", "first", "victim") == BANNED, f"a ban on {member.node.name}")
    assert other.node.ask("bans/clientid/victim", "DELETE")[0] == 204
    for member in members:
        counts(lambda member=member: member.code("first", "first", "victim") == 0, f"a lifted ban on {member.node.name}")
    # One that ends by itself.
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
    assert other.node.ask("bans", "POST", {"as": "username", "who": "brief", "until": end})[0] == 201
    for member in members:
        wait_until(lambda member=member: "brief" in member.bans(), f"{member.node.name} bans")
    for member in members:
        wait_until(lambda member=member: not member.bans(), f"{member.node.name} bans no more")
    bystander.publish("x", qos=1)
    bystander.receive(PUBACK)


def test_a_node_that_was_away_catches_up(members):
    here, _, away = members
    assert here.node.ask("bans", "POST", {"as": "username", "who": "lifted"})[0] == 201
    wait_until(lambda: "lifted" in away.bans(), "the ban is there")
    away.node.broker.finish()
    assert Administrator(here).do(command="createClient", username="late", password="latepw") is None
    assert here.node.ask("bans", "POST", {"as": "peerhost_net", "who": "192.0.2.0/24"})[0] == 201
    assert here.node.ask("bans/username/lifted", "DELETE")[0] == 204
    away.start()
    wait_until(lambda: away.code("late", "latepw") == 0, "the new client is let in")
    wait_until(lambda: away.bans() == {"192.0.2.0/24"}, "bans are as the cluster's")
    assert not Path(f"{away.file}.before-cluster").exists()
    assert here.node.ask("bans/peerhost_net/192.0.2.0%2F24", "DELETE")[0] == 204


@pytest.fixture
def alone(start_nats, program, tmp_path):
    """Starts nodes at one server."""
    started: list[Member] = []
    nats = start_nats()

    def start(name: str, *users: str) -> Member:
        started.append(Member(program, tmp_path, name, nats.address, *users).start())
        return started[-1]

    yield start, nats
    for member in started:
        member.node.broker.finish()
        print(f"--- log of {member.node.name}\n{member.log[-10000:]}")


def test_while_the_servers_are_away_nothing_is_changed(alone):
    start, nats = alone
    member = start("lonely", "first")
    member.node.broker.wait_for_log("from now on all nodes share the dynamic security")
    boss = Administrator(member)
    nats.kill()
    wait_until(lambda: member.node.get("/readyz")[0] == 503, "the loss is known")
    error = boss.do(command="createClient", username="anna")
    assert "Nothing was changed: the cluster cannot be reached" in error
    assert boss.do(command="getClient", username="anna") == "Client not found"
    status, answer = member.node.ask("bans", "POST", {"as": "clientid", "who": "victim"})
    assert status == 503 and "Nothing was changed: the cluster cannot be reached" in str(answer) and not member.bans()
    nats.start()
    wait_until(lambda: boss.do(command="createClient", username="anna") is None, "it is changed when they are back", 2 * PATIENCE)


def test_a_node_brings_its_bans_and_what_it_has_banned_by_itself(alone):
    start, nats = alone
    first = start("first", "first")
    with (first.node.broker.configuration_path).open("a") as lines:
        lines.write("\nmartlet_flapping 3/60s 300s\n")
    first.node.broker.signal(signal.SIGHUP)
    first.node.broker.wait_for_log("Config reloaded")
    second = start("second", "first")
    for _ in range(3):
        first.login("first", "first", "restless").close()
    counts(lambda: second.bans() == {"restless"}, "a ban that a node made by itself")


def test_many_clients_are_shared_in_parts(alone):
    start, nats = alone
    names = [f"device-{number:05}" for number in range(850)]
    first = start("first", *names)
    first.node.broker.wait_for_log("from now on all nodes share the dynamic security")
    second = start("second")
    wait_until(lambda: names[0] in second.file.read_text(), "the other node has all")
    boss = Administrator(second)

    def stored() -> int:
        return nats.asks("/jsz?streams=true")["bytes"]

    before = stored()
    for number in range(5):
        assert boss.do(command="createClient", username=f"new-{number}", password="newpw") is None
    counts(lambda: first.code("new-4", "newpw") == 0, "a new client among 850")
    assert first.code(names[-1], names[0]) == 0
    wait_until(lambda: stored() < before + 100_000, "parts that nobody needs are gone")

"""Rules of all kinds, as mosquitto's programs and paho's client meet them: one broker, and a table of who may do what."""

import base64
import hashlib
import json
import queue
import subprocess
import time
from dataclasses import dataclass

import jwt
import paho.mqtt.client as paho
import pytest
from harness.broker import Broker
from harness.ports import reserve_port
from harness.waiting import PATIENCE

pytestmark = pytest.mark.martlet("mosquitto has no such rules")

SECRET = "0123456789abcdef" * 4

ACCESS_FILE = """topic write,qos<=1,retain=no sensors/#
topic write,retain=yes state
pattern write floors/%{client_attrs.floor}/#
user anna
topic write,qos=2 orders/#
topic write,from=127.0.0.2 near/#
topic deny,from=127.0.0.3 orders/urgent
user watch
topic read tanks/#
"""

CONFIGURATION = """acl_file {directory}/rules
password_file {directory}/users
martlet_jwt_secret_file {directory}/secret
martlet_jwt_algorithms HS256
plugin mosquitto_dynamic_security.so
plugin_opt_config_file {directory}/dynsec.json
martlet_max_connections_per_user 2
martlet_max_subscriptions_per_user 3
listener {port} 127.0.0.1
allow_anonymous true
"""


def hashed(password: str) -> tuple[str, str]:
    """Few rounds: a hash that costs nothing here."""
    salt = b"0123456789ab"
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return base64.b64encode(salt).decode(), base64.b64encode(digest).decode()


def client(name: str, role: str, **others) -> dict:
    salt, digest = hashed(name)
    return {"username": name, "password": digest, "salt": salt, "iterations": 101, "roles": [{"rolename": role}], **others}


def role(name: str, *rules: dict) -> dict:
    return {"rolename": name, "acls": [{"acltype": "publishClientSend", "allow": True, **rule} for rule in rules]}


DYNAMIC_SECURITY = {
    "defaultACLAccess": {"publishClientSend": False, "publishClientReceive": True, "subscribe": False, "unsubscribe": True},
    "clients": [client("pump", "plant"), client("robot", "site"), client("tank", "level", mountpoint="tanks/%u/")],
    "groups": [],
    "roles": [
        role("plant", {"topic": "plant/#", "qos": [1], "retain": False}, {"topic": "far/#", "from": ["127.0.0.2"]},
             {"topic": "plant/valve", "allow": False, "priority": 5, "qos": [1, 2]}),
        role("site", {"topic": "sites/%{client_attrs.site}/#"}),
        role("level", {"topic": "tanks/%u/level"}),
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Who:
    user: str | None = None
    #: What its token says of it; nil for one who logs in by a password that is the user name.
    attributes: dict | None = None
    address: str = "127.0.0.1"
    on_second: bool = False

    @property
    def password(self) -> str | None:
        if self.attributes is None:
            return self.user
        return jwt.encode({"sub": self.user, "exp": int(time.time()) + 600, "client_attrs": self.attributes}, SECRET, algorithm="HS256")


ANYBODY, ANNA, PUMP = Who(), Who("anna"), Who("pump")
NEAR, BARRED = Who("anna", address="127.0.0.2"), Who("anna", address="127.0.0.3")
FLOOR_2, FLOOR_3, CARL = Who("f2", {"floor": "2"}), Who("f3", {"floor": "3"}), Who("carl")

#: Who publishes to which topic, with which QoS and RETAIN; and whether that is allowed.
TABLE = [
    # QoS and RETAIN in the access file.
    (ANYBODY, "sensors/a", 1, False, True), (ANYBODY, "sensors/a", 2, False, False), (ANYBODY, "sensors/a", 1, True, False),
    (ANYBODY, "state", 2, True, True), (ANYBODY, "state", 1, False, False),
    (ANNA, "orders/1", 2, False, True), (ANNA, "orders/1", 1, False, False), (ANNA, "sensors/a", 1, False, False),
    # Addresses there.
    (NEAR, "near/1", 1, False, True), (ANNA, "near/1", 1, False, False),
    (ANNA, "orders/urgent", 2, False, True), (BARRED, "orders/urgent", 2, False, False), (BARRED, "orders/1", 2, False, True),
    # What a token says.
    (FLOOR_2, "floors/2/x", 1, False, True), (FLOOR_2, "floors/3/x", 1, False, False), (FLOOR_3, "floors/3/x", 1, True, True),
    (Who("f"), "floors/2/x", 1, False, False),
    # All that in dynamic security.
    (PUMP, "plant/1", 1, False, True), (PUMP, "plant/1", 2, False, False), (PUMP, "plant/1", 1, True, False),
    (PUMP, "plant/valve", 1, False, False), (PUMP, "far/1", 1, False, False), (Who("pump", address="127.0.0.2"), "far/1", 1, True, True),
    (Who("robot", {"site": "a"}), "sites/a/x", 1, False, True), (Who("robot", {"site": "a"}), "sites/b/x", 1, False, False),
    # A user's mount point.
    (Who("tank"), "level", 1, False, True), (Who("tank"), "tanks/tank/level", 1, False, False), (Who("tank"), "other", 1, False, False),
    # Rules of those who have none.
    (CARL, "public/x", 1, False, False), (Who("carl", on_second=True), "public/x", 1, False, True),
    (Who("carl", on_second=True), "public/x", 2, False, False), (Who("anna", on_second=True), "public/x", 1, False, False),
]  # fmt: skip


@pytest.fixture(scope="module")
def ruled(program, tmp_path_factory):
    directory = tmp_path_factory.mktemp("rules")
    (directory / "rules").write_text(ACCESS_FILE)
    (directory / "secret").write_text(SECRET)
    (directory / "users").write_text("".join("{}:$7$101${}${}\n".format(name, *hashed(name)) for name in ("anna", "carl", "watch", "many", "f")))
    (directory / "dynsec.json").write_text(json.dumps(DYNAMIC_SECURITY))
    second = reserve_port()
    lines = f"listener {second} 127.0.0.1\nallow_anonymous true\nmartlet_default_rule write,qos=1 public/#\n"
    broker = Broker(program, directory, configuration=CONFIGURATION + lines, listener=False)
    broker.start()
    broker.second = second
    yield broker
    broker.finish()


@pytest.fixture
def tools(ruled, tools_for):
    return tools_for(ruled.port)


def allowed_to_mosquitto(broker, who: Who, rows) -> list[bool]:
    port = broker.second if who.on_second else broker.port
    login = ["-u", who.user, "-P", who.password] if who.user else []
    found = []
    for topic, qos, retain in rows:
        words = ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(port), "-A", who.address, "-V", "5", "-d", *login]
        words += ["-t", topic, "-m", "x", "-q", str(qos), *(["-r"] if retain else [])]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        said = done.stdout + done.stderr
        assert "received CONNACK (0)" in said, said
        found.append("Not authorized" not in said)
    return found


def allowed_to_paho(broker, who: Who, rows) -> list[bool]:
    here = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    answers: queue.Queue = queue.Queue()
    here.on_connect = lambda client, data, flags, code, properties: answers.put(code)
    here.on_publish = lambda client, data, identifier, code, properties: answers.put(code)
    if who.user:
        here.username_pw_set(who.user, who.password)
    here.connect("127.0.0.1", broker.second if who.on_second else broker.port, bind_address=who.address)
    here.loop_start()
    assert not answers.get(timeout=PATIENCE).is_failure
    found = []
    for topic, qos, retain in rows:
        here.publish(topic, "x", qos=qos, retain=retain)
        found.append(not answers.get(timeout=PATIENCE).is_failure)
    here.disconnect()
    here.loop_stop()
    return found


@pytest.mark.parametrize("ask", [allowed_to_mosquitto, allowed_to_paho], ids=["mosquitto", "paho"])
def test_who_may_publish_what(ruled, ask):
    by_client: dict[str, tuple[Who, list]] = {}
    for who, *row, allowed in TABLE:
        by_client.setdefault(repr(who), (who, []))[1].append((*row, allowed))
    wrong = []
    for who, rows in by_client.values():
        found = ask(ruled, who, [row[:-1] for row in rows])
        wrong += [(who, *row) for row, allowed in zip(rows, found, strict=True) if allowed != row[-1]]
    assert wrong == []


def test_topics_of_a_user_stand_below_its_mount_point(tools):
    watcher = tools.subscribe("tanks/#", arguments=["-u", "watch", "-P", "watch"])
    tools.publish("level", "7", qos=1, arguments=["-u", "tank", "-P", "tank"])
    message = watcher.take_one()
    assert (message.topic, message.payload) == ("tanks/tank/level", b"7")


def test_a_user_has_so_many_connections_and_subscriptions(ruled, tools):
    login = ["-u", "many", "-P", "many"]
    first = tools.start("mosquitto_sub", "-V", "5", "-d", *login, "-t", "a", "-t", "b")
    first.wait_line(lambda line: line.startswith("Subscribed (mid"), "SUBACK")
    second = tools.start("mosquitto_sub", "-V", "5", "-d", *login, "-t", "c", "-t", "d")
    second.wait_line(lambda line: line.startswith("Subscribed (mid") and line.endswith("0, 151"), "SUBACK with Quota exceeded")
    third = tools.start("mosquitto_sub", "-V", "5", "-d", *login, "-t", "a")
    third.wait_line(lambda line: "CONNACK (151)" in line, "CONNACK with Quota exceeded")
    ruled.wait_for_log("the user has 2 connections, and may have no more")

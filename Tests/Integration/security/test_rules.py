"""Own extensions of the access file, and Client Identifiers that belong to users."""

import json
import time
import urllib.request

import jwt
import pytest
from harness.ports import reserve_port
from harness.program import run
from harness.wire import Will, Wire, frame, text

pytestmark = pytest.mark.martlet("mosquitto has no such rules")

NOT_AUTHORIZED = 0x87
NOT_VALID = 0x85
QUOTA = 0x97


def test_rules_for_qos_and_retain(start_broker, tmp_path):
    rules = ["topic write,qos<=1,retain=no sensors/#", "topic write,qos=2 orders/#", "topic write,retain=yes orders/state", "topic readwrite,qos=1 mine"]
    (tmp_path / "rules").write_text("\n".join([*rules, "topic read #"]) + "\n")
    broker = start_broker(configuration="acl_file {directory}/rules")
    wire = Wire(broker.port)
    wire.connect("c")

    def reason(topic: str, qos: int, retain: bool = False) -> int:
        """Of QoS 1 and 2: PUBACK's or PUBREC's."""
        wire.publish(topic, "x", qos=qos, identifier=7, retain=retain)
        answer = wire.receive()
        if qos == 2 and len(answer.body) == 2:
            wire.acknowledge(6, 7)
            wire.receive()
        return answer.body[2] if len(answer.body) > 2 else 0

    assert reason("sensors/a", 1) in (0, 0x10)
    assert reason("sensors/a", 2) == NOT_AUTHORIZED
    assert reason("sensors/a", 1, retain=True) == NOT_AUTHORIZED
    assert reason("orders/a", 1) == NOT_AUTHORIZED
    assert reason("orders/a", 2) in (0, 0x10)
    # What several lines grant adds up.
    assert reason("orders/state", 1, retain=True) in (0, 0x10)
    assert reason("orders/state", 1) == NOT_AUTHORIZED
    assert reason("mine", 1) in (0, 0x10)
    broker.wait_for_log(r"Denied PUBLISH .* to 'sensors/a': no line of .*rules allows it with this QoS and RETAIN")
    wire.close()


def test_a_rule_that_cannot_be_meant_is_told_with_its_line(program, start_broker, tmp_path):
    (tmp_path / "rules").write_text("topic write,qos=3 a\ntopic read,qos=1 a\ntopic write,qos=1,qos=2 a\ntopic read,from=here a\n")
    with pytest.raises(AssertionError) as failure:
        start_broker(configuration="acl_file {directory}/rules")
    said = str(failure.value)
    assert 'rules:1: "qos=3" is not a condition; expected qos=0, qos=1, qos=2, qos<=1, retain=yes, retain=no or from=ADDRESS' in said
    assert 'rules:2: "read,qos=1": qos and retain are for what is published; write them behind write or readwrite.' in said
    assert 'rules:3: no message can meet the conditions of "write,qos=1,qos=2".' in said
    assert 'rules:4: "from=here": this is no address and no network; write from=192.0.2.7' in said


def published(wire: Wire, topic: str, qos: int = 1, retain: bool = False) -> bool:
    wire.publish(topic, "x", qos=qos, identifier=7, retain=retain)
    body = wire.receive(4).body
    return len(body) == 2 or body[2] in (0, 0x10)


def test_rules_for_addresses_go_by_what_a_trusted_proxy_says(start_broker, tmp_path):
    (tmp_path / "rules").write_text("topic readwrite,from=203.0.113.0/24,from=2001:db8::/32 plant/#\ntopic deny,from=203.0.113.9 plant/door\ntopic write b\n")
    broker = start_broker(
        configuration="listener {port} 127.0.0.1\nallow_anonymous true\nenable_proxy_protocol 1\nmartlet_proxy_trusted 127.0.0.1\n"
        "acl_file {directory}/rules\nmartlet_acl_check_subscribe true", listener=False)  # fmt: skip

    def come(address: str, name: str = "c", clean: bool = True) -> Wire:
        wire = Wire(broker.port)
        wire.send(f"PROXY TCP{6 if ':' in address else 4} {address} {'::1' if ':' in address else '192.0.2.1'} 4711 1883\r\n".encode())
        wire.connect(name, clean=clean, properties=b"\x11\x00\x00\x0e\x10")
        return wire

    near, near6, barred, far = come("203.0.113.7", "near"), come("2001:db8::1", "near6"), come("203.0.113.9", "barred"), come("198.51.100.1", "far")
    assert [published(wire, "plant/door") for wire in (near, near6, barred, far)] == [True, True, False, False]
    assert [published(wire, "plant/a") for wire in (near, near6, barred, far)] == [True, True, True, False]
    assert all(published(wire, "b") for wire in (near, near6, barred, far))
    assert near.subscribe("plant/#", 1) == 1 and far.subscribe("plant/#", 1) == NOT_AUTHORIZED
    broker.wait_for_log(r"Denied PUBLISH .*198.51.100.1.* to 'plant/a': no line of .*rules allows it from this address")
    # Who comes back from elsewhere gets nothing that may not reach it there.
    near.close()
    assert published(near6, "plant/a")
    moved = come("198.51.100.2", "near", clean=False)
    assert moved.subscribe("b", 1) is not None and not published(moved, "plant/a")
    for wire in (near6, barred, far, moved):
        wire.close()


def test_rules_for_what_a_token_says_of_the_client(program, start_broker, tmp_path):
    secret = "0123456789abcdef" * 4
    (tmp_path / "secret").write_text(secret)
    (tmp_path / "rules").write_text("pattern readwrite floors/%{client_attrs.floor}/#\n")
    broker = start_broker(
        configuration="listener {port} 127.0.0.1\nallow_anonymous false\nmartlet_jwt_secret_file {directory}/secret\nmartlet_jwt_algorithms HS256\n"
        "acl_file {directory}/rules\nlistener 0 {directory}/http.sock\nprotocol http_api", listener=False)  # fmt: skip

    def token(**attributes: str) -> str:
        return jwt.encode({"sub": "anna", "exp": int(time.time()) + 600, "client_attrs": attributes}, secret, algorithm="HS256")

    found = {}
    for number, attributes in enumerate([{"floor": "2"}, {"floor": "3"}, {}, {"floor": "+"}, {"floor": "2/x"}, {"other": "2"}]):
        wire = Wire(broker.port)
        assert wire.connect(f"c{number}", user="anna", password=token(**attributes))[1] == 0
        found[json.dumps(attributes)] = [published(wire, "floors/2/x"), published(wire, "floors/3/x"), published(wire, "floors/2/x/y")]
        wire.close()
    assert list(found.values()) == [[True, False, True], [False, True, False], *[[False] * 3] * 4], found

    def ctl(*words: str):
        answer = run(program, "ctl", *words, "--socket", str(tmp_path / "http.sock"))
        return answer.returncode, answer.stdout

    asked = ("may", "publish", "floors/2/x", "--username", "anna")
    code, words = ctl(*asked, "--attribute", "floor=2", "--attribute", "site=a")
    assert code == 0, words
    code, words = ctl(*asked, "--attribute", "floor=3")
    assert code == 1 and "no line of" in words, words


def test_clients_without_rules_have_those_of_the_listener(start_broker, tmp_path):
    (tmp_path / "rules").write_text("user anna\ntopic write a\n")
    second = reserve_port()
    lines = ["acl_file {directory}/rules", "martlet_default_rule write public/#", "listener {port} 127.0.0.1", "allow_anonymous true",
             f"listener {second} 127.0.0.1", "allow_anonymous true", "martlet_default_rule write,qos=1,retain=no own/%c/#"]  # fmt: skip
    broker = start_broker(configuration="\n".join(lines), listener=False)
    found = []
    for port, user in [(broker.port, "anna"), (broker.port, "bob"), (broker.port, None), (second, "anna"), (second, "bob")]:
        wire = Wire(port)
        assert wire.connect("c", user=user)[1] == 0
        found.append([published(wire, topic) for topic in ("a", "public/x", "own/c/x")] + [published(wire, "own/c/x", retain=True)])
        wire.close()
    assert found == [[True, False, False, False], [False, True, False, False], [False, True, False, False], [True, False, False, False],
                     [False, False, True, False]]  # fmt: skip


def test_a_default_rule_that_is_none_is_told_with_its_line(start_broker):
    with pytest.raises(AssertionError) as failure:
        start_broker(configuration="listener {port} 127.0.0.1\nmartlet_default_rule read a\nmartlet_default_rule some b\n", listener=False)
    assert ':4: martlet_default_rule: "some" is not an access type; expected read, write, readwrite or deny' in str(failure.value)


def test_a_user_has_no_more_than_so_many_at_once(start_broker):
    web = reserve_port()
    broker = start_broker(
        "--threads", "3", configuration="martlet_max_connections_per_user 3\nmartlet_max_sessions_per_user 4\n"
        f"martlet_max_subscriptions_per_user 2\nmartlet_metrics_anonymous true\nlistener {{port}} 127.0.0.1\nallow_anonymous true\n"
        f"listener {web} 127.0.0.1\nprotocol http_api", listener=False)  # fmt: skip
    lasting = b"\x11\x00\x00\x0e\x10"

    def come(name: str, user: str | None = "anna", properties: bytes = lasting, version: str = "mqttv5") -> tuple[Wire, int]:
        wire = Wire(broker.port, version)
        return wire, wire.connect(name, user=user, clean=version == "mqttv5", properties=properties)[1]

    there = [come(f"c{number}") for number in range(3)]
    assert [code for _, code in there] == [0, 0, 0]
    assert come("c3")[1] == QUOTA and come("c3", version="mqttv311")[1] == 3 and come("c3", user="bob")[1] == 0
    broker.wait_for_log("the user has 3 connections, and may have no more")
    again, code = come("c0")
    assert code == 0 and there[0][0].receive_end() is not None, "one's own connection is taken over"
    assert again.subscribe("a") == 0 and there[1][0].subscribe("b") == 0 and there[1][0].subscribe("c") == QUOTA
    there[2][0].disconnect()
    broker.wait_for_log(r"Client c2 .* disconnected\.")
    fourth, code = come("c4")
    assert code == 0
    fourth.disconnect()
    broker.wait_for_log(r"Client c4 .* disconnected\.")
    assert come("c5")[1] == QUOTA, "the sessions of who is away count"
    broker.wait_for_log("the user has 4 sessions, and may have no more")
    with urllib.request.urlopen(f"http://127.0.0.1:{web}/metrics") as answer:
        metrics = answer.read().decode()
    for bound, count in [("connections", 2), ("sessions", 1), ("subscriptions", 1)]:
        assert f'martlet_user_bound_refused_total{{bound="{bound}"}} {count}' in metrics


def test_topics_of_a_mount_point_are_the_users_own(start_broker):
    inner = reserve_port()
    broker = start_broker(
        configuration=f"listener {{port}} 127.0.0.1\nallow_anonymous true\nmount_point tenants/%u/%c/\nlistener {inner} 127.0.0.1\nallow_anonymous true",
        listener=False)
    watcher = Wire(inner)
    watcher.connect("w")
    watcher.subscribe("tenants/#")
    wire = Wire(broker.port)
    assert wire.connect("d1", user="anna", will=Will("gone", "w"))[1] == 0
    wire.subscribe("x")
    wire.publish("x", "x")
    assert wire.receive(3).topic == "x" and watcher.receive(3).topic == "tenants/anna/d1/x"
    wire.close()
    assert watcher.receive(3).topic == "tenants/anna/d1/gone"
    assert connect(broker.port, "d1", None)[0] == NOT_AUTHORIZED and connect(broker.port, "a/b", "anna")[0] == NOT_AUTHORIZED
    broker.wait_for_log("the mount point asks for %u, and the client has none")
    watcher.close()


def connect(port: int, identifier: str, user: str | None) -> tuple[int, bytes]:
    """CONNACK's reason code, and its properties."""
    wire = Wire(port)
    flags = 2 | (0x80 if user else 0)
    wire.send(frame(1, 0, text("MQTT") + bytes([5, flags, 0, 60, 0]) + text(identifier) + (text(user) if user else b"")))
    answer = wire.receive()
    wire.close()
    return answer.body[1], answer.body[2:]


@pytest.mark.parametrize("place", ["all", "listener"])
def test_a_users_client_identifiers_begin_with_the_user_name(start_broker, place):
    lines = ["martlet_clientid_prefix %u-", "listener {port} 127.0.0.1", "allow_anonymous true"]
    if place == "listener":
        lines.append(lines.pop(0))
    broker = start_broker("--threads", "3", configuration="\n".join(lines), listener=False)
    assert connect(broker.port, "anna-1", "anna")[0] == 0
    assert connect(broker.port, "bert-1", "anna")[0] == NOT_VALID
    assert connect(broker.port, "anna", "anna")[0] == NOT_VALID
    assert connect(broker.port, "anna-1", None)[0] == NOT_VALID
    code, properties = connect(broker.port, "", "anna")
    assert code == 0 and b"anna-" in properties, "what the broker assigns begins so too"
    broker.wait_for_log(r'Client Identifiers must begin with "anna-" here')

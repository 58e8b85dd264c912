"""Own extensions of the access file, and Client Identifiers that belong to users."""

import json
import time

import jwt
import pytest
from harness.program import run
from harness.wire import Wire, frame, text

pytestmark = pytest.mark.martlet("mosquitto has no such rules")

NOT_AUTHORIZED = 0x87
NOT_VALID = 0x85


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
        answer = run(program.path, "ctl", *words, "--socket", str(tmp_path / "http.sock"))
        return answer.code, answer.output.decode()

    asked = ("may", "publish", "floors/2/x", "--username", "anna", "--listener", f"listener {broker.port}")
    assert ctl(*asked, "--attribute", "floor=2", "--attribute", "site=a")[0] == 0
    code, words = ctl(*asked, "--attribute", "floor=3")
    assert code == 1 and "no line of" in words
    assert ctl(*asked, "--attribute", "floor")[0] not in (0, 1) or "NAME=VALUE" in ctl(*asked, "--attribute", "floor")[1]


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

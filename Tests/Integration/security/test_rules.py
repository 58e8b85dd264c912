"""Own extensions of the access file, and Client Identifiers that belong to users."""

import pytest
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
    (tmp_path / "rules").write_text("topic write,qos=3 a\ntopic read,qos=1 a\ntopic write,qos=1,qos=2 a\n")
    with pytest.raises(AssertionError) as failure:
        start_broker(configuration="acl_file {directory}/rules")
    said = str(failure.value)
    assert 'rules:1: "qos=3" is not a condition; expected qos=0, qos=1, qos=2, qos<=1, retain=yes or retain=no' in said
    assert 'rules:2: "read,qos=1": conditions are for what is published; write them behind write or readwrite.' in said
    assert 'rules:3: no message can meet the conditions of "write,qos=1,qos=2".' in said


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

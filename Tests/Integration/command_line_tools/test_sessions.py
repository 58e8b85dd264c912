"""Sessions that outlive their connection: what was subscribed, what was queued, what was in flight."""

import struct

import pytest
from harness.mosquitto import VERSIONS
from harness.wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL

FOREVER = b"\x11" + struct.pack(">I", 0xFFFFFFFF)


#: More at once than a client's receive maximum (mosquitto_sub's: 20) asks of the broker to hold back.
HELD_BACK = [
    pytest.param(version, qos, marks=pytest.mark.martlet("mosquitto 2.0 forgets QoS 2 messages between PUBREC and PUBCOMP"))
    if (version, qos) == ("mqttv5", 2)
    else (version, qos)
    for version in VERSIONS
    for qos in [1, 2]
]


def session(version: str) -> dict:
    """How CONNECT asks for a session that stays."""
    return {"clean": False, "properties": FOREVER if version == "mqttv5" else b""}


@pytest.mark.parametrize("version, qos", HELD_BACK)
@pytest.mark.parametrize("ending", ["disconnected", "killed"])
def test_messages_wait_for_a_session_that_is_away(loops_broker, tools, version, qos, ending):
    arguments = ["-c", *(["-x", "3600"] if version == "mqttv5" else [])]
    sleeper = tools.subscribe("queue/#", qos=qos, version=version, client_id="sleeper", arguments=arguments)
    if ending == "killed":
        sleeper.kill()
        loops_broker.wait_for_log(r"sleeper.*(disconnected|closed its connection)")
    else:
        sleeper.terminate()
    lines = "".join(f"{number}\n" for number in range(50))
    tools.publish("queue/one", qos=qos, version=version, arguments=["-l"], standard_input=lines.encode())
    tools.publish("queue/one", "not kept", qos=0, version=version)
    # Nobody acknowledges it, and its loop may come to it after another has taken the sleeper in.
    loops_broker.wait_for_log(r"Received PUBLISH from .*\(d0, q0, .*'queue/one'")
    awake = tools.subscribe("queue/#", qos=qos, version=version, client_id="sleeper", arguments=arguments)
    assert [message.payload.decode() for message in awake.take_rest()] == [str(number) for number in range(50)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_subscription_outlives_the_connection(broker, tools, wire, version):
    first, second = wire(version), wire(version)
    assert first.connect("sleeper", **session(version)) == (False, 0)
    first.subscribe("kept", 1)
    first.disconnect()
    # Session present is a word of 3.1.1 and later.
    assert second.connect("sleeper", **session(version)) == (version != "mqttv31", 0)
    tools.publish("kept", "hello", qos=1)
    assert second.receive(PUBLISH).topic == "kept"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_clean_start_forgets(broker, tools, wire, version):
    first, second, third = wire(version), wire(version), wire(version)
    first.connect("sleeper", **session(version))
    first.subscribe("kept", 1)
    first.disconnect()
    assert second.connect("sleeper", clean=True) == (False, 0)
    tools.publish("kept", "nobody", qos=1)
    second.ping()
    second.disconnect()
    assert third.connect("sleeper", **session(version)) == (False, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unacknowledged_qos_1_message_comes_again(broker, tools, wire, version):
    first, second = wire(version), wire(version)
    first.connect("sleeper", **session(version))
    first.subscribe("inflight", 1)
    tools.publish("inflight", "again", qos=1)
    before = first.receive(PUBLISH)
    assert not before.is_duplicate
    first.close()
    second.connect("sleeper", **session(version))
    after = second.receive(PUBLISH)
    assert (after.identifier, after.is_duplicate, after.body) == (before.identifier, True, before.body)
    second.acknowledge(PUBACK, after.identifier)
    second.ping()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_outgoing_qos_2_handshake_goes_on_where_it_stood(broker, tools, wire, version):
    first, second, third = wire(version), wire(version), wire(version)
    first.connect("sleeper", **session(version))
    first.subscribe("inflight", 2)
    tools.publish("inflight", "once", qos=2)
    identifier = first.receive(PUBLISH).identifier
    first.close()
    second.connect("sleeper", **session(version))
    again = second.receive(PUBLISH)
    assert (again.identifier, again.is_duplicate) == (identifier, True)
    second.acknowledge(PUBREC, identifier)
    assert second.receive(PUBREL).identifier == identifier
    second.close()
    third.connect("sleeper", **session(version))
    assert third.receive(PUBREL).identifier == identifier
    third.acknowledge(PUBCOMP, identifier)
    third.ping()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_incoming_qos_2_message_sent_twice_is_delivered_once(broker, tools, wire, version):
    observer = tools.subscribe("inflight", qos=2)
    first, second = wire(version), wire(version)
    first.connect("sender", **session(version))
    first.publish("inflight", "once", qos=2, identifier=7)
    assert first.receive(PUBREC).identifier == 7
    first.close()
    second.connect("sender", **session(version))
    second.publish("inflight", "once", qos=2, identifier=7, duplicate=True)
    assert second.receive(PUBREC).identifier == 7
    second.acknowledge(PUBREL, 7)
    assert second.receive(PUBCOMP).identifier == 7
    assert [message.payload for message in observer.take_rest()] == [b"once"]


def test_a_session_ends_when_its_expiry_is_over(broker, wire):
    first = wire()
    first.connect("sleeper", clean=False, properties=b"\x11" + struct.pack(">I", 1))
    first.disconnect()
    clock = wire()
    clock.connect("clock", keep_alive=2)
    # The broker's own clock is what is waited for: it ends this silence after one and a half keep alives, 3 s.
    clock.receive_end()
    again = wire()
    assert again.connect("sleeper", clean=False) == (False, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_to_connect_takes_the_session_over(broker, wire, version):
    first, second = wire(version), wire(version)
    first.connect("same", **session(version))
    first.subscribe("kept", 1)
    assert second.connect("same", **session(version))[0] == (version != "mqttv31")
    first.receive_end()
    second.ping()


@pytest.mark.martlet("mosquitto 2.0 closes without a word")
def test_who_is_taken_over_is_told_so(broker, wire):
    first, second = wire(), wire()
    first.connect("same")
    second.connect("same")
    assert first.receive_end() == 0x8E

"""What each option of a bridge does, as the other end sees it."""

import signal

import pytest
from bridges.far_end import DISCONNECT, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, FarEnd, text
from bridges.links import is_connected
from harness.ports import reserve_port
from harness.waiting import wait_until


def test_connect_says_what_the_section_says(bridge_to, far):
    bridge_to(
        far.port,
        """topic # both 1
remote_clientid house
remote_username anna
remote_password secret
keepalive_interval 17
cleansession true
bridge_protocol_version mqttv50
bridge_session_expiry_interval 77
bridge_receive_maximum 9
bridge_max_topic_alias 3
notification_topic told
""",
    )
    connect = far.accept()
    assert (connect.protocol, connect.level) == (b"MQTT", 5)
    assert (connect.client_id, connect.user, connect.password) == (b"house", b"anna", b"secret")
    assert (connect.keep_alive, connect.is_clean, connect.will) == (17, True, (b"told", b"0"))
    properties = connect.properties
    assert b"\x11\x00\x00\x00\x4d" in properties and b"\x21\x00\x09" in properties and b"\x22\x00\x03" in properties
    flags, body = far.next(SUBSCRIBE)
    assert body.endswith(b"\x00\x01#\x0d")  # QoS 1, No Local, Retain As Published
    assert text(far.next(PUBLISH)[1], 0)[0] == b"told"


def test_connect_of_a_bare_section(bridge_to, far):
    bridge_to(far.port, "topic #\nclientid house\nusername anna\npassword secret")
    connect = far.accept()
    assert (connect.protocol, connect.level, connect.keep_alive, connect.is_clean) == (b"MQTT", 0x84, 60, False)
    assert (connect.client_id, connect.user, connect.password) == (b"house", b"anna", b"secret")
    assert connect.will == (b"$SYS/broker/connection/house/state", b"0")


@pytest.mark.parametrize("line, level", [("try_private false\nbridge_protocol_version mqttv311", 4), ("bridge_protocol_version mqttv31", 0x83)])
def test_bit_of_bridges(bridge_to, far, line, level):
    bridge_to(far.port, f"topic #\n{line}")
    assert far.accept().level == level


def test_broker_that_does_not_know_bridges_is_tried_without_the_bit(bridge_to, far):
    here = bridge_to(far.port, "topic # both 0")
    assert far.accept(answer=b"\x20\x02\x00\x01").level == 0x84
    assert far.accept().level == 4
    far.next(SUBSCRIBE)
    is_connected(here)


@pytest.mark.parametrize("line", ["notifications false", "notifications_local_only true"])
def test_other_broker_is_not_told(bridge_to, far, tools_for, line):
    here = bridge_to(far.port, f"topic a\n{line}")
    assert far.accept().will is None
    is_connected(here)
    tools_for(here.port).publish("a", "x")
    assert text(far.next(PUBLISH)[1], 0)[0] == b"a"
    if "local" in line:
        states = tools_for(here.port).subscribe("$SYS/broker/connection/+/state")
        assert states.take_one().payload == b"1"


@pytest.mark.parametrize("value, wanted", [("true", 1), ("false", 0)])
def test_retain_flag_of_what_goes_out(bridge_to, far, tools_for, value, wanted):
    here = bridge_to(far.port, f"topic a\nbridge_outgoing_retain {value}")
    far.accept()
    is_connected(here)
    tools_for(here.port).publish("a", "x", retain=True)
    topic, _, flags = far.message()
    assert (topic, flags & 1) == (b"a", wanted)


def test_packet_that_is_too_large_is_left_out(bridge_to, far, tools_for):
    here = bridge_to(far.port, "topic a out 1\nbridge_max_packet_size 60")
    far.accept()
    is_connected(here)
    for payload in ["x" * 100, "small"]:
        tools_for(here.port).publish("a", payload, qos=1)
    assert far.message()[1] == b"small"


@pytest.mark.parametrize("value", ["true", "false"])
def test_what_only_goes_out_is_unsubscribed_from(bridge_to, far, value):
    here = bridge_to(far.port, f"topic a out\ntopic b in\nbridge_attempt_unsubscribe {value}")
    far.accept(answer=b"\x20\x02\x01\x00")
    kinds = []
    while True:
        kind, _, body = far.read()
        kinds.append(kind)
        if kind == UNSUBSCRIBE:
            assert body.endswith(b"\x00\x01a")
        if kind == PUBLISH:
            break
    assert (UNSUBSCRIBE in kinds) == (value == "true")
    assert SUBSCRIBE in kinds
    assert here.process.poll() is None


def test_connection_comes_from_the_bound_address_and_is_watched(bridge_to, far):
    bridge_to(
        far.port, "topic a\nbridge_bind_address 127.0.0.9\nbridge_tcp_keepalive 31 7 3"
    )
    far.accept()
    assert far.peer[0] == "127.0.0.9"
    def timer() -> str:
        """Which of the kernel's timers runs for the bridge's socket: 02 is that of the probes."""
        for line in open("/proc/net/tcp").read().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == far.peer[1]:
                return fields[5][:2]
        return ""

    wait_until(lambda: timer() == "02", "probes are to be sent")


def test_connection_whose_bytes_nobody_takes_is_given_up(bridge_to, far, tools_for):
    here = bridge_to(far.port, "topic flood\nbridge_tcp_user_timeout 600\nkeepalive_interval 600")
    far.accept(buffer_bytes=65536)
    is_connected(here)
    tools_for(here.port).publish("flood", arguments=["-l"], standard_input=(b"x" * 100_000 + b"\n") * 80)
    here.wait_for_log("Bridge b: .*Connection timed out")


@pytest.mark.parametrize("value", ["true", "false"])
def test_messages_say_which_brokers_they_were_in(bridge_to, far, tools_for, value):
    here = bridge_to(far.port, f"topic a out 1\nbridge_protocol_version mqttv50\nnotifications false\nmartlet_bridge_path {value}")
    assert (b"martlet-broker" in far.accept().properties) == (value == "true")
    is_connected(here)
    tools_for(here.port).publish("a", "x", qos=1)
    assert (b"\x26\x00\x0emartlet-broker" in far.next(PUBLISH)[1]) == (value == "true")


def test_once_is_once(bridge_to, far):
    here = bridge_to(far.port, "topic a\nstart_type once")
    far.accept()
    is_connected(here)
    far.drop()
    here.wait_for_log(r"With start_type once it does not connect again")
    assert far.stays_away(2.5)


def test_lazy_bridge_waits_for_messages_and_goes_when_none_cross(bridge_to, far, tools_for):
    here = bridge_to(far.port, "topic a out 1\nstart_type lazy\nthreshold 3\nidle_timeout 1")
    here.wait_for_log("Sending SUBACK to local")
    for number in range(2):
        tools_for(here.port).publish("a", str(number), qos=number)
    assert far.stays_away(0.5)
    tools_for(here.port).publish("a", "2", qos=1)
    far.accept()
    assert [far.message()[1] for _ in range(3)] == [b"0", b"1", b"2"]
    far.next(DISCONNECT)


def test_addresses_are_tried_in_turn(bridge_to, far):
    second = FarEnd()
    absent = reserve_port()
    here = bridge_to(0, f"addresses 127.0.0.1:{absent} 127.0.0.1:{second.port}\ntopic a\nround_robin true", address=f"127.0.0.1:{far.port}")
    far.accept()
    is_connected(here)
    far.drop()
    second.accept()
    is_connected(here, count=2)
    second.close()


def test_first_address_is_gone_back_to(bridge_to, far, start_broker):
    first = FarEnd()
    first.close()
    here = bridge_to(0, "topic a\nround_robin false", address=f"127.0.0.1:{first.port} 127.0.0.1:{far.port}")
    far.accept()
    is_connected(here)
    home = start_broker(configuration=f"listener {first.port} 127.0.0.1\nallow_anonymous true")
    is_connected(here, count=2)
    home.wait_for_log(r"New client connected from .* as .*\.b ")


def test_client_in_this_broker(bridge_to, far, tools_for, tmp_path):
    (tmp_path / "rules").write_text("topic readwrite #\nuser bridge\ntopic read open/#\n")
    here = bridge_to(
        far.port, "topic # out 1\nlocal_clientid mine\nlocal_username bridge\nlocal_password p", configuration=f"acl_file {tmp_path}/rules"
    )
    far.accept()
    is_connected(here)
    here.wait_for_log(r"\bmine\b")
    for topic in ["shut/a", "open/a"]:
        tools_for(here.port).publish(topic, "x", qos=1)
    assert far.message()[0] == b"open/a"


@pytest.mark.parametrize("value, wanted", [("true", b"new"), ("false", b"old")])
def test_messages_of_the_meantime(bridge_to, far, tools_for, value, wanted):
    here = bridge_to(far.port, f"topic a out 1\nlocal_cleansession {value}")
    far.accept()
    is_connected(here)
    far.drop()
    here.wait_for_log("closed the connection|Connection reset")
    tools_for(here.port).publish("a", "old", qos=1)
    far.accept()
    is_connected(here, count=2)
    tools_for(here.port).publish("a", "new", qos=1)
    assert far.message()[1] == wanted


@pytest.mark.parametrize("kind", ["immediate", "lazy"])
def test_reload(bridge_to, far, tools_for, kind):
    here = bridge_to(far.port, f"topic a out 1\nbridge_reload_type {kind}")
    far.accept()
    is_connected(here)
    path = here.configuration_path
    path.write_text(path.read_text().replace("topic a out 1", "topic b out 1"))
    here.signal(signal.SIGHUP)
    here.wait_for_log("Config reloaded")
    if kind == "immediate":
        far.next(DISCONNECT)
    else:
        tools_for(here.port).publish("a", "x", qos=1)
        assert far.message()[0] == b"a"
        far.drop()
    far.accept()
    is_connected(here, count=2)
    for topic in "ab":
        tools_for(here.port).publish(topic, "x", qos=1)
    assert far.message()[0] == b"b"


def test_refused_login_is_told_once(bridge_to, far):
    here = bridge_to(far.port, "topic a")
    for _ in range(3):
        far.accept(answer=b"\x20\x02\x00\x05")
    assert here.log.count("Connection Refused: not authorised") == 1

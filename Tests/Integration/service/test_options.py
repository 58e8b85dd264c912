"""Options that no other test is about, each in force at a running broker. `.ci/options` prints which test is about which."""

import re
import subprocess
import signal

import pytest
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import wait_until
from harness.wire import CONNACK, CONNECT, PUBACK, PUBLISH, Packet, Wire, frame, text
from transports.test_websocket import WebSocket

NOT_AUTHORIZED, IDENTIFIER_INVALID, QUOTA_EXCEEDED = 0x87, 0x85, 0x97
SESSION_EXPIRY, ASSIGNED_IDENTIFIER, SERVER_KEEP_ALIVE, MAXIMUM_QOS, MAXIMUM_PACKET_SIZE = 0x11, 0x12, 0x13, 0x24, 0x27


def connack(port: int, *, client_id: str = "client", properties: bytes = b"") -> Packet:
    """What a client of version 5 is answered."""
    wire = Wire(port)
    wire.send(frame(CONNECT, 0, text("MQTT") + b"\x05\x02\x00\x3c" + bytes([len(properties)]) + properties + text(client_id)))
    answer = wire.receive(CONNACK)
    wire.close()
    return answer


def integer(answer: Packet, identifier: int, size: int) -> int | None:
    """A property of a CONNACK; each of these identifiers is found at once, the values before it are small."""
    found = re.search(re.escape(bytes([identifier])) + b"(" + b"." * size + b")", answer.body[3:], re.DOTALL)
    return int.from_bytes(found[1], "big") if found else None


# Listeners


@pytest.mark.broker("--threads", "1", configuration="accept_protocol_versions 4,5")
@pytest.mark.martlet("2.0 has no such option")
def test_versions_that_are_not_accepted_are_refused(broker, wire):
    assert wire("mqttv5").connect("five")[1] == 0
    assert wire("mqttv311").connect("four")[1] == 0
    assert wire("mqttv31").connect("three")[1] == 1


@pytest.mark.parametrize("option", ["auto_id_prefix", "listener_auto_id_prefix"])
@pytest.mark.martlet("2.0 has only auto_id_prefix")
def test_assigned_identifiers_have_the_prefix(start_broker, option):
    broker = start_broker(configuration=f"{option} mine-")
    assert re.search(bytes([ASSIGNED_IDENTIFIER]) + b"..mine-.", connack(broker.port, client_id="").body, re.DOTALL)


@pytest.mark.broker(configuration="use_username_as_clientid true")
def test_the_user_name_may_replace_the_client_identifier(broker, wire):
    wire().connect("anything", user="anna", password="x")
    broker.wait_for_log(r"New client connected from .* as anna \(")


@pytest.mark.broker(configuration="clientid_prefixes mine-")
def test_client_identifiers_may_have_to_begin_so(broker, wire):
    assert wire().connect("mine-1")[1] == 0
    assert wire().connect("other")[1] in (IDENTIFIER_INVALID, NOT_AUTHORIZED)


def test_a_mount_point_is_seen_from_outside_only(start_broker, wire_to):
    mounted = reserve_port()
    broker = start_broker(configuration=f"listener {mounted} 127.0.0.1\nmount_point inside/\nallow_anonymous true")
    inner, outer = wire_to(mounted), wire_to(broker.port)
    for wire in (inner, outer):
        wire.connect(f"client {wire is inner}")
        wire.subscribe("#")
    inner.publish("fence")
    assert inner.receive(PUBLISH).topic == "fence"
    assert outer.receive(PUBLISH).topic == "inside/fence"
    outer.publish("inside/answer")
    assert inner.receive(PUBLISH).topic == "answer"
    outer.publish("elsewhere")
    inner.publish("end")
    assert inner.receive(PUBLISH).topic == "end"


@pytest.mark.parametrize("option", ["max_qos", "maximum_qos"])
def test_the_largest_qos_is_told_and_kept(start_broker, wire_to, option):
    broker = start_broker(configuration=f"{option} 1")
    assert integer(connack(broker.port), MAXIMUM_QOS, 1) == 1
    wire = wire_to(broker.port)
    wire.connect("client")
    wire.publish("t", qos=2)
    assert wire.receive_end() == 0x9B


@pytest.mark.martlet("2.0 sets no aliases")
@pytest.mark.parametrize("most, second", [(10, ""), (0, "a/long/topic")])
def test_how_many_aliases_the_broker_sets(start_broker, wire_to, most, second):
    broker = start_broker(configuration=f"max_topic_alias_broker {most}")
    wire = wire_to(broker.port)
    wire.connect("client", properties=b"\x22\x00\x05")
    wire.subscribe("a/#")
    wire.publish("a/long/topic")
    wire.publish("a/long/topic")
    assert [wire.receive(PUBLISH).topic for _ in range(2)] == ["a/long/topic", second]


def test_the_default_listener_has_its_own_options(start_broker, wire_to):
    broker = start_broker(configuration="port {port}\nbind_address 127.0.0.1\nallow_anonymous true", listener=False)
    assert wire_to(broker.port).connect("client")[1] == 0
    broker.wait_for_log(f"Opening ipv4 listen socket on port {broker.port}")
    assert "ipv6" not in broker.log


@pytest.mark.parametrize("option", ["packet_buffer_size", "websockets_headers_size"])
@pytest.mark.martlet("2.0 has only websockets_headers_size")
def test_how_long_the_head_of_a_request_may_be(start_broker, option):
    lines = f"listener {{port}} 127.0.0.1\nprotocol websockets\nallow_anonymous true\n{option} 1024"
    broker = start_broker(configuration=lines, listener=False)
    assert b" 101 " in WebSocket(broker.port, fields=f"X: {'x' * 500}\r\n").head
    assert b" 431 " in WebSocket(broker.port, fields=f"X: {'x' * 1500}\r\n").head


# How the file is read


def test_listeners_may_have_security_of_their_own(start_broker, wire_to):
    closed = reserve_port()
    lines = f"per_listener_settings true\nlistener {{port}} 127.0.0.1\nallow_anonymous true\nlistener {closed} 127.0.0.1\nallow_anonymous false"
    broker = start_broker(configuration=lines, listener=False)
    assert wire_to(broker.port).connect("client")[1] == 0
    assert wire_to(closed).connect("client")[1] == NOT_AUTHORIZED


def test_a_directory_may_be_included(start_broker, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/limits.conf").write_text("max_packet_size 777\n")
    (tmp_path / "more/ignored.txt").write_text("nonsense\n")
    broker = start_broker(configuration="include_dir {directory}/more")
    assert integer(connack(broker.port), MAXIMUM_PACKET_SIZE, 4) == 777


@pytest.mark.martlet("has no such option")
@pytest.mark.parametrize("version, bytes_max", [("2.0", None), ("2.1", 2_000_000)])
def test_defaults_may_be_those_of_an_older_mosquitto(start_broker, version, bytes_max):
    broker = start_broker(configuration=f"martlet_compat {version}")
    assert integer(connack(broker.port), MAXIMUM_PACKET_SIZE, 4) == bytes_max


@pytest.mark.martlet("has no such option")
@pytest.mark.parametrize("line, longest", [("", 65535), ("max_keepalive 100", 100)])
@pytest.mark.parametrize("version, limited", [("2.0", False), ("2.1", True)])
def test_an_older_mosquitto_bounds_the_keep_alive_of_version_5_only(start_broker, wire_to, version, limited, line, longest):
    broker = start_broker(configuration=f"martlet_compat {version}\n{line}")
    for level in ("mqttv31", "mqttv311"):
        for seconds in (0, 200):
            refused = limited and line != ""
            assert wire_to(broker.port, level).connect(f"{level} {seconds}", keep_alive=seconds)[1] == (2 if refused else 0)
    wire = Wire(broker.port)
    wire.send(frame(CONNECT, 0, text("MQTT") + b"\x05\x02\x00\x00\x00" + text("client")))
    told = integer(wire.receive(CONNACK), SERVER_KEEP_ALIVE, 2)
    wire.close()
    assert told == (longest if line or not limited else None)


@pytest.mark.martlet("has no such option")
@pytest.mark.broker(
    configuration="martlet_expand_environment true\nmax_packet_size ${LARGEST}", environment={"LARGEST": "777"}
)
def test_the_environment_may_give_values(broker):
    assert integer(connack(broker.port), MAXIMUM_PACKET_SIZE, 4) == 777


@pytest.mark.martlet("has no such option")
@pytest.mark.parametrize(
    "lines, bytes_max",
    [
        ("martlet_profile internet", 262144),
        ("max_packet_size 777\nmartlet_profile internet", 777),
        ("martlet_profile internet\nmax_packet_size 777", 777),
    ],
)
def test_a_profile_sets_what_no_line_sets(start_broker, lines, bytes_max):
    broker = start_broker(configuration=lines)
    assert integer(connack(broker.port), MAXIMUM_PACKET_SIZE, 4) == bytes_max


# Plug-ins of mosquitto that are built in


@pytest.mark.martlet("2.0 has no such plug-ins")
@pytest.mark.parametrize(
    "lines",
    [
        "plugin /usr/lib/mosquitto_password_file.so\nplugin_opt_password_file {directory}/users",
        "global_plugin mosquitto_password_file.so\nplugin_opt_password_file {directory}/users",
        "auth_plugin mosquitto_password_file.so\nauth_opt_password_file {directory}/users",
        "plugin_load users mosquitto_password_file.so\nplugin_opt_password_file {directory}/users\n"
        "listener {port} 127.0.0.1\nplugin_use users",
    ],
    ids=["plugin", "global_plugin", "auth_plugin", "plugin_load"],
)
def test_a_plug_in_may_name_the_users(program, start_broker, wire_to, tmp_path, lines):
    assert run(program, "passwd", "-c", "-b", "-H", "sha512", str(tmp_path / "users"), "anna", "secret").returncode == 0
    listener = "" if "listener" in lines else "listener {port} 127.0.0.1\n"
    broker = start_broker(configuration=f"allow_anonymous false\n{listener}{lines}", listener=False)
    assert wire_to(broker.port).connect("client", user="anna", password="secret")[1] == 0
    assert wire_to(broker.port).connect("client", user="anna", password="wrong")[1] == NOT_AUTHORIZED


@pytest.mark.martlet("does what these ask for")
@pytest.mark.parametrize(
    "line, named",
    [
        ("plugin mosquitto_sparkplug_aware.so", "sparkplug"),
    ],
)
def test_what_cannot_be_had_yet_is_refused_by_name(program, tmp_path, line, named):
    (tmp_path / "asks.conf").write_text(f"{line}\n")
    done = run(program, "-c", str(tmp_path / "asks.conf"), "--test-config")
    assert done.returncode != 0
    assert re.search(rf"Error: .*{named}.* (is|are) not available in this version", done.stdout), done.stdout
    assert "has no effect" not in done.stdout
    started = run(program, "-c", str(tmp_path / "asks.conf"))
    assert started.returncode != 0 and done.stdout == started.stdout


# What outlives the broker


@pytest.mark.martlet("has only its own durability")
@pytest.mark.parametrize("line", ["persistence true", "retained_persistence true"])
@pytest.mark.parametrize("durability", ["commit", "interval 1"])
def test_what_was_acknowledged_outlives_the_broker(start_broker, wire_to, tmp_path, line, durability):
    (tmp_path / "store").mkdir()
    lines = f"{line}\npersistence_location {{directory}}/store\nmartlet_durability {durability}"
    broker = start_broker(configuration=lines)
    client = wire_to(broker.port)
    client.connect("client")
    client.publish("kept", "here", qos=1, retain=True)
    client.receive(PUBACK)
    # With an interval only an orderly end is sure to save everything.
    broker.kill() if durability == "commit" else broker.stop()
    broker.restart()
    assert list((tmp_path / "store").iterdir())
    later = wire_to(broker.port)
    later.connect("later")
    later.subscribe("kept")
    assert later.receive(PUBLISH).body.endswith(b"here")


@pytest.mark.martlet("has only its own durability")
def test_a_signal_saves_what_has_gathered(start_broker, wire_to, tmp_path):
    (tmp_path / "store").mkdir()
    lines = "persistence true\npersistence_location {directory}/store\nmartlet_durability interval 3600"
    broker = start_broker(configuration=lines)
    client = wire_to(broker.port)
    client.connect("client")
    client.publish("kept", "here", qos=1, retain=True)
    client.receive(PUBACK)
    broker.signal(signal.SIGUSR1)
    broker.wait_for_log("SIGUSR1: saving")

    def is_saved() -> bool:
        dump = run(broker.program, "store", "dump", str(tmp_path / "store"))
        return '"topic":"kept"' in dump.stdout.replace(" ", "")

    wait_until(is_saved, "the store has it")
    broker.kill()


# Limits


@pytest.mark.martlet("has no such option")
@pytest.mark.broker(configuration="martlet_max_session_expiry_interval 10")
def test_sessions_may_have_to_end_sooner(broker):
    answer = connack(broker.port, properties=bytes([SESSION_EXPIRY]) + (3600).to_bytes(4, "big"))
    assert integer(answer, SESSION_EXPIRY, 4) == 10


@pytest.mark.martlet("has it from 2.1 on")
@pytest.mark.broker("--threads", "4", configuration="global_max_clients 6")
def test_no_more_than_so_many_sessions(broker, wire):
    clients = [wire() for _ in range(6)]
    assert all(client.connect(f"client {number}")[1] == 0 for number, client in enumerate(clients))
    assert all(wire().connect(f"late {number}")[1] != 0 for number in range(6))
    assert wire().connect("client 3")[1] == 0


@pytest.mark.martlet("counts its whole heap")
@pytest.mark.broker("--threads", "1", configuration="memory_limit 100000\nsys_interval 0")
def test_no_more_than_so_many_bytes_are_kept(broker, wire):
    client = wire()
    client.connect("client")

    def publish(topic: str, payload: str) -> int:
        client.publish(topic, payload, qos=1, retain=True)
        body = client.receive(PUBACK).body
        return body[2] if len(body) > 2 else 0

    kept = 0
    while publish(f"a/{kept}", "x" * 8000) != QUOTA_EXCEEDED:
        kept += 1
    assert 8 < kept < 14
    assert wire().connect("another")[1] == QUOTA_EXCEEDED
    assert client.subscribe("b") == QUOTA_EXCEEDED
    for number in range(kept):
        assert publish(f"a/{number}", "") != QUOTA_EXCEEDED
    assert publish("b", "more") != QUOTA_EXCEEDED
    assert client.subscribe("c") == 0


@pytest.mark.broker(configuration="max_inflight_bytes 100\nmax_inflight_messages 20")
def test_no_more_than_so_many_bytes_are_in_flight(broker, wire):
    slow, publisher = wire(), wire()
    slow.connect("slow")
    slow.subscribe("work", qos=1)
    publisher.connect("publisher")
    for number in range(3):
        publisher.publish("work", "x" * 60, qos=1, identifier=number + 1)
        publisher.receive(PUBACK)
    first, second = slow.receive(PUBLISH), slow.receive(PUBLISH)
    slow.ping()  # nothing comes before the answer
    slow.acknowledge(PUBACK, first.identifier)
    assert slow.receive(PUBLISH).identifier not in (first.identifier, second.identifier)


@pytest.mark.martlet("drops the newest")
@pytest.mark.parametrize(
    "policy, kept, refused",
    [("newest", ["1", "2"], False), ("oldest", ["3", "4"], False), ("refuse", ["1", "2"], True)],
)
def test_what_gives_way_when_a_queue_is_full(start_broker, wire_to, policy, kept, refused):
    broker = start_broker(configuration=f"martlet_queue_drop {policy}\nmax_queued_messages 2")
    sleeper, publisher = wire_to(broker.port), wire_to(broker.port)
    sleeper.connect("sleeper", clean=False, properties=bytes([SESSION_EXPIRY]) + (3600).to_bytes(4, "big"))
    sleeper.subscribe("kept", qos=1)
    sleeper.disconnect()
    broker.wait_for_log("Client sleeper .*disconnected")
    publisher.connect("publisher")
    answers = []
    for number in range(1, 5):
        publisher.publish("kept", str(number), qos=1, identifier=number)
        answers.append(publisher.receive(PUBACK).body[2:3])
    assert (bytes([QUOTA_EXCEEDED]) in answers) is refused
    again = wire_to(broker.port)
    again.connect("sleeper", clean=False)
    assert [again.receive(PUBLISH).body[-1:].decode() for _ in kept] == kept
    again.ping()


@pytest.mark.martlet("drops the newest")
def test_what_is_answered_with_success_is_lost_on_no_thread(start_broker, wire_to):
    broker = start_broker("--threads", "4", configuration="martlet_queue_drop refuse\nmax_queued_messages 5")
    week = bytes([SESSION_EXPIRY]) + (604_800).to_bytes(4, "big")
    for number in range(8):
        sleeper = wire_to(broker.port)
        sleeper.connect(f"sleeper {number}", clean=False, properties=week)
        sleeper.subscribe("kept", qos=1)
        sleeper.disconnect()
        broker.wait_for_log(f"Client sleeper {number} .*disconnected")
    publishers = [wire_to(broker.port) for _ in range(8)]
    for number, publisher in enumerate(publishers):
        publisher.connect(f"publisher {number}")
    taken = 0
    for number in range(80):
        publishers[number % 8].publish("kept", str(number), qos=1, identifier=number + 1)
        taken += publishers[number % 8].receive(PUBACK).body[2:3] != bytes([QUOTA_EXCEEDED])
    assert 5 <= taken < 80
    for number in range(8):
        again = wire_to(broker.port)
        again.connect(f"sleeper {number}", clean=False)
        for _ in range(taken):
            again.receive(PUBLISH)
        again.ping()


@pytest.mark.broker(configuration="upgrade_outgoing_qos true")
def test_messages_may_come_with_the_qos_of_the_subscription(broker, wire):
    client = wire()
    client.connect("client")
    client.subscribe("t", qos=2)
    client.publish("t", "low", qos=0)
    assert client.receive(PUBLISH).qos == 2


@pytest.mark.martlet("mosquitto stops at the first error")
@pytest.mark.parametrize("arguments", [[], ["--test-config"]])
def test_wrong_lines_and_wrong_files_are_told_at_once(program, tmp_path, arguments):
    (tmp_path / "users").write_text("anna:plain\n")
    file = tmp_path / "wrong.conf"
    file.write_text("listner 1883\npassword_file users\nacl_file /nowhere/acl\nmax_qos 7\n")
    done = subprocess.run([program.path, *arguments, "-c", file], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 3
    for part in ["wrong.conf:1: ", "wrong.conf:4: max_qos: ", f"Error: {tmp_path}/users:1: ", "wrong.conf:3: acl_file: /nowhere/acl does not exist, for there is no directory /nowhere."]:
        assert part in done.stderr, done.stderr


def test_memory_limit_is_one_bound_for_all_loops(start_broker, wire_to):
    broker = start_broker("--threads", "2", configuration="memory_limit 3000000")
    absent, publisher = wire_to(broker.port), wire_to(broker.port)
    absent.connect("absent", properties=b"\x11\xff\xff\xff\xff")
    absent.subscribe("queue", 1)
    absent.close()
    publisher.connect("publisher")
    taken, answer = 0, b""
    while len(answer) < 3 and taken < 1000:
        publisher.publish("queue", "x" * 10_000, qos=1)
        answer = publisher.receive(PUBACK).body
        taken += 1
    # The queue is on one loop, of which half would be 150.
    assert 250 <= taken <= 310
    assert answer[2] == QUOTA_EXCEEDED and b"the broker's memory for clients is full" in answer

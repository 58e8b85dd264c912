"""What the log says: scripts and fail2ban rules match mosquitto's wording."""

import json
import os
import re
import signal
import socket
import struct
from pathlib import Path

import pytest
from harness.mosquitto import VERSIONS
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import PATIENCE, wait_until
from harness.wire import CONNECT, PUBACK, PUBLISH, UNSUBACK, UNSUBSCRIBE, Will, frame, text
from transports.test_websocket import WebSocket


def test_the_start_is_told_line_by_line(broker):
    broker.wait_for_log(rf"^\d+: Opening ipv4 listen socket on port {broker.port}\.$")
    broker.wait_for_log(r"^\d+: (?i:martlet|mosquitto) version \S+ running( on .*)?$")
    assert all(re.match(r"\d+: ", line) for line in broker.log.splitlines() if line), broker.log


def test_a_connection_is_told_from_its_beginning_to_its_end(broker, wire):
    client = wire()
    client.connect("told", keep_alive=30)
    broker.wait_for_log(rf"^\d+: New connection from 127\.0\.0\.1:\d+ on port {broker.port}\.$")
    broker.wait_for_log(r"^\d+: New client connected from 127\.0\.0\.1:\d+ as told \(p5, c1, k30\)\.$")
    client.disconnect()
    broker.wait_for_log(r"^\d+: Client told (\[127\.0\.0\.1:\d+\] )?disconnected\.$")


@pytest.mark.parametrize("version, level", [("mqttv31", 1), ("mqttv311", 2), ("mqttv5", 5)])
def test_the_protocol_is_told_as_mosquitto_numbers_it(broker, wire, version, level):
    wire(version).connect("told")
    broker.wait_for_log(rf"as told \(p({level}|{level + 2}), c1, k60\)")


def test_every_packet_is_told_with_v(broker, wire, tools):
    subscriber = wire()
    subscriber.connect("told", will=Will("wills", "gone"))
    subscriber.subscribe("packets/#")
    tools.publish("packets/one", "hello", arguments=["-i", "publisher"])
    for pattern in [
        r"Sending CONNACK to told \(0, 0\)",
        r"Received SUBSCRIBE from told",
        r"\tpackets/# \(QoS 0\)",
        r"told 0 packets/#",
        r"Sending SUBACK to told",
        r"Received PUBLISH from publisher \(d0, q0, r0, m0, 'packets/one', \.\.\. \(5 bytes\)\)",
        r"Sending PUBLISH to told \(d0, q0, r0, m0, 'packets/one', \.\.\. \(5 bytes\)\)",
        r"Received DISCONNECT from publisher",
    ]:
        broker.wait_for_log(r"^\d+: " + pattern + "$")


def test_a_will_is_told_with_v(broker, wire):
    wire().connect("with", will=Will("wills/with", "gone", qos=1, retain=True))
    wire().connect("without")
    # Its length counts the properties in mosquitto 2.0.
    broker.wait_for_log(r"^\d+: New client connected from .* as with .*\n\d+: Will message specified \(\d bytes\) \(r1, q1\)\.\n\d+: \twills/with$")
    broker.wait_for_log(r"^\d+: New client connected from .* as without .*\n\d+: No will message specified\.$")


def test_a_message_that_is_not_taken_is_told_with_v(start_broker, wire_to, tmp_path):
    (tmp_path / "rules").write_text("topic write open/#\ntopic read #\n")
    broker = start_broker(configuration="acl_file {directory}/rules\nmessage_size_limit 10\nmax_qos 1")
    for version in VERSIONS:
        client = wire_to(broker.port, version)
        client.connect(version)
        client.publish("closed", "hello", qos=1)
        client.receive(PUBACK)
        client.publish("open/a", "longer than ten", qos=1, identifier=2)
        client.receive(PUBACK)
        client.publish("open/a", "two", qos=2, identifier=3)
        client.receive_end()
        for pattern in [
            rf"Denied PUBLISH from {version} \(d0, q1, r0, m1, 'closed', \.\.\. \(5 bytes\)\)",
            rf"Dropped too large PUBLISH from {version} \(d0, q1, r0, m2, 'open/a', \.\.\. \(15 bytes\)\)",
            rf"Too high QoS in PUBLISH from {version}, disconnecting\.",
        ]:
            broker.wait_for_log(rf"^\d+: {pattern}$")
    assert "Received PUBLISH" not in broker.log


@pytest.mark.broker(configuration="mount_point m/\nmax_qos 1")
def test_what_a_client_subscribes_to_is_told_as_it_is_kept(broker, wire):
    client = wire()
    client.connect("told")
    client.subscribe("a/#", qos=2)
    client.publish("a/b", "hello")
    broker.wait_for_log(r"^\d+: \tm/a/# \(QoS 1\)$")
    broker.wait_for_log(r"^\d+: Received PUBLISH from told \(d0, q0, r0, m0, 'm/a/b', ")


@pytest.mark.broker(configuration="allow_zero_length_clientid false")
def test_a_client_without_a_name_is_called_by_its_address(broker, wire):
    assert wire().connect("")[1] != 0
    broker.wait_for_log(r"^\d+: Client (<unknown>|127\.0\.0\.1) (\[127\.0\.0\.1:\d+\] )?disconnected")


@pytest.mark.martlet("counts all together")
@pytest.mark.broker(configuration="max_queued_messages 2")
def test_what_a_client_has_lost_is_told_when_it_goes_and_on_demand(broker, wire):
    sleeper, publisher = wire(), wire()
    sleeper.connect("sleeper", clean=False, properties=b"\x11\xff\xff\xff\xff")
    sleeper.subscribe("t", qos=1)
    sleeper.disconnect()
    broker.wait_for_log("Client sleeper .*disconnected")
    publisher.connect("publisher")
    for number in range(5):
        publisher.publish("t", "hello", qos=1, identifier=number + 1)
        publisher.receive(PUBACK)
    broker.wait_for_log(r"^\d+: Outgoing messages are being dropped for client sleeper\.$")
    broker.signal(signal.SIGUSR2)
    broker.wait_for_log(r"^\d+: Client sleeper: 3 messages dropped \(3 queue full\)\.$")
    back = wire()
    back.connect("sleeper", clean=False)
    back.disconnect()
    broker.wait_for_log(r"(?s)3 messages dropped .*\d+: Client sleeper: 3 messages dropped \(3 queue full\)\.$")


def test_a_vanished_client_is_told(broker, wire):
    client = wire()
    client.connect("vanished")
    client.close()
    broker.wait_for_log(r"^\d+: Client vanished (\[127\.0\.0\.1:\d+\] disconnected: connection closed by client|closed its connection)\.$")


def test_a_takeover_is_told(broker, wire):
    wire().connect("same")
    wire().connect("same")
    broker.wait_for_log(r"^\d+: Client same (\[127\.0\.0\.1:\d+\] disconnected: session taken over|already connected, closing old connection)\.$")


def test_a_protocol_error_is_told(broker, wire):
    client = wire()
    client.connect("wrong")
    client.send(frame(CONNECT, 0, text("MQTT") + b"\x05\x02" + struct.pack(">H", 60) + b"\x00" + text("wrong")))
    client.receive_end()
    broker.wait_for_log(r"^\d+: Client wrong (\[127\.0\.0\.1:\d+\] disconnected:|disconnected due to) protocol error\.$")


@pytest.mark.broker(configuration="log_timestamp false")
def test_the_time_may_be_left_out(broker):
    broker.wait_for_log(rf"^Opening ipv4 listen socket on port {broker.port}\.$")


@pytest.mark.broker(configuration="log_timestamp_format %Y-%m-%dT%H:%M:%S")
def test_the_time_may_have_a_format(broker):
    broker.wait_for_log(rf"^\d\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\d: Opening ipv4 listen socket on port {broker.port}\.$")


def test_a_file_may_be_the_destination(start_broker, tmp_path):
    path = tmp_path / "chosen.log"
    broker = start_broker(configuration=f"log_dest file {path}")
    assert f"Opening ipv4 listen socket on port {broker.port}." in path.read_text()


def test_a_file_that_cannot_be_opened_is_named_at_the_start(program, tmp_path):
    (tmp_path / "wrong.conf").write_text("log_dest file /nowhere/broker.log\nuser root\n")
    done = run(program, "-c", str(tmp_path / "wrong.conf"))
    assert done.returncode != 0
    assert "/nowhere/broker.log" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGRTMIN])
@pytest.mark.martlet("mosquitto 2.0 knows no SIGRTMIN")
def test_a_file_that_was_moved_away_is_made_anew(start_broker, wire_to, tmp_path, number):
    path = tmp_path / "chosen.log"
    broker = start_broker(configuration=f"log_dest file {path}")
    path.rename(tmp_path / "old.log")
    broker.signal(number)
    wait_until(path.exists, "the file is made anew")
    wire_to(broker.port).connect("afterwards")
    wait_until(lambda: " as afterwards " in path.read_text(), "the log goes on there")
    assert "afterwards" not in (tmp_path / "old.log").read_text()


@pytest.fixture
def machine_log():
    """What a syslog daemon hears, where this machine has none: the socket is at the place that is fixed for it."""
    path = Path("/dev/log")
    if path.exists():
        pytest.skip("a syslog daemon has /dev/log")
    if not os.access(path.parent, os.W_OK):
        pytest.skip("only root may make /dev/log")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(path))
        path.chmod(0o666)
        log.settimeout(PATIENCE)
        yield log
        path.unlink()


def test_the_machines_log_may_be_the_destination(start_broker, wire_to, machine_log):
    # One test for both: there is but one such socket on a machine.
    for lines, facility in [("", 3), ("log_facility 5", 16 + 5)]:
        broker = start_broker(configuration=f"log_dest syslog\n{lines}")
        wire_to(broker.port).connect(f"told {facility}")
        # A notice is 5; the line's own time is the machine log's business.
        line = rf"<{facility * 8 + 5}>.*(martlet|mosquitto).*: New client connected from 127\.0\.0\.1:\d+ as told {facility} "
        while not re.match(line, machine_log.recv(65536).decode()):
            pass


@pytest.mark.parametrize(
    "kind, line",
    [
        ("error", "Client told "),
        ("warning", "Warning: "),
        ("notice", "New client connected from "),
        ("information", "Opening ipv4 listen socket on port "),
        ("debug", "Sending CONNACK to told (0, 0)"),
        ("subscribe", "told 0 any"),
        ("unsubscribe", "told any"),
    ],
)
def test_lines_of_one_kind_may_be_chosen(start_broker, wire_to, program, kind, line):
    broker = start_broker(configuration=f"log_type {kind}\nlog_timestamp false", verbose=False)
    for _ in range(2):
        client = wire_to(broker.port)
        client.connect("told")
        client.subscribe("any")
        client.send(frame(UNSUBSCRIBE, 2, b"\0\2\0" + text("any")))
        client.receive(UNSUBACK)
    if kind == "warning" and os.geteuid() != 0:
        pytest.skip("only root is warned")
    broker.wait_for_log("^" + re.escape(line))
    others = {"error": ": session taken over.", "notice": "New client", "information": "Opening", "debug": "Sending", "subscribe": "told 0 any"}
    for other, words in others.items():
        assert other == kind or words not in broker.log, broker.log


@pytest.mark.martlet("libwebsockets has lines of its own")
def test_websockets_have_lines_of_their_own(start_broker, wire_to):
    port = reserve_port()
    lines = f"log_type websockets\nlog_dest topic\nlog_dest stderr\nlistener {port} 127.0.0.1\nprotocol websockets\nallow_anonymous true"
    broker = start_broker(configuration=lines, verbose=False)
    watcher = wire_to(broker.port)
    watcher.connect("watcher")
    watcher.subscribe("$SYS/broker/log/WS")
    # Told with the client's first bytes.
    browser = WebSocket(port)
    browser.send(frame(CONNECT, 0, text("MQTT") + b"\x05\x02\x00\x3c\x00" + text("browser")))
    broker.wait_for_log(r"^\d+: Connection from 127\.0\.0\.1:\d+ upgraded to WebSocket$")
    assert b"upgraded to WebSocket" in watcher.receive(PUBLISH).body
    assert "New connection" not in broker.log


@pytest.mark.martlet
@pytest.mark.broker(configuration="martlet_log_format json")
def test_lines_may_be_json(broker, wire):
    wire().connect('a "quoted" name')
    broker.wait_for_log("as a .*quoted")
    broker.wait_for_log("Sending CONNACK")
    lines = [json.loads(line) for line in broker.log.splitlines()]
    assert {"time", "level", "message"} == lines[0].keys()
    assert {line["level"] for line in lines} >= {"notice", "information", "debug"}
    assert any('as a "quoted" name' in line["message"] for line in lines)


@pytest.mark.broker(configuration="log_dest topic\nlog_dest stderr")
def test_lines_may_be_messages(broker, tools, wire):
    subscriber = tools.subscribe("$SYS/broker/log/#", qos=1, arguments=["-i", "watcher"])
    wire().connect("seen")
    messages = {}
    while not any(" as seen " in text for text in messages.get("$SYS/broker/log/N", [])):
        message = subscriber.take_one()
        messages.setdefault(message.topic, []).append(message.payload.decode())
    tools.subscribe("any").terminate()
    while not (message := subscriber.take_one()).topic.endswith("/M/subscribe"):
        pass
    assert re.match(r"\d+: \S+ 0 any", message.payload.decode())


@pytest.mark.broker(configuration="connection_messages false")
def test_connections_may_go_unmentioned(broker, wire):
    client = wire()
    client.connect("silent")
    client.disconnect()
    broker.wait_for_log("Received DISCONNECT from silent")
    assert "New client connected" not in broker.log and "Client silent disconnected" not in broker.log


@pytest.mark.martlet
def test_what_is_subscribed_to_is_told_on_demand(broker, wire):
    client = wire()
    client.connect("told")
    client.subscribe("a/+/#", qos=1)
    client.subscribe("$share/group/b", qos=0)
    broker.signal(signal.SIGUSR2)
    broker.wait_for_log(r"Subscription: a/\+/# \(told, 1\)$")
    broker.wait_for_log(r"Subscription: \$share/group/b \(told, 0\)$")


def test_a_signal_to_save_is_harmless(broker, wire):
    broker.signal(signal.SIGUSR1)
    wire().connect("alive")


@pytest.mark.martlet
def test_quiet_says_nothing(start_broker, wire_to):
    broker = start_broker("-q", verbose=False)
    wire_to(broker.port).connect("silent")
    assert broker.log == ""


@pytest.mark.martlet("mosquitto 2.0 writes what it is told")
def test_a_client_identifier_does_not_make_lines_of_its_own(broker, wire):
    wire().connect("x\n1700000000: forged\x1b[2J" + "y" * 1000)
    broker.wait_for_log(r"New client connected from .* as x\\u000a1700000000: forged\\u001b\[2Jy+\.\.\. ")
    assert "\n1700000000: forged" not in broker.log and "y" * 257 not in broker.log

"""Attacks by way of bridges, and on what they tell: a well-behaved pair of clients beside each."""

import socket
from collections.abc import Iterator

import pytest
from harness.commands import run
from harness.terminal import Terminal
from harness.waiting import wait_until
from harness.wire import PUBACK, PUBLISH, SUBACK, Packet, Wire

from abuse.crew import resident_bytes
from abuse.siege import LONGEST_MAX

pytestmark = [pytest.mark.martlet("mosquitto lets these through"), pytest.mark.timeout(240)]

#: What the other broker keeps for itself.
RESERVED = ["$CONTROL/dynamic-security/v1", "$SYS/broker/version", "$share/g/x"]
NOT_AUTHORIZED = 0x87
#: Bytes that the broker may hold more after a flood of thousands of messages that must not stay: some of its tables have grown.
GROWTH_MAX = 16 << 20


def as_bridge(port: int, client_id: str) -> Wire:
    """A bridge of 3.1.1, by the bit of its protocol level."""
    wire = Wire(port, "mqttv311")
    wire.level |= 0x80
    assert wire.connect(client_id)[1] == 0
    return wire


def received(wire: Wire, seconds: float) -> Iterator[Packet]:
    """What comes until nothing has come for so long."""
    while True:
        try:
            packet = wire.receive(seconds=seconds)
        except TimeoutError:
            return
        if packet is None:
            return
        yield packet


def is_canary_well(siege):
    assert siege.measure().longest <= LONGEST_MAX
    siege.serve()


@pytest.mark.parametrize("version", ["mqttv311", "mqttv50"])
def test_bridge_prefix_escape(besiege, start_broker, version):
    far = start_broker()
    section = f"connection b\naddress 127.0.0.1:{far.port}\nrestart_timeout 1\nbridge_protocol_version {version}\nnotifications false\n"
    siege = besiege(f'{section}topic # out 1 out/ ""\ntopic # in 1 "" in/\n')
    near = siege.broker
    wait_until(lambda: "Bridge b is connected." in near.log, "the bridge is connected")
    watchers = [Wire(far.port), Wire(near.port)]
    for number, watcher in enumerate(watchers):
        watcher.connect(f"watcher {number}")
        for number, filter in enumerate(("end", "$CONTROL/#", "$SYS/broker/version"), 1):
            watcher.send_subscribe(filter, identifier=number)
        # What is retained comes behind the last SUBACK.
        assert all(packet.kind in (SUBACK, PUBLISH) for packet in received(watcher, 0.5))
    for wire, prefix in ((Wire(near.port), "out/"), (Wire(far.port), "in/")):
        wire.connect("attacker")
        for number, topic in enumerate(RESERVED, 1):
            wire.publish(prefix + topic, "escaped", qos=1, identifier=number)
        wire.publish(f"{prefix}end", "end", qos=1, identifier=9)
    for watcher in watchers:
        packets = []
        while not packets or packets[-1].topic != "end":
            packets.append(watcher.receive(PUBLISH))
        escaped = [packet.topic for packet in packets if packet.body.endswith(b"escaped")]
        assert not [topic for topic in escaped if topic.startswith("$")], escaped
    wait_until(lambda: near.log.count("would begin with $") == 2, "each direction is told of once")
    is_canary_well(siege)


def test_bridge_state_forging(besiege, start_broker):
    far = start_broker()
    siege = besiege(f"connection own\naddress 127.0.0.1:{far.port}\nremote_clientid own\ntopic t out\nrestart_timeout 1\n")
    port = siege.broker.port
    state = "$SYS/broker/connection/{}/state".format
    bridge = as_bridge(port, "house")
    bridge.publish(state("house"), "1", qos=1, retain=True)
    assert bridge.receive(PUBACK)
    before = resident_bytes(siege.broker.process.pid)
    stranger = Wire(port)
    stranger.connect("stranger")
    for name in ("house", "own", "made-up"):
        stranger.publish(state(name), "forged", qos=1, retain=True)
        assert stranger.receive(PUBACK).body[2] == NOT_AUTHORIZED
    # A bridge by its bit, which anybody can set: it overwrites none of the broker's own, and finds a bound.
    bridge.publish(state("own"), "forged", qos=1, identifier=2, retain=True)
    assert bridge.receive(PUBACK)
    for number in range(20_000):
        bridge.publish(state(f"made-up-{number}"), "forged", retain=True)
    bridge.publish("end", qos=1, identifier=3)
    assert bridge.receive(PUBACK)
    reader = Wire(port)
    reader.connect("reader")
    reader.send_subscribe(state("+"))
    found = {packet.topic: packet.body[-6:] for packet in received(reader, 1) if packet.kind == PUBLISH}
    assert not found[state("own")].endswith(b"forged") and not found[state("house")].endswith(b"forged")
    assert len(found) <= 1002
    assert resident_bytes(siege.broker.process.pid) - before < GROWTH_MAX
    is_canary_well(siege)


#: A title, a cursor that goes up and clears, C1, bidi, and bytes that are no UTF-8.
ESCAPES = b"\x1b]0;title\x07\x1b[1A\x1b[2K\r\xc2\x9b2J\xe2\x80\xaeevil\xe2\x81\xa6\x9b31m\x7f"


def is_harmless(output: bytes) -> bool:
    text = output.decode().replace("\r\n", "\n")
    return not [c for c in text if ord(c) < 32 and c not in "\t\n" or 127 <= ord(c) < 160 or "\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069"]


@pytest.mark.parametrize("options", [["-v"], [], ["--json"], ["-F", "%t %p %C %P"], ["-F", "%j"], ["-F", "%J"], ["-d"]], ids=" ".join)
def test_terminal_sub(besiege, program, options):
    siege = besiege()
    topic = "t/" + ESCAPES[:-7].decode(errors="ignore")
    command = [program.path, "sub", "-h", "127.0.0.1", "-p", siege.broker.port, "-t", "t/#", "-C", "2", *options]
    publisher = Wire(siege.broker.port)
    publisher.connect("attacker")
    user = b"\x26\x00\x01n" + len(ESCAPES[:21]).to_bytes(2, "big") + ESCAPES[:21]
    publisher.publish(topic, ESCAPES.decode(errors="ignore"), retain=True, properties=user)
    publisher.publish("t/zz", "last", retain=True)
    publisher.ping()
    terminal = Terminal(*command)
    try:
        # Not all that comes is JSON.
        terminal.wait()
        shown = terminal.output
    finally:
        terminal.close()
    assert shown and is_harmless(shown), shown
    if options == ["-v"]:
        # Into a pipe bytes stay bytes.
        assert topic.encode() + b" \x1b]0;title" in run(*command).output
    is_canary_well(siege)


@pytest.mark.parametrize("command", ["pub", "request", "respond"])
def test_terminal_reasons(besiege, program, command):
    """What a broker says of itself is others' text, too: here it is one that the test plays."""
    siege = besiege()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        words = [program.path, command, "-h", "127.0.0.1", "-p", port, "-t", "t", "-V", "5", "-m", "x"]
        terminal = Terminal(*words)
        try:
            connection, _ = listener.accept()
            connection.settimeout(10)
            connection.recv(65536)
            reason = b"\x1f" + len(b"\x1b]0;title\x07\x1b[2J").to_bytes(2, "big") + b"\x1b]0;title\x07\x1b[2J"
            connection.sendall(bytes([0x20, 3 + len(reason), 0, 0x87, len(reason)]) + reason)
            terminal.wait()
            shown = terminal.output
            connection.close()
        finally:
            terminal.close()
    assert b"title" in shown and is_harmless(shown), shown
    is_canary_well(siege)


def test_terminal_store_dump(start_broker, program, tmp_path):
    broker = start_broker(configuration=f"persistence true\npersistence_location {tmp_path}/")
    publisher = Wire(broker.port)
    publisher.connect("attacker")
    publisher.publish("t/" + ESCAPES.decode(errors="ignore"), ESCAPES.decode(errors="ignore"), qos=1, retain=True)
    assert publisher.receive(PUBACK)
    broker.stop()
    terminal = Terminal(program.path, "store", "dump", str(tmp_path))
    try:
        terminal.wait()
        shown = terminal.output
    finally:
        terminal.close()
    assert b"]0;title" in shown and is_harmless(shown), shown

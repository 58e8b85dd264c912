"""What clients can make the broker's process hold."""

import re
import threading
from pathlib import Path

import pytest
from harness.wire import CONNACK, CONNECT, frame, text, variable_length

QUOTA_EXCEEDED, PACKET_TOO_LARGE = 0x97, 0x95


def resident_bytes(broker) -> int:
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024


@pytest.mark.martlet("takes up to 100,000 bytes")
@pytest.mark.broker(configuration="martlet_max_connect_size 1000")
def test_a_connect_is_bounded(broker, wire):
    assert wire().connect("short", user="u", password="x" * 900) == (False, 0)
    assert wire().connect("long", user="u", password="x" * 1000)[1] == PACKET_TOO_LARGE
    announced = wire()
    announced.send(bytes([CONNECT << 4]) + variable_length(80_000))
    assert announced.receive() is None


@pytest.mark.martlet("counts nothing before the login")
@pytest.mark.broker("--threads", "2", configuration="martlet_max_connecting_bytes 4000000")
def test_connections_that_do_not_log_in_hold_a_bounded_sum(broker, wire):
    wire().connect("first")
    before = resident_bytes(broker)
    attackers = [wire() for _ in range(400)]
    for attacker in attackers:
        try:
            attacker.send(bytes([CONNECT << 4]) + variable_length(130_000) + bytes(100_000))
        except ConnectionError:
            pass  # ended already
    assert wire().connect("beside") == (False, 0)
    assert resident_bytes(broker) - before < 20_000_000


@pytest.mark.martlet("has no bound for user properties")
@pytest.mark.broker()
def test_a_connect_of_tiny_user_properties_holds_little(broker, wire):
    wire().connect("first")
    before = resident_bytes(broker)
    properties = b"\x26\0\0\0\0" * 12_000
    head = text("MQTT") + bytes([5, 2, 0, 60]) + variable_length(len(properties)) + properties + text("many")
    clients = [wire() for _ in range(20)]
    for client in clients:
        client.send(frame(CONNECT, 0, head))
        assert client.receive(CONNACK).body[1] == QUOTA_EXCEEDED
    assert resident_bytes(broker) - before < 10_000_000


@pytest.mark.broker("--threads", "1", configuration="max_packet_size 268435460\nmax_inflight_messages 0")
def test_a_reader_that_stops_reading_holds_what_waits_for_it_and_no_more(broker, wire):
    publisher, stalled = wire(), wire()
    readers = [wire(), wire()]
    for number, reader in enumerate(readers):
        reader.connect(f"reader{number}")
        reader.subscribe("much")
    stalled.connect("stalled", keep_alive=0)
    stalled.subscribe("rare")
    publisher.connect("publisher")
    # More than the kernel takes for it.
    for _ in range(100):
        publisher.publish("rare", "x" * 100_000)
    publisher.ping()
    before = resident_bytes(broker)
    rounds = 200

    def drain(reader):
        for _ in range(3 * rounds):
            reader.receive()

    threads = [threading.Thread(target=drain, args=(reader,)) for reader in readers]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        for _ in range(3):
            publisher.publish("much", "y" * 90_000)
        publisher.publish("rare", "x" * 400)
    publisher.ping()
    for thread in threads:
        thread.join()
    # 80,000 bytes wait more than before; the chunks that they were written into took 50 MB.
    assert resident_bytes(broker) - before < 25_000_000

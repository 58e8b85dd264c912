"""What one loop asks of another: a publisher is no faster than the loop where its subscribers live."""

import os
import re
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from harness.broker import REPOSITORY, Broker
from harness.wire import CONNACK, CONNECT, DISCONNECT, PINGREQ, PINGRESP, PUBACK, PUBLISH, Wire, frame, text

CLIENTS = 400
MESSAGES = 2_500_000
#: Fewer bytes than what counts as much.
AT_ONCE = 200
#: The client identifier decides on the loop.
FIRST = "client 0"

pytestmark = pytest.mark.martlet("runs one loop")


@pytest.fixture
def broker(program, tmp_path):
    broker = Broker(program, tmp_path, configuration="martlet_threads 2", verbose=False)
    yield broker.start()
    broker.finish()


def test_publishers_that_their_subscribers_cannot_follow_are_slowed_down(broker):
    """Many that bring little each, so that none of them is much by itself."""
    publishers, subscribers = clients_by_loop(broker, CLIENTS)
    assert min(len(publishers), len(subscribers)) > CLIENTS / 4
    for subscriber in subscribers:
        subscriber.subscribe("t", 0)
    before = resident_mebibytes(broker)
    burst = frame(PUBLISH, 0, text("t") + b"0123456789") * AT_ONCE + frame(PINGREQ, 0, b"")
    for number in range(MESSAGES // AT_ONCE):
        publisher = publishers[number % len(publishers)]
        if number >= len(publishers):
            # What it sent the last time has been read.
            publisher.receive(PINGRESP)
        publisher.send(burst)
        # Unbounded, the mail of these would take more than 200 MiB; bounded, most of what there is stands in the subscribers' outputs.
        if number % 16 == 0:
            assert resident_mebibytes(broker) - before < 120


@pytest.mark.parametrize("end", ["says goodbye", "hangs up", "stays"])
def test_a_publisher_that_brings_much_waits_for_the_other_loop_and_loses_nothing(broker, end):
    """Each subscriber, on whatever loop, gets what the publisher wrote, byte for byte; one that brings little is answered meanwhile."""
    here, there = clients_by_loop(broker, 40)
    publisher, passer_by, *near = here
    subscribers = near[:8] + there[:8]
    assert len(subscribers) == 16
    for subscriber in subscribers:
        subscriber.subscribe("t", 0)
    sent = b"".join(frame(PUBLISH, 0, text("t") + b"%d" % number) for number in range(100_000))
    publisher.send(sent[: len(sent) // 2])
    passer_by.ping()
    publisher.send(sent[len(sent) // 2 :] + (frame(DISCONNECT, 0, b"") if end == "says goodbye" else b""))
    if end != "stays":
        publisher.close()
    for subscriber in subscribers:
        received = receive_bytes(subscriber, len(sent))
        is_same = received == sent
        assert is_same, f"{len(received)} of {len(sent)} bytes, and not those that were sent"


def test_a_loop_that_is_always_ahead_reads_from_everybody(broker):
    """Small clients alone keep the other loop behind; one that brings much goes on beside them, and is not taken for silent."""
    here, there = clients_by_loop(broker, 80)
    chatters, near = here[9:], here[1:9]
    for subscriber in there:
        subscriber.subscribe("t", 0)
    for subscriber in (*near, there[0]):
        subscriber.subscribe("much", 0)
    publisher = Wire(broker.port, "mqttv311")
    publisher.connect(FIRST, keep_alive=1)
    is_over = threading.Event()
    drains = [threading.Thread(target=drain, args=(client, is_over)) for client in (*there, *near)]
    talk = threading.Thread(target=chatter, args=(chatters, is_over))
    for thread in (*drains, talk):
        thread.start()
    try:
        much = b"".join(frame(PUBLISH, 2, text("much") + struct.pack(">H", number) + b"x" * 200) for number in range(1, 101))
        for _ in range(20):
            publisher.send(much)
            for _ in range(100):
                publisher.receive(PUBACK)
    finally:
        is_over.set()
        for thread in (*drains, talk):
            thread.join()


def test_clients_that_do_not_wait_for_connack_lose_nothing_on_their_way_to_the_other_loop(broker):
    """A loop that is busy reads several times in a turn: also from those that leave it at the end of that."""
    with load(broker, "pair") as running:
        for batch in range(60):
            clients = [Wire(broker.port, "mqttv311") for _ in range(50)]
            for number, client in enumerate(clients):
                client.send(frame(CONNECT, 0, text("MQTT") + b"\x04\x02\x00\x3c" + text(f"hurried {batch} {number}")))
            for identifier in range(1, 6):
                for client in clients:
                    client.publish("t", "x", qos=1, identifier=identifier)
            for client in clients:
                client.receive(CONNACK)
                assert [client.receive(PUBACK, seconds=20).identifier for _ in range(5)] == [1, 2, 3, 4, 5]
                client.close()
        assert running.poll() is None, "there was no load"


@contextmanager
def load(broker: Broker, scenario: str) -> Iterator[subprocess.Popen]:
    """Keeps the broker busy until it is over."""
    command = [REPOSITORY / ".build/release/martlet", "bench", "-s", scenario, "--port", str(broker.port), "--seconds", "60", "--json"]
    load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield load
    finally:
        load.kill()
        load.wait()


def chatter(clients: list[Wire], is_over: threading.Event):
    burst = frame(PUBLISH, 0, text("t") + b"0123456789") * 100
    while not is_over.is_set():
        for client in clients:
            client.send(burst)


def drain(client: Wire, is_over: threading.Event):
    client.socket.settimeout(0.1)
    while not is_over.is_set():
        with suppress(TimeoutError):
            client.socket.recv(1 << 20)


def receive_bytes(wire: Wire, count: int) -> bytes:
    received = bytearray()
    while len(received) < count and (piece := wire.socket.recv(1 << 20)):
        received += piece
    return bytes(received)


def clients_by_loop(broker: Broker, count: int) -> tuple[list[Wire], list[Wire]]:
    """Connected clients of one loop, among them `FIRST`, and those of the other."""
    clients = [Wire(broker.port, "mqttv311") for _ in range(count)]
    for number, client in enumerate(clients):
        client.connect(f"client {number}")
    loops = loops_of(broker, clients)
    return (
        [client for client, loop in zip(clients, loops) if loop == loops[0]],
        [client for client, loop in zip(clients, loops) if loop != loops[0]],
    )


def loops_of(broker: Broker, clients: list[Wire]) -> list[int]:
    """Which epoll descriptor of the broker watches each client's connection."""
    process = Path(f"/proc/{broker.process.pid}")
    ports = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].split(":")[1], 16) == broker.port:
            ports[f"socket:[{fields[9]}]"] = int(fields[2].split(":")[1], 16)
    links = {entry.name: os.readlink(entry) for entry in (process / "fd").iterdir()}
    loop_of_port = {}
    for name, link in links.items():
        if "eventpoll" in link:
            for descriptor in re.findall(r"tfd:\s+(\d+)", (process / "fdinfo" / name).read_text()):
                if port := ports.get(links.get(descriptor)):
                    loop_of_port[port] = int(name)
    return [loop_of_port[client.socket.getsockname()[1]] for client in clients]


def resident_mebibytes(broker: Broker) -> int:
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) // 1024

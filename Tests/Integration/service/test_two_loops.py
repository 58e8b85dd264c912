"""What one loop asks of another: a publisher is no faster than the loop where its subscribers live."""

import os
import re
from pathlib import Path

import pytest
from harness.broker import Broker
from harness.wire import DISCONNECT, PINGREQ, PINGRESP, PUBLISH, Wire, frame, text

CLIENTS = 400
MESSAGES = 2_500_000
AT_ONCE = 4000

pytestmark = pytest.mark.martlet("runs one loop")


@pytest.fixture
def broker(program, tmp_path):
    broker = Broker(program, tmp_path, configuration="martlet_threads 2", verbose=False)
    yield broker.start()
    broker.finish()


def test_a_publisher_that_its_subscribers_cannot_follow_is_slowed_down(broker):
    clients = [Wire(broker.port, "mqttv311") for _ in range(CLIENTS)]
    for number, client in enumerate(clients):
        client.connect(f"client {number}")
    loops = loops_of(broker, clients)
    publisher = clients[0]
    subscribers = [client for client, loop in zip(clients, loops) if loop != loops[0]]
    assert len(subscribers) > CLIENTS / 4
    for subscriber in subscribers:
        subscriber.subscribe("t", 0)
    before = resident_mebibytes(broker)
    burst = frame(PUBLISH, 0, text("t") + b"0123456789") * AT_ONCE
    publisher.socket.settimeout(60)
    for _ in range(0, MESSAGES, AT_ONCE):
        publisher.socket.sendall(burst)
        # Unbounded, the mail of these would take more than 200 MiB; bounded, most of what there is stands in the subscribers' outputs.
        assert resident_mebibytes(broker) - before < 120


@pytest.mark.parametrize("end", ["says goodbye", "hangs up", "stays"])
def test_a_publisher_that_brings_much_waits_for_the_other_loop_and_loses_nothing(broker, end):
    """Each subscriber, on whatever loop, gets what the publisher wrote, byte for byte; one that brings little is answered meanwhile."""
    subscribers = [Wire(broker.port, "mqttv311") for _ in range(16)]
    for number, subscriber in enumerate(subscribers):
        subscriber.connect(f"subscriber {number}")
        subscriber.subscribe("t", 0)
    assert len(set(loops_of(broker, subscribers))) == 2
    publisher, passer_by = Wire(broker.port, "mqttv311"), Wire(broker.port, "mqttv311")
    publisher.connect("publisher")
    passer_by.connect("passer-by")
    sent = b"".join(frame(PUBLISH, 0, text("t") + b"%d" % number) for number in range(100_000))
    publisher.send(sent[: len(sent) // 2])
    passer_by.send(frame(PINGREQ, 0, b""))
    passer_by.receive(PINGRESP)
    publisher.send(sent[len(sent) // 2 :] + (frame(DISCONNECT, 0, b"") if end == "says goodbye" else b""))
    if end != "stays":
        publisher.close()
    for subscriber in subscribers:
        assert receive_bytes(subscriber, len(sent)) == sent


def receive_bytes(wire: Wire, count: int) -> bytes:
    received = bytearray()
    while len(received) < count and (piece := wire.socket.recv(1 << 20)):
        received += piece
    return bytes(received)


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

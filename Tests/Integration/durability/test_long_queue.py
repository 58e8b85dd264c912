"""A client is away while very much is published for it: that costs disk, not memory, and a kill in between costs nothing."""

import os
import socket
import time
from pathlib import Path

import pytest
from abuse.crew import resident_bytes
from harness.broker import Broker
from harness.wire import Wire, frame, text

#: How many messages; `make nightly` takes five million.
COUNT = int(os.environ.get("MARTLET_QUEUE", "200000"))
#: Bytes by which what is resident may grow with the last four fifths of them: they would take a hundred megabytes and more.
RESIDENT_GROWTH_MAX = 24 << 20
#: Messages sent, or acknowledged, together.
BATCH = 500
#: All are of one size, so that they are found without being parsed.
PAYLOAD_BYTES = 100
HEAD = text("queue")
MESSAGE_BYTES = 2 + len(HEAD) + 2 + PAYLOAD_BYTES
SECONDS_MAX = 60 + COUNT // 2000

pytestmark = [pytest.mark.martlet("holds queues in memory"), pytest.mark.timeout(SECONDS_MAX)]


@pytest.mark.parametrize("receivers", [1, 2], ids=["of one", "that two share"])
def test_a_client_that_is_away_costs_disk_and_no_memory(program, tmp_path, receivers):
    count = COUNT // receivers
    (tmp_path / "store").mkdir()
    broker = Broker(
        program, tmp_path,
        configuration=f"persistence true\npersistence_location {tmp_path}/store\nmax_queued_messages 0\nmax_inflight_messages 0",
        verbose=False,
    ).start()  # fmt: skip
    try:
        away(broker, tmp_path / "store", count, receivers)
    finally:
        broker.finish()


def away(broker: Broker, store: Path, count: int, receivers: int):
    names = [f"absent {number}" for number in range(receivers)]
    for name in names:
        absent = Wire(broker.port, "mqttv311")
        absent.connect(name, clean=False)
        absent.subscribe("queue", 1)
        absent.close()

    begin = time.monotonic()
    fill(broker.port, 0, count // 5)
    settled = resident_bytes(broker.process.pid)
    fill(broker.port, count // 5, count // 2)
    middle = resident_bytes(broker.process.pid)
    broker.kill()
    broker.restart()
    started = resident_bytes(broker.process.pid)
    fill(broker.port, count // 2, count)
    full = resident_bytes(broker.process.pid)
    filled = time.monotonic()
    disk = sum(path.stat().st_size for path in store.iterdir())
    print(f"resident {settled:,} {middle:,}, after the kill {started:,} {full:,}; on the disk {disk:,}")
    print(f"{count / (filled - begin):,.0f}/s in")
    assert max(middle, full) - settled <= RESIDENT_GROWTH_MAX

    for place, name in enumerate(names):
        begin = time.monotonic()
        if place == 0:
            received = drain(broker.port, name, 0, count // 3, is_last=False)
            broker.kill()
            broker.restart()
            drain(broker.port, name, received, count)
        else:
            drain(broker.port, name, 0, count)
        print(f"{count / (time.monotonic() - begin):,.0f}/s out")
    drained = resident_bytes(broker.process.pid)
    print(f"resident {drained:,}")
    assert drained - settled <= RESIDENT_GROWTH_MAX


def fill(port: int, begin: int, end: int):
    """Publishes these numbers and returns when all are acknowledged."""
    publisher = Wire(port, "mqttv311")
    publisher.connect("publisher")
    for first in range(begin, end, BATCH):
        numbers = range(first, min(first + BATCH, end))
        publisher.send(b"".join(publish(number, number % BATCH + 1) for number in numbers))
        answers = receive(publisher.socket, 4 * len(numbers))
        assert answers[::4] == b"\x40" * len(numbers)
    publisher.disconnect()


def publish(number: int, identifier: int) -> bytes:
    return frame(3, 2, HEAD + identifier.to_bytes(2, "big") + str(number).zfill(PAYLOAD_BYTES).encode())


def receive(connection: socket.socket, count: int) -> bytes:
    answers = b""
    while len(answers) < count:
        answers += part(connection)
    return answers


def part(connection: socket.socket) -> bytes:
    received = connection.recv(1 << 17)
    assert received, "the broker has ended the connection"
    return received


def drain(port: int, name: str, expected: int, end: int, *, is_last: bool = True) -> int:
    """Receives up to a number, each the one after the one before; what was perhaps not acknowledged may come again first."""
    client = Wire(port, "mqttv311")
    assert client.connect(name, clean=False)[0], "the session is there"
    buffer = client.take_received()
    is_first = True
    while expected < end:
        acknowledgements = []
        for start in range(0, len(buffer) // MESSAGE_BYTES * MESSAGE_BYTES, MESSAGE_BYTES):
            message = buffer[start : start + MESSAGE_BYTES]
            assert message[0] & 0xF6 == 0x32, message[:10]
            number = int(message[-PAYLOAD_BYTES:])
            if is_first:
                assert number <= expected, "what was not acknowledged is lost"
                expected, is_first = number, False
            assert number == expected, f"{number} came after {expected - 1}"
            expected += 1
            acknowledgements.append(b"\x40\x02" + message[2 + len(HEAD) : 4 + len(HEAD)])
        client.send(b"".join(acknowledgements))
        buffer = buffer[len(acknowledgements) * MESSAGE_BYTES :]
        if expected < end:
            buffer += part(client.socket)
    if is_last:
        client.ping()  # what was acknowledged has come there, and nothing comes before the answer
    client.close()
    return expected

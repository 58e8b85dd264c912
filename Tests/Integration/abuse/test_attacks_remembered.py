"""What strangers leave behind: the broker remembers them, and not every byte that they sent. A pair of clients beside each attack sees nothing of it."""

import http.client
import json
import threading
from pathlib import Path

import pytest
from harness.site import UnixConnection
from harness.waiting import wait_until
from harness.wire import CONNECT, SUBACK, UNSUBACK, Wire, frame, text

from abuse.crew import resident_bytes
from abuse.siege import LONGEST_MAX, SECONDS, Siege

pytestmark = [pytest.mark.martlet("keeps nothing of them"), pytest.mark.timeout(300 + 12 * SECONDS)]

#: A name as long as the protocol lets it be, nearly.
LONG = "x" * 63_000
#: Bytes that the broker may have more at the end: what is remembered, and buffers of idle blocks.
KEPT_MAX = 32 << 20
#: Milliseconds that a message of the pair may take: the machine has other work too.
WAIT_MAX = 5 * LONGEST_MAX


def resident(siege: Siege) -> int:
    return resident_bytes(siege.broker.process.pid)


def api(place: Path, method: str, path: str, body: dict | None = None) -> tuple[int, dict]:
    """A request to the API by the socket, which whoever may open it administers."""
    connection = UnixConnection(str(place))
    try:
        head = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, f"/api/martlet/v1/{path}", json.dumps(body) if body is not None else None, head)
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if content else {}
    finally:
        connection.close()


def refused_body(name: str) -> bytes:
    """A CONNECT of 5.0 with a will that is to be retained."""
    return text("MQTT") + bytes([5, 0x26]) + bytes([0, 60, 0]) + text(name) + b"\0" + text("will") + text("gone")


@pytest.mark.parametrize("lines", ["", "memory_limit 100000000\n"], ids=["default", "memory_limit"])
def test_closed_memory(besiege, tmp_path, lines):
    """Refused CONNECTs with the longest identifiers: what is told of closed connections later has their beginning alone."""
    place = tmp_path / "http.sock"
    # Wrong passwords would be answered later and later.
    siege = besiege(f"{lines}retain_available false\nlistener 0 {place}\nprotocol http_api\n")

    def refuse(count: int):
        for number in range(count):
            wire = Wire(siege.broker.port)
            wire.send(frame(CONNECT, 0, refused_body(f"{LONG}{number}")))
            assert wire.receive().body[1] == 0x9A
            wire.close()

    refuse(50)
    before = resident(siege)
    refuse(1200)
    window = siege.measure()
    assert resident(siege) - before < KEPT_MAX, f"{resident(siege) - before:,} bytes more"
    assert window.count > 0 and window.longest < WAIT_MAX
    status, page = api(place, "GET", "connections/closed?limit=1000")
    assert status == 200 and len(page["data"]) == 1000
    names = {row["clientid"] for row in page["data"]}
    assert len(names) == 1000, "each is told from the others"
    assert all(len(name) < 400 and name.startswith("xxx") and "...(6300" in name for name in names)


def test_events_memory(besiege, tmp_path):
    """Subscriptions with long filters by a client with a long name, while somebody reads the events: the ring has a bound of bytes."""
    place = tmp_path / "http.sock"
    siege = besiege(f"listener 0 {place}\nprotocol http_api\n")
    reader = UnixConnection(str(place))
    reader.request("GET", "/api/martlet/v1/events")
    stream = reader.getresponse()
    assert stream.readline() == b": here\n"
    counts = {"subscribed": 0, "bytes": 0}

    def read():
        try:
            for line in iter(stream.readline, b""):
                counts["bytes"] += len(line)
                if line.startswith(b"event: subscribed"):
                    counts["subscribed"] += 1
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            return

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    wire = Wire(siege.broker.port)
    assert wire.connect(LONG)[1] == 0

    def change(count: int):
        for number in range(count):
            filter = f"{number}/" + "f" * 60_000
            wire.send_subscribe(filter, identifier=1 + number % 1000)
            wire.receive(SUBACK)
            wire.send(frame(10, 2, (1 + number % 1000).to_bytes(2, "big") + b"\0" + text(filter)))
            wire.receive(UNSUBACK)

    change(50)
    before = resident(siege)
    change(1000)
    window = siege.measure()
    assert resident(siege) - before < KEPT_MAX, f"{resident(siege) - before:,} bytes more"
    assert window.longest < WAIT_MAX
    # The reader may have lost some; what it got was short.
    wait_until(lambda: counts["subscribed"] > 0, "events come")
    assert counts["bytes"] < 4 << 20
    wire.close()
    siege.serve()
    reader.close()

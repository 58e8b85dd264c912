"""The table of requests, sent to a broker: what Tests/HTTPTests shows of the parser holds for the whole server."""

import http.client
import re
import socket
from pathlib import Path

import pytest
from harness.waiting import PATIENCE

pytestmark = pytest.mark.martlet("has another server")

ROWS = [line.split(" => ", 1) for line in Path(__file__).with_name("requests.txt").read_text().split("\n") if " => " in line and line[0] != "#"]

#: What they call the server, which is on loopback.
HOSTS = "".join(f"martlet_http_host {name}\n" for name in ["x", "x.", "y", "y.example", "a.b-c_d.example"])


def sent(text: str) -> bytes:
    def repeat(match):
        return match[1] * int(match[2])

    text = re.sub(r"\[([^\[\]]*)\]\*(\d+)", repeat, text)
    return re.sub(
        rb"\\(x[0-9a-f]{2}|.)",
        lambda match: bytes([int(match[1][1:], 16)]) if match[1][:1] == b"x" else {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"\\": b"\\"}[match[1]],
        text.encode(),
    )


def answers(port: int, request: bytes, methods: list[str]) -> list[tuple[int, bytes]]:
    """What comes back until the broker ends the connection, which it does when we have ended our side."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent
        received = b""
        while piece := connection.recv(65536):
            received += piece
    found = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        status = int(head.split(b" ")[1])
        length = re.search(rb"(?i)^content-length: (\d+)", head, re.MULTILINE)
        is_head = len(found) < len(methods) and methods[len(found)] == "HEAD"
        size = 0 if is_head or not length else int(length[1])
        if status != 100:
            found.append((status, rest[:size]))
        received = rest[size:]
    return found


def expected(text: str) -> list[tuple[int, str, str]]:
    """The status, the method, and of a refusal what it says."""
    items = [item for item in text.split(" ; ") if item and not item.startswith("(")]
    return [
        (int(item.split(" ")[0]), "" if " ! " in item else item.split(" ")[1], item.split(" ! ", 1)[1] if " ! " in item else "")
        for item in items
    ]  # fmt: skip


def test_every_request_is_answered_as_the_table_says(site):
    port = site(configuration=HOSTS).port
    wrong = []
    for request, outcome in ROWS:
        items = expected(outcome)
        got = answers(port, sent(request), [method for _, method, _ in items])
        if [status for status, _ in got] != [status for status, _, _ in items] or any(
            words and body.decode() != words + "\n" for (_, body), (_, _, words) in zip(got, items, strict=True)
        ):
            wrong.append(f"{request[:200]}\n  expected {outcome[:200]}\n  got {got}")
    assert len(ROWS) > 200
    assert not wrong, "\n".join(wrong)


def test_requests_that_come_together_are_answered_in_their_order(site):
    port = site().port
    paths = ["/livez", "/api/martlet/a", "/readyz", "/api/martlet/v1/openapi.json", "/api/martlet/b"] * 20
    request = "".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in paths)
    got = answers(port, request.encode(), ["GET"] * len(paths))
    assert [status for status, _ in got] == [200, 404, 200, 200, 404] * 20


def test_a_peer_that_waits_for_leave_to_send_gets_it(site):
    with socket.create_connection(("127.0.0.1", site().port), timeout=PATIENCE) as connection:
        connection.sendall(b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"abc")
        assert connection.recv(100).startswith(b"HTTP/1.1 405 ")


def test_beyond_the_limit_silent_connections_give_way(site):
    served = site("max_connections 4")
    connections = [served.connection() for _ in range(10)]
    for connection in connections:
        assert served.ask("/api/v1/version", connection=connection, Connection="keep-alive").status == 200
    for connection in connections[-3:]:
        assert served.ask("/api/v1/version", connection=connection, Connection="keep-alive").status == 200
    with pytest.raises((OSError, http.client.HTTPException)):
        connections[0].auto_open = 0
        served.ask("/api/v1/version", connection=connections[0])

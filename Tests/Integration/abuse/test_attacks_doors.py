"""Doors that others could be made to open: a browser's WebSocket, and a proxy's word for its clients."""

import base64
import os
import socket
import struct
import subprocess

import pytest
from harness.ports import reserve_port
from harness.site import UnixConnection
from harness.waiting import PATIENCE
from harness.wire import CONNACK, CONNECT, frame, text

from abuse.siege import LONGEST_MAX

pytestmark = [pytest.mark.martlet("guards its doors"), pytest.mark.timeout(240)]

#: Loopback addresses: a proxy's, which is believed, and a stranger's.
PROXY, STRANGER = "127.0.0.2", "127.0.0.3"


def asked(port: int, host: str = "localhost", *fields: str, source: str = "127.0.0.1") -> tuple[socket.socket, str]:
    """Asks for a WebSocket, and gives the connection and the head of the answer."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(source, 0))
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        "GET /mqtt HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: mqtt", *fields, "", "",
    ]  # fmt: skip
    head = b""
    try:
        connection.sendall("\r\n".join(lines).encode())
        while not head.endswith(b"\r\n\r\n") and (piece := connection.recv(1)):
            head += piece
    except ConnectionError:  # the door was closed before all of this was read
        pass
    return connection, head.decode()


def status(port: int, host: str = "localhost", *fields: str) -> int:
    connection, head = asked(port, host, *fields)
    connection.close()
    return int(head.split()[1])


def login(port: int, password: str, *fields: str, source: str = PROXY) -> int | None:
    """The return code of a login over WebSocket; None when the door is closed."""
    connection, head = asked(port, "localhost", *fields, source=source)
    with connection:
        if " 101 " not in head:
            return None
        packet = frame(CONNECT, 0, text("MQTT") + bytes([4, 0xC2]) + struct.pack(">H", 60) + text("") + text("anna") + text(password))
        try:
            connection.sendall(b"\x82" + bytes([0x80 | len(packet)]) + bytes(4) + packet)
            answer = b""
            while len(answer) < 6:
                piece = connection.recv(6 - len(answer))
                if not piece:
                    return None
                answer += piece
        except ConnectionError:
            return None
    assert answer[2] == CONNACK << 4, answer
    return answer[5]


@pytest.fixture
def users(program, tmp_path):
    path = tmp_path / "users"
    subprocess.run([program.path, "passwd", "-c", "-H", "sha512-pbkdf2", "-b", str(path), "anna", "right"], check=True)
    return path


def test_websocket_rebinding(besiege):
    """A page of another site, and one whose own name points to this machine, does not come in by this machine's browser."""
    here, named, spelt = reserve_port(), reserve_port(), reserve_port()
    siege = besiege(
        f"listener {here} 127.0.0.1\nprotocol websockets\nlistener {spelt} LocalHost\nprotocol websockets\n"
        f"listener {named} 127.0.0.1\nprotocol websockets\nwebsockets_origin https://friend.example\nmartlet_http_host hub.home"
    )
    siege.broker.wait_for_log("version .* running on")
    assert status(here, "evil.example") == status(spelt, "evil.example") == 421
    assert status(here, f"evil.example:{here}", "Origin: http://evil.example") == 421
    for origin in ["https://evil.example", "null", "http://localhost.evil.example", "file://"]:
        assert status(here, f"127.0.0.1:{here}", f"Origin: {origin}") == 403, origin
    # Programs, pages of this machine, and the names that it is given.
    assert status(here) == status(here, "127.0.0.1") == status(here, "[::1]:9001") == status(here, "hub.home") == 101
    assert status(here, f"localhost:{here}", "Origin: http://127.0.0.1:9883") == 101
    assert status(here, f"localhost:{here}", "Origin: https://hub.home") == 101
    assert status(named, "proxied.example", "Origin: https://friend.example") == 101
    assert status(named, "localhost", "Origin: http://localhost") == 403
    siege.broker.wait_for_log("421 Misdirected Request: This server is not called evil.example; see martlet_http_host")
    siege.serve()
    assert siege.measure().longest <= LONGEST_MAX


def test_one_guesser_behind_a_proxy(besiege, users):
    """Who guesses passwords behind a proxy is banned alone, and nobody can have another one banned in their place."""
    port = reserve_port()
    siege = besiege(
        f"password_file {users}\nmartlet_ban_after 3/60s 300s\n"
        f"listener {port} 127.0.0.1\nprotocol websockets\nmartlet_proxy_trusted {PROXY}",
        login=("anna", "right"),
    )

    def guess(*fields: str, source: str = PROXY):
        for _ in range(5):
            if login(port, "wrong", *fields, source=source) is None:
                return
        raise AssertionError("five wrong passwords, and no ban")

    guess("X-Forwarded-For: 203.0.113.9")
    siege.broker.wait_for_log("Client connection from 203.0.113.9:0 denied: banned")
    # The client's own words stand before the proxy's.
    guess("X-Forwarded-For: 198.51.100.1, 203.0.113.10")
    guess("Forwarded: for=203.0.113.11;proto=https")
    guess("X-Real-IP: 203.0.113.12")
    # Nobody but the proxy is believed.
    guess("X-Forwarded-For: 198.51.100.1", source=STRANGER)
    assert login(port, "right", source=STRANGER) is None
    # Contradictions and rubbish come to nothing.
    assert asked(port, "localhost", "X-Forwarded-For: 203.0.113.13", "X-Real-IP: 198.51.100.1", source=PROXY)[1].split()[1] == "400"
    assert asked(port, "localhost", "X-Forwarded-For: anybody", source=PROXY)[1].split()[1] == "400"
    for address in ["203.0.113.9", "203.0.113.10", "203.0.113.11", "203.0.113.12"]:
        assert login(port, "right", f"X-Forwarded-For: {address}") is None, address
    for fields in [["X-Forwarded-For: 198.51.100.1"], ["X-Forwarded-For: 203.0.113.9, 198.51.100.2"], []]:
        assert login(port, "right", *fields) == 0, fields
    assert siege.measure().longest <= LONGEST_MAX


def test_a_crowd_behind_a_proxy_is_no_single_address(besiege, users):
    """What one address may open in a second bounds each client behind a proxy, and not the proxy."""
    port = reserve_port()
    siege = besiege(
        f"password_file {users}\nmartlet_max_connections_per_second_per_address 5\n"
        f"listener {port} 127.0.0.1\nprotocol websockets\nmartlet_proxy_trusted {PROXY}",
        login=("anna", "right"),
    )
    assert [login(port, "right", f"X-Forwarded-For: 198.51.100.{number}") for number in range(1, 41)] == [0] * 40
    # The bound is of one client; how many come in depends on the seconds that this takes.
    for _ in range(20):
        if None in [login(port, "right", "X-Forwarded-For: 203.0.113.9") for _ in range(20)]:
            break
    else:
        raise AssertionError("one client opens as many as it likes")
    siege.broker.wait_for_log("Client connection from 203.0.113.9:0 denied: more than 5 connections per second from its address")
    assert siege.measure().longest <= LONGEST_MAX


def test_one_guesser_behind_a_proxy_over_http(besiege, users):
    port = reserve_port()
    siege = besiege(
        f"password_file {users}\nmartlet_ban_after 3/60s 300s\nmartlet_http_user anna viewer\n"
        f"listener {port} 127.0.0.1\nprotocol http_api\nmartlet_proxy_trusted {PROXY}",
        login=("anna", "right"),
    )

    def answer(connection: socket.socket, password: str, client: str) -> int:
        word = base64.b64encode(f"anna:{password}".encode()).decode()
        connection.sendall(
            f"GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\nAuthorization: Basic {word}\r\n"
            f"X-Forwarded-For: {client}\r\n\r\n".encode()
        )
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536) or b"\r\n\r\n"
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(next(line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")))
        while len(body) < length:
            body += connection.recv(65536)
        return int(head.split()[1])

    # A proxy asks for everybody on one connection.
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(PROXY, 0)) as connection:
        for _ in range(5):
            assert answer(connection, "wrong", "203.0.113.9") == 401
        assert answer(connection, "right", "203.0.113.9") == 401, "the guesser is banned"
        assert answer(connection, "right", "198.51.100.1") == 200
        assert answer(connection, "right", "203.0.113.9, 198.51.100.2") == 200
    siege.broker.wait_for_log("Login failed from 203.0.113.9")
    assert siege.measure().longest <= LONGEST_MAX


def test_whoever_a_proxy_of_roots_asks_for_is_not_root(start_broker, tmp_path):
    """Root's process on a Unix socket may do everything without a login; a proxy that root runs asks for strangers."""
    own, proxied = tmp_path / "own.sock", tmp_path / "proxied.sock"
    broker = start_broker(
        configuration=f"listener 0 {own}\nprotocol http_api\nlistener 0 {proxied}\nprotocol http_api\nmartlet_proxy_trusted 127.0.0.1"
    )
    broker.wait_for_log("version .* running on")
    for path, fields, wanted in [(own, {}, 200), (proxied, {}, 401), (proxied, {"X-Forwarded-For": "203.0.113.9"}, 401)]:
        connection = UnixConnection(str(path))
        connection.request("GET", "/api/martlet/v1/config", headers=fields)
        response = connection.getresponse()
        assert response.status == wanted, (path, fields, response.read())
        connection.close()

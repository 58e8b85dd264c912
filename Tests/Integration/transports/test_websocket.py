"""WebSocket: real libraries, and bare connections that misbehave."""

import base64
import os
import shutil
import socket
import struct
import subprocess
import threading

import paho.mqtt.client as paho
import pytest
from harness.waiting import PATIENCE
from harness.wire import frame, text
from transports.conftest import is_closed

LINES = "listener {port} 127.0.0.1\nprotocol websockets\nallow_anonymous true\n"
CONNECT = frame(1, 0, text("MQTT") + b"\x05\x02\x00\x3c\x00" + text(""))


class WebSocket:
    """A client's side of a WebSocket, byte by byte."""

    def __init__(self, port: int, *, fields: str = "", protocol: str = "mqtt"):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {protocol}\r\n{fields}\r\n".encode()
        )
        self.received = b""
        while b"\r\n\r\n" not in self.received:
            self._receive()
        self.head, self.received = self.received.split(b"\r\n\r\n", 1)

    def _receive(self):
        data = self.socket.recv(65536)
        assert data, f"ended after {self.received!r}"
        self.received += data

    def send(self, payload: bytes, first: int = 0x82):
        mask = os.urandom(4)
        length = len(payload)
        head = bytes([first, 0x80 | length]) if length < 126 else bytes([first, 0xFE]) + struct.pack(">H", length)
        self.socket.sendall(head + mask + bytes(byte ^ mask[index & 3] for index, byte in enumerate(payload)))

    def frame(self) -> tuple[int, bytes]:
        """The first byte and the payload of the next frame."""
        while len(self.received) < 2:
            self._receive()
        length, start = self.received[1], 2
        assert length < 126, "a server does not mask, and these tests send little"
        while len(self.received) < start + length:
            self._receive()
        first, payload = self.received[0], self.received[start : start + length]
        self.received = self.received[start + length :]
        return first, payload


@pytest.fixture
def port(start_broker) -> int:
    return start_broker(configuration=LINES, listener=False).port


def exchange(client: paho.Client, port: int):
    """Publishes messages of several sizes to itself."""
    sizes, done = [0, 1, 125, 126, 70_000, 300_000], threading.Event()
    received: list[int] = []

    def on_message(client, data, message):
        received.append(len(message.payload))
        if len(received) == len(sizes):
            done.set()

    client.on_connect = lambda client, *rest: client.subscribe("sizes", 1)
    client.on_subscribe = lambda client, *rest: [client.publish("sizes", b"x" * size, 1) for size in sizes]
    client.on_message = on_message
    client.connect("localhost", port)
    client.loop_start()
    assert done.wait(PATIENCE)
    client.disconnect()
    client.loop_stop()
    assert received == sizes


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
def test_paho_exchanges_messages(port, version):
    exchange(paho.Client(paho.CallbackAPIVersion.VERSION2, transport="websockets", protocol=version), port)


def test_paho_exchanges_messages_over_tls(start_broker, authority):
    directory = authority.directory
    lines = f"{LINES}certfile {directory}/server.crt\nkeyfile {directory}/server.key"
    broker = start_broker(configuration=lines, listener=False)
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, transport="websockets")
    client.tls_set(str(authority.certificate))
    exchange(client, broker.port)


def test_a_node_client_exchanges_messages(port):
    environment = {**os.environ, "NODE_PATH": "/usr/share/nodejs"}
    if not shutil.which("node") or subprocess.run(["node", "-e", "require('mqtt')"], env=environment, capture_output=True).returncode:
        pytest.skip("there is no node with mqtt here")
    program = f"""
        const client = require('mqtt').connect('ws://127.0.0.1:{port}/mqtt', {{protocolVersion: 5}});
        client.on('connect', () => client.subscribe('n', () => client.publish('n', 'hello', {{qos: 2}})));
        client.on('message', (topic, payload) => {{ console.log('' + payload); client.end(); }});
    """
    done = subprocess.run(["node", "-e", program], env=environment, capture_output=True, timeout=PATIENCE)
    assert done.stdout == b"hello\n", done.stderr


def test_packets_and_frames_need_not_match_on_the_way_in(port):
    client = WebSocket(port)
    subscribe = frame(8, 2, b"\x00\x01\x00" + text("t") + b"\x00")
    stream = CONNECT + subscribe + frame(3, 0, text("t") + b"\x00one") + frame(3, 0, text("t") + b"\x00two") + frame(12, 0, b"")
    for index in range(0, len(stream), 7):
        client.send(stream[index : index + 7])
    kinds = []
    while len(kinds) < 5:
        first, payload = client.frame()
        # One whole packet in each frame on the way out.
        assert first == 0x82 and len(payload) == payload[1] + 2
        kinds.append(payload[0] >> 4)
    assert sorted(kinds) == [2, 3, 3, 9, 13]


def test_ping_and_close_are_answered(port):
    client = WebSocket(port)
    client.send(b"are you there", first=0x89)
    assert client.frame() == (0x8A, b"are you there")
    client.send(struct.pack(">H", 1001) + b"leaving", first=0x88)
    assert client.frame() == (0x88, struct.pack(">H", 1001))
    assert is_closed(client.socket)


def test_a_text_frame_is_refused(port):
    client = WebSocket(port)
    client.send(b"hello", first=0x81)
    assert client.frame() == (0x88, struct.pack(">H", 1003))
    assert is_closed(client.socket)


def test_disconnect_is_followed_by_a_close(port):
    client = WebSocket(port)
    client.send(CONNECT)
    assert client.frame()[1][0] == 0x20
    client.send(frame(14, 0, b""))
    assert client.frame() == (0x88, struct.pack(">H", 1000))


def test_only_named_origins_come_in(start_broker):
    broker = start_broker(configuration=LINES + "websockets_origin https://a.example", listener=False)
    assert b" 101 " in WebSocket(broker.port, fields="Origin: https://a.example\r\n").head
    refused = WebSocket(broker.port, fields="Origin: https://b.example\r\n")
    assert b" 403 " in refused.head
    assert is_closed(refused.socket)


def test_a_browser_without_the_subprotocol_hears_why(port):
    client = WebSocket(port, protocol="chat")
    assert b" 400 " in client.head


def test_a_head_that_is_too_long_is_refused(port):
    assert b" 431 " in WebSocket(port, fields=f"X: {'x' * 5000}\r\n").head

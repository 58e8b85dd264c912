"""Packets, and connections of many."""

import random
import socket
import struct
from collections import deque

from harness.waiting import PATIENCE
from harness.wire import CONNECT, PUBLISH, SUBSCRIBE, frame, text, variable_length

#: The tests' crowds do the same things each time.
SEED = 1


def connect_packet(
    name: str, *, clean=True, will: tuple[str, bytes] | None = None, login: tuple[str, str] | None = None, expiry=0
) -> bytes:
    flags = (2 if clean else 0) | (4 if will else 0) | (0xC0 if login else 0)
    properties = b"\x11" + struct.pack(">I", expiry) if expiry else b""
    payload = text(name)
    if will:
        payload += b"\0" + text(will[0]) + text(will[1])
    for word in login or ():
        payload += text(word)
    head = text("MQTT") + bytes([5, flags]) + struct.pack(">H", 600) + variable_length(len(properties)) + properties
    return frame(CONNECT, 0, head + payload)


def publish_packet(topic: str, payload: bytes, *, qos=0, identifier=1, retain=False) -> bytes:
    return frame(PUBLISH, qos << 1 | retain, text(topic) + (struct.pack(">H", identifier) if qos else b"") + b"\0" + payload)


def subscribe_packet(filters: list[str], *, qos=0, subscription=0) -> bytes:
    properties = b"\x0b" + variable_length(subscription) if subscription else b""
    body = struct.pack(">H", 1) + variable_length(len(properties)) + properties
    return frame(SUBSCRIBE, 2, body + b"".join(text(filter) + bytes([qos]) for filter in filters))


class Crowd:
    """Connections from many addresses of this machine's own network: a botnet, as far as a limit for one address can tell."""

    def __init__(self, port: int):
        self.port = port
        self.random = random.Random(SEED)

    def open(self, *first: bytes, window: int = 0) -> socket.socket | None:
        """A connection on which the first bytes were sent; None if there is none to be had."""
        connection = socket.socket()
        try:
            # What is not read goes with a reset, and no port is left waiting behind it.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if window:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
            connection.settimeout(PATIENCE)
            connection.bind((f"127.{self.random.randrange(1, 255)}.{self.random.randrange(256)}.{self.random.randrange(1, 255)}", 0))
            connection.connect(("127.0.0.1", self.port))
            for data in first:
                connection.sendall(data)
            return connection
        except OSError:
            connection.close()
            return None


def receive(connection: socket.socket, count: int) -> bytes:
    """So many bytes; fewer if the broker closes, or is silent for long."""
    received = b""
    try:
        while len(received) < count and (data := connection.recv(count - len(received))):
            received += data
    except OSError:
        pass
    return received


def try_send(connection: socket.socket | None, data: bytes) -> bool:
    try:
        if connection is None:
            return False
        connection.sendall(data)
        return True
    except OSError:
        return False


def is_over(connection: socket.socket | None) -> bool:
    """Whether the broker has ended it; what it has sent is thrown away."""
    try:
        if connection is None:
            return True
        connection.setblocking(False)
        while connection.recv(65536):
            pass
        return True
    except BlockingIOError:
        connection.settimeout(PATIENCE)
        return False
    except OSError:
        return True


class Ring:
    """The last so many connections; the oldest is closed for each that comes on top."""

    def __init__(self, count: int):
        self.count = count
        self.connections: deque[socket.socket] = deque()

    def add(self, connection: socket.socket | None):
        if connection:
            self.connections.append(connection)
        if len(self.connections) > self.count:
            self.connections.popleft().close()

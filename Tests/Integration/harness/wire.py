"""A bare MQTT connection: the test says every byte, so it can be late, silent or wrong."""

import socket
import struct
from dataclasses import dataclass

from harness.waiting import PATIENCE

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = 8, 9, 10, 11, 12, 13, 14, 15

#: Protocol level of each version that mosquitto's tools name.
LEVELS = {"mqttv31": 3, "mqttv311": 4, "mqttv5": 5}


def variable_length(number: int) -> bytes:
    encoded = bytearray()
    while True:
        number, digit = divmod(number, 128)
        encoded.append(digit | (0x80 if number else 0))
        if not number:
            return bytes(encoded)


def text(string: str | bytes) -> bytes:
    data = string.encode() if isinstance(string, str) else string
    return struct.pack(">H", len(data)) + data


def frame(kind: int, flags: int, body: bytes) -> bytes:
    return bytes([kind << 4 | flags]) + variable_length(len(body)) + body


@dataclass(frozen=True)
class Packet:
    """A packet as it came: nothing is checked beyond its length."""

    kind: int
    flags: int
    body: bytes

    @property
    def identifier(self) -> int:
        """The packet identifier, of a PUBLISH or of an acknowledgement."""
        offset = 2 + struct.unpack(">H", self.body[:2])[0] if self.kind == PUBLISH else 0
        return struct.unpack(">H", self.body[offset : offset + 2])[0]

    @property
    def topic(self) -> str:
        return self.body[2 : 2 + struct.unpack(">H", self.body[:2])[0]].decode()

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3

    @property
    def is_duplicate(self) -> bool:
        return bool(self.flags & 8)

    @property
    def reason(self) -> int:
        """The reason code of a DISCONNECT."""
        return self.body[0] if self.body else 0


@dataclass(frozen=True)
class Will:
    topic: str
    payload: str
    qos: int = 0
    retain: bool = False
    properties: bytes = b""


class Wire:
    """One TCP connection of one protocol version."""

    def __init__(self, port: int, version: str = "mqttv5", source: str | None = None):
        self.level = LEVELS[version]
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def send(self, data: bytes):
        self.socket.sendall(data)

    def _properties(self, encoded: bytes = b"") -> bytes:
        return variable_length(len(encoded)) + encoded if self.level == 5 else b""

    def connect(
        self, client_id: str = "", *, clean=True, keep_alive=60, will: Will | None = None, properties=b"",
        user: str | None = None, password: str | None = None,
    ) -> tuple[bool, int]:  # fmt: skip
        """Sends CONNECT; returns session present and the reason of the CONNACK."""
        flags = 2 if clean else 0
        payload = text(client_id)
        if will:
            flags |= 4 | will.qos << 3 | will.retain << 5
            payload += self._properties(will.properties) + text(will.topic) + text(will.payload)
        if user is not None:
            flags |= 0x80
            payload += text(user)
        if password is not None:
            flags |= 0x40
            payload += text(password)
        name = "MQIsdp" if self.level == 3 else "MQTT"
        head = text(name) + bytes([self.level, flags]) + struct.pack(">H", keep_alive) + self._properties(properties)
        self.send(frame(CONNECT, 0, head + payload))
        answer = self.receive(CONNACK)
        return bool(answer.body[0]), answer.body[1]

    def subscribe(self, topic: str, qos: int = 0, *, identifier: int = 1, options: int = 0) -> int:
        """Sends SUBSCRIBE; returns what the SUBACK granted."""
        self.send_subscribe(topic, qos, identifier=identifier, options=options)
        return self.receive(SUBACK).body[-1]

    def send_subscribe(self, topic: str, qos: int = 0, *, identifier: int = 1, options: int = 0):
        """Sends SUBSCRIBE alone, for topics whose messages may come before the SUBACK."""
        body = struct.pack(">H", identifier) + self._properties() + text(topic) + bytes([qos | options])
        self.send(frame(SUBSCRIBE, 2, body))

    def publish(self, topic: str, payload: str = "", *, qos=0, identifier=1, duplicate=False, retain=False, properties=b""):
        head = text(topic) + (struct.pack(">H", identifier) if qos else b"") + self._properties(properties)
        self.send(frame(PUBLISH, duplicate << 3 | qos << 1 | retain, head + payload.encode()))

    def acknowledge(self, kind: int, identifier: int):
        self.send(frame(kind, 2 if kind == PUBREL else 0, struct.pack(">H", identifier)))

    def ping(self):
        self.send(frame(PINGREQ, 0, b""))
        self.receive(PINGRESP)

    def disconnect(self, reason: int = 0):
        self.send(frame(DISCONNECT, 0, bytes([reason]) if self.level == 5 and reason else b""))
        self.close()

    def receive(self, kind: int | None = None, seconds: float = PATIENCE) -> Packet | None:
        """The next packet; None when the broker has closed. With a kind, anything else fails the test."""
        packet = self._next(seconds)
        if kind is not None:
            assert packet and packet.kind == kind, f"expected packet type {kind}, received {packet}"
        return packet

    def _next(self, seconds: float) -> Packet | None:
        self.socket.settimeout(seconds)
        try:
            while True:
                packet = self._parsed()
                if packet:
                    return packet
                data = self.socket.recv(65536)
                if not data:
                    return None
                self._received += data
        except ConnectionResetError:
            return None

    def _parsed(self) -> Packet | None:
        length, shift, offset = 0, 0, 1
        while True:
            if offset >= len(self._received):
                return None
            digit = self._received[offset]
            length |= (digit & 0x7F) << shift
            shift += 7
            offset += 1
            if not digit & 0x80:
                break
        if len(self._received) < offset + length:
            return None
        first, body = self._received[0], self._received[offset : offset + length]
        self._received = self._received[offset + length :]
        return Packet(first >> 4, first & 15, body)

    def take_received(self) -> bytes:
        """What has come and was not asked for, for a test that goes on reading from the socket."""
        taken, self._received = self._received, b""
        return taken

    def receive_end(self, seconds: float = PATIENCE) -> int | None:
        """Waits until the broker closes; returns the reason of its DISCONNECT, or None when it sent none."""
        reason = None
        while packet := self._next(seconds):
            if packet.kind == DISCONNECT:
                reason = packet.reason
        return reason

    def close(self):
        """Closes the connection, without a word."""
        self.socket.close()

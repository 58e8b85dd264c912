"""The other end of a bridge as a test plays it, packet by packet."""

import socket
import struct

from harness.ports import reserve_port
from harness.waiting import PATIENCE

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, DISCONNECT = 1, 2, 3, 4, 8, 9, 10, 11, 14


def text(data: bytes, at: int) -> tuple[bytes, int]:
    length = struct.unpack_from(">H", data, at)[0]
    return data[at + 2 : at + 2 + length], at + 2 + length


class Connect:
    """What a CONNECT says."""

    def __init__(self, body: bytes):
        self.protocol, at = text(body, 0)
        self.level, flags, self.keep_alive = struct.unpack_from(">BBH", body, at)
        at += 4
        self.is_clean, self.will, self.properties = bool(flags & 2), None, b""
        if self.level & 0x7F == 5:
            self.properties, at = body[at + 1 : at + 1 + body[at]], at + 1 + body[at]
        self.client_id, at = text(body, at)
        if flags & 4:
            if self.level & 0x7F == 5:
                at += 1 + body[at]
            topic, at = text(body, at)
            payload, at = text(body, at)
            self.will = (topic, payload)
        self.user = self.password = None
        if flags & 0x80:
            self.user, at = text(body, at)
        if flags & 0x40:
            self.password, at = text(body, at)


class FarEnd:
    """Listens on a port; `accept` waits for the bridge."""

    def __init__(self, host: str = "127.0.0.1"):
        self.port = reserve_port()
        self._listener = socket.create_server((host, self.port))
        self._listener.settimeout(PATIENCE)
        self._socket = None

    def close(self):
        self._listener.close()
        if self._socket:
            self._socket.close()

    def accept(self, *, answer: bytes | None = b"\x20\x02\x00\x00", buffer_bytes: int | None = None) -> Connect:
        """Takes the next connection, which takes so many bytes unread, and answers CONNECT."""
        if self._socket:
            self._socket.close()
        if buffer_bytes:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self._socket, self.peer = self._listener.accept()
        if buffer_bytes:
            # It may have come before this was asked for.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self._socket.settimeout(PATIENCE)
        kind, _, body = self.read()
        assert kind == CONNECT
        connect = Connect(body)
        if answer is not None:
            if connect.level & 0x7F == 5 and answer == b"\x20\x02\x00\x00":
                answer = b"\x20\x03\x00\x00\x00"
            self._socket.sendall(answer)
        self.is_v5 = connect.level & 0x7F == 5
        return connect

    def stays_away(self, seconds: float) -> bool:
        self._listener.settimeout(seconds)
        try:
            self._listener.accept()
            return False
        except TimeoutError:
            return True
        finally:
            self._listener.settimeout(PATIENCE)

    def read(self) -> tuple[int, int, bytes]:
        """The next packet: its type, its flags and its body. At the end of the stream (0, 0, b"")."""
        head = self._exactly(1)
        if not head:
            return 0, 0, b""
        length = shift = 0
        while True:
            byte = self._exactly(1)[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return head[0] >> 4, head[0] & 15, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                return data
            data += more
        return data

    def next(self, wanted: int) -> tuple[int, bytes]:
        """The next packet of a type: its flags and body. What comes before it is answered as a broker would."""
        while True:
            kind, flags, body = self.read()
            if kind == SUBSCRIBE:
                self.send(SUBACK, body[:2] + (b"\x00" if self.is_v5 else b"") + b"\x02")
            elif kind == UNSUBSCRIBE:
                self.send(UNSUBACK, body[:2] + (b"\x00\x00" if self.is_v5 else b""))
            elif kind == PUBLISH and flags & 6 == 2:
                _, at = text(body, 0)
                self.send(PUBACK, body[at : at + 2])
            if kind == wanted:
                return flags, body
            assert kind, "the bridge closed the connection"

    def message(self) -> tuple[bytes, bytes, int]:
        """The next message that is not about the bridge itself: its topic, its payload and its flags."""
        while True:
            flags, body = self.next(PUBLISH)
            topic, at = text(body, 0)
            if topic.startswith(b"$SYS") or topic == b"told":
                continue
            at += 2 if flags & 6 else 0
            if self.is_v5:
                at += 1 + body[at]
            return topic, body[at:], flags

    def send(self, kind: int, body: bytes, flags: int = 0):
        self._socket.sendall(bytes([kind << 4 | flags, len(body)]) + body)

    def drop(self):
        self._socket.close()
        self._socket = None

"""The connection under a peer."""

import asyncio
from typing import TYPE_CHECKING

from harness.wire import Packet

if TYPE_CHECKING:
    from durability.peer import Peer


class PacketStream(asyncio.Protocol):
    """Cuts the bytes into packets, and sends what a read brought about at once."""

    def __init__(self, peer: "Peer"):
        self.peer = peer
        self.transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._output: list[bytes] = []
        self._is_in_read = False

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, exception):
        self.peer.ended(self)

    def send(self, data: bytes):
        if self._is_in_read:
            self._output.append(data)
        else:
            self.transport.write(data)

    def data_received(self, data: bytes):
        try:
            self._take(data)
        except AssertionError as failure:
            self.peer.pulse.fail(failure)
            self.transport.abort()

    def _take(self, data: bytes):
        self._received += data
        self._is_in_read = True
        offset = 0
        while packet := self._packet(offset):
            offset = packet[1]
            if self.peer.connection is self:
                self.peer.received(packet[0])
        del self._received[:offset]
        if self.peer.connection is self:
            self.peer.after_received()
        self._is_in_read = False
        self.transport.write(b"".join(self._output))
        self._output.clear()

    def _packet(self, offset: int) -> tuple[Packet, int] | None:
        """The packet that begins there, and where it ends; None if it has not come whole."""
        try:
            length, start = read_variable_length(self._received, offset + 1)
        except IndexError:
            return None
        if len(self._received) < start + length:
            return None
        first = self._received[offset]
        return Packet(first >> 4, first & 15, bytes(self._received[start : start + length])), start + length


def read_variable_length(data: bytes, offset: int) -> tuple[int, int]:
    """A variable byte integer, and where it ends."""
    number, shift = 0, 0
    while True:
        digit = data[offset]
        number |= (digit & 0x7F) << shift
        shift += 7
        offset += 1
        if not digit & 0x80:
            return number, offset

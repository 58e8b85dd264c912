"""One of a thousand clients that a single test drives: bare MQTT on an event loop, everything counted, nothing forgiven."""

import asyncio
import ssl
import struct

from harness.wire import CONNACK, CONNECT, PINGREQ, PINGRESP, PUBACK, PUBLISH, SUBACK, SUBSCRIBE, Packet, frame, text


class LoadClient(asyncio.Protocol):
    """Publishes numbered QoS 1 messages, each when the one before was acknowledged, and notes what it receives by topic."""

    def __init__(self, name: str, level: int):
        self.name = name
        self.level = level
        #: By topic, in the order in which they came.
        self.received: dict[str, list[int]] = {}
        self.published = 0
        #: Why it is not connected any more.
        self.ending: str | None = None
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._answers: dict[int, asyncio.Future[Packet]] = {}

    async def connect(self, port: int, user: str, password: str, context: ssl.SSLContext | None = None):
        loop = asyncio.get_running_loop()
        host = {"server_hostname": "localhost"} if context else {}
        await loop.create_connection(lambda: self, "127.0.0.1", port, ssl=context, **host)
        head = text("MQTT") + bytes([self.level, 0xC2]) + struct.pack(">H", 600) + self._properties
        answer = await self._ask(CONNACK, frame(CONNECT, 0, head + text(self.name) + text(user) + text(password)))
        assert answer.body[1] == 0, f"{self.name} is refused with {answer.body[1]:#x}"

    async def subscribe(self, *filters: str):
        entries = b"".join(text(filter) + b"\x01" for filter in filters)
        answer = await self._ask(SUBACK, frame(SUBSCRIBE, 2, b"\x00\x01" + self._properties + entries))
        assert answer.body[-len(filters) :] == b"\x01" * len(filters), f"{self.name} may not subscribe"

    async def publish(self, topic: str, number: int):
        identifier = struct.pack(">H", number % 65535 + 1)
        body = text(topic) + identifier + self._properties + str(number).encode()
        answer = await self._ask(PUBACK, frame(PUBLISH, 2, body))
        # A reason of 0x10, nobody subscribes, is a loss here.
        assert answer.body[:2] == identifier and answer.body[2:3] in (b"", b"\x00"), f"{self.name}: {answer}"
        self.published += 1

    async def ping(self):
        await self._ask(PINGRESP, frame(PINGREQ, 0, b""))

    def close(self):
        if self._transport:
            self._transport.abort()

    @property
    def _properties(self) -> bytes:
        return b"\x00" if self.level == 5 else b""

    async def _ask(self, kind: int, question: bytes) -> Packet:
        assert self.ending is None, f"{self.name}: {self.ending}"
        answer = self._answers[kind] = asyncio.get_running_loop().create_future()
        self._transport.write(question)
        return await answer

    def connection_made(self, transport):
        self._transport = transport

    def connection_lost(self, error):
        self.ending = self.ending or f"the connection ended: {error}"
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError(f"{self.name}: {self.ending}"))

    def data_received(self, data: bytes):
        data = self._buffer + data
        start = 0
        # No packet of a test's is longer than 129 bytes, so its length is one byte.
        while len(data) - start >= 2 and len(data) - start >= 2 + data[start + 1]:
            assert data[start + 1] < 128
            end = start + 2 + data[start + 1]
            self._take(Packet(data[start] >> 4, data[start] & 15, data[start + 2 : end]))
            start = end
        self._buffer = data[start:]

    def _take(self, packet: Packet):
        if packet.kind != PUBLISH:
            answer = self._answers.pop(packet.kind, None)
            if answer:
                answer.set_result(packet)
            else:
                self.ending = f"{packet} was not asked for"
            return
        start = 2 + len(packet.topic) + 2 + len(self._properties)
        self.received.setdefault(packet.topic, []).append(int(packet.body[start:]))
        self._transport.write(frame(PUBACK, 0, struct.pack(">H", packet.identifier)))

"""A client that keeps its word as the broker has to keep its own: what it was not acknowledged it sends again, with its identifier, when
it comes back to its session, and a QoS 2 message that it has taken it does not take again. Its state outlives its connections.

It stands on bare sockets, and answers, fills its window and counts as the bytes come: a client library's own limits are not in the way.
"""

import asyncio
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness import wire
from harness.wire import (
    CONNECT, LEVELS, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBSCRIBE, UNSUBACK, UNSUBSCRIBE, Packet, frame, text, variable_length,
)  # fmt: skip

from durability.packet_stream import PacketStream, read_variable_length
from durability.pulse import Pulse

SESSION_EXPIRY_INTERVAL, RECEIVE_MAXIMUM = 0x11, 0x21
#: Bytes of the properties that a CONNACK may carry, by identifier; None is a text.
CONNACK_PROPERTY_SIZES = {0x11: 4, 0x12: None, 0x13: 2, 0x21: 2, 0x22: 2, 0x24: 1, 0x25: 1, 0x27: 4, 0x28: 1, 0x29: 1, 0x2A: 1, 0x1F: None}


@dataclass
class Publication:
    """A message as its publisher sees it."""

    topic: str
    payload: str
    qos: int = 1
    retain: bool = False
    identifier: int = 0
    #: PUBACK or PUBREC has come: from here on it is the broker's.
    is_acknowledged: bool = False
    #: PUBACK or PUBCOMP has come.
    is_complete: bool = False
    #: The reason of that; 0x80 and above is a refusal.
    reason: int = 0
    #: Nobody answered the first time.
    is_sent_again: bool = False


@dataclass(frozen=True)
class Delivery:
    """A message as its subscriber got it."""

    topic: str
    payload: str
    qos: int
    retain: bool
    #: The encoded properties.
    properties: bytes = b""


class Peer:
    """One client with a session that lasts. `feed` makes its messages, at most `window` of them unacknowledged."""

    def __init__(self, client_id: str, pulse: Pulse, version: str = "mqttv311", window: int = 50):
        self.client_id = client_id
        self.pulse = pulse
        self.level = LEVELS[version]
        self.window = window
        self.feed: Iterator[Publication] | None = None
        self.acknowledged = 0
        self.deliveries: list[Delivery] = []
        #: Sent and not at their end, in the order of their first sending.
        self.outgoing: dict[int, Publication] = {}
        #: Sent and not taken by the broker, which said so.
        self.refused: list[Publication] = []
        #: QoS 2 identifiers that were taken and not released.
        self._taken: set[int] = set()
        #: What is to be done when SUBACK or UNSUBACK comes, by identifier.
        self._changes: dict[int, Callable[[], None]] = {}
        self._last_identifier = 0
        self._has_session = False
        #: Called when it has come back to its session and has sent what it owed.
        self.on_session: Callable[[], None] = lambda: None
        self.connection: PacketStream | None = None
        self._session_present: bool | None = None
        self._receive_maximum = 65535

    # The connection.

    @property
    def is_connected(self) -> bool:
        return self.connection is not None

    async def connect(self, port: int):
        """Comes back to the session, which has to be there if it ever was; then sends again what is owed."""
        await self.try_connect(port)
        await self.pulse.until(lambda: self._session_present is not None or not self.is_connected, f"{self.client_id} has its CONNACK")
        assert self.is_connected, f"{self.client_id}: the broker closed the connection"

    async def try_connect(self, port: int):
        """The same, and does not wait for the CONNACK."""
        assert not self.connection
        self._session_present = None
        _, self.connection = await asyncio.get_running_loop().create_connection(lambda: PacketStream(self), "127.0.0.1", port)
        properties = bytes([5, SESSION_EXPIRY_INTERVAL]) + b"\xff" * 4 if self.level == 5 else b""
        head = text("MQTT") + bytes([self.level, 0]) + struct.pack(">H", 0) + properties
        self._send(frame(CONNECT, 0, head + text(self.client_id)))

    def drop(self):
        """Ends the connection without a word."""
        if self.connection:
            self.connection.transport.abort()
            self.connection = None

    def ended(self, connection: PacketStream):
        if connection is self.connection:
            self.connection = None
        self._changes = {}
        self.pulse.beat()

    # What the test wants.

    def publish(self, publication: Publication):
        if publication.qos:
            publication.identifier = self._new_identifier()
            self.outgoing[publication.identifier] = publication
        self._send_publication(publication)

    def subscribe(self, topic_filter: str, qos: int, *, subscription: int = 0, on_answer: Callable[[], None] = lambda: None):
        properties = b"" if not subscription else bytes([0x0B]) + variable_length(subscription)
        body = text(topic_filter) + bytes([qos])
        self._change(SUBSCRIBE, self._properties(properties) + body, on_answer)

    def unsubscribe(self, topic_filter: str, *, on_answer: Callable[[], None] = lambda: None):
        self._change(UNSUBSCRIBE, self._properties() + text(topic_filter), on_answer)

    async def until_answered(self):
        await self.pulse.until(lambda: not self._changes, f"{self.client_id} has its SUBACKs and UNSUBACKs")

    async def until_acknowledged(self):
        """Everything that it has sent is at its end."""
        await self.pulse.until(lambda: not self.outgoing, f"{self.client_id} has all its acknowledgements")

    # What comes.

    def received(self, packet: Packet):
        match packet.kind:
            case wire.PUBLISH:
                self._received_publication(packet)
            case wire.PUBACK | wire.PUBREC:
                self._received_acknowledgement(packet)
            case wire.PUBREL:
                self._taken.discard(packet.identifier)
                self._answer(PUBCOMP, packet.identifier)
            case wire.PUBCOMP:
                self._complete(packet.identifier)
            case wire.SUBACK if packet.body[-1] == 0x97 and self.pulse.store_may_fail:
                self._changes.pop(packet.identifier)
            case wire.SUBACK | wire.UNSUBACK:
                assert packet.kind == UNSUBACK or packet.body[-1] < 0x80, f"{self.client_id}: refused with {packet.body[-1]:#x}"
                self._changes.pop(packet.identifier)()
            case wire.CONNACK:
                self._received_connack(packet)

    def after_received(self):
        """The end of one read: the window is filled again."""
        limit = min(self.window, self._receive_maximum)
        while self.feed and self.connection and self._session_present is not None and len(self.outgoing) < limit:
            if not (publication := next(self.feed, None)):
                break
            self.publish(publication)
        self.pulse.beat()

    def _received_connack(self, packet: Packet):
        if packet.body[1] and self.pulse.store_may_fail:
            self.drop()
            return
        assert packet.body[1] == 0, f"{self.client_id}: CONNACK {packet.body[1]:#x}"
        self._session_present = bool(packet.body[0])
        if self._has_session:
            assert self._session_present, f"the session of {self.client_id} is lost"
        self._has_session = True
        if self.level == 5:
            self._receive_maximum = _connack_properties(packet.body).get(RECEIVE_MAXIMUM, 65535)
        for publication in self.outgoing.values():
            if publication.qos == 2 and publication.is_acknowledged:
                self._answer(PUBREL, publication.identifier)
            else:
                publication.is_sent_again = True
                self._send_publication(publication, duplicate=True)
        self.on_session()

    def _received_publication(self, packet: Packet):
        offset = 2 + len(packet.topic.encode()) + (2 if packet.qos else 0)
        properties = b""
        if self.level == 5:
            length, offset = read_variable_length(packet.body, offset)
            properties, offset = packet.body[offset : offset + length], offset + length
        delivery = Delivery(packet.topic, packet.body[offset:].decode(), packet.qos, bool(packet.flags & 1), properties)
        if packet.qos < 2 or packet.identifier not in self._taken:
            self.deliveries.append(delivery)
        if packet.qos == 1:
            self._answer(PUBACK, packet.identifier)
        elif packet.qos == 2:
            self._taken.add(packet.identifier)
            self._answer(PUBREC, packet.identifier)

    def _received_acknowledgement(self, packet: Packet):
        publication = self.outgoing.get(packet.identifier)
        if not publication:
            return
        publication.reason = packet.body[2] if len(packet.body) > 2 else 0
        if publication.reason >= 0x80:
            assert self.pulse.store_may_fail, f"{self.client_id}: a message is refused with {publication.reason:#x}"
            self.refused.append(self.outgoing.pop(packet.identifier))
            return
        if not publication.is_acknowledged:
            self.acknowledged += 1
        publication.is_acknowledged = True
        if packet.kind == PUBREC:
            self._answer(PUBREL, packet.identifier)
        else:
            self._complete(packet.identifier)

    def _complete(self, identifier: int):
        if publication := self.outgoing.pop(identifier, None):
            publication.is_complete = True

    # What goes.

    def _new_identifier(self) -> int:
        while True:
            self._last_identifier = self._last_identifier % 65535 + 1
            if self._last_identifier not in self.outgoing and self._last_identifier not in self._changes:
                return self._last_identifier

    def _change(self, kind: int, body: bytes, on_answer: Callable[[], None]):
        identifier = self._new_identifier()
        self._changes[identifier] = on_answer
        self._send(frame(kind, 2, struct.pack(">H", identifier) + body))

    def _send_publication(self, publication: Publication, duplicate: bool = False):
        identifier = struct.pack(">H", publication.identifier) if publication.qos else b""
        body = text(publication.topic) + identifier + self._properties() + publication.payload.encode()
        self._send(frame(PUBLISH, duplicate << 3 | publication.qos << 1 | publication.retain, body))

    def _answer(self, kind: int, identifier: int):
        self._send(frame(kind, 2 if kind == PUBREL else 0, struct.pack(">H", identifier)))

    def _properties(self, encoded: bytes = b"") -> bytes:
        return variable_length(len(encoded)) + encoded if self.level == 5 else b""

    def _send(self, data: bytes):
        if self.connection:
            self.connection.send(data)


def _connack_properties(body: bytes) -> dict[int, int]:
    """The numbers among them, up to the first user property."""
    length, offset = read_variable_length(body, 2)
    end, numbers = offset + length, {}
    while offset < end and (identifier := body[offset]) in CONNACK_PROPERTY_SIZES:
        size = CONNACK_PROPERTY_SIZES[identifier]
        if size is None:
            offset += 3 + int.from_bytes(body[offset + 1 : offset + 3])
        else:
            numbers[identifier] = int.from_bytes(body[offset + 1 : offset + 1 + size])
            offset += 1 + size
    return numbers

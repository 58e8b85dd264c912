"""The client of amqtt, an asyncio implementation of its own; version 3.1.1 is all that it speaks."""

import asyncio
import queue
import threading
from concurrent.futures import Future

from amqtt.client import MQTTClient
from amqtt.mqtt.connack import ConnackPacket
from harness.waiting import PATIENCE

from libraries.client import Connected, LibraryClient, Message, Session
from libraries.event_loop import call, event_loop, wait_for
from libraries.scenarios import Scenarios

BY_ITSELF = "amqtt acknowledges by itself when a message has arrived"


class Sent:
    def __init__(self, future: Future):
        self.future = future

    def is_published(self) -> bool:
        return self.future.done() and self.future.exception() is None


class AmqttClient(LibraryClient):
    def __init__(self, port: int, version: int, session: Session):
        super().__init__(port, version, session)
        self.messages: queue.Queue[Message] = queue.Queue()
        self.ended = threading.Event()
        self.reading = None
        call(self._make)

    def _make(self):
        session, will = self.session, self.session.will
        config = {"auto_reconnect": False, "keep_alive": session.keep_alive, "plugins": {}}
        if will:
            config["will"] = {
                "topic": will.topic, "message": will.payload.decode(), "qos": will.qos, "retain": will.retain,
            }  # fmt: skip
        self.client = MQTTClient(session.client_id, config)

    async def _connect(self) -> Connected:
        # The session present flag is in the packet only, which the library does not pass on.
        present = []
        reads = ConnackPacket.from_stream.__func__

        async def read(kind, *arguments, **named):
            packet = await reads(kind, *arguments, **named)
            present.append(bool(packet.session_parent))
            return packet

        ConnackPacket.from_stream = classmethod(read)
        try:
            reason = await self.client.connect(f"mqtt://127.0.0.1:{self.port}/", cleansession=self.session.clean)
        finally:
            ConnackPacket.from_stream = classmethod(reads)
        return Connected(present[-1], reason)

    async def _read(self):
        try:
            while True:
                message = await self.client.deliver_message()
                self.messages.put(Message(message.topic, bytes(message.data), message.qos, bool(message.retain)))
        except (Exception, asyncio.CancelledError):
            self.ended.set()  # the library cancels whoever waits for a message when the connection ends

    def connect(self) -> Connected:
        connected = wait_for(self._connect())
        self.reading = asyncio.run_coroutine_threadsafe(self._read(), event_loop())
        return connected

    def subscribe(
        self, *filters, qos=0, no_local=False, retain_as_published=False, retain_handling=0, identifier=None
    ) -> list[int]:
        return list(wait_for(self.client.subscribe([(filter, qos) for filter in filters])))

    def unsubscribe(self, filter):
        wait_for(self.client.unsubscribe([filter]))

    def publish(self, topic, payload, *, qos=0, retain=False, properties=None):
        wait_for(self.client.publish(topic, payload, qos, retain))

    def start_publishing(self, topic, payload, *, qos):
        return Sent(asyncio.run_coroutine_threadsafe(self.client.publish(topic, payload, qos), event_loop()))

    def next_message(self, seconds=PATIENCE) -> Message:
        try:
            return self.messages.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no message for {self.session.client_id!r}") from None

    def acknowledge(self, message):
        raise NotImplementedError(BY_ITSELF)

    def disconnect(self):
        wait_for(self.client.disconnect())

    def drop(self):
        handler = self.client._handler
        if self.reading and handler and handler.writer:
            call(handler.writer._writer.transport.abort)
            self.ended.wait(PATIENCE)

    def wait_disconnected(self, seconds=PATIENCE) -> int:
        assert self.ended.wait(seconds), "the broker does not end the connection"
        return 0


class TestVersion311(Scenarios):
    library = AmqttClient
    version = 4
    cannot = {
        "test_what_was_in_flight_comes_again": BY_ITSELF,
        "test_what_was_acknowledged_by_hand_does_not": BY_ITSELF,
    }

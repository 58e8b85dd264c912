"""aiomqtt, Paho for Python under asyncio: what differs is who drives the socket, and the waiting for answers."""

import asyncio
import queue
import socket
import threading
from concurrent.futures import Future

import aiomqtt
from harness.waiting import PATIENCE
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties
from paho.mqtt.subscribeoptions import SubscribeOptions

from libraries.client import Connected, LibraryClient, Message, Properties, Session
from libraries.event_loop import call, event_loop, wait_for
from libraries.scenarios import Scenarios, Version5Scenarios

BY_ITSELF = "aiomqtt acknowledges by itself when a message has arrived"
NO_CONNACK = "aiomqtt does not pass on what the server's CONNACK says"


class Sent:
    def __init__(self, future: Future):
        self.future = future

    def is_published(self) -> bool:
        return self.future.done() and self.future.exception() is None


class AiomqttClient(LibraryClient):
    def __init__(self, port: int, version: int, session: Session):
        super().__init__(port, version, session)
        self.messages: queue.Queue[Message] = queue.Queue()
        self.ended = threading.Event()
        self.ending_reason = 0
        self.reading = None
        self.connected: Connected | None = None
        call(self._make)

    def _make(self):
        session, options = self.session, {}
        if self.version == 5:
            options["clean_start"] = session.clean
            options["properties"] = PahoProperties(PacketTypes.CONNECT)
            options["properties"].SessionExpiryInterval = session.expiry_seconds
        else:
            options["clean_session"] = session.clean
        will = session.will
        self.client = aiomqtt.Client(
            "127.0.0.1",
            self.port,
            identifier=session.client_id,
            protocol=aiomqtt.ProtocolVersion(self.version),
            will=will and aiomqtt.Will(will.topic, will.payload, will.qos, will.retain),
            keepalive=session.keep_alive,
            timeout=PATIENCE,
            **options,
        )
        self.client.pending_calls_threshold = 2000  # beyond it, it warns
        paho, on_connect, on_disconnect = self.client._client, self.client._on_connect, self.client._on_disconnect

        def connected(client, data, flags, reason, properties=None):
            self.connected = Connected(flags.session_present, reason.value)
            on_connect(client, data, flags, reason, properties)

        def disconnected(client, data, flags, reason, properties=None):
            self.ending_reason = reason.value if flags.is_disconnect_packet_from_server else 0
            self.ended.set()
            on_disconnect(client, data, flags, reason, properties)

        paho.on_connect, paho.on_disconnect = connected, disconnected

    async def _read(self):
        try:
            async for message in self.client.messages:
                self.messages.put(self._message(message))
        except aiomqtt.MqttError:
            pass  # the end of the connection, which `ended` says

    @staticmethod
    def _message(message: aiomqtt.Message) -> Message:
        given = message.properties.json() if message.properties else {}
        return Message(
            message.topic.value,
            message.payload,
            message.qos,
            bool(message.retain),
            Properties(
                given.get("ContentType"),
                given.get("ResponseTopic"),
                bytes.fromhex(given["CorrelationData"]) if "CorrelationData" in given else None,
                given.get("PayloadFormatIndicator"),
                given.get("MessageExpiryInterval"),
                given.get("TopicAlias"),
                tuple(tuple(pair) for pair in given.get("UserProperty", ())),
                tuple(given.get("SubscriptionIdentifier", ())),
            ),
        )

    def connect(self) -> Connected:
        wait_for(self.client.__aenter__())
        self.reading = asyncio.run_coroutine_threadsafe(self._read(), event_loop())
        return self.connected

    def subscribe(
        self, *filters, qos=0, no_local=False, retain_as_published=False, retain_handling=0, identifier=None
    ) -> list[int]:
        if self.version == 5:
            options = SubscribeOptions(qos, no_local, retain_as_published, retain_handling)
            properties = PahoProperties(PacketTypes.SUBSCRIBE)
            if identifier:
                properties.SubscriptionIdentifier = identifier
            given = wait_for(self.client.subscribe([(one, options) for one in filters], properties=properties))
        else:
            given = wait_for(self.client.subscribe([(one, qos) for one in filters]))
        return [getattr(reason, "value", reason) for reason in given]

    def unsubscribe(self, filter):
        wait_for(self.client.unsubscribe(filter))

    def publish(self, topic, payload, *, qos=0, retain=False, properties=None):
        given = None
        if properties:
            given = PahoProperties(PacketTypes.PUBLISH)
            for name, value in {
                "ContentType": properties.content_type,
                "ResponseTopic": properties.response_topic,
                "CorrelationData": properties.correlation_data,
                "PayloadFormatIndicator": properties.payload_format,
                "MessageExpiryInterval": properties.expiry_seconds,
                "TopicAlias": properties.topic_alias,
                "UserProperty": list(properties.user) or None,
            }.items():
                if value is not None:
                    setattr(given, name, value)
        wait_for(self.client.publish(topic, payload, qos, retain, given))

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
        wait_for(self.client.__aexit__(None, None, None))

    def drop(self):
        connection = self.client._client.socket()
        if connection:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the broker was first
            self.ended.wait(PATIENCE)
        if self.reading:
            self.reading.exception(PATIENCE)

    def wait_disconnected(self, seconds=PATIENCE) -> int:
        assert self.ended.wait(seconds), "the broker does not end the connection"
        return self.ending_reason


class TestVersion311(Scenarios):
    library = AiomqttClient
    version = 4
    cannot = {
        "test_what_was_in_flight_comes_again": BY_ITSELF,
        "test_what_was_acknowledged_by_hand_does_not": BY_ITSELF,
    }


class TestVersion5(Version5Scenarios):
    library = AiomqttClient
    cannot = TestVersion311.cannot | {
        "test_receive_maximum_holds_back": BY_ITSELF,
        "test_the_server_says_what_it_allows": NO_CONNACK,
    }

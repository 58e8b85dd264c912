"""gmqtt, an asyncio client that is no wrapper of Paho."""

import asyncio
import queue
import threading

import gmqtt
from gmqtt.mqtt.constants import MQTTv50, MQTTv311
from harness.waiting import PATIENCE

from libraries.client import Connected, LibraryClient, Message, Properties, Session
from libraries.event_loop import call, wait_for
from libraries.scenarios import Scenarios, Version5Scenarios

WINDOW = "gmqtt raises OverflowError, and does not wait, when as many messages are in flight as the server allows"


def first(properties: dict, name: str):
    """gmqtt keeps a list for each property that may come more than once, and some that may not."""
    value = properties.get(name)
    return value[0] if isinstance(value, list) else value


class Sent:
    """gmqtt says only when all that was published is over."""

    def __init__(self, client: gmqtt.Client):
        self.client = client

    def is_published(self) -> bool:
        return self.client._persistent_storage.is_empty


class GMQTTClient(LibraryClient):
    def __init__(self, port: int, version: int, session: Session):
        super().__init__(port, version, session)
        self.messages: queue.Queue[Message] = queue.Queue()
        self.answers: queue.Queue = queue.Queue()
        self.ended = threading.Event()
        self.ending_reason = 0
        call(self._make)

    def _make(self):
        session, options = self.session, {}
        if self.version == 5:
            options["session_expiry_interval"] = session.expiry_seconds
            if session.receive_maximum:
                options["receive_maximum"] = session.receive_maximum
        will = session.will
        self.client = gmqtt.Client(
            session.client_id,
            clean_session=session.clean,
            optimistic_acknowledgement=not session.acknowledges_by_hand,
            will_message=will and gmqtt.Message(will.topic, will.payload, will.qos, will.retain),
            **options,
        )
        self.client.set_config({"reconnect_retries": 0, "reconnect_delay": 3600})
        self.client.on_connect = lambda client, present, reason, properties: self.answers.put((present, reason, properties))
        self.client.on_subscribe = lambda client, identifier, reasons, properties: self.answers.put(reasons)
        self.client.on_unsubscribe = lambda client, identifier, reasons: self.answers.put(reasons)
        self.client.on_message = self._held if session.acknowledges_by_hand else self._received
        self.client.on_disconnect = self._disconnected

    def _disconnected(self, client, packet, error=None):
        # What comes first counts: the DISCONNECT, if there is one, comes ahead of the end of the connection.
        if not self.ended.is_set() and isinstance(packet, dict):
            self.ending_reason = packet.get("reason_code", 0)
        elif not self.ended.is_set() and isinstance(packet, bytes | bytearray) and packet:
            self.ending_reason = packet[0]
        self.ended.set()

    async def _held(self, client, topic, payload, qos, properties) -> int:
        released = asyncio.Event()
        self._received(client, topic, payload, qos, properties, released)
        await released.wait()
        return 0

    def _received(self, client, topic, payload, qos, properties, handle=None) -> int:
        self.messages.put(
            Message(
                topic,
                bytes(payload),
                qos,
                bool(properties["retain"]),
                Properties(
                    first(properties, "content_type"),
                    first(properties, "response_topic"),
                    first(properties, "correlation_data"),
                    first(properties, "payload_format_id"),
                    first(properties, "message_expiry_interval"),
                    first(properties, "topic_alias"),
                    tuple(properties.get("user_property", ())),
                    tuple(properties.get("subscription_identifier", ())),
                ),
                handle,
            )
        )
        return 0

    def connect(self) -> Connected:
        version = MQTTv50 if self.version == 5 else MQTTv311
        wait_for(self.client.connect("127.0.0.1", self.port, keepalive=self.session.keep_alive, version=version))
        present, reason, properties = self.answers.get(timeout=PATIENCE)
        return Connected(
            bool(present),
            reason,
            first(properties, "assigned_client_identifier"),
            first(properties, "receive_maximum"),
            first(properties, "topic_alias_maximum"),
            first(properties, "maximum_packet_size"),
        )

    def subscribe(
        self, *filters, qos=0, no_local=False, retain_as_published=False, retain_handling=0, identifier=None
    ) -> list[int]:
        subscriptions = [
            gmqtt.Subscription(filter, qos, no_local, retain_as_published, retain_handling) for filter in filters
        ]
        call(self.client.subscribe, subscriptions, **({"subscription_identifier": identifier} if identifier else {}))
        return list(self.answers.get(timeout=PATIENCE))

    def unsubscribe(self, filter):
        call(self.client.unsubscribe, filter)
        self.answers.get(timeout=PATIENCE)

    def publish(self, topic, payload, *, qos=0, retain=False, properties=None):
        given = properties or Properties()
        named = {
            "content_type": given.content_type,
            "response_topic": given.response_topic,
            "correlation_data": given.correlation_data,
            "payload_format_id": given.payload_format,
            "message_expiry_interval": given.expiry_seconds,
            "topic_alias": given.topic_alias,
            "user_property": list(given.user) or None,
        }
        call(
            self.client.publish, topic, payload, qos, retain,
            **{name: value for name, value in named.items() if value is not None},
        )  # fmt: skip
        wait_for(self.client._persistent_storage.wait_empty())

    def start_publishing(self, topic, payload, *, qos):
        call(self.client.publish, topic, payload, qos)
        return Sent(self.client)

    def next_message(self, seconds=PATIENCE) -> Message:
        try:
            return self.messages.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no message for {self.session.client_id!r}") from None

    def acknowledge(self, message):
        call(message.handle.set)

    def disconnect(self):
        wait_for(self.client.disconnect())

    def drop(self):
        if self.client._connection:
            self.client._is_active = False
            call(self.client._connection._transport.abort)

    def wait_disconnected(self, seconds=PATIENCE) -> int:
        assert self.ended.wait(seconds), "the broker does not end the connection"
        return self.ending_reason


class TestVersion311(Scenarios):
    library = GMQTTClient
    version = 4


class TestVersion5(Version5Scenarios):
    library = GMQTTClient
    cannot = {
        "test_the_server_says_what_it_allows": "gmqtt makes up a client identifier when it is given none",
        "test_a_thousand_in_order[1]": WINDOW,
        "test_a_thousand_in_order[2]": WINDOW,
    }

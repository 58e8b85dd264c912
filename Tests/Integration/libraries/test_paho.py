"""Eclipse Paho for Python, 2.x."""

import queue
import socket
import threading

import paho.mqtt.client as paho
from harness.waiting import PATIENCE
from libraries.client import Connected, LibraryClient, Message, Properties, Session
from libraries.scenarios import Scenarios, Version5Scenarios
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties
from paho.mqtt.subscribeoptions import SubscribeOptions


class PahoClient(LibraryClient):
    def __init__(self, port: int, version: int, session: Session):
        super().__init__(port, version, session)
        self.messages: queue.Queue[Message] = queue.Queue()
        self.answers: queue.Queue = queue.Queue()
        self.ended = threading.Event()
        self.ending_reason = 0
        self.paho = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id=session.client_id,
            clean_session=None if version == 5 else session.clean,
            protocol=paho.MQTTProtocolVersion(version),
            manual_ack=session.acknowledges_by_hand,
            reconnect_on_failure=False,
        )
        self.paho.on_connect = lambda client, data, flags, reason, properties: self.answers.put((flags, reason, properties))
        self.paho.on_subscribe = lambda client, data, identifier, reasons, properties: self.answers.put(reasons)
        self.paho.on_unsubscribe = lambda client, data, identifier, reasons, properties: self.answers.put(reasons)
        self.paho.on_message = lambda client, data, message: self.messages.put(self._message(message))
        self.paho.on_disconnect = self._disconnected
        if session.will:
            self.paho.will_set(session.will.topic, session.will.payload, session.will.qos, session.will.retain)

    def _disconnected(self, client, data, flags, reason, properties):
        self.ending_reason = reason.value if flags.is_disconnect_packet_from_server else 0
        self.ended.set()

    @staticmethod
    def _message(message: paho.MQTTMessage) -> Message:
        given = message.properties.json() if message.properties else {}
        return Message(
            message.topic,
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
            message,
        )

    def connect(self) -> Connected:
        options = {}
        if self.version == 5:
            options["clean_start"] = self.session.clean
            options["properties"] = PahoProperties(PacketTypes.CONNECT)
            options["properties"].SessionExpiryInterval = self.session.expiry_seconds
            if self.session.receive_maximum:
                options["properties"].ReceiveMaximum = self.session.receive_maximum
        self.paho.connect("127.0.0.1", self.port, self.session.keep_alive, **options)
        self.paho.loop_start()
        flags, reason, properties = self.answers.get(timeout=PATIENCE)
        given = properties.json() if properties else {}
        return Connected(
            flags.session_present,
            reason.value,
            given.get("AssignedClientIdentifier"),
            given.get("ReceiveMaximum"),
            given.get("TopicAliasMaximum"),
            given.get("MaximumPacketSize"),
        )

    def subscribe(
        self, *filters, qos=0, no_local=False, retain_as_published=False, retain_handling=0, identifier=None
    ) -> list[int]:
        if self.version == 5:
            options = SubscribeOptions(qos, no_local, retain_as_published, retain_handling)
            properties = PahoProperties(PacketTypes.SUBSCRIBE)
            if identifier:
                properties.SubscriptionIdentifier = identifier
            self.paho.subscribe([(filter, options) for filter in filters], properties=properties)
        else:
            self.paho.subscribe([(filter, qos) for filter in filters])
        return [reason.value for reason in self.answers.get(timeout=PATIENCE)]

    def unsubscribe(self, filter):
        self.paho.unsubscribe(filter)
        self.answers.get(timeout=PATIENCE)

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
        sent = self.paho.publish(topic, payload, qos, retain, given)
        sent.wait_for_publish(PATIENCE)
        assert sent.is_published(), f"no handshake for {topic}"

    def start_publishing(self, topic, payload, *, qos):
        return self.paho.publish(topic, payload, qos)

    def next_message(self, seconds=PATIENCE) -> Message:
        try:
            return self.messages.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no message for {self.session.client_id!r}") from None

    def acknowledge(self, message):
        self.paho.ack(message.handle.mid, message.handle.qos)

    def disconnect(self):
        self.paho.disconnect()
        assert self.ended.wait(PATIENCE)
        self.paho.loop_stop()

    def drop(self):
        connection = self.paho.socket()
        if connection:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the broker was first
        self.paho.loop_stop()

    def wait_disconnected(self, seconds=PATIENCE) -> int:
        assert self.ended.wait(seconds), "the broker does not end the connection"
        return self.ending_reason


class TestVersion311(Scenarios):
    library = PahoClient
    version = 4


class TestVersion5(Version5Scenarios):
    library = PahoClient

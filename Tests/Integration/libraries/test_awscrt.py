"""The MQTT 5 client of the AWS Common Runtime, which awsiotsdk is built on; version 5 is all that it speaks."""

import queue
import threading
from concurrent.futures import Future

from awscrt import mqtt5
from harness.waiting import PATIENCE

from libraries.client import Connected, LibraryClient, Message, Properties, Session
from libraries.scenarios import Version5Scenarios

NO_QOS_2 = "awscrt has QoS 0 and 1 only"
NEVER_AGAIN_MS = 3_600_000


class Sent:
    def __init__(self, future: Future):
        self.future = future

    def is_published(self) -> bool:
        return self.future.done()


class AWSClient(LibraryClient):
    def __init__(self, port: int, version: int, session: Session):
        super().__init__(port, version, session)
        self.messages: queue.Queue[Message] = queue.Queue()
        self.answers: queue.Queue = queue.Queue()
        self.ended = threading.Event()
        self.stopped = threading.Event()
        self.started = False
        self.ending_reason = 0
        will = session.will
        self.client = mqtt5.Client(
            mqtt5.ClientOptions(
                host_name="127.0.0.1",
                port=port,
                connect_options=mqtt5.ConnectPacket(
                    keep_alive_interval_sec=session.keep_alive,
                    client_id=session.client_id,
                    session_expiry_interval_sec=session.expiry_seconds,
                    receive_maximum=session.receive_maximum,
                    will=will and mqtt5.PublishPacket(
                        payload=will.payload, qos=mqtt5.QoS(will.qos), retain=will.retain, topic=will.topic
                    ),
                ),
                session_behavior=(
                    mqtt5.ClientSessionBehaviorType.CLEAN
                    if session.clean
                    else mqtt5.ClientSessionBehaviorType.REJOIN_ALWAYS
                ),
                min_reconnect_delay_ms=NEVER_AGAIN_MS,
                max_reconnect_delay_ms=NEVER_AGAIN_MS,
                disable_metrics=True,
                on_publish_callback_fn=self._received,
                on_lifecycle_event_connection_success_fn=lambda data: self.answers.put(data.connack_packet),
                on_lifecycle_event_connection_failure_fn=lambda data: self.answers.put(data.connack_packet),
                on_lifecycle_event_disconnection_fn=self._disconnected,
                on_lifecycle_event_stopped_fn=lambda data: self.stopped.set(),
            )
        )

    def _disconnected(self, data: mqtt5.LifecycleDisconnectData):
        self.ending_reason = int(data.disconnect_packet.reason_code) if data.disconnect_packet else 0
        self.ended.set()

    def _received(self, data: mqtt5.PublishReceivedData):
        packet = data.publish_packet
        by_hand = self.session.acknowledges_by_hand and packet.qos == 1
        correlation = packet.correlation_data_bytes
        self.messages.put(
            Message(
                packet.topic,
                packet.payload or b"",
                int(packet.qos),
                packet.retain,
                Properties(
                    packet.content_type,
                    packet.response_topic,
                    correlation,
                    None if packet.payload_format_indicator is None else int(packet.payload_format_indicator),
                    packet.message_expiry_interval_sec,
                    packet.topic_alias,
                    tuple((one.name, one.value) for one in packet.user_properties or ()),
                    tuple(packet.subscription_identifiers or ()),
                ),
                data.acquire_publish_acknowledgement_control() if by_hand else None,
            )
        )

    def connect(self) -> Connected:
        self.client.start()
        self.started = True
        packet = self.answers.get(timeout=PATIENCE)
        return Connected(
            packet.session_present,
            int(packet.reason_code),
            packet.assigned_client_identifier,
            packet.receive_maximum,
            packet.topic_alias_maximum,
            packet.maximum_packet_size,
        )

    def subscribe(
        self, *filters, qos=0, no_local=False, retain_as_published=False, retain_handling=0, identifier=None
    ) -> list[int]:
        subscriptions = [
            mqtt5.Subscription(
                filter, mqtt5.QoS(qos), no_local, retain_as_published, mqtt5.RetainHandlingType(retain_handling)
            )
            for filter in filters
        ]
        sent = self.client.subscribe(mqtt5.SubscribePacket(subscriptions, identifier))
        return [int(reason) for reason in sent.result(PATIENCE).reason_codes]

    def unsubscribe(self, filter):
        self.client.unsubscribe(mqtt5.UnsubscribePacket([filter])).result(PATIENCE)

    def publish(self, topic, payload, *, qos=0, retain=False, properties=None):
        given = properties or Properties()
        packet = mqtt5.PublishPacket(
            payload=payload,
            qos=mqtt5.QoS(qos),
            retain=retain,
            topic=topic,
            payload_format_indicator=given.payload_format
            if given.payload_format is None
            else mqtt5.PayloadFormatIndicator(given.payload_format),
            message_expiry_interval_sec=given.expiry_seconds,
            topic_alias=given.topic_alias,
            response_topic=given.response_topic,
            correlation_data=given.correlation_data,
            content_type=given.content_type,
            user_properties=[mqtt5.UserProperty(key, value) for key, value in given.user],
        )
        self.client.publish(packet).result(PATIENCE)

    def start_publishing(self, topic, payload, *, qos):
        return Sent(self.client.publish(mqtt5.PublishPacket(payload=payload, qos=mqtt5.QoS(qos), topic=topic)))

    def next_message(self, seconds=PATIENCE) -> Message:
        try:
            return self.messages.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no message for {self.session.client_id!r}") from None

    def acknowledge(self, message):
        self.client.invoke_publish_acknowledgement(message.handle)

    def disconnect(self):
        self.client.stop(mqtt5.DisconnectPacket())
        assert self.stopped.wait(PATIENCE)
        self.started = False

    def drop(self):
        if self.started:
            self.client.stop()  # without a packet to send, it sends none
            assert self.stopped.wait(PATIENCE)
            self.started = False

    def wait_disconnected(self, seconds=PATIENCE) -> int:
        assert self.ended.wait(seconds), "the broker does not end the connection"
        return self.ending_reason


class TestVersion5(Version5Scenarios):
    library = AWSClient
    cannot = {
        "test_publish_and_subscribe[2]": NO_QOS_2,
        "test_a_thousand_in_order[2]": NO_QOS_2,
        "test_retained[2]": NO_QOS_2,
        "test_will[2]": NO_QOS_2,
        "test_topic_aliases": "awscrt gives out topic aliases by itself: an application cannot publish without a topic",
    }

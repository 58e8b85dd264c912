"""The same list of scenarios for every client library: a class to inherit for each, with `library` and `version` filled in."""

import pytest
from harness.waiting import wait_until

from libraries.client import LibraryClient, Message, Properties, Session

FENCE = "fence/of/the/test"


class Scenarios:
    """What every version can do."""

    #: The adapter of the library.
    library: type[LibraryClient]
    version: int
    #: Why the library, not the broker, cannot run a scenario: by the test's name, with or without its parameters.
    cannot: dict[str, str] = {}

    @pytest.fixture(autouse=True)
    def clients(self, request):
        for name in (request.node.name, request.node.originalname):
            if reason := self.cannot.get(name):
                pytest.skip(reason)
        self.broker = request.getfixturevalue("broker")
        self.port = self.broker.port
        self.opened: list[LibraryClient] = []
        yield
        for client in self.opened:
            client.drop()

    def client(self, client_id: str = "", *, connects: bool = True, **session) -> LibraryClient:
        client = self.library(self.port, self.version, Session(client_id, **session))
        self.opened.append(client)
        if connects:
            assert client.connect().reason == 0
        return client

    def sleeper(self, connects: bool = True, **session) -> LibraryClient:
        """A client whose session stays when it goes."""
        return self.client("sleeper", connects=connects, clean=False, expiry_seconds=3600, **session)

    def rest(self, client: LibraryClient, publisher: LibraryClient) -> list[Message]:
        """All that comes ahead of a message sent now, to a topic that the client is to be subscribed to, with QoS 1."""
        client.subscribe(FENCE, qos=1)
        publisher.publish(FENCE, b"", qos=1)
        messages = []
        while (message := client.next_message()).topic != FENCE:
            messages.append(message)
        return messages

    @staticmethod
    def settle(client: LibraryClient):
        """Returns when the broker has done all that the client sent before: an answer comes in order."""
        client.publish("settle", b"", qos=1)

    @pytest.mark.parametrize("qos", [0, 1, 2])
    def test_publish_and_subscribe(self, qos):
        subscriber, publisher = self.client("subscriber"), self.client("publisher")
        assert subscriber.subscribe("topic", qos=qos) == [qos]
        publisher.publish("topic", b"hello", qos=qos)
        assert subscriber.next_message() == Message("topic", b"hello", qos)

    @pytest.mark.parametrize("qos", [0, 1, 2])
    def test_a_thousand_in_order(self, qos):
        subscriber, publisher = self.client("subscriber"), self.client("publisher")
        subscriber.subscribe("topic", qos=qos)
        sent = [publisher.start_publishing("topic", str(number).encode(), qos=qos) for number in range(1000)]
        assert [int(subscriber.next_message().payload) for _ in range(1000)] == list(range(1000))
        wait_until(lambda: all(one.is_published() for one in sent), "every handshake is over")

    def test_one_client_subscribes_and_publishes(self):
        client = self.client("both")
        client.subscribe("topic", qos=1)
        client.publish("topic", b"hello", qos=1)
        assert client.next_message().payload == b"hello"

    def test_several_filters_in_one_subscribe(self):
        client = self.client("several")
        assert client.subscribe("a/+", "b/#", "c", qos=1) == [1, 1, 1]
        for topic in ["a/1", "b/2/3", "c", "d"]:
            client.publish(topic, b"", qos=1)
        assert [message.topic for message in self.rest(client, client)] == ["a/1", "b/2/3", "c"]

    def test_unsubscribe(self):
        client = self.client("leaver")
        client.subscribe("topic", qos=1)
        client.unsubscribe("topic")
        client.publish("topic", b"nobody", qos=1)
        assert self.rest(client, client) == []

    def test_a_megabyte(self):
        client = self.client("large")
        client.subscribe("large", qos=1)
        payload = bytes(range(256)) * 4000
        client.publish("large", payload, qos=1)
        assert client.next_message().payload == payload

    @pytest.mark.parametrize("qos", [0, 1, 2])
    def test_retained(self, qos):
        publisher = self.client("publisher")
        publisher.publish("kept", b"value", qos=qos, retain=True)
        self.settle(publisher)
        later = self.client("later")
        later.subscribe("kept", qos=max(qos, 1))
        assert later.next_message() == Message("kept", b"value", qos, True)
        publisher.publish("kept", b"", qos=1, retain=True)
        assert later.next_message() == Message("kept", b"", 1, False)
        latest = self.client("latest")
        latest.subscribe("kept", qos=1)
        assert self.rest(latest, publisher) == []

    @pytest.mark.parametrize("qos", [0, 1, 2])
    def test_will(self, qos):
        observer = self.client("observer")
        observer.subscribe("wills/#", qos=max(qos, 1))
        self.client("doomed", will=Message("wills/doomed", b"gone", qos)).drop()
        assert observer.next_message() == Message("wills/doomed", b"gone", qos)

    def test_no_will_after_a_goodbye(self):
        observer = self.client("observer")
        observer.subscribe("wills/#", qos=1)
        self.client("polite", will=Message("wills/polite", b"gone")).disconnect()
        self.broker.wait_for_log("polite.*disconnected")
        assert self.rest(observer, observer) == []

    def test_a_session_is_resumed(self):
        first = self.sleeper(connects=False)
        assert not first.connect().session_present
        first.subscribe("kept", qos=1)
        first.disconnect()
        self.client("publisher").publish("kept", b"while away", qos=1)
        second = self.sleeper(connects=False)
        assert second.connect().session_present
        assert second.next_message().payload == b"while away"

    def test_what_was_in_flight_comes_again(self):
        # With QoS 2 the second client would need the first one's memory: see test_sessions.py for that handshake.
        first = self.sleeper(acknowledges_by_hand=True)
        first.subscribe("inflight", qos=1)
        publisher = self.client("publisher")
        for number in range(5):
            publisher.publish("inflight", str(number).encode(), qos=1)
        assert [first.next_message().payload for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
        first.drop()
        second = self.sleeper()
        assert [second.next_message().payload for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]

    def test_what_was_acknowledged_by_hand_does_not(self):
        first = self.sleeper(acknowledges_by_hand=True)
        first.subscribe("inflight", FENCE, qos=1)
        publisher = self.client("publisher")
        for number in range(3):
            publisher.publish("inflight", str(number).encode(), qos=1)
        messages = [first.next_message() for _ in range(3)]
        first.acknowledge(messages[0])
        first.acknowledge(messages[1])
        self.settle(first)
        first.drop()
        second = self.sleeper()
        assert [message.payload for message in self.rest(second, publisher)] == [b"2"]

    def test_takeover(self):
        first = self.client("same")
        second = self.client("same")
        reason = first.wait_disconnected()
        if self.version == 5 and self.broker.program.is_martlet:
            assert reason == 0x8E
        second.publish("still", b"here", qos=1)

    def test_a_crowd(self):
        clients = [self.client(f"client {number}", connects=False) for number in range(self.library.crowd)]
        for client in clients:
            assert client.connect().reason == 0
        for client in clients:
            client.subscribe("crowd", qos=1)
        clients[0].publish("crowd", b"hello", qos=1)
        assert [client.next_message().payload for client in clients] == [b"hello"] * len(clients)


class Version5Scenarios(Scenarios):
    """What version 5 added."""

    version = 5

    def test_the_server_says_what_it_allows(self):
        answer = self.client("", connects=False).connect()
        assert answer.assigned_client_id
        assert answer.receive_maximum == 20
        assert answer.topic_alias_maximum == 10

    def test_properties_are_passed_on(self):
        client = self.client("describer")
        client.subscribe("described", qos=1)
        sent = Properties("text/plain", "answers", b"\x00\x01", 1, 100, user=(("k", "1"), ("l", "2")))
        client.publish("described", b"hello", qos=1, properties=sent)
        received = client.next_message().properties
        assert received.user == sent.user
        assert (received.content_type, received.response_topic) == (sent.content_type, sent.response_topic)
        assert (received.correlation_data, received.payload_format) == (sent.correlation_data, sent.payload_format)
        assert 98 <= received.expiry_seconds <= 100

    def test_user_properties_keep_their_order(self):
        client = self.client("describer")
        client.subscribe("described", qos=1)
        sent = Properties(user=(("k", "1"), ("l", "2"), ("k", "3")))
        client.publish("described", b"hello", qos=1, properties=sent)
        assert client.next_message().properties.user == sent.user

    def test_topic_aliases(self):
        subscriber, publisher = self.client("subscriber"), self.client("publisher")
        subscriber.subscribe("long/#", qos=1)
        publisher.publish("long/topic", b"1", qos=1, properties=Properties(topic_alias=3))
        publisher.publish("", b"2", qos=1, properties=Properties(topic_alias=3))
        publisher.publish("long/other", b"3", qos=1, properties=Properties(topic_alias=3))
        publisher.publish("", b"4", qos=1, properties=Properties(topic_alias=3))
        received = [subscriber.next_message() for _ in range(4)]
        assert [(message.topic, message.payload) for message in received] == [
            ("long/topic", b"1"),
            ("long/topic", b"2"),
            ("long/other", b"3"),
            ("long/other", b"4"),
        ]

    def test_subscription_identifiers(self):
        client = self.client("counter")
        client.subscribe("a/+", qos=1, identifier=7)
        client.subscribe("b/+", qos=1, identifier=268_435_455)
        client.publish("a/x", b"", qos=1)
        client.publish("b/x", b"", qos=1)
        assert client.next_message().properties.subscription_identifiers == (7,)
        assert client.next_message().properties.subscription_identifiers == (268_435_455,)

    def test_no_local(self):
        client, other = self.client("speaker"), self.client("other")
        client.subscribe("room", qos=1, no_local=True)
        client.publish("room", b"mine", qos=1)
        other.publish("room", b"theirs", qos=1)
        assert [message.payload for message in self.rest(client, other)] == [b"theirs"]

    @pytest.mark.parametrize("as_published", [True, False])
    def test_retain_as_published(self, as_published):
        client = self.client("keeper")
        client.subscribe("kept", qos=1, retain_as_published=as_published)
        client.publish("kept", b"value", qos=1, retain=True)
        assert client.next_message().retain is as_published

    @pytest.mark.parametrize("handling, times", [(0, 2), (1, 1), (2, 0)])
    def test_retain_handling(self, handling, times):
        client = self.client("handler")
        client.publish("kept", b"value", qos=1, retain=True)
        client.subscribe("kept", qos=1, retain_handling=handling)
        client.subscribe("kept", qos=1, retain_handling=handling)
        assert len(self.rest(client, client)) == times

    def test_receive_maximum_holds_back(self):
        client = self.client("slow", receive_maximum=2, acknowledges_by_hand=True)
        client.subscribe("work", qos=1)
        publisher = self.client("publisher")
        for number in range(5):
            publisher.publish("work", str(number).encode(), qos=1)
        first, second = client.next_message(), client.next_message()
        with pytest.raises(TimeoutError):
            client.next_message(0.3)
        client.acknowledge(first)
        client.acknowledge(second)
        assert client.next_message().payload == b"2"

    def test_shared_subscription(self):
        workers = [self.client(f"worker {number}") for number in range(2)]
        for worker in workers:
            worker.subscribe("$share/group/work", qos=1)
        publisher = self.client("publisher")
        for number in range(20):
            publisher.publish("work", str(number).encode(), qos=1)
        shares = [[int(message.payload) for message in self.rest(worker, publisher)] for worker in workers]
        assert sorted(shares[0] + shares[1]) == list(range(20))
        assert shares[0] and shares[1]

    def test_the_server_says_goodbye(self):
        client = self.client("last")
        assert self.broker.stop() == 0
        reason = client.wait_disconnected()
        if self.broker.program.is_martlet:
            assert reason == 0x8B

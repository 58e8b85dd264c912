"""What an acknowledgement promises, each as a storm that the promise has to survive. The tests say what ends the broker, and on what disk."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import NamedTuple

from harness.waiting import PATIENCE
from harness.wire import PUBLISH, Wire

from durability.history import History
from durability.peer import Peer, Publication
from durability.storm import Storm

TOPICS = 2


class Messages(NamedTuple):
    """Of one topic, by number."""

    #: The broker has them.
    owed: set[int]
    #: Refused when they were sent again: the first time, which nobody answered, they may have gone their way.
    unknown: set[int]


class Publisher:
    """Counts up on topics of its own."""

    def __init__(self, peer: Peer, qos: int, padding: int = 0):
        self.peer = peer
        self.padding = " " * padding
        self.sent = {f"load/{peer.client_id}/{number}": 0 for number in range(TOPICS)}
        self.qos = qos
        peer.feed = self._feed()

    def _feed(self) -> Iterator[Publication]:
        while True:
            for topic in self.sent:
                self.sent[topic] += 1
                yield Publication(topic, f"{self.sent[topic] - 1}{self.padding}", self.qos)

    def messages(self, topic: str) -> Messages:
        refused = {int(publication.payload): publication for publication in self.peer.refused if publication.topic == topic}
        unknown = {number for number, publication in refused.items() if publication.is_sent_again}
        return Messages(owed=set(range(self.sent[topic])) - refused.keys(), unknown=unknown)

    async def finish(self):
        """A last message on each topic, when what it owes has its end."""
        await self.peer.until_acknowledged()
        for topic in self.sent:
            self.peer.publish(Publication(topic, "end", self.qos))
        await self.peer.until_acknowledged()


async def finish(publishers: list[Publisher]) -> dict[str, Messages]:
    """Lets the publishers come to their end; tells what each topic had."""
    for publisher in publishers:
        publisher.peer.feed = None
    for publisher in publishers:
        await publisher.finish()
    return {topic: publisher.messages(topic) for publisher in publishers for topic in publisher.sent}


def patience(topics: dict[str, Messages]) -> float:
    """Seconds that all of it may take at the most: of the many messages of many rounds a busy machine brings two hundred a second."""
    return 2 * PATIENCE + sum(len(had.owed) for had in topics.values()) / 200


async def messages(storm: Storm, qos: int, most: int = 1500, padding: int = 0):
    """Queued and in-flight messages: all arrive, in order; those of QoS 2 once."""
    publishers = [Publisher(storm.peer(f"publisher-{version}", version), qos, padding) for version in ("mqttv311", "mqttv5")]
    online, flapping, offline = [storm.peer(f"{kind}-subscriber") for kind in ("online", "flapping", "offline")]
    writers = [publisher.peer for publisher in publishers]
    storm.machine.start()
    await storm.connect([online, flapping, offline])
    for subscriber in (online, flapping, offline):
        subscriber.subscribe("load/#", qos)
        await subscriber.until_answered()
        subscriber.drop()
    for _ in range(storm.rounds):
        await storm.rage(
            [*writers, online, flapping], lambda: sum(peer.acknowledged for peer in writers), most=most, half_way=flapping.drop)  # fmt: skip
        storm.machine.start()
    await storm.connect([*writers, online, flapping, offline])
    topics = await finish(publishers)
    for subscriber in (online, flapping, offline):
        await storm.pulse.until(
            partial(has_ended, subscriber, len(topics)), f"the last messages reach {subscriber.client_id}", seconds=patience(topics))
        for topic, had in topics.items():
            check_arrivals(subscriber, topic, had, qos)


async def shared(storm: Storm, qos: int, most: int = 1000):
    """Messages of a share group, whose members come and go: each arrives at one of them; those of QoS 2 once."""
    publishers = [Publisher(storm.peer(f"publisher-{number}"), qos) for number in range(2)]
    members = [storm.peer(f"member-{number}") for number in range(4)]
    writers = [publisher.peer for publisher in publishers]
    storm.machine.start()
    for member in members:
        await member.connect(storm.machine.port)
        member.subscribe("$share/group/load/#", qos)
        await member.until_answered()
        member.drop()
    for _ in range(storm.rounds):
        await storm.rage(
            [*writers, *members[1:]], lambda: sum(peer.acknowledged for peer in writers), most=most, half_way=members[1].drop)  # fmt: skip
        storm.machine.start()
    await storm.connect([*members, *writers])
    topics = await finish(publishers)
    owed = {(topic, str(number)) for topic, had in topics.items() for number in had.owed}

    def came() -> list[tuple[str, str]]:
        return [(delivery.topic, delivery.payload) for member in members for delivery in member.deliveries if delivery.payload != "end"]

    try:
        await storm.pulse.until(lambda: len(came()) >= len(owed) and owed <= set(came()), "every message arrives", seconds=patience(topics))
    except AssertionError:
        lost = sorted(owed - set(came()))
        raise AssertionError(f"{len(lost)} of {len(owed)} lost: {lost[:20]}") from None
    if qos == 2:
        twice = [message for message, number in Counter(came()).items() if number > 1]
        assert not twice, f"{len(twice)} of {len(owed)} came twice: {twice[:20]}"


def has_ended(subscriber: Peer, topics: int) -> bool:
    """Whether the last message of each topic has come, not far from each other at the end."""
    return sum(delivery.payload == "end" for delivery in subscriber.deliveries[-1000:]) >= topics


def check_arrivals(subscriber: Peer, topic: str, had: Messages, qos: int):
    came = [int(delivery.payload) for delivery in subscriber.deliveries if delivery.topic == topic and delivery.payload != "end"]
    first = list(dict.fromkeys(came))
    where = f"{subscriber.client_id}, {topic}, of {len(had.owed)}"
    assert not (lost := sorted(had.owed - set(came))), f"{where}: {len(lost)} lost: {lost[:20]}"
    assert not (refused := sorted(set(came) - had.owed - had.unknown)), f"{where}: refused, and came: {refused[:20]}"
    assert first == sorted(first), f"{where}: out of order: {[pair for pair in zip(first, first[1:]) if pair[0] > pair[1]][:20]}"
    twice = len(came) - len(first)
    assert qos < 2 or not twice, f"{where}: {twice} came twice: {sorted({n for n in came if came.count(n) > 1})[:20]}"


async def retained(storm: Storm, most: int = 800):
    """Retained messages: each topic holds the last value that was acknowledged, or one that was sent after it."""
    histories = {f"retained/{qos}/{number}": History("") for qos in (1, 2) for number in range(4)}
    writers = [storm.peer(f"writer-{qos}") for qos in (1, 2)]
    for qos, writer in zip((1, 2), writers):
        writer.feed = retained_values({topic: history for topic, history in histories.items() if f"/{qos}/" in topic}, qos)
    storm.machine.start()
    fence = Wire(storm.machine.port)
    fence.connect("fence")
    fence.publish("fence", "here", qos=1, retain=True)
    fence.receive()
    fence.close()
    for _ in range(storm.rounds):
        await storm.rage(writers, lambda: sum(writer.acknowledged for writer in writers), most=most)
        storm.machine.start()
        check_retained(storm, histories)
    for writer in writers:
        writer.feed = None
        await writer.connect(storm.machine.port)
        await writer.until_acknowledged()
    check_retained(storm, histories)


def retained_values(histories: dict[str, History], qos: int) -> Iterator[Publication]:
    """A value to each topic in turn; every seventh removes it."""
    for number in count(1):
        for topic, history in histories.items():
            publication = Publication(topic, str(number) if number % 7 else "", qos, retain=True)
            history.add(publication.payload, lambda publication=publication: publication.is_complete)
            yield publication


def check_retained(storm: Storm, histories: dict[str, History]):
    reader = Wire(storm.machine.port, "mqttv311")
    reader.connect("reader")
    reader.subscribe("retained/#")
    reader.send(bytes.fromhex("82 0a 0002 0005") + b"fence\0")
    values = {}
    try:
        # The fence may come before what another loop hands out.
        while "fence" not in values or any(values.get(topic, "") not in history.allowed() for topic, history in histories.items()):
            if (packet := reader.receive()).kind == PUBLISH:
                values[packet.topic] = packet.body[2 + len(packet.topic) :].decode()
    except TimeoutError:
        pass
    reader.close()
    assert values.pop("fence", None) == "here"
    for topic, history in histories.items():
        history.check(values.pop(topic, ""), topic)
    assert not values


async def subscriptions(storm: Storm, most: int = 400):
    """Subscriptions: those that were acknowledged are there, with QoS and identifier, and those that were ended are not."""
    changers = [Changer(storm, number) for number in range(3)]
    prober = storm.peer("prober")
    peers = [changer.peer for changer in changers]
    storm.machine.start()
    await storm.connect(peers)
    for changer in changers:
        changer.peer.subscribe("fence", 1)
        await changer.peer.until_answered()
        changer.peer.drop()
    for round_number in range(storm.rounds):
        for changer in changers:
            changer.is_at_work = True
        await storm.rage(peers, lambda: sum(changer.answered for changer in changers), most=most)
        for changer in changers:
            changer.is_at_work = False
        storm.machine.start()
        await storm.connect([*peers, prober])
        for topic in [topic for changer in changers for topic in changer.histories] + ["fence"]:
            prober.publish(Publication(topic, f"round {round_number}", 2 if topic != "fence" else 1))
        await prober.until_acknowledged()
        for changer in changers:
            await changer.check(f"round {round_number}")
        for peer in [*peers, prober]:
            peer.drop()


class Changer:
    """Subscribes and unsubscribes all the time, several requests in flight."""

    FILTERS, IN_FLIGHT = 5, 8

    def __init__(self, storm: Storm, number: int):
        self.storm = storm
        self.peer = storm.peer(f"changer-{number}", "mqttv5")
        self.histories = {f"changes/{number}/{index}": History(None) for index in range(self.FILTERS)}
        self.answered = 0
        self.is_at_work = False
        self.peer.on_session = self._begin

    def _begin(self):
        if self.is_at_work:
            for _ in range(self.IN_FLIGHT):
                self._change()

    def _change(self):
        chance = self.storm.random
        topic = chance.choice(list(self.histories))
        subscription = (chance.randint(0, 2), chance.randint(1, 100)) if chance.random() < 0.6 else None
        answer = Answer()
        self.histories[topic].add(subscription, lambda: answer.has_come)

        def answered():
            answer.has_come = True
            self.answered += 1
            self._change()

        if subscription:
            self.peer.subscribe(topic, subscription[0], subscription=subscription[1], on_answer=answered)
        else:
            self.peer.unsubscribe(topic, on_answer=answered)

    async def check(self, probe: str):
        """What comes of the probe tells what the broker holds; later changes start from there."""
        deliveries = self.peer.deliveries
        await self.storm.pulse.until(
            lambda: any(delivery.topic == "fence" and delivery.payload == probe for delivery in deliveries), "the fence")  # fmt: skip
        probes = [delivery for delivery in deliveries if delivery.payload == probe and delivery.topic != "fence"]
        came = {delivery.topic: (delivery.qos, delivery.properties[1]) for delivery in probes}
        for topic, history in self.histories.items():
            history.check(came.get(topic), topic)
            self.histories[topic] = History(came.get(topic))


class Answer:
    has_come = False

"""Share groups with members on three nodes: each message comes once over all of them."""

import itertools
import struct

import pytest
from harness.wire import PUBACK, PUBLISH, UNSUBACK, UNSUBSCRIBE, frame

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

topics = (f"groups{number}" for number in itertools.count())


@pytest.fixture
def connect(nodes, wire_to):
    """A client on the node with this index."""

    def open(index: int):
        wire = wire_to(nodes[index].port)
        assert wire.connect()[1] == 0
        return wire

    return open


def unsubscribe(wire, filter: str):
    name = filter.encode()
    wire.send(frame(UNSUBSCRIBE, 2, b"\0\1\0" + struct.pack(">H", len(name)) + name))
    wire.receive(UNSUBACK)


def came(members, topic: str, count: int, publish) -> list[list[int]]:
    """The numbers that each member gets of as many messages, each of which comes once, with nothing behind."""
    for number in range(count):
        publish(number)
    got = []
    for member in members:
        # Its end is a message that all get, behind the others.
        numbers = []
        while packet := member.receive(PUBLISH):
            if packet.qos:
                member.acknowledge(PUBACK, packet.identifier)
            if packet.topic != topic:
                break
            numbers.append(int(packet.body[-3:]))
        got.append(numbers)
    assert sorted(number for numbers in got for number in numbers) == list(range(count))
    return got


@pytest.mark.parametrize("qos", (0, 1))
@pytest.mark.parametrize("places", ((0,), (0, 1), (0, 1, 2), (2, 2, 2, 0)))
def test_each_message_comes_once_over_all_nodes(connect, qos, places):
    topic = next(topics)
    members = [connect(place) for place in places]
    for member in members:
        member.subscribe(f"{topic}end", 1)
        member.subscribe(f"$share/g/{topic}", 1)
    for sender in range(3):
        wire = connect(sender)

        def publish(number, wire=wire):
            for name in (topic, f"{topic}end")[: 1 + (number == 59)]:
                wire.publish(name, f"{number:03}", qos=qos, identifier=number + 1)
                if qos:
                    wire.receive(PUBACK)

        got = came(members, topic, 60, publish)
        # By turns, in the order of the publisher.
        assert [len(numbers) for numbers in got] == [60 // len(places)] * len(places)
        assert all(numbers == sorted(numbers) for numbers in got)


def test_a_member_that_goes_leaves_its_part_to_others_and_one_that_comes_has_one(connect):
    topic = next(topics)
    wire, first, second = connect(2), connect(0), connect(1)
    first.subscribe(f"{topic}end", 0)

    def publish(number):
        wire.publish(topic, f"{number:03}")
        if number == 19:
            wire.publish(f"{topic}end", "")

    # What SUBACK causes comes, each time.
    first.subscribe(f"$share/g/{topic}", 1)
    assert [len(numbers) for numbers in came([first], topic, 20, publish)] == [20]
    second.subscribe(f"{topic}end", 0)
    second.subscribe(f"$share/g/{topic}", 1)
    assert [len(numbers) for numbers in came([first, second], topic, 20, publish)] == [10, 10]
    unsubscribe(first, f"$share/g/{topic}")
    for number in range(20):
        publish(number)
    # Some were sent to the node that had a member a moment ago, and are passed on, behind what was sent later.
    packets = [second.receive(PUBLISH) for _ in range(21)]
    assert sorted(int(packet.body[-3:]) for packet in packets if packet.topic == topic) == list(range(20))
    first.receive(PUBLISH)
    first.ping()
    second.ping()

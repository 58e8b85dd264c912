"""Share groups with members on three nodes: each message comes once over all of them."""

import itertools
import struct
import threading
import time

import pytest
from cluster import clients
from cluster.clients import PatientWire, text_of
from harness.waiting import wait_until
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


def opened(node) -> PatientWire:
    return clients.connect(node, clean=True, properties=b"")[0]


class Member(threading.Thread):
    """Takes what a group gives it, and acknowledges it if it may."""

    def __init__(self, node, filter: str, acknowledges: bool = True):
        super().__init__(daemon=True)
        self.wire, self.acknowledges = opened(node), acknowledges
        self.taken: list[str] = []
        self.wire.subscribe(filter, 1)
        self.start()

    def run(self):
        try:
            while packet := self.wire.receive(seconds=120):
                if packet.kind == PUBLISH and self.acknowledges:
                    self.wire.acknowledge(PUBACK, packet.identifier)
                    self.taken.append(text_of(packet))
        except (AssertionError, OSError):
            return


def test_what_is_acknowledged_reaches_a_member_whichever_node_is_killed(own):
    members = [Member(node, "$share/g/jobs/#") for node in own.nodes for _ in range(2)]
    # Of what it is given nothing is done when its node is killed.
    members.append(Member(own.nodes[2], "$share/g/jobs/#", acknowledges=False))

    def missing():
        wanted = {text for publisher in publishers for text in publisher.acknowledged}
        return wanted - {text for member in members for text in member.taken}

    publishers = [clients.Publisher(node, "jobs/one", prefix=f"{index}-", qos=1, pace=0.01) for index, node in enumerate(own.nodes)]
    time.sleep(4)
    own.nodes[2].broker.kill()
    # Others choose its members until its lease has ended.
    time.sleep(18)
    for publisher in publishers:
        publisher.end()
    counts = [len(publisher.acknowledged) for publisher in publishers]
    wait_until(lambda: not missing(), "each acknowledged message has come", 30)
    taken = [text for member in members for text in member.taken]
    print(f"acknowledged {counts}, taken {len(taken)}, of these {len(taken) - len(set(taken))} once more")
    assert min(counts) > 20


def test_with_a_log_each_message_comes_once_over_all_nodes(own):
    members = [Member(own.nodes[place], "$share/g/once") for place in (0, 1, 2, 2)]
    wires = [opened(node) for node in own.nodes]
    for number in range(120):
        clients.publish(wires[number // 40], "once", f"{number}")
    wait_until(lambda: sum(len(member.taken) for member in members) >= 120, "all has come")
    assert sorted(int(text) for member in members for text in member.taken) == list(range(120))
    assert [len(member.taken) for member in members] == [30] * 4
    # One that goes leaves what it has not acknowledged to another, on whatever node.
    idle = Member(own.nodes[1], "$share/h/left", acknowledges=False)
    clients.publish(wires[0], "left", "it")
    heir = Member(own.nodes[0], "$share/h/left")
    time.sleep(0.5)
    idle.wire.disconnect()
    wait_until(lambda: heir.taken == ["it"], "it has come")

"""A node is killed, and its disk is gone with it; the first time together with a NATS server, for good. Its sessions go on elsewhere: nothing
is missing, and nothing of QoS 2 comes twice.

MARTLET_CLUSTER_ROUNDS says how many nodes are lost, MARTLET_CLUSTER_SEED when, and where clients go; MARTLET_CLUSTER_CROWD of how many sessions it is
counted what comes a second time.
"""

import os
import random
import shutil
import struct
import threading
import time

import pytest
from cluster.clients import LASTS, SEED, PatientWire, Receiver, connect, publish, text_of
from cluster.site import Node
from harness.waiting import wait_until
from harness.wire import PUBLISH

ROUNDS = int(os.environ.get("MARTLET_CLUSTER_ROUNDS", "1"))
CROWD = int(os.environ.get("MARTLET_CLUSTER_CROWD", "60"))
NAMES = [f"outlives{number}" for number in range(8)]
QOS = {name: 1 + number % 2 for number, name in enumerate(NAMES)}
# Whatever chance says, this one of QoS 2 has a message that it has not released when its node is lost.
HOLDER = NAMES[1]

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(120 + 120 * ROUNDS)]


class Sender:
    """Publishes to all topics, and knows what was acknowledged."""

    def __init__(self, port: int, first: int = 0):
        self.port = port
        self.acknowledged: dict[str, list[str]] = {name: [] for name in NAMES}
        self.is_ending = False
        self.next = first
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        wire = None
        while not self.is_ending:
            try:
                if wire is None:
                    wire = PatientWire(self.port, "mqttv5")
                    assert wire.connect("", clean=True) == (False, 0)
                name = NAMES[self.next % len(NAMES)]
                publish(wire, name, str(self.next), QOS[name], self.next % 60_000 + 1)
                self.acknowledged[name].append(str(self.next))
            except (AssertionError, OSError):
                wire = None
            self.next += 1
            # What waits has to fit into the queue of a client that nobody reads for a minute.
            time.sleep(0.02)

    def end(self):
        self.is_ending = True
        self.thread.join(60)


def subscriptions_are_there(clients: dict[str, PatientWire], node: Node):
    """Each client comes to the node, and gets what is published on the topic of its name."""
    publisher, _ = connect(node, "", clean=True, properties=b"")
    for name, before in clients.items():
        before.close()
        wire, present = connect(node, name)
        assert present
        publish(publisher, name, name)
        assert text_of(wire.receive(PUBLISH, seconds=20)) == name
        wire.close()


def test_sessions_outlive_their_node_and_its_disk(program, tmp_path, own):
    chance = random.Random(SEED)
    fresh: list[Node] = []
    try:
        victim = own.nodes[2]
        receivers = {name: Receiver(name) for name in NAMES}
        first = 0
        for name, receiver in receivers.items():
            receiver.wire, present = connect(victim, name)
            assert not present
            receiver.wire.subscribe(name, QOS[name])
        newcomers = {name: connect(victim, name)[0] for name in ("new0", "new1", "new2")}
        for number in range(ROUNDS):
            sender = Sender(own.nodes[0].port, first)
            time.sleep(chance.uniform(0.5, 2))
            for name in NAMES:
                if chance.random() < 0.3 and name != HOLDER:
                    receivers[name].wire.disconnect()
                else:
                    receivers[name].sip(chance)
            time.sleep(chance.uniform(0.5, 3))
            receivers[HOLDER].hold()
            if number == 0:
                # What is acknowledged now stands in the log, and in no record yet.
                for name, wire in newcomers.items():
                    wire.subscribe(name, 1)
            victim.broker.kill()
            shutil.rmtree(victim.store)
            if number == 0:
                own.servers[2].kill()
            for name, receiver in receivers.items():
                receiver.wire.close()
                receiver.wire, present = connect(own.nodes[chance.randrange(2)], name)
                assert present, f"round {number}, seed {SEED}: the session of {name} is gone"
            sender.end()
            if number == 0:
                subscriptions_are_there(newcomers, own.nodes[0])
            # Also what is published from now on comes, so that subscriptions are live.
            late = Sender(own.nodes[1].port, sender.next)
            time.sleep(1)
            late.end()
            first = late.next
            for name in NAMES:
                wanted = set(sender.acknowledged[name]) | set(late.acknowledged[name])
                assert wanted
                receivers[name].drain(wanted)
            if number + 1 == ROUNDS:
                break
            # Another one takes its place, with a disk that is empty, and has the sessions next.
            lines = "persistence true\nmartlet_cluster_session_wait 5\nlog_dest stderr"
            fresh.append(Node(program, tmp_path, f"fresh{number}", own.servers[number % 2].address, lines))
            victim = fresh[-1]
            victim.broker.start()
            victim.is_ready()
            wait_until(lambda: victim.metric("martlet_cluster_other_nodes") >= 2, "it knows the others")
            for name, receiver in receivers.items():
                before = receiver.wire
                receiver.wire, present = connect(victim, name)
                before.close()
                assert present
    finally:
        for node in fresh:
            node.broker.finish()
            print(f"--- log of {node.name}\n{node.broker.log[-5000:]}")


def test_what_share_groups_have_dealt_and_what_was_retained_outlive_the_node_and_its_disk(own):
    """To the one member that there is: connected, away for long, and away just now. What was retained waits in no log: neither what the lost node
    had not looked for, nor what it had sent and the client not acknowledged. What was dealt to members whose sessions end elsewhere, by Clean Start and
    by their expiry, goes to another one."""
    victim = own.nodes[2]
    member, reader = Receiver("member"), Receiver("reader")
    wanted: set[str] = set()
    shelf = {str(number) for number in range(300)}
    member.wire, _ = connect(victim, "member")
    member.wire.subscribe("$share/group/dealt", 2)
    sender, _ = connect(own.nodes[0], clean=True, properties=b"")

    def send(topic: str, number: int):
        publish(sender, topic, str(number), 1 + number % 2, number + 1)

    def deal(count: int):
        for number in range(len(wanted), len(wanted) + count):
            send("dealt", number)
            wanted.add(str(number))

    for text in sorted(shelf):
        publish(sender, f"shelf/{text}", text, retain=True)
    reader.wire, _ = connect(victim, "reader")
    reader.wire.subscribe("shelf/+", 1)
    while len(reader.seen) < 20:
        reader.take(reader.wire.receive(seconds=20), leaves=len(reader.seen) > 9)
    deal(10)
    while len(member.seen) < 10:
        member.take(member.wire.receive(seconds=20), leaves=len(member.seen) > 4)
    member.wire.disconnect()
    deal(40)
    endings = {"leaves": (LASTS, range(1000, 1010)), "expires": (struct.pack(">BI", 0x11, 20), range(2000, 2010))}
    for name, (properties, numbers) in endings.items():
        wire, _ = connect(victim, name, properties=properties)
        wire.subscribe(f"$share/ending/{name}", 2)
        wire.disconnect()
        for number in numbers:
            send(name, number)
    # The node has said by then that it is done with them.
    time.sleep(4)
    deal(20)
    victim.broker.kill()
    shutil.rmtree(victim.store)
    other = Receiver("other")
    other.wire, _ = connect(own.nodes[0], "other")
    for name in endings:
        other.wire.subscribe(f"$share/ending/{name}", 2)
    member.wire.close()
    member.wire, present = connect(own.nodes[1], "member")
    assert present
    member.drain(wanted)
    _, present = connect(own.nodes[1], "leaves", clean=True)
    assert not present
    other.drain({str(number) for _, numbers in endings.values() for number in numbers})
    deal(4)
    member.drain(wanted)
    reader.wire.close()
    reader.wire, present = connect(own.nodes[0], "reader")
    assert present
    reader.seen = reader.seen[:9]
    reader.drain(shelf)


def test_of_many_sessions_nothing_comes_again_that_was_done_before_the_last_second(own):
    """The log has how far each session has come, however many they are. What comes a second time is printed as a figure."""
    victim = own.nodes[2]
    receivers = [Receiver(f"crowd{number}") for number in range(CROWD)]
    done, late = range(20), range(20, 23)
    for receiver in receivers:
        receiver.wire, _ = connect(victim, receiver.name)
        receiver.wire.subscribe("crowd", 1)
    sender, _ = connect(own.nodes[0], clean=True, properties=b"")

    def bring(numbers):
        for number in numbers:
            publish(sender, "crowd", str(number))
            for receiver in receivers:
                receiver.drain({str(number)})

    def is_told() -> bool:
        """Of one moment: everything was sent, and the log is told of it."""
        lines = dict(line.rsplit(" ", 1) for line in victim.get("/metrics")[1].splitlines() if not line.startswith("#"))
        sent = sum(float(value) for name, value in lines.items() if name.startswith("martlet_messages_sent_total"))
        return sent >= len(done) * CROWD and float(lines["martlet_pending_session_positions"]) == 0

    began = time.monotonic()
    bring(done)
    rate = len(done) * CROWD / (time.monotonic() - began)
    wait_until(is_told, "the log is told how far all sessions have come")
    bring(late)
    victim.broker.kill()
    shutil.rmtree(victim.store)
    for receiver in receivers:
        receiver.wire.close()
        receiver.seen = []
        receiver.wire, present = connect(own.nodes[0], receiver.name)
        assert present, f"the session of {receiver.name} is gone"
    bring([late.stop])
    again = [int(text) for receiver in receivers for text in receiver.seen if text != str(late.stop)]
    print(f"{len(again)} of {late.stop * CROWD} came again, at {rate:.0f} acknowledged messages a second of {CROWD} sessions")
    assert not [number for number in again if number in done]
    reread = own.nodes[0].metric("martlet_cluster_reread_log_records_total")
    print(f"{reread:.0f} records were read again")

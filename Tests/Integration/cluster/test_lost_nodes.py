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
from cluster.site import Node, Site
from cluster.test_sessions import LASTS, UNAVAILABLE, PatientWire, text_of
from harness.waiting import wait_until
from harness.wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL

ROUNDS = int(os.environ.get("MARTLET_CLUSTER_ROUNDS", "1"))
SEED = int(os.environ.get("MARTLET_CLUSTER_SEED", "1"))
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
                identifier = self.next % 60_000 + 1
                wire.publish(name, str(self.next), qos=QOS[name], identifier=identifier)
                assert wire.receive(PUBACK if QOS[name] == 1 else PUBREC) is not None
                if QOS[name] == 2:
                    wire.acknowledge(PUBREL, identifier)
                    assert wire.receive(PUBCOMP) is not None
                self.acknowledged[name].append(str(self.next))
            except (AssertionError, OSError):
                wire = None
            self.next += 1
            # What waits has to fit into the queue of a client that nobody reads for a minute.
            time.sleep(0.02)

    def end(self):
        self.is_ending = True
        self.thread.join(60)


def connect(node, name: str, clean: bool = False, properties: bytes = LASTS):
    """A connected client, and whether its session was there: after a while, for the servers elect, and the lease of the lost node has to end."""
    deadline = time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline, f"{name} is not let in"
        wire = PatientWire(node.port, "mqttv5")
        try:
            present, reason = wire.connect(name, clean=clean, properties=properties, keep_alive=0)
        except (AssertionError, OSError):
            wire.close()
            continue
        if reason == 0:
            return wire, present
        wire.close()
        assert reason == UNAVAILABLE
        time.sleep(0.2)


class Receiver:
    """What a client has got, and the packet identifiers of QoS 2 that it has not been made to release."""

    def __init__(self, name: str):
        self.name = name
        self.seen: list[str] = []
        self.held: dict[int, str] = {}
        self.wire: PatientWire | None = None

    def drain(self, wanted: set):
        """Takes and answers until nothing is missing."""
        while not wanted <= set(self.seen):
            try:
                packet = self.wire.receive(seconds=20)
            except TimeoutError:
                packet = None
            assert packet is not None, f"{self.name} lacks {sorted(wanted - set(self.seen), key=int)}"
            self.take(packet)

    def sip(self, chance: random.Random):
        """Takes what comes for a moment, and leaves some of it unanswered."""
        until = time.monotonic() + 0.3
        try:
            while time.monotonic() < until:
                self.take(self.wire.receive(seconds=0.3), chance.random() < 0.3)
        except TimeoutError:
            return

    def hold(self):
        """Takes until it has a message of QoS 2 that it has not released."""
        while not self.held:
            self.take(self.wire.receive(seconds=20), leaves=True)

    def take(self, packet, leaves: bool = False):
        if packet.kind == PUBLISH and packet.qos == 1:
            self.seen.append(text_of(packet))
            if not leaves:
                self.wire.acknowledge(PUBACK, packet.identifier)
        elif packet.kind == PUBLISH:
            text = text_of(packet)
            if packet.identifier in self.held:
                assert packet.is_duplicate and self.held[packet.identifier] == text, f"{text} came for {self.held[packet.identifier]}"
            else:
                assert text not in self.seen, f"{self.name}: {text} came twice"
                self.seen.append(text)
                self.held[packet.identifier] = text
            if not leaves:
                self.wire.acknowledge(PUBREC, packet.identifier)
        elif packet.kind == PUBREL and not leaves:
            self.held.pop(packet.identifier, None)
            self.wire.acknowledge(PUBCOMP, packet.identifier)


def subscriptions_are_there(clients: dict[str, PatientWire], node: Node):
    """Each client comes to the node, and gets what is published on the topic of its name."""
    publisher, _ = connect(node, "", clean=True, properties=b"")
    for name, before in clients.items():
        before.close()
        wire, present = connect(node, name)
        assert present
        publisher.publish(name, name, qos=1)
        assert publisher.receive(PUBACK) is not None
        assert text_of(wire.receive(PUBLISH, seconds=20)) == name
        wire.close()


def test_sessions_outlive_their_node_and_its_disk(program, tmp_path):
    chance = random.Random(SEED)
    site = Site(program, tmp_path, keeps=True)
    fresh: list[Node] = []
    try:
        victim = site.nodes[2]
        receivers = {name: Receiver(name) for name in NAMES}
        first = 0
        for name, receiver in receivers.items():
            receiver.wire, present = connect(victim, name)
            assert not present
            receiver.wire.subscribe(name, QOS[name])
        newcomers = {name: connect(victim, name)[0] for name in ("new0", "new1", "new2")}
        for number in range(ROUNDS):
            sender = Sender(site.nodes[0].port, first)
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
                site.servers[2].kill()
            for name, receiver in receivers.items():
                receiver.wire.close()
                receiver.wire, present = connect(site.nodes[chance.randrange(2)], name)
                assert present, f"round {number}, seed {SEED}: the session of {name} is gone"
            sender.end()
            if number == 0:
                subscriptions_are_there(newcomers, site.nodes[0])
            # Also what is published from now on comes, so that subscriptions are live.
            late = Sender(site.nodes[1].port, sender.next)
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
            fresh.append(Node(program, tmp_path, f"fresh{number}", site.servers[number % 2].address, lines))
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
        site.end()


def test_what_share_groups_have_dealt_and_what_was_retained_outlive_the_node_and_its_disk(program, tmp_path):
    """To the one member that there is: connected, away for long, and away just now. What was retained waits in no log: neither what the lost node
    had not looked for, nor what it had sent and the client not acknowledged. What was dealt to members whose sessions end elsewhere, by Clean Start and
    by their expiry, goes to another one."""
    site = Site(program, tmp_path, keeps=True)
    victim = site.nodes[2]
    member, reader = Receiver("member"), Receiver("reader")
    wanted: set[str] = set()
    shelf = {str(number) for number in range(300)}
    try:
        member.wire, _ = connect(victim, "member")
        member.wire.subscribe("$share/group/dealt", 2)
        sender = PatientWire(site.nodes[0].port, "mqttv5")
        sender.connect("", clean=True)

        def send(topic: str, number: int):
            qos = 1 + number % 2
            sender.publish(topic, str(number), qos=qos, identifier=number + 1)
            assert sender.receive(PUBACK if qos == 1 else PUBREC) is not None
            if qos == 2:
                sender.acknowledge(PUBREL, number + 1)
                assert sender.receive(PUBCOMP) is not None

        def publish(count: int):
            for number in range(len(wanted), len(wanted) + count):
                send("dealt", number)
                wanted.add(str(number))

        for text in sorted(shelf):
            sender.publish(f"shelf/{text}", text, qos=1, retain=True)
            assert sender.receive(PUBACK) is not None
        reader.wire, _ = connect(victim, "reader")
        reader.wire.subscribe("shelf/+", 1)
        while len(reader.seen) < 20:
            reader.take(reader.wire.receive(seconds=20), leaves=len(reader.seen) > 9)
        publish(10)
        while len(member.seen) < 10:
            member.take(member.wire.receive(seconds=20), leaves=len(member.seen) > 4)
        member.wire.disconnect()
        publish(40)
        endings = {"leaves": (LASTS, range(1000, 1010)), "expires": (struct.pack(">BI", 0x11, 20), range(2000, 2010))}
        for name, (properties, numbers) in endings.items():
            wire, _ = connect(victim, name, properties=properties)
            wire.subscribe(f"$share/ending/{name}", 2)
            wire.disconnect()
            for number in numbers:
                send(name, number)
        # The node has said by then that it is done with them.
        time.sleep(4)
        publish(20)
        victim.broker.kill()
        shutil.rmtree(victim.store)
        other = Receiver("other")
        other.wire, _ = connect(site.nodes[0], "other")
        for name in endings:
            other.wire.subscribe(f"$share/ending/{name}", 2)
        member.wire.close()
        member.wire, present = connect(site.nodes[1], "member")
        assert present
        member.drain(wanted)
        _, present = connect(site.nodes[1], "leaves", clean=True)
        assert not present
        other.drain({str(number) for _, numbers in endings.values() for number in numbers})
        publish(4)
        member.drain(wanted)
        reader.wire.close()
        reader.wire, present = connect(site.nodes[0], "reader")
        assert present
        reader.seen = reader.seen[:9]
        reader.drain(shelf)
    finally:
        site.end()


def test_of_many_sessions_nothing_comes_again_that_was_done_before_the_last_second(program, tmp_path):
    """The log has how far each session has come, however many they are. What comes a second time is printed as a figure."""
    site = Site(program, tmp_path, keeps=True)
    victim = site.nodes[2]
    receivers = [Receiver(f"crowd{number}") for number in range(CROWD)]
    done, late = range(20), range(20, 23)
    try:
        for receiver in receivers:
            receiver.wire, _ = connect(victim, receiver.name)
            receiver.wire.subscribe("crowd", 1)
        sender = PatientWire(site.nodes[0].port, "mqttv5")
        sender.connect("", clean=True, keep_alive=0)

        def publish(numbers):
            for number in numbers:
                sender.publish("crowd", str(number), qos=1, identifier=number + 1)
                assert sender.receive(PUBACK) is not None
                for receiver in receivers:
                    receiver.drain({str(number)})

        def is_told() -> bool:
            """Of one moment: everything was sent, and the log is told of it."""
            lines = dict(line.rsplit(" ", 1) for line in victim.get("/metrics")[1].splitlines() if not line.startswith("#"))
            sent = sum(float(value) for name, value in lines.items() if name.startswith("martlet_messages_sent_total"))
            return sent >= len(done) * CROWD and float(lines["martlet_pending_session_positions"]) == 0

        began = time.monotonic()
        publish(done)
        rate = len(done) * CROWD / (time.monotonic() - began)
        wait_until(is_told, "the log is told how far all sessions have come")
        publish(late)
        victim.broker.kill()
        shutil.rmtree(victim.store)
        for receiver in receivers:
            receiver.wire.close()
            receiver.seen = []
            receiver.wire, present = connect(site.nodes[0], receiver.name)
            assert present, f"the session of {receiver.name} is gone"
        publish([late.stop])
        again = [int(text) for receiver in receivers for text in receiver.seen if text != str(late.stop)]
        print(f"{len(again)} of {late.stop * CROWD} came again, at {rate:.0f} acknowledged messages a second of {CROWD} sessions")
        assert not [number for number in again if number in done]
        reread = site.nodes[0].metric("martlet_cluster_reread_log_records_total")
        print(f"{reread:.0f} records were read again")
    finally:
        site.end()

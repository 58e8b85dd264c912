"""Three hosts with a NATS server and a node each: cables are pulled, nodes and servers killed, all under load, and the cluster is whole again.

MARTLET_CLUSTER_ROUNDS says how many faults there are, MARTLET_CLUSTER_SEED which ones and where.
"""

import itertools
import os
import random
import time

import pytest
from cluster.clients import SEED
from cluster.hosts import Halls
from cluster.load import Load
from harness.waiting import PATIENCE, wait_until
from harness.wire import PINGREQ, PINGRESP, PUBLISH, SUBACK, Wire, frame

ROUNDS = int(os.environ.get("MARTLET_CLUSTER_ROUNDS", "2"))
#: Seconds: an election of JetStream's servers, and a lease that has to end.
WHOLE = 6 * PATIENCE
#: And longer than that lease.
LEASE = 15

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(120 + 90 * ROUNDS)]


def arrived(wire: Wire) -> list[int]:
    """The senders whose messages have come by the time that a ping is answered."""
    wire.send(frame(PINGREQ, 0, b""))
    senders = []
    while (packet := wire.receive()) and packet.kind != PINGRESP:
        senders.append(int(packet.topic.rpartition("/")[2]))
    assert packet, "the node has closed the connection"
    return senders


class Faults(Halls):
    """The hosts with all that runs there, and what can go wrong."""

    def __init__(self):
        super().__init__()
        self.loads: list[Load] = []
        self.topics = (f"fault{number}" for number in itertools.count())

    def start(self, program, directory):
        super().start(program, directory)
        self.is_whole()
        self.loads = [Load(host, node.port, node.name) for host, node in zip(self.hosts.all, self.nodes)]

    def end(self):
        for load in self.loads:
            load.end()
        super().end()

    # What a client and an operator see

    def wire(self, number: int) -> Wire:
        """A client of a node that is let in."""
        def connected():
            with self.hosts.all[number].inside():
                wire = Wire(self.nodes[number].port)
            return wire if wire.connect()[1] == 0 else wire.close()

        return wait_until(connected, f"{self.nodes[number].name} lets a client in", WHOLE)

    def readiness(self, number: int) -> int:
        with self.hosts.all[number].inside():
            return self.nodes[number].get("/readyz")[0]

    def is_ready(self, number: int, status: int = 200):
        wait_until(lambda: self.readiness(number) == status, f"/readyz of {self.nodes[number].name} says {status}", WHOLE)

    def is_whole(self):
        """Waits until every node is ready, and what is published on any reaches all others; from then on nothing is lost."""
        for number in range(3):
            self.is_ready(number)
        topic = next(self.topics)
        wires = [self.wire(number) for number in range(3)]
        for wire in wires:
            wire.subscribe(f"{topic}/#")
        self.reaches_all(topic, wires)
        for number, wire in enumerate(wires):
            for message in range(20):
                wire.publish(f"{topic}/{number}/end", str(message))
        for wire in wires:
            came: dict[str, list[bytes]] = {}
            while sum(map(len, came.values())) < 60:
                packet = wire.receive(PUBLISH)
                if packet.topic.endswith("/end"):
                    came.setdefault(packet.topic, []).append(packet.body[3 + len(packet.topic) :])
            assert all(texts == [b"%d" % message for message in range(20)] for texts in came.values()), came
            wire.close()

    def reaches_all(self, topic: str, receivers: list[Wire]):
        """Publishes on every node until each receiver has had a message from each."""
        senders = [self.wire(number) for number in range(3)]
        missing = {(sender, receiver) for sender in range(3) for receiver in range(len(receivers))}

        def has_come() -> bool:
            for sender in {sender for sender, _ in missing}:
                senders[sender].publish(f"{topic}/{sender}", "x")
            for index in {receiver for _, receiver in missing}:
                missing.difference_update((sender, index) for sender in arrived(receivers[index]))
            return not missing

        wait_until(has_come, f"messages reach all nodes: {missing}", WHOLE)
        for sender in senders:
            sender.close()

    # What goes wrong; each returns the nodes that have a server all the time

    def pulled(self, *cables: tuple[int, int]):
        """Some cables are away until the servers have missed each other, and clients subscribe meanwhile."""
        for cable in cables:
            self.hosts.pull(*cable)
        try:
            for near, _ in cables:
                wait_until(lambda near=near: self.route_count(near) < 2, f"server {near} misses another", WHOLE)
            # Each still has its own server, and serves its clients.
            assert [self.readiness(number) for number in range(3)] == [200] * 3
            self.subscriptions_hold(lambda: [self.hosts.plug(*cable) for cable in cables])
        finally:
            for cable in cables:
                self.hosts.plug(*cable)

    def route_count(self, number: int) -> int:
        """How many other servers a server has a route to; several routes lead to each."""
        with self.hosts.all[number].inside():
            return len({route["remote_id"] for route in self.servers[number].asks("/routez")["routes"]})

    def subscriptions_hold(self, mend):
        """Clients subscribe on all nodes; what was confirmed holds when the fault is mended."""
        topic = next(self.topics)
        wires = [self.wire(number) for number in range(3)]
        for wire in wires:
            wire.send_subscribe(f"{topic}/#")
        for wire in wires:
            assert wire.receive(SUBACK, WHOLE).body[-1] == 0
        mend()
        self.reaches_all(topic, wires)
        for wire in wires:
            wire.close()

    def a_host_is_cut_off(self, chance: random.Random):
        lonely = chance.randrange(3)
        self.pulled(*(cable for cable in self.hosts.cables if lonely in cable))

    def a_host_is_cut_off_for_long(self, chance: random.Random):
        """The lease of its node ends, there and for the others."""
        lonely = chance.randrange(3)
        cables = [cable for cable in self.hosts.cables if lonely in cable]
        for cable in cables:
            self.hosts.pull(*cable)
        try:
            time.sleep(LEASE)
            assert [self.readiness(number) for number in range(3)] == [200] * 3, "each has a server, and no store that others act for"
        finally:
            for cable in cables:
                self.hosts.plug(*cable)

    def a_cable_is_pulled(self, chance: random.Random):
        self.pulled(chance.choice(self.hosts.cables))

    def a_node_is_killed(self, chance: random.Random):
        number = chance.randrange(3)
        self.nodes[number].broker.kill()
        with self.hosts.all[number].inside():
            self.nodes[number].broker.restart()

    def a_server_is_killed(self, chance: random.Random):
        number = chance.randrange(3)
        self.servers[number].kill()
        self.is_ready(number, 503)
        for other in {0, 1, 2} - {number}:
            assert self.readiness(other) == 200, "it has a server"
        with self.hosts.all[number].inside():
            self.servers[number].start(waits=False)

    def all_servers_are_stopped(self, chance: random.Random):
        for number in chance.sample(range(3), 3):
            self.servers[number].kill()
        for number in range(3):
            self.is_ready(number, 503)
        for number in chance.sample(range(3), 3):
            with self.hosts.all[number].inside():
                self.servers[number].start(waits=False)


@pytest.fixture
def faults(program, tmp_path):
    made = Faults()
    try:
        made.start(program, tmp_path)
        yield made
    finally:
        made.end()


def test_it_is_whole_after_every_fault(faults):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    kinds = [faults.a_host_is_cut_off, faults.a_node_is_killed, faults.a_server_is_killed, faults.a_cable_is_pulled, faults.all_servers_are_stopped, faults.a_host_is_cut_off_for_long]
    for number in range(ROUNDS):
        # Each kind once before one comes again.
        if number and number % len(kinds) == 0:
            chance.shuffle(kinds)
        kind = kinds[number % len(kinds)]
        print(f"round {number}: {kind.__name__}")
        before = [load.acknowledged for load in faults.loads]
        kind(chance)
        faults.is_whole()
        for load, count in zip(faults.loads, before):
            wait_until(lambda load=load, count=count: load.acknowledged > count, "clients go on publishing", WHOLE)
            assert load.wrong == [], f"seed {SEED}, round {number}"
    assert all(load.came > load.acknowledged for load in faults.loads), "they heard more than themselves"

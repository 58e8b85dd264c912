"""A client publishes QoS 2 while its node is killed and started again, and while another one is lost with its disk: each message comes once.

MARTLET_CLUSTER_SEED says when.
"""

import random
import shutil
import threading
import time

import pytest
from cluster.clients import SEED, connect, numbers, take
from harness.wire import PUBCOMP, PUBREC, PUBREL

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(240)]

WINDOW = 8
TOPIC = "receipts"


class Flow:
    """Has some messages of QoS 2 under way, and goes on with them on whatever node."""

    def __init__(self, wire):
        self.wire = wire
        self.sent = 0
        #: By packet identifier, in the order in which they were sent first: the text, and whether PUBREC has come.
        self.open: dict[int, tuple[str, bool]] = {}

    def run(self, seconds: float):
        """Publishes until the time is over, or the node is gone."""
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                while len(self.open) < WINDOW:
                    identifier = next(number for number in range(1, 2 * WINDOW) if number not in self.open)
                    self.open[identifier] = (str(self.sent), False)
                    self.sent += 1
                    self.wire.publish(TOPIC, self.open[identifier][0], qos=2, identifier=identifier)
                if not self.take():
                    return
                # What waits has to fit into the queue of the receiver, that nobody reads meanwhile.
                time.sleep(0.01)
        except OSError:
            return

    def take(self) -> bool:
        """An answer; false if the node is gone."""
        packet = self.wire.receive()
        if packet is None:
            return False
        if packet.kind == PUBREC:
            self.open[packet.identifier] = (self.open[packet.identifier][0], True)
            self.wire.acknowledge(PUBREL, packet.identifier)
        else:
            assert packet.kind == PUBCOMP
            del self.open[packet.identifier]
        return True

    def go_on(self, node, name: str):
        self.wire.close()
        self.wire, present = connect(node, name)
        assert present, f"seed {SEED}: the session is gone"
        for identifier, (text, is_received) in self.open.items():
            if is_received:
                self.wire.acknowledge(PUBREL, identifier)
            else:
                self.wire.publish(TOPIC, text, qos=2, identifier=identifier, duplicate=True)

    def end(self):
        while self.open:
            assert self.take(), "the node has closed the connection"


def test_what_is_sent_with_qos_2_is_taken_once_though_nodes_are_killed_and_lost(own):
    chance = random.Random(SEED)
    receiver, _ = connect(own.nodes[0], "receiver")
    receiver.subscribe(TOPIC, 2)
    wire, present = connect(own.nodes[2], "sender")
    assert not present
    flow = Flow(wire)
    for place, is_lost in ((2, False), (2, True), (1, False)):
        victim = own.nodes[place]
        killer = threading.Timer(chance.uniform(0.5, 2.5), victim.broker.kill)
        killer.start()
        flow.run(30)
        killer.join()
        assert flow.open, "nothing was under way"
        if is_lost:
            shutil.rmtree(victim.store)
        else:
            victim.broker.restart()
        flow.go_on(own.nodes[1] if is_lost else victim, "sender")
    flow.run(1)
    flow.end()
    assert flow.sent > 4 * WINDOW
    assert take(receiver, flow.sent) == numbers(0, flow.sent)

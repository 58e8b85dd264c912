"""The power of nodes and of their disks goes under load, again and again: sessions go on with all that was acknowledged.

MARTLET_CLUSTER_ROUNDS says how often, MARTLET_CLUSTER_SEED when and where.
"""

import os
import random
import threading
import time

import pytest
from cluster.clients import SEED, connect, hop
from cluster.site import Site
from durability.unsynced_disk import compile_layer
from harness.wire import PUBACK, PUBCOMP, PUBREC, PUBREL

ROUNDS = int(os.environ.get("MARTLET_CLUSTER_ROUNDS", "3"))

pytestmark = [
    pytest.mark.martlet("mosquitto has no cluster"),
    pytest.mark.timeout(180 + 30 * ROUNDS),
]


@pytest.fixture(scope="module")
def powered(program, tmp_path_factory):
    made = Site(program, tmp_path_factory.mktemp("power"), keeps=True, layer=compile_layer(tmp_path_factory.mktemp("layer")))
    yield made
    made.end()


@pytest.mark.parametrize("qos", [1, 2])
def test_who_hops_while_the_power_of_nodes_goes_misses_nothing(powered, qos):
    name = f"powered{qos}"
    count = 400 * ROUNDS
    receiver, _ = connect(powered.nodes[0], name)
    receiver.subscribe(name, qos)
    cuts = random.Random(SEED * 100 + qos)

    def load():
        """Its node keeps its power, but may lose its lease on a busy machine."""
        sender, _ = connect(powered.nodes[1], f"sender{qos}")
        for number in range(count):
            is_done = is_received = False
            while not is_done:
                try:
                    if not is_received:
                        sender.publish(name, str(number), qos=qos, identifier=number + 1)
                        sender.receive(PUBACK if qos == 1 else PUBREC)
                    is_received = True
                    if qos == 2:
                        sender.acknowledge(PUBREL, number + 1)
                        sender.receive(PUBCOMP)
                    is_done = True
                except (AssertionError, OSError) as error:
                    print(f"the sender was closed at message {number}: {error!r}")
                    sender, _ = connect(powered.nodes[1], f"sender{qos}")
            time.sleep(0.005)
        sender.close()

    def cut():
        for _ in range(ROUNDS):
            time.sleep(cuts.uniform(0.3, 1.5))
            powered.cut_power(cuts.choice((0, 2)), cuts)

    threads = [threading.Thread(target=load, daemon=True), threading.Thread(target=cut, daemon=True)]
    for thread in threads:
        thread.start()
    hop(powered, name, qos, count, random.Random(SEED * 100 + 10 + qos), is_killed=True)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    receiver.close()
    powered.is_whole()

"""A node is lost while a member of a share group there has messages that it has not acknowledged, and another one deals them. That one is lost as well, or
killed and there again, before anybody has acknowledged them: a third member gets them.
"""

import time

import pytest
from cluster.site import Site
from cluster.test_lost_nodes import Receiver
from cluster.test_sessions import PatientWire, text_of
from harness.wire import PUBACK, PUBLISH, SUBACK, Packet

# No more than a client is sent at a time.
WANTED = {str(number) for number in range(15)}
# A lease, and until all have seen that it has ended.
LEASE = 30

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(150)]


def member(node) -> tuple[PatientWire, list[Packet]]:
    """Its session ends with its connection. What comes before SUBACK, as it may, is given too."""
    deadline = time.monotonic() + 2 * LEASE
    while True:
        wire = PatientWire(node.port, "mqttv5")
        try:
            if wire.connect("", clean=True) == (False, 0):
                wire.send_subscribe("$share/group/work", 1)
                early = []
                while (packet := wire.receive()).kind != SUBACK:
                    early.append(packet)
                return wire, early
        except OSError:
            assert time.monotonic() < deadline, f"{node.name} lets nobody in"
        wire.close()
        time.sleep(0.2)


def takes_all(wire, early):
    """And acknowledges nothing."""
    seen = {text_of(packet) for packet in early}
    while seen != WANTED:
        seen.add(text_of(wire.receive(PUBLISH, seconds=LEASE)))


@pytest.mark.parametrize("is_back", [False, True])
def test_what_is_dealt_for_a_lost_node_is_dealt_again_when_that_one_is_lost_too(program, tmp_path, is_back):
    site = Site(program, tmp_path, keeps=True)
    try:
        first = member(site.nodes[2])
        publisher = PatientWire(site.nodes[0].port, "mqttv5")
        assert publisher.connect("", clean=True) == (False, 0)
        for number in WANTED:
            publisher.publish("work", number, qos=1, identifier=1)
            assert publisher.receive(PUBACK) is not None
        takes_all(*first)
        site.nodes[2].broker.kill()
        second = member(site.nodes[1])
        takes_all(*second)
        site.nodes[1].broker.kill()
        if is_back:
            site.nodes[1].broker.restart()
        third = Receiver("third")
        third.wire, early = member(site.nodes[1 if is_back else 0])
        for packet in early:
            third.take(packet)
        third.drain(WANTED)
    finally:
        site.end()

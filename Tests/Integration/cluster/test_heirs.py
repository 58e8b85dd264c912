"""A node is lost while a member of a share group there has messages that it has not acknowledged, and another one deals them. That one is lost as well, or
killed and there again, before anybody has acknowledged them: a third member gets them.
"""

import pytest
from cluster.clients import PatientWire, Receiver, connect, publish, text_of
from harness.wire import PUBLISH, SUBACK, Packet

# No more than a client is sent at a time.
WANTED = {str(number) for number in range(15)}
# A lease, and until all have seen that it has ended.
LEASE = 30

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(150)]


def member(node) -> tuple[PatientWire, list[Packet]]:
    """Its session ends with its connection. What comes before SUBACK, as it may, is given too."""
    wire, _ = connect(node, clean=True, properties=b"", seconds=2 * LEASE)
    wire.send_subscribe("$share/group/work", 1)
    early = []
    while (packet := wire.receive()).kind != SUBACK:
        early.append(packet)
    return wire, early


def takes_all(wire, early):
    """And acknowledges nothing."""
    seen = {text_of(packet) for packet in early}
    while seen != WANTED:
        seen.add(text_of(wire.receive(PUBLISH, seconds=LEASE)))


@pytest.mark.parametrize("is_back", [False, True])
def test_what_is_dealt_for_a_lost_node_is_dealt_again_when_that_one_is_lost_too(own, is_back):
    first = member(own.nodes[2])
    publisher, _ = connect(own.nodes[0], clean=True, properties=b"")
    for number in WANTED:
        publish(publisher, "work", number)
    takes_all(*first)
    own.nodes[2].broker.kill()
    second = member(own.nodes[1])
    takes_all(*second)
    own.nodes[1].broker.kill()
    if is_back:
        own.nodes[1].broker.restart()
    third = Receiver("third")
    third.wire, early = member(own.nodes[1 if is_back else 0])
    for packet in early:
        third.take(packet)
    third.drain(WANTED)

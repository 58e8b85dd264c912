"""What happens to the network between three hosts."""

import time

import pytest
from cluster.clients import SHUTTING_DOWN, UNAVAILABLE
from cluster.hosts import Halls
from cluster.site import Node
from harness.waiting import PATIENCE, wait_until
from harness.wire import Wire
from incidents.test_nodes import LASTING
from incidents.traffic import Traffic

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(300)]


class NetworkCase(Halls):
    """Waits for nodes, and opens connections to them."""

    def start(self, program, directory):
        super().start(program, directory, "persistence true\nmartlet_cluster_session_wait 5\nmax_queued_messages 0")
        self.is_whole()

    def inside(self, node: Node):
        return self.hosts.all[self.nodes.index(node)].inside()

    def is_whole(self):
        for node in self.nodes:
            with self.inside(node):
                wait_until(lambda node=node: node.get("/readyz")[0] == 200, f"{node.name} is ready", 6 * PATIENCE)
                wait_until(lambda node=node: node.metric("martlet_cluster_other_nodes") >= 2, f"{node.name} knows the others", 4 * PATIENCE)

    def door(self, index: int) -> Wire:
        with self.hosts.all[index].inside():
            return Wire(self.nodes[index].port, "mqttv5")


@pytest.fixture
def halls(program, tmp_path):
    made = NetworkCase()
    try:
        made.start(program, tmp_path)
        yield made
    finally:
        made.end()


@pytest.mark.incident("a host is cut off", "both cables of one of three hosts are pulled for 20 s; its receiver goes to another")
def test_a_host_is_cut_off(case, halls):
    case.inside = halls.inside
    case.begins(halls.nodes)
    traffic = Traffic("cut", [lambda index=index: halls.door(index) for index in range(3)])
    lonely = halls.door(2)
    assert lonely.connect("lonely")[1] == 0
    for cable in ((0, 2), (1, 2)):
        halls.hosts.pull(*cable)
    began = time.monotonic()
    reason = lonely.receive_end(4 * PATIENCE)
    assert reason == SHUTTING_DOWN
    case.notes(f"a client of the lonely node is disconnected with {reason:#x} after {time.monotonic() - began:.1f} s")
    with halls.hosts.all[2].inside():
        wire = Wire(halls.nodes[2].port, "mqttv5")
    wire.receive = lambda kind=None, seconds=30: Wire.receive(wire, kind, seconds)
    assert wire.connect("early")[1] == UNAVAILABLE
    wire.close()
    case.told(halls.nodes[2], "log", r"this node's lease has expired[^\n]*")
    case.told(halls.nodes[2], "/readyz", r"503\n(?:.*\n)*\[-\]cluster failed: .*")
    case.told(halls.nodes[2], "ctl alarms", r"cluster_down.*")
    for node in halls.nodes[:2]:
        case.told(node, "log", r"node node2 \(\w+\) is gone, its lease has expired[^\n]*", 3 * PATIENCE)
        case.told(node, "ctl cluster", r"node2\b.*\bgone")
    traffic.goes_on()
    for cable in ((0, 2), (1, 2)):
        halls.hosts.plug(*cable)
    halls.is_whole()
    case.told(halls.nodes[0], "ctl cluster", r"node2\b.*\bup\b")
    case.not_told(halls.nodes, "log", "are called")
    case.saw(traffic.end(), answer=LASTING, connect=LASTING)

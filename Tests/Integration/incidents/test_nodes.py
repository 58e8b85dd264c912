"""What happens to nodes."""

import re
import shutil
import signal
import struct
import threading
import time
from pathlib import Path

import pytest
from cluster.clients import LASTS, SHUTTING_DOWN, TAKEN_OVER, UNAVAILABLE, PatientWire, connect, publish, text_of
from cluster.site import restart
from durability.unsynced_disk import compile_layer
from harness.waiting import PATIENCE, wait_until
from harness.wire import PUBACK, PUBLISH, SUBSCRIBE, Will, frame, text
from incidents.traffic import Publisher, Subscriber, doors_of

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(300)]

#: Seconds. A lease lasts 13; the sites' martlet_cluster_session_wait is 5 behind that, and each attempt may be in vain.
LEASE = 13
LASTING = 35
#: Clients that have nothing to wait for, on a machine that has other things to do.
AT_ONCE = 10

GONE = r"node node2 \(\w+\) is gone, its lease has expired[^\n]*"


def comes(node, name: str, **options) -> tuple[PatientWire, bool, float]:
    """A connection, whether its session was there, and how long it took: refused clients come again."""
    began = time.monotonic()
    return *connect(node, name, **options), time.monotonic() - began


def is_told_to_be_gone(case, nodes):
    """A node that was killed: by those that are there."""
    for node in nodes:
        case.told(node, "log", r"node node2 \(\w+\) is silent")
        case.told(node, "log", GONE, 4 * PATIENCE)
        case.told(node, "ctl cluster", r"^node2 +\S+ +gone|node2\b.*\bgone")
    case.told(nodes[0], "ctl alarms", r"node_down.*node2.*", 3 * PATIENCE)
    case.not_told(nodes, "log", "are called")


@pytest.mark.incident("a node is killed", "SIGKILL to the node of a receiver; started again when its lease is over")
def test_a_node_is_killed(case, site, traffic):
    site.nodes[2].broker.kill()
    is_told_to_be_gone(case, site.nodes[:2])
    traffic.goes_on()
    site.nodes[2].broker.restart()
    site.is_whole()
    case.told(site.nodes[0], "ctl cluster", r"node2\b.*\bup\b")
    case.saw(traffic.end(), answer=AT_ONCE, connect=LASTING)


@pytest.mark.incident("QoS 2 across a kill", "SIGKILL to the node of publishers of QoS 1 and 2; started again at once; then the node of the receiver")
def test_qos_2_across_a_kill(case, site, traffic):
    for index in (0, 2):
        restart([site.nodes[index]])
        site.is_whole()
        traffic.goes_on(20)
    case.told(site.nodes[0], "log", r"ready, with \d other nodes?")
    case.saw(traffic.end(), answer=LASTING, connect=LASTING)


@pytest.mark.incident("a node is lost with its disk", "SIGKILL, and its store deleted; a new one starts under the same name")
def test_a_node_is_lost_with_its_disk(case, site, traffic):
    victim = site.nodes[2]
    victim.broker.kill()
    shutil.rmtree(victim.store)
    is_told_to_be_gone(case, site.nodes[:2])
    # The receiver's; those of the publishers may be restored on the other node.
    words = "-receiver is restored by claim"
    wait_until(lambda: any(words in node.broker.log for node in site.nodes[:2]), "its session is restored", 4 * PATIENCE)
    restored = next(node for node in site.nodes[:2] if words in node.broker.log)
    case.told(restored, "log", r"session of client \S+-receiver is restored by claim[^\n]*")
    case.counts(restored, "martlet_cluster_restored_sessions_total")
    traffic.goes_on()
    victim.store.mkdir(exist_ok=True)
    victim.broker.restart()
    site.is_whole()
    case.saw(traffic.end(), answer=AT_ONCE, connect=LASTING)


@pytest.mark.incident("all nodes are restarted", "SIGKILL to all three at once, and started again")
def test_all_nodes_are_restarted(case, site, traffic):
    restart(site.nodes)
    site.is_whole()
    for node in site.nodes:
        case.told(node, "log", r"ready, with \d other nodes?")
        case.told(node, "ctl health", r"\(exit code 0\)")
    traffic.goes_on()
    case.not_told(site.nodes, "log", "are called")
    case.saw(traffic.end(), answer=LASTING, connect=LASTING)


@pytest.mark.incident("nodes are restarted one by one", "SIGTERM, start, /readyz and 15 s, as the page on new versions says")
def test_nodes_are_restarted_one_by_one(case, site, traffic):
    for node in site.nodes:
        other = next(other for other in site.nodes if other is not node)
        node.broker.stop()
        case.told(other, "ctl cluster", rf"{node.name}\b.*\bleft\b")
        node.broker.restart()
        site.is_whole()
        time.sleep(15)
        case.told(other, "ctl cluster", rf"{node.name}\b.*\bup\b")
    case.not_told(site.nodes, "log", "are called|is gone, its lease")
    case.saw(traffic.end(), answer=LASTING, connect=LASTING)


@pytest.mark.incident("a node is drained", "martlet ctl drain on the node of the receiver, and undone")
def test_a_node_is_drained(case, site, traffic):
    drained = site.nodes[2]
    assert drained.ask("drain", "POST", {})[0] == 200
    case.told(drained, "/readyz", r"503\n(?:.*\n)*.*drain.*")
    case.told(site.nodes[0], "ctl cluster", r"node2\b.*\bdrain.*")
    wait_until(lambda: traffic.subscriber.reasons[0x9C] and traffic.subscriber.wire, "the receiver is told another node", 2 * PATIENCE)
    traffic.goes_on(20)
    assert drained.ask("drain", "DELETE")[0] == 204
    drained.is_ready()
    case.saw(traffic.end(), answer=AT_ONCE, connect=AT_ONCE)


@pytest.mark.incident("a node is asleep", "SIGSTOP for longer than its lease, and SIGCONT")
def test_a_node_is_asleep(case, site, traffic):
    sleeper = site.nodes[2]
    idle, _, _ = comes(sleeper, "idle")
    sleeper.broker.hang()
    # What its clients do: their connections are dead, as they find out by Keep Alive.
    traffic.subscriber.wire.socket.shutdown(2)
    is_told_to_be_gone(case, site.nodes[:2])
    taken, present, _ = comes(site.nodes[1], "idle")
    assert present
    traffic.goes_on()
    sleeper.broker.signal(signal.SIGCONT)
    reason = idle.receive_end(2 * PATIENCE)
    assert reason in (SHUTTING_DOWN, TAKEN_OVER)
    case.notes(f"the old connection ends with {reason:#x}")
    case.told(sleeper, "log", r"this node's lease has expired: its clients are disconnected[^\n]*")
    taken.ping()
    site.is_whole()
    case.told(site.nodes[0], "ctl cluster", r"node2\b.*\bup\b")
    case.not_told(site.nodes, "log", "are called")
    case.saw(traffic.end(), answer=AT_ONCE, connect=LASTING)
    taken.close()


@pytest.mark.incident("two nodes of one name", "a fourth node starts as node1, with a store of its own")
def test_two_nodes_of_one_name(case, site, traffic, add_node):
    twin = add_node("node1", site.servers[0].address).is_ready()
    for node in (twin, *site.nodes):
        case.told(node, "log", r"2 nodes are called node1 \(\w+, \w+\)[^\n]*", 3 * PATIENCE)
    case.told(site.nodes[0], "ctl cluster", r"[^\n]*are called node1[^\n]*")
    # It is a trouble of names: all four carry messages.
    case.told(site.nodes[1], "ctl health", r"\(exit code 0\)")
    wire, _, _ = comes(twin, "guest")
    wire.subscribe("for/guest", 1)
    sender, _, _ = comes(site.nodes[1], "sender")
    publish(sender, "for/guest", "x")
    assert text_of(wire.receive(PUBLISH)) == "x"
    wire.disconnect(), sender.disconnect()
    case.saw(traffic.end(), answer=AT_ONCE, connect=AT_ONCE)


@pytest.mark.incident("another number of partitions", "a node starts with martlet_cluster_partitions 2 where the log has 1; then with 1")
def test_another_number_of_partitions(case, site, traffic, add_node):
    node = add_node("other", site.servers[0].address, "martlet_cluster_partitions 2")
    words = "martlet_cluster_partitions is 1 there, and 2 here"
    case.told(node, "/readyz", rf"503\n(?:.*\n)*.*{words}.*")
    case.told(node, "log", rf"not ready yet: [^\n]*{words}[^\n]*")
    case.told(node, "ctl health", rf"{words}(?:.*\n)*.*\(exit code 1\)")
    case.told(node, "ctl alarms", r"cluster_down.*")
    wire = PatientWire(node.port, "mqttv5")
    assert wire.connect("early")[1] == UNAVAILABLE
    wire.close()
    node.broker.stop()
    path = node.broker.configuration_path
    path.write_text(path.read_text().replace("partitions 2", "partitions 1"))
    node.broker.restart()
    node.is_ready()
    case.saw(traffic.end(), answer=AT_ONCE, connect=AT_ONCE)


@pytest.mark.parametrize("ahead", [
    pytest.param(seconds, marks=pytest.mark.incident(f"a clock is {words}", "that of a node, by 90 s; messages with an expiry of 30 s"))
    for seconds, words in ((90, "ahead"), (-90, "behind"))])  # fmt: skip
def test_a_clock_is_wrong(case, site, add_node, tmp_path, ahead):
    layer = compile_layer(tmp_path, Path(__file__).parents[1] / "cluster" / "wrong_clock.c")
    node = add_node("wrong", site.servers[1].address, environment={"LD_PRELOAD": str(layer), "CLOCK_OFFSET_SECONDS": str(ahead)}).is_ready()
    right = site.nodes[0]
    words = rf"clock (?:of wrong )?.*\S+ s {'ahead of' if ahead > 0 else 'behind'} that of this node"
    case.told(right, "log", rf"the {words}", 4 * PATIENCE)
    case.told(right, "/readyz", rf"200\n(?:.*\n)*.*wrong: its {words}")
    case.told(right, "ctl cluster", rf"its {words}")
    case.told(right, "ctl alarms", r"clock_differs.*", 2 * PATIENCE)
    case.told(right, "/metrics", r'^martlet_cluster_node_clock_offset_seconds{.*node="wrong".*} -?\S+$')
    readers = {place: comes(where, f"clock-{place}", clean=True)[0] for place, where in (("right", right), ("wrong", node))}
    for reader in readers.values():
        reader.subscribe("expires/#", 1)
    sender, _, _ = comes(right, "clock-sender", clean=True)
    for number in range(4):
        publish(sender, "expires/soon", str(number), properties=b"\x02\x00\x00\x00\x1e")
    publish(sender, "expires/end", "end")
    came = {}
    for place, reader in readers.items():
        came[place] = []
        while not came[place] or came[place][-1] != "end":
            packet = reader.receive(PUBLISH)
            came[place].append(text_of(packet))
            reader.acknowledge(PUBACK, packet.identifier)
    case.notes(", ".join(f"{len(texts) - 1} of 4 at the {place} clock" for place, texts in came.items()))
    assert came["right"] == ["0", "1", "2", "3", "end"]
    # Documented: behind a clock that is ahead they expire too early.
    assert came["wrong"] == (["end"] if ahead > 0 else came["right"])
    for wire in (sender, *readers.values()):
        wire.disconnect()


@pytest.mark.incident("wills of a killed node", "SIGKILL to a node with 20 clients with a will; started again")
def test_wills_of_a_killed_node(case, site):
    watchers = [comes(node, f"watcher-{node.name}", clean=True)[0] for node in site.nodes[:2]]
    for watcher in watchers:
        watcher.send_subscribe("wills/#", 1)
    dying = [comes(site.nodes[2], f"dying-{number}", clean=number % 2 == 0, properties=LASTS if number % 2 else b"",
                   will=Will(f"wills/{number}", "gone", qos=1))[0] for number in range(20)]  # fmt: skip
    killed = time.monotonic()
    site.nodes[2].broker.kill()
    came: list[list[str]] = [[], []]
    for index, watcher in enumerate(watchers):
        while len(set(came[index])) < 20:
            packet = watcher.receive(seconds=4 * PATIENCE)
            assert packet, "the watcher's connection has ended"
            if packet.kind == PUBLISH:
                came[index].append(packet.topic)
                watcher.acknowledge(PUBACK, packet.identifier)
    took = time.monotonic() - killed
    is_told_to_be_gone(case, site.nodes[:2])
    adopted = sum(node.metric("martlet_cluster_adopted_wills_total") for node in site.nodes[:2])
    case.heard(f"/metrics: martlet_cluster_adopted_wills_total {adopted:g} on both")
    assert adopted >= 20
    site.nodes[2].broker.restart()
    site.is_whole()
    # A fence behind what that node could bring.
    again, _, _ = comes(site.nodes[2], "fence", clean=True)
    publish(again, "wills/end", "end")
    for index, watcher in enumerate(watchers):
        while (packet := watcher.receive(PUBLISH)).topic != "wills/end":
            came[index].append(packet.topic)
        watcher.disconnect()
    case.notes(f"20 wills once on each of two nodes, {took:.1f} s after the kill" if all(len(topics) == 20 for topics in came) else f"{came}")
    assert all(sorted(topics) == sorted({f"wills/{number}" for number in range(20)}) for topics in came)
    assert took < LEASE + 2 * PATIENCE
    for wire in (again, *dying):
        wire.close()


@pytest.mark.incident("a share group loses a member", "SIGKILL to the node of one of two members; started again when its lease is over")
def test_a_share_group_loses_a_member(case, site):
    members = [Subscriber(f"member{index}", [doors_of(site.nodes)[index]], "$share/group/work/#").start() for index in (1, 2)]
    for member in members:
        wait_until(member.live.is_set, "it has subscribed", LASTING)
    publishers = [Publisher(f"work-{qos}", doors_of(site.nodes)[:1], f"work/{qos}", qos).start() for qos in (1, 2)]
    time.sleep(2)
    site.nodes[2].broker.kill()
    is_told_to_be_gone(case, site.nodes[:2])
    time.sleep(2)
    site.nodes[2].broker.restart()
    site.is_whole()
    time.sleep(2)
    for publisher in publishers:
        publisher.end()

    def came(topic: str) -> list[int]:
        return [number for member in members for number in list(member.came.get(topic, []))]

    def missing() -> int:
        return sum(len(publisher.acknowledged - set(came(publisher.topic))) for publisher in publishers)

    try:
        wait_until(lambda: not missing(), "all has come to the group", 4 * PATIENCE)
    except AssertionError:
        pass
    time.sleep(1)
    twice = [len(came(publisher.topic)) - len(set(came(publisher.topic))) for publisher in publishers]
    acknowledged = sum(len(publisher.acknowledged) for publisher in publishers)
    waited = max(publisher.longest_answer for publisher in publishers)
    case.notes(f"missing {missing()} of {acknowledged}; twice {twice[0]} of QoS 1, {twice[1]} of QoS 2; longest wait {waited:.1f} s for an answer")
    for member in members:
        member.end()
    assert acknowledged > 50 and missing() == 0 and twice[1] == 0 and waited < AT_ONCE
    assert not [trouble for client in (*members, *publishers) for trouble in client.troubles]


@pytest.mark.incident("a session expires while its node is dead", "a session of 15 s on a node that is killed, and started again behind that")
def test_a_session_expires_while_its_node_is_dead(case, site):
    wire, _, _ = comes(site.nodes[2], "short", properties=b"\x11" + struct.pack(">I", 15))
    wire.subscribe("short", 1)
    wire.disconnect()
    # Its record says since when it is away.
    time.sleep(2)
    site.nodes[2].broker.kill()
    is_told_to_be_gone(case, site.nodes[:2])
    ended = r"the session of client short has expired; the node that kept it is gone"
    wait_until(lambda: any(ended in node.broker.log for node in site.nodes[:2]), "it ends", 5 * PATIENCE)
    enders = [node for node in site.nodes[:2] if ended in node.broker.log]
    assert len(enders) == 1, "it ends once"
    case.told(enders[0], "log", ended)
    case.counts(enders[0], "martlet_cluster_expired_sessions_total")
    site.nodes[2].broker.restart()
    site.is_whole()
    for node in (site.nodes[2], site.nodes[0]):
        wire, present, _ = comes(node, "short", properties=b"\x11" + struct.pack(">I", 15))
        assert present == (node is site.nodes[0]), "the old one is gone, the new one stays"
        wire.disconnect()
    case.notes("Session Present 0 on its own node, behind its expiry")


@pytest.mark.incident("300 clients come at once", "SIGKILL to their node; half of them begin new sessions, half want theirs")
def test_300_clients_come_at_once(case, site):
    count = 300
    kinds = {f"storm-{number}": number % 2 == 0 for number in range(count)}
    old = [comes(site.nodes[2], name, clean=clean, properties=b"" if clean else LASTS)[0] for name, clean in kinds.items()]
    site.nodes[2].broker.kill()
    results: dict[str, tuple[bool, float]] = {}
    wires: list[PatientWire] = []

    def come(number: int, name: str):
        wire, present, took = comes(site.nodes[number // 2 % 2], name, clean=kinds[name], properties=b"" if kinds[name] else LASTS)
        results[name] = (present, took)
        wires.append(wire)

    clients = [threading.Thread(target=come, args=item) for item in enumerate(kinds)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(90)
    assert len(results) == count, f"{count - len(results)} are not in"
    for clean, words, bound in ((True, "begins anew", AT_ONCE), (False, "has its session", LASTING)):
        waits = sorted(took for name, (_, took) in results.items() if kinds[name] == clean)
        case.notes(f"who {words}: {waits[0]:.1f} to {waits[-1]:.1f} s, median {waits[len(waits) // 2]:.1f}")
        assert waits[-1] < bound
    lost = [name for name, (present, _) in results.items() if not kinds[name] and not present]
    case.notes(f"{len(lost)} of {count // 2} sessions lost")
    assert not lost and not any(present for name, (present, _) in results.items() if kinds[name])
    is_told_to_be_gone(case, site.nodes[:2])
    for node in site.nodes[:2]:
        case.told(node, "log", r"client \S+ is refused: the node that has its session, node2[^\n]*")
        case.told(node, "log", r"\d+ more clients were refused: the node that has their sessions, node2[^\n]*")
    refusals = [len(re.findall(r"refused|server unavailable", case.said(node, "log"))) for node in site.nodes[:2]]
    case.heard(f"log: {max(refusals)} lines of refusals a node at most")
    assert max(refusals) < 30
    for wire in (*old, *wires):
        wire.close()
    site.nodes[2].broker.restart()
    site.is_whole()


@pytest.mark.incident("one identifier on two nodes", "two clients of one name that come again 0.1 s after they are cut off, for 10 s")
def test_one_identifier_on_two_nodes(case, site):
    doors = doors_of(site.nodes)
    rivals = [Subscriber("rival", [doors[index]], "rival", qos=1) for index in (0, 1)]
    publisher = Publisher("rival-sender", doors[2:], "rival", 1).start()
    # Sooner than a session goes from node to node: each gets it all the same, one after the other.
    for rival in rivals:
        rival.pause = 0.1
    rivals[0].start()
    wait_until(rivals[0].live.is_set, "it has subscribed", LASTING)
    # The other one finds the session with its subscription.
    rivals[1].live.set()
    rivals[1].start()
    wait_until(lambda: rivals[0].reasons[TAKEN_OVER] > 2, "they fight", 2 * PATIENCE)
    time.sleep(8)
    rivals[0].end()
    before = len(rivals[1].came.get("rival", []))
    wait_until(lambda: len(rivals[1].came.get("rival", [])) > before, "the other one has it", LASTING)
    publisher.end()
    wanted = publisher.acknowledged

    def came() -> list[int]:
        return [number for rival in rivals for number in list(rival.came.get("rival", []))]

    # What it had before both had subscribed is nobody's.
    first = min(came())
    wanted = {number for number in wanted if number >= first}
    try:
        wait_until(lambda: wanted <= set(came()), "all has come", 2 * PATIENCE)
    except AssertionError:
        pass
    fights = sum(rival.reasons[TAKEN_OVER] for rival in rivals)
    rivals[1].end()
    missing = wanted - set(came())
    case.notes(f"{fights} takeovers, each told 0x8e; missing {len(missing)} of {len(wanted)}; twice {len(came()) - len(set(came()))} of QoS 1; "
               f"longest wait {publisher.longest_answer:.1f} s for an answer, {max(rival.longest_connect for rival in rivals):.1f} s to come in")  # fmt: skip
    assert not missing and len(wanted) > 50 and fights > 2
    for node in site.nodes[:2]:
        case.told(node, "ctl closed", r"rival .*another connection uses this Client Identifier on another node of the cluster")


@pytest.mark.incident("a node joins 30,000 retained messages", "a fourth node starts with an empty store")
def test_a_node_joins_30_000_retained_messages(case, make_site, add_node):
    site, count, window = make_site(), 30_000, 500
    sender, _, _ = comes(site.nodes[0], "fills", clean=True)
    for number in range(count):
        sender.publish(f"shelf/{number}", str(number), qos=1, identifier=number % 60_000 + 1, retain=True)
        if number >= window:
            assert sender.receive(PUBACK, 2 * PATIENCE)
    for _ in range(window):
        assert sender.receive(PUBACK, 2 * PATIENCE)
    began = time.monotonic()
    late = add_node("late", site.servers[0].address)
    wait_until(lambda: late.get("/readyz")[0] == 200, "it is ready", 6 * PATIENCE)
    took = time.monotonic() - began
    case.told(late, "log", r"ready, with 3 other nodes")
    case.told(late, "ctl health", r"\(exit code 0\)")
    reader, _, _ = comes(late, "reads", clean=True)
    reader.send(frame(SUBSCRIBE, 2, b"\x00\x01\x00" + text("shelf/+") + b"\x00"))
    found = set()
    while len(found) < count:
        packet = reader.receive(seconds=2 * PATIENCE)
        assert packet, "the reader's connection has ended"
        if packet.kind == PUBLISH:
            found.add(packet.topic)
    case.notes(f"ready after {took:.1f} s, with {len(found)} of {count}")
    assert took < 30
    for wire in (sender, reader):
        wire.close()

"""What happens to the NATS servers, and to what they keep."""

import re
import signal
import time

import pytest
from cluster.clients import SHUTTING_DOWN, UNAVAILABLE, publish
from cluster.nats import account_lines, leader, start
from cluster.site import restart
from cluster.test_emptied_streams import is_emptied, lets_in_and_retains
from cluster.test_full_streams import QUOTA_EXCEEDED, bound
from cluster.test_logins import rewrite
from cluster.test_retained import found
from harness.waiting import PATIENCE, wait_until
from harness.wire import PUBACK, PUBLISH, Wire
from incidents.test_nodes import AT_ONCE, LASTING, comes
from incidents.traffic import Publisher, Traffic, doors_of

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(300)]

LOG = "martlet_tests_log_0"
RETAINED = "martlet_tests_retained"
LEASES = "KV_martlet_tests_nodes"
RECORDS = "KV_martlet_tests_sessions"
#: Seconds in which JetStream's servers elect a leader, and the log takes up what waited.
ELECTION = 20
EXPIRED = r"this node's lease has expired: its clients are disconnected[^\n]*"


def retained(node) -> dict[str, str]:
    def connect(node):
        wire = Wire(node.port, "mqttv311")
        assert wire.connect()[1] == 0
        return wire

    return found(connect, node, "kept/#")


def retain(node, count: int):
    wire, _, _ = comes(node, "retains", clean=True)
    for number in range(count):
        publish(wire, f"kept/{number}", "x", retain=True)
    wire.disconnect()


@pytest.mark.incident("one of three servers is lost", "SIGKILL to the server that leads the log; started again after 15 s")
def test_one_server_is_lost(case, site, traffic):
    lost = leader(site.servers, LOG)
    theirs = [node for node in site.nodes if f" {lost.name} " in case.said(node, "ctl cluster").partition(node.name)[2].partition("\n")[0]]
    lost.kill()
    for node in theirs:
        case.told(node, "log", r"Cluster tests: [^\n]*127\.0\.0\.1[^\n]*")
        case.told(node, "log", r"connected to nats-server \S+ \(n\d\)")
        case.counts(node, "martlet_cluster_lost_connections_total")
    traffic.goes_on()
    for node in site.nodes:
        node.is_ready()
    time.sleep(5)
    start(site.servers)
    site.is_whole()
    case.not_told(site.nodes, "log", "are called")
    # Where processors are busy, servers elect longer than a lease lasts.
    if expired := [node for node in site.nodes if re.search(EXPIRED, case.said(node, "log"))]:
        case.notes(f"the servers elected their leader so late that the leases of {len(expired)} nodes expired")
    case.saw(traffic.end(), answer=60 if expired else ELECTION, connect=60 if expired else AT_ONCE)


@pytest.mark.incident("servers are restarted one by one", "SIGTERM, start, healthz; the next one")
def test_servers_are_restarted_one_by_one(case, site, traffic):
    for server in site.servers:
        server.stop()
        start(site.servers)
        site.is_whole()
        traffic.goes_on()
    # Whatever servers the nodes had, each has lost one.
    for node in site.nodes:
        case.told(node, "log", r"connected to nats-server \S+ \(n\d\)")
    case.not_told(site.nodes, "log", "lease has expired|are called")
    case.saw(traffic.end(), answer=ELECTION, connect=AT_ONCE)


@pytest.mark.incident("the majority of the servers is lost", "SIGKILL to two of three; started again when leases are over")
def test_the_majority_of_the_servers_is_lost(case, site, traffic):
    for server in site.servers[1:]:
        server.kill()
    for node in site.nodes:
        case.told(node, "log", EXPIRED, 4 * PATIENCE)
        case.told(node, "/readyz", r"503\n(?:.*\n)*\[-\]cluster failed: .*")
        case.told(node, "ctl health", r"cluster[^\n]*(?:.*\n)*.*\(exit code 1\)")
    case.told(site.nodes[0], "ctl alarms", r"cluster_down.*")
    wait_until(lambda: all(client.reasons[SHUTTING_DOWN] for client in traffic.clients), "clients are told", 2 * PATIENCE)
    wait_until(lambda: all(client.reasons[UNAVAILABLE] for client in traffic.clients), "and refused", 2 * PATIENCE)
    start(site.servers)
    began = time.monotonic()
    site.is_whole()
    case.notes(f"nodes are whole {time.monotonic() - began:.1f} s after the servers")
    traffic.goes_on()
    case.not_told(site.nodes, "log", "are called")
    case.saw(traffic.end(), answer=60, connect=60)


@pytest.mark.incident("the log is full, and takes no more", "max_bytes of 200 kB with discard new on the log's stream, under load; lifted")
def test_the_log_is_full_and_takes_no_more(case, site, traffic):
    idle, _, _ = comes(site.nodes[1], "idle")
    idle.subscribe("idle", 1)
    bound(site.servers[0], LOG, 200_000)
    large = Publisher("large", doors_of(site.nodes), "large", 1, size=8000).start()
    wait_until(lambda: large.reasons[QUOTA_EXCEEDED] and all(publisher.reasons[QUOTA_EXCEEDED] for publisher in traffic.publishers),
               "all publishers are refused", 4 * PATIENCE)  # fmt: skip
    words = rf"the servers have no room in the stream {LOG}: maximum bytes exceeded.*"
    for where in ("log", "/readyz", "ctl cluster"):
        case.told(site.nodes[0], where, words)
    case.told(site.nodes[0], "ctl alarms", "cluster_full.*no room in the stream martlet_.*")
    case.counts(site.nodes[0], "martlet_cluster_refusing_streams")
    # QoS 0 goes on, and clients stay, but for those that are sent QoS 2: what they get has to be in the log first.
    quick, _, _ = comes(site.nodes[1], "quick", clean=True)
    quick.subscribe("quick")
    quick.publish("quick", "x")
    assert quick.receive(PUBLISH)
    quick.disconnect()
    idle.ping()
    assert set(traffic.subscriber.reasons) <= {QUOTA_EXCEEDED}
    bound(site.servers[0], LOG, -1)
    case.told(site.nodes[0], "log", rf"there is room in the stream {LOG} again")
    idle.disconnect()
    site.is_whole()
    traffic.goes_on()
    large.end()
    case.saw(traffic.end(), answer=AT_ONCE, connect=AT_ONCE)


@pytest.mark.incident("the log is full, and discards its oldest", "a node is away while 60 messages of 8 kB come into a log of 200 kB with discard old")
def test_the_log_is_full_and_discards_its_oldest(case, site):
    away = site.nodes[2]
    wire, _, _ = comes(away, "away")
    wire.subscribe("away", 1)
    wire.disconnect()
    time.sleep(1)
    away.broker.kill()
    bound(site.servers[0], LOG, 200_000, discard="old")
    sender, _, _ = comes(site.nodes[0], "sender", clean=True)
    for number in range(60):
        publish(sender, "away", f"{number} ".ljust(8000, "."))
    away.broker.restart()
    site.is_whole()
    wire, present, _ = comes(away, "away")
    assert present
    came = []
    while not came or came[-1] < 59:
        packet = wire.receive(PUBLISH, 2 * PATIENCE)
        came.append(int(re.search(rb"(\d+) \.", packet.body)[1]))
        wire.acknowledge(PUBACK, packet.identifier)
    missing = 60 - len(set(came))
    case.notes(f"missing {missing} of 60, the oldest, as documented; twice {len(came) - len(set(came))}")
    told = case.told(away, "log", r"(\d+) records [^\n]* were deleted before this node had read them \((\d+) to (\d+)\)")
    assert len(re.findall("were deleted before this node had read them", case.said(away, "log"))) == 1
    count, first, last = (int(number) for number in told.groups())
    assert count == last - first + 1 and missing <= count
    assert case.counts(away, "martlet_cluster_lost_log_records_total") == count
    case.not_told(site.nodes[:2], "log", "were deleted before")
    bound(site.servers[0], LOG, -1, discard="old")
    for one in (wire, sender):
        one.disconnect()


@pytest.mark.incident("the servers' disks are full", "max_file_store of 3 MB; then 300 MB")
def test_the_servers_disks_are_full(case, make_site):
    site = make_site(limits="max_file_store: 3MB")
    traffic = Traffic("disks", doors_of(site.nodes))
    large = Publisher("large", doors_of(site.nodes), "large", 1, size=16_000, pace=0.005).start()
    words = "their disks are full, or what they may use of them"
    # Servers that have nothing left refuse some, and answer nothing to the others.
    node = case.told_by_one(site.nodes, "log", rf"the servers have no room in the stream [^\n]*{words}[^\n]*", 6 * PATIENCE)
    for where in ("/readyz", "ctl cluster", "ctl health"):
        case.told(node, where, rf".*no room.*{words}.*")
    case.told(node, "ctl alarms", r"cluster_full.*")
    for each in site.nodes:
        case.told(each, "/readyz", r"503\n(?:.*\n)*.*no room.*", 3 * PATIENCE)
        case.told(each, "log", EXPIRED, 4 * PATIENCE)
    time.sleep(12)
    # It is not taken for over because nothing is asked of the servers any more.
    case.told(node, "ctl alarms", r"cluster_full.*")
    case.counts(node, "martlet_cluster_refusing_streams")
    for server in site.servers:
        server.kill()
        server.configuration.write_text(server.configuration.read_text().replace("3MB", "300MB"))
    start(site.servers)
    case.told(node, "log", r"there is room in the stream \S+ again", 4 * PATIENCE)
    site.is_whole()
    traffic.goes_on()
    large.end()
    case.saw(traffic.end(), answer=90, connect=90)


@pytest.mark.incident("the password is changed at the servers", "SIGHUP to the servers with another one; 20 s later the new one and SIGHUP at the nodes")
def test_the_password_is_changed(case, make_site):
    site = make_site(lines=account_lines("user: u, password: old"), node_lines="martlet_cluster_user u\nmartlet_cluster_password old")
    traffic = Traffic("password", doors_of(site.nodes))
    for server in site.servers:
        rewrite(server.configuration, "password: old", "password: new")
        server.process.send_signal(signal.SIGHUP)
    for node in site.nodes:
        case.told(node, "log", r"Cluster tests: [^\n]*Authorization Violation[^\n]*")
    for where in ("/readyz", "ctl cluster", "ctl health"):
        case.told(site.nodes[0], where, r".*Authorization Violation.*")
    case.told(site.nodes[0], "ctl alarms", r"cluster_down.*Authorization Violation.*")
    case.told(site.nodes[0], "log", EXPIRED, 4 * PATIENCE)
    for node in site.nodes:
        rewrite(node.broker.configuration_path, "password old", "password new")
        node.broker.signal(signal.SIGHUP)
    site.is_whole()
    traffic.goes_on()
    case.not_told(site.nodes, "log", "are called|started again")
    case.saw(traffic.end(), answer=60, connect=60)


@pytest.mark.parametrize("how", [
    pytest.param(how, marks=pytest.mark.incident(f"the log is {words}", f"nats stream {command} {LOG}, under load"))
    for how, words, command in (("PURGE", "purged", "purge"), ("DELETE", "deleted", "rm"))])  # fmt: skip
def test_the_log_is_emptied(case, make_site, how):
    site = make_site()
    traffic = Traffic("emptied", doors_of(site.nodes))
    assert site.servers[0].request(f"$JS.API.STREAM.{how}.{LOG}")["success"]
    if how == "DELETE":
        case.told(site.nodes[0], "/readyz", rf"503\n(?:.*\n)*.*stream {LOG}: it was deleted.*")
    traffic.goes_on(20)
    if how == "DELETE":
        case.told(site.nodes[0], "log", r"the stream of the log's partition 0 is not the one that this node has read before[^\n]*", 3 * PATIENCE)
    site.is_whole()
    # Of each of the two publishers one may have been stored, and not been read yet by the receiver's node: nobody has it then.
    case.saw(traffic.end(), answer=ELECTION, connect=LASTING, missing=2)


@pytest.mark.parametrize("how", [
    pytest.param(how, marks=pytest.mark.incident(f"retained messages are {words}", f"nats stream {command} {RETAINED}, then a node is restarted"))
    for how, words, command in (("PURGE", "purged", "purge"), ("DELETE", "deleted", "rm"))])  # fmt: skip
def test_the_retained_messages_are_emptied(case, make_site, how):
    site = make_site()
    retain(site.nodes[0], 20)
    for node in site.nodes:
        wait_until(lambda node=node: len(retained(node)) == 20, f"{node.name} has them")
    traffic = Traffic("retained", doors_of(site.nodes))
    assert site.servers[0].request(f"$JS.API.STREAM.{how}.{RETAINED}")["success"]
    traffic.goes_on()
    if how == "DELETE":
        case.told(site.nodes[0], "log", rf"Cluster tests: [^\n]*{RETAINED}[^\n]*")
        # They are made anew from the nodes' copies.
        wait_until(lambda: "error" not in site.servers[0].request(f"$JS.API.STREAM.INFO.{RETAINED}"), "the stream is there again", 3 * PATIENCE)
        wait_until(lambda: site.servers[0].request(f"$JS.API.STREAM.INFO.{RETAINED}")["state"]["messages"] >= 20, "with all", 3 * PATIENCE)
    site.is_whole()
    site.nodes[1].broker.stop()
    site.nodes[1].broker.restart()
    site.is_whole()
    counts = [len(retained(node)) for node in site.nodes]
    case.notes(f"{counts} of 20 retained messages on the nodes, of which the second was restarted")
    assert counts == [20, 20, 20] if how == "DELETE" else counts[0] == counts[2]
    lets_in_and_retains(site.nodes, lambda port: Wire(port, "mqttv5"), "again")
    case.saw(traffic.end(), answer=ELECTION, connect=LASTING)


@pytest.mark.incident("leases are deleted", f"nats stream rm {LEASES}, three times, under load")
def test_leases_are_deleted(case, make_site):
    site = make_site()
    traffic = Traffic("leases", doors_of(site.nodes))
    for _ in range(3):
        assert site.servers[0].request(f"$JS.API.STREAM.DELETE.{LEASES}")["success"]
        time.sleep(4)
        site.is_whole()
        traffic.goes_on()
    case.told_by_one(site.nodes, "log", rf"[^\n]*the stream {LEASES} has no leader yet or no room|stream {LEASES}: stream not found[^\n]*")
    case.told(site.nodes[0], "log", EXPIRED)
    case.saw(traffic.end(), answer=60, connect=60)


@pytest.mark.incident("sessions' records are deleted", f"nats stream rm {RECORDS}, three times, under load; clients subscribe, and stay")
def test_records_are_deleted(case, make_site):
    site = make_site()
    traffic = Traffic("records", doors_of(site.nodes))
    for number in range(3):
        wire, _, _ = comes(site.nodes[1], f"subscribes{number}")
        wire.subscribe("first", 1)
        assert site.servers[0].request(f"$JS.API.STREAM.DELETE.{RECORDS}")["success"]
        traffic.goes_on(20)
        # Who has a session subscribes, which its record has to say.
        began = time.monotonic()
        assert wire.subscribe(f"more/{number}", 1) == 1
        case.notes(f"SUBACK after {time.monotonic() - began:.1f} s")
        wire.disconnect()
        site.is_whole()
    case.saw(traffic.end(), answer=ELECTION, connect=AT_ONCE)


@pytest.mark.incident("the retained stream has become empty", "the only retained message expires; all nodes are restarted one by one, then all at once")
def test_the_retained_stream_has_become_empty(case, make_site):
    site = make_site()
    wire, _, _ = comes(site.nodes[0], "expires", clean=True)
    publish(wire, "soon", "x", retain=True, properties=b"\x02\x00\x00\x00\x01")
    wire.disconnect()
    is_emptied(site.servers[0], RETAINED)
    traffic = Traffic("empty", doors_of(site.nodes))
    for node in site.nodes:
        node.broker.stop()
        node.broker.restart()
        node.is_ready()
    traffic.goes_on()
    restart(site.nodes)
    for node in site.nodes:
        node.is_ready()
        case.told(node, "log", r"ready, with \d other nodes?")
        case.told(node, "ctl health", r"\(exit code 0\)")
    lets_in_and_retains(site.nodes, lambda port: Wire(port, "mqttv5"), "again")
    case.saw(traffic.end(), answer=LASTING, connect=LASTING)

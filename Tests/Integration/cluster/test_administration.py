"""Three nodes that are seen, asked and steered from any of them; and what becomes of the clients of one that is drained."""

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from harness import dashboard as chromium
from harness.program import run
from harness.waiting import PATIENCE, wait_until
from harness.wire import DISCONNECT, PUBACK, PUBLISH

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(600)]

UP = {f"node{index}": "up" for index in range(3)}
USE_ANOTHER_SERVER = 0x9C
#: Clients of a node that is drained.
CROWD = int(os.environ.get("MARTLET_CROWD", "500"))


@pytest.fixture
def seen(nodes) -> list:
    """The nodes, when all know all."""
    for node in nodes:
        wait_until(lambda node=node: node.sees() == UP, f"{node.name} sees all", 2 * PATIENCE)
    return nodes


def ctl(program, node, *words: str, code: int = 0) -> str:
    done = run(program, "ctl", words[0], "--url", f"http://127.0.0.1:{node.http}", "--token", "mrt_admin", *words[1:])
    assert done.returncode == code, done.stdout
    return done.stdout


def test_each_node_is_seen_from_each(seen, wire_to, program):
    clients = [wire_to(node.port) for node in seen for _ in range(2)]
    for number, client in enumerate(clients):
        client.connect(f"seen-{number}")
    for node in seen:
        wait_until(lambda node=node: node.ask("cluster")[1]["totals"]["clients_connected"] >= 6, "all clients are counted")
        status, cluster = node.ask("cluster")
        assert status == 200 and cluster["name"] == "tests" and cluster["node"] == node.name and cluster["trouble"] is None
        assert [row["self"] for row in cluster["nodes"]] == [row["name"] == node.name for row in cluster["nodes"]]
        assert [row["address"] for row in cluster["nodes"]] == [f"node{index}.example:1883" for index in range(3)]
        assert all(row["clients_connected"] >= 2 and row["server"] and row["version"] for row in cluster["nodes"])
        assert cluster["totals"]["nodes_up"] == 3 and cluster["shared_names"] == []
        assert node.metric('martlet_cluster_nodes{cluster="tests",state="up"}') == 3
        assert node.metric('martlet_cluster_node_up{cluster="tests",node="node2"') == 1
    assert "tests, nodes: 3 up" in ctl(program, seen[0], "status")
    table = ctl(program, seen[1], "cluster")
    assert "node1 *" in table and "node2.example:1883" in table
    assert json.loads(ctl(program, seen[1], "cluster", "--json"))["node"] == "node1"


def test_the_whole_cluster_stands_below_sys(seen, wire_to):
    client = wire_to(seen[0].port)
    client.connect("watcher")
    client.subscribe("$SYS/broker/cluster/nodes/up")
    wait_until(lambda: client.receive(PUBLISH).body.endswith(b"3"), "three nodes are told of", PATIENCE)


def test_clients_are_listed_found_and_kicked_wherever_they_are(seen, wire_to, program):
    clients = {}
    for index in range(6):
        if index == 3:
            time.sleep(0.1)  # Nodes have clocks of their own, which agree to some milliseconds.
        clients[f"far-{index}"] = wire_to(seen[index % 3].port)
        clients[f"far-{index}"].connect(f"far-{index}")
    names, cursor = [], ""
    while cursor is not None:
        status, page = seen[0].ask(f"clients?cluster=true&prefix=far-&limit=4{f'&cursor={cursor}' if cursor else ''}")
        assert status == 200 and page["meta"]["missing_nodes"] == [] and len(page["data"]) <= 4
        names += [(row["clientid"], row["node"]) for row in page["data"]]
        cursor = page["meta"]["cursor"]
    assert names == [(f"far-{index}", f"node{index % 3}") for index in range(6)]
    latest = seen[1].ask("clients?cluster=true&prefix=far-&sort=-connected_at&limit=2")[1]
    assert seen[1].ask("clients?cluster=true&limit=1")[1]["meta"]["count"] >= 6
    rest = seen[1].ask(f"clients?cluster=true&prefix=far-&sort=-connected_at&limit=4&cursor={latest['meta']['cursor']}")[1]
    both = latest["data"] + rest["data"]
    assert len(latest["data"]) == 2 and sorted(row["clientid"] for row in both) == [f"far-{index}" for index in range(6)]
    assert {row["clientid"] for row in both[:3]} == {"far-3", "far-4", "far-5"}
    assert seen[0].ask("clients?cluster=true&limit=0")[0] == 400
    # Elsewhere it is not this node's.
    assert seen[0].ask("clients/far-1")[0] == 404
    status, found = seen[0].ask("clients/far-1?cluster=true")
    assert status == 200 and found["node"] == "node1" and found["connected"]
    assert seen[0].ask("clients/far-1/connection?cluster=true", "DELETE")[0] == 204
    assert clients["far-1"].receive_end() is not None
    assert seen[0].ask("clients/far-1/connection?cluster=true", "DELETE")[0] == 404
    assert "far-2 is disconnected." in ctl(program, seen[0], "kick", "far-2")
    assert clients["far-2"].receive_end() is not None
    assert "NODE" in ctl(program, seen[0], "clients", "--cluster", "far-")
    audit = seen[2].ask("audit")[1]["data"]
    assert any(entry["who"] == "admin@node0" and entry["operation"] == "disconnectClient" for entry in audit)
    clients["far-0"].ping()


@pytest.fixture
def dashboard(seen):
    if not chromium.IS_HERE:
        pytest.skip("there is no chromium here, or no chromedriver")
    browser = chromium.start_browser()
    yield chromium.Dashboard(seen[0].broker, seen[0].http, browser)
    browser.quit()


def test_the_dashboard_shows_the_nodes_and_reaches_clients_anywhere(dashboard, seen, wire_to):
    checks = (Path(__file__).parents[1] / "administration/audit.js").read_text()
    client = wire_to(seen[1].port)
    client.connect("<b>far</b>")
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.complaints()
    dashboard.wait("#pages a[data-name=cluster]")
    problems = []
    for scheme, width in [("dark", 320), ("light", 1360)]:
        dashboard.look(scheme, width)
        dashboard.open("cluster")
        for words in ("node0 (this one)", "node1.example:1883", "3 up", "<b>far</b>"):
            dashboard.see(words)
        problems += dashboard.browser.execute_script(checks) + dashboard.complaints()
    assert problems == []
    links = dashboard.browser.execute_script("return Array.from(document.querySelectorAll('main a'), link => [link.textContent, link.href])")
    assert links == [["node2", f"http://node2.example:{seen[2].http}/dashboard/"]]
    dashboard.press("Disconnect")
    dashboard.confirm("Disconnect")
    assert client.receive_end() is not None


def test_a_drained_node_sends_its_clients_to_the_others(seen, wire_to):
    modern = [wire_to(seen[0].port) for _ in range(4)]
    for number, client in enumerate(modern):
        client.connect(f"modern-{number}")
    old = wire_to(seen[0].port, "mqttv311")
    old.connect("old")
    status, drain = seen[0].ask("drain", "POST", {})
    assert status == 200
    # One that drains as well is no place to go to, nor is one that is gone.
    assert drain["server_reference"] == "node1.example:1883 node2.example:1883"
    places = Counter()
    for client in modern:
        packet = client.receive(DISCONNECT)
        assert packet.body[0] == USE_ANOTHER_SERVER
        first = packet.body.index(b"node")
        places[packet.body[first:first + 5]] += 1
    assert places == {b"node1": 2, b"node2": 2}
    assert old.receive_end() is None
    newcomer = wire_to(seen[0].port)
    assert newcomer.connect("newcomer")[1] == USE_ANOTHER_SERVER
    assert wire_to(seen[0].port, "mqttv311").connect("newcomer")[1] == 3
    assert seen[0].get("/readyz")[0] == 503 and "the broker is being drained" in seen[0].get("/readyz?verbose")[1]
    wait_until(lambda: seen[0].ask("broker")[1]["drain"]["state"] == "drained", "nobody is left")
    wait_until(lambda: [row["draining"] for row in seen[1].ask("cluster")[1]["nodes"]] == [True, False, False], "the others know")
    # It is no place for those of another one.
    assert seen[1].ask("drain", "POST", {})[1]["server_reference"] == "node2.example:1883"
    for node in seen[:2]:
        assert node.ask("drain", "DELETE")[0] == 204
    assert wire_to(seen[0].port).connect("back")[1] == 0


def test_a_crowd_is_drained_and_nothing_that_was_acknowledged_is_lost(seen, wire_to):
    receiver = wire_to(seen[2].port)
    receiver.connect("receiver")
    receiver.subscribe("drained/#")
    publishers = [wire_to(seen[0].port) for _ in range(CROWD)]
    for number, client in enumerate(publishers):
        client.connect(f"publisher-{number}")
    came: set[bytes] = set()

    def read():
        while packet := receiver.receive(PUBLISH):
            if packet.topic == "drained/end":
                return
            came.add(packet.body[packet.body.index(b"m"):])

    reader = threading.Thread(target=read)
    reader.start()
    acknowledged, alive, turn = set(), dict(enumerate(publishers)), 0
    while alive:
        turn += 1
        if turn == 2:
            assert seen[0].ask("drain", "POST", {"per_second": max(100, CROWD // 12)})[0] == 200
        # So many at once as the socket of the receiver holds with ease.
        rest = list(alive.items())
        while rest:
            part, rest, gone = rest[:100], rest[100:], set()
            for number, client in part:
                try:
                    client.publish("drained/x", f"m{number}-{turn}", qos=1, identifier=turn)
                except OSError:
                    gone.add(number)
            for number, client in part:
                try:
                    packet = None if number in gone else client.receive()
                except OSError:
                    packet = None
                if packet and packet.kind == PUBACK:
                    acknowledged.add(f"m{number}-{turn}".encode())
                else:
                    assert packet is None or packet.body[0] == USE_ANOTHER_SERVER
                    del alive[number]
    assert turn > 2 and len(acknowledged) > CROWD
    last = wire_to(seen[1].port)
    last.connect("last")
    wait_until(lambda: last.publish("drained/end", "m") or not reader.is_alive(), "the end has come")
    missing = acknowledged - came
    assert not missing, f"{len(missing)} of {len(acknowledged)} are lost"
    assert seen[0].ask("drain", "DELETE")[0] == 204
    reader.join(PATIENCE)


def test_a_node_that_is_killed_is_gone_and_one_that_stops_has_left(site, seen, wire_to):
    """The last one: it takes the lease's time."""
    client = wire_to(seen[0].port)
    client.connect("here")
    seen[1].broker.stop()
    seen[2].broker.kill()
    wait_until(lambda: seen[0].sees().get("node1") == "left", "it has said goodbye", PATIENCE)
    # While nobody knows that it is gone, it is asked, and does not answer.
    assert seen[0].ask("clients/nobody?cluster=true")[0] in (404, 503)
    wait_until(lambda: seen[0].sees() == {"node0": "up", "node1": "left", "node2": "gone"}, "it is gone", 3 * PATIENCE)
    assert seen[0].metric('martlet_cluster_node_up{cluster="tests",node="node2"') == 0
    rows = seen[0].ask("cluster")[1]["nodes"]
    assert [row["clients_connected"] is None and row["received_messages_rate"] is None for row in rows] == [False, True, True]
    assert seen[0].ask("clients?cluster=true&q=here")[1]["meta"]["missing_nodes"] == []
    for node in seen[1:]:
        node.broker.restart()
    site.is_whole()
    for node in seen:
        wait_until(lambda node=node: node.sees() == UP, f"{node.name} sees all", 2 * PATIENCE)

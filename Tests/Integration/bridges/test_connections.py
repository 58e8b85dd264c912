"""Bridges with several connections: each carries a part of the topics that go out."""

import json
import signal
import subprocess

import pytest
from bridges.links import is_connected
from harness.commands import run
from harness.waiting import wait_until

pytestmark = pytest.mark.martlet("2.0 has one connection a bridge")

COUNT = 4
TOPICS = 8
MESSAGES = 10
SECTION = "topic load/# out 2\nmartlet_bridge_connections 4"


def are_connected(broker, name="b", count=COUNT, times=1):
    """Waits until the log has said so many times that each connection is there."""
    for number in range(1, count + 1):
        is_connected(broker, f"{name} ({number} of {count})", times)
    return broker


def publish(port: int, start: int):
    """Publishes numbers from `start` on below each topic, at once for all topics, with their handshakes."""
    lines = "".join(f"{number}\n" for number in range(start, start + MESSAGES)).encode()
    runs = []
    for qos, topic in [(qos, topic) for qos in (1, 2) for topic in range(TOPICS)]:
        runs.append(subprocess.Popen(
            ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(port), "-t", f"load/{qos}/{topic}", "-q", str(qos), "-l"],
            stdin=subprocess.PIPE))  # fmt: skip
        runs[-1].stdin.write(lines)
        runs[-1].stdin.close()
    for process in runs:
        assert process.wait(30) == 0


def keep(tools, **options):
    return tools.subscribe("load/#", qos=2, version="mqttv311", client_id="keeper", arguments=["-c"], **options)


def check(keeper, count: int):
    """All numbers of each topic are there, in order; at QoS 2 once."""
    came = {}
    while sum(len(dict.fromkeys(numbers)) for numbers in came.values()) < 2 * TOPICS * count:
        message = keeper.take_one(40)
        came.setdefault(message.topic, []).append(int(message.payload))
    for topic, numbers in came.items():
        assert list(dict.fromkeys(numbers)) == list(range(count)), f"{topic}: a message is lost or out of order"
        assert topic.startswith("load/1") or numbers == list(range(count)), f"{topic}: a message came twice"


@pytest.fixture
def administered(bridge_to, program, tmp_path):
    """Starts a broker with a bridge, or with none; gives it, and a function that does `martlet ctl bridge`."""

    def start(port: int | None, lines: str = SECTION):
        (tmp_path / "here").mkdir()
        place = tmp_path / "http.sock"
        configuration = f"{durable(tmp_path / 'here')}\nlistener 0 {place}\nprotocol http_api\n"
        broker = bridge_to(port, lines, configuration=configuration)

        def bridge(*words: str, code: int = 0) -> str:
            done = run(program.path, "ctl", "bridge", *words, "--socket", place)
            assert done.code == code, done.output.decode() + done.complaints
            return done.output.decode() + done.complaints

        return broker, bridge

    return start


@pytest.fixture
def other(start_broker, tmp_path):
    """The broker at the other end, which has a client that keeps what comes."""
    (tmp_path / "there").mkdir()
    return start_broker(configuration=durable(tmp_path / "there"))


def durable(directory) -> str:
    return f"persistence true\npersistence_location {directory}/\nmax_queued_messages 0\nmartlet_threads 2\nsys_interval 1"


def state(bridge, name: str = "b") -> dict:
    return json.loads(bridge("show", name, "--json"))


@pytest.mark.timeout(60)
def test_either_broker_is_killed_and_each_topic_keeps_its_order(bridge_to, other, tools_for, tmp_path):
    (tmp_path / "here").mkdir()
    here = bridge_to(other.port, SECTION, configuration=durable(tmp_path / "here"))
    keep(tools_for(other.port)).kill()
    are_connected(here)
    for start, victim in [(0, here), (MESSAGES, other)]:
        publish(here.port, start)
        victim.kill()
        victim.restart()
    check(keep(tools_for(other.port), wait=False), 2 * MESSAGES)


@pytest.mark.timeout(60)
def test_mosquitto_gets_each_topic_in_order_and_what_waited_in_a_broker_that_was_killed(bridge_to, reference, tools_for, tmp_path):
    other = reference("")
    (tmp_path / "here").mkdir()
    here = bridge_to(other.port, SECTION, configuration=durable(tmp_path / "here"))
    keeper = keep(tools_for(other.port))
    are_connected(here)
    publish(here.port, 0)
    here.kill()
    here.restart()
    are_connected(here, times=2)
    publish(here.port, MESSAGES)
    check(keeper, 2 * MESSAGES)


@pytest.mark.timeout(60)
def test_what_waits_is_kept_once_and_another_number_waits_for_that(administered, other, tools_for):
    here, bridge = administered(other.port)
    keep(tools_for(other.port)).kill()
    are_connected(here)
    other.kill()
    publish(here.port, 0)
    all_messages = 2 * TOPICS * MESSAGES
    wait_until(lambda: state(bridge)["queue_messages"] == all_messages, "each message waits once")
    row = state(bridge)
    each = row["each_connection"]
    assert [one["clientid"].rpartition(".b")[2] for one in each] == ["", "-2", "-3", "-4"] and row["state"] != "connected"
    assert sum(one["queue_messages"] for one in each) == all_messages and min(one["queue_messages"] for one in each) > 0
    assert "Connection 4" in bridge("show", "b")

    change(here, "connections 4", "connections 2")
    here.signal(signal.SIGHUP)
    here.wait_for_log(r"Warning: Bridge b has martlet_bridge_connections 4 until the broker's next start, instead of 2\.")
    here.stop()
    here.restart()
    here.wait_for_log(rf"Warning: Bridge b keeps its 4 connections: {all_messages} messages are queued for them\.")
    wait_until(lambda: len(state(bridge)["each_connection"]) == 4, "all have told")
    other.restart()
    keeper = keep(tools_for(other.port), wait=False)
    check(keeper, MESSAGES)
    wait_until(lambda: state(bridge)["queue_messages"] == 0, "nothing waits")
    here.stop()
    here.restart()
    are_connected(here, count=2)
    wait_until(lambda: [one["number"] for one in state(bridge)["each_connection"]] == [1, 2], "two are left")
    for topic in range(TOPICS):
        tools_for(here.port).publish(f"load/1/{topic}", "last", qos=1)
    assert {message.topic for message in keeper.take(TOPICS)} == {f"load/1/{topic}" for topic in range(TOPICS)}


def test_a_bridge_with_several_connections_lives_as_administrators_say(administered, other, tools_for):
    here, bridge = administered(other.port, "topic nothing")
    refused = bridge("add", "site", f"address 127.0.0.1:{other.port}", "topic # both 1", "martlet_bridge_connections 3", code=1)
    assert "martlet_bridge_connections needs bridge_protocol_version mqttv50 and martlet_bridge_path true" in refused
    wrong = bridge("add", "site", f"address 127.0.0.1:{other.port}", "topic a", "martlet_bridge_connections 65", code=1)
    assert wrong == 'Error: martlet_bridge_connections: found "65", expected a number from 1 to 64.\n'
    bridge("add", "site", f"address 127.0.0.1:{other.port}", "topic t/# both 1", "martlet_bridge_connections 3",
           "bridge_protocol_version mqttv50", "bridge_session_expiry_interval 600", "restart_timeout 1 2")
    are_connected(here, "site", 3)
    at_here, at_there = (tools_for(broker.port).subscribe("t/#", qos=1) for broker in (here, other))
    for number in range(9):
        tools_for(here.port).publish(f"t/{number}", "h", qos=1)
        tools_for(other.port).publish(f"t/{number}", "t", qos=1)
    wanted = sorted((f"t/{number}", text) for number in range(9) for text in (b"h", b"t"))
    for subscriber in (at_here, at_there):
        assert sorted((message.topic, message.payload) for message in subscriber.take(18)) == wanted
    said = bridge("change", "site", "martlet_bridge_connections 2", code=1)
    assert said.startswith("Error: martlet_bridge_connections: it stays 3 until the broker is restarted or the bridge is removed")
    bridge("pause", "site")
    for number in range(9):
        tools_for(here.port).publish(f"t/{number}", "late", qos=1)
    wait_until(lambda: (state(bridge, "site")["state"], state(bridge, "site")["queue_messages"]) == ("paused", 9), "nine wait")
    told = tools_for(here.port).subscribe("$SYS/broker/bridges/site/queue/messages")
    wait_until(lambda: ">> $SYS/broker/bridges/site/queue/messages|39" in "\n".join(told.lines), "$SYS tells of all together")
    bridge("resume", "site")
    assert {message.topic for message in at_there.take(9)} == {f"t/{number}" for number in range(9)}
    assert at_here.take(9) and not at_here.take_rest() and not at_there.take_rest(), "a message came back"
    bridge("remove", "site")
    said = bridge("add", "site", f"address 127.0.0.1:{other.port}", "topic t/# out 1", "martlet_bridge_connections 2")
    assert said.startswith("The bridge site is added.\nIt is ")
    are_connected(here, "site", 2)


def change(broker, before: str, after: str):
    path = broker.configuration_path
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))

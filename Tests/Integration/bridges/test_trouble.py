"""Bridges whose connection, or whose other end, fails under load."""

import os
import subprocess

import pytest
from bridges.links import is_connected
from client.cutting_proxy import CuttingProxy, Plan
from harness.waiting import wait_until

#: How often the connection is cut, and how many messages of each QoS cross meanwhile.
ROUNDS = int(os.environ.get("MARTLET_BRIDGE_ROUNDS", "6"))
MESSAGES = 60 * ROUNDS


def publish_all(port: int, qos: int, topic: str = "load"):
    """Publishes the numbers below a topic, one after the other, with their handshakes; returns a running process."""
    lines = "".join(f"{number}\n" for number in range(MESSAGES))
    return subprocess.Popen(
        ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(port), "-t", f"{topic}/{qos}", "-q", str(qos), "-l"],
        stdin=subprocess.PIPE, text=True,
    ), lines  # fmt: skip


def check(keeper):
    came = {1: [], 2: []}
    last = str(MESSAGES - 1).encode()
    while any(not numbers or numbers[-1] != last for numbers in came.values()):
        # A stalled connection is given up after its keep alive, and the next begins after a pause.
        message = keeper.take_one(40)
        came[int(message.topic[-1])].append(message.payload)
    wanted = [b"%d" % number for number in range(MESSAGES)]
    assert list(dict.fromkeys(came[1])) == wanted, "at QoS 1 a message is lost or out of order"
    assert came[2] == wanted, "at QoS 2 a message is lost, doubled or out of order"


def keep(tools, topic: str = "load"):
    return tools.subscribe(f"{topic}/#", qos=2, version="mqttv311", client_id="keeper", arguments=["-c"])


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_connection_that_is_cut_again_and_again(bridge_to, start_broker, tools_for):
    other = start_broker(configuration="max_queued_messages 0")
    # One that carries nothing any more ends when PINGREQ has no answer, which takes seven seconds.
    ways = ["reset", "close", "half", "stall"]
    proxy = CuttingProxy(
        other.port, [Plan(up=1500 + 700 * turn if turn % 2 else None, down=None if turn % 2 else 400 + 90 * turn, how=ways[(turn + turn // 4) % 4])
                     for turn in range(ROUNDS)])  # fmt: skip
    here = bridge_to(
        proxy.port, "topic load/# out 2\ntopic back/# in 2\nkeepalive_interval 5", configuration="max_queued_messages 0"
    )
    keepers = [keep(tools_for(other.port)), keep(tools_for(here.port), "back")]
    is_connected(here)
    runs = [publish_all(port, qos, topic) for qos in (1, 2) for port, topic in [(here.port, "load"), (other.port, "back")]]
    for process, lines in runs:
        process.stdin.write(lines)
        process.stdin.close()
    for process, _ in runs:
        assert process.wait(10 * ROUNDS) == 0
    for keeper in keepers:
        check(keeper)
    assert proxy.count > 1
    proxy.close()


def test_either_broker_is_killed(bridge_to, start_broker, tools_for, tmp_path):
    stores = [tmp_path / name for name in ("here", "there")]
    for store in stores:
        store.mkdir()
    durable = [f"persistence true\npersistence_location {store}/\nmax_queued_messages 0" for store in stores]
    other = start_broker(configuration=durable[1])
    keep(tools_for(other.port)).kill()
    here = is_connected(bridge_to(other.port, "topic load/# out 2", configuration=durable[0]))
    for qos in (1, 2):
        process, lines = publish_all(here.port, qos)
        process.communicate(lines, timeout=30)
        assert process.returncode == 0
        victim = here if qos == 1 else other
        victim.kill()
        victim.restart()
    check(tools_for(other.port).subscribe("load/#", qos=2, version="mqttv311", client_id="keeper", arguments=["-c"], wait=False))


def test_other_broker_that_does_not_read_delays_nobody_here(bridge_to, far, tools_for):
    here = bridge_to(far.port, "topic flood/# out 1\nkeepalive_interval 600")
    far.accept(buffer_bytes=262144)
    is_connected(here)
    tools = tools_for(here.port)
    watcher = tools.subscribe("aside", qos=1)
    tools.publish("flood/a", arguments=["-l"], standard_input=(b"x" * 100_000 + b"\n") * 60)
    tools.publish("aside", "here", qos=1)
    assert watcher.take_one().payload == b"here"
    wait_until(lambda: here.log.count("'flood/a', ... (100000 bytes)") >= 60, "this broker has all that is for the other one")
    # Nothing but room on the connection has what is left go on.
    tools.publish("flood/a", "end", qos=1)
    while far.message()[1] != b"end":
        pass

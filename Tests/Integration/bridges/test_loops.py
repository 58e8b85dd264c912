"""Three brokers whose bridges lead around: messages go no further than where they have been."""

import re

import pytest
from bridges.links import is_connected
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import wait_until

MESSAGES = 10


@pytest.fixture
def around(start_broker, request):
    """Starts three brokers, each with bridges to the next one and, in a full mesh, to the one before; the last may be mosquitto's."""

    def start(*, last: str = "martlet", is_mesh: bool = False):
        ports = [reserve_port() for _ in range(3)]
        brokers = []
        for place in range(3):
            sections = "".join(
                f"connection b{step}\naddress 127.0.0.1:{ports[(place + step) % 3]}\ntopic loop/# both 1\n"
                "bridge_protocol_version mqttv50\nrestart_timeout 1\n"
                for step in ([1, 2] if is_mesh else [1])
            )
            begin = start_broker if place < 2 or last == "martlet" else request.getfixturevalue("reference")
            brokers.append(begin(configuration=f"listener {ports[place]} 127.0.0.1\n{sections}"))
        for broker in brokers[: 3 if last == "martlet" else 2]:
            for name in ["b1", "b2"] if is_mesh else ["b1"]:
                is_connected(broker, name)
        if last != "martlet":
            # Both bridges that mosquitto is an end of.
            brokers[0].wait_for_log(r"New client connected from .* as .*\.b1 ")
        return brokers

    return start


@pytest.mark.parametrize("options, counts", [
    ({}, [1, 2, 2]), ({"is_mesh": True}, [1, 6, 6]), ({"last": "mosquitto"}, [4, 4, 4]),
], ids=["ring", "mesh", "with mosquitto"])  # fmt: skip
def test_messages_come_to_an_end(around, tools_for, options, counts):
    brokers = around(**options)
    watchers = [tools_for(broker.port).subscribe("loop/#", qos=1) for broker in brokers]
    came = [{} for _ in brokers]
    # Each is published when the one before has come everywhere: in a circle that one would be everywhere again and again by then.
    for number in range(MESSAGES):
        payload = b"%d" % number
        tools_for(brokers[0].port).publish("loop/a", payload.decode(), qos=1)
        for watcher, seen in zip(watchers, came):
            while payload not in seen:
                message = watcher.take_one()
                seen[message.payload] = seen.get(message.payload, 0) + 1
    for watcher, seen, most in zip(watchers, came, counts):
        for message in watcher.take_rest():
            seen[message.payload] = seen.get(message.payload, 0) + 1
        assert len(seen) == MESSAGES and max(seen.values()) <= most
    if counts[0] == 1:
        assert set(came[0].values()) == {1}


def test_a_bridge_to_the_broker_itself_is_told_of_at_the_start(start_broker, program, tmp_path):
    port, log = reserve_port(), tmp_path / "broker.log"
    section = f"listener {port} 127.0.0.1\nlog_dest file {log}\nlog_dest stderr\nconnection itself\naddress localhost:{port}\ntopic nowhere/# both 1\n"
    broker = start_broker(configuration=section)
    told = f'localhost:{port} is this broker itself, and messages of "topic nowhere/# both 1"'
    wait_until(lambda: told in log.read_text(), "the log warns of it")
    done = run(program, "-c", str(broker.configuration_path), "--test-config")
    assert done.returncode in (0, 3) and told in done.stdout, done.stdout
    assert re.search(r":\d+: connection: .* \(line \d+, line \d+\) come back", done.stdout), done.stdout

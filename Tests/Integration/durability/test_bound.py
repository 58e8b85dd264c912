"""The store has a bound of its own: at it nothing new is acknowledged that would have to be kept, and what goes makes room."""

import pytest
from harness.waiting import wait_until
from harness.wire import PUBACK, PUBLISH, Wire

from durability.full_store import QUOTA_EXCEEDED, is_taken, refuse_and_go_on

pytestmark = pytest.mark.martlet("has no such bound")

BOUND = 400_000
PAYLOAD = "x" * 4000


def test_at_its_bound_the_store_takes_nothing_new_until_something_goes(start_broker, tmp_path):
    broker = start_broker(
        configuration=f"persistence true\npersistence_location {tmp_path}\nmax_queued_messages 0\nsys_interval 1\n"
        f"martlet_store_bytes_max {BOUND}"
    )
    keeper = Wire(broker.port, "mqttv311")
    keeper.connect("keeper", clean=False)
    keeper.subscribe("kept/#", 1)
    keeper.close()
    taken = fill(broker.port)
    assert BOUND // 2 < taken * len(PAYLOAD) <= BOUND
    broker.wait_for_log(f"The store has no room: it has reached martlet_store_bytes_max, {BOUND} bytes")
    check_refusals(broker)
    values = told(broker.port, commits=taken)
    assert values["state"] == "full"
    assert BOUND < int(values["bytes"]) < 2 * BOUND
    assert int(values["rows"]) > taken

    broker.kill()
    broker.restart()
    wait_until(lambda: broker.log.count("The store is full") == 2, "it is known from the start")
    check_refusals(broker)

    keeper = Wire(broker.port, "mqttv311")
    assert keeper.connect("keeper", clean=False)[0]
    for _ in range(taken):
        packet = keeper.receive(PUBLISH)
        assert packet.body.endswith(PAYLOAD.encode())
        keeper.acknowledge(PUBACK, packet.identifier)
    broker.wait_for_log("The store has room again")
    keeper.close()
    wait_until(lambda: is_taken(broker.port), "durable messages are taken again")


def told(port: int, commits: int) -> dict[str, str]:
    """What $SYS says of the store, as of so many commits; their number is told last."""
    watcher, values = Wire(port), {}
    watcher.connect("watcher")
    watcher.subscribe("$SYS/broker/store/+")
    while int(values.get("commits", 0)) < commits:
        packet = watcher.receive(PUBLISH)
        values[packet.topic.rsplit("/")[-1]] = packet.body[3 + len(packet.topic) :].decode()
    watcher.close()
    return values


def fill(port: int) -> int:
    """Publishes one by one until a message is refused; how many were taken."""
    writer = Wire(port)
    writer.connect("writer")
    for number in range(BOUND // len(PAYLOAD) + 1):
        writer.publish("kept/queue", PAYLOAD, qos=1)
        answer = writer.receive(PUBACK).body[2:3]
        if answer == bytes([QUOTA_EXCEEDED]):
            writer.close()
            return number
        assert answer in (b"", b"\0")
    raise AssertionError("nothing was refused")


def check_refusals(broker):
    live = Wire(broker.port)
    live.connect("live")
    live.subscribe("live/#", 1)
    refuse_and_go_on(broker.port, live)

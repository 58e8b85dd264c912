"""An orderly end and a new start; what the levels of `martlet_durability` keep; and one broker for each store."""

import json
import os
import signal
import struct
import subprocess

import pytest
from harness.broker import Broker
from harness.waiting import wait_until
from harness.wire import PUBACK, PUBLISH, Wire, frame, text

from durability.belongings import VERSION, check_it_is_there, leave_something

pytestmark = pytest.mark.martlet("has no such store")

#: Messages of a long queue, in whole blocks; `make nightly` takes a million.
BLOCK = 50_000
QUEUED = min(1_000_000, int(os.environ.get("MARTLET_QUEUE", "200000"))) // BLOCK * BLOCK
STORE = "persistence true\npersistence_location {directory}/store\n"


@pytest.fixture(autouse=True)
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.mark.parametrize("durability", ["commit", "interval 3600", "none"])
def test_an_orderly_stop_keeps_everything(start_broker, durability):
    broker = start_broker(configuration=f"{STORE}martlet_durability {durability}")
    leave_something(broker)
    assert broker.stop() == 0
    broker.restart()
    check_it_is_there(broker)
    assert broker.stop() == 0
    broker.restart()
    keeper, publisher = Wire(broker.port, VERSION), Wire(broker.port, VERSION)
    assert keeper.connect("keeper", clean=False)[0]
    publisher.connect("publisher")
    publisher.publish("kept/fence", qos=1)
    assert keeper.receive(PUBLISH).topic == "kept/fence", "what was acknowledged to the broker came again"


@pytest.mark.parametrize("loops", [1, 2])
@pytest.mark.parametrize("ends", ["killed", "stopped"])
def test_what_was_retained_comes_however_often_the_broker_ends_before(start_broker, ends, loops):
    """A client has been told that it is subscribed, and takes few messages at a time: far fewer wait for it than there are."""
    broker = start_broker(configuration=f"{STORE}martlet_threads {loops}")
    wanted = {f"shelf/{number}" for number in range(1000)}
    publisher = Wire(broker.port, VERSION)
    publisher.connect("publisher")
    for topic in sorted(wanted):
        publisher.publish(topic, "kept", qos=1, retain=True)
        publisher.receive(PUBACK)
    client = Wire(broker.port, VERSION)
    client.connect("client", clean=False)
    client.subscribe("shelf/+", 1)
    seen: set[str] = set()
    for _ in range(2):
        for _ in range(100):
            packet = client.receive(PUBLISH)
            seen.add(packet.topic)
            client.acknowledge(PUBACK, packet.identifier)
        broker.kill() if ends == "killed" else broker.stop()
        broker.restart()
        client = Wire(broker.port, VERSION)
        assert client.connect("client", clean=False)[0]
    while seen < wanted:
        packet = client.receive(PUBLISH)
        seen.add(packet.topic)
        client.acknowledge(PUBACK, packet.identifier)
    client.disconnect()
    # No answer waits for the commit that says so.
    wait_until(lambda: '"lacksRetained"' not in dump(broker, broker.directory / "store"), "a row that lacks nothing")


def test_a_long_queue_is_there_after_a_start(start_broker):
    """`--durations` tells how long it took; `restart` waits for the broker as long as for any other."""
    broker = start_broker(configuration=f"{STORE}max_queued_messages 0")
    sleeper = Wire(broker.port, VERSION)
    sleeper.connect("sleeper", clean=False)
    sleeper.subscribe("queue", 1)
    sleeper.close()
    publisher = Wire(broker.port, VERSION)
    publisher.connect("publisher")
    block = b"".join(frame(PUBLISH, 2, text("queue") + struct.pack(">H", number)) for number in range(1, BLOCK + 1))
    for _ in range(QUEUED // BLOCK):
        publisher.send(block)
        unanswered = BLOCK * len(frame(PUBACK, 0, b"\0\0"))
        while unanswered:
            unanswered -= len(publisher.socket.recv(unanswered))
    broker.kill()
    broker.restart()
    broker.wait_for_log(rf"holds 1 session, 1 subscription, {QUEUED} queued")


def test_an_interval_keeps_what_is_older(start_broker, store):
    broker = start_broker(configuration=f"{STORE}martlet_durability interval 1")
    leave_something(broker)
    marker = Wire(broker.port, VERSION)
    marker.connect("marker")
    marker.publish("marker", "written later", qos=1, retain=True)
    marker.receive(PUBACK)
    # The commit that has the last of all changes has the others, or comes after theirs.
    wait_until(lambda: "written later" in dump(broker, store), "an interval's commit")
    broker.kill()
    broker.restart()
    check_it_is_there(broker)


def dump(broker: Broker, store) -> str:
    """The records of the last commit."""
    command = [broker.program.path, "store", "dump", str(store)]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout


def test_sigusr1_saves_what_an_interval_still_holds(start_broker, store):
    broker = start_broker(configuration=f"{STORE}martlet_durability interval 3600")
    mark = store / "martlet.db-mark"
    broker.wait_for_log("version .* running")
    before = mark.read_bytes()
    leave_something(broker)
    assert mark.read_bytes() == before
    broker.signal(signal.SIGUSR1)
    broker.wait_for_log("SIGUSR1: saving")
    wait_until(lambda: mark.read_bytes() != before, "the commit")
    broker.kill()
    broker.restart()
    check_it_is_there(broker)


def test_sigusr1_answers_that_all_is_on_the_disk(start_broker):
    broker = start_broker(configuration=STORE)
    broker.signal(signal.SIGUSR1)
    broker.wait_for_log("SIGUSR1: all that was acknowledged is on the disk already")


def test_without_persistence_nothing_is_written(start_broker, store):
    broker = start_broker(configuration=STORE.replace("true", "false"))
    leave_something(broker)
    broker.signal(signal.SIGUSR1)
    broker.wait_for_log("SIGUSR1: persistence is off")
    assert broker.stop() == 0
    assert list(store.iterdir()) == []
    assert {path.suffix for path in store.parent.iterdir()} == {"", ".conf", ".log"}
    broker.restart()
    assert Wire(broker.port, VERSION).connect("keeper", clean=False) == (False, 0)


def test_a_second_broker_on_the_same_store_is_refused(program, start_broker, tmp_path):
    broker = start_broker(configuration=STORE)
    leave_something(broker)
    second = Broker(program, tmp_path, configuration=STORE)
    ended = subprocess.run(second.command(), capture_output=True, text=True, timeout=10)
    assert ended.returncode == 1
    assert "store/martlet.db-mark is in use by another process" in ended.stderr
    check_it_is_there(broker)

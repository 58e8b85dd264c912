"""The disk is full: nothing is acknowledged that could not be kept, what need not be kept goes on, and all is well when there is room."""

import asyncio
from itertools import count

import pytest
from harness.waiting import wait_until
from harness.wire import PINGREQ, PINGRESP, PUBLISH, SUBACK, SUBSCRIBE, Wire, frame

from durability.full_store import QUOTA_EXCEEDED, is_taken, refuse_and_go_on
from durability.mount import BrokerOnMount
from durability.peer import Peer, Publication
from durability.pulse import Pulse
from durability.small_disk import SmallDisk

pytestmark = pytest.mark.martlet("aborts, or acknowledges what it loses")


@pytest.fixture
def disk(tmp_path):
    disk = SmallDisk(tmp_path / "store", "4m")
    if not disk.is_mounted:
        pytest.skip(f"no file system can be mounted here: {disk.refusal()}")
    yield disk
    disk.close()


@pytest.fixture
def broker(program, disk, tmp_path):
    broker = BrokerOnMount(
        program, tmp_path, verbose=False,
        configuration=f"persistence true\npersistence_location {tmp_path}/store\nmax_queued_messages 0",
    )  # fmt: skip
    broker.disk = disk
    yield broker.start()
    try:
        broker.finish()
    finally:
        print(f"--- log of the broker\n{broker.log[-20000:]}")


class Writer:
    """Publishes for an offline session, a few at a time, as fast as it gets answers."""

    def __init__(self, pulse: Pulse):
        self.peer = Peer("writer", pulse, "mqttv5", window=5)
        self.publications: list[Publication] = []
        self.peer.feed = self._feed()

    def _feed(self):
        for number in count():
            self.publications.append(Publication("kept/queue", f"{number} {'x' * 2000}"))
            yield self.publications[-1]

    def numbers(self, which) -> list[int]:
        return [int(publication.payload.split()[0]) for publication in self.publications if which(publication)]


@pytest.mark.parametrize("end", ["killed when there is room again", "killed while it is full"])
def test_a_full_disk_takes_nothing_and_loses_nothing(broker, disk, end):
    asyncio.run(fill_and_recover(broker, disk, is_killed_full=end == "killed while it is full"))


async def fill_and_recover(broker: BrokerOnMount, disk: SmallDisk, *, is_killed_full: bool):
    pulse = Pulse(store_may_fail=True)
    keeper, writer = Peer("keeper", pulse), Writer(pulse)
    await keeper.connect(broker.port)
    keeper.subscribe("kept/#", 1)
    await keeper.until_answered()
    keeper.drop()
    live = Wire(broker.port)
    live.connect("live")
    live.subscribe("live/#", 1)
    watcher = Wire(broker.port)
    watcher.connect("watcher")
    watcher.subscribe("$SYS/broker/store/state")
    assert watcher.receive(PUBLISH).body.endswith(b"ok")
    await writer.peer.connect(broker.port)
    await pulse.until(lambda: writer.peer.acknowledged > 50, "50 acknowledgements")
    disk.fill()
    await asyncio.to_thread(broker.wait_for_log, "The store is full")
    assert watcher.receive(PUBLISH).body.endswith(b"full")
    writer.peer.feed = None
    refuse_and_go_on(broker.port, live)
    if not is_killed_full:
        disk.make_room()
        await writer.peer.until_acknowledged()
        wait_until(lambda: is_taken(broker.port), "durable messages are taken again")
        assert watcher.receive(PUBLISH).body.endswith(b"ok")
    watcher.close()
    broker.kill()
    if is_killed_full:
        disk.make_room()
    await pulse.until(lambda: not writer.peer.is_connected, "the connection ends")
    broker.restart()
    await writer.peer.connect(broker.port)
    await writer.peer.until_acknowledged()
    writer.peer.publish(Publication("kept/queue", "end"))
    await keeper.connect(broker.port)
    await pulse.until(lambda: keeper.deliveries and keeper.deliveries[-1].payload == "end", "the last message arrives")
    came = [int(delivery.payload.split()[0]) for delivery in keeper.deliveries[:-1] if delivery.topic == "kept/queue"]
    assert list(dict.fromkeys(came)) == writer.numbers(lambda publication: publication.is_complete)


def test_sessions_that_need_not_be_kept_begin_and_others_are_refused_at_once(broker, disk):
    asyncio.run(begin_sessions(broker, disk))


async def begin_sessions(broker: BrokerOnMount, disk: SmallDisk):
    writer = Peer("writer", Pulse(store_may_fail=True), "mqttv5")
    await writer.connect(broker.port)
    disk.fill()
    # What needs a little room may still get it, in what the log has set aside; the last of these does not.
    for number in range(600):
        writer.publish(Publication(f"retained/{number}", "x" * 2000, retain=True))
    await asyncio.to_thread(broker.wait_for_log, "The store is full")
    passing, lasting = Wire(broker.port), Wire(broker.port)
    assert lasting.connect("lasting", properties=bytes.fromhex("11 ffffffff"))[1] == QUOTA_EXCEEDED
    passing.connect("passing")
    passing.send(frame(SUBSCRIBE, 2, bytes.fromhex("0001 00 0004") + b"live" + b"\1"))
    passing.send(frame(PINGREQ, 0, b""))
    assert passing.receive().kind == SUBACK, "SUBACK waits for what others wait for"
    passing.receive(PINGRESP)
    for wire in (passing, lasting):
        wire.close()
    disk.make_room()
    await writer.until_acknowledged()

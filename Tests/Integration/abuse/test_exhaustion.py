"""What there is only so much of is used up: those who have their share keep it, and all is well when there is some again."""

import os
import resource
from pathlib import Path

import pytest
from durability.mount import BrokerOnMount
from durability.small_disk import SmallDisk
from harness.waiting import wait_until

from abuse.crew import Attack
from abuse.siege import LISTENER, SECONDS

pytestmark = [pytest.mark.martlet("makes no such promise"), pytest.mark.timeout(240 + 12 * SECONDS)]

#: How many seconds of processor time the broker may need in a second, while nobody gets in.
BUSY_MAX = 0.5


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_file_descriptors_are_used_up(besiege):
    siege = besiege("martlet_connect_timeout 60")
    process = siege.broker.process.pid
    _, hard = resource.prlimit(process, resource.RLIMIT_NOFILE)
    room = siege.open_descriptors() + 40
    resource.prlimit(process, resource.RLIMIT_NOFILE, (room, hard))
    attack = Attack("descriptors", (siege.broker.port, 200), rate=500, least=200)
    with siege.attack(attack) as crew:
        wait_until(lambda: crew.strikes >= 200, "all are there", 30)
        wait_until(lambda: siege.open_descriptors() >= room - 2, "none is left")
        begun = processor_seconds(process)
        seconds = siege.measure().count / 400
        assert processor_seconds(process) - begun <= BUSY_MAX * seconds, "the broker spins while it cannot accept"
    siege.wait_alone()
    siege.withstand(attack)


@pytest.fixture
def disk(tmp_path):
    disk = SmallDisk(tmp_path / "store", "4m")
    if not disk.is_mounted:
        pytest.skip(f"no file system can be mounted here: {disk.refusal()}")
    yield disk
    disk.close()


def test_the_disk_is_full(besiege, program, disk, tmp_path):
    broker = BrokerOnMount(
        program, tmp_path, verbose=False,
        configuration=f"persistence true\npersistence_location {tmp_path}/store\nmax_queued_messages 0\n{LISTENER}",
    )  # fmt: skip
    broker.disk = disk
    siege = besiege(broker=broker.start())
    try:
        attack = Attack("disk_filler", (broker.port,), rate=1000, least=300)
        with siege.attack(attack):
            broker.wait_for_log("The store is full")
        siege.wait_alone()
        siege.withstand(attack)
        broker.finish()
    finally:
        print(f"--- log of the broker\n{broker.log[-20000:]}")

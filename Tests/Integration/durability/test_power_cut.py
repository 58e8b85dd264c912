"""The power goes at any time under load: the disk holds what was synced, and of the rest nothing, or any part of it. All that the broker
had acknowledged is there when it starts again."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from harness.broker import Broker
from harness.wire import Wire

from durability import promises
from durability.belongings import check_it_is_there, leave_something
from durability.cached_disk import CachedDisk
from durability.mount import BrokerOnMount
from durability.storm import ROUNDS, SEED, Storm
from durability.unsynced_disk import UnsyncedDisk, compile_layer

pytestmark = [pytest.mark.martlet("loses what it acknowledged"), pytest.mark.timeout(60 + 10 * ROUNDS)]


class OnUnsyncedDisk:
    """A machine whose disk is worked out from the calls that the broker made."""

    def __init__(self, broker: Broker, disk: UnsyncedDisk):
        self.broker, self.disk = broker, disk
        self.keeps_some = False
        self.port = broker.port
        self.random = random.Random(SEED)

    def start(self):
        self.disk.begin()
        self.broker.restart()

    def crash(self):
        self.broker.kill()
        self.disk.power_cut(self.random, keeps_some=self.keeps_some)


class OnCachedDisk:
    """A machine whose disk loses its power a little before the rest: what the broker acknowledges without a disk counts too."""

    loses_its_disk_first = True

    def __init__(self, broker: BrokerOnMount, disk: CachedDisk):
        self.broker, self.disk = broker, disk
        self.keeps_some = False
        self.port = broker.port
        self.random = random.Random(SEED)

    def start(self):
        evicted = self.random.choice([10, 50, 90, 100]) if self.keeps_some else 0
        self.disk.power_on(evicted=evicted, seed=self.random.randint(1, 2**63))
        self.broker.restart()

    def crash(self):
        if self.keeps_some:
            self.disk.write_back()
        self.disk.power_cut()
        time.sleep(self.random.random() * 0.02)
        self.broker.signal(signal.SIGKILL)
        code = self.broker.wait()
        self.disk.leave()
        is_starting = "running" not in self.broker.log.rpartition("starting")[2]
        assert code == -signal.SIGKILL or (code == 1 and is_starting), f"without its disk the broker ended with {code}"


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    return compile_layer(tmp_path_factory.mktemp("layer"))


@pytest.fixture
def configuration(tmp_path):
    return f"persistence true\npersistence_location {tmp_path}/store\nmax_queued_messages 0\nmartlet_threads 2"


@pytest.fixture
def disk(layer, tmp_path):
    return UnsyncedDisk(tmp_path / "store", layer)


@pytest.fixture
def broker(program, disk, tmp_path, configuration):
    return Broker(program, tmp_path, configuration=configuration, verbose=False, environment=disk.environment)


@pytest.fixture
def broker_on_cached_disk(program, cached_disk, tmp_path, configuration):
    broker = BrokerOnMount(program, tmp_path, configuration=configuration, verbose=False)
    broker.disk = cached_disk
    return broker


@pytest.fixture(params=["calls", "ext4"])
def machine(request):
    value = request.getfixturevalue
    if request.param == "calls":
        machine = OnUnsyncedDisk(value("broker"), value("disk"))
    else:
        machine = OnCachedDisk(value("broker_on_cached_disk"), value("cached_disk"))
    yield machine
    try:
        machine.broker.finish()
    finally:
        print(f"--- log of the broker\n{machine.broker.log[-20000:]}")


@pytest.fixture(params=[False, True], ids=["nothing else is written", "some of the rest is written"])
def storm(request, machine):
    machine.keeps_some = request.param
    return Storm(machine, loops=2)


@pytest.mark.parametrize("qos", [1, 2])
def test_acknowledged_messages_arrive_in_order_and_those_of_qos_2_once(storm, qos):
    asyncio.run(promises.messages(storm, qos))


def test_acknowledged_messages_arrive_when_the_log_is_moved_into_the_database_meanwhile(storm):
    """Large ones fill it: the broker moves it whenever it has 16 MB."""
    asyncio.run(promises.messages(storm, 1, padding=16_000))


def test_retained_messages_are_the_last_acknowledged_ones(storm):
    asyncio.run(promises.retained(storm))


def test_acknowledged_subscriptions_are_there_and_ended_ones_are_not(storm):
    asyncio.run(promises.subscriptions(storm))


NO_SYNC = "int fsync(int descriptor) { return descriptor < 0; } int fdatasync(int descriptor) { return descriptor < 0; }"


@pytest.mark.parametrize("sin", ["does not sync", "does not wait"])
def test_the_loss_is_seen_when_the_broker(machine, tmp_path, sin):
    """What overlooks these would overlook any; the first of them survives a kill."""
    if sin == "does not sync":
        library = tmp_path / "no_sync.so"
        subprocess.run(["cc", "-x", "c", "-shared", "-fPIC", "-o", library, "-"], input=NO_SYNC, text=True, check=True)
        environment = machine.broker.environment
        environment["LD_PRELOAD"] = f"{library} {environment.get('LD_PRELOAD', '')}"
    else:
        with machine.broker.configuration_path.open("a") as file:
            file.write("martlet_durability interval 3600\n")
    with pytest.raises(AssertionError, match="is lost|at its start"):
        asyncio.run(promises.messages(Storm(machine, loops=2), 1))


@pytest.mark.parametrize("phase", ["its first start", "its end", "a start after a kill"])
def test_the_power_may_go_at_any_step_of(broker, disk, phase):
    """Every call that changes the disk may be the last one: what is left is a whole store, whatever part of the rest is written."""
    chance = random.Random(SEED)
    disk.begin()
    start(broker)
    first, is_left = 0, phase != "its first start"
    if is_left:
        leave_something(broker)
        first = len(disk.recording())
    if phase == "its end":
        assert broker.stop() == 0
    else:
        broker.kill()
    if phase == "a start after a kill":
        disk.begin()
        start(broker)
        broker.kill()
        first = 0
    recording = disk.recording()
    disk.begin()
    steps = range(first, len(recording) + 1)
    assert len(steps) > 3, "the layer has seen nothing"
    for step in chance.sample(steps, min(len(steps), 2 * ROUNDS)):
        print(f"after step {step} of {steps}")
        disk.power_cut(chance, keeps_some=chance.random() < 0.5, recording=recording, steps=step)
        start(broker)
        if is_left:
            check_it_is_there(broker)
        broker.kill()


def start(broker: Broker):
    """Returns when it serves: it accepts connections before it has read its store."""
    broker.start()
    wire = Wire(broker.port)
    wire.connect("first")
    wire.close()


# The layer itself.

CALLS = """
import os
directory = os.environ["UNSYNCED_DIRECTORY"]
file = os.open(directory + "/file", os.O_RDWR | os.O_CREAT)
os.pwrite(file, b"synced", 0)
os.fsync(file)
os.pwrite(file, b"UNSYNCED", 3)
os.write(os.open(directory + "/lost", os.O_WRONLY | os.O_CREAT), b"synced, but nobody knows its name")
os.rename(directory + "/file", directory + "/renamed")
os.fsync(os.open(directory, os.O_RDONLY))
os.rename(directory + "/renamed", directory + "/renamed again")
os.unlink(directory + "/lost")
os.fdatasync(os.open(directory + "/new", os.O_WRONLY | os.O_CREAT))
os.ftruncate(file, 1)
"""


def run_calls(disk: UnsyncedDisk):
    disk.begin()
    subprocess.run([sys.executable, "-c", CALLS], env={**os.environ, **disk.environment}, check=True)


def test_the_layer_forgets_what_was_not_synced(disk):
    run_calls(disk)
    disk.power_cut(random.Random(SEED), keeps_some=False)
    assert {path.name: path.read_bytes() for path in disk.directory.iterdir()} == {"renamed": b"synced", "lost": b""}


def test_the_layer_sees_every_change(disk):
    run_calls(disk)
    assert disk.visible() == {path.name: path.read_bytes() for path in disk.directory.iterdir()} == {"renamed again": b"s", "new": b""}


def test_the_layer_sees_every_change_of_the_broker(broker, disk):
    disk.begin()
    broker.start()
    storm = Storm(OnUnsyncedDisk(broker, disk), loops=2)

    async def load():
        publisher = promises.Publisher(storm.peer("publisher"), qos=1)
        subscriber = storm.peer("subscriber")
        await storm.connect([subscriber])
        subscriber.subscribe("load/#", 1)
        await subscriber.until_answered()
        subscriber.drop()
        await storm.connect([publisher.peer])
        await storm.pulse.until(lambda: publisher.peer.acknowledged > 500, "500 acknowledgements")
        await promises.finish([publisher])

    asyncio.run(load())
    assert broker.stop() == 0
    files = {path.name: path.read_bytes() for path in disk.directory.iterdir()}
    visible = disk.visible()
    assert visible.keys() == files.keys()
    assert all(visible[name] == files[name] for name in files if not name.endswith("-shm"))

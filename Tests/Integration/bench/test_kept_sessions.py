"""martlet bench with sessions that outlive their connections: they are there while it runs, and gone when it is over."""

import json
import struct
import subprocess

import pytest
from harness.broker import REPOSITORY
from harness.waiting import PATIENCE
from harness.wire import PUBLISH, Wire

pytestmark = pytest.mark.martlet("measures with what was built here")

VERSIONS = {"mqttv31": 3, "mqttv311": 4, "mqttv5": 5}
EXPIRY = b"\x11" + struct.pack(">I", 60)

#: Whom each load connects as, and which topic proves that messages flow.
LOADS = {
    "away": (["-s", "away", "--publishers", 2], ["a0"], "bench/in/#"),
    "away, all kept": (["-s", "away", "--persistent"], ["a0", "p0"], "bench/in/#"),
    "pair": (["-s", "pair", "-q", 1, "--subscribers", 2, "--window", 100, "--persistent"], ["p0", "p1", "s0", "s1"], "bench/device/#"),
}


@pytest.fixture
def start_bench():
    """Starts loads, and ends those that a test leaves running."""
    running = []

    def start(port: int, *arguments, waits: bool = False) -> subprocess.Popen:
        """With `waits` it begins when a line comes, under the process identifier that it has before."""
        command = ["sh", "-c", 'read line; exec "$@"', "sh"] if waits else []
        command += [REPOSITORY / ".build/release/martlet", "bench", "--port", port, "--warmup", 0, "--json", *arguments]
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        running.append(subprocess.Popen([str(part) for part in command], **pipes, text=True))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def result(process: subprocess.Popen) -> dict:
    output, errors = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, errors
    return json.loads(output)


def await_messages(broker, topic: str):
    """Returns when a load's first message has come by."""
    watcher = Wire(broker.port)
    watcher.connect("watcher")
    watcher.subscribe(topic)
    watcher.receive(PUBLISH)
    watcher.close()


def resume(broker, version: str, process: subprocess.Popen, name: str) -> tuple[Wire, bool]:
    """Connects as a client of the load; whether the broker knows its session."""
    wire = Wire(broker.port, version)
    present, reason = wire.connect(f"bench-{process.pid}-{name}", clean=False, properties=EXPIRY if version == "mqttv5" else b"")
    assert reason == 0
    return wire, present


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("load", LOADS)
def test_sessions_outlive_a_load_that_is_killed(loops_broker, start_bench, load, version):
    arguments, names, topic = LOADS[load]
    process = start_bench(loops_broker.port, *arguments, "-V", VERSIONS[version], "--seconds", 60)
    await_messages(loops_broker, topic)
    process.kill()
    process.wait()
    # What 3.1 calls session present is a reserved bit.
    known = [resume(loops_broker, version, process, name)[1] for name in names] if version != "mqttv31" else []
    assert all(known)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("load", LOADS)
def test_no_session_is_left_of_a_load_that_ends(loops_broker, start_bench, load, version):
    arguments, names, _ = LOADS[load]
    process = start_bench(loops_broker.port, *arguments, "-V", VERSIONS[version], "--seconds", 0.3)
    told = result(process)
    assert told["out_per_s"] > 0 and "sessions_left" not in told
    assert told["connections_lost"] == told.get("lost", 0) == 0
    for name in names:
        wire, present = resume(loops_broker, version, process, name)
        wire.ping()  # whatever waited for it would come first
        assert not present


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_published_waits_for_the_session_that_is_away(loops_broker, start_bench, version, qos):
    process = start_bench(loops_broker.port, "-s", "away", "-q", qos, "-V", VERSIONS[version], "--seconds", 60)
    await_messages(loops_broker, "bench/in/#")
    process.kill()
    process.wait()
    wire, _ = resume(loops_broker, version, process, "a0")
    packet = wire.receive(PUBLISH)
    assert (packet.topic, packet.qos) == ("bench/in/0/value", qos)


@pytest.mark.parametrize("load", LOADS)
def test_sessions_that_cannot_be_removed_are_told(start_broker, start_bench, load):
    arguments, _, topic = LOADS[load]
    broker = start_broker()
    process = start_bench(broker.port, *arguments, "--seconds", 1)
    await_messages(broker, topic)
    broker.kill()
    told = result(process)
    assert told["connections_lost"] > 0 and "connections came to stand" in told["sessions_left"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_that_a_killed_load_left_is_not_taken_up(start_broker, start_bench, version):
    """In a container every run has the same process identifier, so a client of an earlier one bears the same name."""
    broker = start_broker()
    process = start_bench(
        broker.port, "-s", "pair", "-q", 1, "--subscribers", 2, "--persistent", "-V", VERSIONS[version],
        "--window", 2, "--seconds", 0.5, waits=True,
    )  # fmt: skip
    earlier, _ = resume(broker, version, process, "s0")
    earlier.subscribe("bench/#", 1)
    earlier.disconnect()
    process.stdin.write("\n")
    told = result(process)
    # With that subscription one of two subscribers would receive everything.
    assert 0 < told["out_per_s"] < 1.25 * told["in_per_s"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-s", "away", "--subscribers", 0], "--subscribers, the sessions that are away, must be at least 1."),
        (["-s", "away", "--subscriber-qos", 0], "At QoS 0 nothing waits for a session that is away."),
        (["-s", "churn", "--persistent"], "--persistent means nothing with churn."),
        (["-s", "retained", "--persistent"], "--persistent means nothing with retained."),
    ],
)
def test_arguments_that_contradict_each_other_are_told(start_bench, arguments, message):
    process = start_bench(1, *arguments)
    assert message in process.communicate(timeout=PATIENCE)[1] and process.returncode == 1

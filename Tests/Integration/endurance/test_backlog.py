"""An outbox of very many messages: filled without a connection, opened by another process, and delivered."""

import os
import subprocess
import threading

import pytest
from harness.waiting import wait_until

from endurance import program

#: `make nightly` takes a million.
MESSAGES = int(os.environ.get("MARTLET_BACKLOG", "20000"))
SECONDS = 60 + MESSAGES / 1000
#: Bytes that a process with the outbox may hold, however much is in it.
PEAK_MAX = 64 << 20
#: The last tenths of the messages may take so much longer than the first: the database has become deeper.
TIME_RATIO_MAX = 4

pytestmark = [pytest.mark.martlet("is not what is tested"), program.is_built, pytest.mark.timeout(2 * SECONDS)]


def is_even(times: list[str]) -> bool:
    """Whether the work for a message does not grow with their number."""
    seconds = [float(time) for time in times]
    return sorted(seconds[5:])[2] <= TIME_RATIO_MAX * sorted(seconds[:5])[2] + 0.1


def test_what_is_enqueued_offline_waits_on_the_disk_and_is_delivered(start_broker, tmp_path):
    broker = start_broker(configuration="max_queued_messages 0\nmax_inflight_messages 0", verbose=False)
    reader = subprocess.Popen(
        ["mosquitto_sub", "-p", str(broker.port), "-h", "127.0.0.1", "-q", "1", "-t", "backlog/+", "-V", "mqttv5", "-i", "reader", "-x", "600", "-c", "-F", "%t %p"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines: list[str] = []
    thread = threading.Thread(target=lambda: lines.extend(reader.stdout), daemon=True)
    thread.start()
    store = tmp_path / "client.db"
    filled = program.run("fill", store, MESSAGES, seconds=SECONDS)
    drained = program.run("drain", f"mqtt://127.0.0.1:{broker.port}", store, seconds=SECONDS)
    opened, waiting, first = drained["opened"][0]
    assert (int(waiting), int(first)) == (MESSAGES, 10)
    assert float(opened) < sum(map(float, filled["filled"][0])) / 10
    for [peak] in filled["peak"] + drained["peak"]:
        assert int(peak) <= PEAK_MAX
    for times in filled["filled"] + drained["drained"]:
        assert is_even(times), times
    wait_until(lambda: len(lines) >= MESSAGES, "all messages", SECONDS)
    reader.terminate()
    thread.join()
    numbers: dict[str, list[int]] = {}
    for line in lines:
        topic, number = line.split()
        numbers.setdefault(topic, []).append(int(number))
    assert len(numbers) == 100
    assert all(found == list(range(MESSAGES // 100)) for found in numbers.values())

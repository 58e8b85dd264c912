"""How the broker's threads stand to others when all cores are busy."""

import os
import subprocess
from pathlib import Path

import pytest
from harness.broker import Broker
from harness.waiting import wait_until
from harness.wire import Wire

pytestmark = pytest.mark.martlet("runs one loop")

CORES = len(os.sched_getaffinity(0))


def policies(broker: Broker) -> dict[str, int]:
    """By the threads' names."""
    found = {}
    for task in Path(f"/proc/{broker.process.pid}/task").iterdir():
        try:
            found[(task / "comm").read_text().strip()] = os.sched_getscheduler(int(task.name))
        except OSError:
            pass  # it has ended meanwhile
    return found


@pytest.mark.parametrize("loops", sorted({1, CORES, CORES + 1}))
def test_loops_on_every_core_push_nobody_aside(program, tmp_path, loops):
    broker = Broker(program, tmp_path, configuration=f"persistence true\npersistence_location {tmp_path}\nmartlet_threads {loops}")
    broker.start()
    try:
        patient = {f"martlet-{loop}{kind}" for loop in range(loops) for kind in ("", "b")} if loops > 1 else set()
        wait_until(
            lambda: patient == {name for name, policy in policies(broker).items() if policy == os.SCHED_BATCH},
            "the loops, and nobody else, are patient",
        )
        assert {policy for name, policy in policies(broker).items() if name not in patient} == {os.SCHED_OTHER}
    finally:
        broker.finish()


# Whoever is idle starts when nobody else works: in real time, where that is allowed, the broker need not wait for it.
MAY_BE_REAL = subprocess.run(["chrt", "--rr", "1", "true"], capture_output=True).returncode == 0
CHOICE, POLICY = (["--rr", "1"], os.SCHED_RR) if MAY_BE_REAL else (["--idle", "0"], os.SCHED_IDLE)


class ChosenBroker(Broker):
    """Started with a policy that the operator chose."""

    def command(self) -> list[str]:
        return ["chrt", *CHOICE, *super().command()]


def test_a_policy_that_the_operator_chose_stays(program, tmp_path):
    broker = ChosenBroker(program, tmp_path, configuration=f"martlet_threads {CORES + 1}")
    broker.start()
    try:
        # The CONNACK comes from a loop: all of them were started by then.
        Wire(broker.port, "mqttv311").connect("anybody")
        assert set(policies(broker).values()) == {POLICY}
    finally:
        broker.finish()

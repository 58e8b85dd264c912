"""How the broker's threads stand to others when all cores are busy."""

import os
from pathlib import Path

import pytest
from harness.broker import Broker

pytestmark = pytest.mark.martlet("runs one loop")


@pytest.mark.parametrize("loops", [1, len(os.sched_getaffinity(0)), len(os.sched_getaffinity(0)) + 1])
def test_loops_on_every_core_push_nobody_aside(program, tmp_path, loops):
    broker = Broker(program, tmp_path, configuration=f"martlet_threads {loops}")
    broker.start()
    try:
        tasks = list(Path(f"/proc/{broker.process.pid}/task").iterdir())
        policies = {(task / "comm").read_text().strip(): os.sched_getscheduler(int(task.name)) for task in tasks}
    finally:
        broker.finish()
    expected = os.SCHED_BATCH if loops > 1 else os.SCHED_OTHER
    assert [policies.pop(f"martlet-{loop}") for loop in range(loops)] == [expected] * loops
    assert set(policies.values()) == {os.SCHED_OTHER}

"""martlet bench's flood: pairs at a fixed rate, alone and beside clients that publish as fast as they can."""

import json
import subprocess
import sys

import pytest
from harness.broker import REPOSITORY
from harness.waiting import PATIENCE

pytestmark = pytest.mark.martlet("measures with what was built here")


def flood(port: int, *arguments) -> subprocess.CompletedProcess:
    command = [REPOSITORY / ".build/release/martlet", "bench", "-s", "flood", "--port", port, "--seconds", "0.5", "--json", *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE)


def may_go_first() -> bool:
    """Whether this user's threads may go before all of ordinary priority."""
    attempt = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"
    return subprocess.run([sys.executable, "-c", attempt], capture_output=True).returncode == 0


def test_pairs_are_measured_without_and_with_the_flood(loops_broker):
    result = json.loads(flood(loops_broker.port, "--publishers", 2, "--rate", 200, "--warmup", 0.2).stdout)
    assert result["lost"] == result["connections_lost"] == result["flooders_lost"] == 0
    assert result["timed_first"] == ("yes" if may_go_first() else "no")
    assert result["flooders"] == 2 and result["flood_in_per_s"] > 10 * result["in_per_s"]
    quiet, flooded = result["quiet_latency_us"]["p99"], result["latency_us"]["p99"]
    assert quiet > 0 and result["p99_ratio"] == pytest.approx(flooded / quiet, abs=0.02, rel=0.02)


def test_somebody_has_to_flood():
    done = flood(1, "--publishers", 0)
    assert done.returncode == 1 and "--publishers, those that flood, must be at least 1." in done.stderr

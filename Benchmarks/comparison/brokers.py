"""The brokers that are compared: how each is found, started and ended."""
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from . import bridge, cluster, nats, rows

# As many messages in flight for every broker, and no queue that drops what a slow second leaves.
_COMMON = """\
listener {port} 127.0.0.1
{transport}allow_anonymous true
max_inflight_messages 100
max_queued_messages 0
"""

_TLS = """\
certfile {{certificates}}/{0}.crt
keyfile {{certificates}}/{0}.key
ciphers_tls1.3 TLS_AES_256_GCM_SHA384
"""

# What mosquitto's dialect adds to a listener for each transport.
_TRANSPORTS = {
    rows.TCP: "",
    rows.TLS: _TLS.format("p256"),
    rows.TLS_RSA: _TLS.format("rsa2048"),
    # mosquitto 2.0 does not start with WebSocket alone.
    rows.WEBSOCKET: "protocol websockets\nlistener {other_port} 127.0.0.1\n",
}

# Started by root, a broker would give up the rights to a directory of ours.
_STAYS_ROOT = "user root\n" if os.geteuid() == 0 else ""

# What mosquitto's dialect adds for a store.
_STORE = "persistence true\npersistence_location {directory}/\n" + _STAYS_ROOT

# A listener of administration, to which a token lets in.
_ADMINISTRATION = "listener {other_port} 127.0.0.1\nprotocol http_api\nmartlet_http_token_file {directory}/tokens\n"
_TOKEN = "mrt_compared"

# A list of a hundred rules.
_RULES = "".join(f"topic readwrite other/{number}/+/value\n" for number in range(98)) + "pattern readwrite own/%c/#\ntopic readwrite #\n"

# A bridge that carries what the load publishes.
_BRIDGE = """\
connection far
address 127.0.0.1:{far_port}
topic bench/# out 2
notifications false
restart_timeout 1
"""

_NATS = """\
server_name: compared
listen: "127.0.0.1:-1"
mqtt {{ host: "127.0.0.1", port: {port}, max_ack_pending: 100 }}
jetstream {{ store_dir: "{directory}" }}
max_payload: 8MB
"""


@dataclasses.dataclass(frozen=True)
class Running:
    """A broker that runs: its port for MQTT, its process, and its port and a viewer's token for administration, where the row has that,
    and the port that subscribers connect to if they have another broker. Of a cluster also the other node's process, and the servers."""

    port: int
    process: int
    administration_port: int
    token: str
    subscriber_port: int | None = None
    far_process: int | None = None
    servers: "nats.Servers | None" = None


@dataclasses.dataclass(frozen=True)
class Broker:
    """A broker: what the report calls it, its version, its command line, its configuration, and what it cannot do."""

    name: str
    version: str
    command: tuple
    configuration: str = ""
    lacks: tuple = ()
    # What stands for {transport} in the configuration; what is not here it cannot do, or we do not ask it to.
    transports: dict = dataclasses.field(default_factory=lambda: {rows.TCP: ""})
    # What is added to the configuration in rows with a store, and what an acknowledgement means there.
    store: str = ""
    promise: str = ""
    # Another program that stands for it in rows with a store.
    stand_in: "Broker | None" = None

    def can(self, row):
        if row.has_store and self.stand_in:
            return self.stand_in.can(row)
        return row.transport in self.transports and not set(row.needs) & set(self.lacks)

    @contextlib.contextmanager
    def running(self, row, certificates, stores, far_end=None):
        """A fresh process for the row, in a directory of its own, with a store below `stores`; where the row has a bridge, one to a fresh
        process of `far_end`."""
        if row.has_store and self.stand_in:
            with self.stand_in.running(row, certificates, stores) as running:
                yield running
            return
        if row.has_bridge:
            with far_end._running(row, certificates, stores) as far, self._running(row, certificates, stores, far.port) as near:
                bridge.await_messages(near.port, far.port)
                yield dataclasses.replace(near, subscriber_port=far.port)
            return
        if row.has_cluster:
            with self._nodes(row, certificates, stores) as running:
                yield running
            return
        with self._running(row, certificates, stores) as running:
            yield running

    @contextlib.contextmanager
    def _nodes(self, row, certificates, stores):
        """Two nodes, with a NATS server each, and a third one if they have stores."""
        with contextlib.ExitStack() as stack:
            servers = stack.enter_context(
                nats.servers(_free_ports(6), stores) if row.has_store else nats.servers(_free_ports(4)))
            near, far = (stack.enter_context(self._running(row, certificates, stores, lines=servers.lines(node))) for node in range(2))
            for node in (near, far):
                cluster.await_admission(node.port)
            bridge.await_messages(near.port, far.port)
            # Where acknowledgements are counted nobody subscribes.
            subscriber_port = far.port if row.trial or not row.has_store else None
            yield dataclasses.replace(near, subscriber_port=subscriber_port, far_process=far.process, servers=servers)

    @contextlib.contextmanager
    def _running(self, row, certificates, stores, far_port=None, lines=""):
        with tempfile.TemporaryDirectory(prefix="compare-", dir=stores if row.has_store else None) as directory:
            port, other_port = _free_ports(2)
            path = pathlib.Path(directory) / "broker.conf"
            transport = self.transports[row.transport].format(certificates=certificates, other_port=other_port)
            text = lines + self.configuration + (self.store if row.has_store else "")
            if row.has_access_rules:
                (pathlib.Path(directory) / "rules").write_text(_RULES)
                (pathlib.Path(directory) / "rules").chmod(0o700)
                text += "acl_file {directory}/rules\n" + _STAYS_ROOT
            if row.administration:
                digest = hashlib.sha256(_TOKEN.encode()).hexdigest()
                (pathlib.Path(directory) / "tokens").write_text(f"compared:viewer:{digest}\n")
                text += _ADMINISTRATION + _STAYS_ROOT
            if far_port:
                text += _BRIDGE
                if row.bridge_connections > 1:
                    text += f"martlet_bridge_connections {row.bridge_connections}\n"
            path.write_text(
                text.format(port=port, directory=directory, transport=transport, other_port=other_port, far_port=far_port))
            command = [part.format(port=port, configuration=path, directory=directory) for part in self.command]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                _await_port(port, process)
                yield Running(port, process.pid, other_port, _TOKEN)
            finally:
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _await_port(port, process):
    for _ in range(200):
        if process.poll() is not None:
            raise RuntimeError(f"{process.args[0]} ended with {process.returncode} when it was started")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args[0]} does not listen")


def build(source, *libraries):
    """Compiles a floor; None when there is no C compiler, or a library is missing."""
    compiler = shutil.which("cc") or shutil.which("clang") or shutil.which("gcc")
    if not compiler:
        return None
    binary = source.parent / ".build" / source.stem
    binary.parent.mkdir(exist_ok=True)
    done = subprocess.run([compiler, "-O2", "-o", binary, source, *libraries], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"compare: {source.name} does not compile: {done.stderr.strip()}", file=sys.stderr)
        return None
    return binary


def _floor(relay, store):
    lacks = (rows.WILDCARDS, rows.SHARED, rows.EXACTLY_ONCE, rows.RETAINED, rows.ACCESS, rows.ADMINISTRATION, rows.BRIDGE,
             rows.CLUSTER)
    stored = store and Broker("floor", "", (str(store), "{port}", "{directory}/floor.db"), lacks=(*lacks, rows.DELIVERY))
    return Broker(
        "floor", "", (str(relay), "{port}"), lacks=(*lacks, rows.ACKNOWLEDGED, rows.STORE), stand_in=stored,
        promise="a row for each message, synced before it is acknowledged; nothing is read back" if stored else "")


def find(martlet, relay, store):
    """Everything that can be compared on this machine; the floors are programs, or None."""
    found = [_floor(relay, store)] if relay else []
    version = _output(martlet, "--version")
    for loops in (1, 2):
        command = (str(martlet), "serve", "-c", "{configuration}", "--threads", str(loops), "--quiet")
        name = f"martlet, {loops} loop" + ("s" if loops > 1 else "")
        found.append(
            Broker(name, _number(version), command, _COMMON, () if nats.program() else (rows.CLUSTER,), transports=_TRANSPORTS, store=_STORE,
                   promise="synced to the disk before it is acknowledged"))
    if mosquitto := _which("mosquitto"):
        found.append(
            Broker("mosquitto", _number(_output(mosquitto, "-h")), (mosquitto, "-c", "{configuration}"),
                   _COMMON + "log_type error\n", (rows.ADMINISTRATION, rows.CLUSTER, rows.CONNECTIONS), transports=_TRANSPORTS, store=_STORE,
                   promise="acknowledged at once; saved every half hour, and when it ends"))
    if server := _which("nats-server"):
        lacks = (rows.VERSION_5, rows.SHARED, rows.EXACTLY_ONCE, rows.ACCESS, rows.ADMINISTRATION, rows.BRIDGE, rows.CLUSTER)
        version = _number(_output(server, "--version"))
        found.append(
            Broker("nats-server", version, (server, "-c", "{configuration}"), _NATS, lacks,
                   promise="kept in files that are synced every two minutes, in all other rows too"))
    return found


def _which(name):
    return shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin") or shutil.which(name)


def _output(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True).stdout


def _number(text):
    match = re.search(r"\d+(\.\d+)+", text)
    return match.group() if match else ""

"""What a cluster does once, and how long that takes: a session that comes to another node, a leader of the log that is killed, many retained
messages that are set."""
import contextlib
import json
import statistics
import subprocess
import threading
import time

# Where a bare MQTT connection comes from is on the path since `run`.
from harness.wire import PUBACK, PUBLISH, Wire

# Session Expiry Interval of an hour.
_LASTS = b"\x11\x00\x00\x0e\x10"
_QUEUED = 1000
# Messages in the log behind which those of the session lie.
_LOGGED = 1_000_000
_RETAINED = 10_000
# Of these on their way at once: more than a node has the servers store at a time.
_UNDER_WAY = 500
_PATIENCE_SECONDS = 60
# Between two moves: who takes a session twice within five seconds from the same node waits for a second, as two clients of one name do.
_REST_SECONDS = 2.6
# How long publishing goes on before and behind the end of the leader.
_BEFORE_SECONDS, _BEHIND_SECONDS = 2, 12


def reattach(martlet, running):
    """A session with 1,000 messages goes to and fro between two nodes, whose log has a million others; milliseconds."""
    ports = (running.port, running.subscriber_port)
    with contextlib.closing(_session(ports[0])[0]) as wire:
        wire.subscribe("reattached", 1)
        wire.disconnect()
    connected, taken = [], []
    for turn in range(4):
        _queue(ports[turn % 2])
        if turn == 0:
            logged = _fill(martlet, ports[0])
        time.sleep(_REST_SECONDS)
        began = time.monotonic()
        wire, present = _session(ports[(turn + 1) % 2])
        connected.append(time.monotonic() - began)
        with contextlib.closing(wire):
            for number in range(_QUEUED):
                packet = wire.receive(PUBLISH, _PATIENCE_SECONDS)
                if not present or not packet.body.endswith(b"-%d" % number):
                    raise RuntimeError("the session is not whole on the other node")
                wire.acknowledge(PUBACK, packet.identifier)
            taken.append(time.monotonic() - began)
            wire.ping()
            wire.disconnect()
    return {"connected_ms": 1e3 * statistics.median(connected), "taken_ms": 1e3 * statistics.median(taken), "logged": logged}


def leader(martlet, running):
    """The leader of the nodes' log is killed while one client publishes at a node, and another one to the same stream without nodes, what
    these cannot read and count; seconds for which nothing was acknowledged to each."""
    log = "martlet_compared_log_0"
    with contextlib.closing(Wire(running.port, "mqttv311")) as wire, contextlib.closing(running.servers.client(log, "martlet.compared.l.0")) as bare:
        wire.connect("stalled")
        gaps = {}
        publishers = {"stalled_s": lambda number: _publish(wire, number), "stalled_alone_s": bare.publish}
        threads = [threading.Thread(target=_publish_on, args=(key, publish, gaps)) for key, publish in publishers.items()]
        for thread in threads:
            thread.start()
        time.sleep(_BEFORE_SECONDS)
        running.servers.kill_leader(log)
        for thread in threads:
            thread.join()
    if len(gaps) < 2:
        raise RuntimeError("a publisher has not come to its end")
    return gaps


def retained(martlet, running):
    """10,000 topics are given a retained message each at one node; how many a second it acknowledges, and when another node has them all."""
    with contextlib.closing(Wire(running.port, "mqttv311")) as wire:
        wire.connect("retaining")
        began = time.monotonic()
        for number in range(_RETAINED + _UNDER_WAY):
            if number < _RETAINED:
                wire.publish(f"retained/{number}", f"{number}", qos=1, identifier=number + 1, retain=True)
            if number >= _UNDER_WAY:
                wire.receive(PUBACK, _PATIENCE_SECONDS)
        acknowledged = time.monotonic() - began
        wire.disconnect()
    with contextlib.closing(Wire(running.subscriber_port, "mqttv311")) as wire:
        wire.connect("looking")
        wire.subscribe("retained/#", 0)
        topics = {wire.receive(PUBLISH, _PATIENCE_SECONDS).topic for _ in range(_RETAINED)}
        seen = time.monotonic() - began
        wire.disconnect()
    if len(topics) < _RETAINED:
        raise RuntimeError("the other node has not all retained messages")
    return {"acknowledged_per_s": _RETAINED / acknowledged, "seen_ms": 1e3 * seen}


def _session(port):
    wire = Wire(port, "mqttv5")
    present, reason = wire.connect("reattached", clean=False, properties=_LASTS)
    if reason != 0:
        raise RuntimeError(f"the session is refused with {reason:#x}")
    return wire, present


def _queue(port):
    with contextlib.closing(Wire(port, "mqttv311")) as wire:
        wire.connect("queuing")
        for number in range(_QUEUED):
            wire.publish("reattached", f"-{number}", qos=1, identifier=number + 1)
        for _ in range(_QUEUED):
            wire.receive(PUBACK, _PATIENCE_SECONDS)
        wire.disconnect()


def _fill(martlet, port):
    """Publishes at least a million messages; how many."""
    logged = 0
    while logged < _LOGGED:
        command = [martlet, "bench", "-s", "publish", "-q", "1", "--publishers", "100", "--port", port, "--seconds", "3", "--warmup", "0", "--json", "--quiet"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        logged += int(json.loads(done.stdout)["out_per_s"] * 3)
    return logged


def _publish(wire, number):
    wire.publish("stalled", "x", qos=1, identifier=number % 60_000 + 1)
    wire.receive(PUBACK, _PATIENCE_SECONDS)


def _publish_on(key, publish, gaps):
    """Notes the seconds between two acknowledgements at most."""
    began = last = time.monotonic()
    longest, number = 0.0, 0
    while last < began + _BEFORE_SECONDS + _BEHIND_SECONDS:
        publish(number)
        number += 1
        now = time.monotonic()
        longest = max(longest, now - last)
        last = now
    gaps[key] = longest

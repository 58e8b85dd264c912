"""What the nodes of a cluster and their servers cost, and what becomes of the log."""
import contextlib
import os
import pathlib
import socket
import time

from .nats import warmup

_WAIT_SECONDS = 30
# Of larger ones: as many as a node has, in one partition.
RECORDS_UNDER_WAY = 4
# Records of one message each that the servers have under way alone, at most: more do not make them faster.
_WINDOW = 1000


def measure_log(floor, running, load, seconds):
    """Adds to the figures of `load`, messages that nodes acknowledge out of their log, what the servers store by themselves: one record for
    each message, as many under way as there are messages, and records as large as the nodes' own."""
    records_before, bytes_before = running.servers.logged()
    used = servers_seconds(running)
    result = load()
    used = servers_seconds(running) - used
    records, size = running.servers.logged()
    records, size = records - records_before, size - bytes_before
    asked = result["arguments"]
    window = min(_WINDOW, asked["inflight"] * asked["publishers"])
    single = running.servers.log_rate(floor, asked["size"], window, seconds)
    used_alone = servers_seconds(running)
    equal = running.servers.log_rate(floor, size // records, RECORDS_UNDER_WAY, seconds)
    used_alone = servers_seconds(running) - used_alone
    # The warm-up's messages are in the log as well.
    whole = result["out_per_s"] * (asked["seconds"] + asked["warmup"])
    result["messages_per_record"] = whole / records
    result["single_records_per_s"] = single
    result["of_single_records"] = result["out_per_s"] / single
    result["equal_records_per_s"] = equal
    result["of_equal_records"] = result["out_per_s"] / (equal * result["messages_per_record"])
    # Nodes and load have the cores besides: what the servers store for a second of their own CPU says how it is where they have not.
    result["of_equal_records_cpu"] = (records / used) / (equal * (seconds + warmup(seconds)) / used_alone)
    return result


def servers_seconds(running):
    """What the NATS servers have used so far."""
    return sum(processor_seconds(process) for process in running.servers.processes)


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

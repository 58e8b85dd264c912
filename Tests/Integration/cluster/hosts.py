"""Hosts of a cluster: a network namespace each, with a cable between every two of them that can be pulled; and three with a server and a node each."""

import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.nats import NatsServer
from cluster.site import Node
from harness.ports import reserve_port

TOOLS = ("ip", "unshare")
_NEW_NETWORK = 0x4000_0000  # CLONE_NEWNET
_library = ctypes.CDLL(None, use_errno=True)


class Host:
    """A network of its own, for as long as a process sleeps in it."""

    def __init__(self, number: int):
        self.number = number
        self.holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        if self.holder.stdout.readline() != "up\n":
            self.holder.wait()
            pytest.skip(f"no network namespaces here: {self.holder.stderr.read().strip()}")

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """The calling thread is in this network: the sockets that it makes and the processes that it starts stay there."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _enter(Path(f"/proc/{self.holder.pid}/ns/net"))
            yield
        finally:
            _enter(Path(f"/proc/self/fd/{home}"))
            os.close(home)

    def ip(self, *words):
        with self.inside():
            subprocess.run(["ip", *map(str, words)], check=True)

    def end(self):
        self.holder.kill()
        self.holder.wait()


def _enter(path: Path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if _library.setns(descriptor, _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)


class Hosts:
    """Some hosts, each with a cable to each other one."""

    def __init__(self, count: int):
        if os.geteuid() != 0:
            pytest.skip("network namespaces are root's to make")
        if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
            pytest.skip(f"needs {', '.join(missing)}")
        self.all = [Host(number) for number in range(count)]
        self.cables = list(itertools.combinations(range(count), 2))
        for near, far in self.cables:
            self.all[near].ip("link", "add", f"to{far}", "type", "veth", "peer", "name", f"to{near}", "netns", self.all[far].holder.pid)
            for here, there in ((near, far), (far, near)):
                self.all[here].ip("address", "add", f"{address(here, there)}/24", "dev", f"to{there}")
                self.all[here].ip("link", "set", f"to{there}", "up")

    def pull(self, near: int, far: int):
        """Takes the cable between two hosts away: what is sent is gone, and nobody is told."""
        self.all[near].ip("link", "set", f"to{far}", "down")

    def plug(self, near: int, far: int):
        self.all[near].ip("link", "set", f"to{far}", "up")

    def end(self):
        for host in self.all:
            host.end()


def address(here: int, there: int) -> str:
    """Of a host, on its cable to another one."""
    near, far = sorted((here, there))
    return f"10.77.{10 * near + far}.{here + 1}"


#: Servers notice within a second that a cable is pulled; nodes ask only the server of their host.
SERVER = """
ping_interval: "500ms"
ping_max: 2
cluster {{ name: tests, listen: 0.0.0.0:{port}, no_advertise: true, connect_retries: 1000, routes: [{routes}] }}
"""


class Halls:
    """Three hosts with a NATS server and a node each."""

    def __init__(self):
        self.hosts = Hosts(3)
        self.servers: list[NatsServer] = []
        self.nodes: list[Node] = []

    def start(self, program, directory: Path, lines: str = ""):
        """lines: what the nodes' configurations have besides."""
        port = reserve_port()
        for number, host in enumerate(self.hosts.all):
            routes = ", ".join(f"nats-route://{address(other, number)}:{port}" for other in range(3) if other != number)
            self.servers.append(NatsServer(directory, f"n{number}", lines=SERVER.format(port=port, routes=routes)))
            with host.inside():
                self.servers[number].start(waits=False)
            self.nodes.append(Node(program, directory, f"node{number}", self.servers[number].address, f"log_dest stderr\n{lines}"))
        for host, node in zip(self.hosts.all, self.nodes):
            with host.inside():
                node.broker.start()

    def end(self):
        for host, node in zip(self.hosts.all, self.nodes):
            with host.inside():
                node.broker.finish()
        for server in self.servers:
            server.kill()
        self.hosts.end()
        for node in self.nodes:
            print(f"--- log of {node.name}\n{node.broker.log[-5000:]}")

"""A client with an outbox behind a link that is taken down: it notices by its Keep Alive, comes back with the link, and loses nothing.

Broker and client are in network namespaces of their own, with a pair of virtual Ethernet interfaces between them. While the link is down no end is
told anything: packets are gone, as with a cable that is pulled.
"""

import os
import re
import shutil
import subprocess
import threading
import time

import pytest
from harness.broker import REPOSITORY
from harness.waiting import wait_until

CLIENT = os.environ.get("ENDURANCE", str(REPOSITORY / ".build/release/endurance"))
TOOLS = ["ip", "nsenter", "unshare", "mosquitto_sub"]
#: Keep Alive, the time that its answer may take, and pauses between attempts.
SECONDS = 60

pytestmark = [
    pytest.mark.martlet("tries the client library that was built here"),
    pytest.mark.timeout(4 * SECONDS),
    pytest.mark.skipif(not os.access(CLIENT, os.X_OK), reason="endurance is not built; `make integration` builds it"),
    pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {', '.join(TOOLS)}"),
]


class Namespace:
    """A network of its own, for as long as a process sleeps in it."""

    def __init__(self, within: "Namespace | None" = None):
        words = ["unshare", "-n"] if within else ["unshare", "-U", "-r", "-n"]
        self.holder = subprocess.Popen(
            [*(within.entering if within else []), *words, "sh", "-c", "ip link set lo up && echo up && exec sleep 600"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        if self.holder.stdout.readline() != "up\n":
            self.holder.wait()
            pytest.skip(f"no network namespaces here: {self.holder.stderr.read().strip()}")

    @property
    def entering(self) -> list[str]:
        return ["nsenter", "-t", str(self.holder.pid), "-U", "-n", "--preserve-credentials"]

    def run(self, *command):
        done = subprocess.run([*self.entering, *map(str, command)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{' '.join(map(str, command))}: {done.stderr.strip()}")

    def start(self, *command, **options) -> subprocess.Popen:
        return subprocess.Popen([*self.entering, *map(str, command)], stdout=subprocess.PIPE, text=True, **options)

    def end(self):
        self.holder.kill()
        self.holder.wait()


@pytest.fixture
def network():
    """The broker's side and the client's."""
    sides = [Namespace()]
    try:
        sides.append(Namespace(within=sides[0]))
        sides[0].run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", sides[1].holder.pid)
        for side, interface, address in [(sides[0], "near", "10.9.9.1/24"), (sides[1], "far", "10.9.9.2/24")]:
            side.run("ip", "address", "add", address, "dev", interface)
            side.run("ip", "link", "set", interface, "up")
        yield sides
    finally:
        for side in reversed(sides):
            side.end()


class Lines:
    """What a process prints, as it comes."""

    def __init__(self, process: subprocess.Popen):
        self.process = process
        self.all: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.all.append(line.rstrip("\n"))

    def numbers(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for line in list(self.all):
            if match := re.fullmatch(r"(out/\d) (\d+)", line):
                found.setdefault(match[1], []).append(int(match[2]))
        return found

    @property
    def states(self) -> list[str]:
        return [line for line in list(self.all) if line in ("online", "away")]


def test_nothing_is_lost_while_the_link_is_down(network, program, tmp_path):
    broker_side, client_side = network
    (tmp_path / "martlet.conf").write_text("user root\nlistener 1883 10.9.9.1\nallow_anonymous true\nmax_queued_messages 0\n")
    processes = [broker_side.start(program.path, "-c", tmp_path / "martlet.conf", stderr=subprocess.DEVNULL)]
    try:
        subscribe = ["-h", "10.9.9.1", "-q", "2", "-t", "out/+", "-t", "ready", "-V", "mqttv5", "-F", "%t %p", "-i", "hearer", "-c", "-x", "60"]
        deadline = time.monotonic() + SECONDS
        while subprocess.run([*broker_side.entering, "mosquitto_pub", "-h", "10.9.9.1", "-t", "ready", "-m", "1", "-r"], capture_output=True).returncode:
            assert time.monotonic() < deadline, "the broker does not answer"
            time.sleep(0.1)
        processes.append(broker_side.start("stdbuf", "-oL", "mosquitto_sub", *subscribe))
        heard = Lines(processes[-1])
        wait_until(lambda: "ready 1" in heard.all, "the subscriber is there")

        processes.append(client_side.start(CLIENT, "follow", "mqtt://10.9.9.1:1883", tmp_path / "client.db", stdin=subprocess.PIPE))
        client = Lines(processes[-1])
        wait_until(lambda: len(heard.all) > 50, "messages arrive", SECONDS)
        for _ in range(2):
            broker_side.run("ip", "link", "set", "near", "down")
            count = len(client.all)
            wait_until(lambda: client.states[-1] == "away", "the client has noticed", SECONDS)
            wait_until(lambda: len(client.all) > count + 50, "promises are given offline", SECONDS)
            broker_side.run("ip", "link", "set", "near", "up")
            wait_until(lambda: client.states[-1] == "online", "the client is back", SECONDS)
        processes[-1].stdin.close()
        assert processes[-1].wait(SECONDS) == 0, client.all[-5:]
        client.reader.join()
        assert client.all[-1] in ("drained", "away")
        promised = client.numbers()
        assert set(promised) == {"out/0", "out/1", "out/2", "out/3"}
        wait_until(lambda: all(heard.numbers().get(topic, [0])[-1] >= numbers[-1] for topic, numbers in promised.items()), "the last", SECONDS)
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
    heard.reader.join()
    for topic, numbers in promised.items():
        arrived = heard.numbers()[topic]
        first = list(dict.fromkeys(arrived))
        assert first == numbers, f"{topic}: lost, or out of order"
        if topic in ("out/2", "out/3"):
            assert first == arrived, f"{topic}: repeats of QoS 2"

"""A client with a store is killed at any time while it enqueues, and starts again: what it promised arrives."""

import os
import random
import re
import subprocess
import threading

import pytest
from harness.broker import REPOSITORY
from harness.waiting import wait_until

from durability.storm import ROUNDS

CLIENT = os.environ.get("ENDURANCE", str(REPOSITORY / ".build/release/endurance"))
#: Quick ones: each is a start, some hundred messages and a kill.
KILLS = 4 * ROUNDS

pytestmark = [
    pytest.mark.timeout(60 + 5 * KILLS),
    pytest.mark.skipif(not os.access(CLIENT, os.X_OK), reason="endurance is not built; `make integration` builds it"),
]


class Server:
    """What the server got, in order, as a subscriber of QoS 2 sees it."""

    def __init__(self, port: int):
        self.numbers: dict[str, list[int]] = {}
        self.process = subprocess.Popen(
            ["stdbuf", "-oL", "mosquitto_sub", "-p", str(port), "-h", "127.0.0.1", "-q", "2", "-t", "out/+", "-V", "mqttv5", "-d", "-F", "%t %p"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.is_subscribed = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        assert self.is_subscribed.wait(30)

    def _read(self):
        for line in self.process.stdout:
            if "Subscribed" in line:
                self.is_subscribed.set()
            elif match := re.fullmatch(r"(out/\d) (\d+)\n", line):
                self.numbers.setdefault(match[1], []).append(int(match[2]))

    def end(self):
        self.process.kill()
        self.process.wait()


class Client:
    """One run of the client. Its promises are what it has printed."""

    def __init__(self, port: int, store, first: int, promised: dict[str, list[int]]):
        self.promised = promised
        self.count = 0
        self.words: list[str] = []
        self.process = subprocess.Popen(
            [CLIENT, "run", f"mqtt://127.0.0.1:{port}", str(store), str(first)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )  # fmt: skip
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            if match := re.fullmatch(r"(out/\d) (\d+)\n", line):
                self.promised.setdefault(match[1], []).append(int(match[2]))
                self.count += 1
            else:
                self.words.append(line)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def drain(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0, self.words
        self.reader.join()
        assert self.words == ["drained\n"]


def test_what_was_promised_arrives_in_order_and_what_is_of_qos_2_once(start_broker, tmp_path):
    broker = start_broker(configuration="max_queued_messages 0\nmax_inflight_messages 0", verbose=False)
    server = Server(broker.port)
    promised: dict[str, list[int]] = {}
    chance = random.Random(7)
    for kill in range(KILLS):
        client = Client(broker.port, tmp_path / "client.db", (kill + 1) * 1_000_000, promised)
        wanted = chance.choice([0, 1, 20, 200, 1000])
        wait_until(lambda: client.count >= wanted or client.process.poll() is not None, f"{wanted} promises")
        assert client.process.poll() is None, client.words
        client.kill()
        assert client.words == []
    client = Client(broker.port, tmp_path / "client.db", (KILLS + 1) * 1_000_000, promised)
    wait_until(lambda: client.count >= 10, "10 promises")
    client.drain()
    last = {topic: numbers[-1] for topic, numbers in promised.items()}
    wait_until(lambda: all(number in server.numbers.get(topic, [])[-50:] for topic, number in last.items()), "the last messages")
    server.end()
    assert set(promised) == {"out/0", "out/1", "out/2", "out/3"}
    for topic, numbers in promised.items():
        arrived = server.numbers[topic]
        assert set(numbers) <= set(arrived), f"{topic}: {len(set(numbers) - set(arrived))} of {len(numbers)} promises are lost"
        first = list(dict.fromkeys(arrived))
        assert first == sorted(first), f"{topic} out of order"
        if topic in ("out/2", "out/3"):
            assert len(first) == len(arrived), f"{topic}: repeats of QoS 2"

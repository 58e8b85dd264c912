"""A disk that takes a second now and then: who waits for an acknowledgement waits for it, and nobody else does."""

import re
import threading
import time
from pathlib import Path

import pytest
from harness.broker import Broker
from harness.wire import PUBACK, PUBLISH, Wire

from durability.unsynced_disk import compile_layer

pytestmark = pytest.mark.martlet("stands still while it saves")

#: Seconds that every hundredth sync takes.
DELAY = 1


@pytest.fixture(params=[1, 2], ids=["one loop", "two loops"])
def broker(request, program, tmp_path):
    layer = compile_layer(tmp_path, Path(__file__).with_name("slow.c"))
    broker = Broker(
        program, tmp_path, verbose=False,
        configuration=f"persistence true\npersistence_location {tmp_path}\nmax_queued_messages 0\nmartlet_threads {request.param}",
        environment={"LD_PRELOAD": str(layer), "SLOW_MILLISECONDS": str(DELAY * 1000), "SLOW_THREADS": str(tmp_path / "threads")},
    )  # fmt: skip
    yield broker.start()
    broker.finish()


class LonePublisher(threading.Thread):
    """One durable message after the other for a session that is away."""

    def __init__(self, port: int):
        super().__init__()
        self.port = port
        self.times: list[float] = []
        self.ends = threading.Event()

    def run(self):
        keeper, wire = Wire(self.port, "mqttv311"), Wire(self.port, "mqttv311")
        keeper.connect("keeper", clean=False)
        keeper.subscribe("kept", 1)
        keeper.close()
        wire.connect("lone")
        while not self.ends.is_set():
            began = time.monotonic()
            identifier = len(self.times) % 65535 + 1
            wire.publish("kept", "x", qos=1, identifier=identifier)
            assert wire.receive(PUBACK).identifier == identifier
            self.times.append(time.monotonic() - began)
        wire.close()


def test_nobody_waits_for_a_disk_that_he_does_not_need(broker, tmp_path):
    lone = LonePublisher(broker.port)
    wire = Wire(broker.port, "mqttv311")
    wire.connect("other")
    wire.subscribe("other", 0)
    lone.start()
    try:
        waits = []
        # Until the disk has been slow twice, on whichever thread.
        while sum(1 for seconds in lone.times if seconds >= DELAY) < 2:
            assert lone.is_alive()
            began = time.monotonic()
            wire.publish("other", "still there")
            assert wire.receive(PUBLISH)
            waits.append(time.monotonic() - began)
            time.sleep(0.01)
    finally:
        lone.ends.set()
        lone.join()
    assert max(waits) < DELAY / 2
    names = (tmp_path / "threads").read_text().split("\n")
    assert any(re.fullmatch(r"martlet-\d+b?", name) for name in names), "no loop's thread has committed"
    assert "store write" in names

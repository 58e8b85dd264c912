"""A long life in a short time: clients come, go, are cut off, take each other over and leave sessions behind; in the end all is taken away.

The memory must be flat: not what it is at any time, which depends on what there is to be kept, but what it comes back to.
"""

import os
import statistics
import time
from dataclasses import dataclass

import pytest
from harness.broker import Broker
from harness.waiting import wait_until
from harness.wire import PUBLISH, Wire

from abuse.crew import Attack, Crew, resident_bytes
from abuse.life import fill_caches, take_away

#: How long it goes on, with a store and without; `make nightly` takes half an hour each.
SECONDS = float(os.environ.get("MARTLET_SOAK_SECONDS", "5"))
#: Clients that come in a second.
RATE = 400
#: It is taken stock of so often.
PARTS = 4 if SECONDS < 60 else 20
#: Bytes by which the heap may grow in the second half. Pools keep what the largest crowd so far needed, and there is always a larger one.
HEAP_GROWTH_MAX = 512 << 10
#: Connections that have ended, of which the broker keeps a row of at most so many bytes.
CLOSED_MAX, CLOSED_BYTES = 10_000, 1024
#: Bytes by which what is resident may, once it has settled, which takes a minute: the store's pages and the allocator's come one by one.
RESIDENT_GROWTH_MAX = 2 << 20
SETTLED_SECONDS = 60

pytestmark = [pytest.mark.martlet("is not what is tested"), pytest.mark.timeout(120 + 2 * SECONDS)]


@dataclass(frozen=True)
class Stock:
    """What the broker holds when nothing is left to be held."""

    seconds: float
    heap: int
    resident: int


class Stocktaker:
    """Reads $SYS, one interval after the other."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._begun = time.monotonic()
        self._wire = Wire(broker.port)
        self._wire.connect("stocktaker", keep_alive=0)
        self._wire.subscribe("$SYS/broker/#")
        self._values: dict[str, int] = {}

    def _wait_interval(self):
        """Until one more uptime was told: all that came before it is as it was then."""
        while (packet := self._wire.receive(PUBLISH)).topic != "$SYS/broker/uptime":
            value = packet.body[2 + len(packet.topic) + 1 :]
            if value.isdigit():
                self._values[packet.topic.removeprefix("$SYS/broker/")] = int(value)

    def _is_empty(self) -> bool:
        self._wait_interval()
        return [self._values.get(name) for name in ("clients/total", "subscriptions/count")] == [1, 1]

    def take(self) -> Stock:
        """Returns when nobody but the stocktaker is there any more."""
        wait_until(self._is_empty, "all is taken away", 30)
        # Some values are told after the uptime.
        self._wait_interval()
        return Stock(time.monotonic() - self._begun, self._values["heap/current"], resident_bytes(self._broker.process.pid))

    def close(self):
        self._wire.close()


def growth(stocks: list[Stock], of) -> float:
    """By how much a straight line through the values rises from the first of them to the last."""
    times, values = [stock.seconds for stock in stocks], [of(stock) for stock in stocks]
    slope, _ = statistics.linear_regression(times, values)
    return slope * (times[-1] - times[0])


@pytest.mark.parametrize("lines", ["", "persistence true\npersistence_location {directory}/store"], ids=["in memory", "stored"])
def test_a_long_life_leaves_nothing_behind(turn, start_broker, tmp_path, lines):
    (tmp_path / "store").mkdir()
    broker = start_broker(configuration=f"sys_interval 1\n{lines}", verbose=False)
    fill_caches(broker.port)
    stocktaker, stocks, closed, clients = Stocktaker(broker), [], [], 0
    for _ in range(PARTS):
        crew = Crew(Attack("life", (broker.port,), rate=RATE), tmp_path)
        end = time.monotonic() + SECONDS / PARTS
        wait_until(lambda: time.monotonic() >= end and crew.strikes > RATE / 10, "clients come and go", SECONDS / PARTS + 30)
        clients += crew.strikes
        crew.close()
        take_away(broker.port)
        stocks.append(stocktaker.take())
        closed.append(min(clients, CLOSED_MAX))
        print(f"{clients:>9} clients after {stocks[-1].seconds:.0f} s: {stocks[-1].heap:,} bytes of heap, {stocks[-1].resident:,} resident")
    stocktaker.close()
    later = stocks[PARTS // 2 - 1 :]
    rows = closed[-1] - closed[PARTS // 2 - 1]
    assert growth(later, lambda stock: stock.heap) <= HEAP_GROWTH_MAX + rows * CLOSED_BYTES
    if SECONDS >= SETTLED_SECONDS:
        assert growth(later, lambda stock: stock.resident) <= RESIDENT_GROWTH_MAX

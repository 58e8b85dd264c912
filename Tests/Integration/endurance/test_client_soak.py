"""A long life of clients in a short time, behind a network that cuts them off: their memory and their descriptors are flat.

Not what they are at any time, which depends on what there is to be kept, but what they come back to when all rest.
"""

import os
import random
import statistics

import pytest
from client.cutting_proxy import CuttingProxy, Plan

from endurance import program

#: `make nightly` takes half an hour.
SECONDS = float(os.environ.get("MARTLET_SOAK_SECONDS", "4"))
PARTS = 4 if SECONDS < 60 else 20
#: Bytes by which the heap, but for SQLite's pages, may grow in the second half once all has settled, and before: an inbox remembers ten
#: thousand messages, each of the process's threads a thousand jobs, and it takes minutes until they do.
SETTLED_SECONDS = 600
HEAP_GROWTH_MAX = (256 << 10) if SECONDS >= SETTLED_SECONDS else (1 << 20)
#: Bytes by which what is resident may, once it has settled.
RESIDENT_GROWTH_MAX = 2 << 20

pytestmark = [pytest.mark.martlet("is not what is tested"), program.is_built, pytest.mark.timeout(120 + 2 * SECONDS)]


def plans():
    """Some hundred packets, and then an end."""
    chance = random.Random(1)
    while True:
        count = chance.randrange(1, 60_000)
        how = chance.choice(["close", "reset", "half"])
        yield Plan(up=count, how=how) if chance.random() < 0.5 else Plan(down=count, how=how)


def growth(values: list[int]) -> float:
    """By how much a straight line through the values rises from the first of them to the last."""
    slope, _ = statistics.linear_regression(range(len(values)), values)
    return slope * (len(values) - 1)


def test_a_long_life_of_clients_leaves_nothing_behind(start_broker, tmp_path):
    broker = start_broker(verbose=False)
    proxy = CuttingProxy(broker.port, plans())
    stocks = program.run("soak", f"mqtt://127.0.0.1:{proxy.port}", tmp_path, SECONDS, PARTS, seconds=100 + 2 * SECONDS)["stock"]
    proxy.close()
    print(f"{proxy.count} connections")
    assert len(stocks) == PARTS
    assert proxy.count > 10 * PARTS
    # Each resident has done everything in each part; the first answers the others and asks nobody.
    done = [[tuple(map(int, resident.split("/"))) for resident in stock[4:]] for stock in stocks]
    for before, after in zip(done, done[1:]):
        for number, (old, new) in enumerate(zip(before, after)):
            assert all(one < other for index, (one, other) in enumerate(zip(old, new)) if number > 0 or index != 3), (old, new)
    heaps, _, residents, descriptors = (list(map(int, values)) for values in list(zip(*stocks))[:4])
    second = slice(PARTS // 2 - 1, None)
    assert growth(heaps[second]) <= HEAP_GROWTH_MAX
    assert max(descriptors[second]) <= descriptors[0]
    if SECONDS >= SETTLED_SECONDS:
        assert growth(residents[second]) <= RESIDENT_GROWTH_MAX

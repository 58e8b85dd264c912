"""Very many clients in one process, all on one thread."""

import os

import pytest

from endurance import program

#: `make nightly` takes ten thousand; a tenth of them is tried first.
CLIENTS = int(os.environ.get("MARTLET_CROWD", "1000"))
#: Bytes of heap that a client takes with its connection, one subscription and its consumer.
HEAP_MAX = 12 << 10
#: By how much a client may be dearer to the loop among ten times as many: its memory is further away, and its share of each turn smaller.
COST_RATIO_MAX = 3

pytestmark = [pytest.mark.martlet("is not what is tested"), program.is_built, pytest.mark.timeout(60 + CLIENTS / 20)]


@pytest.mark.parametrize("transport", ["TCP", "Unix socket"])
def test_each_of_very_many_clients_gets_its_message(start_broker, tmp_path, transport):
    broker = start_broker(configuration=f"listener 0 {tmp_path}/broker.sock", verbose=False)
    address = f"mqtt://127.0.0.1:{broker.port}" if transport == "TCP" else f"unix:{tmp_path}/broker.sock"
    few, many = (dict(zip(line[::2], map(float, line[1::2]))) for line in program.run("crowd", address, CLIENTS, seconds=50 + CLIENTS / 20)["clients_of"])
    for found in few, many:
        assert found["heard"] == found["count"]
        # Each one's own, and the one that speaks is not there yet.
        assert found["descriptors"] == found["count"]
        assert found["heap"] <= HEAP_MAX
    # A work that grew with the square of the clients would make each ten times as dear.
    assert many["loop"] <= COST_RATIO_MAX * few["loop"]

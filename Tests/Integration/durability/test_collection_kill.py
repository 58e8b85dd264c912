"""A collection's process is killed at any time, and another reads its store meanwhile: it sees whole pictures alone."""

import random

import pytest
from client.keeper import Keeper, Program, Publisher, is_built
from harness.waiting import wait_until

from durability.storm import ROUNDS

#: Each is a start, a picture of some hundred entries, and a kill.
KILLS = 2 * ROUNDS
SIZE = 300

pytestmark = [pytest.mark.timeout(60 + 5 * KILLS), pytest.mark.martlet("tries the client library that was built here"), is_built]


def pictures(reader: Program, word: str) -> list[str]:
    return [line.removeprefix(word + " ") for line in list(reader.lines) if line.startswith(word + " ")]


def test_a_reader_beside_it_sees_whole_pictures_alone(broker, wire_to, tmp_path):
    publisher = Publisher(wire_to(broker.port))
    chance = random.Random(7)
    store = tmp_path / "keeper.db"
    keeper = Keeper(broker.port, store)
    assert keeper.next("ready") == "0"
    reader = Program("read", store)
    whole = ["0 - - "]
    for kill in range(KILLS):
        keeper.kill()
        assert all(line.startswith(("change", "ready")) for line in keeper.lines), keeper.lines
        # All of them are other ones, and some are others' topics: half a picture is no other round's.
        for number in range(SIZE):
            publisher.set(f"{kill + number:04}", f"{kill}")
        if kill:
            publisher.set(f"{kill - 1:04}", "")
        whole.append(f"{SIZE} {kill:04} {kill + SIZE - 1:04} {kill}")
        connections = broker.log.count("as keeper")
        keeper = Keeper(broker.port, store)
        # Killed at its start, while the picture comes, while it is written, or behind that.
        wanted = chance.choice([0, 0, 1, 2])
        wait_until(lambda: len(keeper.lines) >= wanted or keeper.process.poll() is not None, "the keeper's words")
        if wanted == 0:
            wait_until(lambda: broker.log.count("as keeper") > connections, "the keeper is there")
            for _ in range(chance.randrange(4)):
                publisher.wire.ping()
    wait_until(lambda: pictures(reader, "look")[-1:] == whole[-1:], "the reader sees the last picture")
    wait_until(lambda: pictures(reader, "folded")[-1:] == whole[-1:], "and its changes make it")
    keeper.kill()
    # Who opens the store behind a process that was killed sees the same.
    late = Program("look", store)
    assert late.wait() == 0
    assert late.lines == [f"look {whole[-1]}"]
    reader.finish()
    for word in ("look", "folded"):
        seen = pictures(reader, word)
        assert set(seen) <= set(whole), [picture for picture in seen if picture not in whole]
        assert [whole.index(picture) for picture in seen] == sorted(whole.index(picture) for picture in seen)

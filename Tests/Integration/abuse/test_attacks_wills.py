"""Attacks on what is kept of clients whose sessions end with their connections."""

import threading

import pytest
from harness.wire import DISCONNECT, Will, Wire, frame

from abuse.crew import resident_bytes
from abuse.siege import LONGEST_MAX

pytestmark = [pytest.mark.martlet("keeps no such rows"), pytest.mark.timeout(240)]

STORE = "persistence true\npersistence_location {directory}/store\n"
#: Bytes of a will: nearly the largest that there is.
LARGE = 60_000
#: Bytes that 600 more of them may leave in memory, where batches for the store have the size that they need by then: they have 36 MB.
RESIDENT_MAX = 16 << 20
#: Bytes of the store's files at the broker's end. While it runs its log has the size that it had at most, and is written over: some tens of MiB,
#: as much as comes while it is taken into the database once.
KEPT_MAX = 4 << 20


def test_a_stranger_comes_and_goes_with_large_wills(besiege, tmp_path):
    """A will is a row from CONNECT to the end of the connection: comings and goings leave nothing, and nobody waits for the disk."""
    (tmp_path / "store").mkdir()
    siege = besiege(STORE)
    will = Will("attack/will", "x" * LARGE, qos=1)
    rounds, failures, is_over = 0, [], threading.Event()

    def come_and_go():
        nonlocal rounds
        try:
            while not is_over.is_set():
                wire = Wire(siege.broker.port)
                assert wire.connect(f"attacker {rounds}", will=will)[1] == 0
                wire.send(frame(DISCONNECT, 0, b""))
                wire.close()
                rounds += 1
        except (AssertionError, OSError) as failure:
            failures.append(failure)

    attacker = threading.Thread(target=come_and_go)
    attacker.start()
    try:
        siege.measure(lambda: rounds >= 400 or failures)
        before = resident_bytes(siege.broker.process.pid)
        window = siege.measure(lambda: rounds >= 1000 or failures)
    finally:
        is_over.set()
        attacker.join()
    assert not failures
    assert window.longest <= LONGEST_MAX, f"the pair waited {window.longest} ms"
    siege.wait_alone()
    resident = resident_bytes(siege.broker.process.pid)
    assert resident <= before + RESIDENT_MAX, f"{rounds} wills of {LARGE} bytes leave {resident - before:,} bytes in memory"
    siege.serve()
    siege.close()
    siege.broker.stop()
    kept = sum(path.stat().st_size for path in (tmp_path / "store").iterdir())
    assert kept <= KEPT_MAX, f"{rounds} wills of {LARGE} bytes leave {kept:,} bytes on the disk"

"""The disk of the power cuts itself: it forgets what it should, nothing else, and leaves nothing behind."""

import os
from pathlib import Path

import pytest
from harness.waiting import wait_until


def put(path: Path, data: bytes, *, is_synced: bool):
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.pwrite(file, data, 0)
    if is_synced:
        os.fsync(file)
    os.close(file)


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


@pytest.fixture
def disk(cached_disk):
    """With a file that is synced, and changes that are not."""
    cached_disk.power_on()
    put(cached_disk.seen / "kept", b"synced", is_synced=True)
    put(cached_disk.seen / "kept", b"CHANGE", is_synced=False)
    put(cached_disk.seen / "lost", b"and its name", is_synced=False)
    assert content(cached_disk.seen) == {"kept": b"CHANGE", "lost": b"and its name"}
    return cached_disk


def cut(disk):
    disk.power_cut()
    disk.leave()


@pytest.mark.parametrize("is_written_back", [False, True])
def test_it_forgets_what_was_not_synced(disk, is_written_back):
    if is_written_back:
        disk.write_back()
    cut(disk)
    disk.power_on()
    assert content(disk.seen) == {"kept": b"synced"}


def test_it_keeps_what_it_had_room_for_no_longer(disk):
    """Written, not flushed: the file system knows nothing of the second file, but the first one has its new bytes in the old place."""
    cut(disk)
    disk.power_on(evicted=100)
    put(disk.seen / "kept", b"CHANGE", is_synced=False)
    disk.write_back()
    cut(disk)
    disk.power_on()
    assert content(disk.seen) == {"kept": b"CHANGE"}


def test_of_many_sectors_it_keeps_some(disk):
    sectors = 200
    put(disk.seen / "many", b"1" * 4096 * sectors, is_synced=True)
    cut(disk)
    disk.power_on(evicted=50, seed=7)
    put(disk.seen / "many", b"2" * 4096 * sectors, is_synced=False)
    disk.write_back()
    cut(disk)
    disk.power_on()
    data = content(disk.seen)["many"]
    kinds = [data[offset : offset + 4096] for offset in range(0, len(data), 4096)]
    assert len(kinds) == sectors and set(kinds) == {b"1" * 4096, b"2" * 4096}
    assert sectors // 4 < kinds.count(b"2" * 4096) < sectors * 3 // 4


def test_without_power_nothing_can_be_synced(disk):
    file = os.open(disk.seen / "kept", os.O_WRONLY)
    os.pwrite(file, b"later!", 0)
    disk.power_cut()
    with pytest.raises(OSError, match="Input/output error"):
        os.fsync(file)
    os.close(file)
    disk.leave()
    disk.power_on()
    assert content(disk.seen) == {"kept": b"synced"}


@pytest.mark.parametrize("has_power", [False, True])
def test_it_leaves_nothing_behind(disk, has_power):
    device = disk.loop_device()
    attachment = (device / "diskseq").read_text()
    holder = disk.holder
    if not has_power:
        disk.power_cut()
    disk.close()
    # Another test may have the same loop device by now.
    wait_until(lambda: not (device / "loop").exists() or (device / "diskseq").read_text() != attachment, f"{device.name} is free")
    assert holder.returncode is not None
    assert str(disk.directory) not in Path("/proc/self/mounts").read_text()

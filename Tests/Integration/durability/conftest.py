"""Fixtures of this folder: a disk whose power can be cut, where the machine allows one."""

from collections.abc import Iterator

import pytest

from durability.cached_disk import CachedDisk, DiskMaker, Unavailable


@pytest.fixture(scope="session")
def disk_maker(tmp_path_factory) -> DiskMaker:
    try:
        return DiskMaker(tmp_path_factory.mktemp("cached_disk"))
    except Unavailable as reason:
        pytest.skip(f"no file system on a disk of our own can be mounted here: {reason}")


@pytest.fixture
def cached_disk(disk_maker, tmp_path) -> Iterator[CachedDisk]:
    """Without power at first."""
    disk = CachedDisk(tmp_path / "store", disk_maker)
    yield disk
    disk.close()

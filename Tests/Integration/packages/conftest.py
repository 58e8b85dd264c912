"""Fixtures: the package, packed from the broker under test, and clean machines to install it on."""

import fcntl
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.broker import REPOSITORY

from packages.machine import Machine

#: A first chroot is fetched from the network.
PATIENCE_FOR_THE_FIRST = 900


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(PATIENCE_FOR_THE_FIRST))
            item.add_marker(pytest.mark.martlet("has packages of its own"))


@pytest.fixture(scope="session")
def once(tmp_path_factory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Makes a directory that all workers share, by whoever comes first."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def make(name: str, fill: Callable[[Path], None]) -> Path:
        directory = shared / name
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (directory / "done").exists():
                directory.mkdir(exist_ok=True)
                fill(directory)
                (directory / "done").touch()
        return directory

    return make


@pytest.fixture(scope="session")
def pack(program, once) -> Callable[..., Path]:
    """Packs the broker under test as a version, quickly: weakly compressed and without its debug information."""
    environment = {
        **os.environ, "DPKG_DEB_COMPRESSOR_TYPE": "gzip", "DPKG_DEB_COMPRESSOR_LEVEL": "1", "DEB_BUILD_OPTIONS": "noautodbgsym",
    }  # fmt: skip

    if not shutil.which("dh"):
        pytest.skip("there is no debhelper here: this is neither Debian nor Ubuntu")

    def pack(version: str, run: int = 1) -> Path:
        def fill(directory: Path):
            subprocess.run(
                [REPOSITORY / "config/packaging/deb", program.path, version, directory],
                env=environment, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip

        (package,) = once(f"package-{version}-{run}", fill).glob("martlet_*.deb")
        return package

    return pack


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Path:
    """A Debian that nobody changes."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a chroot")
    if not shutil.which("debootstrap"):
        pytest.skip("there is no debootstrap here: this is neither Debian nor Ubuntu")
    if refusal := _refusal(tmp_path_factory.mktemp("allowed")):
        pytest.skip(f"the kernel lets nobody make a chroot here: {refusal}")
    made = subprocess.run([REPOSITORY / ".ci/chroot"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


def _refusal(directory: Path) -> str:
    """Why debootstrap and a machine's namespaces would not be let do their work; empty if they would."""
    try:
        os.mknod(directory / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError as error:
        return f"mknod: {error.strerror}"
    tried = subprocess.run(["unshare", "--mount", "--net", "true"], stderr=subprocess.PIPE, text=True)
    return tried.stderr.strip() if tried.returncode else ""


@pytest.fixture
def machine(base, tmp_path) -> Iterator[Machine]:
    machine = Machine(base, tmp_path)
    if not machine.is_made:
        pytest.skip(f"the kernel lets nobody mount here: {machine.refusal()}")
    yield machine
    machine.close()

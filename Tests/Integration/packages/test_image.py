"""The container image: its Dockerfile's steps run without Docker, and the tree that they make in namespaces, read-only."""

import os
import signal
import stat

import pytest

from packages.container import Container
from packages.dockerfile import Image, build


@pytest.fixture
def image(program, machine, tmp_path) -> Image:
    return build(program, machine, tmp_path)


@pytest.fixture
def contain(tmp_path):
    made: list[Container] = []

    def contain(image: Image, **options) -> Container:
        directory = tmp_path / f"container-{len(made)}"
        directory.mkdir()
        directory.chmod(0o755)
        made.append(Container(image, directory, **options))
        return made[-1]

    yield contain
    for container in made:
        container.close()


def end(process):
    # nsenter waits for what it has started, and a signal to it does not reach further.
    os.kill(child_of(process.process.pid), signal.SIGTERM)
    assert process.wait() == 0


def child_of(process: int) -> int:
    children = open(f"/proc/{process}/task/{process}/children").read().split()
    return int(children[0]) if children else process


def test_the_image_holds_the_broker_and_little_else(image):
    files = [path for path in image.tree.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files)
    print(f"the image is {size / 1e6:.1f} MB")
    assert size < 60_000_000
    names = {path.name for path in files}
    assert not names & {"sh", "bash", "dpkg", "apt", "cc", "gcc", "clang", "swift", "perl", "strip"}
    assert b".debug_info" not in (image.tree / "usr/bin/martlet").read_bytes()
    assert not any(path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID) for path in files)
    assert (image.tree / "usr/share/doc/libssl3/copyright").exists()
    assert image.user.partition(":")[0] not in ("", "0", "root")


def test_it_runs_with_a_read_only_root_and_keeps_what_it_got(image, contain):
    container = contain(image)
    process = container.start()
    assert "is healthy" in container.run(*image.health_check)
    container.outside(["mosquitto_pub", "-t", "house/lamp", "-m", "on", "-r", "-q", "1"])
    assert "house/lamp" in container.run("martlet", "ctl", "retained")
    end(process)
    assert "Connection refused" in container.run(*image.health_check, code=1)
    process = container.start()
    assert container.outside(["mosquitto_sub", "-t", "house/lamp", "-C", "1", "-W", "10"]) == "on\n"
    end(process)
    with pytest.raises(OSError, match="Read-only"):
        (container.root / "etc/martlet/other.conf").write_text("")


def test_any_user_and_secrets_as_files(image, contain, program, tmp_path):
    container = contain(image, user="54321:12345", secrets={"password": "secret\n", "guarded.conf": GUARDED})
    # As docker/martlet.conf says to make users: on the volume, by whoever the container runs as.
    container.run("martlet", "passwd", "-c", "-b", "/var/lib/martlet/users", "anna", "secret")
    image.command = ["-c", "/run/secrets/guarded.conf"]
    process = container.start()
    check = image.health_check[:-1] + ["/run/secrets/guarded.conf"]
    assert "is alive" in container.run(*check)
    # A password takes its time to check, on a busy machine more than the second that a health check has.
    assert "is healthy" in container.run(*check, "--timeout", "20", "--user", "anna", "--password-file", "/run/secrets/password")
    container.outside(["mosquitto_pub", "-u", "anna", "-P", "secret", "-t", "a", "-m", "on", "-r", "-q", "1"])
    end(process)


GUARDED = """
listener 1883
allow_anonymous false
password_file /var/lib/martlet/users
persistence true
persistence_location /var/lib/martlet
"""

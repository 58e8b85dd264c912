"""The container image: its Dockerfile's steps run without Docker, and the tree that they make in namespaces, read-only."""

import gzip
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
from harness.broker import REPOSITORY

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


def test_the_environment_brings_the_first_user(image, contain):
    """As compose.yaml has it: a name, a password that is a secret, and nothing in the configuration."""
    container = contain(
        image, secrets={"password": "a good one\n"}, environment={"MARTLET_USER": "anna", "MARTLET_PASSWORD_FILE": "/run/secrets/password"})
    process = container.start()
    # A password takes its time to check, on a busy machine more than the second that a health check has.
    assert "is healthy" in container.run(*image.health_check, "--timeout", "20")
    container.outside(["mosquitto_pub", "-u", "anna", "-P", "a good one", "-t", "a", "-m", "on", "-r", "-q", "1"])
    with pytest.raises(subprocess.CalledProcessError):
        container.outside(["mosquitto_pub", "-t", "a", "-m", "off", "-q", "1"])
    # The dashboard and the API let them in as an administrator.
    fetch = ["curl", "--silent", "--fail", "http://127.0.0.1:9883"]
    assert "<title>" in container.outside([*fetch[:-1], fetch[-1] + "/dashboard/"])
    found = container.outside([*fetch[:-1], "--user", "anna:a good one", fetch[-1] + "/api/martlet/v1/config"])
    assert "a good one" not in found and '"martlet_http_user"' in found
    assert not any("a good one" in line for line in process.lines)
    end(process)


def test_a_first_user_without_a_password_is_told_what_is_missing(image, contain):
    container = contain(image, environment={"MARTLET_USER": "anna"})
    said = container.run("martlet", *image.command, code=3)
    assert 'Error: MARTLET_USER: "anna" needs a password: set MARTLET_PASSWORD_FILE to a file that holds it, or MARTLET_PASSWORD.' in said


# The archive that needs no container engine.


@pytest.fixture(scope="module")
def archive(program, tmp_path_factory) -> Path:
    return pack(program, tmp_path_factory.mktemp("archive"))


def pack(program, directory: Path, mask: int = 0o022) -> Path:
    done = subprocess.run([REPOSITORY / "docker/image", program.path, "1.2.3", directory], stdout=subprocess.PIPE, text=True, check=True, umask=mask)
    return Path(done.stdout.strip())


def layout(archive: Path, directory: Path) -> tuple[dict, dict]:
    """The manifest and the configuration; everything that they name is there, and is what it is called."""
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    for file in (directory / "blobs/sha256").iterdir():
        assert hashlib.sha256(file.read_bytes()).hexdigest() == file.name

    def read(descriptor: dict) -> bytes:
        content = (directory / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
        assert len(content) == descriptor["size"]
        return content

    assert json.loads((directory / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads((directory / "index.json").read_text())["manifests"]
    manifest = json.loads(read(entry))
    config = json.loads(read(manifest["config"]))
    assert [hashlib.sha256(gzip.decompress(read(layer))).hexdigest() for layer in manifest["layers"]] == [
        identifier.removeprefix("sha256:") for identifier in config["rootfs"]["diff_ids"]]
    return manifest, config


def test_the_archive_is_the_same_each_time(program, archive, tmp_path):
    again = pack(program, tmp_path, mask=0o077)
    assert again.name == archive.name and again.read_bytes() == archive.read_bytes()


def test_the_archive_is_an_image_that_others_read(archive, tmp_path):
    manifest, config = layout(archive, tmp_path / "layout")
    settings = config["config"]
    assert config["architecture"] in archive.name and settings["User"] == "1883:1883"
    assert settings["ExposedPorts"] == {"1883/tcp": {}, "9883/tcp": {}} and settings["Volumes"] == {"/var/lib/martlet": {}}
    assert settings["Healthcheck"]["Test"][:3] == ["CMD", "martlet", "health"]
    if not shutil.which("skopeo"):
        pytest.skip("there is no skopeo here to ask for its opinion")
    for kind in ("oci-archive", "docker-archive"):
        found = json.loads(subprocess.run(["skopeo", "inspect", "--config", f"{kind}:{archive}"], stdout=subprocess.PIPE, check=True).stdout)
        assert found["config"]["User"] == "1883:1883", kind
    found = json.loads(subprocess.run(["skopeo", "inspect", f"oci-archive:{archive}"], stdout=subprocess.PIPE, check=True).stdout)
    assert found["Layers"] == [layer["digest"] for layer in manifest["layers"]]


def test_the_archive_runs(base, archive, contain, tmp_path):
    """`base` is asked for only to skip where nobody may make namespaces."""
    manifest, config = layout(archive, tmp_path / "layout")
    tree = tmp_path / "tree"
    if shutil.which("umoci"):
        subprocess.run(["umoci", "unpack", "--image", f"{tmp_path}/layout:1.2.3", tmp_path / "bundle"], check=True, stdout=subprocess.DEVNULL)
        (tmp_path / "bundle/rootfs").rename(tree)
    else:
        for layer in manifest["layers"]:
            with tarfile.open(tmp_path / "layout/blobs" / layer["digest"].replace(":", "/")) as tar:
                tar.extractall(tree, filter="tar")
    settings = config["config"]
    image = Image(
        tree, settings["Entrypoint"], settings["Cmd"], settings["Healthcheck"]["Test"][1:], settings["User"], settings["WorkingDir"],
        list(settings["Volumes"]), settings["Env"])
    assert (tree / "etc/ssl/certs/ca-certificates.crt").stat().st_size > 100_000 and (tree / "usr/lib/ssl/cert.pem").exists()
    assert stat.S_IMODE((tree / "var/lib/martlet").stat().st_mode) == 0o1777
    container = contain(image, secrets={"password": "secret"}, environment={"MARTLET_USER": "anna", "MARTLET_PASSWORD_FILE": "/run/secrets/password"})
    process = container.start()
    assert "is healthy" in container.run(*image.health_check, "--timeout", "20")
    container.outside(["mosquitto_pub", "-u", "anna", "-P", "secret", "-t", "house/lamp", "-m", "on", "-r", "-q", "1"])
    assert "house/lamp" in container.run("martlet", "ctl", "retained")
    end(process)


GUARDED = """
listener 1883
allow_anonymous false
password_file /var/lib/martlet/users
persistence true
persistence_location /var/lib/martlet
"""

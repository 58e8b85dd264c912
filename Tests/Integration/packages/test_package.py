"""The Debian package: installed, upgraded, removed and purged where nothing else is, and beside mosquitto."""

import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from harness.broker import REPOSITORY
from harness.lines import LineProcess
from harness.waiting import wait_until

from packages.machine import Machine

WANTED = "etc/systemd/system/multi-user.target.wants/martlet.service"


def install(machine: Machine, package: Path) -> str:
    path = machine.copy(package, f"/tmp/{package.name}")
    machine.root.joinpath("tmp", package.name).chmod(0o644)
    return machine.run("apt-get", "install", "--yes", path)


def with_systemctl(machine: Machine):
    """From now on the packages find a systemd that runs, or so it seems."""
    shutil.copy(Path(__file__).with_name("systemctl"), machine.root / "usr/bin/systemctl")
    (machine.root / "run/systemd/system").mkdir(parents=True)
    (machine.root / "usr/sbin/policy-rc.d").unlink()


def asked(machine: Machine) -> list[str]:
    """What systemctl was to do with the running service since the last time."""
    notes = machine.root / "run/systemctl.asked"
    words = [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
    notes.write_text("")
    return [line[-2] for line in words if line[-1:] == ["martlet.service"] and line[-2] in ("start", "stop", "restart")]


def test_the_same_binary_makes_the_same_package(pack):
    first, second = pack("1.0.0", 1), pack("1.0.0", 2)
    assert first != second and first.read_bytes() == second.read_bytes()


def test_the_dependencies_are_those_of_the_binary(pack, program):
    fields = subprocess.run(["dpkg-deb", "--field", pack("1.0.0"), "Depends"], stdout=subprocess.PIPE, text=True, check=True).stdout
    depended = {re.split(r"[ (:]", entry.strip())[0] for entry in fields.split(",")}
    linked = subprocess.run(["ldd", program.path], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "libswift" not in linked, "Swift's library is in the binary"
    for path in re.findall(r"=> (/\S+)", linked):
        real = {path, path.removeprefix("/usr"), f"/usr{path}"}
        owners = [subprocess.run(["dpkg-query", "--search", each], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout for each in real]
        assert any(owner.split(":")[0] in depended for owner in owners if owner), f"{path} belongs to none of {depended}"


def test_a_package_lives_and_dies(machine, pack):
    said = install(machine, pack("1.0.0"))
    assert "mosquitto" not in said.replace("mosquitto-clients", "")
    root = machine.root

    # The service's user, and what belongs to it.
    user = machine.run("getent", "passwd", "martlet").split(":")
    assert user[5] == "/var/lib/martlet" and "nologin" in user[6]
    place = (root / "var/lib/martlet").stat()
    assert (place.st_uid, stat.S_IMODE(place.st_mode)) == (int(user[2]), 0o700)
    place = (root / "etc/martlet").stat()
    assert (place.st_uid, place.st_gid, stat.S_IMODE(place.st_mode)) == (0, int(user[3]), 0o2755)
    assert (root / WANTED).is_symlink(), "it is started with the machine"
    assert not (root / "etc/systemd/system/sockets.target.wants/martlet.socket").exists()
    assert b".debug_info" not in (root / "usr/bin/martlet").read_bytes(), "its debug information is apart"

    # It runs as installed, and remembers.
    assert "OK" in machine.run("martlet", "--test-config", "-c", "/etc/martlet/martlet.conf", user="martlet")
    broker = LineProcess(machine.command("martlet", "-c", "/etc/martlet/martlet.conf", user="martlet"))
    broker.wait_line(lambda line: " running" in line, "the installed broker runs")
    machine.run("mosquitto_pub", "-t", "house/lamp", "-m", "on", "-r", "-q", "1")
    assert machine.run("mosquitto_sub", "-t", "house/lamp", "-C", "1", "-W", "10") == "on\n"
    broker.process.send_signal(signal.SIGTERM)
    assert broker.wait() == 0
    assert (root / "var/lib/martlet/martlet.db").exists()

    # An upgrade keeps what the operator has changed, and asks nothing.
    changed = (root / "etc/martlet/martlet.conf").read_text() + "max_keepalive 60\n"
    machine.write("/etc/martlet/martlet.conf", changed)
    machine.write("/etc/martlet/conf.d/own.conf", "max_queued_messages 10\n")
    install(machine, pack("1.0.1"))
    assert machine.run("dpkg-query", "--show", "--showformat=${Version}", "martlet") == "1.0.1"
    assert (root / "etc/martlet/martlet.conf").read_text() == changed
    assert (root / "var/lib/martlet/martlet.db").exists() and (root / WANTED).is_symlink()

    # Removal leaves what is the operator's; purging does not.
    machine.run("apt-get", "remove", "--yes", "martlet")
    assert not (root / "usr/bin/martlet").exists()
    assert (root / "etc/martlet/martlet.conf").read_text() == changed and (root / "var/lib/martlet/martlet.db").exists()
    machine.run("apt-get", "purge", "--yes", "martlet")
    left = machine.run("find", "/etc", "/var/lib", "/var/log", "/usr", "/lib/systemd", "-path", "/var/lib/dpkg", "-prune", "-o", "-name", "*martlet*", "-print")
    assert left == ""


def test_it_is_started_stopped_and_restarted_where_systemd_runs(machine, pack):
    with_systemctl(machine)
    install(machine, pack("1.0.0"))
    assert asked(machine) == ["start"]
    wait_until(lambda: "running" in (machine.root / "run/martlet.log").read_text(), "it runs")
    # Whoever may administer it needs no word for that; nobody else gets in.
    for user in [None, "martlet"]:
        assert "ready" in machine.run("martlet", "ctl", "status", user=user)
        assert machine.run("martlet", "ctl", "log", "level", "+debug", user=user).startswith("debug")
    assert "Permission denied" in machine.run("martlet", "ctl", "status", user="daemon", code=2)
    install(machine, pack("1.0.1"))
    assert "restart" in asked(machine)
    machine.run("apt-get", "remove", "--yes", "martlet")
    assert asked(machine) == ["stop"]
    assert not (machine.root / "run/martlet.pid").exists()


def test_its_log_file_is_rotated(machine, pack):
    with_systemctl(machine)
    machine.write("/etc/martlet/conf.d/log.conf", "log_dest file /var/log/martlet/martlet.log\n")
    install(machine, pack("1.0.0"))
    log = machine.root / "var/log/martlet/martlet.log"
    wait_until(lambda: log.exists() and " running on " in log.read_text(), "it writes to its log")
    machine.run("logrotate", "--force", "/etc/logrotate.d/martlet")
    wait_until(lambda: log.exists() and "reopened" in log.read_text(), "it goes on in a new file")
    assert " running on " in log.with_name("martlet.log.1").read_text()
    assert log.stat().st_uid == int(machine.run("id", "--user", "martlet"))
    machine.run("systemctl", "stop", "martlet")


@pytest.fixture
def beside(machine) -> Machine:
    """A machine on which Debian's mosquitto is installed as people have it: with a login, rules, TLS, and something kept. It is stopped."""
    machine.run("apt-get", "install", "--yes", "--no-install-recommends", "mosquitto")
    with_systemctl(machine)
    machine.write("/usr/local/bin/sudo", '#!/bin/sh\nexec "$@"\n', 0o755)
    machine.write(
        "/etc/mosquitto/conf.d/network.conf",
        "listener 1883 127.0.0.1\npassword_file /etc/mosquitto/passwd\nacl_file /etc/mosquitto/acl\n"
        "listener 8883 127.0.0.1\ncertfile /etc/mosquitto/certs/server.crt\nkeyfile /etc/mosquitto/certs/server.key\n",
    )
    machine.write("/etc/mosquitto/acl", "user anna\ntopic readwrite #\n", 0o640)
    machine.run("mosquitto_passwd", "-c", "-b", "/etc/mosquitto/passwd", "anna", "secret")
    made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost", "-days", "30"]
    certificates = machine.root / "etc/mosquitto/certs"
    certificates.mkdir(exist_ok=True)
    subprocess.run(["openssl", *made, "-keyout", certificates / "server.key", "-out", certificates / "server.crt"], check=True, capture_output=True)
    # As Debian's mosquitto reads them: by its group, and nobody else does.
    machine.run("chown", "-R", "root:mosquitto", "/etc/mosquitto/passwd", "/etc/mosquitto/acl", "/etc/mosquitto/certs")
    machine.run("chmod", "640", "/etc/mosquitto/passwd", "/etc/mosquitto/certs/server.key")
    machine.run("install", "-d", "-o", "mosquitto", "/run/mosquitto")
    with mosquitto(machine):
        machine.run("mosquitto_pub", "-t", "kept", "-m", "by mosquitto", "-r", "-q", "1", *ANNA)
        machine.run("mosquitto_sub", "-t", "#", "-i", "away", "-c", "-q", "1", "-E", *ANNA)
        machine.run("mosquitto_pub", "-t", "waits", "-m", "for away", "-q", "1", *ANNA)
    return machine


ANNA = ["-u", "anna", "-P", "secret"]


@contextlib.contextmanager
def mosquitto(machine: Machine):
    """Debian's mosquitto, as its service starts it."""
    process = LineProcess(machine.command("mosquitto", "-c", "/etc/mosquitto/mosquitto.conf"))
    try:
        wait_until(lambda: _listens(machine), "mosquitto listens")
        yield
    finally:
        process.process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def mosquittos_files(machine: Machine) -> dict[str, tuple]:
    files = [file for place in ["etc/mosquitto", "var/lib/mosquitto"] for file in sorted((machine.root / place).rglob("*"))]
    return {str(file): (file.lstat().st_mode, file.lstat().st_uid, file.lstat().st_gid, file.read_bytes() if file.is_file() else b"") for file in files}


def test_the_change_over_from_mosquitto_as_it_is_told(beside, pack):
    """The journey of somebody who has mosquitto and installs the package: nothing but the lines that stand on the screen."""
    machine = beside
    (machine.root / "run/mosquitto.active").touch()
    before = mosquittos_files(machine)
    said = install(machine, pack("1.0.0"))
    assert "mosquitto runs here and uses port 1883, so Martlet is not started." in said
    assert not (machine.root / WANTED).exists(), "the machine's next start would be a race for the port"
    assert not (machine.root / "run/martlet.pid").exists()
    assert machine.run("dpkg-query", "--show", "--showformat=${db:Status-Status}", "martlet") == "installed"

    over, _, back = said.partition("To change over")[2].partition("To go back")
    lines = re.findall(r"^ +(sudo .*)$", over, re.MULTILINE)
    assert lines[1] == "sudo martlet import-config /etc/mosquitto/mosquitto.conf"
    (dry_run,) = re.findall(r"(sudo martlet import-config --dry-run)", back)
    assert "Nothing was written" in machine.run("sh", "-c", dry_run)
    assert not (machine.root / "etc/martlet/passwd").exists()
    machine.run("sh", "-c", lines[0])
    imported = machine.run("sh", "-c", lines[1])
    assert "1 session, 1 subscription, 2 queued messages and 1 retained message" in imported and "Error" not in imported, imported
    assert mosquittos_files(machine) == before, "nothing of mosquitto's is changed"
    user = int(machine.run("id", "--user", "martlet"))
    for path, owner, mode in [
        ("etc/martlet/passwd", 0, 0o640), ("etc/martlet/certs/server.key", 0, 0o640), ("etc/martlet/conf.d/network.conf", 0, 0o640),
        ("var/lib/martlet/mosquitto.db", user, 0o600),
    ]:  # fmt: skip
        status = (machine.root / path).stat()
        assert (status.st_uid, status.st_gid == 0, stat.S_IMODE(status.st_mode)) == (owner, False, mode), path
    assert "OK" in machine.run("martlet", "--test-config", "-c", "/etc/martlet/martlet.conf")
    for line in lines[2:]:
        machine.run("sh", "-c", line)
    wait_until(lambda: _listens(machine), "Martlet listens")
    try:
        assert machine.run("mosquitto_sub", "-t", "kept", "-C", "1", "-W", "10", *ANNA) == "by mosquitto\n"
        assert machine.run("mosquitto_sub", "-t", "#", "-i", "away", "-c", "-q", "1", "-C", "2", "-W", "10", *ANNA) == "by mosquitto\nfor away\n"
        assert "authori" in machine.run("mosquitto_pub", "-t", "a", "-m", "x", code=5)
        machine.run("mosquitto_pub", "-p", "8883", "--cafile", "/etc/mosquitto/certs/server.crt", "-h", "localhost", "-t", "a", "-m", "x", *ANNA)
        log = (machine.root / "run/martlet.log").read_text()
        assert "To remove it: rm /var/lib/martlet/mosquitto.db" in log
    finally:
        back_lines = re.findall(r"^ +(sudo systemctl.*)$", back, re.MULTILINE)
        machine.run("sh", "-c", back_lines[0])
    assert not (machine.root / "run/martlet.pid").exists()
    assert "enable --now mosquitto" in back_lines[1]
    # mosquitto starts again, with its own files.
    with mosquitto(machine):
        machine.run("mosquitto_pub", "-t", "again", "-m", "x", *ANNA)


def test_root_checks_as_the_service_and_no_advice_touches_mosquitto(beside, pack):
    machine = beside
    install(machine, pack("1.0.0"))
    shutil.copy(machine.root / "etc/mosquitto/conf.d/network.conf", machine.root / "etc/martlet/conf.d/network.conf")
    said = machine.run("martlet", "--test-config", "-c", "/etc/martlet/martlet.conf", code=3)
    for option, file in [("password_file", "passwd"), ("acl_file", "acl"), ("keyfile", "certs/server.key")]:
        assert re.search(rf"Error: /etc/martlet/conf.d/network.conf:\d: {option}: .*/etc/mosquitto/{file}", said), said
    assert "when it reloads" not in said and "chgrp" not in said and "chown" not in said
    # What is advised lets the service start, and mosquitto too.
    before = mosquittos_files(machine)
    commands = re.findall(r"Type: (install .*?)\.?$", said, re.MULTILINE)
    assert len(commands) == 3, said
    for command in commands:
        machine.run("sh", "-c", command)
    text = (machine.root / "etc/martlet/conf.d/network.conf").read_text()
    machine.write("/etc/martlet/conf.d/network.conf", re.sub(r"/etc/mosquitto/(?:certs/)?(passwd|acl|server\.key)", r"/etc/martlet/\1", text))
    assert "OK" in machine.run("martlet", "--test-config", "-c", "/etc/martlet/martlet.conf")
    assert mosquittos_files(machine) == before
    # A file of the configuration itself that the service could not read.
    machine.write("/etc/martlet/conf.d/own.conf", "max_keepalive 60\n", 0o600)
    machine.run("chown", "root:root", "/etc/martlet/conf.d/own.conf")
    assert "Error: /etc/martlet/conf.d/own.conf: the user martlet may not read" in machine.run("martlet", "--test-config", "-c", "/etc/martlet/martlet.conf", code=3)


def test_a_mosquitto_that_is_installed_and_never_runs_is_in_nobody_s_way(machine, pack):
    machine.run("apt-get", "install", "--yes", "--no-install-recommends", "mosquitto")
    with_systemctl(machine)
    (machine.root / "etc/systemd/system/multi-user.target.wants/mosquitto.service").unlink()
    said = install(machine, pack("1.0.0"))
    assert "port 1883" not in said and (machine.root / WANTED).is_symlink() and asked(machine) == ["start"]
    machine.run("systemctl", "stop", "martlet")


def test_the_documentation_of_the_package_links_to_what_is_there(machine, pack):
    install(machine, pack("1.0.0"))
    documents = machine.root / "usr/share/doc/martlet"
    for page in ["README.md", "SECURITY.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", (documents / page).read_text()):
            assert target.startswith("http") or (documents / target).exists(), f"{page}: {target}"
    for page in (documents / "html").iterdir():
        for target in re.findall(r'href="([^"#]+)', page.read_text()):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"
    for name in ["monitoring/alerts.yml", "monitoring/grafana.json", "html/Durability.html", "html/OpenInternet.html", "html/Bridges.html", "html/OperatingClusters.html"]:
        assert (documents / name).exists(), name
    assert (machine.root / "usr/share/man/man1/martlet-import-config.1.gz").exists()


def _listens(machine: Machine) -> bool:
    return subprocess.run(
        machine.command("mosquitto_pub", "-t", "probe", "-n", *ANNA), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode == 0  # fmt: skip

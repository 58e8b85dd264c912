"""The Debian package: installed, upgraded, removed and purged where nothing else is, and beside mosquitto."""

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


def test_beside_mosquitto_it_tells_how_to_change_over(machine, pack):
    machine.run("apt-get", "install", "--yes", "--no-install-recommends", "mosquitto")
    with_systemctl(machine)
    said = install(machine, pack("1.0.0"))
    assert "port 1883" in said and "To go back" in said
    assert not (machine.root / WANTED).exists(), "the machine's next start would be a race for the port"
    assert not (machine.root / "run/martlet.pid").exists()
    assert machine.run("dpkg-query", "--show", "--showformat=${db:Status-Status}", "martlet") == "installed"

    # mosquitto has kept something, and the lines are typed as they stand.
    machine.write("/etc/mosquitto/conf.d/network.conf", "listener 1883 127.0.0.1\nallow_anonymous true\n")
    machine.write("/usr/local/bin/sudo", '#!/bin/sh\nexec "$@"\n', 0o755)
    machine.run("install", "-d", "-o", "mosquitto", "/run/mosquitto")
    before = LineProcess(machine.command("mosquitto", "-c", "/etc/mosquitto/mosquitto.conf"))
    wait_until(lambda: _listens(machine), "mosquitto listens")
    machine.run("mosquitto_pub", "-t", "kept", "-m", "by mosquitto", "-r", "-q", "1")
    before.process.send_signal(signal.SIGTERM)
    before.wait()
    over, _, back = said.partition("To change over")[2].partition("To go back")
    for line in re.findall(r"^ +(sudo .*)$", over, re.MULTILINE):
        machine.run("sh", "-c", line)
    wait_until(lambda: _listens(machine), "Martlet listens")
    try:
        assert machine.run("mosquitto_sub", "-t", "kept", "-C", "1", "-W", "10") == "by mosquitto\n"
    finally:
        back_lines = re.findall(r"^ +(sudo .*)$", back, re.MULTILINE)
        machine.run("sh", "-c", back_lines[0])
    assert not (machine.root / "run/martlet.pid").exists()
    assert "enable --now mosquitto" in back_lines[1]


def _listens(machine: Machine) -> bool:
    return subprocess.run(
        machine.command("mosquitto_pub", "-t", "probe", "-n"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode == 0  # fmt: skip

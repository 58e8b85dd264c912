"""The service's unit: what it forbids, and that the broker never asks for any of it."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from harness.broker import REPOSITORY, Broker
from harness.waiting import wait_until

UNIT = REPOSITORY / "config/systemd/martlet.service"


def settings(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


@pytest.fixture
def analyze():
    """systemd-analyze, which needs no systemd that runs."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("there is no systemd-analyze here")

    def run(*arguments: str | Path) -> str:
        done = subprocess.run(["systemd-analyze", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


def test_it_is_exposed_less_than_2_5(analyze):
    said = analyze("security", "--offline=true", "--threshold=25", UNIT)
    assert float(re.search(r"exposure level for martlet.service: ([0-9.]+)", said)[1]) < 2.5


def test_systemd_understands_every_line(analyze, program, tmp_path):
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/bin/martlet", program.path))
    shutil.copy(UNIT.with_suffix(".socket"), tmp_path)
    assert analyze("verify", "--man=no", "--recursive-errors=no", unit) == ""


def expanded(name: str, analyze) -> set[str]:
    """The system calls of a group, and of those in it."""
    calls = set()
    for line in analyze("syscall-filter", name).splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            calls |= expanded(word, analyze)
        elif word and not word.startswith("#"):
            calls.add(word)
    return calls


class TracedBroker(Broker):
    """strace writes down every system call from the first on; the command that is traced is the broker's."""

    def command(self) -> list[str]:
        return ["strace", "--follow-forks", "--output", f"{self.directory}/trace", "--", *super().command()]

    def stop(self) -> int:
        # strace ends as what it traces does, and passes no signal on.
        (broker,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(broker), signal.SIGTERM)
        return self.wait(30)


@pytest.fixture
def traced(program, tmp_path):
    broker = TracedBroker(
        program, tmp_path, configuration=f"persistence true\npersistence_location {tmp_path}\nlog_dest file {tmp_path}/own.log\n"
        f"listener 0 {tmp_path}/http.sock\nprotocol http_api\n",
    )
    yield broker.start()
    broker.finish()


def test_the_broker_asks_for_nothing_that_the_unit_forbids(analyze, traced, tools_for, tmp_path):
    """Its whole life: the start, a publish that is kept, a reload, the end."""
    allowed: set[str] = set()
    for value in settings("SystemCallFilter"):
        if value.startswith("~"):
            allowed -= expanded(value[1:], analyze)
        else:
            allowed |= expanded(value, analyze)
    tools_for(traced.port).publish("a", "kept", qos=1, retain=True)
    (process,) = Path(f"/proc/{traced.process.pid}/task/{traced.process.pid}/children").read_text().split()
    os.kill(int(process), signal.SIGHUP)
    wait_until(lambda: "Config reloaded" in (tmp_path / "own.log").read_text(), "it has reloaded")
    assert traced.stop() == 0

    trace = (tmp_path / "trace").read_text()
    # As the service's user it does not become another, and gives nothing away.
    roots = {"fchown", "setgid", "setuid", "setgroups"}
    called = set(re.findall(r"^\d+ +([a-z]\w*)\(", trace, re.MULTILINE)) - roots
    assert {"epoll_pwait", "accept4"} & called, "something was traced"
    # What processes may always do is in no group that is allowed.
    assert called - allowed - expanded("@default", analyze) == set()
    assert "PROT_WRITE|PROT_EXEC" not in trace, "MemoryDenyWriteExecute"
    families = {f"AF_{name}" for name in re.findall(r"\bsocket\(AF_(\w+)", trace)}
    assert families <= set(" ".join(settings("RestrictAddressFamilies")).split())

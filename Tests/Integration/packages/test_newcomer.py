"""The README as somebody new to it types it: its own lines, in a clean machine and in a clean clone."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness.broker import REPOSITORY
from harness.lines import LineProcess
from harness.program import run
from harness.waiting import wait_until

from packages.machine import LOOPBACK_UP, Machine

README = (REPOSITORY / "README.md").read_text()


def blocks(title: str) -> list[str]:
    """The lines to type below a heading, up to the next one."""
    section = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#)", README, re.MULTILINE | re.DOTALL)[1]
    return re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def test_every_line_can_be_pasted():
    typed = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert len(typed) >= 6
    for block in typed:
        assert not re.search(r"<[A-Za-z]|\.\.\.|…|(?<!\S)\$ ", block.replace("<<END", "")), f"a placeholder or a prompt: {block}"
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)


def test_every_file_that_is_linked_is_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (REPOSITORY / target).exists(), target


@pytest.fixture
def clean(machine, pack) -> Machine:
    """A machine with the package's file where `make deb` leaves it, and a sudo, which root's chroot has not.

    What is left out: the compiling, so that `make deb` finds its work done; and systemd, whose part a script plays by the unit's lines.
    """
    package = pack("1.0.0")
    place = machine.root / "root/martlet/.build/packages"
    place.mkdir(parents=True)
    shutil.copy(package, place)
    (machine.root / "root").chmod(0o755)
    shutil.copy(Path(__file__).with_name("systemctl"), machine.root / "usr/bin/systemctl")
    (machine.root / "run/systemd/system").mkdir(parents=True)
    (machine.root / "usr/sbin/policy-rc.d").unlink()
    machine.write("/usr/local/bin/sudo", '#!/bin/sh\nexec "$@"\n', 0o755)
    machine.write("/usr/local/bin/make", '#!/bin/sh\n[ "$*" = deb ] && ls .build/packages/martlet_*.deb\n', 0o755)
    yield machine
    machine.run("systemctl", "stop", "martlet", code=None)


def typed(machine: Machine, block: str, text: str | None = None) -> str:
    return machine.run("bash", "-e", "-c", f"cd /root/martlet\n{block}", text=text)


def test_the_package_in_a_clean_machine(clean):
    for block in blocks("Install"):
        typed(clean, block)
    wait_until(lambda: clean.run("martlet", "health", code=None).startswith("127.0.0.1:1883 is healthy"), "the service runs at once")
    said = typed(clean, blocks("Quick start")[1])
    assert "house/kitchen/lamp on" in said and "house/kitchen/temperature 21.5" in said and said.endswith("21.5\n")

    # MQTT and the dashboard are reachable by this machine alone, until the first of them is opened.
    assert listening(clean) - {"[::1]:1883"} == {"127.0.0.1:1883", "127.0.0.1:9883"}
    opening, checking = blocks("Open it to your network, with a password")
    *before, passwd, reload = opening.splitlines()
    typed(clean, "\n".join(before))
    typed(clean, passwd, text="secret\n")
    typed(clean, reload)
    wait_until(lambda: "0.0.0.0:1883" in listening(clean), "it is open to the network")
    assert "Configuration file is OK" in typed(clean, checking)
    clean.run("mosquitto_pub", "-u", "anna", "-P", "secret", "-t", "a", "-m", "on")
    assert "not authori" in clean.run("mosquitto_pub", "-t", "a", "-m", "on", code=5).lower()
    # What it had to remember is there after a restart.
    clean.run("systemctl", "restart", "martlet")
    wait_until(lambda: "0.0.0.0:1883" in listening(clean), "it runs again")
    assert clean.run("mosquitto_sub", "-u", "anna", "-P", "secret", "-t", "house/kitchen/temperature", "-C", "1", "-W", "10") == "21.5\n"


def listening(machine: Machine) -> set[str]:
    """Where something listens in the machine."""
    said = subprocess.run(
        ["nsenter", f"--net=/proc/{machine.holder.pid}/ns/net", "ss", "--listening", "--tcp", "--numeric", "--no-header"],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    return {line.split()[3] for line in said.splitlines()}


@pytest.fixture
def clone(program, tmp_path) -> Path:
    """A clone of what is committed, and a compiler that hands out what `make build` has built here already.

    What is left out: the compiling. That the committed files compile is what the build of this checkout shows, and that nothing else is
    needed to run them is what the clone shows.
    """
    if not (REPOSITORY / ".git").exists():
        pytest.skip("this is no checkout that could be cloned")
    place = tmp_path / "martlet"
    subprocess.run(["git", "clone", "--quiet", "--no-local", "--depth", "1", f"file://{REPOSITORY}", place], check=True)
    compiler = tmp_path / "bin/swift"
    compiler.parent.mkdir()
    compiler.write_text(
        "#!/bin/sh\n"
        f'case "$*" in "build -c release "*"--product martlet") mkdir -p .build/release && ln -s {program.path} .build/release/ ;;\n'
        '*) echo "swift $* is not what the README asks for" >&2; exit 1 ;;\nesac\n'
    )
    compiler.chmod(0o755)
    return place


def test_the_sources_in_a_clean_clone(clone):
    namespace = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    if subprocess.run([*namespace, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("the kernel gives nobody a network of his own here, and port 1883 may be taken")
    (start,), messages = blocks("Quick start")[:1], blocks("Quick start")[1]
    # The second terminal is the same shell's foreground, as soon as the broker says that it runs.
    script = f"""
        {sys.executable} -c '{LOOPBACK_UP}'
        cd {clone}
        set -m
        ({start.strip()}) &
        starter=$!
        until mosquitto_pub -t probe -n 2>/dev/null; do kill -0 $starter; sleep 0.1; done
        bash -e <<'TYPED'
{messages}
TYPED
        kill -TERM -- -$starter
    """
    process = LineProcess(["env", f"PATH={clone.parent}/bin:{os.environ['PATH']}", *namespace, "bash", "-c", script])
    try:
        process.wait_line(lambda line: "martlet version" in line and "running on" in line, "make run starts the broker")
        process.wait_line(lambda line: line == "house/kitchen/lamp on", "the first message arrives")
        process.wait_line(lambda line: line == "21.5", "the retained message arrives")
        # The script ends the broker by itself, after the last line that was typed.
        process.wait_line(lambda line: "terminating" in line, "it ends")
    finally:
        process.process.send_signal(signal.SIGTERM)
        process.wait()


def test_what_the_readme_says_of_help_and_options(program):
    assert "--config-file" in run(program, "--help").stdout
    assert (REPOSITORY / "config/martlet.conf").read_text().count("\n#") > 100

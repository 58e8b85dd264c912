"""The client library behind a network that cuts, halves and stalls its connections: nothing is lost, and nothing doubled at QoS 2."""

import subprocess
import threading

import pytest
from client.cutting_proxy import CuttingProxy, Plan
from harness.broker import REPOSITORY
from harness.waiting import wait_until

pytestmark = pytest.mark.martlet("tries the commands that were built here")

PROGRAM = str(REPOSITORY / ".build/release/martlet")
#: A client waits a second before it comes back, then two, then four.
SECONDS = 45
COUNT = 300
LINES = [f"line {number} " + "x" * (number % 50) for number in range(COUNT)]


@pytest.fixture
def cut(broker):
    proxies = []

    def start(*plans) -> CuttingProxy:
        proxies.append(CuttingProxy(broker.port, plans))
        return proxies[-1]

    yield start
    for proxy in proxies:
        proxy.close()


def command(name: str, port: int, *arguments) -> list[str]:
    return [PROGRAM, name, "-h", "127.0.0.1", "-p", str(port), "-V", "mqttv5", *map(str, arguments)]


def subscriber(port: int, qos: int) -> subprocess.Popen:
    return subprocess.Popen(
        command("sub", port, "-t", "cut", "-q", qos, "-i", "hearer", "-c", "-x", 60), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def heard(process: subprocess.Popen) -> list[str]:
    """What it prints up to the last line, and what comes right behind that."""
    lines = []
    watchdog = threading.Timer(SECONDS, process.kill)
    watchdog.start()
    while not lines or lines[-1] != LINES[-1]:
        line = process.stdout.readline()
        assert line, f"the last of {len(lines)} lines is {lines[-1:]}: {process.stderr.read()}"
        lines.append(line.rstrip("\n"))
    watchdog.cancel()
    process.terminate()
    rest, _ = process.communicate(timeout=SECONDS)
    return lines + rest.splitlines()


def publish(port: int, qos: int) -> subprocess.CompletedProcess:
    arguments = ["-t", "cut", "-q", qos, "-i", "speaker", "-c", "-x", 60, "-l"]
    return subprocess.run(command("pub", port, *arguments), input="\n".join(LINES) + "\n", capture_output=True, text=True, timeout=SECONDS)


def check(lines: list[str], qos: int):
    if qos == 2:
        assert lines == LINES
    else:
        # What comes again comes behind all that came before it did.
        assert list(dict.fromkeys(lines)) == LINES


@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_publisher_whose_connections_are_cut(broker, cut, qos, how):
    proxy = cut(Plan(up=1000, how=how), Plan(down=200, how=how), Plan(up=2001, how=how))
    hearer = subscriber(broker.port, qos)
    wait_until(lambda: "hearer" in broker.log and "SUBACK" in broker.log, "the subscriber is there")
    done = publish(proxy.port, qos)
    assert done.returncode == 0, done.stderr
    assert proxy.count >= 4
    check(heard(hearer), qos)


@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_a_subscriber_whose_connections_are_cut(broker, cut, how):
    proxy = cut(Plan(down=1500, how=how), Plan(up=300, how=how), Plan(down=3001, how=how))
    hearer = subscriber(proxy.port, 2)
    wait_until(lambda: "hearer" in broker.log and "SUBACK" in broker.log, "the subscriber is there")
    done = publish(broker.port, 2)
    assert done.returncode == 0, done.stderr
    check(heard(hearer), 2)
    assert proxy.count >= 2


def test_a_connection_that_carries_nothing_any_more(broker, cut):
    """Only the Keep Alive tells."""
    proxy = cut(Plan(up=1000, how="stall"))
    hearer = subscriber(broker.port, 2)
    wait_until(lambda: "hearer" in broker.log and "SUBACK" in broker.log, "the subscriber is there")
    arguments = ["-t", "cut", "-q", 2, "-i", "speaker", "-c", "-x", 60, "-l", "-k", 5]
    process = subprocess.run(
        command("pub", proxy.port, *arguments), input="\n".join(LINES) + "\n", capture_output=True, text=True, timeout=SECONDS)
    assert process.returncode == 0, process.stderr
    assert proxy.count == 2
    check(heard(hearer), 2)

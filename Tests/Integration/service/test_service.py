"""The broker as a service: its process, its user, and what systemd hears of it."""

import os
import pwd
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from harness.lines import LineProcess
from harness.ports import has_ipv6, reserve_port
from harness.program import run
from harness.waiting import PATIENCE, wait_until


@pytest.fixture
def manager(tmp_path):
    """The socket on which a service manager hears."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(PATIENCE)
        yield listening


def heard(manager) -> dict[str, str]:
    return dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())


def hear_until(manager, name: str) -> dict[str, str]:
    while name not in (said := heard(manager)):
        pass
    return said


@pytest.mark.broker(configuration="pid_file {directory}/broker.pid")
def test_the_process_identifier_is_written_and_taken_away(broker, tmp_path):
    path = tmp_path / "broker.pid"
    wait_until(path.exists, "the pid file is there")
    assert wait_until(path.read_text, "it is written") == f"{broker.process.pid}\n"
    broker.stop()
    assert not path.exists()


def test_a_pid_file_that_cannot_be_written_is_an_error(program, tmp_path):
    (tmp_path / "wrong.conf").write_text(f"listener {reserve_port()}\nuser root\npid_file /nowhere/broker.pid\n")
    done = run(program, "-c", str(tmp_path / "wrong.conf"))
    assert done.returncode != 0
    assert "pid file" in done.stdout


def test_it_goes_to_the_background(program, tmp_path):
    port = reserve_port()
    pid = tmp_path / "broker.pid"
    (tmp_path / "daemon.conf").write_text(
        f"listener {port} 127.0.0.1\nuser root\npid_file {pid}\nlog_dest file {tmp_path}/daemon.log\n"
    )
    done = run(program, "-d", "-c", str(tmp_path / "daemon.conf"))
    assert done.returncode == 0, done.stdout
    number = int(wait_until(lambda: pid.exists() and pid.read_text().strip(), "the pid file is written"))
    try:
        wait_until(lambda: "running" in (tmp_path / "daemon.log").read_text(), "it runs")
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
        assert os.getsid(number) != os.getsid(0)
    finally:
        os.kill(number, signal.SIGTERM)
    wait_until(lambda: not Path(f"/proc/{number}").exists() or "Z" in _state(number), "it ends")
    assert "terminating" in (tmp_path / "daemon.log").read_text()


def _state(number: int) -> str:
    return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]


@pytest.mark.martlet("mosquitto goes on in the background and ends there")
def test_what_ends_the_broker_at_its_start_is_in_the_log_too(program, tmp_path):
    (tmp_path / "broken.conf").write_text(
        f"listener {reserve_port()} 127.0.0.1\nuser root\nlog_dest file {tmp_path}/broken.log\n"
        f"persistence true\npersistence_location {tmp_path}/nowhere\n"
    )
    said = run(program, "-c", str(tmp_path / "broken.conf"))
    assert said.returncode == 1 and "nowhere" in said.stdout
    assert re.search(r"Error: .*broken.conf:5: persistence_location: .*/nowhere cannot be used: the directory .*/nowhere does not exist\. Make it: ", (tmp_path / "broken.log").read_text())


def test_what_goes_wrong_is_said_before_it_goes_to_the_background(program, broker):
    done = run(program, "-d", "-p", str(broker.port))
    assert done.returncode != 0
    assert "in use" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
class TestUser:
    @staticmethod
    def owners(process: int) -> set[int]:
        status = Path(f"/proc/{process}/status").read_text()
        return {int(number) for line in status.splitlines() if line.startswith("Uid:") for number in line.split()[1:]}

    def test_the_user_of_the_file_is_who_it_becomes(self, start_broker):
        broker = start_broker(user="nobody")
        wait_until(lambda: self.owners(broker.process.pid) == {pwd.getpwnam("nobody").pw_uid}, "it becomes nobody")

    def test_without_a_user_it_becomes_mosquitto_or_nobody(self, program):
        try:
            expected = pwd.getpwnam("mosquitto").pw_uid
        except KeyError:
            expected = pwd.getpwnam("nobody").pw_uid
        process = LineProcess([program.path, "-p", str(reserve_port()), "-v"])
        wait_until(lambda: self.owners(process.process.pid) == {expected}, "it becomes a user with fewer rights")
        process.process.send_signal(signal.SIGTERM)
        assert process.wait() == 0

    def test_a_user_that_does_not_exist_is_an_error(self, program, tmp_path):
        (tmp_path / "wrong.conf").write_text(f"listener {reserve_port()}\nuser no-such-user\n")
        done = run(program, "-c", str(tmp_path / "wrong.conf"))
        assert done.returncode != 0
        assert "no-such-user" in done.stdout and "does not exist" in done.stdout

    @pytest.mark.martlet
    def test_its_log_file_can_be_written_by_the_user(self, start_broker, tmp_path):
        tmp_path.chmod(0o755)
        start_broker(user="nobody", configuration=f"log_dest file {tmp_path}/user.log")
        wait_until(
            lambda: (tmp_path / "user.log").stat().st_uid == pwd.getpwnam("nobody").pw_uid, "the file belongs to the user"
        )


@pytest.mark.martlet
class TestSocketActivation:
    """Sockets that somebody else has opened: the shell between us and the broker knows the process identifier in time."""

    @staticmethod
    def start(program, listening: socket.socket, *arguments) -> LineProcess:
        number = listening.fileno()
        os.set_inheritable(number, True)
        script = f'exec 3<&{number}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
        process = LineProcess(["bash", "-c", script, "bash", program.path, *arguments], pass_fds=[number])
        process.wait_line(lambda line: " loop" in line, "it runs")
        return process

    @pytest.mark.parametrize("loops", ["1", "4"])
    def test_a_listener_takes_the_socket_of_its_address(self, program, tmp_path, tools_for, loops):
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            port = listening.getsockname()[1]
            (tmp_path / "socket.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\n")
            process = self.start(program, listening, "-c", str(tmp_path / "socket.conf"), "--threads", loops)
        subscriber = tools_for(port).subscribe("a", qos=1)
        tools_for(port).publish("a", "hello", qos=1)
        assert subscriber.take_one().payload == b"hello"
        process.process.send_signal(signal.SIGTERM)
        assert process.wait() == 0

    @pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")
    def test_one_socket_for_both_families_is_enough(self, program, tmp_path, tools_for):
        with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening:
            port = listening.getsockname()[1]
            (tmp_path / "socket.conf").write_text(f"listener {port}\nallow_anonymous true\nuser root\n")
            process = self.start(program, listening, "-c", str(tmp_path / "socket.conf"))
        tools_for(port).publish("a", "hello", qos=1)
        process.process.send_signal(signal.SIGTERM)
        assert process.wait() == 0

    def test_a_socket_that_belongs_to_no_listener_is_named(self, program):
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            process = self.start(program, listening, "-p", str(reserve_port()))
            unused = listening.getsockname()[1]
        process.wait_line(lambda line: f"socket 127.0.0.1:{unused} belongs to no listener" in line, "it is named")
        process.process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


@pytest.mark.martlet("mosquitto 2.0 says less")
class TestServiceManager:
    def test_it_says_when_it_serves_reloads_and_stops(self, start_broker, manager, tmp_path):
        broker = start_broker(environment={"NOTIFY_SOCKET": f"{tmp_path}/notify"})
        said = hear_until(manager, "READY")
        assert said["READY"] == "1" and str(broker.port) in said["STATUS"]
        broker.signal(signal.SIGHUP)
        assert "MONOTONIC_USEC" in hear_until(manager, "RELOADING")
        assert hear_until(manager, "READY")["READY"] == "1"
        broker.signal(signal.SIGTERM)
        assert hear_until(manager, "STOPPING")["STOPPING"] == "1"
        assert broker.wait() == 0

    def test_it_shows_that_it_is_well(self, start_broker, manager, tmp_path):
        start_broker(
            "--threads", "4", environment={"NOTIFY_SOCKET": f"{tmp_path}/notify", "WATCHDOG_USEC": "600000"}
        )
        began = time.monotonic()
        for _ in range(3):
            hear_until(manager, "WATCHDOG")
        assert time.monotonic() - began < 5

    def test_an_abstract_socket_hears_too(self, start_broker):
        name = f"martlet-test-{os.getpid()}-{reserve_port()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
            listening.bind("\0" + name)
            listening.settimeout(PATIENCE)
            start_broker(environment={"NOTIFY_SOCKET": f"@{name}"})
            assert "READY" in hear_until(listening, "READY")

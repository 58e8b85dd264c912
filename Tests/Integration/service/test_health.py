"""`martlet health`: whether a broker answers, as one line and an exit code."""

import os
import signal
import socket
import time

import pytest
from harness.ports import has_ipv6, reserve_port
from harness.program import run

pytestmark = pytest.mark.martlet("has no such command")


def ask(program, *arguments, code: int) -> str:
    done = run(program, "health", *map(str, arguments))
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.fixture
def users(program, tmp_path) -> str:
    assert run(program, "passwd", "-H", "sha512", "-c", "-b", str(tmp_path / "users"), "anna", "secret").returncode == 0
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "wrong").write_text("wrong\n")
    return f"allow_anonymous false\npassword_file {tmp_path}/users\n"


def test_a_broker_that_answers_is_well(program, broker):
    said = ask(program, "-p", broker.port, code=0)
    assert said.startswith(f"127.0.0.1:{broker.port} is healthy: ") and said.count("\n") == 1
    assert ask(program, "-q", "-p", broker.port, code=0) == ""


def test_nobody_there(program):
    port = reserve_port()
    assert ask(program, "-p", port, code=1) == f"Error: 127.0.0.1:{port}: Connection refused.\n"
    assert ask(program, "-q", "-p", port, code=1) == ""
    assert ask(program, "--socket", "/nowhere/mqtt.sock", code=1) == "Error: /nowhere/mqtt.sock: No such file or directory.\n"
    # No resolver is asked for it, which might take its time, or know an address for every name.
    nowhere = "n" * 64 + ".invalid"
    assert nowhere in ask(program, "--host", nowhere, code=1)


def test_a_broker_that_hangs_is_not_well_within_the_second(program, broker):
    broker.hang()
    began = time.monotonic()
    try:
        assert "does not answer in time" in ask(program, "-p", broker.port, code=1)
        assert time.monotonic() - began < 5, "it has waited for a second, and this machine may be busy"
    finally:
        broker.signal(signal.SIGCONT)


def test_something_else_that_listens_is_no_broker(program):
    with socket.create_server(("127.0.0.1", 0)) as server:
        pid = os.fork()
        if pid == 0:
            connection, _ = server.accept()
            connection.recv(100)
            connection.sendall(b"SSH-2.0-other\r\n")
            connection.close()
            os._exit(0)
        assert "does not answer as an MQTT broker" in ask(program, "-p", server.getsockname()[1], code=1)
        os.waitpid(pid, 0)


def test_a_login_that_is_refused_shows_that_it_lives(program, start_broker, users, tmp_path):
    broker = start_broker(configuration=f"listener {{port}} 127.0.0.1\n{users}", listener=False)
    assert "is healthy" in ask(program, "-p", broker.port, "-u", "anna", "--password-file", tmp_path / "secret", code=0)
    # After some that failed the answer is held back; that is no reason to start the broker again.
    for _ in range(8):
        assert "is alive" in ask(program, "-p", broker.port, "-u", "anna", "--password-file", tmp_path / "wrong", code=0)
    assert "has not decided this login yet" in ask(program, "-p", broker.port, "-u", "anna", "--password-file", tmp_path / "wrong", code=0)


@pytest.mark.parametrize(
    "listener",
    ["{own} 127.0.0.1", "{own}", "{own}\nsocket_domain ipv6", "{own} ::1", "0 {directory}/mqtt.sock", "{own} 127.0.0.1\nprotocol websockets"],
)  # fmt: skip
def test_the_configuration_says_where_to_ask(program, start_broker, listener):
    if ("ipv6" in listener or "::1" in listener) and not has_ipv6():
        pytest.skip("there is no IPv6 here")
    own, proxied = reserve_port(), reserve_port()
    broker = start_broker(
        # The first listener wants what only a proxy has, and the last is the harness's.
        configuration=f"allow_anonymous true\nlistener {proxied} 127.0.0.1\nenable_proxy_protocol 2\n"
        f"listener {listener.replace('{own}', str(own))}\nlistener {{port}} 127.0.0.1",
        listener=False,
    )
    said = ask(program, "-c", broker.configuration_path, code=0)
    assert "is healthy" in said and ("mqtt.sock" if listener.startswith("0 ") else f":{own} ") in said


def test_over_tls(program, start_broker, authority, tmp_path):
    tls = f"certfile {authority.directory}/server.crt\nkeyfile {authority.directory}/server.key"
    broker = start_broker(configuration=f"listener {{port}}\n{tls}\nallow_anonymous true", listener=False)
    assert "is healthy" in ask(program, "-p", broker.port, "--host", "localhost", "--tls", "--cafile", authority.certificate, code=0)
    assert "is healthy" in ask(program, "-p", broker.port, "--tls", "--insecure", code=0)
    assert "is healthy" in ask(program, "-c", broker.configuration_path, code=0)
    assert "certificate" in ask(program, "-p", broker.port, "--host", "localhost", "--tls", code=1)


def test_a_broken_configuration_is_not_a_broken_broker(program, broker):
    with broker.configuration_path.open("a") as file:
        file.write("no_such_option 1\n")
    assert "is healthy" in ask(program, "-c", broker.configuration_path, code=0)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--socket", "/run/x", "-p", "1"], "replaces --host and --port"),
        (["-c", "x", "-p", "1"], "the configuration says where"),
        (["--cafile", "x"], "need --tls"),
        (["--tls", "--cert", "x"], "need each other"),
        (["--password-file", "x"], "needs --user"),
        (["--timeout", "0"], "0.01 to 60"),
    ],
)
def test_what_makes_no_sense_is_said(program, arguments, reason):
    done = run(program, "health", *arguments)
    assert done.returncode == 64 and reason in done.stdout


def test_a_configuration_with_nobody_to_ask(program, tmp_path):
    (tmp_path / "proxied.conf").write_text("listener 1883\nenable_proxy_protocol 2\n")
    assert "name one with --port" in ask(program, "-c", tmp_path / "proxied.conf", code=1)


def test_it_leaves_nothing_behind(program, broker):
    ask(program, "-p", broker.port, code=0)
    broker.wait_for_log("Client martlet-health-.* disconnected")

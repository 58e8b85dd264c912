"""Where `martlet ctl` finds a broker that nobody has told it of, and what it says where there is none."""

import getpass
import http.client
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from harness.broker import listening_ports
from harness.ports import reserve_port

pytestmark = [
    pytest.mark.martlet("has no such command"),
    pytest.mark.skipif(os.path.exists("/run/martlet/http.sock"), reason="Martlet is installed here"),
]


@pytest.fixture
def home():
    """What XDG_RUNTIME_DIR names; the path of a socket has to be short."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def ctl(program, home):
    def act(*arguments, code: int = 0) -> str:
        done = subprocess.run(
            [program.path, "ctl", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "XDG_RUNTIME_DIR": str(home)})  # fmt: skip
        assert done.returncode == code, f"{arguments} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    return act


@pytest.fixture
def started(start_broker, home):
    return lambda lines="": start_broker(configuration=lines, environment={"XDG_RUNTIME_DIR": str(home)})


def test_every_broker_has_a_socket_which_its_user_finds(started, ctl, home):
    broker = started()
    socket = home / f"martlet/{broker.port}.sock"
    assert socket.stat().st_mode & 0o007 == 0 and socket.parent.stat().st_mode & 0o022 == 0
    assert "ready" in ctl("status") and "ready" in ctl("status", "-c", broker.configuration_path)
    assert ctl("log", "level", "+debug").startswith("debug")
    broker.wait_for_log(rf'"who":"{getpass.getuser()}".*"operation":"setLogTypes"')
    # mosquitto has no such listener.
    assert ctl("reload") == "The configuration is in force.\n"
    assert broker.stop() == 0 and not socket.exists()
    if 9883 not in listening_ports():  # of a broker without a configuration, which this machine may have
        assert "There is no /run/martlet/http.sock either: the broker seems to be stopped." in ctl("status", code=2)


def test_of_several_brokers_one_has_to_be_named(started, ctl, home):
    brokers = [started(), started()]
    said = ctl("status", code=1)
    for broker in brokers:
        path = home / f"martlet/{broker.port}.sock"
        assert f"--socket {path}" in said
        assert f":{broker.port}" in ctl("--socket", path, "status")
    brokers[0].kill()
    # Its file is still there, and nobody listens.
    assert f":{brokers[1].port}" in ctl("status")


def test_a_directory_that_others_can_write_to_is_not_used(started, ctl, home):
    (home / "martlet").mkdir()
    (home / "martlet").chmod(0o777)
    started()
    assert list((home / "martlet").iterdir()) == []


def test_a_link_lets_one_browser_into_the_dashboard(started, ctl, home):
    started()
    assert "no listener of this broker serves the dashboard" in ctl("dashboard", code=1)
    port = reserve_port()
    broker = started(f"listener {port} 127.0.0.1\nprotocol http_api\n")
    connection = ["--socket", home / f"martlet/{broker.port}.sock"]
    link = ctl("dashboard", *connection).splitlines()[0]
    assert link.startswith(f"http://127.0.0.1:{port}/dashboard/#token=")

    def log_in() -> int:
        http_connection = http.client.HTTPConnection("127.0.0.1", port)
        body = json.dumps({"token": link.rpartition("=")[2]})
        http_connection.request("POST", "/api/martlet/v1/session", body, {"Content-Type": "application/json"})
        return http_connection.getresponse().status

    assert [log_in(), log_in()] == [200, 401]
    assert 'martlet_http_token_file' in ctl("token", "create", "x", *connection, code=1)


def test_a_browser_is_shown_the_dashboard_where_only_the_host_is_typed(started):
    port = reserve_port()
    started(f"listener {port} 127.0.0.1\nprotocol http_api\nlistener_allow_anonymous false\n")

    def answer(accept: str):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/", headers={"Accept": accept})
        return connection.getresponse()

    assert answer("text/html,application/xhtml+xml,*/*;q=0.8").headers["Location"] == "/dashboard/"
    assert answer("*/*").status == 401


@pytest.mark.parametrize("words", [["--json", "status"], ["--timeout=5", "--json", "status"], ["status", "--json"]])
def test_connection_options_stand_before_the_command_or_behind_it(started, ctl, home, words):
    path = str(home / f"martlet/{started().port}.sock")
    assert json.loads(ctl("--socket", path, *words))["broker"]["ready"] is True


def test_a_file_of_dynamic_security_is_changed_whichever_brokers_run(started, ctl, tmp_path):
    started(), started()
    assert ctl("status", code=1).startswith("Error: Several brokers run here; say which one: --socket ")
    assert ctl("dynsec").startswith("COMMAND")
    path = tmp_path / "made.json"
    ctl("dynsec", "init", path, "root", "toor-toor")
    assert ctl("dynsec", "-f", path, "listClients") == "root\n"
    assert "Several brokers" in ctl("dynsec", "listClients", code=1)


def test_connection_options_are_the_last_of_a_command(ctl):
    for command in ["trace", "clients", "ban", "token", "log", "dynsec", "bridge"]:
        own, _, connection = ctl(command, "--help").partition("\nOPTIONS:\n")[2].partition("\nCONNECTION:\n")
        own, connection = ([line.split()[0] for line in part.splitlines() if line.startswith("  -")] for part in (own, connection))
        assert own[-1] == "-h," and not set(own) & set(CONNECTION), command
        assert connection == CONNECTION, command


CONNECTION = [
    "-c,", "--url", "--socket", "--token", "--token-file", "--cafile", "--insecure", "--cert", "--key", "--timeout", "--json",
]  # fmt: skip


def test_dynamic_security_without_words_is_a_table(ctl):
    lines = ctl("dynsec").splitlines()
    assert lines[0].split() == ["COMMAND", "ARGUMENTS"] and "addClientRole        USERNAME ROLENAME [PRIORITY]" in lines
    assert max(map(len, lines)) < 80
    assert len(ctl("dynsec", "nonsense", code=64).splitlines()[0]) < 120


def test_a_line_of_the_log_says_once_how_bad_it_is(started, ctl, home):
    path = home / f"martlet/{started('max_inflight_messages 20').port}.sock"
    said = ctl("log", "--socket", path)
    assert "arning: Warning:" not in said and "notice: martlet version" in said

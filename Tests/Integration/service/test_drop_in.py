"""Lines of configuration as real files of mosquitto have them, read by Debian's mosquitto and by Martlet."""

import os
import re
import socket
import subprocess
from dataclasses import dataclass

import pytest
from harness.debian import Debian
from harness.ports import reserve_port
from harness.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.martlet

#: What stands above and below a line of a bridge, which leads nowhere.
BRIDGE = "connection b\naddress 127.0.0.1:1\ntopic a\n"


@dataclass
class Row:
    """What is written, and where one of the two does otherwise: "strict" is refused by Martlet alone, "mild" by mosquitto alone."""

    lines: str
    differs: str = ""
    #: A pattern of what Martlet warns of; empty for no warning of these lines.
    warning: str = ""
    listener: bool = True


ROWS = [
    # Comments behind values.
    Row("listener {port} 127.0.0.1 # mine", listener=False),
    Row("listener {port} # everywhere", listener=False),
    Row("port {port} # once", listener=False, warning="deprecated"),
    Row("protocol mqtt # x"),
    Row("socket_domain ipv4 # x"),
    Row("max_connections 5 # x"),
    Row("max_inflight_messages 5 # x"),
    Row("max_keepalive 60 # x"),
    Row("max_qos 2 # x"),
    Row("log_type error # x\nlog_type warning # x"),
    Row("log_type subscribe   # log subscriptions"),
    Row("log_dest stdout # x"),
    Row("log_facility 5 # x"),
    Row("log_timestamp true # x"),
    Row("connection_messages true # x"),
    Row("persistent_client_expiration 2d # x"),
    Row("persistence false # x"),
    Row("queue_qos0_messages true # x"),
    Row("sys_interval 10 # x"),
    Row("set_tcp_nodelay true # x"),
    Row("tls_version tlsv1.2 # x"),
    Row("connection b # x\naddress 127.0.0.1:1 # x\ntopic a"),
    Row("connection b\naddresses 127.0.0.1:1 127.0.0.1:2 # x\ntopic a"),
    Row(BRIDGE + "topic b out 0 l/ r/ # x"),
    Row(BRIDGE + "topic b out 0 l/ # x", warning="comment"),
    Row(BRIDGE + "topic b out 0 # x", warning="comment"),
    Row(BRIDGE + "topic b out # x", warning="comment"),
    Row(BRIDGE + "topic b # x", "mild", warning="comment"),
    Row(BRIDGE + "keepalive_interval 60 # x"),
    Row(BRIDGE + "restart_timeout 5 30 # x"),
    Row(BRIDGE + "restart_timeout 5 # x", "mild"),
    Row(BRIDGE + "start_type automatic # x"),
    Row(BRIDGE + "cleansession true # x"),
    Row(BRIDGE + "try_private false # x"),
    Row(BRIDGE + "notifications true # x"),
    Row(BRIDGE + "bridge_protocol_version mqttv311 # x", "mild"),
    # Comments that are none.
    Row("bind_address 127.0.0.1 # x", "", listener=False),
    Row("user root # x"),
    Row("pid_file {directory}/pid/none # x", warning="comment"),
    Row("mount_point x/ # x"),
    Row("include_dir {directory} # x", warning="comment"),
    # Directions, repetitions, values that are too low.
    Row(BRIDGE + "topic b IN 0 l/ r/"),
    Row(BRIDGE + "topic b Both"),
    Row(BRIDGE + "topic b inout"),
    Row(BRIDGE + "topic b out 3"),
    Row("per_listener_settings false\nper_listener_settings false", warning="deprecated"),
    Row("per_listener_settings true\nlistener {port} 127.0.0.1\nper_listener_settings true\nallow_anonymous true", listener=False, warning="deprecated"),
    Row("per_listener_settings false\nlistener {port} 127.0.0.1\nper_listener_settings true\nallow_anonymous true", "strict", listener=False, warning="deprecated"),
    Row("allow_anonymous false\nallow_anonymous false", warning="given before"),
    Row(BRIDGE + "keepalive_interval 3", warning="3 is too low; 5 is used"),
    Row(BRIDGE + "keepalive_interval 70000"),
    Row(BRIDGE + "restart_timeout 0", warning="0 is too low; 1 is used"),
    Row(BRIDGE + "restart_timeout 0 30", warning="0 is too low; 1 is used"),
    Row(BRIDGE + "restart_timeout 10 5"),
    Row(BRIDGE + "threshold 0", warning="0 is too low; 1 is used"),
    Row(BRIDGE + "idle_timeout 0", warning="0 is too low; 1 is used"),
    # Options without effect.
    Row("autosave_interval 30s", warning="no effect"),
    Row("autosave_interval seconds 30", warning="no effect"),
    Row("autosave_on_changes maybe", "mild", warning="no effect"),
    Row("retry_interval x", warning="no effect"),
    # Quotes and signs.
    Row("log_dest file '{directory}/martlet.log'", warning="quotes"),
    Row('log_dest file "{directory}/martlet.log"', warning="quotes"),
    Row('password_file "{directory}/users"', "mild", warning="quotes"),
    Row('persistence false\npersistence_location "{directory}"', warning="quotes"),
    Row('allow_anonymous "true"'),
    Row("allow_anonymous = true"),
    Row("allow_anonymous=true"),
    Row("listener: {port}", listener=False),
    # Files of a bridge that are not there.
    Row(BRIDGE + "bridge_cafile {directory}/none", warning=r"bridge_cafile: .* does not exist\. The broker starts without the bridge b\."),
]


@pytest.fixture(scope="module")
def debian() -> Debian:
    debian = Debian()
    if debian.broker_path is None:
        pytest.skip("mosquitto is not installed, and .ci/mosquitto has not fetched it")
    return debian


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
        return True
    except ConnectionRefusedError:
        return False


def mosquitto_starts(debian: Debian, path, port: int, is_silent: bool) -> tuple[bool, str]:
    """Whether mosquitto gets as far as to say that it runs, or to listen where it says nothing; it is ended then."""
    process = subprocess.Popen(
        [debian.broker_path, "-v", "-c", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **debian.environment},
    )  # fmt: skip
    said = ""
    try:
        if is_silent:
            wait_until(lambda: process.poll() is not None or listens(port), "mosquitto listens or has ended")
            return process.poll() is None, said
        for line in process.stdout:
            said += line
            if re.search(r"mosquitto version \S+ running", line):
                return True, said
        return False, said
    finally:
        process.kill()
        process.wait(PATIENCE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.lines.split("\n")[-1])
def test_a_line_means_to_martlet_what_it_means_to_mosquitto(program, debian, tmp_path, row):
    (tmp_path / "users").touch()
    tmp_path.chmod(0o777)
    port = reserve_port()
    lines = row.lines.format(port=port, directory=tmp_path)
    listener = f"listener {port} 127.0.0.1\n" if row.listener else ""
    # As root mosquitto would become a user who may not be there. Of a log file that it cannot open it says nothing, and logs no more.
    user = "" if "user" in lines else "user root\n"
    (tmp_path / "m.conf").write_text(f"{user}{listener}{lines}\n")
    theirs, said = mosquitto_starts(debian, with_log(tmp_path), port, "log_dest file" in lines)
    done = subprocess.run(
        [program.path, "-c", str(tmp_path / "m.conf"), "--test-config"], capture_output=True, text=True, timeout=PATIENCE
    )
    ours = done.returncode == 0
    assert (theirs, ours) == {"": (theirs, theirs), "mild": (False, True), "strict": (True, False)}[row.differs], said + done.stderr
    if row.warning:
        assert re.search(row.warning, done.stderr), done.stderr
    elif ours:
        expected = r"nobody can connect|has no effect without|certfile|run as root"
        assert not [line for line in done.stderr.splitlines() if not re.search(expected, line)], done.stderr


def with_log(directory):
    """The same configuration with what mosquitto says of itself on its output, whatever else the lines have it say."""
    path = directory / "mosquitto.conf"
    path.write_text((directory / "m.conf").read_text() + "log_dest stderr\nlog_type all\n")
    return path

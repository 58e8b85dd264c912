"""What the log says of those who may not: one line each, for people and for fail2ban."""

import configparser
import json
import os
import pty
import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from harness.program import run
from harness.waiting import PATIENCE
from harness.wire import PUBACK, SUBACK, frame, text

pytestmark = pytest.mark.martlet

EXAMPLES = Path(__file__).parents[3] / "config/examples/fail2ban"


@pytest.fixture
def guarded(program, start_broker, tmp_path):
    """A broker with one user, anna, and rules for her."""
    assert run(program, "passwd", "-c", "-b", "-H", "sha512", str(tmp_path / "users"), "anna", "secret").returncode == 0
    (tmp_path / "rules").write_text("user anna\ntopic read open/#\ntopic write open/#\ntopic deny open/secret\npattern deny own/%c/#\n")

    def start(lines: str = "", **options):
        return start_broker(
            configuration=f"allow_anonymous false\npassword_file {tmp_path}/users\nacl_file {tmp_path}/rules\n{lines}", **options
        )

    return start


def fails(broker, wire_to):
    wire_to(broker.port).connect("one", user="anna", password="wrong")
    wire_to(broker.port).connect("two", user="bob", password="secret")
    wire_to(broker.port).connect("three", user="anna")
    wire_to(broker.port).connect("Login failed from 192.0.2.66 port 1: wrong password")


def test_a_failed_login_says_who_from_where_and_why(guarded, wire_to):
    broker = guarded()
    fails(broker, wire_to)
    place = r"from 127\.0\.0\.1 port \d+"
    broker.wait_for_log(rf"^\d+: Login failed {place}: wrong password, user 'anna', client 'one'\.$")
    broker.wait_for_log(rf"^\d+: Login failed {place}: unknown user, user 'bob', client 'two'\.$")
    broker.wait_for_log(rf"^\d+: Login failed {place}: no password, user 'anna', client 'three'\.$")
    broker.wait_for_log(rf"^\d+: Login failed {place}: no user name, and anonymous clients are not allowed, client 'Login failed")
    broker.wait_for_log(r"^\d+: Client two \[127\.0\.0\.1:\d+\] disconnected: not authorised\.$")


def test_a_certificate_that_is_not_believed_is_a_failed_login(start_broker, authority, tmp_path):
    broker = start_broker(
        configuration=f"allow_anonymous true\nlistener {{port}} 127.0.0.1\ncertfile {authority.directory}/server.crt\n"
        f"keyfile {authority.directory}/server.key\ncafile {authority.certificate}\nrequire_certificate true",
        listener=False,
    )
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as wrapped:
                wrapped.recv(1)
        except OSError:
            pass
    broker.wait_for_log(r"^\d+: Login failed from 127\.0\.0\.1 port \d+: peer did not return a certificate, client '<unknown>'\.$")
    with socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE) as plain:
        plain.sendall(frame(1, 0, text("MQTT") + b"\4\2\0\x3c" + text("plain")))
        plain.recv(1)
    broker.wait_for_log(r"^\d+: Client 127\.0\.0\.1 \[127\.0\.0\.1:\d+\] disconnected: TLS: the client speaks plain MQTT, and this port TLS: ")
    assert broker.log.count("Login failed") == 1


def test_tls_on_a_plain_port_is_called_that(broker):
    with socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE) as plain, pytest.raises(OSError):
        ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
    broker.wait_for_log(rf"^\d+: Protocol error from 127\.0\.0\.1:\d+: the client speaks TLS, and port {broker.port} does not: ")


MQTT = frame(1, 0, text("MQTT") + b"\4\2\0\x3c" + text("plain"))
HELLO = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"
PROXY_1 = b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + MQTT + b"\0" * 80
PROXY_2 = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
GET = b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: a browser, or what says so\r\n\r\n"


@pytest.mark.parametrize(
    "kind, sent, words",
    [
        ("mqtt", HELLO, "the client speaks TLS, and port"),
        ("mqtt", GET, "the client speaks HTTP, and port"),
        ("mqtt", GET.replace(b"GET", b"POST"), "the client speaks HTTP, and port"),
        ("mqtt", PROXY_1, "a proxy begins with its PROXY header, and port"),
        ("mqtt", PROXY_2, "a proxy begins with its PROXY header, and port"),
        ("websockets", MQTT, "WebSocket: the client speaks MQTT, and this port MQTT over WebSocket: "),
        ("websockets", HELLO, "WebSocket: the client speaks TLS, and this port does not: "),
        ("http_api", MQTT, "The client speaks MQTT, and this port HTTP: "),
        ("http_api", HELLO, "The client speaks TLS, and this port does not: "),
        ("tls", MQTT, "TLS: the client speaks plain MQTT, and this port TLS: "),
        ("tls", GET, "TLS: the client speaks plain HTTP, and this port TLS: "),
        ("tls", PROXY_1, "TLS: the client speaks plain HTTP, or a proxy its PROXY protocol, and this port TLS: "),
        ("proxy", MQTT, "Connection rejected, corrupt PROXY header"),
        ("proxy", HELLO, "Connection rejected, corrupt PROXY header"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 11 else "",
)
def test_a_client_of_another_protocol_is_told_at_once_and_let_go(start_broker, authority, kind, sent, words):
    lines = {
        "mqtt": "", "tls": f"certfile {authority.directory}/server.crt\nkeyfile {authority.directory}/server.key",
        "proxy": "enable_proxy_protocol 1",
    }.get(kind, f"protocol {kind}")  # fmt: skip
    broker = start_broker(configuration=f"allow_anonymous true\nlistener {{port}} 127.0.0.1\n{lines}", listener=False, verbose=False)
    with socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE) as client:
        client.sendall(sent)
        try:
            while client.recv(4096):
                pass
        except ConnectionResetError:
            pass
    broker.wait_for_log(re.escape(words))


@pytest.mark.parametrize(
    "topic, why", [("open/secret", "line 4 of {d}/rules denies it"), ("own/me/x", "line 5 of {d}/rules denies it"), ("else", "no line of {d}/rules allows it")]
)
def test_a_denied_publish_says_the_topic_and_the_rule(guarded, wire_to, tmp_path, topic, why):
    broker = guarded()
    client = wire_to(broker.port)
    client.connect("me", user="anna", password="secret")
    client.publish(topic, "x", qos=1)
    client.receive(PUBACK)
    expected = re.escape(why.replace("{d}", str(tmp_path)))
    broker.wait_for_log(rf"^\d+: Denied PUBLISH from 127\.0\.0\.1 port \d+, client 'me', user 'anna', to '{topic}': {expected}\.$")


def test_a_denied_subscription_says_the_filter_and_the_rule(guarded, wire_to):
    broker = guarded("martlet_acl_check_subscribe true")
    client = wire_to(broker.port)
    client.connect("me", user="anna", password="secret")
    assert client.subscribe("else/#") == 0x87
    broker.wait_for_log(r"Denied SUBSCRIBE from .*, client 'me', user 'anna', to 'else/#': no line of .*/rules allows it\.$")


def test_a_client_cannot_flood_the_log_with_denials(guarded, wire_to):
    broker = guarded()
    client = wire_to(broker.port)
    client.connect("me", user="anna", password="secret")
    for number in range(1, 201):
        client.publish("else", "x", qos=1, identifier=number)
    for _ in range(200):
        client.receive(PUBACK)
    client.disconnect()
    broker.wait_for_log("Client me: 200 messages dropped")
    # Five, and one more for each ten seconds that all of this may take on a slow machine.
    assert 5 <= len(re.findall(r"Denied PUBLISH from 127", broker.log)) <= 8


def test_json_lines_have_fields(guarded, wire_to):
    broker = guarded("martlet_log_format json")
    wire_to(broker.port).connect("one", user="anna", password="wrong")
    client = wire_to(broker.port)
    client.connect("me", user="anna", password="secret")
    client.publish("else", 'x"', qos=1)
    client.receive(PUBACK)
    broker.wait_for_log("Denied PUBLISH from 127")
    lines = [json.loads(line) for line in broker.log.splitlines() if line.startswith("{")]
    failed = next(line for line in lines if line["message"].startswith("Login failed"))
    assert (failed["client"], failed["user"], failed["address"], failed["reason"]) == ("one", "anna", "127.0.0.1", "wrong password")
    denied = next(line for line in lines if line["message"].startswith("Denied PUBLISH from 127"))
    assert (denied["client"], denied["user"], denied["topic"]) == ("me", "anna", "else") and denied["reason"].startswith("no line of")


def test_the_filter_for_fail2ban_finds_the_address_and_nothing_else(guarded, wire_to, tmp_path):
    broker = guarded()
    fails(broker, wire_to)
    client = wire_to(broker.port)
    client.connect("Login failed from 192.0.2.66 port 1: wrong password", user="anna", password="secret")
    broker.wait_for_log(r"as Login failed from 192\.0\.2\.66")
    for name in ["martlet", "martlet[1]"]:
        client = wire_to(broker.port)
        client.connect(f"{name}: Login failed from 192.0.2.66 port 1: wrong password", user="anna", password="secret")
        client.close()
        broker.wait_for_log(rf"Client {re.escape(name)}: Login failed from 192\.0\.2\.66")
    parser = configparser.RawConfigParser()
    parser.read(EXAMPLES / "filter.conf")
    pattern = parser["Definition"]["failregex"].replace("<ADDR>", r"(?P<address>[0-9a-fA-F.:]+)")
    failed = "Login failed from 2001:db8::1 port 5: unknown user, user 'a', client 'b'."
    # The package's configuration writes the time into the journal too, for those who have a log file beside it.
    journal = [f"{head}{time}{failed}" for head in ("Nov 23 02:00:00 host martlet[12]: ", "host martlet[12]: ") for time in ("", "2026-11-23T02:00:00: ")]
    journal += ["host martlet[12]: Client martlet[1]: " + failed, "Client martlet[1]: " + failed]
    # fail2ban takes the time off the line before it looks at it.
    lines = [re.sub(r"^\d{10}", "", line) for line in broker.log.splitlines()]
    found = [match["address"] for line in lines if (match := re.search(pattern, line))]
    assert found == ["127.0.0.1"] * 4
    assert [match["address"] for line in journal if (match := re.search(pattern, line))] == ["2001:db8::1"] * 4
    if tester := shutil.which("fail2ban-regex"):
        (tmp_path / "log").write_text(broker.log)
        done = subprocess.run([tester, tmp_path / "log", EXAMPLES / "filter.conf"], capture_output=True, text=True, timeout=60)
        assert re.search(r"Failregex: 4 total", done.stdout), done.stdout


@pytest.mark.parametrize("environment, coloured", [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_a_terminal_has_a_clock_and_colours_unless_they_are_not_wanted(program, environment, coloured):
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [program.path, "-c", "/nowhere/martlet.conf"], stdout=slave, stderr=slave, stdin=subprocess.DEVNULL,
        env={**{key: value for key, value in os.environ.items() if key != "NO_COLOR"}, **environment},
    )  # fmt: skip
    process.wait(timeout=PATIENCE)
    os.close(slave)
    said = os.read(master, 4096).decode()
    os.close(master)
    assert "Unable to open config file" in said and ("\x1b[31mError:\x1b[0m" in said) == coloured and ("\x1b" in said) == coloured


def test_a_newcomer_hears_that_only_this_machine_can_connect(start_broker, program, tmp_path):
    broker = start_broker()
    assert "local only mode" not in broker.log
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    done = subprocess.Popen([program.path, "-p", port], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    lines = []
    for line in done.stderr:
        lines.append(line)
        if " (1 loop)" in line or " loops)" in line:
            break
    done.terminate()
    done.wait(timeout=PATIENCE)
    assert any(line.endswith(
        ": Starting in local only mode. Connections will only be possible from clients running on this machine.\n") for line in lines)  # fmt: skip
    assert any("martlet passwd -c /etc/martlet/users USER" in line and '"password_file /etc/martlet/users"' in line for line in lines)
    assert [sum(f"martlet version {word}" in re.sub(r"version \S+", "version", line) for line in lines) for word in ("starting", "running")] == [1, 1]

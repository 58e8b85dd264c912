"""From where clients may connect, how many at a time and how fast, and how TLS handshakes share a loop; and the page that says so."""

import re
import signal
import socket
import ssl
import subprocess

import pytest
from harness.broker import REPOSITORY
from harness.certificates import Authority
from harness.ports import reserve_port
from harness.waiting import PATIENCE, wait_until
from service.test_connection_limits import is_let_in

pytestmark = pytest.mark.martlet("mosquitto has no such options")

PAGE = (REPOSITORY / "Sources/MartletServer/MartletServer.docc/FromWhere.md").read_text()
LINES = "listener {port} 127.0.0.1\nallow_anonymous true\n"
PROXY = f"{LINES}enable_proxy_protocol 1\nmartlet_proxy_trusted 127.0.0.1\n"


def header(address: str) -> bytes:
    return f"PROXY {'TCP6' if ':' in address else 'TCP4'} {address} {address} 50312 1883\r\n".encode()


def test_who_comes_from_elsewhere_is_refused_before_a_word(start_broker):
    broker = start_broker(configuration=f"{LINES}martlet_allow_from 127.0.0.0/24\nmartlet_deny_from 127.0.0.9", listener=False)
    is_let_in(broker.port).close()
    assert is_let_in(broker.port, address="127.0.0.9") is None
    broker.wait_for_log(r"Client connection from 127\.0\.0\.9:\d+ denied: not from there \(martlet_allow_from, martlet_deny_from\)\.")
    assert is_let_in(broker.port, address="127.0.1.1") is None


def test_behind_a_proxy_the_clients_address_counts(start_broker):
    broker = start_broker(configuration=f"{PROXY}martlet_deny_from 192.0.2.0/24 2001:db8:bad::/48", listener=False)
    for address, is_in in [("192.0.2.1", False), ("192.0.3.1", True), ("2001:db8:bad::1", False), ("2001:db8::1", True)]:
        guest = is_let_in(broker.port, head=header(address))
        assert (guest is not None) == is_in, address
        if guest:
            guest.close()


def test_a_list_in_a_file_is_read_again_and_a_broken_one_changes_nothing(start_broker, tmp_path):
    (tmp_path / "blocked").write_text("# a list\n127.0.0.2/32 ; SBL1\n; all of it\n127.0.0.3 # here\n")
    broker = start_broker(configuration=f"{LINES}martlet_deny_from_file {tmp_path}/blocked", listener=False)
    assert is_let_in(broker.port, address="127.0.0.3") is None
    is_let_in(broker.port, address="127.0.0.4").close()
    (tmp_path / "blocked").write_text("127.0.0.4\n")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("Config reloaded")
    assert is_let_in(broker.port, address="127.0.0.4") is None
    is_let_in(broker.port, address="127.0.0.3").close()
    (tmp_path / "blocked").write_text("127.0.0.1\nhome.example\n")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log(r'blocked:2: found "home.example", expected an IPv4 or IPv6 address or network')
    assert is_let_in(broker.port, address="127.0.0.4") is None
    is_let_in(broker.port).close()


def test_a_list_that_is_empty_allows_nobody(start_broker, tmp_path):
    (tmp_path / "friends").write_text("127.0.0.1\n")
    broker = start_broker(configuration=f"{LINES}martlet_allow_from_file {tmp_path}/friends", listener=False)
    is_let_in(broker.port).close()
    assert is_let_in(broker.port, address="127.0.0.2") is None


@pytest.mark.parametrize("lines, address, other, words", [
    ("martlet_max_connections_per_address 2", "192.0.2.1", "192.0.2.2", r"its address has 2 connections \(martlet_max_connections_per_address\)"),
    ("martlet_max_connections_per_network 2", "192.0.2.9", "192.0.3.2", r"its network has 2 connections \(martlet_max_connections_per_network\)"),
    ("martlet_max_connections_per_network 2 /24 /56", "2001:db8:0:1::1", "2001:db8:1::1", r"its network has 2 connections"),
])  # fmt: skip
def test_no_more_at_a_time_from_one_place(start_broker, lines, address, other, words):
    broker = start_broker("--threads", "3", configuration=f"{PROXY}{lines}", listener=False)
    guests = [wait_until(lambda: is_let_in(broker.port, head=header(address)), "a place") for _ in range(2)]
    assert is_let_in(broker.port, head=header(address)) is None
    broker.wait_for_log(words)
    guests.append(is_let_in(broker.port, head=header(other)))
    guests.pop(0).close()
    guests.append(wait_until(lambda: is_let_in(broker.port, head=header(address)), "the place that became free"))
    for guest in guests:
        guest.close()


@pytest.mark.parametrize("place", ["listener", "all"])
def test_no_more_in_a_second(start_broker, place):
    line = "martlet_max_connections_per_second 5\n"
    broker = start_broker(configuration=(LINES + line) if place == "listener" else line + LINES, listener=False)
    guests = []
    for number in range(40):
        guests.append(is_let_in(broker.port, address=f"127.0.0.{number + 2}"))
        if guests[-1] is None:
            break
    assert guests[-1] is None, "from many addresses together too many come"
    broker.wait_for_log(r"denied: more than 5 connections per second \(martlet_max_connections_per_second\)")
    guests.append(wait_until(lambda: is_let_in(broker.port), "the next one's turn"))
    for guest in filter(None, guests):
        guest.close()


def test_a_listener_of_http_has_a_rate_of_its_own(start_broker):
    http = reserve_port()
    lines = f"martlet_max_connections_per_second 1000\n{LINES}martlet_metrics_anonymous true\nlistener {http} 127.0.0.1\nprotocol http_api\n"
    broker = start_broker(configuration=f"{lines}martlet_max_connections_per_second 3", listener=False)
    wait_until(lambda: metrics(http) == "", "more come than may", 20)
    broker.wait_for_log(r"denied: more than 3 connections per second \(martlet_max_connections_per_second\)")
    is_let_in(broker.port).close()
    assert 'martlet_connections_refused_total{reason="rate"}' in wait_until(lambda: metrics(http), "the next one's turn")


def test_what_is_refused_is_counted(start_broker, tmp_path):
    http = reserve_port()
    lines = f"{LINES}martlet_deny_from 127.0.0.2\nmartlet_max_connections_per_address 1\nmartlet_metrics_anonymous true\n"
    broker = start_broker(configuration=f"{lines}listener {http} 127.0.0.1\nprotocol http_api\nmartlet_deny_from 127.0.0.3", listener=False)
    assert is_let_in(broker.port, address="127.0.0.2") is None
    guest = wait_until(lambda: is_let_in(broker.port), "a place")
    assert is_let_in(broker.port) is None
    found = metrics(http)
    assert 'martlet_connections_refused_total{reason="address_denied"} 1' in found
    assert re.search(r'martlet_connections_refused_total\{reason="too_many_of_address"\} [1-9]', found)
    assert 'martlet_tls_handshakes{state="waiting"} 0' in found
    guest.close()
    assert metrics(http, address="127.0.0.3") == "", "the lists hold for HTTP too"


def metrics(port: int, address: str = "127.0.0.1") -> str:
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(address, 0)) as connection:
        try:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while more := connection.recv(65536):
                answer += more
        except ConnectionError:
            pass
    return answer.decode()


# TLS handshakes


def test_handshakes_wait_for_their_turn_and_silent_clients_give_their_places_up(start_broker, tmp_path):
    authority = Authority(tmp_path / "tls")
    authority.issue("server")
    lines = f"{LINES}certfile {authority.directory}/server.crt\nkeyfile {authority.directory}/server.key\nmartlet_max_handshakes 1\n"
    broker = start_broker(configuration=lines, listener=False)
    context = ssl.create_default_context(cafile=str(authority.certificate))

    def come() -> ssl.SSLSocket:
        return context.wrap_socket(socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE), server_hostname="localhost")

    established = come()
    # Each has the only place, and says no more.
    silent = []
    for _ in range(3):
        silent.append(socket.create_connection(("127.0.0.1", broker.port)))
        silent[-1].send(b"\x16\x03\x01")
    # Nobody keeps anybody out, and who is connected does not notice.
    guest = come()
    for one in (established, guest):
        one.sendall(bytes.fromhex("10 0c 0004 4d515454 04 02 003c 0000"))
        assert one.recv(4) == bytes.fromhex("20020000")
        one.close()
    for one in silent:
        one.close()


# The page


def examples() -> list[str]:
    return [body for language, body in re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if language == ""]


def test_the_page_has_two_examples():
    assert len(examples()) >= 2


@pytest.mark.parametrize("number", range(len(examples())))
def test_each_example_of_the_page_is_right(program, tmp_path, number):
    authority = Authority(tmp_path)
    authority.issue("server")
    (tmp_path / "blocked.txt").write_text("192.0.2.0/24\n")
    (tmp_path / "users").write_text("anna:$7$101$c2FsdHNhbHRzYWx0$" + "A" * 86 + "==\n")
    (tmp_path / "martlet.conf").write_text(examples()[number])
    said = subprocess.run([program.path, "--test-config", "-c", "martlet.conf"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert said.returncode == 0, said.stdout + said.stderr

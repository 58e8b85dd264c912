"""The PROXY protocol: bare headers, and haproxy in front."""

import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from harness.ports import reserve_port
from harness.waiting import PATIENCE, wait_until
from harness.wire import Wire
from transports.conftest import SecureWire, is_closed

LINES = "listener {port} 127.0.0.1\nallow_anonymous true\nenable_proxy_protocol "


def test_the_header_gives_the_address(start_broker):
    broker = start_broker(configuration=LINES + "1", listener=False)
    wire = Wire(broker.port)
    wire.send(b"PROXY TCP4 192.0.2.5 192.0.2.1 50312 1883\r\n")
    assert wire.connect("behind")[1] == 0
    broker.wait_for_log("New client connected from 192.0.2.5:50312 as behind")


@pytest.mark.parametrize("version", ["1", "2"])
def test_without_a_header_nobody_comes_in(start_broker, version):
    broker = start_broker(configuration=LINES + version, listener=False)
    wire = Wire(broker.port)
    wire.send(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a")
    assert is_closed(wire.socket)
    broker.wait_for_log("Connection rejected, corrupt PROXY header.")


def test_a_header_that_does_not_come_is_waited_for_no_longer_than_connect(start_broker):
    broker = start_broker(configuration=f"{LINES}1\nmartlet_connect_timeout 1", listener=False)
    with socket.create_connection(("127.0.0.1", broker.port)) as silent:
        silent.send(b"PROXY TCP4 ")
        assert is_closed(silent)


class Haproxy:
    def __init__(self, directory: Path, bind: str, server: str):
        self.port = reserve_port()
        configuration = directory / f"haproxy-{self.port}.cfg"
        configuration.write_text(
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
            f"frontend front\n  bind 127.0.0.1:{self.port} {bind}\n  default_backend back\n"
            f"backend back\n  server martlet {server}\n"
        )
        self.process = subprocess.Popen(["haproxy", "-db", "-f", str(configuration)])
        wait_until(self._accepts, "haproxy accepts connections")

    def _accepts(self) -> bool:
        assert self.process.poll() is None
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


@pytest.fixture
def haproxy(tmp_path):
    if not shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"):
        pytest.skip("there is no haproxy here")
    started: list[Haproxy] = []

    def start(bind: str, server: str) -> Haproxy:
        started.append(Haproxy(tmp_path, bind, server))
        return started[-1]

    yield start
    for proxy in started:
        proxy.close()


@pytest.mark.parametrize("version, option", [("1", "send-proxy"), ("2", "send-proxy-v2")])
def test_haproxy_tells_the_address(start_broker, haproxy, version, option):
    broker = start_broker(configuration=LINES + version, listener=False)
    proxy = haproxy("", f"127.0.0.1:{broker.port} {option}")
    wire = Wire(proxy.port)
    assert wire.connect("behind")[1] == 0
    port = wire.socket.getsockname()[1]
    broker.wait_for_log(f"New client connected from 127.0.0.1:{port} as behind")
    wire.close()


def test_haproxy_vouches_for_the_certificate(start_broker, haproxy, authority):
    lines = (
        "listener {port} 127.0.0.1\nenable_proxy_protocol 2\nproxy_protocol_v2_require_tls true\n"
        "require_certificate true\nuse_identity_as_username true"
    )
    broker = start_broker(configuration=lines, listener=False)
    directory = authority.directory
    authority.issue("client", "/CN=martin")
    both = directory / "both.pem"
    both.write_bytes((directory / "server.crt").read_bytes() + (directory / "server.key").read_bytes())
    bind = f"ssl crt {both} ca-file {authority.certificate} verify optional"
    proxy = haproxy(bind, f"127.0.0.1:{broker.port} send-proxy-v2-ssl-cn")
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with pytest.raises((OSError, AssertionError)):
        SecureWire(proxy.port, context).connect("nobody")
    broker.wait_for_log("rejected, client did not provide a certificate")
    context.load_cert_chain(directory / "client.crt", directory / "client.key")
    assert SecureWire(proxy.port, context).connect("somebody")[1] == 0
    broker.wait_for_log("as somebody .*u'martin'")
    # A client that comes to the proxy without TLS.
    plain = haproxy("", f"127.0.0.1:{broker.port} send-proxy-v2-ssl-cn")
    with pytest.raises((OSError, AssertionError)):
        Wire(plain.port).connect("plain")
    broker.wait_for_log("rejected, client did not connect using TLS")


@pytest.mark.martlet("has no such option")
def test_a_header_is_believed_from_the_proxies_that_are_named(start_broker):
    broker = start_broker(configuration=f"{LINES}1\nmartlet_proxy_trusted 192.0.2.0/24 127.0.0.2", listener=False)
    head, connect = b"PROXY TCP4 192.0.2.5 192.0.2.1 50312 1883\r\n", bytes.fromhex("10 0c 0004 4d515454 04 02 003c 0000")
    with socket.create_connection(("127.0.0.1", broker.port), PATIENCE, source_address=("127.0.0.2", 0)) as proxy:
        proxy.sendall(head + connect)
        assert proxy.recv(4) == bytes.fromhex("20020000")
    with socket.create_connection(("127.0.0.1", broker.port), PATIENCE) as stranger:
        assert is_closed(stranger)
    broker.wait_for_log(r"Connection from 127\.0\.0\.1:\d+ denied: .* add its address to martlet_proxy_trusted")

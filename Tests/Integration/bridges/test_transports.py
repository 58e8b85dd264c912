"""Bridges over TLS, with keys that both sides know, over WebSocket and Unix sockets."""

import socket
import subprocess

import pytest
from bridges.links import is_connected
from harness.ports import reserve_port
from harness.waiting import wait_until

TLS = "certfile {0}/server.crt\nkeyfile {0}/server.key"


@pytest.fixture
def secure(start_broker, authority):
    """Starts the other broker with TLS; the answer is its second port."""

    def start(lines: str = "", tls: str = TLS) -> int:
        port = reserve_port()
        start_broker(configuration=f"listener {port} 127.0.0.1\n{tls.format(authority.directory)}\n{lines}\nallow_anonymous true")
        return port

    return start


def check(here, port, tools_for):
    is_connected(here)
    states = tools_for(here.port).subscribe("$SYS/broker/connection/+/state")
    assert states.take_one().payload == b"1"


@pytest.mark.parametrize("lines", [
    "bridge_cafile {0}/ca.crt",
    "bridge_capath {0}/hashed",
    "bridge_cafile {0}/ca.crt\nbridge_tls_version tlsv1.3\nbridge_ciphers_tls1.3 TLS_CHACHA20_POLY1305_SHA256",
    "bridge_cafile {0}/ca.crt\nbridge_alpn mqtt\nbridge_ciphers ECDHE+AESGCM",
])  # fmt: skip
def test_trusted_broker(bridge_to, secure, authority, tools_for, lines):
    hashed = authority.directory / "hashed"
    hashed.mkdir()
    (hashed / "ca.pem").write_bytes(authority.certificate.read_bytes())
    subprocess.run(["openssl", "rehash", hashed], check=True, capture_output=True)
    port = secure()
    check(bridge_to(port, f"topic a\n{lines.format(authority.directory)}"), port, tools_for)


def test_authorities_of_the_system(bridge_to, secure, authority, tools_for):
    # What OpenSSL takes for the system's.
    port = secure()
    check(bridge_to(port, "topic a\nbridge_tls_use_os_certs true", environment={"SSL_CERT_FILE": str(authority.certificate)}), port, tools_for)


@pytest.mark.parametrize("is_good", [True, False])
def test_answer_of_the_authority_that_the_other_broker_brings(bridge_to, start_broker, authority, tools_for, is_good):
    port, inner = reserve_port(), socket.create_connection(("127.0.0.1", start_broker().port))
    # No broker here staples answers; openssl does, and what it decrypts it hands on.
    outer = subprocess.Popen(
        ["openssl", "s_server", "-quiet", "-accept", f"127.0.0.1:{port}", "-naccept", "1", "-cert", "server.crt", "-key", "server.key",
         "-status_file", authority.answer("server", is_good=is_good)],
        cwd=authority.directory, stdin=inner, stdout=inner, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        here = bridge_to(port, f"topic a\nbridge_cafile {authority.certificate}\nbridge_require_ocsp true")
        if is_good:
            check(here, port, tools_for)
        else:
            here.wait_for_log("Bridge b: .*TLS: .*status")
            assert "is connected" not in here.log
    finally:
        outer.kill()
        outer.wait()
        inner.close()


@pytest.mark.parametrize("lines, reason", [
    ("bridge_tls_use_os_certs true", "TLS: .*certificate"),
    ("bridge_cafile {0}/ca.crt\nbridge_require_ocsp true", "TLS: .*status"),
])  # fmt: skip
def test_broker_that_is_not_trusted(bridge_to, secure, authority, lines, reason):
    here = bridge_to(secure(), f"topic a\n{lines.format(authority.directory)}")
    here.wait_for_log(f"Bridge b: .*{reason}")
    assert "is connected" not in here.log


@pytest.mark.parametrize("value", ["true", "false"])
def test_name_of_the_certificate(bridge_to, secure, authority, value):
    authority.issue("server", alternative="DNS:elsewhere")
    here = bridge_to(secure(), f"topic a\nbridge_cafile {authority.certificate}\nbridge_insecure {value}")
    if value == "true":
        is_connected(here)
    else:
        here.wait_for_log("Bridge b: .*TLS: ")


def test_own_certificate(bridge_to, secure, authority, tools_for):
    authority.issue("bridge", subject="/CN=bridge")
    port = secure(f"cafile {authority.certificate}\nrequire_certificate true")
    lines = "bridge_cafile {0}/ca.crt\nbridge_certfile {0}/bridge.crt\nbridge_keyfile {0}/bridge.key"
    check(bridge_to(port, f"topic a\n{lines.format(authority.directory)}"), port, tools_for)


def test_file_that_is_not_there_ends_the_bridge_alone(bridge_to, tmp_path):
    here = bridge_to(1, f"topic a\nbridge_cafile {tmp_path}/nothing.crt")
    here.wait_for_log(r"Error: Bridge b: bridge_cafile: .*nothing\.crt does not exist\.")


def test_key_that_both_know(bridge_to, secure, tmp_path, tools_for):
    (tmp_path / "keys").write_text("bridge:00ff17\n")
    port = secure(f"psk_hint h\npsk_file {tmp_path}/keys", tls="")
    check(bridge_to(port, "topic a\nbridge_identity bridge\nbridge_psk 00ff17"), port, tools_for)


@pytest.mark.parametrize("scheme", ["ws", "wss", "unix", "mqtts"])
def test_other_carriers(bridge_to, secure, start_broker, authority, tmp_path, tools_for, scheme):
    lines = f"bridge_cafile {authority.certificate}" if scheme in ("wss", "mqtts") else ""
    if scheme == "unix":
        path = tmp_path / "socket"
        start_broker(configuration=f"listener 0 {path}\nallow_anonymous true")
        address, port = f"unix:{path}", 0
    else:
        port = secure("protocol websockets" if scheme != "mqtts" else "", tls=TLS if lines else "")
        address = f"{scheme}://localhost:{port}"
    check(bridge_to(port, f"topic a\n{lines}", address=address), port, tools_for)

"""TLS: what clients see of it, and what an operator does with its files."""

import signal
import socket
import ssl
import subprocess

import pytest
from harness.broker import Broker
from harness.certificates import Authority
from harness.waiting import PATIENCE, wait_until
from harness.wire import CONNACK, frame, text
from transports.conftest import SecureWire, is_closed

CONNECT = frame(1, 0, text("MQTT") + b"\x05\x02\x00\x3c\x00" + text("s_client"))


def served_name(port: int) -> str:
    """The common name of the certificate that a listener shows now."""
    shown = ssl.get_server_certificate(("127.0.0.1", port), timeout=PATIENCE)
    subject = subprocess.run(["openssl", "x509", "-noout", "-subject"], input=shown.encode(), capture_output=True).stdout
    return subject.decode().strip().split("CN = ")[-1].split(",")[0]


def test_messages_of_every_size_pass(start_broker, tools_for, authority, server_lines):
    broker = start_broker(configuration=server_lines + "allow_anonymous true", listener=False)
    tools = tools_for(broker.port)
    secure = ["--cafile", str(authority.certificate)]
    subscriber = tools.subscribe("sizes", qos=1, arguments=secure)
    for size in (1, 100, 16_384, 70_000, 1_000_000):
        tools.publish("sizes", qos=1, arguments=[*secure, "-s"], standard_input=b"x" * size)
        assert len(subscriber.take_one().payload) == size


def test_many_small_messages_share_records(start_broker, authority, server_lines, client_context):
    broker = start_broker(configuration=server_lines + "allow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0", listener=False)
    wire = SecureWire(broker.port, client_context)
    wire.connect("many")
    wire.subscribe("many")
    wire.send(b"".join(frame(3, 0, text("many") + b"\x00" + b"%04d" % number) for number in range(1000)))
    received = b""
    while b"0999" not in received[-8:]:
        received += wire.socket.recv(65536)
    assert received.count(b"many") == 1000
    wire.close()


def test_a_session_is_resumed(start_broker, server_lines, client_context):
    broker = start_broker(configuration=server_lines + "allow_anonymous true", listener=False)
    first = SecureWire(broker.port, client_context)
    first.connect("first")
    assert not first.socket.session_reused
    second = SecureWire(broker.port, client_context, session=first.socket.session)
    second.connect("second")
    assert second.socket.session_reused
    first.close(), second.close()


def test_s_client_sees_the_resumption(start_broker, authority, server_lines, tmp_path):
    broker = start_broker(configuration=server_lines + "allow_anonymous true", listener=False)

    def s_client(*arguments) -> str:
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{broker.port}", "-CAfile", str(authority.certificate),
                   "-alpn", "mqtt", *arguments]  # fmt: skip
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            process.stdin.write(CONNECT)
            process.stdin.flush()
            said = b""
            # CONNACK with its Topic Alias Maximum: by then the ticket has come too.
            while b"\x22\x00\x0a" not in said and (more := process.stdout.read1()):
                said += more
            process.stdin.close()
            return (said + process.stdout.read()).decode(errors="replace")

    first = s_client("-sess_out", str(tmp_path / "session"))
    assert "New, TLSv1.3" in first and "ALPN protocol: mqtt" in first and "Verify return code: 0 (ok)" in first
    assert "Reused, TLSv1.3" in s_client("-sess_in", str(tmp_path / "session"))


def test_the_lowest_version_holds(start_broker, server_lines, client_context):
    broker = start_broker(configuration=server_lines + "allow_anonymous true\ntls_version tlsv1.3", listener=False)
    client_context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        SecureWire(broker.port, client_context)
    broker.wait_for_log("disconnected: TLS: unsupported protocol")


def test_the_ciphers_hold(start_broker, server_lines, client_context):
    options = "allow_anonymous true\nciphers ECDHE-ECDSA-CHACHA20-POLY1305\nciphers_tls1.3 TLS_CHACHA20_POLY1305_SHA256"
    broker = start_broker(configuration=f"{server_lines}{options}", listener=False)
    assert SecureWire(broker.port, client_context).socket.cipher()[0] == "TLS_CHACHA20_POLY1305_SHA256"
    client_context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert SecureWire(broker.port, client_context).socket.cipher()[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"


def test_a_silent_handshake_ends_and_holds_nobody_up(start_broker, server_lines, client_context):
    broker = start_broker(configuration=server_lines + "allow_anonymous true\nmartlet_connect_timeout 1", listener=False)
    silent = socket.create_connection(("127.0.0.1", broker.port))
    silent.send(b"\x16\x03\x01")
    SecureWire(broker.port, client_context).connect("meanwhile")
    assert is_closed(silent)


def test_what_is_no_tls_is_refused(start_broker, server_lines):
    broker = start_broker(configuration=server_lines + "allow_anonymous true", listener=False)
    plain = socket.create_connection(("127.0.0.1", broker.port))
    plain.send(CONNECT)
    assert is_closed(plain)
    broker.wait_for_log(r"Client 127.0.0.1 \[127.0.0.1:\d+\] disconnected: TLS: ")


@pytest.mark.parametrize(
    "lines, message",
    [
        ("certfile /nowhere/a.crt\nkeyfile {d}/server.key", "certfile: /nowhere/a.crt does not exist, for there is no directory /nowhere."),
        ("certfile {d}/server.crt\nkeyfile /nowhere/a.key", "keyfile: /nowhere/a.key does not exist, for there is no directory /nowhere."),
        ("certfile {d}/server.crt\nkeyfile {d}/ca.key", "the key does not match the certificate in {d}/server.crt"),
        ("certfile {d}/server.key\nkeyfile {d}/server.key", "certfile: {d}/server.key: it holds no certificate"),
        ("certfile {d}/server.crt\nkeyfile {d}/server.crt", "keyfile: {d}/server.crt: "),
        ("certfile {d}/server.crt\nkeyfile {d}/server.key\nciphers NONSENSE", "ciphers: NONSENSE: OpenSSL knows none of them"),
        ("certfile {d}/server.crt\nkeyfile {d}/server.key\ncafile {d}/server.key", "cafile: {d}/server.key: it holds no certificate"),
        ("certfile {d}/server.crt\nkeyfile {d}/server.key\ncrlfile {d}/server.key", "crlfile: {d}/server.key: it holds no list"),
    ],
)
def test_a_start_that_fails_names_file_and_reason(program, tmp_path, authority, lines, message):
    lines, message = (part.replace("{d}", str(authority.directory)) for part in (lines, message))
    broker = Broker(program, tmp_path, listener=False, configuration=f"listener {{port}} 127.0.0.1\nallow_anonymous true\n{lines}")
    done = subprocess.run(broker.command(), capture_output=True, timeout=PATIENCE, text=True)
    assert done.returncode == 1
    assert message in done.stdout + done.stderr


def test_a_new_certificate_is_found_behind_a_symbolic_link(start_broker, authority, tmp_path, client_context):
    authority.issue("old", "/CN=old")
    authority.issue("new", "/CN=new")
    link = tmp_path / "published"
    authority.publish("old", link)
    broker = start_broker(
        configuration=f"listener {{port}} 127.0.0.1\nallow_anonymous true\ncertfile {link}/tls.crt\nkeyfile {link}/tls.key", listener=False
    )
    staying = SecureWire(broker.port, client_context)
    staying.connect("staying")
    assert served_name(broker.port) == "old"
    authority.publish("new", link)
    wait_until(lambda: served_name(broker.port) == "new", "the new certificate is served", seconds=15)
    staying.ping()


def test_reload_takes_the_files_that_the_configuration_names_now(start_broker, authority, server_lines, client_context):
    authority.issue("server", "/CN=first")
    authority.issue("other", "/CN=second")
    broker = start_broker(configuration=server_lines + "allow_anonymous true", listener=False)
    staying = SecureWire(broker.port, client_context)
    staying.connect("staying")
    broker.configuration_path.write_text(broker.configuration_path.read_text().replace("/server.", "/other."))
    broker.signal(signal.SIGHUP)
    wait_until(lambda: served_name(broker.port) == "second", "the other certificate is served")
    assert "has changed" not in broker.log
    staying.ping()


def test_reload_reads_certificates_and_keeps_the_old_when_they_are_broken(start_broker, authority, server_lines):
    authority.issue("server", "/CN=first")
    broker = start_broker(configuration=server_lines + "allow_anonymous true", listener=False)
    assert served_name(broker.port) == "first"
    authority.issue("server", "/CN=second")
    broker.signal(signal.SIGHUP)
    wait_until(lambda: served_name(broker.port) == "second", "the new certificate is served")
    (authority.directory / "server.crt").write_text("nonsense")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("certfile .*server.crt: .*The certificates that were read before stay in use")
    assert served_name(broker.port) == "second"


def test_the_key_log_has_the_secrets(program, start_broker, server_lines, client_context, tmp_path):
    log = tmp_path / "secrets"
    broker = start_broker("--tls-keylog", str(log), configuration=server_lines + "allow_anonymous true", listener=False)
    SecureWire(broker.port, client_context).connect("watched")
    assert "SERVER_TRAFFIC_SECRET_0 " in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


# Certificates of clients


@pytest.fixture
def mutual_lines(authority, server_lines) -> str:
    return f"{server_lines}cafile {authority.certificate}\nrequire_certificate true\n"


def with_certificate(authority, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(authority.directory / f"{name}.crt", authority.directory / f"{name}.key")
    return context


@pytest.mark.parametrize(
    "option, name", [("use_identity_as_username", "martin"), ("use_subject_as_username", "CN=martin,O=Birds")]
)
def test_the_certificate_is_the_login(start_broker, authority, mutual_lines, option, name):
    authority.issue("client", "/O=Birds/CN=martin")
    broker = start_broker(configuration=f"{mutual_lines}{option} true", listener=False)
    assert SecureWire(broker.port, with_certificate(authority, "client")).connect("c")[1] == 0
    broker.wait_for_log(rf"as c \(p5.*u'{name}'\)")


def test_without_a_certificate_nobody_comes_in(start_broker, mutual_lines, client_context):
    broker = start_broker(configuration=mutual_lines + "allow_anonymous true", listener=False)
    with pytest.raises(OSError):
        SecureWire(broker.port, client_context).connect("c")
    broker.wait_for_log("peer did not return a certificate")


def test_a_certificate_of_another_authority_is_refused(start_broker, authority, mutual_lines, tmp_path):
    stranger = Authority(tmp_path / "strangers", "stranger")
    stranger.issue("client", "/CN=martin")
    broker = start_broker(configuration=mutual_lines + "allow_anonymous true", listener=False)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(stranger.directory / "client.crt", stranger.directory / "client.key")
    with pytest.raises(OSError):
        SecureWire(broker.port, context).connect("c")
    broker.wait_for_log("certificate verify failed: ")


def test_a_revoked_certificate_is_refused_from_the_reload_on(start_broker, authority, mutual_lines):
    authority.issue("client", "/CN=martin")
    authority.revoke()
    configuration = f"{mutual_lines}crlfile {authority.directory}/revoked.crl\nallow_anonymous true"
    broker = start_broker(configuration=configuration, listener=False)
    first = SecureWire(broker.port, with_certificate(authority, "client"))
    first.connect("c")
    authority.revoke("client")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("Config reloaded")
    with pytest.raises(OSError):
        SecureWire(broker.port, with_certificate(authority, "client")).connect("c")
    broker.wait_for_log("certificate revoked")


def test_authorities_may_stand_in_a_directory(start_broker, authority, server_lines, tmp_path):
    authority.issue("client", "/CN=martin")
    (tmp_path / "authorities").mkdir()
    (tmp_path / "authorities/ca.crt").write_bytes(authority.certificate.read_bytes())
    subprocess.run(["openssl", "rehash", tmp_path / "authorities"], check=True)
    lines = f"{server_lines}capath {tmp_path}/authorities\nrequire_certificate true\nallow_anonymous true"
    broker = start_broker(configuration=lines, listener=False)
    assert SecureWire(broker.port, with_certificate(authority, "client")).connect("c")[1] == 0


@pytest.mark.martlet("2.0 has no such option")
@pytest.mark.parametrize("ignored", [True, False])
def test_the_dates_of_certificates_may_be_ignored(start_broker, authority, mutual_lines, ignored):
    authority.issue("late", "/CN=martin", days=-1)
    lines = f"{mutual_lines}disable_client_cert_date_checks {str(ignored).lower()}\nallow_anonymous true"
    broker = start_broker(configuration=lines, listener=False)
    if ignored:
        assert SecureWire(broker.port, with_certificate(authority, "late")).connect("c")[1] == 0
    else:
        with pytest.raises(OSError):
            SecureWire(broker.port, with_certificate(authority, "late")).connect("c")
        broker.wait_for_log("certificate has expired")


def test_parameters_of_diffie_hellman_are_used(start_broker, authority, server_lines, tmp_path):
    parameters = ["openssl", "genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:ffdhe2048", "-out", tmp_path / "dh.pem"]
    subprocess.run(parameters, check=True, capture_output=True)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "30",
         "-keyout", authority.directory / "server.key", "-out", authority.directory / "server.crt"], check=True, capture_output=True,
    )  # fmt: skip
    lines = f"{server_lines}dhparamfile {tmp_path}/dh.pem\nciphers DHE-RSA-AES256-GCM-SHA384\nallow_anonymous true"
    broker = start_broker(configuration=lines, listener=False)
    context = ssl.create_default_context(cafile=str(authority.directory / "server.crt"))
    context.check_hostname = False
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    wire = SecureWire(broker.port, context)
    assert wire.connect("c")[1] == 0
    assert wire.socket.cipher()[0] == "DHE-RSA-AES256-GCM-SHA384"


# Pre-shared keys


def test_a_pre_shared_key_lets_its_identity_in(start_broker, tools_for, tmp_path):
    (tmp_path / "keys").write_text("sensor:0123456789abcdef\n")
    lines = f"listener {{port}} 127.0.0.1\npsk_hint martlet\npsk_file {tmp_path}/keys\nuse_identity_as_username true"
    broker = start_broker(configuration=lines, listener=False)
    tools = tools_for(broker.port)
    tools.publish("t", "m", qos=1, arguments=["--psk", "0123456789abcdef", "--psk-identity", "sensor"])
    broker.wait_for_log("u'sensor'")
    for key, identity in (("00", "sensor"), ("0123456789abcdef", "stranger")):
        with pytest.raises(AssertionError):
            tools.publish("t", "m", qos=1, arguments=["--psk", key, "--psk-identity", identity])

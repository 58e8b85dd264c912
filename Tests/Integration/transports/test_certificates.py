"""Logins by the names of certificates, several certificates on a port, tickets, stapled answers and groups; and the page that says so."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess

import pytest
from harness.broker import REPOSITORY, Broker
from harness.waiting import PATIENCE, wait_until
from harness.wire import CONNECT, frame, text
from transports.conftest import SecureWire

pytestmark = pytest.mark.martlet("mosquitto has no such options")

PAGE = (REPOSITORY / "Sources/MartletServer/MartletServer.docc/Certificates.md").read_text()


@pytest.fixture
def mutual_lines(authority, server_lines) -> str:
    return f"{server_lines}cafile {authority.certificate}\nrequire_certificate true\n"


def client(authority, name: str = "client") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.load_cert_chain(authority.directory / f"{name}.crt", authority.directory / f"{name}.key")
    return context


def come(broker, context, *, identifier: str = "c", user: str | None = None, password: str | None = None) -> int:
    """The reason code that CONNECT is answered with."""
    flags = 2 | (0x80 if user is not None else 0) | (0x40 if password is not None else 0)
    rest = text(identifier) + b"".join(text(one) for one in (user, password) if one is not None)
    with context.wrap_socket(socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE), server_hostname="localhost") as connection:
        connection.sendall(frame(CONNECT, 0, text("MQTT") + bytes([5, flags, 0, 60, 0]) + rest))
        return connection.recv(1024)[3]


NAMES = "URI:urn:dev:1,URI:urn:dev:2,DNS:dev.example,email:dev@example.com"


@pytest.mark.parametrize("choice, alternative, name", [
    ("cn", NAMES, "martin"), ("subject", NAMES, "CN=martin,O=Birds"), ("san-uri 2", NAMES, "urn:dev:2"), ("san-dns", NAMES, "dev.example"),
    ("san-email", NAMES, "dev@example.com"), ("spiffe", "URI:spiffe://birds.example/dev/1", "spiffe://birds.example/dev/1"),
])  # fmt: skip
def test_the_name_that_is_asked_for_is_the_user(start_broker, authority, mutual_lines, choice, alternative, name):
    authority.issue("client", "/O=Birds/CN=martin", alternative=alternative)
    broker = start_broker(configuration=f"{mutual_lines}martlet_certificate_username {choice}", listener=False)
    assert come(broker, client(authority)) == 0
    broker.wait_for_log(rf"as c \(p5.*u'{re.escape(name)}'\)")


@pytest.mark.parametrize("choice, alternative, words", [
    ("san-uri", NAMES, "it has 2 of the kind san-uri, and one is asked for \\(san-uri 1 takes the first\\)"),
    ("san-uri 3", NAMES, "it has 2 of the kind san-uri, and number 3 is asked for"),
    ("san-email", "DNS:a.example", "it has no e-mail address among its alternative names"),
    ("spiffe", "URI:urn:dev:1", "its URI is no SPIFFE ID"), ("spiffe", "URI:spiffe://a/1,URI:spiffe://a/2", "it has 2 of the kind spiffe"),
])  # fmt: skip
def test_a_certificate_that_does_not_say_it_is_refused_with_words(start_broker, authority, mutual_lines, choice, alternative, words):
    authority.issue("client", "/CN=martin", alternative=alternative)
    broker = start_broker(configuration=f"{mutual_lines}martlet_certificate_username {choice}", listener=False)
    assert come(broker, client(authority)) == 0x86
    broker.wait_for_log(f"the certificate does not say who this is: {words}")


def test_a_zero_byte_in_a_name_is_refused_in_the_handshake(start_broker, authority, mutual_lines):
    authority.issue("client", "/CN=martin@evil")
    authority.forge("client", b"martin@evil", b"martin\0evil")
    broker = start_broker(configuration=f"{mutual_lines}martlet_certificate_username cn", listener=False)
    # The client's own part of the handshake is over before ours: it finds the connection broken, or closed.
    with pytest.raises((OSError, IndexError)):
        come(broker, client(authority))
    broker.wait_for_log("the client's certificate cannot be believed: its common name holds a zero byte")
    broker.wait_for_log(r"Login failed from 127\.0\.0\.1 port \d+: the client's certificate")


def test_the_client_identifier_is_the_certificates(start_broker, authority, mutual_lines):
    authority.issue("client", "/CN=sensor-7")
    broker = start_broker("--threads", "3", configuration=f"{mutual_lines}martlet_certificate_clientid cn\nallow_anonymous true", listener=False)
    assert come(broker, client(authority), identifier="sensor-7") == 0
    assert come(broker, client(authority), identifier="") == 0
    assert come(broker, client(authority), identifier="sensor-8") == 0x85
    assert len(re.findall(r"as sensor-7 \(p5", broker.log)) == 2


def test_certificate_and_password(program, start_broker, authority, mutual_lines, tmp_path):
    authority.issue("client", "/CN=anna")
    subprocess.run([program.path, "passwd", "-c", "-b", tmp_path / "users", "anna", "secret"], check=True, capture_output=True)
    lines = f"{mutual_lines}martlet_certificate_username cn\nmartlet_certificate_and_login true\npassword_file {tmp_path}/users\nallow_anonymous true"
    broker = start_broker(configuration=lines, listener=False)
    assert come(broker, client(authority), user="anna", password="secret") == 0
    assert come(broker, client(authority), user="anna", password="wrong") == 0x87
    assert come(broker, client(authority), user="bert", password="secret") == 0x87
    assert come(broker, client(authority)) == 0x87, "the certificate alone is not enough"


def test_parts_of_the_subject_are_groups_roles_and_attributes(program, start_broker, authority, mutual_lines, tmp_path):
    authority.issue("client", "/O=Birds/OU=pumps/OU=North Site/CN=anna")
    authority.issue("stranger", "/O=Fish/CN=bert")
    authority.issue("tenant", "/OU=acme/CN=carl")

    def role(name: str, topic: str) -> dict:
        return {"rolename": name, "acls": [{"acltype": "publishClientSend", "topic": topic, "allow": True}]}

    (tmp_path / "dynsec.json").write_text(json.dumps({
        "roles": [role("pump", "pumps/#"), role("north", "north/#"), role("all", "org/%{client_attrs.org}/#")],
        "groups": [{"groupname": "acme", "roles": [{"rolename": "pump"}], "mountpoint": "pumps/%u/"}, {"groupname": "pumps", "roles": [{"rolename": "pump"}]}, {"groupname": "everybody", "roles": [{"rolename": "all"}]}],
    }))  # fmt: skip
    lines = [
        "martlet_certificate_username cn", "martlet_certificate_group ou", "martlet_certificate_group o=Birds everybody",
        "martlet_certificate_role ou=North Site north", "martlet_certificate_attribute org o",
        "plugin mosquitto_dynamic_security.so", f"plugin_opt_config_file {tmp_path}/dynsec.json",
        f"listener 0 {tmp_path}/http.sock", "protocol http_api",
    ]  # fmt: skip
    broker = start_broker("--threads", "2", configuration=mutual_lines + "\n".join(lines), listener=False)

    def may(wire, topic: str) -> bool:
        wire.publish(topic, "x", qos=1, identifier=7)
        body = wire.receive(4).body
        return len(body) == 2 or body[2] in (0, 0x10)

    member, stranger = SecureWire(broker.port, client(authority)), SecureWire(broker.port, client(authority, "stranger"))
    assert member.connect("c")[1] == 0 and stranger.connect("d")[1] == 0
    topics = ["pumps/1", "north/1", "org/Birds/1", "org/Fish/1", "other"]
    assert [may(member, topic) for topic in topics] == [True, True, True, False, False]
    assert [may(stranger, topic) for topic in topics] == [False] * 5
    # The mount point of a group that it has by its certificate.
    tenant = SecureWire(broker.port, client(authority, "tenant"))
    assert tenant.connect("t")[1] == 0 and may(tenant, "level")
    # Who asks beforehand is told the same.
    def ask(*words: str) -> tuple[int, list[str]]:
        done = subprocess.run([program.path, "ctl", *words, "--socket", tmp_path / "http.sock"], capture_output=True, text=True)
        return done.returncode, (done.stdout + done.stderr).splitlines()

    shown = ("--certificate", str(authority.directory / "client.crt"))
    assert [ask("may", "publish", topic, *shown)[0] for topic in topics] == [0, 0, 0, 1, 1]
    assert ask("may", "publish", "north/1", *shown)[1] == [
        "Yes: the role north allows it.", "The client is anna, in the groups pumps, North Site, everybody, with the roles north, with org=Birds."]
    assert ask("may", "publish", "level", "--certificate", str(authority.directory / "tenant.crt"))[1] == [
        "Yes: the role pump allows it.", "The client is carl, in the groups acme, its topics below pumps/carl/."]
    assert ask("may", "publish", "north/1", "--username", "x", "--role", "north")[0] == 0
    assert ask("may", "publish", "pumps/1", "--group", "pumps")[0] == 0 and ask("may", "publish", "pumps/1")[0] == 1
    code, lines = ask("login", "explain", "--no-password", *shown)
    assert code == 0 and lines[0] == "The certificate lets the client in as anna." and "Roles by its certificate: north." in lines
    code, lines = ask("login", "explain", "anna", "--no-password")
    assert code == 1 and "the listener takes user names from certificates, and none is shown" in lines[0], lines
    assert ask("may", "publish", "a", "--certificate", tmp_path / "dynsec.json")[1][0].endswith("is no certificate: a PEM file is expected, or DER.")
    # A role that changes holds for who is there by a certificate.
    change = ["ctl", "dynsec", "removeRoleACL", "north", "publishClientSend", "north/#", "--socket", tmp_path / "http.sock"]
    subprocess.run([program.path, *change], check=True, capture_output=True)
    wait_until(lambda: not may(member, "north/1"), "the role is another")
    assert may(member, "pumps/1")
    for wire in (member, stranger, tenant):
        wire.close()


def test_the_certificates_name_must_be_a_known_user(program, start_broker, authority, mutual_lines, tmp_path):
    authority.issue("client", "/CN=anna")
    authority.issue("stranger", "/CN=bert")
    subprocess.run([program.path, "passwd", "-c", "-b", tmp_path / "users", "anna", "secret"], check=True, capture_output=True)
    lines = f"{mutual_lines}martlet_certificate_username cn\nmartlet_certificate_known_user true\npassword_file {tmp_path}/users"
    broker = start_broker(configuration=lines, listener=False)
    assert come(broker, client(authority, "stranger")) == 0x87
    broker.wait_for_log("Login failed .*: unknown user, user 'bert'")
    staying = SecureWire(broker.port, client(authority))
    assert staying.connect("c")[1] == 0
    (tmp_path / "users").write_text("")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("its login is no longer valid since the configuration was reloaded")
    assert come(broker, client(authority)) == 0x87


# Several certificates


def shown(port: int, host: str | None) -> str:
    """The common name of the certificate that a client is shown that asks for a host."""
    name = ["-servername", host] if host else ["-noservername"]
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *name], input=b"", capture_output=True, timeout=PATIENCE)
    found = re.search(r"^subject=.*?CN ?= ?([^,\n]*)", done.stdout.decode(), re.MULTILINE)
    return found[1] if found else done.stderr.decode()


@pytest.fixture
def host_lines(authority, server_lines) -> str:
    authority.issue("server", "/CN=own", alternative="DNS:own.example")
    authority.issue("other", "/CN=other", alternative="DNS:other.example,DNS:*.birds.example")
    authority.issue("named", "/CN=named", alternative="DNS:wren.birds.example")
    directory = authority.directory
    more = [f"martlet_certificate {directory}/{name}.crt {directory}/{name}.key\n" for name in ("other", "named")]
    return f"{server_lines}{''.join(more)}allow_anonymous true\n"


def test_each_host_has_its_certificate(start_broker, host_lines):
    broker = start_broker(configuration=host_lines, listener=False)
    hosts = {"own.example": "own", "OTHER.example": "other", "a.birds.example": "other", "wren.birds.example": "named",
             "a.b.birds.example": "own", "unknown.example": "own", None: "own"}  # fmt: skip
    assert {host: shown(broker.port, host) for host in hosts} == hosts


def test_a_host_that_nobody_names_is_refused_where_it_is_asked_for(start_broker, host_lines):
    broker = start_broker(configuration=f"{host_lines}martlet_sni_strict true", listener=False)
    assert shown(broker.port, "own.example") == "own"
    assert shown(broker.port, "other.example") == "other"
    assert shown(broker.port, None) == "own"
    assert "unrecognized name" in shown(broker.port, "unknown.example")
    broker.wait_for_log("the client asks for the host unknown.example, which no certificate here names")


def test_a_changed_certificate_of_a_host_is_found(start_broker, authority, host_lines):
    broker = start_broker(configuration=host_lines, listener=False)
    assert shown(broker.port, "wren.birds.example") == "named"
    authority.issue("named", "/CN=renewed", alternative="DNS:wren.birds.example")
    broker.signal(signal.SIGHUP)
    wait_until(lambda: shown(broker.port, "wren.birds.example") == "renewed", "the new certificate is shown")


# Tickets


def ticket(broker, context, session=None) -> tuple[bool, ssl.SSLSession]:
    """Whether the session was resumed, and the next one."""
    wire = SecureWire(broker.port, context, session=session)
    wire.connect("c")
    reused, session = wire.socket.session_reused, wire.socket.session
    wire.close()
    return reused, session


def test_tickets_can_be_switched_off(start_broker, server_lines, client_context):
    broker = start_broker(configuration=f"{server_lines}allow_anonymous true\nmartlet_tls_tickets false", listener=False)
    client_context.maximum_version = ssl.TLSVersion.TLSv1_2
    _, session = ticket(broker, client_context)
    assert not ticket(broker, client_context, session)[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_nodes_share_the_keys_of_tickets(start_broker, server_lines, client_context, tmp_path, version):
    client_context.maximum_version = version
    for name in ("old", "new"):
        (tmp_path / name).write_bytes(os.urandom(80))
    lines = f"{server_lines}allow_anonymous true\nmartlet_tls_ticket_lifetime 600\n"
    first = start_broker(configuration=f"{lines}martlet_tls_ticket_key_file {tmp_path}/old", listener=False)
    second = start_broker(
        configuration=f"{lines}martlet_tls_ticket_key_file {tmp_path}/new\nmartlet_tls_ticket_key_file {tmp_path}/old", listener=False
    )
    stranger = start_broker(configuration=lines, listener=False)
    _, session = ticket(first, client_context)
    assert ticket(second, client_context, session)[0]
    assert not ticket(stranger, client_context, session)[0]
    _, session = ticket(second, client_context)
    assert not ticket(first, client_context, session)[0], "the first node has not the new key yet"


def test_a_ticket_from_before_a_new_list_of_revoked_certificates_is_not_accepted(start_broker, authority, mutual_lines, tmp_path):
    (tmp_path / "key").write_bytes(os.urandom(80))
    authority.issue("client", "/CN=martin")
    authority.revoke()
    lines = f"{mutual_lines}crlfile {authority.directory}/revoked.crl\nmartlet_tls_ticket_key_file {tmp_path}/key\nallow_anonymous true"
    broker = start_broker(configuration=lines, listener=False)
    context = client(authority)
    _, session = ticket(broker, context)
    resumed, session = ticket(broker, context, session)
    assert resumed
    authority.revoke("client")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("Config reloaded")
    with pytest.raises(OSError):
        ticket(broker, context, session)


# Stapled answers


def stapled(port: int) -> str:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", "localhost", "-status"]
    return subprocess.run(command, input=b"", capture_output=True, timeout=PATIENCE).stdout.decode()


def test_the_authoritys_answer_is_stapled(start_broker, authority, server_lines):
    answer = authority.answer("server", is_good=True)
    broker = start_broker(configuration=f"{server_lines}martlet_ocsp_file {answer}\nallow_anonymous true", listener=False)
    assert "OCSP Response Status: successful" in stapled(broker.port) and "Cert Status: good" in stapled(broker.port)


# What --test-config says


def check(program, tmp_path, lines: str) -> str:
    broker = Broker(program, tmp_path, listener=False, configuration=f"{lines}\nallow_anonymous true")
    done = subprocess.run([*broker.command(), "--test-config"], capture_output=True, timeout=PATIENCE, text=True)
    return done.stdout + done.stderr


def test_bad_files_are_told_with_their_line(program, authority, server_lines, tmp_path):
    (tmp_path / "short").write_bytes(b"short")
    authority.issue("other", "/CN=other")
    good, revoked = authority.answer("other", is_good=True).read_bytes(), authority.answer("server", is_good=False)
    (tmp_path / "others").write_bytes(good)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/O=Birds",
                    "-keyout", tmp_path / "nameless.key", "-out", tmp_path / "nameless.crt"], check=True, capture_output=True)  # fmt: skip
    directory = authority.directory
    for line, words in [
        (f"martlet_tls_ticket_key_file {tmp_path}/short", "it has 5 bytes, and a key has 80: openssl rand -out FILE 80"),
        (f"martlet_tls_ticket_key_file {tmp_path}/missing", f"{tmp_path}/missing does not exist"),
        (f"martlet_ocsp_file {tmp_path}/short", "it holds no OCSP answer"),
        (f"martlet_ocsp_file {tmp_path}/others", "the answer is about another certificate than certfile's"),
        (f"martlet_ocsp_file {revoked}", "the answer says that the certificate was revoked"),
        (f"martlet_certificate {directory}/other.crt {directory}/server.key", "the key does not match the certificate"),
        (f"martlet_certificate {tmp_path}/nameless.crt {tmp_path}/nameless.key", "it names no host (subjectAltName with DNS names)"),
        ("martlet_tls_groups X25519:NONSENSE", "does not know all of them"),
        ("martlet_certificate_username cn", "it needs TLS and certificates of the clients: certfile, keyfile, cafile and require_certificate true."),
    ]:
        said = check(program, tmp_path, server_lines + line)
        assert re.search(rf"\.conf:\d+: {line.split()[0]}: ", said) and words in said, f"{line}: {said}"


def test_a_group_against_quantum_computers_says_what_it_needs(program, authority, server_lines, tmp_path):
    said = check(program, tmp_path, server_lines + "martlet_tls_groups X25519MLKEM768:X25519")
    if ssl.OPENSSL_VERSION_INFO >= (3, 5):
        assert "Error" not in said
    else:
        assert re.search(r"\.conf:\d+: martlet_tls_groups: .*OpenSSL 3\.\S+ .*; X25519MLKEM768 is there from OpenSSL 3\.5 on", said), said


# The page


def examples() -> list[str]:
    return [body for language, body in re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if language == ""]


def test_the_page_has_two_examples():
    assert len(examples()) >= 2


@pytest.mark.parametrize("number", range(len(examples())))
def test_each_example_of_the_page_is_right(program, tmp_path, authority, number):
    authority.issue("server", alternative="DNS:own.example")
    authority.issue("other", alternative="DNS:other.example")
    authority.answer("server", is_good=True).rename(authority.directory / "server.ocsp")
    for name in ("tickets-new.key", "tickets-old.key"):
        (authority.directory / name).write_bytes(os.urandom(80))
    subprocess.run([program.path, "passwd", "-c", "-b", authority.directory / "users", "anna", "secret"], check=True, capture_output=True)
    (authority.directory / "martlet.conf").write_text(examples()[number])
    done = subprocess.run([program.path, "--test-config", "-c", "martlet.conf"], cwd=authority.directory, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr

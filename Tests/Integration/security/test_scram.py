"""Enhanced authentication with SCRAM-SHA-256, from a client written after RFC 5802."""

import base64
import os
import hashlib
import hmac
import signal
import subprocess

import pytest
from harness.broker import REPOSITORY
from harness.wire import AUTH, CONNACK, CONNECT, DISCONNECT, Wire, frame, text, variable_length

pytestmark = pytest.mark.martlet("has no enhanced authentication of its own")

METHOD = "SCRAM-SHA-256"
SUCCESS, CONTINUE, REAUTHENTICATE, NOT_AUTHORIZED, BAD_METHOD = 0, 0x18, 0x19, 0x87, 0x8C
SESSION_TAKEN_OVER = 0x8E
#: A program of the client library.
CLIENT = os.environ.get("ENDURANCE", str(REPOSITORY / ".build/release/endurance"))


def properties(data: bytes | None, method: str = METHOD) -> bytes:
    encoded = b"\x15" + text(method) + (b"\x16" + text(data) if data is not None else b"")
    return variable_length(len(encoded)) + encoded


def authentication_data(encoded: bytes) -> bytes:
    """The Authentication Data among properties, found by its place behind the method."""
    mark = b"\x15" + text(METHOD) + b"\x16"
    rest = encoded[encoded.index(mark) + len(mark) :]
    return rest[2 : 2 + int.from_bytes(rest[:2], "big")]


class ScramWire(Wire):
    def __init__(self, port: int, user: str, password: str):
        super().__init__(port)
        self.password = password
        self.bare = f"n={user},r=fyko+d2lbbFgONRv9qkxdawL"

    def login(self, *, initial: bool = True, claiming: str | None = None, identifier: str = "client"):
        """CONNECT, which may claim to be somebody else's, and what follows it; the last packet that came."""
        first = ("n,," + self.bare).encode() if initial else None
        head = text("MQTT") + bytes([5, 2 if claiming is None else 0x82, 0, 60]) + properties(first)
        self.send(frame(CONNECT, 0, head + text(identifier) + (b"" if claiming is None else text(claiming))))
        if not initial:
            challenge = self.receive(AUTH)
            assert challenge.body[0] == CONTINUE
            self.answer(("n,," + self.bare).encode())
        return self._prove()

    def again(self):
        """Re-authenticates; the last packet that came."""
        self.send(frame(AUTH, 0, bytes([REAUTHENTICATE]) + properties(("n,," + self.bare).encode())))
        return self._prove()

    def _prove(self):
        packet = self.receive()
        if packet.kind != AUTH or packet.body[0] != CONTINUE:
            return packet
        challenge = authentication_data(packet.body).decode()
        nonce, salt, iterations = (part[2:] for part in challenge.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), base64.b64decode(salt), int(iterations))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        final = f"c=biws,r={nonce}"
        message = f"{self.bare},{challenge},{final}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature))).decode()
        server_signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256")
        self.verifier = b"v=" + base64.b64encode(server_signature)
        self.answer(f"{final},p={proof}".encode())
        return self.receive()

    def answer(self, data: bytes):
        self.send(frame(AUTH, 0, bytes([CONTINUE]) + properties(data)))


@pytest.fixture
def scram_broker(program, start_broker, tmp_path):
    for options, user in [(["-c"], "anna"), (["-I", "5000"], "bob")]:
        subprocess.run(
            [program.path, "passwd", "-H", "scram-sha-256", *options, "-b", str(tmp_path / "scram"), user, f"{user}'s"],
            check=True, capture_output=True,
        )  # fmt: skip
    (tmp_path / "rules").write_text("user anna\ntopic #\nuser bob\ntopic read #\n")
    return start_broker(
        configuration="listener {port} 127.0.0.1\nallow_anonymous false\nmartlet_scram_file {directory}/scram\n"
        "acl_file {directory}/rules",
        listener=False,
    )


@pytest.mark.parametrize("initial", [True, False], ids=["data in CONNECT", "asked for data"])
def test_both_sides_prove_that_they_know_the_password(scram_broker, initial):
    wire = ScramWire(scram_broker.port, "anna", "anna's")
    packet = wire.login(initial=initial)
    assert packet.kind == CONNACK and packet.body[1] == SUCCESS
    assert authentication_data(packet.body) == wire.verifier
    wire.subscribe("topic")
    wire.publish("topic")
    assert wire.receive().topic == "topic", "the rules of the user that has logged in"
    scram_broker.wait_for_log("u'anna'")
    wire.close()


def test_a_name_and_a_password_may_be_typed_in_another_form(program, start_broker, tmp_path):
    # SASLprep: a soft hyphen is nothing, and the Roman nine a letter I and an X.
    arguments = ["passwd", "-H", "scram-sha-256", "-c", "-b", str(tmp_path / "scram"), "I\u00adX", "pen\u00adcil"]
    subprocess.run([program.path, *arguments], check=True, capture_output=True)
    broker = start_broker(configuration="martlet_scram_file {directory}/scram\nallow_anonymous false")
    wire = ScramWire(broker.port, "\u2168", "pencil")
    assert wire.login().body[1] == SUCCESS
    broker.wait_for_log("u'IX'")
    wire.close()


def test_a_password_that_nobody_can_type_is_refused(program, tmp_path):
    arguments = ["passwd", "-H", "scram-sha-256", "-c", "-b", str(tmp_path / "scram"), "anna", "bell\u0007"]
    done = subprocess.run([program.path, *arguments], capture_output=True, text=True)
    assert done.returncode != 0 and "SASLprep" in done.stderr
    assert not (tmp_path / "scram").exists()


@pytest.mark.parametrize("user, password", [("anna", "wrong"), ("nobody", "anna's"), ("bob", "anna's")])
def test_nobody_else_gets_in(scram_broker, user, password):
    wire = ScramWire(scram_broker.port, user, password)
    packet = wire.login()
    assert packet.kind == CONNACK and packet.body[1] == NOT_AUTHORIZED
    assert wire.receive_end() is None
    wire.close()


def test_a_connected_client_proves_itself_again(scram_broker):
    wire = ScramWire(scram_broker.port, "anna", "anna's")
    assert wire.login().body[1] == SUCCESS
    for _ in range(3):
        packet = wire.again()
        assert packet.kind == AUTH and authentication_data(packet.body) == wire.verifier
    wire.ping()
    wire.password = "wrong"
    packet = wire.again()
    assert packet.body[0] == NOT_AUTHORIZED, "DISCONNECT"
    wire.close()


def test_the_identifier_is_the_name_that_was_proved(program, start_broker, tmp_path):
    for options, user in [(["-c"], "anna"), ([], "bob")]:
        arguments = ["passwd", "-H", "scram-sha-256", *options, "-b", str(tmp_path / "scram"), user, f"{user}'s"]
        subprocess.run([program.path, *arguments], check=True, capture_output=True)
    broker = start_broker(
        configuration="martlet_threads 4\nlistener {port} 127.0.0.1\nuse_username_as_clientid true\n"
        "martlet_scram_file {directory}/scram",
        listener=False,
    )
    victim = ScramWire(broker.port, "anna", "anna's")
    assert victim.login().body[1] == SUCCESS
    for _ in range(8):
        # Whichever loop accepts it.
        thief = ScramWire(broker.port, "bob", "bob's")
        packet = thief.login(claiming="anna")
        assert packet.kind == CONNACK and packet.body[1] == SUCCESS
        assert authentication_data(packet.body) == thief.verifier
        thief.ping()
        thief.close()
        broker.wait_for_log("as bob ")
    victim.ping()
    again = ScramWire(broker.port, "anna", "anna's")
    assert again.login(claiming="bob").body[1] == SUCCESS
    assert victim.receive(DISCONNECT).body[0] == SESSION_TAKEN_OVER
    again.close()
    victim.close()


def test_a_reload_ends_who_is_gone_from_the_file(scram_broker, tmp_path):
    anna, bob = ScramWire(scram_broker.port, "anna", "anna's"), ScramWire(scram_broker.port, "bob", "bob's")
    assert anna.login(identifier="anna").body[1] == SUCCESS
    assert bob.login(identifier="bob").body[1] == SUCCESS
    entries = (tmp_path / "scram").read_text().splitlines()
    (tmp_path / "scram").write_text("".join(entry + "\n" for entry in entries if not entry.startswith("anna:")))
    scram_broker.signal(signal.SIGHUP)
    assert anna.receive(DISCONNECT).body[0] == NOT_AUTHORIZED
    assert anna.receive_end() is None
    bob.ping()
    anna.close()
    bob.close()


def test_another_method_is_refused(scram_broker):
    wire = Wire(scram_broker.port)
    head = text("MQTT") + bytes([5, 2, 0, 60]) + properties(b"", "SCRAM-SHA-1")
    wire.send(frame(CONNECT, 0, head + text("client")))
    assert wire.receive(CONNACK).body[1] == BAD_METHOD
    wire.close()


def test_a_password_does_not_help_where_only_scram_is_known(scram_broker):
    wire = Wire(scram_broker.port)
    assert wire.connect("client", user="anna", password="anna's")[1] == NOT_AUTHORIZED
    wire.close()


@pytest.mark.skipif(not os.access(CLIENT, os.X_OK), reason="endurance is not built; `make integration` builds it")
def test_the_client_library_proves_itself_again_until_its_password_holds_no_longer(scram_broker, program, tmp_path):
    client = subprocess.Popen(
        [CLIENT, "authenticate", f"mqtt://127.0.0.1:{scram_broker.port}", "anna", "anna's"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert client.stdout.readline() == "online\n"
    for _ in range(3):
        client.stdin.write("\n")
        client.stdin.flush()
        assert client.stdout.readline() == "authenticated, published: no matching subscribers\n"
    assert scram_broker.log.count("u'anna'") == 1, "on one connection"
    arguments = ["passwd", "-H", "scram-sha-256", "-b", str(tmp_path / "scram"), "anna", "another"]
    subprocess.run([program.path, *arguments], check=True, capture_output=True)
    scram_broker.signal(signal.SIGHUP)
    line = "authenticated"
    while line.startswith("authenticated"):
        client.stdin.write("\n")
        client.stdin.flush()
        line = client.stdout.readline()
    # The server may end the connection in any moment: while the client proves itself, which is refused then, or before.
    state = client.stdout.readline() if line.startswith("refused: ") else line
    # It is tried again: users may be changed back.
    assert "waiting" in state and "its login is no longer valid since the configuration was reloaded" in state
    client.stdin.close()
    assert client.wait(20) == 0

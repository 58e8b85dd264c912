"""Password files: mosquitto's read by Martlet, Martlet's read by mosquitto, and what becomes of them on reload."""

import os
import pty
import signal
import subprocess
import time

import pytest
from harness.ports import reserve_port
from harness.program import run
from harness.wire import DISCONNECT, Wire

NOT_AUTHORIZED_V5, NOT_AUTHORIZED_V3 = 0x87, 5

martlet_only = pytest.mark.martlet("needs martlet passwd")


def passwd(program, *arguments, standard_input: str = "", expect: int = 0) -> str:
    done = subprocess.run(
        [program.path, "passwd", *map(str, arguments)], input=standard_input, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == expect, done.stderr
    return done.stderr


def answer(broker, user: str | None, password: str | None, version: str = "mqttv5") -> int:
    """The reason of the CONNACK."""
    wire = Wire(broker.port, version)
    try:
        return wire.connect("client", user=user, password=password)[1]
    finally:
        wire.close()


@martlet_only
@pytest.mark.parametrize("hash", ["argon2id", "sha512-pbkdf2", "sha512"])
@pytest.mark.parametrize("version, refusal", [("mqttv5", NOT_AUTHORIZED_V5), ("mqttv311", NOT_AUTHORIZED_V3)])
def test_users_log_in_with_their_password_only(program, start_broker, tmp_path, hash, version, refusal):
    passwd(program, "-H", hash, "-c", "-b", tmp_path / "users", "anna", "right")
    broker = start_broker(configuration="password_file {directory}/users")
    assert answer(broker, "anna", "right", version) == 0
    assert answer(broker, "anna", "wrong", version) == refusal
    assert answer(broker, "anna", "", version) == refusal
    assert answer(broker, "bob", "right", version) == refusal
    assert answer(broker, None, None, version) == 0, "allow_anonymous is about clients without a user name"


@martlet_only
def test_without_anonymous_a_login_is_needed(program, start_broker, tmp_path):
    passwd(program, "-H", "sha512", "-c", "-b", tmp_path / "users", "anna", "right")
    broker = start_broker(
        configuration="listener {port} 127.0.0.1\nallow_anonymous false\npassword_file {directory}/users", listener=False
    )
    assert answer(broker, None, None) == NOT_AUTHORIZED_V5
    assert answer(broker, None, None, "mqttv311") == NOT_AUTHORIZED_V3
    assert answer(broker, "anna", "right") == 0
    broker.wait_for_log(r"\[127\.0\.0\.1:\d+\] disconnected: not authorised\.$")


@pytest.mark.martlet("reads its own files anyway")
@pytest.mark.parametrize("hash", ["sha512-pbkdf2", "sha512"])
def test_what_mosquitto_passwd_writes_is_read(debian, start_broker, tmp_path, hash):
    users = tmp_path / "users"
    for number, user in enumerate(["anna", "bob"]):
        create = ["-c"] if number == 0 else []
        debian.set_password("-H", hash, *create, "-b", str(users), user, f"{user}'s")
    broker = start_broker(configuration="password_file {directory}/users")
    assert answer(broker, "anna", "anna's") == 0
    assert answer(broker, "bob", "bob's") == 0
    assert answer(broker, "bob", "anna's") == NOT_AUTHORIZED_V5


@martlet_only
@pytest.mark.parametrize("hash", ["sha512-pbkdf2", "sha512"])
def test_what_martlet_passwd_writes_is_read_by_mosquitto(program, reference, tmp_path, hash):
    passwd(program, "-H", hash, "-c", "-b", tmp_path / "users", "anna", "right")
    mosquitto = reference("password_file {directory}/users")
    assert answer(mosquitto, "anna", "right") == 0
    assert answer(mosquitto, "anna", "wrong") == NOT_AUTHORIZED_V5


@martlet_only
def test_the_tool_edits_one_line_and_keeps_the_rest(program, tmp_path):
    users = tmp_path / "users"
    users.write_text("# ours\nbob:$7$1$AAAA$" + "A" * 86 + "==\n\nanna:old\nno colon\n")
    users.chmod(0o640)
    passwd(program, "-H", "sha512", "-b", users, "anna", "new")
    lines = users.read_text().splitlines()
    assert lines[0] == "# ours" and lines[1].startswith("bob:$7$1$") and lines[2] == "" and lines[4] == "no colon"
    assert lines[3].startswith("anna:$6$") and len(lines) == 5
    assert users.stat().st_mode & 0o777 == 0o640
    passwd(program, "-D", users, "anna")
    assert "anna" not in users.read_text() and "# ours" in users.read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["users"], "no temporary file is left"


@martlet_only
def test_a_new_file_is_its_owners_alone_and_a_link_stays_one(program, tmp_path):
    passwd(program, "-H", "sha512", "-c", "-b", tmp_path / "users", "anna", "x")
    assert (tmp_path / "users").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to("users")
    passwd(program, "-H", "sha512", "-b", tmp_path / "link", "bob", "x")
    assert (tmp_path / "link").is_symlink() and "bob:" in (tmp_path / "users").read_text()


@martlet_only
def test_plain_passwords_are_hashed_in_place(program, start_broker, tmp_path):
    users = tmp_path / "users"
    users.write_text("anna:plain\n# ours\n")
    passwd(program, "-H", "sha512", "-b", users, "bob", "hashed")
    assert "Hashed 1 password in" in passwd(program, "-H", "sha512-pbkdf2", "-U", users)
    assert "anna:$7$" in users.read_text() and "bob:$6$" in users.read_text() and "# ours" in users.read_text()
    broker = start_broker(configuration="password_file {directory}/users")
    assert answer(broker, "anna", "plain") == 0 and answer(broker, "bob", "hashed") == 0


@martlet_only
def test_a_password_is_taken_from_a_pipe(program, start_broker, tmp_path):
    passwd(program, "-H", "sha512", "-c", tmp_path / "users", "anna", standard_input="from a pipe\n")
    broker = start_broker(configuration="password_file {directory}/users")
    assert answer(broker, "anna", "from a pipe") == 0


@martlet_only
@pytest.mark.parametrize("second, code", [("typed", 0), ("other", 1)])
def test_at_a_terminal_it_is_asked_for_twice_and_not_shown(program, tmp_path, second, code):
    users = tmp_path / "users"
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [program.path, "passwd", "-H", "sha512", "-c", str(users), "anna"],
        stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True,
    )  # fmt: skip
    os.close(terminal)
    shown = b""

    def read_until(words: bytes):
        nonlocal shown
        while words not in shown:
            shown += os.read(master, 1024)

    read_until(b"Password: ")
    os.write(master, b"typed\n")
    read_until(b"Reenter password: ")
    os.write(master, second.encode() + b"\n")
    try:
        while chunk := os.read(master, 1024):
            shown += chunk
    except OSError:
        pass  # The terminal's other side is closed.
    assert process.wait(timeout=10) == code, shown
    os.close(master)
    assert b"typed" not in shown and users.exists() == (code == 0)


@martlet_only
@pytest.mark.parametrize(
    "arguments, message",
    [
        (["users", "anna"], "users does not exist. To create it, give -c too."),
        (["-D", "users", "anna"], "users does not exist.\n"),
        (["-c", "-b", "users", "an:na", "x"], "contains a colon"),
        (["-c", "-b", "users", "anna", ""], "the password is empty"),
        (["-c", "-b", "none/users", "anna", "x"], "none does not exist. Make it: mkdir -p "),
    ],
)
def test_what_cannot_be_done_is_said(program, tmp_path, arguments, message):
    arguments = [str(tmp_path / each) if each.endswith("users") else each for each in arguments]
    assert message in passwd(program, *arguments, standard_input="x\n", expect=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.martlet("names the line")
def test_a_broken_file_is_told_line_by_line_and_nothing_starts(program, tmp_path):
    (tmp_path / "users").write_text("anna:$9$x\nbob:plain\n")
    (tmp_path / "rules").write_text("topic some thing\n")
    configuration = tmp_path / "broken.conf"
    configuration.write_text(
        f"listener {reserve_port()} 127.0.0.1\npassword_file {tmp_path}/users\nacl_file {tmp_path}/rules\n"
    )
    done = run(program, "-c", str(configuration))
    assert done.returncode == 1
    for words in ["users:1: ", "users:2: ", "rules:1: ", "martlet passwd -U"]:
        assert words in done.stdout, done.stdout


@martlet_only
def test_a_reload_takes_new_users_and_new_rules(program, start_broker, tmp_path):
    passwd(program, "-H", "sha512", "-c", "-b", tmp_path / "users", "anna", "old")
    (tmp_path / "rules").write_text("user anna\ntopic read a/#\nuser bob\ntopic write #\n")
    passwd(program, "-H", "sha512", "-b", tmp_path / "users", "bob", "x")
    broker = start_broker(configuration="password_file {directory}/users\nacl_file {directory}/rules")
    anna, bob = Wire(broker.port), Wire(broker.port)
    assert anna.connect("anna", user="anna", password="old")[1] == 0
    assert bob.connect("bob", user="bob", password="x")[1] == 0
    anna.subscribe("#")
    bob.publish("a/1")
    assert anna.receive().topic == "a/1"

    passwd(program, "-H", "sha512", "-b", tmp_path / "users", "anna", "new")
    (tmp_path / "rules").write_text("user anna\ntopic read b/#\nuser bob\ntopic write #\n")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("Config reloaded")
    # The loops hear of it a moment later.
    deadline = time.monotonic() + 10
    while answer(broker, "anna", "new") != 0:
        assert time.monotonic() < deadline
    assert answer(broker, "anna", "old") == NOT_AUTHORIZED_V5
    assert anna.receive(DISCONNECT).body[0] == NOT_AUTHORIZED_V5, "the password that it came in with is no more"
    anna.close()
    anna = Wire(broker.port)
    assert anna.connect("anna", user="anna", password="new")[1] == 0
    anna.subscribe("#")
    bob.publish("a/2")
    bob.publish("b/1")
    assert anna.receive().topic == "b/1", "the new rules hold"
    anna.close()
    bob.close()


@martlet_only
def test_a_reload_ends_who_is_gone_from_the_password_file(program, start_broker, tmp_path):
    users = tmp_path / "users"
    passwd(program, "-H", "sha512", "-c", "-b", users, "anna", "x")
    passwd(program, "-H", "sha512", "-b", users, "bob", "x")
    broker = start_broker(configuration="martlet_threads 2\npassword_file {directory}/users")
    gone = [Wire(broker.port, "mqttv5") for _ in range(8)] + [Wire(broker.port, "mqttv311")]
    for number, wire in enumerate(gone):
        assert wire.connect(f"anna {number}", user="anna", password="x")[1] == 0
    bob, nobody = Wire(broker.port), Wire(broker.port)
    assert bob.connect("bob", user="bob", password="x")[1] == 0
    assert nobody.connect("nobody")[1] == 0
    passwd(program, "-D", users, "anna")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("Config reloaded")
    for wire in gone[:-1]:
        assert wire.receive(DISCONNECT).body[0] == NOT_AUTHORIZED_V5
    for wire in gone:
        assert wire.receive_end() is None
        wire.close()
    bob.ping()
    nobody.ping()
    bob.close()
    nobody.close()


@martlet_only
def test_a_broken_file_on_reload_changes_nothing(program, start_broker, tmp_path):
    passwd(program, "-H", "sha512", "-c", "-b", tmp_path / "users", "anna", "x")
    broker = start_broker(configuration="password_file {directory}/users")
    (tmp_path / "users").write_text("anna:$9$x\n")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log(r"Error: .*users:1: the hash of the password of anna is of the unknown type")
    broker.wait_for_log("the broker goes on as before")
    assert answer(broker, "anna", "x") == 0


@martlet_only
def test_whoever_keeps_failing_waits_and_is_reported_once(program, start_broker, tmp_path):
    passwd(program, "-H", "sha512", "-c", "-b", tmp_path / "users", "anna", "x")
    broker = start_broker(configuration="password_file {directory}/users")
    for _ in range(3):
        assert answer(broker, "anna", "wrong") == NOT_AUTHORIZED_V5
    started = time.monotonic()
    for _ in range(2):
        assert answer(broker, "anna", "wrong") == NOT_AUTHORIZED_V5
    assert time.monotonic() - started > 0.7, "250 and 500 ms"
    started = time.monotonic()
    assert answer(broker, "anna", "x") == 0
    assert time.monotonic() - started < 0.25, "who knows the password does not wait"
    assert broker.log.count("Repeated failed logins") == 1

"""Bans: by administrators over HTTP and from the shell, and by the broker itself."""

import getpass
import hashlib
import json
import socket

import pytest
from harness.ports import reserve_port
from harness.program import run
from harness.site import Site
from harness.waiting import wait_until

pytestmark = pytest.mark.martlet("2.0 bans nobody")

BANNED, NOT_AUTHORISED, ADMINISTRATIVE = 0x8A, 5, 0x98


@pytest.fixture
def banning(start_broker, program, tmp_path):
    """Starts a broker that whoever may open its socket administers; gives it, and a function that does `martlet ctl ban`."""

    def start(configuration: str = "", *arguments: str):
        place = tmp_path / "http.sock"
        broker = start_broker(
            *arguments, configuration=f"{configuration}\nmartlet_audit_log {tmp_path / 'audit'}\nlistener 0 {place}\nprotocol http_api\n"
        )

        def ban(*words: str, code: int = 0) -> str:
            done = run(program, "ctl", "ban", "--socket", str(place), *words)
            assert done.returncode == code, done.stdout
            return done.stdout

        return broker, ban

    return start


def is_turned_away(port: int) -> bool:
    """Whether a connection ends before anybody has said a word."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(0.5)
        try:
            return connection.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True


@pytest.mark.parametrize("threads", [1, 4])
def test_a_banned_client_is_sent_away_and_not_let_in(banning, wire_to, tmp_path, threads):
    broker, ban = banning("", "--threads", str(threads))
    client, other = wire_to(broker.port), wire_to(broker.port)
    client.connect("noisy")
    other.connect("quiet")
    assert ban("add", "noisy", "--for", "1h", "--reason", "noise").startswith("The client noisy is banned until ")
    assert client.receive_end() == ADMINISTRATIVE
    for version, reason in [("mqttv5", BANNED), ("mqttv311", NOT_AUTHORISED), ("mqttv31", NOT_AUTHORISED)]:
        assert wire_to(broker.port, version).connect("noisy") == (False, reason)
    other.ping()
    broker.wait_for_log(rf"Banned clientid noisy until \S+ by {getpass.getuser()}: noise\.")
    broker.wait_for_log(r"Login failed from 127\.0\.0\.1 port \d+: banned, client 'noisy'\.")
    rows = json.loads(ban("list", "--json"))
    assert [(row["as"], row["who"], row["reason"]) for row in rows["data"]] == [("clientid", "noisy", "noise")]
    assert rows["kept"] is False
    assert ban("remove", "noisy") == "The client noisy is not banned any more.\n"
    assert ban("remove", "noisy", code=4) == "Error: There is no ban noisy.\n"
    assert ban() == "Nobody is banned.\n"
    assert wire_to(broker.port).connect("noisy") == (False, 0)
    audit = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [(entry["operation"], entry["target"], entry["status"]) for entry in audit] == [
        ("ban", "clientid noisy", 201), ("liftBan", "clientid noisy", 204), ("liftBan", "clientid noisy", 404),
    ]  # fmt: skip


def test_a_banned_network_is_turned_away_before_it_says_a_word(banning, wire_to):
    broker, ban = banning()
    client = wire_to(broker.port)
    client.connect("client")
    ban("add", "127.0.0.0/8", "--as", "network")
    assert client.receive_end() == ADMINISTRATIVE
    assert is_turned_away(broker.port)
    broker.wait_for_log(r"Client connection from 127\.0\.0\.1:\d+ denied: banned\.")
    ban("remove", "127.9.9.9/8", "--as", "network")
    assert wire_to(broker.port).connect("client") == (False, 0)


@pytest.mark.parametrize(("words", "complaint"), [
    (["127.0.0.1/33", "--as", "network"], "who is not a network"), (["0.0.0.0/0", "--as", "network"], "all addresses cannot be banned"),
    (["house", "--as", "address"], "who is not an address"),
])  # fmt: skip
def test_what_names_nobody_is_refused_in_words(banning, words, complaint):
    assert complaint in banning()[1]("add", *words, code=1)


def test_the_store_keeps_bans(banning, wire_to, program):
    broker, ban = banning("persistence true\npersistence_location {directory}")
    ban("add", "ever")
    ban("add", "anna", "--as", "user", "--for", "1h")
    wait_until(lambda: wire_to(broker.port).connect("ever")[1] == BANNED, "the ban holds")
    broker.stop()
    dumped = [json.loads(line) for line in run(program, "store", "dump", str(broker.directory)).stdout.splitlines()]
    assert sorted(row["who"] for row in dumped if row["table"] == "run" and "who" in row) == ["anna", "ever"]
    broker.restart()
    assert wire_to(broker.port).connect("ever") == (False, BANNED)
    assert wire_to(broker.port).connect("client", user="anna", password="") == (False, BANNED)
    assert json.loads(ban("list", "--json"))["kept"] is True
    ban("remove", "ever")
    broker.stop()
    broker.restart()
    assert wire_to(broker.port).connect("ever") == (False, 0)


def test_an_address_is_banned_after_failed_logins_and_let_in_when_the_time_is_over(banning, wire_to, program, tmp_path):
    run(program, "passwd", "-c", "-b", str(tmp_path / "passwd"), "anna", "secret")
    broker, ban = banning(f"password_file {tmp_path / 'passwd'}\nmartlet_ban_after 3/60s 4s")
    for number in range(3):
        assert wire_to(broker.port).connect(f"guess {number}", user="anna", password="wrong")[1] != 0
    broker.wait_for_log(r"Banned peerhost 127\.0\.0\.1 until \S+ by martlet_ban_after: 3 failed logins in 60 s\.")
    wait_until(lambda: is_turned_away(broker.port), "the address is turned away")
    broker.wait_for_log(r"Ban expired: peerhost 127\.0\.0\.1\.")
    wait_until(lambda: not is_turned_away(broker.port), "the address is let in again")
    assert wire_to(broker.port).connect("anna", user="anna", password="secret") == (False, 0)


def test_logins_that_fail_over_http_count_and_passwords_are_not_looked_at_any_more(banning, program, tmp_path):
    run(program, "passwd", "-c", "-b", str(tmp_path / "passwd"), "anna", "secret")
    secret, port = "mrt_" + "a" * 43, reserve_port()
    (tmp_path / "tokens").write_text(f"t:viewer:{hashlib.sha256(secret.encode()).hexdigest()}\n")
    broker, ban = banning(f"""password_file {tmp_path / 'passwd'}\nmartlet_ban_after 3/60s 300s\nmartlet_http_user anna viewer
martlet_http_token_file {tmp_path / 'tokens'}\nlistener {port} 127.0.0.1\nprotocol http_api""")
    served = Site(broker, port, user="anna", password="secret")
    path = "/api/martlet/v1/clients"
    assert served.status(path) == 200
    served.password = "wrong"
    assert [served.status(path), served.status("/api/v1/version"), served.status(path)] == [401, 401, 401]
    broker.wait_for_log(r"Banned peerhost 127\.0\.0\.1 until \S+ by martlet_ban_after: 3 failed logins in 60 s\.")
    wait_until(lambda: is_turned_away(broker.port), "the address is turned away from MQTT")
    served.password = "secret"
    assert [served.status(path), served.status("/api/v1/version")] == [401, 401]
    broker.wait_for_log(r"Login failed from 127\.0\.0\.1 port \d+: banned, client 'http-api'\.")
    # Who needs no password is let in, and lifts the ban.
    assert Site(broker, port).status(path, Authorization=f"Bearer {secret}") == 200
    metrics = Site(broker, port).ask("/metrics", Authorization=f"Bearer {secret}").body.decode()
    assert 'martlet_logins_total{backend="password_file",result="refused"} 3\n' in metrics
    assert 'martlet_connections_refused_total{reason="banned"} ' in metrics
    ban("remove", "127.0.0.1", "--as", "address")
    assert served.status(path) == 200


def test_a_client_that_comes_and_goes_is_banned(banning, wire_to):
    broker, ban = banning("martlet_flapping 3/60s 300s")
    for _ in range(3):
        client = wire_to(broker.port)
        client.connect("moth")
        client.close()
    broker.wait_for_log(r"Banned clientid moth until \S+ by martlet_flapping: 3 ended connections in 60 s\.")
    wait_until(lambda: wire_to(broker.port).connect("moth")[1] == BANNED, "the moth is kept out")

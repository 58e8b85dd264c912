"""Bans that the broker makes by itself, as a weapon against others: they hit who has done it, and take no place from administrators."""

import json
import socket
import subprocess
from pathlib import Path

import pytest
from harness.waiting import PATIENCE, wait_until
from harness.wire import CONNACK, CONNECT, Wire, frame, text

from abuse.siege import LONGEST_MAX, SECONDS
from abuse.test_attacks_remembered import api

pytestmark = [pytest.mark.martlet("bans nobody"), pytest.mark.timeout(300 + 12 * SECONDS)]

BANNED = 0x8A
#: Milliseconds that a message of the pair may take: the machine has other work too.
WAIT_MAX = 5 * LONGEST_MAX


@pytest.fixture
def house(besiege, program, tmp_path):
    """A siege of a broker with users, and the socket of its API."""

    def start(lines: str):
        for number, user in enumerate(["alice", "mallory"]):
            create = ["-c"] if number == 0 else []
            subprocess.run([program.path, "passwd", *create, "-b", str(tmp_path / "users"), user, user], check=True)
        place = tmp_path / "http.sock"
        siege = besiege(
            f"{lines}\nallow_anonymous false\npassword_file {tmp_path / 'users'}\nlistener 0 {place}\nprotocol http_api\n",
            login=("alice", "alice"),
        )
        return siege, place

    return start


def bans(place: Path) -> list[dict]:
    return api(place, "GET", "bans?limit=1000")[1]["data"]


def login(port: int, name: str, user: str, password: str | None = None) -> tuple[Wire, int]:
    wire = Wire(port)
    return wire, wire.connect(name, user=user, password=user if password is None else password)[1]


def test_flapping_lockout(house):
    """Another user comes and goes with a victim's identifier: that one is banned, the victim is not."""
    siege, place = house("martlet_flapping 5/60s 300s")
    for _ in range(8):
        wire, reason = login(siege.broker.port, "pump", "mallory")
        wire.close()
    siege.broker.wait_for_log(r"Banned clientid pump until \S+ by martlet_flapping: .* It applies only to user 'mallory' from 127\.0\.0\.1\.")
    wait_until(lambda: login(siege.broker.port, "pump", "mallory")[1] == BANNED, "who has done it is kept out")
    pump, reason = login(siege.broker.port, "pump", "alice")
    assert reason == 0, "whom the name belongs to comes in"
    assert login(siege.broker.port, "pump", "mallory")[1] == BANNED
    pump.ping()
    assert [(row["who"], row["user"], row["address"]) for row in bans(place)] == [("pump", "mallory", "127.0.0.1")]
    assert siege.measure().longest < WAIT_MAX
    assert api(place, "DELETE", "bans/clientid/pump")[0] == 204 and bans(place) == []


def test_flapping_lockout_while_the_victim_is_in(house):
    """Each takeover by another user ends the victim's connection: that counts for nobody."""
    siege, place = house("martlet_flapping 4/60s 300s")
    reason, rounds = 0, 0
    while reason == 0:
        victim, reason = login(siege.broker.port, "pump", "alice")
        assert reason == 0
        attacker, reason = login(siege.broker.port, "pump", "mallory")
        if reason == 0:
            assert victim.receive_end() == 0x8E
        attacker.close()
        rounds += 1
        assert rounds < 20, "who does it is not banned"
    assert reason == BANNED and rounds >= 4
    victim.ping()
    wait_until(lambda: [row["user"] for row in bans(place)] == ["mallory"], "one is banned")


def test_ban_list_full(besiege, tmp_path):
    """Made-up names that flap: an administrator's ban finds a place."""
    place = tmp_path / "http.sock"
    siege = besiege(f"martlet_flapping 2/600s 600s\nlistener 0 {place}\nprotocol http_api\n")
    body = text("MQTT") + bytes([5, 2]) + bytes([0, 60, 0])
    for number in range(400):
        for _ in range(2):
            connection = socket.create_connection(("127.0.0.1", siege.broker.port), PATIENCE)
            connection.sendall(frame(CONNECT, 0, body + text(f"made-up-{number}")))
            assert connection.recv(1)[0] == CONNACK << 4
            connection.close()
    siege.broker.wait_for_log("Warning: martlet_flapping has reached its maximum number of bans; its oldest bans are removed for new ones.")
    wait_until(lambda: any(row["who"] == "made-up-399" for row in bans(place)), "the last one is banned")
    rows = bans(place)
    assert len(rows) == 100 and {row["by"] for row in rows} == {"martlet_flapping"}
    status, ban = api(place, "POST", "bans", {"as": "clientid", "who": "wicked"})
    assert status == 201, json.dumps(ban)
    assert Wire(siege.broker.port).connect("wicked")[1] == BANNED
    assert siege.measure().longest < WAIT_MAX
    siege.serve()


def test_ban_neighbour(house):
    """Wrong logins from an address: who is in with a right password stays in."""
    siege, place = house("martlet_ban_after 5/60s 300s")
    neighbour, reason = login(siege.broker.port, "neighbour", "alice")
    assert reason == 0
    for _ in range(5):
        wire, reason = login(siege.broker.port, "guess", "alice", "wrong")
        assert reason != 0
        wire.close()
    siege.broker.wait_for_log(r"Banned peerhost 127\.0\.0\.1 until \S+ by martlet_ban_after: 5 failed logins in 60 s\.")

    def is_turned_away() -> bool:
        with socket.create_connection(("127.0.0.1", siege.broker.port)) as connection:
            connection.settimeout(0.5)
            try:
                return connection.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionResetError:
                return True

    wait_until(is_turned_away, "nobody else comes in from there")
    for _ in range(3):
        neighbour.ping()
    assert siege.measure().longest < WAIT_MAX
    # What an administrator says of the address holds for who is in too.
    assert api(place, "POST", "bans", {"as": "peerhost", "who": "127.0.0.1"})[0] == 200
    assert neighbour.receive_end() == 0x98

"""Wrong passwords by the hundred: who has the right one waits a second more at most, and who is logged in notices nothing."""

import subprocess
import time

import pytest
from harness.waiting import wait_until
from harness.wire import CONNACK, Wire

from abuse.crew import Attack
from abuse.crowd import connect_packet
from abuse.siege import SECONDS

pytestmark = [pytest.mark.martlet("checks one password at a time"), pytest.mark.timeout(240 + 12 * SECONDS)]

USER, PASSWORD = "anna", "right"
#: Seconds that a good login may take longer than it does alone.
ADDED_MAX = 1.0


@pytest.fixture
def users(program, tmp_path):
    path = tmp_path / "users"
    subprocess.run([program.path, "passwd", "-c", "-b", str(path), USER, PASSWORD], check=True)
    return path


def login_seconds(port: int) -> float:
    begun = time.monotonic()
    wire = Wire(port)
    try:
        wire.send(connect_packet("good", login=(USER, PASSWORD)))
        assert wire.receive(CONNACK, 60).body[1] == 0
        return time.monotonic() - begun
    finally:
        wire.close()


def test_storm_of_logins(besiege, users):
    siege = besiege(f"password_file {users}", login=(USER, PASSWORD))
    port = siege.broker.port
    attack = Attack("login_storm", (port, USER), rate=1000, least=210)
    alone = min(login_seconds(port) for _ in range(3))
    with siege.attack(attack) as crew:
        wait_until(lambda: crew.strikes >= 200, "200 wrong passwords are on their way", 30)
        # The best of three: this one's own process waits for its turn too.
        beside = min(login_seconds(port) for _ in range(3))
    assert beside <= alone + ADDED_MAX, f"{beside:.2f} s beside the storm, {alone:.2f} s alone"
    siege.wait_alone()
    siege.withstand(attack)

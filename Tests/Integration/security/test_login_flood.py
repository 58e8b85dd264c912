"""A flood of wrong passwords keeps nobody waiting who has the right one."""

import select
import socket
import subprocess

import pytest
from harness.waiting import PATIENCE
from harness.wire import CONNECT, frame, text

pytestmark = pytest.mark.martlet("mosquitto checks passwords on its only thread")

COUNT = 200


@pytest.fixture
def broker(program, start_broker, tmp_path):
    for number, user in enumerate(["anna", "bob"]):
        create = ["-c"] if number == 0 else []
        subprocess.run([program.path, "passwd", *create, "-b", str(tmp_path / "users"), user, "right"], check=True)
    return start_broker(
        configuration="listener {port} 0.0.0.0\nallow_anonymous false\npassword_file {directory}/users", listener=False
    )


def begin(broker, user: str, password: str, identifier: str, address: str = "127.0.0.1") -> socket.socket:
    """Sends CONNECT and does not wait."""
    connection = socket.create_connection(("127.0.0.1", broker.port), PATIENCE, source_address=(address, 0))
    head = text("MQTT") + bytes([4, 0xC2, 0, 60])
    connection.sendall(frame(CONNECT, 0, head + text(identifier) + text(user) + text(password)))
    return connection


def answers_before(flood: list[socket.socket], connection: socket.socket) -> int:
    """How many of the flood were answered before the connection was let in."""
    assert connection.recv(4) == bytes.fromhex("20020000")
    return len(select.select(flood, [], [], 0)[0])


#: Answers that may come before a good login's: the checks that had begun, and those of the turn or two that it waits for.
FEW = 12


@pytest.mark.parametrize(
    "address, user",
    [
        (lambda number: "127.0.0.1", lambda number: "anna"),
        (lambda number: "127.0.0.1", lambda number: f"user {number}"),
        (lambda number: "127.0.0.2", lambda number: "bob"),
        (lambda number: f"127.1.1.{number + 1}", lambda number: "anna"),
    ],
    ids=["same address", "same address and many names", "same name", "many addresses"],
)
def test_a_login_is_decided_before_the_flood(broker, address, user):
    flood = [begin(broker, user(number), "wrong", f"flood {number}", address(number)) for number in range(COUNT)]
    assert answers_before(flood, begin(broker, "bob", "right", "good")) <= FEW
    for connection in flood:
        connection.close()


def test_a_client_that_was_here_before_is_decided_before_a_flood_in_its_own_name(broker):
    known = begin(broker, "bob", "right", "good")
    assert known.recv(4) == bytes.fromhex("20020000")
    known.close()
    flood = [begin(broker, "bob", "wrong", f"flood {number}") for number in range(COUNT)]
    assert answers_before(flood, begin(broker, "bob", "right", "good")) <= FEW
    for connection in flood:
        connection.close()

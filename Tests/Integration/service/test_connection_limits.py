"""max_connections and global_max_connections: who comes too many is closed at once, and a place that becomes free is given away."""

import socket

import pytest
from harness.waiting import PATIENCE, wait_until

CONNECT = bytes.fromhex("10 0c 0004 4d515454 04 02 003c 0000")


def is_let_in(port: int) -> socket.socket | None:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    try:
        connection.sendall(CONNECT)
        if connection.recv(4) == bytes.fromhex("20020000"):
            return connection
    except ConnectionError:
        pass
    connection.close()
    return None


@pytest.mark.martlet("mosquitto 2.0 counts otherwise")
@pytest.mark.parametrize("option", ["max_connections", "global_max_connections"])
def test_no_more_than_so_many_connections(start_broker, option):
    broker = start_broker(configuration=f"{option} 2\n")
    # The probe that found the broker accepting may still count for a moment.
    guests = [wait_until(lambda: is_let_in(broker.port), "a place") for _ in range(2)]
    assert is_let_in(broker.port) is None
    broker.wait_for_log(r"denied: max_connections exceeded")
    guests.pop().close()
    guests.append(wait_until(lambda: is_let_in(broker.port), "the place that became free"))
    for guest in guests:
        guest.close()

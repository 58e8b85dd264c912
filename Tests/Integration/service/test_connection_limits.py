"""How many connections there may be, and how many a second: who comes too many is closed at once, and a place that becomes free is given
away."""

import signal
import socket
from itertools import count

import pytest
from harness.waiting import PATIENCE, wait_until

CONNECT = bytes.fromhex("10 0c 0004 4d515454 04 02 003c 0000")


def is_let_in(port: int, address: str = "127.0.0.1", head: bytes = b"") -> socket.socket | None:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(address, 0))
    try:
        connection.sendall(head + CONNECT)
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


# martlet_max_connections_per_second_per_address


def come_until_refused(port: int, **peer):
    """A second's worth comes at once, and then one for each half of a second; so the third or one soon after it is too many."""
    for number in count(1):
        guest = is_let_in(port, **peer)
        if not guest:
            return
        guest.close()
        assert number < 10, "nobody is refused"


@pytest.mark.martlet("has no such option")
@pytest.mark.broker(configuration="martlet_max_connections_per_second_per_address 2\nsys_interval 1")
def test_no_more_than_so_many_connections_a_second(broker, tools):
    come_until_refused(broker.port)
    broker.wait_for_log(r"from 127\.0\.0\.1:\d+ denied: more than 2 connections per second from its address")
    # Others are not concerned, and the same may come again.
    is_let_in(broker.port, address="127.0.0.2").close()
    wait_until(lambda: is_let_in(broker.port), "the next one's turn").close()
    come_until_refused(broker.port)
    watcher = tools.subscribe("$SYS/broker/connections/refused/count", arguments=["-A", "127.0.0.3"])
    while int(watcher.take_one().payload) < 2:
        pass


@pytest.mark.martlet("has no such option")
def test_all_loops_count_together(start_broker):
    broker = start_broker("--threads", "4", configuration="martlet_max_connections_per_second_per_address 2")
    come_until_refused(broker.port)


@pytest.mark.martlet("has no such option")
def test_behind_a_proxy_the_clients_address_counts(start_broker):
    lines = "listener {port} 127.0.0.1\nallow_anonymous true\nenable_proxy_protocol 1\n"
    broker = start_broker(configuration=f"{lines}martlet_max_connections_per_second_per_address 2", listener=False)

    def come(address: str, family: str = "TCP4") -> socket.socket | None:
        return is_let_in(broker.port, head=f"PROXY {family} {address} {address} 50312 1883\r\n".encode())

    come_until_refused(broker.port, head=b"PROXY TCP4 192.0.2.5 192.0.2.1 50312 1883\r\n")
    broker.wait_for_log(r"from 192\.0\.2\.5:50312 denied: more than 2")
    for number in range(6, 12):
        come(f"192.0.2.{number}").close()
    # An IPv6 host has a whole network of addresses to choose from.
    guests = [come(f"2001:db8:1:2::{number}", "TCP6") for number in range(1, 11)]
    assert not all(guests)
    come("2001:db8:1:3::1", "TCP6").close()
    for guest in filter(None, guests):
        guest.close()


@pytest.mark.martlet("has no such option")
def test_the_limit_may_come_with_a_reload(broker):
    for _ in range(10):
        is_let_in(broker.port).close()
    with broker.configuration_path.open("a") as file:
        file.write("martlet_max_connections_per_second_per_address 2\n")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("Config reloaded")
    come_until_refused(broker.port)

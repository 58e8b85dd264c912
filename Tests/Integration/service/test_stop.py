"""How the broker ends, and how it starts again."""

import signal
import socket
import time

import pytest
from harness.wire import Wire


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0(broker, wire, number):
    wire().connect("connected")
    broker.signal(number)
    assert broker.wait() == 0


@pytest.mark.martlet("mosquitto 2.0 closes without a word")
def test_version_5_clients_are_told_that_the_server_shuts_down(loops_broker):
    clients = []
    for number in range(20):
        clients.append(Wire(loops_broker.port))
        clients[-1].connect(f"client {number}")
    loops_broker.signal(signal.SIGTERM)
    assert [client.receive_end() for client in clients] == [0x8B] * 20
    assert loops_broker.wait() == 0


@pytest.mark.parametrize("version", ["mqttv31", "mqttv311"])
def test_older_clients_see_the_connection_close(broker, wire, version):
    client = wire(version)
    client.connect("older")
    broker.signal(signal.SIGTERM)
    assert client.receive_end() is None
    assert broker.wait() == 0


def test_a_client_that_does_not_read_does_not_hold_it_up(broker):
    client, publisher = Wire(broker.port), Wire(broker.port)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect("stalled")
    client.subscribe("flood")
    publisher.connect("publisher")
    for _ in range(200):
        publisher.publish("flood", "x" * 65536)
    publisher.ping()
    broker.signal(signal.SIGTERM)
    assert broker.wait(10) == 0


@pytest.mark.martlet("mosquitto has one loop")
def test_clients_that_connect_meanwhile_do_not_hold_it_up(start_broker):
    """Their connections are on the way from the loop that accepted them to their own, behind the word to stop."""
    broker = start_broker("--threads", "4")
    clients = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(200)]
    for number, client in enumerate(clients):
        if number == 100:
            broker.signal(signal.SIGTERM)
        identifier = f"c{number:03}".encode()
        try:
            client.sendall(bytes.fromhex("10 10 0004 4d515454 04 02 0000 0004") + identifier)
        except OSError:
            pass
    # Longer than a connection that does not read may linger, and no longer.
    assert broker.wait(20) == 0
    for client in clients:
        client.close()


def test_a_second_signal_ends_it_at_once(broker, program):
    client, publisher = Wire(broker.port), Wire(broker.port)
    client.connect("stalled")
    client.subscribe("flood")
    publisher.connect("publisher")
    for _ in range(200):
        publisher.publish("flood", "x" * 65536)
    publisher.ping()
    broker.signal(signal.SIGTERM)
    if program.is_martlet:
        # The kernel makes one of two equal signals that wait at the same time.
        broker.wait_for_log("Stopping: disconnecting all clients")
    broker.signal(signal.SIGTERM)
    before = time.monotonic()
    broker.wait(5)
    assert time.monotonic() - before < 2


@pytest.mark.martlet
def test_a_signal_that_is_sent_twice_is_one(broker, wire):
    """As `timeout` sends it, and a terminal together with a program that passes signals on."""
    client = wire()
    client.connect("connected")
    broker.signal(signal.SIGTERM)
    broker.wait_for_log("Stopping: disconnecting all clients")
    broker.signal(signal.SIGINT)
    assert client.receive_end() == 0x8B
    client.close()
    assert broker.wait() == 0


def test_it_starts_again_on_the_same_port_at_once(broker, wire):
    wire().connect("before")
    assert broker.stop() == 0
    broker.restart()
    assert Wire(broker.port).connect("after") == (False, 0)


def test_it_starts_again_after_it_was_killed(broker, wire):
    wire().connect("before")
    broker.kill()
    broker.restart()
    assert Wire(broker.port).connect("after") == (False, 0)


@pytest.mark.broker(configuration="max_queued_messages 100")
def test_a_hang_up_signal_reloads_and_keeps_the_connections(broker, wire):
    client = wire()
    client.connect("stays")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("(?i)reloading config")
    client.ping()


def test_a_broken_configuration_does_not_end_a_running_broker(broker, wire, program):
    if not program.is_martlet:
        pytest.skip("mosquitto 2.0 goes on with half of the file")
    client = wire()
    client.connect("stays")
    with broker.configuration_path.open("a") as file:
        file.write("no_such_option true\n")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("no_such_option")
    client.ping()

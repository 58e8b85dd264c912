"""`martlet ctl drain`: clients are sent away, some at a time, and nobody is let in until it is undone or the broker ends."""

import json
import socket

import pytest
from harness.program import run
from harness.waiting import wait_until

pytestmark = pytest.mark.martlet("2.0 sends nobody away")

SHUTTING_DOWN, OTHER_SERVER = 0x8B, 0x9C


@pytest.fixture
def draining(start_broker, program, tmp_path):
    """Starts a broker with a Unix socket for MQTT too; gives it, and a function that does `martlet ctl`."""

    def start(*arguments: str, configuration: str = ""):
        place = tmp_path / "http.sock"
        listeners = f"listener 0 {tmp_path / 'mqtt.sock'}\nallow_anonymous true\nlistener 0 {place}\nprotocol http_api\n"
        broker = start_broker(*arguments, configuration=f"{configuration}\n{listeners}")

        def ctl(*words: str, code: int = 0) -> str:
            done = run(program, "ctl", words[0], "--socket", str(place), *words[1:])
            assert done.returncode == code, done.stdout
            return done.stdout

        return broker, ctl

    return start


@pytest.mark.parametrize("threads", [1, 4])
def test_clients_are_sent_away_and_come_back_when_it_is_undone(draining, wire_to, tmp_path, threads):
    broker, ctl = draining("--threads", str(threads))
    clients = [wire_to(broker.port) for _ in range(20)]
    for number, client in enumerate(clients):
        client.connect(f"client {number}", clean=False, properties=b"\x11\x00\x00\x00\x64")
    old = wire_to(broker.port, "mqttv311")
    old.connect("old")
    said = ctl("drain", "--to", "other.example:1883")
    assert said.endswith("Drained: no client is left, and new connections are refused.\n")
    for client in clients:
        packet = client.receive()
        assert packet.body[0] == OTHER_SERVER and b"\x1c\x00\x12other.example:1883" in packet.body
        assert client.receive_end() is None
    assert old.receive_end() is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", broker.port))
    with socket.socket(socket.AF_UNIX) as local:
        local.connect(str(tmp_path / "mqtt.sock"))
        assert local.recv(1) == b""
    assert "[-]listeners failed" in ctl("health", code=1)
    assert "drained" in ctl("status")
    assert ctl("drain", "--undo") == "Connections are accepted again.\n"
    wait_until(lambda: broker.log.count("Draining is over") == 1, "the log says so")
    back = wait_until(lambda: connected(broker.port), "the port is open again")
    back.close()
    assert wire_to(broker.port).connect("client 7", clean=False) == (True, 0)
    assert "The broker is not being drained" in ctl("drain", "--undo", code=4)


def connected(port: int) -> socket.socket | None:
    try:
        return socket.create_connection(("127.0.0.1", port))
    except ConnectionRefusedError:
        return None


def test_no_more_go_in_a_second_than_are_to(draining, wire_to):
    broker, ctl = draining()
    clients = [wire_to(broker.port) for _ in range(6)]
    for number, client in enumerate(clients):
        client.connect(f"client {number}")
    ctl("drain", "--rate", "2", "--no-wait")
    drain = json.loads(ctl("status", "--json"))["broker"]["drain"]
    assert drain["state"] == "draining" and drain["connections_left"] >= 3
    ctl("drain", "--rate", "1000")
    assert [client.receive_end() for client in clients] == [SHUTTING_DOWN] * 6


def test_a_broker_ends_when_it_is_drained(draining, wire_to):
    broker, ctl = draining(configuration="persistence true\npersistence_location {directory}")
    client = wire_to(broker.port)
    client.connect("client", clean=False, properties=b"\x11\x00\x00\x00\x64")
    ctl("drain", "--stop")
    assert client.receive_end() == SHUTTING_DOWN
    assert broker.wait() == 0
    broker.restart()
    assert wire_to(broker.port).connect("client", clean=False) == (True, 0)

"""Malformed, illegal and odd inputs through a real socket: the answers must be those of the simulation."""

import socket

import pytest
from conformance.input_cases import TABLES, InputCase, read_cases
from harness.frame import frame_bytes
from harness.waiting import PATIENCE

CONNECT = {3: "10 { 'MQIsdp' 03 02 0000 'input' }", 4: "10 { 'MQTT' 04 02 0000 'input' }", 5: "10 { 'MQTT' 05 02 0000 {} 'input' }"}
CODES = {"connack": (0x20, 3), "disconnect": (0xE0, 2)}
PING, PONG = b"\xc0\0", b"\xd0\0"


@pytest.mark.martlet("mosquitto's reason codes are others in places")
@pytest.mark.parametrize("table", sorted(path.stem for path in TABLES.glob("*.txt")))
def test_each_input_gets_the_answer_of_the_simulation(loops_broker, table):
    complaints = [complaint for case in read_cases(table) if (complaint := differs(loops_broker.port, case))]
    assert not complaints, "\n".join(complaints)


def differs(port: int, case: InputCase) -> str | None:
    """What is wrong with the broker's answer to this input."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if case.stage == "connected":
            connection.sendall(frame_bytes(CONNECT[case.level], case.level))
            connack = connection.recv(65536)
            if connack[3:4] != b"\0":
                return f"{case.level} {case.name}: CONNECT got {connack.hex()}"
        connection.sendall(case.sent)
        expected, received = case.answer, receive(connection, case)
    is_right = received.startswith(expected) and ends_right(received[len(expected) :], case)
    return None if is_right else f"{case.level} {case.name}: expected {expected.hex()} {case.end} {case.code:02x}, got {received.hex()}"


def ends_right(rest: bytes, case: InputCase) -> bool:
    if case.end not in CODES:
        return not rest
    first, position = CODES[case.end]
    return len(rest) > position and rest[0] == first and rest[1] == len(rest) - 2 and rest[position] == case.code


def receive(connection: socket.socket, case: InputCase) -> bytes:
    """All that comes until the broker closes. From a connection that stands, all that comes before PINGRESP."""
    received = b""
    try:
        if case.end == "open":
            received = exactly(connection, len(case.answer))
            if not is_fit_for_ping(case):
                connection.settimeout(0.2)  # Nothing can be asked of half a packet but silence.
                return received + connection.recv(65536) + b"(not open)"
            # Only now: PINGRESP may overtake a SUBACK that waits for other loops.
            connection.sendall(PING)
            pong = exactly(connection, len(PONG))
            return received if pong == PONG else received + pong
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    except TimeoutError:
        return received if case.end == "open" else received + b"(still open)"
    return received


def exactly(connection: socket.socket, count: int) -> bytes:
    """That many bytes; fewer if the broker closes."""
    received = b""
    while len(received) < count and (data := connection.recv(count - len(received))):
        received += data
    return received


def is_fit_for_ping(case: InputCase) -> bool:
    return is_whole(case.sent) and (case.stage == "connected" or case.answer[:1] == b"\x20")


def is_whole(data: bytes) -> bool:
    """Whether the bytes end where a packet ends."""
    while len(data) >= 2:
        length, size = 0, 0
        while True:
            if 1 + size >= len(data):
                return False
            digit = data[1 + size]
            length |= (digit & 0x7F) << 7 * size
            size += 1
            if digit < 0x80:
                break
        data = data[1 + size + length :] if len(data) >= 1 + size + length else b"?"
    return not data

"""Consumers of the client library that publish, ask another service, stop reading and come late, with Martlet and with mosquitto."""

import os
import signal

import pytest
from harness.broker import REPOSITORY
from harness.lines import LineProcess
from harness.waiting import PATIENCE

PROGRAM = os.environ.get("CONSUMER_CLIENT", str(REPOSITORY / ".build/release/consumerclient"))

pytestmark = [
    pytest.mark.martlet("tries the client library that was built here"),
    pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason="consumerclient is not built; `make integration` builds it"),
]


@pytest.fixture(params=["martlet", "mosquitto"])
def start_server(request, start_broker):
    """Starts a broker of each kind."""
    return start_broker if request.param == "martlet" else request.getfixturevalue("reference")


@pytest.fixture
def server(start_server):
    return start_server(configuration="")


@pytest.fixture
def start():
    """Starts the program."""
    processes = []

    def start(*arguments) -> LineProcess:
        processes.append(LineProcess([PROGRAM, *map(str, arguments)], keeps_input=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


def line(process: LineProcess, start: str, after: int = 0) -> int:
    """The place of the next line that begins so. A relay waits for three thousand answers before it, which takes a busy machine a while."""
    return process.wait_line(lambda text: text.startswith(start), f"a line “{start}…”", after=after, seconds=PATIENCE * 6)


def test_a_relay_passes_on_all_of_a_burst(server, start):
    process = start("relay", server.port, 3000)
    assert process.lines[line(process, "passed")] == "passed 3000 dropped 0"


def test_what_a_relay_with_a_small_backlog_does_not_pass_on_is_counted(server, start):
    process = start("relay", server.port, 3000, 50)
    _, passed, _, dropped = process.lines[line(process, "passed")].split()
    assert int(passed) >= 50 and int(passed) + int(dropped) == 3000


@pytest.mark.parametrize("jobs", [30, 900])
def test_a_request_from_within_a_handler_is_answered_however_many_messages_wait(server, start, jobs):
    process = start("ask", server.port, jobs)
    assert process.lines[line(process, "answered")] == "answered 30"


def test_a_responder_that_asks_another_service_is_answered_however_many_requests_wait(server, start):
    process = start("chain", server.port, 60)
    assert process.lines[line(process, "answered")] == "answered 60"


def test_a_client_with_a_full_subscription_says_which_goes_on_and_connects_anew(server, start):
    process = start("full", server.port)
    line(process, "ready")
    process.tell("fill 600")
    held = line(process, "online 1 held by farm/idle/#")
    process.tell("count")
    assert process.lines[line(process, "dropped")] == "dropped 590 waiting 10"
    process.tell("publish first")
    line(process, "came first")
    process.tell("subscribe farm/new")
    line(process, "granted")
    server.stop()
    server.restart()
    line(process, "online 2", after=held)
    process.tell("publish second")
    line(process, "came second")


def test_a_dead_server_is_noticed_by_a_client_with_a_full_subscription(server, start):
    process = start("full", server.port)
    line(process, "ready")
    process.tell("fill 600")
    held = line(process, "online 1 held by farm/idle/#")
    server.hang()
    try:
        gone = line(process, "waiting", after=held)
        assert "does not answer" in process.lines[gone]
    finally:
        server.signal(signal.SIGCONT)
    line(process, "online 2", after=gone)


def test_what_a_kept_session_brings_before_its_subscription_is_declared_is_counted(server, start):
    process = start("late", server.port)
    assert process.lines[line(process, "dropped")] == "dropped 5"


def test_a_server_leaves_out_messages_larger_than_the_maximum_packet_size(server, start, wire_to):
    process = start("limit", server.port, "v5", 1000)
    line(process, "ready")
    publisher = wire_to(server.port)
    publisher.connect()
    publisher.publish("large/1", "x" * 2000)
    publisher.publish("large/1", "x" * 10)
    assert process.lines[line(process, "came")] == "came 10"
    assert not any(text.startswith("waiting") for text in process.lines)


def test_before_mqtt_5_a_larger_packet_ends_the_connection_and_the_state_says_why(server, start, wire_to):
    process = start("limit", server.port, "v311", 1000)
    line(process, "ready")
    publisher = wire_to(server.port)
    publisher.connect()
    publisher.publish("large/1", "x" * 2000)
    said = process.lines[line(process, "waiting")]
    assert "sent a packet of more than 1000 bytes" in said and f":{server.port}" in said
    line(process, "online 2")

"""The hang-up signal: the configuration is read again, and nobody is dropped who may still be there."""

import re
import signal

import pytest
from harness.ports import reserve_port
from harness.waiting import wait_until
from harness.wire import PUBACK, PUBLISH, Wire
from service.test_connection_limits import is_let_in

pytestmark = pytest.mark.martlet


def reload(broker, old: str, new: str, until: str = "Config reloaded"):
    """Changes the file, sends the signal, and waits for the end of the reload."""
    broker.configuration_path.write_text(broker.configuration_path.read_text().replace(old, new))
    before = len(broker.log)
    broker.signal(signal.SIGHUP)
    broker.wait_for_log(until)
    return broker.log[before:]


@pytest.mark.broker(configuration="max_packet_size 2000\nmax_qos 2")
def test_limits_change_for_new_clients_and_stay_for_those_that_were_told(broker, wire):
    old = wire()
    old.connect("old")
    old.subscribe("any", qos=2)
    reload(broker, "max_packet_size 2000", "max_packet_size 100")
    old.publish("any", "x" * 1500)
    assert len(old.receive().body) > 1500
    new = wire()
    new.connect("new")
    new.publish("any", "x" * 1500)
    assert new.receive_end() == 0x95
    old.ping()


def test_anonymous_clients_may_be_shut_out(broker, wire):
    stranger, named = wire(), wire()
    stranger.connect("stranger")
    named.connect("named", user="somebody", password="x")
    reload(broker, "allow_anonymous true", "allow_anonymous false")
    assert wire().connect("outside") == (False, 0x87)
    # Who is inside without a name has to go.
    assert stranger.receive_end() == 0x87
    broker.wait_for_log(r"Client stranger .*disconnected: not authorised")
    named.ping()
    reload(broker, "allow_anonymous false", "allow_anonymous true", until="(?s)Config reloaded.*Config reloaded")
    assert wire().connect("outside") == (False, 0)


@pytest.mark.broker(configuration="log_timestamp true")
def test_the_log_changes_too(broker, wire):
    reload(broker, "log_timestamp true", "log_timestamp false")
    wire().connect("untimed")
    broker.wait_for_log(r"^New client connected from .* as untimed ")


@pytest.mark.broker(configuration="sys_interval 0")
def test_sys_topics_may_be_switched_on(broker, tools):
    subscriber = tools.subscribe("$SYS/broker/uptime")
    reload(broker, "sys_interval 0", "sys_interval 1")
    assert subscriber.take_one().payload.endswith(b"seconds")


@pytest.mark.broker(configuration="martlet_connect_timeout 5")
def test_every_error_of_a_broken_file_is_told_and_nothing_changes(broker, wire):
    said = reload(
        broker, "allow_anonymous true", "allow_anonymous false\nno_such_option 1\nmax_qos 7", until="The config was not reloaded"
    )
    assert re.search(r":\d+: .*no_such_option", said) and re.search(r":\d+: max_qos", said)
    assert wire().connect("still welcome") == (False, 0)


@pytest.mark.broker(configuration="log_type all")
def test_a_log_that_cannot_be_opened_changes_nothing(broker, wire):
    reload(broker, "log_type all", "log_dest file /nowhere/log\nallow_anonymous false", until="not reloaded")
    assert wire().connect("still welcome") == (False, 0)


@pytest.mark.broker(configuration="martlet_threads 2\npid_file {directory}/one.pid")
def test_what_needs_a_restart_is_named(broker, wire):
    said = reload(broker, "martlet_threads 2", "martlet_threads 3")
    assert re.search(r"Warning: martlet_threads has changed", said)
    said = reload(broker, "one.pid", "two.pid", until="Warning: pid_file has changed")
    wire().connect("served")


@pytest.mark.broker(configuration="max_connections 1")
def test_there_may_be_more_connections(broker):
    first = wait_until(lambda: is_let_in(broker.port), "the probe's place")
    assert is_let_in(broker.port) is None
    said = reload(broker, "max_connections 1", "max_connections 2")
    assert "Warning" not in said
    second = is_let_in(broker.port)
    assert second and is_let_in(broker.port) is None
    first.close()
    second.close()


@pytest.mark.broker(configuration="persistence true\npersistence_location {directory}\nmartlet_durability commit")
def test_durability_waits_for_a_restart_as_a_whole(broker, wire):
    said = reload(broker, "martlet_durability commit", "martlet_durability interval 3600")
    assert "Warning: martlet_durability has changed" in said
    client = wire()
    client.connect("client")
    client.publish("kept", "here", qos=1, retain=True)
    client.receive(PUBACK)
    broker.kill()
    broker.restart()
    later = wire()
    later.connect("later")
    later.subscribe("kept")
    assert later.receive(PUBLISH).body.endswith(b"here")


@pytest.mark.broker(configuration="max_inflight_messages 20")
def test_a_reload_under_load_drops_no_client_and_no_message(loops_broker, tools_for):
    tools = tools_for(loops_broker.port)
    clients = [Wire(loops_broker.port) for _ in range(200)]
    for number, client in enumerate(clients):
        client.connect(f"client{number}")
        client.subscribe("to/all", qos=1)
    publisher = Wire(loops_broker.port)
    publisher.connect("publisher")
    for number in range(50):
        if number % 10 == 0:
            loops_broker.signal(signal.SIGHUP)
        publisher.publish("to/all", str(number), qos=1, identifier=number + 1)
    for client in clients:
        received = []
        while len(received) < 50:
            packet = client.receive(3)
            received.append(int(re.search(rb"to/all..\x00(\d+)$", packet.body, re.DOTALL).group(1)))
            client.acknowledge(4, int.from_bytes(re.search(rb"to/all(..)", packet.body, re.DOTALL).group(1), "big"))
        assert received == list(range(50))
        client.close()
    tools.publish("any", "thing", qos=1)

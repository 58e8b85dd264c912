"""Silence: how long a connection may say nothing."""

import time

import pytest
from harness.mosquitto import VERSIONS
from harness.wire import Will


@pytest.mark.parametrize("version", VERSIONS)
def test_a_silent_client_is_ended_after_one_and_a_half_keep_alives(broker, tools, wire, version, program):
    observer = tools.subscribe("wills/#")
    client = wire(version)
    began = time.monotonic()
    client.connect("silent", keep_alive=1, will=Will("wills/silent", "gone"))
    reason = client.receive_end()
    silence = time.monotonic() - began
    assert 1.4 < silence < (3 if program.is_martlet else 6)
    if program.is_martlet:
        assert reason == (0x8D if version == "mqttv5" else None)
    assert observer.take_one().payload == b"gone"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ping_keeps_the_connection(broker, wire, version):
    client = wire(version)
    client.connect("pinging", keep_alive=1)
    ended = time.monotonic() + 3
    while time.monotonic() < ended:
        client.ping()
        time.sleep(0.5)
    client.ping()


def test_a_keep_alive_of_0_is_no_limit(broker, wire):
    quiet, clock = wire(), wire()
    quiet.connect("quiet", keep_alive=0)
    clock.connect("clock", keep_alive=1)
    clock.receive_end()
    quiet.ping()


@pytest.mark.martlet
@pytest.mark.broker(configuration="martlet_connect_timeout 1")
@pytest.mark.parametrize("sent", [b"", b"\x10", b"\x10\x20\x00\x04MQ"])
def test_a_connection_without_a_connect_packet_is_closed(broker, wire, sent):
    stranger = wire()
    stranger.send(sent)
    assert stranger.receive_end(5) is None

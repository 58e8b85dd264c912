"""Listeners promise different things: the clients of one wait for the disk, those of another do not."""

import sqlite3
from contextlib import contextmanager

import pytest
from harness.ports import reserve_port
from harness.wire import PINGREQ, PINGRESP, PUBACK, PUBLISH, SUBACK, SUBSCRIBE, Wire, frame, text

pytestmark = pytest.mark.martlet("has no such levels")


@contextmanager
def no_commits(store):
    """Holds the database's lock for writers, for which the broker waits 10 s."""
    connection = sqlite3.connect(store / "martlet.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("ROLLBACK")
    connection.close()


@pytest.mark.parametrize("level", ["interval 3600", "none"])
def test_only_clients_of_a_strict_listener_wait_for_the_disk(start_broker, tmp_path, level):
    weak_port = reserve_port()
    broker = start_broker(
        listener=False,
        configuration=f"allow_anonymous true\npersistence true\npersistence_location {tmp_path}\n"
        f"listener {{port}} 127.0.0.1\nlistener {weak_port} 127.0.0.1\nmartlet_durability {level}",
    )
    keeper = Wire(broker.port, "mqttv311")
    keeper.connect("keeper", clean=False)
    keeper.subscribe("kept/#", 1)
    keeper.close()
    strict, weak = Wire(broker.port, "mqttv311"), Wire(weak_port, "mqttv311")
    strict.connect("strict")
    with no_commits(tmp_path):
        weak.connect("weak", clean=False)
        weak.publish("kept/weak", "weak", qos=1)
        weak.receive(PUBACK)
        weak.send(frame(SUBSCRIBE, 2, b"\0\1" + text("own") + b"\0"))
        weak.receive(SUBACK)
        strict.publish("kept/strict", "strict", qos=1)
        strict.send(frame(PINGREQ, 0, b""))
        assert strict.receive().kind == PINGRESP, "PUBACK waits for what nothing waits for"
    strict.receive(PUBACK)
    broker.kill()
    broker.restart()
    keeper = Wire(broker.port, "mqttv311")
    assert keeper.connect("keeper", clean=False)[0]
    assert [keeper.receive(PUBLISH).topic for _ in range(2)] == ["kept/weak", "kept/strict"]
    assert Wire(weak_port, "mqttv311").connect("weak", clean=False)[0]

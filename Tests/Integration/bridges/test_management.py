"""Bridges that administrators add, change, pause and remove while the broker runs, and what a reload changes of those of files."""

import json
import signal

import pytest
from bridges.far_end import DISCONNECT, FarEnd
from bridges.links import is_connected
from harness.commands import run
from harness.waiting import wait_until

pytestmark = pytest.mark.martlet("2.0 manages no bridges")

PERSISTENT = "persistence true\npersistence_location {directory}\nsys_interval 1\n"


@pytest.fixture
def managing(start_broker, program, tmp_path):
    """Starts a broker that whoever may open its socket administers; gives it, and a function that does `martlet ctl bridge`."""

    def start(configuration: str = ""):
        place = tmp_path / "http.sock"
        broker = start_broker(configuration=f"listener 0 {place}\nprotocol http_api\n{configuration}\n")

        def bridge(*words: str, code: int = 0, given: str = "") -> str:
            done = run(program.path, "ctl", "bridge", *words, "--socket", place, standard_input=given.encode())
            assert done.code == code, done.output.decode() + done.complaints
            return done.output.decode() + done.complaints

        return broker, bridge

    return start


def state(bridge, name: str = "site") -> dict:
    return json.loads(bridge("show", name, "--json"))


def test_a_bridge_lives_as_administrators_say_and_outlives_the_broker(managing, start_broker, tools_for):
    other = start_broker(configuration="allow_anonymous true")
    here, bridge = managing(PERSISTENT)
    there, publish = tools_for(other.port).subscribe("#", qos=1), tools_for(here.port).publish
    said = bridge("add", "site", f"address 127.0.0.1:{other.port}", "--lines", "-",
                  given="topic a out 1\nremote_username u\nremote_password secret\nnotifications_local_only true\nrestart_timeout 1 2\n")
    assert said == f"The bridge site is added.\nIt is connected to 127.0.0.1:{other.port}.\n"
    is_connected(here, "site")
    publish("a", "1", qos=1)
    assert there.take_one().payload == b"1"
    wait_until(lambda: state(bridge)["state"] == "connected", "the loop has told how it is")
    row = state(bridge)
    assert (row["state"], row["address"], row["file"], row["paused"]) == ("connected", f"127.0.0.1:{other.port}", None, False)
    assert row["options"]["remote_password"] == "***" and "secret" not in bridge("show", "site")
    wait_until(lambda: state(bridge)["out_messages"] == 1, "it has counted the message")

    assert bridge("change", "site", "topic b out 1", "--unset", "remote_username", code=1) == (
        "Error: connection: remote_password needs remote_username too.\n")
    bridge("change", "site", "topic b out 1")
    is_connected(here, "site", count=2)
    publish("a", "not bridged", qos=1)
    publish("b", "2", qos=1)
    assert there.take_one().payload == b"2"

    assert bridge("pause", "site") == "The bridge site is paused. Messages for it wait.\n"
    for number in "34":
        publish("b", number, qos=1)
    wait_until(lambda: (state(bridge)["state"], state(bridge)["queue_messages"]) == ("paused", 2), "two messages wait")
    told = tools_for(here.port).subscribe("$SYS/broker/bridges/site/queue/messages", "$SYS/broker/bridges/site/state")
    wait_until(lambda: ">> $SYS/broker/bridges/site/queue/messages|32" in "\n".join(told.lines), "$SYS tells of them")
    here.stop()
    kept = here.directory / "martlet-bridges.json"
    assert kept.stat().st_mode & 0o77 == 0 and json.loads(kept.read_text())["paused"] == ["site"]

    here.restart()
    wait_until(lambda: state(bridge)["queue_messages"] == 2, "they wait after the restart")
    assert (state(bridge)["state"], state(bridge)["lag_ms"] >= 0) == ("paused", True)
    assert bridge("resume", "site") == f"The bridge site is resumed.\nIt is connected to 127.0.0.1:{other.port}.\n"
    assert [message.payload for message in there.take(2)] == [b"3", b"4"]
    publish("b", "5", qos=1)
    assert there.take_one().payload == b"5"

    assert bridge("remove", "site") == "The bridge site is removed, and what has waited for it.\n"
    assert bridge() == "There is no bridge.\n"
    assert bridge("show", "site", code=4) == "Error: There is no bridge site.\n"
    left = tools_for(here.port).subscribe("$SYS/broker/bridges/#", "$SYS/broker/connection/#")
    wait_until(lambda: left.take_rest() == [], "$SYS tells no more of it")
    here.stop()
    here.restart()
    assert json.loads(bridge("list", "--json"))["data"] == []


def test_a_bridge_of_a_file_is_paused_here_and_changed_there(managing, far):
    here, bridge = managing(f"{PERSISTENT}connection site\naddress 127.0.0.1:{far.port}\ntopic a out 1\nrestart_timeout 1 2\n")
    far.accept()
    is_connected(here, "site")
    line = state(bridge)["line"]
    assert here.configuration_path.read_text().splitlines()[line - 1] == "connection site"
    for words in [("remove", "site"), ("change", "site", "topic b")]:
        assert f"It is defined in {here.configuration_path} line {line}" in bridge(*words, code=1)
    assert "There is a bridge of this name." in bridge("add", "site", "address h", code=1)
    assert bridge("add", "other", "adress h", code=1) == "Error: Unknown configuration variable 'adress'. Did you mean address?\n"
    bridge("pause", "site")
    far.next(DISCONNECT)
    here.stop()
    here.restart()
    assert state(bridge)["state"] == "paused"
    bridge("resume", "site")
    far.accept()
    is_connected(here, "site")


def test_a_file_that_takes_up_a_name_has_it(managing, far):
    here, bridge = managing(PERSISTENT)
    bridge("add", "site", "address 127.0.0.1:9", "topic a out 1")
    text = here.configuration_path.read_text()
    here.configuration_path.write_text(f"{text}\nconnection site\naddress 127.0.0.1:{far.port}\ntopic a out 1\n")
    here.signal(signal.SIGHUP)
    here.wait_for_log(r"Warning: Bridge site is defined in \S+ line \d+ now; the bridge of that name that an administrator had added is removed\.")
    far.accept()
    is_connected(here, "site")
    assert state(bridge)["file"] == str(here.configuration_path)


@pytest.mark.parametrize("kind", ["immediate", "lazy"])
def test_a_reload_reaches_where_and_how_it_connects(managing, far, kind):
    """Another address, and the address that it connects from, are no settings that the two brokers speak of."""
    elsewhere = FarEnd()
    section = f"connection site\naddress 127.0.0.1:{far.port}\ntopic a out 1\nbridge_reload_type {kind}\nrestart_timeout 1 2\n"
    here, _ = managing(section)
    far.accept()
    is_connected(here, "site")
    path = here.configuration_path
    path.write_text(path.read_text().replace(f":{far.port}", f":{elsewhere.port}") + "bridge_bind_address 127.0.0.9\n")
    here.signal(signal.SIGHUP)
    here.wait_for_log("Config reloaded")
    if kind == "immediate":
        far.next(DISCONNECT)
    else:
        far.drop()
    elsewhere.accept()
    assert elsewhere.peer[0] == "127.0.0.9"
    is_connected(here, "site", count=2)
    elsewhere.close()


def test_the_address_that_a_bridge_connects_from_may_be_a_name(managing, far):
    """A name that is not known fails the attempt to connect, and neither the order nor the broker."""
    here, bridge = managing("")
    unknown = "x" * 64
    bridge("add", "lost", f"address 127.0.0.1:{far.port}", "topic a out 1", f"bridge_bind_address {unknown}")
    wait_until(lambda: "bridge_bind_address" in (state(bridge, "lost")["last_error"] or ""), "it has asked for the name")
    bridge("remove", "lost")
    bridge("add", "site", f"address 127.0.0.1:{far.port}", "topic a out 1", "bridge_bind_address localhost")
    far.accept()
    assert far.peer[0] == "127.0.0.1"
    is_connected(here, "site")


def test_the_queue_of_a_bridge_has_its_own_bound(managing, tools_for):
    here, bridge = managing("max_queued_messages 100")
    bridge("add", "site", "address 127.0.0.1:9", "topic a out 1", "martlet_bridge_max_queued_messages 3", "martlet_bridge_queue_drop refuse")
    wait_until(lambda: state(bridge)["last_error"] is not None, "it has tried to connect")
    for number in range(3):
        tools_for(here.port).publish("a", str(number), qos=1)
    said = tools_for(here.port).publish("a", "too many", qos=1)
    assert "151" in said or "Quota exceeded" in said, said
    wait_until(lambda: state(bridge)["queue_messages"] == 3, "as many wait as may")
    bridge("change", "site", "martlet_bridge_queue_drop oldest", "martlet_bridge_max_queued_bytes 1000000")
    tools_for(here.port).publish("a", "3", qos=1)
    wait_until(lambda: state(bridge)["queue_messages"] == 3, "the oldest message has given way")
    refused = bridge("change", "site", "martlet_bridge_queue_drop none", code=1)
    assert refused == 'Error: martlet_bridge_queue_drop: found "none", expected newest, oldest or refuse.\n'

"""A live collection with real servers: Martlet, which tells when it has sent all that it retains, and mosquitto, where that is a guess."""

import itertools
import random

import pytest
from client.cutting_proxy import CuttingProxy
from client.keeper import Keeper, Publisher, is_built, wait_shown

pytestmark = [pytest.mark.martlet("tries the client library that was built here"), is_built]


@pytest.fixture(params=["martlet", "mosquitto"])
def start_server(request, start_broker):
    """Starts a broker of each kind."""
    return start_broker if request.param == "martlet" else request.getfixturevalue("reference")


@pytest.fixture
def server(start_server):
    return start_server(configuration="")


@pytest.fixture
def publisher(server, wire_to) -> Publisher:
    return Publisher(wire_to(server.port))


@pytest.fixture
def way(server):
    """The way to the server, which can be closed."""
    proxy = CuttingProxy(server.port, [])
    yield proxy
    proxy.close()


@pytest.fixture
def keep(way, tmp_path):
    """Starts the program, which goes by that way."""
    keepers = []

    def start(*options) -> Keeper:
        keepers.append(Keeper(way.port, tmp_path / "keeper.db", *options))
        return keepers[-1]

    yield start
    for keeper in keepers:
        keeper.kill()


@pytest.fixture(params=["v5", "v311"])
def version(request) -> str:
    return request.param


def test_the_first_picture_is_whole(publisher, keep, version):
    for number in range(300):
        publisher.set(f"{number:03}", f"{number}")
    keeper = keep(version)
    assert keeper.change() == {f"+{number:03}={number}:confirmed" for number in range(300)}
    assert keeper.next("ready") == "300"
    keeper.finish()


def test_nothing_at_all_is_a_picture_too(publisher, keep, version):
    keeper = keep(version)
    assert keeper.next("ready") == "0"
    publisher.set("a", "1")
    assert keeper.change() == {"+a=1:confirmed"}


def test_a_reconnect_is_one_change_with_what_is_different(publisher, way, keep, version):
    for name in "abc":
        publisher.set(name, "1")
    keeper = keep(version)
    assert len(keeper.change()) == 3
    way.leave()
    publisher.set("a", "")
    publisher.set("b", "2")
    publisher.set("d", "1")
    way.come_back()
    assert keeper.change() == {"-a", "~b=2:confirmed", "+d=1:confirmed"}
    # And none where nothing is different.
    way.leave()
    way.come_back()
    publisher.set("e", "1")
    assert keeper.change() == {"+e=1:confirmed"}
    wait_shown(keeper, publisher.values)


def test_a_server_that_has_forgotten_everything(server, publisher, keep, version):
    publisher.set("a", "1")
    publisher.set("b", "1")
    keeper = keep(version)
    assert len(keeper.change()) == 2
    server.kill()
    server.restart()
    assert keeper.change() == {"-a", "-b"}


def test_entries_of_the_run_before_are_there_before_the_server_is(publisher, way, keep):
    publisher.set("a", "1")
    publisher.set("b", "1")
    keeper = keep()
    keeper.next("ready")
    keeper.wait_stored(2)
    keeper.finish()
    publisher.set("a", "")
    way.leave()
    keeper = keep()
    assert keeper.change() == {"+a=1:stored", "+b=1:stored"}
    way.come_back()
    assert keeper.change() == {"-a", "~b=1:confirmed"}


@pytest.mark.parametrize("when", ["always", "lost"])
def test_the_collection_is_what_the_server_retains_whatever_is_cut(publisher, way, keep, version, when):
    chance, values = random.Random(11), itertools.count(1)
    keeper = keep(version, when)
    keeper.next("ready")
    for _ in range(12):
        for _ in range(chance.randrange(60)):
            publisher.set(f"{chance.randrange(30):02}", chance.choice(["", f"{next(values)}"]))
            if chance.randrange(40) == 0:
                way.leave()
                way.come_back()
        way.leave()
        for _ in range(chance.randrange(30)):
            publisher.set(f"{chance.randrange(30):02}", chance.choice(["", f"{next(values)}"]))
        way.come_back()
    wait_shown(keeper, publisher.values)
    keeper.finish()


def test_writes_are_seen_at_once_and_confirmed(publisher, keep, version):
    publisher.set("a", "1")
    keeper = keep(version)
    assert keeper.change() == {"+a=1:confirmed"}
    keeper.tell("set a 2")
    assert keeper.change() == {"~a=2:pending"}
    assert keeper.next("confirmed:") == "set a 2"
    keeper.tell("remove a")
    assert keeper.next("confirmed:") == "remove a"
    publisher.values = {}
    wait_shown(keeper, {})
    keeper.finish()


def test_a_write_without_a_connection_waits_for_one(publisher, way, keep, version):
    publisher.set("a", "1")
    keeper = keep(version)
    assert keeper.change() == {"+a=1:confirmed"}
    way.leave()
    keeper.tell("set a 2")
    assert keeper.change() == {"~a=2:pending"}
    publisher.set("b", "1")
    way.come_back()
    assert keeper.next("confirmed:") == "set a 2"
    wait_shown(keeper, {"a": "2", "b": "1"})


def test_a_write_that_the_server_refuses_is_taken_back(start_server, wire_to, tmp_path):
    access = tmp_path / "access"
    access.write_text("topic readwrite kept/a\ntopic read kept/+\ntopic readwrite martlet/fence/#\ntopic read $SYS/#\n")
    access.chmod(0o600)
    server = start_server(configuration=f"acl_file {access}")
    Publisher(wire_to(server.port)).set("a", "1")
    keeper = Keeper(server.port, tmp_path / "keeper.db")
    try:
        keeper.next("ready")
        keeper.tell("set b 2")
        # Some servers have words of their own for it.
        assert keeper.next("the server refuses: not authorized").endswith(": set b 2")
        assert keeper.show() == {"a": "1"}
    finally:
        keeper.kill()


def test_a_write_without_a_connection_survives_the_end_of_its_process(publisher, way, keep, version):
    publisher.set("a", "1")
    publisher.set("b", "1")
    keeper = keep(version)
    assert len(keeper.change()) == 2
    way.leave()
    keeper.tell("set a 2")
    keeper.tell("set a 3")
    keeper.tell("remove b")
    keeper.tell("set c 1")
    # Each line is obeyed when the write of the one before is stored.
    assert keeper.show() == {"a": "3:pending", "c": "1:pending"}
    keeper.kill()

    keeper = keep(version)
    assert keeper.show() == {"a": "3:pending", "c": "1:pending"}
    way.come_back()
    publisher.values = {"a": "3", "c": "1"}
    wait_shown(keeper, publisher.values)
    keeper.finish()
    # Nothing is written once more.
    publisher.set("a", "4")
    keeper = keep(version)
    wait_shown(keeper, publisher.values)
    keeper.finish()

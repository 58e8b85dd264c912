"""Eclipse Paho for C, Debian's libpaho-mqtt-dev, in a process of its own: paho_c_client.c."""

import subprocess
from pathlib import Path

import pytest

from libraries.child import ChildClient
from libraries.scenarios import Scenarios, Version5Scenarios

BY_ITSELF = "Paho for C acknowledges by itself when a message has arrived"
WINDOW = "Paho for C sleeps up to a second whenever the server's receive maximum is used up: with any broker, 45 s for these"


class PahoCClient(ChildClient):
    program: Path

    @classmethod
    def command(cls):
        return [str(cls.program)]


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory):
    source = Path(__file__).with_name("paho_c_client.c")
    PahoCClient.program = tmp_path_factory.mktemp("paho_c") / "paho_c_client"
    subprocess.run(
        ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", source, "-o", PahoCClient.program, "-lpaho-mqtt3a"],
        check=True,
    )


class TestVersion311(Scenarios):
    library = PahoCClient
    version = 4
    cannot = {
        "test_what_was_in_flight_comes_again": BY_ITSELF,
        "test_what_was_acknowledged_by_hand_does_not": BY_ITSELF,
    }


class TestVersion5(Version5Scenarios):
    library = PahoCClient
    cannot = TestVersion311.cannot | {
        "test_receive_maximum_holds_back": BY_ITSELF,
        "test_a_thousand_in_order[1]": WINDOW,
        "test_a_thousand_in_order[2]": WINDOW,
    }

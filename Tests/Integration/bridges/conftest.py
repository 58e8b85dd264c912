"""Fixtures: two brokers with a bridge between them, either of them mosquitto's where it is installed."""

import pytest
from bridges.far_end import FarEnd


@pytest.fixture
def bridge_to(start_broker):
    """Starts a broker with a bridge to a port; `lines` are those of its section, without the address."""

    def start(port: int, lines: str, *, name: str = "b", configuration: str = "", address: str = "", **options):
        section = f"connection {name}\naddress {address or f'127.0.0.1:{port}'}\nrestart_timeout 1 2\n{lines}\n"
        return start_broker(configuration=f"{configuration}\n{section}", **options)

    return start



@pytest.fixture
def far():
    end = FarEnd()
    yield end
    end.close()

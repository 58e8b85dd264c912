"""Fixtures of HTTP: brokers with a listener for it."""

from collections.abc import Callable

import pytest
from harness.ports import reserve_port
from harness.site import Site


@pytest.fixture
def site(start_broker) -> Callable[..., Site]:
    """Starts a broker with a listener for HTTP, whose section goes on with the lines that are given."""

    def start(lines: str = "", configuration: str = "", listener: bool = True, **options) -> Site:
        port = reserve_port()
        mqtt = "" if listener else "listener {port} 127.0.0.1\n"
        http = f"listener {port} 127.0.0.1\nprotocol http_api\n{lines}"
        broker = start_broker(configuration=f"{configuration}\n{mqtt}{http}", listener=listener)
        return Site(broker, port, **options)

    return start

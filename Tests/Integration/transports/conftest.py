"""Fixtures of the transports: TLS listeners and clients."""

import ssl
import socket

import pytest
from harness.waiting import PATIENCE
from harness.wire import Wire


@pytest.fixture
def server_lines(authority) -> str:
    """The lines of a listener with TLS."""
    directory = authority.directory
    return f"listener {{port}} 127.0.0.1\ncertfile {directory}/server.crt\nkeyfile {directory}/server.key\n"


class SecureWire(Wire):
    """A bare MQTT connection over TLS."""

    def __init__(self, port: int, context: ssl.SSLContext, session=None, version: str = "mqttv5"):
        super().__init__(port, version)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost", session=session)


@pytest.fixture
def client_context(authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate))


def is_closed(connection: socket.socket) -> bool:
    """Whether the peer ends the connection within the tests' patience."""
    connection.settimeout(PATIENCE)
    try:
        while connection.recv(4096):
            pass
        return True
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False

"""As many sessions as a large broker keeps: each of their clients came, subscribed and went."""

import itertools
import selectors
import socket
import struct

from harness.wire import CONNECT, DISCONNECT, PUBLISH, SUBSCRIBE, frame, text

#: Connections at the same time, from so many addresses: one alone has no 100,000 ports.
_AT_ONCE = 200
_ADDRESSES = 50
_DAY = 86_400
_PATIENCE = 30.0


def leave_sessions(port: int, count: int, retains: bool = False):
    """Lets the clients `crowd-000000` … come and go; their sessions stay for a day, each subscribed to `crowd/NUMBER/#`.

    With `retains` each leaves a retained message at `crowd/NUMBER/state` too.
    """
    numbers = iter(range(count))
    with selectors.DefaultSelector() as selector:
        for number in itertools.islice(numbers, _AT_ONCE):
            _come(selector, port, number, retains)
        while selector.get_map():
            ready = selector.select(_PATIENCE)
            assert ready, f"the broker has answered none of {len(selector.get_map())} clients for {_PATIENCE} seconds"
            for key, _ in ready:
                if _is_let_in(key):
                    selector.unregister(key.fileobj)
                    key.fileobj.sendall(frame(DISCONNECT, 0, b""))
                    key.fileobj.close()
                    for number in itertools.islice(numbers, 1):
                        _come(selector, port, number, retains)


def _come(selector, port: int, number: int, retains: bool):
    """Connects, publishes and subscribes in one breath. The subscription wants no retained messages."""
    peer = socket.socket()
    # The system picks a port when it knows the other end, so that an address has enough of them.
    peer.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
    peer.bind((f"127.0.0.{2 + number % _ADDRESSES}", 0))
    peer.connect(("127.0.0.1", port))
    keeps = b"\x05\x11" + struct.pack(">I", _DAY)
    connect = frame(CONNECT, 0, text("MQTT") + b"\x05\x02" + b"\x00\x00" + keeps + text(f"crowd-{number:06}"))
    message = frame(PUBLISH, 1, text(f"crowd/{number}/state") + b"\x00away") if retains else b""
    peer.sendall(connect + message + frame(SUBSCRIBE, 2, b"\x00\x01\x00" + text(f"crowd/{number}/#") + b"\x21"))
    peer.setblocking(False)
    selector.register(peer, selectors.EVENT_READ, bytearray())


def _is_let_in(key) -> bool:
    """Whether CONNACK and SUBACK are here, and say that all is well."""
    data = key.fileobj.recv(4096)
    assert data, f"a client was not let in: {bytes(key.data)}"
    key.data.extend(data)
    end = 2 + key.data[1] if len(key.data) > 1 else len(key.data)
    if len(key.data) < end + 2 or len(key.data) < end + 2 + key.data[end + 1]:
        return False
    assert key.data[3] == 0 and key.data[-1] == 1, f"a client was not let in: {bytes(key.data)}"
    return True

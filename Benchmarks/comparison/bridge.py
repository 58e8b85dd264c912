"""Waits for a bridge between two brokers."""
import contextlib
import socket
import time

_TOPIC = b"bench/bridge/stands"
_WAIT_SECONDS = 20


def await_messages(near_port, far_port):
    """Publishes at the one until it arrives at the other."""
    with contextlib.ExitStack() as stack:
        near, far = (stack.enter_context(_connected(port)) for port in (near_port, far_port))
        far.sendall(_packet(0x82, b"\0\1" + _text(_TOPIC) + b"\0"))
        far.settimeout(0.1)
        received = b""
        end = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < end:
            near.sendall(_packet(0x30, _text(_TOPIC)))
            with contextlib.suppress(TimeoutError):
                received += far.recv(4096)
            if _TOPIC in received:
                return
    raise RuntimeError(f"no message came over the bridge within {_WAIT_SECONDS} s")


def _connected(port):
    client = socket.create_connection(("127.0.0.1", port), 5)
    client.sendall(_packet(0x10, _text(b"MQTT") + b"\4\2\0\0" + _text(b"compare-%d" % port)))
    if client.recv(4)[:1] != b"\x20":
        raise RuntimeError("the broker does not answer CONNECT")
    return client


def _packet(first_byte, body):
    return bytes((first_byte, len(body))) + body


def _text(text):
    return len(text).to_bytes(2, "big") + text

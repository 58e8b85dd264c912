"""Ports that nobody else is given while a test uses them."""

import errno
import fcntl
import os
import pathlib
import socket
import tempfile

# Below what kernels hand out by themselves (net.ipv4.ip_local_port_range, 32768 and up): no connection can come by one.
PORTS = range(12_000, 32_000)


def reserve_port() -> int:
    """A port that is free on every address, and that no test of this machine is given again before 20,000 others were."""
    path = pathlib.Path(tempfile.gettempdir()) / f"martlet-ports.{os.getuid()}"
    with path.open("a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        given = int(counter.read() or 0)
        for step in range(1, len(PORTS) + 1):
            port = PORTS[(given + step) % len(PORTS)]
            if is_free(port):
                counter.truncate(0)
                counter.write(str(given + step))
                return port
    raise OSError(f"no port from {PORTS.start} to {PORTS.stop} is free")


def has_ipv6() -> bool:
    """Whether one can listen on IPv6's loopback address here."""
    try:
        with socket.socket(socket.AF_INET6) as listener:
            listener.bind(("::1", 0))
    except OSError:
        return False
    return True


def is_free(port: int) -> bool:
    """Whether a listener of either family may bind the port, as the broker does it: with SO_REUSEADDR."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family) as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((address, port))
                listener.listen(1)
        except OSError as error:
            if family == socket.AF_INET6 and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # a machine without IPv6
                continue
            return False
    return True

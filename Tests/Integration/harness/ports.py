"""Ports that nobody else is given while a test uses them."""

import socket


def reserve_port() -> int:
    """A port of the kernel's choice that it will not choose again soon.

    A connection made and closed leaves the port in TIME_WAIT: a listener (which sets SO_REUSEADDR) may still bind it, and no
    other process is handed it as an ephemeral port meanwhile, so tests that run side by side cannot collide.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            accepted.close()
        return listener.getsockname()[1]

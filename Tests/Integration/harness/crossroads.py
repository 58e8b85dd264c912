"""A port whose connections go to one of several places each, by chance."""

import contextlib
import random
import socket
import threading


class Crossroads:
    """Bytes go through as they come; where one side ends, so does the other."""

    def __init__(self, ports: list[int], chance: random.Random):
        self._ports, self._chance = ports, chance
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()
        for end in list(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._chance.choice(self._ports)))
            except OSError:
                near.close()
                continue
            self._open |= {near, far}
            rest = [2]
            for source, target in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._carry, args=(source, target, rest), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, rest: list[int]):
        """One direction; whoever ends last closes both."""
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, target):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        rest.append(rest.pop() - 1)
        if rest[0] == 0:
            for end in (source, target):
                self._open.discard(end)
                end.close()

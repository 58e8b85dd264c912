"""A proxy between a client and its server that does to each connection what its plan says."""

import socket
import struct
import threading
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """What happens to one connection: after so many bytes in a direction it is ended in some way. None never."""

    up: int | None = None
    down: int | None = None
    #: "close": both ends see the end of the stream. "reset": both see a reset. "half": the one that sends is not heard any more, and hears
    #: on. "stall": nothing is carried any more.
    how: str = "reset"


class CuttingProxy:
    """Listens on `port` until it is closed; the first connection has the first plan, those beyond the plans are left alone."""

    def __init__(self, server_port: int, plans: Iterable[Plan]):
        self._server_port, self._plans = server_port, iter(plans)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        #: Those that are open, with how many of their two directions still carry.
        self._lock, self._pairs = threading.Lock(), {}
        #: How many connections were made.
        self.count = 0
        self._is_away = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()
        with self._lock:
            for pair in self._pairs:
                for end in pair:
                    self._end(end, "close")

    def leave(self):
        """Cuts all connections, and those that are made from now on."""
        with self._lock:
            self._is_away = True
            for pair in self._pairs:
                for end in pair:
                    self._end(end, "close")

    def come_back(self):
        with self._lock:
            self._is_away = False

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                self._end(client, "reset")
                continue
            with self._lock:
                if self._is_away:
                    self._end(client, "reset")
                    self._end(server, "reset")
                    continue
                plan = next(self._plans, Plan())
                self.count += 1
                self._pairs[client, server] = 2
            for source, target, most in [(client, server, plan.up), (server, client, plan.down)]:
                threading.Thread(target=self._serve, args=((client, server), source, target, most, plan.how), daemon=True).start()

    def _serve(self, pair, source: socket.socket, target: socket.socket, most: int | None, how: str):
        self._carry(source, target, most, how)
        with self._lock:
            self._pairs[pair] -= 1
            # What stalls stays, and what is half open is heard to its end.
            if self._pairs[pair] or how == "stall":
                return
            del self._pairs[pair]
        for end in pair:
            end.close()

    def _carry(self, source: socket.socket, target: socket.socket, most: int | None, how: str):
        carried = 0
        try:
            while data := source.recv(65536 if most is None else max(1, min(65536, most - carried))):
                target.sendall(data)
                carried += len(data)
                if most is not None and carried >= most:
                    return self._cut(source, target, how)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            self._end(target, "close")

    def _cut(self, source: socket.socket, target: socket.socket, how: str):
        if how == "half":
            target.shutdown(socket.SHUT_WR)
        elif how != "stall":
            self._end(source, how)
            self._end(target, how)

    @staticmethod
    def _end(end: socket.socket, how: str):
        try:
            if how == "reset":
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # Who waits in recv holds the connection open, whatever is closed: only what it is told of it ends.
                end.shutdown(socket.SHUT_RD)
            else:
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        except OSError:
            pass

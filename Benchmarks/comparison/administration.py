"""Administrators who page through a broker's clients while messages flow."""
import os
import re
import selectors
import socket
import statistics
import threading
import time

# Of a page, as the dashboard asks for it.
ROWS = 50

_NICENESS = 10
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CURSOR = re.compile(rb'"cursor": *"([^"]+)"')


class Administrators:
    """Connections of which each asks for the next page of clients as soon as it has the last one and has rested; at the end from the start.

    One thread of our own serves all of them: what it costs is said with `cpu_seconds`, as it is taken from the machine that is measured.
    """

    def __init__(self, port, token, count, pause=0.0):
        self.pages, self.seconds, self.cpu_seconds, self.error = 0, [], 0.0, None
        self._ended = threading.Event()
        self._people = [_Administrator(port, token) for _ in range(count)]
        self._pause = pause
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        for person in self._people:
            person.socket.close()
        if self.error:
            raise RuntimeError(f"an administrator got no page: {self.error}")

    def median_seconds(self):
        return statistics.median(self.seconds) if self.seconds else 0.0

    def _run(self):
        # In life they sit at machines of their own.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            self._serve()
        except (OSError, ValueError) as error:
            self.error = error
        self.cpu_seconds = time.thread_time()

    def _serve(self):
        with selectors.DefaultSelector() as selector:
            for person in self._people:
                selector.register(person.socket, selectors.EVENT_READ, person)
                person.ask()
            resting = []
            while not self._ended.is_set():
                wait = max(0.0, resting[0][0] - time.monotonic()) if resting else 0.1
                for key, _ in selector.select(min(wait, 0.1)):
                    if not key.data.has_page():
                        continue
                    self.pages += 1
                    self.seconds.append(time.monotonic() - key.data.asked_at)
                    resting.append((time.monotonic() + self._pause, key.data))
                # All rest equally long, so that the first to rest is the first to ask.
                while resting and resting[0][0] <= time.monotonic():
                    resting.pop(0)[1].ask()


class _Administrator:
    def __init__(self, port, token):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked_at = 0.0
        self._token, self._cursor, self._data, self._length = token, b"", bytearray(), None

    def ask(self):
        cursor = b"&cursor=" + self._cursor if self._cursor else b""
        self.asked_at = time.monotonic()
        self.socket.sendall(
            b"GET /api/martlet/v1/clients?limit=%d%s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n"
            % (ROWS, cursor, self._token.encode()))

    def has_page(self):
        """Reads on; whether all of an answer is there now."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise ValueError("the connection ended")
        self._data += data
        if self._length is None:
            head = self._data.find(b"\r\n\r\n")
            if head < 0:
                return False
            length = _LENGTH.search(self._data, 0, head + 2)
            if not self._data.startswith(b"HTTP/1.1 200") or not length:
                raise ValueError(bytes(self._data[:200]))
            self._length = head + 4 + int(length.group(1))
        if len(self._data) < self._length:
            return False
        cursor = _CURSOR.search(self._data, max(0, self._length - 400))
        self._cursor = cursor.group(1) if cursor else b""
        self._data, self._length = bytearray(), None
        return True

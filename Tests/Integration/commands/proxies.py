"""Small proxies between a client and its server: CONNECT of HTTP and SOCKS 5, with and without a login, and such as do it wrong."""

import base64
import socket
import threading
from dataclasses import dataclass, field

from harness.waiting import PATIENCE


def receive(stream: socket.socket, count: int) -> bytes:
    """So many bytes."""
    bytes_ = b""
    while len(bytes_) < count:
        piece = stream.recv(count - len(bytes_))
        if not piece:
            raise ConnectionError("the client has gone")
        bytes_ += piece
    return bytes_


@dataclass
class Proxy:
    """Listens until it is closed. `mood` says what it does to who asks: "willing", "refusing", "silent", "endless", "closing"."""

    kind: str
    login: str | None = None
    mood: str = "willing"
    #: The names that it was asked for, as they came.
    targets: list[str] = field(default_factory=list)
    #: What the names mean that nobody else knows.
    names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"{'http' if self.kind == 'http' else 'socks5h'}://{self.login + '@' if self.login else ''}127.0.0.1:{self.port}"

    def close(self):
        self._listener.close()
        for stream in self._open:
            stream.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket):
        try:
            if self.mood == "closing":
                client.recv(1)
                client.shutdown(socket.SHUT_RDWR)
            elif self.mood == "endless":
                client.sendall(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000)
            elif self.mood != "silent":
                server = self._ask_http(client) if self.kind == "http" else self._ask_socks(client)
                if server:
                    self._open.append(server)
                    threading.Thread(target=self._carry, args=(server, client), daemon=True).start()
                    self._carry(client, server)
        except OSError:
            pass

    def _dial(self, host: str, port: int) -> socket.socket:
        self.targets.append(f"{host}:{port}")
        return socket.create_connection((self.names.get(host, host), port), timeout=PATIENCE)

    def _ask_http(self, client: socket.socket) -> socket.socket | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += receive(client, 1)
        line, *fields = head.decode().split("\r\n")
        if self.login and f"Proxy-Authorization: Basic {base64.b64encode(self.login.encode()).decode()}" not in fields:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return None
        if self.mood == "refusing":
            client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            return None
        method, target, _ = line.split(" ")
        assert method == "CONNECT"
        host, port = target.rsplit(":", 1)
        server = self._dial(host.strip("[]"), int(port))
        client.sendall(b"HTTP/1.0 200 Connection established\r\nProxy-Agent: test\r\n\r\n")
        return server

    def _ask_socks(self, client: socket.socket) -> socket.socket | None:
        version, count = receive(client, 2)
        methods = receive(client, count)
        assert version == 5
        wanted = 2 if self.login else 0
        if wanted not in methods:
            client.sendall(b"\x05\xff")
            return None
        client.sendall(bytes([5, wanted]))
        if self.login:
            _, length = receive(client, 2)
            user = receive(client, length)
            password = receive(client, receive(client, 1)[0])
            is_right = f"{user.decode()}:{password.decode()}" == self.login
            client.sendall(bytes([1, 0 if is_right else 1]))
            if not is_right:
                return None
        version, command, _, kind = receive(client, 4)
        assert (version, command) == (5, 1)
        if kind == 3:
            host = receive(client, receive(client, 1)[0]).decode()
        else:
            host = socket.inet_ntop(*((socket.AF_INET, receive(client, 4)) if kind == 1 else (socket.AF_INET6, receive(client, 16))))
        port = int.from_bytes(receive(client, 2))
        if self.mood == "refusing":
            client.sendall(b"\x05\x02\x00\x01" + bytes(6))
            return None
        server = self._dial(host, port)
        client.sendall(b"\x05\x00\x00\x03\x01x\x00\x01")
        return server

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

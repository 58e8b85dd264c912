"""A listener for HTTP, and what it answers."""

import base64
import http.client
import json
import socket
import ssl
from dataclasses import dataclass, field

from harness.broker import Broker
from harness.waiting import PATIENCE


API = "/api/martlet/v1"


@dataclass
class Answer:
    status: int
    fields: dict[str, str]
    body: bytes


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


@dataclass
class Site:
    """A listener for HTTP of a broker."""

    broker: Broker
    port: int
    tls: ssl.SSLContext | None = None
    user: str | None = None
    password: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self.broker.wait_for_log("version .* running on")  # the port for MQTT may be open before the others are

    def connection(self) -> http.client.HTTPConnection:
        if self.tls:
            return http.client.HTTPSConnection("localhost", self.port, context=self.tls, timeout=PATIENCE)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, path: str, method: str = "GET", connection=None, **headers: str) -> Answer:
        own = connection or self.connection()
        fields = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.user is not None:
            fields["Authorization"] = "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        own.request(method, path, headers=fields)
        response = own.getresponse()
        answer = Answer(response.status, dict(response.getheaders()), response.read())
        if connection is None:
            own.close()
        return answer

    def status(self, path: str, method: str = "GET", **headers: str) -> int:
        return self.ask(path, method, **headers).status


def call(site, method: str, path: str, body=None, user: str | None = None, token: str | None = None, **fields: str):
    """Asks, and gives the status and the answer: JSON where it is that, else text."""
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    if user:
        headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection = site.connection()
    path = path if path.startswith("/") else f"{API}/{path}"
    connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    kind = response.getheader("Content-Type") or ""
    connection.close()
    return response.status, json.loads(text) if kind == "application/json" else text

"""A service that decides logins over HTTP: answers as the test says, and remembers what it was asked."""

import json
import socketserver
import ssl
import threading
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Question:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def values(self) -> dict:
        """What it says, from JSON or a form."""
        if self.headers.get("content-type", "").startswith("application/json"):
            return json.loads(self.body)
        return {name: values[0] for name, values in urllib.parse.parse_qs(self.body.decode()).items()}


@dataclass
class Answer:
    status: int = 200
    body: bytes | str | dict = b""
    headers: dict[str, str] = field(default_factory=dict)


class LoginService:
    """Runs until it is closed. `respond` gets a question and gives an answer; None lets the question wait for ever."""

    def __init__(self, respond: Callable[[Question], Answer | None], *, tls: ssl.SSLContext | None = None):
        self.respond = respond
        self.questions: list[Question] = []
        self.connections = 0
        self._end = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                service.connections += 1
                super().setup()

            def _serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                question = Question(self.command, self.path, headers, body)
                service.questions.append(question)
                answer = service.respond(question)
                if answer is None:
                    service._end.wait()
                    self.close_connection = True
                    return
                body, kind = answer.body, "text/plain"
                if isinstance(body, dict):
                    body, kind = json.dumps(body), "application/json"
                body = body.encode() if isinstance(body, str) else body
                self.send_response(answer.status)
                for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = _serve

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_):
                pass  # clients that go in the middle are a part of some tests

        self._server = Server(("127.0.0.1", 0), Handler)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def asked(self, path: str) -> list[dict]:
        return [question.values for question in self.questions if question.path == path]

    def close(self):
        self._end.set()
        self._server.shutdown()
        self._server.server_close()


class RawService:
    """Says the same bytes to everybody who connects, piece by piece, whatever is asked."""

    def __init__(self, pieces: Callable[[], object]):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.recv(65536)
                try:
                    for piece in pieces():
                        self.request.sendall(piece)
                except OSError:
                    pass

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

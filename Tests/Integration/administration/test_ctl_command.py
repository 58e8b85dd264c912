"""`martlet ctl`: its options, exit codes and screens, against an API whose answers are known."""

import http.server
import json
import os
import pty
import select
import threading
import time

import pytest
from harness.ports import reserve_port
from harness.program import run

pytestmark = pytest.mark.martlet("has no such command")

CLIENT = {
    "clientid": "press\x1b[31m-07", "username": None, "connected": True, "address": "10.1.0.7", "port": 4711, "proto_ver": 5,
    "subscriptions": 3, "queue_messages": 12, "output_bytes": 0, "lag_ms": 0, "received_messages": 1, "sent_messages": 2,
    "dropped": {"total": 4},
}  # fmt: skip
META = {"cursor": None, "count": None, "as_of": "2026-11-23T10:00:00.000Z"}
ANSWERS = {
    "GET /broker": (200, {"version": "1.0", "node": "plant", "live": True, "ready": True, "uptime_s": 60}),
    "GET /stats": (200, {"now": {"clients_connected": 1}, "dropped": {"total": 4}}),
    "GET /listeners": (200, {"data": []}),
    "GET /clients": (200, {"data": [CLIENT, {"clientid": "press-08"}, {"clientid": "press $(reboot)"}], "meta": META}),
    "GET /clients/nobody": (404, {"code": "NOT_FOUND", "message": "There is no such client."}),
    "DELETE /clients/a%2Fb/connection": (204, None),
    "POST /config/reload": (422, {"ok": False, "diagnostics": [{"severity": "error", "file": "/etc/m.conf", "line": 9, "message": "unknown"}]}),
    "POST /tokens": (403, {"code": "FORBIDDEN", "message": "Only administrators may do this."}),
}  # fmt: skip


class API(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = f"{self.command} {self.path.removeprefix('/api/martlet/v1').split('?')[0]}"
        self.server.asked.append((name, self.headers.get("Authorization")))
        status, body = ANSWERS.get(name, (404, {"code": "NOT_FOUND", "message": "There is no such route."}))
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *arguments):
        pass


@pytest.fixture
def api():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), API)
    server.asked = []
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def ctl(program, *arguments, code: int = 0) -> str:
    done = run(program, "ctl", *map(str, arguments))
    assert done.returncode == code, done.stdout
    return done.stdout


def test_a_table_for_people_and_the_same_json_for_programs(program, api):
    table = ctl(program, "clients", "--url", api.url)
    assert "press␛[31m-07" in table and "\x1b" not in table
    assert json.loads(ctl(program, "clients", "--json", "--url", api.url)) == ANSWERS["GET /clients"][1]
    assert "Martlet 1.0 on plant" in ctl(program, "status", "--url", api.url)


def test_exit_codes_say_what_went_wrong(program, api):
    assert ctl(program, "client", "nobody", "--url", api.url, code=4) == "Error: There is no client nobody.\n"
    assert "Only administrators" in ctl(program, "token", "create", "x", "--url", api.url, code=3)
    assert "/etc/m.conf:9: unknown" in ctl(program, "reload", "--url", api.url, code=1)
    assert "Connection refused" in ctl(program, "status", "--url", f"http://127.0.0.1:{reserve_port()}", code=2)
    assert ctl(program, "status", "--socket", "/nowhere/x.sock", code=2) == "Error: /nowhere/x.sock: No such file or directory.\n"
    assert "--url" in ctl(program, "status", "--url", "nonsense", code=64)
    assert "Did you mean" in ctl(program, "client5", code=64)


def test_names_and_tokens_go_out_as_they_are(program, api, tmp_path):
    (tmp_path / "token").write_text("mrt_secret\n")
    assert ctl(program, "kick", "a/b", "--url", api.url, "--token-file", tmp_path / "token") == "a/b is disconnected.\n"
    assert api.asked == [("DELETE /clients/a%2Fb/connection", "Bearer mrt_secret")]


def test_a_configuration_says_where_to_ask(program, api, tmp_path):
    (tmp_path / "m.conf").write_text(f"listener 1883\nlistener {api.server_port} 127.0.0.1\nprotocol http_api\n")
    assert "plant" in ctl(program, "status", "-c", tmp_path / "m.conf")
    (tmp_path / "n.conf").write_text("listener 1883\n")
    assert "no listener with protocol http_api" in ctl(program, "status", "-c", tmp_path / "n.conf", code=1)


def test_names_are_completed_and_none_that_a_shell_obeys(program, api):
    assert ctl(program, "complete", "press", "--url", api.url) == "press-08\n"


def test_top_on_a_terminal(program, api):
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(program.path, [str(program.path), "ctl", "top", "--url", api.url])
    seen, deadline = b"", time.monotonic() + 60
    while b"q quit" not in seen and time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 65536)
    os.write(terminal, b"q")
    try:
        while chunk := os.read(terminal, 65536):
            seen += chunk
    except OSError:
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"Martlet 1.0 on plant" in seen and b"press" in seen and b"\x1b[31m" not in seen
    # The alternate screen is taken and given back.
    assert seen.index(b"\x1b[?1049h") < seen.index(b"\x1b[?1049l")

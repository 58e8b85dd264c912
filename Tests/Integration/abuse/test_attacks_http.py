"""Attacks by HTTP: places, memory, the disk, the audit, sessions and names that point elsewhere. A well-behaved pair of clients is served beside."""

import base64
import hashlib
import http.client
import json
import os
import socket
import subprocess
import time

import pytest
from harness.ports import reserve_port
from harness.site import Site
from harness.waiting import PATIENCE, wait_until
from harness.wire import PUBACK, Wire

from abuse.crew import resident_bytes
from abuse.siege import SECONDS

pytestmark = [pytest.mark.martlet("2.0 has no HTTP"), pytest.mark.timeout(240 + 12 * SECONDS)]

#: Milliseconds that a message of the pair may take while other tests run beside.
LONGEST_MAX = 5000
API = "/api/martlet/v1/"


@pytest.fixture
def served(besiege, program, tmp_path):
    """A broker with HTTP on loopback, which ann administers and vic looks at, and the pair beside it."""

    def start(lines: str = ""):
        passwords = tmp_path / "passwords"
        for name in ["ann", "vic", "pair"]:
            create = [] if passwords.exists() else ["-c"]
            # Argon2 would take memory of its own while a password is checked.
            subprocess.run([program.path, "passwd", *create, "-H", "sha512-pbkdf2", "-I", "1000", "-b", str(passwords), name, "secret"], check=True)
        port = reserve_port()
        siege = besiege(
            f"password_file {passwords}\nmartlet_http_user ann admin\nmartlet_http_user vic viewer\n"
            f"martlet_http_token_file {tmp_path}/tokens\nmartlet_audit_log {tmp_path}/audit\n"
            f"listener {port} 127.0.0.1\nprotocol http_api\n{lines}"
        )
        return siege, Site(siege.broker, port)

    return start


def ask(site: Site, path: str, method: str = "GET", user: str | None = "ann", body=None, **headers):
    """The status, what was answered, and the answer's fields."""
    connection = site.connection()
    text = None if body is None else json.dumps(body)
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        fields["Content-Type"] = "application/json"
    if user is not None:
        fields["Authorization"] = "Basic " + base64.b64encode(f"{user}:secret".encode()).decode()
    connection.request(method, path if path.startswith("/") else API + path, body=text, headers=fields)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    kind = response.getheader("Content-Type") or ""
    return response.status, json.loads(content) if kind == "application/json" else content, dict(response.getheaders())


def dial(site: Site, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE, source_address=(source, 0))


def request(path: str, *fields: str, host: str = "localhost") -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}", *fields, "", ""]).encode()


LOGIN = "Authorization: Basic YW5uOnNlY3JldA=="


def is_live(site: Site, source: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE, source_address=(source, 0))
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def check_pair(siege):
    assert siege.measure().longest <= LONGEST_MAX, "the pair is delayed"
    siege.serve()


def test_http_places_silent_connections_of_one_address_leave_health_to_others(served):
    siege, site = served()
    silent = [dial(site) for _ in range(64)]
    for number in range(40):
        assert is_live(site, "127.0.0.2"), "health is served to another address"
        assert is_live(site, "127.0.0.1"), "health is served to the same one"
        silent.append(dial(site))
        if number % 10 == 0:
            assert ask(site, "clients")[0] == 200
    # Connections of many addresses, each of which has begun a request.
    begun = [dial(site, f"127.0.{number}.3") for number in range(100)]
    for connection in begun:
        connection.sendall(b"GET /livez HTTP/1.1\r\n")
    assert is_live(site, "127.0.0.2")
    check_pair(siege)
    for connection in silent + begun:
        connection.close()


def test_api_answer_memory_pages_that_nobody_reads(served):
    siege, site = served("max_connections 1000")
    wire = Wire(siege.broker.port)
    wire.connect("publisher")
    topics = [f"{number:03}" + "t" * 65_000 for number in range(300)]
    for number, topic in enumerate(topics, start=1):
        wire.publish(topic, "x", qos=1, retain=True, identifier=number)
        wire.receive(PUBACK)
    found, cursor, most = [], None, 0
    while cursor != "end":
        _, page, fields = ask(site, f"retained?filter=%23&limit=1000{'' if cursor is None else f'&cursor={cursor}'}")
        found += [row["topic"] for row in page["data"]]
        most = max(most, int(fields["Content-Length"]))
        cursor = page["meta"]["cursor"] or "end"
    assert sorted(found) == topics
    page_bytes_max = 1_500_000
    assert most <= page_bytes_max, f"a page of {most:,} bytes"
    before = resident_bytes(siege.broker.process.pid)
    unread = []
    for _ in range(60):
        unread.append(dial(site))
        unread[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread[-1].sendall(request(API + "retained?limit=1000", LOGIN))
    wait_until(lambda: ask(site, "clients")[0] == 200, "others are answered")
    check_pair(siege)
    more = resident_bytes(siege.broker.process.pid) - before
    assert more <= len(unread) * page_bytes_max, f"{more:,} bytes for answers that nobody reads"
    for connection in unread:
        connection.close()
    wire.close()


def test_http_body_memory_requests_that_wait(served):
    siege, site = served("max_connections 100")
    before = resident_bytes(siege.broker.process.pid)
    # A wrong password, whose answer is held back, holds up the requests behind it, whose bodies come nevertheless.
    wrong = "Authorization: Basic " + base64.b64encode(b"ann:wrong").decode()
    head = f"POST {API}publish HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    everything = request(f"{API}clients", wrong) * 3 + (head.encode() + b"x" * 1_000_000) * 5
    waiting = {dial(site): 0 for _ in range(60)}
    for connection in waiting:
        connection.setblocking(False)
    quiet_at = end_at = time.monotonic() + 10
    peak = before
    while time.monotonic() < min(quiet_at, end_at):
        peak = max(peak, resident_bytes(siege.broker.process.pid))
        for connection, sent in waiting.items():
            try:
                waiting[connection] += connection.send(everything[sent : sent + (1 << 18)])
            except OSError:
                continue  # as much as the kernel takes, and the broker; or the end
            quiet_at = time.monotonic() + 1
    check_pair(siege)
    assert ask(site, "clients")[0] == 200
    more = peak - before
    assert more <= 64 << 20, f"{more:,} bytes for requests that wait"
    for connection in waiting:
        connection.close()


def test_http_file_memory_readers_that_do_not_read(served, tmp_path):
    (tmp_path / "files").mkdir()
    content = os.urandom(1 << 20) * 15
    (tmp_path / "files/large.bin").write_bytes(content)
    siege, site = served(f"http_dir {tmp_path}/files\nmax_connections 100")
    assert ask(site, "/large.bin", user=None)[1] == content
    before = resident_bytes(siege.broker.process.pid)
    unread = [dial(site) for _ in range(60)]
    for connection in unread:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request("/large.bin"))
    assert hashlib.sha256(ask(site, "/large.bin", user=None)[1]).digest() == hashlib.sha256(content).digest()
    check_pair(siege)
    more = resident_bytes(siege.broker.process.pid) - before
    assert more <= 32 << 20, f"{more:,} bytes for readers that do not read"
    for connection in unread:
        connection.close()


def test_audit_disk_refusals_of_strangers_are_summed(served, tmp_path):
    siege, site = served()
    asked = 0
    begun = time.monotonic()
    connection = dial(site)
    while time.monotonic() - begun < 2:
        connection.sendall(request(f"{API}clients/{'n' * 7000}") * 8)
        asked += 8
        answered = b""
        while answered.count(b"HTTP/1.1 401") < 8:
            answered += connection.recv(1 << 16)
            assert len(answered) < 1 << 20
    connection.close()
    seconds = time.monotonic() - begun

    def entries():
        return [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]

    wait_until(lambda: sum(entry.get("count", 1) for entry in entries()) == asked, "every refusal is counted")
    size = (tmp_path / "audit").stat().st_size
    assert size <= 8000 * (seconds + 2), f"{size:,} bytes of audit for {asked} refusals in {seconds:.1f} s"
    check_pair(siege)


def test_audit_flush_what_administrators_did_stays(served):
    siege, site = served()
    assert ask(site, "clients/gone", "DELETE")[0] == 404
    connection = dial(site)
    for _ in range(300):
        connection.sendall(request(f"{API}clients/x") * 8)
        answered = b""
        while answered.count(b"HTTP/1.1 401") < 8:
            answered += connection.recv(1 << 16)
    connection.close()
    assert [entry["operation"] for entry in ask(site, "audit?kind=changes")[1]["data"]] == ["endSession"]
    assert "endSession" in [entry["operation"] for entry in ask(site, "audit?limit=4")[1]["data"]]
    assert {entry["status"] for entry in ask(site, "audit?kind=refusals")[1]["data"]} == {401}
    check_pair(siege)


def test_session_eviction_an_administrator_stays_logged_in(served):
    siege, site = served()
    status, made, _ = ask(site, "tokens", "POST", body={"name": "looker", "role": "viewer"})
    assert status == 201
    login = ask(site, "session", "POST", user=None, body={"username": "ann", "password": "secret"})
    cookie = login[2]["Set-Cookie"].split(";")[0]
    statuses = {ask(site, "session", "POST", user=None, body={"token": made["token"]})[0] for _ in range(300)}
    assert statuses == {200}
    assert ask(site, "session", user=None, Cookie=cookie)[1]["name"] == "ann"
    made = ask(site, "tokens", "POST", body={"name": "grafana", "role": "metrics"})[1]
    assert ask(site, "session", "POST", user=None, body={"token": made["token"]})[0] == 403
    check_pair(siege)


def test_rebinding_v1_a_name_that_points_here_reads_nothing(served, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/index.html").write_text("page")
    siege, site = served(f"http_dir {tmp_path}/files")
    paths = ["/api/v1/listeners", "/api/v1/systree", "/api/v1/version", "/", "/index.html", "/dashboard/", "/livez", "/nothing", "/api/nothing"]
    for path in paths:
        assert site.status(path, Host="evil.example") == 421, path
        assert site.status(path, Host=f"evil.example:{site.port}") == 421, path
        assert site.status(path, Host=f"localhost:{site.port}") == (404 if "nothing" in path else 200), path
    for method in ["POST", "DELETE", "OPTIONS"]:
        assert site.status("/index.html", method, Host="evil.example") == 421
    check_pair(siege)

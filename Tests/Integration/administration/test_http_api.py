"""mosquitto's `protocol http_api`: its three routes, files, logins and access, as its own suite asks for them, and what goes beyond."""

import gzip
import json
import os
import re
import signal
import socket
import ssl
import subprocess

import pytest
from harness.commands import run
from harness.ports import reserve_port
from harness.site import Site, UnixConnection
from harness.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.martlet("2.0 has no HTTP")

SYSTEM_TREE = [
    "clients/total", "clients/maximum", "clients/disconnected", "clients/connected", "clients/expired", "messages/stored",
    "store/messages/bytes", "subscriptions/count", "shared_subscriptions/count", "retained messages/count", "heap/current",
    "heap/maximum", "messages/received", "messages/sent", "bytes/received", "bytes/sent", "publish/bytes/received",
    "publish/bytes/sent", "packet/out/count", "packet/out/bytes", "connections/socket/count", "publish/messages/dropped",
    "publish/messages/received", "publish/messages/sent", "uptime",
]  # fmt: skip


# The routes


def test_unknown_methods_and_routes(site):
    served = site()
    assert served.status("/api/badrequest", "POST") == 405
    assert served.status("/post", "POST") == 405
    answer = served.ask("/api/v1/version", "DELETE")
    assert (answer.status, answer.body, answer.fields["Allow"]) == (405, b"Invalid HTTP Method\n", "GET, HEAD")
    for path in ["/api/missing", "/api/v1/version/", "/api/v1", "/api/v2/version", "/api/v1/Version", "/", "/index.html", "/missing"]:
        answer = served.ask(path)
        assert (answer.status, answer.body) == (404, b"Not found.\n"), path


def test_the_version_is_bare_text(site):
    answer = site().ask("/api/v1/version")
    assert answer.status == 200
    assert re.fullmatch(rb"\d+\.\d+\.\d+", answer.body)
    assert answer.fields["Access-Control-Allow-Origin"] == "*"


def test_the_listeners_are_told_byte_by_byte(start_broker, authority, tmp_path):
    mqtt, websockets, http = reserve_port(), reserve_port(), reserve_port()
    start = start_broker(
        configuration=f"allow_anonymous true\nlistener {{port}}\nlistener 0 {tmp_path}/mqtt.sock\n"
        f"certfile {authority.directory}/server.crt\nkeyfile {authority.directory}/server.key\n"
        f"listener {websockets}\nprotocol websockets\nlistener {http}\nprotocol http_api\nlistener_allow_anonymous true\n",
        listener=False,
    )
    answer = Site(start, http).ask("/api/v1/listeners")
    items = [f'"port":\t{start.port},\n\t\t\t"protocol":\t"mqtt",\n\t\t\t"tls":\tfalse', f'"path":\t"{tmp_path}/mqtt.sock",\n\t\t\t"protocol":\t"mqtt",\n\t\t\t"tls":\ttrue',
             f'"port":\t{websockets},\n\t\t\t"protocol":\t"websockets",\n\t\t\t"tls":\tfalse', f'"port":\t{http},\n\t\t\t"protocol":\t"httpapi",\n\t\t\t"tls":\tfalse']  # fmt: skip
    whole = ", ".join("{\n\t\t\t" + item + ',\n\t\t\t"mtls":\tfalse,\n\t\t\t"allow_anonymous":\ttrue\n\t\t}' for item in items)
    assert answer.body.decode() == '{\n\t"listeners":\t[' + whole + "]\n}"
    assert answer.fields["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("threads", ["1", "4"])
def test_the_system_tree_has_mosquittos_keys_and_no_other(start_broker, wire_to, threads):
    http = reserve_port()
    broker = start_broker("--threads", threads, configuration=f"listener {http} 127.0.0.1\nprotocol http_api")
    served = Site(broker, http)
    clients = []
    for number in range(5):
        clients.append(wire_to(broker.port))
        clients[-1].connect(f"client-{number}")
    clients[0].publish("a", "b", retain=True)
    clients[0].ping() if hasattr(clients[0], "ping") else None
    answer = served.ask("/api/v1/systree")
    assert answer.fields["Access-Control-Allow-Origin"] == "*"
    tree = json.loads(answer.body)
    assert list(tree) == [f"$SYS/broker/{name}" for name in SYSTEM_TREE]
    assert all(type(value) is int and value >= 0 for value in tree.values())
    assert answer.body.startswith(b'{\n\t"$SYS/broker/clients/total":\t5,\n')
    assert tree["$SYS/broker/clients/connected"] == 5
    wait_until(lambda: json.loads(served.ask("/api/v1/systree").body)["$SYS/broker/publish/messages/received"] == 1, "the message is counted")
    clients[0].close()
    wait_until(lambda: json.loads(served.ask("/api/v1/systree").body)["$SYS/broker/clients/connected"] == 4, "the client is gone")
    tree = json.loads(served.ask("/api/v1/systree").body)
    assert tree["$SYS/broker/clients/maximum"] == 5 and tree["$SYS/broker/heap/current"] > 0


def test_whoever_asks_over_http_is_no_client(site):
    """What mosquitto's own suite holds against a broker to which nobody has connected."""
    served = site()
    served.ask("/api/v1/version")
    tree = json.loads(served.ask("/api/v1/systree").body)
    idle = [
        "clients/total", "clients/expired", "subscriptions/count", "shared_subscriptions/count", "messages/received", "messages/sent",
        "bytes/received", "bytes/sent", "publish/bytes/received", "publish/bytes/sent", "packet/out/count", "packet/out/bytes",
        "publish/messages/dropped", "publish/messages/received", "publish/messages/sent",
    ]  # fmt: skip
    assert {name: tree[f"$SYS/broker/{name}"] for name in idle} == dict.fromkeys(idle, 0)
    assert served.status("/put", "PUT") == 405


def test_a_head_is_the_answers_without_its_body(site):
    served = site()
    whole, head = served.ask("/api/v1/version"), served.ask("/api/v1/version", "HEAD")
    assert head.body == b"" and head.fields["Content-Length"] == whole.fields["Content-Length"]


def test_a_listener_offers_what_it_is_told(site):
    served = site("martlet_http_serve metrics,health")
    assert served.status("/api/v1/version") == 404
    served.broker.configuration_path.write_text(served.broker.configuration_path.read_text().replace("metrics,health", "api"))
    served.broker.signal(signal.SIGHUP)
    served.broker.wait_for_log("Config reloaded")
    assert served.status("/api/v1/version") == 200


# Logins


@pytest.fixture
def users(program, tmp_path):
    for name in ["anna", "bert"]:
        path = tmp_path / "users"
        assert run(program.path, "passwd", *([] if path.exists() else ["-c"]), "-b", "-H", "sha512", path, name, f"secret-{name}").code == 0
    return tmp_path / "users"


def test_who_has_no_login_is_asked_for_one(site, users):
    served = site(configuration=f"allow_anonymous false\npassword_file {users}", listener=False)
    answer = served.ask("/api/v1/version")
    assert (answer.status, answer.body) == (401, b"Not authorised\n")
    assert answer.fields["WWW-Authenticate"] == 'Basic realm="Mosquitto API"'
    for path in ["/api/missing", "/file.txt"]:
        assert served.status(path) == 401, "who may not come in does not learn what there is"
    assert served.status("/file.txt", "POST") == 405
    served.user, served.password = "anna", "secret-anna"
    assert served.status("/api/v1/version") == 200
    assert served.status("/file.txt") == 404
    served.password = "wrong"
    assert served.status("/api/v1/version") == 401
    served.broker.wait_for_log(r"Login failed from 127\.0\.0\.1 port \d+: wrong password, client 'http-api'")
    served.user = "carl"
    assert served.status("/api/v1/version") == 401
    for value in ["Basic", "Basic ====", "Bearer x", "Basic dTpw"]:
        served.user = None
        assert served.status("/api/v1/version", Authorization=value) == 401


def test_passwords_are_guessed_slowly(site, users):
    served = site(configuration=f"allow_anonymous false\npassword_file {users}", listener=False, user="anna", password="wrong")
    for _ in range(6):
        assert served.status("/api/v1/version") == 401
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        # Held back answers hold up nobody else.
        connection.sendall(b"GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YW5uYTp3cm9uZw==\r\n\r\n")
        assert served.status("/post", "POST") == 405


def test_anonymous_clients_come_as_far_as_the_listener_lets_them(site, users):
    served = site("listener_allow_anonymous true", configuration=f"allow_anonymous false\npassword_file {users}", listener=False)
    assert served.status("/api/v1/version") == 200
    served.user, served.password = "anna", "wrong"
    assert served.status("/api/v1/version") == 401, "who gives a name is checked"


def test_access_is_a_line_for_the_path(site, users, tmp_path):
    (tmp_path / "rules").write_text("user anna\ntopic read /api/v1/version\nuser bert\ntopic read /api/v1/#\ntopic write /api/v1/version\npattern read /of/%u\n")
    os.chmod(tmp_path / "rules", 0o600)
    served = site(configuration=f"allow_anonymous false\npassword_file {users}\nacl_file {tmp_path}/rules", listener=False)
    served.user, served.password = "anna", "secret-anna"
    assert served.status("/api/v1/version") == 200
    assert served.status("/%61pi/v1/version") == 200
    answer = served.ask("/api/v1/listeners")
    assert (answer.status, answer.body) == (401, b"Not authorised\n")
    assert served.status("/of/anna") == 404 and served.status("/of/bert") == 401
    assert served.status("/api/v1/%23") == 401 and served.status("/api/v1/+") == 401
    served.user, served.password = "bert", "secret-bert"
    assert served.status("/api/v1/listeners") == 200
    assert served.status("/of/bert") == 404


def test_a_reload_takes_users_away(site, users):
    served = site(configuration=f"allow_anonymous false\npassword_file {users}", listener=False, user="anna", password="secret-anna")
    connection = served.connection()
    assert served.ask("/api/v1/version", connection=connection).status == 200
    users.write_text("".join(line for line in users.read_text().splitlines(True) if not line.startswith("anna:")))
    served.broker.signal(signal.SIGHUP)
    served.broker.wait_for_log("Config reloaded")
    assert served.ask("/api/v1/version", connection=connection).status == 401


def test_clients_that_leave_answers_unread_are_served_as_by_mosquitto(site, tmp_path):
    (tmp_path / "index.html").write_text("<html></html>")
    connection = site(f"http_dir {tmp_path}").connection()
    asked = [("POST", "/api/badrequest", 405), ("PUT", "/put", 405), ("GET", "/missing", 404), ("GET", "../../../etc/passwd", 404),
             ("GET", "/api/v1/version", 200), ("GET", "/api/v1/systree", 200), ("GET", "/index.html", 200), ("GET", "/", 200)]  # fmt: skip
    for method, path, status in asked:
        connection.request(method, path)
        response = connection.getresponse()
        assert (response.status, response.will_close) == (status, True), path
    assert response.read() == b"<html></html>"


def test_a_browser_keeps_its_connection(site):
    connection = site().connection()
    for path in ["/api/v1/version", "/missing"]:
        connection.request("GET", path, headers={"Connection": "keep-alive"})
        response = connection.getresponse()
        assert not response.will_close and response.read()


# Files


@pytest.fixture
def files(tmp_path):
    place = tmp_path / "www"
    (place / "sub").mkdir(parents=True)
    (place / "index.html").write_text("<!doctype html>" + "hello " * 200)
    (place / "sub" / "index.html").write_text("below")
    (place / "a b.txt").write_text("blank")
    (place / "data.bin").write_bytes(bytes(range(256)) * 40)
    (place / "script.js").write_text("let a = 1;\n" * 100)
    (place / ".hidden").write_text("hidden")
    (place / "empty.txt").write_text("")
    (tmp_path / "www-secret").mkdir()
    (tmp_path / "www-secret" / "file").write_text("secret")
    (tmp_path / "outside").write_text("secret")
    os.symlink(tmp_path / "outside", place / "link")
    os.symlink(tmp_path, place / "up")
    os.symlink(place / "data.bin", place / "inside")
    return place


def test_files_are_served_with_their_types(site, files):
    served = site(f"http_dir {files}")
    for path, name, kind in [
        ("/", "index.html", "text/html; charset=utf-8"), ("/index.html", "index.html", "text/html; charset=utf-8"),
        ("/sub/", "sub/index.html", "text/html; charset=utf-8"), ("/a%20b.txt", "a b.txt", "text/plain; charset=utf-8"),
        ("/data.bin", "data.bin", "application/octet-stream"), ("/script.js", "script.js", "text/javascript; charset=utf-8"),
        ("/empty.txt", "empty.txt", "text/plain; charset=utf-8"), ("/inside", "data.bin", "application/octet-stream"),
        ("/index.html?x=1", "index.html", "text/html; charset=utf-8"),
    ]:  # fmt: skip
        answer = served.ask(path)
        assert (answer.status, answer.body, answer.fields["Content-Type"]) == (200, (files / name).read_bytes(), kind), path
        assert answer.fields["X-Content-Type-Options"] == "nosniff"
    answer = served.ask("/sub")
    assert (answer.status, answer.fields["Location"]) == (308, "/sub/")
    assert served.status("/index.html", "POST") == 405
    assert served.status("/api/v1/version") == 200


@pytest.mark.parametrize("path", [
    "/../outside", "/%2e%2e/outside", "/..%2foutside", "/sub/../../outside", "/sub/%2e%2e/index.html", "/./index.html", "/link", "/up/outside",
    "/.hidden", "//index.html", "/sub//index.html", "/../www-secret/file", "/index.html/", "/index.html/x", "/missing", "/%2fetc%2fpasswd",
    "/sub%2findex.html", "/INDEX.HTML", "/" + "a" * 5000, "/" + "a/" * 2000,
])  # fmt: skip
def test_nothing_but_the_directory_is_served(site, files, path):
    answer = site(f"http_dir {files}").ask(path)
    assert (answer.status, answer.body) == (404, b"Not found.\n")


def test_a_file_that_is_known_is_not_sent_again(site, files):
    served = site(f"http_dir {files}")
    first = served.ask("/index.html")
    tag, time = first.fields["ETag"], first.fields["Last-Modified"]
    for fields in [{"If_None_Match": tag}, {"If_None_Match": f'"x", W/{tag}'}, {"If_None_Match": "*"}, {"If_Modified_Since": time}]:
        answer = served.ask("/index.html", **fields)
        assert (answer.status, answer.body, answer.fields["ETag"]) == (304, b"", tag), fields
    for fields in [{"If_None_Match": '"x"'}, {"If_Modified_Since": "Sun, 06 Nov 1994 08:49:37 GMT"}, {"If_None_Match": '"x"', "If_Modified_Since": time}]:
        assert served.status("/index.html", **fields) == 200, fields
    (files / "index.html").write_text("another")
    answer = served.ask("/index.html", If_None_Match=tag)
    assert (answer.status, answer.body) == (200, b"another")


def test_files_are_compressed_for_those_who_like_it(site, files):
    served = site(f"http_dir {files}")
    plain = served.ask("/index.html")
    answer = served.ask("/index.html", Accept_Encoding="br, gzip;q=0.5")
    assert answer.fields["Content-Encoding"] == "gzip" and gzip.decompress(answer.body) == plain.body
    assert len(answer.body) < len(plain.body) and answer.fields["ETag"] != plain.fields["ETag"]
    assert answer.fields["Vary"] == plain.fields["Vary"] == "Accept-Encoding"
    assert served.status("/index.html", Accept_Encoding="gzip", If_None_Match=answer.fields["ETag"]) == 304
    for path, encoding in [("/index.html", "gzip;q=0"), ("/index.html", "br"), ("/data.bin", "gzip"), ("/sub/", "gzip")]:
        assert "Content-Encoding" not in served.ask(path, Accept_Encoding=encoding).fields, (path, encoding)


# What lies below


def test_over_tls_with_certificates_that_are_renewed(site, authority):
    directory = authority.directory
    served = site(f"certfile {directory}/server.crt\nkeyfile {directory}/server.key", tls=ssl.create_default_context(cafile=str(authority.certificate)))
    kept = served.connection()
    assert served.ask("/api/v1/version", connection=kept, Connection="keep-alive").status == 200

    def serial() -> int:
        with served.tls.wrap_socket(socket.create_connection(("localhost", served.port)), server_hostname="localhost") as connection:
            return connection.getpeercert()["serialNumber"]

    before = serial()
    authority.issue("server")
    served.broker.signal(signal.SIGHUP)
    served.broker.wait_for_log("certificates read again")
    assert serial() != before
    assert served.ask("/api/v1/version", connection=kept, Connection="keep-alive").status == 200
    # What is no TLS is turned away, and costs nobody else.
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        while connection.recv(100):
            pass
    assert served.status("/api/v1/version") == 200


def test_over_a_unix_socket(start_broker, tmp_path):
    path = f"{tmp_path}/http.sock"
    start_broker(configuration=f"listener 0 {path}\nprotocol http_api").wait_for_log("running on")
    connection = UnixConnection(path)
    connection.request("GET", "/api/v1/listeners")
    assert f'"path":\t"{path}"' in connection.getresponse().read().decode()


def test_behind_a_proxy_that_tells_who_asks(site):
    served = site("enable_proxy_protocol 1\nmartlet_proxy_trusted 127.0.0.1", configuration="allow_anonymous false\npassword_file /dev/null", listener=False)
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE) as connection:
        connection.sendall(b"PROXY TCP4 192.0.2.9 192.0.2.1 4711 80\r\nGET /a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YW5uYTp4\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")
    served.broker.wait_for_log(r"Login failed from 192\.0\.2\.9 port 4711")


def test_a_broker_ends_while_it_is_asked(site):
    served = site()
    connections = [served.connection() for _ in range(10)]
    for connection in connections:
        assert served.ask("/api/v1/version", connection=connection).status == 200
    assert served.broker.stop() == 0


# Without a configuration file


def test_without_a_file_there_is_http_on_loopback_unless_the_port_is_taken(program, tmp_path):
    port = reserve_port()
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([program.path, "-p", str(port)], stdout=output, stderr=output, cwd=tmp_path)
    try:
        wait_until(lambda: "0 running on" in log.read_text(), "the broker runs")
        text = log.read_text()
        assert "Opening http api listen socket on port 9883." in text or "No HTTP for administration: " in text
        with log.open("ab") as output:
            second = subprocess.Popen([program.path, "-p", str(reserve_port())], stdout=output, stderr=output, cwd=tmp_path)
        try:
            wait_until(lambda: log.read_text().count("0 running on") == 2, "the other one runs too")
            assert re.search(r"No HTTP for administration: .*:9883 is in use by ", log.read_text())
        finally:
            second.send_signal(signal.SIGTERM)
            assert second.wait(10) == 0
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0

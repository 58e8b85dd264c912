"""Logins that services decide over HTTP: EMQX's JSON, mosquitto-go-auth's dialect, and services that are slow, down, or lie."""

import base64
import hashlib
import http.client
import itertools
import json
import re
import socket
import sqlite3
import subprocess
import time

import pytest
from harness.login_service import Answer, LoginService, RawService
from harness.ports import reserve_port
from harness.waiting import wait_until
from harness.wire import CONNACK, DISCONNECT, PUBACK, PUBLISH, Wire

pytestmark = pytest.mark.martlet("mosquitto has no such logins")

NOT_AUTHORIZED, SERVER_UNAVAILABLE = 0x87, 0x88
PASSWORDS = {"ann": "secret", "bob": "b"}


@pytest.fixture
def service():
    """Starts services that end with the test."""
    services = []

    def start(respond, **options) -> LoginService:
        services.append(LoginService(respond, **options))
        return services[-1]

    yield start
    for each in services:
        each.close()


@pytest.fixture
def raw():
    services = []

    def start(pieces) -> RawService:
        services.append(RawService(pieces))
        return services[-1]

    yield start
    for each in services:
        each.close()


def users_file(tmp_path, name="users", **users) -> str:
    """A password file of mosquitto's, with few iterations."""
    lines = []
    for user, password in users.items():
        salt = user.encode().ljust(12, b"-")
        digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
        lines.append(f"{user}:$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n")
    path = tmp_path / name
    path.write_text("".join(lines))
    return str(path)


def log_in(broker, user, password, client_id="c", version="mqttv5") -> int:
    wire = Wire(broker.port, version)
    try:
        return wire.connect(client_id, user=user, password=password)[1]
    finally:
        wire.close()


def by_password(question) -> Answer:
    values = question.values
    if values["username"] not in PASSWORDS:
        return Answer(body={"result": "ignore"})
    return Answer(body={"result": "allow" if PASSWORDS[values["username"]] == values.get("password") else "deny"})


class TestNative:
    def test_a_service_says_who_comes_in_and_what_they_may_do(self, start_broker, service):
        def respond(question):
            answer = by_password(question)
            if answer.body["result"] == "allow":
                answer.body["acl"] = [
                    {"permission": "allow", "action": "publish", "topic": "out/${clientid}"},
                    {"permission": "allow", "action": "subscribe", "topic": "out/#"},
                ]
            return answer

        users = service(respond)
        broker = start_broker(
            configuration=f"allow_anonymous false\nmartlet_http_auth_url http://127.0.0.1:{users.port}/login?v=1\nmartlet_auth_cache 60\nmartlet_auth_cache_jitter 5\n"
        )
        wire = Wire(broker.port)
        assert wire.connect("c1", user="ann", password="secret")[1] == 0
        asked = users.asked("/login?v=1")[0]
        assert asked == {"username": "ann", "password": "secret", "clientid": "c1", "peerhost": "127.0.0.1"}
        assert wire.subscribe("out/#") == 0
        assert wire.subscribe("in/#") == NOT_AUTHORIZED
        wire.publish("out/c1", "mine", qos=1, identifier=7)
        assert {wire.receive().kind, wire.receive().kind} == {PUBACK, PUBLISH}
        wire.publish("out/c2", "not mine", qos=1, identifier=8)
        assert wire.receive(PUBACK).body[2] == NOT_AUTHORIZED
        assert log_in(broker, "ann", "wrong") == NOT_AUTHORIZED
        assert log_in(broker, "eve", "x") == NOT_AUTHORIZED
        broker.wait_for_log("the login source http refuses it")
        # The same login is not asked for again, and one connection was enough for all.
        count = len(users.questions)
        assert log_in(broker, "ann", "secret", "c1") == 0
        assert len(users.questions) == count and users.connections == 1

    def test_a_listener_does_not_take_what_the_service_of_another_has_answered(self, start_broker, service):
        willing, strict = (service(lambda question, result=result: Answer(body={"result": result})) for result in ("allow", "deny"))
        second = reserve_port()
        lines = "allow_anonymous false\nmartlet_auth_cache 60\nmartlet_http_auth_url http://127.0.0.1:{}/\n"
        broker = start_broker(
            configuration=f"per_listener_settings true\nlistener {{port}} 127.0.0.1\n{lines.format(willing.port)}"
            f"listener {second} 127.0.0.1\n{lines.format(strict.port)}",
            listener=False,
        )
        assert log_in(broker, "ann", "secret") == 0
        wire = Wire(second)
        try:
            assert wire.connect("c", user="ann", password="secret")[1] == NOT_AUTHORIZED
        finally:
            wire.close()
        assert len(strict.questions) == 1

    def test_sources_are_asked_in_order_and_each_leaves_unknown_users_to_the_next(self, start_broker, service, tmp_path):
        users = service(by_password)
        path = users_file(tmp_path, ann="of the file", carl="c")
        configuration = f"allow_anonymous false\npassword_file {path}\nmartlet_http_auth_url http://127.0.0.1:{users.port}/\n"
        first = start_broker(configuration=configuration)
        # ann is the file's, and its word counts.
        assert log_in(first, "ann", "secret") == NOT_AUTHORIZED
        assert log_in(first, "ann", "of the file") == 0
        assert not users.questions
        assert log_in(first, "bob", "b") == 0
        second = start_broker(configuration=f"{configuration}martlet_auth_chain http password_file\n")
        assert log_in(second, "ann", "secret") == 0
        assert log_in(second, "carl", "c") == 0

    def test_a_login_that_ends_takes_the_connection_with_it(self, start_broker, service):
        end = int(time.time()) + 3
        users = service(lambda question: Answer(body={"result": "allow", "expire_at": end}))
        broker = start_broker(configuration=f"allow_anonymous false\nmartlet_http_auth_url http://127.0.0.1:{users.port}/\n")
        wire = Wire(broker.port)
        assert wire.connect("c", user="ann", password="x", keep_alive=0)[1] == 0
        packet = wire.receive(DISCONNECT)
        assert packet.reason == NOT_AUTHORIZED and b"the login has expired" in packet.body
        assert time.time() >= end - 1

    def test_a_login_that_has_ended_lets_nobody_in(self, start_broker, service):
        users = service(lambda question: Answer(body={"result": "allow", "expire_at": int(time.time()) - 100}))
        broker = start_broker(configuration=f"allow_anonymous false\nmartlet_http_auth_url http://127.0.0.1:{users.port}/\n")
        assert log_in(broker, "ann", "x") == NOT_AUTHORIZED
        broker.wait_for_log(r"the login source http says that its login ended 10\d s ago \(expire_at\), user 'ann'")

    def test_rules_of_users_of_a_file_come_from_a_service(self, start_broker, service, tmp_path):
        rules = service(
            lambda question: Answer(body={"result": "allow", "acl": {"all": ["home/%u"]}})
            if question.values["username"] == "ann"
            else Answer(status=404)
        )
        path, access = users_file(tmp_path, ann="a", bob="b"), tmp_path / "acl"
        access.write_text("pattern readwrite files/%u\n")
        broker = start_broker(
            configuration=f"allow_anonymous false\npassword_file {path}\nacl_file {access}\n"
            f"martlet_http_authorize_url http://127.0.0.1:{rules.port}/rules\nmartlet_auth_chain password_file\n"
        )
        for user, password, topic, other in [("ann", "a", "home/ann", "files/ann"), ("bob", "b", "files/bob", "home/bob")]:
            wire = Wire(broker.port)
            assert wire.connect(user, user=user, password=password)[1] == 0
            for name, reason in [(topic, 0x10), (other, NOT_AUTHORIZED)]:
                wire.publish(name, "x", qos=1)
                assert wire.receive(PUBACK).body[2] == reason, (user, name)
        assert [asked["username"] for asked in rules.asked("/rules")] == ["ann", "bob"]
        assert "password" not in rules.asked("/rules")[0]
        # Who does not take the broker's question has not said that there are no rules.
        for status in (400, 401, 403, 405, 201):
            rules.respond = lambda question, status=status: Answer(status=status)
            assert log_in(broker, "bob", "b") == SERVER_UNAVAILABLE, status
        broker.wait_for_log("The login source http_authorize answers 400 Bad Request")

    def test_the_service_is_known_by_its_certificate_and_knows_the_broker_by_a_token(self, start_broker, service, authority, tmp_path):
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.directory / "server.crt", authority.directory / "server.key")
        context.load_verify_locations(authority.directory / "ca.crt")
        context.verify_mode = ssl.CERT_OPTIONAL
        users = service(by_password, tls=context)
        token = tmp_path / "token"
        token.write_text("a-secret-token\n")
        lines = f"allow_anonymous false\nmartlet_http_auth_url https://localhost:{users.port}/\nmartlet_http_auth_token_file {token}\n"
        trusting = start_broker(configuration=f"{lines}martlet_http_auth_cafile {authority.directory / 'ca.crt'}\n")
        assert log_in(trusting, "ann", "secret") == 0
        assert users.questions[0].headers["authorization"] == "Bearer a-secret-token"
        context.verify_mode = ssl.CERT_REQUIRED
        known = start_broker(
            configuration=f"{lines}martlet_http_auth_cafile {authority.directory / 'ca.crt'}\n"
            f"martlet_http_auth_certfile {authority.directory / 'server.crt'}\n"
            f"martlet_http_auth_keyfile {authority.directory / 'server.key'}\n"
        )
        assert log_in(known, "ann", "secret", "known") == 0
        doubting = start_broker(configuration=lines)
        assert log_in(doubting, "ann", "secret") == SERVER_UNAVAILABLE
        doubting.wait_for_log("The login source http .*certificate verify failed")
        assert "a-secret-token" not in doubting.log + trusting.log and "secret" not in re.sub("secret-token", "", trusting.log)


def resident(broker) -> int:
    """Bytes of memory that are the broker's."""
    return int(open(f"/proc/{broker.process.pid}/statm").read().split()[1]) * 4096


def endless_head():
    yield b"HTTP/1.1 200 OK\r\n"
    for number in itertools.count():
        yield f"X-{number}: {'x' * 1000}\r\n".encode()


def endless_body():
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    while True:
        yield b" " * 65536


class TestBadServices:
    @pytest.mark.parametrize(
        ("pieces", "words"),
        [
            (lambda: [b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"], "redirects are not followed"),
            (lambda: [b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>"], "Content-Type text/html; expected application/json"),
            (lambda: [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"], "ends before it is whole"),
            (lambda: [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{"], "what is no JSON"),
            (lambda: [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n"], "is longer than"),
            (endless_head, "a head without an end"),
            (endless_body, "is longer than"),
            (lambda: [b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"], "answers 500"),
            (lambda: [], "closes the connection without an answer"),
        ],
        ids=["redirect", "type", "truncated", "no JSON", "1 GB", "endless head", "endless body", "500", "nothing"],
    )  # fmt: skip
    def test_what_no_answer_is_lets_nobody_in_and_is_told_once(self, start_broker, raw, pieces, words):
        users = raw(pieces)
        broker = start_broker(configuration=f"allow_anonymous false\nmartlet_http_auth_url http://127.0.0.1:{users.port}/\n")
        before = resident(broker)
        for _ in range(3):
            assert log_in(broker, "ann", "secret") == SERVER_UNAVAILABLE
        assert resident(broker) - before < 8 << 20, "what it is sent is not kept"
        assert log_in(broker, "ann", "secret", version="mqttv311") == 3
        broker.wait_for_log(f"The login source http .*{words}")
        assert len(re.findall("The login source http", broker.log)) <= 2
        assert "secret" not in broker.log

    def test_a_service_that_is_too_slow_is_not_waited_for(self, start_broker, service):
        users = service(lambda question: None)
        broker = start_broker(
            configuration=f"allow_anonymous false\nmartlet_http_auth_url http://127.0.0.1:{users.port}/\nmartlet_http_auth_timeout 1\n"
        )
        assert log_in(broker, "ann", "secret") == SERVER_UNAVAILABLE
        broker.wait_for_log("The login source http does not answer within 1 s")

    def test_a_client_that_was_let_in_before_comes_in_while_the_service_is_down_only_if_wanted(self, start_broker, service):
        users = service(by_password)
        url = f"allow_anonymous false\nmartlet_http_auth_url http://127.0.0.1:{users.port}/\n"
        strict, lenient = start_broker(configuration=url), start_broker(configuration=f"{url}martlet_auth_unavailable allow-cached\n")
        for broker in [strict, lenient]:
            assert log_in(broker, "ann", "secret") == 0
        users.respond = lambda question: Answer(status=503)
        assert log_in(strict, "ann", "secret") == SERVER_UNAVAILABLE
        assert log_in(lenient, "ann", "secret") == 0
        assert log_in(lenient, "ann", "other") == SERVER_UNAVAILABLE
        users.respond = lambda question: Answer(body={"result": "deny"})
        assert log_in(lenient, "ann", "secret") == NOT_AUTHORIZED
        users.respond = lambda question: Answer(status=503)
        assert log_in(lenient, "ann", "secret") == SERVER_UNAVAILABLE, "it was refused since"

    def test_a_thousand_logins_beside_a_dead_service_keep_nobody_of_the_file_waiting(self, start_broker, service, tmp_path):
        users = service(lambda question: None)
        path = users_file(tmp_path, carl="c")
        broker = start_broker(
            configuration=f"allow_anonymous false\npassword_file {path}\nmartlet_http_auth_url http://127.0.0.1:{users.port}/\n"
        )
        waiting = []
        for number in range(1000):
            wire = Wire(broker.port)
            wire.send(connect_packet(f"w{number}", "ann", f"p{number}"))
            waiting.append(wire)
        wait_until(lambda: len(users.questions) >= 60, "the service is asked as often as it may be")
        took = []
        for _ in range(3):
            began = time.monotonic()
            assert log_in(broker, "carl", "c", "file") == 0
            took.append(time.monotonic() - began)
        # A busy machine may hold one of them up; the dead one is waited for for seconds.
        assert min(took) < 1, took
        assert len(users.questions) <= 64
        for wire in waiting:
            wire.close()


HTTP = "listener 0 {directory}/http.sock\nprotocol http_api\n"


def explain(program, broker, user: str, password: str, *more: str) -> tuple[int, dict]:
    """What `martlet ctl login explain` says: its code, and the answer."""
    command = [program.path, "ctl", "login", "explain", user, *more, "--json", "--socket", str(broker.directory / "http.sock")]
    done = subprocess.run(command, input=f"{password}\n", capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


class TestExplained:
    def test_the_source_that_decides_is_named_with_what_the_others_say(self, start_broker, service, program, tmp_path):
        users = service(by_password)
        path = users_file(tmp_path, carl="c")
        broker = start_broker(
            configuration=f"allow_anonymous false\npassword_file {path}\nmartlet_http_auth_url http://127.0.0.1:{users.port}/\n{HTTP}"
        )
        code, found = explain(program, broker, "ann", "secret")
        assert (code, found["result"], found["decided_by"], found["username"]) == (0, "allowed", "http", "ann")
        assert [(step["source"], step["answer"]) for step in found["steps"]] == [("password_file", "unknown"), ("http", "allowed")]
        assert all(step["took_us"] >= 0 for step in found["steps"])
        code, found = explain(program, broker, "carl", "wrong")
        assert (code, found["reason"]) == (1, "password_file refuses the client: wrong password.")
        code, found = explain(program, broker, "carl", "c")
        assert (code, found["decided_by"], len(found["steps"])) == (0, "password_file", 1)
        users.respond = lambda question: Answer(status=503)
        code, found = explain(program, broker, "nobody", "x")
        assert (code, found["result"], found["steps"][-1]["answer"]) == (1, "unavailable", "failed")
        assert "answers 503" in found["reason"] and "Login failed" not in broker.log

    def test_the_query_of_a_url_which_may_be_a_key_is_shown_nowhere(self, start_broker, service, program):
        users = service(lambda question: Answer(status=204) if question.path.startswith("/rules") else by_password(question))
        url = f"http://127.0.0.1:{users.port}"
        broker = start_broker(
            configuration=f"allow_anonymous false\nmartlet_http_auth_url {url}/login?key=hush\nmartlet_http_authorize_url {url}/rules?key=hush\n{HTTP}"
        )
        assert log_in(broker, "ann", "secret") == 0
        assert [question.path for question in users.questions] == ["/login?key=hush", "/rules?key=hush"]
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(broker.directory / "http.sock"))
        connection.request("GET", "/api/martlet/v1/config")
        said = connection.getresponse().read().decode()
        connection.close()
        assert f"{url}/login?***" in said and f"{url}/rules?***" in said
        users.respond = lambda question: Answer(status=503)
        for _ in range(3):
            said += json.dumps(explain(program, broker, "bob", "b")[1])
            assert log_in(broker, "bob", "b") == SERVER_UNAVAILABLE
        broker.wait_for_log("Client c .*: the login source http answers 503 Service Unavailable\\.")
        assert "hush" not in said + broker.log

    def test_rules_of_the_login_say_what_the_client_may_do(self, start_broker, service, program, tmp_path):
        def respond(question):
            acl = [{"permission": "allow", "action": "publish", "topic": "out/%c", "qos": [1]}, {"permission": "deny", "action": "all", "topic": "#"}]
            return Answer(body={"result": "allow", "acl": acl, "is_superuser": question.values["username"] == "root"})

        users = service(respond)
        start_broker(
            configuration=f"allow_anonymous false\nmartlet_http_auth_url http://127.0.0.1:{users.port}/\nlistener 0 {tmp_path}/http.sock\nprotocol http_api\n"
        )

        def ctl(*words: str) -> tuple[int, list[str]]:
            done = subprocess.run([program.path, "ctl", *words, "--socket", tmp_path / "http.sock"], capture_output=True, text=True)
            return done.returncode, (done.stdout + done.stderr).splitlines()

        def ask(*words: str, user: str = "ann") -> tuple[int, str]:
            code, lines = ctl("login", "explain", user, "--client", "c1", "--no-password", *words)
            return code, lines[-1]

        assert ask("--publish", "out/c1", "--qos", "1") == (0, "Yes: the role http allows it.")
        assert ask("--publish", "out/c1", "--qos", "2") == (1, "No: the role http denies it.")
        assert ask("--subscribe", "out/#")[0] == 1 and ask("--receive", "x")[0] == 1
        assert ask("--publish", "other", user="root") == (0, "Yes: no rule binds the client, as its login says.")
        assert ask("--publish", "a/#")[0] == 1, "no topic"
        code, lines = ctl("may", "publish", "other", "--username", "ann")
        assert code == 0 and lines[1].startswith("A login may bring rules of its own, which are asked first"), lines

    def test_a_broker_without_a_chain_explains_its_file(self, start_broker, program, tmp_path):
        path = users_file(tmp_path, carl="c")
        broker = start_broker(configuration=f"allow_anonymous false\npassword_file {path}\n{HTTP}")
        assert explain(program, broker, "carl", "c")[0] == 0
        code, found = explain(program, broker, "dora", "x")
        assert (code, found["decided_by"], found["reason"]) == (1, None, "No source lets the client in: unknown user.")


def connect_packet(client_id: str, user: str, password: str) -> bytes:
    from harness.wire import CONNECT, frame, text

    return frame(CONNECT, 0, text("MQTT") + bytes([4, 0xC2, 0, 60]) + text(client_id) + text(user) + text(password))


def go_auth_hash(password: str) -> str:
    """As go-auth's `pw` makes it."""
    salt = b"0123456789abcdef"
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 1000, dklen=32)
    return f"PBKDF2$sha512$1000${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


class TestDatabase:
    LINES = (
        "allow_anonymous false\nauth_plugin /usr/share/mosquitto/go-auth.so\nauth_opt_backends sqlite,files\nauth_opt_files_password_path {directory}/pw\n"
        "auth_opt_sqlite_source {directory}/users.db\nauth_opt_sqlite_userquery SELECT pass FROM account WHERE username = ? LIMIT 1\n"
        "auth_opt_sqlite_superquery SELECT COUNT(*) FROM account WHERE username = $1 AND super = 1\n"
        "auth_opt_sqlite_aclquery SELECT topic FROM acl WHERE username = ? AND (rw & ?) != 0\n"
    )

    def make(self, tmp_path, users: list, rules: list):
        database = sqlite3.connect(tmp_path / "users.db")
        database.execute("CREATE TABLE account(username TEXT, pass TEXT, super INTEGER)")
        database.execute("CREATE TABLE acl(username TEXT, topic TEXT, rw INTEGER)")
        database.executemany("INSERT INTO account VALUES(?, ?, ?)", users)
        database.executemany("INSERT INTO acl VALUES(?, ?, ?)", rules)
        database.commit()
        return database

    def test_users_and_their_topics_come_from_the_database(self, start_broker, tmp_path):
        (tmp_path / "pw").write_text(f"carl:{go_auth_hash('c')}\n")
        users = [("ann", go_auth_hash("secret"), 1), ("bob", go_auth_hash("b"), 0), ("odd", "plain", 0), ("none", None, 0)]
        rules = [("bob", "out/%u/#", 2), ("bob", "in/%c", 5), ("bob", "part-%c/x", 2), ("bob", "#/no", 7)]
        database = self.make(tmp_path, users, rules)
        broker = start_broker(configuration=self.LINES)
        assert log_in(broker, "bob", "wrong") == NOT_AUTHORIZED
        assert log_in(broker, "carl", "c") == 0, "of the file"
        assert log_in(broker, "carl", "x") == log_in(broker, "none", "x") == log_in(broker, "' OR 1=1 --", "b") == NOT_AUTHORIZED
        assert log_in(broker, "odd", "plain") == NOT_AUTHORIZED
        broker.wait_for_log("Login failed .*: its password's hash in the login source sqlite has a form that is not known here, user 'odd'")
        wire = Wire(broker.port)
        assert wire.connect("c1", user="bob", password="b")[1] == 0
        assert wire.subscribe("in/c1") < 0x80 <= wire.subscribe("in/c2")
        for topic, refused in [("out/bob/x", False), ("part-c1/x", False), ("part-c2/x", True), ("in/c1", True)]:
            wire.publish(topic, "x", qos=1)
            assert (wire.receive(PUBACK).body[2:3] == bytes([NOT_AUTHORIZED])) == refused, topic
        wire.close()
        wire = Wire(broker.port)
        assert wire.connect("c2", user="ann", password="secret")[1] == 0
        wire.publish("anything", "x", qos=1)
        assert wire.receive(PUBACK).body[2:3] != bytes([NOT_AUTHORIZED])
        wire.close()
        database.execute("UPDATE account SET pass = ? WHERE username = 'bob'", (go_auth_hash("new"),))
        database.commit()
        assert log_in(broker, "bob", "b") == NOT_AUTHORIZED and log_in(broker, "bob", "new") == 0

    @pytest.mark.parametrize(("back_ends", "rules", "granted"), [("sqlite,files", None, []), ("files", None, ["own/carl", "any"]), ("sqlite,files", "pattern readwrite own/%u\n", ["own/carl"])])
    def test_users_of_a_file_without_rules_may_do_nothing_beside_other_back_ends(self, start_broker, tmp_path, back_ends, rules, granted):
        (tmp_path / "pw").write_text(f"carl:{go_auth_hash('c')}\n")
        self.make(tmp_path, [], [])
        lines = self.LINES.replace("backends sqlite,files", f"backends {back_ends}")
        if rules:
            (tmp_path / "acl").write_text(rules)
            lines += "auth_opt_files_acl_path {directory}/acl\n"
        wire = Wire(start_broker(configuration=lines).port)
        assert wire.connect("c1", user="carl", password="c")[1] == 0
        for topic in ["own/carl", "any"]:
            wire.publish(topic, "x", qos=1)
            assert (wire.receive(PUBACK).body[2:3] != bytes([NOT_AUTHORIZED])) == (topic in granted), topic

    def test_a_name_with_a_prefix_is_asked_of_its_back_end_alone(self, start_broker, service, tmp_path):
        names = ["db_ann", "web_ann", "ann", "odd_ann"]
        self.make(tmp_path, [(name, go_auth_hash("database"), 0) for name in names], [])
        users = service(lambda question: Answer(200 if question.values.get("password") == "service" else 404))
        broker = start_broker(
            configuration=self.LINES.replace("sqlite,files\nauth_opt_files_password_path {directory}/pw", "sqlite,http")
            + f"auth_opt_http_host 127.0.0.1:{users.port}\nauth_opt_http_getuser_uri /user\nauth_opt_check_prefix true\nauth_opt_prefixes db,web\n"
        )
        assert log_in(broker, "db_ann", "database") == log_in(broker, "web_ann", "service") == 0
        assert [values["username"] for values in users.asked("/user")] == ["web_ann"]
        assert log_in(broker, "web_ann", "database") == log_in(broker, "db_eve", "service") == NOT_AUTHORIZED
        for name in ("eve", "odd_eve"):
            assert log_in(broker, name, "service") == 0, "without a prefix that is known everybody is asked"
        assert log_in(broker, "ann", "database") == log_in(broker, "odd_ann", "database") == 0

    def test_a_database_that_is_not_there_keeps_nobody_of_the_file_out(self, start_broker, tmp_path):
        (tmp_path / "pw").write_text(f"carl:{go_auth_hash('c')}\n")
        broker = start_broker(configuration=self.LINES)
        assert log_in(broker, "ann", "secret") == SERVER_UNAVAILABLE
        broker.wait_for_log("The login source sqlite cannot be read: unable to open database file")
        assert log_in(broker, "carl", "c") == 0
        self.make(tmp_path, [("ann", go_auth_hash("secret"), 0)], [])
        assert log_in(broker, "ann", "secret") == 0
        (tmp_path / "users.db").write_bytes(b"no database" * 1000)
        assert log_in(broker, "ann", "secret") == SERVER_UNAVAILABLE


    def test_a_database_that_is_locked_is_not_waited_for_without_end(self, start_broker, tmp_path):
        (tmp_path / "pw").write_text(f"carl:{go_auth_hash('c')}\n")
        database = self.make(tmp_path, [("ann", go_auth_hash("secret"), 0)], [])
        broker = start_broker(configuration=self.LINES.replace("sqlite,files", "files,sqlite"))
        assert log_in(broker, "ann", "secret") == 0
        database.execute("BEGIN EXCLUSIVE")
        begun = time.monotonic()
        wires = [Wire(broker.port, source=f"127.0.1.{number}") for number in range(1, 5)]
        for number, wire in enumerate(wires):
            wire.send(connect_packet(f"c{number}", "ann", "secret"))
        assert log_in(broker, "carl", "c") == 0 and time.monotonic() - begun < 2, "who is of the file waits for nobody"
        assert [wire.receive(CONNACK, 15).body[1] for wire in wires] == [3] * 4, "server unavailable"
        # Five seconds for those who are asked for, and five to wait for that; not ten for each.
        assert time.monotonic() - begun < 14
        broker.wait_for_log("The login source sqlite cannot be read: database is locked")
        database.execute("ROLLBACK")
        assert log_in(broker, "ann", "secret") == 0
        database.execute("BEGIN EXCLUSIVE")
        wire = Wire(broker.port, source="127.0.1.9")
        wire.send(connect_packet("late", "ann", "secret"))
        time.sleep(0.5)
        begun = time.monotonic()
        broker.stop()
        assert time.monotonic() - begun < 4, "the end is not waited for either"
        database.execute("ROLLBACK")


class TestGoAuth:
    """Its documented questions and answers; Home Assistant's use of it is in test_home_assistant.py."""

    @pytest.mark.parametrize(
        ("mode", "parameters", "yes", "no"),
        [
            ("json", "json", Answer(body={"ok": True, "error": ""}), Answer(body={"ok": False, "error": "no"})),
            ("text", "form", Answer(body="ok"), Answer(body="wrong")),
            ("status", "form", Answer(204), Answer(404)),
        ],
    )
    def test_each_way_to_ask_and_to_answer(self, start_broker, service, mode, parameters, yes, no):
        users = service(lambda question: yes if question.values.get("password", "secret") == "secret" else no)
        broker = start_broker(
            configuration="allow_anonymous false\nplugin /opt/mosquitto-go-auth.so\nplugin_opt_backends http\n"
            f"plugin_opt_http_host 127.0.0.1:{users.port}\nplugin_opt_http_getuser_uri /user\nplugin_opt_http_superuser_uri /super\n"
            f"plugin_opt_http_response_mode {mode}\nplugin_opt_http_params_mode {parameters}\nplugin_opt_http_method put\n"
        )
        assert log_in(broker, "ann maria&x=y", "secret") == 0
        assert log_in(broker, "ann", "wrong") == NOT_AUTHORIZED
        assert users.questions[0].method == "PUT" and users.asked("/user")[0]["username"] == "ann maria&x=y"
        kind = {"json": "application/json", "form": "application/x-www-form-urlencoded"}[parameters]
        assert users.questions[0].headers["content-type"] == kind

    def test_topics_that_no_rule_grants_are_asked_for_one_by_one(self, start_broker, service):
        allowed = {("up/c1", 2), ("down/#", 4), ("one", 4), ("one", 1), ("secret", 4), ("gone", 2)}

        def respond(question):
            if question.path != "/acl":
                return Answer(404 if question.path == "/super" else 200)
            return Answer(200 if (question.values["topic"], question.values["acc"]) in allowed else 403)

        users = service(respond)
        broker = start_broker(
            configuration="allow_anonymous false\nplugin /opt/go-auth.so\nplugin_opt_backends http\nplugin_opt_cache true\n"
            f"plugin_opt_http_host 127.0.0.1\nplugin_opt_http_port {users.port}\nplugin_opt_http_getuser_uri /user\n"
            "plugin_opt_http_superuser_uri /super\nplugin_opt_http_aclcheck_uri /acl\n"
        )
        wire = Wire(broker.port)
        assert wire.connect("c1", user="ann", password="x")[1] == 0
        # One behind the other, without waiting.
        for identifier in (1, 2, 3):
            wire.publish("up/c1", str(identifier), qos=1, identifier=identifier)
        wire.publish("up/c2", "no", qos=1, identifier=4)
        answers = [wire.receive(PUBACK) for _ in range(4)]
        assert [answer.identifier for answer in answers] == [1, 2, 3, 4]
        assert [answer.body[2] for answer in answers] == [0x10, 0x10, 0x10, NOT_AUTHORIZED]
        assert [wire.subscribe(topic) for topic in ("down/#", "one", "secret", "up/#")] == [0, 0, NOT_AUTHORIZED, NOT_AUTHORIZED]
        asked = users.asked("/acl")
        assert asked[0] == {"acc": 2, "clientid": "c1", "topic": "up/c1", "username": "ann"}
        assert len([values for values in asked if values["topic"] == "up/c1" and values["acc"] == 2]) == 1

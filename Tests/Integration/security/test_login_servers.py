"""Logins that directories and databases decide: slapd, PostgreSQL and Redis, and servers that are slow, down, or lie."""

import base64
import hashlib
import itertools
import json
import re
import subprocess
import time

import pytest
from harness.login_servers import Liar, PostgreSQL, Redis, Slapd
from harness.site import UnixConnection
from harness.waiting import wait_until
from harness.wire import CONNACK, CONNECT, PUBACK, Wire, frame, text

#: A database or a directory begins, ends and begins again, with several brokers beside it: seconds, and on a busy machine many.
pytestmark = [pytest.mark.martlet("mosquitto has no such logins"), pytest.mark.timeout(240)]

NOT_AUTHORIZED, SERVER_UNAVAILABLE, SERVER_BUSY = 0x87, 0x88, 0x89
HTTP = "listener 0 {directory}/http{port}.sock\nprotocol http_api\n"
GO_AUTH = "allow_anonymous false\nauth_plugin /usr/share/mosquitto/go-auth.so\n"
CACHE = "auth_opt_cache true\nauth_opt_auth_cache_seconds {}\n"


@pytest.fixture
def server():
    """Starts servers that end with the test."""
    servers = []

    def start(kind, *arguments, **options):
        if not kind.is_here():
            pytest.skip(f"there is no {kind.programs[0]} here")
        servers.append(kind(*arguments, **options))
        return servers[-1]

    yield start
    for each in servers:
        each.close()


def go_auth_hash(password: str) -> str:
    """As go-auth's `pw` makes it."""
    salt = b"0123456789abcdef"
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 1000, dklen=32)
    return f"PBKDF2$sha512$1000${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


#: Of the password "secret", with the least cost.
BCRYPT = "$2a$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"


STRANGERS = itertools.count(1)


def log_in(broker, user, password) -> int:
    """As somebody else each time, so that nobody who fails is slowed down."""
    number = next(STRANGERS)
    wire = Wire(broker.port, source=f"127.1.{number // 250}.{number % 250 + 1}")
    try:
        return wire.connect(f"c{number}", user=user, password=password)[1]
    finally:
        wire.close()


def explain(program, broker, user: str, password: str) -> dict:
    """What `martlet ctl login explain` answers."""
    command = [program.path, "ctl", "login", "explain", user, "--json", "--socket", str(broker.directory / f"http{broker.port}.sock")]
    return json.loads(subprocess.run(command, input=f"{password}\n", capture_output=True, text=True).stdout)


def log_in_again(broker, password: str) -> int:
    """As bob, whose answer may be remembered: always the same client from the same address."""
    wire = Wire(broker.port)
    try:
        return wire.connect("again", user="bob", password=password)[1]
    finally:
        wire.close()


def figures(broker, source: str) -> dict[str, int]:
    """What the metrics say of a source: its answers by result, how many were measured, and whether it is down."""
    connection = UnixConnection(str(broker.directory / f"http{broker.port}.sock"))
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = {result: int(count) for result, count in re.findall(rf'^martlet_login_source_answers_total{{source="{source}",result="(\w+)"}} (\d+)$', text, re.M)}
    for name, key in [("martlet_login_source_seconds_count", "measured"), ("martlet_login_source_down", "down")]:
        found[key] = int(re.search(rf'^{name}{{source="{source}"}} (\d+)$', text, re.M)[1])
    return found


def check_memory_figures_and_alarm(start_broker, program, users, source: str, lines: str, cache: str, set_password):
    """Of a source whose bob has the password "b": what is remembered of its answers, counted, said to administrators, and raised when it is down."""

    def start(seconds: int, more=""):
        return start_broker(configuration=lines + cache.format(seconds) + more + HTTP)

    def alarms(broker) -> list[str]:
        command = [program.path, "ctl", "alarms", "--json", "--socket", str(broker.directory / f"http{broker.port}.sock")]
        return [f"{row['name']} {row['of']}" for row in json.loads(subprocess.run(command, capture_output=True, text=True).stdout)["data"]]

    patient, brief = start(600), start(1, "martlet_auth_unavailable allow-cached\n")
    assert log_in_again(patient, "b") == log_in_again(brief, "b") == 0
    assert log_in(patient, "bob", "wrong") == log_in(patient, "eve", "x") == NOT_AUTHORIZED
    told = explain(program, patient, "bob", "b")
    assert (told["result"], told["decided_by"], told["username"]) == ("allowed", source, "bob")
    assert [(step["source"], step["answer"]) for step in told["steps"]] == [(source, "allowed")]
    # Another password holds when the answer's time is over, and not before.
    set_password("new")
    assert log_in_again(patient, "b") == 0
    wait_until(lambda: log_in_again(brief, "b") == NOT_AUTHORIZED, "the other password is noticed")
    assert log_in_again(brief, "new") == log_in_again(patient, "new") == 0
    counted = figures(patient, source)
    assert counted == {"allowed": 3, "refused": 1, "unknown": 1, "failed": 0, "remembered": 1, "measured": 5, "down": 0}
    # Who is remembered does not hide that nobody answers.
    users.stop()
    for number in range(3):
        assert log_in_again(patient, "new") == 0
        assert log_in(patient, "bob", f"other {number}") == SERVER_UNAVAILABLE
    assert figures(patient, source) == {**counted, "failed": 3, "remembered": 4, "measured": 8, "down": 1}
    told = explain(program, patient, "bob", "new")
    assert (told["result"], told["decided_by"], told["steps"][0]["answer"]) == ("unavailable", None, "failed")
    wait_until(lambda: alarms(patient) == [f"login_source_down {source}"], "the alarm is raised")

    def is_let_in_unasked() -> bool:
        assert log_in_again(brief, "new") == 0
        return figures(brief, source)["failed"] > 0

    wait_until(is_let_in_unasked, "nobody answers when the time is over")
    assert log_in(brief, "bob", "new") == SERVER_UNAVAILABLE, "another client than the one that is remembered"
    users.run()
    wait_until(lambda: log_in(patient, "bob", "new") == 0, "it is asked again")
    patient.wait_for_log(f"The login source {source} answers again")
    assert figures(patient, source)["down"] == 0
    set_password("b")


def may(broker, user, password, client_id="c1") -> dict:
    """Whether a client may publish to and subscribe to topics."""
    wire = Wire(broker.port)
    assert wire.connect(client_id, user=user, password=password)[1] == 0

    def publish(topic):
        wire.publish(topic, "x", qos=1)
        return wire.receive(PUBACK).body[2:3] != bytes([NOT_AUTHORIZED])

    return {"publish": publish, "subscribe": lambda topic: wire.subscribe(topic) < 0x80, "close": wire.close}


DIRECTORY = """
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example,dc=org
objectClass: organizationalUnit
ou: groups

dn: cn=broker,dc=example,dc=org
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: broker
userPassword: broker's own

dn: uid=ann,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: ann
cn: Ann
sn: A
employeeType: super
userPassword: secret

dn: uid=bob,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: bob
cn: Bob
sn: B
userPassword: b

dn: uid=b\\2Co\\+b\\28\\2A\\29,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
uid: b,o+b(*)
cn: Odd
sn: O
userPassword: o

dn: cn=one,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
cn: one
uid: twin
sn: T
userPassword: t

dn: cn=two,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
cn: two
uid: twin
sn: T
userPassword: t

dn: cn=writers,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: writers
member: uid=bob,ou=people,dc=example,dc=org
description: out/%u/#
description: part-%c/x
businessCategory: 2

dn: cn=readers,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: readers
member: uid=bob,ou=people,dc=example,dc=org
member: uid=ann,ou=people,dc=example,dc=org
description: in/#
businessCategory: 5
"""


class TestDirectory:
    """One broker and one slapd each, asked for all that there is: they are quick, but not for nothing."""

    SEARCH = (
        "allow_anonymous false\nmartlet_ldap_bind_dn cn=broker,dc=example,dc=org\nmartlet_ldap_bind_password broker's own\n"
        "martlet_ldap_user_dn ou=people,dc=example,dc=org\nmartlet_ldap_user_filter (&(objectClass=person)(uid=%u))\n"
        "martlet_ldap_superuser_filter (&(uid=%u)(employeeType=super))\nmartlet_ldap_group_dn ou=groups,dc=example,dc=org\n"
    )

    def test_users_are_found_and_prove_who_they_are_and_their_groups_say_what_they_may_do(self, start_broker, program, server):
        slapd = server(Slapd, DIRECTORY)
        groups = "martlet_ldap_group_filter (&(objectClass=groupOfNames)(member=%d))\nmartlet_ldap_topic_attribute description\nmartlet_ldap_access_attribute businessCategory\n"
        broker = start_broker(configuration=f"{self.SEARCH}{groups}martlet_ldap_url ldap://127.0.0.1:{slapd.port}\n{HTTP}")
        assert log_in(broker, "bob", "wrong") == log_in(broker, "eve", "x") == log_in(broker, "twin", "t") == NOT_AUTHORIZED
        # The directory would let anybody in who has no password.
        assert log_in(broker, "bob", "") == log_in(broker, "", "b") == NOT_AUTHORIZED
        assert log_in(broker, "b,o+b(*)", "o") == 0, "no letter of a name is a part of the filter"
        for name in ("*", "b*", "bob)(uid=*", "bob\\2a", "*)(|(uid=*"):
            assert log_in(broker, name, "b") == NOT_AUTHORIZED, name
        bob = may(broker, "bob", "b")
        assert bob["publish"]("out/bob/x") and bob["publish"]("part-c1/x") and not bob["publish"]("part-c2/x")
        assert not bob["publish"]("in/x") and bob["subscribe"]("in/+") and not bob["subscribe"]("out/bob/x")
        bob["close"]()
        ann = may(broker, "ann", "secret")
        assert ann["publish"]("anything") and ann["subscribe"]("#")
        ann["close"]()
        found = explain(program, broker, "ann", "wrong")
        assert found["reason"] == "ldap refuses the client: wrong password." and found["steps"][0]["source"] == "ldap"
        assert explain(program, broker, "twin", "t")["reason"].endswith("several entries of the directory have its name.")
        # It goes away, and comes back: a connection that was kept is not missed.
        slapd.stop()
        for _ in range(3):
            assert log_in(broker, "bob", "b") == SERVER_UNAVAILABLE
        broker.wait_for_log("The login source ldap cannot be reached: Connection refused")
        slapd.run()
        wait_until(lambda: log_in(broker, "bob", "b") == 0, "the directory is asked again")
        assert "secret" not in broker.log and "broker's own" not in broker.log
        lines = f"{self.SEARCH}martlet_ldap_url ldap://127.0.0.1:{slapd.port}\n"
        check_memory_figures_and_alarm(
            start_broker, program, slapd, "ldap", lines, "martlet_auth_cache {}\n", lambda password: slapd.set_password("bob", password)
        )

    def test_entries_by_a_pattern_a_comparison_and_roles(self, start_broker, server, tmp_path):
        slapd = server(Slapd, DIRECTORY)
        url = f"allow_anonymous false\nmartlet_ldap_url ldapi://{str(slapd.path).replace('/', '%2F')}\n"
        pattern = start_broker(configuration=f"{url}martlet_ldap_user_dn uid=%u,ou=people,dc=example,dc=org\n")
        assert log_in(pattern, "bob", "b") == log_in(pattern, "b,o+b(*)", "o") == 0
        for name in ("ann", "eve", "bob,ou=people,dc=example,dc=org", "x+uid=bob"):
            assert log_in(pattern, name, "b") == NOT_AUTHORIZED, name
        roles = [{"rolename": "readers", "acls": [{"acltype": "subscribePattern", "topic": "in/#", "allow": True}]}]
        (tmp_path / "dynsec.json").write_text(json.dumps({"clients": [], "groups": [], "roles": roles}))
        comparing = start_broker(
            configuration=f"{self.SEARCH}{url.replace('allow_anonymous false', '')}martlet_ldap_compare_attribute userPassword\nmartlet_ldap_role_attribute cn\n"
            "plugin mosquitto_dynamic_security.so\nplugin_opt_config_file {directory}/dynsec.json\n"
        )
        assert log_in(comparing, "bob", "wrong") == log_in(comparing, "eve", "x") == NOT_AUTHORIZED
        bob = may(comparing, "bob", "b")
        assert bob["subscribe"]("in/x") and not bob["subscribe"]("out/x") and not bob["publish"]("in/x")
        bob["close"]()

    def test_a_name_counts_as_the_directory_spells_it(self, start_broker, server):
        """The directory takes BOB for bob, and a ban or a rule of bob's does not."""
        bob = DIRECTORY[DIRECTORY.index("dn: uid=bob,"):].split("\n\n")[0]
        closed = "dn: ou=closed,dc=example,dc=org\nobjectClass: organizationalUnit\nou: closed\n\n" + bob.replace("ou=people", "ou=closed")
        slapd = server(Slapd, f"{DIRECTORY}\n{closed}\n")
        url = f"martlet_ldap_url ldap://127.0.0.1:{slapd.port}\n"
        found = start_broker(configuration=f"{self.SEARCH}{url}")
        pattern, unseen = (
            start_broker(configuration=f"allow_anonymous false\n{url}martlet_ldap_user_dn uid=%u,ou={place},dc=example,dc=org\n")
            for place in ("people", "closed")
        )
        for broker in (found, pattern, unseen):
            assert log_in(broker, "bob", "b") == 0
            for name in ("BOB", "bob "):
                assert log_in(broker, name, "b") == NOT_AUTHORIZED, name
        for broker in (found, pattern):
            broker.wait_for_log("Login failed .*: the directory has another spelling of its name: \"bob\", user 'BOB'")
        unseen.wait_for_log("Login failed .*: the directory does not show how its name is spelled, .*, user 'BOB'")

    def test_a_directory_has_to_show_a_certificate_that_is_its_own(self, start_broker, server, authority):
        slapd = server(Slapd, DIRECTORY, authority)
        common = "allow_anonymous false\nmartlet_ldap_user_dn ou=people,dc=example,dc=org\n"
        trusted = f"{common}martlet_ldap_cafile {authority.certificate}\n"
        for url in (f"ldaps://localhost:{slapd.tls_port}", f"ldap://localhost:{slapd.port}\nmartlet_ldap_starttls true"):
            assert log_in(start_broker(configuration=f"{trusted}martlet_ldap_url {url}\n"), "bob", "b") == 0
            stranger = start_broker(configuration=f"{common}martlet_ldap_url {url}\n")
            assert log_in(stranger, "bob", "b") == SERVER_UNAVAILABLE
            stranger.wait_for_log("The login source ldap does not answer: TLS: .*certificate")
        # Who asks has to show one too.
        authority.issue("broker", "/CN=broker")
        demanding = server(Slapd, DIRECTORY, authority, more="TLSVerifyClient demand\n")
        url = f"{trusted}martlet_ldap_url ldaps://localhost:{demanding.tls_port}\n"
        own = f"martlet_ldap_certfile {authority.directory}/broker.crt\nmartlet_ldap_keyfile {authority.directory}/broker.key\n"
        assert log_in(start_broker(configuration=url), "bob", "b") == SERVER_UNAVAILABLE
        assert log_in(start_broker(configuration=url + own), "bob", "b") == 0
        other = start_broker(configuration=f"{trusted}martlet_ldap_url ldaps://127.0.0.2:{slapd.tls_port}\n")
        assert log_in(other, "bob", "b") == SERVER_UNAVAILABLE

    def test_go_auths_lines_stay_as_they_are(self, start_broker, server):
        slapd = server(Slapd, DIRECTORY)
        broker = start_broker(
            configuration=f"{GO_AUTH}auth_opt_backends ldap\nauth_opt_ldap_url ldap://127.0.0.1:{slapd.port}\n"
            "auth_opt_ldap_user_dn ou=people,dc=example,dc=org\nauth_opt_ldap_group_dn ou=groups,dc=example,dc=org\n"
            "auth_opt_ldap_bind_dn cn=broker,dc=example,dc=org\nauth_opt_ldap_bind_password broker's own\nauth_opt_ldap_user_filter (uid=%s)\n"
            "auth_opt_ldap_group_filter (member=uid=%s,ou=people,dc=example,dc=org)\nauth_opt_ldap_superuser_filter (&(uid=%s)(employeeType=super))\n"
            "auth_opt_ldap_acl_topic_pattern_attribute description\nauth_opt_ldap_acl_acc_attribute businessCategory\n"
        )
        bob = may(broker, "bob", "b")
        assert bob["subscribe"]("in/x") and bob["publish"]("out/bob/x") and not bob["publish"]("in/x")
        bob["close"]()
        ann = may(broker, "ann", "secret")
        assert ann["publish"]("anything")
        ann["close"]()


class TestRedis:
    LINES = GO_AUTH + "auth_opt_backends redis\nauth_opt_redis_host 127.0.0.1\nauth_opt_redis_port PORT\nauth_opt_redis_password it's\n"

    def test_users_and_their_topics_come_from_their_keys(self, start_broker, program, server):
        keys = {
            "ann": BCRYPT, "ann:su": "true", "bob": go_auth_hash("b"), "bob:sacls": {"in/%c"}, "bob:racls": {"in/%c"}, "bob:rwacls": {"both"},
            "bob:wacls": {"out/%u/#"}, "common:sacls": {"news/#"}, "common:wacls": {"#/no"}, "odd": "plain",
        }  # fmt: skip
        redis = server(Redis, "it's", keys)
        broker = start_broker(configuration=self.LINES.replace("PORT", str(redis.port)) + HTTP)
        assert log_in(broker, "bob", "wrong") == log_in(broker, "eve", "x") == NOT_AUTHORIZED
        for name in ("ann:su", "bob:sacls", "common:sacls", "bob\r\nFLUSHALL"):
            assert log_in(broker, name, "true") in (NOT_AUTHORIZED, 0x85, 0x84, 0x86), name
        bob = may(broker, "bob", "b")
        assert bob["publish"]("out/bob/x") and bob["publish"]("both") and not bob["publish"]("in/c1")
        assert bob["subscribe"]("in/c1") and bob["subscribe"]("news/x") and not bob["subscribe"]("in/c2") and not bob["subscribe"]("both")
        bob["close"]()
        ann = may(broker, "ann", "secret")
        assert ann["publish"]("anything")
        ann["close"]()
        assert explain(program, broker, "ann", "wrong")["reason"] == "redis refuses the client: wrong password."
        assert log_in(broker, "odd", "plain") == NOT_AUTHORIZED
        check_memory_figures_and_alarm(
            start_broker, program, redis, "redis", self.LINES.replace("PORT", str(redis.port)), CACHE, lambda password: redis.put("bob", go_auth_hash(password))
        )
        redis.stop()
        assert log_in(broker, "bob", "b") == SERVER_UNAVAILABLE
        redis.password = "another"
        redis.run()
        wait_until(lambda: log_in(broker, "bob", "b") == SERVER_UNAVAILABLE and "WRONGPASS" in explain(program, broker, "bob", "b")["reason"], "its word is told")
        assert "it's" not in broker.log


class TestPostgreSQL:
    LINES = GO_AUTH + (
        "auth_opt_backends postgres\nauth_opt_pg_host HOST\nauth_opt_pg_port PORT\nauth_opt_pg_dbname postgres\nauth_opt_pg_user USER\nauth_opt_pg_password it's\n"
        "auth_opt_pg_userquery SELECT pass FROM account WHERE username = $1 LIMIT 1\n"
        "auth_opt_pg_superquery SELECT COUNT(*) FROM account WHERE username = $1 AND super\n"
        "auth_opt_pg_aclquery SELECT topic FROM acl WHERE username = $1 AND (rw & $2) != 0\n"
    )
    SQL = "CREATE TABLE account(username text, pass text, super boolean); CREATE TABLE acl(username text, topic text, rw integer);\n" + "".join(
        [
            "".join(f"INSERT INTO account VALUES ('{name}', '{hash_}', {super_});" for name, hash_, super_ in [
                ("ann", BCRYPT, "true"), ("bob", go_auth_hash("b"), "false"), ("odd", "plain", "false")]),
            "INSERT INTO account VALUES ('none', NULL, false);",
            "INSERT INTO acl VALUES ('bob', 'out/%u/#', 2), ('bob', 'in/%c', 5), ('bob', '#/no', 7), ('bob', NULL, 7);",
            "SET password_encryption = 'scram-sha-256'; CREATE ROLE scram LOGIN PASSWORD 'it''s'; CREATE ROLE plain LOGIN PASSWORD 'it''s';",
            "SET password_encryption = 'md5'; CREATE ROLE old LOGIN PASSWORD 'it''s'; GRANT SELECT ON account, acl TO scram, plain, old;",
        ]
    )  # fmt: skip
    ACCESS = "hostnossl all scram 127.0.0.1/32 scram-sha-256\nhostssl all scram 127.0.0.1/32 scram-sha-256\nhost all old 127.0.0.1/32 md5\nhostssl all plain 127.0.0.1/32 password\n"

    def lines(self, port, user, host="127.0.0.1", more="") -> str:
        return self.LINES.replace("HOST", host).replace("PORT", str(port)).replace("USER", user) + (more or "auth_opt_pg_sslmode disable\n")

    # A database is a second of work: all that is asked of one stands in one test.
    def test_users_and_their_topics_come_from_the_database(self, start_broker, program, server, authority):
        database = server(PostgreSQL, self.SQL, self.ACCESS, authority)
        broker = start_broker(configuration=self.lines(database.port, "scram") + HTTP)
        for name in ("none", "bob'; DROP TABLE account; --"):
            assert log_in(broker, name, "x") == NOT_AUTHORIZED, name
        assert log_in(broker, "bob", "wrong") == NOT_AUTHORIZED
        assert log_in(broker, "odd", "plain") == NOT_AUTHORIZED
        broker.wait_for_log("Login failed .*: its password's hash in the login source postgresql has a form that is not known here, user 'odd'")
        bob = may(broker, "bob", "b")
        assert bob["subscribe"]("in/c1") and not bob["subscribe"]("in/c2")
        assert bob["publish"]("out/bob/x") and not bob["publish"]("in/c1")
        bob["close"]()
        ann = may(broker, "ann", "secret")
        assert ann["publish"]("anything")
        ann["close"]()
        assert explain(program, broker, "bob", "wrong")["reason"] == "postgresql refuses the client: wrong password."
        check_memory_figures_and_alarm(
            start_broker, program, database, "postgresql", self.lines(database.port, "scram"), CACHE,
            lambda password: database.ask(f"UPDATE account SET pass = '{go_auth_hash(password)}' WHERE username = 'bob'"),
        )  # fmt: skip
        # Older servers, and each degree of TLS.
        assert log_in(start_broker(configuration=self.lines(database.port, "old")), "bob", "b") == 0
        full = f"auth_opt_pg_sslmode verify-full\nauth_opt_pg_sslrootcert {authority.certificate}\n"
        assert log_in(start_broker(configuration=self.lines(database.port, "plain", "localhost", full)), "bob", "b") == 0
        assert log_in(start_broker(configuration=self.lines(database.port, "scram", more="auth_opt_pg_sslmode require\n")), "bob", "b") == 0
        untrusted = start_broker(configuration=self.lines(database.port, "scram", more="auth_opt_pg_sslmode verify-ca\n"))
        assert log_in(untrusted, "bob", "b") == SERVER_UNAVAILABLE
        untrusted.wait_for_log("The login source postgresql does not answer: TLS: .*certificate")
        # Who says nothing of TLS has what go-auth has then.
        assert log_in(start_broker(configuration=self.lines(database.port, "plain", "localhost", full.splitlines(True)[1])), "bob", "b") == 0
        # What it says is told, and what it is told stays secret.
        database.ask("ALTER ROLE scram PASSWORD 'another'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'scram';")
        assert log_in(broker, "bob", "b") == SERVER_UNAVAILABLE
        assert "password authentication failed" in explain(program, broker, "bob", "b")["reason"]
        database.ask("ALTER ROLE scram PASSWORD 'it''s'; INSERT INTO acl SELECT 'bob', 't' || n, 7 FROM generate_series(1, 100000) n;")
        assert "gives more than 1000 topics of a user" in explain(program, broker, "bob", "b")["reason"]
        database.ask("DELETE FROM acl; INSERT INTO acl VALUES ('bob', repeat('x', 10000000), 7);")
        assert "answers more than 1048576 bytes" in explain(program, broker, "bob", "b")["reason"]
        database.ask("DROP TABLE acl;")
        assert 'relation \\"acl\\" does not exist' in explain(program, broker, "bob", "b")["reason"]
        assert "it's" not in broker.log


def endless(first: bytes):
    yield first
    while True:
        yield b"x" * 65536


LDAP = "allow_anonymous false\nmartlet_ldap_url ldap://127.0.0.1:PORT\nmartlet_ldap_user_dn ou=people,dc=example,dc=org\nmartlet_ldap_timeout 1\n"
SOURCES = {
    "ldap": LDAP,
    "redis": TestRedis.LINES,
    "postgresql": TestPostgreSQL.LINES.replace("HOST", "127.0.0.1").replace("USER", "u") + "auth_opt_pg_sslmode disable\n",
}  # fmt: skip


class TestBadServers:
    @pytest.mark.parametrize(
        ("source", "pieces", "words"),
        [
            ("ldap", lambda: [b"HTTP/1.1 400 Bad Request\r\n\r\n"], "answers what LDAP does not say"),
            ("ldap", lambda: endless(b"\x30\x84\x3f\xff\xff\xff"), "answers more than 1048576 bytes"),
            ("ldap", lambda: [b"\x30\x05\x02\x01\x01\x65"], "does not answer in time"),
            ("ldap", lambda: [b"\x30\x0c\x02\x01\x01\x65\x07\x0a\x01\x0a\x04\x00\x04\x00"], "answers the search for the user with a referral to another server"),
            ("redis", lambda: [b"-ERR no\r\n"], "does not let the broker in: .*ERR no"),
            ("redis", lambda: [b"+OK\r\n+OK\r\n$1000000000\r\n"], "answers more than 1048576 bytes"),
            ("redis", lambda: [b"+OK\r\n+OK\r\n:1\r\n"], "answers another type than a text"),
            ("redis", lambda: endless(b"+OK\r\n+"), "answers more than 1048576 bytes"),
            ("postgresql", lambda: [b"HTTP/1.1 400 Bad Request\r\n\r\n"], "answers what PostgreSQL does not say"),
            ("postgresql", lambda: [b"R\0\0\0\x08\0\0\0\x07"], "asks for a way to log in that is not known here"),
            ("postgresql", lambda: [b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", b"D\0\0\0\x0b\0\x01\0\0\0\x09x"], "answers what PostgreSQL does not say"),
            ("postgresql", lambda: [b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", *itertools.repeat(b"D\0\0\0\x0b\0\x01\0\0\0\x01x", 2000)], "answers what PostgreSQL does not say"),
            ("postgresql", lambda: [], "does not answer: it has ended the connection"),
        ],
    )  # fmt: skip
    def test_what_no_answer_is_lets_nobody_in(self, start_broker, server, source, pieces, words):
        users = server(Liar, pieces)
        broker = start_broker(configuration=SOURCES[source].replace("PORT", str(users.port)))
        assert log_in(broker, "ann", "secret") == SERVER_UNAVAILABLE
        broker.wait_for_log(f"The login source {source} .*{words}")
        assert "secret" not in broker.log

    def test_a_thousand_logins_beside_a_dead_directory_keep_nobody_of_the_file_waiting(self, start_broker, server, tmp_path):
        silence = server(Liar, lambda: iter(lambda: time.sleep(60) or b"x", None))
        (tmp_path / "users").write_text(f"carl:{go_auth_hash('c')}\n")
        broker = start_broker(
            configuration="password_file {directory}/users\n" + LDAP.replace("PORT", str(silence.port)).replace("timeout 1", "timeout 30")
        )
        waiting = []
        for number in range(1000):
            wire = Wire(broker.port)
            wire.send(frame(CONNECT, 0, text("MQTT") + bytes([4, 0xC2, 0, 60]) + text(f"w{number}") + text("ann") + text(f"p{number}")))
            waiting.append(wire)
        took = []
        for _ in range(3):
            began = time.monotonic()
            assert log_in(broker, "carl", "c") == 0
            took.append(time.monotonic() - began)
        # A busy machine may hold one of them up; the dead one is waited for for seconds.
        assert min(took) < 1, took
        for wire in waiting:
            wire.close()

    def test_an_address_that_keeps_failing_does_not_keep_a_server_from_others(self, start_broker, server):
        redis = server(Redis, "it's", {"bob": go_auth_hash("b")})
        broker = start_broker(configuration=TestRedis.LINES.replace("PORT", str(redis.port)) + HTTP)
        # Its passwords are checked half a second apart, and most of them come too late.
        wires = [Wire(broker.port, source="127.9.9.9") for _ in range(50)]
        for number, wire in enumerate(wires):
            body = text("MQTT") + bytes([5, 0xC2, 0, 60, 0]) + text(f"x{number}") + text("bob") + text("wrong")
            wire.send(frame(CONNECT, 0, body))
        answers = [wire.receive(CONNACK, 60).body[1] for wire in wires]
        assert set(answers) == {NOT_AUTHORIZED, SERVER_BUSY} and answers.count(SERVER_BUSY) > 10, answers
        assert log_in(broker, "bob", "b") == 0
        assert "The login source redis" not in broker.log
        assert figures(broker, "redis")["failed"] == figures(broker, "redis")["down"] == 0

    def test_what_is_wrong_with_the_lines_is_said_where_they_stand(self, program, tmp_path):
        file = tmp_path / "m.conf"
        file.write_text(
            "listener 1883\nmartlet_ldap_url ldap://x:0\nmartlet_ldap_user_dn dc=x\nmartlet_ldap_user_filter uid=%u\n"
            "listener 1884\nallow_anonymous false\nauth_plugin go-auth.so\nauth_opt_backends mysql\n"
        )
        done = subprocess.run([program.path, "--test-config", "-c", file], capture_output=True, text=True)
        assert done.returncode != 0
        said = done.stdout + done.stderr
        assert re.search(r"m\.conf:8: auth_opt_backends: found \"mysql\", expected files, http, jwt, sqlite, postgres, redis, ldap: users of other back ends", said), said
        file.write_text("listener 1883\nmartlet_ldap_url ldap://127.0.0.1\nmartlet_ldap_user_dn dc=x\nmartlet_ldap_user_filter uid=%u\n")
        done = subprocess.run([program.path, "--test-config", "-c", file], capture_output=True, text=True)
        assert re.search(r"m\.conf:4: martlet_ldap_user_filter: \"uid=%u\" is no filter of LDAP: a \( is missing", done.stdout + done.stderr)

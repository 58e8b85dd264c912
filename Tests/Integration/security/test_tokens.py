"""Logins by tokens: what joserfc and PyJWT sign, from issuers as Keycloak, Auth0 and Azure are, against a broker that checks it."""

import base64
import json
import signal
import subprocess
import time

import jwt
import pytest
from harness.login_service import Answer, LoginService
from harness.waiting import wait_until
from harness.wire import AUTH, CONNACK, CONNECT, DISCONNECT, PUBLISH, Will, Wire, frame, text, variable_length
from joserfc import jwk
from joserfc import jwt as joserfc

pytestmark = pytest.mark.martlet("has no tokens")

SUCCESS, REAUTHENTICATE, NOT_AUTHORIZED, UNAVAILABLE = 0, 0x19, 0x87, 0x88
ISSUER = "https://issuer.example/realms/house"
SECRET = "0123456789abcdef" * 4
ALGORITHMS = {
    "RS256": "rsa", "RS384": "rsa", "RS512": "rsa", "PS256": "rsa", "PS384": "rsa", "PS512": "rsa", "ES256": "P-256",
    "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519", "Ed25519": "Ed25519", "Ed448": "Ed448",
}  # fmt: skip


def make_key(kind: str, name: str):
    options = {"kid": name}
    if kind == "rsa":
        return jwk.RSAKey.generate_key(2048, options, private=True)
    if kind.startswith("P-"):
        return jwk.ECKey.generate_key(kind, options, private=True)
    return jwk.OKPKey.generate_key(kind, options, private=True)


@pytest.fixture(scope="module")
def keys() -> dict:
    return {kind: make_key(kind, kind) for kind in set(ALGORITHMS.values())}


def key_set(keys) -> dict:
    return {"keys": [key.as_dict(private=False) for key in keys]}


def claims(**others) -> dict:
    now = int(time.time())
    given = {"iss": ISSUER, "sub": "anna", "aud": "mqtt", "iat": now, "exp": now + 600}
    return {name: value for name, value in (given | others).items() if value is not None}


def sign(key, algorithm: str = "ES256", payload: dict | None = None, **others) -> str:
    header = {"alg": algorithm, "kid": key.kid}
    return joserfc.encode(header, payload if payload is not None else claims(**others), key, algorithms=[algorithm])


def connect(broker, token: str | None, *, client: str = "c1", user: str | None = "whoever", will: Will | None = None, version="mqttv5"):
    """A connection and the reason of its CONNACK."""
    wire = Wire(broker.port, version)
    return wire, wire.connect(client, user=user, password=token, will=will)[1]


def reason(broker, token: str | None, **others) -> int:
    wire, answer = connect(broker, token, **others)
    wire.close()
    return answer


CONFIGURATION = f"""listener {{port}} 127.0.0.1
allow_anonymous false
martlet_jwt_algorithms {' '.join(ALGORITHMS)}
martlet_jwt_issuer {ISSUER}
martlet_jwt_audience mqtt
martlet_jwt_leeway 0
"""


@pytest.fixture
def token_broker(start_broker, tmp_path, keys):
    (tmp_path / "keys.json").write_text(json.dumps(key_set(keys.values())))
    return start_broker(configuration=CONFIGURATION + "martlet_jwt_keys {directory}/keys.json\n", listener=False)


# What is signed


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_joserfc_signs_is_accepted(token_broker, keys, algorithm):
    assert reason(token_broker, sign(keys[ALGORITHMS[algorithm]], algorithm)) == SUCCESS
    token_broker.wait_for_log("u'anna'")


@pytest.mark.parametrize("algorithm", ["RS256", "PS384", "ES256", "ES512", "EdDSA"])
def test_what_pyjwt_signs_is_accepted(token_broker, keys, algorithm):
    key = keys[ALGORITHMS[algorithm]]
    token = jwt.encode(claims(), key.private_key, algorithm=algorithm, headers={"kid": key.kid})
    assert reason(token_broker, token) == SUCCESS


@pytest.mark.parametrize(
    "change",
    [
        {"exp": 1}, {"exp": "soon"}, {"exp": None}, {"nbf": 4000000000}, {"iat": 4000000000}, {"iss": "https://other.example"},
        {"iss": None}, {"aud": "other"}, {"aud": ["x", "y"]}, {"aud": None}, {"sub": 7},
    ],
    ids=str,
)  # fmt: skip
def test_what_pyjwt_refuses_is_refused(token_broker, keys, change):
    """Both say no: the other library is asked with the same rules."""
    key = keys["P-256"]
    token = sign(key, **change)
    with pytest.raises(jwt.InvalidTokenError):
        jwt.decode(token, key.public_key, algorithms=["ES256"], issuer=ISSUER, audience="mqtt", options={"require": ["exp", "sub", "iss"]})
    assert reason(token_broker, token) == NOT_AUTHORIZED
    token_broker.wait_for_log("its token is not accepted: it")


def test_forged_tokens_are_refused_with_words(token_broker, keys):
    token = sign(keys["P-256"])
    head, payload, signature = token.split(".")
    other = base64.urlsafe_b64encode(json.dumps(claims(sub="bob")).encode()).rstrip(b"=").decode()
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    public = keys["rsa"].as_pem(private=False)
    # PyJWT refuses to sign with what is a public key, so this HMAC is made by hand.
    import hashlib
    import hmac

    confused_head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"rsa"}').rstrip(b"=").decode()
    code = hmac.digest(public, f"{confused_head}.{payload}".encode(), hashlib.sha256)
    confused = f"{confused_head}.{payload}." + base64.urlsafe_b64encode(code).rstrip(b"=").decode()
    for forged, words in [
        (f"{head}.{other}.{signature}", "its signature is not that of the key"),
        (f"{unsigned}.{payload}.", "it is not signed: its algorithm is none"),
        (confused, "its algorithm HS256 is not among those that are allowed"),
        (sign(make_key("P-256", "P-256")), "its signature is not that of the key"),
        (sign(make_key("P-256", "new")), 'no key has the name "new"'),
        (f"{token[:-1]}!", "it is not Base64 for URLs without padding"),
        ("eyJ" + "a" * 20_000 + "..", "it has 20005 bytes; more than 16384 are not read"),
    ]:
        assert reason(token_broker, forged) == NOT_AUTHORIZED
        token_broker.wait_for_log(words.replace("(", r"\("))
    assert reason(token_broker, token, version="mqttv311") == SUCCESS
    assert reason(token_broker, None) == NOT_AUTHORIZED
    assert signature not in token_broker.log, "no token stands in the log"


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_tokens_may_be_signed_with_a_secret(start_broker, tmp_path, algorithm):
    (tmp_path / "secret").write_text(SECRET + "\n")
    broker = start_broker(
        configuration=f"listener {{port}} 127.0.0.1\nmartlet_jwt_secret_file {{directory}}/secret\nmartlet_jwt_algorithms {algorithm}\n"
        "martlet_jwt_audience mqtt\nmartlet_jwt_from username",
        listener=False,
    )
    assert reason(broker, None, user=jwt.encode(claims(), SECRET, algorithm=algorithm)) == SUCCESS
    assert reason(broker, None, user=jwt.encode(claims(), SECRET[::-1], algorithm=algorithm)) == NOT_AUTHORIZED


# What tokens say


def test_tokens_as_keycloak_auth0_and_azure_make_them(start_broker, tmp_path, keys):
    """Their names of users, their audiences, what is required of each."""
    (tmp_path / "keys.json").write_text(json.dumps(key_set(keys.values())))
    common = "listener {port} 127.0.0.1\nmartlet_jwt_keys {directory}/keys.json\nmartlet_jwt_algorithms RS256\n"
    key = keys["rsa"]
    keycloak = start_broker(
        configuration=common + f"martlet_jwt_issuer {ISSUER}\nmartlet_jwt_audience account\nmartlet_jwt_username_claim preferred_username\n"
        "martlet_jwt_require realm_access.roles=mqtt\nmartlet_jwt_require typ=Bearer\nmartlet_jwt_require exp\n",
        listener=False,
    )
    payload = claims(
        aud="account", sub="6f3a0c1e-1b7e-4d6f-9a55-8f2f4e5d0c11", typ="Bearer", azp="house", preferred_username="anna",
        realm_access={"roles": ["offline_access", "mqtt"]}, resource_access={"account": {"roles": ["view-profile"]}},
        scope="email profile", sid="1", acr="1", email_verified=True,
    )  # fmt: skip
    assert reason(keycloak, sign(key, "RS256", payload)) == SUCCESS
    keycloak.wait_for_log("u'anna'")
    assert reason(keycloak, sign(key, "RS256", payload | {"realm_access": {"roles": ["other"]}})) == NOT_AUTHORIZED
    assert reason(keycloak, sign(key, "RS256", payload | {"typ": "ID"})) == NOT_AUTHORIZED

    auth0 = start_broker(
        configuration=common + "martlet_jwt_issuer https://house.eu.auth0.com/\nmartlet_jwt_audience https://mqtt.example\n"
        "martlet_jwt_require https://house.example/device=%c\n",
        listener=False,
    )
    payload = claims(
        iss="https://house.eu.auth0.com/", sub="auth0|5f7c", aud=["https://mqtt.example", "https://house.eu.auth0.com/userinfo"],
        azp="x", scope="openid", **{"https://house.example/device": "c1"},
    )  # fmt: skip
    assert reason(auth0, sign(key, "RS256", payload)) == SUCCESS
    assert reason(auth0, sign(key, "RS256", payload), client="c2") == NOT_AUTHORIZED

    azure = start_broker(
        configuration=common + "martlet_jwt_issuer https://login.microsoftonline.com/T/v2.0\nmartlet_jwt_audience api://mqtt\n"
        "martlet_jwt_username_claim oid\nmartlet_jwt_clientid_claim azp\nmartlet_jwt_require tid=T\nmartlet_jwt_require ver=2.0\n",
        listener=False,
    )
    payload = claims(
        iss="https://login.microsoftonline.com/T/v2.0", aud="api://mqtt", oid="0000-11", azp="c1", tid="T", ver="2.0", nbf=1, uti="x",
        roles=["Mqtt.Write"], aio="y",
    )  # fmt: skip
    assert reason(azure, sign(key, "RS256", payload)) == SUCCESS
    azure.wait_for_log("u'0000-11'")
    assert reason(azure, sign(key, "RS256", payload | {"tid": "U"})) == NOT_AUTHORIZED
    assert reason(azure, sign(key, "RS256", payload), client="c2") == NOT_AUTHORIZED


@pytest.mark.parametrize(
    "rules",
    [
        {"pub": ["dev/%c/out"], "sub": ["dev/${clientid}/in", "news/#"]},
        [
            {"permission": "deny", "action": "subscribe", "topic": "news/secret"},
            {"permission": "allow", "action": "publish", "topic": "dev/%c/out"},
            {"permission": "allow", "action": "subscribe", "topics": ["dev/%c/in", "news/#"]},
        ],
    ],
    ids=["lists", "rules"],
)
def test_access_rules_of_a_token_hold_for_its_client(token_broker, keys, rules):
    key = keys["Ed25519"]
    free, answer = connect(token_broker, sign(key, "EdDSA", is_superuser=True), client="free")
    assert answer == SUCCESS and free.subscribe("#") == 0
    wire, answer = connect(token_broker, sign(key, "EdDSA", acl=rules))
    assert answer == SUCCESS
    assert wire.subscribe("dev/c1/in") == 0 and wire.subscribe("news/1") == 0
    assert wire.subscribe("dev/c2/in") == NOT_AUTHORIZED and wire.subscribe("#") == NOT_AUTHORIZED
    assert wire.subscribe("$share/g/dev/c1/in") == 0 and wire.subscribe("$share/g/dev/c2/in") == NOT_AUTHORIZED
    wire.publish("dev/c2/out", "no")
    wire.publish("dev/c1/out", "yes")
    assert free.receive().topic == "dev/c1/out", "the other one was not published"
    free.publish("news/1", "it")
    assert wire.receive().topic == "news/1"
    wire.close()
    free.close()


def test_access_rules_of_a_token_ask_for_qos_retain_and_address(token_broker, keys, tools_for):
    rules = [
        {"permission": "allow", "action": "publish", "topic": "state", "qos": [1], "retain": True},
        {"permission": "deny", "action": "all", "topic": "far", "ipaddr": "127.0.0.0/8"},
        {"permission": "allow", "action": "subscribe", "topics": ["state", "far"], "qos": [0, 1], "retain": None},
    ]
    tools = tools_for(token_broker.port)
    login = ["-u", "x", "-P", sign(keys["Ed25519"], "EdDSA", acl=rules)]

    def published(topic: str, qos: int, retain: bool) -> bool:
        return "Not authorized" not in tools.publish(topic, "x", qos=qos, retain=retain, arguments=login)

    assert published("state", 1, True)
    assert not published("state", 1, False) and not published("state", 2, True) and not published("far", 1, True)
    token_broker.wait_for_log("Denied PUBLISH .* to 'state': no role allows it with this QoS and RETAIN")
    refused = tools.start("mosquitto_sub", "-V", "5", "-d", *login, "-t", "state", "-q", "2")
    refused.wait_line(lambda line: line.startswith("Subscribed (mid") and "135" in line, "SUBACK")
    token_broker.wait_for_log("Denied SUBSCRIBE .* to 'state': no rule allows it with this QoS")
    subscriber = tools.start("mosquitto_sub", "-V", "5", "-C", "1", *login, "-t", "state", "-q", "1", "-F", "%t %r")
    subscriber.wait_line(lambda line: line == "state 1", "the retained message")


def test_access_rules_are_not_taken_where_none_are_wanted(start_broker, tmp_path, keys):
    (tmp_path / "keys.json").write_text(json.dumps(key_set(keys.values())))
    broker = start_broker(configuration=CONFIGURATION + "martlet_jwt_keys {directory}/keys.json\nmartlet_jwt_acl_claim none\n"
                          "martlet_jwt_max_size 1000\n", listener=False)  # fmt: skip
    wire, answer = connect(broker, sign(keys["P-256"], acl={"pub": [], "sub": []}))
    assert answer == SUCCESS and wire.subscribe("#") == 0
    wire.close()
    assert reason(broker, sign(keys["P-256"], note="x" * 1000)) == NOT_AUTHORIZED


# Its end


def test_a_connection_ends_with_its_token_and_its_will_is_sent(token_broker, keys):
    key = keys["P-256"]
    watcher, answer = connect(token_broker, sign(key), client="watcher")
    assert answer == SUCCESS and watcher.subscribe("gone") == 0
    wire, answer = connect(token_broker, sign(key, exp=int(time.time()) + 2), will=Will("gone", "c1"))
    assert answer == SUCCESS
    assert wire.receive_end() == NOT_AUTHORIZED
    assert watcher.receive().topic == "gone"
    watcher.ping()
    watcher.close()


def properties(method: str, data: str | None) -> bytes:
    encoded = b"\x15" + text(method) + (b"\x16" + text(data) if data is not None else b"")
    return variable_length(len(encoded)) + encoded


@pytest.mark.parametrize("method", ["OAUTH2-JWT", "CUSTOM-JWT"])
def test_a_login_is_renewed_within_the_session(start_broker, tmp_path, keys, method):
    (tmp_path / "keys.json").write_text(json.dumps(key_set(keys.values())))
    broker = start_broker(
        configuration=CONFIGURATION + "martlet_jwt_keys {directory}/keys.json\nmartlet_jwt_from auth\n", listener=False
    )
    key = keys["P-256"]
    assert reason(broker, sign(key)) == NOT_AUTHORIZED, "no token is looked for in the password"
    wire = Wire(broker.port)

    def log_in(token: str) -> int:
        head = text("MQTT") + bytes([5, 2, 0, 60]) + properties(method, token)
        wire.send(frame(CONNECT, 0, head + text("c1")))
        return wire.receive(CONNACK).body[1]

    end = int(time.time()) + 3
    assert log_in(sign(key, exp=end)) == SUCCESS
    broker.wait_for_log("u'anna'")
    wire.send(frame(AUTH, 0, bytes([REAUTHENTICATE]) + properties(method, sign(key))))
    assert wire.receive(AUTH).body[0] == SUCCESS
    wait_until(lambda: time.time() > end + 1, "the first token is over")
    wire.ping()
    wire.send(frame(AUTH, 0, bytes([REAUTHENTICATE]) + properties(method, sign(key, sub="bob"))))
    assert wire.receive(DISCONNECT).reason == NOT_AUTHORIZED, "another user's"


def control(program, broker, *arguments: str, lines: str = "") -> subprocess.CompletedProcess:
    command = [program.path, "ctl", *arguments, "--socket", str(broker.directory / "http.sock")]
    return subprocess.run(command, input=lines, capture_output=True, text=True)


def test_a_token_in_the_user_name_is_seen_nowhere(start_broker, program, tmp_path, keys):
    (tmp_path / "keys.json").write_text(json.dumps(key_set(keys.values())))
    broker = start_broker(
        configuration=CONFIGURATION + "martlet_jwt_keys {directory}/keys.json\nmartlet_jwt_from username\nlog_type all\n"
        "listener 0 {directory}/http.sock\nprotocol http_api\n", listener=False
    )  # fmt: skip
    trace = subprocess.Popen(
        [program.path, "ctl", "trace", "--client", "c1", "--for", "60s", "--socket", str(broker.directory / "http.sock")],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    broker.wait_for_log("race")
    good, ended, cut = sign(keys["P-256"]), sign(keys["P-256"], exp=1000), sign(keys["P-256"])[:-9]
    wire, answer = connect(broker, None, user=good)
    assert answer == SUCCESS
    for token in [ended, cut]:
        assert reason(broker, None, user=token, client="c2") == NOT_AUTHORIZED
    broker.wait_for_log("its token is not accepted: .*user 'token:")
    clients = control(program, broker, "clients", "--json")
    assert clients.returncode == 0 and '"anna"' in clients.stdout, clients
    closed = control(program, broker, "closed", "--json")
    explained = control(program, broker, "login", "explain", ended, "--no-password")
    assert explained.returncode == 1 and "it expired" in explained.stdout + explained.stderr, explained
    wire.close()
    trace.terminate()
    seen = broker.log + clients.stdout + closed.stdout + explained.stdout + explained.stderr + trace.communicate(timeout=20)[0]
    for token in [good, ended, cut]:
        for part in token.split("."):
            assert part[:40] not in seen


# Keys of a server


@pytest.fixture
def issuer(keys):
    """Gives keys, those of its list, at /keys; and its configuration."""

    class Issuer:
        def __init__(self):
            self.keys = [keys["P-256"]]
            self.headers = {}
            self.status = 200
            self.service = LoginService(self.respond)
            self.url = f"http://127.0.0.1:{self.service.port}"
            self.name = self.url

        def respond(self, question):
            if question.path == "/.well-known/openid-configuration":
                return Answer(self.status, {"issuer": self.name, "jwks_uri": f"{self.url}/keys"})
            return Answer(self.status, key_set(self.keys), self.headers)

        def count(self, path: str = "/keys") -> int:
            return sum(question.path == path for question in self.service.questions)

    issuer = Issuer()
    yield issuer
    issuer.service.close()


def server_broker(start_broker, issuer, path: str, *more: str):
    lines = ["listener {port} 127.0.0.1", "martlet_jwt_algorithms ES256 RS256", f"martlet_jwt_keys {issuer.url}{path}", "martlet_jwt_audience mqtt", *more]
    return start_broker(configuration="\n".join(lines), listener=False)


def test_keys_are_fetched_and_new_ones_are_asked_for_once(start_broker, issuer, keys):
    broker = server_broker(start_broker, issuer, "/keys")
    assert issuer.count() == 0, "nothing is fetched before it is needed"
    begun = time.monotonic()
    assert reason(broker, sign(keys["P-256"])) == SUCCESS
    assert reason(broker, sign(keys["P-256"])) == SUCCESS
    assert issuer.count() == 1
    new = make_key("P-256", "new")
    for _ in range(2):
        assert reason(broker, sign(new)) == NOT_AUTHORIZED
    assert issuer.count() == 1 or time.monotonic() > begun + 9, "not again within ten seconds"
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("[Rr]eload")
    assert reason(broker, sign(keys["P-256"])) == SUCCESS, "what was fetched serves on"
    issuer.keys.append(new)
    # Before that, answers to failed logins wait ever longer; so the next one is given when its key may be asked for.
    wait_until(lambda: time.monotonic() > begun + 11, "keys may be fetched again", 30)
    assert reason(broker, sign(new)) == SUCCESS
    assert issuer.count() >= 2


def test_why_a_key_of_a_server_is_passed_over_is_said(start_broker, issuer, keys):
    other = make_key("P-256", "enc")
    encrypting = {**key_set([other])["keys"][0], "use": "enc"}
    issuer.service.respond = lambda _: Answer(200, {"keys": [*key_set([keys["P-256"]])["keys"], encrypting]})
    broker = server_broker(start_broker, issuer, "/keys")
    assert reason(broker, sign(other)) == NOT_AUTHORIZED
    broker.wait_for_log(r'no key has the name "enc" \(it is not for signatures: its "use" is enc\)')


def test_an_issuer_is_discovered_and_has_to_be_the_one(start_broker, issuer, keys):
    broker = server_broker(start_broker, issuer, "/.well-known/openid-configuration", f"martlet_jwt_issuer {issuer.url}")
    assert reason(broker, sign(keys["P-256"], iss=issuer.url)) == SUCCESS
    assert (issuer.count(), issuer.count("/.well-known/openid-configuration")) == (1, 1)
    issuer.name = "https://other.example"
    broker = server_broker(start_broker, issuer, "/.well-known/openid-configuration", f"martlet_jwt_issuer {issuer.url}")
    assert reason(broker, sign(keys["P-256"], iss=issuer.url)) == UNAVAILABLE
    broker.wait_for_log('it is the issuer "https://other.example", which martlet_jwt_issuer does not name')


def test_without_keys_nobody_comes_in_and_who_logs_in_by_file_does(start_broker, program, issuer, keys, tmp_path):
    subprocess.run([program.path, "passwd", "-c", "-b", str(tmp_path / "users"), "bob", "secret"], check=True, capture_output=True)
    issuer.status = 503
    broker = server_broker(start_broker, issuer, "/keys", "password_file {directory}/users")
    assert reason(broker, sign(keys["P-256"])) == UNAVAILABLE
    broker.wait_for_log("The login source jwt cannot fetch keys from http://127.0.0.1")
    assert reason(broker, "secret", user="bob") == SUCCESS
    assert reason(broker, "wrong", user="bob") == NOT_AUTHORIZED


def test_a_login_by_auth_waits_for_the_keys_and_is_told_when_there_are_none(start_broker, issuer, keys):
    for status, expected in [(200, SUCCESS), (503, UNAVAILABLE)]:
        issuer.status = status
        broker = server_broker(start_broker, issuer, "/keys", "martlet_jwt_from auth")
        wire = Wire(broker.port)
        head = text("MQTT") + bytes([5, 2, 0, 60]) + properties("OAUTH2-JWT", sign(keys["P-256"]))
        wire.send(frame(CONNECT, 0, head + text("c1")))
        assert wire.receive(CONNACK).body[1] == expected
        wire.close()
    broker.wait_for_log("The login source jwt cannot fetch keys from http://127.0.0.1:.*: it answers 503 Service Unavailable")


@pytest.mark.parametrize("answer", [b"{" * 100_000, b"x" * (2 << 20), b'{"keys":[]}', b'{"keys":' + b"[" * 40, b""], ids=["deep", "long", "none", "cut", "empty"])
def test_what_is_no_key_set_is_said(start_broker, issuer, keys, answer):
    issuer.service.respond = lambda _: Answer(200, answer)
    broker = server_broker(start_broker, issuer, "/keys")
    assert reason(broker, sign(keys["P-256"])) == UNAVAILABLE
    broker.wait_for_log("cannot fetch keys from")


def test_keys_come_by_tls_from_who_proves_to_be_their_server(start_broker, issuer, keys, authority):
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.directory / "server.crt", authority.directory / "server.key")
    service = LoginService(issuer.respond, tls=context)
    lines = f"listener {{port}} 127.0.0.1\nmartlet_jwt_algorithms ES256\nmartlet_jwt_audience mqtt\nmartlet_jwt_keys https://localhost:{service.port}/keys\n"
    broker = start_broker(configuration=lines + f"martlet_jwt_cafile {authority.certificate}\n", listener=False)
    assert reason(broker, sign(keys["P-256"])) == SUCCESS
    broker = start_broker(configuration=lines, listener=False)
    assert reason(broker, sign(keys["P-256"])) == UNAVAILABLE
    service.close()


# Introspection


def test_an_issuer_is_asked_about_tokens_that_only_it_can_read(start_broker, tmp_path):
    (tmp_path / "secret").write_text("s e+cret\n")
    known = {
        "opaque-1": {"active": True, "sub": "anna", "exp": int(time.time()) + 600, "aud": "mqtt", "acl": {"pub": ["a"]}},
        "opaque-2": {"active": True, "sub": "anna", "exp": int(time.time()) + 600, "aud": "other"},
    }
    service = LoginService(lambda question: Answer(200, known.get(question.values["token"], {"active": False})))
    broker = start_broker(
        configuration=f"listener {{port}} 127.0.0.1\nmartlet_introspection_url http://127.0.0.1:{service.port}/introspect\n"
        "martlet_introspection_client_id martlet\nmartlet_introspection_secret_file {directory}/secret\nmartlet_introspection_cache 60\n"
        "martlet_jwt_audience mqtt\n",
        listener=False,
    )
    for _ in range(3):
        wire, answer = connect(broker, "opaque-1")
        assert answer == SUCCESS and wire.subscribe("a") == NOT_AUTHORIZED
        wire.close()
    assert len(service.questions) == 1, "the answer is kept"
    question = service.questions[0]
    assert question.values == {"token": "opaque-1", "token_type_hint": "access_token"}
    assert base64.b64decode(question.headers["authorization"].split()[1]) == b"martlet:s%20e%2Bcret"
    assert reason(broker, "opaque-2") == NOT_AUTHORIZED
    broker.wait_for_log(r'its token is not accepted: it is for "other" \(aud\)')
    assert reason(broker, "opaque-3") == NOT_AUTHORIZED
    broker.wait_for_log("its issuer says that it is not active")
    service.respond = lambda _: Answer(401, {"error": "invalid_client"})
    assert reason(broker, "opaque-4") == UNAVAILABLE
    broker.wait_for_log("does not accept the broker's own login")
    assert reason(broker, "opaque-1") == SUCCESS, "what is kept needs nobody"
    service.close()


def test_introspection_over_tls(start_broker, authority):
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.directory / "server.crt", authority.directory / "server.key")
    service = LoginService(lambda _: Answer(200, {"active": True, "sub": "anna", "exp": int(time.time()) + 600}), tls=context)
    broker = start_broker(
        configuration=f"listener {{port}} 127.0.0.1\nmartlet_introspection_url https://localhost:{service.port}/introspect\n"
        f"martlet_introspection_cafile {authority.certificate}\n",
        listener=False,
    )
    assert reason(broker, "opaque") == SUCCESS
    service.close()


def test_an_opaque_token_in_the_user_name_is_seen_nowhere(start_broker, program, tmp_path):
    """It looks like any name: with introspection and tokens in user names, none is shown before its login says whose it is."""
    good, ended, unknown = "2YotnFZFEjr1zCsicMWpAA", "tGzv3JOkF0XG5Qx2TlKWIA", "SlAV32hkKG0123456789ab"
    known = {good: {"active": True, "sub": "anna", "exp": int(time.time()) + 600}, ended: {"active": True, "sub": "anna", "exp": 1000}}
    service = LoginService(lambda question: Answer(200, known.get(question.values["token"], {"active": False})))
    subprocess.run([program.path, "passwd", "-c", "-b", str(tmp_path / "users"), "carl", "secret"], check=True, capture_output=True)
    (tmp_path / "rules").write_text("user carl\ntopic read $SYS/brokers/+/clients/#\ntopic readwrite fence\n")
    broker = start_broker(
        configuration=f"listener {{port}} 127.0.0.1\nmartlet_introspection_url http://127.0.0.1:{service.port}/introspect\n"
        "martlet_jwt_from username\npassword_file {directory}/users\nacl_file {directory}/rules\nlog_type all\nmartlet_presence_events all\n"
        "listener 0 {directory}/http.sock\nprotocol http_api\n",
        listener=False,
    )
    traces = [
        subprocess.Popen(
            [program.path, "ctl", "trace", *whom, "--for", "60s", "--socket", str(broker.directory / "http.sock")], stdout=subprocess.PIPE, text=True,
        )
        for whom in (["--client", "c1"], ["--address", "127.0.0.1"])
    ]  # fmt: skip
    wait_until(lambda: broker.log.count("race") >= 2, "both traces have begun")
    watcher, answer = connect(broker, "secret", user="carl", client="watcher")
    assert answer == SUCCESS and watcher.subscribe("fence") < 0x80 and watcher.subscribe("$SYS/brokers/+/clients/#") < 0x80
    broker.wait_for_log("u'carl'")
    wire, answer = connect(broker, None, user=good)
    assert answer == SUCCESS
    for token in (ended, unknown):
        assert reason(broker, None, user=token, client="c2") == NOT_AUTHORIZED
    broker.wait_for_log("its issuer says that it is not active, user 'token:[0-9a-f]+'")
    said = [control(program, broker, *words, "--json").stdout for words in (["clients"], ["closed"])]
    assert '"anna"' in said[0]
    said += [(done := control(program, broker, "login", "explain", token, "--no-password")).stdout + done.stderr for token in (good, ended, unknown)]
    wire.close()
    watcher.publish("fence")
    events = []
    while not events or events[-1].topic != "fence":
        events.append(watcher.receive(PUBLISH))
    for trace in traces:
        trace.terminate()
        said.append(trace.communicate(timeout=20)[0])
    assert any("CONNECT" in text for text in said[-2:]) and "token:" in "".join(said[-2:])
    seen = broker.log + "".join(said) + "".join(event.body.decode(errors="replace") for event in events)
    assert "clients/c1/connected" in seen
    for token in (good, ended, unknown):
        assert token[:12] not in seen
    service.close()


def test_a_crash_leaves_no_core_file_with_what_clients_have_said(broker):
    """Tokens, passwords and keys are in the broker's memory."""
    limits = open(f"/proc/{broker.process.pid}/limits").read()
    assert limits.split("Max core file size")[1].split()[0] == "0"


# Roles of dynamic security


def test_roles_of_a_token_are_those_of_dynamic_security(start_broker, tmp_path, keys):
    (tmp_path / "keys.json").write_text(json.dumps(key_set(keys.values())))
    allow = {"allow": True, "priority": 0}
    (tmp_path / "roles.json").write_text(json.dumps({
        "clients": [], "groups": [],
        "roles": [{"rolename": "sensor", "acls": [{"acltype": "publishClientSend", "topic": "sensors/%c", **allow}]}],
        "defaultACLAccess": {"publishClientSend": False, "publishClientReceive": True, "subscribe": True, "unsubscribe": True},
    }))  # fmt: skip
    broker = start_broker(
        configuration="plugin mosquitto_dynamic_security.so\nplugin_opt_config_file {directory}/roles.json\n"
        + CONFIGURATION + "martlet_jwt_keys {directory}/keys.json\nmartlet_jwt_roles_claim realm_access.roles\n",
        listener=False,
    )  # fmt: skip
    free, answer = connect(broker, sign(keys["P-256"], is_superuser=True), client="free")
    assert answer == SUCCESS and free.subscribe("#") == 0
    wire, answer = connect(broker, sign(keys["P-256"], realm_access={"roles": ["sensor", "unknown"]}))
    assert answer == SUCCESS
    wire.publish("sensors/c2")
    wire.publish("sensors/c1")
    assert free.receive().topic == "sensors/c1"
    wire.close()
    free.close()


# What is wrong with the configuration


@pytest.mark.parametrize(
    "lines, words",
    [
        ("martlet_jwt_keys {d}/gone\nmartlet_jwt_algorithms RS256", "1: martlet_jwt_keys: {d}/gone does not exist"),
        ("martlet_jwt_keys {d}/private.pem\nmartlet_jwt_algorithms ES256", "1: martlet_jwt_keys: {d}/private.pem holds a private key"),
        ("martlet_jwt_keys {d}/public.pem\nmartlet_jwt_algorithms RS256", "1: martlet_jwt_keys: {d}/public.pem holds no key for RS256"),
        ("martlet_jwt_secret_file {d}/short\nmartlet_jwt_algorithms HS256", "1: martlet_jwt_secret_file: {d}/short has 5 bytes"),
        ("martlet_jwt_secret_file {d}/public.pem\nmartlet_jwt_algorithms HS256", "1: martlet_jwt_secret_file: {d}/public.pem is a key or"),
        ("martlet_jwt_secret_file {d}/middling\nmartlet_jwt_algorithms HS512", "1: martlet_jwt_secret_file: {d}/middling holds no key for HS512"),
        ("martlet_jwt_keys https://a b/\nmartlet_jwt_algorithms RS256", "1: martlet_jwt_keys: "),
        ("martlet_jwt_keys {d}/public.pem\nmartlet_jwt_algorithms ES256 none", "2: martlet_jwt_algorithms: found"),
    ],
)  # fmt: skip
def test_the_check_says_what_is_wrong_and_where(program, tmp_path, keys, lines, words):
    (tmp_path / "public.pem").write_bytes(keys["P-256"].as_pem(private=False))
    (tmp_path / "private.pem").write_bytes(keys["P-256"].as_pem(private=True))
    (tmp_path / "short").write_text("short\n")
    (tmp_path / "middling").write_text(SECRET[:40])
    (tmp_path / "m.conf").write_text(lines.replace("{d}", str(tmp_path)) + "\nallow_anonymous false\nlistener 1884 127.0.0.1\n")
    done = subprocess.run([program.path, "-c", str(tmp_path / "m.conf"), "--test-config"], capture_output=True, text=True)
    assert done.returncode != 0 and words.replace("{d}", str(tmp_path)) in done.stdout + done.stderr

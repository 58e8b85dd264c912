"""Users and rules of files over HTTP: changed where they stand, in force at once; and who may do what, by which line or role."""

import json
import os
import subprocess
from urllib.parse import quote

import pytest
from harness.commands import run
from harness.site import UnixConnection, call

pytestmark = pytest.mark.martlet("2.0 has no HTTP")

ANN = "ann:secret"


@pytest.fixture
def served(site, program, tmp_path):
    passwords, rules = tmp_path / "passwd", tmp_path / "acl"
    for name in ["ann", "anna"]:
        subprocess.run([program.path, "passwd", "-H", "sha512-pbkdf2", *([] if passwords.exists() else ["-c"]), "-b", str(passwords), name, "secret"], check=True)
    passwords.write_text("# who may log in\n" + passwords.read_text() + "# and nobody else\n")
    rules.write_text("# who may what\ntopic read public/#\n\n# Anna\nuser anna\ntopic readwrite home/#\ntopic deny home/safe\npattern write devices/%c/#\n")
    passwords.chmod(0o640)
    rules.chmod(0o640)
    served = site(configuration=f"allow_anonymous true\npassword_file {passwords}\nacl_file {rules}\nmartlet_http_user ann admin\n",
                  lines=f"listener 0 {tmp_path}/http.sock\nprotocol http_api\n")
    served.socket = tmp_path / "http.sock"
    served.passwords, served.rules = passwords, rules
    return served


def client(program, port: int, *arguments: str) -> int:
    return run(program.path, "pub", "-p", str(port), "-V", "5", "-q", "1", "-m", "x", *arguments).code


def test_users_come_and_go_without_a_restart_and_the_file_keeps_its_comments_owner_and_mode(served, program):
    port = served.broker.port
    before = os.stat(served.passwords)
    assert client(program, port, "-t", "public/x", "-u", "bob", "-P", "first") != 0
    status, users = call(served, "GET", "files/users", user=ANN)
    assert status == 200 and [(user["username"], user["line"], user["hash"]) for user in users["data"]] == [("ann", 2, "sha512-pbkdf2"), ("anna", 3, "sha512-pbkdf2")]
    assert "$7$" not in json.dumps(users)
    status, made = call(served, "POST", "files/users", {"username": "bob", "password": "first"}, user=ANN)
    assert (status, made) == (201, {"username": "bob", "file": str(served.passwords)})
    assert call(served, "POST", "files/users", {"username": "bob", "password": "x"}, user=ANN)[0] == 409
    assert call(served, "POST", "files/rules", {"for": "user", "username": "bob", "access": "write", "topic": "bob/#"}, user=ANN)[0] == 201
    assert client(program, port, "-t", "bob/x", "-u", "bob", "-P", "first") == 0
    assert call(served, "PUT", "files/users/bob", {"password": "second"}, user=ANN)[0] == 200
    assert client(program, port, "-t", "bob/x", "-u", "bob", "-P", "first") != 0
    assert client(program, port, "-t", "bob/x", "-u", "bob", "-P", "second") == 0
    assert call(served, "DELETE", "files/users/bob", user=ANN)[0] == 204
    assert client(program, port, "-t", "bob/x", "-u", "bob", "-P", "second") != 0
    assert call(served, "DELETE", "files/users/bob", user=ANN)[0] == 404
    lines = served.passwords.read_text().splitlines()
    assert lines[0] == "# who may log in" and lines[3] == "# and nobody else" and len(lines) == 4
    after = os.stat(served.passwords)
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert not list(served.passwords.parent.glob(".martlet-*"))


@pytest.mark.parametrize("name", ["a:b", "#a", " a", "a\nb:x"])
def test_a_name_that_would_be_another_line_is_refused(served, name):
    text = served.passwords.read_text()
    status, answer = call(served, "POST", "files/users", {"username": name, "password": "x"}, user=ANN)
    assert status == 400 and "no colon" in answer["message"]
    assert served.passwords.read_text() == text


def test_rules_are_in_force_at_once_also_for_whom_is_connected(served, program):
    port = served.broker.port
    text = served.rules.read_text()
    assert client(program, port, "-t", "news/x", "-u", "anna", "-P", "secret") != 0
    status, made = call(served, "POST", "files/rules", {"for": "user", "username": "anna", "access": "write", "topic": "news/#"}, user=ANN)
    assert (status, made["line"]) == (201, 8)
    assert client(program, port, "-t", "news/x", "-u", "anna", "-P", "secret") == 0
    rule = next(rule for rule in call(served, "GET", "files/rules", user=ANN)[1]["data"] if rule["topic"] == "news/#")
    assert rule["for"] == "user" and rule["username"] == "anna" and rule["access"] == "write"
    status, _ = call(served, "PUT", f"files/rules/{rule['line']}", {"text": rule["text"], "access": "read", "topic": "news/#"}, user=ANN)
    assert status == 200
    assert client(program, port, "-t", "news/x", "-u", "anna", "-P", "secret") != 0
    assert call(served, "DELETE", f"files/rules/{rule['line']}?text={quote(rule['text'])}", user=ANN)[0] == 409, "it was changed meanwhile"
    assert call(served, "DELETE", f"files/rules/{rule['line']}?text={quote('topic read news/#')}", user=ANN)[0] == 204
    assert served.rules.read_text() == text
    for topic in ["a/#/b", "a\ntopic write #", "a+"]:
        status, answer = call(served, "POST", "files/rules", {"for": "anonymous", "access": "read", "topic": topic}, user=ANN)
        assert status == 400, answer
    assert served.rules.read_text() == text


def test_a_file_that_cannot_be_written_is_told_and_stays(served):
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    text = served.rules.read_text()
    served.rules.chmod(0o440)
    served.rules.parent.chmod(0o555)
    try:
        status, answer = call(served, "POST", "files/rules", {"for": "anonymous", "access": "read", "topic": "a"}, user=ANN)
    finally:
        served.rules.parent.chmod(0o755)
    assert status == 503 and "Nothing is changed" in answer["message"] and served.rules.read_text() == text


def may(served, **asked: str) -> dict:
    status, answer = call(served, "GET", "may?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in asked.items()), user=ANN)
    assert status == 200, answer
    return answer


def test_may_names_the_line_and_says_what_the_broker_does(served, program):
    """Each answer is tried with a client."""
    port = served.broker.port
    for user, topic, line in [("anna", "home/lamp", 6), ("anna", "home/safe", 7), ("anna", "devices/d1/x", 8), ("anna", "other", None), (None, "public/x", None)]:
        answer = may(served, action="publish", topic=topic, clientid="d1", **({"username": user} if user else {}))
        assert answer["line"] == line and (line is None or answer["file"] == str(served.rules)), answer
        login = ["-u", user, "-P", "secret"] if user else []
        assert answer["allowed"] == (client(program, port, "-i", "d1", "-t", topic, *login) == 0), answer
    assert may(served, action="publish", topic="home/safe", username="anna")["reason"] == f"No: {served.rules}:7 denies it."
    assert may(served, action="subscribe", topic="home/#", username="anna")["line"] == 6
    assert may(served, action="receive", topic="public/x")["line"] == 2
    assert may(served, action="publish", topic="home/x", username="nobody")["decided_by"] == "login"
    assert call(served, "POST", "bans", {"as": "username", "who": "anna"}, user=ANN)[0] == 201
    assert may(served, action="publish", topic="home/x", username="anna")["decided_by"] == "ban"


def test_a_role_of_dynamic_security_is_named(site, program, tmp_path):
    (tmp_path / "first").write_text("a-long-password\n")
    served = site(
        configuration=f"plugin mosquitto_dynamic_security.so\nplugin_opt_config_file {tmp_path}/users.json\nplugin_opt_password_init_file {tmp_path}/first\nmartlet_http_user admin admin\n")
    login = "admin:a-long-password"
    conditions = {"qos": [0, 1], "retain": False, "from": ["10.0.0.0/8"]}
    commands = [{"command": "createRole", "rolename": "plant", "acls": [{"acltype": "publishClientSend", "topic": "plant/#", "allow": True},
                    {"acltype": "publishClientSend", "topic": "far/%{client_attrs.site}", "allow": True, **conditions}]},
                {"command": "createClient", "username": "pump", "password": "x", "roles": [{"rolename": "plant"}]}]
    assert call(served, "POST", "security/commands", {"commands": commands}, user=login)[0] == 200
    ask = lambda topic, user="pump": call(served, "GET", f"may?action=publish&topic={quote(topic, safe='')}&username={user}", user=login)[1]  # noqa: E731
    assert ask("plant/1")["role"] == "plant" and ask("plant/1")["reason"] == "Yes: the role plant allows it."
    assert ask("other")["decided_by"] == "no_role" and ask("other", "nobody")["decided_by"] == "login"
    given = {"address": "10.1.2.3", "attributes": "site=a,floor=2", "qos": "1", "retain": "false"}
    far = lambda **more: ask("far/a", "pump&" + "&".join(f"{name}={value}" for name, value in (given | more).items()))["allowed"]  # noqa: E731
    assert far() and not far(address="192.0.2.1") and not far(attributes="site=b") and not far(qos="2") and not far(retain="true")
    commands = [{"command": "createRole", "rolename": "tank", "acls": [{"acltype": "publishClientSend", "topic": "own/%u/level", "allow": True}]},
                {"command": "createClient", "username": "tank", "password": "x", "roles": [{"rolename": "tank"}], "mountpoint": "own/%u/"}]
    assert call(served, "POST", "security/commands", {"commands": commands}, user=login)[0] == 200
    assert ask("level", "tank")["role"] == "tank" and not ask("own/tank/level", "tank")["allowed"]
    assert client(program, served.broker.port, "-t", "level", "-u", "tank", "-P", "x") == 0
    roles = call(served, "POST", "security/commands", {"commands": [{"command": "getRole", "rolename": "plant"}]}, user=login)[1]
    assert {name: roles["responses"][0]["data"]["role"]["acls"][1][name] for name in conditions} == conditions


def test_ctl_may_answers_in_a_sentence_and_by_its_exit(served, program):
    ctl = lambda *words: run(program.path, "ctl", "may", *words, "--socket", str(served.socket))  # noqa: E731
    yes, no = ctl("publish", "home/lamp", "--username", "anna"), ctl("publish", "home/safe", "--username", "anna")
    assert (yes.code, yes.output.decode()) == (0, f"Yes: {served.rules}:6 allows it.\n")
    assert (no.code, no.output.decode()) == (1, f"No: {served.rules}:7 denies it.\n")
    assert ctl("publish", "a/#").code == 1, "no topic"


def test_without_files_the_answer_says_which_option_is_missing(site, tmp_path):
    served = site(configuration="allow_anonymous true\n", lines=f"listener 0 {tmp_path}/http.sock\nprotocol http_api\n")
    connection = UnixConnection(str(tmp_path / "http.sock"))
    connection.request("POST", "/api/martlet/v1/files/users", body='{"username":"a","password":"b"}', headers={"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 409 and "password_file FILE" in answer.read().decode()
    connection.close()
    assert served.status("/livez") == 200

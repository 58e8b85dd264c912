"""Seeing and steering the broker over HTTP: who may, tokens, the audit, the log, reload, metrics and events."""

import base64
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from harness.site import API, call

pytestmark = pytest.mark.martlet("2.0 has no HTTP")

@pytest.fixture
def served(site, program, tmp_path):
    """A broker that ann administers and bob looks at, with files for tokens and the audit."""

    def start(lines: str = ""):
        passwords = tmp_path / "passwd"
        configuration = (
            f"password_file {passwords}\nmartlet_http_user ann admin\nmartlet_http_user bob viewer\n"
            f"martlet_http_token_file {tmp_path / 'tokens'}\nmartlet_audit_log {tmp_path / 'audit'}\n{lines}"
        )
        for name in ["ann", "bob", "cid"]:
            create = [] if passwords.exists() else ["-c"]
            subprocess.run([program.path, "passwd", *create, "-b", str(passwords), name, "secret"], check=True)
        return site(configuration=configuration)

    return start


def test_users_have_the_roles_that_the_configuration_gives(served):
    broker = served()
    assert call(broker, "GET", "broker")[0] == 401
    assert call(broker, "GET", "broker", user="bob:wrong")[0] == 401
    assert call(broker, "GET", "broker", user="cid:secret")[0] == 403
    assert call(broker, "GET", "broker", user="bob:secret")[0] == 200
    assert call(broker, "GET", "config", user="bob:secret")[0] == 403
    assert call(broker, "GET", "config", user="ann:secret")[0] == 200


def test_tokens_are_kept_in_their_file(served, tmp_path):
    broker = served()
    status, made = call(broker, "POST", "tokens", {"name": "program", "role": "viewer"}, user="ann:secret")
    assert status == 201
    assert made["token"] not in (tmp_path / "tokens").read_text()
    assert call(broker, "GET", "clients", token=made["token"])[0] == 200
    broker.broker.process.send_signal(signal.SIGHUP)
    broker.broker.wait_for_log("Config reloaded")
    assert call(broker, "GET", "clients", token=made["token"])[0] == 200
    assert call(broker, "DELETE", "tokens/program", user="ann:secret")[0] == 204
    assert call(broker, "GET", "clients", token=made["token"])[0] == 401


def test_changes_and_refusals_are_audited(served, tmp_path):
    broker = served()
    call(broker, "DELETE", "clients/nobody", user="ann:secret")
    call(broker, "DELETE", "clients/nobody", user="bob:secret")
    call(broker, "GET", "clients", user="ann:secret")
    entries = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [(entry["who"], entry["operation"], entry["status"]) for entry in entries] == [
        ("ann", "endSession", 404),
        ("bob", "endSession", 403),
    ]


@pytest.mark.parametrize(("line", "host", "status"), [
    ("", "localhost", 200), ("", "broker.example", 421), ("martlet_http_host broker.example\n", "broker.example", 200),
])  # fmt: skip
def test_requests_name_a_host_that_is_this_machine(served, line, host, status):
    assert call(served(line), "GET", "session", Host=host)[0] == status


def test_pages_of_allowed_origins_may_change_things(served):
    broker = served("martlet_http_origin https://admin.example\n")
    for origin, status in [("https://admin.example", 404), ("https://evil.example", 403)]:
        assert call(broker, "DELETE", "clients/nobody", user="ann:secret", Origin=origin)[0] == status


@pytest.mark.parametrize(("line", "isSeen"), [("", True), ("martlet_http_payloads none\n", False)])
def test_payloads_are_for_those_who_may_see_them(served, line, isSeen):
    broker = served(line)
    call(broker, "POST", "publish", {"topic": "a", "payload": "x", "retain": True}, user="ann:secret")
    assert call(broker, "GET", "retained/message?topic=a", user="ann:secret")[1]["payload"] == ("eA==" if isSeen else None)


def test_metrics_are_what_promtool_accepts(served):
    broker = served("martlet_metrics_anonymous true\n")
    call(broker, "GET", "clients", user="ann:secret")
    for path in ["/metrics", "/metrics?names=martlet"]:
        status, text = call(broker, "GET", path)
        assert status == 200
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    assert call(broker, "GET", "/metrics", Accept="application/openmetrics-text")[1].endswith("# EOF\n")


def test_metrics_need_a_login_else(served):
    assert call(served(), "GET", "/metrics")[0] == 401


def test_the_log_is_read_and_its_types_are_chosen(served):
    broker = served()
    assert call(broker, "PUT", "log/types", {"types": ["error", "notice", "debug"]}, user="ann:secret")[0] == 200
    lines = call(broker, "GET", "log?lines=4096", user="ann:secret")[1]["data"]
    assert any("running on" in line["message"] for line in lines)
    assert call(broker, "GET", "log/types", user="bob:secret")[1]["types"] == ["debug", "error", "notice"]


def test_a_configuration_is_checked_and_reloaded(served):
    broker = served()
    assert call(broker, "POST", "config/check", user="ann:secret") == (200, {"ok": True, "diagnostics": []})
    assert call(broker, "POST", "config/reload", user="ann:secret") == (200, {"ok": True, "diagnostics": []})
    options = call(broker, "GET", "config", user="ann:secret")[1]["options"]
    users = [option["value"] for option in options if option["name"] == "martlet_http_user"]
    assert users == ["ann admin", "bob viewer"]


def test_who_connects_is_told_at_once(served):
    broker = served()
    connection = broker.connection()
    login = base64.b64encode(b"ann:secret").decode()
    connection.request("GET", f"{API}/events?types=connected", headers={"Authorization": f"Basic {login}"})
    stream = connection.getresponse()
    assert stream.readline() == b": here\n"
    subprocess.run(["mosquitto_pub", "-p", str(broker.broker.port), "-i", "visitor", "-t", "a", "-n"], check=True)
    lines = iter(stream.readline, b"")
    assert any(b'"clientid":"visitor"' in line for line in lines)
    connection.close()


def test_the_alerts_are_rules_that_prometheus_takes():
    rules = Path(__file__).resolve().parents[3] / "config" / "monitoring" / "alerts.yml"
    checked = subprocess.run(["promtool", "check", "rules", str(rules)], text=True, capture_output=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_board_asks_for_what_is_measured(served):
    board = json.loads((Path(__file__).resolve().parents[3] / "config" / "monitoring" / "grafana.json").read_text())
    _, text = call(served("martlet_metrics_anonymous true\nmartlet_cluster_name c\nmartlet_cluster_servers 127.0.0.1:9\nconnection b\naddress 127.0.0.1:9\ntopic a\n"), "GET", "/metrics")
    measured = {re.split("[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}
    asked = {name for panel in board["panels"] for target in panel["targets"] for name in re.findall(r"(?:martlet|process)_\w+", target["expr"])}
    assert asked - measured == set()

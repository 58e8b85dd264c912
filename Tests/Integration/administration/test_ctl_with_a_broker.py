"""`martlet ctl` against a broker: every command, for people and as JSON, over TCP with a token and over the Unix socket."""

import hashlib
import json
import os
import subprocess
from datetime import UTC, datetime

import pytest
from harness.commands import run
from harness.lines import LineProcess
from harness.ports import reserve_port
from harness.site import Site
from harness.waiting import wait_until

pytestmark = pytest.mark.martlet("has no such command")


class Control:
    """The command, pointed at a broker in one of two ways."""

    def __init__(self, program, arguments: list[str]):
        self.program, self.arguments = program, arguments

    def __call__(self, *arguments, code: int = 0) -> str:
        done = run(self.program.path, "ctl", *map(str, arguments), *self.arguments)
        assert done.code == code, f"{arguments} ended with {done.code}:\n{done.output}{done.complaints}"
        return done.output.decode() if code == 0 else done.output.decode() + done.complaints

    def json(self, *arguments):
        return json.loads(self(*arguments, "--json"))

    def table(self, *arguments) -> list[list[str]]:
        """The words of each row below the head."""
        return [line.split() for line in self(*arguments).splitlines()[1:]]


@pytest.fixture
def broker(start_broker, tmp_path):
    tokens = tmp_path / "tokens"
    digest = {name: hashlib.sha256(f"mrt_{name}".encode()).hexdigest() for name in ["admin", "viewer"]}
    tokens.write_text("".join(f"{name}:{name}:{value}\n" for name, value in digest.items()))
    port = reserve_port()
    broker = start_broker(
        configuration=f"martlet_http_token_file {tokens}\nmax_queued_messages 2\nlistener {port} 127.0.0.1\nprotocol http_api\n"
        f"listener 0 {tmp_path}/http.sock\nprotocol http_api\n"
    )
    return Site(broker, port)


@pytest.fixture(params=["token", "socket"])
def ctl(request, program, broker, tmp_path) -> Control:
    if request.param == "socket":
        return Control(program, ["--socket", f"{tmp_path}/http.sock"])
    (tmp_path / "admin").write_text("mrt_admin\n")
    return Control(program, ["--url", f"http://127.0.0.1:{broker.port}", "--token-file", str(tmp_path / "admin")])


@pytest.fixture
def house(broker, tools_for, ctl):
    """A client that is here, and one that is away with two messages in its queue and a third dropped."""
    tools = tools_for(broker.broker.port)
    tools.start("mosquitto_sub", "-c", "-q", "1", "-i", "away-1", "-t", "plant/#", "-E").wait()
    here = tools.subscribe("plant/+/temp", client_id="here-1")
    for number in range(3):
        tools.publish(f"plant/{number}/temp", f"{20 + number}", qos=1, retain=True)
    wait_until(lambda: ctl.json("drops")["data"], "one is dropped")
    return here


def test_the_broker(ctl, house, broker):
    wait_until(lambda: "1 connected, 2 sessions" in ctl("status"), "the figures of the last second tell of both clients")
    assert "ready" in ctl("status") and f"127.0.0.1:{broker.port}" in ctl("status")
    assert set(ctl.json("status")) == {"broker", "stats", "listeners"}
    assert ctl("health").endswith("ok\n") and ctl("health", "--live").endswith("ok\n")
    assert ctl("reload", "--check") == "The configuration is right.\n"
    assert ctl("reload") == "The configuration is in force.\n"
    assert ctl.json("reload") == {"ok": True, "diagnostics": []}
    broker.broker.configuration_path.write_text("listener none\n")
    assert f"{broker.broker.configuration_path}:1:" in ctl("reload", code=1)
    assert "here-1" in ctl("top", "--interval", "0.5")


def test_clients(ctl, house):
    assert [row[0] for row in ctl.table("clients", "--sort", "clientid")] == ["away-1", "here-1"]
    assert [row[0] for row in ctl.table("clients", "--connected")] == ["here-1"]
    assert [row[0] for row in ctl.table("clients", "--min-queue", "1")] == ["away-1"]
    assert [row["clientid"] for row in ctl.json("clients", "here")["data"]] == ["here-1"]
    assert "away" in ctl("client", "away-1") and "2 messages" in ctl("client", "away-1")
    assert ctl.json("client", "away-1")["queue_messages"] == 2
    assert [row[:2] for row in ctl.table("subscriptions", "--matches", "plant/1/temp", "--client", "here-1")] == [["here-1", "plant/+/temp"]]
    assert {row["clientid"] for row in ctl.json("subscriptions")["data"]} == {"away-1", "here-1"}
    assert [row[1] for row in ctl.table("closed", "--client", "away-1")] != []
    assert {row["clientid"] for row in ctl.json("closed", "--client", "away-1")["data"]} == {"away-1"}
    assert ctl("complete", "aw") == "away-1\n" and ctl("complete", "nobody") == ""


def test_queues_and_what_is_dropped(ctl, house):
    assert [row[1] for row in ctl.table("queue", "away-1", "--payload")] == ["plant/0/temp", "plant/1/temp"]
    assert len(ctl.json("queue", "away-1")["data"]) == 2
    assert ctl("queue", "here-1", "--in-flight") == "Nothing is in flight to it.\n"
    assert "plant/2/temp" in ctl("drops") and "away-1" in ctl("drops")
    assert ctl.json("drops", "--limit", "1")["data"][0]["clientid"] == "away-1"
    assert ctl("queue", "away-1", "--delete", "--filter", "plant/0/#").startswith("1 ")
    assert ctl("queue", "away-1", "--delete").startswith("1 ")
    assert ctl("queue", "away-1") == "The queue is empty.\n"


def test_retained_messages(ctl, house):
    assert [row[0] for row in ctl.table("retained", "plant/#")] == ["plant/0/temp", "plant/1/temp", "plant/2/temp"]
    assert ctl("retained", "plant/1/temp", "--payload") == "21"
    assert ctl("retained", "plant/#", "--delete", "--dry-run").startswith("3 ")
    assert ctl("retained", "plant/0/+", "--delete").startswith("1 ")
    assert len(ctl.json("retained", "plant/#")["data"]) == 2
    ctl("retained", "plant/none", "--payload", code=4)


def test_clients_are_sent_away(ctl, house):
    assert ctl("kick", "here-1") == "here-1 is disconnected.\n"
    assert ctl("kick", "away-1", "--session") == "away-1 is gone, with its session.\n"
    assert ctl("client", "away-1", code=4) == "Error: There is no client away-1.\n"


def test_the_log(ctl, house, program):
    assert "running" in ctl("log", "--lines", "4096")
    assert "notice" in ctl("log", "level").split()
    assert ctl("log", "level", "error", "notice").startswith("error notice\n")
    assert ctl.json("log", "level", "+debug")["types"] == ["debug", "error", "notice"]
    command = [program.path, "ctl", "log", "--follow", "--lines", "1", *ctl.arguments]
    follower = LineProcess(command)
    follower.wait_line(lambda line: True, "a line of the past")

    def hears() -> bool:
        ctl("log", "level", "+debug")  # which the audit tells in the log
        return any("setLogTypes" in line for line in follower.lines[1:])

    wait_until(hears, "what is logged now is told")
    follower.process.kill()
    follower.wait()


def test_tokens_are_made_used_and_revoked(ctl, broker, program, tmp_path):
    token = ctl("token", "create", "grafana", "--role", "viewer", "--for", "1d").strip()
    assert ["grafana", "viewer"] in [row[:2] for row in ctl.table("token")]
    environment = {**os.environ, "MARTLET_TOKEN": token}
    asked = [program.path, "ctl", "clients", "--url", f"http://127.0.0.1:{broker.port}"]
    assert subprocess.run(asked, env=environment, stdout=subprocess.PIPE, text=True).stdout == "There are none.\n"
    assert ctl("token", "revoke", "grafana") == "The token grafana is revoked.\n"
    refused = subprocess.run(asked, env=environment, stderr=subprocess.PIPE, text=True)
    assert refused.returncode == 3 and "Give a token" in refused.stderr
    ctl("token", "revoke", "grafana", code=4)


def test_who_may_not(broker, program, tmp_path):
    url = ["--url", f"http://127.0.0.1:{broker.port}"]
    assert "Give a token" in Control(program, url)("status", code=3)
    assert "Give a token" in Control(program, [*url, "--token", "mrt_wrong"])("status", code=3)
    viewer = Control(program, [*url, "--token", "mrt_viewer"])
    assert "ready" in viewer("status")
    assert "needs the role admin" in viewer("kick", "here-1", code=3)
    broker.broker.stop()
    assert "Connection refused" in viewer("status", code=2)
    assert "No such file" in Control(program, ["--socket", f"{tmp_path}/http.sock"])("status", code=2)


def test_a_token_ends_after_ninety_days_if_nothing_else_is_said(ctl):
    def days(name: str) -> int | None:
        ends = next(row["expires_at"] for row in ctl.json("token")["data"] if row["name"] == name)
        return None if ends is None else round((datetime.fromisoformat(ends) - datetime.now(UTC)).total_seconds() / 86_400)

    for name, arguments in {"usual": [], "short": ["--for", "7d"], "endless": ["--for", "never"]}.items():
        assert ctl("token", "create", name, *arguments).startswith("mrt_")
    assert [days(name) for name in ["usual", "short", "endless"]] == [90, 7, None]
    assert "--for takes a time such as 24h or 90d, or never." in ctl("token", "create", "wrong", "--for", "soon", code=64)

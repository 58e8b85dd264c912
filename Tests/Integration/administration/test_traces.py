"""Traces and counted topics at a real broker: over HTTP, with `martlet ctl`, and in /metrics."""

import hashlib
import json
import signal
import subprocess

import pytest
from harness.waiting import wait_until

pytestmark = pytest.mark.martlet("2.0 has no HTTP")

API = "/api/martlet/v1"
TOKEN = "mrt_admin"


@pytest.fixture
def served(site, tmp_path):
    """A broker of two loops that is administered with a token, with a store or without."""

    def start(lines: str = ""):
        tokens = tmp_path / "tokens"
        tokens.write_text("".join(f"{role}:{role}:{hashlib.sha256(f'mrt_{role}'.encode()).hexdigest()}\n" for role in ["admin", "viewer"]))
        return site(configuration=f"martlet_threads 2\nmartlet_http_token_file {tokens}\n{lines}")

    return start


def call(broker, method: str, path: str, body=None, token: str = TOKEN):
    connection = broker.connection()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, f"{API}/{path}", body=None if body is None else json.dumps(body), headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, json.loads(text) if (response.getheader("Content-Type") or "").startswith("application/json") else text


def publish(broker, topic: str, payload: str, *options: str):
    subprocess.run(["mosquitto_pub", "-p", str(broker.broker.port), "-t", topic, "-m", payload, *options], check=True)


def lines(broker, identifier: str) -> list[dict]:
    return [json.loads(line) for line in call(broker, "GET", f"traces/{identifier}/download")[1].splitlines()]


@pytest.mark.parametrize("store", [False, True])
def test_a_client_is_traced_to_the_end(served, tmp_path, store):
    broker = served(f"persistence true\npersistence_location {tmp_path}\n" if store else "")
    status, trace = call(broker, "POST", "traces", {"clientid": "seen", "payload": "text"})
    assert (status, trace["state"], trace["lines"]) == (201, "running", 0)
    publish(broker, "a/b", "hello", "-i", "seen", "-q", "1")
    publish(broker, "a/b", "unseen", "-i", "other", "-q", "1")
    wait_until(lambda: any(line["type"] == "closed" for line in lines(broker, trace["id"])), "the trace has the end")
    found = lines(broker, trace["id"])
    assert [line.get("packet", line["type"]) for line in found] == ["CONNECT", "CONNACK", "PUBLISH", "PUBACK", "DISCONNECT", "closed"]
    assert (found[2]["topic"], found[2]["payload"], found[2]["qos"]) == ("a/b", "hello", 1)
    assert call(broker, "DELETE", f"traces/{trace['id']}")[0] == 204
    assert call(broker, "GET", f"traces/{trace['id']}")[0] == 404
    assert call(broker, "GET", "traces", token="mrt_viewer")[0] == 403
    # The file has no name.
    assert not list(tmp_path.glob(".martlet-*"))


def test_the_command_follows_a_topic_until_it_is_interrupted(served, program):
    broker = served()
    site = broker.connection()
    base = [program.path, "ctl"]
    options = ["--url", f"http://{site.host}:{site.port}", "--token", TOKEN]
    process = subprocess.Popen([*base, "trace", *options, "--topic", "plant/#", "--payload", "text"], stdout=subprocess.PIPE, text=True)
    wait_until(lambda: call(broker, "GET", "traces")[1]["data"], "the trace has begun")
    publish(broker, "plant/7", "alarm", "-i", "press")
    assert process.stdout.readline().split(" ", 1)[1].startswith("-- published press plant/7 ")
    assert "-- unmatched press plant/7" in process.stdout.readline()
    listed = subprocess.run([*base, "trace", "list", *options], capture_output=True, text=True, check=True).stdout
    assert "topic plant/#" in listed and "running" in listed
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert call(broker, "GET", "traces")[1]["data"] == []
    kept = subprocess.run([*base, "trace", *options, "--client", "press", "--keep"], capture_output=True, text=True, check=True).stdout.strip()
    publish(broker, "plant/7", "again", "-i", "press")
    wait_until(lambda: len(lines(broker, kept)) == 5, "the packets are recorded")
    printed = subprocess.run([*base, "trace", "print", kept, *options], capture_output=True, text=True, check=True).stdout
    assert [line.split()[2] for line in printed.splitlines()] == ["CONNECT", "CONNACK", "PUBLISH", "DISCONNECT", "closed"]
    stopped = subprocess.run([*base, "trace", "stop", kept, *options], capture_output=True, text=True, check=True).stdout
    assert stopped == f"The trace {kept} has ended and is forgotten.\n"
    assert subprocess.run([*base, "trace", "stop", kept, *options], capture_output=True).returncode == 4


def test_payloads_of_traces_obey_the_configuration(served):
    broker = served("martlet_http_payloads none\n")
    assert call(broker, "POST", "traces", {"topic": "a", "payload": "hex"})[0] == 403
    assert call(broker, "POST", "traces", {"topic": "a"})[0] == 201


def test_topics_are_counted_over_all_loops(served, program):
    broker = served()
    site = broker.connection()
    options = ["--url", f"http://{site.host}:{site.port}", "--token", TOKEN]
    added = subprocess.run([program.path, "ctl", "topic-metrics", "add", "plant/#", *options], capture_output=True, text=True, check=True)
    assert added.stdout == "plant/# is counted.\n"
    for name in ["one", "two", "three"]:
        publish(broker, f"plant/{name}", "12345", "-i", name, "-q", "1")
    row = call(broker, "GET", "topic-metrics", token="mrt_viewer")[1]["data"][0]
    assert (row["filter"], row["in_messages"], row["in_bytes"], row["out_messages"]) == ("plant/#", 3, 15, 0)
    connection = broker.connection()
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    text = connection.getresponse().read().decode()
    assert 'martlet_topic_messages_received_total{filter="plant/#"} 3\n' in text
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    assert "plant/#" in subprocess.run([program.path, "ctl", "topic-metrics", *options], capture_output=True, text=True, check=True).stdout
    subprocess.run([program.path, "ctl", "topic-metrics", "remove", "plant/#", *options], capture_output=True, check=True)
    assert call(broker, "GET", "topic-metrics")[1]["data"] == []

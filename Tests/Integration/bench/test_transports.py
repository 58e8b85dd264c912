"""martlet bench over each transport, against a broker that listens on all of them."""

import json
import subprocess

import pytest
from harness.broker import REPOSITORY
from harness.certificates import Authority
from harness.ports import reserve_port
from harness.waiting import PATIENCE

pytestmark = pytest.mark.martlet("measures with what was built here")


def bench(port: int, *arguments) -> subprocess.CompletedProcess:
    program = REPOSITORY / ".build/release/martlet"
    command = [program, "bench", "--port", port, "--seconds", "0.5", "--warmup", "0", "--json", *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture
def ports(start_broker, authority) -> dict[str, int]:
    """A port for each transport of one broker."""
    ports = {name: reserve_port() for name in ("tls", "websocket")}
    secure = f"certfile {authority.directory}/server.crt\nkeyfile {authority.directory}/server.key\n"
    # The last listener to open is the one that the start is waited for.
    broker = start_broker(
        listener=False,
        configuration=f"allow_anonymous true\nmax_queued_messages 0\n"
        f"listener {ports['tls']} 127.0.0.1\n{secure}"
        f"listener {ports['websocket']} 127.0.0.1\nprotocol websockets\n"
        f"listener {{port}} 127.0.0.1\nprotocol websockets\n{secure}",
    )
    return {**ports, "both": broker.port}


ARGUMENTS = {"tls": ["--tls"], "websocket": ["--websocket"], "both": ["--tls", "--websocket"]}
NAMES = {"tls": "TLS", "websocket": "WebSocket", "both": "WebSocket over TLS"}


@pytest.mark.parametrize("transport", ARGUMENTS)
@pytest.mark.parametrize(
    "scenario",
    [["fanout", "--subscribers", 10], ["pair", "--subscribers", 10], ["churn", "--publishers", 2]],
    ids=lambda scenario: scenario[0],
)
def test_messages_flow_and_none_is_lost(ports, authority, transport, scenario):
    secure = ["--cafile", authority.certificate] if "--tls" in ARGUMENTS[transport] else []
    done = bench(ports[transport], "-s", *scenario, "-q", 1, "--size", 200, *ARGUMENTS[transport], *secure)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["transport"] == NAMES[transport]
    assert result.get("rounds_per_s", 0) + result.get("out_per_s", 0) > 0
    assert result.get("lost", 0) == result.get("connections_lost", 0) == result.get("failed", 0) == 0
    assert not secure or result["encryption"].startswith("TLSv1.3 cipher ")


def test_large_payloads_pass_both_layers(ports):
    done = bench(ports["both"], "-s", "fanout", "--subscribers", 3, "--size", 300_000, "--tls", "--insecure", "--websocket")
    result = json.loads(done.stdout)
    assert result["out_per_s"] > 0 and result["lost"] == 0


def test_sessions_are_resumed_when_that_is_asked_for(ports, authority):
    arguments = ["-s", "conns", "--subscribers", 50, "--tls", "--cafile", authority.certificate]
    full, resumed = (json.loads(bench(ports["tls"], *arguments, *more).stdout) for more in ([], ["--resume"]))
    assert (full["handshakes"], full["handshakes_resumed"]) == (50, 0)
    assert (resumed["handshakes"], resumed["handshakes_resumed"]) == (50, 49)


def test_a_broker_that_is_not_to_be_trusted_is_told(ports, tmp_path):
    stranger = Authority(tmp_path / "strangers", "stranger")
    done = bench(ports["tls"], "--tls", "--cafile", stranger.certificate)
    assert done.returncode == 1
    assert "TLS: certificate verify failed: " in done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--insecure"], "need --tls"),
        (["--tls", "--insecure", "--cafile", "x"], "exclude each other"),
        (["--tls", "--cert", "x"], "--cert and --key need each other"),
        (["--tls", "--cafile", "/nowhere"], "cafile /nowhere: No such file or directory"),
    ],
)
def test_arguments_that_contradict_each_other_are_told(arguments, message):
    done = bench(1, *arguments)
    assert done.returncode != 0 and message in done.stderr

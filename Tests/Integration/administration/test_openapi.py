"""The API's description against the API: schemathesis makes requests of it, good and bad, and finds nothing to complain of."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness.broker import REPOSITORY

pytestmark = [pytest.mark.martlet("2.0 has no HTTP"), pytest.mark.timeout(3600 if os.environ.get("MARTLET_EXAMPLES") else 300)]

HERE = Path(__file__).parent
#: `make nightly` asks for more requests at random of each kind and operation, and for all combinations of parameters' limits.
EXAMPLES = os.environ.get("MARTLET_EXAMPLES")
DESCRIPTION = REPOSITORY / "Sources/Administration/openapi.json"
OPERATIONS = [operation for methods in json.loads(DESCRIPTION.read_text())["paths"].values() for operation in methods.values()]
#: They answer for as long as somebody listens: events, and a WebSocket.
STREAMS = [
    operation["operationId"]
    for operation in OPERATIONS
    if "101" in operation["responses"] or "text/event-stream" in operation["responses"].get("200", {}).get("content", {})
]
#: A broker that sends its clients away is not ready, which its health says; test_drain.py asks for it.
APART = ["drain"]
#: Who is there to be asked for.
CLIENT = "sensor"


def schemathesis(url: str, directory: Path) -> subprocess.CompletedProcess:
    """The same requests in every run."""
    excluded = [argument for name in STREAMS + APART for argument in ("--exclude-operation-id", name)]
    return subprocess.run(
        [Path(sys.executable).with_name("schemathesis"), "--config-file", HERE / "schemathesis.toml", "--no-color", "run", DESCRIPTION,
         "--url", url, "--header", "Authorization: Bearer mrt_admin", "--max-examples", EXAMPLES or "3",
         "--phases", "examples,coverage,fuzzing" if EXAMPLES else "fuzzing", *excluded,
         "--suppress-health-check", "too_slow"],  # a busy machine is no mistake
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=directory,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "MARTLET_CLIENT": CLIENT, "PYTHONPATH": str(HERE), "COLUMNS": "160"},
    )  # fmt: skip


def test_requests_made_from_the_description_are_answered_as_it_says(site, tools_for, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"admin:admin:{hashlib.sha256(b'mrt_admin').hexdigest()}\n")
    served = site(configuration=f"martlet_http_token_file {tokens}\n")
    tools = tools_for(served.broker.port)
    tools.subscribe("a/#", client_id=CLIENT, qos=1)  # comes back by itself when it is told to go
    tools.publish("a/b", "kept", qos=1, retain=True)
    done = schemathesis(f"http://127.0.0.1:{served.port}", tmp_path)
    assert done.returncode == 0, "\n".join(line[:400] for line in done.stdout.splitlines())
    assert f"Tested: {len(OPERATIONS) - len(STREAMS + APART)}" in done.stdout

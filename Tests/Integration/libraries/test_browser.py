"""A page in headless Chromium that connects over WebSocket with MQTT.js."""

import base64
import hashlib
import http.server
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from harness.certificates import Authority
from harness.waiting import PATIENCE

PAGE = Path(__file__).with_name("browser")
MODULES = Path("/usr/share/nodejs")
LISTENER = "listener {port} 127.0.0.1\nprotocol websockets\nallow_anonymous true\n"
#: A browser takes its time to start on a busy machine.
BROWSER_PATIENCE = 4 * PATIENCE
SIZES = [0, 125, 126, 70_000, 300_000]

pytestmark = [
    pytest.mark.martlet("2.0 cannot listen for WebSocket on a port that was just used, as reserve_port leaves it"),
    pytest.mark.timeout(120),
    pytest.mark.skipif(not shutil.which("chromium"), reason="there is no chromium here"),
    pytest.mark.skipif(not shutil.which("esbuild"), reason="there is no esbuild here, to make MQTT.js one script"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> bytes:
    """MQTT.js as one script: Debian's has the modules only, and they are put together as its authors do."""
    script = tmp_path_factory.mktemp("library") / "mqtt.js"
    nothing = PAGE / "nothing.js"
    subprocess.run(
        ["esbuild", MODULES / "mqtt/lib/connect/index.js", "--bundle", "--format=iife", "--global-name=mqtt",
         "--define:global=globalThis", f"--inject:{PAGE / 'globals.js'}", f"--outfile={script}",
         *(f"--alias:{module}={nothing}" for module in ["fs", "net", "tls", "ws"])],
        env={**os.environ, "NODE_PATH": str(MODULES)}, check=True, capture_output=True, timeout=PATIENCE,
    )  # fmt: skip
    return script.read_bytes()


class PageServer:
    """Serves the page and its scripts on a port of its own, and takes in what the page reports."""

    def __init__(self, library: bytes):
        self.reports: queue.Queue[dict] = queue.Queue()
        files = {
            "/page.html": ("text/html", (PAGE / "page.html").read_bytes()),
            "/page.js": ("text/javascript", (PAGE / "page.js").read_bytes()),
            "/mqtt.js": ("text/javascript", library),
        }
        reports = self.reports

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                kind, body = files.get(self.path.partition("?")[0], (None, b""))
                self.send_response(200 if kind else 404)
                self.send_header("Content-Type", kind or "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def page_server(library) -> Iterator[PageServer]:
    server = PageServer(library)
    yield server
    server.close()


@pytest.fixture
def browse(page_server, tmp_path):
    """Opens the page in a browser of its own; the answer is what the page reports."""

    def open_page(broker: str, version: int, *arguments: str) -> dict:
        command = [
            "chromium", "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
            "--disable-background-networking", "--disable-component-update", "--no-first-run", f"--user-data-dir={tmp_path / 'browser'}",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            *arguments,
            f"{page_server.origin}/page.html?{urlencode({'broker': broker, 'version': version})}",
        ]  # fmt: skip
        with (tmp_path / "browser.log").open("wb") as log:
            # A session of its own, so that the browser's helpers end with it.
            browser = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            try:
                return page_server.reports.get(timeout=BROWSER_PATIENCE)
            except queue.Empty:
                raise AssertionError((tmp_path / "browser.log").read_text(errors="replace")[-5000:]) from None
            finally:
                browser.terminate()
                try:
                    browser.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    browser.kill()
                    browser.wait()

    return open_page


def assert_complete(result: dict):
    """Every message came once, with its QoS, and those of one QoS in order."""
    assert "received" in result, result
    for qos in [0, 1, 2]:
        sizes = [one["size"] for one in result["received"] if one["topic"].startswith(f"page/{qos}/") and one["qos"] == qos]
        assert sizes == (SIZES if qos < 2 else [*SIZES, 0]), result


@pytest.mark.parametrize("version", [4, 5])
def test_a_page_exchanges_messages(start_broker, page_server, browse, version):
    broker = start_broker(configuration=f"{LISTENER}websockets_origin {page_server.origin}\n", listener=False)
    assert_complete(browse(f"ws://127.0.0.1:{broker.port}/mqtt", version))


def test_a_page_exchanges_messages_over_tls(start_broker, browse, tmp_path):
    authority = Authority(tmp_path / "certificates")
    certificate = authority.issue("server")
    lines = f"{LISTENER}certfile {certificate}\nkeyfile {certificate.with_suffix('.key')}\n"
    broker = start_broker(configuration=lines, listener=False)
    key = subprocess.run(["openssl", "x509", "-in", certificate, "-noout", "-pubkey"], check=True, capture_output=True).stdout
    key = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=key, check=True, capture_output=True).stdout
    known = base64.b64encode(hashlib.sha256(key).digest()).decode()
    # This key and no other is let through without an authority that the browser knows.
    result = browse(f"wss://localhost:{broker.port}/mqtt", 5, f"--ignore-certificate-errors-spki-list={known}")
    assert_complete(result)


def test_a_page_of_another_origin_is_turned_away(start_broker, browse):
    broker = start_broker(configuration=f"{LISTENER}websockets_origin https://dashboard.example\n", listener=False)
    assert "failed" in browse(f"ws://127.0.0.1:{broker.port}/mqtt", 5)

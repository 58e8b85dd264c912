"""What martlet bench shows while it runs and says when it is over: on a terminal, in a log, as JSON, and as a page."""

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from harness.broker import REPOSITORY
from harness.ports import reserve_port
from harness.waiting import PATIENCE

pytestmark = pytest.mark.martlet("measures with what was built here")

PROGRAM = REPOSITORY / ".build/release/martlet"
PAIR = ["-s", "pair", "--subscribers", 5, "--rate", 500, "--warmup", 0]
SHORT = [*PAIR, "--seconds", 1]


def command(*arguments) -> list[str]:
    return [str(part) for part in [PROGRAM, "bench", *arguments]]


def bench(port: int, *arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run(command("--port", port, *arguments), capture_output=True, text=True, timeout=PATIENCE, **options)


class Terminal:
    """A program on a terminal of its own, 70 columns wide: what it writes to standard error."""

    def __init__(self, *arguments, **environment):
        self.master, slave = pty.openpty()
        subprocess.run(["stty", "cols", "70"], stdin=slave, check=True)
        names = {"TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": "", **environment}
        # Whoever started the tests in the background may have had this signal ignored.
        self.process = subprocess.Popen(
            command(*arguments), stdout=subprocess.PIPE, stderr=slave, env={**os.environ, **names}, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
        os.close(slave)
        self.text = ""

    def read_until(self, wanted: str | None):
        """Reads until that has come, or without it until the end."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and not (wanted and wanted in self.text):
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode(errors="replace")
                except OSError:  # nobody has the other end any more
                    break
        assert wanted is None or wanted in self.text, self.text
        return self.text

    def close(self):
        self.process.kill()
        self.process.communicate()
        os.close(self.master)


@pytest.fixture
def on_terminal():
    running = []

    def start(*arguments, **environment) -> Terminal:
        running.append(Terminal(*arguments, **environment))
        return running[-1]

    yield start
    for terminal in running:
        terminal.close()


# While it runs


def test_a_terminal_shows_rate_and_latencies_in_place_and_is_left_clean(broker, on_terminal):
    terminal = on_terminal("--port", broker.port, *SHORT)
    text = terminal.read_until(None)
    assert terminal.process.wait(PATIENCE) == 0
    for shown in ["pair → 127.0.0.1:", "measuring", "█", "delivered", "/s", "p50", "p99", "of 1 s"]:
        assert shown in text
    assert re.search(r"\x1b\[[2-9]A", text), "nothing is drawn over"
    assert text.endswith("\x1b[J"), "the last frame was left"
    assert "\x1b[1m" in text and "\x1b[?" not in text


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"LC_ALL": "C"}], ids=lambda variables: next(iter(variables)))
def test_what_the_user_asks_of_a_terminal_is_obeyed(broker, on_terminal, environment):
    # Plain lines come once a second, the first one after a second.
    text = on_terminal("--port", broker.port, *PAIR, "--seconds", 2.5, **environment).read_until(None)
    assert "measuring" in text and "p99" in text
    assert ("\x1b[1m" in text) == ("LC_ALL" in environment)
    assert ("█" in text) == ("NO_COLOR" in environment)
    assert ("\x1b" in text) == ("TERM" not in environment)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_broken_off_leaves_the_cursor_in_a_line_of_its_own(broker, on_terminal, tmp_path, number):
    page = tmp_path / "page.html"
    terminal = on_terminal("--port", broker.port, "-s", "pair", "--subscribers", 5, "--seconds", 60, "--warmup", 0, "--html", page)
    terminal.read_until("p99")
    terminal.process.send_signal(number)
    text = terminal.read_until(None)
    assert text.endswith("\x1b[0m\r\n"), repr(text[-300:])
    assert terminal.process.wait(PATIENCE) == -number
    assert list(tmp_path.glob(".page*")) == [] and not page.exists()


def test_what_is_no_terminal_gets_plain_lines(broker):
    done = bench(broker.port, "-s", "pair", "--subscribers", 5, "--rate", 500, "--seconds", 2.5, "--warmup", 0)
    lines = done.stderr.splitlines()
    assert 1 <= len(lines) <= 3 and "\x1b" not in done.stderr
    assert re.fullmatch(r"measuring, [\d.]+ of 2.5 s: delivered [\d.]+(?: k)?/s, published .*/s, latency p50 .*s   p99 .*s", lines[0])


def test_quiet_is_silent(broker):
    assert bench(broker.port, *SHORT, "--quiet").stderr == ""


# When it is over


def test_figures_are_scaled_and_their_units_said(broker):
    done = bench(broker.port, *SHORT, "--size", 20000, "--pid", broker.process.pid)
    figures = dict(re.split(r"  +", line.strip(), maxsplit=1) for line in done.stdout.splitlines()[1:])
    assert done.stdout.startswith(f"  127.0.0.1:{broker.port}, ")
    assert figures["payload"] == "20.0 KB"
    assert re.fullmatch(r"[\d.,]+ [nµm]s for each message delivered", figures["broker CPU"])
    assert re.fullmatch(r"p50 [\d.]+ [µm]s  p90 .*  max [\d.]+ [µm]s", figures["latency"])
    assert re.fullmatch(r"[\d.]+ MB", figures["broker memory"])


@pytest.mark.parametrize(
    "scenario, keys",
    [
        (["fanout", "--subscribers", 5, "--window", 50], {"in_per_s", "out_per_s", "p50_us", "p99.9_us", "max_us"}),
        (["publish"], {"in_per_s", "out_per_s"}),
        (["churn", "--publishers", 2], {"rounds_per_s", "p50_us", "p99_us"}),
        (["conns", "--subscribers", 200], {"connections_per_s"}),
        (["flood", "--subscribers", 2, "--rate", 100], {"part", "out_per_s", "p99_us"}),
        (["retained", "--subscribers", 200], None),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_json_has_figures_facts_and_a_series_and_all_keys_are_documented(broker, scenario, keys):
    done = bench(broker.port, "-s", *scenario, "--seconds", 0.6, "--warmup", 0.1, "--json", "--pid", broker.process.pid)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["scenario"] == scenario[0] == result["arguments"]["scenario"]
    assert result["broker"]["address"] == f"127.0.0.1:{broker.port}" and "martlet" in result["broker"]["version"]
    assert result["arguments"]["port"] == broker.port and result["arguments"]["seconds"] == 0.6
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result["started"])
    assert result["machine"]["processors"] >= 1 and result["machine"]["memory_bytes"] > 1 << 20
    if keys is None:
        assert result["series"] == []
    else:
        assert keys | {"t", "load_cpu_percent", "connections_lost"} <= {key for point in result["series"] for key in point}
        assert all(point["t"] > 0 for point in result["series"])
    assert "failure" not in result
    assert undocumented(result) == set()


def undocumented(result) -> set[str]:
    """Keys that the documentation of results does not name."""
    text = (REPOSITORY / "Sources/Bench/Bench.docc/Results.md").read_text()
    known = set(re.findall(r"`([a-z0-9_.]+)`", text))
    found: set[str] = set()

    def look(value):
        for key, part in value.items() if isinstance(value, dict) else []:
            found.add(key)
            look(part)
        for part in value if isinstance(value, list) else []:
            look(part)

    look(result)
    return found - known


def test_the_series_adds_up_to_the_whole(broker):
    result = json.loads(bench(broker.port, "-s", "pair", "--subscribers", 5, "--rate", 2000, "--seconds", 2, "--json").stdout)
    ends = [0, *(point["t"] for point in result["series"])]
    assert 6 <= len(result["series"]) <= 9 and ends == sorted(ends)
    total = sum(point["out_per_s"] * (end - start) for point, start, end in zip(result["series"], ends, ends[1:]))
    assert total == pytest.approx(result["out_per_s"] * ends[-1], rel=0.1)
    assert max(point["max_us"] for point in result["series"]) == pytest.approx(result["latency_us"]["max"], rel=0.01)


# What goes wrong


def test_a_broker_that_is_not_there_is_named_with_what_to_do(tmp_path):
    port = reserve_port()
    done = bench(port, "--html", tmp_path / "page.html")
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: Cannot connect to 127.0.0.1:{port}: Connection refused. "
        "Nothing listens there; start a broker (martlet), or name another with --host and --port.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_host_with_several_addresses_is_tried_at_each(start_broker):
    if "::1" not in {address[4][0] for address in socket.getaddrinfo("localhost", None)}:
        pytest.skip("localhost has no IPv6 address here")
    port = reserve_port()
    start_broker(
        configuration=f"allow_anonymous true\nlistener {port} ::1\nlistener {{port}} 127.0.0.1\n", listener=False)
    done = bench(port, "--host", "localhost", *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["broker"]["address"] == f"localhost:{port}"


def test_a_refused_login_says_what_to_give(start_broker):
    broker = start_broker(configuration="listener {port} 127.0.0.1\nallow_anonymous false\n", listener=False)
    done = bench(broker.port, *SHORT)
    assert done.returncode == 1
    assert f"connections came to stand with 127.0.0.1:{broker.port}: the broker refused the connection with code 5" in done.stderr
    assert "--user and --password" in done.stderr


def test_a_port_for_tls_is_guessed_at(start_broker, authority):
    secure = f"certfile {authority.directory}/server.crt\nkeyfile {authority.directory}/server.key\n"
    broker = start_broker(configuration="listener {port} 127.0.0.1\nallow_anonymous true\n" + secure, listener=False)
    done = bench(broker.port, *SHORT)
    assert done.returncode == 1 and "a port for TLS wants --tls" in done.stderr


@pytest.mark.parametrize("place, reason", [("nowhere/page.html", "No such file or directory"), (".", "is a directory; name a file in it")])
def test_a_page_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path, place, reason):
    # Nothing listens on port 1: whoever asked for it first would say so.
    done = bench(1, "--html", f"{tmp_path}/{place}")
    assert done.returncode == 1 and reason in done.stderr and "connect" not in done.stderr


# The page


class Outline(HTMLParser):
    """Elements that were opened and not closed, those there are, and what they ask for."""

    VOID = {"meta", "br", "link", "img", "rect", "circle"}

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


@pytest.fixture
def page(broker, tmp_path):
    file = tmp_path / "page.html"
    done = bench(broker.port, *SHORT, "--pid", broker.process.pid, "--html", file)
    assert done.returncode == 0 and done.stderr.endswith(f"The page with charts is {file}.\n"), done.stderr
    return file


def test_a_page_is_whole_and_can_be_read_without_seeing_it(page):
    outline = Outline(page.read_text())
    assert outline.open == []
    charts = [attributes for tag, attributes in outline.elements if tag == "svg"]
    assert len(charts) == 4 and all(chart["role"] == "img" and len(chart["aria-label"]) > 20 for chart in charts)
    tags = [tag for tag, _ in outline.elements]
    assert "script" not in tags and tags.count("figcaption") == 4 and tags.count("caption") == 4 and tags.count("h1") == 1
    assert not any(name in attributes for tag, attributes in outline.elements for name in ("src", "href"))
    assert dict(outline.elements)["html"] == {"lang": "en"}
    assert page.stat().st_size < 100_000


@pytest.mark.timeout(180)
@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no chromium here")
def test_a_browser_shows_the_page_without_complaint_in_the_light_and_in_the_dark(page, tmp_path):
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            body = page.read_bytes() if self.path == "/page.html" else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        papers = {}
        for scheme, number in [("dark", 0), ("light", 1)]:
            picture = tmp_path / f"{scheme}.png"
            done = subprocess.run(
                ["chromium", "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
                 "--disable-background-networking", "--disable-component-update", "--no-first-run", "--enable-logging=stderr",
                 f"--user-data-dir={tmp_path / 'browser'}", *(["--no-sandbox"] if os.geteuid() == 0 else []),
                 f"--blink-settings=preferredColorScheme={number}", "--hide-scrollbars", "--window-size=900,700",
                 f"--screenshot={picture}", f"http://127.0.0.1:{server.server_port}/page.html"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * PATIENCE,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-3000:]
            assert "CONSOLE" not in done.stderr, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
            papers[scheme] = brightness(picture)
        assert papers["dark"] < 60 and papers["light"] > 200, papers
        # A browser asks for an icon by itself.
        assert set(requests) <= {"/page.html", "/favicon.ico"}, requests
    finally:
        server.shutdown()
        server.server_close()


def brightness(picture) -> float:
    """The mean of a PNG's bytes, 0 to 255, with its rows' filters undone."""
    import struct
    import zlib

    data, position, packed = picture.read_bytes(), 8, b""
    while position < len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        body = data[position + 8 : position + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack_from(">IIBB", body)
        if kind == b"IDAT":
            packed += body
        position += 12 + length
    samples = {2: 3, 6: 4}[colour]
    raw, row_size = zlib.decompress(packed), width * samples
    before = bytearray(row_size)
    total = 0
    for row in range(height):
        start = row * (row_size + 1)
        kind, line = raw[start], bytearray(raw[start + 1 : start + 1 + row_size])
        for index in range(row_size):
            left = line[index - samples] if index >= samples else 0
            up = before[index]
            corner = before[index - samples] if index >= samples else 0
            if kind == 1:
                line[index] = line[index] + left & 255
            elif kind == 2:
                line[index] = line[index] + up & 255
            elif kind == 3:
                line[index] = line[index] + (left + up) // 2 & 255
            elif kind == 4:
                nearest = min((left, up, corner), key=lambda value: abs(left + up - corner - value))
                line[index] = line[index] + nearest & 255
        before = line
        total += sum(line[0::samples]) + sum(line[1::samples]) + sum(line[2::samples])
    return total / (width * height * 3)

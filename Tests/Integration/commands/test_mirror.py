"""martlet mirror on a terminal of the test's own."""

import re
import signal

import pytest
from harness.terminal import ENTER, LEAVE, Terminal
from harness.waiting import wait_until
from harness.commands import run


@pytest.fixture
def mirror(server, commands):
    terminals = []

    def start(*arguments, **options) -> Terminal:
        terminals.append(Terminal(commands.path, "mirror", *server.arguments, *arguments, **options))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def publish(server, topic: str, message: str, *options):
    assert run("mosquitto_pub", *server.plain, "-t", topic, "-m", message, *options).code == 0


def test_topics_are_drawn_as_they_come(server, mirror):
    publish(server, "home/kitchen/temperature", "21.5", "-r")
    publish(server, "home/kitchen/lamp", "off", "-r")
    terminal = mirror("home/#")
    lines = terminal.wait_screen(lambda text: "21.5" in text and "off" in text, "the retained messages")
    assert lines[0] == f"home/# on 127.0.0.1:{server.broker.port}"
    assert lines[1].split() == ["home/kitchen/", "2"]
    assert re.fullmatch(r"├─ lamp +off +R +\d+s", lines[2])
    assert re.fullmatch(r"└─ temperature +21\.5 +R +\d+s", lines[3])
    assert len(lines) == 20
    publish(server, "home/kitchen/lamp", "on")
    publish(server, "home/hall/door", "open")
    terminal.wait_screen(lambda text: re.search(r"lamp +on ", text) and re.search(r"hall/door +open", text), "what has changed")
    terminal.press(b"q")
    assert terminal.wait() == 0
    assert terminal.is_clean()


def test_keys_filter_and_scroll(server, mirror):
    for number in range(40):
        publish(server, f"n/{number + 10}", f"value {number}", "-r")
    terminal = mirror("n/#")
    terminal.wait_screen(lambda text: "40 topics" in text and "10 " in text, "all topics")
    terminal.press(b"\x1b[6~")
    terminal.wait_screen(lambda text: "line 19 of 41" in text, "the next page")
    terminal.press(b"G")
    terminal.wait_screen(lambda text: "└─ 49" in text, "the end")
    terminal.press(b"/value 7\r")
    terminal.wait_screen(lambda text: re.search(r"n/17 +value 7", text), "what matches")
    terminal.press(b"\x1b")
    terminal.wait_screen(lambda text: "├─ 10" in text, "all again")
    terminal.press(b"\x03")
    assert terminal.wait() == 0
    assert terminal.is_clean()


def test_it_follows_the_size_of_the_terminal(server, mirror):
    publish(server, "s/x", "value", "-r")
    terminal = mirror("s/#", columns=80, rows=20)
    terminal.wait_screen(lambda text: "value" in text, "the message")
    for columns, rows in [(40, 10), (120, 50), (10, 4)]:
        terminal.resize(columns, rows)
        lines = terminal.wait_screen(lambda text: text.count("\n") == rows - 1, f"{rows} rows")
        assert max(map(len, lines)) <= columns
    terminal.press(b"q")
    assert terminal.wait() == 0


@pytest.mark.parametrize("name, code", [("INT", 0), ("TERM", 0), ("HUP", -1), ("QUIT", -3)])
def test_signals_leave_the_terminal_clean(server, mirror, name, code):
    publish(server, "s/x", "value", "-r")
    terminal = mirror("s/#")
    terminal.wait_screen(lambda text: "value" in text, "the message")
    assert not terminal.is_clean()
    terminal.process.send_signal(getattr(signal, f"SIG{name}"))
    assert terminal.wait() == code
    assert terminal.is_clean()


def test_a_crash_leaves_the_terminal_clean(server, mirror):
    publish(server, "s/x", "value", "-r")
    terminal = mirror("s/#")
    terminal.wait_screen(lambda text: "value" in text, "the message")
    terminal.process.send_signal(signal.SIGSEGV)
    assert terminal.wait() == -signal.SIGSEGV
    assert terminal.is_clean()


def test_it_can_be_stopped_and_continued(server, mirror):
    publish(server, "s/x", "value", "-r")
    terminal = mirror("s/#")
    terminal.wait_screen(lambda text: "value" in text, "the message")
    terminal.process.send_signal(signal.SIGTSTP)
    wait_until(lambda: open(f"/proc/{terminal.process.pid}/stat").read().split(") ")[1][0] == "T", "it is stopped")
    terminal.read()
    assert terminal.is_clean()
    terminal.output = ENTER + LEAVE
    terminal.process.send_signal(signal.SIGCONT)
    terminal.wait_screen(lambda text: "value" in text, "the picture is back")
    assert terminal.output.count(ENTER) == 2
    terminal.press(b"q")
    assert terminal.wait() == 0
    assert terminal.is_clean()


def test_a_broker_that_goes_is_told_and_one_that_comes_back_too(server, mirror):
    publish(server, "s/x", "value")
    terminal = mirror("s/#", columns=200)
    terminal.wait_screen(lambda text: "0 topics" in text, "the first picture")
    server.broker.kill()
    terminal.wait_screen(lambda text: "no connection" in text or "connecting" in text, "that the broker has gone")
    server.broker.restart()
    terminal.wait_screen(lambda text: "no connection" not in text and "connecting" not in text, "that it is back")
    terminal.press(b"q")
    assert terminal.wait() == 0


def test_where_nobody_watches_messages_are_lines(server, commands):
    publish(server, "l/a", "1", "-r")
    publish(server, "l/b", "2", "-r")
    done = commands.run("mirror", *server.arguments, "l/#", "-C", 2)
    assert (done.code, sorted(done.output.splitlines())) == (0, [b"l/a 1", b"l/b 2"])
    done = commands.run("mirror", *server.arguments, "l/a", "-C", 1, "--json")
    assert b'"topic":"l/a","payload":"1"' in done.output

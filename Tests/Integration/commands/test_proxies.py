"""Through proxies, on every transport, and with headers of a WebSocket's request."""

import socket
import threading

import pytest
from harness.commands import READY, make_ready, wait_ready
from commands.proxies import Proxy


@pytest.fixture
def proxy():
    """Makes proxies that end with the test."""
    made: list[Proxy] = []

    def make(*arguments, **options) -> Proxy:
        made.append(Proxy(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("login", [None, "me:no way"])
@pytest.mark.parametrize("kind", ["http", "socks"])
def test_a_message_goes_through(commands, route, proxy, kind, login):
    if "--unix" in route.arguments:
        pytest.skip("a Unix socket has no proxy")
    through = proxy(kind, login=login)
    address = through.address.replace(" ", "%20")
    make_ready(route)
    subscriber = commands.start("sub", *route.arguments, "-t", READY, "-t", "a", "-C", "2", "--proxy", address)
    wait_ready(subscriber)
    done = commands.run("pub", *route.arguments, "-t", "a", "-m", "hello", "-q", "1", "--proxy", address)
    assert (done.code, done.complaints) == (0, "")
    subscriber.wait_line(lambda line: line == "hello", "the message")
    assert len(through.targets) == 2


def test_the_proxy_looks_the_name_up(commands, start_server, proxy):
    broker = start_server()
    for kind in ("http", "socks"):
        through = proxy(kind, names={"nobody.knows.invalid": "127.0.0.1"})
        done = commands.run("pub", "-h", "nobody.knows.invalid", "-p", broker.port, "-t", "a", "-m", "x", "-q", "1", "--proxy", through.address)
        assert (done.code, done.complaints) == (0, "")
        assert through.targets == [f"nobody.knows.invalid:{broker.port}"]


@pytest.mark.parametrize(
    "kind, mood, words",
    [
        ("http", "refusing", "the proxy answers 403 Forbidden"),
        ("http", "closing", "the proxy closed the connection without an answer"),
        ("http", "endless", "the proxy answers with a head of more than 8192 bytes"),
        ("http", "silent", "the proxy does not answer within 10.0 seconds"),
        ("socks", "refusing", "the proxy does not let us connect there"),
        ("socks", "closing", "the proxy closed the connection without an answer"),
        ("socks", "endless", "the proxy does not speak SOCKS 5"),
        ("socks", "silent", "the proxy does not answer within 10.0 seconds"),
    ],
)
def test_a_proxy_that_does_it_wrong_is_named_and_left(commands, proxy, kind, mood, words):
    through = proxy(kind, mood=mood)
    done = commands.run("pub", "-h", "h.invalid", "-p", "1", "-t", "a", "-m", "x", "--proxy", through.address)
    assert (done.code, done.complaints) == (1, f"Error: mqtt://h.invalid:1: {words}\n")


@pytest.mark.parametrize("kind, words", [("http", "answers 407 Proxy Authentication Required: user or password are wrong"), ("socks", "refuses the user and the password")])
def test_a_wrong_login_is_said_without_the_password(commands, proxy, kind, words):
    through = proxy(kind, login="me:right")
    done = commands.run("pub", "-h", "h.invalid", "-p", "1", "-t", "a", "-m", "x", "--proxy", through.address.replace("right", "wrong"))
    assert (done.code, done.complaints) == (1, f"Error: mqtt://h.invalid:1: the proxy {words}\n")


def test_a_proxy_that_is_not_there_is_named(commands):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        done = commands.run("pub", "-h", "h.invalid", "-p", "1", "-t", "a", "-m", "x", "--proxy", f"socks5h://me:secret@127.0.0.1:{port}")
    assert (done.code, done.complaints) == (1, f"Error: mqtt://h.invalid:1: the proxy socks5h://127.0.0.1:{port}: Connection refused\n")


def test_path_and_headers_go_with_the_request(commands):
    heads = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            stream, _ = listener.accept()
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += stream.recv(4096)
            heads.append(head.decode())
            stream.sendall(b"HTTP/1.1 401 Unauthorized\r\n\r\n")
            stream.close()

        server = threading.Thread(target=serve)
        server.start()
        port = listener.getsockname()[1]
        done = commands.run(
            "pub", "-h", "127.0.0.1", "-p", port, "-t", "a", "-m", "x", "--ws-path", "/mqtt?token=1", "--ws-header", "Authorization: Bearer abc"
        )  # fmt: skip
        server.join()
    assert heads[0].startswith("GET /mqtt?token=1 HTTP/1.1\r\n")
    assert "\r\nAuthorization: Bearer abc\r\n" in heads[0]
    assert done.complaints == f"Error: ws://127.0.0.1:{port}/mqtt?token=1: WebSocket: the server answers 401 Unauthorized\n"

"""How the client commands end: exact words and exit codes, beside mosquitto's where they have the same."""

import os
import signal
import socket
import subprocess
import threading
import time

import pytest
from harness.waiting import PATIENCE, wait_until
from harness.commands import NOBODY, READY, Route, make_ready, run, wait_ready

HINT = "See 'martlet {} --help' for more information.\n"

#: Arguments, what is said on standard error, the exit code. {closed} is a port where nobody listens.
WITHOUT_A_SERVER = [
    ("pub -t a", "Error: Both topic and message must be supplied.\n" + HINT.format("pub"), 1),
    ("sub", "Error: You must specify a topic to subscribe to.\n" + HINT.format("sub"), 1),
    ("sub -t a --nonsense", "Error: Unknown option '--nonsense'.\n" + HINT.format("sub"), 1),
    ("request -t a", "Error: Both topic and message must be supplied.\n" + HINT.format("request"), 1),
    ("respond -t a", "Error: Give either a message (-m, -f, -n or -s) or a command as the answer.\n" + HINT.format("respond"), 1),
    ("mirror a/#/b", "Error: Invalid subscription topic 'a/#/b', are all '+' and '#' wildcards correct?\n" + HINT.format("mirror"), 1),
    ("sub -t a -o /nonexistent", "Error: The options file /nonexistent cannot be read.\n" + HINT.format("sub"), 1),
    ("pub -t a -f /nonexistent", 'Error: Unable to open file "/nonexistent": No such file or directory.\n', 1),
    ("pub -t a -f /", 'Error: Unable to open file "/": it is a directory.\n', 1),
    ("pub -t a -s", "Error: Zero length input.\n", 1),
    ("sub -t a -h 127.0.0.1 -p {closed}", "Error: mqtt://127.0.0.1:{closed}: Connection refused\n", 1),
    ("sub -t a -h 127.0.0.1 -p {closed} --quiet", "", 1),
    ("pub -t a -m x -h 127.0.0.1 -p {closed}", "Error: mqtt://127.0.0.1:{closed}: Connection refused\n", 1),
    ("request -t a -m x -h 127.0.0.1 -p {closed}", "Error: mqtt://127.0.0.1:{closed}: Connection refused\n", 1),
    ("sub -t a --unix /nonexistent", "Error: unix:/nonexistent: No such file or directory\n", 1),
    ("sub -t a -h 127.0.0.1 -p {closed} -A 192.0.2.1", "Error: mqtt://127.0.0.1:{closed}: Cannot assign requested address\n", 1),
    ("sub -t a -p {closed} --cafile /nonexistent", "Error: /nonexistent: No such file or directory\n", 1),
]  # fmt: skip


@pytest.mark.parametrize("line, words, code", WITHOUT_A_SERVER, ids=[line for line, _, _ in WITHOUT_A_SERVER])
def test_what_is_wrong_before_there_is_a_connection(commands, line, words, code):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        closed = reserved.getsockname()[1]
        done = commands.run(*line.format(closed=closed).split())
    assert (done.complaints, done.code, done.output) == (words.replace("{closed}", str(closed)), code, b"")


#: Options of mosquitto_sub, _pub and _rr that are wrong: both programs say the same.
ALIKE = {
    "sub": [
        "", "-t", "-t a/#/b", "-T a/#/b", "-U #/b", "-t a -q 3", "-t a -p 99999", "-t a -k 4", "-t a --keepalive", "-t a -V 6", "-t a -V", "-t a -x z",
        "-t a -x -2", "-t a -C 0", "-t a -W 0", "-t a -M 0", "-t a -M", "-t a -i x -I y", "-t a -I x -i y", "-t a -c", "-t a -c -I x", "-t a -c -V 5", "-t a -D",
        "-t a -D connect receive-maximum", "-t a -D connect user-property x", "-t a -D foo x y", "-t a -D connect foo y",
        "-t a -D connect topic-alias-maximum 99999", "-t a -D connect content-type x", "-t a -D puback reason-string x",
        "-t a -D connect session-expiry-interval 3 -D connect session-expiry-interval 3", "-t a -F %", "-t a -F %z", "-t a -F %-", "-t a -F %10.",
        "-t a -F \\q", "-t a -F \\", "-t a -F @", "-t a --cert x", "-t a --key x", "-t a --keyform pem", "-t a --psk 12", "-t a --psk 12 --cafile x", "-t a --will-payload x",
        "-t a --will-retain", "-t a --will-topic #", "-t a --will-qos 3", "-L mqtt://h", "-L mqtt://h/#/b", "-t a --nonsense", "-t a -m x", "-t a extra",
        "-t a -R --retained-only", "-t a --random-filter 0", "-t a -A", "--unix", "-t a --cafile", "-t a -h", "-t a -u", "-t a -P", "-t a -T", "-t a -U", "-t a -L",
        "-t a -C", "-t a -W", "-t a -F", "-t a -i", "-t a -I", "-t a -k", "-t a -q", "-t a -p", "-t a -x", "-t a --capath", "-t a --cert", "-t a --key", "-t a --keyform", "-t a --ciphers",
        "-t a --tls-version", "-t a --tls-alpn", "-t a --tls-engine", "-t a --tls-engine-kpass-sha1", "-t a --psk", "-t a --psk-identity", "-t a --proxy", "-t a --random-filter",
        "-t a --will-topic", "-t a --will-payload", "-t a --will-qos",
    ],
    "pub": [
        "", "-t a", "-m x", "-t a -m x -n", "-t a -l -s", "-t a/# -m x", "-t a -m", "-t a -f", "-t a -m x --repeat 0", "-t a -m x --repeat-delay -1", "-t a -m x --repeat", "-t a -m x --repeat-delay",
        "-t a -m x -C 3", "-e a -t b -m x", "-t a -m x -D publish subscription-identifier 4", "-t a -m x -D publish payload-format-indicator -1", "-t a -m x -v", "-t a -m x -F x",
        "-t a -m x -W 3", "-t a -m x -R", "-t a -m x -T x", "-t a -m x -U x", "-t a -m x -N", "-t a -m x -E", "-t a -m x --pretty",
    ],
    "request": ["-V 311 -t a -m x", "-t a -e b/# -m x", "-t a -e b -m x -D publish response-topic c", "-t a -e b -l", "-t a -e b -m x -C 2", "-t a -e b -m x -r", "-t a -e", "-t a -e b -m x -E"],
}  # fmt: skip


@pytest.mark.parametrize("name, line", [(name, line) for name, lines in ALIKE.items() for line in lines])
def test_wrong_options_are_refused_in_mosquittos_words(commands, name, line):
    program = {"pub": "mosquitto_pub", "sub": "mosquitto_sub", "request": "mosquitto_rr"}[name]
    theirs = run(program, *line.split())
    ours = commands.run(name, *line.split())
    first = [words for words in theirs.complaints.splitlines() if words][0]
    assert ours.complaints == f"{first}\n{HINT.format(name)}"
    assert ours.code == theirs.code == 1


def test_bytes_that_are_no_text_are_not_sent_as_others(commands):
    done = subprocess.run([commands.path.encode(), b"pub", b"-t", b"a", b"-m", b"\xff"], capture_output=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert done.stderr.decode() == "Error: Arguments have to be UTF-8; send other bytes with -f or -s.\n" + HINT.format("pub")


@pytest.fixture
def guarded(start_server, martlet, tmp_path) -> Route:
    """A broker that lets nobody in but u with the password p, who may do what begins with ok/."""
    passwords = tmp_path / "passwords"
    passwords.touch(mode=0o600)
    subprocess.run([martlet, "passwd", "-H", "sha512-pbkdf2", "-b", passwords, "u", "p"], check=True, capture_output=True)
    access = tmp_path / "access"
    access.write_text("user u\ntopic readwrite ok/#\n")
    access.chmod(0o600)
    broker = start_server(
        f"listener {{port}} 127.0.0.1\nallow_anonymous false\npassword_file {passwords}\nacl_file {access}", listener=False
    )
    return Route(broker, ["-h", "127.0.0.1", "-p", str(broker.port)])


#: Arguments, what is said, the exit code; also mosquitto's exit code for the same.
REFUSED = [
    ("sub -t x", "Connection error: Connection Refused: not authorised.\n", 5),
    ("sub -t x -V 5", "Connection error: Not authorized", 135),
    ("sub -t x -V 5 -u u -P wrong", "Connection error: ", (134, 135)),
    ("sub -t x -u u -P wrong", "Connection error: Connection Refused: ", (4, 5)),
    ("pub -t x -m x", "Connection error: Connection Refused: not authorised.\n", 5),
    ("pub -t x -m x -V 5", "Connection error: Not authorized", 135),
    ("request -t x -m x -e y", "Connection error: Not authorized", 135),
    ("respond -t x -m x", "Connection error: Not authorized", 135),
    ("mirror x", "Connection error: Not authorized", 135),
]  # fmt: skip


@pytest.mark.parametrize("line, words, code", REFUSED, ids=[line for line, _, _ in REFUSED])
def test_a_login_that_is_refused(guarded, commands, line, words, code):
    name, *arguments = line.split()
    done = commands.run(name, *guarded.arguments, *arguments)
    assert done.complaints.startswith(words)
    assert done.code in (code if isinstance(code, tuple) else (code,))
    if (program := {"pub": "mosquitto_pub", "sub": "mosquitto_sub", "request": "mosquitto_rr"}.get(name)) is not None:
        assert run(program, *guarded.plain, *arguments).code == done.code


def test_a_message_that_is_refused(guarded, commands):
    login = [*guarded.arguments, "-u", "u", "-P", "p", "-V", 5]
    assert commands.run("pub", *login, "-t", "ok/x", "-m", "x", "-q", 1).code in (0, 16)
    done = commands.run("pub", *login, "-t", "no/x", "-m", "x", "-q", 1)
    assert done.complaints.startswith("Warning: Publish 1 failed: Not authorized.\n")
    assert done.code == 135


def test_a_certificate_of_somebody_else_is_refused(start_server, authority, commands):
    from harness.certificates import Authority

    directory = authority.directory
    broker = start_server(
        f"listener {{port}} 127.0.0.1\nallow_anonymous true\ncertfile {directory}/server.crt\nkeyfile {directory}/server.key", listener=False
    )
    other = Authority(directory / "other").certificate
    done = commands.run("pub", "-h", "localhost", "-p", broker.port, "--cafile", other, "-t", "a", "-m", "x")
    assert done.code == 1
    assert "certificate" in done.complaints
    anyone = ["pub", "-h", "localhost", "-p", broker.port, "--cafile", other, "--insecure", "-t", "a", "-m", "x"]
    assert commands.run(*anyone).code == 0
    # What speaks TLS is no MQTT in the clear.
    done = commands.run("pub", "-h", "localhost", "-p", broker.port, "-t", "a", "-m", "x")
    assert done.code == 1 and done.complaints.startswith("Error: ")


@pytest.mark.parametrize("version", [["--tls-version", "tlsv1.3"], ["--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"]], ids=" ".join)
def test_versions_and_ciphers_of_tls(start_server, authority, commands, version):
    directory = authority.directory
    broker = start_server(
        f"listener {{port}} 127.0.0.1\nallow_anonymous true\ncertfile {directory}/server.crt\nkeyfile {directory}/server.key", listener=False
    )
    common = ["pub", "-h", "localhost", "-p", broker.port, "--cafile", authority.certificate, "-t", "a", "-m", "x"]
    assert commands.run(*common, *version, "--tls-alpn", "mqtt").code == 0
    done = commands.run(*common, "--ciphers", "NONE-OF-THEM")
    assert done.code == 1
    assert done.complaints.startswith("Error: Ciphers NONE-OF-THEM: OpenSSL has none of them")


def test_a_key_that_both_know(start_server, commands, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("me:0123456789abcdef\n")
    keys.chmod(0o600)
    broker = start_server(f"listener {{port}} 127.0.0.1\nallow_anonymous true\npsk_hint x\npsk_file {keys}", listener=False)
    common = ["pub", "-h", "localhost", "-p", broker.port, "-t", "a", "-m", "x", "--psk-identity", "me"]
    assert commands.run(*common, "--psk", "0123456789abcdef").code == 0
    assert commands.run(*common, "--psk", "0123456789abcdee").code == 1
    assert run("mosquitto_pub", *map(str, common[1:]), "--psk", "0123456789abcdef").code == 0


def test_what_answers_and_is_no_broker(commands):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            for reply in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\x20\x02\x00"):
                connection, _ = listener.accept()
                connection.recv(1000)
                connection.sendall(reply)
                connection.close()

        threading.Thread(target=answer, daemon=True).start()
        for _ in range(3):
            done = commands.run("pub", "-h", "127.0.0.1", "-p", listener.getsockname()[1], "-t", "a", "-m", "x")
            assert done.code == 1
            assert done.complaints.startswith("Error: ")


def test_the_time_of_W(server, commands):
    done = commands.run("sub", *server.arguments, "-t", "silence", "-W", 1)
    assert (done.code, done.output, done.complaints) == (27, b"", "Timed out\n")
    assert run("mosquitto_sub", *server.plain, "-t", "silence", "-W", "1").code == 27


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
@pytest.mark.parametrize("line", ["sub -t test/ready -v", "mirror test/ready", "respond -t test/ready -m x"])
def test_signals_end_it_well(server, commands, line, number):
    make_ready(server)
    name, *arguments = line.split()
    process = commands.start(name, *server.arguments, *arguments)
    if name != "respond":
        wait_ready(process)
    else:
        server.broker.wait_for_log("test/ready")
        process.wait_line(lambda line: "has no response topic" in line, "the retained message, which is no request")
    process.process.send_signal(number)
    assert process.wait() == 0


def test_a_publisher_dies_of_a_signal(server, commands):
    process = subprocess.Popen(
        [commands.path, "pub", *server.arguments, "-t", "a", "-l", "-d"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=NOBODY
    )
    while b"CONNACK" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == -signal.SIGINT


@pytest.mark.parametrize("name, words", [("sub -t", "ready"), ("mirror", "test/ready ready")])
def test_a_reader_that_leaves_ends_it_though_nothing_comes(server, commands, name, words):
    make_ready(server)
    shell = f"{commands.path} {name} test/ready {' '.join(server.arguments)} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = run("bash", "-c", shell)
    assert (done.output.decode(), done.complaints) == (f"{words}\n1\n", "")


def test_all_that_was_asked_for_is_success_though_the_reader_leaves_at_once(server, commands):
    make_ready(server)
    shell = f"{commands.path} sub -t test/ready -C 1 {' '.join(server.arguments)} | head -c 1; echo ${{PIPESTATUS[0]}}"
    assert [run("bash", "-c", shell).output for _ in range(10)] == [b"r0\n"] * 10


def test_a_session_is_made_also_where_nobody_reads(server, commands):
    shell = f"{commands.path} sub -t a -c -i nobody -E {' '.join(server.arguments)} | true; echo ${{PIPESTATUS[0]}}"
    assert run("bash", "-c", shell).output == b"0\n"


def test_a_full_disk_ends_it(server, commands):
    make_ready(server)
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [commands.path, "sub", *server.arguments, "-t", "test/ready"], stdout=full, stderr=subprocess.PIPE, env=NOBODY, timeout=PATIENCE
        )
    assert (process.returncode, process.stderr) == (1, b"Error: Standard output: No space left on device.\n")


def test_it_reconnects_as_mosquitto_sub_does(server, commands):
    make_ready(server)
    subscribers = [
        wait_ready(commands.start("sub", *server.arguments, "-t", READY, "-t", "a")),
        wait_ready(commands.start_mosquitto("sub", *server.plain, "-t", READY, "-t", "a")),
    ]
    server.broker.kill()
    server.broker.restart()

    def all_have_it() -> bool:
        run("mosquitto_pub", *server.plain, "-t", "a", "-m", "after")
        time.sleep(0.1)
        return all("after" in subscriber.lines for subscriber in subscribers)

    wait_until(all_have_it, "both are there again", 20)
    assert subscribers[0].terminate() == 0


def test_lines_survive_a_broker_that_is_killed(server, commands):
    # Half of them twice may wait for the subscriber at most: fewer than a queue holds, else some are dropped.
    count = 1000
    writer = subprocess.Popen(
        [commands.path, "pub", *server.arguments, "-i", "writer", "-t", "lines", "-l", "-q", "1"], stdin=subprocess.PIPE, env=NOBODY
    )
    make_ready(server)
    subscriber = wait_ready(commands.start("sub", *server.arguments, "-q", 1, "-t", READY, "-t", "lines"))
    for number in range(count):
        if number == count // 2:
            writer.stdin.flush()
            subscriber.wait_line(lambda line: line == "100", "the first lines")
            server.broker.kill()
            server.broker.restart()
            # The subscription has to stand before the rest comes: a broker keeps nothing for who is away without a session.
            make_ready(server)
            subscriber.wait_line(lambda line: line == "ready", "the subscriber is there again", after=1, seconds=20)
        writer.stdin.write(b"%d\n" % number)
    writer.stdin.close()
    assert writer.wait(30) == 0
    subscriber.wait_line(lambda line: line == str(count - 1), "the last line")
    second = [int(line) for line in subscriber.lines if line.isdigit() and int(line) >= count // 2]
    assert sorted(set(second)) == list(range(count // 2, count))

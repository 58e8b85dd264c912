"""martlet pub and sub, over each transport and beside mosquitto's."""

import json
import os
import re

import pytest
from harness.commands import READY, Route, make_ready, run, wait_ready


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", ["311", "5"])
def test_messages_go_both_ways(route, commands, qos, version):
    make_ready(route)
    ours = wait_ready(commands.start("sub", *route.arguments, "-V", version, "-q", qos, "-t", READY, "-t", "a/#", "-v"))
    theirs = wait_ready(commands.start_mosquitto("sub", *route.plain, "-V", version, "-q", qos, "-t", READY, "-t", "a/#", "-v"))
    done = commands.run("pub", *route.arguments, "-V", version, "-q", qos, "-t", "a/ours", "-m", "from martlet")
    assert (done.code, done.output, done.complaints) == (0, b"", "")
    assert run("mosquitto_pub", *route.plain, "-V", version, "-q", qos, "-t", "a/theirs", "-m", "from mosquitto").code == 0
    for process in (ours, theirs):
        process.wait_line(lambda line: line == "a/ours from martlet", "martlet's message")
        process.wait_line(lambda line: line == "a/theirs from mosquitto", "mosquitto's message")
    assert ours.terminate() == 0


def test_a_large_message_arrives_whole(route, commands, tmp_path):
    # mosquitto 2.0.11 sends nothing larger than some 100 KB over WebSocket, to no client.
    is_limited = not route.broker.program.is_martlet and "--ws" in route.arguments
    payload = os.urandom(60_000 if is_limited else 1_000_000)
    path = tmp_path / "payload"
    path.write_bytes(payload)
    assert commands.run("pub", *route.arguments, "-q", 1, "-t", "large", "-f", path, "-r").code == 0
    done = commands.run("sub", *route.arguments, "-t", "large", "-C", 1, "-N")
    assert done.code == 0
    assert done.output == payload


def test_what_the_broker_may_send_is_bounded(start_server, commands, tmp_path):
    broker = start_server("max_packet_size 20000000")
    server = Route(broker, ["-h", "127.0.0.1", "-p", str(broker.port)])
    path = tmp_path / "payload"
    path.write_bytes(b"x" * 17_000_000)
    assert commands.run("pub", *server.arguments, "-q", 1, "-t", "large", "-f", path, "-r").code == 0
    # Before MQTT 5.0 the broker cannot be told: the connection ends, and the next one.
    done = commands.run("sub", *server.arguments, "-V", 311, "-t", "large", "-W", 2)
    assert (done.code, done.output) == (27, b"")
    assert "sent a packet of more than 16777216 bytes" in done.complaints
    # It leaves out what is larger.
    done = commands.run("sub", *server.arguments, "-V", 5, "-t", "large", "-W", 2)
    assert (done.code, done.output, done.complaints) == (27, b"", "Timed out\n")
    more = ["-D", "connect", "maximum-packet-size", 18_000_000]
    assert len(commands.run("sub", *server.arguments, *more, "-t", "large", "-C", 1, "-N").output) == 17_000_000


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_lines_arrive_in_their_order(server, commands, qos):
    # Fewer than a broker keeps for a slow subscriber.
    count = 900
    make_ready(server)
    subscriber = wait_ready(commands.start("sub", *server.arguments, "-q", qos, "-t", READY, "-t", "lines"))
    lines = b"".join(b"%d\n" % number for number in range(count)) + b"last without an end"
    done = commands.run("pub", *server.arguments, "-t", "lines", "-l", "-q", qos, standard_input=lines)
    assert (done.code, done.complaints) == (0, "")
    subscriber.wait_line(lambda line: line.startswith("last"), "the last line")
    assert subscriber.lines[1:] == [str(number) for number in range(count)] + ["last without an end"]


def test_sources_of_a_message(server, commands, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"from a file")
    make_ready(server)
    subscriber = wait_ready(commands.start("sub", *server.arguments, "-t", READY, "-t", "s", "-F", "%l:%p"))
    for arguments, standard_input in [
        (["-m", "text"], b""),
        (["-f", path], b""),
        (["-s"], b"all of\nit"),
        (["-n"], b""),
        (["-m", "thrice", "--repeat", 3, "--repeat-delay", "0.01"], b""),
        (["-l"], b""),
        (["-l"], b"\n"),
    ]:
        assert commands.run("pub", *server.arguments, "-t", "s", *arguments, standard_input=standard_input).code == 0
    assert commands.run("pub", *server.arguments, "-t", "s", "-m", "end").code == 0
    subscriber.wait_line(lambda line: line == "3:end", "the last message")
    expected = ["4:text", "11:from a file", "9:all of", "it", "0:", "6:thrice", "6:thrice", "6:thrice", "0:", "3:end"]
    assert subscriber.lines[1:] == expected


def test_a_url_says_where_and_what(server, commands):
    url = f"mqtt://127.0.0.1:{server.broker.port}/u/r/l"
    assert commands.run("pub", "-L", url, "-m", "x", "-r").code == 0
    done = commands.run("sub", "-L", url, "-C", 1, "-v")
    assert (done.code, done.output) == (0, b"u/r/l x\n")


def test_options_come_from_mosquittos_files(server, commands, tmp_path):
    (tmp_path / "mosquitto_pub").write_text(f"# mine\n-p {server.broker.port}\n-h 127.0.0.1\n-m from the file\n-r\n")
    (tmp_path / "mosquitto_sub").write_text(f"-L mqtt://127.0.0.1:{server.broker.port}/o\n-C 1\n")
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert commands.run("pub", "-t", "o", environment=environment).code == 0
    assert commands.run("sub", environment=environment).output == b"from the file\n"
    (tmp_path / "more").write_text("-F %t\n")
    assert commands.run("sub", "-L", f"mqtt://127.0.0.1:{server.broker.port}/o", "-C", 1, "-o", tmp_path / "more").output == b"o\n"


def test_a_kept_session_brings_what_was_missed_and_keeps_what_is_not_wanted(server, commands):
    session = [*server.arguments, "-i", "keeper", "-c", "-q", 1, "-t", "k/#"]
    assert commands.run("sub", *session, "-E").code == 0
    for number in range(5):
        assert run("mosquitto_pub", *server.plain, "-q", "1", "-t", f"k/{number}", "-m", str(number)).code == 0
    assert commands.run("sub", *session, "-C", 2).output == b"0\n1\n"
    assert commands.run("sub", *session, "-C", 3).output == b"2\n3\n4\n"
    # The subscription outlives the commands until it is given up.
    assert commands.run("sub", *server.arguments, "-i", "keeper", "-c", "-U", "k/#").code == 0
    assert run("mosquitto_pub", *server.plain, "-q", "1", "-t", "k/x", "-m", "not wanted").code == 0
    assert commands.run("sub", *server.arguments, "-i", "keeper", "-c", "-t", "other", "-W", 1).output == b""


def test_what_is_filtered_out_removed_and_left_out(server, commands):
    for topic in ["r/a", "r/b", "r/c/d"]:
        assert run("mosquitto_pub", *server.plain, "-t", topic, "-m", topic[2:], "-r").code == 0
    done = commands.run("sub", *server.arguments, "-t", "r/#", "-T", "r/c/#", "-W", 1)
    assert (done.code, sorted(done.output.split())) == (27, [b"a", b"b"])
    assert commands.run("sub", *server.arguments, "-t", "r/#", "-R", "-W", 1).output == b""
    done = commands.run("sub", *server.arguments, "-t", "r/#", "-T", "r/b", "--remove-retained", "-W", 1)
    assert sorted(done.output.split()) == [b"a", b"c/d"]
    assert commands.run("sub", *server.arguments, "-t", "r/#", "-W", 1, "-v").output == b"r/b b\n"
    retained = commands.start("sub", *server.arguments, "-t", "r/#", "--retained-only")
    retained.wait_line(lambda line: line == "b", "the retained message")
    assert run("mosquitto_pub", *server.plain, "-t", "r/x", "-m", "fresh").code == 0
    assert retained.wait() == 0
    assert retained.lines == ["b"]


def test_a_will_is_left_by_who_crashes_and_not_by_who_ends(server, commands):
    make_ready(server)
    watcher = wait_ready(commands.start_mosquitto("sub", *server.plain, "-t", READY, "-t", "will/#", "-v"))
    will = ["-t", READY, "--will-payload", "gone", "--will-qos", 1]
    wait_ready(commands.start("sub", *server.arguments, *will, "--will-topic", "will/ended")).terminate()
    wait_ready(commands.start("sub", *server.arguments, *will, "--will-topic", "will/crashed")).kill()
    watcher.wait_line(lambda line: line == "will/crashed gone", "the will")
    assert "will/ended gone" not in watcher.lines


def test_properties_travel(server, commands):
    properties = [
        "content-type", "text/plain", "response-topic", "r", "correlation-data", "c", "message-expiry-interval", "60", "payload-format-indicator", "1",
    ]  # fmt: skip
    arguments = [word for name, value in zip(properties[::2], properties[1::2]) for word in ("-D", "publish", name, value)]
    arguments += ["-D", "publish", "user-property", "a", "b", "-D", "publish", "user-property", "a", "c"]
    assert commands.run("pub", *server.arguments, "-t", "p", "-m", "x", "-r", "-q", 1, *arguments).code == 0
    form = "%C|%R|%D|%F|%P"
    for program in (["mosquitto_sub"], [commands.path, "sub"]):
        done = run(*program, *server.plain, "-V", "5", "-t", "p", "-C", "1", "-F", form)
        assert done.output == b"text/plain|r|c|1|a:b a:c\n"
    line = json.loads(commands.run("sub", *server.arguments, "-V", 5, "-t", "p", "-q", 1, "-C", 1, "--json").output)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}[+-]\d\d:\d\d", line.pop("time"))
    assert line.pop("packet_identifier") > 0
    assert line["properties"].pop("message_expiry_interval") <= 60
    assert line == {
        "topic": "p", "payload": "x", "qos": 1, "retain": True, "duplicate": False,
        "properties": {
            "payload_format_indicator": 1, "content_type": "text/plain", "response_topic": "r", "correlation_data": "c",
            "user_properties": [["a", "b"], ["a", "c"]], **{key: line["properties"][key] for key in line["properties"] if key.startswith("sub")},
        },
    }  # fmt: skip

"""martlet request and respond, with each other and with mosquitto_rr."""

import pytest
from harness.commands import run


@pytest.fixture
def responder(server, commands):
    process = commands.start("respond", *server.arguments, "-d", "-t", "calc/+", "-q", 1, "--", "tr", "a-z", "A-Z")
    process.wait_line(lambda line: "received SUBACK" in line, "SUBACK")
    return process


def test_a_request_is_answered_by_a_command(server, commands, responder):
    done = commands.run("request", *server.arguments, "-t", "calc/upper", "-m", "hello", "-q", 1, "-W", 10)
    assert (done.code, done.output, done.complaints) == (0, b"HELLO\n", "")
    done = commands.run("request", *server.arguments, "-t", "calc/upper", "-e", "answers", "-s", "-v", "-W", 10, standard_input=b"x" * 200_000)
    assert (done.code, done.output) == (0, b"answers " + b"X" * 200_000 + b"\n")


def test_mosquitto_rr_is_answered(server, responder):
    done = run("mosquitto_rr", *server.plain, "-t", "calc/x", "-e", "answers/1", "-m", "by mosquitto", "-W", "10")
    assert (done.code, done.output) == (0, b"BY MOSQUITTO\n")


def test_one_answer_for_all(server, commands):
    process = commands.start("respond", *server.arguments, "-d", "-t", "fixed", "-m", "always", "-C", 2, "-D", "publish", "content-type", "text/plain")
    process.wait_line(lambda line: "received SUBACK" in line, "SUBACK")
    for _ in range(2):
        done = commands.run("request", *server.arguments, "-t", "fixed", "-n", "-F", "%p %C", "-W", 10)
        assert (done.code, done.output) == (0, b"always text/plain\n")
    assert process.wait() == 0


def test_a_command_that_fails_says_so(server, commands):
    process = commands.start("respond", *server.arguments, "-d", "-t", "f", "sh", "-c", 'echo "no $MARTLET_TOPIC"; exit 3')
    process.wait_line(lambda line: "received SUBACK" in line, "SUBACK")
    done = commands.run("request", *server.arguments, "-t", "f", "-m", "x", "-F", "%p%P", "-W", 10)
    assert (done.code, done.output) == (1, b"no f\nmartlet-answer:failure\n")
    process.wait_line(lambda line: "it ended with exit code 3" in line, "the failure")


def test_a_command_that_is_not_there(server, commands):
    process = commands.start("respond", *server.arguments, "-d", "-t", "f", "--", "/nonexistent")
    process.wait_line(lambda line: "received SUBACK" in line, "SUBACK")
    done = commands.run("request", *server.arguments, "-t", "f", "-m", "x", "-W", 10)
    assert (done.code, done.output) == (1, b"")
    process.wait_line(lambda line: line == "Warning: /nonexistent: No such file or directory.", "the failure")


def test_jobs_run_beside_each_other(server, commands, tmp_path):
    # Each command waits for the other.
    script = f'read word; touch {tmp_path}/$word; until [ -e {tmp_path}/a ] && [ -e {tmp_path}/b ]; do sleep 0.01; done; echo $word'
    process = commands.start("respond", *server.arguments, "-d", "-t", "j", "--jobs", 2, "--", "sh", "-c", script)
    process.wait_line(lambda line: "received SUBACK" in line, "SUBACK")
    first = commands.start("request", *server.arguments, "-t", "j", "-m", "a", "-W", 10)
    assert commands.run("request", *server.arguments, "-t", "j", "-m", "b", "-W", 10).output == b"b\n\n"
    assert first.wait() == 0
    assert first.lines[0] == "a"


def test_nobody_answers(server, commands):
    done = commands.run("request", *server.arguments, "-t", "nobody", "-m", "x", "-W", 1)
    assert (done.code, done.complaints) == (27, "Timed out\n")
    done = commands.run("request", *server.arguments, "-t", "nobody", "-m", "x", "-q", 1, "-W", 10)
    assert (done.code, done.complaints) == (16, "Error: Nobody subscribes to nobody.\n")


def test_answers_of_somebody_else_are_left(server, commands):
    process = commands.start("respond", *server.arguments, "-d", "-t", "slow", "--", "sh", "-c", "sleep 0.5; echo mine")
    process.wait_line(lambda line: "received SUBACK" in line, "SUBACK")
    asking = commands.start("request", *server.arguments, "-d", "-t", "slow", "-e", "shared", "-m", "x", "-W", 10)
    asking.wait_line(lambda line: "sending PUBLISH" in line, "the request")
    assert run("mosquitto_pub", *server.plain, "-t", "shared", "-m", "other", "-D", "publish", "correlation-data", "other").code == 0
    assert asking.wait() == 0
    assert "mine" in asking.lines and "other" not in asking.lines

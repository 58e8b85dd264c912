"""The command: its options, what it says to a wrong one, and what it listens on."""

import re
import signal
import socket
from pathlib import Path

import pytest
from harness.certificates import Authority
from harness.lines import LineProcess
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import wait_until


def listening_addresses(port: int) -> set[str]:
    """The addresses on which anything on this machine listens on a port."""
    addresses = set()
    for path, length in [(Path("/proc/net/tcp"), 4), (Path("/proc/net/tcp6"), 16)]:
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            local, state = line.split()[1], line.split()[3]
            address, number = local.split(":")
            if state == "0A" and int(number, 16) == port:
                words = bytes.fromhex(address)
                network = b"".join(words[i : i + 4][::-1] for i in range(0, length, 4))
                addresses.add(socket.inet_ntop(socket.AF_INET if length == 4 else socket.AF_INET6, network))
    return addresses


@pytest.fixture
def run_on(program):
    """Starts the command with arguments, waits until a port is listened on, and ends it with exit code 0."""
    processes = []

    def start(port: int, *arguments) -> LineProcess:
        process = LineProcess([program.path, *arguments])
        processes.append(process)
        wait_until(lambda: listening_addresses(port), f"listens on {port}: {process.lines}")
        return process

    yield start
    for process in processes:
        process.process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, process.lines


@pytest.mark.parametrize(
    "arguments, named",
    [
        (["--prot", "1883"], "--prot"),
        (["-Z"], "-Z"),
        (["--port"], "port"),
        (["--port", "many"], "port"),
        (["--port", "70000"], "port"),
    ],
)
def test_a_wrong_argument_is_refused_and_named(program, arguments, named):
    done = run(program, *arguments)
    assert done.returncode != 0
    assert "Error" in done.stdout and named in done.stdout


@pytest.mark.martlet
def test_a_misspelt_option_gets_the_right_one_as_a_suggestion(program):
    done = run(program, "--prot", "1883")
    assert "'--port'" in done.stdout


@pytest.mark.martlet
def test_the_version_is_told(program):
    done = run(program, "--version")
    assert done.returncode == 0
    assert re.search(r"\d+\.\d+", done.stdout)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_the_options(program, flag):
    done = run(program, flag)
    assert "-c" in done.stdout and "-p" in done.stdout and "-v" in done.stdout


@pytest.mark.martlet("mosquitto 2.0 has no --test-config")
def test_a_good_configuration_passes_its_test(program, tmp_path):
    (tmp_path / "good.conf").write_text("listener 1883\nallow_anonymous true\n")
    assert run(program, "-c", str(tmp_path / "good.conf"), "--test-config").returncode == 0


@pytest.mark.martlet("mosquitto 2.0 has no --test-config")
def test_a_wrong_configuration_fails_its_test_with_every_error(program, tmp_path):
    (tmp_path / "wrong.conf").write_text("listener 1883\nallow_anonymus true\nmax_qos 7\n")
    done = run(program, "-c", str(tmp_path / "wrong.conf"), "--test-config")
    assert done.returncode != 0
    assert "wrong.conf:2" in done.stdout and "allow_anonymous" in done.stdout
    assert "wrong.conf:3" in done.stdout and "max_qos" in done.stdout


@pytest.mark.martlet("mosquitto 2.0 has no --test-config")
def test_everything_wrong_in_the_files_that_it_names_fails_its_test(program, tmp_path):
    authority = Authority(tmp_path / "certificates")
    certificate, other = authority.issue("server"), authority.issue("other")
    files = {"users": "anna:plain\n\nanna\n", "rules": "topic read a\ntopc write b\n", "keys": "sensor:xyz\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    configuration = tmp_path / "wrong.conf"
    configuration.write_text(
        f"user root\npassword_file {tmp_path}/users\nacl_file {tmp_path}/rules\n"
        f"listener 8883\ncertfile {certificate}\nkeyfile {other.with_suffix('.key')}\n"
        f"listener 8884\npsk_hint h\npsk_file {tmp_path}/keys\n"
        f"listener 8885\ncertfile {tmp_path}/absent.crt\nkeyfile {tmp_path}/absent.key\n"
    )
    done = run(program, "-c", str(configuration), "--test-config")
    assert done.returncode != 0 and "OK" not in done.stdout
    for place in [
        f"{tmp_path}/users:1: ", f"{tmp_path}/rules:2: ", f"{tmp_path}/keys:1: ",
        f"{configuration}:6: keyfile: {other.with_suffix('.key')}: ", f"{configuration}:11: certfile: {tmp_path}/absent.crt ",
    ]:  # fmt: skip
        assert f"Error: {place}" in done.stdout, done.stdout
    (tmp_path / "users").write_text("# nobody\n")
    (tmp_path / "rules").write_text("topic read a\n")
    (tmp_path / "keys").write_text("sensor:ab\n")
    text = configuration.read_text().replace(str(other.with_suffix(".key")), str(certificate.with_suffix(".key")))
    configuration.write_text(text.replace("absent.", "certificates/server."))
    done = run(program, "-c", str(configuration), "--test-config")
    assert done.returncode == 0 and done.stdout.endswith("Configuration file is OK.\n"), done.stdout


@pytest.mark.parametrize("text", ["listener 1883\nno_such_option 1\n", "allow_anonymous maybe\n", "listener\n"])
def test_a_wrong_configuration_is_refused_at_the_start(program, tmp_path, text):
    (tmp_path / "wrong.conf").write_text(text)
    done = run(program, "-c", str(tmp_path / "wrong.conf"))
    assert done.returncode != 0
    assert "Error" in done.stdout


def test_a_missing_configuration_is_refused(program, tmp_path):
    done = run(program, "-c", str(tmp_path / "absent.conf"))
    assert done.returncode != 0
    assert "absent.conf" in done.stdout


@pytest.mark.martlet("mosquitto goes on when one of both loopback addresses is left")
def test_a_port_in_use_is_an_error_that_names_it(program, broker):
    done = run(program, "-p", str(broker.port))
    assert done.returncode != 0
    assert "in use" in done.stdout


def test_without_a_file_only_this_machine_can_connect(run_on):
    port = reserve_port()
    run_on(port, "-p", str(port))
    assert listening_addresses(port) <= {"127.0.0.1", "::1"}


def test_the_default_port_is_1883_on_loopback(run_on):
    if listening_addresses(1883):
        pytest.skip("something listens on port 1883 here")
    run_on(1883)
    assert listening_addresses(1883) <= {"127.0.0.1", "::1"}


@pytest.mark.martlet("mosquitto 2.0 listens on the first, and ends with a segmentation fault")
def test_several_ports_are_listened_on(run_on):
    one, two = reserve_port(), reserve_port()
    run_on(one, "-p", str(one), "-p", str(two))
    assert wait_until(lambda: listening_addresses(two), "listens on the second") <= {"127.0.0.1", "::1"}


def test_a_listener_without_an_address_is_open_to_all(run_on, tmp_path):
    port = reserve_port()
    (tmp_path / "open.conf").write_text(f"listener {port}\n")
    run_on(port, "-c", str(tmp_path / "open.conf"))
    assert {"0.0.0.0"} <= listening_addresses(port) <= {"0.0.0.0", "::"}


def test_with_a_listener_and_nothing_else_nobody_may_connect(run_on, tools_for, tmp_path):
    port = reserve_port()
    (tmp_path / "closed.conf").write_text(f"listener {port} 127.0.0.1\n")
    run_on(port, "-c", str(tmp_path / "closed.conf"))
    refused = tools_for(port).publish("any", "thing", qos=1, expect=135)
    assert "Not authorized" in refused or "not authorised" in refused


def test_several_listeners_serve_the_same_topics(start_broker, tools_for):
    second = reserve_port()
    broker = start_broker(configuration=f"listener {second} 127.0.0.1")
    subscriber = tools_for(broker.port).subscribe("shared", qos=1)
    tools_for(second).publish("shared", "hello", qos=1)
    assert subscriber.take_one().payload == b"hello"


@pytest.mark.parametrize("loops", [1, 2, 4, 7])
@pytest.mark.martlet
def test_the_number_of_threads_may_be_chosen(start_broker, tools_for, loops):
    broker = start_broker("--threads", str(loops))
    tasks = Path(f"/proc/{broker.process.pid}/task")
    wait_until(lambda: len(list(tasks.iterdir())) >= loops, f"runs {loops} threads")
    subscriber = tools_for(broker.port).subscribe("a", qos=1)
    tools_for(broker.port).publish("a", "hello", qos=1)
    assert subscriber.take_one().payload == b"hello"


def test_a_file_with_windows_line_ends_is_read(start_broker, program):
    if not program.is_martlet:
        pytest.skip("mosquitto keeps the carriage return")
    start_broker(configuration="max_queued_messages 10\r\nsys_interval 5\r")

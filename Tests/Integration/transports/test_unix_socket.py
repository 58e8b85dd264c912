"""Unix sockets: their file, from the start of the broker to its end."""

import socket
import stat
import subprocess

from harness.broker import Broker
from harness.waiting import PATIENCE


def lines(path) -> str:
    return f"listener 0 {path}\nallow_anonymous true"


def publish(path, message: str):
    subprocess.run(["mosquitto_pub", "--unix", str(path), "-t", "t", "-m", message, "-q", "1"], check=True, timeout=PATIENCE)


def test_clients_come_through_the_file_and_it_ends_with_the_broker(start_broker, tools_for, tmp_path):
    path = tmp_path / "broker.sock"
    broker = start_broker(configuration=lines(path))
    subscriber = tools_for(broker.port).subscribe("t")
    publish(path, "hello")
    assert subscriber.take_one().payload == b"hello"
    assert stat.S_IMODE(path.stat().st_mode) == 0o770
    broker.wait_for_log(f"New connection from {path}:0 on port 0")
    broker.stop()
    assert not path.exists()


def test_several_loops_share_the_file(start_broker, tmp_path):
    path = tmp_path / "broker.sock"
    start_broker("--threads", "4", configuration=lines(path))
    for number in range(20):
        publish(path, str(number))


def test_the_file_of_a_dead_broker_is_replaced(start_broker, tmp_path):
    path = tmp_path / "broker.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    start_broker(configuration=lines(path))
    publish(path, "hello")


def refused(program, tmp_path, path) -> str:
    broker = Broker(program, tmp_path, configuration=lines(path))
    done = subprocess.run(broker.command(), capture_output=True, timeout=PATIENCE, text=True)
    assert done.returncode == 1
    return done.stdout + done.stderr


def test_the_file_of_a_broker_that_lives_is_not_taken(program, start_broker, tmp_path):
    path = tmp_path / "broker.sock"
    start_broker(configuration=lines(path))
    assert f"{path} is in use by martlet (process " in refused(program, tmp_path, path)
    publish(path, "still there")


def test_a_file_that_is_no_socket_is_left_alone(program, tmp_path):
    path = tmp_path / "precious"
    path.write_text("do not touch")
    assert f"{path} is in use: a file of this name is there that is no socket" in refused(program, tmp_path, path)
    assert path.read_text() == "do not touch"


def test_an_interface_that_is_not_there_is_named(program, tmp_path):
    broker = Broker(program, tmp_path, listener=False, configuration="listener {port}\nallow_anonymous true\nbind_interface nowhere9")
    done = subprocess.run(broker.command(), capture_output=True, timeout=PATIENCE, text=True)
    assert done.returncode == 1 and "bind_interface: nowhere9: there is no such network interface. There are: lo" in done.stdout + done.stderr


def test_an_interface_alone_is_listened_on(start_broker, tools_for):
    broker = start_broker(listener=False, configuration="listener {port}\nallow_anonymous true\nbind_interface lo")
    tools_for(broker.port).publish("t", "m", qos=1)


def test_one_address_family_alone_is_listened_on(start_broker):
    broker = start_broker(listener=False, configuration="listener {port}\nallow_anonymous true\nsocket_domain ipv4")
    broker.wait_for_log(f"Opening ipv4 listen socket on port {broker.port}")
    assert "ipv6" not in broker.log

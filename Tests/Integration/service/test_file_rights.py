"""Files that the broker's user may not read: what the log says to type, and who is told by `martlet passwd`."""

import os
import pwd
import re
import signal
import subprocess

import pytest
from harness.ports import reserve_port
from harness.program import run

pytestmark = [
    pytest.mark.martlet("says less"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that another user may not read"),
]


@pytest.fixture
def users(program, tmp_path):
    """A file of users that is root's alone, where everybody may go."""
    directory = tmp_path
    while directory.stat().st_uid == 0 and directory != directory.parent and "pytest" in str(directory):
        directory.chmod(0o755)
        directory = directory.parent
    path = tmp_path / "users"
    assert run(program, "passwd", "-H", "sha512", "-c", "-b", str(path), "anna", "secret").returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    return path


def command_in(text: str) -> str:
    return re.search(r"Type: (.*?)\.?$", text, re.MULTILINE)[1]


def test_what_the_log_says_lets_the_broker_start(program, users, tmp_path):
    (tmp_path / "b.conf").write_text(f"listener {reserve_port()} 127.0.0.1\npassword_file {users}\n")

    def check() -> subprocess.CompletedProcess:
        return subprocess.run(
            ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", program.path, "-c", tmp_path / "b.conf"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20,
        )  # fmt: skip

    refused = check()
    assert refused.returncode == 1
    assert f"the user nobody may not read {users}, which belongs to root. Type: " in refused.stdout
    assert refused.stdout.count("may not read") == 1
    subprocess.run(["sh", "-c", command_in(refused.stdout)], check=True)
    (tmp_path / "b.conf").write_text(f"listener {reserve_port()} 127.0.0.1\npassword_file {users}\npid_file {tmp_path}/none/pid\n")
    # It gets as far as the pid file, which it cannot write.
    assert "pid file" in check().stdout


def test_a_file_that_only_root_could_read_is_told_at_the_start_and_at_a_reload(start_broker, users):
    broker = start_broker(configuration=f"password_file {users}", user="nobody")
    broker.wait_for_log(r"Warning: password_file .*: the broker runs as the user nobody, who may not read it when it reloads\. Type: ")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log(r"Error: The config was not reloaded")
    assert broker.log.count("may not read it when it reloads") == 2
    subprocess.run(["sh", "-c", command_in(broker.log)], check=True)
    broker.signal(signal.SIGHUP)
    broker.wait_for_log(r"Config reloaded\.")
    assert broker.log.count("may not read it when it reloads") == 2


def test_a_key_of_a_node_that_only_root_could_read_stays_in_use_at_a_reload(start_broker, users):
    seed = users.with_name("seed")
    seed.write_text("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n")
    seed.chmod(0o600)
    broker = start_broker(
        configuration=f"martlet_cluster_servers nats://127.0.0.1:{reserve_port()}\nmartlet_cluster_name c\nmartlet_cluster_nkey_file {seed}",
        user="nobody",
    )
    broker.wait_for_log(r"Warning: martlet_cluster_nkey_file .*: the broker runs as the user nobody, who may not read it when it reloads\. Type: ")
    broker.signal(signal.SIGHUP)
    broker.wait_for_log(r"Error: martlet_cluster_nkey_file: .*; what was read before stays in use\.")
    broker.wait_for_log(r"Config reloaded\.")


def test_a_directory_that_is_closed_is_named(start_broker, users, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    users.chmod(0o644)
    users.rename(closed / "users")
    broker = start_broker(configuration=f"password_file {closed}/users", user="nobody")
    broker.wait_for_log(rf"The directory {re.escape(str(closed))} is closed to that user: put a copy of the file where it may go")


def test_passwd_keeps_owner_group_and_mode(program, tmp_path):
    path = tmp_path / "users"
    path.write_text("")
    # A directory that gives its group to new files must not change that of an old one.
    os.chown(tmp_path, 0, pwd.getpwnam("nobody").pw_gid)
    tmp_path.chmod(0o2755)
    for owner, group, mode in [(pwd.getpwnam("nobody").pw_uid, 1, 0o640), (0, 0, 0o600), (0, 0, 0o604)]:
        os.chown(path, owner, group)
        path.chmod(mode)
        assert run(program, "passwd", "-H", "sha512", "-b", str(path), "anna", "x").returncode == 0
        status = path.stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (owner, group, mode)


def test_a_new_file_is_for_the_group_that_its_directory_gives(program, tmp_path):
    group = pwd.getpwnam("nobody").pw_gid
    os.chown(tmp_path, 0, group)
    tmp_path.chmod(0o2755)
    assert run(program, "passwd", "-H", "sha512", "-c", "-b", str(tmp_path / "users"), "anna", "x").returncode == 0
    status = (tmp_path / "users").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (0, group, 0o640)

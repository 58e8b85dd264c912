"""`--test-config` means that the broker starts: what it tries beyond the lines of the configuration, and that it changes nothing."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import PATIENCE

pytestmark = pytest.mark.martlet

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def check(program, path: Path) -> subprocess.CompletedProcess:
    return run(program, "-c", str(path), "--test-config")


def test_the_configuration_of_a_broker_that_runs_is_all_right(program, start_broker):
    broker = start_broker()
    done = check(program, broker.configuration_path)
    assert done.returncode == 0 and "in use" not in done.stdout, done.stdout


def test_a_draft_is_checked_beside_the_broker_that_runs(program, start_broker, tmp_path):
    broker = start_broker()
    (tmp_path / "draft.conf").write_text(f"listener {broker.port} 127.0.0.1\nallow_anonymous true\nuser root\n")
    done = check(program, tmp_path / "draft.conf")
    place = rf"127\.0\.0\.1:{broker.port} is in use by martlet \(process {broker.process.pid}\)"
    assert done.returncode == 0, done.stdout
    assert re.search(rf"Warning: .*draft.conf:1: listener: {place}, which runs already: a broker starts with this", done.stdout), done.stdout
    started = run(program, "-c", str(tmp_path / "draft.conf"))
    assert started.returncode == 1 and re.search(rf"Error: .*draft.conf:1: listener: {place}\. Stop it, or ", started.stdout), started.stdout
    # Whoever copies a line must not end a broker with it.
    assert "kill" not in done.stdout + started.stdout


def test_a_bridge_without_its_files_keeps_no_broker_from_starting(program, start_broker, tmp_path):
    section = f"connection b\naddress 127.0.0.1:1\ntopic a\nbridge_cafile {tmp_path}/ca.crt\n"
    broker = start_broker(configuration=section)
    broker.wait_for_log(rf"Error: Bridge b: bridge_cafile: {tmp_path}/ca\.crt does not exist\. It does not run until that is mended")
    done = check(program, broker.configuration_path)
    assert done.returncode == 0, done.stdout
    expected = rf"Warning: .*:\d+: bridge_cafile: {tmp_path}/ca\.crt does not exist\. The broker starts without the bridge b\."
    assert re.search(expected, done.stdout), done.stdout


def test_every_bridge_is_looked_at_before_the_start(program, tmp_path):
    """What keeps a broker from starting is found, of all bridges and not of the first alone."""
    section = "connection {0}\naddress 127.0.0.1:1\ntopic a\nlocal_clientid one\n"
    path = tmp_path / "m.conf"
    path.write_text(f"listener {reserve_port()} 127.0.0.1\nallow_anonymous true\nuser root\n" + "".join(section.format(name) for name in "abc"))
    done = check(program, path)
    assert done.returncode == 3
    for line, name in [(8, "b"), (12, "c")]:
        assert f"m.conf:{line}: connection: its local_clientid one is that of bridge a too." in done.stdout, done.stdout


def test_a_misspelt_path_is_told_with_its_neighbour(program, tmp_path):
    (tmp_path / "mosquitto").mkdir()
    (tmp_path / "mosquitto" / "passwd").touch()
    path = tmp_path / "m.conf"
    for wrong, reason in [("mosqutto/passwd", f", for there is no directory {tmp_path}/mosqutto"), ("mosquitto/paswd", "")]:
        path.write_text(f"listener {reserve_port()} 127.0.0.1\npassword_file {tmp_path}/{wrong}\nuser root\n")
        done = check(program, path)
        assert f"password_file: {tmp_path}/{wrong} does not exist{reason}; there is {tmp_path}/mosquitto/passwd." in done.stdout, done.stdout
        assert "mkdir" not in done.stdout and done.returncode == 3


def test_dynamic_security_that_is_broken_is_told_of_once(program, tmp_path):
    (tmp_path / "dynamic.json").write_text("{")
    path = tmp_path / "m.conf"
    path.write_text(
        f"listener {reserve_port()} 127.0.0.1\nlistener {reserve_port()} 127.0.0.1\nuser root\n"
        f"plugin mosquitto_dynamic_security.so\nplugin_opt_config_file {tmp_path}/dynamic.json\n"
    )
    for arguments in [["--test-config"], []]:
        done = run(program, "-c", str(path), *arguments)
        assert done.returncode != 0 and done.stdout.count("Error: ") == 1, done.stdout


def test_a_wrong_value_hides_nothing_else_of_its_section(program, tmp_path):
    path = tmp_path / "m.conf"
    path.write_text(
        f"listener {reserve_port()} 127.0.0.1\ncertfile {tmp_path}/none.crt\nkeyfile {tmp_path}/none.key\ntls_version tlsv1.4\n"
        "allow_anonymous true\nuser root\n"
    )
    done = check(program, path)
    assert "m.conf:2: certfile: " in done.stdout and "m.conf:4: tls_version: " in done.stdout, done.stdout


def test_nothing_is_made_emptied_or_given_away(program, tmp_path):
    (tmp_path / "old.log").write_text("precious")
    (tmp_path / "old.pid").write_text("1\n")
    (tmp_path / "store").mkdir()
    (tmp_path / "all.conf").write_text(
        f"listener {reserve_port()} 127.0.0.1\nlistener 0 {tmp_path}/socket\nallow_anonymous true\nuser root\n"
        f"log_dest file {tmp_path}/old.log\nlog_dest file {tmp_path}/new.log\npid_file {tmp_path}/old.pid\n"
        f"persistence true\npersistence_location {tmp_path}/store\n"
    )
    before = [(path, path.lstat()[:6], path.lstat().st_mtime_ns) for path in sorted(tmp_path.rglob("*"))]
    done = check(program, tmp_path / "all.conf")
    assert done.returncode == 0, done.stdout
    assert before == [(path, path.lstat()[:6], path.lstat().st_mtime_ns) for path in sorted(tmp_path.rglob("*"))]


@pytest.fixture
def ground(tmp_path_factory):
    """A directory that every user may pass, and a user without rights."""
    directory = Path("/tmp") / f"martlet-check-{os.getpid()}-{reserve_port()}"
    directory.mkdir(mode=0o755)
    yield directory
    shutil.rmtree(directory)


@as_root
class TestRights:
    """What only root may do, while `user` names another: the broker is that user from then on."""

    def configuration(self, ground: Path, lines: str) -> Path:
        path = ground / "martlet.conf"
        path.write_text(f"listener {reserve_port()} 127.0.0.1\nallow_anonymous true\nuser nobody\n{lines}\n")
        return path

    def test_a_key_that_only_root_reads_is_an_error_with_the_remedy(self, program, ground, authority):
        for name in ["server.crt", "server.key"]:
            shutil.copy(authority.directory / name, ground / name)
        (ground / "server.key").chmod(0o600)
        (ground / "server.crt").chmod(0o644)
        path = ground / "martlet.conf"
        path.write_text(
            f"user nobody\nallow_anonymous true\nlistener {reserve_port()} 127.0.0.1\ncertfile {ground}/server.crt\nkeyfile {ground}/server.key\n"
        )
        done = check(program, path)
        remedy = rf"chgrp \w+ {ground}/server.key && chmod g\+r {ground}/server.key"
        expected = rf"Error: {path}:5: keyfile: {ground}/server.key: the broker runs as the user nobody, who may not read it when it reloads. Type: {remedy}"
        assert done.returncode == 3 and re.search(expected, done.stdout), done.stdout
        subprocess.run(re.search(remedy, done.stdout).group(), shell=True, check=True)
        assert "server.key" not in check(program, path).stdout

    def test_the_advice_leaves_another_program_s_files_as_they_are(self, program, ground):
        """mosquitto would not start any more if its file got another group."""
        users = ground / "users"
        users.write_text("")
        os.chown(users, 0, 1)
        users.chmod(0o640)
        store = ground / "store"
        store.mkdir(mode=0o750)
        os.chown(store, 1, 1)
        path = self.configuration(ground, f"password_file {users}\npersistence true\npersistence_location {store}")
        done = check(program, path)
        assert done.returncode == 3
        assert re.search(rf"It is there for \w+, so leave it as it is and name a copy instead\. Type: install (-D )?-g nogroup -m 640 {users} ", done.stdout), done.stdout
        assert re.search(rf"{store} cannot be used: .*It is there for \w+, so leave it as it is and name another place", done.stdout), done.stdout
        assert "chgrp" not in done.stdout and "chown" not in done.stdout

    def test_a_store_of_root_s_is_an_error_with_the_remedy(self, program, ground):
        (ground / "store").mkdir(mode=0o700)
        path = self.configuration(ground, f"persistence true\npersistence_location {ground}/store")
        done = check(program, path)
        remedy = f"chown nobody {ground}/store"
        expected = f"Error: {path}:5: persistence_location: {ground}/store cannot be used: the user nobody may not make files in the directory"
        assert done.returncode == 3 and expected in done.stdout and remedy in done.stdout, done.stdout
        started = subprocess.run([program.path, "-c", path], capture_output=True, text=True, timeout=PATIENCE)
        assert started.returncode == 1 and expected in started.stderr and remedy in started.stderr
        subprocess.run(remedy, shell=True, check=True)
        assert check(program, path).returncode == 0

    def test_a_user_that_there_is_not_is_an_error(self, program, ground):
        path = ground / "martlet.conf"
        path.write_text(f"listener {reserve_port()} 127.0.0.1\nallow_anonymous true\nuser nobody-here\n")
        done = check(program, path)
        assert done.returncode == 3 and f"{path}:3: user: Unable to drop privileges to 'nobody-here'" in done.stdout

    def test_an_ordinary_user_hears_what_keeps_it_from_a_privileged_port(self, program, ground):
        if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) < 600:
            pytest.skip("low ports are open to everybody here")
        path = ground / "martlet.conf"
        path.write_text("listener 599 127.0.0.1\nallow_anonymous true\n")
        copy = ground / "martlet"
        shutil.copy(program.path, copy)
        done = subprocess.run([copy, "-c", path, "--test-config"], capture_output=True, text=True, timeout=PATIENCE, user="nobody", extra_groups=[])
        assert done.returncode == 3
        assert f"{path}:1: listener: 127.0.0.1:599: ports below 1024 are open to root only. " in done.stderr, done.stderr
        assert f"sudo setcap cap_net_bind_service=+ep {copy}" in done.stderr


@pytest.fixture
def mosquitto_conf(tmp_path):
    return tmp_path / "martlet.conf"


def options_of_the_example() -> list[str]:
    text = (Path(__file__).parents[3] / "config/martlet.conf").read_text()
    return re.findall(r"^#([a-z]\S* .*)$", text, re.MULTILINE)


def test_what_the_example_file_shows_the_start_takes(program, mosquitto_conf):
    """Every option of config/martlet.conf that has a default there, with it; and every name with a value as it is described."""
    lines = []
    for line in options_of_the_example():
        name, value = line.split(None, 1)
        if value == value.lower() and "|" not in value and " to " not in value and name not in ("port", "user", "bind_address"):
            lines.append(line)
    assert len(lines) > 40
    mosquitto_conf.write_text(f"listener {reserve_port()} 127.0.0.1\n" + "\n".join(lines) + "\nallow_anonymous true\nuser root\n")
    done = check(program, mosquitto_conf)
    assert done.returncode == 0, done.stdout
    assert "not available" not in done.stdout


def test_no_advice_is_refused(program, mosquitto_conf, tmp_path):
    """Each option that a message names as a way out is one that the example file has, or that the start takes."""
    errors = (Path(__file__).with_name("errors.txt")).read_text()
    advised = set(re.findall(r"(?:write|Write|needs|without) ([a-z]+_[a-z_]+|certfile|keyfile|cafile)", errors))
    assert advised >= {"password_file", "listener_allow_anonymous", "enable_proxy_protocol"}, advised
    values = {
        "password_file": f"{tmp_path}/users", "listener_allow_anonymous": "true", "listener_auto_id_prefix": "a-", "enable_proxy_protocol": "2",
        "psk_file": f"{tmp_path}/keys", "use_identity_as_username": "true", "enable_control_api": "false", "plugin_opt_password_file": f"{tmp_path}/users",
    }  # fmt: skip
    (tmp_path / "users").touch()
    (tmp_path / "keys").touch()
    unknown = advised - set(values) - {"certfile", "keyfile", "cafile"}
    assert not unknown, f"advised, and not tried here: {unknown}"
    for name in advised & set(values):
        plugin = "plugin mosquitto_password_file.so\n" if name.startswith("plugin_opt") else ""
        mosquitto_conf.write_text(f"{plugin}listener {reserve_port()} 127.0.0.1\nuser root\nallow_anonymous true\n")
        text = mosquitto_conf.read_text()
        mosquitto_conf.write_text(f"{plugin}{name} {values[name]}\n" + text.removeprefix(plugin) if plugin else f"{text}{name} {values[name]}\n")
        done = check(program, mosquitto_conf)
        assert done.returncode == 0, (name, done.stdout)

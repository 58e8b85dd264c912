"""`martlet import-config`: mosquitto's files as people have them, on the disk, until Martlet runs with their copies."""

import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.lines import LineProcess
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import PATIENCE, wait_until

from service.left_by_mosquitto import leave_something

pytestmark = pytest.mark.martlet("imports")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
IS_ROOT = os.geteuid() == 0


class Site:
    """A machine's mosquitto below a directory of the test's, and where Martlet's copies go."""

    def __init__(self, program, root: Path):
        self.program = program
        self.root = root
        self.etc = root / "etc/mosquitto"
        self.etc.mkdir(parents=True)
        self.port = reserve_port()
        self.target = root / "etc/martlet"

    def write(self, path: str, text: str, mode: int = 0o640) -> Path:
        """A file; {root}, {etc} and {port} are the site's."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{root}", str(self.root)).replace("{etc}", str(self.etc)).replace("{port}", str(self.port)))
        file.chmod(mode)
        return file

    def users(self, path: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        assert run(self.program, "passwd", "-H", "sha512", "-c", "-b", str(file), "anna", "secret").returncode == 0
        return file

    def certificates(self, authority, path: str = "etc/mosquitto/certs"):
        authority.issue("server")
        directory = self.root / path
        directory.mkdir(parents=True, exist_ok=True)
        for name in ["ca.crt", "server.crt", "server.key"]:
            shutil.copy(authority.directory / name, directory / name)

    def import_config(self, *arguments: str, file: Path | None = None, user: str | None = "root") -> subprocess.CompletedProcess:
        return run(
            self.program, "import-config", str(file or self.etc / "mosquitto.conf"), "--to", str(self.target),
            *(["--user", user] if IS_ROOT and user else []), *arguments,
        )  # fmt: skip

    def snapshot(self) -> dict[str, tuple]:
        """All that is there, but what the import makes."""
        return {
            str(path): (path.lstat().st_mode, path.lstat().st_uid, path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in sorted(self.root.rglob("*")) if self.target not in [path, *path.parents] and path != self.root / "etc"
        }  # fmt: skip

    def start(self) -> LineProcess:
        broker = LineProcess([self.program.path, "-c", str(self.target / "martlet.conf")])
        try:
            broker.wait_line(lambda line: " running on " in line, "the broker runs with the copies")
        except AssertionError:
            broker.process.kill()
            raise
        return broker


@pytest.fixture
def site(program, tmp_path) -> Site:
    return Site(program, tmp_path / "machine")


DEBIAN = """\
# Place your local configuration in /etc/mosquitto/conf.d/

pid_file {root}/run/mosquitto.pid

persistence true
persistence_location {root}/var/lib/mosquitto/

log_dest file {etc}/log/mosquitto.log

include_dir {etc}/conf.d
"""


def debian(site: Site, authority):
    site.write("etc/mosquitto/mosquitto.conf", DEBIAN)
    site.write("etc/mosquitto/conf.d/README", "Any files placed in this directory that have a .conf ending")
    site.write("etc/mosquitto/conf.d/local.conf", "listener {port} 127.0.0.1\npassword_file {etc}/passwd\nacl_file {etc}/acl\n")
    site.write("etc/mosquitto/acl", "user anna\ntopic readwrite #\n")
    site.users("etc/mosquitto/passwd")


def tls(site: Site, authority):
    site.certificates(authority)
    site.write("etc/mosquitto/mosquitto.conf", DEBIAN)
    site.write(
        "etc/mosquitto/conf.d/tls.conf",
        "per_listener_settings true\nlistener {port} 127.0.0.1\nallow_anonymous true\n"
        "cafile {etc}/certs/ca.crt\ncertfile {etc}/certs/server.crt\nkeyfile {etc}/certs/server.key\n",
    )


def capath(site: Site, authority):
    site.certificates(authority, "etc/mosquitto/authorities")
    site.certificates(authority, "etc/ssl")
    subprocess.run(["openssl", "rehash", site.etc / "authorities"], check=True, capture_output=True)
    site.write(
        "etc/mosquitto/mosquitto.conf",
        "listener {port} 127.0.0.1\nallow_anonymous true\ncapath {etc}/authorities\ncertfile {root}/etc/ssl/server.crt\nkeyfile {root}/etc/ssl/server.key\n",
    )


def pre_shared_keys(site: Site, authority):
    site.write("etc/mosquitto/psk", "lamp:00ff00ff\n")
    site.write("etc/mosquitto/mosquitto.conf", "listener {port} 127.0.0.1\npsk_file {etc}/psk\npsk_hint home\nuse_identity_as_username true\nallow_anonymous true\n")


def bridges(site: Site, authority):
    site.certificates(authority)
    site.write("etc/mosquitto/mosquitto.conf", DEBIAN)
    site.write("etc/mosquitto/conf.d/local.conf", "listener {port} 127.0.0.1\nallow_anonymous true\n")
    site.write(
        "etc/mosquitto/conf.d/cloud.conf",
        'connection cloud\naddress 127.0.0.1:1\ntopic sensors/# out 1 "" house/\nbridge_cafile {etc}/certs/ca.crt\nbridge_certfile {etc}/certs/server.crt\n'
        "bridge_keyfile {etc}/certs/server.key\nremote_username house\nremote_password secret word\nstart_type once\n",
    )


def websockets(site: Site, authority):
    site.write("etc/mosquitto/mosquitto.conf", "listener {port} 127.0.0.1\nprotocol websockets\nallow_anonymous true\nlistener 0 {root}/socket\n")


def per_listener(site: Site, authority):
    site.write("etc/mosquitto/mosquitto.conf", DEBIAN.replace("include_dir", "per_listener_settings true\ninclude_dir"))
    site.write("etc/mosquitto/conf.d/a.conf", "listener {port} 127.0.0.1\npassword_file {etc}/conf.d/users\n")
    site.write("etc/mosquitto/conf.d/b.conf", f"listener {reserve_port()} 127.0.0.1\nallow_anonymous true\nacl_file {{etc}}/acl\n")
    site.write("etc/mosquitto/acl", "topic read #\n")
    site.users("etc/mosquitto/conf.d/users")


def dynamic_security(site: Site, authority):
    site.write("var/lib/mosquitto/dynamic-security.json", '{"defaultACLAccess":{"publishClientSend":true},"clients":[],"groups":[],"roles":[]}', 0o600)
    site.write(
        "etc/mosquitto/mosquitto.conf",
        DEBIAN + "listener {port} 127.0.0.1\nplugin /usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so\n"
        "plugin_opt_config_file {root}/var/lib/mosquitto/dynamic-security.json\n",
    )
    (site.etc / "conf.d").mkdir()


def windows(site: Site, authority):
    """Edited elsewhere: a byte order mark, CRLF, and nothing but a port."""
    (site.etc / "mosquitto.conf").write_bytes(f"\ufefflistener {site.port} 127.0.0.1\r\nallow_anonymous true\r\nmax_queued_messages 5000\r\n".encode())


def upper_case_files(site: Site, authority):
    """A site with many files, whose last word counts."""
    site.write("etc/mosquitto/mosquitto.conf", DEBIAN.replace("include_dir", "allow_anonymous false\ninclude_dir"))
    site.write("etc/mosquitto/conf.d/B.conf", "listener {port} 127.0.0.1\nmax_connections 100\n")
    site.write("etc/mosquitto/conf.d/a.conf", "allow_anonymous true\nmax_inflight_messages 50\nlog_type all\n")
    site.write("etc/mosquitto/conf.d/c.conf", "connection_messages false\nsys_interval 60\n")


TREES: list[Callable] = [
    debian, tls, capath, pre_shared_keys, bridges, websockets, per_listener, dynamic_security, windows, upper_case_files,
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.__name__)
def test_martlet_runs_with_the_copies_and_without_the_originals(site, authority, tree):
    tree(site, authority)
    before = site.snapshot()
    tried = site.import_config("--dry-run")
    assert tried.returncode == 0 and "Nothing was written (--dry-run)." in tried.stdout, tried.stdout
    assert not site.target.exists() and site.snapshot() == before
    done = site.import_config()
    assert done.returncode == 0, done.stdout
    assert site.snapshot() == before, "nothing of mosquitto's is touched"
    assert "Error" not in done.stdout and f"martlet -c {site.target}/martlet.conf" in done.stdout, done.stdout
    assert not list(site.target.rglob(".*")), "nothing is left beside the copies"
    for file in site.target.rglob("*"):
        assert not file.is_file() or file.stat().st_mode & 0o777 in (0o640, 0o600), file
    site.etc.rename(site.etc.with_name("away"))
    broker = site.start()
    broker.process.send_signal(signal.SIGTERM)
    assert broker.wait() == 0
    # Typed again, it has nothing to do, but for what the broker has made its own.
    site.etc.with_name("away").rename(site.etc)
    again = site.import_config("--no-database")
    assert again.returncode == 0 or "dynamic-security.json" in again.stdout, again.stdout


def test_the_lines_that_are_different_are_shown_and_the_others_are_the_same(site, authority):
    debian(site, authority)
    done = site.import_config()
    copy = (site.target / "martlet.conf").read_text().splitlines()
    original = (site.etc / "mosquitto.conf").read_text().splitlines()
    assert f"#- pid_file {site.root}/run/mosquitto.pid" in copy
    assert f"include_dir {site.target}/conf.d" in copy
    assert [line for line in original if line not in copy] == [line for line in original if line.startswith(("pid_file", "persistence_l", "log_dest", "include_dir"))]
    assert re.search(rf"10: - include_dir {site.etc}/conf.d\n +\+ include_dir {site.target}/conf.d\n", done.stdout), done.stdout
    assert re.search(rf"2: - password_file {site.etc}/passwd\n +\+ password_file {site.target}/passwd\n", done.stdout), done.stdout
    assert f"#- log_dest file {site.etc}/log/mosquitto.log" in copy


def test_what_mosquitto_kept_is_there_after_the_start(site, authority, reference, tmp_path):
    file = leave_something(reference, tmp_path)
    debian(site, authority)
    (site.root / "var/lib/mosquitto").mkdir(parents=True)
    shutil.copy(file, site.root / "var/lib/mosquitto/mosquitto.db")
    done = site.import_config()
    assert done.returncode == 0, done.stdout
    assert "4 sessions, 4 subscriptions, 20 queued messages and 2 retained messages" in done.stdout
    copy = site.target / "data/mosquitto.db"
    assert copy.read_bytes() == file.read_bytes() and copy.stat().st_mode & 0o777 == 0o600
    broker = site.start()
    broker.wait_line(lambda line: f"Imported {copy} of mosquitto: 4 sessions, 4 subscriptions, 20 queued and 2 retained messages." in line and f"rm {copy}" in line, "the copy is of no use any more, and that is said")
    broker.process.send_signal(signal.SIGTERM)
    assert broker.wait() == 0
    refused = site.import_config()
    assert refused.returncode == 1 and "there is a store in" in refused.stdout and "--no-database" in refused.stdout
    assert site.import_config("--no-database").returncode == 0


def test_a_file_that_is_somebody_s_is_not_replaced_unless_that_is_asked_for(site, authority):
    debian(site, authority)
    assert site.import_config().returncode == 0
    site.write("etc/mosquitto/passwd", "peter:$6$x\n")
    (site.target / "acl").write_text("topic #\n")
    refused = site.import_config()
    assert refused.returncode == 1
    assert f"{site.target}/passwd" in refused.stdout and f"{site.target}/acl" in refused.stdout and "Nothing was written." in refused.stdout
    assert "anna" in (site.target / "passwd").read_text()
    forced = site.import_config("--force")
    # The hash of the test is none, which is told.
    assert "peter" in (site.target / "passwd").read_text(), forced.stdout
    assert "anna" in (site.target / "passwd.old").read_text() and (site.target / "acl.old").read_text() == "topic #\n"


def test_a_failure_on_the_way_leaves_nothing(site, authority):
    debian(site, authority)
    site.certificates(authority)
    (site.etc / "conf.d/tls.conf").write_text(f"listener {reserve_port()}\ncertfile {site.etc}/certs/server.crt\nkeyfile {site.etc}/certs/server.key\n")
    # A directory is where a file should go, so the last step but one fails.
    (site.target / "acl").mkdir(parents=True)
    refused = site.import_config("--force")
    assert refused.returncode == 1 and f"{site.target}/acl" in refused.stdout and "Nothing was written." in refused.stdout
    assert [path.name for path in site.target.rglob("*")] == ["acl"]


def test_a_plug_in_without_a_counterpart_is_told_and_lets_nobody_in(site):
    site.write(
        "etc/mosquitto/mosquitto.conf",
        "listener {port} 127.0.0.1\nallow_anonymous true\nauth_plugin /usr/share/mosquitto/auth-plug.so\nauth_opt_backends files\n",
    )
    done = site.import_config()
    assert done.returncode == 3
    assert "Without a counterpart:" in done.stdout and "auth-plug.so. The broker does not start while the line is in the copy" in done.stdout
    assert f"martlet --test-config -c {site.target}/martlet.conf" in done.stdout
    assert run(site.program, "-c", str(site.target / "martlet.conf")).returncode == 3


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("password_file {etc}/none\n", "mosquitto.conf:1: password_file: {etc}/none is not there."),
        ("password_file /mosquitto/config/none\n", "--map /mosquitto=/srv/mosquitto"),
        ("include_dir {etc}/none\n", "Unable to open include_dir"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_written(site, lines, said):
    site.write("etc/mosquitto/mosquitto.conf", lines)
    done = site.import_config()
    assert done.returncode == 1 and said.replace("{etc}", str(site.etc)) in done.stdout and "Nothing was written." in done.stdout, done.stdout
    assert not site.target.exists()


def test_a_container_s_directories_are_where_the_command_line_says(site):
    site.users("volumes/pwfile/users")
    site.write("volumes/config/mosquitto.conf", "persistence true\npersistence_location /mosquitto/data\nlistener {port} 127.0.0.1\npassword_file /mosquitto/pwfile/users\n")
    done = site.import_config(f"--map=/mosquitto={site.root}/volumes", file=site.root / "volumes/config/mosquitto.conf")
    assert done.returncode == 0, done.stdout
    assert (site.target / "users").exists() and "mosquitto has no database in" in done.stdout
    assert run(site.program, "import-config", "x", "--map", "/a").returncode == 64


def test_a_database_that_is_none_is_refused_before_anything_is_written(site, authority):
    debian(site, authority)
    site.write("var/lib/mosquitto/mosquitto.db", "root:x:0:0\n")
    done = site.import_config()
    assert done.returncode == 1 and "var/lib/mosquitto/mosquitto.db" in done.stdout and "--no-database" in done.stdout
    assert not site.target.exists()


def test_mosquitto_has_to_be_stopped_for_its_database(site, reference, authority):
    broker = reference("persistence true\npersistence_location {directory}/\n")
    broker.signal(signal.SIGUSR1)
    wait_until(lambda: (broker.directory / "mosquitto.db").exists(), "mosquitto has written its database")
    refused = site.import_config(file=broker.configuration_path)
    assert refused.returncode == 1 and f"mosquitto is running (process {broker.process.pid})" in refused.stdout, refused.stdout
    assert not site.target.exists()
    assert "mosquitto is running" in site.import_config("--dry-run", file=broker.configuration_path).stdout
    done = site.import_config("--no-database", file=broker.configuration_path)
    assert (site.target / "martlet.conf").exists(), done.stdout


@as_root
class TestOwners:
    """What the service may read and write, and nobody else."""

    @pytest.fixture(autouse=True)
    def open_directories(self, site):
        directory = site.root
        while directory.stat().st_uid == 0 and directory != directory.parent and "pytest" in str(directory):
            directory.chmod(0o755)
            directory = directory.parent

    def test_secrets_are_for_the_service_s_group_and_state_is_its_own(self, site, authority):
        dynamic_security(site, authority)
        site.users("etc/mosquitto/passwd")
        with (site.etc / "mosquitto.conf").open("a") as file:
            file.write(f"listener {reserve_port()} 127.0.0.1\npassword_file {site.etc}/passwd\n")
        done = site.import_config(user="nobody")
        assert done.returncode == 0, done.stdout
        nobody = pwd.getpwnam("nobody")
        for name, owner, mode in [("passwd", 0, 0o640), ("martlet.conf", 0, 0o640), ("data/dynamic-security.json", nobody.pw_uid, 0o600)]:
            status = (site.target / name).stat()
            assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (owner, nobody.pw_gid, mode), name
        assert (site.target / "data").stat().st_uid == nobody.pw_uid
        # That user can start the broker by itself.
        checked = subprocess.run(
            ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", site.program.path, "--test-config", "-c", site.target / "martlet.conf"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert checked.returncode == 0, checked.stdout

    def test_root_follows_no_link_that_mosquitto_s_user_could_have_made(self, site):
        secret = site.write("secret", "root's", 0o600)
        directory = site.root / "var/lib/mosquitto"
        directory.mkdir(parents=True)
        os.chown(directory, pwd.getpwnam("nobody").pw_uid, 0)
        (directory / "users").symlink_to(secret)
        site.write("etc/mosquitto/mosquitto.conf", "listener {port} 127.0.0.1\npassword_file {root}/var/lib/mosquitto/users\n")
        done = site.import_config(user="nobody")
        assert done.returncode == 1 and "is a symbolic link in a directory that is not root's alone" in done.stdout, done.stdout
        assert not site.target.exists()

    def test_a_user_that_there_is_not_is_told(self, site):
        site.write("etc/mosquitto/mosquitto.conf", "listener {port} 127.0.0.1\n")
        done = site.import_config(user="nobody-here")
        assert done.returncode == 1 and "there is no user nobody-here on this machine. Make it: useradd" in done.stdout

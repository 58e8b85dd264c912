"""Servers of users for one test: slapd, PostgreSQL and Redis as Debian has them, each with its data in a directory that goes with it."""

import os
import pwd
import shutil
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading
from pathlib import Path

from harness.ports import reserve_port
from harness.waiting import wait_until

PATH = ":".join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin")))])


def find(program: str) -> str | None:
    return shutil.which(program, path=PATH)


class Server:
    """A process that listens on a port of this machine, ended by its identifier."""

    #: What has to be here.
    programs: tuple[str, ...] = ()

    @classmethod
    def is_here(cls) -> bool:
        return all(find(program) for program in cls.programs)

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="martlet-users-"))
        self.port = reserve_port()
        self.process: subprocess.Popen | None = None

    def start(self, *command, **options):
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)
        wait_until(self._accepts, f"{command[0]} accepts connections")

    def _accepts(self) -> bool:
        assert self.process.poll() is None, (self.directory / "log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class Liar:
    """Says the same bytes to everybody who connects, piece by piece, whatever is asked, and listens on."""

    @staticmethod
    def is_here() -> bool:
        return True

    def __init__(self, pieces):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                try:
                    self.request.recv(65536)
                    said = False
                    for piece in pieces():
                        self.request.sendall(piece)
                        said = True
                    while said and self.request.recv(65536):
                        pass
                except OSError:
                    pass

        class Listener(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self._listener = Listener(("127.0.0.1", 0), Handler)
        self.port = self._listener.server_address[1]
        threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self._listener.shutdown()
        self._listener.server_close()


class Slapd(Server):
    """OpenLDAP's server. It takes a login with a name and without a password for one of nobody, as many directories do."""

    programs = ("slapd", "slapadd", "slapmodify")

    def __init__(self, ldif: str, authority=None, more: str = ""):
        super().__init__()
        self.tls_port = reserve_port()
        self.path = self.directory / "socket"
        schemas = "".join(f"include /etc/ldap/schema/{name}.schema\n" for name in ("core", "cosine", "inetorgperson"))
        tls = ""
        if authority:
            files = {"CACertificate": authority.certificate, "Certificate": authority.directory / "server.crt", "CertificateKey": authority.directory / "server.key"}
            tls = "".join(f"TLS{name}File {path}\n" for name, path in files.items())
        (self.directory / "data").mkdir()
        self.configuration = self.directory / "slapd.conf"
        self.configuration.write_text(
            f"{schemas}pidfile {self.directory}/pid\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\nallow bind_anon_cred\n{tls}{more}"
            f"database mdb\nsuffix dc=example,dc=org\nrootdn cn=admin,dc=example,dc=org\nrootpw admin\ndirectory {self.directory}/data\nmaxsize 10485760\ndbnosync\n"
            "access to attrs=userPassword by dn.exact=cn=admin,dc=example,dc=org write by anonymous auth by * compare\n"
            "access to dn.subtree=ou=closed,dc=example,dc=org by anonymous auth by * none\n"
            "access to dn.subtree=ou=hidden,dc=example,dc=org by users read by anonymous auth\naccess to * by * read\n"
        )
        subprocess.run([find("slapadd"), "-q", "-f", self.configuration], input=ldif, text=True, check=True, capture_output=True)
        self.run()

    def set_password(self, uid: str, password: str):
        change = f"dn: uid={uid},ou=people,dc=example,dc=org\nchangetype: modify\nreplace: userPassword\nuserPassword: {password}\n"
        subprocess.run([find("slapmodify"), "-q", "-f", self.configuration], input=change, text=True, check=True, capture_output=True)

    def run(self):
        urls = f"ldap://127.0.0.1:{self.port} ldaps://127.0.0.1:{self.tls_port} ldapi://{str(self.path).replace('/', '%2F')}"
        self.start(find("slapd"), "-f", self.configuration, "-h", urls, "-d", "0")


class Redis(Server):
    programs = ("redis-server",)

    def __init__(self, password: str, keys: dict, database: int = 1):
        super().__init__()
        self.password, self.keys, self.database = password, {}, database
        self.run()
        for key, value in keys.items():
            self.put(key, value)

    def put(self, key: str, value: str | set):
        self.keys[key] = value
        self.ask("SADD", key, *sorted(value)) if isinstance(value, set) else self.ask("SET", key, value)

    def run(self):
        """It keeps nothing on the disk: what it had it is told again."""
        self.start(find("redis-server"), "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--requirepass", self.password, "--dir", self.directory)
        for key, value in self.keys.items():
            self.put(key, value)

    def ask(self, *words: str) -> bytes:
        """Puts one command to it; what it answers."""
        commands = [("AUTH", self.password), ("SELECT", str(self.database)), words]
        with socket.create_connection(("127.0.0.1", self.port)) as connection, connection.makefile("rb") as answers:
            for command in commands:
                parts = b"".join(b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in command)
                connection.sendall(b"*%d\r\n%s" % (len(command), parts))
                answer = answers.readline()
                assert not answer.startswith(b"-"), answer
        return answer


class PostgreSQL(Server):
    """Its superuser comes in by the Unix socket alone; others by TCP, each by the way to prove a password that the line says. An authority's
    certificate gives it TLS."""

    programs = ("initdb", "postgres", "psql")

    def __init__(self, sql: str, access: str, authority=None):
        super().__init__()
        # PostgreSQL refuses to be root's.
        self.user = None
        if os.getuid() == 0:
            self.user = pwd.getpwnam("nobody").pw_name
        data = self.directory / "data"
        self.tls = {}
        if authority:
            self.tls = {"ssl": "on", "ssl_cert_file": self.directory / "server.crt", "ssl_key_file": self.directory / "server.key"}
            for name in ("server.crt", "server.key"):
                shutil.copy(authority.directory / name, self.directory / name)
            (self.directory / "server.key").chmod(0o600)
        if self.user:
            for path in [self.directory, *self.directory.iterdir()]:
                shutil.chown(path, self.user)
        environment = {"PATH": PATH, "LC_ALL": "C"}
        self.options = {"user": self.user, "env": environment, "cwd": self.directory} if self.user else {"env": environment, "cwd": self.directory}
        subprocess.run([find("initdb"), "-D", data, "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions"], check=True, capture_output=True, **self.options)
        (data / "pg_hba.conf").write_text(f"local all owner trust\n{access}")
        self.run()
        self.ask(sql)

    def run(self):
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.directory, "fsync": "off", "autovacuum": "off",
                    "shared_buffers": "1MB", "max_connections": 20, **self.tls}  # fmt: skip
        pairs = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.start(find("postgres"), "-D", self.directory / "data", *pairs, **self.options)
        wait_until(lambda: (self.directory / f".s.PGSQL.{self.port}").exists(), "PostgreSQL is there")

    def stop(self):
        # Its processes have to be gone before it starts again.
        if self.process:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
        super().stop()

    def ask(self, sql: str) -> str:
        command = [find("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", self.directory, "-p", str(self.port), "-U", "owner", "-d", "postgres"]
        done = subprocess.run(command, input=sql, text=True, capture_output=True, env={"PATH": PATH})
        assert done.returncode == 0, done.stderr
        return done.stdout

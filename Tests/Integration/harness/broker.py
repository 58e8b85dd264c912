"""A broker under test: the binary that was built, or another one to compare with."""

import os
import re
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.ports import reserve_port
from harness.waiting import PATIENCE, wait_until

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Program:
    """An executable that speaks mosquitto's command line."""

    name: str
    path: str

    @property
    def is_martlet(self) -> bool:
        return self.name == "martlet"

    @staticmethod
    def chosen() -> "Program":
        """What the environment variable BROKER says: a name on the PATH or a path; without it, the release build."""
        choice = os.environ.get("BROKER", "martlet")
        if choice == "martlet":
            path = str(REPOSITORY / ".build/release/martlet")
        else:
            path = shutil.which(choice, path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin") or choice
        if not os.access(path, os.X_OK):
            raise FileNotFoundError(f"no broker at {path}; `make build` makes one")
        return Program(Path(path).name, path)


def listening_ports() -> set[int]:
    """The TCP ports of this network namespace that somebody listens on."""
    tables = [path for path in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if path.exists()]
    rows = [line.split() for path in tables for line in path.read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


class Broker:
    """One running broker, with a port, a directory and a log of its own. Ends by its process identifier, never by name."""

    def __init__(
        self, program: Program, directory: Path, *, arguments=(), configuration: str = "", listener: bool = True,
        verbose: bool = True, user: str = "root", environment: dict[str, str] | None = None,
    ):  # fmt: skip
        self.program = program
        self.verbose = verbose
        self.environment = {**os.environ, **(environment or {})}
        self.directory = directory
        self.port = reserve_port()
        self.arguments = list(arguments)
        self.configuration_path = directory / f"broker-{self.port}.conf"
        self.log_path = directory / f"broker-{self.port}.log"
        self.process: subprocess.Popen | None = None
        lines = [f"listener {self.port} 127.0.0.1", "allow_anonymous true"] if listener else []
        if os.geteuid() == 0:
            lines.append(f"user {user}")  # else the broker gives up the rights to read the test's directory
        self.configuration_path.write_text("\n".join([*lines, configuration.replace("{port}", str(self.port)).replace("{directory}", str(directory))]) + "\n")

    def command(self) -> list[str]:
        return [self.program.path, "-c", str(self.configuration_path), *(["-v"] if self.verbose else []), *self.arguments]

    def start(self) -> "Broker":
        """Returns when the broker accepts connections."""
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, env=self.environment
            )
        wait_until(self._accepts, f"{self.program.name} accepts connections on port {self.port}")
        return self

    def _accepts(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"{self.program.name} ended with {self.wait()} at its start:\n{self.log}")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE).close()
        except ConnectionRefusedError:
            return False
        # Others are looked for without a connection, which their tests would see.
        others = re.findall(r"^listener ([1-9]\d*)(?: (?:127\.0\.0\.1|0\.0\.0\.0))?$", self.configuration_path.read_text(), re.MULTILINE)
        return {int(port) for port in others} <= listening_ports()

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def wait_for_log(self, pattern: str) -> re.Match:
        """The first match of a regular expression in the log; ^ and $ match at line ends."""
        return wait_until(lambda: re.search(pattern, self.log, re.MULTILINE), f"the log says {pattern!r}")

    def signal(self, number: int):
        self.process.send_signal(number)

    def hang(self):
        """Stops all its threads, until SIGCONT. They run on for a while where the machine is busy."""
        self.signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")
        wait_until(
            lambda: all((thread / "stat").read_text().rpartition(")")[2].split()[0] == "T" for thread in threads.iterdir()),
            f"{self.program.name} hangs",
        )

    def wait(self, seconds: float = PATIENCE) -> int:
        """Waits for an end that the test brought about; the exit code, negative when a signal ended it."""
        code = self.process.wait(timeout=seconds)
        self.process = None
        return code

    def stop(self) -> int:
        """Asks the broker to end, as a service manager does, and returns its exit code; within 10 s, or it is killed."""
        self.signal(signal.SIGTERM)
        try:
            return self.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.program.name} did not end within 10 s of SIGTERM") from None

    def kill(self):
        """Ends the broker as a power cut would."""
        self.process.kill()
        self.wait()

    def restart(self) -> "Broker":
        """Starts it again, on the same port and the same files."""
        assert self.process is None
        return self.start()

    def finish(self):
        """The end of the test: a broker that still has a process has to be alive, and to end with exit code 0."""
        if self.process is not None:
            by_itself = self.process.poll()
            code = self.stop() if by_itself is None else by_itself
            assert by_itself is None, f"{self.program.name} ended by itself, with {code}"
            assert code == 0, f"{self.program.name} ended with {code} when it was asked to"


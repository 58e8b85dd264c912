"""martlet's client commands, and mosquitto's programs beside them, as a test drives them."""

import os
import subprocess
from dataclasses import dataclass, field

from harness.broker import Broker
from harness.lines import LineProcess
from harness.waiting import PATIENCE

#: Nobody's options file is read.
NOBODY = {**os.environ, "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent", "NO_COLOR": ""}


@dataclass
class Done:
    """A program that has ended."""

    code: int
    output: bytes
    complaints: str


def run(*command, standard_input: bytes = b"", environment=None, seconds: float = PATIENCE * 2) -> Done:
    done = subprocess.run(
        [str(word) for word in command], input=standard_input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds,
        env={**NOBODY, **(environment or {})},
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


@dataclass
class Commands:
    """martlet's client commands, and mosquitto's programs beside them."""

    path: str
    running: list[LineProcess] = field(default_factory=list)

    def run(self, *arguments, **options) -> Done:
        return run(self.path, *arguments, **options)

    def start(self, *arguments, **options) -> LineProcess:
        self.running.append(LineProcess([self.path, *map(str, arguments)], **options))
        return self.running[-1]

    def start_mosquitto(self, program: str, *arguments, **options) -> LineProcess:
        self.running.append(LineProcess([f"mosquitto_{program}", *map(str, arguments)], **options))
        return self.running[-1]


@dataclass
class Route:
    """A broker, and how to reach it: the plain way for everybody, and the one that is tried."""

    broker: Broker
    arguments: list[str]

    @property
    def plain(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self.broker.port)]


#: Topic whose retained message tells a subscriber that its subscription stands.
READY = "test/ready"


def make_ready(route: Route):
    assert run("mosquitto_pub", *route.plain, "-t", READY, "-m", "ready", "-r").code == 0


def wait_ready(process: LineProcess) -> LineProcess:
    process.wait_line(lambda line: "ready" in line, "the retained message that says that it has subscribed")
    return process

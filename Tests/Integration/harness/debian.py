"""Debian's mosquitto with its dynamic security, and mosquitto_ctrl: installed, or as .ci/mosquitto has fetched them."""

import os
import shutil
import subprocess
from pathlib import Path

from harness.broker import Program
from harness.waiting import PATIENCE

FETCHED = Path(__file__).resolve().parents[3] / ".build" / "mosquitto"


class Debian:
    """Where its programs are, and how they find their libraries."""

    def __init__(self):
        places = [os.environ["PATH"], "/usr/sbin", "/usr/local/sbin", str(FETCHED / "usr/bin"), str(FETCHED / "usr/sbin")]
        self.control_path = shutil.which("mosquitto_ctrl", path=":".join(places))
        self.broker_path = shutil.which("mosquitto", path=":".join(places))
        self.password_path = shutil.which("mosquitto_passwd", path=":".join(places))
        libraries = sorted(FETCHED.glob("usr/lib/*-linux-gnu"))
        self.environment = {"LD_LIBRARY_PATH": str(libraries[0])} if libraries else {}
        found = [*libraries, *Path("/usr/lib").glob("*-linux-gnu")]
        plugins = [path / "mosquitto_dynamic_security.so" for path in found]
        self.plugin_path = next((str(path) for path in plugins if path.exists()), None)

    @property
    def is_complete(self) -> bool:
        return bool(self.control_path and self.broker_path and self.password_path and self.plugin_path)

    @property
    def program(self) -> Program:
        return Program("mosquitto", self.broker_path)

    def control(self, port: int, *arguments: str, user="admin", password="adminpw") -> str:
        """What `mosquitto_ctrl dynsec …` prints."""
        command = [self.control_path, "-h", "127.0.0.1", "-p", str(port), "-u", user, "-P", password, "dynsec", *arguments]
        return self._run(command)

    def init(self, path: Path, user: str = "admin", password: str = "adminpw") -> str:
        return self._run([self.control_path, "dynsec", "init", str(path), user, password])

    def set_password(self, *arguments: str):
        """`mosquitto_passwd …`"""
        subprocess.run([self.password_path, *arguments], check=True, timeout=PATIENCE, env={**os.environ, **self.environment})

    def _run(self, command: list[str]) -> str:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
            env={**os.environ, **self.environment},
        ).stdout  # fmt: skip

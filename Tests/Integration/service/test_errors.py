"""Every error and warning that an operator can meet, as data: errors.txt has what was asked for, and all that was said.

A row is what was typed, up to an empty line: lines of a configuration, then, indented by two blanks, every line of the answer. Before them
may stand `@NAME TEXT`, a file that is made in the row's directory (with \\n for a new line), and `$ ARGUMENTS`, the arguments of the command
in place of `-c martlet.conf --test-config`. A configuration of which nothing else is said listens on a port of its own, as root stays root,
and lets everybody in: lines behind those of the row, so that these keep their numbers. `only` as the first line leaves that away.

In answers {dir} is the directory, {port} a port that nobody has, {taken} one that this test listens on, and {pid} its process. The last line
of an answer is its exit code, if that is not 3.

    MARTLET_WRITE_ERRORS=1 .build/python/bin/python -m pytest Tests/Integration/service/test_errors.py

writes the answers down as they are now: to be read, line by line, before they are committed. Would a stranger know what to do next?
"""

import os
import pwd
import re
import shlex
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness.certificates import Authority
from harness.ports import reserve_port
from harness.waiting import PATIENCE

pytestmark = pytest.mark.martlet

FILE = Path(__file__).with_name("errors.txt")
ROWS_MIN = 120
IS_ROOT = os.geteuid() == 0


def rows(text: str) -> list[list[str]]:
    return [block.split("\n") for block in text.strip().split("\n\n") if not block.startswith("#")]


def asked(row: list[str]) -> list[str]:
    return [line for line in row if not line.startswith("  ")]


def expected(row: list[str]) -> list[str]:
    """Where Debian's mosquitto is installed there is a user of that name, and nothing to warn of; nor is there where nobody can change the user."""
    lines = [line for line in row if line.startswith("  ")]
    if not IS_ROOT or "mosquitto" in {user.pw_name for user in pwd.getpwall()}:
        lines = [line for line in lines if "Unable to drop privileges to 'mosquitto'" not in line]
    return lines


def is_for_root(row: list[str]) -> bool:
    """Only root becomes another user, and fails."""
    return any(line.startswith("  Error: ") and "Unable to drop privileges to" in line for line in row)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    authority = Authority(directory)
    authority.issue("server")
    authority.issue("other")
    authority.issue("expired", days=-1)
    return directory


@pytest.fixture(scope="module")
def taken():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


class Answer:
    """What the command says to one row."""

    def __init__(self, program, row: list[str], directory: Path, taken: int, certificates: Path):
        directory.mkdir()
        (directory / "certificates").symlink_to(certificates)
        port = reserve_port()
        self.places = {str(directory): "{dir}", str(port): "{port}", str(taken): "{taken}", str(os.getpid()): "{pid}"}
        lines, arguments = [], ["-c", "martlet.conf", "--test-config"]
        for line in asked(row):
            for value, place in self.places.items():
                line = line.replace(place, value)
            if line.startswith("@"):
                name, _, text = line[1:].partition(" ")
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                (directory / name).write_bytes(text.encode().decode("unicode_escape").encode("latin-1"))
            elif line.startswith("$"):
                arguments = shlex.split(line[1:])
            elif not line.startswith("#"):
                lines.append(line)
        if lines[:1] == ["only"]:
            lines = lines[1:]
        else:
            names = {line.split()[0] for line in lines if line.split()}
            lines += [line for line in ["user root"] if "user" not in names]  # which says nothing to others
            lines += [line for line in ["allow_anonymous true"] if "allow_anonymous" not in names]
            if not names & {"listener", "port", "bind_address"}:
                lines.append(f"listener {port} 127.0.0.1")
        if lines and not (directory / "martlet.conf").exists():
            (directory / "martlet.conf").write_text("\n".join(lines) + "\n")
        before = self.listing(directory)
        done = subprocess.run(
            [program.path, *arguments], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=PATIENCE, env={**os.environ, "LC_ALL": "C", "COLUMNS": "80"},
        )  # fmt: skip
        self.text = done.stdout.decode()
        for value, place in self.places.items():
            self.text = self.text.replace(value, place)
        self.text = self.text.replace(program.path, "{martlet}").replace(os.path.realpath(program.path), "{martlet}")
        self.text = re.sub(r"(?m)^\d{10}: martlet version \S+ ", "{time}: martlet version {version} ", self.text)
        self.text = re.sub(r"(?m)^\d{10}: ", "{time}: ", self.text)
        self.text = re.sub(r"\d{4}-\d\d-\d\d", "{day}", self.text)
        self.text = re.sub(r"There are: lo[,.].*", "There are: {interfaces}", self.text)
        # What takes the port is this process, whatever it is called.
        self.text = self.text.replace(f"is in use by {Path('/proc/self/comm').read_text().strip()} (", "is in use by python (")
        said = self.text.splitlines()
        # Everybody who tests as root hears this.
        said = [line for line in said if "user: The broker should not be run as root." not in line]
        self.lines = [f"  {line}" for line in said] + ([] if done.returncode == 3 else [f"  exit code {done.returncode}"])
        self.untouched = before == self.listing(directory)

    @staticmethod
    def listing(directory: Path) -> list:
        return sorted(
            (str(path), path.lstat().st_mode, path.lstat().st_mtime_ns, path.lstat().st_size)
            for path in directory.rglob("*")
        )


def test_every_answer_is_the_one_that_was_reviewed(program, tmp_path, certificates, taken):
    text = FILE.read_text()
    table = rows(text)
    assert len(table) >= ROWS_MIN
    numbered = list(enumerate(table))
    with ThreadPoolExecutor(4) as workers:
        answers = list(workers.map(lambda row: Answer(program, row[1], tmp_path / str(row[0]), taken, certificates), numbered))
    # A client of another test, coming from another loopback address, may have had the port.
    for index, row in numbered:
        if "{port} is in use" in answers[index].text and "{port} is in use" not in "\n".join(row):
            answers[index] = Answer(program, row, tmp_path / f"{index} again", taken, certificates)
    if os.environ.get("MARTLET_WRITE_ERRORS"):
        blocks, found = text.strip().split("\n\n"), iter(zip(table, answers))
        FILE.write_text("\n\n".join(
            block if block.startswith("#") else "\n".join(asked(pair[0]) + pair[1].lines) for block in blocks
            for pair in [None if block.startswith("#") else next(found)]
        ) + "\n")  # fmt: skip
    wrong = [
        "\n".join(["", *asked(row), "expected:", *expected(row), "said:", *answer.lines])
        for row, answer in zip(table, answers)
        if answer.lines != expected(row) and (IS_ROOT or not is_for_root(row))
    ]
    assert not wrong, "\n".join(wrong)
    changed = [asked(row) for row, answer in zip(table, answers) if not answer.untouched and "--test-config" not in " ".join(row)]
    assert not [row for row in changed if not any(line.startswith("$") for line in row)], "a check has changed files"

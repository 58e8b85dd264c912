"""The tables of malformed and odd inputs that the conformance tests send through the simulation."""

from dataclasses import dataclass
from pathlib import Path

from harness.frame import frame_bytes

TABLES = Path(__file__).resolve().parents[2] / "ConformanceTests/Malformed/Cases"
LEVELS = {"3.1": 3, "3.1.1": 4, "5": 5}


@dataclass(frozen=True)
class InputCase:
    """What a client sends, and what the broker must answer: one line of a table, for one version."""

    level: int
    stage: str
    sent: bytes
    #: What comes first.
    answer: bytes
    #: `open`, `close`, or the packet type with which the broker ends the connection.
    end: str
    code: int
    name: str


def read_cases(table: str) -> list[InputCase]:
    """The cases of a table, each version on its own."""
    cases = []
    for line in (TABLES / f"{table}.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        versions, stage, sent, answer, name = (column.strip() for column in line.split("|"))
        cases += [_case(LEVELS[version], stage, sent, answer, name) for version in versions.split()]
    return cases


def _case(level: int, stage: str, sent: str, answer: str, name: str) -> InputCase:
    words = answer.split()
    end, code = words.pop(), 0
    if end not in ("open", "close"):
        code, end = int(end, 16), words.pop()
    if level < 5 and code >= 0x80:
        end = "close"
    return InputCase(level, stage, frame_bytes(sent, level), frame_bytes(" ".join(words), level), end, code, name)

"""What strace wrote down of a broker: its calls, when each began and ended relative to the others, and the bytes that passed."""

import re
from dataclasses import dataclass
from pathlib import Path

from harness.wire import Packet

CALLS = "recvfrom,recvmsg,sendto,sendmsg,writev,pwrite64,fsync,fdatasync"
#: Descriptors with their files, bytes in hexadecimal, whole.
OPTIONS = ["-f", "-q", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}", "-e", "signal=none"]
#: Every call on a descriptor, and none of the bytes.
DESCRIPTORS = ["-f", "-q", "-y", "-s", "0", "-e", "trace=%desc", "-e", "signal=none"]

UNFINISHED = re.compile(r"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")
WHOLE = re.compile(r"^(\d+) +(\w+)\((.*)$")
RESULT = re.compile(r"\) += (-?\d+)")
FILE = re.compile(r"^\d+<([^>]*)>")
BYTES = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass
class Call:
    name: str
    #: Where in the trace it began and ended: a call that begins after another one's end can have been caused by it.
    began: int
    ended: int
    #: A path, or socket:[NUMBER].
    file: str
    data: bytes
    result: int


def read_trace(path: Path) -> list[Call]:
    """The calls that came to an end, by their beginnings."""
    calls, begun = [], {}
    for line, text in enumerate(path.read_text().splitlines()):
        if match := UNFINISHED.match(text):
            begun[match[1]] = (line, match[2], match[3])
            continue
        if match := RESUMED.match(text):
            began, name, arguments = begun.pop(match[1])
            assert name == match[2]
            arguments += match[3]
        elif match := WHOLE.match(text):
            began, name, arguments = line, match[2], match[3]
        else:
            continue
        if (result := RESULT.search(arguments)) and (file := FILE.match(unescaped(arguments))):
            data = b"".join(bytes.fromhex(piece.replace("\\x", "")) for piece in BYTES.findall(arguments))
            calls.append(Call(name, began, line, file[1], data[: max(0, int(result[1]))], int(result[1])))
    return sorted(calls, key=lambda call: call.began)


def unescaped(arguments: str) -> str:
    """-xx writes the names of files in hexadecimal too."""
    end = arguments.find(">")
    return re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), arguments[: end + 1])


def packets(calls: list[Call]) -> list[tuple[Packet, Call]]:
    """The packets of one direction of a connection, each with the call that brought its end."""
    found, received = [], b""
    for call in calls:
        received += call.data
        while len(received) > 1 and received[1] < 0x80 and len(received) >= 2 + received[1]:
            end = 2 + received[1]
            found.append((Packet(received[0] >> 4, received[0] & 15, received[2:end]), call))
            received = received[end:]
    assert not received, "a packet longer than these tests send"
    return found

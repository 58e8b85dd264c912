"""A directory as a power cut leaves it: what was synced is there, and of the rest nothing, or whatever chance has written meanwhile.

The broker runs with unsynced.c loaded, which writes down its calls. From these this works out both views of every file: what the kernel
shows, and what the disk holds.
"""

import random
import struct
import subprocess
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_name("unsynced.c")
RECORD = struct.Struct("<IIQQ")


class Kind(IntEnum):
    """As in unsynced.c."""

    CREATED, WROTE, TRUNCATED, SYNCING, SYNCED, RENAMED, REMOVED = range(1, 8)


def compile_layer(directory: Path, source: Path = SOURCE) -> Path:
    library = directory / source.with_suffix(".so").name
    options = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["cc", *options, source, "-o", library, "-ldl"], check=True)
    return library


@dataclass
class Synced:
    """A state on the disk, and the changes to it that no sync has covered yet: (kind, number, bytes), in their order."""

    pending: list[tuple] = field(default_factory=list)
    #: How many changes were taken off the front of `pending`.
    flushed: int = 0

    def take(self, end: int):
        """The changes up to a place, counted from the beginning of time, which are synced now."""
        count = max(0, end - self.flushed)
        taken, self.pending = self.pending[:count], self.pending[count:]
        self.flushed += len(taken)
        return taken


@dataclass(eq=False)
class File(Synced):
    content: bytearray = field(default_factory=bytearray)

    def apply(self, change: tuple, sector: int = 0, keeps: float = 1, chance: random.Random | None = None):
        """Makes a change to the content; with a sector size, each sector of it only with a probability."""
        kind, number, data = change
        if kind == Kind.TRUNCATED:
            if not sector or chance.random() < keeps:
                self._resize(number)
            return
        start = number
        while start < number + len(data):
            end = min(number + len(data), (start // sector + 1) * sector) if sector else number + len(data)
            if not sector or chance.random() < keeps:
                self._resize(max(end, len(self.content)))
                self.content[start:end] = data[start - number : end - number]
            start = end

    def _resize(self, size: int):
        del self.content[size:]
        self.content += bytes(size - len(self.content))


class Names(Synced):
    """The directory itself; its changes reach the disk in their order, as a journal writes them."""

    def __init__(self, files: dict[str, File]):
        super().__init__()
        self.files = dict(files)

    def apply(self, change: tuple):
        kind, names, file = change
        if kind == Kind.CREATED:
            self.files[names[0]] = file
        elif kind == Kind.RENAMED and names[0] in self.files:
            self.files[names[1]] = self.files.pop(names[0])
        elif kind == Kind.REMOVED:
            self.files.pop(names[0], None)


class Recording:
    """What was in the directory, and what was done to it since."""

    def __init__(self, directory: Path):
        self._before = [(path.name, path.stat().st_ino, path.read_bytes()) for path in directory.iterdir()]
        self._calls: list[tuple] = []

    def read(self, records: bytes):
        """Takes in what the layer has written down; the last record may be cut short by a kill."""
        self._calls, offset = [], 0
        while offset + RECORD.size <= len(records):
            kind, count, inode, number = RECORD.unpack_from(records, offset)
            offset += RECORD.size + count
            if offset <= len(records):
                self._calls.append((Kind(kind), inode, number, records[offset - count : offset]))

    def __len__(self) -> int:
        return len(self._calls)

    def replay(self, steps: int | None = None) -> Names:
        """The directory after so many of the calls, or all."""
        files = {name: File(content=bytearray(content)) for name, _, content in self._before}
        names = Names(files)
        inodes: dict[int, Synced] = {inode: files[name] for name, inode, _ in self._before} | {0: names}
        syncing: dict[int, tuple[Synced, int]] = {}
        for kind, inode, number, data in self._calls[:steps]:
            match kind:
                case Kind.CREATED:
                    # The number of a file that was removed may come again.
                    inodes[inode] = File()
                    names.pending.append((kind, (data.decode(),), inodes[inode]))
                case Kind.WROTE | Kind.TRUNCATED:
                    inodes[inode].pending.append((kind, number, data))
                case Kind.RENAMED:
                    names.pending.append((kind, (data[:number].decode(), data[number:].decode()), None))
                case Kind.REMOVED:
                    names.pending.append((kind, (data.decode(),), None))
                case Kind.SYNCING:
                    syncing[number] = (inodes[inode], inodes[inode].flushed + len(inodes[inode].pending))
                case Kind.SYNCED:
                    target, end = syncing.pop(number)
                    for change in target.take(end):
                        target.apply(change)
        return names


class UnsyncedDisk:
    """begin ─► the broker runs and ends ─► power_cut ─► begin …"""

    def __init__(self, directory: Path, library: Path):
        self.directory = directory
        self._records = directory.with_name(directory.name + "-records")
        self.environment = {"LD_PRELOAD": str(library), "UNSYNCED_DIRECTORY": str(directory), "UNSYNCED_RECORDS": str(self._records)}
        self.directory.mkdir()

    def begin(self):
        """All that is in the directory now is on the disk."""
        self._records.unlink(missing_ok=True)
        self._recording = Recording(self.directory)

    def recording(self) -> Recording:
        """What was done since."""
        self._recording.read(self._records.read_bytes() if self._records.exists() else b"")
        return self._recording

    def power_cut(self, chance: random.Random, *, keeps_some: bool, recording: Recording | None = None, steps: int | None = None):
        """Leaves in the directory what the disk holds: the synced state, and if wanted a part of what was written since.

        With a recording, as if the power had been cut after so many of its calls.
        """
        names = (recording or self.recording()).replay(steps)
        if keeps_some:
            for change in names.pending[: chance.randint(0, len(names.pending))]:
                names.apply(change)
            for file in names.files.values():
                sector, keeps = chance.choice([512, 4096]), chance.choice([0, 0.5, 0.9, 1])
                for change in file.pending:
                    file.apply(change, sector, keeps, chance)
        for path in self.directory.iterdir():
            path.unlink()
        for name, file in names.files.items():
            (self.directory / name).write_bytes(file.content)
            (self.directory / name).chmod(0o600)

    def visible(self) -> dict[str, bytes]:
        """What the kernel shows of the directory, if every change to it was written down."""
        names = self.recording().replay()
        for change in names.pending:
            names.apply(change)
        for file in names.files.values():
            for change in file.pending:
                file.apply(change)
        return {name: bytes(file.content) for name, file in names.files.items()}

"""The program that keeps a collection, as a test drives it: what it prints is what the collection's user sees."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from harness.broker import REPOSITORY
from harness.lines import LineProcess
from harness.waiting import PATIENCE, wait_until
from harness.wire import PUBACK, Wire

PROGRAM = os.environ.get("COLLECTION_CLIENT", str(REPOSITORY / ".build/release/collectionclient"))

is_built = pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason="collectionclient is not built; `make integration` builds it")


class Program(LineProcess):
    """A program that goes on until its input ends."""

    def __init__(self, *arguments):
        super().__init__([PROGRAM, *map(str, arguments)], keeps_input=True)
        self._taken: dict[str, int] = {}

    def next(self, start: str) -> str:
        """The rest of the next line that begins so."""
        place = self.wait_line(lambda line: line.startswith(start), f"a line “{start}…”", after=self._taken.get(start, 0))
        self._taken[start] = place + 1
        return self.lines[place].removeprefix(start).strip()

    def finish(self):
        """Ends its input, and waits for its end."""
        self.end_input()
        assert self.wait() == 0, self.lines[-20:]


class Keeper(Program):
    """Keeps kept/+ of the server at a port."""

    def __init__(self, port: int, store: Path, *options: str):
        super().__init__("keep", port, store, *options)
        self._store = store

    def wait_stored(self, count: int):
        """Nobody waits for the disk: what a collection shows is there a moment later."""
        look = [PROGRAM, "look", str(self._store)]
        wait_until(
            lambda: subprocess.run(look, capture_output=True, text=True, check=True).stdout.startswith(f"look {count} "), f"{count} stored entries")

    def change(self) -> set[str]:
        return set(self.next("change").split())

    def show(self) -> dict[str, str]:
        """The values by name; those that are not confirmed have their state beside them."""
        self.tell("show")
        return dict(word.removesuffix(":confirmed").split("=", 1) for word in self.next("shown").split())

    @property
    def folded(self) -> dict[str, str]:
        """What all changes make together. Each must fit what was there before it."""
        values: dict[str, str] = {}
        for line in list(self.lines):
            for kind, name, value in re.findall(r" ([+~-])([^ =]+)(?:=([^ :]*):\w+)?", line) if line.startswith("change") else ():
                assert (kind == "+") == (name not in values), f"{line}, after {values}"
                if kind == "-":
                    del values[name]
                else:
                    values[name] = value
        return values


class Publisher:
    """Somebody else who sets what the server retains, and knows what it is."""

    def __init__(self, wire: Wire):
        self.wire = wire
        self.values: dict[str, str] = {}
        wire.connect("publisher")

    def set(self, name: str, value: str):
        """An empty value removes. Returns when the server has it."""
        self.wire.publish(f"kept/{name}", value, qos=1, retain=True)
        self.wire.receive(PUBACK)
        if value:
            self.values[name] = value
        else:
            self.values.pop(name, None)


def wait_shown(keeper: Keeper, values: dict[str, str]):
    wait_until(lambda: keeper.show() == values, "the collection is what the server retains", PATIENCE * 2)
    # Whoever looks on hears of a change a moment after it can be seen.
    wait_until(lambda: keeper.folded == values, "the changes come to the same")

"""A broker under attack, and a well-behaved pair of clients beside it: what the attack costs them, and what it leaves behind."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.broker import Broker
from harness.waiting import wait_until
from harness.wire import PUBLISH, Wire

from abuse.crew import FOLDER, Attack, Crew, let_go_first, loop_threads, resident_bytes

#: Seconds that each measurement takes at least; `make nightly` takes longer ones.
SECONDS = float(os.environ.get("MARTLET_ABUSE_SECONDS", "0.5"))
#: Messages of the pair in a second. In half a second the p99 is the third worst of them.
RATE = 400
#: Milliseconds that an attack may add to the p99 of the pair. `make nightly` measures alone; where other tests run beside, what is looked
#: for is a loop that stands still.
ADDED_MAX = 5 if "MARTLET_ABUSE_SECONDS" in os.environ else 50
#: Milliseconds that no message of the pair may take, whatever happens.
LONGEST_MAX = 1000
#: How often both are measured anew, when the first time was too slow: other processes of a machine may be the reason.
ATTEMPTS = 3
#: Bytes that the resident memory may be larger after an attack than before: of idle blocks the broker keeps 2 MiB in each size, and a
#: larger crowd than the first one may come.
KEPT_MAX = 4 << 20
#: The listener that the pair comes to, in the directory of the test.
LISTENER = "listener 0 {directory}/pair.sock\n"


@dataclass(frozen=True)
class Window:
    """What the pair measured, in milliseconds."""

    count: int
    p50: float
    p99: float
    longest: float


class Siege:
    """Of one broker, which has LISTENER."""

    def __init__(self, broker: Broker, directory: Path, login: tuple[str, str] | None = None):
        self.broker = broker
        self.directory = directory
        command = [sys.executable, "-m", "abuse.pair", str(directory / "pair.sock"), str(RATE), *(login or ())]
        self._errors = directory / "errors of the pair"
        with self._errors.open("w") as errors:
            self._pair = subprocess.Popen(command, cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        # The loops run when the pair is connected.
        self._report()
        self.goes_first = let_go_first([self._pair.pid, *loop_threads(broker.process.pid)])
        self._descriptors = self.open_descriptors()

    def close(self):
        self._pair.kill()
        self._pair.wait()
        with suppress(BrokenPipeError):
            self._pair.stdin.close()
        self._pair.stdout.close()

    # What is measured

    def _report(self) -> Window:
        """What the pair measured since it was asked before."""
        try:
            self._pair.stdin.write("\n")
            self._pair.stdin.flush()
            line = self._pair.stdout.readline()
        except BrokenPipeError:
            line = ""
        assert line, f"the pair was disturbed: {self._errors.read_text()}"
        return Window(**json.loads(line))

    def measure(self, is_enough: Callable[[], bool] = lambda: True) -> Window:
        """The pair's next window: until `is_enough` says so, and SECONDS long at least."""
        self._report()
        deadline = time.monotonic() + SECONDS
        wait_until(lambda: time.monotonic() >= deadline and is_enough(), "the attack goes on", SECONDS + 30)
        return self._report()

    def _resident(self) -> int:
        return resident_bytes(self.broker.process.pid)

    def open_descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.broker.process.pid}/fd"))

    def wait_alone(self):
        """Until only those connections are left that were there at first."""
        wait_until(lambda: self.open_descriptors() <= self._descriptors, "the attackers' connections are gone", 30)

    # What is done

    @contextmanager
    def attack(self, attack: Attack) -> Iterator[Crew]:
        """The attackers at work."""
        crew = Crew(attack, self.directory, niceness=0 if self.goes_first else 19)
        try:
            yield crew
        finally:
            crew.close()

    def measure_under(self, attack: Attack) -> tuple[Window, int]:
        """The pair's window beside the attackers, and the broker's resident bytes at its end; returns when they are gone."""
        with self.attack(attack) as crew:
            wait_until(lambda: crew.strikes > 0, "the attack begins", 30)
            begun = crew.strikes
            window = self.measure(lambda: crew.strikes >= begun + attack.least)
            resident = self._resident()
        self.wait_alone()
        return window, resident

    def withstand(self, attack: Attack, *, added_max: float = ADDED_MAX, kept_max: int = KEPT_MAX, peak_max: int | None = None):
        """The attack adds no more than `added_max` ms to the pair's p99, takes no more than `peak_max` bytes, and leaves nothing behind."""
        # Once before it counts: pools and tables have the size then that such a crowd needs.
        self.measure_under(attack)
        before, figures = self._resident(), []
        for _ in range(ATTEMPTS):
            quiet = self.measure()
            attacked, resident = self.measure_under(attack)
            figures.append(f"{attack}: quiet p99 {quiet.p99:.2f} ms, attacked {attacked}, {resident - before:,} bytes more")
            print(figures[-1])
            if attacked.p99 <= quiet.p99 + added_max and attacked.longest <= LONGEST_MAX:
                break
        else:
            raise AssertionError("others are delayed\n" + "\n".join(figures))
        if peak_max is not None:
            assert resident - before <= peak_max, f"{attack} makes the broker hold {resident - before:,} bytes more"
        self._check_memory(before + kept_max)
        # Who comes while the attack's last connections are still turned away may be turned away with them.
        wait_until(self._is_served, "somebody new is served")

    def _is_served(self) -> bool:
        try:
            self.serve()
        except AssertionError:
            return False
        return True

    def _check_memory(self, most: int):
        try:
            wait_until(lambda: self._resident() <= most, "the memory is given back")
        except AssertionError:
            raise AssertionError(f"{self._resident():,} bytes stay resident, at most {most:,} should") from None

    def serve(self):
        """Somebody new is served."""
        wire = Wire(self.broker.port)
        try:
            assert wire.connect("guest")[1] == 0
            wire.subscribe("guest/+")
            wire.publish("guest/x", "served")
            assert wire.receive(PUBLISH).body.endswith(b"served")
        finally:
            wire.close()

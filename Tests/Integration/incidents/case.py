"""One incident: what was done, what clients saw, and what the operator was told."""

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.program import run
from harness.waiting import PATIENCE, wait_until
from incidents.traffic import Seen

#: What differs from node to node, and from run to run.
_VARYING = re.compile(r"[0-9A-F]{16}|\d{4}-\d\d-\d\d[T ][\d:.]+Z?|\bn\d\b|\d+")
#: Characters of what is told that the table has.
_WORDS_MAX = 240


@dataclass
class Row:
    """A row of the table."""

    incident: str
    done: str
    clients: list[str] = field(default_factory=list)
    operator: list[str] = field(default_factory=list)


class Case:
    """An incident under way. What it is asked to see, it writes into its row, and what is not as it should be fails it."""

    def __init__(self, row: Row, program):
        self.row = row
        self._program = program
        self._begun: dict[int, int] = {}
        #: Where a node is reached, if not everywhere.
        self.inside: Callable = lambda node: contextlib.nullcontext()

    def begins(self, nodes):
        """From here on the logs of these count."""
        self._begun = {id(node): len(node.broker.log) for node in nodes}

    # What clients see

    def saw(self, seen: Seen, *, answer: float, connect: float, missing: int = 0):
        """Checks what every incident has to keep: what was acknowledged comes, of QoS 2 once, in order, to sessions that stay. And nobody waits longer
        than so many seconds."""
        self.row.clients.append(str(seen))
        assert seen.acknowledged > 0 and not seen.troubles, seen.troubles
        assert seen.missing <= missing and seen.twice_exactly_once == 0 and seen.out_of_order == 0 and seen.lost_sessions == 0, str(seen)
        assert seen.longest_answer <= answer and seen.longest_connect <= connect, str(seen)

    def notes(self, words: str):
        """Something else that clients saw."""
        self.row.clients.append(words)

    # What the operator is told

    def said(self, node, where: str) -> str:
        """All that the node says there."""
        if where == "log":
            return node.broker.log[self._begun.get(id(node), 0) :]
        if where.startswith("ctl"):
            done = run(self._program, *where.split(), "--socket", str(node.socket))
            return f"{done.stdout}\n(exit code {done.returncode})"
        with self.inside(node):
            if where == "/readyz":
                status, text = node.get("/readyz?verbose")
                return f"{status}\n{text}"
            return node.get(where)[1]

    def told(self, node, where: str, pattern: str, seconds: float = 2 * PATIENCE) -> re.Match:
        """Waits until the node says so there: in its log, in what `ctl …` prints, at `/readyz` or `/metrics`."""
        text = ""

        def found() -> re.Match | None:
            nonlocal text
            with contextlib.suppress(ConnectionError):
                text = self.said(node, where)
            return re.search(pattern, text, re.MULTILINE)

        try:
            match = wait_until(found, f"{where} of {node.name} says {pattern!r}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says:\n{text[-3000:]}") from None
        self.heard(f"{where}: {' '.join(match[0].split())}")
        return match

    def told_by_one(self, nodes, where: str, pattern: str, seconds: float = 2 * PATIENCE):
        """Waits until one of the nodes says so, and gives it."""
        def who():
            return next((node for node in nodes if re.search(pattern, self.said(node, where), re.MULTILINE)), None)

        node = wait_until(who, f"{where} of {', '.join(node.name for node in nodes)} says {pattern!r}", seconds)
        self.told(node, where, pattern)
        return node

    def heard(self, words: str):
        """Writes down what was told; what several nodes say alike, once."""
        words = words if len(words) < _WORDS_MAX else words[:_WORDS_MAX].rpartition(" ")[0] + " …"
        alike = _VARYING.sub("", words)
        if all(_VARYING.sub("", other) != alike for other in self.row.operator):
            self.row.operator.append(words)

    def counts(self, node, metric: str, least: float = 1) -> float:
        """Waits until a metric has risen so far."""
        with self.inside(node):
            wait_until(lambda: node.metric(metric) >= least, f"{metric} of {node.name} is {least:g}", 2 * PATIENCE)
            value = node.metric(metric)
        self.heard(f"/metrics: {metric} {value:g}")
        return value

    def not_told(self, nodes, where: str, pattern: str):
        """What would be wrong."""
        for node in nodes:
            text = self.said(node, where)
            match = re.search(rf"^.*(?:{pattern}).*$", text, re.MULTILINE)
            assert not match, f"{where} of {node.name} says {match[0]!r}"

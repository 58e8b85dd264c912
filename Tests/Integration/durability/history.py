"""The values that one thing was given, and which of them it may have after a crash."""

from collections.abc import Callable


class History:
    """A value holds from its acknowledgement on; the ones after it may hold, or not."""

    def __init__(self, first: object):
        self._values: list[tuple[object, Callable[[], bool]]] = [(first, lambda: True)]

    def add(self, value: object, is_acknowledged: Callable[[], bool]):
        self._values.append((value, is_acknowledged))

    def allowed(self) -> list[object]:
        last = max(index for index, (_, is_acknowledged) in enumerate(self._values) if is_acknowledged())
        self._values = self._values[last:]
        return [value for value, _ in self._values]

    def check(self, value: object, what: str):
        assert value in (allowed := self.allowed()), f"{what} is {value!r}, and may be {allowed[:20]}"

"""Bytes as a person writes them down: the notation of the conformance tables, Tests/ConformanceTests/Notation/Frame.swift."""

from harness.wire import text, variable_length


def frame_bytes(notation: str, level: int) -> bytes:
    """The bytes that the notation means on a connection of this protocol level."""
    words = iter(notation.split())
    return _read(words, None, level)


def _read(words, end: str | None, level: int) -> bytes:
    data = b""
    for word in words:
        if word == end:
            return data
        data += _bytes(word, words, level)
    assert end is None, f"{end} is missing"
    return data


def _bytes(word: str, words, level: int) -> bytes:
    match word[0]:
        case "{":
            inner = b"" if word == "{}" else _read(words, "}", level)
            return variable_length(len(inner)) + inner
        case "(":
            return text(_read(words, ")", level))
        case "~":
            return b"\0" if level == 5 else b""
        case "$":
            return bytes([level])
        case "'":
            return text(word[1:-1])
        case '"':
            return word[1:-1].encode()
        case _:
            digits, _, count = word.partition("*")
            return bytes.fromhex(digits) * int(count or 1)

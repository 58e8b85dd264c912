"""Reads what Swift sources declare, well enough for the house's own formatting: types, functions, stored properties, cases, and where they stand."""

import dataclasses
import functools
import pathlib
import re

INTERESTING = re.compile(r'//|/\*|#*"|[()]')
TOKEN = re.compile(
    r"[{}()]|\n|\b(?:struct|class|enum|protocol|actor|extension|func|init|deinit|subscript|var|let|case|typealias|macro)\b"
)
NAME = re.compile(r"\s+(`[^`]+`|[A-Za-z_][A-Za-z0-9_.]*|[^\s\w(]+)")
TYPES = {"struct", "class", "enum", "protocol", "actor", "extension"}


def code_of(text: str) -> str:
    """The text with each character of its comments and strings as a blank; code within a string's `\\( )` stays. Lines stay where they are."""
    pieces = []
    _read_code(text, 0, pieces, None)
    return "".join(pieces)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _read_code(text, at, pieces, closing):
    """Reads code from a place, to the bracket that closes an interpolation or to the end, and says where it stopped."""
    depth = 0
    while found := INTERESTING.search(text, at):
        pieces.append(text[at : found.start()])
        at, token = found.start(), found[0]
        if token == "//":
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
        elif token == "/*":
            end = text.find("*/", at + 2)
            end = len(text) if end < 0 else end + 2
        elif token in "()":
            depth += 1 if token == "(" else -1
            if depth < 0 and closing:
                return at
            pieces.append(token)
            at += 1
            continue
        else:
            at = _read_string(text, at, pieces, token.count("#"))
            continue
        pieces.append(_blank(text[at:end]))
        at = end
    pieces.append(text[at:])
    return len(text)


def _read_string(text, at, pieces, marks):
    begin = at + marks
    quote = '"""' if text.startswith('"""', begin) else '"'
    end = re.compile(rf'{quote}{"#" * marks}|\\{"#" * marks}\(|\\{"#" * marks}.' + ("" if quote == '"""' else r"|\n"), re.DOTALL)
    place = begin + len(quote)
    pieces.append('"' + " " * (place - at - 1))
    while found := end.search(text, place):
        pieces.append(_blank(text[place : found.start()]))
        if found[0].endswith("("):
            pieces.append(" " * (len(found[0]) - 1) + "(")
            place = _read_code(text, found.end(), pieces, closing=True)
        elif found[0].startswith("\\"):
            pieces.append(_blank(found[0]))
            place = found.end()
        else:
            pieces.append(" " * (len(found[0]) - 1) + '"' if found[0] != "\n" else "\n")
            return found.end()
    pieces.append(_blank(text[place:]))
    return len(text)


@dataclasses.dataclass(frozen=True)
class Declaration:
    #: struct, class, enum, protocol, actor, extension, func, property (a stored one, not static), value (any other var or let), case, typealias.
    kind: str
    name: str
    #: The types around it, outermost first, joined by dots; empty at the top of a file.
    owner: str
    file: pathlib.Path
    line: int
    #: The first line behind it, of a type and a function that has a body.
    end: int


def declarations(file: pathlib.Path) -> list[Declaration]:
    return declarations_of(file.read_text(), file)


def declarations_of(text: str, file: pathlib.Path) -> list[Declaration]:
    code = code_of(text)
    found: list[list] = []
    #: What each open brace belongs to: (kind, path of types, index of its declaration).
    scopes: list[tuple[str, str, int | None]] = [("file", "", None)]
    depths: list[int] = [0]
    pending = None
    line = 1
    for token in TOKEN.finditer(code):
        word = token[0]
        kind, path, _ = scopes[-1]
        if word == "\n":
            line += 1
        elif word == "(":
            depths[-1] += 1
        elif word == ")":
            depths[-1] -= 1
        elif word == "{":
            if pending and depths[-1] == 0:
                scopes.append(pending)
                pending = None
            else:
                scopes.append(("other", path, None))
            depths.append(0)
        elif word == "}":
            if len(scopes) > 1:
                _, _, index = scopes.pop()
                depths.pop()
                if index is not None:
                    found[index][5] = line
            pending = None
        elif depths[-1] > 0 or (token.start() > 0 and code[token.start() - 1] in ".`@#"):
            continue
        elif kind in ("other", "body") and word not in ("func", "struct", "class", "enum"):
            continue
        elif word in TYPES:
            name = NAME.match(code, token.end())
            if not name or name[1] in ("func", "var", "let", "subscript") or (word == "class" and code[: token.start()].rstrip().endswith(":")):
                continue
            if kind in ("other", "body") and not name[1][0].isupper():
                continue
            full = f"{path}.{name[1]}" if path else name[1]
            found.append([word, name[1], path, file, line, line])
            pending = (word, full, len(found) - 1)
        elif word in ("func", "init", "deinit", "subscript"):
            if word == "init" and kind not in TYPES:
                continue
            name = NAME.match(code, token.end()) if word == "func" else None
            found.append(["func", name[1].strip("`") if name else word, path, file, line, line])
            pending = ("body", path, len(found) - 1)
        elif word == "typealias":
            if name := NAME.match(code, token.end()):
                found.append([word, name[1], path, file, line, line])
        elif word == "case" and kind == "enum":
            for name in _names(code, token.end()):
                found.append(["case", name, path, file, line, line])
        elif word in ("var", "let") and kind in TYPES | {"file"}:
            stored = kind not in ("file", "protocol", "extension") and _is_stored(code, token)
            for name in _names(code, token.end()):
                found.append(["property" if stored else "value", name, path, file, line, line])
            pending = ("body", path, None)
    return [Declaration(*values) for values in found]


def _head(code, start):
    """A declaration from a place to the end of its first line, of brackets the last character alone."""
    text, depth = [], 0
    for character in code[start : start + 2000]:
        if character in "([<{":
            depth += 1
        elif character in ")]>}" and depth > 0:
            depth -= 1
            if depth == 0:
                text.append(character)
        elif character == "\n" and depth == 0 and "".join(text).rstrip()[-1:] not in (",", "=", ":"):
            break
        elif depth == 0:
            text.append(character)
    return "".join(text)


def _names(code, start):
    """The names that one `case`, `var` or `let` declares."""
    # A tuple takes its value apart: each word in it is a name.
    if tuple_ := re.match(r"\s*\(", code[start : start + 200]):
        depth, end = 1, start + tuple_.end()
        while depth > 0 and end < len(code):
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        names = re.findall(r"[A-Za-z_]\w*", code[start:end])
        return [name for name in names if name != "_"]
    pieces = _head(code, start).split(",")
    names = (re.match(r"\s*`?([A-Za-z_]\w*)", piece) for piece in pieces)
    return [name[1] for name in names if name]


def _is_stored(code, token):
    before = code[code.rfind("\n", 0, token.start()) + 1 : token.start()]
    if re.search(r"\b(static|class)\b", before):
        return False
    depth = 0
    for index in range(token.end(), min(len(code), token.end() + 4000)):
        character = code[index]
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif depth == 0 and character == "=" and code[index + 1] != "=":
            return True
        elif depth == 0 and character == "{":
            return bool(re.match(r"\{\s*(didSet|willSet)\b", code[index:]))
        elif depth == 0 and character == "\n" and code[:index].rstrip()[-1] not in ":,":
            return True
    return True


@functools.lru_cache
def files(sources: pathlib.Path) -> tuple[pathlib.Path, ...]:
    return tuple(sorted(sources.rglob("*.swift")))


def target(file: pathlib.Path, sources: pathlib.Path) -> str:
    return file.relative_to(sources).parts[0]

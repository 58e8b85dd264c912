"""The manual's pages: made from the tables of the broker, complete, and clean."""

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness.broker import REPOSITORY
from harness.program import run


@pytest.fixture(scope="session")
def pages(program, once) -> Path:
    return once(
        "manual", lambda directory: subprocess.run([REPOSITORY / "config/packaging/manual", program.path, directory], check=True)
    )


def shown(page: Path) -> str:
    """A page as a reader sees it, each run of blanks as one."""
    formatter = ["mandoc", "-Tascii", page] if shutil.which("mandoc") else ["man", "--local-file", "--no-hyphenation", page]
    text = subprocess.run(formatter, stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.sub(r"\s+", " ", re.sub(r".\x08", "", text))


def test_every_option_of_the_configuration_is_described(program, pages):
    text = shown(pages / "martlet.conf.5")
    options = [json.loads(line) for line in run(program, "options", "--json").stdout.splitlines()]
    assert len(options) > 150
    for option in options:
        name = option["name"] + ("NAME" if option["name"].endswith("_") else "")
        entry = f"{name} {option['shape']} {option['summary']}"
        assert re.sub(r"[\s`]+", " ", entry) in text, name


def commands(described: dict, *names: str):
    yield names, described
    for command in described.get("subcommands", []):
        if command["commandName"] not in ("help", "serve"):
            yield from commands(command, *names, command["commandName"])


def test_every_command_and_its_options_are_described(program, pages):
    def described(*names: str) -> dict:
        return json.loads(run(program, *names, "--help-json").stdout)["command"]

    top = described()
    found = [((), {**top, "subcommands": []})]
    for command in top["subcommands"]:
        if (name := command["commandName"]) not in ("help", "serve"):
            found += commands(described(name), name)
    assert (("store", "check")) in [names for names, _ in found]
    for names, command in found:
        text = shown(pages / ("-".join(["martlet", *names[:1]]) + ".1"))
        for argument in command["arguments"]:
            for name in argument["names"]:
                written = ("-" if name["kind"] == "short" else "--") + name["name"]
                assert re.search(rf"(?<![-\w]){re.escape(written)}(?![-\w])", text), f"{' '.join(names)} {written}"
            assert re.sub(r"[\s`]+", " ", argument.get("abstract", "")) in text


def test_every_signal_is_described(pages):
    text = shown(pages / "martlet.1")
    for name in ["INT, TERM", "HUP", "USR1", "USR2", "RTMIN"]:
        assert f" {name} " in text


def test_the_pages_are_clean(pages):
    if not shutil.which("mandoc"):
        pytest.skip("there is no mandoc here")
    found = sorted(path for path in pages.iterdir() if path.name != "done")
    assert len(found) >= 7
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *found], stdout=subprocess.PIPE, text=True)
    # The references to pages that are not installed here.
    complaints = [line for line in done.stdout.splitlines() if "referenced manual not found" not in line]
    assert complaints == []


class Reader(html.parser.HTMLParser):
    """A page's tags, which have to end where they should, with its places and links."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.places: set[str] = set()
        self.links: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]):
        if tag != "meta":
            self.open.append(tag)
        self.places |= {value for name, value in attrs if name == "id"}
        self.links += [value for name, value in attrs if name == "href"]

    def handle_endtag(self, tag: str):
        assert self.open.pop() == tag, self.getpos()


def test_the_operator_s_pages_are_whole_and_their_links_lead_somewhere(tmp_path):
    subprocess.run([REPOSITORY / "config/packaging/pages", tmp_path], check=True)
    pages = {path.name: Reader(path.read_text()) for path in (tmp_path / "html").iterdir()}
    assert len(pages) >= 8
    for name, page in pages.items():
        for link in page.links:
            target, _, place = link.partition("#")
            if not link.startswith(("http", "../")):
                assert target in pages and (not place or place in pages[target].places), f"{name}: {link}"
        text = (tmp_path / "html" / name).read_text()
        assert not re.search(r"<doc:|``|[\ue000-\ue002]|\*\*", re.sub(r"<(pre|code)>.*?</\1>", "", text, flags=re.DOTALL)), name

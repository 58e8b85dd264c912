"""Martlet's client library as a stranger uses it: packages of their own that depend on a version of it, and what the documentation says they print."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness.broker import REPOSITORY

ARTICLES = {
    "GettingStarted": "GettingStarted", "Connecting": "Connecting", "RequestLayer": "RequestLayer", "DeclaredEndpoints": "Endpoints",
    "MessageStreams": "Streams", "CallsAndCollections": "CallsAndCollections", "OfflineMessenger": "OfflineMessenger", "Reliability": "Reliability", "Testing": "Testing",
    "SharingWork": "SharingWork", "Errors": "Errors", "Services": "Services",
}  # fmt: skip
NEED_TRAITS = {"Services"}
LIBRARIES = {"MartletClient": "", "MartletClientJSON": "", "MartletTesting": "", "MartletClientServices": "Logging ServiceLifecycle Tracing"}
CATALOG = REPOSITORY / "Sources/MartletClient/MartletClient.docc"
EXAMPLES = REPOSITORY / "Tests/Examples"
ALL_TRAITS = "Logging,Metrics,Tracing,ServiceLifecycle"
# Compiling the library, with all else that runs on the machine.
BUILD_SECONDS = 1500

pytestmark = pytest.mark.martlet("the library is Martlet's")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def article(name: str) -> str:
    return (CATALOG / f"{name}.md").read_text()


def doc_comments(library: str) -> list[tuple[str, str]]:
    """The Swift code of a library's doc comments, each with its place: file and line."""
    found = []
    for file in sorted((REPOSITORY / "Sources" / library).rglob("*.swift")):
        text = file.read_text()
        for block in re.finditer(r"^ */// ```swift\n((?: *///.*\n)*?) */// ```\n", text, re.MULTILINE):
            line = text[: block.start(1)].count("\n") + 1
            found.append((f"{file.relative_to(REPOSITORY)}:{line}", re.sub(r"^ */// ?", "", block[1], flags=re.MULTILINE)))
    return found


def compilable(number: int, place: str, code: str, imports: list[str]) -> str:
    """A file with the code of a doc comment: its types in one of its own, its statements in a function there, its extensions beside it."""
    code = re.sub(r"@Test(?:\(.*?\))? func", "func", code).replace("#expect(", "precondition(").replace("{ … }", "{ fatalError() }")
    types, extensions, statements = [], [], []
    # What begins at the margin goes to where it may stand, with what is indented below it and its closing brace.
    for piece in re.findall(r"^\S.*\n(?:(?:[ }].*)?\n)*", code, re.MULTILINE):
        is_type = re.match(r"(?:@\w+ |final |private )*(?:struct|class|enum|actor) ", piece)
        (extensions if piece.startswith("extension ") else types if is_type else statements).append(piece)
    return "".join(
        [f"import {name}\n" for name in imports] + [f"// {place}\n"] + extensions
        + [f"enum Example{number} {{\n"] + types + ["@MainActor static func run() async throws {\n"] + statements + ["}\n}\n"]
    )  # fmt: skip


def git(place: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"]
    subprocess.run(["git", "-C", place, *identity, *arguments], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def martlet(tmp_path_factory) -> Path:
    """A repository with the working tree, in a version 1.0.0."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("this is no checkout, which could say what belongs to it")
    place = tmp_path_factory.mktemp("stranger") / "martlet"
    said = subprocess.run(
        ["git", "-C", REPOSITORY, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    for name in filter(None, said.split("\0")):
        source, target = REPOSITORY / name, place / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    git(place, "init", "--quiet")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message", "a version")
    git(place, "tag", "1.0.0")
    return place


def build(place: Path, scratch: Path, **environment: str) -> Path:
    """Compiles a package and returns where its programs are."""
    said = subprocess.run(
        ["swift", "build", "--package-path", place, "--scratch-path", scratch], env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUILD_SECONDS,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout[-8000:]
    # A dependency of a trait that is off is not fetched.
    if not environment.get("MARTLET_TRAITS"):
        assert not (scratch / "checkouts").exists() or not os.listdir(scratch / "checkouts")
    return scratch / "debug"


def scratch(martlet: Path) -> Path:
    """Where all packages here are compiled: the library of the checkout, which two have in common, only once."""
    return martlet.with_name("build")


def output(program: Path, *arguments: str) -> str:
    """What a program prints. What it stores is beside it."""
    said = subprocess.run(
        [program, *arguments], cwd=program.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=50
    )
    assert said.returncode == 0, said.stdout
    return said.stdout


@pytest.mark.parametrize("name", ARTICLES)
def test_the_code_of_each_article_is_that_of_its_example(name):
    code = (EXAMPLES / "Sources" / ARTICLES[name] / "main.swift").read_text()
    for block in blocks(article(name), "swift"):
        assert block in code, f"{name}: not in the example:\n{block}"


def test_each_article_names_its_program_and_each_program_has_its_article():
    for name, program in ARTICLES.items():
        assert f"`Tests/Examples/Sources/{program}`" in article(name), name
    programs = {path.parent.name for path in EXAMPLES.glob("Sources/*/main.swift")}
    assert programs == set(ARTICLES.values())
    # What is no article of a program is the page that all begin with.
    assert {path.stem for path in CATALOG.glob("*.md")} == {*ARTICLES, "MartletClient"}


@pytest.mark.timeout(BUILD_SECONDS + 300)
def test_the_quick_start_of_the_library_in_a_clean_folder(martlet, start_broker):
    section = (REPOSITORY / "README.md").read_text().split("\n## In a Swift program\n")[1].split("\n## ")[0]
    manifest, program = blocks(section, "swift")
    place = martlet.with_name("hello")
    (place / "Sources/hello").mkdir(parents=True)
    (place / "Package.swift").write_text(manifest)
    broker = start_broker()
    # The one thing that is changed: the port, which is not free here.
    assert '"mqtt://127.0.0.1"' in program
    (place / "Sources/hello/main.swift").write_text(program.replace("mqtt://127.0.0.1", f"mqtt://127.0.0.1:{broker.port}"))
    assert output(build(place, scratch(martlet)) / "hello") == blocks(section, "text")[0]


def write_doc_comments(place: Path, with_services: bool) -> None:
    number = 0
    for library, needed in LIBRARIES.items():
        if needed and not with_services:
            continue
        for where, code in doc_comments(library):
            number += 1
            imports = ["Observation", "MartletClient", "MartletClientJSON", "MartletTesting", "MartletClientServices", *needed.split()]
            (place / f"Example{number}.swift").write_text(compilable(number, where, code, imports))
    if with_services:
        (place / "Services.swift").write_text(
            "import Logging\nimport ServiceLifecycle\n"
            'let logger = Logger(label: "example")\nstruct Heating: Service { func run() async throws {} }\nlet heating = Heating()\n'
        )


def test_every_code_of_a_doc_comment_is_found():
    for library in LIBRARIES:
        said = sum(file.read_text().count("/// ```swift\n") for file in (REPOSITORY / "Sources" / library).rglob("*.swift"))
        assert len(doc_comments(library)) == said, library


with_all_traits = pytest.param(
    ALL_TRAITS, id="of a version, with all traits",
    marks=pytest.mark.skipif("MARTLET_ALL_TRAITS" not in os.environ, reason="compiles for a minute: make nightly does it"),
)  # fmt: skip


@pytest.mark.timeout(BUILD_SECONDS + 300)
@pytest.mark.parametrize("traits", [pytest.param("", id="of a checkout, without traits"), with_all_traits])
def test_each_example_prints_what_its_article_says(martlet, start_broker, traits):
    # As deep beside the checkout as its manifest says.
    place = martlet.with_name("with" if traits else "without") / "traits" / "Examples"
    shutil.copytree(EXAMPLES, place, ignore=shutil.ignore_patterns(".build", "Package.resolved"))
    write_doc_comments(place / "Sources/DocComments", with_services=bool(traits))
    version = {"MARTLET_URL": f"file://{martlet}", "MARTLET_TRAITS": traits} if traits else {}
    programs = build(place, scratch(martlet), **version)
    broker = start_broker()
    for name, example in ARTICLES.items():
        if example in NEED_TRAITS and not traits:
            continue
        assert output(programs / example, f"mqtt://127.0.0.1:{broker.port}") == blocks(article(name), "text")[-1], name

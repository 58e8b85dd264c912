"""The steps of docker/Dockerfile without a Docker daemon.

What the stage `build` makes is there already: the broker under test. The stage `tree` runs in a chroot of the same Debian release, whose
packages are installed already, so that its apt-get finds nothing to do. The last stage starts from nothing: it is a directory, and what the
instructions say about running it is left to the container.
"""

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from harness.broker import REPOSITORY

from packages.machine import Machine

DOCKERFILE = REPOSITORY / "docker/Dockerfile"


@dataclass
class Image:
    """The last stage: its files and how it is run."""

    tree: Path
    entry_point: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health_check: list[str] = field(default_factory=list)
    user: str = ""
    working_directory: str = "/"
    volumes: list[str] = field(default_factory=list)
    environment: list[str] = field(default_factory=list)


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE))
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for instruction in instructions():
        if instruction[0] == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


def build(program, machine: Machine, directory: Path) -> Image:
    build_stage, tree_stage, last_stage = stages()
    source = _run_build_stage(build_stage, program, directory)
    assert tree_stage[0][1].startswith("debian:bookworm")
    for name, arguments in tree_stage[1:]:
        if name == "RUN":
            machine.run("sh", "-c", arguments)
        elif name == "COPY":
            *files, target = shlex.split(arguments)
            root = REPOSITORY
            if files[0] == "--from=build":
                files, root = [files[1].removeprefix("/source/")], source
            for file in files:
                _copy(root / file, machine.root / target.lstrip("/"), into=target.endswith("/"))
        else:
            raise AssertionError(f"no test knows what {name} does in the stage tree")
    return _read_last_stage(last_stage, machine)


def _run_build_stage(stage: list[tuple[str, str]], program, directory: Path) -> Path:
    """The directory /source, as far as it holds the broker; the compiler's part is done."""
    source = directory / "source"
    _copy(Path(program.path), source / ".build/release/martlet")
    for name, arguments in stage:
        if name == "RUN" and arguments.startswith("strip "):
            subprocess.run(["sh", "-c", arguments], cwd=source, check=True)
    return source


def _read_last_stage(stage: list[tuple[str, str]], machine: Machine) -> Image:
    assert stage[0][1] == "scratch"
    image = Image(tree=machine.root / "tree")
    for name, arguments in stage[1:]:
        match name:
            case "COPY":
                assert arguments == "--from=tree /tree /"
            case "ENTRYPOINT":
                image.entry_point = json.loads(arguments)
            case "CMD":
                image.command = json.loads(arguments)
            case "HEALTHCHECK":
                image.health_check = json.loads(arguments.partition(" CMD ")[2])
            case "USER":
                image.user = arguments
            case "WORKDIR":
                image.working_directory = arguments
            case "VOLUME":
                image.volumes.append(arguments)
            case "ENV":
                image.environment.append(arguments)
            case "EXPOSE":
                pass
            case _:
                raise AssertionError(f"no test knows what {name} does in the last stage")
    return image


def _copy(file: Path, target: Path, into: bool = False):
    target = target / file.name if into else target
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)

"""What a release is made of: the workflow, and what compose starts."""

import re
import shutil
import subprocess

import pytest
import yaml
from harness.broker import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))


def test_the_release_builds_what_there_is():
    """Every target of make and every file that the workflow names is there; both machines get everything."""
    (workflow,) = [yaml.safe_load(path.read_text()) for path in WORKFLOWS if path.name == "release.yml"]
    # YAML takes the word `on` for a truth.
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    build, release = workflow["jobs"]["build"], workflow["jobs"]["release"]
    assert {row["architecture"] for row in build["strategy"]["matrix"]["include"]} == {"amd64", "arm64"} and release["needs"] == "build"
    lines = "\n".join(step.get("run", "") for job in (build, release) for step in job["steps"])
    targets = {target for line in re.findall(r"^make (.*)", lines, re.MULTILINE) for target in line.split()}
    makefile = (REPOSITORY / "Makefile").read_text()
    assert targets == {"build", "deb", "tarball", "image"} and all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    assert (REPOSITORY / "docker/image").exists() and "sha256sum" in lines
    base = re.search(r"^FROM (\S+) AS build", (REPOSITORY / "docker/Dockerfile").read_text(), re.MULTILINE)[1]
    assert build["container"] == base, "the package and both images are of one Debian"


def test_the_workflows_are_right():
    if not shutil.which("actionlint"):
        pytest.skip("there is no actionlint here")
    # The labels of machines are newer than some versions of it.
    done = subprocess.run(["actionlint", "-no-color", "-ignore", 'label "ubuntu-24.04', *WORKFLOWS], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout


def test_compose_shows_the_dashboard_and_keeps_to_this_machine():
    service = yaml.safe_load((REPOSITORY / "docker/compose.yaml").read_text())["services"]["martlet"]
    assert service["ports"] == ["127.0.0.1:1883:1883", "127.0.0.1:9883:9883"]
    assert set(service["environment"]) == {"MARTLET_USER", "MARTLET_PASSWORD"}
    dockerfile = (REPOSITORY / "docker/Dockerfile").read_text()
    check = re.search(r"^HEALTHCHECK .* CMD (\[.*\])", dockerfile, re.MULTILINE)[1]
    assert service["healthcheck"]["test"] == ["CMD", *yaml.safe_load(check)]
    assert re.search(r"^EXPOSE 1883 9883$", dockerfile, re.MULTILINE)

"""What `make install` and the tarball put where."""

import filecmp
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from harness.broker import REPOSITORY


def identifier(binary: Path) -> str:
    """The build-id by which a debugger finds what was put apart."""
    notes = subprocess.run(["readelf", "--notes", binary], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"Build ID: (\w+)", notes)[1]


def sections(binary: Path) -> str:
    return subprocess.run(["readelf", "--sections", "--wide", binary], stdout=subprocess.PIPE, text=True, check=True).stdout


def install(program, destination: Path, **environment: str):
    subprocess.run(
        [REPOSITORY / "config/packaging/install"], check=True,
        env={**os.environ, "BINARY": program.path, "DESTDIR": str(destination), **environment},
    )  # fmt: skip


@pytest.fixture(scope="session")
def installed(program, once) -> Path:
    return once("installed", lambda directory: install(program, directory, PREFIX="/opt/martlet"))


def test_everything_is_in_its_place(installed):
    files = {str(path.relative_to(installed / "opt/martlet")) for path in installed.rglob("*") if path.is_file() and path.name != "done"}
    for file in [
        "bin/martlet", "etc/logrotate.d/martlet", "etc/martlet/conf.d/README", "etc/martlet/martlet.conf", "lib/systemd/system/martlet.service",
        "lib/systemd/system/martlet.socket", "lib/sysusers.d/martlet.conf", "lib/tmpfiles.d/martlet.conf", "share/bash-completion/completions/martlet",
        "share/doc/martlet/README.md", "share/doc/martlet/examples/martlet.conf", "share/doc/martlet/examples/tls.conf",
        "share/doc/martlet/examples/cluster/hall-1/martlet.conf", "share/doc/martlet/monitoring/alerts.yml", "share/doc/martlet/monitoring/grafana.json",
        "share/doc/martlet/html/index.html", "share/doc/martlet/html/Bridges.html", "share/doc/martlet/html/Durability.html",
        "share/doc/martlet/html/OpenInternet.html", "share/doc/martlet/html/OperatingClusters.html", "share/man/man1/martlet-import-config.1",
        "share/man/man1/martlet.1", "share/man/man1/martlet-passwd.1", "share/man/man5/martlet.conf.5", "share/fish/vendor_completions.d/martlet.fish", "share/zsh/site-functions/_martlet",
    ]:  # fmt: skip
        assert file in files


@pytest.fixture
def debuggable(program, tmp_path) -> Path:
    """A program with debug information and a build-id that does what the broker does: `make build` makes none, packages have it."""
    source = tmp_path / "program.c"
    source.write_text(f'#include <unistd.h>\nint main(int count, char **words) {{ return execv("{program.path}", words); }}\n')
    binary = tmp_path / "program"
    subprocess.run(["cc", "-g", "-Wl,--build-id=sha1", "-o", binary, source], check=True)
    return binary


def test_debug_information_is_apart_and_found_by_its_build_id(debuggable, tmp_path):
    subprocess.run(
        [REPOSITORY / "config/packaging/install"], check=True,
        env={**os.environ, "BINARY": str(debuggable), "DESTDIR": str(tmp_path / "root"), "PREFIX": "/opt/martlet"},
    )  # fmt: skip
    binary = tmp_path / "root/opt/martlet/bin/martlet"
    name = identifier(binary)
    assert name == identifier(debuggable)
    apart = tmp_path / f"root/opt/martlet/lib/debug/.build-id/{name[:2]}/{name[2:]}.debug"
    assert ".debug_info" in sections(apart)
    assert ".debug_info" not in sections(binary) and ".symtab" not in sections(binary)


def test_a_binary_without_debug_information_is_stripped_alone(installed, program):
    binary = installed / "opt/martlet/bin/martlet"
    assert identifier(binary) == identifier(Path(program.path))
    assert ".symtab" not in sections(binary)
    assert (installed / "opt/martlet/lib/debug").exists() == (".debug_info" in sections(Path(program.path)))


def test_the_paths_in_the_files_are_those_of_the_installation(installed):
    unit = (installed / "opt/martlet/lib/systemd/system/martlet.service").read_text()
    assert "ExecStart=/opt/martlet/bin/martlet -c /opt/martlet/etc/martlet/martlet.conf\n" in unit
    assert "include_dir /opt/martlet/etc/martlet/conf.d" in (installed / "opt/martlet/etc/martlet/martlet.conf").read_text()


def test_the_completions_are_the_shells_own(installed):
    share = installed / "opt/martlet/share"
    subprocess.run(["bash", "-n", share / "bash-completion/completions/martlet"], check=True)
    for script in ["bash-completion/completions/martlet", "zsh/site-functions/_martlet", "fish/vendor_completions.d/martlet.fish"]:
        text = (share / script).read_text()
        assert "passwd" in text and "test-config" in text and "store" in text, script


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("martlet pas", "passwd"), ("martlet --test-c", "--test-config"), ("martlet store ch", "check"), ("martlet passwd -H sha512-", "sha512-pbkdf2"), ("martlet -c mart", "martlet.conf")],
)  # fmt: skip
def test_bash_completes(installed, tmp_path, typed, offered):
    (tmp_path / "martlet.conf").touch()
    script = f"""
        source {installed}/opt/martlet/share/bash-completion/completions/martlet
        COMP_LINE='{typed}' COMP_POINT={len(typed)} COMP_WORDS=({typed}) COMP_CWORD={len(typed.split()) - 1}
        _martlet martlet {typed.split()[-1]} {typed.split()[-2]}
        echo "${{COMPREPLY[*]}}"
    """
    assert subprocess.run(["bash", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True).stdout.strip() == offered


def test_a_configuration_that_is_there_stays(program, tmp_path):
    """Without DESTDIR, which packagers use, it is somebody's."""
    (tmp_path / "etc/martlet").mkdir(parents=True)
    (tmp_path / "etc/martlet/martlet.conf").write_text("listener 1884\n")
    install(program, "", PREFIX=str(tmp_path), STRIP="no")
    assert (tmp_path / "etc/martlet/martlet.conf").read_text() == "listener 1884\n"


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("systemd-sysusers"), reason="needs root and systemd's programs")
def test_what_it_says_to_type_makes_the_user_and_gives_it_the_directory(program, tmp_path):
    install(program, tmp_path, PREFIX="/usr", STRIP="no")
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", "martlet.conf"], check=True)
    user = (tmp_path / "etc/passwd").read_text().split(":")
    assert user[0] == "martlet" and user[5] == "/var/lib/martlet"
    subprocess.run(["systemd-tmpfiles", f"--root={tmp_path}", "--create", "martlet.conf"], check=True)
    place = (tmp_path / "etc/martlet").stat()
    assert (place.st_gid, place.st_mode & 0o7777) == (int(user[3]), 0o2755)


def test_debug_information_has_a_tarball_of_its_own(debuggable, tmp_path):
    subprocess.run([REPOSITORY / "config/packaging/tarball", debuggable, "1.0.0", tmp_path / "out"], check=True, stdout=subprocess.DEVNULL)
    (name,) = [path for path in (tmp_path / "out").iterdir() if "-debug" in path.name]
    with tarfile.open(name) as archive:
        assert any(member.name.endswith(".debug") for member in archive)


def test_the_same_binary_makes_the_same_tarball(program, tmp_path):
    for run in "ab":
        subprocess.run(
            [REPOSITORY / "config/packaging/tarball", program.path, "1.0.0", tmp_path / run], check=True, stdout=subprocess.DEVNULL,
            env={**os.environ, "GZIP_LEVEL": "1"},
        )  # fmt: skip
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(names) == (2 if ".debug_info" in sections(Path(program.path)) else 1)
    assert filecmp.cmpfiles(tmp_path / "a", tmp_path / "b", names, shallow=False)[0] == names
    name = next(name for name in names if "debug" not in name)
    with tarfile.open(tmp_path / "a" / name) as archive:
        archive.extractall(tmp_path / "out")
    top = tmp_path / "out" / name.removesuffix(".tar.gz")
    assert subprocess.run([top / "bin/martlet", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.startswith("martlet version ")
    said = (top / "INSTALL").read_text()
    assert "libssl.so.3" in said and re.search(r"GLIBC 2\.\d+$", said, re.MULTILINE), "it says what it needs"
    assert not (top / "lib/debug").exists()

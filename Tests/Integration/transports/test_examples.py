"""Every example configuration starts, with the files it names in place."""

import re

import pytest
from harness.broker import REPOSITORY
from harness.ports import reserve_port
from harness.program import run

EXAMPLES = sorted((REPOSITORY / "config/examples").glob("*.conf"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_starts(program, start_broker, authority, tmp_path, example):
    text = example.read_text()
    assert "listener" in text and text.startswith("#"), "an example explains itself"
    certificates = tmp_path / "etc/certs"
    certificates.parent.mkdir()
    certificates.symlink_to(authority.directory)
    (authority.directory / "clients-ca.crt").write_bytes(authority.certificate.read_bytes())
    (tmp_path / "etc/psk").write_text("sensor-7:0123456789abcdef\n")
    assert run(program, "passwd", "-c", "-b", str(tmp_path / "etc/users"), "anna", "secret").returncode == 0
    # The rules are those that the example shows.
    rules = text.partition("in a file such as this:")[2].partition("acl_file")[0]
    (tmp_path / "etc/rules").write_text("\n".join(line.removeprefix("#   ") for line in rules.splitlines()))
    text = text.replace("/etc/martlet", str(tmp_path / "etc")).replace("/run/martlet", str(tmp_path))
    text = re.sub(r"^listener ([1-9]\d*)", lambda line: f"listener {reserve_port()}", text, flags=re.MULTILINE)
    # One more listener, which the test waits for.
    broker = start_broker(configuration=f"{text}\nlistener {{port}} 127.0.0.1\nlistener_allow_anonymous true", listener=False)
    assert not re.search("Warning: (?!The broker should not be run as root)", broker.log), broker.log

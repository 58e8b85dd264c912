"""Every example configuration starts, with the files it names in place."""

import re

import pytest
from harness.broker import REPOSITORY
from harness.ports import reserve_port

EXAMPLES = sorted((REPOSITORY / "config/examples").glob("*.conf"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_starts(start_broker, authority, tmp_path, example):
    text = example.read_text()
    assert "listener" in text and text.startswith("#"), "an example explains itself"
    certificates = tmp_path / "etc/certs"
    certificates.parent.mkdir()
    certificates.symlink_to(authority.directory)
    (authority.directory / "clients-ca.crt").write_bytes(authority.certificate.read_bytes())
    (tmp_path / "etc/psk").write_text("sensor-7:0123456789abcdef\n")
    text = text.replace("/etc/martlet", str(tmp_path / "etc")).replace("/run/martlet", str(tmp_path))
    text = re.sub(r"^listener ([1-9]\d*)", lambda line: f"listener {reserve_port()}", text, flags=re.MULTILINE)
    # One more listener, which the test waits for.
    start_broker(configuration=f"{text}\nlistener {{port}} 127.0.0.1", listener=False)

"""Client certificates that are renewed while a client runs."""

import os

import pytest
from harness.ports import reserve_port


@pytest.fixture
def start_secure(start_server, authority):
    """A broker that wants certificates, and says whose it has seen."""

    def start():
        port = reserve_port()
        directory = authority.directory
        broker = start_server(
            f"log_type all\nlistener {port} 127.0.0.1\ncafile {authority.certificate}\ncertfile {directory}/server.crt\nkeyfile {directory}/server.key\n"
            "require_certificate true\nuse_identity_as_username true\nallow_anonymous false"
        )  # fmt: skip
        return broker, port

    return start


def test_a_renewed_certificate_is_shown_at_the_next_connection(commands, start_secure, authority):
    for name in ("anna", "berta"):
        authority.issue(name, f"/CN={name}")
    mine = authority.directory / "mine"
    for kind in ("crt", "key"):
        mine.with_suffix(f".{kind}").write_bytes((authority.directory / f"anna.{kind}").read_bytes())
    broker, port = start_secure()
    commands.start(
        "sub", "-h", "localhost", "-p", port, "--cafile", authority.certificate, "--cert", mine.with_suffix(".crt"), "--key", mine.with_suffix(".key"),
        "-t", "a", "-i", "display",
    )  # fmt: skip
    broker.wait_for_log(r"display.*anna")
    # As programs that renew do: each file is exchanged at once, one after the other.
    for kind in ("crt", "key"):
        fresh = mine.with_suffix(f".{kind}.new")
        fresh.write_bytes((authority.directory / f"berta.{kind}").read_bytes())
        os.replace(fresh, mine.with_suffix(f".{kind}"))
    broker.kill()
    broker.restart()
    broker.wait_for_log(r"display.*berta")

"""TLS with keys that both sides have before, from psk_file."""

import signal
import subprocess

import pytest

LISTENER = "listener {port} 127.0.0.1\nallow_anonymous true\npsk_hint martlet\npsk_file {directory}/keys\n"


def publish(broker, identity: str, key: str) -> bool:
    done = subprocess.run(
        ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(broker.port), "--psk", key, "--psk-identity", identity, "-q", "1",
         "-t", "topic", "-m", "x", "-i", "client"],
        capture_output=True, timeout=20,
    )  # fmt: skip
    return done.returncode == 0


@pytest.fixture
def psk_broker(start_broker, tmp_path):
    (tmp_path / "keys").write_text("# ours\nanna:00112233\nbob:aabbccdd\n")
    return start_broker(configuration=LISTENER + "use_identity_as_username true", listener=False)


def test_who_has_the_key_gets_in_under_the_identity(psk_broker):
    assert publish(psk_broker, "anna", "00112233")
    psk_broker.wait_for_log("u'anna'")
    assert publish(psk_broker, "bob", "aabbccdd")
    assert not publish(psk_broker, "anna", "aabbccdd")
    assert not publish(psk_broker, "carl", "00112233")


@pytest.mark.martlet("says in its log when the reload is done")
def test_a_reload_exchanges_the_keys(psk_broker, tmp_path):
    (tmp_path / "keys").write_text("anna:44556677\n")
    psk_broker.signal(signal.SIGHUP)
    psk_broker.wait_for_log("Config reloaded")
    assert publish(psk_broker, "anna", "44556677")
    assert not publish(psk_broker, "anna", "00112233")
    assert not publish(psk_broker, "bob", "aabbccdd")

"""What operators keep an eye on: certificates' ends, what signals have changed, files that move."""

import json
import signal
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import pytest
from harness.ports import reserve_port
from harness.waiting import wait_until

pytestmark = pytest.mark.martlet("2.0 has no HTTP")

RULES = Path(__file__).resolve().parents[3] / "config" / "monitoring" / "alerts.yml"


def end_of(certificate: Path) -> float:
    """When a certificate ends, in seconds since 1970, as openssl tells it."""
    line = subprocess.run(["openssl", "x509", "-in", certificate, "-noout", "-enddate"], check=True, capture_output=True, text=True).stdout
    return datetime.strptime(line.strip(), "notAfter=%b %d %H:%M:%S %Y %Z").replace(tzinfo=timezone.utc).timestamp()


def test_the_ends_of_certificates_are_told_and_read_again(site, authority):
    certificate = authority.issue("server", "/O=House/CN=localhost", days=20)
    port = reserve_port()
    served = site(
        "allow_anonymous true\n",
        configuration=f"martlet_metrics_anonymous true\nlistener {port} 127.0.0.1\ncertfile {certificate}\nkeyfile {certificate.with_suffix('.key')}\n",
    )

    def told() -> float:
        line = next(line for line in served.ask("/metrics").body.decode().splitlines() if line.startswith("martlet_certificate_not_after_seconds{"))
        assert f'name="{certificate}"' in line and 'listener="listener' in line
        return float(line.split()[-1])

    assert told() == end_of(certificate)
    authority.issue("server", days=40)
    served.broker.signal(signal.SIGHUP)
    served.broker.wait_for_log("Config reloaded")
    assert told() == end_of(certificate)
    assert subprocess.run(["openssl", "x509", "-checkend", str(35 * 86400), "-in", certificate]).returncode == 0


def test_the_alert_rings_two_weeks_before_a_certificate_ends(tmp_path):
    """The rule, with the metric as the broker writes it: at the day 0 it ends on day 20."""
    series = 'martlet_certificate_not_after_seconds{listener="listener 8883", name="/etc/martlet/server.crt", instance="house", job="martlet"}'
    text = "The certificate /etc/martlet/server.crt of listener 8883 ends in less than 14 days."
    rings = [{"exp_labels": {"severity": "warning", "listener": "listener 8883", "name": "/etc/martlet/server.crt", "instance": "house", "job": "martlet"},
              "exp_annotations": {"summary": text}}]  # fmt: skip
    case = {
        "rule_files": [str(RULES)], "evaluation_interval": "1h",
        "tests": [{
            "interval": "1h", "input_series": [{"series": series, "values": f"{20 * 86400}x{24 * 8}"}],
            "alert_rule_test": [{"eval_time": day, "alertname": "MartletCertificateEnds", "exp_alerts": alerts} for day, alerts in [("5d", []), ("7d", rings)]],
        }],
    }  # fmt: skip
    (tmp_path / "case.yml").write_text(json.dumps(case))
    tried = subprocess.run(["promtool", "test", "rules", str(tmp_path / "case.yml")], text=True, capture_output=True)
    assert tried.returncode == 0, tried.stdout + tried.stderr


@pytest.mark.parametrize("has_http", [True, False])
def test_what_signals_change_stands_in_the_audit(start_broker, tmp_path, has_http):
    http = f"listener {reserve_port()} 127.0.0.1\nprotocol http_api\n" if has_http else ""
    broker = start_broker(configuration=f"martlet_audit_log {{directory}}/audit\npersistence true\npersistence_location {{directory}}\n{http}")
    audit = broker.directory / "audit"

    def entries() -> list[tuple]:
        lines = [json.loads(line) for line in audit.read_text().splitlines()] if audit.exists() else []
        return [(entry["from"], entry["operation"], entry["target"], entry["status"]) for entry in lines]

    expected = [("signal", "reloadConfig", "SIGHUP", 200), ("signal", "save", "SIGUSR1", 200)]
    broker.signal(signal.SIGHUP)
    wait_until(lambda: entries() == expected[:1], "the reload stands in the audit")
    broker.signal(signal.SIGUSR1)
    wait_until(lambda: entries() == expected, "the save stands in the audit")
    # Moved away, as logrotate does it.
    audit.rename(broker.directory / "audit.1")
    broker.signal(signal.SIGRTMIN)
    wait_until(lambda: entries() == [("signal", "reopenLogs", "SIGRTMIN", 200)], "the file is opened anew")
    broker.stop()
    assert entries()[-1] == ("signal", "stop", "SIGTERM or SIGINT", 200)


def test_the_directory_of_files_is_another_after_a_reload(site, tmp_path):
    for name in ["one", "two"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.txt").write_text(name)
    served = site(f"http_dir {tmp_path / 'one'}")
    assert served.ask("/file.txt").body == b"one"
    configuration = served.broker.configuration_path
    configuration.write_text(configuration.read_text().replace(str(tmp_path / "one"), str(tmp_path / "two")))
    served.broker.signal(signal.SIGHUP)
    served.broker.wait_for_log("Config reloaded")
    assert served.ask("/file.txt").body == b"two"

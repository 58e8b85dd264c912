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


def series(name: str, values: str, /, **labels: str) -> dict:
    pairs = ", ".join(f'{key}="{value}"' for key, value in {"job": "martlet", **labels}.items())
    return {"series": f"{name}{{{pairs}}}", "values": values}


def ring(directory: Path, given: list[dict], expected: list[tuple[str, str, list[dict]]], interval: str = "1m"):
    """That the alerts ring at these times, and only then, as promtool tells by the series that are given."""
    rules = [{"eval_time": time, "alertname": name, "exp_alerts": alerts} for time, name, alerts in expected]
    case = {"rule_files": [str(RULES)], "evaluation_interval": interval,
            "tests": [{"interval": interval, "input_series": given, "alert_rule_test": rules}]}  # fmt: skip
    (directory / "case.yml").write_text(json.dumps(case))
    tried = subprocess.run(["promtool", "test", "rules", str(directory / "case.yml")], text=True, capture_output=True)
    assert tried.returncode == 0, tried.stdout + tried.stderr


def end_of(certificate: Path) -> float:
    """When a certificate expires, in seconds since 1970, as openssl tells it."""
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
    labels = {"listener": "listener 8883", "name": "/etc/martlet/server.crt", "instance": "house"}
    rings = [{"exp_labels": {"severity": "warning", "job": "martlet", **labels},
              "exp_annotations": {"summary": "The certificate /etc/martlet/server.crt of listener 8883 ends in less than 14 days."}}]  # fmt: skip
    given = [series("martlet_certificate_not_after_seconds", f"{20 * 86400}x{24 * 8}", **labels)]
    ring(tmp_path, given, [("5d", "MartletCertificateEnds", []), ("7d", "MartletCertificateEnds", rings)], interval="1h")


def test_the_alerts_ring_for_a_disk_and_a_table_of_files_that_are_nearly_full(tmp_path):
    """b's disk fills up by minute 10; c opens 950 of its 1,000 files."""
    given = [
        series("martlet_store_free_bytes", "9000000000x30", instance="a"), series("martlet_store_free_bytes", "9000000000x9 900000000x30", instance="b"),
        *(series("process_max_fds", "1000x30", instance=instance) for instance in "bc"),
        series("process_open_fds", "20x30", instance="b"), series("process_open_fds", "20x9 950x30", instance="c"),
    ]
    disk = {"exp_labels": {"severity": "warning", "job": "martlet", "instance": "b"},
            "exp_annotations": {"summary": "Less than 1 GiB is free where the store of b is."}}
    files = {"exp_labels": {"severity": "warning", "job": "martlet", "instance": "c"},
             "exp_annotations": {"summary": "c has nine in ten of the files open that it may: soon nobody can connect."}}
    ring(tmp_path, given, [("9m", "MartletDiskNearlyFull", []), ("20m", "MartletDiskNearlyFull", [disk]),
                           ("9m", "MartletFilesNearlyOut", []), ("20m", "MartletFilesNearlyOut", [files])])  # fmt: skip


def test_the_alerts_ring_for_bridges_that_are_down_or_behind(tmp_path):
    """b tries in vain from minute 10 on, c rests as it was told to, d is connected and does not get ahead."""
    def of(name: str, values: str, /, **labels: str) -> dict:
        return series(name, values, instance="house", **labels)

    given = [
        of("martlet_bridge_state", "0x10 1 0 1 0 1 0 1 0 1 0 1 0 1", bridge="b", state="waiting"),
        of("martlet_bridge_state", "0x10 0 1 0 1 0 1 0 1 0 1 0 1 0", bridge="b", state="connecting"),
        of("martlet_bridge_state", "1x30", bridge="c", state="paused"), of("martlet_bridge_state", "0x30", bridge="c", state="waiting"),
        *(of("martlet_bridge_up", f"{up}x30", bridge=bridge) for bridge, up in [("b", 0), ("c", 0), ("d", 1)]),
        *(of("martlet_bridge_lag_seconds", "61x30", bridge=bridge) for bridge in "bcd"),
    ]
    down = {"exp_labels": {"severity": "warning", "instance": "house", "bridge": "b"},
            "exp_annotations": {"summary": "The bridge b of house is not connected; what is to cross it waits."}}
    behind = {"exp_labels": {"severity": "warning", "bridge": "d", "instance": "house", "job": "martlet"},
              "exp_annotations": {"summary": "The bridge d of house is connected, and more than a minute behind."}}
    ring(tmp_path, given, [("14m", "MartletBridgeDown", []), ("17m", "MartletBridgeDown", [down]),
                           ("4m", "MartletBridgeBehind", []), ("6m", "MartletBridgeBehind", [behind])])  # fmt: skip


def test_the_alerts_ring_for_a_cluster_that_lacks_a_node_or_carries_nothing(tmp_path):
    """c goes in minute 10, as a and b see; then b carries nothing."""
    given = [
        *(series("martlet_cluster_nodes", "3x9 2x40", cluster="plant", instance=instance, state="up") for instance in "ab"),
        series("martlet_cluster_up", "1x60", cluster="plant", instance="a"), series("martlet_cluster_up", "1x9 0x40", cluster="plant", instance="b"),
    ]
    gone = {"exp_labels": {"severity": "warning", "cluster": "plant"},
            "exp_annotations": {"summary": "The cluster plant has fewer nodes than a quarter of an hour ago."}}
    silent = {"exp_labels": {"severity": "critical", "cluster": "plant", "instance": "b", "job": "martlet"},
              "exp_annotations": {"summary": "b carries nothing to the other nodes of plant, or not all; /readyz?verbose says why."}}
    ring(tmp_path, given, [("9m", "MartletClusterNodeGone", []), ("12m", "MartletClusterNodeGone", [gone]), ("30m", "MartletClusterNodeGone", []),
                           ("9m", "MartletClusterNotCarrying", []), ("12m", "MartletClusterNotCarrying", [silent])])  # fmt: skip


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

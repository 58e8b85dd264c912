"""Alarms, each by what really causes it: raised, told of everywhere, acknowledged, and cleared."""

import json
import subprocess

import pytest
from harness.commands import run
from harness.dashboard import IS_HERE
from harness.ports import reserve_port
from harness.waiting import wait_until
from selenium.webdriver.common.by import By

pytestmark = [pytest.mark.martlet("has no alarms"), pytest.mark.timeout(240)]

#: An alarm about a bridge takes ten seconds to be raised, and ten to be cleared.
SECONDS = 60


@pytest.fixture
def alarmed(start_broker, program, tmp_path):
    """Starts a broker that this process administers over its socket; gives it, and a function that does `martlet ctl`."""

    def start(configuration: str = ""):
        place = tmp_path / "http.sock"
        broker = start_broker(configuration=f"sys_interval 1\nlistener 0 {place}\nprotocol http_api\n{configuration}\n")

        def ctl(*words: str, code: int = 0) -> str:
            done = run(program.path, "ctl", *words, "--socket", place)
            assert done.code == code, done.output.decode() + done.complaints
            return done.output.decode() + done.complaints

        return broker, ctl

    return start


def rows(ctl, *words: str) -> list[dict]:
    return [row for line in ctl("alarms", *words, "--json").splitlines() for row in json.loads(line)["data"]]


def await_alarm(ctl, name: str) -> dict:
    def find():
        return next((row for row in rows(ctl) if row["name"] == name), None)

    wait_until(lambda: find() is not None, f"{name} is raised", seconds=SECONDS)
    return find()


def test_a_bridge_that_is_down_is_told_of_until_it_is_connected(alarmed, start_broker, tools_for):
    port = reserve_port()
    broker, ctl = alarmed(f"connection site\naddress 127.0.0.1:{port}\ntopic # out\nrestart_timeout 1 2\n")
    assert ctl("alarms") == "No alarms are active.\n"
    counts = tools_for(broker.port).subscribe("$SYS/broker/alarms/bridge_down")
    assert counts.take_one().payload == b"0"
    row = await_alarm(ctl, "bridge_down")
    assert (row["of"], row["severity"], row["cleared_at"]) == ("site", "warning", None)
    assert "Connection refused" in row["message"] and str(port) in row["message"]
    assert counts.take_one().payload == b"1"
    broker.wait_for_log("Warning: Alarm 1 raised: bridge_down site: The bridge is not connected")
    assert "1 active: martlet ctl alarms" in ctl("status")
    assert "Alarm 1 (bridge_down) is acknowledged by " in ctl("alarms", "ack", "1")
    assert "There is no such alarm" in ctl("alarms", "ack", "7", code=4)

    start_broker(configuration=f"listener {port} 127.0.0.1\n")
    wait_until(lambda: not rows(ctl), "it is cleared", seconds=SECONDS)
    assert counts.take_one().payload == b"0"
    (past,) = rows(ctl, "history")
    assert past["cleared_at"] and past["acknowledged_by"] and rows(ctl, "all") == [past]
    assert "bridge_down" in ctl("alarms", "history")
    broker.wait_for_log("Alarm 1 cleared: bridge_down site, after")


def test_a_certificate_that_ends_tomorrow(alarmed, authority):
    authority.issue("soon", days=1)
    authority.issue("late", days=60)
    soon, late = reserve_port(), reserve_port()
    _, ctl = alarmed("".join(
        f"listener {port} 127.0.0.1\ncertfile {authority.directory}/{name}.crt\nkeyfile {authority.directory}/{name}.key\n" for port, name in [(soon, "soon"), (late, "late")]))
    row = await_alarm(ctl, "certificate_ends_soon")
    assert str(soon) in row["of"] and "soon.crt" in row["message"] and len(rows(ctl)) == 1


def test_memory_and_queues_that_are_full(alarmed, tools_for):
    broker, ctl = alarmed("memory_limit 60000000\nmax_queued_messages 3\n")
    tools = tools_for(broker.port)
    tools.start("mosquitto_sub", "-c", "-q", "1", "-i", "away", "-t", "queue", "-E").wait()
    for _ in range(5):
        tools.publish("queue", "x", qos=1)
    assert await_alarm(ctl, "queues_full")["severity"] == "critical"
    payload = bytes(1_500_000)
    for number in range(60):
        subprocess.run(["mosquitto_pub", "-p", str(broker.port), "-t", f"large/{number}", "-r", "-s"], input=payload, stderr=subprocess.DEVNULL)
        if any(row["name"] == "memory_full" for row in rows(ctl)):
            break
    assert "memory_limit" in await_alarm(ctl, "memory_high")["message"]


@pytest.mark.skipif(not IS_HERE, reason="there is no chromium here, or no chromedriver")
def test_the_page_shows_them_and_the_menu_counts_them(dashboard):
    """The dashboard's broker has a bridge to a port where nobody listens."""
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.open("alarms")
    # A table that is shown anew takes what was found of it away.
    wait_until(lambda: "bridge_down" in dashboard.text(), "the alarm is on the page", seconds=SECONDS)
    wait_until(lambda: dashboard.browser.find_elements(By.CSS_SELECTOR, "#pages [data-name=alarms] .badge"), "the menu counts it", seconds=SECONDS)
    dashboard.press("Acknowledge")
    wait_until(lambda: "by admin" in dashboard.text(), "it is acknowledged", seconds=SECONDS)
    assert not dashboard.browser.find_elements(By.XPATH, "//button[text()='Acknowledge']")
    assert dashboard.complaints() == []

"""The dashboard in headless Chromium: every page, every action, what readers of WCAG would say, and that nothing leaves the broker."""

from pathlib import Path
from urllib.parse import quote

import pytest
from harness.broker import REPOSITORY
from harness.waiting import wait_until
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

HOSTILE = "<img src=x onerror=alert(1)>"
PAGES = ["", "clients", f"clients/{quote(HOSTILE, safe='')}", "topics?matches=plant/3/temp", "retained", "trouble", "trace", "log", "publish", "bans", "access", "users", "listeners", "bridges", "bridges/site", "configuration", "audit"]
CHECKS = Path(__file__).with_name("audit.js").read_text()
#: Where the pictures go, for people to look at.
PICTURES = REPOSITORY / ".build/dashboard"

pytestmark = [
    pytest.mark.martlet("2.0 has no dashboard"),
    pytest.mark.timeout(240),
]


@pytest.fixture
def tools(dashboard, tools_for):
    return tools_for(dashboard.broker.port)


def fill(tools, count: int):
    """So many sessions, each with a message in its queue and a retained one beside it."""
    for number in range(count):
        tools.start("mosquitto_sub", "-c", "-q", "1", "-i", f"sensor-{number:03}", "-t", f"plant/{number}/#", "-E").wait()
    for number in range(count):
        tools.publish(f"plant/{number}/temp", f"{number}", qos=1, retain=True)


@pytest.mark.parametrize("count", [0, 50])
def test_every_page_is_quiet_and_has_nothing_to_object_to(dashboard, tools, count):
    fill(tools, count)
    tools.subscribe("plant/#", client_id=HOSTILE)
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.complaints()
    PICTURES.mkdir(parents=True, exist_ok=True)
    problems = []
    for scheme, width in [("light", 1360), ("dark", 320)]:
        dashboard.look(scheme, width)
        for page in PAGES:
            dashboard.open(page)
            wait_until(lambda: dashboard.browser.execute_script("return document.readyState") == "complete", "the page is there")
            problems += [f"{page} ({scheme}, {width}): {line}" for line in dashboard.browser.execute_script(CHECKS) + dashboard.complaints()]
            name = page.split("?")[0].split("/")[0] + ("-one" if "/" in page.split("?")[0] else "")
            dashboard.browser.save_screenshot(str(PICTURES / f"{name or 'overview'}-{count}-{scheme}.png"))
    assert problems == []


def test_the_checks_find_what_is_wrong(dashboard):
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_viewer")
    dashboard.browser.execute_script(
        "const main = document.querySelector('main'); main.style.color = '#aaa'; main.append(document.createElement('h1'));"
        "main.append(document.createElement('input')); console.error('loud');"
        "for (const id of ['twice', 'twice']) { const p = document.createElement('p'); p.id = id; main.append(p); }")
    found = " ".join(dashboard.browser.execute_script(CHECKS) + dashboard.complaints())
    for expected in ["1.4.3", "1.3.1 not one h1", "4.1.2", "a second #twice", "loud"]:
        assert expected in found


def test_names_are_text_and_not_markup(dashboard, tools):
    tools.subscribe("#", client_id=HOSTILE)
    dashboard.log_in("mrt_viewer")
    dashboard.open("clients")
    dashboard.see(HOSTILE)
    assert not dashboard.browser.find_elements(By.CSS_SELECTOR, "main img")


def test_an_administrator_acts(dashboard, tools):
    fill(tools, 3)
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.open("clients/sensor-001")
    dashboard.see("1 messages")
    dashboard.press("Empty queue")
    dashboard.confirm("Empty", "sensor-001")
    dashboard.see("Nothing waits for it.")
    dashboard.press("End session")
    dashboard.confirm("End the session", "sensor-001")
    dashboard.see("sensor-002")
    wait_until(lambda: "sensor-001" not in dashboard.text(), "the session is gone")
    dashboard.open("retained?filter=plant/2/%2B")
    dashboard.see("plant/2/temp")
    dashboard.press("Delete all that match")
    dashboard.confirm("Delete", "plant/2/+")
    dashboard.see("No retained message matches.")
    dashboard.open("publish")
    dashboard.press("Watch")
    dashboard.see("plant/0/temp")
    dashboard.browser.find_element(By.CSS_SELECTOR, "form input").send_keys("from/the/page")
    dashboard.browser.find_element(By.TAG_NAME, "textarea").send_keys("hello")
    dashboard.press("Publish")
    dashboard.see("from/the/page hello")
    dashboard.open("access")
    dashboard.browser.find_element(By.CSS_SELECTOR, "form input").send_keys("grafana", Keys.ENTER)
    dashboard.see("mrt_")
    dashboard.open("clients/sensor-002")
    dashboard.press("Ban")
    dashboard.see("Nobody is banned.")
    dashboard.press("Ban")
    dashboard.see("for ever")
    dashboard.press("Lift")
    dashboard.see("Nobody is banned.")
    dashboard.open("users")
    dashboard.see("democlient")
    dashboard.browser.find_elements(By.CSS_SELECTOR, "form.row")[2].find_element(By.TAG_NAME, "input").send_keys("sensors", Keys.ENTER)
    wait_until(lambda: "sensors" in dashboard.text(), "the role is there")
    dashboard.press("Add rule")
    dashboard.browser.find_element(By.CSS_SELECTOR, "dialog input[name=topic]").send_keys("plant/%u/#")
    dashboard.confirm("Add rule")
    dashboard.see("plant/%u/#")
    dashboard.open("bridges")
    dashboard.press("Add a bridge")
    dashboard.browser.find_element(By.CSS_SELECTOR, "dialog input[name=name]").send_keys("plant 7")
    dashboard.browser.find_element(By.CSS_SELECTOR, "dialog textarea").send_keys("address 127.0.0.1:9\ntopic a out 1\nremote_username u\nremote_password p")
    dashboard.confirm("Add")
    dashboard.see("plant 7")
    dashboard.press("Change")
    options = dashboard.wait("dialog textarea")
    assert "remote_password ***" in options.get_attribute("value")
    options.send_keys(Keys.CONTROL, Keys.END)
    options.send_keys("\ntopic b in")
    dashboard.confirm("Change")
    dashboard.open("bridges/plant%207")
    dashboard.see("topic b in")
    dashboard.press("Pause")
    dashboard.see("Resume")
    dashboard.press("Remove")
    dashboard.confirm("Remove", "plant 7")
    wait_until(lambda: "plant 7" not in dashboard.text(), "the bridge is gone")
    dashboard.open("audit")
    dashboard.see("sensor-001")
    dashboard.see("createRole | rolename=sensors")


def test_an_administrator_traces_and_counts(dashboard, tools):
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.open("topics")
    dashboard.see("No filter is counted")
    dashboard.browser.find_element(By.CSS_SELECTOR, "input[placeholder='a/+/#']").send_keys("seen/#", Keys.ENTER)
    dashboard.see("seen/#")
    dashboard.open("trace?clientid=tracer")
    dashboard.see("There is no trace.")
    dashboard.press("Start")
    dashboard.see("running")
    tools.publish("seen/a", "x", arguments=["-i", "tracer"])
    dashboard.see("PUBLISH")
    dashboard.press("Stop and delete")
    dashboard.see("There is no trace.")
    dashboard.open("topics")
    cells = "return Array.from(document.querySelectorAll('tr'), row => Array.from(row.cells, cell => cell.textContent).join(' '))"
    wait_until(lambda: any(row.startswith("seen/# 1 ") for row in dashboard.browser.execute_script(cells)), "the message is counted")
    assert dashboard.complaints() == []


def test_several_clients_are_disconnected_at_once(dashboard, tools):
    for name in ["pump", "valve", "meter"]:
        tools.subscribe("plant/#", client_id=name)
    fill(tools, 1)
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.open("clients?sort=clientid")
    dashboard.see("valve")
    pick(dashboard, "pump", "valve", "sensor-000")
    dashboard.press("Disconnect 3")
    dashboard.confirm("Disconnect")
    dashboard.wait("#notes p")
    assert dashboard.browser.find_element(By.ID, "notes").text == "2 disconnected, 1 had no connection."
    dashboard.open("trouble")
    wait_until(lambda: {"pump", "valve"} <= ended(dashboard), "both connections have ended")
    assert "meter" not in ended(dashboard)


def pick(dashboard, *names: str):
    for name in names:
        dashboard.browser.find_element(By.CSS_SELECTOR, f"input[aria-label='Pick {name}']").click()


def said(dashboard, words: str):
    wait_until(lambda: words in [note.text for note in dashboard.browser.find_elements(By.CSS_SELECTOR, "#notes p")], f"it says {words!r}")


def test_several_clients_are_banned_and_several_sessions_ended(dashboard, tools):
    for name in ["pump", "valve", "meter"]:
        tools.subscribe("plant/#", client_id=name)
    fill(tools, 3)
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.open("clients?sort=clientid")
    dashboard.see("valve")
    pick(dashboard, "pump", "valve")
    dashboard.press("Ban 2")
    dashboard.browser.find_element(By.CSS_SELECTOR, "dialog input[name=reason]").send_keys("they flood")
    dashboard.confirm("Ban")
    said(dashboard, "2 banned.")
    pick(dashboard, "sensor-000", "sensor-002")
    dashboard.press("End 2 sessions")
    dashboard.confirm("End", "2")
    said(dashboard, "2 ended.")
    wait_until(lambda: "sensor-000" not in dashboard.text(), "the sessions are gone")
    assert "sensor-001" in dashboard.text() and "meter" in dashboard.text()
    dashboard.open("bans")
    dashboard.see("they flood")
    assert {"pump", "valve"} <= set(dashboard.text().split())
    assert dashboard.complaints() == []


def test_what_could_not_be_done_is_told_by_name_and_stays_picked(dashboard, tools):
    fill(tools, 2)
    dashboard.look("light", 320)
    dashboard.log_in("mrt_admin")
    dashboard.open("clients?sort=clientid&q=sensor")
    dashboard.see("sensor-001")
    dashboard.browser.execute_script(
        "const real = window.fetch; window.fetch = (where, how) => how?.method === 'DELETE' && where.includes('sensor-001')"
        " ? Promise.resolve(new Response('{\"code\":\"X\",\"message\":\"The broker is busy.\"}', { status: 503, headers: { 'Content-Type': 'application/json' } }))"
        " : real(where, how)")
    dashboard.browser.find_element(By.CSS_SELECTOR, "input[aria-label='Pick all that are shown']").click()
    dashboard.press("End 2 sessions")
    dashboard.confirm("End", "2")
    said(dashboard, "1 ended, 1 failed: sensor-001.")
    dashboard.see("sensor-001: The broker is busy.")
    dashboard.see("End 1 session")
    assert dashboard.browser.execute_script(CHECKS) == []
    PICTURES.mkdir(parents=True, exist_ok=True)
    dashboard.browser.save_screenshot(str(PICTURES / "clients-failed-light.png"))


def ended(dashboard) -> set[str]:
    rows = "return Array.from(document.querySelectorAll('[aria-label=Ended] tbody tr')).map(row => row.cells[1].textContent)"
    return set(dashboard.browser.execute_script(rows))


def test_columns_that_nobody_wants_stay_away(dashboard, tools):
    fill(tools, 1)
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_viewer")
    heads = "return Array.from(document.querySelectorAll('main thead th')).map(head => head.textContent)"
    dashboard.open("clients")
    dashboard.see("sensor-000")
    assert "Lag" in dashboard.browser.execute_script(heads)
    dashboard.wait("details.choice summary").click()
    label = "return Array.from(document.querySelectorAll('.choice label')).find(label => label.textContent === 'Lag')"
    dashboard.browser.execute_script(label).click()
    assert "Lag" not in dashboard.browser.execute_script(heads)
    fields = "return new URL(performance.getEntriesByType('resource').findLast(({ name }) => name.includes('/clients?')).name).searchParams.get('fields')"
    wait_until(lambda: "lag_ms" not in dashboard.browser.execute_script(fields).split(","), "only what is shown is asked for")
    dashboard.browser.refresh()
    dashboard.see("sensor-000")
    assert "Lag" not in dashboard.browser.execute_script(heads)
    dashboard.wait("details.choice summary").click()
    dashboard.browser.execute_script(label).click()
    assert "Lag" in dashboard.browser.execute_script(heads)


def test_a_viewer_sees_and_does_nothing(dashboard, tools):
    fill(tools, 1)
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_viewer")
    dashboard.open("clients/sensor-000")
    dashboard.see("1 messages")
    buttons = dashboard.browser.find_elements(By.CSS_SELECTOR, ".title button")
    assert len(buttons) == 4
    assert all(not button.is_enabled() and button.get_attribute("title") for button in buttons)


def test_the_whole_is_reached_with_keys(dashboard, tools):
    fill(tools, 3)
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_viewer")
    dashboard.open("clients?sort=clientid")
    dashboard.see("sensor-000")
    rows = "return document.activeElement.closest('tr')?.rowIndex ?? 0"
    for _ in range(60):
        dashboard.browser.switch_to.active_element.send_keys(Keys.TAB)
        if dashboard.browser.execute_script(rows) == 1 and dashboard.browser.switch_to.active_element.tag_name == "tr":
            break
    assert dashboard.browser.execute_script(rows) == 1
    dashboard.browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert dashboard.browser.execute_script(rows) == 2
    dashboard.browser.switch_to.active_element.send_keys(Keys.ENTER)
    dashboard.see("Subscriptions")

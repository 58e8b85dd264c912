"""The dashboard in headless Chromium: every page, every action, what readers of WCAG would say, and that nothing leaves the broker."""

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from harness.broker import REPOSITORY
from harness.crowd import leave_sessions
from harness.waiting import wait_until
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

HOSTILE = "<img src=x onerror=alert(1)>"
PAGES = ["", "clients", f"clients/{quote(HOSTILE, safe='')}", "topics?matches=plant/3/temp", "retained", "trouble", "alarms", "trace", "log", "publish", "bans", "access", "users", "rules?action=publish&topic=a&username=x", "listeners", "bridges", "bridges/site", "configuration", "audit"]
CHECKS = Path(__file__).with_name("audit.js").read_text()
#: Where the pictures go, for people to look at, if MARTLET_PICTURES is set.
PICTURES = REPOSITORY / ".build/dashboard"
TAKES_PICTURES = bool(os.environ.get("MARTLET_PICTURES"))
#: Tables that are wider than their panel: their last column would be cut off.
CUT = """return Array.from(document.querySelectorAll('main .scroll')).filter(each => each.scrollWidth > each.clientWidth + 1)
  .map(each => `${each.getAttribute('aria-label')} is cut: ${each.scrollWidth} of ${each.clientWidth} px`)"""

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
    problems = []
    for page in PAGES:
        dashboard.open(page)
        wait_until(lambda: dashboard.browser.execute_script("return document.readyState") == "complete", "the page is there")
        name = page.split("?")[0].split("/")[0] + ("-one" if "/" in page.split("?")[0] else "")
        for scheme, width in [("light", 1360), ("dark", 1400), ("dark", 420), ("light", 320)]:
            dashboard.look(scheme, width)
            cut = dashboard.browser.execute_script(CUT) if width >= 1360 else []
            problems += [f"{page} ({scheme}, {width}): {line}" for line in dashboard.browser.execute_script(CHECKS) + dashboard.complaints() + cut]
            picture(dashboard, f"{name or 'overview'}-{count}-{scheme}-{width}")
    assert problems == []


def picture(dashboard, name: str):
    if TAKES_PICTURES:
        PICTURES.mkdir(parents=True, exist_ok=True)
        dashboard.browser.save_screenshot(str(PICTURES / f"{name}.png"))


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
    dashboard.see("1 message")
    dashboard.press("Empty queue")
    dashboard.confirm("Empty", "sensor-001")
    dashboard.see("The queue is empty.")
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
    dashboard.see("There are no bans.")
    dashboard.press("Ban")
    dashboard.see("permanent")
    dashboard.press("Remove")
    dashboard.see("There are no bans.")
    dashboard.open("users")
    dashboard.see("democlient")
    dashboard.browser.find_elements(By.CSS_SELECTOR, "form.row")[-1].find_element(By.TAG_NAME, "input").send_keys("sensors", Keys.ENTER)
    wait_until(lambda: "sensors" in dashboard.text(), "the role is there")
    dashboard.press("Add rule")
    dashboard.browser.find_element(By.CSS_SELECTOR, "dialog input[name=topic]").send_keys("plant/%u/#")
    dashboard.confirm("Add rule")
    dashboard.see("plant/%u/#")
    dashboard.press("Mount point", "main section:last-of-type")
    dashboard.browser.find_element(By.CSS_SELECTOR, "dialog input[name=mountpoint]").send_keys("tenants/%u/")
    dashboard.confirm("Mount point")
    dashboard.see("topics below tenants/%u/")
    dashboard.open("bridges")
    dashboard.press("Add a bridge")
    dashboard.browser.find_element(By.CSS_SELECTOR, "dialog input[name=name]").send_keys("plant 7")
    for name, value in [("address", "127.0.0.1:9"), ("filter", "a"), ("remote_username", "u"), ("remote_password", "p")]:
        dashboard.browser.find_element(By.CSS_SELECTOR, f"dialog input[name={name}]").send_keys(value)
    dashboard.confirm("Add")
    dashboard.see("plant 7")
    dashboard.press("Edit")
    dashboard.wait("dialog input[name=filter]")
    dashboard.press("Add a topic", "dialog")
    dashboard.browser.find_elements(By.CSS_SELECTOR, "dialog input[name=filter]")[-1].send_keys("b")
    dashboard.confirm("Save")
    dashboard.open("bridges/plant%207")
    dashboard.see("topic b out 0")
    dashboard.see("remote_password ***")
    dashboard.press("Pause")
    dashboard.see("Resume")
    dashboard.press("Delete")
    dashboard.confirm("Delete", "plant 7")
    wait_until(lambda: "plant 7" not in dashboard.text(), "the bridge is gone")
    dashboard.open("audit")
    dashboard.see("sensor-001")
    dashboard.see("createRole | rolename=sensors")


def test_an_administrator_traces_and_counts(dashboard, tools):
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.open("topics")
    dashboard.see("There are no topic metrics.")
    dashboard.browser.find_element(By.CSS_SELECTOR, "input[placeholder='a/+/#']").send_keys("seen/#", Keys.ENTER)
    dashboard.see("seen/#")
    dashboard.open("trace?clientid=tracer")
    dashboard.see("There are no traces.")
    dashboard.press("Start")
    dashboard.see("running")
    tools.publish("seen/a", "x", arguments=["-i", "tracer"])
    dashboard.see("PUBLISH")
    dashboard.press("Stop and delete")
    dashboard.see("There are no traces.")
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
    assert dashboard.browser.find_element(By.ID, "notes").text == "2 disconnected, 1 not connected."
    dashboard.open("trouble")
    wait_until(lambda: {"pump", "valve"} <= ended(dashboard), "both connections have ended")
    assert "meter" not in ended(dashboard)


def pick(dashboard, *names: str):
    for name in names:
        dashboard.browser.find_element(By.CSS_SELECTOR, f"input[aria-label='Select {name}']").click()


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
    dashboard.browser.find_element(By.CSS_SELECTOR, "input[aria-label='Select all that are shown']").click()
    dashboard.press("End 2 sessions")
    dashboard.confirm("End", "2")
    said(dashboard, "1 ended, 1 failed: sensor-001.")
    dashboard.see("sensor-001: The broker is busy.")
    dashboard.see("End 1 session")
    assert dashboard.browser.execute_script(CHECKS) == []
    picture(dashboard, "clients-failed-light")


def ended(dashboard) -> set[str]:
    rows = """return Array.from(document.querySelectorAll('[aria-label="Closed connections"] tbody tr')).map(row => row.cells[1].textContent)"""
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
    dashboard.see("1 message")
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


def test_topics_are_watched_on_the_listener_of_the_page_and_refusals_give_their_reason(dashboard, tools):
    fill(tools, 1)
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.complaints()
    dashboard.open("publish?filter=plant/%23")
    dashboard.press("Watch")
    dashboard.see("plant/0/temp")
    tools.publish("plant/9/temp", "late")
    dashboard.see("plant/9/temp")
    dashboard.press("Stop")
    field = dashboard.browser.find_element(By.CSS_SELECTOR, "input[maxlength='65535']")
    field.clear()
    field.send_keys("a/#/b")
    dashboard.press("Watch")
    dashboard.see("Topic Filter invalid (0x8F)")
    assert dashboard.complaints() == []


def test_who_logs_out_watches_no_more(dashboard, tools):
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.open("publish?filter=seen")
    dashboard.press("Watch")
    dashboard.see("Subscribed to seen.")
    dashboard.browser.execute_script("fetch('../api/martlet/v1/session', { method: 'DELETE' })")
    dashboard.see("The broker has closed the connection.")


def test_the_log_is_searched_and_leads_to_the_client(dashboard, tools):
    tools.subscribe("a/#", client_id="seeker")
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.open("log?q=seeker")
    dashboard.see("as seeker")
    assert all("seeker" in line for line in dashboard.browser.execute_script("return Array.from(document.querySelectorAll('.log > div'), line => line.textContent.toLowerCase())"))
    links = dashboard.browser.execute_script("return Array.from(document.querySelectorAll('.log a'), link => link.hash)")
    assert "#/clients/seeker" in links and "#/trace?clientid=seeker" in links
    assert dashboard.browser.find_element(By.CSS_SELECTOR, "main form button").is_enabled(), "what is shown can be downloaded"


def test_retained_topics_stand_in_their_order(dashboard, tools):
    for number in [12, 2, 1, 10]:
        tools.publish(f"plant/{number}", "x", qos=1, retain=True)
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_viewer")
    dashboard.open("retained?filter=plant/%2B")
    dashboard.see("plant/12")
    assert dashboard.browser.execute_script("return Array.from(document.querySelectorAll('tbody th'), cell => cell.textContent)") == ["plant/1", "plant/2", "plant/10", "plant/12"]


def test_many_retained_topics_are_shown_some_at_a_time(dashboard):
    leave_sessions(dashboard.broker.port, 250, retains=True)
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_viewer")
    dashboard.open("retained?filter=crowd/%23")
    dashboard.see("200 of 250")
    topics = "return Array.from(document.querySelectorAll('tbody th'), cell => cell.textContent)"
    every = [f"crowd/{number}/state" for number in range(250)]
    assert dashboard.browser.execute_script(topics) == every[:200]
    dashboard.press("More")
    dashboard.see("250 in total")
    assert dashboard.browser.execute_script(topics) == every


def test_the_menu_has_four_groups_and_shows_on_a_phone_that_it_goes_on(dashboard):
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_viewer")
    assert dashboard.browser.execute_script("return Array.from(document.querySelectorAll('#pages .group'), group => group.textContent)") == ["Monitor", "Diagnose", "Access", "System"]
    dashboard.look("light", 420)
    more = dashboard.browser.find_element(By.ID, "onwards")
    wait_until(more.is_displayed, "the menu shows that it goes on")
    menu = "const menu = document.getElementById('pages'); "
    dashboard.browser.execute_script(menu + "menu.scrollLeft = menu.scrollWidth")
    wait_until(lambda: not more.is_displayed(), "at its end it does not")
    dashboard.browser.execute_script(menu + "menu.scrollLeft = 0")
    wait_until(more.is_displayed, "it goes on")
    more.click()
    wait_until(lambda: dashboard.browser.execute_script(menu + "return menu.scrollLeft") > 0, "the button scrolls it")


def test_tokens_end_unless_somebody_wants_otherwise_and_are_typed_unseen(dashboard):
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.open("access")
    dashboard.wait("form input").send_keys("grafana", Keys.ENTER)
    dashboard.see("Copy it now")
    rows = "return Array.from(document.querySelectorAll('tbody tr'), row => row.textContent).find(text => text.startsWith('grafana'))"
    assert "never" not in wait_until(lambda: dashboard.browser.execute_script(rows), "the token is there")
    dashboard.browser.delete_all_cookies()
    dashboard.browser.get("about:blank")
    dashboard.browser.get(dashboard.base)
    assert dashboard.wait("input[name=token]").get_attribute("type") == "password"


def test_without_dynamic_security_the_lines_that_switch_it_on_are_there_to_copy(files_dashboard):
    files_dashboard.look("light", 1360)
    files_dashboard.log_in("mrt_admin")
    files_dashboard.open("users")
    files_dashboard.see("plugin mosquitto_dynamic_security.so\nplugin_opt_config_file ")


def test_users_and_rules_of_files_are_made_changed_and_removed(files_dashboard, tmp_path):
    page = files_dashboard
    press = "Array.from(document.querySelectorAll('tbody tr')).find(row => row.textContent.startsWith('bob')).querySelectorAll('button')[arguments[0]].click()"
    page.look("light", 1360)
    page.log_in("mrt_admin")
    page.complaints()
    page.open("users")
    page.see("anna")
    page.browser.find_element(By.CSS_SELECTOR, "form.row input").send_keys("bob")
    page.browser.find_element(By.CSS_SELECTOR, "form.row input[type=password]").send_keys("pw", Keys.ENTER)
    page.see("bob")
    page.open("rules?username=bob&action=publish&topic=bob/x")
    page.press("Check")
    page.see("No: no line of ")
    page.browser.find_element(By.CSS_SELECTOR, "input[placeholder='home/#']").send_keys("bob/#")
    page.press("Add rule")
    page.see("bob/#")
    rows = "return Array.from(document.querySelectorAll('tbody tr'), row => Array.from(row.cells, cell => cell.textContent).join(' '))"
    wait_until(lambda: any(row.startswith("bob read bob/#") for row in page.browser.execute_script(rows)), "the rule is there")
    page.browser.execute_script(press, 0)
    page.wait("dialog select")
    page.browser.execute_script("document.querySelector('dialog select').value = 'write'")
    page.confirm("Save")
    wait_until(lambda: "topic write bob/#" in (tmp_path / "acl").read_text(), "the rule is changed")
    page.press("Check")
    page.see("Yes: ")
    wait_until(lambda: any(row.startswith("bob write bob/#") for row in page.browser.execute_script(rows)), "the page shows it")
    picture(page, "rules-light-1360")
    page.browser.execute_script(press, 1)
    page.confirm("Delete")
    wait_until(lambda: "bob/#" not in (tmp_path / "acl").read_text(), "the rule is gone")
    page.open("users")
    page.see("bob")
    picture(page, "users-light-1360")
    page.browser.execute_script(press, 1)
    page.confirm("Delete", "bob")
    wait_until(lambda: "bob:" not in (tmp_path / "passwd").read_text(), "the user is gone")
    assert (tmp_path / "passwd").read_text().startswith("# users\n")
    assert page.browser.execute_script(CHECKS) + page.browser.execute_script(CUT) + page.complaints() == []

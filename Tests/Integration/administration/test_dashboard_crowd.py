"""The dashboard of a broker with very many sessions: every page that lists them is there soon, and never holds more than a page of rows."""

import os
import time
from contextlib import contextmanager

import pytest
from harness.crowd import leave_sessions
from harness.waiting import wait_until
from selenium.webdriver.common.by import By

SESSIONS = int(os.environ.get("MARTLET_SESSIONS", "0"))
#: Seconds after which a page has to be usable; told of the number for which it is promised.
SOON = 3.0 if SESSIONS >= 100_000 else None

#: The bridge has one too.
ALL = SESSIONS + 1

pytestmark = [
    pytest.mark.martlet("2.0 has no dashboard"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(SESSIONS == 0, reason="MARTLET_SESSIONS says how many; nightly 100,000"),
]

#: A page's rows: of its tables and its tree.
ROWS = "return Array.from(document.querySelectorAll('main tbody tr, main li'), row => row.innerText)"


class Watch:
    """How long each thing took, in seconds."""

    def __init__(self):
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, what: str):
        began = time.monotonic()
        yield
        self.seconds[what] = time.monotonic() - began


@pytest.fixture
def crowd(dashboard):
    leave_sessions(dashboard.broker.port, SESSIONS, retains=True)
    dashboard.look("light", 1360)
    dashboard.log_in("mrt_admin")
    dashboard.complaints()
    return dashboard


def test_every_list_of_a_crowd_is_there_soon_and_short(crowd, record_property):
    last, middle = f"crowd-{SESSIONS - 1:06}", f"crowd-{SESSIONS // 2:06}"
    watch, longest = Watch(), 0

    def see(words: str):
        nonlocal longest
        wait_until(lambda: words in crowd.text(), f"the page says {words!r}", 60)
        longest = max(longest, len(crowd.browser.execute_script(ROWS)))

    with watch("overview"):
        crowd.open("")
        see(f"{ALL:,} sessions")
    with watch("clients"):
        crowd.open("clients")
        see(f"50 of {ALL}")
    for column in ["Client", "Since", "Queued", "Lag", "Output", "Subs", "In/s", "Dropped"]:
        crowd.open(f"clients?sort={'lag_ms' if column == 'Client' else 'clientid'}")
        see(f"50 of {ALL}")
        with watch(f"by {column}"):
            crowd.press(column)
            wait_until(lambda: crowd.browser.execute_script(SORTED, column), f"sorted by {column}", 60)
            wait_until(lambda: crowd.browser.execute_script(IDLE), "the rows are there", 60)
    crowd.open("clients?sort=clientid")
    see("crowd-000000")
    for page in [2, 3]:
        with watch(f"page {page}"):
            crowd.press("More")
            see(f"{page * 50} of {ALL}")
    with watch("search"):
        crowd.browser.find_element(By.CSS_SELECTOR, "input[type=search]").send_keys(last)
        wait_until(lambda: len(crowd.browser.execute_script(ROWS)) == 1, "one is found", 60)
    see(last)
    with watch("one client"):
        crowd.open(f"clients/{middle}")
        see(f"crowd/{SESSIONS // 2}/#")
    with watch("tree"):
        crowd.open("topics")
        see("crowd")
    with watch("a level of the tree"):
        crowd.browser.find_element(By.CSS_SELECTOR, "[aria-label='Levels below crowd']").click()
        wait_until(lambda: len(crowd.browser.execute_script(ROWS)) > 100, "the level is there", 60)
    see("crowd")
    with watch("who gets it"):
        crowd.open(f"topics?matches=crowd/{SESSIONS // 2}/temp")
        see(middle)
    with watch("retained"):
        crowd.open("retained")
        see("crowd/")
    with watch("retained, one filter"):
        crowd.open(f"retained?filter=crowd/{SESSIONS - 1}/%23")
        see(f"crowd/{SESSIONS - 1}/state")
    with watch("trouble"):
        crowd.open("trouble")
        see("No message was dropped.")
    record_property("seconds", watch.seconds)
    print("\n".join(f"{what:24} {seconds:6.2f} s" for what, seconds in watch.seconds.items()), f"\nat most {longest} rows")
    assert longest <= 250
    assert crowd.complaints() == []
    if SOON:
        assert {what: seconds for what, seconds in watch.seconds.items() if seconds > SOON} == {}


IDLE = "return document.querySelector('main [aria-busy=true]') === null"
SORTED = """
const head = Array.from(document.querySelectorAll('main th button')).find(button => button.textContent === arguments[0]);
return head?.closest('th').getAttribute('aria-sort');
"""

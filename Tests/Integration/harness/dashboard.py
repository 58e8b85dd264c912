"""The dashboard in headless Chromium, as a test drives it."""

import json
import shutil

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from harness.waiting import PATIENCE, wait_until

DRIVER = shutil.which("chromedriver")
IS_HERE = bool(DRIVER and shutil.which("chromium"))


def start_browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-background-networking"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(60)
    return driver


class Dashboard:
    """A broker, and a browser on its dashboard."""

    def __init__(self, broker, port: int, browser):
        self.broker, self.browser, self.base = broker, browser, f"http://127.0.0.1:{port}/dashboard/"
        # The browser is several tests' one after the other: a page of the last one would go on asking its broker, which is gone.
        browser.get("about:blank")
        browser.get_log("browser"), browser.get_log("performance")

    def log_in(self, token: str):
        self.browser.delete_all_cookies()
        self.browser.get(self.base)
        field = self.wait("input[name=token]")
        field.send_keys(token, Keys.ENTER)
        self.wait("main h1, main .tiles")
        self.see("Overview")

    def open(self, page: str):
        self.browser.get("about:blank")
        self.browser.get(f"{self.base}#/{page}")
        self.wait("main h1")

    def wait(self, selector: str):
        return wait_until(lambda: next(iter(self.browser.find_elements(By.CSS_SELECTOR, selector)), None), f"the page has {selector}")

    def text(self) -> str:
        return self.browser.execute_script("return document.querySelector('main').innerText")

    def see(self, words: str):
        wait_until(lambda: words in self.text(), f"the page says {words!r}")

    def press(self, words: str, within: str = "main"):
        """Presses the button that says so."""
        script = "return Array.from(document.querySelectorAll(arguments[0] + ' button')).find(button => button.textContent === arguments[1] && !button.disabled)"
        def is_pressed() -> bool:
            button = self.browser.execute_script(script, within, words)
            try:
                if button:
                    button.click()
            except StaleElementReferenceException:  # The page was drawn anew meanwhile.
                return False
            return button is not None

        wait_until(is_pressed, f"the page has a button {words!r}")

    def confirm(self, action: str, word: str | None = None):
        if word is not None:
            self.wait("dialog input[name=word]").send_keys(word)
        self.press(action, "dialog")
        wait_until(lambda: not self.browser.find_elements(By.TAG_NAME, "dialog"), "the question is gone")

    def look(self, scheme: str, width: int, height: int = 900):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]})
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def complaints(self) -> list[str]:
        """What the console says, and what was asked for that is not the broker's, since the last time."""
        lines = [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            url = message.get("params", {}).get("request", {}).get("url", "")
            if message["method"] == "Network.requestWillBeSent" and not url.startswith(("http://127.0.0.1:", "data:", "about:")):
                lines.append(f"asked for {url}")
        return lines

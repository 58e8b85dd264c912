"""The README's picture of the dashboard: MARTLET_PICTURE=90 pytest … takes it anew, after so many seconds of a plant at work."""

import math
import os
import random
import subprocess
import threading
import time

import pytest
from harness.broker import REPOSITORY
from harness.waiting import wait_until

PICTURE = REPOSITORY / "Sources/Administration/Administration.docc/Resources/dashboard.png"
SECONDS = float(os.environ.get("MARTLET_PICTURE", "0"))

pytestmark = [
    pytest.mark.martlet("2.0 has no dashboard"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(SECONDS == 0, reason="the picture is there; MARTLET_PICTURE says for how many seconds to work for another"),
]


class Plant:
    """Two dozen ovens that report more and less by turns, and those who listen; one of them only at night."""

    def __init__(self, port: int):
        self.port = port
        self.random = random.Random(7)
        self.ended = threading.Event()
        listeners = {"historian": "#", "hall-2-display": "plant/hall-2/+/temperature", "alarms": "plant/+/+/alarm", "energy-report": "plant/+/+/power"}
        for name, topics in listeners.items():
            self.client(name).subscribe(topics, qos=1)
        away = ["mosquitto_sub", "-p", str(port), "-c", "-q", "1", "-i", "night-shift", "-t", "plant/+/+/temperature", "-E"]
        subprocess.run(away, check=True)
        self.ovens = [(self.client(f"oven-{number:02}"), f"plant/hall-{number % 3 + 1}/oven-{number:02}") for number in range(24)]
        self.work = threading.Thread(target=self.run)
        self.work.start()

    def client(self, name: str):
        import paho.mqtt.client as paho

        client = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        return client

    def run(self):
        began = time.monotonic()
        while not self.ended.wait(0.1):
            at = time.monotonic() - began
            rate = 90 + 35 * math.sin(at / 9) + 20 * math.sin(at / 3.1) + 15 * self.random.random()
            for _ in range(int(rate / 10)):
                client, topic = self.random.choice(self.ovens)
                kind = self.random.choice(["temperature", "temperature", "power", "vibration"])
                client.publish(f"{topic}/{kind}", f"{180 + 20 * self.random.random():.1f}", qos=self.random.choice([0, 1, 1]), retain=kind != "vibration")

    def end(self):
        self.ended.set()
        self.work.join()


def test_the_picture_shows_a_plant_at_work(dashboard):
    plant = Plant(dashboard.broker.port)
    try:
        dashboard.look("light", 1360, 950)
        dashboard.log_in("mrt_admin")
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > SECONDS, "there is something to see", SECONDS + 60)
        dashboard.open("")
        wait_until(lambda: "Acknowledged" in dashboard.text() and "received" in dashboard.text(), "the charts are drawn")
        dashboard.see("28\n")
        PICTURE.parent.mkdir(exist_ok=True)
        dashboard.browser.save_screenshot(str(PICTURE))
    finally:
        plant.end()
    assert PICTURE.stat().st_size < 200_000

"""What is measured of a bridge."""

import re
import urllib.request

from bridges.links import is_connected
from harness.ports import reserve_port
from harness.waiting import wait_until


def test_metrics_of_a_bridge(bridge_to, start_broker, tools_for):
    other, web = start_broker(), reserve_port()
    here = bridge_to(
        other.port, "topic a out 1\nnotifications false",
        configuration=f"listener {web} 127.0.0.1\nprotocol http_api\nmartlet_metrics_anonymous true",
    )  # fmt: skip
    is_connected(here)
    for number in range(3):
        tools_for(here.port).publish("a", str(number), qos=1)

    def measured() -> dict[str, str]:
        text = urllib.request.urlopen(f"http://127.0.0.1:{web}/metrics").read().decode()
        return dict(re.findall(r"^(martlet_bridge_[^ ]+) (.*)$", text, re.MULTILINE))

    wait_until(lambda: measured().get('martlet_bridge_messages_total{bridge="b",direction="out"}') == "3", "three messages have crossed")
    assert measured()['martlet_bridge_up{bridge="b"}'] == "1"
    assert measured()['martlet_bridge_queued_messages{bridge="b"}'] == "0"
    other.kill()
    wait_until(lambda: measured()['martlet_bridge_up{bridge="b"}'] == "0", "the bridge is down")
    tools_for(here.port).publish("a", "waits", qos=1)
    wait_until(lambda: measured()['martlet_bridge_queued_messages{bridge="b"}'] == "1", "the message waits")

"""MQTT.js 4, Debian's node-mqtt, all its clients in a process of their own: mqttjs_client.js."""

from pathlib import Path

from libraries.child import ChildClient
from libraries.scenarios import Scenarios, Version5Scenarios


class MQTTJSClient(ChildClient):
    shares_program = True  # for a node takes a fifth of a second of the processor to start

    @classmethod
    def command(cls):
        return ["node", str(Path(__file__).with_name("mqttjs_client.js"))]

    @classmethod
    def environment(cls):
        return {"NODE_PATH": "/usr/share/nodejs"}  # where Debian puts it; a node that is not Debian's does not look there


class TestVersion311(Scenarios):
    library = MQTTJSClient
    version = 4


class TestVersion5(Version5Scenarios):
    library = MQTTJSClient
    cannot = {
        "test_a_thousand_in_order[2]": "MQTT.js 4 does not heed the server's receive maximum, which ends the connection with 0x93",
        "test_user_properties_keep_their_order": "MQTT.js keeps user properties in an object: one list of values for each key",
    }

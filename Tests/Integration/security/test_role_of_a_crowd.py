"""A role that very many clients have changes: soon for all of them, and without a pause of a loop."""

import base64
import hashlib
import json
import os
import re
import resource
import selectors
import socket
import time
import urllib.request

import pytest
from harness.ports import reserve_port
from harness.wire import CONNECT, PUBACK, PUBLISH, Wire, frame, text

CLIENTS = int(os.environ.get("MARTLET_SESSIONS", "0"))
#: Seconds within which a change counts for all, and those within which all who are connected are sent away.
SOON, GONE = 1.0, 2.0
#: Milliseconds that no turn of a loop takes.
PAUSE_MAX = 10
NO_MATCHING_SUBSCRIBERS = 0x10
ENDPOINT = "$CONTROL/dynamic-security/v1"

pytestmark = [
    pytest.mark.martlet("mosquitto walks through all clients at once"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(CLIENTS == 0, reason="MARTLET_SESSIONS says how many; nightly 100,000"),
]


def document() -> dict:
    salt = b"salt-of-test"
    password = base64.b64encode(hashlib.pbkdf2_hmac("sha512", b"pw", salt, 1)).decode()

    def client(name: str, role: str) -> dict:
        secret = {"iterations": 1, "salt": base64.b64encode(salt).decode(), "password": password}
        return {"username": name, "roles": [{"rolename": role}], **secret}

    def rule(kind: str, topic: str) -> dict:
        return {"acltype": kind, "topic": topic, "allow": True}

    admin = [rule(kind, "$CONTROL/#") for kind in ("publishClientSend", "publishClientReceive", "subscribePattern")]
    return {
        "defaultACLAccess": {"publishClientSend": False, "publishClientReceive": True, "subscribe": False, "unsubscribe": True},
        "clients": [client("boss", "admin"), *(client(f"c{number:06}", "user") for number in range(CLIENTS))],
        "roles": [{"rolename": "user", "acls": [rule("subscribePattern", "a/#")]}, {"rolename": "admin", "acls": admin}],
    }


def come(port: int, number: int) -> socket.socket:
    peer = socket.socket()
    peer.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
    peer.bind((f"127.0.0.{2 + number % 50}", 0))
    peer.connect(("127.0.0.1", port))
    name = text(f"c{number:06}")
    peer.sendall(frame(CONNECT, 0, text("MQTT") + b"\x05\xc2\x00\x00\x00" + name + name + text("pw")))
    return peer


def turns(port: int) -> dict[str, dict[str, int]]:
    """How many turns each loop has made that were at most so long, in seconds."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        page = answer.read().decode()
    found: dict[str, dict[str, int]] = {}
    for loop, bound, count in re.findall(r'^martlet_loop_turn_seconds_bucket\{loop="(\d+)",le="([^"]+)"\} (\d+)', page, re.M):
        found.setdefault(loop, {})[bound] = int(count)
    assert found
    return found


def test_a_role_of_a_crowd_changes_at_once(start_broker, tmp_path, record_property):
    file, http = tmp_path / "kept" / "dynsec.json", reserve_port()
    file.parent.mkdir()
    file.write_text(json.dumps(document()))
    broker = start_broker(
        # One loop, as a machine of two processors gets: the crowd has the other one.
        configuration="martlet_threads 1\nplugin /usr/lib/mosquitto_dynamic_security.so\n"
        f"plugin_opt_config_file {file}\nmax_connections -1\nlog_type error\nmartlet_metrics_anonymous true\n"
        f"listener {http} 127.0.0.1\nprotocol http_api\n"
    )
    peers = []
    try:
        # Each takes a descriptor here, and one in the broker.
        connected = min(CLIENTS, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 2000)
        for start in range(0, connected, 200):
            batch = [come(broker.port, number) for number in range(start, min(start + 200, connected))]
            peers += batch
            assert all(peer.recv(100)[3] == 0 for peer in batch)
        boss = Wire(broker.port, "mqttv5")
        peers.append(boss)
        assert boss.connect("boss", user="boss", password="pw")[1] == 0
        boss.subscribe(ENDPOINT + "/response")
        before, began = turns(http), time.monotonic()
        command = {"command": "addRoleACL", "rolename": "user", "acltype": "publishClientSend", "topic": "new/#", "allow": True}
        boss.publish(ENDPOINT, json.dumps({"commands": [command]}))
        assert b'"error"' not in boss.receive(PUBLISH).body
        answered = time.monotonic() - began
        with selectors.DefaultSelector() as selector:
            for peer in peers[:connected]:
                selector.register(peer, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(30)
                assert ready, f"{len(selector.get_map())} clients stay, whose rights have changed"
                for key, _ in ready:
                    selector.unregister(key.fileobj)
        gone = time.monotonic() - began
        after = turns(http)
        bound = str(PAUSE_MAX / 1000)
        longer = {loop: (after[loop]["+Inf"] - counts["+Inf"]) - (after[loop][bound] - counts[bound]) for loop, counts in before.items()}
        print(f"{CLIENTS} clients, {connected} connected: answered after {answered:.2f} s, the last one sent away after {gone:.2f} s, {longer}")
        assert answered <= SOON and gone <= GONE
        assert not any(longer.values()), f"turns longer than {PAUSE_MAX} ms: {longer}"
        # Who comes back has the right.
        peers.append(Wire(broker.port, "mqttv5"))
        assert peers[-1].connect("c000000", user="c000000", password="pw")[1] == 0
        peers[-1].publish("new/x", "here", qos=1)
        assert peers[-1].receive(PUBACK).body[2:] in (b"", bytes([0]), bytes([NO_MATCHING_SUBSCRIBERS]))
    finally:
        for peer in peers:
            peer.close()

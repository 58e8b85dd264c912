"""martlet store: what mosquitto itself kept, imported, shown, checked and copied."""

import json
import struct
import subprocess

import pytest
from harness.wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, SUBSCRIBE, Wire, frame, text

pytestmark = pytest.mark.martlet("needs martlet store")

FOREVER = b"\x11" + struct.pack(">I", 0xFFFFFFFF)
HOUR = b"\x11" + struct.pack(">I", 3600)
RICH = b"\x01\x01\x03" + text("text/plain") + b"\x08" + text("answer") + b"\x09" + text(b"\0\xff") + b"\x26" + text("k") + text("v")


def store(program, *arguments, expect: int = 0) -> tuple[str, str]:
    """What `martlet store` says, and what it complains about."""
    done = subprocess.run(
        [program.path, "store", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout, done.stderr


class Dump:
    """The rows of a store, as `martlet store dump` prints them."""

    def __init__(self, program, directory):
        self.rows = [json.loads(line) for line in store(program, "dump", directory)[0].splitlines()]
        self.sessions = {row["key"]: row["clientIdentifier"] for row in self.of("session")}
        self.messages = {row["key"]: row for row in self.of("message")}
        self.flows = {row["key"]: row for row in self.of("flow")}

    def of(self, table: str) -> list[dict]:
        return [row for row in self.rows if row["table"] == table]

    def session(self, client: str) -> dict:
        return next(row for row in self.of("session") if row["clientIdentifier"] == client)

    def queue(self, client: str) -> list[dict]:
        """What waits for a client, each entry with its message and how far it has come."""
        return [
            {**row, "message": row.get("message") or self.messages[row["messageKey"]], "flow": self.flows.get(row["key"])}
            for row in sorted(self.of("entry"), key=lambda row: int(row["key"]))
            if self.sessions[row["session"]] == client
        ]

    def payloads(self, client: str) -> list[str]:
        return [entry["message"]["payload"] for entry in self.queue(client)]

    def meaning(self) -> list:
        """All of it without the keys, which depend on the order in which mosquitto wrote."""

        def told(row: dict, *names: str) -> tuple:
            return tuple((name, json.dumps(row.get(name))) for name in names)

        clients = sorted(self.sessions.values())
        queue = ["qos", "retain", "packetIdentifier", "subscriptionIdentifiers"]
        message = ["topic", "payload", "qos", "retain", "properties", "expiresAt"]
        return [
            sorted(told(row, "clientIdentifier", "expiryIntervalSeconds", "endsAt", "userName") for row in self.of("session")),
            sorted(
                (self.sessions[row["session"]], *told(row, "filter", "maximumQoS", "noLocal", "retainAsPublished", "identifier"))
                for row in self.of("subscription")
            ),
            [[(told(entry, *queue), told(entry["message"], *message)) for entry in self.queue(client)] for client in clients],
            sorted(told(row, *message) for row in self.of("retained")),
        ]


class Publisher:
    """Publishes and waits until the QoS's handshake is done."""

    def __init__(self, port: int, client: str, **options):
        self.wire = Wire(port)
        self.wire.connect(client, **options)
        self.identifier = 0

    def publish(self, topic: str, payload: str, qos: int, **options):
        self.identifier += 1
        self.wire.publish(topic, payload, qos=qos, identifier=self.identifier, **options)
        if qos == 1:
            self.wire.receive(PUBACK)
        if qos == 2:
            self.wire.receive(PUBREC)
            self.wire.acknowledge(PUBREL, self.identifier)
            self.wire.receive(PUBCOMP)


def subscribe(wire: Wire, topic: str, options: int, identifier: int):
    """Subscribes with a Subscription Identifier below 128."""
    wire.send(frame(SUBSCRIBE, 2, b"\0\1\2\x0b" + bytes([identifier]) + text(topic) + bytes([options])))
    wire.receive(SUBACK)


def old_file(version: int) -> bytes:
    """A file as mosquitto before 1.6 wrote it: a client, two messages in flight to it, and a retained one."""
    source = text("source") + (text("anna") + struct.pack(">H", 1883) if version > 3 else b"")

    def message(number: int, topic: str, qos: int, retain: int, payload: str) -> tuple[int, bytes]:
        head = struct.pack("<Q", number) + source + bytes(4) + text(topic) + bytes([qos, retain])
        return 2, head + struct.pack(">I", len(payload.encode())) + payload.encode()

    def delivery(number: int, identifier: int, qos: int, state: int) -> tuple[int, bytes]:
        return 3, text("client") + struct.pack("<Q", number) + struct.pack(">H", identifier) + bytes([qos, 0, 1, state, 0])

    chunks = [
        (1, bytes([1, 8]) + struct.pack("<Q", 9)),
        message(9, "r", 1, 1, "größer"),
        message(8, "a/c", 2, 0, "second"),
        message(7, "a/b", 1, 0, "first"),
        (6, text("client") + struct.pack(">H", 2) + struct.pack("<Q", 1_700_000_000)),
        delivery(7, 1, 1, 3),
        delivery(8, 2, 2, 5),
        (4, struct.pack("<Q", 9)),
        (5, text("client") + text("a/#") + b"\2"),
    ]
    body = b"".join(struct.pack(">HI", kind, len(body)) + body for kind, body in chunks)
    return b"\0\xb5\0mosquitto db" + bytes(4) + struct.pack(">I", version) + body


@pytest.fixture
def imported(program, tmp_path):
    """The directory of a store."""
    (tmp_path / "old.db").write_bytes(old_file(4))
    store(program, "import", tmp_path / "old.db", tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def filled(reference, tmp_path):
    """mosquitto's file, after clients of both versions have left it with something of everything."""
    (tmp_path / "mosquitto").mkdir()
    broker = reference(
        "persistence true\npersistence_location {directory}/mosquitto/\nmax_inflight_messages 3\nqueue_qos0_messages true"
    )
    busy, away, old = Wire(broker.port), Wire(broker.port), Wire(broker.port, "mqttv311")
    busy.connect("busy", clean=False, properties=FOREVER)
    subscribe(busy, "q/+", 2 | 4 | 8, 77)
    away.connect("away", clean=False, properties=HOUR)
    away.subscribe("q/1", 1)
    away.subscribe("/lead/+/#", 0)
    away.disconnect()
    old.connect("old", clean=False, user="anna")
    old.subscribe("#", 2)
    old.disconnect()

    publisher = Publisher(broker.port, "publisher", clean=False, properties=FOREVER, user="peter")
    publisher.publish("q/1", "one", 1, properties=RICH)
    publisher.publish("q/2", "two", 2, properties=b"\x02" + struct.pack(">I", 1000))
    publisher.publish("q/2", "three", 2)
    publisher.publish("q/1", "four", 1)
    publisher.publish("q/1", "zero", 0)
    publisher.publish("keep/a", "größer", 1, retain=True, properties=RICH)
    publisher.publish("keep/b", "gone", 1, retain=True)
    publisher.publish("keep/b", "", 0, retain=True)
    publisher.publish("keep/c", "before", 1, retain=True)

    one, two, three, zero = (busy.receive(PUBLISH) for _ in range(4))
    assert [one.qos, two.qos, three.qos, zero.qos] == [1, 2, 2, 0], "the fourth waits"
    busy.acknowledge(PUBREC, two.identifier)
    busy.receive(PUBREL)
    # Halfway: PUBREC has been sent, PUBREL has not.
    publisher.wire.publish("q/1", "halfway", qos=2, identifier=500)
    publisher.wire.receive(PUBREC)
    publisher.wire.publish("keep/c", "after", qos=2, identifier=501, retain=True)
    publisher.wire.receive(PUBREC)
    publisher.wire.close()
    busy.close()
    broker.wait_for_log("Client busy closed its connection")
    broker.wait_for_log("Client publisher closed its connection")
    broker.stop()
    return tmp_path / "mosquitto/mosquitto.db"


def test_what_mosquitto_kept_is_taken_over(program, filled, tmp_path):
    said, complained = store(program, "import", filled, tmp_path / "store")
    assert dict(line.rsplit(maxsplit=1) for line in said.splitlines()[1:]) == {
        "  sessions": "4",
        "  subscriptions": "4",
        "  queued messages": "20",
        "  received messages": "2",
        "  retained messages": "2",
    }
    assert complained == ""

    dump = Dump(program, tmp_path / "store")
    assert dump.payloads("busy") == ["one", "two", "three", "four", "halfway"]
    assert dump.payloads("away") == ["one", "four", "zero", "halfway"]
    kept = ["größer", "gone", "", "before"]
    assert dump.payloads("old") == ["one", "two", "three", "four", "zero", *kept, "halfway", "after"]
    busy = dump.queue("busy")
    assert [entry.get("packetIdentifier") for entry in busy] == [1, 2, 3, None, None]
    assert [entry["flow"] and entry["flow"]["state"] for entry in busy] == [None, "released", None, None, None]
    assert [entry["qos"] for entry in busy] == [1, 2, 2, 1, 2]
    assert all(entry["subscriptionIdentifiers"] == [77] for entry in busy)
    assert [entry["qos"] for entry in dump.queue("away")] == [1, 1, 0, 1]
    assert busy[0]["message"]["properties"] == {
        "payloadFormatIndicator": 1,
        "contentType": "text/plain",
        "responseTopic": "answer",
        "correlationDataBase64": "AP8=",
        "userProperties": [{"name": "k", "value": "v"}],
    }
    assert busy[1]["message"]["expiresAt"] % 1000 == 0

    retained = {row["topic"]: row["payload"] for row in dump.of("retained")}
    assert retained == {"keep/a": "größer", "keep/c": "after"}
    publisher = dump.session("publisher")
    assert [(row["session"], row["packetIdentifier"]) for row in dump.of("received")] == [
        (publisher["key"], 500),
        (publisher["key"], 501),
    ]


def test_sessions_and_subscriptions_keep_their_terms(program, filled, tmp_path):
    store(program, "import", filled, tmp_path / "store")
    dump = Dump(program, tmp_path / "store")
    assert {row["clientIdentifier"]: row["expiryIntervalSeconds"] for row in dump.of("session")} == {
        "busy": 0xFFFFFFFF,
        "away": 3600,
        "old": 0xFFFFFFFF,
        "publisher": 0xFFFFFFFF,
    }
    assert dump.session("old")["userName"] == "anna"
    assert dump.session("away")["endsAt"] % 1000 == 0 and "endsAt" not in dump.session("old")
    terms = {
        (dump.sessions[row["session"]], row["filter"]): (
            row["maximumQoS"], row["noLocal"], row["retainAsPublished"], row.get("identifier")
        )
        for row in dump.of("subscription")
    }  # fmt: skip
    assert terms == {
        ("busy", "q/+"): (2, True, True, 77),
        ("away", "q/1"): (1, False, False, None),
        ("away", "/lead/+/#"): (0, False, False, None),
        ("old", "#"): (2, False, False, None),
    }


def test_the_configuration_says_where_the_store_is_and_which_listener_is_whose(program, filled, tmp_path):
    (tmp_path / "kept").mkdir()
    # The port is part of the name of mosquitto's configuration.
    port = next(tmp_path.glob("broker-*.conf")).stem.removeprefix("broker-")
    configuration = tmp_path / "martlet.conf"
    configuration.write_text(
        f"listener 1 127.0.0.1\nlistener {port} 127.0.0.1\npersistence true\npersistence_location {tmp_path}/kept/\n"
    )
    store(program, "import", "-c", configuration, filled)
    assert "is whole" in store(program, "check", "-c", configuration)[0]
    assert store(program, "dump", "-c", configuration) == store(program, "dump", tmp_path / "kept")
    assert {row["listener"] for row in Dump(program, tmp_path / "kept").of("session")} == {1}
    assert "Copied" in store(program, "backup", "-c", configuration, tmp_path / "copy")[0]


@pytest.mark.parametrize("arguments", [["check"], ["dump"], ["backup", "copy"], ["import", "mosquitto.db"]])
def test_a_store_has_to_be_named(program, arguments):
    said = store(program, *arguments, expect=64)[1]
    assert "Error: Name the store's directory, or the broker's configuration with -c." in said


@pytest.mark.parametrize("version", [3, 4])
def test_an_old_file_means_what_it_means_to_mosquitto(program, reference, tmp_path, version):
    (tmp_path / "mosquitto").mkdir()
    (tmp_path / "old.db").write_bytes(old_file(version))
    (tmp_path / "mosquitto/mosquitto.db").write_bytes(old_file(version))
    broker = reference("persistence true\npersistence_location {directory}/mosquitto/")
    broker.stop()
    assert (tmp_path / "mosquitto/mosquitto.db").read_bytes()[22] == 6, "mosquitto has brought it up to date"

    for file, directory in [("old.db", "old"), ("mosquitto/mosquitto.db", "new")]:
        store(program, "import", tmp_path / file, tmp_path / directory)
    dump = Dump(program, tmp_path / "old")
    assert dump.payloads("client") == ["first", "second"]
    assert dump.meaning() == Dump(program, tmp_path / "new").meaning()


def test_the_first_start_takes_over_what_mosquitto_kept(start_broker, wire_to, tmp_path):
    (tmp_path / "store").mkdir()
    file = tmp_path / "store/old.db"
    file.write_bytes(old_file(4))
    broker = start_broker(configuration="persistence true\npersistence_location {directory}/store\npersistence_file old.db")
    broker.wait_for_log(r"Took over .*/old\.db from mosquitto: 1 sessions, 1 subscriptions, 2 queued and 1 retained messages\.")
    client = wire_to(broker.port)
    assert client.connect("client", clean=False) == (True, 0)
    assert sorted(client.receive(PUBLISH).topic for _ in range(2)) == ["a/b", "a/c"]
    client.subscribe("r")
    assert client.receive(PUBLISH).body.endswith("größer".encode())
    broker.stop()
    before = len(broker.log)
    broker.restart()
    assert "Took over" not in broker.log[before:]
    assert file.read_bytes() == old_file(4)


def test_a_store_that_is_there_is_not_imported_over(program, imported, tmp_path):
    before = store(program, "dump", imported)
    said = store(program, "import", tmp_path / "old.db", imported, expect=1)
    assert said == ("", f"Error: {imported}/martlet.db is there already\n")
    assert store(program, "dump", imported) == before


def test_a_store_is_checked(program, imported):
    said, complained = store(program, "check", imported)
    assert said.splitlines()[0] == f"The store in {imported} is whole, as of commit 1. Records:"
    assert dict(line.split() for line in said.splitlines()[1:]) == {
        "run": "0", "session": "1", "subscription": "1", "received": "0", "message": "0", "entry": "2", "flow": "0", "retained": "1",
        "relayed": "0",
    }  # fmt: skip
    assert complained == ""


def test_a_store_is_copied(program, imported, tmp_path):
    assert store(program, "backup", imported, tmp_path / "copy")[0] == f"Copied 5 records to {tmp_path}/copy, as of commit 1.\n"
    assert store(program, "dump", tmp_path / "copy") == store(program, "dump", imported)
    assert "is there already" in store(program, "backup", imported, tmp_path / "copy", expect=1)[1]


def test_damage_is_told_record_by_record(program, imported):
    database = imported / "martlet.db"
    content = database.read_bytes()
    assert content.count("größer".encode()) == 1
    database.write_bytes(content.replace("größer".encode(), b"smaller!"))
    said, complained = store(program, "check", imported, expect=1)
    assert "is damaged" in said
    assert complained.startswith("retained ") and "the record is damaged" in complained
    rows, complained = store(program, "dump", imported, expect=1)
    assert "smaller!" not in rows and "first" in rows and "the record is damaged" in complained


@pytest.mark.parametrize("command", ["check", "dump"])
def test_a_store_that_is_not_there_is_told(program, tmp_path, command):
    assert store(program, command, tmp_path, expect=1) == ("", f"Error: {tmp_path}/martlet.db: there is no store\n")


@pytest.mark.parametrize(
    "content, complaint",
    [
        (None, "No such file or directory."),
        (b"", "this is no database of mosquitto's: it does not begin as one."),
        (b"\0\xb5\0mosquitto db\0\0\0\0\0\0\0\7", "its format has version 7, and this program reads versions 3 to 6."),
        (b"\0\xb5\0mosquitto db\0\0\0\0\0\0\0\6\0\0\0\1\0\0\0\x10\0", "byte 31, in the record of the configuration: it ends too early."),
    ],
)
def test_what_is_not_mosquittos_is_refused(program, tmp_path, content, complaint):
    file = tmp_path / "mosquitto.db"
    if content is not None:
        file.write_bytes(content)
    assert store(program, "import", file, tmp_path / "store", expect=1) == ("", f"Error: {file}: {complaint}\n")
    assert not (tmp_path / "store").exists()

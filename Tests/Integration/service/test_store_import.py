"""martlet store: what mosquitto itself kept, imported, shown, checked and copied."""

import json
import sqlite3
import subprocess
import time

import pytest
from harness.wire import PUBLISH

from service.left_by_mosquitto import leave_something, old_file

pytestmark = pytest.mark.martlet("needs martlet store")

#: Schema 1.0 of mosquitto's persist-sqlite plug-in.
PLUG_IN_SCHEMA = """
PRAGMA journal_mode=WAL;
CREATE TABLE base_msgs (store_id INT64 PRIMARY KEY,expiry_time INT64,topic STRING NOT NULL,payload BLOB,source_id STRING,
  source_username STRING,payloadlen INTEGER,source_mid INTEGER,source_port INTEGER,qos INTEGER,retain INTEGER,properties STRING);
CREATE TABLE retains (topic STRING PRIMARY KEY,store_id INT64);
CREATE TABLE clients (client_id TEXT PRIMARY KEY,username TEXT,connection_time INT64,will_delay_time INT64,session_expiry_time INT64,
  listener_port INT,max_packet_size INT,max_qos INT,retain_available INT,session_expiry_interval INT,will_delay_interval INT);
CREATE TABLE subscriptions (client_id TEXT NOT NULL,topic TEXT NOT NULL,subscription_options INTEGER,
  subscription_identifier INTEGER,PRIMARY KEY (client_id, topic) );
CREATE TABLE client_msgs (client_id TEXT NOT NULL,cmsg_id INT64,store_id INT64,dup INTEGER,direction INTEGER,mid INTEGER,
  qos INTEGER,retain INTEGER,state INTEGER,subscription_identifier INTEGER);
CREATE TABLE version_info (component TEXT NOT NULL,major INTEGER NOT NULL,minor INTEGER NOT NULL,patch INTEGER NOT NULL);
INSERT INTO version_info VALUES ('database_schema', 1, 0, 0);
"""


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


@pytest.fixture
def imported(program, tmp_path):
    """The directory of a store."""
    (tmp_path / "old.db").write_bytes(old_file(4))
    store(program, "import", tmp_path / "old.db", tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def filled(reference, tmp_path):
    return leave_something(reference, tmp_path)


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


def test_a_copy_may_be_called_like_a_database(program, start_broker, tmp_path):
    (tmp_path / "store").mkdir()
    start_broker(configuration=f"persistence true\npersistence_location {tmp_path}/store").stop()
    copy = tmp_path / "copy.db"
    store(program, "backup", tmp_path / "store", copy)
    assert copy.is_dir()
    for name in (copy, f"{copy}/"):
        assert "is whole" in store(program, "check", name)[0]
    assert store(program, "dump", copy)[0]


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
    broker.wait_for_log(r"Imported .*/old\.db of mosquitto: 1 session, 1 subscription, 2 queued and 1 retained message\.")
    client = wire_to(broker.port)
    assert client.connect("client", clean=False) == (True, 0)
    assert sorted(client.receive(PUBLISH).topic for _ in range(2)) == ["a/b", "a/c"]
    client.subscribe("r")
    assert client.receive(PUBLISH).body.endswith("größer".encode())
    broker.stop()
    before = len(broker.log)
    broker.restart()
    assert " of mosquitto: " not in broker.log[before:]
    assert file.read_bytes() == old_file(4)


@pytest.fixture
def plug_in_file(tmp_path):
    """A database as mosquitto's persist-sqlite plug-in makes it."""
    file = tmp_path / "mosquitto.sqlite3"
    database = sqlite3.connect(file)
    database.executescript(PLUG_IN_SCHEMA)
    database.execute("INSERT INTO base_msgs VALUES (7, 0, 'a/b', ?, 'x', NULL, 5, 0, 1883, 1, 1, NULL)", (b"first",))
    database.execute("INSERT INTO retains VALUES ('a/b', 7)")
    database.execute("INSERT INTO clients VALUES ('keeper', NULL, 1, 0, 0, 1883, 0, 2, 1, -1, 0)")
    database.execute("INSERT INTO subscriptions VALUES ('keeper', 'a/#', 1, 0)")
    database.execute("INSERT INTO client_msgs VALUES ('keeper', 1, 7, 0, 1, 0, 1, 0, 11, 0)")
    database.commit()
    database.close()
    return file


def test_the_plug_in_for_sqlite_is_the_store_and_its_database_is_taken_over(start_broker, wire_to, plug_in_file):
    before = plug_in_file.read_bytes()
    broker = start_broker(
        configuration="plugin /usr/lib/mosquitto_persist_sqlite.so\nplugin_opt_sync full\npersistence_location {directory}"
    )
    broker.wait_for_log(r"Imported .*/mosquitto\.sqlite3 of mosquitto: 1 session, 1 subscription, 1 queued and 1 retained message\.")
    keeper = wire_to(broker.port, "mqttv311")
    assert keeper.connect("keeper", clean=False) == (True, 0)
    assert keeper.receive(PUBLISH).body.endswith(b"first")
    broker.kill()
    said = len(broker.log)
    broker.restart()
    assert wire_to(broker.port, "mqttv311").connect("keeper", clean=False) == (True, 0)
    assert " of mosquitto: " not in broker.log[said:]
    assert plug_in_file.read_bytes() == before


def test_the_database_of_the_plug_in_is_imported_by_hand(program, plug_in_file, tmp_path):
    said, complained = store(program, "import", plug_in_file, tmp_path / "store")
    assert "queued messages     1" in said and complained == ""
    assert Dump(program, tmp_path / "store").payloads("keeper") == ["first"]
    database = sqlite3.connect(plug_in_file)
    database.execute("UPDATE client_msgs SET state = 12")
    database.commit()
    database.close()
    complaint = store(program, "import", plug_in_file, tmp_path / "second", expect=1)[1]
    assert complaint == f"Error: {plug_in_file}: in row 1 of the table client_msgs: its state is 12.\n"
    assert not (tmp_path / "second").exists()


def test_an_import_of_the_plug_ins_database_that_is_killed_leaves_all_or_nothing(program, plug_in_file, tmp_path):
    for number in range(12):
        target = tmp_path / f"store-{number}"
        child = subprocess.Popen([program.path, "store", "import", str(plug_in_file), str(target)], stdout=subprocess.DEVNULL)
        time.sleep(number * 0.004)
        child.kill()
        child.wait()
        if not (target / "martlet.db").exists():
            store(program, "import", plug_in_file, target)
        assert Dump(program, target).payloads("keeper") == ["first"]


def test_brokers_with_other_persistence_files_share_a_directory(start_broker, wire_to, program, tmp_path):
    """Each has a store of its own, which the commands find by its name."""
    (tmp_path / "store").mkdir()
    configuration = "persistence true\npersistence_location {directory}/store\npersistence_file %s.db"
    first, second = (start_broker(configuration=configuration % name) for name in ("home", "garden"))
    assert wire_to(first.port, "mqttv311").connect("one", clean=False) == (False, 0)
    assert wire_to(second.port, "mqttv311").connect("one", clean=False) == (False, 0)
    assert wire_to(second.port, "mqttv311").connect("two", clean=False) == (False, 0)
    first.stop()
    second.stop()
    counts = {}
    for name in ("home", "garden"):
        said = store(program, "check", tmp_path / f"store/martlet-{name}.db")[0]
        counts[name] = dict(line.split() for line in said.splitlines()[1:])["session"]
    assert counts == {"home": "1", "garden": "2"}
    assert not (tmp_path / "store/martlet.db").exists()


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
    assert store(program, command, tmp_path, expect=1) == ("", f"Error: {tmp_path}/martlet.db: there is no store; name the directory that persistence_location names\n")


@pytest.mark.parametrize(
    "content, complaint",
    [
        (None, "No such file or directory."),
        (b"", "this is not a database of mosquitto: it does not begin like one."),
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

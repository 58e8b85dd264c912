"""A thousand clients go on while certificates, passwords, access rules and limits change: none is dropped, and no message is lost."""

import asyncio
import re
import resource
import signal
import socket
import ssl

import pytest
from harness.broker import Broker
from harness.certificates import Authority
from harness.load_client import LoadClient
from harness.ports import reserve_port
from harness.program import run
from harness.waiting import PATIENCE, wait_until
from harness.wire import CONNACK, CONNECT, PUBACK, Wire, frame, text

CLIENTS, OF_THEM_TLS = 1000, 200
#: How many messages each client sends between one change and the next, at least.
MESSAGES = 5
#: How many log in or shake hands at the same time.
AT_ONCE = 50
NOT_AUTHORIZED, PACKET_SIZE = 0x87, 0x27

pytestmark = [pytest.mark.martlet, pytest.mark.timeout(120)]

RULES = "user crowd\ntopic readwrite load/#\nuser visitor\n"


class Site:
    """A broker with a TLS listener beside the plain one, and the files that an operator changes."""

    def __init__(self, program, start_broker, directory, loops: int):
        self.program = program
        self.directory = directory
        self.secure_port = reserve_port()
        self.authority = Authority(directory / "certificates")
        self.issue_certificate()
        self.set_password("crowd", "first")
        self.set_password("visitor", "first")
        self.rules("")
        self.broker: Broker = start_broker(
            "--threads", str(loops),
            configuration=f"listener {{port}} 127.0.0.1\nallow_anonymous false\npassword_file {directory}/users\nacl_file {directory}/rules\n"
            f"max_packet_size 5000\nmax_inflight_messages 20\nmax_queued_messages 1000\nlog_type notice\n"
            f"listener {self.secure_port} 127.0.0.1\ncertfile {directory}/live/tls.crt\nkeyfile {directory}/live/tls.key\n",
            listener=False, verbose=False,
        )  # fmt: skip
        self.reloads = 0
        # A loop opens one listener after the other.
        wait_until(self._secure_listens, "the second listener listens")

    def _secure_listens(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.secure_port)) == 0

    def issue_certificate(self, name: str = "server0"):
        self.authority.issue(name)
        self.authority.publish(name, self.directory / "live")

    def set_password(self, user: str, password: str):
        path = self.directory / "users"
        done = run(self.program, "passwd", "-H", "sha512", *([] if path.exists() else ["-c"]), "-b", str(path), user, password)
        assert done.returncode == 0, done.stdout

    def rules(self, more: str):
        (self.directory / "rules").write_text(RULES + more)

    def limits(self, packet_bytes: int, in_flight: int):
        path = self.broker.configuration_path
        lines = re.sub(r"max_packet_size \d+", f"max_packet_size {packet_bytes}", path.read_text())
        path.write_text(re.sub(r"max_inflight_messages \d+", f"max_inflight_messages {in_flight}", lines))

    def reload(self):
        self.reloads += 1
        self.broker.signal(signal.SIGHUP)
        wait_until(lambda: self.broker.log.count("Config reloaded.") == self.reloads, "the config is reloaded", 3 * PATIENCE)

    # What newcomers find.

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority.certificate))

    def serial_number(self) -> str:
        wire = Wire(self.secure_port)
        wire.socket = self.context().wrap_socket(wire.socket, server_hostname="localhost")
        serial = wire.socket.getpeercert()["serialNumber"]
        wire.close()
        return serial

    def login(self, user: str, password: str) -> int:
        wire = Wire(self.broker.port)
        try:
            return wire.connect("newcomer", user=user, password=password)[1]
        finally:
            wire.close()

    def may_publish(self, topic: str, password: str) -> bool:
        wire = Wire(self.broker.port)
        assert wire.connect("newcomer", user="visitor", password=password)[1] == 0
        wire.publish(topic, qos=1)
        reason = wire.receive(PUBACK).body[2:3]
        wire.close()
        return reason != bytes([NOT_AUTHORIZED])

    def packet_bytes_max(self, password: str) -> int:
        wire = Wire(self.broker.port)
        head = text("MQTT") + b"\x05\xc2\x00\x3c\x00" + text("newcomer") + text("visitor") + text(password)
        wire.send(frame(CONNECT, 0, head))
        properties = wire.receive(CONNACK).body[3:]
        wire.close()
        found = re.search(bytes([PACKET_SIZE]) + b"(....)", properties, re.DOTALL)
        return int.from_bytes(found[1], "big")


def certificates_change(site: Site):
    before = site.serial_number()
    site.issue_certificate("server1")
    site.reload()
    assert site.serial_number() != before


def passwords_change(site: Site):
    site.set_password("visitor", "second")
    site.set_password("other", "new")
    site.reload()
    assert site.login("visitor", "first") == NOT_AUTHORIZED
    assert site.login("visitor", "second") == site.login("other", "new") == 0


def rules_change(site: Site):
    assert not site.may_publish("wide/open", "second")
    site.rules("topic write wide/open\n")
    site.reload()
    assert site.may_publish("wide/open", "second")
    site.rules("")
    site.reload()
    assert not site.may_publish("wide/open", "second")


def limits_change(site: Site):
    assert site.packet_bytes_max("second") == 5000
    site.limits(packet_bytes=3000, in_flight=2)
    site.reload()
    assert site.packet_bytes_max("second") == 3000
    site.limits(packet_bytes=4000, in_flight=50)
    site.reload()
    assert site.packet_bytes_max("second") == 4000


def everything_changes_at_once(site: Site):
    site.issue_certificate("server2")
    site.set_password("visitor", "third")
    site.rules("topic write wide/open\n")
    site.limits(packet_bytes=2000, in_flight=5)
    site.reload()
    assert site.login("visitor", "second") == NOT_AUTHORIZED
    assert site.may_publish("wide/open", "third")
    assert site.packet_bytes_max("third") == 2000


async def gather(work, count: int = AT_ONCE):
    """Awaits everything, so many at a time."""
    gate = asyncio.Semaphore(count)

    async def one(step):
        async with gate:
            await step

    await asyncio.gather(*(one(step) for step in work))


async def drive(site: Site):
    """Each client sends to the next one and everybody hears the first, from before the first change until after the last."""
    clients = [LoadClient(f"client{number}", 5 - number % 2) for number in range(CLIENTS)]
    context = site.context()

    async def join(number: int):
        secure = number < OF_THEM_TLS
        port = site.secure_port if secure else site.broker.port
        await clients[number].connect(port, "crowd", "first", context if secure else None)
        await clients[number].subscribe(f"load/{number}", "load/all")

    await gather(join(number) for number in range(CLIENTS))
    is_over = asyncio.Event()

    async def send(number: int):
        while not is_over.is_set():
            await clients[number].publish(f"load/{(number + 1) % CLIENTS}", clients[number].published)

    async def announce() -> int:
        count = 0
        speaker = LoadClient("speaker", 5)
        await speaker.connect(site.broker.port, "crowd", "first")
        while not is_over.is_set():
            await speaker.publish("load/all", count)
            count += 1
            await asyncio.sleep(0.1)  # a pace, not a wait
        speaker.close()
        return count

    speaker = asyncio.create_task(announce())
    senders = asyncio.gather(*(send(number) for number in range(CLIENTS)))
    await asyncio.sleep(0)
    for change in [certificates_change, passwords_change, rules_change, limits_change, everything_changes_at_once]:
        before = [client.published for client in clients]
        await asyncio.to_thread(change, site)
        # Nobody stands still.
        while any(client.published < count + MESSAGES for client, count in zip(clients, before)):
            assert not senders.done(), senders.exception()
            await asyncio.sleep(0.01)
    is_over.set()
    await senders
    announcements = await speaker

    # The broker answers a ping after all that it had for the client before, as far as the window went.
    def missing() -> list[str]:
        found = []
        for number, client in enumerate(clients):
            expected = {f"load/{number}": clients[number - 1].published, "load/all": announcements}
            found += [f"{client.name} of {topic}" for topic, count in expected.items() if len(client.received.get(topic, [])) < count]
        return found

    deadline = asyncio.get_running_loop().time() + PATIENCE
    while missing() and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.01)
    await asyncio.gather(*(client.ping() for client in clients))
    for number, client in enumerate(clients):
        assert client.ending is None, f"{client.name}: {client.ending}"
        assert client.received[f"load/{number}"] == list(range(clients[number - 1].published)), client.name
        assert client.received["load/all"] == list(range(announcements)), client.name
        client.close()


@pytest.fixture
def many_files():
    """Lets this process have a thousand sockets and more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 8192), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("loops", [1, 4])
def test_a_thousand_clients_go_on_while_everything_changes(program, start_broker, tmp_path, many_files, loops):
    asyncio.run(drive(Site(program, start_broker, tmp_path, loops)))

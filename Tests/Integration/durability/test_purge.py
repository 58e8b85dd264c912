"""A topic is purged out of a queue of which only the disk has the most: what is left comes in order, through a kill as well."""

import hashlib
import json

import pytest
from harness.broker import Broker
from harness.ports import reserve_port
from harness.site import Site
from harness.wire import PUBACK, PUBLISH, Wire, frame, text

#: How many messages wait; memory has 256 of them.
COUNT = 3000
#: Messages sent before their acknowledgements are read.
BATCH = 200

pytestmark = pytest.mark.martlet("2.0 has no HTTP")


@pytest.fixture
def site(start_broker, tmp_path) -> Site:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"admin:admin:{hashlib.sha256(b'mrt_admin').hexdigest()}\n")
    (tmp_path / "store").mkdir()
    port = reserve_port()
    broker = start_broker(
        configuration=f"persistence true\npersistence_location {tmp_path}/store\nmax_queued_messages 0\n"
        f"martlet_http_token_file {tokens}\nlistener {port} 127.0.0.1\nprotocol http_api\n"
    )
    return Site(broker, port, headers={"Authorization": "Bearer mrt_admin"})


def topic(number: int) -> str:
    """Two topics, without a pattern that a count could hide."""
    return "plant/drop" if number * number % 7 in (1, 2) else "plant/keep"


def fill(broker: Broker, numbers: range):
    """Publishes these numbers and returns when all are acknowledged."""
    publisher = Wire(broker.port, "mqttv311")
    publisher.connect("publisher")
    for first in range(0, len(numbers), BATCH):
        part = numbers[first : first + BATCH]
        packets = [text(topic(number)) + (place + 1).to_bytes(2, "big") + str(number).encode() for place, number in enumerate(part)]
        publisher.send(b"".join(frame(PUBLISH, 2, packet) for packet in packets))
        for _ in part:
            assert publisher.receive(PUBACK), "a message is not acknowledged"
    publisher.disconnect()


def purge(site: Site, filter: str) -> int:
    answer = site.ask(f"/api/martlet/v1/clients/away/queue?filter={filter}", "DELETE")
    assert answer.status == 200, answer.body
    return json.loads(answer.body)["removed"]


def drain(broker: Broker, count: int) -> list[int]:
    """So many messages of the client that was away; nothing may follow."""
    client = Wire(broker.port, "mqttv311")
    assert client.connect("away", clean=False)[0], "the session is there"
    numbers = []
    while len(numbers) < count:
        packet = client.receive(PUBLISH)
        assert packet, f"after {len(numbers)} messages none comes"
        numbers.append(int(packet.body[4 + len(packet.topic) :]))
        client.acknowledge(PUBACK, packet.identifier)
    client.ping()  # its answer would come behind a message
    client.close()
    return numbers


@pytest.mark.parametrize("killed", ["never", "before", "after"])
def test_one_topic_of_a_long_queue_is_purged(site, killed):
    broker = site.broker
    absent = Wire(broker.port, "mqttv311")
    absent.connect("away", clean=False)
    absent.subscribe("plant/#", 1)
    absent.close()

    fill(broker, range(COUNT))
    if killed == "before":
        broker.kill()
        broker.restart()
        site.__post_init__()
    dropped = [number for number in range(COUNT) if topic(number) == "plant/drop"]
    assert purge(site, "plant/drop") == len(dropped)
    if killed == "after":  # at once: the answer says that it is on the disk
        broker.kill()
        broker.restart()
        site.__post_init__()
    assert purge(site, "plant/drop") == 0
    fill(broker, range(COUNT, COUNT + 20))

    expected = [number for number in range(COUNT) if topic(number) == "plant/keep"] + list(range(COUNT, COUNT + 20))
    assert drain(broker, len(expected)) == expected
    assert drain(broker, 0) == []
    assert purge(site, "%23") == 0

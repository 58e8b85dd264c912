"""What a broker sees in its life, far more often than in one: clients that come, go, are cut off and take each other's places."""

import random
import socket
from collections.abc import Iterator

from harness.waiting import PATIENCE
from harness.wire import DISCONNECT, PINGREQ, PUBACK, PUBREL, frame

from abuse.crowd import SEED, Crowd, connect_packet, publish_packet, receive, subscribe_packet, try_send

#: Names of clients whose sessions outlive their connections, and that take each other over.
NAMES = 200
#: Seconds that such a session is kept.
EXPIRY = 2
#: Topics with retained messages, at most.
RETAINED = 500
#: Connections that stay open at any time.
RESIDENTS = 100
BYE = frame(DISCONNECT, 0, b"")


def life(port: str) -> Iterator[None]:
    """A client comes, and one goes: of a new name or of one of NAMES; it subscribes, publishes, and says goodbye or does not."""
    crowd, chance = Crowd(int(port)), random.Random(SEED)
    residents = []
    number = 0
    while True:
        number += 1
        if chance.random() < 0.5:
            name, clean, expiry = f"known-{chance.randrange(NAMES)}", chance.random() < 0.3, EXPIRY
        else:
            name, clean, expiry = chance.choice(["", f"new-{number}"]), True, 0
        will = (f"life/will/{number % 50}", b"x" * chance.randrange(500)) if chance.random() < 0.2 else None
        connection = crowd.open(connect_packet(name, clean=clean, expiry=expiry, will=will), words(chance, number))
        if connection:
            residents.append(connection)
        if len(residents) > RESIDENTS:
            leave(chance, residents.pop(chance.randrange(RESIDENTS)))
        yield


def words(chance: random.Random, number: int) -> bytes:
    """What a client says once it is connected: topics of its own, topics of everybody, each QoS, retained messages and their end."""
    said = b""
    if chance.random() < 0.7:
        filters = [f"life/{chance.randrange(50)}/+", f"life/own/{number}/#", f"$share/life/life/{chance.randrange(50)}/#", "life/will/+"]
        said += subscribe_packet(chance.sample(filters, chance.randrange(1, 4)), qos=chance.randrange(3), subscription=chance.randrange(3))
    for identifier in range(1, chance.randrange(1, 5)):
        qos, payload = chance.randrange(3), b"x" * chance.choice([0, 10, 100, 1000, 10_000])
        topic = chance.choice([f"life/{chance.randrange(50)}/x", f"life/own/{number}/x"])
        said += publish_packet(topic, payload, qos=qos, identifier=identifier)
        if qos == 2 and chance.random() < 0.8:
            said += frame(PUBREL, 2, identifier.to_bytes(2))
    if chance.random() < 0.5:
        # Set in one round, and taken away in the next.
        payload = b"x" * chance.randrange(1, 1000) if number // RETAINED % 2 else b""
        said += publish_packet(f"life/retained/{number % RETAINED}", payload, retain=True)
        said += publish_packet(f"life/passing/{number}", b"x", retain=True) + publish_packet(f"life/passing/{number}", b"", retain=True)
    return said


def leave(chance: random.Random, connection):
    """Reads what came and goes, with a word, without one, or in the middle of one; sometimes acknowledges something."""
    connection.setblocking(False)
    receive(connection, 20_000)
    connection.settimeout(PATIENCE)
    if chance.random() < 0.5:
        try_send(connection, frame(PUBACK, 0, chance.randrange(1, 4).to_bytes(2)))
    try_send(connection, chance.choice([b"", BYE, BYE, publish_packet("life/cut", b"x" * 1000)[:-100]]))
    connection.close()


def fill_caches(port: int):
    """Fills what has a fixed size and is filled by clients, so that it grows no more.

    That is the cache of matches: 16,384 places, which the topics' hashes choose, of 300 bytes each; so 13,000 clients with a topic of their
    own each add 3.6 MB once. And the 8 MB of the store's pages that SQLite keeps in memory.
    """
    filler = Crowd(port).open(connect_packet("filler"))
    for first in range(0, 200_000, 1000):
        filler.sendall(b"".join(publish_packet(f"life/named/{number}/by/the/filler", b"") for number in range(first, first + 1000)))
    for payload in (b"x" * 10_000, b""):
        for number in range(2000):
            filler.sendall(publish_packet(f"life/filled/{number}", payload, retain=True))
        wait_answered(filler)
    filler.close()


def wait_answered(connection: socket.socket):
    """Until all is done that was sent before."""
    connection.sendall(frame(PINGREQ, 0, b""))
    while receive(connection, 1) != b"\xd0":
        pass


def take_away(port: int):
    """All that such a life leaves behind: sessions and retained messages."""
    crowd = Crowd(port)
    for number in range(NAMES):
        if connection := crowd.open(connect_packet(f"known-{number}")):
            assert receive(connection, 4)[:1] == b"\x20"
            connection.close()
    cleaner = crowd.open(connect_packet("cleaner"))
    for number in range(RETAINED):
        cleaner.sendall(publish_packet(f"life/retained/{number}", b"", retain=True))
    wait_answered(cleaner)
    cleaner.close()

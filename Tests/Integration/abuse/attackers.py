"""Those who wish the broker ill, one function each; strike.py makes programs of them.

That the broker ends a connection, or refuses it, is no failure of an attacker's.
"""

import hashlib
import random
import ssl
import time
from collections.abc import Iterator

from harness.wire import CONNECT, DISCONNECT, frame, text, variable_length

from abuse.crowd import SEED, Crowd, Ring, connect_packet, is_over, publish_packet, receive, subscribe_packet, try_send

#: At once, by one attacker, unless it says otherwise.
CONNECTIONS = 100

# Each takes the port and what else it needs, and yields once for each time it has done its worst.


def malformed(port: str) -> Iterator[None]:
    """Every malformed input of the conformance tables, as it is, cut short, doubled, and with bytes exchanged."""
    from conformance.input_cases import TABLES, read_cases

    cases = [case for table in sorted(TABLES.glob("*.txt")) for case in read_cases(table.stem)]
    heads = {level: plain_connect(level) for level in (3, 4, 5)}
    crowd, ring, chance = Crowd(int(port)), Ring(50), random.Random(SEED)
    while True:
        case = chance.choice(cases)
        data = bytearray(case.sent)
        match chance.randrange(4):
            case 0:
                del data[chance.randrange(len(data) + 1) :]
            case 1:
                data = data + data
            case 2:
                for _ in range(1 + len(data) // 16):
                    data[chance.randrange(len(data))] = chance.randrange(256)
        ring.add(crowd.open(heads[case.level] if case.stage == "connected" else b"", bytes(data)))
        yield


def plain_connect(level: int) -> bytes:
    name = "MQIsdp" if level == 3 else "MQTT"
    return frame(CONNECT, 0, text(name) + bytes([level, 2, 0, 0]) + (b"\0" if level == 5 else b"") + text("malformed" if level == 3 else ""))


def slowloris(port: str, kind: str) -> Iterator[None]:
    """Connections that say what they have to say one byte at a time; who is sent away comes back."""
    said = {"tcp": tcp_words, "tls": tls_words, "websocket": websocket_words, "proxy": proxy_words}[kind]()
    crowd = Crowd(int(port))
    places = [(None, 0)] * CONNECTIONS
    while True:
        for index, (connection, position) in enumerate(places):
            if is_over(connection) or not try_send(connection, said[position % len(said) :][:1]):
                if connection:
                    connection.close()
                connection, position = crowd.open(said[:1]), 0
            places[index] = (connection, position + 1)
            yield


def tcp_words() -> bytes:
    return frame(CONNECT, 0, text("MQTT") + b"\x05\x02\x00\x3c\x00" + text("x" * 60000))


def tls_words() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        hello.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def websocket_words() -> bytes:
    return b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(1000))


def proxy_words() -> bytes:
    return b"PROXY TCP6 " + b"2001:0db8:0000:0000:0000:0000:0000:0001 " * 2


def stalled_readers(port: str, payload_bytes: str) -> Iterator[None]:
    """Subscribers that never read, and who publishes to them."""
    crowd = Crowd(int(port))
    publisher = crowd.open(connect_packet("stalled-publisher"))
    readers = []
    for number in range(30):
        reader = crowd.open(connect_packet(f"stalled-{number}"), window=4096)
        try_send(reader, subscribe_packet(["stalled/#"]))
        readers.append(reader)
    number = 0
    while True:
        number += 1
        # Small ones between them keep the run of messages long.
        size = int(payload_bytes) if number % 3 == 0 else 10
        if is_over(publisher) or not try_send(publisher, publish_packet(f"stalled/{number % 10}", b"x" * size)):
            publisher = crowd.open(connect_packet("stalled-publisher"))
        yield


def subscription_bomb(port: str, kind: str) -> Iterator[None]:
    """One SUBSCRIBE with as many filters as fit, and messages that match them."""
    crowd, number = Crowd(int(port)), 0
    filters, identifier, qos = bomb_filters(kind)
    while True:
        number += 1
        connection = crowd.open(connect_packet(f"bomb-{number}"), subscribe_packet(filters, qos=qos, subscription=identifier))
        if connection:
            topic = "/".join("abcdefghijkl")
            try_send(connection, b"".join(publish_packet(topic, b"boom", qos=qos and 2, identifier=id) for id in (1, 2, 3)))
            head = receive(connection, 2)
            connection.settimeout(0.5)
            receive(connection, len(filters) if head else 0)
            connection.close()
        yield


def bomb_filters(kind: str) -> tuple[list[str], int, int]:
    """Filters, subscription identifier, QoS."""
    levels = "abcdefghijkl"
    overlapping = ["/".join("+" if number >> level & 1 else levels[level] for level in range(12)) for number in range(4096)]
    match kind:
        case "equal":
            return ["a/+"] * 8000, 0, 0
        case "distinct":
            return [f"{number}/+/x" for number in range(8000)], 0, 0
        case "overlapping":
            return overlapping, 7, 1
        case "groups":
            return [f"$share/{number}/{filter}" for number, filter in enumerate(overlapping[:2000])], 0, 2
        case "one group":
            return [f"$share/g/{filter}" for filter in overlapping], 0, 2
    raise ValueError(kind)


def connect_storm(port: str) -> Iterator[None]:
    """Connections that come and go: at once, with half a CONNECT, with a whole one, with a session that stays for a second."""
    crowd, ring, number = Crowd(int(port)), Ring(CONNECTIONS), 0
    while True:
        number += 1
        match number % 5:
            case 0:
                ring.add(crowd.open())
            case 1:
                ring.add(crowd.open(connect_packet("half")[:9]))
            case 2:
                ring.add(crowd.open(connect_packet(""), frame(DISCONNECT, 0, b"")))
            case 3:
                ring.add(crowd.open(connect_packet(f"storm-{number}", expiry=1), subscribe_packet([f"storm/{number}/+"], qos=1)))
            case 4:
                ring.add(crowd.open(connect_packet(f"storm-{number}"), subscribe_packet(["storm/#"]), publish_packet("storm/x", b"x" * 100)))
        yield


def will_storm(port: str) -> Iterator[None]:
    """Clients that die, each with a will, and some who are interested in it."""
    crowd, number = Crowd(int(port)), 0
    heirs = [crowd.open(connect_packet(f"heir-{index}"), subscribe_packet(["will/#"], qos=1)) for index in range(10)]
    ring = Ring(20)
    while True:
        number += 1
        ring.add(crowd.open(connect_packet(f"mortal-{number}", will=(f"will/{number % 1000}", b"x" * 1000))))
        for heir in heirs:
            is_over(heir)
        yield


def login_storm(port: str, user: str) -> Iterator[None]:
    """200 wrong passwords on their way at any time."""
    crowd, number = Crowd(int(port)), 0
    places: list[socket.socket | None] = [None] * 200
    while True:
        for index, connection in enumerate(places):
            if is_over(connection):
                if connection:
                    connection.close()
                number += 1
                name = user if number % 2 else f"nobody-{number}"
                places[index] = crowd.open(connect_packet(f"guess-{number}", login=(name, f"wrong-{number}")))
                yield
        time.sleep(0.005)
        yield


def takeover_loop(port: str) -> Iterator[None]:
    """Two who both call themselves the same, with a session that lasts, and one who floods it."""
    crowd, ring = Crowd(int(port)), Ring(10)
    flood = crowd.open(connect_packet("takeover-flood"))
    number = 0
    while True:
        number += 1
        lasting = number % 2
        name = "contested-lasting" if lasting else "contested"
        ring.add(crowd.open(connect_packet(name, clean=not lasting, expiry=2), subscribe_packet(["takeover/#"], qos=1)))
        if is_over(flood) or not try_send(flood, publish_packet("takeover/x", b"x" * 100)):
            flood = crowd.open(connect_packet("takeover-flood"))
        yield


def huge_packets(port: str, claimed: str, sent: str) -> Iterator[None]:
    """Packets that claim to be huge: a part comes, the rest never does. Before the login and after it."""
    crowd, ring, number = Crowd(int(port)), Ring(CONNECTIONS), 0
    part = b"x" * int(sent)
    while True:
        number += 1
        length = variable_length(int(claimed))
        if number % 2:
            ring.add(crowd.open(b"\x10" + length + text("MQTT") + b"\x05\x02\x00\x3c\x00" + b"\xff\xff" + part))
        else:
            ring.add(crowd.open(connect_packet(f"huge-{number}"), b"\x30" + length + text("huge") + b"\0" + part))
        yield


def descriptors(port: str, count: str) -> Iterator[None]:
    """More connections than the broker may have descriptors, all held."""
    crowd, held = Crowd(int(port)), []
    while True:
        if len(held) < int(count):
            connection = crowd.open()
            if connection:
                held.append(connection)
        else:
            # Who is let in after all finds its place taken by the next one.
            held.pop(0).close()
        yield


def disk_filler(port: str) -> Iterator[None]:
    """Retained messages on ever new topics, and a queue for somebody who is away."""
    crowd, number, publisher = Crowd(int(port)), 0, None
    away = crowd.open(connect_packet("away", clean=False, expiry=600), subscribe_packet(["away/#"], qos=1))
    if away:
        receive(away, 10)
        away.close()
    payload = hashlib.sha512(b"incompressible").digest() * 32
    while True:
        number += 1
        topic = f"away/{number}" if number % 2 else f"retained/{number}"
        data = publish_packet(topic, payload, qos=1, identifier=number % 60000 + 1, retain=number % 2 == 0)
        if is_over(publisher) or not try_send(publisher, data):
            publisher = crowd.open(connect_packet("disk-filler"))
        yield

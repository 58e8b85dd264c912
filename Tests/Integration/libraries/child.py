"""A client library of another language: a small program beside this file that obeys a command per line.

A program has one client, or several; then the client's number stands before each line, and the program ends with the tests.
A line is a verb and fields, `verb name=value name=value`; numbers are decimal, texts and bytes hexadecimal, absent means absent,
and a name may come again. The commands, and what the program says to each:

    connect version= port= client_id= clean= expiry_seconds= keep_alive=  connected session_present= reason= [assigned_client_id=]
            [receive_maximum=] [by_hand=]                                            [receive_maximum=] [topic_alias_maximum=]
            [will_topic= will_payload= will_qos= will_retain=]                       [maximum_packet_size=]
    subscribe qos= no_local= retain_as_published= retain_handling=        subscribed reason= reason= ...
            [identifier=] filter= filter= ...
    unsubscribe filter=                                                   unsubscribed
    publish ticket= topic= payload= qos= retain= [property= ...]          published ticket=    when the handshake is over
    acknowledge handle=
    disconnect                                                            ended
    drop                           of several clients only                ended
    and of itself: message topic= payload= qos= retain= handle= [property= ...], ended reason=, failed why=

The properties are the fields of `Properties`, with `key=` and `value=` for each user property. A crash is the end of the process, or
`drop`, the end of the connection without a word.
"""

import atexit
import itertools
import os
import queue
import subprocess
import threading
from abc import abstractmethod

from harness.waiting import PATIENCE

from libraries.client import Connected, LibraryClient, Message, Properties, Session


class Fields:
    """The fields of one line."""

    def __init__(self, words: list[str]):
        self.pairs = [word.split("=", 1) for word in words]

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]

    def numbers(self, name: str) -> list[int]:
        return [int(value) for value in self.all(name)]

    def texts(self, name: str) -> list[str]:
        return [bytes.fromhex(value).decode() for value in self.all(name)]

    def number(self, name: str) -> int | None:
        return next(iter(self.numbers(name)), None)

    def data(self, name: str) -> bytes | None:
        return next((bytes.fromhex(value) for value in self.all(name)), None)

    def text(self, name: str) -> str | None:
        return next(iter(self.texts(name)), None)


class Ticket:
    """A publication on its way."""

    def __init__(self):
        self.over = threading.Event()

    def is_published(self) -> bool:
        return self.over.is_set()


class Program:
    """A process, and the clients in it by their numbers; its only one has none."""

    def __init__(self, command: list[str], environment: dict[str, str]):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environment})
        self.clients: dict[str, ChildClient] = {}
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def tell(self, words: list[str]):
        self.process.stdin.write((" ".join(words) + "\n").encode())
        self.process.stdin.flush()

    def _read(self):
        for line in self.process.stdout:
            words = line.decode().split()
            number = words.pop(0) if words[0].isdecimal() else ""
            if client := self.clients.get(number):
                client.hear(*words)
        for client in list(self.clients.values()):
            client.hear("ended")
            client.hear("failed", f"why={b'the program ended'.hex()}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # a command that it did not live to read


class ChildClient(LibraryClient):
    #: Whether all clients are in one process, because it takes long to start.
    shares_program = False
    #: That one.
    program_of_all: Program | None = None
    last_number = itertools.count(1)

    def __init__(self, port: int, version: int, session: Session):
        super().__init__(port, version, session)
        self.messages: queue.Queue[Message] = queue.Queue()
        self.answers: queue.Queue[tuple[str, Fields]] = queue.Queue()
        self.tickets: dict[int, Ticket] = {}
        self.numbers = itertools.count(1)
        self.ended = threading.Event()
        self.ending_reason = 0
        own = type(self)
        if own.shares_program and own.program_of_all is None:
            own.program_of_all = Program(self.command(), self.environment())
            atexit.register(own.program_of_all.kill)
        self.number = str(next(self.last_number)) if own.shares_program else ""
        self.program = own.program_of_all or Program(self.command(), self.environment())
        self.program.clients[self.number] = self

    @classmethod
    @abstractmethod
    def command(cls) -> list[str]:
        """What starts the program."""

    @classmethod
    def environment(cls) -> dict[str, str]:
        return {}

    def hear(self, verb: str, *words: str):
        fields = Fields(list(words))
        if verb == "message":
            self.messages.put(self._message(fields))
        elif verb == "published":
            self.tickets[fields.number("ticket")].over.set()
        elif verb == "ended":
            if not self.ended.is_set():
                self.ending_reason = fields.number("reason") or 0
            self.ended.set()
        else:
            self.answers.put((verb, fields))

    @staticmethod
    def _message(fields: Fields) -> Message:
        return Message(
            fields.text("topic"),
            fields.data("payload"),
            fields.number("qos"),
            bool(fields.number("retain")),
            Properties(
                fields.text("content_type"),
                fields.text("response_topic"),
                fields.data("correlation_data"),
                fields.number("payload_format"),
                fields.number("expiry_seconds"),
                fields.number("topic_alias"),
                tuple(zip(fields.texts("key"), fields.texts("value"), strict=True)),
                tuple(fields.numbers("subscription_identifier")),
            ),
            fields.number("handle"),
        )

    def _tell(self, verb: str, *fields: tuple[str, object]):
        words = [self.number, verb] if self.number else [verb]
        for name, value in fields:
            if value is not None:
                value = value.encode() if isinstance(value, str) else value
                words.append(f"{name}={value.hex() if isinstance(value, bytes) else int(value)}")
        self.program.tell(words)

    def _answer(self, verb: str) -> Fields:
        try:
            given, fields = self.answers.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"the program never says {verb!r}") from None
        assert given == verb, f"{given} instead of {verb}: {fields.text('why')}"
        return fields

    def connect(self) -> Connected:
        session, will = self.session, self.session.will
        self._tell(
            "connect",
            ("version", self.version),
            ("port", self.port),
            ("client_id", session.client_id),
            ("clean", session.clean),
            ("expiry_seconds", session.expiry_seconds),
            ("keep_alive", session.keep_alive),
            ("receive_maximum", session.receive_maximum),
            ("by_hand", session.acknowledges_by_hand),
            ("will_topic", will and will.topic),
            ("will_payload", will and will.payload),
            ("will_qos", will and will.qos),
            ("will_retain", will and will.retain),
        )
        given = self._answer("connected")
        return Connected(
            bool(given.number("session_present")),
            given.number("reason"),
            given.text("assigned_client_id"),
            given.number("receive_maximum"),
            given.number("topic_alias_maximum"),
            given.number("maximum_packet_size"),
        )

    def subscribe(
        self, *filters, qos=0, no_local=False, retain_as_published=False, retain_handling=0, identifier=None
    ) -> list[int]:
        self._tell(
            "subscribe",
            ("qos", qos),
            ("no_local", no_local),
            ("retain_as_published", retain_as_published),
            ("retain_handling", retain_handling),
            ("identifier", identifier),
            *(("filter", filter) for filter in filters),
        )
        return self._answer("subscribed").numbers("reason")

    def unsubscribe(self, filter):
        self._tell("unsubscribe", ("filter", filter))
        self._answer("unsubscribed")

    def publish(self, topic, payload, *, qos=0, retain=False, properties=None):
        ticket = self._publish(topic, payload, qos, retain, properties or Properties())
        assert ticket.over.wait(PATIENCE), f"no handshake for {topic}"

    def start_publishing(self, topic, payload, *, qos):
        return self._publish(topic, payload, qos, False, Properties())

    def _publish(self, topic: str, payload: bytes, qos: int, retain: bool, properties: Properties) -> Ticket:
        number = next(self.numbers)
        ticket = self.tickets[number] = Ticket()
        self._tell(
            "publish",
            ("ticket", number),
            ("topic", topic),
            ("payload", payload),
            ("qos", qos),
            ("retain", retain),
            ("content_type", properties.content_type),
            ("response_topic", properties.response_topic),
            ("correlation_data", properties.correlation_data),
            ("payload_format", properties.payload_format),
            ("expiry_seconds", properties.expiry_seconds),
            ("topic_alias", properties.topic_alias),
            *(pair for key, value in properties.user for pair in [("key", key), ("value", value)]),
        )
        return ticket

    def next_message(self, seconds=PATIENCE) -> Message:
        try:
            return self.messages.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no message for {self.session.client_id!r}") from None

    def acknowledge(self, message):
        self._tell("acknowledge", ("handle", message.handle))

    def disconnect(self):
        self._tell("disconnect")
        assert self.ended.wait(PATIENCE)

    def drop(self):
        if not self.shares_program:
            return self.program.kill()
        if self.number in self.program.clients:
            self._tell("drop")
            assert self.ended.wait(PATIENCE)
            del self.program.clients[self.number]

    def wait_disconnected(self, seconds=PATIENCE) -> int:
        assert self.ended.wait(seconds), "the broker does not end the connection"
        return self.ending_reason

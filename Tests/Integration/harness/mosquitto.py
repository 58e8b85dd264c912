"""mosquitto_pub, mosquitto_sub and mosquitto_rr, the clients that everybody has, as a test drives them."""

import itertools
import subprocess
from dataclasses import dataclass, field

from harness.lines import LineProcess
from harness.waiting import PATIENCE

VERSIONS = ["mqttv31", "mqttv311", "mqttv5"]

_counter = itertools.count(1)


@dataclass(frozen=True)
class Message:
    """An application message as mosquitto_sub prints it."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    content_type: str = ""
    response_topic: str = ""
    correlation_data: str = ""
    expiry_seconds: str = ""
    payload_format: str = ""
    subscription_identifiers: str = ""
    user_properties: str = field(default="")

    #: A line that starts so is a message; everything else is what the client says about itself.
    MARK = ">> "
    FORMAT = MARK + "%t|%x|%q|%r|%C|%R|%D|%E|%F|%S|%P"

    @staticmethod
    def parsed(line: str) -> "Message":
        topic, payload, qos, retain, *properties = line.removeprefix(Message.MARK).split("|")
        return Message(topic, bytes.fromhex(payload), int(qos), retain == "1", *properties)


class Subscriber(LineProcess):
    """A mosquitto_sub that is subscribed by the time its constructor returns."""

    def __init__(self, tools: "Tools", topics, *, qos, version, client_id, arguments):
        self.tools = tools
        self.qos = qos
        self.fence_topic = f"fence/{next(_counter)}"
        self._taken = 0
        command = ["mosquitto_sub", *tools.address, "-d", "-V", version, "-q", str(qos), "-F", Message.FORMAT]
        if client_id:
            command += ["-i", client_id]
        for topic in [*topics, self.fence_topic]:
            command += ["-t", topic]
        super().__init__([*command, *arguments])

    def wait_subscribed(self) -> "Subscriber":
        self.wait_line(lambda line: line.startswith("Subscribed (mid"), "SUBACK")
        return self

    def take(self, count: int = 1) -> list[Message]:
        """The next messages, in the order in which they came."""
        messages = []
        while len(messages) < count:
            messages.append(self._next())
        return messages

    def take_one(self, seconds: float = PATIENCE) -> Message:
        return self._next(seconds)

    def take_rest(self) -> list[Message]:
        """All that was still coming: what arrives ahead of a message that is sent now, with the same handshake."""
        self.tools.publish(self.fence_topic, "fence", qos=max(1, self.qos))
        messages = []
        while (message := self._next()).topic != self.fence_topic:
            messages.append(message)
        return messages

    def _next(self, seconds: float = PATIENCE) -> Message:
        index = self.wait_line(lambda line: line.startswith(Message.MARK), "a message", after=self._taken, seconds=seconds)
        self._taken = index + 1
        return Message.parsed(self.lines[index])


class Tools:
    """Runs the programs against one broker, and ends those that are left when the test is over."""

    def __init__(self, port: int):
        self.address = ["-h", "127.0.0.1", "-p", str(port)]
        self._running: list[LineProcess] = []

    def subscribe(self, *topics, qos=0, version="mqttv5", client_id=None, arguments=(), wait=True) -> Subscriber:
        subscriber = Subscriber(
            self, topics, qos=qos, version=version, client_id=client_id, arguments=list(arguments)
        )
        self._running.append(subscriber)
        return subscriber.wait_subscribed() if wait else subscriber

    def publish(
        self, topic, payload=None, *, qos=0, retain=False, version="mqttv5", arguments=(), standard_input=None, expect=0
    ) -> str:
        """Publishes and returns when the QoS's handshake is done; the answer is what mosquitto_pub said."""
        command = ["mosquitto_pub", *self.address, "-d", "-V", version, "-t", topic, "-q", str(qos)]
        if payload is not None:
            command += ["-m", payload] if payload else ["-n"]
        if retain:
            command.append("-r")
        done = self._run([*command, *arguments], standard_input)
        assert done.returncode == expect, done.stdout.decode(errors="replace")
        return done.stdout.decode(errors="replace")

    def request(self, topic, response_topic, payload, *, version="mqttv5", arguments=()) -> bytes:
        """Asks with mosquitto_rr and returns the answer."""
        command = ["mosquitto_rr", *self.address, "-V", version, "-t", topic, "-e", response_topic, "-m", payload, "-N"]
        done = self._run([*command, *arguments], None)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def start(self, *command: str) -> LineProcess:
        """Any client program, with the broker's address."""
        process = LineProcess([command[0], *self.address, *command[1:]])
        self._running.append(process)
        return process

    @staticmethod
    def _run(command, standard_input) -> subprocess.CompletedProcess:
        return subprocess.run(
            command,
            input=standard_input if standard_input is not None else b"",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE * 2,
        )

    def close(self):
        for process in self._running:
            process.kill()

"""What a client library has to be able to do for the scenarios to be run with it.

A library is one file beside this one: an adapter, a subclass of `LibraryClient`, and the classes of scenarios that it runs.
Methods block until the broker has answered. A library of another language is driven through a child process of its own; its
adapter is then the few lines that pass these calls on.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from harness.waiting import PATIENCE


@dataclass(frozen=True)
class Properties:
    """The properties of a message that an application sees. None and empty mean absent."""

    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    payload_format: int | None = None
    expiry_seconds: int | None = None
    topic_alias: int | None = None
    user: tuple[tuple[str, str], ...] = ()
    subscription_identifiers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Message:
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default=Properties(), compare=False)
    #: What the library needs to acknowledge it by hand.
    handle: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Session:
    """How a client wants to be known."""

    client_id: str = ""
    clean: bool = True
    expiry_seconds: int = 0
    keep_alive: int = 60
    will: Message | None = None
    receive_maximum: int | None = None
    #: Acknowledgements are the test's affair, not the library's.
    acknowledges_by_hand: bool = False


@dataclass(frozen=True)
class Connected:
    session_present: bool
    reason: int
    assigned_client_id: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    maximum_packet_size: int | None = None


class LibraryClient(ABC):
    """One client of one library, for one protocol version (3, 4 or 5)."""

    #: How many there are at once where that is what is tested.
    crowd = 50

    def __init__(self, port: int, version: int, session: Session):
        self.port = port
        self.version = version
        self.session = session

    @abstractmethod
    def connect(self) -> Connected: ...

    @abstractmethod
    def subscribe(
        self,
        *filters: str,
        qos: int = 0,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        identifier: int | None = None,
    ) -> list[int]:
        """The reason code, or granted quality of service, of each filter."""

    @abstractmethod
    def unsubscribe(self, filter: str): ...

    @abstractmethod
    def publish(
        self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False, properties: Properties | None = None
    ):
        """Returns when the handshake of the quality of service is over."""

    @abstractmethod
    def start_publishing(self, topic: str, payload: bytes, *, qos: int) -> object:
        """Sends, and does not wait; what it returns says with `is_published()` whether the handshake is over."""

    @abstractmethod
    def next_message(self, seconds: float = PATIENCE) -> Message: ...

    @abstractmethod
    def acknowledge(self, message: Message): ...

    @abstractmethod
    def disconnect(self): ...

    @abstractmethod
    def drop(self):
        """Ends the connection as a crash does, and the library's own reconnecting with it."""

    @abstractmethod
    def wait_disconnected(self, seconds: float = PATIENCE) -> int:
        """Waits until the broker ends the connection; the reason code of its DISCONNECT, 0 without one."""

"""What is measured: one row of the report each."""
import dataclasses

# What a broker may lack. The floor has nothing but exact topics at QoS 0, and the one with a store delivers nothing.
(WILDCARDS, SHARED, ACKNOWLEDGED, EXACTLY_ONCE, VERSION_5, RETAINED, STORE, DELIVERY, ACCESS, ADMINISTRATION, BRIDGE, CLUSTER,
 CONNECTIONS) = (
    "wildcards", "shared", "acknowledged", "exactly once", "version 5", "retained", "store", "delivery", "access rules", "administration",
    "bridge", "cluster", "several connections a bridge")

# What a row's connections go through, as the broker's listener has it.
TCP, TLS, TLS_RSA, WEBSOCKET = ("TCP", "TLS, P-256", "TLS, RSA 2048", "WebSocket")


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a result: its name in the JSON, the words and unit in the report, and whether more of it is better."""

    key: str
    label: str
    unit: str
    more_is_better: bool
    digits: int
    scale: float = 1.0
    # Parts of a figure that is told already have no ratio of their own.
    has_ratio: bool = True

    def read(self, result):
        """The value, None when the result has none."""
        value = result
        for part in self.key.split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        return None if value is None else value * self.scale

    def text(self, value):
        return f"{value:,.{self.digits}f}"


RATE = Figure("out_per_s", "deliveries", "k/s", True, 0, 1e-3)
ACKNOWLEDGEMENTS = Figure("out_per_s", "acknowledged", "k/s", True, 0, 1e-3)
# A publisher that waits for each acknowledgement: few, so with more digits.
LONE_ACKNOWLEDGEMENTS = Figure("out_per_s", "acknowledged", "k/s", True, 2, 1e-3)
CPU = Figure("broker_cpu_us_per_out", "CPU each", "µs", False, 3)
USER = Figure("broker_user_us_per_out", "in user mode", "µs", False, 3, has_ratio=False)
FAR_CPU = Figure("far_cpu_us_per_out", "CPU each, the subscribers' node", "µs", False, 3, has_ratio=False)
SERVERS_CPU = Figure("servers_cpu_us_per_out", "CPU each, both NATS servers", "µs", False, 3, has_ratio=False)
NATS_RATE = Figure("nats_out_per_s", "NATS servers alone", "k/s", True, 0, 1e-3, has_ratio=False)
NATS_PART = Figure("of_nats", "of that", "times", True, 2, has_ratio=False)
NATS_PART_CPU = Figure("of_nats_cpu", "of that for the same CPU of the servers", "times", True, 2, has_ratio=False)
NATS_CLIENTS_RATE = Figure("nats_clients_out_per_s", "NATS with as many clients", "k/s", True, 0, 1e-3, has_ratio=False)
NATS_CLIENTS_PART = Figure("of_nats_clients", "of that", "times", True, 2, has_ratio=False)
SINGLE_RECORDS = Figure("single_records_per_s", "a record each, stored by NATS servers alone", "k/s", True, 2, 1e-3, has_ratio=False)
OF_SINGLE_RECORDS = Figure("of_single_records", "of that", "times", True, 2, has_ratio=False)
EQUAL_RECORDS = Figure("equal_records_per_s", "records of the same size, stored by NATS servers alone", "/s", True, 0, has_ratio=False)
MESSAGES_PER_RECORD = Figure("messages_per_record", "a record", "messages", True, 0, has_ratio=False)
OF_EQUAL_RECORDS = Figure("of_equal_records", "of what they would carry", "times", True, 2, has_ratio=False)
OF_EQUAL_RECORDS_CPU = Figure("of_equal_records_cpu", "of that for the same CPU of the servers", "times", True, 2, has_ratio=False)
REATTACHED = Figure("taken_ms", "all 1,000 are there", "ms", False, 0, has_ratio=False)
CONNECTED = Figure("connected_ms", "CONNACK", "ms", False, 0, has_ratio=False)
RETAINED_CHANGES = Figure("acknowledged_per_s", "acknowledged", "/s", True, 0)
RETAINED_SEEN = Figure("seen_ms", "all are at the other node", "ms", False, 0, has_ratio=False)
STALLED = Figure("stalled_s", "nothing acknowledged for", "s", False, 1, has_ratio=False)
STALLED_ALONE = Figure("stalled_alone_s", "NATS servers alone", "s", False, 1, has_ratio=False)
MEGABYTES = Figure("out_megabytes_per_s", "payload", "MB/s", True, 0)
MEDIAN = Figure("latency_us/p50", "p50", "µs", False, 0)
TAIL = Figure("latency_us/p99", "p99", "µs", False, 0)
FAR_TAIL = Figure("latency_us/p99.9", "p99.9", "µs", False, 0)
FLOOD_FACTOR = Figure("p99_ratio", "that ÷ without", "times", False, 2, has_ratio=False)
QUIET_TAIL = Figure("quiet_latency_us/p99", "p99 without", "µs", False, 0)
FLOODED_TAIL = Figure("latency_us/p99", "p99 beside the flood", "µs", False, 0)
WATCHED_TAIL = Figure("latency_us/p99", "p99 with administrators", "µs", False, 0)
PAGES = Figure("pages_per_s", "pages", "/s", True, 0)
PAGE_TIME = Figure("page_ms", "a page, median", "ms", False, 0)
FLOOD_RATE = Figure("flood_in_per_s", "the flood", "k/s", True, 0, 1e-3)
CONNECTIONS = Figure("connections_per_s", "connections", "k/s", True, 1, 1e-3)
CONNECTION_CPU = Figure("broker_cpu_us_per_connection", "CPU each", "µs", False, 1)
CONNECTION_BYTES = Figure("bytes_per_connection", "memory each", "bytes", False, 0)
DRAIN = Figure("drain_ms", "drained in", "ms", False, 1)
ROUNDS = Figure("rounds_per_s", "rounds", "k/s", True, 2, 1e-3)
ROUND_CPU = Figure("broker_cpu_us_per_round", "CPU each", "µs", False, 1)


@dataclasses.dataclass(frozen=True)
class Administration:
    """Administrators who page through the list of clients: how many, how long each rests before the next page, and sessions in the list."""

    people: int
    pause_seconds: float
    sessions: int


@dataclasses.dataclass(frozen=True)
class Row:
    """A benchmark: what the report calls it, the load's arguments, and its figures, the most telling first."""

    name: str
    title: str
    arguments: tuple
    figures: tuple = (RATE, CPU, USER)
    needs: tuple = ()
    transport: str = TCP
    # Rows whose load has no floor are told beside this row's.
    floor: str = ""
    # Those who page through the list of clients meanwhile.
    administration: "Administration | None" = None
    # The row that has the same load without a store: how much of its rate is kept is told. It is measured wherever this one is.
    without_store: str = ""
    # The row in which a plain subscriber stands for the bridge: how much more CPU a bridge takes is told. It is measured likewise.
    without_bridge: str = ""
    # The row that has the same load on one broker that is no node: how much of its rate is left is told. It is measured likewise.
    without_cluster: str = ""
    # On how many subjects NATS servers carry the same by themselves; 0 where nothing of that kind is comparable.
    nats_subjects: int = 0
    # How many publishers and subscribers do the same with NATS servers themselves; empty where nothing of that kind is comparable.
    nats_clients: tuple[int, ...] = ()
    # What a cluster does once, in place of a load: the name of a function of cluster_trials.
    trial: str = ""
    # Whether the far end of every bridge is Martlet, so that only the near ends differ; else it is a broker of the same kind.
    is_far_end_martlet: bool = False
    # How many connections the bridge has.
    bridge_connections: int = 1

    @property
    def servers_alone(self):
        """What NATS servers carry of the same by themselves: the figures whose product it is; empty where that is not measured."""
        return (NATS_RATE,) if NATS_RATE in self.figures else (EQUAL_RECORDS, MESSAGES_PER_RECORD) if EQUAL_RECORDS in self.figures else ()

    @property
    def has_store(self):
        """Whether the broker keeps what it has on a disk."""
        return STORE in self.needs

    @property
    def has_bridge(self):
        """Whether publishers and subscribers are at two brokers, with a bridge between them; the CPU is that of the publishers' one."""
        return BRIDGE in self.needs

    @property
    def has_cluster(self):
        """Whether publishers and subscribers are at two nodes of a cluster; the CPU is that of the publishers' one."""
        return CLUSTER in self.needs

    @property
    def has_log_floor(self):
        """Whether what the cluster's log takes is compared with what its servers store by themselves."""
        return SINGLE_RECORDS in self.figures

    @property
    def has_access_rules(self):
        """Whether the broker reads a list of access rules, of which the last one lets the load in."""
        return ACCESS in self.needs


def _row(name, title, arguments, **rest):
    return Row(name, title, tuple(arguments.split()), **rest)


_CONNECTING = (CONNECTION_CPU, CONNECTIONS)
_WATCHED = (FLOOD_FACTOR, WATCHED_TAIL, QUIET_TAIL, PAGES, PAGE_TIME)
_LARGE = (MEGABYTES, CPU, USER)
# What a broker has to have for each QoS.
_QOS_NEEDS = ((), (ACKNOWLEDGED,), (EXACTLY_ONCE,))

ROWS = [
    _row("fanout-100", "1 → 100, QoS 0", "-s fanout"),
    _row("fanout-1000", "1 → 1000, QoS 0", "-s fanout --subscribers 1000"),
    _row("fanout-100-v5", "1 → 100, QoS 0, MQTT 5", "-s fanout -V 5", needs=(VERSION_5,)),
    _row("fanout-1000-v5", "1 → 1000, QoS 0, MQTT 5", "-s fanout --subscribers 1000 -V 5", needs=(VERSION_5,)),
    _row("fanout-100-qos1", "1 → 100, QoS 1", "-s fanout -q 1", needs=(ACKNOWLEDGED,), floor="fanout-100"),
    _row("wild-64", "1 → 64 on 8 kinds of wildcards", "-s wild", needs=(WILDCARDS,), floor="fanout-100"),
    _row("topics-50x20", "50 topics × 20 of 1000, in turn", "-s topics"),
    _row("shared-100", "1 → share group of 100", "-s shared", needs=(SHARED,)),
    _row("pair-100", "100 pairs, QoS 0", "-s pair"),
    _row("pair-100-v5", "100 pairs, QoS 0, MQTT 5", "-s pair -V 5", needs=(VERSION_5,)),
    _row("pair-100-access", "100 pairs, QoS 0, 100 access rules", "-s pair", needs=(ACCESS,), floor="pair-100"),
    _row("pair-100-qos1", "100 pairs, QoS 1", "-s pair -q 1", needs=(ACKNOWLEDGED,), floor="pair-100"),
    _row("pair-100-qos2", "100 pairs, QoS 2", "-s pair -q 2", needs=(EXACTLY_ONCE,), floor="pair-100"),
    _row("durable-away-100", "100 → a session that is away, QoS 1, store", "-s away -q 1 --publishers 100",
         figures=(ACKNOWLEDGEMENTS, CPU, USER), needs=(ACKNOWLEDGED, STORE)),
    _row("durable-away-1", "1 → a session that is away, QoS 1, one in flight, store", "-s away -q 1 --inflight 1",
         figures=(LONE_ACKNOWLEDGEMENTS, CPU, USER), needs=(ACKNOWLEDGED, STORE)),
    _row("kept-pair-100-qos1", "100 pairs, QoS 1, sessions kept", "-s pair -q 1 --persistent", needs=(ACKNOWLEDGED,),
         floor="pair-100"),
    _row("durable-pair-100-qos1", "100 pairs, QoS 1, sessions kept, store", "-s pair -q 1 --persistent",
         needs=(ACKNOWLEDGED, STORE, DELIVERY), floor="pair-100", without_store="kept-pair-100-qos1"),
    _row("durable-pair-100-clean", "100 pairs, QoS 1, store", "-s pair -q 1", needs=(ACKNOWLEDGED, STORE, DELIVERY), floor="pair-100",
         without_store="pair-100-qos1"),
    _row("durable-pair-100-qos0", "100 pairs, QoS 0, sessions kept, store", "-s pair --persistent", needs=(STORE, DELIVERY),
         floor="pair-100", without_store="pair-100"),
    _row("pair-5000", "5,000 pairs, QoS 0", "-s pair --subscribers 5000 --window 10000"),
    # As many as fit below 20,000 descriptors a process.
    _row("pair-9900", "9,900 pairs, QoS 0", "-s pair --subscribers 9900 --window 20000"),
    _row("fanin-100", "100 → 1, QoS 0", "-s fanin", needs=(WILDCARDS,), floor="pair-100"),
    _row("publish-100-qos1", "100 publishers, QoS 1, nobody subscribes", "-s publish -q 1 --publishers 100", needs=(ACKNOWLEDGED,),
         figures=(ACKNOWLEDGEMENTS, CPU, USER)),
    # Bridges: each row beside one with a plain subscriber in the bridge's place.
    *(_row(f"stream-qos{qos}", f"1 → 1, QoS {qos}", f"-s fanin --publishers 1 -q {qos}", needs=(WILDCARDS,) + need)
      for qos, need in enumerate(_QOS_NEEDS)),
    *(_row(f"bridge-{far}qos{qos}", f"1 → a bridge{end} → 1, QoS {qos}", f"-s fanin --publishers 1 -q {qos}", needs=(BRIDGE,) + need,
           without_bridge=f"stream-qos{qos}", is_far_end_martlet=bool(far))
      for far, end in (("", ""), ("far-", " to Martlet")) for qos, need in enumerate(_QOS_NEEDS)),
    # Nodes of a cluster, each with a NATS server of its own.
    *(_row(f"cluster-pair-100{name}", f"100 pairs at two nodes, QoS {qos}", f"-s pair -q {qos}", needs=(CLUSTER,),
           figures=(RATE, CPU, FAR_CPU, SERVERS_CPU, NATS_RATE, NATS_PART, NATS_PART_CPU, NATS_CLIENTS_RATE, NATS_CLIENTS_PART),
           without_cluster=f"pair-100{name}", nats_subjects=100, nats_clients=(100, 100))
      for qos, name in enumerate(("", "-qos1"))),
    _row("cluster-fanout-100", "1 → 100 at another node, QoS 0", "-s fanout", needs=(CLUSTER,),
         figures=(RATE, CPU, FAR_CPU, SERVERS_CPU, NATS_CLIENTS_RATE, NATS_CLIENTS_PART), without_cluster="fanout-100",
         nats_clients=(1, 100)),
    _row("cluster-shared-100", "1 → share group of 100 at another node, QoS 0", "-s shared", needs=(CLUSTER, SHARED),
         figures=(RATE, CPU, FAR_CPU, SERVERS_CPU), without_cluster="shared-100"),
    # Two nodes with stores on three servers that sync what they acknowledge: a message is acknowledged when it is in the log.
    _row("cluster-log-100", "100 publishers at a node with a store, QoS 1", "-s publish -q 1 --publishers 100", needs=(CLUSTER, STORE),
         without_cluster="publish-100-qos1",
         figures=(ACKNOWLEDGEMENTS, CPU, SINGLE_RECORDS, OF_SINGLE_RECORDS, EQUAL_RECORDS, MESSAGES_PER_RECORD, OF_EQUAL_RECORDS, OF_EQUAL_RECORDS_CPU)),
    _row("cluster-log-1", "1 publisher at a node with a store, QoS 1, one in flight", "-s publish -q 1 --publishers 1 --inflight 1",
         needs=(CLUSTER, STORE), figures=(LONE_ACKNOWLEDGEMENTS, CPU, SINGLE_RECORDS, OF_SINGLE_RECORDS)),
    _row("cluster-dealt-100", "100 → share group of 100 at another node with a store, QoS 1", "-s shared -q 1 --publishers 100",
         needs=(CLUSTER, STORE, SHARED),
         figures=(RATE, CPU, SINGLE_RECORDS, OF_SINGLE_RECORDS, EQUAL_RECORDS, MESSAGES_PER_RECORD, OF_EQUAL_RECORDS, OF_EQUAL_RECORDS_CPU)),
    # Messages come out of the log, and at QoS 2 each step of a flow goes into it.
    *(_row(f"cluster-lasting-20-qos{qos}", f"20 pairs at a node with a store, sessions that last, QoS {qos}",
           f"-s pair -q {qos} --persistent --publishers 20", needs=(CLUSTER, STORE), figures=(RATE, CPU)) for qos in (1, 2)),
    _row("cluster-reattach", "a session with 1,000 messages comes to another node, a million others in the log", "", needs=(CLUSTER, STORE),
         figures=(REATTACHED, CONNECTED), trial="reattach"),
    _row("cluster-leader", "the server that leads the log is killed, 1 publisher, QoS 1", "", needs=(CLUSTER, STORE),
         figures=(STALLED, STALLED_ALONE), trial="leader"),
    _row("cluster-retained", "1 publisher, 10,000 retained messages at a node with a store, QoS 1", "", needs=(CLUSTER, STORE),
         figures=(RETAINED_CHANGES, RETAINED_SEEN), trial="retained"),
    _row("fanin-100-qos1", "100 → 1, QoS 1", "-s fanin -q 1", needs=(WILDCARDS, ACKNOWLEDGED), floor="pair-100"),
    _row("bridge-100-qos0", "100 → a bridge → 1, QoS 0", "-s fanin", needs=(BRIDGE,), without_bridge="fanin-100"),
    _row("bridge-100-qos1", "100 → a bridge → 1, QoS 1", "-s fanin -q 1", needs=(BRIDGE, ACKNOWLEDGED),
         without_bridge="fanin-100-qos1"),
    *(_row(f"bridge-4-100-qos{qos}", f"100 → a bridge of 4 connections → 1, QoS {qos}", arguments, needs=(BRIDGE, CONNECTIONS) + need,
           without_bridge=plain, bridge_connections=4)
      for qos, arguments, need, plain in ((0, "-s fanin", (), "fanin-100"), (1, "-s fanin -q 1", (ACKNOWLEDGED,), "fanin-100-qos1"))),
    _row("publish-qos1", "1 publisher, QoS 1, nobody subscribes", "-s publish -q 1", needs=(ACKNOWLEDGED,),
         figures=(ACKNOWLEDGEMENTS, CPU, USER)),
    _row("latency-20k", "100 pairs at 20,000/s", "-s latency --rate 20000", figures=(TAIL, MEDIAN, FAR_TAIL, CPU)),
    _row("flood", "10 pairs at 2,000/s, one client floods", "-s flood",
         figures=(FLOODED_TAIL, FLOOD_FACTOR, QUIET_TAIL, FLOOD_RATE)),
    # The administrators' work is on the same cores, and much of what they cost is that: with a rest it is seen less.
    _row("administration-rested", "100 pairs at 20,000/s, 16 page through 100,000 sessions, 50 ms between pages", "-s latency --rate 20000",
         figures=_WATCHED, needs=(ADMINISTRATION,), administration=Administration(16, 0.05, 100_000)),
    _row("administration", "100 pairs at 20,000/s, 16 page through 100,000 sessions", "-s latency --rate 20000",
         figures=_WATCHED, needs=(ADMINISTRATION,), administration=Administration(16, 0, 100_000)),
    _row("large-16k", "1 → 100, 16 KB", "-s fanout --size 16384", figures=_LARGE),
    _row("large-256k", "1 → 20, 256 KB", "-s fanout --size 262144 --subscribers 20", figures=_LARGE),
    _row("large-1m", "1 → 10, 1 MB", "-s fanout --size 1048576 --subscribers 10", figures=_LARGE),
    _row("conns-10000", "10,000 idle connections with a subscription", "-s conns --subscribers 10000",
         figures=(CONNECTIONS, CONNECTION_CPU, CONNECTION_BYTES)),
    _row("tls-full-p256", "full TLS 1.3 handshakes, P-256", "-s conns --subscribers 3000 --tls --insecure",
         figures=_CONNECTING, transport=TLS),
    _row("tls-full-rsa", "full TLS 1.3 handshakes, RSA 2048", "-s conns --subscribers 3000 --tls --insecure",
         figures=_CONNECTING, transport=TLS_RSA),
    _row("tls-resumed", "resumed TLS 1.3 sessions", "-s conns --subscribers 3000 --tls --insecure --resume",
         figures=_CONNECTING, transport=TLS),
    _row("tls-fanout-100", "1 → 100, QoS 0, TLS 1.3", "-s fanout --tls --insecure", transport=TLS),
    _row("tls-pair-100", "100 pairs, QoS 0, TLS 1.3", "-s pair --tls --insecure", transport=TLS),
    _row("websocket-fanout-100", "1 → 100, QoS 0, WebSocket", "-s fanout --websocket", transport=WEBSOCKET),
    _row("retained-20000", "20,000 retained to a new subscriber", "-s retained --subscribers 20000",
         figures=(DRAIN,), needs=(RETAINED,)),
    _row("churn-50", "connect, subscribe, publish, leave: 50 at a time", "-s churn", figures=(ROUNDS, ROUND_CPU)),
]


def chosen(is_wanted):
    """The rows whose name is wanted, and those that they are compared with."""
    wanted = [row for row in ROWS if is_wanted(row.name)]
    names = {name for row in wanted for name in (row.name, row.without_store, row.without_bridge, row.without_cluster)}
    return [row for row in ROWS if row.name in names]

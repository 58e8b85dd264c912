public import MQTTCodec

/// What to measure, and against whom.
public struct BenchOptions: Sendable {
    public var host = "127.0.0.1"
    /// nil for the transport's usual one.
    public var port: UInt16?
    /// Where subscribers connect instead, at the other end of a bridge; nil for the same broker.
    public var subscriberPort: UInt16?
    public var transport = BenchTransport()
    /// The broker's process, nil when it is not to be looked at.
    public var process: Int32?
    public var scenario = Scenario.fanout
    /// nil for the scenario's own.
    public var publishers: Int?
    /// nil for the scenario's own; for `retained` how many messages, for `conns` how many connections, for `away` how many are away.
    public var subscribers: Int?
    public var qos = QoS.atMostOnce
    /// nil for that of the messages.
    public var subscriberQoS: QoS?
    /// Bytes of the payload.
    public var size = 64
    /// Messages published per second by all publishers together; nil for as many as come back.
    public var rate: Double?
    public var version = ProtocolVersion.v311
    public var topics = 50
    /// How many QoS 1 and 2 messages a publisher has unacknowledged.
    public var inFlight = 100
    /// How many published messages may be on their way before publishers wait; nil for the scenario's own.
    public var window: Int?
    public var seconds = 5.0
    public var warmupSeconds = 1.0
    public var user: String?
    public var password: String?
    /// Whether the clients' sessions outlive their connections; they are removed when the run is over.
    public var keepsSessions = false
    public var group = "bench"
    public var threads = 1

    public init() {}

    /// The port that is connected to.
    var brokerPort: UInt16 { port ?? transport.usualPort }

    /// Host and port, with brackets around a host that has colons itself.
    var brokerAddress: String { host.contains(":") ? "[\(host)]:\(brokerPort)" : "\(host):\(brokerPort)" }
}

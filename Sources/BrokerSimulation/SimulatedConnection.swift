public import BrokerModel
public import MQTTCodec

/// One client's network connection to a `SimulatedBroker`, as the client sees it.
///
/// Bytes that are sent wait in the network until the broker's next `settle()`. The broker hands the connection from
/// shard to shard without the client's noticing.
public final class SimulatedConnection {
    /// The version that `takePackets` decodes with: that of the last CONNECT sent, 5.0 before.
    public var version = ProtocolVersion.v5
    /// What the broker has sent and nobody has taken yet.
    public package(set) var receivedBytes: [UInt8] = []
    /// How many bytes the broker has sent in all.
    public private(set) var receivedByteCount = 0
    /// Whether the broker has closed the connection.
    public package(set) var isClosed = false
    /// How what is sent reaches the broker.
    public var delivery = ByteDelivery.joined
    /// How many bytes one flush takes; nil for all. A flush that took less is followed by another when the broker
    /// settles.
    public var flushBytesMax: Int?
    /// Whether the client reads. While it does not, the broker's flushes take nothing.
    public var isReading = true {
        didSet { if isReading, isBlocked { broker.becameWritable(self) } }
    }
    /// Called after each turn of the broker that brought bytes.
    public var onReceive: ((SimulatedConnection) -> Void)?

    package let broker: SimulatedBroker
    /// Whether the client has gone away.
    private(set) var isLost = false
    var peer: SimulatedPeer
    private var unsent: [[UInt8]] = []
    private var isBlocked = false

    init(broker: SimulatedBroker, peer: SimulatedPeer) {
        self.broker = broker
        self.peer = peer
    }

    /// Sends bytes, right or wrong.
    public func send(_ bytes: [UInt8]) {
        guard !bytes.isEmpty, !isLost else { return }
        unsent.append(bytes)
        broker.hasInput(self)
    }

    /// The network fails: the broker gets what was sent before, then sees the connection end.
    ///
    /// - Parameter dropsUnsent: whether what the broker has not read yet is lost.
    public func close(dropsUnsent: Bool = false) {
        guard !isLost else { return }
        isLost = true
        if dropsUnsent { unsent = [] }
        broker.hasInput(self)
    }

    /// Takes the bytes received.
    public func takeBytes() -> [UInt8] {
        defer { receivedBytes = [] }
        return receivedBytes
    }

    // What the broker's turns do.

    var hasInput: Bool { !unsent.isEmpty }

    /// The next piece that the network brings.
    func takeSessionChunk() -> [UInt8] {
        switch delivery {
        case .joined:
            var piece = unsent[0]
            for more in unsent.dropFirst() { piece += more }
            unsent = []
            return piece
        case .separate:
            return unsent.removeFirst()
        case .byteByByte:
            let byte = unsent[0].removeFirst()
            if unsent[0].isEmpty { unsent.removeFirst() }
            return [byte]
        }
    }

    /// How many bytes one flush takes now. The network swallows what a client that has gone does not read.
    var roomInFlush: Int {
        if isLost { return .max }
        return isReading ? flushBytesMax ?? .max : 0
    }

    func received(_ bytes: UnsafeRawBufferPointer) {
        guard !isLost else { return }
        receivedBytes.append(contentsOf: bytes)
        receivedByteCount += bytes.count
    }

    func becameBlocked() {
        isBlocked = true
        if isReading { broker.becameWritable(self) }
    }

    func becameUnblocked() { isBlocked = false }
}

/// How the simulated network cuts what a client sends into pieces. The broker gets one piece per connection and
/// round, and a turn has one round, seldom more.
public enum ByteDelivery: Sendable {
    /// All that was sent since the last turn in one piece, as a fast network does.
    case joined
    /// Each call of `send` is a piece.
    case separate
    /// Each byte is a piece.
    case byteByByte
}

/// A decision on a login that the broker waits for.
public struct PendingAuthentication {
    /// The connection that wants to come in.
    public let connection: SimulatedConnection
    public let request: AuthenticationRequest
}

/// Where a connection lives.
struct SimulatedPeer {
    /// The shard that has it, or is about to.
    var shard: Int
    /// Its number there; nil until that shard has taken it in.
    var id: ConnectionID?
    /// Whether it stands in the shard's list of connections with input.
    var isQueued = false
}

public import MQTTCodec

/// A time that is measured.
public enum Latency: Hashable, Sendable {
    /// From the turn that reads a PUBLISH of QoS 1 or 2 to its PUBACK or PUBREC in the transport.
    case acknowledge(QoS)
    /// From the turn that reads a PUBLISH to the message in its receivers' transports; of one message in 64.
    case delivery(QoS)
    /// How long a message stood in a client's queue.
    case queueWait
    /// From a batch given to the store to its confirmation.
    case storeCommit
    /// From CONNECT to the decision, by who decides, such as `password_file`.
    case login(backend: String)
    /// From the connection to its first packet.
    case tlsHandshake
    /// A turn of a loop, without the wait for the next one.
    case loopTurn
}

/// What was measured on a shard, or on several.
public struct LatencyReport: Sendable, Equatable {
    public private(set) var histograms: [Latency: Histogram] = [:]

    public init() {}

    /// Adds what was measured elsewhere.
    public mutating func add(_ histogram: Histogram, as latency: Latency) {
        histograms[latency, default: Histogram()].add(histogram)
    }

    /// Adds another shard's.
    public mutating func add(_ other: LatencyReport) {
        for (latency, histogram) in other.histograms { add(histogram, as: latency) }
    }
}

public import MQTTCodec

/// How many messages of each QoS there were. Numbers in place: they are counted on the way of every message.
public struct QoSCounts: Sendable, Equatable {
    @usableFromInline package var counts = InlineArray<3, UInt64>(repeating: 0)

    public init() {}

    public subscript(qos: QoS) -> UInt64 {
        @inlinable @inline(__always) get { counts[Int(qos.rawValue)] }
        @inlinable @inline(__always) set { counts[Int(qos.rawValue)] = newValue }
    }

    public var total: UInt64 { counts[0] &+ counts[1] &+ counts[2] }

    /// Adds another shard's counts.
    package mutating func add(_ other: QoSCounts) {
        for index in counts.indices { counts[index] &+= other.counts[index] }
    }

    public static func == (left: QoSCounts, right: QoSCounts) -> Bool {
        left.counts.indices.allSatisfy { left.counts[$0] == right.counts[$0] }
    }
}

public import MQTTCodec

/// How many packets of each type there were. Numbers in place: they are counted on the way of every packet.
public struct PacketCounts: Sendable, Equatable {
    /// By the packet type's number, 1 to 15.
    @usableFromInline package var counts = InlineArray<16, UInt64>(repeating: 0)

    public init() {}

    public subscript(type: PacketType) -> UInt64 {
        @inlinable @inline(__always) get { counts[Int(type.rawValue)] }
        @inlinable @inline(__always) set { counts[Int(type.rawValue)] = newValue }
    }

    /// Adds another shard's counts.
    package mutating func add(_ other: PacketCounts) {
        for index in counts.indices { counts[index] &+= other.counts[index] }
    }

    public static func == (left: PacketCounts, right: PacketCounts) -> Bool {
        left.counts.indices.allSatisfy { left.counts[$0] == right.counts[$0] }
    }
}

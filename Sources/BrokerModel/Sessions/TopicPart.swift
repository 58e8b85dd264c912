public import MQTTCodec

/// Which topics a session is for that shares its subscriptions with others: each topic belongs to one of them,
/// whichever of their clients are connected.
///
///     0 ≤ index < count
///
/// The topic alone decides, on every shard and after every restart alike: so a message is queued once, a QoS 2 message
/// that comes again finds the session that has it, and messages of a topic keep their order.
public struct TopicPart: Hashable, Sendable {
    public let index: Int
    public let count: Int
    /// The Client Identifier whose messages are those of all these sessions, for No Local. [MQTT-3.8.3-3 v5]
    public let publisher: EncodedString

    public init(index: Int, count: Int, publisher: EncodedString) {
        precondition((0..<count).contains(index))
        (self.index, self.count, self.publisher) = (index, count, publisher)
    }

    package func holds(_ topic: UnsafeRawBufferPointer) -> Bool { Self.index(of: topic, among: count) == index }

    /// The part that a topic belongs to. Queues on the disk were dispatched by it: it must stay as it is.
    package static func index(of topic: UnsafeRawBufferPointer, among count: Int) -> Int {
        // FNV-1a, whose high bits know least of the last bytes: folded before they choose.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in topic { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        hash = (hash ^ hash >> 32) &* 0x9e37_79b9_7f4a_7c15
        return Int(hash.multipliedFullWidth(by: UInt64(count)).high)
    }
}

/// Names a QoS 2 message that a client of another shard has sent, and what came of it here.
///
/// Each shard makes its part of a message durable by itself. So each that took one remembers it until the client has released it: sent
/// again after a crash, the message is taken by the shards that had lost it and by no other. [MQTT-4.3.3-10 v5]
public struct RelayedReceipt: Hashable, Sendable {
    public enum Part: UInt64, Sendable {
        /// It was routed to the shard's subscribers.
        case routed = 0
        /// It was kept as the retained message of its topic.
        case retained = 1
    }

    /// The client's receipt and, in the highest bit, the part.
    private let name: UInt64
    /// Of a message that a share group gave to one of the shard's sessions: stands for the group; else 0.
    public let group: UInt64

    package init(_ receipt: UInt64, _ part: Part, group: UInt64 = 0) {
        name = receipt | part.rawValue << 63
        self.group = group
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        guard let row = Self.decode(body) else { return nil }
        self = row.name
    }

    /// Reads a row's body: what was taken, and the message's digest, nil if an earlier version took it.
    package static func decode(_ body: UnsafeRawBufferPointer) -> (name: RelayedReceipt, digest: UInt64?)? {
        var reader = RecordReader(body)
        guard let value = reader.read(UInt64.self), StoredReceipt(key: value & ~(1 << 63)) != nil else { return nil }
        let name = RelayedReceipt(name: value, group: reader.read(UInt64.self) ?? 0)
        let digest = reader.read(UInt64.self)
        return reader.isAtEnd ? (name, digest) : nil
    }

    private init(name: UInt64, group: UInt64) {
        self.name = name
        self.group = group
    }

    ///     name 8 | group 8, or nothing | digest 8, or nothing
    package func encoded(digest: UInt64? = nil) -> [UInt8] {
        var writer = RecordWriter()
        writer.write(name)
        if group != 0 || digest != nil { writer.write(group) }
        if let digest { writer.write(digest) }
        return writer.bytes
    }

    /// What the client's own shard calls it.
    package var receipt: UInt64 { name & ~(1 << 63) }
    /// What a message of QoS 2 is called, in place of that, which a share group moves from one shard to another: by the row that it leaves, which
    /// goes later than the other shard has it. After a crash between the two it is there once. `number` is that of an entry.
    package static func receipt(ofEntry number: UInt64) -> UInt64 { 1 << 62 | (number >> 8) << 16 | (number & 0xff + 1) }

    /// The number of that row; nil for a client's message.
    package var entry: UInt64? {
        guard receipt & 1 << 62 != 0 else { return nil }
        return ((receipt & (1 << 62 - 1)) >> 16) << 8 | (UInt64(packetIdentifier) - 1)
    }

    /// The key of the client's session.
    public var session: UInt64 { receipt >> 16 }
    public var packetIdentifier: UInt16 { UInt16(truncatingIfNeeded: receipt) }
    public var part: Part { name >> 63 == 1 ? .retained : .routed }
}

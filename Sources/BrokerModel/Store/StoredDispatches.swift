public import Bytes
public import MQTTCodec

/// What a shard knows to be done of what share groups dispatch to this node of a cluster's log: a row of the table
/// `run`, with a key for each shard. After a crash it says what is to be looked at once more; see `EarlierDispatches`.
public struct StoredDispatches: Equatable, Sendable {
    /// What was dispatched to one incarnation of a node: of this one, or of one that is gone and for which this one
    /// dispatches.
    public struct Part: Equatable, Sendable {
        /// The incarnation's number, as the other nodes know it.
        public var incarnation: UInt64
        /// By partition: the last record up to which all is done that share groups have dispatched to it.
        public var done: [UInt64]
        /// The incarnation that dispatches for it; 0 if nobody does yet.
        public var successor: UInt64

        public init(incarnation: UInt64, done: [UInt64], successor: UInt64 = 0) {
            (self.incarnation, self.done, self.successor) = (incarnation, done, successor)
        }
    }

    /// The parts that are not settled: of the present incarnation, of the last one, of such as were killed, and of
    /// nodes that are gone.
    public var parts: [Part]

    public init(parts: [Part]) { self.parts = parts }

    /// Behind the row of `StoredMembership`.
    package static func key(shard: Int) -> UInt64 { StoredMembership.key + 1 + UInt64(shard) }

    /// The shard whose row has this key; nil for another row.
    package static func shard(ofKey key: UInt64) -> Int? {
        let first = Self.key(shard: 0)
        return (first..<first + UInt64(SharedLimits.shardsMax)).contains(key) ? Int(key - first) : nil
    }

    /// What holds for several shards at once: done is what is so for each of them.
    public func union(_ other: StoredDispatches) -> StoredDispatches {
        var all = self
        for part in other.parts {
            if let place = all.parts.firstIndex(where: { $0.incarnation == part.incarnation }) {
                all.parts[place].done = zip(all.parts[place].done, part.done).map { min($0, $1) }
                all.parts[place].successor = max(all.parts[place].successor, part.successor)
            } else {
                all.parts.append(part)
            }
        }
        return all
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let partitions = reader.read(UInt8.self), partitions > 0 else { return nil }
        parts = []
        while !reader.isAtEnd {
            guard let incarnation = reader.read(UInt64.self), let successor = reader.read(UInt64.self) else { return nil }
            var part = Part(incarnation: incarnation, done: [], successor: successor)
            for _ in 0..<partitions {
                guard let sequence = reader.read(UInt64.self) else { return nil }
                part.done.append(sequence)
            }
            parts.append(part)
        }
    }

    /// All parts have as many partitions.
    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        writer.write(UInt8(parts.first?.done.count ?? 1))
        for part in parts { for number in [part.incarnation, part.successor] + part.done { writer.write(number) } }
        return writer.bytes
    }
}

/// Writes the body of a row: integers in the machine's order, which is little-endian wherever Martlet runs, and bytes
/// behind their count.
public struct RecordWriter {
    @usableFromInline package var bytes: [UInt8] = []

    /// Nothing yet.
    @inlinable public init() {}

    /// An integer, in as many bytes as its type has.
    @inlinable public mutating func write<Value: FixedWidthInteger>(_ value: Value) {
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    /// One byte.
    @inlinable public mutating func write(_ value: Bool) { bytes.append(value ? 1 : 0) }

    /// The count in 32 bits, then the bytes.
    @inlinable public mutating func write(_ value: [UInt8]) {
        write(UInt32(value.count))
        bytes.append(contentsOf: value)
    }

    /// Bytes without a count.
    @inlinable public mutating func append(_ value: [UInt8]) { bytes.append(contentsOf: value) }

    /// Bytes without a count.
    @inlinable public mutating func append(_ value: UnsafeRawBufferPointer) { bytes.append(contentsOf: value) }
}

/// The cluster whose retained messages the store has, as a row of the table `broker`: what is there and not in the
/// cluster was deleted, and does not go into it again.
public struct StoredMembership: Equatable, Sendable {
    public static let key: UInt64 = 128

    public private(set) var cluster: String

    public init(cluster: String) { self.cluster = cluster }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        self.init(fields: body)
    }

    public func encoded() -> [UInt8] { encodedFields }
}

extension StoredMembership: FieldCoded {
    public static let blank = StoredMembership(cluster: "")

    public mutating func code(_ coder: inout some FieldCoder) { coder.field(1, &cluster) }
}

/// Reads the body of a row. A read past the end gives nil, as does a value that no writer writes.
public struct RecordReader {
    @usableFromInline package var rest: UnsafeRawBufferPointer

    /// Reads where the bytes lie.
    @inlinable public init(_ bytes: UnsafeRawBufferPointer) { rest = bytes }

    /// Whether all was read.
    @inlinable public var isAtEnd: Bool { rest.isEmpty }

    /// An integer, in as many bytes as its type has.
    @inlinable public mutating func read<Value: FixedWidthInteger & BitwiseCopyable>(_ type: Value.Type) -> Value? {
        guard let bytes = take(MemoryLayout<Value>.size) else { return nil }
        return Value(littleEndian: bytes.loadUnaligned(as: Value.self))
    }

    /// One byte, 0 or 1.
    @inlinable public mutating func readBool() -> Bool? {
        switch read(UInt8.self) {
        case 0: false
        case 1: true
        default: nil
        }
    }

    /// Bytes behind their count in 32 bits.
    @inlinable public mutating func readBytes() -> [UInt8]? {
        guard let count = read(UInt32.self), let bytes = take(Int(count)) else { return nil }
        return Array(bytes)
    }

    /// So many bytes.
    @inlinable public mutating func take(_ count: Int) -> UnsafeRawBufferPointer? {
        guard count <= rest.count else { return nil }
        defer { rest = UnsafeRawBufferPointer(rebasing: rest[count...]) }
        return UnsafeRawBufferPointer(rebasing: rest[..<count])
    }
}

/// Up to where a shard's sessions have been given what stands in a cluster's log: a row of the table `broker`, with a
/// key for each shard.
///
/// It stands in one batch with the rows of the messages that were given, so that after a crash reading goes on where
/// the queues end.
public struct StoredLogPositions: Equatable, Sendable {
    public var places: LogPositions

    public init(_ places: LogPositions) { self.places = places }

    /// Numbers of other rows of the table are 1 and from 256 on.
    package static func key(shard: Int) -> UInt64 { 2 + UInt64(shard) }

    /// The shard whose row has this key; nil for another row.
    package static func shard(ofKey key: UInt64) -> Int? {
        (2..<2 + UInt64(SharedLimits.shardsMax)).contains(key) ? Int(key - 2) : nil
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let count = reader.read(UInt8.self), count > 0 else { return nil }
        places = LogPositions(partitions: Int(count))
        for partition in 0..<Int(count) {
            guard let sequence = reader.read(UInt64.self), let stream = reader.read(UInt64.self) else { return nil }
            if stream != 0 { places.places[partition] = LogPositions.Place(sequence: sequence, stream: stream) }
        }
        guard reader.isAtEnd else { return nil }
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        writer.write(UInt8(places.places.count))
        for place in places.places {
            writer.write(place?.sequence ?? 0)
            writer.write(place?.stream ?? 0)
        }
        return writer.bytes
    }
}

/// An Application Message as the store keeps it.
///
///     expiresAt 8 | publisher 8 | properties' length 4 | payload's length 4 | topic's length 2 | QoS 1 | RETAIN 1 | the three
public struct StoredMessage: Equatable, Sendable {
    public var topic: [UInt8]
    /// The properties that travel unaltered, as PUBLISH carries them.
    public var properties: [UInt8]
    public var payload: [UInt8]
    public var qos: QoS
    public var retain: Bool
    /// Milliseconds since 1970; nil for never.
    public var expiresAt: UInt64?
    /// Stands for its publisher's Client Identifier, for No Local; 0 for the broker.
    public var publisher: UInt64

    public init(
        topic: [UInt8], properties: [UInt8] = [], payload: [UInt8], qos: QoS, retain: Bool, expiresAt: UInt64? = nil,
        publisher: UInt64 = 0
    ) {
        self.topic = topic
        self.properties = properties
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.expiresAt = expiresAt
        self.publisher = publisher
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        self.init(&reader)
        guard reader.isAtEnd else { return nil }
    }

    /// Whether topic and properties are what a client may be sent.
    package var isLegal: Bool {
        topic.withUnsafeBytes(TopicValidation.validateName) == nil && properties.withUnsafeBytes(Properties.areOfMessage)
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        write(to: &writer)
        return writer.bytes
    }

    package init?(_ reader: inout RecordReader) {
        guard let parts = MessageParts(&reader) else { return nil }
        self.init(
            topic: Array(parts.topic), properties: Array(parts.properties), payload: Array(parts.payload), qos: parts.qos,
            retain: parts.retain, expiresAt: parts.expiresAt == MessageParts.never ? nil : parts.expiresAt,
            publisher: parts.publisher)
    }

    package func write(to writer: inout RecordWriter) {
        writer.write(expiresAt ?? MessageParts.never)
        writer.write(publisher)
        writer.write(UInt32(properties.count))
        writer.write(UInt32(payload.count))
        writer.write(UInt16(topic.count))
        writer.write(qos.rawValue)
        writer.write(retain)
        for part in [topic, properties, payload] { writer.append(part) }
    }
}

/// The parts of a `StoredMessage` where they lie in a row's body, so that a queue's messages are written and read
/// without copies between.
package struct MessageParts {
    package let expiresAt: UInt64
    package let publisher: UInt64
    package let qos: QoS
    package let retain: Bool
    package let topic: UnsafeRawBufferPointer
    package let properties: UnsafeRawBufferPointer
    package let payload: UnsafeRawBufferPointer

    package static let never: UInt64 = .max
    private static let fixedSize = 28

    /// Reads the parts; nil if they are not whole, or nothing that a broker would keep.
    package init?(_ reader: inout RecordReader) {
        guard let expiresAt = reader.read(UInt64.self), let publisher = reader.read(UInt64.self),
            let propertiesLength = reader.read(UInt32.self), let payloadLength = reader.read(UInt32.self),
            let topicLength = reader.read(UInt16.self), let qos = reader.read(UInt8.self).flatMap({ QoS(rawValue: $0) }),
            let retain = reader.readBool(), topicLength > 0, let topic = reader.take(Int(topicLength)),
            let properties = reader.take(Int(propertiesLength)), let payload = reader.take(Int(payloadLength))
        else { return nil }
        (self.expiresAt, self.publisher, self.qos, self.retain) = (expiresAt, publisher, qos, retain)
        (self.topic, self.properties, self.payload) = (topic, properties, payload)
    }

    /// Whether topic and properties are what a client may be sent.
    package var isLegal: Bool { TopicValidation.validateName(topic) == nil && Properties.areOfMessage(properties) }

    package var size: Int { Self.fixedSize + topic.count + properties.count + payload.count }

    /// Writes them as `StoredMessage` does; `target` has room for `size` bytes.
    package func write(to target: UnsafeMutableRawPointer) {
        target.storeBytes(of: expiresAt, as: UInt64.self)
        target.storeBytes(of: publisher, toByteOffset: 8, as: UInt64.self)
        target.storeBytes(of: UInt32(properties.count), toByteOffset: 16, as: UInt32.self)
        target.storeBytes(of: UInt32(payload.count), toByteOffset: 20, as: UInt32.self)
        target.storeBytes(of: UInt16(topic.count), toByteOffset: 24, as: UInt16.self)
        target.storeBytes(of: qos.rawValue, toByteOffset: 26, as: UInt8.self)
        target.storeBytes(of: retain ? 1 : 0, toByteOffset: 27, as: UInt8.self)
        var position = target + Self.fixedSize
        for part in [topic, properties, payload] {
            if let source = part.baseAddress { position.copyMemory(from: source, byteCount: part.count) }
            position += part.count
        }
    }

    package init(
        expiresAt: UInt64, publisher: UInt64, qos: QoS, retain: Bool, topic: UnsafeRawBufferPointer,
        properties: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer
    ) {
        self.expiresAt = expiresAt
        self.publisher = publisher
        self.qos = qos
        self.retain = retain
        self.topic = topic
        self.properties = properties
        self.payload = payload
    }
}

extension SharedLimits {
    /// Shards of a broker, each with a key for its row of how far it has read the log.
    package static let shardsMax = 64
}

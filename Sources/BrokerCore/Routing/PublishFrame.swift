import MQTTCodec

/// How one PUBLISH packet is encoded for one receiver, or for many alike.
struct PublishFrame {
    /// How many bytes a Topic Alias beside its topic adds at most: its own three, and one where each length grows by a
    /// byte.
    static let aliasBytesMax = 5

    let version: ProtocolVersion
    let qos: QoS
    let retain: Bool
    var duplicate = false
    var packetIdentifier: UInt16 = 0
    /// Encoded Subscription Identifier properties, or nil.
    var identifiers: SubscriptionIdentifiers?
    var naming = SentAliases.Naming.topic
    /// How many bytes at the front of the topic the receiver does not see: its mount point.
    var topicOffset = 0
    /// Seconds left of the message's life, or nil. [MQTT-3.3.2-6 v5]
    var expirySeconds: UInt32?

    init(version: ProtocolVersion, qos: QoS, retain: Bool) {
        self.version = version
        self.qos = qos
        self.retain = retain
    }

    @inline(__always)
    private func topic(_ publication: borrowing some PublishParts & ~Copyable) -> UnsafeRawBufferPointer {
        if case .alias = naming { return UnsafeRawBufferPointer(start: nil, count: 0) }
        return topicOffset == 0 ? publication.topic : UnsafeRawBufferPointer(rebasing: publication.topic[topicOffset...])
    }

    @inline(__always)
    private func propertiesLength(_ publication: borrowing some PublishParts & ~Copyable) -> Int {
        guard version == .v5 else { return 0 }
        return publication.properties.count + (expirySeconds == nil ? 0 : Self.expiryBytes) + (identifiers?.encoded.count ?? 0)
            + (naming == .topic ? 0 : 3)
    }

    /// Bytes of the whole packet.
    @inline(__always)
    func size(_ publication: borrowing some PublishParts & ~Copyable) -> Int {
        PublishHeader.encodedSize(
            version: version, qos: qos, topicLength: topic(publication).count, propertiesLength: propertiesLength(publication),
            payloadLength: publication.payload.count)
    }

    /// Writes the packet, `size` bytes; without `payload`, all that stands before it.
    ///
    /// - Returns: the bytes written.
    @discardableResult
    @inline(__always)
    func write(
        _ publication: borrowing some PublishParts & ~Copyable, to target: UnsafeMutableRawPointer, payload: Bool = true
    ) -> Int {
        let length = propertiesLength(publication)
        let written = PublishHeader(version: version, qos: qos, retain: retain, duplicate: duplicate).write(
            to: target, topic: topic(publication), packetIdentifier: packetIdentifier, propertiesLength: length,
            payloadLength: publication.payload.count)
        var end = target + written.propertiesOffset
        if length > 0 { end = writeProperties(publication, to: end) }
        if payload, let source = publication.payload.baseAddress {
            end.copyMemory(from: source, byteCount: publication.payload.count)
            end += publication.payload.count
        }
        return end - target
    }

    private func writeProperties(
        _ publication: borrowing some PublishParts & ~Copyable, to target: UnsafeMutableRawPointer
    ) -> UnsafeMutableRawPointer {
        var end = target
        if let expirySeconds {
            end.storeBytes(of: Self.messageExpiryInterval, as: UInt8.self)
            (end + 1).storeBytes(of: expirySeconds.bigEndian, as: UInt32.self)
            end += Self.expiryBytes
        }
        if let source = publication.properties.baseAddress {
            end.copyMemory(from: source, byteCount: publication.properties.count)
            end += publication.properties.count
        }
        if let encoded = identifiers?.encoded {
            encoded.withUnsafeBytes { bytes in
                if let source = bytes.baseAddress { end.copyMemory(from: source, byteCount: bytes.count) }
            }
            end += encoded.count
        }
        switch naming {
        case .topic: return end
        case .topicAndAlias(let alias), .alias(let alias):
            end.storeBytes(of: Self.topicAlias, as: UInt8.self)
            (end + 1).storeBytes(of: alias.bigEndian, as: UInt16.self)
            return end + 3
        }
    }

    /// The identifiers of the properties that the broker writes itself.
    static let messageExpiryInterval: UInt8 = 0x02
    private static let topicAlias: UInt8 = 0x23
    /// Of a Message Expiry Interval with its identifier.
    static let expiryBytes = 5
}

/// The Subscription Identifiers that one delivery carries, encoded as properties, ready to be copied.
final class SubscriptionIdentifiers {
    /// Identifier and variable byte integer of each, one after the other.
    let encoded: [UInt8]

    init(encoded: [UInt8]) { self.encoded = encoded }

    init(_ identifiers: [UInt32]) {
        var bytes: [UInt8] = []
        for identifier in identifiers {
            var value = identifier
            bytes.append(0x0b)
            repeat {
                bytes.append(UInt8(value & 0x7f) | (value > 0x7f ? 0x80 : 0))
                value >>= 7
            } while value > 0
        }
        encoded = bytes
    }
}

/// A PUBLISH packet that nothing but its packet identifier ties to its receiver: without DUP, alias and Subscription
/// Identifiers.
///
/// What nearly all receivers get, one or many. It is `PublishFrame` with all that seldom differs left out, small enough
/// to stay in registers from one end to the other.
struct PlainPublishFrame {
    private let version: ProtocolVersion
    private let qos: QoS
    private let retain: Bool
    /// Seconds left of the message's life; `UInt64.max` for ever. [MQTT-3.3.2-6 v5]
    private let expirySeconds: UInt64

    @inline(__always)
    init(_ kind: Connection.FrameKind, qos: QoS, retain: Bool, expirySeconds: UInt32?) {
        version = kind == .shared5 ? .v5 : .v311
        self.qos = qos
        self.retain = retain
        self.expirySeconds = expirySeconds.map { UInt64($0) } ?? .max
    }

    /// Bytes of the whole packet.
    @inline(__always)
    func size(_ publication: borrowing Publication) -> Int {
        PublishHeader.encodedSize(
            version: version, qos: qos, topicLength: publication.topic.count, propertiesLength: propertiesLength(publication),
            payloadLength: publication.payload.count)
    }

    /// Writes the packet, `size` bytes.
    @inline(__always)
    func write(_ publication: borrowing Publication, packetIdentifier: UInt16 = 0, to target: UnsafeMutableRawPointer) {
        let written = PublishHeader(version: version, qos: qos, retain: retain, duplicate: false).write(
            to: target, topic: publication.topic, packetIdentifier: packetIdentifier,
            propertiesLength: propertiesLength(publication), payloadLength: publication.payload.count)
        var end = target + written.propertiesOffset
        if version == .v5 {
            if expirySeconds != .max {
                end.storeBytes(of: PublishFrame.messageExpiryInterval, as: UInt8.self)
                (end + 1).storeBytes(of: UInt32(truncatingIfNeeded: expirySeconds).bigEndian, as: UInt32.self)
                end += PublishFrame.expiryBytes
            }
            if let source = publication.properties.baseAddress {
                end.copyMemory(from: source, byteCount: publication.properties.count)
                end += publication.properties.count
            }
        }
        if let source = publication.payload.baseAddress { end.copyMemory(from: source, byteCount: publication.payload.count) }
    }

    /// Where the packet identifier stands in the packet; for QoS 1 and 2.
    func packetIdentifierOffset(_ publication: borrowing Publication) -> Int {
        let length = propertiesLength(publication)
        let properties = version == .v5 ? VariableByteInteger.encodedSize(length) + length : 0
        return size(publication) - publication.payload.count - properties - MemoryLayout<UInt16>.size
    }

    @inline(__always)
    private func propertiesLength(_ publication: borrowing Publication) -> Int {
        version == .v5 ? publication.properties.count &+ (expirySeconds == .max ? 0 : PublishFrame.expiryBytes) : 0
    }
}

/// Bytes in an arena chunk. 20 bytes, since every message being routed has room for four of them.
struct SharedFrame {
    let chunk: Reference<ArenaChunk>
    private let start: UInt32
    private let count: UInt32
    private let identifierStart: UInt32

    /// - Parameter identifierOffset: where a packet identifier goes in each copy; 0 where there is none.
    @inline(__always)
    init(chunk: Reference<ArenaChunk>, offset: Int, length: Int, identifierOffset: Int = 0) {
        self.chunk = chunk
        start = UInt32(truncatingIfNeeded: offset)
        count = UInt32(truncatingIfNeeded: length)
        identifierStart = UInt32(truncatingIfNeeded: identifierOffset)
    }

    var offset: Int { Int(start) }
    var length: Int { Int(count) }
    var identifierOffset: Int { Int(identifierStart) }
}

extension OutputBuffer {
    /// Adds a copy of a frame.
    @inline(__always)
    mutating func appendCopy(of frame: SharedFrame, pool: inout BufferPool) {
        copy(frame, to: appendOwn(frame.length, pool: &pool))
    }

    /// Adds a copy of a frame with this packet identifier in it.
    @inline(__always)
    mutating func appendCopy(of frame: SharedFrame, packetIdentifier: UInt16, pool: inout BufferPool) {
        assert(frame.identifierOffset > 0 && frame.identifierOffset + 2 <= frame.length, "the frame has room for one")
        let target = appendOwn(frame.length, pool: &pool)
        copy(frame, to: target)
        target.storeBytes(of: packetIdentifier.bigEndian, toByteOffset: frame.identifierOffset, as: UInt16.self)
    }

    /// Adds a frame itself, whose chunk it pins.
    @inline(__always)
    mutating func append(_ frame: SharedFrame, pool: inout BufferPool) {
        appendShared(frame.chunk, offset: frame.offset, length: frame.length, pool: &pool)
    }

    @inline(__always)
    private func copy(_ frame: SharedFrame, to target: UnsafeMutableRawPointer) {
        let source = frame.chunk.with { $0.base } + frame.offset
        target.copyMemory(from: source, byteCount: frame.length)
    }
}

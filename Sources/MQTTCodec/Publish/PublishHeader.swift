/// Writes everything of a PUBLISH but the bytes of its properties and its payload, into memory that the caller sized.
///
///     ┌───────┬──────────────────┬────────┬───────┬────────────┬─────────────────┬────────────┬─────────┐
///     │ first │ remaining length │ length │ topic │ identifier │ property length │ properties │ payload │
///     └───────┴──────────────────┴────────┴───────┴────────────┴─────────────────┴────────────┴─────────┘
///                                                 ▲ QoS > 0     v5                ▲
///                                   packetIdentifierOffset                propertiesOffset
public struct PublishHeader: Hashable, Sendable {
    @usableFromInline let firstByte: UInt8
    @usableFromInline let hasIdentifier: Bool
    @usableFromInline let hasProperties: Bool

    /// Where the caller's part goes in what was written.
    public struct Offsets: Hashable, Sendable {
        /// Where the packet identifier stands, so that a copy can be given another; 0 at QoS 0, which has none.
        public let packetIdentifierOffset: Int
        /// Where the property bytes go, and right behind them the payload. Before MQTT 5.0 the payload goes here.
        public let propertiesOffset: Int

        @inlinable @inline(__always)
        init(packetIdentifierOffset: Int, propertiesOffset: Int) {
            self.packetIdentifierOffset = packetIdentifierOffset
            self.propertiesOffset = propertiesOffset
        }
    }

    @inlinable @inline(__always)
    public init(version: ProtocolVersion, qos: QoS, retain: Bool, duplicate: Bool) {
        firstByte = 0x30 | (duplicate ? 0x08 : 0) | (qos.rawValue &<< 1) | (retain ? 0x01 : 0)
        hasIdentifier = qos != .atMostOnce
        hasProperties = version == .v5
    }

    /// How many bytes the whole packet takes, with its fixed header. `propertiesLength` counts the property bytes without their
    /// length; it is not looked at before MQTT 5.0.
    @inlinable @inline(__always)
    public static func encodedSize(
        version: ProtocolVersion, qos: QoS, topicLength: Int, propertiesLength: Int, payloadLength: Int
    ) -> Int {
        let body = bodyLength(
            hasIdentifier: qos != .atMostOnce, hasProperties: version == .v5, topicLength: topicLength,
            propertiesLength: propertiesLength, payloadLength: payloadLength)
        return 1 &+ VariableByteInteger.encodedSize(body) &+ body
    }

    /// Writes up to the property bytes and returns where they go; `memory` has at least `encodedSize(…)` bytes.
    ///
    /// `packetIdentifier` is not looked at for QoS 0 [MQTT-2.2.1-2 v5], `propertiesLength` not before MQTT 5.0.
    @inlinable @inline(__always)
    public func write(
        to memory: UnsafeMutableRawPointer, topic: UnsafeRawBufferPointer, packetIdentifier: UInt16, propertiesLength: Int,
        payloadLength: Int
    ) -> Offsets {
        memory.storeBytes(of: firstByte, as: UInt8.self)
        let body = Self.bodyLength(
            hasIdentifier: hasIdentifier, hasProperties: hasProperties, topicLength: topic.count,
            propertiesLength: propertiesLength,
            payloadLength: payloadLength)
        var offset = 1 &+ VariableByteInteger.write(body, to: memory + 1)
        precondition(topic.count <= Int(UInt16.max), "a topic has at most 65,535 bytes")
        memory.storeBytes(of: UInt16(truncatingIfNeeded: topic.count).bigEndian, toByteOffset: offset, as: UInt16.self)
        offset &+= 2
        if let start = topic.baseAddress { (memory + offset).copyMemory(from: start, byteCount: topic.count) }
        offset &+= topic.count
        var identifierOffset = 0
        if hasIdentifier {
            identifierOffset = offset
            memory.storeBytes(of: packetIdentifier.bigEndian, toByteOffset: offset, as: UInt16.self)
            offset &+= 2
        }
        if hasProperties { offset &+= VariableByteInteger.write(propertiesLength, to: memory + offset) }
        return Offsets(packetIdentifierOffset: identifierOffset, propertiesOffset: offset)
    }

    @inlinable @inline(__always)
    static func bodyLength(
        hasIdentifier: Bool, hasProperties: Bool, topicLength: Int, propertiesLength: Int, payloadLength: Int
    ) -> Int {
        var length = 2 &+ topicLength &+ payloadLength
        if hasIdentifier { length &+= 2 }
        if hasProperties { length &+= VariableByteInteger.encodedSize(propertiesLength) &+ propertiesLength }
        return length
    }
}

/// A PUBLISH decoded where it lies: pointers into the frame and nothing allocated.
///
/// The pointers live as long as the frame's bytes do, so a view never outlives the call that made it; it is not
/// Sendable.
public struct PublishView {
    /// The topic name; empty if only an alias is given.
    public let topic: UnsafeRawBufferPointer
    /// The packet identifier; 0 at QoS 0.
    public let packetIdentifier: UInt16
    public let qos: QoS
    public let retain: Bool
    public let duplicate: Bool
    public let payload: UnsafeRawBufferPointer
    /// The checked property bytes without their length; empty before MQTT 5.0.
    public let properties: UnsafeRawBufferPointer
    /// The topic alias; 0 if absent.
    public let topicAlias: UInt16
    /// In seconds.
    public let messageExpiryInterval: UInt32?
    public let payloadFormatIsUTF8: Bool
    public let hasSubscriptionIdentifiers: Bool
    /// How many bytes `copyForwardedProperties(to:)` copies: `properties` without Topic Alias, Message Expiry Interval
    /// and Subscription Identifiers.
    public let forwardedPropertiesLength: Int
}

extension PublishView {
    /// Decodes the body of a PUBLISH and checks all of it: flags, topic, packet identifier and every property.
    ///
    /// Throws what is wrong with the packet; never traps, whatever the bytes. Allocates nothing.
    public static func decode(
        firstByte: UInt8, body: UnsafeRawBufferPointer, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> PublishView {
        guard let qos = QoS(rawValue: (firstByte &>> 1) & 0x03) else { throw .invalidQoS }  // [MQTT-3.3.1-4 v5]
        let duplicate = firstByte & 0x08 != 0
        if duplicate && qos == .atMostOnce && version != .v31 { throw .duplicateAtMostOnce }  // [MQTT-3.3.1-2 v5]

        var reader = PacketReader(body)
        let topic = try reader.readLengthPrefixed()  // [MQTT-3.3.2-1 v5]
        let mayBeAliased = version == .v5 && topic.isEmpty
        if !TextScan.isShortAndPlain(topic), !mayBeAliased, let error = TopicValidation.validateName(topic) { throw error }
        let packetIdentifier = qos == .atMostOnce ? 0 : try reader.readPacketIdentifier()  // [MQTT-2.2.1-2 v5]

        var properties = PublishPropertyScan()
        var block = UnsafeRawBufferPointer(start: nil, count: 0)
        if version == .v5 {
            let length = try reader.readVariableByteInteger()
            block = try reader.readBytes(length)
            if length > 0 { try properties.scan(block, from: peer) }
            if topic.isEmpty && properties.topicAlias == 0 { throw .emptyTopic }
        }
        return PublishView(
            topic: topic, packetIdentifier: packetIdentifier, qos: qos, retain: firstByte & 0x01 != 0, duplicate: duplicate,
            payload: reader.readRest(), properties: block, topicAlias: properties.topicAlias,
            messageExpiryInterval: properties.messageExpiryInterval, payloadFormatIsUTF8: properties.payloadFormatIsUTF8,
            hasSubscriptionIdentifiers: properties.hasSubscriptionIdentifiers,
            forwardedPropertiesLength: block.count &- properties.keptBackLength)
    }
}

extension PublishView {
    /// Copies `forwardedPropertiesLength` bytes: every property that belongs to the message, in order.
    /// [MQTT-3.3.2-18 v5]
    ///
    /// One copy when nothing is kept back; else one for each run between the properties that are.
    public func copyForwardedProperties(to memory: UnsafeMutableRawPointer) {
        guard let base = properties.baseAddress else { return }
        if forwardedPropertiesLength == properties.count {
            memory.copyMemory(from: base, byteCount: properties.count)
            return
        }
        var written = 0
        var runStart = 0
        func copyRun(until end: Int) {
            (memory + written).copyMemory(from: base + runStart, byteCount: end - runStart)
            written += end - runStart
        }
        Self.forEachProperty(of: properties) { identifier, start, end in
            guard identifier == .topicAlias || identifier == .messageExpiryInterval || identifier == .subscriptionIdentifier else {
                return
            }
            copyRun(until: start)
            runStart = end
        }
        copyRun(until: properties.count)
    }

    /// The topic in memory of its own; nil if only an alias is given.
    public var topicName: TopicName? { topic.isEmpty ? nil : TopicName(checked: Array(topic)) }

    /// The subscription identifiers, for a client that looks up which of its subscriptions the message is for.
    /// Allocates.
    public var subscriptionIdentifiers: [UInt32] {
        guard hasSubscriptionIdentifiers else { return [] }
        var identifiers: [UInt32] = []
        Self.forEachSubscriptionIdentifier(in: properties) { identifiers.append($0) }
        return identifiers
    }

    /// Calls `body` with each subscription identifier among the property bytes of a view, or a copy of them. Allocates
    /// nothing.
    public static func forEachSubscriptionIdentifier(in properties: UnsafeRawBufferPointer, _ body: (UInt32) -> Void) {
        forEachProperty(of: properties) { identifier, start, end in
            guard identifier == .subscriptionIdentifier else { return }
            let value = try? VariableByteInteger.read(UnsafeRawBufferPointer(rebasing: properties[(start + 1)..<end]))
            if let value { body(UInt32(truncatingIfNeeded: value.value)) }
        }
    }

    /// The Correlation Data among the property bytes of a view, or a copy of them.
    public static func correlationData(in properties: UnsafeRawBufferPointer) -> [UInt8]? {
        var data: [UInt8]?
        forEachProperty(of: properties) { identifier, start, end in
            // Behind the identifier and a length of two bytes.
            if identifier == .correlationData { data = Array(properties[(start + 3)..<end]) }
        }
        return data
    }

    /// Whether there is a User Property among the property bytes of a view, or a copy of them. Allocates nothing.
    public static func hasUserProperties(in properties: UnsafeRawBufferPointer) -> Bool {
        var hasOne = false
        forEachProperty(of: properties) { identifier, _, _ in hasOne = hasOne || identifier == .userProperty }
        return hasOne
    }

    /// Calls `body` with the name and the value of each User Property among the property bytes of a view, or a copy of
    /// them, in order. Allocates nothing.
    public static func forEachUserProperty(
        in properties: UnsafeRawBufferPointer, _ body: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Void
    ) {
        forEachProperty(of: properties) { identifier, start, end in
            guard identifier == .userProperty else { return }
            let middle = endOfText(at: start + 1, of: properties)
            body(
                UnsafeRawBufferPointer(rebasing: properties[(start + 3)..<middle]),
                UnsafeRawBufferPointer(rebasing: properties[(middle + 2)..<end]))
        }
    }

    /// Calls `body` with the identifier and the range of each property. The bytes were checked when the view was made.
    @inline(__always)
    private static func forEachProperty(
        of properties: UnsafeRawBufferPointer, _ body: (PropertyIdentifier, _ start: Int, _ end: Int) -> Void
    ) {
        var start = 0
        while start < properties.count, let identifier = PropertyIdentifier(rawValue: properties[start]) {
            let end = endOfProperty(identifier, at: start, of: properties)
            body(identifier, start, end)
            start = end
        }
    }

    private static func endOfProperty(_ identifier: PropertyIdentifier, at start: Int, of properties: UnsafeRawBufferPointer) -> Int
    {
        switch identifier {
        case .payloadFormatIndicator: start + 2
        case .topicAlias: start + 3
        case .messageExpiryInterval: start + 5
        case .userProperty: endOfText(at: endOfText(at: start + 1, of: properties), of: properties)
        case .subscriptionIdentifier: endOfVariableByteInteger(at: start + 1, of: properties)
        // Content Type, Response Topic, Correlation Data: no other passes the check.
        default: endOfText(at: start + 1, of: properties)
        }
    }

    private static func endOfText(at offset: Int, of properties: UnsafeRawBufferPointer) -> Int {
        offset + 2 + Int(UInt16(bigEndian: properties.loadUnaligned(fromByteOffset: offset, as: UInt16.self)))
    }

    private static func endOfVariableByteInteger(at offset: Int, of properties: UnsafeRawBufferPointer) -> Int {
        var offset = offset
        while properties[offset] >= 0x80 { offset += 1 }
        return offset + 1
    }
}

/// A PUBACK, PUBREC, PUBREL or PUBCOMP decoded where it lies.
public struct AcknowledgementView: Hashable, Sendable {
    public let packetIdentifier: UInt16
    /// Success before MQTT 5.0.
    public let reasonCode: ReasonCode

    @inline(__always)
    public init(packetIdentifier: UInt16, reasonCode: ReasonCode) {
        self.packetIdentifier = packetIdentifier
        self.reasonCode = reasonCode
    }

    /// Appends the packet in its shortest form, without properties.
    ///
    /// - Parameters:
    ///   - type: one of puback, pubrec, pubrel, pubcomp.
    ///   - version: before 5.0 there is no reason.
    ///   - bytes: what it is appended to.
    public func encode(_ type: PacketType, version: ProtocolVersion, into bytes: inout [UInt8]) {
        let hasReason = version == .v5 && reasonCode != .success
        bytes.append(type.rawValue << 4 | type.fixedFlags)
        bytes.append(hasReason ? 3 : 2)
        bytes.append(UInt8(truncatingIfNeeded: packetIdentifier >> 8))
        bytes.append(UInt8(truncatingIfNeeded: packetIdentifier))
        if hasReason { bytes.append(reasonCode.rawValue) }
    }
}

extension AcknowledgementView {
    /// Decodes the body of a PUBACK, PUBREC, PUBREL or PUBCOMP.
    ///
    /// Throws what is wrong with the packet; never traps, whatever the bytes. Allocates only to check properties, which
    /// are rare here.
    public static func decode(
        type: PacketType, firstByte: UInt8, body: UnsafeRawBufferPointer, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> AcknowledgementView {
        guard type.acceptsFlags(of: firstByte, version: version) else { throw .reservedFlags }  // [MQTT-3.6.1-1 v5]
        var reader = PacketReader(body)
        let packetIdentifier = try reader.readPacketIdentifier()
        // Without a reason code it is success; without a property length there are no properties.
        if reader.isAtEnd { return AcknowledgementView(packetIdentifier: packetIdentifier, reasonCode: .success) }
        guard version == .v5 else { throw .trailingBytes }
        let reasonCode = ReasonCode(rawValue: try reader.readByte())
        guard reasonCode.isAllowed(in: type, from: peer) else { throw .invalidReasonCode }
        if !reader.isAtEnd {
            let length = try reader.readVariableByteInteger()
            let block = try reader.readBytes(length)
            if length > 0 { _ = try Properties.decode(block: block, in: .acknowledgement, from: peer) }
            try reader.finish()
        }
        return AcknowledgementView(packetIdentifier: packetIdentifier, reasonCode: reasonCode)
    }
}

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

    /// How many bytes the whole packet takes, with its fixed header. `propertiesLength` counts the property bytes
    /// without their length; it is not looked at before MQTT 5.0.
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

/// One walk over the property bytes of a PUBLISH: checks each and picks up those that the way of a message needs.
struct PublishPropertyScan {
    /// 0 if absent.
    private(set) var topicAlias: UInt16 = 0
    private(set) var messageExpiryInterval: UInt32?
    private(set) var payloadFormatIsUTF8 = false
    private(set) var hasSubscriptionIdentifiers = false
    /// How many bytes belong to the connection and not to the message: Topic Alias, Message Expiry Interval,
    /// Subscription Identifiers.
    private(set) var keptBackLength = 0
    /// One bit for each identifier met; those of PUBLISH are below 64.
    private var seen: UInt64 = 0

    /// Walks `block`; throws what is wrong with it.
    mutating func scan(_ block: UnsafeRawBufferPointer, from peer: Peer) throws(WireError) {
        var reader = PacketReader(block)
        while !reader.isAtEnd {
            let start = reader.position
            guard let identifier = PropertyIdentifier(rawValue: try reader.readByte()) else { throw .unknownProperty }
            switch identifier {
            case .userProperty:  // [MQTT-1.5.7-1 v5]
                _ = try reader.readText()
                _ = try reader.readText()
            case .subscriptionIdentifier:
                if peer == .client { throw .subscriptionIdentifierFromClient }  // [MQTT-3.3.4-6 v5]
                if try reader.readVariableByteInteger() == 0 { throw .subscriptionIdentifierZero }
                hasSubscriptionIdentifiers = true
                keptBackLength &+= reader.position &- start
            default:
                try scanOnce(identifier, &reader, from: peer)
            }
        }
    }

    /// The properties that may stand once.
    @inline(__always)
    private mutating func scanOnce(
        _ identifier: PropertyIdentifier, _ reader: inout PacketReader, from peer: Peer
    ) throws(WireError) {
        let bit: UInt64 = 1 &<< UInt64(identifier.rawValue)
        if seen & bit != 0 { throw .duplicateProperty }
        seen |= bit
        switch identifier {
        case .payloadFormatIndicator:
            let format = try reader.readByte()
            guard format <= 1 else { throw .invalidPropertyValue }
            payloadFormatIsUTF8 = format == 1
        case .messageExpiryInterval:
            messageExpiryInterval = try reader.readUInt32()
            keptBackLength &+= 5
        case .topicAlias:
            topicAlias = try reader.readUInt16()
            if topicAlias == 0 { throw .topicAliasZero }  // [MQTT-3.3.2-8 v5]
            keptBackLength &+= 3
        case .contentType:  // [MQTT-3.3.2-19 v5]
            _ = try reader.readText()
        case .responseTopic:  // [MQTT-3.3.2-13 v5]
            let topic = try reader.readText()
            if TopicValidation.validateName(topic) != nil { throw .invalidResponseTopic }  // [MQTT-3.3.2-14 v5]
        case .correlationData:
            _ = try reader.readLengthPrefixed()
        default:
            throw identifier.objection(in: .publish, from: peer) ?? .propertyNotAllowed
        }
    }
}

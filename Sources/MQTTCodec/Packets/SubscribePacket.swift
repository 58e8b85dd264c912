/// SUBSCRIBE: at least one subscription.
public struct SubscribePacket: Hashable, Sendable {
    public var packetIdentifier: UInt16
    public var properties: Properties
    public var subscriptions: [Subscription]

    public init(packetIdentifier: UInt16, properties: Properties = Properties(), subscriptions: [Subscription]) {
        self.packetIdentifier = packetIdentifier
        self.properties = properties
        self.subscriptions = subscriptions
    }
}

/// One line of a SUBSCRIBE.
public struct Subscription: Hashable, Sendable {
    public var filter: TopicFilter
    public var options: SubscriptionOptions

    public init(filter: TopicFilter, options: SubscriptionOptions = SubscriptionOptions()) {
        self.filter = filter
        self.options = options
    }
}

/// When a subscription gets the retained messages that match it.
public enum RetainHandling: UInt8, Sendable {
    case sendAtSubscribe = 0
    case sendIfNewSubscription = 1
    case doNotSend = 2
}

/// SUBACK: one code for each subscription of the SUBSCRIBE; before MQTT 5.0 one of 0, 1, 2 and 0x80.
public struct SubackPacket: Hashable, Sendable {
    public var packetIdentifier: UInt16
    public var reasonCodes: [ReasonCode]
    public var properties: Properties

    public init(packetIdentifier: UInt16, reasonCodes: [ReasonCode], properties: Properties = Properties()) {
        self.packetIdentifier = packetIdentifier
        self.reasonCodes = reasonCodes
        self.properties = properties
    }
}

extension SubscribePacket {
    static func decode(_ reader: inout PacketReader, version: ProtocolVersion) throws(WireError) -> SubscribePacket {
        var packet = SubscribePacket(packetIdentifier: try reader.readPacketIdentifier(), subscriptions: [])
        if version == .v5 { packet.properties = try Properties.decode(&reader, in: .subscribe, from: .client) }
        if reader.isAtEnd { throw .emptySubscribe }  // [MQTT-3.8.3-2 v5]
        while !reader.isAtEnd {
            if packet.subscriptions.count == Limits.filtersPerPacketMax { throw .tooManyFilters }
            let filter = try reader.readTopicFilter()
            let options = try SubscriptionOptions(validating: reader.readByte(), version: version)
            if options.noLocal && filter.isShared { throw .noLocalOnSharedSubscription }  // [MQTT-3.8.3-4 v5]
            packet.subscriptions.append(Subscription(filter: filter, options: options))
        }
        return packet
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(packetIdentifier)
        if version == .v5 { properties.encode(to: &writer) }
        for subscription in subscriptions {
            writer.write(lengthPrefixed: subscription.filter.bytes)
            writer.write(subscription.options.byte(version: version))
        }
    }
}

/// UNSUBSCRIBE: at least one filter.
public struct UnsubscribePacket: Hashable, Sendable {
    public var packetIdentifier: UInt16
    public var properties: Properties
    public var filters: [TopicFilter]

    public init(packetIdentifier: UInt16, properties: Properties = Properties(), filters: [TopicFilter]) {
        self.packetIdentifier = packetIdentifier
        self.properties = properties
        self.filters = filters
    }
}

/// UNSUBACK: one code for each filter of the UNSUBSCRIBE; before MQTT 5.0 there are none on the wire.
public struct UnsubackPacket: Hashable, Sendable {
    public var packetIdentifier: UInt16
    public var reasonCodes: [ReasonCode]
    public var properties: Properties

    public init(packetIdentifier: UInt16, reasonCodes: [ReasonCode] = [], properties: Properties = Properties()) {
        self.packetIdentifier = packetIdentifier
        self.reasonCodes = reasonCodes
        self.properties = properties
    }
}

extension UnsubscribePacket {
    static func decode(_ reader: inout PacketReader, version: ProtocolVersion) throws(WireError) -> UnsubscribePacket {
        var packet = UnsubscribePacket(packetIdentifier: try reader.readPacketIdentifier(), filters: [])
        if version == .v5 { packet.properties = try Properties.decode(&reader, in: .unsubscribe, from: .client) }
        if reader.isAtEnd { throw .emptyUnsubscribe }  // [MQTT-3.10.3-2 v5]
        while !reader.isAtEnd {
            if packet.filters.count == Limits.filtersPerPacketMax { throw .tooManyFilters }
            packet.filters.append(try reader.readTopicFilter())
        }
        return packet
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(packetIdentifier)
        if version == .v5 { properties.encode(to: &writer) }
        for filter in filters { writer.write(lengthPrefixed: filter.bytes) }
    }
}

extension UnsubackPacket {
    static func decode(_ reader: inout PacketReader, version: ProtocolVersion) throws(WireError) -> UnsubackPacket {
        var packet = UnsubackPacket(packetIdentifier: try reader.readPacketIdentifier())
        guard version == .v5 else { return packet }
        packet.properties = try Properties.decode(&reader, in: .unsuback, from: .server)
        if reader.isAtEnd { throw .emptyAcknowledgement }
        for byte in reader.readRest() {
            let code = ReasonCode(rawValue: byte)
            guard code.isAllowed(in: .unsuback, from: .server) else { throw .invalidReasonCode }
            packet.reasonCodes.append(code)
        }
        return packet
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(packetIdentifier)
        guard version == .v5 else { return }
        properties.encode(to: &writer)
        for code in reasonCodes { writer.write(code.rawValue) }
    }
}

extension SubackPacket {
    static func decode(_ reader: inout PacketReader, version: ProtocolVersion) throws(WireError) -> SubackPacket {
        var packet = SubackPacket(packetIdentifier: try reader.readPacketIdentifier(), reasonCodes: [])
        if version == .v5 { packet.properties = try Properties.decode(&reader, in: .suback, from: .server) }
        if reader.isAtEnd { throw .emptyAcknowledgement }
        for byte in reader.readRest() {
            let code = ReasonCode(rawValue: byte)
            let isAllowed = version == .v5 ? code.isAllowed(in: .suback, from: .server) : byte <= 2 || byte == 0x80
            guard isAllowed else { throw .invalidReasonCode }
            packet.reasonCodes.append(code)
        }
        return packet
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(packetIdentifier)
        if version == .v5 { properties.encode(to: &writer) }
        for code in reasonCodes {
            // Before MQTT 5.0 there is one failure.
            writer.write(code.isError && version != .v5 ? ReasonCode.unspecifiedError.rawValue : code.rawValue)
        }
    }
}

/// How a subscription wants its messages. Before MQTT 5.0 there is only the QoS.
public struct SubscriptionOptions: Hashable, Sendable {
    public var maximumQoS: QoS
    public var noLocal: Bool
    public var retainAsPublished: Bool
    public var retainHandling: RetainHandling

    public init(
        maximumQoS: QoS = .atMostOnce, noLocal: Bool = false, retainAsPublished: Bool = false,
        retainHandling: RetainHandling = .sendAtSubscribe
    ) {
        self.maximumQoS = maximumQoS
        self.noLocal = noLocal
        self.retainAsPublished = retainAsPublished
        self.retainHandling = retainHandling
    }
}

extension SubscriptionOptions {
    /// Reads the byte behind a filter.
    ///
    ///     7 6        5 4              3                 2          1 0
    ///     reserved   retain handling  retain as published  no local   QoS
    init(validating byte: UInt8, version: ProtocolVersion) throws(WireError) {
        let reserved: UInt8 =
            switch version {
            case .v31: 0  // Its upper bits are not used.
            case .v311: 0b1111_1100  // [MQTT-3.8.3-4 v3.1.1]
            case .v5: 0b1100_0000  // [MQTT-3.8.3-5 v5]
            }
        if byte & reserved != 0 { throw .reservedSubscriptionOptions }
        guard let qos = QoS(rawValue: byte & 0x03) else { throw .invalidMaximumQoS }
        self.init(maximumQoS: qos)
        guard version == .v5 else { return }
        noLocal = byte & 0x04 != 0
        retainAsPublished = byte & 0x08 != 0
        guard let handling = RetainHandling(rawValue: (byte >> 4) & 0x03) else { throw .invalidRetainHandling }
        retainHandling = handling
    }

    /// The byte on the wire.
    func byte(version: ProtocolVersion) -> UInt8 {
        guard version == .v5 else { return maximumQoS.rawValue }
        return maximumQoS.rawValue | (noLocal ? 0x04 : 0) | (retainAsPublished ? 0x08 : 0) | retainHandling.rawValue << 4
    }
}

extension Limits {
    /// Topic filters in one SUBSCRIBE or UNSUBSCRIBE, all of which are worked off in one go; more of them end the
    /// connection with Quota exceeded. Bytes: `max_packet_size`.
    static let filtersPerPacketMax = 10_000
}

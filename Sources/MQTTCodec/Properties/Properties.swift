/// The properties of an MQTT 5.0 packet or of a will (section 2.2.2 of the standard), named as the standard names them.
///
/// Nil means absent. Which of them may stand where is `PropertyIdentifier`'s table; this type holds any. Not for the
/// way of a message: `PublishView` reads a PUBLISH without allocating.
public struct Properties: Hashable, Sendable {
    public var payloadFormatIndicator: UInt8?
    /// In seconds.
    public var messageExpiryInterval: UInt32?
    public var contentType: EncodedString?
    /// A topic name.
    public var responseTopic: EncodedString?
    public var correlationData: [UInt8]?
    /// Each in 1...268,435,455; more than one only on a server's PUBLISH.
    public var subscriptionIdentifiers: [UInt32] = []
    /// In seconds; 0xFFFFFFFF is never.
    public var sessionExpiryInterval: UInt32?
    public var assignedClientIdentifier: EncodedString?
    /// In seconds.
    public var serverKeepAlive: UInt16?
    public var authenticationMethod: EncodedString?
    public var authenticationData: [UInt8]?
    public var requestProblemInformation: Bool?
    /// In seconds.
    public var willDelayInterval: UInt32?
    public var requestResponseInformation: Bool?
    public var responseInformation: EncodedString?
    public var serverReference: EncodedString?
    public var reasonString: EncodedString?
    public var receiveMaximum: UInt16?
    public var topicAliasMaximum: UInt16?
    public var topicAlias: UInt16?
    /// At most QoS 1; absent means 2.
    public var maximumQoS: QoS?
    public var retainAvailable: Bool?
    /// In the order in which they stand in the packet.
    public var userProperties: [UserProperty] = []
    /// In bytes.
    public var maximumPacketSize: UInt32?
    public var wildcardSubscriptionAvailable: Bool?
    public var subscriptionIdentifierAvailable: Bool?
    public var sharedSubscriptionAvailable: Bool?

    /// No property.
    public init() {}

    /// Whether no property is set.
    public var isEmpty: Bool { self == Properties() }
}

extension Properties {
    /// Reads what `encodedContent` wrote of a will's properties; nil if it is not that.
    public init?(willContent bytes: [UInt8]) {
        let decoded = try? bytes.withUnsafeBytes { block throws(WireError) in
            try Properties.decode(block: block, in: .will, from: .client)
        }
        guard let decoded else { return nil }
        self = decoded
    }
}

extension Properties {
    /// Reads the properties of a PUBLISH as a server sends them, without their length; nil if the bytes are not that.
    public init?(publishContent bytes: [UInt8]) {
        guard let properties = bytes.withUnsafeBytes({ Properties(publishContent: $0) }) else { return nil }
        self = properties
    }

    /// As above, for bytes where they lie.
    public init?(publishContent bytes: UnsafeRawBufferPointer) {
        do throws(WireError) { self = try Properties.decode(block: bytes, in: .publish, from: .server) } catch { return nil }
    }

    /// Whether bytes are the properties of a message, without their length: those that travel with it, and none of a
    /// connection's.
    public static func areOfMessage(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.isEmpty || scanned(bytes).map { $0.keptBackLength == 0 } ?? false
    }

    /// Whether bytes are Subscription Identifiers as they stand among the properties of a PUBLISH, any number of them
    /// and nothing else.
    public static func areSubscriptionIdentifiers(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if bytes.isEmpty { return true }
        guard let scan = scanned(bytes), scan.topicAlias == 0, scan.messageExpiryInterval == nil else { return false }
        return scan.keptBackLength == bytes.count
    }

    private static func scanned(_ bytes: UnsafeRawBufferPointer) -> PublishPropertyScan? {
        var scan = PublishPropertyScan()
        do throws(WireError) {
            try scan.scan(bytes, from: .server)
            return scan
        } catch {
            return nil
        }
    }
}

extension Properties {
    /// Reads a property length and the properties behind it, which must be allowed there and from that side.
    static func decode(
        _ reader: inout PacketReader, in context: PropertyContext, from peer: Peer
    ) throws(WireError) -> Properties {
        let length = try reader.readVariableByteInteger()
        return try decode(block: reader.readBytes(length), in: context, from: peer)
    }

    /// Reads the property bytes behind the property length.
    static func decode(
        block: UnsafeRawBufferPointer, in context: PropertyContext, from peer: Peer
    ) throws(WireError) -> Properties {
        var properties = Properties()
        var block = PacketReader(block)
        var seen: UInt64 = 0
        var userPropertyBytes = 0
        while !block.isAtEnd {
            guard let identifier = try PropertyIdentifier(rawValue: block.readByte()) else { throw .unknownProperty }
            if let objection = identifier.objection(in: context, from: peer) { throw objection }
            let bit: UInt64 = 1 << UInt64(identifier.rawValue)
            let mayRepeat = identifier == .userProperty || (identifier == .subscriptionIdentifier && context == .publish)
            if seen & bit != 0 && !mayRepeat { throw .duplicateProperty }
            seen |= bit
            let before = block.remaining
            try properties.read(identifier, from: &block)
            guard identifier == .userProperty, peer == .client, context != .publish else { continue }
            userPropertyBytes += before - block.remaining
            if properties.userProperties.count > Limits.userPropertiesMax || userPropertyBytes > Limits.userPropertyBytesMax {
                throw .tooManyUserProperties
            }
        }
        if properties.authenticationData != nil && properties.authenticationMethod == nil { throw .authenticationDataWithoutMethod }
        return properties
    }

    private mutating func read(_ identifier: PropertyIdentifier, from block: inout PacketReader) throws(WireError) {
        switch identifier {
        case .payloadFormatIndicator: payloadFormatIndicator = try Self.readBool(&block) ? 1 : 0
        case .messageExpiryInterval: messageExpiryInterval = try block.readUInt32()
        case .contentType: contentType = try block.readString()  // [MQTT-3.3.2-19 v5]
        case .responseTopic: responseTopic = try Self.readResponseTopic(&block)
        case .correlationData: correlationData = try block.readBinaryData()
        case .subscriptionIdentifier: subscriptionIdentifiers.append(try Self.readSubscriptionIdentifier(&block))
        case .sessionExpiryInterval: sessionExpiryInterval = try block.readUInt32()
        case .assignedClientIdentifier: assignedClientIdentifier = try block.readString()
        case .serverKeepAlive: serverKeepAlive = try block.readUInt16()
        case .authenticationMethod: authenticationMethod = try block.readString()
        case .authenticationData: authenticationData = try block.readBinaryData()
        case .requestProblemInformation: requestProblemInformation = try Self.readBool(&block)
        case .willDelayInterval: willDelayInterval = try block.readUInt32()
        case .requestResponseInformation: requestResponseInformation = try Self.readBool(&block)
        case .responseInformation: responseInformation = try block.readString()
        case .serverReference: serverReference = try block.readString()
        case .reasonString: reasonString = try block.readString()
        case .receiveMaximum: receiveMaximum = try Self.readNonZero(&block)
        case .topicAliasMaximum: topicAliasMaximum = try block.readUInt16()
        case .topicAlias: topicAlias = try Self.readTopicAlias(&block)
        case .maximumQoS: maximumQoS = try Self.readBool(&block) ? .atLeastOnce : .atMostOnce
        case .retainAvailable: retainAvailable = try Self.readBool(&block)
        case .userProperty: userProperties.append(try Self.readUserProperty(&block))
        case .maximumPacketSize: maximumPacketSize = try Self.readMaximumPacketSize(&block)
        case .wildcardSubscriptionAvailable: wildcardSubscriptionAvailable = try Self.readBool(&block)
        case .subscriptionIdentifierAvailable: subscriptionIdentifierAvailable = try Self.readBool(&block)
        case .sharedSubscriptionAvailable: sharedSubscriptionAvailable = try Self.readBool(&block)
        }
    }

    private static func readBool(_ block: inout PacketReader) throws(WireError) -> Bool {
        let byte = try block.readByte()
        guard byte <= 1 else { throw .invalidPropertyValue }
        return byte == 1
    }

    private static func readNonZero(_ block: inout PacketReader) throws(WireError) -> UInt16 {
        let value = try block.readUInt16()
        if value == 0 { throw .receiveMaximumZero }
        return value
    }

    private static func readMaximumPacketSize(_ block: inout PacketReader) throws(WireError) -> UInt32 {
        let value = try block.readUInt32()
        if value == 0 { throw .maximumPacketSizeZero }
        return value
    }

    private static func readTopicAlias(_ block: inout PacketReader) throws(WireError) -> UInt16 {
        let value = try block.readUInt16()
        if value == 0 { throw .topicAliasZero }  // [MQTT-3.3.2-8 v5]
        return value
    }

    private static func readSubscriptionIdentifier(_ block: inout PacketReader) throws(WireError) -> UInt32 {
        let value = try block.readVariableByteInteger()
        if value == 0 { throw .subscriptionIdentifierZero }
        return UInt32(truncatingIfNeeded: value)
    }

    private static func readResponseTopic(_ block: inout PacketReader) throws(WireError) -> EncodedString {
        let text = try block.readText()  // [MQTT-3.3.2-13 v5]
        if TopicValidation.validateName(text) != nil { throw .invalidResponseTopic }  // [MQTT-3.3.2-14 v5]
        return EncodedString(checked: Array(text))
    }

    private static func readUserProperty(_ block: inout PacketReader) throws(WireError) -> UserProperty {
        let name = try block.readString()  // [MQTT-1.5.7-1 v5]
        return UserProperty(name: name, value: try block.readString())
    }
}

extension Properties {
    /// The properties as they stand on the wire behind the property length.
    public func encodedContent() -> [UInt8] {
        var room: [UInt8] = []
        room.reserveCapacity(Self.usualByteCount)
        var writer = PacketWriter(appendingTo: room)
        encodeContent(to: &writer)
        return writer.bytes
    }

    /// So that the memory of a request's properties need not grow.
    private static let usualByteCount = 64

    /// Writes the property length and every property that is set, whether or not it belongs on the packet.
    /// [MQTT-2.2.2-1 v5]
    ///
    /// What CONNACK says of a connection comes first, in mosquitto's order; the others follow by identifier.
    func encode(to writer: inout PacketWriter) {
        let start = writer.beginLength()
        encodeContent(to: &writer)
        writer.endLength(start)
    }

    private func encodeContent(to writer: inout PacketWriter) {
        encodeTerms(to: &writer)
        encodeMessage(to: &writer)
        encodeConnection(to: &writer)
        encodeAvailability(to: &writer)
        for property in userProperties {  // [MQTT-3.3.2-18 v5]
            writer.write(PropertyIdentifier.userProperty.rawValue)
            writer.write(property.name)
            writer.write(property.value)
        }
    }

    private func encodeTerms(to writer: inout PacketWriter) {
        writer.write(.serverKeepAlive, serverKeepAlive)
        writer.write(.topicAliasMaximum, topicAliasMaximum)
        writer.write(.assignedClientIdentifier, assignedClientIdentifier)
        writer.write(.retainAvailable, retainAvailable)
        writer.write(.maximumPacketSize, maximumPacketSize)
        writer.write(.receiveMaximum, receiveMaximum)
        writer.write(.maximumQoS, maximumQoS == .exactlyOnce ? nil : maximumQoS?.rawValue)  // Only 0 and 1 can be said.
    }

    private func encodeMessage(to writer: inout PacketWriter) {
        writer.write(.payloadFormatIndicator, payloadFormatIndicator)
        writer.write(.messageExpiryInterval, messageExpiryInterval)
        writer.write(.contentType, contentType)
        writer.write(.responseTopic, responseTopic)
        writer.write(.correlationData, correlationData)
        for identifier in subscriptionIdentifiers {
            writer.write(PropertyIdentifier.subscriptionIdentifier.rawValue)
            writer.write(variableByteInteger: Int(identifier))
        }
    }

    private func encodeConnection(to writer: inout PacketWriter) {
        writer.write(.sessionExpiryInterval, sessionExpiryInterval)
        writer.write(.authenticationMethod, authenticationMethod)
        writer.write(.authenticationData, authenticationData)
        writer.write(.requestProblemInformation, requestProblemInformation)
        writer.write(.willDelayInterval, willDelayInterval)
        writer.write(.requestResponseInformation, requestResponseInformation)
        writer.write(.responseInformation, responseInformation)
        writer.write(.serverReference, serverReference)
        writer.write(.reasonString, reasonString)
    }

    private func encodeAvailability(to writer: inout PacketWriter) {
        writer.write(.topicAlias, topicAlias)
        writer.write(.wildcardSubscriptionAvailable, wildcardSubscriptionAvailable)
        writer.write(.subscriptionIdentifierAvailable, subscriptionIdentifierAvailable)
        writer.write(.sharedSubscriptionAvailable, sharedSubscriptionAvailable)
    }
}

/// One property each: its identifier and its value, or nothing if it is absent.
extension PacketWriter {
    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: UInt8?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(value)
    }

    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: Bool?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(value)
    }

    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: UInt16?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(value)
    }

    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: UInt32?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(value)
    }

    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: EncodedString?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(value)
    }

    fileprivate mutating func write(_ identifier: PropertyIdentifier, _ value: [UInt8]?) {
        guard let value else { return }
        write(identifier.rawValue)
        write(lengthPrefixed: value)
    }
}

/// A name and a value that the sender chose. The same name may stand more than once, and the order is kept.
public struct UserProperty: Hashable, Sendable {
    public var name: EncodedString
    public var value: EncodedString

    /// The name of what Martlet tells itself by: in a message each broker that it was in, in CONNECT and CONNACK who it
    /// is.
    public static let brokerName: EncodedString = "martlet-broker"

    public init(name: EncodedString, value: EncodedString) {
        self.name = name
        self.value = value
    }
}

/// The identifiers of the 27 properties, and the one table of where each may stand.
enum PropertyIdentifier: UInt8, CaseIterable {
    case payloadFormatIndicator = 0x01
    case messageExpiryInterval = 0x02
    case contentType = 0x03
    case responseTopic = 0x08
    case correlationData = 0x09
    case subscriptionIdentifier = 0x0B
    case sessionExpiryInterval = 0x11
    case assignedClientIdentifier = 0x12
    case serverKeepAlive = 0x13
    case authenticationMethod = 0x15
    case authenticationData = 0x16
    case requestProblemInformation = 0x17
    case willDelayInterval = 0x18
    case requestResponseInformation = 0x19
    case responseInformation = 0x1A
    case serverReference = 0x1C
    case reasonString = 0x1F
    case receiveMaximum = 0x21
    case topicAliasMaximum = 0x22
    case topicAlias = 0x23
    case maximumQoS = 0x24
    case retainAvailable = 0x25
    case userProperty = 0x26
    case maximumPacketSize = 0x27
    case wildcardSubscriptionAvailable = 0x28
    case subscriptionIdentifierAvailable = 0x29
    case sharedSubscriptionAvailable = 0x2A

    /// The error if that side may not put this property there (section 2.2.2.2 of the standard); nil if it may.
    func objection(in context: PropertyContext, from peer: Peer) -> WireError? {
        guard contexts.contains(context) else { return .propertyNotAllowed }
        switch (self, context, peer) {
        case (.subscriptionIdentifier, .publish, .client): return .subscriptionIdentifierFromClient  // [MQTT-3.3.4-6 v5]
        case (.sessionExpiryInterval, .disconnect, .server): return .sessionExpiryIntervalFromServer  // [MQTT-3.14.2-2 v5]
        case (.serverReference, .disconnect, .client): return .propertyNotAllowed
        default: return nil
        }
    }

    private var contexts: PropertyContext {
        switch self {
        case .payloadFormatIndicator, .messageExpiryInterval, .contentType, .responseTopic, .correlationData: [.publish, .will]
        case .subscriptionIdentifier: [.publish, .subscribe]
        case .sessionExpiryInterval: [.connect, .connack, .disconnect]
        case .authenticationMethod, .authenticationData: [.connect, .connack, .auth]
        case .requestProblemInformation, .requestResponseInformation: .connect
        case .willDelayInterval: .will
        case .serverReference: [.connack, .disconnect]
        case .reasonString: [.connack, .acknowledgement, .suback, .unsuback, .disconnect, .auth]
        case .receiveMaximum, .topicAliasMaximum, .maximumPacketSize: [.connect, .connack]
        case .topicAlias: .publish
        case .userProperty: .all
        case .assignedClientIdentifier, .serverKeepAlive, .responseInformation, .maximumQoS, .retainAvailable,
            .wildcardSubscriptionAvailable, .subscriptionIdentifierAvailable, .sharedSubscriptionAvailable:
            .connack
        }
    }
}

/// The places where properties stand: each packet that has some, and the will inside CONNECT.
struct PropertyContext: OptionSet {
    let rawValue: UInt16

    static let connect = PropertyContext(rawValue: 1 << 0)
    static let will = PropertyContext(rawValue: 1 << 1)
    static let connack = PropertyContext(rawValue: 1 << 2)
    static let publish = PropertyContext(rawValue: 1 << 3)
    /// PUBACK, PUBREC, PUBREL and PUBCOMP, which are alike.
    static let acknowledgement = PropertyContext(rawValue: 1 << 4)
    static let subscribe = PropertyContext(rawValue: 1 << 5)
    static let suback = PropertyContext(rawValue: 1 << 6)
    static let unsubscribe = PropertyContext(rawValue: 1 << 7)
    static let unsuback = PropertyContext(rawValue: 1 << 8)
    static let disconnect = PropertyContext(rawValue: 1 << 9)
    static let auth = PropertyContext(rawValue: 1 << 10)

    static let all: PropertyContext = [
        .connect, .will, .connack, .publish, .acknowledgement, .subscribe, .suback, .unsubscribe, .unsuback, .disconnect, .auth,
    ]
}

/// The bounds of the codec that are not the standard's.
enum Limits {
    /// User properties of a client's packet, or of a will; more of them are `WireError.tooManyUserProperties`. Each
    /// takes some 110 bytes of memory, and as little as 5 bytes of a packet. A PUBLISH may have any number: they are
    /// not taken apart. Bytes: `userPropertyBytesMax`.
    static let userPropertiesMax = 256

    /// Bytes of those, names and values together; more of them are the same error.
    static let userPropertyBytesMax = 64 * 1024
}

/// Any control packet with its own copy of everything.
public enum ControlPacket: Hashable, Sendable {
    case connect(ConnectPacket)
    case connack(ConnackPacket)
    case publish(PublishPacket)
    /// PUBACK, PUBREC, PUBREL or PUBCOMP, by the packet's type.
    case acknowledgement(AcknowledgementPacket)
    case subscribe(SubscribePacket)
    case suback(SubackPacket)
    case unsubscribe(UnsubscribePacket)
    case unsuback(UnsubackPacket)
    case pingreq
    case pingresp
    case disconnect(DisconnectPacket)
    case auth(AuthPacket)

    /// The packet's type.
    public var type: PacketType {
        switch self {
        case .connect: .connect
        case .connack: .connack
        case .publish: .publish
        case .acknowledgement(let packet): packet.type
        case .subscribe: .subscribe
        case .suback: .suback
        case .unsubscribe: .unsubscribe
        case .unsuback: .unsuback
        case .pingreq: .pingreq
        case .pingresp: .pingresp
        case .disconnect: .disconnect
        case .auth: .auth
        }
    }
}

extension ControlPacket {
    /// Decodes one packet: `firstByte` of its fixed header and the whole body behind it.
    ///
    /// A CONNECT says its version itself; `version` is that of the connection for all others. Throws what is wrong with
    /// the packet; never traps, whatever the bytes.
    public static func decode(
        firstByte: UInt8, body: UnsafeRawBufferPointer, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> ControlPacket {
        guard let type = PacketType(rawValue: firstByte >> 4), type != .auth || version == .v5 else { throw .reservedPacketType }
        guard type.isSent(by: peer, version: version) else { throw .unexpectedPacket }
        if type == .connect { return .connect(try ConnectPacket.decode(firstByte: firstByte, body: body)) }
        if type == .publish {
            return .publish(try PublishPacket.decode(firstByte: firstByte, body: body, version: version, from: peer))
        }
        guard type.acceptsFlags(of: firstByte, version: version) else { throw .reservedFlags }  // [MQTT-2.1.3-1 v5]
        var reader = PacketReader(body)
        let packet = try decode(type, &reader, version: version, from: peer)
        try reader.finish()
        return packet
    }

    private static func decode(
        _ type: PacketType, _ reader: inout PacketReader, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> ControlPacket {
        switch type {
        case .connack: .connack(try ConnackPacket.decode(&reader, version: version))
        case .puback, .pubrec, .pubrel, .pubcomp:
            .acknowledgement(try AcknowledgementPacket.decode(type, &reader, version: version, from: peer))
        case .subscribe: .subscribe(try SubscribePacket.decode(&reader, version: version))
        case .suback: .suback(try SubackPacket.decode(&reader, version: version))
        case .unsubscribe: .unsubscribe(try UnsubscribePacket.decode(&reader, version: version))
        case .unsuback: .unsuback(try UnsubackPacket.decode(&reader, version: version))
        case .pingreq: .pingreq
        case .pingresp: .pingresp
        case .disconnect: .disconnect(try DisconnectPacket.decode(&reader, version: version, from: peer))
        case .auth: .auth(try AuthPacket.decode(&reader, from: peer))
        case .connect, .publish: throw .unexpectedPacket  // Decoded by the caller, who has their first byte.
        }
    }
}

extension ControlPacket {
    /// Appends the packet's bytes to `bytes`.
    ///
    /// A CONNECT carries its own version. What an older version cannot say is left out. The packet is written as it is
    /// given, right or wrong; only what no packet can hold traps: data longer than 65,535 bytes and a body longer than
    /// 268,435,455.
    public func encode(version: ProtocolVersion, into bytes: inout [UInt8]) {
        var writer = PacketWriter(appendingTo: bytes)
        bytes = []
        writer.write(firstByte)
        let start = writer.beginLength()
        encodeBody(to: &writer, version: version)
        writer.endLength(start)
        bytes = writer.bytes
    }

    /// The packet's bytes.
    public func encoded(version: ProtocolVersion) -> [UInt8] {
        var bytes: [UInt8] = []
        encode(version: version, into: &bytes)
        return bytes
    }

    private var firstByte: UInt8 {
        let flags =
            switch self {
            case .publish(let packet): packet.flags
            default: type.fixedFlags  // [MQTT-2.1.3-1 v5]
            }
        return type.rawValue << 4 | flags
    }

    private func encodeBody(to writer: inout PacketWriter, version: ProtocolVersion) {
        switch self {
        case .connect(let packet): packet.encode(to: &writer)
        case .connack(let packet): packet.encode(to: &writer, version: version)
        case .publish(let packet): packet.encode(to: &writer, version: version)
        case .acknowledgement(let packet): packet.encode(to: &writer, version: version)
        case .subscribe(let packet): packet.encode(to: &writer, version: version)
        case .suback(let packet): packet.encode(to: &writer, version: version)
        case .unsubscribe(let packet): packet.encode(to: &writer, version: version)
        case .unsuback(let packet): packet.encode(to: &writer, version: version)
        case .pingreq, .pingresp: break
        case .disconnect(let packet): packet.encode(to: &writer, version: version)
        case .auth(let packet): packet.encode(to: &writer)
        }
    }
}

/// AUTH: one step of an extended authentication, MQTT 5.0 only.
public struct AuthPacket: Hashable, Sendable {
    public var reasonCode: ReasonCode
    public var properties: Properties

    public init(reasonCode: ReasonCode = .success, properties: Properties = Properties()) {
        self.reasonCode = reasonCode
        self.properties = properties
    }
}

extension AuthPacket {
    /// Without anything it is success; with a reason code it needs a property length and, to go on, a method.
    static func decode(_ reader: inout PacketReader, from peer: Peer) throws(WireError) -> AuthPacket {
        var packet = AuthPacket()
        if reader.isAtEnd { return packet }
        packet.reasonCode = ReasonCode(rawValue: try reader.readByte())
        guard packet.reasonCode.isAllowed(in: .auth, from: peer) else { throw .invalidReasonCode }
        packet.properties = try Properties.decode(&reader, in: .auth, from: peer)
        if packet.reasonCode != .success && packet.properties.authenticationMethod == nil { throw .authenticationMethodMissing }
        return packet
    }

    /// The shortest form.
    func encode(to writer: inout PacketWriter) {
        if reasonCode == .success && properties.isEmpty { return }
        writer.write(reasonCode.rawValue)
        properties.encode(to: &writer)
    }
}

/// DISCONNECT: the last packet of a connection, with a reason in MQTT 5.0.
public struct DisconnectPacket: Hashable, Sendable {
    public var reasonCode: ReasonCode
    public var properties: Properties

    public init(reasonCode: ReasonCode = .normalDisconnection, properties: Properties = Properties()) {
        self.reasonCode = reasonCode
        self.properties = properties
    }
}

extension DisconnectPacket {
    /// Without a reason code it is a normal disconnection; without a property length there are no properties.
    static func decode(
        _ reader: inout PacketReader, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> DisconnectPacket {
        var packet = DisconnectPacket()
        guard version == .v5, !reader.isAtEnd else { return packet }
        packet.reasonCode = ReasonCode(rawValue: try reader.readByte())
        guard packet.reasonCode.isAllowed(in: .disconnect, from: peer) else { throw .invalidReasonCode }
        if !reader.isAtEnd { packet.properties = try Properties.decode(&reader, in: .disconnect, from: peer) }
        return packet
    }

    /// The shortest form.
    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        guard version == .v5 else { return }
        let hasProperties = !properties.isEmpty
        if hasProperties || reasonCode != .normalDisconnection { writer.write(reasonCode.rawValue) }
        if hasProperties { properties.encode(to: &writer) }
    }
}

/// PUBACK, PUBREC, PUBREL or PUBCOMP: the steps of QoS 1 and 2.
public struct AcknowledgementPacket: Hashable, Sendable {
    /// One of puback, pubrec, pubrel, pubcomp.
    public var type: PacketType
    public var packetIdentifier: UInt16
    /// Success before MQTT 5.0.
    public var reasonCode: ReasonCode
    public var properties: Properties

    public init(
        type: PacketType, packetIdentifier: UInt16, reasonCode: ReasonCode = .success, properties: Properties = Properties()
    ) {
        self.type = type
        self.packetIdentifier = packetIdentifier
        self.reasonCode = reasonCode
        self.properties = properties
    }
}

extension AcknowledgementPacket {
    static func decode(
        _ type: PacketType, _ reader: inout PacketReader, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> AcknowledgementPacket {
        var packet = AcknowledgementPacket(type: type, packetIdentifier: try reader.readPacketIdentifier())
        guard version == .v5, !reader.isAtEnd else { return packet }
        packet.reasonCode = ReasonCode(rawValue: try reader.readByte())
        guard packet.reasonCode.isAllowed(in: type, from: peer) else { throw .invalidReasonCode }
        if !reader.isAtEnd { packet.properties = try Properties.decode(&reader, in: .acknowledgement, from: peer) }
        return packet
    }

    /// The shortest form: the standard lets a lone success and absent properties be left out.
    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(packetIdentifier)
        guard version == .v5 else { return }
        let hasProperties = !properties.isEmpty
        if hasProperties || reasonCode != .success { writer.write(reasonCode.rawValue) }
        if hasProperties { properties.encode(to: &writer) }
    }
}

/// PUBLISH with its own copy of everything; `PublishView` is the one for the way of a message.
public struct PublishPacket: Hashable, Sendable {
    /// Empty where a topic alias alone names the topic.
    public var topic: EncodedString
    /// Nil at QoS 0, not zero otherwise.
    public var packetIdentifier: UInt16?
    public var qos: QoS
    public var retain: Bool
    public var duplicate: Bool
    public var properties: Properties
    public var payload: [UInt8]

    public init(
        topic: EncodedString, packetIdentifier: UInt16? = nil, qos: QoS = .atMostOnce, retain: Bool = false,
        duplicate: Bool = false,
        properties: Properties = Properties(), payload: [UInt8] = []
    ) {
        self.topic = topic
        self.packetIdentifier = packetIdentifier
        self.qos = qos
        self.retain = retain
        self.duplicate = duplicate
        self.properties = properties
        self.payload = payload
    }
}

extension PublishPacket {
    /// Copies what a view shows.
    static func decode(
        firstByte: UInt8, body: UnsafeRawBufferPointer, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> PublishPacket {
        let view = try PublishView.decode(firstByte: firstByte, body: body, version: version, from: peer)
        return PublishPacket(
            topic: EncodedString(checked: Array(view.topic)),
            packetIdentifier: view.qos == .atMostOnce ? nil : view.packetIdentifier,
            qos: view.qos, retain: view.retain, duplicate: view.duplicate,
            properties: try Properties.decode(block: view.properties, in: .publish, from: peer), payload: Array(view.payload))
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(topic)
        if qos != .atMostOnce { writer.write(packetIdentifier ?? 0) }  // [MQTT-2.2.1-2 v5]
        if version == .v5 { properties.encode(to: &writer) }
        writer.write(raw: payload)
    }

    /// The lower four bits of the first byte.
    var flags: UInt8 { (duplicate ? 0x08 : 0) | qos.rawValue << 1 | (retain ? 0x01 : 0) }
}

/// CONNECT: a client introduces itself.
public struct ConnectPacket: Hashable, Sendable {
    public var version: ProtocolVersion
    /// Clean Start in MQTT 5.0, Clean Session before.
    public var cleanStart: Bool
    public var keepAliveSeconds: UInt16
    public var properties: Properties
    public var clientIdentifier: EncodedString
    public var will: Will?
    public var userName: EncodedString?
    public var password: [UInt8]?
    /// Whether the level had its highest bit set, as mosquitto's bridges send it: 0x83 and 0x84.
    public var isBridge: Bool

    public init(
        version: ProtocolVersion = .v5, cleanStart: Bool = true, keepAliveSeconds: UInt16 = 0,
        properties: Properties = Properties(),
        clientIdentifier: EncodedString = "", will: Will? = nil, userName: EncodedString? = nil, password: [UInt8]? = nil,
        isBridge: Bool = false
    ) {
        self.version = version
        self.cleanStart = cleanStart
        self.keepAliveSeconds = keepAliveSeconds
        self.properties = properties
        self.clientIdentifier = clientIdentifier
        self.will = will
        self.userName = userName
        self.password = password
        self.isBridge = isBridge
    }
}

extension ConnectPacket {
    /// Writes the body, in the version that the packet names.
    func encode(to writer: inout PacketWriter) {
        writer.write(lengthPrefixed: Self.name(of: version))
        writer.write(version.rawValue | (isBridge ? 0x80 : 0))
        writer.write(ConnectFlags(of: self).byte)
        writer.write(keepAliveSeconds)
        if version == .v5 { properties.encode(to: &writer) }
        writer.write(clientIdentifier)
        if let will {
            if version == .v5 { will.properties.encode(to: &writer) }
            writer.write(lengthPrefixed: will.topic.bytes)
            writer.write(lengthPrefixed: will.payload)
        }
        if let userName { writer.write(userName) }
        if let password { writer.write(lengthPrefixed: password) }
    }
}

extension ConnectPacket {
    /// Decodes the body of a CONNECT, which names its version itself: "MQIsdp" 3, "MQTT" 4 or 5.
    ///
    /// Another level of a known name is `unsupportedProtocolVersion`, another name `protocolName`. The client
    /// identifier may be empty or long: that is the broker's affair.
    public static func decode(firstByte: UInt8, body: UnsafeRawBufferPointer) throws(WireError) -> ConnectPacket {
        guard firstByte == PacketType.connect.rawValue << 4 else { throw .reservedFlags }  // [MQTT-2.1.3-1 v5]
        var reader = PacketReader(body)
        let (version, isBridge) = try readVersion(&reader)
        let flags = try ConnectFlags(validating: reader.readByte(), version: version)
        var packet = ConnectPacket(version: version, cleanStart: flags.cleanStart, isBridge: isBridge)
        packet.keepAliveSeconds = try reader.readUInt16()
        if version == .v5 { packet.properties = try Properties.decode(&reader, in: .connect, from: .client) }
        try packet.readPayload(&reader, flags)
        try reader.finish()
        return packet
    }

    private static func readVersion(_ reader: inout PacketReader) throws(WireError) -> (ProtocolVersion, isBridge: Bool) {
        let name = try reader.readLengthPrefixed()
        let isOld = name.elementsEqual(Self.name(of: .v31))
        guard isOld || name.elementsEqual(Self.name(of: .v311)) else { throw .protocolName }  // [MQTT-3.1.2-1 v5]
        let level = try reader.readByte()
        guard let version = ProtocolVersion(rawValue: level & 0x7F), (version == .v31) == isOld else {
            throw .unsupportedProtocolVersion  // [MQTT-3.1.2-2 v5]
        }
        return (version, level & 0x80 != 0)
    }

    /// The protocol level that a CONNECT announces, whether or not the rest of it is right; nil if it does not get that
    /// far.
    public static func announcedLevel(_ body: UnsafeRawBufferPointer) -> UInt8? {
        var reader = PacketReader(body)
        guard let name = try? reader.readLengthPrefixed(), name.elementsEqual(Self.name(of: .v311)) else { return nil }
        return try? reader.readByte()
    }

    /// The payload's fields in the standard's order. [MQTT-3.1.3-1 v5]
    private mutating func readPayload(_ reader: inout PacketReader, _ flags: ConnectFlags) throws(WireError) {
        clientIdentifier = try reader.readString()  // [MQTT-3.1.3-3 v5] [MQTT-3.1.3-4 v5]
        if flags.hasWill { will = try readWill(&reader, flags) }
        // MQTT 3.1: the remaining length takes precedence over these flags, for clients older still.
        if flags.hasUserName && !isMissing(reader) { userName = try reader.readString() }  // [MQTT-3.1.3-12 v5]
        if flags.hasPassword && !isMissing(reader) { password = try reader.readBinaryData() }
    }

    private func isMissing(_ reader: PacketReader) -> Bool { version == .v31 && reader.isAtEnd }

    private func readWill(_ reader: inout PacketReader, _ flags: ConnectFlags) throws(WireError) -> Will {
        let properties = version == .v5 ? try Properties.decode(&reader, in: .will, from: .client) : Properties()
        let topic = try reader.readTopicName()  // [MQTT-3.1.3-11 v5]
        let payload = try reader.readBinaryData()
        return Will(topic: topic, payload: payload, qos: flags.willQoS, retain: flags.willRetain, properties: properties)
    }

    static func name(of version: ProtocolVersion) -> [UInt8] {
        version == .v31 ? Array("MQIsdp".utf8) : Array("MQTT".utf8)
    }
}

/// The flags of a CONNECT, of which not every combination is legal.
struct ConnectFlags {
    let cleanStart: Bool
    let hasWill: Bool
    let willQoS: QoS
    let willRetain: Bool
    let hasUserName: Bool
    let hasPassword: Bool

    /// The flags of a packet to be sent.
    init(of packet: ConnectPacket) {
        cleanStart = packet.cleanStart
        hasWill = packet.will != nil
        willQoS = packet.will?.qos ?? .atMostOnce  // [MQTT-3.1.2-11 v5]
        willRetain = packet.will?.retain ?? false  // [MQTT-3.1.2-13 v5]
        hasUserName = packet.userName != nil
        hasPassword = packet.password != nil
    }

    /// Reads the byte that a client sent. MQTT 3.1 does not use the lowest bit.
    init(validating byte: UInt8, version: ProtocolVersion) throws(WireError) {
        if byte & 0x01 != 0 && version != .v31 { throw .reservedConnectFlag }  // [MQTT-3.1.2-3 v5]
        cleanStart = byte & 0x02 != 0
        hasWill = byte & 0x04 != 0
        willRetain = byte & 0x20 != 0
        hasPassword = byte & 0x40 != 0
        hasUserName = byte & 0x80 != 0
        guard let qos = QoS(rawValue: (byte >> 3) & 0x03) else { throw .willFlags }  // [MQTT-3.1.2-12 v5]
        willQoS = qos
        if !hasWill && (qos != .atMostOnce || willRetain) { throw .willFlags }  // [MQTT-3.1.2-11 v5] [MQTT-3.1.2-13 v5]
        if hasPassword && !hasUserName && version != .v5 { throw .passwordWithoutUserName }  // [MQTT-3.1.2-22 v3.1.1]
    }

    /// The byte on the wire.
    var byte: UInt8 {
        (cleanStart ? 0x02 : 0) | (hasWill ? 0x04 : 0) | willQoS.rawValue << 3 | (willRetain ? 0x20 : 0) | (hasPassword ? 0x40 : 0)
            | (hasUserName ? 0x80 : 0)
    }
}

/// The message that the server publishes when the client goes without a word.
public struct Will: Hashable, Sendable {
    public var topic: TopicName
    public var payload: [UInt8]
    public var qos: QoS
    public var retain: Bool
    public var properties: Properties

    public init(
        topic: TopicName, payload: [UInt8] = [], qos: QoS = .atMostOnce, retain: Bool = false, properties: Properties = Properties()
    ) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.properties = properties
    }
}

/// CONNACK: the server's answer to CONNECT. One of the two codes counts, by version; the other stays at success.
public struct ConnackPacket: Hashable, Sendable {
    public var sessionPresent: Bool
    /// What MQTT 5.0 says.
    public var reasonCode: ReasonCode
    /// What MQTT 3.1 and 3.1.1 say.
    public var returnCode: ConnectReturnCode
    public var properties: Properties

    public init(
        sessionPresent: Bool = false, reasonCode: ReasonCode = .success, returnCode: ConnectReturnCode = .accepted,
        properties: Properties = Properties()
    ) {
        self.sessionPresent = sessionPresent
        self.reasonCode = reasonCode
        self.returnCode = returnCode
        self.properties = properties
    }

    /// Whether the connection stands, in any version.
    public var isAccepted: Bool { reasonCode == .success && returnCode == .accepted }
}

extension ConnackPacket {
    static func decode(_ reader: inout PacketReader, version: ProtocolVersion) throws(WireError) -> ConnackPacket {
        var packet = ConnackPacket()
        let flags = try reader.readByte()
        if flags & 0xFE != 0 && version != .v31 { throw .reservedConnackFlags }  // [MQTT-3.2.2-1 v5]
        packet.sessionPresent = flags & 0x01 != 0 && version != .v31
        let code = try reader.readByte()
        if version == .v5 {
            packet.reasonCode = ReasonCode(rawValue: code)
            guard packet.reasonCode.isAllowed(in: .connack, from: .server) else { throw .invalidReasonCode }
            packet.properties = try Properties.decode(&reader, in: .connack, from: .server)
        } else {
            guard let returnCode = ConnectReturnCode(rawValue: code) else { throw .invalidReasonCode }
            packet.returnCode = returnCode
        }
        return packet
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(sessionPresent && version != .v31)
        if version == .v5 {
            writer.write(reasonCode.rawValue)
            properties.encode(to: &writer)
        } else {
            writer.write(returnCode.rawValue)
        }
    }
}

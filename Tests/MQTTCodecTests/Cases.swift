import MQTTCodec
import Testing

/// One packet and its bytes, to be checked both ways.
struct GoldenCase: CustomTestStringConvertible, Sendable {
    let version: ProtocolVersion
    let peer: Peer
    let frame: Frame
    let packet: ControlPacket

    init(_ version: ProtocolVersion, _ peer: Peer, _ frame: Frame, _ packet: ControlPacket) {
        self.version = version
        self.peer = peer
        self.frame = frame
        self.packet = packet
    }

    var testDescription: String { "\(version) \(packet.type): \(frame)" }

    /// Expects that the bytes are the packet and the packet is the bytes.
    func check(sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(frame.decoded(version, from: peer) == .success(packet), sourceLocation: sourceLocation)
        #expect(Frame(packet.encoded(version: version)) == frame, sourceLocation: sourceLocation)
    }

    /// Every golden case there is.
    static var all: [GoldenCase] {
        ConnectTests.golden + ConnackTests.golden + PublishTests.golden + AcknowledgementTests.golden + SubscribeTests.golden
            + UnsubscribeTests.golden + PingTests.golden + DisconnectTests.golden + AuthTests.golden
    }
}

/// Bytes that are no packet, what is wrong with them, and the statement of MQTT 5.0 that says so; empty if it has no
/// id.
struct MalformedCase: CustomTestStringConvertible, Sendable {
    let version: ProtocolVersion
    let peer: Peer
    let frame: Frame
    let error: WireError
    let statement: String

    init(_ version: ProtocolVersion, _ peer: Peer, _ frame: Frame, _ error: WireError, _ statement: String = "") {
        self.version = version
        self.peer = peer
        self.frame = frame
        self.error = error
        self.statement = statement
    }

    var testDescription: String { "\(version) \(error): \(frame)" }

    /// Expects the error, and that the error names the statement.
    func check(sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(frame.decoded(version, from: peer) == .failure(error), sourceLocation: sourceLocation)
        #expect(error.statement.description == statement, sourceLocation: sourceLocation)
    }
}

/// Properties with some of them set, in one expression.
func properties(_ set: (inout Properties) -> Void) -> Properties {
    var properties = Properties()
    set(&properties)
    return properties
}

extension PublishView {
    /// The view as an owned packet, built from the view's own fields alone; the rest of the properties is read from its
    /// bytes.
    func packet(version: ProtocolVersion, from peer: Peer) -> ControlPacket {
        var packet = PublishPacket(
            topic: EncodedString(validating: topic) ?? "", packetIdentifier: qos == .atMostOnce ? nil : packetIdentifier, qos: qos,
            retain: retain, duplicate: duplicate, payload: Array(payload))
        packet.properties = forwardedProperties(from: peer)
        packet.properties.topicAlias = topicAlias == 0 ? nil : topicAlias
        packet.properties.messageExpiryInterval = messageExpiryInterval
        packet.properties.subscriptionIdentifiers = subscriptionIdentifiers
        return .publish(packet)
    }

    /// What `copyForwardedProperties(to:)` copies.
    var forwardedBytes: [UInt8] {
        [UInt8](unsafeUninitializedCapacity: forwardedPropertiesLength) { buffer, count in
            if let base = buffer.baseAddress { copyForwardedProperties(to: UnsafeMutableRawPointer(base)) }
            count = forwardedPropertiesLength
        }
    }

    /// The forwarded properties, read by way of a PUBLISH that carries nothing else.
    private func forwardedProperties(from peer: Peer) -> Properties {
        let bytes = forwardedBytes
        let length = Frame(first: 0, body: bytes).bytes.dropFirst()  // A length and the bytes: as in a fixed header.
        let carrier = Frame(first: 0x30, body: [0, 1, 0x61] + length)
        guard case .success(.publish(let packet)) = carrier.decoded(.v5, from: peer) else { return Properties() }
        return packet.properties
    }
}

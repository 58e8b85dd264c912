import MQTTCodec

/// A PUBLISH packet that nothing but its packet identifier ties to its receiver: without DUP, alias and Subscription Identifiers.
///
/// The way of nearly all messages that have one receiver. It is `PublishFrame` with all that seldom differs left out, small enough to
/// stay in registers from one end to the other.
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

    @inline(__always)
    private func propertiesLength(_ publication: borrowing Publication) -> Int {
        version == .v5 ? publication.properties.count &+ (expirySeconds == .max ? 0 : PublishFrame.expiryBytes) : 0
    }
}

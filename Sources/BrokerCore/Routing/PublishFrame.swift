import MQTTCodec

/// How one PUBLISH packet is encoded for one receiver, or for many alike.
struct PublishFrame {
    /// How many bytes a Topic Alias beside its topic adds at most: its own three, and one where each length grows by a byte.
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

    /// Where the packet identifier stands in the packet; for QoS 1 and 2.
    func packetIdentifierOffset(_ publication: borrowing some PublishParts & ~Copyable) -> Int {
        let length = propertiesLength(publication)
        let properties = version == .v5 ? VariableByteInteger.encodedSize(length) + length : 0
        return size(publication) - publication.payload.count - properties - MemoryLayout<UInt16>.size
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

import MQTTCodec

/// Bytes for the server, until the shell has taken them.
struct SessionOutput: Sendable {
    private var bytes: [UInt8] = []
    /// How many of them the shell has taken.
    private var start = 0

    var count: Int { bytes.count - start }

    mutating func append(_ packet: ControlPacket, version: ProtocolVersion) {
        packet.encode(version: version, into: &bytes)
    }

    mutating func append(_ encoded: [UInt8]) { bytes.append(contentsOf: encoded) }

    /// PUBACK, PUBREC, PUBREL or PUBCOMP, in the shortest form: a lone success is left out.
    @inline(__always)
    mutating func append(
        _ type: PacketType, _ identifier: UInt16, _ reason: ReasonCode = .success, version: ProtocolVersion
    ) {
        let hasReason = version == .v5 && reason != .success
        let firstByte = type.rawValue &<< 4 | (type == .pubrel ? 0x02 : 0)  // [MQTT-3.6.1-1 v5]
        bytes.append(firstByte)
        bytes.append(hasReason ? 3 : 2)
        bytes.append(UInt8(truncatingIfNeeded: identifier &>> 8))
        bytes.append(UInt8(truncatingIfNeeded: identifier))
        if hasReason { bytes.append(reason.rawValue) }
    }

    /// PUBLISH. `properties` are its property bytes without their length; the Topic Alias, if it is not 0, is put
    /// behind them.
    @inline(__always)
    mutating func append(
        _ header: PublishHeader, version: ProtocolVersion, qos: QoS, topic: [UInt8], alias: UInt16, packetIdentifier: UInt16,
        properties: [UInt8], payload: Payload
    ) {
        let propertiesLength = properties.count &+ (alias > 0 ? SentTopicAliases.aliasByteCount : 0)
        let size = PublishHeader.encodedSize(
            version: version, qos: qos, topicLength: topic.count, propertiesLength: propertiesLength, payloadLength: payload.count)
        withUnsafeTemporaryAllocation(byteCount: size &- payload.count, alignment: 1) { memory in
            guard let base = memory.baseAddress else { return }
            let offsets = topic.withUnsafeBytes {
                header.write(
                    to: base, topic: $0, packetIdentifier: packetIdentifier, propertiesLength: propertiesLength,
                    payloadLength: payload.count)
            }
            var end = base + offsets.propertiesOffset
            properties.withUnsafeBytes { properties in
                guard let start = properties.baseAddress else { return }
                end.copyMemory(from: start, byteCount: properties.count)
                end += properties.count
            }
            if alias > 0 {
                end.storeBytes(of: Self.topicAliasIdentifier, as: UInt8.self)
                end.storeBytes(of: alias.bigEndian, toByteOffset: 1, as: UInt16.self)
            }
            bytes.append(contentsOf: UnsafeRawBufferPointer(memory))
        }
        bytes.append(contentsOf: payload.shared)
    }

    /// Lends the bytes; the body returns how many from the front it has taken.
    mutating func consume(_ body: (UnsafeRawBufferPointer) -> Int) {
        let taken = bytes.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[start...])) }
        precondition(taken >= 0 && taken <= count, "a body takes bytes that were lent")
        start += taken
        if start == bytes.count { return discard() }
        // What was taken is moved over when it is half of all, so that each byte is moved once.
        if start * 2 >= bytes.count {
            bytes.removeFirst(start)
            start = 0
        }
    }

    /// Empties it. The memory is kept for what comes next, unless much less came now than it could hold.
    mutating func discard() {
        if bytes.capacity > Self.keptMin, bytes.count * 8 < bytes.capacity {
            bytes = []
        } else {
            bytes.removeAll(keepingCapacity: true)
        }
        start = 0
    }

    /// Gives the memory back when nothing lies in it.
    mutating func trim() {
        if count == 0 { (bytes, start) = ([], 0) }
    }

    private static let keptMin = 512
    private static let topicAliasIdentifier: UInt8 = 0x23
}

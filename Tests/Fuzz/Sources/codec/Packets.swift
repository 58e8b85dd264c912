import FuzzKit
import MQTTCodec

/// Reads the packets that stand in a stream, one after the other, as long as there are any.
func checkStream(_ bytes: [UInt8], _ version: ProtocolVersion, from peer: Peer) {
    var rest = bytes[...]
    while true {
        let scan = rest.withUnsafeBytes(FrameScan.scan)
        checkScan(scan, rest)
        guard case .packet(let firstByte, let headerLength, let bodyLength) = scan else { return }
        // What is cut short is a packet too: the length that it has in truth.
        let body = Array(rest.dropFirst(headerLength).prefix(bodyLength))
        checkPacket(firstByte, body, version, peer)
        rest = rest.dropFirst(headerLength + bodyLength)
    }
}

/// However few bytes have come, a header is what it will be or not there yet.
private func checkScan(_ scan: FrameScan, _ bytes: ArraySlice<UInt8>) {
    for count in 0..<min(bytes.count, 6) {
        let early = bytes.prefix(count).withUnsafeBytes(FrameScan.scan)
        expect(early == .incomplete || early == scan, "a header is \(scan), and \(early) with \(count) bytes")
    }
}

private func checkPacket(_ firstByte: UInt8, _ body: [UInt8], _ version: ProtocolVersion, _ peer: Peer) {
    let result = decode(firstByte, body, version, peer)
    checkViews(result, firstByte, body, version, peer)
    guard case .success(let packet) = result else { return }
    let encoded = packet.encoded(version: version)
    guard case .packet(let again, let headerLength, let bodyLength) = encoded.withUnsafeBytes(FrameScan.scan),
        headerLength + bodyLength == encoded.count
    else { preconditionFailure("\(packet) is encoded as no packet") }
    let second = decode(again, Array(encoded[headerLength...]), version, peer)
    expect(second == result, "\(packet) comes back as \(second)")
    // There is one way to write a packet, and many to read: what was written once is written so again.
    if case .success(let packet) = second { expect(packet.encoded(version: version) == encoded, "\(packet) has two forms") }
}

/// What is read in place says the same as what is read as a whole.
private func checkViews(
    _ result: Result<ControlPacket, WireError>, _ firstByte: UInt8, _ body: [UInt8], _ version: ProtocolVersion, _ peer: Peer
) {
    guard let type = PacketType(rawValue: firstByte >> 4) else { return }
    switch type {
    case .publish: checkPublish(result, firstByte, body, version, peer)
    case .puback, .pubrec, .pubrel, .pubcomp:
        let view = body.withUnsafeBytes { body in
            Result { () throws(WireError) in
                try AcknowledgementView.decode(type: type, firstByte: firstByte, body: body, version: version, from: peer)
            }
        }
        let decoded = result.map { packet in
            guard case .acknowledgement(let packet) = packet else { preconditionFailure("\(packet) is no acknowledgement") }
            return AcknowledgementView(packetIdentifier: packet.packetIdentifier, reasonCode: packet.reasonCode)
        }
        expect(view == decoded, "an acknowledgement is \(result), and seen as \(view)")
    default: return
    }
}

private func checkPublish(
    _ result: Result<ControlPacket, WireError>, _ firstByte: UInt8, _ body: [UInt8], _ version: ProtocolVersion, _ peer: Peer
) {
    body.withUnsafeBytes { body in
        do throws(WireError) {
            let view = try PublishView.decode(firstByte: firstByte, body: body, version: version, from: peer)
            guard case .success(.publish(let packet)) = result else { preconditionFailure("a view of what is \(result)") }
            expect(Array(view.topic) == packet.topic.bytes, "topic")
            expect(Array(view.payload) == packet.payload, "payload")
            expect(view.qos == packet.qos && view.retain == packet.retain && view.duplicate == packet.duplicate, "flags")
            expect(view.qos == .atMostOnce || view.packetIdentifier == packet.packetIdentifier, "identifier")
            expect(view.topicAlias == packet.properties.topicAlias ?? 0, "alias")
            expect(view.messageExpiryInterval == packet.properties.messageExpiryInterval, "expiry")
            expect(
                view.hasSubscriptionIdentifiers == !packet.properties.subscriptionIdentifiers.isEmpty, "subscription identifiers")
            checkForwarded(view, packet.properties)
        } catch {
            expect(result == .failure(error), "a packet is \(result), and seen as \(error)")
        }
    }
}

/// The properties that travel on are those of the packet, without those of its connection.
private func checkForwarded(_ view: PublishView, _ properties: Properties) {
    let bytes = [UInt8](unsafeUninitializedCapacity: view.forwardedPropertiesLength) { buffer, count in
        if let base = buffer.baseAddress { view.copyForwardedProperties(to: UnsafeMutableRawPointer(base)) }
        count = view.forwardedPropertiesLength
    }
    var expected = properties
    (expected.topicAlias, expected.messageExpiryInterval, expected.subscriptionIdentifiers) = (nil, nil, [])
    // The order may be another one, so they are read by way of a PUBLISH.
    var body: [UInt8] = [0, 1, 0x61]
    body += [UInt8](unsafeUninitializedCapacity: 4) { buffer, count in
        if let base = buffer.baseAddress { count = VariableByteInteger.write(bytes.count, to: UnsafeMutableRawPointer(base)) }
    }
    guard case .success(.publish(let carried)) = decode(0x30, body + bytes, .v5, .client) else {
        preconditionFailure("forwarded properties cannot be read: \(bytes)")
    }
    expect(carried.properties == expected, "\(expected) is forwarded as \(carried.properties)")
}

private func decode(
    _ firstByte: UInt8, _ body: [UInt8], _ version: ProtocolVersion, _ peer: Peer
) -> Result<ControlPacket, WireError> {
    body.withUnsafeBytes { body in
        Result { () throws(WireError) in try ControlPacket.decode(firstByte: firstByte, body: body, version: version, from: peer) }
    }
}

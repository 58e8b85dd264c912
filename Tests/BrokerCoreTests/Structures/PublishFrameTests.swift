import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore

@Suite struct PublishFrameTests {
    /// What a frame is made of, and what the receiver must read in it.
    private struct Case {
        var topic = Array("a/topic".utf8)
        var payload: [UInt8] = Array("payload".utf8)
        var properties = Properties()
        var identifiers: [UInt32] = []
        var naming = SentAliases.Naming.topic
        var expirySeconds: UInt32?
        var version = ProtocolVersion.v5
        var qos = QoS.atMostOnce
        var retain = false
        var duplicate = false

        var frame: PublishFrame {
            var frame = PublishFrame(version: version, qos: qos, retain: retain)
            frame.duplicate = duplicate
            frame.packetIdentifier = qos == .atMostOnce ? 0 : 0xABCD
            frame.identifiers = identifiers.isEmpty ? nil : SubscriptionIdentifiers(identifiers)
            frame.naming = naming
            frame.expirySeconds = expirySeconds
            return frame
        }

        var expected: PublishPacket {
            var packet = PublishPacket(
                topic: EncodedString(topic) ?? "", packetIdentifier: qos == .atMostOnce ? nil : 0xABCD, qos: qos, retain: retain,
                duplicate: duplicate, payload: payload)
            guard version == .v5 else { return packet }
            packet.properties = properties
            packet.properties.messageExpiryInterval = expirySeconds
            packet.properties.subscriptionIdentifiers = identifiers
            switch naming {
            case .topic: break
            case .topicAndAlias(let alias): packet.properties.topicAlias = alias
            case .alias(let alias):
                packet.properties.topicAlias = alias
                packet.topic = ""
            }
            return packet
        }

        /// Hands out the publication that the case is of.
        private func withPublication<Result>(_ body: (borrowing Publication) -> Result) -> Result {
            let encodedProperties = properties.encodedContent()
            return topic.withUnsafeBytes { topic in
                encodedProperties.withUnsafeBytes { properties in
                    payload.withUnsafeBytes { payload in
                        body(
                            Publication(
                                topic: topic, properties: properties, payload: payload, qos: qos, retain: retain,
                                expiresAt: Message.neverExpires, publisher: 0))
                    }
                }
            }
        }

        var size: Int { withPublication { frame.size($0) } }

        /// The bytes that the frame writes: with the payload, or with it put behind.
        func encoded(payloadApart: Bool) -> [UInt8] {
            withPublication { publication in
                let size = frame.size(publication)
                let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: size + 64, alignment: 1)
                defer { memory.deallocate() }
                memory.initializeMemory(as: UInt8.self, repeating: 0xEE)
                let written = frame.write(publication, to: memory.baseAddress.unsafelyUnwrapped, payload: !payloadApart)
                let isInBounds = memory[size...].allSatisfy { $0 == 0xEE }
                #expect(isInBounds, "more was written than was promised")
                return Array(memory[..<written]) + (payloadApart ? payload : [])
            }
        }

        /// What the short way writes, where the case has nothing that it leaves out.
        func encodedPlainly() -> [UInt8] {
            withPublication { publication in
                let frame = PlainPublishFrame(
                    version == .v5 ? .shared5 : .shared3, qos: qos, retain: retain, expirySeconds: expirySeconds)
                let size = frame.size(publication)
                let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: size + 64, alignment: 1)
                defer { memory.deallocate() }
                memory.initializeMemory(as: UInt8.self, repeating: 0xEE)
                frame.write(publication, packetIdentifier: 0xABCD, to: memory.baseAddress.unsafelyUnwrapped)
                let isInBounds = memory[size...].allSatisfy { $0 == 0xEE }
                #expect(isInBounds, "more was written than was promised")
                return Array(memory[..<size])
            }
        }

        func check(sourceLocation: SourceLocation = #_sourceLocation) throws {
            for payloadApart in [false, true] {
                let bytes = encoded(payloadApart: payloadApart)
                #expect(bytes.count == size, "the size is not what was written", sourceLocation: sourceLocation)
                let packet = try bytes.withUnsafeBytes { bytes throws(WireError) -> ControlPacket? in
                    guard case .packet(let firstByte, let header, let body) = FrameScan.scan(bytes), header + body == bytes.count
                    else {
                        return nil
                    }
                    return try ControlPacket.decode(
                        firstByte: firstByte, body: UnsafeRawBufferPointer(rebasing: bytes[header...]), version: version,
                        from: .server)
                }
                #expect(packet == .publish(expected), sourceLocation: sourceLocation)
            }
            guard identifiers.isEmpty, naming == .topic, !duplicate else { return }
            #expect(encodedPlainly() == encoded(payloadApart: false), "the short way says the same", sourceLocation: sourceLocation)
        }
    }

    @Test(arguments: [ProtocolVersion.v31, .v311, .v5], [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `every variant has its size and decodes to what was meant`(version: ProtocolVersion, qos: QoS) throws {
        var properties = Properties()
        properties.payloadFormatIndicator = 1
        properties.contentType = "text/plain"
        properties.responseTopic = "answer/here"
        properties.correlationData = [0, 1, 2]
        properties.userProperties = [UserProperty(name: "n", value: "v"), UserProperty(name: "n", value: "v")]
        for bits in 0..<32 {
            for naming in [SentAliases.Naming.topic, .topicAndAlias(1), .alias(65_535)] {
                var example = Case(version: version, qos: qos)
                example.retain = bits & 1 != 0
                example.duplicate = bits & 2 != 0 && qos > .atMostOnce
                example.expirySeconds = bits & 4 != 0 ? 0x0102_0304 : nil
                example.identifiers = bits & 8 != 0 ? [1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455] : []
                if version == .v5 {
                    example.properties = bits & 16 != 0 ? properties : Properties()
                    example.naming = naming
                } else {
                    guard naming == .topic else { continue }
                }
                try example.check()
            }
        }
    }

    @Test(arguments: [0, 1, 100, 126, 127, 128, 16_200, 16_383, 16_384, 70_000, 2_097_140, 2_097_152])
    func `lengths around each step of the variable byte integer are right`(length: Int) throws {
        for version in [ProtocolVersion.v311, .v5] {
            for less in 0..<(length < 20_000 ? 24 : 2) where length >= less {
                try Case(payload: [UInt8](repeating: 7, count: length - less), version: version, qos: .atLeastOnce).check()
            }
        }
        guard length > 0, length < 65_535 else { return }
        var properties = Properties()
        for less in 0..<24 where length > less {
            properties.correlationData = [UInt8](repeating: 7, count: length - less)
            try Case(properties: properties, naming: .topicAndAlias(9), expirySeconds: 0).check()
        }
    }

    @Test func `the longest topic and no payload make a packet`() throws {
        for version in [ProtocolVersion.v31, .v311, .v5] {
            try Case(topic: [UInt8](repeating: UInt8(ascii: "t"), count: 65_535), payload: [], version: version).check()
        }
    }

    @Test(.statement("MQTT-3.1.2-24", .v5))
    func `a Topic Alias makes a packet at most so much larger as is reckoned`() {
        var largest = 0
        for around in [128, 16_384, 2_097_152] {
            var example = Case()
            for propertyLength in 115..<128 {
                example.properties.correlationData = [UInt8](repeating: 7, count: propertyLength)
                for less in 0..<20 {
                    example.payload = [UInt8](repeating: 7, count: max(0, around - propertyLength - less))
                    example.naming = .topic
                    let plain = example.size
                    example.naming = .topicAndAlias(1)
                    largest = max(largest, example.size - plain)
                }
            }
        }
        #expect(largest == PublishFrame.aliasBytesMax)
    }
}

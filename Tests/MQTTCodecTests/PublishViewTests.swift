import MQTTCodec
import MartletTestKit
import Testing

@Suite struct PublishViewTests {
    /// Hands `body` a view of the packet's bytes.
    private func withView<Result>(
        _ packet: PublishPacket, from peer: Peer = .server, _ body: (PublishView) throws -> Result
    ) throws -> Result {
        let frame = ControlPacket.publish(packet).encoded(version: .v5)
        return try frame.withUnsafeBytes { bytes in
            guard case .packet(let firstByte, let headerLength, _) = FrameScan.scan(bytes) else { throw WireError.truncated }
            let content = UnsafeRawBufferPointer(rebasing: bytes[headerLength...])
            return try body(PublishView.decode(firstByte: firstByte, body: content, version: .v5, from: peer))
        }
    }

    private let forwarded = properties {
        $0.payloadFormatIndicator = 1
        $0.contentType = "text/plain"
        $0.responseTopic = "reply/to"
        $0.correlationData = [1, 2, 3]
        $0.userProperties = [
            UserProperty(name: "b", value: "1"), UserProperty(name: "a", value: ""), UserProperty(name: "b", value: "1"),
        ]
    }

    @Test(.statement("MQTT-3.3.2-2", .v5), .statement("MQTT-1.5.4-2", .v5), arguments: [ProtocolVersion.v311, .v5])
    func `what is wrong with a topic is found in one of any length at any place`(version: ProtocolVersion) {
        let wrong: [(UInt8, WireError)] = [
            (0, .nullCharacter), (UInt8(ascii: "+"), .topicNameWithWildcard), (UInt8(ascii: "#"), .topicNameWithWildcard),
            (0x80, .invalidUTF8), (0xFF, .invalidUTF8),
        ]
        for count in 1..<70 {
            let plain = (0..<count).map { [0x22, 0x24, 0x2A, 0x2C, 0x7F, 1][$0 % 6] as UInt8 }
            #expect(error(ofTopic: plain, version) == nil)
            for (byte, error) in wrong {
                for index in 0..<count {
                    var topic = plain
                    topic[index] = byte
                    #expect(self.error(ofTopic: topic, version) == error, "\(byte) at \(index)")
                }
            }
        }
    }

    private func error(ofTopic topic: [UInt8], _ version: ProtocolVersion) -> WireError? {
        let body = [0, UInt8(topic.count)] + topic + [0]
        return body.withUnsafeBytes { body in
            do throws(WireError) {
                _ = try PublishView.decode(firstByte: 0x30, body: body, version: version, from: .client)
                return nil
            } catch {
                return error
            }
        }
    }

    @Test func `a view shows every field`() throws {
        var all = forwarded
        all.topicAlias = 9
        all.messageExpiryInterval = 70_000
        all.subscriptionIdentifiers = [1, 268_435_455, 128]
        let packet = PublishPacket(
            topic: "a/b", packetIdentifier: 513, qos: .exactlyOnce, retain: true, duplicate: true, properties: all, payload: [7, 8])
        try withView(packet) { view in
            #expect(Array(view.topic) == Array("a/b".utf8))
            #expect(view.packetIdentifier == 513)
            #expect(view.qos == .exactlyOnce)
            #expect(view.retain && view.duplicate && view.payloadFormatIsUTF8 && view.hasSubscriptionIdentifiers)
            #expect(view.topicAlias == 9)
            #expect(view.messageExpiryInterval == 70_000)
            #expect(view.subscriptionIdentifiers == [1, 268_435_455, 128])
            #expect(Array(view.payload) == [7, 8])
            #expect(view.packet(version: .v5, from: .server) == .publish(packet))
        }
    }

    @Test(.statement("MQTT-3.3.2-18", .v5)) func `what belongs to the message is forwarded in order whatever stands between`()
        throws
    {
        let expected = try withView(PublishPacket(topic: "a", properties: forwarded)) { view in
            #expect(view.forwardedPropertiesLength == view.properties.count)
            #expect(Array(view.properties) == view.forwardedBytes)
            return view.forwardedBytes
        }
        // Every combination of what is kept back: some stand first, some in the middle, some last.
        for combination in 0..<8 {
            var all = forwarded
            if combination & 1 != 0 { all.topicAlias = 1 }
            if combination & 2 != 0 { all.messageExpiryInterval = 5 }
            if combination & 4 != 0 { all.subscriptionIdentifiers = [300, 2] }
            try withView(PublishPacket(topic: "a", properties: all)) { view in
                #expect(view.forwardedPropertiesLength == expected.count)
                #expect(view.forwardedBytes == expected)
            }
        }
    }

    @Test func `user properties and what is kept back may stand in any order`() throws {
        let user: Frame = "26 00 01 'k 00 01 'v"
        let kept: [Frame] = ["23 00 01", "02 00 00 00 05", "0B 80 01", "0B 05"]
        for position in 0...kept.count {
            let before = kept[..<position].flatMap(\.bytes)
            let after = kept[position...].flatMap(\.bytes)
            let block = before + user.bytes + after
            let body = [0, 1, 0x61, UInt8(block.count)] + block
            try body.withUnsafeBytes { body in
                let view = try PublishView.decode(firstByte: 0x30, body: body, version: .v5, from: .server)
                #expect(view.forwardedBytes == user.bytes)
                #expect(view.subscriptionIdentifiers == [128, 5])
            }
        }
    }

    @Test func `a topic may be left to its alias`() throws {
        try withView(PublishPacket(topic: "", properties: properties { $0.topicAlias = 65_535 }), from: .client) { view in
            #expect(view.topic.isEmpty)
            #expect(view.topicAlias == 65_535)
            #expect(view.forwardedPropertiesLength == 0)
            #expect(view.forwardedBytes.isEmpty)
        }
    }

    @Test func `before MQTT 5.0 there are no properties`() throws {
        let body: Frame = "00 01 'a 03 23 00 01"
        try body.bytes.withUnsafeBytes { body in
            let view = try PublishView.decode(firstByte: 0x30, body: body, version: .v311, from: .client)
            #expect(view.properties.isEmpty && view.topicAlias == 0 && view.forwardedPropertiesLength == 0)
            #expect(Array(view.payload) == [0x03, 0x23, 0x00, 0x01])
        }
    }
}

import ClientCore
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@Suite struct ReceiveTests {
    private func message(_ qos: QoS, _ identifier: UInt16? = nil, duplicate: Bool = false) -> PublishPacket {
        PublishPacket(topic: "a", packetIdentifier: identifier, qos: qos, duplicate: duplicate, payload: [7])
    }

    @Test(.statement("MQTT-4.3.2-4", .v5))
    func `a message of QoS 1 is told and acknowledged`() {
        var talk = Conversation()
        talk.connect()
        talk.serverSends(.publish(message(.atLeastOnce, 5)))
        #expect(talk.events() == [Conversation.told(message(.atLeastOnce, 5))])
        #expect(talk.sent() == [Conversation.acknowledgement(.puback, 5)])
    }

    @Test(.statement("MQTT-4.3.3-10", .v5))
    func `a message of QoS 2 that comes twice is told once`() {
        var talk = Conversation()
        talk.connect()
        talk.serverSends(.publish(message(.exactlyOnce, 5)))
        talk.serverSends(.publish(message(.exactlyOnce, 5, duplicate: true)))
        #expect(talk.events() == [Conversation.told(message(.exactlyOnce, 5))])
        #expect(talk.sent() == Array(repeating: Conversation.acknowledgement(.pubrec, 5), count: 2))
        talk.serverSends(Conversation.acknowledgement(.pubrel, 5))
        #expect(talk.sent() == [Conversation.acknowledgement(.pubcomp, 5)])
        talk.serverSends(.publish(message(.exactlyOnce, 5)))
        #expect(talk.events() == [Conversation.told(message(.exactlyOnce, 5))])
    }

    @Test(.statement("MQTT-4.3.3-11", .v5))
    func `a PUBREL for what is unknown is answered`() {
        var talk = Conversation()
        talk.connect()
        talk.serverSends(Conversation.acknowledgement(.pubrel, 9))
        #expect(talk.sent() == [Conversation.acknowledgement(.pubcomp, 9, .packetIdentifierNotFound)])
    }

    @Test func `an owner that acknowledges by itself does so once`() {
        var talk = Conversation { $0.acknowledgesAutomatically = false }
        talk.connect()
        talk.serverSends(.publish(message(.atLeastOnce, 5)))
        #expect(talk.sent().isEmpty)
        talk.acknowledge(0)
        talk.acknowledge(0)
        #expect(talk.sent() == [Conversation.acknowledgement(.puback, 5)])
    }

    @Test(
        .statement("MQTT-4.6.0-2", .v5), .statement("MQTT-4.6.0-2", .v311),
        arguments: [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]])
    func `PUBACK packets keep the order of their messages, whatever the order of the verdicts`(order: [UInt16]) {
        var talk = Conversation { $0.acknowledgesAutomatically = false }
        talk.connect()
        for identifier in UInt16(1)...3 { talk.serverSends(.publish(message(.atLeastOnce, identifier))) }
        for identifier in order {
            let reason: ReasonCode = identifier == 2 ? .implementationSpecificError : .success
            talk.acknowledge(Int(identifier) - 1, reason)
        }
        #expect(
            talk.sent() == [
                Conversation.acknowledgement(.puback, 1), Conversation.acknowledgement(.puback, 2, .implementationSpecificError),
                Conversation.acknowledgement(.puback, 3),
            ])
    }

    @Test(.statement("MQTT-4.6.0-3", .v5), .statement("MQTT-4.6.0-3", .v311))
    func `PUBREC packets keep the order of their messages, which those of QoS 1 do not disturb`() {
        var talk = Conversation { $0.acknowledgesAutomatically = false }
        talk.connect()
        talk.serverSends(.publish(message(.exactlyOnce, 1)))
        talk.serverSends(.publish(message(.atLeastOnce, 2)))
        talk.serverSends(.publish(message(.exactlyOnce, 3)))
        talk.acknowledge(2)
        #expect(talk.sent().isEmpty)
        talk.acknowledge(1)
        #expect(talk.sent() == [Conversation.acknowledgement(.puback, 2)])
        talk.acknowledge(0)
        #expect(talk.sent() == [Conversation.acknowledgement(.pubrec, 1), Conversation.acknowledgement(.pubrec, 3)])
    }

    @Test(.statement("MQTT-4.3.3-10", .v5), arguments: [QoS.atLeastOnce, .exactlyOnce])
    func `a verdict that is given while there is no connection is the answer to the message sent again`(qos: QoS) {
        var talk = Conversation {
            $0.acknowledgesAutomatically = false
            $0.cleanStart = false
            $0.receiveMaximum = 2
        }
        talk.connect()
        talk.serverSends(.publish(message(qos, 1)))
        talk.serverSends(.publish(message(qos, 2)))
        _ = talk.events()
        talk.session.transportClosed()
        talk.acknowledge(1)
        talk.connect(ConnackPacket(sessionPresent: true))
        talk.serverSends(.publish(message(qos, 1, duplicate: true)))
        talk.serverSends(.publish(message(qos, 2, duplicate: true)))
        #expect(talk.events().isEmpty, "neither is told a second time")
        #expect(talk.sent().isEmpty, "the first has no verdict yet")
        talk.acknowledge(0)
        let type: PacketType = qos == .atLeastOnce ? .puback : .pubrec
        #expect(talk.sent() == [Conversation.acknowledgement(type, 1), Conversation.acknowledgement(type, 2)])
        if qos == .exactlyOnce {
            talk.serverSends(Conversation.acknowledgement(.pubrel, 1))
            talk.serverSends(Conversation.acknowledgement(.pubrel, 2))
        }
        // The window is whole again.
        talk.serverSends(.publish(message(qos, 3)))
        talk.serverSends(.publish(message(qos, 4)))
        #expect(talk.events() == [Conversation.told(message(qos, 3)), Conversation.told(message(qos, 4))])
    }

    @Test func `a token of a session that the server has forgotten does not answer a message of the next`() {
        var talk = Conversation { $0.acknowledgesAutomatically = false }
        talk.connect()
        talk.serverSends(.publish(message(.atLeastOnce, 1)))
        _ = talk.events()
        talk.session.transportClosed()
        talk.connect()
        talk.serverSends(.publish(message(.atLeastOnce, 1)))
        #expect(talk.events() == [Conversation.told(message(.atLeastOnce, 1))])
        #expect(Set(talk.tokens).count == 2)
        #expect(talk.tokens.map(\.packetIdentifier) == [1, 1])
        talk.acknowledge(0)
        #expect(talk.sent().isEmpty)
        talk.acknowledge(1)
        #expect(talk.sent() == [Conversation.acknowledgement(.puback, 1)])
    }

    @Test(.statement("MQTT-3.3.4-9", .v5))
    func `a server that exceeds the Receive Maximum is disconnected`() {
        var talk = Conversation {
            $0.receiveMaximum = 1
            $0.acknowledgesAutomatically = false
        }
        talk.connect()
        talk.serverSends(.publish(message(.atLeastOnce, 1)))
        talk.serverSends(.publish(message(.atLeastOnce, 2)))
        #expect(talk.events() == [Conversation.told(message(.atLeastOnce, 1)), .failed(.protocolError(.receiveMaximumExceeded))])
        #expect(talk.sent() == [.disconnect(DisconnectPacket(reasonCode: .receiveMaximumExceeded))])
    }

    @Test(arguments: [ProtocolVersion.v31, .v311, .v5])
    func `packets may be cut anywhere`(version: ProtocolVersion) {
        var whole: [UInt8] = []
        for identifier in 1...20 {
            ControlPacket.publish(message(.exactlyOnce, UInt16(identifier))).encode(version: version, into: &whole)
        }
        for size in 1...40 {
            var talk = Conversation { $0.version = version }
            talk.connect()
            for start in stride(from: 0, to: whole.count, by: size) {
                talk.session.received(Array(whole[start..<min(start + size, whole.count)]), now: talk.now)
            }
            #expect(talk.events().count == 20)
        }
    }

    @Test(.statement("MQTT-6.0.0-2", .v5))
    func `the same is told wherever the bytes are cut`() {
        var aliased = PublishPacket(topic: "building/7/room", payload: Array(repeating: 1, count: 40))
        aliased.properties.topicAlias = 1
        var again = PublishPacket(topic: "", payload: [2])
        again.properties.topicAlias = 1
        again.properties.userProperties = [UserProperty(name: "n", value: "v")]
        var large = PublishPacket(topic: "large", packetIdentifier: 1, qos: .atLeastOnce, payload: Array(0...255))
        large.properties.contentType = "text"
        large.properties.subscriptionIdentifiers = [1, 300]
        let packets: [ControlPacket] = [
            .publish(aliased), .publish(again), .publish(PublishPacket(topic: "empty")), .publish(large), .pingresp,
            .publish(PublishPacket(topic: "large", packetIdentifier: 2, qos: .exactlyOnce, payload: [3, 4])), .publish(again),
        ]
        let bytes = packets.flatMap { $0.encoded(version: .v5) }
        func told(_ pieces: [ArraySlice<UInt8>]) -> [ClientEvent] {
            var talk = Conversation()
            talk.connect()
            for piece in pieces { talk.session.received(Array(piece), now: talk.now) }
            return talk.events()
        }
        let whole = told([bytes[...]])
        #expect(whole.count == 6)
        for first in 0...bytes.count {
            #expect(told([bytes[..<first], bytes[first...]]) == whole)
            let second = min(first + 7, bytes.count)
            #expect(told([bytes[..<first], bytes[first..<second], bytes[second...]]) == whole)
        }
        #expect(told(bytes.indices.map { bytes[$0...$0] }) == whole)
    }

    @Test func `messages of one read share memory, and each has its own bytes`() {
        let packets = (0..<600).map { number in
            PublishPacket(topic: "t", payload: Array(repeating: UInt8(truncatingIfNeeded: number), count: number * 7 % 300))
        }
        let large = PublishPacket(topic: "t", payload: (0..<40_000).map { UInt8(truncatingIfNeeded: $0) })
        let all = packets + [large] + packets
        var talk = Conversation()
        talk.connect()
        talk.session.received(all.flatMap { ControlPacket.publish($0).encoded(version: .v5) }, now: talk.now)
        #expect(talk.events() == all.map(Conversation.told))
    }

    @Test func `a large packet in many pieces is not copied with each of them`() {
        // A megabyte in pieces of sixteen bytes: copied each time it would be 32 gigabytes, and a test that does not
        // end.
        var talk = Conversation()
        talk.connect()
        let large = PublishPacket(topic: "a", payload: Array(repeating: 7, count: 1 << 20))
        let bytes = ControlPacket.publish(large).encoded(version: .v5)
        for start in stride(from: 0, to: bytes.count, by: 16) {
            bytes.withUnsafeBytes {
                talk.session.received(UnsafeRawBufferPointer(rebasing: $0[start..<min(start + 16, bytes.count)]), now: 1000)
            }
        }
        #expect(talk.events() == [Conversation.told(large)])
    }

    @Test func `a packet larger than announced ends the connection before it has come`() {
        var talk = Conversation { $0.maximumPacketSize = 100 }
        talk.connect()
        talk.session.received([0x30, 0xFF, 0xFF, 0x7F], now: talk.now)
        #expect(talk.events() == [.failed(.protocolError(.packetTooLarge))])
    }

    @Test func `the message that the server waits for is the first without a verdict, of QoS 1 or 2`() {
        var talk = Conversation { $0.acknowledgesAutomatically = false }
        talk.connect()
        #expect(talk.session.unanswered == nil && !talk.session.awaitsAnswer)
        for (identifier, qos) in [(UInt16(1), QoS.exactlyOnce), (2, .atLeastOnce), (3, .exactlyOnce)] {
            talk.serverSends(.publish(PublishPacket(topic: "a", packetIdentifier: identifier, qos: qos)))
        }
        _ = talk.events()
        for expected in [0, 1, 2] {
            #expect(talk.session.unanswered?.first == talk.tokens[expected])
            talk.session.acknowledge(talk.tokens[expected], now: talk.now)
        }
        #expect(talk.session.unanswered == nil)
    }

    @Test func `a malformed packet ends the connection and the server is told why`() {
        var talk = Conversation()
        talk.connect()
        talk.session.received([0x36, 0x03, 0x00, 0x01, 0x61], now: talk.now)
        #expect(talk.events() == [.failed(.malformed(.invalidQoS))])
        #expect(talk.sent() == [.disconnect(DisconnectPacket(reasonCode: .malformedPacket))])
    }

    @Test func `answers to SUBSCRIBE and UNSUBSCRIBE are told with their identifiers`() throws {
        var talk = Conversation()
        talk.connect()
        let first = try talk.session.subscribe([Subscription(filter: "a/#")], now: talk.now)
        let second = try talk.session.unsubscribe(["a/#"], now: talk.now)
        let suback = SubackPacket(packetIdentifier: first, reasonCodes: [.grantedQoS0])
        let unsuback = UnsubackPacket(packetIdentifier: second, reasonCodes: [.success])
        talk.serverSends(.suback(suback))
        talk.serverSends(.unsuback(unsuback))
        #expect(talk.events() == [.subscribed(suback), .unsubscribed(unsuback)])
    }

    @Test(arguments: 0..<100)
    func `no packet with some bytes changed can trap it`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var publish = PublishPacket(topic: "a/b", packetIdentifier: 1, qos: .exactlyOnce, payload: [1, 2, 3])
        publish.properties.topicAlias = 2
        publish.properties.responseTopic = "r"
        publish.properties.subscriptionIdentifiers = [1, 200]
        publish.properties.userProperties = [UserProperty(name: "n", value: "v")]
        let packets: [ControlPacket] = [
            .publish(publish), Conversation.acknowledgement(.pubrec, 1, .noMatchingSubscribers),
            Conversation.acknowledgement(.pubrel, 1), .suback(SubackPacket(packetIdentifier: 3, reasonCodes: [.grantedQoS1])),
            .unsuback(UnsubackPacket(packetIdentifier: 4, reasonCodes: [.success])), .pingresp,
            .disconnect(DisconnectPacket(reasonCode: .serverMoved)),
        ]
        for packet in packets {
            var bytes = packet.encoded(version: .v5)
            for _ in 0..<3 { bytes[Int.random(in: 0..<bytes.count, using: &generator)] = .random(in: 0...255, using: &generator) }
            var talk = Conversation { $0.acknowledgesAutomatically = seed % 2 == 0 }
            talk.connect()
            for qos in QoS.allOfThem { try talk.publish("a", qos: qos) }
            try talk.session.subscribe([Subscription(filter: "a")], now: talk.now)
            try talk.session.unsubscribe(["a"], now: talk.now)
            let end = Int.random(in: 0...bytes.count, using: &generator)
            talk.session.received(Array(bytes[..<end]), now: talk.now)
            talk.session.received(Array(bytes[end...]), now: talk.now)
            for case .message(let message) in talk.events() { _ = (message.properties, message.payload.bytes) }
        }
    }

    @Test(arguments: 0..<200)
    func `no bytes can trap it`(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var talk = Conversation()
        talk.connect()
        for _ in 0..<20 {
            var bytes = (0..<Int.random(in: 1...40, using: &generator)).map { _ in
                UInt8.random(in: .min ... .max, using: &generator)
            }
            // A plausible beginning gets further.
            bytes[0] =
                [0x30, 0x32, 0x34, 0x40, 0x50, 0x62, 0x70, 0x90, 0xB0, 0xD0, 0xE0, 0xF0].randomElement(using: &generator) ?? 0
            if bytes.count > 1 { bytes[1] = UInt8(bytes.count - 2) }
            talk.session.received(bytes, now: talk.now)
            _ = talk.events()
        }
    }

    @Test(arguments: [[UInt32(7)], [7, 8]])
    func `properties are those of the packet, whenever they are asked for`(identifiers: [UInt32]) {
        var talk = Conversation()
        talk.connect()
        var packet = PublishPacket(topic: "a", payload: [1])
        packet.properties.subscriptionIdentifiers = identifiers
        var plain = PublishPacket(topic: "b", payload: [2])
        plain.properties.messageExpiryInterval = 60
        plain.properties.userProperties = [UserProperty(name: "n", value: "v")]
        let bytes = [packet, plain].flatMap { ControlPacket.publish($0).encoded(version: .v5) }
        talk.session.received(bytes, now: talk.now)
        let messages = talk.events().compactMap { if case .message(let message) = $0 { message } else { nil } }
        #expect(messages.map(\.subscriptionIdentifier) == [7, 0])
        #expect(messages[0].properties.subscriptionIdentifiers == (identifiers.count == 1 ? [] : identifiers))
        #expect(messages[0].hasProperties == (identifiers.count > 1))
        #expect(messages[1].properties == plain.properties)
        #expect(messages.map(\.payload) == [[1], [2]])
    }

    @Test(
        .statement("MQTT-3.3.4-1", .v5), .statement("MQTT-4.3.3-8", .v5), .statement("MQTT-4.5.0-2", .v5),
        .statement("MQTT-2.2.1-5", .v5), .statement("MQTT-3.3.4-1", .v311), .statement("MQTT-2.3.1-6", .v311),
        arguments: [ProtocolVersion.v311, .v5])
    func `each message is answered by its QoS under its identifier, whether or not anybody asked for it`(version: ProtocolVersion) {
        var talk = Conversation { $0.version = version }
        talk.connect()
        talk.serverSends(.publish(message(.atMostOnce)))
        talk.serverSends(.publish(message(.atLeastOnce, 7)))
        talk.serverSends(.publish(message(.exactlyOnce, 300)))
        #expect(talk.sent() == [Conversation.acknowledgement(.puback, 7), Conversation.acknowledgement(.pubrec, 300)])
        talk.serverSends(Conversation.acknowledgement(.pubrel, 300))
        #expect(talk.session.takeOutput() == [0x70, 2, 1, 44])
    }

    @Test(.statement("MQTT-4.3.2-5", .v5), .statement("MQTT-4.3.3-12", .v5), arguments: [false, true])
    func `under an identifier that is free again a message is new, whatever its DUP`(duplicate: Bool) {
        var talk = Conversation()
        talk.connect()
        for qos in [QoS.atLeastOnce, .exactlyOnce] {
            for _ in 0..<3 {
                talk.serverSends(.publish(message(qos, 5, duplicate: duplicate)))
                #expect(talk.events() == [Conversation.told(message(qos, 5, duplicate: duplicate))])
                if qos == .exactlyOnce { talk.serverSends(Conversation.acknowledgement(.pubrel, 5)) }
            }
        }
    }

    @Test(.statement("MQTT-4.3.3-9", .v5))
    func `a message of QoS 2 that was refused is new when it comes again`() {
        var talk = Conversation { $0.acknowledgesAutomatically = false }
        talk.connect()
        for index in 0..<2 {
            talk.serverSends(.publish(message(.exactlyOnce, 5)))
            #expect(talk.events() == [Conversation.told(message(.exactlyOnce, 5))])
            talk.acknowledge(index, .quotaExceeded)
            #expect(talk.sent() == [Conversation.acknowledgement(.pubrec, 5, .quotaExceeded)])
        }
    }

    @Test(
        .statement("MQTT-3.4.2-1", .v5), .statement("MQTT-3.5.2-1", .v5), .statement("MQTT-3.4.2-2", .v5),
        .statement("MQTT-3.4.2-3", .v5), .statement("MQTT-3.5.2-2", .v5), .statement("MQTT-3.5.2-3", .v5),
        arguments: [(QoS.atLeastOnce, UInt8(0x40)), (.exactlyOnce, 0x50)])
    func `a verdict is said in reasons that the standard knows, without texts`(qos: QoS, firstByte: UInt8) {
        for (verdict, said) in [
            (ReasonCode.success, [] as [UInt8]), (.noMatchingSubscribers, [0x10]), (.notAuthorized, [0x87]),
            (.serverShuttingDown, [0x80]), (.grantedQoS1, []),
        ] {
            var talk = Conversation { $0.acknowledgesAutomatically = false }
            talk.connect()
            talk.serverSends(.publish(message(qos, 5)))
            talk.acknowledge(0, verdict)
            #expect(talk.session.takeOutput() == [firstByte, UInt8(2 + said.count), 0, 5] + said)
        }
    }

    @Test(
        .statement("MQTT-3.6.2-1", .v5), .statement("MQTT-3.6.2-2", .v5), .statement("MQTT-3.6.2-3", .v5),
        .statement("MQTT-3.7.2-1", .v5), .statement("MQTT-3.7.2-2", .v5), .statement("MQTT-3.7.2-3", .v5),
        .statement("MQTT-3.6.1-1", .v5))
    func `PUBREL and PUBCOMP say success, or that there is no such message, without texts`() throws {
        var talk = Conversation()
        talk.connect()
        try talk.publish("a", qos: .exactlyOnce)
        talk.serverSends(.publish(message(.exactlyOnce, 5)))
        _ = talk.sent()
        for identifier: UInt16 in [1, 9] { talk.serverSends(Conversation.acknowledgement(.pubrec, identifier)) }
        for identifier: UInt16 in [5, 9] { talk.serverSends(Conversation.acknowledgement(.pubrel, identifier)) }
        #expect(talk.session.takeOutput() == [0x62, 2, 0, 1, 0x62, 3, 0, 9, 0x92, 0x70, 2, 0, 5, 0x70, 3, 0, 9, 0x92])
    }

    @Test func `before MQTT 5.0 nothing can be refused`() {
        var talk = Conversation {
            $0.version = .v311
            $0.acknowledgesAutomatically = false
        }
        talk.connect()
        talk.serverSends(.publish(message(.exactlyOnce, 5)))
        talk.acknowledge(0, .quotaExceeded)
        talk.serverSends(.publish(message(.exactlyOnce, 5, duplicate: true)))
        #expect(talk.session.takeOutput() == [0x50, 2, 0, 5, 0x50, 2, 0, 5])
        #expect(talk.events().isEmpty)
    }

    @Test(.statement("MQTT-1.5.4-3", .v5), .statement("MQTT-1.5.3-3", .v311), arguments: [ProtocolVersion.v311, .v5])
    func `U+FEFF stays where it is`(version: ProtocolVersion) {
        var talk = Conversation { $0.version = version }
        talk.connect()
        talk.serverSends(.publish(PublishPacket(topic: "\u{FEFF}a")))
        #expect(talk.events() == [Conversation.told(PublishPacket(topic: "\u{FEFF}a"))])
    }

    @Test(arguments: [QoS.atLeastOnce, .exactlyOnce])
    func `a message under the identifier of one that the server has given up is told`(qos: QoS) {
        var talk = Conversation {
            $0.acknowledgesAutomatically = false
            $0.cleanStart = false
        }
        talk.connect()
        talk.serverSends(.publish(message(qos, 1)))
        _ = talk.events()
        talk.session.transportClosed()
        talk.connect(ConnackPacket(sessionPresent: true))
        // The first was too old to be sent again.
        let other = PublishPacket(topic: "other", packetIdentifier: 1, qos: qos)
        talk.serverSends(.publish(other))
        #expect(talk.events() == [Conversation.told(other)])
        talk.acknowledge(0)
        #expect(talk.sent().isEmpty, "the first one's verdict is not the other's")
        talk.acknowledge(1)
        #expect(talk.sent().count == 1)
    }
}

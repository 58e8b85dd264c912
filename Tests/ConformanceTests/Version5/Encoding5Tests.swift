import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

/// Sections 1.5 and 2: texts, lengths, flags and packet identifiers.
@Suite struct Encoding5Tests {
    /// Bytes that are no UTF-8 Encoded String.
    private static let illFormed: [[UInt8]] = [
        [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xF4, 0x90, 0x80, 0x80], [0xC3], [0x80], [0xFF], [0xE2, 0x82],
    ]

    /// Packets that carry a text in each place where a client may put one.
    private static func carriers(_ bytes: [UInt8]) -> [[UInt8]] {
        let text = RawPacket.text(bytes)
        return [
            RawPacket.packet(0x30, text, [0]),
            RawPacket.packet(0x30, RawPacket.text("t"), RawPacket.block([0x03] + text)),
            RawPacket.packet(0x30, RawPacket.text("t"), RawPacket.block([0x08] + text)),
            RawPacket.packet(0x30, RawPacket.text("t"), RawPacket.block([0x26] + text + RawPacket.text("v"))),
            RawPacket.packet(0x30, RawPacket.text("t"), RawPacket.block([0x26] + RawPacket.text("n") + text)),
            RawPacket.packet(0x82, [0, 1, 0], text, [0]),
            RawPacket.packet(0xA2, [0, 1, 0], text),
            RawPacket.packet(0xE0, [0], RawPacket.block([0x1F] + text)),
        ]
    }

    @Test(
        .statement("MQTT-1.5.4-1", .v5), .statement("MQTT-1.5.7-1", .v5), .statement("MQTT-3.3.2-1", .v5),
        .statement("MQTT-3.3.2-13", .v5), .statement("MQTT-3.3.2-19", .v5), .statement("MQTT-3.8.3-1", .v5),
        .statement("MQTT-3.10.3-1", .v5))
    func `ill-formed UTF-8 in any text ends the connection as malformed`() {
        let broker = SimulatedBroker()
        for bytes in Self.illFormed {
            for packet in Self.carriers(bytes) { #expect(broker.ending(after: packet) == .closed(.malformedPacket), "\(packet)") }
        }
    }

    @Test(.statement("MQTT-1.5.4-2", .v5), .statement("MQTT-4.7.3-2", .v5))
    func `the null character in any text ends the connection as malformed`() {
        let broker = SimulatedBroker()
        for packet in Self.carriers([0x61, 0, 0x62]) {
            #expect(broker.ending(after: packet) == .closed(.malformedPacket), "\(packet)")
        }
    }

    @Test(.statement("MQTT-1.5.4-3", .v5), arguments: [1, 4])
    func `a byte order mark is a character like any other`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t")
        subscriber.subscribe("\u{FEFF}t")
        let publisher = broker.connected("publisher")
        publisher.publish("\u{FEFF}t", "with", properties: .having { $0.contentType = "\u{FEFF}" })
        publisher.publish("t", "without")
        #expect(subscriber.texts == ["with", "without"])
        #expect(subscriber.publishes.map(\.topic.bytes) == [[0xEF, 0xBB, 0xBF, 0x74], [0x74]])
        #expect(subscriber.publishes[0].properties.contentType?.bytes == [0xEF, 0xBB, 0xBF])
    }

    @Test(
        .statement("MQTT-1.5.5-1", .v5),
        arguments: [
            [0x30, 0x84, 0x00, 0, 1, 0x74, 0], [0x30, 0x05, 0, 1, 0x74, 0x80, 0x00], [0xC0, 0x80, 0x00],
            [0xC0, 0x80, 0x80, 0x80, 0x80, 0x00], [0x82, 0x0A, 0, 1, 3, 0x0B, 0x81, 0x00, 0, 1, 0x74, 0],
        ] as [[UInt8]])
    func `an integer longer than it need be is malformed`(packet: [UInt8]) {
        #expect(SimulatedBroker().ending(after: packet) == .closed(.malformedPacket))
    }

    @Test(.statement("MQTT-2.1.3-1", .v5))
    func `every wrong value of the reserved flags is malformed`() {
        let broker = SimulatedBroker()
        let packets: [(right: UInt8, body: [UInt8])] = [
            (0x40, [0, 1]), (0x50, [0, 1]), (0x62, [0, 1]), (0x70, [0, 1]), (0x82, [0, 1, 0, 0, 1, 0x74, 0]),
            (0xA2, [0, 1, 0, 0, 1, 0x74]), (0xC0, []), (0xE0, []), (0xF0, []),
        ]
        for (right, body) in packets {
            for flags in 0..<UInt8(16) where right & 0xF0 | flags != right {
                let packet = RawPacket.packet(right & 0xF0 | flags, body)
                #expect(broker.ending(after: packet) == .closed(.malformedPacket), "\(packet)")
            }
        }
    }

    @Test(.statement("MQTT-2.2.1-2", .v5), arguments: [1, 4])
    func `a QoS 0 message has no packet identifier on either side`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.open()
        subscriber.exchange(RawPacket.connect())
        subscriber.exchange(RawPacket.packet(0x82, [0, 1, 0], RawPacket.text("t"), [2]))
        // What looks like an identifier is the property length and the payload.
        broker.connected("publisher").send(RawPacket.packet(0x30, RawPacket.text("t"), [0, 7]))
        #expect(subscriber.takeBytes() == [0x30, 0x05, 0, 1, 0x74, 0, 7])
    }

    @Test(
        .statement("MQTT-2.2.1-3", .v5),
        arguments: [
            RawPacket.packet(0x82, [0, 0, 0], RawPacket.text("t"), [0]), RawPacket.packet(0xA2, [0, 0, 0], RawPacket.text("t")),
            RawPacket.packet(0x32, RawPacket.text("t"), [0, 0, 0]), RawPacket.packet(0x34, RawPacket.text("t"), [0, 0, 0]),
        ])
    func `packet identifier 0 is malformed`(packet: [UInt8]) {
        #expect(SimulatedBroker().ending(after: packet) == .closed(.malformedPacket))
    }

    @Test(.statement("MQTT-2.2.1-5", .v5), .statement("MQTT-2.2.1-6", .v5), arguments: [1, 4])
    func `every answer has the packet identifier of what it answers`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let connection = broker.open()
        connection.exchange(RawPacket.connect())
        for identifier: [UInt8] in [[0, 1], [0x12, 0x34], [0xFF, 0xFF]] {
            let filter = RawPacket.text("t")
            #expect(connection.exchange(RawPacket.packet(0x82, identifier, [0], filter, [0])) == [0x90, 4] + identifier + [0, 0])
            #expect(connection.exchange(RawPacket.packet(0xA2, identifier, [0], filter)) == [0xB0, 4] + identifier + [0, 0])
            #expect(connection.exchange(RawPacket.packet(0x32, filter, identifier, [0])) == [0x40, 3] + identifier + [0x10])
            #expect(connection.exchange(RawPacket.packet(0x34, filter, identifier, [0])) == [0x50, 2] + identifier)
            #expect(connection.exchange(RawPacket.packet(0x62, identifier)) == [0x70, 2] + identifier)
        }
    }

    @Test(.statement("MQTT-2.2.2-1", .v5), arguments: [1, 4])
    func `packets without properties say so with a length of 0`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let connection = broker.open()
        connection.exchange(RawPacket.connect())
        let filter = RawPacket.text("t")
        #expect(connection.exchange(RawPacket.packet(0x82, [0, 1, 0], filter, [0])) == [0x90, 4, 0, 1, 0, 0])
        #expect(connection.exchange(RawPacket.packet(0x30, filter, [0], [9])) == [0x30, 5, 0, 1, 0x74, 0, 9])
        #expect(connection.exchange(RawPacket.packet(0xA2, [0, 1, 0], filter)) == [0xB0, 4, 0, 1, 0, 0])
        // A SUBSCRIBE, an UNSUBSCRIBE and a PUBLISH that leave the length out cannot be read.
        for packet in [RawPacket.packet(0x82, [0, 1]), RawPacket.packet(0xA2, [0, 1]), RawPacket.packet(0x30, filter)] {
            #expect(broker.ending(after: packet) == .closed(.malformedPacket))
        }
    }
}

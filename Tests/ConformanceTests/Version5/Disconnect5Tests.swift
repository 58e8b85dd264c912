import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Sections 3.12 to 3.14 and 4.13: PINGREQ, DISCONNECT, and what the broker does about errors.
@Suite struct Disconnect5Tests {
    @Test(.statement("MQTT-3.12.4-1", .v5), arguments: [1, 4])
    func `every PINGREQ gets a PINGRESP`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let connection = broker.open()
        connection.exchange(RawPacket.connect())
        #expect(connection.exchange([0xC0, 0]) == [0xD0, 0])
        #expect(connection.exchange([0xC0, 0, 0xC0, 0, 0xC0, 0]) == [0xD0, 0, 0xD0, 0, 0xD0, 0])
    }

    @Test(.statement("MQTT-3.14.0-1", .v5)) func `no DISCONNECT comes before CONNACK with success`() {
        let broker = SimulatedBroker()
        let beginnings: [[UInt8]] = [
            [0xC0, 0], [0x30, 3, 0, 1, 0x74], RawPacket.connect(flags: 3), RawPacket.connect(name: "X"), [0xE0, 0], [0xF0, 0],
            [0x10, 0xFF, 0xFF, 0xFF, 0xFF, 1], [0, 0],
        ]
        for bytes in beginnings {
            let connection = broker.open()
            connection.send(bytes)
            broker.settle()
            #expect(connection.isClosed)
            #expect(connection.takeBytes().first != 0xE0, "\(bytes)")
        }
        let connection = broker.open()
        broker.settle()
        broker.stop()
        #expect(connection.isClosed)
        #expect(connection.takeBytes() == [])
    }

    @Test(.statement("MQTT-3.14.1-1", .v5)) func `a DISCONNECT with a reserved bit is answered with 0x81`() {
        let broker = SimulatedBroker()
        for flags in 1..<UInt8(16) { #expect(broker.ending(after: [0xE0 | flags, 0]) == .closed(.malformedPacket)) }
    }

    @Test(.statement("MQTT-3.14.2-1", .v5)) func `a client's code that is not in the table is a protocol error`() {
        let broker = SimulatedBroker()
        let allowed: Set<UInt8> = [0, 4, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99]
        for code in UInt8.min...UInt8.max {
            let expected: Ending = allowed.contains(code) ? .silent : .closed(.protocolError)
            #expect(broker.ending(after: [0xE0, 1, code]) == expected, "\(code)")
        }
    }

    /// What brings each code about that the broker ends a connection with.
    private static let causes: [(reason: ReasonCode, bytes: [UInt8])] = [
        (.malformedPacket, [0xE1, 0]), (.malformedPacket, [0x36, 5, 0, 1, 0x74, 0, 1]),
        (.malformedPacket, [0xC0, 0xFF, 0xFF, 0xFF, 0xFF]), (.malformedPacket, [0x00, 0]),
        (.protocolError, RawPacket.connect()), (.protocolError, [0xD0, 0]), (.protocolError, [0x20, 3, 0, 0, 0]),
        (.protocolError, [0x90, 4, 0, 1, 0, 0]), (.protocolError, [0xF0, 0]), (.protocolError, [0x30, 3, 0, 0, 0]),
        (.topicFilterInvalid, RawPacket.packet(0x82, [0, 1, 0], RawPacket.text("a#"), [0])),
        (.topicNameInvalid, RawPacket.packet(0x30, RawPacket.text("#"), [0])),
        (.topicAliasInvalid, RawPacket.packet(0x30, RawPacket.text("t"), [3, 0x23, 0, 11])),
        (.packetTooLarge, [0x30, 0xFF, 0xFF, 0xFF, 0x7F]),
    ]

    @Test(
        .statement("MQTT-3.14.2-1", .v5), .statement("MQTT-3.14.2-2", .v5), .statement("MQTT-3.14.4-1", .v5),
        .statement("MQTT-3.14.4-2", .v5), .statement("MQTT-4.13.1-1", .v5), .statement("MQTT-4.13.2-1", .v5), arguments: [1, 4])
    func `an error is told with its code in the last packet, and ends the connection`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = broker.connected("witness")
        witness.subscribe("#")
        for (reason, bytes) in Self.causes {
            let client = broker.connected("a", expiry: 100) { _ in }
            client.subscribe("own")
            // What comes with it and behind it has no effect and no answer.
            client.send(bytes + [0xC0, 0] + RawPacket.packet(0x30, RawPacket.text("own"), [0]))
            #expect(client.ending == .closed(reason), "\(bytes)")
            guard case .disconnect(let last)? = client.packetsOfConnection.last else {
                Issue.record("the last packet was \(String(describing: client.packetsOfConnection.last))")
                continue
            }
            #expect(last.properties.sessionExpiryInterval == nil)
            #expect(last.properties.reasonString != nil)
            broker.connected("p").publish("own")
            #expect(client.messages.isEmpty)
            #expect(witness.takeMessages().count == 1)
        }
    }

    @Test(arguments: [1, 4]) func `codes that come of time, of others and of limits`(shards: Int) {
        let settings = SimulatedBroker.testSettings {
            $0.listeners[0].maximumQoS = .atLeastOnce
            $0.inFlightMessagesMax = 2
            $0.subscriptionIdentifiersAvailable = false
            $0.retainAvailable = false
        }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let idle = broker.client("idle")
        idle.connect(keepAlive: 1)
        broker.advance(seconds: 2)
        #expect(idle.ending == .closed(.keepAliveTimeout))
        let first = broker.connected("twice")
        broker.connected("twice")
        #expect(first.ending == .closed(.sessionTakenOver))
        let above = broker.connected("above")
        above.publish("t", qos: .exactlyOnce)
        #expect(above.ending == .closed(.qosNotSupported))
        let retaining = broker.connected("retaining")
        retaining.publish("t", retain: true)
        #expect(retaining.ending == .closed(.retainNotSupported))
        let identifying = broker.connected("identifying")
        identifying.subscribe("t", identifier: 1)
        #expect(identifying.ending == .closed(.subscriptionIdentifiersNotSupported))
        let last = broker.connected("last")
        let old = broker.connected("old", version: .v311)
        let count = old.packets.count
        broker.stop()
        #expect(last.ending == .closed(.serverShuttingDown))
        #expect(old.connection?.isClosed == true)
        #expect(old.packets.count == count)
    }

    @Test(.statement("MQTT-3.14.4-1", .v5), arguments: [1, 4])
    func `a client's goodbye is the last that it says and hears`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = broker.connected("witness")
        witness.subscribe("#")
        let client = broker.connected("a")
        let count = client.packets.count
        client.send([0xE0, 0, 0xC0, 0] + RawPacket.packet(0x30, RawPacket.text("t"), [0]))
        #expect(client.ending == .silent)
        #expect(client.packets.count == count)
        #expect(witness.messages.isEmpty)
    }

    @Test(arguments: [1, 4]) func `DISCONNECT may shorten or prolong a session, but not revive one`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        for (asked, told): (UInt32, UInt32) in [(100, 10), (10, 100), (10, .max), (100, 0)] {
            let client = broker.client("a")
            client.connect(expiry: asked)
            client.disconnect(expiry: told)
            broker.advance(milliseconds: UInt64(min(told, 1000)) * 1000)
            broker.advance(milliseconds: 100)
            #expect(client.connect(clean: false)?.sessionPresent == (told == .max))
            client.disconnect()
        }
        let client = broker.connected("b")
        client.send(RawPacket.packet(0xE0, [0], RawPacket.block([0x11, 0, 0, 0, 10])))
        #expect(client.ending == .closed(.protocolError))
    }
}

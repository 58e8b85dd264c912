import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Shared subscriptions.
@Suite struct SharedSubscriptionTests {
    private func members(_ count: Int, _ broker: SimulatedBroker, qos: QoS = .exactlyOnce) -> [TestClient] {
        (0..<count).map { number in
            let client = broker.client("member\(number)")
            client.connect(clean: false, expiry: .max)
            client.subscribe("$share/g/t/#", qos: qos)
            return client
        }
    }

    @Test(arguments: [1, 4]) func `each message goes to one member, and all get their part`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(3, broker)
        let outsider = broker.connected("outsider")
        outsider.subscribe("t/#")
        let publisher = broker.connected("publisher")
        for number in 0..<30 { publisher.publish("t/\(number)", "\(number)", qos: .atLeastOnce) }
        #expect(members.map(\.messages.count) == [10, 10, 10])
        #expect(Set(members.flatMap(\.texts)).count == 30)
        #expect(outsider.messages.count == 30)
    }

    @Test(.statement("MQTT-4.8.2-1", .v5), arguments: [1, 4]) func `groups of different names each get every message`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let first = broker.connected("a")
        let second = broker.connected("b")
        first.subscribe("$share/one/t")
        second.subscribe("$share/two/t")
        second.subscribe("t")
        broker.connected("p").publish("t", "x")
        #expect(first.messages.count == 1)
        #expect(second.messages.count == 2)
    }

    @Test(arguments: [1, 4]) func `members that are connected come first`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(3, broker)
        members[0].lose()
        members[2].lose()
        let publisher = broker.connected("publisher")
        for number in 0..<10 { publisher.publish("t/a", "\(number)", qos: .atLeastOnce) }
        #expect(members[1].messages.count == 10)
        members[1].lose()
        for number in 10..<16 { publisher.publish("t/a", "\(number)", qos: .atLeastOnce) }
        for member in members { member.connect(clean: false, expiry: .max) }
        #expect(Set(members.flatMap(\.texts)).count == 16)
        #expect(members.map(\.messages.count).reduce(0, +) == 16)
    }

    @Test(.statement("MQTT-4.8.2-3", .v5), arguments: [1, 4]) func `the member's granted QoS counts`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(1, broker, qos: .atLeastOnce)
        broker.connected("p").publish("t/a", "x", qos: .exactlyOnce)
        #expect(members[0].messages.map(\.qos) == [.atLeastOnce])
    }

    @Test(arguments: [1, 4], [false, true])
    func `what a member had not acknowledged goes to another when it leaves`(shards: Int, ends: Bool) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(2, broker)
        members[0].acknowledgement = .manual
        let publisher = broker.connected("publisher")
        for number in 0..<60 { publisher.publish("t/a", "\(number)", qos: .atLeastOnce) }
        #expect(members[1].messages.count == 30)
        if ends { members[0].disconnect(expiry: 0) } else { members[0].lose() }
        #expect(Set(members[1].texts).count == 60)
        #expect(broker.statistics().storedMessages == 0)
        #expect(broker.statistics().sharedSubscriptions == (ends ? 1 : 2))
    }

    @Test(.statement("MQTT-4.8.2-4", .v5), arguments: [1, 4])
    func `a QoS 2 message that was sent stays with its member`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(2, broker)
        members[0].acknowledgement = .manual
        let publisher = broker.connected("publisher")
        for number in 0..<4 { publisher.publish("t/a", "\(number)", qos: .exactlyOnce) }
        let sent = members[0].texts
        #expect(sent.count == 2)
        members[0].lose()
        #expect(members[1].messages.count == 2)
        members[0].acknowledgement = .automatic
        members[0].connect(clean: false, expiry: .max)
        #expect(members[0].publishesOfConnection.map(\.duplicate) == [true, true])
        #expect(members[0].texts == sent)
        #expect(members[1].messages.count == 2)
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(.statement("MQTT-4.8.2-5", .v5), arguments: [1, 4])
    func `a QoS 2 message whose member's session ends goes to nobody else`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(2, broker)
        members[0].acknowledgement = .manual
        let publisher = broker.connected("publisher")
        for number in 0..<4 { publisher.publish("t/a", "\(number)", qos: .exactlyOnce) }
        members[0].disconnect(expiry: 0)
        #expect(members[1].messages.count == 2)
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(.statement("MQTT-4.8.2-6", .v5), arguments: [1, 4])
    func `a message that a member refused goes to nobody else`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(2, broker)
        for member in members { member.acknowledgement = .manual }
        broker.connected("publisher").publish("t/a", "x", qos: .atLeastOnce)
        for member in members {
            for message in member.messages { member.acknowledge(.puback, message.packetIdentifier ?? 0, .unspecifiedError) }
        }
        #expect(members.map(\.messages.count).reduce(0, +) == 1)
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(arguments: [1, 4]) func `a member that leaves the group keeps its other subscriptions`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(2, broker)
        members[0].subscribe("t/own")
        #expect(members[0].unsubscribe("$share/g/t/#")?.reasonCodes == [.success])
        let publisher = broker.connected("publisher")
        for _ in 0..<4 { publisher.publish("t/a", "x", qos: .atLeastOnce) }
        publisher.publish("t/own", "x", qos: .atLeastOnce)
        #expect(members[0].messages.count == 1)
        #expect(members[1].messages.count == 5)
        members[1].unsubscribe("$share/g/t/#")
        #expect(publisher.publish("t/a", "x", qos: .atLeastOnce)?.reasonCode == .noMatchingSubscribers)
    }

    @Test func `members that come and go lose no QoS 1 message`() {
        for seed in 0..<100 as Range<UInt64> {
            let broker = SimulatedBroker(shards: 4, seed: seed)
            var random = SeededGenerator(seed: seed)
            let members = members(4, broker)
            let publisher = broker.connected("publisher", version: .v311)
            var published = 0
            for _ in 0..<60 {
                let member = members[Int.random(in: 0..<4, using: &random)]
                switch Int.random(in: 0..<4, using: &random) {
                case 0: member.connection?.close(dropsUnsent: true)
                case 1:
                    if member.connection?.isClosed == true { member.connect(clean: false, expiry: .max) }
                default:
                    publisher.publish("t/a", "\(published)", qos: .atLeastOnce, until: .sent)
                    published += 1
                }
                for _ in 0..<Int.random(in: 0..<6, using: &random) { broker.step() }
            }
            broker.settle()
            for member in members where !member.isConnected { member.connect(clean: false, expiry: .max) }
            broker.settle()
            #expect(Set(members.flatMap(\.texts)).count == published, "seed \(seed)")
        }
    }

    // MARK: Maximum Packet Size

    private func member(_ name: EncodedString, _ broker: SimulatedBroker, sizeMax: UInt32?, expiry: UInt32 = 0) -> TestClient {
        let client = broker.client(name)
        client.connect(clean: false, expiry: expiry, properties: .having { $0.maximumPacketSize = sizeMax })
        client.subscribe("$share/g/t", qos: .exactlyOnce)
        return client
    }

    @Test(arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `a message too large for one member's client goes to another that takes it`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let small = [member("a", broker, sizeMax: 100), member("b", broker, sizeMax: 100), member("c", broker, sizeMax: 100)]
        let large = member("d", broker, sizeMax: nil)
        let publisher = broker.connected("publisher")
        for number in 0..<12 {
            publisher.publish("t", bytes: [UInt8](repeating: UInt8(number), count: number < 6 ? 500 : 10), qos: qos)
        }
        #expect(large.messages.filter { $0.payload.count == 500 }.count == 6)
        #expect((small + [large]).map(\.messages.count).reduce(0, +) == 12)
        #expect(small.allSatisfy { !$0.messages.isEmpty }, "those that fit are divided as ever")
        #expect(broker.statistics().drops[.tooLargeForClient] == 0)
    }

    /// To the byte, with everything that makes the packet larger.
    @Test(arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce]) func `the size is that of the member's own packet`(
        shards: Int, qos: QoS
    ) {
        let broker = SimulatedBroker(shards: shards)
        // Type, length, topic (3), identifier (0 or 2), property length, expiry (5), Subscription Identifier (3),
        // payload.
        let size: UInt32 = qos == .atMostOnce ? 64 : 66
        let (tight, exact) = (broker.client("tight"), broker.client("exact"))
        tight.connect(properties: .having { $0.maximumPacketSize = size - 1 })
        exact.connect(properties: .having { $0.maximumPacketSize = size })
        tight.subscribe("$share/g/t", identifier: 300)
        exact.subscribe("$share/g/t", identifier: 300)
        let publisher = broker.connected("publisher")
        for _ in 0..<4 {
            publisher.publish(
                "t", bytes: [UInt8](repeating: 1, count: 50), qos: qos, properties: .having { $0.messageExpiryInterval = 100 })
        }
        #expect(exact.messages.count == 4 && tight.messages.isEmpty)
        #expect(broker.statistics().drops[.tooLargeForClient] == 0)
    }

    @Test(arguments: [1, 4]) func `a message that no member's client takes is dropped, and counted`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let members = [member("a", broker, sizeMax: 100), member("b", broker, sizeMax: 100)]
        broker.connected("publisher").publish("t", bytes: [UInt8](repeating: 1, count: 500), qos: .atLeastOnce)
        #expect(members.allSatisfy { $0.messages.isEmpty && $0.isConnected })
        #expect(broker.statistics().drops[.tooLargeForClient] == 1)
    }

    @Test(arguments: [1, 4]) func `a message goes on when its member comes back with a client that does not take it`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let away = member("away", broker, sizeMax: nil, expiry: .max)
        away.lose()
        broker.connected("publisher").publish("t", bytes: [UInt8](repeating: 1, count: 500), qos: .atLeastOnce)
        let large = member("large", broker, sizeMax: nil)
        away.connect(clean: false, expiry: .max, properties: .having { $0.maximumPacketSize = 100 })
        #expect(away.messages.isEmpty && large.messages.count == 1)
        #expect(broker.statistics().drops[.tooLargeForClient] == 0)
    }
}

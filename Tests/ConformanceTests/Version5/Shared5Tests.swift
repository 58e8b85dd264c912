import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Section 4.8.2: shared subscriptions.
@Suite struct Shared5Tests {
    private func members(_ count: Int, _ broker: SimulatedBroker, qos: QoS = .exactlyOnce) -> [TestClient] {
        (0..<count).map { number in
            let client = broker.connected("member\(number)", expiry: 100) { _ in }
            client.subscribe("$share/g/t", qos: qos)
            return client
        }
    }

    @Test(.statement("MQTT-4.8.2-1", .v5), arguments: [1, 4], [QoS.atMostOnce, .exactlyOnce])
    func `each message goes to one member of each group, and to everybody else`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(3, broker)
        let other = broker.connected("other group")
        other.subscribe("$share/h/+")
        let alone = broker.connected("alone")
        alone.subscribe("t")
        let publisher = broker.connected("p")
        let sent = (0..<60).map(String.init)
        for text in sent { publisher.publish("t", text, qos: qos) }
        #expect(members.flatMap(\.texts).sorted() == sent.sorted())
        #expect(members.allSatisfy { !$0.messages.isEmpty })
        #expect(other.texts == sent)
        #expect(alone.texts == sent)
    }

    @Test(.statement("MQTT-4.8.2-3", .v5), arguments: [1, 4])
    func `each member gets its own granted QoS`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let all: [QoS] = [.atMostOnce, .atLeastOnce, .exactlyOnce]
        let clients = all.map { qos in
            let client = broker.connected("member\(qos.rawValue)")
            client.subscribe("$share/g/t", qos: qos)
            return client
        }
        let publisher = broker.connected("p")
        for _ in 0..<30 { publisher.publish("t", qos: .exactlyOnce) }
        for (qos, client) in zip(all, clients) {
            #expect(!client.messages.isEmpty)
            #expect(client.messages.allSatisfy { $0.qos == qos })
        }
    }

    @Test(arguments: [1, 4]) func `members that are away are passed over while others are there`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(3, broker)
        members[0].lose()
        members[2].lose()
        let publisher = broker.connected("p")
        for number in 0..<10 { publisher.publish("t", "\(number)", qos: .atLeastOnce) }
        #expect(members[1].messages.count == 10)
        // With nobody there it waits for one of them.
        members[1].lose()
        publisher.publish("t", "waits", qos: .atLeastOnce)
        for member in members { member.connect(clean: false, expiry: 100) }
        #expect(members.flatMap(\.texts).filter { $0 == "waits" }.count == 1)
    }

    @Test(arguments: [1, 4]) func `what a member had not acknowledged goes to another when it leaves`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(2, broker)
        members[0].acknowledgement = .manual
        let publisher = broker.connected("p")
        for number in 0..<20 { publisher.publish("t", "\(number)", qos: .atLeastOnce) }
        let held = members[0].texts
        #expect(!held.isEmpty)
        members[0].lose()
        #expect(members[1].texts.sorted() == (0..<20).map(String.init).sorted())
        #expect(members[1].messages.allSatisfy { !$0.duplicate })
        members[0].acknowledgement = .automatic
        members[0].connect(clean: false, expiry: 100)
        #expect(members[0].publishesOfConnection.isEmpty)
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(.statement("MQTT-4.8.2-4", .v5), arguments: [1, 4], [AcknowledgementMode.manual, .withoutPubcomp])
    func `a QoS 2 message that was begun is finished with the same member`(shards: Int, mode: AcknowledgementMode) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(2, broker)
        let publisher = broker.connected("p")
        for member in members { member.acknowledgement = mode }
        for number in 0..<4 { publisher.publish("t", "\(number)", qos: .exactlyOnce) }
        let begun = members[0].texts
        members[0].lose()
        #expect(Set(members[1].texts).isDisjoint(with: begun))
        members[0].acknowledgement = .automatic
        members[0].connect(clean: false, expiry: 100)
        let again = members[0].publishesOfConnection.map { String(decoding: $0.payload, as: UTF8.self) }
        #expect(again == (mode == .manual ? begun : []))
        #expect(members[0].acknowledgements(.pubrel).count == begun.count)
        #expect(Set(members[1].texts).isDisjoint(with: begun))
    }

    @Test(.statement("MQTT-4.8.2-5", .v5), arguments: [1, 4], [AcknowledgementMode.manual, .withoutPubcomp])
    func `a QoS 2 message that was begun goes to nobody else when its member's session ends`(
        shards: Int, mode: AcknowledgementMode
    ) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(2, broker)
        let publisher = broker.connected("p")
        for member in members { member.acknowledgement = mode }
        for number in 0..<4 { publisher.publish("t", "\(number)", qos: .exactlyOnce) }
        let begun = members[0].texts
        #expect(begun.count == 2)
        members[0].lose()
        broker.advance(seconds: 101)
        #expect(broker.statistics().clientsTotal == 2)
        #expect(Set(members[1].texts).isDisjoint(with: begun))
        #expect(members[1].messages.count == 2)
    }

    @Test(.statement("MQTT-4.8.2-6", .v5), arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `a message that its member refuses goes to nobody else`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let members = members(3, broker)
        let publisher = broker.connected("p")
        for member in members { member.acknowledgement = .manual }
        for number in 0..<9 { publisher.publish("t", "\(number)", qos: qos) }
        for member in members {
            for packet in member.publishes {
                member.acknowledge(qos == .atLeastOnce ? .puback : .pubrec, packet.packetIdentifier ?? 0, .quotaExceeded)
            }
        }
        for member in members { member.lose() }
        #expect(members.reduce(0) { $0 + $1.publishes.count } == 9)
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(arguments: [1, 4]) func `a shared subscription gets no retained messages, but its live ones keep RETAIN if asked`(
        shards: Int
    ) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("p")
        publisher.publish("t", "old", qos: .atLeastOnce, retain: true)
        for keeps in [false, true] {
            let client = broker.connected("a")
            client.subscribe("$share/g/t", retainAsPublished: keeps)
            publisher.publish("t", "new", qos: .atLeastOnce, retain: true)
            #expect(client.texts == ["new"])
            #expect(client.messages.map(\.retain) == [keeps])
        }
    }
}

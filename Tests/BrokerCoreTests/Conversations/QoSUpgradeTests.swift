import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// `upgrade_outgoing_qos`: whichever way a message comes, it leaves with the subscription's QoS.
@Suite struct QoSUpgradeTests {
    private static let levels = [QoS.atMostOnce, .atLeastOnce, .exactlyOnce]

    private func broker(_ shards: Int, upgrades: Bool = true) -> SimulatedBroker {
        SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.upgradesOutgoingQoS = upgrades })
    }

    @Test(arguments: [1, 4], [true, false])
    func `live, retained and shared messages leave with the subscription's QoS`(shards: Int, upgrades: Bool) {
        for granted in Self.levels {
            let broker = broker(shards, upgrades: upgrades)
            let publisher = broker.connected("publisher")
            for qos in Self.levels { publisher.publish("retained/\(qos.rawValue)", "x", qos: qos, retain: true) }
            let expected = Self.levels.map { upgrades ? granted : min($0, granted) }
            // One on each shard, and one topic without a walk.
            for number in 0..<6 {
                let (retained, live) = (broker.connected("retained \(number)"), broker.connected("live \(number)"))
                for qos in Self.levels { retained.subscribe("retained/\(qos.rawValue)", qos: granted) }
                retained.subscribe("retained/#", qos: granted)
                live.subscribe("live/\(number)", qos: granted)
                live.subscribe("$share/group/shared/\(number)", qos: granted)
                for topic in ["live/\(number)", "shared/\(number)"] as [EncodedString] {
                    for qos in Self.levels { publisher.publish(topic, "x", qos: qos) }
                }
                #expect(retained.messages.prefix(3).map(\.qos) == expected)
                #expect(retained.messages.dropFirst(3).map(\.qos).sorted() == expected)
                #expect(live.messages.map(\.qos) == expected + expected)
            }
        }
    }

    @Test(arguments: [1, 4], [true, false])
    func `receivers that share a message get it with their own QoS`(shards: Int, upgrades: Bool) {
        let broker = broker(shards, upgrades: upgrades)
        let publisher = broker.connected("publisher")
        let receivers = (0..<12).map { number in
            let client = broker.connected("receiver \(number)", version: number % 2 == 0 ? .v5 : .v311)
            client.subscribe("t", qos: Self.levels[number % 3])
            return client
        }
        for qos in Self.levels { publisher.publish("t", "\(qos.rawValue)", qos: qos) }
        for (number, client) in receivers.enumerated() {
            let granted = Self.levels[number % 3]
            #expect(client.messages.map(\.qos) == Self.levels.map { upgrades ? granted : min($0, granted) })
            #expect(client.texts == ["0", "1", "2"])
        }
    }

    @Test(arguments: [1, 4]) func `a shared QoS 0 message waits for a member that is away`(shards: Int) {
        let broker = broker(shards)
        let member = broker.client("member")
        member.connect(expiry: 60)
        member.subscribe("$share/group/t", qos: .atLeastOnce)
        member.lose()
        broker.connected("publisher").publish("t", "x")
        member.connect(clean: false, expiry: 60)
        #expect(member.texts == ["x"])
    }
}

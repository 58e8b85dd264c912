import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

/// Messages from clients of one version to clients of another keep all that the receiver can carry.
@Suite struct Crossing5Tests {
    private static let versions: [ProtocolVersion] = [.v31, .v311, .v5]

    @Test(arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `topic, payload and QoS cross all versions, properties where both know them`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let sent = Properties.having {
            $0.contentType = "text/plain"
            $0.messageExpiryInterval = 100
            $0.userProperties = [UserProperty(name: "b", value: "1"), UserProperty(name: "a", value: "2")]
        }
        let subscribers = Self.versions.map { version in
            let client = broker.client("s\(version.rawValue)", version: version)
            client.connect(clean: false, expiry: version == .v5 ? .max : nil)
            client.subscribe("t")
            return client
        }
        for publisherVersion in Self.versions {
            let publisher = broker.connected("p", version: publisherVersion)
            for isQueued in qos == .atMostOnce ? [false] : [false, true] {
                if isQueued { for subscriber in subscribers { subscriber.lose() } }
                publisher.publish("t", "x", qos: qos, properties: publisherVersion == .v5 ? sent : Properties())
                for subscriber in subscribers {
                    if isQueued { subscriber.connect(clean: false, expiry: subscriber.version == .v5 ? .max : nil) }
                    let messages = subscriber.takeMessages()
                    #expect(messages.map(\.text) == ["x"])
                    #expect(messages.map(\.qos) == [qos])
                    let carries = subscriber.version == .v5 && publisherVersion == .v5
                    #expect(messages.map(\.properties) == [carries ? sent : Properties()])
                }
            }
        }
    }

    @Test(arguments: [1, 4]) func `a message expires for clients of every version`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.client("s", version: .v311)
        subscriber.connect(clean: false)
        subscriber.subscribe("t")
        subscriber.lose()
        let publisher = broker.connected("p")
        for seconds in [UInt32(5), 50] {
            publisher.publish("t", "\(seconds)", qos: .atLeastOnce, properties: .having { $0.messageExpiryInterval = seconds })
        }
        broker.advance(seconds: 10)
        subscriber.connect(clean: false)
        #expect(subscriber.texts == ["50"])
    }

    @Test(arguments: [1, 4]) func `a session goes on when its client returns with another version`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("p")
        let client = broker.client("a", version: .v5)
        client.connect(expiry: .max)
        client.subscribe("t", identifier: 5)
        client.lose()
        publisher.publish("t", "1", qos: .atLeastOnce, properties: .having { $0.contentType = "c" })
        let older = broker.client("a", version: .v311)
        #expect(older.connect(clean: false)?.sessionPresent == true)
        publisher.publish("t", "2", qos: .exactlyOnce)
        publisher.publish("t", "3")
        #expect(older.texts == ["1", "2", "3"])
        older.lose()
        publisher.publish("t", "4", qos: .atLeastOnce)
        let newer = broker.client("a", version: .v5)
        #expect(newer.connect(clean: false)?.sessionPresent == true)
        publisher.publish("t", "5")
        #expect(newer.texts == ["4", "5"])
        #expect(newer.messages.map(\.properties.subscriptionIdentifiers) == [[5], [5]])
    }

    @Test(arguments: [1, 4]) func `a shared group may have members of every version`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let members = Self.versions.map { version in
            let client = broker.connected("m\(version.rawValue)", version: version)
            client.subscribe("$share/g/t")
            return client
        }
        let publisher = broker.connected("p")
        for number in 0..<30 { publisher.publish("t", "\(number)", qos: .atLeastOnce) }
        #expect(members.flatMap(\.texts).count == 30)
        #expect(members.allSatisfy { !$0.messages.isEmpty })
    }
}

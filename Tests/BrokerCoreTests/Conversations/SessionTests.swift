import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// How long a session lives, and who it belongs to.
@Suite struct SessionTests {
    @Test(.statement("MQTT-3.1.4-3", .v5), arguments: [1, 4])
    func `a second connection takes over from the first`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let first = broker.connected("a")
        let second = broker.client("a")
        #expect(second.connect()?.isAccepted == true)
        #expect(first.disconnectReason == .sessionTakenOver)
        #expect(first.connection?.isClosed == true)
        #expect(second.isConnected)
        #expect(broker.statistics().clientsConnected == 1)
    }

    @Test(.statement("MQTT-3.1.4-2", .v311), arguments: [1, 4])
    func `a client of an earlier version is taken over without a word`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let first = broker.connected("a", version: .v311)
        let count = first.packets.count
        broker.connected("a", version: .v311)
        #expect(first.connection?.isClosed == true)
        #expect(first.packets.count == count)
    }

    @Test(arguments: [1, 4]) func `a taken over session keeps its subscriptions and messages`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let first = broker.client("a")
        first.connect(expiry: 100)
        first.subscribe("t")
        first.acknowledgement = .manual
        let publisher = broker.connected("p")
        publisher.publish("t", "1", qos: .atLeastOnce)
        let second = broker.client("a")
        #expect(second.connect(clean: false, expiry: 100)?.sessionPresent == true)
        publisher.publish("t", "2", qos: .atLeastOnce)
        #expect(second.texts == ["1", "2"])
        #expect(second.messages.map(\.duplicate) == [true, false])
    }

    @Test(.statement("MQTT-3.1.2-4", .v5), arguments: [1, 4], [ProtocolVersion.v311, .v5])
    func `a clean start throws the earlier session away`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a", version: version)
        #expect(client.connect(clean: false, expiry: version == .v5 ? .max : nil)?.sessionPresent == false)
        client.subscribe("t")
        client.disconnect()
        broker.connected("p").publish("t", "lost", qos: .atLeastOnce)
        #expect(client.connect(clean: true)?.sessionPresent == false)
        broker.connected("p").publish("t", "lost", qos: .atLeastOnce)
        #expect(client.messages.isEmpty)
        #expect(broker.statistics().subscriptions == 0)
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(.statement("MQTT-3.1.2-5", .v5), arguments: [1, 4], [ProtocolVersion.v31, .v311, .v5])
    func `a persistent session gets what came while its client was away`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a", version: version)
        client.connect(clean: false, expiry: version == .v5 ? 3600 : nil)
        client.subscribe("t")
        client.disconnect()
        let publisher = broker.connected("p", version: version)
        publisher.publish("t", "0", qos: .atMostOnce)
        publisher.publish("t", "1", qos: .atLeastOnce)
        publisher.publish("t", "2", qos: .exactlyOnce)
        let answer = client.connect(clean: false, expiry: version == .v5 ? 3600 : nil)
        #expect(answer?.sessionPresent == (version != .v31))
        #expect(client.texts == ["1", "2"])
        #expect(client.messages.map(\.duplicate) == [false, false])
    }

    @Test(.statement("MQTT-3.1.3-6", .v5), .statement("MQTT-3.1.3-7", .v5), arguments: [1, 4])
    func `an empty identifier gets one that the broker assigns`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        var identifiers: Set<EncodedString> = []
        for _ in 0..<20 {
            let client = broker.client("")
            let assigned = client.connect()?.properties.assignedClientIdentifier
            #expect(assigned?.description.hasPrefix("auto-") == true)
            if let assigned { identifiers.insert(assigned) }
        }
        #expect(identifiers.count == 20)
        #expect(broker.statistics().clientsConnected == 20)
    }

    @Test func `an assigned identifier is all the bits of two of the random numbers that the shell gives`() {
        let broker = SimulatedBroker(seed: 5)
        var numbers = SeededGenerator(seed: 5 &* 0x9e37_79b9_7f4a_7c15)
        for _ in 0..<3 {
            var bits: [UInt8] = []
            for _ in 0..<2 {
                let number = numbers.next()
                bits += (0..<16).map { UInt8(number >> ($0 * 4) & 15) }
            }
            let digits = bits.map { String($0, radix: 16, uppercase: true) }.joined()
            let client = broker.client("")
            client.connect()
            #expect(client.identifier.description.dropFirst(5).filter { $0 != "-" } == digits)
        }
    }

    @Test(.statement("MQTT-3.1.3-8", .v311), arguments: [1, 4])
    func `an empty identifier needs a clean session in MQTT 3_1_1`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("", version: .v311)
        #expect(client.connect(clean: false)?.returnCode == .identifierRejected)
        #expect(client.connection?.isClosed == true)
        #expect(client.connect(clean: true)?.returnCode == .accepted)
    }

    @Test(arguments: [1, 4]) func `a session without expiry ends with its connection`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        client.lose()
        #expect(broker.statistics().clientsTotal == 0)
        #expect(client.connect(clean: false)?.sessionPresent == false)
    }

    @Test(.statement("MQTT-3.1.2-23", .v5), arguments: [1, 4])
    func `a session lives exactly as long as its expiry interval`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a")
        client.connect(expiry: 10)
        broker.advance(seconds: 100)
        client.lose()
        broker.advance(milliseconds: 9_900)
        #expect(broker.statistics().clientsTotal == 1)
        broker.advance(milliseconds: 100)
        #expect(broker.statistics().clientsTotal == 0)
        #expect(broker.statistics().clientsExpired == 1)
        #expect(client.connect(clean: false)?.sessionPresent == false)
    }

    @Test(arguments: [1, 4]) func `an expiry interval of the greatest number is never`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a")
        client.connect(expiry: .max)
        client.lose()
        broker.advance(seconds: 2_000_000)
        #expect(client.connect(clean: false)?.sessionPresent == true)
    }

    @Test(arguments: [1, 4]) func `DISCONNECT may change when the session ends`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a")
        client.connect(expiry: 100)
        client.disconnect(expiry: 5)
        broker.advance(milliseconds: 4_900)
        #expect(broker.statistics().clientsTotal == 1)
        broker.advance(milliseconds: 100)
        #expect(broker.statistics().clientsTotal == 0)
        client.connect(expiry: 100)
        client.disconnect(expiry: 0)
        #expect(broker.statistics().clientsTotal == 0)
    }

    @Test(arguments: [1, 4]) func `DISCONNECT may not prolong a session that was to end with its connection`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        var packet = DisconnectPacket()
        packet.properties.sessionExpiryInterval = 10
        client.send(.disconnect(packet))
        #expect(client.disconnectReason == .protocolError)
        #expect(broker.statistics().clientsTotal == 0)
    }

    @Test(arguments: [1, 4]) func `the broker tells a client of the limit it puts on its session`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.sessionExpirySecondsMax = 60 }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let client = broker.client("a")
        #expect(client.connect(expiry: 600)?.properties.sessionExpiryInterval == 60)
        client.lose()
        broker.advance(seconds: 60)
        #expect(broker.statistics().clientsTotal == 0)
    }
}

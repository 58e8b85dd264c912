import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

@testable import Persistence

/// Clients that knew mosquitto come back to a broker that has imported what it kept.
@Suite struct MosquittoServedTests {
    /// Some minutes after the file was written, with loops among which the sessions have to be spread, or one.
    private static func broker(shards: Int) throws -> SimulatedBroker {
        let store = SimulatedStore()
        store.write(MosquittoImport(of: try MosquittoDatabase(MosquittoFile.real)).batch)
        let broker = SimulatedBroker(shards: shards, store: store, start: 1_795_279_000_000)
        // What the start itself changes, when sessions move to other loops, is durable before clients come.
        broker.settle()
        return broker
    }

    @Test(arguments: [1, 4]) func `a client gets what was in flight and what waited, once and in order`(shards: Int) throws {
        let broker = try Self.broker(shards: shards)
        let five = broker.client("five")
        #expect(five.connect(clean: false, expiry: 3600)?.sessionPresent == true)
        // The second it has already, and only its PUBREL is to come.
        #expect(five.messages.map(\.text) == ["one", "half"])
        #expect(five.messages.map(\.duplicate) == [true, false])
        #expect(five.messages.first?.packetIdentifier == 1)
        #expect(five.messages.first?.properties.contentType == "text")
        #expect(five.messages.allSatisfy { $0.properties.subscriptionIdentifiers == [300] })
        #expect(five.acknowledgements(.pubrel).map(\.packetIdentifier).contains(2))

        let old = broker.client("old", version: .v311)
        #expect(old.connect(clean: false, userName: "anna")?.sessionPresent == true)
        #expect(old.messages.map(\.text) == ["one", "two", "half"])
        #expect(old.messages.map(\.qos) == [.atLeastOnce, .atLeastOnce, .atLeastOnce])
        #expect(broker.store?.rows[.entry]?.isEmpty == true)
        // The rows of messages that moved to another loop go at the next start.
        if shards == 1 { #expect(broker.store?.rows[.message]?.isEmpty == true) }
        #expect(broker.store?.rows[.flow]?.isEmpty == true)
    }

    @Test(arguments: [1, 4]) func `a publisher's PUBREL ends its message, and its PUBLISH once more publishes nothing`(
        shards: Int
    ) throws {
        let broker = try Self.broker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("q/#")
        let publisher = broker.client("pub", version: .v311)
        #expect(publisher.connect(clean: false, userName: "peter")?.sessionPresent == true)
        var again = PublishPacket(topic: "q/3", qos: .exactlyOnce, payload: Array("half".utf8))
        again.packetIdentifier = 33
        again.duplicate = true
        publisher.connection?.send(.publish(again))
        broker.settle()
        #expect(publisher.acknowledgements(.pubrec).map(\.packetIdentifier) == [33])
        publisher.acknowledge(.pubrel, 33)
        broker.settle()
        #expect(publisher.acknowledgements(.pubcomp).map(\.packetIdentifier) == [33])
        #expect(subscriber.messages.isEmpty)
        #expect(broker.store?.rows[.received]?.isEmpty == true)
    }

    @Test(arguments: [1, 4]) func `subscriptions and retained messages are there, and sessions end when they should`(
        shards: Int
    ) throws {
        let broker = try Self.broker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("#")
        #expect(subscriber.messages.map(\.topic) == ["keep"])
        subscriber.publish("q/new", "new", qos: .atLeastOnce)
        // An hour after "five" went: its session is over, the others never are.
        broker.advance(seconds: 4000)
        #expect(broker.client("five").connect(clean: false)?.sessionPresent == false)
        let old = broker.client("old", version: .v311)
        old.connect(clean: false, userName: "anna")
        #expect(old.messages.map(\.text) == ["one", "half", "new"], "the time of the second is over")
    }
}

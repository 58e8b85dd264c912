import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

/// Shards that are late to say what is durable: who has sent them something waits, and nobody else.
@Suite struct LateShardTests {
    private let broker: SimulatedBroker
    private let store = SimulatedStore()

    init() {
        broker = SimulatedBroker(shards: 3, store: store)
        for shard in 0..<3 {
            // Sessions that last, whose clients are away: what they get has to become durable on their shards.
            let subscriber = client("subscriber", on: shard)
            subscriber.connect(expiry: .max)
            subscriber.subscribe(topicFilter(of: shard), qos: .exactlyOnce)
            subscriber.disconnect()
        }
    }

    private func topicFilter(of shard: Int) -> TopicFilter { shard == 0 ? "on/0" : shard == 1 ? "on/1" : "on/2" }

    /// A client that lives on this shard.
    private func client(_ name: String, on shard: Int) -> TestClient {
        let names = (0..<64).compactMap { EncodedString("\(name) \($0)") }
        return broker.client(names.first { broker.shard(of: $0) == shard } ?? "nobody")
    }

    private func publisher(_ name: String, expiry: UInt32? = nil) -> TestClient {
        let publisher = client(name, on: 0)
        publisher.connect(clean: false, expiry: expiry)
        return publisher
    }

    private func identifiers(_ client: TestClient, _ type: PacketType) -> [UInt16] {
        client.acknowledgements(type).map(\.packetIdentifier)
    }

    @Test func `a shard that confirms late holds up no PUBACK but those that rely on it`() {
        let (first, second, third) = (publisher("first"), publisher("second"), publisher("third"))
        store.lateShard = 1
        #expect(first.publish("on/1", "a", qos: .atLeastOnce) == nil)
        #expect(second.publish("on/0", "b", qos: .atLeastOnce)?.reasonCode == .success, "it relies on its own shard alone")
        #expect(third.publish("on/2", "c", qos: .atLeastOnce)?.reasonCode == .success, "that shard has confirmed")
        #expect(first.unfinished.count == 1)
        store.lateShard = nil
        broker.settle()
        #expect(first.unfinished.isEmpty)
    }

    @Test func `a shard that confirms late holds up no SUBACK, UNSUBACK, CONNACK or QoS 2 message of others`() {
        let (first, second) = (publisher("first"), publisher("second", expiry: 100))
        store.lateShard = 1
        first.publish("on/1", "a", qos: .atLeastOnce)
        #expect(second.subscribe("on/0", qos: .exactlyOnce) != nil)
        #expect(first.unfinished.count == 1)
        let third = publisher("third", expiry: 100)
        #expect(third.isConnected)
        #expect(third.publish("on/0", "b", qos: .exactlyOnce)?.reasonCode == .success)
        #expect(second.texts == ["b"])
        #expect(second.unsubscribe("on/0") != nil)
        #expect(first.unfinished.count == 1)
    }

    @Test
    func `what a connection relies on late holds up what is behind it on that connection`() {
        let first = publisher("first")
        store.lateShard = 1
        for topic: EncodedString in ["on/0", "on/1", "on/0", "on/2", "nobody"] {
            first.publish(topic, "a", qos: .atLeastOnce, until: .sent)
            broker.settle()
        }
        #expect(identifiers(first, .puback) == [1])
        store.lateShard = 2
        broker.settle()
        #expect(identifiers(first, .puback) == [1, 2, 3, 4, 5])
    }

    @Test func `one shard after the other is waited for`() {
        let first = publisher("first")
        store.lateShard = 1
        first.publish("on/1", "a", qos: .atLeastOnce, until: .sent)
        broker.settle()
        store.mode = .paused
        first.publish("on/2", "b", qos: .atLeastOnce, until: .sent)
        broker.settle()
        store.lateShard = 2
        store.mode = .prompt
        broker.settle()
        #expect(identifiers(first, .puback) == [1])
        store.lateShard = nil
        broker.settle()
        #expect(identifiers(first, .puback) == [1, 2])
    }

    @Test(arguments: [false, true])
    func `a QoS 2 message that is sent again on a new connection waits for what came of it first`(isShared: Bool) {
        if isShared {
            let member = client("member", on: 1)
            member.connect(expiry: .max)
            member.subscribe("$share/group/shared", qos: .exactlyOnce)
            member.disconnect()
        }
        let first = publisher("first", expiry: 100)
        let packet = PublishPacket(
            topic: isShared ? "shared" : "on/1", packetIdentifier: 9, qos: .exactlyOnce, payload: [])
        store.lateShard = 1
        first.send(.publish(packet))
        first.lose()
        first.connect(clean: false, expiry: 100)
        first.send(.publish(packet))
        #expect(first.acknowledgements(.pubrec).isEmpty)
        let second = publisher("second")
        #expect(second.publish("on/0", "b", qos: .exactlyOnce)?.reasonCode == .success)
        #expect(first.acknowledgements(.pubrec).isEmpty)
        store.lateShard = nil
        broker.settle()
        #expect(identifiers(first, .pubrec) == [9])
    }

    @Test func `PUBREC of a message for a share group's member waits for the member's shard, and only the sender's`() {
        let member = client("member", on: 1)
        member.connect(expiry: .max)
        member.subscribe("$share/group/shared", qos: .exactlyOnce)
        member.disconnect()
        let (first, second) = (publisher("first", expiry: 100), publisher("second"))
        store.lateShard = 1
        first.publish("shared", "a", qos: .exactlyOnce, until: .sent)
        first.publish("nobody", "b", qos: .atLeastOnce, until: .sent)
        broker.settle()
        #expect(second.publish("on/0", "b", qos: .atLeastOnce)?.reasonCode == .success)
        #expect(first.acknowledgements(.pubrec).isEmpty && first.acknowledgements(.puback).isEmpty)
        store.lateShard = nil
        broker.settle()
        #expect(first.unfinished.isEmpty)
        let types = first.packets.compactMap { if case .acknowledgement(let answer) = $0 { answer.type } else { nil } }
        #expect(types == [.pubrec, .puback, .pubcomp])
    }
}

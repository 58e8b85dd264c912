import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore

/// What the match cache holds is counted, whatever it is.
@Suite struct MatchCacheBoundTests {
    private func matches(of topic: String, in core: BrokerShard) {
        Array(topic.utf8).withUnsafeBytes { _ = core.matchCache.matches(of: $0, in: &core.tree, sessions: core.sessions) }
    }

    @Test func `groups and identifiers count for the bound as routes do`() {
        let broker = SimulatedBroker()
        let client = broker.connected("client")
        client.subscribe((0..<10).compactMap { TopicFilter("$share/g\($0)/+/a") }.map { Subscription(filter: $0) })
        for number in 1...20 { client.subscribe(number % 2 == 0 ? "+/a" : "#", identifier: UInt32(number)) }
        let core = broker.cores[0]
        let before = core.matchCache.held
        for number in 0..<5 { matches(of: "\(number)/a", in: core) }
        // One route with two identifiers, the same for the client's own messages, and ten groups.
        #expect(core.matchCache.held - before == 5 * (1 + 2 * 2 + 10))
        client.subscribe("#", identifier: 99)
        for number in 0..<5 { matches(of: "\(number)/a", in: core) }
        #expect(core.matchCache.held - before == 5 * (1 + 2 * 2 + 10), "what takes an old line's place is counted in its place")
    }

    @Test func `beyond the bound the lines of other topics are emptied`() {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.subscriptionsPerClientMax = 0 })
        let core = broker.cores[0]
        let client = broker.connected("client")
        for part in 0..<8 {
            client.subscribe((0..<512).compactMap { TopicFilter("$share/g\(part)-\($0)/#") }.map { Subscription(filter: $0) })
        }
        for number in 0..<(Limits.cachedRoutesMax / 4096 + 10) { matches(of: "\(number)", in: core) }
        #expect(core.matchCache.held <= Limits.cachedRoutesMax)
        #expect(core.matchCache.held < 20 * 4096)
    }

    @Test(.statement("MQTT-3.3.4-3", .v5), .statement("MQTT-3.3.4-4", .v5), .statement("MQTT-3.3.4-5", .v5))
    func `a message carries the identifiers of all of a thousand subscriptions, equal ones too`() {
        let broker = SimulatedBroker()
        let client = broker.connected("client")
        for number in 0..<1024 {
            let filter = (0..<10).map { number >> $0 & 1 == 1 ? "+" : "x" }.joined(separator: "/")
            client.subscribe(TopicFilter(filter) ?? "x", noLocal: number % 4 == 0, identifier: UInt32(number / 2 + 1))
        }
        let topic = EncodedString(Array(repeating: "x", count: 10).joined(separator: "/")) ?? "x"
        broker.connected("publisher").publish(topic, "m")
        client.publish(topic, "m")
        let identifiers = client.messages.map { $0.properties.subscriptionIdentifiers.sorted() }
        #expect(identifiers.count == 2)
        let all: [UInt32] = (0..<1024).map { UInt32($0 / 2 + 1) }
        let own: [UInt32] = (0..<1024).filter { $0 % 4 != 0 }.map { UInt32($0 / 2 + 1) }
        #expect(identifiers.first == all)
        #expect(identifiers.last == own)
    }
}

import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// SUBSCRIBE with many filters: nobody else waits for it, and nothing of it is lost.
@Suite struct SubscribeGrowthTests {
    private func broker(shards: Int, retained: Int) -> SimulatedBroker {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        for number in 0..<retained { publisher.publish("r/\(number)", "\(number)", retain: true) }
        return broker
    }

    private func visits(_ broker: SimulatedBroker) -> Int { broker.cores.reduce(0) { $0 + $1.scans.visitCount } }

    /// How many sessions, scans and queries are looked at for a SUBSCRIBE with these filters.
    private func visits(shards: Int, _ filters: [String]) -> Int {
        let broker = broker(shards: shards, retained: 10)
        let client = broker.connected("client")
        let answer = client.subscribe(filters.compactMap { TopicFilter($0) }.map { Subscription(filter: $0) })
        #expect(answer?.reasonCodes.count == filters.count)
        return visits(broker)
    }

    @Test(.statement("MQTT-3.8.4-6", .v5), arguments: [1, 4])
    func `equal filters in one SUBSCRIBE are each answered and walk what is retained once`(shards: Int) {
        let broker = broker(shards: shards, retained: 30)
        let client = broker.connected("client")
        let options = (0..<2000).map { SubscriptionOptions(maximumQoS: $0 == 1999 ? .atLeastOnce : .atMostOnce) }
        let answer = client.subscribe(options.map { Subscription(filter: "r/+", options: $0) }, identifier: 7)
        #expect(answer?.reasonCodes == options.map { ReasonCode(rawValue: $0.maximumQoS.rawValue) })
        #expect(client.texts.count == 30)
        #expect(client.messages.allSatisfy { $0.retain && $0.properties.subscriptionIdentifiers == [7] })
        #expect(broker.statistics().subscriptions == 1)
        #expect(visits(broker) < 40 * shards)
    }

    @Test(arguments: [1, 4]) func `the work for filters with wildcards grows with their number`(shards: Int) {
        let small = visits(shards: shards, (0..<500).map { "+/\($0)/#" })
        let large = visits(shards: shards, (0..<1000).map { "+/\($0)/#" })
        #expect(large * 10 <= small * 26, "\(small), \(large)")
    }

    @Test(arguments: [1, 4]) func `the work for filters without wildcards grows with their number`(shards: Int) {
        let small = visits(shards: shards, (0..<500).map { "r/\($0)" })
        let large = visits(shards: shards, (0..<1000).map { "r/\($0)" })
        #expect(large * 10 <= small * 26, "\(small), \(large)")
    }

    @Test(arguments: [1, 4]) func `a session has a bounded number of scans at a time, and gets everything all the same`(shards: Int)
    {
        let broker = broker(shards: shards, retained: 300)
        let client = broker.connected("client")
        let subscriptions = (0..<300).compactMap { TopicFilter("+/\($0)") }.map { Subscription(filter: $0) }
        client.beginSubscribe(subscriptions)
        var most = 0
        while broker.step() {
            for core in broker.cores {
                for session in core.scans.sessions { most = max(most, session.scans.count, session.parts.max() ?? 0) }
            }
        }
        #expect(most <= Limits.scansPerSessionMax)
        #expect(client.texts.sorted() == (0..<300).map { "\($0)" }.sorted())
        #expect(broker.cores.allSatisfy { $0.scans.isEmpty })
    }

    @Test(arguments: [1, 4]) func `topics that are subscribed to one by one wait for room, and none is lost`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.queuedMessagesMax = 10 }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let publisher = broker.connected("publisher")
        for number in 0..<400 { publisher.publish("r/\(number)", "\(number)", qos: .atLeastOnce, retain: true) }
        let client = broker.connected("client")
        client.subscribe((0..<400).compactMap { TopicFilter("r/\($0)") }.map { Subscription(filter: $0) })
        #expect(Set(client.texts).count == 400)
        #expect(broker.statistics().drops.total == 0)
    }

    @Test(arguments: [1, 4]) func `who has unsubscribed gets nothing more, and leaves nothing`(shards: Int) {
        let broker = broker(shards: shards, retained: 200)
        let client = broker.connected("client")
        for _ in 0..<10 {
            client.beginSubscribe((0..<100).compactMap { TopicFilter("+/\($0)") }.map { Subscription(filter: $0) })
            let filters = (0..<100).compactMap { TopicFilter("+/\($0)") }
            client.connection?.send(.unsubscribe(UnsubscribePacket(packetIdentifier: 60_000, filters: filters)))
        }
        broker.settle()
        #expect(broker.cores.allSatisfy { $0.scans.isEmpty })
    }

    @Test func `queries that wait are no more than twice the subscriptions`() {
        var scans = SessionScans(of: query("first"))
        for round in 0..<1000 {
            for number in 0..<5 { scans.want(query("\(round)/\(number)")) }
            for number in 0..<5 where number != 4 || round < 999 { scans.unwant(Array("\(round)/\(number)".utf8)) }
            #expect(scans.wanted.count <= 2 * 5 + Limits.scansPerSessionMax)
        }
        #expect(scans.wantedCount == 1)
        #expect(scans.nextWanted()?.filter == Array("999/4".utf8))
        #expect(scans.nextWanted() == nil)
    }

    private func query(_ filter: String) -> RetainedQuery {
        RetainedQuery(
            filter: Array(filter.utf8), shard: 0, sessionIndex: 0, sessionKey: 256,
            terms: SubscriptionTerms(maximumQoS: .atMostOnce),
            stamp: 0)
    }

    @Test func `a session's end is told to the shards that scan for it, and to no other`() {
        let broker = broker(shards: 4, retained: 20)
        let client = broker.connected("client")
        client.subscribe("r/+")
        let core = broker.cores[broker.shard(of: "client")]
        guard let session = core.sessions.find("client") else {
            Issue.record("the client has no session")
            return
        }
        core.scanning.cancelScans(of: session)
        #expect(core.outgoingBytes == 0)
        client.beginSubscribe([Subscription(filter: "r/#"), Subscription(filter: "r/1")])
        while core.scans.isEmpty, broker.step() {}
        let asked = core.scans.sessions.first?.parts ?? []
        #expect(asked.contains { $0 > 0 })
        core.scanning.cancelScans(of: session)
        for shard in asked.indices { #expect(core.shardMessages.isThere(for: shard) == (asked[shard] > 0)) }
        broker.settle()
        #expect(broker.cores.allSatisfy { $0.scans.isEmpty })
    }

    @Test func `notes of changed topics are bounded, and the latest are kept`() {
        var arrivals = RetainedArrivals()
        let stamp = arrivals.stamp(now: 0)
        let count = UInt64(Limits.arrivalsRememberedMax)
        for topic in 0..<(3 * count) {
            arrivals.record(topic: topic, now: 1)
            if topic % 1000 == 0 { #expect(arrivals.rememberedCount <= 2 * Int(count)) }
        }
        #expect(arrivals.rememberedCount <= 2 * Int(count))
        #expect(arrivals.isOutdated(topic: 3 * count - 1, stamp: stamp))
        #expect(arrivals.isOutdated(topic: 2 * count, stamp: stamp))
    }
}

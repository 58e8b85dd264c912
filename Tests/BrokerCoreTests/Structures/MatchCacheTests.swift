import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

@Suite struct MatchCacheTests {
    private let universe = TopicUniverse.small

    /// A tree, a cache and sessions, as a shard has them.
    private struct Bench: ~Copyable {
        var tree = SubscriptionTree(hashing: TopicHash(seed: 41))
        var cache = MatchCache(hashing: TopicHash(seed: 41))
        var table = SessionTable(shard: 0, ofBroker: SimulatedSessionCount())
        var sessions: [Session] = []

        init(sessions count: Int) {
            for number in 0..<count {
                sessions.append(table.make(EncodedString(checked: number), publisherKey: UInt64(number) + 1))
            }
        }

        mutating func subscribe(_ subscriber: Subscriber, _ filter: [UInt8], _ terms: SubscriptionTerms) -> UInt32 {
            filter.withUnsafeBytes { tree.insert($0, subscriber: subscriber, terms: terms).record }
        }

        mutating func matches(of topic: [UInt8]) -> Matches {
            topic.withUnsafeBytes { cache.matches(of: $0, in: &tree, sessions: table).object }
        }
    }

    /// What a session should get of a topic: the oracle.
    private struct Expected: Equatable {
        var maximumQoS = QoS.atMostOnce
        var retainAsPublished = false
        var identifiers: [UInt32] = []

        init?(_ terms: [SubscriptionTerms]) {
            guard !terms.isEmpty else { return nil }
            maximumQoS = terms.map { $0.maximumQoS }.max() ?? .atMostOnce
            retainAsPublished = terms.contains { $0.retainAsPublished }
            identifiers = terms.map { $0.identifier }.filter { $0 != 0 }.sorted()
        }

        init?(_ terms: RouteDetail.Terms?) {
            guard let terms else { return nil }
            maximumQoS = terms.maximumQoS
            retainAsPublished = terms.retainAsPublished
            identifiers = terms.identifiers.sorted()
        }

        init(_ route: Route) {
            maximumQoS = route.maximumQoS
            retainAsPublished = route.retainAsPublished
        }
    }

    @Test(
        .statement("MQTT-3.3.4-2", .v5), .statement("MQTT-3.3.4-4", .v5), .statement("MQTT-3.8.3-3", .v5),
        arguments: [UInt64(42), 43, 44])
    func `routes hold each session once with all that its subscriptions grant`(seed: UInt64) {
        struct Key: Hashable {
            let filter: Int
            let subscriber: Subscriber
        }
        var random = SeededGenerator(seed: seed)
        var bench = Bench(sessions: 5)
        var oracle: [Key: (record: UInt32, terms: SubscriptionTerms)] = [:]
        for step in 0..<5000 {
            let key = Key(filter: random.below(universe.filters.count), subscriber: Self.subscriber(&random))
            if random.below(10) < ((step / 1000) % 2 == 0 ? 4 : 1) {
                let terms = Self.terms(&random)
                oracle[key] = (bench.subscribe(key.subscriber, universe.filters[key.filter].bytes, terms), terms)
            } else if let held = oracle.removeValue(forKey: key) {
                bench.tree.remove(held.record)
            }
            let topic = random.below(universe.topics.count)
            let matches = bench.matches(of: universe.topics[topic].bytes)
            let matching = oracle.filter { universe.matches[$0.key.filter][topic] }
            let bySubscriber = Dictionary(grouping: matching, by: { $0.key.subscriber }).mapValues { $0.map { $0.value.terms } }
            let sessions = bySubscriber.filter { $0.key.isSession }
            #expect(matches.routeCount == sessions.count)
            #expect(Set(matches.groups) == Set(bySubscriber.keys.filter { !$0.isSession && !$0.isShard }.map { $0.index }))
            #expect(matches.shards == bySubscriber.keys.filter { $0.isShard }.reduce(UInt64(0)) { $0 | 1 << UInt64($1.index) })
            for position in 0..<matches.routeCount {
                let route = matches.routes[position]
                let granted = sessions[.session(route.session.object.index)] ?? []
                #expect(Expected(route).maximumQoS == Expected(granted)?.maximumQoS)
                #expect(Expected(route).retainAsPublished == Expected(granted)?.retainAsPublished)
                let needsDetail = granted.contains { $0.noLocal || $0.identifier != 0 }
                #expect((route.detail != nil) == needsDetail)
                guard let detail = route.detail?.object else { continue }
                #expect(Expected(detail.all) == Expected(granted))
                #expect(Expected(detail.own) == Expected(granted.filter { !$0.noLocal }))
            }
        }
    }

    @Test func `a topic that has lost its many receivers keeps no room for them`() {
        var bench = Bench(sessions: 1000)
        let topic = Array("a".utf8)
        let records = bench.sessions.map { session in
            bench.subscribe(.session(session.index), topic, SubscriptionTerms(maximumQoS: .atMostOnce))
        }
        #expect(bench.matches(of: topic).routeCapacity >= 1000)
        for record in records { bench.tree.remove(record) }
        let matches = bench.matches(of: topic)
        #expect(matches.isEmpty && matches.routeCapacity <= Limits.idleRoutesPerTopicMax)
    }

    @Test func `a stale place among routes is not taken for another session's`() {
        var bench = Bench(sessions: 2)
        // The chain is walked from the newest: session 0 stands first, and session 1 has a place from 2^32 walks ago.
        _ = bench.subscribe(.session(1), Array("a".utf8), SubscriptionTerms(maximumQoS: .atMostOnce))
        _ = bench.subscribe(.session(0), Array("a".utf8), SubscriptionTerms(maximumQoS: .atMostOnce))
        bench.sessions[1].route.buildNumber = 1
        bench.sessions[1].route.position = 0
        let matches = bench.matches(of: Array("a".utf8))
        #expect(matches.routeCount == 2)
    }

    @Test func `a topic that did not change is not looked up again`() {
        var bench = Bench(sessions: 1)
        _ = bench.subscribe(.session(0), Array("a/b".utf8), SubscriptionTerms(maximumQoS: .atMostOnce))
        let first = bench.matches(of: Array("a/b".utf8))
        let stamp = first.stamp
        _ = bench.subscribe(.session(0), Array("other/b".utf8), SubscriptionTerms(maximumQoS: .atMostOnce))
        let second = bench.matches(of: Array("a/b".utf8))
        #expect(first === second)
        #expect(second.stamp == stamp)
        _ = bench.subscribe(.session(0), Array("+/x".utf8), SubscriptionTerms(maximumQoS: .atMostOnce))
        let third = bench.matches(of: Array("a/b".utf8))
        #expect(third.stamp != stamp)
    }

    @Test func `as many topics as half the lines hardly drive each other out`() {
        var bench = Bench(sessions: 1)
        _ = bench.subscribe(.session(0), Array("+/x".utf8), SubscriptionTerms(maximumQoS: .atMostOnce))
        let topics = (0..<MatchCache.lineCount / 2).map { Array("\($0)/x".utf8) }
        let lines = topics.map { ObjectIdentifier(bench.matches(of: $0)) }
        let shared = lines.count - Set(lines).count
        #expect(shared < lines.count / 10, "\(shared) of \(lines.count) topics have lost their lines")
        let kept = zip(topics, lines).count { topic, line in ObjectIdentifier(bench.matches(of: topic)) == line }
        #expect(kept > lines.count * 8 / 10)
    }

    @Test func `topics longer than a line's are matched without being kept`() {
        var bench = Bench(sessions: 2)
        let long = [UInt8](repeating: UInt8(ascii: "t"), count: Limits.cachedTopicBytesMax + 1)
        let record = bench.subscribe(.session(1), long, SubscriptionTerms(maximumQoS: .atLeastOnce))
        let subscribed = bench.matches(of: long).routeCount
        #expect(subscribed == 1)
        let other = bench.matches(of: long + [UInt8(ascii: "u")]).routeCount
        #expect(other == 0)
        let again = bench.matches(of: long).routeCount
        #expect(again == 1)
        bench.tree.remove(record)
        let afterwards = bench.matches(of: long).routeCount
        #expect(afterwards == 0)
    }

    @Test func `more topics than lines are matched right, each time`() {
        var bench = Bench(sessions: 3)
        _ = bench.subscribe(.session(0), Array("+/even".utf8), SubscriptionTerms(maximumQoS: .atMostOnce))
        for round in 0..<2 {
            for number in 0..<MatchCache.lineCount * 3 / 2 {
                let count = bench.matches(of: Array("\(number)/\(number % 2 == 0 ? "even" : "odd")".utf8)).routeCount
                guard count != 1 - number % 2 else { continue }
                Issue.record("round \(round), topic \(number): \(count) routes")
            }
        }
    }

    private static func subscriber(_ random: inout SeededGenerator) -> Subscriber {
        switch random.below(8) {
        case 0: .group(UInt32(random.below(3)))
        case 1: .shard(random.below(64))
        default: .session(UInt32(random.below(5)))
        }
    }

    private static func terms(_ random: inout SeededGenerator) -> SubscriptionTerms {
        SubscriptionTerms(
            maximumQoS: QoS(rawValue: UInt8(random.below(3))) ?? .atMostOnce, noLocal: random.oneIn(3),
            retainAsPublished: random.oneIn(3), identifier: random.oneIn(2) ? 0 : UInt32(1 + random.below(300)))
    }
}

extension EncodedString {
    fileprivate init(checked number: Int) { self = EncodedString(Array("client\(number)".utf8)) ?? "client" }
}

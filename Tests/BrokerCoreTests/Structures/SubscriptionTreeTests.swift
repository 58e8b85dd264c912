import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

@Suite struct SubscriptionTreeTests {
    private let universe = TopicUniverse.small
    private let terms = SubscriptionTerms(maximumQoS: .atLeastOnce)

    @Test(.statement("MQTT-4.7.3-4", .v5))
    func `every filter alone matches what the oracle says`() {
        for (position, filter) in universe.filters.enumerated() {
            var tree = SubscriptionTree(hashing: TopicHash(seed: 1))
            let record = filter.bytes.withUnsafeBytes { tree.insert($0, subscriber: .session(0), terms: terms).record }
            for (topicPosition, topic) in universe.topics.enumerated() {
                let found = tree.matching(topic.bytes)
                #expect(found == (universe.matches[position][topicPosition] ? [record] : []), "\(filter) \(topic.text)")
            }
            tree.remove(record)
            tree.checkInvariants(records: [])
        }
    }

    @Test(.statement("MQTT-4.7.2-1", .v5))
    func `all filters together match what the oracle says, and their texts come back`() {
        var tree = SubscriptionTree(hashing: TopicHash(seed: 2))
        var records: [UInt32] = []
        for filter in universe.filters {
            records.append(filter.bytes.withUnsafeBytes { tree.insert($0, subscriber: .session(7), terms: terms).record })
        }
        #expect(Set(records).count == universe.filters.count)
        for (position, topic) in universe.topics.enumerated() {
            let expected = universe.filtersMatching(position).map { records[$0] }.sorted()
            #expect(tree.matching(topic.bytes) == expected, "\(topic.text)")
        }
        for (position, filter) in universe.filters.enumerated() { #expect(tree.filter(of: records[position]) == filter.bytes) }
        tree.checkInvariants(records: records)
        var random = SeededGenerator(seed: 2)
        for record in records.shuffled(using: &random) { tree.remove(record) }
        tree.checkInvariants(records: [])
    }

    @Test(arguments: [UInt64(11), 12, 13])
    func `thousands of random steps agree with a dictionary`(seed: UInt64) {
        struct Key: Hashable {
            let filter: Int
            let subscriber: Subscriber
        }
        var random = SeededGenerator(seed: seed)
        var tree = SubscriptionTree(hashing: TopicHash(seed: seed))
        var oracle: [Key: (record: UInt32, terms: SubscriptionTerms)] = [:]
        for step in 0..<6000 {
            let growing = (step / 1500) % 2 == 0
            let key = Key(filter: random.below(universe.filters.count), subscriber: Self.subscriber(&random))
            let bytes = universe.filters[key.filter].bytes
            let known = bytes.withUnsafeBytes { tree.find($0, subscriber: key.subscriber) }
            #expect(known == oracle[key]?.record ?? SubscriptionRecord.none)
            if random.below(10) < (growing ? 7 : 2) {
                let terms = SubscriptionTerms(
                    maximumQoS: .exactlyOnce, noLocal: random.oneIn(2), identifier: UInt32(random.below(9)))
                let (record, isNew) = bytes.withUnsafeBytes { tree.insert($0, subscriber: key.subscriber, terms: terms) }
                #expect(isNew == (oracle[key] == nil))
                oracle[key] = (record, terms)
            } else if let held = oracle.removeValue(forKey: key) {
                tree.remove(held.record)
            }
            guard random.oneIn(20) else { continue }
            let topic = random.below(universe.topics.count)
            let expected = oracle.filter { universe.matches[$0.key.filter][topic] }.map { $0.value.record }.sorted()
            #expect(tree.matching(universe.topics[topic].bytes) == expected)
            let hasSession = bytes.withUnsafeBytes { tree.hasSession($0) }
            #expect(hasSession == oracle.keys.contains { $0.filter == key.filter && $0.subscriber.isSession })
            if random.oneIn(20) { tree.checkInvariants(records: oracle.values.map { $0.record }) }
        }
        for (record, terms) in oracle.values { #expect(tree.records[record].terms == terms) }
        tree.checkInvariants(records: oracle.values.map { $0.record })
        for (record, _) in oracle.values { tree.remove(record) }
        tree.checkInvariants(records: [])
        #expect(tree.levels.count == 0)
        #expect(tree.edges.count == 0)
        #expect(tree.nodes.count == 1)
    }

    @Test(.statement("MQTT-3.8.4-3", .v5))
    func `a subscription to the same filter replaces the terms and keeps the record`() {
        var tree = SubscriptionTree(hashing: TopicHash(seed: 3))
        let other = SubscriptionTerms(maximumQoS: .exactlyOnce, noLocal: true, retainAsPublished: true, identifier: 268_435_455)
        let filter = Array("a/+/c".utf8)
        let first = filter.withUnsafeBytes { tree.insert($0, subscriber: .session(1), terms: terms) }
        let second = filter.withUnsafeBytes { tree.insert($0, subscriber: .session(1), terms: other) }
        #expect(first.isNew)
        #expect(!second.isNew)
        #expect(first.record == second.record)
        #expect(tree.records[first.record].terms == other)
        tree.checkInvariants(records: [first.record])
    }

    @Test func `interest of groups and shards is no session's`() {
        var tree = SubscriptionTree(hashing: TopicHash(seed: 4))
        let filter = Array("a/#".utf8)
        let records = filter.withUnsafeBytes { bytes in
            [Subscriber.group(3), .shard(63), .session(9)].map { tree.insert(bytes, subscriber: $0, terms: terms).record }
        }
        let whileSubscribed = filter.withUnsafeBytes { tree.hasSession($0) }
        #expect(whileSubscribed)
        tree.remove(records[2])
        let afterwards = filter.withUnsafeBytes { tree.hasSession($0) }
        #expect(!afterwards)
        let ofParent = Array("a".utf8).withUnsafeBytes { tree.hasSession($0) }
        #expect(!ofParent)
        tree.checkInvariants(records: Array(records[0...1]))
    }

    @Test func `subscribers of all three kinds keep their index`() {
        for subscriber in [Subscriber.session(0), .session(0xefff_ffff), .group(0), .group(12345), .shard(0), .shard(63)] {
            let kinds = [subscriber.isSession, subscriber.isShard]
            switch kinds {
            case [true, false]: #expect(subscriber == .session(subscriber.index))
            case [false, true]: #expect(subscriber == .shard(Int(subscriber.index)))
            default: #expect(subscriber == .group(subscriber.index))
            }
        }
    }

    @Test func `200 levels of which any may be a wildcard match and go again`() {
        var tree = SubscriptionTree(hashing: TopicHash(seed: 5))
        var random = SeededGenerator(seed: 5)
        let levels = (0..<200).map { "level\($0 % 7)" }
        let topic = Array(levels.joined(separator: "/").utf8)
        var expected: [UInt32] = []
        for _ in 0..<50 {
            var path = levels
            for position in path.indices where random.oneIn(3) { path[position] = "+" }
            if random.oneIn(2) { path = Array(path.prefix(random.below(200))) + ["#"] }
            let filter = Array(path.joined(separator: "/").utf8)
            expected.append(filter.withUnsafeBytes { tree.insert($0, subscriber: .session(1), terms: terms).record })
            #expect(tree.filter(of: expected[expected.count - 1]) == filter)
        }
        expected = Set(expected).sorted()
        #expect(tree.matching(topic) == expected)
        #expect(tree.matching(Array(topic.dropLast())).count < expected.count)
        tree.checkInvariants(records: expected)
        for record in expected { tree.remove(record) }
        tree.checkInvariants(records: [])
    }

    @Test func `200 levels with + beside each literal match in bounded memory`() {
        var tree = SubscriptionTree(hashing: TopicHash(seed: 6))
        let literal = Array(repeating: "a", count: 200)
        var records: [UInt32] = []
        for position in 0..<200 {
            var path = literal
            path[position] = "+"
            records.append(
                Array(path.joined(separator: "/").utf8).withUnsafeBytes {
                    tree.insert($0, subscriber: .session(0), terms: terms).record
                })
        }
        #expect(tree.matching(Array(literal.joined(separator: "/").utf8)) == records.sorted())
    }

    @Test func `levels of 65,535 bytes that differ in one byte are told apart`() {
        var tree = SubscriptionTree(hashing: TopicHash(seed: 7))
        let long = [UInt8](repeating: UInt8(ascii: "x"), count: 65_535)
        for position in [0, 1, 7, 8, 32_767, 65_527, 65_533, 65_534] {
            var other = long
            other[position] = UInt8(ascii: "y")
            let record = other.withUnsafeBytes { tree.insert($0, subscriber: .session(0), terms: terms).record }
            #expect(tree.matching(other) == [record])
            #expect(tree.matching(long) == [])
            #expect(tree.filter(of: record) == other)
            tree.remove(record)
        }
        tree.checkInvariants(records: [])
    }

    private static func subscriber(_ random: inout SeededGenerator) -> Subscriber {
        switch random.below(4) {
        case 0: .group(UInt32(random.below(2)))
        case 1: .shard(random.below(2))
        default: .session(UInt32(random.below(4)))
        }
    }
}

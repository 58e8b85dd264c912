import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

@Suite struct RetainedStoreTests {
    private let universe = TopicUniverse.small
    private let ledger = MessageLedger()

    @Test(.statement("MQTT-4.7.2-1", .v5), arguments: [1, 2, 1000])
    func `a scan finds exactly what the oracle says, however few its steps`(stepsAtOnce: Int) {
        var store = RetainedStore(hashing: TopicHash(seed: 31))
        for topic in universe.topics { store.set(StructureMessage.make(topic.bytes, ledger: ledger)) }
        store.checkInvariants(messages: universe.topics.count)
        for (position, filter) in universe.filters.enumerated() {
            let found = store.scanned(filter.bytes, stepsAtOnce: stepsAtOnce)
            #expect(Set(found) == Set(universe.topicsMatching(position).map { universe.topics[$0].bytes }), "\(filter)")
            #expect(Set(found).count == found.count, "\(filter) found a message twice")
        }
        for topic in universe.topics {
            let wasThere = topic.bytes.withUnsafeBytes { store.remove($0) }
            #expect(wasThere)
        }
        store.checkInvariants(messages: 0)
        #expect(store.byteCount == 0)
        #expect(ledger.count == 0)
    }

    @Test func `each topic alone is found by the filters that match it and by no other`() {
        for (topicPosition, topic) in universe.topics.enumerated() {
            var store = RetainedStore(hashing: TopicHash(seed: 32))
            store.set(StructureMessage.make(topic.bytes, ledger: ledger))
            for (position, filter) in universe.filters.enumerated() {
                let expected = universe.matches[position][topicPosition] ? [topic.bytes] : []
                #expect(store.scanned(filter.bytes) == expected, "\(filter) \(topic.text)")
            }
        }
        #expect(ledger.count == 0, "the store's end lets go of its messages")
    }

    @Test(.statement("MQTT-3.3.1-5", .v5), .statement("MQTT-3.3.1-6", .v5), arguments: [UInt64(33), 34])
    func `thousands of random steps agree with a dictionary`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var store = RetainedStore(hashing: TopicHash(seed: seed))
        var oracle: [Int: UInt8] = [:]
        for step in 0..<6000 {
            let topic = random.below(universe.topics.count)
            let bytes = universe.topics[topic].bytes
            if random.below(10) < ((step / 1500) % 2 == 0 ? 7 : 2) {
                let payload = UInt8.random(in: 0...255, using: &random)
                store.set(StructureMessage.make(bytes, payload: [payload], ledger: ledger))
                oracle[topic] = payload
            } else {
                let wasThere = bytes.withUnsafeBytes { store.remove($0) }
                #expect(wasThere == (oracle.removeValue(forKey: topic) != nil))
            }
            let found = bytes.withUnsafeBytes { store.find($0) }
            #expect(found.map { Array($0.payload) } == oracle[topic].map { [$0] })
            #expect(store.count == oracle.count)
            guard random.oneIn(50) else { continue }
            let filter = random.below(universe.filters.count)
            let expected = Set(universe.topicsMatching(filter).filter { oracle[$0] != nil }.map { universe.topics[$0].bytes })
            #expect(Set(store.scanned(universe.filters[filter].bytes)) == expected)
            store.checkInvariants(messages: oracle.count)
        }
        #expect(store.byteCount == oracle.keys.reduce(0) { $0 + universe.topics[$1].bytes.count + 1 })
        #expect(ledger.count == oracle.count)
        for topic in oracle.keys { _ = universe.topics[topic].bytes.withUnsafeBytes { store.remove($0) } }
        store.checkInvariants(messages: 0)
        #expect(ledger.count == 0)
    }

    @Test(arguments: [UInt64(35), 36, 37, 38])
    func `scans over many turns find what stayed and nothing that came later`(seed: UInt64) {
        struct Walk {
            let filter: Int
            var scan: RetainedScan
            /// What was retained when it began; what changes meanwhile is taken out.
            var unchanged: Set<Int>
            let atStart: Set<Int>
            var found: [Int] = []
        }
        var random = SeededGenerator(seed: seed)
        var store = RetainedStore(hashing: TopicHash(seed: seed))
        let positions = Dictionary(uniqueKeysWithValues: universe.topics.enumerated().map { ($1.bytes, $0) })
        var retained: Set<Int> = []
        var walks: [Walk] = []
        for _ in 0..<8000 {
            let topic = random.below(universe.topics.count)
            switch random.below(12) {
            case 0...1:
                store.set(StructureMessage.make(universe.topics[topic].bytes, ledger: ledger))
                retained.insert(topic)
                for walk in walks.indices { walks[walk].unchanged.remove(topic) }
            case 2...3:
                _ = universe.topics[topic].bytes.withUnsafeBytes { store.remove($0) }
                retained.remove(topic)
                for walk in walks.indices { walks[walk].unchanged.remove(topic) }
            case 4 where walks.count < 3:
                let filter = random.below(universe.filters.count)
                let scan = universe.filters[filter].bytes.withUnsafeBytes { RetainedScan(filter: $0, store: store) }
                walks.append(Walk(filter: filter, scan: scan, unchanged: retained, atStart: retained))
            default:
                guard !walks.isEmpty else { continue }
                let walk = random.below(walks.count)
                var steps = 1 + random.below(3)
                switch walks[walk].scan.next(in: &store, steps: &steps) {
                case .message(let message): walks[walk].found.append(positions[Array(message.topic)] ?? -1)
                case .pause: #expect(steps == 0)
                case .finished:
                    let ended = walks.remove(at: walk)
                    let matching = universe.topicsMatching(ended.filter)
                    #expect(Set(ended.found).count == ended.found.count, "a message was found twice")
                    #expect(ended.unchanged.intersection(matching).isSubset(of: ended.found), "a message was passed over")
                    #expect(Set(ended.found).isSubset(of: ended.atStart.intersection(matching)), "a later message was found")
                    store.checkInvariants(messages: retained.count)
                }
            }
        }
        store.checkInvariants(messages: retained.count)
        for walk in walks.indices { walks[walk].scan.end(in: &store) }
        #expect((0..<UInt32(store.nodes.end)).allSatisfy { store.nodes[$0].scans == 0 })
        store.checkInvariants(messages: retained.count)
    }

    @Test func `a scan whose receiver does not read keeps its place, and nothing else that is removed`() {
        var store = RetainedStore(hashing: TopicHash(seed: 39))
        for topic in 0..<100 { store.set(StructureMessage.make("a/\(topic)/b", ledger: ledger)) }
        var scan = Array("#".utf8).withUnsafeBytes { RetainedScan(filter: $0, store: store) }
        var steps = 50
        while case .message = scan.next(in: &store, steps: &steps) {}
        // What comes and goes while it stands still leaves nothing behind.
        for round in 0..<1000 {
            store.set(StructureMessage.make("new/\(round)", ledger: ledger))
            _ = Array("new/\(round)".utf8).withUnsafeBytes { store.remove($0) }
        }
        #expect(store.nodes.count <= 202)
        for topic in 0..<100 { _ = Array("a/\(topic)/b".utf8).withUnsafeBytes { store.remove($0) } }
        #expect(store.nodes.count <= 5)
        store.checkInvariants(messages: 0)
        steps = 50
        while case .message = scan.next(in: &store, steps: &steps) { Issue.record("it was removed") }
        store.checkInvariants(messages: 0)
        #expect(store.nodes.count == 1)
    }

    @Test func `a scan that is cancelled gives up its place`() {
        var store = RetainedStore(hashing: TopicHash(seed: 41))
        for topic in ["a/b/c", "a/d", "e"] { store.set(StructureMessage.make(topic, ledger: ledger)) }
        for stepCount in 1...8 {
            var scan = Array("#".utf8).withUnsafeBytes { RetainedScan(filter: $0, store: store) }
            var steps = stepCount
            while case .message = scan.next(in: &store, steps: &steps) {}
            scan.end(in: &store)
        }
        for topic in ["a/b/c", "a/d", "e"] { _ = Array(topic.utf8).withUnsafeBytes { store.remove($0) } }
        store.checkInvariants(messages: 0)
        #expect(store.nodes.count == 1)
    }

    @Test func `200 levels are kept, found and removed`() {
        var store = RetainedStore(hashing: TopicHash(seed: 40))
        let topic = (0..<200).map { "l\($0)" }.joined(separator: "/")
        store.set(StructureMessage.make(topic, ledger: ledger))
        #expect(store.scanned(Array("#".utf8), stepsAtOnce: 7) == [Array(topic.utf8)])
        #expect(store.scanned(Array(repeating: "+", count: 200).joined(separator: "/").utf8.map { $0 }) == [Array(topic.utf8)])
        #expect(store.scanned(Array(repeating: "+", count: 199).joined(separator: "/").utf8.map { $0 }) == [])
        let wasThere = Array(topic.utf8).withUnsafeBytes { store.remove($0) }
        #expect(wasThere)
        store.checkInvariants(messages: 0)
    }
}

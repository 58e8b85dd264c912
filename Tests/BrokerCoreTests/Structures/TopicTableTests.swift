import MQTTCodec
import TestBasics
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// The hash tables behind the trees of topics, against Swift's own.
@Suite struct TopicTableTests {
    @Test func `a level hashes alike however its empty memory is written down`() {
        let hashing = TopicHash(seed: 9)
        let bytes: [UInt8] = [1]
        let empty = bytes.withUnsafeBytes { hashing.hash(UnsafeRawBufferPointer(rebasing: $0[0..<0])) }
        #expect(hashing.hash(UnsafeRawBufferPointer(start: nil, count: 0)) == empty)
    }

    @Test func `the hash tells apart texts that differ in length or in any one byte`() {
        let hashing = TopicHash(seed: 0x1234_5678_9abc_def1)
        var seen: Set<UInt64> = []
        var count = 0
        for length in 0..<40 {
            var text = [UInt8](repeating: UInt8(ascii: "a"), count: length)
            seen.insert(text.withUnsafeBytes { hashing.hash($0) })
            count += 1
            for position in 0..<length {
                text[position] = UInt8(ascii: "b")
                seen.insert(text.withUnsafeBytes { hashing.hash($0) })
                text[position] = UInt8(ascii: "a")
                count += 1
            }
        }
        #expect(seen.count == count)
    }

    @Test func `the hash is that of a store that was written before, whichever way its last bytes are read`() {
        let hashing = TopicHash(seed: 0x1234_5678_9abc_def1)
        let bytes = (0..<64).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 11) }
        for count in 1...40 {
            for start in 0..<8 {
                let text = Array(bytes[start..<start + count])
                #expect(text.withUnsafeBytes { hashing.hash($0) } == Self.plainHash(text, seed: hashing.seed))
            }
        }
    }

    /// Eight bytes at a time, little end first; then those that are left, one by one.
    private static func plainHash(_ text: [UInt8], seed: UInt64) -> UInt64 {
        let multiplier: UInt64 = 0x9e37_79b9_7f4a_7c15
        var state = seed ^ UInt64(text.count)
        var rest = text[...]
        while rest.count >= 8 {
            let word = rest.prefix(8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            state = TopicHash.mix(state ^ word, multiplier)
            rest = rest.dropFirst(8)
        }
        return TopicHash.mix(state ^ rest.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }, multiplier &+ state)
    }

    @Test func `levels of a topic are what splitting gives`() {
        for topic in TopicUniverse.small.topics {
            var levels: [[UInt8]] = []
            topic.bytes.withUnsafeBytes { bytes in
                var sequence = LevelSequence(bytes)
                while let level = sequence.next() { levels.append(Array(level)) }
            }
            #expect(levels == topic.bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map(Array.init))
        }
    }

    @Test(arguments: [UInt64(21), 22])
    func `LevelTable agrees with a dictionary of counts`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var table = LevelTable(hashing: TopicHash(seed: seed))
        var oracle: [String: (identifier: UInt32, references: Int)] = [:]
        for step in 0..<12_000 {
            let number = random.below(step < 6000 ? 1000 : 60)
            let text = number == 0 ? "" : String(repeating: "x", count: number % 19) + String(number)
            let bytes = Array(text.utf8)
            let found = bytes.withUnsafeBytes { table.find($0) }
            #expect(found == oracle[text]?.identifier ?? LevelTable.none)
            if random.below(10) < (step < 4000 ? 8 : 4) {
                let identifier = bytes.withUnsafeBytes { table.retain($0) }
                #expect(oracle[text].map { $0.identifier == identifier } ?? true)
                oracle[text] = (identifier, (oracle[text]?.references ?? 0) + 1)
            } else if let held = oracle[text] {
                #expect(Array(table.text(of: held.identifier)) == bytes)
                table.release(held.identifier)
                oracle[text] = held.references == 1 ? nil : (held.identifier, held.references - 1)
            }
            #expect(table.count == oracle.count)
        }
        #expect(Set(oracle.values.map { $0.identifier }).count == oracle.count)
        for (identifier, references) in oracle.values {
            for _ in 0..<references { table.release(identifier) }
        }
        #expect(table.count == 0)
        let gone = Array("x1".utf8).withUnsafeBytes { table.find($0) }
        #expect(gone == LevelTable.none)
    }

    @Test(arguments: [UInt64(23), 24])
    func `EdgeTable agrees with a dictionary while it grows and closes gaps`(seed: UInt64) {
        struct Key: Hashable {
            let parent: UInt32
            let level: UInt32
        }
        var random = SeededGenerator(seed: seed)
        var table = EdgeTable(hashing: TopicHash(seed: seed))
        var oracle: [Key: UInt32] = [:]
        for step in 0..<20_000 {
            let key = Key(parent: UInt32(random.below(40)), level: UInt32(random.below(40)))
            #expect(table.child(of: key.parent, level: key.level) == oracle[key] ?? EdgeTable.none)
            if oracle[key] == nil {
                guard random.below(10) < ((step / 5000) % 2 == 0 ? 8 : 2) else { continue }
                table.insert(parent: key.parent, level: key.level, child: UInt32(step))
                oracle[key] = UInt32(step)
            } else if random.below(10) < 5 {
                table.remove(parent: key.parent, level: key.level)
                oracle[key] = nil
            }
            #expect(table.count == oracle.count)
        }
        for (key, child) in oracle { #expect(table.child(of: key.parent, level: key.level) == child) }
        for key in oracle.keys { table.remove(parent: key.parent, level: key.level) }
        #expect(table.count == 0)
        for parent in 0..<40 {
            for level in 0..<40 { #expect(table.child(of: UInt32(parent), level: UInt32(level)) == EdgeTable.none) }
        }
    }

    @Test func `SubscriptionIndex agrees with a dictionary while it grows and closes gaps`() {
        struct Key: Hashable {
            let node: UInt32
            let subscriber: UInt32
        }
        var random = SeededGenerator(seed: 25)
        var table = SubscriptionIndex(hashing: TopicHash(seed: 25))
        var records = Pool<SubscriptionRecord>()
        var oracle: [Key: UInt32] = [:]
        for step in 0..<20_000 {
            let key = Key(node: UInt32(random.below(30)), subscriber: UInt32(random.below(30)))
            let subscriber = Subscriber(rawValue: key.subscriber)
            #expect(table.find(node: key.node, subscriber: subscriber, in: records.base) == oracle[key] ?? SubscriptionRecord.none)
            if let held = oracle[key] {
                guard random.oneIn(2) else { continue }
                table.remove(held, in: records.base)
                records.remove(held)
                oracle[key] = nil
            } else if random.below(10) < ((step / 5000) % 2 == 0 ? 8 : 2) {
                let record = records.insert(
                    SubscriptionRecord(
                        node: key.node, subscriber: subscriber, terms: SubscriptionTerms(bits: 0), nextOfNode: 0))
                table.insert(record, in: records.base)
                oracle[key] = record
            }
            #expect(table.count == oracle.count)
        }
        for held in oracle.values { table.remove(held, in: records.base) }
        #expect(table.count == 0)
    }

    @Test(arguments: [UInt64(26), 27])
    func `PacketIdentifierSet agrees with a set`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var set = PacketIdentifierSet()
        var oracle: [UInt16: UInt32] = [:]
        for step in 0..<20_000 {
            // Near the end of the numbers and near their start, so that probes wrap around.
            let identifier = UInt16(truncatingIfNeeded: 65_300 + random.below(step < 10_000 ? 1500 : 40))
            guard identifier != 0 else {
                // No identifier, and none of a free place.
                let wasThere = set.remove(0)
                #expect(!wasThere && !set.contains(0) && set.count == oracle.count)
                continue
            }
            #expect(set.contains(identifier) == (oracle[identifier] != nil))
            #expect(set.digest(of: identifier) == oracle[identifier] ?? 0)
            if random.below(10) < ((step / 5000) % 2 == 0 ? 7 : 3) {
                let isNew = set.insert(identifier, digest: UInt32(step))
                #expect(isNew == (oracle.updateValue(UInt32(step), forKey: identifier) == nil))
            } else {
                let wasThere = set.remove(identifier)
                #expect(wasThere == (oracle.removeValue(forKey: identifier) != nil))
            }
            #expect(set.count == oracle.count)
        }
        for identifier in oracle.keys {
            let wasThere = set.remove(identifier)
            #expect(wasThere)
        }
        #expect(set.count == 0)
        set.removeAll()
    }

    @Test func `PacketIdentifierSet takes all 65,535 identifiers`() {
        var set = PacketIdentifierSet()
        for identifier in UInt16(1)...UInt16.max { _ = set.insert(identifier) }
        #expect(set.count == 65_535)
        var missing = 0
        // From the highest down: a removal walks to the end of its run.
        for identifier in (UInt16(1)...UInt16.max).reversed() where !set.remove(identifier) { missing += 1 }
        #expect(missing == 0)
        #expect(set.count == 0)
        #expect(set.capacity == 0, "a large block goes when the set is empty")
        _ = set.insert(1)
        #expect(set.capacity > 0)
        set.removeAll()
        #expect(set.capacity == 0)
    }

    @Test func `subscription terms fit into 32 bits and come back`() {
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            for flags in 0..<4 {
                for identifier in [UInt32(0), 1, 268_435_455] {
                    let terms = SubscriptionTerms(
                        maximumQoS: qos, noLocal: flags & 1 == 1, retainAsPublished: flags & 2 == 2, identifier: identifier)
                    let back = SubscriptionTerms(bits: terms.bits)
                    #expect(back.maximumQoS == qos)
                    #expect(back.noLocal == (flags & 1 == 1))
                    #expect(back.retainAsPublished == (flags & 2 == 2))
                    #expect(back.identifier == identifier)
                }
            }
        }
    }
}
